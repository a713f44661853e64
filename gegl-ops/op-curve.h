/* SPDX-License-Identifier: MIT */
/* op-curve.h - sRGB's curve, for pictures that are linear in light.
 *
 * babl's takes most of the time of a slider's move on such a picture, and is inaccurate above 8.
 * The error of this one is at most 5e-7 of a value (of 1, for values below 1) for all floats: below
 * 0 it continues as a straight line, above 1 as the curve; infinity and NaN are unchanged.  A
 * value's result does not depend on its position. */

#ifndef __ZENITH_OP_CURVE_H__
#define __ZENITH_OP_CURVE_H__

#include <glib.h>

/* Light to what networks see, and back, in place.  Components: 3, or 4 with alpha,
 * which is left alone. */
void zn_op_curve_encode (gfloat *pixels, gsize n_pixels, gint components);
void zn_op_curve_decode (gfloat *pixels, gsize n_pixels, gint components);

#endif
