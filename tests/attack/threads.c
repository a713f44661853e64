/* SPDX-License-Identifier: MIT */
/* threads.c - several threads call the library at once, on one engine and one model: runs, plans, models that come and go.
 * The engine is the CPU's or a stand-in for a GPU, which fails at a random moment.  For a build with -fsanitize=thread. */
#include "attack.h"

#include "core/status.h"
#include "handle.h"
#include "pipeline/engines.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN ZN_SOURCE_ROOT "/tests/data/golden/"

enum { MOST = 6, SIDE = 24 };

/* ---- a stand-in for a GPU -------------------------------------------------------------------------------------------- */

static zn_backend gpu;
static atomic_int syncs_left;

static zn_status failing_sync(void *dev, zn_error *err)
{
    if (atomic_fetch_sub(&syncs_left, 1) <= 0)
        return zn_fail(err, ZN_E_DEVICE, "the GPU is gone");
    return zn_backend_scalar.sync(dev, err);
}

static zn_engine *open_gpu(int lives)
{
    zn_engine *e = calloc(1, sizeof *e);

    gpu = zn_backend_scalar;
    gpu.remote = true;
    gpu.sync = failing_sync;
    atomic_store(&syncs_left, lives);
    *e = (zn_engine){ .be = &gpu, .n_threads = 2 };
    gpu.open(&e->dev, 1, NULL);
    zn_turn_init(&e->turn, ZN_TURN_ENGINE);
    return e;
}

/* ---- threads ------------------------------------------------------------------------------------------------------------ */

typedef struct worker {
    pthread_t thread;
    zn_engine *engine;
    zn_model *model;
    rnd r;
    const char *why;
} worker;

static bool read_grey(void *cookie, zn_rect rect, float *dst)
{
    (void)cookie;
    for (size_t i = (size_t)rect.w * (size_t)rect.h * 3; i; i--)
        *dst++ = 0.5f;
    return true;
}

static bool write_nowhere(void *cookie, zn_rect rect, const float *src)
{
    (void)cookie, (void)rect, (void)src;
    return true;
}

static bool progress(void *cookie, double done)
{
    return done < *(double *)cookie;
}

static void run_once(worker *w)
{
    static const float grey[SIDE * SIDE * 3];
    const zn_value set[] = { { "sigma", 20 } };
    float out[SIDE * SIDE * 3];
    zn_error err = { "" }, note = { "?" };
    double stop = chance(&w->r, 80) ? 2 : 0.5;
    const zn_job job = { .set = set, .n_set = chance(&w->r, 70), .progress = progress, .cookie = &stop, .note = &note };
    const zn_array x = { (float *)(uintptr_t)grey, SIDE, SIDE, 3 };
    zn_array y = { out, SIDE, SIDE, 3 };
    const zn_status s = zn_model_run(w->model, &x, 1, &y, &job, &err);

    if (s && s != ZN_E_CANCELLED)
        w->why = "a run failed";
    else if (!s && strcmp(note.text, "") && !strstr(note.text, "engine instead"))
        w->why = "a note of something else";
}

static void *work(void *cookie)
{
    worker *w = cookie;

    for (int i = 0; i < 4 && !w->why; i++) {
        const zn_array x = { NULL, SIDE, SIDE, 3 };
        const zn_source source = { SIDE, SIDE, 3, read_grey, NULL };
        const zn_sink sink = { write_nowhere, NULL };
        const char *const file = GOLDEN "denoise.safetensors";
        const zn_open open = { .files = &file, .n_files = 1 };
        zn_model *other = NULL;
        zn_error err = { "" };
        zn_array y = { 0 };
        zn_plan plan;
        float sigma[3];

        switch (below(&w->r, 8)) {
        case 0:
            if (zn_model_plan(w->model, &x, 1, NULL, &plan, &err) || zn_model_shape(w->model, &x, 1, &y, &err))
                w->why = "a plan failed";
            break;
        case 1:
            if (zn_model_open(&other, w->engine, "denoise-fast", &open, &err))
                w->why = "a second model cannot be opened";
            zn_model_close(&other);
            break;
        case 2:
            if (zn_noise_estimate(sigma, &source, &err))
                w->why = "the noise cannot be estimated";
            break;
        case 3:
            if (zn_model_run_region(w->model, &sink, &source, 1, (zn_rect){ 3, 3, 9, 9 }, NULL, &err))
                w->why = "a region failed";
            break;
        default:
            run_once(w);
        }
    }
    return NULL;
}

static bool run(const bytes *b, rnd *r, const char **why)
{
    const char *const file = GOLDEN "denoise.safetensors";
    const bool remote = chance(r, 60);
    zn_engine *e = NULL;
    zn_model *m = NULL;
    worker list[MOST] = { { 0 } };
    const int n = 2 + (int)below(r, MOST - 1);
    zn_error err;

    (void)b;
    if (remote)
        e = open_gpu(chance(r, 10) ? 0 : 1 + (int)below(r, 12));
    else if (zn_engine_open(&e, chance(r, 50) ? "scalar" : NULL, 2, &err))
        abort();
    *why = "the model cannot be opened";
    if (zn_model_open(&m, e, "denoise-fast", &(zn_open){ .files = &file, .n_files = 1 }, &err))
        return false;
    for (int i = 0; i < n; i++) {
        list[i] = (worker){ .engine = e, .model = m, .r = { rnd_next(r) } };
        if (pthread_create(&list[i].thread, NULL, work, &list[i]))
            abort();
    }
    *why = NULL;
    for (int i = 0; i < n; i++) {
        pthread_join(list[i].thread, NULL);
        *why = list[i].why ? list[i].why : *why;
    }
    zn_model_close(&m);
    zn_engine_close(&e);
    return !*why;
}

int main(int argc, char **argv)
{
    static const attack_target list[] = { { "threads", NULL, run, 120, 200, true } };

    return attack_main(argc, argv, list, 1, NULL);
}
