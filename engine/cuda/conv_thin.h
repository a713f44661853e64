/* SPDX-License-Identifier: MIT */
/* conv_thin.h - the shared memory of kernels/conv_thin.cu, which conv.c asks for. */
#ifndef ZN_CUDA_CONV_THIN_H
#define ZN_CUDA_CONV_THIN_H

/* conv_thin: bytes of k that are in shared memory at a time, at most; and the table of k, 4 words each. */
#define ZN_THIN_CHUNK(bm) ((bm) > 32 ? 256 : 512)
#define ZN_THIN_TABLE(bm) (ZN_THIN_CHUNK(bm) / 2 * 16)

/* Rows of `row` bytes, odd multiples of 16 so that ldmatrix meets no bank twice; the results take the place of x. */
#define ZN_THIN_PITCH(row) ((row) + 16)
#define ZN_THIN_X(bm, bn, row) \
    ((bm) * ZN_THIN_PITCH(row) > (bm) * ((bn) + 4) * 4 ? (bm) * ZN_THIN_PITCH(row) : (bm) * ((bn) + 4) * 4)
#define ZN_THIN_SHARED(bm, bn, row) (ZN_THIN_TABLE(bm) + (bn) * ZN_THIN_PITCH(row) + ZN_THIN_X(bm, bn, row))

/* conv_few: 16 x 16 pixels and their neighbours, in tiles of 16 pixels, 64 channels of them; 32 rows of weights. */
enum {
    ZN_FEW_SIDE = 16,
    ZN_FEW_MAX = 3, /* outputs: 9 taps of each are the 32 columns of the product */
    ZN_FEW_TILES = ((ZN_FEW_SIDE + 2) * (ZN_FEW_SIDE + 2) + 15) / 16,
    ZN_FEW_SHARED = (ZN_FEW_TILES * 16 + 32) * 128,
};

#endif
