#version 450
// SPDX-License-Identifier: MIT
// y[p][first + c] = value[c], c < n
#extension GL_GOOGLE_include_directive : require
#define ARGS uint total, y_ld, first, n;
#include "common.glsl"
TENSOR(0, y)
FLOATS(1, value)
layout(local_size_x = 256) in;

void main()
{
    const uint i = group_number() * 256 + gl_LocalInvocationID.x;

    if (i < g.total)
        put_y(i / g.n * g.y_ld + g.first + i % g.n, value[g.at[1] + i % g.n]);
}
