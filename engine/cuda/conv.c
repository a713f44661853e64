/* SPDX-License-Identifier: MIT */
/* conv.c - convolutions on the GPU: which kernel computes which layer. */
#include <stdio.h>

#include "conv_thin.h"
#include "cuda.h"
#include "hopper.h"

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
    const int row = k * size < ZN_THIN_CHUNK(s->bm) ? (int)zn_cuda_up(k * size, 32) : ZN_THIN_CHUNK(s->bm);
    const unsigned resident = (unsigned)d->sms * (s->bm > 64 ? 3 : 4); /* a block computes several tiles */

    zn_cuda_launch(d, zn_cuda_kernel("conv_thin_%s_%dx%d", kind_of(a), s->bm, s->bn).text,
                   at_most(tiles, zn_cuda_blocks(resident, wide)), wide, 1, 256,
                   (unsigned)ZN_THIN_SHARED(s->bm, s->bn, row, a->direct), a);
}

/* All tiles of pixels, by as many launches as it takes; `wide` tiles of outputs each. */
static void launch_tiles(zn_cuda *d, const char *kernel, zn_cuda_conv a, unsigned tiles, unsigned wide, int pixels,
                         unsigned shared)
{
    const unsigned each = zn_cuda_tiles_at_once(d, (double)pixels * a.cout * a.kh * a.kw * a.cin);

    for (unsigned from = 0; from < tiles; from += each) {
        a.from_tile = (int32_t)from;
        zn_cuda_launch(d, kernel, at_most(tiles - from, each), wide, 1, 256, shared, &a);
    }
}

static void launch_mma(zn_cuda *d, const zn_cuda_conv *a, const struct candidate *s, unsigned tiles, unsigned wide)
{
    const unsigned bm = (unsigned)s->bm, bn = (unsigned)s->bn, split = bm == 32 ? 4 : 1; /* KS of conv_mma.cu */
    const unsigned steps = zn_cuda_blocks((size_t)(a->kh * a->kw * a->cin_pad), 64 * split / zn_type_size(a->x.type));
    const unsigned stages = at_most(steps, 4) * split * (bm + bn) * 64;
    const unsigned out = split == 1 && a->direct ? 0 : split * bm * (bn + 4) * 4;

    launch_tiles(d, zn_cuda_kernel("conv_mma_%s_%dx%d", kind_of(a), s->bm, s->bn).text, *a, tiles, wide, s->bm,
                 stages > out ? stages : out);
}

static void launch_candidate(zn_cuda *d, const zn_cuda_conv *a, const struct candidate *s)
{
    const size_t pixels = zn_pixels(a->y);

    if (s->family == POINT) {
        const unsigned outputs = a->cout > 4 ? ZN_POINT_OUT : 4;

        zn_cuda_launch(d, zn_cuda_kernel("conv_point_%s_%u", fp32_kind(a), outputs).text, zn_cuda_blocks(pixels, 256),
                       1, 1, 256, (unsigned)a->cin * outputs * (unsigned)sizeof(float), a);
    } else if (s->family == FAN) {
        const size_t vectors = zn_cuda_up((size_t)a->cout, 8) / 8;

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
    char *room = type != ZN_F32 && zn_cuda_conv_merges(d, w) ? zn_cuda_expanded(d, at + size) : NULL;

    return room ? room + at : NULL;
}

/* ---- e4m3 without wgmma ------------------------------------------------------------------------------------------- */

/* n pixels of a 1x1 layer from `first` on; x is converted in scratch memory.  Sums have one order for all tiles. */
static void conv8_pixels(zn_cuda *d, zn_cuda_conv a, size_t first, size_t n)
{
    const zn_args_quantise8 q = { .x = zn_cuda_from(a.x, first).data,
                                  .y = d->scratch,
                                  .scale = (float *)(void *)(d->scratch + zn_cuda_up(n * (size_t)a.cin, 256)),
                                  .pixels = n,
                                  .ld = a.x.ld,
                                  .c = a.cin };
    const int bn = a.cout_pad % 128 ? 64 : 128;
    const bool few = zn_cuda_blocks(n, 128) * (size_t)(a.cout_pad / bn) < (size_t)d->sms;
    const int bm = few ? 64 : 128, wide = few ? 64 : bn;
    const int stages = 4 * (bm + wide) * 64, out = a.direct ? 0 : bm * (wide + 4) * 4; /* as launch_mma */

    zn_cuda_launch(d, "quantise_e4m3", zn_cuda_blocks(n, 8), 1, 1, 256, 0, &q);
    a.weight = a.weight8;
    a.scale_x = q.scale;
    a.x.data = (float *)(void *)d->scratch;
    a.x.ld = a.cin;
    a.y = zn_cuda_from(a.y, first);
    a.tail.residual = zn_cuda_from(a.tail.residual, first);
    a.x.n = a.y.n = a.x.w = a.y.w = 1;
    a.x.h = a.y.h = (int32_t)n;
    launch_tiles(d, zn_cuda_kernel("conv_mma_e4m3_%dx%d", bm, wide).text, a, zn_cuda_blocks(n, (size_t)bm),
                 (unsigned)(a.cout_pad / wide), bm, (unsigned)zn_imax(stages, out));
}

/* Products of e4m3 by mma.sync, if the layer's weights are stored so: as many pixels at a time as scratch memory holds. */
static bool conv8(zn_cuda *d, const zn_cuda_conv *a)
{
    const size_t pixels = zn_pixels(a->x), room = (ZN_CUDA_SCRATCH - 4096) / ((size_t)a->cin + sizeof(float));

    if (!a->weight8 || a->integers || d->cc < 89 || a->x.type != ZN_F16 || !zn_cuda_is_point(a) || !in_pieces(a))
        return false;
    for (size_t first = 0, n; first < pixels; first += n) {
        n = pixels - first < room ? pixels - first : room;
        conv8_pixels(d, *a, first, n);
    }
    return true;
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
    if (zn_cuda_hopper_conv8(d, a) || conv8(d, a))
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
            launch_tiles(d, zn_cuda_kernel("conv_simt_%s", zn_cuda_type_name(x.type)).text, a,
                         zn_cuda_blocks(zn_pixels(y), 128), zn_cuda_blocks((size_t)w->cout, 64), 128, 0);
    }
    if (t.also && !also && t.also_norm)
        zn_cuda_norm(d, *t.also, y, t.also_norm, NULL, (zn_tail){ .pre = t.also_act });
    else if (t.also && !also)
        zn_cuda_map(d, *t.also, y, (zn_tail){ .pre = t.also_act });
}
