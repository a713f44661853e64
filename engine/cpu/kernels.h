/* SPDX-License-Identifier: MIT */
/* kernels.h - the inner loops of the CPU backend: one table per instruction set.
 *
 * One macro per kernel declares the slot and every variant.  The scalar versions (scalar.c) are the
 * specification; the vector ones are written once, in simd/, over a small layer of vector operations.
 * Rows are n consecutive floats; y may be x or res, never overlap them otherwise.  In a kernel the gain
 * of a tail is taken as it is: the operations have already turned 0 into 1.
 *
 * Limits of error, against exact arithmetic on the same float input: exp and sigmoid 4e-7 relative,
 * silu, gelu and gelu_tanh 1e-6 of max(|x|, tiny), tanh and softclamp 4e-7 absolute.  The self-test
 * holds all of them to 2e-6. */
#ifndef ZN_KERNELS_H
#define ZN_KERNELS_H

#include "../backend.h"
#include "detect.h"

enum { ZN_MAX_MR = 8, ZN_MAX_NR = 64, ZN_MAX_VL = 16 };

/* One tile of a convolution: up to MR pixels, n output channels, all taps.
 *
 *     y[r][o] = tail(bias[o] + sum x[t][r][off + c] * w[t][c][o])      over taps t, channels c < k
 *
 * x holds [taps][MR] pointers to pixels; one equal to `zeros` is padding, and gets no offset.  Rows
 * from mr on are repetitions that are computed and not stored.  w is packed for n rounded up to whole
 * vectors.  A long sum can be cut in k: `acc`, if not NULL, holds the tile's partial sums, MR rows of n
 * rounded up; it is read unless `first`, and written instead of y unless `last`. */
typedef struct zn_tile {
    const float *const *x;
    const float *zeros;
    const float *w, *bias;
    float *const *y;         /* [mr] pixels, at channel y_off */
    const float *const *res; /* [mr] likewise; NULL: no residual */
    float *acc;
    const zn_tail *t;
    ptrdiff_t off, y_off;
    size_t w_tap; /* floats from one tap's weights to the next */
    int taps, k, mr, n;
    bool first, last;
} zn_tile;

#define ZN_DECL_GEMM(name) void name(const zn_tile *g)
typedef ZN_DECL_GEMM(zn_gemm_fn);

/* The same with one weight per tap and channel: y[r][c] = tail(bias[c] + sum x[t][r][off + c] * w[t][c])
 * for c < n; k, acc, first and last are not used. */
#define ZN_DECL_DEPTHWISE(name) void name(const zn_tile *g)
typedef ZN_DECL_DEPTHWISE(zn_depthwise_fn);

/* y = tail(x * scale + shift); scale and shift: n each, or both NULL; res may be NULL. */
#define ZN_DECL_MAP(name)                                                                     \
    void name(float *y, const float *x, const float *scale, const float *shift, const float *res, \
              size_t n, const zn_tail *t)
typedef ZN_DECL_MAP(zn_map_fn);

/* y = tail(a + b) or tail(a * b); res may be NULL. */
#define ZN_DECL_BINARY(name)                                                                   \
    void name(float *y, const float *a, const float *b, const float *res, size_t n, zn_binary op, \
              const zn_tail *t)
typedef ZN_DECL_BINARY(zn_binary_fn);

/* sum[c] = sum over pixels of x, or of (x - mean[c])^2 if mean is not NULL; at most 256 pixels. */
#define ZN_DECL_MOMENT(name)                                                              \
    void name(float *sum, const float *x, size_t ld, int pixels, int c, const float *mean)
typedef ZN_DECL_MOMENT(zn_moment_fn);

/* Layer or RMS norm of one pixel; gamma, beta, res may be NULL. */
#define ZN_DECL_NORM_ROW(name)                                                                \
    void name(float *y, const float *x, const float *gamma, const float *beta, const float *res, \
              int c, float eps, bool rms, const zn_tail *t)
typedef ZN_DECL_NORM_ROW(zn_norm_row_fn);

/* The largest of n >= 1 numbers. */
#define ZN_DECL_MAXIMUM(name) float name(const float *x, size_t n)
typedef ZN_DECL_MAXIMUM(zn_maximum_fn);

/* y = exp(x - max), for x <= max; returns the sum. */
#define ZN_DECL_EXP_SUM(name) float name(float *y, const float *x, float max, size_t n)
typedef ZN_DECL_EXP_SUM(zn_exp_sum_fn);

/* y = the bilinear mean of four pixels of n channels: u weighs the right ones, v the lower ones. */
#define ZN_DECL_LERP(name) \
    void name(float *y, const float *const p[4], float u, float v, size_t n)
typedef ZN_DECL_LERP(zn_lerp_fn);

/* Runs n rounds of independent multiply-adds, each of which counts for `peak_flops` operations. */
#define ZN_DECL_PEAK(name) void name(float sink[ZN_MAX_VL], size_t n)
typedef ZN_DECL_PEAK(zn_peak_fn);

typedef struct zn_kernels {
    int vl, mr, nr; /* vector length; the tile of gemm */
    double peak_flops;
    zn_gemm_fn *gemm; /* NULL: convolution and attention run as their plain formulas (formula.c) */
    zn_depthwise_fn *depthwise; /* NULL likewise */
    zn_map_fn *map;
    zn_binary_fn *binary;
    zn_moment_fn *moment;
    zn_norm_row_fn *norm_row;
    zn_maximum_fn *maximum;
    zn_exp_sum_fn *exp_sum;
    zn_lerp_fn *lerp;
    zn_peak_fn *peak;
} zn_kernels;

extern const zn_kernels zn_kernels_scalar;
#if ZN_ARCH_ARM
extern const zn_kernels zn_kernels_neon;
#endif
#if ZN_ARCH_X86
extern const zn_kernels zn_kernels_avx2, zn_kernels_avx512;
#endif

/* The table of an instruction set, or NULL and a sentence if this CPU or this build lacks it. */
const zn_kernels *zn_kernels_for(zn_isa isa, zn_error *err);

#endif
