/* SPDX-License-Identifier: MIT */
/* dot8_avx512vnni.c - products of integers for CPUs with AVX-512 VNNI; backend.c asks whether this one has it. */
#include "dot8_avx512.h"

#include "../simd/dot8.h"

ZN_DECL_DOT8(zn_dot8_avx512vnni)
{
    dot8_avx512(g);
}
