/* SPDX-License-Identifier: MIT */
/* locks.c - turns and locks; what a thread has is counted by rank. */
#include "locks.h"

#include "status.h"

#include <stdlib.h>

enum { N_RANKS = ZN_LOCK_SESSION + 1 };

static _Thread_local int held[N_RANKS];

/* Whether this thread has one of that rank or of a later one. */
static bool has_from(int rank)
{
    for (int i = rank; i < N_RANKS; i++)
        if (held[i])
            return true;
    return false;
}

/* What is checked in all builds but those without assertions. */
static void must(bool ok)
{
#ifndef NDEBUG
    if (!ok)
        abort();
#else
    (void)ok;
#endif
}

/* ---- locks ---------------------------------------------------------------------------------------------- */

void zn_lock_init(zn_lock *l, zn_rank rank)
{
    pthread_mutex_init(&l->mutex, NULL);
    l->rank = rank;
}

void zn_lock_end(zn_lock *l)
{
    pthread_mutex_destroy(&l->mutex);
}

void zn_lock_take(zn_lock *l)
{
    must(!has_from((int)l->rank));
    pthread_mutex_lock(&l->mutex);
    held[l->rank]++;
}

void zn_lock_give(zn_lock *l)
{
    held[l->rank]--;
    pthread_mutex_unlock(&l->mutex);
}

void zn_lock_wait(zn_lock *l, pthread_cond_t *changed)
{
    pthread_cond_wait(changed, &l->mutex);
}

/* ---- turns ---------------------------------------------------------------------------------------------- */

void zn_turn_init(zn_turn *t, zn_rank rank)
{
    *t = (zn_turn){ .rank = rank };
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->given, NULL);
}

void zn_turn_end(zn_turn *t)
{
    pthread_cond_destroy(&t->given);
    pthread_mutex_destroy(&t->mutex);
}

zn_status zn_busy(zn_error *err)
{
    return zn_fail(err, ZN_E_USAGE, "The engine is busy with another picture.");
}

zn_status zn_turn_take(zn_turn *t, zn_error *err)
{
    must(!has_from(ZN_LOCK_SESSION));
    if (has_from((int)t->rank + 1) || zn_turn_is_mine(t))
        return zn_busy(err);
    pthread_mutex_lock(&t->mutex);
    while (t->taken)
        pthread_cond_wait(&t->given, &t->mutex);
    t->taken = true;
    t->owner = pthread_self();
    pthread_mutex_unlock(&t->mutex);
    held[t->rank]++;
    return ZN_OK;
}

void zn_turn_give(zn_turn *t)
{
    held[t->rank]--;
    pthread_mutex_lock(&t->mutex);
    t->taken = false;
    pthread_cond_signal(&t->given);
    pthread_mutex_unlock(&t->mutex);
}

bool zn_turn_is_mine(zn_turn *t)
{
    bool mine;

    pthread_mutex_lock(&t->mutex);
    mine = t->taken && pthread_equal(t->owner, pthread_self());
    pthread_mutex_unlock(&t->mutex);
    return mine;
}

bool zn_turn_held(zn_rank rank)
{
    return held[rank] > 0;
}
