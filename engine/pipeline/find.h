/* SPDX-License-Identifier: MIT */
/* find.h - where weight files are looked for, for the files of this folder; the rest is in zenith.h. */
#ifndef ZN_FIND_H
#define ZN_FIND_H

#include "../core/status.h"

/* The weight file DIR/STEM.* ; false: there is none. */
bool zn_find_in(char *path, size_t size, const char *dir, const char *stem);

#endif
