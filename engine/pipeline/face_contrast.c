/* SPDX-License-Identifier: MIT */
/* face_contrast.c - corrects the contrast of a face that was drawn between two. */
#include "face.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NEAR = 8, /* radius of a neighbourhood: of a mean, taken twice */ BANDS = 2 };

static const float least = 0.4f, most = 1.5f; /* factors of the contrast */
static const float flat = 2.5e-6f;            /* a contrast that does not count, squared */

/* Radii of means, taken twice: a band is the difference of two neighbours. */
static const int radius_of[BANDS] = { 1, 4 };

/* The mean of 2 radius + 1 values along an axis whose values are `step` apart; those of the edge are repeated. */
static void mean_along(float *dst, const float *src, size_t len, int side, size_t step, int radius)
{
    for (size_t i = 0; i < len; i++) {
        const int at = (int)(i / step % (size_t)side);
        const float *line = src + i - (size_t)at * step;
        float sum = 0;

        for (int k = at - radius; k <= at + radius; k++)
            sum += line[(size_t)(k > side - 1 ? side - 1 : k < 0 ? 0 : k) * step];
        dst[i] = sum / (float)(2 * radius + 1);
    }
}

/* dst [side][side][n]: the mean over a square, taken twice.  scratch is as large. */
static void mean_twice(float *dst, float *scratch, const float *src, int side, size_t n, int radius)
{
    const size_t len = (size_t)side * (size_t)side * n;

    for (int k = 0; k < 2; k++) {
        mean_along(scratch, k ? dst : src, len, side, n, radius);
        mean_along(dst, scratch, len, side, (size_t)side * n, radius);
    }
}

/* Band k of a picture, [side][side][3], and its mean square in the neighbourhood, [side][side].  room: twice as large as the
 * picture. */
static void get_band(float *band, float *square, float *room, const float *picture, int side, int k)
{
    const size_t len = (size_t)side * (size_t)side * 3;
    float *coarse = room + len;

    if (k)
        mean_twice(band, room, picture, side, 3, radius_of[k - 1]);
    else
        memcpy(band, picture, len * sizeof *band);
    mean_twice(coarse, room, picture, side, 3, radius_of[k]);
    for (size_t i = 0; i < len; i++)
        band[i] -= coarse[i];
    for (size_t i = 0; i < len / 3; i++) {
        const float *b = band + i * 3;

        coarse[i] = (b[0] * b[0] + b[1] * b[1] + b[2] * b[2]) / 3.0f;
    }
    mean_twice(square, room, coarse, side, 1, NEAR);
}

bool zn_face_level_contrast(float *dst, const float *drawn, const float *first, const float *second, int side,
                            double position)
{
    const size_t n = (size_t)side * (size_t)side;
    const float *picture[] = { first, second, drawn };
    const float t = (float)position, part = (float)(1.0 - pow(2.0 * position - 1.0, 4.0));
    float *memory = malloc(n * (3 + 3 + 6) * sizeof *memory);
    float *band = memory, *square = band + n * 3, *room = square + n * 3;

    if (!memory)
        return false;
    memcpy(dst, drawn, n * 3 * sizeof *dst);
    for (int k = 0; k < BANDS; k++) {
        for (size_t p = 0; p < 3; p++)
            get_band(band, square + p * n, room, picture[p], side, k);
        for (size_t i = 0; i < n; i++) {
            const float want = (1.0f - t) * square[i] + t * square[n + i];
            const float gain = sqrtf((want + flat) / (square[2 * n + i] + flat));
            const float factor = gain > most ? most : gain < least ? least : gain;

            for (size_t c = 0; c < 3; c++)
                dst[i * 3 + c] += part * (factor - 1.0f) * band[i * 3 + c];
        }
    }
    free(memory);
    return true;
}
