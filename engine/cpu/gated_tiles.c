/* SPDX-License-Identifier: MIT */
/* gated_tiles.c - see gated_tiles.h.
 *
 * A panel: ZN_TILE floats of bias, then [chunk of ZN_TILE channels]: two tiles [pair of channels][16 outputs][2], or four,
 * high and low terms. */
#include "gated_tiles.h"

#include <math.h>
#include <string.h>

#include "../core/ints.h"

enum { TILE_BYTES = 1024, HALF = ZN_TILE / 2 };

size_t zn_tile_panel_size(int k, bool low)
{
    return ZN_TILE * sizeof(float) + (size_t)(k / ZN_TILE * (low ? 4 : 2)) * TILE_BYTES;
}

/* Row `row` of a tile: two channels of n outputs, side by side. */
static void pack_pair(char *to, const zn_cpu *d, const zn_conv *w, zn_conv_row_fn *read, int c, int first, int n,
                      bool low)
{
    float one[2][HALF] = { { 0 } }, pairs[ZN_TILE];

    for (int i = 0; i < 2 && c + i < w->cin; i++)
        read(one[i], d->k, w, 1 + c + i, first, n);
    for (int o = 0; o < HALF; o++)
        for (int i = 0; i < 2; i++)
            pairs[2 * o + i] = o < n ? one[i][o] : 0;
    d->tiles->split(to, low ? (size_t)(2 * TILE_BYTES) : 0, pairs, ZN_TILE);
}

void zn_tile_panel_pack(char *to, const zn_cpu *d, const zn_conv *w, int k, const int first[2], const int n[2],
                        bool low)
{
    zn_conv_row_fn *read = zn_cpu_conv_rows(d, w);
    const size_t chunk = (size_t)(low ? 4 : 2) * TILE_BYTES;
    float bias[ZN_TILE] = { 0 };

    for (int h = 0; h < 2; h++)
        if (n[h] > 0)
            read(bias + h * HALF, d->k, w, 0, first[h], n[h]);
    memcpy(to, bias, sizeof bias);
    to += sizeof bias;
    for (int c = 0; c < k; c += 2)
        for (int h = 0; h < 2; h++)
            pack_pair(to + (size_t)(c / ZN_TILE) * chunk + (size_t)(h * TILE_BYTES + c % ZN_TILE / 2 * 64), d, w, read,
                      n[h] > 0 ? c : w->cin, first[h], n[h], low);
}

void zn_tile_panel(const zn_tile_form *f, const zn_panel *g, size_t low, float *room)
{
    const ptrdiff_t here = 0;

    for (int r = 0; r < g->rows; r += ZN_TILE) {
        const int rows = zn_imin(g->rows - r, ZN_TILE);
        float *y = (float *)g->y + (size_t)r * g->y_ld;
        const bool plain = !g->gate && !g->res, direct = plain && rows % HALF == 0;

        f->product(&(zn_tiles){ .y = direct ? y : room,
                                .x = (const char *)g->x + (size_t)r * g->x_ld * 2,
                                .w = (const char *)g->w + ZN_TILE * sizeof(float),
                                .bias = g->w,
                                .tap = &here,
                                .y_ld = direct ? g->y_ld : ZN_TILE,
                                .x_ld = g->x_ld * 2,
                                .low = low,
                                .taps = 1,
                                .chunks = g->k / ZN_TILE,
                                .pixels = rows,
                                .outputs = g->n });
        if (g->gate)
            f->gate(y, g->y_ld, room, rows);
        else if (!direct)
            f->tail(&(zn_tile_tail){ .y = y,
                                     .res = g->res ? g->res + (size_t)r * g->res_ld : NULL,
                                     .x = room,
                                     .y_ld = g->y_ld * sizeof(float),
                                     .res_ld = g->res_ld * sizeof(float),
                                     .gain = 1,
                                     .least_pre = -INFINITY,
                                     .least_post = -INFINITY,
                                     .pixels = rows,
                                     .n = g->n });
    }
}
