/* SPDX-License-Identifier: MIT */
/* face_attributes.c - attribute files: directions or moves in the codes of a model, by name; docs/scripting.md has the tensors. */
#include "face.h"

#include "../core/status.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 1024, MAX_CODE = 8192, MAX_HIDDEN = 1024, MAX_CELLS = 256, PATH_SIZE = 4096 };

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
    const zn_face_change *change;
    const char *model;
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

static zn_status not_finite(zn_error *err)
{
    return zn_fail(err, ZN_E_FILE, "The attribute file holds values that are not finite numbers.");
}

static zn_status does_not_fit(zn_error *err)
{
    return zn_fail(err, ZN_E_FILE, "Moves or mask of the attribute file do not fit its codes.");
}

/* Row `from` of a tensor of n rows, [len]; NULL: *status says why. */
static float *read_rows(const zn_weights *w, const char *name, size_t n, size_t from, size_t len, zn_status *status,
                        zn_error *err)
{
    float *all = *status ? NULL : malloc(n * len * sizeof *all);

    if (*status)
        return NULL;
    *status = all ? zn_weights_read(all, n * len, w, name, err) : zn_fail(err, ZN_E_MEMORY, "out of memory");
    for (size_t i = 0; !*status && i < len; i++)
        if (!isfinite(all[from * len + i]))
            *status = not_finite(err);
    if (*status) {
        free(all);
        return NULL;
    }
    memmove(all, all + from * len, len * sizeof *all);
    return all;
}

/* The direction of row `row` of n: shift = step * direction * std. */
static zn_status read_direction(search *s, const zn_weights *w, size_t row, size_t n)
{
    const size_t code = (size_t)s->code;
    zn_status status = ZN_OK;
    float *direction = read_rows(w, "directions", n, row, code, &status, s->err);
    float *step = read_rows(w, "step", n, row, 1, &status, s->err);

    s->to->shift = read_rows(w, "std", 1, 0, code, &status, s->err);
    s->to->gain = s->change->amount;
    for (size_t i = 0; !status && i < code; i++)
        s->to->shift[i] *= *step * direction[i];
    free(step);
    free(direction);
    return status;
}

/* What codes are normalised with. */
static zn_status read_normal(search *s, const zn_weights *w)
{
    zn_attribute *a = s->to;
    const size_t code = (size_t)s->code;
    zn_status status = ZN_OK;

    a->mean = read_rows(w, "mean", 1, 0, code, &status, s->err);
    a->deviation = read_rows(w, "std", 1, 0, code, &status, s->err);
    for (size_t i = 0; !status && i < code; i++)
        if (!(a->deviation[i] > 0))
            status = does_not_fit(s->err);
    return status;
}

/* The moves of row `row` of n: two each, for more and for less.  shift and outer become those of codes that are not normalised. */
static zn_status read_move(search *s, const zn_weights *w, size_t row, size_t n, const int64_t *shape)
{
    zn_attribute *a = s->to;
    const size_t code = (size_t)s->code, hidden = (size_t)shape[2], at = 2 * row + (s->change->amount < 0);
    zn_status status = read_normal(s, w);

    a->gain = fabs(s->change->amount);
    a->hidden = (int)hidden;
    a->shift = read_rows(w, "move.shift", 2 * n, at, code, &status, s->err);
    a->inner = read_rows(w, "move.inner", 2 * n, at, hidden * code, &status, s->err);
    a->bias = read_rows(w, "move.bias", 2 * n, at, hidden, &status, s->err);
    a->outer = read_rows(w, "move.outer", 2 * n, at, code * hidden, &status, s->err);
    for (size_t i = 0; !status && i < code; i++) {
        a->shift[i] *= a->deviation[i];
        for (size_t h = 0; h < hidden; h++)
            a->outer[i * hidden + h] *= a->deviation[i];
    }
    return status;
}

/* shape: that of mask.region, which may be wrong. */
static zn_status read_mask(search *s, const zn_weights *w, size_t row, size_t n, const int64_t *shape)
{
    zn_attribute *a = s->to;
    const size_t cells = (size_t)(shape[1] * shape[1]);
    zn_status status = ZN_OK;

    if (shape[0] != (int64_t)n || shape[1] != shape[2] || shape[1] < 1 || shape[1] > MAX_CELLS)
        return does_not_fit(s->err);
    a->cells = (int)shape[1];
    a->region = read_rows(w, "mask.region", n, row, cells, &status, s->err);
    a->mask_weight = read_rows(w, "mask.weight", 1, 0, cells * (size_t)s->code, &status, s->err);
    a->mask_bias = read_rows(w, "mask.bias", 1, 0, cells, &status, s->err);
    return status;
}

/* What the row says: a move or a direction, and a mask. */
static zn_status read_values(search *s, const zn_weights *w, int row, int n)
{
    const size_t at = (size_t)row, rows = (size_t)n;
    int64_t inner[4], region[3];
    zn_status status = ZN_OK;
    float *guide = read_rows(w, "guide", rows, at, 1, &status, s->err);

    if (!status && !(*guide >= 0 && *guide <= 20))
        status = not_finite(s->err);
    s->to->guide = status ? 0 : (double)*guide;
    free(guide);
    if (status || !get_shape(w, "move.inner", 4, inner))
        return status ? status : read_direction(s, w, at, rows);
    if (inner[0] != n || inner[1] != 2 || inner[2] < 1 || inner[2] > MAX_HIDDEN || inner[3] != s->code)
        return does_not_fit(s->err);
    status = read_move(s, w, at, rows, inner);
    return status || !get_shape(w, "mask.region", 3, region) ? status : read_mask(s, w, at, rows, region);
}

static zn_status read_row(search *s, const zn_weights *w, int row, int n)
{
    zn_status status = read_values(s, w, row, n);

    for (int i = 0; !status && i < s->code; i++)
        if (!isfinite(s->to->shift[i]))
            status = not_finite(s->err);
    return status;
}

void zn_attribute_clear(zn_attribute *a)
{
    float *const all[] = { a->shift, a->mean,        a->deviation, a->inner, a->bias,
                           a->outer, a->mask_weight, a->mask_bias, a->region };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    *a = (zn_attribute){ 0 };
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

        row = place_of(names, s->change->attribute, &n);
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

zn_status zn_attribute_find(zn_attribute *attribute, const zn_face_change *change, const char *model, int code,
                            zn_error *err)
{
    const char *name = change->attribute;
    search s = { .to = attribute, .change = change, .model = model, .code = code, .err = err };

    *attribute = (zn_attribute){ 0 };
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

/* ---- the mask alone ---------------------------------------------------------------------------------------------- */

static bool look_for_mask(void *cookie, const char *path)
{
    search *s = cookie;
    zn_attribute *a = s->to;
    zn_weights *w = NULL;
    int64_t shape[2], region[3];

    if ((s->status = zn_weights_open(&w, &path, 1, s->err)))
        return true;
    if (is_for(w, s->model) && get_shape(w, "directions", 2, shape) && shape[1] == s->code && s->code <= MAX_CODE &&
        shape[0] >= 1 && shape[0] <= MAX_NAMES && get_shape(w, "mask.region", 3, region)) {
        s->found = true;
        s->status = read_normal(s, w);
        if (!s->status)
            s->status = read_mask(s, w, 0, (size_t)shape[0], region);
        for (int i = 0; !s->status && i < a->cells * a->cells; i++)
            a->region[i] = 1;
    }
    zn_weights_close(&w);
    return s->found || s->status;
}

zn_status zn_attribute_find_mask(zn_attribute *attribute, const char *model, int code, zn_error *err)
{
    search s = { .to = attribute, .model = model, .code = code, .err = err };

    *attribute = (zn_attribute){ 0 };
    each_file(look_for_mask, &s);
    return s.status;
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
