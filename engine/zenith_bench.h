/* SPDX-License-Identifier: MIT */
/* zenith_bench.h - the speed of models and the time of their layers: for `zenith bench` and for kernel development.
 *
 * The rules of zenith.h hold here too. */
#ifndef ZENITH_BENCH_H
#define ZENITH_BENCH_H

#include "zenith.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Measures the multiply-add peak of the threads in use, in GFLOP/s (takes about 0.2 s).  precision: NULL reads as fp32. */
ZN_API double zn_engine_peak(zn_engine *engine, const char *precision);

/* The networks that a model runs, and the precision that each of them has: the parts of a composite; the estimator of a
 * denoiser.  False past the last; i 0 of other models, too. */
typedef struct zn_part_info {
    const char *id, *precision;
} zn_part_info;
ZN_API bool zn_model_part(zn_part_info *part, const zn_model *model, int i);

/* Sizes of inputs that the model takes, for a picture of about w x h; returns how many inputs. */
ZN_API int zn_model_example(const zn_model *model, int w, int h, zn_array in[ZN_MAX_PORTS]);

/* One run with a call of print per layer, in order. */
typedef struct zn_layer_time {
    const char *op; /* "conv 3x3 64>64" */
    double ms, macs;
} zn_layer_time;
ZN_API zn_status zn_model_profile(zn_model *model, const zn_array *in, int n_in, zn_array *out, const zn_job *job,
                                  void (*print)(void *cookie, const zn_layer_time *t), void *cookie, zn_error *err);

/* Milliseconds of one forward (of the last tile, if there are several) without the transfers to the device and back:
 * the median of many. */
ZN_API zn_status zn_model_time(zn_model *model, const zn_array *in, int n_in, zn_array *out, const zn_job *job,
                               double *ms, zn_error *err);

#ifdef __cplusplus
}
#endif
#endif
