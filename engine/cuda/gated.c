/* SPDX-License-Identifier: MIT */
/* gated.c - gated residual blocks: at once where kernels/gated.cu can, else as their steps, piece by piece of the
 * picture, with what goes from step to step in the device's scratch memory as float32:
 *
 *   x, with a pixel around --norm, pw1--> wide --dw, halves multiplied--> g --pw2--(+x)--> v, in wide's place
 *   v --norm, pw3, halves multiplied--> g --pw4--(+v)--> y */
#include <stdio.h>

#include "cuda.h"

/* ---- at once ------------------------------------------------------------------------------------------------- */

/* The kernels, as at the end of gated.cu: channels at most, rows of a tile, of a warp, warps that share rows, how
 * often weights are in shared memory, and whether large GPUs only have it, or others only.  With more than 2 stages
 * weights stay, and as many blocks as there is room for do all tiles.  The first that fits is taken. */
typedef struct shape {
    int c, th, mt, ns, stages;
    enum { ANY, LARGE, OTHER } where;
} shape;

static const shape shapes16[] = { { 48, 8, 2, 1, 6, LARGE },
                                  { 48, 8, 2, 1, 2, OTHER },
                                  { 96, 8, 2, 2, 2, ANY },
                                  { 192, 8, 2, 2, 2, LARGE },
                                  { 192, 4, 1, 2, 2, OTHER },
                                  { 384, 4, 1, 2, 2, LARGE },
                                  { 0 } };
static const shape shapes32[] = {
    { 48, 8, 2, 1, 2, LARGE }, { 96, 8, 2, 2, 2, LARGE }, { 192, 4, 1, 2, 2, LARGE }, { 0 }
};

/* The type in the kernels' names. */
static const char *kind(const zn_cuda *d, zn_type type)
{
    return type == ZN_F32 && d->precision == ZN_TF32 ? "tf32" : zn_cuda_type_name(type);
}

static bool at_once(zn_cuda *d, zn_tensor y, zn_tensor x, const zn_gated *w)
{
    const zn_cuda_conv pw1 = zn_cuda_conv_args(&w->pw1, x.type), pw2 = zn_cuda_conv_args(&w->pw2, x.type);
    const zn_cuda_conv pw3 = zn_cuda_conv_args(&w->pw3, x.type), pw4 = zn_cuda_conv_args(&w->pw4, x.type);
    const zn_cuda_conv dw = zn_cuda_conv_args(&w->dw, x.type);
    const int unlike = d->cc == 80 || d->cc / 10 == 9 || d->cc / 10 == 10 ? OTHER : LARGE;
    zn_cuda_gated_tile a = {
        .x = x,
        .y = y,
        .w1 = pw1.weight,
        .w2 = pw2.weight,
        .w3 = pw3.weight,
        .w4 = pw4.weight,
        .dw = dw.weight,
        .b1 = pw1.bias,
        .bd = dw.bias,
        .b2 = pw2.bias,
        .b3 = pw3.bias,
        .b4 = pw4.bias,
        .k_pad = pw1.k_pad,
        .dw_pad = dw.cout_pad,
        .eps = w->eps,
        .per_c = 1 / (float)x.c,
    };

    if (d->cc < 80 || y.type != x.type || x.c % 16 || x.ld % 8 || y.ld % 8 || !zn_cuda_on_16(x.data) ||
        !zn_cuda_on_16(y.data))
        return false;
    for (const shape *s = x.type == ZN_F32 ? shapes32 : shapes16; s->c; s++) {
        const int shared = ZN_GATED_SHARED(s->c, s->th, s->ns, s->stages, (int)zn_type_size(x.type));
        const int room =
            zn_imin(3, (d->smem_max + 1024) / (shared + 1024)); /* blocks of a multiprocessor, by gated.cu */
        size_t tiles;
        char kernel[40];

        if (x.c > s->c || (int)s->where == unlike || shared > d->smem_max)
            continue;
        a.down = (int)zn_cuda_blocks((size_t)x.h, (size_t)s->th);
        a.across = (int)zn_cuda_blocks((size_t)x.w, ZN_GATED_TW);
        tiles = (size_t)x.n * (size_t)a.down * (size_t)a.across;
        if (tiles > INT32_MAX)
            return false;
        a.tiles = (int)tiles;
        snprintf(kernel, sizeof kernel, "zn_gated_%s_%dx%d%s", kind(d, x.type), s->c, s->th,
                 s->stages > 2 ? "_stay" : "");
        zn_cuda_launch(d, kernel, (unsigned)(s->stages > 2 ? zn_imin(a.tiles, d->sms * room) : a.tiles), 1, 1,
                       (unsigned)(32 * s->th / s->mt * s->ns), (unsigned)shared, &a);
        return true;
    }
    return false;
}

/* ---- as steps ------------------------------------------------------------------------------------------------ */

/* h x w pixels of c numbers in scratch memory, from float `at` on. */
static zn_cuda_rect dense(zn_cuda *d, size_t at, int w, int c)
{
    return (zn_cuda_rect){ (float *)(void *)d->scratch + at, (int64_t)w * c, w, c, ZN_F32 };
}

/* w pixels of each row of image n, from pixel (i, j) on. */
static zn_cuda_rect part_of(zn_tensor t, int n, int i, int j, int w)
{
    const size_t at = (((size_t)n * (size_t)t.h + (size_t)i) * (size_t)t.w + (size_t)j) * (size_t)t.ld;

    return (zn_cuda_rect){ (char *)t.data + at * zn_type_size(t.type), (int64_t)t.w * t.ld, w, t.ld, t.type };
}

static bool vectors(zn_cuda_rect r, int c)
{
    return r.type == ZN_F32 && c % 4 == 0 && r.ld % 4 == 0 && r.row % 4 == 0 && zn_cuda_on_16(r.data);
}

/* y = w(x) over `pixels` pixels; with eps >= 0 x is normalised first, with gate the halves are multiplied. */
static void product(zn_cuda *d, zn_cuda_rect y, zn_cuda_rect x, const zn_conv *w, int pixels, float eps, bool gate,
                    zn_cuda_rect residual)
{
    const zn_cuda_conv k = zn_cuda_conv_args(w, ZN_F32);
    const int outputs = gate ? w->cout / 2 : w->cout, share = gate ? 2 : 1;
    const size_t by64 = zn_cuda_blocks((size_t)(outputs * share), 64),
                 by48 = zn_cuda_blocks((size_t)(outputs * share), 48);
    const bool narrow = by48 * 48 < by64 * 64; /* less is computed for nothing */
    const zn_cuda_gated_mm a = {
        .x = x,
        .y = y,
        .residual = residual,
        .weight = k.weight,
        .bias = k.bias,
        .pixels = pixels,
        .c = w->cin,
        .outputs = outputs,
        .gate = gate ? outputs : 0,
        .k_pad = k.k_pad,
        .rows = k.cout_pad,
        .norm = eps >= 0,
        .vec_x = vectors(x, w->cin),
        .vec_y = vectors(y, outputs) && (!residual.data || vectors(residual, outputs)),
        .eps = eps,
    };

    zn_cuda_launch(d, narrow ? "zn_gated_mm48" : "zn_gated_mm64",
                   (unsigned)(zn_cuda_blocks((size_t)pixels, 128) * (narrow ? by48 : by64)), 1, 1, 128, 0, &a);
}

/* Pixels i0 .. i1-1, j0 .. j1-1 of image n. */
static void steps(zn_cuda *d, zn_tensor y, zn_tensor x, const zn_gated *w, int n, int i0, int j0, int i1, int j1)
{
    const int a0 = i0 ? i0 - 1 : 0, b0 = j0 ? j0 - 1 : 0; /* with the pixel around, as far as there is one */
    const int a1 = zn_imin(i1 + 1, x.h), b1 = zn_imin(j1 + 1, x.w);
    const int th = i1 - i0, tw = j1 - j0, pixels = th * tw, around = (a1 - a0) * (b1 - b0);
    const zn_cuda_conv dw = zn_cuda_conv_args(&w->dw, ZN_F32);
    const zn_cuda_rect none = { 0 };
    const zn_cuda_rect wide = dense(d, 0, b1 - b0, 2 * x.c), v = dense(d, 0, tw, x.c);
    const zn_cuda_rect g = dense(d, zn_cuda_blocks((size_t)around * 2 * (size_t)x.c, 4) * 4, tw, x.c);
    const zn_cuda_gated_dw a = { g.data, wide.data, dw.weight, dw.bias, th,      tw,
                                 x.c,    a1 - a0,   b1 - b0,   i0 - a0, j0 - b0, dw.cout_pad };

    product(d, wide, part_of(x, n, a0, b0, b1 - b0), &w->pw1, around, w->eps, false, none);
    zn_cuda_launch(d, "zn_gated_dw", zn_cuda_blocks((size_t)th * zn_cuda_blocks((size_t)tw, 8) * (size_t)x.c, 256), 1,
                   1, 256, 0, &a);
    product(d, v, g, &w->pw2, pixels, -1, false, part_of(x, n, i0, j0, tw));
    product(d, g, v, &w->pw3, pixels, w->eps, true, none);
    product(d, part_of(y, n, i0, j0, tw), g, &w->pw4, pixels, -1, false, v);
}

void zn_cuda_gated(void *dev, zn_tensor y, zn_tensor x, const zn_gated *w)
{
    const int64_t room = ZN_CUDA_SCRATCH / (int64_t)sizeof(float) / x.c - 4; /* numbers of each channel */
    int64_t th;
    int tw = zn_imin(x.w, 512);

    if (at_once(dev, y, x, w))
        return;
    /* A piece takes 2 (th + 2) (tw + 2) + th tw of them: as large as it can be, not much wider than high. */
    while (th = (room - 4 * (tw + 2)) / (3 * tw + 4), th < zn_imin(x.h, tw / 8) || th < 1)
        tw = (tw + 1) / 2;
    if (th > x.h)
        th = x.h;
    for (int n = 0; n < x.n; n++)
        for (int i = 0; i < x.h; i += (int)th)
            for (int j = 0; j < x.w; j += tw)
                steps(dev, y, x, w, n, i, j, zn_imin(i + (int)th, x.h), zn_imin(j + tw, x.w));
}
