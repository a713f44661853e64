#version 450
// SPDX-License-Identifier: MIT
// convolutions of one group as a product of matrices: a workgroup computes 64 outputs of 64 pixels, 16 inputs at a time
#extension GL_GOOGLE_include_directive : require
#include "conv.glsl"
layout(std430, binding = 1) buffer Four1 { vec4 x_f4[]; };
layout(std430, binding = 3) buffer Four3 { vec4 weight_f4[]; };
#ifdef HALF
layout(std430, binding = 1) buffer FourHalves1 { uvec2 x_h4[]; };
layout(std430, binding = 3) buffer FourHalves3 { uvec2 weight_h4[]; };
#endif

const int BM = 64, BN = 64, BK = 16;
layout(local_size_x = 256) in;
layout(constant_id = 11) const int VECTORS = 0; // pixels of x are vectors of 4 elements, and so is cin

shared vec4 xs[BK][BM / 4], ws[BK][BN / 4];

// Four elements, i being a multiple of 4
vec4 x_at(uint i)
{
    i = (g.at[1] + i) / 4;
#ifdef HALF
    if (T1 == 1)
        return vec4(halves(x_h4[i].x), halves(x_h4[i].y));
#endif
    return x_f4[i];
}

vec4 weight_at(uint i)
{
    i = (g.at[3] + i) / 4;
#ifdef HALF
    if (T3 == 1)
        return vec4(halves(weight_h4[i].x), halves(weight_h4[i].y));
#endif
    return weight_f4[i];
}

// The pixel of x under tap t of a pixel of y, as an index; -1: padding
int under(int image, int row, int col, int t)
{
    const int up = UP2 != 0 ? 2 : 1, u = t / g.kw;
    const int yy = row * g.stride + u - g.pad_t, xx = col * g.stride + (t - u * g.kw) - g.pad_l;

    return yy < 0 || xx < 0 || yy >= g.xh * up || xx >= g.xw * up ? -1 : (image * g.xh + yy / up) * g.xw + xx / up;
}

void main()
{
    const int t = int(gl_LocalInvocationID.x), across = (g.cout + BN - 1) / BN;
    const uint id = group_number();
    const int o0 = int(id % uint(across)) * BN;
    const uint p0 = id / uint(across) * BM;
    const uint p = min(p0 + uint(t / 4), g.pixels - 1); // whose inputs this invocation loads
    const int col = int(p % uint(g.yw)), row = int(p / uint(g.yw)) % g.yh, image = int(p / uint(g.yw)) / g.yh;
    const int tx = t % 16, ty = t / 16;
    vec4 acc[4];

    if (p0 >= g.pixels)
        return;
    for (int i = 0; i < 4; i++)
        acc[i] = vec4(0);
    for (int k0 = 0; k0 < g.k; k0 += BK) {
        vec4 a = vec4(0);
        const int ka = k0 + t % 4 * 4, kb = k0 + t / 16, o = o0 + t % 16 * 4;

        if (VECTORS != 0) {
            const int tap = ka / g.cin, q = ka < g.k ? under(image, row, col, tap) : -1;

            if (q >= 0)
                a = x_at(uint(q) * g.x_ld + uint(ka - tap * g.cin));
        } else {
            for (int i = 0; i < 4; i++) {
                const int tap = (ka + i) / g.cin, q = ka + i < g.k ? under(image, row, col, tap) : -1;

                if (q >= 0)
                    a[i] = get_x(uint(q) * g.x_ld + uint(ka + i - tap * g.cin));
            }
        }
        for (int i = 0; i < 4; i++)
            xs[t % 4 * 4 + i][t / 16][t / 4 % 4] = a[i];
        ws[t / 16][t % 16] = kb < g.k && o < g.cout_pad ? weight_at(uint(kb) * uint(g.cout_pad) + uint(o)) : vec4(0);
        barrier();
        for (int k = 0; k < BK; k++) {
            const vec4 w = ws[k][tx], v = xs[k][ty];

            for (int i = 0; i < 4; i++)
                acc[i] += v[i] * w;
        }
        barrier();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const uint q = p0 + uint(ty * 4 + i), o = uint(o0 + tx * 4 + j);

            if (q < g.pixels && o < uint(g.cout))
                put_y(q * g.y_ld + o, tail(acc[i][j] + bias[g.at[4] + o], q, o));
        }
}
