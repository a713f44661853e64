/* SPDX-License-Identifier: MIT */
/* kernels_avx512.c - the kernels of simd/ over the vector layer of AVX-512. */
#include <math.h>
#include <string.h>

#include "../kernels.h"
#include "dot8_avx512.h"

#define ZN_MANY_REGISTERS 1 /* NV is 4 */

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

#define ZN_DOT8_INT8                                                                                                   \
    {                                                                                                                  \
        zn_dot8_avx512vnni, ZN_DOT8_ROWS                                                                               \
    }
#ifdef ZN_AVX512FP16
#define ZN_HALF &zn_panels_avx512fp16
#else
#define ZN_HALF NULL
#endif
#ifdef ZN_AMX
#define ZN_TILES &zn_tiles_amx
#define ZN_DOTS16 &zn_tiles_bf16
#else
#define ZN_TILES NULL
#define ZN_DOTS16 NULL
#endif
#include "../simd/table.h"
