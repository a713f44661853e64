/* SPDX-License-Identifier: MIT */
/* args.h - the parameters of kernels, shared by C and CUDA C: one struct each, passed by value. */
#ifndef ZN_CUDA_ARGS_H
#define ZN_CUDA_ARGS_H

#include <stdbool.h>

#include "../special.h"

/* zn_tail with the residual resolved: y = post(residual + gain * pre(acc)); gain is never 0 here. */
typedef struct zn_cuda_tail {
    zn_act pre, post;
    float gain;
    zn_tensor residual; /* data NULL: none */
} zn_cuda_tail;

/* A convolution.  What is at zn_conv.packed, in this order, each part 256-byte aligned:
 *     float  bias[cout_pad]                 zeros if there is none
 *     T      weight[cout_pad][k_pad]        rows of outputs; k = (u * kw + v) * cin_pad + c
 *     float  scale[cout_pad]                e4m3, s8 (int8 with row_scales, compute capability 9.0) alone
 * with cin_pad = cin/groups up to a multiple of 8, cout_pad = cout up to a multiple of 64 (groups are not padded
 * separately: row o is output o), k_pad = kh*kw*cin_pad up to a multiple of 32; padding is zeros.  The layer's precision
 * and the device decide T, the one type in which weights are stored (storage_of in conv.c).
 * int8 and int4 (core/quantise.h) keep the order of the file instead, so that the groups of a file are kept:
 *     T      weight[cout_pad][k_row]        k = c * kh*kw + tap; k_row = cin*kh*kw up to a multiple of ZN_W_GROUP
 *     fp16   scale[cout_pad][k_row / ZN_W_GROUP]
 * Depthwise (groups == cin == cout) instead:
 *     float bias[cout_pad], float weight[kh*kw][cout_pad] with cout_pad = cout up to a multiple of 8. */
typedef struct zn_cuda_conv {
    zn_tensor x, y;
    zn_cuda_tail tail;
    const float *bias;    /* [cout_pad] */
    const void *weight;   /* [cout_pad][k_pad], of the type that the kernel multiplies; depthwise: [kh*kw][cout_pad] */
    const float *scale8;  /* e4m3, s8: weight = scale8[output] * weight8; NULL: the layer is not stored so */
    const void *weight8;  /* [cout_pad][k_pad] */
    const float *scale_x; /* hopper.cu, x of e4m3: of its pixels; NULL: 1 */
    zn_precision precision;
    int32_t kh, kw, stride, groups, cin, cout, pad_t, pad_l, up2;
    int32_t cin_pad, cout_pad, k_pad;
    int32_t many_pixels; /* as zn_conv's */
    int32_t integers;    /* weight8 is s8: hopper_linear.cu alone multiplies it */
    void *merged;   /* hopper.cu: room for the merged taps of a 3x3 convolution with up2; NULL: they are not merged */
    zn_tensor also; /* hopper.cu: gets ReLU(y); data NULL: nothing does */
    int32_t from_tile; /* conv_mma, conv_simt: of pixels, the first that a launch computes */
    int32_t direct; /* conv_mma, conv_thin: the epilogue writes from registers, 8 at once; activations RELU or none */
} zn_cuda_conv;

/* weights.cu: packed weights to a type that a kernel multiplies, 8 elements a thread. */
typedef struct zn_args_expand {
    const void *from, *scale; /* as in zn_conv.packed */
    void *to;                 /* [cout_pad][k_pad] */
    size_t n;                 /* vectors of 8 */
    int32_t cin, cin_pad, taps, k_pad, k_row;
} zn_args_expand;

/* weights.cu: rows of weights to their stored type, a block each. */
typedef struct zn_args_pack {
    const void *from; /* [rows][k] */
    float *bias;      /* becomes 0; as to and scale, that of the first row */
    void *to, *scale; /* as in zn_conv.packed */
    int32_t rows, k;  /* blocks from `rows` on make padding: 0 */
} zn_args_pack;

/* conv_mma8.cu: x from fp16 to dense e4m3. */
typedef struct zn_args_quantise8 {
    const void *x;
    void *y;
    float *scale; /* [pixels]; NULL: none */
    size_t pixels;
    int32_t ld, c; /* ld: elements from pixel to pixel of x */
} zn_args_quantise8;

typedef struct zn_cuda_peak {
    float *sink;
    int32_t rounds;
} zn_cuda_peak;

/* ---- pointwise.cu, norm.cu, group_norm.cu ------------------------------------------------------------------------------ */

typedef enum zn_spread { ZN_SPREAD_NONE, ZN_SPREAD_VECTOR, ZN_SPREAD_PIXEL, ZN_SPREAD_ONE } zn_spread;

/* map, binary and step, in vectors of V elements. */
typedef struct zn_args_pointwise {
    zn_tensor y, a, b; /* b.data NULL: y = tail(a) */
    zn_cuda_tail tail;
    zn_binary op;
    uint32_t per_pixel; /* vectors of a pixel; 0: the tensors have no gaps and are one long row */
    uint32_t rest;      /* elements of that row after the last whole vector */
    size_t n;           /* vectors */
    zn_spread spread;   /* how b is broadcast: a vector per image, an element per pixel, one element */
    uint32_t image;     /* pixels of an image */
    const float *coefs; /* step */
    float clip;         /* step; infinite: nothing is clamped */
} zn_args_pointwise;

/* Nearest: rows of y, in vectors of V elements. */
typedef struct zn_args_resize {
    zn_tensor y, x;
    uint32_t per_pixel; /* vectors */
} zn_args_resize;

/* Average: windows of h x w pixels.  `cols` vectors side by side in a block of average_long. */
typedef struct zn_args_average {
    zn_tensor y, x;
    int32_t h, w, cols;
    uint32_t per_pixel; /* vectors */
    size_t n;           /* vectors of y */
} zn_args_average;

/* RoPE, in vectors of V pairs. */
typedef struct zn_args_rope {
    zn_tensor y, x;
    const float *cos, *sin;
    uint32_t cos_ld, sin_ld;
    int32_t half, interleaved;
    uint32_t per_head, per_pixel; /* vectors of pairs */
    uint32_t image;               /* pixels of an image */
    size_t n;                     /* vectors of pairs in all */
} zn_args_rope;

/* y[p] = table[index[p]], in vectors of V elements. */
typedef struct zn_args_lookup {
    zn_tensor y, table, index;
    uint32_t per_pixel;
    size_t n; /* vectors */
} zn_args_lookup;

/* big[i*r+u][j*r+v][c] <-> small[i][j][c*r*r + u*r + v].  A block moves `pixels` pixels of a row of small, and
 * of them the `channels` channels of big; it keeps them in shared memory as [u*r+v][pixel][c], `pitch` elements from
 * one u*r+v to the next.  Integers below 2^16 are divided by d with a multiplication by its magic, ceil(2^32 / d); 0 for
 * d = 1. */
typedef struct zn_args_shuffle {
    zn_tensor small, big;
    zn_cuda_tail tail; /* only from small to big */
    int32_t r, pixels, channels, pitch;
    uint32_t n_tiles;                /* of a row */
    bool small_vectors, big_vectors; /* read and written in vectors of 8 */
    uint32_t magic_r, magic_rr;
    uint32_t magic_row, magic_channels; /* elements or vectors of big in a row, in a pixel of the tile */
    uint32_t magic_vectors;             /* of small, in a pixel */
} zn_args_shuffle;

/* From small to big if neither has vectors, for rows of big without gaps: a thread writes 8 elements of such a row. */
typedef struct zn_args_shuffle_rows {
    zn_tensor small, big;
    zn_cuda_tail tail;
    int32_t r;
    uint32_t vectors; /* of a row of big */
    size_t n;         /* vectors in all */
} zn_args_shuffle_rows;

enum { ZN_CUDA_FILL = 512 };

/* y[..][first + c] = value[c], c < n */
typedef struct zn_args_fill {
    zn_tensor y;
    uint32_t first, n;
    float value[ZN_CUDA_FILL];
} zn_args_fill;

/* Layer and RMS norm: `lanes` threads to a pixel. */
typedef struct zn_args_rows {
    zn_tensor y, x;
    zn_cuda_tail tail;
    const float *gamma, *beta;
    zn_modulation m; /* norm_long_rows alone */
    float eps;
    bool rms;
    int32_t lanes;
    uint32_t image; /* pixels of an image */
    size_t pixels;
} zn_args_rows;

/* norm_twice: first, whose result is then normalised to y. */
typedef struct zn_args_twice {
    zn_args_rows first;
    zn_tensor y, scale; /* scale: as zn_modulation's */
    const float *gamma;
    float eps;
} zn_args_twice;

/* The RMS norm of each head, then its rotation, for 16-bit tensors. */
typedef struct zn_args_norm_rope {
    zn_tensor y, x;
    const float *gamma; /* NULL: 1 */
    const float *cos, *sin;
    float eps;
    uint32_t cos_ld, sin_ld, image; /* image: its pixels */
    int32_t heads, dim, interleaved;
} zn_args_norm_rope;

/* Group norm, in norm.cu: an image is cut into chunks of pixels; a block has `cols` vectors of channels side by side.
 * In group_norm.cu: `partial` is [image][group][block][mean, squared differences from it]; `cols` are all vectors. */
typedef struct zn_args_group {
    zn_tensor y, x;
    zn_cuda_tail tail;
    const float *gamma, *beta;
    zn_modulation m;
    float eps;
    int32_t groups, cols, n_chunks, first; /* first: image */
    size_t pixels, chunk;                  /* of an image, of a chunk */
    float *partial;                        /* [image][chunk][mean, squared differences from it][c] */
    float *scale, *shift;                  /* [image][c] */
    /* group_norm.cu alone */
    int32_t stages;      /* tiles that a block's shared memory holds */
    int32_t rows, tiles; /* of threads, each row a pixel; tiles of an image */
    int32_t each, more;  /* tiles of a block; so many blocks have one more */
    int32_t missing;     /* pixels that the last tile lacks */
    int32_t size, lanes; /* of a group: channels, and threads that reduce its sums: a power of two */
    float per_element;   /* 1 / the elements of a group */
} zn_args_group;

/* ---- attention.cu -------------------------------------------------------------------------------------------- */

typedef struct zn_args_attention {
    zn_tensor y, q, k, v;
    int32_t n_q, n_k;   /* positions of an image */
    int32_t dim, dim_v; /* of a head of q and k; of v and y */
    int32_t shared;     /* query heads per key and value head */
    int32_t causal;
    int32_t cuts;      /* plain and wide: parts of a head's outputs */
    int32_t from_tile; /* but for hopper_attention.cu: of queries, the first that a launch computes */
    float scale;
} zn_args_attention;

/* ---- spectral.cu ----------------------------------------------------------------------------------------------- */

/* Along c: 2^log_team threads a pixel. */
typedef struct zn_args_fwht_c {
    zn_tensor y, x;
    zn_fwht w;
    int32_t log_n, log_team;
    size_t pixels;
} zn_args_fwht_c;

/* Along w or h.  A column is one channel of one line of pixels. */
typedef struct zn_args_fwht_line {
    zn_tensor y, x;
    const float *gate;
    zn_axis axis;
    bool per_channel;
    int32_t shift, log_n;
    int32_t log_span; /* a block's part of a column: whole windows, at least 32 elements (pairs: 16) */
    int32_t log_cols; /* columns of a block */
    size_t n_cols;
} zn_args_fwht_line;

typedef struct zn_args_pruned {
    zn_tensor y, mask, x;
    const float *scale, *bias, *weight;
} zn_args_pruned;

/* ---- gated residual blocks (gated.c) ------------------------------------------------------------------------ */

/* Rows of pixels in memory: pixel p is at (p / w) * row + (p % w) * ld elements. */
typedef struct zn_cuda_rect {
    void *data; /* NULL: none */
    int64_t row;
    int32_t w, ld;
    zn_type type;
} zn_cuda_rect;

/* One step as a matrix product:  y[p][o] = residual[p][o] + bias[o] + sum over k of weight[o][k] * N(x[p])[k];
 * with gate > 0 it is (bias[o] + ...) * (the same for output o + gate). */
typedef struct zn_cuda_gated_mm {
    zn_cuda_rect x, y, residual;
    const float *weight, *bias; /* [rows][k_pad], [rows] */
    int32_t pixels, c, outputs, gate, k_pad, rows;
    int32_t norm;         /* 0: N is the identity */
    int32_t vec_x, vec_y; /* x; y and residual: float, read and written in vectors of 4, 16-byte aligned */
    float eps;
} zn_cuda_gated_mm;

/* y[i][j][o] = dw(x)[i][j][o] * dw(x)[i][j][c + o].  x is y with a halo of up to one pixel; y's corner is at (oi, oj) of it.
 * Beyond x there are zeros. */
typedef struct zn_cuda_gated_dw {
    float *y;                   /* [h][w][c] */
    const float *x;             /* [xh][xw][2c] */
    const float *weight, *bias; /* [9][pad], [2c] */
    int32_t h, w, c, xh, xw, oi, oj, pad;
} zn_cuda_gated_dw;

/* The fused kernels, one tile a block. */
typedef struct zn_cuda_gated_tile {
    zn_tensor x, y;
    const void *w1, *w2, *w3, *w4; /* rows of k_pad */
    const float *dw;               /* [9][dw_pad] */
    const float *b1, *bd, *b2, *b3, *b4;
    int32_t k_pad, dw_pad;
    int32_t down, across, tiles; /* tiles of an image in each direction; tiles in all */
    float eps, per_c;            /* per_c: 1 / x.c */
} zn_cuda_gated_tile;

enum {
    ZN_GATED_TW = 16,   /* width of a tile in pixels */
    ZN_GATED_STEP = 16, /* channels of a gate's result in a step, from twice as many inputs */
    ZN_GATED_LD_Z =
        2 * ZN_GATED_STEP + 8, /* row pitches in shared memory: 8 elements of padding against bank conflicts */
    ZN_GATED_LD_G = ZN_GATED_STEP + 8
};

/* Bytes of shared memory for up to c channels of `size` bytes and tiles of th rows; ns warps share rows. */
#define ZN_GATED_SHARED(c, th, ns, stages, size)                                                                       \
    ((((th) + 2) * (ZN_GATED_TW + 2) + 15) / 16 * 16 * ((c) + 8 + ZN_GATED_LD_Z) * (size) +                            \
     (stages) * (ZN_GATED_STEP * (3 * (c) + 16) * (size) + 11 * 2 * ZN_GATED_STEP * 4) +                               \
     ((ns) > 1 ? (th)*ZN_GATED_TW * (ZN_GATED_LD_G * (size) + 16) : 0))

#endif
