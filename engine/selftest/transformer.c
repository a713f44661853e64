/* SPDX-License-Identifier: MIT */
/* transformer.c - the self-test of special.h's glu, norm_rope, linears and add_norm.  Where a backend refuses the tensors of a case, its parts
 * are computed, as ops.c does. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 3 };

typedef struct layers {
    zn_conv w[LAYERS];
    float *weight[LAYERS];
    int n, which; /* which: of n linear layers is compared */
} layers;

/* Rows of c elements: integers up to 127, which each group of ZN_W_GROUP has, times a power of two.  Neither groups nor rows
 * round them. */
static void make_integers(float *v, size_t rows, size_t ld, size_t c)
{
    float most = 0x1p-8f, unit;

    for (size_t i = 0; i < c; i++)
        most = fmaxf(most, fabsf(v[i]));
    unit = ldexpf(1, ilogbf(most) - 6);
    for (size_t r = 0; r < rows; r++, v += ld)
        for (size_t i = 0; i < c; i++) {
            const float q = fmaxf(-127, fminf(127, rintf(v[i] / unit)));

            v[i] = unit * (i % ZN_W_GROUP ? q : q < 0 ? -127 : 127);
        }
}

static layers make_layers(zn_test *t, int n, int cin, int cout)
{
    layers l = { .n = n };

    for (int i = 0; i < n; i++) {
        l.w[i] = (zn_conv){ .kh = 1,
                            .kw = 1,
                            .stride = 1,
                            .groups = 1,
                            .cin = cin,
                            .cout = cout,
                            .quantised_x = true,
                            .row_scales = true,
                            .precision = t->precision };
        l.weight[i] =
            zn_random_floats(t, (size_t)cin * (size_t)cout, ldexpf(1, -ilogbf(sqrtf((float)cin)))); /* e4m3: exact */
        if (t->precision == ZN_INT8_MATH)
            make_integers(l.weight[i], (size_t)cout, (size_t)cin, (size_t)cin);
        zn_round_weights(l.weight[i], (size_t)cout, (size_t)cin, t->precision);
    }
    return l;
}

/* Copies of the layers on a device. */
static void send_layers(zn_conv *w, const layers *l, const zn_backend *b, void *dev)
{
    for (int i = 0; i < l->n; i++) {
        w[i] = l->w[i];
        w[i].packed = b->alloc(dev, b->conv_size(dev, &w[i]));
        if (!w[i].packed)
            abort();
        b->conv_pack(dev, &w[i], l->weight[i], NULL);
    }
}

static void call_glu(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in, zn_tail tail)
{
    zn_tensor room = y;
    zn_conv w[LAYERS];

    (void)tail;
    send_layers(w, k->arg, b, dev);
    room.ld = y.c;
    room.data = b->alloc(dev, zn_pixels(y) * (size_t)y.c * zn_type_size(y.type));
    if (!room.data)
        abort();
    if (!b->special->glu(dev, y, in[0], &w[0], &w[1])) {
        b->conv2d(dev, y, in[0], &w[0], (zn_tail){ .pre = ZN_SILU });
        b->conv2d(dev, room, in[0], &w[1], (zn_tail){ 0 });
        b->binary(dev, y, y, room, ZN_MUL, (zn_tail){ 0 });
    }
    b->sync(dev, NULL);
    b->free(dev, room.data);
    b->free(dev, w[0].packed);
    b->free(dev, w[1].packed);
}

/* All layers write to y, the one that is compared last. */
static void call_linears(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in,
                         zn_tail tail)
{
    const layers *l = k->arg;
    const zn_tensor all[LAYERS] = { y, y, y };
    const zn_conv *order[LAYERS];
    zn_conv w[LAYERS];

    (void)tail;
    send_layers(w, l, b, dev);
    for (int i = 0; i < l->n; i++)
        order[i] = &w[(l->which + 1 + i) % l->n];
    if (!b->special->linears(dev, all, in[0], order, l->n))
        b->conv2d(dev, y, in[0], order[l->n - 1], (zn_tail){ 0 });
    b->sync(dev, NULL);
    for (int i = 0; i < l->n; i++)
        b->free(dev, w[i].packed);
}

/* Output o of pixel p of layer i; *mag is the sum of the products' magnitudes. */
ZN_UNCHECKED static double output(const zn_case *k, const layers *l, int i, int p, int o, double *mag)
{
    const zn_tensor x = k->in[0];
    const float *row = x.data + (size_t)p * (size_t)x.ld, *w = l->weight[i] + (size_t)o * (size_t)x.c;
    double sum = 0;

    *mag = 0;
    for (int c = 0; c < x.c; c++) {
        sum += (double)row[c] * w[c];
        *mag += fabs((double)row[c] * w[c]);
    }
    return sum;
}

static void formula(zn_case *k, const layers *l, bool glu)
{
    for (int p = 0; p < k->y.w; p++)
        for (int o = 0; o < k->y.c; o++) {
            const size_t d = dense_index(k->y, 0, 0, p, o);
            double first, second = 0, a = output(k, l, glu ? 0 : l->which, p, o, &first);

            if (glu) {
                const double b = output(k, l, 1, p, o, &second);

                second = 1.13 * (first * fabs(b) + fabs(a) * second);
                a = zn_exact_act(a, ZN_SILU) * b;
            }
            k->want[d] = a;
            k->mag[d] = glu ? second : first;
        }
    k->terms = k->in[0].c + 4;
}

static void check_layers(zn_test *t, bool glu)
{
    static const struct {
        int pixels, cin, cout, gap;
    } rows[] = { { 5, 64, 48, 0 },     { 200, 128, 64, 0 },   { 300, 192, 136, 8 },
                 { 515, 256, 320, 0 }, { 257, 384, 1032, 8 }, { 1025, 160, 256, 0 } };

    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        if (zn_case_skipped(t))
            continue;
        const int cin = rows[i].cin, cout = rows[i].cout, gap = rows[i].gap;
        layers l = make_layers(t, glu ? 2 : LAYERS, cin, cout);
        zn_case k = zn_case_begin(glu ? call_glu : call_linears, shape(1, 1, rows[i].pixels, cout, gap));

        l.which = i % LAYERS;
        k.arg = &l;
        zn_case_input(t, &k, shape(1, 1, rows[i].pixels, cin, 2 * gap), 1);
        if (t->precision == ZN_INT8_MATH)
            make_integers(k.in[0].data, (size_t)rows[i].pixels, (size_t)k.in[0].ld, (size_t)cin);
        snprintf(k.name, sizeof k.name, "%s %d>%d, %d pixels%s", glu ? "gated linear" : "linear layers", cin, cout,
                 rows[i].pixels, gap ? ", with gaps" : "");
        if (zn_case_wanted(t, &k))
            formula(&k, &l, glu);
        zn_case_run(t, &k);
        zn_case_end(&k);
        for (int j = 0; j < l.n; j++)
            free(l.weight[j]);
    }
}

/* ---- norm and rotation -------------------------------------------------------------------------------- */

static void call_norm_rope(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in,
                           zn_tail tail)
{
    zn_rope r = *(const zn_rope *)k->arg;
    const int dim = y.c / r.heads;
    const zn_norm norm = {
        .kind = ZN_RMS_NORM, .c = dim, .eps = 1e-5f, .gamma = zn_upload_row(b, dev, k->weight, dim)
    };

    (void)tail;
    r.cos = in[1];
    r.sin = in[2];
    if (!b->special->norm_rope(dev, y, in[0], &norm, &r)) {
        const zn_tensor heads = zn_reshape(y, y.n, y.h, y.w * r.heads, dim);

        b->norm(dev, heads, zn_reshape(in[0], y.n, y.h, y.w * r.heads, dim), &norm, NULL, (zn_tail){ 0 });
        b->rope(dev, y, y, &r);
    }
    b->sync(dev, NULL);
    b->free(dev, norm.gamma);
}

static void formula_norm_rope(zn_case *k, const zn_rope *r)
{
    const zn_tensor x = k->in[0];
    const int dim = x.c / r->heads, half = dim / 2;

    for (int p = 0; p < x.w; p++)
        for (int h = 0; h < r->heads; h++) {
            const float *v = x.data + (size_t)p * (size_t)x.ld + (size_t)(h * dim);
            double sum = 0, inv;

            for (int c = 0; c < dim; c++)
                sum += (double)v[c] * v[c];
            inv = 1 / sqrt(sum / dim + (double)1e-5f);
            for (int c = 0; c < dim; c++) {
                const bool second = r->interleaved ? c % 2 : c >= half;
                const int pair = r->interleaved ? c / 2 : c % half;
                const int other = r->interleaved ? (c ^ 1) : second ? c - half : c + half;
                const double a = v[c] * inv * k->weight[c] * at(k->in[1], 0, 0, p, pair);
                const double b = v[other] * inv * k->weight[other] * at(k->in[2], 0, 0, p, pair);
                const size_t d = dense_index(x, 0, 0, p, h * dim + c);

                k->want[d] = second ? a + b : a - b;
                k->mag[d] = fabs(a) + fabs(b);
            }
        }
    k->terms = dim + 8;
}

static void check_norm_rope(zn_test *t)
{
    static const struct {
        int pixels, heads, dim;
    } rows[] = { { 3, 1, 16 }, { 37, 5, 64 }, { 20, 30, 128 }, { 9, 3, 256 }, { 11, 2, 40 }, { 6, 33, 32 } };

    for (int i = 0; i < 2 * (int)(sizeof rows / sizeof *rows); i++) {
        const int dim = rows[i / 2].dim;
        const zn_rope r = { .heads = rows[i / 2].heads, .interleaved = i % 2 };
        zn_case k = zn_case_begin(call_norm_rope, shape(1, 1, rows[i / 2].pixels, r.heads * dim, 0));
        float *gamma = zn_random_floats(t, (size_t)dim, 2);

        k.arg = &r;
        k.alias = i / 2 % 2 - 1;
        k.weight = gamma;
        zn_case_input(t, &k, shape(1, 1, rows[i / 2].pixels, r.heads * dim, 0), 3);
        for (int j = 0; j < 2; j++)
            zn_case_input_of(t, &k, ZN_F32, shape(1, 1, rows[i / 2].pixels, dim / 2, 0), 1);
        formula_norm_rope(&k, &r);
        snprintf(k.name, sizeof k.name, "norm and rope of %d positions, %d heads of %d%s%s", rows[i / 2].pixels,
                 r.heads, dim, r.interleaved ? ", interleaved" : "", k.alias < 0 ? "" : ", in place");
        zn_case_run(t, &k);
        zn_case_end(&k);
        free(gamma);
    }
}

/* ---- a sum and its norm -------------------------------------------------------------------------------------- */

static const float twice_eps[2] = { 1e-5f, 1e-6f };

/* y = the norm of the sum or, if arg says so, the sum.  The inputs: what is added, x, gate, scale. */
static void call_add_norm(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in,
                          zn_tail tail)
{
    const zn_modulation gate = { .gate = in[2] }, scale = { .scale = in[3] };
    zn_norm norm[2];
    zn_tensor x = y;

    (void)tail;
    for (int i = 0; i < 2; i++)
        norm[i] = (zn_norm){
            .kind = ZN_RMS_NORM, .c = y.c, .eps = twice_eps[i], .gamma = zn_upload_row(b, dev, k->weight + i * y.c, y.c)
        };
    x.ld = y.c;
    x.data = b->alloc(dev, zn_pixels(y) * (size_t)y.c * zn_type_size(y.type));
    if (!x.data)
        abort();
    b->map(dev, x, in[1], (zn_tail){ 0 });
    if (!b->special->add_norm(dev, x, in[0], &norm[0], &gate, y, &norm[1], &scale)) {
        b->norm(dev, x, in[0], &norm[0], &gate, (zn_tail){ .residual = &x });
        b->norm(dev, y, x, &norm[1], &scale, (zn_tail){ 0 });
    }
    if (*(const bool *)k->arg)
        b->map(dev, y, x, (zn_tail){ 0 });
    b->sync(dev, NULL);
    b->free(dev, x.data);
    b->free(dev, norm[0].gamma);
    b->free(dev, norm[1].gamma);
}

static double inverse_rms(const double *v, int n, float eps)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += v[i] * v[i];
    return 1 / sqrt(sum / n + (double)eps);
}

static void formula_add_norm(zn_case *k, bool sum)
{
    const int c = k->y.c;
    double *v = zn_take((size_t)c, sizeof *v), inv;

    for (int p = 0; p < k->y.w; p++) {
        for (int i = 0; i < c; i++)
            v[i] = at(k->in[0], 0, 0, p, i);
        inv = inverse_rms(v, c, twice_eps[0]);
        for (int i = 0; i < c; i++) {
            const size_t d = dense_index(k->y, 0, 0, p, i);
            const double add = v[i] * inv * k->weight[i] * at(k->in[2], 0, 0, 0, i), x = at(k->in[1], 0, 0, p, i);

            v[i] = k->want[d] = x + add;
            k->mag[d] = fabs(x) + fabs(add);
        }
        inv = inverse_rms(v, c, twice_eps[1]);
        for (int i = 0; i < c && !sum; i++) {
            const size_t d = dense_index(k->y, 0, 0, p, i);
            const double by = inv * k->weight[c + i] * (1 + at(k->in[3], 0, 0, 0, i));

            k->want[d] = v[i] * by;
            k->mag[d] = 2 * k->mag[d] * fabs(by); /* the sum is rounded, too */
        }
    }
    k->terms = c + 8;
    free(v);
}

static void check_add_norm(zn_test *t)
{
    static const int rows[][2] = { { 5, 64 }, { 37, 384 }, { 21, 1032 }, { 9, 3840 }, { 4, 4096 }, { 3, 4104 } };

    for (int i = 0; i < 2 * (int)(sizeof rows / sizeof *rows); i++) {
        const int n = rows[i / 2][0], c = rows[i / 2][1];
        const bool sum = i % 2;
        zn_case k = zn_case_begin(call_add_norm, shape(1, 1, n, c, i % 4 ? 8 : 0));
        float *gamma = zn_random_floats(t, 2 * (size_t)c, 2);

        k.arg = &sum;
        k.weight = gamma;
        for (int j = 0; j < 2; j++)
            zn_case_input(t, &k, shape(1, 1, n, c, 8 * j), 3);
        for (int j = 0; j < 2; j++)
            zn_case_input(t, &k, shape(1, 1, 1, c, 0), 1);
        formula_add_norm(&k, sum);
        snprintf(k.name, sizeof k.name, "norm, add, norm of %d pixels of %d: the %s", n, c, sum ? "sum" : "norm");
        zn_case_run(t, &k);
        zn_case_end(&k);
        free(gamma);
    }
}

void zn_check_transformer(zn_test *t)
{
    const zn_special *special = t->b->special;

    if (special && special->glu)
        check_layers(t, true);
    if (special && special->linears)
        check_layers(t, false);
    if (special && special->norm_rope && t->precision != ZN_FP8_MATH)
        check_norm_rope(t);
    if (special && special->add_norm && t->precision != ZN_FP8_MATH)
        check_add_norm(t);
}
