#version 450
// SPDX-License-Identifier: MIT
// inputs of a linear layer to int8, in groups of 32 that have a scale, as zn_quantise_input does (core/quantise.h); an invocation
// a group
#extension GL_GOOGLE_include_directive : require
#define ARGS uint n, groups, c, x_ld;
#include "common.glsl"
#include "half.glsl"
layout(std430, binding = 0) buffer To { uvec4 to[]; }; // [pixel][group][2]
TENSOR(1, x)
layout(std430, binding = 1) buffer Eight1 { uvec4 x_8[]; };
FLOATS(2, scale) // [pixel][group]
layout(local_size_x = 64) in;
layout(constant_id = 10) const int VECTORS = 0; // x is in vectors of 8 halves

// Channels c .. c+7 of pixel p; beyond the last, zeros.
float[8] load(uint p, uint c)
{
    float v[8];

    if (VECTORS != 0)
        return eight(c < g.c ? x_8[(g.at[1] + p * g.x_ld + c) / 8] : uvec4(0));
    for (uint i = 0; i < 8; i++)
        v[i] = c + i < g.c ? get_x(p * g.x_ld + c + i) : 0;
    return v;
}

// a / b, rounded to the nearest also where division is not
float divide(float a, float b)
{
    const float q = a / b;

    return q + fma(-q, b, a) / b;
}

void main()
{
    const uint i = group_number() * 64 + gl_LocalInvocationID.x, p = i / g.groups, c0 = i % g.groups * 32;
    uint top = 0; // of magnitudes as bits, which have their order; infinity and what is not a number are above all others

    if (i >= g.n)
        return;
    for (uint j = 0; j < 4; j++) {
        const float v[8] = load(p, c0 + 8 * j);

        for (int e = 0; e < 8; e++)
            top = max(top, floatBitsToUint(v[e]) & 0x7fffffff);
    }

    const float most = uintBitsToFloat(top), by = most > 1e-30 && top < 0x7f800000 ? divide(127, most) : 0;

    for (uint j = 0; j < 2; j++) {
        uvec4 packed;

        for (uint h = 0; h < 2; h++) {
            const float v[8] = load(p, c0 + 16 * j + 8 * h);

            for (int u = 0; u < 2; u++) {
                uint four = 0;

                for (int e = 0; e < 4; e++)
                    four |= (by != 0 ? uint(int(roundEven(v[4 * u + e] * by))) & 255 : 0) << 8 * e;
                packed[2 * h + u] = four;
            }
        }
        to[g.at[0] / 4 + 2 * i + j] = packed;
    }
    scale[g.at[2] + i] = top < 0x7f800000 ? divide(most, 127) : uintBitsToFloat(0x7fc00000);
}
