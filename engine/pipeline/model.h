/* SPDX-License-Identifier: MIT */
/* model.h - what a model handle is, and how one is opened and closed. */
#ifndef ZN_MODEL_H
#define ZN_MODEL_H

#include "../handle.h"
#include "../models/arch.h"

enum { ZN_MAX_KEPT = 64 };

typedef struct zn_kept { /* a forward that the backend may replay */
    uint64_t key;
    double work; /* of it, for the progress of its repetitions */
} zn_kept;

struct zn_model {
    const zn_arch *arch;
    zn_engine *engine;
    void *net;    /* arch->size bytes, filled by bind */
    void **owned; /* the weights' device memory */
    int n_owned;
    int64_t parameters;
    zn_geometry geometry;
    char variant[96];
    /* The rest changes from run to run, under the engine's lock. */
    void *block; /* the arena's memory, kept between runs */
    size_t block_size;
    float *tile[2 * (ZN_MAX_PORTS + 1)]; /* a tile's inputs and its output, twice for a remote engine; kept likewise */
    size_t tile_len[2 * (ZN_MAX_PORTS + 1)];
    zn_kept kept[ZN_MAX_KEPT];
    int n_kept, next_kept;
    /* The stand-in, see request.h. */
    char **files; /* what the model was opened with: its stand-in is opened with the same */
    int n_files;
    zn_engine *cpu;
    zn_model *stand_in;
    char note[256]; /* about the last run */
};

const zn_arch *zn_arch_named(const char *id); /* NULL: none */

zn_status zn_model_load(zn_model **out, zn_engine *engine, const zn_arch *a, const char *const *files, int n_files,
                        zn_error *err);
void zn_model_free(zn_model **model); /* accepts NULL */

#endif
