#version 450
// SPDX-License-Identifier: MIT
// the mask of a pruned convolution, or the convolution itself; an invocation a block or an element
#extension GL_GOOGLE_include_directive : require
#define ARGS uint n, c, h, w, y_ld, mask_ld, x_ld;
#include "common.glsl"
TENSOR(0, y)
TENSOR(1, mask)
TENSOR(2, x)
FLOATS(3, scale)
FLOATS(4, bias)
FLOATS(5, weight)
layout(local_size_x = 256) in;
layout(constant_id = 10) const int MASK = 0;

void main()
{
    const uint i = group_number() * 256 + gl_LocalInvocationID.x;

    if (i >= g.n)
        return;
    if (MASK != 0) {
        const uint p = i / (g.c / 8), b = i % (g.c / 8);
        float sum = 0;

        for (uint j = 0; j < 8; j++)
            sum += abs(get_x(p * g.x_ld + 8 * b + j));
        put_mask(p * g.mask_ld + b, scale[g.at[3] + b] * sum + bias[g.at[4] + b] > 0 ? 1 : 0);
    } else {
        const uint p = i / g.c, c = i % g.c;
        const int col = int(p % g.w), row = int(p / g.w % g.h);
        float sum = 0;

        if (get_mask(p * g.mask_ld + c / 8) != 0)
            for (int t = 0; t < 9; t++) {
                const int ii = row + t / 3 - 1, jj = col + t % 3 - 1;
                const uint q = uint(int(p) + (t / 3 - 1) * int(g.w) + t % 3 - 1);

                if (ii >= 0 && jj >= 0 && ii < int(g.h) && jj < int(g.w) && get_mask(q * g.mask_ld + c / 8) != 0)
                    sum += weight[g.at[5] + uint(t) * g.c + c] * get_x(q * g.x_ld + c);
            }
        put_y(p * g.y_ld + c, sum);
    }
}
