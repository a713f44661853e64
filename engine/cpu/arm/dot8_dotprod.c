/* SPDX-License-Identifier: MIT */
/* dot8_dotprod.c - products of integers for CPUs with FEAT_DotProd; backend.c asks whether this one has it. */
#include "dot8_neon.h"

#include "../simd/dot8.h"

ZN_DECL_DOT8(zn_dot8_dotprod)
{
    dot8_neon(g);
}
