/* SPDX-License-Identifier: MIT */
/* op-blend.h - strength, luma, chroma and detail, applied to what the network changed.
 *
 *   out = in + luma * (l - detail * fine (l)) + chroma * (change - l)
 *
 * change is the network's output minus its input, l the lightness of that, fine (l) is l minus its
 * 5 x 5 binomial mean; luma and chroma are the task's times its strength, which counts as 1 above
 * 1: there fine differences in the network's output shrink.  Values that the network could not see
 * (below 0, above 1) keep what is beyond; NaN becomes the network's output. */

#ifndef __ZENITH_OP_BLEND_H__
#define __ZENITH_OP_BLEND_H__

#include "op-common.h"

typedef struct
{
  const ZnOpTiled *task;
  zn_rect          rect;   /* of change: at least the pixels to blend and */
  const gfloat    *change; /* zn_op_blend_reach() around them; what the network changed */
} ZnOpBlend;

/* The most that zn_op_blend_reach() gives. */
#define ZN_OP_BLEND_REACH 2

/* How far around a pixel these properties look. */
gint zn_op_blend_reach (const ZnOpTiled *task);

/* A ZnOpStripFunc, its data a ZnOpBlend. */
void zn_op_blend_strip (gpointer data, zn_rect strip, zn_rect all, gfloat *pixels, gint components);

#endif
