/* SPDX-License-Identifier: MIT */
/* vec_avx2.h - the vector layer of x86-64 AVX2 + FMA: 16 registers of 8 floats.  See vec_neon.h. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "unroll.h"

enum { VL = 8, MR = 6, NV = 2, VK = 1, PAIR = 1, PANEL_NV = 2, PANEL_STEP = 2 };
#define PANEL_MR(nv) ((nv) == 1 ? 12 : 6)
#define ZN_FN(name) name##_avx2

/* clang-format off */
typedef __m256 vf;
typedef __m256 vmask;

static inline vf vf_set(float x) { return _mm256_set1_ps(x); }
static inline vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void vf_store(float *p, vf x) { _mm256_storeu_ps(p, x); }
static inline void vf_store2(float *p, vf a, vf b) { vf_store(p, a), vf_store(p + VL, b); }
static inline vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); } /* NaN in b stays */
static inline vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf vf_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline vmask vf_less(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
static inline vf vf_select(vmask m, vf yes, vf no) { return _mm256_blendv_ps(no, yes, m); }

static inline vf vf_round(vf a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline float vf_sum(vf a)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));

    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

static inline vf vf_sums(const vf a[VL])
{
    vf low = _mm256_hadd_ps(_mm256_hadd_ps(a[0], a[1]), _mm256_hadd_ps(a[2], a[3]));
    vf high = _mm256_hadd_ps(_mm256_hadd_ps(a[4], a[5]), _mm256_hadd_ps(a[6], a[7]));

    return _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31));
}

static inline vf vf_keep(vf x)
{
    __asm__("" : "+x"(x));
    return x;
}

static inline float vf_top(vf a)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));

    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

static inline vf vf_exp2(vf n)
{
    __m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));

    return _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
}

static inline __m256i first_lanes(size_t n)
{
    static const int32_t lanes[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };

    return _mm256_loadu_si256((const __m256i *)(const void *)(lanes + 8 - n));
}

static inline vf vf_load_n(const float *p, size_t n)
{
    return _mm256_maskload_ps(p, first_lanes(n));
}

static inline void vf_store_n(float *p, vf x, size_t n)
{
    _mm256_maskstore_ps(p, first_lanes(n), x);
}

static inline vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }

static inline vf vf_hadamard(vf a)
{
    const vf odd = _mm256_setr_ps(1, -1, 1, -1, 1, -1, 1, -1);
    const vf pair = _mm256_setr_ps(1, 1, -1, -1, 1, 1, -1, -1);
    const vf high = _mm256_setr_ps(1, 1, 1, 1, -1, -1, -1, -1);

    a = _mm256_fmadd_ps(a, odd, _mm256_permute_ps(a, 0xb1));
    a = _mm256_fmadd_ps(a, pair, _mm256_permute_ps(a, 0x4e));
    return _mm256_fmadd_ps(a, high, _mm256_permute2f128_ps(a, a, 1));
}

static inline void vf_transpose(vf a[VL])
{
    vf b[VL];

    UNROLL_FOR (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    UNROLL_FOR (int i = 0; i < 8; i += 4) { /* columns 0 and 4, 1 and 5, ... of four rows */
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    UNROLL_FOR (int i = 0; i < 4; i++) {
        b[i] = _mm256_permute2f128_ps(a[i], a[i + 4], 0x20);
        b[i + 4] = _mm256_permute2f128_ps(a[i], a[i + 4], 0x31);
    }
    UNROLL_FOR (int i = 0; i < 8; i++)
        a[i] = b[i];
}

static inline void vf_double(vf y[2], vf x)
{
    vf low = _mm256_unpacklo_ps(x, x), high = _mm256_unpackhi_ps(x, x);

    y[0] = _mm256_permute2f128_ps(low, high, 0x20);
    y[1] = _mm256_permute2f128_ps(low, high, 0x31);
}

static inline vf vf_swap_negate(vf a)
{
    return _mm256_xor_ps(_mm256_permute_ps(a, 0xb1), _mm256_setr_ps(-0.f, 0, -0.f, 0, -0.f, 0, -0.f, 0));
}

static inline vf vf_load4(const float *p, size_t step)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + step), 1);
}

static inline void vf_store4(float *p, size_t step, vf x)
{
    _mm_storeu_ps(p, _mm256_castps256_ps128(x));
    _mm_storeu_ps(p + step, _mm256_extractf128_ps(x, 1));
}

static inline void vf_from_f16(vf o[2], const uint16_t *p)
{
    UNROLL_FOR (int i = 0; i < 2; i++)
        o[i] = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + 8 * i)));
}

static inline void vf_from_bf16(vf o[2], const uint16_t *p)
{
    UNROLL_FOR (int i = 0; i < 2; i++) {
        __m256i u = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p + 8 * i)));

        o[i] = _mm256_castsi256_ps(_mm256_slli_epi32(u, 16));
    }
}

static inline void from_bytes(vf o[2], __m128i q)
{
    o[0] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q));
    o[1] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(q, q)));
}

static inline void vf_from_i8(vf o[2], const uint8_t *p)
{
    from_bytes(o, _mm_loadu_si128((const __m128i *)(const void *)p));
}

static inline void vf_from_i4(vf even[2], vf odd[2], const uint8_t *p)
{
    const __m128i u = _mm_loadu_si128((const __m128i *)(const void *)p), low = _mm_set1_epi8(15), zero = _mm_set1_epi8(8);

    from_bytes(even, _mm_sub_epi8(_mm_and_si128(u, low), zero));
    from_bytes(odd, _mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(u, 4), low), zero));
}

typedef const float *va;
static inline va va_load(const float *p) { return p; }
static inline va va_load1(const float *p) { return p; }
/* acc + a * b, in the register of acc: gcc would put the sum elsewhere, and copy and spill the other sums for it. */
static inline vf fma_in_place(vf acc, vf a, vf b)
{
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b));
    return acc;
}

#define va_fma(acc, b, a, lane) fma_in_place(acc, b, _mm256_broadcast_ss((a) + (lane)))
/* clang-format on */
