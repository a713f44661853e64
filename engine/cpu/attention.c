/* SPDX-License-Identifier: MIT */
/* attention.c - softmax(scale * q k^T) v without the matrix q k^T in memory (Dao et al. 2022).
 *
 *   an item: a block of queries of one head;  S, P, O are in the worker's scratch memory
 *   for each block of keys:   S = scale * q K^T   K transposed and packed as the weights of gemm
 *                             P = exp(S - max)    running maximum; O and sum are rescaled when it grows
 *                             O += P V            V packed likewise
 *   at the end:               y = O / sum
 * causal: blocks of keys after the last query are skipped, in others the end of a row of P is 0.
 *
 * The sizes of blocks do not depend on the number of threads, so neither does any rounding. */
#include <math.h>
#include <string.h>

#include "../core/ints.h"
#include "device.h"

enum {
    TILES = 32,    /* of MR queries, per item at most ... */
    MIN_TILES = 8, /* ... and at least: fewer would spend their time packing K and V */
    MIN_ITEMS = 8, /* items that a smaller block should give */
    MAX_KEYS = 128 /* per block */
};

typedef struct attention_job {
    zn_cpu *d;
    zn_tensor y, q, k, v;
    const zn_attention *a;
    zn_tail scores; /* gain: the scale */
    int n_max;      /* queries per block */
    int blocks;     /* of queries per image and head */
    int panel;      /* keys per panel: NR at most, whole vectors */
} attention_job;

typedef struct state {
    float *keys, *values; /* packed: [panel][dim][NR], [panel][key][NR] */
    float *s;             /* [query][MAX_KEYS] */
    float *out;           /* [panel of vdim][tile][MR][width]: partial sums of gemm */
    float *max, *sum;     /* [query] */
    const float **x;      /* [query] rows of q, or of s */
    float **y;            /* [query] rows of s */
    int n;                /* queries of this block */
} state;

/* Bytes of scratch memory per query of a block: rows of x and y, max, sum, S and O ... */
static size_t query_size(const zn_kernels *k, int vdim)
{
    return 2 * sizeof(void *) + (size_t)(2 + MAX_KEYS + zn_round_up(vdim, k->vl)) * sizeof(float);
}

/* ... and of packed keys and values. */
static size_t packed_size(const zn_kernels *k, int panel, int dim)
{
    return ((size_t)panel * (size_t)dim + (size_t)(k->nr * MAX_KEYS)) * sizeof(float);
}

/* A panel of keys: to[c][i] = key i's element c, i < n; zeros up to width. */
static void pack_keys(const zn_kernels *k, float *to, const float *from, size_t ld, int n, int width, int dim)
{
    if (n < width)
        memset(to, 0, (size_t)dim * (size_t)width * sizeof *to);
    k->transpose(to, (size_t)width, from, ld, n, dim);
}

static void pack_values(float *to, const float *from, size_t ld, int n, int width, int keys)
{
    for (int c = 0; c < keys; c++, to += width, from += ld) {
        memcpy(to, from, (size_t)n * sizeof(float));
        for (int o = n; o < width; o++)
            to[o] = 0;
    }
}

/* Rows x (depth long) times one panel, into y with the tail, or added to acc. */
static void multiply(const attention_job *job, const state *st, const float *w, int depth, int n, ptrdiff_t y_off,
                     float *acc)
{
    static const float bias[ZN_MAX_NR];
    zn_product g = { .x = st->x,
                     .w = w,
                     .bias = bias,
                     .y = st->y,
                     .acc = acc,
                     .t = &job->scores,
                     .y_off = y_off,
                     .taps = 1,
                     .k = depth,
                     .rows = st->n,
                     .n = n,
                     .first = !acc,
                     .last = !acc };

    job->d->k->gemm(&g);
}

/* The scores of query r become weights: `seen` of n_keys are used, the others become 0. */
static void soften(const attention_job *job, const state *st, int r, int seen, int n_keys, int vdim)
{
    const zn_kernels *k = job->d->k;
    float *s = st->s + r * MAX_KEYS, top;

    for (int i = zn_imax(seen, 0); i < n_keys; i++)
        s[i] = 0;
    if (seen <= 0)
        return;
    top = k->maximum(s, (size_t)seen);
    if (top > st->max[r]) {
        zn_tail t = { .gain = expf(st->max[r] - top) };
        float *out = st->out;

        for (int o = 0; o < vdim && st->sum[r] > 0; o += k->nr) {
            int width = zn_round_up(zn_imin(vdim - o, k->nr), k->vl);

            k->map(out + r * width, out + r * width, NULL, NULL, NULL, (size_t)width, &t);
            out += job->n_max * width;
        }
        st->sum[r] *= t.gain;
        st->max[r] = top;
    }
    st->sum[r] += k->exp_sum(s, s, st->max[r], (size_t)seen);
}

/* seen: keys of this block that the first query may read; each query after it reads one more. */
static void add_keys(const attention_job *job, state *st, const float *q, const float *key, const float *value,
                     int n_keys, int seen, int dim, int vdim)
{
    const zn_kernels *k = job->d->k;
    float *out = st->out;

    for (int r = 0; r < zn_round_up(st->n, k->mr); r++)
        st->x[r] = q + (size_t)zn_imin(r, st->n - 1) * (size_t)job->q.ld;
    for (int o = 0; o < n_keys; o += job->panel) {
        int n = zn_imin(n_keys - o, job->panel);

        pack_keys(k, st->keys, key + (size_t)o * (size_t)job->k.ld, (size_t)job->k.ld, n, zn_round_up(n, k->vl), dim);
        multiply(job, st, st->keys, dim, n, o, NULL);
    }
    for (int r = 0; r < st->n; r++)
        soften(job, st, r, job->a->causal ? zn_imin(seen + r, n_keys) : n_keys, n_keys, vdim);
    for (int r = 0; r < zn_round_up(st->n, k->mr); r++)
        st->x[r] = st->y[zn_imin(r, st->n - 1)];
    for (int o = 0; o < vdim; o += k->nr) {
        int n = zn_imin(vdim - o, k->nr), width = zn_round_up(n, k->vl);

        pack_values(st->values, value + o, (size_t)job->v.ld, n, width, n_keys);
        multiply(job, st, st->values, n_keys, width, 0, out);
        out += job->n_max * width;
    }
}

/* y = O / sum */
static void finish(const attention_job *job, const state *st, float *y, int vdim)
{
    const zn_kernels *k = job->d->k;
    const float *out = st->out;

    for (int o = 0; o < vdim; o += k->nr) {
        int n = zn_imin(vdim - o, k->nr), width = zn_round_up(n, k->vl);

        for (int r = 0; r < st->n; r++) {
            zn_tail t = { .gain = 1 / st->sum[r] };

            k->map(y + (size_t)r * (size_t)job->y.ld + o, out + r * width, NULL, NULL, NULL, (size_t)n, &t);
        }
        out += job->n_max * width;
    }
}

static state begin(const attention_job *job, int worker, int n, int dim, int vdim)
{
    const zn_kernels *k = job->d->k;
    const int n_max = job->n_max;
    state st = { .n = n };

    st.x = zn_cpu_scratch(job->d, worker);
    st.y = (float **)(void *)(st.x + n_max);
    st.max = (float *)(void *)(st.y + n_max);
    st.sum = st.max + n_max;
    st.s = st.sum + n_max;
    st.out = st.s + n_max * MAX_KEYS;
    st.keys = st.out + n_max * zn_round_up(vdim, k->vl);
    st.values = st.keys + (size_t)dim * (size_t)job->panel;
    for (int r = 0; r < n_max; r++) {
        st.max[r] = -INFINITY;
        st.sum[r] = 0;
        st.y[r] = st.s + r * MAX_KEYS;
    }
    memset(st.out, 0, (size_t)n_max * (size_t)zn_round_up(vdim, k->vl) * sizeof(float));
    return st;
}

static void attention_item(void *cookie, int item, int worker)
{
    const attention_job *job = cookie;
    const zn_attention *a = job->a;
    int block = item % job->blocks, head = item / job->blocks % a->heads, kv = head / (a->heads / a->kv_heads);
    int dim = job->q.c / a->heads, vdim = job->v.c / a->kv_heads;
    size_t image = (size_t)(item / job->blocks / a->heads), first = (size_t)block * (size_t)job->n_max;
    size_t n_q = (size_t)job->q.h * (size_t)job->q.w, n_k = (size_t)job->k.h * (size_t)job->k.w,
           p = image * n_q + first;
    size_t before = a->causal ? first + n_k - n_q + 1 : n_k; /* keys that the first query reads */
    state st = begin(job, worker, zn_imin((int)(n_q - first), job->n_max), dim, vdim);
    size_t end = a->causal ? before + (size_t)st.n - 1 : n_k;

    for (size_t i = 0; i < end; i += MAX_KEYS) {
        size_t at = image * n_k + i;
        int n = end - i < MAX_KEYS ? (int)(end - i) : MAX_KEYS;
        int seen = before > i + MAX_KEYS ? MAX_KEYS : (int)((ptrdiff_t)before - (ptrdiff_t)i);

        add_keys(job, &st, job->q.data + p * (size_t)job->q.ld + head * dim,
                 job->k.data + at * (size_t)job->k.ld + kv * dim, job->v.data + at * (size_t)job->v.ld + kv * vdim, n,
                 seen, dim, vdim);
    }
    finish(job, &st, job->y.data + p * (size_t)job->y.ld + head * vdim, vdim);
}

void zn_cpu_attention(void *dev, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, const zn_attention *a)
{
    attention_job job = { .d = dev, .y = y, .q = q, .k = k, .v = v, .a = a, .scores = { .gain = a->scale } };
    const zn_kernels *ks = job.d->k;
    const size_t n_q = (size_t)q.h * (size_t)q.w;
    const int dim = q.c / a->heads, vdim = v.c / a->kv_heads;
    int tiles = TILES;

    if (!ks->gemm) {
        zn_formula_attention(job.d, y, q, k, v, a);
        return;
    }
    while (tiles > MIN_TILES && q.n * a->heads * zn_items(n_q, (size_t)(tiles * ks->mr)) < MIN_ITEMS)
        tiles /= 2;
    /* A weight file may ask for heads of any width: half of the scratch memory for queries, half for keys and values. */
    while (tiles > 1 && (size_t)(tiles * ks->mr) * query_size(ks, vdim) > ZN_SCRATCH / 2)
        tiles /= 2;
    job.panel = ks->nr;
    while (job.panel > ks->vl && packed_size(ks, job.panel, dim) > ZN_SCRATCH / 2)
        job.panel -= ks->vl;
    job.n_max = tiles * ks->mr;
    job.blocks = zn_items(n_q, (size_t)job.n_max);
    assert((size_t)job.n_max * query_size(ks, vdim) + packed_size(ks, job.panel, dim) <= ZN_SCRATCH);
    zn_pool_run(job.d->pool, attention_item, &job, q.n * a->heads * job.blocks);
}
