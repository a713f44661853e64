/* SPDX-License-Identifier: MIT */
/* pictures.h - PNG and JPEG files of a folder, where this build has libpng and libjpeg. */
#ifndef ZN_CLI_PICTURES_H
#define ZN_CLI_PICTURES_H

#include "../zenith.h"

bool pictures_supported(void);

/* Calls each() for every picture of the folder, in the order of names, with NULL for one that cannot be read;
 * *data is freed after it.  Returns how many could be read, or -1 if the folder cannot; each() returns false
 * to stop. */
int pictures_read(const char *folder, bool (*each)(void *cookie, const char *name, const zn_array *picture),
                  void *cookie);

#endif
