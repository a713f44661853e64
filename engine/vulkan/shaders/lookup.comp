#version 450
// SPDX-License-Identifier: MIT
// y[p] = table[index[p]]; zeros for an index outside
#extension GL_GOOGLE_include_directive : require
#define ARGS uint n, c, y_ld, table_ld, index_ld, rows;
#include "common.glsl"
TENSOR(0, y)
TENSOR(1, table)
FLOATS(2, index)
layout(local_size_x = 256) in;

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
