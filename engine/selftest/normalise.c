/* SPDX-License-Identifier: MIT */
/* normalise.c - the self-test of what divides by a sum: norms, softmax, attention. */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- norms -------------------------------------------------------------------------------------------- */

/* Mean and variance of channels c0 .. c0+c of rows*cols pixels. */
static void moments(zn_tensor x, int n, int i, int j, int rows, int cols, int c0, int c, double *mean, double *var)
{
    double count = (double)rows * cols * c;

    *mean = *var = 0;
    for (int u = 0; u < rows; u++)
        for (int v = 0; v < cols; v++)
            for (int o = 0; o < c; o++)
                *mean += at(x, n, i + u, j + v, c0 + o) / count;
    for (int u = 0; u < rows; u++)
        for (int v = 0; v < cols; v++)
            for (int o = 0; o < c; o++)
                *var += pow(at(x, n, i + u, j + v, c0 + o) - *mean, 2) / count;
}

static void formula_norm(zn_case *k, const zn_norm *w)
{
    zn_tensor x = k->in[0];
    int size = x.c / w->groups;
    double *of_pixel = zn_take(2 * zn_pixels(x), sizeof *of_pixel), mean = 0, var = 0;

    for (int n = 0; n < x.n; n++)
        for (int c = 0; c < x.c; c++)
            for (int i = 0; i < x.h; i++)
                for (int j = 0; j < x.w; j++) {
                    double v = at(x, n, i, j, c), inv, gamma = k->weight ? k->weight[c] : 1;
                    double beta = k->bias ? k->bias[c] : 0;
                    double *own = of_pixel + 2 * (dense_index(x, n, i, j, 0) / (size_t)x.c);

                    if (w->kind == ZN_GROUP_NORM) { /* the same until the group changes */
                        if (!(c % size) && !i && !j)
                            moments(x, n, 0, 0, x.h, x.w, c, size, &mean, &var);
                    } else {
                        if (!c)
                            moments(x, n, i, j, 1, 1, 0, x.c, &own[0], &own[1]);
                        mean = own[0];
                        var = own[1];
                    }
                    if (w->kind == ZN_RMS_NORM) {
                        var += mean * mean;
                        mean = 0;
                    }
                    inv = 1 / sqrt(var + w->eps);
                    k->want[dense_index(x, n, i, j, c)] = (v - mean) * inv * gamma + beta;
                    k->mag[dense_index(x, n, i, j, c)] =
                        (fabs(v) + fabs(mean) + sqrt(var)) * inv * fabs(gamma) + fabs(beta);
                }
    k->terms = 8 + sqrt(x.c);
    free(of_pixel);
}

static void call_norm(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in, zn_tail t)
{
    zn_norm w = *(const zn_norm *)k->arg;

    w.gamma = zn_upload_row(b, dev, k->weight, w.c);
    w.beta = zn_upload_row(b, dev, k->bias, w.c);
    b->norm(dev, y, in[0], &w, t);
    b->sync(dev, NULL);
    b->free(dev, w.gamma);
    b->free(dev, w.beta);
}

void zn_check_norm(zn_test *t)
{
    static const struct {
        int n, h, w, c, groups;
        zn_norm_kind kind;
        bool in_vectors; /* gaps of 8 numbers, not of odd ones */
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
        /* more than the registers and the shared memory of a GPU hold, with enough left for who comes first */
        { 1, 97, 99, 2056, 8, ZN_GROUP_NORM, true },
        { 1, 101, 98, 2056, 4, ZN_GROUP_NORM, true },
    };
    static const char *const names[] = { "group norm", "layer norm", "rms norm" };

    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]) * 3; i++) {
        int row = i / 3, c = rows[row].c, gap = !(i % 2) ? 0 : rows[row].in_vectors ? 8 : 3;
        zn_norm w = { .kind = rows[row].kind, .c = c, .groups = rows[row].groups, .eps = 1e-5f };
        bool far = w.kind == ZN_GROUP_NORM && rows[row].in_vectors && i % 3 == 2; /* its mean, from 0 */

        if (i % 3 && rows[row].h * c > 100000) /* once is enough */
            continue;
        zn_tensor s = shape(rows[row].n, rows[row].h, rows[row].w, c, gap);
        zn_case k = zn_case_begin(call_norm, s);
        float *gamma = zn_random_floats(t, (size_t)c, 2), *beta = zn_random_floats(t, (size_t)c, 1);

        k.arg = &w;
        k.weight = i % 3 == 1 ? NULL : gamma;
        k.bias = i % 3 == 2 ? NULL : beta;
        k.alias = i % 3 == 1 ? 0 : -1;
        if (k.alias < 0)
            s.ld = c + (rows[row].in_vectors ? 8 - gap : 2 - gap / 2);
        zn_case_input(t, &k, s, 3);
        if (far)
            zn_case_shift(t, &k, 200);
        formula_norm(&k, &w);
        zn_case_tail(t, &k, i);
        snprintf(k.name, sizeof k.name, "%s %d, %dx%dx%d, %d groups%s%s%s", names[w.kind], c, s.n, s.h, s.w, w.groups,
                 far ? ", far from 0" : "", k.alias < 0 ? "" : ", in place", zn_case_tail_name(&k));
        zn_case_run(t, &k);
        zn_case_end(&k);
        free(gamma);
        free(beta);
    }
}

/* ---- attention ---------------------------------------------------------------------------------------- */

typedef struct attention_arg {
    int heads;
    float scale;
} attention_arg;

static void formula_attention(zn_case *k, int heads, double scale)
{
    zn_tensor q = k->in[0], key = k->in[1], v = k->in[2];
    int dim = q.c / heads, vdim = v.c / heads, n_k = key.h * key.w;
    double *s = zn_take((size_t)n_k, sizeof *s), worst = 0;

    for (int n = 0; n < q.n; n++)
        for (int p = 0; p < q.h * q.w; p++)
            for (int h = 0; h < heads; h++) {
                double max = -INFINITY, sum = 0;

                for (int m = 0; m < n_k; m++) {
                    double mag = 0;

                    s[m] = 0;
                    for (int c = h * dim; c < (h + 1) * dim; c++) {
                        double a = at(q, n, 0, p, c) * at(key, n, 0, m, c) * scale;

                        s[m] += a;
                        mag += fabs(a);
                    }
                    max = fmax(max, s[m]);
                    worst = fmax(worst, mag);
                }
                for (int m = 0; m < n_k; m++)
                    sum += s[m] = exp(s[m] - max);
                for (int c = h * vdim; c < (h + 1) * vdim; c++) {
                    double a = 0, mag = 0;

                    for (int m = 0; m < n_k; m++) {
                        a += s[m] / sum * at(v, n, 0, m, c);
                        mag += s[m] / sum * fabs(at(v, n, 0, m, c));
                    }
                    k->want[dense_index(k->y, n, 0, p, c)] = a;
                    k->mag[dense_index(k->y, n, 0, p, c)] = mag;
                }
            }
    k->terms = 16 + n_k + 2 * (dim + 2) * worst; /* an error of a score is one of its exponential */
    free(s);
}

static void call_attention(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in,
                           zn_tail t)
{
    const attention_arg *a = k->arg;

    (void)t;
    b->attention(dev, y, in[0], in[1], in[2], a->heads, a->scale);
}

void zn_check_attention(zn_test *t)
{
    static const struct {
        int n, queries, keys, dim, vdim, heads;
        float size; /* of q: large ones make the softmax sharp */
    } rows[] = {
        { 1, 1, 1, 1, 1, 1, 1 },      { 1, 5, 3, 4, 4, 1, 1 },      { 2, 17, 19, 8, 12, 2, 1 },
        { 1, 64, 64, 64, 64, 1, 1 },  { 1, 50, 301, 24, 24, 3, 4 }, { 1, 200, 129, 7, 7, 1, 2 },
        { 2, 33, 128, 40, 33, 2, 9 }, { 1, 3, 1000, 16, 16, 4, 1 }, { 1, 193, 256, 130, 70, 1, 1 },
    };

    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]); i++) {
        int heads = rows[i].heads, c = heads * rows[i].dim, vc = heads * rows[i].vdim;
        attention_arg a = { heads, 1 / sqrtf((float)rows[i].dim) };
        zn_case k = zn_case_begin(call_attention, shape(rows[i].n, 1, rows[i].queries, vc, i % 3));

        k.arg = &a;
        zn_case_input(t, &k, shape(rows[i].n, 1, rows[i].queries, c, i % 2), rows[i].size);
        zn_case_input(t, &k, shape(rows[i].n, 1, rows[i].keys, c, i % 4), 1);
        zn_case_input(t, &k, shape(rows[i].n, 1, rows[i].keys, vc, i % 5), 1);
        formula_attention(&k, heads, a.scale);
        snprintf(k.name, sizeof k.name, "attention %dx%d queries, %d keys, %d heads of %d>%d", rows[i].n,
                 rows[i].queries, rows[i].keys, heads, rows[i].dim, rows[i].vdim);
        zn_case_run(t, &k);
        zn_case_end(&k);
    }
}

/* ---- softmax ------------------------------------------------------------------------------------------ */

static void formula_softmax(zn_case *k)
{
    zn_tensor x = k->in[0];

    for (int n = 0; n < x.n; n++)
        for (int i = 0; i < x.h; i++)
            for (int j = 0; j < x.w; j++) {
                double max = -INFINITY, sum = 0;

                for (int c = 0; c < x.c; c++)
                    max = fmax(max, at(x, n, i, j, c));
                for (int c = 0; c < x.c; c++)
                    sum += exp(at(x, n, i, j, c) - max);
                for (int c = 0; c < x.c; c++) {
                    size_t d = dense_index(x, n, i, j, c);

                    k->want[d] = k->mag[d] = exp(at(x, n, i, j, c) - max) / sum;
                }
            }
    k->terms = 32 + x.c;
}

static void call_softmax(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in, zn_tail t)
{
    (void)k, (void)t;
    b->softmax(dev, y, in[0]);
}

void zn_check_softmax(zn_test *t)
{
    static const int sizes[] = { 1, 2, 3, 7, 16, 33, 130, 1000 };

    for (int i = 0; i < (int)(sizeof sizes / sizeof sizes[0]) * 2; i++) {
        zn_tensor s = shape(1, 3, 1 + i, sizes[i / 2], i % 3);
        zn_case k = zn_case_begin(call_softmax, s);

        k.alias = i % 2 ? 0 : -1;
        zn_case_input(t, &k, s, 10);
        formula_softmax(&k);
        snprintf(k.name, sizeof k.name, "softmax %d%s", s.c, i % 2 ? ", in place" : "");
        zn_case_run(t, &k);
        zn_case_end(&k);
    }
}
