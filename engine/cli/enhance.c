/* SPDX-License-Identifier: MIT */
/* enhance.c - `zenith denoise | restore | upscale IN OUT`: a better picture. */
#include "composites.h"

#include <stdlib.h>
#include <string.h>

static bool write_array(void *cookie, zn_rect r, const float *src)
{
    const zn_array *to = cookie;

    for (int32_t y = r.y; y < r.y + r.h; y++, src += (size_t)r.w * 3)
        memcpy(to->data + ((size_t)y * (size_t)to->w + (size_t)r.x) * 3, src, (size_t)r.w * 3 * sizeof *src);
    return true;
}

static bool enhance(const options *o, const zn_enhance_plan *plan, zn_array *picture, const picture_info *info,
                    zn_error *err)
{
    const zn_source in = array_source(picture);
    const zn_watcher watch = watch_of(o);
    zn_array out = { NULL, plan->h, plan->w, 3 };
    const zn_sink sink = { write_array, &out };
    zn_enhance_result result;
    zn_found found;
    bool ok;

    if (plan->nothing)
        return save_picture(o->word[1], picture, info, err);
    out.data = malloc(zn_array_len(&out) * sizeof *out.data);
    if (!out.data)
        snprintf(err->text, sizeof err->text, "out of memory for the result");
    ok = out.data && !zn_enhance_run(&result, plan, &sink, &in, (zn_rect){ 0, 0, plan->w, plan->h }, &watch, err);
    if (ok) {
        say_note(&result.note);
        if (result.noise.clean == 1)
            fputs("no noise found\n", stderr);
        if (o->progress && plan->how.seeks_noise)
            fprintf(stderr, "measured noise, of 255: red %.2f, green %.2f, blue %.2f\n", (double)result.noise.median[0],
                    (double)result.noise.median[1], (double)result.noise.median[2]);
        zn_enhance_found(&found, plan, &result);
        if (o->progress && *found.text)
            fprintf(stderr, "found: %s\n", found.text);
    }
    ok = ok && save_picture(o->word[1], &out, info, err);
    free(out.data);
    return ok;
}

typedef zn_status describe(zn_enhance_plan *plan, zn_session *session, const zn_choice *choice, const void *how,
                           int32_t w, int32_t h, zn_error *err);

static int run(const options *given, const char *name, void *how, const zn_field *fields, describe *describe_task)
{
    const options all = with_settings(given, fields), *o = &all;
    const zn_choice choice = choice_of(o);
    zn_session *session = NULL;
    zn_array picture = { 0 };
    picture_info info = { 0 };
    zn_enhance_plan plan;
    zn_error err = { "" };
    char call[96];
    int status;
    bool ok;

    snprintf(call, sizeof call, "zenith %s IN OUT [KEY=VALUE]...", name);
    if (o->help || o->n_words != 2 || o->n_in || o->n_out)
        return usage_of(o, call, fields, how);
    if ((status = set_fields(how, fields, name, o)))
        return status;
    ok = can_save(o->word[1], &err) && load_picture(&picture, &info, o->word[0], &err) &&
        !zn_session_open(&session, &err) && !describe_task(&plan, session, &choice, how, picture.w, picture.h, &err) &&
        enhance(o, &plan, &picture, &info, &err);
    free(picture.data);
    picture_info_free(&info);
    zn_session_close(&session);
    return ok ? EXIT_DONE : fail("%s", err.text);
}

/* A command's settings and the describe() that takes them differ in their types alone. */
#define COMMAND(name)                                                                                                  \
    static zn_status describe_##name(zn_enhance_plan *plan, zn_session *session, const zn_choice *choice,              \
                                     const void *how, int32_t w, int32_t h, zn_error *err)                             \
    {                                                                                                                  \
        return zn_##name##_describe(plan, session, choice, how, w, h, 0, err);                                         \
    }                                                                                                                  \
                                                                                                                       \
    int cmd_##name(const options *o)                                                                                   \
    {                                                                                                                  \
        zn_##name how = zn_##name##_defaults();                                                                        \
                                                                                                                       \
        return run(o, #name, &how, zn_##name##_fields, describe_##name);                                               \
    }

COMMAND(denoise)
COMMAND(restore)
COMMAND(upscale)
