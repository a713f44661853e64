/* SPDX-License-Identifier: MIT */
#include "arena.h"

#include <stdint.h>
#include <stdlib.h>

size_t zn_memory_setting(const char *name)
{
    const char *text = getenv(name);
    char *end = NULL;
    double mib = text ? strtod(text, &end) : 0;

    if (!text || end == text)
        return 0;
    if (*end == 'G' || *end == 'g')
        mib *= 1024, end++;
    else if (*end == 'M' || *end == 'm')
        end++;
    return !*end && mib >= 1 && mib <= 1e9 ? (size_t)(mib * 1048576) : 0;
}

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
