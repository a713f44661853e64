/* SPDX-License-Identifier: MIT */
/* device.h - what the operations of the CPU backend share. */
#ifndef ZN_DEVICE_H
#define ZN_DEVICE_H

#include "../core/arena.h"
#include "../special.h"
#include "kernels.h"

enum {
    ZN_SCRATCH = 2 << 20,   /* bytes of scratch memory per worker, and once more for the whole device */
    ZN_EXPANDED = 40 << 20, /* bytes of weights that Winograd transforms at a time; untouched until it does */
    ZN_ZEROS = 1024,        /* floats of zeros to point padding at: the longest cut of a sum */
    ZN_CPU_MAX_C = 1 << 15  /* channels of a normalised tensor */
};

typedef struct zn_cpu {
    const zn_kernels *k;
    zn_dot8_form dot8;         /* of k's */
    const zn_panel_form *half; /* products of halves; NULL: this CPU has none */
    const zn_tile_form *tiles; /* of tiles likewise */
    zn_pool *pool;
    char *scratch;   /* ZN_SCRATCH bytes for each worker, then those of the device, the zeros, and `expanded` */
    void *shared;    /* ZN_SCRATCH bytes; of the operation, not of a worker */
    float *expanded; /* ZN_EXPANDED bytes likewise */
    const float *zeros;
} zn_cpu;

static inline void *zn_cpu_scratch(const zn_cpu *d, int worker)
{
    return d->scratch + (size_t)worker * ZN_SCRATCH;
}

/* In a tail handed to an operation, gain 0 reads as 1; in one handed to a kernel it is 0. */
static inline zn_tail zn_cpu_tail(zn_tail t)
{
    if (t.gain == 0)
        t.gain = 1;
    return t;
}

/* A pixel of a tensor of any type. */
static inline void *zn_cpu_pixel(zn_tensor t, size_t pixel)
{
    return (char *)t.data + pixel * (size_t)t.ld * zn_type_size(t.type);
}

static inline const float *zn_residual_at(const zn_tail *t, size_t pixel)
{
    return t->residual ? zn_cpu_pixel(*t->residual, pixel) : NULL;
}

/* Items of about `each` units out of n, one at least: how a loop is cut.  Depends on nothing else, so
 * that the cut, and with it every rounding, is the same for every number of threads. */
static inline int zn_items(size_t n, size_t each)
{
    return (int)((n + each - 1) / each);
}

/* n elements of a tensor's type from and to floats. */
void zn_cpu_round(void *y, zn_type type, const float *x, size_t n);
void zn_cpu_widen(float *y, const void *x, zn_type type, size_t n);

/* The operations, as in backend.h. */
size_t zn_cpu_conv_size(void *dev, const zn_conv *w);
void zn_cpu_conv_pack(void *dev, const zn_conv *w, const float *weight, const float *bias);
bool zn_cpu_conv_pack_rows(void *dev, const zn_conv *w, const zn_row_source *rows, const float *bias);
size_t zn_cpu_conv_scratch(void *dev, const zn_conv *w);
zn_wtype zn_cpu_conv_inputs(void *dev, const zn_conv *w);
int zn_cpu_conv_block(void *dev, const zn_conv *w);
void zn_cpu_conv2d(void *dev, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t);
void zn_cpu_group_scales(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w);
void zn_cpu_norm(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w, const zn_modulation *m, zn_tail t);
void zn_cpu_attention(void *dev, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, const zn_attention *a);
void zn_cpu_rope(void *dev, zn_tensor y, zn_tensor x, const zn_rope *r);
void zn_cpu_lookup(void *dev, zn_tensor y, zn_tensor table, zn_tensor index);
void zn_cpu_resize(void *dev, zn_tensor y, zn_tensor x, zn_filter f);
void zn_cpu_unshuffle(void *dev, zn_tensor y, zn_tensor x, int r);
void zn_cpu_shuffle(void *dev, zn_tensor y, zn_tensor x, int r, zn_tail t);
void zn_cpu_map(void *dev, zn_tensor y, zn_tensor x, zn_tail t);
void zn_cpu_binary(void *dev, zn_tensor y, zn_tensor a, zn_tensor b, zn_binary op, zn_tail t);
void zn_cpu_step(void *dev, zn_tensor y, zn_tensor x, zn_tensor p, zn_tensor coefs, float clip);
void zn_cpu_fill(void *dev, zn_tensor y, const float *value);
void zn_cpu_gated(void *dev, zn_tensor y, zn_tensor x, const zn_gated *w);
void zn_cpu_fwht(void *dev, zn_tensor y, zn_tensor x, const zn_fwht *w);
void zn_cpu_pruned(void *dev, zn_tensor y, zn_tensor mask, zn_tensor x, const zn_pruned *w);

/* A gated block, fast (gated_strip.c); false: not with these kernels, or not with so many channels. */
bool zn_cpu_gated_strips(zn_cpu *d, zn_tensor y, zn_tensor x, const zn_gated *w);

/* The plain formula of the scalar backend (formula.c). */
void zn_formula_attention(zn_cpu *d, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, const zn_attention *a);

#endif
