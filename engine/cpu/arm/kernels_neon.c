/* SPDX-License-Identifier: MIT */
/* kernels_neon.c - the kernels of simd/ over the vector layer of NEON. */
#include <math.h>
#include <string.h>

#include "../kernels.h"
#include "../simd/vec_neon.h"

#define ZN_MANY_REGISTERS 1 /* NV is 4 */

#include "../simd/math.h"

#include "../simd/gemm.h"
#include "../simd/narrow.h"
#include "../simd/stored.h"
#include "../simd/panel.h"
#include "../simd/gated.h"
#include "../simd/rows.h"
#include "../simd/winograd.h"
#include "../simd/fwht.h"
#include "../simd/dense.h"

#include "../simd/table.h"
