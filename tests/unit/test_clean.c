/* SPDX-License-Identifier: MIT */
/* test_clean.c - what tells a clean picture from one with noise. */
#include "test.h"

#include "pipeline/clean.h"
#include "pipeline/memory.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { W = 200, H = 160, N = 2000 };

static uint32_t state;
static float drawn; /* the last one */

static float draw(void) /* 0 .. 1 */
{
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 16777216;
}

typedef struct picture {
    float noise;  /* of 255 */
    float block;  /* the mean of a block is off by up to that, of 255 */
    int phase;    /* where the first block begins */
    bool numbers; /* false: NaN here and there */
    bool grey;    /* the noise is the same in all channels */
    bool coarse;  /* ... and in pairs of pixels */
    int fails_at; /* this read fails; 0: none */
    int reads;
} picture;

static float value(const picture *p, int x, int y, int c)
{
    const int bx = (x + 8 - p->phase) / 8, by = (y + 8 - p->phase) / 8;
    const float off = (float)((bx * 7919 + by * 104729 + bx * by * 31) % 97) / 48 - 1;

    if (!p->numbers && (x + y * W) % 997 == 5)
        return NAN;
    if ((c == 0 || !p->grey) && (x % 2 == 0 || !p->coarse))
        drawn = draw();
    return 0.5f + 0.2f * sinf((float)x * 0.03f + (float)c) * cosf((float)y * 0.02f) + p->block / 255 * off +
        p->noise / 255 * 3.46f * (drawn - 0.5f);
}

static bool read_picture(void *cookie, zn_rect r, float *dst)
{
    picture *p = cookie;

    for (int y = r.y; y < r.y + r.h; y++)
        for (int x = r.x; x < r.x + r.w; x++)
            for (int c = 0; c < 3; c++)
                *dst++ = value(p, x, y, c);
    return ++p->reads != p->fails_at;
}

static zn_engine *engine; /* whose threads look; NULL: this one */

static zn_status look(zn_signs *s, picture p, const zn_rect *squares, int n, int nx, zn_error *err)
{
    const zn_source in = { W, H, 3, read_picture, &p };

    state = 1;
    *s = (zn_signs){ 0 };
    return zn_signs_look(s, &in, squares, n, nx, engine, err);
}

static const zn_rect whole[] = { { 0, 0, W, H } };

static void smooth_places(void)
{
    zn_error err = { "" };
    zn_signs s;

    CHECK(!look(&s, (picture){ .numbers = true }, whole, 1, 1, &err), "%s", err.text);
    CHECK(s.smooth < 0.1f && fabsf(s.blocks) < 0.05f, "clean: smooth %g, blocks %g", (double)s.smooth,
          (double)s.blocks);
    for (float noise = 3; noise < 30; noise *= 2) {
        CHECK(!look(&s, (picture){ .noise = noise, .numbers = true }, whole, 1, 1, &err), "%s", err.text);
        CHECK(fabsf(s.smooth / noise - 1) < 0.15f, "noise %g: %g", (double)noise, (double)s.smooth);
        CHECK(noise > 10 || s.blocks < 0.2f, "noise %g: blocks %g", (double)noise, (double)s.blocks);
    }
}

/* Wherever the first one begins, and in squares as in the whole picture. */
static void blocks_of_a_file(void)
{
    static const zn_rect squares[] = { { 0, 0, 64, 64 },  { 64, 0, 64, 64 },  { 128, 0, 64, 64 },
                                       { 0, 96, 64, 64 }, { 64, 96, 64, 64 }, { 128, 96, 64, 64 } };
    zn_error err = { "" };
    zn_signs s;

    for (int phase = 0; phase < 8; phase++) {
        const picture p = { .block = 2, .phase = phase, .numbers = true };

        CHECK(!look(&s, p, whole, 1, 1, &err), "%s", err.text);
        CHECK(s.blocks > 0.5f, "phase %d: %g", phase, (double)s.blocks);
        CHECK(!look(&s, p, squares, 6, 3, &err), "%s", err.text);
        CHECK(s.blocks > 0.5f, "phase %d, in squares: %g", phase, (double)s.blocks);
    }
    /* the seams between squares are no blocks */
    CHECK(!look(&s, (picture){ .numbers = true }, squares, 6, 3, &err), "%s", err.text);
    CHECK(s.blocks < 0.05f, "squares of a clean picture: %g", (double)s.blocks);
}

/* How much steeper the steepest place is than the next, by the words of clean.h: for all steps along one axis, of w x h values. */
static double steepest(const float *v, int w, int h, int along_x)
{
    double sum[8] = { 0 }, most = -INFINITY, next = -INFINITY;
    int n[8] = { 0 }, apart = along_x ? 1 : w;

    for (int y = along_x ? 0 : 1; y < (along_x ? h : h - 2); y++)
        for (int x = along_x ? 1 : 0; x < (along_x ? w - 2 : w); x++) {
            const float *p = v + y * w + x;
            const float a = fabsf(*p - p[-apart]), b = fabsf(p[apart] - *p), c = fabsf(p[2 * apart] - p[apart]);

            if (a < 6.0f / 255 && b < 6.0f / 255 && c < 6.0f / 255 && a + b + c > 0) {
                sum[(along_x ? x : y) % 8] += (double)(b - (a + c) / 2);
                n[(along_x ? x : y) % 8]++;
            }
        }
    for (int i = 0; i < 8; i++) {
        const double mean = n[i] ? sum[i] / n[i] : 0;

        next = fmax(next, fmin(most, mean));
        most = fmax(most, mean);
    }
    return most - next;
}

/* Of pictures of all widths from 1, with NaN: the same as one step after another. */
static void all_steps(void)
{
    static float green[W * H], rgb[3 * W * H];
    zn_error err = { "" };
    zn_signs s;

    for (int w = 1; w <= 67; w++)
        for (int h = 140; h > 60; h -= 67) {
            picture p = { .noise = 3, .block = 3, .phase = w % 8 };
            double right;

            state = 1;
            (void)read_picture(&p, (zn_rect){ 0, 0, w, h }, rgb);
            for (int i = 0; i < w * h; i++)
                green[i] = rgb[3 * i + 1];
            right = 255 * (steepest(green, w, h, 1) + steepest(green, w, h, 0)) / 2;
            CHECK(!look(&s, p, &(zn_rect){ 0, 0, w, h }, 1, 1, &err), "%s", err.text);
            CHECK(fabs((double)s.blocks - right) < 1e-4, "%dx%d: %g, not %g", w, h, (double)s.blocks, right);
        }
}

/* How fine grain is, and whether its colours differ. */
static void grain(void)
{
    zn_error err = { "" };
    zn_signs s;

    for (int grey = 0; grey < 2; grey++) {
        CHECK(!look(&s, (picture){ .noise = 2, .numbers = true, .grey = grey }, whole, 1, 1, &err), "%s", err.text);
        CHECK(s.fine > 1.4f && s.fine < 2.1f, "of 2, grey %d: %g", grey, (double)s.fine);
        CHECK(grey ? s.grey > 0.99f : fabsf(s.grey) < 0.1f, "grey %d: %g", grey, (double)s.grey);
    }
    CHECK(!look(&s, (picture){ .noise = 2, .numbers = true, .grey = true, .coarse = true }, whole, 1, 1, &err), "%s",
          err.text);
    CHECK(s.fine < 1.3f, "coarse grain of 2: %g", (double)s.fine);
    CHECK(!look(&s, (picture){ .numbers = true }, whole, 1, 1, &err), "%s", err.text);
    CHECK(s.fine < 0.1f, "none: %g", (double)s.fine);
}

/* Any number of threads sees the same. */
static void threads(void)
{
    static const zn_rect squares[] = { { 0, 0, 100, 140 }, { 64, 0, 100, 140 }, { 0, 10, 100, 140 } };
    const picture p = { .noise = 4, .block = 1, .numbers = true, .grey = true };
    zn_error err = { "" };
    zn_signs one, s;

    CHECK(!look(&one, p, squares, 3, 2, &err), "%s", err.text);
    for (int n = 1; n < 6; n += 2) {
        CHECK(!zn_engine_open(&engine, "scalar", n, &err), "%s", err.text);
        CHECK(!look(&s, p, squares, 3, 2, &err), "%s", err.text);
        CHECK(!memcmp(&s, &one, sizeof s), "%d threads: smooth %g, not %g; blocks %g, not %g; fine %g, not %g", n,
              (double)s.smooth, (double)one.smooth, (double)s.blocks, (double)one.blocks, (double)s.fine,
              (double)one.fine);
        zn_engine_close(&engine);
        engine = NULL;
    }
}

static bool read_array(void *cookie, zn_rect r, float *dst)
{
    return zn_memory_read(cookie, r, dst);
}

/* An array is looked at where it lies, with the same result as a copy; a part of it is a copy. */
static void an_array(void)
{
    static float rgb[3 * W * H];
    zn_memory mem = { rgb, W, 3 };
    const zn_source array = { W, H, 3, zn_memory_read, &mem }, copied = { W, H, 3, read_array, &mem };
    const zn_rect part = { 0, 0, W - 9, H - 1 };
    zn_error err = { "" };

    state = 1;
    (void)read_picture(&(picture){ .noise = 4, .block = 1, .numbers = true }, *whole, rgb);
    CHECK(zn_memory_of(&array) == rgb && !zn_memory_of(&copied), "what is an array");
    for (int i = 0; i < 2; i++) {
        const zn_rect *r = i ? &part : whole;
        zn_signs s = { 0 }, copy = { 0 };

        CHECK(!zn_signs_look(&s, &array, r, 1, 1, NULL, &err), "%s", err.text);
        CHECK(!zn_signs_look(&copy, &copied, r, 1, 1, NULL, &err), "%s", err.text);
        CHECK(s.smooth > 3 && !memcmp(&s, &copy, sizeof s), "part %d: smooth %g and %g, blocks %g and %g", i,
              (double)s.smooth, (double)copy.smooth, (double)s.blocks, (double)copy.blocks);
    }
}

/* Most cells have 5; some have far less, some do not count. */
static void calm_places(void)
{
    zn_cell *cells = malloc(sizeof(zn_cell[3 * N]));
    zn_signs s = { 0 };

    for (int i = 0; i < 3 * N; i++)
        cells[i] = (zn_cell){ 5 + (float)(i % 7), 0.5f, false };
    CHECK(zn_signs_calm(&s, cells, N) && s.calm == 5 && s.usual == 8, "%g and %g, not 5 and 8", (double)s.calm,
          (double)s.usual);
    for (int i = 0; i < 3 * N / 25; i++)
        cells[i].level = 1;
    CHECK(zn_signs_calm(&s, cells, N) && s.calm == 5, "a twenty-fifth of 1: %g", (double)s.calm);
    for (int i = 0; i < 3 * N / 15; i++)
        cells[i].level = 1;
    CHECK(zn_signs_calm(&s, cells, N) && s.calm == 1, "a fifteenth of 1: %g", (double)s.calm);
    for (int i = 0; i < 3 * N / 3; i++)
        cells[i].level = 0.36f;
    CHECK(zn_signs_calm(&s, cells, N) && s.calm == 5, "a third that was pasted: %g", (double)s.calm);
    for (int i = 0; i < 3 * N / 3; i++)
        cells[i] = (zn_cell){ 1, 0.5f, true };
    CHECK(zn_signs_calm(&s, cells, N) && s.calm == 5, "a third of one colour: %g", (double)s.calm);
    for (int i = 0; i < 3 * N; i += 3)
        cells[i].level = 20, cells[i + 1].level = 0.5f;
    CHECK(zn_signs_calm(&s, cells, N) && s.calm == 5, "not the middle channel: %g", (double)s.calm);
    CHECK(zn_signs_calm(&s, cells, 0) && s.calm == 0, "no cells: %g", (double)s.calm);
    free(cells);
}

static void the_verdict(void)
{
    static const struct {
        zn_signs s;
        float clean;
    } cases[] = {
        { { .calm = 0 }, 1 },
        { { 1.3f, 2.5f, 0.1f, 0, 0, 2 }, 1 },
        { { 1.6f, 0, 0, 0, 0, 2 }, 0 },
        { { 1, 3.1f, 0, 0, 0, 2 }, 0 },
        { { 0.5f, 3.1f, 0, 0, 0, 2 }, 1 }, /* nothing but the smoothest places */
        { { 0.5f, 4.2f, 0, 0, 0, 2 }, 0 },
        { { 0, 0, 0.5f, 0, 0, 2 }, 0 },
        { { 0, 0, 0.3f, 0, 0, 2 }, 0.5f },
        { { 1.6f, 3.1f, 0.5f, 0, 0, 2 }, 0 },
        { { 2, 2.8f, 0, 1.9f, 0.85f, 2 }, 1 }, /* film */
        { { 2, 2.8f, 0, 1.9f, 0.4f, 2 }, 0 },
        { { 2, 2.8f, 0, 1, 0.85f, 2 }, 0 },
        { { 3, 2.8f, 0, 2.9f, 0.85f, 2 }, 0 },
        { { 2, 2.8f, 0.5f, 1.9f, 0.85f, 2 }, 0 },
        { { 0.8f, 100, 0, 0, 0, 0.8f }, 1 }, /* text */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(fabsf(zn_signs_clean(&cases[i].s) - cases[i].clean) < 1e-6f, "case %d: %g, not %g", (int)i,
              (double)zn_signs_clean(&cases[i].s), (double)cases[i].clean);
    for (float v = 0; v < 4; v += 0.01f) {
        const zn_signs s = { .calm = v };
        const float eighths = 8 * zn_signs_clean(&s);

        CHECK(eighths == rintf(eighths), "%g: %g", (double)v, (double)eighths);
    }
}

static void steep_blocks(void)
{
    zn_signs s = { .blocks = 0.6f };

    CHECK(zn_signs_more(&s) == 0, "weak ones: %g", (double)zn_signs_more(&s));
    s.blocks = 1;
    CHECK(fabsf(zn_signs_more(&s) - 0.2f) < 0.03f, "half way: %g", (double)zn_signs_more(&s));
    s.blocks = 5;
    CHECK(zn_signs_more(&s) == 0.4f, "strong ones: %g", (double)zn_signs_more(&s));
    s.blocks = NAN;
    CHECK(zn_signs_more(&s) == 0, "not a number: %g", (double)zn_signs_more(&s));
}

static void pictures_that_are_none(void)
{
    zn_error err = { "" };
    zn_signs s;

    CHECK(!look(&s, (picture){ .noise = 5 }, whole, 1, 1, &err), "%s", err.text);
    CHECK(isfinite(s.blocks) && isfinite(s.smooth), "smooth %g, blocks %g", (double)s.smooth, (double)s.blocks);
    for (int side = 1; side < 20; side++) {
        const zn_rect r = { 0, 0, side, 20 - side };

        CHECK(!look(&s, (picture){ .noise = 5, .numbers = true }, &r, 1, 1, &err), "%s", err.text);
        CHECK(isfinite(s.blocks) && isfinite(s.smooth), "%d: smooth %g, blocks %g", side, (double)s.smooth,
              (double)s.blocks);
    }
    CHECK(look(&s, (picture){ .numbers = true, .fails_at = 1 }, whole, 1, 1, &err) == ZN_E_FILE &&
              strstr(err.text, "could not be read"),
          "'%s'", err.text);
}

int main(void)
{
    test_run("smooth places", smooth_places);
    test_run("blocks of a file", blocks_of_a_file);
    test_run("all steps", all_steps);
    test_run("grain", grain);
    test_run("threads", threads);
    test_run("an array", an_array);
    test_run("calm places", calm_places);
    test_run("the verdict", the_verdict);
    test_run("steep blocks", steep_blocks);
    test_run("pictures that are none", pictures_that_are_none);
    return test_end();
}
