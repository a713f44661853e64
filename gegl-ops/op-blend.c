/* SPDX-License-Identifier: MIT */
/* op-blend.c - strength, luma, chroma and detail; see the header. */

#include "config.h"

#include <math.h>

#include "op-blend.h"

static inline gfloat
luma_of (const gfloat *rgb)
{
  return 0.2126f * rgb[0] + 0.7152f * rgb[1] + 0.0722f * rgb[2];
}

gint
zn_op_blend_reach (const ZnOpTiled *task)
{
  return task->detail > 0.0 || task->strength > 1.0 ? ZN_OP_BLEND_REACH : 0;
}

static inline const gfloat *
change_at (const ZnOpBlend *blend, gint x, gint y)
{
  return blend->change + ((gsize) (y - blend->rect.y) * blend->rect.w + x - blend->rect.x) * 3;
}

/* The binomial mean of five values: above and below, then left and right.  Beyond
 * the ends the last ones are repeated. */
static void
smooth (gfloat *dst, const gfloat *src, gint w, gint h)
{
  gfloat *row = gegl_malloc ((w + 4) * sizeof (gfloat));

  for (gint y = 0; y < h; y++, dst += w)
    {
      const gfloat *a = src + (gsize) MAX (y - 2, 0) * w;
      const gfloat *b = src + (gsize) MAX (y - 1, 0) * w;
      const gfloat *c = src + (gsize) y * w;
      const gfloat *d = src + (gsize) MIN (y + 1, h - 1) * w;
      const gfloat *e = src + (gsize) MIN (y + 2, h - 1) * w;

      for (gint x = 0; x < w; x++)
        row[x + 2] = (a[x] + e[x]) / 16 + (b[x] + d[x]) / 4 + c[x] * 3 / 8;
      row[0] = row[1] = row[2];
      row[w + 2] = row[w + 3] = row[w + 1];
      for (gint x = 0; x < w; x++)
        dst[x] = (row[x] + row[x + 4]) / 16 + (row[x + 1] + row[x + 3]) / 4 + row[x + 2] * 3 / 8;
    }

  gegl_free (row);
}

/* The network's change of lightness, for all pixels. */
static void
blend_light (const ZnOpBlend *blend, zn_rect all, gfloat *light)
{
  for (gint y = 0; y < all.h; y++)
    {
      const gfloat *rgb = change_at (blend, all.x, all.y + y);

      for (gint x = 0; x < all.w; x++, rgb += 3)
        *light++ = luma_of (rgb);
    }
}

/* light -= detail * (light - its 5 x 5 binomial mean). */
static void
blend_detail (const ZnOpBlend *blend, zn_rect all, gfloat *light)
{
  const gsize  len    = (gsize) all.w * all.h;
  const gfloat detail = blend->task->detail;
  gfloat      *mean   = gegl_malloc (len * sizeof (gfloat));

  smooth (mean, light, all.w, all.h);
  for (gsize i = 0; i < len; i++)
    light[i] += detail * (mean[i] - light[i]);

  gegl_free (mean);
}

/* What a strength above 1 removes beyond the network's change.  Extrapolating that change would
 * bring the noise back with the other sign.  Instead fine differences in its output shrink, by as
 * much as 2 (strength - 1) times the mean change of lightness around them: texture as weak as the
 * noise disappears, edges stay.  Three planes; light is the network's own change. */
static gfloat *
blend_beyond (const ZnOpBlend *blend,
              zn_rect          all,
              const gfloat    *pixels,
              gint             components,
              const gfloat    *light)
{
  const gsize  len    = (gsize) all.w * all.h;
  const gfloat share  = 2.0 * (blend->task->strength - 1.0);
  gfloat      *beyond = gegl_malloc (len * 3 * sizeof (gfloat));
  gfloat      *plane  = gegl_malloc (len * sizeof (gfloat));
  gfloat      *mean   = gegl_malloc (len * sizeof (gfloat));
  gfloat      *limit  = gegl_malloc (len * sizeof (gfloat));

  for (gsize i = 0; i < len; i++)
    plane[i] = share * fabsf (light[i]);
  smooth (limit, plane, all.w, all.h);

  for (gint c = 0; c < 3; c++)
    {
      gfloat *change = beyond + c * len;

      for (gint y = 0; y < all.h; y++)
        {
          const gfloat *rgb = change_at (blend, all.x, all.y + y);

          for (gint x = 0; x < all.w; x++)
            {
              const gsize   at = (gsize) y * all.w + x;
              const gfloat *p  = pixels + at * components;

              plane[at] = rgb[3 * x + c] +
                          (zn_op_is_hidden (p, components) ? 0.5f : zn_op_clean (p[c]));
            }
        }
      smooth (mean, plane, all.w, all.h);
      for (gsize i = 0; i < len; i++)
        change[i] = CLAMP (mean[i] - plane[i], -limit[i], limit[i]);
    }

  gegl_free (plane);
  gegl_free (mean);
  gegl_free (limit);

  return beyond;
}

void
zn_op_blend_strip (gpointer data, zn_rect strip, zn_rect all, gfloat *pixels, gint components)
{
  const ZnOpBlend *blend    = data;
  const gfloat     strength = MIN (blend->task->strength, 1.0);
  const gfloat     luma     = strength * blend->task->luma;
  const gfloat     chroma   = strength * blend->task->chroma;
  const gsize      len      = (gsize) all.w * all.h;
  gfloat          *light    = NULL;
  gfloat          *beyond   = NULL;

  if (zn_op_blend_reach (blend->task))
    {
      light = gegl_malloc (len * sizeof (gfloat));
      blend_light (blend, all, light);
      if (blend->task->strength > 1.0)
        beyond = blend_beyond (blend, all, pixels, components, light);
      if (blend->task->detail > 0.0)
        blend_detail (blend, all, light);
    }

  for (gint y = strip.y; y < strip.y + strip.h; y++)
    {
      const gsize   at  = (gsize) (y - all.y) * all.w + strip.x - all.x;
      const gfloat *rgb = change_at (blend, strip.x, y);
      gfloat       *p   = pixels + at * components;

      for (gint x = 0; x < strip.w; x++, rgb += 3, p += components)
        {
          const gfloat l    = luma_of (rgb);
          const gfloat both = luma * (light ? light[at + x] : l) - chroma * l;

          for (gint c = 0; c < 3; c++) /* NaN was seen as 0 */
            p[c] = (p[c] == p[c] ? p[c] : 0.0f) + both + chroma * rgb[c];

          if (beyond)
            {
              const gfloat more[3] = { beyond[at + x], beyond[len + at + x],
                                       beyond[2 * len + at + x] };
              const gfloat grey    = luma_of (more);

              for (gint c = 0; c < 3; c++)
                p[c] += luma * grey + chroma * (more[c] - grey);
            }
        }
    }

  if (light)
    gegl_free (light);
  if (beyond)
    gegl_free (beyond);
}
