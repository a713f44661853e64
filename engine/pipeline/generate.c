/* SPDX-License-Identifier: MIT */
/* generate.c - a picture from a prompt: new, from another one, or inside of a mask; see zenith_composite.h. */
#include "generate.h"

#include "../core/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FACTOR = ZN_GENERATE_FACTOR, CHANNELS = ZN_GENERATE_CHANNELS, MAX_TOKENS = ZN_GENERATE_TOKENS };

/* Parts of the progress bar. */
static const double bar_text = 0.05, bar_start = 0.10, bar_sample = 0.85;

typedef struct run {
    zn_generate_work work;
    zn_generate_plan plan; /* of this run: for the pixels that the mask has */
    zn_generate_result *result;
    const zn_watcher *watch;
    zn_error *err;
    zn_array *out;
    zn_task_turn turn;
    double start, span; /* the part of the whole that is now done */
    bool centred;       /* the preview's pictures are -1..1 */
    zn_use *transformer;
    zn_array tokens, features, noise, first, mask, latent; /* first: the latent of the input */
} run;

static zn_status no_memory(const run *r)
{
    return zn_fail(r->err, ZN_E_MEMORY, "out of memory");
}

static bool new_floats(zn_array *a)
{
    return (a->data = malloc(zn_array_len(a) * sizeof *a->data)) != NULL;
}

/* ---- progress ------------------------------------------------------------------------------------------------ */

static void next_part(run *r, double start, double end)
{
    r->start = start;
    r->span = end - start;
}

static bool on_progress(void *cookie, double done)
{
    const run *r = cookie;

    return !r->watch->progress || r->watch->progress(r->watch->cookie, r->start + r->span * done);
}

static void on_preview(void *cookie, const zn_array *picture, int step, int n_steps)
{
    const run *r = cookie;
    const zn_canvas *v = &r->work.canvas;
    zn_array out = { NULL, r->out->h, r->out->w, 3 }, fit = { NULL, v->h, v->w, 3 };

    (void)step, (void)n_steps;
    if (picture->c != 3 || picture->w != v->w || picture->h != v->h)
        return; /* no decoder could be used */
    if (new_floats(&out) && new_floats(&fit)) {
        for (size_t i = 0; i < zn_array_len(&fit); i++)
            fit.data[i] = r->centred ? 0.5f * picture->data[i] + 0.5f : picture->data[i];
        if (zn_canvas_put(out.data, v, fit.data))
            r->watch->estimate(r->watch->cookie, &out);
    }
    free(fit.data);
    free(out.data);
}

/* The tiny decoder or, without its file, a projection to colours. */
static void open_preview(run *r)
{
    const char *path = r->plan.file[ZN_ZIMAGE_PREVIEW].path;
    const zn_terms *terms = &r->work.terms[ZN_ZIMAGE_PREVIEW];
    zn_use **preview = &r->work.preview;

    if (!r->watch->estimate)
        return;
    if (*path)
        zn_use_begin(preview, r->plan.session, "taesd-decode", path, terms, NULL);
    if (!*preview || zn_model_geometry(zn_use_model(*preview))->in_c != CHANNELS) {
        zn_use_end(preview);
        zn_use_begin(preview, r->plan.session, "flux-latent-rgb", NULL, terms, NULL);
        r->centred = true;
    }
}

/* ---- the prompt ---------------------------------------------------------------------------------------------- */

/* At most MAX_TOKENS of them, in ids; their number, and a note if there are more. */
static zn_status tokenise(int32_t *ids, int32_t *n, const zn_generate_plan *p, zn_note *note, zn_error *err)
{
    zn_tokenizer *tokenizer = NULL;
    int all = 0;
    zn_error text;
    zn_status s = zn_tokenizer_open(&tokenizer, p->file[ZN_ZIMAGE_TOKENIZER].path, err);

    if (!s)
        s = zn_tokenizer_chat(ids, MAX_TOKENS, &all, tokenizer, p->how.prompt, err);
    zn_tokenizer_close(&tokenizer);
    if (!s && all > MAX_TOKENS) {
        zn_fail(&text, ZN_OK, "The prompt is too long: the first %d of its %d tokens are used.", MAX_TOKENS, all);
        zn_note_add(note, text.text);
    }
    *n = all < MAX_TOKENS ? all : MAX_TOKENS;
    return s;
}

static zn_key features_key(const run *r)
{
    zn_key key = { 0, 0 };

    zn_key_add_text(&key, "generate: features");
    for (int i = 0; i < ZN_ZIMAGE_PARTS; i++)
        zn_key_add_file(&key, r->plan.file[i].path);
    zn_key_add_text(&key, r->plan.choice.engine);
    zn_key_add_text(&key, r->work.terms[ZN_ZIMAGE_TEXT].choice.precision);
    zn_key_add_text(&key, r->plan.how.prompt);
    return key;
}

/* Runs a network that is open for this alone; the data of out is malloc'ed. */
static zn_status run_once(run *r, zn_zimage_part part, const char *id, const zn_array *in, zn_array *out)
{
    const zn_job job = { .progress = on_progress, .cookie = r };
    zn_use *use = NULL;
    zn_status s = zn_use_begin(&use, r->plan.session, id, r->plan.file[part].path, &r->work.terms[part], r->err);

    if (!s && !new_floats(out))
        s = no_memory(r);
    if (!s)
        s = zn_use_run(use, in, 1, out, &job, &r->result->note, r->err);
    if (!s)
        zn_makers_add(&r->result->computed_by, use);
    zn_use_retire(&use);
    return s;
}

/* The features of the prompt, kept or made by the text encoder; no other large network is open meanwhile. */
static zn_status find_features(run *r)
{
    const zn_keep *keep = r->watch->keep;
    const zn_key key = features_key(r);
    const size_t size = zn_array_len(&r->work.cap) * sizeof(float);
    zn_status s;

    r->features = r->work.cap;
    r->features.data = NULL;
    if (keep) {
        if (!new_floats(&r->features))
            return no_memory(r);
        if (keep->get(keep->cookie, key, r->features.data, size))
            return ZN_OK;
        free(r->features.data);
        r->features.data = NULL;
    }
    next_part(r, 0, bar_text);
    s = run_once(r, ZN_ZIMAGE_TEXT, "z-image-text", &r->tokens, &r->features);
    if (!s && keep)
        keep->put(keep->cookie, key, r->features.data, size);
    return s;
}

/* ---- the picture --------------------------------------------------------------------------------------------- */

/* The latent of the input, as the transformer has it. */
static zn_status encode_start(run *r)
{
    const zn_canvas *v = &r->work.canvas;
    zn_array x = { NULL, v->h, v->w, 3 };
    zn_status s = ZN_OK;

    if (!new_floats(&x) || !zn_canvas_to_network(x.data, v, v->old, 3))
        s = no_memory(r);
    for (size_t i = 0; !s && i < zn_array_len(&x); i++)
        x.data[i] = 2 * x.data[i] - 1;
    next_part(r, bar_text, bar_start);
    if (!s)
        s = run_once(r, ZN_ZIMAGE_AUTOENCODER, "flux-ae-encode", &x, &r->first);
    free(x.data);
    return s;
}

static zn_status open_transformer(run *r)
{
    return r->transformer
        ? ZN_OK
        : zn_use_begin(&r->transformer, r->plan.session, "z-image-sample", r->plan.file[ZN_ZIMAGE_TRANSFORMER].path,
                       &r->work.terms[ZN_ZIMAGE_TRANSFORMER], r->err);
}

static zn_status sample(run *r)
{
    zn_value set[2];
    zn_array in[4];
    const int n_in = zn_generate_inputs(in, &r->work);
    const bool shows = r->work.preview != NULL;
    const zn_job job = { .set = set,
                         .n_set = zn_generate_settings(set, &r->work),
                         .progress = on_progress,
                         .preview = shows ? on_preview : NULL,
                         .preview_every = shows,
                         .preview_with = shows ? zn_use_model(r->work.preview) : NULL,
                         .cookie = r };
    zn_status s = open_transformer(r);

    in[0].data = r->noise.data;
    in[1].data = r->features.data;
    in[2].data = r->first.data;
    in[3].data = r->mask.data;
    next_part(r, bar_start, bar_sample);
    if (!s)
        s = zn_use_run(r->transformer, in, n_in, &r->latent, &job, &r->result->note, r->err);
    if (!s)
        zn_makers_add(&r->result->computed_by, r->transformer);
    if (!r->plan.keeps)
        zn_use_retire(&r->transformer);
    return s;
}

static zn_status decode(run *r)
{
    zn_array picture = { NULL, r->work.canvas.h, r->work.canvas.w, 3 };
    zn_status s;

    next_part(r, bar_sample, 1);
    s = run_once(r, ZN_ZIMAGE_AUTOENCODER, "flux-ae-decode", &r->latent, &picture);
    for (size_t i = 0; !s && i < zn_array_len(&picture); i++) {
        if (!isfinite(picture.data[i]))
            s = zn_fail(r->err, ZN_E_USAGE, "The network's result is not finite.");
        picture.data[i] = 0.5f * picture.data[i] + 0.5f;
    }
    if (!s && !zn_canvas_put(r->out->data, &r->work.canvas, picture.data))
        s = no_memory(r);
    free(picture.data);
    return s;
}

/* ---- all of it ----------------------------------------------------------------------------------------------- */

/* Whether the input is where the sampler starts. */
static bool encodes(const zn_generate_plan *p, bool masked)
{
    return p->has_input && (masked || p->how.change < 1);
}

static zn_canvas whole_canvas(const zn_generate_plan *p)
{
    return (zn_canvas){ .out_w = p->change.w, .out_h = p->change.h, .part = { 0, 0, p->change.w, p->change.h } };
}

zn_status zn_generate_weigh(zn_generate_plan *p, zn_note *note, zn_error *err)
{
    int32_t ids[MAX_TOKENS];
    float masked;
    zn_note ignored = { "" };
    zn_generate_work k = { .canvas = whole_canvas(p), .encodes = encodes(p, p->masked), .n_tokens = MAX_TOKENS };
    zn_status s = ZN_OK;

    note = note ? note : &ignored;
    if (p->how.prompt)
        s = tokenise(ids, &k.n_tokens, p, note, err);
    zn_generate_begin(&k, p);
    zn_canvas_set_size(&k.canvas, &p->how);
    k.canvas.mask = p->masked ? &masked : NULL; /* only whether there is one counts */
    return s ? s : zn_generate_choose(&k, note, err);
}

/* What the networks get that none of them makes. */
static zn_status make_inputs(run *r)
{
    const zn_canvas *v = &r->work.canvas;
    const zn_array z = { NULL, v->h / FACTOR, v->w / FACTOR, CHANNELS };

    r->noise = r->latent = r->first = z;
    r->first.data = NULL;
    r->mask = (zn_array){ NULL, z.h, z.w, 1 };
    if (!new_floats(&r->noise) || !new_floats(&r->latent))
        return no_memory(r);
    zn_noise_fill(r->noise.data, zn_array_len(&z), r->plan.how.seed, 0);
    if (r->work.encodes && v->mask && (!new_floats(&r->mask) || !zn_canvas_latent_mask(r->mask.data, v)))
        return no_memory(r);
    return ZN_OK;
}

static zn_status generate(run *r)
{
    int32_t ids[MAX_TOKENS];
    zn_status s;

    open_preview(r);
    s = tokenise(ids, &r->work.n_tokens, &r->plan, &r->result->note, r->err);
    if (!s)
        s = zn_generate_choose(&r->work, &r->result->note, r->err);
    r->tokens = (zn_array){ NULL, 1, 1, r->work.n_tokens };
    if (!s && !new_floats(&r->tokens))
        s = no_memory(r);
    if (s)
        return s;
    for (int i = 0; i < r->work.n_tokens; i++)
        r->tokens.data[i] = (float)ids[i];
    r->result->need = r->plan.need;
    r->result->n_tokens = r->work.n_tokens;
    if (r->watch->planned)
        r->watch->planned(r->watch->cookie, &r->plan.need);

    s = find_features(r);
    if (!s)
        s = make_inputs(r);
    if (!s && r->plan.keeps)
        s = open_transformer(r);
    if (!s && r->work.encodes)
        s = encode_start(r);
    if (!s)
        s = sample(r);
    return s ? s : decode(r);
}

/* The input's pixels where the networks see it. */
static zn_status read_input(run *r, const zn_source *in)
{
    zn_canvas *v = &r->work.canvas;
    const zn_rect place = { r->plan.change.x + v->part.x, r->plan.change.y + v->part.y, v->part.w, v->part.h };

    if (!(v->old = malloc((size_t)place.w * (size_t)place.h * 3 * sizeof *v->old)))
        return no_memory(r);
    return in->read(in->cookie, place, v->old) ? ZN_OK : zn_fail(r->err, ZN_E_FILE, "the picture cannot be read");
}

static zn_status run_on(run *r, const zn_source *in, const zn_source *mask)
{
    zn_canvas *v = &r->work.canvas;
    bool empty = false;
    zn_status s = ZN_OK;

    memset(r->out->data, 0, zn_array_len(r->out) * sizeof *r->out->data);
    if (mask)
        s = zn_canvas_read_mask(v, &empty, mask, r->plan.change, r->plan.how.feather, r->err);
    if (s || empty)
        return s; /* nothing is selected, nothing changes */
    zn_canvas_set_size(v, &r->plan.how);
    if (in)
        s = read_input(r, in);
    return s ? s : generate(r);
}

zn_status zn_generate_run(zn_generate_result *result, const zn_generate_plan *plan, const zn_source *in,
                          const zn_source *mask, zn_array *out, const zn_watcher *watch, zn_error *err)
{
    static const zn_watcher nobody;
    run r = { .plan = *plan, .result = result, .watch = watch ? watch : &nobody, .err = err, .out = out };
    zn_status s;

    *result = (zn_generate_result){ 0 };
    if (err)
        err->text[0] = 0;
    if (!plan->how.prompt || plan->nothing || !in != !plan->has_input || (mask && !in) || out->c != 3 ||
        out->w != plan->change.w || out->h != plan->change.h)
        return zn_fail(err, ZN_E_USAGE, "this is not what was planned");
    if ((s = zn_task_begin(&r.turn, plan->session, err)))
        return s;
    zn_generate_begin(&r.work, &r.plan);
    r.work.canvas = whole_canvas(plan);
    r.work.encodes = encodes(plan, mask != NULL);
    s = run_on(&r, in, mask);
    zn_use_end(&r.transformer);
    zn_use_end(&r.work.preview);
    zn_canvas_free(&r.work.canvas);
    free(r.tokens.data);
    free(r.features.data);
    free(r.noise.data);
    free(r.first.data);
    free(r.mask.data);
    free(r.latent.data);
    zn_task_end(&r.turn);
    return s;
}
