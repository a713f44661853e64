/* SPDX-License-Identifier: MIT */
/* standin.c - the CPU in place of a remote engine that failed or has too little memory: while a model is opened, or
 * while a request runs.
 *
 * The stand-in is a second model on the best engine of the CPU, opened by the first request that needs it.  It has to
 * fit into the CPU's own memory limit.  Every request that it runs says so in its note. */
#include "request.h"

#include "engines.h"
#include "settings.h"

#include <stdio.h>
#include <string.h>

enum { MAX_WHY = 240 }; /* bytes of one engine's message if another one follows */

static bool may_stand_in(const zn_engine *e, zn_status s)
{
    return (s == ZN_E_DEVICE || s == ZN_E_MEMORY) && e->be->remote;
}

/* m's stand-in, with the same files and, if one was asked for that the CPU has, the same precision; else the CPU's own.  `why` m itself
 * cannot be used is added to the message if the stand-in cannot be opened either. */
static zn_status open_stand_in(zn_model *m, const char *why, zn_error *err)
{
    zn_open open = { .files = (const char *const *)m->files, .n_files = m->n_files };
    zn_error other = { "" };
    zn_status s = zn_turn_take(&m->opening, err);

    if (s)
        return s;
    if (!m->cpu)
        s = zn_engine_open_cpu(&m->cpu, &other);
    if (!s && !m->stand_in) {
        const bool has = m->cpu->be->has_precision(m->cpu->dev, m->precision);

        open.precision = !m->asked ? NULL : zn_precision_names[has ? m->precision : ZN_FP32];
        s = zn_model_load(&m->stand_in, m->cpu, m->arch, &open, &other);
    }
    zn_turn_give(&m->opening);
    return s ? zn_fail(err, s, "%s; nor can the CPU do it: %s", why, other.text) : ZN_OK;
}

/* A model that could not be opened on its engine: a handle without weights, whose stand-in does everything. */
static zn_status open_failed(zn_model **out, zn_engine *engine, const zn_arch *a, const zn_open *open,
                             const zn_error *why, zn_error *err)
{
    zn_model *m = zn_model_new(engine, a, open, err);
    zn_status s;

    if (!m)
        return ZN_E_MEMORY;
    m->failed = *why;
    zn_cut(m->failed.text, MAX_WHY);
    if (zn_precision_choose(&m->precision, engine, a, NULL, open->precision, NULL))
        m->precision = ZN_FP32;
    if ((s = open_stand_in(m, m->failed.text, err))) {
        zn_model_free(&m);
        return s;
    }
    m->precision = m->stand_in->precision;
    m->parameters = m->stand_in->parameters;
    m->geometry = m->stand_in->geometry;
    memcpy(m->variant, m->stand_in->variant, sizeof m->variant);
    *out = m;
    return ZN_OK;
}

zn_status zn_standin_open(zn_model **out, zn_engine *engine, const zn_arch *a, const zn_open *open, zn_error *err)
{
    zn_error why = { "" };
    zn_status s = zn_model_load(out, engine, a, open, &why);

    if (may_stand_in(engine, s))
        return open_failed(out, engine, a, open, &why, err);
    return s ? zn_fail(err, s, "%s", why.text) : ZN_OK;
}

/* As much of a second message as fits. */
static void add_note(zn_error *note, const char *text)
{
    const size_t len = strlen(note->text);

    snprintf(note->text + len, sizeof note->text - len, "%s%s", len ? ". " : "", text);
    zn_cut(note->text, sizeof note->text - 1);
}

/* The request on the stand-in; `why` says why m could not run it. */
static zn_status run_stand_in(zn_model *m, const zn_request *q, const char *why, zn_error *err)
{
    zn_job job = q->job ? *q->job : (zn_job){ 0 };
    zn_request again = *q;
    zn_status s = open_stand_in(m, why, err);

    if (s)
        return s;
    again.job = &job;
    job.beside = 0; /* of the other engine's memory */
    m->stood_in = true;
    s = zn_request_run_on(m->stand_in, &again, err);
    if (!s && job.note) {
        const zn_error own = *job.note;

        zn_fail(job.note, ZN_OK, "%s; done with the %s engine instead", why, m->cpu->be->name);
        if (*own.text)
            add_note(job.note, own.text);
    }
    return s;
}

/* On the model, or on its stand-in. */
static zn_status run(zn_model *m, const zn_request *q, zn_error *err)
{
    zn_error why = { "" };
    zn_status s;

    if (*m->failed.text)
        return run_stand_in(m, q, m->failed.text, err);
    m->stood_in = false;
    s = zn_request_run_on(m, q, err ? err : &why);
    if (!s && *m->engine->note.text && q->job && q->job->note) {
        const zn_error own = *q->job->note;

        zn_fail(q->job->note, ZN_OK, "%s; done with the %s engine instead", m->engine->note.text, m->engine->be->name);
        if (*own.text)
            add_note(q->job->note, own.text);
    }
    if (!may_stand_in(m->engine, s))
        return s;
    if (err)
        why = *err;
    zn_cut(why.text, MAX_WHY);
    return run_stand_in(m, q, why.text, err);
}

zn_status zn_request_run(zn_model *m, const zn_request *q, zn_error *err)
{
    zn_error *note = q->job ? q->job->note : NULL, named;
    const zn_model *as;
    zn_status s;

    if (note)
        note->text[0] = 0;
    s = run(m, q, err);
    as = *m->failed.text ? m->stand_in : m; /* both since it was opened */
    if (!s && note && as->called) {
        zn_fail(&named, ZN_OK, "these are weights of %s, which was called %s before", as->arch->info.id,
                as->called->info.id);
        add_note(note, named.text);
    }
    return s;
}
