/* SPDX-License-Identifier: MIT */
/* noise.h - zn_noise_estimate() of zenith.h, with a pool to share the work; NULL: the caller works alone.
 * The numbers are the same. */
#ifndef ZN_NOISE_H
#define ZN_NOISE_H

#include "../core/status.h"
#include "../core/threads.h"

zn_status zn_noise_measure(float sigma[3], const zn_source *in, zn_pool *pool, zn_error *err);

#endif
