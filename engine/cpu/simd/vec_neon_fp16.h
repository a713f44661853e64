/* SPDX-License-Identifier: MIT */
/* vec_neon_fp16.h - the vector layer of ARM NEON with FEAT_FP16: 32 registers of 8 halves, for halves.h.  See vec_neon.h;
 * WIDE_NV: vectors of a panel in winograd.c. */
#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

#include "unroll.h"

enum { VL = 8, NV = 4, WIDE_NV = NV, VK = 4, PAIR = 2, PANEL_NV = 4, PANEL_STEP = 5, PANEL_CHAIN = 32 };
#define PANEL_MR(nv) ((nv) == 1 ? 12 : 5)
#define ZN_MANY_REGISTERS 1
#define ZN_FN(name) name##_fp16

/* clang-format off */
typedef float16_t elem;
typedef float16x8_t vf;

static inline vf vf_set(float x) { return vdupq_n_f16((float16_t)x); }
static inline vf vf_load(const elem *p) { return vld1q_f16(p); }
static inline void vf_store(elem *p, vf x) { vst1q_f16(p, x); }
static inline vf vf_add(vf a, vf b) { return vaddq_f16(a, b); }
static inline vf vf_sub(vf a, vf b) { return vsubq_f16(a, b); }
static inline vf vf_mul(vf a, vf b) { return vmulq_f16(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return vfmaq_f16(c, a, b); }
static inline vf vf_fnma(vf a, vf b, vf c) { return vfmsq_f16(c, a, b); }
static inline vf vf_max(vf a, vf b) { return vmaxq_f16(a, b); }
static inline vf vf_keep(vf x) { return x; }

static inline void vf_store2(elem *p, vf a, vf b)
{
    __asm__("stp %q1, %q2, %0" : "=Q"(*(elem(*)[16])(void *)p) : "w"(a), "w"(b));
}

static inline vf vf_load_n(const elem *p, size_t n)
{
    elem x[VL] = { 0 };

    for (size_t i = 0; i < n; i++)
        x[i] = p[i];
    return vf_load(x);
}

static inline void vf_store_n(elem *p, vf x, size_t n)
{
    elem all[VL];

    vf_store(all, x);
    for (size_t i = 0; i < n; i++)
        p[i] = all[i];
}

static inline void vf_add_to(float *y, const float *res, vf x, const size_t m)
{
    float32x4_t low = vcvt_f32_f16(vget_low_f16(x)), high = vcvt_high_f32_f16(x);
    float all[VL];

    if (m == VL) {
        vst1q_f32(y, vaddq_f32(low, vld1q_f32(res)));
        vst1q_f32(y + 4, vaddq_f32(high, vld1q_f32(res + 4)));
        return;
    }
    vst1q_f32(all, low);
    vst1q_f32(all + 4, high);
    for (size_t i = 0; i < m; i++)
        y[i] = all[i] + res[i];
}

static inline vf vf_from_floats(const float *x)
{
    const float32x4_t most = vdupq_n_f32(65504), least = vdupq_n_f32(-65504);
    float32x4_t a = vmaxq_f32(least, vminq_f32(most, vld1q_f32(x)));
    float32x4_t b = vmaxq_f32(least, vminq_f32(most, vld1q_f32(x + 4)));

    return vcvt_high_f16_f32(vcvt_f16_f32(a), b);
}

static inline void vf_to_floats(float *y, vf x)
{
    vst1q_f32(y, vcvt_f32_f16(vget_low_f16(x)));
    vst1q_f32(y + 4, vcvt_high_f32_f16(x));
}

typedef float16x4_t va;
static inline va va_load(const elem *p) { return vld1_f16(p); } /* VK */

/* From the intrinsic gcc 12 loads each lane by itself, and spills the sums. */
#ifdef __clang__
#define va_fma(acc, b, a, lane) vfmaq_lane_f16(acc, b, a, lane)
#else
#define va_fma(acc, b, a, lane) __extension__({                                                                        \
    vf sum_ = (acc);                                                                                                   \
    __asm__("fmla %0.8h, %1.8h, %2.h[" #lane "]" : "+w"(sum_) : "w"(b), "x"(a));                                       \
    sum_;                                                                                                              \
})
#endif
/* clang-format on */
