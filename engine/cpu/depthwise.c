/* SPDX-License-Identifier: MIT */
/* depthwise.c - depthwise convolution: one weight per tap and channel.
 *
 * 3x3 with stride 1 reads rows at constant strides; the first and last pixel of a row, and all other kernels, go
 * through a table of pointers.
 *
 * packed: [1 + tap][channel], the bias first. */
#include <string.h>

#include "pixels.h"

static bool suits(const zn_cpu *d, const zn_conv *w)
{
    const zn_kernels *k = d->k;

    return k->depthwise && w->groups > 1 && w->groups == w->cin && w->cin == w->cout;
}

static size_t size(const zn_kernels *k, const zn_conv *w)
{
    (void)k;
    return sizeof(float) * (size_t)w->cout * (size_t)(1 + w->kh * w->kw);
}

static void pack(const zn_cpu *d, const zn_conv *w, const float *weight, const float *bias)
{
    float *packed = w->packed;
    int taps = w->kh * w->kw;

    (void)d;
    for (int c = 0; c < w->cout; c++) {
        packed[c] = bias ? bias[c] : 0;
        for (int t = 0; t < taps; t++)
            packed[(size_t)(t + 1) * (size_t)w->cout + (size_t)c] = weight[(size_t)c * (size_t)taps + (size_t)t];
    }
}

static void unpack_row(float *to, const zn_kernels *k, const zn_conv *w, int row, int o, int n)
{
    (void)k;
    memcpy(to, (const float *)w->packed + row * w->cout + o, (size_t)n * sizeof *to);
}

static void run_table(const zn_conv_job *job, const zn_pixel_table *tb, int n)
{
    const zn_conv *w = job->w;
    zn_product g = { .x = tb->x,
                     .zeros = job->d->zeros,
                     .y = tb->y,
                     .res = tb->res,
                     .w_tap = (size_t)w->cout,
                     .t = &job->t,
                     .taps = w->kh * w->kw,
                     .rows = n };

    for (int c = 0; c < w->cout; c += ZN_ZEROS) {
        g.bias = (const float *)w->packed + c;
        g.w = g.bias + w->cout;
        g.off = g.y_off = c;
        g.n = w->cout - c < ZN_ZEROS ? w->cout - c : ZN_ZEROS;
        job->d->k->depthwise(&g);
    }
}

static void block_item(void *cookie, int item, int worker)
{
    const zn_conv_job *job = cookie;
    size_t block = (size_t)(ZN_BLOCK_TILES * job->d->k->mr), first = (size_t)item * block;
    size_t left = zn_pixels(job->y) - first;
    int n = (int)(left < block ? left : block);
    zn_pixel_table tb = zn_pixel_table_make(job, worker, first, n, (int)block);

    run_table(job, &tb, n);
}

/* A row of y, 3x3, stride 1, padding 1. */
static void row_item(void *cookie, int item, int worker)
{
    const zn_conv_job *job = cookie;
    const zn_conv *w = job->w;
    zn_tensor y = job->y, x = job->x;
    int n = item / y.h, i = item % y.h;
    size_t first = (size_t)item * (size_t)y.w;
    zn_depthwise3 g = { .y = y.data + (first + 1) * (size_t)y.ld,
                        .y_ld = (size_t)y.ld,
                        .w = w->packed,
                        .w_ld = (size_t)w->cout,
                        .t = &job->t,
                        .pixels = y.w - 2,
                        .n = w->cout };

    for (int u = 0; u < 3; u++) {
        int yy = i - 1 + u;
        bool inside = yy >= 0 && yy < x.h;

        g.x[u] = inside ? x.data + ((size_t)n * (size_t)x.h + (size_t)yy) * (size_t)x.w * (size_t)x.ld : job->d->zeros;
        g.x_ld[u] = inside ? (size_t)x.ld : 0;
    }
    if (job->t.residual) {
        g.res = zn_residual_at(&job->t, first + 1);
        g.res_ld = (size_t)job->t.residual->ld;
    }
    job->d->k->depthwise3(&g);
    for (int end = 0; end < 2; end++) {
        zn_pixel_table tb = zn_pixel_table_make(job, worker, first + (size_t)(end ? y.w - 1 : 0), 1, job->d->k->mr);

        run_table(job, &tb, 1);
    }
}

static void run(const zn_conv_job *job)
{
    const zn_conv *w = job->w;
    zn_tensor y = job->y, x = job->x;
    bool rows = w->kh == 3 && w->kw == 3 && w->stride == 1 && !w->up2 && w->pad_t == 1 && w->pad_l == 1 && y.w == x.w &&
        y.w > 2 && w->cout <= ZN_ZEROS;
    zn_conv_job copy = *job;

    if (rows)
        zn_pool_run(job->d->pool, row_item, &copy, y.n * y.h);
    else
        zn_pool_run(job->d->pool, block_item, &copy, zn_items(zn_pixels(y), (size_t)(ZN_BLOCK_TILES * job->d->k->mr)));
}

const zn_conv_algorithm zn_conv_depthwise = {
    .name = "depthwise", .suits = suits, .size = size, .pack = pack, .run = run, .unpack_row = unpack_row
};
