/* SPDX-License-Identifier: MIT */
/* session_state.h - what session.c keeps, for session_run.c.  session.c has the invariants. */
#ifndef ZN_SESSION_STATE_H
#define ZN_SESSION_STATE_H

#include "../core/locks.h"
#include "session.h"

#include <stdatomic.h>

typedef enum state { OPENING, READY, CLOSING } state;

typedef struct computer { /* an engine; never closed before the session */
    char *name;           /* as asked for: "auto" */
    int n_threads;
    state state;
    zn_engine *handle;
    struct computer *next;
} computer;

typedef struct entry { /* a model */
    char *name;        /* see name_of */
    state state;
    int users;
    bool retired;     /* to be closed as soon as nobody uses it */
    zn_model *handle; /* NULL: the weights are bad, and error says why */
    zn_error error;
    struct entry *next;
} entry;

struct zn_use {
    zn_session *session;
    entry *entry;
    size_t beside;
    zn_note replaced; /* a precision that the engine lacks, or "" */
};

struct zn_session {
    zn_turn turn;  /* one task after the other */
    bool working;  /* inside of a composite */
    zn_pool *pool; /* of a composite's own work, for the thread that has the turn; NULL: not yet */
    zn_lock lock;
    pthread_cond_t changed; /* the state of an entry */
    computer *computers;
    entry *entries;          /* last used first */
    zn_tokenizer *tokenizer; /* the last one, of that file; NULL: none, or somebody has it */
    zn_key tokenizer_file;
    int starting; /* threads of zn_session_start() */
    atomic_ullong n_runs, n_pixels;
};

#endif
