/* SPDX-License-Identifier: MIT */
/* conv_mma.cu - the kernels of conv_mma.cuh, but for e4m3 (conv_mma8.cu). */
#include "conv_mma.cuh"

#define SHAPES(K, name)                                                                                                \
    CONV(K, name, 64, 64, 16, 32, 1)                                                                                   \
    CONV(K, name, 128, 64, 32, 32, 1)                                                                                  \
    CONV(K, name, 128, 128, 64, 32, 1)                                                                                 \
    CONV(K, name, 256, 16, 32, 16, 1)                                                                                  \
    CONV(K, name, 128, 16, 16, 16, 1)                                                                                  \
    CONV(K, name, 32, 16, 16, 16, 4)

SHAPES(F16, f16)
SHAPES(BF16, bf16)
SHAPES(TF32, tf32)
SHAPES(F32, f32)
CONV(F16, f16, 256, 64, 64, 32, 1)
CONV(BF16, bf16, 256, 64, 64, 32, 1)
