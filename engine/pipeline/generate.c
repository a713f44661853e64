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
static const double bar_new = 0.2, bar_enlarge = 0.05; /* of what is refined: until it is there, and enlarging it */

typedef struct run {
    zn_generate_work work;
    zn_generate_plan plan; /* of this run: for the pixels that the mask has */
    zn_generate_result *result;
    const zn_watcher *watch;
    zn_error *err;
    zn_array *out;
    const zn_source *in; /* of the canvas: with what is around the input; NULL: none */
    zn_task_turn turn;
    double start, span;   /* the part of the whole that is now done */
    double from, to;      /* the part that makes the present picture */
    double shown;         /* what the watcher was told last */
    int32_t first;        /* picture of those that the sampler makes now */
    bool centred;         /* the preview's pictures are -1..1 */
    zn_early_noise early; /* of the first pictures, made while the prompt is encoded */
    zn_use *transformer;
    zn_array tokens, features, noise, known, mask,
        latents; /* known: the latent of the input; latents: of all pictures */
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

/* Of the part that makes the present picture. */
static void next_part(run *r, double start, double end)
{
    r->start = r->from + (r->to - r->from) * start;
    r->span = (r->to - r->from) * (end - start);
}

static bool on_progress(void *cookie, double done)
{
    run *r = cookie;

    r->shown = fmax(r->shown, r->start + r->span * done);
    return !r->watch->progress || r->watch->progress(r->watch->cookie, r->shown);
}

/* The bar stands still while a network is opened, and can cancel. */
static bool on_opening(void *cookie, double done)
{
    const run *r = cookie;

    (void)done;
    return !r->watch->progress || r->watch->progress(r->watch->cookie, r->shown);
}

static zn_status open_network(run *r, zn_use **use, zn_zimage_part part, const char *id)
{
    zn_terms terms = r->work.terms[part];

    terms.progress = on_opening;
    terms.cookie = r;
    return zn_use_begin(use, r->plan.session, id, r->plan.file[part].path, &terms, r->err);
}

/* Picture i of all that are made. */
static float *made(const zn_array *out, const run *r, int32_t i)
{
    return out->data + zn_array_len(out) / (size_t)r->plan.how.n * (size_t)i;
}

/* A picture of the networks' size into the result, with the input around what was painted. */
static bool put_picture(const run *r, float *out, const float *picture)
{
    const zn_canvas *v = &r->work.canvas;
    const size_t len = (size_t)v->out_w * 3;
    float *row = NULL;
    bool ok = zn_canvas_put(out, v, picture);

    if (!ok || !r->plan.extends)
        return ok;
    ok = (row = malloc(len * sizeof *row));
    for (int32_t y = 0; ok && y < v->out_h; y++, out += len) {
        ok = r->in->read(r->in->cookie, (zn_rect){ 0, y, v->out_w, 1 }, row);
        for (size_t i = 0; i < len; i++)
            out[i] += row[i];
    }
    free(row);
    return ok;
}

/* Those that the sampler makes now; the others are empty as yet. */
static void on_preview(void *cookie, const zn_array *pictures, int step, int n_steps)
{
    const run *r = cookie;
    const zn_canvas *v = &r->work.canvas;
    zn_array out = *r->out, fit = { NULL, v->h, v->w, 3 };
    const float *from = pictures->data;
    bool ok;

    (void)step, (void)n_steps;
    if (pictures->c != 3 || pictures->w != v->w || pictures->h != v->h * r->work.batch)
        return; /* no decoder could be used */
    out.data = calloc(zn_array_len(&out), sizeof *out.data);
    ok = out.data && new_floats(&fit);
    for (int32_t i = 0; ok && i < r->work.batch; i++) {
        for (size_t k = 0; k < zn_array_len(&fit); k++, from++)
            fit.data[k] = r->centred ? 0.5f * *from + 0.5f : *from;
        ok = put_picture(r, made(&out, r, r->first + i), fit.data);
    }
    if (ok)
        r->watch->estimate(r->watch->cookie, &out);
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
    const char *path = p->file[ZN_ZIMAGE_TOKENIZER].path;
    zn_key file;
    zn_status s = zn_session_take_tokenizer(&tokenizer, &file, p->session, path, err);

    if (!s)
        s = zn_tokenizer_chat(ids, MAX_TOKENS, &all, tokenizer, p->how.prompt, err);
    zn_session_give_tokenizer(p->session, file, &tokenizer);
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

/* Runs a network; the data of out is malloc'ed where there is none. */
static zn_status run_use(run *r, zn_use *use, const zn_array *in, zn_array *out)
{
    const zn_job job = { .progress = on_progress, .cookie = r };
    zn_status s;

    if (!out->data && !new_floats(out))
        return no_memory(r);
    s = zn_use_run(use, in, 1, out, &job, &r->result->note, r->err);
    if (!s)
        zn_makers_add(&r->result->computed_by, use);
    return s;
}

/* A network that is not needed any more for this picture. */
static void let_go(const run *r, zn_use **use)
{
    if (r->plan.stays)
        zn_use_end(use);
    else
        zn_use_retire(use);
}

/* Runs one that is open for this alone, unless all stay open. */
static zn_status run_once(run *r, zn_zimage_part part, const char *id, const zn_array *in, zn_array *out)
{
    zn_use *use = NULL;
    zn_status s = open_network(r, &use, part, id);

    if (!s)
        s = run_use(r, use, in, out);
    let_go(r, &use);
    return s;
}

/* The features of the prompt, kept or made by the text encoder; no other large network is open meanwhile, unless all stay open. */
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

static zn_status open_half(run *r, zn_use **use, const char *id)
{
    return open_network(r, use, ZN_ZIMAGE_AUTOENCODER, id);
}

/* The latent of what the canvas has, as the transformer has it. */
static zn_status encode(run *r, zn_use *encoder, zn_array *z)
{
    const zn_canvas *v = &r->work.canvas;
    zn_array x = { NULL, v->h, v->w, 3 };
    zn_status s = ZN_OK;

    if (!new_floats(&x) || !zn_canvas_to_network(x.data, v, v->old, 3))
        s = no_memory(r);
    for (size_t i = 0; !s && i < zn_array_len(&x); i++)
        x.data[i] = 2 * x.data[i] - 1;
    if (!s)
        s = run_use(r, encoder, &x, z);
    free(x.data);
    return s;
}

static zn_status encode_start(run *r)
{
    zn_use *encoder = NULL;
    zn_status s = open_half(r, &encoder, "flux-ae-encode");

    next_part(r, bar_text, bar_start);
    if (!s)
        s = encode(r, encoder, &r->known);
    let_go(r, &encoder);
    return s;
}

static zn_status open_transformer(run *r)
{
    return r->transformer ? ZN_OK : open_network(r, &r->transformer, ZN_ZIMAGE_TRANSFORMER, "z-image-sample");
}

/* What the next pictures begin with. */
static zn_early_noise next_noise(const run *r)
{
    return (zn_early_noise){ .to = r->noise.data,
                             .len = zn_array_len(&r->latents) / (size_t)r->plan.how.n,
                             .n = r->work.batch,
                             .seed = r->plan.how.seed + (uint32_t)r->first };
}

/* The next pictures, as many as the sampler makes at once. */
static zn_status sample_batch(run *r)
{
    const double each = (bar_sample - bar_start) / r->plan.how.n;
    zn_early_noise own = next_noise(r);
    zn_value set[3];
    zn_array in[4], out;
    const int n_in = zn_generate_inputs(in, &r->work);
    const bool shows = r->work.preview != NULL && !r->work.refines;
    const zn_job job = { .set = set,
                         .n_set = zn_generate_settings(set, &r->work),
                         .progress = on_progress,
                         .preview = shows ? on_preview : NULL,
                         .preview_every = shows,
                         .preview_with = shows ? zn_use_model(r->work.preview) : NULL,
                         .cookie = r };
    zn_status s;

    if (!zn_early_noise_end(&r->early)) {
        zn_early_noise_begin(&own);
        zn_early_noise_end(&own);
    }
    in[0].data = r->noise.data;
    in[1].data = r->features.data;
    in[2].data = r->known.data;
    in[3].data = r->mask.data;
    out = in[0];
    out.data = r->latents.data + own.len * (size_t)r->first;
    next_part(r, bar_start + each * r->first, bar_start + each * (r->first + r->work.batch));
    s = zn_use_run(r->transformer, in, n_in, &out, &job, &r->result->note, r->err);
    if (!s)
        zn_makers_add(&r->result->computed_by, r->transformer);
    return s;
}

static zn_status sample(run *r)
{
    const int32_t batch = r->work.batch;
    zn_status s = open_transformer(r);

    for (r->first = 0; !s && r->first < r->plan.how.n; r->first += batch) {
        r->work.batch = batch < r->plan.how.n - r->first ? batch : r->plan.how.n - r->first;
        s = sample_batch(r);
    }
    if (!r->plan.keeps)
        zn_use_retire(&r->transformer);
    return s;
}

/* 0..1, from -1..1. */
static zn_status to_picture(const run *r, zn_array *x)
{
    for (size_t i = 0; i < zn_array_len(x); i++) {
        if (!isfinite(x->data[i]))
            return zn_fail(r->err, ZN_E_USAGE, "The network's result is not finite.");
        x->data[i] = 0.5f * x->data[i] + 0.5f;
    }
    return ZN_OK;
}

static zn_status decode(run *r)
{
    const int32_t n = r->plan.how.n;
    zn_array picture = { NULL, r->work.canvas.h, r->work.canvas.w, 3 }, z = r->latents;
    zn_use *use = NULL;
    zn_status s = open_half(r, &use, "flux-ae-decode");

    z.h /= n;
    for (int32_t i = 0; !s && i < n; i++, z.data += zn_array_len(&z)) {
        next_part(r, bar_sample + (1 - bar_sample) * i / n, bar_sample + (1 - bar_sample) * (i + 1) / n);
        s = run_use(r, use, &z, &picture);
        if (!s)
            s = to_picture(r, &picture);
        if (!s && !put_picture(r, made(r->out, r, i), picture.data))
            s = no_memory(r);
    }
    let_go(r, &use);
    free(picture.data);
    return s;
}

/* ---- an enlarged picture ------------------------------------------------------------------------------------ */

typedef struct enlarging { /* a part of the run's result */
    run *r;
    float *picture; /* [h][w][3] */
} enlarging;

static bool write_enlarged(void *cookie, zn_rect at, const float *src)
{
    const enlarging *e = cookie;
    const size_t w = (size_t)e->r->plan.w, row = (size_t)at.w * 3;

    for (size_t y = 0; y < (size_t)at.h; y++)
        memcpy(e->picture + (((size_t)at.y + y) * w + (size_t)at.x) * 3, src + y * row, row * sizeof *src);
    return true;
}

static zn_status enlarge(run *r, const zn_source *small, float *picture)
{
    const zn_watcher watch = { .progress = on_progress, .cookie = r };
    enlarging e = { r, picture };
    zn_upscale how = zn_upscale_defaults();
    zn_enhance_result result = { .ran = false };
    zn_enhance_plan plan;
    zn_status s;

    how.scale = r->plan.how.scale;
    if (!r->plan.has_input) /* it has neither */
        how.noise = how.artefacts = -1;
    s = zn_upscale_describe(&plan, r->plan.session, &r->plan.choice, &how, small->w, small->h, 0, r->err);
    zn_task_pause(&r->turn);
    if (!s)
        s = zn_enhance_run(&result, &plan, &(zn_sink){ write_enlarged, &e }, small,
                           (zn_rect){ 0, 0, r->plan.w, r->plan.h }, &watch, r->err);
    zn_task_resume(&r->turn);
    zn_note_add(&r->result->note, result.note.text);
    return s;
}

typedef struct tile { /* one of those that are refined, and where its latents are */
    zn_canvas canvas;
    zn_array z;
} tile;

/* The canvas of tile i; its size is set, and it has no pixels. */
static tile tile_of(const run *r, zn_tiles t, int32_t i)
{
    const zn_rect at = zn_tile_at(t, i);
    tile own = { .canvas = { .out_w = at.w, .out_h = at.h, .part = { 0, 0, at.w, at.h } } };

    zn_canvas_set_size(&own.canvas, &r->plan.how);
    own.z = (zn_array){ NULL, own.canvas.h / FACTOR, own.canvas.w / FACTOR, CHANNELS };
    return own;
}

/* Runs one of the three steps for all tiles; from and to are parts of the bar. */
typedef zn_status tile_step(run *r, zn_use *use, zn_tiles t, int32_t i, tile *own, float *picture);

static zn_status encode_tile(run *r, zn_use *use, zn_tiles t, int32_t i, tile *own, float *picture)
{
    const zn_rect at = zn_tile_at(t, i);
    const size_t row = (size_t)at.w * 3;
    zn_status s;

    if (!(r->work.canvas.old = malloc((size_t)at.h * row * sizeof(float))))
        return no_memory(r);
    for (int32_t y = 0; y < at.h; y++)
        memcpy(r->work.canvas.old + (size_t)y * row, picture + ((size_t)(at.y + y) * (size_t)t.w + (size_t)at.x) * 3,
               row * sizeof(float));
    s = encode(r, use, &own->z);
    free(r->work.canvas.old);
    r->work.canvas.old = NULL;
    return s;
}

/* The latent of the tile becomes that of the refined one. */
static zn_status sample_tile(run *r, zn_use *use, zn_tiles t, int32_t i, tile *own, float *picture)
{
    zn_value set[3];
    zn_array in[4], out = own->z;
    const int n_in = zn_generate_inputs(in, &r->work);
    const zn_job job = {
        .set = set, .n_set = zn_generate_settings(set, &r->work), .progress = on_progress, .cookie = r
    };
    zn_status s = ZN_OK;

    (void)picture;
    out.data = NULL;
    in[0] = own->z;
    if (!(in[0].data = malloc(zn_array_len(&out) * sizeof(float))) || !new_floats(&out))
        s = no_memory(r);
    in[1].data = r->features.data;
    in[2].data = own->z.data;
    if (!s) {
        zn_noise_cut(in[0].data, &r->noise, zn_tile_at(t, i), &own->z);
        s = zn_use_run(use, in, n_in, &out, &job, &r->result->note, r->err);
    }
    if (!s) {
        memcpy(own->z.data, out.data, zn_array_len(&out) * sizeof(float));
        zn_makers_add(&r->result->computed_by, use);
    }
    free(in[0].data);
    free(out.data);
    return s;
}

static zn_status decode_tile(run *r, zn_use *use, zn_tiles t, int32_t i, tile *own, float *picture)
{
    zn_array x = { NULL, own->canvas.h, own->canvas.w, 3 };
    zn_status s = run_use(r, use, &own->z, &x);

    if (!s)
        s = to_picture(r, &x);
    if (!s)
        zn_tile_put(picture, t, i, x.data, x.w);
    if (!s && r->watch->estimate)
        r->watch->estimate(r->watch->cookie, r->out);
    free(x.data);
    return s;
}

static zn_status each_tile(run *r, tile_step *step, zn_use *use, zn_tiles t, tile *list, float *picture, double from,
                           double to)
{
    const int32_t n = zn_tiles_count(t);
    zn_status s = ZN_OK;

    for (int32_t i = 0; !s && i < n; i++) {
        r->work.canvas = list[i].canvas;
        next_part(r, from + (to - from) * i / n, from + (to - from) * (i + 1) / n);
        s = step(r, use, t, i, &list[i], picture);
    }
    return s;
}

/* Each network is opened once, for all tiles. */
static zn_status refine_tiles(run *r, zn_tiles t, tile *list, float *picture, double from)
{
    const double span = 1 - from;
    zn_use *half = NULL;
    zn_status s = open_half(r, &half, "flux-ae-encode");

    if (!s)
        s = each_tile(r, encode_tile, half, t, list, picture, from, from + 0.1 * span);
    let_go(r, &half);
    if (!s)
        s = open_transformer(r);
    if (!s)
        s = each_tile(r, sample_tile, r->transformer, t, list, picture, from + 0.1 * span, from + 0.85 * span);
    if (!r->plan.keeps)
        zn_use_retire(&r->transformer);
    if (!s)
        s = open_half(r, &half, "flux-ae-decode");
    if (!s)
        s = each_tile(r, decode_tile, half, t, list, picture, from + 0.85 * span, 1);
    let_go(r, &half);
    return s;
}

static zn_status refine(run *r, float *picture, uint32_t seed, double from)
{
    const zn_tiles t = zn_generate_tiles(&r->plan);
    const int32_t n = zn_tiles_count(t);
    tile *list = calloc((size_t)n, sizeof *list);
    zn_status s = list ? ZN_OK : no_memory(r);

    r->noise = (zn_array){ NULL, t.h / FACTOR + 2, t.w / FACTOR + 2, CHANNELS };
    if (!s && !new_floats(&r->noise))
        s = no_memory(r);
    if (!s)
        zn_noise_fill(r->noise.data, zn_array_len(&r->noise), seed, 1);
    for (int32_t i = 0; !s && i < n; i++)
        list[i] = tile_of(r, t, i);
    if (!s)
        s = refine_tiles(r, t, list, picture, from);
    for (int32_t i = 0; list && i < n; i++)
        free(list[i].z.data);
    free(list);
    free(r->noise.data);
    r->noise.data = NULL;
    return s;
}

/* ---- all of it ----------------------------------------------------------------------------------------------- */

/* Whether the input is where the sampler starts; what is refined always is. */
static bool encodes(const zn_generate_plan *p, bool masked)
{
    return p->how.scale > 1 || (p->has_input && (masked || p->how.change < 1));
}

/* What is changed, or, of an enlarged picture, what it is made of. */
static zn_canvas whole_canvas(const zn_generate_plan *p)
{
    if (p->how.scale > 1)
        return (
            zn_canvas){ .out_w = p->how.width, .out_h = p->how.height, .part = { 0, 0, p->how.width, p->how.height } };
    return (zn_canvas){ .out_w = p->change.w, .out_h = p->change.h, .part = { 0, 0, p->change.w, p->change.h } };
}

zn_status zn_generate_weigh(zn_generate_plan *p, zn_note *note, zn_error *err)
{
    int32_t ids[MAX_TOKENS];
    float masked;
    zn_note ignored = { "" };
    zn_generate_work k = {
        .canvas = whole_canvas(p), .encodes = encodes(p, p->masked), .refines = p->how.scale > 1, .n_tokens = MAX_TOKENS
    };
    zn_status s = ZN_OK;

    note = note ? note : &ignored;
    if (p->how.prompt)
        s = tokenise(ids, &k.n_tokens, p, note, err);
    zn_generate_begin(&k, p);
    zn_canvas_set_size(&k.canvas, &p->how);
    k.canvas.mask = p->masked ? &masked : NULL; /* only whether there is one counts */
    return s ? s : zn_generate_choose(&k, note, err);
}

static void free_inputs(run *r)
{
    zn_early_noise_end(&r->early);
    free(r->noise.data);
    free(r->known.data);
    free(r->mask.data);
    free(r->latents.data);
    r->noise.data = r->known.data = r->mask.data = r->latents.data = NULL;
}

static bool read_array(void *cookie, zn_rect r, float *dst)
{
    const zn_array *a = cookie;
    const size_t row = (size_t)r.w * 3;

    for (size_t y = 0; y < (size_t)r.h; y++)
        memcpy(dst + y * row, a->data + (((size_t)r.y + y) * (size_t)a->w + (size_t)r.x) * 3, row * sizeof *dst);
    return true;
}

/* What the networks get that none of them makes. */
static zn_status make_inputs(run *r)
{
    const zn_canvas *v = &r->work.canvas;
    const zn_array z = { NULL, v->h / FACTOR, v->w / FACTOR, CHANNELS };

    r->noise = r->latents = r->known = z;
    r->noise.h *= r->work.batch;
    r->latents.h *= r->plan.how.n;
    r->mask = (zn_array){ NULL, z.h, z.w, 1 };
    if (!new_floats(&r->noise) || !new_floats(&r->latents))
        return no_memory(r);
    if (r->work.encodes && v->mask && (!new_floats(&r->mask) || !zn_canvas_latent_mask(r->mask.data, v)))
        return no_memory(r);
    return ZN_OK;
}

/* Picture i, enlarged and refined: of the input, or of a new one. */
static zn_status make_larger(run *r, const zn_source *in, int32_t i)
{
    zn_array small = { NULL, r->plan.how.height, r->plan.how.width, 3 }, *all = r->out;
    run one = *r;
    const double each = 1.0 / r->plan.how.n, from = in ? 0 : bar_new;
    float *picture = made(r->out, r, i);
    zn_status s = ZN_OK;

    one.from = each * i;
    one.to = one.from + each;
    one.plan.how.seed += (uint32_t)i;
    one.plan.how.n = 1;
    one.work.batch = 1;
    one.work.plan = &one.plan;
    one.work.encodes = one.work.refines = false;
    if (!in) {
        one.out = &small;
        one.to = one.from + each * bar_new;
        s = new_floats(&small) ? make_inputs(&one) : no_memory(r);
        if (!s)
            s = sample(&one);
        if (!s)
            s = decode(&one);
        one.to = one.from + each;
        free_inputs(&one);
    }
    one.out = all;
    next_part(&one, from, from + bar_enlarge);
    if (!s)
        s = enlarge(&one, in ? in : &(zn_source){ small.w, small.h, 3, read_array, &small }, picture);
    if (!s && r->watch->estimate)
        r->watch->estimate(r->watch->cookie, all);
    one.work.encodes = one.work.refines = true;
    if (!s && r->plan.how.refine > 0)
        s = refine(&one, picture, one.plan.how.seed, from + bar_enlarge);
    r->transformer = one.transformer;
    r->shown = one.shown;
    free(small.data);
    return s;
}

static zn_status generate(run *r)
{
    int32_t ids[MAX_TOKENS];
    zn_status s;

    s = tokenise(ids, &r->work.n_tokens, &r->plan, &r->result->note, r->err);
    if (!s && (!zn_session_await(r->plan.session, &r->plan.choice, on_opening, r) || !on_opening(r, 0)))
        s = zn_fail(r->err, ZN_E_CANCELLED, "cancelled");
    if (!s && r->plan.how.scale == 1)
        open_preview(r);
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

    if (r->plan.how.scale == 1 && (s = make_inputs(r)))
        return s;
    if (r->plan.how.scale == 1) {
        r->early = next_noise(r);
        zn_early_noise_begin(&r->early);
    }
    s = find_features(r);
    for (int32_t i = 0; !s && r->plan.how.scale > 1 && i < r->plan.how.n; i++)
        s = make_larger(r, r->in, i);
    if (s || r->plan.how.scale > 1)
        return s;
    if (r->plan.keeps)
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
        s = zn_canvas_read_mask(v, &empty, mask, r->plan.change, r->plan.how.feather, r->plan.extends, r->err);
    if (s || empty)
        return s; /* nothing is selected, nothing changes */
    zn_canvas_set_size(v, &r->plan.how);
    r->in = in;
    if (in && r->plan.how.scale == 1)
        s = read_input(r, in);
    return s ? s : generate(r);
}

zn_status zn_generate_run(zn_generate_result *result, const zn_generate_plan *plan, const zn_source *in,
                          const zn_source *mask, zn_array *out, const zn_watcher *watch, zn_error *err)
{
    static const zn_watcher nobody;
    run r = { .plan = *plan, .result = result, .watch = watch ? watch : &nobody, .err = err, .out = out, .to = 1 };
    zn_extended e = { in, mask, plan->place };
    const zn_source larger = { plan->w, plan->h, 3, zn_extended_read, &e },
                    around = { plan->w, plan->h, 1, zn_extended_around, &e };
    zn_status s;

    *result = (zn_generate_result){ 0 };
    if (err)
        err->text[0] = 0;
    if (!plan->how.prompt || plan->nothing || !in != !plan->has_input || (mask && !in) || out->c != 3 ||
        out->w != plan->change.w || out->h != plan->change.h * plan->how.n)
        return zn_fail(err, ZN_E_USAGE, "this is not what was planned");
    if ((s = zn_task_begin(&r.turn, plan->session, err)))
        return s;
    zn_generate_begin(&r.work, &r.plan);
    r.work.canvas = whole_canvas(plan);
    r.work.encodes = encodes(plan, mask != NULL || plan->extends);
    r.work.refines = plan->how.scale > 1;
    s = plan->extends ? run_on(&r, &larger, &around) : run_on(&r, in, mask);
    zn_use_end(&r.transformer);
    zn_use_end(&r.work.preview);
    zn_canvas_free(&r.work.canvas);
    free(r.tokens.data);
    free(r.features.data);
    free_inputs(&r);
    zn_task_end(&r.turn);
    return s;
}
