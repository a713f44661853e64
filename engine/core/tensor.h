/* SPDX-License-Identifier: MIT */
/* tensor.h - tensors, the inputs and outputs of operations: views of NHWC elements in device memory. */
#ifndef ZN_TENSOR_H
#define ZN_TENSOR_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* The type of an element: any of these in weight files, one of the first three in tensors (see zn_precision in
 * backend.h). */
typedef enum zn_type {
    ZN_F32,
    ZN_F16,
    ZN_BF16,
    ZN_F64,
    ZN_F8_E4M3,
    ZN_F8_E5M2,
    ZN_BOOL,
    ZN_U8,
    ZN_I8,
    ZN_I16,
    ZN_U16,
    ZN_I32,
    ZN_U32,
    ZN_I64,
    ZN_U64,
    ZN_N_TYPES, /* of elements; those below are for weight files alone and come in blocks (blocks.c) */
    ZN_Q4_0,
    ZN_Q4_1,
    ZN_Q5_0,
    ZN_Q5_1,
    ZN_Q8_0,
    ZN_Q4_K,
    ZN_Q5_K,
    ZN_Q6_K,
    ZN_MLX4,
    ZN_MLX8,
} zn_type;

/* Of a tensor's type. */
static inline size_t zn_type_size(zn_type t)
{
    return t == ZN_F32 ? 4 : 2;
}

typedef struct zn_tensor {
    float *data;        /* device memory, owned by an arena; a dry run only has addresses */
    int32_t n, h, w, c; /* NHWC: the channel varies fastest */
    int32_t ld;         /* elements from one pixel to the next, >= c; rows follow each other */
    zn_type type;       /* of what data points to, if it is not float */
} zn_tensor;            /* passed by value; a view is just another one */

static inline size_t zn_pixels(zn_tensor t)
{
    return (size_t)t.n * (size_t)t.h * (size_t)t.w;
}

/* Channels from .. from+c-1 of t: concatenation and splitting cost nothing. */
static inline zn_tensor zn_slice(zn_tensor t, int from, int c)
{
    assert(from >= 0 && c > 0 && from + c <= t.c);
    t.data = (float *)((char *)t.data + (size_t)from * zn_type_size(t.type));
    t.c = c;
    return t;
}

/* Pixels from .. from+n-1 of a tensor [1][1][w][c]: a sequence cut in parts. */
static inline zn_tensor zn_rows(zn_tensor t, int from, int n)
{
    assert(t.n == 1 && t.h == 1 && from >= 0 && n > 0 && from + n <= t.w);
    t.data = (float *)((char *)t.data + (size_t)from * (size_t)t.ld * zn_type_size(t.type));
    t.w = n;
    return t;
}

/* Rows from .. from+n-1 of a picture. */
static inline zn_tensor zn_band(zn_tensor t, int from, int n)
{
    assert(t.n == 1 && from >= 0 && n > 0 && from + n <= t.h);
    t.data = (float *)((char *)t.data + (size_t)from * (size_t)t.w * (size_t)t.ld * zn_type_size(t.type));
    t.h = n;
    return t;
}

/* The same elements as n x h x w pixels of c channels.  A tensor with gaps between its pixels has no such view. */
static inline zn_tensor zn_reshape(zn_tensor t, int n, int h, int w, int c)
{
    assert(t.ld == t.c && (size_t)n * (size_t)h * (size_t)w * (size_t)c == zn_pixels(t) * (size_t)t.c);
    t.n = n, t.h = h, t.w = w, t.c = t.ld = c;
    return t;
}

/* To the nearest, ties to even; what is too large for f16 becomes its largest value.  convert.c */
uint16_t zn_to_f16(float x);
uint16_t zn_to_bf16(float x);
float zn_from_f16(uint16_t x);
float zn_from_bf16(uint16_t x);

#endif
