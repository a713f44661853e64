/* SPDX-License-Identifier: MIT */
/* savefile.c - safetensors files; see savefile.h. */
#include "savefile.h"

#include "../zenith_file.h"
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

enum { PIECE = 1 << 16 }; /* elements, whole blocks */

/* n weights as a part of a quantised matrix.  MLX's q is not negative: w = scale * q + offset. */
static void put_part(FILE *f, const zn_save_tensor *t, const float *x, size_t n)
{
    const bool four = t->wtype == ZN_W_I4;

    for (size_t i = 0; i < n; i += ZN_W_GROUP) {
        unsigned char q[ZN_W_GROUP];
        const uint16_t scale = zn_quantise(t->wtype, q, x + i, ZN_W_GROUP);
        const uint16_t offset = zn_to_f16(zn_from_f16(scale) * (four ? -8.0f : -128.0f));

        for (int k = 0; !four && k < ZN_W_GROUP; k++)
            q[k] = (unsigned char)(q[k] + 128);
        if (t->part == ZN_SAVE_WORDS)
            fwrite(q, 1, zn_wtype_size(t->wtype, ZN_W_GROUP), f);
        else
            fwrite(t->part == ZN_SAVE_SCALES ? &scale : &offset, sizeof scale, 1, f);
    }
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
static zn_status put_rows(FILE *f, const zn_save_tensor *t, const float *x, size_t n, zn_error *err)
{
    const size_t row = row_of(t);

    for (size_t i = 0; i < n; i += row) {
        const int e = zn_e4m3_exponent(x + i, row);
        const float scale = ldexpf(1, e);

        for (size_t j = 0; t->part == ZN_SAVE_E4M3 && j < row; j++) {
            if (!isfinite(x[i + j]))
                return zn_fail(err, ZN_E_USAGE, "'%s' holds %g, which fp8 cannot: take bf16 or fp32", t->name,
                               (double)x[i + j]);
            fputc(zn_to_e4m3(ldexpf(x[i + j], -e)), f);
        }
        if (t->part == ZN_SAVE_ROW_SCALES)
            fwrite(&scale, sizeof scale, 1, f);
    }
    return ZN_OK;
}

static zn_status put_floats(FILE *f, const zn_save_tensor *t, const float *x, size_t n, zn_error *err)
{
    uint16_t half[1024];

    if (is_e4m3(t))
        return put_rows(f, t, x, n, err);
    if (t->part) {
        put_part(f, t, x, n);
        return ZN_OK;
    }
    if (t->type == ZN_F32) {
        fwrite(x, sizeof *x, n, f); /* zn_write_file looks at ferror */
        return ZN_OK;
    }
    for (size_t i = 0; i < n; i += sizeof half / sizeof *half) {
        size_t m = n - i < sizeof half / sizeof *half ? n - i : sizeof half / sizeof *half;

        for (size_t j = 0; j < m; j++) {
            if (t->type == ZN_F16 && fabsf(x[i + j]) > 65504)
                return zn_fail(err, ZN_E_USAGE, "'%s' holds %g, which fp16 cannot: take bf16 or fp32", t->name,
                               (double)x[i + j]);
            half[j] = t->type == ZN_F16 ? zn_to_f16(x[i + j]) : zn_to_bf16(x[i + j]);
        }
        fwrite(half, sizeof *half, m, f);
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

static zn_status put_tensor(FILE *f, const zn_save_tensor *t, zn_error *err)
{
    const size_t n = t->from ? zn_entry_len(t->from) : length_of(t);
    size_t piece = n;
    float *x;
    zn_status s = ZN_OK;

    if (t->data)
        return put_floats(f, t, t->data, n, err);
    if (!t->part && t->type == t->from->dtype &&
        (zn_entry_is_dense(t->from) || !(t->type == ZN_F32 || t->type == ZN_F16 || t->type == ZN_BF16)))
        return copy_bytes(f, t, n, err);
    if (zn_entry_is_dense(t->from) && piece > PIECE)
        piece = !is_e4m3(t) ? PIECE : row_of(t) < PIECE ? PIECE / row_of(t) * row_of(t) : row_of(t);
    x = n ? malloc(piece * sizeof *x) : NULL;
    if (n && !x)
        return zn_fail(err, ZN_E_MEMORY, "There is not enough memory to convert '%s'", t->name);
    for (size_t at = 0, m; at < n && !s; at += m) {
        m = n - at < piece ? n - at : piece;
        s = zn_entry_is_dense(t->from) ? zn_entry_read_part(t->from, x, at, m, err) : zn_entry_read(t->from, x, err);
        if (!s)
            s = put_floats(f, t, x, m, err);
    }
    free(x);
    return s;
}

/* ---- the file -------------------------------------------------------------------------------------- */

typedef struct job {
    const zn_save_tensor *tensors;
    size_t n;
    text head;
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
        s = put_tensor(f, &j->tensors[i], err);
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
    job j = { tensors, n, make_header(tensors, n, meta) };
    bool ok;
    const char *twice = doubled(tensors, n, &ok);
    zn_status s;

    if (!j.head.data || !ok)
        s = zn_fail(err, ZN_E_MEMORY, "There is not enough memory to write %s", path);
    else if (twice)
        s = zn_fail(err, ZN_E_USAGE, "Two tensors would be called '%s'", twice);
    else
        s = zn_write_file(path, put_all, &j, err);
    free(j.head.data);
    return s;
}
