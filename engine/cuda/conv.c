/* SPDX-License-Identifier: MIT */
/* conv.c - convolutions on the GPU: packing, and which kernel takes which. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conv_thin.h"
#include "cuda.h"
#include "hopper.h"

/* ---- packing -------------------------------------------------------------------------------------------------- */

/* The parts of zn_conv.packed, see args.h. */
typedef struct parts {
    bool depthwise;
    size_t cin_pad, cout_pad, k_pad;
    size_t w32, w16, wb16, scale8, w8, size; /* offsets in bytes, and the whole; w8 0: none */
} parts;

static size_t up(size_t x, size_t to)
{
    return (x + to - 1) / to * to;
}

/* Where fp8 is worth its roundings, by the layer alone: what a pixel becomes must not depend on the size of a tile.
 * Rows of 128 channels are read whatever of them is there, so little of the last may be missing.  A number of x that is
 * converted beforehand costs 3 bytes of memory traffic, 0.7 ps at 4.5 TB/s, and each of its products gives 1.1 fs back (570 and
 * 830 TFLOP/s).  With 64 channels nothing is gained, and taef2 would lose 0.5 dB. */
static bool fp8_pays(const zn_conv *w)
{
    const int cin = w->cin, products = w->cout * w->kh * w->kw * (w->up2 ? 4 : 1);
    const bool any_size = (w->kh == 3 && w->kw == 3 && w->pad_t == 1 && w->pad_l == 1) ||
        (w->kh == 1 && w->kw == 1 && !w->pad_t && !w->pad_l && !w->up2); /* of a picture: hopper.c */

    return any_size && w->stride == 1 && w->groups == 1 && cin % 16 == 0 && cin >= 128 &&
        6 * cin >= 5 * (int)up((size_t)cin, 128) && w->cout >= 64 && products >= 1024;
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
    if (fp8_pays(w)) {
        p.scale8 = p.size;
        p.w8 = p.scale8 + 256;
        p.size = p.w8 + up(n, 256);
    }
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

/* e4m3, rounded to the nearest, ties to even: 4 bits of exponent (bias 7), 3 of mantissa, 448 at most. */
static uint8_t to_e4m3(float x)
{
    const uint8_t sign = signbit(x) ? 0x80 : 0;
    const float mag = fabsf(x);
    int e;

    if (!(mag < 448))
        return sign | (isnan(x) ? 0x7f : 0x7e);
    e = mag < 0x1p-6f ? -6 : ilogbf(mag); /* below 2^-6 numbers are multiples of 2^-9 */
    return sign | (uint8_t)((e + 6) * 8 + (int)rintf(ldexpf(mag, 3 - e)));
}

/* One scale for the tensor: a power of two, so that it rounds nothing, which puts the largest weight into 224 .. 448. */
static void pack_e4m3(char *host, const zn_conv *w, const parts *p)
{
    const float *w32 = (const float *)(void *)(host + p->w32);
    uint8_t *w8 = (uint8_t *)(host + p->w8);
    const size_t n = (size_t)w->cout * p->k_pad;
    float top = 0;
    int e = 0;

    for (size_t i = 0; i < n; i++)
        top = fmaxf(top, fabsf(w32[i]));
    if (top > 0x1p-100f && isfinite(top))
        e = 8 - ilogbf(top) - (ldexpf(top, 8 - ilogbf(top)) > 448);
    for (size_t i = 0; i < n; i++)
        w8[i] = to_e4m3(w32[i] * ldexpf(1, e));
    *(float *)(void *)(host + p->scale8) = ldexpf(1, -e);
}

void zn_cuda_conv_pack(void *dev, const zn_conv *w, const float *weight, const float *bias)
{
    zn_cuda *d = dev;
    parts p = parts_of(w);
    char *host = calloc(1, p.size);
    float *w32;

    if (!host) {
        zn_cuda_fail(d, ZN_E_MEMORY, "out of memory while packing weights");
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
    if (p.w8 && d->cc == 90)
        pack_e4m3(host, w, &p);
    zn_backend_cuda.upload(dev, w->packed, host, p.size);
    free(host);
}

zn_cuda_conv zn_cuda_conv_args(const zn_conv *w, zn_type type)
{
    parts p = parts_of(w);
    char *packed = w->packed;
    zn_cuda_conv a = { .bias = (const float *)(void *)packed,
                       .weight = packed +
                           (type == ZN_F32       ? p.w32
                                : type == ZN_F16 ? p.w16
                                                 : p.wb16),
                       .kh = w->kh,
                       .kw = w->kw,
                       .stride = w->stride,
                       .groups = w->groups,
                       .cin = w->cin,
                       .cout = w->cout,
                       .pad_t = w->pad_t,
                       .pad_l = w->pad_l,
                       .up2 = w->up2,
                       .cin_pad = (int32_t)p.cin_pad,
                       .cout_pad = (int32_t)p.cout_pad,
                       .k_pad = (int32_t)p.k_pad };

    if (p.depthwise)
        a.weight = packed + p.w32;
    if (p.w8) {
        a.scale8 = (const float *)(void *)(packed + p.scale8);
        a.weight8 = packed + p.w8;
    }
    return a;
}

/* ---- dispatch --------------------------------------------------------------------------------------------------- */

static void launch(zn_cuda *d, const char *what, const char *kind, unsigned gx, unsigned gy, unsigned shared,
                   const zn_cuda_conv *a)
{
    char name[64];

    snprintf(name, sizeof name, "conv_%s_%s", what, kind);
    zn_cuda_launch(d, name, gx, gy, 1, 256, shared, a);
}

static void launch_plain(zn_cuda *d, const char *what, const zn_cuda_conv *a)
{
    size_t n = zn_cuda_blocks(zn_pixels(a->y) * (size_t)a->cout, 256);

    launch(d, what, zn_cuda_type_name(a->x.type), n < 65536 ? (unsigned)n : 65536, 1, 0, a);
}

/* The ways to compute a dense convolution that hopper.c does not take: a kernel of conv_mma.cu or conv_thin.cu and its
 * tile.  The first that fits is the usual one. */
typedef enum family { POINT, FAN, FEW, THIN, MMA } family;

static const struct way {
    family family;
    int bm, bn;
    bool half_only;
} ways[] = {
    { POINT, 0, 0, false },   { FAN, 0, 0, false },    { FEW, 0, 0, true },      { THIN, 64, 64, false },
    { THIN, 128, 64, false }, { THIN, 32, 64, false }, { THIN, 256, 16, false }, { THIN, 32, 16, false },
    { MMA, 128, 64, false },  { MMA, 64, 64, false },  { MMA, 128, 128, false }, { MMA, 256, 64, true },
    { MMA, 256, 16, false },  { MMA, 128, 16, false }, { MMA, 32, 16, false },
};

enum { N_WAYS = sizeof ways / sizeof *ways };

/* Pixels of x begin at multiples of 16 bytes, and so do channels counted by those. */
static bool in_pieces(const zn_cuda_conv *a)
{
    int each = a->x.type == ZN_F32 ? 4 : 8;

    return a->cin % each == 0 && a->x.ld % each == 0 && ((uintptr_t)a->x.data & 15) == 0;
}

/* What conv_thin takes: inputs that cannot be copied in pieces, or so few that most of a piece would be padding. */
static bool is_thin(const zn_cuda_conv *a)
{
    const size_t picture = (size_t)a->x.h * (size_t)a->x.w * (size_t)a->x.ld;

    return (a->cin < 8 || !in_pieces(a)) && picture <= INT32_MAX;
}

/* A network in f16 begins with pictures in float32: conv_thin narrows them as it reads. */
static bool narrows(const zn_cuda_conv *a)
{
    return a->x.type == ZN_F32 && a->y.type == ZN_F16 && is_thin(a);
}

/* Products are as exact as the result's type has use for. */
static const char *kind_of(const zn_cuda *d, const zn_cuda_conv *a)
{
    if (narrows(a))
        return "f32_to_f16";
    if (a->x.type == ZN_F32)
        return d->precision == ZN_TF32 || a->y.type != ZN_F32 ? "tf32" : "f32";
    return zn_cuda_type_name(a->x.type);
}

static unsigned at_most(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* conv_point and conv_fan: products are exact whatever the precision. */
static const char *plain_kind(const zn_cuda *d, const zn_cuda_conv *a)
{
    return a->x.type == ZN_F32 && !narrows(a) ? "f32" : kind_of(d, a);
}

/* zn_cuda_conv.direct */
static bool is_direct(const zn_cuda_conv *a)
{
    const zn_cuda_tail *t = &a->tail;

    return a->cout % 8 == 0 && zn_cuda_aligned(a->y) && zn_cuda_aligned(t->residual) &&
        (t->pre == ZN_NONE || t->pre == ZN_RELU) && (t->post == ZN_NONE || t->post == ZN_RELU);
}

static void launch_thin(zn_cuda *d, const zn_cuda_conv *a, const struct way *s, unsigned tiles, unsigned wide)
{
    const size_t size = a->x.type == ZN_F32 && !narrows(a) ? 4 : 2, k = (size_t)(a->kh * a->kw * a->cin);
    const int row = k * size < ZN_THIN_CHUNK(s->bm) ? (int)up(k * size, 32) : ZN_THIN_CHUNK(s->bm);
    const unsigned resident = (unsigned)d->sms * (s->bm > 64 ? 3 : 4); /* a block takes tile after tile */
    char name[64];

    snprintf(name, sizeof name, "conv_thin_%s_%dx%d", kind_of(d, a), s->bm, s->bn);
    zn_cuda_launch(d, name, at_most(tiles, zn_cuda_blocks(resident, wide)), wide, 1, 256,
                   (unsigned)ZN_THIN_SHARED(s->bm, s->bn, row, a->direct), a);
}

static void launch_mma(zn_cuda *d, const zn_cuda_conv *a, const struct way *s, unsigned tiles, unsigned wide)
{
    const unsigned bm = (unsigned)s->bm, bn = (unsigned)s->bn, split = bm == 32 ? 4 : 1; /* KS of conv_mma.cu */
    const unsigned steps = zn_cuda_blocks((size_t)(a->kh * a->kw * a->cin_pad), 64 * split / zn_type_size(a->x.type));
    const unsigned stages = at_most(steps, 4) * split * (bm + bn) * 64;
    const unsigned out = split == 1 && a->direct ? 0 : split * bm * (bn + 4) * 4;
    char name[64];

    snprintf(name, sizeof name, "conv_mma_%s_%dx%d", kind_of(d, a), s->bm, s->bn);
    zn_cuda_launch(d, name, tiles, wide, 1, 256, stages > out ? stages : out, a);
}

static void launch_way(zn_cuda *d, const zn_cuda_conv *a, const struct way *s)
{
    const size_t pixels = zn_pixels(a->y);
    char name[64];

    if (s->family == POINT) {
        const unsigned outputs = a->cout > 4 ? ZN_POINT_OUT : 4;

        snprintf(name, sizeof name, "conv_point_%s_%u", plain_kind(d, a), outputs);
        zn_cuda_launch(d, name, zn_cuda_blocks(pixels, 256), 1, 1, 256,
                       (unsigned)a->cin * outputs * (unsigned)sizeof(float), a);
    } else if (s->family == FAN) {
        const size_t vectors = up((size_t)a->cout, 8) / 8;

        snprintf(name, sizeof name, "conv_fan_%s", plain_kind(d, a));
        zn_cuda_launch(d, name, zn_cuda_blocks(zn_cuda_blocks(pixels, ZN_FAN_PIXELS) * vectors, 256), 1, 1, 256, 0, a);
    } else if (s->family == FEW) {
        snprintf(name, sizeof name, "conv_few_%s", kind_of(d, a));
        zn_cuda_launch(d, name, zn_cuda_blocks((size_t)a->y.w, ZN_FEW_SIDE),
                       zn_cuda_blocks((size_t)a->y.h, ZN_FEW_SIDE), (unsigned)a->y.n, 256, ZN_FEW_SHARED, a);
    } else {
        const unsigned tiles = zn_cuda_blocks(pixels, (size_t)s->bm);
        const unsigned wide = zn_cuda_blocks((size_t)a->cout, (size_t)s->bn);

        (s->family == THIN ? launch_thin : launch_mma)(d, a, s, tiles, wide);
    }
}

/* The layer alone decides, and tiles of a family differ in speed only: what a pixel becomes does not depend on the size
 * of its picture or tile, to the last bit. */
static family family_of(const zn_cuda_conv *a)
{
    const bool one = zn_cuda_is_point(a);

    if (is_thin(a))
        return one && a->cin <= ZN_FAN_IN && a->cout <= ZN_FAN_OUT ? FAN : THIN;
    if (one && a->cin % 8 == 0 && a->cin <= ZN_POINT_IN && a->cout <= ZN_POINT_OUT)
        return POINT;
    if (a->x.type != ZN_F32 && zn_cuda_is_3x3(a) && !a->up2 && a->cout <= ZN_FEW_MAX && a->y.n <= 65535 &&
        a->y.h <= 65535 * ZN_FEW_SIDE)
        return FEW;
    return MMA;
}

/* Would most of a tile of hopper.c's be padding, and the rest its way in and out? */
static bool too_small_for_hopper(const zn_cuda_conv *a)
{
    return a->cout <= 16 && a->kh * a->kw * a->cin <= 256;
}

/* Is there work for every multiprocessor? */
static bool keeps_busy(const zn_cuda *d, const zn_cuda_conv *a, const struct way *s)
{
    return (size_t)zn_cuda_blocks(zn_pixels(a->y), (size_t)s->bm) * zn_cuda_blocks((size_t)a->cout, (size_t)s->bn) >=
        (size_t)d->sms;
}

/* A stride leaves few pixels: for few outputs of them, warps share k, which adds up in another order. */
static bool shares_k(const zn_cuda_conv *a)
{
    return a->cout <= 16 && a->stride > 1;
}

static bool way_fits(const zn_cuda *d, const zn_cuda_conv *a, const struct way *s)
{
    if (s->family != family_of(a) || (s->half_only && a->x.type == ZN_F32))
        return false;
    if (s->family == THIN)
        return (s->bn == 16) == (a->cout <= 16) && (s->bm == 32 || keeps_busy(d, a, s));
    if (s->family != MMA)
        return true;
    if (shares_k(a) || s->bm == 32)
        return shares_k(a) && s->bm == 32;
    if (s->bn == 16)
        return a->cout <= 32 && (s->bm == 128 || keeps_busy(d, a, s));
    return a->cout > 16 && a->cout_pad % s->bn == 0;
}

typedef struct trial {
    zn_cuda *d;
    zn_cuda_conv a;
    const struct way *way[N_WAYS];
    int n;
} trial;

static void try_way(void *cookie, int i)
{
    trial *t = cookie;

    launch_way(t->d, &t->a, t->way[i]);
}

static void conv_tensor_cores(zn_cuda *d, zn_cuda_conv *a)
{
    a->direct = is_direct(a);

    trial t = { d, *a, { NULL }, 0 };
    char key[160];
    int best = 0;

    if (zn_cuda_hopper_conv8(d, a) || (!too_small_for_hopper(a) && zn_cuda_hopper_conv(d, a)))
        return;
    for (int i = 0; i < N_WAYS; i++)
        if (way_fits(d, a, &ways[i]))
            t.way[t.n++] = &ways[i];
    /* Trials write to scratch memory: y may be its own residual.  Too large: the first, the usual one. */
    t.a.y.data = (float *)(void *)d->scratch;
    t.a.y.ld = t.a.y.c;
    t.a.tail.residual.data = NULL;
    /* The ways that fit, as bits: a choice is a number among them. */
    unsigned fitting = 0;
    for (int i = 0; i < t.n; i++)
        fitting |= 1u << (t.way[i] - ways);
    snprintf(key, sizeof key, "conv %s %dx%d/%d%s %d>%d %dx%dx%d>%d of %x", kind_of(d, a), a->kh, a->kw, a->stride,
             a->up2 ? " up2" : "", a->cin, a->cout, a->y.n, a->y.h, a->y.w, a->y.type, fitting);
    if (t.n > 1 && zn_pixels(a->y) * (size_t)a->y.c * zn_type_size(a->y.type) <= ZN_CUDA_SCRATCH)
        best = zn_cuda_best_way(d, key, t.n, try_way, &t);
    launch_way(d, a, t.way[best]);
}

/* Can the depthwise kernels read and write it in vectors? */
static bool in_vectors(const zn_cuda_conv *a, zn_tensor t)
{
    return !t.data || (t.type == a->x.type && zn_cuda_aligned(t));
}

static void conv_depthwise(zn_cuda *d, const zn_cuda_conv *a)
{
    size_t n = (size_t)a->y.n, h = (size_t)a->y.h, w = (size_t)a->y.w, c = (size_t)a->cout, strips = 1;
    unsigned across = zn_cuda_blocks((w + 1) / 2 * (c / 4), 256), images = a->y.n < 65535 ? (unsigned)a->y.n : 65535;
    char name[64];

    if (c % 8 || !in_vectors(a, a->x) || !in_vectors(a, a->y) || !in_vectors(a, a->tail.residual)) {
        launch_plain(d, "depthwise", a);
    } else if (a->kh == 3 && a->kw == 3 && a->stride == 1 && !a->up2) {
        /* strips of 32 rows; of fewer, 4 at least, where that keeps all multiprocessors busy */
        while (h / strips > 4 && (h / strips > 32 || strips * across * n < 8 * (size_t)d->sms))
            strips *= 2;
        strips = strips < 65535 ? strips : 65535;
        snprintf(name, sizeof name, "conv_depthwise3_%s", zn_cuda_type_name(a->x.type));
        zn_cuda_launch(d, name, across, (unsigned)strips, images, 256, 0, a);
    } else {
        snprintf(name, sizeof name, "conv_depthwise8_%s", zn_cuda_type_name(a->x.type));
        zn_cuda_launch(d, name, zn_cuda_blocks(n * h * ((w + 3) / 4) * (c / 8), 256), 1, 1, 256, 0, a);
    }
}

void zn_cuda_conv2d(void *dev, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t)
{
    zn_cuda *d = dev;
    zn_cuda_conv a = zn_cuda_conv_args(w, x.type);

    a.x = x;
    a.y = y;
    a.tail = zn_cuda_tail_of(t);
    if (parts_of(w).depthwise) {
        conv_depthwise(d, &a);
    } else if (w->groups == 1 && d->cc >= 80 && (in_pieces(&a) || is_thin(&a))) {
        if (narrows(&a))
            a.weight = zn_cuda_conv_args(w, ZN_F16).weight;
        conv_tensor_cores(d, &a);
    } else {
        zn_cuda_conv plain = zn_cuda_conv_args(w, ZN_F32);

        a.weight = plain.weight;
        if (w->groups > 1)
            launch_plain(d, "grouped", &a);
        else
            launch(d, "simt", zn_cuda_type_name(x.type), zn_cuda_blocks(zn_pixels(y), 128),
                   zn_cuda_blocks((size_t)w->cout, 64), 0, &a);
    }
}
