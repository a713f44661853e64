/* SPDX-License-Identifier: MIT */
/* pictures.h - PNG and JPEG files of a folder, where this build has libpng and libjpeg. */
#ifndef ZN_CLI_PICTURES_H
#define ZN_CLI_PICTURES_H

#include "../zenith.h"

bool pictures_supported(void);

enum { WHY_SIZE = 160 };

/* One file; the caller frees out->data.  ZN_OK, and why is empty or says what was lost; ZN_E_FILE, and why says the reason;
 * ZN_E_MEMORY; ZN_E_USAGE: it is no PNG or JPEG file by its name. */
zn_status picture_read(zn_array *out, const char *path, char why[WHY_SIZE]);

/* The same, or a .npy file; the reason is a sentence with the name, and what was lost is printed. */
bool picture_load(zn_array *out, const char *path, zn_error *err);

/* 8 bits for each of three channels, as PNG, where this build has libpng, or as PPM. */
bool picture_writes_png(void);
bool picture_write(const char *path, const zn_array *picture, bool png, zn_error *err);

/* Reads from the array, which must stay where it is. */
zn_source array_source(zn_array *a);

/* Takes a picture; its data are freed afterwards.  picture NULL: it cannot be read, and why says the reason.
 * False: no more pictures. */
typedef bool pictures_each(void *cookie, const char *name, const zn_array *picture, const char *why);

/* Calls each() for every picture of the folder, in the order of names.  ZN_E_FILE: the folder cannot be read;
 * ZN_E_MEMORY: there is not enough memory for a picture. */
zn_status pictures_read(const char *folder, pictures_each *each, void *cookie);

#endif
