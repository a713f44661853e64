/* SPDX-License-Identifier: MIT */
/* addresses.c - see the header. */
#include "addresses.h"

block *zn_vk_holder(const zn_vk *d, const void *address)
{
    const list *l = &d->memories->device;
    const uint64_t a = (uint64_t)(uintptr_t)address;
    int low = 0, high = l->n;

    while (high - low > 1) {
        const int mid = (low + high) / 2;

        if (l->at[mid].address <= a)
            low = mid;
        else
            high = mid;
    }
    return l->n && a >= l->at[low].address && a - l->at[low].address < l->at[low].size ? &l->at[low] : NULL;
}

bool zn_vk_find(const zn_vk *d, const void *address, zn_vk_place *at)
{
    const block *b = zn_vk_holder(d, address);

    if (!b)
        return false;
    at->buffer = b->buffer;
    at->offset = (size_t)((uint64_t)(uintptr_t)address - b->address);
    at->size = b->size - at->offset;
    return true;
}

VkBuffer zn_vk_nothing(const zn_vk *d)
{
    return d->memories->nothing.buffer;
}
