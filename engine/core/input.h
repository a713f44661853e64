/* SPDX-License-Identifier: MIT */
/* input.h - how every file from outside is opened. */
#ifndef ZN_INPUT_H
#define ZN_INPUT_H

#include "status.h"

#include <sys/stat.h>

/* A descriptor of a regular file.  -1: errno says why, or is 0 for what is no regular file; *st tells more.  A pipe does
 * not hold us up. */
int zn_open_regular(const char *path, struct stat *st);

/* The sentence for errno after that. */
zn_status zn_open_fail(const char *label, zn_error *err);

#endif
