/* SPDX-License-Identifier: MIT */
/* model.h - the definition of a model handle, and how one is opened and closed. */
#ifndef ZN_MODEL_H
#define ZN_MODEL_H

#include <stdatomic.h>

#include "../handle.h"
#include "../models/arch.h"

enum { ZN_MAX_KEPT = 64 };

typedef struct zn_kept { /* a forward that the backend may replay */
    uint64_t key;
    double work; /* of it, for the progress of its repetitions */
    bool slow;   /* it is computed in parts, so that it can be cancelled */
} zn_kept;

typedef struct zn_need { /* bytes */
    size_t weights;      /* packed, on the device */
    size_t scratch;      /* that a run takes in addition to them and its tensors: the maximum of all layers */
} zn_need;

struct zn_model {
    const zn_arch *arch;
    const zn_arch *called; /* NULL, or the one that was asked for: its name was this one's before (zn_arch.formerly) */
    zn_engine *engine;
    zn_precision precision;
    bool asked;          /* the precision was asked for, not chosen */
    void *net;           /* arch->size bytes, filled by bind */
    zn_binder binder;    /* what bound it; it owns the weights' device memory */
    zn_need need;        /* with all weights in memory; the parts' included */
    zn_need least;       /* with layers streamed */
    bool streams;        /* they are; of a composite: those of its parts.  Guarded by the engine's turn */
    zn_weights *weights; /* then: the files that they are read from; NULL: they are made up */
    void *read_net;      /* then: a copy of net that reading a layer writes to, as others may look at net meanwhile */
    zn_model *part[ZN_MAX_PARTS]; /* of a composite */
    int n_parts;
    int64_t parameters; /* the parts' included */
    zn_geometry geometry;
    bool plan_only; /* its weights were counted, not loaded */
    zn_split split;
    char variant[96];
    zn_model *level; /* measures the noise that this network is told; NULL: it is not installed */
    /* The rest changes from run to run, in the engine's turn. */
    void *block; /* the arena's memory, kept between runs */
    size_t block_size;
    float *tile[2 * (ZN_MAX_PORTS + 1)]; /* a tile's inputs and its output, twice for a remote engine; kept likewise */
    size_t tile_len[2 * (ZN_MAX_PORTS + 1)];
    zn_kept kept[ZN_MAX_KEPT];
    int n_kept, next_kept;
    /* The stand-in, see standin.c. */
    char **files; /* what the model was opened with: its stand-in is opened with the same */
    int n_files;
    zn_error failed; /* not empty: why the model could not be opened on its engine; the stand-in does all runs */
    zn_turn opening; /* of the next two */
    zn_engine *cpu;
    zn_model *stand_in;
    atomic_bool stood_in; /* it did the last run; several threads may run a model */
};

extern const zn_arch *const zn_composites[]; /* NULL ends; composites.c */

/* Networks, then composites; NULL: none. */
const zn_arch *zn_arch_at(int i);
const zn_arch *zn_arch_named(const char *id);

/* Opens the model on that engine alone. */
zn_status zn_model_load(zn_model **out, zn_engine *engine, const zn_arch *a, const zn_open *open, zn_error *err);
/* While the engine is starting: reads and packs what zn_model_load() with the same arguments needs.  Failures are left to that. */
void zn_model_ahead(zn_engine *engine, const zn_arch *a, const zn_open *open);
/* A handle without weights. */
zn_model *zn_model_new(zn_engine *engine, const zn_arch *a, const zn_open *open, zn_error *err);
void zn_model_free(zn_model **model); /* accepts NULL */
/* From now on layers are streamed; their memory is freed.  In the engine's turn. */
zn_status zn_model_stream(zn_model *m, zn_error *err);

#endif
