/* SPDX-License-Identifier: MIT */
/* check.h - what the files of test_check share: check_main.c tests the engines, bench.c measures them. */
#ifndef ZN_CHECK_H
#define ZN_CHECK_H

#include "../../engine/cpu/device.h"
#include "../../engine/selftest/selftest.h"

typedef struct options {
    bool verbose, bench;
    int threads, every;
    zn_precision precision;
    const char *only;
    char *const *names;
    int n_names;
} options;

/* Prints the speed of each shape whose name has o->only in it. */
void check_bench(const options *o, const zn_backend *b);

/* What an x86 CPU does with AMX, in plain C. */
extern const zn_tile_form check_tiles_plain;

#endif
