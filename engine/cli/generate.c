/* SPDX-License-Identifier: MIT */
/* generate.c - `zenith generate [IN] OUT`: a picture from a prompt, or a changed one. */
#include "composites.h"
#include "pictures.h"

#include <stdlib.h>
#include <string.h>

typedef struct work {
    const options *o;
    const char *in, *mask, *out; /* files; in, mask: NULL, there is none */
    zn_array picture, weights;   /* the input and how far its pixels may change */
    picture_info info;
} work;

/* The mask is the mean of the channels, of the input's size. */
static bool load_mask(work *k, zn_error *err)
{
    zn_array rgb = { 0 };

    if (!load_picture(&rgb, NULL, k->mask, err))
        return false;
    k->weights = (zn_array){ rgb.data, rgb.h, rgb.w, 1 };
    for (size_t i = 0; i < zn_array_len(&k->weights); i++)
        rgb.data[i] = (rgb.data[3 * i] + rgb.data[3 * i + 1] + rgb.data[3 * i + 2]) / 3;
    if (rgb.w == k->picture.w && rgb.h == k->picture.h)
        return true;
    snprintf(err->text, sizeof err->text, "the mask has %d x %d pixels, the picture %d x %d", rgb.w, rgb.h,
             k->picture.w, k->picture.h);
    return false;
}

/* Adds the change of a part to the picture. */
static void add_change(zn_array *picture, const zn_array *change, zn_rect place)
{
    for (int32_t y = 0; y < place.h; y++)
        zn_change_add(picture->data + ((size_t)(place.y + y) * (size_t)picture->w + (size_t)place.x) * 3, 3,
                      change->data + (size_t)y * (size_t)place.w * 3, (size_t)place.w);
}

/* Of several results, NAME-1.png and so on. */
static bool name_result(char *path, size_t size, const work *k, int32_t i, int32_t n)
{
    const char *end = strrchr(k->out, '.');
    const int stem = end && !strchr(end, '/') ? (int)(end - k->out) : (int)strlen(k->out);
    const int len = n > 1 ? snprintf(path, size, "%.*s-%d%s", stem, k->out, i + 1, k->out + stem)
                          : snprintf(path, size, "%s", k->out);

    return len > 0 && (size_t)len < size;
}

static bool save_results(work *k, const zn_generate_plan *plan, const zn_array *out, zn_error *err)
{
    const int32_t n = plan->how.n;
    zn_array one = { out->data, plan->change.h, plan->change.w, 3 }, own = k->picture;
    const size_t size = zn_array_len(&k->picture) * sizeof *own.data;
    char path[4096];
    bool ok = true;

    if (plan->adds && !(own.data = malloc(size)))
        return snprintf(err->text, sizeof err->text, "out of memory for the result"), false;
    for (int32_t i = 0; ok && i < n; i++, one.data += zn_array_len(&one)) {
        if (plan->adds) {
            memcpy(own.data, k->picture.data, size);
            add_change(&own, &one, plan->change);
        }
        ok = name_result(path, sizeof path, k, i, n);
        if (!ok)
            snprintf(err->text, sizeof err->text, "the name '%.80s' is too long", k->out);
        ok = ok && save_picture(path, plan->adds ? &own : &one, &k->info, err);
    }
    if (plan->adds)
        free(own.data);
    return ok;
}

static bool generate(work *k, const zn_generate_plan *plan, zn_error *err)
{
    const zn_source in = array_source(&k->picture), mask = array_source(&k->weights);
    const zn_watcher watch = watch_of(k->o);
    zn_array out = { NULL, plan->change.h * plan->how.n, plan->change.w, 3 };
    zn_generate_result result;
    bool ok;

    out.data = malloc(zn_array_len(&out) * sizeof *out.data);
    if (!out.data)
        snprintf(err->text, sizeof err->text, "out of memory for the result");
    ok = out.data && !zn_generate_run(&result, plan, k->in ? &in : NULL, k->mask ? &mask : NULL, &out, &watch, err);
    if (ok)
        say_note(&result.note);
    ok = ok && save_results(k, plan, &out, err);
    free(out.data);
    return ok;
}

int cmd_generate(const options *given)
{
    const options with = with_settings(given, zn_generate_fields), *o = &with;
    work k = { .o = o, .in = o->n_words > 1 ? o->word[0] : NULL, .out = o->n_words ? o->word[o->n_words - 1] : NULL };
    const zn_choice choice = choice_of(o);
    zn_generate how = zn_generate_defaults();
    zn_session *session = NULL;
    zn_generate_plan plan;
    zn_error err = { "" };
    zn_rect all;
    int status;
    bool ok;

    how.prompt = "";
    if (o->help || o->n_words < 1 || o->n_words > 2 || o->n_in > 1 || (o->n_in && strncmp(o->in[0], "mask=", 5)) ||
        (o->n_in && !k.in))
        return usage_of(o, "zenith generate [IN] OUT prompt=TEXT [KEY=VALUE]... [--in mask=PICTURE]",
                        zn_generate_fields, &how);
    if ((status = set_fields(&how, zn_generate_fields, "generate", o)))
        return status;
    k.mask = o->n_in ? o->in[0] + 5 : NULL;
    ok = can_save(k.out, &err) && (!k.in || load_picture(&k.picture, &k.info, k.in, &err)) &&
        (!k.mask || load_mask(&k, &err)) && !zn_session_open(&session, &err);
    all = (zn_rect){ 0, 0, k.picture.w, k.picture.h };
    ok = ok &&
        !zn_generate_describe(&plan, session, &choice, &how, k.picture.w, k.picture.h, k.mask ? &all : NULL, &err);
    if (ok)
        ok = plan.nothing ? save_picture(k.out, &k.picture, &k.info, &err) : generate(&k, &plan, &err);
    free(k.picture.data);
    picture_info_free(&k.info);
    free(k.weights.data);
    zn_session_close(&session);
    return ok ? EXIT_DONE : fail("%s", err.text);
}
