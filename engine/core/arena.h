/* SPDX-License-Identifier: MIT */
/* arena.h - bump allocation with marks, inside one block of device memory.
 *
 * A counting arena (base NULL) hands out addresses that must not be used; its peak tells how much
 * memory the same sequence of calls needs. */
#ifndef ZN_ARENA_H
#define ZN_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct zn_arena {
    char *base;  /* NULL: only counts */
    size_t size; /* of the block; SIZE_MAX when counting */
    size_t used, peak;
} zn_arena;

enum { ZN_ALIGN = 128 };

/* NULL when the block is full (never when counting, short of an overflow of size_t). */
void *zn_arena_take(zn_arena *a, size_t size);

static inline size_t zn_mark(const zn_arena *a)
{
    return a->used;
}

static inline void zn_reset(zn_arena *a, size_t mark)
{
    a->used = mark;
}

#endif
