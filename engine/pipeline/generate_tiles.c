/* SPDX-License-Identifier: MIT */
/* generate_tiles.c - the tiles in which an enlarged picture is refined, and their seams. */
#include "generate.h"

#include "../core/ints.h"

enum { MULTIPLE = ZN_GENERATE_MULTIPLE, OVERLAP = 128 };

/* Tiles of a side in a line of n pixels. */
static int32_t tiles_in(int32_t n, int32_t side)
{
    const int32_t step = side - zn_imin(OVERLAP, side / 4 / MULTIPLE * MULTIPLE);

    return n <= side ? 1 : 1 + (n - side + step - 1) / step;
}

zn_tiles zn_generate_tiles(const zn_generate_plan *p)
{
    zn_tiles t = { .w = p->w,
                   .h = p->h,
                   .side_w = zn_round_up(p->how.width, MULTIPLE),
                   .side_h = zn_round_up(p->how.height, MULTIPLE) };

    t.n_x = tiles_in(t.w, t.side_w);
    t.n_y = tiles_in(t.h, t.side_h);
    return t;
}

int32_t zn_tiles_count(zn_tiles t)
{
    return t.n_x * t.n_y;
}

/* Where tile i of n begins: the first at the beginning, the last so that it reaches the end. */
static int32_t begin_of(int32_t i, int32_t n, int32_t len, int32_t side)
{
    return n == 1 ? 0 : zn_round_up((int32_t)((int64_t)(len - side) * i / (n - 1)), MULTIPLE);
}

zn_rect zn_tile_at(zn_tiles t, int32_t i)
{
    const int32_t x = begin_of(i % t.n_x, t.n_x, t.w, t.side_w), y = begin_of(i / t.n_x, t.n_y, t.h, t.side_h);

    return (zn_rect){ x, y, zn_imin(t.side_w, t.w - x), zn_imin(t.side_h, t.h - y) };
}

/* The weight of pixel k of a tile that shares `shared` pixels with the one before. */
static float rise(int32_t k, int32_t shared)
{
    const float t = ((float)k + 0.5f) / (float)shared;

    return k >= shared ? 1 : t * t * (3 - 2 * t);
}

void zn_tile_put(float *picture, zn_tiles t, int32_t i, const float *tile, int32_t row)
{
    const zn_rect at = zn_tile_at(t, i);
    const int32_t left = i % t.n_x ? zn_tile_at(t, i - 1).x + t.side_w - at.x : 0;
    const int32_t above = i / t.n_x ? zn_tile_at(t, i - t.n_x).y + t.side_h - at.y : 0;

    for (int32_t y = 0; y < at.h; y++) {
        float *dst = picture + ((size_t)(at.y + y) * (size_t)t.w + (size_t)at.x) * 3;
        const float *src = tile + (size_t)y * (size_t)row * 3;

        for (int32_t k = 0; k < 3 * at.w; k++) {
            const float weight = rise(k / 3, left) * rise(y, above);

            dst[k] = weight < 1 ? dst[k] + weight * (zn_clean(src[k]) - dst[k]) : zn_clean(src[k]);
        }
    }
}
