/* SPDX-License-Identifier: MIT */
/* gated.c - gated residual blocks: in one fused kernel where kernels/gated.cu has one, else in steps.
 *
 * The steps work on one part of the image at a time.  Intermediate results are float32 in the device's scratch memory:
 *
 *   x, with a halo of one pixel --norm, pw1--> wide --dw, halves multiplied--> g --pw2--(+x)--> v, in wide's place
 *   v --norm, pw3, halves multiplied--> g --pw4--(+v)--> y */
#include "cuda.h"

/* ---- fused --------------------------------------------------------------------------------------------------- */

/* The kernels at the end of gated.cu.  With more than 2 stages all weights stay in shared memory, and a persistent grid
 * computes all tiles.  The first shape that fits is used. */
typedef struct shape {
    int c;                            /* channels, at most */
    int th;                           /* rows of a tile */
    int mt;                           /* rows of a warp */
    int ns;                           /* warps that share rows */
    int stages;                       /* buffers for weights */
    enum { ANY, LARGE, OTHER } where; /* data centre GPUs, with their shared memory; all others */
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
static const char *kind(const zn_gated *w, zn_type type)
{
    return type == ZN_F32 && w->pw1.precision == ZN_TF32 ? "tf32" : zn_cuda_type_name(type);
}

/* Launches the fused kernel for tiles of shape s. */
static void launch_fused(zn_cuda *d, zn_tensor y, zn_tensor x, const zn_gated *w, const shape *s, int shared, int tiles)
{
    const zn_conv *const pw[4] = { &w->pw1, &w->pw2, &w->pw3, &w->pw4 };
    const int room = zn_imin(3, (d->smem_max + 1024) / (shared + 1024)); /* blocks per multiprocessor, by gated.cu */
    const zn_cuda_conv dw = zn_cuda_conv_args(d, &w->dw);
    zn_cuda_conv k[4];
    size_t at = 0, size[4];

    for (int i = 0; i < 4; i++)
        at += size[i] = zn_cuda_conv_stored_as(d, pw[i], x.type) ? 0 : zn_cuda_conv_expanded_size(d, pw[i], x.type);
    if (!zn_cuda_expanded(d, at) && at)
        return;
    at = 0;
    for (int i = 0; i < 4; at += size[i++]) {
        k[i] = zn_cuda_conv_args(d, pw[i]);
        k[i].weight = zn_cuda_conv_weight(d, pw[i], x.type, at);
    }

    const zn_cuda_gated_tile a = {
        .x = x,
        .y = y,
        .w1 = k[0].weight,
        .w2 = k[1].weight,
        .w3 = k[2].weight,
        .w4 = k[3].weight,
        .dw = dw.weight,
        .b1 = k[0].bias,
        .bd = dw.bias,
        .b2 = k[1].bias,
        .b3 = k[2].bias,
        .b4 = k[3].bias,
        .k_pad = k[0].k_pad,
        .dw_pad = dw.cout_pad,
        .down = (int)zn_cuda_blocks((size_t)x.h, (size_t)s->th),
        .across = (int)zn_cuda_blocks((size_t)x.w, ZN_GATED_TW),
        .tiles = tiles,
        .eps = w->eps,
        .per_c = 1 / (float)x.c,
    };

    zn_cuda_launch(d,
                   zn_cuda_kernel("gated_%s_%dx%d%s", kind(w, x.type), s->c, s->th, s->stages > 2 ? "_stay" : "").text,
                   (unsigned)(s->stages > 2 ? zn_imin(tiles, d->sms * room) : tiles), 1, 1,
                   (unsigned)(32 * s->th / s->mt * s->ns), (unsigned)shared, &a);
}

/* False: there is no fused kernel for this block on this device. */
static bool fused(zn_cuda *d, zn_tensor y, zn_tensor x, const zn_gated *w)
{
    const int unlike = d->cc == 80 || d->cc / 10 == 9 || d->cc / 10 == 10 ? OTHER : LARGE;

    if (d->cc < 80 || y.type != x.type || x.c % 16 || x.ld % 8 || y.ld % 8 || !zn_cuda_on_16(x.data) ||
        !zn_cuda_on_16(y.data))
        return false;
    for (const shape *s = x.type == ZN_F32 ? shapes32 : shapes16; s->c; s++) {
        const int shared = ZN_GATED_SHARED(s->c, s->th, s->ns, s->stages, (int)zn_type_size(x.type));
        const size_t tiles =
            (size_t)x.n * zn_cuda_blocks((size_t)x.h, (size_t)s->th) * (size_t)zn_cuda_blocks((size_t)x.w, ZN_GATED_TW);

        if (x.c > s->c || (int)s->where == unlike || shared > d->smem_max)
            continue;
        if (tiles > INT32_MAX)
            return false;
        launch_fused(d, y, x, w, s, shared, (int)tiles);
        return true;
    }
    return false;
}

/* ---- in steps ------------------------------------------------------------------------------------------------ */

/* h x w pixels of c channels in scratch memory, from float `at` on. */
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
    const zn_cuda_conv k = zn_cuda_conv_args(d, w);
    const int outputs = gate ? w->cout / 2 : w->cout, share = gate ? 2 : 1;
    const size_t by64 = zn_cuda_blocks((size_t)(outputs * share), 64),
                 by48 = zn_cuda_blocks((size_t)(outputs * share), 48);
    const bool narrow = by48 * 48 < by64 * 64; /* fewer columns of padding */
    const zn_cuda_gated_mm a = {
        .x = x,
        .y = y,
        .residual = residual,
        .weight = zn_cuda_conv_weight(d, w, ZN_F32, 0),
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

    zn_cuda_launch(d, narrow ? "gated_mm48_f32" : "gated_mm64_f32",
                   (unsigned)(zn_cuda_blocks((size_t)pixels, 128) * (narrow ? by48 : by64)), 1, 1, 128, 0, &a);
}

/* Pixels i0 .. i1-1, j0 .. j1-1 of image n. */
static void steps(zn_cuda *d, zn_tensor y, zn_tensor x, const zn_gated *w, int n, int i0, int j0, int i1, int j1)
{
    const int a0 = i0 ? i0 - 1 : 0, b0 = j0 ? j0 - 1 : 0; /* with the halo, inside the image */
    const int a1 = zn_imin(i1 + 1, x.h), b1 = zn_imin(j1 + 1, x.w);
    const int th = i1 - i0, tw = j1 - j0, pixels = th * tw, around = (a1 - a0) * (b1 - b0);
    const zn_cuda_conv dw = zn_cuda_conv_args(d, &w->dw);
    const zn_cuda_rect none = { 0 };
    const zn_cuda_rect wide = dense(d, 0, b1 - b0, 2 * x.c), v = dense(d, 0, tw, x.c);
    const zn_cuda_rect g = dense(d, zn_cuda_blocks((size_t)around * 2 * (size_t)x.c, 4) * 4, tw, x.c);
    const zn_cuda_gated_dw a = { g.data, wide.data, dw.weight, dw.bias, th,      tw,
                                 x.c,    a1 - a0,   b1 - b0,   i0 - a0, j0 - b0, dw.cout_pad };

    product(d, wide, part_of(x, n, a0, b0, b1 - b0), &w->pw1, around, w->eps, false, none);
    zn_cuda_launch(d, "gated_dw_f32", zn_cuda_blocks((size_t)th * zn_cuda_blocks((size_t)tw, 8) * (size_t)x.c, 256), 1,
                   1, 256, 0, &a);
    product(d, v, g, &w->pw2, pixels, -1, false, part_of(x, n, i0, j0, tw));
    product(d, g, v, &w->pw3, pixels, w->eps, true, none);
    product(d, part_of(y, n, i0, j0, tw), g, &w->pw4, pixels, -1, false, v);
}

void zn_cuda_gated(void *dev, zn_tensor y, zn_tensor x, const zn_gated *w)
{
    const int64_t room = ZN_CUDA_SCRATCH / (int64_t)sizeof(float) / x.c - 4; /* pixels of x.c channels */
    int64_t th;
    int tw = zn_imin(x.w, 512);

    if (fused(dev, y, x, w))
        return;
    /* A part of th x tw pixels needs room for 2 (th + 2) (tw + 2) + th tw.  Make it as large as possible, but not more than 8
     * times as wide as high. */
    while (th = (room - 4 * (tw + 2)) / (3 * tw + 4), th < zn_imin(x.h, tw / 8) || th < 1)
        tw = (tw + 1) / 2;
    if (th > x.h)
        th = x.h;
    for (int n = 0; n < x.n; n++)
        for (int i = 0; i < x.h; i += (int)th)
            for (int j = 0; j < x.w; j += tw)
                steps(dev, y, x, w, n, i, j, zn_imin(i + (int)th, x.h), zn_imin(j + tw, x.w));
}
