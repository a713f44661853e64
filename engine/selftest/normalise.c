/* SPDX-License-Identifier: MIT */
/* normalise.c - the self-test of norms. */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- norms -------------------------------------------------------------------------------------------- */

/* Mean and variance of channels c0 .. c0+c of rows*cols pixels. */
static void moments(zn_tensor x, int n, int i, int j, int rows, int cols, int c0, int c, double *mean, double *var)
{
    const double count = (double)rows * cols * c;
    double sum = 0, squares = 0;

    for (int u = 0; u < rows; u++)
        for (int v = 0; v < cols; v++)
            for (int o = 0; o < c; o++)
                sum += at(x, n, i + u, j + v, c0 + o);
    sum /= count;
    for (int u = 0; u < rows; u++)
        for (int v = 0; v < cols; v++)
            for (int o = 0; o < c; o++) {
                const double d = at(x, n, i + u, j + v, c0 + o) - sum;

                squares += d * d;
            }
    *mean = sum;
    *var = squares / count;
}

static void formula_norm(zn_case *k, const zn_norm *w)
{
    zn_tensor x = k->in[0];
    const int size = x.c / w->groups;
    double(*of_group)[2] = zn_take((size_t)w->groups, sizeof *of_group), own[2]; /* mean and variance */

    for (int n = 0; n < x.n; n++) {
        for (int g = 0; g < w->groups && w->kind == ZN_GROUP_NORM; g++)
            moments(x, n, 0, 0, x.h, x.w, g * size, size, &of_group[g][0], &of_group[g][1]);
        for (int i = 0; i < x.h; i++)
            for (int j = 0; j < x.w; j++) {
                if (w->kind != ZN_GROUP_NORM)
                    moments(x, n, i, j, 1, 1, 0, x.c, &own[0], &own[1]);
                if (w->kind == ZN_RMS_NORM) {
                    own[1] += own[0] * own[0];
                    own[0] = 0;
                }
                for (int c = 0; c < x.c; c++) {
                    const double *of = w->kind == ZN_GROUP_NORM ? of_group[c / size] : own, mean = of[0], var = of[1];
                    const double v = at(x, n, i, j, c), inv = 1 / sqrt(var + w->eps);
                    const double gamma = k->weight ? k->weight[c] : 1, beta = k->bias ? k->bias[c] : 0;

                    k->want[dense_index(x, n, i, j, c)] = (v - mean) * inv * gamma + beta;
                    k->mag[dense_index(x, n, i, j, c)] =
                        (fabs(v) + fabs(mean) + sqrt(var)) * inv * fabs(gamma) + fabs(beta);
                }
            }
    }
    k->terms = 8 + sqrt(x.c);
    free(of_group);
}

typedef struct norm_arg {
    zn_norm w;
    bool apart;      /* a group norm: its scales first, then rows in two parts */
    bool adaptive;   /* the inputs after x are scale, shift, gate ... */
    unsigned absent; /* ... without those of these bits */
} norm_arg;

/* Scale, shift and gate on top of formula_norm. */
static void formula_modulation(zn_case *k, unsigned absent)
{
    zn_tensor y = k->y;

    for (int n = 0; n < y.n; n++)
        for (size_t p = 0; p < (size_t)y.h * (size_t)y.w; p++)
            for (int c = 0; c < y.c; c++) {
                size_t d = dense_index(y, n, 0, 0, c) + p * (size_t)y.c;
                double scale = absent & 1 ? 0 : at(k->in[1], n, 0, 0, c);
                double shift = absent & 2 ? 0 : at(k->in[2], n, 0, 0, c);
                double gate = absent & 4 ? 1 : at(k->in[3], n, 0, 0, c);

                k->want[d] = (k->want[d] * (1 + scale) + shift) * gate;
                k->mag[d] = (k->mag[d] * (1 + fabs(scale)) + fabs(shift)) * fabs(gate);
            }
    k->terms += 6;
}

/* Rows from .. from+n-1. */
static zn_tensor some_rows(zn_tensor t, int from, int n)
{
    t.data = (float *)((char *)t.data + (size_t)from * (size_t)t.w * (size_t)t.ld * zn_type_size(t.type));
    t.h = n;
    return t;
}

static void norm_apart(const zn_backend *b, void *dev, zn_tensor y, zn_tensor x, const zn_norm *w, zn_tail tail)
{
    const int half = x.h / 2;
    zn_tensor s = { .n = 1, .h = 1, .w = 2, .c = w->c, .ld = w->c, .type = ZN_F32 }, res;
    zn_norm known = { .kind = ZN_SCALED, .c = w->c };

    s.data = b->alloc(dev, 2 * (size_t)w->c * sizeof(float));
    if (!s.data)
        abort();
    b->group_scales(dev, s, x, w);
    known.gamma = s.data;
    known.beta = s.data + w->c;
    for (int i = 0; i < 2; i++) {
        const int from = i ? half : 0, n = i ? x.h - half : half;
        zn_tail part = tail;

        if (!n)
            continue;
        if (tail.residual) {
            res = some_rows(*tail.residual, from, n);
            part.residual = &res;
        }
        b->norm(dev, some_rows(y, from, n), some_rows(x, from, n), &known, NULL, part);
    }
    b->sync(dev, NULL);
    b->free(dev, s.data);
}

static void call_norm(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in, zn_tail tail)
{
    const norm_arg *a = k->arg;
    zn_norm w = a->w;
    zn_modulation m = { 0 };

    w.gamma = zn_upload_row(b, dev, k->weight, w.c);
    w.beta = zn_upload_row(b, dev, k->bias, w.c);
    if (a->adaptive) {
        m = (zn_modulation){ in[1], in[2], in[3] };
        m.scale.data = a->absent & 1 ? NULL : m.scale.data;
        m.shift.data = a->absent & 2 ? NULL : m.shift.data;
        m.gate.data = a->absent & 4 ? NULL : m.gate.data;
    }
    if (a->apart)
        norm_apart(b, dev, y, in[0], &w, tail);
    else
        b->norm(dev, y, in[0], &w, a->adaptive ? &m : NULL, tail);
    b->sync(dev, NULL);
    b->free(dev, w.gamma);
    b->free(dev, w.beta);
}

/* Five variants of a row of the table: all of it; in place, without gamma; without beta, with a mean far from 0;
 * adaptive; a group norm in two parts. */
enum { PLAIN, IN_PLACE, FAR, ADAPTIVE, APART, VARIANTS };

void zn_check_norm(zn_test *t)
{
    static const struct {
        int n, h, w, c, groups;
        zn_norm_kind kind;
        bool in_vectors; /* gaps are multiples of 8 elements */
    } rows[] = {
        { 1, 1, 1, 1, 1, ZN_GROUP_NORM, false },
        { 1, 5, 7, 8, 4, ZN_GROUP_NORM, false },
        { 2, 9, 11, 30, 3, ZN_GROUP_NORM, false },
        { 1, 33, 31, 256, 4, ZN_GROUP_NORM, false },
        { 1, 70, 65, 12, 12, ZN_GROUP_NORM, false },
        { 1, 4, 4, 64, 32, ZN_GROUP_NORM, false },
        { 1, 1, 9, 1, 1, ZN_LAYER_NORM, false },
        { 2, 3, 5, 7, 1, ZN_LAYER_NORM, false },
        { 1, 1, 31, 64, 1, ZN_LAYER_NORM, false },
        { 1, 7, 9, 130, 1, ZN_LAYER_NORM, false },
        { 1, 1, 3, 1025, 1, ZN_LAYER_NORM, false },
        { 1, 2, 3, 5, 1, ZN_RMS_NORM, false },
        { 3, 1, 7, 96, 1, ZN_RMS_NORM, false },
        { 1, 4, 5, 129, 1, ZN_RMS_NORM, false },
        { 2, 23, 31, 64, 8, ZN_GROUP_NORM, true },
        { 1, 9, 41, 256, 1, ZN_LAYER_NORM, true },
        { 1, 7, 9, 512, 1, ZN_RMS_NORM, true },
        { 1, 5, 5, 1024, 1, ZN_LAYER_NORM, true },
        { 1, 3, 3, 2048, 1, ZN_LAYER_NORM, true },
        { 1, 163, 157, 40, 1, ZN_LAYER_NORM, true },
        { 2, 37, 41, 320, 32, ZN_GROUP_NORM, true },
        { 1, 9, 7, 1280, 32, ZN_GROUP_NORM, true },
        { 1, 6, 7, 4096, 64, ZN_GROUP_NORM, true },
        { 20, 13, 11, 16, 1, ZN_GROUP_NORM, true },
        { 3, 21, 19, 24, 12, ZN_GROUP_NORM, true },
        /* more than the registers and the shared memory of a GPU hold */
        { 1, 97, 99, 2056, 8, ZN_GROUP_NORM, true },
        { 1, 101, 98, 2056, 4, ZN_GROUP_NORM, true },
    };
    static const char *const names[] = { "group norm", "layer norm", "rms norm" };

    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]) * VARIANTS; i++) {
        int row = i / VARIANTS, variant = i % VARIANTS;
        bool large = rows[row].h * rows[row].c > 100000; /* takes seconds, and is larger than a CPU's steps need */
        int c = large && !t->b->remote ? 264 : rows[row].c;
        int gap = !((i + row) % 2) ? 0 : rows[row].in_vectors ? 8 : 3;
        norm_arg a = { .w = { .kind = rows[row].kind, .c = c, .groups = rows[row].groups, .eps = 1e-5f },
                       .apart = variant == APART,
                       .adaptive = variant == ADAPTIVE,
                       .absent = (unsigned)row % 8 };
        bool far = a.w.kind == ZN_GROUP_NORM && rows[row].in_vectors && variant == FAR;

        if (a.apart && (a.w.kind != ZN_GROUP_NORM || rows[row].n > 1))
            continue;
        if ((variant != PLAIN && variant != ADAPTIVE && large) || zn_case_skipped(t))
            continue;
        zn_tensor s = shape(rows[row].n, rows[row].h, rows[row].w, c, gap);
        zn_case k = zn_case_begin(call_norm, s);
        float *gamma = zn_random_floats(t, (size_t)c, 2), *beta = zn_random_floats(t, (size_t)c, 1);

        k.arg = &a;
        k.weight = variant == IN_PLACE ? NULL : gamma;
        k.bias = variant == FAR ? NULL : beta;
        k.alias = variant == IN_PLACE || (variant == ADAPTIVE && row % 2) ? 0 : -1;
        if (k.alias < 0)
            s.ld = c + (rows[row].in_vectors ? 8 - gap : 2 - gap / 2);
        zn_case_input(t, &k, s, 3);
        if (far)
            zn_case_shift(t, &k, 200);
        for (int j = 0; j < 3 && a.adaptive; j++)
            zn_case_input_of(t, &k, row % 4 == 1 ? ZN_F32 : t->type, shape(s.n, 1, 1, c, (row + j) % 3), 1);
        zn_case_tail(t, &k, i + row);
        snprintf(k.name, sizeof k.name, "%s%s %d, %dx%dx%d, %d groups%s%s%s%s", a.adaptive ? "adaptive " : "",
                 names[a.w.kind], c, s.n, s.h, s.w, a.w.groups, a.apart ? ", in parts" : "", far ? ", far from 0" : "",
                 k.alias < 0 ? "" : ", in place", zn_case_tail_name(&k));
        if (zn_case_wanted(t, &k)) {
            formula_norm(&k, &a.w);
            if (a.adaptive)
                formula_modulation(&k, a.absent);
        }
        zn_case_run(t, &k);
        zn_case_end(&k);
        free(gamma);
        free(beta);
    }
}
