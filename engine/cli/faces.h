/* SPDX-License-Identifier: MIT */
/* faces.h - what `zenith find`, `zenith teach` and `zenith bench face-edit` share. */
#ifndef ZN_CLI_FACES_H
#define ZN_CLI_FACES_H

#include "../zenith.h"

/* zn_find_faces on an array. */
zn_status faces_in(zn_face *list, int max, int *n, zn_finder *finder, const zn_array *picture, zn_error *err);

#endif
