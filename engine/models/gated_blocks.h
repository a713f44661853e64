/* SPDX-License-Identifier: MIT */
/* gated_blocks.h - rows of gated depthwise blocks, as the denoisers and the small autoencoders have them.
 *
 *   block:  u = LN(x);  x += pw2(a * b),  a, b = the halves of dw(pw1(u))
 *           v = LN(x);  x += pw4(a * b),  a, b = the halves of pw3(v)
 *
 * LN normalises each pixel over its channels and has no parameters of its own (the file folds them into the 1x1
 * convolutions).  Follows NAFNet (Chen et al. 2022) without its pooled attention. */
#ifndef ZN_GATED_BLOCKS_H
#define ZN_GATED_BLOCKS_H

#include "arch.h"

enum { ZN_MAX_GATED = 16 }; /* blocks in a row */

/* Blocks PREFIX0, PREFIX1, ... as many as the file has, at most ZN_MAX_GATED; without a file, `usual`.  Returns how many. */
int zn_bind_gated(zn_binder *b, zn_gated *k, int width, int usual, const char *prefix);
/* *x through n blocks.  *spare has the same shape; after an odd number of blocks the two are swapped. */
void zn_run_gated(zn_ctx *c, const zn_gated *k, int n, zn_tensor *x, zn_tensor *spare);

#endif
