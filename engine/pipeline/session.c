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
 *      most, and under that calls a host's progress.  So a thread may wait for it, unless it has an engine's turn itself: inside of a run it is told that the engine is
 *      busy, and closing is left to the next one.
 *   3. `working` and `pool` are the thread's that has the turn. */
#include "session_state.h"

#include "engines.h"
#include "model.h"
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_IDLE = 8 }; /* unused models that are kept open */

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

static void free_entry(entry *e)
{
    zn_model_close(&e->handle);
    free(e->name);
    free(e);
}

static void unlink_entry(zn_session *s, const entry *e)
{
    entry **at = &s->entries;

    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
}

/* Closes models that nobody uses: those that are retired, and the least recently used beyond `most`; not `keep`. */
static void close_idle(zn_session *s, int most, const entry *keep)
{
    entry *e;
    int n;

    while (!zn_turn_held(ZN_TURN_ENGINE)) {
        zn_lock_take(&s->lock);
        for (n = 0, e = s->entries; e; e = e->next)
            if (e->state == READY && !e->users && e != keep && (e->retired || ++n > most))
                break;
        if (e)
            e->state = CLOSING;
        zn_lock_give(&s->lock);
        if (!e)
            return;
        zn_model_close(&e->handle);
        zn_lock_take(&s->lock);
        unlink_entry(s, e);
        pthread_cond_broadcast(&s->changed);
        zn_lock_give(&s->lock);
        free_entry(e);
    }
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
    zn_session_started(s);
    while (s->entries) {
        entry *e = s->entries;

        s->entries = e->next;
        free_entry(e);
    }
    while (s->computers) {
        computer *c = s->computers;

        s->computers = c->next;
        zn_engine_close(&c->handle);
        free(c->name);
        free(c);
    }
    zn_tokenizer_close(&s->tokenizer);
    zn_pool_close(&s->pool);
    pthread_cond_destroy(&s->changed);
    zn_lock_end(&s->lock);
    zn_turn_end(&s->turn);
    free(s);
    *session = NULL;
}

zn_status zn_session_take_tokenizer(zn_tokenizer **out, zn_key *file, zn_session *s, const char *path, zn_error *err)
{
    *out = NULL;
    *file = (zn_key){ 0, 0 };
    zn_key_add_file(file, path);
    zn_lock_take(&s->lock);
    if (file->a == s->tokenizer_file.a && file->b == s->tokenizer_file.b) {
        *out = s->tokenizer;
        s->tokenizer = NULL;
    }
    zn_lock_give(&s->lock);
    return *out ? ZN_OK : zn_tokenizer_open(out, path, err);
}

void zn_session_give_tokenizer(zn_session *s, zn_key file, zn_tokenizer **tokenizer)
{
    zn_tokenizer *old;

    zn_lock_take(&s->lock);
    old = s->tokenizer;
    s->tokenizer = *tokenizer;
    s->tokenizer_file = file;
    zn_lock_give(&s->lock);
    zn_tokenizer_close(&old);
    *tokenizer = NULL;
}

int zn_session_models(zn_session *s)
{
    int n = 0;

    zn_lock_take(&s->lock);
    for (const entry *e = s->entries; e; e = e->next)
        n++;
    zn_lock_give(&s->lock);
    return n;
}

uint64_t zn_session_runs(const zn_session *s)
{
    return atomic_load(&s->n_runs);
}

uint64_t zn_session_pixels(const zn_session *s)
{
    return atomic_load(&s->n_pixels);
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

    if (!status && mine && (s->working || zn_turn_held(ZN_TURN_ENGINE)))
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

void zn_task_pause(zn_task_turn *t)
{
    t->session->working = false;
}

void zn_task_resume(zn_task_turn *t)
{
    t->session->working = true;
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
static const char *engine_of(const zn_choice *choice)
{
    return choice && choice->engine && *choice->engine ? choice->engine : "auto";
}

static zn_status get_engine(zn_engine **out, zn_session *s, const zn_choice *choice, zn_error *err)
{
    const char *name = engine_of(choice);
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

    status = zn_engine_open_early(&handle, name, n_threads, err);
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

bool zn_session_has_engine(zn_session *s, const zn_choice *choice)
{
    const zn_engine *engine;
    const computer *c;

    zn_lock_take(&s->lock);
    c = find_computer(s, engine_of(choice), choice ? choice->n_threads : 0);
    engine = c && c->state == READY ? c->handle : NULL;
    zn_lock_give(&s->lock);
    return engine && !zn_engine_starting(engine);
}

bool zn_session_is_remote(zn_session *s, const zn_choice *choice)
{
    zn_engine *engine;

    return !get_engine(&engine, s, choice, NULL) && zn_engine_is_remote(engine);
}

void zn_session_started(zn_session *s)
{
    zn_lock_take(&s->lock);
    while (s->starting)
        zn_lock_wait(&s->lock, &s->changed);
    zn_lock_give(&s->lock);
}

bool zn_session_is_starting(zn_session *s)
{
    bool starting;

    zn_lock_take(&s->lock);
    starting = s->starting > 0;
    zn_lock_give(&s->lock);
    return starting;
}

void zn_session_starting(zn_session *s, int more)
{
    zn_lock_take(&s->lock);
    s->starting += more;
    pthread_cond_broadcast(&s->changed);
    zn_lock_give(&s->lock);
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

static entry *find_entry(zn_session *s, const char *name)
{
    entry *e = s->entries;

    while (e && strcmp(e->name, name))
        e = e->next;
    return e;
}

static bool any_closing(const zn_session *s)
{
    const entry *e = s->entries;

    while (e && e->state != CLOSING)
        e = e->next;
    return e != NULL;
}

/* Finds the entry of that name, ready, or lists `mine` as opening; with one user more.  An `alone` one waits for the memory of
 * those that are closing, too.  NULL: busy. */
static entry *find_or_list(zn_session *s, entry *mine, bool alone)
{
    entry *e;

    zn_lock_take(&s->lock);
    while (((e = find_entry(s, mine->name)) && e->state != READY) || (alone && any_closing(s))) {
        if (zn_turn_held(ZN_TURN_ENGINE)) {
            zn_lock_give(&s->lock);
            return NULL;
        }
        zn_lock_wait(&s->lock, &s->changed);
    }
    if (e)
        unlink_entry(s, e);
    else if (!zn_turn_held(ZN_TURN_ENGINE))
        e = mine;
    if (e) {
        e->next = s->entries;
        s->entries = e;
        e->users++;
        e->retired = false;
    }
    zn_lock_give(&s->lock);
    return e;
}

/* One user less. */
static void let_go(zn_session *s, entry *e, bool retired)
{
    zn_lock_take(&s->lock);
    e->users--;
    e->retired = e->retired || retired;
    zn_lock_give(&s->lock);
    close_idle(s, MAX_IDLE, NULL);
}

/* Opens what is listed as opening.  An error of a file stays until its time or size changes; all others may be temporary: *gone,
 * and whoever waits tries again. */
static zn_status open_listed(bool *gone, zn_session *s, entry *e, zn_engine *engine, const char *id, const zn_open *how,
                             zn_error *err)
{
    const zn_status status = zn_model_open(&e->handle, engine, id, how, &e->error);

    if (err)
        *err = e->error;
    *gone = status && !(status == ZN_E_FILE && how->n_files);
    zn_lock_take(&s->lock);
    e->state = READY;
    if (*gone)
        unlink_entry(s, e);
    pthread_cond_broadcast(&s->changed);
    zn_lock_give(&s->lock);
    if (*gone)
        free_entry(e);
    return status;
}

/* The entry of that name, with one user more. */
static zn_status get_entry(entry **out, zn_session *s, char *name, zn_engine *engine, const char *id,
                           const zn_open *how, bool alone, zn_error *err)
{
    entry *e = NULL, *mine = name ? calloc(1, sizeof *mine) : NULL;
    bool gone = false;
    zn_status status;

    if (!mine) {
        free(name);
        return zn_fail(err, ZN_E_MEMORY, "out of memory");
    }
    mine->name = name;
    if (alone) { /* first of all, but for itself */
        zn_lock_take(&s->lock);
        e = find_entry(s, name);
        zn_lock_give(&s->lock);
        close_idle(s, 0, e);
    }
    e = find_or_list(s, mine, alone);
    if (e == mine) {
        status = open_listed(&gone, s, e, engine, id, how, err);
    } else {
        status = !e ? zn_busy(err) : e->handle ? ZN_OK : zn_fail(err, ZN_E_FILE, "%s", e->error.text);
        free_entry(mine);
    }
    if (status && e && !gone)
        let_go(s, e, false);
    *out = e;
    return status;
}

static zn_status begin(zn_use *u, const char *id, const char *path, const zn_terms *terms, zn_error *err)
{
    zn_open how = { .files = &path,
                    .n_files = path != NULL,
                    .beside = terms->beside,
                    .progress = terms->progress,
                    .cookie = terms->cookie };
    zn_engine *engine;
    const zn_status status = get_engine(&engine, u->session, &terms->choice, err);

    if (status)
        return status;
    how.precision = precision_on(engine, &terms->choice, &u->replaced);
    return get_entry(&u->entry, u->session, name_of(id, path, engine, how.precision), engine, id, &how, terms->alone,
                     err);
}

/* *weights: the file that is given, or else the model's own, in path; NULL: it has none. */
static zn_status find_file(const char **weights, char path[4096], const char *id, zn_error *err)
{
    const zn_model_info *info = zn_model_named(id);

    if (err)
        err->text[0] = 0;
    if (!info)
        return zn_fail(err, ZN_E_USAGE, "There is no model '%s' in this version of Zenith.", id);
    if (info->weights && *weights && **weights)
        return ZN_OK;
    *weights = info->weights ? path : NULL;
    return info->weights ? zn_weights_find(path, 4096, info->weights, err) : ZN_OK;
}

zn_status zn_use_begin(zn_use **out, zn_session *s, const char *id, const char *weights, const zn_terms *terms,
                       zn_error *err)
{
    static const zn_terms none;
    char path[4096];
    zn_status status = find_file(&weights, path, id, err);
    zn_use *u;

    *out = NULL;
    if (status)
        return status;
    terms = terms ? terms : &none;
    if (!(u = calloc(1, sizeof *u)))
        return zn_fail(err, ZN_E_MEMORY, "out of memory");
    u->session = s;
    u->beside = terms->beside;
    if ((status = begin(u, id, weights, terms, err))) {
        free(u);
        return status;
    }
    close_idle(s, MAX_IDLE, NULL);
    *out = u;
    return ZN_OK;
}

static void end(zn_use **use, bool retired)
{
    zn_use *u = use ? *use : NULL;

    if (!u)
        return;
    let_go(u->session, u->entry, retired);
    free(u);
    *use = NULL;
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
    return u->entry->handle;
}

const char *zn_use_name(const zn_use *u)
{
    return u->entry->name;
}

void zn_session_ahead(zn_session *s, const char *id, const char *weights, const zn_terms *terms)
{
    zn_open how = { .files = &weights, .n_files = 1, .progress = terms->progress, .cookie = terms->cookie };
    zn_engine *engine;

    if (get_engine(&engine, s, &terms->choice, NULL) || !zn_engine_starting(engine))
        return;
    how.precision = precision_on(engine, &terms->choice, NULL);
    zn_model_ahead(engine, zn_arch_named(id), &how);
}

/* ---- plans and loops ------------------------------------------------------------------------------------------ */

/* A model of that name which is open on a GPU, with one user more: its plan is that of a new one, without reading the file's header
 * and making its tables again, which for Z-Image takes longer than a step.  NULL: there is none. */
static entry *use_open(zn_session *s, const zn_engine *engine, const char *name)
{
    entry *e;

    if (!name || !zn_engine_is_remote(engine))
        return NULL;
    zn_lock_take(&s->lock);
    e = find_entry(s, name);
    e = e && e->state == READY && e->handle ? e : NULL;
    if (e)
        e->users++;
    zn_lock_give(&s->lock);
    return e;
}

static zn_status plan_with(zn_planned *out, zn_model *model, const zn_array *in, int n_in, const zn_job *job,
                           zn_error *err)
{
    zn_array results[ZN_MAX_PORTS] = { { 0 } };
    zn_status status = zn_model_plan(model, in, n_in, job, &out->plan, err);

    if (!status)
        status = zn_model_shape(model, in, n_in, results, err);
    if (!status) {
        out->out = results[0];
        out->precision = zn_model_precision(model);
    }
    return status;
}

zn_status zn_session_plan(zn_planned *out, zn_session *s, const char *id, const char *weights, const zn_terms *terms,
                          const zn_array *in, int n_in, const zn_job *job, zn_error *err)
{
    zn_open how = { .files = &weights, .n_files = weights != NULL, .plan_only = true };
    zn_job own = job ? *job : (zn_job){ 0 };
    zn_model *model = NULL;
    zn_engine *engine;
    zn_status status = get_engine(&engine, s, &terms->choice, err);
    bool planned = false;
    char *name;
    entry *e;

    own.beside = own.beside ? own.beside : terms->beside;
    if (status)
        return status;
    how.precision = precision_on(engine, &terms->choice, NULL);
    name = name_of(id, weights, engine, how.precision);
    if ((e = use_open(s, engine, name))) {
        planned = !plan_with(out, e->handle, in, n_in, &own, err) && !out->plan.streamed;
        let_go(s, e, false);
    }
    free(name);
    if (planned)
        return ZN_OK;
    status = zn_model_open(&model, engine, id, &how, err);
    if (!status)
        status = plan_with(out, model, in, n_in, &own, err);
    zn_model_close(&model);
    return status;
}

/* That of an open one; false: it is not. */
static bool open_geometry(zn_geometry *out, zn_session *s, const char *name)
{
    const entry *e;

    zn_lock_take(&s->lock);
    e = name ? find_entry(s, name) : NULL;
    e = e && e->state == READY && e->handle ? e : NULL;
    if (e)
        *out = *zn_model_geometry(e->handle);
    zn_lock_give(&s->lock);
    return e != NULL;
}

zn_status zn_session_geometry(zn_geometry *out, zn_session *s, const char *id, const char *weights,
                              const zn_terms *terms, zn_error *err)
{
    char path[4096], *name;
    zn_model *model = NULL;
    zn_engine *engine;
    zn_open how = { .n_files = 1, .plan_only = true };
    zn_status status = find_file(&weights, path, id, err);

    if (!status)
        status = get_engine(&engine, s, &terms->choice, err);
    if (status)
        return status;
    how.precision = precision_on(engine, &terms->choice, NULL);
    how.files = &weights;
    how.n_files = weights != NULL;
    name = name_of(id, weights, engine, how.precision);
    if (!open_geometry(out, s, name) && !(status = zn_model_open(&model, engine, id, &how, err)))
        *out = *zn_model_geometry(model);
    zn_model_close(&model);
    free(name);
    return status;
}

void zn_session_loop(zn_session *s, const zn_choice *choice, zn_task *task, void *cookie, int n_items)
{
    enum { MOST = 8 };
    zn_engine *engine;
    const int n = get_engine(&engine, s, choice, NULL) ? 1 : engine->n_threads < MOST ? engine->n_threads : MOST;

    if (s->pool && zn_pool_size(s->pool) != n)
        zn_pool_close(&s->pool);
    if (!s->pool && n > 1)
        s->pool = zn_pool_open(n);
    if (s->pool)
        zn_pool_run(s->pool, task, cookie, n_items);
    for (int i = 0; !s->pool && i < n_items; i++)
        task(cookie, i, 0);
}

zn_status zn_session_find_faces(zn_face *list, int max, int *n, zn_session *s, const zn_choice *choice,
                                const char *weights, const zn_source *in, zn_error *err)
{
    zn_finder *finder = NULL;
    zn_engine *engine;
    zn_status status = get_engine(&engine, s, choice, err);

    *n = 0;
    if (!status) {
        const zn_open how = { .files = &weights,
                              .n_files = weights != NULL,
                              .precision = precision_on(engine, choice, NULL) };

        atomic_fetch_add(&s->n_runs, 1);
        status = zn_finder_open(&finder, engine, &how, err);
    }
    if (!status)
        status = zn_find_faces(list, max, n, finder, in, err);
    zn_finder_close(&finder);
    return status;
}
