/* SPDX-License-Identifier: MIT */
/* pool.h - taef2's branch with a norm over the whole picture: x += out(ReLU(groupnorm(in(x)))), 1x1 convolutions without biases.
 * A network with one of them cannot be cut into tiles. */
#ifndef ZENITH_MODELS_POOL_H
#define ZENITH_MODELS_POOL_H

#include "arch.h"

enum { ZN_POOL_GROUPS = 4 };

typedef struct zn_pool_branch {
    int wide; /* channels inside; 0: the block has no such branch */
    zn_conv in, out;
    zn_norm norm;
} zn_pool_branch;

/* Reads NAME.pool.0, .1 and .3, if the file has them; `wide`: how many channels there must be inside. */
void zn_bind_pool(zn_binder *b, zn_pool_branch *p, int width, int wide, const char *name);

/* `inner` is a temporary of x's size with p->wide channels. */
void zn_run_pool(zn_ctx *c, const zn_pool_branch *p, zn_tensor x, zn_tensor inner);

#endif
