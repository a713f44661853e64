/* SPDX-License-Identifier: MIT */
/* tiles_plain.c - the instructions of AMX in plain C, so that what is around them can be tested on any CPU. */
#include "check.h"

#include "../../engine/cpu/simd/unroll.h"

#include <string.h>

typedef struct tile {
    char row[16][64];
} tile;

static _Thread_local tile tiles_of_thread[8];
static _Thread_local bool begun;

static void load(int i, const void *from, size_t stride)
{
    for (int r = 0; r < 16; r++)
        memcpy(tiles_of_thread[i].row[r], (const char *)from + (size_t)r * stride, 64);
}

static void store(int i, void *to, size_t stride)
{
    for (int r = 0; r < 16; r++)
        memcpy((char *)to + (size_t)r * stride, tiles_of_thread[i].row[r], 64);
}

static float bf16_at(const tile *t, int r, int i)
{
    uint16_t bits;

    memcpy(&bits, t->row[r] + 2 * i, sizeof bits);
    return zn_from_bf16(bits);
}

static void add(int i, int a, int b)
{
    float weight[32][16], sum[16];

    for (int k = 0; k < 32; k++)
        for (int o = 0; o < 16; o++)
            weight[k][o] = bf16_at(&tiles_of_thread[b], k / 2, 2 * o + k % 2);
    for (int r = 0; r < 16; r++) {
        memcpy(sum, tiles_of_thread[i].row[r], sizeof sum);
        for (int k = 0; k < 32; k++) {
            const float x = bf16_at(&tiles_of_thread[a], r, k);

            for (int o = 0; o < 16; o++)
                sum[o] += x * weight[k][o];
        }
        memcpy(tiles_of_thread[i].row[r], sum, sizeof sum);
    }
}

#define TILE_LOAD(i, from, stride) load(i, from, (size_t)(stride))
#define TILE_STORE(i, to, stride) store(i, to, stride)
#define TILE_ADD(i, a, b) add(i, a, b)
#include "../../engine/cpu/simd/tiles.h"

static bool ready(void)
{
    return true;
}

static void begin(void)
{
    assert(!begun);
    begun = true;
}

static void end(void)
{
    assert(begun);
    begun = false;
}

static ZN_DECL_SPLIT(split)
{
    uint16_t *high = to, *rest = (uint16_t *)(void *)((char *)to + low);

    for (int i = 0; i < (n + 31) / 32 * 32; i++) {
        const float v = i < n ? x[i] : 0;

        high[i] = zn_to_bf16(v);
        if (low)
            rest[i] = zn_to_bf16(v - zn_from_bf16(high[i]));
    }
}

static ZN_DECL_TILE_TAIL(tail)
{
    for (int p = 0; p < g->pixels; p++)
        for (int o = 0; o < g->n; o++) {
            const char *res = (const char *)g->res + (size_t)p * g->res_ld;
            char *y = (char *)g->y + (size_t)p * g->y_ld;
            float v = g->x[p * ZN_TILE + o];

            v = g->gain * (v < g->least_pre ? g->least_pre : v);
            if (g->res)
                v += g->res_type == ZN_BF16 ? zn_from_bf16(((const uint16_t *)(const void *)res)[o])
                                            : ((const float *)(const void *)res)[o];
            v = v < g->least_post ? g->least_post : v;
            if (g->y_type == ZN_BF16)
                ((uint16_t *)(void *)y)[o] = zn_to_bf16(v);
            else
                ((float *)(void *)y)[o] = v;
        }
}

static ZN_DECL_TILE_GATE(gate)
{
    for (int p = 0; p < pixels; p++)
        for (int o = 0; o < 16; o++)
            y[(size_t)p * y_ld + (size_t)o] = x[p * ZN_TILE + o] * x[p * ZN_TILE + 16 + o];
}

const zn_tile_form check_tiles_plain = { ready, begin, end, split, tiles, tail, gate, true };
