/* SPDX-License-Identifier: MIT */
/* special.h - operations that single families of networks are made of: a table beside that of backend.h, and optional.
 *
 *   gated    the U-Nets of the denoisers, of restore and of upscale, and the autoencoder zenith
 *   fwht     the networks of the two Zenith documents (models/zenith/)
 *   pruned   zenith-prune and zenith-ae of the second one
 *   glu, norm_rope, linears, add_norm   transformers: Z-Image
 *
 * A backend may have none of them.  A gated block and those of transformers are then computed as their parts; a network with
 * the others is refused with a sentence (ops.c).  The rules of backend.h hold here, too. */
#ifndef ZN_SPECIAL_H
#define ZN_SPECIAL_H

#include "backend.h"

/* A gated residual block (Chen et al. 2022, without pooled attention); N normalises a pixel over its channels:
 *     v = x + pw2(a * b),  a, b the halves of dw(pw1(N x))
 *     y = v + pw4(a * b),  a, b the halves of pw3(N v)
 * pw1, pw3: 1x1, c to 2c; pw2, pw4: 1x1, c to c; dw: depthwise 3x3, padding 1.
 * It is one operation because it is 82 % (denoise-fast) to 96 % (denoise-best) of a denoiser's multiply-adds, and the
 * parts of a block stay in the cache. */
typedef struct zn_gated {
    zn_conv pw1, dw, pw2, pw3, pw4;
    float eps; /* of N */
} zn_gated;

enum { ZN_GATED_MAX_C = 2048 };

typedef enum zn_axis { ZN_ALONG_C, ZN_ALONG_W, ZN_ALONG_H } zn_axis;

/* The Walsh-Hadamard transform H of n elements: unnormalised, in natural order: butterflies
 * (a, b) -> (a + b, a - b) between elements 1, 2, 4, ... n/2 apart.
 *
 * Along w or h:   y = H x;  with a gate  y = H diag(gate) H x.
 *   The axis is split into windows of n that begin at -shift, n - shift, ...  Elements of a window outside the image
 *   read as 0 and are not written: any size fits any n.
 * Along c, for each pixel:
 *   v = x, padded with zeros to n;         rounds times:  v[j] = pre[j] * v[perm[j]],  v = H v
 *   with any of slm, gate, mix (in this order):  v = those(v),  v = H v
 *   y = act(v + bias), the first y.c of the n elements
 *   slm:  g[c] = a gate from the 5 spectral neighbours of c (cpu/kernels.h has the formula), v *= g
 *   mix:  v[c] = mix[0][c] v[c-1] + mix[1][c] v[c] + mix[2][c] v[c+1], zeros outside
 * NULL leaves a step out. */
typedef struct zn_fwht {
    zn_axis axis;
    int32_t n;         /* a power of two, 2 .. ZN_FWHT_MAX */
    int32_t shift;     /* 0 .. n-1; along c: 0 */
    bool per_channel;  /* along w, h: gate is [n][c], not [n] */
    const float *gate; /* [n]; includes the 1/n of the inverse transform */
    /* along c only: */
    int32_t rounds; /* 0 reads as 1; pre and perm are [rounds][n] */
    const float *pre;
    const int32_t *perm;
    const float *slm;  /* [7][n]: 5 taps, their norm sqrt(sum w^2 + 1e-8), the bias */
    const float *mix;  /* [3][n] */
    const float *bias; /* [y.c] */
    zn_act act;
} zn_fwht;

enum { ZN_FWHT_MAX = 8192 };

/* A depthwise 3x3 convolution (zero padding 1, no bias) after a gate that prunes blocks of 8 channels:
 *     mask[p][b] = scale[b] * sum |x[p][8b .. 8b+7]| + bias[b] > 0 ? 1 : 0
 *     y[p][c] = mask[p][c/8] ? sum over taps t of weight[t][c] * mask[q][c/8] * x[q][c], q = p's neighbour t
 *                            : 0
 * A pruned block is neither computed nor read.  weight NULL: only the mask; scale NULL: the mask is given.
 * Skipping is the purpose of zenith-prune: its two blocks of 8192 channels at 4x4 take 0.32 ms, and 0.07 ms with 90 %
 * pruned (SPEED.md): 0.8 % of a run at 128x128, most of which are transforms. */
typedef struct zn_pruned {
    int32_t c;                 /* a multiple of 8 */
    const float *scale, *bias; /* [c/8] */
    const float *weight;       /* [9][c] */
} zn_pruned;

/* Any of them may be NULL. */
typedef struct zn_special {
    void (*gated)(void *dev, zn_tensor y, zn_tensor x, const zn_gated *w);
    void (*fwht)(void *dev, zn_tensor y, zn_tensor x, const zn_fwht *w); /* y may be x */
    /* mask: [n][h][w][c/8] */
    void (*pruned)(void *dev, zn_tensor y, zn_tensor mask, zn_tensor x, const zn_pruned *w);
    /* y = SiLU(gate x) * (up x), linear layers without bias.  This and what follows: false if not for such tensors; nothing was done. */
    bool (*glu)(void *dev, zn_tensor y, zn_tensor x, const zn_conv *gate, const zn_conv *up);
    /* y = the rotation of the norm of each head of x; y may be x */
    bool (*norm_rope)(void *dev, zn_tensor y, zn_tensor x, const zn_norm *norm, const zn_rope *r);
    /* y[i] = w[i] x, n linear layers without bias */
    bool (*linears)(void *dev, const zn_tensor *y, zn_tensor x, const zn_conv *const *w, int n);
    /* x += after(change), adaptive norms both; then y = before(x) */
    bool (*add_norm)(void *dev, zn_tensor x, zn_tensor change, const zn_norm *after, const zn_modulation *gate,
                     zn_tensor y, const zn_norm *before, const zn_modulation *scale);
} zn_special;

#endif
