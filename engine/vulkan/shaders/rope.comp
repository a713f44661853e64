#version 450
// SPDX-License-Identifier: MIT
// rotary position embedding; an invocation a pair
#extension GL_GOOGLE_include_directive : require
#define ARGS uint n, y_ld, x_ld, cos_ld, sin_ld, half_dim, pairs, image;
#include "common.glsl"
TENSOR(0, y)
TENSOR(1, x)
FLOATS(2, cosines)
FLOATS(3, sines)
layout(local_size_x = 256) in;
layout(constant_id = 10) const int INTERLEAVED = 0;

void main()
{
    const uint i = group_number() * 256 + gl_LocalInvocationID.x;

    if (i >= g.n)
        return;

    const uint p = i / g.pairs, pair = i % g.pairs, head = pair / g.half_dim, j = pair % g.half_dim;
    const uint first = head * 2 * g.half_dim;
    const uint a = first + (INTERLEAVED != 0 ? 2 * j : j), b = INTERLEAVED != 0 ? a + 1 : a + g.half_dim;
    const uint position = p % g.image;
    const float c = cosines[g.at[2] + position * g.cos_ld + j], s = sines[g.at[3] + position * g.sin_ld + j];
    const float xa = get_x(p * g.x_ld + a), xb = get_x(p * g.x_ld + b);

    put_y(p * g.y_ld + a, xa * c - xb * s);
    put_y(p * g.y_ld + b, xa * s + xb * c);
}
