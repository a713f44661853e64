/* SPDX-License-Identifier: MIT */
/* panels_fp16.c - products of halves, for CPUs with FEAT_FP16; backend.c asks whether this one has it. */
#include "../kernels.h"
#include "../simd/vec_neon_fp16.h"

#include "../simd/halves.h"
