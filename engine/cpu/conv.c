/* SPDX-License-Identifier: MIT */
/* conv.c - dense, grouped and depthwise convolution as an indirect matrix product.
 *
 *     pixels of x --(a table of pointers: one per tap and output pixel)--> gemm --> pixels of y
 *
 * Nothing is copied: padding is a pointer to a row of zeros, stride and enlargement are other pointers.
 * (Except for up to 4 channels, as in a network's first layer: there the taps of a pixel become one row.)
 * An item is a block of output pixels times some panels; a panel is NR outputs.  Inside an item:
 *     for each panel, for each cut of the channels (so that the weights in use stay in L1 and L2)
 *         for each tile of MR pixels: gemm
 * in which the order of a pixel's additions depends on neither the block nor the thread.
 *
 * packed: bias, padded to whole panels; then [group][panel][tap][channel][outputs of the panel], where
 * the last panel of a group is as many whole vectors as it needs.  Depthwise: bias, [tap][channel]. */
#include <string.h>

#include "../core/ints.h"
#include "device.h"
#include "grouped.h"
#include "winograd.h"

enum {
    TILES = 16,            /* of MR pixels, per block */
    MAX_TAPS = 1024,       /* of the pointer table */
    MAX_GATHER = 64,       /* taps whose pixels are copied */
    ITEM_MACS = 4 << 20,   /* worth handing to a thread */
    PANEL_BYTES = 96 << 10 /* of weights that a block of pixels meets at a time: L1 and part of L2 */
};

typedef struct conv_job {
    zn_cpu *d;
    zn_tensor y, x;
    const zn_conv *w;
    zn_tail t;
    size_t n_pixels;
    int n_columns, panels; /* items per block; panels per item */
    int cut;               /* channels at a time */
    bool gathered;         /* taps are channels of a copy: taps = 1, channels = kh * kw * cin */
    int taps, channels;    /* per group, as gemm sees them */
} conv_job;

typedef struct table { /* of a block; in scratch memory */
    const float **x;   /* [tile][tap][MR] */
    float **y;         /* [tile][MR] */
    const float **res; /* likewise, or NULL */
    float *acc;        /* [tile][MR][NR] */
} table;

static bool is_depthwise(const zn_conv *w)
{
    return w->groups > 1 && w->groups == w->cin && w->cin == w->cout;
}

/* So few outputs that vectors along them would be mostly empty. */
static bool is_narrow(const zn_kernels *k, const zn_conv *w)
{
    return w->groups == 1 && w->cout <= ZN_NARROW && w->cin >= 2 * k->vl && w->cin <= ZN_ZEROS;
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

size_t zn_cpu_conv_size(void *dev, const zn_conv *w)
{
    const zn_kernels *k = ((zn_cpu *)dev)->k;

    if (!k->gemm)
        return zn_formula_conv_size(w);
    if (zn_winograd_suits(k, w))
        return zn_winograd_size(k, w);
    if (is_depthwise(w))
        return sizeof(float) * (size_t)w->cout * (size_t)(1 + w->kh * w->kw);
    if (zn_grouped_suits(k, w))
        return zn_grouped_size(k, w);
    if (is_narrow(k, w))
        return sizeof(float) * (ZN_MAX_VL + (size_t)(w->kh * w->kw * w->cout) * (size_t)zn_round_up(w->cin, k->vl));
    return sizeof(float) * (bias_len(k, w) + (size_t)w->groups * group_len(k, w));
}

static void pack_depthwise(const zn_conv *w, const float *weight, const float *bias)
{
    float *packed = w->packed;
    int taps = w->kh * w->kw;

    for (int c = 0; c < w->cout; c++) {
        packed[c] = bias ? bias[c] : 0;
        for (int t = 0; t < taps; t++)
            packed[(size_t)(t + 1) * (size_t)w->cout + (size_t)c] = weight[(size_t)c * (size_t)taps + (size_t)t];
    }
}

/* bias, padded to a vector; then [tap][o][channel], padded with zeros to whole vectors. */
static void pack_narrow(const zn_kernels *k, const zn_conv *w, const float *weight, const float *bias)
{
    float *to = w->packed;
    int taps = w->kh * w->kw;

    for (int o = 0; o < ZN_MAX_VL; o++)
        *to++ = bias && o < w->cout ? bias[o] : 0;
    for (int t = 0; t < taps; t++)
        for (int o = 0; o < w->cout; o++)
            for (int c = 0; c < zn_round_up(w->cin, k->vl); c++)
                *to++ = c < w->cin ? weight[((size_t)o * (size_t)w->cin + (size_t)c) * (size_t)taps + (size_t)t] : 0;
}

/* One panel: [tap][channel][width] from weight[o][channel][tap]; outputs past n are zero. */
static void pack_panel(float *to, const float *weight, int taps, int cin, int n, int width)
{
    for (int t = 0; t < taps; t++)
        for (int c = 0; c < cin; c++)
            for (int o = 0; o < width; o++)
                *to++ = o < n ? weight[((size_t)o * (size_t)cin + (size_t)c) * (size_t)taps + (size_t)t] : 0;
}

void zn_cpu_conv_pack(void *dev, const zn_conv *w, const float *weight, const float *bias)
{
    const zn_kernels *k = ((zn_cpu *)dev)->k;
    int cin = w->cin / w->groups, cout = w->cout / w->groups, taps = w->kh * w->kw;

    if (!k->gemm) {
        zn_formula_conv_pack(w, weight, bias);
        return;
    }
    if (zn_winograd_suits(k, w)) {
        zn_winograd_pack(k, w, weight, bias);
        return;
    }
    if (is_depthwise(w)) {
        pack_depthwise(w, weight, bias);
        return;
    }
    if (zn_grouped_suits(k, w)) {
        zn_grouped_pack(k, w, weight, bias);
        return;
    }
    if (is_narrow(k, w)) {
        pack_narrow(k, w, weight, bias);
        return;
    }
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

const float *zn_cpu_conv_row(const zn_kernels *k, const zn_conv *w, int row, int o)
{
    const float *packed = w->packed;
    int panel = o / k->nr * k->nr, width = zn_round_up(w->cout - panel < k->nr ? w->cout - panel : k->nr, k->vl);

    assert(is_depthwise(w) || (w->groups == 1 && w->kh * w->kw == 1 && !is_narrow(k, w)));
    if (row == 0)
        return packed + o;
    if (is_depthwise(w))
        return packed + row * w->cout + o;
    return packed + bias_len(k, w) + (size_t)w->cin * (size_t)panel + (size_t)(row - 1) * (size_t)width + (o - panel);
}

/* ---- pointers ----------------------------------------------------------------------------------------- */

typedef struct place {
    int n, i, j; /* an output pixel */
} place;

static place place_of(zn_tensor y, size_t p)
{
    size_t row = p / (size_t)y.w;

    return (place){ (int)(row / (size_t)y.h), (int)(row % (size_t)y.h), (int)(p % (size_t)y.w) };
}

static place next_place(zn_tensor y, place a)
{
    if (++a.j == y.w) {
        a.j = 0;
        if (++a.i == y.h) {
            a.i = 0;
            a.n++;
        }
    }
    return a;
}

/* to[tap * step] = the input pixel that tap reads for output a. */
static void point(const float **to, int step, const conv_job *job, place a)
{
    const zn_conv *w = job->w;
    zn_tensor x = job->x;
    int shift = w->up2 ? 1 : 0;
    int top = a.i * w->stride - w->pad_t, left = a.j * w->stride - w->pad_l;
    const float *image = x.data + (size_t)a.n * (size_t)x.h * (size_t)x.w * (size_t)x.ld;

    for (int u = 0; u < w->kh; u++) {
        int yy = top + u;
        const float *row = image + (ptrdiff_t)(yy >> shift) * x.w * x.ld;

        if (yy >= 0 && yy < x.h << shift && left >= 0 && left + w->kw <= x.w << shift) {
            for (int v = 0; v < w->kw; v++, to += step)
                *to = row + (ptrdiff_t)((left + v) >> shift) * x.ld;
            continue;
        }
        for (int v = 0; v < w->kw; v++, to += step) {
            int xx = left + v;

            *to = yy < 0 || yy >= x.h << shift || xx < 0 || xx >= x.w << shift ? job->d->zeros
                                                                               : row + (ptrdiff_t)(xx >> shift) * x.ld;
        }
    }
}

/* Few channels: all taps of a pixel are copied into one row, so that gemm has a long sum to work on. */
static void gather(float *to, const conv_job *job, place a)
{
    const float *from[MAX_GATHER];
    int taps = job->w->kh * job->w->kw, cin = job->w->cin;

    point(from, 1, job, a);
    for (int t = 0; t < taps; t++)
        for (int c = 0; c < cin; c++)
            *to++ = from[t][c];
}

/* Fills the table of the pixels first .. first+n-1; the last tile repeats its last pixel. */
static table make_table(const conv_job *job, int worker, size_t first, int n)
{
    int mr = job->d->k->mr, block = TILES * mr, taps = job->taps, len = job->channels;
    zn_tensor y = job->y;
    place a = place_of(y, first);
    table tb;
    float *rows;

    tb.x = zn_cpu_scratch(job->d, worker);
    tb.y = (float **)(void *)(tb.x + taps * block);
    tb.res = (const float **)(void *)(tb.y + block);
    tb.acc = (float *)(void *)(tb.res + block);
    rows = tb.acc + block * job->d->k->nr;
    for (int r = 0; r < zn_round_up(n, mr); r++) {
        size_t p = first + (size_t)(r < n ? r : n - 1);

        if (job->gathered && r < n)
            gather(rows + r * len, job, a);
        if (job->gathered)
            tb.x[r] = rows + (r < n ? r : n - 1) * len;
        else
            point(tb.x + r / mr * mr * taps + r % mr, mr, job, a);
        tb.y[r] = y.data + p * (size_t)y.ld;
        tb.res[r] = zn_residual_at(&job->t, p);
        if (r + 1 < n)
            a = next_place(y, a);
    }
    if (!job->t.residual)
        tb.res = NULL;
    return tb;
}

/* ---- items ----------------------------------------------------------------------------------------------
 */

/* All tiles of a block through one panel, for channels from .. from+cut of the group. */
static void run_panel(const conv_job *job, const table *tb, int n, int panel, int from)
{
    const zn_kernels *k = job->d->k;
    const zn_conv *w = job->w;
    int cin = job->channels, cout = w->cout / w->groups, taps = job->taps;
    int per_group = zn_round_up(cout, k->nr) / k->nr, group = panel / per_group;
    int o = panel % per_group * k->nr;
    int outputs = cout - o < k->nr ? cout - o : k->nr, width = zn_round_up(outputs, k->vl);
    zn_product g = {
        .zeros = job->d->zeros,
        .bias = (const float *)w->packed + group * zn_round_up(cout, k->nr) + o,
        .w = (const float *)w->packed + bias_len(k, w) + (size_t)group * group_len(k, w) +
            (size_t)(taps * cin) * (size_t)o + (size_t)from * (size_t)width,
        .w_tap = (size_t)cin * (size_t)width,
        .t = &job->t,
        .off = group * cin + from,
        .y_off = group * cout + o,
        .taps = taps,
        .k = cin - from < job->cut ? cin - from : job->cut,
        .n = outputs,
        .x = tb->x,
        .y = tb->y,
        .res = tb->res,
        .acc = tb->acc,
        .rows = n,
        .first = from == 0,
        .last = from + job->cut >= cin,
    };

    k->gemm(&g);
}

/* The table of block `index` of the output pixels; *n: how many they are. */
static table cut_block(const conv_job *job, int index, int worker, int *n)
{
    size_t block = (size_t)(TILES * job->d->k->mr), first = (size_t)index * block;

    *n = (int)(job->n_pixels - first < block ? job->n_pixels - first : block);
    return make_table(job, worker, first, *n);
}

static void gemm_item(void *cookie, int item, int worker)
{
    const conv_job *job = cookie;
    const zn_conv *w = job->w;
    int nr = job->d->k->nr, n;
    int total = w->groups * zn_round_up(w->cout / w->groups, nr) / nr;
    int panel = item % job->n_columns * job->panels;
    int end = panel + job->panels < total ? panel + job->panels : total;
    table tb = cut_block(job, item / job->n_columns, worker, &n);

    for (; panel < end; panel++)
        for (int from = 0; from < job->channels; from += job->cut)
            run_panel(job, &tb, n, panel, from);
}

static void run_depthwise(const conv_job *job, const table *tb, int n)
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

static void depthwise_item(void *cookie, int item, int worker)
{
    const conv_job *job = cookie;
    int n;
    table tb = cut_block(job, item, worker, &n);

    run_depthwise(job, &tb, n);
}

/* A row of y, 3x3: the first and the last pixel as above, those between from rows at constant strides. */
static void depthwise_row(void *cookie, int item, int worker)
{
    const conv_job *job = cookie;
    const zn_conv *w = job->w;
    zn_tensor y = job->y, x = job->x;
    place a = place_of(y, (size_t)item * (size_t)y.w);
    size_t first = (size_t)item * (size_t)y.w;
    zn_depthwise3 g = { .y = y.data + (first + 1) * (size_t)y.ld,
                        .y_ld = (size_t)y.ld,
                        .w = w->packed,
                        .w_ld = (size_t)w->cout,
                        .t = &job->t,
                        .pixels = y.w - 2,
                        .n = w->cout };

    for (int u = 0; u < 3; u++) {
        int yy = a.i - 1 + u;
        bool inside = yy >= 0 && yy < x.h;

        g.x[u] =
            inside ? x.data + ((size_t)a.n * (size_t)x.h + (size_t)yy) * (size_t)x.w * (size_t)x.ld : job->d->zeros;
        g.x_ld[u] = inside ? (size_t)x.ld : 0;
    }
    if (job->t.residual) {
        g.res = zn_residual_at(&job->t, first + 1);
        g.res_ld = (size_t)job->t.residual->ld;
    }
    job->d->k->depthwise3(&g);
    for (int end = 0; end < 2; end++) {
        table tb = make_table(job, worker, first + (size_t)(end ? y.w - 1 : 0), 1);

        run_depthwise(job, &tb, 1);
    }
}

static void narrow_item(void *cookie, int item, int worker)
{
    const conv_job *job = cookie;
    const zn_conv *w = job->w;
    const zn_kernels *k = job->d->k;
    int n;
    table tb = cut_block(job, item, worker, &n);
    zn_product g = { .x = tb.x,
                     .bias = w->packed,
                     .w = (const float *)w->packed + ZN_MAX_VL,
                     .y = tb.y,
                     .res = tb.res,
                     .w_tap = (size_t)(w->cout * zn_round_up(w->cin, k->vl)),
                     .t = &job->t,
                     .taps = job->taps,
                     .k = w->cin,
                     .rows = n,
                     .n = w->cout };

    k->narrow(&g);
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

void zn_cpu_conv2d(void *dev, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t)
{
    conv_job job = { .d = dev, .y = y, .x = x, .w = w, .t = zn_cpu_tail(t) };
    const zn_kernels *k = job.d->k;
    size_t block = (size_t)(TILES * k->mr), macs;
    int total;

    if (!k->gemm) {
        zn_formula_conv2d(job.d, y, x, w, t);
        return;
    }
    if (zn_winograd_suits(k, w)) {
        zn_winograd(job.d, y, x, w, t);
        return;
    }
    if (zn_grouped_suits(k, w)) {
        zn_grouped(job.d, y, x, w, job.t);
        return;
    }
    assert(w->kh * w->kw <= MAX_TAPS);
    job.n_pixels = zn_pixels(y);
    job.taps = w->kh * w->kw;
    job.channels = w->cin / w->groups;
    if (is_depthwise(w) && w->kh == 3 && w->kw == 3 && w->stride == 1 && !w->up2 && w->pad_t == 1 && w->pad_l == 1 &&
        y.w == x.w && y.w > 2 && w->cout <= ZN_ZEROS) {
        zn_pool_run(job.d->pool, depthwise_row, &job, y.n * y.h);
        return;
    }
    if (is_depthwise(w)) {
        zn_pool_run(job.d->pool, depthwise_item, &job, zn_items(job.n_pixels, block));
        return;
    }
    if (is_narrow(k, w)) {
        zn_pool_run(job.d->pool, narrow_item, &job, zn_items(job.n_pixels, block));
        return;
    }
    job.gathered = w->groups == 1 && w->cin <= 4 && job.taps > 1 && job.taps <= MAX_GATHER;
    if (job.gathered) {
        job.channels *= job.taps;
        job.taps = 1;
    }
    total = w->groups * zn_round_up(w->cout / w->groups, k->nr) / k->nr;
    macs = (job.n_pixels < block ? job.n_pixels : block) * (size_t)(w->kh * w->kw) * (size_t)(w->cin / w->groups) *
        (size_t)k->nr;
    job.cut = cut_channels(k, job.taps, job.channels);
    job.panels = macs * (size_t)total <= ITEM_MACS ? total : 1 + (int)(ITEM_MACS / macs);
    job.n_columns = (total + job.panels - 1) / job.panels;
    zn_pool_run(job.d->pool, gemm_item, &job, zn_items(job.n_pixels, block) * job.n_columns);
}
