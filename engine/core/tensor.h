/* SPDX-License-Identifier: MIT */
/* tensor.h - what flows between operations: a view of NHWC numbers in device memory. */
#ifndef ZN_TENSOR_H
#define ZN_TENSOR_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

typedef struct zn_tensor {
    float *data;         /* device memory, owned by an arena; a dry run only has addresses */
    int32_t n, h, w, c;  /* NHWC: the channel varies fastest */
    int32_t ld;          /* elements from one pixel to the next, >= c; rows follow each other */
} zn_tensor;             /* passed by value; a view is just another one */

static inline size_t zn_pixels(zn_tensor t)
{
    return (size_t)t.n * (size_t)t.h * (size_t)t.w;
}

/* Channels from .. from+c-1 of t: concatenation and splitting cost nothing. */
static inline zn_tensor zn_slice(zn_tensor t, int from, int c)
{
    assert(from >= 0 && c > 0 && from + c <= t.c);
    t.data += from;
    t.c = c;
    return t;
}

#endif
