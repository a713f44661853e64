/* SPDX-License-Identifier: MIT */
/* step.h - one step in k of a register tile (gemm.h, panel.h).  The lane of va_fma must be a literal, hence a macro. */

/* Adds the products of channel `lane` of all rows to sum; w points to its nv vectors of weights.  If
 * the instruction set multiplies by a lane, a vector of weights is loaded right before its use, which is faster (the bare
 * loop on Neoverse V1: 77 -> 92 % of peak).  If lanes are broadcast from memory, they are broadcast once. */
#define GEMM_STEP(sum, lane)                                                                                           \
    do {                                                                                                               \
        vf b[NV];                                                                                                      \
        UNROLL_FOR (int j = 0; j < nv; j++) {                                                                          \
            b[j] = vf_load(w + ((lane)*nv + j) * VL);                                                                  \
            UNROLL_FOR (int r = 0; r < mr && VK == 4; r++)                                                             \
                sum[r][j] = va_fma(sum[r][j], b[j], a[r], lane);                                                       \
        }                                                                                                              \
        UNROLL_FOR (int r = 0; r < mr && VK == 1; r++)                                                                 \
            UNROLL_FOR (int j = 0; j < nv; j++)                                                                        \
                sum[r][j] = va_fma(sum[r][j], b[j], a[r], lane);                                                       \
    } while (0)
