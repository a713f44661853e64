/* SPDX-License-Identifier: MIT */
/* backend.h - the seam between networks and devices: one vtable.
 *
 * Operations run in order; there is no graph.  Fusion is said by the model, in the tail of an op or in
 * the flags of a convolution, never guessed.  Every slot is required.  A backend never names a model and
 * trusts its arguments: shapes are checked once, in ops.c.
 *
 * y never overlaps an input, except where a slot says so; a tail's residual may be y itself. */
#ifndef ZN_BACKEND_H
#define ZN_BACKEND_H

#include "core/status.h"
#include "core/tensor.h"
#include "core/threads.h"

enum { ZN_BACKEND_ABI = 1 };

typedef enum zn_act {
    ZN_NONE,
    ZN_RELU,
    ZN_LRELU,     /* x < 0 ? x / 5 : x */
    ZN_SILU,      /* x * sigmoid(x) */
    ZN_GELU,      /* x * (1 + erf(x / sqrt 2)) / 2 */
    ZN_GELU_TANH, /* its tanh form */
    ZN_SIGMOID,
    ZN_TANH,
    ZN_SOFTCLAMP, /* 3 * tanh(x / 3) */
    ZN_N_ACTS
} zn_act;

/* The tail of an op, computed while the result is still near:
 *     y = post(residual + gain * pre(acc + bias))
 * A zeroed struct is the identity (gain 0 reads as 1). */
typedef struct zn_tail {
    zn_act pre, post;
    float gain;
    const zn_tensor *residual; /* shape of y, may be y itself */
} zn_tail;

/* A 2-D convolution (cross-correlation) with zero padding:
 *     y[i][j][o] = bias[o] + sum x[i*stride + u - pad][j*stride + v - pad][c] * weight[o][c][u][v]
 * over the cin/groups channels c of o's group.  A linear layer is the 1x1 case on any h x w.
 * up2: x is read as if enlarged twice by nearest neighbour (y is then twice as large; stride 1). */
typedef struct zn_conv {
    int32_t kh, kw, stride, groups, cin, cout;
    int32_t pad_t, pad_l; /* zeros above and to the left; below and right: as y's size needs */
    bool up2;
    bool has_bias;
    void *packed; /* device memory: weights and bias in the layout the backend wants */
} zn_conv;

typedef enum zn_norm_kind {
    ZN_GROUP_NORM, /* statistics over h, w and the channels of a group, per image */
    ZN_LAYER_NORM, /* over the channels of a pixel */
    ZN_RMS_NORM,   /* the same without the mean: x / sqrt(mean(x^2) + eps) */
} zn_norm_kind;

/* y = (x - mean) / sqrt(var + eps) * gamma[c] + beta[c] */
typedef struct zn_norm {
    zn_norm_kind kind;
    int32_t c, groups; /* groups: of ZN_GROUP_NORM */
    float eps;
    float *gamma, *beta; /* device memory, c each; NULL: 1 and 0 */
} zn_norm;

typedef enum zn_binary { ZN_ADD, ZN_MUL } zn_binary;
typedef enum zn_filter { ZN_NEAREST, ZN_BILINEAR } zn_filter; /* pixel centres at .5; edges repeat */

typedef struct zn_backend {
    unsigned abi; /* ZN_BACKEND_ABI, checked before anything else */
    const char *name;

    /* Opens the device.  NULL and a sentence if it cannot be used. */
    void *(*open)(int n_threads, zn_error *err);
    void (*close)(void *dev);
    int (*threads)(void *dev);

    void *(*alloc)(void *dev, size_t size); /* aligned to ZN_ALIGN; NULL: no memory */
    void (*free)(void *dev, void *ptr);     /* accepts NULL */
    void (*upload)(void *dev, void *dst, const void *src, size_t size);
    void (*download)(void *dev, void *dst, const void *src, size_t size);
    zn_status (*sync)(void *dev, zn_error *err); /* late errors come out here */

    /* Weights are packed once, at bind time.  conv_size: bytes of w->packed.  weight is
     * [cout][cin/groups][kh][kw] in host memory, bias has cout (NULL: none). */
    size_t (*conv_size)(void *dev, const zn_conv *w);
    void (*conv_pack)(void *dev, const zn_conv *w, const float *weight, const float *bias);

    void (*conv2d)(void *dev, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t);
    void (*norm)(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w, zn_tail t); /* y may be x */
    /* Per head of c/heads channels, over all h*w positions of an image n:
     *     y = softmax(scale * q k^T) v;   k and v may have another number of positions than q */
    void (*attention)(void *dev, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, int heads,
                      float scale);
    void (*softmax)(void *dev, zn_tensor y, zn_tensor x); /* over the channels; y may be x */
    void (*resize)(void *dev, zn_tensor y, zn_tensor x, zn_filter f);
    /* Channel order of PyTorch: unshuffle y[i][j][c*r*r + u*r + v] = x[i*r+u][j*r+v][c]. */
    void (*unshuffle)(void *dev, zn_tensor y, zn_tensor x, int r);
    void (*shuffle)(void *dev, zn_tensor y, zn_tensor x, int r, zn_tail t); /* the inverse, then the tail */
    void (*map)(void *dev, zn_tensor y, zn_tensor x, zn_tail t); /* y = tail(x); y may be x; a copy if zero */
    void (*binary)(void *dev, zn_tensor y, zn_tensor a, zn_tensor b, zn_binary op, zn_tail t); /* y may be a, b */
    void (*fill)(void *dev, zn_tensor y, const float *value); /* y[..][c] = value[c], host memory */

    double (*peak)(void *dev); /* measured multiply-add peak, GFLOP/s */
} zn_backend;

/* The CPU backends; each is one set of kernels behind the same code (cpu/backend.c). */
extern const zn_backend zn_backend_scalar, zn_backend_neon, zn_backend_avx2, zn_backend_avx512;

#endif
