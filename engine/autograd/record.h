/* SPDX-License-Identifier: MIT */
/* record.h - the training graph of a network, recorded from its forward: the data flow is written once.
 *
 *     bind, with an outline ──> descriptors, in which the number of a stated tensor is its address
 *                                   │
 *     forward(ctx, net, call) ── ops.c ── zn_backend_record ──> nodes of a zn_net
 *                                         (zn_backend_neon, ... when it runs)
 *
 * The table of a backend that computes nothing: conv2d, norm, map, ... and the tails of each become the layers of graph.h.
 * An address of memory stands for the node whose values would be there.  Where memory is used again, or a layer writes over
 * its input, it stands for the last one.  A tensor whose channels were written one part after the other is their
 * concatenation; the product of two halves of a tensor is zn_net_halves.  Gated blocks come as their parts (ops.c).
 *
 * What a forward fuses for speed alone (a scale multiplied into a matrix, a layer as its matrix), bind leaves apart for an
 * outline.  What has no gradient here fails with a sentence; the status is that of the net. */
#ifndef ZN_RECORD_H
#define ZN_RECORD_H

#include "graph.h"

typedef struct zn_place { /* channels of the pixels from an address on */
    uintptr_t at;
    size_t pixels;
    int32_t ld, c;
    int node;
} zn_place;

typedef struct zn_recorder { /* zeroed but for net: what zn_backend_record takes for its device */
    zn_net *net;
    zn_place *place;
    int n;
} zn_recorder;

extern const zn_backend zn_backend_record;

/* From now on the memory of x has the values of this node. */
void zn_record_set(zn_recorder *r, zn_tensor x, int node);
/* The node whose values are there; ZN_NO_NODE: the graph failed. */
int zn_record_get(zn_recorder *r, zn_tensor x);
void zn_record_end(zn_recorder *r);

#endif
