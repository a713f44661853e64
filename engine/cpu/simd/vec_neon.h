/* SPDX-License-Identifier: MIT */
/* vec_neon.h - the vector layer of aarch64 NEON: 32 registers of 4 floats.
 *
 * Every vec_*.h defines the same things, and the kernels of this folder use nothing else:
 *   VL, MR, NV    vector length; the register tile of gemm: MR pixels x NV vectors
 *   PANEL_MR(nv)  pixels of a tile of `panel` that is nv vectors wide
 *   PANEL_NV      vectors of a panel in a gated block: with few of them the weights fit in L1
 *   PANEL_STEP    the preferred multiple of the pixels in its rows
 *   vf            VL floats;  *_n: only the first n of them, 0 < n < VL, the others read as 0
 *   va            multipliers of one pixel; va_fma(acc, b, a, lane) = acc + b * a[lane]
 *   PAIR          vectors that a scattered store takes: vf_store2 of two neighbours where the stores of one are slower
 *   VK            how many of them a step of gemm takes: 4 where a lane of a register can multiply a
 *                 vector, 1 where it has to be broadcast from memory first
 *   vf_from_*     16 stored weights (core/quantise.h) as 16 / VL vectors, scales not applied; i4: two rows of 16 */
#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

#include "unroll.h"

enum { VL = 4, MR = 5, NV = 4, VK = 4, PAIR = 2, PANEL_NV = 4, PANEL_STEP = 5 };
#define PANEL_MR(nv) 5
#define ZN_FN(name) name##_neon

/* clang-format off */
typedef float32x4_t vf;
typedef uint32x4_t vmask;

static inline vf vf_set(float x) { return vdupq_n_f32(x); }
static inline vf vf_load(const float *p) { return vld1q_f32(p); }
static inline void vf_store(float *p, vf x) { vst1q_f32(p, x); }

/* One instruction, which compilers do not find by themselves: scattered over lines, single stores take Neoverse V1
 * 1.25 cycles each, pairs 1. */
static inline void vf_store2(float *p, vf a, vf b)
{
    __asm__("stp %q1, %q2, %0" : "=Q"(*(float(*)[8])(void *)p) : "w"(a), "w"(b));
}

static inline vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
static inline vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }   /* a * b + c */
static inline vf vf_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }  /* c - a * b */
static inline vf vf_max(vf a, vf b) { return vmaxq_f32(a, b); } /* NaN in b stays */
static inline vf vf_min(vf a, vf b) { return vminq_f32(a, b); }
static inline vf vf_abs(vf a) { return vabsq_f32(a); }
static inline vf vf_round(vf a) { return vrndnq_f32(a); }
static inline vmask vf_less(vf a, vf b) { return vcltq_f32(a, b); }
static inline vf vf_select(vmask m, vf yes, vf no) { return vbslq_f32(m, yes, no); }
static inline float vf_sum(vf a) { return vaddvq_f32(a); }
static inline float vf_top(vf a) { return vmaxvq_f32(a); }

/* Lane i: the sum of a[i]. */
static inline vf vf_sums(const vf a[VL]) { return vpaddq_f32(vpaddq_f32(a[0], a[1]), vpaddq_f32(a[2], a[3])); }

/* Keeps x in a register: x86 compilers would load it again for each use. */
static inline vf vf_keep(vf x) { return x; }

/* 2^n for whole n from -126 to 127. */
static inline vf vf_exp2(vf n)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23));
}

static inline vf vf_load_n(const float *p, size_t n)
{
    vf x = vld1q_lane_f32(p, vdupq_n_f32(0), 0);

    if (n > 1)
        x = vld1q_lane_f32(p + 1, x, 1);
    if (n > 2)
        x = vld1q_lane_f32(p + 2, x, 2);
    return x;
}

static inline void vf_store_n(float *p, vf x, size_t n)
{
    vst1q_lane_f32(p, x, 0);
    if (n > 1)
        vst1q_lane_f32(p + 1, x, 1);
    if (n > 2)
        vst1q_lane_f32(p + 2, x, 2);
}

static inline vf vf_sqrt(vf a) { return vsqrtq_f32(a); }

/* The Walsh-Hadamard transform of the VL elements of a vector. */
static inline vf vf_hadamard(vf a)
{
    const vf odd = { 1, -1, 1, -1 }, high = { 1, 1, -1, -1 };

    a = vfmaq_f32(vrev64q_f32(a), a, odd);
    return vfmaq_f32(vextq_f32(a, a, 2), a, high);
}

/* a[i][j] becomes a[j][i], i, j < VL. */
static inline void vf_transpose(vf a[VL])
{
    float32x4x2_t p = vtrnq_f32(a[0], a[1]), q = vtrnq_f32(a[2], a[3]);

    a[0] = vcombine_f32(vget_low_f32(p.val[0]), vget_low_f32(q.val[0]));
    a[1] = vcombine_f32(vget_low_f32(p.val[1]), vget_low_f32(q.val[1]));
    a[2] = vcombine_f32(vget_high_f32(p.val[0]), vget_high_f32(q.val[0]));
    a[3] = vcombine_f32(vget_high_f32(p.val[1]), vget_high_f32(q.val[1]));
}

/* For pairs of neighbours (a0, a1): y[0] and y[1] hold each element of x twice, in order; -a1, a0 instead of a0, a1. */
static inline void vf_double(vf y[2], vf x) { y[0] = vzip1q_f32(x, x), y[1] = vzip2q_f32(x, x); }
static inline vf vf_swap_negate(vf a)
{
    const vf sign = { -1, 1, -1, 1 };

    return vmulq_f32(vrev64q_f32(a), sign);
}

/* VL / 4 times 4 floats, `step` apart. */
static inline vf vf_load4(const float *p, size_t step) { return (void)step, vf_load(p); }
static inline void vf_store4(float *p, size_t step, vf x) { (void)step, vf_store(p, x); }

static inline void vf_from_f16(vf o[4], const uint16_t *p)
{
    UNROLL_FOR (int i = 0; i < 4; i++)
        o[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i)));
}

static inline void vf_from_bf16(vf o[4], const uint16_t *p)
{
    UNROLL_FOR (int i = 0; i < 4; i++)
        o[i] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16));
}

/* Bytes minus `zero`.  A byte below 0x4b0000 is 2^23 + byte as a float: subtraction converts it exactly, twice as fast
 * as widening and scvtf on Neoverse N1. */
static inline void from_bytes(vf o[4], uint8x16_t u, float zero)
{
    const uint8x16_t none = vdupq_n_u8(0);
    const uint16x8_t high = vdupq_n_u16(0x4b00);
    const uint16x8_t a = vreinterpretq_u16_u8(vzip1q_u8(u, none)), b = vreinterpretq_u16_u8(vzip2q_u8(u, none));
    const vf offset = vdupq_n_f32(0x1p23f + zero);

    o[0] = vsubq_f32(vreinterpretq_f32_u16(vzip1q_u16(a, high)), offset);
    o[1] = vsubq_f32(vreinterpretq_f32_u16(vzip2q_u16(a, high)), offset);
    o[2] = vsubq_f32(vreinterpretq_f32_u16(vzip1q_u16(b, high)), offset);
    o[3] = vsubq_f32(vreinterpretq_f32_u16(vzip2q_u16(b, high)), offset);
}

static inline void vf_from_i8(vf o[4], const uint8_t *p) { from_bytes(o, veorq_u8(vld1q_u8(p), vdupq_n_u8(128)), 128); }

static inline void vf_from_i4(vf even[4], vf odd[4], const uint8_t *p)
{
    const uint8x16_t u = vld1q_u8(p);

    from_bytes(even, vandq_u8(u, vdupq_n_u8(15)), 8);
    from_bytes(odd, vshrq_n_u8(u, 4), 8);
}

typedef float32x4_t va;
static inline va va_load(const float *p) { return vld1q_f32(p); }       /* VK */
static inline va va_load1(const float *p) { return vld1q_dup_f32(p); } /* lane 0 counts */
#define va_fma(acc, b, a, lane) vfmaq_laneq_f32(acc, b, a, lane)
/* clang-format on */
