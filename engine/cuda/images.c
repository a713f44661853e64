/* SPDX-License-Identifier: MIT */
/* images.c - the kernels that nvcc made, in this program's own data. */
#include "cuda.h"

#include "cuda/images.h" /* made by meson.build */

#define EMBED(name, file)                                                                                              \
    __asm__(".section .rodata\n.balign 64\nzn_cuda_image_" #name ":\n.incbin \"" file "\"\n.previous\n");              \
    extern const char zn_cuda_image_##name[] __attribute__((visibility("hidden")))

EMBED(attention, ZN_CUDA_ATTENTION);
EMBED(conv, ZN_CUDA_CONV);
EMBED(conv_mma, ZN_CUDA_CONV_MMA);
EMBED(conv_thin, ZN_CUDA_CONV_THIN);
EMBED(gated, ZN_CUDA_GATED);
EMBED(group_norm, ZN_CUDA_GROUP_NORM);
EMBED(hopper, ZN_CUDA_HOPPER);
EMBED(norm, ZN_CUDA_NORM);
EMBED(peak, ZN_CUDA_PEAK);
EMBED(pointwise, ZN_CUDA_POINTWISE);
EMBED(spectral, ZN_CUDA_SPECTRAL);

const zn_cuda_image zn_cuda_images[ZN_CUDA_N_IMAGES] = {
    { zn_cuda_image_attention, 0 }, { zn_cuda_image_conv, 0 },     { zn_cuda_image_conv_mma, 0 },
    { zn_cuda_image_conv_thin, 0 }, { zn_cuda_image_gated, 0 },    { zn_cuda_image_group_norm, 0 },
    { zn_cuda_image_hopper, 90 },   { zn_cuda_image_norm, 0 },     { zn_cuda_image_peak, 0 },
    { zn_cuda_image_pointwise, 0 }, { zn_cuda_image_spectral, 0 },
};
