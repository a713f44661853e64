/* SPDX-License-Identifier: MIT */
/* arch.h - what a model file provides, and what it is given to read its weights with.
 *
 * A model is one .c file that ends in a zn_arch, and one line in registry.c. */
#ifndef ZN_ARCH_H
#define ZN_ARCH_H

#include "../core/weights.h"
#include "../ops.h"

/* ---- reading weights ---------------------------------------------------------------------------- */

/* The status is sticky: a wrong name or shape is kept, and the calls after it do nothing. */
typedef struct zn_binder {
    const zn_weights *w;
    const zn_backend *be;
    void *dev;
    zn_precision precision; /* of the model */
    zn_status status;
    zn_error *err;
    void **owned; /* device memory handed to the model; freed with it */
    int n_owned;
    int64_t parameters;
    zn_geometry geometry; /* set by bind */
    char variant[96];     /* set by bind: "taef2, 32 latent channels" */
} zn_binder;

/* Is there such a tensor; its size along a dimension (0 if there is none). */
bool zn_bind_has(const zn_binder *b, const char *fmt, ...) ZN_PRINTF(2, 3);
int zn_bind_dim(const zn_binder *b, int dim, const char *fmt, ...) ZN_PRINTF(3, 4);

/* Reads NAME.weight (and NAME.bias if spec.has_bias) and packs them.  In spec, a stride or groups of 0
 * reads as 1. */
void zn_bind_conv(zn_binder *b, zn_conv *out, zn_conv spec, const char *fmt, ...) ZN_PRINTF(4, 5);
/* Packs what is in host memory: weight [cout][cin/groups][kh][kw], bias [cout] or NULL. */
void zn_bind_pack(zn_binder *b, zn_conv *out, zn_conv spec, const float *weight, const float *bias);
/* Reads NAME.weight and NAME.bias, spec.c each. */
void zn_bind_norm(zn_binder *b, zn_norm *out, zn_norm spec, const char *fmt, ...) ZN_PRINTF(4, 5);
/* The tensor of these dimensions (0 ends the list) in host memory, to be freed by the caller; NULL: failed. */
float *zn_bind_read(zn_binder *b, const int dims[4], const char *fmt, ...) ZN_PRINTF(3, 4);
/* A copy in device memory that lives as long as the model; NULL: failed. */
void *zn_bind_device(zn_binder *b, const void *host, size_t size);
void zn_bind_fail(zn_binder *b, const char *fmt, ...) ZN_PRINTF(2, 3);

/* k x k, same size out as in (for odd k), with bias. */
static inline zn_conv zn_conv_same(int k, int cin, int cout)
{
    return (zn_conv){ .kh = k,
                      .kw = k,
                      .stride = 1,
                      .groups = 1,
                      .cin = cin,
                      .cout = cout,
                      .pad_t = k / 2,
                      .pad_l = k / 2,
                      .has_bias = true };
}

/* ---- weights out of nothing: for the self-test and for benchmarks without a file ----------------- */

typedef struct zn_invented zn_invented;

/* Adds a tensor of these dimensions (0 ends the list) with values that keep activations near 1. */
void zn_invent(zn_invented *v, const char *name, const int dims[4]);
/* Adds a string to the file's metadata: at most once, before the first tensor. */
void zn_invent_meta(zn_invented *v, const char *key, const char *value);
/* *memory is to be freed after the set is closed. */
zn_status zn_weights_invent(zn_weights **out, void **memory, void (*list)(zn_invented *v), zn_error *err);

/* ---- the model ------------------------------------------------------------------------------------- */

typedef struct zn_call {
    zn_tensor in[ZN_MAX_PORTS], out[ZN_MAX_PORTS]; /* in[i].data NULL: an optional input is absent */
    int n_in, n_out;
    const float *set; /* one number per setting of the info, in its order */
    int left, top;    /* a model that crops: out[0] is the part of in[0] that begins here */
} zn_call;

typedef struct zn_arch {
    zn_model_info info;
    size_t size; /* of the struct that bind fills, zeroed before */
    bool (*recognise)(const zn_weights *w, char *what, size_t size);
    void (*bind)(zn_binder *b, void *net);
    void (*forward)(zn_ctx *c, const void *net, const zn_call *call);
    /* Fills the sizes of out[]; false: these inputs do not fit.  NULL: an image model, see geometry. */
    bool (*shape)(const void *net, const zn_tensor *in, int n_in, zn_tensor *out);
    void (*invent)(zn_invented *v); /* the model's usual size; NULL: needs no weights */
    /* The first three settings are the noise of red, green and blue.  The pipeline fills in those that are 0, from
     * the whole picture, before the first tile. */
    bool takes_sigma;
    bool crops; /* writes a tile's own pixels only, and drops its halo step by step */
} zn_arch;

extern const zn_arch *const zn_archs[]; /* NULL ends; registry.c */

#endif
