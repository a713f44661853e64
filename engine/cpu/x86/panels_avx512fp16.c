/* SPDX-License-Identifier: MIT */
/* panels_avx512fp16.c - products of halves, for CPUs with AVX-512 FP16; backend.c asks whether this one has it. */
#include "../kernels.h"
#include "../simd/vec_avx512_fp16.h"

#include "../simd/halves.h"
