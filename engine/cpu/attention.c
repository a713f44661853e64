/* SPDX-License-Identifier: MIT */
/* attention.c - softmax(scale * q k^T) v without ever holding the matrix q k^T.
 *
 *   an item: a block of queries of one head;  S, P, O live in the worker's scratch memory
 *   for each block of keys:   S = q K^T           K packed as gemm wants weights, times scale
 *                             P = exp(S - max)    max so far; O and sum shrink when it grows
 *                             O += P V            V packed likewise
 *   at the end:               y = O / sum                              (Dao et al. 2022)
 *
 * Blocks do not depend on the number of threads. */
#include <math.h>
#include <string.h>

#include "../core/ints.h"
#include "device.h"

enum {
    TILES = 32,    /* of MR queries, per item */
    MAX_KEYS = 128 /* per block */
};

typedef struct attention_job {
    zn_cpu *d;
    zn_tensor y, q, k, v;
    int heads, blocks; /* blocks of queries per image and head */
    float scale;
    int keys; /* per block */
} attention_job;

typedef struct state {
    float *keys, *values; /* packed: [panel][dim][NR], [panel][key][NR] */
    float *s;             /* [query][keys] */
    float *out;           /* [panel of vdim][tile][MR][width]: partial sums of gemm */
    float *max, *sum;     /* [query] */
    const float **x;      /* [query] rows of q, or of s */
    float **y;            /* [query] rows of s */
    int n, n_max;         /* queries of this block; of a full one */
} state;

/* The panel of outputs o .. o+n of a matrix with rows of k: to[c][o] = scale * from[o][c]. */
static void pack_transposed(float *to, const float *from, size_t ld, int n, int width, int k, float scale)
{
    for (int o = 0; o < width; o++)
        for (int c = 0; c < k; c++)
            to[(size_t)c * (size_t)width + (size_t)o] = o < n ? scale * from[(size_t)o * ld + (size_t)c] : 0;
}

static void pack_rows(float *to, const float *from, size_t ld, int n, int width, int k)
{
    for (int c = 0; c < k; c++, to += width, from += ld) {
        memcpy(to, from, (size_t)n * sizeof(float));
        for (int o = n; o < width; o++)
            to[o] = 0;
    }
}

/* Rows x (k long) times one panel, into y or on top of acc. */
static void multiply(const attention_job *job, const state *st, const float *w, int k, int n, ptrdiff_t y_off,
                     float *acc)
{
    static const float bias[ZN_MAX_NR];
    static const zn_tail none = { .gain = 1 };
    zn_product g = { .x = st->x,
                     .w = w,
                     .bias = bias,
                     .y = st->y,
                     .acc = acc,
                     .t = &none,
                     .y_off = y_off,
                     .taps = 1,
                     .k = k,
                     .rows = st->n,
                     .n = n,
                     .first = !acc,
                     .last = !acc };

    job->d->k->gemm(&g);
}

/* Turns the row of scores of query r into weights and keeps out and sum in proportion. */
static void soften(const attention_job *job, const state *st, int r, int n_keys, int vdim)
{
    const zn_kernels *k = job->d->k;
    float *s = st->s + r * job->keys, top = k->maximum(s, (size_t)n_keys);

    if (top > st->max[r]) {
        zn_tail t = { .gain = expf(st->max[r] - top) };
        float *out = st->out;

        for (int o = 0; o < vdim; o += k->nr) {
            int width = zn_round_up(zn_imin(vdim - o, k->nr), k->vl);

            k->map(out + r * width, out + r * width, NULL, NULL, NULL, (size_t)width, &t);
            out += st->n_max * width;
        }
        st->sum[r] *= t.gain;
        st->max[r] = top;
    }
    st->sum[r] += k->exp_sum(s, s, st->max[r], (size_t)n_keys);
}

static void add_keys(const attention_job *job, state *st, const float *q, const float *key, const float *value,
                     int n_keys, int dim, int vdim)
{
    int nr = job->d->k->nr, vl = job->d->k->vl;
    float *out = st->out;

    for (int o = 0; o < n_keys; o += nr) {
        int n = zn_imin(n_keys - o, nr);

        pack_transposed(st->keys, key + (size_t)o * (size_t)job->k.ld, (size_t)job->k.ld, n, zn_round_up(n, vl), dim,
                        job->scale);
        for (int r = 0; r < zn_round_up(st->n, job->d->k->mr); r++)
            st->x[r] = q + (size_t)zn_imin(r, st->n - 1) * (size_t)job->q.ld;
        multiply(job, st, st->keys, dim, n, o, NULL);
    }
    for (int r = 0; r < st->n; r++)
        soften(job, st, r, n_keys, vdim);
    for (int r = 0; r < zn_round_up(st->n, job->d->k->mr); r++)
        st->x[r] = st->y[zn_imin(r, st->n - 1)];
    for (int o = 0; o < vdim; o += nr) {
        int n = zn_imin(vdim - o, nr), width = zn_round_up(n, vl);

        pack_rows(st->values, value + o, (size_t)job->v.ld, n, width, n_keys);
        multiply(job, st, st->values, n_keys, width, 0, out);
        out += st->n_max * width;
    }
}

static void attention_item(void *cookie, int item, int worker)
{
    const attention_job *job = cookie;
    const zn_kernels *k = job->d->k;
    int n_max = TILES * k->mr, block = item % job->blocks, head = item / job->blocks % job->heads;
    size_t image = (size_t)(item / job->blocks / job->heads);
    size_t n_q = (size_t)job->q.h * (size_t)job->q.w, n_k = (size_t)job->k.h * (size_t)job->k.w;
    size_t p = image * n_q + (size_t)block * (size_t)n_max;
    int dim = job->q.c / job->heads, vdim = job->v.c / job->heads;
    float *room = zn_cpu_scratch(job->d, worker);
    state st = { .n = zn_imin((int)(n_q - (size_t)block * (size_t)n_max), n_max), .n_max = n_max };
    float *y = job->y.data + p * (size_t)job->y.ld + head * vdim;

    st.x = (const float **)(void *)room;
    st.y = (float **)(void *)(st.x + n_max);
    st.max = (float *)(void *)(st.y + n_max);
    st.sum = st.max + n_max;
    st.s = st.sum + n_max;
    st.out = st.s + n_max * MAX_KEYS;
    st.keys = st.out + n_max * zn_round_up(vdim, k->vl);
    st.values = st.keys + (size_t)dim * (size_t)k->nr;
    for (int r = 0; r < n_max; r++) {
        st.max[r] = -INFINITY;
        st.sum[r] = 0;
        st.y[r] = st.s + r * job->keys;
    }
    memset(st.out, 0, (size_t)n_max * (size_t)zn_round_up(vdim, k->vl) * sizeof(float));

    for (size_t i = 0; i < n_k; i += (size_t)job->keys) {
        size_t at = image * n_k + i;
        int n = n_k - i < (size_t)job->keys ? (int)(n_k - i) : job->keys;

        add_keys(job, &st, job->q.data + p * (size_t)job->q.ld + head * dim,
                 job->k.data + at * (size_t)job->k.ld + head * dim, job->v.data + at * (size_t)job->v.ld + head * vdim,
                 n, dim, vdim);
    }
    for (int o = 0; o < vdim; o += k->nr) {
        int n = zn_imin(vdim - o, k->nr), width = zn_round_up(n, k->vl);

        for (int r = 0; r < st.n; r++) {
            zn_tail t = { .gain = 1 / st.sum[r] };

            k->map(y + (size_t)r * (size_t)job->y.ld + o, st.out + r * width, NULL, NULL, NULL, (size_t)n, &t);
        }
        st.out += n_max * width;
    }
}

void zn_cpu_attention(void *dev, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, int heads, float scale)
{
    attention_job job = { .d = dev, .y = y, .q = q, .k = k, .v = v, .heads = heads, .scale = scale };
    const zn_kernels *ks = job.d->k;
    int dim = q.c / heads, vdim = v.c / heads;

    if (!ks->gemm) {
        zn_formula_attention(job.d, y, q, k, v, heads, scale);
        return;
    }
    job.blocks = zn_items((size_t)q.h * (size_t)q.w, (size_t)(TILES * ks->mr));
    job.keys = MAX_KEYS;
    assert((size_t)(TILES * ks->mr) * (32 + 4 * (size_t)(MAX_KEYS + zn_round_up(vdim, ks->vl))) +
               4 * (size_t)ks->nr * (size_t)(dim + MAX_KEYS) <=
           ZN_SCRATCH);
    zn_pool_run(job.d->pool, attention_item, &job, q.n * heads * job.blocks);
}
