/* SPDX-License-Identifier: MIT */
/* request.h - one call of zenith.h that runs a model: on arrays or on a region, on the model's engine or, where that one
 * fails, on the CPU in its place.
 *
 *     lib.c ── zn_request_run (standin.c) ──┬── zn_request_run_on (request.c), the model's engine
 *                                           └── zn_request_run_on, the CPU, if a remote engine failed */
#ifndef ZN_REQUEST_H
#define ZN_REQUEST_H

#include "forward.h"

typedef struct zn_request {
    const zn_array *arrays; /* with results; or */
    zn_array *results;
    const zn_source *sources; /* with sink and roi */
    const zn_sink *sink;
    zn_rect roi;
    int n_in;
    const zn_job *job;
    void (*trace)(void *cookie, const zn_layer_time *t); /* NULL, or called once per layer */
    void *trace_cookie;
    double *time; /* NULL, or gets the milliseconds of one forward */
} zn_request;

/* The sizes of the results for inputs of these sizes. */
zn_status zn_request_shape(const zn_model *m, const zn_array *in, int n_in, zn_array *out, zn_error *err);
zn_status zn_request_plan(zn_model *m, const zn_array *in, int n_in, const zn_job *job, zn_plan *plan, zn_error *err);
zn_status zn_request_run_on(zn_model *m, const zn_request *q, zn_error *err);
zn_status zn_request_run(zn_model *m, const zn_request *q, zn_error *err);

/* Opens the model on that engine or, if a remote one fails or has too little memory, on the CPU in its place. */
zn_status zn_standin_open(zn_model **out, zn_engine *engine, const zn_arch *a, const zn_open *open, zn_error *err);

#endif
