#version 450
// SPDX-License-Identifier: MIT
// nearest neighbour, or the mean of the pixels that a pixel of y covers; an invocation an element
#extension GL_GOOGLE_include_directive : require
#define ARGS uint n, c, y_ld, x_ld, yh, yw, xh, xw;
#include "common.glsl"
TENSOR(0, y)
TENSOR(1, x)
layout(local_size_x = 256) in;
layout(constant_id = 10) const int AVERAGE = 0;

void main()
{
    const uint i = group_number() * 256 + gl_LocalInvocationID.x;

    if (i >= g.n)
        return;

    const uint p = i / g.c, c = i % g.c, col = p % g.yw, row = p / g.yw % g.yh, image = p / g.yw / g.yh;
    float v;

    if (AVERAGE != 0) {
        const uint h = g.xh / g.yh, w = g.xw / g.yw;
        const uint first = (image * g.xh + row * h) * g.xw + col * w;

        v = 0;
        for (uint u = 0; u < h; u++) {
            float of_row = 0;

            for (uint j = 0; j < w; j++)
                of_row += get_x((first + u * g.xw + j) * g.x_ld + c);
            v += of_row;
        }
        v /= float(h) * float(w);
    } else { // the pixel under the centre: floor((2 i + 1) * xh / (2 yh))
        const uint u = min((2 * row + 1) * g.xh / (2 * g.yh), g.xh - 1), j = min((2 * col + 1) * g.xw / (2 * g.yw), g.xw - 1);

        v = get_x(((image * g.xh + u) * g.xw + j) * g.x_ld + c);
    }
    put_y(p * g.y_ld + c, v);
}
