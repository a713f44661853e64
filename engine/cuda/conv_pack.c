/* SPDX-License-Identifier: MIT */
/* conv_pack.c - the weights of convolutions on the GPU: how they are stored, packed and handed to kernels. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "hopper.h"

/* ---- packing -------------------------------------------------------------------------------------------------- */

/* The type in which a layer's weights are stored.  There is one copy of them. */
typedef enum storage { S_F32, S_F16, S_BF16, S_E4M3, S_S8, S_I8, S_I4 } storage; /* s8: int8 with a scale a row */

static const char *const storage_names[] = { "f32", "f16", "bf16", "e4m3", "s8", "i8", "i4" }; /* in kernels' names */

/* What is at zn_conv.packed: see zn_cuda_conv in args.h. */
typedef struct layout {
    bool depthwise;
    storage type;
    size_t cin_pad, cout_pad, k_pad;
    size_t k_row;               /* int8, int4: elements of a row in the order of the file */
    size_t weight, scale, size; /* offsets in bytes, and the size of the whole; scale 0: none */
} layout;

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
        6 * cin >= 5 * (int)zn_cuda_up((size_t)cin, 128) && w->cout >= 64 && products >= 1024;
}

/* Does hopper_linear.cu multiply integers?  Its epilogue has scales or a bias. */
static bool s8_fits(const zn_cuda *d, const zn_conv *w)
{
    return d->cc == 90 && w->row_scales && w->kh * w->kw == 1 && w->stride == 1 && !w->has_bias && !w->up2 &&
        !w->pad_t && !w->pad_l && w->cin % 128 == 0 && w->cin <= ZN_HOPPER_ROW && w->cout % 8 == 0 && w->cout >= 64;
}

/* Other int8 and int4 layers have no kernels of their own: weights are expanded to fp16 before each launch.  That moves 5.1 or 4.6 bytes a
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
        return fp8_pays(w) && (d->cc == 90 || w->kh * w->kw == 1) ? S_E4M3 : S_F16; /* conv8 of conv.c: 1x1 alone */
    case ZN_INT8_MATH:
        if (s8_fits(d, w))
            return S_S8;
        /* fall through */
    case ZN_INT4_MATH:
        return zn_conv_weights(w) == ZN_W_F32 ? S_F16 : w->precision == ZN_INT8_MATH ? S_I8 : S_I4;
    default:
        return S_F32;
    }
}

static layout layout_of(const zn_cuda *d, const zn_conv *w)
{
    static const size_t bits[] = { 32, 16, 16, 8, 8, 8, 4 }; /* by storage */
    layout l = { .depthwise = w->groups > 1 && w->groups == w->cin && w->cin == w->cout, .type = storage_of(d, w) };
    const size_t taps = (size_t)w->kh * (size_t)w->kw;
    size_t len; /* stored elements */

    l.cin_pad = zn_cuda_up((size_t)(w->cin / w->groups), 8);
    l.cout_pad = zn_cuda_up((size_t)w->cout, l.depthwise ? 8 : 64);
    l.k_pad = l.depthwise ? taps : zn_cuda_up(taps * l.cin_pad, 32);
    l.k_row = zn_cuda_up((size_t)(w->cin / w->groups) * taps, ZN_W_GROUP);
    len = l.cout_pad * (l.type >= S_I8 ? l.k_row : l.k_pad);
    l.weight = zn_cuda_up(l.cout_pad * sizeof(float), 256);
    l.size = l.weight + zn_cuda_up(len * bits[l.type] / 8, 256);
    if (l.type >= S_E4M3) {
        l.scale = l.size;
        l.size += zn_cuda_up(l.type < S_I8 ? l.cout_pad * sizeof(float) : len / ZN_W_GROUP * sizeof(uint16_t), 256);
    }
    return l;
}

size_t zn_cuda_conv_size(void *dev, const zn_conv *w)
{
    return layout_of(dev, w).size;
}

bool zn_cuda_conv_merges(const zn_cuda *d, const zn_conv *w)
{
    return d->cc == 90 && w->many_pixels && w->up2 && w->kh == 3 && w->kw == 3 && w->stride == 1 && w->pad_t == 1 &&
        w->pad_l == 1 && w->groups == 1;
}

/* Room for the weights that are expanded or merged before a kernel.  What kernels use otherwise is allocated when the device is
 * opened and is no part of `capacity`. */
size_t zn_cuda_conv_scratch(void *dev, const zn_conv *w)
{
    const layout l = layout_of(dev, w);
    const size_t expanded = l.type >= S_I8
        ? zn_cuda_up(l.cout_pad * l.k_pad * sizeof(uint16_t), 256) * (w->quantised_x ? 2 : 1)
        : 0; /* of a transformer's layers two at once (zn_cuda_glu) */

    return expanded + (l.type != S_F32 && zn_cuda_conv_merges(dev, w) ? zn_cuda_merged_size(l.cout_pad, l.cin_pad) : 0);
}

/* What the threads that pack a layer share. */
typedef struct packing {
    const zn_conv *w;
    const layout *l;
    const float *weight;
    const zn_row_source *source; /* instead of weight */
    char *host;
    float *rows;  /* [workers][k_pad], padding 0 */
    zn_type as;   /* of a piece that goes to the device to be packed there */
    int from, to; /* its outputs */
} packing;

enum {
    PACK_ROWS = 8,              /* outputs that a thread packs at a time */
    PACK_ALONE = 1 << 15,       /* weights of a layer that are not worth a second thread */
    PIECE = ZN_CUDA_SCRATCH / 2 /* bytes that go to the device to be packed: the next ones are read meanwhile */
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

/* e4m3: */
static void pack_e4m3(const packing *p, size_t o, const float *row)
{
    const size_t k = p->l->k_pad;
    const int e = zn_e4m3_exponent(row, k);
    const float factor = ldexpf(1, -e);
    uint8_t *to = (uint8_t *)p->host + p->l->weight + o * k;

    ((float *)(void *)(p->host + p->l->scale))[o] = ldexpf(1, e);
    for (size_t i = 0; i < k; i++)
        to[i] = zn_to_e4m3(row[i] * factor);
}

/* s8: likewise.  The lowest byte of 1.5 * 2^23 + v is v, rounded: compilers vectorise it. */
static void pack_s8(const packing *p, size_t o, const float *row)
{
    const size_t k = p->l->k_pad;
    uint8_t *to = (uint8_t *)p->host + p->l->weight + o * k;
    float most = 0, factor;

    for (size_t i = 0; i < k; i++)
        most = fabsf(row[i]) > most ? fabsf(row[i]) : most;
    most = most > 1e-30f ? most : 127;
    factor = 127 / most;
    ((float *)(void *)(p->host + p->l->scale))[o] = most / 127;
    for (size_t i = 0; i < k; i++) {
        const float v = row[i] * factor + 12582912.f;
        uint32_t bits;

        memcpy(&bits, &v, sizeof bits);
        to[i] = (uint8_t)bits;
    }
}

/* A row of k_pad floats, with its scale. */
static void pack_8(const packing *p, size_t o, const float *row)
{
    if (p->l->type == S_E4M3)
        pack_e4m3(p, o, row);
    else
        pack_s8(p, o, row);
}

/* All other types: the weights of output o.  row: k_pad floats, padding 0. */
static void pack_row(const packing *p, size_t o, float *row)
{
    const size_t k = p->l->k_pad;
    char *to = p->host + p->l->weight;

    gather_row(row, p->w, p->l, p->weight, o);
    if (p->l->type == S_E4M3 || p->l->type == S_S8) {
        pack_8(p, o, row);
        return;
    }
    for (size_t i = 0; i < k; i++) {
        const size_t at = o * k + i;

        switch (p->l->type) {
        case S_F16:
            ((uint16_t *)(void *)to)[at] = zn_to_f16(row[i]);
            break;
        case S_BF16:
            ((uint16_t *)(void *)to)[at] = zn_to_bf16(row[i]);
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

/* n outputs */
static void run_blocks(zn_pool *pool, zn_task *task, packing *p, int n)
{
    if (pool)
        zn_pool_run(pool, task, p, zn_ceil_div(n, PACK_ROWS));
    else
        for (int i = 0; i < zn_ceil_div(n, PACK_ROWS); i++)
            task(p, i, 0);
}

static void pack_depthwise(float *to, const zn_conv *w, const layout *l, const float *weight)
{
    for (size_t t = 0; t < l->k_pad; t++)
        for (size_t c = 0; c < (size_t)w->cout; c++)
            to[t * l->cout_pad + c] = weight[c * l->k_pad + t];
}

/* Lack of memory shows now, not in the first run. */
static void reserve_scratch(zn_cuda *d, const zn_conv *w)
{
    if (zn_cuda_conv_scratch(d, w))
        zn_cuda_expanded(d, zn_cuda_conv_scratch(d, w));
}

bool zn_cuda_conv_pack_here(void *dev, const zn_conv *w, const float *weight, const float *bias, void *here)
{
    zn_cuda *d = dev;
    const layout l = layout_of(d, w);
    const size_t len = (size_t)w->cout * (size_t)(w->cin / w->groups) * (size_t)w->kh * (size_t)w->kw;
    zn_pool *pool = len > PACK_ALONE ? zn_cuda_packers(d) : NULL;
    packing p = { .w = w, .l = &l, .weight = weight, .host = here };

    p.rows = calloc((size_t)(pool ? zn_pool_size(pool) : 1) * l.k_pad, sizeof *p.rows);
    if (!p.rows)
        return false;
    if (bias)
        memcpy(p.host, bias, (size_t)w->cout * sizeof *bias);
    if (l.depthwise)
        pack_depthwise((float *)(void *)(p.host + l.weight), w, &l, weight);
    else
        run_blocks(pool, pack_block, &p, w->cout);
    free(p.rows);
    return true;
}

/* One layer at a time is in host memory. */
void zn_cuda_conv_pack(void *dev, const zn_conv *w, const float *weight, const float *bias)
{
    zn_cuda *d = dev;
    const size_t size = layout_of(d, w).size;
    void *host = weight ? calloc(1, size) : NULL;

    if (weight && (!host || !zn_cuda_conv_pack_here(d, w, weight, bias, host)))
        zn_cuda_fail(d, ZN_E_MEMORY, "out of memory while packing weights");
    else if (weight)
        zn_cuda_upload(d, w->packed, host, size);
    reserve_scratch(d, w);
    free(host);
}

/* Whether rows are read as they are needed: those of quantise.h, and of 16 bits or e4m3 in a transformer's large layers. */
static bool takes_rows(const zn_conv *w, const layout *l)
{
    const bool large = (size_t)w->cin * (size_t)w->cout >= (size_t)1 << 20;

    if (w->kh * w->kw != 1 || (size_t)w->cin > PIECE / (PACK_ROWS * sizeof(float)))
        return false;
    return l->type >= S_I8 ? l->k_row == (size_t)w->cin
                           : l->type != S_F32 && w->quantised_x && large && l->k_pad == (size_t)w->cin;
}

/* Threads share a layer's outputs: a block of them is read straight into pinned memory. */
static void read_block(void *cookie, int item, int worker)
{
    const packing *p = cookie;
    const layout *l = p->l;
    const int first = item * PACK_ROWS, n = zn_imin(p->w->cout - first, PACK_ROWS);
    const size_t at = (size_t)first * (l->type >= S_I8 ? l->k_row : l->k_pad);
    char *to = p->host + l->weight;

    (void)worker;
    if (l->type >= S_I8) {
        p->source->read(p->source->cookie, first, n, to + zn_wtype_size(l->type == S_I8 ? ZN_W_I8 : ZN_W_I4, at),
                        (uint16_t *)(void *)(p->host + l->scale) + at / ZN_W_GROUP);
    } else {
        p->source->read_as(p->source->cookie, l->type == S_F16 ? ZN_F16 : ZN_BF16, first, n, to + at * 2);
    }
}

/* ---- packing on the device ---------------------------------------------------------------------------------------- */

/* Whether a kernel makes a layer's stored weights of rows as the file has them: 8 bits with a scale a row always, groups of those that
 * have none in the file. */
static bool packs_there(const layout *l, const zn_row_source *rows)
{
    const bool plain = rows->stored == ZN_F32 || rows->stored == ZN_F16 || rows->stored == ZN_BF16;

    return l->type >= S_E4M3 && (plain || l->type < S_I8);
}

static void read_piece(void *cookie, int item, int worker)
{
    const packing *p = cookie;
    const int first = item * PACK_ROWS, n = zn_imin(p->to - p->from - first, PACK_ROWS);

    (void)worker;
    p->source->read_as(p->source->cookie, p->as, p->from + first, n,
                       p->host + (size_t)first * (size_t)p->w->cin * zn_type_size(p->as));
}

static void pack_there(zn_cuda *d, packing *p, zn_pool *pool)
{
    const layout *l = p->l;
    const bool plain = p->source->stored == ZN_F16 || p->source->stored == ZN_BF16;
    const size_t k = (size_t)p->w->cin, bits = l->type == S_I4 ? 4 : 8;
    char *packed = p->w->packed;

    p->as = plain ? p->source->stored : ZN_F32;
    const size_t row = k * zn_type_size(p->as);
    const int each = (int)(PIECE / row) / PACK_ROWS * PACK_ROWS;

    for (p->from = 0; p->from < p->w->cout; p->from = p->to) {
        const size_t first = (size_t)p->from;
        unsigned blocks;

        p->to = zn_imin(p->from + each, p->w->cout);
        if (!(p->host = zn_cuda_pinned(d, PIECE)))
            return;
        run_blocks(pool, read_piece, p, p->to - p->from);
        zn_cuda_send_pinned(d, d->scratch, (size_t)(p->to - p->from) * row);
        blocks = (unsigned)((p->to == p->w->cout ? l->cout_pad : (size_t)p->to) - first);
        zn_cuda_launch(
            d, zn_cuda_kernel("pack_%s_%s", zn_cuda_type_name(p->as), storage_names[l->type]).text, blocks, 1, 1, 256,
            0,
            &(zn_args_pack){ .from = d->scratch,
                             .bias = (float *)(void *)packed + first,
                             .to = packed + l->weight + first * k * bits / 8,
                             .scale = packed + l->scale +
                                 (l->type < S_I8 ? first * sizeof(float) : first * k / ZN_W_GROUP * sizeof(uint16_t)),
                             .rows = p->to - p->from,
                             .k = (int32_t)k });
    }
}

/* The same for a layer that is stored as the file has it, or can be read so: it goes there at once. */
static void send_rows(zn_cuda *d, packing *p, zn_pool *pool, const float *bias)
{
    const layout *l = p->l;
    const size_t cout = (size_t)p->w->cout;

    if (!(p->host = zn_cuda_pinned(d, l->size)))
        return;
    memset(p->host, 0, l->weight);
    if (bias)
        memcpy(p->host, bias, cout * sizeof *bias);
    if (cout < l->cout_pad) /* the rest is padding */
        memset(p->host + l->weight, 0, l->size - l->weight);
    run_blocks(pool, read_block, p, p->w->cout);
    zn_cuda_send_pinned(d, p->w->packed, l->size);
}

bool zn_cuda_conv_pack_rows(void *dev, const zn_conv *w, const zn_row_source *rows, const float *bias)
{
    zn_cuda *d = dev;
    const layout l = layout_of(d, w);
    zn_pool *pool = rows ? zn_cuda_packers(d) : NULL;
    packing p = { .w = w, .l = &l, .source = rows };

    if (!takes_rows(w, &l) || !rows)
        return takes_rows(w, &l);
    if (packs_there(&l, rows)) {
        pack_there(d, &p, pool);
        if (bias)
            zn_cuda_upload(d, w->packed, bias, (size_t)w->cout * sizeof *bias);
    } else {
        send_rows(d, &p, pool, bias);
    }
    reserve_scratch(d, w);
    return true;
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

    return zn_cuda_up(l.cout_pad * l.k_pad * zn_type_size(type), 256);
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

    if (l.type == S_E4M3 || l.type == S_S8) {
        a.integers = l.type == S_S8;
        a.scale8 = (const float *)(void *)(packed + l.scale);
        a.weight8 = packed + l.weight;
    }
    return a;
}
