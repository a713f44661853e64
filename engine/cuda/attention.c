/* SPDX-License-Identifier: MIT */
/* attention.c - attention: on tensor cores where types, addresses and sizes allow, plain elsewhere. */
#include <stdio.h>

#include "cuda.h"

enum { KEYS = 64, WARPS = 4 }; /* as in kernels/attention.cu */

/* Heads that the tensor-core kernels are made for, and how many times 16 queries a warp has. */
static const struct head {
    int dim, m;
} heads_made[] = { { 32, 2 }, { 48, 2 }, { 64, 2 }, { 80, 2 }, { 96, 2 }, { 128, 2 }, { 160, 1 } };

static bool reads_16_bytes(zn_tensor t, int dim)
{
    return zn_cuda_aligned(t) && dim % 8 == 0;
}

/* Queries come in by 16 bytes and go out by 4. */
static const struct head *tensor_cores(const zn_cuda *d, const zn_args_attention *g)
{
    zn_type type = g->q.type;

    if (d->cc < 80 || g->dim != g->dim_v || type == ZN_F32 || g->y.type != type || g->k.type != type ||
        g->v.type != type || !(g->scale > 0) || !reads_16_bytes(g->q, g->dim) || !reads_16_bytes(g->k, g->dim) ||
        !reads_16_bytes(g->v, g->dim) || (uintptr_t)g->y.data % 4 || g->y.ld % 2)
        return NULL;
    for (size_t i = 0; i < sizeof heads_made / sizeof *heads_made; i++)
        if (g->dim <= heads_made[i].dim)
            return &heads_made[i];
    return NULL;
}

/* As many pictures as a grid is deep. */
static void attend(zn_cuda *d, const zn_args_attention *g, int heads)
{
    enum { BQ = 64, CUT = 128 }; /* of the plain kernel */
    const struct head *made = tensor_cores(d, g);
    zn_args_attention plain = *g;
    char name[32];

    if (made) {
        int queries = made->m * 16 * WARPS;
        size_t shared = (size_t)(queries + 2 * KEYS) * (size_t)(made->dim + 8) * 2;

        if (shared <= (size_t)d->smem_max) {
            snprintf(name, sizeof name, "attention_%d_%s", made->dim, zn_cuda_type_name(g->q.type));
            zn_cuda_launch(d, name, zn_cuda_blocks((size_t)g->n_q, (size_t)queries), (unsigned)heads, (unsigned)g->q.n,
                           32 * WARPS, (unsigned)shared, g);
            return;
        }
    }
    plain.cuts = (int32_t)zn_cuda_blocks((size_t)g->dim_v, CUT);
    zn_cuda_launch(d, "attention_plain", zn_cuda_blocks((size_t)g->n_q, BQ), (unsigned)(heads * plain.cuts),
                   (unsigned)g->q.n, 256, 0, &plain);
}

void zn_cuda_attention(void *dev, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, const zn_attention *a)
{
    enum { DEEPEST = 65535 };
    zn_args_attention g = {
        .n_q = q.h * q.w, .n_k = k.h * k.w, .dim = q.c / a->heads, .dim_v = v.c / a->heads, .scale = a->scale
    };

    assert(a->heads == a->kv_heads && !a->causal); /* until its kernels are there */
    for (int first = 0; first < q.n; first += DEEPEST) {
        const int n = zn_imin(q.n - first, DEEPEST);

        g.y = zn_cuda_from(y, (size_t)first * (size_t)g.n_q);
        g.q = zn_cuda_from(q, (size_t)first * (size_t)g.n_q);
        g.k = zn_cuda_from(k, (size_t)first * (size_t)g.n_k);
        g.v = zn_cuda_from(v, (size_t)first * (size_t)g.n_k);
        g.y.n = g.q.n = g.k.n = g.v.n = n;
        attend(dev, &g, a->heads);
    }
}
