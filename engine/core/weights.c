/* SPDX-License-Identifier: MIT */
/* weights.c - opens weight files and keeps their contents as one set; see weights.h.
 *
 *     path ──┬── folder ──┬── *.safetensors.index.json ──> its shards
 *            │            └── *.safetensors, sorted
 *            └── file ── open ── first bytes ──┬── safetensors, GGUF, PyTorch zip: read
 *                                             ├── index: its shards, from the same folder
 *                                             └── anything else: an error message that says what it is */
#define _POSIX_C_SOURCE 200809L

#include "input.h"
#include "json.h"
#include "weightfile.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_FILES = 10000,
    MAX_INDEX = 100000000, /* bytes */
    MAX_LABEL = 160,       /* longer paths lose their beginning in messages */
    MAX_QUANTISED_DIMS = 5,
};

typedef struct {
    zn_entry entry;
    size_t file; /* which one it came from */
} record;

typedef struct {
    const char *key, *value;
} pair;

typedef struct block { /* memory that lives as long as the set */
    struct block *next;
    _Alignas(16) unsigned char data[];
} block;

struct zn_weights {
    record *records;        /* in the order of the files */
    const record **by_name; /* sorted; set once all files are read */
    zn_file **files;
    pair *meta, *promised; /* promised: tensor and file, as an index says */
    size_t n_records, n_files, n_meta, n_promised;
    size_t cap_records, cap_files, cap_meta, cap_promised;
    block *blocks;
};

/* ---- the set ---------------------------------------------------------------------------------- */

static zn_status no_memory(zn_error *err)
{
    return zn_fail(err, ZN_E_MEMORY, "There is not enough memory to read the weights");
}

void *zn_weights_alloc(zn_weights *w, size_t size)
{
    block *b = size < SIZE_MAX - sizeof *b ? malloc(sizeof *b + size) : NULL;

    if (!b)
        return NULL;
    b->next = w->blocks;
    w->blocks = b;
    return b->data;
}

/* The array with room for one more element; NULL: it stays as it was. */
static void *grow(void *array, size_t *cap, size_t n, size_t size)
{
    size_t want = *cap ? 2 * *cap : 16;

    if (n < *cap)
        return array;
    void *bigger = realloc(array, want * size);

    if (bigger)
        *cap = want;
    return bigger;
}

zn_status zn_weights_add(zn_weights *w, const zn_entry *e, zn_error *err)
{
    if (w->n_records == ZN_MAX_TENSORS)
        return zn_fail(err, ZN_E_FILE, "%s holds more than %d tensors, too many for Zenith",
                       w->files[w->n_files - 1]->label, ZN_MAX_TENSORS);
    record *r = grow(w->records, &w->cap_records, w->n_records, sizeof *r);

    if (!r)
        return no_memory(err);
    w->records = r;
    r[w->n_records++] = (record){ *e, w->n_files - 1 };
    return ZN_OK;
}

zn_status zn_weights_add_meta(zn_weights *w, const char *key, const char *value, zn_error *err)
{
    pair *m = grow(w->meta, &w->cap_meta, w->n_meta, sizeof *m);

    if (!m)
        return no_memory(err);
    w->meta = m;
    m[w->n_meta++] = (pair){ key, value };
    if (!strcmp(key, "fp8") && !strcmp(value, ZN_FP8_ROWS))
        w->files[w->n_files - 1]->scaled = true;
    return ZN_OK;
}

static int by_name(const void *a, const void *b)
{
    const record *x = *(const record *const *)a, *y = *(const record *const *)b;
    int c = strcmp(x->entry.name, y->entry.name);

    return c ? c : (x > y) - (x < y);
}

/* The tensor NAME followed by `end`, if it is dense, of floats, and [rows][cols]; or NULL. */
static const zn_entry *beside(const zn_weights *w, const char *name, size_t len, const char *end, int64_t rows,
                              int64_t cols)
{
    char full[ZN_MAX_NAME + 16];
    const zn_entry *e;

    if (len >= ZN_MAX_NAME)
        return NULL;
    snprintf(full, sizeof full, "%.*s%s", (int)len, name, end);
    e = zn_weights_get(w, full);
    return e && e->n_dims == 2 && e->shape[0] == rows && e->shape[1] == cols && e->stride[1] == 1 &&
            e->stride[0] == cols && (e->dtype == ZN_F16 || e->dtype == ZN_BF16 || e->dtype == ZN_F32)
        ? e
        : NULL;
}

/* The words of a row of P.weight; 0: it holds no words of quantised rows. */
static int64_t words_of_row(const zn_entry *e)
{
    const size_t len = strlen(e->name);
    int64_t words = 1;

    if (e->dtype != ZN_U32 || e->n_dims < 2 || e->shape[0] < 1 || e->n_dims > MAX_QUANTISED_DIMS || len < 8 ||
        strcmp(e->name + len - 7, ".weight") || !zn_entry_is_dense(e))
        return 0;
    for (int d = 1; d < e->n_dims; d++)
        words *= e->shape[d]; /* fewer than the file has bytes */
    return words % (ZN_MLX_GROUP / 8) ? 0 : words;
}

/* MLX's matrices of 4 or 8 bits: P.weight of 32-bit words with P.scales and P.biases beside it is one tensor of weights.
 * The number of scales tells how many weights are in a word.  Our own addition: [out][in / weights in a word][kh][kw] are the
 * words of a convolution, whose rows [in][kh][kw] are quantised as those of a matrix are. */
static void join_mlx(zn_weights *w)
{
    for (size_t i = 0; i < w->n_records; i++) {
        zn_entry *e = &w->records[i].entry;
        const size_t len = strlen(e->name);
        const int64_t words = words_of_row(e);

        for (int each = 8; words && each >= 4 && !e->scales; each -= 4) {
            const int64_t groups = words * each / ZN_MLX_GROUP;
            const zn_entry *scales = beside(w, e->name, len - 7, ".scales", e->shape[0], groups),
                           *offsets = beside(w, e->name, len - 7, ".biases", e->shape[0], groups);

            if (!scales || !offsets || words * each % ZN_MLX_GROUP ||
                !zn_shape_ok((int64_t[]){ e->shape[0], words, each }, 3, ZN_F32))
                continue;
            e->scales = scales;
            e->offsets = offsets;
            e->dtype = each == 8 ? ZN_MLX4 : ZN_MLX8;
            e->shape[1] *= each;
            e->stride[0] *= each;
        }
    }
}

/* The scales of e4m3 P.weight, by any of their names; or NULL. */
static const zn_entry *scales_of(const zn_weights *w, const zn_entry *e)
{
    static const char *const ends[] = { ".weight_scale", ".scale_weight", ".weight_scale_inv" };
    const size_t len = strlen(e->name);
    char full[ZN_MAX_NAME + 24];
    const zn_entry *scales = NULL;

    for (size_t i = 0; i < sizeof ends / sizeof *ends && !scales && len > 7 && len < ZN_MAX_NAME; i++) {
        if (strcmp(e->name + len - 7, ".weight"))
            return NULL;
        snprintf(full, sizeof full, "%.*s%s", (int)len - 7, e->name, ends[i]);
        scales = zn_weights_get(w, full);
    }
    return scales;
}

/* e4m3 with scales (quantise.h).  Where a file has them, a tensor without them would be wrong by a factor: it is refused. */
static zn_status join_fp8(zn_weights *w, zn_error *err)
{
    for (size_t i = 0; i < w->n_records; i++) {
        zn_entry *e = &w->records[i].entry;
        const zn_entry *scales = e->dtype == ZN_F8_E4M3 && e->n_dims ? scales_of(w, e) : NULL;

        if (!scales)
            continue;
        if ((scales->dtype != ZN_F32 && scales->dtype != ZN_F16 && scales->dtype != ZN_BF16) ||
            !zn_entry_is_dense(scales))
            return zn_fail(err, ZN_E_FILE, "%s: '%s' is of the type %s, which scales of fp8 cannot have",
                           scales->file->label, scales->name, zn_dtype_name(scales->dtype));
        if (zn_entry_len(scales) != 1 && zn_entry_len(scales) != (size_t)e->shape[0])
            return zn_fail(err, ZN_E_FILE,
                           "%s: '%s' has %zu scales for the %lld rows of fp8 weights: blocks are not read",
                           scales->file->label, scales->name, zn_entry_len(scales), (long long)e->shape[0]);
        e->scales = scales;
        w->files[w->records[i].file]->scaled = true;
    }
    for (size_t i = 0; i < w->n_records; i++) {
        const zn_entry *e = &w->records[i].entry;

        if (e->dtype == ZN_F8_E4M3 && e->n_dims > 1 && !e->scales && e->file->scaled)
            return zn_fail(err, ZN_E_FILE, "%s: '%s' is fp8 and its scales are missing; download or convert it again",
                           e->file->label, e->name);
    }
    return ZN_OK;
}

/* Sorts the names, and refuses a set in which a name stands for two tensors or for none. */
static zn_status finish(zn_weights *w, zn_error *err)
{
    if (!w->n_records)
        return zn_fail(err, ZN_E_FILE, "%s holds no tensors", zn_weights_path(w));
    w->by_name = malloc(w->n_records * sizeof *w->by_name);
    if (!w->by_name)
        return no_memory(err);
    for (size_t i = 0; i < w->n_records; i++)
        w->by_name[i] = &w->records[i];
    qsort(w->by_name, w->n_records, sizeof *w->by_name, by_name);
    for (size_t i = 1; i < w->n_records; i++) {
        const record *a = w->by_name[i - 1], *b = w->by_name[i];

        if (strcmp(a->entry.name, b->entry.name))
            continue;
        if (a->file == b->file)
            return zn_fail(err, ZN_E_FILE, "%s is damaged: it names the tensor '%s' twice", w->files[a->file]->label,
                           a->entry.name);
        return zn_fail(err, ZN_E_FILE, "The tensor '%s' is both in %s and in %s; leave one out", a->entry.name,
                       w->files[a->file]->label, w->files[b->file]->label);
    }
    for (size_t i = 0; i < w->n_promised; i++)
        if (!zn_weights_get(w, w->promised[i].key))
            return zn_fail(err, ZN_E_FILE,
                           "The tensor '%s' is not in %s, where the index says it is; download both "
                           "again",
                           w->promised[i].key, w->promised[i].value);
    join_mlx(w);
    return join_fp8(w, err);
}

void zn_weights_close(zn_weights **weights)
{
    zn_weights *w = weights ? *weights : NULL;

    if (!w)
        return;
    for (size_t i = 0; i < w->n_files; i++)
        if (w->files[i]->fd >= 0)
            close(w->files[i]->fd);
    while (w->blocks) {
        block *b = w->blocks;

        w->blocks = b->next;
        free(b);
    }
    free(w->records);
    free(w->by_name);
    free(w->files);
    free(w->meta);
    free(w->promised);
    free(w);
    *weights = NULL;
}

int zn_weights_count(const zn_weights *w)
{
    return (int)w->n_records;
}

const zn_entry *zn_weights_at(const zn_weights *w, int i)
{
    return i >= 0 && (size_t)i < w->n_records ? &w->records[i].entry : NULL;
}

zn_weight_info zn_weights_info(const zn_weights *w, int i)
{
    const zn_entry *e = zn_weights_at(w, i);
    zn_weight_info info = { 0 };

    if (!e)
        return info;
    info.name = e->name;
    info.dtype = zn_dtype_name(e->dtype);
    info.n_dims = e->n_dims;
    memcpy(info.shape, e->shape, sizeof info.shape);
    return info;
}

static int compare_name(const void *name, const void *r)
{
    return strcmp(name, (*(const record *const *)r)->entry.name);
}

const zn_entry *zn_weights_get(const zn_weights *w, const char *name)
{
    const record **r = bsearch(name, w->by_name, w->n_records, sizeof *r, compare_name);

    return r ? &(*r)->entry : NULL;
}

const char *zn_weights_meta(const zn_weights *w, const char *key)
{
    for (size_t i = 0; i < w->n_meta; i++)
        if (!strcmp(w->meta[i].key, key))
            return w->meta[i].value;
    return NULL;
}

bool zn_weights_meta_at(const zn_weights *w, int i, const char **key, const char **value)
{
    if (i < 0 || (size_t)i >= w->n_meta)
        return false;
    *key = w->meta[i].key;
    *value = w->meta[i].value;
    return true;
}

zn_status zn_weights_read(float *dst, size_t n, const zn_weights *w, const char *name, zn_error *err)
{
    const zn_entry *e = zn_weights_get(w, name);

    if (!e)
        return zn_fail(err, ZN_E_FILE, "%s has no tensor '%s'", zn_weights_path(w), name);
    if (zn_entry_len(e) != n)
        return zn_fail(err, ZN_E_FILE, "'%s' of %s has %zu elements instead of %zu", name, zn_weights_path(w),
                       zn_entry_len(e), n);
    return zn_entry_read(e, dst, err);
}

zn_status zn_weights_unchanged(const zn_weights *w, zn_error *err)
{
    for (size_t i = 0; i < w->n_files; i++) {
        const zn_file *f = w->files[i];
        struct timespec written;
        struct stat st;

        if (f->fd < 0)
            continue;
        if (fstat(f->fd, &st))
            return zn_fail(err, ZN_E_FILE, "%s cannot be read: %s", f->label, strerror(errno));
        written = ZN_WRITTEN(st);
        if ((uint64_t)st.st_size != f->size || written.tv_sec != f->written.tv_sec ||
            written.tv_nsec != f->written.tv_nsec)
            return zn_fail(err, ZN_E_FILE, "%s was changed while it was in use; open it again when it is whole",
                           f->label);
    }
    return ZN_OK;
}

const char *zn_weights_path(const zn_weights *w)
{
    return w->n_files ? w->files[0]->label : "";
}

/* ---- one file --------------------------------------------------------------------------------- */

/* A name to show, or NULL. */
static const char *make_label(zn_weights *w, const char *path)
{
    size_t len = strlen(path), cut = len > MAX_LABEL ? len - MAX_LABEL : 0;
    char *label = zn_weights_alloc(w, len - cut + 4);

    while (cut && ((unsigned char)path[cut] & 0xc0) == 0x80) /* not inside a character */
        cut++;
    if (label)
        sprintf(label, "%s%s", cut ? "..." : "", path + cut);
    return label;
}

zn_status zn_file_read(const zn_file *f, uint64_t at, void *dst, size_t size, zn_error *err)
{
    size_t done = 0;

    assert(at <= f->size && size <= f->size - at);
    if (f->fd < 0) {
        memcpy(dst, f->data + at, size);
        return ZN_OK;
    }
    while (done < size) {
        ssize_t n = pread(f->fd, (char *)dst + done, size - done, (off_t)(at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return zn_fail(err, ZN_E_FILE, "%s cannot be read: %s", f->label, strerror(errno));
        if (!n)
            return zn_fail(err, ZN_E_FILE, "%s became shorter while it was read; open it again when it is whole",
                           f->label);
        done += (size_t)n;
    }
    return ZN_OK;
}

zn_status zn_file_copy(unsigned char **out, const zn_file *f, uint64_t at, uint64_t size, zn_error *err)
{
    unsigned char *p = size < SIZE_MAX ? malloc((size_t)size + 1) : NULL;
    zn_status s = p ? zn_file_read(f, at, p, (size_t)size, err) : no_memory(err);

    if (s) {
        free(p);
        p = NULL;
    }
    *out = p;
    return s;
}

/* The set owns the file from here on, unless this fails. */
static zn_status add_file(zn_weights *w, zn_file *f, zn_error *err)
{
    zn_file **files = grow(w->files, &w->cap_files, w->n_files, sizeof *files);

    if (!files)
        return no_memory(err);
    w->files = files;
    files[w->n_files++] = f;
    return ZN_OK;
}

/* A file that is not open yet, or NULL. */
static zn_file *new_file(zn_weights *w, const char *path)
{
    zn_file *f = zn_weights_alloc(w, sizeof *f);

    if (f)
        *f = (zn_file){ .label = make_label(w, path), .fd = -1 };
    return f && f->label ? f : NULL;
}

static bool is_text(const zn_file *f)
{
    size_t n = f->size < sizeof f->first ? (size_t)f->size : sizeof f->first;

    for (size_t i = 0; i < n; i++)
        if (f->first[i] < ' ' && !strchr("\t\n\f\r", f->first[i] ? f->first[i] : 1))
            return false;
    return true;
}

static bool begins(const zn_file *f, const char *magic, size_t len)
{
    return f->size >= len && !memcmp(f->first, magic, len);
}

/* Describes a file without readable weights, and what to do about it. */
static zn_status refuse(const zn_file *f, zn_error *err)
{
    const char *const reads = zn_tr("Zenith reads .safetensors, .gguf and PyTorch .pth/.pt/.ckpt files");
    static const struct {
        const char *magic;
        size_t len;
        const char *is;
    } known[] = {
        { "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14,
          ZN_TR("is in the format of PyTorch before 1.6: load it and save it again with a newer PyTorch") },
        { "\x89HDF", 4, ZN_TR("is an HDF5 file") },
        { "version https://git-lfs", 23, ZN_TR("is a pointer of Git LFS in place of the weights: run git lfs pull") },
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (begins(f, known[i].magic, known[i].len))
            return zn_fail(err, ZN_E_FILE, "%s %s; %s", f->label, zn_tr(known[i].is), reads);
    if (is_text(f))
        return zn_fail(err, ZN_E_FILE, "%s is a text file, not weights; %s", f->label, reads);
    if (f->first[0] == 0x80 && f->size > 1 && f->first[1] >= 2 && f->first[1] <= 5)
        return zn_fail(err, ZN_E_FILE, "%s is a bare Python pickle; %s", f->label, reads);
    return zn_fail(err, ZN_E_FILE, "%s is not a weight file, or is damaged; %s", f->label, reads);
}

static bool is_index(const zn_file *f)
{
    size_t i = 0;

    while (i < f->size && i < 64 && f->first[i] && strchr(" \t\r\n", f->first[i]))
        i++;
    return is_text(f) && i < f->size && f->first[i] == '{';
}

static zn_status read_file(zn_weights *w, const zn_file *f, zn_error *err)
{
    if (!f->size)
        return zn_fail(err, ZN_E_FILE, "%s is empty; download it again", f->label);
    if (begins(f, "GGUF", 4))
        return zn_gguf_read(w, f, err);
    if (begins(f, "PK\3\4", 4) || begins(f, "PK\5\6", 4))
        return zn_torchzip_read(w, f, err);
    if (!is_text(f) && f->size > 8 && f->first[8] == '{') /* as text, no length would be below 2^61 */
        return zn_safetensors_read(w, f, err);
    return refuse(f, err);
}

/* ---- indexes ---------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    return strcmp(((const pair *)a)->value, ((const pair *)b)->value);
}

static zn_status promise(zn_weights *w, zn_json *j, zn_error *err)
{
    pair *p = grow(w->promised, &w->cap_promised, w->n_promised, sizeof *p);

    if (!p)
        return no_memory(err);
    w->promised = p;
    p += w->n_promised++;
    p->key = zn_json_key(j);
    p->value = zn_json_string(j);
    if (!*p->value || *p->value == '.' || strchr(p->value, '/'))
        zn_json_fail(j, "the name of a file is not a plain name");
    return ZN_OK;
}

/* {"metadata": {...}, "weight_map": {tensor: file, ...}}, added to w->promised, sorted by file. */
static zn_status parse_index(zn_weights *w, const zn_file *f, const unsigned char *text, zn_error *err)
{
    char *pool = zn_weights_alloc(w, (size_t)f->size);
    zn_json j = zn_json_begin(text, (size_t)f->size, pool);
    size_t first = w->n_promised;
    zn_status s = ZN_OK;

    if (!pool)
        return no_memory(err);
    zn_json_enter(&j, '{');
    for (size_t i = 0; zn_json_more(&j, '}', i) && !s; i++) {
        if (strcmp(zn_json_key(&j), "weight_map")) {
            zn_json_skip(&j);
            continue;
        }
        zn_json_enter(&j, '{');
        for (size_t n = 0; zn_json_more(&j, '}', n) && !s; n++)
            s = promise(w, &j, err);
    }
    if (s)
        return s;
    if (!zn_json_end(&j) || w->n_promised == first)
        return zn_fail(err, ZN_E_FILE, "%s is not an index of weight files: %s, at byte %zu", f->label,
                       zn_tr(j.wrong ? j.wrong : ZN_TR("there is no weight_map")), zn_json_at(&j));
    qsort(w->promised + first, w->n_promised - first, sizeof *w->promised, by_value);
    return ZN_OK;
}

static zn_status read_index(zn_weights *w, const zn_file *f, zn_error *err)
{
    unsigned char *text;
    zn_status s;

    if (f->size > MAX_INDEX)
        return zn_fail(err, ZN_E_FILE, "%s is too long for an index of weight files", f->label);
    if ((s = zn_file_copy(&text, f, 0, f->size, err)))
        return s;
    s = parse_index(w, f, text, err);
    free(text);
    return s;
}

/* ---- paths ------------------------------------------------------------------------------------ */

/* Opens a file and reads its beginning; for a folder f->fd stays -1 and the status is good. */
static zn_status open_file(zn_file *f, const char *path, zn_error *err)
{
    struct stat st = { 0 };
    int fd = zn_open_regular(path, &st);
    zn_status s = ZN_OK;

    if (fd < 0 && S_ISDIR(st.st_mode))
        return ZN_OK;
    if (fd < 0) {
        s = zn_open_fail(f->label, err);
    } else if (!st.st_size) {
        s = zn_fail(err, ZN_E_FILE, "%s is empty; download it again", f->label);
    } else {
        f->fd = fd;
        f->size = (uint64_t)st.st_size;
        f->written = ZN_WRITTEN(st);
        s = zn_file_read(f, 0, f->first, f->size < sizeof f->first ? (size_t)f->size : sizeof f->first, err);
    }
    if (s && fd >= 0) {
        close(fd);
        f->fd = -1;
    }
    return s;
}

static zn_status open_path(zn_weights *w, const char *path, bool plain, zn_error *err);

/* Opens folder/name; plain as in open_path. */
static zn_status open_shard(zn_weights *w, const char *folder, size_t folder_len, const char *name, bool plain,
                            zn_error *err)
{
    size_t size = folder_len + strlen(name) + 2;
    char *path = malloc(size);

    if (!path)
        return no_memory(err);
    snprintf(path, size, "%.*s%s%s", (int)folder_len, folder, folder_len && folder[folder_len - 1] != '/' ? "/" : "",
             name);
    zn_status s = open_path(w, path, plain, err);

    free(path);
    return s;
}

static zn_status open_index(zn_weights *w, const char *path, const zn_file *f, zn_error *err)
{
    const char *slash = strrchr(path, '/');
    const char *last = "";
    size_t first = w->n_promised;
    zn_status s = read_index(w, f, err);

    for (size_t i = first; i < w->n_promised && !s; i++)
        if (strcmp(last, w->promised[i].value)) {
            last = w->promised[i].value;
            s = open_shard(w, path, slash ? (size_t)(slash - path + 1) : 0, last, true, err);
        }
    return s;
}

static bool ends(const char *s, const char *tail)
{
    size_t len = strlen(s), n = strlen(tail);

    return len > n && !strcmp(s + len - n, tail);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a folder that end in `tail`, sorted; hidden files do not count. */
static zn_status list_folder(char ***names, size_t *n, zn_weights *w, const char *path, const char *tail, zn_error *err)
{
    DIR *d = opendir(path);
    size_t cap = 0;
    struct dirent *e;
    bool ok = true;

    *names = NULL;
    *n = 0;
    if (!d)
        return zn_fail(err, ZN_E_FILE, "The folder %s cannot be opened: %s", path, strerror(errno));
    while (ok && *n <= MAX_FILES && (e = readdir(d))) {
        if (e->d_name[0] == '.' || !ends(e->d_name, tail))
            continue;
        char **bigger = grow(*names, &cap, *n, sizeof **names);
        char *name = zn_weights_alloc(w, strlen(e->d_name) + 1);

        *names = bigger ? bigger : *names;
        ok = bigger && name;
        if (ok)
            (*names)[(*n)++] = strcpy(name, e->d_name);
    }
    closedir(d);
    if (!ok)
        return no_memory(err);
    if (*n)
        qsort(*names, *n, sizeof **names, by_text);
    return ZN_OK;
}

static zn_status open_folder(zn_weights *w, const char *path, const char *label, zn_error *err)
{
    size_t n, len = strlen(path);
    char **names;
    bool index = true;
    zn_status s = list_folder(&names, &n, w, path, ".safetensors.index.json", err);

    if (!s && n > 1)
        s = zn_fail(err, ZN_E_USAGE, "The folder %s holds several indexes (%s, %s...); open one of them", label,
                    names[0], names[1]);
    if (!s && !n) {
        free(names);
        index = false;
        s = list_folder(&names, &n, w, path, ".safetensors", err);
    }
    if (!s && !n)
        s = zn_fail(err, ZN_E_FILE, "The folder %s holds no .safetensors files", label);
    for (size_t i = 0; i < n && !s; i++)
        s = open_shard(w, path, len, names[i], !index, err);
    free(names);
    return s;
}

/* plain: only a file that holds tensors itself will do. */
static zn_status open_path(zn_weights *w, const char *path, bool plain, zn_error *err)
{
    zn_file *f = new_file(w, path);
    zn_status s;

    if (!f)
        return no_memory(err);
    if (w->n_files == MAX_FILES)
        return zn_fail(err, ZN_E_FILE, "%s is one file too many: Zenith opens %d at most", f->label, MAX_FILES);
    if ((s = open_file(f, path, err)))
        return s;
    if (f->fd < 0)
        return plain ? zn_fail(err, ZN_E_FILE, "%s is a folder, not a file", f->label)
                     : open_folder(w, path, f->label, err);
    if (!plain && is_index(f)) {
        s = open_index(w, path, f, err);
        close(f->fd);
        return s;
    }
    s = add_file(w, f, err);
    if (s) {
        close(f->fd);
        return s;
    }
    return read_file(w, f, err);
}

zn_status zn_weights_open(zn_weights **out, const char *const *paths, int n_paths, zn_error *err)
{
    zn_weights *w = calloc(1, sizeof *w);
    zn_status s = ZN_OK;

    *out = NULL;
    if (err)
        err->text[0] = 0;
    if (!w)
        return no_memory(err);
    if (!paths || n_paths < 1)
        s = zn_fail(err, ZN_E_USAGE, "No weight file is named");
    for (int i = 0; i < n_paths && !s; i++)
        s = paths[i] && *paths[i] ? open_path(w, paths[i], false, err)
                                  : zn_fail(err, ZN_E_USAGE, "The name of a weight file is empty");
    if (!s)
        s = finish(w, err);
    if (s)
        zn_weights_close(&w);
    *out = w;
    return s;
}

zn_status zn_weights_open_memory(zn_weights **out, const void *data, size_t size, const char *label, zn_error *err)
{
    zn_weights *w = calloc(1, sizeof *w);
    zn_file *f = w ? new_file(w, label) : NULL;
    zn_status s;

    *out = NULL;
    if (err)
        err->text[0] = 0;
    if (f) {
        f->data = data;
        f->size = size;
        if (size)
            memcpy(f->first, data, size < sizeof f->first ? size : sizeof f->first);
    }
    s = f ? add_file(w, f, err) : no_memory(err);
    if (!s)
        s = size && is_index(f) ? read_index(w, f, err) : read_file(w, f, err);
    if (!s)
        s = finish(w, err);
    if (s)
        zn_weights_close(&w);
    *out = w;
    return s;
}
