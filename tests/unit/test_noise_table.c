/* SPDX-License-Identifier: MIT */
/* test_noise_table.c - what is measured once for a picture, against a slow version of it; the effect of clean, plain
 * and invalid parts. */
#include "test.h"

#include "pipeline/level.h"

#include <math.h>
#include <stdlib.h>

enum { N = 2500, FEW = 7 };

static uint32_t state;

static float draw(void) /* 0 .. 1 */
{
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 16777216;
}

/* Shadows have three times the noise of the lights, green has less; levels spread by a third. */
static zn_cell *scene(void)
{
    zn_cell *cells = malloc(sizeof(zn_cell[3 * N]));

    state = 1;
    for (int i = 0; i < 3 * N; i++) {
        const float bright = 0.05f + 0.9f * draw();

        cells[i] = (zn_cell){ (9 - 6 * bright) * (i % 3 == 1 ? 0.7f : 1) * (0.7f + 0.6f * draw()), bright, false };
    }
    return cells;
}

/* 1.15 times the level up to which the weights of cells are half of all, found without sorting. */
static double slow_least(const zn_cell *cells, int n, int c, int bin)
{
    const double centre = (bin + 0.5) / 16, width = 0.75 / 16;
    double all = 0, best = INFINITY;

    for (int i = c; i < 3 * n; i += 3)
        all += cells[i].plain ? 0 : exp(-pow(((double)cells[i].bright - centre) / width, 2) / 2);
    if (all <= 8)
        return 0;
    for (int i = c; i < 3 * n; i += 3) {
        double below = 0;

        if (cells[i].plain || (double)cells[i].level >= best)
            continue;
        for (int j = c; j < 3 * n; j += 3)
            if (!cells[j].plain && cells[j].level <= cells[i].level)
                below += exp(-pow(((double)cells[j].bright - centre) / width, 2) / 2);
        if (below >= 0.5 * all)
            best = (double)cells[i].level;
    }
    return 1.15 * best;
}

static void as_the_slow_version(void)
{
    zn_cell *cells = scene();
    zn_noise_table t;

    for (int i = 0; i < 3 * N; i += 11)
        cells[i].plain = true;
    CHECK(zn_noise_of(&t, cells, N), "out of memory");
    for (int c = 0; c < 3; c++) {
        int above = 0, below = 0;

        for (int i = 0; i < 16; i++) {
            const double want = slow_least(cells, N, c, i);

            /* of two cells with nearly the same sum of weights either may be taken */
            CHECK(fabs((double)t.least[c][i] - want) <= 2e-3 * want, "channel %d, bin %d: %g, not %g", c, i,
                  (double)t.least[c][i], want);
        }
        for (int i = c; i < 3 * N; i += 3) {
            above += cells[i].level > t.median[c];
            below += cells[i].level < t.median[c];
        }
        CHECK(above <= N / 2 && below <= N / 2, "channel %d: %g is no median: %d above, %d below", c,
              (double)t.median[c], above, below);
    }
    CHECK((double)t.least[0][2] > 1.5 * (double)t.least[0][13], "shadows %g, lights %g", (double)t.least[0][2],
          (double)t.least[0][13]);
    free(cells);
}

static void between_bins(void)
{
    float least[ZN_NOISE_BINS];

    for (int i = 0; i < ZN_NOISE_BINS; i++)
        least[i] = (float)(i * i);
    for (int i = 0; i < ZN_NOISE_BINS - 1; i++) {
        CHECK(fabsf(zn_noise_least(least, ((float)i + 0.5f) / 16) - least[i]) < 1e-4f, "bin %d", i);
        CHECK(fabsf(zn_noise_least(least, ((float)i + 1) / 16) - (least[i] + least[i + 1]) / 2) < 1e-4f, "after %d", i);
    }
    CHECK(zn_noise_least(least, 0) == 0 && zn_noise_least(least, -5) == 0, "below the first centre");
    CHECK(zn_noise_least(least, 1) == 225 && zn_noise_least(least, 1e30f) == 225, "above the last centre");
    CHECK(zn_noise_least(least, NAN) == 0 && zn_noise_least(least, INFINITY) == 225, "not a number");
}

/* At least that of the picture, but at most four times its own; of a cell that looks clean, 3.2. */
static void what_a_cell_is_told(void)
{
    static const struct {
        float level, told;
    } cases[] = { { 20, 20 }, { 12, 12 }, { 5, 12 }, { 3, 12 }, { 2, 8 }, { 1, 4 }, { 0.8f, 3.2f }, { 0.4f, 3.2f } };
    float least[ZN_NOISE_BINS] = { 0 };
    zn_cell c = { 100, 0.5f, true };

    for (int i = 4; i < 12; i++)
        least[i] = 12;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        c.level = cases[i].level;
        CHECK(fabsf(zn_noise_told(least, &c) - cases[i].told) < 1e-5f, "%g: %g, not %g", (double)c.level,
              (double)zn_noise_told(least, &c), (double)cases[i].told);
    }
    c.bright = 0.02f; /* nothing is known there */
    CHECK(zn_noise_told(least, &c) == c.level, "raised to %g", (double)zn_noise_told(least, &c));
    least[8] = least[7] = INFINITY;
    c = (zn_cell){ 200, 0.5f, false };
    CHECK(zn_noise_told(least, &c) <= 255, "raised to %g", (double)zn_noise_told(least, &c));
}

/* The largest change of the least level of any bin, as a share of it. */
static double change(const zn_noise_table *a, const zn_noise_table *b)
{
    double most = 0;

    for (int i = 0; i < 48; i++) {
        const double was = (double)a->least[i / 16][i % 16], now = (double)b->least[i / 16][i % 16];

        most = fmax(most, was > 0 ? fabs(now / was - 1) : now > 0);
    }
    return most;
}

/* A tenth that was denoised, pasted without noise, or is a frame of one colour: the rest keeps its level. */
static void parts_without_noise(void)
{
    zn_cell *cells = scene();
    zn_noise_table t, u;

    CHECK(zn_noise_of(&t, cells, N), "out of memory");
    for (int i = 0; i < 3 * N / 10; i++)
        cells[i].level = 0.5f;
    CHECK(zn_noise_of(&u, cells, N) && change(&t, &u) < 0.15, "a tenth without noise changes %g", change(&t, &u));
    free(cells);

    cells = scene(); /* two fifths, but of one colour: nearly all that is as bright */
    for (int i = 0; i < 3 * N * 2 / 5; i++)
        cells[i] = (zn_cell){ 0.35f, 0.85f, true };
    CHECK(zn_noise_of(&u, cells, N) && change(&t, &u) < 0.15, "a frame changes %g", change(&t, &u));
    free(cells);
}

/* One part with noise makes no level for the rest. */
static void clean_pictures(void)
{
    zn_cell *cells = scene();
    zn_noise_table t;

    for (int i = 0; i < 3 * N; i++)
        cells[i].level = i % 10 < 4 ? cells[i].level : 0.4f;
    CHECK(zn_noise_of(&t, cells, N), "out of memory");
    for (int i = 0; i < 48; i++)
        CHECK(t.least[i / 16][i % 16] <= 0.47f, "bin %d: %g", i, (double)t.least[i / 16][i % 16]);
    CHECK(t.median[0] == 0.4f, "median %g", (double)t.median[0]);
    free(cells);
}

static void too_little_to_tell(void)
{
    zn_cell *cells = scene();
    zn_noise_table t;

    CHECK(zn_noise_of(&t, cells, FEW) && t.median[0] > 0, "a few cells");
    for (int i = 0; i < 48; i++)
        CHECK(t.least[i / 16][i % 16] == 0, "%g from %d cells", (double)t.least[i / 16][i % 16], FEW);
    CHECK(zn_noise_of(&t, cells, 0) && t.median[2] == 0 && t.least[2][8] == 0, "no cells");
    for (int i = 0; i < 3 * N; i++)
        cells[i].bright = i % 2 ? NAN : INFINITY;
    CHECK(zn_noise_of(&t, cells, N), "out of memory");
    for (int i = 0; i < 48; i++)
        CHECK(t.least[i / 16][i % 16] == 0, "%g of what is no number", (double)t.least[i / 16][i % 16]);
    free(cells);
}

int main(void)
{
    test_run("as the slow version", as_the_slow_version);
    test_run("between bins", between_bins);
    test_run("what a cell is told", what_a_cell_is_told);
    test_run("parts without noise", parts_without_noise);
    test_run("clean pictures", clean_pictures);
    test_run("too little to tell", too_little_to_tell);
    return test_end();
}
