/* SPDX-License-Identifier: MIT */
/* random.h - random numbers from counters: value i of a stream depends on nothing but seed, stream and i, so that the order
 * of generation, the number of threads and the engine do not matter.  Pictures and training runs are made from seeds: what
 * these functions return must not change. */
#ifndef ZN_RANDOM_H
#define ZN_RANDOM_H

#include "../zenith.h"

double zn_uniform(uint64_t seed, uint64_t stream, uint64_t i); /* in [0, 1) */
double zn_normal(uint64_t seed, uint64_t stream, uint64_t i);  /* mean 0, variance 1; Box-Muller */

#endif
