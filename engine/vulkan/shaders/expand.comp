#version 450
// SPDX-License-Identifier: MIT
// weights in int8 or int4, [cout][k_row] in the order of the file, to fp16 [k][cout_pad]; an invocation two outputs
#extension GL_GOOGLE_include_directive : require
#define ARGS uint n, cout, cout_pad, cin, taps, k_row;
#include "common.glsl"
#include "half.glsl"
layout(std430, binding = 0) buffer To { uint to[]; };
layout(std430, binding = 1) buffer From { uint from[]; };
layout(std430, binding = 2) buffer Scale { uint scale[]; };
layout(local_size_x = 256) in;
layout(constant_id = 10) const int FOUR_BITS = 0;

float weight(uint o, uint k)
{
    if (o >= g.cout)
        return 0;

    const uint i = o * g.k_row + k, s = i / 32;
    const float by = halves(scale[g.at[2] + s / 2] >> 16 * (s % 2)).x;

    if (FOUR_BITS != 0)
        return float(int(from[g.at[1] + i / 8] >> 4 * (i % 8) & 15) - 8) * by;
    return float(int(from[g.at[1] + i / 4] << 24 - 8 * (i % 4)) >> 24) * by;
}

void main()
{
    const uint i = group_number() * 256 + gl_LocalInvocationID.x;

    if (i >= g.n)
        return;

    const uint row = 2 * i / g.cout_pad, o = 2 * i % g.cout_pad, k = row % g.cin * g.taps + row / g.cin;

    to[g.at[0] + i] = two_halves(weight(o, k), weight(o + 1, k));
}
