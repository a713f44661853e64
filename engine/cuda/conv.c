/* SPDX-License-Identifier: MIT */
/* conv.c - convolutions on the GPU: packing, and which kernel takes which. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "hopper.h"

/* ---- packing -------------------------------------------------------------------------------------------------- */

/* The parts of zn_conv.packed, see args.h. */
typedef struct parts {
    bool depthwise;
    size_t cin_pad, cout_pad, k_pad;
    size_t w32, w16, wb16, size; /* offsets in bytes, and the whole */
} parts;

static size_t up(size_t x, size_t to)
{
    return (x + to - 1) / to * to;
}

static parts parts_of(const zn_conv *w)
{
    parts p = { .depthwise = w->groups > 1 && w->groups == w->cin && w->cin == w->cout };
    size_t taps = (size_t)w->kh * (size_t)w->kw, n;

    p.cin_pad = up((size_t)(w->cin / w->groups), 8);
    p.cout_pad = up((size_t)w->cout, p.depthwise ? 8 : 64);
    p.k_pad = p.depthwise ? taps : up(taps * p.cin_pad, 32);
    n = p.cout_pad * p.k_pad;
    p.w32 = up(p.cout_pad * sizeof(float), 256);
    p.w16 = p.w32 + up(n * sizeof(float), 256);
    p.wb16 = p.w16 + (p.depthwise ? 0 : up(n * 2, 256));
    p.size = p.wb16 + (p.depthwise ? 0 : up(n * 2, 256));
    return p;
}

size_t zn_cuda_conv_size(void *dev, const zn_conv *w)
{
    (void)dev;
    return parts_of(w).size;
}

static void pack_dense(char *host, const zn_conv *w, const parts *p, const float *weight)
{
    float *w32 = (float *)(void *)(host + p->w32);
    uint16_t *w16 = (uint16_t *)(void *)(host + p->w16), *wb16 = (uint16_t *)(void *)(host + p->wb16);
    size_t in = (size_t)(w->cin / w->groups), taps = (size_t)w->kh * (size_t)w->kw;

    for (size_t o = 0; o < (size_t)w->cout; o++)
        for (size_t c = 0; c < in; c++)
            for (size_t t = 0; t < taps; t++) {
                size_t at = o * p->k_pad + t * p->cin_pad + c;
                float v = weight[(o * in + c) * taps + t];

                w32[at] = v;
                w16[at] = zn_to_f16(v);
                wb16[at] = zn_to_bf16(v);
            }
}

void zn_cuda_conv_pack(void *dev, const zn_conv *w, const float *weight, const float *bias)
{
    zn_cuda *d = dev;
    parts p = parts_of(w);
    char *host = calloc(1, p.size);
    float *w32;

    if (!host) {
        zn_cuda_fail(d, "out of memory while packing weights");
        return;
    }
    if (bias)
        memcpy(host, bias, (size_t)w->cout * sizeof *bias);
    w32 = (float *)(void *)(host + p.w32);
    if (p.depthwise) {
        for (size_t t = 0; t < p.k_pad; t++)
            for (size_t c = 0; c < (size_t)w->cout; c++)
                w32[t * p.cout_pad + c] = weight[c * p.k_pad + t];
    } else {
        pack_dense(host, w, &p, weight);
    }
    zn_backend_cuda.upload(dev, w->packed, host, p.size);
    zn_backend_cuda.sync(dev, NULL); /* host may go now */
    free(host);
}

zn_cuda_conv zn_cuda_conv_args(const zn_conv *w, zn_type type)
{
    parts p = parts_of(w);
    char *packed = w->packed;
    zn_cuda_conv a = { .bias = (const float *)(void *)packed,
                       .weight = packed + (type == ZN_F32    ? p.w32
                                           : type == ZN_F16 ? p.w16
                                                            : p.wb16),
                       .kh = w->kh, .kw = w->kw, .stride = w->stride, .groups = w->groups, .cin = w->cin,
                       .cout = w->cout, .pad_t = w->pad_t, .pad_l = w->pad_l, .up2 = w->up2,
                       .cin_pad = (int32_t)p.cin_pad, .cout_pad = (int32_t)p.cout_pad, .k_pad = (int32_t)p.k_pad };

    if (p.depthwise)
        a.weight = packed + p.w32;
    return a;
}

/* ---- dispatch --------------------------------------------------------------------------------------------------- */

static const char *const type_name[] = { "f32", "f16", "bf16" };

static void launch(zn_cuda *d, const char *what, const char *kind, unsigned gx, unsigned gy, unsigned shared,
                   const zn_cuda_conv *a)
{
    char name[64];

    snprintf(name, sizeof name, "conv_%s_%s", what, kind);
    zn_cuda_launch(d, name, gx, gy, 1, 256, shared, a);
}

static unsigned blocks(size_t n, size_t each)
{
    return (unsigned)((n + each - 1) / each);
}

static void launch_plain(zn_cuda *d, const char *what, const zn_cuda_conv *a)
{
    size_t n = blocks(zn_pixels(a->y) * (size_t)a->cout, 256);

    launch(d, what, type_name[a->x.type], n < 65536 ? (unsigned)n : 65536, 1, 0, a);
}

/* The shapes of conv_mma.cu. */
static const struct shape {
    int bm, bn;
    bool half_only;
} shapes[] = { { 128, 64, false }, { 64, 64, false }, { 128, 128, false }, { 256, 64, true }, { 256, 16, false } };

enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static void launch_mma(zn_cuda *d, const zn_cuda_conv *a, int i)
{
    const struct shape *s = &shapes[i];
    unsigned stages = 4u * (unsigned)(s->bm + s->bn) * 64, out = (unsigned)s->bm * (unsigned)(s->bn + 4) * 4;
    const char *kind = a->x.type == ZN_F32 ? d->precision == ZN_TF32 ? "tf32" : "f32" : type_name[a->x.type];
    char name[64];

    snprintf(name, sizeof name, "conv_mma_%s_%dx%d", kind, s->bm, s->bn);
    zn_cuda_launch(d, name, blocks(zn_pixels(a->y), (size_t)s->bm), blocks((size_t)a->cout, (size_t)s->bn),
                   1, 256, stages > out ? stages : out, a);
}

static bool shape_fits(const zn_cuda_conv *a, const struct shape *s)
{
    if (s->half_only && a->x.type == ZN_F32)
        return false;
    if (s->bn == 16)
        return a->cout <= 32;
    return a->cout > 16 && a->cout_pad % s->bn == 0;
}

typedef struct trial {
    zn_cuda *d;
    zn_cuda_conv a;
    int way[N_SHAPES], n;
} trial;

static void try_way(void *cookie, int i)
{
    trial *t = cookie;

    launch_mma(t->d, &t->a, t->way[i]);
}

static void conv_tensor_cores(zn_cuda *d, const zn_cuda_conv *a)
{
    trial t = { d, *a, { 0 }, 0 };
    char key[160];
    int best = 0;

    if (zn_cuda_hopper_conv(d, a))
        return;
    for (int i = 0; i < N_SHAPES; i++)
        if (shape_fits(a, &shapes[i]))
            t.way[t.n++] = i;
    /* Trials write to scratch memory: y may be its own residual.  Too large: the first, the usual one. */
    t.a.y.data = (float *)(void *)d->scratch;
    t.a.y.ld = t.a.y.c;
    t.a.tail.residual.data = NULL;
    snprintf(key, sizeof key, "conv %s%s %dx%d/%d%s %d>%d %dx%dx%d>%d", type_name[a->x.type],
             a->x.type == ZN_F32 && d->precision == ZN_TF32 ? " tf32" : "", a->kh, a->kw, a->stride, a->up2 ? " up2" : "",
             a->cin, a->cout, a->y.n, a->y.h, a->y.w, a->y.type);
    if (t.n > 1 && zn_pixels(a->y) * (size_t)a->y.c * zn_type_size(a->y.type) <= ZN_CUDA_SCRATCH)
        best = zn_cuda_best_way(d, key, t.n, try_way, &t);
    launch_mma(d, a, t.way[best]);
}

/* Pixels of x begin at multiples of 16 bytes, and so do channels counted by those. */
static bool in_pieces(const zn_cuda_conv *a)
{
    int each = a->x.type == ZN_F32 ? 4 : 8;

    return a->cin % each == 0 && a->x.ld % each == 0 && ((uintptr_t)a->x.data & 15) == 0;
}

void zn_cuda_conv2d(void *dev, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t)
{
    zn_cuda *d = dev;
    zn_cuda_conv a = zn_cuda_conv_args(w, x.type);

    a.x = x;
    a.y = y;
    a.tail = zn_cuda_tail_of(t);
    if (parts_of(w).depthwise) {
        launch_plain(d, "depthwise", &a);
    } else if (w->groups == 1 && d->cc >= 80 && in_pieces(&a)) {
        conv_tensor_cores(d, &a);
    } else {
        zn_cuda_conv plain = zn_cuda_conv_args(w, ZN_F32);

        a.weight = plain.weight;
        if (w->groups > 1)
            launch_plain(d, "grouped", &a);
        else
            launch(d, "simt", type_name[x.type], blocks(zn_pixels(y), 128), blocks((size_t)w->cout, 64), 0, &a);
    }
}
