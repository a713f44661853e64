/* SPDX-License-Identifier: MIT */
/* dot8_avx512.h - what simd/to_i8.h and simd/dot8.h need of AVX-512, with and without VNNI; see dot8_avx2.h. */
#ifndef ZN_DOT8_AVX512_H
#define ZN_DOT8_AVX512_H

#include <math.h>
#include <string.h>

#include "../kernels.h"
#include "../simd/vec_avx512.h"

ZN_DECL_DOT8(zn_dot8_avx512vnni); /* dot8_avx512vnni.c */

#ifdef __AVX512VNNI__
#define DOT8_AVX512_MR 12
#else
#define DOT8_AVX512_MR 8 /* intermediate sums of pairs take registers, too */
#endif

/* clang-format off */
enum { DOT8_MR = DOT8_AVX512_MR, DOT8_DEPTH = 1, DOT8_AHEAD = 2, VQ_NIBBLE = 1, DOT8_EXCESS = true };
typedef __m512i vi;
typedef const char *vx;
typedef struct vq { __m512i u; __mmask64 negative; /* bytes without VNNI: |w|, and where w < 0 */ } vq;
typedef struct vi_scale { vf s; } vi_scale;

static inline vx vx_load(const char *p) { return p; }
static inline __m512i bytes_at(const char *p) { return _mm512_loadu_si512(p); }

static inline void vi_scale_set(vi_scale *c, const uint16_t *p)
{
    c->s = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

static inline __m512i vx_quad(vx x, int lane)
{
    int32_t quad;

    memcpy(&quad, x + 4 * lane, sizeof quad);
    return _mm512_set1_epi32(quad);
}

#define vi_dot(acc, w, x, lane, type) vi_dot_quads(acc, w, vx_quad(x, lane), type)

static inline void vq_nibbles(vq w[2], const char *p)
{
    const __m512i low = _mm512_set1_epi8(15), two = bytes_at(p);

    w[0].u = _mm512_and_si512(two, low);
    w[1].u = _mm512_and_si512(_mm512_srli_epi16(two, 4), low);
}

#ifdef __AVX512VNNI__
static inline void vq_pair(vq w[2], const char *p, zn_wtype type)
{
    if (type == ZN_W_I4)
        vq_nibbles(w, p);
    else
        w[0].u = bytes_at(p), w[1].u = bytes_at(p + 64);
}

static inline vi vi_start(const int32_t *start) { return _mm512_set1_epi32(*start); }
static inline vi vi_dot_quads(vi acc, vq w, __m512i x, zn_wtype type)
{
    return (void)type, _mm512_dpbusd_epi32(acc, w.u, x);
}

static inline vf vi_scaled(vi x, const vi_scale *c, const int32_t *start, zn_wtype type)
{
    return (void)start, (void)type, _mm512_mul_ps(_mm512_cvtepi32_ps(x), c->s);
}
#else
static inline void vq_pair(vq w[2], const char *p, zn_wtype type)
{
    if (type == ZN_W_I4) {
        vq_nibbles(w, p);
        return;
    }
    UNROLL_FOR (int i = 0; i < 2; i++) {
        const __m512i v = _mm512_xor_si512(bytes_at(p + 64 * i), _mm512_set1_epi8(-128));

        w[i].negative = _mm512_movepi8_mask(v);
        w[i].u = _mm512_abs_epi8(v);
    }
}

static inline vi vi_start(const int32_t *start) { return (void)start, _mm512_setzero_si512(); }
static inline vi vi_dot_quads(vi acc, vq w, __m512i x, zn_wtype type)
{
    __m512i pairs;

    __asm__("" : "+v"(acc)); /* see dot8_avx2.h */
    if (type == ZN_W_I4)
        return _mm512_add_epi16(acc, _mm512_maddubs_epi16(w.u, x));
    pairs = _mm512_maddubs_epi16(w.u, _mm512_mask_sub_epi8(x, w.negative, _mm512_setzero_si512(), x));
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

static inline vf vi_scaled(vi x, const vi_scale *c, const int32_t *start, zn_wtype type)
{
    if (type == ZN_W_I4)
        x = _mm512_add_epi32(_mm512_madd_epi16(x, _mm512_set1_epi16(1)), _mm512_set1_epi32(*start));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(x), c->s);
}
#endif

static inline vf vi_scaled_once(vi x, const uint16_t *p, const int32_t *start, zn_wtype type)
{
    vi_scale c;

    vi_scale_set(&c, p);
    return vi_scaled(x, &c, start, type);
}

static inline float vf_largest(const float *x)
{
    const vf low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + VL);

    if (_mm512_cmp_ps_mask(low, high, _CMP_UNORD_Q)) /* a maximum may lose NaN */
        return NAN;
    return vf_top(_mm512_max_ps(vf_abs(low), vf_abs(high)));
}

static inline void vq_from(int8_t *q, const float *x, float times)
{
    const vf v = _mm512_mul_ps(_mm512_loadu_ps(x), vf_set(times));
    const __m512i words = _mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v);

    _mm_storeu_si128((__m128i *)(void *)q, _mm512_cvtsepi32_epi8(words));
}
/* clang-format on */

_Static_assert(ZN_W_GROUP == 2 * VL, "vf_largest reads a group as two vectors");

#endif
