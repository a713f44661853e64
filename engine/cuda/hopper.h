/* SPDX-License-Identifier: MIT */
/* hopper.h - convolutions and matrix products for compute capability 9.0: what hopper.c hands to kernels/hopper.cu.
 *
 * Both kernels compute the transpose, y^T[cout][pixel] = w[cout][k] x[pixel][k]^T, so that 64 outputs are the
 * fixed side of the matrix instruction and the pixels its wide one; a tile leaves through shared memory as 64
 * channels (128 bytes) of 64 pixels at a time. */
#ifndef ZN_CUDA_HOPPER_H
#define ZN_CUDA_HOPPER_H

#include "args.h"

#ifdef __cplusplus
#define ZN_ALIGN_64 alignas(64)
#else
#define ZN_ALIGN_64 _Alignas(64)
#endif

/* A tensor map of the copy engine, as the driver writes it. */
typedef struct zn_hopper_map {
    ZN_ALIGN_64 uint64_t word[16];
} zn_hopper_map;

typedef struct zn_hopper_tail {
    const float *bias;
    const float *scale; /* of the products, if x and w are of 8 bits */
    float gain;
    int32_t pre, post; /* zn_act */
    int32_t residual;  /* is there one */
} zn_hopper_tail;

/* 3x3, stride 1, padding 1, 64 to 64 channels: all weights stay in shared memory.  A tile is 8 pixels wide and
 * `rows` high (4, 8, 16: one kernel each); tile t is (t % tiles_x, t / tiles_x % tiles_y, t / tiles_x / tiles_y).
 * up2: a tile of x makes four of y, one per parity (2 * row parity + column parity), and has its own map each. */
typedef struct zn_hopper_conv64 {
    zn_hopper_map x, w, y[4], residual;
    zn_hopper_tail tail;
    const void *weight; /* up2: [64][9 * 64] */
    int32_t tiles_x, tiles_y, tiles;
    int32_t stages;
} zn_hopper_conv64;

/* Any convolution without groups.  zn_hopper_conv: a ring of [outputs][64] weights and [pixels][64] inputs, tap by
 * tap.  zn_hopper_conv3 (3x3, stride 1, padding 1): a ring of inputs with their neighbours, and one of weights;
 * _narrow: x is of half floats, in boxes of 64 channels of half the rows, and weights in boxes of a warpgroup's 64 outputs. */
typedef struct zn_hopper_conv {
    zn_hopper_map x, w, y[4], residual;
    zn_hopper_tail tail;
    int32_t kw, taps, chunks; /* chunks: 128 bytes of channels */
    int32_t cin_pad, stride, pad_t, pad_l, up2;
    int32_t outputs;                            /* cout_pad */
    int32_t tiles_o, tiles_x, tiles_y, tiles_n; /* tiles_n: pictures, or 4 parities of them */
    int32_t tiles, group;                       /* `group` tiles of pixels next to each other share weights */
    int32_t tw, th;                             /* pixels of a tile */
    int32_t stages, weight_stages;
} zn_hopper_conv;

/* x of half floats to dense e4m3, in pieces of 8 numbers, ZN_HOPPER_NARROWED a thread. */
typedef struct zn_hopper_narrow {
    const void *x;
    void *y;
    uint32_t ld, per_pixel, n; /* numbers from pixel to pixel of x; pieces of a pixel, and in all */
} zn_hopper_narrow;

/* An input tile with its neighbours in shared memory: a tap is a shifted start address, which the 128-byte swizzle allows
 * at every pixel.  Pixels a row of such a tile, and the bytes of all of it. */
#define ZN_HOPPER_PITCH(w) ((w) + 2)
#define ZN_HOPPER_COPY(w, rows) (((rows) + 2) * ZN_HOPPER_PITCH(w) * 128)
#define ZN_HOPPER_HALO(w, rows) ((ZN_HOPPER_COPY(w, rows) + 1023) / 1024 * 1024)
/* Half the rows of such a tile, 8 wide, of half floats that are to be rounded to 8 bits. */
#define ZN_HOPPER_PART(rows) ((((rows) + 2) / 2 * ZN_HOPPER_PITCH(8) * 128 + 1023) / 1024 * 1024)

enum {
    ZN_HOPPER_WARPGROUPS = 2,
    ZN_HOPPER_MAX_STAGES = 8,
    ZN_HOPPER_BARRIERS = 512, /* bytes */
    ZN_HOPPER_NARROWED = 4,
};

/* Two warpgroups, and one warp that copies; n = 256 pixels each: a warpgroup of it, for its registers. */
#define ZN_HOPPER_THREADS(n) (ZN_HOPPER_WARPGROUPS * 128 + ((n) == 256 ? 128 : 32))

/* Shared memory in all: alignment, rings and what stays, two chunks of pixels on their way out for each warpgroup. */
static inline int zn_hopper_shared(int rings, int n)
{
    return 1024 + rings + ZN_HOPPER_WARPGROUPS * 2 * (n < 64 ? n : 64) * 128 + ZN_HOPPER_BARRIERS;
}

#ifndef __cplusplus
struct zn_cuda;
/* True if it took the job: the device is of compute capability 9.0, and types, sizes and addresses fit. */
bool zn_cuda_hopper_conv(struct zn_cuda *d, const zn_cuda_conv *c);
/* The same with products of 8 bits (e4m3): fp8 is asked for, and the layer has such weights.  x has no scale: a maximum would
 * make a pixel depend on its picture or tile, so numbers are what they are, within +-448, with 3 bits of mantissa from 2^-6 on
 * and multiples of 2^-9 below.  They are rounded on their way to the products, or, where that is faster, before. */
bool zn_cuda_hopper_conv8(struct zn_cuda *d, const zn_cuda_conv *c);
#endif

#endif
