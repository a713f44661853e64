/* SPDX-License-Identifier: MIT */
/* selftest.c - every operation of a backend on odd sizes, against formulas in double precision.
 *
 *   inputs (random, NaN in the gaps between pixels) ──> backend, 1 thread  ──> y ──┐ same bits?
 *                                │                 └──> backend, n threads ──> y ──┤ canaries alive?
 *                                └──> formula in double ──> want, mag ─────────────┘ |y - want| <= tol?
 *
 * The formulas here share no code with any backend, the scalar one included; data goes through upload
 * and download, so that a device is tested the same way.  Tolerances are derived, never tuned: a sum of
 * n products is off by at most n * eps * sum |products|; the formulas return that sum as `mag` and its
 * length as `terms`.  The tail then multiplies the error by |gain| and by at most 1.13 per activation
 * (the steepest slope of SiLU and GELU), and adds a rounding of its own.
 *
 * To add a case: a line in a table below.  To add an operation: a formula, a call, and a table. */
#include "selftest.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN = 64 /* floats before and after an output */, MAX_IN = 3 };

/* Winograd mixes the pixels of a tile, with factors: its error is measured against the largest `mag`
 * of the tensor, and its transforms count for this many more terms. */
enum { WINOGRAD_TERMS = 64 };

static const double slow_act_error = 2e-6; /* absolute below 1, relative above */
static const float canary = -12345.678f;

typedef struct test {
    const zn_backend *b;
    void *one, *many; /* the backend, open with 1 and with n threads */
    zn_report *report;
    void *cookie;
    int failures;
    uint32_t seed;
} test;

typedef struct kase kase;
typedef void call_fn(const kase *k, const zn_backend *b, void *dev, zn_tensor y,
                     const zn_tensor *in, zn_tail t);

struct kase {
    char name[160];
    zn_tensor y, in[MAX_IN]; /* data in host memory; y's is not used */
    int n_in;
    int alias;               /* y is in[alias] itself; -1: is not */
    zn_tail t;               /* residual: &res or NULL */
    zn_tensor res;
    bool res_is_y;
    double *want, *mag;      /* before the tail, dense; NaN in want: any value */
    double terms;
    call_fn *call;
    const void *arg;         /* of the operation */
    const float *weight, *bias;
};

/* ---- data ------------------------------------------------------------------------------------------ */

static void *take(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);

    if (!p)
        abort(); /* a few megabytes at most */
    return p;
}

static float random_float(test *t) /* -1 .. 1 */
{
    t->seed = t->seed * 1664525u + 1013904223u;
    return (float)(t->seed >> 8) / 8388608.f - 1;
}

static float *random_floats(test *t, size_t n, float scale)
{
    float *p = take(n, sizeof *p);

    for (size_t i = 0; i < n; i++)
        p[i] = random_float(t) * scale;
    return p;
}

static size_t span(zn_tensor t) /* floats from the first to the last of a tensor */
{
    return (zn_pixels(t) - 1) * (size_t)t.ld + (size_t)t.c;
}

static zn_tensor shape(int n, int h, int w, int c, int gap)
{
    return (zn_tensor){ .n = n, .h = h, .w = w, .c = c, .ld = c + gap };
}

/* A tensor in host memory, random where it has channels and NaN between them. */
static zn_tensor random_tensor(test *t, zn_tensor s, float scale)
{
    s.data = take(span(s), sizeof(float));
    for (size_t i = 0; i < span(s); i++)
        s.data[i] = i % (size_t)s.ld < (size_t)s.c ? random_float(t) * scale : NAN;
    return s;
}

static double at(zn_tensor t, int n, int i, int j, int c)
{
    return t.data[(((size_t)n * (size_t)t.h + (size_t)i) * (size_t)t.w + (size_t)j) * (size_t)t.ld +
                  (size_t)c];
}

static size_t dense_index(zn_tensor t, int n, int i, int j, int c)
{
    return (((size_t)n * (size_t)t.h + (size_t)i) * (size_t)t.w + (size_t)j) * (size_t)t.c + (size_t)c;
}

/* A device copy that ends where its memory ends: reading on is for ASan to see. */
static zn_tensor to_device(const zn_backend *b, void *dev, zn_tensor t, void **block)
{
    size_t size = span(t) * sizeof(float), room = (size + 127) / 128 * 128;
    char *p = *block = b->alloc(dev, room);

    if (!p)
        abort();
    b->upload(dev, p + (room - size), t.data, size);
    t.data = (float *)(void *)(p + (room - size));
    return t;
}

/* ---- formulas --------------------------------------------------------------------------------------- */

static double act(double x, zn_act a)
{
    switch (a) {
    case ZN_RELU:
        return x < 0 ? 0 : x;
    case ZN_LRELU:
        return x < 0 ? x / 5 : x;
    case ZN_SILU:
        return x / (1 + exp(-x));
    case ZN_GELU:
        return x * (1 + erf(x / sqrt(2))) / 2;
    case ZN_GELU_TANH:
        return x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x))) / 2;
    case ZN_SIGMOID:
        return 1 / (1 + exp(-x));
    case ZN_TANH:
        return tanh(x);
    case ZN_SOFTCLAMP:
        return 3 * tanh(x / 3);
    default:
        return x;
    }
}

static void formula_conv(kase *k, const zn_conv *w)
{
    zn_tensor y = k->y, x = k->in[0];
    int cin = w->cin / w->groups, up = w->up2 ? 2 : 1;
    double top = 0;

    for (int n = 0; n < y.n; n++)
        for (int i = 0; i < y.h; i++)
            for (int j = 0; j < y.w; j++)
                for (int o = 0; o < y.c; o++) {
                    double sum = k->bias ? k->bias[o] : 0, mag = fabs(sum);
                    int from = o / (w->cout / w->groups) * cin;

                    for (int u = 0; u < w->kh; u++)
                        for (int v = 0; v < w->kw; v++) {
                            int yy = i * w->stride + u - w->pad_t;
                            int xx = j * w->stride + v - w->pad_l;

                            if (yy < 0 || xx < 0 || yy >= x.h * up || xx >= x.w * up)
                                continue;
                            for (int c = 0; c < cin; c++) {
                                double p = at(x, n, yy / up, xx / up, from + c) *
                                           k->weight[((o * cin + c) * w->kh + u) * w->kw + v];

                                sum += p;
                                mag += fabs(p);
                            }
                        }
                    k->want[dense_index(y, n, i, j, o)] = sum;
                    k->mag[dense_index(y, n, i, j, o)] = mag;
                    top = fmax(top, mag);
                }
    k->terms = 2 + w->kh * w->kw * cin;
    if (w->kh == 3 && w->kw == 3 && w->stride == 1 && w->groups == 1) {
        k->terms += WINOGRAD_TERMS;
        for (size_t i = 0; i < zn_pixels(y) * (size_t)y.c; i++)
            k->mag[i] = top;
    }
}

/* Mean and variance of channels c0 .. c0+c of rows*cols pixels. */
static void moments(zn_tensor x, int n, int i, int j, int rows, int cols, int c0, int c,
                    double *mean, double *var)
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

static void formula_norm(kase *k, const zn_norm *w)
{
    zn_tensor x = k->in[0];
    int size = x.c / w->groups;

    for (int n = 0; n < x.n; n++)
        for (int c = 0; c < x.c; c++)
            for (int i = 0; i < x.h; i++)
                for (int j = 0; j < x.w; j++) {
                    static double mean, var; /* of the group: the same until the group changes */
                    double v = at(x, n, i, j, c), inv, gamma = k->weight ? k->weight[c] : 1;
                    double beta = k->bias ? k->bias[c] : 0;

                    if (w->kind != ZN_GROUP_NORM)
                        moments(x, n, i, j, 1, 1, 0, x.c, &mean, &var);
                    else if (!(c % size) && !i && !j)
                        moments(x, n, 0, 0, x.h, x.w, c, size, &mean, &var);
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
}

static void formula_attention(kase *k, int heads, double scale)
{
    zn_tensor q = k->in[0], key = k->in[1], v = k->in[2];
    int dim = q.c / heads, vdim = v.c / heads, n_k = key.h * key.w;
    double *s = take((size_t)n_k, sizeof *s), worst = 0;

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

static void formula_softmax(kase *k)
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

static void formula_resize(kase *k, zn_filter f)
{
    zn_tensor y = k->y, x = k->in[0];

    for (int n = 0; n < y.n; n++)
        for (int i = 0; i < y.h; i++)
            for (int j = 0; j < y.w; j++)
                for (int c = 0; c < y.c; c++) {
                    double a = (i + 0.5) * x.h / y.h, b = (j + 0.5) * x.w / y.w, v;
                    size_t d = dense_index(y, n, i, j, c);

                    if (f == ZN_NEAREST) {
                        k->want[d] = at(x, n, (int)floor(a + 1e-9), (int)floor(b + 1e-9), c);
                        continue;
                    }
                    a = fmin(fmax(a - 0.5, 0), x.h - 1);
                    b = fmin(fmax(b - 0.5, 0), x.w - 1);
                    v = 0;
                    for (int u = 0; u < 4; u++) { /* hat functions around the four neighbours */
                        int yy = (int)a + u / 2, xx = (int)b + u % 2;

                        if (yy < x.h && xx < x.w) {
                            double p = at(x, n, yy, xx, c) * (1 - fabs(a - yy)) * (1 - fabs(b - xx));

                            v += p;
                            k->mag[d] += fabs(p) + FLT_EPSILON;
                        }
                    }
                    k->want[d] = v;
                }
    k->terms = f == ZN_NEAREST ? 0 : 16 + x.h + x.w;
}

static void formula_shuffle(kase *k, int r, bool back)
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

static void formula_binary(kase *k, zn_binary op)
{
    zn_tensor y = k->y;

    for (size_t p = 0; p < zn_pixels(y); p++)
        for (size_t c = 0; c < (size_t)y.c; c++) {
            double a = k->in[0].data[p * (size_t)k->in[0].ld + c];
            double b = k->n_in > 1 ? k->in[1].data[p * (size_t)k->in[1].ld + c] : 0;

            k->want[p * (size_t)y.c + c] = op == ZN_MUL ? a * b : a + b;
            k->mag[p * (size_t)y.c + c] = fabs(a) + fabs(b);
        }
    k->terms = 1;
}

/* One transform of n numbers `step` apart, in place; mag likewise, with sums only. */
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
    double *e = take((size_t)n, sizeof *e), *next = take((size_t)n, sizeof *e);

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
            next[c] = 1 / (1 + exp(-fmax(0, dot / (size * slm[5 * n + c] + 1e-6) * sqrt(size + 1e-10) +
                                                slm[6 * n + c])));
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

static void formula_pixel(kase *k, const fwht_arg *a, size_t p)
{
    int n = a->w.n, rounds = a->w.rounds ? a->w.rounds : 1;
    double *v = take(4 * (size_t)n + 4, sizeof *v), *mag = v + n, *u = mag + n, *umag = u + n + 2;

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

        k->want[p * (size_t)k->y.c + (size_t)j] = act(v[j] + bias, a->w.act);
        k->mag[p * (size_t)k->y.c + (size_t)j] = mag[j] + fabs(bias);
    }
    free(v);
}

static void formula_lines(kase *k, const fwht_arg *a)
{
    zn_tensor x = k->in[0];
    int n = a->w.n, along = a->w.axis == ZN_ALONG_W ? x.w : x.h, across = x.h * x.w / along;
    double *v = take(2 * (size_t)n, sizeof *v), *mag = v + n;

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

static void formula_pruned(kase *k, const float *scale, const float *bias, const float *weight)
{
    zn_tensor x = k->in[0];
    int blocks = x.c / 8;
    bool *mask = take(zn_pixels(x) * (size_t)blocks, sizeof *mask);

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

/* ---- calls --------------------------------------------------------------------------------------------- */

static void call_conv(const kase *k, const zn_backend *b, void *dev, zn_tensor y,
                      const zn_tensor *in, zn_tail t)
{
    zn_conv w = *(const zn_conv *)k->arg;

    w.packed = b->alloc(dev, b->conv_size(dev, &w));
    if (!w.packed)
        abort();
    b->conv_pack(dev, &w, k->weight, k->bias);
    b->conv2d(dev, y, in[0], &w, t);
    b->sync(dev, NULL);
    b->free(dev, w.packed);
}

static float *upload_row(const zn_backend *b, void *dev, const float *row, int c)
{
    float *p = NULL;

    if (row) {
        p = b->alloc(dev, (size_t)c * sizeof *p);
        if (!p)
            abort();
        b->upload(dev, p, row, (size_t)c * sizeof *p);
    }
    return p;
}

static void call_norm(const kase *k, const zn_backend *b, void *dev, zn_tensor y,
                      const zn_tensor *in, zn_tail t)
{
    zn_norm w = *(const zn_norm *)k->arg;

    w.gamma = upload_row(b, dev, k->weight, w.c);
    w.beta = upload_row(b, dev, k->bias, w.c);
    b->norm(dev, y, in[0], &w, t);
    b->sync(dev, NULL);
    b->free(dev, w.gamma);
    b->free(dev, w.beta);
}

typedef struct attention_arg {
    int heads;
    float scale;
} attention_arg;

static void call_attention(const kase *k, const zn_backend *b, void *dev, zn_tensor y,
                           const zn_tensor *in, zn_tail t)
{
    const attention_arg *a = k->arg;

    (void)t;
    b->attention(dev, y, in[0], in[1], in[2], a->heads, a->scale);
}

static void call_softmax(const kase *k, const zn_backend *b, void *dev, zn_tensor y,
                         const zn_tensor *in, zn_tail t)
{
    (void)k, (void)t;
    b->softmax(dev, y, in[0]);
}

static void call_resize(const kase *k, const zn_backend *b, void *dev, zn_tensor y,
                        const zn_tensor *in, zn_tail t)
{
    (void)t;
    b->resize(dev, y, in[0], *(const zn_filter *)k->arg);
}

static void call_unshuffle(const kase *k, const zn_backend *b, void *dev, zn_tensor y,
                           const zn_tensor *in, zn_tail t)
{
    (void)t;
    b->unshuffle(dev, y, in[0], *(const int *)k->arg);
}

static void call_shuffle(const kase *k, const zn_backend *b, void *dev, zn_tensor y,
                         const zn_tensor *in, zn_tail t)
{
    b->shuffle(dev, y, in[0], *(const int *)k->arg, t);
}

static void call_map(const kase *k, const zn_backend *b, void *dev, zn_tensor y,
                     const zn_tensor *in, zn_tail t)
{
    (void)k;
    b->map(dev, y, in[0], t);
}

static void call_binary(const kase *k, const zn_backend *b, void *dev, zn_tensor y,
                        const zn_tensor *in, zn_tail t)
{
    b->binary(dev, y, in[0], in[1], *(const zn_binary *)k->arg, t);
}

static void call_fwht(const kase *k, const zn_backend *b, void *dev, zn_tensor y,
                      const zn_tensor *in, zn_tail t)
{
    const fwht_arg *a = k->arg;
    zn_fwht w = a->w;
    int rounds = w.rounds ? w.rounds : 1, gates = w.n * (w.per_channel ? in[0].c : 1);
    float *pre = upload_row(b, dev, a->pre, rounds * w.n), *gate = upload_row(b, dev, a->gate, gates);
    float *slm = upload_row(b, dev, a->slm, 7 * w.n), *mix = upload_row(b, dev, a->mix, 3 * w.n);
    float *bias = upload_row(b, dev, a->bias, y.c);
    void *perm = upload_row(b, dev, (const void *)a->perm, rounds * w.n);

    (void)t;
    w.pre = pre, w.gate = gate, w.slm = slm, w.mix = mix, w.bias = bias, w.perm = perm;
    b->fwht(dev, y, in[0], &w);
    b->sync(dev, NULL);
    b->free(dev, pre);
    b->free(dev, gate);
    b->free(dev, slm);
    b->free(dev, mix);
    b->free(dev, bias);
    b->free(dev, perm);
}

static void call_pruned(const kase *k, const zn_backend *b, void *dev, zn_tensor y,
                        const zn_tensor *in, zn_tail t)
{
    zn_pruned w = { .c = y.c };
    float *weight = upload_row(b, dev, k->weight, 9 * y.c), *gate = upload_row(b, dev, k->bias, y.c / 4);
    zn_tensor mask = shape(y.n, y.h, y.w, y.c / 8, 0);

    (void)t;
    mask.data = b->alloc(dev, span(mask) * sizeof(float));
    if (!mask.data)
        abort();
    w.scale = gate, w.bias = gate + y.c / 8, w.weight = weight;
    b->pruned(dev, y, mask, in[0], &w);
    b->sync(dev, NULL);
    b->free(dev, mask.data);
    b->free(dev, weight);
    b->free(dev, gate);
}

static void call_fill(const kase *k, const zn_backend *b, void *dev, zn_tensor y,
                      const zn_tensor *in, zn_tail t)
{
    (void)in, (void)t;
    b->fill(dev, y, k->weight);
}

/* ---- running a case ------------------------------------------------------------------------------------- */

/* Runs the case on a device; returns MARGIN + span(y) + MARGIN floats: canaries, NaN or the residual or
 * the aliased input where y was, then whatever the operation made of it. */
static float *run_on(const kase *k, const zn_backend *b, void *dev)
{
    size_t len = span(k->y) + 2 * MARGIN;
    float *host = take(len, sizeof *host);
    const zn_tensor *before = k->alias >= 0 ? &k->in[k->alias] : k->res_is_y ? &k->res : NULL;
    zn_tensor in[MAX_IN], y = k->y, res = k->res;
    void *block[MAX_IN] = { NULL }, *res_block = NULL, *y_block;
    zn_tail t = k->t;

    for (size_t i = 0; i < len; i++) {
        size_t d = i - MARGIN;

        if (i < MARGIN || i >= len - MARGIN || d % (size_t)y.ld >= (size_t)y.c)
            host[i] = canary;
        else
            host[i] = before ? before->data[d / (size_t)y.ld * (size_t)before->ld + d % (size_t)y.ld]
                             : NAN;
    }
    y_block = b->alloc(dev, len * sizeof *host);
    if (!y_block)
        abort();
    b->upload(dev, y_block, host, len * sizeof *host);
    y.data = (float *)y_block + MARGIN;
    for (int i = 0; i < k->n_in; i++)
        in[i] = i == k->alias ? y : to_device(b, dev, k->in[i], &block[i]);
    if (t.residual) {
        res = k->res_is_y ? y : to_device(b, dev, k->res, &res_block);
        t.residual = &res;
    }
    k->call(k, b, dev, y, in, t);
    b->sync(dev, NULL);
    b->download(dev, host, y_block, len * sizeof *host);
    b->sync(dev, NULL);
    for (int i = 0; i < k->n_in; i++)
        b->free(dev, block[i]);
    b->free(dev, res_block);
    b->free(dev, y_block);
    return host;
}

static bool slow(zn_act a)
{
    return a > ZN_LRELU;
}

/* What y[p][c] must be, and how far off it may be. */
static double expect(const kase *k, size_t p, size_t c, double *tol)
{
    size_t d = p * (size_t)k->y.c + c;
    double gain = k->t.gain == 0 ? 1 : k->t.gain, pre = act(k->want[d], k->t.pre), want;
    double res = k->t.residual ? k->res.data[p * (size_t)k->res.ld + c] : 0;

    want = act(res + gain * pre, k->t.post);
    *tol = k->terms * FLT_EPSILON * k->mag[d];
    if (k->t.pre || k->t.post || gain != 1 || k->t.residual)
        *tol = 1.3 * fabs(gain) * *tol + 2 * FLT_EPSILON * (fabs(res) + fabs(gain * pre) + fabs(want));
    if (slow(k->t.pre))
        *tol += 1.13 * fabs(gain) * slow_act_error * fmax(1, fabs(pre));
    if (slow(k->t.post))
        *tol += slow_act_error * fmax(1, fabs(want));
    return want;
}

static bool verify(const kase *k, const float *got, char *detail, size_t size)
{
    size_t len = span(k->y) + 2 * MARGIN;

    for (size_t i = 0; i < len; i++) {
        size_t p = (i - MARGIN) / (size_t)k->y.ld, c = (i - MARGIN) % (size_t)k->y.ld;
        double want, tol;

        if (i < MARGIN || i >= len - MARGIN || c >= (size_t)k->y.c) {
            if (memcmp(&got[i], &canary, sizeof canary)) {
                snprintf(detail, size, "wrote outside the output, at float %ld", (long)i - MARGIN);
                return false;
            }
            continue;
        }
        want = expect(k, p, c, &tol);
        if (!(fabs(got[i] - want) <= tol)) {
            snprintf(detail, size, "pixel %zu (of %dx%dx%d), channel %zu: %.9g, not %.9g +- %.2g", p,
                     k->y.n, k->y.h, k->y.w, c, (double)got[i], want, tol);
            return false;
        }
    }
    return true;
}

static void run_case(test *t, kase *k)
{
    size_t size = (span(k->y) + 2 * MARGIN) * sizeof(float);
    float *one = run_on(k, t->b, t->one), *many = run_on(k, t->b, t->many);
    char detail[200] = "";
    bool ok = verify(k, one, detail, sizeof detail);

    if (ok && memcmp(one, many, size)) {
        snprintf(detail, sizeof detail, "%d threads give other bits than 1", t->b->threads(t->many));
        ok = false;
    }
    t->failures += !ok;
    t->report(t->cookie, k->name, ok, detail);
    free(one);
    free(many);
}

static kase new_case(call_fn *call, zn_tensor y)
{
    kase k = { .y = y, .alias = -1, .call = call };
    size_t len = zn_pixels(y) * (size_t)y.c;

    k.want = take(len, sizeof *k.want);
    k.mag = take(len, sizeof *k.mag);
    return k;
}

static void end_case(kase *k)
{
    for (int i = 0; i < k->n_in; i++)
        free(k->in[i].data);
    free(k->res.data);
    free(k->want);
    free(k->mag);
}

static void add_input(test *t, kase *k, zn_tensor s, float scale)
{
    k->in[k->n_in++] = random_tensor(t, s, scale);
}

/* Tails come in turn, so that every table meets all of them. */
static void add_tail(test *t, kase *k, int turn)
{
    static const struct {
        zn_act pre, post;
        float gain;
        int res; /* 0 none, 1 a tensor, 2 y itself */
    } tails[] = {
        { ZN_NONE, ZN_NONE, 0, 0 },       { ZN_RELU, ZN_NONE, 0, 0 },
        { ZN_NONE, ZN_RELU, 0, 1 },       { ZN_LRELU, ZN_NONE, 0.2f, 2 },
        { ZN_SILU, ZN_NONE, 0, 0 },       { ZN_NONE, ZN_LRELU, -1.5f, 2 },
        { ZN_GELU, ZN_NONE, 0, 1 },       { ZN_NONE, ZN_SIGMOID, 0.5f, 0 },
        { ZN_GELU_TANH, ZN_NONE, 0, 0 },  { ZN_TANH, ZN_RELU, 2, 1 },
        { ZN_NONE, ZN_NONE, 0, 2 },       { ZN_NONE, ZN_SOFTCLAMP, 0, 0 },
        { ZN_SIGMOID, ZN_GELU, 3, 2 },
    };
    int i = turn % (int)(sizeof tails / sizeof tails[0]);

    k->t = (zn_tail){ .pre = tails[i].pre, .post = tails[i].post, .gain = tails[i].gain };
    if (tails[i].res && k->alias < 0) {
        k->res = random_tensor(t, shape(k->y.n, k->y.h, k->y.w, k->y.c, turn % 3), 1);
        k->res_is_y = tails[i].res == 2;
        if (k->res_is_y) { /* same layout as y */
            free(k->res.data);
            k->res = random_tensor(t, k->y, 1);
        }
        k->t.residual = &k->res;
    }
}

static const char *tail_name(const kase *k)
{
    static const char *const acts[ZN_N_ACTS] = { "", "relu", "lrelu", "silu", "gelu", "gelu_tanh",
                                                 "sigmoid", "tanh", "softclamp" };
    static char name[64];

    snprintf(name, sizeof name, "%s%s%s%s%s%s", k->t.pre ? " " : "", acts[k->t.pre],
             k->t.gain != 0 ? " gain" : "", !k->t.residual ? "" : k->res_is_y ? " +y" : " +res",
             k->t.post ? " " : "", acts[k->t.post]);
    return name;
}

/* ---- tables ------------------------------------------------------------------------------------------------ */

typedef struct conv_row {
    int n, h, w, cin, cout, kh, kw, stride, pad_t, pad_l, groups;
    int ho, wo; /* 0: (size + 2 * pad - kernel) / stride + 1 */
    bool up2, bias;
} conv_row;

static void check_conv(test *t, const conv_row *r, int turn)
{
    int up = r->up2 ? 2 : 1;
    int ho = r->ho ? r->ho : (r->h * up + 2 * r->pad_t - r->kh) / r->stride + 1;
    int wo = r->wo ? r->wo : (r->w * up + 2 * r->pad_l - r->kw) / r->stride + 1;
    zn_conv w = { .kh = r->kh, .kw = r->kw, .stride = r->stride, .groups = r->groups,
                  .cin = r->cin, .cout = r->cout, .pad_t = r->pad_t, .pad_l = r->pad_l,
                  .up2 = r->up2, .has_bias = r->bias };
    kase k = new_case(call_conv, shape(r->n, ho, wo, r->cout, turn % 4 == 1 ? 5 : 0));
    float *weight = random_floats(t, (size_t)(r->cout * r->cin / r->groups * r->kh * r->kw), 0.5f);
    float *bias = random_floats(t, (size_t)r->cout, 1);

    k.arg = &w;
    k.weight = weight;
    k.bias = r->bias ? bias : NULL;
    add_input(t, &k, shape(r->n, r->h, r->w, r->cin, turn % 4 == 2 ? 3 : 0), 1);
    formula_conv(&k, &w);
    add_tail(t, &k, turn);
    snprintf(k.name, sizeof k.name, "conv %dx%d%s%s %d>%d, %dx%dx%d%s%s", r->kh, r->kw,
             r->stride > 1 ? " strided" : "", r->up2 ? " up2" : "", r->cin, r->cout, r->n, r->h,
             r->w, r->groups > 1 ? ", grouped" : "", tail_name(&k));
    run_case(t, &k);
    end_case(&k);
    free(weight);
    free(bias);
}

static void check_convs(test *t)
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
        { 3, 5, 7, 64, 30, 1, 1, 1, 0, 0, 1, 0, 0, false, false },
        { 1, 13, 17, 17, 65, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 1, 101, 2500, 20, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 3, 50, 1, 12, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        { 1, 1, 7, 80, 1030, 1, 1, 1, 0, 0, 1, 0, 0, false, true },
        /* cut sums */
        { 1, 3, 4, 600, 18, 3, 3, 1, 1, 1, 1, 0, 0, false, true },
        { 1, 5, 5, 200, 9, 5, 5, 2, 2, 2, 1, 0, 0, false, true },
        /* up2 */
        { 1, 1, 1, 16, 16, 3, 3, 1, 1, 1, 1, 0, 0, true, true },
        { 1, 5, 4, 17, 9, 3, 3, 1, 1, 1, 1, 0, 0, true, true },
        { 2, 6, 11, 64, 64, 3, 3, 1, 1, 1, 1, 0, 0, true, false },
        { 1, 7, 3, 20, 36, 3, 3, 1, 1, 1, 1, 0, 0, true, true },
        { 1, 11, 10, 32, 16, 3, 3, 1, 1, 1, 1, 0, 0, true, true },
        { 1, 4, 5, 8, 8, 5, 5, 1, 2, 2, 1, 0, 0, true, true },
        { 1, 4, 5, 8, 8, 1, 1, 1, 0, 0, 1, 0, 0, true, true },
        /* groups */
        { 1, 7, 6, 12, 18, 3, 3, 1, 1, 1, 3, 0, 0, false, true },
        { 1, 5, 5, 64, 64, 3, 3, 2, 1, 1, 2, 0, 0, false, true },
        { 1, 4, 6, 8, 16, 3, 3, 1, 1, 1, 8, 0, 0, false, true },
        { 2, 5, 3, 40, 20, 1, 1, 1, 0, 0, 4, 0, 0, false, true },
        /* depthwise */
        { 1, 1, 1, 2, 2, 3, 3, 1, 1, 1, 2, 0, 0, false, true },
        { 1, 8, 9, 19, 19, 3, 3, 1, 1, 1, 19, 0, 0, false, true },
        { 2, 6, 6, 64, 64, 3, 3, 2, 1, 1, 64, 0, 0, false, false },
        { 1, 12, 10, 33, 33, 7, 7, 1, 3, 3, 33, 0, 0, false, true },
        { 1, 5, 7, 130, 130, 5, 5, 1, 2, 2, 130, 0, 0, false, true },
        { 1, 3, 3, 2060, 2060, 3, 3, 1, 1, 1, 2060, 0, 0, false, true },
        { 1, 4, 3, 21, 21, 3, 3, 1, 1, 1, 21, 0, 0, true, true },
    };
    int n = (int)(sizeof rows / sizeof rows[0]);

    for (int i = 0; i < n; i++)
        for (int pass = 0; pass < 3; pass++) /* three tails and layouts each */
            check_conv(t, &rows[i], i + 5 * pass);
    for (int c = 1; c <= 37; c += 3) { /* every remainder of a vector, in and out */
        conv_row in = { 1, 3, 5, c, 8, 3, 3, 1, 1, 1, 1, 0, 0, false, true };
        conv_row out = { 1, 4, 7, 9, c, 1, 1, 1, 0, 0, 1, 0, 0, false, true };

        check_conv(t, &in, c);
        check_conv(t, &out, c + 1);
    }
    for (int w = 1; w <= 25; w++) { /* every remainder of a tile */
        conv_row r = { 1, 2 + w % 5, w, 16, 16, 3, 3, 1, 1, 1, 1, 0, 0, w % 2 == 0, true };

        check_conv(t, &r, w);
    }
}

static void check_norms(test *t)
{
    static const struct {
        int n, h, w, c, groups;
        zn_norm_kind kind;
    } rows[] = {
        { 1, 1, 1, 1, 1, ZN_GROUP_NORM },    { 1, 5, 7, 8, 4, ZN_GROUP_NORM },
        { 2, 9, 11, 30, 3, ZN_GROUP_NORM },  { 1, 33, 31, 256, 4, ZN_GROUP_NORM },
        { 1, 70, 65, 12, 12, ZN_GROUP_NORM }, { 1, 4, 4, 64, 32, ZN_GROUP_NORM },
        { 1, 1, 9, 1, 1, ZN_LAYER_NORM },    { 2, 3, 5, 7, 1, ZN_LAYER_NORM },
        { 1, 1, 31, 64, 1, ZN_LAYER_NORM },  { 1, 7, 9, 130, 1, ZN_LAYER_NORM },
        { 1, 1, 3, 1025, 1, ZN_LAYER_NORM }, { 1, 2, 3, 5, 1, ZN_RMS_NORM },
        { 3, 1, 7, 96, 1, ZN_RMS_NORM },     { 1, 4, 5, 129, 1, ZN_RMS_NORM },
    };
    static const char *const names[] = { "group norm", "layer norm", "rms norm" };

    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]) * 3; i++) {
        int row = i / 3, c = rows[row].c, gap = i % 2 ? 3 : 0;
        zn_norm w = { .kind = rows[row].kind, .c = c, .groups = rows[row].groups, .eps = 1e-5f };
        zn_tensor s = shape(rows[row].n, rows[row].h, rows[row].w, c, gap);
        kase k = new_case(call_norm, s);
        float *gamma = random_floats(t, (size_t)c, 2), *beta = random_floats(t, (size_t)c, 1);

        k.arg = &w;
        k.weight = i % 3 == 1 ? NULL : gamma;
        k.bias = i % 3 == 2 ? NULL : beta;
        k.alias = i % 3 == 1 ? 0 : -1;
        if (k.alias < 0)
            s.ld = c + 2 - gap / 2;
        add_input(t, &k, s, 3);
        formula_norm(&k, &w);
        add_tail(t, &k, i);
        snprintf(k.name, sizeof k.name, "%s %d, %dx%dx%d, %d groups%s%s", names[w.kind], c, s.n, s.h,
                 s.w, w.groups, k.alias < 0 ? "" : ", in place", tail_name(&k));
        run_case(t, &k);
        end_case(&k);
        free(gamma);
        free(beta);
    }
}

static void check_attentions(test *t)
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
        kase k = new_case(call_attention, shape(rows[i].n, 1, rows[i].queries, vc, i % 3));

        k.arg = &a;
        add_input(t, &k, shape(rows[i].n, 1, rows[i].queries, c, i % 2), rows[i].size);
        add_input(t, &k, shape(rows[i].n, 1, rows[i].keys, c, i % 4), 1);
        add_input(t, &k, shape(rows[i].n, 1, rows[i].keys, vc, i % 5), 1);
        formula_attention(&k, heads, a.scale);
        snprintf(k.name, sizeof k.name, "attention %dx%d queries, %d keys, %d heads of %d>%d",
                 rows[i].n, rows[i].queries, rows[i].keys, heads, rows[i].dim, rows[i].vdim);
        run_case(t, &k);
        end_case(&k);
    }
}

static void check_softmaxes(test *t)
{
    static const int sizes[] = { 1, 2, 3, 7, 16, 33, 130, 1000 };

    for (int i = 0; i < (int)(sizeof sizes / sizeof sizes[0]) * 2; i++) {
        zn_tensor s = shape(1, 3, 1 + i, sizes[i / 2], i % 3);
        kase k = new_case(call_softmax, s);

        k.alias = i % 2 ? 0 : -1;
        add_input(t, &k, s, 10);
        formula_softmax(&k);
        snprintf(k.name, sizeof k.name, "softmax %d%s", s.c, i % 2 ? ", in place" : "");
        run_case(t, &k);
        end_case(&k);
    }
}

static void check_moves(test *t)
{
    static const int sizes[][5] = { /* from h, w to h, w; c */
        { 1, 1, 1, 1, 1 }, { 1, 1, 5, 3, 2 },  { 4, 6, 8, 12, 16 },  { 9, 7, 4, 3, 5 },
        { 5, 5, 5, 5, 3 }, { 3, 8, 7, 11, 33 }, { 16, 12, 8, 6, 64 }, { 2, 3, 9, 4, 7 },
    };
    static const int shuffles[][4] = { /* h, w, c of the large one; r */
        { 2, 2, 1, 2 }, { 4, 6, 3, 2 }, { 6, 9, 5, 3 }, { 8, 8, 16, 2 }, { 16, 8, 3, 4 }, { 5, 7, 9, 1 },
        { 16, 16, 3, 8 },
    };

    for (int i = 0; i < (int)(sizeof sizes / sizeof sizes[0]) * 2; i++) {
        const int *s = sizes[i / 2];
        zn_filter f = i % 2 ? ZN_BILINEAR : ZN_NEAREST;
        kase k = new_case(call_resize, shape(1 + i % 3, s[2], s[3], s[4], i % 3));

        k.arg = &f;
        add_input(t, &k, shape(1 + i % 3, s[0], s[1], s[4], i % 4), 1);
        formula_resize(&k, f);
        snprintf(k.name, sizeof k.name, "resize %s %dx%d > %dx%d, %d channels",
                 i % 2 ? "bilinear" : "nearest", s[0], s[1], s[2], s[3], s[4]);
        run_case(t, &k);
        end_case(&k);
    }
    for (int i = 0; i < (int)(sizeof shuffles / sizeof shuffles[0]) * 3; i++) {
        const int *s = shuffles[i / 3];
        int r = s[3];
        bool back = i % 3 > 0;
        zn_tensor big = shape(1 + i % 2, s[0] / r * r, s[1] / r * r, s[2], i % 4);
        zn_tensor small = shape(1 + i % 2, s[0] / r, s[1] / r, s[2] * r * r, i % 3);
        kase k = new_case(back ? call_shuffle : call_unshuffle, back ? big : small);

        k.arg = &r;
        add_input(t, &k, back ? small : big, 1);
        formula_shuffle(&k, r, back);
        if (back)
            add_tail(t, &k, i);
        snprintf(k.name, sizeof k.name, "%sshuffle by %d, %d channels%s", back ? "" : "un", r, s[2],
                 tail_name(&k));
        run_case(t, &k);
        end_case(&k);
    }
}

static void check_elementwise(test *t)
{
    static const int sizes[][3] = { { 1, 1, 1 }, { 1, 7, 3 }, { 5, 3, 4 }, { 9, 11, 19 }, { 64, 41, 17 } };
    int n = (int)(sizeof sizes / sizeof sizes[0]);

    for (int i = 0; i < n * 26; i++) { /* twice every tail: from x, from and to x */
        const int *s = sizes[i % n];
        zn_tensor shape_y = shape(1, s[0], s[1], s[2], i % 3 ? 0 : 2);
        kase k = new_case(call_map, shape_y);

        k.alias = i / n % 2 ? 0 : -1;
        add_input(t, &k, k.alias < 0 ? shape(1, s[0], s[1], s[2], i % 4 ? 0 : 1) : shape_y, i % 7 ? 2 : 20);
        formula_binary(&k, ZN_ADD);
        k.terms = 0;
        add_tail(t, &k, i / n / 2);
        snprintf(k.name, sizeof k.name, "map %dx%dx%d%s%s", s[0], s[1], s[2],
                 k.alias < 0 ? "" : ", in place", tail_name(&k));
        run_case(t, &k);
        end_case(&k);
    }
    for (int i = 0; i < n * 6; i++) {
        const int *s = sizes[i % n];
        zn_binary op = i % 2 ? ZN_MUL : ZN_ADD;
        zn_tensor shape_y = shape(1, s[0], s[1], s[2], i % 3 ? 0 : 2);
        kase k = new_case(call_binary, shape_y);

        k.arg = &op;
        k.alias = i / n % 3 - 1;
        for (int a = 0; a < 2; a++)
            add_input(t, &k, k.alias == a ? shape_y : shape(1, s[0], s[1], s[2], i % 4 ? 0 : 1), 2);
        formula_binary(&k, op);
        add_tail(t, &k, i);
        snprintf(k.name, sizeof k.name, "%s %dx%dx%d%s%s", i % 2 ? "mul" : "add", s[0], s[1], s[2],
                 k.alias < 0 ? "" : ", in place", tail_name(&k));
        run_case(t, &k);
        end_case(&k);
    }
    for (int i = 0; i < n; i++) {
        const int *s = sizes[i];
        kase k = new_case(call_fill, shape(2, s[0], s[1], s[2], i));
        float *value = random_floats(t, (size_t)s[2], 1);

        k.weight = value;
        for (size_t d = 0; d < zn_pixels(k.y) * (size_t)s[2]; d++)
            k.want[d] = value[d % (size_t)s[2]];
        snprintf(k.name, sizeof k.name, "fill %dx%dx%d", s[0], s[1], s[2]);
        run_case(t, &k);
        end_case(&k);
        free(value);
    }
}

typedef struct fwht_row {
    zn_axis axis;
    int n, h, w, c, len, shift;
    const char *parts; /* g gate, G gate per channel, p permutation, s slm, m mixer, b bias, r relu */
    int rounds, cout;
} fwht_row;

static void check_fwht(test *t, const fwht_row *r, int turn)
{
    bool along_c = r->axis == ZN_ALONG_C;
    zn_tensor s = shape(r->n, r->h, r->w, along_c && r->cout ? r->cout : r->c, turn % 3 == 1 ? 3 : 0);
    kase k = new_case(call_fwht, s);
    size_t n = (size_t)r->len, rounds = (size_t)(r->rounds ? r->rounds : 1);
    fwht_arg a = { .w = { .axis = r->axis, .n = r->len, .shift = r->shift, .rounds = r->rounds } };

    a.w.per_channel = strchr(r->parts, 'G');
    a.w.act = strchr(r->parts, 'r') ? ZN_RELU : ZN_NONE;
    if (strpbrk(r->parts, "gG"))
        a.gate = random_floats(t, n * (size_t)(a.w.per_channel ? r->c : 1), 1.0f / (float)r->len);
    if (strchr(r->parts, 'p')) {
        a.pre = random_floats(t, n * rounds, 1.0f / sqrtf((float)r->len));
        a.perm = take(n * rounds, sizeof *a.perm);
        for (size_t i = 0; i < n * rounds; i++)
            a.perm[i] = (int32_t)((i * 5 + i / n) % n);
    }
    if (strchr(r->parts, 's')) {
        a.slm = random_floats(t, 7 * n, 1);
        for (size_t i = 0; i < n; i++) {
            double sum = 1e-8;

            for (size_t j = 0; j < 5; j++)
                sum += a.slm[j * n + i] * a.slm[j * n + i];
            a.slm[5 * n + i] = (float)sqrt(sum);
        }
    }
    if (strchr(r->parts, 'm'))
        a.mix = random_floats(t, 3 * n, 1.0f / (float)r->len);
    if (strchr(r->parts, 'b'))
        a.bias = random_floats(t, (size_t)k.y.c, 1);
    k.arg = &a;
    k.alias = turn % 3 == 2 && k.y.c == r->c ? 0 : -1;
    add_input(t, &k, k.alias < 0 ? shape(r->n, r->h, r->w, r->c, turn % 2) : s, 1);
    for (size_t p = 0; p < zn_pixels(s) && along_c; p++)
        formula_pixel(&k, &a, p);
    if (!along_c)
        formula_lines(&k, &a);
    k.terms = 12 + 3 * log2(r->len) * (double)(rounds + 1) + (a.slm ? 60 : 0);
    snprintf(k.name, sizeof k.name, "fwht %s %d%s%s of %dx%dx%dx%d%s%s", along_c ? "c" : r->axis == ZN_ALONG_W ? "w" : "h",
             r->len, *r->parts ? " " : "", r->parts, r->n, r->h, r->w, r->c, r->shift ? ", shifted" : "",
             k.alias < 0 ? "" : ", in place");
    run_case(t, &k);
    end_case(&k);
    free(a.pre), free(a.gate), free(a.slm), free(a.mix), free(a.bias), free(a.perm);
}

static void check_fwhts(test *t)
{
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
        { ZN_ALONG_H, 1, 512, 2, 16, 512, 0, "g", 0, 0 },
    };
    int n = (int)(sizeof rows / sizeof rows[0]);

    for (int i = 0; i < n; i++)
        for (int turn = 0; turn < 3; turn++) /* dense, with gaps, in place */
            check_fwht(t, &rows[i], turn);
    for (int len = 2; len <= 4096; len *= 2) { /* every length */
        fwht_row c = { ZN_ALONG_C, 1, 1, 2, len, len, 0, "g", 0, 0 };
        fwht_row w = { ZN_ALONG_W, 1, 1, len, 4, len, 0, "g", 0, 0 };

        check_fwht(t, &c, 0);
        check_fwht(t, &w, 0);
    }
}

static void check_pruned(test *t)
{
    static const int sizes[][4] = { { 1, 1, 1, 8 }, { 1, 4, 5, 24 }, { 2, 3, 4, 64 }, { 1, 4, 4, 2056 } };

    for (int i = 0; i < 12; i++) {
        const int *s = sizes[i % 4];
        kase k = new_case(call_pruned, shape(s[0], s[1], s[2], s[3], i % 3 == 1 ? 8 : 0));
        float *weight = random_floats(t, (size_t)(9 * s[3]), 0.5f), *gate = random_floats(t, (size_t)(s[3] / 4), 1);

        for (int b = 0; b < s[3] / 8; b++) { /* about none, half, and most of the blocks are pruned */
            gate[b] = 1;
            gate[s[3] / 8 + b] = i < 4 ? 0 : i < 8 ? -4 : -5;
        }
        k.weight = weight;
        k.bias = gate;
        add_input(t, &k, shape(s[0], s[1], s[2], s[3], i % 2), 1);
        formula_pruned(&k, gate, gate + s[3] / 8, weight);
        snprintf(k.name, sizeof k.name, "pruned 3x3 of %dx%dx%dx%d, bias %g", s[0], s[1], s[2], s[3],
                 (double)gate[s[3] / 8]);
        run_case(t, &k);
        end_case(&k);
        free(weight);
        free(gate);
    }
}

/* ---- entry points --------------------------------------------------------------------------------------------- */

int zn_selftest_group(const zn_backend *backend, int n_threads, const char *group, zn_report *report,
                      void *cookie)
{
    static const struct {
        const char *name;
        void (*check)(test *t);
    } groups[] = {
        { "conv", check_convs },         { "norm", check_norms }, { "attention", check_attentions },
        { "softmax", check_softmaxes },  { "move", check_moves }, { "elementwise", check_elementwise },
        { "fwht", check_fwhts },         { "pruned", check_pruned },
    };
    test t = { .b = backend, .report = report, .cookie = cookie, .seed = 20240601u };
    zn_error err = { "" };

    t.one = backend->open(1, &err);
    t.many = t.one ? backend->open(n_threads, &err) : NULL;
    if (!t.many) {
        report(cookie, "open", false, err.text);
        t.failures = -1;
    }
    for (size_t i = 0; t.many && i < sizeof groups / sizeof groups[0]; i++)
        if (!group || !strcmp(group, groups[i].name))
            groups[i].check(&t);
    if (t.many)
        backend->close(t.many);
    if (t.one)
        backend->close(t.one);
    return t.failures;
}

int zn_selftest_backend(const zn_backend *backend, int n_threads, zn_report *report, void *cookie)
{
    return zn_selftest_group(backend, n_threads, NULL, report, cookie);
}
