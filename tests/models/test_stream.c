/* SPDX-License-Identifier: MIT */
/* test_stream.c - layers that are read from disk as they are needed, where memory is short: the same bits in less memory,
 * said in plan and note; files that change meanwhile, cancelling, and what is refused.  On every engine of this machine.
 * And the reader of layers alone.
 *
 * The files are written by the test: made-up weights, as many layers as Z-Image has, each of them small.  Some matrices have whole
 * groups of 32 inputs, others (336 and 114) do not. */
#include "../unit/test.h"

#include "core/savefile.h"
#include "models/zimage/zimage.h"
#include "pipeline/model.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

extern const zn_arch zn_arch_z_image_text;

static zn_engine *engine; /* opened by main */
static const char *program;
static char folder[] = "/tmp/zenith-stream-XXXXXX", dit_file[64], text_file[64], int8_file[64], int4_file[64];

/* ---- files ---------------------------------------------------------------------------------------------- */

/* All tensors of these networks, of that width, as a file of fp32; NULL ends the list. */
static bool write_file(char path[64], const char *name, int width, const zn_arch *const *archs)
{
    zn_outline o = { 0 };
    zn_error err = { "" };
    bool ok = true;

    for (; *archs; archs++) {
        zn_binder b = { .base = width, .outline = &o, .err = &err };
        void *net = calloc(1, (*archs)->size);

        ok = ok && net && !zn_arch_describe(*archs, net, &b);
        free(net);
    }
    zn_save_tensor *t = calloc((size_t)o.n + 1, sizeof *t);

    for (int i = 0; t && i < o.n; i++) {
        size_t len = 1;
        float *x;

        t[i] = (zn_save_tensor){ .name = o.tensor[i].name, .type = ZN_F32 };
        for (; t[i].n_dims < ZN_RANK && o.tensor[i].dims[t[i].n_dims]; t[i].n_dims++) {
            t[i].shape[t[i].n_dims] = o.tensor[i].dims[t[i].n_dims];
            len *= (size_t)o.tensor[i].dims[t[i].n_dims];
        }
        t[i].data = x = malloc(len * sizeof *x);
        if (x)
            zn_make_up(x, t[i].name, o.tensor[i].dims, t[i].n_dims);
        ok = ok && x;
    }
    snprintf(path, 64, "%s/%s.safetensors", folder, name);
    ok = ok && t && !zn_save_tensors(path, t, (size_t)o.n, NULL, &err);
    for (int i = 0; t && i < o.n; i++)
        free((void *)(uintptr_t)t[i].data);
    free(t);
    zn_outline_free(&o);
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    return ok;
}

/* dit_file in another type. */
static bool convert_file(char path[64], const char *type)
{
    const char *from = dit_file;
    zn_error err = { "" };

    snprintf(path, 64, "%s/%s.safetensors", folder, type);
    if (zn_weights_convert(path, &from, 1, type, NULL, &err))
        return fprintf(stderr, "%s\n", err.text), false;
    return true;
}

/* ---- runs ----------------------------------------------------------------------------------------------- */

typedef struct work { /* a model and what it runs on */
    const char *id, *file, *precision;
    zn_array in[2], out;
    int n_in;
    zn_model *model;
    zn_plan plan;
    zn_error err, note;
} work;

static zn_job job_of(work *k)
{
    static const zn_value steps[] = { { "steps", 2 }, { "steps", 1 } };

    return (zn_job){ .set = &steps[k->in[0].h > 12], .n_set = k->n_in > 1, .note = &k->note };
}

/* Opens the model; a failure is in err. */
static zn_status begin(work *k, const char *id, const char *file, const char *precision, int side)
{
    const zn_open open = { .files = &file, .n_files = 1, .precision = precision };
    zn_job job;
    zn_status s;

    *k = (work){ .id = id, .file = file, .precision = precision };
    if ((s = zn_model_open(&k->model, engine, id, &open, &k->err)))
        return s;
    if (!strcmp(id, "z-image-text")) {
        k->in[0] = (zn_array){ NULL, 1, 1, 19 };
        k->n_in = 1;
    } else {
        k->in[0] = (zn_array){ NULL, side, side, 16 };
        k->in[1] = (zn_array){ NULL, 9, 1, 2560 };
        k->n_in = 2;
    }
    for (int i = 0; i < k->n_in; i++) {
        k->in[i].data = malloc(zn_array_len(&k->in[i]) * sizeof(float));
        zn_noise_fill(k->in[i].data, zn_array_len(&k->in[i]), 7, (uint64_t)i);
    }
    for (int i = 0; k->n_in == 1 && i < 19; i++) /* tokens */
        k->in[0].data[i] = (float)(i * 7919 % 151936);
    job = job_of(k);
    if ((s = zn_model_shape(k->model, k->in, k->n_in, &k->out, &k->err)))
        return s;
    k->out.data = malloc(zn_array_len(&k->out) * sizeof(float));
    return zn_model_plan(k->model, k->in, k->n_in, &job, &k->plan, &k->err);
}

static zn_status run(work *k)
{
    const zn_job job = job_of(k);

    memset(k->out.data, 0, zn_array_len(&k->out) * sizeof(float));
    return zn_model_run(k->model, k->in, k->n_in, &k->out, &job, &k->err);
}

static void end(work *k)
{
    zn_model_close(&k->model);
    for (int i = 0; i < 2; i++)
        free(k->in[i].data);
    free(k->out.data);
}

static bool same(const work *a, const work *b)
{
    return !memcmp(a->out.data, b->out.data, zn_array_len(&a->out) * sizeof(float));
}

/* The engine's bound in bytes, rounded up to MiB, which is returned; 0: none. */
static size_t bound(size_t bytes)
{
    const size_t mib = (bytes + MIB - 1) / MIB;
    char text[32];

    snprintf(text, sizeof text, "%zu", mib);
    if (bytes)
        setenv(engine->be->memory_variable, text, 1);
    else
        unsetenv(engine->be->memory_variable);
    return mib * MIB;
}

/* What a run with streamed layers takes. */
static size_t streamed_bytes(const work *k)
{
    return k->model->least.weights + k->model->least.scratch + k->plan.peak_bytes - k->model->need.scratch;
}

/* ---- an engine that counts its memory ------------------------------------------------------------------- */

static struct {
    const zn_backend *real;
    zn_backend be;
    struct {
        void *ptr;
        size_t size;
    } piece[4096];
    size_t now, most;
} counted;

static void *counting_alloc(void *dev, size_t size)
{
    void *p = counted.real->alloc(dev, size);
    size_t i = 0;

    while (counted.piece[i].ptr)
        i++;
    counted.piece[i].ptr = p;
    counted.piece[i].size = size;
    counted.now += size;
    counted.most = counted.now > counted.most ? counted.now : counted.most;
    return p;
}

static void counting_free(void *dev, void *ptr)
{
    for (size_t i = 0; ptr && i < sizeof counted.piece / sizeof *counted.piece; i++)
        if (counted.piece[i].ptr == ptr) {
            counted.now -= counted.piece[i].size;
            counted.piece[i].ptr = NULL;
            break;
        }
    counted.real->free(dev, ptr);
}

static void count_memory(void)
{
    counted.real = engine->be;
    counted.be = *engine->be;
    counted.be.alloc = counting_alloc;
    counted.be.free = counting_free;
    engine->be = &counted.be;
}

/* ---- tests ---------------------------------------------------------------------------------------------- */

static bool has(void *dev, const char *precision)
{
    for (int p = 0; p < ZN_N_PRECISIONS; p++)
        if (!strcmp(precision, zn_precision_names[p]))
            return engine->be->has_precision(dev, (zn_precision)p);
    return false;
}

/* In the smallest sufficient memory: the same bits, and the memory used is the memory planned. */
static void compare_forms(const char *id, const char *file, const char *precision)
{
    work all, few;
    size_t limit;

    bound(0);
    CHECK(!begin(&all, id, file, precision, 12) && !run(&all), "%s: %s", id, all.err.text);
    CHECK(!all.plan.streamed && !*all.note.text && !all.model->streams, "%s: streamed without need", id);
    limit = bound(streamed_bytes(&all));
    CHECK(limit + 2 * MIB < all.plan.weight_bytes + all.plan.peak_bytes, "%s: %zu of %zu bytes", id, limit,
          all.plan.weight_bytes + all.plan.peak_bytes);
    counted.most = counted.now;
    const size_t before = counted.now;

    CHECK(!begin(&few, id, file, precision, 12) && few.model->streams && few.plan.streamed, "%s: %s", id, few.err.text);
    CHECK(few.plan.weight_bytes + few.plan.peak_bytes <= limit, "%s: a plan of %zu bytes for %zu", id,
          few.plan.weight_bytes + few.plan.peak_bytes, limit);
    for (int i = 0; i < 2; i++) {
        CHECK(!run(&few), "%s: %s", id, few.err.text);
        CHECK(same(&all, &few), "%s, %s: run %d has other bits", id, precision, i);
        CHECK(strstr(few.note.text, "read from disk") && strstr(few.note.text, engine->be->memory_variable),
              "%s: the note is '%s'", id, few.note.text);
    }
    CHECK(counted.most - before <= few.plan.weight_bytes + few.plan.peak_bytes - few.model->least.scratch,
          "%s: %zu bytes were taken", id, counted.most - before);
    end(&few);
    end(&all);
}

static void same_bits(void)
{
    static const char *const precisions[] = { "fp32", "bf16", "int8", "int4" };

    for (int i = INSTRUMENTED ? 3 : 0; i < 4; i++) /* with instruments, packing takes ten times as long */
        if (has(engine->dev, precisions[i])) {
            TRY(compare_forms("z-image-sample", dit_file, precisions[i]));
            TRY(compare_forms("z-image-text", text_file, precisions[i]));
        }
    if (has(engine->dev, "int8"))
        TRY(compare_forms("z-image-sample", int8_file, "int8"));
    if (has(engine->dev, "int4"))
        TRY(compare_forms("z-image-sample", int4_file, "int4")); /* as it lies in the file */
}

/* Streamed on engines of other numbers of threads. */
static void other_threads(void)
{
    zn_engine *usual = engine;
    work all;

    if (engine->be->remote)
        SKIP("its threads are its own");
    bound(0);
    CHECK(!begin(&all, "z-image-sample", int4_file, "int4", 12) && !run(&all), "%s", all.err.text);
    bound(streamed_bytes(&all));
    for (int n = 1; n <= 5 && !test_state.why[0]; n += 2) {
        work few;
        bool ok;

        engine = NULL;
        ok = !zn_engine_open(&engine, counted.real->name, n, NULL) &&
            !begin(&few, "z-image-sample", int4_file, "int4", 12) && few.model->streams && !run(&few) &&
            same(&all, &few);
        if (!ok)
            test_note(false, "%d threads: %s", n, few.err.text);
        end(&few);
        zn_engine_close(&engine);
        engine = usual;
    }
    end(&all);
}

/* All weights fit, but not beside a large picture: the first run that needs it streams, a plan does not. */
static void a_run_may_begin_it(void)
{
    static const char *const files[] = { dit_file, "random:128" };
    const int n = INSTRUMENTED ? 1 : 2, side = INSTRUMENTED ? 24 : 40; /* instruments make it 20 times slower */

    for (int i = 0; i < n; i++) {
        work all, few;

        bound(0);
        CHECK(!begin(&all, "z-image-sample", files[i], "fp32", side) && !run(&all), "%s", all.err.text);
        bound(all.model->need.weights + all.plan.peak_bytes / 2);
        CHECK(!begin(&few, "z-image-sample", files[i], "fp32", side), "%s", few.err.text);
        CHECK(!few.model->streams && few.plan.streamed, "the plan began it, or does not say it");
        const size_t before = counted.now;

        CHECK(!run(&few) && few.model->streams && *few.note.text, "%s", few.err.text);
        CHECK(counted.now < before, "no memory was freed: %zu bytes, %zu before", counted.now, before);
        CHECK(same(&all, &few), "other bits");
        CHECK(!run(&few) && same(&all, &few), "other bits in the second run");
        end(&few);
        end(&all);
    }
}

/* Memory that the caller declares as in use counts: when a model is opened, planned and run. */
static void beside_others(void)
{
    const zn_open open = { .files = &(const char *){ dit_file }, .n_files = 1, .precision = "fp32", .beside = 8 * MIB };
    const zn_value set[] = { { "steps", 2 } };
    zn_job job = { .set = set, .n_set = 1, .beside = 8 * MIB };
    zn_model *model = NULL;
    char want[160];
    work all, few;
    size_t limit, taken_already;

    bound(0);
    CHECK(!begin(&all, "z-image-sample", dit_file, "fp32", 12) && !run(&all), "%s", all.err.text);
    bound(all.plan.weight_bytes + all.plan.peak_bytes);
    CHECK(!begin(&few, "z-image-sample", dit_file, "fp32", 12) && !few.plan.streamed, "streamed without need");
    CHECK(!zn_model_plan(few.model, few.in, 2, &job, &few.plan, &few.err) && few.plan.streamed, "%s", few.err.text);
    job.note = &few.note;
    CHECK(!zn_model_run(few.model, few.in, 2, &few.out, &job, &few.err) && few.model->streams && same(&all, &few), "%s",
          few.err.text);
    CHECK(*few.note.text, "nothing was said");
    CHECK(!zn_model_open(&model, engine, "z-image-sample", &open, &few.err) && model->streams, "opened in memory: %s",
          few.err.text);
    zn_model_close(&model);

    limit = bound(streamed_bytes(&all)); /* on a GPU less than 8 MiB: nothing is left */
    taken_already = 8 * MIB + all.model->least.weights;
    job.note = NULL;
    snprintf(want, sizeof want, "where %zu are allowed; set %s to more (8 MiB are taken by what is open beside it)",
             (limit > taken_already ? limit - taken_already : 0) >> 20, engine->be->memory_variable);
    if (engine->be->remote)
        setenv("ZENITH_MEMORY", "1", 1); /* nor can the CPU stand in */
    CHECK(zn_model_run(few.model, few.in, 2, &few.out, &job, &few.err) == ZN_E_MEMORY && strstr(few.err.text, want),
          "'%s', where %zu MiB are allowed", few.err.text, limit >> 20);
    bound(all.model->least.weights + all.model->least.scratch + 6 * MIB);
    CHECK(zn_model_open(&model, engine, "z-image-sample", &open, &few.err) == ZN_E_MEMORY, "opened");
    if (engine->be->remote)
        unsetenv("ZENITH_MEMORY");
    end(&few);
    end(&all);
}

static void refusals(void)
{
    work all, few;
    char want[96];
    size_t least, limit;

    bound(0);
    CHECK(!begin(&all, "z-image-sample", dit_file, "fp32", 40), "%s", all.err.text);
    least = all.model->least.weights + all.model->least.scratch;
    limit = bound(streamed_bytes(&all) - 2 * MIB);
    CHECK(limit > least, "the picture is too small for this test");
    if (engine->be->remote)
        setenv("ZENITH_MEMORY", "1", 1); /* nor can the CPU stand in */
    CHECK(begin(&few, "z-image-sample", dit_file, "fp32", 40) == ZN_E_MEMORY, "taken");
    snprintf(want, sizeof want, "beside %zu MiB of weights, where %zu are allowed", all.model->least.weights >> 20,
             (limit - all.model->least.weights) >> 20);
    CHECK(few.model && run(&few) == ZN_E_MEMORY && strstr(few.err.text, want) && strstr(few.err.text, "needs"), "'%s'",
          few.err.text);
    end(&few);
    limit = bound(least - 2 * MIB);
    CHECK(begin(&few, "z-image-sample", dit_file, "fp32", 40) == ZN_E_MEMORY && !few.model, "opened");
    if (engine->be->remote)
        unsetenv("ZENITH_MEMORY");
    snprintf(want, sizeof want, "read from disk as they are needed, where %zu are allowed", limit >> 20);
    CHECK(strstr(few.err.text, want), "'%s'", few.err.text);
    end(&all);
}

/* A file that is truncated, or written to, gives an error message; a deleted one is still open. */
static void files_that_change(void)
{
    char path[64], away[160];
    work all, few;
    FILE *f;
    long size;

    snprintf(path, sizeof path, "%s/changed.safetensors", folder);
    snprintf(away, sizeof away, "cp %s %s", dit_file, path);
    CHECK(!system(away), "cannot copy");
    bound(0);
    CHECK(!begin(&all, "z-image-sample", path, "int8", 12) && !run(&all), "%s", all.err.text);
    bound(streamed_bytes(&all));
    CHECK(!begin(&few, "z-image-sample", path, "int8", 12) && !run(&few), "%s", few.err.text);
    CHECK(!remove(path) && !run(&few) && same(&all, &few), "a removed file: %s", few.err.text);
    end(&few);

    CHECK(!system(away) && !begin(&few, "z-image-sample", path, "int8", 12) && !run(&few), "%s", few.err.text);
    CHECK((f = fopen(path, "r+b")) && !fseek(f, 0, SEEK_END) && (size = ftell(f)) > 0 &&
              !ftruncate(fileno(f), size / 2) && !fclose(f),
          "cannot truncate");
    CHECK(run(&few) == ZN_E_FILE && strstr(few.err.text, "was changed while it was in use"), "'%s'", few.err.text);
    end(&few);
    CHECK(begin(&few, "z-image-sample", path, "int8", 12) == ZN_E_FILE, "half a file was opened");
    end(&few);
    end(&all);
    remove(path);
}

static struct {
    int calls, stop;
    double last;
    bool fell;
    const char *cut; /* not NULL: a file that becomes shorter instead */
} seen;

static bool watch(void *cookie, double done)
{
    (void)cookie;
    seen.fell = seen.fell || done < seen.last;
    seen.last = done;
    if (++seen.calls != seen.stop)
        return true;
    return seen.cut && !truncate(seen.cut, 4096);
}

/* Likewise in the middle of a run. */
static void file_cut_in_a_run(void)
{
    char path[64], copy[160];
    work all, few;
    zn_job job;

    snprintf(path, sizeof path, "%s/cut.safetensors", folder);
    snprintf(copy, sizeof copy, "cp %s %s", int4_file, path);
    bound(0);
    CHECK(!begin(&all, "z-image-sample", int4_file, "int4", 12), "%s", all.err.text);
    for (int stop = 40; stop < 400; stop += 90) {
        bound(streamed_bytes(&all));
        CHECK(!system(copy) && !begin(&few, "z-image-sample", path, "int4", 12) && few.model->streams, "%s",
              few.err.text);
        job = job_of(&few);
        job.progress = watch;
        memset(&seen, 0, sizeof seen);
        seen.stop = stop;
        seen.cut = path;
        CHECK(zn_model_run(few.model, few.in, few.n_in, &few.out, &job, &few.err) == ZN_E_FILE &&
                  strstr(few.err.text, "open it again when it is whole"),
              "call %d of %d: '%s'", stop, seen.calls, few.err.text);
        end(&few);
    }
    end(&all);
    remove(path);
}

/* Progress is heard between the tensors of a layer that is read; after a cancelled run the next one is right. */
static void cancelling(void)
{
    work all, few;
    zn_job job;
    int calls[2];

    bound(0);
    CHECK(!begin(&all, "z-image-text", text_file, "int4", 12), "%s", all.err.text);
    job = job_of(&all);
    job.progress = watch;
    memset(&seen, 0, sizeof seen);
    CHECK(!zn_model_run(all.model, all.in, 1, &all.out, &job, &all.err), "%s", all.err.text);
    calls[0] = seen.calls;
    bound(streamed_bytes(&all));
    CHECK(!begin(&few, "z-image-text", text_file, "int4", 12), "%s", few.err.text);
    job.note = &few.note;
    memset(&seen, 0, sizeof seen);
    CHECK(!zn_model_run(few.model, few.in, 1, &few.out, &job, &few.err) && same(&all, &few), "%s", few.err.text);
    calls[1] = seen.calls;
    CHECK(!seen.fell && seen.last == 1, "progress fell, or ended at %g", seen.last);
    CHECK(calls[1] >= calls[0] + 35 * 11, "%d calls, %d without streaming", calls[1], calls[0]);
    for (int stop = 1; stop < calls[1]; stop += stop < 60 ? 7 : calls[1] / 5) {
        memset(&seen, 0, sizeof seen);
        seen.stop = stop;
        CHECK(zn_model_run(few.model, few.in, 1, &few.out, &job, &few.err) == ZN_E_CANCELLED && seen.calls == stop,
              "call %d: %d calls, %s", stop, seen.calls, few.err.text);
        if (stop > 30)
            CHECK(!run(&few) && same(&all, &few), "after cancelling at %d: %s", stop, few.err.text);
    }
    end(&few);
    end(&all);
}

/* ---- the reader alone ----------------------------------------------------------------------------------- */

static bool no(void *cookie)
{
    ++*(int *)cookie;
    return false;
}

/* Is layer `set` of the DiT in the buffer as it is in the file? */
static bool right(const zn_ahead *a, const zn_weights *w, int set)
{
    static float want[1 << 17], got[1 << 17];
    char name[96];
    const zn_entry *e, *read;

    snprintf(name, sizeof name, "layers.%d.feed_forward.w1.weight", set);
    e = zn_weights_get(w, name);
    read = zn_ahead_entry(a, e);
    return e && read && read != e && zn_entry_len(e) <= sizeof want / sizeof *want && !zn_entry_read(e, want, NULL) &&
        !zn_entry_read(read, got, NULL) && !memcmp(want, got, zn_entry_len(e) * sizeof *want);
}

/* Sets in any order, given up and asked for again; a truncated file gives an error message each time. */
static void reader(void)
{
    enum { SETS = 20 };
    const char *path = int4_file;
    zn_weights *w = NULL;
    zn_error err = { "" };
    zn_ahead *a = zn_ahead_new();
    bool ok = a && !zn_weights_open(&w, &path, 1, &err);
    uint32_t seed = 1;

    for (int set = 0; set < SETS && ok; set++) {
        char name[96];

        snprintf(name, sizeof name, "layers.%d.feed_forward.w1.weight", set);
        ok = zn_ahead_next_set(a) && zn_weights_get(w, name) && zn_ahead_add(a, zn_weights_get(w, name));
    }
    CHECK(ok && !zn_ahead_open(a, &err), "%s", err.text);
    CHECK(!zn_ahead_entry(a, zn_weights_at(w, 0)), "a tensor before anything was read");
    for (int i = 0; i < 500; i++) {
        const int set = (int)((seed = seed * 1664525u + 1013904223u) >> 16) % SETS;
        int polls = 0;

        zn_ahead_start(a, (set * 7 + i) % SETS);
        if (i % 3 == 0) {
            const zn_status s = zn_ahead_wait(a, set, no, &polls, &err);

            CHECK(s == (polls ? ZN_E_CANCELLED : ZN_OK) && polls < 2, "status %d after %d polls", s, polls);
        }
        CHECK(!zn_ahead_wait(a, set, NULL, NULL, &err) && right(a, w, set), "set %d is wrong: %s", set, err.text);
    }
    zn_ahead_close(&a);
    zn_weights_close(&w);
}

static void reader_of_a_cut_file(void)
{
    char path[64], copy[160];
    const char *file = path;
    zn_weights *w = NULL;
    zn_error err = { "" };
    zn_ahead *a = zn_ahead_new();

    snprintf(path, sizeof path, "%s/cut.safetensors", folder);
    snprintf(copy, sizeof copy, "cp %s %s", int4_file, path);
    CHECK(!system(copy) && a && !zn_weights_open(&w, &file, 1, &err), "%s", err.text);
    CHECK(zn_ahead_next_set(a) && zn_ahead_add(a, zn_weights_get(w, "layers.3.feed_forward.w1.weight")) &&
              !zn_ahead_open(a, &err),
          "%s", err.text);
    CHECK(!zn_ahead_wait(a, 0, NULL, NULL, &err) && right(a, w, 3), "%s", err.text);
    zn_ahead_close(&a);
    CHECK((a = zn_ahead_new()) && zn_ahead_next_set(a) &&
              zn_ahead_add(a, zn_weights_get(w, "layers.3.feed_forward.w1.weight")) && !zn_ahead_open(a, &err),
          "%s", err.text);
    CHECK(!truncate(path, 4096), "cannot truncate");
    for (int i = 0; i < 3; i++)
        CHECK(zn_ahead_wait(a, 0, NULL, NULL, &err) == ZN_E_FILE && strstr(err.text, "became shorter"), "'%s'",
              err.text);
    CHECK(!system(copy) && !zn_ahead_wait(a, 0, NULL, NULL, &err) && right(a, w, 3), "whole again: %s", err.text);
    zn_ahead_close(&a);
    zn_weights_close(&w);
    remove(path);
}

static const char *id_of(const char *file)
{
    return strstr(file, "text") ? "z-image-text" : "z-image-sample";
}

enum { PROBE = 48 }; /* MiB */

/* Has PROBE MiB for a moment, half of them of a file that is mapped as weights are; false: there is no such file or memory. */
static bool hold_pages(void)
{
    const size_t half = (size_t)PROBE / 2 * MIB;
    FILE *f = tmpfile();
    char *memory = malloc(half);
    volatile const char *mapped = MAP_FAILED;
    char sum = 0;

    if (f && memory && memset(memory, 1, half) && fwrite(memory, 1, half, f) == half && !fflush(f))
        mapped = mmap(NULL, half, PROT_READ, MAP_PRIVATE, fileno(f), 0);
    for (size_t i = 0; mapped != MAP_FAILED && i < half; i += 512)
        sum ^= mapped[i];
    if (f)
        fclose(f);
    free(memory);
    return mapped != MAP_FAILED && !sum && !munmap((void *)(uintptr_t)mapped, half);
}

/* This program, called as test_stream ENGINE FILE: opens and runs once, and exits with the MiB that it took.  FILE "": has PROBE
 * MiB instead. */
static int take(const char *name, const char *file)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    long before;
    work k;

    if (f) { /* the record begins anew: what starting a program has held may be more than what is counted here */
        fputs("5", f);
        fclose(f);
    }
    before = test_most_resident();
    if (!*file)
        return hold_pages() ? (int)((test_most_resident() - before) / 1024) : 255;
    if (zn_engine_open(&engine, name, 1, NULL) || begin(&k, id_of(file), file, "fp32", 12) || run(&k))
        return 255;
    return (int)((test_most_resident() - before) / 1024);
}

/* The same in a process of its own; the bound is in the environment. */
static int taken(const char *file)
{
    const pid_t child = fork();
    int status = 0;

    if (!child) {
        unsetenv("MALLOC_PERTURB_"); /* meson sets it: glibc would write to all that is allocated */
        execl(program, program, engine->be->name, file, (char *)NULL);
        _exit(255);
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/* Not only what is counted: pages. */
static void resident_memory(void)
{
    const char *const files[] = { dit_file, text_file };
    int probe;

    if (engine->be->remote || INSTRUMENTED || !test_most_resident())
        SKIP("the pages of the process are not the engine's alone");
    if ((probe = taken("")) < PROBE - 4 || probe > PROBE + 4)
        SKIP("this system counts %d MiB where a process has had %d", probe, PROBE);
    for (int i = 0; i < 2; i++) {
        int took[2];
        size_t limit, need;
        work all;

        bound(0);
        CHECK(!begin(&all, id_of(files[i]), files[i], "fp32", 12), "%s", all.err.text);
        limit = streamed_bytes(&all);
        need = (all.plan.weight_bytes + all.plan.peak_bytes) / MIB;
        end(&all);
        took[0] = taken(files[i]);
        limit = bound(limit);
        took[1] = taken(files[i]);
        CHECK(took[0] < 255, "it did not run");
        if (took[0] + 4 < (int)need)
            SKIP("this system counts %d MiB of the %zu that all weights and a run take", took[0], need);
        CHECK(took[1] <= (int)(limit / MIB) + 10, "%d MiB where %zu are allowed", took[1],
              limit / MIB); /* 10: the engine's own, and a piece of the table */
        printf("# %s: %d MiB of %zu, streamed %d of %zu\n", id_of(files[i]), took[0], need, took[1], limit / MIB);
    }
}

int main(int argc, char **argv)
{
    static const zn_arch *const dit[] = { &zn_arch_z_image_caption, &zn_arch_z_image_step, NULL },
                                *const text[] = { &zn_arch_z_image_text, NULL };
    zn_engine_info list[16];
    const int n = zn_engine_list(list, 16);

    program = argv[0];
    unsetenv("ZENITH_PRECISION");
    if (argc == 3)
        return take(argv[1], argv[2]);
    if (!mkdtemp(folder) || !write_file(dit_file, "dit", 128, dit) || !write_file(text_file, "text", 32, text))
        return fprintf(stderr, "the files cannot be written\n"), 1;
    if (!convert_file(int8_file, "int8") || !convert_file(int4_file, "int4"))
        return 1;
    RUN(reader);
    RUN(reader_of_a_cut_file);
    for (int e = 0; e < n; e++) {
        const bool slow =
            !strcmp(list[e].name, "scalar") && !list[e].automatic; /* layers come to all CPUs the same way */

        if (!list[e].usable || slow || zn_engine_open(&engine, list[e].name, 0, NULL))
            continue;
        printf("# %s\n", list[e].name);
        count_memory();
        RUN(same_bits);
        RUN(a_run_may_begin_it);
        RUN(beside_others);
        RUN(refusals);
        RUN(other_threads);
        RUN(files_that_change);
        RUN(file_cut_in_a_run);
        RUN(cancelling);
        RUN(resident_memory);
        engine->be = counted.real;
        zn_engine_close(&engine);
    }
    remove(dit_file);
    remove(text_file);
    remove(int8_file);
    remove(int4_file);
    rmdir(folder);
    return test_end();
}
