/* SPDX-License-Identifier: MIT */
/* test_sharpen.c - sharpening, against a slow version in double precision; what must not become of an edge. */
#include "test.h"

#include "pipeline/sharpen.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { W = 37, H = 23 };

static float light[H * W], add[H * W];

static uint32_t state;

static float draw(void) /* 0 .. 1 */
{
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 16777216;
}

static double at(const float *v, int w, int h, int x, int y)
{
    x = x < 0 ? 0 : x >= w ? w - 1 : x;
    y = y < 0 ? 0 : y >= h ? h - 1 : y;
    return (double)v[y * w + x];
}

static double slow(const float *v, int w, int h, int x, int y, double amount)
{
    static const int share[5] = { 1, 4, 6, 4, 1 };
    double mean = 0, least = INFINITY, most = -INFINITY, beyond, sharp;
    const double here = at(v, w, h, x, y);

    for (int j = -2; j <= 2; j++)
        for (int i = -2; i <= 2; i++)
            mean += at(v, w, h, x + i, y + j) * share[i + 2] * share[j + 2] / 256;
    for (int j = -1; j <= 1; j++)
        for (int i = -1; i <= 1; i++) {
            least = fmin(least, at(v, w, h, x + i, y + j));
            most = fmax(most, at(v, w, h, x + i, y + j));
        }
    beyond = fmin((most - least) / 2, 2.0 / 255);
    sharp = here + amount * (here - mean);
    return fmin(fmax(sharp, least - beyond), most + beyond) - here;
}

static void as_the_slow_version(void)
{
    static const int sizes[][2] = { { W, H }, { 1, 1 }, { 1, H }, { W, 1 }, { 2, 3 }, { 5, 2 } };

    state = 1;
    for (int i = 0; i < W * H; i++)
        light[i] = draw() * (i % 3 ? 1 : 0.02f);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (float amount = 0; amount < 3; amount += 0.75f) {
            const int w = sizes[k][0], h = sizes[k][1];

            CHECK(zn_sharpen(add, light, w, h, amount), "out of memory");
            for (int i = 0; i < w * h; i++) {
                const double want = slow(light, w, h, i % w, i / w, (double)amount);

                CHECK(fabs((double)add[i] - want) < 1e-6, "%d x %d, amount %g, pixel %d: %g, not %g", w, h,
                      (double)amount, i, (double)add[i], want);
            }
        }
}

/* A soft edge becomes steeper, and what lies beside it hardly lighter or darker. */
static void an_edge_without_halo(void)
{
    float least = 1, most = 0, steep = 0;

    for (int i = 0; i < W * H; i++)
        light[i] = 0.2f + 0.6f / (1 + expf(-(float)(i % W - 18) / 0.8f));
    CHECK(zn_sharpen(add, light, W, H, 2), "out of memory");
    for (int i = 0; i < W; i++) {
        const float now = light[W * 9 + i] + add[W * 9 + i];

        least = fminf(least, now);
        most = fmaxf(most, now);
        if (i)
            steep = fmaxf(steep, now - light[W * 9 + i - 1] - add[W * 9 + i - 1]);
    }
    CHECK(least > 0.2f - 2.01f / 255 && most < 0.8f + 2.01f / 255, "from %g to %g", (double)least, (double)most);
    CHECK(steep > 1.2f * 0.6f * 0.25f / 0.8f, "the steepest step is %g", (double)steep);
}

/* Weak texture has more contrast, by the amount; what is smooth stays. */
static void texture_and_smooth_places(void)
{
    float was = 0, now = 0;

    for (int i = 0; i < W * H; i++)
        light[i] = 0.5f + 0.004f * sinf((float)(i % W) * 1.6f) * cosf((float)(i / W) * 1.3f);
    CHECK(zn_sharpen(add, light, W, H, 0.5f), "out of memory");
    for (int i = 0; i < W * H; i++) {
        was += fabsf(light[i] - 0.5f);
        now += fabsf(light[i] + add[i] - 0.5f);
    }
    CHECK(now > 1.25f * was && now < 1.5f * was, "contrast times %g", (double)(now / was));
    for (int i = 0; i < W * H; i++)
        light[i] = 0.3f + 0.002f * (float)(i % W) + 0.003f * (float)(i / W);
    CHECK(zn_sharpen(add, light, W, H, 3), "out of memory");
    for (int i = 0; i < W * H; i++)
        CHECK(i % W < 2 || i % W >= W - 2 || i / W < 2 || i / W >= H - 2 || fabsf(add[i]) < 1e-6f, "a slope, %d: %g", i,
              (double)add[i]);
}

/* A part of a picture, with the reach around it, is as in the whole. */
static void a_part(void)
{
    enum { X = 9, Y = 6, SIDE = 11 };
    float part[SIDE * SIDE], own[SIDE * SIDE];

    state = 5;
    for (int i = 0; i < W * H; i++)
        light[i] = draw();
    for (int i = 0; i < SIDE * SIDE; i++)
        part[i] = light[(Y + i / SIDE) * W + X + i % SIDE];
    CHECK(zn_sharpen(add, light, W, H, 1) && zn_sharpen(own, part, SIDE, SIDE, 1), "out of memory");
    for (int y = ZN_SHARPEN_REACH; y < SIDE - ZN_SHARPEN_REACH; y++)
        for (int x = ZN_SHARPEN_REACH; x < SIDE - ZN_SHARPEN_REACH; x++)
            CHECK(own[y * SIDE + x] == add[(Y + y) * W + X + x], "at %d, %d", x, y);
}

static void no_numbers(void)
{
    for (int i = 0; i < W * H; i++)
        light[i] = (float)(i % 7) / 7;
    light[5 * W + 9] = NAN;
    light[15 * W + 20] = INFINITY;
    CHECK(zn_sharpen(add, light, W, H, 1), "out of memory");
    for (int i = 0; i < W * H; i++) {
        const int x = i % W, y = i / W;

        CHECK(isfinite(add[i]), "pixel %d: %g", i, (double)add[i]);
        if ((abs(x - 9) <= 2 && abs(y - 5) <= 2) || (abs(x - 20) <= 2 && abs(y - 15) <= 2))
            CHECK(add[i] == 0, "pixel %d: %g", i, (double)add[i]);
        else
            CHECK(fabs((double)add[i] - slow(light, W, H, x, y, 1)) < 1e-6, "pixel %d, which sees only numbers", i);
    }
}

int main(void)
{
    test_run("as the slow version", as_the_slow_version);
    test_run("an edge without halo", an_edge_without_halo);
    test_run("texture and smooth places", texture_and_smooth_places);
    test_run("a part", a_part);
    test_run("no numbers", no_numbers);
    return test_end();
}
