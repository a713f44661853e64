/* SPDX-License-Identifier: MIT */
/* latent.c - the latent network of the diffusion autoencoder, trained on codes: AdamW on the error of v, running means of the
 * weights.  The schedule is that of sampling (pipeline/diffae.c): betas of 0.008. */
#include "adam.h"
#include "build.h"
#include "save.h"

#include "../handle.h"
#include "../zenith_train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP = 200, HELD = 10 /* one code in so many is held out */, TEST_STEP = 1 << 30, MAX_C = 8192 };

static const double BETA = 0.008, MOST_KEPT = 0.999 /* of a running mean */;
static const char PREFIX[] = "latent_net.";

typedef struct run {
    const zn_latent_lesson *l;
    zn_engine *engine;
    const zn_arch *arch;
    zn_weights *w;
    zn_net *net;
    zn_adam adam;
    int code, dim, n_train;
    float *mean, *deviation; /* [code] */
    real *codes, *target;    /* [n][code], those to train with first; [batch][code] */
    real *average;           /* [net->len] */
    float *embedding;        /* [times][dim] */
} run;

/* ---- codes ---------------------------------------------------------------------------------------------- */

static zn_status check(const zn_latent_lesson *l, zn_error *err)
{
    if (l->n < ZN_LATENT_MIN || l->d < 1 || l->d > MAX_C)
        return zn_fail(err, ZN_E_USAGE, "there are %d faces: it takes at least %d", l->n, ZN_LATENT_MIN);
    if (l->steps < 1 || l->steps >= TEST_STEP || l->batch < 1 || l->batch > 4096 || !(l->rate > 0 && l->rate <= 1))
        return zn_fail(err, ZN_E_USAGE, "steps are from 1 to %d, the batch from 1 to 4096, the rate above 0 to 1",
                       TEST_STEP - 1);
    return ZN_OK;
}

/* Every HELD-th code is held out; statistics are of the others. */
static zn_status normalise(run *r, zn_error *err)
{
    const int n = r->l->n;
    const size_t d = (size_t)r->code;
    int at[2] = { 0, r->n_train = n - n / HELD };

    for (size_t k = 0; k < d; k++) {
        double sum = 0, squares = 0;

        for (int i = 0; i < n; i++)
            sum += i % HELD == HELD - 1 ? 0 : (double)r->l->codes[(size_t)i * d + k];
        r->mean[k] = (float)(sum / r->n_train);
        for (int i = 0; i < n; i++)
            squares += i % HELD == HELD - 1 ? 0 : pow((double)r->l->codes[(size_t)i * d + k] - (double)r->mean[k], 2);
        r->deviation[k] = (float)sqrt(squares / (r->n_train - 1));
        if (!(r->deviation[k] > 0) || !isfinite(r->deviation[k]))
            return zn_fail(err, ZN_E_USAGE, "number %zu of the codes is the same in all pictures, or not finite", k);
    }
    for (int i = 0; i < n; i++) {
        const int to = at[i % HELD == HELD - 1]++;

        for (size_t k = 0; k < d; k++)
            r->codes[(size_t)to * d + k] = (real)((r->l->codes[(size_t)i * d + k] - r->mean[k]) / r->deviation[k]);
    }
    return ZN_OK;
}

/* The batch of a step: codes with noise, their times, and v. */
static void make_batch(run *r, uint64_t step, bool held)
{
    const size_t d = (size_t)r->code, dim = (size_t)r->dim;
    const uint64_t seed = r->l->seed;

    for (uint64_t i = 0; i < (uint64_t)r->l->batch; i++) {
        const uint64_t stream = step * (uint64_t)r->l->batch + i;
        const int n = held ? r->l->n - r->n_train : r->n_train;
        const size_t which = (size_t)(zn_uniform(seed, stream, 0) * n) + (held ? (size_t)r->n_train : 0);
        const int t = (int)(zn_uniform(seed, stream, 1) * r->arch->coded->times);
        const double a = pow(1 - BETA, t + 1), signal = sqrt(a), noise = sqrt(1 - a);

        memcpy(r->net->node[1]->y + i * dim, r->embedding + (size_t)t * dim, dim * sizeof(real));
        for (size_t k = 0; k < d; k++) {
            const double x = (double)r->codes[which * d + k], e = zn_normal(seed + 1, stream, k);

            r->net->node[0]->y[i * d + k] = (real)(signal * x + noise * e);
            r->target[i * d + k] = (real)(signal * e - noise * x);
        }
    }
}

/* ---- a run ----------------------------------------------------------------------------------------------- */

static zn_status open_run(run *r, zn_error *err)
{
    const zn_latent_lesson *l = r->l;
    zn_status s = zn_weights_open(&r->w, &l->weights, 1, err);
    int i = 0;
    const zn_entry *first, *own;

    if (s)
        return s;
    while (!zn_archs[i]->coded)
        i++;
    r->arch = zn_archs[i];
    if (*r->arch->coded->prefix(r->w))
        return zn_fail(err, ZN_E_USAGE, "%s is a published checkpoint: `zenith convert` makes the file that this takes",
                       l->weights);
    first = zn_weights_get(r->w, "latent_net.time_embed.0.weight");
    own = zn_weights_get(r->w, "latent_net.layers.0.linear.weight");
    if (own && (own->n_dims != 2 || own->shape[1] != l->d))
        return zn_fail(err, ZN_E_FILE, "%s: its latent network is for other codes than the %d numbers of these",
                       l->weights, l->d);
    r->code = l->d;
    r->dim = first && first->n_dims == 2 && first->shape[1] <= MAX_C ? (int)first->shape[1] : r->arch->coded->dim;
    r->net = zn_net_new(r->engine->dev);
    r->mean = calloc(2 * (size_t)r->code, sizeof *r->mean);
    r->deviation = r->mean + r->code;
    r->codes = calloc((size_t)l->n * (size_t)r->code, sizeof *r->codes);
    r->target = calloc((size_t)l->batch * (size_t)r->code, sizeof *r->target);
    r->embedding = calloc((size_t)r->arch->coded->times * (size_t)r->dim, sizeof *r->embedding);
    if (!r->net || !r->mean || !r->codes || !r->target || !r->embedding)
        return zn_fail(err, ZN_E_MEMORY, "out of memory for %d codes", l->n);
    r->arch->coded->embed(r->embedding, r->dim);
    if ((s = normalise(r, err)) ||
        (s = zn_net_build_codes(r->net, r->arch, first && own ? r->w : NULL, l->batch, r->code, r->dim, err)))
        return s;
    if (!zn_net_finish(r->net, l->seed + 2))
        return zn_fail(err, r->net->status, "%s", r->net->error.text);
    r->average = calloc(r->net->len, sizeof *r->average);
    r->adam = (zn_adam){ .m = calloc(r->net->len, sizeof *r->adam.m),
                         .v = calloc(r->net->len, sizeof *r->adam.v),
                         .decay = 0.01 };
    if (!r->average || !r->adam.m || !r->adam.v)
        return zn_fail(err, ZN_E_MEMORY, "out of memory for %zu parameters", r->net->len);
    memcpy(r->average, r->net->w, r->net->len * sizeof *r->average);
    return ZN_OK;
}

static void close_run(run *r)
{
    zn_net_free(&r->net);
    zn_weights_close(&r->w);
    free(r->mean);
    free(r->codes);
    free(r->target);
    free(r->embedding);
    free(r->average);
    free(r->adam.m);
    free(r->adam.v);
}

/* The error on codes that are not trained on, of noise that is the same every time. */
static double test(run *r)
{
    enum { ROUNDS = 8 };
    double sum = 0;

    for (int i = 0; i < ROUNDS; i++) {
        make_batch(r, TEST_STEP + (uint64_t)i, true);
        zn_net_forward(r->net);
        sum += zn_net_loss(r->net, r->target, NULL, false) / ROUNDS;
    }
    return sum;
}

static double one_step(run *r, int64_t step)
{
    const double done = (double)step / (double)r->l->steps, warm = step < WARM_UP ? (double)(step + 1) / WARM_UP : 1;
    const double keep = fmin(MOST_KEPT, (1.0 + (double)step) / (10.0 + (double)step));
    double loss;

    make_batch(r, (uint64_t)step, false);
    zn_net_forward(r->net);
    loss = zn_net_loss(r->net, r->target, NULL, false);
    zn_net_backward(r->net);
    r->adam.rate = r->l->rate * warm * (0.01 + 0.99 * 0.5 * (1 + cos(3.14159265358979 * done)));
    zn_adam_update(&r->adam, r->net);
    for (size_t i = 0; i < r->net->len; i++)
        r->average[i] = (real)(keep * (double)r->average[i] + (1 - keep) * (double)r->net->w[i]);
    return loss;
}

/* The base file's tensors, but for what was trained. */
static zn_status save(const run *r, const char *path, zn_error *err)
{
    static const char *const keys[] = { "model",         "project",        "config",     "patch",   "prediction",
                                        "head_channels", "encoder_blocks", "image_size", "licence", "cite" };
    const char *meta[2 * (sizeof keys / sizeof *keys) + 3];
    const int n = zn_weights_count(r->w);
    const zn_save_part part = { "", r->net->w };
    zn_save_tensor *more = calloc((size_t)n + 2, sizeof *more);
    int n_more = 0, n_meta = 0;
    zn_status s;

    if (!more)
        return zn_fail(err, ZN_E_MEMORY, "out of memory while writing %s", path);
    for (int i = 0; i < n; i++) {
        const char *name = zn_weights_info(r->w, i).name;
        const zn_entry *e = zn_weights_get(r->w, name);

        if (!strncmp(name, PREFIX, sizeof PREFIX - 1) || !strcmp(name, "conds_mean") || !strcmp(name, "conds_std"))
            continue;
        more[n_more] = (zn_save_tensor){ .name = name, .type = e->dtype, .n_dims = e->n_dims, .from = e };
        memcpy(more[n_more++].shape, e->shape, sizeof e->shape);
    }
    for (int i = 0; i < 2; i++)
        more[n_more++] = (zn_save_tensor){ .name = i ? "conds_std" : "conds_mean",
                                           .n_dims = 1,
                                           .shape = { r->code },
                                           .data = i ? r->deviation : r->mean };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (zn_weights_meta(r->w, keys[i]) && !strpbrk(zn_weights_meta(r->w, keys[i]), "\"\\")) {
            meta[n_meta++] = keys[i];
            meta[n_meta++] = zn_weights_meta(r->w, keys[i]);
        }
    meta[n_meta++] = "latent_prediction";
    meta[n_meta++] = "v";
    meta[n_meta] = NULL;
    s = zn_save_safetensors(path, r->net, &part, 1, more, n_more, meta, err);
    free(more);
    return s;
}

static zn_status train(run *r, zn_latent_report *report, bool (*progress)(void *, const zn_latent_report *),
                       void *cookie, zn_error *err)
{
    report->steps = r->l->steps;
    report->before = test(r);
    for (report->step = 0; report->step < r->l->steps;) {
        report->loss = one_step(r, report->step);
        report->step++;
        if (!isfinite(report->loss))
            return zn_fail(err, ZN_E_USAGE, "the loss is no longer finite at step %lld: a smaller --rate helps",
                           (long long)report->step);
        if (progress && !progress(cookie, report))
            return zn_fail(err, ZN_E_CANCELLED, "cancelled at step %lld", (long long)report->step);
    }
    memcpy(r->net->w, r->average, r->net->len * sizeof *r->average);
    report->after = test(r);
    return ZN_OK;
}

zn_status zn_latent_train(const char *path, zn_latent_report *report, zn_engine *engine, const zn_latent_lesson *lesson,
                          bool (*progress)(void *cookie, const zn_latent_report *report), void *cookie, zn_error *err)
{
    run r = { .l = lesson, .engine = engine };
    zn_status s = check(lesson, err);

    *report = (zn_latent_report){ 0 };
    if (!s && !engine->be->trains)
        s = zn_fail(err, ZN_E_USAGE, "training runs on the CPU; the engine %s is none", engine->be->name);
    if (s || (s = zn_turn_take(&engine->turn, err)))
        return s;
    s = open_run(&r, err);
    if (!s)
        s = train(&r, report, progress, cookie, err);
    zn_turn_give(&engine->turn);
    if (!s)
        s = save(&r, path, err);
    close_run(&r);
    return s;
}
