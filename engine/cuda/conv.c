/* SPDX-License-Identifier: MIT */
/* conv.c - convolutions on the GPU: how weights are stored, and which kernel computes which layer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conv_thin.h"
#include "cuda.h"
#include "hopper.h"

/* ---- packing -------------------------------------------------------------------------------------------------- */

/* The type in which a layer's weights are stored.  There is one copy of them. */
typedef enum storage { S_F32, S_F16, S_BF16, S_E4M3, S_I8, S_I4 } storage;

static const char *const storage_names[] = { "f32", "f16", "bf16", "e4m3", "i8", "i4" }; /* in kernels' names */

/* What is at zn_conv.packed: see zn_cuda_conv in args.h. */
typedef struct layout {
    bool depthwise;
    storage type;
    size_t cin_pad, cout_pad, k_pad;
    size_t k_row;               /* int8, int4: elements of a row in the order of the file */
    size_t weight, scale, size; /* offsets in bytes, and the size of the whole; scale 0: none */
} layout;

static size_t up(size_t x, size_t to)
{
    return (x + to - 1) / to * to;
}

/* Does fp8 make this layer faster?  The layer alone decides: a pixel's value must not depend on the size of a tile.
 * TMA loads rows of 128 channels, so most of the last row must be used.  Converting an element of x beforehand moves 3
 * bytes, which takes 0.7 ps at 4.5 TB/s; each of its products saves 1.1 fs (570 against 830 TFLOP/s).  Layers of 64
 * channels gain nothing, and taef2 would lose 0.5 dB.  Merged taps (many_pixels) have fewer products in fp16. */
static bool fp8_pays(const zn_conv *w)
{
    const int cin = w->cin, products = w->cout * w->kh * w->kw * (w->up2 ? 4 : 1);
    const bool any_size = (w->kh == 3 && w->kw == 3 && w->pad_l == 1) || /* pad_t: 0 in a strip (vae/strips.c) */
        (w->kh == 1 && w->kw == 1 && !w->pad_t && !w->pad_l && !w->up2); /* hopper.c takes these at any image size */

    return any_size && !(w->up2 && w->many_pixels) && w->stride == 1 && w->groups == 1 && cin % 16 == 0 && cin >= 128 &&
        6 * cin >= 5 * (int)up((size_t)cin, 128) && w->cout >= 64 && products >= 1024;
}

/* int8 and int4 have no kernels of their own: weights are expanded to fp16 before each launch.  That moves 5.1 or 4.6 bytes a
 * weight instead of 2: little beside the products of many pixels, but 2.5 times fp16's time where weights are read for
 * one pixel only.
 * Depthwise and grouped kernels, and those below compute capability 8.0, multiply float32 whatever the precision.
 * bf16 layers with fewer than 8 inputs stay float32: such a layer may read a float32 image, with tf32 products, because
 * 8 bits of mantissa are too few for one. */
static storage storage_of(const zn_cuda *d, const zn_conv *w)
{
    if (w->groups > 1 || d->cc < 80)
        return S_F32;
    switch (w->precision) {
    case ZN_FP16_MATH:
        return S_F16;
    case ZN_BF16_MATH:
        return w->cin < 8 ? S_F32 : S_BF16;
    case ZN_FP8_MATH:
        return fp8_pays(w) ? S_E4M3 : S_F16;
    case ZN_INT8_MATH:
    case ZN_INT4_MATH:
        return zn_conv_weights(w) == ZN_W_F32 ? S_F16 : w->precision == ZN_INT8_MATH ? S_I8 : S_I4;
    default:
        return S_F32;
    }
}

static layout layout_of(const zn_cuda *d, const zn_conv *w)
{
    static const size_t bits[] = { 32, 16, 16, 8, 8, 4 }; /* by storage */
    layout l = { .depthwise = w->groups > 1 && w->groups == w->cin && w->cin == w->cout, .type = storage_of(d, w) };
    const size_t taps = (size_t)w->kh * (size_t)w->kw;
    size_t len; /* stored elements */

    l.cin_pad = up((size_t)(w->cin / w->groups), 8);
    l.cout_pad = up((size_t)w->cout, l.depthwise ? 8 : 64);
    l.k_pad = l.depthwise ? taps : up(taps * l.cin_pad, 32);
    l.k_row = up((size_t)(w->cin / w->groups) * taps, ZN_W_GROUP);
    len = l.cout_pad * (l.type >= S_I8 ? l.k_row : l.k_pad);
    l.weight = up(l.cout_pad * sizeof(float), 256);
    l.size = l.weight + up(len * bits[l.type] / 8, 256);
    if (l.type >= S_E4M3) {
        l.scale = l.size;
        l.size += l.type == S_E4M3 ? 256 : up(len / ZN_W_GROUP * sizeof(uint16_t), 256);
    }
    return l;
}

size_t zn_cuda_conv_size(void *dev, const zn_conv *w)
{
    return layout_of(dev, w).size;
}

/* Whether hopper.c merges the taps of this layer, if x is of 16 bits. */
static bool merges(const zn_cuda *d, const zn_conv *w)
{
    return d->cc == 90 && w->many_pixels && w->up2 && w->kh == 3 && w->kw == 3 && w->stride == 1 && w->pad_t == 1 &&
        w->pad_l == 1 && w->groups == 1;
}

/* Room for the weights that are expanded or merged before a kernel.  What kernels use otherwise is allocated when the device is
 * opened and is no part of `capacity`. */
size_t zn_cuda_conv_scratch(void *dev, const zn_conv *w)
{
    const layout l = layout_of(dev, w);
    const size_t expanded = l.type >= S_I8 ? up(l.cout_pad * l.k_pad * sizeof(uint16_t), 256) : 0;

    return expanded + (l.type != S_F32 && merges(dev, w) ? zn_cuda_merged_size(l.cout_pad, l.cin_pad) : 0);
}

/* e4m3, rounded to nearest, ties to even: 4 bits of exponent (bias 7), 3 of mantissa, at most 448. */
static uint8_t to_e4m3(float x)
{
    const uint8_t sign = signbit(x) ? 0x80 : 0;
    const float mag = fabsf(x);
    int e;

    if (!(mag < 448))
        return sign | (isnan(x) ? 0x7f : 0x7e);
    e = mag < 0x1p-6f ? -6 : ilogbf(mag); /* below 2^-6 all values are multiples of 2^-9 */
    return sign | (uint8_t)((e + 6) * 8 + (int)rintf(ldexpf(mag, 3 - e)));
}

/* The exponent e of a tensor's one scale, 2^e: a power of two, which rounds nothing, that puts the largest weight into
 * 224 .. 448. */
static int e4m3_exponent(const float *weight, size_t n)
{
    float top = 0;

    for (size_t i = 0; i < n; i++)
        top = fmaxf(top, fabsf(weight[i]));
    if (!(top > 0x1p-100f) || !isfinite(top))
        return 0;
    return 8 - ilogbf(top) - (ldexpf(top, 8 - ilogbf(top)) > 448);
}

/* What the threads that pack a layer share. */
typedef struct packing {
    const zn_conv *w;
    const layout *l;
    const float *weight;
    char *host;
    float *rows;  /* [workers][k_pad], padding 0 */
    float factor; /* e4m3: of all weights */
} packing;

enum {
    PACK_ROWS = 8,       /* outputs that a thread packs at a time */
    PACK_ALONE = 1 << 15 /* weights of a layer that are not worth a second thread */
};

/* int8, int4: the weights of output o, in groups that have a scale. */
static void pack_groups(const packing *p, size_t o)
{
    const zn_conv *w = p->w;
    const layout *l = p->l;
    const zn_wtype type = l->type == S_I8 ? ZN_W_I8 : ZN_W_I4;
    const size_t k = (size_t)w->cin * (size_t)w->kh * (size_t)w->kw;
    uint16_t *scale = (uint16_t *)(void *)(p->host + l->scale);

    for (size_t i = 0; i < k; i += ZN_W_GROUP) {
        const size_t at = o * l->k_row + i, n = k - i < ZN_W_GROUP ? k - i : ZN_W_GROUP;

        scale[at / ZN_W_GROUP] =
            zn_quantise(type, p->host + l->weight + zn_wtype_size(type, at), p->weight + o * k + i, (int)n);
    }
}

/* Output o's weights in the packed order, k = tap * cin_pad + c.  Padding stays as it is. */
static void gather_row(float *row, const zn_conv *w, const layout *l, const float *weight, size_t o)
{
    const size_t in = (size_t)(w->cin / w->groups), taps = (size_t)w->kh * (size_t)w->kw;

    for (size_t c = 0; c < in; c++)
        for (size_t t = 0; t < taps; t++)
            row[t * l->cin_pad + c] = weight[(o * in + c) * taps + t];
}

/* All other types: the weights of output o.  row: k_pad floats, padding 0. */
static void pack_row(const packing *p, size_t o, float *row)
{
    const size_t k = p->l->k_pad;
    char *to = p->host + p->l->weight;

    gather_row(row, p->w, p->l, p->weight, o);
    for (size_t i = 0; i < k; i++) {
        const size_t at = o * k + i;

        switch (p->l->type) {
        case S_F16:
            ((uint16_t *)(void *)to)[at] = zn_to_f16(row[i]);
            break;
        case S_BF16:
            ((uint16_t *)(void *)to)[at] = zn_to_bf16(row[i]);
            break;
        case S_E4M3:
            ((uint8_t *)to)[at] = to_e4m3(row[i] * p->factor);
            break;
        default:
            ((float *)(void *)to)[at] = row[i];
        }
    }
}

static void pack_block(void *cookie, int item, int worker)
{
    const packing *p = cookie;
    const int last = zn_imin(p->w->cout, (item + 1) * PACK_ROWS);

    for (int o = item * PACK_ROWS; o < last; o++)
        if (p->l->type >= S_I8)
            pack_groups(p, (size_t)o);
        else
            pack_row(p, (size_t)o, p->rows + (size_t)worker * p->l->k_pad);
}

static void pack_depthwise(float *to, const zn_conv *w, const layout *l, const float *weight)
{
    for (size_t t = 0; t < l->k_pad; t++)
        for (size_t c = 0; c < (size_t)w->cout; c++)
            to[t * l->cout_pad + c] = weight[c * l->k_pad + t];
}

/* One layer at a time is in host memory: the bias, and room for the rest.  NULL: the device has failed. */
static char *host_layer(zn_cuda *d, const zn_conv *w, const layout *l, const float *bias)
{
    char *host = calloc(1, l->size);

    if (!host)
        zn_cuda_fail(d, ZN_E_MEMORY, "out of memory while packing weights");
    else if (bias)
        memcpy(host, bias, (size_t)w->cout * sizeof *bias);
    return host;
}

static void send_layer(zn_cuda *d, const zn_conv *w, const layout *l, const char *host)
{
    zn_cuda_upload(d, w->packed, host, l->size);
    if (zn_cuda_conv_scratch(d, w))
        zn_cuda_expanded(d, zn_cuda_conv_scratch(d, w)); /* lack of memory shows now, not in the first run */
}

void zn_cuda_conv_pack(void *dev, const zn_conv *w, const float *weight, const float *bias)
{
    zn_cuda *d = dev;
    const layout l = layout_of(d, w);
    const size_t len = (size_t)w->cout * (size_t)(w->cin / w->groups) * (size_t)w->kh * (size_t)w->kw;
    zn_pool *pool = len > PACK_ALONE ? zn_cuda_packers(d) : NULL;
    packing p = { .w = w, .l = &l, .weight = weight, .host = host_layer(d, w, &l, bias) };

    p.rows = calloc((size_t)(pool ? zn_pool_size(pool) : 1) * l.k_pad, sizeof *p.rows);
    if (!p.rows)
        zn_cuda_fail(d, ZN_E_MEMORY, "out of memory while packing weights");
    if (p.host && p.rows) {
        const int blocks = zn_ceil_div(w->cout, PACK_ROWS);

        if (l.type == S_E4M3) {
            const int e = e4m3_exponent(weight, len);

            p.factor = ldexpf(1, e);
            *(float *)(void *)(p.host + l.scale) = ldexpf(1, -e);
        }
        if (l.depthwise)
            pack_depthwise((float *)(void *)(p.host + l.weight), w, &l, weight);
        else if (pool)
            zn_pool_run(pool, pack_block, &p, blocks);
        else
            for (int i = 0; i < blocks; i++)
                pack_block(&p, i, 0);
        send_layer(d, w, &l, p.host);
    }
    free(p.host);
    free(p.rows);
}

/* The packed rows are those of quantise.h. */
bool zn_cuda_conv_pack_rows(void *dev, const zn_conv *w, const zn_row_source *rows, const float *bias)
{
    zn_cuda *d = dev;
    const layout l = layout_of(d, w);
    const bool takes = l.type >= S_I8 && w->kh * w->kw == 1 && l.k_row == (size_t)w->cin;
    char *host = takes && rows ? host_layer(d, w, &l, bias) : NULL;

    if (host) {
        rows->read(rows->cookie, 0, w->cout, host + l.weight, (uint16_t *)(void *)(host + l.scale));
        send_layer(d, w, &l, host);
    }
    free(host);
    return takes;
}

/* ---- arguments -------------------------------------------------------------------------------------------------- */

static storage storage_as(zn_type type)
{
    return type == ZN_F32 ? S_F32 : type == ZN_F16 ? S_F16 : S_BF16;
}

bool zn_cuda_conv_stored_as(const zn_cuda *d, const zn_conv *w, zn_type type)
{
    return storage_of(d, w) == storage_as(type);
}

size_t zn_cuda_conv_expanded_size(const zn_cuda *d, const zn_conv *w, zn_type type)
{
    const layout l = layout_of(d, w);

    return up(l.cout_pad * l.k_pad * zn_type_size(type), 256);
}

const void *zn_cuda_conv_weight(zn_cuda *d, const zn_conv *w, zn_type type, size_t at)
{
    const layout l = layout_of(d, w);
    char *packed = w->packed, *room;

    if (l.type == storage_as(type))
        return packed + l.weight;
    room = zn_cuda_expanded(d, at + zn_cuda_conv_expanded_size(d, w, type));
    if (!room)
        return packed + l.weight; /* the device has failed: nothing is launched any more */

    const size_t vectors = l.cout_pad * l.k_pad / ZN_CUDA_VECTOR;
    const zn_args_expand g = { .from = packed + l.weight,
                               .scale = packed + l.scale,
                               .to = room + at,
                               .n = vectors,
                               .cin = w->cin,
                               .cin_pad = (int32_t)l.cin_pad,
                               .taps = w->kh * w->kw,
                               .k_pad = (int32_t)l.k_pad,
                               .k_row = (int32_t)l.k_row };

    zn_cuda_launch(d, zn_cuda_kernel("expand_%s_%s", storage_names[l.type], zn_cuda_type_name(type)).text,
                   zn_cuda_blocks(vectors, 256), 1, 1, 256, 0, &g);
    return room + at;
}

zn_cuda_conv zn_cuda_conv_args(const zn_cuda *d, const zn_conv *w)
{
    const layout l = layout_of(d, w);
    char *packed = w->packed;
    zn_cuda_conv a = { .bias = (const float *)(void *)packed,
                       .weight = l.depthwise ? packed + l.weight : NULL,
                       .precision = w->precision,
                       .kh = w->kh,
                       .kw = w->kw,
                       .stride = w->stride,
                       .groups = w->groups,
                       .cin = w->cin,
                       .cout = w->cout,
                       .pad_t = w->pad_t,
                       .pad_l = w->pad_l,
                       .up2 = w->up2,
                       .many_pixels = w->many_pixels,
                       .cin_pad = (int32_t)l.cin_pad,
                       .cout_pad = (int32_t)l.cout_pad,
                       .k_pad = (int32_t)l.k_pad };

    if (l.type == S_E4M3) {
        a.scale8 = (const float *)(void *)(packed + l.scale);
        a.weight8 = packed + l.weight;
    }
    return a;
}

/* ---- dispatch --------------------------------------------------------------------------------------------------- */

static void launch_plain(zn_cuda *d, const char *what, const zn_cuda_conv *a)
{
    size_t n = zn_cuda_blocks(zn_pixels(a->y) * (size_t)a->cout, 256);

    zn_cuda_launch(d, zn_cuda_kernel("conv_%s_%s", what, zn_cuda_type_name(a->x.type)).text,
                   n < 65536 ? (unsigned)n : 65536, 1, 1, 256, 0, a);
}

/* The candidates for a dense convolution that hopper.c does not take: a kernel of conv_mma.cu or conv_thin.cu and its
 * tile.  The first that fits is the default. */
typedef enum family { POINT, FAN, FEW, THIN, MMA } family;

static const struct candidate {
    family family;
    int bm, bn; /* pixels and outputs of a tile */
    bool half_only;
} candidates[] = {
    { POINT, 0, 0, false },   { FAN, 0, 0, false },    { FEW, 0, 0, true },      { THIN, 64, 64, false },
    { THIN, 128, 64, false }, { THIN, 32, 64, false }, { THIN, 256, 16, false }, { THIN, 32, 16, false },
    { MMA, 128, 64, false },  { MMA, 64, 64, false },  { MMA, 128, 128, false }, { MMA, 256, 64, true },
    { MMA, 256, 16, false },  { MMA, 128, 16, false }, { MMA, 32, 16, false },
};

enum { N_CANDIDATES = sizeof candidates / sizeof *candidates };

/* Can x be copied 16 bytes at a time?  Pixels begin at multiples of 16 bytes and have a whole number of such pieces. */
static bool in_pieces(const zn_cuda_conv *a)
{
    int each = a->x.type == ZN_F32 ? 4 : 8;

    return a->cin % each == 0 && a->x.ld % each == 0 && ((uintptr_t)a->x.data & 15) == 0;
}

/* What conv_thin takes: inputs that cannot be copied in pieces, or so few channels that most of a piece would be padding. */
static bool is_thin(const zn_cuda_conv *a)
{
    const size_t image = (size_t)a->x.h * (size_t)a->x.w * (size_t)a->x.ld;

    return (a->cin < 8 || !in_pieces(a)) && image <= INT32_MAX;
}

/* A network in fp16 begins with a float32 image: conv_thin converts it to fp16 as it reads. */
static bool reads_as_f16(const zn_cuda_conv *a)
{
    return a->x.type == ZN_F32 && a->y.type == ZN_F16 && is_thin(a);
}

/* The type of the weights that the kernel reads. */
static zn_type weight_type(const zn_cuda_conv *a)
{
    return reads_as_f16(a) ? ZN_F16 : a->x.type;
}

/* The types in a kernel's name.  float32 inputs are multiplied as tf32 unless the output is float32 too and the model
 * is not tf32: a 16-bit output cannot show more. */
static const char *kind_of(const zn_cuda_conv *a)
{
    if (reads_as_f16(a))
        return "f32_to_f16";
    if (a->x.type == ZN_F32)
        return a->precision == ZN_TF32 || a->y.type != ZN_F32 ? "tf32" : "f32";
    return zn_cuda_type_name(a->x.type);
}

static unsigned at_most(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* conv_point and conv_fan multiply in float32 at every precision. */
static const char *fp32_kind(const zn_cuda_conv *a)
{
    return a->x.type == ZN_F32 && !reads_as_f16(a) ? "f32" : kind_of(a);
}

/* zn_cuda_conv.direct */
static bool is_direct(const zn_cuda_conv *a)
{
    const zn_cuda_tail *t = &a->tail;

    return a->cout % 8 == 0 && zn_cuda_aligned(a->y) && zn_cuda_aligned(t->residual) &&
        (t->pre == ZN_NONE || t->pre == ZN_RELU) && (t->post == ZN_NONE || t->post == ZN_RELU);
}

static void launch_thin(zn_cuda *d, const zn_cuda_conv *a, const struct candidate *s, unsigned tiles, unsigned wide)
{
    const size_t size = zn_type_size(weight_type(a)), k = (size_t)(a->kh * a->kw * a->cin);
    const int row = k * size < ZN_THIN_CHUNK(s->bm) ? (int)up(k * size, 32) : ZN_THIN_CHUNK(s->bm);
    const unsigned resident = (unsigned)d->sms * (s->bm > 64 ? 3 : 4); /* a block computes several tiles */

    zn_cuda_launch(d, zn_cuda_kernel("conv_thin_%s_%dx%d", kind_of(a), s->bm, s->bn).text,
                   at_most(tiles, zn_cuda_blocks(resident, wide)), wide, 1, 256,
                   (unsigned)ZN_THIN_SHARED(s->bm, s->bn, row, a->direct), a);
}

static void launch_mma(zn_cuda *d, const zn_cuda_conv *a, const struct candidate *s, unsigned tiles, unsigned wide)
{
    const unsigned bm = (unsigned)s->bm, bn = (unsigned)s->bn, split = bm == 32 ? 4 : 1; /* KS of conv_mma.cu */
    const unsigned steps = zn_cuda_blocks((size_t)(a->kh * a->kw * a->cin_pad), 64 * split / zn_type_size(a->x.type));
    const unsigned stages = at_most(steps, 4) * split * (bm + bn) * 64;
    const unsigned out = split == 1 && a->direct ? 0 : split * bm * (bn + 4) * 4;

    zn_cuda_launch(d, zn_cuda_kernel("conv_mma_%s_%dx%d", kind_of(a), s->bm, s->bn).text, tiles, wide, 1, 256,
                   stages > out ? stages : out, a);
}

static void launch_candidate(zn_cuda *d, const zn_cuda_conv *a, const struct candidate *s)
{
    const size_t pixels = zn_pixels(a->y);

    if (s->family == POINT) {
        const unsigned outputs = a->cout > 4 ? ZN_POINT_OUT : 4;

        zn_cuda_launch(d, zn_cuda_kernel("conv_point_%s_%u", fp32_kind(a), outputs).text, zn_cuda_blocks(pixels, 256),
                       1, 1, 256, (unsigned)a->cin * outputs * (unsigned)sizeof(float), a);
    } else if (s->family == FAN) {
        const size_t vectors = up((size_t)a->cout, 8) / 8;

        zn_cuda_launch(d, zn_cuda_kernel("conv_fan_%s", fp32_kind(a)).text,
                       zn_cuda_blocks(zn_cuda_blocks(pixels, ZN_FAN_PIXELS) * vectors, 256), 1, 1, 256, 0, a);
    } else if (s->family == FEW) {
        zn_cuda_launch(d, zn_cuda_kernel("conv_few_%s", kind_of(a)).text, zn_cuda_blocks((size_t)a->y.w, ZN_FEW_SIDE),
                       zn_cuda_blocks((size_t)a->y.h, ZN_FEW_SIDE), (unsigned)a->y.n, 256, ZN_FEW_SHARED, a);
    } else {
        const unsigned tiles = zn_cuda_blocks(pixels, (size_t)s->bm);
        const unsigned wide = zn_cuda_blocks((size_t)a->cout, (size_t)s->bn);

        (s->family == THIN ? launch_thin : launch_mma)(d, a, s, tiles, wide);
    }
}

/* The layer alone decides, and the tiles of a family differ in speed only.  So a pixel's value does not depend, to the
 * last bit, on the size of its image or tile. */
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

/* Would most of a tile of hopper.c be padding, and most of its time prologue and epilogue? */
static bool too_small_for_hopper(const zn_cuda_conv *a)
{
    return a->cout <= 16 && a->kh * a->kw * a->cin <= 256;
}

/* Is there work for every multiprocessor? */
static bool keeps_busy(const zn_cuda *d, const zn_cuda_conv *a, const struct candidate *s)
{
    return (size_t)zn_cuda_blocks(zn_pixels(a->y), (size_t)s->bm) * zn_cuda_blocks((size_t)a->cout, (size_t)s->bn) >=
        (size_t)d->sms;
}

/* A stride leaves few pixels.  For few outputs of them, warps split k, which sums in another order. */
static bool splits_k(const zn_cuda_conv *a)
{
    return a->cout <= 16 && a->stride > 1;
}

static bool fits(const zn_cuda *d, const zn_cuda_conv *a, const struct candidate *s)
{
    if (s->family != family_of(a) || (s->half_only && a->x.type == ZN_F32))
        return false;
    if (s->family == THIN)
        return (s->bn == 16) == (a->cout <= 16) && (s->bm == 32 || keeps_busy(d, a, s));
    if (s->family != MMA)
        return true;
    if (splits_k(a) || s->bm == 32)
        return splits_k(a) && s->bm == 32;
    if (s->bn == 16)
        return a->cout <= 32 && (s->bm == 128 || keeps_busy(d, a, s));
    return a->cout > 16 && a->cout_pad % s->bn == 0;
}

typedef struct trial {
    zn_cuda *d;
    zn_cuda_conv a;
    const struct candidate *candidate[N_CANDIDATES];
    int n;
} trial;

static void try_candidate(void *cookie, int i)
{
    trial *t = cookie;

    launch_candidate(t->d, &t->a, t->candidate[i]);
}

/* Room for merged taps, behind weights that are expanded; NULL: they are not merged. */
static char *room_to_merge(zn_cuda *d, const zn_conv *w, const zn_cuda_conv *a)
{
    const zn_type type = weight_type(a);
    const size_t at = zn_cuda_conv_stored_as(d, w, type) ? 0 : zn_cuda_conv_expanded_size(d, w, type);
    const size_t size = zn_cuda_merged_size((size_t)a->cout_pad, (size_t)a->cin_pad);
    char *room = type != ZN_F32 && merges(d, w) ? zn_cuda_expanded(d, at + size) : NULL;

    return room ? room + at : NULL;
}

/* True: a->also was written, too. */
static bool conv_tensor_cores(zn_cuda *d, const zn_conv *w, zn_cuda_conv *a, const zn_tail *tail)
{
    const zn_tensor also = a->also;
    char key[160];
    unsigned fitting = 0; /* the candidates that fit, as bits: a choice is an index into them */
    int best = 0;
    bool both;

    a->direct = is_direct(a);
    a->also.data = NULL;
    if (zn_cuda_hopper_conv8(d, a))
        return false;
    a->merged = room_to_merge(d, w, a);
    a->weight = zn_cuda_conv_weight(d, w, weight_type(a), 0);
    if (zn_cuda_hopper_pixels(d, a, tail, zn_cuda_conv_stored_as(d, w, weight_type(a)), &both))
        return both;
    a->also = also;
    if (!too_small_for_hopper(a) && zn_cuda_hopper_conv(d, a))
        return also.data != NULL;

    trial t = { d, *a, { NULL }, 0 };

    for (int i = 0; i < N_CANDIDATES; i++)
        if (fits(d, a, &candidates[i])) {
            t.candidate[t.n++] = &candidates[i];
            fitting |= 1u << i;
        }
    /* Trials write to scratch memory, because y may be its own residual.  If y does not fit there, the default is used. */
    t.a.y.data = (float *)(void *)d->scratch;
    t.a.y.ld = t.a.y.c;
    t.a.tail.residual.data = NULL;
    snprintf(key, sizeof key, "conv %s %dx%d/%d%s %d>%d %dx%dx%d>%d of %x", kind_of(a), a->kh, a->kw, a->stride,
             a->up2 ? " up2" : "", a->cin, a->cout, a->y.n, a->y.h, a->y.w, a->y.type, fitting);
    if (t.n > 1 && zn_pixels(a->y) * (size_t)a->y.c * zn_type_size(a->y.type) <= ZN_CUDA_SCRATCH)
        best = zn_cuda_tune(d, key, t.n, try_candidate, &t);
    launch_candidate(d, a, t.candidate[best]);
    return false;
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

    if (c % 8 || !in_vectors(a, a->x) || !in_vectors(a, a->y) || !in_vectors(a, a->tail.residual)) {
        launch_plain(d, "depthwise", a);
    } else if (a->kh == 3 && a->kw == 3 && a->stride == 1 && !a->up2) {
        /* strips of 32 rows; of fewer, 4 at least, where that keeps all multiprocessors busy */
        while (h / strips > 4 && (h / strips > 32 || strips * across * n < 8 * (size_t)d->sms))
            strips *= 2;
        strips = strips < 65535 ? strips : 65535;
        zn_cuda_launch(d, zn_cuda_kernel("conv_depthwise3_%s", zn_cuda_type_name(a->x.type)).text, across,
                       (unsigned)strips, images, 256, 0, a);
    } else {
        zn_cuda_launch(d, zn_cuda_kernel("conv_depthwise8_%s", zn_cuda_type_name(a->x.type)).text,
                       zn_cuda_blocks(n * h * ((w + 3) / 4) * (c / 8), 256), 1, 1, 256, 0, a);
    }
}

/* Whether the epilogue of hopper.cu can write t.also. */
static bool also_fits(zn_tensor y, const zn_conv *w, zn_tail t)
{
    return t.also && t.also->data != y.data && !t.also_norm && t.also_act == ZN_RELU && y.type != ZN_F32 &&
        y.c % 8 == 0 && zn_cuda_aligned(*t.also) && !w->up2;
}

void zn_cuda_conv2d(void *dev, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t)
{
    zn_cuda *d = dev;
    zn_cuda_conv a = zn_cuda_conv_args(d, w);
    bool also = false;

    a.x = x;
    a.y = y;
    a.tail = zn_cuda_tail_of(t);
    if (also_fits(y, w, t))
        a.also = *t.also;
    if (a.weight) {
        conv_depthwise(d, &a);
    } else if (w->groups == 1 && d->cc >= 80 && (in_pieces(&a) || is_thin(&a))) {
        also = conv_tensor_cores(d, w, &a, &t);
    } else {
        a.weight = zn_cuda_conv_weight(d, w, ZN_F32, 0);
        if (w->groups > 1)
            launch_plain(d, "grouped", &a);
        else
            zn_cuda_launch(d, zn_cuda_kernel("conv_simt_%s", zn_cuda_type_name(x.type)).text,
                           zn_cuda_blocks(zn_pixels(y), 128), zn_cuda_blocks((size_t)w->cout, 64), 1, 256, 0, &a);
    }
    if (t.also && !also && t.also_norm)
        zn_cuda_norm(d, *t.also, y, t.also_norm, NULL, (zn_tail){ .pre = t.also_act });
    else if (t.also && !also)
        zn_cuda_map(d, *t.also, y, (zn_tail){ .pre = t.also_act });
}
