/* SPDX-License-Identifier: MIT */
/* weightfile.h - what the readers of weight files share; only they and their tests include it.
 *
 *     paths ── weights.c ── open, look at the first bytes ─┬── safetensors.c ── json.c
 *                 ▲                                        ├── torchzip.c ── pickle.c
 *                 │                                        └── gguf.c
 *                 └───────── zn_weights_add, once per tensor ─────────┘ */
#ifndef ZN_WEIGHTFILE_H
#define ZN_WEIGHTFILE_H

#include "weights.h"

#include <time.h>

#ifndef ZN_WRITTEN /* when a file's content was last changed, as exactly as the system tells */
#define ZN_WRITTEN(st) ((st).st_mtim)
#endif

enum {
    ZN_MAX_TENSORS = 1000000,
    ZN_MAX_NAME = 1024, /* bytes of a tensor's name */
};

/* One file: a descriptor, or bytes in memory that outlive the set. */
typedef struct zn_file {
    const char *label;       /* how messages call it */
    uint64_t size;           /* when it was opened */
    struct timespec written; /* likewise: when its content was last changed */
    int fd;                  /* -1: in memory */
    bool scaled;             /* its e4m3 tensors have scales */
    const unsigned char *data;
    unsigned char first[512]; /* its beginning; zeros after its end */
} zn_file;

/* The bytes from `at` on, into dst or into new memory that the caller frees; inside the size. */
zn_status zn_file_read(const zn_file *f, uint64_t at, void *dst, size_t size, zn_error *err);
zn_status zn_file_copy(unsigned char **out, const zn_file *f, uint64_t at, uint64_t size, zn_error *err);

/* Memory that lives as long as the set; NULL when there is none. */
void *zn_weights_alloc(zn_weights *w, size_t size);

/* Adds a tensor of the file being read; e->name must live as long as the set. */
zn_status zn_weights_add(zn_weights *w, const zn_entry *e, zn_error *err);

/* Adds a pair of strings that live as long as the set.  The first one of a key counts. */
zn_status zn_weights_add_meta(zn_weights *w, const char *key, const char *value, zn_error *err);

/* Reads a whole set out of memory, which must outlive it; label is for messages. */
zn_status zn_weights_open_memory(zn_weights **out, const void *data, size_t size, const char *label, zn_error *err);

/* Each adds all the tensors of one file, after checking that every one is inside it. */
zn_status zn_safetensors_read(zn_weights *w, const zn_file *f, zn_error *err);
zn_status zn_torchzip_read(zn_weights *w, const zn_file *f, zn_error *err);
zn_status zn_gguf_read(zn_weights *w, const zn_file *f, zn_error *err);

/* A type whose elements come in blocks: `len` of them in `size` bytes, which read() makes floats.  NULL: a plain type. */
typedef struct zn_block {
    const char *name;
    size_t len, size;
    void (*read)(float *y, const unsigned char *p);
} zn_block;

const zn_block *zn_block_of(zn_type t);

enum { ZN_MLX_GROUP = 32 };

/* zn_entry_read_part for a type that comes in blocks. */
zn_status zn_blocks_read(const zn_entry *e, float *dst, size_t first, size_t n, zn_error *err);

/* e4m3 with scales: multiplies x, its n elements from `first` on, by the scale of their row, or of the tensor. */
zn_status zn_rows_scale(const zn_entry *e, float *x, size_t first, size_t n, zn_error *err);

/* False if the shape has a negative size, or if a product of its non-zero sizes and of the element's
 * size overflows int64_t: a shape that passes can be multiplied in any order. */
bool zn_shape_ok(const int64_t *shape, int n_dims, zn_type t);

/* File formats here are little-endian; so are the machines we build for. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "needs a little-endian machine");

static inline uint16_t zn_le16(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t zn_le32(const unsigned char *p)
{
    return zn_le16(p) | (uint32_t)zn_le16(p + 2) << 16;
}

static inline uint64_t zn_le64(const unsigned char *p)
{
    return zn_le32(p) | (uint64_t)zn_le32(p + 4) << 32;
}

#endif
