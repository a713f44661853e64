/* SPDX-License-Identifier: MIT */
/* bench_faces.c - `zenith bench face-edit`: the time of an edit as zenith:diffae-manipulate makes it by default.
 *
 *   zenith bench face-edit [PICTURE] [--size WxH] [--engine NAME] [--set precision=P] [--out x=FILE.npy]
 *
 * The first edit of a process opens the engine and loads the networks; the others find them loaded.  An edit
 * finds and crops the face, encodes it, inverts it to noise, shifts its code along the first attribute of the file, and
 * samples.  The first estimate of a preview is timed before that.  Not measured: what GEGL does (reading and converting the
 * picture, adding the change to it).  No PICTURE: noise of --size, by default two megapixels.  If no face is found, the
 * middle is edited, which takes as long.  --out writes the edited face, in -1..1, to compare precisions. */
#include "cli.h"

#include "../zenith_bench.h"
#include "faces.h"
#include "pictures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIDE = 1448, /* of the usual picture */
    STEPS = 10,  /* the operation's default */
    STACK = 1 + STEPS,
    RUNS = 25,      /* with the networks loaded, */
    RUNS_MIN = 3,   /* fewer, */
    LONG_MS = 10000 /* where they take longer */
};

typedef enum stage { LOAD, FIND, ESTIMATE, ENCODE, UP, DOWN, STAGES } stage;

/* The parts of LOAD. On a GPU, that of the engine is its context and its kernels. */
typedef enum opening { OPEN_ENGINE, OPEN_FINDER, OPEN_ENCODER, OPEN_SAMPLER, OPENINGS } opening;

typedef struct edit {
    const options *o;
    zn_engine *engine;
    zn_finder *finder;
    zn_model *encoder, *sampler;
    zn_array picture, face; /* face: [side][side][3] in -1..1 */
    float *code;            /* [2][d]: the edited one, then the face's own */
    float *shift;           /* [d] */
    float *stack, *up;      /* [STACK][side][side][3] */
    double guide;
    bool found;
    double ms[STAGES];       /* of the last edit */
    double opened[OPENINGS]; /* ms of LOAD */
} edit;

/* ---- opening --------------------------------------------------------------------------------------------- */

static bool out_of_memory(zn_error *err)
{
    snprintf(err->text, sizeof err->text, "out of memory");
    return false;
}

/* shift and guide of the first attribute beside the weights. */
static bool read_attribute(edit *e, int d, zn_error *err)
{
    char path[4096];
    const char *file = path;
    zn_weights *w = NULL;
    float *all = NULL, *number = NULL;
    int64_t n = 0;
    bool ok = false;

    if (zn_weights_find(path, sizeof path, "zenith-face.attributes", err) || zn_weights_open(&w, &file, 1, err))
        return false;
    for (int i = 0; i < zn_weights_count(w); i++) {
        const zn_weight_info info = zn_weights_info(w, i);

        if (!strcmp(info.name, "directions") && info.n_dims == 2 && info.shape[1] == d && info.shape[0] < 1024)
            n = info.shape[0];
    }
    all = malloc((size_t)(n + 1) * (size_t)d * sizeof *all);
    number = malloc((size_t)(n + 1) * sizeof *number);
    if (n < 1)
        snprintf(err->text, sizeof err->text, "%.300s has no directions of %d numbers", path, d);
    else if (!all || !number)
        out_of_memory(err);
    else
        ok = !zn_weights_read(all, (size_t)n * (size_t)d, w, "directions", err) &&
            !zn_weights_read(e->shift, (size_t)d, w, "std", err) && !zn_weights_read(number, (size_t)n, w, "step", err);
    for (int i = 0; ok && i < d; i++)
        e->shift[i] *= number[0] * all[i];
    ok = ok && !zn_weights_read(number, (size_t)n, w, "guide", err);
    if (ok)
        e->guide = number[0];
    free(all);
    free(number);
    zn_weights_close(&w);
    return ok;
}

/* One of LOAD's parts. */
static bool open_one(edit *e, opening k, zn_error *err)
{
    const options *o = e->o;
    const zn_open own = { .files = o->weights, .n_files = o->n_weights, .precision = precision_of(o) };
    const zn_open finder = { .precision = own.precision };

    switch (k) {
    case OPEN_ENGINE:
        return !zn_engine_open(&e->engine, o->engine, o->threads, err);
    case OPEN_FINDER:
        return !zn_finder_open(&e->finder, e->engine, &finder, err);
    case OPEN_ENCODER:
        return !zn_model_open(&e->encoder, e->engine, "diffae-encode", &own, err);
    default:
        return !zn_model_open(&e->sampler, e->engine, "diffae-sample", &own, err);
    }
}

static bool open_all(edit *e, zn_error *err)
{
    int side, d;
    size_t len;

    for (int k = 0; k < OPENINGS; k++) {
        const double start = now_ms();

        if (!open_one(e, (opening)k, err))
            return false;
        e->opened[k] = now_ms() - start;
    }
    side = zn_model_geometry(e->encoder)->side;
    d = zn_model_geometry(e->encoder)->out_c;
    if (side < 1 || side > 1024 || d < 1) {
        snprintf(err->text, sizeof err->text, "the model does not say how large its pictures are");
        return false;
    }
    len = (size_t)side * (size_t)side * 3;
    e->face = (zn_array){ malloc(len * sizeof(float)), side, side, 3 };
    e->stack = calloc(STACK * len, sizeof(float));
    e->up = malloc(STACK * len * sizeof(float));
    e->code = malloc(2 * (size_t)d * sizeof(float));
    e->shift = malloc((size_t)d * sizeof(float));
    if (!e->face.data || !e->stack || !e->up || !e->code || !e->shift)
        return out_of_memory(err);
    return read_attribute(e, d, err);
}

static void close_all(edit *e)
{
    zn_model_close(&e->sampler);
    zn_model_close(&e->encoder);
    zn_finder_close(&e->finder);
    zn_engine_close(&e->engine);
    free(e->face.data);
    free(e->stack);
    free(e->up);
    free(e->code);
    free(e->shift);
}

/* Milliseconds that it takes to read the tensors of the model's file as floats: the part of LOAD that is neither
 * packing nor upload. */
static bool time_reading(double *ms, const options *o, zn_error *err)
{
    const double start = now_ms();
    char path[4096];
    const char *file = path;
    zn_weights *w = NULL;
    bool ok = true;

    if (!o->n_weights && zn_weights_find(path, sizeof path, "zenith-face", err))
        return false;
    if (zn_weights_open(&w, o->n_weights ? o->weights : &file, o->n_weights ? o->n_weights : 1, err))
        return false;
    for (int i = 0; ok && i < zn_weights_count(w); i++) {
        const zn_weight_info info = zn_weights_info(w, i);
        size_t n = 1;
        float *x;

        for (int k = 0; k < info.n_dims; k++)
            n *= (size_t)info.shape[k];
        x = malloc((n + 1) * sizeof *x);
        ok = x ? !zn_weights_read(x, n, w, info.name, err) : out_of_memory(err);
        free(x);
    }
    zn_weights_close(&w);
    *ms = now_ms() - start;
    return ok;
}

/* ---- an edit --------------------------------------------------------------------------------------------- */

static bool find(edit *e, zn_error *err)
{
    const int32_t w = e->picture.w, h = e->picture.h;
    zn_face face;
    int n = 0;

    if (faces_in(&face, 1, &n, e->finder, &e->picture, err))
        return false;
    e->found = n > 0;
    if (!n)
        face = (zn_face){ 0.5f * (float)w, 0.5f * (float)h, 0.2f * (float)(w < h ? w : h), 0, 0 };
    zn_face_cut(&e->face, &e->picture, &face);
    for (size_t i = 0; i < zn_array_len(&e->face); i++)
        e->face.data[i] = 2 * e->face.data[i] - 1;
    return true;
}

static bool encode(edit *e, zn_error *err)
{
    const int d = zn_model_geometry(e->encoder)->out_c;
    zn_array code = { e->code + d, 1, 1, d };

    if (zn_model_run(e->encoder, &e->face, 1, &code, NULL, err))
        return false;
    for (int i = 0; i < d; i++)
        e->code[i] = e->code[d + i] + e->shift[i];
    return true;
}

/* n pictures that lie one below the other, from x to y. */
static bool sample(edit *e, float *y, const float *x, int n, const float *cond, int codes, bool guided,
                   const zn_value *set, int n_set, zn_error *err)
{
    const int side = e->face.h, d = zn_model_geometry(e->encoder)->out_c;
    const zn_array in[3] = { { (float *)x, n * side, side, 3 },
                             { (float *)cond, codes, 1, d },
                             { e->code + d, codes, 1, d } };
    zn_array out = { y, n * side, side, 3 };
    const zn_job job = { .set = set, .n_set = n_set };

    return !zn_model_run(e->sampler, in, guided ? 3 : 2, &out, &job, err);
}

static bool estimate(edit *e, zn_error *err)
{
    static const zn_value set[] = { { "steps", 1 }, { "from", 400 } };
    const size_t len = zn_array_len(&e->face);

    memcpy(e->stack, e->face.data, len * sizeof(float));
    memcpy(e->stack + len, e->face.data, len * sizeof(float));
    return encode(e, err) && sample(e, e->up, e->stack, 2, e->code, 2, false, set, 2, err);
}

static bool lead_up(edit *e, zn_error *err)
{
    static const zn_value set[] = { { "steps", STEPS }, { "path", 1 }, { "reverse", 1 } };
    const size_t len = zn_array_len(&e->face);

    memset(e->stack, 0, STACK * len * sizeof(float));
    memcpy(e->stack, e->face.data, len * sizeof(float));
    return sample(e, e->up, e->stack, STACK, e->code + zn_model_geometry(e->encoder)->out_c, 1, false, set, 3, err);
}

static bool lead_down(edit *e, zn_error *err)
{
    const zn_value set[] = { { "steps", STEPS }, { "path", 1 }, { "guide", e->guide }, { "guided", 0.8 } };

    return sample(e, e->stack, e->up, STACK, e->code, 1, true, set, 4, err);
}

/* A fresh edit fills e->ms; one that is not opened yet is. */
static bool run_edit(edit *e, zn_error *err)
{
    static bool (*const run[STAGES])(edit *, zn_error *) = { open_all, find, estimate, encode, lead_up, lead_down };

    for (int k = e->engine ? FIND : LOAD; k < STAGES; k++) {
        const double start = now_ms();

        if (!run[k](e, err))
            return false;
        e->ms[k] = now_ms() - start;
    }
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
    const double edited = ms[FIND] + ms[ENCODE] + ms[UP] + ms[DOWN];

    printf("%-22s load %7.1f  find %6.1f  first estimate %6.1f  encode %5.1f  up %7.1f  down %7.1f ms;  ", what,
           ms[LOAD], ms[FIND], ms[ESTIMATE], ms[ENCODE], ms[UP], ms[DOWN]);
    printf("shown after %.1f, edited after %.1f ms\n", ms[LOAD] + ms[FIND] + ms[ESTIMATE], ms[LOAD] + edited);
}

/* "face-detect fp32, face-points fp32, diffae-encode fp16, diffae-unet fp16": what each network computes in. */
static void print_precisions(const edit *e)
{
    zn_part_info part;

    for (int i = 0; zn_finder_part(&part, e->finder, i); i++)
        printf("%s %s, ", part.id, part.precision);
    printf("diffae-encode %s", zn_model_precision(e->encoder));
    for (int i = 0; zn_model_part(&part, e->sampler, i); i++)
        printf(", %s %s", part.id, part.precision);
    printf("\n");
}

static void print_load(const edit *e, double reading)
{
    const double *ms = e->opened;

    printf(
        "of load: engine %.1f  finder %.1f  encoder %.1f  sampler %.1f ms;  reading the face model's file alone takes "
        "%.1f ms\n",
        ms[OPEN_ENGINE], ms[OPEN_FINDER], ms[OPEN_ENCODER], ms[OPEN_SAMPLER], reading);
}

static bool make_picture(zn_array *out, const options *o, zn_error *err)
{
    *out = (zn_array){ NULL, o->height ? o->height : SIDE, o->width ? o->width : SIDE, 3 };
    if (o->n_words > 1)
        return picture_load(out, o->word[1], err);
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
    edit e = { .o = o };
    char what[32];
    int n = 0;
    double all[STAGES][RUNS], median[STAGES] = { 0 }, least[STAGES] = { 0 }, reading = 0;
    zn_error err = { "" };
    bool ok;

    if (o->n_words > 2 || o->json || o->layers || o->n_set > (precision_of(o) != NULL) ||
        (o->n_words > 1 && o->width) || o->n_out > 1 || (o->n_out && strncmp(o->out[0], "x=", 2)))
        return usage("face-edit takes a picture or --size, --weights, --set precision=P and --out x=FILE.npy");
    ok = make_picture(&e.picture, o, &err) && run_edit(&e, &err);
    if (ok) {
        printf("engine %s, %d threads, a picture of %dx%d, %s\n", zn_engine_name(e.engine), zn_engine_threads(e.engine),
               e.picture.w, e.picture.h, e.found ? "a face was found" : "no face: its middle is edited");
        print_precisions(&e);
        print_line("first", e.ms);
        if ((ok = time_reading(&reading, o, &err)))
            print_load(&e, reading);
    }
    for (const double begun = now_ms(); ok && n < RUNS && (n < RUNS_MIN || now_ms() - begun < LONG_MS); n++) {
        ok = run_edit(&e, &err);
        for (int k = 0; k < STAGES; k++)
            all[k][n] = e.ms[k];
    }
    for (int k = FIND; ok && k < STAGES; k++) {
        qsort(all[k], (size_t)n, sizeof all[k][0], by_value);
        least[k] = all[k][0];
        median[k] = all[k][n / 2];
    }
    if (ok) {
        print_line("loaded, least", least);
        snprintf(what, sizeof what, "loaded, median of %d", n);
        print_line(what, median);
    }
    if (ok && o->n_out) {
        const zn_array edited = { e.stack, e.face.h, e.face.w, 3 }; /* the path's end comes first */

        ok = npy_write(o->out[0] + strlen("x="), &edited, 3, &err);
    }
    close_all(&e);
    free(e.picture.data);
    return ok ? EXIT_DONE : fail("%s", err.text);
}
