#version 450
// SPDX-License-Identifier: MIT
// map, binary and step: y = tail(a), tail(a op b), or a step of a sampler (backend.h); an invocation an element
#extension GL_GOOGLE_include_directive : require
#define ARGS uint n, c, y_ld, a_ld, b_ld, res_ld, image; float gain, clip;
#include "common.glsl"
TENSOR(0, y)
TENSOR(1, a)
#include "tail.glsl"
TENSOR(3, b)
FLOATS(4, coefs)

layout(local_size_x = 256) in;
layout(constant_id = 10) const int OP = 0;     // 0: map, 1: add, 2: multiply, 3: step
layout(constant_id = 11) const int SPREAD = 0; // of b: 0 none, 1 a vector per image, 2 an element per pixel, 3 one element

float coef(int i)
{
    return coefs[g.at[4] + i];
}

void main()
{
    const uint i = group_number() * 256 + gl_LocalInvocationID.x;

    if (i >= g.n)
        return;

    const uint p = i / g.c, c = i - p * g.c;
    float v = get_a(p * g.a_ld + c);

    if (OP != 0) {
        const uint at = SPREAD == 0 ? p * g.b_ld + c : SPREAD == 1 ? p / g.image * g.b_ld + c : SPREAD == 2 ? p * g.b_ld : 0;
        const float b = get_b(at);

        if (OP == 1)
            v += b;
        else if (OP == 2)
            v *= b;
        else {
            const float x0 = min(max(coef(0) * v + coef(1) * b, -g.clip), g.clip);

            v = coef(4) * x0 + coef(5) * (coef(2) * v + coef(3) * x0);
        }
    }
    put_y(p * g.y_ld + c, tail(v, p, c));
}
