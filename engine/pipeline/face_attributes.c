/* SPDX-License-Identifier: MIT */
/* face_attributes.c - attribute files: directions in the codes of a model, by name. */
#include "face.h"

#include "../core/status.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 1024, MAX_CODE = 8192, PATH_SIZE = 4096 };

static const char ending[] = ".attributes.safetensors";

/* ---- files --------------------------------------------------------------------------------------------------- */

/* True: no more files. */
typedef bool file_task(void *cookie, const char *path);

static int is_attributes(const struct dirent *d)
{
    const size_t n = strlen(d->d_name), m = sizeof ending - 1;

    return n >= m && !strcmp(d->d_name + n - m, ending);
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* The attribute files of all model folders, in the order in which folders are looked at and of their names. */
static void each_file(file_task *task, void *cookie)
{
    char folder[PATH_SIZE], path[PATH_SIZE + 256];
    bool done = false;

    for (int i = 0; !done && zn_weights_folder(folder, sizeof folder, i); i++) {
        struct dirent **list = NULL;
        const int n = *folder ? scandir(folder, &list, is_attributes, by_bytes) : 0;

        for (int k = 0; k < n; k++) {
            snprintf(path, sizeof path, "%s/%s", folder, list[k]->d_name);
            done = done || task(cookie, path);
            free(list[k]);
        }
        free(list);
    }
}

static bool add_file(void *cookie, const char *path)
{
    zn_key_add_file(cookie, path);
    return false;
}

void zn_attributes_key(zn_key *key)
{
    each_file(add_file, key);
}

/* Whether the file is for this model. */
static bool is_for(const zn_weights *w, const char *model)
{
    const char *of = zn_weights_meta(w, "model");

    return !of || !strcmp(of, model);
}

/* ---- names --------------------------------------------------------------------------------------------------- */

typedef struct text { /* as snprintf counts */
    char *at;
    size_t size, len;
} text;

static void append(text *t, const char *what, size_t n)
{
    for (size_t i = 0; i < n; i++, t->len++)
        if (t->len + 1 < t->size)
            t->at[t->len] = what[i];
    if (t->size)
        t->at[t->len < t->size ? t->len : t->size - 1] = 0;
}

typedef struct listing {
    text names;
    const char *model;
} listing;

static bool list_names(void *cookie, const char *path)
{
    listing *l = cookie;
    zn_weights *w = NULL;
    const char *names;

    if (zn_weights_open(&w, &path, 1, NULL))
        return false;
    names = zn_weights_meta(w, "names");
    if (names && *names && is_for(w, l->model)) {
        append(&l->names, ",", l->names.len > 0);
        append(&l->names, names, strlen(names));
    }
    zn_weights_close(&w);
    return false;
}

void zn_face_stem(char *stem, size_t size, const char *model)
{
    const char *slash = model ? strrchr(model, '/') : NULL;
    char *dot;

    snprintf(stem, size, "%s", slash ? slash + 1 : model && *model ? model : "zenith-face");
    dot = strrchr(stem, '.');
    if (dot && slash)
        *dot = 0;
}

size_t zn_face_attributes(char *names, size_t size, const char *model)
{
    char stem[256];
    listing l = { { names, size, 0 }, stem };

    zn_face_stem(stem, sizeof stem, model);
    append(&l.names, "", 0);
    each_file(list_names, &l);
    return l.names.len;
}

/* The place of a name among those with commas between them; -1: it is not there.  *n: how many there are. */
static int place_of(const char *names, const char *name, int *n)
{
    int at = -1;

    *n = 0;
    for (const char *p = names ? names : ""; *p || (*n && p[-1] == ',');) {
        const size_t len = strcspn(p, ",");

        if (at < 0 && strlen(name) == len && !strncmp(p, name, len))
            at = *n;
        ++*n;
        if (!p[len])
            break;
        p += len + 1;
    }
    return at;
}

/* ---- one attribute -------------------------------------------------------------------------------------------- */

typedef struct search {
    zn_attribute *to;
    const char *name, *model;
    int code;
    zn_error *err;
    zn_status status;
    bool found;
    char known[400]; /* the names of other files */
    text others;
} search;

/* The sizes of a tensor; false: there is none with so many axes. */
static bool get_shape(const zn_weights *w, const char *name, int n_dims, int64_t *shape)
{
    for (int i = 0; i < zn_weights_count(w); i++) {
        const zn_weight_info info = zn_weights_info(w, i);

        if (strcmp(info.name, name) || info.n_dims != n_dims)
            continue;
        memcpy(shape, info.shape, (size_t)n_dims * sizeof *shape);
        return true;
    }
    return false;
}

/* shift = step * direction * std, of row `row` of n. */
static zn_status read_row(search *s, const zn_weights *w, int row, int n)
{
    const size_t code = (size_t)s->code, rows = (size_t)n;
    float *all = malloc(rows * code * sizeof *all), *shift = malloc(code * sizeof *shift);
    float *number = malloc(rows * sizeof *number);
    zn_status status = all && shift && number ? ZN_OK : zn_fail(s->err, ZN_E_MEMORY, "out of memory");

    if (!status)
        status = zn_weights_read(all, rows * code, w, "directions", s->err);
    if (!status)
        status = zn_weights_read(shift, code, w, "std", s->err);
    if (!status)
        status = zn_weights_read(number, rows, w, "step", s->err);
    for (size_t i = 0; !status && i < code; i++)
        shift[i] *= number[row] * all[(size_t)row * code + i];
    if (!status)
        status = zn_weights_read(number, rows, w, "guide", s->err);
    for (size_t i = 0; !status && i < code; i++)
        if (!isfinite(shift[i]) || !(number[row] >= 0 && number[row] <= 20))
            status = zn_fail(s->err, ZN_E_FILE, "The attribute file holds values that are not finite numbers.");
    if (status)
        free(shift);
    else
        *s->to = (zn_attribute){ shift, (double)number[row] };
    free(all);
    free(number);
    return status;
}

static bool look_in(void *cookie, const char *path)
{
    search *s = cookie;
    zn_weights *w = NULL;
    int64_t shape[2];
    int n, row;

    if ((s->status = zn_weights_open(&w, &path, 1, s->err)))
        return true;
    if (is_for(w, s->model) && get_shape(w, "directions", 2, shape) && shape[1] == s->code) {
        const char *names = zn_weights_meta(w, "names");

        row = place_of(names, s->name, &n);
        if (shape[0] < 1 || shape[0] > MAX_NAMES || s->code > MAX_CODE || n != shape[0]) {
            s->status = zn_fail(s->err, ZN_E_FILE, "%s has %d directions but names %u attributes.", path, (int)shape[0],
                                (unsigned)n);
        } else if (row >= 0) {
            s->found = true;
            s->status = read_row(s, w, row, n);
        } else {
            for (size_t len; *names; names += len + (names[len] == ',')) {
                len = strcspn(names, ",");
                append(&s->others, ", ", s->others.len ? 2 : 0);
                append(&s->others, names, len);
            }
        }
    }
    zn_weights_close(&w);
    return s->found || s->status;
}

zn_status zn_attribute_find(zn_attribute *attribute, const char *name, const char *model, int code, zn_error *err)
{
    search s = { .to = attribute, .name = name, .model = model, .code = code, .err = err };

    s.others = (text){ s.known, sizeof s.known, 0 };
    each_file(look_in, &s);
    zn_cut(s.known, sizeof s.known - 1);
    if (s.found || s.status)
        return s.status;
    if (s.others.len)
        return zn_fail(err, ZN_E_USAGE, "There is no attribute '%.60s'; there are: %s.", name, s.known);
    return zn_fail(err, ZN_E_USAGE,
                   "There is no attribute '%.60s': no file *%s for the model '%s' lies in the folders of weights "
                   "($ZENITH_MODELS and others).",
                   name, ending, model);
}

/* ---- for teaching ---------------------------------------------------------------------------------------------- */

/* The attribute file beside the weights. */
static zn_status open_beside(zn_weights **w, const zn_face_plan *p, zn_error *err)
{
    char name[sizeof p->model + 16], path[PATH_SIZE];
    const char *file = path;
    zn_status s;

    snprintf(name, sizeof name, "%s.attributes", p->model);
    s = zn_weights_find(path, sizeof path, name, err);
    return s ? s : zn_weights_open(w, &file, 1, err);
}

zn_status zn_face_statistics(float *mean, float *deviation, int n, const zn_face_plan *p, zn_error *err)
{
    static const char *const names[2][2] = { { "conds_mean", "conds_std" }, { "mean", "std" } };
    const char *file = p->weights;

    for (int i = 0; i < 2; i++) {
        zn_weights *w = NULL;
        const bool ok = !(i ? open_beside(&w, p, err) : zn_weights_open(&w, &file, 1, err)) &&
            !zn_weights_read(mean, (size_t)n, w, names[i][0], err) &&
            !zn_weights_read(deviation, (size_t)n, w, names[i][1], err);

        zn_weights_close(&w);
        if (ok)
            return ZN_OK;
    }
    return zn_fail(err, ZN_E_FILE,
                   "neither the weights nor a file %.100s.attributes.safetensors say the mean and deviation of codes",
                   p->model);
}

bool zn_face_has_attribute(const zn_face_plan *p, const char *name)
{
    zn_weights *w = NULL;
    int n;
    const bool has = !open_beside(&w, p, NULL) && place_of(zn_weights_meta(w, "names"), name, &n) >= 0;

    zn_weights_close(&w);
    return has;
}
