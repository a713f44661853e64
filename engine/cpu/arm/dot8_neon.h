/* SPDX-License-Identifier: MIT */
/* dot8_neon.h - what simd/to_i8.h and simd/dot8.h need of NEON, with and without the products of int8 (FEAT_DotProd, FEAT_I8MM).
 *
 * Every dot8_*.h defines the same things:
 *   DOT8_MR       rows of a tile of registers, a multiple of 4
 *   DOT8_DEPTH    quads of a row that lie together in a tile of inputs: 1 or 2
 *   DOT8_AHEAD    quads of weights that are expanded before their products
 *   DOT8_EXCESS   whether weights are stored with an offset (kernels.h)
 *   vi            sums of VL outputs: vi_start, vi_dot for each quad, vi_scaled; start[0] is what the offset adds, negated
 *   vi_scale      what the scales of a group and VL outputs become
 *   vq, vx        weights and inputs */
#ifndef ZN_DOT8_NEON_H
#define ZN_DOT8_NEON_H

#include "../kernels.h"
#include "../simd/vec_neon.h"

ZN_DECL_DOT8(zn_dot8_dotprod); /* dot8_dotprod.c */
ZN_DECL_DOT8(zn_dot8_i8mm);    /* dot8_i8mm.c */

#ifdef __ARM_FEATURE_MATMUL_INT8
#define DOT8_NEON_AHEAD                                                                                                \
    2 /* loaded right before their products: an operand that is under way needs no port of the registers */
#else
#define DOT8_NEON_AHEAD 4
#endif

/* clang-format off */
enum { DOT8_MR = 12, DOT8_DEPTH = 2, DOT8_AHEAD = DOT8_NEON_AHEAD, VQ_NIBBLE = 16, DOT8_EXCESS = false };
typedef int32x4_t vi;
typedef int8x16_t vq; /* quads of VL outputs */
typedef int8x16_t vx; /* four quads of inputs */

static inline vx vx_load(const void *p) { return vld1q_s8(p); }

/* A pair of quads; VQ_NIBBLE times the nibbles of i4. */
static inline void vq_pair(vq w[2], const char *p, zn_wtype type)
{
    const vq first = vld1q_s8((const int8_t *)p);

    w[0] = type == ZN_W_I4 ? vshlq_n_s8(first, 4) : first;
    w[1] = type == ZN_W_I4 ? vandq_s8(first, vdupq_n_s8(-16)) : vld1q_s8((const int8_t *)p + 16);
}

/* acc[o] + the product of w[o] and quad `lane` of x. */
#ifdef __ARM_FEATURE_DOTPROD
#define vi_dot(acc, w, x, lane, type) vdotq_laneq_s32(acc, w, x, lane)
#else
#define vi_dot(acc, w, x, lane, type) vi_dot_pairs(acc, w, vreinterpretq_s8_s32(vdupq_laneq_s32(vreinterpretq_s32_s8(x), lane)))
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

    __asm__ volatile("ldr %q0, %1" : "=w"(x) : "m"(*(const float(*)[4])(const void *)p));
    return x;
}

static const float vi_zero[4] = { 0x1.8p23f, 0x1.8p23f, 0x1.8p23f, 0x1.8p23f };
typedef struct vi_scale { vf s; float less[4]; } vi_scale;

static inline vi vi_start(const int32_t *start) { return (void)start, vreinterpretq_s32_f32(vf_reload(vi_zero)); }
static inline vf scale_at(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
static inline void vi_scale_set(vi_scale *c, const uint16_t *p)
{
    c->s = scale_at(p);
    vst1q_f32(c->less, vmulq_n_f32(c->s, -vi_zero[0]));
    __asm__ volatile("" : : "m"(c->less));
}
static inline vf vi_scaled(vi x, const vi_scale *c, const int32_t *start, zn_wtype type)
{
    return (void)start, (void)type, vfmaq_f32(vf_reload(c->less), vreinterpretq_f32_s32(x), c->s);
}

/* For a scale that is used once: then memory is a detour. */
static inline vf vi_scaled_once(vi x, const uint16_t *p, const int32_t *start, zn_wtype type)
{
    const vf s = scale_at(p);

    return (void)start, (void)type, vfmaq_f32(vmulq_n_f32(s, -vi_zero[0]), vreinterpretq_f32_s32(x), s);
}

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
