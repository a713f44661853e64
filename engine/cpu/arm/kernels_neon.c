/* SPDX-License-Identifier: MIT */
/* kernels_neon.c - the kernels of simd/ over the vector layer of NEON. */
#include <math.h>
#include <string.h>

#include "../kernels.h"
#include "dot8_neon.h"

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

#ifdef ZN_I8MM
#define ZN_DOT8_INT8                                                                                                   \
    { zn_dot8_dotprod, ZN_DOT8_ROWS },                                                                                 \
    {                                                                                                                  \
        zn_dot8_i8mm, 16 * ZN_DOT8_ROWS                                                                                \
    }
#else
#define ZN_DOT8_INT8                                                                                                   \
    {                                                                                                                  \
        zn_dot8_dotprod, ZN_DOT8_ROWS                                                                                  \
    }
#endif
#ifdef ZN_FP16
#define ZN_HALF &zn_panels_fp16
#else
#define ZN_HALF NULL
#endif
#define ZN_TILES NULL
#define ZN_DOTS16 NULL
#include "../simd/table.h"
