/* SPDX-License-Identifier: MIT */
/* generate_noise.c - what pictures begin with: made by a thread of its own, or cut out for a tile. */
#include "generate.h"

#include <string.h>

static void *make(void *cookie)
{
    const zn_early_noise *k = cookie;

    for (int32_t i = 0; i < k->n; i++)
        zn_noise_fill(k->to + k->len * (size_t)i, k->len, k->seed + (uint32_t)i, 0);
    return NULL;
}

void zn_early_noise_begin(zn_early_noise *k)
{
    k->begun = true;
    k->apart = !pthread_create(&k->maker, NULL, make, k);
    if (!k->apart)
        make(k);
}

bool zn_early_noise_end(zn_early_noise *k)
{
    const bool made = k->begun;

    if (k->begun && k->apart)
        pthread_join(k->maker, NULL);
    k->begun = false;
    return made;
}

void zn_noise_cut(float *dst, const zn_array *noise, zn_rect at, const zn_array *z)
{
    enum { FACTOR = ZN_GENERATE_FACTOR, CHANNELS = ZN_GENERATE_CHANNELS };
    const size_t row = (size_t)z->w * CHANNELS;

    for (int32_t y = 0; y < z->h; y++)
        memcpy(dst + (size_t)y * row,
               noise->data + ((size_t)(at.y / FACTOR + y) * (size_t)noise->w + (size_t)(at.x / FACTOR)) * CHANNELS,
               row * sizeof *dst);
}
