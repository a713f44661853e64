/* SPDX-License-Identifier: MIT */
/* rows.h - a chain of 3x3 convolutions over a large picture, some rows at a time.
 *
 *   x, whole ── conv ── rows ── conv ── rows ── ... ── conv ── y, whole
 *
 * Between two layers there are only the rows that the layers after them still need.  Nothing is computed twice, and strips of
 * rows begin where blocks inside the kernels do: every pixel has the bits that it has without strips. */
#ifndef ZN_ROWS_H
#define ZN_ROWS_H

#include "arch.h"

enum { ZN_MAX_ROW_LAYERS = 96 };

typedef struct zn_row_layer {
    const zn_conv *conv; /* 3x3: stride 1 or 2, or up2 */
    zn_act pre, post;
    int skip; /* the tensor before so many layers, this one among them, is added; 0: none */
} zn_row_layer;

/* On a CPU; x and y are one picture. */
void zn_run_rows(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_row_layer *layer, int n);

#endif
