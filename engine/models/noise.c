/* SPDX-License-Identifier: MIT */
/* noise.c - how noisy a picture is, from the picture alone.
 *
 * The mask  1 -2  1   answers to noise of deviation s with deviation 6 s, and not at all to planes.  In each
 *          -2  4 -2   block of 16 x 16 its mean square gives a local estimate: noise plus texture.  Texture
 *           1 -2  1   only adds, so the smooth blocks tell: a low quantile of the estimates, divided by what
 * that quantile is for pure noise (Immerkaer 1996 for the mask).  Where values were clipped there is less
 * noise than elsewhere: such blocks do not count, unless there are no others. */
#include "../core/status.h"

#include <math.h>
#include <stdlib.h>

enum { BLOCK = 16, STRIP = BLOCK + 2, MAX_BLOCKS = 16384 };

static const float QUANTILE = 0.02f;
/* In white noise of deviation 1, two in a hundred blocks estimate less than this (seen on 35,000 blocks). */
static const float PURE = 0.835f;
static const float CLIPPED = 1024;

/* The estimate of one block; row0 points to its first mask centre in a strip of w pixels.  CLIPPED is added if
 * more than a twentieth of the values lie at an end of the scale: such blocks come last. */
static float block_deviation(const float *row0, size_t w, int c)
{
    int clipped = 0;
    const ptrdiff_t up = -(ptrdiff_t)(w * 3), down = (ptrdiff_t)(w * 3);
    double sum = 0;

    for (int i = 0; i < BLOCK; i++)
        for (int j = 0; j < BLOCK; j++) {
            const float *p = row0 + ((size_t)i * w + (size_t)j) * 3 + (size_t)c;
            float m = p[up - 3] - 2 * p[up] + p[up + 3] - 2 * p[-3] + 4 * p[0] - 2 * p[3] + p[down - 3] -
                      2 * p[down] + p[down + 3];

            sum += (double)(m * m);
            clipped += !(p[0] > 0.5f / 255 && p[0] < 254.5f / 255);
        }
    return (float)sqrt(sum / (BLOCK * BLOCK)) / 6 + (clipped > BLOCK * BLOCK / 20 ? CLIPPED : 0);
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

zn_status zn_noise_estimate(float sigma[3], const zn_source *in, zn_error *err)
{
    int bx = (in->w - 2) / BLOCK, by = (in->h - 2) / BLOCK, step = 1, n = 0;
    float *strip, *found[3];
    zn_status s = ZN_OK;

    sigma[0] = sigma[1] = sigma[2] = 0;
    if (in->c < 3 || bx < 1 || by < 1)
        return ZN_OK; /* too small to tell: no noise */
    while ((int64_t)bx * (by / step + 1) > MAX_BLOCKS)
        step++; /* every step-th strip */
    strip = malloc((size_t)in->w * STRIP * 3 * sizeof *strip);
    found[0] = malloc((size_t)bx * (size_t)(by / step + 1) * 3 * sizeof *found[0]);
    if (!strip || !found[0]) {
        s = zn_fail(err, ZN_E_MEMORY, "out of memory while estimating the noise");
        goto end;
    }
    for (int c = 1; c < 3; c++)
        found[c] = found[0] + (size_t)c * (size_t)bx * (size_t)(by / step + 1);
    for (int y = 0; y < by; y += step) {
        if (!in->read(in->cookie, (zn_rect){ 0, y * BLOCK, in->w, STRIP }, strip)) {
            s = zn_fail(err, ZN_E_FILE, "the picture could not be read");
            goto end;
        }
        for (int x = 0; x < bx; x++, n++)
            for (int c = 0; c < 3; c++)
                found[c][n] =
                    block_deviation(strip + ((size_t)in->w + (size_t)(x * BLOCK + 1)) * 3, (size_t)in->w, c);
    }
    for (int c = 0; c < 3; c++) {
        int whole = 0; /* blocks without clipping */
        float v;

        qsort(found[c], (size_t)n, sizeof *found[c], by_value);
        while (whole < n && found[c][whole] < CLIPPED)
            whole++;
        v = whole ? found[c][(int)(QUANTILE * (float)whole)] : found[c][(int)(QUANTILE * (float)n)] - CLIPPED;
        sigma[c] = v > 0 ? fminf(v / PURE * 255, 255) : 0; /* NaN gives 0 */
    }
end:
    free(strip);
    free(found[0]);
    return s;
}
