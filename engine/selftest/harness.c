/* SPDX-License-Identifier: MIT */
/* harness.c - runs a case of the self-test on a backend and judges the result; see harness.h. */
#include "harness.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN = 64 /* floats before and after an output */ };

static const double slow_act_error = 2e-6; /* absolute below 1, relative above */
static const float canary = -12345.678f;

/* ---- data ------------------------------------------------------------------------------------------ */

void *zn_take(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);

    if (!p)
        abort(); /* a few megabytes at most */
    return p;
}

static float random_float(zn_test *t) /* -1 .. 1 */
{
    t->seed = t->seed * 1664525u + 1013904223u;
    return (float)(t->seed >> 8) / 8388608.f - 1;
}

/* Rounded to the type in device memory, so that inputs carry no error of their own. */
static float as_stored(zn_type type, float x)
{
    return type == ZN_F32 ? x : type == ZN_F16 ? zn_from_f16(zn_to_f16(x)) : zn_from_bf16(zn_to_bf16(x));
}

/* -scale .. scale, as the device stores it.  In fp8 these are e4m3 values (3 bits of mantissa, multiples of 2^-9 below
 * 2^-6) times the scale: convolutions then round nothing but their results. */
static float random_element(zn_test *t, zn_type type, float scale)
{
    float x = random_float(t);

    if (t->precision == ZN_FP8_MATH) {
        const float step = fabsf(x) < 0x1p-6f ? 0x1p-9f : ldexpf(1, ilogbf(x) - 3);

        x = rintf(x / step) * step;
    }
    return as_stored(type, x * scale);
}

float *zn_random_floats(zn_test *t, size_t n, float scale)
{
    float *p = zn_take(n, sizeof *p);

    for (size_t i = 0; i < n; i++)
        p[i] = random_element(t, t->type, scale);
    return p;
}

void zn_round_weights(float *weight, size_t rows, size_t k, zn_precision p)
{
    const zn_wtype type = zn_precision_weights(p);
    uint8_t q[4 * ZN_W_GROUP];

    for (size_t r = 0; r < rows; r++, weight += k)
        for (size_t i = 0; i < k; i += ZN_W_GROUP) {
            int n = (int)(k - i < ZN_W_GROUP ? k - i : ZN_W_GROUP);

            zn_dequantise(type, weight + i, q, zn_quantise(type, q, weight + i, n), n);
        }
}

/* A tensor in host memory, random where it has channels and NaN between them; s.type is its type on the device. */
static zn_tensor random_tensor(zn_test *t, zn_tensor s, float scale)
{
    s.data = zn_take(span(s), sizeof(float));
    for (size_t i = 0; i < span(s); i++)
        s.data[i] = i % (size_t)s.ld < (size_t)s.c ? random_element(t, s.type, scale) : NAN;
    return s;
}

/* n floats as the device stores them, and back. */
static void upload_as(const zn_test *t, void *dev, void *dst, zn_type type, const float *x, size_t n)
{
    uint16_t *half;

    if (type == ZN_F32) {
        t->b->upload(dev, dst, x, n * sizeof *x);
        return;
    }
    half = zn_take(n, sizeof *half);
    for (size_t i = 0; i < n; i++)
        half[i] = type == ZN_F16 ? zn_to_f16(x[i]) : zn_to_bf16(x[i]);
    t->b->upload(dev, dst, half, n * sizeof *half);
    t->b->sync(dev, NULL);
    free(half);
}

static void download_as(const zn_test *t, void *dev, float *x, const void *src, size_t n)
{
    uint16_t *half;

    if (t->type == ZN_F32) {
        t->b->download(dev, x, src, n * sizeof *x);
        t->b->sync(dev, NULL);
        return;
    }
    half = zn_take(n, sizeof *half);
    t->b->download(dev, half, src, n * sizeof *half);
    t->b->sync(dev, NULL);
    for (size_t i = 0; i < n; i++)
        x[i] = t->type == ZN_F16 ? zn_from_f16(half[i]) : zn_from_bf16(half[i]);
    free(half);
}

/* A device copy at the end of its memory block: ASan sees a read past it. */
static zn_tensor to_device(const zn_test *test, void *dev, zn_tensor t, void **block)
{
    size_t size = span(t) * zn_type_size(t.type), room = (size + 127) / 128 * 128;
    char *p = *block = test->b->alloc(dev, room);

    if (!p)
        abort();
    upload_as(test, dev, p + (room - size), t.type, t.data, span(t));
    t.data = (float *)(void *)(p + (room - size));
    return t;
}

float *zn_upload_row(const zn_backend *b, void *dev, const float *row, int c)
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

/* ---- running a case ------------------------------------------------------------------------------------- */

double zn_exact_act(double x, zn_act a)
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
    case ZN_CLAMP:
        return fmin(fmax(x, -1), 1);
    default:
        return x;
    }
}

/* Runs the case on a device; returns MARGIN + span(y) + MARGIN floats: canaries, NaN or the residual or
 * the aliased input where y was, then whatever the operation made of it. */
static float *run_on(const zn_test *test, const zn_case *k, void *dev)
{
    const zn_backend *b = test->b;
    size_t len = span(k->y) + 2 * MARGIN;
    float *host = zn_take(len, sizeof *host);
    const zn_tensor *before = k->alias >= 0 ? &k->in[k->alias] : k->res_is_y ? &k->res : NULL;
    zn_tensor in[ZN_CASE_INPUTS], y = k->y, res = k->res;
    void *block[ZN_CASE_INPUTS] = { NULL }, *res_block = NULL, *y_block;
    zn_tail tail = k->t;

    for (size_t i = 0; i < len; i++) {
        size_t d = i - MARGIN;

        if (i < MARGIN || i >= len - MARGIN || d % (size_t)y.ld >= (size_t)y.c)
            host[i] = canary;
        else
            host[i] = before ? before->data[d / (size_t)y.ld * (size_t)before->ld + d % (size_t)y.ld] : NAN;
    }
    y_block = b->alloc(dev, len * zn_type_size(test->type));
    if (!y_block)
        abort();
    upload_as(test, dev, y_block, test->type, host, len);
    y.data = (float *)(void *)((char *)y_block + MARGIN * zn_type_size(test->type));
    y.type = test->type;
    for (int i = 0; i < k->n_in; i++)
        in[i] = i == k->alias ? y : to_device(test, dev, k->in[i], &block[i]);
    if (tail.residual) {
        res = k->res_is_y ? y : to_device(test, dev, k->res, &res_block);
        tail.residual = &res;
    }
    k->call(k, b, dev, y, in, tail);
    b->sync(dev, NULL);
    download_as(test, dev, host, y_block, len);
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

/* The expected y[p][c], and its tolerance. */
static double expect(const zn_case *k, size_t p, size_t c, double *tol)
{
    size_t d = p * (size_t)k->y.c + c;
    double gain = k->t.gain == 0 ? 1 : k->t.gain, pre = zn_exact_act(k->want[d], k->t.pre), want;
    double res = k->t.residual ? k->res.data[p * (size_t)k->res.ld + c] : 0;

    want = zn_exact_act(res + gain * pre, k->t.post);
    *tol = k->terms * FLT_EPSILON * k->mag[d];
    if (k->t.pre || k->t.post || gain != 1 || k->t.residual)
        *tol = 1.3 * fabs(gain) * *tol + 2 * FLT_EPSILON * (fabs(res) + fabs(gain * pre) + fabs(want));
    if (slow(k->t.pre))
        *tol += 1.13 * fabs(gain) * slow_act_error * fmax(1, fabs(pre));
    if (slow(k->t.post))
        *tol += slow_act_error * fmax(1, fabs(want));
    return want;
}

/* The largest magnitude among the results and their parts. */
static double largest(const zn_case *k)
{
    double top = 0, tol;

    for (size_t p = 0; p < zn_pixels(k->y); p++)
        for (size_t c = 0; c < (size_t)k->y.c; c++) {
            top = fmax(top, fabs(expect(k, p, c, &tol)));
            top = fmax(top, fabs(k->want[p * (size_t)k->y.c + c]));
            if (k->t.residual)
                top = fmax(top, fabs((double)k->res.data[p * (size_t)k->res.ld + c]));
        }
    return top;
}

static bool verify(const zn_test *t, const zn_case *k, const float *got, char *detail, size_t size)
{
    size_t len = span(k->y) + 2 * MARGIN;
    const float mark = as_stored(t->type, canary);
    const double rough = t->precision == ZN_FP32 || !t->b->remote ? 0 : 1e-2 * largest(k);

    for (size_t i = 0; i < len; i++) {
        size_t p = (i - MARGIN) / (size_t)k->y.ld, c = (i - MARGIN) % (size_t)k->y.ld;
        double want, tol;

        if (i < MARGIN || i >= len - MARGIN || c >= (size_t)k->y.c) {
            if (memcmp(&got[i], &mark, sizeof mark)) {
                snprintf(detail, size, "wrote outside the output, at float %ld", (long)i - MARGIN);
                return false;
            }
            continue;
        }
        want = expect(k, p, c, &tol);
        tol += rough + (t->type == ZN_F32 || t->b->remote ? 0 : (t->type == ZN_BF16 ? 0x1p-8 : 0x1p-10) * fabs(want));
        if (!(fabs(got[i] - want) <= tol)) {
            snprintf(detail, size, "pixel %zu (of %dx%dx%d), channel %zu: %.9g, not %.9g +- %.2g", p, k->y.n, k->y.h,
                     k->y.w, c, (double)got[i], want, tol);
            return false;
        }
    }
    return true;
}

bool zn_case_wanted(const zn_test *t, const zn_case *k)
{
    return zn_selftest_wants(t->only, t->precision, k->name);
}

void zn_case_run(zn_test *t, zn_case *k)
{
    if (!zn_case_wanted(t, k))
        return;

    size_t size = (span(k->y) + 2 * MARGIN) * sizeof(float);
    float *one = run_on(t, k, t->one), *many = run_on(t, k, t->many);
    char detail[200] = "";
    bool ok = verify(t, k, one, detail, sizeof detail);

    if (ok && memcmp(one, many, size)) {
        snprintf(detail, sizeof detail, "%d threads give other bits than 1", t->b->threads(t->many));
        ok = false;
    }
    if (t->precision != ZN_FP32) {
        char name[200];

        snprintf(name, sizeof name, "%s %s", zn_precision_names[t->precision], k->name);
        t->report(t->cookie, name, ok, detail);
    } else {
        t->report(t->cookie, k->name, ok, detail);
    }
    t->failures += !ok;
    free(one);
    free(many);
}

/* ---- making a case -------------------------------------------------------------------------------------- */

zn_case zn_case_begin(zn_case_fn *call, zn_tensor y)
{
    zn_case k = { .y = y, .alias = -1, .call = call };
    size_t len = zn_pixels(y) * (size_t)y.c;

    k.want = zn_take(len, sizeof *k.want);
    k.mag = zn_take(len, sizeof *k.mag);
    return k;
}

void zn_case_end(zn_case *k)
{
    for (int i = 0; i < k->n_in; i++)
        free(k->in[i].data);
    free(k->res.data);
    free(k->want);
    free(k->mag);
}

void zn_case_input_of(zn_test *t, zn_case *k, zn_type type, zn_tensor s, float scale)
{
    s.type = type;
    k->in[k->n_in++] = random_tensor(t, s, scale);
}

void zn_case_input(zn_test *t, zn_case *k, zn_tensor s, float scale)
{
    zn_case_input_of(t, k, t->type, s, scale);
}

void zn_case_shift(zn_test *t, zn_case *k, float by)
{
    zn_tensor x = k->in[k->n_in - 1];

    for (size_t p = 0; p < zn_pixels(x); p++)
        for (size_t c = 0; c < (size_t)x.c; c++)
            x.data[p * (size_t)x.ld + c] = as_stored(t->type, x.data[p * (size_t)x.ld + c] + by);
}

void zn_case_tail(zn_test *t, zn_case *k, int i)
{
    static const struct {
        zn_act pre, post;
        float gain;
        int res; /* 0 none, 1 a tensor, 2 y itself */
    } tails[] = {
        { ZN_NONE, ZN_NONE, 0, 0 },     { ZN_RELU, ZN_NONE, 0, 0 },       { ZN_NONE, ZN_RELU, 0, 1 },
        { ZN_LRELU, ZN_NONE, 0.2f, 2 }, { ZN_SILU, ZN_NONE, 0, 0 },       { ZN_NONE, ZN_LRELU, -1.5f, 2 },
        { ZN_GELU, ZN_NONE, 0, 1 },     { ZN_NONE, ZN_SIGMOID, 0.5f, 0 }, { ZN_GELU_TANH, ZN_NONE, 0, 0 },
        { ZN_TANH, ZN_RELU, 2, 1 },     { ZN_NONE, ZN_NONE, 0, 2 },       { ZN_NONE, ZN_SOFTCLAMP, 0, 0 },
        { ZN_SIGMOID, ZN_GELU, 3, 2 },  { ZN_NONE, ZN_CLAMP, 0, 1 },
    };
    zn_tensor dense = shape(k->y.n, k->y.h, k->y.w, k->y.c, i % 3), same = k->y;

    dense.type = same.type = t->type;
    i %= (int)(sizeof tails / sizeof tails[0]);
    k->t = (zn_tail){ .pre = tails[i].pre, .post = tails[i].post, .gain = tails[i].gain };
    if (tails[i].res && k->alias < 0) {
        k->res_is_y = tails[i].res == 2;
        k->res = random_tensor(t, k->res_is_y ? same : dense, 1);
        k->t.residual = &k->res;
    }
}

const char *zn_case_tail_name(const zn_case *k)
{
    static const char *const acts[ZN_N_ACTS] = { "",          "relu",    "lrelu", "silu",      "gelu",
                                                 "gelu_tanh", "sigmoid", "tanh",  "softclamp", "clamp" };
    static char name[64];

    snprintf(name, sizeof name, "%s%s%s%s%s%s", k->t.pre ? " " : "", acts[k->t.pre], k->t.gain != 0 ? " gain" : "",
             !k->t.residual    ? ""
                 : k->res_is_y ? " +y"
                               : " +res",
             k->t.post ? " " : "", acts[k->t.post]);
    return name;
}
