/* SPDX-License-Identifier: MIT */
/* face.c - `zenith face [IN] OUT [KEY=VALUE]...`: a face is changed, drawn again, blended with another, or made up. */
#include "composites.h"
#include "pictures.h"

#include "../zenith_face.h"

#include <stdlib.h>
#include <string.h>

typedef struct work {
    const options *o;
    const char *in, *second, *out; /* files; NULL: there is none */
    zn_array picture, other;
} work;

/* The picture, copied for each change, with the changes. */
static bool save_changed(const work *k, const zn_face_plan *plan, const zn_array *change, zn_error *err)
{
    const zn_rect at = plan->change;
    const size_t row = (size_t)k->picture.w * 3;
    zn_array out = { NULL, plan->h, plan->w, 3 };
    bool ok;

    if (!(out.data = malloc(zn_array_len(&out) * sizeof *out.data))) {
        snprintf(err->text, sizeof err->text, "out of memory for the result");
        return false;
    }
    for (int32_t y = 0; y < out.h; y++)
        for (int32_t i = 0; i < plan->w / k->picture.w; i++) {
            float *to = out.data + (size_t)y * (size_t)out.w * 3 + (size_t)i * row;

            memcpy(to, k->picture.data + (size_t)y * row, row * sizeof *to);
            if (y >= at.y && y < at.y + at.h)
                zn_change_add(to + (size_t)at.x * 3, 3,
                              change->data + ((size_t)i * (size_t)at.h + (size_t)(y - at.y)) * (size_t)at.w * 3,
                              (size_t)at.w);
        }
    ok = save_picture(k->out, &out, err);
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
        return save_picture(k->out, &k->picture, err);
    if (k->in && zn_face_find(plan, &in, &watch, err))
        return false;
    out = plan->out;
    out.data = malloc(zn_array_len(&out) * sizeof *out.data);
    if (!out.data)
        snprintf(err->text, sizeof err->text, "out of memory for the result");
    ok = out.data && !zn_face_run(&result, plan, k->in ? &in : NULL, k->second ? &second : NULL, &out, &watch, err);
    if (ok)
        say_note(&result.note);
    if (ok && k->in && out.c == 3)
        ok = save_changed(k, plan, &out, err);
    else
        ok = ok && save_picture(k->out, &out, err);
    free(out.data);
    return ok;
}

int cmd_face(const options *given)
{
    const options all = with_settings(given, zn_face_fields), *o = &all;
    work k = { .o = o };
    const zn_choice choice = choice_of(o);
    zn_face_how how = zn_face_defaults();
    zn_session *session = NULL;
    zn_face_plan plan;
    zn_error err = { "" };
    bool takes, two, ok;

    for (int i = 0; i < o->n_set; i++)
        if (strncmp(o->set[i], "precision=", 10) && zn_face_set(&how, o->set[i], &err))
            return refuse_setting(zn_face_fields, o->set[i], &err);
    takes = how.task != ZN_FACE_SAMPLE;
    two = how.task == ZN_FACE_INTERPOLATE;
    if (o->n_words != 1 + takes || o->n_in != two || (two && strncmp(o->in[0], "second=", 7)))
        return usage_of("zenith face [IN] OUT [KEY=VALUE]... [--in second=PICTURE]; IN but for mode=sample, second for "
                        "mode=interpolate",
                        zn_face_fields);
    k.in = takes ? o->word[0] : NULL;
    k.out = o->word[o->n_words - 1];
    k.second = two ? o->in[0] + 7 : NULL;
    ok = can_save(k.out, &err) && (!k.in || load_picture(&k.picture, k.in, &err)) &&
        (!k.second || load_picture(&k.other, k.second, &err)) && !zn_session_open(&session, &err) &&
        !zn_face_describe(&plan, session, &choice, &how, k.picture.w, k.picture.h, &err) && run(&k, &plan, &err);
    free(k.picture.data);
    free(k.other.data);
    zn_session_close(&session);
    return ok ? EXIT_DONE : fail("%s", err.text);
}
