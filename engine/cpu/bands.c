/* SPDX-License-Identifier: MIT */
/* bands.c - layers in float32 inside of a network whose tensors are halves: those with few channels, above all the first and the
 * last, where products of halves do not pay.
 *
 * A block of y at a time: the pixels of x under it are widened, with zeros around, the layer's own algorithm computes the
 * block, and its tail is applied while it is rounded.  A pixel's result does not depend on the block. */
#include <string.h>

#include "../core/ints.h"
#include "conv.h"

typedef struct band_job {
    zn_conv_job c;
    zn_tensor x, y;       /* of the block, floats */
    int image, top, left; /* of its first pixel of y */
} band_job;

static void finish_part(const zn_conv_job *job, void *y, const float *res, float *sums, int o, int n)
{
    const bool as_is = !res && !job->t.pre && !job->t.post && job->t.gain == 1, rounds = job->y.type != ZN_F32;

    if (!as_is || !rounds)
        job->d->k->map(rounds ? sums : (float *)y + o, sums, NULL, NULL, res, (size_t)n, &job->t);
    if (rounds)
        job->d->half->round((uint16_t *)y + o, sums, (size_t)n);
}

void zn_conv_finish(const zn_conv_job *job, void *y, const void *res, float *sums, int o, int n)
{
    if (!res || job->t.residual->type == ZN_F32) {
        finish_part(job, y, res ? (const float *)res + o : NULL, sums, o, n);
        return;
    }
    for (int some; n > 0; sums += some, o += some, n -= some) {
        float widened[ZN_MAX_NR];

        some = zn_imin(n, ZN_MAX_NR);
        job->d->half->widen(widened, (const uint16_t *)res + o, (size_t)some);
        finish_part(job, y, widened, sums, o, some);
    }
}

/* A row of the block of x. */
static void widen_item(void *cookie, int item, int worker)
{
    const band_job *job = cookie;
    const zn_conv *w = job->c.w;
    const zn_tensor x = job->c.x;
    const int i = job->top * w->stride - w->pad_t + item, left = job->left * w->stride - w->pad_l;
    const int from = zn_imax(0, -left), to = zn_imin(job->x.w, x.w - left);
    float *row = job->x.data + (size_t)item * (size_t)job->x.w * (size_t)x.c;

    (void)worker;
    if (i < 0 || i >= x.h || from >= to) {
        memset(row, 0, sizeof *row * (size_t)job->x.w * (size_t)x.c);
        return;
    }
    memset(row, 0, sizeof *row * (size_t)from * (size_t)x.c);
    for (int j = from; j < to; j++) {
        const void *pixel =
            zn_cpu_pixel(x, ((size_t)job->image * (size_t)x.h + (size_t)i) * (size_t)x.w + (size_t)(left + j));
        float *at = row + (size_t)j * (size_t)x.c;

        if (x.type == ZN_F32)
            memcpy(at, pixel, sizeof *at * (size_t)x.c);
        else
            job->c.d->half->widen(at, pixel, (size_t)x.c);
    }
    memset(row + (size_t)to * (size_t)x.c, 0, sizeof *row * (size_t)(job->x.w - to) * (size_t)x.c);
}

/* A row of the block of y. */
static void finish_item(void *cookie, int item, int worker)
{
    const band_job *job = cookie;
    const zn_tensor y = job->c.y;
    const size_t first =
        ((size_t)job->image * (size_t)y.h + (size_t)(job->top + item)) * (size_t)y.w + (size_t)job->left;

    const int run = y.ld == y.c && !job->c.t.residual ? job->y.w : 1; /* pixels at a time */

    (void)worker;
    for (int j = 0; j < job->y.w; j += run)
        zn_conv_finish(&job->c, zn_cpu_pixel(y, first + (size_t)j), zn_residual_at(&job->c.t, first + (size_t)j),
                       job->y.data + (size_t)(item * job->y.w + j) * (size_t)y.c, 0, run * y.c);
}

/* Bytes of a block of h x w pixels of y. */
static size_t block_size(const zn_conv_job *c, int h, int w)
{
    const size_t rows = (size_t)((h - 1) * c->w->stride + c->w->kh), cols = (size_t)((w - 1) * c->w->stride + c->w->kw);

    return sizeof(float) * (rows * cols * (size_t)c->x.c + (size_t)(h * w) * (size_t)c->y.c);
}

void zn_conv_run_in_bands(const zn_conv_job *c, const zn_conv_algorithm *a)
{
    zn_conv w = *c->w;
    band_job job = { .c = *c };
    int th = 1, tw = c->y.w;

    assert(!w.up2);
    while (tw > 1 && block_size(c, 1, tw) > ZN_CONV_BAND)
        tw = zn_ceil_div(tw, 2);
    while (th < c->y.h && block_size(c, th + 1, tw) <= ZN_CONV_BAND)
        th++;
    w.pad_t = w.pad_l = 0;
    for (job.image = 0; job.image < c->y.n; job.image++)
        for (job.top = 0; job.top < c->y.h; job.top += th)
            for (job.left = 0; job.left < c->y.w; job.left += tw) {
                const int rows = zn_imin(th, c->y.h - job.top), cols = zn_imin(tw, c->y.w - job.left);

                job.x = (zn_tensor){
                    c->d->expanded, 1,     (rows - 1) * w.stride + w.kh, (cols - 1) * w.stride + w.kw, c->x.c,
                    c->x.c,         ZN_F32
                };
                job.y = (zn_tensor){
                    job.x.data + zn_pixels(job.x) * (size_t)c->x.c, 1, rows, cols, c->y.c, c->y.c, ZN_F32
                };
                zn_pool_run(c->d->pool, widen_item, &job, job.x.h);
                a->run(&(zn_conv_job){ .d = c->d, .y = job.y, .x = job.x, .w = &w, .t = { .gain = 1 } });
                zn_pool_run(c->d->pool, finish_item, &job, rows);
            }
}
