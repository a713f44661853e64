/* SPDX-License-Identifier: MIT */
/* convert.c - weight files to one safetensors file: see zn_weights_convert. */
#include "convert.h"

#include "../core/savefile.h"
#include "../models/diffae/diffae.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENDING ".safetensors"
#define ATTRIBUTES ".attributes" ENDING

enum {
    MAX_FILES = 16,
    MAX_META = 256,
    MAX_NAMES = 65536,  /* bytes of all names of a classifier */
    MAX_PARTS = 100000, /* tensors of quantised matrices */
    FP8_SIDE = 16,      /* outputs and inputs, at least, of what becomes e4m3, */
    FP8_ROW = 32,       /* and elements of a row */
};

typedef struct plan { /* what will be written */
    zn_weights *set[MAX_FILES];
    zn_diffae_file holds[MAX_FILES];
    int n_sets;
    zn_save_tensor *list;
    size_t n, room;
    const char *meta[2 * MAX_META + 1];
    int n_meta;
    zn_type type;
    zn_wtype wtype; /* ZN_W_I8, ZN_W_I4: of matrices; else ZN_W_F32 */
    bool fp8;       /* matrices are e4m3 */
    char **names;   /* of parts */
    int n_names;
    int n_convs; /* of them, of convolutions */
} plan;

/* ---- lists ------------------------------------------------------------------------------------------------- */

static bool is_float(zn_type t)
{
    return t == ZN_F32 || t == ZN_F16 || t == ZN_BF16 || t == ZN_F64 || t == ZN_F8_E4M3 || t == ZN_F8_E5M2 ||
        !zn_dtype_size(t); /* quantised, in blocks */
}

/* Elements of a row: of an output. */
static int64_t row_of(const zn_entry *e)
{
    int64_t n = 1;

    for (int d = 1; d < e->n_dims; d++)
        n *= e->shape[d];
    return n;
}

static bool ends(const char *s, const char *tail)
{
    const size_t len = strlen(s), n = strlen(tail);

    return len > n && !strcmp(s + len - n, tail);
}

/* Whether it is quantised: the matrix of a linear layer, or a dense convolution, of whole groups, and not a short vector.  The
 * words of a convolution have its shape but for the inputs, of which whole words must be full. */
static bool is_matrix(const char *name, const zn_entry *e)
{
    const bool conv = e->n_dims == 4 || e->n_dims == 5;

    return is_float(e->dtype) && (e->n_dims == 2 || conv) && e->shape[0] >= (conv ? ZN_W_GROUP / 2 : ZN_W_GROUP) &&
        e->shape[1] > 0 && e->shape[1] % (conv ? 8 : ZN_W_GROUP) == 0 && row_of(e) > 0 && row_of(e) % ZN_W_GROUP == 0 &&
        ends(name, ".weight");
}

/* The same for e4m3, which has no groups: rows that are long beside their scale.  The first and last layers of picture networks are
 * none of these. */
static bool is_long(const char *name, const zn_entry *e)
{
    return is_float(e->dtype) && (e->n_dims == 2 || e->n_dims == 4 || e->n_dims == 5) && e->shape[0] >= FP8_SIDE &&
        e->shape[1] >= FP8_SIDE && row_of(e) >= FP8_ROW && ends(name, ".weight");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of the list so far, sorted; the caller frees them.  NULL: no memory. */
static const char **sorted_names(const plan *p)
{
    const char **names = malloc((p->n + 1) * sizeof *names);

    for (size_t i = 0; names && i < p->n; i++)
        names[i] = p->list[i].name;
    if (names)
        qsort(names, p->n, sizeof *names, by_name);
    return names;
}

static zn_status add(plan *p, const char *name, const zn_entry *e, zn_error *err)
{
    zn_save_tensor *t;

    if (p->n == p->room) {
        const size_t room = p->room ? 2 * p->room : 256;

        if (!(t = realloc(p->list, room * sizeof *t)))
            return zn_fail(err, ZN_E_MEMORY, "There is not enough memory for the list of tensors");
        p->list = t;
        p->room = room;
    }
    t = &p->list[p->n++];
    *t = (zn_save_tensor){ .name = name, .type = e->dtype, .n_dims = e->n_dims, .from = e };
    memcpy(t->shape, e->shape, sizeof t->shape);
    if (is_float(e->dtype) &&
        ((p->wtype == ZN_W_F32 && !p->fp8) || zn_dtype_size(e->dtype) != 2)) /* beside quantised ones, 16 bits stay */
        t->type = e->n_dims > 1 ? p->type : ZN_F32;
    return ZN_OK;
}

/* Adds a part of P.weight, called P followed by `end`; NULL: no memory. */
static zn_save_tensor *add_part(plan *p, const char *name, const zn_entry *e, const char *end, zn_save_role role,
                                zn_error *err)
{
    const int stem = (int)strlen(name) - 7;
    const size_t size = (size_t)stem + strlen(end) + 1;
    char *part = p->n_names < MAX_PARTS ? malloc(size) : NULL;

    if (!part) {
        zn_fail(err, ZN_E_MEMORY, "There is not enough memory for the list of tensors");
        return NULL;
    }
    p->names[p->n_names++] = part;
    snprintf(part, size, "%.*s%s", stem, name, end);
    if (add(p, part, e, err))
        return NULL;
    p->list[p->n - 1].part = role;
    return &p->list[p->n - 1];
}

/* The three tensors of a quantised matrix or convolution. */
static zn_status add_words(plan *p, const char *name, const zn_entry *e, zn_error *err)
{
    static const char *const parts[] = { ".weight", ".scales", ".biases" };
    const int words = p->wtype == ZN_W_I4 ? 8 : 4;

    for (int i = 0; i < 3; i++) {
        zn_save_tensor *t = add_part(p, name, e, parts[i], (zn_save_role)(ZN_SAVE_WORDS + i), err);

        if (!t)
            return ZN_E_MEMORY;
        t->wtype = p->wtype;
        t->type = i ? ZN_F16 : ZN_U32;
        t->n_dims = i ? 2 : e->n_dims;
        p->n_convs += e->n_dims > 2;
        t->shape[1] = i ? row_of(e) / ZN_W_GROUP : e->shape[1] / words;
    }
    return ZN_OK;
}

/* The two of e4m3. */
static zn_status add_e4m3(plan *p, const char *name, const zn_entry *e, zn_error *err)
{
    zn_save_tensor *t = add_part(p, name, e, ".weight", ZN_SAVE_E4M3, err);

    if (!t)
        return ZN_E_MEMORY;
    t->type = ZN_F8_E4M3;
    if (!(t = add_part(p, name, e, ".weight_scale", ZN_SAVE_ROW_SCALES, err)))
        return ZN_E_MEMORY;
    t->type = ZN_F32;
    t->n_dims = 1;
    return ZN_OK;
}

/* As it is stored: quantised, or as floats. */
static zn_status add_stored(plan *p, const char *name, const zn_entry *e, zn_error *err)
{
    if (p->fp8 && is_long(name, e))
        return add_e4m3(p, name, e, err);
    return p->wtype != ZN_W_F32 && is_matrix(name, e) ? add_words(p, name, e, err) : add(p, name, e, err);
}

/* Nothing that can be quantised: the file would be one of bf16. */
static zn_status check_quantised(const plan *p, zn_error *err)
{
    if ((p->wtype == ZN_W_F32 && !p->fp8) || p->n_names)
        return ZN_OK;
    if (p->fp8)
        return zn_fail(err, ZN_E_USAGE, "No layer of %s has %d outputs of %d weights, as fp8 needs: take fp16",
                       zn_weights_path(p->set[0]), FP8_SIDE, FP8_ROW);
    return zn_fail(
        err, ZN_E_USAGE,
        "No layer of %s is large enough for int8 or int4, which are stored in groups of %d weights: take fp16",
        zn_weights_path(p->set[0]), ZN_W_GROUP);
}

/* Whether the entry is the scales or offsets of another one: P.scales, P.biases or P.weight_scale of P.weight. */
static bool belongs(const zn_weights *w, const zn_entry *e)
{
    const char *dot = strrchr(e->name, '.');
    char name[2048]; /* longer ones have none (core/weights.c) */
    const zn_entry *of;

    if (!dot || dot - e->name >= (ptrdiff_t)sizeof name - 8)
        return false;
    snprintf(name, sizeof name, "%.*s.weight", (int)(dot - e->name), e->name);
    of = zn_weights_get(w, name);
    return of && (of->scales == e || of->offsets == e);
}

/* The first one of a key counts. */
static void add_meta(plan *p, const char *key, const char *value)
{
    for (int i = 0; i < p->n_meta; i++)
        if (!strcmp(p->meta[2 * i], key))
            return;
    if (p->n_meta == MAX_META)
        return;
    p->meta[2 * p->n_meta] = key;
    p->meta[2 * p->n_meta++ + 1] = value;
    p->meta[2 * p->n_meta] = NULL;
}

static void add_all_meta(plan *p, const zn_weights *w)
{
    const char *key, *value;

    for (int i = 0; zn_weights_meta_at(w, i, &key, &value); i++)
        if (strcmp(key, "fp8")) /* of its own tensors */
            add_meta(p, key, value);
}

/* ---- any model ------------------------------------------------------------------------------------------------ */

static zn_status plan_plain(plan *p, const char *const *files, int n_files, zn_error *err)
{
    zn_status s = zn_weights_open(&p->set[0], files, n_files, err);

    p->n_sets = !s;
    for (int i = 0; !s && i < zn_weights_count(p->set[0]); i++) {
        const zn_entry *e = zn_weights_at(p->set[0], i);

        if (belongs(p->set[0], e))
            continue;
        s = add_stored(p, e->name, e, err);
    }
    if (!s)
        add_all_meta(p, p->set[0]);
    return s ? s : check_quantised(p, err);
}

/* ---- the diffusion autoencoder --------------------------------------------------------------------------------- */

/* Opens all files one by one, for they share names.  *n: how many hold something of a diffusion autoencoder. */
static zn_status open_each(plan *p, const char *const *files, int n_files, int *n, zn_error *err)
{
    zn_status s = ZN_OK;

    *n = 0;
    if (n_files > MAX_FILES)
        return zn_fail(err, ZN_E_USAGE, "At most %d files are converted at once", MAX_FILES);
    for (int i = 0; i < n_files && !s; i++) {
        if (!(s = zn_weights_open(&p->set[i], &files[i], 1, err))) {
            p->n_sets++;
            *n += zn_diffae_look(&p->holds[i], p->set[i]);
        }
    }
    for (int i = 1; i < n_files && !s && *n; i++)
        if (p->holds[i].code != p->holds[0].code)
            s = p->holds[i].code && p->holds[0].code
                ? zn_fail(err, ZN_E_USAGE,
                          "The codes of %s have %d numbers, those of %s %d: they are of different models", files[i],
                          p->holds[i].code, files[0], p->holds[0].code)
                : zn_fail(err, ZN_E_USAGE, "%s is no file of a diffusion autoencoder, as %s is",
                          files[p->holds[i].code ? 0 : i], files[p->holds[i].code ? i : 0]);
    return s;
}

static int find(const plan *p, size_t offset)
{
    for (int i = 0; i < p->n_sets; i++)
        if (*(const int *)((const char *)&p->holds[i] + offset))
            return i;
    return -1;
}
#define FIND(p, what) find(p, offsetof(zn_diffae_file, what))

/* The networks of all files, each tensor from the first that has it, and the statistics. */
static zn_status plan_networks(plan *p, zn_error *err)
{
    static const char *const statistics[] = { "conds_mean", "conds_std" };
    const int with = FIND(p, statistics);
    zn_status s = ZN_OK;

    for (int i = 0; i < p->n_sets; i++) {
        const size_t before = p->n;
        const char **known = s ? NULL : sorted_names(p);

        if (!s && !known)
            s = zn_fail(err, ZN_E_MEMORY, "There is not enough memory for the list of tensors");
        for (int j = 0; !s && j < zn_weights_count(p->set[i]); j++) {
            const zn_entry *e = zn_weights_at(p->set[i], j);
            const char *name = zn_diffae_kept_name(&p->holds[i], e->name);

            if (name && !belongs(p->set[i], e) && !bsearch(&name, known, before, sizeof *known, by_name))
                s = add_stored(p, name, e, err);
        }
        free(known);
        add_all_meta(p, p->set[i]);
    }
    for (int i = 0; with >= 0 && i < 2 && !s; i++)
        if (!(s = add(p, statistics[i], zn_weights_get(p->set[with], statistics[i]), err))) {
            zn_save_tensor *t = &p->list[p->n - 1];

            t->type = ZN_F32;
            t->n_dims = 1;
            t->shape[0] = p->holds[with].statistics;
        }
    return s;
}

/* Rows of unit length; false: one has none. */
static bool normalise(float *rows, int n, int code)
{
    for (int i = 0; i < n; i++) {
        float *row = rows + (size_t)i * (size_t)code;
        double sum = 0;

        for (int j = 0; j < code; j++)
            sum += (double)row[j] * row[j];
        if (!isfinite(sum) || sum <= 0)
            return false;
        for (int j = 0; j < code; j++)
            row[j] = (float)(row[j] / sqrt(sum));
    }
    return true;
}

/* What the model of PATH/NAME.attributes.safetensors or PATH/NAME.safetensors is called: NAME. */
static void name_of(char *name, size_t size, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dot;

    snprintf(name, size, "%.*s", (int)size - 1, slash ? slash + 1 : path);
    if ((dot = strstr(name, ATTRIBUTES)) || (dot = strstr(name, ENDING)))
        *dot = 0;
}

/* The classifier of set i as an attribute file.  Amount 1 is the paper's edit, 0.3 sqrt(code) along the direction. */
static zn_status write_attributes(const plan *p, int i, int with, const char *path, zn_error *err)
{
    const int n = p->holds[i].classes, code = p->holds[i].classifier;
    const size_t len = (size_t)n * (size_t)code;
    float *rows = malloc((len + 2 * (size_t)code + 2 * (size_t)n) * sizeof *rows);
    float *mean = rows + len, *std = mean + code, *step = std + code, *guide = step + n;
    char *names = malloc(MAX_NAMES), model[256];
    const zn_save_tensor list[] = {
        { .name = "directions", .n_dims = 2, .shape = { n, code }, .data = rows },
        { .name = "mean", .n_dims = 1, .shape = { code }, .data = mean },
        { .name = "std", .n_dims = 1, .shape = { code }, .data = std },
        { .name = "step", .n_dims = 1, .shape = { n }, .data = step },
        { .name = "guide", .n_dims = 1, .shape = { n }, .data = guide },
    };
    const char *const meta[] = { "names", names, "model", model, NULL };
    zn_status s = rows && names ? ZN_OK : zn_fail(err, ZN_E_MEMORY, "There is not enough memory for %s", path);

    if (!s)
        s = zn_weights_read(rows, len, p->set[i], "classifier.weight", err);
    if (!s)
        s = zn_weights_read(mean, (size_t)code, p->set[with], "conds_mean", err);
    if (!s)
        s = zn_weights_read(std, (size_t)code, p->set[with], "conds_std", err);
    if (!s && !normalise(rows, n, code))
        s = zn_fail(err, ZN_E_FILE, "%s: the classifier has a row without a direction", zn_weights_path(p->set[i]));
    for (int j = 0; !s && j < n; j++) {
        step[j] = 0.3f * sqrtf((float)code);
        guide[j] = 1;
    }
    if (!s) {
        zn_diffae_class_names(names, MAX_NAMES, n);
        name_of(model, sizeof model, path);
        s = zn_save_tensors(path, list, sizeof list / sizeof *list, meta, err);
    }
    free(rows);
    free(names);
    return s;
}

/* ---- both --------------------------------------------------------------------------------------------------------- */

static void say(zn_error *what, const char *fmt, ...) ZN_PRINTF(2, 3);

static void say(zn_error *what, const char *fmt, ...)
{
    const size_t len = what ? strlen(what->text) : 0;
    va_list ap;

    va_start(ap, fmt);
    if (what)
        vsnprintf(what->text + len, sizeof what->text - len, fmt, ap);
    va_end(ap);
}

/* What 4 bits cost: docs/scripting.md */
static void tell_tensors(zn_error *what, const plan *p, const char *out)
{
    say(what, "%s: %zu tensors", out, p->n);
    if (p->wtype == ZN_W_I4 && p->n_convs)
        say(what, "; 4 bits cost networks of convolutions 1 dB or more, 8 bits 0.04 dB");
}

static zn_status write_diffae(plan *p, const char *out, zn_error *what, zn_error *err)
{
    const int classifier = FIND(p, classifier), with = FIND(p, statistics), latent = FIND(p, latent);
    const bool networks = FIND(p, unet) >= 0 || FIND(p, encoder) >= 0 || latent >= 0;
    char beside[4096];
    zn_status s = ZN_OK;

    if (classifier >= 0 && with < 0)
        return zn_fail(err, ZN_E_FILE,
                       "The classifier comes without conds_mean and conds_std: add the file that has them, latent.pkl");
    if (!networks && classifier < 0)
        return zn_fail(err, ZN_E_USAGE, "%s holds neither a network nor a classifier: add the file that does",
                       zn_weights_path(p->set[0]));
    if (!networks && !ends(out, ATTRIBUTES))
        return zn_fail(
            err, ZN_E_USAGE,
            "A classifier becomes an attribute file: call it NAME%s, NAME being the weight file that it is for",
            ATTRIBUTES);
    if (networks) {
        if ((s = plan_networks(p, err)) || (s = check_quantised(p, err)) ||
            (s = zn_save_tensors(out, p->list, p->n, p->meta, err)))
            return s;
        tell_tensors(what, p, out);
        if (latent >= 0 && with < 0)
            say(what, "; without the statistics of codes no faces can be drawn from noise: add latent.pkl");
    }
    if (classifier >= 0) {
        snprintf(beside, sizeof beside, "%.*s%s", networks ? (int)(strlen(out) - strlen(ENDING)) : (int)strlen(out),
                 out, networks ? ATTRIBUTES : "");
        if ((s = write_attributes(p, classifier, with, beside, err)))
            return s;
        say(what, "%s%s: %d attributes", networks ? "; " : "", beside, p->holds[classifier].classes);
    }
    return s;
}

zn_status zn_convert(const char *out, const char *const *files, int n_files, const char *type, zn_error *what,
                     zn_error *err)
{
    static const struct {
        const char *name;
        zn_type type;
        zn_wtype wtype;
        bool fp8;
    } types[] = { { "fp16", ZN_F16, ZN_W_F32, false }, { "bf16", ZN_BF16, ZN_W_F32, false },
                  { "fp32", ZN_F32, ZN_W_F32, false }, { "fp8", ZN_BF16, ZN_W_F32, true },
                  { "int8", ZN_BF16, ZN_W_I8, false }, { "int4", ZN_BF16, ZN_W_I4, false } };
    const size_t n_types = sizeof types / sizeof *types;
    plan p = { .names = calloc(MAX_PARTS, sizeof *p.names) };
    size_t t = 0;
    int n_diffae = 0;
    zn_status s;

    if (what)
        what->text[0] = 0;
    while (type && t < n_types && strcmp(type, types[t].name))
        t++;
    if (!p.names)
        s = zn_fail(err, ZN_E_MEMORY, "There is not enough memory for the list of tensors");
    else if (t == n_types)
        s = zn_fail(err, ZN_E_USAGE, "weight files hold fp32, fp16, bf16, fp8, int8 or int4, not '%s'", type);
    else if (!ends(out, ENDING))
        s = zn_fail(err, ZN_E_USAGE, "The new file must end in %s, which %s does not", ENDING, out);
    else if (strlen(out) > 4000)
        s = zn_fail(err, ZN_E_USAGE, "The name of the new file is too long");
    else
        s = ZN_OK;
    if (!s) {
        p.type = types[t].type;
        p.wtype = types[t].wtype;
        p.fp8 = types[t].fp8;
        if (p.fp8)
            add_meta(&p, "fp8", ZN_FP8_ROWS);
        s = open_each(&p, files, n_files, &n_diffae, err);
    }
    if (!s && n_diffae && FIND(&p, attributes) < 0) {
        s = write_diffae(&p, out, what, err);
    } else if (!s) {
        for (int i = 0; i < p.n_sets; i++)
            zn_weights_close(&p.set[i]);
        p.n_sets = 0;
        s = plan_plain(&p, files, n_files, err);
        if (!s)
            s = zn_save_tensors(out, p.list, p.n, p.meta, err);
        if (!s)
            tell_tensors(what, &p, out);
    }
    for (int i = 0; i < p.n_sets; i++)
        zn_weights_close(&p.set[i]);
    for (int i = 0; i < p.n_names; i++)
        free(p.names[i]);
    free(p.names);
    free(p.list);
    return s;
}
