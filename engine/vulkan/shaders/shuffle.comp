#version 450
// SPDX-License-Identifier: MIT
// big[i*r+u][j*r+v][c] <-> small[i][j][c*r*r + u*r + v]; an invocation an element of y, which is big or small
#extension GL_GOOGLE_include_directive : require
#define ARGS uint n, c, y_ld, x_ld, h, w, r, res_ld; float gain; // h, w: of small; c: of y
#include "common.glsl"
TENSOR(0, y)
TENSOR(1, x)
#include "tail.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 10) const int TO_BIG = 0;

void main()
{
    const uint i = group_number() * 256 + gl_LocalInvocationID.x;

    if (i >= g.n)
        return;

    const uint p = i / g.c, c = i % g.c, r = g.r;

    if (TO_BIG != 0) {
        const uint col = p % (g.w * r), row = p / (g.w * r); // rows of all images
        const uint from = (row / r * g.w + col / r) * g.x_ld + c * r * r + row % r * r + col % r;

        put_y(p * g.y_ld + c, tail(get_x(from), p, c));
    } else {
        const uint col = p % g.w, row = p / g.w;
        const uint from = ((row * r + c / r % r) * g.w * r + col * r + c % r) * g.x_ld + c / (r * r);

        put_y(p * g.y_ld + c, get_x(from));
    }
}
