/* SPDX-License-Identifier: MIT */
/* ahead.c - see ahead.h.
 *
 *     caller:  start: busy = true, wakes the thread          wait: until it is false
 *     thread:  sleeps while it is not busy ── reads the set, piece by piece ── busy = false
 *
 * Invariants:
 *   1. `lock` guards the fields from `busy` on.  The caller alone changes `set`.
 *   2. While busy the buffer and `copy` are the thread's, else they are the caller's.
 *   3. The lists do not change once the thread runs. */
#define _POSIX_C_SOURCE 200809L

#include "ahead.h"

#include "weightfile.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PIECE = 1 << 20, /* bytes between two looks at `stop` */
    ALIGN = 64,      /* of a tensor in the buffer */
    NONE = -1
};

struct zn_ahead {
    const zn_entry **tensor; /* of all sets, one after the other */
    int *first;              /* [n_sets + 1]: where a set begins */
    int n_tensors, n_sets;
    unsigned char *buffer;
    zn_file file;   /* the buffer as a file */
    zn_entry *copy; /* of the tensors of one set, as they lie in the buffer */
    pthread_t thread;
    bool open;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    bool busy;
    int set; /* in the buffer, or on its way; NONE: no set */
    bool quit, stop;
    zn_status status; /* of the last set */
    zn_error err;
};

static size_t room_of(const zn_entry *e)
{
    return (zn_entry_span(e) + ALIGN - 1) / ALIGN * ALIGN;
}

size_t zn_ahead_room(const zn_entry *e)
{
    return room_of(e) + (e->scales ? room_of(e->scales) : 0) + (e->offsets ? room_of(e->offsets) : 0);
}

/* ---- lists ------------------------------------------------------------------------------------------------- */

zn_ahead *zn_ahead_new(void)
{
    zn_ahead *a = calloc(1, sizeof *a);
    pthread_condattr_t clock;

    if (!a)
        return NULL;
    a->set = NONE;
    pthread_mutex_init(&a->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&a->wake, NULL);
    pthread_cond_init(&a->done, &clock);
    pthread_condattr_destroy(&clock);
    return a;
}

bool zn_ahead_next_set(zn_ahead *a)
{
    int *first = realloc(a->first, (size_t)(a->n_sets + 2) * sizeof *first);

    if (!first)
        return false;
    a->first = first;
    a->first[a->n_sets++] = a->n_tensors;
    a->first[a->n_sets] = a->n_tensors;
    return true;
}

static bool add(zn_ahead *a, const zn_entry *e)
{
    const zn_entry **tensor = realloc(a->tensor, (size_t)(a->n_tensors + 1) * sizeof *tensor);

    if (!tensor)
        return false;
    a->tensor = tensor;
    a->tensor[a->n_tensors++] = e;
    a->first[a->n_sets] = a->n_tensors;
    return true;
}

bool zn_ahead_add(zn_ahead *a, const zn_entry *e)
{
    assert(a->n_sets && !a->open);
    return add(a, e) && (!e->scales || add(a, e->scales)) && (!e->offsets || add(a, e->offsets));
}

/* ---- the thread -------------------------------------------------------------------------------------------- */

static bool stopped(zn_ahead *a)
{
    bool stop;

    pthread_mutex_lock(&a->lock);
    stop = a->stop;
    pthread_mutex_unlock(&a->lock);
    return stop;
}

static zn_status read_set(zn_ahead *a, int set, zn_error *err)
{
    zn_entry *copy = a->copy;
    zn_status s = ZN_OK;
    size_t at = 0;

    for (int i = a->first[set]; i < a->first[set + 1] && !s; i++, copy++) {
        const zn_entry *e = a->tensor[i];
        const size_t size = zn_entry_span(e);

        for (size_t done = 0, n; done < size && !s; done += n) {
            n = size - done < PIECE ? size - done : PIECE;
            s = stopped(a) ? ZN_E_CANCELLED : zn_file_read(e->file, e->at + done, a->buffer + at + done, n, err);
        }
        *copy = *e;
        copy->file = &a->file;
        copy->at = at;
        copy->scales = e->scales ? copy + 1 : NULL; /* as zn_ahead_add lists them */
        copy->offsets = e->offsets ? copy + 2 : NULL;
        at += room_of(e);
    }
    return s;
}

static void *thread_main(void *cookie)
{
    zn_ahead *a = cookie;

    pthread_mutex_lock(&a->lock);
    for (;;) {
        zn_error err = { "" };
        zn_status s;
        int set;

        while (!a->busy && !a->quit)
            pthread_cond_wait(&a->wake, &a->lock);
        if (a->quit)
            break;
        set = a->set;
        pthread_mutex_unlock(&a->lock);
        s = read_set(a, set, &err);
        pthread_mutex_lock(&a->lock);
        a->status = s;
        a->err = err;
        a->busy = false;
        pthread_cond_broadcast(&a->done);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

zn_status zn_ahead_open(zn_ahead *a, zn_error *err)
{
    size_t most = 0;
    int n = 0;

    for (int set = 0; set < a->n_sets; set++) {
        size_t size = 0;

        for (int i = a->first[set]; i < a->first[set + 1]; i++)
            size += room_of(a->tensor[i]);
        most = size > most ? size : most;
        n = a->first[set + 1] - a->first[set] > n ? a->first[set + 1] - a->first[set] : n;
    }
    a->buffer = malloc(most + 1);
    a->copy = malloc((size_t)(n + 1) * sizeof *a->copy);
    a->file = (zn_file){ .label = "memory", .size = most, .fd = -1, .data = a->buffer };
    a->open = a->buffer && a->copy && !pthread_create(&a->thread, NULL, thread_main, a);
    return a->open ? ZN_OK : zn_fail(err, ZN_E_MEMORY, "out of memory for the weights");
}

void zn_ahead_close(zn_ahead **ahead)
{
    zn_ahead *a = ahead ? *ahead : NULL;

    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->quit = a->stop = true;
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
    if (a->open)
        pthread_join(a->thread, NULL);
    pthread_cond_destroy(&a->wake);
    pthread_cond_destroy(&a->done);
    pthread_mutex_destroy(&a->lock);
    free(a->tensor);
    free(a->first);
    free(a->buffer);
    free(a->copy);
    free(a);
    *ahead = NULL;
}

/* ---- the caller -------------------------------------------------------------------------------------------- */

void zn_ahead_start(zn_ahead *a, int set)
{
    assert(a->open && set >= 0 && set < a->n_sets);
    pthread_mutex_lock(&a->lock);
    if (a->set != set || (!a->busy && a->status)) {
        a->stop = true;
        while (a->busy)
            pthread_cond_wait(&a->done, &a->lock);
        a->stop = false;
        a->status = ZN_OK;
        a->set = set;
        a->busy = true;
        pthread_cond_signal(&a->wake);
    }
    pthread_mutex_unlock(&a->lock);
}

/* `done`, or ZN_POLL_MS later. */
static void wait_a_while(zn_ahead *a)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += ZN_POLL_MS * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&a->done, &a->lock, &t);
}

zn_status zn_ahead_wait(zn_ahead *a, int set, zn_poll *poll, void *cookie, zn_error *err)
{
    zn_status s;

    zn_ahead_start(a, set);
    pthread_mutex_lock(&a->lock);
    while (a->busy) {
        wait_a_while(a);
        if (!a->busy || !poll)
            continue;
        pthread_mutex_unlock(&a->lock);
        if (!poll(cookie))
            return ZN_E_CANCELLED;
        pthread_mutex_lock(&a->lock);
    }
    s = a->status;
    pthread_mutex_unlock(&a->lock);
    return s ? zn_fail(err, s, "%s", a->err.text) : ZN_OK;
}

const zn_entry *zn_ahead_entry(const zn_ahead *a, const zn_entry *e)
{
    for (int i = a->set == NONE ? a->n_tensors : a->first[a->set]; i < a->n_tensors && i < a->first[a->set + 1]; i++)
        if (a->tensor[i] == e)
            return &a->copy[i - a->first[a->set]];
    return NULL;
}
