/* SPDX-License-Identifier: MIT */
/* grid.h - where tiles begin; zenith.h has the rest of the contract (zn_grid). */
#ifndef ZN_GRID_H
#define ZN_GRID_H

#include "../core/ints.h"
#include "../zenith.h"

enum { ZN_LATTICE = 12 }; /* 4 and 6 divide it, so that blocks inside the kernels are aligned alike in every tile */

/* Pixels of the input from one possible beginning of a tile to the next. */
static inline int zn_lattice_of(const zn_geometry *g)
{
    return g->lattice ? g->lattice : ZN_LATTICE * g->multiple;
}

/* Around a tile, in whole multiples; 0 for a network that sees all of the picture. */
static inline int zn_halo_of(const zn_geometry *g)
{
    return g->halo < 0 ? 0 : zn_round_up(g->halo, g->multiple);
}

/* The grid of a picture that passes through an encoder and a decoder; decoder NULL: through the encoder alone. */
void zn_grid_of_halves(zn_grid *out, const zn_geometry *encoder, const zn_geometry *decoder, int32_t w, int32_t h);

#endif
