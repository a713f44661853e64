#version 450
// SPDX-License-Identifier: MIT
// Walsh-Hadamard transforms along w or h: a workgroup has a window of N pixels, and COLS of their channels
#extension GL_GOOGLE_include_directive : require
#define ARGS uint n, len, c, lines_w, shift, windows, parts, y_step, x_step, y_line, x_line, y_image, x_image;
#include "common.glsl"
TENSOR(0, y)
TENSOR(1, x)
FLOATS(2, gate)

const uint THREADS = 256;
layout(local_size_x = 256) in;
layout(constant_id = 10) const int N_ = 2;
layout(constant_id = 11) const int COLS_ = 1;
layout(constant_id = 12) const int PER_CHANNEL = 0;

const uint N = uint(N_), COLS = uint(COLS_), TOTAL = N * COLS;

shared float s[TOTAL];

void hadamard()
{
    for (uint len = 1; len < N; len *= 2) {
        barrier();
        for (uint i = gl_LocalInvocationID.x; i < TOTAL / 2; i += THREADS) {
            const uint col = i % COLS, pair = i / COLS, p = (pair / len * 2 * len + pair % len) * COLS + col;
            const float a = s[p], b = s[p + len * COLS];

            s[p] = a + b;
            s[p + len * COLS] = a - b;
        }
    }
    barrier();
}

void main()
{
    const uint id = group_number(), part = id % g.parts, window = id / g.parts % g.windows, line = id / g.parts / g.windows;
    const int first = int(window * N) - int(g.shift);
    // line: of an image, and the image
    const uint x_at = line % g.lines_w * g.x_line + line / g.lines_w * g.x_image;
    const uint y_at = line % g.lines_w * g.y_line + line / g.lines_w * g.y_image;

    if (id >= g.n)
        return;
    for (uint i = gl_LocalInvocationID.x; i < TOTAL; i += THREADS) {
        const int p = first + int(i / COLS);
        const uint c = part * COLS + i % COLS;

        s[i] = p >= 0 && p < int(g.len) && c < g.c ? get_x(x_at + uint(p) * g.x_step + c) : 0;
    }
    hadamard();
    if (T2 != ABSENT) {
        for (uint i = gl_LocalInvocationID.x; i < TOTAL; i += THREADS) {
            const uint c = part * COLS + i % COLS;

            if (c < g.c)
                s[i] *= gate[g.at[2] + (PER_CHANNEL != 0 ? i / COLS * g.c + c : i / COLS)];
        }
        hadamard();
    }
    for (uint i = gl_LocalInvocationID.x; i < TOTAL; i += THREADS) {
        const int p = first + int(i / COLS);
        const uint c = part * COLS + i % COLS;

        if (p >= 0 && p < int(g.len) && c < g.c)
            put_y(y_at + uint(p) * g.y_step + c, s[i]);
    }
}
