#version 450
// SPDX-License-Identifier: MIT
// group norm, second part: the chunks' means and squared differences become the scale and shift of each channel,
// [image][c] each; an invocation a channel
#extension GL_GOOGLE_include_directive : require
#define ARGS uint pixels, groups, size, chunk, chunks, n, to_ld; float eps; // n: channels of all images
#include "common.glsl"
FLOATS(0, scale)
FLOATS(1, partial)
FLOATS(2, shift)
FLOATS(3, gamma)
FLOATS(4, beta)
layout(local_size_x = 64) in;

void main()
{
    const uint i = group_number() * 64 + gl_LocalInvocationID.x, c = i % (g.groups * g.size), image = i / (g.groups * g.size);

    if (i >= g.n)
        return;

    const uint from = g.at[1] + 2 * (image * g.groups + c / g.size) * g.chunks;
    const float all = float(g.pixels) * float(g.size);
    float mean = 0, squares = 0, k;

    for (uint j = 0; j < g.chunks; j++)
        mean += partial[from + 2 * j] * (float(min(g.chunk, g.pixels - j * g.chunk)) / float(g.pixels));
    for (uint j = 0; j < g.chunks; j++) {
        const float d = partial[from + 2 * j] - mean;

        squares += partial[from + 2 * j + 1] + d * d * float(min(g.chunk, g.pixels - j * g.chunk)) * float(g.size);
    }
    k = (T3 != ABSENT ? gamma[g.at[3] + c] : 1) / sqrt(squares / all + g.eps);
    scale[g.at[0] + image * g.to_ld + c] = k;
    shift[g.at[2] + image * g.to_ld + c] = (T4 != ABSENT ? beta[g.at[4] + c] : 0) - mean * k;
}
