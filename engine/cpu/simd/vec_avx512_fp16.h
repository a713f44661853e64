/* SPDX-License-Identifier: MIT */
/* vec_avx512_fp16.h - the vector layer of x86-64 AVX-512 FP16: 32 registers of 32 halves, for halves.h.  See vec_neon_fp16.h. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "unroll.h"

enum { VL = 32, NV = 4, WIDE_NV = 2, VK = 1, PAIR = 1, PANEL_NV = 2, PANEL_STEP = 2, PANEL_CHAIN = 32 };
#define PANEL_MR(nv) ((nv) <= 2 ? 12 : (nv) == 3 ? 8 : 6)
#define ZN_MANY_REGISTERS 1
#define ZN_FN(name) name##_avx512fp16

/* clang-format off */
typedef _Float16 elem;
typedef __m512h vf;

static inline vf vf_set(float x) { return _mm512_set1_ph((_Float16)x); }
static inline vf vf_load(const elem *p) { return _mm512_loadu_ph(p); }
static inline void vf_store(elem *p, vf x) { _mm512_storeu_ph(p, x); }
static inline void vf_store2(elem *p, vf a, vf b) { vf_store(p, a), vf_store(p + VL, b); }
static inline vf vf_add(vf a, vf b) { return _mm512_add_ph(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ph(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ph(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ph(a, b, c); }
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ph(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm512_max_ph(a, b); } /* NaN in b stays */

static inline vf vf_keep(vf x)
{
    __asm__("" : "+v"(x));
    return x;
}

static inline __mmask32 first_lanes(size_t n)
{
    return (__mmask32)((1ull << n) - 1);
}

static inline vf vf_load_n(const elem *p, size_t n)
{
    return _mm512_castsi512_ph(_mm512_maskz_loadu_epi16(first_lanes(n), p));
}

static inline void vf_store_n(elem *p, vf x, size_t n)
{
    _mm512_mask_storeu_epi16(p, first_lanes(n), _mm512_castph_si512(x));
}

static inline __m256h upper(vf x)
{
    return _mm256_castpd_ph(_mm512_extractf64x4_pd(_mm512_castph_pd(x), 1));
}

static inline void vf_add_to(float *y, const float *res, vf x, const size_t m)
{
    const __mmask32 some = first_lanes(m);
    const __mmask16 low = (__mmask16)some, high = (__mmask16)(some >> 16);
    const __m512 a = _mm512_maskz_loadu_ps(low, res), b = _mm512_maskz_loadu_ps(high, res + 16);

    _mm512_mask_storeu_ps(y, low, _mm512_add_ps(a, _mm512_cvtxph_ps(_mm512_castph512_ph256(x))));
    _mm512_mask_storeu_ps(y + 16, high, _mm512_add_ps(b, _mm512_cvtxph_ps(upper(x))));
}

/* The second operand of a minimum or maximum is the result if one is NaN. */
static inline __m256h half_of(const float *x)
{
    const __m512 a = _mm512_min_ps(_mm512_set1_ps(65504), _mm512_loadu_ps(x));

    return _mm512_cvtxps_ph(_mm512_max_ps(_mm512_set1_ps(-65504), a));
}

static inline vf vf_from_floats(const float *x)
{
    const __m512d low = _mm512_castpd256_pd512(_mm256_castph_pd(half_of(x)));

    return _mm512_castpd_ph(_mm512_insertf64x4(low, _mm256_castph_pd(half_of(x + 16)), 1));
}

static inline void vf_to_floats(float *y, vf x)
{
    _mm512_storeu_ps(y, _mm512_cvtxph_ps(_mm512_castph512_ph256(x)));
    _mm512_storeu_ps(y + 16, _mm512_cvtxph_ps(upper(x)));
}

typedef const elem *va;
static inline va va_load(const elem *p) { return p; }

/* The instruction broadcasts by itself: apart, a broadcast of 16 bits takes the place of a product. */
#define va_fma(acc, b, a, lane) fma_broadcast(acc, b, (a) + (lane))
static inline vf fma_broadcast(vf acc, vf b, const elem *a)
{
    __asm__("vfmadd231ph %2%{1to32%}, %1, %0" : "+v"(acc) : "v"(b), "m"(*a));
    return acc;
}
/* clang-format on */
