/* SPDX-License-Identifier: MIT */
/* kernels_avx2.c - the kernels of simd/ over the vector layer of AVX2. */
#include <math.h>
#include <string.h>

#include "../kernels.h"
#include "dot8_avx2.h"

#define ZN_MANY_REGISTERS 0 /* NV is 2 */

#include "../simd/math.h"

#include "../simd/step.h"
#include "../simd/gemm.h"
#include "../simd/narrow.h"
#include "../simd/stored.h"
#include "../simd/to_i8.h"
#include "../simd/dot8.h"
#include "../simd/panel.h"
#include "../simd/gate3.h"
#include "../simd/gated.h"
#include "../simd/rows.h"
#include "../simd/winograd.h"
#include "../simd/wino_weights.h"
#include "../simd/fwht.h"
#include "../simd/dense.h"

#ifdef ZN_AVXVNNI
#define ZN_DOT8_INT8                                                                                                   \
    {                                                                                                                  \
        zn_dot8_avxvnni, ZN_DOT8_ROWS                                                                                  \
    }
#else
#define ZN_DOT8_INT8                                                                                                   \
    {                                                                                                                  \
        NULL, 0                                                                                                        \
    }
#endif
#define ZN_HALF NULL
#define ZN_TILES NULL
#define ZN_DOTS16 NULL
#include "../simd/table.h"
