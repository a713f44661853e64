/* SPDX-License-Identifier: MIT */
/* face.c - the tasks on a face; see zenith_face.h. */
#include "face.h"

#include "../core/ints.h"
#include "../core/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    QUICK_STEPS = 4,  /* of a first estimate */
    QUICK_TIME = 400, /* of an edit: how much noise it is seen through, of 999 */
    PATH_STEPS = 50   /* more would take too much memory for the corrections */
};

typedef zn_status task(zn_face_work *k);

/* Puts a drawn face into the result. */
static zn_status put(zn_face_work *k, const float *drawn)
{
    memset(k->out->data, 0, zn_array_len(k->out) * sizeof *k->out->data);
    return k->paste(k->out, k, drawn) ? ZN_OK : zn_face_no_memory(k);
}

/* Whoever watches estimates first gets one of few steps.  edits: that is one evaluation. */
static zn_status with_estimate(zn_face_work *k, task *make, bool edits)
{
    zn_array out = *k->out;
    zn_face_work quick = *k;
    zn_status s;

    if (!k->watch->estimate || k->steps < 2 * QUICK_STEPS)
        return make(k);
    quick.steps = QUICK_STEPS;
    quick.up_steps = zn_imin(k->up_steps, QUICK_STEPS);
    quick.quick = true;
    quick.bar_span = (edits ? 1.0 : QUICK_STEPS) / (k->steps + QUICK_STEPS);
    quick.out = &out;
    if (!(out.data = zn_face_floats(zn_array_len(&out))))
        return zn_fail(k->err, ZN_E_MEMORY, "There is not enough memory for a preview.");
    s = make(&quick);
    if (!s)
        k->watch->estimate(k->watch->cookie, &out);
    free(out.data);
    if (s)
        return s;
    k->result->ms.estimate = zn_now_ms() - k->began;
    k->result->ms.encode = k->result->ms.invert = k->result->ms.draw = 0;
    k->bar = quick.bar_span;
    k->bar_span = 1 - quick.bar_span;
    k->quick_shown = true;
    return make(k);
}

/* ---- reconstruct ---------------------------------------------------------------------------------------------- */

static bool paste_reconstruction(zn_array *out, const zn_face_work *k, const float *drawn)
{
    const zn_face_data *f = k->pasted;

    return zn_field_paste(out, zn_field_new(k->side, drawn, f->low, f->low, -1), k->side, k, &f->patch);
}

/* The same of a drawn face that was enlarged. */
static zn_status put_large(zn_face_work *k, const zn_face_data *f, const float *to)
{
    const int side = k->side * k->scale;

    memset(k->out->data, 0, zn_array_len(k->out) * sizeof *k->out->data);
    return zn_field_paste(k->out, zn_field_new(side, to, to, to, -1), side, k, &f->patch) ? ZN_OK
                                                                                          : zn_face_no_memory(k);
}

static zn_status reconstruct(zn_face_work *k)
{
    zn_face_data f = { 0 };
    float *large = NULL;
    zn_status s = zn_face_read(&f, k, &k->in->source, NULL);

    if (!s) {
        k->paste = paste_reconstruction;
        k->pasted = &f;
        zn_face_look_made(&f, k);
        k->total = zn_face_encode_cost(&f) + zn_face_make_cost(&f, k) + zn_face_enlarge_cost(k, 1);
        s = zn_face_encode(&f, k);
    }
    if (!s)
        s = zn_face_make(&f, k, true);
    if (!s && !k->quick)
        s = zn_face_enlarge(&large, f.made, zn_face_whole(k), false, k);
    if (!s)
        s = large ? put_large(k, &f, large) : put(k, f.made);
    free(large);
    zn_face_clear(&f);
    return s;
}

/* ---- manipulate ------------------------------------------------------------------------------------------------ */

typedef struct edit {
    zn_face_data face;
    zn_attribute attribute[ZN_FACE_CHANGES]; /* of the changes */
    int n_attributes;
    double guide;      /* the largest of theirs: 1 at amount 0, the attribute's at 1 */
    zn_face_mask mask; /* where the face may change */
    zn_face_large large;
    zn_marks marks; /* of a face that moves, and what is found near them */
    zn_eyes eyes;
    zn_relief relief; /* not made for an estimate, and if lids alone move */
} edit;

/* A flow found with stiffness is shorter than the true one.  Lips that part or close for themselves need not be followed so far. */
static const double longer = 1.8, relaxing = 1.6, parting = 0.4, closing = 0.25;

/* The sum of the amounts of an attribute. */
static double amount_of(const zn_face_work *k, const char *attribute)
{
    const zn_face_change *c = k->plan->how.change;
    double amount = 0;

    for (int i = 0; c[i].attribute; i++)
        if (!strcmp(c[i].attribute, attribute))
            amount += c[i].amount;
    return fmin(fmax(amount, -1), 1);
}

/* The same of an edit that changes nothing else, 0: it does. */
static double amount_alone(const zn_face_work *k, const char *attribute)
{
    const zn_face_change *c = k->plan->how.change;

    for (int i = 0; c[i].attribute; i++)
        if (strcmp(c[i].attribute, attribute))
            return 0;
    return amount_of(k, attribute);
}

/* By how much an edit opens a mouth, and by how much it takes a smile away. */
static bool moves_lips(double *opens, double *relaxes, const zn_face_work *k)
{
    *opens = amount_of(k, "mouth-open");
    *relaxes = fmax(-amount_of(k, "smile"), 0);
    return *opens != 0 || *relaxes > 0;
}

/* No motion that is smooth shows what is behind closed lips, or hides teeth: lips of this field part and close for themselves. */
static bool find_lips(zn_lips *lips, const zn_face_work *k, const edit *e, const zn_face_field *field)
{
    double opens, relaxes;
    float *mouth;
    zn_square square;
    bool ok;

    if (!moves_lips(&opens, &relaxes, k))
        return true;
    if (!(mouth = zn_face_floats((size_t)ZN_LIPS * ZN_LIPS * 3)))
        return false;
    zn_lips_square(&square, &k->square);
    zn_square_shrink(mouth, ZN_LIPS, &square, &e->face.patch, &k->workers);
    ok = zn_lips_find(lips, mouth, &e->marks);
    zn_lips_look(lips, &k->square, &e->face.patch);
    zn_lips_move(lips, field, k->side, opens, relaxes);
    free(mouth);
    return ok;
}

/* How many times as long as it is found a flow becomes. */
static double length(const zn_face_work *k, bool lips_move)
{
    const double opens = amount_alone(k, "mouth-open");

    if (!lips_move)
        return amount_of(k, "mouth-open") > 0 ? 1 : longer;
    return opens > 0 ? parting : opens < 0 ? closing : relaxing;
}

static bool paste_moved(zn_array *out, const zn_face_work *k, const edit *e, zn_face_field *field)
{
    const zn_patch *patch = &e->face.patch;
    zn_lips lips = { .moves = false };
    zn_eyes eyes = e->eyes;

    if (!find_lips(&lips, k, e, (const zn_face_field *)field) ||
        !zn_field_move(field, k->side, &e->mask, &lips, length(k, lips.moves))) {
        free(field);
        return false;
    }
    eyes.opens = (float)amount_alone(k, "eyes-open");
    zn_eyes_follow(&eyes, (const zn_face_field *)field, k->side);
    return zn_moved_paste(out, field, k->side, k, patch, e->relief.band ? &e->relief : NULL, &lips, &eyes);
}

static bool paste_edit(zn_array *out, const zn_face_work *k, const float *drawn)
{
    const edit *e = k->pasted;
    const zn_face_data *f = &e->face;
    zn_face_field *field = zn_field_new(k->side, drawn, f->made ? f->made : f->low, f->low, 0);

    if (e->large.side)
        return zn_large_paste(out, field, k, &f->patch, &e->large, &e->mask);
    if (!field || !zn_field_mask(field, k->side, &e->mask)) {
        free(field);
        return false;
    }
    if (k->moves)
        return paste_moved(out, k, e, field);
    zn_field_cut_fine(field, k->side, (float)(1 - k->plan->how.detail));
    return zn_field_paste(out, field, k->side, k, &f->patch);
}

/* What a large face is pasted with. */
static zn_status enlarge_edit(edit *e, const float *drawn, zn_face_work *k)
{
    const float *from = e->face.made ? e->face.made : e->face.low;
    float *calm = zn_face_floats(k->len);
    zn_face_large *l = &e->large;
    zn_status s = calm ? ZN_OK : zn_face_no_memory(k);

    l->part = zn_face_mask_bounds(&e->mask, k->side);
    if (!s) {
        zn_face_calm(calm, drawn, from, e->mask.change, k->side);
        s = zn_face_enlarge(&l->to, calm, l->part, false, k);
    }
    if (!s)
        s = zn_face_enlarge(&l->from, from, l->part, true, k);
    l->side = l->to ? k->side * k->scale : 0;
    free(calm);
    return s;
}

/* A motion shows less of a change than a drawing does, but for lips that part or close; and it does not follow lids that are drawn far
 * down. */
static double strength(const zn_face_change *c)
{
    static const struct {
        const char *attribute;
        double less, more;
    } each[] = { { "smile", 1.3, 1.3 }, { "mouth-open", 1, 1 }, { "eyes-open", 1, 1.3 }, { "gender", 1.2, 1.2 } };

    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        if (!strcmp(c->attribute, each[i].attribute))
            return c->amount < 0 ? each[i].less : each[i].more;
    return 1.4;
}

static zn_status read_attributes(edit *e, const zn_face_work *k)
{
    const zn_face_change *c = k->plan->how.change;
    zn_status s = ZN_OK;

    e->guide = 0;
    for (int i = 0; !s && c[i].attribute; i++) {
        s = zn_attribute_find(&e->attribute[i], &c[i], k->plan->model, k->code, k->err);
        e->n_attributes++;
        if (k->moves)
            e->attribute[i].gain *= strength(&c[i]);
        if (!s)
            e->guide = fmax(e->guide, 1.0 + (e->attribute[i].guide - 1.0) * fabs(c[i].amount));
    }
    return s;
}

/* cond: the code with the changes; and the mask of this edit. */
static zn_status move_code(float *cond, const float *code, edit *e, const zn_face_work *k)
{
    bool ok = true;

    zn_face_mask_clear(&e->mask); /* of the quick pass */
    memcpy(cond, code, (size_t)k->code * sizeof *cond);
    for (int j = 0; ok && j < e->n_attributes; j++)
        ok = zn_attribute_move(cond, code, &e->attribute[j], k->code);
    ok = ok && zn_face_mask_make(&e->mask, k->side, e->attribute, e->n_attributes, code, cond, k->code);
    return ok ? ZN_OK : zn_face_no_memory(k);
}

/* dst [side][side][3]: the face with another code. */
static zn_status draw_edit(float *dst, edit *e, zn_face_work *k)
{
    zn_face_data *f = &e->face;
    float *cond = zn_face_floats((size_t)k->code);
    zn_status s = cond ? zn_face_encode(f, k) : zn_face_no_memory(k);

    if (!s && !k->path)
        s = zn_face_make(f, k, false);
    if (!s)
        s = move_code(cond, f->codes, e, k);
    if (!s)
        s = zn_face_draw(dst, k,
                         &(zn_face_drawing){ .n = 1,
                                             .noise = zn_face_noise(f, k),
                                             .cond = cond,
                                             .cond0 = f->codes,
                                             .guide = e->guide,
                                             .path = k->path,
                                             .shows = true });
    free(cond);
    return s;
}

/* The same in one step: the change is the difference of the predictions with both codes, for the picture with one noise. */
static zn_status draw_edit_quick(float *dst, edit *e, zn_face_work *k)
{
    const size_t code = (size_t)k->code;
    const float *low = e->face.low;
    float *cond = zn_face_floats(2 * code), *both = zn_face_floats(2 * k->len), *drawn = zn_face_floats(2 * k->len);
    zn_status s = cond && both && drawn ? ZN_OK : zn_face_no_memory(k);

    if (!s && e->face.codes)
        memcpy(cond + code, e->face.codes, code * sizeof *cond);
    else if (!s)
        s = zn_face_code(cond + code, &e->face, k);
    for (size_t i = 0; !s && i < k->len; i++)
        both[i] = both[k->len + i] = 2.0f * low[i] - 1.0f;
    if (!s)
        s = move_code(cond, cond + code, e, k);
    if (!s)
        s = zn_face_draw(drawn, k, &(zn_face_drawing){ .n = 2, .noise = both, .cond = cond, .from = QUICK_TIME });
    for (size_t i = 0; !s && i < k->len; i++)
        dst[i] = low[i] + (float)e->guide * (drawn[i] - drawn[k->len + i]);
    free(drawn);
    free(both);
    free(cond);
    return s;
}

/* What is found on a picture that moves. */
static zn_status look_at(edit *e, zn_face_work *k)
{
    const zn_patch *patch = &e->face.patch;
    double opens, relaxes;
    zn_status s = moves_lips(&opens, &relaxes, k) ? zn_marks_find(&e->marks, patch, k) : ZN_OK;

    if (s)
        return s;
    return zn_eyes_find(&e->eyes, &k->square, patch, &k->workers) ? ZN_OK : zn_face_no_memory(k);
}

/* A pass of an edit: its picture is read, and what moves is found. */
static zn_status draw(zn_face_work *k)
{
    edit *e = k->pasted;
    float *drawn = zn_face_floats(k->len);
    zn_status s = drawn ? ZN_OK : zn_face_no_memory(k);

    if (!s && k->moves && !k->quick && !(e->eyes.found && amount_alone(k, "eyes-open") != 0) &&
        !zn_relief_make(&e->relief, &k->square, &e->face.patch, &k->workers))
        s = zn_face_no_memory(k);
    if (!s && !k->quick && !k->path)
        zn_face_look_made(&e->face, k);
    k->total = k->quick ? 3
                        : zn_face_encode_cost(&e->face) + (k->path ? 0 : zn_face_make_cost(&e->face, k)) +
            2 * k->steps + zn_face_enlarge_cost(k, 2);
    if (!s)
        s = (k->quick ? draw_edit_quick : draw_edit)(drawn, e, k);
    if (!s && !k->quick && !k->moves)
        s = enlarge_edit(e, drawn, k);
    if (!s)
        s = put(k, drawn);
    free(drawn);
    return s;
}

static zn_status manipulate(zn_face_work *k)
{
    edit e = { .guide = 0 };
    zn_status s = read_attributes(&e, k);

    if (!s)
        s = zn_face_read(&e.face, k, &k->in->source, NULL);
    if (!s && k->moves)
        s = look_at(&e, k);
    k->paste = paste_edit;
    k->pasted = &e;
    if (!s)
        s = with_estimate(k, draw, true);
    for (int i = 0; i < e.n_attributes; i++)
        zn_attribute_clear(&e.attribute[i]);
    zn_face_mask_clear(&e.mask);
    zn_face_large_clear(&e.large);
    zn_relief_clear(&e.relief);
    zn_face_clear(&e.face);
    return s;
}

/* ---- sample and encode ------------------------------------------------------------------------------------------- */

static bool paste_new(zn_array *out, const zn_face_work *k, const float *drawn)
{
    for (size_t i = 0; i < k->len; i++)
        out->data[i] = zn_clean(drawn[i]);
    return true;
}

/* dst [n][side][side][3]: the new faces of n seeds.  Streams of a seed: 0 the picture's noise, 1 the code's, the others those of
 * the steps. */
static zn_status draw_new(float *dst, int n, uint32_t seed, zn_face_work *k)
{
    const size_t code = (size_t)k->code;
    float *z = zn_face_floats(2 * (size_t)n * code), *cond = z + (size_t)n * code,
          *noise = zn_face_floats((size_t)n * k->len);
    zn_status s = z && noise ? ZN_OK : zn_face_no_memory(k);

    for (size_t i = 0; !s && i < (size_t)n; i++) {
        zn_noise_fill(noise + i * k->len, k->len, seed + (uint32_t)i, 0);
        zn_noise_fill(z + i * code, code, seed + (uint32_t)i, 1);
    }
    if (!s)
        s = zn_face_new_codes(cond, z, n, seed, k);
    if (!s)
        s = zn_face_draw(
            dst, k,
            &(zn_face_drawing){
                .n = n, .noise = noise, .cond = cond, .eta = k->plan->how.eta, .seed = seed, .shows = n == 1 });
    free(noise);
    free(z);
    return s;
}

/* ZN_FACE_BATCH at a time. */
static zn_status sample(zn_face_work *k)
{
    const int n = zn_imax(k->plan->how.n, 1);
    float *drawn = zn_face_floats(ZN_FACE_BATCH * k->len);
    zn_status s = drawn ? ZN_OK : zn_face_no_memory(k);

    k->paste = paste_new;
    k->total = n * (1 + k->steps);
    for (int from = 0, count; !s && from < n; from += count) {
        zn_array one = *k->out;

        count = zn_imin(ZN_FACE_BATCH, n - from);
        s = draw_new(drawn, count, k->plan->how.seed + (uint32_t)from, k);
        for (int i = 0; !s && i < count; i++) {
            one.data = k->out->data + (size_t)(from + i) * k->len;
            paste_new(&one, k, drawn + (size_t)i * k->len);
        }
    }
    free(drawn);
    return s;
}

static zn_status encode(zn_face_work *k)
{
    zn_face_data f = { 0 };
    zn_status s = zn_face_read(&f, k, &k->in->source, NULL);

    if (!s)
        s = zn_face_code(k->out->data, &f, k);
    zn_face_clear(&f);
    return s;
}

/* ---- run --------------------------------------------------------------------------------------------------------- */

static zn_status run_task(zn_face_work *k)
{
    const zn_face_how *how = &k->plan->how;

    switch (how->task) {
    case ZN_FACE_MANIPULATE:
        return manipulate(k);
    case ZN_FACE_RECONSTRUCT:
        return with_estimate(k, reconstruct, false);
    case ZN_FACE_INTERPOLATE:
        return how->strip > 1 ? zn_face_interpolate(k) : with_estimate(k, zn_face_interpolate, false);
    case ZN_FACE_SAMPLE:
        return how->n > 1 ? sample(k) : with_estimate(k, sample, false);
    default:
        return encode(k);
    }
}

static bool is_planned(const zn_face_plan *p, const zn_face_work *k, const zn_array *out)
{
    const bool takes = p->how.task != ZN_FACE_SAMPLE, two = p->how.task == ZN_FACE_INTERPOLATE;

    return p->located && !p->nothing && takes == (k->in != NULL) && two == (k->second != NULL) &&
        (!takes || (k->in->source.w == p->in_w && k->in->source.h == p->in_h && k->in->source.c == 3)) &&
        (!two || k->second->source.c == 3) && out->h == p->out.h && out->w == p->out.w && out->c == p->out.c;
}

zn_status zn_face_run_one(zn_face_result *result, const zn_face_plan *p, const zn_face_picture *in,
                          const zn_face_picture *second, zn_array *out, const zn_watcher *watch, zn_error *err)
{
    static const zn_watcher nobody;
    const zn_face_how *how = &p->how;
    zn_face_work k = { .plan = p,
                       .watch = watch ? watch : &nobody,
                       .result = result,
                       .err = err,
                       .out = out,
                       .in = in,
                       .second = second };
    zn_task_turn turn;
    zn_status s;

    *result = (zn_face_result){ .note = p->note };
    if (err)
        err->text[0] = 0;
    if (!is_planned(p, &k, out))
        return zn_fail(err, ZN_E_USAGE, "this is not what was planned");
    if (second && !p->found && (second->source.w != p->in_w || second->source.h != p->in_h))
        return zn_fail(err, ZN_E_USAGE,
                       "The pictures have different sizes, %d x %d and %d x %d: crop or scale one of them.", p->in_w,
                       p->in_h, second->source.w, second->source.h);
    if ((s = zn_task_begin(&turn, p->session, err)))
        return s;
    k.workers = (zn_workers){ p->session, &p->choice };
    k.steps = how->steps;
    k.up_steps = k.all_steps = how->stochastic_steps;
    k.path = how->task == ZN_FACE_MANIPULATE && k.steps == k.up_steps && k.steps <= PATH_STEPS;
    k.bar_span = 1;
    s = zn_face_begin(&k);
    k.began = zn_now_ms();
    if (!s) {
        zn_face_tell_memory(&k,
                            zn_imin(ZN_FACE_BATCH,
                                    how->strip > 1 && second          ? how->strip - 1
                                        : how->task == ZN_FACE_SAMPLE ? zn_imax(how->n, 1)
                                                                      : 1));
        s = run_task(&k);
    }
    zn_face_end(&k);
    zn_task_end(&turn);
    return s;
}
