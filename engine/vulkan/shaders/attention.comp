#version 450
// SPDX-License-Identifier: MIT
// attention with an online softmax: a workgroup has QUERIES queries of a head, and CUT of its outputs; KEYS keys at a time
#extension GL_GOOGLE_include_directive : require
#include "attention.glsl"
TENSOR(0, y)
TENSOR(1, q)
TENSOR(2, k)
TENSOR(3, v)

const uint QUERIES = 16, KEYS = 32, CHUNK = 32, CUT = 128, SOME = 8; // CHUNK: of dim; SOME: keys whose values are held
const uint THREADS = 128;
layout(local_size_x = 128) in;

shared float qs[QUERIES][CHUNK + 1], ks[KEYS][CHUNK + 1], s[QUERIES][KEYS + 1], vs[SOME][CUT];

const float LEAST = -3.0e38;

void main()
{
    const uint id = group_number(), t = gl_LocalInvocationID.x;
    const uint block = id % g.blocks, cut = id / g.blocks % g.cuts, head = id / g.blocks / g.cuts % g.heads;
    const uint image = id / g.blocks / g.cuts / g.heads, first = block * QUERIES;
    const uint mine = t / 8, lane = t % 8; // a query, and one of the 8 invocations that have it
    const uint q_at = image * g.n_q * g.q_ld + head * g.dim;
    const uint k_at = image * g.n_k * g.k_ld + head / g.sharing * g.dim;
    const uint v_at = image * g.n_k * g.v_ld + head / g.sharing * g.dim_v + cut * CUT;
    const uint seen = CAUSAL != 0 ? first + mine + g.n_k - g.n_q + 1 : g.n_k; // keys of my query
    const uint last = CAUSAL != 0 ? min(first + QUERIES + g.n_k - g.n_q, g.n_k) : g.n_k;
    const uint outputs = min(CUT, g.dim_v - cut * CUT);
    float top = LEAST, sum = 0, acc[CUT / 8];

    if (id >= g.n)
        return;
    for (uint i = 0; i < CUT / 8; i++)
        acc[i] = 0;
    for (uint from = 0; from < last; from += KEYS) {
        float score[KEYS / 8], high = top, f;

        for (uint j = 0; j < KEYS / 8; j++)
            score[j] = 0;
        for (uint c = 0; c < g.dim; c += CHUNK) {
            barrier();
            for (uint i = t; i < QUERIES * CHUNK; i += THREADS) {
                const uint row = i / CHUNK, col = i % CHUNK;

                qs[row][col] = first + row < g.n_q && c + col < g.dim ? get_q(q_at + (first + row) * g.q_ld + c + col) : 0;
            }
            for (uint i = t; i < KEYS * CHUNK; i += THREADS) {
                const uint row = i / CHUNK, col = i % CHUNK;

                ks[row][col] = from + row < g.n_k && c + col < g.dim ? get_k(k_at + (from + row) * g.k_ld + c + col) : 0;
            }
            barrier();
            for (uint i = 0; i < CHUNK; i++)
                for (uint j = 0; j < KEYS / 8; j++)
                    score[j] += qs[mine][i] * ks[lane + 8 * j][i];
        }
        for (uint j = 0; j < KEYS / 8; j++) {
            score[j] = from + lane + 8 * j < seen ? score[j] * g.scale : LEAST;
            s[mine][lane + 8 * j] = score[j];
        }
        barrier();
        for (uint j = 0; j < KEYS; j++)
            high = max(high, s[mine][j]);
        f = exp(top - high);
        top = high;
        sum *= f;
        for (uint i = 0; i < CUT / 8; i++)
            acc[i] *= f;
        barrier();
        for (uint j = 0; j < KEYS / 8; j++)
            s[mine][lane + 8 * j] = from + lane + 8 * j < seen ? exp(score[j] - top) : 0;
        for (uint k0 = 0; k0 < KEYS; k0 += SOME) {
            barrier();
            for (uint i = t; i < SOME * CUT; i += THREADS) {
                const uint row = i / CUT, col = i % CUT;

                vs[row][col] = from + k0 + row < g.n_k && col < outputs ? get_v(v_at + (from + k0 + row) * g.v_ld + col) : 0;
            }
            barrier();
            for (uint j = 0; j < SOME; j++) {
                const float e = s[mine][k0 + j];

                sum += e;
                for (uint i = 0; i < CUT / 8; i++)
                    acc[i] += e * vs[j][lane + 8 * i];
            }
        }
    }
    if (first + mine < g.n_q)
        for (uint i = 0; i < CUT / 8; i++)
            if (lane + 8 * i < outputs)
                put_y((image * g.n_q + first + mine) * g.y_ld + head * g.dim_v + cut * CUT + lane + 8 * i, acc[i] / sum);
}
