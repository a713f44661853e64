#version 450
// SPDX-License-Identifier: MIT
// convolutions of one group in fp16 as products of cooperative matrices, 16x16x16 with sums in float32
//
// A workgroup of 8 subgroups computes BM = 32 * DOWN pixels by BN = 64 * ACROSS outputs, 32 inputs at a time; a subgroup
// 32 pixels by 64 outputs.  While it multiplies, it loads the next inputs into registers.
//
// This is written with GL_NV_cooperative_matrix, which older compilers have; tools/spirv_khr.py makes it the extension of
// all vendors.  It tells matrices apart by their sizes: A is M x K, B is K x N, and sums are M x N.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "conv.glsl"
layout(std430, binding = 0) buffer Eight0 { uvec4 y_8[]; };
layout(std430, binding = 1) buffer Eight1 { uvec4 x_8[]; };
layout(std430, binding = 2) buffer Eight2 { uvec4 res_8[]; };
layout(std430, binding = 3) buffer Eight3 { uvec4 weight_8[]; };

layout(local_size_x = 256) in;
layout(constant_id = 11) const int DOWN = 4;
layout(constant_id = 12) const int ACROSS = 2;
layout(constant_id = 13) const int VECTORS = 0; // y and the residual are written and read in vectors of 8
layout(constant_id = 24) const uint M = 16; // never set: 16
layout(constant_id = 25) const uint N = 16;
layout(constant_id = 26) const uint K = 16;

const int BK = 32, BM = 32 * DOWN, BN = 64 * ACROSS;
const int X_LD = BK / 8 + 1, W_LD = BN / 8 + 1; // vectors of 8 from one row to the next: against bank conflicts
const int S_LD = 20;
const int X_EACH = BM * BK / 8 / 256, W_EACH = BN * BK / 8 / 256; // vectors that an invocation loads
const int MOST = 4;

shared uvec4 xs[BM * X_LD], ws[BK * W_LD];
shared float stage[8][16 * S_LD];

struct pixel {
    int image_row, row, col; // image_row: rows of x before its image
};

int under(pixel p, int tap)
{
    const int up = UP2 != 0 ? 2 : 1, u = tap / g.kw;
    const int yy = p.row + u, xx = p.col + (tap - u * g.kw);

    return yy < 0 || xx < 0 || yy >= g.xh * up || xx >= g.xw * up ? -1 : (p.image_row + yy / up) * g.xw + xx / up;
}

void put_eight(uint p, uint o, float v[8])
{
    if (VECTORS != 0 && o + 8 <= uint(g.cout)) {
        for (int i = 0; i < 8; i++)
            v[i] = g.gain * act(v[i], PRE);
        if (T2 != ABSENT) {
            const uvec4 r = res_8[(g.at[2] + p * g.res_ld + o) / 8];

            for (int i = 0; i < 4; i++) {
                const vec2 two = halves(r[i]);

                v[2 * i] += two.x;
                v[2 * i + 1] += two.y;
            }
        }
        for (int i = 0; i < 8; i++)
            v[i] = act(v[i], POST);
        y_8[(g.at[0] + p * g.y_ld + o) / 8] = uvec4(packHalf2x16(vec2(v[0], v[1])), packHalf2x16(vec2(v[2], v[3])),
                                                    packHalf2x16(vec2(v[4], v[5])), packHalf2x16(vec2(v[6], v[7])));
    } else {
        for (uint i = 0; i < 8; i++)
            if (o + i < uint(g.cout))
                put_y(p * g.y_ld + o + i, tail(v[i], p, o + i));
    }
}

void main()
{
    const int t = int(gl_LocalInvocationID.x), warp = t / 32, lane = t % 32;
    const uint across = uint(g.cout + BN - 1) / uint(BN), id = group_number();
    const int o0 = int(id % across) * BN;
    const uint p0 = id / across * uint(BM);
    const int wm = warp / ACROSS * 32, wn = warp % ACROSS * 64; // of this subgroup in the tile
    pixel mine[MOST];
    uvec4 x_next[MOST], w_next[MOST];
    int c = t % 4 * 8, tap = 0; // of the next inputs
    fcoopmatNV<32, gl_ScopeSubgroup, M, N> sum[2][4];

    if (p0 >= g.pixels)
        return;
    for (int i = 0; i < X_EACH; i++) {
        const uint p = min(p0 + uint(t / 4 + 64 * i), g.pixels - 1), line = p / uint(g.yw);

        mine[i].col = int(p - line * uint(g.yw)) * g.stride - g.pad_l;
        mine[i].row = int(line % uint(g.yh)) * g.stride - g.pad_t;
        mine[i].image_row = int(line / uint(g.yh)) * g.xh;
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            sum[i][j] = fcoopmatNV<32, gl_ScopeSubgroup, M, N>(0.0);
    for (int k0 = -BK; k0 < g.k; k0 += BK) {
        const int next = k0 + BK;

        if (k0 >= 0) {
            barrier();
            for (int i = 0; i < X_EACH; i++)
                xs[(t / 4 + 64 * i) * X_LD + t % 4] = x_next[i];
            for (int i = 0; i < W_EACH; i++) {
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
            for (int i = 0; i < X_EACH; i++) {
                const int q = tap < g.kh * g.kw ? under(mine[i], tap) : -1;

                x_next[i] = q >= 0 ? x_8[(g.at[1] + uint(q) * g.x_ld + uint(c)) / 8] : uvec4(0);
            }
            for (int i = 0; i < W_EACH; i++) {
                const int at = t + 256 * i, k = next + at / (BN / 8), o = o0 + at % (BN / 8) * 8;

                w_next[i] = k < g.k && o < g.cout_pad ? weight_8[(g.at[3] + uint(k) * uint(g.cout_pad) + uint(o)) / 8] : uvec4(0);
            }
            c += BK;
        }
        if (k0 >= 0)
            for (int k = 0; k < BK / 16; k++) {
                fcoopmatNV<16, gl_ScopeSubgroup, M, K> a[2];
                fcoopmatNV<16, gl_ScopeSubgroup, K, N> b;

                for (int i = 0; i < 2; i++)
                    coopMatLoadNV(a[i], xs, uint((wm + 16 * i) * X_LD + 2 * k), uint(X_LD), false);
                for (int j = 0; j < 4; j++) {
                    coopMatLoadNV(b, ws, uint(16 * k * W_LD + (wn + 16 * j) / 8), uint(W_LD), false);
                    for (int i = 0; i < 2; i++)
                        sum[i][j] = coopMatMulAddNV(a[i], b, sum[i][j]);
                }
            }
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) {
            const uint p = p0 + uint(wm + 16 * i + lane / 2), o = uint(o0 + wn + 16 * j + lane % 2 * 8);
            float v[8];

            barrier();
            coopMatStoreNV(sum[i][j], stage[warp], 0, uint(S_LD), false);
            barrier();
            for (int e = 0; e < 8; e++)
                v[e] = stage[warp][lane / 2 * S_LD + lane % 2 * 8 + e] + (o + e < g.cout_pad ? bias[g.at[4] + o + e] : 0);
            if (p < g.pixels && o < uint(g.cout))
                put_eight(p, o, v);
        }
}
