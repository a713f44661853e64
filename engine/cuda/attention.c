/* SPDX-License-Identifier: MIT */
/* attention.c - attention: on tensor cores where types, addresses and sizes allow, without them elsewhere. */
#include <stdio.h>

#include "cuda.h"
#include "hopper.h"

enum { KEYS = 64, WARPS = 4, CUT = 128 }; /* as in kernels/attention.cu; CUT: outputs of a block, plain and wide */

/* Head sizes with a tensor-core kernel of their own, and how many times 16 queries a warp has; 0: there is none. */
static const struct head {
    int dim, m_16_bits, m_f32;
} heads_made[] = { { 32, 2, 1 }, { 48, 2, 0 }, { 64, 2, 1 }, { 80, 2, 0 }, { 96, 2, 0 }, { 128, 2, 1 }, { 160, 1, 0 } };

static bool reads_16_bytes(zn_tensor t, int dim)
{
    return zn_cuda_aligned(t) && (size_t)dim * zn_type_size(t.type) % 16 == 0;
}

/* Queries, keys and values are read in 16 bytes, results are written in pairs. */
static bool tensor_cores(const zn_cuda *d, const zn_args_attention *g)
{
    const zn_type type = g->q.type;

    return d->cc >= 80 && g->y.type == type && g->k.type == type && g->v.type == type && g->scale > 0 &&
        reads_16_bytes(g->q, g->dim) && reads_16_bytes(g->k, g->dim) && reads_16_bytes(g->v, g->dim_v) &&
        (uintptr_t)g->y.data % (2 * zn_type_size(type)) == 0 && g->y.ld % 2 == 0;
}

/* All tiles of `queries` queries, by as many launches as it takes. */
static void launch_tiles(zn_cuda *d, const char *kernel, zn_args_attention g, int queries, int heads, unsigned threads,
                         size_t shared)
{
    const unsigned tiles = zn_cuda_blocks((size_t)g.n_q, (size_t)queries);
    const unsigned each =
        zn_cuda_tiles_at_once(d, (double)queries * g.n_k * (g.dim + g.dim_v) * heads * g.q.n); /* of all heads */

    for (unsigned from = 0; from < tiles; from += each) {
        const unsigned left = tiles - from;

        g.from_tile = (int32_t)from;
        zn_cuda_launch(d, kernel, left < each ? left : each, (unsigned)heads, (unsigned)g.q.n, threads,
                       (unsigned)shared, &g);
    }
}

/* On tensor cores, with all outputs of a head in one block.  False: not these tensors. */
static bool attend_narrow(zn_cuda *d, const zn_args_attention *g, int heads)
{
    for (size_t i = 0; i < sizeof heads_made / sizeof *heads_made && g->dim == g->dim_v; i++) {
        const int dim = heads_made[i].dim, m = g->q.type == ZN_F32 ? heads_made[i].m_f32 : heads_made[i].m_16_bits;
        const int queries = m * 16 * WARPS;
        const size_t shared = (size_t)(queries + 2 * KEYS) * ((size_t)dim * zn_type_size(g->q.type) + 16);
        char name[32];

        if (g->dim > dim || !m)
            continue;
        if (shared > (size_t)d->smem_max)
            return false;
        snprintf(name, sizeof name, "attention_%d_%s", dim, zn_cuda_type_name(g->q.type));
        launch_tiles(d, name, *g, queries, heads, 32 * WARPS, shared);
        return true;
    }
    return false;
}

/* On tensor cores, CUT outputs of a head in a block.  False: not these tensors. */
static bool attend_wide(zn_cuda *d, const zn_args_attention *g, int heads)
{
    const int queries = 16 * WARPS;
    const size_t shared = ((size_t)queries * (size_t)(zn_round_up(g->dim, CUT) + 8) + 3 * (size_t)KEYS * (CUT + 8)) * 2;
    char name[32];

    if (g->q.type == ZN_F32 || shared > (size_t)d->smem_max)
        return false;
    snprintf(name, sizeof name, "attention_wide_%s", zn_cuda_type_name(g->q.type));
    launch_tiles(d, name, *g, queries, heads * g->cuts, 32 * WARPS, shared);
    return true;
}

/* As many images as a grid is deep. */
static void attend(zn_cuda *d, const zn_args_attention *g, int heads)
{
    enum { BQ = 64 }; /* of the plain kernel */

    if (tensor_cores(d, g) &&
        (zn_cuda_hopper_attention(d, g, heads) || attend_narrow(d, g, heads) || attend_wide(d, g, heads)))
        return;
    launch_tiles(d, "attention_plain", *g, BQ, heads * g->cuts, 256, 0);
}

void zn_cuda_attention(void *dev, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, const zn_attention *a)
{
    enum { DEEPEST = 65535 };
    zn_args_attention g = { .n_q = q.h * q.w,
                            .n_k = k.h * k.w,
                            .dim = q.c / a->heads,
                            .dim_v = v.c / a->kv_heads,
                            .shared = a->heads / a->kv_heads,
                            .causal = a->causal,
                            .scale = a->scale };

    g.cuts = (int32_t)zn_cuda_blocks((size_t)g.dim_v, CUT);
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
