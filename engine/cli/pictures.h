/* SPDX-License-Identifier: MIT */
/* pictures.h - PNG and JPEG files of a folder, where this build has libpng and libjpeg. */
#ifndef ZN_CLI_PICTURES_H
#define ZN_CLI_PICTURES_H

#include "../zenith.h"

bool pictures_supported(void);

enum { WHY_SIZE = 160 };

/* What a file says of its pixels. */
typedef struct picture_info {
    int bits;               /* of a channel: 8 or 16; 0: nothing is known */
    unsigned char *profile; /* ICC, of RGB; NULL: sRGB */
    size_t profile_size;
    bool other_profile; /* there is one of other colours, as of a grey picture: it is not kept */
    int orientation;    /* EXIF's, 1 to 8: the pixels were turned by it */
} picture_info;

void picture_info_free(picture_info *info);

/* What EXIF data, from its header on, says; 1 if nothing.  Turning fails without memory. */
int exif_orientation(const unsigned char *exif, size_t size);
bool picture_turn(zn_array *picture, int orientation);

/* One file, upright; the caller frees out->data and info, which may be NULL.  ZN_OK, and why is empty or says what was lost; ZN_E_FILE, and why says the reason;
 * ZN_E_MEMORY; ZN_E_USAGE: it is no PNG or JPEG file by its name. */
zn_status picture_read(zn_array *out, picture_info *info, const char *path, char why[WHY_SIZE]);

/* The same, or a .npy file; the reason is a sentence with the name, and what was lost is printed. */
bool picture_load(zn_array *out, picture_info *info, const char *path, zn_error *err);

/* As PNG, where this build has libpng, or as PPM; info, which may be NULL: with its bits and, in PNG, its profile. */
bool picture_writes_png(void);
bool picture_write(const char *path, const zn_array *picture, const picture_info *info, bool png, zn_error *err);

/* Reads from the array, which must stay where it is. */
zn_source array_source(zn_array *a);

/* Takes a picture; its data are freed afterwards.  picture NULL: it cannot be read, and why says the reason.
 * False: no more pictures. */
typedef bool pictures_each(void *cookie, const char *name, const zn_array *picture, const char *why);

/* Calls each() for every picture of the folder, in the order of names.  ZN_E_FILE: the folder cannot be read;
 * ZN_E_MEMORY: there is not enough memory for a picture. */
zn_status pictures_read(const char *folder, pictures_each *each, void *cookie);

#endif
