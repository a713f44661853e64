/* SPDX-License-Identifier: MIT */
/* zenith-pixels.h - pixels of 8 and 16 bits, rounded in one way.
 *
 * babl takes the conversion that was fastest when it tried them, or one that an earlier process
 * noted; not all of them round alike, so that a result would depend on what else ran then. */
#ifndef __ZENITH_PIXELS_H__
#define __ZENITH_PIXELS_H__

#include <gegl.h>

/* The pixels of a part of a buffer.  Formats other than RGB and grey of 8 or 16 bits, or with
 * premultiplied alpha, are left to babl. */
void zn_pixels_get (GeglBuffer          *buffer,
                    const GeglRectangle *rect,
                    const Babl          *format,
                    gpointer             pixels);

/* Copies a part of a buffer to another one. */
void zn_pixels_copy (GeglBuffer *from, const GeglRectangle *rect, GeglBuffer *to);

/* A node that writes what it gets to a buffer. */
GeglNode *zn_pixels_sink (GeglNode *graph, GeglBuffer *buffer);

#endif
