/* SPDX-License-Identifier: MIT */
/* test_curve.c - sRGB's curve, against its formula in double precision, over the range of floats. */
#include "test.h"

#include "zenith.h"

#include <math.h>
#include <stdint.h>

static double seen(double v)
{
    return v > 0.003130804954 ? 1.055 * pow(v, 1 / 2.4) - 0.055 : 12.92 * v;
}

static double light(double v)
{
    return v > 0.04045 ? pow((v + 0.055) / 1.055, 2.4) : v / 12.92;
}

/* Value i of n: floats of all sizes, of both signs. */
enum { VALUES = 1 << 16 };
static float value(uint32_t i)
{
    const uint32_t bits = i << 16 | (i * 2654435761u) >> 16;
    float v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

static void check_one(float from, float got, double want, const char *way)
{
    if (isnan(from) || isinf(from))
        CHECK(isnan(from) ? isnan(got) : got == from, "%s: %g became %g", way, (double)from, (double)got);
    else if (fabs(want) > 3.4e38) /* what no float holds */
        CHECK(isinf(got) || fabs((double)got) > 3.3e38, "%s: %g became %g", way, (double)from, (double)got);
    else
        CHECK(fabs((double)got - want) <= 1e-6 * fmax(fabs(want), 1), "%s: %.9g became %.9g, not %.9g", way,
              (double)from, (double)got, want);
}

static void test_the_formula(void)
{
    for (uint32_t i = 0; i < VALUES; i++) {
        float to[3], back[3];

        for (uint32_t c = 0; c < 3; c++)
            to[c] = back[c] = value((i + 1000 * c) % VALUES);
        zn_curve_encode(to, 1, 3);
        zn_curve_decode(back, 1, 3);
        for (uint32_t c = 0; c < 3; c++) {
            const float v = value((i + 1000 * c) % VALUES);

            TRY(check_one(v, to[c], seen((double)v), "to what is seen"));
            TRY(check_one(v, back[c], light((double)v), "to light"));
        }
    }
}

/* What becomes of a value does not depend on where it stands; alpha stays. */
static void test_places(void)
{
    enum { N = 23 };
    float pixels[N * 4], one[3];

    for (int n = 1; n <= N; n++)
        for (int components = 3; components <= 4; components++) {
            for (int i = 0; i < n * components; i++)
                pixels[i] = 0.01f * (float)i - 0.1f;
            zn_curve_encode(pixels, (size_t)n, components);
            for (int i = 0; i < n * components; i++) {
                const float was = 0.01f * (float)i - 0.1f;

                one[0] = one[1] = one[2] = was;
                zn_curve_encode(one, 1, 3);
                CHECK(pixels[i] == (components == 4 && i % 4 == 3 ? was : one[1]) && one[0] == one[2],
                      "%d of %d pixels of %d: %g, alone %g", i, n, components, (double)pixels[i], (double)one[1]);
            }
        }
}

int main(void)
{
    RUN(test_the_formula);
    RUN(test_places);
    return test_end();
}
