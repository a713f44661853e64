/* SPDX-License-Identifier: MIT */
/* conv.h - the algorithms of convolution and how one is chosen (conv.c). */
#ifndef ZN_CPU_CONV_H
#define ZN_CPU_CONV_H

#include "device.h"

enum { ZN_TILES_PAY = 64 }; /* channels from which on 1x1 convolutions and gated blocks are faster in tiles */

typedef struct zn_conv_job {
    zn_cpu *d;
    zn_tensor y, x;
    const zn_conv *w;
    zn_tail t; /* as kernels take it: the gain is never 0 */
} zn_conv_job;

/* n weights of a depthwise or dense 1x1 convolution, for the outputs from o on: the bias (row 0), or the weights of tap
 * or channel row - 1. */
typedef void zn_conv_row_fn(float *to, const zn_kernels *k, const zn_conv *w, int row, int o, int n);

/* A way to compute some convolutions.  `suits`, `size` and `pack` see the layer alone: the packed weights serve every
 * size of x. */
typedef struct zn_conv_algorithm {
    const char *name;
    bool (*suits)(const zn_cpu *d, const zn_conv *w);
    size_t (*size)(const zn_kernels *k, const zn_conv *w); /* bytes of w->packed */
    void (*pack)(const zn_cpu *d, const zn_conv *w, const float *weight, const float *bias);
    void (*run)(const zn_conv_job *job);
    size_t (*scratch)(const zn_kernels *k, const zn_conv *w); /* bytes of zn_cpu.expanded that run uses; NULL: 0 */
    zn_conv_row_fn *unpack_row;                               /* NULL: packed weights cannot be read back */
    zn_wtype inputs;                                          /* as conv_inputs of backend.h */
} zn_conv_algorithm;

extern const zn_conv_algorithm zn_conv_integers;  /* linear layers whose inputs may be quantised */
extern const zn_conv_algorithm zn_conv_tiles;     /* products of bf16 */
extern const zn_conv_algorithm zn_conv_rounded;   /* products of fp16 */
extern const zn_conv_algorithm zn_conv_formula;   /* the scalar backend */
extern const zn_conv_algorithm zn_conv_winograd;  /* 3x3 */
extern const zn_conv_algorithm zn_conv_depthwise; /* one channel per group */
extern const zn_conv_algorithm zn_conv_grouped;   /* 1x1 in groups */
extern const zn_conv_algorithm zn_conv_narrow;    /* at most ZN_NARROW outputs */
extern const zn_conv_algorithm zn_conv_implicit;  /* implicit GEMM: any convolution */

/* n channels from `from` on (a multiple of ZN_W_GROUP) of a panel that zn_conv_implicit has packed, as floats:
 * [tap][channel][outputs, whole vectors], *tap floats from one tap to the next; and the panel's bias.  room: for as many
 * floats, used if the weights are stored in another type.  Dense layers only. */
const float *zn_implicit_weights(float *room, size_t *tap, const float **bias, const zn_kernels *k, const zn_conv *w,
                                 int panel, int from, int n);

/* Whether Winograd computes such a layer: its float32 is faster than the plain product in fp16. */
bool zn_winograd_fits(const zn_kernels *k, const zn_conv *w);
/* As conv_block of backend.h, of such a layer and of others. */
int zn_winograd_side(const zn_kernels *k, const zn_conv *w);
/* A convolution whose weights zn_conv_implicit has packed, through Winograd; false: not this one, or too few pixels. */
bool zn_winograd_run(const zn_conv_job *job);
/* Bytes of zn_cpu.expanded that it uses for such a layer; 0: never this one. */
size_t zn_winograd_scratch(const zn_kernels *k, const zn_conv *w);

/* Whether a 3x3 convolution with up2 has a row of zeros above, or begins under the second row of x; and rows of zeros above x. */
static inline bool zn_conv_is_strip(const zn_conv *w)
{
    return (w->pad_t == 1 || w->pad_t == -1) && w->pad_l == 1;
}

static inline int zn_conv_above(const zn_conv *w)
{
    return w->up2 ? (w->pad_t + 1) / 2 : w->pad_t;
}

/* The tail of n sums of a pixel, outputs from o on; y and res are the pixel's, of any type. */
void zn_conv_finish(const zn_conv_job *job, void *y, const void *res, float *sums, int o, int n);

/* A layer that an algorithm for floats computes, of tensors of another type. */
void zn_conv_run_in_bands(const zn_conv_job *job, const zn_conv_algorithm *a);
enum { ZN_CONV_BAND = 768 << 10 }; /* bytes of zn_cpu.expanded that it uses */

/* The pack of zn_conv_integers, of rows that are read while they are packed. */
void zn_integers_pack_rows(const zn_cpu *d, const zn_conv *w, const zn_row_source *rows, const float *bias);

/* What reads a layer's packed weights. */
zn_conv_row_fn *zn_cpu_conv_rows(const zn_cpu *d, const zn_conv *w);

#endif
