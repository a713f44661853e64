/* SPDX-License-Identifier: MIT */
/* face_relief.c - creases, folds and bags of a face that moves: where the model draws less or more contrast, the picture's own structure
 * is multiplied, so that it is as sharp as it was.
 *
 *   what was seen, moved ──┬── contrast of both around each place ── factor, 1 at the mouth
 *   what is drawn ─────────┘                                            │
 *   picture, shrunk ── less its mean around each place: a band ──────── x ── added to the moved picture
 *
 * What is finer than the band stays: pores, hairs, grain. */
#include "face.h"

#include "../core/ints.h"

#include <math.h>
#include <stdlib.h>

enum {
    USUAL = 128, /* side of a face; radii are for it */
    NEAR = 3,    /* radius of a neighbourhood, of a mean, taken twice */
    COARSE = 3,  /* what is coarser than a mean with this radius, taken twice, is shading */
    MOST_PIXELS = 4,
    ROWS = 16 /* that a thread takes at once */
};

/* Contrast that does not count where it becomes less, and where it becomes more; its factors, at most. */
static const float flat[2] = { 0.01f, 0.025f }, least = 0.3f, most = 1.4f;
static const float spared = 0.035f, fades = 0.05f; /* around lips that are found, in parts of the frame */
/* The middle of a mouth that is not found, half of its width and height, and how fast it ends, of these. */
static const float mouth_x = 0.5f, mouth_y = 0.71f, mouth_w = 0.2f, mouth_h = 0.11f, mouth_fades = 0.4f;
/* Sides of the band, and the side of a frame from which on the second one is taken. */
static const int sides[2] = { 256, 512 };
static const double large = 768;

/* 0 at the mouth, whose contrast is that of lips and teeth, 1 away from it. */
static float off_mouth(const zn_lips *lips, float x, float y)
{
    if (lips && lips->sure > 0) {
        const float nearest = fminf(fmaxf(x, lips->x[0]), lips->x[1]);
        const float column = ((nearest - 0.5f) / ZN_LIPS_PART + 0.5f) * ZN_LIPS;
        const int i = zn_imin(zn_imax((int)column, 0), ZN_LIPS - 1);
        const float top = lips->moves ? lips->to_top[i] : lips->top[i];
        const float bottom = lips->moves ? lips->to_bottom[i] : lips->bottom[i];

        return zn_rise((hypotf(x - nearest, fmaxf(fmaxf(top - y, y - bottom), 0)) - spared) / fades);
    }
    return zn_rise((hypotf((x - mouth_x) / mouth_w, (y - mouth_y) / mouth_h) - 1) / mouth_fades);
}

/* Of squares of contrasts. */
static float factor(float was, float is)
{
    const float f = is > was ? flat[1] : flat[0];

    return fminf(fmaxf(sqrtf((is + f * f) / (was + f * f)), least), most);
}

void zn_relief_gain(float *gain, float *room, const float *was, const float *lacks, int side, const zn_lips *lips)
{
    float *squares = room, *scratch = room + (size_t)side * (size_t)side * 2;

    for (int i = 0; i < side * side; i++) {
        const float a = zn_lightness(was + i * 3), b = a + zn_lightness(lacks + i * 3);

        squares[i * 2] = a * a;
        squares[i * 2 + 1] = b * b;
    }
    zn_mean_twice(squares, scratch, squares, side, 2, zn_imax(NEAR * side / USUAL, 1), NULL);
    for (int i = 0; i < side * side; i++) {
        const float x = ((float)(i % side) + 0.5f) / (float)side, y = ((float)(i / side) + 0.5f) / (float)side;

        gain[i] = off_mouth(lips, x, y) * (factor(squares[i * 2], squares[i * 2 + 1]) - 1);
    }
}

typedef struct view {
    float *dst; /* [side][side][3]: the frame */
    int side;
    const zn_square *square;
    const zn_patch *patch;
} view;

/* Of each place the mean of some pixels, as they are. */
static void look(void *cookie, int item, int worker)
{
    const view *v = cookie;
    const zn_square *q = v->square;
    const zn_patch *patch = v->patch;
    const int side = v->side, end = zn_imin((item + 1) * ROWS, side) * side;
    const double step = q->size / side;
    const int n = zn_imin(zn_imax((int)step, 1), MOST_PIXELS);

    (void)worker;
    for (int i = item * ROWS * side; i < end; i++) {
        float *to = v->dst + i * 3;

        to[0] = to[1] = to[2] = 0;
        for (int k = 0; k < n * n; k++) {
            const double a = step * (i % side + (k % n + 0.5) / n - 0.5 * side);
            const double b = step * (i / side + (k / n + 0.5) / n - 0.5 * side);
            const int x = (int)floor(q->x + q->cos * a - q->sin * b) - patch->rect.x;
            const int y = (int)floor(q->y + q->sin * a + q->cos * b) - patch->rect.y;
            const size_t row = (size_t)zn_imin(zn_imax(y, 0), patch->rect.h - 1) * (size_t)patch->rect.w;
            const float *p = patch->pixels + (row + (size_t)zn_imin(zn_imax(x, 0), patch->rect.w - 1)) * 3;

            for (int c = 0; c < 3; c++)
                to[c] += zn_clean(p[c]) / (float)(n * n);
        }
    }
}

bool zn_relief_make(zn_relief *r, const zn_square *square, const zn_patch *patch, const zn_workers *workers)
{
    const int side = sides[square->size >= large];
    const size_t n = (size_t)side * (size_t)side * 3;
    float *mean = malloc(2 * n * sizeof *mean);

    *r = (zn_relief){ .side = side, .band = malloc(n * sizeof *r->band) };
    if (!mean || !r->band) {
        free(mean);
        return false;
    }
    zn_workers_loop(workers, look, &(view){ r->band, side, square, patch }, zn_ceil_div(side, ROWS));
    zn_mean_twice(mean, mean + n, r->band, side, 3, COARSE * side / USUAL, workers);
    for (size_t i = 0; i < n; i++)
        r->band[i] -= mean[i];
    free(mean);
    return true;
}

/* Linear; beyond the edges it goes on. */
void zn_relief_add(float rgb[3], const zn_relief *r, double x, double y, float part)
{
    const float cx = (float)fmin(fmax(x * r->side - 0.5, 0), r->side - 1.001);
    const float cy = (float)fmin(fmax(y * r->side - 0.5, 0), r->side - 1.001), u = cx - floorf(cx), v = cy - floorf(cy);
    const float *above = r->band + ((int)cy * r->side + (int)cx) * 3, *below = above + r->side * 3;
    float p[3];

    for (int c = 0; c < 3; c++)
        p[c] = (1 - v) * ((1 - u) * above[c] + u * above[3 + c]) + v * ((1 - u) * below[c] + u * below[3 + c]);
    if (part > 0) /* colours do not become stronger */
        p[0] = p[1] = p[2] = zn_lightness(p);
    for (int c = 0; c < 3; c++)
        rgb[c] += part * p[c];
}

void zn_relief_clear(zn_relief *r)
{
    free(r->band);
    *r = (zn_relief){ 0 };
}
