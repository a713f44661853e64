/* SPDX-License-Identifier: MIT */
/* bench_zenith.c - the tables of the two Zenith documents, their figures next to those measured here.
 *
 *   zenith bench zenith-taesd    latency of the four autoencoders at 512x512, with the true number of operations
 *   zenith bench zenith-prune    speed, sparsity, restoration, convergence; --set table=2: one of them;
 *                                --set steps=N: of the restoration's training
 *
 * The documents' hardware is "a standard CPU with AVX2": ratios within a column can be compared, times cannot. */
#include "../zenith_bench.h"
#include "cli.h"

#include "../zenith_train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    RUNS = 25,      /* of a timing, */
    RUNS_MIN = 5,   /* fewer, */
    LONG_MS = 1500, /* where they take longer */
    STEPS = 8000    /* of the restoration */
};

/* The minimum of several times of the same work: other processes only add to it. */
static double least(const double *x, int n)
{
    double min = x[0];

    for (int i = 1; i < n; i++)
        min = x[i] < min ? x[i] : min;
    return min;
}

/* ---- running a model ----------------------------------------------------------------------------------- */

typedef struct timing {
    double ms, gflop, eyes_ms; /* eyes: the layers whose name starts with "pruned" */
} timing;

static void add_eyes(void *cookie, const zn_layer_time *t)
{
    if (!strncmp(t->op, "pruned", 6))
        *(double *)cookie += t->ms;
}

/* set: a setting of the model, or NULL. */
static bool time_model(timing *t, zn_engine *engine, const char *id, const char *file, int side, const zn_value *set,
                       zn_error *err)
{
    zn_job job = { .set = set, .n_set = set != NULL };
    zn_model *m = NULL;
    zn_array x = { 0 }, y = { 0 };
    zn_plan plan;
    double ms[RUNS], eyes[RUNS], begun = 0;
    unsigned seed = 1;
    int n = 0;
    bool ok = false;

    if (zn_model_open(&m, engine, id, &(zn_open){ .files = &file, .n_files = 1 }, err))
        return false;
    x = (zn_array){ NULL, side, side, zn_model_geometry(m)->in_c };
    x.h = x.w = side / zn_model_geometry(m)->grow;
    x.data = malloc(zn_array_len(&x) * sizeof *x.data);
    for (size_t i = 0; x.data && i < zn_array_len(&x); i++) {
        seed = seed * 1664525u + 1013904223u;
        x.data[i] = (float)(seed >> 8) / 8388608.0f - 1;
    }
    if (!x.data || zn_model_shape(m, &x, 1, &y, err) || zn_model_plan(m, &x, 1, &job, &plan, err))
        goto end;
    y.data = malloc(zn_array_len(&y) * sizeof *y.data);
    ok = y.data != NULL;
    ok = ok && !zn_model_run(m, &x, 1, &y, &job, err); /* warms up */
    begun = now_ms();
    for (; ok && n < RUNS && (n < RUNS_MIN || now_ms() - begun < LONG_MS); n++) {
        double start = now_ms(), sum = 0;

        ok = !zn_model_run(m, &x, 1, &y, &job, err);
        ms[n] = now_ms() - start;
        ok = ok && !zn_model_profile(m, &x, 1, &y, &job, add_eyes, &sum, err);
        eyes[n] = sum;
    }
    if (ok)
        *t = (timing){ least(ms, n), 2e-9 * plan.macs, least(eyes, n) };
end:
    free(x.data);
    free(y.data);
    zn_model_close(&m);
    return ok;
}

/* ---- the first document -------------------------------------------------------------------------------- */

/* Encode and decode. */
static bool time_both(timing *t, zn_engine *engine, const char *id, const zn_value *set, zn_error *err)
{
    timing half;
    char name[64];

    snprintf(name, sizeof name, "%s-encode", id);
    if (!time_model(t, engine, name, ZN_RANDOM_WEIGHTS, 512, set, err))
        return false;
    snprintf(name, sizeof name, "%s-decode", id);
    if (!time_model(&half, engine, name, ZN_RANDOM_WEIGHTS, 512, set, err))
        return false;
    t->ms += half.ms;
    t->gflop += half.gflop;
    return true;
}

static int taesd_table(zn_engine *engine)
{
    static const struct {
        const char *id;
        double doc_ms, doc_gflop;
        bool folds;
    } rows[] = { { "vanilla-taesd", 5644, 48.6, false },
                 { "zenith-taesd", 2220, 48.6, false },
                 { "zenith-lite-doc", 1455, 17.4, true },
                 { "zenith-spectral", 11785, 17.4, true } };
    static const zn_value unfolded = { "fold", 0 };
    double first = 0;
    zn_error err;

    puts("Zenith-TAESD, 512x512, encode and decode, made-up weights (gates as long as the picture: the exact "
         "form)\n");
    puts("                     document                           here");
    puts("model                  ms  speed-up  GFLOP  GFLOP/s        ms  speed-up  true GFLOP  GFLOP/s");
    for (int i = 0; i < 4; i++) {
        timing t, folded = { 0 };

        if (!time_both(&t, engine, rows[i].id, rows[i].folds ? &unfolded : NULL, &err) ||
            (rows[i].folds && !time_both(&folded, engine, rows[i].id, NULL, &err)))
            return fail("%s", err.text);
        first = first > 0 ? first : t.ms;
        printf("%-16s %8.0f %8.1fx %6.1f %8.1f %9.1f %8.1fx %11.1f %8.1f\n", rows[i].id, rows[i].doc_ms,
               rows[0].doc_ms / rows[i].doc_ms, rows[i].doc_gflop, 1e3 * rows[i].doc_gflop / rows[i].doc_ms, t.ms,
               first / t.ms, t.gflop, 1e3 * t.gflop / t.ms);
        if (rows[i].folds)
            printf("  folded %42s %9.1f %8.1fx %11.1f %8.1f\n", "", folded.ms, first / folded.ms, folded.gflop,
                   1e3 * folded.gflop / folded.ms);
        fflush(stdout);
    }
    puts("\nThe document counts the vanilla network (185.5 GFLOP) as 48.6 and leaves the blocks of lite out; "
         "an addition\n"
         "of a transform counts as one operation here.  Folded: without an activation between them, linear "
         "maps are\n"
         "multiplied together when the weights are loaded (the default; --set fold=0 computes layer by "
         "layer).\n"
         "docs/zenith.md has the reading.");
    return EXIT_DONE;
}

/* ---- the second document: speed ------------------------------------------------------------------------ */

typedef struct speed {
    double forward, backward, update; /* seconds */
} speed;

static bool time_training(speed *s, zn_engine *engine, const char *model, int runs, zn_error *err)
{
    zn_train_options o = {
        .model = model, .task = "reconstruct", .base = 32, .size = 128, .batch = 1, .steps = 1000, .hard_gates = true
    };
    zn_trainer *t = NULL;
    double f[RUNS], b[RUNS], u[RUNS];
    bool ok = !zn_trainer_open(&t, engine, &o, err);

    for (int i = runs > 1 ? -2 : 0; i < runs && ok; i++) {
        zn_train_report r;

        ok = !zn_trainer_step(t, &r, err);
        if (i >= 0 && ok)
            f[i] = r.forward_ms / 1e3, b[i] = r.backward_ms / 1e3, u[i] = r.update_ms / 1e3;
    }
    zn_trainer_close(&t);
    if (ok)
        *s = (speed){ least(f, runs), least(b, runs), least(u, runs) };
    return ok;
}

static void print_speed(const char *name, const speed *s, const char *doc, double doc_speedup, double naive,
                        double fast)
{
    double total = s->forward + s->backward;

    printf("%-34s %-24s", name, doc);
    if (doc_speedup > 0)
        printf(" %5.1fx", doc_speedup);
    else
        printf("      -");
    printf("  %8.4f %8.4f %8.4f %8.1fx %7.1fx\n", s->forward, s->backward, total, naive / total, fast / total);
    fflush(stdout);
}

static int speed_table(zn_engine *engine)
{
    zn_engine *scalar = NULL;
    speed naive, fast, ae, prune;
    double n, f;
    zn_error err;

    puts("1. Speed: forward and backward of one picture of 128x128, base 32, seconds\n");
    puts("                                   document                          here");
    puts("model                              forward backward  total speed-up  forward backward    total  vs "
         "naive vs fast");
    if (zn_engine_open(&scalar, "scalar", zn_engine_threads(engine), &err))
        return fail("%s", err.text);
    if (!time_training(&naive, scalar, "conv-baseline-ae", 1, &err)) {
        zn_engine_close(&scalar);
        return fail("%s", err.text);
    }
    zn_engine_close(&scalar);
    if (!time_training(&fast, engine, "conv-baseline-ae", 5, &err) ||
        !time_training(&ae, engine, "zenith-ae", RUNS, &err) ||
        !time_training(&prune, engine, "zenith-prune", RUNS, &err))
        return fail("%s", err.text);
    n = naive.forward + naive.backward;
    f = fast.forward + fast.backward;
    print_speed("conv-baseline-ae, naive loops", &naive, "0.9582  4.3957   5.3539", 1, n, f);
    print_speed("conv-baseline-ae, our products", &fast, "", 0, n, f);
    print_speed("zenith-ae", &ae, "0.0153  0.0645   0.0798", 67.1, n, f);
    print_speed("zenith-prune", &prune, "0.0128  0.0644   0.0773", 69.3, n, f);
    printf("\nThe document's baseline is a naive loop; against a proper matrix product the same network is "
           "%.0fx faster,\n"
           "and the ratio that is left is in the last column.  Adam's update is not counted.  A training "
           "step of "
           "conv-baseline-ae\n"
           "with it: forward %.3f, backward %.3f, Adam %.3f, step %.3f\n\n",
           n / f, fast.forward, fast.backward, fast.update, f + fast.update);
    return EXIT_DONE;
}

/* ---- sparsity ------------------------------------------------------------------------------------------ */

/* Sets the bias of the given share of a gate's blocks so low that they are shut, in the bytes of a
 * safetensors file. */
static bool shut(unsigned char *file, size_t size, const char *name, double share)
{
    static const char places[] = "data_offsets\":[";
    char *head = (char *)file + 8, *at, *end, last;
    uint64_t len = 0;
    size_t from = 0, to = 0;
    bool found;

    for (int i = 7; i >= 0 && size > 8; i--)
        len = len << 8 | file[i];
    if (len < 2 || len > size - 8)
        return false;
    last = head[len - 1];
    head[len - 1] = 0;
    at = strstr(head, name);
    end = at ? strstr(at, places) : NULL;
    if (end) {
        from = strtoul(end + strlen(places), &end, 10);
        to = *end == ',' ? strtoul(end + 1, NULL, 10) : 0;
    }
    found = end && to && to <= size - 8 - len && from <= to;
    head[len - 1] = last;
    if (!found)
        return false;
    for (size_t i = from; i + 4 <= to; i += 4) { /* spread evenly: every block's place times the golden ratio */
        size_t b = (i - from) / 4;
        double place = (double)b * 0.6180339887498949;
        float bias = place - (double)(size_t)place < share ? -1e30f : 1.0f;

        memcpy(file + 8 + len + i, &bias, sizeof bias);
    }
    return true;
}

static bool write_bytes(const char *path, const unsigned char *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(data, 1, size, f) == size;

    return f && !fclose(f) && ok;
}

/* A file of untrained weights of base 32. */
static unsigned char *fresh_weights(zn_engine *engine, const char *path, size_t *size, zn_error *err)
{
    zn_train_options o = { .model = "zenith-prune", .base = 32, .size = 32, .batch = 1 };
    zn_trainer *t = NULL;
    unsigned char *data = NULL;
    FILE *f = NULL;

    if (!zn_trainer_open(&t, engine, &o, err) && !zn_trainer_save(t, path, err))
        f = zn_input_open(path, err);
    if (f && !fseek(f, 0, SEEK_END)) {
        long len = ftell(f);

        data = len > 0 ? calloc((size_t)len + 1, 1) : NULL;
        rewind(f);
        *size = data ? fread(data, 1, (size_t)len, f) : 0;
    }
    if (f)
        fclose(f);
    zn_trainer_close(&t);
    return data;
}

static int sparsity_table(zn_engine *engine)
{
    static const double share[] = { 0, 0.5, 0.75, 0.9 };
    char dir[] = "/tmp/zenith-bench-XXXXXX", path[64];
    unsigned char *data = NULL;
    size_t size = 0;
    zn_error err = { "" };
    double first = 0;
    int status = EXIT_DONE;

    if (!mkdtemp(dir))
        return fail("no temporary folder can be made in /tmp");
    snprintf(path, sizeof path, "%s/weights", dir);
    data = fresh_weights(engine, path, &size, &err);
    puts("2. Sparsity: one picture of 128x128 through zenith-prune, base 32, milliseconds\n");
    puts("blocks pruned     all   Eyes of the gated blocks   of the time without pruning");
    for (int i = 0; i < 4 && !status; i++) {
        timing t;

        if (!data || !shut(data, size, "\"gate1.bias\"", share[i]) || !shut(data, size, "\"gate2.bias\"", share[i]) ||
            !write_bytes(path, data, size) || !time_model(&t, engine, "zenith-prune", path, 128, NULL, &err)) {
            status = fail("%s", err.text[0] ? err.text : "the temporary file cannot be used");
            break;
        }
        first = i ? first : t.eyes_ms;
        printf("%9.0f %%  %8.3f   %24.3f   %25.0f %%\n", 100 * share[i], t.ms, t.eyes_ms, 100 * t.eyes_ms / first);
        fflush(stdout);
    }
    puts("\nThe document's own run prunes nothing: its gates begin open, and every block has some energy.\n");
    free(data);
    unlink(path);
    rmdir(dir);
    return status;
}

/* ---- restoration --------------------------------------------------------------------------------------- */

/* Wavelets that are small and of high frequency, so that a 3x3 blur damages them, and weights so that this error
 * counts. */
static const zn_train_options restoration = { .model = "zenith-prune",
                                              .task = "restore",
                                              .residual = true,
                                              .cosine = true,
                                              .relative = 0.8,
                                              .base = 16,
                                              .size = 64,
                                              .batch = 4,
                                              .rate = 5e-3,
                                              .wave = { 0.4, 1.2 },
                                              .spread = { 4, 16 },
                                              .sigma = { 0.1, 0.4 } };

static int restoration_table(zn_engine *engine, int64_t steps)
{
    static const struct {
        const char *name, *doc;
        double asked;
    } cases[] = { { "Gaussian noise 0.3", "~0.09   ~0.02   ~4.5x", 4.5 },
                  { "shot noise 5 %", "~0.08   ~0.03   ~2.6x", 2.6 },
                  { "box blur 3x3", "~0.01   ~0.005  ~2.0x", 2.0 } };
    zn_train_options o = restoration;
    zn_trainer *t = NULL;
    zn_train_report r;
    zn_error err;
    double start = now_ms();
    int status = EXIT_DONE;

    printf("3. Restoration: one zenith-prune with the residual extension, base 16, 64x64, trained here for "
           "%lld steps of 4\n"
           "   pictures; tested with hard gates on pictures not trained on.  Wavelets: 0.4 to 1.2 radians "
           "per pixel,\n"
           "   envelopes of 4 to 16 pixels; the error of a picture counts as (its damage)^-0.8.\n\n",
           (long long)steps);
    puts("                     document                here");
    puts("damage               input  restored  less      input  restored    less");
    fflush(stdout);
    o.steps = steps;
    if (zn_trainer_open(&t, engine, &o, &err))
        return fail("%s", err.text);
    do {
        if (zn_trainer_step(t, &r, &err))
            status = fail("%s", err.text);
    } while (!status && r.step < r.steps);
    start = (now_ms() - start) / 1e3;
    for (int k = 0; k < 3 && !status; k++) {
        double before, after;

        if (zn_trainer_test(t, k, &before, &after, &err))
            status = fail("%s", err.text);
        else
            printf("%-20s %-22s %8.5f  %8.5f %6.2fx  %s\n", cases[k].name, cases[k].doc, before, after, before / after,
                   before / after >= cases[k].asked ? "PASS" : "FAIL");
    }
    printf("\nTrained in %.0f s, %.1f steps a second.\n\n", start, (double)steps / start);
    zn_trainer_close(&t);
    return status;
}

/* ---- convergence --------------------------------------------------------------------------------------- */

typedef struct racer {
    zn_trainer *t;
    zn_train_report r;
    double spent, mse; /* seconds; a running mean */
} racer;

/* Steps until so many seconds are spent. */
static bool race(racer *a, double until, zn_error *err)
{
    while (a->spent < until) {
        double start = now_ms();

        if (zn_trainer_step(a->t, &a->r, err))
            return false;
        a->spent += (now_ms() - start) / 1e3;
        a->mse = a->r.step == 1 ? a->r.loss : 0.9 * a->mse + 0.1 * a->r.loss;
    }
    return true;
}

static int convergence_table(zn_engine *engine)
{
    static const struct {
        int unit;
        const char *zenith, *conv;
    } doc[] = { { 5, "150   3.24   2.71", "5   0.32   2.33" },
                { 10, "300   3.43   2.73", "10   0.88   2.33" },
                { 20, "600   4.13   2.72", "20   0.28   2.32" } };
    zn_train_options z = {
        .model = "zenith-ae", .task = "reconstruct", .base = 16, .size = 128, .batch = 2, .steps = 400, .temperature = 1
    };
    zn_train_options c = {
        .model = "conv-baseline-ae", .task = "reconstruct", .base = 16, .size = 128, .batch = 2, .steps = 400
    };
    racer a = { 0 }, b = { 0 };
    zn_error err;
    int status = EXIT_DONE;

    puts("4. Convergence at equal time: 128x128, base 16, batch 2, fresh wavelets in every step; time units "
         "of one second\n");
    puts("      document                                    here");
    puts("unit  Z-steps Z-loss Z-s    C-steps C-loss C-s    Z-steps     Z-MSE   penalty    C-steps     C-MSE");
    if (zn_trainer_open(&a.t, engine, &z, &err) || zn_trainer_open(&b.t, engine, &c, &err))
        status = fail("%s", err.text);
    for (int i = 0; i < 3 && !status; i++) {
        if (!race(&a, doc[i].unit, &err) || !race(&b, doc[i].unit, &err)) {
            status = fail("%s", err.text);
            break;
        }
        printf("%4d  %-21s  %-20s %8lld %9.4f %9.4f %10lld %9.4f\n", doc[i].unit, doc[i].zenith, doc[i].conv,
               (long long)a.r.step, a.mse, 1e-4 * a.r.open_gates, (long long)b.r.step, b.mse);
        fflush(stdout);
    }
    puts("\nThe document's Z-loss is the MSE plus 1e-4 for each open gate, at most 3.28 here: nearly all of "
         "its 3.2 to 4.1.\n"
         "The exact form of zenith-ae, without the residual extension.");
    zn_trainer_close(&a.t);
    zn_trainer_close(&b.t);
    return status;
}

/* ---- entry --------------------------------------------------------------------------------------------- */

bool bench_zenith_has(const options *o)
{
    return o->n_words == 1 && !o->json && !o->layers && !o->width && !o->n_weights &&
        (!strcmp(o->word[0], "zenith-taesd") || !strcmp(o->word[0], "zenith-prune"));
}

int bench_zenith(const options *o)
{
    zn_engine *engine = NULL;
    zn_error err;
    int64_t steps = STEPS, table = 0;
    int status = EXIT_DONE;

    for (int i = 0; i < o->n_set; i++) {
        bool is_steps = !strncmp(o->set[i], "steps=", 6), is_table = !strncmp(o->set[i], "table=", 6);
        int64_t value = is_steps || is_table ? strtoll(o->set[i] + 6, NULL, 10) : 0;

        if (value < 1 || (is_table && value > 4))
            return usage("here --set takes steps=N and table=1 to 4, not '%s'", o->set[i]);
        steps = is_steps ? value : steps;
        table = is_table ? value : table;
    }
    if (zn_engine_open_to_train(&engine, o->engine, o->threads, &err)) /* half of the tables */
        return fail("%s", err.text);
    printf("engine %s, %d threads\n\n", zn_engine_name(engine), zn_engine_threads(engine));
    if (!strcmp(o->word[0], "zenith-taesd")) {
        status = taesd_table(engine);
        table = -1;
    }
    if (!status && (!table || table == 1))
        status = speed_table(engine);
    if (!status && (!table || table == 2))
        status = sparsity_table(engine);
    if (!status && (!table || table == 3))
        status = restoration_table(engine, steps);
    if (!status && (!table || table == 4))
        status = convergence_table(engine);
    zn_engine_close(&engine);
    return status;
}
