/* SPDX-License-Identifier: MIT */
#include "memory.h"

#include <string.h>

static void copy_rect(float *dst, size_t dst_w, const float *src, size_t src_w, zn_rect rect, size_t c)
{
    for (int32_t i = 0; i < rect.h; i++)
        memcpy(dst + (size_t)i * dst_w * c, src + (size_t)i * src_w * c, (size_t)rect.w * c * sizeof *dst);
}

bool zn_memory_read(void *cookie, zn_rect rect, float *dst)
{
    const zn_memory *mem = cookie;
    size_t at = ((size_t)rect.y * (size_t)mem->w + (size_t)rect.x) * (size_t)mem->c;

    copy_rect(dst, (size_t)rect.w, mem->data + at, (size_t)mem->w, rect, (size_t)mem->c);
    return true;
}

bool zn_memory_write(void *cookie, zn_rect rect, const float *src)
{
    const zn_memory *mem = cookie;
    size_t at = ((size_t)rect.y * (size_t)mem->w + (size_t)rect.x) * (size_t)mem->c;

    copy_rect(mem->data + at, (size_t)mem->w, src, (size_t)rect.w, rect, (size_t)mem->c);
    return true;
}

const float *zn_memory_of(const zn_source *in)
{
    const zn_memory *mem = in->read == zn_memory_read ? in->cookie : NULL;

    return mem && mem->w == in->w && mem->c == in->c ? mem->data : NULL;
}
