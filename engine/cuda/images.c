/* SPDX-License-Identifier: MIT */
/* images.c - the kernels that nvcc compiled, embedded in this program's data.  meson.build lists them, in ZN_CUDA_IMAGES. */
#include "cuda.h"

#include "cuda/images.h" /* made by meson.build */

#define IMAGE(name, file, only_cc)                                                                                     \
    __asm__(".section .rodata\n.balign 64\nzn_cuda_image_" #name ":\n.incbin \"" file "\"\n.previous\n");              \
    extern const char zn_cuda_image_##name[] __attribute__((visibility("hidden")));
ZN_CUDA_IMAGES
#undef IMAGE

#define IMAGE(name, file, only_cc) { zn_cuda_image_##name, only_cc },
const zn_cuda_image zn_cuda_images[] = { ZN_CUDA_IMAGES };
#undef IMAGE

enum { N_IMAGES = sizeof zn_cuda_images / sizeof *zn_cuda_images };
_Static_assert((int)N_IMAGES <= (int)ZN_CUDA_MAX_IMAGES, "module.c has room for them");
const int zn_cuda_n_images = N_IMAGES;
