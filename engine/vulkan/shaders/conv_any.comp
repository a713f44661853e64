#version 450
// SPDX-License-Identifier: MIT
// any convolution; an invocation an output of a pixel
#extension GL_GOOGLE_include_directive : require
#include "conv.glsl"
layout(local_size_x = 128) in;

void main()
{
    const uint i = group_number() * 128 + gl_LocalInvocationID.x;

    if (i >= g.pixels * uint(g.cout))
        return;

    const uint p = i / uint(g.cout), o = i % uint(g.cout);
    const int col = int(p % uint(g.yw)), row = int(p / uint(g.yw)) % g.yh, image = int(p / uint(g.yw)) / g.yh;
    const uint from = o / uint(g.group_cout) * uint(g.cin);
    const int up = UP2 != 0 ? 2 : 1;
    float sum = bias[g.at[4] + o];

    for (int u = 0; u < g.kh; u++)
        for (int v = 0; v < g.kw; v++) {
            const int yy = row * g.stride + u - g.pad_t, xx = col * g.stride + v - g.pad_l;

            if (yy < 0 || xx < 0 || yy >= g.xh * up || xx >= g.xw * up)
                continue;

            const uint at = uint((image * g.xh + yy / up) * g.xw + xx / up) * g.x_ld + from;
            const uint w = uint((u * g.kw + v) * g.cin) * uint(g.cout_pad) + o;

            for (uint c = 0; c < uint(g.cin); c++)
                sum += get_x(at + c) * get_weight(w + c * uint(g.cout_pad));
        }
    put_y(p * g.y_ld + o, tail(sum, p, o));
}
