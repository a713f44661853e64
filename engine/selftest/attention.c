/* SPDX-License-Identifier: MIT */
/* attention.c - the self-test of attention and of rotary position embeddings. */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- attention ---------------------------------------------------------------------------------------- */

static void formula_attention(zn_case *k, const zn_attention *a)
{
    zn_tensor q = k->in[0], key = k->in[1], v = k->in[2];
    int shared = a->heads / a->kv_heads, dim = q.c / a->heads, vdim = v.c / a->kv_heads;
    int n_q = q.h * q.w, n_k = key.h * key.w;
    double *s = zn_take((size_t)n_k, sizeof *s), worst = 0;

    for (int n = 0; n < q.n; n++)
        for (int p = 0; p < n_q; p++)
            for (int h = 0; h < a->heads; h++) {
                int seen = a->causal ? p + n_k - n_q + 1 : n_k, kv = h / shared;
                double max = -INFINITY, sum = 0;

                for (int m = 0; m < seen; m++) {
                    double mag = 0;

                    s[m] = 0;
                    for (int c = 0; c < dim; c++) {
                        double product = at(q, n, 0, p, h * dim + c) * at(key, n, 0, m, kv * dim + c) * a->scale;

                        s[m] += product;
                        mag += fabs(product);
                    }
                    max = fmax(max, s[m]);
                    worst = fmax(worst, mag);
                }
                for (int m = 0; m < seen; m++)
                    sum += s[m] = exp(s[m] - max);
                for (int c = 0; c < vdim; c++) {
                    size_t d = dense_index(k->y, n, 0, p, h * vdim + c);

                    for (int m = 0; m < seen; m++) {
                        double product = s[m] / sum * at(v, n, 0, m, kv * vdim + c);

                        k->want[d] += product;
                        k->mag[d] += fabs(product);
                    }
                }
            }
    k->terms = 16 + n_k + 2 * (dim + 2) * worst; /* an error of a score is one of its exponential */
    free(s);
}

static void call_attention(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in,
                           zn_tail tail)
{
    (void)tail;
    b->attention(dev, y, in[0], in[1], in[2], k->arg);
}

void zn_check_attention(zn_test *t)
{
    static const struct {
        int n, queries, keys, dim, vdim, heads, kv_heads;
        bool causal, in_vectors; /* in_vectors: gaps are multiples of 8 elements */
        float size;              /* of q: large values make the softmax sharp */
    } rows[] = {
        { 1, 1, 1, 1, 1, 1, 1, false, false, 1 },
        { 1, 5, 3, 4, 4, 1, 1, false, false, 1 },
        { 2, 17, 19, 8, 12, 2, 2, false, false, 1 },
        { 1, 64, 64, 64, 64, 1, 1, false, false, 1 },
        { 1, 50, 301, 24, 24, 3, 3, false, false, 4 },
        { 1, 200, 129, 7, 7, 1, 1, false, false, 2 },
        { 2, 33, 128, 40, 33, 2, 2, false, false, 9 },
        { 1, 3, 1000, 16, 16, 4, 4, false, false, 1 },
        { 1, 193, 256, 130, 70, 1, 1, false, false, 1 },
        /* fewer key and value heads, causal */
        { 1, 19, 19, 5, 5, 4, 2, true, false, 1 },
        { 2, 300, 300, 9, 7, 3, 1, true, false, 3 },
        { 1, 7, 170, 12, 12, 2, 1, true, false, 2 },
        { 1, 131, 131, 16, 16, 6, 3, false, false, 1 },
        { 1, 1, 1, 8, 8, 2, 1, true, false, 1 },
        /* one wide head, as in autoencoders */
        { 1, 65, 65, 512, 512, 1, 1, false, true, 1 },
        { 1, 256, 256, 384, 384, 1, 1, false, false, 1 },
        /* sizes that tensor cores take */
        { 1, 64, 64, 64, 64, 2, 2, false, true, 1 },
        { 2, 130, 200, 128, 128, 4, 1, false, true, 2 },
        { 1, 200, 200, 40, 40, 2, 2, true, true, 1 },
        { 1, 129, 321, 128, 128, 4, 2, true, true, 4 },
        { 3, 77, 77, 32, 32, 3, 1, true, true, 1 },
        { 1, 65, 66, 160, 160, 2, 2, true, true, 1 },
        { 1, 300, 300, 256, 256, 2, 1, true, true, 1 },
        { 2, 70, 90, 320, 320, 1, 1, false, true, 2 },
        /* tokens enough for blocks of 128 queries: each head size has its own layout of shared memory */
        { 1, 257, 385, 64, 64, 2, 1, true, true, 3 },
        { 2, 300, 270, 128, 128, 2, 2, false, true, 1 },
        { 1, 513, 700, 128, 128, 1, 1, true, true, 9 },
        { 1, 256, 261, 192, 192, 1, 1, false, true, 2 },
        { 1, 290, 391, 384, 384, 1, 1, false, true, 1 },
        { 1, 259, 260, 512, 512, 1, 1, false, true, 4 },
    };

    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]); i++) {
        if (zn_case_skipped(t))
            continue;
        int heads = rows[i].heads, kv_heads = rows[i].kv_heads, unit = rows[i].in_vectors ? 8 : 1;
        zn_attention a = { heads, kv_heads, 1 / sqrtf((float)rows[i].dim), rows[i].causal };
        zn_case k =
            zn_case_begin(call_attention, shape(rows[i].n, 1, rows[i].queries, heads * rows[i].vdim, unit * (i % 3)));

        k.arg = &a;
        zn_case_input(t, &k, shape(rows[i].n, 1, rows[i].queries, heads * rows[i].dim, unit * (i % 2)), rows[i].size);
        zn_case_input(t, &k, shape(rows[i].n, 1, rows[i].keys, kv_heads * rows[i].dim, unit * (i % 4)), 1);
        zn_case_input(t, &k, shape(rows[i].n, 1, rows[i].keys, kv_heads * rows[i].vdim, unit * (i % 5)), 1);
        snprintf(k.name, sizeof k.name, "attention %dx%d queries, %d keys, %d heads of %d>%d, %d of keys%s%s",
                 rows[i].n, rows[i].queries, rows[i].keys, heads, rows[i].dim, rows[i].vdim, kv_heads,
                 a.causal ? ", causal" : "", unit > 1 ? ", in vectors" : "");
        if (zn_case_wanted(t, &k))
            formula_attention(&k, &a);
        zn_case_run(t, &k);
        zn_case_end(&k);
    }
}

/* ---- RoPE --------------------------------------------------------------------------------------------- */

static void formula_rope(zn_case *k, const zn_rope *r)
{
    zn_tensor x = k->in[0];
    int dim = x.c / r->heads, half = dim / 2;

    for (int n = 0; n < x.n; n++)
        for (int i = 0; i < x.h; i++)
            for (int j = 0; j < x.w; j++)
                for (int c = 0; c < x.c; c++) {
                    int h = c / dim * dim, o = c % dim;
                    bool second = r->interleaved ? o % 2 : o >= half;
                    int pair = r->interleaved ? o / 2 : o % half;
                    int other = h + (r->interleaved ? (o ^ 1) : second ? o - half : o + half);
                    double a = at(x, n, i, j, c) * at(k->in[1], 0, 0, i * x.w + j, pair);
                    double b = at(x, n, i, j, other) * at(k->in[2], 0, 0, i * x.w + j, pair);
                    size_t d = dense_index(x, n, i, j, c);

                    k->want[d] = second ? a + b : a - b;
                    k->mag[d] = fabs(a) + fabs(b);
                }
    k->terms = 2;
}

static void call_rope(const zn_case *k, const zn_backend *b, void *dev, zn_tensor y, const zn_tensor *in, zn_tail tail)
{
    zn_rope r = *(const zn_rope *)k->arg;

    (void)tail;
    r.cos = in[1];
    r.sin = in[2];
    b->rope(dev, y, in[0], &r);
}

void zn_check_rope(zn_test *t)
{
    static const struct {
        int n, h, w, heads, dim;
    } rows[] = {
        { 1, 1, 1, 1, 2 },   { 1, 1, 5, 3, 6 },   { 2, 3, 7, 1, 10 },   { 1, 1, 33, 4, 34 },
        { 2, 1, 19, 5, 16 }, { 1, 4, 9, 2, 128 }, { 1, 1, 70, 30, 64 },
    };

    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]) * 4; i++) {
        int row = i / 4, dim = rows[row].dim, positions = rows[row].h * rows[row].w;
        zn_rope r = { .heads = rows[row].heads, .interleaved = i % 2 };
        zn_tensor s = shape(rows[row].n, rows[row].h, rows[row].w, r.heads * dim, i % 4 == 3 ? 3 : i % 4 == 2 ? 8 : 0);
        zn_case k = zn_case_begin(call_rope, s);

        k.arg = &r;
        k.alias = i % 4 < 2 ? 0 : -1;
        if (k.alias < 0)
            s.ld = s.c + 8 * (row % 2);
        zn_case_input(t, &k, s, 2);
        for (int j = 0; j < 2; j++)
            zn_case_input_of(t, &k, ZN_F32, shape(1, 1, positions + row % 3, dim / 2, row % 2 * j), 1);
        formula_rope(&k, &r);
        snprintf(k.name, sizeof k.name, "rope %dx%d positions, %d heads of %d%s%s", s.n, positions, r.heads, dim,
                 r.interleaved ? ", interleaved" : "", k.alias < 0 ? "" : ", in place");
        zn_case_run(t, &k);
        zn_case_end(&k);
    }
}
