/* SPDX-License-Identifier: MIT */
/* gated_tiles.h - the 1x1 convolutions of a gated block as products of tiles of bf16 (kernels.h, zn_tile_form). */
#ifndef ZN_GATED_TILES_H
#define ZN_GATED_TILES_H

#include "conv.h"

/* Bytes of a panel of ZN_TILE outputs of k channels, whole chunks; low: weights have two terms. */
size_t zn_tile_panel_size(int k, bool low);

/* Packs the outputs from first[0] and from first[1] on, n[0] and n[1] of 16 each. */
void zn_tile_panel_pack(char *to, const zn_cpu *d, const zn_conv *w, int k, const int first[2], const int n[2],
                        bool low);

/* A panel (kernels.h, zn_panel) of ZN_TILE outputs: y is float, x is bf16, whose second terms are `low` bytes further if it is
 * not 0, and `gate` multiplies 16 outputs with 16.  room: ZN_TILE * ZN_TILE floats.  Rows up to a multiple of 16 are read. */
void zn_tile_panel(const zn_tile_form *f, const zn_panel *g, size_t low, float *room);

#endif
