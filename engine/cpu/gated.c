/* SPDX-License-Identifier: MIT */
/* gated.c - a gated residual block as its parts, tile by tile: for the scalar kernels, whose specification it is,
 * and for more channels than gated_strip.c takes.
 *
 *   x, with a pixel around --norm--> u --pw1--> wide --dw--> wide2 --halves multiplied--> u --pw2--(+x)--> v
 *   v --norm--> u --pw3--> wide --halves multiplied--> u --pw4--(+v)--> y
 *
 * An item is a tile; its steps are the ordinary operations on small tensors in the worker's scratch memory,
 * which run inside the item.  No step's result depends on the tile, so the block equals its parts to the bit. */
#include <string.h>

#include "../core/ints.h"
#include "device.h"

enum {
    BUDGET = 480 << 10,      /* bytes of a tile's tensors: what fits in L2 together with the weights */
    OFFSET = ZN_SCRATCH / 2, /* the lower half of the scratch memory is for the steps themselves */
    STEP = 8,                /* tiles are multiples of this ... */
    SIDE = 32                /* ... up to this */
};

typedef struct gated_job {
    zn_cpu *d;
    zn_tensor y, x;
    const zn_gated *w;
    int th, tw;       /* a tile, without the pixel around it */
    int down, across; /* tiles of an image */
} gated_job;

static size_t tile_bytes(int th, int tw, int c)
{
    return (size_t)((th + 2) * (tw + 2) + th * tw) * 3 * (size_t)c * sizeof(float);
}

/* A tensor of one image in scratch memory; *at moves behind it. */
static zn_tensor place(float **at, int h, int w, int c)
{
    zn_tensor t = { *at, 1, h, w, c, c, ZN_F32 };

    *at += (size_t)h * (size_t)w * (size_t)c;
    return t;
}

static float *pixel(zn_tensor t, int n, int i, int j)
{
    return t.data + (((size_t)n * (size_t)t.h + (size_t)i) * (size_t)t.w + (size_t)j) * (size_t)t.ld;
}

static void norm_rows(const gated_job *job, zn_tensor u, zn_tensor x, int n, int i0, int j0)
{
    const zn_tail none = { .gain = 1 };

    for (int i = 0; i < u.h; i++)
        for (int j = 0; j < u.w; j++)
            job->d->k->norm_row(pixel(u, 0, i, j), pixel(x, n, i0 + i, j0 + j), NULL, NULL, NULL, x.c, job->w->eps,
                                false, &none);
}

static void multiply_halves(const gated_job *job, zn_tensor u, zn_tensor wide)
{
    zn_cpu_binary(job->d, u, zn_slice(wide, 0, u.c), zn_slice(wide, u.c, u.c), ZN_MUL, (zn_tail){ 0 });
}

static void gated_item(void *cookie, int item, int worker)
{
    const gated_job *job = cookie;
    const zn_gated *w = job->w;
    const int c = job->x.c, n = item / (job->down * job->across);
    const int i0 = item / job->across % job->down * job->th, j0 = item % job->across * job->tw;
    const int i1 = zn_imin(i0 + job->th, job->x.h), j1 = zn_imin(j0 + job->tw, job->x.w);
    const int a0 = i0 ? i0 - 1 : 0, b0 = j0 ? j0 - 1 : 0; /* with the pixel around, as far as there is one */
    const int a1 = zn_imin(i1 + 1, job->x.h), b1 = zn_imin(j1 + 1, job->x.w);
    float *at = (float *)(void *)((char *)zn_cpu_scratch(job->d, worker) + OFFSET), *around = at;
    zn_tensor u = place(&at, a1 - a0, b1 - b0, c), wide = place(&at, a1 - a0, b1 - b0, 2 * c);
    zn_tensor wide2 = place(&at, i1 - i0, j1 - j0, 2 * c), v = place(&at, i1 - i0, j1 - j0, c);
    zn_conv dw = w->dw;

    norm_rows(job, u, job->x, n, a0, b0);
    zn_cpu_conv2d(job->d, wide, u, &w->pw1, (zn_tail){ 0 });
    dw.pad_t = a0 < i0 ? 0 : 1; /* beyond the picture there are zeros, not what pw1 makes of them */
    dw.pad_l = b0 < j0 ? 0 : 1;
    zn_cpu_conv2d(job->d, wide2, wide, &dw, (zn_tail){ 0 });
    u = place(&around, v.h, v.w, c);
    wide = place(&around, v.h, v.w, 2 * c);
    multiply_halves(job, u, wide2);
    for (int i = 0; i < v.h; i++)
        for (int j = 0; j < v.w; j++)
            memcpy(pixel(v, 0, i, j), pixel(job->x, n, i0 + i, j0 + j), (size_t)c * sizeof(float));
    zn_cpu_conv2d(job->d, v, u, &w->pw2, (zn_tail){ .residual = &v });

    norm_rows(job, u, v, 0, 0, 0);
    zn_cpu_conv2d(job->d, wide, u, &w->pw3, (zn_tail){ 0 });
    multiply_halves(job, u, wide);
    zn_cpu_conv2d(job->d, v, u, &w->pw4, (zn_tail){ .residual = &v });
    for (int i = 0; i < v.h; i++)
        for (int j = 0; j < v.w; j++)
            memcpy(pixel(job->y, n, i0 + i, j0 + j), pixel(v, 0, i, j), (size_t)c * sizeof(float));
}

void zn_cpu_gated(void *dev, zn_tensor y, zn_tensor x, const zn_gated *w)
{
    gated_job job = { .d = dev, .y = y, .x = x, .w = w, .th = STEP, .tw = STEP };

    if (zn_cpu_gated_strips(dev, y, x, w))
        return;
    assert(tile_bytes(1, 1, x.c) <= ZN_SCRATCH - OFFSET);
    while (job.tw < SIDE && tile_bytes(job.th, job.tw + STEP, x.c) <= BUDGET) {
        job.tw += STEP;
        if (job.th < job.tw / 2 && tile_bytes(job.th + STEP, job.tw, x.c) <= BUDGET)
            job.th += STEP;
    }
    while (tile_bytes(job.th, job.tw, x.c) > ZN_SCRATCH - OFFSET) /* very many channels */
        job.th = job.th / 2 ? job.th / 2 : 1, job.tw = job.tw / 2 ? job.tw / 2 : 1;
    job.down = (x.h + job.th - 1) / job.th;
    job.across = (x.w + job.tw - 1) / job.tw;
    zn_pool_run(job.d->pool, gated_item, &job, x.n * job.down * job.across);
}
