/* SPDX-License-Identifier: MIT */
/* session.h - what the composites need of a session beside zenith_composite.h.  core/locks.h has the order of its turn and
 * its lock. */
#ifndef ZN_SESSION_H
#define ZN_SESSION_H

#include "../core/threads.h"
#include "../zenith_composite.h"

/* A task: takes the session's turn, unless the front end has entered.  Refused inside of another task of this thread. */
typedef struct zn_task_turn {
    zn_session *session;
    bool entered; /* by the task itself */
} zn_task_turn;

zn_status zn_task_begin(zn_task_turn *t, zn_session *session, zn_error *err);
void zn_task_end(zn_task_turn *t);

/* Between these two, another task of this thread may run; the turn stays. */
void zn_task_pause(zn_task_turn *t);
void zn_task_resume(zn_task_turn *t);

/* So many threads more start an engine. */
void zn_session_starting(zn_session *session, int more);
bool zn_session_is_starting(zn_session *session);
/* While that engine is starting: reads and packs the weights of a model that will be used. */
void zn_session_ahead(zn_session *session, const char *id, const char *weights, const zn_terms *terms);
/* Whether that engine is open and its device is there. */
bool zn_session_has_engine(zn_session *session, const zn_choice *choice);
/* Opens that engine in a thread of its own and waits for it; false: progress, which is asked meanwhile, has cancelled.  A failure is that of
 * the first who needs it. */
bool zn_session_await(zn_session *session, const zn_choice *choice, bool (*progress)(void *cookie, double done),
                      void *cookie);

/* The precision that the networks of a choice are opened with: what was asked for, $ZENITH_PRECISION, "auto", or, with a note,
 * fp32 where a CPU lacks that.  note: NULL, or gets the sentence. */
zn_status zn_session_precision(const char **precision, zn_session *session, const zn_choice *choice, zn_note *note,
                               zn_error *err);

/* zn_model_run_region() for pictures of any size in 0..1 (session_picture.c). */
zn_status zn_picture_run(zn_model *model, const zn_sink *out, const zn_source *in, zn_rect roi, const zn_job *job,
                         zn_error *err);

/* zn_model_pass_video() for n frames in 0..1, one below the other. */
zn_status zn_picture_video(zn_model *encoder, zn_model *decoder, const zn_sink *out, const zn_source *in, int32_t n,
                           const zn_job *job, zn_error *err);

/* A tokenizer that a file holds, the session's or a new one; whoever takes it gives it back.  A file of 11 MB takes longer to read
 * than the steps of a picture on a large GPU. */
zn_status zn_session_take_tokenizer(zn_tokenizer **out, zn_key *file, zn_session *session, const char *path,
                                    zn_error *err);
void zn_session_give_tokenizer(zn_session *session, zn_key file, zn_tokenizer **tokenizer);

/* Items 0 .. n_items - 1 of a composite's own work, inside of a task, on as many threads as the choice's engine has. */
void zn_session_loop(zn_session *session, const zn_choice *choice, zn_task *task, void *cookie, int n_items);

#endif
