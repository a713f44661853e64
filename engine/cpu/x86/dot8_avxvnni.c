/* SPDX-License-Identifier: MIT */
/* dot8_avxvnni.c - products of integers for CPUs with AVX-VNNI; backend.c asks whether this one has it. */
#include "dot8_avx2.h"

#include "../simd/dot8.h"

ZN_DECL_DOT8(zn_dot8_avxvnni)
{
    dot8_avx2(g);
}
