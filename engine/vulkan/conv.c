/* SPDX-License-Identifier: MIT */
/* conv.c - convolutions: how weights are stored, and which kernel computes which layer.
 *
 * What is at zn_conv.packed, each part 256-byte aligned:
 *     float  bias[cout_pad]          zeros if there is none
 *     T      weight[k][cout_pad]     k = (u * kw + v) * cin + c, cin of a group
 * with cout up to a multiple of 16; padding is zeros.  T is fp16 for dense layers of fp16 models, else float32.
 * int8 and int4 (core/quantise.h) keep the order of the file instead, and are expanded to fp16 before each product, or
 * multiplied as they are (integers.c):
 *     T      weight[cout][k_row]     k = c * kh*kw + tap; k_row = k up to a multiple of ZN_W_GROUP
 *     fp16   scale[cout][k_row / ZN_W_GROUP] */
#include <stdlib.h>
#include <string.h>

#include "vulkan.h"

enum { TILE = 64, ANY_THREADS = 128, ALIGN = 256, PAD = 16, FEW = 8, EXPAND_THREADS = 256 };

/* ---- packing -------------------------------------------------------------------------------------------------- */

typedef struct layout {
    zn_type type;   /* that is multiplied */
    zn_wtype wtype; /* int8 or int4: how weights are stored; else F32, which says nothing */
    size_t k, k_row, cout_pad;
    size_t weight, scale, size; /* offsets and size in bytes */
} layout;

static size_t up(size_t x, size_t to)
{
    return (x + to - 1) / to * to;
}

static layout layout_of(const zn_conv *w)
{
    layout l = { .type = w->groups == 1 && w->precision >= ZN_FP16_MATH ? ZN_F16 : ZN_F32 };

    l.k = (size_t)(w->cin / w->groups) * (size_t)w->kh * (size_t)w->kw;
    l.cout_pad = up((size_t)w->cout, PAD);
    l.k_row = up(l.k, ZN_W_GROUP);
    l.weight = up(l.cout_pad * sizeof(float), ALIGN);
    if (zn_wtype_scaled(zn_conv_weights(w))) {
        l.wtype = zn_conv_weights(w);
        l.scale = l.weight + up(zn_wtype_size(l.wtype, (size_t)w->cout * l.k_row), ALIGN);
        l.size = l.scale + up((size_t)w->cout * l.k_row / ZN_W_GROUP * sizeof(uint16_t), ALIGN);
    } else {
        l.size = l.weight + up(l.k * l.cout_pad * zn_type_size(l.type), ALIGN);
    }
    return l;
}

size_t zn_vk_conv_size(void *dev, const zn_conv *w)
{
    (void)dev;
    return layout_of(w).size;
}

/* Room for the weights that are expanded, or for the inputs that are quantised. */
size_t zn_vk_conv_scratch(void *dev, const zn_conv *w)
{
    const layout l = layout_of(w);

    if (zn_vk_conv_inputs(dev, w) == ZN_W_I8)
        return zn_vk_integers_scratch(w);
    return l.wtype ? up(l.k * l.cout_pad * sizeof(uint16_t), ALIGN) : 0;
}

/* int8, int4: output o's weights, in groups that have a scale. */
static void pack_groups(char *host, const layout *l, const float *weight, size_t o)
{
    uint16_t *scale = (uint16_t *)(void *)(host + l->scale);

    for (size_t i = 0; i < l->k; i += ZN_W_GROUP) {
        const size_t at = o * l->k_row + i, n = l->k - i < ZN_W_GROUP ? l->k - i : ZN_W_GROUP;

        scale[at / ZN_W_GROUP] =
            zn_quantise(l->wtype, host + l->weight + zn_wtype_size(l->wtype, at), weight + o * l->k + i, (int)n);
    }
}

/* All other types: output o's weights become a column. */
static void pack_column(char *host, const layout *l, const zn_conv *w, const float *weight, size_t o)
{
    const size_t cin = (size_t)(w->cin / w->groups), taps = (size_t)w->kh * (size_t)w->kw;
    float *single = (float *)(void *)(host + l->weight);
    uint16_t *half = (uint16_t *)(void *)(host + l->weight);

    for (size_t c = 0; c < cin; c++)
        for (size_t t = 0; t < taps; t++) {
            const float v = weight[(o * cin + c) * taps + t];
            const size_t at = (t * cin + c) * l->cout_pad + o;

            if (l->type == ZN_F16)
                half[at] = zn_to_f16(v);
            else
                single[at] = v;
        }
}

/* One layer at a time is in host memory: the bias, and room for the rest.  NULL: the device has failed. */
static char *host_layer(zn_vk *d, const zn_conv *w, const layout *l, const float *bias)
{
    char *host = calloc(1, l->size);

    if (!host)
        zn_vk_fail(d, ZN_E_MEMORY, "out of memory while packing weights");
    else if (bias)
        memcpy(host, bias, (size_t)w->cout * sizeof *bias);
    return host;
}

void zn_vk_conv_pack(void *dev, const zn_conv *w, const float *weight, const float *bias)
{
    zn_vk *d = dev;
    const layout l = layout_of(w);
    char *host = host_layer(d, w, &l, bias);

    for (size_t o = 0; host && o < (size_t)w->cout; o++)
        if (l.wtype)
            pack_groups(host, &l, weight, o);
        else
            pack_column(host, &l, w, weight, o);
    if (host)
        zn_vk_upload(d, w->packed, host, l.size);
    free(host);
}

/* The packed rows are those of quantise.h. */
bool zn_vk_conv_pack_rows(void *dev, const zn_conv *w, const zn_row_source *rows, const float *bias)
{
    zn_vk *d = dev;
    const layout l = layout_of(w);
    const bool takes = l.wtype && w->kh * w->kw == 1 && l.k_row == (size_t)w->cin;
    char *host = takes && rows ? host_layer(d, w, &l, bias) : NULL;

    if (host) {
        rows->read(rows->cookie, 0, w->cout, host + l.weight, (uint16_t *)(void *)(host + l.scale));
        zn_vk_upload(d, w->packed, host, l.size);
    }
    free(host);
    return takes;
}

/* int8, int4 to fp16 [k][cout_pad], in scratch memory: valid until the next call. */
static const void *expand(zn_vk *d, const zn_conv *w, const layout *l)
{
    const size_t n = l->k * l->cout_pad;
    char *packed = w->packed, *to = zn_vk_weights_room(d, n * sizeof(uint16_t));
    const struct {
        uint32_t n, cout, cout_pad, cin, taps, k_row;
    } g = { (uint32_t)(n / 2), (uint32_t)w->cout,         (uint32_t)l->cout_pad,
            (uint32_t)w->cin,  (uint32_t)(w->kh * w->kw), (uint32_t)l->k_row };

    if (to)
        zn_vk_run(d,
                  &(zn_vk_launch){
                      .kernel = "expand",
                      .t = { zn_vk_floats(to), zn_vk_floats(packed + l->weight), zn_vk_floats(packed + l->scale) },
                      .spec = { [2] = l->wtype == ZN_W_I4 },
                      .groups = zn_vk_blocks(n / 2, EXPAND_THREADS),
                      .work = 8 * (double)n,
                      .args = &g,
                      .args_size = sizeof g });
    return to ? to : packed;
}

const float *zn_vk_conv_bias(const zn_conv *w)
{
    return w->packed;
}

static zn_vk_rows rows_of(const zn_conv *w)
{
    const layout l = layout_of(w);
    const char *packed = w->packed;

    return (zn_vk_rows){ zn_vk_conv_bias(w), packed + l.weight, packed + l.scale, l.wtype == ZN_W_I4 };
}

const void *zn_vk_conv_weight(zn_vk *d, const zn_conv *w, zn_type *type, int *cout_pad)
{
    const layout l = layout_of(w);

    *type = l.type;
    *cout_pad = (int)l.cout_pad;
    return l.wtype ? expand(d, w, &l) : (const char *)w->packed + l.weight;
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

/* As in shaders/conv.glsl. */
typedef struct conv_args {
    uint32_t pixels;
    int32_t yh, yw, xh, xw;
    uint32_t y_ld, x_ld, res_ld;
    int32_t cin, cout, cout_pad, group_cout, kh, kw, stride, pad_t, pad_l, k;
    float gain;
} conv_args;

static bool in_eights(zn_tensor t)
{
    return !t.data || (t.type == ZN_F16 && t.ld % 8 == 0 && (uintptr_t)t.data % 16 == 0);
}

/* The constants of shaders/conv_half.comp. */
typedef struct tile {
    int bm, bn, bc, tw, threads, nj;
    bool ahead;
} tile;

static int blocks(int n, int each)
{
    return (n + each - 1) / each;
}

static size_t groups_of(const conv_args *g, const tile *t)
{
    return zn_vk_blocks((size_t)g->yw, (size_t)t->tw) * zn_vk_blocks((size_t)g->yh, (size_t)(t->bm / t->tw)) *
        (g->pixels / (size_t)g->yw / (size_t)g->yh) * (size_t)blocks(g->cout, t->bn);
}

/* Pixels of x under a tile. */
static int pixels_under(const conv_args *g, const tile *t)
{
    return ((t->bm / t->tw - 1) * g->stride + g->kh) * ((t->tw - 1) * g->stride + g->kw);
}

static bool fits(const zn_vk *d, const conv_args *g, const tile *t)
{
    const int x = pixels_under(g, t) * (t->bc / 8 | 1), w = g->kh * g->kw * t->bc * (t->bn / 8 | 1);
    const int sums = d->has.matrices ? t->bm * blocks(t->bn, 64) * 5 : 0;

    return (size_t)(x + w > sums ? x + w : sums) * 16 + (size_t)t->bm * 8 <= d->has.shared;
}

/* Outputs of a workgroup: as few as possible are computed in vain, and of the widths that do this the largest. */
static int width_of(const zn_vk *d, const conv_args *g)
{
    static const int widths[] = { 128, 96, 64, 48, 32, 16, 8 };
    const size_t from = d->has.emulated ? 4 : g->kh * g->kw > 1 ? 2 : 0, to = d->has.matrices ? 6 : 7;
    int best = widths[from];

    for (size_t i = from; i < to; i++)
        if (blocks(g->cout, widths[i]) * widths[i] < blocks(g->cout, best) * best)
            best = widths[i];
    return best;
}

/* Pixels of an invocation that multiplies without matrices, by 8 outputs: fewer for small pictures, to keep a large device
 * busy. */
static int pixels_each(const zn_vk *d, const conv_args *g)
{
    enum { ENOUGH = 32768 }; /* invocations */
    int n = d->tile.threads ? d->tile.threads : 8;

    while (!d->tile.threads && n > 2 && (double)g->pixels * g->cout < 8.0 * n * ENOUGH)
        n /= 2;
    return n;
}

/* False: the kernel has no room for this layer.  The size of the tile may depend on the picture's; bc, on which the order
 * of summation depends, may not. */
static bool choose_tile(const zn_vk *d, const conv_args *g, bool flat, tile *t)
{
    /* workgroups for a large device; pixels; vectors of an invocation; invocations */
    enum { ENOUGH = 256, LEAST = 64, AHEAD = 9, MOST = 256 };
    const int least_bn = d->has.matrices ? 64 : 32; /* that is halved */

    *t = (tile){ .bm = 128, .bn = width_of(d, g), .bc = flat && g->cin > 16 ? 32 : 16 };
    if (!d->has.matrices && g->cin <= 8)
        t->bc = 8;
    if (!d->has.matrices && t->bn <= 32)
        t->bm = 256;
    if (d->tile.bm || d->has.emulated)
        t->bm = d->tile.bm ? d->tile.bm : LEAST;
    for (;;) {
        const bool fit = (t->tw = flat ? t->bm : 16, fits(d, g, t));

        if (fit && groups_of(g, t) >= ENOUGH)
            break;
        if (t->bm > LEAST)
            t->bm /= 2;
        else if (t->bn % least_bn == 0)
            t->bn /= 2;
        else if (fit)
            break;
        else
            return false;
    }
    if (d->has.matrices) {
        t->nj = t->bn > 64 ? t->bn / 32 : t->bn / 16;
        t->threads = (d->tile.threads ? d->tile.threads : d->has.emulated ? 64 : 128) * blocks(t->bn, 64);
    } else {
        t->nj = pixels_each(d, g);
        while (t->nj < 8 && t->bm * t->bn / (8 * t->nj) > MOST)
            t->nj *= 2;
        t->threads = t->bm * t->bn / (8 * t->nj);
    }
    t->ahead = !d->has.soft_half && d->tile.ahead != 2 && pixels_under(g, t) * t->bc <= 8 * AHEAD * t->threads &&
        g->kh * g->kw * t->bc * t->bn <= 8 * AHEAD * t->threads;
    return true;
}

/* The kernel for fp16 weights.  False: not this layer. */
static bool in_half(const zn_vk *d, zn_vk_launch *k, conv_args *g, bool gate, bool norm)
{
    const bool flat =
        g->kh * g->kw * g->stride == 1 && !k->spec[2] && !g->pad_t && !g->pad_l && g->xh == g->yh && g->xw == g->yw;
    tile t;

    if (k->t[3].type != ZN_F16 || g->kh * g->kw > 9 || g->stride > 2 || (norm && !flat))
        return false;
    if (flat) { /* one row */
        g->yw = g->xw = (int32_t)g->pixels;
        g->yh = g->xh = 1;
    }
    if (!choose_tile(d, g, flat, &t))
        return false;
    k->kernel = "conv_half";
    k->variant = zn_vk_variant(d, true);
    memcpy(k->spec + 3,
           (const int32_t[]){ t.threads, t.nj,
                              (in_eights(k->t[0]) && in_eights(k->t[2]) ? 1 : 0) |
                                  (k->t[1].type == ZN_F16 && zn_vk_vectors(k->t[1], 8) ? 2 : 0),
                              gate, norm, t.bm, t.bn, g->kh, g->kw, g->stride, t.bc, t.tw, t.ahead },
           13 * sizeof(int32_t));
    k->groups = groups_of(g, &t);
    return true;
}

/* k's arguments are in g. */
static void prepare(zn_vk *d, zn_vk_launch *k, conv_args *g, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t)
{
    zn_type type;
    int cout_pad;
    const void *weight = zn_vk_conv_weight(d, w, &type, &cout_pad);

    *g = (conv_args){ (uint32_t)zn_pixels(y),
                      y.h,
                      y.w,
                      x.h,
                      x.w,
                      (uint32_t)y.ld,
                      (uint32_t)x.ld,
                      t.residual ? (uint32_t)t.residual->ld : 0,
                      w->cin / w->groups,
                      w->cout,
                      cout_pad,
                      w->cout / w->groups,
                      w->kh,
                      w->kw,
                      w->stride,
                      w->pad_t,
                      w->pad_l,
                      w->cin / w->groups * w->kh * w->kw,
                      zn_vk_gain(t) };
    *k = (zn_vk_launch){ .t = { y, x, t.residual ? *t.residual : (zn_tensor){ 0 }, zn_vk_array(weight, type),
                                zn_vk_floats(zn_vk_conv_bias(w)) },
                         .spec = { t.pre, t.post, w->up2 },
                         .work = (double)zn_pixels(y) * w->cout * (g->k + 16.0),
                         .args = g,
                         .args_size = sizeof *g };
}

void zn_vk_conv2d(void *dev, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t)
{
    zn_vk *d = dev;
    zn_vk_launch k;
    conv_args g;

    if (zn_vk_conv_inputs(d, w) == ZN_W_I8) {
        zn_vk_integers(d, y, x, w, rows_of(w), t);
        return;
    }
    prepare(d, &k, &g, y, x, w, t);
    if (w->groups == 1 && in_half(d, &k, &g, false, false)) {
        zn_vk_run(d, &k);
        return;
    }
    if (w->groups == 1 && w->cout > FEW) {
        k.kernel = "conv_tile";
        k.spec[3] = zn_vk_vectors(x, 4);
        k.groups = zn_vk_blocks(g.pixels, TILE) * zn_vk_blocks((size_t)w->cout, TILE);
    } else {
        k.kernel = "conv_any";
        k.groups = zn_vk_blocks((size_t)g.pixels * (size_t)w->cout, ANY_THREADS);
    }
    zn_vk_run(d, &k);
}

bool zn_vk_conv_fused(zn_vk *d, zn_tensor y, zn_tensor x, const zn_conv *w, float eps, bool gate)
{
    zn_vk_launch k;
    conv_args g;

    prepare(d, &k, &g, y, x, w, (zn_tail){ 0 });
    if (w->groups != 1 || w->kh * w->kw > 1 || x.type != ZN_F16 || !zn_vk_vectors(x, 8) || (gate && w->cout % 16) ||
        !in_half(d, &k, &g, gate, eps >= 0))
        return false;
    memcpy(&g.pad_t, &eps, sizeof eps); /* there is no padding */
    zn_vk_run(d, &k);
    return true;
}
