#version 450
// SPDX-License-Identifier: MIT
// Walsh-Hadamard transforms along c (backend.h): a workgroup has TOTAL / N pixels, in shared memory
#extension GL_GOOGLE_include_directive : require
#define ARGS uint pixels, x_c, y_c, x_ld, y_ld, rounds;
#include "common.glsl"
TENSOR(0, y)
TENSOR(1, x)
FLOATS(2, pre)
layout(std430, binding = 3) buffer Perm { int perm[]; };
FLOATS(4, slm)
FLOATS(5, mixer)
FLOATS(6, gate)
FLOATS(7, bias)

const uint THREADS = 256, MOST = 32;
layout(local_size_x = 256) in;
layout(constant_id = 10) const int N_ = 2;
layout(constant_id = 11) const int TOTAL_ = 2048; // elements; at least 256, and of whole pixels

const uint N = uint(N_), TOTAL = uint(TOTAL_), EACH = TOTAL / THREADS;

shared float s[TOTAL];

void hadamard()
{
    for (uint len = 1; len < N; len *= 2) {
        barrier();
        for (uint i = gl_LocalInvocationID.x; i < TOTAL / 2; i += THREADS) {
            const uint p = i / len * 2 * len + i % len;
            const float a = s[p], b = s[p + len];

            s[p] = a + b;
            s[p + len] = a - b;
        }
    }
    barrier();
}

// Element j of the pixel at `first`; zeros outside.
float near(uint first, int j)
{
    return j >= 0 && j < int(N) ? s[first + uint(j)] : 0;
}

float slm_gate(uint i)
{
    const uint c = i % N, first = i - c;
    float sum = 0, dot_ = 0, mag, cosine;

    for (int j = 0; j < 5; j++) {
        const float e = near(first, int(c) - 2 + j);

        sum += e * e;
        dot_ += slm[g.at[4] + uint(j) * N + c] * e;
    }
    mag = sqrt(sum / 5 + 1e-10);
    cosine = dot_ / (mag * slm[g.at[4] + 5 * N + c] + 1e-6);
    return act(act(cosine * sqrt(mag + 1e-10) + slm[g.at[4] + 6 * N + c], 1), 6);
}

#define ELEMENTS for (uint e = 0, i = gl_LocalInvocationID.x; e < EACH; e++, i += THREADS)

void main()
{
    const uint first = group_number() * (TOTAL / N);
    float r[MOST], v[MOST];

    ELEMENTS {
        const uint p = first + i / N, c = i % N;

        s[i] = p < g.pixels && c < g.x_c ? get_x(p * g.x_ld + c) : 0;
    }
    for (uint round = 0; round < g.rounds; round++) {
        barrier();
        ELEMENTS {
            const uint c = i % N;

            r[e] = T3 != ABSENT ? s[i - c + uint(perm[g.at[3] + round * N + c])] : s[i];
            if (T2 != ABSENT)
                r[e] *= pre[g.at[2] + round * N + c];
        }
        barrier();
        ELEMENTS
            s[i] = r[e];
        hadamard();
    }
    if (T4 != ABSENT) {
        ELEMENTS
            v[e] = s[i];
        barrier();
        ELEMENTS
            s[i] = abs(v[e]);
        for (int round = 0; round < 3; round++) {
            barrier();
            ELEMENTS
                r[e] = (round < 2 ? abs(v[e]) : v[e]) * slm_gate(i);
            barrier();
            ELEMENTS
                s[i] = r[e];
        }
        barrier();
    }
    if (T6 != ABSENT) {
        ELEMENTS
            s[i] *= gate[g.at[6] + i % N];
        barrier();
    }
    if (T5 != ABSENT) {
        ELEMENTS {
            const uint c = i % N;

            r[e] = mixer[g.at[5] + c] * near(i - c, int(c) - 1) + mixer[g.at[5] + N + c] * s[i] +
                mixer[g.at[5] + 2 * N + c] * near(i - c, int(c) + 1);
        }
        barrier();
        ELEMENTS
            s[i] = r[e];
    }
    if (T4 != ABSENT || T5 != ABSENT || T6 != ABSENT)
        hadamard();
    ELEMENTS {
        const uint p = first + i / N, c = i % N;

        if (p < g.pixels && c < g.y_c)
            put_y(p * g.y_ld + c, act(s[i] + (T7 != ABSENT ? bias[g.at[7] + c] : 0), PRE));
    }
}
