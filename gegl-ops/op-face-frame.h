/* SPDX-License-Identifier: MIT */
/* op-face-frame.h - the frame of a face: a square in the picture, and its pixels at the
 * model's size. */

#ifndef __ZENITH_OP_FACE_FRAME_H__
#define __ZENITH_OP_FACE_FRAME_H__

#include "op-common.h"

typedef struct
{
  gdouble x, y;  /* its centre, from the picture's upper left corner */
  gdouble size;  /* side in pixels; 0: the largest square in the middle */
  gdouble angle; /* degrees, clockwise */
} ZnOpFrame;

typedef struct
{
  gdouble x, y, size, cos, sin;
} ZnOpSquare;

/* Part of a picture, [rect.h][rect.w][3]. */
typedef struct
{
  zn_rect rect;
  gfloat *pixels;
} ZnOpPart;

/* The frame in a picture of this size, or an error message. */
gboolean zn_op_square_get (ZnOpSquare      *square,
                           const ZnOpFrame *frame,
                           gint             width,
                           gint             height,
                           zn_error        *err);

/* The pixels of the picture that the frame touches. */
GeglRectangle zn_op_square_bounds (const ZnOpSquare *square, gint width, gint height);

/* The pixels are the caller's, to be freed with g_free(); NULL: no memory. */
ZnOpPart zn_op_part_read (const ZnOpPicture *picture, const GeglRectangle *rect);

/* The pixels of rect if the part's frame `from` were at `to`. */
ZnOpPart zn_op_part_warp (const ZnOpPart      *part,
                          const ZnOpSquare    *from,
                          const ZnOpSquare    *to,
                          const GeglRectangle *rect);

/* low [side][side][3], 0..1: the part in the frame. */
void zn_op_square_shrink (gfloat *low, gint side, const ZnOpSquare *square, const ZnOpPart *part);

/* The picture at a place, 0,0 being the first value's centre; n channels; beyond its
 * edges they go on. */
void zn_op_sample_cubic (gfloat       *dst,
                         const gfloat *src,
                         gint          width,
                         gint          height,
                         gint          n,
                         gdouble       x,
                         gdouble       y);

#endif
