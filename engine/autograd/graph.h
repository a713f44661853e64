/* SPDX-License-Identifier: MIT */
/* graph.h - the functions that make a training graph.  record.h calls them for a network's forward; tests call them, too.
 *
 * Layers are named, and everything else is taken from the outline:
 *
 *     y = zn_net_act(g, zn_net_conv(g, x, "block%d.conv1", i), ZN_RELU);
 *     x = zn_net_add(g, x, zn_net_conv(g, y, "block%d.conv2", i));
 *
 * Each call adds nodes (net.h) and returns the number of the last one.  The status is sticky: the first failure is
 * kept, later calls do nothing, so a graph has no error paths. */
#ifndef ZN_GRAPH_H
#define ZN_GRAPH_H

#include "outline.h"

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
int zn_net_product(zn_net *g, int a, int b); /* element by element */
int zn_net_concat(zn_net *g, int a, int b);  /* a's channels, then b's */
int zn_net_shuffle(zn_net *g, int x, int r);
int zn_net_unshuffle(zn_net *g, int x, int r);
int zn_net_act(zn_net *g, int x, zn_act act); /* none, ReLU, SiLU, GELU, tanh or the soft clamp */
/* x: queries, keys and values, a third of the channels each; scale 1 / sqrt(channels of a head). */
int zn_net_attention(zn_net *g, int x, int heads);
/* A draw from the posterior x: means, then logarithms of variances; not in training the means.  zn_net.divergence is the weight
 * of its divergence in the loss. */
int zn_net_posterior(zn_net *g, int x);

#endif
