/* SPDX-License-Identifier: MIT */
/* settings.c - what a job and the environment ask for, checked against what the model and its engine have. */
#include "forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static zn_status read_precision(zn_run *r, const char *name, zn_error *err)
{
    const zn_engine *e = r->model->engine;

    for (int i = 0; i < ZN_N_PRECISIONS; i++)
        if (!strcmp(name, zn_precision_names[i])) {
            if (!e->be->has_precision(e->dev, (zn_precision)i))
                return zn_fail(err, ZN_E_USAGE, "the %s engine has no precision %s%s", e->be->name, name,
                               i == ZN_FP8_MATH ? ": that takes an NVIDIA GPU of compute capability 9.0" : "");
            r->precision = (zn_precision)i;
            r->ctx.type = zn_precision_type(r->precision);
            return ZN_OK;
        }
    return zn_fail(err, ZN_E_USAGE, "precision wants fp32, tf32, fp16, bf16 or fp8, not '%s'", name);
}

/* "sigma=25" into its place of set[]. */
static zn_status read_setting(float *set, const zn_arch *a, const char *text, zn_error *err)
{
    const char *eq = strchr(text, '=');
    size_t len = eq ? (size_t)(eq - text) : strlen(text);
    char *end = NULL;
    double v;

    for (int i = 0; a->info.settings && a->info.settings[i].key; i++) {
        const zn_setting *k = &a->info.settings[i];

        if (strlen(k->key) != len || strncmp(k->key, text, len))
            continue;
        v = eq ? strtod(eq + 1, &end) : NAN;
        if (!eq || end == eq + 1 || *end || !(v >= k->min && v <= k->max))
            return zn_fail(err, ZN_E_USAGE, "%s wants a number from %g to %g, not '%s'", k->key, (double)k->min,
                           (double)k->max, eq ? eq + 1 : "");
        set[i] = (float)v;
        return ZN_OK;
    }
    return zn_fail(err, ZN_E_USAGE, "%s has no setting '%.*s'", a->info.id, (int)len, text);
}

/* What a forward may take if the job does not say: the user's bound, the device's, or a modest one. */
static zn_status default_memory(size_t *bytes, const zn_engine *e, zn_error *err)
{
    const char *name = e->be->memory_variable, *text = getenv(name);
    char *end = NULL;
    double mib = text ? strtod(text, &end) : 0;

    if (!text || !*text) {
        *bytes = e->be->memory(e->dev);
        *bytes = *bytes ? *bytes : (size_t)448 << 20;
        return ZN_OK;
    }
    if (end != text && (*end == 'G' || *end == 'g'))
        mib *= 1024, end++;
    else if (end != text && (*end == 'M' || *end == 'm'))
        end++;
    if (end == text || *end || !(mib >= 1 && mib <= 1e9))
        return zn_fail(err, ZN_E_USAGE, "%s wants mebibytes, such as 512, or 4G, not '%s'", name, text);
    *bytes = (size_t)(mib * 1048576);
    return ZN_OK;
}

zn_status zn_run_begin(zn_run *r, zn_model *m, const zn_job *job, zn_error *err)
{
    static const zn_job none;
    const zn_engine *e = m->engine;
    zn_status s;

    job = job ? job : &none;
    *r = (zn_run){ .model = m, .tile = job->tile };
    r->max_memory = job->max_memory;
    r->ctx = (zn_ctx){ .be = e->be, .dev = e->dev, .err = err, .progress = job->progress, .cookie = job->cookie };
    if (err)
        err->text[0] = 0;
    if (!r->max_memory && (s = default_memory(&r->max_memory, e, err)))
        return s;
    for (int i = 0; m->arch->info.settings && m->arch->info.settings[i].key; i++)
        r->set[i] = m->arch->info.settings[i].initial;
    for (int i = 0; i < job->n_set; i++) {
        s = !strncmp(job->set[i], "precision=", 10) ? read_precision(r, job->set[i] + 10, err)
                                                    : read_setting(r->set, m->arch, job->set[i], err);
        if (s)
            return s;
    }
    return ZN_OK;
}
