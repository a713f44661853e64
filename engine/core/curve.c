/* SPDX-License-Identifier: MIT */
/* curve.c - sRGB's curve, for pictures that are linear in light; see zn_curve_encode() in zenith.h.
 *
 * A power of x = m 2^e, 1 <= m < 2, is a polynomial of m times a table's value for e. */
#include "../zenith.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

enum { LANES = 4 }; /* values, one to a lane: what every machine has */
typedef float vec __attribute__((vector_size(LANES * 4)));
typedef int32_t ints __attribute__((vector_size(LANES * 4)));

typedef struct curve {
    float cut, slope;   /* up to cut: slope * v */
    float scale, shift; /* above: gain * (scale * v + shift)^power - loss */
    double power;
    float gain, loss;
    float poly[8];     /* (s + 1.5)^power, right to 4e-8 for s in -0.5..0.5 */
    float octave[256]; /* gain * 2^(e * power), e + 127 the exponent of a float */
} curve;

static curve to_seen = {
    .cut = 0.003130804954f,
    .slope = 12.92f,
    .scale = 1.0f,
    .shift = 0.0f,
    .power = 1.0 / 2.4,
    .gain = 1.055f,
    .loss = 0.055f,
    .poly = { 1.18405361f, 0.32890376f, -0.0639566782f, 0.0225039502f, -0.00962596732f, 0.00459364891f, -0.00274339716f,
              0.00147123238f },
};

static curve to_light = {
    .cut = 0.04045f,
    .slope = 1.0f / 12.92f,
    .scale = 1.0f / 1.055f,
    .shift = 0.055f / 1.055f,
    .power = 2.4,
    .gain = 1.0f,
    .loss = 0.0f,
    .poly = { 2.64617781f, 4.23388448f, 1.97581215f, 0.175628056f, -0.0175506826f, 0.00374166081f, -0.00115828999f,
              0.000402818755f },
};

static void fill(curve *c)
{
    for (int i = 0; i < 255; i++)
        c->octave[i] = (float)(c->gain * exp2((i - 127) * c->power));
    c->octave[255] = INFINITY; /* its exponent */
}

static void fill_tables(void)
{
    fill(&to_seen);
    fill(&to_light);
}

/* Lanes of a where the mask is set, of b elsewhere. */
static inline vec choose(ints mask, vec a, vec b)
{
    return (vec)((mask & (ints)a) | (~mask & (ints)b));
}

static inline vec curve_at(const curve *c, vec value)
{
    const float *p = c->poly;
    const vec cut = (vec){ 0 } + c->cut;
    const ints upper = value > cut; /* never NaN */
    const vec x = c->scale * choose(upper, value, cut) + c->shift;
    const ints e = (ints)x >> 23;
    const vec gain = { c->octave[e[0]], c->octave[e[1]], c->octave[e[2]], c->octave[e[3]] };
    const vec s = (vec)(((ints)x & 0x7fffff) | 0x3f800000) - 1.5f;
    const vec s2 = s * s;
    const vec y = p[0] + p[1] * s + (p[2] + p[3] * s) * s2 + (p[4] + p[5] * s + (p[6] + p[7] * s) * s2) * (s2 * s2);

    return choose(upper, gain * y - c->loss, c->slope * value);
}

static void apply(const curve *c, float *values, size_t len, int components)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const ints colour = { -1, -1, -1, components == 4 ? 0 : -1 };
    const size_t rest = len % LANES;
    vec x;

    pthread_once(&once, fill_tables);
    for (size_t at = 0; at < len - rest; at += LANES) {
        memcpy(&x, values + at, sizeof x);
        x = choose(colour, curve_at(c, x), x);
        memcpy(values + at, &x, sizeof x);
    }
    if (rest) { /* never with alpha */
        x = (vec){ 0 };
        memcpy(&x, values + len - rest, rest * sizeof *values);
        x = curve_at(c, x);
        memcpy(values + len - rest, &x, rest * sizeof *values);
    }
}

void zn_curve_encode(float *pixels, size_t n, int components)
{
    apply(&to_seen, pixels, n * (size_t)components, components);
}

void zn_curve_decode(float *pixels, size_t n, int components)
{
    apply(&to_light, pixels, n * (size_t)components, components);
}
