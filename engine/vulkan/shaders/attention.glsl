// SPDX-License-Identifier: MIT
// attention.glsl - the arguments of attention.  blocks: of queries; cuts: of a head's outputs; n: workgroups.
#define ARGS uint n, n_q, n_k, dim, dim_v, sharing, heads, blocks, cuts, y_ld, q_ld, k_ld, v_ld; float scale;
#include "common.glsl"
layout(constant_id = 10) const int CAUSAL = 0;
