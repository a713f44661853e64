#version 450
// SPDX-License-Identifier: MIT
// y[p][o] = dw(x)[p][o] * dw(x)[p][c + o]: rows of an image; x begins `above` rows earlier.  An invocation an element of y
#extension GL_GOOGLE_include_directive : require
#define ARGS uint n, c, w, xh, above, y_ld, x_ld, pad; // xh: rows of x
#include "common.glsl"
TENSOR(0, y)
TENSOR(1, x)
FLOATS(2, weight)
FLOATS(3, bias)
layout(local_size_x = 256) in;

void main()
{
    const uint i = group_number() * 256 + gl_LocalInvocationID.x;

    if (i >= g.n)
        return;

    const uint p = i / g.c, o = i % g.c;
    const int row = int(p / g.w + g.above), col = int(p % g.w);
    float a = bias[g.at[3] + o], b = bias[g.at[3] + g.c + o];

    for (int t = 0; t < 9; t++) {
        const int ii = row + t / 3 - 1, jj = col + t % 3 - 1;

        if (ii >= 0 && jj >= 0 && ii < int(g.xh) && jj < int(g.w)) {
            const uint at = uint(ii * int(g.w) + jj) * g.x_ld + o, k = g.at[2] + uint(t) * g.pad + o;

            a += weight[k] * get_x(at);
            b += weight[k + g.c] * get_x(at + g.c);
        }
    }
    put_y(p * g.y_ld + o, a * b);
}
