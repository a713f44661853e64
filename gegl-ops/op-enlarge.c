/* SPDX-License-Identifier: MIT */
/* op-enlarge.c - see the header. */

#include "config.h"

#include "op-enlarge.h"

#define STRIP_ROWS 64 /* in memory at a time */

/* rect and what lies around it, in the picture. */
static zn_rect
wider (const ZnOpPicture *picture, zn_rect rect)
{
  return zn_rect_meet (zn_rect_widen (rect, ZN_ENLARGE_REACH),
                       (zn_rect){ 0, 0, picture->box.width, picture->box.height });
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
      zn_enlarge_see (dst + (gsize) y * rect.w * 3, strip, pixels, all, n);
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
  zn_enlarge_see (seen, all, around, more, n);
  zn_enhance_enlarge (large, write->grid, strip, all, pixels, n, seen, write->change);
  if (zn_op_is_linear (write->picture->format))
    zn_curve_decode (large, len, n);
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
