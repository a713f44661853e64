/* SPDX-License-Identifier: MIT */
/* op-face-frame.c - see the header. */

#include "config.h"

#include <glib/gi18n-lib.h>

#include <math.h>

#include "op-face-frame.h"

#define MIN_FRAME 16 /* pixels */

/* ---- the frame ------------------------------------------------------------ */

gboolean
zn_op_square_get (ZnOpSquare      *square,
                  const ZnOpFrame *frame,
                  gint             width,
                  gint             height,
                  zn_error        *err)
{
  const gdouble angle = frame->angle * G_PI / 180.0;

  *square = (ZnOpSquare){ frame->x, frame->y, frame->size, cos (angle), sin (angle) };
  if (frame->size <= 0.0)
    *square = (ZnOpSquare){ width / 2.0, height / 2.0, MIN (width, height), cos (angle),
                            sin (angle) };

  if (! (square->size >= MIN_FRAME))
    g_snprintf (err->text, sizeof (err->text),
                _ ("A frame of %g x %g pixels is too small: a face needs at least %d."),
                square->size, square->size, MIN_FRAME);
  else if (! (square->x >= 0.0 && square->x <= width && square->y >= 0.0 && square->y <= height))
    g_snprintf (err->text, sizeof (err->text),
                _ ("The frame's centre at %g, %g is outside the picture of %d x %d."), square->x,
                square->y, width, height);
  else
    return TRUE;

  return FALSE;
}

GeglRectangle
zn_op_square_bounds (const ZnOpSquare *square, gint width, gint height)
{
  const gdouble half = square->size * (fabs (square->cos) + fabs (square->sin)) / 2.0;
  const gint    x0   = (gint) floor (MAX (square->x - half, 0.0));
  const gint    y0   = (gint) floor (MAX (square->y - half, 0.0));
  const gint    x1   = (gint) ceil (MIN (square->x + half, width));
  const gint    y1   = (gint) ceil (MIN (square->y + half, height));

  return (GeglRectangle){ x0, y0, MAX (x1 - x0, 1), MAX (y1 - y0, 1) };
}

/* ---- to the model's size and back ----------------------------------------- */

/* Weights of Catmull-Rom's kernel for the four values around a place between the second
 * and the third. */
static inline void
cubic_weights (gfloat w[4], gfloat t)
{
  w[0] = ((-0.5f * t + 1.0f) * t - 0.5f) * t;
  w[1] = (1.5f * t - 2.5f) * t * t + 1.0f;
  w[2] = ((-1.5f * t + 2.0f) * t + 0.5f) * t;
  w[3] = (0.5f * t - 0.5f) * t * t;
}

void
zn_op_sample_cubic (gfloat       *dst,
                    const gfloat *src,
                    gint          width,
                    gint          height,
                    gint          n,
                    gdouble       x,
                    gdouble       y)
{
  const gdouble fx = floor (x), fy = floor (y);
  gfloat        wx[4], wy[4];
  gint          cx[4];

  cubic_weights (wx, (gfloat) (x - fx));
  cubic_weights (wy, (gfloat) (y - fy));
  for (gint i = 0; i < 4; i++)
    cx[i] = CLAMP ((gint) fx + i - 1, 0, width - 1);
  for (gint c = 0; c < n; c++)
    dst[c] = 0.0f;
  for (gint j = 0; j < 4; j++)
    {
      const gfloat *row = src + (gsize) CLAMP ((gint) fy + j - 1, 0, height - 1) * width * n;

      for (gint i = 0; i < 4; i++)
        {
          const gfloat  w = wx[i] * wy[j];
          const gfloat *p = row + (gsize) cx[i] * n;

          for (gint c = 0; c < n; c++)
            dst[c] += w * p[c];
        }
    }
}

ZnOpPart
zn_op_part_read (const ZnOpPicture *picture, const GeglRectangle *rect)
{
  ZnOpPart part = { { rect->x, rect->y, rect->width, rect->height }, NULL };

  part.pixels = g_try_malloc ((gsize) rect->width * rect->height * 3 * sizeof (gfloat));
  if (part.pixels)
    zn_op_picture_read ((ZnOpPicture *) picture, part.rect, part.pixels);

  return part;
}

/* The mean of n x n places around x, y, `step` apart in the directions of cos and sin. */
static void
sample_mean (gfloat          dst[3],
             const ZnOpPart *part,
             gint            n,
             gdouble         step,
             gdouble         x,
             gdouble         y,
             gdouble         cos,
             gdouble         sin)
{
  gdouble sum[3] = { 0.0, 0.0, 0.0 };

  for (gint k = 0; k < n * n; k++)
    {
      const gdouble a = (k % n + 0.5 - 0.5 * n) * step;
      const gdouble b = (k / n + 0.5 - 0.5 * n) * step;
      gfloat        value[3];

      zn_op_sample_cubic (value, part->pixels, part->rect.w, part->rect.h, 3,
                          x + cos * a - sin * b - part->rect.x - 0.5,
                          y + sin * a + cos * b - part->rect.y - 0.5);
      for (gint c = 0; c < 3; c++)
        sum[c] += value[c];
    }
  for (gint c = 0; c < 3; c++)
    dst[c] = zn_op_clean ((gfloat) (sum[c] / (n * n)));
}

typedef struct
{
  ZnOpPart          to;
  const ZnOpPart   *part;
  const ZnOpSquare *from, *square;
} Warp;

static void
warp_rows (gsize start, gsize count, gpointer data)
{
  const Warp       *w    = data;
  const ZnOpSquare *f    = w->from;
  const ZnOpSquare *q    = w->square;
  const zn_rect     rect = w->to.rect;
  const gdouble     zoom = f->size / q->size;
  const gdouble     cos  = f->cos * q->cos + f->sin * q->sin; /* of the angle between them */
  const gdouble     sin  = f->sin * q->cos - f->cos * q->sin;
  const gint        n    = MAX (1, (gint) ceil (zoom));

  for (gint y = (gint) start; y < (gint) (start + count); y++)
    for (gint x = 0; x < rect.w; x++)
      {
        const gdouble a = (rect.x + x + 0.5 - q->x) * zoom;
        const gdouble b = (rect.y + y + 0.5 - q->y) * zoom;

        sample_mean (w->to.pixels + ((gsize) y * rect.w + x) * 3, w->part, n, zoom / n,
                     f->x + cos * a - sin * b, f->y + sin * a + cos * b, cos, sin);
      }
}

ZnOpPart
zn_op_part_warp (const ZnOpPart      *part,
                 const ZnOpSquare    *from,
                 const ZnOpSquare    *to,
                 const GeglRectangle *rect)
{
  Warp warp = { { { rect->x, rect->y, rect->width, rect->height }, NULL }, part, from, to };

  warp.to.pixels = g_try_malloc ((gsize) rect->width * rect->height * 3 * sizeof (gfloat));
  if (warp.to.pixels)
    gegl_parallel_distribute_range (rect->height, 16, warp_rows, &warp);

  return warp.to;
}

typedef struct
{
  gfloat           *low; /* [side][side][3], 0..1 */
  gint              side;
  const ZnOpSquare *square;
  const ZnOpPart   *part;
} Shrink;

/* Each value is the mean of about as many places as it covers pixels. */
static void
shrink_rows (gsize start, gsize count, gpointer data)
{
  const Shrink     *s    = data;
  const ZnOpSquare *q    = s->square;
  const gdouble     step = q->size / s->side;
  const gint        n    = MAX (1, (gint) ceil (step));

  for (gint v = (gint) start; v < (gint) (start + count); v++)
    for (gint u = 0; u < s->side; u++)
      {
        const gdouble a = (u + 0.5 - 0.5 * s->side) * step;
        const gdouble b = (v + 0.5 - 0.5 * s->side) * step;

        sample_mean (s->low + ((gsize) v * s->side + u) * 3, s->part, n, step / n,
                     q->x + q->cos * a - q->sin * b, q->y + q->sin * a + q->cos * b, q->cos,
                     q->sin);
      }
}

void
zn_op_square_shrink (gfloat *low, gint side, const ZnOpSquare *square, const ZnOpPart *part)
{
  Shrink data = { low, side, square, part };

  gegl_parallel_distribute_range (side, 4, shrink_rows, &data);
}
