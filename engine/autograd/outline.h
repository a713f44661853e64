/* SPDX-License-Identifier: MIT */
/* outline.h - the tensors of a network, as its bind states them: name, shape, initial values.  All that a model sees of training.
 *
 * When bind describes (models/arch.h), nothing reaches a device.  What would be the address of a tensor there is its number in the
 * outline, from 1 on, so that an operation of the forward tells which tensor it uses: see record.h. */
#ifndef ZN_OUTLINE_H
#define ZN_OUTLINE_H

#include "../backend.h"

typedef enum zn_init {
    ZN_INIT_USUAL,    /* weights: ZN_INIT_GAIN 1; a norm's weight: 1; all others: 0 */
    ZN_INIT_CONSTANT, /* value */
    ZN_INIT_NORMAL,   /* N(0, value^2) */
    ZN_INIT_GAIN,     /* N(0, value / fan-in); 0: zeros */
    ZN_INIT_MIDDLE,   /* of three rows the second 1, the others 0 */
} zn_init;

enum { ZN_NAME_SIZE = 64, ZN_RANK = 5 };

typedef struct zn_stated { /* a tensor, as bind states it */
    char name[ZN_NAME_SIZE];
    int dims[ZN_RANK]; /* 0 ends the list */
    zn_init init;
    double value;
    zn_conv conv; /* of a convolution's weight; kh 0: not given, a convolution is of stride 1 and keeps the size */
} zn_stated;

typedef struct zn_outline {
    zn_stated *tensor;
    int n;
} zn_outline;

/* The new tensor, for the caller to complete; NULL: no memory, or more dimensions than ZN_RANK. */
zn_stated *zn_outline_add(zn_outline *o, const char *name, const int *dims, int n_dims);
void zn_outline_free(zn_outline *o);
/* What stands for the address of the tensor of this name on a device; NULL: there is none. */
void *zn_outline_address(const zn_outline *o, const char *name);
/* The tensor that an address stands for; NULL: none. */
const zn_stated *zn_outline_at(const zn_outline *o, const void *address);

#endif
