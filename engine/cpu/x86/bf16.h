/* SPDX-License-Identifier: MIT */
/* bf16.h - what surrounds products of bf16 (kernels.h, zn_tile_form), by AVX-512 BF16. */
#include <immintrin.h>

/* The first n of 16 elements, n of any size. */
static inline __mmask16 first(int n)
{
    return n >= 16 ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
}

/* 16 bf16 as floats. */
static inline __m512 expand(__m256i v)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}

static ZN_DECL_SPLIT(split)
{
    char *high = to;

    for (int i = 0; i < n; i += 32, high += 64, x += 32) {
        const __m512 v[2] = { _mm512_maskz_loadu_ps(first(n - i), x),
                              _mm512_maskz_loadu_ps(first(n - i - 16), x + 16) };
        const __m512i h = (__m512i)_mm512_cvtne2ps_pbh(v[1], v[0]);

        _mm512_storeu_si512(high, h);
        if (low)
            _mm512_storeu_si512(
                high + low,
                (__m512i)_mm512_cvtne2ps_pbh(_mm512_sub_ps(v[1], expand(_mm512_extracti64x4_epi64(h, 1))),
                                             _mm512_sub_ps(v[0], expand(_mm512_castsi512_si256(h)))));
    }
}

INLINE void tail_of(const zn_tile_tail *g, const bool y16, const bool has_res, const bool res16)
{
    const __m512 pre = _mm512_set1_ps(g->least_pre), post = _mm512_set1_ps(g->least_post);
    const __m512 gain = _mm512_set1_ps(g->gain);
    const __mmask16 mask[2] = { first(g->n), first(g->n - 16) };
    char *y = g->y;
    const char *res = g->res;

    for (int p = 0; p < g->pixels; p++, y += g->y_ld, res += has_res ? g->res_ld : 0) {
        __m512 v[2];

        for (int i = 0; i < 2; i++) { /* max: the second operand if one is NaN */
            v[i] = _mm512_max_ps(pre, _mm512_loadu_ps(g->x + p * ZN_TILE + 16 * i));
            if (!has_res)
                v[i] = _mm512_mul_ps(v[i], gain);
            else if (res16)
                v[i] = _mm512_fmadd_ps(v[i], gain, expand(_mm256_maskz_loadu_epi16(mask[i], res + 32 * i)));
            else
                v[i] = _mm512_fmadd_ps(v[i], gain, _mm512_maskz_loadu_ps(mask[i], res + 64 * i));
            v[i] = _mm512_max_ps(post, v[i]);
        }
        if (y16)
            _mm512_mask_storeu_epi16(y, (__mmask32)mask[1] << 16 | mask[0], (__m512i)_mm512_cvtne2ps_pbh(v[1], v[0]));
        for (int i = 0; i < 2 && !y16; i++)
            _mm512_mask_storeu_ps(y + 64 * i, mask[i], v[i]);
    }
}

static ZN_DECL_TILE_GATE(gate)
{
    for (int p = 0; p < pixels; p++, y += y_ld, x += ZN_TILE)
        _mm512_storeu_ps(y, _mm512_mul_ps(_mm512_loadu_ps(x), _mm512_loadu_ps(x + 16)));
}

static ZN_DECL_TILE_TAIL(tail)
{
    const bool y16 = g->y_type == ZN_BF16, res16 = g->res_type == ZN_BF16;

    if (y16 && !g->res)
        tail_of(g, true, false, false);
    else if (y16 && res16)
        tail_of(g, true, true, true);
    else if (y16)
        tail_of(g, true, true, false);
    else if (!g->res)
        tail_of(g, false, false, false);
    else if (res16)
        tail_of(g, false, true, true);
    else
        tail_of(g, false, true, false);
}
