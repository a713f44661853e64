/* SPDX-License-Identifier: MIT */
/* safetensors.c - reads one .safetensors file.
 *
 *     ┌──────────────┬──────────────────────────────────────┬───────────────────────────┐
 *     │ u64: n       │ n bytes of JSON, padded with spaces   │ tensors, back to back     │
 *     └──────────────┴──────────────────────────────────────┴───────────────────────────┘
 *     {"__metadata__": {"k": "v"}, "name": {"dtype": "F32", "shape": [2, 3],
 *                                           "data_offsets": [0, 24]}, ...}
 *
 * What holds after a successful read:
 *  1. each tensor's bytes are inside the file, as many as its shape and type say;
 *  2. the tensors cover the data area, in some order, without overlaps and without holes. */
#include "json.h"
#include "weightfile.h"

#include <stdlib.h>
#include <string.h>

static const size_t max_header = 100000000;

typedef struct {
    uint64_t begin, end;
    const char *name;
} span;

typedef struct { /* the part of the file behind the header */
    const zn_file *file;
    uint64_t at, size;
} area;

static bool find_dtype(zn_type *t, const char *name)
{
    for (int i = 0; i < ZN_N_TYPES; i++)
        if (!strcmp(name, zn_dtype_name((zn_type)i))) {
            *t = (zn_type)i;
            return true;
        }
    return false;
}

static void read_shape(zn_json *j, zn_entry *e)
{
    zn_json_enter(j, '[');
    for (size_t n = 0; zn_json_more(j, ']', n); n++) {
        int64_t size = zn_json_int(j);

        if (n == ZN_MAX_DIMS) {
            zn_json_fail(j, "a tensor has more than 8 dimensions");
            return;
        }
        e->shape[n] = size;
        e->n_dims = (int)n + 1;
    }
}

static void read_offsets(zn_json *j, int64_t range[2])
{
    size_t n = 0;

    zn_json_enter(j, '[');
    for (; zn_json_more(j, ']', n); n++) {
        int64_t offset = zn_json_int(j);

        if (n < 2)
            range[n] = offset;
    }
    if (n != 2)
        zn_json_fail(j, "data_offsets are not two numbers");
}

/* The value of one tensor's key.  Later versions may add members: unknown ones are passed over. */
static void read_members(zn_json *j, zn_entry *e, int64_t range[2], const char **dtype)
{
    bool shape = false, offsets = false;

    *dtype = NULL;
    zn_json_enter(j, '{');
    for (size_t n = 0; zn_json_more(j, '}', n); n++) {
        const char *key = zn_json_key(j);
        bool again = false;

        if (!strcmp(key, "dtype")) {
            again = *dtype;
            *dtype = zn_json_string(j);
        } else if (!strcmp(key, "shape")) {
            again = shape;
            shape = true;
            read_shape(j, e);
        } else if (!strcmp(key, "data_offsets")) {
            again = offsets;
            offsets = true;
            read_offsets(j, range);
        } else {
            zn_json_skip(j);
        }
        if (again)
            zn_json_fail(j, "a member of a tensor is given twice");
    }
    if (!*dtype || !shape || !offsets)
        zn_json_fail(j, "a tensor lacks its dtype, shape or data_offsets");
}

static zn_status add_tensor(zn_weights *w, area data, zn_entry *e, const int64_t range[2], const char *dtype,
                            zn_error *err)
{
    if (!find_dtype(&e->dtype, dtype))
        return zn_fail(err, ZN_E_FILE,
                       "%s holds the tensor '%s' of type %.40s, which Zenith does not read; convert "
                       "it to F32, F16 or BF16",
                       data.file->label, e->name, dtype);
    if (!zn_shape_ok(e->shape, e->n_dims, e->dtype))
        return zn_fail(err, ZN_E_FILE, "%s is damaged: the shape of the tensor '%s' is impossible", data.file->label,
                       e->name);
    if (range[0] < 0 || range[1] < range[0] || (uint64_t)range[1] > data.size)
        return zn_fail(err, ZN_E_FILE,
                       "%s is damaged or cut short: the tensor '%s' lies outside the file; download "
                       "it again",
                       data.file->label, e->name);
    if ((uint64_t)(range[1] - range[0]) != zn_entry_len(e) * zn_dtype_size(e->dtype))
        return zn_fail(err, ZN_E_FILE,
                       "%s is damaged: the tensor '%s' does not have the number of bytes that its shape needs",
                       data.file->label, e->name);
    int64_t stride = 1;

    for (int i = e->n_dims - 1; i >= 0; i--) {
        e->stride[i] = stride;
        stride *= e->shape[i] ? e->shape[i] : 1;
    }
    e->file = data.file;
    e->at = data.at + (uint64_t)range[0];
    return zn_weights_add(w, e, err);
}

static zn_status read_meta(zn_weights *w, zn_json *j, zn_error *err)
{
    zn_json_enter(j, '{');
    for (size_t n = 0; zn_json_more(j, '}', n); n++) {
        const char *key = zn_json_key(j), *value = zn_json_string(j);
        zn_status s = j->wrong ? ZN_OK : zn_weights_add_meta(w, key, value, err);

        if (s)
            return s;
    }
    return ZN_OK;
}

static int by_place(const void *a, const void *b)
{
    const span *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end); /* empty tensors come before what they touch */
}

/* Invariant 2, for the tensors from the first-th on. */
static zn_status check_cover(const zn_weights *w, area data, int first, zn_error *err)
{
    size_t n = (size_t)(zn_weights_count(w) - first);
    span *s = malloc((n + 1) * sizeof *s);
    uint64_t at = data.at;
    const char *why = NULL, *name = "";

    if (!s)
        return zn_fail(err, ZN_E_MEMORY, "There is not enough memory to read %s", data.file->label);
    for (size_t i = 0; i < n; i++) {
        const zn_entry *e = zn_weights_at(w, first + (int)i);

        s[i] = (span){ e->at, e->at + zn_entry_len(e) * zn_dtype_size(e->dtype), e->name };
    }
    qsort(s, n, sizeof *s, by_place);
    for (size_t i = 0; i < n && !why; i++) {
        name = s[i].name;
        if (s[i].begin != at)
            why = s[i].begin < at ? zn_tr("overlaps another") : zn_tr("follows a hole");
        at = s[i].end;
    }
    free(s);
    if (why)
        return zn_fail(err, ZN_E_FILE, "%s is damaged: the tensor '%s' %s", data.file->label, name, why);
    if (at != data.at + data.size)
        return zn_fail(err, ZN_E_FILE, "%s is damaged: %llu bytes after the last tensor belong to none",
                       data.file->label, (unsigned long long)(data.at + data.size - at));
    return ZN_OK;
}

/* The header's n bytes of JSON. */
static zn_status read_header(zn_weights *w, const unsigned char *text, size_t n, area data, zn_error *err)
{
    char *pool = zn_weights_alloc(w, n);
    int first = zn_weights_count(w);
    bool meta = false;

    if (!pool)
        return zn_fail(err, ZN_E_MEMORY, "There is not enough memory to read %s", data.file->label);
    zn_json j = zn_json_begin(text, n, pool);

    zn_json_enter(&j, '{');
    for (size_t i = 0; zn_json_more(&j, '}', i); i++) {
        zn_entry e = { .name = zn_json_key(&j) };
        const char *dtype;
        int64_t range[2] = { 0, 0 };
        zn_status s = ZN_OK;

        if (strcmp(e.name, "__metadata__")) {
            read_members(&j, &e, range, &dtype);
            s = j.wrong ? ZN_OK : add_tensor(w, data, &e, range, dtype, err);
        } else {
            if (meta)
                zn_json_fail(&j, "__metadata__ is given twice");
            meta = true;
            s = read_meta(w, &j, err);
        }
        if (s)
            return s;
    }
    if (!zn_json_end(&j))
        return zn_fail(err, ZN_E_FILE, "%s is damaged: %s, at byte %zu of its header", data.file->label, zn_tr(j.wrong),
                       zn_json_at(&j));
    return check_cover(w, data, first, err);
}

zn_status zn_safetensors_read(zn_weights *w, const zn_file *f, zn_error *err)
{
    const uint64_t n = f->size >= 8 ? zn_le64(f->first) : UINT64_MAX;
    unsigned char *text;
    zn_status s;

    if (n > max_header || n > f->size - 8)
        return zn_fail(err, ZN_E_FILE, "%s is damaged or cut short: its header does not fit; download it again",
                       f->label);
    if ((s = zn_file_copy(&text, f, 8, n, err)))
        return s;
    s = read_header(w, text, (size_t)n, (area){ f, 8 + n, f->size - 8 - n }, err);
    free(text);
    return s;
}
