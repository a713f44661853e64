/* SPDX-License-Identifier: MIT */
/* generate_plan.c - what a picture from a prompt takes: files, sizes, the precision of each network, memory.
 *
 * Networks are open one after the other; on a GPU with room for all of them, at once.  The limit of memory covers everything that
 * is open at once and, on a CPU, the arrays of this composite: they are the networks' `beside`. */
#include "generate.h"

#include "../core/status.h"

#include <stdio.h>
#include <string.h>

enum { FACTOR = ZN_GENERATE_FACTOR, CHANNELS = ZN_GENERATE_CHANNELS, USUAL_ROWS = 4096, MAX_SIDE = 1 << 20 };

/* ---- settings ------------------------------------------------------------------------------------------------ */

const zn_field zn_generate_fields[] = {
    { "prompt", ZN_TEXT, offsetof(zn_generate, prompt), 0, 0, "what the picture shows" },
    { "seed", ZN_COUNT, offsetof(zn_generate, seed), 0, UINT32_MAX, "another number makes another picture" },
    { "n", ZN_WHOLE, offsetof(zn_generate, n), 1, 16, "pictures: of this seed and those after it" },
    { "steps", ZN_WHOLE, offsetof(zn_generate, steps), 1, 100, "from noise to the picture" },
    { "width", ZN_WHOLE, offsetof(zn_generate, width), 16, 4096, "of a new picture" },
    { "height", ZN_WHOLE, offsetof(zn_generate, height), 16, 4096, "of a new picture" },
    { "change", ZN_REAL, offsetof(zn_generate, change), 0, 1, "how far an input may change" },
    { "feather", ZN_REAL, offsetof(zn_generate, feather), 0, 1000, "the soft edge inside of a mask, in pixels" },
    { "left", ZN_WHOLE, offsetof(zn_generate, left), 0, 4096, "pixels that are painted beside an input" },
    { "top", ZN_WHOLE, offsetof(zn_generate, top), 0, 4096, "above it" },
    { "right", ZN_WHOLE, offsetof(zn_generate, right), 0, 4096, "beside it" },
    { "bottom", ZN_WHOLE, offsetof(zn_generate, bottom), 0, 4096, "below it" },
    { "scale", ZN_WHOLE, offsetof(zn_generate, scale), 1, 4,
      "how many times the picture is enlarged, and then refined" },
    { "refine", ZN_REAL, offsetof(zn_generate, refine), 0, 1, "how far an enlarged picture may change" },
    { "weights", ZN_TEXT, offsetof(zn_generate, weights), 0, 0, "the folder of the model's files" },
    { 0 },
};

zn_generate zn_generate_defaults(void)
{
    return (zn_generate){
        .n = 1, .steps = 8, .width = 1024, .height = 1024, .change = 1, .feather = 16, .scale = 1, .refine = 0.3
    };
}

/* ---- describe ------------------------------------------------------------------------------------------------ */

/* Weights of the published sizes that nobody has. */
static void make_files_up(zn_zimage_file *file)
{
    static const char *const made_up[ZN_ZIMAGE_PARTS] = {
        [ZN_ZIMAGE_TEXT] = ZN_RANDOM_WEIGHTS "2560",
        [ZN_ZIMAGE_TRANSFORMER] = ZN_RANDOM_WEIGHTS "3840",
        [ZN_ZIMAGE_AUTOENCODER] = ZN_RANDOM_WEIGHTS,
    };

    zn_zimage_find(file, "", NULL); /* for the names */
    for (int i = 0; i < ZN_ZIMAGE_PARTS; i++)
        snprintf(file[i].path, sizeof file[i].path, "%s", made_up[i] ? made_up[i] : "");
}

static bool overlap(zn_rect *both, zn_rect r, int32_t w, int32_t h)
{
    const zn_rect whole = zn_rect_grow(r, 0, w, h);

    *both = whole;
    return r.w > 0 && r.h > 0 && whole.w > 0 && whole.h > 0;
}

/* All that the result depends on. */
static zn_key key_of(const zn_generate_plan *p)
{
    const zn_generate *how = &p->how;
    const double numbers[] = { how->seed, how->n,   how->steps, how->width,  how->height, how->change, how->feather,
                               how->left, how->top, how->right, how->bottom, how->scale,  how->refine };
    zn_key key = { 0, 0 };

    zn_key_add_text(&key, "generate");
    zn_key_add(&key, numbers, sizeof numbers);
    zn_key_add_text(&key, how->prompt);
    zn_key_add_text(&key, p->choice.engine);
    zn_key_add_text(&key, p->choice.precision);
    for (int i = 0; i < ZN_ZIMAGE_PARTS; i++)
        zn_key_add_file(&key, p->file[i].path);
    return key;
}

zn_status zn_generate_describe(zn_generate_plan *p, zn_session *session, const zn_choice *choice,
                               const zn_generate *how, int32_t w, int32_t h, const zn_rect *mask, zn_error *err)
{
    const bool extends = how->left || how->top || how->right || how->bottom;
    zn_status s = zn_field_check(how, zn_generate_fields, err);
    const int32_t scale = s ? 1 : how->scale;
    zn_rect both;

    *p = (zn_generate_plan){ .how = *how, .choice = choice ? *choice : (zn_choice){ 0 }, .session = session };
    p->has_input = w > 0 && h > 0;
    p->w = p->has_input ? w : how->width;
    p->h = p->has_input ? h : how->height;
    p->change = (zn_rect){ 0, 0, p->w, p->h };
    if (s)
        return s;
    p->place = p->change;
    p->extends = p->has_input && extends;
    p->adds = p->has_input && !p->extends && scale == 1;
    p->masked = p->has_input && (mask || extends);
    p->nothing = p->adds && how->change <= 0;
    if (p->nothing)
        return s;
    if (scale > 1 && p->masked)
        return zn_fail(err, ZN_E_USAGE, "A picture is enlarged as a whole: set scale to 1 for a part of it.");
    if (p->extends) {
        p->place.x = how->left;
        p->place.y = how->top;
    }
    if (p->w > MAX_SIDE || p->h > MAX_SIDE)
        return zn_fail(err, ZN_E_USAGE, "A picture of %d x %d is too large: crop it first.", p->w, p->h);
    p->w = (p->w + (p->extends ? how->left + how->right : 0)) * scale;
    p->h = (p->h + (p->extends ? how->top + how->bottom : 0)) * scale;
    p->change = (zn_rect){ 0, 0, p->w, p->h };
    if (p->adds && p->masked && overlap(&both, *mask, w, h))
        p->change = zn_rect_grow(both, zn_generate_context(both.w, both.h), w, h);
    if (how->prompt && !*how->prompt)
        return zn_fail(err, ZN_E_USAGE, "There is no prompt: say what the picture shows.");
    if (how->weights && !strcmp(how->weights, ZN_RANDOM_WEIGHTS))
        make_files_up(p->file);
    else if ((s = zn_zimage_find(p->file, how->weights, err)))
        return s;
    p->key = key_of(p);
    return ZN_OK;
}

/* ---- the networks' inputs ------------------------------------------------------------------------------------ */

static zn_array latent_of(const zn_canvas *v)
{
    return (zn_array){ NULL, v->h / FACTOR, v->w / FACTOR, CHANNELS };
}

int zn_generate_inputs(zn_array *in, const zn_generate_work *k)
{
    const zn_array z = latent_of(&k->canvas);

    in[0] = in[2] = z;
    in[0].h *= k->batch;
    in[1] = k->cap;
    in[3] = (zn_array){ NULL, z.h, z.w, 1 };
    return !k->encodes ? 2 : k->canvas.mask ? 4 : 3;
}

int zn_generate_settings(zn_value *set, const zn_generate_work *k)
{
    const zn_generate *how = &k->plan->how;
    const double change = k->refines ? how->refine : k->plan->extends ? 1 : how->change;

    set[0] = (zn_value){ "steps", how->steps };
    set[1] = (zn_value){ "n", k->batch };
    set[2] = (zn_value){ "change", change > 0.01 ? change : 0.01 };
    return k->encodes ? 3 : 2;
}

/* ---- precision ----------------------------------------------------------------------------------------------- */

/* The type of most elements in the weight files. */
static const char *stored_precision(const char *path)
{
    static const char *const names[] = { "fp32", "fp16", "bf16", "int8", "int4" };
    enum { FP32, FP16, BF16, INT8, INT4 };
    double n[sizeof names / sizeof *names] = { 0 };
    zn_weights *weights = NULL;
    int best = FP32;

    if (zn_weights_open(&weights, &path, 1, NULL))
        return names[FP32];
    for (int i = 0; i < zn_weights_count(weights); i++) {
        const zn_weight_info info = zn_weights_info(weights, i);
        const int type = !strcmp(info.dtype, "F16") ? FP16
            : !strcmp(info.dtype, "BF16")           ? BF16
            : !strncmp(info.dtype, "F8", 2)         ? BF16 /* which holds e4m3 and its scales */
            : *info.dtype == 'F'                    ? FP32
            : strchr(info.dtype, '4')               ? INT4
                                                    : INT8;
        double len = 1;

        for (int d = 0; d < info.n_dims; d++)
            len *= (double)info.shape[d];
        n[type] += len;
        if (n[type] > n[best])
            best = type;
    }
    zn_weights_close(&weights);
    return names[best];
}

typedef struct step { /* one of the networks */
    zn_zimage_part part;
    const char *id;
    const zn_array *in;
    int n_in;
    const zn_job *job;
} step;

static zn_status plan_step(zn_planned *out, const zn_generate_work *k, const step *t, zn_error *err)
{
    return zn_session_plan(out, k->plan->session, t->id, k->plan->file[t->part].path, &k->terms[t->part], t->in,
                           t->n_in, t->job, err);
}

/* The weights of a part in the type of the file; where that takes too much memory, in fewer bits; and where even that does,
 * streamed. */
static zn_status choose_precision(zn_planned *out, zn_generate_work *k, const step *t, zn_note *note, zn_error *err)
{
    const char *may[] = { NULL, "int8", "int4" };
    zn_choice *choice = &k->terms[t->part].choice;
    const char *asked;
    zn_status s = zn_session_precision(&asked, k->plan->session, choice, NULL, err);
    zn_error other, text;

    if (s || strcmp(asked, "auto") || zn_session_is_remote(k->plan->session, choice))
        return s ? s : plan_step(out, k, t, err);
    may[0] = stored_precision(k->plan->file[t->part].path);
    for (int streams = 0; streams < 2; streams++)
        for (size_t i = 0; i < sizeof may / sizeof *may; i++) {
            zn_error *why = streams || i ? &other : err;

            choice->precision = may[i];
            if (plan_step(out, k, t, why) || (out->plan.streamed && !streams))
                continue;
            if (strcmp(may[i], may[0])) {
                zn_fail(&text, ZN_OK,
                        "The weights of the %s are rounded to %d bits: they do not fit into memory otherwise.",
                        k->plan->file[t->part].name, may[i][3] - '0');
                zn_note_add(note, text.text);
            }
            if (err)
                err->text[0] = 0;
            return ZN_OK;
        }
    return ZN_E_MEMORY;
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

/* Bytes of the composite's own arrays, at most. */
static size_t arrays_of(const zn_generate_work *k)
{
    const zn_canvas *v = &k->canvas;
    const size_t out = (size_t)k->plan->change.w * (size_t)k->plan->change.h * 3 * (size_t)k->plan->how.n;
    const size_t part = (size_t)v->part.w * (size_t)v->part.h * 3;
    const size_t picture = (size_t)v->w * (size_t)v->h * 3;
    const size_t latent = picture * CHANNELS / (3 * FACTOR * FACTOR);
    size_t n = out + 2 * picture + (size_t)(3 + k->plan->how.n + k->batch) * latent;

    if (k->plan->has_input)
        n += part;
    if (v->mask)
        n += out;
    if (v->scaled)
        n += 2 * part;
    if (k->preview)
        n += out;
    if (k->plan->how.scale > 1)
        n += 3 * (size_t)zn_tiles_count(zn_generate_tiles(k->plan)) * latent;
    return n * sizeof(float);
}

static zn_footprint footprint(const zn_plan *plan)
{
    return (zn_footprint){ plan->weight_bytes, plan->peak_bytes, plan->streamed };
}

static size_t total(zn_footprint f)
{
    return f.weights + f.beside;
}

/* Both at once. */
static zn_footprint together(zn_footprint a, zn_footprint b)
{
    return (zn_footprint){ a.weights + b.weights, a.beside + b.beside, a.streamed || b.streamed };
}

static zn_footprint larger(zn_footprint a, zn_footprint b)
{
    const bool streamed = a.streamed || b.streamed;

    a = total(b) > total(a) ? b : a;
    a.streamed = streamed;
    return a;
}

static void list_network(zn_generate_plan *p, const char *name, const zn_planned *planned)
{
    zn_network *n = p->network;

    while (n->name)
        n++;
    *n = (zn_network){ name, planned->precision, footprint(&planned->plan), planned->plan.macs };
}

static void halves_of(step half[2], const zn_array *z, const zn_array *x)
{
    half[0] = (step){ ZN_ZIMAGE_AUTOENCODER, "flux-ae-decode", z, 1, NULL };
    half[1] = (step){ ZN_ZIMAGE_AUTOENCODER, "flux-ae-encode", x, 1, NULL };
}

/* The halves of the autoencoder.  The transformer stays open with them if that costs nothing: if they fit, in tiles as large
 * as without it. */
static zn_status choose_halves(zn_footprint halves[2], zn_generate_work *k, const step *half, zn_footprint transformer,
                               zn_error *err)
{
    zn_terms *terms = &k->terms[ZN_ZIMAGE_AUTOENCODER];
    const size_t beside = terms->beside;
    zn_generate_plan *p = k->plan;
    zn_planned alone[2], with;
    zn_error ignored;
    zn_status s;

    p->keeps = true;
    for (int i = 0; i < 1 + k->encodes; i++) {
        terms->beside = beside;
        if ((s = plan_step(&alone[i], k, &half[i], err)))
            return s;
        terms->beside = beside + total(transformer);
        if (plan_step(&with, k, &half[i], &ignored) || with.plan.peak_bytes != alone[i].plan.peak_bytes)
            p->keeps = false;
    }
    terms->beside = p->keeps ? beside + total(transformer) : beside;
    for (int i = 0; i < 2; i++)
        halves[i] = i > k->encodes ? (zn_footprint){ 0 } : footprint(&alone[i].plan);
    for (int i = k->encodes; i >= 0; i--) {
        const zn_footprint own = footprint(&alone[i].plan);

        p->need = larger(p->need, p->keeps ? together(own, transformer) : own);
        list_network(p, i ? "encoder" : "decoder", &alone[i]);
    }
    return ZN_OK;
}

/* Pictures at once: all that fit, where each step reads the weights from disk; otherwise as many as have the rows that a
 * linear layer is fast with. */
static void choose_batch(zn_planned *out, zn_generate_work *k, step t)
{
    const double rows = (double)k->canvas.w * k->canvas.h / (ZN_GENERATE_MULTIPLE * ZN_GENERATE_MULTIPLE);
    const double most = out->plan.streamed ? k->plan->how.n : USUAL_ROWS / rows;
    int32_t batch = most < k->plan->how.n ? (int32_t)most : k->plan->how.n;
    zn_array in[4];
    zn_value set[3];
    zn_job job = *t.job;
    zn_planned planned;
    zn_error ignored;

    t.in = in;
    t.job = &job;
    job.set = set;
    for (; batch > 1; batch = (batch + 1) / 2) {
        k->batch = batch;
        zn_generate_inputs(in, k);
        zn_generate_settings(set, k);
        if (!plan_step(&planned, k, &t, &ignored) && planned.plan.streamed == out->plan.streamed) {
            *out = planned;
            return;
        }
        if (batch == 2)
            break;
    }
    k->batch = 1;
}

/* Whether all networks can stay open: each runs as it would alone with the others beside it.  Then they are planned so.  shows: bytes
 * of the preview's weights. */
static bool choose_to_stay(zn_generate_work *k, const step *steps, const zn_footprint *alone, int n, size_t shows)
{
    zn_generate_plan *p = k->plan;
    zn_footprint all = { 0 };
    size_t beside[ZN_ZIMAGE_PARTS];
    bool stays = zn_session_is_remote(p->session, &p->choice);

    for (int i = 0; i < n; i++)
        all = together(all, alone[i]);
    for (int i = 0; i < ZN_ZIMAGE_PARTS; i++)
        beside[i] = k->terms[i].beside;
    for (int i = 0; stays && i < n; i++) {
        const bool samples = steps[i].part == ZN_ZIMAGE_TRANSFORMER; /* the engine adds the preview's weights */
        zn_terms *t = &k->terms[steps[i].part];
        zn_planned with;
        zn_error ignored;

        t->beside = total(all) - total(alone[i]) + (samples ? 0 : shows);
        stays = !plan_step(&with, k, &steps[i], &ignored) && !with.plan.streamed &&
            (samples || with.plan.peak_bytes == alone[i].beside);
    }
    for (int i = 0; i < ZN_ZIMAGE_PARTS; i++) {
        k->terms[i].beside = stays ? k->terms[i].beside : beside[i];
        k->terms[i].alone = k->terms[i].alone && !stays;
    }
    if (stays)
        p->need = all;
    p->keeps = p->keeps || stays;
    return stays;
}

void zn_generate_begin(zn_generate_work *k, zn_generate_plan *plan)
{
    k->plan = plan;
    k->batch = 1;
    for (int i = 0; i < ZN_ZIMAGE_PARTS; i++)
        k->terms[i] =
            (zn_terms){ .choice = plan->choice, .alone = i != ZN_ZIMAGE_PREVIEW }; /* opened before the others */
}

zn_status zn_generate_choose(zn_generate_work *k, zn_note *note, zn_error *err)
{
    zn_generate_plan *p = k->plan;
    const zn_array z = latent_of(&k->canvas), x = { NULL, k->canvas.h, k->canvas.w, 3 };
    const size_t arrays = zn_session_is_remote(p->session, &p->choice) ? 0 : arrays_of(k);
    const zn_array tokens = { NULL, 1, 1, k->n_tokens };
    step steps[4] = { { ZN_ZIMAGE_TEXT, "z-image-text", &tokens, 1, NULL } };
    zn_footprint alone[4];
    zn_planned text, sample;
    zn_value set[3];
    zn_array in[4];
    zn_plan shows = { 0 };
    zn_footprint transformer;
    zn_job job = { .set = set, .preview_with = k->preview ? zn_use_model(k->preview) : NULL };
    zn_status s;

    zn_generate_inputs(in, k);
    if (k->preview && zn_use_plan(k->preview, in, 1, NULL, &shows, NULL))
        shows.weight_bytes = 0;
    for (int i = 0; i < ZN_ZIMAGE_PARTS; i++)
        k->terms[i].beside = arrays + shows.weight_bytes;
    k->terms[ZN_ZIMAGE_TRANSFORMER].beside = arrays; /* the engine adds the preview's weights */

    memset(p->network, 0, sizeof p->network);
    s = choose_precision(&text, k, &steps[0], note, err);
    if (s)
        return s;
    k->cap = text.out;
    list_network(p, p->file[ZN_ZIMAGE_TEXT].name, &text);

    job.n_set = zn_generate_settings(set, k);
    steps[1] = (step){ ZN_ZIMAGE_TRANSFORMER, "z-image-sample", in, zn_generate_inputs(in, k), &job };
    if ((s = choose_precision(&sample, k, &steps[1], note, err)))
        return s;
    if (p->how.scale == 1)
        choose_batch(&sample, k, steps[1]);
    zn_generate_inputs(in, k);
    zn_generate_settings(set, k);
    list_network(p, p->file[ZN_ZIMAGE_TRANSFORMER].name, &sample);
    transformer = footprint(&sample.plan);
    transformer.beside -= shows.weight_bytes;
    p->need = larger(footprint(&text.plan), transformer);
    halves_of(steps + 2, &z, &x);
    if ((s = choose_halves(alone + 2, k, steps + 2, transformer, err)))
        return s;
    alone[0] = footprint(&text.plan);
    alone[1] = transformer;
    p->stays = p->how.scale == 1 && choose_to_stay(k, steps, alone, 3 + k->encodes, shows.weight_bytes);
    p->need.weights += shows.weight_bytes;
    p->need.beside += arrays;
    return ZN_OK;
}
