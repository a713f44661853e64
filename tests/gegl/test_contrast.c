/* SPDX-License-Identifier: MIT */
/* test_contrast.c - the contrast of a face between two, on made-up pictures. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../gegl-ops/op-face-contrast.h"
#include "../unit/test.h"

/* Noise of this deviation around grey, left and right of the middle; equal for equal seeds. */
static gfloat *
noise_new (gint side, gdouble left, gdouble right, guint32 seed)
{
  GRand  *rand   = g_rand_new_with_seed (seed);
  gfloat *pixels = g_new (gfloat, (gsize) side * side * 3);

  for (gint i = 0; i < side * side * 3; i++)
    pixels[i] = (gfloat) (0.5 + (i / 3 % side < side / 2 ? left : right) * sqrt (12.0) *
                                    (g_rand_double (rand) - 0.5));
  g_rand_free (rand);

  return pixels;
}

/* The deviation of columns x0 to x1 from grey. */
static gdouble
deviation (const gfloat *pixels, gint side, gint x0, gint x1)
{
  gdouble sum = 0.0;

  for (gint y = 0; y < side; y++)
    for (gint i = (y * side + x0) * 3; i < (y * side + x1) * 3; i++)
      sum += (pixels[i] - 0.5) * (pixels[i] - 0.5);

  return sqrt (sum / ((gdouble) side * (x1 - x0) * 3));
}

/* The left of the first face is plain, and the network drew texture there: it goes as far as
 * it may.  The right is as it should be, and stays. */
static void
test_levels (void)
{
  const gint side   = 96;
  gfloat    *first  = noise_new (side, 0.0, 0.1, 1);
  gfloat    *second = noise_new (side, 0.06, 0.1, 2);
  gfloat    *drawn  = noise_new (side, 0.1, 0.1, 3);
  gfloat    *got    = g_new (gfloat, side * side * 3);
  gdouble    left, right;

  zn_op_face_level_contrast (got, drawn, first, second, side, 0.5);
  left  = deviation (got, side, 0, 24);
  right = deviation (got, side, 72, 96);
  /* sqrt((0 + 0.06^2) / 2); the mean of what is coarser than both bands stays */
  CHECK (fabs (left - 0.0424) < 0.004, "plain and textured: %g", left);
  CHECK (fabs (right - 0.1) < 0.004, "both textured: %g", right);

  /* not beyond the factors */
  zn_op_face_level_contrast (got, drawn, first, first, side, 0.5);
  left = deviation (got, side, 0, 24);
  CHECK (left > 0.036 && left < 0.046, "both plain: %g", left);
  zn_op_face_level_contrast (got, first, drawn, second, side, 0.5);
  CHECK (deviation (got, side, 0, 24) < 1e-6, "texture came from nothing");

  g_free (first);
  g_free (second);
  g_free (drawn);
  g_free (got);
}

/* At the ends, and where nothing differs, the face is the drawn one. */
static void
test_ends (void)
{
  static const gint sides[] = { 1, 2, 7, 33 };

  for (gint i = 0; i < (gint) G_N_ELEMENTS (sides); i++)
    {
      const gsize len    = (gsize) sides[i] * sides[i] * 3;
      gfloat     *first  = noise_new (sides[i], 0.02, 0.1, 4);
      gfloat     *second = noise_new (sides[i], 0.1, 0.01, 5);
      gfloat     *drawn  = noise_new (sides[i], 0.2, 0.2, 6);
      gfloat     *got    = g_new (gfloat, len);

      for (gint end = 0; end < 2; end++)
        {
          zn_op_face_level_contrast (got, drawn, first, second, sides[i], end);
          CHECK (! memcmp (got, drawn, len * sizeof (gfloat)), "side %d, end %d", sides[i], end);
        }
      zn_op_face_level_contrast (got, drawn, drawn, drawn, sides[i], 0.3);
      for (gsize k = 0; k < len; k++)
        CHECK (fabs (got[k] - drawn[k]) < 1e-5, "side %d: %g became %g", sides[i], drawn[k],
               got[k]);
      g_free (first);
      g_free (second);
      g_free (drawn);
      g_free (got);
    }
}

int
main (void)
{
  RUN (test_levels);
  RUN (test_ends);

  return test_end ();
}
