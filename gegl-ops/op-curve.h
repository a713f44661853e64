/* SPDX-License-Identifier: MIT */
/* op-curve.h - sRGB's curve, for pictures that are linear in light.
 *
 * babl's takes most of the time of a slider's move on such a picture, and is only
 * rough above 8.  This one is right to 5e-7 of a value (of 1, for values below 1) for
 * all that a float can be: below 0 a straight line goes on, above 1 the curve itself;
 * infinity and NaN stay what they are.  A value's result does not depend on its place. */

#ifndef __ZENITH_OP_CURVE_H__
#define __ZENITH_OP_CURVE_H__

#include <glib.h>

/* Light to what networks see, and back, in place.  Components: 3, or 4 with alpha,
 * which is left alone. */
void zn_op_curve_encode (gfloat *pixels, gsize n_pixels, gint components);
void zn_op_curve_decode (gfloat *pixels, gsize n_pixels, gint components);

#endif
