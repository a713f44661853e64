/* SPDX-License-Identifier: MIT */
/* session_start.c - an engine that is opened in a thread of its own. */
#define _POSIX_C_SOURCE 200809L

#include "session.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct starter {
    zn_session *session;
    int n_threads;
    char name[64]; /* of the engine */
} starter;

static const struct timespec pause = { 0, 2000000 };

static void *start_engine(void *cookie)
{
    starter *t = cookie;
    const char *precision;
    const zn_choice choice = { .engine = t->name, .n_threads = t->n_threads };

    if (!zn_session_precision(&precision, t->session, &choice, NULL, NULL)) /* it opens */
        while (!zn_session_has_engine(t->session, &choice))
            nanosleep(&pause, NULL);
    zn_session_starting(t->session, -1);
    free(t);
    return NULL;
}

void zn_session_start(zn_session *session, const zn_choice *choice)
{
    starter *t = calloc(1, sizeof *t);
    pthread_t thread;

    if (!t)
        return;
    t->session = session;
    t->n_threads = choice ? choice->n_threads : 0;
    snprintf(t->name, sizeof t->name, "%s", choice && choice->engine ? choice->engine : "");
    zn_session_starting(session, 1);
    if (!pthread_create(&thread, NULL, start_engine, t)) {
        pthread_detach(thread);
        return;
    }
    zn_session_starting(session, -1);
    free(t);
}

bool zn_session_await(zn_session *session, const zn_choice *choice, bool (*progress)(void *cookie, double done),
                      void *cookie)
{
    if (zn_session_has_engine(session, choice))
        return true;
    zn_session_start(session, choice);
    while (zn_session_is_starting(session)) {
        if (!progress(cookie, 0))
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}
