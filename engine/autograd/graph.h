/* SPDX-License-Identifier: MIT */
/* graph.h - the functions with which a model's training graph is written, and the outline that it refers to.
 *
 * A model states each tensor once, in bind: name, shape, initial values.  When bind describes (models/arch.h), the
 * statements become a zn_outline.  The graph names its layers, and takes everything else from the outline:
 *
 *     y = zn_net_act(g, zn_net_conv(g, x, "block%d.conv1", i), ZN_RELU);
 *     x = zn_net_add(g, x, zn_net_conv(g, y, "block%d.conv2", i));
 *
 * Each call adds nodes (net.h) and returns the number of the last one.  The status is sticky: the first failure is
 * kept, later calls do nothing, so a graph has no error paths. */
#ifndef ZN_GRAPH_H
#define ZN_GRAPH_H

#include "../backend.h"

/* ---- the outline --------------------------------------------------------------------------------------- */

typedef enum zn_init {
    ZN_INIT_USUAL,    /* weights: ZN_INIT_GAIN 1; a norm's weight: 1; all others: 0 */
    ZN_INIT_CONSTANT, /* value */
    ZN_INIT_NORMAL,   /* N(0, value^2) */
    ZN_INIT_GAIN,     /* N(0, value / fan-in); 0: zeros */
    ZN_INIT_MIDDLE,   /* of three rows the second 1, the others 0 */
} zn_init;

enum { ZN_NAME_SIZE = 64, ZN_RANK = 5 };

typedef struct zn_stated { /* a tensor, as bind states it */
    char name[ZN_NAME_SIZE];
    int dims[ZN_RANK]; /* 0 ends the list */
    zn_init init;
    double value;
    zn_conv conv; /* of a convolution's weight; kh 0: not given, a convolution is of stride 1 and keeps the size */
} zn_stated;

typedef struct zn_outline {
    zn_stated *tensor;
    int n;
} zn_outline;

/* The new tensor, for the caller to complete; NULL: no memory, or more dimensions than ZN_RANK. */
zn_stated *zn_outline_add(zn_outline *o, const char *name, const int *dims, int n_dims);
void zn_outline_free(zn_outline *o);

/* ---- the graph ----------------------------------------------------------------------------------------- */

typedef struct zn_net zn_net;

enum { ZN_NO_NODE = -1 };

void zn_net_fail(zn_net *g, zn_status status, const char *fmt, ...) ZN_PRINTF(3, 4);

/* Sizes of a node, for the checks of a graph. */
int zn_net_height(zn_net *g, int x);
int zn_net_channels(zn_net *g, int x);

/* NAME.weight and, where it is stated, NAME.bias: dense, depthwise 3x3 or 1x1 in groups; enlarged before by `up2`. */
int zn_net_conv(zn_net *g, int x, const char *fmt, ...) ZN_PRINTF(3, 4);
/* A depthwise convolution that is 0 where the gate is shut; gate: the node of zn_net_gate that x comes from. */
int zn_net_pruned(zn_net *g, int x, int gate, const char *fmt, ...) ZN_PRINTF(4, 5);
/* x * mask, one mask for 8 channels of a pixel; NAME.scale and NAME.bias. */
int zn_net_gate(zn_net *g, int x, const char *fmt, ...) ZN_PRINTF(3, 4);
int zn_net_group_norm(zn_net *g, int x, int groups, const char *fmt, ...) ZN_PRINTF(4, 5); /* NAME.weight, .bias */
int zn_net_slm(zn_net *g, int x, const char *fmt, ...) ZN_PRINTF(3, 4);                    /* NAME.weight, .bias */
int zn_net_spectral(zn_net *g, int x, const char *fmt, ...) ZN_PRINTF(3, 4);               /* NAME.scale, .bias */
/* The tensor NAME itself: [c], with spectral dropout; [3][c], each channel with its two neighbours. */
int zn_net_scale(zn_net *g, int x, const char *fmt, ...) ZN_PRINTF(3, 4);
int zn_net_mixer(zn_net *g, int x, const char *fmt, ...) ZN_PRINTF(3, 4);
/* H diag(NAME) H / n along w or h, in windows of n that begin at -shift; NAME: [n]. */
int zn_net_lines(zn_net *g, int x, bool along_w, int shift, const char *fmt, ...) ZN_PRINTF(5, 6);

int zn_net_fwht(zn_net *g, int x);
int zn_net_layer_norm(zn_net *g, int x); /* without parameters */
int zn_net_halves(zn_net *g, int x);     /* the product of the two halves of the channels */
int zn_net_add(zn_net *g, int a, int b);
int zn_net_concat(zn_net *g, int a, int b); /* a's channels, then b's */
int zn_net_shuffle(zn_net *g, int x, int r);
int zn_net_unshuffle(zn_net *g, int x, int r);
int zn_net_act(zn_net *g, int x, zn_act act); /* none, ReLU, SiLU, GELU or the soft clamp */

#endif
