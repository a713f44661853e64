/* SPDX-License-Identifier: MIT */
/* tiles_amx.c - products of tiles by AMX, for CPUs that have it; backend.c asks. */
#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../kernels.h"
#include "../simd/unroll.h"

#define TILE_LOAD(i, from, stride) _tile_loadd(i, from, stride)
#define TILE_STORE(i, to, stride) _tile_stored(i, to, stride)
#define TILE_ADD(i, a, b) _tile_dpbf16ps(i, a, b)
#include "../simd/tiles.h"

/* Linux saves the tiles of threads that may use them: 8 KB each, so that it wants to be asked, once per process. */
static bool ready(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

/* All tiles: 16 rows of 64 bytes. */
static void begin(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = { .palette = 1 };

    for (int i = 0; i < 8; i++) {
        config.bytes[i] = 64;
        config.rows[i] = 16;
    }
    _tile_loadconfig(&config);
}

static void end(void)
{
    _tile_release();
}

static ZN_DECL_SPLIT(split)
{
    char *high = to;

    for (int i = 0; i < n; i += 32, high += 64, x += 32) {
        const unsigned left = (unsigned)(n - i);
        const __mmask16 a = left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1);
        const __mmask16 b = left >= 32 ? 0xffff : left <= 16 ? 0 : (__mmask16)((1u << (left - 16)) - 1);
        const __m512 v[2] = { _mm512_maskz_loadu_ps(a, x), _mm512_maskz_loadu_ps(b, x + 16) };
        const __m512i h = (__m512i)_mm512_cvtne2ps_pbh(v[1], v[0]);

        _mm512_storeu_si512(high, h);
        if (low) {
            const __m512i even = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(h)), 16);
            const __m512i odd = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(h, 1)), 16);

            _mm512_storeu_si512(high + low,
                                (__m512i)_mm512_cvtne2ps_pbh(_mm512_sub_ps(v[1], _mm512_castsi512_ps(odd)),
                                                             _mm512_sub_ps(v[0], _mm512_castsi512_ps(even))));
        }
    }
}

const zn_tile_form zn_tiles_amx = { ready, begin, end, split, tiles, false };
