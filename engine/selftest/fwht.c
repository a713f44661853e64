/* SPDX-License-Identifier: MIT */
/* fwht.c - the self-test of Walsh-Hadamard transforms and of the pruned convolution. */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- transforms ---------------------------------------------------------------------------------------- */

/* One transform of n elements `step` apart, in place; mag likewise, with sums only. */
static void hadamard(double *v, double *mag, int n, size_t step)
{
    for (int len = 1; len < n; len *= 2)
        for (int i = 0; i < n; i++)
            if (!(i & len)) {
                double *a = v + (size_t)i * step, *b = a + (size_t)len * step, u = *a;
                double *p = mag + (size_t)i * step, *q = p + (size_t)len * step;

                *a = u + *b;
                *b = u - *b;
                *p = *q = *p + *q;
            }
}

/* The pixel's gate as a chain of three rounds; a gate is steep where its window is nearly 0. */
static void formula_slm(double *v, double *mag, const float *slm, int n)
{
    double *e = zn_take((size_t)n, sizeof *e), *next = zn_take((size_t)n, sizeof *e);

    for (int i = 0; i < n; i++)
        e[i] = fabs(v[i]);
    for (int k = 0; k < 3; k++) {
        for (int c = 0; c < n; c++) {
            double sum = 0, dot = 0, size;

            for (int j = 0; j < 5; j++) {
                double x = c + j < 2 || c + j >= n + 2 ? 0 : e[c + j - 2];

                sum += x * x / 5;
                dot += slm[j * n + c] * x;
            }
            size = sqrt(sum + 1e-10);
            next[c] =
                1 / (1 + exp(-fmax(0, dot / (size * slm[5 * n + c] + 1e-6) * sqrt(size + 1e-10) + slm[6 * n + c])));
        }
        for (int c = 0; c < n; c++)
            e[c] = fabs(v[c]) * next[c];
    }
    for (int c = 0; c < n; c++) {
        v[c] *= next[c];
        mag[c] *= 4;
    }
    free(e);
    free(next);
}

typedef struct fwht_arg { /* in host memory */
    zn_fwht w;
    float *pre, *gate, *slm, *mix, *bias;
    int32_t *perm;
} fwht_arg;

static void formula_pixel(zn_case *k, const fwht_arg *a, size_t p)
{
    int n = a->w.n, rounds = a->w.rounds ? a->w.rounds : 1;
    double *v = zn_take(4 * (size_t)n + 4, sizeof *v), *mag = v + n, *u = mag + n, *umag = u + n + 2;

    for (int j = 0; j < k->in[0].c; j++)
        mag[j] = fabs(v[j] = k->in[0].data[p * (size_t)k->in[0].ld + (size_t)j]);
    for (int r = 0; r < rounds; r++) {
        for (int j = 0; j < n; j++) {
            int from = a->perm ? a->perm[r * n + j] : j;
            double pre = a->pre ? a->pre[r * n + j] : 1;

            u[j] = pre * v[from];
            umag[j] = fabs(pre) * mag[from];
        }
        memcpy(v, u, (size_t)n * sizeof *v);
        memcpy(mag, umag, (size_t)n * sizeof *v);
        hadamard(v, mag, n, 1);
    }
    if (a->slm)
        formula_slm(v, mag, a->slm, n);
    for (int j = 0; j < n && a->gate; j++) {
        v[j] *= a->gate[j];
        mag[j] *= fabs((double)a->gate[j]);
    }
    if (a->mix) {
        memcpy(u, v, (size_t)n * sizeof *v);
        memcpy(umag, mag, (size_t)n * sizeof *v);
        for (int j = 0; j < n; j++) {
            v[j] = mag[j] = 0;
            for (int t = 0; t < 3; t++)
                if (j + t >= 1 && j + t <= n) {
                    v[j] += a->mix[t * n + j] * u[j + t - 1];
                    mag[j] += fabs((double)a->mix[t * n + j]) * umag[j + t - 1];
                }
        }
    }
    if (a->slm || a->gate || a->mix)
        hadamard(v, mag, n, 1);
    for (int j = 0; j < k->y.c; j++) {
        double bias = a->bias ? a->bias[j] : 0;

        k->want[p * (size_t)k->y.c + (size_t)j] = zn_exact_act(v[j] + bias, a->w.act);
        k->mag[p * (size_t)k->y.c + (size_t)j] = mag[j] + fabs(bias);
    }
    free(v);
}

static void formula_lines(zn_case *k, const fwht_arg *a)
{
    zn_tensor x = k->in[0];
    int n = a->w.n, along = a->w.axis == ZN_ALONG_W ? x.w : x.h, across = x.h * x.w / along;
    double *v = zn_take(2 * (size_t)n, sizeof *v), *mag = v + n;

    for (int m = 0; m < x.n * across * x.c; m++)
        for (int from = -a->w.shift; from < along; from += n) {
            int image = m / (across * x.c), o = m / x.c % across, c = m % x.c;

            for (int pass = 0; pass < 2; pass++)
                for (int i = 0; i < n; i++) {
                    int at_ = from + i, row = a->w.axis == ZN_ALONG_W ? o : at_;
                    int col = a->w.axis == ZN_ALONG_W ? at_ : o;
                    bool inside = at_ >= 0 && at_ < along;

                    if (!pass) {
                        v[i] = inside ? at(x, image, row, col, c) : 0;
                        mag[i] = fabs(v[i]);
                    }
                    if (!pass && i == n - 1) {
                        hadamard(v, mag, n, 1);
                        for (int j = 0; j < n && a->gate; j++) {
                            double g = a->gate[a->w.per_channel ? j * x.c + c : j];

                            v[j] *= g;
                            mag[j] *= fabs(g);
                        }
                        if (a->gate)
                            hadamard(v, mag, n, 1);
                    }
                    if (pass && inside) {
                        k->want[dense_index(x, image, row, col, c)] = v[i];
                        k->mag[dense_index(x, image, row, col, c)] = mag[i];
                    }
                }
        }
    free(v);
}

static void call_fwht(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in, zn_tail tail)
{
    const fwht_arg *a = k->arg;
    zn_fwht w = a->w;
    int rounds = w.rounds ? w.rounds : 1, gates = w.n * (w.per_channel ? in[0].c : 1);
    float *pre = zn_upload_row(b, dev, a->pre, rounds * w.n), *gate = zn_upload_row(b, dev, a->gate, gates);
    float *slm = zn_upload_row(b, dev, a->slm, 7 * w.n), *mix = zn_upload_row(b, dev, a->mix, 3 * w.n);
    float *bias = zn_upload_row(b, dev, a->bias, y.c);
    void *perm = zn_upload_row(b, dev, (const void *)a->perm, rounds * w.n);

    (void)tail;
    w.pre = pre, w.gate = gate, w.slm = slm, w.mix = mix, w.bias = bias, w.perm = perm;
    b->special->fwht(dev, y, in[0], &w);
    b->sync(dev, NULL);
    b->free(dev, pre);
    b->free(dev, gate);
    b->free(dev, slm);
    b->free(dev, mix);
    b->free(dev, bias);
    b->free(dev, perm);
}

typedef struct fwht_row {
    zn_axis axis;
    int n, h, w, c, len, shift;
    const char *parts; /* g gate, G gate per channel, p permutation, s slm, m mixer, b bias, r relu */
    int rounds, cout;
} fwht_row;

static void check_one_fwht(zn_test *t, const fwht_row *r, int variant)
{
    bool along_c = r->axis == ZN_ALONG_C;
    zn_tensor s = shape(r->n, r->h, r->w, along_c && r->cout ? r->cout : r->c, variant % 3 == 1 ? 3 : 0);
    zn_case k = zn_case_begin(call_fwht, s);
    size_t n = (size_t)r->len, rounds = (size_t)(r->rounds ? r->rounds : 1);
    fwht_arg a = { .w = { .axis = r->axis, .n = r->len, .shift = r->shift, .rounds = r->rounds } };

    a.w.per_channel = strchr(r->parts, 'G');
    a.w.act = strchr(r->parts, 'r') ? ZN_RELU : ZN_NONE;
    if (strpbrk(r->parts, "gG"))
        a.gate = zn_random_floats(t, n * (size_t)(a.w.per_channel ? r->c : 1), 1.0f / (float)r->len);
    if (strchr(r->parts, 'p')) {
        a.pre = zn_random_floats(t, n * rounds, 1.0f / sqrtf((float)r->len));
        a.perm = zn_take(n * rounds, sizeof *a.perm);
        for (size_t i = 0; i < n * rounds; i++)
            a.perm[i] = (int32_t)((i * 5 + i / n) % n);
    }
    if (strchr(r->parts, 's')) {
        a.slm = zn_random_floats(t, 7 * n, 1);
        for (size_t i = 0; i < n; i++) {
            double sum = 1e-8;

            for (size_t j = 0; j < 5; j++)
                sum += a.slm[j * n + i] * a.slm[j * n + i];
            a.slm[5 * n + i] = (float)sqrt(sum);
        }
    }
    if (strchr(r->parts, 'm'))
        a.mix = zn_random_floats(t, 3 * n, 1.0f / (float)r->len);
    if (strchr(r->parts, 'b'))
        a.bias = zn_random_floats(t, (size_t)k.y.c, 1);
    k.arg = &a;
    k.alias = variant % 3 == 2 && k.y.c == r->c ? 0 : -1;
    zn_case_input(t, &k, k.alias < 0 ? shape(r->n, r->h, r->w, r->c, variant % 2) : s, 1);
    k.terms = 12 + 3 * log2(r->len) * (double)(rounds + 1) + (a.slm ? 60 : 0);
    snprintf(k.name, sizeof k.name, "fwht %s %d%s%s of %dx%dx%dx%d%s%s",
             along_c                     ? "c"
                 : r->axis == ZN_ALONG_W ? "w"
                                         : "h",
             r->len, *r->parts ? " " : "", r->parts, r->n, r->h, r->w, r->c, r->shift ? ", shifted" : "",
             k.alias < 0 ? "" : ", in place");
    if (zn_case_wanted(t, &k)) {
        for (size_t p = 0; p < zn_pixels(s) && along_c; p++)
            formula_pixel(&k, &a, p);
        if (!along_c)
            formula_lines(&k, &a);
    }
    zn_case_run(t, &k);
    zn_case_end(&k);
    free(a.pre), free(a.gate), free(a.slm), free(a.mix), free(a.bias), free(a.perm);
}

void zn_check_fwht(zn_test *t)
{
    /* clang-format off */
    static const fwht_row rows[] = {
        { ZN_ALONG_C, 1, 2, 3, 1024, 1024, 0, "", 0, 0 },   { ZN_ALONG_C, 1, 1, 2, 8192, 8192, 0, "smr", 0, 0 },
        { ZN_ALONG_C, 2, 3, 3, 64, 64, 0, "g", 0, 0 },      { ZN_ALONG_C, 1, 4, 5, 512, 512, 0, "mr", 0, 0 },
        { ZN_ALONG_C, 1, 2, 2, 16, 16, 0, "sgm", 0, 0 },    { ZN_ALONG_C, 1, 3, 3, 3, 64, 0, "pb", 4, 64 },
        { ZN_ALONG_C, 1, 3, 5, 256, 256, 0, "pb", 4, 128 }, { ZN_ALONG_C, 1, 2, 3, 4, 16, 0, "pbr", 2, 11 },
        { ZN_ALONG_C, 1, 2, 3, 8, 8, 0, "s", 0, 0 },        { ZN_ALONG_C, 1, 2, 3, 2, 2, 0, "m", 0, 0 },
        { ZN_ALONG_W, 1, 3, 64, 16, 64, 0, "g", 0, 0 },     { ZN_ALONG_W, 2, 3, 37, 16, 16, 8, "g", 0, 0 },
        { ZN_ALONG_W, 1, 2, 16, 5, 16, 0, "", 0, 0 },       { ZN_ALONG_W, 1, 2, 40, 16, 8, 0, "G", 0, 0 },
        { ZN_ALONG_W, 1, 2, 9, 7, 8, 3, "G", 0, 0 },        { ZN_ALONG_W, 1, 1, 5, 150, 1024, 0, "g", 0, 0 },
        { ZN_ALONG_H, 1, 64, 3, 16, 64, 0, "g", 0, 0 },     { ZN_ALONG_H, 2, 37, 5, 16, 16, 8, "g", 0, 0 },
        { ZN_ALONG_H, 1, 16, 11, 5, 16, 0, "", 0, 0 },      { ZN_ALONG_H, 1, 40, 2, 16, 8, 0, "G", 0, 0 },
        { ZN_ALONG_H, 1, 9, 3, 7, 8, 3, "G", 0, 0 },        { ZN_ALONG_H, 1, 5, 2, 1, 8192, 0, "g", 0, 0 },
        { ZN_ALONG_H, 1, 3, 280, 32, 512, 510, "", 0, 0 },  { ZN_ALONG_W, 1, 280, 3, 16, 1024, 0, "g", 0, 0 },
        { ZN_ALONG_H, 1, 512, 2, 16, 512, 0, "g", 0, 0 },
        /* of many channels at a time */
        { ZN_ALONG_C, 2, 3, 3, 256, 256, 0, "gb", 0, 0 },   { ZN_ALONG_C, 1, 3, 5, 40, 64, 0, "gbr", 0, 24 },
        { ZN_ALONG_C, 1, 5, 7, 128, 128, 0, "b", 0, 0 },    { ZN_ALONG_C, 1, 7, 5, 512, 512, 0, "", 0, 0 },
        { ZN_ALONG_C, 1, 3, 9, 16, 32, 0, "r", 0, 32 },     { ZN_ALONG_C, 1, 3, 9, 1024, 1024, 0, "g", 0, 0 },
        { ZN_ALONG_W, 1, 3, 256, 32, 256, 0, "g", 0, 0 },   { ZN_ALONG_W, 1, 5, 300, 24, 128, 64, "G", 0, 0 },
        { ZN_ALONG_W, 2, 3, 70, 8, 32, 5, "G", 0, 0 },      { ZN_ALONG_W, 1, 2, 1100, 8, 512, 100, "g", 0, 0 },
        { ZN_ALONG_W, 1, 3, 64, 16, 4, 1, "g", 0, 0 },      { ZN_ALONG_W, 1, 3, 33, 48, 16, 0, "", 0, 0 },
        { ZN_ALONG_H, 1, 1024, 2, 16, 1024, 0, "", 0, 0 },  { ZN_ALONG_H, 1, 200, 3, 24, 64, 17, "G", 0, 0 },
        { ZN_ALONG_H, 1, 300, 2, 16, 256, 100, "g", 0, 0 }, { ZN_ALONG_H, 2, 512, 3, 8, 512, 0, "G", 0, 0 },
        { ZN_ALONG_H, 1, 700, 2, 8, 1024, 512, "g", 0, 0 }, { ZN_ALONG_H, 1, 65, 9, 40, 32, 0, "g", 0, 0 },
    };
    /* clang-format on */
    int n = (int)(sizeof rows / sizeof rows[0]);

    if (!t->b->special || !t->b->special->fwht)
        return;
    for (int i = 0; i < n; i++)
        for (int variant = 0; variant < 3; variant++) /* dense, with gaps, in place */
            if (!zn_case_skipped(t))
                check_one_fwht(t, &rows[i], variant);
    for (int len = 2; len <= 4096; len *= 2) { /* every length */
        fwht_row c = { ZN_ALONG_C, 1, 1, 2, len, len, 0, "g", 0, 0 };
        fwht_row w = { ZN_ALONG_W, 1, 1, len, 4, len, 0, "g", 0, 0 };

        check_one_fwht(t, &c, 0);
        check_one_fwht(t, &w, 0);
    }
}

/* ---- pruned -------------------------------------------------------------------------------------------- */

static void formula_pruned(zn_case *k, const float *scale, const float *bias, const float *weight)
{
    zn_tensor x = k->in[0];
    int blocks = x.c / 8;
    bool *mask = zn_take(zn_pixels(x) * (size_t)blocks, sizeof *mask);

    for (size_t p = 0; p < zn_pixels(x); p++)
        for (int b = 0; b < blocks; b++) {
            double sum = 0;

            for (int i = 0; i < 8; i++)
                sum += fabs(x.data[p * (size_t)x.ld + (size_t)(8 * b + i)]);
            mask[p * (size_t)blocks + (size_t)b] = scale[b] * sum + bias[b] > 0;
        }
    for (int n = 0; n < x.n; n++)
        for (int i = 0; i < x.h; i++)
            for (int j = 0; j < x.w; j++)
                for (int c = 0; c < x.c; c++) {
                    size_t d = dense_index(x, n, i, j, c);

                    for (int t = 0; t < 9 && mask[d / 8]; t++) {
                        int ii = i + t / 3 - 1, jj = j + t % 3 - 1;

                        if (ii < 0 || jj < 0 || ii >= x.h || jj >= x.w || !mask[dense_index(x, n, ii, jj, c) / 8])
                            continue;
                        k->want[d] += weight[t * x.c + c] * at(x, n, ii, jj, c);
                        k->mag[d] += fabs(weight[t * x.c + c] * at(x, n, ii, jj, c));
                    }
                }
    k->terms = 10;
    free(mask);
}

static void call_pruned(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in,
                        zn_tail tail)
{
    zn_pruned w = { .c = y.c };
    float *weight = zn_upload_row(b, dev, k->weight, 9 * y.c), *gate = zn_upload_row(b, dev, k->bias, y.c / 4);
    zn_tensor mask = shape(y.n, y.h, y.w, y.c / 8, 0);

    (void)tail;
    mask.data = b->alloc(dev, span(mask) * sizeof(float));
    if (!mask.data)
        abort();
    w.scale = gate, w.bias = gate + y.c / 8, w.weight = weight;
    b->special->pruned(dev, y, mask, in[0], &w);
    b->sync(dev, NULL);
    b->free(dev, mask.data);
    b->free(dev, weight);
    b->free(dev, gate);
}

void zn_check_pruned(zn_test *t)
{
    static const int sizes[][4] = { { 1, 1, 1, 8 }, { 1, 4, 5, 24 }, { 2, 3, 4, 64 }, { 1, 4, 4, 2056 } };

    if (!t->b->special || !t->b->special->pruned)
        return;
    for (int i = 0; i < 12; i++) {
        const int *s = sizes[i % 4];
        zn_case k = zn_case_begin(call_pruned, shape(s[0], s[1], s[2], s[3], i % 3 == 1 ? 8 : 0));
        float *weight = zn_random_floats(t, (size_t)(9 * s[3]), 0.5f),
              *gate = zn_random_floats(t, (size_t)(s[3] / 4), 1);

        for (int b = 0; b < s[3] / 8; b++) { /* about none, half, and most of the blocks are pruned */
            gate[b] = 1;
            gate[s[3] / 8 + b] = i < 4 ? 0 : i < 8 ? -4 : -5;
        }
        k.weight = weight;
        k.bias = gate;
        zn_case_input(t, &k, shape(s[0], s[1], s[2], s[3], i % 2), 1);
        formula_pruned(&k, gate, gate + s[3] / 8, weight);
        snprintf(k.name, sizeof k.name, "pruned 3x3 of %dx%dx%dx%d, bias %g", s[0], s[1], s[2], s[3],
                 (double)gate[s[3] / 8]);
        zn_case_run(t, &k);
        zn_case_end(&k);
        free(weight);
        free(gate);
    }
}
