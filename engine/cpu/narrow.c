/* SPDX-License-Identifier: MIT */
/* narrow.c - convolutions with so few outputs that vectors along them would be mostly empty: vectors run along the
 * input channels.
 *
 * packed: bias, padded to the longest vector; then [tap][output][channel], padded with zeros to whole vectors. */
#include "../core/ints.h"
#include "pixels.h"

static bool suits(const zn_cpu *d, const zn_conv *w)
{
    const zn_kernels *k = d->k;

    return k->narrow && w->groups == 1 && w->cout <= ZN_NARROW && w->cin >= 2 * k->vl && w->cin <= ZN_ZEROS;
}

static size_t size(const zn_kernels *k, const zn_conv *w)
{
    return sizeof(float) * (ZN_MAX_VL + (size_t)(w->kh * w->kw * w->cout) * (size_t)zn_round_up(w->cin, k->vl));
}

static void pack(const zn_cpu *d, const zn_conv *w, const float *weight, const float *bias)
{
    const zn_kernels *k = d->k;
    float *to = w->packed;
    int taps = w->kh * w->kw;

    for (int o = 0; o < ZN_MAX_VL; o++)
        *to++ = bias && o < w->cout ? bias[o] : 0;
    for (int t = 0; t < taps; t++)
        for (int o = 0; o < w->cout; o++)
            for (int c = 0; c < zn_round_up(w->cin, k->vl); c++)
                *to++ = c < w->cin ? weight[((size_t)o * (size_t)w->cin + (size_t)c) * (size_t)taps + (size_t)t] : 0;
}

static void run_item(void *cookie, int item, int worker)
{
    const zn_conv_job *job = cookie;
    const zn_conv *w = job->w;
    const zn_kernels *k = job->d->k;
    size_t block = (size_t)(ZN_BLOCK_TILES * k->mr), first = (size_t)item * block, left = zn_pixels(job->y) - first;
    int n = (int)(left < block ? left : block);
    zn_pixel_table tb = zn_pixel_table_make(job, worker, first, n, (int)block);
    zn_product g = { .x = tb.x,
                     .bias = w->packed,
                     .w = (const float *)w->packed + ZN_MAX_VL,
                     .y = tb.y,
                     .res = tb.res,
                     .w_tap = (size_t)(w->cout * zn_round_up(w->cin, k->vl)),
                     .t = &job->t,
                     .taps = w->kh * w->kw,
                     .k = w->cin,
                     .rows = n,
                     .n = w->cout };

    k->narrow(&g);
}

static void run(const zn_conv_job *job)
{
    zn_conv_job copy = *job;

    zn_pool_run(job->d->pool, run_item, &copy, zn_items(zn_pixels(job->y), (size_t)(ZN_BLOCK_TILES * job->d->k->mr)));
}

const zn_conv_algorithm zn_conv_narrow = { .name = "narrow", .suits = suits, .size = size, .pack = pack, .run = run };
