#version 450
// SPDX-License-Identifier: MIT
// layer and RMS norm: TEAM invocations a pixel
#extension GL_GOOGLE_include_directive : require
#define ARGS uint pixels, c, image, y_ld, x_ld, res_ld, scale_ld, shift_ld, gate_ld; float gain, eps;
#include "common.glsl"
TENSOR(0, y)
TENSOR(1, x)
#include "tail.glsl"
FLOATS(3, gamma)
FLOATS(4, beta)
TENSOR(5, scale)
TENSOR(6, shift)
TENSOR(7, gate)

const uint THREADS = 128;
layout(local_size_x = 128) in;
layout(constant_id = 10) const int TEAM = 32; // a power of two
layout(constant_id = 11) const int RMS = 0;

shared float part[THREADS];

// The sum of v over the team, for all of them.
float team_sum(float v)
{
    const uint t = gl_LocalInvocationID.x;

    part[t] = v;
    for (uint d = uint(TEAM) / 2; d > 0; d /= 2) {
        barrier();
        if (t % TEAM < d)
            part[t] += part[t + d];
    }
    barrier();
    v = part[t / TEAM * TEAM];
    barrier();
    return v;
}

void main()
{
    const uint lane = gl_LocalInvocationID.x % TEAM;
    const uint p = group_number() * (THREADS / TEAM) + gl_LocalInvocationID.x / TEAM;
    const bool on = p < g.pixels;
    float mean = 0, sum = 0, inv;

    if (RMS == 0) {
        for (uint c = lane; on && c < g.c; c += TEAM)
            sum += get_x(p * g.x_ld + c);
        mean = team_sum(sum) / float(g.c);
        sum = 0;
    }
    for (uint c = lane; on && c < g.c; c += TEAM) {
        const float v = get_x(p * g.x_ld + c) - mean;

        sum += v * v;
    }
    inv = 1 / sqrt(team_sum(sum) / float(g.c) + g.eps);
    for (uint c = lane; on && c < g.c; c += TEAM) {
        const uint n = p / g.image;
        float v = (get_x(p * g.x_ld + c) - mean) * inv;

        if (T3 != ABSENT)
            v *= gamma[g.at[3] + c];
        if (T4 != ABSENT)
            v += beta[g.at[4] + c];
        if (T5 != ABSENT)
            v *= 1 + get_scale(n * g.scale_ld + c);
        if (T6 != ABSENT)
            v += get_shift(n * g.shift_ld + c);
        if (T7 != ABSENT)
            v *= get_gate(n * g.gate_ld + c);
        put_y(p * g.y_ld + c, tail(v, p, c));
    }
}
