/* SPDX-License-Identifier: MIT */
/* vec_avx512.h - the vector layer of x86-64 AVX-512: 32 registers of 16 floats.  See vec_neon.h. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

enum { VL = 16, MR = 6, NV = 4, VK = 1 };
#define ZN_FN(name) name##_avx512

typedef __m512 vf;
typedef __mmask16 vmask;

static inline vf vf_set(float x) { return _mm512_set1_ps(x); }
static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void vf_store(float *p, vf x) { _mm512_storeu_ps(p, x); }
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

typedef const float *va;
static inline va va_load(const float *p) { return p; }
static inline va va_load1(const float *p) { return p; }
#define va_fma(acc, b, a, lane) _mm512_fmadd_ps(_mm512_set1_ps((a)[lane]), b, acc)
