/* SPDX-License-Identifier: MIT */
/* bench_generate.c - `zenith bench generate`: the time of a picture from a prompt.
 *
 *   zenith bench generate --weights FOLDER [--size WxH] [--engine NAME] [--set precision=P]
 *
 * The first picture of a process opens the engine and loads the networks.  The others have another prompt and another seed; they
 * find the networks loaded where memory has room for all of them (zn_generate_plan.stays). */
#include "composites.h"

#include <stdlib.h>
#include <string.h>

enum { RUNS = 5 };

typedef enum stage { TEXT, START, STEPS, STAGES } stage; /* when each ended; then comes the decoder */

typedef struct stopwatch {
    double began, at[STAGES];
} stopwatch;

/* The parts of the progress bar of generate.c. */
static bool see(void *cookie, double done)
{
    static const double part[STAGES] = { 0.05, 0.10, 0.85 };
    stopwatch *c = cookie;

    for (int i = 0; i < STAGES; i++)
        if (done >= part[i] - 1e-6 && !c->at[i])
            c->at[i] = now_ms() - c->began;
    return true;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

bool bench_generate_has(const options *o)
{
    return o->n_words > 0 && !strcmp(o->word[0], "generate");
}

static bool run_once(double *ms, stopwatch *c, zn_generate_result *result, const zn_generate_plan *plan, zn_array *out,
                     zn_error *err)
{
    const zn_watcher watch = { .progress = see, .cookie = c };

    *c = (stopwatch){ .began = now_ms() };
    if (zn_generate_run(result, plan, NULL, NULL, out, &watch, err))
        return false;
    *ms = now_ms() - c->began;
    return true;
}

int bench_generate(const options *o)
{
    const zn_choice choice = choice_of(o);
    zn_generate how = zn_generate_defaults();
    zn_generate_result result;
    zn_generate_plan plan;
    zn_session *session = NULL;
    stopwatch c = { 0 };
    zn_array out = { 0 };
    zn_error err = { "" };
    double ms[1 + RUNS], start = now_ms();
    char prompt[64];
    bool ok;

    if (o->n_words > 1 || o->n_weights > 1 || o->json || o->layers || o->n_set > (precision_of(o) != NULL))
        return usage("generate takes --weights FOLDER, --size and --set precision=P");
    how.weights = o->n_weights ? o->weights[0] : NULL;
    how.width = o->width ? o->width : how.width;
    how.height = o->height ? o->height : how.height;
    ok = !zn_session_open(&session, &err);
    for (int i = 0; ok && i <= RUNS; i++) {
        snprintf(prompt, sizeof prompt, "a photograph of %d red foxes in the snow", i + 1);
        how.prompt = prompt;
        how.seed = (uint32_t)i;
        ok = !zn_generate_describe(&plan, session, &choice, &how, 0, 0, NULL, &err);
        if (ok && !out.data) {
            out = (zn_array){ malloc((size_t)plan.w * (size_t)plan.h * 3 * sizeof(float)), plan.h, plan.w, 3 };
            ok = out.data != NULL;
        }
        ok = ok && run_once(&ms[i], &c, &result, &plan, &out, &err);
        if (ok && i == 0)
            printf("computed by %s, %dx%d, %d steps, %d tokens, %.1f GB; first picture after %.0f ms\n",
                   result.computed_by.text, plan.w, plan.h, how.steps, result.n_tokens,
                   (double)(result.need.weights + result.need.beside) / 1e9, now_ms() - start);
        fflush(stdout);
    }
    if (ok) {
        qsort(ms + 1, RUNS, sizeof *ms, by_value);
        printf("later ones: least %.0f, median of %d %.0f ms; the last had its text after %.0f, began its steps after "
               "%.0f and its decoding after %.0f ms\n",
               ms[1], RUNS, ms[1 + RUNS / 2], c.at[TEXT], c.at[START], c.at[STEPS]);
    }
    free(out.data);
    zn_session_close(&session);
    return ok ? EXIT_DONE : fail("%s", *err.text ? err.text : "out of memory");
}
