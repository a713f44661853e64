#version 450
// SPDX-License-Identifier: MIT
// linear layers in integers: x [pixel][k] in int8 (quantise.comp) by weights [output][k] in int8 or int4, groups of 32 along k
// with a scale each
//
// A workgroup computes BM pixels by 64 outputs, STEP groups at a time; an invocation TM pixels by 4 outputs.  Four products and
// their sum are one instruction (SPV_KHR_integer_dot_product).
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_spirv_intrinsics : require
#define ARGS uint pixels, y_ld, res_ld, cout, groups; float gain;
#include "common.glsl"
TENSOR(0, y)
layout(std430, binding = 1) buffer X { uvec4 x[]; }; // [pixel][group][2]
#include "tail.glsl"
layout(std430, binding = 3) buffer Weight { uvec4 weight[]; }; // [output][group][2], int4: [1]
FLOATS(4, bias)
FLOATS(5, x_scale)                                              // [pixel][group]
layout(std430, binding = 6) buffer Scale { uint w_scale[]; }; // [output][group], two halves each
#ifdef SOFT
#define UNROLL
#else
#define UNROLL [[unroll]]
#endif

layout(local_size_x = 128) in;
layout(constant_id = 10) const int FOUR_BITS = 0;
layout(constant_id = 11) const int TM = 8; // at most
const int BM = 8 * TM, BN = 64, STEP = 2;
const int LD = 2 * STEP + 1; // vectors of a row; odd: no bank conflicts

shared uvec4 xs[BM * LD], ws[BN * LD];
shared float x_by[STEP * BM], w_by[STEP * BN];

// The sum of four products of signed bytes: OpSDotKHR of packed vectors (format 0).
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int dot_bytes(uint a, uint b, spirv_literal int format);

// A sum is below 2^22: added to this number's bits it is the mantissa of 1.5 * 2^23 + sum.
const int ZERO_BITS = 0x4b400000;
const float ZERO = 12582912;

// Nibbles, minus 8, as bytes.
uint bytes(uint nibbles)
{
    const uint v = nibbles & 15 | (nibbles & 0xf0) << 4 | (nibbles & 0xf00) << 8 | (nibbles & 0xf000) << 12;

    return v + 0x78787878 ^ 0x80808080;
}

// Vector i of the weights of group at, an index [output][group].
uvec4 load_weight(uint at, uint i)
{
    if (FOUR_BITS == 0)
        return weight[g.at[3] / 4 + 2 * at + i];

    const uvec4 all = weight[g.at[3] / 4 + at];
    const uvec2 u = i == 0 ? all.xy : all.zw;

    return uvec4(bytes(u.x), bytes(u.x >> 16), bytes(u.y), bytes(u.y >> 16));
}

void main()
{
    const uint t = gl_LocalInvocationID.x, across = (g.cout + BN - 1) / BN, id = group_number();
    const uint o0 = id % across * BN, p0 = id / across * BM, tx = t % 16, ty = t / 16;
    vec4 sum[8];

    if (p0 >= g.pixels)
        return;
    UNROLL for (int i = 0; i < 8; i++)
        sum[i] = vec4(0);
    for (uint first = 0; first < g.groups; first += STEP) {
        barrier();
        UNROLL for (uint i = t; i < 2 * STEP * BM; i += 128) {
            const uint row = i / (2 * STEP), v = i % (2 * STEP), group = min(first + v / 2, g.groups - 1);

            xs[row * LD + v] = x[g.at[1] / 4 + 2 * (min(p0 + row, g.pixels - 1) * g.groups + group) + v % 2];
        }
        UNROLL for (uint i = t; i < 2 * STEP * BN; i += 128) {
            const uint row = i / (2 * STEP), v = i % (2 * STEP), group = min(first + v / 2, g.groups - 1);

            ws[row * LD + v] = load_weight(min(o0 + row, g.cout - 1) * g.groups + group, v % 2);
        }
        for (uint i = t; i < STEP * BM; i += 128) { // groups past the last count as 0
            const uint group = first + i / BM;

            x_by[i] = group < g.groups ? x_scale[g.at[5] + min(p0 + i % BM, g.pixels - 1) * g.groups + group] : 0;
        }
        for (uint i = t; i < STEP * BN; i += 128) {
            const uint group = first + i / BN, at = min(o0 + i % BN, g.cout - 1) * g.groups + min(group, g.groups - 1);

            w_by[i] = group < g.groups ? halves(w_scale[g.at[6] + at / 2])[at % 2] : 0;
        }
        barrier();
        UNROLL for (int s = 0; s < STEP; s++) {
            const vec4 by = vec4(w_by[s * BN + tx], w_by[s * BN + tx + 16], w_by[s * BN + tx + 32], w_by[s * BN + tx + 48]);
            ivec4 d[8];

            UNROLL for (int i = 0; i < 8; i++)
                d[i] = ivec4(ZERO_BITS);
            UNROLL for (int h = 0; h < 2; h++) {
                uvec4 w[4];

                UNROLL for (int j = 0; j < 4; j++)
                    w[j] = ws[(tx + 16 * j) * LD + 2 * s + h];
                UNROLL for (int i = 0; i < 8; i++)
                    if (i < TM) {
                        const uvec4 a = xs[(ty + 8 * i) * LD + 2 * s + h];

                        UNROLL for (int e = 0; e < 4; e++)
                            UNROLL for (int j = 0; j < 4; j++)
                                d[i][j] += dot_bytes(a[e], w[j][e], 0);
                    }
            }
            UNROLL for (int i = 0; i < 8; i++)
                if (i < TM)
                    sum[i] += (intBitsToFloat(d[i]) - ZERO) * (by * x_by[s * BM + ty + 8 * i]);
        }
    }
    UNROLL for (int i = 0; i < 8; i++)
        UNROLL for (int j = 0; j < 4; j++) {
            const uint p = p0 + ty + 8 * i, o = o0 + tx + 16 * j;

            if (i < TM && p < g.pixels && o < g.cout)
                put_y(p * g.y_ld + o, tail(sum[i][j] + bias[g.at[4] + o], p, o));
        }
}
