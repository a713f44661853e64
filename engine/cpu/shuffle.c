/* SPDX-License-Identifier: MIT */
/* shuffle.c - operations that move pixels: resize, unshuffle, shuffle.  An item is a row of y, or part of one. */
#include <string.h>

#include "device.h"

/* With a tail, at least PIXELS pixels and about ELEMENTS floats of x are shuffled into scratch memory at a time. */
enum { PIXELS = 8, ELEMENTS = 1024 };

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

enum { CHANNELS = 64 }; /* of an item */

/* An item is CHANNELS channels of a row of y. */
static void average_item(void *cookie, int item, int worker)
{
    const move_job *job = cookie;
    zn_tensor y = job->y, x = job->x;
    const int cuts = zn_items((size_t)y.c, CHANNELS), row = item / cuts, n = row / y.h, i = row % y.h;
    const int h = x.h / y.h, w = x.w / y.w, c = item % cuts * CHANNELS, some = y.c - c < CHANNELS ? y.c - c : CHANNELS;

    (void)worker;
    for (int j = 0; j < y.w; j++)
        job->d->k->average(pixel(y, n, i, j) + c, pixel(x, n, i * h, j * w) + c, (size_t)x.ld,
                           (size_t)x.w * (size_t)x.ld, h, w, some);
}

void zn_cpu_resize(void *dev, zn_tensor y, zn_tensor x, zn_filter f)
{
    move_job job = { .d = dev, .y = y, .x = x };

    if (f == ZN_AVERAGE)
        zn_pool_run(job.d->pool, average_item, &job, y.n * y.h * zn_items((size_t)y.c, CHANNELS));
    else
        zn_pool_run(job.d->pool, nearest_row, &job, y.n * y.h);
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

/* The tail of n pixels of y from p on; in one call if y and the residual have no gaps between pixels. */
static void finish_pixels(const move_job *job, const float *from, size_t p, int n)
{
    const zn_tensor *res = job->t.residual;
    const size_t c = (size_t)job->y.c;
    const bool at_once = job->y.ld == job->y.c && (!res || res->ld == job->y.c);

    for (int i = 0; i < (at_once ? 1 : n); i++, p++, from += c)
        job->d->k->map(job->y.data + p * (size_t)job->y.ld, from, NULL, NULL, zn_residual_at(&job->t, p),
                       at_once ? (size_t)n * c : c, &job->t);
}

/* r = 2: an item is a row of x, two rows of y. */
static void shuffle2_row(void *cookie, int item, int worker)
{
    const move_job *job = cookie;
    zn_tensor y = job->y, x = job->x;
    const zn_tail *t = &job->t;
    float *fine[2] = { pixel(y, item / x.h, item % x.h * 2, 0), pixel(y, item / x.h, item % x.h * 2 + 1, 0) };
    bool plain = !t->pre && !t->post && t->gain == 1 && !t->residual;
    int most = plain ? x.w : ELEMENTS / x.c > PIXELS ? ELEMENTS / x.c : PIXELS;
    size_t ld = (size_t)y.ld;

    if (!plain) { /* part of the rows at a time, through scratch memory */
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
