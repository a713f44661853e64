/* SPDX-License-Identifier: MIT */
/* dot8_neon.h - what simd/dot8.h needs of NEON, with and without the product of int8 (FEAT_DotProd). */
#ifndef ZN_DOT8_NEON_H
#define ZN_DOT8_NEON_H

#include "../kernels.h"
#include "../simd/vec_neon.h"

ZN_DECL_DOT8(zn_dot8_dotprod); /* dot8_dotprod.c */

/* clang-format off */
typedef int32x4_t vi;
typedef int8x16_t vq; /* quads of VL outputs */
typedef int8x16_t vx; /* four quads of inputs */

static inline vq vq_load(const void *p) { return vld1q_s8(p); }
static inline vx vx_load(const void *p) { return vld1q_s8(p); }

/* Of a pair of quads, 16 times the nibbles of the first and of the second. */
static inline vq vq_low(vq x) { return vshlq_n_s8(x, 4); }
static inline vq vq_high(vq x) { return vandq_s8(x, vdupq_n_s8(-16)); }
enum { VQ_NIBBLE = 16 };

/* acc[o] + the product of w[o] and quad `lane` of x. */
#ifdef __ARM_FEATURE_DOTPROD
#define vi_dot(acc, w, x, lane) vdotq_laneq_s32(acc, w, x, lane)
#else
#define vi_dot(acc, w, x, lane) vi_dot_pairs(acc, w, vreinterpretq_s8_s32(vdupq_laneq_s32(vreinterpretq_s32_s8(x), lane)))
static inline vi vi_dot_pairs(vi acc, vq w, vq x)
{
    const int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(x)), high = vmull_high_s8(w, x);

    return vaddq_s32(acc, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
}
#endif

/* A sum starts as 1.5 * 2^23, a float whose last bits count; the sum of a group is below 2^19.  That float times the scale
 * s, less 1.5 * 2^23 * s, which is exact (s has 11 bits), is the sum times s, rounded once: one multiply-add in place of
 * scvtf, which takes Neoverse N1 two cycles, and fmul.  What is added to comes from memory: a load leaves the vector units
 * free, a copy of a register does not. */
static inline vf vf_reload(const float *p)
{
    vf x;

    __asm__ volatile("ldr %q0, %1" : "=w"(x) : "Q"(*(const float(*)[4])(const void *)p));
    return x;
}

typedef struct vi_scale { vf s; float start[4], less[4]; } vi_scale;

static inline vi vi_start(const vi_scale *c) { return vreinterpretq_s32_f32(vf_reload(c->start)); }
static inline void vi_scale_init(vi_scale *c) { vst1q_f32(c->start, vdupq_n_f32(0x1.8p23f)); }
static inline void vi_scale_set(vi_scale *c, const uint16_t *p)
{
    c->s = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
    vst1q_f32(c->less, vmulq_n_f32(c->s, -0x1.8p23f));
    __asm__ volatile("" : : "m"(c->less), "m"(c->start));
}
static inline vf vi_scaled(vi x, const vi_scale *c) { return vfmaq_f32(vf_reload(c->less), vreinterpretq_f32_s32(x), c->s); }

/* max |x| of a group, NaN if there is one. */
static inline float vf_largest(const float *x)
{
    vf max = vdupq_n_f32(0);

    UNROLL_FOR (int i = 0; i < ZN_W_GROUP; i += 4)
        max = vmaxq_f32(max, vabsq_f32(vld1q_f32(x + i)));
    return vmaxvq_f32(max);
}

/* 16 times x, rounded to the nearest, ties to even; 0 for NaN. */
static inline void vq_from(int8_t *q, const float *x, float times)
{
    int16x4_t v[4];

    UNROLL_FOR (int i = 0; i < 4; i++)
        v[i] = vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), times)));
    vst1q_s8(q, vcombine_s8(vqmovn_s16(vcombine_s16(v[0], v[1])), vqmovn_s16(vcombine_s16(v[2], v[3]))));
}

/* clang-format on */

#endif
