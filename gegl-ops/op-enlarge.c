/* SPDX-License-Identifier: MIT */
/* op-enlarge.c - see the header. */

#include "config.h"

#include "op-curve.h"
#include "op-enlarge.h"

#define STRIP_ROWS 64 /* in memory at a time */

/* rect and what lies around it, in the picture. */
static zn_rect
wider (const ZnOpPicture *picture, zn_rect rect)
{
  return zn_rect_meet (zn_rect_widen (rect, ZN_ENLARGE_REACH),
                       (zn_rect){ 0, 0, picture->box.width, picture->box.height });
}

/* The mean of the visible pixels around x, y of `all`; or mid-grey. */
static void
fill_hidden (gfloat rgb[3], const gfloat *pixels, zn_rect all, gint x, gint y)
{
  gfloat sum[4] = { 0.0f, 0.0f, 0.0f, 0.0f };

  for (gint j = MAX (y - ZN_ENLARGE_REACH, all.y);
       j <= MIN (y + ZN_ENLARGE_REACH, all.y + all.h - 1); j++)
    for (gint i = MAX (x - ZN_ENLARGE_REACH, all.x);
         i <= MIN (x + ZN_ENLARGE_REACH, all.x + all.w - 1); i++)
      {
        const gfloat *p     = pixels + ((gsize) (j - all.y) * all.w + i - all.x) * 4;
        const gfloat  alpha = zn_clean (p[3]);

        for (gint c = 0; c < 3; c++)
          sum[c] += alpha * zn_clean (p[c]);
        sum[3] += alpha;
      }

  for (gint c = 0; c < 3; c++)
    rgb[c] = sum[3] > 0.0f ? zn_clean (sum[c] / sum[3]) : 0.5f;
}

/* What the network sees of rect, from the pixels of `all`, which is that and what lies around. */
static void
see (gfloat *dst, zn_rect rect, const gfloat *pixels, zn_rect all, gint components)
{
  for (gint y = rect.y; y < rect.y + rect.h; y++)
    for (gint x = rect.x; x < rect.x + rect.w; x++, dst += 3)
      {
        const gfloat *p = pixels + ((gsize) (y - all.y) * all.w + x - all.x) * components;

        if (zn_is_hidden (p, components))
          fill_hidden (dst, pixels, all, x, y);
        else
          for (gint c = 0; c < 3; c++)
            dst[c] = zn_clean (p[c]);
      }
}

bool
zn_op_enlarge_read (void *data, zn_rect rect, float *dst)
{
  const ZnOpPicture *picture = data;
  const gint         n       = babl_format_get_n_components (picture->format);

  for (gint y = 0; y < rect.h; y += STRIP_ROWS)
    {
      const zn_rect strip  = { rect.x, rect.y + y, rect.w, MIN (rect.h - y, STRIP_ROWS) };
      const zn_rect all    = wider (picture, strip);
      gfloat       *pixels = gegl_malloc ((gsize) all.w * all.h * n * sizeof (gfloat));

      zn_op_picture_get (picture, all, pixels);
      see (dst + (gsize) y * rect.w * 3, strip, pixels, all, n);
      gegl_free (pixels);
    }

  return true;
}

typedef struct
{
  const ZnOpPicture *picture;
  GeglBuffer        *output;
  const zn_grid     *grid;
  zn_rect            want;
  const zn_plane    *change;
} Write;

static void
write_strip (const Write *write, zn_rect strip)
{
  const gint          n      = babl_format_get_n_components (write->picture->format);
  const gint          scale  = write->grid->scale;
  const GeglRectangle place  = { write->picture->box.x * scale + strip.x,
                                 write->picture->box.y * scale + strip.y, strip.w, strip.h };
  const zn_rect       all    = wider (write->picture, zn_grid_source (write->grid, strip));
  const zn_rect       more   = wider (write->picture, all); /* for what is hidden there */
  const gsize         len    = (gsize) strip.w * strip.h;
  gfloat             *around = gegl_malloc ((gsize) more.w * more.h * n * sizeof (gfloat));
  gfloat             *pixels = gegl_malloc ((gsize) all.w * all.h * n * sizeof (gfloat));
  gfloat             *seen   = gegl_malloc ((gsize) all.w * all.h * 3 * sizeof (gfloat));
  gfloat             *large  = gegl_malloc (len * n * sizeof (gfloat));

  zn_op_picture_get (write->picture, more, around);
  zn_op_picture_get (write->picture, all, pixels);
  see (seen, all, around, more, n);
  zn_enhance_enlarge (large, write->grid, strip, all, pixels, n, seen, write->change);
  if (zn_op_is_linear (write->picture->format))
    zn_op_curve_decode (large, len, n);
  gegl_buffer_set (write->output, &place, 0, write->picture->format, large, GEGL_AUTO_ROWSTRIDE);

  gegl_free (around);
  gegl_free (pixels);
  gegl_free (seen);
  gegl_free (large);
}

/* Rows from `start` on, `count` of them. */
static void
write_rows (gsize start, gsize count, gpointer data)
{
  const Write *write = data;

  for (gsize y = 0; y < count; y += STRIP_ROWS)
    write_strip (write, (zn_rect){ write->want.x, write->want.y + (gint) (start + y), write->want.w,
                                   (gint) MIN (count - y, STRIP_ROWS) });
}

void
zn_op_enlarge_write (const ZnOpPicture *picture,
                     GeglBuffer        *output,
                     const zn_grid     *grid,
                     zn_rect            want,
                     const zn_plane    *change)
{
  Write write = { picture, output, grid, want, change };

  gegl_parallel_distribute_range (want.h, STRIP_ROWS, write_rows, &write);
}
