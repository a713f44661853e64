/* SPDX-License-Identifier: MIT */
/* settings.c - the settings of a job and of the environment, checked against the model and its engine. */
#include "settings.h"

#include "../zenith_number.h"
#include "forward.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_auto(const char *name)
{
    return !name || !*name || !strcmp(name, "auto");
}

bool zn_precision_asked(const char *name)
{
    return !is_auto(name) || !is_auto(getenv("ZENITH_PRECISION"));
}

static bool half_ok(const zn_arch *a, const zn_weights *w)
{
    return a->half_ok && !(a->half_unless && w && zn_weights_get(w, a->half_unless));
}

zn_status zn_precision_choose(zn_precision *out, const zn_engine *e, const zn_arch *a, const zn_weights *w,
                              const char *name, zn_error *err)
{
    const char *from = "";
    int p = 0;

    if (is_auto(name) && !is_auto(getenv("ZENITH_PRECISION"))) {
        name = getenv("ZENITH_PRECISION");
        from = zn_tr(" (from ZENITH_PRECISION)");
    }
    if (is_auto(name)) {
        *out = e->be->remote && half_ok(a, w) && e->be->has_precision(e->dev, ZN_FP16_MATH) ? ZN_FP16_MATH : ZN_FP32;
        return ZN_OK;
    }
    while (p < ZN_N_PRECISIONS && strcmp(name, zn_precision_names[p]))
        p++;
    if (p == ZN_N_PRECISIONS)
        return zn_fail(err, ZN_E_USAGE, "precision must be auto, fp32, tf32, fp16, bf16, fp8, int8 or int4, not '%s'%s",
                       name, from);
    if (!e->be->has_precision(e->dev, (zn_precision)p))
        return zn_fail(err, ZN_E_USAGE, "the %s engine has no precision %s%s%s%s", e->be->name, name, from,
                       e->be->precision_needs[p] ? zn_tr(": that takes ") : "",
                       e->be->precision_needs[p] ? zn_tr(e->be->precision_needs[p]) : "");
    *out = (zn_precision)p;
    return ZN_OK;
}

/* A value into its place of set[]. */
static zn_status take_setting(float *set, const zn_arch *a, const zn_value *v, zn_error *err)
{
    char text[ZN_NUMBER_SIZE];

    for (int i = 0; a->info.settings && a->info.settings[i].key; i++) {
        const zn_setting *k = &a->info.settings[i];

        if (strcmp(k->key, v->key))
            continue;
        if (!(v->value >= k->min && v->value <= k->max)) /* so that NaN is refused */
            return zn_fail(err, ZN_E_USAGE, "%s must be a number from %g to %g, not '%s'", k->key, (double)k->min,
                           (double)k->max, zn_number_print(text, v->value));
        set[i] = (float)v->value;
        return ZN_OK;
    }
    return zn_fail(err, ZN_E_USAGE, "%s has no setting '%s'", a->info.id, v->key);
}

static size_t less(size_t bytes, size_t by)
{
    return bytes > by ? bytes - by : 0;
}

/* Without the memory that is already in use. */
static zn_status all_limits(zn_limits *l, const zn_engine *e, zn_error *err)
{
    const char *name = e->be->memory_variable, *text = getenv(name);
    double mib = 0;

    if (!text || !*text) {
        l->total = e->be->capacity(e->dev);
        l->run = e->be->memory(e->dev);
        l->run = l->run ? l->run : (size_t)448 << 20;
        return ZN_OK;
    }
    if (!zn_mebibytes_parse(&mib, text) || mib < 1)
        return zn_fail(err, ZN_E_USAGE, "%s must be a size in mebibytes, such as 512, or 4G, not '%s'", name, text);
    l->total = l->run = (size_t)(mib * 1048576);
    return ZN_OK;
}

zn_status zn_limits_of(zn_limits *l, const zn_engine *e, size_t beside, zn_error *err)
{
    const zn_status s = all_limits(l, e, err);

    if (!s)
        l->total = less(l->total, beside);
    return s;
}

zn_status zn_say_beside(zn_error *err, zn_status s, size_t beside)
{
    const size_t len = err ? strlen(err->text) : 0;

    if (s == ZN_E_MEMORY && err && beside)
        snprintf(err->text + len, sizeof err->text - len, zn_tr(" (%zu MiB are taken by what is open beside it)"),
                 (beside + (1 << 20) - 1) >> 20);
    return s;
}

/* A network of one input and one output on the same engine: a stand-in on the CPU has no use for a GPU's. */
static zn_model *usable_preview(const zn_model *m, zn_model *with)
{
    return with && with->engine == m->engine && !*with->failed.text && !with->arch->shape && !with->arch->info.in[1]
        ? with
        : NULL;
}

zn_status zn_run_begin(zn_run *r, zn_model *m, const zn_job *job, zn_error *err)
{
    static const zn_job none;
    const zn_engine *e = m->engine;
    zn_limits limits;
    zn_status s;

    job = job ? job : &none;
    *r = (zn_run){
        .model = m, .tile = job->tile, .geometry = m->geometry, .crops = m->arch->crops, .noise = job->noise
    };
    r->ctx = (zn_ctx){ .be = e->be,
                       .dev = e->dev,
                       .err = err,
                       .progress = job->progress,
                       .preview = job->preview,
                       .preview_every = job->preview_every,
                       .preview_with = usable_preview(m, job->preview_with),
                       .cookie = job->cookie };
    if (err)
        err->text[0] = 0;
    if ((s = zn_limits_of(&limits, e, job->beside, err)))
        return s;
    r->beside = job->beside;
    r->total = limits.total;
    r->most = less(limits.total, m->need.weights);
    r->max_memory = limits.run < r->most ? limits.run : r->most;
    if (job->max_memory) {
        r->max_memory = r->most = job->max_memory;
        r->bounded = true;
    }
    for (int i = 0; m->arch->info.settings && m->arch->info.settings[i].key; i++)
        r->set[i] = m->arch->info.settings[i].initial;
    for (int i = 0; i < job->n_set; i++)
        if ((s = take_setting(r->set, m->arch, &job->set[i], err)))
            return s;
    return ZN_OK;
}
