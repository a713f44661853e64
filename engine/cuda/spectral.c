/* SPDX-License-Identifier: MIT */
/* spectral.c - Walsh-Hadamard transforms and the pruned convolution: the choice of kernels, and their grids. */
#include "cuda.h"

enum { THREADS = 256, LINE_THREADS = 512, PRUNED_THREADS = 128, STRIP = 8 }; /* as in kernels/spectral.cu, pruned.cu */

static int log_of(int n)
{
    int log = 0;

    while (1 << log < n)
        log++;
    return log;
}

/* In vectors of 8 channels; only with scales, a bias and an activation.  False: there is no such kernel for it. */
static bool along_c_vectors(zn_cuda *d, zn_tensor y, zn_tensor x, const zn_fwht *w)
{
    int vectors_each = w->n >= 32 ? 4 : w->n / 8;
    zn_args_fwht_c g = { .y = y, .x = x, .w = *w, .log_n = log_of(w->n), .pixels = zn_pixels(x) };

    if (w->n < 8 || w->n > 1024 || w->rounds > 1 || w->perm || w->slm || w->mix || x.type != y.type || x.c % 8 ||
        y.c % 8 || !zn_cuda_aligned(x) || !zn_cuda_aligned(y) || !zn_cuda_on_16(w->pre) || !zn_cuda_on_16(w->gate))
        return false;
    g.log_team = g.log_n - log_of(8 * vectors_each);
    zn_cuda_launch(d, zn_cuda_kernel("fwht_v8_%d_%s", vectors_each, zn_cuda_type_name(x.type)).text,
                   zn_cuda_blocks(g.pixels, (size_t)(THREADS >> g.log_team)), 1, 1, THREADS, 0, &g);
    return true;
}

static void along_c(zn_cuda *d, zn_tensor y, zn_tensor x, const zn_fwht *w)
{
    /* elements of a thread */
    int each = w->n <= 4 ? 2 : w->n <= 64 ? 8 : w->n <= 256 ? 16 : 32;
    zn_args_fwht_c g = {
        .y = y, .x = x, .w = *w, .log_n = log_of(w->n), .log_team = log_of(w->n / each), .pixels = zn_pixels(x)
    };
    int teams = THREADS >> g.log_team, row = w->n + (w->n >> 5) + 1;

    zn_cuda_launch(d, zn_cuda_kernel("fwht_c_%d", each).text, zn_cuda_blocks(g.pixels, (size_t)teams), 1, 1, THREADS,
                   (unsigned)((size_t)teams * (size_t)row * sizeof(float)), &g);
}

static zn_args_fwht_line line_args(zn_tensor y, zn_tensor x, const zn_fwht *w, int span, int each)
{
    int len = w->axis == ZN_ALONG_W ? x.w : x.h;

    return (zn_args_fwht_line){ .y = y,
                                .x = x,
                                .gate = w->gate,
                                .axis = w->axis,
                                .per_channel = w->per_channel,
                                .shift = w->shift,
                                .log_n = log_of(w->n),
                                .log_span = log_of(span),
                                .n_cols = zn_pixels(x) / (size_t)len * (size_t)(x.c / each) };
}

static unsigned spans_of(zn_tensor x, const zn_fwht *w, int span)
{
    return zn_cuda_blocks((size_t)(w->axis == ZN_ALONG_W ? x.w : x.h) + (size_t)w->shift, (size_t)span);
}

static unsigned shared_for(int span, int per_col, int cols)
{
    return per_col == 1 ? 0 : (unsigned)((span + per_col) * cols) * 2 * (unsigned)sizeof(float);
}

/* Long windows of 16-bit elements: a kernel that loads the next columns meanwhile.  It needs a block's columns to be
 * neighbours in each pixel, the shared memory of data centre GPUs, and columns for more than one round.  False: not so. */
static bool along_line_ahead(zn_cuda *d, zn_args_fwht_line g, int span, int per_col)
{
    enum { COLS = 16 };
    const unsigned shared = shared_for(span, per_col, COLS) + (unsigned)(span * COLS) * 4,
                   per_sm = span == 1024 ? 1 : 2;

    if (d->cc < 80 || span < 512 || g.x.type == ZN_F32 || g.x.c % (2 * COLS) ||
        per_sm * (shared + 1024) > (unsigned)d->smem_max || g.n_cols / COLS <= per_sm * (size_t)d->sms)
        return false;
    g.log_cols = log_of(COLS);
    zn_cuda_launch(d, zn_cuda_kernel("fwht_ahead_%d_%s", span, zn_cuda_type_name(g.x.type)).text,
                   per_sm * (unsigned)d->sms, 1, 1, (unsigned)(COLS * per_col), shared, &g);
    return true;
}

/* Two channels a thread, windows of up to 1024.  False: there is no such kernel for it. */
static bool along_line_pairs(zn_cuda *d, zn_tensor y, zn_tensor x, const zn_fwht *w)
{
    int span = w->n < 16 ? 16 : w->n, own = span == 32 || span > 256 ? 32 : 16, per_col = span / own;
    int cols = per_col == 1 ? THREADS : span == 1024 ? 8 : 16;
    unsigned shared = shared_for(span, per_col, cols);
    zn_args_fwht_line g = line_args(y, x, w, span, 2);

    if (w->n > 1024 || x.type != y.type || x.c % 2 || !zn_cuda_aligned(x) || !zn_cuda_aligned(y) ||
        !zn_cuda_on_16(w->gate) || shared > (unsigned)d->smem_max)
        return false;
    if (along_line_ahead(d, g, span, per_col))
        return true;
    g.log_cols = log_of(cols);
    zn_cuda_launch(d, zn_cuda_kernel("fwht_pairs_%d_%s", span, zn_cuda_type_name(x.type)).text,
                   zn_cuda_blocks(g.n_cols, (size_t)cols), spans_of(x, w, span), 1, (unsigned)(cols * per_col), shared,
                   &g);
    return true;
}

/* Any types and addresses.  A block has at least 32 columns where shared memory allows, and at least 256 threads where
 * there is work. */
static void along_line(zn_cuda *d, zn_tensor y, zn_tensor x, const zn_fwht *w)
{
    enum { OWN = 32 };
    int span = w->n < OWN ? OWN : w->n, per_col = span / OWN, cols = THREADS / per_col;
    zn_args_fwht_line g = line_args(y, x, w, span, 1);
    size_t shared = 0;

    if (cols < 32)
        cols = LINE_THREADS / per_col < 32 ? LINE_THREADS / per_col : 32;
    if (per_col > 1) {
        size_t col = (size_t)(span + span / 32) * sizeof(float);

        while (cols > 1 && col * (size_t)cols > (size_t)d->smem_max)
            cols /= 2;
        shared = col * (size_t)cols;
    }
    g.log_cols = log_of(cols);
    zn_cuda_launch(d, "fwht_line", zn_cuda_blocks(g.n_cols, (size_t)cols), spans_of(x, w, span), 1,
                   (unsigned)(cols * per_col), (unsigned)shared, &g);
}

void zn_cuda_fwht(void *dev, zn_tensor y, zn_tensor x, const zn_fwht *w)
{
    if (w->axis == ZN_ALONG_C) {
        if (!along_c_vectors(dev, y, x, w))
            along_c(dev, y, x, w);
    } else if (!along_line_pairs(dev, y, x, w)) {
        along_line(dev, y, x, w);
    }
}

void zn_cuda_pruned(void *dev, zn_tensor y, zn_tensor mask, zn_tensor x, const zn_pruned *w)
{
    zn_args_pruned g = { y, mask, x, w->scale, w->bias, w->weight };
    size_t rows = (size_t)x.n * (size_t)x.h, strips = zn_cuda_blocks((size_t)x.w, STRIP), blocks = (size_t)x.c / 8;

    assert(zn_cuda_on_16(w->weight));
    if (w->scale)
        zn_cuda_launch(dev, zn_cuda_aligned(x) ? "pruned_mask_v8" : "pruned_mask_v1",
                       zn_cuda_blocks(rows * (size_t)x.w * blocks, THREADS), 1, 1, THREADS, 0, &g);
    if (w->weight)
        zn_cuda_launch(dev, zn_cuda_aligned(x) && zn_cuda_aligned(y) ? "pruned_conv_v8" : "pruned_conv_v1",
                       zn_cuda_blocks(rows * strips * blocks, PRUNED_THREADS), 1, 1, PRUNED_THREADS, 0, &g);
}
