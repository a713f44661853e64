/* SPDX-License-Identifier: MIT */
/* face_contrast.c - corrects what was drawn, at the model's size: the contrast of a face between two, noise in what is new. */
#include "face.h"

#include "../core/ints.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NEAR = 8, /* radius of a neighbourhood: of a mean, taken twice */ BANDS = 2 };

static const float least = 0.4f, most = 1.5f; /* factors of the contrast */
static const float flat = 2.5e-6f;            /* a contrast that does not count, squared */

/* Radii of means, taken twice: a band is the difference of two neighbours. */
static const int radius_of[BANDS] = { 1, 4 };

/* Band k of a picture, [side][side][3], and its mean square in the neighbourhood, [side][side].  room: twice as large as the
 * picture. */
static void get_band(float *band, float *square, float *room, const float *picture, int side, int k)
{
    const size_t len = (size_t)side * (size_t)side * 3;
    float *coarse = room + len;

    if (k)
        zn_mean_twice(band, room, picture, side, 3, radius_of[k - 1], NULL);
    else
        memcpy(band, picture, len * sizeof *band);
    zn_mean_twice(coarse, room, picture, side, 3, radius_of[k], NULL);
    for (size_t i = 0; i < len; i++)
        band[i] -= coarse[i];
    for (size_t i = 0; i < len / 3; i++) {
        const float *b = band + i * 3;

        coarse[i] = (b[0] * b[0] + b[1] * b[1] + b[2] * b[2]) / 3.0f;
    }
    zn_mean_twice(square, room, coarse, side, 1, NEAR, NULL);
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

/* ---- noise ---------------------------------------------------------------------------------------------------- */

enum { WIDE = 2 /* radius in which a change is measured */, WINDOW = 9 /* values of a median */ };

/* The mean size of a change that is none of shape, and of one that is. */
static const float tint = 0.05f, shape = 0.2f;

/* How much around x, y is new, 0..1. */
static float newness(const float *drawn, const float *from, const float *change, int side, int x, int y)
{
    float sum = 0;
    int n = 0;

    for (int j = zn_imax(y - WIDE, 0); j <= zn_imin(y + WIDE, side - 1); j++)
        for (int i = zn_imax(x - WIDE, 0); i <= zn_imin(x + WIDE, side - 1); i++, n++) {
            const int at = j * side + i;
            const float *a = drawn + at * 3, *b = from + at * 3;
            const float most_of = fmaxf(fabsf(a[0] - b[0]), fmaxf(fabsf(a[1] - b[1]), fabsf(a[2] - b[2])));

            sum += most_of * (change ? change[at] : 1);
        }
    return fminf(fmaxf((sum / (float)n - tint) / (shape - tint), 0), 1);
}

static float median_at(const float *src, int side, int x, int y, int c)
{
    float v[WINDOW];
    int n = 0;

    for (int k = 0; k < WINDOW; k++) { /* sorted as they come */
        const int i = zn_imin(zn_imax(x + k % 3 - 1, 0), side - 1), j = zn_imin(zn_imax(y + k / 3 - 1, 0), side - 1);
        const float value = src[(j * side + i) * 3 + c];
        int at = n++;

        for (; at && v[at - 1] > value; at--)
            v[at] = v[at - 1];
        v[at] = value;
    }
    return v[WINDOW / 2];
}

/* The mean of how much more a picture has of channel c than of red in the lower half, or 0. */
static float usual_excess(const float *from, int side, int c)
{
    const int n = side * (side - side / 2);
    const float *half = from + (size_t)side * (size_t)(side / 2) * 3;
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += (double)(half[i * 3 + c] - half[i * 3]);
    return (float)fmax(sum / n, 0);
}

/* Lips, skin and teeth are never greener or bluer than red, but for the light of the picture: half of such an excess goes to red. */
static void warm(float *rgb, const float excess[3], float part)
{
    for (int c = 1; c < 3; c++) {
        const float more = part * fmaxf(rgb[c] - rgb[0] - excess[c], 0) / 2;

        rgb[c] -= more;
        rgb[0] += more;
    }
}

void zn_face_calm(float *dst, const float *drawn, const float *from, const float *change, int side)
{
    const float excess[3] = { 0, usual_excess(from, side, 1), usual_excess(from, side, 2) };

    for (int i = 0; i < side * side; i++) {
        const int x = i % side, y = i / side;
        const float part = newness(drawn, from, change, side, x, y);

        for (int c = 0; c < 3; c++) {
            const float was = drawn[i * 3 + c];

            dst[i * 3 + c] = part > 0 ? was + part * (median_at(drawn, side, x, y, c) - was) : was;
        }
        if (y >= side / 2)
            warm(dst + i * 3, excess, part);
    }
}
