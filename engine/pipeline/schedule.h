/* SPDX-License-Identifier: MIT */
/* schedule.h - the steps of a sampler: the network's time input of each, and the coefficients of the update.
 *
 * Diffusion (Ho et al. 2020; Song et al. 2021, DDIM): abar[t] = product of 1 - beta over 0 .. t.
 *   sampling   k = n-1 .. 0   from A = abar[k * stride] to A' = abar[(k-1) * stride], and to A' = 1 at the end
 *   reversing  k = 0 .. n-1   from A to A' = abar[(k+1) * stride], and to A' = 0 at the end
 *   eta        of the noise that a step leaves, so much is drawn anew: 0 none, 1 all that the posterior allows, which is
 *              ancestral sampling (DDPM)
 * Flow matching: sigma falls from 1 to 0, and a step is x += (sigma' - sigma) v.
 * Everything is computed in double precision and rounded once. */
#ifndef ZN_SCHEDULE_H
#define ZN_SCHEDULE_H

#include "../backend.h"

enum { ZN_MAX_STEPS = 1000, ZN_MULTISTEP = 3 };

typedef struct zn_schedule { /* in the order in which the steps are done */
    int n;
    float t[ZN_MAX_STEPS];                      /* the original time step, or sigma */
    float coefs[ZN_MAX_STEPS][ZN_STEP_COEFS];   /* of the update, as zn_step takes them */
    float preview[ZN_MAX_STEPS][ZN_STEP_COEFS]; /* the same for the estimate of x0 alone */
    float noise[ZN_MAX_STEPS];                  /* times new noise is added after the update */
    bool second_order;                          /* the update is the next one instead */
    float multistep[ZN_MAX_STEPS]
                   [ZN_MULTISTEP]; /* x = m0 x + m1 x0 + m2 x0', x0' being the step before's; not of a flow */
} zn_schedule;

/* abar of n steps with equally spaced betas from first to last; constant ones if both are the same.
 * 0 < beta < 1. */
void zn_abar(double *abar, int n, double first, double last);

/* "ddimN": the smallest stride of which `steps` steps cover `total`, that is ceil(total / stride) == steps; 0: none. */
int zn_stride(int total, int steps);

/* False: there is no such stride, or there are too many steps.  eta: 0..1, of sampling. */
bool zn_schedule_ddim(zn_schedule *s, const double *abar, int total, int steps, zn_prediction p, bool reverse,
                      double eta);

/* Steps that are denser where there is little noise, t_k = round((total - 1) (k / (steps - 1))^2), with the multistep
 * correction of second order (DPM-Solver++ 2M; Lu et al. 2022).  The noise end is the state at the last time itself:
 * reversing takes one evaluation less, and at least 2 steps. */
bool zn_schedule_squared(zn_schedule *s, const double *abar, int total, int steps, zn_prediction p, bool reverse);

/* sigma = shift u / (1 + (shift - 1) u), u = from, from - from/n, ... from/n, then 0; n = steps * from, rounded, at least 1.
 * from 1: of noise alone; less: of a picture with noise.  sign -1: the network predicts -v. */
bool zn_schedule_flow(zn_schedule *s, int steps, double shift, double from, int sign);

#endif
