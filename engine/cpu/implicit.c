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
 * a group has as many whole vectors as it needs.
 *
 * Weights of a dense layer may be stored in another type (quantise.h): packed then is the bias and, for each panel, the
 * scales and elements of a zn_stored.  A cut of a panel is expanded to floats in scratch memory, where a larger block of
 * pixels uses it; for fewer than FEW pixels the product reads the stored elements itself. */
#include <string.h>

#include "../core/ints.h"
#include "pixels.h"

enum {
    ITEM_MACS = 4 << 20,     /* of an item: enough work for a thread */
    PANEL_BYTES = 96 << 10,  /* of weights that a block of pixels uses at a time: L1 and part of L2 */
    STORED_BYTES = 48 << 10, /* of an expanded panel: it is written and read again */
    STORED_TILES = 32,       /* tiles of a block that shares an expanded panel */
    FEW = 5,                 /* pixels for which expanding a panel does not pay */
    FEW_WEIGHTS = 128 << 10  /* of an item of few pixels */
};

typedef struct gemm_job {
    zn_conv_job c;
    zn_wtype type;
    size_t n_pixels;
    int block;             /* pixels */
    int n_columns, panels; /* items per block; panels per item */
    int cut;               /* channels at a time */
    bool gathered;         /* taps are channels of a copy: taps = 1, channels = kh * kw * cin */
    int taps, channels;    /* per group, as gemm sees them */
} gemm_job;

static bool suits(const zn_cpu *d, const zn_conv *w)
{
    (void)d, (void)w;
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

/* Bytes of a stored panel of n outputs: scales, then elements. */
static size_t scale_size(const zn_conv *w, zn_wtype t, int ld)
{
    return zn_wtype_scaled(t) ? 2 * (size_t)zn_ceil_div(w->kh * w->kw * w->cin, ZN_W_GROUP) * (size_t)ld : 0;
}

static size_t stored_size(const zn_conv *w, zn_wtype t, int n)
{
    int ld = zn_round_up(n, 16);

    return scale_size(w, t, ld) + zn_wtype_size(t, (size_t)(w->kh * w->kw * w->cin)) * (size_t)ld;
}

static char *stored_at(const zn_kernels *k, const zn_conv *w, zn_wtype t, int panel)
{
    return (char *)((float *)w->packed + bias_len(k, w)) + (size_t)panel * stored_size(w, t, k->nr);
}

static zn_stored stored_panel(const zn_kernels *k, const zn_conv *w, zn_wtype t, int panel)
{
    int ld = zn_round_up(zn_imin(k->nr, w->cout - panel * k->nr), 16);
    const char *at = stored_at(k, w, t, panel);

    return (
        zn_stored){ .type = t, .ld = ld, .scale = (const uint16_t *)(const void *)at, .q = at + scale_size(w, t, ld) };
}

static size_t size(const zn_kernels *k, const zn_conv *w)
{
    zn_wtype t = zn_conv_weights(w);
    size_t bias = sizeof(float) * bias_len(k, w);

    if (t == ZN_W_F32)
        return bias + sizeof(float) * (size_t)w->groups * group_len(k, w);
    return bias + (size_t)(w->cout / k->nr) * stored_size(w, t, k->nr) +
        (w->cout % k->nr ? stored_size(w, t, w->cout % k->nr) : 0);
}

typedef struct packing {
    const zn_kernels *k;
    const zn_conv *w;
    const float *weight;
} packing;

/* One panel in another type (zn_stored). */
static void pack_stored(const zn_kernels *k, const zn_conv *w, zn_wtype t, const float *weight, int panel)
{
    const int len = w->kh * w->kw * w->cin, pairs = t == ZN_W_I4 ? 2 : 1; /* rows of k in an element */
    const int first = panel * k->nr, n = zn_imin(w->cout - first, k->nr);
    const size_t each = zn_wtype_size(t, (size_t)pairs), ld = (size_t)stored_panel(k, w, t, panel).ld;
    char *scale = memset(stored_at(k, w, t, panel), 0, stored_size(w, t, n)), *q = scale + scale_size(w, t, (int)ld);

    for (int o = 0; o < n; o++)
        for (int from = 0; from < len; from += ZN_W_GROUP) {
            const int some = zn_imin(len - from, ZN_W_GROUP);
            char group[4 * ZN_W_GROUP];
            const uint16_t s = zn_quantise(t, group, weight + (size_t)(first + o) * (size_t)len + from, some);

            if (zn_wtype_scaled(t))
                memcpy(scale + sizeof s * ((size_t)(from / ZN_W_GROUP) * ld + (size_t)o), &s, sizeof s);
            for (int i = 0; i < zn_ceil_div(some, pairs); i++)
                memcpy(q + each * ((size_t)(from / pairs + i) * ld + (size_t)o), group + each * (size_t)i, each);
        }
}

/* One panel: [tap][channel][width] from weight[o][channel][tap]; outputs past n are zero. */
static void pack_panel(float *to, const float *weight, int taps, int cin, int n, int width)
{
    for (int t = 0; t < taps; t++)
        for (int c = 0; c < cin; c++)
            for (int o = 0; o < width; o++)
                *to++ = o < n ? weight[((size_t)o * (size_t)cin + (size_t)c) * (size_t)taps + (size_t)t] : 0;
}

/* A panel of a group. */
static void pack_item(void *cookie, int item, int worker)
{
    const packing *job = cookie;
    const zn_kernels *k = job->k;
    const zn_conv *w = job->w;
    const int cin = w->cin / w->groups, cout = w->cout / w->groups, taps = w->kh * w->kw;
    const int panels = zn_ceil_div(cout, k->nr), g = item / panels, o = item % panels * k->nr;
    const int n = zn_imin(cout - o, k->nr), width = zn_round_up(n, k->vl);
    const zn_wtype t = zn_conv_weights(w);

    (void)worker;
    if (t != ZN_W_F32)
        pack_stored(k, w, t, job->weight, item);
    else
        pack_panel((float *)w->packed + bias_len(k, w) + (size_t)g * group_len(k, w) + (size_t)(taps * cin) * (size_t)o,
                   job->weight + (size_t)(g * cout + o) * (size_t)(cin * taps), taps, cin, n, width);
}

static void pack(const zn_cpu *d, const zn_conv *w, const float *weight, const float *bias)
{
    const zn_kernels *k = d->k;
    const int cout = w->cout / w->groups;
    packing job = { k, w, weight };

    for (int g = 0; g < w->groups; g++) {
        float *b = (float *)w->packed + (size_t)(g * zn_round_up(cout, k->nr));

        for (int o = 0; o < zn_round_up(cout, k->nr); o++)
            b[o] = bias && o < cout ? bias[g * cout + o] : 0;
    }
    zn_pool_run(d->pool, pack_item, &job, w->groups * zn_ceil_div(cout, k->nr));
}

const float *zn_implicit_weights(float *room, size_t *tap, const float **bias, const zn_kernels *k, const zn_conv *w,
                                 int panel, int from, int n)
{
    int taps = w->kh * w->kw, o = panel * k->nr, width = zn_round_up(zn_imin(w->cout - o, k->nr), k->vl);
    zn_wtype t = zn_conv_weights(w);

    *bias = (const float *)w->packed + o;
    *tap = (size_t)(t == ZN_W_F32 ? w->cin : n) * (size_t)width;
    if (t == ZN_W_F32)
        return (const float *)w->packed + bias_len(k, w) + (size_t)(taps * w->cin) * (size_t)o +
            (size_t)from * (size_t)width;

    zn_stored stored = stored_panel(k, w, t, panel);
    zn_expand e = { .from = from * taps, .end = (from + n) * taps, .taps = taps, .width = width, .tap = *tap };

    k->expand(room, &stored, &e);
    return room;
}

/* One group, one tap.  A row of a panel is contiguous; the next panel's is elsewhere. */
static void unpack_row(float *to, const zn_kernels *k, const zn_conv *w, int row, int o, int n)
{
    const float *packed = w->packed, *weights = packed + bias_len(k, w);
    zn_wtype t = zn_conv_weights(w);

    assert(w->groups == 1 && w->kh * w->kw == 1);
    if (row == 0) {
        memcpy(to, packed + o, (size_t)n * sizeof *to);
        return;
    }
    for (int i = 0; i < n && t != ZN_W_F32; i++) {
        zn_stored panel = stored_panel(k, w, t, (o + i) / k->nr);

        to[i] = zn_stored_weight(&panel, row - 1, (o + i) % k->nr);
    }
    for (int i = 0, run; i < n && t == ZN_W_F32; i += run) {
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

/* All tiles of a block through one panel, cut by cut of the channels.  room: for a cut of an expanded panel. */
static void run_panel(const gemm_job *job, const zn_pixel_table *tb, int n, int panel, float *room)
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
        if (w->groups == 1 && !job->gathered) {
            g.w = zn_implicit_weights(room, &g.w_tap, &g.bias, k, w, panel, from, g.k);
        } else {
            g.w = weights + (size_t)from * (size_t)width;
            g.w_tap = (size_t)cin * (size_t)width;
        }
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
        run_panel(job, &tb, n, panel, (float *)tb.rest + acc);
}

/* Some panels, all pixels: weights are read once, as they are stored. */
static void few_item(void *cookie, int item, int worker)
{
    const gemm_job *job = cookie;
    const zn_kernels *k = job->c.d->k;
    int panel = item * job->panels, end = zn_imin(panel + job->panels, n_panels(k, job->c.w)), n = (int)job->n_pixels;
    zn_pixel_table tb = zn_pixel_table_make(&job->c, worker, 0, n, job->block);

    for (; panel < end; panel++) {
        zn_product g = panel_product(job, &tb, n, panel);
        zn_stored w = stored_panel(k, job->c.w, job->type, panel);

        k->few(&g, &w);
    }
}

/* Channels at a time: as few equal cuts as keep a panel in cache, in steps of 4 or of whole groups. */
static int cut_channels(const zn_kernels *k, int taps, int cin, bool stored)
{
    int most = (stored ? STORED_BYTES : PANEL_BYTES) / (int)sizeof(float) / (taps * k->nr);
    int cuts;

    most = most < 16 ? 16 : most > ZN_ZEROS ? ZN_ZEROS : most;
    cuts = (cin + most - 1) / most;
    return zn_round_up((cin + cuts - 1) / cuts, stored ? ZN_W_GROUP : 4);
}

/* A linear layer on so few pixels that the time goes into reading weights. */
static bool is_few(const gemm_job *job)
{
    const zn_conv *w = job->c.w;
    zn_tensor y = job->c.y, x = job->c.x;

    return job->type != ZN_W_F32 && job->taps == 1 && w->stride == 1 && !w->up2 && !w->pad_t && !w->pad_l &&
        job->n_pixels < FEW && y.h == x.h && y.w == x.w;
}

static void run(const zn_conv_job *c)
{
    const zn_conv *w = c->w;
    const zn_kernels *k = c->d->k;
    gemm_job job = { .c = *c,
                     .type = zn_conv_weights(w),
                     .n_pixels = zn_pixels(c->y),
                     .taps = w->kh * w->kw,
                     .channels = w->cin / w->groups };
    size_t block, macs;
    int total = n_panels(k, w);

    job.block = (job.type == ZN_W_F32 ? ZN_BLOCK_TILES : STORED_TILES) * k->mr;
    block = (size_t)job.block;
    if (is_few(&job)) {
        job.panels = 1 + FEW_WEIGHTS / (job.channels * k->nr);
        zn_pool_run(c->d->pool, few_item, &job, zn_ceil_div(total, job.panels));
        return;
    }
    job.gathered = w->groups == 1 && w->cin <= 4 && job.taps > 1 && job.taps <= ZN_MAX_GATHER;
    if (job.gathered) {
        job.channels *= job.taps;
        job.taps = 1;
    }
    macs = (job.n_pixels < block ? job.n_pixels : block) * (size_t)(w->kh * w->kw) * (size_t)(w->cin / w->groups) *
        (size_t)k->nr;
    job.cut = cut_channels(k, job.taps, job.channels, job.type != ZN_W_F32);
    job.panels = macs * (size_t)total <= ITEM_MACS ? total : 1 + (int)(ITEM_MACS / macs);
    job.n_columns = (total + job.panels - 1) / job.panels;
    zn_pool_run(c->d->pool, run_item, &job, zn_items(job.n_pixels, block) * job.n_columns);
}

const zn_conv_algorithm zn_conv_implicit = {
    .name = "implicit GEMM", .suits = suits, .size = size, .pack = pack, .run = run, .unpack_row = unpack_row
};
