#version 450
// SPDX-License-Identifier: MIT
// y = tail((x * factor + offset) * (1 + scale) + shift) * gate), per channel; an invocation an element
#extension GL_GOOGLE_include_directive : require
#define ARGS uint n, c, image, of_ld, y_ld, x_ld, res_ld, scale_ld, shift_ld, gate_ld; float gain; // of_ld 0: same for all images
#include "common.glsl"
TENSOR(0, y)
TENSOR(1, x)
#include "tail.glsl"
FLOATS(3, factor)
FLOATS(4, offset)
TENSOR(5, scale)
TENSOR(6, shift)
TENSOR(7, gate)
layout(local_size_x = 256) in;

void main()
{
    const uint i = group_number() * 256 + gl_LocalInvocationID.x;

    if (i >= g.n)
        return;

    const uint p = i / g.c, c = i - p * g.c, n = p / g.image;
    float v = get_x(p * g.x_ld + c) * factor[g.at[3] + n * g.of_ld + c] + offset[g.at[4] + n * g.of_ld + c];

    if (T5 != ABSENT)
        v *= 1 + get_scale(n * g.scale_ld + c);
    if (T6 != ABSENT)
        v += get_shift(n * g.shift_ld + c);
    if (T7 != ABSENT)
        v *= get_gate(n * g.gate_ld + c);
    put_y(p * g.y_ld + c, tail(v, p, c));
}
