/* SPDX-License-Identifier: MIT */
/* op-curve.c - sRGB's curve, for pictures that are linear in light; see the header.
 *
 * A power of x = m 2^e, 1 <= m < 2, is a polynomial of m times a table's value for e. */

#include "config.h"

#include <math.h>
#include <string.h>

#include "op-curve.h"

/* Four values, one to a lane: what every machine has. */
#define LANES 4
typedef gfloat Vec __attribute__ ((vector_size (LANES * 4)));
typedef gint32 Ints __attribute__ ((vector_size (LANES * 4)));

typedef struct
{
  gfloat  cut, slope;   /* up to cut: slope * v */
  gfloat  scale, shift; /* above: gain * (scale * v + shift)^power - loss */
  gdouble power;
  gfloat  gain, loss;
  gfloat  poly[8];     /* (s + 1.5)^power, right to 4e-8 for s in -0.5..0.5 */
  gfloat  octave[256]; /* gain * 2^(e * power), e + 127 the exponent of a float */
  gsize   ready;
} Curve;

static Curve to_seen = { 0.003130804954f,
                         12.92f,
                         1.0f,
                         0.0f,
                         1.0 / 2.4,
                         1.055f,
                         0.055f,
                         { 1.18405361f, 0.32890376f, -0.0639566782f, 0.0225039502f, -0.00962596732f,
                           0.00459364891f, -0.00274339716f, 0.00147123238f } };

static Curve to_light = { 0.04045f,
                          1.0f / 12.92f,
                          1.0f / 1.055f,
                          0.055f / 1.055f,
                          2.4,
                          1.0f,
                          0.0f,
                          { 2.64617781f, 4.23388448f, 1.97581215f, 0.175628056f, -0.0175506826f,
                            0.00374166081f, -0.00115828999f, 0.000402818755f } };

static void
curve_init (Curve *curve)
{
  if (! g_once_init_enter (&curve->ready))
    return;

  for (gint i = 0; i < 255; i++)
    curve->octave[i] = (gfloat) (curve->gain * exp2 ((i - 127) * curve->power));
  curve->octave[255] = INFINITY; /* its exponent */
  g_once_init_leave (&curve->ready, 1);
}

/* Lanes of a where the mask is set, of b elsewhere. */
static inline Vec
choose (Ints mask, Vec a, Vec b)
{
  return (Vec) ((mask & (Ints) a) | (~mask & (Ints) b));
}

static inline Vec
curve_at (const Curve *curve, Vec value)
{
  const gfloat *c   = curve->poly;
  const Vec     cut = (Vec){
        0.0f,
  } + curve->cut;
  const Ints upper = value > cut; /* never NaN */
  const Vec  x     = curve->scale * choose (upper, value, cut) + curve->shift;
  const Ints e     = (Ints) x >> 23;
  const Vec  gain  = { curve->octave[e[0]], curve->octave[e[1]], curve->octave[e[2]],
                       curve->octave[e[3]] };
  const Vec  s     = (Vec) (((Ints) x & 0x7fffff) | 0x3f800000) - 1.5f;
  const Vec  s2    = s * s;
  const Vec  y     = c[0] + c[1] * s + (c[2] + c[3] * s) * s2 +
                (c[4] + c[5] * s + (c[6] + c[7] * s) * s2) * (s2 * s2);

  return choose (upper, gain * y - curve->loss, curve->slope * value);
}

static void
curve_apply (Curve *curve, gfloat *values, gsize len, gint components)
{
  const Ints  colour = { -1, -1, -1, components == 4 ? 0 : -1 };
  const gsize rest   = len % LANES;
  Vec         x;

  curve_init (curve);
  for (gsize at = 0; at < len - rest; at += LANES)
    {
      memcpy (&x, values + at, sizeof (x));
      x = choose (colour, curve_at (curve, x), x);
      memcpy (values + at, &x, sizeof (x));
    }

  if (rest) /* never with alpha */
    {
      x = (Vec){
        0.0f,
      };
      memcpy (&x, values + len - rest, rest * sizeof (gfloat));
      x = curve_at (curve, x);
      memcpy (values + len - rest, &x, rest * sizeof (gfloat));
    }
}

void
zn_op_curve_encode (gfloat *pixels, gsize n_pixels, gint components)
{
  curve_apply (&to_seen, pixels, n_pixels * components, components);
}

void
zn_op_curve_decode (gfloat *pixels, gsize n_pixels, gint components)
{
  curve_apply (&to_light, pixels, n_pixels * components, components);
}
