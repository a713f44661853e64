#version 450
// SPDX-License-Identifier: MIT
// y[p] = table[index[p]]; zeros for an index outside
#extension GL_GOOGLE_include_directive : require
#define ARGS uint n, c, y_ld, table_ld, index_ld, rows;
#include "common.glsl"
TENSOR(0, y)
FLOATS(1, table)
layout(std430, binding = 1) buffer Words { uint table_words[]; };
FLOATS(2, index)
layout(local_size_x = 256) in;

// The table may be of bf16, too.
float get_table(uint i)
{
    i += g.at[1];
    if (T1 == 0)
        return table[i];

    const uint word = table_words[i / 2] >> 16 * (i % 2);

    return T1 == 1 ? halves(word).x : uintBitsToFloat(word << 16);
}

void main()
{
    const uint i = group_number() * 256 + gl_LocalInvocationID.x;

    if (i >= g.n)
        return;

    const uint p = i / g.c, c = i % g.c;
    const float row = index[g.at[2] + p * g.index_ld];
    const bool inside = row >= 0 && row < float(g.rows);

    put_y(p * g.y_ld + c, inside ? get_table(uint(row) * g.table_ld + c) : 0);
}
