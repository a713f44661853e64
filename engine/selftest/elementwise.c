/* SPDX-License-Identifier: MIT */
/* elementwise.c - the self-test of operations that move elements, and of elementwise ones. */
#include "harness.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A gap that keeps vectors of 8 channels aligned. */
static int gap_for(int c, int gap)
{
    return c % 8 ? gap : 8 * gap;
}

/* ---- resize and shuffle -------------------------------------------------------------------------------- */

static void formula_resize(zn_case *k, zn_filter f)
{
    zn_tensor y = k->y, x = k->in[0];

    for (int n = 0; n < y.n; n++)
        for (int i = 0; i < y.h; i++)
            for (int j = 0; j < y.w; j++)
                for (int c = 0; c < y.c; c++) {
                    double a = (i + 0.5) * x.h / y.h, b = (j + 0.5) * x.w / y.w;
                    int rows = x.h / y.h, cols = x.w / y.w;
                    size_t d = dense_index(y, n, i, j, c);

                    if (f == ZN_NEAREST) {
                        k->want[d] = at(x, n, (int)floor(a + 1e-9), (int)floor(b + 1e-9), c);
                        continue;
                    }
                    for (int u = 0; u < rows * cols; u++) {
                        double v = at(x, n, i * rows + u / cols, j * cols + u % cols, c) / (rows * cols);

                        k->want[d] += v;
                        k->mag[d] += fabs(v);
                    }
                }
    k->terms = f == ZN_NEAREST ? 0 : 3 + x.h / y.h + x.w / y.w;
}

static void call_resize(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in,
                        zn_tail tail)
{
    (void)tail;
    b->resize(dev, y, in[0], *(const zn_filter *)k->arg);
}

static void formula_shuffle(zn_case *k, int r, bool back)
{
    zn_tensor big = back ? k->y : k->in[0], small = back ? k->in[0] : k->y;

    for (int n = 0; n < big.n; n++)
        for (int i = 0; i < big.h; i++)
            for (int j = 0; j < big.w; j++)
                for (int c = 0; c < big.c; c++) {
                    int o = c * r * r + i % r * r + j % r;

                    if (back)
                        k->want[dense_index(big, n, i, j, c)] = at(small, n, i / r, j / r, o);
                    else
                        k->want[dense_index(small, n, i / r, j / r, o)] = at(big, n, i, j, c);
                }
    k->terms = 0;
}

static void call_unshuffle(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in,
                           zn_tail tail)
{
    (void)tail;
    b->unshuffle(dev, y, in[0], *(const int *)k->arg);
}

static void call_shuffle(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in,
                         zn_tail tail)
{
    b->shuffle(dev, y, in[0], *(const int *)k->arg, tail);
}

void zn_check_move(zn_test *t)
{
    static const int sizes[][5] = {
        /* from h, w to h, w; c */
        { 1, 1, 1, 1, 1 }, { 1, 1, 5, 3, 2 },   { 4, 6, 8, 12, 16 },  { 9, 7, 4, 3, 5 },
        { 5, 5, 5, 5, 3 }, { 3, 8, 7, 11, 33 }, { 16, 12, 8, 6, 64 }, { 2, 3, 9, 4, 7 },
    };
    static const int averages[][5] = {
        /* likewise */
        { 2, 2, 1, 1, 1 },   { 6, 10, 3, 5, 5 },  { 16, 12, 8, 6, 64 }, { 9, 4, 3, 4, 19 },
        { 4, 4, 1, 1, 130 }, { 31, 17, 1, 1, 9 }, { 64, 64, 1, 1, 40 }, { 14, 22, 7, 11, 264 },
    };
    static const int shuffles[][4] = {
        /* h, w, c of the large one; r */
        { 2, 2, 1, 2 }, { 4, 6, 3, 2 },   { 6, 9, 5, 3 },   { 8, 8, 16, 2 },  { 16, 8, 3, 4 },
        { 5, 7, 9, 1 }, { 16, 16, 3, 8 }, { 12, 16, 3, 2 }, { 8, 20, 12, 2 },
    };
    const int n_sizes = (int)(sizeof sizes / sizeof sizes[0]);

    for (int i = 0; i < n_sizes + (int)(sizeof averages / sizeof averages[0]) * 2; i++) {
        zn_filter f = i < n_sizes ? ZN_NEAREST : ZN_AVERAGE;
        const int *s = i < n_sizes ? sizes[i] : averages[(i - n_sizes) / 2];
        zn_case k = zn_case_begin(call_resize, shape(1 + i % 3, s[2], s[3], s[4], gap_for(s[4], i % 2)));

        k.arg = &f;
        zn_case_input(t, &k, shape(1 + i % 3, s[0], s[1], s[4], gap_for(s[4], i % 2)), 1);
        formula_resize(&k, f);
        snprintf(k.name, sizeof k.name, "%s %dx%d > %dx%d, %d channels", i < n_sizes ? "resize" : "average", s[0], s[1],
                 s[2], s[3], s[4]);
        zn_case_run(t, &k);
        zn_case_end(&k);
    }
    for (int i = 0; i < (int)(sizeof shuffles / sizeof shuffles[0]) * 3; i++) {
        const int *s = shuffles[i / 3];
        int r = s[3];
        bool back = i % 3 > 0;
        zn_tensor big = shape(1 + i % 2, s[0] / r * r, s[1] / r * r, s[2], i % 4);
        zn_tensor small = shape(1 + i % 2, s[0] / r, s[1] / r, s[2] * r * r, i % 3);
        zn_case k = zn_case_begin(back ? call_shuffle : call_unshuffle, back ? big : small);

        k.arg = &r;
        zn_case_input(t, &k, back ? small : big, 1);
        formula_shuffle(&k, r, back);
        if (back)
            zn_case_tail(t, &k, i);
        snprintf(k.name, sizeof k.name, "%sshuffle by %d, %d channels%s", back ? "" : "un", r, s[2],
                 zn_case_tail_name(&k));
        zn_case_run(t, &k);
        zn_case_end(&k);
    }
}

/* ---- map, binary, step, fill --------------------------------------------------------------------------------- */

/* in[1] may be broadcast over pixels, over channels or over both. */
static void formula_binary(zn_case *k, zn_binary op)
{
    zn_tensor y = k->y, x = k->in[1];

    for (int n = 0; n < y.n; n++)
        for (int i = 0; i < y.h; i++)
            for (int j = 0; j < y.w; j++)
                for (int c = 0; c < y.c; c++) {
                    double a = at(k->in[0], n, i, j, c);
                    double b = k->n_in > 1 ? at(x, n % x.n, i % x.h, j % x.w, c % x.c) : 0;
                    size_t d = dense_index(y, n, i, j, c);

                    k->want[d] = op == ZN_MUL ? a * b : a + b;
                    k->mag[d] = fabs(a) + fabs(b);
                }
    k->terms = 1;
}

static void call_map(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in, zn_tail tail)
{
    (void)k;
    b->map(dev, y, in[0], tail);
}

static void call_binary(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in,
                        zn_tail tail)
{
    b->binary(dev, y, in[0], in[1], *(const zn_binary *)k->arg, tail);
}

static void call_fill(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in, zn_tail tail)
{
    (void)in, (void)tail;
    b->fill(dev, y, k->weight);
}

static void formula_step(zn_case *k, double clip)
{
    const float *c = k->in[2].data;
    zn_tensor y = k->y;

    for (size_t p = 0; p < zn_pixels(y); p++)
        for (size_t i = 0; i < (size_t)y.c; i++) {
            double x = k->in[0].data[p * (size_t)k->in[0].ld + i], guess = k->in[1].data[p * (size_t)k->in[1].ld + i];
            double x0 = c[0] * x + c[1] * guess, mag = fabs(c[0] * x) + fabs(c[1] * guess);

            x0 = clip > 0 ? fmin(fmax(x0, -clip), clip) : x0;
            k->want[p * (size_t)y.c + i] = c[4] * x0 + c[5] * (c[2] * x + c[3] * x0);
            k->mag[p * (size_t)y.c + i] = (fabs(c[4]) + fabs(c[5] * c[3])) * mag + fabs(c[5] * c[2] * x);
        }
    k->terms = 5;
}

static void call_step(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in, zn_tail tail)
{
    (void)tail;
    b->step(dev, y, in[0], in[1], in[2], *(const float *)k->arg);
}

void zn_check_elementwise(zn_test *t)
{
    static const int sizes[][3] = {
        { 1, 1, 1 }, { 1, 7, 3 }, { 5, 3, 4 }, { 9, 11, 19 }, { 64, 41, 17 }, { 31, 43, 24 }
    };
    int n = (int)(sizeof sizes / sizeof sizes[0]);

    for (int i = 0; i < n * 28; i++) { /* every tail twice, the second time in place */
        const int *s = sizes[i % n];
        zn_tensor shape_y = shape(1, s[0], s[1], s[2], gap_for(s[2], (i + i / n) % 3 ? 0 : 2));
        zn_case k = zn_case_begin(call_map, shape_y);

        k.alias = i / n % 2 ? 0 : -1;
        zn_case_input(t, &k, k.alias < 0 ? shape(1, s[0], s[1], s[2], gap_for(s[2], (i + i / n) % 4 ? 0 : 1)) : shape_y,
                      i % 7 ? 2 : 20);
        formula_binary(&k, ZN_ADD);
        k.terms = 0;
        zn_case_tail(t, &k, i / n / 2);
        snprintf(k.name, sizeof k.name, "map %dx%dx%d%s%s", s[0], s[1], s[2], k.alias < 0 ? "" : ", in place",
                 zn_case_tail_name(&k));
        zn_case_run(t, &k);
        zn_case_end(&k);
    }
    for (int i = 0; i < n * 6; i++) {
        const int *s = sizes[i % n];
        zn_binary op = i % 2 ? ZN_MUL : ZN_ADD;
        zn_tensor shape_y = shape(1, s[0], s[1], s[2], gap_for(s[2], (i + i / n) % 3 ? 0 : 2));
        zn_case k = zn_case_begin(call_binary, shape_y);

        k.arg = &op;
        k.alias = i / n % 3 - 1;
        for (int a = 0; a < 2; a++)
            zn_case_input(
                t, &k, k.alias == a ? shape_y : shape(1, s[0], s[1], s[2], gap_for(s[2], (i + i / n) % 4 ? 0 : 1)), 2);
        formula_binary(&k, op);
        zn_case_tail(t, &k, i);
        snprintf(k.name, sizeof k.name, "%s %dx%dx%d%s%s", i % 2 ? "mul" : "add", s[0], s[1], s[2],
                 k.alias < 0 ? "" : ", in place", zn_case_tail_name(&k));
        zn_case_run(t, &k);
        zn_case_end(&k);
    }
    for (int i = 0; i < n * 9; i++) { /* b over pixels, over channels, over both */
        const int *s = sizes[i % n];
        zn_binary op = i % 2 ? ZN_MUL : ZN_ADD;
        zn_tensor y = shape(1 + i % 2, s[0], s[1], s[2], gap_for(s[2], i / n % 2)), b = y;
        zn_case k = zn_case_begin(call_binary, y);

        k.arg = &op;
        k.alias = i / n % 2 - 1;
        zn_case_input(t, &k, k.alias < 0 ? shape(y.n, s[0], s[1], s[2], gap_for(s[2], i % 3 % 2)) : y, 2);
        b = i % 3 == 0   ? shape(y.n, 1, 1, s[2], gap_for(s[2], i / 3 % 2))
            : i % 3 == 1 ? shape(y.n, s[0], s[1], 1, i / 3 % 3)
                         : shape(1, 1, 1, 1, 0);
        zn_case_input_of(t, &k, i / 3 % 4 ? t->type : ZN_F32, b, 2);
        formula_binary(&k, op);
        zn_case_tail(t, &k, i);
        snprintf(k.name, sizeof k.name, "%s %dx%dx%dx%d by %dx%dx%dx%d%s%s", i % 2 ? "mul" : "add", y.n, y.h, y.w, y.c,
                 b.n, b.h, b.w, b.c, k.alias < 0 ? "" : ", in place", zn_case_tail_name(&k));
        zn_case_run(t, &k);
        zn_case_end(&k);
    }
    for (int i = 0; i < n * 4; i++) {
        const int *s = sizes[i % n];
        float clip = i / n % 2 ? 1 : 0;
        zn_tensor y = shape(1, s[0], s[1], s[2], gap_for(s[2], i / n % 3 == 1));
        zn_case k = zn_case_begin(call_step, y);

        k.arg = &clip;
        k.alias = i / n - 2;
        zn_case_input_of(t, &k, k.alias == 0 || i % 3 ? t->type : ZN_F32, y, 2);
        zn_case_input(t, &k, k.alias == 1 ? y : shape(1, s[0], s[1], s[2], gap_for(s[2], i / n % 2)), 1);
        zn_case_input_of(t, &k, ZN_F32, shape(1, 1, 1, ZN_STEP_COEFS, 0), 2);
        formula_step(&k, clip);
        snprintf(k.name, sizeof k.name, "step %dx%dx%d%s%s", s[0], s[1], s[2], clip > 0 ? ", clipped" : "",
                 k.alias < 0 ? "" : ", in place");
        zn_case_run(t, &k);
        zn_case_end(&k);
    }
    for (int i = 0; i < n; i++) {
        const int *s = sizes[i];
        zn_case k = zn_case_begin(call_fill, shape(2, s[0], s[1], s[2], i));
        float *value = zn_random_floats(t, (size_t)s[2], 1);

        k.weight = value;
        for (size_t d = 0; d < zn_pixels(k.y) * (size_t)s[2]; d++)
            k.want[d] = value[d % (size_t)s[2]];
        snprintf(k.name, sizeof k.name, "fill %dx%dx%d", s[0], s[1], s[2]);
        zn_case_run(t, &k);
        zn_case_end(&k);
        free(value);
    }
}

/* ---- look-up ------------------------------------------------------------------------------------------- */

static void call_lookup(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in,
                        zn_tail tail)
{
    (void)k, (void)tail;
    b->lookup(dev, y, in[0], in[1]);
}

void zn_check_lookup(zn_test *t)
{
    static const int sizes[][4] = {
        /* rows, c of the table; h, w of the index */
        { 1, 1, 1, 1 }, { 7, 5, 1, 9 }, { 100, 16, 3, 11 }, { 1000, 33, 1, 4 }, { 33, 264, 1, 130 },
    };
    static const zn_type types[] = { ZN_F32, ZN_F16, ZN_BF16 };

    for (int i = 0; i < (int)(sizeof sizes / sizeof sizes[0]) * 3; i++) {
        const int *s = sizes[i / 3], n = 1 + i % 2;
        zn_case k = zn_case_begin(call_lookup, shape(n, s[2], s[3], s[1], gap_for(s[1], i % 2)));
        zn_tensor index;

        zn_case_input_of(t, &k, types[i % 3], shape(1, 1, s[0], s[1], gap_for(s[1], i / 2 % 2)), 2);
        zn_case_input_of(t, &k, ZN_F32, shape(n, s[2], s[3], 1, i % 3), 1);
        index = k.in[1];
        for (int p = 0; p < n * s[2] * s[3]; p++) { /* one row before the table, and one behind it */
            int row = p * 37 % (s[0] + 2) - 1;

            index.data[p * index.ld] = (float)row;
            for (int c = 0; c < s[1]; c++)
                k.want[p * s[1] + c] = row < 0 || row >= s[0] ? 0 : at(k.in[0], 0, 0, row, c);
        }
        snprintf(k.name, sizeof k.name, "lookup %d of %d rows of %d, %s", n * s[2] * s[3], s[0], s[1],
                 i % 3 == 0       ? "fp32"
                     : i % 3 == 1 ? "fp16"
                                  : "bf16");
        zn_case_run(t, &k);
        zn_case_end(&k);
    }
}
