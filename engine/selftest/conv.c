/* SPDX-License-Identifier: MIT */
/* conv.c - the self-test of convolutions. */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Winograd mixes the pixels of a tile, with factors: its error is measured against the largest `mag`
 * of the tensor, and its transforms count for this many more terms. */
enum { WINOGRAD_TERMS = 64 };

/* x as a product of integers reads it. */
static zn_tensor quantised(zn_tensor x)
{
    const size_t len = zn_pixels(x) * (size_t)x.ld;
    float *to = zn_take(len, sizeof *to);

    for (size_t p = 0; p < zn_pixels(x); p++)
        for (int c = 0; c < x.c; c += ZN_W_GROUP) {
            const size_t at = p * (size_t)x.ld + (size_t)c;
            const int n = x.c - c < ZN_W_GROUP ? x.c - c : ZN_W_GROUP;
            int8_t q[ZN_W_GROUP];
            const float scale = zn_quantise_input(q, x.data + at, n);

            for (int i = 0; i < n; i++)
                to[at + (size_t)i] = (float)q[i] * scale;
        }
    x.data = to;
    return x;
}

/* weight [cout][cin][kh][kw] as double [kh][kw][cin][cout], malloced; cin: of a group. */
static double *taps_first(const zn_conv *w, const float *weight, int cin)
{
    const int taps = w->kh * w->kw;
    double *to = zn_take((size_t)(taps * cin) * (size_t)w->cout, sizeof *to);

    for (int o = 0; o < w->cout; o++)
        for (int c = 0; c < cin; c++)
            for (int t = 0; t < taps; t++)
                to[((size_t)t * (size_t)cin + (size_t)c) * (size_t)w->cout + (size_t)o] =
                    weight[(o * cin + c) * taps + t];
    return to;
}

/* sum += x w and mag += |x w|, n outputs */
ZN_UNCHECKED static void add_products(double *restrict sum, double *restrict mag, double x, const double *w, int n)
{
    for (int o = 0; o < n; o++) {
        const double p = x * w[o];

        sum[o] += p;
        mag[o] += fabs(p);
    }
}

/* Pixel (i, j) of y in image n.  weight: see taps_first. */
static void formula_pixel(zn_case *k, const zn_conv *w, zn_tensor x, const double *weight, int n, int i, int j)
{
    const int cin = w->cin / w->groups, each = w->cout / w->groups, up = w->up2 ? 2 : 1;
    const size_t first = dense_index(k->y, n, i, j, 0);

    for (int o = 0; o < w->cout; o++) {
        k->want[first + (size_t)o] = k->bias ? k->bias[o] : 0;
        k->mag[first + (size_t)o] = fabs(k->want[first + (size_t)o]);
    }
    for (int t = 0; t < w->kh * w->kw; t++) {
        const int yy = i * w->stride + t / w->kw - w->pad_t, xx = j * w->stride + t % w->kw - w->pad_l;

        if (yy < 0 || xx < 0 || yy >= x.h * up || xx >= x.w * up)
            continue;
        for (int c = 0; c < cin; c++)
            for (int g = 0; g < w->groups; g++)
                add_products(k->want + first + g * each, k->mag + first + g * each,
                             at(x, n, yy / up, xx / up, g * cin + c),
                             weight + (size_t)(t * cin + c) * (size_t)w->cout + g * each, each);
    }
}

static void formula_conv(zn_case *k, const zn_conv *w, bool integers)
{
    zn_tensor y = k->y, x = integers ? quantised(k->in[0]) : k->in[0];
    const int cin = w->cin / w->groups;
    double *weight = taps_first(w, k->weight, cin), top = 0;

    for (int n = 0; n < y.n; n++)
        for (int i = 0; i < y.h; i++)
            for (int j = 0; j < y.w; j++)
                formula_pixel(k, w, x, weight, n, i, j);
    for (size_t i = 0; i < zn_pixels(y) * (size_t)y.c; i++)
        top = fmax(top, k->mag[i]);
    free(weight);
    if (integers)
        free(x.data);
    k->terms = 2 + w->kh * w->kw * cin;
    if (w->kh == 3 && w->kw == 3 && w->stride <= 2 && w->groups == 1) {
        k->terms += WINOGRAD_TERMS;
        for (size_t i = 0; i < zn_pixels(y) * (size_t)y.c; i++)
            k->mag[i] = top;
    }
}

/* zn_row_source.read of a case's weights. */
static void read_rows(void *cookie, int first, int n, void *q, uint16_t *scale)
{
    const zn_case *k = cookie;
    const zn_conv *w = k->arg;
    const zn_wtype t = zn_conv_weights(w);
    uint8_t *to = q;

    for (int i = 0; i < n * w->cin; i += ZN_W_GROUP, to += zn_wtype_size(t, ZN_W_GROUP))
        *scale++ = zn_quantise(t, to, k->weight + (size_t)first * (size_t)w->cin + (size_t)i, ZN_W_GROUP);
}

static void read_rows_as(void *cookie, zn_type type, int first, int n, void *to)
{
    const zn_case *k = cookie;
    const size_t cin = (size_t)((const zn_conv *)k->arg)->cin;
    const float *from = k->weight + (size_t)first * cin;

    for (size_t i = 0; i < (size_t)n * cin; i++)
        if (type == ZN_F32)
            ((float *)to)[i] = from[i];
        else
            ((uint16_t *)to)[i] = type == ZN_F16 ? zn_to_f16(from[i]) : zn_to_bf16(from[i]);
}

/* Both ways to pack are tested: layers with an even number of groups are packed from rows, if the backend can. */
static void pack(zn_conv *w, const zn_case *k, const zn_backend *b, void *dev)
{
    w->packed = b->alloc(dev, b->conv_size(dev, w));
    if (!w->packed)
        abort();
    if (w->cin / ZN_W_GROUP % 2 ||
        !b->conv_pack_rows(dev, w, &(zn_row_source){ read_rows, read_rows_as, (void *)(uintptr_t)k, ZN_F32 }, k->bias))
        b->conv_pack(dev, w, k->weight, k->bias);
}

static void call_conv(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in, zn_tail tail)
{
    zn_conv w = *(const zn_conv *)k->arg;

    pack(&w, k, b, dev);
    b->conv2d(dev, y, in[0], &w, tail);
    b->sync(dev, NULL);
    b->free(dev, w.packed);
}

static zn_tensor dense_like(const zn_backend *b, void *dev, zn_tensor y)
{
    y.ld = y.c;
    y.data = b->alloc(dev, zn_pixels(y) * (size_t)y.c * zn_type_size(y.type));
    if (!y.data)
        abort();
    return y;
}

/* A convolution with two results, tail.also being the second, as ops.c has it computed.  The one that is not y is dropped. */
static void call_both(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, zn_tensor x, zn_tail t,
                      bool second)
{
    zn_conv w = *(const zn_conv *)k->arg;
    const zn_tensor other = dense_like(b, dev, y), first = second ? other : y;

    pack(&w, k, b, dev);
    t.also = b->does_also ? (second ? &y : &other) : NULL;
    t.also_act = second ? t.post : ZN_RELU;
    t.post = second ? ZN_NONE : t.post;
    b->conv2d(dev, first, x, &w, t);
    if (!b->does_also)
        b->map(dev, second ? y : other, first, (zn_tail){ .pre = t.also_act });
    b->sync(dev, NULL);
    b->free(dev, other.data);
    b->free(dev, w.packed);
}

static void call_first(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in, zn_tail t)
{
    call_both(k, b, dev, y, in[0], t, false);
}

/* The last operation of the tail computes the second result from the first. */
static void call_second(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in, zn_tail t)
{
    call_both(k, b, dev, y, in[0], t, true);
}

/* Whether two dense tensors have the same bits. */
static bool alike(const zn_backend *b, void *dev, zn_tensor x, zn_tensor y)
{
    const size_t size = zn_pixels(x) * (size_t)x.c * zn_type_size(x.type);
    char *v[2] = { zn_take(size, 1), zn_take(size, 1) };
    bool same;

    b->download(dev, v[0], x.data, size);
    b->download(dev, v[1], y.data, size);
    b->sync(dev, NULL);
    same = !memcmp(v[0], v[1], size);
    free(v[0]);
    free(v[1]);
    return same;
}

/* A second result that is a norm, beside y and in its place: it must have the bits that the norm of y has; else y
 * is made wrong. */
static void call_normed(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in, zn_tail t)
{
    zn_conv w = *(const zn_conv *)k->arg;
    zn_norm norm = { .kind = ZN_RMS_NORM, .c = y.c, .eps = 1e-6f };
    const zn_tensor want = dense_like(b, dev, y), got = dense_like(b, dev, y), same = dense_like(b, dev, y);
    float *gamma = zn_take((size_t)y.c, sizeof *gamma);
    bool right;

    for (int i = 0; i < y.c; i++)
        gamma[i] = 0.5f + (float)(i % 7) / 4;
    norm.gamma = b->alloc(dev, (size_t)y.c * sizeof *gamma);
    if (!norm.gamma)
        abort();
    b->upload(dev, norm.gamma, gamma, (size_t)y.c * sizeof *gamma);
    pack(&w, k, b, dev);
    if (!t.residual)
        b->conv2d(dev, same, in[0], &w, (zn_tail){ .also = &same, .also_norm = &norm, .also_act = ZN_SILU });
    t.also = &got;
    t.also_norm = &norm;
    t.also_act = ZN_SILU;
    b->conv2d(dev, y, in[0], &w, t);
    b->norm(dev, want, y, &norm, NULL, (zn_tail){ .pre = ZN_SILU });
    right = alike(b, dev, got, want) && (t.residual || alike(b, dev, same, want));
    if (!right)
        b->map(dev, y, y, (zn_tail){ .gain = 1000 });
    b->sync(dev, NULL);
    b->free(dev, want.data);
    b->free(dev, got.data);
    b->free(dev, same.data);
    b->free(dev, norm.gamma);
    b->free(dev, w.packed);
    free(gamma);
}

typedef struct conv_row {
    int n, h, w, cin, cout, kh, kw, stride, pad_t, pad_l, groups;
    int ho, wo; /* 0: (size + 2 * pad - kernel) / stride + 1 */
    bool up2, bias;
} conv_row;

/* Of a layer with quantised weights: they stay floats; may be quantised, too; likewise, all of the largest magnitude. */
typedef enum conv_inputs { FLOATS, QUANTISED, LARGEST, N_INPUTS } conv_inputs;

/* n elements become 1 or -1: all of them, with an odd `line`, or in blocks.  A sum of integers is the largest there can be. */
static void enlarge(float *v, size_t n, size_t line)
{
    for (size_t i = 0; i < n; i++)
        v[i] = line % 2 ? (line % 4 == 1 ? 1.f : -1.f) : (i / (1 + line % 32) % 2 ? 1.f : -1.f);
}

/* weights: the precision that says how they are stored. */
static void check_conv_by(zn_test *t, zn_case_fn *call, const conv_row *r, int variant, zn_precision weights,
                          conv_inputs inputs)
{
    int up = r->up2 ? 2 : 1;
    int ho = r->ho ? r->ho : (r->h * up + 2 * r->pad_t - r->kh) / r->stride + 1;
    int wo = r->wo ? r->wo : (r->w * up + 2 * r->pad_l - r->kw) / r->stride + 1;
    zn_conv w = { .kh = r->kh,
                  .kw = r->kw,
                  .stride = r->stride,
                  .groups = r->groups,
                  .cin = r->cin,
                  .cout = r->cout,
                  .pad_t = r->pad_t,
                  .pad_l = r->pad_l,
                  .up2 = r->up2,
                  .has_bias = r->bias,
                  .many_pixels = variant % 2 != 0 || call == call_normed,
                  .quantised_x = inputs != FLOATS,
                  .precision = weights,
                  .tensors = t->type };
    const zn_wtype x_type = t->b->conv_inputs ? t->b->conv_inputs(t->one, &w) : ZN_W_F32;
    const bool integers = x_type == ZN_W_I8;

    if (!t->b->remote && ((t->type == ZN_BF16 && x_type != ZN_W_BF16) || (t->type == ZN_F16 && w.groups > 1)))
        return; /* not of a network that has such tensors */

    zn_case k = zn_case_begin(call, shape(r->n, ho, wo, r->cout, variant % 8 == 1 ? 5 : variant % 8 == 5 ? 8 : 0));
    size_t sum = (size_t)(r->cin / r->groups * r->kh * r->kw);
    float *weight = zn_random_floats(t, (size_t)r->cout * sum, 0.5f);
    float *bias = zn_random_floats(t, (size_t)r->cout, 1);

    for (size_t o = 0; inputs == LARGEST && o < (size_t)r->cout; o++)
        enlarge(weight + o * sum, sum, o);
    zn_round_weights(weight, (size_t)r->cout, sum, weights);
    k.arg = &w;
    k.weight = weight;
    k.bias = r->bias ? bias : NULL;
    zn_case_input(t, &k, shape(r->n, r->h, r->w, r->cin, variant % 8 == 2 ? 3 : variant % 8 == 6 ? 8 : 0), 1);
    for (size_t p = 0; inputs == LARGEST && p < zn_pixels(k.in[0]); p++)
        enlarge(k.in[0].data + p * (size_t)k.in[0].ld, (size_t)r->cin, p + 1);
    zn_case_tail(t, &k, variant);
    snprintf(k.name, sizeof k.name, "conv %dx%d%s%s %d>%d, %dx%dx%d%s%s%s%s%s%s", r->kh, r->kw,
             r->stride > 1 ? " strided" : "", r->up2 ? " up2" : "", r->cin, r->cout, r->n, r->h, r->w,
             r->groups > 1 ? ", grouped" : "", weights != t->precision ? ", weights in " : "",
             weights != t->precision ? zn_precision_names[weights] : "", integers ? ", integers" : "",
             inputs == LARGEST         ? ", largest"
                 : call == call_first  ? ", first of two"
                 : call == call_second ? ", second of two"
                 : call == call_normed ? ", and its norm"
                 : w.many_pixels       ? ", many pixels"
                                       : "",
             zn_case_tail_name(&k));
    if (zn_case_wanted(t, &k))
        formula_conv(&k, &w, integers);
    k.terms = zn_rounded_terms(k.terms, x_type, weights);
    zn_case_run(t, &k);
    zn_case_end(&k);
    free(weight);
    free(bias);
}

static void check_conv_in(zn_test *t, const conv_row *r, int variant, zn_precision weights, conv_inputs inputs)
{
    check_conv_by(t, call_conv, r, variant, weights, inputs);
}

static void check_one_conv(zn_test *t, const conv_row *r, int variant)
{
    if (!zn_case_skipped(t))
        check_conv_in(t, r, variant, t->precision, FLOATS);
}

/* Weights in every storage type, for backends whose tensors are float32; int8 and int4 with fp16 tensors. */
static void check_stored(zn_test *t)
{
    static const conv_row rows[] = {
        /* n  h   w  cin  cout kh kw s pt pl g  ho wo up2    bias */
        { 1, 1, 1, 64, 64, 1, 1, 1, 0, 0, 1, 0, 0, false, true }, /* few pixels */
        { 1, 1, 2, 33, 17, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 3, 1, 2500, 130, 1, 1, 1, 0, 0, 1, 0, 0, false, false },
        { 7, 1, 1, 97, 70, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 1, 5, 256, 16, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 2, 4, 64, 50, 1, 1, 1, 0, 0, 1, 0, 0, false, true }, /* more */
        { 1, 1, 101, 1300, 20, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 1, 23, 1000, 99, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 13, 11, 96, 300, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 2, 20, 17, 40, 200, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 3, 701, 33, 17, 1, 1, 1, 0, 0, 1, 0, 0, false, true }, /* more than are quantised at a time */
        { 1, 2, 2, 64, 32, 1, 1, 1, 1, 1, 1, 0, 0, false, true },   /* padding around 1x1 */
        { 1, 5, 7, 33, 20, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 12, 12, 130, 70, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 7, 5, 35, 18, 3, 3, 2, 1, 1, 1, 0, 0, false, true },
        { 1, 13, 12, 48, 30, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 41, 40, 35, 18, 3, 3, 2, 1, 1, 1, 0, 0, false, true },
        { 2, 6, 11, 64, 64, 3, 3, 1, 1, 1, 1, 0, 0, true, false },
        { 1, 6, 6, 600, 33, 2, 2, 2, 0, 0, 1, 0, 0, false, true },
    };
    enum { LARGEST_ROWS = 8 };
    static const zn_precision types[] = { ZN_FP16_MATH, ZN_BF16_MATH, ZN_INT8_MATH, ZN_INT4_MATH };

    const bool half = t->b->tensor_type[ZN_FP16_MATH] == ZN_F16;

    if (t->precision != (half ? ZN_FP16_MATH : ZN_FP32))
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t j = half ? 2 : 0; j < sizeof types / sizeof *types; j++)
            for (int x = 0; x < (types[j] < ZN_INT8_MATH ? 1 : i < LARGEST_ROWS ? N_INPUTS : LARGEST); x++)
                if (!zn_case_skipped(t))
                    check_conv_in(t, &rows[i], (int)(i + 3 * j), types[j], (conv_inputs)x);
}

/* Two results.  A GPU's kernel writes both if the second is a ReLU, with these sizes in every kind of tile. */
static void check_also(zn_test *t)
{
    static const conv_row rows[] = {
        /* n  h   w  cin  cout kh kw s pt pl g  ho wo up2    bias */
        { 1, 1, 1, 64, 64, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 17, 18, 64, 64, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 2, 13, 11, 96, 96, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 9, 23, 128, 128, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 31, 7, 48, 48, 3, 3, 1, 1, 1, 1, 0, 0, false, false },
        { 1, 9, 10, 32, 40, 3, 3, 2, 1, 1, 1, 0, 0, false, true },
        { 2, 5, 7, 64, 72, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 7, 5, 17, 9, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 2, 6, 11, 64, 64, 3, 3, 1, 1, 1, 1, 0, 0, true, false },
        { 1, 8, 9, 24, 24, 3, 3, 1, 1, 1, 24, 0, 0, false, true },
    };
    static const conv_row large[] = {
        { 1, 191, 203, 16, 128, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 161, 203, 16, 120, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 131, 267, 64, 64, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
    };
    static const conv_row normed[] = {
        { 1, 1, 1, 96, 96, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 37, 27, 96, 96, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 3, 17, 9, 96, 96, 3, 3, 1, 1, 1, 1, 0, 0, false, false },
        { 1, 21, 13, 96, 96, 3, 3, 1, 0, 1, 1, 20, 0, false, true },
        { 1, 9, 11, 128, 128, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 5, 7, 17, 9, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
    };
    enum { PLAIN = 0, PLUS_RELU = 2, PLUS_Y = 10, CLAMP = 13 }; /* tails of zn_case_tail */
    static const int first[] = { PLAIN, PLUS_Y }, second[] = { PLUS_RELU, CLAMP };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int j = 0; j < 2; j++) {
            if (!zn_case_skipped(t))
                check_conv_by(t, call_first, &rows[i], first[j], t->precision, FLOATS);
            if (!zn_case_skipped(t))
                check_conv_by(t, call_second, &rows[i], second[j], t->precision, FLOATS);
        }
    for (size_t i = 0; i < sizeof large / sizeof *large && t->type == ZN_F16 && t->precision == ZN_FP16_MATH; i++) {
        check_conv_by(t, call_first, &large[i], PLUS_Y, t->precision, FLOATS);
        check_conv_by(t, call_second, &large[i], PLUS_RELU, t->precision, FLOATS);
    }
    for (size_t i = 0; i < sizeof normed / sizeof *normed && t->b->does_also; i++)
        for (int j = 0; j < 2; j++)
            if (!zn_case_skipped(t))
                check_conv_by(t, call_normed, &normed[i], first[j], t->precision, FLOATS);
    if (t->b->does_also && t->type == ZN_F16 && t->precision == ZN_FP16_MATH) /* several tiles for each warpgroup */
        check_conv_by(t, call_normed, &(conv_row){ 1, 130, 280, 96, 96, 3, 3, 1, 1, 1, 1, 0, 0, false, true }, PLUS_Y,
                      t->precision, FLOATS);
}

void zn_check_conv(zn_test *t)
{
    static const conv_row rows[] = {
        /* n  h   w  cin  cout kh kw s pt pl g  ho wo up2    bias */
        { 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0, false, false },
        { 1, 1, 1, 64, 64, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 2, 3, 16, 16, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 5, 7, 3, 64, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 9, 6, 64, 3, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 4, 4, 16, 17, 3, 3, 1, 1, 1, 1, 0, 0, false, false },
        { 2, 13, 11, 19, 33, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 8, 21, 32, 48, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 17, 18, 64, 64, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 12, 12, 130, 70, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 10, 9, 20, 24, 3, 3, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 10, 9, 20, 24, 3, 3, 1, 2, 2, 1, 0, 0, false, true },
        { 1, 7, 7, 24, 16, 3, 3, 1, 0, 1, 1, 7, 8, false, true },
        { 1, 25, 37, 16, 16, 3, 3, 1, 1, 1, 1, 0, 0, false, false },
        { 1, 9, 9, 5, 6, 3, 3, 2, 1, 1, 1, 0, 0, false, true },
        { 2, 16, 14, 64, 64, 3, 3, 2, 1, 1, 1, 0, 0, false, false },
        { 1, 8, 8, 16, 20, 3, 3, 2, 0, 0, 1, 4, 4, false, true },
        { 1, 7, 5, 33, 18, 3, 3, 2, 1, 1, 1, 0, 0, false, true },
        { 1, 21, 24, 32, 80, 3, 3, 2, 1, 1, 1, 0, 0, false, true },
        { 1, 13, 10, 19, 24, 3, 3, 2, 0, 1, 1, 6, 5, false, true },
        { 1, 1, 1, 16, 16, 3, 3, 2, 1, 1, 1, 0, 0, false, true },
        { 1, 9, 8, 260, 16, 3, 3, 2, 1, 1, 1, 0, 0, false, true },
        { 1, 6, 6, 7, 9, 2, 2, 2, 0, 0, 1, 0, 0, false, true },
        { 1, 6, 5, 8, 8, 2, 2, 1, 0, 0, 1, 0, 0, false, false },
        { 1, 16, 16, 12, 10, 4, 4, 4, 0, 0, 1, 0, 0, false, true },
        { 1, 9, 9, 6, 5, 4, 4, 2, 1, 1, 1, 0, 0, false, true },
        { 1, 11, 8, 9, 21, 5, 5, 1, 2, 2, 1, 0, 0, false, true },
        { 1, 13, 13, 3, 16, 7, 7, 1, 3, 3, 1, 0, 0, false, true },
        { 1, 15, 12, 3, 8, 7, 7, 2, 3, 3, 1, 0, 0, false, true },
        { 1, 9, 7, 10, 11, 1, 3, 1, 0, 1, 1, 0, 0, false, true },
        { 1, 9, 7, 10, 11, 3, 1, 1, 1, 0, 1, 0, 0, false, true },
        { 1, 6, 5, 4, 6, 1, 1, 2, 0, 0, 1, 0, 0, false, true },
        /* linear */
        { 1, 1, 1, 130, 130, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 1, 2, 5, 3, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 1, 3, 31, 15, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 1, 4, 64, 128, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 13, 40, 16, 3, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 9, 31, 72, 12, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 2, 20, 17, 4, 200, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 33, 9, 3, 16, 1, 1, 1, 0, 0, 1, 0, 0, false, false },
        { 1, 24, 22, 64, 256, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 130, 131, 3, 64, 3, 3, 1, 1, 1, 1, 0, 0, false, true }, /* more than a tile for each multiprocessor */
        { 3, 5, 7, 64, 30, 1, 1, 1, 0, 0, 1, 0, 0, false, false },
        { 1, 13, 17, 17, 65, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 1, 101, 2500, 20, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 3, 50, 1, 12, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 1, 7, 80, 1030, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        /* wide enough for fp8 */
        { 1, 9, 18, 128, 128, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 2, 5, 7, 320, 120, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 7, 6, 128, 456, 3, 3, 2, 1, 1, 1, 0, 0, false, true },
        { 1, 5, 6, 128, 72, 3, 3, 1, 1, 1, 1, 0, 0, true, false },
        { 1, 8, 12, 128, 1024, 4, 4, 4, 0, 0, 1, 0, 0, false, true },
        { 1, 1, 40, 240, 1032, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 1, 140, 128, 1024, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        /* cut sums */
        { 1, 3, 4, 600, 18, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 5, 5, 200, 9, 5, 5, 2, 2, 2, 1, 0, 0, false, true },
        /* many pixels or large kernels, few channels */
        { 1, 184, 184, 3, 5, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 184, 184, 8, 4, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 100, 60, 4, 130, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 40, 24, 3, 4, 8, 8, 8, 0, 0, 1, 0, 0, false, true },
        { 1, 40, 24, 16, 4, 8, 8, 8, 0, 0, 1, 0, 0, false, true },
        { 2, 12, 36, 32, 4, 4, 4, 4, 0, 0, 1, 0, 0, false, true },
        { 1, 22, 18, 64, 4, 2, 2, 2, 0, 0, 1, 0, 0, false, true },
        { 1, 33, 18, 64, 3, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 2, 16, 17, 136, 2, 3, 3, 1, 1, 1, 1, 0, 0, false, false },
        { 1, 5, 49, 24, 1, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 15, 34, 16, 3, 3, 3, 1, 1, 1, 1, 14, 33, false, true },
        /* up2 */
        { 1, 1, 1, 16, 16, 3, 3, 1, 1, 1, 1, 0, 0, true, true },
        { 1, 5, 4, 17, 9, 3, 3, 1, 1, 1, 1, 0, 0, true, true },
        { 2, 6, 11, 64, 64, 3, 3, 1, 1, 1, 1, 0, 0, true, false },
        { 1, 7, 3, 20, 36, 3, 3, 1, 1, 1, 1, 0, 0, true, true },
        { 1, 11, 10, 32, 16, 3, 3, 1, 1, 1, 1, 0, 0, true, true },
        { 1, 13, 22, 192, 96, 3, 3, 1, 1, 1, 1, 0, 0, true, true },
        { 2, 17, 9, 128, 136, 3, 3, 1, 1, 1, 1, 0, 0, true, true },
        { 1, 4, 5, 8, 8, 5, 5, 1, 2, 2, 1, 0, 0, true, true },
        { 1, 4, 5, 8, 8, 1, 1, 1, 0, 0, 1, 0, 0, true, true },
        /* groups */
        { 1, 7, 6, 12, 18, 3, 3, 1, 1, 1, 3, 0, 0, false, true },
        { 1, 5, 5, 64, 64, 3, 3, 2, 1, 1, 2, 0, 0, false, true },
        { 1, 4, 6, 8, 16, 3, 3, 1, 1, 1, 8, 0, 0, false, true },
        { 2, 5, 3, 40, 20, 1, 1, 1, 0, 0, 4, 0, 0, false, true },
        { 1, 9, 7, 64, 16, 1, 1, 1, 0, 0, 4, 0, 0, false, true },
        { 1, 13, 11, 16, 64, 1, 1, 1, 0, 0, 4, 0, 0, false, true },
        { 1, 7, 33, 256, 64, 1, 1, 1, 0, 0, 4, 0, 0, false, false },
        { 1, 6, 5, 12, 30, 1, 1, 1, 0, 0, 6, 0, 0, false, true },
        { 1, 6, 5, 24, 9, 1, 1, 1, 0, 0, 3, 0, 0, false, true },
        /* depthwise */
        { 1, 1, 1, 2, 2, 3, 3, 1, 1, 1, 2, 0, 0, false, true },
        { 1, 8, 9, 19, 19, 3, 3, 1, 1, 1, 19, 0, 0, false, true },
        { 2, 6, 6, 64, 64, 3, 3, 2, 1, 1, 64, 0, 0, false, false },
        { 1, 12, 10, 33, 33, 7, 7, 1, 3, 3, 33, 0, 0, false, true },
        { 1, 5, 7, 130, 130, 5, 5, 1, 2, 2, 130, 0, 0, false, true },
        { 1, 3, 3, 2060, 2060, 3, 3, 1, 1, 1, 2060, 0, 0, false, true },
        { 1, 4, 3, 21, 21, 3, 3, 1, 1, 1, 21, 0, 0, true, true },
        { 1, 70, 9, 64, 64, 3, 3, 1, 1, 1, 64, 0, 0, false, true },
        { 2, 13, 11, 24, 24, 3, 3, 1, 0, 2, 24, 0, 0, false, false },
        { 1, 11, 10, 40, 40, 5, 5, 1, 2, 2, 40, 0, 0, false, true },
        { 1, 9, 8, 16, 16, 7, 7, 2, 3, 3, 16, 0, 0, false, true },
        { 1, 6, 5, 8, 8, 3, 3, 1, 1, 1, 8, 0, 0, true, true },
        /* strips of a picture: rows above, and below or not, are there */
        { 1, 14, 19, 64, 64, 3, 3, 1, 0, 1, 1, 12, 0, false, true },
        { 1, 13, 21, 96, 96, 3, 3, 1, 0, 1, 1, 12, 0, false, true },
        { 1, 38, 17, 128, 128, 3, 3, 1, 0, 1, 1, 36, 0, false, true },
        { 1, 34, 40, 256, 136, 3, 3, 1, 0, 1, 1, 33, 0, false, true },
        { 1, 33, 24, 128, 64, 3, 3, 1, 1, 1, 1, 32, 0, false, true },
        { 1, 9, 11, 17, 13, 3, 3, 1, 0, 1, 1, 7, 0, false, true },
    };
    static const conv_row large[] = {
        /* fp8: more tiles than multiprocessors, two chunks of channels, up2 */
        { 1, 161, 200, 128, 120, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 161, 200, 256, 120, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 66, 70, 128, 72, 3, 3, 1, 1, 1, 1, 0, 0, true, true },
    };
    static const conv_row once[] = {
        /* more weights than a CPU packs in Winograd's form: transformed in each run; few pixels */
        { 1, 10, 10, 1024, 320, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 2, 3, 1024, 320, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
    };
    static const int variants[] = { 15, 7, 4 }; /* that leave it to the matrix units: one with a residual */
    int n = (int)(sizeof rows / sizeof rows[0]);

    for (int i = 0; i < n; i++)
        for (int pass = 0; pass < 3; pass++) /* three tails and layouts each */
            check_one_conv(t, &rows[i], i + 5 * pass);
    for (size_t i = 0; i < sizeof once / sizeof *once; i++)
        check_one_conv(t, &once[i], 2 + (int)i);
    for (size_t i = 0; i < sizeof large / sizeof *large && t->precision == ZN_FP8_MATH; i++)
        check_one_conv(t, &large[i], variants[i]);
    for (int c = 1; c <= 37; c += 3) { /* every remainder of a vector, in and out */
        conv_row in = { 1, 3, 5, c, 8, 3, 3, 1, 1, 1, 1, 0, 0, false, true };
        conv_row out = { 1, 4, 7, 9, c, 1, 1, 1, 0, 0, 1, 0, 0, false, true };

        check_one_conv(t, &in, c);
        check_one_conv(t, &out, c + 1);
    }
    for (int w = 1; w <= 25; w++) { /* every remainder of a tile */
        conv_row r = { 1, 2 + w % 5, w, 16, 16, 3, 3, 1, 1, 1, 1, 0, 0, w % 2 == 0, true };
        conv_row half = { 1, 3 + w % 7, w, 16, 16, 3, 3, 2, 1, 1, 1, 0, 0, false, true };

        check_one_conv(t, &r, w);
        check_one_conv(t, &half, w);
    }
    check_stored(t);
    check_also(t);
}
