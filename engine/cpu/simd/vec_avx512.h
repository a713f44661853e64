/* SPDX-License-Identifier: MIT */
/* vec_avx512.h - the vector layer of x86-64 AVX-512: 32 registers of 16 floats.  See vec_neon.h. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "unroll.h"

enum { VL = 16, MR = 6, NV = 4, VK = 1, PAIR = 1, PANEL_NV = 2, PANEL_STEP = 2 };
#define PANEL_MR(nv) ((nv) <= 2 ? 12 : (nv) == 3 ? 8 : 6)
#define ZN_FN(name) name##_avx512

/* clang-format off */
typedef __m512 vf;
typedef __mmask16 vmask;

static inline vf vf_set(float x) { return _mm512_set1_ps(x); }
static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void vf_store(float *p, vf x) { _mm512_storeu_ps(p, x); }
static inline void vf_store2(float *p, vf a, vf b) { vf_store(p, a), vf_store(p + VL, b); }
static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); } /* NaN in b stays */
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf vf_abs(vf a) { return _mm512_abs_ps(a); }
static inline vmask vf_less(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static inline vf vf_select(vmask m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }
static inline float vf_sum(vf a) { return _mm512_reduce_add_ps(a); }
static inline float vf_top(vf a) { return _mm512_reduce_max_ps(a); }

static inline vf vf_sums(const vf a[VL])
{
    vf b[8], c[4], d[2];

    UNROLL_FOR (int i = 0; i < 8; i++)
        b[i] = _mm512_add_ps(_mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]), _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]));
    UNROLL_FOR (int i = 0; i < 4; i++) /* a quarter of each of four vectors in every quarter */
        c[i] = _mm512_add_ps(_mm512_shuffle_ps(b[2 * i], b[2 * i + 1], 0x44),
                             _mm512_shuffle_ps(b[2 * i], b[2 * i + 1], 0xee));
    UNROLL_FOR (int i = 0; i < 2; i++)
        d[i] = _mm512_add_ps(_mm512_shuffle_f32x4(c[2 * i], c[2 * i + 1], 0x88),
                             _mm512_shuffle_f32x4(c[2 * i], c[2 * i + 1], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(d[0], d[1], 0x88), _mm512_shuffle_f32x4(d[0], d[1], 0xdd));
}

static inline vf vf_keep(vf x)
{
    __asm__("" : "+v"(x));
    return x;
}

static inline vf vf_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vf vf_exp2(vf n)
{
    __m512i e = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));

    return _mm512_castsi512_ps(_mm512_slli_epi32(e, 23));
}

static inline vf vf_load_n(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}

static inline void vf_store_n(float *p, vf x, size_t n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), x);
}

static inline vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }

static inline vf vf_hadamard(vf a)
{
    const __mmask16 odd = 0xaaaa, pair = 0xcccc, quad = 0xf0f0, high = 0xff00;
    const vf zero = _mm512_setzero_ps();

    a = _mm512_add_ps(_mm512_permute_ps(a, 0xb1), _mm512_mask_sub_ps(a, odd, zero, a));
    a = _mm512_add_ps(_mm512_permute_ps(a, 0x4e), _mm512_mask_sub_ps(a, pair, zero, a));
    a = _mm512_add_ps(_mm512_shuffle_f32x4(a, a, 0xb1), _mm512_mask_sub_ps(a, quad, zero, a));
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, a, 0x4e), _mm512_mask_sub_ps(a, high, zero, a));
}

static inline void vf_transpose(vf a[VL])
{
    vf b[VL];

    UNROLL_FOR (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
    UNROLL_FOR (int i = 0; i < 16; i += 4) { /* columns 0, 4, 8, 12 of four rows, then 1, 5, ... */
        a[i] = _mm512_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm512_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    UNROLL_FOR (int i = 0; i < 4; i++) { /* the 4x4 of quarters */
        vf p = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88), q = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd);
        vf r = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0x88), s = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0xdd);

        b[i] = _mm512_shuffle_f32x4(p, r, 0x88);
        b[i + 4] = _mm512_shuffle_f32x4(q, s, 0x88);
        b[i + 8] = _mm512_shuffle_f32x4(p, r, 0xdd);
        b[i + 12] = _mm512_shuffle_f32x4(q, s, 0xdd);
    }
    UNROLL_FOR (int i = 0; i < 16; i++)
        a[i] = b[i];
}

static inline void vf_double(vf y[2], vf x)
{
    const __m512i low = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);

    y[0] = _mm512_permutexvar_ps(low, x);
    y[1] = _mm512_permutexvar_ps(_mm512_add_epi32(low, _mm512_set1_epi32(8)), x);
}

static inline vf vf_swap_negate(vf a)
{
    a = _mm512_permute_ps(a, 0xb1);
    return _mm512_mask_sub_ps(a, 0x5555, _mm512_setzero_ps(), a);
}

static inline vf vf_load4(const float *p, size_t step)
{
    __m256 low = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + step), 1);
    __m256 high = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + 2 * step)), _mm_loadu_ps(p + 3 * step), 1);

    return _mm512_castpd_ps(
        _mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(low)), _mm256_castps_pd(high), 1));
}

static inline void vf_store4(float *p, size_t step, vf x)
{
    _mm_storeu_ps(p, _mm512_castps512_ps128(x));
    _mm_storeu_ps(p + step, _mm512_extractf32x4_ps(x, 1));
    _mm_storeu_ps(p + 2 * step, _mm512_extractf32x4_ps(x, 2));
    _mm_storeu_ps(p + 3 * step, _mm512_extractf32x4_ps(x, 3));
}

static inline void vf_from_f16(vf o[1], const uint16_t *p)
{
    o[0] = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

static inline void vf_from_bf16(vf o[1], const uint16_t *p)
{
    __m512i u = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));

    o[0] = _mm512_castsi512_ps(_mm512_slli_epi32(u, 16));
}

static inline void vf_from_i8(vf o[1], const uint8_t *p)
{
    o[0] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

static inline void vf_from_i4(vf even[1], vf odd[1], const uint8_t *p)
{
    const __m512i u = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    const __m512i zero = _mm512_set1_epi32(8);

    even[0] = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_and_si512(u, _mm512_set1_epi32(15)), zero));
    odd[0] = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_srli_epi32(u, 4), zero));
}

typedef const float *va;
static inline va va_load(const float *p) { return p; }
static inline va va_load1(const float *p) { return p; }
/* See vec_avx2.h. */
static inline vf fma_in_place(vf acc, vf a, vf b)
{
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
    return acc;
}

#define va_fma(acc, b, a, lane) fma_in_place(acc, b, _mm512_set1_ps((a)[lane]))
/* clang-format on */
