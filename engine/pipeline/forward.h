/* SPDX-License-Identifier: MIT */
/* forward.h - one run of a model, and one forward of it on one device.
 *
 *     zn_job ── zn_run_begin ── zn_run ──┬── tile.c: one forward per tile
 *                                        └── request.c: one forward on whole arrays
 *
 * A forward: inputs to the device, the network (replayed if the backend has kept it), outputs to the host. */
#ifndef ZN_FORWARD_H
#define ZN_FORWARD_H

#include "level.h"
#include "model.h"

typedef struct zn_measure { /* the memory and work of one forward, by a dry run */
    zn_call shape;
    size_t peak; /* bytes of the arena */
    double macs, work;
} zn_measure;

enum { ZN_MAX_MEASURES = 16 };

typedef struct zn_run { /* a job, resolved */
    zn_model *model;
    float set[ZN_MAX_SETTINGS];
    size_t max_memory;                   /* of a tile */
    size_t most;                         /* of a forward that cannot be cut into tiles */
    size_t total;                        /* of it and the weights together */
    size_t beside;                       /* bytes that count against the limit and are already in use */
    bool bounded;                        /* the job bounds the forward alone */
    int tile;                            /* 0: to be chosen */
    double *time;                        /* not NULL: forwards are repeated, and this gets the time of one */
    bool shared;                         /* several threads may read the sources and write to the sink at once */
    int stage;                           /* of a split network; 0: all of it */
    zn_geometry geometry;                /* of that stage, or the model's */
    bool crops;                          /* likewise */
    const zn_levels *levels;             /* not NULL: the noise map, which is one input more */
    const zn_noise_table *noise;         /* of the picture; NULL: it is measured */
    zn_ctx ctx;                          /* carries progress, trace and the sticky status from tile to tile */
    zn_measure measure[ZN_MAX_MEASURES]; /* tiles come in few shapes: each is measured once */
    int n_measures, next_measure;
} zn_run;

/* Checks the job's settings against the model's (settings.c); job may be NULL. */
zn_status zn_run_begin(zn_run *r, zn_model *m, const zn_job *job, zn_error *err);

/* Whether the network is to be told the noise of its picture, and the job does not say it. */
static inline bool zn_run_seeks_noise(const zn_run *r)
{
    const zn_told_noise *t = r->model->arch->noise;

    return t && r->set[t->sigma] <= 0;
}

/* The memory and work of one forward on inputs of these sizes.  *out stays valid until the next call. */
zn_status zn_run_measure(zn_run *r, const zn_call *call, const zn_measure **out, zn_error *err);

/* One forward: in[] and out[] are dense host arrays of the call's sizes and stay as they are until zn_run_finish: a remote
 * engine works meanwhile.  Memory for the arena is allocated before the forward, never during it. */
void zn_run_start(zn_run *r, const zn_call *call, const float *const *in, float *const *out);
void zn_run_finish(zn_run *r);

/* The network on tensors of the context, whose arena has room for its activations: replayed if the backend has kept a
 * forward of the same model with the same tensors, sizes and settings, else computed. */
void zn_call_net(zn_ctx *c, zn_model *m, const zn_call *call);

/* y = noise from a seed: image i has values 0, 1, ... of this stream of seed + i, computed on the host, so that all engines agree
 * to the last bit, and uploaded.  y is dense. */
void zn_noise(zn_ctx *c, zn_tensor y, uint32_t seed, uint64_t stream);

#endif
