/* SPDX-License-Identifier: MIT */
/* test_session.c - engines and models that threads share: opened once, closed when idle, never waited for by a thread that
 * others wait for; the order of locks. */
#include "test.h"

#include "core/locks.h"
#include "pipeline/session.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define GOLDEN ZN_SOURCE_ROOT "/tests/data/golden/"

enum { SIDE = 16, PATIENCE = 120 /* seconds until a deadlock is one */ };

/* Models of a few bytes, which need no file. */
static const char *const tiny[] = { "sd-latent-rgb",   "sdxl-latent-rgb",  "sd3-latent-rgb",
                                    "flux-latent-rgb", "flux2-latent-rgb", "wan-latent-rgb" };
enum { N_TINY = sizeof tiny / sizeof *tiny };

static zn_terms terms_of(const char *precision)
{
    return (zn_terms){ .choice = { .engine = "scalar", .n_threads = 1, .precision = precision } };
}

static zn_session *open_session(void)
{
    zn_session *s = NULL;

    zn_session_open(&s, NULL);
    return s;
}

/* A denoiser of few channels: its runs call back. */
static zn_status begin_denoiser(zn_use **out, zn_session *s, zn_error *err)
{
    const zn_terms terms = terms_of("fp32");

    return zn_use_begin(out, s, "denoise-fast", GOLDEN "denoise.safetensors", &terms, err);
}

static zn_status run_denoiser(zn_use *use, bool (*progress)(void *, double), void *cookie, zn_note *note, zn_error *err)
{
    static const float picture[SIDE * SIDE * 3]; /* and a map of noise: nothing is measured */
    float result[SIDE * SIDE * 3];
    const zn_array in[] = { { (float *)picture, SIDE, SIDE, 3 }, { (float *)picture, SIDE, SIDE, 3 } };
    zn_array out = { result, SIDE, SIDE, 3 };
    const zn_job job = { .progress = progress, .cookie = cookie };

    return zn_use_run(use, in, 2, &out, &job, note, err);
}

/* ---- what is kept -------------------------------------------------------------------------------------------- */

static void test_a_model_is_opened_once(void)
{
    const zn_terms terms = terms_of(NULL);
    zn_session *s = open_session();
    zn_use *a = NULL, *b = NULL;
    zn_error err;

    CHECK(!zn_use_begin(&a, s, tiny[0], NULL, &terms, &err), "%s", err.text);
    CHECK(!zn_use_begin(&b, s, tiny[0], NULL, &terms, &err), "%s", err.text);
    CHECK(zn_use_model(a) == zn_use_model(b) && zn_session_models(s) == 1 && strstr(zn_use_name(a), tiny[0]),
          "two of %s", zn_use_name(a));
    zn_use_end(&a);
    CHECK(!a && zn_use_model(b), "the second user lost it");
    zn_use_end(&b);
    zn_use_end(&b);
    CHECK(zn_session_models(s) == 1, "it was not kept");
    zn_session_trim(s);
    CHECK(!zn_session_models(s), "it was kept");
    CHECK(zn_use_begin(&a, s, "no-such-model", NULL, &terms, &err) == ZN_E_USAGE && !a && strstr(err.text, "no-such"),
          "'%s'", err.text);
    zn_session_close(&s);
    zn_session_close(&s);
}

/* Idle ones make room: the least recently used first; all of them for one that wants to be alone; a retired one at once. */
static void test_idle_models_are_closed(void)
{
    static const char *const precisions[] = { "fp32", "fp16", "bf16" };
    zn_terms terms = terms_of(NULL);
    zn_session *s = open_session();
    zn_use *first = NULL, *use = NULL;
    zn_error err;

    terms.choice.precision = "int8";
    CHECK(!zn_use_begin(&first, s, tiny[0], NULL, &terms, &err), "%s", err.text);
    for (int i = 0; i < 3 * N_TINY; i++) {
        terms.choice.precision = precisions[i / N_TINY];
        CHECK(!zn_use_begin(&use, s, tiny[i % N_TINY], NULL, &terms, &err), "%s", err.text);
        zn_use_end(&use);
    }
    CHECK(zn_session_models(s) == 1 + 8, "%d are open", zn_session_models(s));
    terms.alone = true;
    CHECK(!zn_use_begin(&use, s, tiny[1], NULL, &terms, &err), "%s", err.text);
    CHECK(zn_session_models(s) == 2, "%d are open beside one that wants to be alone", zn_session_models(s));
    zn_use_retire(&use);
    CHECK(zn_session_models(s) == 1 && zn_use_model(first), "%d are open", zn_session_models(s));
    zn_use_end(&first);
    zn_session_close(&s);
}

static void write_file(const char *path, const char *from)
{
    char buffer[4096];
    FILE *in = from ? fopen(from, "rb") : NULL, *out = fopen(path, "wb");
    size_t n;

    while (in && (n = fread(buffer, 1, sizeof buffer, in)))
        fwrite(buffer, 1, n, out);
    if (in)
        fclose(in);
    else
        fputs("no weights", out);
    fclose(out);
}

/* A bad file is remembered until it changes; one that is not there is not. */
static void test_a_bad_file(void)
{
    const zn_terms terms = terms_of(NULL);
    char path[] = "/tmp/zenith-session-XXXXXX";
    zn_session *s = open_session();
    zn_use *use = NULL;
    zn_error err[2];

    close(mkstemp(path));
    write_file(path, NULL);
    for (int i = 0; i < 2; i++)
        CHECK(zn_use_begin(&use, s, "denoise-fast", path, &terms, &err[i]) == ZN_E_FILE && !use && *err[i].text,
              "opened");
    CHECK(!strcmp(err[0].text, err[1].text) && zn_session_models(s) == 1, "'%s', then '%s'", err[0].text, err[1].text);
    write_file(path, GOLDEN "denoise.safetensors");
    CHECK(!zn_use_begin(&use, s, "denoise-fast", path, &terms, &err[0]), "%s", err[0].text);
    zn_use_end(&use);
    unlink(path);
    zn_session_close(&s);
}

/* A precision of GPUs works on a CPU, and is mentioned. */
static void test_a_precision_that_is_not_there(void)
{
    zn_session *s = open_session();
    zn_terms terms = terms_of("fp8");
    zn_note note = { "" };
    zn_error err;
    zn_use *use = NULL;

    CHECK(!zn_use_begin(&use, s, "denoise-fast", GOLDEN "denoise.safetensors", &terms, &err), "%s", err.text);
    CHECK(!strcmp(zn_model_precision(zn_use_model(use)), "fp32"), "%s", zn_model_precision(zn_use_model(use)));
    for (int i = 0; i < 2; i++)
        CHECK(!run_denoiser(use, NULL, NULL, &note, &err), "%s", err.text);
    CHECK(!strcmp(note.text, "The engine scalar has no precision fp8 and computes in fp32 instead."), "'%s'",
          note.text);
    zn_note_add(&note, "More");
    zn_note_add(&note, "and more");
    CHECK(strstr(note.text, "instead. More. and more"), "'%s'", note.text);
    CHECK(zn_session_runs(s) == 2, "%llu runs", (unsigned long long)zn_session_runs(s));
    zn_use_end(&use);
    terms.choice.precision = "fp99";
    CHECK(zn_use_begin(&use, s, tiny[0], NULL, &terms, &err) == ZN_E_USAGE && strstr(err.text, "fp99"), "'%s'",
          err.text);
    zn_session_close(&s);
}

/* ---- from inside of a run ------------------------------------------------------------------------------------ */

typedef struct inside {
    zn_session *session;
    zn_use *running, *idle;
    int n;
    char why[600]; /* of the first thing that is wrong */
} inside;

static void expect(inside *k, zn_status got, zn_status want, const char *what)
{
    if (got != want && !*k->why)
        snprintf(k->why, sizeof k->why, "%s: %d", what, got);
}

/* What a host may do while it draws a bar. */
static bool ask_inside(void *cookie, double done)
{
    const zn_terms terms = terms_of(NULL);
    const zn_array z = { NULL, 4, 4, 4 };
    inside *k = cookie;
    zn_use *use = NULL;
    zn_task_turn task;
    zn_planned plan;
    zn_error err;

    if (k->n++ || done >= 1) /* called once more after the run, where all is allowed */
        return true;
    expect(k, zn_use_begin(&use, k->session, tiny[0], NULL, &terms, &err), ZN_OK, "one that is open");
    zn_use_retire(&use);
    expect(k, zn_use_begin(&use, k->session, tiny[1], NULL, &terms, &err), ZN_E_USAGE, "one that is not open");
    expect(k, strstr(err.text, "busy") ? ZN_OK : ZN_E_USAGE, ZN_OK, err.text);
    expect(k, zn_session_plan(&plan, k->session, tiny[1], NULL, &terms, &z, 1, NULL, &err), ZN_E_USAGE, "a plan");
    expect(k, zn_session_enter(k->session, &err), ZN_E_USAGE, "entering");
    expect(k, zn_task_begin(&task, k->session, &err), ZN_E_USAGE, "a task");
    expect(k, run_denoiser(k->running, NULL, NULL, NULL, &err), ZN_E_USAGE, "a run");
    zn_session_trim(k->session);
    expect(k, zn_session_models(k->session) == 2 ? ZN_OK : ZN_E_USAGE, ZN_OK, "closed inside of a run");
    return true;
}

static void test_a_run_that_calls_back(void)
{
    const zn_terms terms = terms_of(NULL);
    inside k = { .session = open_session() };
    zn_use *idle = NULL;
    zn_error err;

    alarm(PATIENCE);
    CHECK(!begin_denoiser(&k.running, k.session, &err), "%s", err.text);
    CHECK(!zn_use_begin(&idle, k.session, tiny[0], NULL, &terms, &err), "%s", err.text);
    zn_use_end(&idle);
    CHECK(!run_denoiser(k.running, ask_inside, &k, NULL, &err), "%s", err.text);
    CHECK(k.n > 1 && !*k.why, "%d calls, %s", k.n, k.why);
    CHECK(zn_session_models(k.session) == 1, "what was retired inside is still open");
    zn_use_end(&k.running);
    zn_session_close(&k.session);
    alarm(0);
}

/* A task inside of what the front end entered, and no other inside of that. */
static void test_tasks(void)
{
    zn_session *s = open_session();
    zn_task_turn task, other;
    zn_error err;

    for (int entered = 0; entered < 2; entered++) {
        CHECK(!entered || !zn_session_enter(s, &err), "%s", err.text);
        CHECK(!zn_task_begin(&task, s, &err), "%s", err.text);
        CHECK(zn_task_begin(&other, s, &err) == ZN_E_USAGE, "a task inside of another");
        CHECK(zn_session_enter(s, &err) == ZN_E_USAGE && strstr(err.text, "busy"), "entered twice");
        zn_task_end(&task);
        CHECK(zn_session_enter(s, &err) == (entered ? ZN_E_USAGE : ZN_OK), "the turn is lost");
        zn_session_leave(s);
    }
    zn_session_close(&s);
}

/* ---- threads ------------------------------------------------------------------------------------------------- */

typedef struct other {
    zn_session *session;
    zn_status status;
    bool started;
    pthread_t thread;
    zn_use *running;
    char why[600];
} other;

static void *open_another(void *cookie)
{
    const zn_terms terms = terms_of(NULL);
    other *k = cookie;
    zn_use *use = NULL;

    k->status = zn_use_begin(&use, k->session, tiny[1], NULL, &terms, NULL);
    zn_use_end(&use);
    return NULL;
}

/* This thread has the engine; the other one is opening a model, and waits for the engine. */
static bool prepare_another(void *cookie, double done)
{
    const zn_terms terms = terms_of(NULL);
    other *k = cookie;
    zn_use *use = NULL;
    zn_error err;

    (void)done;
    if (k->started)
        return true;
    k->started = true;
    pthread_create(&k->thread, NULL, open_another, k);
    while (zn_session_models(k->session) < 3)
        sched_yield();
    if (zn_use_begin(&use, k->session, tiny[1], NULL, &terms, &err) != ZN_E_USAGE)
        snprintf(k->why, sizeof k->why, "waited for a model that another thread opens");
    if (zn_use_begin(&use, k->session, tiny[0], NULL, &terms, &err))
        snprintf(k->why, sizeof k->why, "no access to an open model: %s", err.text);
    zn_use_end(&use);
    return true;
}

/* One thread prepares another node inside of its run, while a second thread opens a model. */
static void test_preparing_inside_a_run(void)
{
    const zn_terms terms = terms_of(NULL);
    other k = { .session = open_session(), .status = ZN_E_DEVICE };
    zn_use *open = NULL;
    zn_error err;

    alarm(PATIENCE);
    CHECK(!begin_denoiser(&k.running, k.session, &err), "%s", err.text);
    CHECK(!zn_use_begin(&open, k.session, tiny[0], NULL, &terms, &err), "%s", err.text);
    CHECK(!run_denoiser(k.running, prepare_another, &k, NULL, &err), "%s", err.text);
    CHECK(k.started, "the run did not call back");
    pthread_join(k.thread, NULL);
    CHECK(!k.status && !*k.why, "%d, %s", k.status, k.why);
    zn_use_end(&open);
    zn_use_end(&k.running);
    zn_session_close(&k.session);
    alarm(0);
}

typedef struct opening { /* of a model, cancelled at the given call */
    zn_session *session;
    int calls, cancelled_at; /* 0: never */
    bool joined;             /* another thread wants the same model */
    pthread_t thread;
    zn_status status; /* of that thread */
    char why[600];
} opening;

static zn_status begin_opening(zn_use **out, opening *k, bool (*progress)(void *, double), zn_error *err)
{
    zn_terms terms = terms_of("fp32");

    terms.progress = progress;
    terms.cookie = k;
    return zn_use_begin(out, k->session, "z-image-text", ZN_RANDOM_WEIGHTS "32", &terms, err);
}

static void *open_the_same(void *cookie)
{
    opening *k = cookie;
    zn_use *use = NULL;

    k->status = begin_opening(&use, k, NULL, NULL);
    zn_use_end(&use);
    return NULL;
}

static bool cancel_opening(void *cookie, double done)
{
    opening *k = cookie;
    zn_use *use = NULL;

    if (done != 0)
        snprintf(k->why, sizeof k->why, "it reports %g", done);
    if (begin_opening(&use, k, NULL, NULL) != ZN_E_USAGE) /* not waited for: it is this thread that opens it */
        snprintf(k->why, sizeof k->why, "a model that is being opened is there");
    if (++k->calls == k->cancelled_at && k->joined)
        pthread_create(&k->thread, NULL, open_the_same, k);
    return k->calls != k->cancelled_at;
}

/* What is cancelled leaves nothing; who waits for the same model opens it, and so does the next one. */
static void test_opening_is_cancelled(void)
{
    opening k = { .session = open_session() };
    zn_use *use = NULL;
    zn_error err;
    int all;

    alarm(PATIENCE);
    CHECK(!begin_opening(&use, &k, cancel_opening, &err), "%s", err.text);
    all = k.calls;
    CHECK(all > 10 && !*k.why, "%d calls, %s", all, k.why);
    zn_use_retire(&use);
    for (int i = 0; i < 3; i++) {
        zn_status s;

        k.calls = 0;
        k.cancelled_at = i == 0 ? 1 : i == 1 ? all / 2 : all;
        k.joined = i == 1;
        s = begin_opening(&use, &k, cancel_opening, &err);
        CHECK(s == ZN_E_CANCELLED && !use && k.calls == k.cancelled_at && !*k.why, "%d after %d calls, %s, %s", s,
              k.calls, err.text, k.why);
        if (k.joined) {
            pthread_join(k.thread, NULL);
            CHECK(!k.status, "another thread got the status %d", k.status);
            zn_session_trim(k.session);
        }
        CHECK(!zn_session_models(k.session), "%d models are left", zn_session_models(k.session));
    }
    k.cancelled_at = 0;
    CHECK(!begin_opening(&use, &k, cancel_opening, &err), "%s", err.text);
    zn_use_end(&use);
    zn_session_close(&k.session);
    alarm(0);
}

typedef struct worker {
    zn_session *session;
    unsigned seed;
    pthread_t thread;
    char why[600];
} worker;

static unsigned next(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

static bool ask_often(void *cookie, double done)
{
    worker *w = cookie;
    const zn_terms terms = terms_of(NULL);
    zn_use *use = NULL;

    (void)done;
    if (!zn_use_begin(&use, w->session, tiny[next(&w->seed) % N_TINY], NULL, &terms, NULL))
        zn_use_end(&use);
    return true;
}

static void *come_and_go(void *cookie)
{
    worker *w = cookie;
    zn_error err = { "" };

    for (int i = 0; i < (INSTRUMENTED ? 40 : 200) && !*w->why; i++) {
        zn_terms terms = terms_of(next(&w->seed) % 2 ? "fp16" : NULL);
        const unsigned what = next(&w->seed) % 8;
        zn_use *use = NULL;

        terms.alone = what == 0;
        if (what < 2 ? begin_denoiser(&use, w->session, &err)
                     : zn_use_begin(&use, w->session, tiny[next(&w->seed) % N_TINY], NULL, &terms, &err))
            snprintf(w->why, sizeof w->why, "%s", err.text);
        else if (what < 2 && run_denoiser(use, ask_often, w, NULL, &err))
            snprintf(w->why, sizeof w->why, "%s", err.text);
        if (what == 7)
            zn_use_retire(&use);
        zn_use_end(&use);
        if (what == 6)
            zn_session_trim(w->session);
    }
    return NULL;
}

static void test_threads_come_and_go(void)
{
    enum { N = 4 };
    worker w[N];
    zn_session *s = open_session();

    alarm(4 * PATIENCE);
    for (unsigned i = 0; i < N; i++) {
        w[i] = (worker){ .session = s, .seed = i };
        pthread_create(&w[i].thread, NULL, come_and_go, &w[i]);
    }
    for (int i = 0; i < N; i++)
        pthread_join(w[i].thread, NULL);
    for (int i = 0; i < N; i++)
        CHECK(!*w[i].why, "thread %d: %s", i, w[i].why);
    CHECK(zn_session_models(s) <= 8, "%d models are open", zn_session_models(s));
    zn_session_trim(s);
    CHECK(!zn_session_models(s), "%d models are in use", zn_session_models(s));
    zn_session_close(&s);
    alarm(0);
}

/* ---- the order of locks -------------------------------------------------------------------------------------- */

static zn_lock lists, others;
static zn_turn engine, session;

static void in_order(void)
{
    if (zn_turn_take(&session, NULL) || zn_turn_take(&engine, NULL))
        _exit(1);
    zn_lock_take(&lists);
    zn_lock_give(&lists);
    zn_turn_give(&engine);
    zn_turn_give(&session);
}

static void two_locks(void)
{
    zn_lock_take(&lists);
    zn_lock_take(&others);
}

static void a_turn_under_a_lock(void) /* a model is opened under the lock of the list */
{
    zn_lock_take(&lists);
    zn_turn_take(&engine, NULL);
}

/* The signal that ends a process of its own, or 0. */
static int signal_of(void (*function)(void))
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (!child) {
        function();
        _exit(0);
    }
    return waitpid(child, &status, 0) == child && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_the_order_is_checked(void)
{
    zn_error err = { "" };

    zn_lock_init(&lists, ZN_LOCK_SESSION);
    zn_lock_init(&others, ZN_LOCK_SESSION);
    zn_turn_init(&engine, ZN_TURN_ENGINE);
    zn_turn_init(&session, ZN_TURN_SESSION);
    CHECK(!signal_of(in_order), "the right order is refused");
#ifndef NDEBUG
    CHECK(signal_of(two_locks) == SIGABRT, "two locks of one rank");
    CHECK(signal_of(a_turn_under_a_lock) == SIGABRT, "a turn under a lock");
#endif
    CHECK(!zn_turn_take(&engine, &err), "%s", err.text);
    CHECK(zn_turn_take(&engine, &err) == ZN_E_USAGE && strstr(err.text, "busy"), "taken twice");
    CHECK(zn_turn_take(&session, &err) == ZN_E_USAGE, "taken out of order");
    CHECK(zn_turn_is_mine(&engine) && !zn_turn_is_mine(&session), "whose turn");
    zn_turn_give(&engine);
    CHECK(!zn_turn_take(&session, &err), "%s", err.text);
    zn_turn_give(&session);
}

int main(void)
{
    RUN(test_a_model_is_opened_once);
    RUN(test_idle_models_are_closed);
    RUN(test_a_bad_file);
    RUN(test_a_precision_that_is_not_there);
    RUN(test_a_run_that_calls_back);
    RUN(test_tasks);
    RUN(test_preparing_inside_a_run);
    RUN(test_opening_is_cancelled);
    RUN(test_threads_come_and_go);
    RUN(test_the_order_is_checked);
    return test_end();
}
