/* SPDX-License-Identifier: MIT */
/* noise.h - the noise level of a picture, for networks that take it as an input. */
#ifndef ZN_NOISE_H
#define ZN_NOISE_H

#include "../core/status.h"
#include "../core/threads.h"

/* zn_noise_estimate() of zenith.h on all threads of the pool; NULL: on the caller's.  The result is the same. */
zn_status zn_noise_measure(float sigma[3], const zn_source *in, zn_pool *pool, zn_error *err);

/* Fills in what is 0: sigma[0] = 0 means that all three are scale times what is known of the picture or, if that is NULL,
 * estimated; sigma[1] or [2] = 0 that it is sigma[0]. */
zn_status zn_noise_complete(float sigma[3], float scale, const zn_noise_table *known, const zn_source *in,
                            zn_pool *pool, zn_error *err);

#endif
