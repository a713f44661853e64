#version 450
// SPDX-License-Identifier: MIT
// gated_dw in fp16, for channels that are multiples of 4: an invocation 4 channels of 4 pixels of a row
#extension GL_GOOGLE_include_directive : require
#define ARGS uint n, c, w, xh, above, y_ld, x_ld, pad; // n: invocations; xh: rows of x
#include "common.glsl"
#include "half.glsl"
layout(std430, binding = 0) buffer Y { uvec2 y[]; };
layout(std430, binding = 1) buffer X { uvec2 x[]; };
layout(std430, binding = 2) buffer Weight { vec4 weight[]; };
layout(std430, binding = 3) buffer Bias { vec4 bias[]; };
layout(local_size_x = 128) in;

const int PIXELS = 4;

void main()
{
    const uint i = group_number() * 128 + gl_LocalInvocationID.x;

    if (i >= g.n)
        return;

    const uint vectors = g.c / 4, across = (g.w + PIXELS - 1) / PIXELS, o = i % vectors, part = i / vectors;
    const int row = int(part / across), col = int(part % across) * PIXELS;
    vec4 a[PIXELS], b[PIXELS];

    for (int j = 0; j < PIXELS; j++) {
        a[j] = bias[g.at[3] / 4 + o];
        b[j] = bias[g.at[3] / 4 + vectors + o];
    }
    for (int u = 0; u < 3; u++) {
        const int ii = row + int(g.above) + u - 1;
        vec4 wa[3], wb[3];

        if (ii < 0 || ii >= int(g.xh))
            continue;
        for (int v = 0; v < 3; v++) {
            const uint at = (g.at[2] + uint(3 * u + v) * g.pad) / 4 + o;

            wa[v] = weight[at];
            wb[v] = weight[at + vectors];
        }
        for (int s = -1; s <= PIXELS; s++) {
            const int jj = col + s;

            if (jj >= 0 && jj < int(g.w)) {
                const uint at = (g.at[1] + uint(ii * int(g.w) + jj) * g.x_ld) / 4 + o;
                const vec4 xa = four(x[at]), xb = four(x[at + vectors]);

                for (int v = 0; v < 3; v++)
                    if (s - v + 1 >= 0 && s - v + 1 < PIXELS) {
                        a[s - v + 1] += wa[v] * xa;
                        b[s - v + 1] += wb[v] * xb;
                    }
            }
        }
    }
    for (int j = 0; j < PIXELS; j++)
        if (col + j < int(g.w))
            y[(g.at[0] + (uint(row) * g.w + uint(col + j)) * g.y_ld) / 4 + o] = as_four(a[j] * b[j]);
}
