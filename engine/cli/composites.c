/* SPDX-License-Identifier: MIT */
/* composites.c - what the commands on picture files share. */
#include "composites.h"

#include <stdlib.h>
#include <string.h>

/* Whether a text is "KEY=...", of a key of the fields. */
static bool is_field(const zn_field *fields, const char *text)
{
    const size_t len = strcspn(text, "=");

    while (fields->key && (strlen(fields->key) != len || strncmp(fields->key, text, len)))
        fields++;
    return text[len] && fields->key;
}

options with_settings(const options *from, const zn_field *fields)
{
    options o = *from;

    o.n_words = 0; /* in the list that both share, which becomes shorter */
    for (int i = 0; i < from->n_words; i++)
        if (o.n_set < MAX_LIST &&
            (is_field(fields, from->word[i]) || !strncmp(from->word[i], "precision=", 10) ||
             (o.n_words > 1 && strchr(from->word[i], '='))))
            o.set[o.n_set++] = from->word[i];
        else
            o.word[o.n_words++] = from->word[i];
    return o;
}

int refuse_setting(const zn_field *fields, const char *text, const zn_error *err)
{
    fprintf(stderr, "zenith: %s", err->text);
    if (!is_field(fields, text)) {
        fputs("; it has", stderr);
        for (const zn_field *f = fields; f->key; f++)
            fprintf(stderr, " %s,", f->key);
        fputs(" precision", stderr);
    }
    fputc('\n', stderr);
    return EXIT_USAGE;
}

int set_fields(void *how, const zn_field *fields, const char *what, const options *o)
{
    zn_error err;

    for (int i = 0; i < o->n_set; i++)
        if (strncmp(o->set[i], "precision=", 10) && zn_field_set(how, fields, what, o->set[i], &err))
            return refuse_setting(fields, o->set[i], &err);
    return EXIT_DONE;
}

static double number_of(const zn_field *f, const void *how)
{
    const void *at = (const char *)how + f->at;

    if (f->kind == ZN_REAL)
        return *(const double *)at;
    return f->kind == ZN_COUNT ? (double)*(const uint32_t *)at : (double)*(const int32_t *)at;
}

int usage_of(const options *o, const char *call, const zn_field *fields, const void *how)
{
    FILE *to = o->help ? stdout : stderr;

    fprintf(to, "%s%s\n", o->help ? "" : "zenith: ", call);
    for (const zn_field *f = fields; f->key; f++) {
        const char *text = f->kind == ZN_TEXT ? *(const char *const *)((const char *)how + f->at) : NULL;

        fprintf(to, "  %-16s %s", f->key, f->help);
        if (f->kind != ZN_TEXT && f->kind != ZN_NAMED)
            fprintf(to, ", %.10g to %.10g (%.10g)", f->min, f->max, number_of(f, how));
        if (text && *text)
            fprintf(to, " (%s)", text);
        fputc('\n', to);
    }
    fputs(
        "  precision        auto, fp32, bf16, fp16, int8, int4, ...\n  In brackets: what is taken if it is not set.\n",
        to);
    return o->help ? EXIT_DONE : EXIT_USAGE;
}

zn_choice choice_of(const options *o)
{
    return (zn_choice){ .engine = o->engine, .n_threads = o->threads, .precision = precision_of(o) };
}

const char *file_path(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s%s", strchr(name, '/') ? "" : "./", name);
    return path;
}

/* ---- pictures ------------------------------------------------------------------------------------------------ */

bool load_picture(zn_array *out, picture_info *info, const char *path, zn_error *err)
{
    if (!picture_load(out, info, path, err))
        return false;
    if (out->c != 3) {
        snprintf(err->text, sizeof err->text, "%.300s has %d channels, where a picture has 3", path, out->c);
        free(out->data);
        out->data = NULL;
        return false;
    }
    say_cleaned(clean_numbers(out->data, zn_array_len(out)), path);
    return true;
}

static bool ends(const char *path, const char *ending)
{
    const char *dot = strrchr(path, '.');

    return dot && !strcmp(dot, ending);
}

bool can_save(const char *path, zn_error *err)
{
    if (!ends(path, ".npy") && !ends(path, ".ppm") && !(ends(path, ".png") && picture_writes_png())) {
        snprintf(err->text, sizeof err->text, "%.300s: a result is written as %s.ppm or .npy", path,
                 picture_writes_png() ? ".png, " : "");
        return false;
    }
    return !zn_write_check(path, err);
}

bool save_picture(const char *path, const zn_array *picture, const picture_info *info, zn_error *err)
{
    return ends(path, ".npy") ? npy_write(path, picture, 3, err)
                              : picture_write(path, picture, info, ends(path, ".png"), err);
}

/* ---- what is shown ------------------------------------------------------------------------------------------- */

static void show_need(void *cookie, const zn_footprint *need)
{
    (void)cookie;
    fprintf(stderr, "%.0f MiB, and %.0f MiB of weights%s\n", (double)need->beside / 1048576,
            (double)need->weights / 1048576,
            need->streamed ? " (layers are read from disk as they are needed: slower)" : "");
}

zn_watcher watch_of(const options *o)
{
    return o->progress ? (zn_watcher){ .progress = show_progress, .planned = show_need } : (zn_watcher){ 0 };
}

void say_note(const zn_note *note)
{
    if (*note->text)
        fprintf(stderr, "zenith: %s\n", note->text);
}
