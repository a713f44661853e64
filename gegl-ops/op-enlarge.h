/* SPDX-License-Identifier: MIT */
/* op-enlarge.h - buffers of operations whose result is larger than their input. */

#ifndef __ZENITH_OP_ENLARGE_H__
#define __ZENITH_OP_ENLARGE_H__

#include "op-common.h"

/* A zn_source's read function: what zn_enlarge_see() sees of the picture. */
bool zn_op_enlarge_read (void *picture, zn_rect rect, float *dst);

/* Writes part `want` of the result, whose corner is the picture's times the scale.  change: what the
 * network changed, of at least that part; NULL: a plain enlargement. */
void zn_op_enlarge_write (const ZnOpPicture *picture,
                          GeglBuffer        *output,
                          const zn_grid     *grid,
                          zn_rect            want,
                          const zn_plane    *change);

#endif
