/* SPDX-License-Identifier: MIT */
/* tiles_bf16.c - products of tiles by AVX-512 BF16, for CPUs without AMX; backend.c asks. */
#include "../kernels.h"
#include "../simd/unroll.h"
#include "bf16.h"

enum { PIXELS = 8 }; /* in registers: two sums each */

static bool ready(void)
{
    return true;
}

static void begin(void)
{
}

static void end(void)
{
}

/* sum[p] += the products of a pair of channels of PIXELS pixels, from x on, with those of 32 outputs. */
INLINE void add_pair(__m512 sum[PIXELS][2], const char *x, size_t x_ld, __m512i w0, __m512i w1)
{
    for (int p = 0; p < PIXELS; p++) {
        const __m512bh v = (__m512bh)_mm512_set1_epi32(*(const int *)(const void *)(x + (size_t)p * x_ld));

        sum[p][0] = _mm512_dpbf16_ps(sum[p][0], v, (__m512bh)w0);
        sum[p][1] = _mm512_dpbf16_ps(sum[p][1], v, (__m512bh)w1);
    }
}

/* PIXELS pixels, of which all are readable. */
INLINE void product_of(const zn_tiles *g, int first, const bool low)
{
    const char *w = g->w;
    __m512 sum[PIXELS][2];

    for (int p = 0; p < PIXELS; p++) {
        sum[p][0] = _mm512_loadu_ps(g->bias);
        sum[p][1] = _mm512_loadu_ps(g->bias + 16);
    }
    for (int t = 0; t < g->taps; t++)
        for (int c = 0; c < g->chunks; c++, w += low ? 4096 : 2048) {
            const char *x = g->x + (size_t)first * g->x_ld + g->tap[t] + c * 2 * ZN_TILE;

            for (int i = 0; i < 16; i++) {
                const __m512i w0 = _mm512_loadu_si512(w + 64 * i), w1 = _mm512_loadu_si512(w + 1024 + 64 * i);

                add_pair(sum, x + 4 * i, g->x_ld, w0, w1);
                if (low) {
                    add_pair(sum, x + g->low + 4 * i, g->x_ld, w0, w1);
                    add_pair(sum, x + 4 * i, g->x_ld, _mm512_loadu_si512(w + 2048 + 64 * i),
                             _mm512_loadu_si512(w + 3072 + 64 * i));
                }
            }
        }
    for (int p = 0; p < PIXELS; p++)
        for (int i = 0; i < 2; i++)
            _mm512_storeu_ps(g->y + (size_t)(first + p) * g->y_ld + 16 * i, sum[p][i]);
}

static ZN_DECL_TILES(tiles)
{
    for (int first = 0; first < g->pixels; first += PIXELS)
        if (g->low)
            product_of(g, first, true);
        else
            product_of(g, first, false);
}

const zn_tile_form zn_tiles_bf16 = { ready, begin, end, split, tiles, tail, gate, false };
