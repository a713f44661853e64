#version 450
// SPDX-License-Identifier: MIT
// convolutions of one group with fp16 weights, multiplied in fp16 and summed in float32
//
// A workgroup computes TH rows of TW pixels (BM in all) by BN columns.  For BC channels of the input at a time it loads what
// is under these pixels and all taps' weights into shared memory, once; then each tap is a product of matrices whose pixels
// begin elsewhere.  A column is an output; with GATE, 4 columns of the first half of the outputs and 4 of the second take
// turns, and the result is their product.  The host makes an image of one row for 1x1 convolutions.
//
//   s:  x [PH][PW][X_LD]   vectors of 8 channels; PH, PW: TH, TW pixels and what the taps reach beyond them
//       w [tap][BC][W_LD]  vectors of 8 columns
//
// MATRICES: a subgroup of 32 has MI by NJ cooperative matrices of 16x16 sums (matrix.glsl).  They have names, not an index: no
// compiler must prove that they fit in registers.
// Else an invocation has PI pixels by 8 columns.  PACKED: that many products are summed in fp16, two outputs in an instruction,
// before they go to the float32 sums.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#if defined(MATRICES) && !defined(EMULATE)
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#endif
#if (defined(MATRICES) && !defined(EMULATE)) || (defined(PACKED) && !defined(SOFT))
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
// Loops over what must be in registers: their indices are constants, whatever a compiler does.  SOFT: its conversions would
// make the code too long for LLVM.
#ifdef SOFT
#define UNROLL
#define EIGHT(X) for (int i = 0; i < 8; i++) { X(i) }
#define NINE(X) for (int j = 0; j < 9; j++) { X(j) }
#else
#define UNROLL [[unroll]]
#define EIGHT(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define NINE(X) EIGHT(X) X(8)
#endif
#include "conv.glsl"
#include "half.glsl"
layout(std430, binding = 0) buffer Four0 { uvec2 y_4[]; };
layout(std430, binding = 0) buffer Eight0 { uvec4 y_8[]; };
layout(std430, binding = 1) buffer Eight1 { uvec4 x_8[]; };
layout(std430, binding = 2) buffer Four2 { uvec2 res_4[]; };
layout(std430, binding = 3) buffer Four3 { uvec2 weight_4[]; };
layout(std430, binding = 3) buffer Eight3 { uvec4 weight_8[]; };
layout(std430, binding = 4) buffer Four4 { vec4 bias_4[]; };

layout(local_size_x_id = 11) in;
layout(constant_id = 11) const int THREADS = 128;
layout(constant_id = 12) const int NJ = 4; // or PI: at most 8
layout(constant_id = 13) const int VECTORS = 0; // 1: y and the residual are in vectors of 8; 2: x is
layout(constant_id = 14) const int GATE = 0;
layout(constant_id = 15) const int NORM = 0; // 1x1: a pixel of x is normalised over its channels first; g.pad_t has eps
layout(constant_id = 16) const int BM = 128;
layout(constant_id = 17) const int BN = 64;
layout(constant_id = 18) const int KH = 3;
layout(constant_id = 19) const int KW = 3;
layout(constant_id = 20) const int STRIDE = 1;
layout(constant_id = 21) const int BC = 16;
layout(constant_id = 22) const int TW = 16;
layout(constant_id = 23) const int AHEAD = 0; // loads the next channels into registers while it multiplies

const int TH = BM / TW, PW = (TW - 1) * STRIDE + KW, PH = (TH - 1) * STRIDE + KH;
const int X_LD = BC / 8 | 1, W_LD = BN / 8 | 1; // odd: no bank conflicts
const int X_ROOM = PH * PW * X_LD, W_ROOM = KH * KW * BC * W_LD;
const int X_VECTORS = PH * PW * (BC / 8), W_VECTORS = KH * KW * BC * (BN / 8);
const int MOST = 9; // vectors that an invocation may load ahead, of x and of w: NINE()
const int X_EACH = (X_VECTORS + THREADS - 1) / THREADS, W_EACH = (W_VECTORS + THREADS - 1) / THREADS;
#ifdef MATRICES
const int ACROSS = BN / (16 * NJ), MI = BM * ACROSS / (THREADS / 2), ROWS = 16 * MI; // subgroups, matrices, pixels of a subgroup
const int ROOMY = THREADS / 32 * ROWS * 9 <= X_ROOM + W_ROOM ? 2 : 1;
const int PER = NJ % 2 == 0 ? ROOMY : 1; // columns of matrices that are put at once
const int S_LD = 4 * PER + 1, S_ROOM = THREADS / 32 * ROWS * S_LD;
#else
const int S_ROOM = 0, PI = NJ;
#endif

shared uvec4 s[S_ROOM > X_ROOM + W_ROOM ? S_ROOM : X_ROOM + W_ROOM];
shared float means[NORM != 0 ? BM : 1], inverses[NORM != 0 ? BM : 1];

// The tile: its first column, first pixel, and image.
int o0, y0, x0, image;

void find_tile()
{
    const uint across = uint(g.cout + BN - 1) / uint(BN), wide = uint(g.yw + TW - 1) / uint(TW), high = uint(g.yh + TH - 1) / uint(TH);
    const uint id = group_number(), part = id / across;

    o0 = int(id % across) * BN;
    x0 = int(part % wide) * TW;
    y0 = int(part / wide % high) * TH;
    image = int(part / wide / high);
}

// Pixel m of the tile as an index; -1: it is not in the image.
int pixel(int m)
{
    const int row = y0 + m / TW, col = x0 + m % TW;

    return row < g.yh && col < g.yw ? (image * g.yh + row) * g.yw + col : -1;
}

// ---- loads ----------------------------------------------------------------------------------------------------------

// The pixel of x of vector i of the tile's, as an index; -1: padding.
int source(int i)
{
    const int up = UP2 != 0 ? 2 : 1, q = i / (BC / 8), row = q / PW, col = q % PW;
    const int yy = y0 * STRIDE - (NORM != 0 ? 0 : g.pad_t) + row, xx = x0 * STRIDE - g.pad_l + col;

    return i >= X_VECTORS || yy < 0 || xx < 0 || yy >= g.xh * up || xx >= g.xw * up ? -1
        : (image * g.xh + yy / up) * g.xw + xx / up;
}

uvec4 load_x(int from, int i, int c0)
{
    const int c = c0 + i % (BC / 8) * 8;
    const uint at = uint(from) * g.x_ld + uint(c);

    if (from < 0 || c >= g.cin)
        return uvec4(0);
    if ((VECTORS & 2) != 0)
        return x_8[(g.at[1] + at) / 8];

    uvec4 v = uvec4(0);

    for (int e = 0; e < 8 && c + e < g.cin; e++)
        v[e / 2] |= two_halves(get_x(at + uint(e)), 0) << 16 * (e % 2);
    return v;
}

uvec4 load_w(int i, int c0)
{
    const int column = o0 + i % (BN / 8) * 8, row = i / (BN / 8), c = c0 + row % BC;
    const uint at = g.at[3] + uint(row / BC * g.cin + c) * uint(g.cout_pad);

    if (i >= W_VECTORS || c >= g.cin || column >= g.cout_pad)
        return uvec4(0);
    if (GATE != 0)
        return uvec4(weight_4[(at + uint(column / 2)) / 4], weight_4[(at + uint(g.cout / 2 + column / 2)) / 4]);
    return weight_8[(at + uint(column)) / 8];
}

void find_means()
{
    for (int i = int(gl_LocalInvocationID.x); i < BM; i += THREADS) {
        const uint from = (g.at[1] + uint(min(x0 + i, g.yw - 1)) * g.x_ld) / 8, n = uint(g.cin) / 8;
        float mean = 0, squares = 0;

        for (uint j = 0; j < n; j++) {
            const uvec4 u = x_8[from + j];
            const vec4 v = four(u.xy) + four(u.zw);

            mean += v.x + v.y + (v.z + v.w);
        }
        mean /= float(g.cin);
        for (uint j = 0; j < n; j++) {
            const uvec4 u = x_8[from + j];
            const vec4 v = four(u.xy) - mean, w = four(u.zw) - mean;

            squares += dot(v, v) + dot(w, w);
        }
        means[i] = mean;
        inverses[i] = 1 / sqrt(squares / float(g.cin) + intBitsToFloat(g.pad_t));
    }
}

void put_x(int i, uvec4 u)
{
    const int q = i / (BC / 8);

    if (i >= X_VECTORS)
        return;
    if (NORM != 0) {
        u.xy = as_four((four(u.xy) - means[q]) * inverses[q]);
        u.zw = as_four((four(u.zw) - means[q]) * inverses[q]);
    }
    s[q * X_LD + i % (BC / 8)] = u;
}

void put_w(int i, uvec4 u)
{
    if (i < W_VECTORS)
        s[X_ROOM + i / (BN / 8) * W_LD + i % (BN / 8)] = u;
}

// ---- results ----------------------------------------------------------------------------------------------------------

// The tail of outputs o .. o+3 of pixel p.
vec4 tail_four(vec4 v, int p, int o)
{
    v = g.gain * act(v, PRE);
    if (T2 != ABSENT)
        v += four(res_4[(g.at[2] + uint(p) * g.res_ld + uint(o)) / 4]);
    return act(v, POST);
}

// Columns column .. column+7 of pixel p, without their bias.
void put_columns(int p, int column, vec4 v, vec4 w)
{
    const int outputs = GATE != 0 ? g.cout / 2 : g.cout, o = GATE != 0 ? column / 2 : column;

    if (p < 0 || o >= outputs)
        return;
    v += bias_4[(g.at[4] + uint(o)) / 4];
    w += bias_4[(g.at[4] + uint(GATE != 0 ? o + g.cout / 2 : o + 4)) / 4];
    if (GATE != 0) {
        v *= w;
        if ((VECTORS & 1) != 0) {
            y_4[(g.at[0] + uint(p) * g.y_ld + uint(o)) / 4] = as_four(tail_four(v, p, o));
            return;
        }
    } else if ((VECTORS & 1) != 0 && o + 8 <= outputs) {
        y_8[(g.at[0] + uint(p) * g.y_ld + uint(o)) / 8] = uvec4(as_four(tail_four(v, p, o)), as_four(tail_four(w, p, o + 4)));
        return;
    }
    for (int i = 0; i < (GATE != 0 ? 4 : 8) && o + i < outputs; i++)
        put_y(uint(p) * g.y_ld + uint(o + i), tail(i < 4 ? v[i] : w[i - 4], uint(p), uint(o + i)));
}

// ---- products ---------------------------------------------------------------------------------------------------------

#ifdef MATRICES
#include "matrix.glsl"
#ifdef EMULATE
#define DOWN(X, j) X(0, j) X(1, j)
#define ALONG(X) X(0) X(1)
#else
#define DOWN(X, j) X(0, j) X(1, j) X(2, j) X(3, j)
#define ALONG(X) X(0) X(1) X(2) X(3)
#endif

// Pixels of a subgroup through shared memory: columns `column` .. column+16*PER-1 of its ROWS pixels, which are at `room`.
void put_rows(int room, int m0, int column)
{
    const int lane = int(gl_LocalInvocationID.x) % 32;

    UNROLL for (int e = 0; e < MI * PER; e++) {
        const int unit = lane + 32 * e, row = unit / (2 * PER), eighth = unit % (2 * PER), at = room + row * S_LD + 2 * eighth;

        put_columns(pixel(m0 + row), column + 8 * eighth, uintBitsToFloat(s[at]), uintBitsToFloat(s[at + 1]));
    }
}
#endif

void main()
{
    const int t = int(gl_LocalInvocationID.x);
    uvec4 x_next[MOST], w_next[MOST];
    int from[MOST];
#ifdef MATRICES
    const int warp = t / 32, m0 = warp / ACROSS * ROWS, n0 = warp % ACROSS * 16 * NJ;
#define DECLARE(i, j) SUMS sum##i##j = ZERO;
#define DECLARE_ALL(j) DOWN(DECLARE, j)
    ALONG(DECLARE_ALL)
#else
    const int tx = t % (BN / 8), ty = t / (BN / 8);
    vec4 low[8], high[8]; // of 8 columns
    int at[8];

#define CLEAR(i)                                                                                                           \
    low[i] = high[i] = vec4(0);                                                                                            \
    at[i] = ((ty + i * (BM / PI)) / TW * STRIDE * PW + (ty + i * (BM / PI)) % TW * STRIDE) * X_LD;
    EIGHT(CLEAR)
#endif
    find_tile();
    if (image * g.yh * g.yw >= int(g.pixels))
        return;
    if (NORM != 0)
        find_means();
#define FROM(j)                                                                                                            \
    if (j < X_EACH)                                                                                                        \
        from[j] = source(t + THREADS * j);
#define LOAD_NEXT(j)                                                                                                       \
    if (j < X_EACH)                                                                                                        \
        x_next[j] = load_x(from[j], t + THREADS * j, c0 + BC);                                                             \
    if (j < W_EACH)                                                                                                        \
        w_next[j] = load_w(t + THREADS * j, c0 + BC);
#define PUT_NEXT(j)                                                                                                        \
    if (j < X_EACH)                                                                                                        \
        put_x(t + THREADS * j, x_next[j]);                                                                                 \
    if (j < W_EACH)                                                                                                        \
        put_w(t + THREADS * j, w_next[j]);
    if (AHEAD != 0) {
        NINE(FROM)
    }
    for (int c0 = AHEAD != 0 ? -BC : 0; c0 < g.cin; c0 += BC) {
        if (c0 >= 0) {
            barrier();
            if (AHEAD != 0) {
                NINE(PUT_NEXT)
            } else {
                for (int i = t; i < X_VECTORS; i += THREADS)
                    put_x(i, load_x(source(i), i, c0));
                for (int i = t; i < W_VECTORS; i += THREADS)
                    put_w(i, load_w(i, c0));
            }
            barrier();
        }
        if (AHEAD != 0 && c0 + BC < g.cin) {
            NINE(LOAD_NEXT)
        }
        if (c0 < 0)
            continue;
        for (int u = 0; u < KH; u++)
            UNROLL for (int v = 0; v < KW; v++) {
                const int x_at = (u * PW + v) * X_LD, w_at = X_ROOM + (u * KW + v) * BC * W_LD;
#ifdef MATRICES
                UNROLL for (int k = 0; k < BC / 16; k++) {
                    OPERAND_A a0, a1, a2, a3; // as many as DOWN() has, at most
                    OPERAND_B b;
#define LOAD_A(i, j)                                                                                                       \
    if (i < MI)                                                                                                            \
        LOAD(a##i, x_at + ((m0 + 16 * i) / TW * STRIDE * PW + (m0 + 16 * i) % TW * STRIDE) * X_LD + 2 * k, STRIDE * X_LD);
#define ADD(i, j)                                                                                                          \
    if (i < MI)                                                                                                            \
        sum##i##j = MULTIPLY(a##i, b, sum##i##j);
#define COLUMN(j)                                                                                                          \
    if (j < NJ) {                                                                                                          \
        LOAD(b, w_at + 16 * k * W_LD + n0 / 8 + 2 * j, W_LD);                                                              \
        DOWN(ADD, j)                                                                                                       \
    }
                    DOWN(LOAD_A, 0)
                    ALONG(COLUMN)
                }
#else
#ifdef PACKED
                PACKED4 p_low[8], p_high[8];

                UNROLL for (int k8 = 0; k8 < BC / 8; k8++) {
                    uvec4 a[8];

                    UNROLL for (int i = 0; i < 8; i++)
                        if (i < PI)
                            a[i] = s[at[i] + x_at + k8];
                    UNROLL for (int k = 0; k < 8; k++) {
                        const uvec4 w = s[w_at + (8 * k8 + k) * W_LD + tx];
                        const PACKED4 w_low = PACKED4(PACKED2(w.x), PACKED2(w.y)), w_high = PACKED4(PACKED2(w.z), PACKED2(w.w));
                        const bool first = (PACKED > 8 ? 8 * k8 + k : k) % PACKED == 0;

                        UNROLL for (int i = 0; i < 8; i++)
                            if (i < PI) {
                                const PACKED4 b = PACKED4(PACKED2(a[i][k / 2])[k % 2]);

                                p_low[i] = first ? b * w_low : fma(b, w_low, p_low[i]);
                                p_high[i] = first ? b * w_high : fma(b, w_high, p_high[i]);
                            }
                    }
                    if (PACKED == 8 || 8 * k8 % PACKED == PACKED - 8 || k8 == BC / 8 - 1)
                        UNROLL for (int i = 0; i < 8; i++)
                            if (i < PI) {
                                low[i] += vec4(p_low[i]);
                                high[i] += vec4(p_high[i]);
                            }
                }
#else
                for (int k8 = 0; k8 < BC / 8; k8++) {
                    uvec4 a[8];

                    UNROLL for (int i = 0; i < 8; i++)
                        if (i < PI)
                            a[i] = s[at[i] + x_at + k8];
                    UNROLL for (int k = 0; k < 8; k++) {
                        const uvec4 w = s[w_at + (8 * k8 + k) * W_LD + tx];
                        const vec4 w_low = four(w.xy), w_high = four(w.zw);

                        UNROLL for (int i = 0; i < 8; i++)
                            if (i < PI) {
                                const float b = halves(a[i][k / 2])[k % 2];

                                low[i] += b * w_low;
                                high[i] += b * w_high;
                            }
                    }
                }
#endif
#endif
            }
    }
#ifdef MATRICES
    const int room = warp * ROWS * S_LD;
#define PUT(i, j)                                                                                                          \
    if (i < MI)                                                                                                            \
        STORE(sum##i##j, room + 16 * i * S_LD + j % PER * 4, S_LD);
#define FINISH(j)                                                                                                          \
    if (j < NJ) {                                                                                                          \
        if (j % PER == 0)                                                                                                  \
            barrier();                                                                                                     \
        DOWN(PUT, j)                                                                                                       \
        if (j % PER == PER - 1) {                                                                                          \
            barrier();                                                                                                     \
            put_rows(room, m0, o0 + n0 + 16 * (j + 1 - PER));                                                              \
        }                                                                                                                  \
    }
    ALONG(FINISH)
#else
#define PUT_PIXEL(i)                                                                                                       \
    if (i < PI)                                                                                                            \
        put_columns(pixel(ty + i * (BM / PI)), o0 + tx * 8, low[i], high[i]);
    EIGHT(PUT_PIXEL)
#endif
}
