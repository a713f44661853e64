/* SPDX-License-Identifier: MIT */
/* run.c - `zenith run`: a model on .npy files. */
#include "frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The file of "name=file" whose name is that port's; "[x]" is the optional port x. */
static const char *file_of(const char *const *args, int n, const char *port)
{
    char name[64];
    size_t len;

    snprintf(name, sizeof name, "%s", port[0] == '[' ? port + 1 : port);
    len = strcspn(name, "]");
    for (int i = 0; i < n; i++)
        if (!strncmp(args[i], name, len) && args[i][len] == '=')
            return args[i] + len + 1;
    return NULL;
}

/* Every --in and --out must name a port. */
static const char *stranger(const char *const *args, int n, const char *const *ports)
{
    for (int i = 0; i < n; i++) {
        bool known = false;

        for (int p = 0; ports[p]; p++)
            known = known || file_of(&args[i], 1, ports[p]);
        if (!known)
            return args[i];
    }
    return NULL;
}

/* The memory of the run, before it starts. */
static void show_plan(zn_model *model, const zn_array *in, int n_in, const zn_job *job)
{
    zn_plan plan;

    if (!zn_model_plan(model, in, n_in, job, &plan, NULL)) /* otherwise the run says why */
        fprintf(stderr, "%.0f MiB, and %.0f MiB of weights%s; %.3g billion multiply-adds\n",
                (double)plan.peak_bytes / 1048576, (double)plan.weight_bytes / 1048576,
                plan.streamed ? " (layers are read from disk as they are needed: slower)" : "", plan.macs / 1e9);
}

static bool read_input(zn_array *in, int *rank, const char *path, zn_error *err)
{
    int n;

    return latent_is_file(path) ? latent_read(in, &n, path, err) : npy_read(in, rank, path, err);
}

/* A video through the model that takes one. */
static int run_video(const options *o, const zn_model_info *info, const char *from, const char *to, const zn_job *job)
{
    const zn_open open = { .files = o->weights, .n_files = o->n_weights, .precision = precision_of(o) };
    npy_video out = { 0 };
    video_input in;
    zn_engine *engine = NULL;
    zn_model *model = NULL;
    zn_error err = { "" };
    bool ok = video_open(&in, from, &err) && !zn_engine_open(&engine, o->engine, o->threads, &err) &&
        !zn_model_open(&model, engine, info->id, &open, &err) &&
        !zn_model_video_shape(model, &in.frames, &out.frames, &err) && npy_create_video(&out, to, &err);

    if (ok) {
        ok = !zn_model_run_video(model, &out.frames, &in.frames, job, &err);
        ok = npy_close_video(&out, ok, &err);
    }
    say_cleaned(in.n_cleaned, info->in[0]);
    if (*in.err.text)
        err = in.err;
    video_close(&in);
    zn_model_close(&model);
    zn_engine_close(&engine);
    return ok ? EXIT_DONE : fail("%s", err.text);
}

int cmd_run(const options *o)
{
    const zn_model_info *info;
    zn_engine *engine = NULL;
    zn_model *model = NULL;
    zn_array in[ZN_MAX_PORTS] = { { 0 } }, out[ZN_MAX_PORTS] = { { 0 } };
    zn_error err = { "" };
    job_set set;
    zn_error note = { "" };
    zn_job job = { .set = set.value, .progress = o->progress ? show_progress : NULL, .note = &note };
    const zn_open open = { .files = o->weights, .n_files = o->n_weights, .precision = precision_of(o) };
    int n_in = 0, n_out = 0, rank = 3, status = EXIT_FAILED;

    if (o->n_words != 1)
        return usage("run takes one model: zenith run MODEL --in NAME=FILE.npy --out NAME=FILE.npy");
    if (!strcmp(o->word[0], "z-image-tokens")) /* no model of the engine: it takes a text */
        return run_tokens(o);
    info = zn_model_named(o->word[0]);
    if (!info)
        return usage("there is no model '%s'; `zenith models` lists them", o->word[0]);
    if (stranger(o->in, o->n_in, info->in))
        return usage("%s has no input '%s'", info->id, stranger(o->in, o->n_in, info->in));
    if (stranger(o->out, o->n_out, info->out))
        return usage("%s has no output '%s'", info->id, stranger(o->out, o->n_out, info->out));
    for (int i = 0; info->in[i]; i++)
        if (!file_of(o->in, o->n_in, info->in[i]) && info->in[i][0] != '[')
            return usage("%s needs --in %s=FILE.npy", info->id, info->in[i]);
    if (!o->n_out)
        return usage("%s needs --out %s=FILE.npy", info->id, info->out[0]);
    if ((job.n_set = job_settings(&set, o, &err)) < 0)
        return usage("%s", err.text);
    if (info->video && video_is_input(file_of(o->in, o->n_in, info->in[0])))
        return run_video(o, zn_model_named(info->video), file_of(o->in, o->n_in, info->in[0]),
                         file_of(o->out, o->n_out, info->out[0]), &job);

    if (zn_engine_open(&engine, o->engine, o->threads, &err) || zn_model_open(&model, engine, info->id, &open, &err)) {
        fail("%s", err.text);
        goto end;
    }
    for (; info->in[n_in] && file_of(o->in, o->n_in, info->in[n_in]); n_in++)
        if (!read_input(&in[n_in], &rank, file_of(o->in, o->n_in, info->in[n_in]), &err)) {
            fail("%s", err.text);
            goto end;
        }
    for (int i = 0; i < n_in; i++)
        say_cleaned(clean_numbers(in[i].data, zn_array_len(&in[i])), info->in[i]);
    if (zn_model_shape(model, in, n_in, out, &err)) {
        fail("%s", err.text);
        goto end;
    }
    for (; info->out[n_out]; n_out++) {
        out[n_out].data = malloc(zn_array_len(&out[n_out]) * sizeof(float));
        if (!out[n_out].data) {
            fail("out of memory for the result");
            goto end;
        }
    }
    if (o->progress)
        show_plan(model, in, n_in, &job);
    if (zn_model_run(model, in, n_in, out, &job, &err)) {
        fail("%s", err.text);
        goto end;
    }
    if (*note.text)
        fprintf(stderr, "zenith: %s\n", note.text);
    for (int i = 0; i < n_out; i++) {
        const char *path = file_of(o->out, o->n_out, info->out[i]);

        if (path &&
            (!check_numbers(out[i].data, zn_array_len(&out[i]), &err) ||
             !npy_write(path, &out[i], out[i].h == 1 && out[i].w == 1 && rank == 1 ? 1 : 3, &err))) {
            fail("%s", err.text);
            goto end;
        }
    }
    status = EXIT_DONE;
end:
    for (int i = 0; i < ZN_MAX_PORTS; i++) {
        free(in[i].data);
        free(out[i].data);
    }
    zn_model_close(&model);
    zn_engine_close(&engine);
    return status;
}
