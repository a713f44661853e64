/* SPDX-License-Identifier: MIT */
/* train.h - what `zenith train` hands to its part for the latent network. */
#ifndef ZN_CLI_TRAIN_H
#define ZN_CLI_TRAIN_H

#include "../zenith_train.h"

#include <signal.h>

typedef struct latent_options {
    const char *pictures, *weights, *out, *engine;
    int threads, batch;
    int64_t steps;
    double rate;
    uint64_t seed;
    bool whole; /* pictures are faces already */
    const volatile sig_atomic_t *interrupted;
} latent_options;

int train_latent(const latent_options *o);

#endif
