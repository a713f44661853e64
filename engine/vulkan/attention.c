/* SPDX-License-Identifier: MIT */
/* attention.c - attention with an online softmax. */
#include "vulkan.h"

enum { QUERIES = 16, CUT = 128 }; /* as in shaders/attention.comp */

void zn_vk_attention(void *dev, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, const zn_attention *a)
{
    const int n_q = q.h * q.w, n_k = k.h * k.w, dim = q.c / a->heads, dim_v = v.c / a->kv_heads;
    const size_t blocks = zn_vk_blocks((size_t)n_q, QUERIES), cuts = zn_vk_blocks((size_t)dim_v, CUT);
    const size_t groups = blocks * cuts * (size_t)a->heads * (size_t)q.n;
    const struct {
        uint32_t n, n_q, n_k, dim, dim_v, sharing, heads, blocks, cuts, y_ld, q_ld, k_ld, v_ld;
        float scale;
    } g = { (uint32_t)groups,   (uint32_t)n_q,    (uint32_t)n_k,
            (uint32_t)dim,      (uint32_t)dim_v,  (uint32_t)(a->heads / a->kv_heads),
            (uint32_t)a->heads, (uint32_t)blocks, (uint32_t)cuts,
            (uint32_t)y.ld,     (uint32_t)q.ld,   (uint32_t)k.ld,
            (uint32_t)v.ld,     a->scale };

    zn_vk_run(dev,
              &(zn_vk_launch){ .kernel = "attention",
                               .t = { y, q, k, v },
                               .spec = { [2] = a->causal },
                               .groups = groups,
                               .work = 2.0 * (double)q.n * n_q * n_k * a->heads * ((double)cuts * dim + dim_v),
                               .args = &g,
                               .args_size = sizeof g });
}
