/* SPDX-License-Identifier: MIT */
/* bench.c - `zenith bench`: the speed of models on this machine, compared with its multiply-add peak.
 *
 * GFLOP/s are direct-equivalent: two per multiply-add of the plain convolution, whatever is really computed.
 * --json: "ms" is the median of the runs; "least_ms" and "cpu_ms", the CPU time of all threads, are the minimum, for
 * machines that do other work, too. */
#include "../zenith_bench.h"
#include "cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RUNS = 50 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

typedef struct bench {
    const options *o;
    zn_engine *engine;
    char precision[16]; /* that the peak was measured with */
    double peak;        /* GFLOP/s */
    bool remote;        /* pictures are transferred to the device and back */
} bench;

static void print_layer(void *cookie, const zn_layer_time *t)
{
    const bench *b = cookie;
    double gflops = t->ms > 0 ? 2e-6 * t->macs / t->ms : 0;

    if (t->macs > 0)
        printf("    %-36s %9.3f ms %9.1f GFLOP/s %6.1f %%\n", t->op, t->ms, gflops, 100 * gflops / b->peak);
    else
        printf("    %-36s %9.3f ms\n", t->op, t->ms);
}

/* Inputs for a picture of --size; false: no memory. */
static bool make_inputs(zn_array in[ZN_MAX_PORTS], int *n, const zn_model *m, const options *o)
{
    const int usual = zn_model_geometry(m)->in_c ? 512 : 128; /* whole pictures that are not tiled are small */
    unsigned seed = 1;

    *n = zn_model_example(m, o->width ? o->width : usual, o->height ? o->height : usual, in);
    for (int i = 0; i < *n; i++) {
        in[i].data = malloc(zn_array_len(&in[i]) * sizeof(float));
        for (size_t j = 0; in[i].data && j < zn_array_len(&in[i]); j++) {
            seed = seed * 1664525u + 1013904223u;
            in[i].data[j] = (float)(seed >> 8) / 16777216.0f;
        }
        if (!in[i].data)
            return false;
    }
    return true;
}

/* Once, and again when a model has another precision. */
static void measure_peak(bench *b, const char *precision)
{
    if (!strcmp(b->precision, precision))
        return;
    snprintf(b->precision, sizeof b->precision, "%s", precision);
    b->peak = zn_engine_peak(b->engine, precision);
    if (!b->o->json)
        printf("engine %s, %d threads, measured multiply-add peak %.1f GFLOP/s in %s\n", zn_engine_name(b->engine),
               zn_engine_threads(b->engine), b->peak, precision);
}

/* What each network that the model runs really computes in. */
static void print_parts(const zn_model *m, bool json)
{
    zn_part_info part;

    for (int i = 0; zn_model_part(&part, m, i); i++)
        if (json)
            printf("%s\"%s\":\"%s\"", i ? "," : ",\"parts\":{", part.id, part.precision);
        else
            printf("%-20s runs %s in %s\n", "", part.id, part.precision);
    if (json)
        puts(zn_model_part(&part, m, 0) ? "}}" : "}");
}

/* ---- videos --------------------------------------------------------------------------------------------------------- */

static bool no_frame(void *cookie, int32_t i, float *frame)
{
    (void)cookie, (void)i, (void)frame;
    return true;
}

static bool some_frame(void *cookie, int32_t i, float *frame)
{
    const zn_frames *f = cookie;

    zn_noise_fill(frame, (size_t)f->h * (size_t)f->w * (size_t)f->c, 1, (uint64_t)i);
    return true;
}

/* A video of 9 frames; everything that is printed is of all of them. */
static int bench_video(bench *b, zn_model *m, const char *id, bool random)
{
    const options *o = b->o;
    const zn_geometry *g = zn_model_geometry(m);
    const int w = o->width ? o->width : 256, h = o->height ? o->height : 256;
    zn_frames in = { .n = g->grow > 1 ? 3 : 9,
                     .h = (h + g->grow - 1) / g->grow,
                     .w = (w + g->grow - 1) / g->grow,
                     .c = g->in_c,
                     .move = some_frame,
                     .cookie = &in },
              out = { .move = no_frame };
    const int frames = 9;
    double ms = HUGE_VAL, cpu = HUGE_VAL, total = 0;
    zn_plan plan;
    zn_error err;

    if (zn_model_video_shape(m, &in, &out, &err) || zn_model_video_plan(m, &in, NULL, &plan, &err))
        return fail("%s", err.text);
    for (int i = 0; i < 2 || (i < MAX_RUNS && total < 2000); i++) {
        const double start = now_ms(), cpu_start = cpu_ms();

        if (zn_model_run_video(m, &out, &in, NULL, &err))
            return fail("%s", err.text);
        total += now_ms() - start;
        ms = fmin(ms, now_ms() - start);
        cpu = fmin(cpu, cpu_ms() - cpu_start);
    }
    if (o->json)
        printf(
            "{\"model\":\"%s\",\"engine\":\"%s\",\"precision\":\"%s\",\"threads\":%d,\"size\":\"%dx%d\",\"frames\":%d,"
            "\"ms\":%.3f,\"least_ms\":%.3f,\"cpu_ms\":%.3f,\"gmac\":%.3f,\"gflops\":%.1f,\"peak_gflops\":%.1f,\"peak_"
            "bytes\":"
            "%zu,\"weight_bytes\":%zu,\"random_weights\":%s}\n",
            id, zn_engine_name(b->engine), b->precision, zn_engine_threads(b->engine), w, h, frames, ms, ms, cpu,
            plan.macs / 1e9, 2e-6 * plan.macs / ms, b->peak, plan.peak_bytes, plan.weight_bytes,
            random ? "true" : "false");
    else
        printf("%-20s %4dx%-4d %9.1f ms %8.2f GMAC %9.1f GFLOP/s %6.1f %% of peak %6zu MiB, %d frames%s\n", id, w, h,
               ms, plan.macs / 1e9, 2e-6 * plan.macs / ms, 2e-4 * plan.macs / ms / b->peak, plan.peak_bytes >> 20,
               frames, random ? "  (made-up weights)" : "");
    return EXIT_DONE;
}

static int bench_model(bench *b, const char *id)
{
    const options *o = b->o;
    static const char *const made_up = ZN_RANDOM_WEIGHTS;
    const int least_runs = b->remote ? 4 : 1; /* a GPU's first ones compile, measure and record */
    zn_model *m = NULL;
    zn_array in[ZN_MAX_PORTS] = { { 0 } }, out = { 0 };
    zn_plan plan;
    zn_error err, note = { "" };
    job_set set;
    zn_job job = { .set = set.value, .n_set = job_settings(&set, o, &err), .note = &note };
    zn_open open = { .files = o->weights, .n_files = o->n_weights, .precision = precision_of(o) };
    double ms[MAX_RUNS], total = 0, inside = 0, least = HUGE_VAL, cpu = HUGE_VAL, gflops;
    bool random = false;
    int n = 0, n_in = 0, status = EXIT_FAILED;

    if (job.n_set < 0)
        return usage("%s", err.text);
    if (zn_model_open(&m, b->engine, id, &open, &err)) {
        random = !o->n_weights;
        open.files = &made_up;
        open.n_files = 1;
        if (!random || zn_model_open(&m, b->engine, id, &open, &err))
            return fail("%s", err.text);
    }
    measure_peak(b, zn_model_precision(m));
    if (zn_model_named(id)->video && !strcmp(zn_model_named(id)->video, id)) {
        status = bench_video(b, m, id, random);
        goto end;
    }
    if (!make_inputs(in, &n_in, m, o)) {
        fail("out of memory");
        goto end;
    }
    if (zn_model_shape(m, in, n_in, &out, &err) || zn_model_plan(m, in, n_in, &job, &plan, &err)) {
        fail("%s", err.text);
        goto end;
    }
    out.data = malloc(zn_array_len(&out) * sizeof(float));
    if (!out.data) {
        fail("out of memory");
        goto end;
    }
    for (; n < least_runs || (n < MAX_RUNS && total < 2000); n++) { /* the first one warms up */
        const double start = now_ms(), cpu_start = cpu_ms();

        if (zn_model_run(m, in, n_in, &out, &job, &err)) {
            fail("%s", err.text);
            goto end;
        }
        ms[n] = now_ms() - start;
        total += ms[n];
        least = fmin(least, ms[n]);
        cpu = fmin(cpu, cpu_ms() - cpu_start);
    }
    qsort(ms + (n > 1), (size_t)(n - (n > 1)), sizeof *ms, by_value);
    ms[0] = ms[(n > 1) + (n - (n > 1)) / 2];
    if (b->remote && plan.n_tiles == 1 && zn_model_time(m, in, n_in, &out, &job, &inside, &err)) {
        fail("%s", err.text);
        goto end;
    }
    gflops = 2e-6 * plan.macs / (inside > 0 ? inside : ms[0]);
    if (o->json)
        printf("{\"model\":\"%s\",\"engine\":\"%s\",\"precision\":\"%s\",\"threads\":%d,\"size\":\"%dx%d\",\"ms\":%.3f,"
               "\"least_ms\":%.3f,\"cpu_ms\":%.3f,\"gmac\":%.3f,"
               "\"gflops\":%.1f,\"peak_gflops\":%.1f,\"peak_bytes\":%zu,\"weight_bytes\":%zu,\"tiles\":%d,"
               "\"device_ms\":%.4f,\"random_weights\":%s",
               id, zn_engine_name(b->engine), b->precision, zn_engine_threads(b->engine),
               out.w > in[0].w ? out.w : in[0].w, out.h > in[0].h ? out.h : in[0].h, ms[0], least, cpu, plan.macs / 1e9,
               gflops, b->peak, plan.peak_bytes, plan.weight_bytes, plan.n_tiles, inside > 0 ? inside : ms[0],
               random ? "true" : "false");
    else
        printf("%-20s %4dx%-4d %9.1f ms %8.2f GMAC %9.1f GFLOP/s %6.1f %% of peak %6zu MiB%s\n", id,
               out.w > in[0].w ? out.w : in[0].w, out.h > in[0].h ? out.h : in[0].h, ms[0], plan.macs / 1e9, gflops,
               100 * gflops / b->peak, plan.peak_bytes >> 20, random ? "  (made-up weights)" : "");
    print_parts(m, o->json);
    if (!o->json && inside > 0)
        printf("%-20s on the device alone %8.3f ms\n", "", inside);
    if (*note.text)
        printf("%-20s %s\n", "", note.text);
    if (o->layers && zn_model_profile(m, in, n_in, &out, &job, print_layer, b, &err)) {
        fail("%s", err.text);
        goto end;
    }
    status = EXIT_DONE;
end:
    for (int i = 0; i < n_in; i++)
        free(in[i].data);
    free(out.data);
    zn_model_close(&m);
    return status;
}

int cmd_bench(const options *o)
{
    bench b = { .o = o };
    zn_error err;
    int status = EXIT_DONE;

    if (bench_zenith_has(o))
        return bench_zenith(o);
    if (bench_faces_has(o))
        return bench_faces(o);
    if (bench_generate_has(o))
        return bench_generate(o);
    for (int i = 0; i < o->n_words; i++)
        if (!zn_model_named(o->word[i]))
            return usage("there is no model '%s'; `zenith models` lists them", o->word[i]);
    if (zn_engine_open(&b.engine, o->engine, o->threads, &err))
        return fail("%s", err.text);
    b.remote = zn_engine_is_remote(b.engine);
    for (int i = 0; !status && (o->n_words ? i < o->n_words : zn_model_at(i) != NULL); i++) {
        const zn_model_info *info = o->n_words ? zn_model_named(o->word[i]) : zn_model_at(i);

        if (o->n_words || info->weights) /* the template has nothing to measure */
            status = bench_model(&b, info->id);
        fflush(stdout);
    }
    zn_engine_close(&b.engine);
    return status;
}
