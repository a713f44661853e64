// SPDX-License-Identifier: MIT
// conv.glsl - the arguments of convolutions.  The weights are [k][cout_pad], k = (u * kw + v) * cin + c, cin of a group.
#define ARGS uint pixels; int yh, yw, xh, xw; uint y_ld, x_ld, res_ld; int cin, cout, cout_pad, group_cout, kh, kw, stride, pad_t, pad_l, k; float gain;
#include "common.glsl"
TENSOR(0, y)
TENSOR(1, x)
#include "tail.glsl"
TENSOR(3, weight)
FLOATS(4, bias)
layout(constant_id = 10) const int UP2 = 0;
