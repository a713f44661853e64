/* SPDX-License-Identifier: MIT */
/* models.c - the self-test of an engine: its backend (selftest.c), then whole models: every registered one that
 * can make up weights, on a small picture of odd size, against the scalar engine. */
#include "../handle.h"
#include "../zenith_bench.h"
#include "selftest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { W = 29, H = 21 };

/* An untrained network amplifies rounding errors at every layer, a trained one does not.  Tests of low precision take the
 * shipped weights if they are found; all others take made-up weights. */
static zn_status open_model(zn_model **m, zn_engine *e, const zn_model_info *info, const char *precision, bool shipped,
                            zn_error *err)
{
    char name[32] = ZN_RANDOM_WEIGHTS;
    const char *const made_up = name;

    if (info->narrow)
        snprintf(name, sizeof name, "%s%d", ZN_RANDOM_WEIGHTS, info->narrow);
    else if (shipped && !zn_model_open(m, e, info->id, &(zn_open){ .precision = precision }, err))
        return ZN_OK;
    return zn_model_open(m, e, info->id, &(zn_open){ .files = &made_up, .n_files = 1, .precision = precision }, err);
}

/* The model's output on the fixed picture, malloced; NULL and the error message.  nudge: relative change of the
 * inputs. */
static float *run_model(zn_array *y, const char *engine, int n_threads, const char *precision, bool shipped,
                        float nudge, const zn_model_info *info, zn_error *err)
{
    const zn_value set = { "sigma", 25 };
    zn_engine *e = NULL;
    zn_model *m = NULL;
    zn_array x[ZN_MAX_PORTS] = { { 0 } };
    int n = 0;
    zn_job job = { .set = &set, .n_set = info->settings && !strcmp(info->settings[0].key, "sigma") };
    unsigned seed = 5;
    bool ok = false;

    *y = (zn_array){ 0 };
    if (zn_engine_open(&e, engine, n_threads, err) || open_model(&m, e, info, precision, shipped, err))
        goto end;
    n = zn_model_example(m, W, H, x);
    for (int i = 0; i < n; i++) {
        x[i].data = malloc(zn_array_len(&x[i]) * sizeof(float));
        if (!x[i].data)
            goto end;
        for (size_t j = 0; j < zn_array_len(&x[i]); j++) {
            seed = seed * 1664525u + 1013904223u;
            x[i].data[j] = (float)(seed >> 8) / 16777216.0f * (1 + (seed >> 7 & 1 ? nudge : -nudge));
        }
    }
    if (zn_model_shape(m, x, n, y, err))
        goto end;
    y->data = malloc(zn_array_len(y) * sizeof(float));
    ok = y->data && !zn_model_run(m, x, n, y, &job, err);
end:
    if (!ok) {
        free(y->data);
        y->data = NULL;
    }
    for (int i = 0; i < n; i++)
        free(x[i].data);
    zn_model_close(&m);
    zn_engine_close(&e);
    return y->data;
}

/* Tolerance of the mean with less than float32: 1e-2; bf16 rounds 8 times as much as fp16, e4m3 by 3 % and a product by
 * 4.  A CPU's fp16 has sums in it, too, and Winograd's transforms, as ncnn has, whose error is 3 %.  int8, int4: against the scalar engine with the same weights.  It quantises inputs of layers that allow it, other
 * engines may not; that is 0.5 % of a product (zn_conv.quantised_x). */
static double most_rounding(zn_precision precision, bool remote)
{
    const bool fine = precision == ZN_TF32 || (precision == ZN_FP16_MATH && remote);

    return precision == ZN_FP8_MATH ? 1e-1 : fine ? 1e-2 : 3e-2;
}

/* sqrt(|got - want|^2 / |want|^2); the largest difference and the range are put into *worst and *top. */
static double difference(const zn_array *got, const zn_array *want, double *worst, double *top)
{
    double errors = 0, all = 0;

    *worst = 0;
    *top = 1;
    for (size_t k = 0; k < zn_array_len(want); k++) {
        const double d = fabs((double)got->data[k] - (double)want->data[k]);

        *worst = isnan(*worst) || d <= *worst ? *worst : d;
        *top = fmax(*top, fabs((double)want->data[k]));
        errors += d * d;
        all += (double)want->data[k] * (double)want->data[k];
    }
    return sqrt(errors / all);
}

/* The error of the scalar engine when it rounds only the weights, to fp16 or bf16.  Random weights of a deep network
 * amplify rounding errors, so that no fixed bound holds.  An engine that rounds tensors, too, may have three times that
 * error; e4m3 has a sixteenth of bf16's resolution.  Never more than 0.6, a correlation of 0.8: beyond that it is
 * noise. */
static double most_enlarged(const zn_array *want, const zn_model_info *info, zn_precision precision)
{
    const double times = precision == ZN_FP8_MATH ? 3 * 16 : 3;
    zn_array rounded;
    zn_error err;
    double worst, top, loss;

    if (precision >= ZN_INT8_MATH ||
        !run_model(&rounded, "scalar", 0, precision == ZN_FP16_MATH ? "fp16" : "bf16", true, 0, info, &err))
        return 0;
    loss = times * difference(&rounded, want, &worst, &top);
    free(rounded.data);
    return loss < 0.6 ? loss : 0.6;
}

/* Of the range: 1e-4, as against the reference framework; 1e-3 after the steps of a sampler, each of which enlarges the
 * roundings of those before it. */
static double most_error(const zn_model_info *info)
{
    return info->settings && !strcmp(info->settings[0].key, "steps") ? 1e-3 : 1e-4;
}

/* With made-up weights, norms may enlarge the smallest differences.  Ten times as much, of the range, as the scalar engine's
 * own output moves when its input changes by 1e-6: every layer rounds, not the input alone.  Never more than 1e-2. */
static double most_sensitive(const zn_array *want, const zn_model_info *info)
{
    zn_array moved;
    zn_error err;
    double worst, top;

    if (!run_model(&moved, "scalar", 0, "fp32", false, 1e-6f, info, &err))
        return 0;
    difference(&moved, want, &worst, &top);
    free(moved.data);
    return fmin(10 * worst / top, 1e-2);
}

static bool close_enough(zn_precision precision, bool remote, const zn_model_info *info, const zn_array *want,
                         double worst, double top, double mean)
{
    if (precision)
        return mean <= most_rounding(precision, remote) || mean <= most_enlarged(want, info, precision);
    return worst <= most_error(info) * top || worst <= most_sensitive(want, info) * top;
}

static int check_models(const zn_backend *be, int n_threads, zn_precision precision, const char *only,
                        zn_report *report, void *cookie)
{
    const char *engine = be->name, *math = zn_precision_names[precision];
    int failures = 0;

    for (int i = 0; zn_model_at(i); i++) {
        const zn_model_info *info = zn_model_at(i);
        zn_array got, want;
        zn_error err = { "" };
        char name[96], detail[600] = "";
        double worst, top, mean;

        snprintf(name, sizeof name, "model %s", info->id);
        if (!info->weights || !zn_selftest_wants(only, precision, name))
            continue;
        snprintf(name, sizeof name, "%s%smodel %s", precision ? math : "", precision ? " " : "", info->id);
        if (!run_model(&got, engine, n_threads, math, precision != ZN_FP32, 0, info, &err) ||
            !run_model(&want, "scalar", 0, precision >= ZN_INT8_MATH ? math : "fp32", precision != ZN_FP32, 0, info,
                       &err)) {
            report(cookie, name, false, err.text);
            free(got.data);
            failures++;
            continue;
        }
        mean = difference(&got, &want, &worst, &top);
        if (!close_enough(precision, be->remote, info, &want, worst, top, mean)) {
            snprintf(detail, sizeof detail, "off by %g of %g, %g in the mean", worst, top, mean);
            failures++;
        }
        report(cookie, name, !*detail, detail);
        free(got.data);
        free(want.data);
    }
    return failures;
}

int zn_selftest(const char *engine, int n_threads, const char *only,
                void (*report)(void *cookie, const char *name, bool ok, const char *detail), void *cookie)
{
    zn_engine *e = NULL;
    const zn_backend *be;
    zn_error err;
    int failures;

    if (zn_engine_open(&e, engine, 1, &err)) {
        report(cookie, "open", false, err.text);
        return -1;
    }
    be = e->be;
    failures = zn_selftest_backend(be, n_threads, only, report, cookie);
    for (int p = 0; failures >= 0 && p < ZN_N_PRECISIONS; p++)
        if (zn_selftest_has(be, e->dev, (zn_precision)p))
            failures += check_models(be, n_threads, (zn_precision)p, only, report, cookie);
    zn_engine_close(&e);
    return failures;
}
