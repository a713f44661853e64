/* SPDX-License-Identifier: MIT */
/* handle.h - the definition of the engine handle of zenith.h.  pipeline/, train/ and selftest/ include it;
 * pipeline/model.h has the model handle. */
#ifndef ZN_HANDLE_H
#define ZN_HANDLE_H

#include "backend.h"
#include "core/locks.h"

typedef struct zn_early zn_early;

struct zn_engine {
    const zn_backend *be;
    void *dev;
    zn_turn turn;     /* one run at a time */
    int n_threads;    /* that were asked for */
    zn_pool *helpers; /* see zn_engine_helpers */
    zn_early *early;  /* see pipeline/early.h */
    zn_error note;    /* why "auto" took a slower engine than this machine has; "" */
};

#endif
