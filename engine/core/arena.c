/* SPDX-License-Identifier: MIT */
#include "arena.h"

#include <stdint.h>

void *zn_arena_take(zn_arena *a, size_t size)
{
    size_t from = a->used;

    if (size > SIZE_MAX - ZN_ALIGN)
        return NULL;
    size = (size + ZN_ALIGN - 1) / ZN_ALIGN * ZN_ALIGN;
    if (size > a->size - from)
        return NULL;
    a->used = from + size;
    if (a->used > a->peak)
        a->peak = a->used;
    /* A counting arena still has to give something other than NULL. */
    return a->base ? a->base + from : (char *)(uintptr_t)ZN_ALIGN + from;
}
