/* SPDX-License-Identifier: MIT */
/* pixels.h - tables of pointers to the pixels that a convolution reads and writes (indirect convolution): padding is a
 * pointer to zeros, stride and enlargement are other pointers, and nothing is copied.  Pixels of a tensor of another type
 * are pointed to, too. */
#ifndef ZN_PIXELS_H
#define ZN_PIXELS_H

#include "conv.h"

enum {
    ZN_BLOCK_TILES = 16, /* tiles of MR pixels in a block of output pixels */
    ZN_MAX_TAPS = 1024,  /* of a table */
    ZN_MAX_GATHER = 64   /* taps whose pixels are copied */
};

typedef struct zn_pixel_table { /* of a block of output pixels; in the worker's scratch memory */
    const float **x;            /* [tile][tap][MR]: the input pixel of a tap */
    float **y;                  /* [tile][MR] */
    const float **res;          /* [tile][MR], or NULL */
    void *rest;                 /* scratch memory behind the table */
} zn_pixel_table;

/* The table of the output pixels first .. first+n-1, n <= block; the last tile repeats its last pixel. */
zn_pixel_table zn_pixel_table_make(const zn_conv_job *job, int worker, size_t first, int n, int block);

/* The same for few channels: the taps of each pixel are copied to a row [taps * cin] in scratch memory, `skip` floats
 * behind the table, so that a product has one long sum.  x has one tap, which points to the row. */
zn_pixel_table zn_pixel_table_gather(const zn_conv_job *job, int worker, size_t first, int n, int block, size_t skip);

#endif
