/* SPDX-License-Identifier: MIT */
/* damage.c - see damage.h.
 *
 * Artefacts: a JPEG file stores multiples of a step for each of the 8x8 cosines of a block, and they are still there in the decoded
 * picture, if it was neither scaled nor cropped.  The step of a cosine is that of which its coefficients are multiples most exactly.
 *
 * Fading: what is black or white in a print that has not faded; few pixels are beyond.
 *
 * Blur: an edge loses less of its slope to a further blur the more it is blurred already.  Something is out of focus in most pictures;
 * one is blurred if hardly any of its edges is sharp.  Motion leaves edges along it sharp: each direction counts for itself.  Its amount
 * is told where the edges of every direction are wider than those of a camera's pixels: the network leaves much of the blur in a file. */
#include "damage.h"

#include "../core/ints.h"
#include "../core/status.h"
#include "noise.h"
#include "sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 8,
    COSINES = 14, /* that are looked at */
    VALUES = 512, /* of a coefficient, without its sign */
    MOST_STEP = 120,
    FEW = 24,       /* coefficients beyond half a step: fewer say nothing */
    DIRECTIONS = 4, /* of edges */
    RATIOS = 256,   /* of slopes, from 0 to 1 */
    FEW_EDGES = 40,
    LEVELS = 256,
    MARGIN = 4, /* pixels at the edges of a square that are not looked at */
};

/* Where the cosines are in a block, and their steps at quality 50 (annex K of the standard). */
static const struct {
    int8_t down, along, step;
} cosine[COSINES] = {
    { 0, 1, 11 }, { 1, 0, 12 }, { 2, 0, 14 }, { 1, 1, 12 }, { 0, 2, 10 }, { 0, 3, 16 }, { 1, 2, 14 },
    { 2, 1, 13 }, { 3, 0, 14 }, { 2, 2, 16 }, { 3, 1, 17 }, { 1, 3, 19 }, { 4, 0, 18 }, { 0, 4, 24 }
};

/* How exactly: 1 is always.  Measured: 0.52 and more for quality 10 to 93, below 0.2 without a file. */
static const float EXACT = 0.4f;

/* Slopes, of 255 a pixel, from which on there is an edge; and of its sharpest tenth, how much of the slope a blur leaves.  Measured: a
 * sharp picture 0.33 to 0.49, Gaussian blur of 1.2 at least 0.61, of 0.8 0.48 to 0.79, motion of 3 pixels at least 0.57.  A mean of 3x3
 * pixels counts as sharp: a limit of 0.53 finds it in 3 crops of 8, and takes one clean crop of 24 (384x384, Kodak24) for blurred. */
static const float EDGE = 6, SHARPEST = 0.1f, BLURRED = 0.585f;

/* How much the least blur leaves of these, from which on a blur is told, up to these artefacts.  Measured: crops of cameras at 100 % up to
 * 0.83, Gaussian blur of 1.3 0.67 to 0.83, of 1.8 0.84 to 0.89 (one of 8 0.78), of 2.4 at least 0.86.  What is out of focus on purpose is as
 * wide, but has fewer edges: up to 0.013 of the pixels, Gaussian blur of 1.8 at least 0.015.  MOST_BLUR: of training. */
static const float WIDE = 0.835f, MANY_EDGES = 0.02f, MOST_ARTEFACTS = 15, MOST_BLUR = 3.2f;

/* Of the noise estimate, of 255: up to here it may be texture.  Noise is everywhere, so the calmest blocks must have a share of it, too:
 * white noise of independent channels leaves 0.67 of its deviation in luma, texture of small pictures less than 0.4 in some blocks. */
static const float NOISE = 3.05f, CALMEST = 0.05f, SHARE = 0.45f;

typedef struct look { /* sums over squares */
    uint32_t coefficient[COSINES][VALUES];
    uint32_t edge[DIRECTIONS][RATIOS + 1], fine[DIRECTIONS][RATIOS + 1];
    uint32_t level[3][LEVELS];
    uint64_t pixels;
    uint32_t rough[VALUES]; /* blocks, by the deviation of their finest differences in eighths */
} look;

/* ---- artefacts ------------------------------------------------------------------------------------------------- */

/* The coefficients of a block of luma; basis [k][i]: cosine k at pixel i. */
static void add_block(look *l, float basis[5][BLOCK], const float *y, size_t row)
{
    float part[5][BLOCK]; /* cosines along, of each row */

    for (int i = 0; i < BLOCK; i++)
        for (int k = 0; k < 5; k++) {
            float sum = 0;

            for (int j = 0; j < BLOCK; j++)
                sum += basis[k][j] * y[(size_t)i * row + (size_t)j];
            part[k][i] = sum;
        }
    for (int n = 0; n < COSINES; n++) {
        float sum = 0;

        for (int i = 0; i < BLOCK; i++)
            sum += basis[cosine[n].down][i] * part[cosine[n].along][i];
        sum = fabsf(sum);
        if (sum < VALUES - 1) /* not NaN */
            l->coefficient[n][(int)(sum + 0.5f)]++;
    }
}

static void add_blocks(look *l, const float *y, int w, int h)
{
    float basis[5][BLOCK];

    for (int k = 0; k < 5; k++)
        for (int i = 0; i < BLOCK; i++)
            basis[k][i] = cosf((float)((2 * i + 1) * k) * 3.14159265f / 16) * (k ? 0.5f : 0.35355339f);
    for (int j = 0; j + BLOCK <= h; j += BLOCK)
        for (int i = 0; i + BLOCK <= w; i += BLOCK)
            add_block(l, basis, y + (size_t)j * (size_t)w + (size_t)i, (size_t)w);
}

/* The step of which the coefficients are multiples, and how exactly they are; 0: there are too few. */
static int find_step(const uint32_t count[VALUES], float *exact)
{
    int best = 0;

    *exact = -2;
    for (int step = 2; step <= MOST_STEP; step++) {
        double sum = 0, n = 0;

        for (int v = step / 2 + 1; v < VALUES; v++)
            if (count[v]) {
                sum += count[v] * cos(6.283185307179586 * v / step);
                n += count[v];
            }
        if (n < FEW)
            break;
        if ((float)(sum / n) > *exact) {
            *exact = (float)(sum / n);
            best = step;
        }
    }
    return best;
}

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* 100 - quality, as libjpeg counts it, by the medians over the cosines; 0: it is no file. */
static float artefacts_of(const look *l)
{
    float ratio[COSINES], exact[COSINES], scale;
    size_t n = 0;

    for (int k = 0; k < COSINES; k++) {
        const int step = find_step(l->coefficient[k], &exact[n]);

        if (step)
            ratio[n++] = (float)step / (float)cosine[k].step;
    }
    if (n < 3)
        return 0;
    qsort(ratio, n, sizeof *ratio, ascending);
    qsort(exact, n, sizeof *exact, ascending);
    scale = ratio[n / 2];
    return exact[n / 2] < EXACT ? 0 : roundf(scale < 1 ? 50 * scale : 100 - 50 / scale);
}

/* ---- noise ------------------------------------------------------------------------------------------------------ */

/* Second differences along both axes at once, scaled so that white noise keeps its deviation; flat blocks do not count. */
static void add_rough(look *l, const float *y, int w, int h)
{
    for (int j = 1; j + BLOCK < h; j += BLOCK)
        for (int i = 1; i + BLOCK < w; i += BLOCK) {
            float sum = 0;

            for (int k = 0; k < BLOCK * BLOCK; k++) {
                const float *v = y + (size_t)(j + k / BLOCK) * (size_t)w + (size_t)(i + k % BLOCK);
                const float d =
                    4 * *v - 2 * (v[-1] + v[1] + v[-w] + v[w]) + v[-w - 1] + v[-w + 1] + v[w - 1] + v[w + 1];

                sum += d * d;
            }
            sum = sqrtf(sum / (36 * BLOCK * BLOCK));
            if (sum > 0 && sum < VALUES / 8) /* not NaN */
                l->rough[(int)(8 * sum)]++;
        }
}

/* The value that a share of those counted has at most. */
static int quantile(const uint32_t *count, int values, float share)
{
    uint32_t n = 0, below = 0;
    int i = 0;

    for (int k = 0; k < values; k++)
        n += count[k];
    while (i + 1 < values && (float)(below + count[i]) < share * (float)n)
        below += count[i++];
    return i;
}

static float noise_of(const look *l, const float sigma[3])
{
    const float noise = fminf((sigma[0] + sigma[1] + sigma[2]) / 3, 100);
    const float calm = (float)(quantile(l->rough, VALUES, CALMEST) + 1) / 8;

    return noise > NOISE && calm > SHARE * noise ? roundf(4 * noise) / 4 : 0;
}

/* ---- blur -------------------------------------------------------------------------------------------------------- */

/* Means of 1, 2, 1 along both axes, but for a pixel at the edges; row: w values. */
static void smooth(float *dst, const float *src, int w, int h, float *row)
{
    memcpy(dst, src, (size_t)w * (size_t)h * sizeof *dst);
    for (int j = 1; j + 1 < h; j++) {
        const float *at = src + (size_t)j * (size_t)w;

        for (int i = 0; i < w; i++)
            row[i] = (at[i - w] + 2 * at[i] + at[i + w]) / 4;
        for (int i = 1; i + 1 < w; i++)
            dst[(size_t)j * (size_t)w + (size_t)i] = (row[i - 1] + 2 * row[i] + row[i + 1]) / 4;
    }
}

/* Slopes along x and y. */
static void slopes(float d[2], const float *y, int w)
{
    d[0] = (y[1] - y[-1]) / 2;
    d[1] = (y[w] - y[-w]) / 2;
}

static float steepness(const float *y, int w)
{
    float d[2];

    slopes(d, y, w);
    return sqrtf(d[0] * d[0] + d[1] * d[1]);
}

/* Adds the ratios of slopes where once, the luma y with some blur, has an edge; twice: with more. */
static void add_edges(look *l, const float *y, const float *once, const float *twice, int w, int h)
{
    for (int j = MARGIN; j < h - MARGIN; j++)
        for (int i = MARGIN; i < w - MARGIN; i++) {
            const size_t at = (size_t)j * (size_t)w + (size_t)i;
            float d[2], e[2], steep, left;
            ptrdiff_t next;
            int k;

            slopes(d, once + at, w);
            steep = sqrtf(d[0] * d[0] + d[1] * d[1]);
            if (!(steep > EDGE) || !isfinite(steep))
                continue;
            if (fabsf(d[1]) < 0.41421356f * fabsf(d[0]))
                k = 0, next = 1;
            else if (fabsf(d[0]) < 0.41421356f * fabsf(d[1]))
                k = 2, next = w;
            else
                k = d[0] * d[1] > 0 ? 1 : 3, next = k == 1 ? w + 1 : w - 1;
            if (steep < steepness(once + at - next, w) || steep <= steepness(once + at + next, w))
                continue;
            slopes(e, twice + at, w);
            left = fabsf(d[0] * e[0] + d[1] * e[1]) / (steep * steep);
            l->edge[k][(int)(fminf(left, 1) * RATIOS)]++;
            slopes(e, y + at, w);
            left = steep * steep / fabsf(d[0] * e[0] + d[1] * e[1]);
            l->fine[k][(int)(fminf(left, 1) * RATIOS)]++;
        }
}

/* -1: it is sharp; 0: it may be blurred, or has too few edges; else how much, in steps of 0.05: 0.93 of
 * what fits Kodak24 with Gaussian blur, for too much makes halos. */
static float blur_of(const look *l, float artefacts)
{
    int most = 0, least = RATIOS, fine = RATIOS;
    float left, edges = 0;

    for (int k = 0; k < DIRECTIONS; k++) {
        const int sharpest = quantile(l->edge[k], RATIOS + 1, SHARPEST) + 1;
        uint32_t n = 0;

        for (int r = 0; r <= RATIOS; r++)
            n += l->edge[k][r];
        if (n < FEW_EDGES)
            continue;
        edges += (float)n;
        most = zn_imax(most, sharpest);
        least = zn_imin(least, sharpest);
        fine = zn_imin(fine, quantile(l->fine[k], RATIOS + 1, SHARPEST) + 1);
    }
    if (most && (float)most < BLURRED * RATIOS)
        return -1;
    if ((float)fine < WIDE * RATIOS || edges <= MANY_EDGES * (float)l->pixels || artefacts > MOST_ARTEFACTS)
        return 0;
    left = fminf((float)least / RATIOS, 0.96f);
    left *= left;
    return fminf(roundf(20 * 0.93f * sqrtf(1 + 1.42f * left / (1 - left))) / 20, MOST_BLUR);
}

/* ---- fading ------------------------------------------------------------------------------------------------------ */

/* Pixels beyond the levels of a channel, and the least difference of the two: with less there is no picture. */
static const float BEYOND = 0.004f, CONTRAST = 0.25f;

static void add_levels(look *l, const float *rgb, size_t n)
{
    for (size_t i = 0; i < n; i++, rgb += 3)
        for (int c = 0; c < 3; c++) {
            const float v = rgb[c] > 0 ? fminf(rgb[c], 1) : 0; /* not NaN */

            l->level[c][(int)(v * (LEVELS - 1) + 0.5f)]++;
        }
}

/* In steps of 4 of 255, so that a brush stroke seldom changes them. */
static void levels_of(zn_faults *out, const look *l)
{
    for (int c = 0; c < 3; c++) {
        const int low = quantile(l->level[c], LEVELS, BEYOND) / 4, high = quantile(l->level[c], LEVELS, 1 - BEYOND) / 4;

        out->low[c] = (float)(4 * low) / (LEVELS - 1);
        out->high[c] = fminf((float)(4 * high + 3) / (LEVELS - 1), 1);
        if (out->high[c] - out->low[c] < CONTRAST)
            out->low[c] = 0, out->high[c] = 1;
    }
}

/* ---- a picture ------------------------------------------------------------------------------------------------- */

static void to_luma(float *y, const float *rgb, size_t n)
{
    for (size_t i = 0; i < n; i++, rgb += 3)
        y[i] = 255 * (0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2]);
}

static zn_status look_at(look *l, const zn_source *in, const zn_sample *sample, zn_error *err)
{
    const int w = sample->square->w, h = sample->square->h;
    const size_t n = (size_t)w * (size_t)h;
    float *memory = malloc((5 * n + (size_t)w) * sizeof *memory), *y, *once, *row;
    zn_status s = ZN_OK;

    if (!memory)
        return zn_fail(err, ZN_E_MEMORY, "out of memory");
    y = memory + 3 * n; /* memory: the pixels, then lumas with two and three blurs */
    once = y + n;
    row = once + n;
    for (int i = 0; !s && i < sample->n; i++) {
        if (!in->read(in->cookie, sample->square[i], memory)) {
            s = zn_fail(err, ZN_E_FILE, "the picture could not be read");
            break;
        }
        l->pixels += n;
        add_levels(l, memory, n);
        to_luma(y, memory, n);
        add_blocks(l, y, w, h);
        add_rough(l, y, w, h);
        smooth(once, y, w, h, row);
        smooth(memory, once, w, h, row);
        smooth(memory + n, memory, w, h, row);
        add_edges(l, y, once, memory + n, w, h);
    }
    free(memory);
    return s;
}

zn_status zn_damage_measure(zn_faults *out, const zn_source *in, zn_error *err)
{
    const zn_sample sample = zn_sample_of(in);
    look *l = calloc(1, sizeof *l);
    float sigma[3] = { 0 };
    zn_status s = l ? look_at(l, in, &sample, err) : zn_fail(err, ZN_E_MEMORY, "out of memory");

    *out = (zn_faults){ 0 };
    if (!s)
        s = zn_noise_measure(sigma, in, NULL, err);
    if (!s) {
        *out = (zn_faults){ .noise = noise_of(l, sigma), .artefacts = artefacts_of(l) };
        out->blur = blur_of(l, out->artefacts);
        levels_of(out, l);
    }
    free(l);
    return s;
}
