/* SPDX-License-Identifier: MIT */
/* formula.c - convolution and attention as loops over the formulas of backend.h: the reference. */
#include <math.h>
#include <string.h>

#include "conv.h"

/* ---- convolution -------------------------------------------------------------------------------- */

static bool suits(const zn_cpu *d, const zn_conv *w)
{
    const zn_kernels *k = d->k;

    (void)w;
    return !k->gemm;
}

static size_t size(const zn_kernels *k, const zn_conv *w)
{
    if (zn_conv_weights(w) != ZN_W_F32)
        return zn_conv_implicit.size(k, w);
    return sizeof(float) * (size_t)w->cout * (1 + (size_t)w->kh * (size_t)w->kw * (size_t)(w->cin / w->groups));
}

static void pack(const zn_cpu *d, const zn_conv *w, const float *weight, const float *bias)
{
    float *packed = w->packed;
    int cin = w->cin / w->groups, taps = w->kh * w->kw;

    if (zn_conv_weights(w) != ZN_W_F32) {
        zn_conv_implicit.pack(d, w, weight, bias);
        return;
    }
    for (int o = 0; o < w->cout; o++)
        packed[o] = bias ? bias[o] : 0;
    for (int o = 0; o < w->cout; o++)
        for (int c = 0; c < cin; c++)
            for (int t = 0; t < taps; t++)
                packed[((size_t)(t * cin + c) + 1) * (size_t)w->cout + (size_t)o] =
                    weight[((size_t)o * (size_t)cin + (size_t)c) * (size_t)taps + (size_t)t];
}

/* acc[o] += sum over the channels c of o's group of x[c] * w[c][o], for one tap */
static void add_tap(float *restrict acc, const float *restrict x, const float *restrict weight, const zn_conv *w)
{
    int cin = w->cin / w->groups, cout = w->cout / w->groups;

    for (int c = 0; c < cin; c++)
        for (int g = 0; g < w->groups; g++) {
            const float *row = weight + (size_t)c * (size_t)w->cout + g * cout;
            float v = x[g * cin + c];

            for (int o = 0; o < cout; o++)
                acc[g * cout + o] += v * row[o];
        }
}

/* The pixel of x under tap (u, v) of pixel (i, j) of y in image n; NULL: padding. */
static const float *pixel_under(const zn_conv_job *job, int n, int i, int j, int u, int v)
{
    const zn_conv *w = job->w;
    zn_tensor x = job->x;
    int yy = i * w->stride + u - w->pad_t, xx = j * w->stride + v - w->pad_l, up = w->up2 ? 2 : 1;

    if (yy < 0 || yy >= x.h * up || xx < 0 || xx >= x.w * up)
        return NULL;
    return x.data + (((size_t)n * (size_t)x.h + (size_t)(yy / up)) * (size_t)x.w + (size_t)(xx / up)) * (size_t)x.ld;
}

/* One row of outputs. */
static void conv_row(void *cookie, int item, int worker)
{
    const zn_conv_job *job = cookie;
    const zn_conv *w = job->w;
    zn_tensor y = job->y;
    const float *bias = w->packed, *weight = bias + w->cout;
    float *acc = zn_cpu_scratch(job->d, worker);

    for (int j = 0; j < y.w; j++) {
        size_t p = (size_t)item * (size_t)y.w + (size_t)j;

        memcpy(acc, bias, (size_t)w->cout * sizeof *acc);
        for (int u = 0; u < w->kh; u++)
            for (int v = 0; v < w->kw; v++) {
                const float *x = pixel_under(job, item / y.h, item % y.h, j, u, v);

                if (x)
                    add_tap(acc, x, weight + (size_t)(u * w->kw + v) * (size_t)(w->cin / w->groups) * (size_t)w->cout,
                            w);
            }
        job->d->k->map(y.data + p * (size_t)y.ld, acc, NULL, NULL, zn_residual_at(&job->t, p), (size_t)w->cout,
                       &job->t);
    }
}

/* A row of outputs with stored weights: some channels of a panel are expanded at a time, for some pixels. */
static void stored_row(void *cookie, int item, int worker)
{
    enum { PIXELS = 64 };
    const zn_conv_job *job = cookie;
    const zn_kernels *k = job->d->k;
    const zn_conv *w = job->w;
    zn_tensor y = job->y;
    float *acc = zn_cpu_scratch(job->d, worker), *room = acc + PIXELS * ZN_MAX_NR;

    for (int from = 0; from < y.w; from += PIXELS)
        for (int o = 0; o < w->cout; o += k->nr) {
            int n = w->cout - o < k->nr ? w->cout - o : k->nr, end = from + PIXELS < y.w ? from + PIXELS : y.w;

            for (int c = 0; c < w->cin; c += ZN_W_GROUP) {
                zn_conv part = { .groups = 1, .cin = w->cin - c < ZN_W_GROUP ? w->cin - c : ZN_W_GROUP, .cout = n };
                const float *bias;
                size_t tap;
                const float *weight = zn_implicit_weights(room, &tap, &bias, k, w, o / k->nr, c, part.cin);

                for (int j = from; j < end; j++) {
                    float *sum = acc + (j - from) * n;

                    if (c == 0)
                        memcpy(sum, bias, (size_t)n * sizeof *sum);
                    for (int t = 0; t < w->kh * w->kw; t++) {
                        const float *x = pixel_under(job, item / y.h, item % y.h, j, t / w->kw, t % w->kw);

                        if (x)
                            add_tap(sum, x + c, weight + (size_t)t * tap, &part);
                    }
                }
            }
            for (int j = from; j < end; j++) {
                size_t p = (size_t)item * (size_t)y.w + (size_t)j;
                const float *res = zn_residual_at(&job->t, p);

                k->map(y.data + p * (size_t)y.ld + o, acc + (j - from) * n, NULL, NULL, res ? res + o : NULL, (size_t)n,
                       &job->t);
            }
        }
}

static void run(const zn_conv_job *c)
{
    zn_conv_job job = *c;
    bool stored = zn_conv_weights(c->w) != ZN_W_F32;

    assert((size_t)c->w->cout * sizeof(float) <= ZN_SCRATCH);
    zn_pool_run(c->d->pool, stored ? stored_row : conv_row, &job, c->y.n * c->y.h);
}

/* packed: the bias, then [kh][kw][cin][cout]; stored weights as implicit.c has them */
const zn_conv_algorithm zn_conv_formula = { .name = "formula", .suits = suits, .size = size, .pack = pack, .run = run };

/* ---- attention ------------------------------------------------------------------------------------ */

typedef struct attention_job {
    zn_tensor y, q, k, v;
    const zn_attention *a;
} attention_job;

/* One query of one head over n keys: an online softmax, rescaled at each new maximum. */
static void attend(float *y, const float *q, const float *k, const float *v, int dim, int vdim, size_t n, size_t ldk,
                   size_t ldv, float scale)
{
    float max = -INFINITY, sum = 0;

    for (int i = 0; i < vdim; i++)
        y[i] = 0;
    for (size_t p = 0; p < n; p++, k += ldk, v += ldv) {
        float s = 0, e;

        for (int i = 0; i < dim; i++)
            s += q[i] * k[i];
        s *= scale;
        if (s > max) {
            float f = expf(max - s);

            for (int i = 0; i < vdim; i++)
                y[i] *= f;
            sum *= f;
            max = s;
        }
        e = expf(s - max);
        sum += e;
        for (int i = 0; i < vdim; i++)
            y[i] += e * v[i];
    }
    for (int i = 0; i < vdim; i++)
        y[i] /= sum;
}

static void attention_row(void *cookie, int item, int worker)
{
    const attention_job *job = cookie;
    zn_tensor y = job->y, q = job->q, k = job->k, v = job->v;
    size_t n_keys = (size_t)k.h * (size_t)k.w, n_queries = (size_t)q.h * (size_t)q.w, p = (size_t)item * (size_t)y.w;
    size_t first = (size_t)(item / y.h) * n_keys;
    int shared = job->a->heads / job->a->kv_heads, dim = q.c / job->a->heads, vdim = v.c / job->a->kv_heads;

    (void)worker;
    for (int j = 0; j < y.w; j++, p++) {
        size_t seen = job->a->causal ? p % n_queries + n_keys - n_queries + 1 : n_keys;

        for (int h = 0; h < job->a->heads; h++)
            attend(y.data + p * (size_t)y.ld + h * vdim, q.data + p * (size_t)q.ld + h * dim,
                   k.data + first * (size_t)k.ld + h / shared * dim, v.data + first * (size_t)v.ld + h / shared * vdim,
                   dim, vdim, seen, (size_t)k.ld, (size_t)v.ld, job->a->scale);
    }
}

void zn_formula_attention(zn_cpu *d, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, const zn_attention *a)
{
    attention_job job = { y, q, k, v, a };

    zn_pool_run(d->pool, attention_row, &job, y.n * y.h);
}
