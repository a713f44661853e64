/* SPDX-License-Identifier: MIT */
/* weights.h - a set of named tensors out of weight files.
 *
 * weights.c opens paths and keeps the set; safetensors.c, torchzip.c (with pickle.c) and gguf.c each add the tensors of one file
 * to it.  An entry says where its elements are; zn_entry_read reads and converts them.  Files are read, not mapped: one
 * that shrinks meanwhile is an error, not a signal.  No more than one tensor is in memory at a time, or one layer
 * (ahead.h). */
#ifndef ZN_WEIGHTS_H
#define ZN_WEIGHTS_H

#include "quantise.h"
#include "status.h"
#include "tensor.h"

enum { ZN_MAX_DIMS = 8 };

struct zn_file;

typedef struct zn_entry {
    const char *name; /* owned by the set */
    zn_type dtype;
    int n_dims; /* 0: a scalar */
    int64_t shape[ZN_MAX_DIMS];
    int64_t stride[ZN_MAX_DIMS]; /* elements; C order unless a pickle says otherwise */
    const struct zn_file *file;  /* owned by the set */
    uint64_t at; /* its first byte; when the file was opened, every index that shape and stride allow was inside */
    /* Dense, owned by the set.  Of ZN_MLX4, ZN_MLX8: one of each per group; of ZN_F8_E4M3, or NULL: scales alone, one for the
     * tensor or one per row (quantise.h). */
    const struct zn_entry *scales, *offsets;
} zn_entry;

size_t zn_dtype_size(zn_type t); /* of an element; 0: it comes in blocks */
const char *zn_dtype_name(zn_type t);

const zn_entry *zn_weights_at(const zn_weights *w, int i);
const zn_entry *zn_weights_get(const zn_weights *w, const char *name); /* NULL: none */
const char *zn_weights_path(const zn_weights *w);                      /* the first file, for messages */

/* ZN_E_FILE if a file of the set is not what it was when it was opened, by its size and the time of its last change.  One that
 * was removed or replaced by another is still open, and is the same. */
zn_status zn_weights_unchanged(const zn_weights *w, zn_error *err);

/* The i-th pair of the metadata; false past the last. */
bool zn_weights_meta_at(const zn_weights *w, int i, const char **key, const char **value);

/* The number of elements; it fits in size_t (checked on open). */
size_t zn_entry_len(const zn_entry *e);

/* Reads all elements as floats in C order; dst has zn_entry_len floats.  Fails if the file has shrunk or cannot be read, and if
 * scaled e4m3 is not finite or a scale not positive. */
zn_status zn_entry_read(const zn_entry *e, float *dst, zn_error *err);

/* The same for n elements from `first` on of a dense tensor; of one that comes in blocks, whole blocks and groups
 * (ZN_WHOLE_BLOCKS is a multiple of all). */
enum { ZN_WHOLE_BLOCKS = 256 };
bool zn_entry_is_dense(const zn_entry *e);
zn_status zn_entry_read_part(const zn_entry *e, float *dst, size_t first, size_t n, zn_error *err);

/* The same as elements of type t: ZN_F32, ZN_F16 or ZN_BF16.  What is stored so is copied. */
zn_status zn_entry_read_as(const zn_entry *e, zn_type t, void *dst, size_t first, size_t n, zn_error *err);

/* The same as zn_quantise stores them, t being ZN_W_I8 or ZN_W_I4; first and n are whole groups.  q has zn_wtype_size(t, n) bytes,
 * scale one value a group.  Tensors in this form (matrices that zn_save_tensors wrote, Q8_0, Q4_0) are copied
 * unchanged, even -128 and -8; all others are quantised. */
zn_status zn_entry_read_quantised(const zn_entry *e, zn_wtype t, void *q, uint16_t *scale, size_t first, size_t n,
                                  zn_error *err);

/* From the first byte of its first element to the last one of its last. */
size_t zn_entry_span(const zn_entry *e);

#endif
