/* SPDX-License-Identifier: MIT */
/* op-face-contrast.c - see the header. */

#include <math.h>
#include <string.h>

#include "op-face-contrast.h"

#define NEAR 8     /* radius of a neighbourhood: of a mean, taken twice */
#define LEAST 0.4f /* factors of the contrast */
#define MOST 1.5f
#define FLAT 2.5e-6f /* a contrast that does not count, squared */

/* Radii of means, taken twice: a band is the difference of two neighbours. */
static const gint bands[] = { 1, 4 };

/* The mean of 2 radius + 1 values along an axis whose values are `step` apart; those of the
 * edge are repeated. */
static void
mean_along (gfloat *dst, const gfloat *src, gsize len, gint side, gsize step, gint radius)
{
  for (gsize i = 0; i < len; i++)
    {
      const gint    at   = (gint) (i / step % (gsize) side);
      const gfloat *line = src + i - at * step;
      gfloat        sum  = 0.0f;

      for (gint k = at - radius; k <= at + radius; k++)
        sum += line[CLAMP (k, 0, side - 1) * step];
      dst[i] = sum / (2 * radius + 1);
    }
}

/* dst [side][side][n]: the mean over a square, taken twice.  scratch is as large. */
static void
mean_twice (gfloat *dst, gfloat *scratch, const gfloat *src, gint side, gint n, gint radius)
{
  const gsize len = (gsize) side * side * n;

  for (gint k = 0; k < 2; k++)
    {
      mean_along (scratch, k ? dst : src, len, side, n, radius);
      mean_along (dst, scratch, len, side, (gsize) side * n, radius);
    }
}

/* Band k of a picture, [side][side][3], and its mean square in the neighbourhood, [side][side].
 * room: twice as large as the picture. */
static void
get_band (gfloat *band, gfloat *square, gfloat *room, const gfloat *picture, gint side, gint k)
{
  const gsize len    = (gsize) side * side * 3;
  gfloat     *coarse = room + len;

  if (k)
    mean_twice (band, room, picture, side, 3, bands[k - 1]);
  else
    memcpy (band, picture, len * sizeof (gfloat));
  mean_twice (coarse, room, picture, side, 3, bands[k]);
  for (gsize i = 0; i < len; i++)
    band[i] -= coarse[i];
  for (gsize i = 0; i < len / 3; i++)
    {
      const gfloat *b = band + i * 3;

      coarse[i] = (b[0] * b[0] + b[1] * b[1] + b[2] * b[2]) / 3.0f;
    }
  mean_twice (square, room, coarse, side, 1, NEAR);
}

void
zn_op_face_level_contrast (gfloat       *dst,
                           const gfloat *drawn,
                           const gfloat *first,
                           const gfloat *second,
                           gint          side,
                           gdouble       position)
{
  const gsize   n         = (gsize) side * side;
  const gfloat *picture[] = { first, second, drawn };
  const gfloat  t         = (gfloat) position;
  const gfloat  part      = (gfloat) (1.0 - pow (2.0 * position - 1.0, 4.0));
  gfloat       *memory    = g_new (gfloat, n * (3 + 3 + 6));
  gfloat       *band = memory, *square = band + n * 3, *room = square + n * 3;

  memcpy (dst, drawn, n * 3 * sizeof (gfloat));
  for (gint k = 0; k < (gint) G_N_ELEMENTS (bands); k++)
    {
      for (gint p = 0; p < 3; p++)
        get_band (band, square + p * n, room, picture[p], side, k);
      for (gsize i = 0; i < n; i++)
        {
          const gfloat want = (1.0f - t) * square[i] + t * square[n + i];
          const gfloat gain = sqrtf ((want + FLAT) / (square[2 * n + i] + FLAT));

          for (gint c = 0; c < 3; c++)
            dst[i * 3 + c] += part * (CLAMP (gain, LEAST, MOST) - 1.0f) * band[i * 3 + c];
        }
    }
  g_free (memory);
}
