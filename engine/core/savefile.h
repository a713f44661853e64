/* SPDX-License-Identifier: MIT */
/* savefile.h - writes safetensors files.
 *
 * Tensors are written one after the other, each from floats in memory or from an entry of an open weight file, of which no
 * more than a piece is in memory at a time.  The file appears whole or not at all (zn_write_file). */
#ifndef ZN_SAVEFILE_H
#define ZN_SAVEFILE_H

#include "weights.h"

typedef struct zn_save_tensor {
    const char *name;
    zn_type type; /* F32, F16 or BF16; or, for an entry, its own type: its bytes are copied */
    int n_dims;
    int64_t shape[ZN_MAX_DIMS];
    const float *data;    /* in C order; or */
    const zn_entry *from; /* an entry with as many elements, whose set is open */
} zn_save_tensor;

/* meta: pairs of strings; NULL ends it; may be NULL.  A value that fp16 or bf16 cannot hold is a failure that names the
 * tensor, and so is a name that occurs twice. */
zn_status zn_save_tensors(const char *path, const zn_save_tensor *tensors, size_t n, const char *const *meta,
                          zn_error *err);

#endif
