/* SPDX-License-Identifier: MIT */
/* weights.h - a set of named tensors out of weight files.
 *
 * weights.c opens paths and keeps the set; safetensors.c and torchzip.c (with pickle.c) each add the
 * tensors of one mapped file to it.  Nothing is copied: an entry points into the mapping, at any
 * alignment, and zn_entry_read converts while it copies. */
#ifndef ZN_WEIGHTS_H
#define ZN_WEIGHTS_H

#include "status.h"

typedef enum zn_dtype {
    ZN_BOOL, ZN_U8, ZN_I8, ZN_I16, ZN_U16, ZN_I32, ZN_U32, ZN_I64, ZN_U64,
    ZN_F16, ZN_BF16, ZN_F32, ZN_F64, ZN_F8_E4M3, ZN_F8_E5M2,
    ZN_N_DTYPES
} zn_dtype;

enum { ZN_MAX_DIMS = 8 };

typedef struct zn_entry {
    const char *name;            /* owned by the set */
    zn_dtype dtype;
    int n_dims;                  /* 0: a scalar */
    int64_t shape[ZN_MAX_DIMS];
    int64_t stride[ZN_MAX_DIMS]; /* elements; C order unless a pickle says otherwise */
    const unsigned char *data;   /* unaligned; every index that shape and stride allow is inside */
} zn_entry;

size_t zn_dtype_size(zn_dtype t);
const char *zn_dtype_name(zn_dtype t);

const zn_entry *zn_weights_at(const zn_weights *w, int i);
const zn_entry *zn_weights_get(const zn_weights *w, const char *name); /* NULL: none */
const char *zn_weights_meta(const zn_weights *w, const char *key);    /* __metadata__, or NULL */
const char *zn_weights_path(const zn_weights *w);                     /* the first file, for messages */

/* The number of elements; it fits in size_t (checked on open). */
size_t zn_entry_len(const zn_entry *e);

/* Converts to float in C order; dst has zn_entry_len floats. */
void zn_entry_read(const zn_entry *e, float *dst);

#endif
