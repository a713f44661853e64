/* SPDX-License-Identifier: MIT */
/* rounded.c - dense convolution in fp16, where a CPU computes in it.
 *
 *   pixels of x under the taps of a pixel of y --rounded, side by side--> a row --times weights--> y
 *
 * An item is a block of pixels times some panels.  Sums of a few products are fp16, longer ones are sums of those
 * (panel.h); the bias and the tail are computed in float32.  x, y and the residual may be halves.
 *
 * packed: bias, floats, whole panels; then [panel][1 + tap and channel, filled up to whole vectors][outputs of the panel] in
 * fp16, of which the first row is zero. */
#include <string.h>

#include "../core/ints.h"
#include "pixels.h"

enum {
    BLOCK = 192 << 10, /* bytes of a block's rows: they stay in L2 while all panels are computed ... */
    PIXELS = 80,       /* ... but no more pixels */
    MAX_K = 1 << 13,   /* inputs of an output; of PIXELS rows a tenth fits ... */
    LONGEST = 9 << 12  /* ... of a network whose tensors are halves a few do */
};

typedef struct rounded_job {
    zn_conv_job c;
    const zn_panel_form *f;
    int k, block, splits;
    bool as_is; /* sums are y: floats, without a tail */
} rounded_job;

static bool suits(const zn_cpu *d, const zn_conv *w)
{
    const int k = w->kh * w->kw * w->cin;
    const bool halves = w->tensors == ZN_F16, dense = w->cin >= 16 && w->cout >= 16;

    return d->half && w->precision == ZN_FP16_MATH && w->groups == 1 && w->kh * w->kw <= ZN_MAX_GATHER &&
        (halves ? k <= LONGEST && (dense || w->up2) : dense && k <= MAX_K && !zn_winograd_fits(d->k, w));
}

static int row_len(const zn_kernels *k, const zn_conv *w)
{
    return zn_round_up(w->kh * w->kw * w->cin, k->half->vl);
}

static int bias_len(const zn_kernels *k, const zn_conv *w)
{
    return zn_round_up(w->cout, k->half->nr);
}

/* Halves before the weights of output o's panel, and the width of that panel. */
static size_t panel_at(const zn_kernels *k, const zn_conv *w, int o, int *width)
{
    const int nr = k->half->nr, panel = o / nr * nr;

    *width = zn_round_up(zn_imin(w->cout - panel, nr), k->half->vl);
    return (size_t)(1 + row_len(k, w)) * (size_t)panel;
}

static size_t size(const zn_kernels *k, const zn_conv *w)
{
    return sizeof(float) * (size_t)bias_len(k, w) +
        2 * (size_t)(1 + row_len(k, w)) * (size_t)zn_round_up(w->cout, k->half->vl);
}

static void pack(const zn_cpu *d, const zn_conv *w, const float *weight, const float *bias)
{
    const zn_kernels *k = d->k;
    const int taps = w->kh * w->kw;
    float *first = w->packed;
    uint16_t *to = (uint16_t *)(void *)(first + bias_len(k, w));

    for (int o = 0; o < bias_len(k, w); o++)
        first[o] = bias && o < w->cout ? bias[o] : 0;
    for (int o = 0, width; o < w->cout; o += width) {
        panel_at(k, w, o, &width);
        for (int row = -1; row < row_len(k, w); row++, to += width) {
            float some[ZN_MAX_NR] = { 0 };
            const int c = row % w->cin, t = row / w->cin;

            for (int j = 0; row >= 0 && row < taps * w->cin && j < zn_imin(width, w->cout - o); j++)
                some[j] = weight[((size_t)(o + j) * (size_t)w->cin + (size_t)c) * (size_t)taps + (size_t)t];
            k->half->round(to, some, (size_t)width);
        }
    }
}

static void unpack_row(float *to, const zn_kernels *k, const zn_conv *w, int row, int o, int n)
{
    const uint16_t *weights = (const uint16_t *)(const void *)((const float *)w->packed + bias_len(k, w));
    const int nr = k->half->nr;

    assert(w->kh * w->kw == 1);
    if (row == 0)
        memcpy(to, (const float *)w->packed + o, (size_t)n * sizeof *to);
    for (int i = 0, run, width; i < n && row; i += run) { /* a row of a panel is contiguous */
        const size_t panel = panel_at(k, w, o + i, &width);

        run = zn_imin(n - i, nr - (o + i) % nr);
        k->half->widen(to + i, weights + panel + (size_t)row * (size_t)width + (size_t)((o + i) % nr), (size_t)run);
    }
}

/* Rows of the pixels under the taps. */
static void gather(const rounded_job *job, const zn_pixel_table *tb, uint16_t *to, int n)
{
    const zn_conv *w = job->c.w;
    const int taps = w->kh * w->kw, mr = job->c.d->k->mr;

    for (int r = 0; r < n; r++, to += job->k) {
        for (int t = 0; t < taps; t++) {
            const float *x = tb->x[(r / mr * taps + t) * mr + r % mr];

            if (job->c.x.type == ZN_F16)
                memcpy(to + t * w->cin, x, (size_t)w->cin * sizeof *to);
            else
                job->f->round(to + t * w->cin, x, (size_t)w->cin);
        }
        memset(to + taps * w->cin, 0, (size_t)(job->k - taps * w->cin) * sizeof *to);
    }
}

static void run_item(void *cookie, int item, int worker)
{
    const rounded_job *job = cookie;
    const zn_conv *w = job->c.w;
    const zn_kernels *k = job->c.d->k;
    const int nr = job->f->nr, each = zn_round_up(zn_ceil_div(w->cout, job->splits), nr);
    const int from = item % job->splits * each, end = zn_imin(from + each, w->cout);
    const size_t first = (size_t)(item / job->splits) * (size_t)job->block, left = zn_pixels(job->c.y) - first;
    const int n = left < (size_t)job->block ? (int)left : job->block;
    zn_pixel_table tb;
    uint16_t *rows;
    float *sums;

    if (from >= end)
        return;
    tb = zn_pixel_table_make(&job->c, worker, first, n, job->block);
    rows = tb.rest;
    sums = (float *)(void *)(rows + (size_t)job->block * (size_t)job->k);
    gather(job, &tb, rows, n);
    for (int o = from, width; o < end; o += width) {
        const uint16_t *weights = (const uint16_t *)(const void *)((const float *)w->packed + bias_len(k, w));
        const size_t panel = panel_at(k, w, o, &width);
        const int some = zn_imin(width, w->cout - o);

        job->f->panel(&(zn_panel){ .y = job->as_is ? tb.y[0] + o : sums,
                                   .x = rows,
                                   .w = weights + panel,
                                   .res = (const float *)w->packed + o,
                                   .y_ld = job->as_is ? (size_t)job->c.y.ld : (size_t)nr,
                                   .x_ld = (size_t)job->k,
                                   .rows = n,
                                   .k = job->k,
                                   .n = job->as_is ? some : width });
        for (int r = 0; r < n && !job->as_is; r++)
            zn_conv_finish(&job->c, tb.y[r], tb.res ? tb.res[r] : NULL, sums + r * nr, o, some);
    }
}

static void run(const zn_conv_job *c)
{
    const int threads = zn_pool_size(c->d->pool), panels = zn_ceil_div(c->w->cout, c->d->half->nr);
    rounded_job job = { .c = *c, .f = c->d->half, .k = row_len(c->d->k, c->w) };
    int blocks;

    job.as_is = c->y.type == ZN_F32 && !c->t.residual && !c->t.pre && !c->t.post && c->t.gain == 1;
    job.block = zn_round_up(zn_imax(1, zn_imin(PIXELS, BLOCK / (2 * job.k))), c->d->k->mr);
    blocks = zn_items(zn_pixels(c->y), (size_t)job.block);
    job.splits = zn_imin(panels, zn_imax(1, 2 * threads / blocks));
    zn_pool_run(c->d->pool, run_item, &job, blocks * job.splits);
}

const zn_conv_algorithm zn_conv_rounded = {
    .name = "fp16", .suits = suits, .size = size, .pack = pack, .run = run, .unpack_row = unpack_row, .inputs = ZN_W_F16
};
