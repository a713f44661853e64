/* SPDX-License-Identifier: MIT */
/* face_codes.c - the networks of a face: its codes, and the pictures drawn from codes.  Codes and the reconstruction are kept, found by a
 * hash of what the model sees. */
#include "face.h"

#include "../core/ints.h"
#include "../core/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIDE = 4096 /* of the model's picture */, ESTIMATE_PAUSE = 150 /* ms between two that are shown */ };

/* Frames of so many times the model's side: large ones; and those where what is drawn would show, and the picture moves instead, unless
 * less detail than `fine` is to stay.  A model of less than SMALL draws nothing that could be enlarged. */
static const double large = 1.5, very_large = 3, fine = 0.5;
enum { SMALL = 64 };

static const double guided = 0.8; /* of the steps: the last ones, with little noise, hardly move an edit */

zn_status zn_face_no_memory(const zn_face_work *k)
{
    return zn_fail(k->err, ZN_E_MEMORY, "There is not enough memory for a frame of this size.");
}

/* ---- models -------------------------------------------------------------------------------------------------- */

static bool on_progress(void *cookie, double done)
{
    const zn_face_work *k = cookie;

    return !k->watch->progress || k->watch->progress(k->watch->cookie, k->start + k->span * done);
}

/* The run can be cancelled while they are opened. */
static zn_terms terms_of(zn_face_work *k)
{
    return (zn_terms){ .choice = k->plan->choice, .progress = on_progress, .cookie = k };
}

static zn_status open_models(zn_face_work *k)
{
    const zn_face_plan *p = k->plan;
    const zn_terms terms = terms_of(k);
    zn_status s;

    zn_face_ahead(p, &terms);
    s = zn_use_begin(&k->encoder, p->session, "diffae-encode", p->weights, &terms, k->err);
    if (!s && p->how.task != ZN_FACE_ENCODE)
        s = zn_use_begin(&k->sampler, p->session, "diffae-sample", p->weights, &terms, k->err);
    if (!s && p->how.task == ZN_FACE_SAMPLE)
        s = zn_use_begin(&k->latent, p->session, "diffae-latent-sample", p->weights, &terms, k->err);
    return s;
}

/* Of the change of a large face; without its weights it stays soft, and a note says so. */
static zn_status open_enlarger(zn_face_work *k)
{
    static const char *const id[] = { ZN_FACE_ENLARGER "-x2", ZN_FACE_ENLARGER "-x3", ZN_FACE_ENLARGER "-x4" };
    const zn_terms terms = terms_of(k);
    const double ratio = k->square.size / k->side;
    zn_error why;
    zn_status s;

    k->moves = k->plan->how.task == ZN_FACE_MANIPULATE && k->side >= SMALL && ratio >= very_large &&
        k->plan->how.detail >= fine;
    if (k->side < SMALL || ratio < large || k->moves)
        return ZN_OK;
    k->scale = ratio < 2.5 ? 2 : ratio < 3.5 ? 3 : 4;
    s = zn_use_begin(&k->enlarger, k->plan->session, id[k->scale - 2], NULL, &terms, &why);
    if (s == ZN_E_CANCELLED)
        return zn_fail(k->err, s, "%s", why.text);
    if (s)
        zn_note_add(&k->result->note, why.text);
    return ZN_OK;
}

zn_status zn_face_begin(zn_face_work *k)
{
    const double start = zn_now_ms();
    const zn_geometry *g;
    zn_status s = open_models(k);

    if (s)
        return s;
    k->result->ms.load = zn_now_ms() - start;
    g = zn_model_geometry(zn_use_model(k->encoder));
    k->side = g->side;
    k->code = g->out_c;
    if (k->side < 1 || k->side > MAX_SIDE || k->code < 1)
        return zn_fail(k->err, ZN_E_FILE, "The model does not say how large its pictures are.");
    k->len = (size_t)k->side * (size_t)k->side * 3;
    if (k->plan->how.task != ZN_FACE_SAMPLE)
        s = zn_square_get(&k->square, &k->plan->frame, k->plan->in_w, k->plan->in_h, k->err);
    if (!s && k->plan->how.task != ZN_FACE_SAMPLE && k->plan->how.task != ZN_FACE_ENCODE)
        s = open_enlarger(k);
    return s;
}

void zn_face_end(zn_face_work *k)
{
    zn_use_end(&k->enlarger);
    zn_use_end(&k->latent);
    zn_use_end(&k->sampler);
    zn_use_end(&k->encoder);
}

static void add_need(zn_face_work *k, zn_use *use, const zn_array *in, int n_in, const zn_job *job)
{
    zn_plan plan;

    if (!use || zn_use_plan(use, in, n_in, job, &plan, NULL))
        return;
    k->result->need.beside += plan.peak_bytes;
    k->result->need.weights += plan.weight_bytes;
    k->result->need.streamed = k->result->need.streamed || plan.streamed;
}

void zn_face_tell_memory(zn_face_work *k, int n)
{
    const int below = k->path ? k->all_steps : 0; /* xT */
    const zn_array in[3] = { { NULL, (n + below) * k->side, k->side, 3 },
                             { NULL, n, 1, k->code },
                             { NULL, n, 1, k->code } };
    const zn_array one = { NULL, k->side, k->side, 3 }, code = { NULL, 1, 1, k->code };
    const zn_value set[] = { { "steps", zn_imax(k->steps, k->all_steps) },
                             { "guide", 2 }, /* what takes most */
                             { "path", 1 },
                             { "reverse", 1 } };
    const zn_job job = { .set = set, .n_set = k->path ? 4 : 2 };

    add_need(k, k->encoder, &one, 1, NULL);
    add_need(k, k->sampler, in, 3, &job);
    add_need(k, k->latent, &code, 1, NULL);
    add_need(k, k->enlarger, &one, 1, NULL);
    if (k->watch->planned)
        k->watch->planned(k->watch->cookie, &k->result->need);
}

/* ---- progress ------------------------------------------------------------------------------------------------ */

/* The next job is so many evaluations. */
static void next_part(zn_face_work *k, int evaluations)
{
    const double total = fmax(k->total, k->done + evaluations);

    k->start = k->bar + k->bar_span * k->done / total;
    k->span = k->bar_span * evaluations / total;
    k->done += evaluations;
}

/* A sampler's estimate of its (first) picture, in -1..1. */
static void on_preview(void *cookie, const zn_array *picture, int step, int n_steps)
{
    zn_face_work *k = cookie;
    zn_array out = *k->out;
    float *drawn;

    if (zn_now_ms() - k->shown_at < ESTIMATE_PAUSE || (k->quick_shown && 2 * step < n_steps))
        return;
    out.data = calloc(zn_array_len(&out), sizeof *out.data);
    drawn = malloc(k->len * sizeof *drawn);
    for (size_t i = 0; drawn && i < k->len; i++)
        drawn[i] = isfinite(picture->data[i]) ? 0.5f * picture->data[i] + 0.5f : 0.5f;
    if (out.data && drawn && k->paste(&out, k, drawn))
        k->watch->estimate(k->watch->cookie, &out);
    free(drawn);
    free(out.data);
    k->shown_at = zn_now_ms();
}

/* Runs a network; evaluations: of the U-Net, or about as long. */
static zn_status run_net(zn_face_work *k, zn_use *use, zn_array *out, const zn_array *in, int n_in, const zn_value *set,
                         int n_set, bool shows, int evaluations, double *ms)
{
    const double start = zn_now_ms();
    const zn_job job = { .set = set,
                         .n_set = n_set,
                         .progress = on_progress,
                         .preview = shows ? on_preview : NULL,
                         .preview_every = shows,
                         .cookie = k };
    zn_status s;

    next_part(k, evaluations);
    s = zn_use_run(use, in, n_in, out, &job, &k->result->note, k->err);
    if (!s)
        zn_makers_add(&k->result->computed_by, use);
    *ms += zn_now_ms() - start;
    return s;
}

/* ---- what is kept -------------------------------------------------------------------------------------------- */

static zn_key codes_key(const zn_face_data *f, const zn_face_work *k)
{
    const int32_t words[] = { f->steps, f->path };
    zn_key key = { 0, 0 };

    zn_key_add_text(&key, "face: codes");
    zn_key_add_text(&key, zn_use_name(k->encoder));
    zn_key_add_text(&key, k->sampler ? zn_use_name(k->sampler) : NULL);
    zn_key_add(&key, words, sizeof words);
    zn_key_add(&key, f->low, k->len * sizeof *f->low);
    return key;
}

static zn_key made_key(const zn_face_data *f, const zn_face_work *k)
{
    const int32_t steps = k->steps;
    zn_key key = codes_key(f, k);

    zn_key_add(&key, &steps, sizeof steps);
    return key;
}

/* Numbers that are kept, to be freed; NULL: they are not. */
static float *get_kept(const zn_face_work *k, zn_key key, size_t len)
{
    const zn_keep *keep = k->watch->keep;
    float *data = keep ? malloc(len * sizeof *data) : NULL;

    if (data && !keep->get(keep->cookie, key, data, len * sizeof *data)) {
        free(data);
        data = NULL;
    }
    return data;
}

static void put_kept(const zn_face_work *k, zn_key key, const float *data, size_t len)
{
    const zn_keep *keep = k->watch->keep;

    if (keep)
        keep->put(keep->cookie, key, data, len * sizeof *data);
}

/* ---- a picture ----------------------------------------------------------------------------------------------- */

void zn_face_clear(zn_face_data *f)
{
    free(f->patch.pixels);
    free(f->low);
    free(f->codes);
    free(f->made);
}

/* How many numbers its codes have. */
static size_t codes_len(const zn_face_data *f, const zn_face_work *k)
{
    return (size_t)k->code + (size_t)(f->path ? 1 + f->steps : 1) * k->len;
}

static void look_codes(zn_face_data *f, const zn_face_work *k)
{
    /* those with a path serve all; a quick pass takes codes of all steps, if there are any */
    const struct {
        int steps;
        bool path;
    } each[] = { { k->all_steps, true }, { k->all_steps, k->path }, { k->up_steps, k->path } };

    for (int i = 0; i < 3 && !f->codes; i++) {
        f->steps = each[i].steps;
        f->path = each[i].path;
        f->codes = get_kept(k, codes_key(f, k), codes_len(f, k));
    }
}

zn_status zn_face_read(zn_face_data *f, const zn_face_work *k, const zn_source *in, const zn_square *own)
{
    const zn_square *square = own ? own : &k->square;
    zn_status s = zn_patch_read(&f->patch, in, zn_square_bounds(square, in->w, in->h), k->err);

    f->low = malloc(k->len * sizeof *f->low);
    if (!s && !f->low)
        s = zn_face_no_memory(k);
    if (s)
        return s;
    zn_square_shrink(f->low, k->side, square, &f->patch, &k->workers);
    if (own) {
        const zn_patch there = zn_patch_warp(&f->patch, own, &k->square,
                                             zn_square_bounds(&k->square, k->plan->in_w, k->plan->in_h), &k->workers);

        free(f->patch.pixels);
        f->patch = there;
        if (!there.pixels)
            return zn_face_no_memory(k);
    }
    if (k->sampler)
        look_codes(f, k);
    return ZN_OK;
}

/* ---- codes --------------------------------------------------------------------------------------------------- */

int zn_face_encode_cost(const zn_face_data *f)
{
    return f->codes ? 0 : 1 + f->steps;
}

const float *zn_face_noise(const zn_face_data *f, const zn_face_work *k)
{
    return f->codes + k->code;
}

/* The picture as the model takes it, [side][side][3] in -1..1. */
static void centre(float *dst, const zn_face_data *f, const zn_face_work *k)
{
    for (size_t i = 0; i < k->len; i++)
        dst[i] = 2.0f * f->low[i] - 1.0f;
}

zn_status zn_face_code(float *cond, const zn_face_data *f, zn_face_work *k)
{
    zn_array in = { malloc(k->len * sizeof *in.data), k->side, k->side, 3 }, out = { cond, 1, 1, k->code };
    zn_status s = in.data ? ZN_OK : zn_face_no_memory(k);

    if (!s) {
        centre(in.data, f, k);
        s = run_net(k, k->encoder, &out, &in, 1, NULL, 0, false, 1, &k->result->ms.encode);
    }
    free(in.data);
    return s;
}

zn_status zn_face_encode(zn_face_data *f, zn_face_work *k)
{
    const int n = f->path ? 1 + f->steps : 1;
    const zn_value set[] = { { "steps", f->steps }, { "reverse", 1 }, { "path", 1 } };
    zn_array in[2] = { { NULL, n * k->side, k->side, 3 }, { NULL, 1, 1, k->code } }, noise = in[0];
    float *codes;
    zn_status s;

    if (!f->codes) /* the other picture may be the same */
        f->codes = get_kept(k, codes_key(f, k), codes_len(f, k));
    if (f->codes)
        return ZN_OK;
    codes = malloc(codes_len(f, k) * sizeof *codes);
    in[0].data = calloc((size_t)n * k->len, sizeof *in[0].data);
    s = codes && in[0].data ? zn_face_code(codes, f, k) : zn_face_no_memory(k);
    if (!s) {
        in[1].data = codes;
        noise.data = codes + k->code;
        centre(in[0].data, f, k);
        s = run_net(k, k->sampler, &noise, in, 2, set, f->path ? 3 : 2, false, f->steps, &k->result->ms.invert);
    }
    free(in[0].data);
    if (s) {
        free(codes);
        return s;
    }
    f->codes = codes;
    put_kept(k, codes_key(f, k), codes, codes_len(f, k));
    return ZN_OK;
}

zn_status zn_face_new_codes(float *cond, const float *noise, int n, uint32_t seed, zn_face_work *k)
{
    const zn_value set[] = { { "steps", k->plan->how.latent_steps },
                             { "eta", k->plan->how.eta },
                             { "seed", seed & ZN_MAX_SEED } };
    const zn_array z = { (float *)noise, n, 1, k->code };
    zn_array out = { cond, n, 1, k->code };

    return run_net(k, k->latent, &out, &z, 1, set, 3, false, n, &k->result->ms.encode);
}

/* ---- drawing ------------------------------------------------------------------------------------------------- */

zn_status zn_face_draw(float *dst, zn_face_work *k, const zn_face_drawing *d)
{
    const int steps = d->from ? 1 : k->steps, rows = (d->path ? 1 + steps : d->n) * k->side, n_in = d->cond0 ? 3 : 2;
    const zn_value set[] = { { "steps", steps },
                             { d->path ? "path" : "from", d->path ? 1 : d->from },
                             { "guide", d->cond0 ? d->guide : 1.0 },
                             { "guided", guided },
                             { "eta", d->eta },
                             { "seed", d->seed & ZN_MAX_SEED } };
    const zn_array in[3] = { { (float *)d->noise, rows, k->side, 3 },
                             { (float *)d->cond, d->n, 1, k->code },
                             { (float *)d->cond0, d->n, 1, k->code } };
    const bool shows = d->shows && k->paste && !k->quick && k->watch->estimate;
    zn_array out = { dst, rows, k->side, 3 };
    zn_status s;

    if (d->path && !(out.data = malloc(zn_array_len(&out) * sizeof *out.data)))
        return zn_face_no_memory(k);
    s = run_net(k, k->sampler, &out, in, n_in, set, 6, shows, (n_in - 1) * d->n * steps, &k->result->ms.draw);
    for (size_t i = 0; !s && i < (size_t)d->n * k->len; i++) {
        if (isfinite(out.data[i]))
            dst[i] = 0.5f * out.data[i] + 0.5f;
        else
            s = zn_fail(k->err, ZN_E_USAGE, "The network's result is not finite.");
    }
    if (d->path)
        free(out.data);
    return s;
}

void zn_face_look_made(zn_face_data *f, const zn_face_work *k)
{
    f->made = get_kept(k, made_key(f, k), k->len);
}

int zn_face_make_cost(const zn_face_data *f, const zn_face_work *k)
{
    return f->made ? 0 : k->steps;
}

zn_status zn_face_make(zn_face_data *f, zn_face_work *k, bool shows)
{
    float *made;
    zn_status s;

    if (f->made)
        return ZN_OK;
    if (!(made = malloc(k->len * sizeof *made)))
        return zn_face_no_memory(k);
    s = zn_face_draw(made, k,
                     &(zn_face_drawing){ .n = 1, .noise = zn_face_noise(f, k), .cond = f->codes, .shows = shows });
    if (s) {
        free(made);
        return s;
    }
    f->made = made;
    put_kept(k, made_key(f, k), made, k->len);
    return ZN_OK;
}

/* ---- large faces --------------------------------------------------------------------------------------------- */

enum { ENLARGE_COST = 2 }; /* about so many evaluations */

int zn_face_enlarge_cost(const zn_face_work *k, int n)
{
    return k->enlarger ? n * ENLARGE_COST : 0;
}

void zn_face_large_clear(zn_face_large *l)
{
    free(l->to);
    free(l->from);
    *l = (zn_face_large){ 0 };
}

zn_rect zn_face_whole(const zn_face_work *k)
{
    return (zn_rect){ 0, 0, k->side, k->side };
}

/* dst [side * scale][side * scale][3], 0 outside of the part. */
static zn_status enlarge_part(float *dst, const float *src, zn_rect part, zn_face_work *k)
{
    const size_t wide = (size_t)part.w * 3, len = wide * (size_t)part.h, scale = (size_t)k->scale;
    float *memory = malloc(len * (1 + scale * scale) * sizeof *memory);
    zn_array in = { memory, part.h, part.w, 3 }, out = { memory + len, part.h * k->scale, part.w * k->scale, 3 };
    zn_status s = memory ? ZN_OK : zn_face_no_memory(k);

    for (size_t i = 0; !s && i < len; i++)
        in.data[i] = zn_clean(src[((size_t)part.y + i / wide) * (size_t)k->side * 3 + (size_t)part.x * 3 + i % wide]);
    if (!s)
        s = run_net(k, k->enlarger, &out, &in, 1, NULL, 0, false, ENLARGE_COST, &k->result->ms.draw);
    for (size_t y = 0; !s && y < (size_t)out.h; y++)
        memcpy(dst + (((size_t)part.y * scale + y) * (size_t)k->side + (size_t)part.x) * scale * 3,
               out.data + y * wide * scale, wide * scale * sizeof *dst);
    free(memory);
    return s;
}

zn_status zn_face_enlarge(float **dst, const float *src, zn_rect part, bool kept, zn_face_work *k)
{
    const size_t len = k->len * (size_t)k->scale * (size_t)k->scale;
    zn_key key = { 0, 0 };
    zn_status s;

    if (!k->enlarger)
        return ZN_OK;
    zn_key_add_text(&key, "face: enlarged");
    zn_key_add_text(&key, zn_use_name(k->enlarger));
    zn_key_add(&key, &part, sizeof part);
    zn_key_add(&key, src, k->len * sizeof *src);
    if (kept && (*dst = get_kept(k, key, len)))
        return ZN_OK;
    *dst = calloc(len, sizeof **dst);
    s = *dst ? enlarge_part(*dst, src, part, k) : zn_face_no_memory(k);
    if (!s && kept)
        put_kept(k, key, *dst, len);
    return s;
}
