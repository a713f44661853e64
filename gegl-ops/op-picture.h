/* SPDX-License-Identifier: MIT */
/* op-picture.h - the pixels of buffers: formats, linear ones, alpha, bad values. */

#ifndef __ZENITH_OP_PICTURE_H__
#define __ZENITH_OP_PICTURE_H__

#include <gegl.h>
#include <gegl-plugin.h>

#include "zenith_composite.h"

/* R'G'B'A float or, for an input without alpha, R'G'B' float, in its space.  RGBA
 * float and RGB float instead, to which the functions below apply sRGB's curve
 * themselves, if the input is linear and that is its space's curve, or has none. */
const Babl *zn_op_picture_format (GeglOperation *operation, const gchar *pad);
gboolean    zn_op_is_linear (const Babl *format);

/* Part of a buffer seen as a picture that starts at 0,0. */
typedef struct
{
  GeglBuffer   *buffer;
  const Babl   *format; /* as zn_op_picture_format() gives */
  GeglRectangle box;
} ZnOpPicture;

/* The pixels as a network may see them: three values in 0..1 each, NaN read as
 * 0, fully transparent ones mid-grey.  A zn_source's read function. */
bool zn_op_picture_read (void *picture, zn_rect rect, float *dst);

/* The pixels with the format's own components (3 or 4 of them) and a curve, whether
 * the format has one or not. */
void zn_op_picture_get (const ZnOpPicture *picture, zn_rect rect, gfloat *pixels);

/* Calls func for strips that cover rect, with pixels to change in place and write
 * to output, which may have another place but not another size.  Fully transparent
 * pixels are never changed.
 *
 * Around a strip func also gets the pixels up to `apron` away, as far as there are
 * any: they lie in `all`, and only those of the strip are written.  Strips are
 * worked on by several threads at once. */
typedef void (
    *ZnOpStripFunc) (gpointer data, zn_rect strip, zn_rect all, gfloat *pixels, gint components);
void zn_op_picture_write (const ZnOpPicture *picture,
                          GeglBuffer        *output,
                          zn_rect            rect,
                          gint               apron,
                          ZnOpStripFunc      func,
                          gpointer           data);

/* Adds change, [rect.h][rect.w][3], to the pixels of rect and writes them to output, dx
 * to the right of the picture's place.  A value may leave 0..1 only where it was outside before.  Pixels
 * whose change is 0 and fully transparent ones are written as they are, to the bit. */
void zn_op_picture_add (const ZnOpPicture *picture,
                        GeglBuffer        *output,
                        gint               dx,
                        zn_rect            rect,
                        const gfloat      *change);

#endif
