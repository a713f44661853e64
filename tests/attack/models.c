/* SPDX-License-Identifier: MIT */
/* models.c - every registered model with weight files whose shapes, types, values and metadata are changed, bound and
 * run on odd inputs: other sizes, other channels, NaN, settings out of range, cancelled half-way.
 * Also checkpoints of training with the same done to them. */
#include "attack.h"

#include "core/weights.h"
#include "zenith_bench.h"
#include "zenith_train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN ZN_SOURCE_ROOT "/tests/data/golden/"

/* Small files to start from.  A model needs at least one line. */
static const struct base {
    const char *model, *file;
} bases[] = {
    { "taesd-encode", GOLDEN "taesd_encoder.pth" },
    { "taesd-encode", GOLDEN "taef2_encoder.pth" },
    { "taesd-encode", GOLDEN "taesana_encoder.pth" },
    { "taesd-decode", GOLDEN "taesd_decoder.pth" },
    { "taesd-decode", GOLDEN "taef1_decoder.safetensors" },
    { "taesd-decode", GOLDEN "taesana_decoder.pth" },
    { "denoise-fast", GOLDEN "denoise.safetensors" },
    { "denoise-balanced", GOLDEN "denoise.safetensors" },
    { "denoise-best", GOLDEN "denoise.safetensors" },
    { "denoise-level", ZN_SOURCE_ROOT "/models/denoise-level.safetensors" },
    { "restore", GOLDEN "restore.safetensors" },
    { "upscale-x2", GOLDEN "upscale-x2.safetensors" },
    { "upscale-x3", GOLDEN "upscale-x3.safetensors" },
    { "upscale-x4", GOLDEN "upscale-x4.safetensors" },
    { "upscale-crisp-x2", GOLDEN "upscale-x2.safetensors" },
    { "upscale-crisp-x3", GOLDEN "upscale-x3.safetensors" },
    { "upscale-crisp-x4", GOLDEN "upscale-x4.safetensors" },
    { "upscale-small-x2", GOLDEN "upscale-x2.safetensors" },
    { "upscale-small-x3", GOLDEN "upscale-x3.safetensors" },
    { "upscale-small-x4", GOLDEN "upscale-x4.safetensors" },
    { "zenith-taesd-encode", GOLDEN "zenith-taesd-encode.safetensors" },
    { "zenith-taesd-decode", GOLDEN "zenith-taesd-decode.safetensors" },
    { "zenith-lite-doc-encode", GOLDEN "zenith-lite-encode.safetensors" },
    { "zenith-lite-doc-encode", GOLDEN "zenith-lite-extended-encode.safetensors" },
    { "zenith-lite-doc-decode", GOLDEN "zenith-lite-extended-decode.safetensors" },
    { "zenith-spectral-encode", GOLDEN "zenith-spectral-encode.safetensors" },
    { "zenith-spectral-decode", GOLDEN "zenith-spectral-decode.safetensors" },
    { "vanilla-taesd-encode", GOLDEN "zenith-vanilla-encode.safetensors" },
    { "vanilla-taesd-decode", GOLDEN "zenith-vanilla-decode.safetensors" },
    { "zenith-ae", GOLDEN "zenith-ae.safetensors" },
    { "zenith-prune", GOLDEN "zenith-prune.safetensors" },
    { "zenith-prune", GOLDEN "zenith-prune-residual.safetensors" },
    { "conv-baseline-ae", GOLDEN "zenith-conv-baseline.safetensors" },
    { "diffae-encode", GOLDEN "diffae.ckpt" },
    { "diffae-unet", GOLDEN "diffae.ckpt" },
    { "diffae-latent-net", GOLDEN "diffae.ckpt" },
    { "diffae-reverse", GOLDEN "diffae.ckpt" },
    { "diffae-sample", GOLDEN "diffae.ckpt" },
    { "diffae-latent-sample", GOLDEN "diffae.ckpt" },
    { "zenith-encode", GOLDEN "latent-gated.safetensors" },
    { "zenith-encode", GOLDEN "latent-mix.safetensors" },
    { "zenith-lite-encode", GOLDEN "latent-gated.safetensors" },
    { "zenith-lite-decode", GOLDEN "latent-plain.safetensors" },
    { "zenith-decode", GOLDEN "latent-plain.safetensors" },
    { "zenith-decode", GOLDEN "latent-mix.safetensors" },
    { "zenith-decode", GOLDEN "latent-pool.safetensors" },
    { "flux-ae-encode", GOLDEN "kl-flux.pth" },
    { "flux-ae-decode", GOLDEN "kl-sd.ckpt" },
    { "wan-vae-encode", GOLDEN "wan21.pth" },
    { "wan-vae-decode", GOLDEN "wan22.pth" },
    { "wan-video-encode", GOLDEN "wan22.pth" },
    { "wan-video-decode", GOLDEN "wan21.pth" },
    { "wan2d-vae-encode", GOLDEN "wan2d.pth" },
    { "wan2d-vae-decode", GOLDEN "wan2d.pth" },
    { "z-image-text", GOLDEN "zimage_text.safetensors" },
    { "z-image-caption", GOLDEN "zimage_dit.safetensors" },
    { "z-image-step", GOLDEN "zimage_dit.safetensors" },
    { "z-image-dit", GOLDEN "zimage_single.safetensors" },
    { "z-image-sample", GOLDEN "zimage_dit.safetensors" },
    { "face-detect", GOLDEN "find.safetensors" },
    { "face-points", GOLDEN "find.safetensors" },
    { "face-mouth", GOLDEN "find.safetensors" },
    { "template", NULL },       /* made by begin() */
    { "identity", NULL },       /* needs no weights, and may be given some */
    { "wan-latent-rgb", NULL }, /* likewise; and its like */
    { "sd-latent-rgb", NULL },
    { "sdxl-latent-rgb", NULL },
    { "sd3-latent-rgb", NULL },
    { "flux-latent-rgb", NULL },
    { "flux2-latent-rgb", NULL },
    { "latent-rgb", GOLDEN "latent-plain.safetensors" },
};
enum { N_BASES = sizeof bases / sizeof *bases };

/* What a case may cost.  Most faults show in a small run as well as in a large one: hundreds of those for one of these. */
enum { USUAL_MACS = 2000000, MOST_MACS = 300000000 };

enum { CASES, OPENED, RUN }; /* the counts of a model */

/* Metadata that models read. */
static const char *const keys[] = { "activation",        "window",     "residual",       "prediction",    "patch",
                                    "latent_prediction", "image_size", "encoder_blocks", "head_channels", "model",
                                    "threshold" };
static const char *const values[] = { "relu", "gelu", "silu",        "v",    "eps", "0",   "1", "2",   "3",
                                      "-1",   "4096", "99999999999", "true", "",    "nan", "8", "1e9", "shifted" };

typedef struct tensor {
    const char *name;
    int n_dims;
    int64_t shape[ZN_MAX_DIMS];
    float *data;
    size_t len;
    bool gone;
} tensor;

static struct {
    tensor *list;
    int n;
    bytes meta; /* ,"key":"value" of its own */
} loaded[N_BASES];

static zn_engine *engines[2];
static char template_path[256];
static const zn_train_options small = { .model = "template", .base = 4, .size = 16, .batch = 1, .steps = 3 };

static const char *file_of(int i)
{
    return bases[i].file ? bases[i].file : template_path;
}

static void load(int which)
{
    const char *path = file_of(which);
    const char *key, *value;
    zn_weights *w = NULL;
    zn_error err;

    if (zn_weights_open(&w, &path, 1, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(2);
    }
    loaded[which].n = zn_weights_count(w);
    loaded[which].list = calloc((size_t)loaded[which].n, sizeof(tensor));
    for (int i = 0; i < loaded[which].n; i++) {
        const zn_entry *e = zn_weights_at(w, i);
        tensor *t = &loaded[which].list[i];

        *t = (tensor){ .name = strdup(e->name), .n_dims = e->n_dims, .len = zn_entry_len(e) };
        memcpy(t->shape, e->shape, sizeof t->shape);
        t->data = malloc((t->len + 1) * sizeof(float));
        if (!t->name || !t->data || zn_entry_read(e, t->data, NULL))
            abort();
    }
    for (int i = 0; zn_weights_meta_at(w, i, &key, &value); i++)
        put_text(&loaded[which].meta, ",\"%s\":\"%s\"", key, value); /* those of bases[] need no quoting */
    zn_weights_close(&w);
}

/* ---- the file ---------------------------------------------------------------------------------------------------------- */

static size_t len_of(const tensor *t)
{
    size_t n = 1;

    for (int i = 0; i < t->n_dims; i++)
        n *= (size_t)t->shape[i];
    return n;
}

/* All sizes of one value become another: a network that fits together, of other widths. */
static void change_width(tensor *list, int n, rnd *r)
{
    static const int64_t widths[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48 };
    const tensor *t = &list[below(r, (size_t)n)];
    const int64_t from = t->n_dims ? t->shape[below(r, (size_t)t->n_dims)] : 8, to = ONE_OF(r, widths);
    const int only = chance(r, 50) ? -1 : (int)below(r, 2); /* outputs or inputs alone */

    for (int i = 0; i < n; i++)
        for (int d = 0; d < list[i].n_dims; d++) {
            if (list[i].shape[d] == from && (only < 0 || only == d))
                list[i].shape[d] = to;
            else if (list[i].shape[d] == 2 * from && from > 4)
                list[i].shape[d] = 2 * to;
        }
}

static void change_one(tensor *list, int n, rnd *r)
{
    tensor *t = &list[below(r, (size_t)n)], *other = &list[below(r, (size_t)n)];
    const int d = t->n_dims ? (int)below(r, (size_t)t->n_dims) : 0;

    switch (below(r, 8)) {
    case 0:
        t->gone = true;
        break;
    case 1:
        t->shape[d] = (int64_t)below(r, 3) - 1 + t->shape[d];
        t->shape[d] = t->shape[d] < 0 ? 0 : t->shape[d];
        break;
    case 2:
        t->shape[d] = (int64_t)below(r, 40);
        break;
    case 3:
        if (t->n_dims < ZN_MAX_DIMS)
            t->shape[t->n_dims++] = 1;
        break;
    case 4:
        t->n_dims -= t->n_dims > 0;
        break;
    case 5:
        t->n_dims = other->n_dims;
        memcpy(t->shape, other->shape, sizeof t->shape);
        break;
    case 6: {
        const char *name = t->name;

        t->name = other->name;
        other->name = name;
        break;
    }
    default: /* a block more than there was: the last tensor under the next number */
        t->shape[0] = t->n_dims ? 2 * t->shape[0] : 1;
    }
}

/* len numbers of that many bytes.  kind 0: the tensor's own, repeated; 1: odd ones; 2: some odd ones; 3: zeros. */
static void put_values(bytes *b, const tensor *t, size_t len, int kind, size_t size, rnd *r)
{
    static const float odd[] = { 0, -0.f, INFINITY, -INFINITY, NAN, 3e38f, -3e38f, 1e-40f, 65504, 1e10f };
    const size_t begin = b->len;

    if (kind == 3 || !t->len) {
        put_fill(b, 0, len * size);
        return;
    }
    while (b->len < begin + len * size) { /* as 16 bits they are other numbers */
        const size_t left = begin + len * size - b->len, all = t->len * sizeof(float);

        put(b, t->data, left < all ? left : all);
    }
    for (size_t i = 0; kind && i < len; i += kind == 1 ? 1 : 1 + below(r, 64)) {
        const float v = ONE_OF(r, odd);

        memcpy(b->at + begin + i * size, (const char *)&v + 4 - size, size);
    }
}

static void make(bytes *b, rnd *r)
{
    const int which = (int)below(r, N_BASES), n = loaded[which].n;
    const char *const model = bases[which].model;
    tensor *list = malloc((size_t)n * sizeof *list + 1);
    const char *type = chance(r, 85) ? "F32" : chance(r, 50) ? "F16" : "BF16";
    bytes header = { 0 }, data = { 0 };
    size_t at = 0;

    memcpy(list, loaded[which].list, (size_t)n * sizeof *list);
    if (n && chance(r, 45))
        change_width(list, n, r);
    if (n && chance(r, 40))
        for (size_t i = 1 + below(r, 3); i; i--)
            change_one(list, n, r);
    put_text(&header, "{\"__metadata__\":{\"zenith_model\":\"%s\"", model);
    if (chance(r, 95))
        put(&header, loaded[which].meta.at, loaded[which].meta.len);
    for (size_t i = chance(r, 30) ? 1 + below(r, 3) : 0; i; i--) {
        const char *key = ONE_OF(r, keys);

        put_text(&header, ",\"%s\":\"%s\"", key, ONE_OF(r, values));
    }
    put(&header, "}", 1);
    for (int i = 0; i < n; i++) {
        const size_t len = len_of(&list[i]);
        const int kind = chance(r, 3) ? 1 + (int)below(r, 3) : 0;

        if (list[i].gone || len > 200000)
            continue;
        put_text(&header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", list[i].name, type);
        for (int d = 0; d < list[i].n_dims; d++)
            put_text(&header, "%s%lld", d ? "," : "", (long long)list[i].shape[d]);
        put_text(&header, "],\"data_offsets\":[%zu,", at);
        put_values(&data, &list[i], len, kind, type[1] == '3' ? 4 : 2, r);
        at = data.len;
        put_text(&header, "%zu]}", at);
    }
    put(&header, "}", 1);
    put_safetensors(b, &header, &data);
    if (chance(r, 3))
        mutate(b, r, 2);
    bytes_free(&header);
    bytes_free(&data);
    free(list);
}

/* ---- the run -------------------------------------------------------------------------------------------------------------- */

typedef struct stop {
    double at, last;
    bool fell;
} stop;

static bool progress(void *cookie, double done)
{
    stop *s = cookie;

    s->fell |= done < s->last || done > 1.0001;
    s->last = done;
    return done < s->at;
}

static bool read_pixels(void *cookie, zn_rect rect, float *dst)
{
    rnd *r = cookie;

    for (size_t i = (size_t)rect.w * (size_t)rect.h * 3; i; i--)
        *dst++ = (float)(rnd_next(r) & 255) / 255;
    return !chance(r, 1);
}

static bool write_pixels(void *cookie, zn_rect rect, const float *src)
{
    volatile float sum = 0;

    (void)cookie;
    for (size_t i = 0; i < (size_t)rect.w * (size_t)rect.h; i++)
        sum += src[i];
    (void)sum;
    return true;
}

static void fill(zn_array *a, rnd *r)
{
    static const float odd[] = { NAN, INFINITY, -INFINITY, 1e30f, -5, 0, 1000, 1e-42f };
    const int percent = chance(r, 80) ? 0 : (int)below(r, 100);

    a->data = malloc(zn_array_len(a) * sizeof(float));
    for (size_t i = 0; i < zn_array_len(a); i++)
        a->data[i] = percent && chance(r, percent) ? ONE_OF(r, odd) : (float)(rnd_next(r) & 1023) / 1023;
}

static int part_of(const char *id)
{
    int i = 0;

    while (strcmp(zn_model_at(i)->id, id))
        i++;
    return i;
}

static double macs_of(zn_model *m, const zn_array *in, int n, const zn_job *job)
{
    zn_plan plan;

    return zn_model_plan(m, in, n, job, &plan, NULL) ? INFINITY : plan.macs;
}

/* Inputs that the model takes, of an odd size; smaller ones while the run would cost more than it may.  Where a model takes
 * pictures of one size alone, that one, mostly. */
static int choose_inputs(zn_model *m, const zn_job *job, zn_array in[ZN_MAX_PORTS], rnd *r)
{
    const double most = chance(r, 1) ? MOST_MACS : USUAL_MACS;
    int w = 1 + (int)below(r, 24), h = 1 + (int)below(r, 24), n = zn_model_example(m, w, h, in);

    if (isinf(macs_of(m, in, n, job)) && chance(r, 80))
        for (int i = 0; i < 25 && isinf(macs_of(m, in, n, job)); i++)
            n = zn_model_example(m, 4 << i % 5, 4 << i / 5, in);
    else
        while (macs_of(m, in, n, job) > most && w + h > 2) {
            w = (w + 1) / 2;
            h = (h + 1) / 2;
            n = zn_model_example(m, w, h, in);
        }
    return n;
}

static bool run_model(zn_model *m, const zn_model_info *info, rnd *r, const char **why)
{
    zn_array in[ZN_MAX_PORTS] = { { 0 } }, out[ZN_MAX_PORTS] = { { 0 } };
    zn_value set[2];
    stop s = { chance(r, 80) ? 2 : (double)below(r, 100) / 100, 0, false };
    zn_error err = { "" }, note = { "" };
    zn_job job = { .set = set, .progress = progress, .cookie = &s, .note = &note };
    int n;
    zn_status status;
    zn_plan plan;

    for (const zn_setting *p = info->settings; p && p->key && job.n_set < 2; p++)
        if (!strcmp(p->key, "steps") || chance(r, 40)) /* a sampler's own number would take long */
            set[job.n_set++] = (zn_value){
                p->key, (double)(chance(r, 20) && strcmp(p->key, "steps") ? odd_number(r) : 1 + (int64_t)below(r, 4))
            };
    if (chance(r, 20))
        job.tile = (int)below(r, 40);
    if (chance(r, 20))
        job.max_memory = (size_t)1 << below(r, 28);
    n = choose_inputs(m, &job, in, r);
    for (int i = 0; i < n && chance(r, 15); i++) {
        in[i].c += chance(r, 50) ? 1 : -1;
        in[i].h += chance(r, 50) ? 1 : 0;
    }
    if (chance(r, 3))
        n = (int)below(r, ZN_MAX_PORTS + 1);
    for (int i = 0; i < n; i++)
        if ((double)in[i].h * in[i].w * in[i].c > 1e6)
            n = 0; /* large, and not odd */
    for (int i = 0; i < n; i++)
        if (in[i].h > 0 && in[i].w > 0 && in[i].c > 0)
            fill(&in[i], r);
    status = zn_model_shape(m, in, n, out, &err);
    *why = "a failure without a sentence";
    if (status && !*err.text)
        return false;
    if (!status && !zn_model_plan(m, in, n, &job, &plan, &err) && plan.peak_bytes < 1u << 29 &&
        plan.macs <= MOST_MACS) {
        for (int i = 0; info->out[i]; i++)
            out[i].data = malloc(zn_array_len(&out[i]) * sizeof(float) + 1);
        status = zn_model_run(m, in, n, out, &job, &err);
        if (status && !*err.text)
            return false;
        if (!status)
            attack_count(part_of(info->id), RUN);
        *why = "progress fell";
        if (s.fell)
            return false;
        *why = "the last report of a run that was done is not 1";
        if (!status && s.last != 1)
            return false;
    }
    if (n == 1 && in[0].c == 3 && chance(r, 30)) { /* a part of a picture */
        const zn_source source = { in[0].w, in[0].h, 3, read_pixels, r };
        const zn_sink sink = { write_pixels, NULL };
        const zn_rect roi = { (int)below(r, 30) - 3, (int)below(r, 30) - 3, (int)below(r, 30), (int)below(r, 30) };

        s = (stop){ 2, 0, false };
        zn_model_run_region(m, &sink, &source, 1, roi, &job, &err);
    }
    for (int i = 0; i < ZN_MAX_PORTS; i++) {
        free(in[i].data);
        free(out[i].data);
    }
    return true;
}

static const char *part(int i)
{
    return zn_model_at(i) ? zn_model_at(i)->id : NULL;
}

static bool run(const bytes *b, rnd *r, const char **why)
{
    static const char *const precisions[] = { "auto", "fp32", "bf16", "int8", "int4", "fp16", "nonsense" };
    const char *path = attack_path("model.safetensors");
    zn_open open = { .files = &path, .n_files = 1, .precision = chance(r, 70) ? NULL : ONE_OF(r, precisions) };
    const zn_model_info *info = NULL;
    char id[64] = "";
    zn_error err = { "" };
    zn_model *m = NULL;
    bool ok = true;

    /* The file says which model it was made for; a few are tried with another. */
    for (int i = 0; i < N_BASES; i++) {
        char key[96];

        snprintf(key, sizeof key, "zenith_model\":\"%s\"", bases[i].model);
        if (b->len > 100 && memmem(b->at, b->len < 200 ? b->len : 200, key, strlen(key)))
            snprintf(id, sizeof id, "%s", bases[i].model);
    }
    if (!*id || chance(r, 3))
        snprintf(id, sizeof id, "%s", bases[below(r, N_BASES)].model);
    info = zn_model_named(id);
    if (!info->weights && chance(r, 50))
        open.n_files = 0;
    attack_count(part_of(id), CASES);
    bytes_save(b, path);
    *why = "a failure without a sentence";
    if (zn_model_open(&m, engines[below(r, 2)], id, &open, &err))
        return !m && *err.text;
    attack_count(part_of(id), OPENED);
    ok = run_model(m, info, r, why);
    zn_model_close(&m);
    return ok;
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------------------- */

static bytes checkpoint;

static void make_checkpoint(bytes *b, rnd *r)
{
    if (!checkpoint.len) {
        const char *path = attack_path("first.ckpt");
        zn_trainer *t = NULL;
        zn_train_report report;

        if (zn_trainer_open(&t, engines[0], &small, NULL) || zn_trainer_step(t, &report, NULL) ||
            zn_trainer_checkpoint(t, path, NULL) || !bytes_load(&checkpoint, path))
            abort();
        zn_trainer_close(&t);
        remove(path);
    }
    put(b, checkpoint.at, checkpoint.len);
    if (chance(r, 80)) { /* the header alone, for the data is longer */
        const size_t len = 8 + (size_t)b->at[0] + ((size_t)b->at[1] << 8);
        bytes head = { 0 }, data = { 0 };

        put(&head, b->at + 8, len - 8);
        put(&data, b->at + len, b->len - len);
        mutate(&head, r, 3);
        b->len = 0;
        put_safetensors(b, &head, &data);
        bytes_free(&head);
        bytes_free(&data);
    }
    if (chance(r, 30))
        mutate(b, r, 3);
}

static bool run_checkpoint(const bytes *b, rnd *r, const char **why)
{
    const char *path = attack_path("x.ckpt");
    zn_train_options o = small;
    zn_train_report report;
    zn_trainer *t = NULL;
    zn_error err = { "" };

    (void)r;
    bytes_save(b, path);
    o.resume = path;
    *why = "no sentence";
    if (zn_trainer_open(&t, engines[0], &o, &err))
        return !t && *err.text;
    zn_trainer_step(t, &report, &err); /* NaN may lead to more NaN */
    zn_trainer_close(&t);
    return true;
}

static void begin(void)
{
    zn_trainer *t = NULL;
    zn_error err = { "" };

    snprintf(template_path, sizeof template_path, "%s", attack_path("template.safetensors"));
    if (zn_engine_open(&engines[0], "scalar", 1, &err) || zn_engine_open(&engines[1], NULL, 2, &err) ||
        zn_trainer_open(&t, engines[0], &small, &err) || zn_trainer_save(t, template_path, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(2);
    }
    zn_trainer_close(&t);
    for (int i = 0; i < N_BASES; i++)
        load(i);
    for (int i = 0; zn_model_at(i); i++) {
        bool has = false;

        for (int k = 0; k < N_BASES; k++)
            has |= !strcmp(bases[k].model, zn_model_at(i)->id);
        if (!has) {
            fprintf(stderr, "%s: a registered model without a line in bases[]\n", zn_model_at(i)->id);
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    static const attack_target list[] = { { "models", make, run, 60, 3000, false },
                                          { "checkpoint", make_checkpoint, run_checkpoint, 0, 0, false } };

    attack_parts("models", part);
    return attack_main(argc, argv, list, sizeof list / sizeof *list, begin);
}
