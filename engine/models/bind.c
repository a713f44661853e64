/* SPDX-License-Identifier: MIT */
/* bind.c - named tensors of a file become packed weights of a model. */
#include "arch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 256 };

#define FORMAT_NAME(name, fmt)                                                                                         \
    do {                                                                                                               \
        va_list ap_;                                                                                                   \
        va_start(ap_, fmt);                                                                                            \
        vsnprintf(name, sizeof name, fmt, ap_);                                                                        \
        va_end(ap_);                                                                                                   \
    } while (0)

void zn_bind_fail(zn_binder *b, const char *fmt, ...)
{
    char text[NAME_SIZE * 2];

    FORMAT_NAME(text, fmt);
    if (!b->status)
        b->status = zn_fail(b->err, ZN_E_FILE, "%s: %s", zn_weights_path(b->w), text);
}

bool zn_bind_has(const zn_binder *b, const char *fmt, ...)
{
    char name[NAME_SIZE];

    FORMAT_NAME(name, fmt);
    return zn_weights_get(b->w, name) != NULL;
}

int zn_bind_dim(const zn_binder *b, int dim, const char *fmt, ...)
{
    char name[NAME_SIZE];
    const zn_entry *e;

    FORMAT_NAME(name, fmt);
    e = zn_weights_get(b->w, name);
    return e && dim < e->n_dims && e->shape[dim] <= INT32_MAX ? (int)e->shape[dim] : 0;
}

/* The tensor's values as floats, malloced; NULL and the status set if it is not there or of another
 * shape.  A 1x1 convolution may be stored as a matrix. */
static float *read_tensor(zn_binder *b, const char *name, const int *shape, int n_dims)
{
    const zn_entry *e = zn_weights_get(b->w, name);
    char want[64] = "", have[96] = "";
    bool fits;
    float *x;

    if (!e) {
        zn_bind_fail(b, "there is no tensor '%s': not the weights of this model", name);
        return NULL;
    }
    while (n_dims > e->n_dims && n_dims > 1 && shape[n_dims - 1] == 1)
        n_dims--;
    fits = e->n_dims == n_dims;
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
    x = malloc((zn_entry_len(e) + 1) * sizeof *x);
    if (!x) {
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory while reading '%s'", name);
        return NULL;
    }
    zn_entry_read(e, x);
    b->parameters += (int64_t)zn_entry_len(e);
    return x;
}

/* Device memory that lives as long as the model. */
static void *take(zn_binder *b, size_t size)
{
    void **owned = realloc(b->owned, (size_t)(b->n_owned + 1) * sizeof *owned);
    void *p;

    if (owned)
        b->owned = owned;
    p = owned ? b->be->alloc(b->dev, size) : NULL;
    if (p)
        b->owned[b->n_owned++] = p;
    else if (!(b->status = b->be->sync(b->dev, b->err))) /* a lost device has its own sentence */
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for the weights");
    return p;
}

float *zn_bind_read(zn_binder *b, const int dims[4], const char *fmt, ...)
{
    char name[NAME_SIZE];
    int rank = 0;

    if (b->status)
        return NULL;
    FORMAT_NAME(name, fmt);
    while (rank < 4 && dims[rank])
        rank++;
    return read_tensor(b, name, dims, rank);
}

void *zn_bind_device(zn_binder *b, const void *host, size_t size)
{
    void *dev = b->status ? NULL : take(b, size);

    if (dev)
        b->be->upload(b->dev, dev, host, size);
    return dev;
}

void zn_bind_pack(zn_binder *b, zn_conv *out, zn_conv spec, const float *weight, const float *bias)
{
    spec.stride = spec.stride ? spec.stride : 1;
    spec.groups = spec.groups ? spec.groups : 1;
    spec.precision = b->precision;
    *out = spec;
    if (!b->status)
        out->packed = take(b, b->be->conv_size(b->dev, out));
    if (!b->status)
        b->be->conv_pack(b->dev, out, weight, bias);
}

void zn_bind_conv(zn_binder *b, zn_conv *out, zn_conv spec, const char *fmt, ...)
{
    char name[NAME_SIZE], full[NAME_SIZE + 8];
    float *weight = NULL, *bias = NULL;
    int groups = spec.groups ? spec.groups : 1;

    if (b->status)
        return;
    FORMAT_NAME(name, fmt);
    snprintf(full, sizeof full, "%s.weight", name);
    weight = read_tensor(b, full, (int[]){ spec.cout, spec.cin / groups, spec.kh, spec.kw }, 4);
    if (spec.has_bias && weight) {
        snprintf(full, sizeof full, "%s.bias", name);
        bias = read_tensor(b, full, (int[]){ spec.cout }, 1);
    }
    zn_bind_pack(b, out, spec, weight, bias);
    free(weight);
    free(bias);
}

static float *bind_vector(zn_binder *b, const char *name, int c)
{
    float *x = b->status ? NULL : read_tensor(b, name, (int[]){ c }, 1);
    float *dev = b->status ? NULL : take(b, (size_t)c * sizeof *dev);

    if (!b->status)
        b->be->upload(b->dev, dev, x, (size_t)c * sizeof *dev);
    free(x);
    return dev;
}

void zn_bind_norm(zn_binder *b, zn_norm *out, zn_norm spec, const char *fmt, ...)
{
    char name[NAME_SIZE], full[NAME_SIZE + 8];

    if (b->status)
        return;
    FORMAT_NAME(name, fmt);
    *out = spec;
    snprintf(full, sizeof full, "%s.weight", name);
    out->gamma = bind_vector(b, full, spec.c);
    snprintf(full, sizeof full, "%s.bias", name);
    out->beta = bind_vector(b, full, spec.c);
}
