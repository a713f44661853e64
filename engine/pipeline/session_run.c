/* SPDX-License-Identifier: MIT */
/* session_run.c - a run of a model that a session keeps: its turn, its counts, its notes. */
#include "session_state.h"

#include "../core/status.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* The job of a run, whose note is the last argument. */
static zn_job job_of(const zn_use *u, const zn_job *job, zn_error *note)
{
    zn_job own = job ? *job : (zn_job){ 0 };

    own.beside = own.beside ? own.beside : u->beside;
    own.note = note;
    note->text[0] = 0;
    return own;
}

static zn_status run_begin(const zn_use *u, bool *entered, zn_error *err)
{
    zn_session *s = u->session;
    zn_status status = ZN_OK;

    *entered = !zn_turn_is_mine(&s->turn);
    if (*entered)
        status = zn_session_enter(s, err);
    else if (zn_turn_held(ZN_TURN_ENGINE))
        status = zn_busy(err);
    if (!status)
        atomic_fetch_add(&s->n_runs, 1);
    return status;
}

static zn_status run_end(const zn_use *u, bool entered, zn_status status, const zn_error *said, zn_note *note)
{
    if (entered)
        zn_session_leave(u->session);
    if (!status && note) {
        zn_note_add(note, u->replaced.text);
        zn_note_add(note, said->text);
    }
    return status;
}

/* A sink that refuses what damaged weights make: black, or no change at all, would look like a result. */
typedef struct checked {
    const zn_sink *out;
    atomic_bool refused; /* parts come from several threads */
    int32_t c;
} checked;

static bool write_checked(void *cookie, zn_rect r, const float *src)
{
    checked *f = cookie;

    for (size_t i = 0; i < (size_t)r.w * (size_t)r.h * (size_t)f->c; i++)
        if (!isfinite(src[i])) {
            atomic_store(&f->refused, true);
            return false;
        }
    return f->out->write(f->out->cookie, r, src);
}

static zn_status checked_end(checked *f, zn_status status, zn_error *err)
{
    return atomic_load(&f->refused) ? zn_fail(err, ZN_E_USAGE, "The network's result is not finite.") : status;
}

zn_status zn_use_run(zn_use *u, const zn_array *in, int n_in, zn_array *out, const zn_job *job, zn_note *note,
                     zn_error *err)
{
    zn_error said;
    const zn_job own = job_of(u, job, &said);
    bool entered;
    const zn_status status = run_begin(u, &entered, err);

    return status ? status : run_end(u, entered, zn_model_run(u->entry->handle, in, n_in, out, &own, err), &said, note);
}

zn_status zn_use_run_region(zn_use *u, const zn_sink *out, const zn_source *in, zn_rect roi, const zn_job *job,
                            zn_note *note, zn_error *err)
{
    zn_error said;
    const zn_job own = job_of(u, job, &said);
    checked to = { .out = out, .c = zn_model_geometry(u->entry->handle)->out_c };
    const zn_sink sink = { write_checked, &to };
    bool entered;
    zn_status status = run_begin(u, &entered, err);

    if (status)
        return status;
    if (roi.w > 0 && roi.h > 0)
        atomic_fetch_add(&u->session->n_pixels, (unsigned long long)roi.w * (unsigned long long)roi.h);
    status = checked_end(&to, zn_picture_run(u->entry->handle, &sink, in, roi, &own, err), err);
    return run_end(u, entered, status, &said, note);
}

zn_status zn_autoencoder_video(const zn_autoencoder *a, const zn_sink *out, const zn_source *in, int32_t n,
                               const zn_job *job, zn_note *note, zn_error *err)
{
    zn_error said;
    const zn_job own = job_of(a->encoder, job, &said);
    checked to = { .out = out, .c = 3 };
    const zn_sink sink = { write_checked, &to };
    bool entered;
    zn_status status = run_begin(a->encoder, &entered, err);

    if (status)
        return status;
    status = zn_picture_video(zn_use_model(a->encoder), zn_use_model(a->decoder), &sink, in, n, &own, err);
    return run_end(a->encoder, entered, checked_end(&to, status, err), &said, note);
}

void zn_makers_add(zn_makers *makers, const zn_use *use)
{
    const zn_maker by = zn_model_maker(zn_use_model(use));
    const size_t n = strlen(makers->text);
    char text[64];

    snprintf(text, sizeof text, "%s %s", by.engine, by.precision);
    if (!strstr(makers->text, text))
        snprintf(makers->text + n, sizeof makers->text - n, "%s%s", n ? ", " : "", text);
}

zn_status zn_use_plan(zn_use *u, const zn_array *in, int n_in, const zn_job *job, zn_plan *plan, zn_error *err)
{
    zn_error said;
    const zn_job own = job_of(u, job, &said);

    return zn_model_plan(u->entry->handle, in, n_in, &own, plan, err);
}
