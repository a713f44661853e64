/* SPDX-License-Identifier: MIT */
/* pickle.h - reads the part of Python's pickle format that PyTorch's files are made of.
 *
 * Nothing is ever executed: dictionaries, lists, numbers, strings and PyTorch's tensors become
 * values; every other object becomes one opaque value, whatever it was meant to do. */
#ifndef ZN_PICKLE_H
#define ZN_PICKLE_H

#include "weights.h"

typedef enum zn_pkind {
    ZN_P_NONE,
    ZN_P_BOOL,
    ZN_P_INT,
    ZN_P_FLOAT,
    ZN_P_STR,
    ZN_P_BYTES,
    ZN_P_TUPLE,
    ZN_P_LIST,
    ZN_P_DICT,
    ZN_P_GLOBAL,  /* a class or a function, by name */
    ZN_P_STORAGE, /* bytes outside the pickle, by key */
    ZN_P_TENSOR,
    ZN_P_OPAQUE,
} zn_pkind;

typedef struct zn_text {
    const char *s; /* inside the pickle: not terminated, may hold any byte */
    size_t len;
} zn_text;

typedef struct zn_pvalue zn_pvalue;

typedef struct zn_ptensor {
    const zn_pvalue *storage;
    int dtype;          /* a zn_type; -1: one we do not know */
    zn_text dtype_name; /* "HalfStorage", "float8_e4m3fn" */
    int64_t offset;     /* elements, as are the strides; nothing here is checked but n_dims */
    int n_dims;
    int64_t shape[ZN_MAX_DIMS], stride[ZN_MAX_DIMS];
} zn_ptensor;

struct zn_pvalue {
    zn_pkind kind;
    union {
        int64_t i; /* BOOL, INT */
        double f;
        zn_text text; /* STR, BYTES */
        struct {
            const zn_pvalue **item; /* a DICT's are key, value, key, value...; the last of a key counts */
            size_t n, cap;
        } list; /* TUPLE, LIST, DICT */
        struct {
            zn_text module, name;
        } global;
        struct {
            zn_text key, type; /* type: "FloatStorage" */
            int dtype;         /* -1: unknown or untyped */
            int64_t len;       /* elements; bytes when untyped */
        } storage;
        const zn_ptensor *tensor;
    };
};

typedef struct zn_pickle zn_pickle;

/* The bytes must outlive the pickle, whose texts point into them; label is for messages. */
zn_status zn_pickle_open(zn_pickle **out, const void *data, size_t size, const char *label, zn_error *err);
void zn_pickle_close(zn_pickle **p);
const zn_pvalue *zn_pickle_root(const zn_pickle *p);

bool zn_text_is(zn_text t, const char *s);

#endif
