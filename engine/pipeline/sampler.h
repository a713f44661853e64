/* SPDX-License-Identifier: MIT */
/* sampler.h - the loop of a diffusion or flow model: predict, update, the next step.
 *
 *     t, coefs ◄── row k of a table in device memory
 *     p = predict(x, t)             the model's network, by zn_call_net: one recorded forward, replayed
 *     x = update(x, p, coefs)       zn_step
 *     progress, cancel, preview     the only places where the host waits for the device
 *
 * Whatever changes from step to step lies in device memory at a fixed address, so that a recorded forward stays valid. */
#ifndef ZN_SAMPLER_H
#define ZN_SAMPLER_H

#include "forward.h"
#include "schedule.h"

typedef struct zn_sampler {
    const zn_schedule *schedule;
    uint32_t
        seed; /* of the schedule's noise: image i of x, or row i of codes, has that of seed + i; step k is stream 2 + k */
    float clip; /* of the estimate of x0: to -clip .. clip; 0: none */
    /* p = the prediction for x at t; t is [1][1][1][1]; all are float32. */
    void (*predict)(zn_ctx *c, void *cookie, zn_tensor p, zn_tensor x, zn_tensor t);
    /* Before the update of step k: its x, and the estimate of x0 in it.  NULL: nothing to do. */
    void (*estimated)(zn_ctx *c, void *cookie, zn_tensor x, zn_tensor x0, int k);
    /* After step k: may change x.  NULL: nothing to do. */
    void (*updated)(zn_ctx *c, void *cookie, zn_tensor x, int k);
    void *cookie;
} zn_sampler;

/* x, float32 and dense, becomes the result. */
void zn_sample(zn_ctx *c, zn_tensor x, const zn_sampler *s);

#endif
