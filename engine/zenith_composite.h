/* SPDX-License-Identifier: MIT */
/* zenith_composite.h - tasks that take several networks, and the engines and models that they share.
 *
 *     zn_session *session = NULL;
 *     zn_generate how = zn_generate_defaults();
 *     zn_generate_plan plan;
 *     zn_generate_result result;
 *
 *     how.prompt = "a red fox in the snow";
 *     if (zn_session_open(&session, &err) ||
 *         zn_generate_describe(&plan, session, NULL, &how, 0, 0, NULL, &err))
 *         die(err.text);
 *     picture = (zn_array){ malloc(...), plan.change.h, plan.change.w, 3 };
 *     if (zn_generate_run(&result, &plan, NULL, NULL, &picture, NULL, &err))
 *         die(err.text);
 *
 * Every task has the same shape.  Its settings are a struct with defaults, and a table of its fields.  describe() fills a plan:
 * sizes, files, what the result depends on, or why it is refused; it reads no pixel, loads nothing and changes nothing.  run()
 * takes the plan, pictures and a zn_watch, and makes an array and a result with numbers and a note.  Pictures are R'G'B'
 * in 0..1; alpha and colour spaces are the front end's.  zenith.h has the rules about errors, ownership and files. */
#ifndef ZENITH_COMPOSITE_H
#define ZENITH_COMPOSITE_H

#include "zenith.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sessions ----------------------------------------------------------------------------------------------- */

/* Engines and models, opened once and kept.  Any thread may call.  Tasks on one session are done one after the other.  What
 * a task calls (progress, estimate, read) may ask the session for a model that is open; whatever would have to wait for the
 * task itself is refused: the engine is busy. */
typedef struct zn_session zn_session;

ZN_API zn_status zn_session_open(zn_session **out, zn_error *err);
ZN_API void zn_session_close(zn_session **session); /* when nothing of it is in use */
ZN_API void zn_session_trim(zn_session *session);   /* closes the models that nobody uses */

typedef struct zn_choice { /* what computes; NULL or a zeroed one: automatic */
    const char *engine;    /* as zn_engine_open takes it */
    int n_threads;         /* likewise */
    const char
        *precision; /* as zn_open takes it, for all networks of a task; a CPU that lacks it takes fp32, and the task's
                            * note says so */
} zn_choice;

/* Whether the engine of that choice has a memory of its own; false also if it cannot be opened. */
ZN_API bool zn_session_is_remote(zn_session *session, const zn_choice *choice);

/* How many models are in memory, being opened or closed; how many networks have run. */
ZN_API int zn_session_models(zn_session *session);
ZN_API uint64_t zn_session_runs(const zn_session *session);

/* Tasks are done between these two.  So a front end that waited can look whether the task before has made what it wants.
 * Refused where this thread is between them already: the engine is busy. */
ZN_API zn_status zn_session_enter(zn_session *session, zn_error *err);
ZN_API void zn_session_leave(zn_session *session);

typedef struct zn_footprint { /* bytes */
    size_t weights, beside;
    bool streamed; /* not all weights are in memory: layers are read from disk, which is slower */
} zn_footprint;

typedef struct zn_note {
    char text[1024]; /* sentences: how the result differs from what was asked for, or "" */
} zn_note;

/* Adds a sentence, unless it is there. */
ZN_API void zn_note_add(zn_note *note, const char *sentence);

/* ---- models of a session --------------------------------------------------------------------------------------- */

typedef struct zn_use zn_use; /* a model that somebody uses */

typedef struct zn_terms {
    zn_choice choice;
    bool alone;    /* models that nobody uses are closed first */
    size_t beside; /* bytes of the memory limit that are already in use (zn_open, zn_job) */
} zn_terms;

/* The model with this id; weights: a file or folder, NULL or "": its own.  Opened by the first call; later ones are cheap.  It
 * stays open after the last release until others need its place.  A file that cannot be used is not read again until its
 * time or size changes. */
ZN_API zn_status zn_use_begin(zn_use **out, zn_session *session, const char *id, const char *weights,
                              const zn_terms *terms, zn_error *err);
ZN_API void zn_use_end(zn_use **use); /* accepts what zn_x_close() does */
/* The same, and its memory is given back now, unless others use it. */
ZN_API void zn_use_retire(zn_use **use);

ZN_API zn_model *zn_use_model(const zn_use *use);
ZN_API const char *zn_use_name(const zn_use *use); /* model, engine, precision, weights: what a result depends on */

/* zn_model_run() and zn_model_run_region() of one input; counted.  job->beside is that of the terms if it is 0; the note of the
 * run is added to `note`, which may be NULL. */
ZN_API zn_status zn_use_run(zn_use *use, const zn_array *in, int n_in, zn_array *out, const zn_job *job, zn_note *note,
                            zn_error *err);
ZN_API zn_status zn_use_run_region(zn_use *use, const zn_sink *out, const zn_source *in, zn_rect roi, const zn_job *job,
                                   zn_note *note, zn_error *err);

/* The memory of a run. */
ZN_API zn_status zn_use_plan(zn_use *use, const zn_array *in, int n_in, const zn_job *job, zn_plan *plan,
                             zn_error *err);
/* The same for a model that is not open: nothing is loaded.  out: NULL, or gets the sizes of the result. */
ZN_API zn_status zn_session_plan(zn_plan *plan, zn_array *out, zn_session *session, const char *id, const char *weights,
                                 const zn_terms *terms, const zn_array *in, int n_in, const zn_job *job, zn_error *err);

/* zn_find_faces() with the networks of zenith-find; counted. */
ZN_API zn_status zn_session_find_faces(zn_face *list, int max, int *n, zn_session *session, const zn_choice *choice,
                                       const zn_source *in, zn_error *err);

#ifdef __cplusplus
}
#endif
#endif
