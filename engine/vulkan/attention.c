/* SPDX-License-Identifier: MIT */
/* attention.c - attention with a softmax over blocks of keys: in two passes for fp16 in vectors, else in one. */
#include "vulkan.h"

enum { QUERIES = 16, CUT = 128, VALUES = 32 }; /* as in shaders/attention.comp; keys whose values are held */

/* As in shaders/attention.glsl. */
typedef struct attention_args {
    uint32_t n, n_q, n_k, dim, dim_v, sharing, heads, blocks, cuts, y_ld, q_ld, k_ld, v_ld;
    float scale;
} attention_args;

/* Workgroups of that many queries, and cuts of the outputs. */
static size_t divide(attention_args *g, size_t images, size_t queries, size_t cut)
{
    g->blocks = (uint32_t)zn_vk_blocks(g->n_q, queries);
    g->cuts = cut ? (uint32_t)zn_vk_blocks(g->dim_v, cut) : 1;
    g->n = g->blocks * g->cuts * g->heads * (uint32_t)images;
    return g->n;
}

static bool fits(const zn_vk *d, size_t threads, size_t cut)
{
    const size_t queries = threads / 2, keys = (queries + 64) * 9, values = VALUES * (cut / 8 | 1);

    return ((keys > values ? keys : values) + queries * 17) * 16 <= d->has.shared;
}

/* The kernel for fp16 tensors.  False: not these. */
static bool in_half(zn_vk *d, zn_vk_launch *k, attention_args *g, size_t images)
{
    enum { ENOUGH = 256 }; /* workgroups for a large device */
    const size_t most = d->has.emulated ? 32 : d->has.matrices ? 256 : 128;
    const size_t each = zn_vk_blocks(g->dim_v, zn_vk_blocks(g->dim_v, most)), cut = zn_vk_blocks(each, 16) * 16;
    const double work = (double)images * g->heads * g->n_q * g->n_k;
    size_t threads = 128;

    for (int i = 0; i < 4; i++)
        if (k->t[i].type != ZN_F16 || !zn_vk_vectors(k->t[i], 8))
            return false;
    if (g->dim % 8 || g->dim_v % 8)
        return false;
    if (divide(g, images, threads / 2, cut) < ENOUGH || !fits(d, threads, cut))
        threads = 64;
    if (!fits(d, threads, cut))
        return false;
    k->t[4] = zn_vk_floats(zn_vk_scratch(d, images * g->heads * g->n_q * 2 * sizeof(float)));
    if (!k->t[4].data)
        return true;
    k->kernel = "attention_half";
    k->variant = zn_vk_variant(d, false);
    k->spec[3] = (int32_t)threads;
    k->spec[5] = VALUES;
    k->groups = divide(g, images, threads / 2, 0);
    k->work = work * g->dim;
    zn_vk_run(d, k);
    k->spec[4] = (int32_t)cut;
    k->groups = divide(g, images, threads / 2, cut);
    k->work = work * ((double)g->cuts * g->dim + g->dim_v);
    zn_vk_run(d, k);
    return true;
}

void zn_vk_attention(void *dev, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, const zn_attention *a)
{
    attention_args g = { .n_q = (uint32_t)(q.h * q.w),
                         .n_k = (uint32_t)(k.h * k.w),
                         .dim = (uint32_t)(q.c / a->heads),
                         .dim_v = (uint32_t)(v.c / a->kv_heads),
                         .sharing = (uint32_t)(a->heads / a->kv_heads),
                         .heads = (uint32_t)a->heads,
                         .y_ld = (uint32_t)y.ld,
                         .q_ld = (uint32_t)q.ld,
                         .k_ld = (uint32_t)k.ld,
                         .v_ld = (uint32_t)v.ld,
                         .scale = a->scale };
    zn_vk_launch launch = { .t = { y, q, k, v }, .spec = { [2] = a->causal }, .args = &g, .args_size = sizeof g };

    if (in_half(dev, &launch, &g, (size_t)q.n))
        return;
    launch.kernel = "attention";
    launch.groups = divide(&g, (size_t)q.n, QUERIES, CUT);
    launch.work = 2.0 * (double)q.n * g.n_q * g.n_k * g.heads * ((double)g.cuts * g.dim + g.dim_v);
    zn_vk_run(dev, &launch);
}
