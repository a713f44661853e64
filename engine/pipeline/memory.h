/* SPDX-License-Identifier: MIT */
/* memory.h - arrays as pictures. */
#ifndef ZN_MEMORY_H
#define ZN_MEMORY_H

#include "../zenith.h"

typedef struct zn_memory { /* an array as a source or a sink */
    float *data;
    int32_t w, c;
} zn_memory;

bool zn_memory_read(void *cookie, zn_rect rect, float *dst);
bool zn_memory_write(void *cookie, zn_rect rect, const float *src);

/* The whole array, if the source is one; else NULL. */
const float *zn_memory_of(const zn_source *in);

#endif
