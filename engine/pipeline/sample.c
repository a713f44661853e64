/* SPDX-License-Identifier: MIT */
/* sample.c - see sample.h. */
#include "sample.h"

#include "../core/ints.h"

enum {
    WHOLE = 1500000, /* pixels: larger pictures are measured in squares, */
    SQUARE = 192,    /* ... of so many pixels a side, on the tiles' lattice */
};

/* Where square i of n begins along a side: on a multiple of SQUARE. */
static int square_at(int side, int i, int n)
{
    const int last = zn_imax(0, (side - SQUARE) / SQUARE);

    return n > 1 ? (int)((int64_t)last * i / (n - 1)) * SQUARE : 0;
}

zn_sample zn_sample_of(const zn_source *in)
{
    const bool small = (int64_t)in->w * in->h <= WHOLE;
    const int nx = small ? 1 : zn_imin(ZN_SAMPLE_SIDE, zn_ceil_div(in->w, SQUARE));
    const int ny = small ? 1 : zn_imin(ZN_SAMPLE_SIDE, zn_ceil_div(in->h, SQUARE));
    zn_sample s = { .square = { { 0, 0, in->w, in->h } }, .n = nx * ny, .nx = nx };

    for (int k = 0; !small && k < s.n; k++) {
        zn_rect *r = &s.square[k];

        r->x = square_at(in->w, k % nx, nx);
        r->y = square_at(in->h, k / nx, ny);
        r->w = zn_imin(SQUARE, in->w - r->x);
        r->h = zn_imin(SQUARE, in->h - r->y);
    }
    return s;
}
