/* SPDX-License-Identifier: MIT */
/* dot8_avx2.h - what simd/to_i8.h and simd/dot8.h need of AVX2, with and without AVX-VNNI; see arm/dot8_neon.h.
 *
 * vpdpbusd multiplies u8 with i8: weights are unsigned, and a sum starts with what their offset would add to it.  Without
 * it vpmaddubsw adds pairs of such products in 16 bits, where it saturates.  Nibbles are at most 15: a whole group stays
 * within 16 * 15 * 127 = 30480, and is widened once.  Bytes are |w| times x with the sign of w, at most 2 * 127 * 127 =
 * 32258, and are widened at once. */
#ifndef ZN_DOT8_AVX2_H
#define ZN_DOT8_AVX2_H

#include <math.h>
#include <string.h>

#include "../kernels.h"
#include "../simd/vec_avx2.h"

ZN_DECL_DOT8(zn_dot8_avxvnni); /* dot8_avxvnni.c */

/* clang-format off */
enum { DOT8_MR = 4, DOT8_DEPTH = 1, DOT8_AHEAD = 2, VQ_NIBBLE = 1, DOT8_EXCESS = true };
typedef __m256i vi;
typedef const char *vx;
typedef struct vq { __m256i u, sign; /* bytes without AVX-VNNI: |w| and w */ } vq;
typedef struct vi_scale { vf s; } vi_scale;

static inline vx vx_load(const char *p) { return p; }
static inline __m256i bytes_at(const char *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }

static inline void vi_scale_set(vi_scale *c, const uint16_t *p)
{
    c->s = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

static inline __m256i vx_quad(vx x, int lane)
{
    int32_t quad;

    memcpy(&quad, x + 4 * lane, sizeof quad);
    return _mm256_set1_epi32(quad);
}

#define vi_dot(acc, w, x, lane, type) vi_dot_quads(acc, w, vx_quad(x, lane), type)

static inline void vq_nibbles(vq w[2], const char *p)
{
    const __m256i low = _mm256_set1_epi8(15), two = bytes_at(p);

    w[0].u = _mm256_and_si256(two, low);
    w[1].u = _mm256_and_si256(_mm256_srli_epi16(two, 4), low);
}

#ifdef __AVXVNNI__
static inline void vq_pair(vq w[2], const char *p, zn_wtype type)
{
    if (type == ZN_W_I4)
        vq_nibbles(w, p);
    else
        w[0].u = bytes_at(p), w[1].u = bytes_at(p + 32);
}

static inline vi vi_start(const int32_t *start) { return _mm256_set1_epi32(*start); }
static inline vi vi_dot_quads(vi acc, vq w, __m256i x, zn_wtype type)
{
    return (void)type, _mm256_dpbusd_avx_epi32(acc, w.u, x);
}

static inline vf vi_scaled(vi x, const vi_scale *c, const int32_t *start, zn_wtype type)
{
    return (void)start, (void)type, _mm256_mul_ps(_mm256_cvtepi32_ps(x), c->s);
}
#else
static inline void vq_pair(vq w[2], const char *p, zn_wtype type)
{
    if (type == ZN_W_I4) {
        vq_nibbles(w, p);
        return;
    }
    UNROLL_FOR (int i = 0; i < 2; i++) {
        w[i].sign = _mm256_xor_si256(bytes_at(p + 32 * i), _mm256_set1_epi8(-128));
        w[i].u = _mm256_abs_epi8(w[i].sign);
    }
}

static inline vi vi_start(const int32_t *start) { return (void)start, _mm256_setzero_si256(); }
static inline vi vi_dot_quads(vi acc, vq w, __m256i x, zn_wtype type)
{
    __m256i pairs;

    __asm__("" : "+x"(acc)); /* in this order: gcc would add products in pairs, and spill them */
    if (type == ZN_W_I4)
        return _mm256_add_epi16(acc, _mm256_maddubs_epi16(w.u, x));
    pairs = _mm256_maddubs_epi16(w.u, _mm256_sign_epi8(x, w.sign));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline vf vi_scaled(vi x, const vi_scale *c, const int32_t *start, zn_wtype type)
{
    if (type == ZN_W_I4)
        x = _mm256_add_epi32(_mm256_madd_epi16(x, _mm256_set1_epi16(1)), _mm256_set1_epi32(*start));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(x), c->s);
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
    vf max = _mm256_setzero_ps(), nan = max;

    UNROLL_FOR (int i = 0; i < ZN_W_GROUP; i += VL) {
        const vf v = _mm256_loadu_ps(x + i);

        max = _mm256_max_ps(max, vf_abs(v));
        nan = _mm256_or_ps(nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q)); /* a maximum may lose it */
    }
    return _mm256_movemask_ps(nan) ? NAN : vf_top(max);
}

static inline __m256i rounded(const float *x, vf times)
{
    const vf v = _mm256_mul_ps(_mm256_loadu_ps(x), times);

    return _mm256_cvtps_epi32(_mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q)));
}

static inline void vq_from(int8_t *q, const float *x, float times)
{
    const __m256i words = _mm256_packs_epi32(rounded(x, vf_set(times)), rounded(x + VL, vf_set(times)));
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);

    _mm_storeu_si128((__m128i *)(void *)q, _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1)));
}
/* clang-format on */

#endif
