/* SPDX-License-Identifier: MIT */
/* hopper.h - convolutions and matrix products for compute capability 9.0: what hopper.c hands to kernels/hopper.cu.
 *
 * All kernels compute the transpose, y^T[cout][pixel] = w[cout][k] x[pixel][k]^T: the 64 rows of a wgmma are outputs, its
 * up to 256 columns are pixels.  The epilogue writes through shared memory, 64 channels (128 bytes) of 64 pixels at a time. */
#ifndef ZN_CUDA_HOPPER_H
#define ZN_CUDA_HOPPER_H

#include "args.h"

#ifdef __cplusplus
#define ZN_ALIGN_64 alignas(64)
#else
#define ZN_ALIGN_64 _Alignas(64)
#endif

/* A tensor map of TMA, as the driver encodes it. */
typedef struct zn_hopper_map {
    ZN_ALIGN_64 uint64_t word[16];
} zn_hopper_map;

typedef struct zn_hopper_tail {
    const float *bias;
    const float *scale;   /* e4m3: of the outputs */
    const float *scale_x; /* e4m3: of the pixels, which are one row; NULL: 1 */
    float gain;
    int32_t pre, post; /* zn_act */
    int32_t residual;  /* not 0: there is one */
    uint16_t *also;    /* NULL, or what gets ReLU(y), too: h x w x c, pixels also_ld elements apart */
    int32_t also_ld, h, w, c;
} zn_hopper_tail;

/* 3x3, stride 1, padding 1, 64 to 64 channels: all weights stay in shared memory.  A tile is 8 pixels wide and
 * `rows` high (4, 8, 16: one kernel each); tile t is (t % tiles_x, t / tiles_x % tiles_y, t / tiles_x / tiles_y).
 * up2: a tile of x makes four of y, one per parity (2 * row parity + column parity); each parity has its own map. */
typedef struct zn_hopper_conv64 {
    zn_hopper_map x, w, y[4], residual;
    zn_hopper_tail tail;
    const void *weight; /* up2: [64][9 * 64] */
    int32_t tiles_x, tiles_y, tiles;
    int32_t stages;
} zn_hopper_conv64;

/* Any convolution without groups.  hopper_conv: a ring of [outputs][64] weights and [pixels][64] inputs, tap by tap.
 * hopper_conv3 (3x3, stride 1, padding 1, above perhaps 0): a ring of input tiles with their halo, and one of weights.
 * With up2 it has nine taps, or the four of hopper_merge.  _quantise: x is fp16, loaded in boxes of 64 channels and half the rows;
 * weights come in boxes of a warpgroup's 64 outputs. */
typedef struct zn_hopper_conv {
    zn_hopper_map x, w, y[4], residual;
    zn_hopper_tail tail;
    int32_t kw, taps, chunks, last; /* chunks: 128 bytes of channels; last: how many times 32 of the last one */
    int32_t cin_pad, stride, pad_t, pad_l, up2;
    int32_t outputs;                            /* cout_pad */
    int32_t tiles_o, tiles_x, tiles_y, tiles_n; /* tiles_n: images, or 4 parities of them */
    int32_t tiles, group;                       /* `group` tiles of pixels next to each other share weights */
    int32_t tw, th;                             /* pixels of a tile */
    int32_t stages, weight_stages;
} zn_hopper_conv;

/* hopper_linear.cu: y[pixel][row] = w[row][k] x[pixel][k]^T + bias[row], or with a second layer SiLU(w x) * (w2 x).  w: groups of 8 rows,
 * with a second layer alternating ones; swapped: it is the one that comes first.  e4m3: a row's and a pixel's scales multiply its
 * sums; scale_x has whole tiles of pixels. */
typedef struct zn_hopper_linear {
    zn_hopper_map x, w, y;
    const float *bias, *scale_w, *scale_w2, *scale_x; /* scale_w2: of the second layer, or scale_w */
    int32_t chunks, outputs, swapped;                 /* chunks: 128 bytes of k; outputs: of a layer */
    int32_t tiles_o, tiles_p, tiles, group;           /* of rows, of pixels, in all; see find_spot */
    int32_t stages;
} zn_hopper_linear;

/* Weights [cout_pad][k_pad] of a 3x3 convolution with up2 to [cout_pad][16][cin_pad]: for each of four parities of an output, the
 * four sums of the taps that read the same pixel. */
typedef struct zn_hopper_merge {
    const void *from;
    void *to;
    uint32_t cin_pad, k_pad, n; /* n: vectors of 8 elements of the result */
} zn_hopper_merge;

/* 3x3, stride 1, padding 1 (above perhaps 0), 96 to 96 channels: hopper_pixels.cu.  A tile is 8 pixels wide. */
enum { ZN_PIXELS_CHANNELS = 96, ZN_PIXELS_ROWS = 16 };

typedef struct zn_hopper_pixels {
    zn_hopper_map x, w, w_rest; /* w: the first 64 inputs; w_rest: the other 32 */
    const float *bias, *gamma;  /* gamma NULL: 1 */
    const uint16_t *residual;   /* NULL: none */
    uint16_t *y;                /* NULL: only `also` is stored */
    uint16_t *also;             /* NULL, or act(norm(y)), an RMS norm */
    float eps;
    int32_t also_act; /* zn_act */
    int32_t residual_ld, y_ld, also_ld;
    int32_t height, width; /* of y */
    int32_t pad_t, tiles_x, tiles_y, tiles;
    int32_t early; /* weights may be loaded before the previous kernel has ended */
} zn_hopper_pixels;

/* x from fp16 to dense e4m3, in vectors of 8 elements, ZN_HOPPER_QUANTISED a thread. */
typedef struct zn_hopper_quantise {
    const void *x;
    void *y;
    uint32_t ld, per_pixel, n; /* elements from pixel to pixel of x; vectors of a pixel, and in all */
} zn_hopper_quantise;

/* The same with one scale for each pixel, a power of two: its largest element becomes 224 .. 448.  A block has a pixel. */
typedef struct zn_hopper_quantise_rows {
    const void *x;
    void *y;
    float *scale;
    uint32_t ld, c;
} zn_hopper_quantise_rows;

/* Attention: a block has 128 queries of a head, 64 a warpgroup, and reads blocks of keys and values.  q and k come in parts of 64
 * channels, v in parts of 64 of the outputs that the block has. */
typedef struct zn_hopper_attention {
    zn_hopper_map q, k, v;
    zn_args_attention g;                 /* cuts: parts of a head's outputs, one block each */
    int32_t heads, tiles, parts, stages; /* tiles: of queries; parts: of dim; stages: parts of k in shared memory */
} zn_hopper_attention;

/* An input tile with its halo in shared memory.  A tap is a shifted start address, which the 128-byte swizzle allows at every
 * pixel.  PITCH: pixels of a row; COPY: bytes of the tile; HALO: the same, up to a multiple of 1024. */
#define ZN_HOPPER_PITCH(w) ((w) + 2)
#define ZN_HOPPER_COPY(w, rows) (((rows) + 2) * ZN_HOPPER_PITCH(w) * 128)
#define ZN_HOPPER_HALO(w, rows) ((ZN_HOPPER_COPY(w, rows) + 1023) / 1024 * 1024)
/* Bytes of half the rows of such a tile, 8 pixels wide, in fp16, before they are quantised to e4m3. */
#define ZN_HOPPER_PART(rows) ((((rows) + 2) / 2 * ZN_HOPPER_PITCH(8) * 128 + 1023) / 1024 * 1024)

enum {
    ZN_HOPPER_WARPGROUPS = 2,
    ZN_HOPPER_MAX_STAGES = 8,
    ZN_HOPPER_BARRIERS = 512, /* bytes */
    ZN_HOPPER_QUANTISED = 4,
    ZN_HOPPER_ROW = 16384, /* channels of a pixel that has a scale, at most */
    ZN_HOPPER_QUERIES = 128,
    ZN_HOPPER_VALUES = 2, /* buffers for a block of values */
};

/* Two consumer warpgroups and a producer warp; with n = 256 pixels the producer is a warpgroup, for setmaxnreg. */
#define ZN_HOPPER_THREADS(n) (ZN_HOPPER_WARPGROUPS * 128 + ((n) == 256 ? 128 : 32))

/* Shared memory in all: alignment, rings and resident weights, and for each warpgroup two output chunks of the epilogue. */
static inline int zn_hopper_shared(int rings, int n)
{
    return 1024 + rings + ZN_HOPPER_WARPGROUPS * 2 * (n < 64 ? n : 64) * 128 + ZN_HOPPER_BARRIERS;
}

/* The same for 96 channels: all weights, two tiles of x, barriers. */
static inline int zn_hopper_pixels_shared(void)
{
    return 1024 + 9 * ZN_PIXELS_CHANNELS * ZN_PIXELS_CHANNELS * 2 + 2 * ZN_HOPPER_HALO(8, ZN_PIXELS_ROWS) + 128;
}

/* The same for attention with blocks of `keys` keys and `outputs` outputs. */
static inline int zn_hopper_attention_shared(int parts, int stages, int keys, int outputs)
{
    return 1024 + parts * ZN_HOPPER_QUERIES * 128 + stages * keys * 128 +
        ZN_HOPPER_VALUES * (outputs / 64) * keys * 128 + ZN_HOPPER_BARRIERS;
}

#ifndef __cplusplus
struct zn_cuda;
/* True if it computes c: the device is of compute capability 9.0, and types, sizes and addresses fit. */
bool zn_cuda_hopper_conv(struct zn_cuda *d, const zn_cuda_conv *c);
/* The same for 96 channels, with t's second result if that is an RMS norm; *also says so.  stored: the weights are those that were
 * packed. */
bool zn_cuda_hopper_pixels(struct zn_cuda *d, const zn_cuda_conv *c, const zn_tail *t, bool stored, bool *also);
/* The same with products of e4m3, if the layer's weights are stored so.  In a 1x1 layer each pixel of x has a scale.  Elsewhere x
 * has none: one from its maximum would make a pixel depend on its image or tile.  So x is clamped to +-448, with 3 bits of
 * mantissa from 2^-6 on and multiples of 2^-9 below.  The kernel quantises it, or, where that is faster, another kernel does so
 * before. */
bool zn_cuda_hopper_conv8(struct zn_cuda *d, const zn_cuda_conv *c);
/* True if it computes the attention of these heads. */
bool zn_cuda_hopper_attention(struct zn_cuda *d, const zn_args_attention *g, int heads);
#endif

#endif
