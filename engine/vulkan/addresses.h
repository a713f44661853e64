/* SPDX-License-Identifier: MIT */
/* addresses.h - the blocks of device memory, and which of them holds an address. */
#ifndef ZN_VULKAN_ADDRESSES_H
#define ZN_VULKAN_ADDRESSES_H

#include "vulkan.h"

enum { N_CHUNKS = 4 }; /* staging buffers */

/* A buffer with its memory.  `used` and `pieces` are of slabs, which are freed as a whole. */
typedef struct block {
    uint64_t address; /* 0: host memory alone */
    size_t size, used;
    int pieces;
    bool slab;
    VkBuffer buffer;
    VkDeviceMemory memory;
    char *mapped; /* NULL: the host cannot see it */
} block;

typedef struct list {
    block *at;
    int n, room;
} list;

typedef struct grows {
    void *at;
    size_t size;
} grows;

struct zn_vk_memory {
    list device; /* in the order of their addresses */
    list host;
    uint64_t next; /* address */
    block nothing;
    block staging[N_CHUNKS];
    uint64_t busy[N_CHUNKS]; /* the submission that uses it */
    int chunk;
    grows scratch, weights;
    VkPhysicalDeviceMemoryProperties types;
};

/* The block that holds the address, or NULL. */
block *zn_vk_holder(const zn_vk *d, const void *address);

#endif
