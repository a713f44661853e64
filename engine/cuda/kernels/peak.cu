/* SPDX-License-Identifier: MIT */
/* peak.cu - only multiply-adds: the measured peak of the device. */
#include "common.cuh"

/* 16 independent sums a thread */
extern "C" __global__ void __launch_bounds__(256) peak_fma(const zn_cuda_peak a)
{
    float s[16], x = 1.0f + 1e-7f * threadIdx.x, y = 1e-7f * blockIdx.x;

#pragma unroll
    for (int i = 0; i < 16; i++)
        s[i] = (float)i;
    for (int r = 0; r < a.rounds; r++)
#pragma unroll
        for (int i = 0; i < 16; i++)
            s[i] = fmaf(s[i], x, y);
    for (int i = 1; i < 16; i++)
        s[0] += s[i];
    if (s[0] == -1)
        a.sink[0] = s[0];
}

#if __CUDA_ARCH__ >= 800
#define PRODUCT(d, shape)                                                                                              \
    asm volatile("mma.sync.aligned." shape " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"                  \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                      \
                 : "r"(u), "r"(u), "r"(u), "r"(u), "r"(u), "r"(u))
#else
#define PRODUCT(d, shape) (d[0] += u)
#endif

/* 4 independent tiles a warp */
#define PEAK(name, shape)                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) peak_##name(const zn_cuda_peak a)                                \
    {                                                                                                                  \
        float d[4][4] = {};                                                                                            \
        unsigned u = 0;                                                                                                \
                                                                                                                       \
        for (int r = 0; r < a.rounds; r++) {                                                                           \
            PRODUCT(d[0], shape);                                                                                      \
            PRODUCT(d[1], shape);                                                                                      \
            PRODUCT(d[2], shape);                                                                                      \
            PRODUCT(d[3], shape);                                                                                      \
        }                                                                                                              \
        d[0][0] += d[1][0] + d[2][0] + d[3][0];                                                                        \
        if (d[0][0] == -1)                                                                                             \
            a.sink[0] = d[0][0];                                                                                       \
    }

PEAK(f16, "m16n8k16.row.col.f32.f16.f16.f32")
PEAK(bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
PEAK(tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
