/* SPDX-License-Identifier: MIT */
/* savefile.c - safetensors files; see savefile.h. */
#include "savefile.h"

#include "../zenith_file.h"
#include "threads.h"
#include "weightfile.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- the header ----------------------------------------------------------------------------------- */

typedef struct text { /* grows; NULL data once memory ran out */
    char *data;
    size_t len, room;
} text;

static void put_bytes(text *t, const char *s, size_t n)
{
    if (!t->data)
        return;
    if (t->len + n + 1 > t->room) {
        char *more = realloc(t->data, 2 * (t->len + n + 1));

        if (!more) {
            free(t->data);
            t->data = NULL;
            return;
        }
        t->data = more;
        t->room = 2 * (t->len + n + 1);
    }
    memcpy(t->data + t->len, s, n);
    t->len += n;
    t->data[t->len] = 0;
}

static void put(text *t, const char *fmt, ...) ZN_PRINTF(2, 3);

static void put(text *t, const char *fmt, ...)
{
    char piece[128];

    ZN_FORMAT(piece, fmt);
    put_bytes(t, piece, strlen(piece));
}

/* A JSON string; control characters, quotes and backslashes are escaped. */
static void put_string(text *t, const char *s)
{
    put_bytes(t, "\"", 1);
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            put(t, "\\%c", *s);
        else if ((unsigned char)*s < ' ')
            put(t, "\\u%04x", (unsigned)*s);
        else
            put_bytes(t, s, 1);
    put_bytes(t, "\"", 1);
}

static size_t length_of(const zn_save_tensor *t)
{
    return zn_entry_len(&(zn_entry){ .n_dims = t->n_dims,
                                     .shape = { t->shape[0], t->shape[1], t->shape[2], t->shape[3], t->shape[4],
                                                t->shape[5], t->shape[6], t->shape[7] } });
}

static text make_header(const zn_save_tensor *tensors, size_t n, const char *const *meta)
{
    text t = { malloc(4096), 0, 4096 };
    size_t at = 0;

    put(&t, "{\"__metadata__\":{\"format\":\"pt\"");
    for (int i = 0; meta && meta[2 * i]; i++) {
        if (!strcmp(meta[2 * i], "format"))
            continue;
        put(&t, ",");
        put_string(&t, meta[2 * i]);
        put(&t, ":");
        put_string(&t, meta[2 * i + 1]);
    }
    put(&t, "}");
    for (size_t i = 0; i < n; i++) {
        const size_t size = length_of(&tensors[i]) * zn_dtype_size(tensors[i].type);

        put(&t, ",");
        put_string(&t, tensors[i].name);
        put(&t, ":{\"dtype\":\"%s\",\"shape\":[", zn_dtype_name(tensors[i].type));
        for (int d = 0; d < tensors[i].n_dims; d++)
            put(&t, "%s%lld", d ? "," : "", (long long)tensors[i].shape[d]);
        put(&t, "],\"data_offsets\":[%zu,%zu]}", at, at + size);
        at += size;
    }
    put(&t, "}");
    while (t.data && t.len % 8)
        put(&t, " ");
    return t;
}

/* ---- the elements ---------------------------------------------------------------------------------- */

enum {
    PIECE = 1 << 16, /* elements, whole blocks */
    AT_ONCE = 32,    /* pieces */
    MANY = 1 << 20   /* elements of a file that threads convert */
};

/* Each of these converts n elements and returns how many bytes it wrote. */

/* n weights as a part of a quantised matrix.  MLX's q is not negative: w = scale * q + offset. */
static size_t pack_part(unsigned char *to, const zn_save_tensor *t, const float *x, size_t n)
{
    const bool four = t->wtype == ZN_W_I4;
    unsigned char *const start = to;

    for (size_t i = 0; i < n; i += ZN_W_GROUP) {
        unsigned char q[ZN_W_GROUP];
        const uint16_t scale = zn_quantise(t->wtype, q, x + i, ZN_W_GROUP);
        const uint16_t offset = zn_to_f16(zn_from_f16(scale) * (four ? -8.0f : -128.0f));
        const void *from = t->part == ZN_SAVE_WORDS ? (const void *)q : t->part == ZN_SAVE_SCALES ? &scale : &offset;
        const size_t size = t->part == ZN_SAVE_WORDS ? zn_wtype_size(t->wtype, ZN_W_GROUP) : sizeof scale;

        for (int k = 0; !four && k < ZN_W_GROUP; k++)
            q[k] = (unsigned char)(q[k] + 128);
        memcpy(to, from, size);
        to += size;
    }
    return (size_t)(to - start);
}

static bool is_e4m3(const zn_save_tensor *t)
{
    return t->part == ZN_SAVE_E4M3 || t->part == ZN_SAVE_ROW_SCALES;
}

/* Elements of a row of the entry; 0: it has none. */
static size_t row_of(const zn_save_tensor *t)
{
    return t->from->shape[0] ? zn_entry_len(t->from) / (size_t)t->from->shape[0] : 0;
}

/* n weights, whole rows. */
static zn_status pack_rows(unsigned char *to, size_t *size, const zn_save_tensor *t, const float *x, size_t n,
                           zn_error *err)
{
    const size_t row = row_of(t);

    *size = 0;
    for (size_t i = 0; i < n; i += row) {
        const int e = zn_e4m3_exponent(x + i, row);
        const float scale = ldexpf(1, e), inverse = ldexpf(1, -e);

        for (size_t j = 0; t->part == ZN_SAVE_E4M3 && j < row; j++) {
            if (!isfinite(x[i + j]))
                return zn_fail(err, ZN_E_USAGE, "'%s' holds %g, which fp8 cannot: take bf16 or fp32", t->name,
                               (double)x[i + j]);
            to[(*size)++] = zn_to_e4m3(x[i + j] * inverse);
        }
        if (t->part == ZN_SAVE_ROW_SCALES) {
            memcpy(to + *size, &scale, sizeof scale);
            *size += sizeof scale;
        }
    }
    return ZN_OK;
}

static zn_status pack_floats(unsigned char *to, size_t *size, const zn_save_tensor *t, const float *x, size_t n,
                             zn_error *err)
{
    if (is_e4m3(t))
        return pack_rows(to, size, t, x, n, err);
    if (t->part) {
        *size = pack_part(to, t, x, n);
        return ZN_OK;
    }
    *size = n * zn_dtype_size(t->type);
    if (t->type == ZN_F32)
        memcpy(to, x, *size);
    for (size_t i = 0; t->type != ZN_F32 && i < n; i++) {
        const uint16_t half = t->type == ZN_F16 ? zn_to_f16(x[i]) : zn_to_bf16(x[i]);

        if (t->type == ZN_F16 && fabsf(x[i]) > 65504)
            return zn_fail(err, ZN_E_USAGE, "'%s' holds %g, which fp16 cannot: take bf16 or fp32", t->name,
                           (double)x[i]);
        memcpy(to + i * sizeof half, &half, sizeof half);
    }
    return ZN_OK;
}

static zn_status copy_bytes(FILE *f, const zn_save_tensor *t, size_t n, zn_error *err)
{
    const size_t size = zn_dtype_size(t->type);
    unsigned char bytes[1 << 14];
    zn_status s = ZN_OK;

    if (!zn_entry_is_dense(t->from))
        return zn_fail(err, ZN_E_FILE, "'%s' is transposed in its file and of the type %s, which is not converted",
                       t->name, zn_dtype_name(t->type));
    for (size_t at = 0, m; at < n * size && !s; at += m) {
        m = n * size - at < sizeof bytes ? n * size - at : sizeof bytes;
        s = zn_file_read(t->from->file, t->from->at + at, bytes, m, err);
        if (!s)
            fwrite(bytes, 1, m, f);
    }
    return s;
}

/* Pieces of a tensor, which are converted beside each other and written one after the other. */
typedef struct pieces {
    const zn_save_tensor *t;
    const float *all;       /* its elements; NULL: they are read piece by piece, to x */
    size_t n, piece, first; /* elements: of all, of a piece, before the first piece */
    float *x;               /* of all pieces */
    unsigned char *bytes;   /* of all pieces, as many as floats need */
    size_t size[AT_ONCE];   /* bytes of each */
    zn_status status[AT_ONCE];
    zn_error err[AT_ONCE];
} pieces;

static void convert_piece(void *cookie, int item, int worker)
{
    pieces *p = cookie;
    const size_t at = (size_t)item * p->piece, first = p->first + at;
    const size_t n = p->n - first < p->piece ? p->n - first : p->piece;
    const float *x = p->all ? p->all + first : p->x + at;

    (void)worker;
    p->status[item] = p->all ? ZN_OK : zn_entry_read_part(p->t->from, p->x + at, first, n, &p->err[item]);
    if (!p->status[item])
        p->status[item] = pack_floats(p->bytes + at * sizeof(float), &p->size[item], p->t, x, n, &p->err[item]);
}

static zn_status put_pieces(FILE *f, zn_pool *pool, pieces *p, zn_error *err)
{
    const size_t count = (p->n + p->piece - 1) / p->piece, room = count < AT_ONCE ? count : AT_ONCE;
    zn_status s = ZN_OK;

    p->bytes = malloc(room * p->piece * sizeof(float));
    p->x = p->all ? NULL : malloc(room * p->piece * sizeof(float));
    if (!p->bytes || (!p->all && !p->x))
        s = zn_fail(err, ZN_E_MEMORY, "There is not enough memory to convert '%s'", p->t->name);
    for (; p->first < p->n && !s; p->first += room * p->piece) {
        const size_t left = (p->n - p->first + p->piece - 1) / p->piece;
        const int n = (int)(left < room ? left : room);

        if (pool)
            zn_pool_run(pool, convert_piece, p, n);
        for (int i = 0; i < n && !s; i++) {
            if (!pool)
                convert_piece(p, i, 0);
            if ((s = p->status[i]) && err)
                *err = p->err[i];
            if (!s)
                fwrite(p->bytes + (size_t)i * p->piece * sizeof(float), 1, p->size[i], f); /* zn_write_file: ferror */
        }
    }
    free(p->bytes);
    free(p->x);
    return s;
}

static zn_status put_tensor(FILE *f, zn_pool *pool, const zn_save_tensor *t, zn_error *err)
{
    const size_t n = t->from ? zn_entry_len(t->from) : length_of(t);
    pieces p = { .t = t, .all = t->data, .n = n, .piece = PIECE };
    float *all = NULL;
    zn_status s = ZN_OK;

    if (!t->data && !t->part && t->type == t->from->dtype &&
        (zn_entry_is_dense(t->from) || !(t->type == ZN_F32 || t->type == ZN_F16 || t->type == ZN_BF16)))
        return copy_bytes(f, t, n, err);
    if (!n)
        return ZN_OK;
    if (is_e4m3(t))
        p.piece = row_of(t) < PIECE ? PIECE / row_of(t) * row_of(t) : row_of(t);
    if (n < p.piece)
        p.piece = n;
    if (!t->data && !zn_entry_is_dense(t->from)) {
        if (!(all = malloc(n * sizeof *all)))
            return zn_fail(err, ZN_E_MEMORY, "There is not enough memory to convert '%s'", t->name);
        s = zn_entry_read(t->from, all, err);
        p.all = all;
    }
    if (!s)
        s = put_pieces(f, pool, &p, err);
    free(all);
    return s;
}

/* ---- the file -------------------------------------------------------------------------------------- */

typedef struct job {
    const zn_save_tensor *tensors;
    size_t n;
    text head;
    zn_pool *pool; /* NULL: one thread */
} job;

static zn_status put_all(void *cookie, FILE *f, zn_error *err)
{
    const job *j = cookie;
    unsigned char size[8];
    zn_status s = ZN_OK;

    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)j->head.len >> (8 * i));
    fwrite(size, 8, 1, f);
    fwrite(j->head.data, j->head.len, 1, f);
    for (size_t i = 0; i < j->n && !s; i++)
        s = put_tensor(f, j->pool, &j->tensors[i], err);
    return s;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A name that occurs twice, or NULL; *ok is false without memory. */
static const char *doubled(const zn_save_tensor *tensors, size_t n, bool *ok)
{
    const char **names = malloc((n + 1) * sizeof *names), *twice = NULL;

    *ok = names != NULL;
    for (size_t i = 0; names && i < n; i++)
        names[i] = tensors[i].name;
    if (names && n)
        qsort(names, n, sizeof *names, by_name);
    for (size_t i = 1; names && i < n && !twice; i++)
        if (!strcmp(names[i - 1], names[i]))
            twice = names[i];
    free(names);
    return twice;
}

zn_status zn_save_tensors(const char *path, const zn_save_tensor *tensors, size_t n, const char *const *meta,
                          zn_error *err)
{
    job j = { .tensors = tensors, .n = n, .head = make_header(tensors, n, meta) };
    size_t elements = 0;
    bool ok;
    const char *twice = doubled(tensors, n, &ok);
    zn_status s;

    if (!j.head.data || !ok)
        s = zn_fail(err, ZN_E_MEMORY, "There is not enough memory to write %s", path);
    else if (twice)
        s = zn_fail(err, ZN_E_USAGE, "Two tensors would be called '%s'", twice);
    else {
        for (size_t i = 0; i < n; i++)
            elements += length_of(&tensors[i]);
        if (elements > MANY)
            j.pool = zn_pool_open(zn_cpu_count());
        s = zn_write_file(path, put_all, &j, err);
        zn_pool_close(&j.pool);
    }
    free(j.head.data);
    return s;
}
