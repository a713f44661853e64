#version 450
// SPDX-License-Identifier: MIT
// group norm, second part: the chunks' means and squared differences become the scale and shift of each channel,
// [image][c] each; a workgroup a group of an image
#extension GL_GOOGLE_include_directive : require
#define ARGS uint pixels, groups, size, chunk, chunks, n, to_ld; float eps; // n: workgroups
#include "common.glsl"
FLOATS(0, scale)
FLOATS(1, partial)
FLOATS(2, shift)
FLOATS(3, gamma)
FLOATS(4, beta)

const uint THREADS = 64;
layout(local_size_x = 64) in;

shared float part[THREADS];

float sum_of_all(float v)
{
    const uint t = gl_LocalInvocationID.x;

    part[t] = v;
    for (uint d = THREADS / 2; d > 0; d /= 2) {
        barrier();
        if (t < d)
            part[t] += part[t + d];
    }
    barrier();
    v = part[0];
    barrier();
    return v;
}

void main()
{
    const uint id = group_number(), group = id % g.groups, image = id / g.groups, from = g.at[1] + 2 * id * g.chunks;
    const float all = float(g.pixels) * float(g.size);
    float mean = 0, squares = 0, inv;

    if (id >= g.n)
        return;
    for (uint j = gl_LocalInvocationID.x; j < g.chunks; j += THREADS)
        mean += partial[from + 2 * j] * (float(min(g.chunk, g.pixels - j * g.chunk)) / float(g.pixels));
    mean = sum_of_all(mean);
    for (uint j = gl_LocalInvocationID.x; j < g.chunks; j += THREADS) {
        const float d = partial[from + 2 * j] - mean;

        squares += partial[from + 2 * j + 1] + d * d * float(min(g.chunk, g.pixels - j * g.chunk)) * float(g.size);
    }
    inv = 1 / sqrt(sum_of_all(squares) / all + g.eps);
    for (uint i = gl_LocalInvocationID.x; i < g.size; i += THREADS) {
        const uint c = group * g.size + i;
        const float k = inv * (T3 != ABSENT ? gamma[g.at[3] + c] : 1);

        scale[g.at[0] + image * g.to_ld + c] = k;
        shift[g.at[2] + image * g.to_ld + c] = (T4 != ABSENT ? beta[g.at[4] + c] : 0) - mean * k;
    }
}
