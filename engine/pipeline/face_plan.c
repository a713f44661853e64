/* SPDX-License-Identifier: MIT */
/* face_plan.c - what a task on a face takes: settings, files, sizes, and where the face is. */
#include "face.h"

#include "../core/ints.h"
#include "../core/status.h"

#include <stdio.h>
#include <string.h>

static const char own_model[] = "zenith-face";
static const char finder[] = "zenith-find"; /* weights that find faces */

/* Of 40 held-out faces all score 0.97 and more, of the same ones half covered 39 less than this. */
static const float sure = 0.9f;

/* ---- settings ------------------------------------------------------------------------------------------------ */

#define FIELD(name) offsetof(zn_face_how, name)

const zn_field zn_face_fields[] = {
    { "mode", ZN_NAMED, FIELD(task), 0, 4, "manipulate|reconstruct|interpolate|sample" },
    { "attribute", ZN_TEXT, FIELD(change[0].attribute), 0, 0, "smile, age, ... or one of your own; may be repeated" },
    { "amount", ZN_REAL, FIELD(change[0].amount), -1, 1, "how much more of the last attribute, or less" },
    { "smile", ZN_REAL, FIELD(slider[0]), -1, 1, "more or less of it, beside all other attributes" },
    { "mouth-open", ZN_REAL, FIELD(slider[1]), -1, 1, "likewise" },
    { "eyes-open", ZN_REAL, FIELD(slider[2]), -1, 1, "likewise" },
    { "age", ZN_REAL, FIELD(slider[3]), -1, 1, "likewise; 1: as old as the model makes it, no number of years" },
    { "gender", ZN_REAL, FIELD(slider[4]), -1, 1, "likewise; more is more masculine" },
    { "detail", ZN_REAL, FIELD(detail), 0, 1, "fine structure that stays where the face changes" },
    { "position", ZN_REAL, FIELD(position), 0, 1, "from the first face to the second" },
    { "strip", ZN_WHOLE, FIELD(strip), 0, 100, "pictures side by side, from the first face to the second" },
    { "loop", ZN_WHOLE, FIELD(loop), 0, 1, "1: a strip leads back, too" },
    { "seed", ZN_COUNT, FIELD(seed), 0, UINT32_MAX, "another number makes another face" },
    { "steps", ZN_WHOLE, FIELD(steps), 0, 1000, "from noise to the picture; 0: as the mode needs" },
    { "stochastic-steps", ZN_WHOLE, FIELD(stochastic_steps), 0, 1000, "from the picture to noise; 0: likewise" },
    { "n", ZN_WHOLE, FIELD(n), 0, 100, "new faces, one below the other: those of seed, seed + 1, ..." },
    { "eta", ZN_REAL, FIELD(eta), 0, 1, "of a new face: noise drawn anew in each step; 1: ancestral sampling" },
    { "latent-steps", ZN_WHOLE, FIELD(latent_steps), 1, 1000, "from noise to a new code" },
    { "frame-x", ZN_REAL, FIELD(frame.x), -1e6, 1e6, "centre of the frame" },
    { "frame-y", ZN_REAL, FIELD(frame.y), -1e6, 1e6, "likewise" },
    { "frame-size", ZN_REAL, FIELD(frame.size), 0, 65536, "its side; 0: none is given" },
    { "frame-angle", ZN_REAL, FIELD(frame.angle), -180, 180, "degrees, clockwise" },
    { "find", ZN_NAMED, FIELD(search), 0, 2, "none|face|middle" },
    { "face", ZN_WHOLE, FIELD(face), 0, ZN_FACES, "which of those found, 1 is the largest; 0: all, of an edit" },
    { "model", ZN_TEXT, FIELD(model), 0, 0, "a weight file or its stem" },
    { 0 },
};

const char *const zn_face_sliders[ZN_FACE_SLIDERS] = { "smile", "mouth-open", "eyes-open", "age", "gender" };

zn_face_how zn_face_defaults(void)
{
    return (zn_face_how){ .search = ZN_SEARCH_FACE, .face = 1, .detail = 0.7, .position = 0.5, .latent_steps = 200 };
}

zn_status zn_face_set(zn_face_how *how, const char *text, zn_error *err)
{
    static const char attribute[] = "attribute=", amount[] = "amount=";
    zn_face_how last = *how; /* its last change is its first */
    int n = 0;
    zn_status s;

    while (how->change[n].attribute)
        n++;
    if (!strncmp(text, attribute, sizeof attribute - 1)) {
        if (n == ZN_FACE_GIVEN)
            return zn_fail(err, ZN_E_USAGE, "face takes at most %d attributes", ZN_FACE_GIVEN);
        how->change[n].attribute = text + sizeof attribute - 1;
        return ZN_OK;
    }
    s = zn_field_set(&last, zn_face_fields, "face", text, err);
    if (s || strncmp(text, amount, sizeof amount - 1)) {
        *how = s ? *how : last;
        return s;
    }
    if (!n)
        return zn_fail(err, ZN_E_USAGE, "amount comes after an attribute");
    how->change[n - 1].amount = last.change[0].amount;
    return ZN_OK;
}

/* Numbers are in their ranges, also those of all changes. */
static zn_status check(const zn_face_how *how, zn_error *err)
{
    zn_face_how each = *how;
    zn_status s;

    for (int i = 0; !(s = zn_field_check(&each, zn_face_fields, err)) && how->change[i].attribute; i++)
        each.change[0] = how->change[i];
    return s;
}

/* Changes that change something, those of the sliders last. */
static void collect_changes(zn_face_how *how)
{
    int n = 0;

    for (int i = 0; i < ZN_FACE_GIVEN && how->change[i].attribute; i++)
        if (how->change[i].amount != 0)
            how->change[n++] = how->change[i];
    for (int i = 0; i < ZN_FACE_SLIDERS; i++)
        if (how->slider[i] != 0)
            how->change[n++] = (zn_face_change){ zn_face_sliders[i], how->slider[i] };
    how->change[n] = (zn_face_change){ NULL, 0 };
}

/* ---- files --------------------------------------------------------------------------------------------------- */

static zn_status find_weights(zn_face_plan *p, zn_error *err)
{
    const char *model = p->how.model && *p->how.model ? p->how.model : own_model;

    zn_face_stem(p->model, sizeof p->model, model);
    if (!strchr(model, '/'))
        return zn_weights_find(p->weights, sizeof p->weights, model, err);
    if (strlen(model) >= sizeof p->weights)
        return zn_fail(err, ZN_E_FILE, "%s: the name is too long", p->model);
    strcpy(p->weights, model);
    return ZN_OK;
}

/* Side and code of the model.  Before a run only some tasks need them; and where a result has another size than the input, it is known
 * so early whether the model can be used. */
static zn_status get_sizes(zn_face_plan *p, zn_error *err)
{
    const zn_terms terms = { .choice = p->choice };
    zn_geometry g;
    zn_status s = zn_session_geometry(&g, p->session, "diffae-encode", p->weights, &terms, err);

    if (s)
        return s;
    if (p->how.task == ZN_FACE_ENCODE)
        p->out = (zn_array){ NULL, 1, 1, g.out_c };
    else if (p->how.task == ZN_FACE_SAMPLE)
        p->out = (zn_array){ NULL, p->h = zn_imax(p->how.n, 1) * g.side, p->w = g.side, 3 };
    return ZN_OK;
}

/* ---- describe ------------------------------------------------------------------------------------------------ */

static bool is_nothing(const zn_face_how *how)
{
    if (how->task == ZN_FACE_INTERPOLATE)
        return how->position == 0 && how->strip < 2;
    return how->task == ZN_FACE_MANIPULATE && !how->change[0].attribute;
}

/* All that the result depends on, but for the frame. */
static zn_key key_of(const zn_face_plan *p)
{
    const zn_face_how *how = &p->how;
    const double numbers[] = { how->task,  how->steps, how->stochastic_steps, how->detail, how->position,
                               how->strip, how->seed,  how->latent_steps,     how->n,      how->eta,
                               how->loop };
    zn_key key = { 0, 0 };
    char enlarger[4096];

    zn_key_add_text(&key, "face");
    zn_key_add(&key, numbers, sizeof numbers);
    zn_key_add_text(&key, p->choice.engine);
    zn_key_add_text(&key, p->choice.precision);
    zn_key_add_file(&key, p->weights);
    if (how->task == ZN_FACE_MANIPULATE || how->task == ZN_FACE_INTERPOLATE)
        zn_attributes_key(&key);
    if (!zn_weights_find(enlarger, sizeof enlarger, ZN_FACE_ENLARGER, NULL))
        zn_key_add_file(&key, enlarger);
    for (const zn_face_change *c = how->change; c->attribute; c++) {
        zn_key_add_text(&key, c->attribute);
        zn_key_add(&key, &c->amount, sizeof c->amount);
    }
    return key;
}

/* Of a task on a picture. */
static zn_status describe_input(zn_face_plan *p, zn_error *err)
{
    zn_square square;

    if (p->in_w < 1 || p->in_h < 1)
        return zn_fail(err, ZN_E_USAGE, "There is no picture to work on.");
    if (p->how.strip > 1 && p->how.task == ZN_FACE_INTERPOLATE) {
        const int n = p->how.strip + (p->how.loop ? p->how.strip - 2 : 0);

        if ((int64_t)p->w * n > INT32_MAX)
            return zn_fail(err, ZN_E_USAGE, "The strip would be too wide.");
        p->w *= n;
    }
    /* a frame that makes no sense is refused before anything is read */
    return p->searches ? ZN_OK : zn_square_get(&square, &p->how.frame, p->in_w, p->in_h, err);
}

zn_status zn_face_describe(zn_face_plan *p, zn_session *session, const zn_choice *choice, const zn_face_how *how,
                           int32_t w, int32_t h, zn_error *err)
{
    const int usual = how->task == ZN_FACE_MANIPULATE ? 10 : 20;
    zn_status s = check(how, err);

    *p = (zn_face_plan){ .how = *how, .session = session, .w = w, .h = h, .in_w = w, .in_h = h };
    p->choice = choice ? *choice : (zn_choice){ 0 };
    p->how.steps = how->steps ? how->steps : usual;
    p->how.stochastic_steps = how->stochastic_steps ? how->stochastic_steps : usual;
    p->searches = how->search != ZN_SEARCH_NONE && how->frame.size <= 0;
    collect_changes(&p->how);
    p->nothing = is_nothing(&p->how);
    if (s || p->nothing)
        return s;
    s = find_weights(p, err);
    if (!s && how->task != ZN_FACE_SAMPLE)
        s = describe_input(p, err);
    if (!s && (how->task == ZN_FACE_SAMPLE || how->task == ZN_FACE_ENCODE || p->w != w))
        s = get_sizes(p, err);
    if (!s)
        p->key = key_of(p);
    p->located = how->task == ZN_FACE_SAMPLE;
    return s;
}

/* ---- find ---------------------------------------------------------------------------------------------------- */

void zn_face_ahead(const zn_face_plan *p, const zn_terms *terms)
{
    zn_session_ahead(p->session, "diffae-encode", p->weights, terms);
    if (p->how.task != ZN_FACE_ENCODE)
        zn_session_ahead(p->session, "diffae-sample", p->weights, terms);
}

zn_status zn_face_search_in(zn_face_list *list, const zn_face_plan *p, const zn_face_picture *in,
                            const zn_watcher *watch, zn_error *err)
{
    const zn_keep *keep = watch && (in->key.a || in->key.b) ? watch->keep : NULL;
    zn_key key = { 0, 0 };
    char weights[4096];
    zn_status s = zn_weights_find(weights, sizeof weights, finder, err);

    *list = (zn_face_list){ 0 };
    if (s)
        return s;
    zn_key_add_text(&key, "face: frames");
    zn_key_add_file(&key, weights);
    zn_key_add(&key, &in->key, sizeof in->key);
    if (keep && keep->get(keep->cookie, key, list, sizeof *list))
        return ZN_OK;
    zn_face_ahead(p, &(zn_terms){ .choice = p->choice }); /* the finder's networks wait for the device */
    s = zn_session_find_faces(list->face, ZN_FACES, &list->n, p->session, &p->choice, NULL, &in->source, err);
    if (!s && keep)
        keep->put(keep->cookie, key, list, sizeof *list);
    return s;
}

zn_frame zn_face_frame(const zn_face *face)
{
    return (zn_frame){ (double)face->x, (double)face->y, (double)face->size, (double)face->angle };
}

/* The wanted one of those that were found. */
static zn_status choose(zn_frame *frame, zn_face_plan *p, const zn_face_list *list, zn_error *err)
{
    const bool all = p->how.face == 0 && p->how.task == ZN_FACE_MANIPULATE;
    const int which = p->how.face ? p->how.face - 1 : 0;

    if (which >= list->n)
        return zn_fail(err, ZN_E_USAGE, "There is no face %d: %d found.", which + 1, list->n);
    for (int i = 0; i < list->n; i++)
        p->faces[i] = zn_face_frame(&list->face[i]);
    p->n_faces = list->n;
    p->n_taken = all ? list->n : 1;
    *frame = p->faces[which];
    for (int i = all ? 0 : which; i < (all ? list->n : which + 1); i++)
        if (list->face[i].score < sure)
            zn_note_add(&p->note,
                        zn_tr("A face is covered or seen from the side, or hard to see: the model did not learn from "
                              "such faces, and the result may not be good."));
    return ZN_OK;
}

/* Looks for a face; without the weights for it, there is a note. */
static zn_status search(zn_frame *frame, zn_face_plan *p, const zn_face_picture *in, const zn_watcher *watch,
                        zn_error *err)
{
    char weights[4096];
    zn_task_turn turn;
    zn_error why, text;
    zn_face_list list;
    zn_status s;

    if (zn_weights_find(weights, sizeof weights, finder, &why)) {
        zn_fail(&text, ZN_OK, "The face was not searched for; the middle of the picture is used: %s", why.text);
        zn_note_add(&p->note, text.text);
        return ZN_OK;
    }
    if ((s = zn_task_begin(&turn, p->session, err)))
        return s;
    p->searched = true;
    s = zn_face_search_in(&list, p, in, watch, err);
    zn_task_end(&turn);
    p->found = !s && list.n > 0;
    if (p->found)
        return choose(frame, p, &list, err);
    if (!s && p->how.search == ZN_SEARCH_FACE)
        return zn_fail(err, ZN_E_USAGE,
                       "No face was found: give its frame (frame-x, frame-y and frame-size) or, in GIMP, select it.");
    return s;
}

/* The smallest rectangle that holds two. */
static zn_rect both(zn_rect a, zn_rect b)
{
    const int32_t x = zn_imin(a.x, b.x), y = zn_imin(a.y, b.y);

    return (zn_rect){ x, y, zn_imax(a.x + a.w, b.x + b.w) - x, zn_imax(a.y + a.h, b.y + b.h) - y };
}

zn_status zn_face_find(zn_face_plan *p, const zn_face_picture *in, const zn_watcher *watch, zn_error *err)
{
    zn_frame frame = p->how.frame;
    zn_square square;
    zn_status s = ZN_OK;

    p->n_taken = 1;

    if (err)
        err->text[0] = 0;
    if (p->how.task == ZN_FACE_SAMPLE || in->source.w != p->in_w || in->source.h != p->in_h || in->source.c != 3)
        return zn_fail(err, ZN_E_USAGE, "this is not what was planned");
    if (p->searches)
        s = search(&frame, p, in, watch, err);
    if (!s)
        s = zn_square_get(&square, &frame, p->in_w, p->in_h, err);
    if (s)
        return s;
    p->located = true;
    p->frame = (zn_frame){ square.x, square.y, square.size, frame.angle };
    zn_key_add(&p->key, &p->frame, sizeof p->frame);
    zn_key_add(&p->key, &p->found, sizeof p->found);
    p->change = zn_square_bounds(&square, p->in_w, p->in_h);
    for (int i = 1; !s && i < p->n_taken; i++) { /* beside the first, which is the frame */
        zn_key_add(&p->key, &p->faces[i], sizeof p->faces[i]);
        if (!(s = zn_square_get(&square, &p->faces[i], p->in_w, p->in_h, err)))
            p->change = both(p->change, zn_square_bounds(&square, p->in_w, p->in_h));
    }
    if (p->how.task != ZN_FACE_ENCODE)
        p->out = (zn_array){ NULL, p->change.h * (p->w / p->in_w), p->change.w, 3 };
    return s;
}
