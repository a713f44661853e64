#version 450
// SPDX-License-Identifier: MIT
// group norm, first part: a workgroup finds the mean of a chunk of pixels of a group, and the sum of squared differences
// from it.  partial is [image][group][chunk][2].
#extension GL_GOOGLE_include_directive : require
#define ARGS uint pixels, x_ld, groups, size, chunk, chunks, n; // size: channels of a group; n: workgroups
#include "common.glsl"
#include "half.glsl"
FLOATS(0, partial)
TENSOR(1, x)
layout(std430, binding = 1) buffer Four1 { uvec2 x_4[]; };
layout(constant_id = 10) const int FOURS = 0; // groups are vectors of 4 elements of fp16

const uint THREADS = 256;
layout(local_size_x = 256) in;

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
    const uint id = group_number(), chunk = id % g.chunks, group = id / g.chunks % g.groups, image = id / g.chunks / g.groups;

    if (id >= g.n)
        return;

    const uint first = chunk * g.chunk, len = min(g.chunk, g.pixels - first) * g.size;
    const uint base = (image * g.pixels + first) * g.x_ld + group * g.size;
    float sum = 0, mean;

    if (FOURS != 0) {
        for (uint i = 4 * gl_LocalInvocationID.x; i < len; i += 4 * THREADS) {
            const vec4 v = four(x_4[(g.at[1] + base + i / g.size * g.x_ld + i % g.size) / 4]);

            sum += v.x + v.y + (v.z + v.w);
        }
    } else {
        for (uint i = gl_LocalInvocationID.x; i < len; i += THREADS)
            sum += get_x(base + i / g.size * g.x_ld + i % g.size);
    }
    mean = sum_of_all(sum) / float(len);
    sum = 0;
    if (FOURS != 0) {
        for (uint i = 4 * gl_LocalInvocationID.x; i < len; i += 4 * THREADS) {
            const vec4 v = four(x_4[(g.at[1] + base + i / g.size * g.x_ld + i % g.size) / 4]) - mean;

            sum += dot(v, v);
        }
    } else {
        for (uint i = gl_LocalInvocationID.x; i < len; i += THREADS) {
            const float v = get_x(base + i / g.size * g.x_ld + i % g.size) - mean;

            sum += v * v;
        }
    }
    sum = sum_of_all(sum);
    if (gl_LocalInvocationID.x == 0) {
        partial[g.at[0] + 2 * id] = mean;
        partial[g.at[0] + 2 * id + 1] = sum;
    }
}
