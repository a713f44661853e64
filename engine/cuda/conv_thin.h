/* SPDX-License-Identifier: MIT */
/* conv_thin.h - sizes of kernels/conv_thin.cu, which conv.c needs for its launches. */
#ifndef ZN_CUDA_CONV_THIN_H
#define ZN_CUDA_CONV_THIN_H

/* conv_thin: bytes of k that are in shared memory at a time, at most; bytes of the table of k, 4 words an element. */
#define ZN_THIN_CHUNK(bm) ((bm) > 32 ? 256 : 512)
#define ZN_THIN_TABLE(bm) (ZN_THIN_CHUNK(bm) / 2 * 16)

/* Rows of `row` bytes have a pitch of an odd multiple of 16, so that ldmatrix has no bank conflicts.  Short rows of x are
 * double buffered: a tile is loaded while other warps still multiply the last one.  An epilogue through shared memory
 * reuses the memory of x. */
#define ZN_THIN_PITCH(row) ((row) + 16)
#define ZN_THIN_TWICE(row) ((row) <= 128)
#define ZN_THIN_X(bm, row) ((bm)*ZN_THIN_PITCH(row) * (ZN_THIN_TWICE(row) ? 2 : 1))
#define ZN_THIN_OUT(bm, bn) ((bm) * ((bn) + 4) * 4)
#define ZN_THIN_SHARED(bm, bn, row, direct)                                                                            \
    (ZN_THIN_TABLE(bm) + (bn)*ZN_THIN_PITCH(row) +                                                                     \
     ((direct) || ZN_THIN_X(bm, row) > ZN_THIN_OUT(bm, bn) ? ZN_THIN_X(bm, row) : ZN_THIN_OUT(bm, bn)))

/* conv_point: 1x1, the most inputs and outputs, and inputs of a chunk.  conv_fan: 1x1, the most inputs and outputs (beyond
 * them conv_thin is faster), and the pixels of a thread. */
enum {
    ZN_POINT_IN = 128,
    ZN_POINT_OUT = 16,
    ZN_POINT_CHUNK = 32,
    ZN_FAN_IN = 4,
    ZN_FAN_OUT = 32,
    ZN_FAN_PIXELS = 4,
};

/* conv_few: 16 x 16 pixels with their halo, in tiles of 16 pixels and 64 channels; 32 rows of weights. */
enum {
    ZN_FEW_SIDE = 16,
    ZN_FEW_MAX = 3, /* outputs: 9 taps of each are the 32 columns of the product */
    ZN_FEW_TILES = ((ZN_FEW_SIDE + 2) * (ZN_FEW_SIDE + 2) + 15) / 16,
    ZN_FEW_SHARED = (ZN_FEW_TILES * 16 + 32) * 128,
};

#endif
