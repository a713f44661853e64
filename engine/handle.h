/* SPDX-License-Identifier: MIT */
/* handle.h - what is behind the opaque handles of zenith.h; for lib.c and pipeline/ only. */
#ifndef ZN_HANDLE_H
#define ZN_HANDLE_H

#include <pthread.h>

#include "models/arch.h"

struct zn_engine {
    const zn_backend *be;
    void *dev;
    pthread_mutex_t lock; /* one run at a time */
    int n_threads;        /* that were asked for */
    zn_pool *helpers;     /* see zn_engine_helpers */
};

struct zn_model {
    const zn_arch *arch;
    zn_engine *engine;
    void *net;    /* arch->size bytes, filled by bind */
    void **owned; /* the weights' device memory */
    int n_owned;
    int64_t parameters;
    zn_geometry geometry;
    char variant[96];
    void *block; /* the arena's memory, kept between runs */
    size_t block_size;
    float *tile[2 * (ZN_MAX_PORTS + 1)]; /* a tile's inputs and its output, on a GPU twice; kept likewise */
    size_t tile_len[2 * (ZN_MAX_PORTS + 1)];
    double replayed; /* work of the last forward, for the progress of its repetitions */
    char **files;    /* what it was opened with: its stand-in on the CPU is opened with the same */
    int n_files;
    zn_engine *cpu; /* the stand-in, after the GPU had failed */
    zn_model *stand_in;
    char note[256]; /* about the last run */
};

/* A run: the options of a job, resolved. */
typedef struct zn_run {
    zn_model *model;
    float set[ZN_MAX_SETTINGS];
    zn_precision precision;
    size_t max_memory;
    int tile;     /* 0: to be chosen */
    double *time; /* not NULL: forwards are repeated, and the time of one is put here */
    bool shared;  /* several threads may read the sources and write to the sink at once */
    zn_ctx ctx;   /* carries progress, trace and the sticky status from tile to tile */
} zn_run;

/* Checks the job's settings against the model's; job may be NULL. */
zn_status zn_run_begin(zn_run *r, zn_model *m, const zn_job *job, zn_error *err);

/* What one forward on inputs of these sizes takes, by a dry run. */
zn_status zn_run_measure(const zn_run *r, const zn_call *call, size_t *peak, double *macs, double *work, zn_error *err);

/* One forward: in[] and out[] are dense host arrays of the call's sizes, and stay as they are until
 * zn_run_finish: a GPU works meanwhile.  Memory for the arena is fetched before, never during. */
void zn_run_start(zn_run *r, const zn_call *call, const float *const *in, float *const *out);
void zn_run_finish(zn_run *r);

/* pipeline/engines.c: the fastest engine of the CPU; is this one a GPU's. */
zn_status zn_engine_open_cpu(zn_engine **out, zn_error *err);
bool zn_engine_is_gpu(const zn_engine *e);
/* The variable that bounds the memory of a run there. */
const char *zn_engine_memory_name(const zn_engine *e);
/* Threads for what the host does around a GPU's run, opened by the first; NULL: a CPU, which has its own. */
zn_pool *zn_engine_helpers(zn_engine *e);

/* pipeline/tile.c: what a run over the whole picture takes; the run itself. */
zn_status zn_tile_plan(zn_run *r, zn_plan *plan, const zn_source *in, int n_in, zn_error *err);
zn_status zn_tile_run(zn_run *r, const zn_sink *out, const zn_source *in, int n_in, zn_rect roi, zn_error *err);

#endif
