/* SPDX-License-Identifier: MIT */
/* trainer.c - one training run: options, batches, steps, tests, files. */
#include "adam.h"
#include "batch.h"
#include "build.h"
#include "save.h"

#include "../handle.h"
#include "../zenith_number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WARM_UP = 50, /* steps of a rising rate */
    MAX_BATCH = 256,
    MAX_STEPS = (1 << 30) - 1,
    TEST_NUMBER = MAX_STEPS + 1 /* of the batch that is tested with: no step has it */
};

struct zn_trainer {
    zn_engine *engine;
    zn_train_options o;
    unsigned task; /* one ZN_TASK_ */
    int damage;    /* of every picture; -1: each kind in turn */
    zn_wavelets wavelets;
    zn_net *net;
    zn_adam adam;
    real *clean;            /* [batch][size][size][3] */
    real weight[MAX_BATCH]; /* of a picture's error, with `relative` */
    zn_picture *pictures;
    int n_pictures;
    zn_act act;
    char model[32], activation[8];
    const char *family; /* the name under which its architectures are found */
    char note[160];     /* "", or a sentence about the model's name */
    bool from_pictures; /* it cannot be trained on wavelets */
    bool centred;       /* its pictures are -1..1 */
    bool posterior;     /* a variational autoencoder */
    float *view;        /* NULL, or how its latents are shown: view.weight [3][view_z], view.bias [3]; not trained */
    int view_z;
    const char *meta[9]; /* of the saved file: pairs, NULL ends */
};

/* ---- open and close ------------------------------------------------------------------------------------ */

static zn_status refuse_model(const char *model, zn_error *err)
{
    char names[300] = "";

    for (int i = 0; zn_archs[i]; i++) {
        const zn_arch *a = zn_archs[i];

        if (a->train && zn_trained_at(a->info.weights, 0) == a)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names ? ", " : "", a->info.weights);
    }
    return zn_fail(err, ZN_E_USAGE, "'%.40s' cannot be trained; these can: %s", model, names);
}

static zn_status choose_task(zn_trainer *t, const zn_arch *a, zn_error *err)
{
    static const struct {
        const char *name;
        unsigned task;
        int damage;
    } tasks[] = { { "restore", ZN_TASK_RESTORE, -1 },           { "restore-gaussian", ZN_TASK_RESTORE, ZN_GAUSSIAN },
                  { "restore-shot", ZN_TASK_RESTORE, ZN_SHOT }, { "restore-blur", ZN_TASK_RESTORE, ZN_BLUR },
                  { "reconstruct", ZN_TASK_RECONSTRUCT, -1 },   { "denoise", ZN_TASK_DENOISE, ZN_GAUSSIAN } };
    const unsigned usual = a->train->tasks & (0 - a->train->tasks); /* the lowest bit */

    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        if (t->o.task ? !strcmp(tasks[i].name, t->o.task) : tasks[i].task == usual) {
            if (!(tasks[i].task & a->train->tasks))
                break;
            t->task = tasks[i].task;
            t->damage = tasks[i].damage;
            return ZN_OK;
        }
    return zn_fail(err, ZN_E_USAGE, "%s cannot be trained for the task '%.40s'", t->model, t->o.task);
}

/* The variant that is trained, as metadata of its file. */
static zn_status choose_variant(zn_trainer *t, const zn_arch *a, zn_error *err)
{
    int n = 0;

    if ((t->o.activation || t->o.windows) && !a->train->variants)
        return zn_fail(err, ZN_E_USAGE, "%s has no activation or windows to choose", t->model);
    if (t->o.activation && !(t->act = zn_act_named(t->o.activation)))
        return zn_fail(err, ZN_E_USAGE, "the activation '%.40s' is not one of relu, silu, gelu", t->o.activation);
    t->meta[n++] = "model", t->meta[n++] = *t->note ? t->family : t->model;
    if (t->o.residual)
        t->meta[n++] = "residual", t->meta[n++] = "1";
    if (t->act) {
        snprintf(t->activation, sizeof t->activation, "%s", t->o.activation);
        t->meta[n++] = "activation", t->meta[n++] = t->activation;
    }
    if (t->o.windows)
        t->meta[n++] = "window", t->meta[n++] = "plain";
    return ZN_OK;
}

/* The name that the network of these weights has now, if `model` was its name before; without a file too, where only that one is
 * trained without.  NULL: it was not. */
static const char *renamed(const char *model, const zn_weights *w)
{
    const zn_arch *a = model ? zn_trained_at(model, 0) : NULL, *old = a ? a->formerly : NULL;
    char what[96];

    return old && (w ? old->recognise(w, what, sizeof what) : a->train->from_weights) ? old->info.weights : NULL;
}

/* Weights of another name can be those of the same network: the file decides. */
static const char *family_of(const char *model, const zn_weights *w)
{
    const char *now = renamed(model, w);
    char what[96];

    if (now)
        return now;
    for (int i = 0; w && model && zn_archs[i]; i++) {
        const zn_arch *a = zn_archs[i];
        const zn_training *how = a->train;

        if (a->recognise && a->recognise(w, what, sizeof what))
            return how && how->from_weights && how->tasks == ZN_TASK_RECONSTRUCT &&
                    !strncmp(model, a->info.weights, strlen(a->info.weights))
                ? a->info.weights
                : model;
    }
    return model;
}

static zn_status check_options(zn_trainer *t, const zn_train_options *o, const zn_weights *w, zn_error *err)
{
    const char *family = family_of(o->model, w);
    const zn_arch *a = family ? zn_trained_at(family, 0) : NULL;
    bool tuned;
    zn_status s;

    if (!a)
        return refuse_model(o->model ? o->model : "", err);
    snprintf(t->model, sizeof t->model, "%s", o->model);
    t->family = a->info.weights;
    if (renamed(o->model, w))
        snprintf(t->note, sizeof t->note, "the network that was called %s before is now called %s", o->model,
                 t->family);
    t->from_pictures = a->train->from_weights;
    t->centred = a->centred;
    t->posterior = a->train->posterior;
    t->o = *o;
    if ((s = choose_task(t, a, err)) || (s = choose_variant(t, a, err)))
        return s;
    tuned = a->train->from_weights;
    t->o.model = t->model;
    t->o.task = t->o.activation = NULL; /* the caller's memory */
    t->o.base = o->base ? o->base : 16;
    t->o.size = o->size ? o->size : 64;
    t->o.batch = o->batch ? o->batch : 4;
    t->o.steps = o->steps ? o->steps : 2000;
    t->o.rate = o->rate > 0 ? o->rate : tuned || t->posterior ? 1e-4 : 1e-3;
    t->o.decay = o->decay > 0 || !t->posterior ? o->decay : 0.01;
    t->o.divergence = o->divergence > 0 ? o->divergence : 1e-3;
    if (!(o->sigma[1] > 0)) {
        t->o.sigma[0] = tuned ? 0 : 0.2;
        t->o.sigma[1] = tuned ? 55 : 0.2;
    }
    t->wavelets = (zn_wavelets){ { 0.05, 0.3 }, { 20, 80 } };
    if (o->wave[1] > 0)
        memcpy(t->wavelets.wave, o->wave, sizeof o->wave);
    if (o->spread[1] > 0)
        memcpy(t->wavelets.spread, o->spread, sizeof o->spread);
    if (t->o.size < 16 || t->o.size > 1024 || t->o.batch < 1 || t->o.batch > MAX_BATCH || t->o.base < 1 ||
        t->o.base > 64 || !(t->o.dropout >= 0 && t->o.dropout < 1))
        return zn_fail(err, ZN_E_USAGE,
                       "size is from 16 to 1024, batch from 1 to 256, base from 1 to 64, dropout "
                       "from 0 to below 1");
    if (t->o.steps < 1 || t->o.steps > MAX_STEPS)
        return zn_fail(err, ZN_E_USAGE, "the number of steps is from 1 to %d", MAX_STEPS);
    if (!o->weights && !o->resume && a->train->from_weights)
        return zn_fail(err, ZN_E_USAGE, "%s is trained from weights: --weights FILE", t->model);
    return ZN_OK;
}

static zn_status build(zn_trainer *t, const zn_weights *w, zn_error *err)
{
    const zn_train_options *o = &t->o;
    const zn_build b = {
        .model = t->family, .batch = o->batch, .size = o->size, .base = o->base, .meta = t->meta, .w = w
    };
    zn_status s;

    t->net = zn_net_new(t->engine->dev);
    if (!t->net)
        return zn_fail(err, ZN_E_MEMORY, "out of memory");
    if ((s = zn_net_build(t->net, &b, err)))
        return s;
    t->clean = calloc((size_t)o->batch * (size_t)o->size * (size_t)o->size * 3, sizeof *t->clean);
    t->adam.m = calloc(t->net->len, sizeof *t->adam.m);
    t->adam.v = calloc(t->net->len, sizeof *t->adam.v);
    if (!t->clean || !t->adam.m || !t->adam.v || !zn_net_finish(t->net, o->seed))
        return zn_fail(err, ZN_E_MEMORY, "out of memory for %zu parameters", t->net->len);
    t->adam.decay = o->decay;
    t->net->dropout = (real)o->dropout;
    t->net->penalty = (real)o->penalty;
    t->net->divergence = (real)o->divergence;
    t->net->seed = o->seed + 1;
    return ZN_OK;
}

/* As checkpoints have it: 0 restore, 1 reconstruct, 2 denoise. */
static int task_number(const zn_trainer *t)
{
    return t->task == ZN_TASK_DENOISE ? 2 : t->task == ZN_TASK_RECONSTRUCT;
}

/* The options that decide the results of a run, as text: a checkpoint must have the same. */
static void describe(const zn_trainer *t, char *text, size_t size)
{
    const zn_train_options *o = &t->o;
    const double number[] = { o->rate,
                              o->decay,
                              o->relative,
                              o->temperature,
                              o->dropout,
                              o->penalty,
                              t->wavelets.wave[0],
                              t->wavelets.wave[1],
                              t->wavelets.spread[0],
                              t->wavelets.spread[1],
                              o->sigma[0],
                              o->sigma[1] };
    char n[12][ZN_NUMBER_SIZE], divergence[ZN_NUMBER_SIZE];
    int len;

    for (int i = 0; i < 12; i++)
        zn_number_print(n[i], number[i]);
    len = snprintf(
        text, size,
        "%s task %d.%d base %d size %d batch %d steps %lld rate %s decay %s cosine %d l1 %d relative %s seed %llu "
        "temperature %s dropout %s penalty %s hard %d residual %d wave %s %s spread %s %s sigma %s %s activation %d",
        t->model, task_number(t), t->damage, o->base, o->size, o->batch, (long long)o->steps, n[0], n[1], o->cosine,
        o->absolute, n[2], (unsigned long long)o->seed, n[3], n[4], n[5], o->hard_gates, o->residual, n[6], n[7], n[8],
        n[9], n[10], n[11], (int)t->act);
    zn_number_print(divergence, o->divergence);
    if (t->posterior && len > 0 && (size_t)len < size)
        snprintf(text + len, size - (size_t)len, " kl %s", divergence);
}

static zn_status read_checkpoint(zn_trainer *t, const zn_weights *w, zn_error *err)
{
    const char *step = zn_weights_meta(w, "step"), *options = zn_weights_meta(w, "options");
    char mine[700], *end = NULL;
    long long number;
    zn_status s;

    if (!step || !options)
        return zn_fail(err, ZN_E_FILE, "%s is not a checkpoint of a training run", t->o.resume);
    describe(t, mine, sizeof mine);
    if (strcmp(mine, options))
        return zn_fail(err, ZN_E_USAGE, "%s was made with other options: %s", t->o.resume, options);
    number = strtoll(step, &end, 10);
    if (end == step || *end || number < 0 || number > MAX_STEPS)
        return zn_fail(err, ZN_E_FILE, "%s: its step '%.40s' is not from 0 to %d", t->o.resume, step, MAX_STEPS);
    if ((s = zn_net_load(t->net, t->net->w, w, "", err)) || (s = zn_net_load(t->net, t->adam.m, w, "adam_m.", err)) ||
        (s = zn_net_load(t->net, t->adam.v, w, "adam_v.", err)))
        return s;
    t->adam.step = number;
    return ZN_OK;
}

static zn_status read_view(zn_trainer *t, const zn_weights *w, zn_error *err)
{
    const zn_entry *weight = zn_weights_get(w, "view.weight"), *bias = zn_weights_get(w, "view.bias");
    zn_status s;

    if (!weight || !bias || weight->n_dims != 2 || weight->shape[0] != 3 || weight->shape[1] > 256 ||
        zn_entry_len(bias) != 3)
        return ZN_OK;
    t->view_z = (int)weight->shape[1];
    t->view = malloc((size_t)(3 * t->view_z + 3) * sizeof *t->view);
    if (!t->view)
        return zn_fail(err, ZN_E_MEMORY, "out of memory");
    s = zn_entry_read(weight, t->view, err);
    return s ? s : zn_entry_read(bias, t->view + 3 * t->view_z, err);
}

zn_status zn_trainer_open(zn_trainer **out, zn_engine *engine, const zn_train_options *o, zn_error *err)
{
    zn_trainer *t = calloc(1, sizeof *t);
    const char *file = o->resume ? o->resume : o->weights;
    zn_weights *w = NULL;
    zn_status s;

    *out = NULL;
    if (!t)
        return zn_fail(err, ZN_E_MEMORY, "out of memory");
    t->engine = engine;
    s = file ? zn_weights_open(&w, &file, 1, err) : ZN_OK;
    if (!s)
        s = check_options(t, o, w, err);
    if (!s && !engine->be->trains)
        s = zn_fail(err, ZN_E_USAGE, "training runs on the CPU; the engine %s is none", engine->be->name);
    if (!s)
        s = build(t, w, err);
    if (!s && w)
        s = o->resume ? read_checkpoint(t, w, err) : zn_net_load(t->net, t->net->w, w, "", err);
    if (!s && w)
        s = read_view(t, w, err);
    zn_weights_close(&w);
    if (s)
        zn_trainer_close(&t);
    *out = t;
    return s;
}

void zn_trainer_close(zn_trainer **trainer)
{
    zn_trainer *t = trainer ? *trainer : NULL;

    if (!t)
        return;
    zn_net_free(&t->net);
    for (int i = 0; i < t->n_pictures; i++)
        free(t->pictures[i].data);
    free(t->pictures);
    free(t->view);
    free(t->clean);
    free(t->adam.m);
    free(t->adam.v);
    free(t);
    *trainer = NULL;
}

const char *zn_trainer_note(const zn_trainer *t)
{
    return t->note;
}

zn_status zn_trainer_add_picture(zn_trainer *t, const zn_array *picture, zn_error *err)
{
    size_t len = zn_array_len(picture);
    zn_picture *list, p = { NULL, picture->w, picture->h };

    if (p.w < t->o.size || p.h < t->o.size || picture->c != 3)
        return zn_fail(err, ZN_E_USAGE,
                       "a picture of %dx%d with %d channels is too small for squares of %d, or not "
                       "of 3 channels",
                       p.w, p.h, picture->c, t->o.size);
    list = realloc(t->pictures, (size_t)(t->n_pictures + 1) * sizeof *list);
    if (list)
        t->pictures = list;
    p.data = list ? malloc(len) : NULL;
    if (!p.data)
        return zn_fail(err, ZN_E_MEMORY, "out of memory for the pictures");
    for (size_t i = 0; i < len; i++) {
        float v = picture->data[i];

        p.data[i] = v > 0 ? (unsigned char)(v < 1 ? v * 255 + 0.5f : 255) : 0; /* NaN gives 0 */
    }
    t->pictures[t->n_pictures++] = p;
    return ZN_OK;
}

/* ---- batches ------------------------------------------------------------------------------------------- */

typedef struct batch_job {
    zn_trainer *t;
    uint64_t number;
    int kind; /* of damage; -1: each in turn */
} batch_job;

static double draw_sigma(const zn_trainer *t, uint64_t stream)
{
    return t->o.sigma[0] + (t->o.sigma[1] - t->o.sigma[0]) * zn_uniform(t->o.seed + 3, stream, 0);
}

/* 1 where the damage is a mean square of 0.1, more where it is less. */
static real relative_weight(const real *x, const real *clean, size_t len, double power)
{
    double sum = 0;

    for (size_t i = 0; i < len; i++)
        sum += (double)((x[i] - clean[i]) * (x[i] - clean[i]));
    return (real)pow(0.1 / (sum / (double)len + 1e-4), power);
}

static void damage_item(void *cookie, int item, int worker)
{
    const batch_job *job = cookie;
    zn_trainer *t = job->t;
    size_t len = (size_t)t->o.size * (size_t)t->o.size * 3, at = (size_t)item * len;
    uint64_t stream = job->number * (uint64_t)t->o.batch + (uint64_t)item;
    int kind = job->kind >= 0 ? job->kind : (int)((job->number + (uint64_t)item) % ZN_N_DAMAGES);
    real *x = t->net->node[0]->y + at;

    (void)worker;
    if (t->task == ZN_TASK_DENOISE) {
        double sigma = draw_sigma(t, stream) / 255;
        real *map = t->net->node[1]->y + at;

        zn_damage(x, t->clean + at, t->o.size, ZN_GAUSSIAN, sigma, t->o.seed + 2, stream);
        for (size_t i = 0; i < len; i++)
            map[i] = (real)sigma;
    } else if (t->task == ZN_TASK_RESTORE) {
        zn_damage(x, t->clean + at, t->o.size, kind, job->number == TEST_NUMBER ? 0.3 : draw_sigma(t, stream),
                  t->o.seed + 2, stream);
    } else {
        memcpy(x, t->clean + at, len * sizeof *x);
    }
    t->weight[item] = relative_weight(x, t->clean + at, len, t->o.relative);
}

static void cut_pictures(zn_trainer *t, uint64_t number)
{
    const size_t len = (size_t)t->o.batch * (size_t)t->o.size * (size_t)t->o.size * 3;

    zn_cut_pictures(t->clean, t->o.batch, t->o.size, t->pictures, t->n_pictures, t->o.seed, number);
    for (size_t i = 0; t->centred && i < len; i++)
        t->clean[i] = 2 * t->clean[i] - 1;
}

static void make_batch(zn_trainer *t, uint64_t number, int kind)
{
    batch_job job = { t, number, kind };

    if (t->n_pictures)
        cut_pictures(t, number);
    else
        zn_draw_wavelets(t->net->dev->pool, t->clean, t->o.batch, t->o.size, &t->wavelets, t->o.seed, number);
    zn_pool_run(t->net->dev->pool, damage_item, &job, t->o.batch);
}

/* ---- steps --------------------------------------------------------------------------------------------- */

/* 1 until a quarter, 0 from three quarters on. */
static double cooled(double done)
{
    return done < 0.25 ? 1 : done < 0.75 ? 1.5 - 2 * done : 0;
}

static double rate_at(const zn_trainer *t, int64_t step)
{
    double warm = step < WARM_UP ? (double)(step + 1) / WARM_UP : 1;
    double done = (double)step / (double)t->o.steps;

    return t->o.cosine ? t->o.rate * warm * 0.5 * (1 + cos(3.14159265358979 * (done < 1 ? done : 1))) : t->o.rate;
}

zn_status zn_trainer_step(zn_trainer *t, zn_train_report *report, zn_error *err)
{
    zn_net *net = t->net;
    zn_train_report r = { .steps = t->o.steps };
    double t0 = zn_now_ms(), t1, t2, t3;
    int64_t step = t->adam.step;

    if (t->from_pictures && !t->n_pictures)
        return zn_fail(err, ZN_E_USAGE, "there are no pictures to learn from");
    if (step > MAX_STEPS)
        return zn_fail(err, ZN_E_USAGE, "a run has no more than %d steps", MAX_STEPS);
    if (zn_turn_take(&t->engine->turn, err))
        return ZN_E_USAGE;
    net->training = !t->o.hard_gates;
    net->temperature = (real)(t->o.temperature * cooled((double)step / (double)t->o.steps));
    net->step = (uint64_t)step;
    make_batch(t, (uint64_t)step, t->damage);
    t1 = zn_now_ms();
    zn_net_forward(net);
    r.loss = zn_net_loss(net, t->clean, t->o.relative > 0 ? t->weight : NULL, t->o.absolute);
    r.open_gates = zn_net_open_gates(net, &r.all_gates);
    r.divergence = zn_net_divergence(net);
    t2 = zn_now_ms();
    zn_net_backward(net);
    t3 = zn_now_ms();
    t->adam.rate = rate_at(t, step);
    zn_adam_update(&t->adam, net);
    zn_turn_give(&t->engine->turn);
    r.step = t->adam.step;
    r.data_ms = t1 - t0;
    r.forward_ms = t2 - t1;
    r.backward_ms = t3 - t2;
    r.update_ms = zn_now_ms() - t3;
    *report = r;
    if (!isfinite(r.loss) || !isfinite(r.divergence))
        return zn_fail(err, ZN_E_USAGE, "the loss is no longer finite at step %lld: a smaller --rate helps",
                       (long long)r.step);
    return ZN_OK;
}

int zn_trainer_tests(const zn_trainer *t)
{
    return t->task == ZN_TASK_RESTORE ? ZN_N_DAMAGES : 1;
}

zn_status zn_trainer_test(zn_trainer *t, int kind, double *before, double *after, zn_error *err)
{
    const zn_node *x;
    size_t len = zn_node_len(zn_net_last(t->net));

    if (t->from_pictures && !t->n_pictures)
        return zn_fail(err, ZN_E_USAGE, "there are no pictures to test with");
    if (zn_turn_take(&t->engine->turn, err))
        return ZN_E_USAGE;
    t->net->training = false;
    make_batch(t, TEST_NUMBER, kind);
    zn_net_forward(t->net);
    *after = zn_net_loss(t->net, t->clean, NULL, false);
    x = t->net->node[0];
    *before = 0;
    for (size_t i = 0; i < len; i++)
        *before += pow((double)(x->y[i] - t->clean[i]), 2) / (double)len;
    zn_turn_give(&t->engine->turn);
    return ZN_OK;
}

/* ---- files --------------------------------------------------------------------------------------------- */

/* The tensors of the view; how many. */
static int view_tensors(zn_save_tensor list[2], const zn_trainer *t)
{
    list[0] = (zn_save_tensor){
        .name = "view.weight", .type = ZN_F32, .n_dims = 2, .shape = { 3, t->view_z }, .data = t->view
    };
    list[1] = (zn_save_tensor){ .name = "view.bias",
                                .type = ZN_F32,
                                .n_dims = 1,
                                .shape = { 3 },
                                .data = t->view ? t->view + 3 * t->view_z : NULL };
    return t->view ? 2 : 0;
}

zn_status zn_trainer_save(const zn_trainer *t, const char *path, zn_error *err)
{
    const zn_save_part part = { "", t->net->w };
    zn_save_tensor view[2];
    int n = view_tensors(view, t);

    return zn_save_safetensors(path, t->net, &part, 1, view, n, t->meta, err);
}

zn_status zn_trainer_checkpoint(const zn_trainer *t, const char *path, zn_error *err)
{
    const zn_save_part parts[] = { { "", t->net->w }, { "adam_m.", t->adam.m }, { "adam_v.", t->adam.v } };
    char step[32], options[700];
    const char *meta[] = { "step", step, "options", options, NULL };
    zn_save_tensor view[2];
    int n = view_tensors(view, t);

    snprintf(step, sizeof step, "%lld", (long long)t->adam.step);
    describe(t, options, sizeof options);
    return zn_save_safetensors(path, t->net, parts, 3, view, n, meta, err);
}
