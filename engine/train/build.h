/* SPDX-License-Identifier: MIT */
/* build.h - the network to be trained, from the descriptions that the models give. */
#ifndef ZN_BUILD_H
#define ZN_BUILD_H

#include "../autograd/net.h"
#include "../models/arch.h"

/* The architectures that are trained under this name, the name of their weights, in the registry's order; i counts
 * from 0.  NULL: there is none, or no more. */
const zn_arch *zn_trained_at(const char *model, int i);

typedef struct zn_build {
    const char *model;
    int batch, size, base;
    const char *const *meta; /* pairs of strings; NULL ends */
    const zn_weights *w;     /* of a model that is trained from_weights: sizes are read from it; else not used */
} zn_build;

/* Node 0 is the picture; node 1, of a model with ZN_TASK_DENOISE, the noise map.  To be followed by zn_net_finish. */
zn_status zn_net_build(zn_net *net, const zn_build *b, zn_error *err);

/* The network of an architecture that takes codes [code] and, for training, embeddings of time [dim]: nodes 0 and 1.  w: NULL, or
 * gives its sizes. */
zn_status zn_net_build_codes(zn_net *net, const zn_arch *a, const zn_weights *w, int batch, int code, int dim,
                             zn_error *err);

/* Parameters from a file; prefix: before each name.  The error message names what is missing. */
zn_status zn_net_load(zn_net *net, real *to, const zn_weights *w, const char *prefix, zn_error *err);

#endif
