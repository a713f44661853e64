/* SPDX-License-Identifier: MIT */
/* session.c - engines and models, opened once and kept.
 *
 *   begin ── in the list? ── yes ── ready ── one user more
 *               │              └── opening or closing ── wait for `changed`, look again
 *               └── no ── listed as opening ── opened ── ready, others wake up
 *   end ── one user less ── idle ── too many: listed as closing ── closed ── out of the list
 *
 * Invariants:
 *   1. `lock` guards the lists and all in them but the handle, which is the thread's that opens or closes it, and constant in
 *      between.  Nothing is opened, closed or called under it.
 *   2. An entry that is opening or closing changes its state within bounded time: its thread waits for the engine's turn at
 *      most.  So a thread may wait for it, unless it has an engine's turn itself: inside of a run it is told that the engine is
 *      busy, and closing is left to the next one.
 *   3. `working` is the thread's that has the turn. */
#include "session.h"

#include "settings.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_IDLE = 8 }; /* unused models that are kept open */

typedef enum state { OPENING, READY, CLOSING } state;

typedef struct computer { /* an engine; never closed before the session */
    char *name;           /* as asked for: "auto" */
    int n_threads;
    state state;
    zn_engine *handle;
    struct computer *next;
} computer;

struct zn_use {
    zn_session *session;
    char *name; /* see name_of */
    state state;
    int users;
    bool retired;     /* to be closed as soon as nobody uses it */
    size_t beside;    /* of the last that began */
    zn_model *handle; /* NULL: the weights are bad, and error says why */
    zn_error error;
    zn_note replaced; /* a precision that the engine lacks, or "" */
    zn_use *next;
};

struct zn_session {
    zn_turn turn; /* one task after the other */
    bool working; /* inside of a composite */
    zn_lock lock;
    pthread_cond_t changed; /* the state of an entry */
    computer *computers;
    zn_use *uses; /* last used first */
    atomic_ullong n_runs;
};

/* ---- sessions ------------------------------------------------------------------------------------------------ */

zn_status zn_session_open(zn_session **out, zn_error *err)
{
    zn_session *s = *out = calloc(1, sizeof *s);

    if (!s)
        return zn_fail(err, ZN_E_MEMORY, "out of memory");
    if (err)
        err->text[0] = 0;
    zn_turn_init(&s->turn, ZN_TURN_SESSION);
    zn_lock_init(&s->lock, ZN_LOCK_SESSION);
    pthread_cond_init(&s->changed, NULL);
    return ZN_OK;
}

static bool inside_a_run(void)
{
    return zn_turn_held(ZN_TURN_ENGINE);
}

static void free_use(zn_use *u)
{
    zn_model_close(&u->handle);
    free(u->name);
    free(u);
}

static void unlink_use(zn_session *s, const zn_use *u)
{
    zn_use **at = &s->uses;

    while (*at != u)
        at = &(*at)->next;
    *at = u->next;
}

/* Closes models that nobody uses: those that are retired, and the least recently used beyond `most`; not `keep`. */
static void close_idle(zn_session *s, int most, const zn_use *keep)
{
    zn_use *u;
    int n;

    if (inside_a_run())
        return;
    do {
        zn_lock_take(&s->lock);
        for (n = 0, u = s->uses; u; u = u->next)
            if (u->state == READY && !u->users && u != keep && (u->retired || ++n > most))
                break;
        if (u)
            u->state = CLOSING;
        zn_lock_give(&s->lock);
        if (!u)
            break;
        zn_model_close(&u->handle);
        zn_lock_take(&s->lock);
        unlink_use(s, u);
        pthread_cond_broadcast(&s->changed);
        zn_lock_give(&s->lock);
        free_use(u);
    } while (true);
}

void zn_session_trim(zn_session *s)
{
    close_idle(s, 0, NULL);
}

void zn_session_close(zn_session **session)
{
    zn_session *s = session ? *session : NULL;

    if (!s)
        return;
    while (s->uses) {
        zn_use *u = s->uses;

        s->uses = u->next;
        free_use(u);
    }
    while (s->computers) {
        computer *c = s->computers;

        s->computers = c->next;
        zn_engine_close(&c->handle);
        free(c->name);
        free(c);
    }
    pthread_cond_destroy(&s->changed);
    zn_lock_end(&s->lock);
    zn_turn_end(&s->turn);
    free(s);
    *session = NULL;
}

int zn_session_models(zn_session *s)
{
    int n = 0;

    zn_lock_take(&s->lock);
    for (const zn_use *u = s->uses; u; u = u->next)
        n++;
    zn_lock_give(&s->lock);
    return n;
}

uint64_t zn_session_runs(const zn_session *s)
{
    return atomic_load(&s->n_runs);
}

zn_status zn_session_enter(zn_session *s, zn_error *err)
{
    return zn_turn_take(&s->turn, err);
}

void zn_session_leave(zn_session *s)
{
    zn_turn_give(&s->turn);
    close_idle(s, MAX_IDLE, NULL); /* what could not be closed inside of a run */
}

zn_status zn_task_begin(zn_task_turn *t, zn_session *s, zn_error *err)
{
    const bool mine = zn_turn_is_mine(&s->turn);
    zn_status status = mine ? ZN_OK : zn_turn_take(&s->turn, err);

    if (!status && mine && (s->working || inside_a_run()))
        status = zn_busy(err);
    if (status)
        return status;
    s->working = true;
    *t = (zn_task_turn){ s, !mine };
    return ZN_OK;
}

void zn_task_end(zn_task_turn *t)
{
    t->session->working = false;
    if (t->entered)
        zn_session_leave(t->session);
}

void zn_note_add(zn_note *note, const char *sentence)
{
    const size_t len = strlen(note->text);

    if (!*sentence || strstr(note->text, sentence))
        return;
    snprintf(note->text + len, sizeof note->text - len, "%s%s",
             !len                             ? ""
                 : note->text[len - 1] == '.' ? " "
                                              : ". ",
             sentence);
    zn_cut(note->text, sizeof note->text - 1);
}

/* ---- engines ------------------------------------------------------------------------------------------------- */

static computer *find_computer(zn_session *s, const char *name, int n_threads)
{
    computer *c = s->computers;

    while (c && (c->n_threads != n_threads || strcmp(c->name, name)))
        c = c->next;
    return c;
}

/* The entry of an engine, opening, or NULL: out of memory.  Under the lock. */
static computer *list_computer(zn_session *s, const char *name, int n_threads)
{
    computer *c = calloc(1, sizeof *c);

    if (!c || !(c->name = strdup(name))) {
        free(c);
        return NULL;
    }
    c->n_threads = n_threads;
    c->next = s->computers;
    return s->computers = c;
}

static void drop_computer(zn_session *s, computer *c)
{
    computer **at = &s->computers;

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    free(c->name);
    free(c);
}

/* Another thread that opens the same engine needs nothing that this one has: waiting is safe inside of a run, too. */
static zn_status get_engine(zn_engine **out, zn_session *s, const zn_choice *choice, zn_error *err)
{
    const char *name = choice && choice->engine && *choice->engine ? choice->engine : "auto";
    const int n_threads = choice ? choice->n_threads : 0;
    zn_engine *handle = NULL;
    zn_status status;
    computer *c;

    zn_lock_take(&s->lock);
    while ((c = find_computer(s, name, n_threads)) && c->state != READY)
        zn_lock_wait(&s->lock, &s->changed);
    if (c) {
        *out = c->handle;
        zn_lock_give(&s->lock);
        return ZN_OK;
    }
    c = list_computer(s, name, n_threads);
    zn_lock_give(&s->lock);
    if (!c)
        return zn_fail(err, ZN_E_MEMORY, "out of memory");

    status = zn_engine_open(&handle, name, n_threads, err);
    zn_lock_take(&s->lock);
    if (status) {
        drop_computer(s, c);
    } else {
        c->handle = *out = handle;
        c->state = READY;
    }
    pthread_cond_broadcast(&s->changed);
    zn_lock_give(&s->lock);
    return status;
}

bool zn_session_is_remote(zn_session *s, const zn_choice *choice)
{
    zn_engine *engine;

    return !get_engine(&engine, s, choice, NULL) && zn_engine_is_remote(engine);
}

/* A precision that this CPU lacks, be it asked for or $ZENITH_PRECISION's, must not fail. */
static const char *precision_on(const zn_engine *e, const zn_choice *choice, zn_note *note)
{
    const char *name = choice && choice->precision ? choice->precision : "auto";
    const char *fp32 = zn_precision_names[ZN_FP32];
    zn_error text;
    int p = 0;

    if (!strcmp(name, "auto") && getenv("ZENITH_PRECISION"))
        name = getenv("ZENITH_PRECISION");
    while (p < ZN_N_PRECISIONS && strcmp(name, zn_precision_names[p]))
        p++;
    if (p < ZN_N_PRECISIONS && !e->be->remote && !e->be->has_precision(e->dev, (zn_precision)p)) {
        zn_fail(&text, ZN_OK, "The engine %s has no precision %s and computes in %s instead.", e->be->name, name, fp32);
        if (note)
            zn_note_add(note, text.text);
        return fp32;
    }
    return *name ? name : "auto";
}

zn_status zn_session_precision(const char **precision, zn_session *s, const zn_choice *choice, zn_note *note,
                               zn_error *err)
{
    zn_engine *engine;
    const zn_status status = get_engine(&engine, s, choice, err);

    if (!status)
        *precision = precision_on(engine, choice, note);
    return status;
}

/* ---- models -------------------------------------------------------------------------------------------------- */

/* The caller frees it. */
static char *name_of(const char *id, const char *path, const zn_engine *e, const char *precision)
{
    struct stat st = { 0 };
    char *name;
    int n;

    if (path && stat(path, &st))
        st = (struct stat){ 0 };
    n = snprintf(NULL, 0, "%s %s %d %s %lld %lld %s", id, e->be->name, e->n_threads, precision, (long long)st.st_mtime,
                 (long long)st.st_size, path ? path : "");
    if ((name = malloc((size_t)n + 1)))
        snprintf(name, (size_t)n + 1, "%s %s %d %s %lld %lld %s", id, e->be->name, e->n_threads, precision,
                 (long long)st.st_mtime, (long long)st.st_size, path ? path : "");
    return name;
}

static zn_use *find_use(zn_session *s, const char *name)
{
    zn_use *u = s->uses;

    while (u && strcmp(u->name, name))
        u = u->next;
    return u;
}

static bool any_closing(const zn_session *s)
{
    const zn_use *u = s->uses;

    while (u && u->state != CLOSING)
        u = u->next;
    return u != NULL;
}

static void put_first(zn_session *s, zn_use *u)
{
    u->next = s->uses;
    s->uses = u;
}

/* Finds the entry of that name, ready and with one user more, or lists `mine` as opening.  An `alone` one waits for the memory
 * of those that are closing, too.  NULL: busy. */
static zn_use *find_or_list(zn_session *s, zn_use *mine, bool alone)
{
    zn_use *u;

    zn_lock_take(&s->lock);
    while (((u = find_use(s, mine->name)) && u->state != READY) || (alone && any_closing(s))) {
        if (inside_a_run()) {
            zn_lock_give(&s->lock);
            return NULL;
        }
        zn_lock_wait(&s->lock, &s->changed);
    }
    if (u) {
        unlink_use(s, u);
        put_first(s, u);
        u->users++;
        u->retired = false;
        u->beside = mine->beside;
    } else if (!inside_a_run()) {
        put_first(s, u = mine);
    }
    zn_lock_give(&s->lock);
    return u;
}

/* Opens what is listed as opening.  An error of a file stays until its time or size changes; all others may be temporary. */
static zn_status open_listed(zn_use *u, zn_engine *e, const char *id, const char *path, const char *precision,
                             zn_error *err)
{
    const zn_open how = { .files = &path, .n_files = path != NULL, .precision = precision, .beside = u->beside };
    zn_session *s = u->session;
    zn_status status = zn_model_open(&u->handle, e, id, &how, &u->error);
    const bool stays = !status || (status == ZN_E_FILE && path);

    if (err)
        *err = u->error;
    zn_lock_take(&s->lock);
    u->users = !status;
    u->state = READY;
    if (!stays)
        unlink_use(s, u);
    pthread_cond_broadcast(&s->changed);
    zn_lock_give(&s->lock);
    if (!stays)
        free_use(u);
    return status;
}

static zn_status begin(zn_use **out, zn_session *s, const char *id, const char *path, const zn_terms *terms,
                       zn_error *err)
{
    const char *precision;
    zn_use *u, *mine = calloc(1, sizeof *mine);
    zn_engine *engine;
    zn_status status = mine ? get_engine(&engine, s, &terms->choice, err) : zn_fail(err, ZN_E_MEMORY, "out of memory");

    if (!status) {
        mine->session = s;
        mine->beside = terms->beside;
        precision = precision_on(engine, &terms->choice, &mine->replaced);
        if (!(mine->name = name_of(id, path, engine, precision)))
            status = zn_fail(err, ZN_E_MEMORY, "out of memory");
    }
    if (status) {
        free(mine);
        return status;
    }
    if (terms->alone) { /* first of all, but for itself */
        zn_lock_take(&s->lock);
        u = find_use(s, mine->name);
        zn_lock_give(&s->lock);
        close_idle(s, 0, u);
    }
    u = find_or_list(s, mine, terms->alone);
    if (u == mine) {
        status = open_listed(u, engine, id, path, precision, err);
    } else {
        status = !u ? zn_busy(err) : u->handle ? ZN_OK : zn_fail(err, ZN_E_FILE, "%s", u->error.text);
        free_use(mine);
        if (status)
            zn_use_end(&u);
    }
    if (!status)
        *out = u;
    close_idle(s, MAX_IDLE, NULL);
    return status;
}

zn_status zn_use_begin(zn_use **out, zn_session *s, const char *id, const char *weights, const zn_terms *terms,
                       zn_error *err)
{
    static const zn_terms none;
    const zn_model_info *info = zn_model_named(id);
    char path[4096];
    zn_status status = ZN_OK;

    *out = NULL;
    if (err)
        err->text[0] = 0;
    if (!info)
        return zn_fail(err, ZN_E_USAGE, "There is no model '%s' in this version of Zenith.", id);
    if (!info->weights)
        weights = NULL;
    else if (!weights || !*weights)
        status = zn_weights_find(path, sizeof path, info->weights, err), weights = path;
    return status ? status : begin(out, s, id, weights, terms ? terms : &none, err);
}

static void end(zn_use **use, bool retired)
{
    zn_use *u = use ? *use : NULL;
    zn_session *s;

    if (!u)
        return;
    s = u->session;
    zn_lock_take(&s->lock);
    u->users--;
    u->retired = u->retired || retired;
    zn_lock_give(&s->lock);
    *use = NULL;
    close_idle(s, MAX_IDLE, NULL);
}

void zn_use_end(zn_use **use)
{
    end(use, false);
}

void zn_use_retire(zn_use **use)
{
    end(use, true);
}

zn_model *zn_use_model(const zn_use *u)
{
    return u->handle;
}

const char *zn_use_name(const zn_use *u)
{
    return u->name;
}

/* ---- running ------------------------------------------------------------------------------------------------- */

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
    else if (inside_a_run())
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

zn_status zn_use_run(zn_use *u, const zn_array *in, int n_in, zn_array *out, const zn_job *job, zn_note *note,
                     zn_error *err)
{
    zn_error said;
    const zn_job own = job_of(u, job, &said);
    bool entered;
    const zn_status status = run_begin(u, &entered, err);

    return status ? status : run_end(u, entered, zn_model_run(u->handle, in, n_in, out, &own, err), &said, note);
}

zn_status zn_use_run_region(zn_use *u, const zn_sink *out, const zn_source *in, zn_rect roi, const zn_job *job,
                            zn_note *note, zn_error *err)
{
    zn_error said;
    const zn_job own = job_of(u, job, &said);
    bool entered;
    const zn_status status = run_begin(u, &entered, err);

    return status ? status
                  : run_end(u, entered, zn_model_run_region(u->handle, out, in, 1, roi, &own, err), &said, note);
}

zn_status zn_use_plan(zn_use *u, const zn_array *in, int n_in, const zn_job *job, zn_plan *plan, zn_error *err)
{
    zn_error said;
    const zn_job own = job_of(u, job, &said);

    return zn_model_plan(u->handle, in, n_in, &own, plan, err);
}

zn_status zn_session_plan(zn_plan *plan, zn_array *out, zn_session *s, const char *id, const char *weights,
                          const zn_terms *terms, const zn_array *in, int n_in, const zn_job *job, zn_error *err)
{
    zn_job own = job ? *job : (zn_job){ 0 };
    zn_model *model = NULL;
    zn_engine *engine;
    zn_status status = get_engine(&engine, s, &terms->choice, err);

    own.beside = own.beside ? own.beside : terms->beside;
    if (!status) {
        const zn_open how = { .files = &weights,
                              .n_files = weights != NULL,
                              .precision = precision_on(engine, &terms->choice, NULL),
                              .plan_only = true };

        status = zn_model_open(&model, engine, id, &how, err);
    }
    if (!status)
        status = zn_model_plan(model, in, n_in, &own, plan, err);
    if (!status && out)
        status = zn_model_shape(model, in, n_in, out, err);
    zn_model_close(&model);
    return status;
}

zn_status zn_session_find_faces(zn_face *list, int max, int *n, zn_session *s, const zn_choice *choice,
                                const zn_source *in, zn_error *err)
{
    zn_finder *finder = NULL;
    zn_engine *engine;
    zn_status status = get_engine(&engine, s, choice, err);

    *n = 0;
    if (!status) {
        const zn_open how = { .precision = precision_on(engine, choice, NULL) };

        atomic_fetch_add(&s->n_runs, 1);
        status = zn_finder_open(&finder, engine, &how, err);
    }
    if (!status)
        status = zn_find_faces(list, max, n, finder, in, err);
    zn_finder_close(&finder);
    return status;
}
