/* SPDX-License-Identifier: MIT */
/* conv_mma8.cu - the kernels of conv_mma.cuh with products of e4m3 (compute capability 8.9 and later), and what converts x.
 * hopper.cu has its own for 9.0. */
#include "conv_mma.cuh"

CONV(E4M3, e4m3, 64, 64, 16, 32, 1)
CONV(E4M3, e4m3, 128, 64, 32, 32, 1)
CONV(E4M3, e4m3, 128, 128, 64, 32, 1)

/* A warp has a pixel of x in fp16.  With scales, each pixel's is the power of two that puts its largest element into 224 .. 448. */
extern "C" __global__ void __launch_bounds__(256) quantise_e4m3(const zn_args_quantise8 g)
{
    const size_t p = (size_t)blockIdx.x * 8 + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    float top = 0, scale = 1, inverse;

    if (p >= g.pixels)
        return;
    const uint4 *x = (const uint4 *)((const f16 *)g.x + p * g.ld);
    uint2 *y = (uint2 *)((unsigned char *)g.y + p * g.c);

    if (g.scale) {
        for (int i = lane; i < g.c / 8; i += 32) {
            const uint4 q = x[i];
            const unsigned word[4] = { q.x, q.y, q.z, q.w };

            for (int j = 0; j < 4; j++) {
                const float2 f = unpack2<f16>(word[j]);

                top = fmaxf(top, fmaxf(fabsf(f.x), fabsf(f.y)));
            }
        }
        for (int k = 1; k < 32; k *= 2)
            top = fmaxf(top, __shfl_xor_sync(~0u, top, k));
        if (top > 0)
            scale = __uint_as_float((__float_as_uint(top) & 0x7f800000u) - (8u << 23));
        scale = top > 448.f * scale ? 2.f * scale : scale;
        if (lane == 0)
            g.scale[p] = scale;
    }
    inverse = 1.f / scale;
    for (int i = lane; i < g.c / 8; i += 32) {
        const uint4 q = x[i];
        const unsigned word[4] = { q.x, q.y, q.z, q.w };
        unsigned short pair[4];

#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 f = unpack2<f16>(word[j]);

            asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair[j]) : "f"(f.y * inverse), "f"(f.x * inverse));
        }
        y[i] = make_uint2((unsigned)pair[0] | (unsigned)pair[1] << 16, (unsigned)pair[2] | (unsigned)pair[3] << 16);
    }
}
