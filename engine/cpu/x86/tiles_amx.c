/* SPDX-License-Identifier: MIT */
/* tiles_amx.c - products of tiles by AMX, for CPUs that have it; backend.c asks. */
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../kernels.h"
#include "../simd/unroll.h"
#include "bf16.h"

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

/* All tiles: 16 rows of 64 bytes.  Constant: gcc 12 is not told that the instruction reads all of it, and drops stores. */
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} config = { 1, 0, { 0 }, { 64, 64, 64, 64, 64, 64, 64, 64 }, { 16, 16, 16, 16, 16, 16, 16, 16 } };

static void begin(void)
{
    _tile_loadconfig(&config);
}

static void end(void)
{
    _tile_release();
}

const zn_tile_form zn_tiles_amx = { ready, begin, end, split, tiles, tail, gate, false };
