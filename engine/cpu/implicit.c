/* SPDX-License-Identifier: MIT */
/* implicit.c - dense and grouped convolution as an implicit matrix product.
 *
 *     pixels of x --(a table of pointers: one per tap and output pixel)--> gemm --> pixels of y
 *
 * Up to 4 input channels, as in a network's first layer, the taps of a pixel are copied to one row instead.
 * An item is a block of output pixels times some panels; a panel is NR outputs.  Inside an item:
 *     for each panel, for each cut of the channels (so that the weights in use stay in L1 and L2)
 *         for each tile of MR pixels: gemm
 * The order of a pixel's additions depends neither on the block nor on the thread.
 *
 * packed: bias, padded to whole panels; then [group][panel][tap][channel][outputs of the panel], where the last panel of
 * a group has as many whole vectors as it needs. */
#include <string.h>

#include "../core/ints.h"
#include "pixels.h"

enum {
    ITEM_MACS = 4 << 20,    /* of an item: enough work for a thread */
    PANEL_BYTES = 96 << 10, /* of weights that a block of pixels uses at a time: L1 and part of L2 */
};

typedef struct gemm_job {
    zn_conv_job c;
    size_t n_pixels;
    int block;             /* pixels */
    int n_columns, panels; /* items per block; panels per item */
    int cut;               /* channels at a time */
    bool gathered;         /* taps are channels of a copy: taps = 1, channels = kh * kw * cin */
    int taps, channels;    /* per group, as gemm sees them */
} gemm_job;

static bool suits(const zn_kernels *k, const zn_conv *w)
{
    (void)k, (void)w;
    return true;
}

/* ---- weights ------------------------------------------------------------------------------------------ */

static size_t bias_len(const zn_kernels *k, const zn_conv *w)
{
    return (size_t)w->groups * (size_t)zn_round_up(w->cout / w->groups, k->nr);
}

static size_t group_len(const zn_kernels *k, const zn_conv *w) /* weights of a group */
{
    return (size_t)w->kh * (size_t)w->kw * (size_t)(w->cin / w->groups) *
        (size_t)zn_round_up(w->cout / w->groups, k->vl);
}

static size_t size(const zn_kernels *k, const zn_conv *w)
{
    return sizeof(float) * (bias_len(k, w) + (size_t)w->groups * group_len(k, w));
}

/* One panel: [tap][channel][width] from weight[o][channel][tap]; outputs past n are zero. */
static void pack_panel(float *to, const float *weight, int taps, int cin, int n, int width)
{
    for (int t = 0; t < taps; t++)
        for (int c = 0; c < cin; c++)
            for (int o = 0; o < width; o++)
                *to++ = o < n ? weight[((size_t)o * (size_t)cin + (size_t)c) * (size_t)taps + (size_t)t] : 0;
}

static void pack(const zn_kernels *k, const zn_conv *w, const float *weight, const float *bias)
{
    int cin = w->cin / w->groups, cout = w->cout / w->groups, taps = w->kh * w->kw;

    for (int g = 0; g < w->groups; g++) {
        float *b = (float *)w->packed + (size_t)(g * zn_round_up(cout, k->nr));
        float *to = (float *)w->packed + bias_len(k, w) + (size_t)g * group_len(k, w);

        for (int o = 0; o < zn_round_up(cout, k->nr); o++)
            b[o] = bias && o < cout ? bias[g * cout + o] : 0;
        for (int o = 0; o < cout; o += k->nr) {
            int n = cout - o < k->nr ? cout - o : k->nr, width = zn_round_up(n, k->vl);

            pack_panel(to, weight + (size_t)(g * cout + o) * (size_t)(cin * taps), taps, cin, n, width);
            to += (size_t)(taps * cin) * (size_t)width;
        }
    }
}

/* One group, one tap.  A row of a panel is contiguous; the next panel's is elsewhere. */
void zn_implicit_row(float *to, const zn_kernels *k, const zn_conv *w, int row, int o, int n)
{
    const float *packed = w->packed, *weights = packed + bias_len(k, w);

    if (row == 0) {
        memcpy(to, packed + o, (size_t)n * sizeof *to);
        return;
    }
    for (int i = 0, run; i < n; i += run) {
        int panel = (o + i) / k->nr * k->nr, width = zn_round_up(zn_imin(w->cout - panel, k->nr), k->vl);

        run = zn_imin(n - i, panel + k->nr - (o + i));
        memcpy(to + i,
               weights + (size_t)w->cin * (size_t)panel + (size_t)(row - 1) * (size_t)width + (size_t)(o + i - panel),
               (size_t)run * sizeof *to);
    }
}

/* ---- items -------------------------------------------------------------------------------------------- */

static int n_panels(const zn_kernels *k, const zn_conv *w)
{
    return w->groups * zn_ceil_div(w->cout / w->groups, k->nr);
}

/* The product of a block with one panel, but for the weights and the channels. */
static zn_product panel_product(const gemm_job *job, const zn_pixel_table *tb, int n, int panel)
{
    const zn_kernels *k = job->c.d->k;
    const zn_conv *w = job->c.w;
    int cout = w->cout / w->groups, per_group = zn_ceil_div(cout, k->nr), group = panel / per_group;
    int o = panel % per_group * k->nr;

    return (zn_product){ .zeros = job->c.d->zeros,
                         .bias = (const float *)w->packed + group * zn_round_up(cout, k->nr) + o,
                         .t = &job->c.t,
                         .off = group * job->channels,
                         .y_off = group * cout + o,
                         .taps = job->taps,
                         .k = job->channels,
                         .n = zn_imin(cout - o, k->nr),
                         .x = tb->x,
                         .y = tb->y,
                         .res = tb->res,
                         .acc = tb->rest,
                         .rows = n };
}

/* All tiles of a block through one panel, cut by cut of the channels. */
static void run_panel(const gemm_job *job, const zn_pixel_table *tb, int n, int panel)
{
    const zn_kernels *k = job->c.d->k;
    const zn_conv *w = job->c.w;
    zn_product g = panel_product(job, tb, n, panel);
    int cin = job->channels, width = zn_round_up(g.n, k->vl), group = g.off / cin,
        o = g.y_off - group * w->cout / w->groups;
    const float *weights = (const float *)w->packed + bias_len(k, w) + (size_t)group * group_len(k, w) +
        (size_t)(job->taps * cin) * (size_t)o;

    for (int from = 0; from < cin; from += job->cut) {
        g.k = zn_imin(cin - from, job->cut);
        g.off = group * cin + from;
        g.first = from == 0;
        g.last = from + job->cut >= cin;
        g.w = weights + (size_t)from * (size_t)width;
        g.w_tap = (size_t)cin * (size_t)width;
        k->gemm(&g);
    }
}

static void run_item(void *cookie, int item, int worker)
{
    const gemm_job *job = cookie;
    const zn_kernels *k = job->c.d->k;
    int panel = item % job->n_columns * job->panels, end = zn_imin(panel + job->panels, n_panels(k, job->c.w));
    size_t first = (size_t)(item / job->n_columns) * (size_t)job->block, left = job->n_pixels - first;
    int n = (int)(left < (size_t)job->block ? left : (size_t)job->block);
    size_t acc = (size_t)(job->block * k->nr);
    zn_pixel_table tb = job->gathered ? zn_pixel_table_gather(&job->c, worker, first, n, job->block, acc)
                                      : zn_pixel_table_make(&job->c, worker, first, n, job->block);

    for (; panel < end; panel++)
        run_panel(job, &tb, n, panel);
}

/* Channels at a time: as few equal cuts as keep a panel within PANEL_BYTES, in steps of 4. */
static int cut_channels(const zn_kernels *k, int taps, int cin)
{
    int most = PANEL_BYTES / (int)sizeof(float) / (taps * k->nr);
    int cuts;

    most = most < 16 ? 16 : most > ZN_ZEROS ? ZN_ZEROS : most;
    cuts = (cin + most - 1) / most;
    return zn_round_up((cin + cuts - 1) / cuts, 4);
}

static void run(const zn_conv_job *c)
{
    const zn_conv *w = c->w;
    const zn_kernels *k = c->d->k;
    gemm_job job = { .c = *c, .n_pixels = zn_pixels(c->y), .taps = w->kh * w->kw, .channels = w->cin / w->groups };
    size_t block, macs;
    int total = n_panels(k, w);

    job.block = ZN_BLOCK_TILES * k->mr;
    block = (size_t)job.block;
    job.gathered = w->groups == 1 && w->cin <= 4 && job.taps > 1 && job.taps <= ZN_MAX_GATHER;
    if (job.gathered) {
        job.channels *= job.taps;
        job.taps = 1;
    }
    macs = (job.n_pixels < block ? job.n_pixels : block) * (size_t)(w->kh * w->kw) * (size_t)(w->cin / w->groups) *
        (size_t)k->nr;
    job.cut = cut_channels(k, job.taps, job.channels);
    job.panels = macs * (size_t)total <= ITEM_MACS ? total : 1 + (int)(ITEM_MACS / macs);
    job.n_columns = (total + job.panels - 1) / job.panels;
    zn_pool_run(c->d->pool, run_item, &job, zn_items(job.n_pixels, block) * job.n_columns);
}

const zn_conv_algorithm zn_conv_implicit = { "implicit GEMM", suits, size, pack, run };
