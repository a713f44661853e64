#version 450
// SPDX-License-Identifier: MIT
// convolutions of one group with fp16 inputs and weights, and sums in float32
//
// A workgroup of 256 invocations computes BM = 32 * DOWN pixels by BN = 64 * ACROSS columns, 32 inputs at a time.  While it
// multiplies, it loads the next inputs into registers.  A column is an output; with GATE, 8 columns of the first half of
// the outputs and 8 of the second take turns, and the result is their product.
//
// MATRICES: 8 subgroups of 32, each with 32 pixels by 64 columns, multiply cooperative matrices of 16x16x16.  Else an
// invocation has 4 pixels by 16 columns.  The matrices are written with GL_NV_cooperative_matrix, which older compilers have;
// tools/spirv_khr.py makes it the extension of all vendors.  It tells matrices apart by their sizes: A is M x K, B is K x N,
// and sums are M x N.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef MATRICES
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
#ifdef SOFT // its conversions would make the code too long for LLVM
#define UNROLL
#define ROLL
#else
#define UNROLL [[unroll]]
#define ROLL [[dont_unroll]]
#endif
#include "conv.glsl"
#include "half.glsl"
layout(std430, binding = 0) buffer Eight0 { uvec4 y_8[]; };
layout(std430, binding = 1) buffer Eight1 { uvec4 x_8[]; };
layout(std430, binding = 2) buffer Eight2 { uvec4 res_8[]; };
layout(std430, binding = 3) buffer Eight3 { uvec4 weight_8[]; };

layout(local_size_x = 256) in;
layout(constant_id = 11) const int DOWN = 4;
layout(constant_id = 12) const int ACROSS = 2;
layout(constant_id = 13) const int VECTORS = 0; // y and the residual are written and read in vectors of 8
layout(constant_id = 14) const int GATE = 0;
layout(constant_id = 15) const int NORM = 0; // 1x1: a pixel of x is normalised over its channels first; g.pad_t has eps
layout(constant_id = 24) const uint M = 16;  // these are never set
layout(constant_id = 25) const uint N = 16;
layout(constant_id = 26) const uint K = 16;

const int BK = 32, BM = 32 * DOWN, BN = 64 * ACROSS;
const int X_LD = BK / 8 + 1, W_LD = BN / 8 + 1; // vectors of 8 from one row to the next: against bank conflicts
const int X_EACH = BM * BK / 8 / 256, W_EACH = BN * BK / 8 / 256; // vectors that an invocation loads
const int MOST = 4;
#ifdef MATRICES
const int MATRICES_ROOM = 8 * 32 * 5; // for finish()
#else
const int MATRICES_ROOM = 0;
#endif

shared uvec4 xs[MATRICES_ROOM > BM * X_LD ? MATRICES_ROOM : BM * X_LD], ws[BK * W_LD];
shared float means[NORM != 0 ? BM : 1], inverses[NORM != 0 ? BM : 1];

struct pixel {
    int image_row, row, col; // image_row: rows of x before its image
};

int under(pixel p, int tap)
{
    const int up = UP2 != 0 ? 2 : 1, u = tap / g.kw;
    const int yy = p.row + u, xx = p.col + (tap - u * g.kw);

    return yy < 0 || xx < 0 || yy >= g.xh * up || xx >= g.xw * up ? -1 : (p.image_row + yy / up) * g.xw + xx / up;
}

// The output of a column that begins 8 of them.
int output_of(int column)
{
    return GATE != 0 ? column / 16 * 8 + column / 8 % 2 * (g.cout / 2) : column;
}

// The tail of outputs o .. o+7 of pixel p, of `outputs` in all.
void put_eight(uint p, uint o, uint outputs, float v[8])
{
    if (VECTORS != 0 && o + 8 <= outputs) {
        if (T2 != ABSENT) {
            const float r[8] = eight(res_8[(g.at[2] + p * g.res_ld + o) / 8]);

            UNROLL for (int i = 0; i < 8; i++)
                v[i] = r[i] + g.gain * act(v[i], PRE);
        } else {
            UNROLL for (int i = 0; i < 8; i++)
                v[i] = g.gain * act(v[i], PRE);
        }
        UNROLL for (int i = 0; i < 8; i++)
            v[i] = act(v[i], POST);
        y_8[(g.at[0] + p * g.y_ld + o) / 8] = as_eight(v);
    } else {
        UNROLL for (uint i = 0; i < 8; i++)
            if (o + i < outputs)
                put_y(p * g.y_ld + o + i, tail(v[i], p, o + i));
    }
}

// Columns `column` .. column+15 of pixel p, without their bias.
void put_columns(uint p, int column, float v[16])
{
    const uint outputs = uint(GATE != 0 ? g.cout / 2 : g.cout);
    const int a = output_of(column), b = output_of(column + 8);
    float first[8], second[8];

    UNROLL for (int i = 0; i < 8; i++) {
        first[i] = v[i] + (a + i < g.cout ? bias[g.at[4] + uint(a + i)] : 0);
        second[i] = v[8 + i] + (b + i < g.cout ? bias[g.at[4] + uint(b + i)] : 0);
        if (GATE != 0)
            first[i] *= second[i];
    }
    if (p < g.pixels && uint(a) < outputs)
        put_eight(p, uint(a), outputs, first);
    if (GATE == 0 && p < g.pixels && uint(b) < outputs)
        put_eight(p, uint(b), outputs, second);
}

void find_means(uint p0)
{
    for (int i = int(gl_LocalInvocationID.x); i < BM; i += 256) {
        const uint from = (g.at[1] + min(p0 + uint(i), g.pixels - 1) * g.x_ld) / 8, n = uint(g.cin) / 8;
        float mean = 0, squares = 0;

        for (uint j = 0; j < n; j++) {
            const float v[8] = eight(x_8[from + j]);

            UNROLL for (int e = 0; e < 8; e++)
                mean += v[e];
        }
        mean /= float(g.cin);
        for (uint j = 0; j < n; j++) {
            const float v[8] = eight(x_8[from + j]);

            UNROLL for (int e = 0; e < 8; e++)
                squares += (v[e] - mean) * (v[e] - mean);
        }
        means[i] = mean;
        inverses[i] = 1 / sqrt(squares / float(g.cin) + intBitsToFloat(g.pad_t));
    }
}

uvec4 normalised(uvec4 u, int row)
{
    float v[8] = eight(u);

    UNROLL for (int i = 0; i < 8; i++)
        v[i] = (v[i] - means[row]) * inverses[row];
    return as_eight(v);
}

#ifdef MATRICES
const int S_LD = 5; // vectors of 4 sums from one row to the next

fcoopmatNV<32, gl_ScopeSubgroup, M, N> sum[2][4];

void clear()
{
    UNROLL for (int i = 0; i < 2; i++)
        UNROLL for (int j = 0; j < 4; j++)
            sum[i][j] = fcoopmatNV<32, gl_ScopeSubgroup, M, N>(0.0);
}

void multiply()
{
    const int warp = int(gl_LocalInvocationID.x) / 32, wm = warp / ACROSS * 32, wn = warp % ACROSS * 64;

    UNROLL for (int k = 0; k < BK / 16; k++) {
        fcoopmatNV<16, gl_ScopeSubgroup, M, K> a[2];
        fcoopmatNV<16, gl_ScopeSubgroup, K, N> b;

        UNROLL for (int i = 0; i < 2; i++)
            coopMatLoadNV(a[i], xs, uint((wm + 16 * i) * X_LD + 2 * k), uint(X_LD), false);
        UNROLL for (int j = 0; j < 4; j++) {
            coopMatLoadNV(b, ws, uint(16 * k * W_LD + (wn + 16 * j) / 8), uint(W_LD), false);
            UNROLL for (int i = 0; i < 2; i++)
                sum[i][j] = coopMatMulAddNV(a[i], b, sum[i][j]);
        }
    }
}

// Through shared memory, where a subgroup has room for 32 pixels by 16 columns.
void finish(uint p0, int o0)
{
    const int t = int(gl_LocalInvocationID.x), warp = t / 32, lane = t % 32;
    const int wm = warp / ACROSS * 32, wn = warp % ACROSS * 64, room = warp * 32 * S_LD;

    UNROLL for (int j = 0; j < 4; j++) {
        float v[16];

        barrier();
        UNROLL for (int i = 0; i < 2; i++)
            coopMatStoreNV(sum[i][j], xs, uint(room + 16 * i * S_LD), uint(S_LD), false);
        barrier();
        UNROLL for (int e = 0; e < 4; e++) {
            const vec4 four = uintBitsToFloat(xs[room + lane * S_LD + e]);

            UNROLL for (int k = 0; k < 4; k++)
                v[4 * e + k] = four[k];
        }
        put_columns(p0 + uint(wm + lane), o0 + wn + 16 * j, v);
    }
}
#else
float sum[4][16];

void clear()
{
    UNROLL for (int i = 0; i < 4; i++)
        UNROLL for (int j = 0; j < 16; j++)
            sum[i][j] = 0;
}

void multiply()
{
    const int t = int(gl_LocalInvocationID.x), tx = t % (BN / 16), ty = t / (BN / 16);

    ROLL for (int k8 = 0; k8 < BK / 8; k8++) {
        float a[4][8];

        UNROLL for (int i = 0; i < 4; i++)
            a[i] = eight(xs[(ty * 4 + i) * X_LD + k8]);
        UNROLL for (int k = 0; k < 8; k++) {
            const float b0[8] = eight(ws[(k8 * 8 + k) * W_LD + tx * 2]), b1[8] = eight(ws[(k8 * 8 + k) * W_LD + tx * 2 + 1]);

            UNROLL for (int i = 0; i < 4; i++)
                UNROLL for (int j = 0; j < 8; j++) {
                    sum[i][j] += a[i][k] * b0[j];
                    sum[i][8 + j] += a[i][k] * b1[j];
                }
        }
    }
}

void finish(uint p0, int o0)
{
    const int t = int(gl_LocalInvocationID.x), tx = t % (BN / 16), ty = t / (BN / 16);

    UNROLL for (int i = 0; i < 4; i++)
        put_columns(p0 + uint(ty * 4 + i), o0 + tx * 16, sum[i]);
}
#endif

void main()
{
    const int t = int(gl_LocalInvocationID.x);
    const uint across = uint(g.cout + BN - 1) / uint(BN), id = group_number();
    const int o0 = int(id % across) * BN;
    const uint p0 = id / across * uint(BM);
    pixel mine[MOST];
    uvec4 x_next[MOST], w_next[MOST];
    int c = t % 4 * 8, tap = 0; // of the next inputs

    if (p0 >= g.pixels)
        return;
    UNROLL for (int i = 0; i < X_EACH; i++) {
        const uint p = min(p0 + uint(t / 4 + 64 * i), g.pixels - 1), line = p / uint(g.yw);

        mine[i].col = int(p - line * uint(g.yw)) * g.stride - g.pad_l;
        mine[i].row = int(line % uint(g.yh)) * g.stride - (NORM != 0 ? 0 : g.pad_t);
        mine[i].image_row = int(line / uint(g.yh)) * g.xh;
    }
    if (NORM != 0)
        find_means(p0);
    clear();
    for (int k0 = -BK; k0 < g.k; k0 += BK) {
        const int next = k0 + BK;

        barrier();
        if (k0 >= 0) {
            UNROLL for (int i = 0; i < X_EACH; i++) {
                const int row = t / 4 + 64 * i;

                xs[row * X_LD + t % 4] = NORM != 0 ? normalised(x_next[i], row) : x_next[i];
            }
            UNROLL for (int i = 0; i < W_EACH; i++) {
                const int at = t + 256 * i;

                ws[at / (BN / 8) * W_LD + at % (BN / 8)] = w_next[i];
            }
            barrier();
        }
        if (next < g.k) {
            while (c >= g.cin) {
                c -= g.cin;
                tap++;
            }
            UNROLL for (int i = 0; i < X_EACH; i++) {
                const int q = tap < g.kh * g.kw ? under(mine[i], tap) : -1;

                x_next[i] = q >= 0 ? x_8[(g.at[1] + uint(q) * g.x_ld + uint(c)) / 8] : uvec4(0);
            }
            UNROLL for (int i = 0; i < W_EACH; i++) {
                const int at = t + 256 * i, k = next + at / (BN / 8), o = output_of(o0 + at % (BN / 8) * 8);

                w_next[i] = k < g.k && o < g.cout_pad ? weight_8[(g.at[3] + uint(k) * uint(g.cout_pad) + uint(o)) / 8] : uvec4(0);
            }
            c += BK;
        }
        if (k0 >= 0)
            multiply();
    }
    finish(p0, o0);
}
