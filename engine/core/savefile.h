/* SPDX-License-Identifier: MIT */
/* savefile.h - writes safetensors files.
 *
 * Tensors are written one after the other, each from floats in memory or from an entry of an open weight file, of which no
 * more than some pieces are in memory at a time.  The file is written completely or not at all (zn_write_file). */
#ifndef ZN_SAVEFILE_H
#define ZN_SAVEFILE_H

#include "quantise.h"
#include "weights.h"

typedef enum zn_save_role {
    ZN_SAVE_ALL,
    ZN_SAVE_WORDS,
    ZN_SAVE_SCALES,
    ZN_SAVE_OFFSETS,
    ZN_SAVE_E4M3,
    ZN_SAVE_ROW_SCALES
} zn_save_role;

typedef struct zn_save_tensor {
    const char *name;
    zn_type type; /* F32, F16 or BF16; or, for an entry, its own type: its bytes are copied; or that of a part, below */
    int n_dims;
    int64_t shape[ZN_MAX_DIMS];
    const float *data;    /* in C order; or */
    const zn_entry *from; /* an entry with as many elements, whose set is open */
    /* Not ZN_SAVE_ALL: one of the three tensors of a matrix of 4 or 8 bits in the layout of MLX, with the values that
     * zn_quantise gives: words of ZN_U32, [rows][cols * bits / 32]; scales and offsets of ZN_F16, [rows][cols / 32].  Or one of
     * the two of e4m3: ZN_F8_E4M3 in the shape of the entry, and scales of ZN_F32, [rows]. */
    zn_save_role part;
    zn_wtype wtype; /* of a part in the layout of MLX: ZN_W_I4, ZN_W_I8 */
} zn_save_tensor;

/* meta: pairs of strings; NULL ends it; may be NULL.  A value that fp16 or bf16 cannot hold is a failure that names the
 * tensor, and so is a name that occurs twice. */
zn_status zn_save_tensors(const char *path, const zn_save_tensor *tensors, size_t n, const char *const *meta,
                          zn_error *err);

#endif
