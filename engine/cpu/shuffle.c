/* SPDX-License-Identifier: MIT */
/* shuffle.c - operations that move pixels: resize, unshuffle, shuffle.  An item is a row of y. */
#include <string.h>

#include "device.h"

/* Of x, shuffled at a time if y is more than a copy of it: the more of the two. */
enum { PIXELS = 8, NUMBERS = 1024 };

typedef struct move_job {
    zn_cpu *d;
    zn_tensor y, x;
    zn_tail t;
    int r;
} move_job;

static float *pixel(zn_tensor t, int n, int i, int j)
{
    return t.data + (((size_t)n * (size_t)t.h + (size_t)i) * (size_t)t.w + (size_t)j) * (size_t)t.ld;
}

/* ---- resize ---------------------------------------------------------------------------------------- */

static void nearest_row(void *cookie, int item, int worker)
{
    const move_job *job = cookie;
    zn_tensor y = job->y, x = job->x;
    int n = item / y.h, i = item % y.h;
    int from = (int)((2 * (int64_t)i + 1) * x.h / (2 * (int64_t)y.h));

    (void)worker;
    for (int j = 0; j < y.w; j++)
        memcpy(pixel(y, n, i, j), pixel(x, n, from, (int)((2 * (int64_t)j + 1) * x.w / (2 * (int64_t)y.w))),
               (size_t)y.c * sizeof(float));
}

/* The two pixels of n_x around the centre of pixel i of n_y, and the weight of the second. */
static float between(int *a, int *b, int i, int n_y, int n_x)
{
    double at = (i + 0.5) * n_x / n_y - 0.5;

    at = at < 0 ? 0 : at;
    *a = (int)at < n_x - 1 ? (int)at : n_x - 1;
    *b = *a + 1 < n_x ? *a + 1 : *a;
    return (float)(at - *a);
}

static void bilinear_row(void *cookie, int item, int worker)
{
    const move_job *job = cookie;
    zn_tensor y = job->y, x = job->x;
    int n = item / y.h, i = item % y.h, i0, i1, j0, j1;
    float v = between(&i0, &i1, i, y.h, x.h);

    (void)worker;
    for (int j = 0; j < y.w; j++) {
        float u = between(&j0, &j1, j, y.w, x.w);
        const float *p[4] = { pixel(x, n, i0, j0), pixel(x, n, i0, j1), pixel(x, n, i1, j0), pixel(x, n, i1, j1) };

        job->d->k->lerp(pixel(y, n, i, j), p, u, v, (size_t)y.c);
    }
}

void zn_cpu_resize(void *dev, zn_tensor y, zn_tensor x, zn_filter f)
{
    move_job job = { .d = dev, .y = y, .x = x };

    zn_pool_run(job.d->pool, f == ZN_BILINEAR ? bilinear_row : nearest_row, &job, y.n * y.h);
}

/* ---- pixels to channels and back --------------------------------------------------------------------- */

static void unshuffle_row(void *cookie, int item, int worker)
{
    const move_job *job = cookie;
    zn_tensor y = job->y, x = job->x;
    int n = item / y.h, i = item % y.h, r = job->r;

    (void)worker;
    if (r == 2) {
        float *fine[2] = { pixel(x, n, 2 * i, 0), pixel(x, n, 2 * i + 1, 0) };

        job->d->k->shuffle2(fine, (size_t)x.ld, pixel(y, n, i, 0), (size_t)y.ld, y.w, x.c, true);
        return;
    }
    for (int j = 0; j < y.w; j++)
        for (int u = 0; u < r; u++)
            for (int v = 0; v < r; v++) {
                const float *from = pixel(x, n, i * r + u, j * r + v);
                float *to = pixel(y, n, i, j) + u * r + v;

                for (int c = 0; c < x.c; c++)
                    to[(size_t)c * (size_t)(r * r)] = from[c];
            }
}

void zn_cpu_unshuffle(void *dev, zn_tensor y, zn_tensor x, int r)
{
    move_job job = { .d = dev, .y = y, .x = x, .r = r };

    zn_pool_run(job.d->pool, unshuffle_row, &job, y.n * y.h);
}

static void shuffle_row(void *cookie, int item, int worker)
{
    const move_job *job = cookie;
    zn_tensor y = job->y, x = job->x;
    int n = item / y.h, i = item % y.h, r = job->r;
    float *row = zn_cpu_scratch(job->d, worker);

    for (int j = 0; j < y.w; j++) {
        const float *from = pixel(x, n, i / r, j / r) + i % r * r + j % r;
        size_t p = (size_t)item * (size_t)y.w + (size_t)j;

        for (int c = 0; c < y.c; c++)
            row[c] = from[(size_t)c * (size_t)(r * r)];
        job->d->k->map(y.data + p * (size_t)y.ld, row, NULL, NULL, zn_residual_at(&job->t, p), (size_t)y.c, &job->t);
    }
}

/* n pixels of y, from p on, with the tail; at once where they and those of the residual follow each other. */
static void finish_pixels(const move_job *job, const float *from, size_t p, int n)
{
    const zn_tensor *res = job->t.residual;
    const size_t c = (size_t)job->y.c;
    const bool at_once = job->y.ld == job->y.c && (!res || res->ld == job->y.c);

    for (int i = 0; i < (at_once ? 1 : n); i++, p++, from += c)
        job->d->k->map(job->y.data + p * (size_t)job->y.ld, from, NULL, NULL, zn_residual_at(&job->t, p),
                       at_once ? (size_t)n * c : c, &job->t);
}

/* By two: an item is a row of x, two of y. */
static void shuffle2_row(void *cookie, int item, int worker)
{
    const move_job *job = cookie;
    zn_tensor y = job->y, x = job->x;
    const zn_tail *t = &job->t;
    float *fine[2] = { pixel(y, item / x.h, item % x.h * 2, 0), pixel(y, item / x.h, item % x.h * 2 + 1, 0) };
    bool plain = !t->pre && !t->post && t->gain == 1 && !t->residual;
    int most = plain ? x.w : NUMBERS / x.c > PIXELS ? NUMBERS / x.c : PIXELS;
    size_t ld = (size_t)y.ld;

    if (!plain) { /* a piece of the rows at a time, through scratch memory */
        fine[0] = zn_cpu_scratch(job->d, worker);
        fine[1] = fine[0] + 2 * (size_t)most * (size_t)y.c;
        ld = (size_t)y.c;
    }
    for (int j = 0; j < x.w; j += most) {
        int some = x.w - j < most ? x.w - j : most;

        job->d->k->shuffle2(fine, ld, pixel(x, item / x.h, item % x.h, j), (size_t)x.ld, some, y.c, false);
        for (int u = 0; u < 2 && !plain; u++)
            finish_pixels(job, fine[u], ((size_t)item * 2 + (size_t)u) * (size_t)y.w + (size_t)(2 * j), 2 * some);
    }
}

void zn_cpu_shuffle(void *dev, zn_tensor y, zn_tensor x, int r, zn_tail t)
{
    move_job job = { .d = dev, .y = y, .x = x, .t = zn_cpu_tail(t), .r = r };

    assert((size_t)y.c * sizeof(float) <= ZN_SCRATCH / (4 * PIXELS));
    zn_pool_run(job.d->pool, r == 2 ? shuffle2_row : shuffle_row, &job, r == 2 ? x.n * x.h : y.n * y.h);
}
