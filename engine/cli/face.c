/* SPDX-License-Identifier: MIT */
/* face.c - `zenith face [IN] OUT [KEY=VALUE]...`: a face is changed, drawn again, blended with another, or made up. */
#include "composites.h"
#include "pictures.h"

#include "../zenith_face.h"

#include <stdlib.h>
#include <string.h>

typedef struct work {
    const options *o;
    const char *in, *out; /* files; NULL: there is none */
    zn_array picture, other;
    zn_array result; /* of all second pictures, one below the other */
} work;

static bool no_memory(zn_error *err)
{
    snprintf(err->text, sizeof err->text, "out of memory for the result");
    return false;
}

/* Adds a picture to the result. */
static bool add_below(work *k, const zn_array *more, zn_error *err)
{
    zn_array *all = &k->result;
    const size_t len = zn_array_len(all);
    float *data = realloc(all->data, (len + zn_array_len(more)) * sizeof *data);

    if (!data)
        return no_memory(err);
    memcpy(data + len, more->data, zn_array_len(more) * sizeof *data);
    *all = (zn_array){ data, all->h + more->h, more->w, more->c };
    return true;
}

/* The picture, copied for each change, with the changes. */
static bool add_changed(work *k, const zn_face_plan *plan, const zn_array *change, zn_error *err)
{
    const zn_rect at = plan->change;
    const size_t row = (size_t)k->picture.w * 3;
    zn_array out = { NULL, plan->h, plan->w, 3 };
    bool ok;

    if (!(out.data = malloc(zn_array_len(&out) * sizeof *out.data)))
        return no_memory(err);
    for (int32_t y = 0; y < out.h; y++)
        for (int32_t i = 0; i < plan->w / k->picture.w; i++) {
            float *to = out.data + (size_t)y * (size_t)out.w * 3 + (size_t)i * row;

            memcpy(to, k->picture.data + (size_t)y * row, row * sizeof *to);
            if (y >= at.y && y < at.y + at.h)
                zn_change_add(to + (size_t)at.x * 3, 3,
                              change->data + ((size_t)i * (size_t)at.h + (size_t)(y - at.y)) * (size_t)at.w * 3,
                              (size_t)at.w);
        }
    ok = add_below(k, &out, err);
    free(out.data);
    return ok;
}

static bool run(work *k, zn_face_plan *plan, zn_error *err)
{
    const zn_face_picture in = { array_source(&k->picture), { 0, 0 } }, second = { array_source(&k->other), { 0, 0 } };
    const zn_watcher watch = watch_of(k->o);
    zn_face_result result;
    zn_array out;
    bool ok;

    if (plan->nothing)
        return add_below(k, &k->picture, err);
    if (k->in && zn_face_find(plan, &in, &watch, err))
        return false;
    out = plan->out;
    out.data = malloc(zn_array_len(&out) * sizeof *out.data);
    ok = out.data ? !zn_face_run(&result, plan, k->in ? &in : NULL, k->other.data ? &second : NULL, &out, &watch, err)
                  : no_memory(err);
    if (ok)
        say_note(&result.note);
    if (ok && k->in && out.c == 3)
        ok = add_changed(k, plan, &out, err);
    else
        ok = ok && add_below(k, &out, err);
    free(out.data);
    return ok;
}

/* With each second picture, or with none. */
static bool run_all(work *k, const zn_face_how *how, zn_error *err)
{
    const zn_choice choice = choice_of(k->o);
    zn_session *session = NULL;
    zn_face_plan plan;
    bool ok = !zn_session_open(&session, err);

    for (int i = 0; ok && i < (k->o->n_in ? k->o->n_in : 1); i++) {
        ok = (!k->o->n_in || load_picture(&k->other, NULL, k->o->in[i] + 7, err)) &&
            !zn_face_describe(&plan, session, &choice, how, k->picture.w, k->picture.h, err) && run(k, &plan, err);
        free(k->other.data);
        k->other.data = NULL;
    }
    zn_session_close(&session);
    return ok;
}

int cmd_face(const options *given)
{
    const options all = with_settings(given, zn_face_fields), *o = &all;
    work k = { .o = o };
    zn_face_how how = zn_face_defaults();
    picture_info info = { 0 };
    zn_error err = { "" };
    bool takes, two, ok;

    for (int i = 0; i < o->n_set; i++)
        if (strncmp(o->set[i], "precision=", 10) && zn_face_set(&how, o->set[i], &err))
            return refuse_setting(zn_face_fields, o->set[i], &err);
    takes = how.task != ZN_FACE_SAMPLE;
    two = how.task == ZN_FACE_INTERPOLATE;
    ok = o->n_words == 1 + takes && two == (o->n_in > 0);
    for (int i = 0; i < o->n_in; i++)
        ok = ok && !strncmp(o->in[i], "second=", 7);
    if (!o->help && two && !o->n_in)
        return usage("face: mode=interpolate takes a second picture: --in second=PICTURE");
    if (!o->help && !two && o->n_in)
        return usage("face: --in second=PICTURE is for mode=interpolate");
    if (o->help || !ok)
        return usage_of(
            o,
            "zenith face [IN] OUT [KEY=VALUE]... [--in second=PICTURE]...; IN but for mode=sample, second for "
            "mode=interpolate: several are done one after the other, and OUT has one result below the other",
            zn_face_fields, &how);
    k.in = takes ? o->word[0] : NULL;
    k.out = o->word[o->n_words - 1];
    ok = can_save(k.out, &err) && (!k.in || load_picture(&k.picture, &info, k.in, &err)) && run_all(&k, &how, &err) &&
        save_picture(k.out, &k.result, &info, &err);
    free(k.picture.data);
    picture_info_free(&info);
    free(k.result.data);
    return ok ? EXIT_DONE : fail("%s", err.text);
}
