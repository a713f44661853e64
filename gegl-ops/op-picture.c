/* SPDX-License-Identifier: MIT */
/* op-picture.c - see the header. */

#include "config.h"

#include <string.h>

#include "op-picture.h"
#include "zenith_number.h"

#define STRIP_ROWS 64 /* of a buffer in memory at a time */

/* ---- formats -------------------------------------------------------------- */

/* The value of middle grey after the space's curve: 0.5 without a curve.  Networks were trained on
 * pictures with a curve: where there is none, sRGB's is used. */
static gfloat
light_of_grey (const Babl *space)
{
  const gfloat grey[3]  = { 0.5f, 0.5f, 0.5f };
  gfloat       light[3] = { 0.0f };

  babl_process (babl_fish (babl_format_with_space ("R'G'B' float", space),
                           babl_format_with_space ("RGB float", space)),
                grey, light, 1);

  return light[1];
}

gboolean
zn_op_is_linear (const Babl *format)
{
  return babl_get_model_flags (babl_format_get_model (format)) & BABL_MODEL_FLAG_LINEAR;
}

const Babl *
zn_op_picture_format (GeglOperation *operation, const gchar *pad)
{
  const Babl    *source = gegl_operation_get_source_format (operation, pad);
  const Babl    *space  = source ? babl_format_get_space (source) : NULL;
  const gboolean alpha  = ! source || babl_format_has_alpha (source);
  gfloat         grey;

  if (space && babl_space_is_cmyk (space))
    space = NULL;

  grey = light_of_grey (space);
  if (ABS (grey - 0.5f) < 0.01f ||
      (source && zn_op_is_linear (source) && ABS (grey - 0.214041f) < 1e-5f))
    return babl_format_with_space (alpha ? "RGBA float" : "RGB float", space);

  return babl_format_with_space (alpha ? "R'G'B'A float" : "R'G'B' float", space);
}

/* ---- pixels --------------------------------------------------------------- */

/* The pixels in their own format, even if that is linear.  babl takes the conversion that was fastest
 * when it tried them, and not all give the same bits: whole numbers are read here. */
static void
get_stored (const ZnOpPicture *picture, zn_rect rect, gfloat *pixels)
{
  GeglRectangle place  = { picture->box.x + rect.x, picture->box.y + rect.y, rect.w, rect.h };
  const Babl   *stored = gegl_buffer_get_format (picture->buffer);
  const gchar  *full   = zn_samples_full (babl_format_get_encoding (stored));
  const gsize   n      = (gsize) rect.w * rect.h;
  const gint    from   = babl_format_get_n_components (stored);
  const gint    bpp    = babl_format_get_bytes_per_pixel (stored);
  gpointer      raw    = pixels;

  if (full && picture->format == babl_format_with_space (full, babl_format_get_space (stored)))
    raw = gegl_malloc (n * bpp);
  gegl_buffer_get (picture->buffer, &place, 1.0, raw == pixels ? picture->format : stored, raw,
                   GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_CLAMP);
  if (raw != pixels)
    {
      zn_samples_read (pixels, babl_format_get_n_components (picture->format), raw, from, n,
                       bpp / from);
      gegl_free (raw);
    }
}

void
zn_op_picture_get (const ZnOpPicture *picture, zn_rect rect, gfloat *pixels)
{
  get_stored (picture, rect, pixels);
  if (zn_op_is_linear (picture->format))
    zn_curve_encode (pixels, (gsize) rect.w * rect.h,
                     babl_format_get_n_components (picture->format));
}

bool
zn_op_picture_read (void *data, zn_rect rect, float *dst)
{
  const ZnOpPicture *picture = data;
  const gint         n       = babl_format_get_n_components (picture->format);
  const gsize        len     = (gsize) rect.w * MIN (rect.h, STRIP_ROWS);
  gfloat            *pixels  = gegl_malloc (len * n * sizeof (gfloat));

  for (gint y = 0; y < rect.h; y += STRIP_ROWS)
    {
      zn_rect       strip = { rect.x, rect.y + y, rect.w, MIN (rect.h - y, STRIP_ROWS) };
      const gfloat *src   = pixels;

      zn_op_picture_get (picture, strip, pixels);
      for (gsize i = (gsize) strip.w * strip.h; i; i--, src += n, dst += 3)
        for (gint c = 0; c < 3; c++)
          dst[c] = zn_is_hidden (src, n) ? 0.5f : zn_clean (src[c]);
    }

  gegl_free (pixels);

  return true;
}

/* What a strip is written with: func, or a change that is added. */
typedef struct
{
  const ZnOpPicture *picture;
  GeglBuffer        *output;
  gint               dx; /* from the picture's place */
  zn_rect            rect;
  gint               apron;
  ZnOpStripFunc      func;
  gpointer           data;
  const gfloat      *change; /* [rect.h][rect.w][3], or NULL */
} Write;

/* Puts back fully transparent pixels, and those whose change is 0; alpha never changes. */
static void
restore (gfloat *pixels, const gfloat *before, gsize len, gint n, const gfloat *change)
{
  for (gsize i = 0; i < len; i++, pixels += n, before += n)
    {
      const gfloat *d = change ? change + 3 * i : NULL;

      if (zn_is_hidden (before, n) || (d && d[0] == 0.0f && d[1] == 0.0f && d[2] == 0.0f))
        memcpy (pixels, before, n * sizeof (gfloat));
      else if (n == 4)
        pixels[3] = before[3];
    }
}

static void
write_strip (const Write *write, zn_rect strip, gfloat *pixels, gfloat *before)
{
  const gint          n     = babl_format_get_n_components (write->picture->format);
  const GeglRectangle box   = write->picture->box;
  const GeglRectangle place = { box.x + write->dx + strip.x, box.y + strip.y, strip.w, strip.h };
  const gboolean      curve = zn_op_is_linear (write->picture->format);
  const zn_rect       all   = zn_rect_meet (zn_rect_widen (strip, write->apron),
                                            (zn_rect){ 0, 0, box.width, box.height });
  const gsize         above = (gsize) all.w * (strip.y - all.y); /* pixels */
  const gsize         own   = (gsize) all.w * strip.h;
  const gfloat       *d     = write->change;

  if (d)
    d += (gsize) (strip.y - write->rect.y) * strip.w * 3;
  get_stored (write->picture, all, pixels);
  memcpy (before, pixels + above * n, own * n * sizeof (gfloat));

  if (curve)
    zn_curve_encode (pixels, (gsize) all.w * all.h, n);
  if (d)
    zn_change_add (pixels, n, d, own);
  else
    write->func (write->data, strip, all, pixels, n);
  pixels += above * n;
  if (curve)
    zn_curve_decode (pixels, own, n);

  if (n == 4 || d)
    restore (pixels, before, own, n, d);
  gegl_buffer_set (write->output, &place, 0, write->picture->format, pixels + (strip.x - all.x) * n,
                   (gint) (all.w * n * sizeof (gfloat)));
}

/* Rows from `start` on, `count` of them. */
static void
write_rows (gsize start, gsize count, gpointer data)
{
  const Write *write = data;
  const gint   n     = babl_format_get_n_components (write->picture->format);
  const gsize  len   = (gsize) (write->rect.w + 2 * write->apron) *
                    (MIN (count, STRIP_ROWS) + 2 * write->apron) * n;
  gfloat *pixels = gegl_malloc (2 * len * sizeof (gfloat));

  for (gsize y = 0; y < count; y += STRIP_ROWS)
    write_strip (write,
                 (zn_rect){ write->rect.x, write->rect.y + (gint) (start + y), write->rect.w,
                            (gint) MIN (count - y, STRIP_ROWS) },
                 pixels, pixels + len);

  gegl_free (pixels);
}

void
zn_op_picture_write (const ZnOpPicture *picture,
                     GeglBuffer        *output,
                     zn_rect            rect,
                     gint               apron,
                     ZnOpStripFunc      func,
                     gpointer           data)
{
  Write write = { picture, output, 0, rect, apron, func, data, NULL };

  gegl_parallel_distribute_range (rect.h, STRIP_ROWS, write_rows, &write);
}

void
zn_op_picture_add (const ZnOpPicture *picture,
                   GeglBuffer        *output,
                   gint               dx,
                   zn_rect            rect,
                   const gfloat      *change)
{
  Write write = { picture, output, dx, rect, 0, NULL, NULL, change };

  gegl_parallel_distribute_range (rect.h, STRIP_ROWS, write_rows, &write);
}
