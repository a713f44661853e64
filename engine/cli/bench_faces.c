/* SPDX-License-Identifier: MIT */
/* bench_faces.c - `zenith bench face-edit`: the time of an edit as zenith:diffae-manipulate makes it by default.
 *
 *   zenith bench face-edit [PICTURE] [--size WxH] [--engine NAME] [--set precision=P] [--out x=FILE.npy]
 *
 * The first edit of a process opens the engine and loads the networks; the others find them loaded, but for those that find
 * faces.  An edit finds and crops the face, encodes it, inverts it to noise, shifts its code along the first attribute, samples, and makes
 * the change of the picture.  The first estimate of a preview is timed before that.  Not measured: what GEGL does (reading and
 * converting the picture, adding the change to it).  No PICTURE: noise of --size, by default two megapixels.  If no face is found,
 * the middle is edited, which takes as long; but a face is sought in four turns then, which takes four times as long.  --out writes the change, to compare precisions. */
#include "composites.h"
#include "pictures.h"

#include "../zenith_face.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIDE = 1448,    /* of the usual picture */
    RUNS = 25,      /* with the networks loaded, */
    RUNS_MIN = 3,   /* fewer, */
    LONG_MS = 10000 /* where they take longer */
};

typedef enum stage { ENGINE, LOAD, FIND, ESTIMATE, ENCODE, UP, DOWN, STAGES } stage;

typedef struct edit {
    const options *o;
    zn_choice choice;
    zn_session *session;
    zn_array picture, out;
    char attribute[64];
    bool found;
    zn_makers computed_by;
    double ms[STAGES];   /* of the last edit */
    double begun, there; /* when the session was opened, and ms until the device was there; the next one writes it */
    pthread_t waiter;
    bool waits;
} edit;

static bool out_of_memory(zn_error *err)
{
    snprintf(err->text, sizeof err->text, "out of memory");
    return false;
}

static void see(void *cookie, const zn_array *so_far)
{
    (void)cookie, (void)so_far;
}

static void *wait_for_device(void *cookie)
{
    edit *e = cookie;

    zn_session_started(e->session);
    e->there = now_ms() - e->begun;
    return NULL;
}

/* The engine, and the attribute. */
static bool open_session(edit *e, const zn_face_how *how, zn_error *err)
{
    char names[4096];

    e->begun = now_ms();
    if (zn_session_open(&e->session, err))
        return false;
    zn_session_start(e->session, &e->choice);
    e->waits = !pthread_create(&e->waiter, NULL, wait_for_device, e);
    zn_session_is_remote(e->session, &e->choice); /* opens it */
    e->ms[ENGINE] = now_ms() - e->begun;
    zn_face_attributes(names, sizeof names, how->model);
    snprintf(e->attribute, sizeof e->attribute, "%.*s", (int)strcspn(names, ","), names);
    return true;
}

static bool find(edit *e, zn_face_plan *plan, zn_face_how *how, const zn_face_picture *in, zn_error *err)
{
    const int32_t w = e->picture.w, h = e->picture.h;
    const double start = now_ms();

    how->search = ZN_SEARCH_OR_MIDDLE;
    if (zn_face_describe(plan, e->session, &e->choice, how, w, h, err) || zn_face_find(plan, in, NULL, err))
        return false;
    e->found = plan->found;
    e->ms[FIND] = now_ms() - start;
    if (e->found)
        return true;
    how->frame = (zn_frame){ 0.5 * w, 0.5 * h, fmax(0.2 * (w < h ? w : h), 16), 0 };
    return !zn_face_describe(plan, e->session, &e->choice, how, w, h, err) && !zn_face_find(plan, in, NULL, err);
}

/* A fresh edit fills e->ms. */
static bool run_edit(edit *e, zn_error *err)
{
    const zn_watcher watch = { .estimate = see };
    const zn_face_picture in = { array_source(&e->picture), { 0, 0 } };
    zn_face_how how = zn_face_defaults();
    zn_face_result result;
    zn_face_plan plan;
    char path[4096];

    how.model = e->o->n_weights ? file_path(path, sizeof path, e->o->weights[0]) : NULL;
    e->ms[ENGINE] = 0;
    if (!e->session && !open_session(e, &how, err))
        return false;
    how.change[0] = (zn_face_change){ e->attribute, 1 };
    if (!find(e, &plan, &how, &in, err))
        return false;
    free(e->out.data);
    e->out = plan.out;
    e->out.data = malloc(zn_array_len(&e->out) * sizeof *e->out.data);
    if (!e->out.data)
        return out_of_memory(err);
    if (zn_face_run(&result, &plan, &in, NULL, &e->out, &watch, err))
        return false;
    e->ms[LOAD] = result.ms.load;
    e->ms[ESTIMATE] = result.ms.estimate;
    e->ms[ENCODE] = result.ms.encode;
    e->ms[UP] = result.ms.invert;
    e->ms[DOWN] = result.ms.draw;
    e->computed_by = result.computed_by;
    return true;
}

/* ---- what is printed ------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print_line(const char *what, const double ms[STAGES])
{
    const double load = ms[ENGINE] + ms[LOAD], edited = ms[FIND] + ms[ENCODE] + ms[UP] + ms[DOWN];

    printf("%-22s load %7.1f  find %6.1f  first estimate %6.1f  encode %5.1f  up %7.1f  down %7.1f ms;  ", what, load,
           ms[FIND], ms[ESTIMATE], ms[ENCODE], ms[UP], ms[DOWN]);
    printf("shown after %.1f, edited after %.1f ms\n", load + ms[FIND] + ms[ESTIMATE], load + edited);
}

static bool make_picture(zn_array *out, const options *o, zn_error *err)
{
    *out = (zn_array){ NULL, o->height ? o->height : SIDE, o->width ? o->width : SIDE, 3 };
    if (o->n_words > 1)
        return load_picture(out, NULL, o->word[1], err);
    out->data = malloc(zn_array_len(out) * sizeof(float));
    if (!out->data)
        return out_of_memory(err);
    zn_noise_fill(out->data, zn_array_len(out), 1, 0);
    for (size_t i = 0; i < zn_array_len(out); i++)
        out->data[i] = fminf(fmaxf(0.5f + 0.2f * out->data[i], 0), 1);
    return true;
}

bool bench_faces_has(const options *o)
{
    return o->n_words > 0 && !strcmp(o->word[0], "face-edit");
}

int bench_faces(const options *o)
{
    edit e = { .o = o, .choice = choice_of(o) };
    char what[32];
    int n = 0;
    double all[STAGES][RUNS], median[STAGES] = { 0 }, least[STAGES] = { 0 };
    zn_error err = { "" };
    bool ok;

    if (o->n_words > 2 || o->json || o->layers || o->n_set > (precision_of(o) != NULL) || o->n_weights > 1 ||
        (o->n_words > 1 && o->width) || o->n_out > 1 || (o->n_out && strncmp(o->out[0], "x=", 2)))
        return usage("face-edit takes a picture or --size, --weights, --set precision=P and --out x=FILE.npy");
    ok = make_picture(&e.picture, o, &err) && run_edit(&e, &err);
    if (e.waits)
        pthread_join(e.waiter, NULL);
    if (ok) {
        printf("computed by %s, a picture of %dx%d, %s\n", e.computed_by.text, e.picture.w, e.picture.h,
               e.found ? "a face was found" : "no face in any of four turns: its middle is edited");
        print_line("first", e.ms);
        printf("of load: engine %.1f  networks %.1f ms; its device was there after %.1f ms\n", e.ms[ENGINE], e.ms[LOAD],
               e.there);
    }
    for (const double begun = now_ms(); ok && n < RUNS && (n < RUNS_MIN || now_ms() - begun < LONG_MS); n++) {
        ok = run_edit(&e, &err);
        for (int k = 0; k < STAGES; k++)
            all[k][n] = e.ms[k];
    }
    for (int k = 0; ok && k < STAGES; k++) {
        qsort(all[k], (size_t)n, sizeof all[k][0], by_value);
        least[k] = all[k][0];
        median[k] = all[k][n / 2];
    }
    if (ok) {
        print_line("loaded, least", least);
        snprintf(what, sizeof what, "loaded, median of %d", n);
        print_line(what, median);
    }
    if (ok && o->n_out)
        ok = npy_write(o->out[0] + strlen("x="), &e.out, 3, &err);
    zn_session_close(&e.session);
    free(e.out.data);
    free(e.picture.data);
    return ok ? EXIT_DONE : fail("%s", err.text);
}
