#version 450
// SPDX-License-Identifier: MIT
// y = tail((x * factor + offset) * (1 + scale) + shift) * gate), per channel; an invocation an element
#extension GL_GOOGLE_include_directive : require
#define ARGS uint n, c, image, of_ld, y_ld, x_ld, res_ld, scale_ld, shift_ld, gate_ld; float gain; // of_ld 0: same for all images
#include "common.glsl"
#include "half.glsl"
TENSOR(0, y)
TENSOR(1, x)
#include "tail.glsl"
FLOATS(3, factor)
FLOATS(4, offset)
TENSOR(5, scale)
TENSOR(6, shift)
TENSOR(7, gate)
layout(std430, binding = 0) buffer Four0 { uvec2 y_4[]; };
layout(std430, binding = 1) buffer Four1 { uvec2 x_4[]; };
layout(local_size_x = 256) in;
layout(constant_id = 10) const int FOURS = 0; // an invocation 4 elements of fp16

// Element c of pixel p of image n, before the tail.
float scaled(float v, uint n, uint c)
{
    v = v * factor[g.at[3] + n * g.of_ld + c] + offset[g.at[4] + n * g.of_ld + c];
    if (T5 != ABSENT)
        v *= 1 + get_scale(n * g.scale_ld + c);
    if (T6 != ABSENT)
        v += get_shift(n * g.shift_ld + c);
    if (T7 != ABSENT)
        v *= get_gate(n * g.gate_ld + c);
    return v;
}

void main()
{
    const uint i = (group_number() * 256 + gl_LocalInvocationID.x) * (FOURS != 0 ? 4 : 1);

    if (i >= g.n)
        return;

    const uint p = i / g.c, c = i - p * g.c, n = p / g.image;

    if (FOURS != 0) {
        vec4 v = four(x_4[(g.at[1] + p * g.x_ld + c) / 4]);

        for (uint e = 0; e < 4; e++)
            v[e] = tail(scaled(v[e], n, c + e), p, c + e);
        y_4[(g.at[0] + p * g.y_ld + c) / 4] = as_four(v);
    } else {
        put_y(p * g.y_ld + c, tail(scaled(get_x(p * g.x_ld + c), n, c), p, c));
    }
}
