/* SPDX-License-Identifier: MIT */
/* bind.c - named tensors of a file become packed weights of a model. */
#include "arch.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 256 };
enum { ROOM = 2 * ZN_ALIGN }; /* weights take multiples of this: a GPU's memory is aligned to 256 bytes */

/* Bytes of a zn_packed: a large network is read when its device is there. */
static const size_t most_packed = (size_t)256 << 20;

void zn_bind_fail(zn_binder *b, const char *fmt, ...)
{
    zn_error why;
    va_list ap;

    va_start(ap, fmt);
    zn_vfail(&why, ZN_E_USAGE, fmt, ap);
    va_end(ap);
    if (!b->status && b->w)
        b->status = zn_fail(b->err, ZN_E_FILE, "%s: %s", zn_weights_path(b->w), why.text);
    if (!b->status)
        b->status = zn_fail(b->err, ZN_E_USAGE, "%s", why.text);
}

bool zn_bind_has(const zn_binder *b, const char *fmt, ...)
{
    char name[NAME_SIZE];

    ZN_FORMAT(name, fmt);
    return b->w && zn_weights_get(b->w, name);
}

int zn_bind_dim(const zn_binder *b, int dim, const char *fmt, ...)
{
    char name[NAME_SIZE];
    const zn_entry *e;

    ZN_FORMAT(name, fmt);
    e = b->w ? zn_weights_get(b->w, name) : NULL;
    return e && dim < e->n_dims && e->shape[dim] <= INT32_MAX ? (int)e->shape[dim] : 0;
}

const char *zn_bind_meta(const zn_binder *b, const char *key)
{
    if (b->w)
        return zn_weights_meta(b->w, key);
    for (const char *const *m = b->meta; m && *m; m += 2)
        if (!strcmp(*m, key))
            return m[1];
    return NULL;
}

void zn_bind_init(zn_binder *b, zn_init init, double value)
{
    b->init = init;
    b->init_value = value;
}

zn_act zn_act_named(const char *name)
{
    return !strcmp(name, "relu") ? ZN_RELU
        : !strcmp(name, "silu")  ? ZN_SILU
        : !strcmp(name, "gelu")  ? ZN_GELU
                                 : ZN_NONE;
}

/* The tensor without a file: stated in the outline and 0, or made up. */
static float *state_tensor(zn_binder *b, const char *name, const int *shape, int n_dims)
{
    zn_stated *t = b->outline ? zn_outline_add(b->outline, name, shape, n_dims) : NULL;
    size_t len = 1;
    float *x;

    if (t) {
        t->init = b->init;
        t->value = b->init_value;
    }
    zn_bind_init(b, ZN_INIT_USUAL, 0);
    for (int i = 0; i < n_dims; i++)
        len *= (size_t)shape[i];
    x = b->outline && !t ? NULL : calloc(len + 1, sizeof *x);
    if (!x) {
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for '%s'", name);
        return NULL;
    }
    if (!b->outline) {
        if (!b->counting)
            zn_make_up(x, name, shape, n_dims);
        snprintf(b->variant, sizeof b->variant, "made-up weights");
    }
    b->parameters += (int64_t)len;
    return x;
}

/* A tensor of a streamed layer: listed for the reader or, when the layer is fetched, as the reader has it. */
static const zn_entry *through_reader(zn_binder *b, const zn_entry *e)
{
    zn_ahead *reader = b->slot ? b->layers.reader : NULL;
    const zn_entry *read = reader && !b->counting ? zn_ahead_entry(reader, e) : NULL;

    if (reader && b->counting && !zn_ahead_add(reader, e))
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for the weights");
    return read ? read : e;
}

/* The file's tensor; NULL and the status set if it is not there or of another shape.  Dimensions of 1 at the end may be
 * missing, or be more, in the file: a 1x1 convolution may be stored as a matrix, a vector as [c][1][1]. */
static const zn_entry *find_tensor(zn_binder *b, const char *name, const int *shape, int n_dims)
{
    const zn_entry *e = zn_weights_get(b->w, name);
    char want[64] = "", have[96] = "";
    bool fits;

    if (!e) {
        zn_bind_fail(b, "there is no tensor '%s': not the weights of this model", name);
        return NULL;
    }
    while (n_dims > e->n_dims && n_dims > 1 && shape[n_dims - 1] == 1)
        n_dims--;
    fits = e->n_dims >= n_dims;
    for (int i = n_dims; i < e->n_dims; i++)
        fits = fits && e->shape[i] == 1;
    for (int i = 0; i < n_dims; i++) {
        fits = fits && e->shape[i] == shape[i];
        snprintf(want + strlen(want), sizeof want - strlen(want), "%s%d", i ? "x" : "", shape[i]);
    }
    for (int i = 0; i < e->n_dims; i++)
        snprintf(have + strlen(have), sizeof have - strlen(have), "%s%lld", i ? "x" : "", (long long)e->shape[i]);
    if (!fits) {
        zn_bind_fail(b, "tensor '%s' is %s where this model has %s", name, have, want);
        return NULL;
    }
    b->stored += zn_ahead_room(e);
    return through_reader(b, e);
}

/* False: the run that reads, or the opening, is cancelled. */
static bool may_go_on(zn_binder *b)
{
    if (b->run && (b->run->status || !zn_go_on(b->run))) /* packing may have been cancelled between two items */
        b->status = b->run->status;
    if (!b->status && b->progress && !b->counting && !b->progress(b->cookie, 0))
        b->status = zn_fail(b->err, ZN_E_CANCELLED, "cancelled");
    return !b->status;
}

/* The tensor's values as floats, malloced; NULL and the status set if it cannot be had.  wanted: false, they may be anything. */
static float *read_if(zn_binder *b, bool wanted, const char *name, const int *shape, int n_dims)
{
    const zn_entry *e;
    float *x;

    wanted = wanted && !b->counting;
    if (!may_go_on(b))
        return NULL;
    if (!b->w || b->outline)
        return state_tensor(b, name, shape, n_dims);
    if (!(e = find_tensor(b, name, shape, n_dims)))
        return NULL;
    x = wanted ? malloc((zn_entry_len(e) + 1) * sizeof *x) : calloc(zn_entry_len(e) + 1, sizeof *x);
    if (!x) {
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory while reading '%s'", name);
        return NULL;
    }
    if (wanted && (b->status = zn_entry_read(e, x, b->err))) {
        free(x);
        return NULL;
    }
    b->parameters += (int64_t)zn_entry_len(e);
    return x;
}

static float *read_tensor(zn_binder *b, const char *name, const int *shape, int n_dims)
{
    return read_if(b, true, name, shape, n_dims);
}

/* A tensor that goes to the device as it is, or packed. */
static float *read_to_send(zn_binder *b, const char *name, const int *shape, int n_dims)
{
    return read_if(b, !b->packed, name, shape, n_dims);
}

/* ---- packed in host memory ---------------------------------------------------------------------------------------- */

void zn_packed_clear(zn_packed *p)
{
    for (int i = p->next; i < p->n; i++)
        free(p->piece[i].data);
    free(p->piece);
    *p = (zn_packed){ 0 };
}

static void *take_here(zn_binder *b, size_t size)
{
    zn_packed *p = b->packs;
    void *more = p->bytes + size <= most_packed ? realloc(p->piece, (size_t)(p->n + 1) * sizeof *p->piece) : NULL;
    void *data = more ? calloc(1, size + 1) : NULL;

    p->piece = more ? more : p->piece;
    if (!data) {
        b->status = ZN_E_MEMORY;
        return NULL;
    }
    p->piece[p->n].data = data;
    p->piece[p->n++].size = size;
    p->bytes += size;
    return data;
}

/* The next piece to its place on the device. */
static void send_packed(zn_binder *b, void *to, size_t size)
{
    zn_packed *p = b->packed;

    if (p->next == p->n || p->piece[p->next].size != size) {
        zn_bind_fail(b, "a layer is larger than when it was first read");
        return;
    }
    b->be->upload(b->dev, to, p->piece[p->next].data, size);
    free(p->piece[p->next++].data);
}

/* To what take() gave. */
static void put(zn_binder *b, void *to, const void *from, size_t size)
{
    if (b->counting || b->packed)
        return;
    if (b->packs)
        memcpy(to, from, size);
    else
        b->be->upload(b->dev, to, from, size);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* A part of a layer's slot. */
static void *take_slot(zn_binder *b, size_t size)
{
    char *p = b->slot;

    if (size > b->slot_left) {
        zn_bind_fail(b, "a layer is larger than when it was first read");
        return NULL;
    }
    b->slot += size;
    b->slot_left -= size;
    return p;
}

/* Device memory that lives as long as the model. */
static void *take(zn_binder *b, size_t size)
{
    static char nowhere;
    const bool there = !b->counting && !b->slot && !b->packs;
    void **owned = there ? realloc(b->owned, (size_t)(b->n_owned + 1) * sizeof *owned) : NULL;
    void *p;

    size = (size + ROOM - 1) / ROOM * ROOM;
    b->bytes += size;
    if (b->slot)
        return take_slot(b, size);
    if (b->counting)
        return &nowhere;
    if (b->packs)
        return take_here(b, size);
    if (owned)
        b->owned = owned;
    p = owned ? b->be->alloc(b->dev, size) : NULL;
    if (p)
        b->owned[b->n_owned++] = p;
    else if (!(b->status = b->be->sync(b->dev, b->err))) /* a lost device has its own message */
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for the weights");
    if (p && b->packed)
        send_packed(b, p, size);
    return p;
}

/* So many floats are in host memory at a time. */
static void note_reading(zn_binder *b, size_t floats)
{
    const size_t bytes = floats * sizeof(float);

    b->reading = bytes > b->reading ? bytes : b->reading;
}

float *zn_bind_read(zn_binder *b, const int dims[4], const char *fmt, ...)
{
    char name[NAME_SIZE];
    size_t len = 1;
    int rank = 0;

    if (b->status)
        return NULL;
    ZN_FORMAT(name, fmt);
    for (; rank < 4 && dims[rank]; rank++)
        len *= (size_t)dims[rank];
    note_reading(b, 2 * len); /* the caller may need a copy in another order */
    return read_tensor(b, name, dims, rank);
}

float *zn_bind_read5(zn_binder *b, const int dims[5], const char *fmt, ...)
{
    char name[NAME_SIZE];

    if (b->status)
        return NULL;
    ZN_FORMAT(name, fmt);
    return read_tensor(b, name, dims, 5);
}

void *zn_bind_device(zn_binder *b, const void *host, size_t size)
{
    void *dev = b->status ? NULL : take(b, size);

    if (dev)
        put(b, dev, host, size);
    return dev;
}

void *zn_bind_made(zn_binder *b, const void *host, size_t size, const char *fmt, ...)
{
    char name[NAME_SIZE];

    if (b->status || !b->outline)
        return zn_bind_device(b, host, size);
    ZN_FORMAT(name, fmt);
    return zn_outline_address(b->outline, name);
}

/* n floats as bf16, in place: the writer never overtakes the reader. */
static void round_bf16(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint16_t v = zn_to_bf16(x[i]);

        memcpy((char *)x + sizeof v * i, &v, sizeof v);
    }
}

void *zn_bind_table(zn_binder *b, const int dims[2], zn_type type, const char *fmt, ...)
{
    enum { PIECE = 4096 * ZN_WHOLE_BLOCKS };
    const size_t len = (size_t)dims[0] * (size_t)dims[1], size = zn_type_size(type);
    char name[NAME_SIZE], *to;
    const zn_entry *e = NULL;
    size_t piece = len, n;
    float *x;

    if (b->status)
        return NULL;
    ZN_FORMAT(name, fmt);
    if (b->w && !b->outline && !(e = find_tensor(b, name, dims, 2)))
        return NULL;
    if (e && zn_entry_is_dense(e)) {
        piece = len < PIECE ? len : PIECE;
        b->parameters += (int64_t)len;
        if (!(x = malloc((piece + 1) * sizeof *x)))
            b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory while reading '%s'", name);
    } else {
        e = NULL;
        x = read_to_send(b, name, dims, 2);
    }
    to = b->status ? NULL : take(b, len * size);
    for (size_t at = 0; to && !b->status && !b->counting && !b->packed && at < len; at += n) {
        n = len - at < piece ? len - at : piece;
        if (!may_go_on(b) || (e && (b->status = zn_entry_read_as(e, type, x, at, n, b->err))))
            break;
        if (!e && type == ZN_BF16)
            round_bf16(x, n);
        put(b, to + at * size, x, n * size);
    }
    free(x);
    return to;
}

/* Device memory for a layer whose spec is complete; and the scratch memory it needs. */
static void take_conv(zn_binder *b, zn_conv *out, zn_conv spec)
{
    *out = spec;
    if (!b->status) {
        size_t scratch = b->be->conv_scratch(b->dev, out);

        b->scratch = scratch > b->scratch ? scratch : b->scratch;
        out->packed = take(b, b->be->conv_size(b->dev, out));
    }
}

void zn_bind_plain(zn_binder *b)
{
    if (b->be && b->be->plain_type)
        b->tensors = b->be->plain_type(b->dev, b->precision);
}

static zn_conv complete(const zn_binder *b, zn_conv spec)
{
    spec.stride = spec.stride ? spec.stride : 1;
    spec.groups = spec.groups ? spec.groups : 1;
    spec.precision = b->precision;
    spec.tensors = b->tensors;
    return spec;
}

void zn_bind_pack(zn_binder *b, zn_conv *out, zn_conv spec, const float *weight, const float *bias)
{
    take_conv(b, out, complete(b, spec));
    if (b->status || b->counting)
        return;
    if (!b->packs)
        b->be->conv_pack(b->dev, out, b->packed ? NULL : weight, b->packed ? NULL : bias);
    else if (!b->be->conv_pack_here(b->dev, out, weight, bias, out->packed))
        b->status = ZN_E_MEMORY;
}

typedef struct file_rows { /* of zn_row_source */
    const zn_entry *e;
    zn_wtype type;
    size_t cin;
    pthread_mutex_t lock; /* guards the rest: the first failure */
    zn_status status;
    zn_error err;
} file_rows;

static void note_failure(file_rows *r, zn_status s, const zn_error *err)
{
    if (!s)
        return;
    pthread_mutex_lock(&r->lock);
    if (!r->status) {
        r->status = s;
        r->err = *err;
    }
    pthread_mutex_unlock(&r->lock);
}

static void read_rows(void *cookie, int first, int n, void *q, uint16_t *scale)
{
    file_rows *r = cookie;
    zn_error err;

    note_failure(r, zn_entry_read_quantised(r->e, r->type, q, scale, (size_t)first * r->cin, (size_t)n * r->cin, &err),
                 &err);
}

static void read_rows_as(void *cookie, zn_type type, int first, int n, void *to)
{
    file_rows *r = cookie;
    zn_error err;

    note_failure(r, zn_entry_read_as(r->e, type, to, (size_t)first * r->cin, (size_t)n * r->cin, &err), &err);
}

/* A matrix that the device reads row by row, without ever being floats as a whole. */
static void bind_rows(zn_binder *b, zn_conv *out, zn_conv spec, const zn_entry *e, const float *bias)
{
    file_rows source = {
        .e = e, .type = zn_conv_weights(&spec), .cin = (size_t)spec.cin, .lock = PTHREAD_MUTEX_INITIALIZER
    };

    b->parameters += (int64_t)zn_entry_len(e);
    take_conv(b, out, spec);
    if (!b->status && !b->counting)
        b->be->conv_pack_rows(b->dev, out, &(zn_row_source){ read_rows, read_rows_as, &source, e->dtype }, bias);
    if (source.status && !b->status)
        b->status = zn_fail(b->err, source.status, "%s", source.err.text);
}

void zn_bind_conv(zn_binder *b, zn_conv *out, zn_conv spec, const char *fmt, ...)
{
    char name[NAME_SIZE], full[NAME_SIZE + 8];
    float *weight = NULL, *bias = NULL;
    const zn_entry *e = NULL; /* not NULL: read row by row */
    const zn_conv whole = complete(b, spec);
    const int cin = whole.cin / whole.groups;

    if (b->status)
        return;
    ZN_FORMAT(name, fmt);
    if (spec.cin % whole.groups || spec.cout % whole.groups) {
        zn_bind_fail(b, "'%s' has %d inputs and %d outputs, which %d groups cannot share", name, spec.cin, spec.cout,
                     whole.groups);
        return;
    }
    snprintf(full, sizeof full, "%s.weight", name);
    if (b->w && !b->outline && b->be->conv_pack_rows(b->dev, &whole, NULL, NULL)) {
        if (b->packs) /* such a layer is large, and read by several threads */
            b->status = ZN_E_MEMORY;
        if (!may_go_on(b) || !(e = find_tensor(b, full, (int[]){ spec.cout, cin }, 2)))
            return;
        e = zn_entry_is_dense(e) ? e : NULL;
    }
    if (!e) {
        note_reading(b, (size_t)spec.cout * ((size_t)cin * (size_t)(spec.kh * spec.kw) + 1));
        weight = read_to_send(b, full, (int[]){ spec.cout, cin, spec.kh, spec.kw }, 4);
    }
    if (b->outline && weight)
        b->outline->tensor[b->outline->n - 1].conv = spec;
    if (spec.has_bias && (weight || e)) {
        snprintf(full, sizeof full, "%s.bias", name);
        bias = read_to_send(b, full, (int[]){ spec.cout }, 1);
    }
    if (e)
        bind_rows(b, out, whole, e, bias);
    else
        zn_bind_pack(b, out, spec, weight, bias);
    if (b->outline) {
        snprintf(full, sizeof full, "%s.weight", name);
        out->packed = zn_outline_address(b->outline, full);
    }
    free(weight);
    free(bias);
}

static float *bind_vector(zn_binder *b, const char *name, int c)
{
    float *x = b->status ? NULL : read_to_send(b, name, (int[]){ c }, 1);
    float *dev = b->status ? NULL : take(b, (size_t)c * sizeof *dev);

    if (!b->status)
        put(b, dev, x, (size_t)c * sizeof *dev);
    free(x);
    return b->outline ? zn_outline_address(b->outline, name) : dev;
}

float *zn_bind_vector(zn_binder *b, int c, const char *fmt, ...)
{
    char name[NAME_SIZE];

    ZN_FORMAT(name, fmt);
    return bind_vector(b, name, c);
}

void zn_bind_norm(zn_binder *b, zn_norm *out, zn_norm spec, const char *fmt, ...)
{
    char name[NAME_SIZE], full[NAME_SIZE + 8];

    if (b->status)
        return;
    ZN_FORMAT(name, fmt);
    *out = spec;
    snprintf(full, sizeof full, "%s.weight", name);
    out->gamma = bind_vector(b, full, spec.c);
    snprintf(full, sizeof full, "%s.bias", name);
    out->beta = spec.no_bias ? NULL : bind_vector(b, full, spec.c);
}

/* ---- repeated layers --------------------------------------------------------------------------------- */

/* A slot for b->layers, and every layer's addresses in it; nothing is read. */
static void make_slot(zn_binder *b)
{
    zn_layers *l = &b->layers;
    const bool counting = b->counting;
    const size_t bytes = b->bytes;
    const int64_t parameters = b->parameters;
    const bool ahead = b->w && l->ahead;

    l->slot = b->status ? NULL : take(b, l->most);
    l->reader = b->status || !ahead ? NULL : zn_ahead_new();
    b->counting = true;
    for (int i = 0; i < l->n && !b->status; i++) {
        b->slot = l->slot;
        b->slot_left = l->most;
        if (ahead && (!l->reader || !zn_ahead_next_set(l->reader)))
            b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for the weights");
        else
            l->each(b, l->net, i);
    }
    if (l->reader && !b->status)
        b->status = zn_ahead_open(l->reader, b->err);
    b->slot = NULL;
    b->counting = counting;
    b->parameters = parameters;
    b->bytes = bytes + l->most;
}

void zn_bind_layers(zn_binder *b, void *net, int n, zn_bind_layer *each)
{
    zn_layers *l = &b->layers;
    const bool counting = b->counting;
    const size_t bytes = b->bytes, reading = b->reading;
    const int64_t parameters = b->parameters;

    if (n < 2) { /* streaming would save nothing */
        for (int i = 0; i < n; i++)
            each(b, net, i);
        return;
    }
    *l = (zn_layers){ .each = each, .net = net, .n = n, .first = b->n_owned };
    b->reading = 0;
    b->counting = counting || b->streams;
    for (int i = 0; i < n && !b->status; i++) {
        const size_t before = b->bytes, stored = b->stored;

        each(b, net, i);
        l->most = b->bytes - before > l->most ? b->bytes - before : l->most;
        l->ahead = b->stored - stored > l->ahead ? b->stored - stored : l->ahead;
    }
    b->counting = counting;
    l->bytes = b->bytes - bytes;
    l->ahead = l->most + l->ahead < l->bytes ? l->ahead : 0;
    l->n_owned = b->n_owned - l->first;
    l->parameters = b->parameters - parameters;
    l->reading = b->reading;
    b->reading = reading > b->reading ? reading : b->reading;
    if (b->streams) {
        b->bytes = bytes;
        make_slot(b);
    }
}

void zn_bind_stream(zn_binder *b)
{
    zn_layers *l = &b->layers;

    for (int i = l->first; i < l->first + l->n_owned; i++) {
        b->be->free(b->dev, b->owned[i]);
        b->owned[i] = NULL;
    }
    l->n_owned = 0;
    b->streams = true;
    b->bytes -= l->bytes;
    make_slot(b);
}

void zn_bind_end(zn_binder *b)
{
    zn_ahead_close(&b->layers.reader);
}

static bool go_on(void *cookie)
{
    return zn_go_on(cookie);
}

/* The files as they were when they were opened, and layer i read from them if there is a reader. */
static zn_status wait_for(const zn_binder *b, zn_ctx *c, int i)
{
    zn_ahead *reader = b->layers.reader;
    const zn_status read = reader ? zn_ahead_wait(reader, i, go_on, c, c->err) : ZN_OK;
    const zn_status changed = b->w && read != ZN_E_CANCELLED ? zn_weights_unchanged(b->w, c->err) : ZN_OK;

    return changed ? changed : read; /* the message about a changed file is better */
}

void zn_bind_fetch(zn_ctx *c, const void *binder, int i)
{
    zn_binder b = *(const zn_binder *)binder;

    b.err = c->err;
    b.run = c;
    b.slot = b.layers.slot;
    b.slot_left = b.layers.most;
    if (!b.slot)
        zn_ctx_fail(c, ZN_E_MEMORY, "out of memory for the weights");
    else if (!(b.status = wait_for(&b, c, i)))
        b.layers.each(&b, b.layers.net, i);
    if (!b.status && b.layers.reader)
        zn_ahead_start(b.layers.reader, (i + 1) % b.layers.n);
    if (!c->status)
        c->status = b.status;
}

/* ---- describing: bind on a device that keeps nothing ------------------------------------------------- */

static void *nowhere_alloc(void *dev, size_t size)
{
    static char place;

    (void)dev, (void)size;
    return &place;
}

static void nowhere_upload(void *dev, void *dst, const void *src, size_t size)
{
    (void)dev, (void)dst, (void)src, (void)size;
}

static zn_status nowhere_sync(void *dev, zn_error *err)
{
    (void)dev, (void)err;
    return ZN_OK;
}

static size_t nowhere_bytes(void *dev, const zn_conv *w)
{
    (void)dev, (void)w;
    return 0;
}

static void nowhere_conv_pack(void *dev, const zn_conv *w, const float *weight, const float *bias)
{
    (void)dev, (void)w, (void)weight, (void)bias;
}

static bool nowhere_conv_pack_rows(void *dev, const zn_conv *w, const zn_row_source *rows, const float *bias)
{
    (void)dev, (void)w, (void)rows, (void)bias;
    return false;
}

static const zn_backend nowhere = {
    .abi = ZN_BACKEND_ABI,
    .name = "nowhere",
    .alloc = nowhere_alloc,
    .upload = nowhere_upload,
    .sync = nowhere_sync,
    .conv_size = nowhere_bytes,
    .conv_scratch = nowhere_bytes,
    .conv_pack = nowhere_conv_pack,
    .conv_pack_rows = nowhere_conv_pack_rows,
};

zn_status zn_arch_describe(const zn_arch *a, void *net, zn_binder *b)
{
    b->be = &nowhere;
    a->bind(b, net);
    free(b->owned);
    b->owned = NULL;
    b->n_owned = 0;
    return b->status;
}
