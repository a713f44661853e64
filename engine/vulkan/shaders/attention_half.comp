#version 450
// SPDX-License-Identifier: MIT
// attention of fp16 tensors in vectors of 8: products in fp16, summed in float32
//
// A workgroup has BQ queries of a head; KEYS keys come at a time.  The first pass (DV 0) finds each query's largest score and the
// sum of its exponentials, for `stats`; the second computes the scores again, and DV outputs: no sum has to be scaled when a
// larger score comes, and matrices whose layout nobody knows can hold them.
//
//   s:  q [BQ][LD], k [KEYS][LD]  vectors of 8 of CHUNK elements; then v [VK][V_LD], of DV
//       scores [BQ][S_LD]         vectors of 4 floats; then each half of a row begins with its exponentials in fp16
//
// MATRICES: a subgroup of 32 has 16 queries.  Else an invocation has 8 by 4 scores and 8 by 8 outputs.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#if defined(MATRICES) && !defined(EMULATE)
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
#ifdef SOFT
#define UNROLL
#else
#define UNROLL [[unroll]]
#endif
#include "attention.glsl"
#include "half.glsl"
layout(std430, binding = 0) buffer Eight0 { uvec4 y_8[]; };
layout(std430, binding = 1) buffer Eight1 { uvec4 q_8[]; };
layout(std430, binding = 2) buffer Eight2 { uvec4 k_8[]; };
layout(std430, binding = 3) buffer Eight3 { uvec4 v_8[]; };
layout(std430, binding = 4) buffer Two4 { vec2 stats[]; }; // [image][head][query]: largest score, sum

layout(local_size_x_id = 11) in;
layout(constant_id = 11) const int THREADS = 128;
layout(constant_id = 12) const int DV = 0;
layout(constant_id = 13) const int VK = 32;

const int BQ = THREADS / 2, KEYS = 64, CHUNK = 64;
const int LD = CHUNK / 8 + 1, S_LD = KEYS / 4 + 1, V_LD = DV / 8 | 1; // odd: no bank conflicts
const int D8 = DV != 0 ? DV / 8 : 1;
const int K_AT = BQ * LD, QK_ROOM = K_AT + KEYS * LD, V_ROOM = DV != 0 ? VK * V_LD : 0;
const int S_AT = V_ROOM > QK_ROOM ? V_ROOM : QK_ROOM;

shared uvec4 s[S_AT + BQ * S_LD];
#ifdef MATRICES
#include "matrix.glsl"
#endif

uint image, head, first, cut; // of this workgroup; first: query
int t;

// What an invocation loads while others multiply: vectors of queries and of keys.  Elements c .. c+CHUNK-1.
const int K_EACH = KEYS * (CHUNK / 8) / THREADS; // at most 8
uvec4 q_next[4], k_next[8];

void fetch(uint key0, uint c)
{
    const uint q_at = g.at[1] + image * g.n_q * g.q_ld + head * g.dim + c;
    const uint k_at = g.at[2] + image * g.n_k * g.k_ld + head / g.sharing * g.dim + c;
    const uint row = uint(t / (CHUNK / 8)), col = uint(t % (CHUNK / 8) * 8), step = uint(THREADS / (CHUNK / 8));

    UNROLL for (int j = 0; j < 4; j++) {
        const uint query = first + row + uint(j) * step;

        q_next[j] = query < g.n_q && c + col < g.dim ? q_8[(q_at + query * g.q_ld + col) / 8] : uvec4(0);
    }
    UNROLL for (int j = 0; j < 8; j++)
        if (j < K_EACH) {
            const uint key = key0 + row + uint(j) * step;

            k_next[j] = key < g.n_k && c + col < g.dim ? k_8[(k_at + key * g.k_ld + col) / 8] : uvec4(0);
        }
}

void put_fetched()
{
    const int at = t / (CHUNK / 8) * LD + t % (CHUNK / 8), step = THREADS / (CHUNK / 8) * LD;

    UNROLL for (int j = 0; j < 4; j++)
        s[at + j * step] = q_next[j];
    UNROLL for (int j = 0; j < 8; j++)
        if (j < K_EACH)
            s[K_AT + at + j * step] = k_next[j];
}

// The products of the queries and KEYS keys from key0 on, to shared memory.  Their first elements were fetched; it fetches those of
// the keys that follow.
void multiply_keys(uint key0)
{
#ifdef MATRICES
    const int row = t / 32 * 16;
    SUMS sum0 = ZERO, sum1 = ZERO, sum2 = ZERO, sum3 = ZERO;
#else
    const int tx = t % 16, ty = t / 16;
    float sum[8][4];

    UNROLL for (int i = 0; i < 8; i++)
        UNROLL for (int j = 0; j < 4; j++)
            sum[i][j] = 0;
#endif
    for (uint c = 0; c < g.dim; c += CHUNK) {
        const bool last = c + CHUNK >= g.dim;

        barrier();
        put_fetched();
        barrier();
        fetch(last ? key0 + KEYS : key0, last ? 0 : c + CHUNK);
#ifdef MATRICES
        UNROLL for (int k = 0; k < CHUNK / 16; k++) {
            OPERAND_A a;
            OPERAND_B b;

            LOAD(a, row * LD + 2 * k, LD);
#define ADD(j)                                                                                                             \
    LOAD_ACROSS(b, K_AT + 16 * j * LD + 2 * k, LD);                                                                        \
    sum##j = MULTIPLY(a, b, sum##j);
            ADD(0) ADD(1) ADD(2) ADD(3)
        }
#else
        for (int k = 0; k < CHUNK / 8; k++) {
            vec4 low[4], high[4];

            UNROLL for (int j = 0; j < 4; j++) {
                const uvec4 u = s[K_AT + (tx + 16 * j) * LD + k];

                low[j] = four(u.xy);
                high[j] = four(u.zw);
            }
            UNROLL for (int i = 0; i < 8; i++) {
                const uvec4 u = s[(8 * ty + i) * LD + k];
                const vec4 a = four(u.xy), b = four(u.zw);

                UNROLL for (int j = 0; j < 4; j++)
                    sum[i][j] += dot(a, low[j]) + dot(b, high[j]);
            }
        }
#endif
    }
#ifdef MATRICES
    STORE(sum0, S_AT + row * S_LD, S_LD);
    STORE(sum1, S_AT + row * S_LD + 4, S_LD);
    STORE(sum2, S_AT + row * S_LD + 8, S_LD);
    STORE(sum3, S_AT + row * S_LD + 12, S_LD);
#else
    UNROLL for (int i = 0; i < 8; i++)
        UNROLL for (int j = 0; j < 4; j++)
            s[S_AT + (8 * ty + i) * S_LD + tx / 4 + 4 * j][tx % 4] = floatBitsToUint(sum[i][j]);
#endif
    barrier();
}

const float LEAST = -3.0e38;

// Where this invocation's half of a query's row of scores is.
int half_row()
{
    return S_AT + t / 2 * S_LD + t % 2 * (KEYS / 8);
}

// Scores 4*j .. 4*j+3 of that half; key: the first of the half; seen: keys of the query.
vec4 scores(int j, uint key, uint seen)
{
    const uvec4 keys = key + 4 * uint(j) + uvec4(0, 1, 2, 3);

    return mix(vec4(LEAST), uintBitsToFloat(s[half_row() + j]) * g.scale, lessThan(keys, uvec4(seen)));
}

vec4 exponentials(vec4 score, float top)
{
    return mix(vec4(0), exp(score - top), greaterThan(score, vec4(LEAST)));
}

void find_stats(uint last, uint seen, uint query)
{
    float top = LEAST, sum = 0;

    for (uint key0 = 0; key0 < last; key0 += KEYS) {
        const uint key = key0 + uint(t % 2 * (KEYS / 2));
        float high = top;
        vec4 all = vec4(0);

        multiply_keys(key0);
        UNROLL for (int j = 0; j < KEYS / 8; j++) {
            const vec4 v = scores(j, key, seen);

            high = max(high, max(max(v.x, v.y), max(v.z, v.w)));
        }
        UNROLL for (int j = 0; j < KEYS / 8; j++)
            all += exponentials(scores(j, key, seen), high);
        sum = sum * exp(top - high) + (all.x + all.y + (all.z + all.w));
        top = high;
    }
    barrier();
    s[t] = uvec4(floatBitsToUint(top), floatBitsToUint(sum), 0, 0);
    barrier();
    if (t % 2 == 0 && query < g.n_q) {
        const vec2 other = uintBitsToFloat(s[t + 1].xy);
        const float high = max(top, other.x);

        stats[g.at[4] / 2 + (image * g.heads + head) * g.n_q + query] =
            vec2(high, sum * exp(top - high) + other.y * exp(other.x - high));
    }
}

// Exponentials in the place of the scores.
void put_exponentials(uint key, uint seen, float top)
{
    uvec2 e[KEYS / 8];

    UNROLL for (int j = 0; j < KEYS / 8; j++)
        e[j] = as_four(exponentials(scores(j, key, seen), top));
    UNROLL for (int j = 0; j < KEYS / 16; j++)
        s[half_row() + j] = uvec4(e[2 * j], e[2 * j + 1]);
}

// Where 8 exponentials of a row are.
int exponentials_at(int row, int key)
{
    return S_AT + row * S_LD + key / (KEYS / 2) * (KEYS / 8) + key % (KEYS / 2) / 8;
}

void stage_values(uint key0)
{
    const uint v_at = g.at[3] + image * g.n_k * g.v_ld + head / g.sharing * g.dim_v + cut * uint(DV);

    for (int i = t; i < VK * D8; i += 4 * THREADS) { // 4 loads in flight
        uvec4 u[4];

        UNROLL for (int j = 0; j < 4; j++) {
            const uint row = key0 + uint((i + j * THREADS) / D8), col = uint((i + j * THREADS) % D8 * 8);

            u[j] = row < g.n_k && cut * uint(DV) + col < g.dim_v ? v_8[(v_at + row * g.v_ld + col) / 8] : uvec4(0);
        }
        UNROLL for (int j = 0; j < 4; j++)
            if (i + j * THREADS < VK * D8)
                s[(i + j * THREADS) / D8 * V_LD + (i + j * THREADS) % D8] = u[j];
    }
}

// Outputs col .. col+7 of the cut, of a row of the workgroup's.
void put_outputs(int row, int col, vec4 low, vec4 high)
{
    const uint query = first + uint(row), o = cut * uint(DV) + uint(col);

    if (query < g.n_q && o < g.dim_v) {
        const float f = 1 / stats[g.at[4] / 2 + (image * g.heads + head) * g.n_q + query].y;

        y_8[(g.at[0] + (image * g.n_q + query) * g.y_ld + head * g.dim_v + o) / 8] = uvec4(as_four(low * f), as_four(high * f));
    }
}

#ifdef MATRICES
#ifdef EMULATE
#define ALONG(X) X(0) X(1)
#else
#define ALONG(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#endif
#endif

void find_outputs(uint last, uint seen, uint query)
{
    const float top = query < g.n_q ? stats[g.at[4] / 2 + (image * g.heads + head) * g.n_q + query].x : 0;
#ifdef MATRICES
    const int warp = t / 32, row = 16 * warp;
#define DECLARE(j) SUMS out##j = ZERO;
    ALONG(DECLARE)
#else
    const int tx = t % 16, ty = t / 16;
    vec4 low[8], high[8];

    UNROLL for (int i = 0; i < 8; i++)
        low[i] = high[i] = vec4(0);
#endif

    for (uint key0 = 0; key0 < last; key0 += KEYS) {
        multiply_keys(key0);
        put_exponentials(key0 + uint(t % 2 * (KEYS / 2)), seen, top);
        for (int v0 = 0; v0 < KEYS; v0 += VK) {
            barrier();
            stage_values(key0 + uint(v0));
            barrier();
#ifdef MATRICES
            UNROLL for (int k = 0; k < VK / 16; k++) {
                OPERAND_A a;
                OPERAND_B b;

                LOAD(a, exponentials_at(row, v0 + 16 * k), S_LD);
#define ADD_VALUES(j)                                                                                                      \
    if (16 * j < DV) {                                                                                                     \
        LOAD(b, 16 * k * V_LD + 2 * j, V_LD);                                                                              \
        out##j = MULTIPLY(a, b, out##j);                                                                                   \
    }
                ALONG(ADD_VALUES)
            }
#else
            for (int k8 = 0; k8 < VK / 8; k8++) {
                uvec4 a[8];

                UNROLL for (int i = 0; i < 8; i++)
                    a[i] = s[exponentials_at(8 * ty + i, v0 + 8 * k8)];
                UNROLL for (int k = 0; k < 8; k++) {
                    const uvec4 w = s[(8 * k8 + k) * V_LD + min(tx, D8 - 1)];
                    const vec4 w_low = four(w.xy), w_high = four(w.zw);

                    UNROLL for (int i = 0; i < 8; i++) {
                        const float e = halves(a[i][k / 2])[k % 2];

                        low[i] += e * w_low;
                        high[i] += e * w_high;
                    }
                }
            }
#endif
        }
    }
#ifdef MATRICES
    const int lane = t % 32, room = S_AT + row * 5;
#define FINISH(j)                                                                                                          \
    if (16 * j < DV) {                                                                                                     \
        barrier();                                                                                                         \
        STORE(out##j, room, 5);                                                                                            \
        barrier();                                                                                                         \
        put_outputs(row + lane / 2, 16 * j + lane % 2 * 8, uintBitsToFloat(s[room + lane / 2 * 5 + lane % 2 * 2]),         \
                    uintBitsToFloat(s[room + lane / 2 * 5 + lane % 2 * 2 + 1]));                                           \
    }
    ALONG(FINISH)
#else
    if (tx < DV / 8)
        UNROLL for (int i = 0; i < 8; i++)
            put_outputs(8 * ty + i, 8 * tx, low[i], high[i]);
#endif
}

void main()
{
    const uint id = group_number();

    t = int(gl_LocalInvocationID.x);
    if (id >= g.n)
        return;
    first = id % g.blocks * uint(BQ);
    cut = id / g.blocks % g.cuts;
    head = id / g.blocks / g.cuts % g.heads;
    image = id / g.blocks / g.cuts / g.heads;

    const uint query = first + uint(t / 2);
    const uint seen = CAUSAL != 0 ? min(query + g.n_k - g.n_q + 1, g.n_k) : g.n_k;
    const uint last = CAUSAL != 0 ? min(first + uint(BQ) + g.n_k - g.n_q, g.n_k) : g.n_k;

    fetch(0, 0);
    if (DV == 0)
        find_stats(last, seen, query);
    else
        find_outputs(last, seen, query);
}
