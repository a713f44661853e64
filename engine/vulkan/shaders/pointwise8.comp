#version 450
// SPDX-License-Identifier: MIT
// map and binary of fp16 tensors in vectors of 8: an invocation a vector
#extension GL_GOOGLE_include_directive : require
#define ARGS uint n, c, y_ld, a_ld, b_ld, res_ld; float gain; // c: vectors of a pixel; 0: the tensors have no gaps
#include "common.glsl"
#include "half.glsl"
layout(std430, binding = 0) buffer Y { uvec4 y[]; };
layout(std430, binding = 1) buffer A { uvec4 a[]; };
layout(std430, binding = 2) buffer Res { uvec4 res[]; };
layout(std430, binding = 3) buffer B { uvec4 b[]; };
layout(local_size_x = 256) in;
layout(constant_id = 10) const int OP = 0; // 0: map, 1: add, 2: multiply

void main()
{
    const uint i = group_number() * 256 + gl_LocalInvocationID.x;

    if (i >= g.n)
        return;

    const uint p = g.c > 0 ? i / g.c : 0, c = i - p * g.c;
    float v[8] = eight(a[g.at[1] / 8 + p * (g.a_ld / 8) + c]);

    if (OP != 0) {
        const float w[8] = eight(b[g.at[3] / 8 + p * (g.b_ld / 8) + c]);

        for (int e = 0; e < 8; e++)
            v[e] = OP == 1 ? v[e] + w[e] : v[e] * w[e];
    }
    for (int e = 0; e < 8; e++)
        v[e] = g.gain * act(v[e], PRE);
    if (T2 != ABSENT) {
        const float r[8] = eight(res[g.at[2] / 8 + p * (g.res_ld / 8) + c]);

        for (int e = 0; e < 8; e++)
            v[e] += r[e];
    }
    for (int e = 0; e < 8; e++)
        v[e] = act(v[e], POST);
    y[g.at[0] / 8 + p * (g.y_ld / 8) + c] = as_eight(v);
}
