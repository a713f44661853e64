/* SPDX-License-Identifier: MIT */
/* op-face-contrast.h - corrects the contrast of a face that was drawn between two.
 *
 * A network draws more texture there than either face has, most of all where one of them is
 * plain and the other is not. */

#ifndef __ZENITH_OP_FACE_CONTRAST_H__
#define __ZENITH_OP_FACE_CONTRAST_H__

#include <glib.h>

/* dst: the drawn face at this position between two, all [side][side][3], 0..1.  In each
 * neighbourhood the contrast of its fine structure is moved towards the interpolated contrast of
 * the two; at 0 and 1 nothing is changed. */
void zn_op_face_level_contrast (gfloat       *dst,
                                const gfloat *drawn,
                                const gfloat *first,
                                const gfloat *second,
                                gint          side,
                                gdouble       position);

#endif
