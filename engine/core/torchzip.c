/* SPDX-License-Identifier: MIT */
/* torchzip.c - reads one file written by torch.save (PyTorch 1.6 and later).
 *
 *     ZIP archive, nothing compressed
 *       <root>/data.pkl     a pickle: dictionaries, and tensors as (storage key, offset, shape, strides)
 *       <root>/data/<key>   the bytes of one storage; several tensors may share it
 *       <root>/byteorder    "little" or "big"; absent in older files
 *
 * Sizes and places come from the central directory; local headers only say where the data starts.
 * What holds after a successful read: every element that a tensor's shape, strides and offset can
 * reach is inside its storage, and its storage inside its member of the archive. */
#include "json.h"
#include "pickle.h"
#include "weightfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    REPEATED = 32,
    MAX_DEPTH = 8,           /* dictionaries in dictionaries; deeper ones hold settings, not weights */
    MAX_DIRECTORY = 1 << 28, /* bytes of the archive's directory, and of the pickle */
};

/* ---- the archive ------------------------------------------------------------------------------ */

typedef struct {
    zn_text name;
    uint64_t local, size; /* where its local header is; bytes stored */
    uint16_t flags, method;
} member;

typedef struct {
    const zn_file *f;
    unsigned char *directory; /* names point into it */
    member *members;          /* sorted by name */
    size_t n;
} archive;

typedef struct { /* bytes of the file */
    uint64_t at, size;
} extent;

static int compare_text(zn_text a, zn_text b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int c = len ? memcmp(a.s, b.s, len) : 0;

    return c ? c : (a.len > b.len) - (a.len < b.len);
}

static int by_name(const void *a, const void *b)
{
    return compare_text(((const member *)a)->name, ((const member *)b)->name);
}

static zn_status damaged(const zn_file *f, const char *what, zn_error *err)
{
    return zn_fail(err, ZN_E_FILE, "%s is damaged or cut short: %s; download it again", f->label, zn_tr(what));
}

/* Is [at, at + size) inside the file? */
static bool inside(const zn_file *f, uint64_t at, uint64_t size)
{
    return at <= f->size && size <= f->size - at;
}

enum { END = 22, LOCATOR = 20, END64 = 56, COMMENT = 65535 };

/* Finds the end-of-central-directory record in the last `len` bytes of the file, or the ZIP64 one, and from it the
 * directory. */
static zn_status search_tail(extent *dir, uint64_t *n, const zn_file *f, const unsigned char *tail, size_t len,
                             zn_error *err)
{
    static const char missing[] = ZN_TR("the directory at its end is missing");
    const unsigned char *record = NULL;
    unsigned char big[END64];
    zn_status s;

    for (size_t back = END; back <= len && back <= END + COMMENT && !record; back++) {
        const unsigned char *p = tail + len - back;

        if (*p == 'P' && !memcmp(p, "PK\5\6", 4) && zn_le16(p + 20) == back - END)
            record = p;
    }
    if (!record)
        return damaged(f, missing, err);
    *n = zn_le16(record + 10);
    *dir = (extent){ zn_le32(record + 16), zn_le32(record + 12) };
    if (record - tail >= LOCATOR && !memcmp(record - LOCATOR, "PK\6\7", 4)) {
        uint64_t where = zn_le64(record - LOCATOR + 8);

        if (!inside(f, where, END64))
            return damaged(f, missing, err);
        if ((s = zn_file_read(f, where, big, END64, err)))
            return s;
        if (memcmp(big, "PK\6\6", 4))
            return damaged(f, missing, err);
        *n = zn_le64(big + 32);
        *dir = (extent){ zn_le64(big + 48), zn_le64(big + 40) };
    }
    return inside(f, dir->at, dir->size) ? ZN_OK : damaged(f, missing, err);
}

static zn_status find_directory(extent *dir, uint64_t *n, const zn_file *f, zn_error *err)
{
    const uint64_t most = LOCATOR + END + COMMENT, len = f->size < most ? f->size : most;
    unsigned char *tail;
    zn_status s = zn_file_copy(&tail, f, f->size - len, len, err);

    if (s)
        return s;
    s = search_tail(dir, n, f, tail, (size_t)len, err);
    free(tail);
    return s;
}

/* Fields that do not fit in 32 bits are all ones; their values follow in extra field 1, in order. */
static bool read_extra64(const unsigned char *p, size_t len, uint64_t *const field[3])
{
    const unsigned char *end = p + len;
    bool need = false;

    for (int i = 0; i < 3; i++)
        need |= *field[i] == UINT32_MAX;
    while (need && end - p >= 4) {
        size_t size = zn_le16(p + 2);

        if (size > (size_t)(end - p - 4))
            return false;
        if (zn_le16(p) == 1) {
            p += 4;
            for (int i = 0; i < 3; i++) {
                if (*field[i] != UINT32_MAX)
                    continue;
                if (size < 8)
                    return false;
                *field[i] = zn_le64(p);
                p += 8, size -= 8;
            }
            return true;
        }
        p += 4 + size;
    }
    return !need;
}

/* Reads one record of the directory; NULL if it is damaged, or else what follows it. */
static const unsigned char *read_member(member *m, const unsigned char *p, const unsigned char *end)
{
    enum { RECORD = 46 };

    if (end - p < RECORD || memcmp(p, "PK\1\2", 4))
        return NULL;
    size_t name = zn_le16(p + 28), extra = zn_le16(p + 30), comment = zn_le16(p + 32);
    uint64_t stored = zn_le32(p + 20), whole = zn_le32(p + 24), local = zn_le32(p + 42);

    if ((size_t)(end - p - RECORD) < name + extra + comment ||
        !read_extra64(p + RECORD + name, extra, (uint64_t *const[3]){ &whole, &stored, &local }))
        return NULL;
    m->name = (zn_text){ (const char *)p + RECORD, name };
    m->flags = zn_le16(p + 8);
    m->method = zn_le16(p + 10);
    m->size = stored;
    m->local = local;
    return p + RECORD + name + extra + comment;
}

static zn_status read_directory(archive *zip, zn_error *err)
{
    extent dir = { 0 };
    uint64_t n = 0;
    zn_status s = find_directory(&dir, &n, zip->f, err);

    if (s)
        return s;
    if (n > dir.size / 46 || dir.size > MAX_DIRECTORY)
        return damaged(zip->f, "its directory is too short", err);
    if ((s = zn_file_copy(&zip->directory, zip->f, dir.at, dir.size, err)))
        return s;
    const unsigned char *p = zip->directory, *end = p + dir.size;

    zip->members = malloc(((size_t)n + 1) * sizeof *zip->members);
    if (!zip->members)
        return zn_fail(err, ZN_E_MEMORY, "There is not enough memory to read %s", zip->f->label);
    for (; zip->n < n; zip->n++) {
        p = read_member(&zip->members[zip->n], p, end);
        if (!p)
            return damaged(zip->f, "its directory cannot be read", err);
    }
    qsort(zip->members, zip->n, sizeof *zip->members, by_name);
    for (size_t i = 1; i < zip->n; i++)
        if (!by_name(&zip->members[i - 1], &zip->members[i]))
            return damaged(zip->f, "its directory names a member twice", err);
    return ZN_OK;
}

static const member *find_member(const archive *zip, zn_text name)
{
    member key = { .name = name };

    return zip->n ? bsearch(&key, zip->members, zip->n, sizeof key, by_name) : NULL;
}

/* Where the bytes of a member are. */
static zn_status locate(extent *out, const archive *zip, const member *m, zn_error *err)
{
    enum { LOCAL = 30 };
    unsigned char p[LOCAL];
    zn_status s;
    int len = m->name.len < 60 ? (int)m->name.len : 60;

    if (m->method || m->flags & 1)
        return zn_fail(err, ZN_E_FILE,
                       "%s is a compressed or encrypted ZIP archive ('%.*s' is); PyTorch writes them "
                       "uncompressed, and Zenith reads only that",
                       zip->f->label, len, m->name.s);
    if (!inside(zip->f, m->local, LOCAL))
        return damaged(zip->f, "a member is not where its directory says", err);
    if ((s = zn_file_read(zip->f, m->local, p, LOCAL, err)))
        return s;
    if (memcmp(p, "PK\3\4", 4))
        return damaged(zip->f, "a member is not where its directory says", err);
    uint64_t begin = m->local + LOCAL + zn_le16(p + 26) + zn_le16(p + 28);

    if (!inside(zip->f, begin, m->size))
        return damaged(zip->f, "a member goes past its end", err);
    *out = (extent){ begin, m->size };
    return ZN_OK;
}

/* ---- tensors ---------------------------------------------------------------------------------- */

typedef struct {
    zn_weights *w;
    archive zip;
    zn_text root;               /* with its slash */
    uint64_t elements;          /* of all tensors so far */
    size_t work, max_work;      /* members looked at and bytes of names: dictionaries may be shared */
    char name[ZN_MAX_NAME + 1]; /* of the tensor or the dictionary being read */
} reader;

static zn_status find_storage(extent *out, const reader *r, zn_text key, zn_error *err)
{
    char name[512];
    int len = key.len > 200 || r->root.len > 200
        ? 0
        : snprintf(name, sizeof name, "%.*sdata/%.*s", (int)r->root.len, r->root.s, (int)key.len, key.s);
    const member *m = find_member(&r->zip, (zn_text){ name, (size_t)len });

    if (!m)
        return zn_fail(err, ZN_E_FILE, "%s is damaged: the data of the tensor '%s' is missing", r->zip.f->label,
                       r->name);
    return locate(out, &r->zip, m, err);
}

/* Sets *last to offset + sum of (size - 1) * stride, the furthest element of a tensor that has any;
 * false if something is negative or does not fit. */
static bool furthest(int64_t *last, const zn_ptensor *t)
{
    int64_t at = t->offset;

    for (int i = 0; i < t->n_dims; i++) {
        int64_t way;

        if (t->stride[i] < 0 || __builtin_mul_overflow(t->shape[i] - 1, t->stride[i], &way) ||
            __builtin_add_overflow(at, way, &at))
            return false;
    }
    *last = at;
    return t->offset >= 0;
}

static zn_status add_tensor(reader *r, const zn_ptensor *t, zn_error *err)
{
    const zn_pvalue *storage = t->storage;
    const char *label = r->zip.f->label;
    size_t len = strlen(r->name);
    int64_t bytes, last = 0;
    extent data;

    if (t->dtype < 0)
        return zn_fail(err, ZN_E_FILE,
                       "%s holds the tensor '%s' of type %.*s, which Zenith does not read; convert it "
                       "to float first",
                       label, r->name, t->dtype_name.len < 40 ? (int)t->dtype_name.len : 40, t->dtype_name.s);
    zn_entry e = { .dtype = (zn_type)t->dtype, .n_dims = t->n_dims };
    int64_t size = (int64_t)zn_dtype_size(e.dtype);
    int64_t unit = storage->storage.dtype < 0 ? 1 : (int64_t)zn_dtype_size((zn_type)storage->storage.dtype);

    memcpy(e.shape, t->shape, sizeof e.shape);
    memcpy(e.stride, t->stride, sizeof e.stride);
    if (!zn_shape_ok(e.shape, e.n_dims, e.dtype))
        return zn_fail(err, ZN_E_FILE, "%s is damaged: the shape of the tensor '%s' is impossible", label, r->name);
    zn_status s = find_storage(&data, r, storage->storage.key, err);

    if (s)
        return s;
    if (storage->storage.len < 0 || __builtin_mul_overflow(storage->storage.len, unit, &bytes) ||
        (uint64_t)bytes > data.size)
        return zn_fail(err, ZN_E_FILE, "%s is damaged: the data of the tensor '%s' is too short", label, r->name);
    e.file = r->zip.f;
    e.at = data.at;
    if (zn_entry_len(&e)) {
        if (!furthest(&last, t) || last >= bytes / size)
            return zn_fail(err, ZN_E_FILE, "%s is damaged: the tensor '%s' lies outside its data", label, r->name);
        /* Elements that are stored once and read many times, by a stride of 0 or by tensors that share a storage, cost
         * nothing in the file: all tensors together may have REPEATED elements for each byte of the file. */
        r->elements += zn_entry_len(&e) < REPEATED * r->zip.f->size ? zn_entry_len(&e) : REPEATED * r->zip.f->size + 1;
        if (r->elements > REPEATED * r->zip.f->size)
            return zn_fail(err, ZN_E_FILE, "%s holds the tensor '%s', which repeats its data too many times", label,
                           r->name);
        e.at += (uint64_t)(t->offset * size);
    } else {
        memset(e.stride, 0, sizeof e.stride); /* nothing is at any index */
    }
    char *name = zn_weights_alloc(r->w, len + 1);

    if (!name)
        return zn_fail(err, ZN_E_MEMORY, "There is not enough memory to read %s", label);
    e.name = memcpy(name, r->name, len + 1);
    return zn_weights_add(r->w, &e, err);
}

/* ---- dictionaries ----------------------------------------------------------------------------- */

typedef struct {
    zn_text key;
    size_t place; /* in the dictionary */
    const zn_pvalue *value;
} pair;

static int by_key(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    int c = compare_text(x->key, y->key);

    return c ? c : (x->place > y->place) - (x->place < y->place);
}

static int by_pair_place(const void *a, const void *b)
{
    const pair *x = a, *y = b;

    return (x->place > y->place) - (x->place < y->place);
}

static bool may_name(const zn_pvalue *v)
{
    return v->kind == ZN_P_TENSOR || v->kind == ZN_P_DICT;
}

/* The members under strings, in order, each key once with its last value; NULL: no memory.  Keys that are too long for a
 * name are left out (one string may be the key of any number of members, and comparing them takes its length each time);
 * *too_long: one of them would be part of a tensor's name. */
static pair *list_pairs(const zn_pvalue *dict, size_t *n, bool *too_long)
{
    pair *list = malloc((dict->list.n / 2 + 1) * sizeof *list);
    size_t all = 0;

    *n = 0;
    *too_long = false;
    if (!list)
        return NULL;
    for (size_t i = 0; i + 1 < dict->list.n; i += 2) {
        const zn_pvalue *key = dict->list.item[i], *v = dict->list.item[i + 1];

        if (key->kind == ZN_P_STR && key->text.len < ZN_MAX_NAME)
            list[all++] = (pair){ key->text, i, v };
        else if (key->kind == ZN_P_STR && may_name(v))
            *too_long = true;
    }
    qsort(list, all, sizeof *list, by_key);
    for (size_t i = 0; i < all; i++)
        if (i + 1 == all || compare_text(list[i].key, list[i + 1].key))
            list[(*n)++] = list[i];
    qsort(list, *n, sizeof *list, by_pair_place);
    return list;
}

static zn_status bad_name(const reader *r, zn_error *err)
{
    return zn_fail(err, ZN_E_FILE, "%s is damaged: the name of a tensor is too long or not text", r->zip.f->label);
}

/* Adds the tensors of a dictionary and of those inside it, names joined with dots, under the first
 * prefix_len bytes of r->name.  Anything else in it does not matter.  Recurses MAX_DEPTH deep. */
static zn_status add_dict(reader *r, const zn_pvalue *dict, size_t prefix_len, int depth, zn_error *err)
{
    const char *label = r->zip.f->label;
    zn_status s = ZN_OK;
    bool too_long;
    size_t n;

    r->work += dict->list.n / 2;
    pair *list = list_pairs(dict, &n, &too_long);

    if (!list)
        return zn_fail(err, ZN_E_MEMORY, "There is not enough memory to read %s", label);
    if (too_long)
        s = bad_name(r, err);
    for (size_t i = 0; i < n && !s; i++) {
        zn_text key = list[i].key;
        const zn_pvalue *v = list[i].value;

        if (!may_name(v) || (v->kind == ZN_P_DICT && depth == MAX_DEPTH))
            continue;
        if (key.len + 1 > ZN_MAX_NAME - prefix_len || !zn_utf8_ok(key.s, key.len)) {
            s = bad_name(r, err);
            break;
        }
        r->work += prefix_len + key.len + 1;
        if (r->work > r->max_work) {
            s = zn_fail(err, ZN_E_FILE, "%s cannot be read: its dictionaries hold each other", label);
            break;
        }
        if (key.len)
            memcpy(r->name + prefix_len, key.s, key.len);
        r->name[prefix_len + key.len] = 0;
        if (v->kind == ZN_P_TENSOR) {
            s = add_tensor(r, v->tensor, err);
        } else {
            r->name[prefix_len + key.len] = '.';
            s = add_dict(r, v, prefix_len + key.len + 1, depth + 1, err);
        }
    }
    free(list);
    return s;
}

/* The last dictionary under that key, or NULL. */
static const zn_pvalue *find_dict(const zn_pvalue *dict, const char *key)
{
    for (size_t i = dict->list.n; i >= 2; i -= 2) {
        const zn_pvalue *k = dict->list.item[i - 2], *v = dict->list.item[i - 1];

        if (k->kind == ZN_P_STR && zn_text_is(k->text, key))
            return v->kind == ZN_P_DICT && v->list.n ? v : NULL;
    }
    return NULL;
}

/* Training frameworks put the dictionary of tensors inside another one, next to their own state. */
static const zn_pvalue *state_dict(const zn_pvalue *root)
{
    static const char *const keys[] = { "state_dict", "model_state_dict", "params_ema", "params" };

    for (size_t i = 1; i < root->list.n; i += 2)
        if (root->list.item[i]->kind == ZN_P_TENSOR)
            return root; /* it is one itself */
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const zn_pvalue *d = find_dict(root, keys[i]);

        if (d)
            return d;
    }
    return root;
}

static zn_status add_root(reader *r, const zn_pvalue *root, zn_error *err)
{
    if (root->kind == ZN_P_TENSOR) {
        strcpy(r->name, "tensor");
        return add_tensor(r, root->tensor, err);
    }
    if (root->kind != ZN_P_DICT)
        return zn_fail(err, ZN_E_FILE,
                       "%s holds a Python object, not a dictionary of tensors; in PyTorch, save "
                       "model.state_dict() instead of the model",
                       r->zip.f->label);
    return add_dict(r, state_dict(root), 0, 0, err);
}

/* ---- the file --------------------------------------------------------------------------------- */

/* The root folder is whatever holds data.pkl; it has no slash of its own. */
static const member *find_pickle(const archive *zip, zn_text *root)
{
    static const char tail[] = "/data.pkl";
    const size_t len = sizeof tail - 1;

    for (size_t i = 0; i < zip->n; i++) {
        zn_text name = zip->members[i].name;

        if (name.len > len && !memcmp(name.s + name.len - len, tail, len) && !memchr(name.s, '/', name.len - len)) {
            *root = (zn_text){ name.s, name.len - len + 1 };
            return &zip->members[i];
        }
    }
    return NULL;
}

static zn_status check_order(const reader *r, zn_error *err)
{
    char name[256];
    int len = r->root.len > 200 ? 0 : snprintf(name, sizeof name, "%.*sbyteorder", (int)r->root.len, r->root.s);
    const member *m = find_member(&r->zip, (zn_text){ name, (size_t)len });
    char order[6] = "";
    extent data = { 0 };
    zn_status s = m ? locate(&data, &r->zip, m, err) : ZN_OK;

    if (m && !s && data.size == sizeof order)
        s = zn_file_read(r->zip.f, data.at, order, sizeof order, err);
    if (m && !s && memcmp(order, "little", sizeof order))
        return zn_fail(err, ZN_E_FILE,
                       "%s was written by a big-endian machine, which Zenith does not read; save it "
                       "again on a common computer",
                       r->zip.f->label);
    return s;
}

static zn_status read_pickle(reader *r, const member *m, zn_error *err)
{
    zn_pickle *pickle = NULL;
    unsigned char *bytes;
    extent data;
    zn_status s = locate(&data, &r->zip, m, err);

    if (s)
        return s;
    if (data.size > MAX_DIRECTORY)
        return damaged(r->zip.f, "its list of tensors is too long", err);
    if ((s = zn_file_copy(&bytes, r->zip.f, data.at, data.size, err)))
        return s;
    s = zn_pickle_open(&pickle, bytes, (size_t)data.size, r->zip.f->label, err);
    r->max_work = 4 * (size_t)data.size + 100; /* without sharing it is less than the bytes of the pickle */
    if (!s)
        s = add_root(r, zn_pickle_root(pickle), err);
    zn_pickle_close(&pickle);
    free(bytes);
    return s;
}

static zn_status read_archive(reader *r, zn_error *err)
{
    zn_status s = read_directory(&r->zip, err);
    const member *m = s ? NULL : find_pickle(&r->zip, &r->root);

    if (s)
        return s;
    if (!m)
        return zn_fail(err, ZN_E_FILE, "%s is a ZIP archive, but not one written by PyTorch", r->zip.f->label);
    s = check_order(r, err);
    return s ? s : read_pickle(r, m, err);
}

zn_status zn_torchzip_read(zn_weights *w, const zn_file *f, zn_error *err)
{
    reader r = { .w = w, .zip.f = f };
    zn_status s = read_archive(&r, err);

    free(r.zip.members);
    free(r.zip.directory);
    return s;
}
