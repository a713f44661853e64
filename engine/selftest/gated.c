/* SPDX-License-Identifier: MIT */
/* gated.c - the self-test of gated residual blocks.
 *
 * A block is five convolutions and two norms in a row.  The product of five worst cases is useless as a bound (1e-2
 * where the error is 1e-6).  So rounding errors are taken as independent and propagated: each value v has an e2, the
 * square of its error in units of FLT_EPSILON, to first order:
 *     sum of n products   w^2 e2 summed, and n (w v)^2 summed for the partial sums
 *     product a b         a^2 e2_b + b^2 e2_a + (a b)^2
 *     norm                inv^2 (e2 + mean e2 + v^2 mean v^2 e2), and the norm's own error (normalise.c)
 * The error of a result may be 8 times that. */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PW1, DW, PW2, PW3, PW4, N_PARTS };

typedef struct gated_arg { /* in host memory */
    zn_gated w;
    float *weight[N_PARTS], *bias[N_PARTS];
} gated_arg;

typedef struct inexact {
    double v, e2;
} inexact;

static zn_conv *part(zn_gated *w, int i)
{
    zn_conv *const parts[N_PARTS] = { &w->pw1, &w->dw, &w->pw2, &w->pw3, &w->pw4 };

    return parts[i];
}

/* ---- the formula ---------------------------------------------------------------------------------------- */

ZN_UNCHECKED static double square(double x)
{
    return x * x;
}

/* A summand of n. */
ZN_UNCHECKED static void add_product(inexact *sum, double w, inexact x, int n)
{
    sum->v += w * x.v;
    sum->e2 += square(w) * x.e2 + n * square(w * x.v);
}

/* y[o] = bias[o] + sum weight[o][c] * x[c], n outputs of n_in channels */
ZN_UNCHECKED static void product(inexact *y, const inexact *x, const float *weight, const float *bias, int n, int n_in)
{
    for (int o = 0; o < n; o++) {
        y[o] = (inexact){ bias[o], n_in * square(bias[o]) };
        for (int c = 0; c < n_in; c++)
            add_product(&y[o], weight[o * n_in + c], x[c], n_in);
    }
}

static void normalise(inexact *y, const inexact *x, int c, double eps)
{
    double mean = 0, var = 0, inv, shift = 0, slope = 0;

    for (int i = 0; i < c; i++)
        mean += x[i].v / c;
    for (int i = 0; i < c; i++)
        var += square(x[i].v - mean) / c;
    inv = 1 / sqrt(var + eps);
    for (int i = 0; i < c; i++) {
        shift += x[i].e2 / c;
        slope += square((x[i].v - mean) * inv) * x[i].e2 / c;
    }
    for (int i = 0; i < c; i++) {
        double v = (x[i].v - mean) * inv;

        y[i].e2 = square(inv) *
            (x[i].e2 + shift + square(v) * slope + square((8 + sqrt(c)) * (fabs(x[i].v) + fabs(mean) + sqrt(var))));
        y[i].v = v;
    }
}

/* The halves of x multiplied. */
static void gate(inexact *y, const inexact *x, int c)
{
    for (int i = 0; i < c; i++) {
        inexact a = x[i], b = x[c + i];

        y[i] = (inexact){ a.v * b.v, square(a.v) * b.e2 + square(b.v) * a.e2 + square(a.v * b.v) };
    }
}

static void add(inexact *y, const inexact *x, int c)
{
    for (int i = 0; i < c; i++) {
        y[i].v += x[i].v;
        y[i].e2 += x[i].e2 + square(y[i].v);
    }
}

static void load(inexact *to, zn_tensor x, int n, int i, int j)
{
    for (int c = 0; c < x.c; c++)
        to[c] = (inexact){ at(x, n, i, j, c), 0 };
}

/* dw at one pixel of wide, [h][w][2c] */
static void depthwise(inexact *y, const inexact *wide, zn_tensor x, int i, int j, const gated_arg *a)
{
    for (int o = 0; o < 2 * x.c; o++) {
        y[o] = (inexact){ a->bias[DW][o], 9 * square(a->bias[DW][o]) };
        for (int t = 0; t < 9; t++) {
            int ii = i + t / 3 - 1, jj = j + t % 3 - 1;

            if (ii >= 0 && jj >= 0 && ii < x.h && jj < x.w)
                add_product(&y[o], a->weight[DW][9 * o + t], wide[(ii * x.w + jj) * 2 * x.c + o], 9);
        }
    }
}

static void formula_gated(zn_case *k, const gated_arg *a, int n)
{
    zn_tensor x = k->in[0];
    int c = x.c;
    inexact *wide = zn_take((size_t)(x.h * x.w * 2 * c), sizeof *wide), *row = zn_take((size_t)c * 5, sizeof *row);
    inexact *u = row, *v = u + c, *g = v + c, *both = g + c;

    for (int p = 0; p < x.h * x.w; p++) {
        load(v, x, n, p / x.w, p % x.w);
        normalise(u, v, c, a->w.eps);
        product(wide + p * 2 * c, u, a->weight[PW1], a->bias[PW1], 2 * c, c);
    }
    for (int p = 0; p < x.h * x.w; p++) {
        depthwise(both, wide, x, p / x.w, p % x.w, a);
        gate(g, both, c);
        product(v, g, a->weight[PW2], a->bias[PW2], c, c);
        load(u, x, n, p / x.w, p % x.w);
        add(v, u, c);
        normalise(u, v, c, a->w.eps);
        product(both, u, a->weight[PW3], a->bias[PW3], 2 * c, c);
        gate(g, both, c);
        product(u, g, a->weight[PW4], a->bias[PW4], c, c);
        add(u, v, c);
        for (int o = 0; o < c; o++) {
            k->want[dense_index(x, n, p / x.w, p % x.w, o)] = u[o].v;
            k->mag[dense_index(x, n, p / x.w, p % x.w, o)] = sqrt(u[o].e2);
        }
    }
    k->terms = 8;
    free(wide);
    free(row);
}

/* ---- the cases ------------------------------------------------------------------------------------------ */

static void call_gated(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in, zn_tail tail)
{
    const gated_arg *a = k->arg;
    zn_gated w = a->w;

    (void)tail;
    for (int i = 0; i < N_PARTS; i++) {
        part(&w, i)->packed = b->alloc(dev, b->conv_size(dev, part(&w, i)));
        if (!part(&w, i)->packed)
            abort();
        b->conv_pack(dev, part(&w, i), a->weight[i], a->bias[i]);
    }
    b->special->gated(dev, y, in[0], &w);
    b->sync(dev, NULL);
    for (int i = 0; i < N_PARTS; i++)
        b->free(dev, part(&w, i)->packed);
}

static void check_gated_in(zn_test *t, int n, int h, int w, int c, int variant, zn_precision weights)
{
    zn_case k = zn_case_begin(call_gated, shape(n, h, w, c, variant % 3 == 1 ? 5 : 0));
    gated_arg a = { .w = { .eps = 1e-6f } };

    for (int i = 0; i < N_PARTS; i++) {
        int groups = i == DW ? 2 * c : 1, size = i == DW ? 3 : 1, cout = i == PW2 || i == PW4 ? c : 2 * c;
        int sum = i == DW ? 9 : c; /* products in an output */

        *part(&a.w, i) = (zn_conv){ .kh = size,
                                    .kw = size,
                                    .stride = 1,
                                    .groups = groups,
                                    .cin = i == DW ? cout : c,
                                    .cout = cout,
                                    .pad_t = size / 2,
                                    .pad_l = size / 2,
                                    .has_bias = true,
                                    .precision = weights };
        a.weight[i] = zn_random_floats(t, (size_t)(cout * sum), 1.5f / sqrtf((float)sum));
        a.bias[i] = zn_random_floats(t, (size_t)cout, 0.5f);
        zn_round_weights(a.weight[i], (size_t)cout, (size_t)sum, weights);
    }
    k.arg = &a;
    zn_case_input(t, &k, shape(n, h, w, c, variant % 3 == 2 ? 3 : 0), 1);
    snprintf(k.name, sizeof k.name, "gated block %d, %dx%dx%d%s%s%s", c, n, h, w, variant % 3 ? ", with gaps" : "",
             weights != t->precision ? ", weights in " : "",
             weights != t->precision ? zn_precision_names[weights] : "");
    for (int i = 0; i < n && zn_case_wanted(t, &k); i++)
        formula_gated(&k, &a, i);
    k.terms = zn_rounded_terms(k.terms, t->b->conv_inputs ? t->b->conv_inputs(t->one, &a.w.pw1) : ZN_W_F32, weights);
    zn_case_run(t, &k);
    zn_case_end(&k);
    for (int i = 0; i < N_PARTS; i++) {
        free(a.weight[i]);
        free(a.bias[i]);
    }
}

static void check_one_gated(zn_test *t, int n, int h, int w, int c, int variant)
{
    if (!zn_case_skipped(t))
        check_gated_in(t, n, h, w, c, variant, t->precision);
}

void zn_check_gated(zn_test *t)
{
    static const int sizes[][3] = {
        /* n, h, w */
        { 1, 1, 1 },
        { 2, 3, 5 },
        { 1, 19, 37 },
        { 1, 40, 70 },
    };
    static const int channels[] = { 8, 20, 32, 48, 96, 130 };

    if (!t->b->special || !t->b->special->gated)
        return;
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 4; j++)
            if (j < 3 || i % 2 == 0) /* the largest costs seconds with many channels */
                check_one_gated(t, sizes[j][0], sizes[j][1], sizes[j][2], channels[i], i + j);
    check_one_gated(t, 2, 40, 70, 20, 1);
    check_one_gated(t, 1, 2, 150, 8, 0); /* more than one strip across */
    check_one_gated(t, 2, 3, 261, 12, 1);
    check_one_gated(t, 1, 4, 5, 300, 2); /* more channels than strips take */
    for (int c = 1; c <= 19; c += 2)     /* every remainder of a vector */
        check_one_gated(t, 1, 3, 7, c, c);
    if (t->precision == ZN_FP32 && t->b->tensor_type[ZN_FP16_MATH] == ZN_F32) /* stored weights, float32 tensors */
        for (int p = ZN_FP16_MATH; p <= ZN_INT4_MATH; p++)
            check_gated_in(t, 1, 4, 9, 36, p, (zn_precision)p);
    if (t->precision == ZN_FP16_MATH)
        for (int p = ZN_INT8_MATH; p <= ZN_INT4_MATH; p++)
            for (int c = 36; c <= 48; c += 12) /* a GPU has a fused kernel for 48 channels */
                check_gated_in(t, 1, 9, 20, c, 0, (zn_precision)p);
}
