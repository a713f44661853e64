/* SPDX-License-Identifier: MIT */
/* pictures.h - PNG and JPEG files of a folder, where this build has libpng and libjpeg. */
#ifndef ZN_CLI_PICTURES_H
#define ZN_CLI_PICTURES_H

#include "../zenith.h"

bool pictures_supported(void);

/* Calls each() for every picture of the folder that can be read, in the order of names; *data is freed after
 * it. Returns how many there were, or -1 if the folder cannot be read; each() returns false to stop. */
int pictures_read(const char *folder, bool (*each)(void *cookie, const char *name, const zn_array *picture),
                  void *cookie);

#endif
