/* SPDX-License-Identifier: MIT */
/* gguf.c - reads one .gguf file, versions 2 and 3.
 *
 *     "GGUF", u32 version, u64 tensors, u64 pairs
 *     pairs:    key, u32 type, value; a string is its u64 length and bytes, an array u32 type, u64 count, values
 *     tensors:  name, u32 dimensions, u64 each, the fastest first; u32 type, u64 offset
 *     data, from the next multiple of general.alignment (32) on; offsets count from there
 *
 * The header is read through a small buffer: its length is known only at its end.  Of the pairs, short strings become metadata;
 * all others are passed over.  What holds after a successful read: each tensor's bytes are inside the file, and all tensors
 * together have no more than are there. */
#include "json.h"
#include "weightfile.h"

#include <string.h>

enum { MAX_PAIRS = 65536, MAX_VALUE = 4096, MAX_GGUF_DIMS = 4, MAX_ALIGNMENT = 1 << 20 };

/* Types of values. */
enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, N_VALUES };

static const unsigned char value_size[N_VALUES] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

typedef struct cursor {
    const zn_file *file;
    uint64_t at;       /* of the next byte */
    const char *wrong; /* the first error, a phrase; after it numbers read 0 */
    zn_status status;  /* of reading the file; err has the message */
    zn_error *err;
    unsigned char buffer[4096]; /* the bytes from `begin` on */
    uint64_t begin;
    size_t n;
} cursor;

static void fail(cursor *c, const char *wrong)
{
    if (!c->wrong)
        c->wrong = wrong;
}

static bool bad(const cursor *c)
{
    return c->wrong || c->status;
}

/* Are there so many bytes left? */
static bool left(cursor *c, uint64_t size)
{
    if (!bad(c) && size > c->file->size - c->at)
        fail(c, "it ends too early");
    return !bad(c);
}

static void get(cursor *c, void *dst, size_t size)
{
    unsigned char *p = dst;

    memset(dst, 0, size);
    if (!left(c, size))
        return;
    while (size && !bad(c)) {
        size_t n;

        if (c->at < c->begin || c->at - c->begin >= c->n) {
            const uint64_t rest = c->file->size - c->at;

            c->begin = c->at;
            c->n = rest < sizeof c->buffer ? (size_t)rest : sizeof c->buffer;
            if ((c->status = zn_file_read(c->file, c->at, c->buffer, c->n, c->err)))
                return;
        }
        n = c->n - (size_t)(c->at - c->begin);
        n = n < size ? n : size;
        memcpy(p, c->buffer + (c->at - c->begin), n);
        p += n;
        size -= n;
        c->at += n;
    }
}

static void skip(cursor *c, uint64_t size)
{
    if (left(c, size))
        c->at += size;
}

static uint32_t get32(cursor *c)
{
    unsigned char b[4];

    get(c, b, sizeof b);
    return zn_le32(b);
}

static uint64_t get64(cursor *c)
{
    unsigned char b[8];

    get(c, b, sizeof b);
    return zn_le64(b);
}

/* A string that lives as long as the set; NULL: it is longer than max bytes and passed over, or something failed. */
static const char *get_string(zn_weights *w, cursor *c, size_t max)
{
    const uint64_t len = get64(c);
    char *s;

    if (!left(c, len))
        return NULL;
    if (len > max) {
        skip(c, len);
        return NULL;
    }
    if (!(s = zn_weights_alloc(w, (size_t)len + 1))) {
        c->status = zn_fail(c->err, ZN_E_MEMORY, "There is not enough memory to read %s", c->file->label);
        return NULL;
    }
    get(c, s, (size_t)len);
    s[len] = 0;
    return bad(c) ? NULL : s;
}

/* ---- pairs --------------------------------------------------------------------------------------------- */

static void skip_array(cursor *c)
{
    const uint32_t type = get32(c);
    const uint64_t n = get64(c);

    if (type == STRING) {
        for (uint64_t i = 0; i < n && !bad(c); i++)
            skip(c, get64(c));
    } else if (type >= N_VALUES || type == ARRAY) {
        fail(c, "an array holds values of an unknown type");
    } else if (n > c->file->size) {
        fail(c, "it ends too early");
    } else {
        skip(c, n * value_size[type]);
    }
}

static zn_status read_pair(zn_weights *w, cursor *c, uint32_t *alignment)
{
    const char *key = get_string(w, c, ZN_MAX_NAME);
    const uint32_t type = get32(c);

    if (bad(c))
        return ZN_OK;
    if (type == STRING) {
        const char *value = get_string(w, c, MAX_VALUE);

        if (key && value && zn_utf8_ok(key, strlen(key)) && zn_utf8_ok(value, strlen(value)))
            return zn_weights_add_meta(w, key, value, c->err);
    } else if (type == ARRAY) {
        skip_array(c);
    } else if (type >= N_VALUES) {
        fail(c, "a value has an unknown type");
    } else if (key && type == U32 && !strcmp(key, "general.alignment")) {
        *alignment = get32(c);
        if (!bad(c) && (!*alignment || *alignment > MAX_ALIGNMENT))
            fail(c, "its alignment makes no sense");
    } else {
        skip(c, value_size[type]);
    }
    return ZN_OK;
}

/* ---- tensors ------------------------------------------------------------------------------------------- */

/* False: a type that is not read. */
static bool type_of(zn_type *t, uint32_t number)
{
    static const struct {
        uint32_t number;
        zn_type type;
    } known[] = { { 0, ZN_F32 },  { 1, ZN_F16 },   { 2, ZN_Q4_0 },  { 3, ZN_Q4_1 },  { 6, ZN_Q5_0 }, { 7, ZN_Q5_1 },
                  { 8, ZN_Q8_0 }, { 12, ZN_Q4_K }, { 13, ZN_Q5_K }, { 14, ZN_Q6_K }, { 24, ZN_I8 },  { 25, ZN_I16 },
                  { 26, ZN_I32 }, { 27, ZN_I64 },  { 28, ZN_F64 },  { 30, ZN_BF16 } };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == number) {
            *t = known[i].type;
            return true;
        }
    return false;
}

/* One tensor's description; e->at is its offset from the data's beginning. */
static zn_status read_tensor(zn_weights *w, cursor *c, zn_entry *e)
{
    const uint64_t before = c->at;
    uint64_t dims[MAX_GGUF_DIMS] = { 0 };
    uint32_t number;
    int64_t stride = 1;

    e->name = get_string(w, c, ZN_MAX_NAME);
    if (!bad(c) &&
        (!e->name || !*e->name || !zn_utf8_ok(e->name, strlen(e->name)) || strlen(e->name) + 8 != c->at - before))
        fail(c, "the name of a tensor is too long or not text");
    e->n_dims = (int)get32(c);
    if (!bad(c) && (e->n_dims < 1 || e->n_dims > MAX_GGUF_DIMS))
        fail(c, "a tensor has no dimensions, or more than 4");
    for (int i = 0; i < e->n_dims && !bad(c); i++) {
        dims[i] = get64(c);
        if (!bad(c) && (!dims[i] || dims[i] > INT64_MAX))
            fail(c, "the shape of a tensor is impossible");
    }
    number = get32(c);
    e->at = get64(c);
    if (bad(c))
        return ZN_OK;
    if (!type_of(&e->dtype, number))
        return zn_fail(
            c->err, ZN_E_FILE,
            "%s holds the tensor '%s' of GGUF's type %u, which Zenith does not read; it reads F32, F16, BF16, "
            "Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K",
            c->file->label, e->name, number);
    for (int i = e->n_dims - 1; i >= 0; i--) {
        e->shape[i] = (int64_t)dims[e->n_dims - 1 - i];
        e->stride[i] = stride;
        if (__builtin_mul_overflow(stride, e->shape[i], &stride))
            fail(c, "the shape of a tensor is impossible");
    }
    if (!zn_shape_ok(e->shape, e->n_dims, zn_block_of(e->dtype) ? ZN_F32 : e->dtype) ||
        (zn_block_of(e->dtype) && dims[0] % zn_block_of(e->dtype)->len))
        fail(c, "the shape of a tensor is impossible");
    return ZN_OK;
}

/* All of them.  Where the data begins is known only behind their descriptions: the first time, with data 0, they are only
 * passed over. */
static zn_status read_tensors(zn_weights *w, cursor *c, uint64_t n, uint64_t data, uint32_t alignment)
{
    const uint64_t whole = c->file->size;
    uint64_t sum = 0;

    for (uint64_t i = 0; i < n && !bad(c); i++) {
        zn_entry e = { .file = c->file };
        zn_status s = read_tensor(w, c, &e);
        const zn_block *b;
        uint64_t size;

        if (s)
            return s;
        if (bad(c) || !data)
            continue;
        b = zn_block_of(e.dtype);
        size = b ? zn_entry_len(&e) / b->len * b->size : zn_entry_len(&e) * zn_dtype_size(e.dtype);
        if (e.at % alignment || data > whole || e.at > whole - data || size > whole - data - e.at)
            return zn_fail(c->err, ZN_E_FILE,
                           "%s is damaged or cut short: the tensor '%s' lies outside the file; download it again",
                           c->file->label, e.name);
        if (size > whole - data - sum) /* else a small file could hold any number of elements */
            return zn_fail(c->err, ZN_E_FILE, "%s holds the tensor '%s', which repeats its data too many times",
                           c->file->label, e.name);
        sum += size;
        e.at += data;
        if ((s = zn_weights_add(w, &e, c->err)))
            return s;
    }
    return ZN_OK;
}

zn_status zn_gguf_read(zn_weights *w, const zn_file *f, zn_error *err)
{
    cursor c = { .file = f, .err = err }, tensors;
    uint32_t version, alignment = 32;
    uint64_t n_tensors, n_pairs;
    zn_status s = ZN_OK;

    skip(&c, 4);
    version = get32(&c);
    n_tensors = get64(&c);
    n_pairs = get64(&c);
    if (!bad(&c) && version != 2 && version != 3)
        return zn_fail(err, ZN_E_FILE, "%s is of version %u of GGUF, or big-endian; Zenith reads versions 2 and 3",
                       f->label, version);
    if (!bad(&c) && (n_tensors > ZN_MAX_TENSORS || n_pairs > MAX_PAIRS))
        fail(&c, "it says that it holds too many tensors or values");
    for (uint64_t i = 0; i < n_pairs && !bad(&c) && !s; i++)
        s = read_pair(w, &c, &alignment);
    tensors = c;
    if (!s)
        s = read_tensors(w, &c, n_tensors, 0, alignment);
    if (!s && !bad(&c))
        s = read_tensors(w, &tensors, n_tensors, (c.at + alignment - 1) / alignment * alignment, alignment);
    if (s || !bad(&c))
        return s;
    return c.status ? c.status
                    : zn_fail(err, ZN_E_FILE, "%s is damaged: %s, at byte %llu", f->label, zn_tr(c.wrong),
                              (unsigned long long)c.at);
}
