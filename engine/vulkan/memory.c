/* SPDX-License-Identifier: MIT */
/* memory.c - device memory, staging memory and transfers. */
#include "addresses.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 4 << 20, /* bytes of a staging buffer */
    SLAB = 16 << 20, /* small pieces share an allocation of this size; a device may have few allocations */
    SMALL = 1 << 20,
    ALIGN = 256,
};

static int find_type(const zn_vk *d, uint32_t allowed, VkMemoryPropertyFlags want)
{
    const VkPhysicalDeviceMemoryProperties *m = &d->memories->types;

    for (uint32_t i = 0; i < m->memoryTypeCount; i++)
        if (allowed >> i & 1 && (m->memoryTypes[i].propertyFlags & want) == want)
            return (int)i;
    return -1;
}

/* What is free now in each heap, or its size if the driver does not say. */
static void find_rooms(const zn_vk *d, size_t room[VK_MAX_MEMORY_HEAPS])
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT
    };
    VkPhysicalDeviceMemoryProperties2 m = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                            .pNext = d->has.budget ? &budget : NULL };

    d->api->vkGetPhysicalDeviceMemoryProperties2(d->gpu, &m);
    d->memories->types = m.memoryProperties;
    for (uint32_t i = 0; i < m.memoryProperties.memoryHeapCount; i++) {
        const VkDeviceSize all = budget.heapBudget[i], used = budget.heapUsage[i];

        room[i] =
            (size_t)(d->has.budget && all > 0 ? (all > used ? all - used : 0) : m.memoryProperties.memoryHeaps[i].size);
    }
}

/* Drivers give more than there is, and move other programs' memory away: then the whole desktop is slow. */
static bool within_budget(const zn_vk *d, int type, size_t size)
{
    size_t room[VK_MAX_MEMORY_HEAPS];

    if (!d->has.budget)
        return true;
    find_rooms(d, room);
    return size <= room[d->memories->types.memoryTypes[type].heapIndex];
}

static void release(zn_vk *d, block *b)
{
    if (b->buffer)
        d->api->vkDestroyBuffer(d->device, b->buffer, NULL);
    if (b->memory)
        d->api->vkFreeMemory(d->device, b->memory, NULL); /* unmaps it */
    *b = (block){ 0 };
}

/* Lack of memory is reported by the caller; any other failure sticks to the device. */
static bool given(zn_vk *d, VkResult r)
{
    return r != VK_ERROR_OUT_OF_DEVICE_MEMORY && r != VK_ERROR_OUT_OF_HOST_MEMORY && r != VK_ERROR_TOO_MANY_OBJECTS &&
        zn_vk_ok(d, r, "an allocation");
}

static bool acquire(zn_vk *d, block *b, size_t size, bool host)
{
    const VkBufferCreateInfo info = { .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                      .size = size,
                                      .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                          VK_BUFFER_USAGE_TRANSFER_DST_BIT };
    const VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkMemoryAllocateInfo alloc = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO };
    VkMemoryRequirements needs;
    void *mapped = NULL;
    int type;

    *b = (block){ .size = size };
    if (size > d->has.block || !given(d, d->api->vkCreateBuffer(d->device, &info, NULL, &b->buffer)))
        return false;
    d->api->vkGetBufferMemoryRequirements(d->device, b->buffer, &needs);
    if (host) {
        type = find_type(d, needs.memoryTypeBits, visible | VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
        if (type < 0)
            type = find_type(d, needs.memoryTypeBits, visible);
    } else {
        type = find_type(d, needs.memoryTypeBits, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
        if (type < 0)
            type = find_type(d, needs.memoryTypeBits, 0);
    }
    alloc.allocationSize = needs.size;
    alloc.memoryTypeIndex = (uint32_t)type;
    if (type >= 0 && (host || within_budget(d, type, needs.size)) &&
        given(d, d->api->vkAllocateMemory(d->device, &alloc, NULL, &b->memory)) &&
        given(d, d->api->vkBindBufferMemory(d->device, b->buffer, b->memory, 0)) &&
        (!host || given(d, d->api->vkMapMemory(d->device, b->memory, 0, VK_WHOLE_SIZE, 0, &mapped)))) {
        b->mapped = mapped;
        return true;
    }
    release(d, b);
    return false;
}

/* NULL: no memory. */
static block *add(list *l, const block *b)
{
    if (l->n == l->room) {
        block *more = realloc(l->at, (size_t)(2 * l->room + 16) * sizeof *more);

        if (!more)
            return NULL;
        l->at = more;
        l->room = 2 * l->room + 16;
    }
    l->at[l->n] = *b;
    return &l->at[l->n++];
}

static void drop(zn_vk *d, list *l, block *b)
{
    const int i = (int)(b - l->at);

    release(d, b);
    memmove(b, b + 1, (size_t)(l->n - i - 1) * sizeof *b);
    l->n--;
}

/* ---- device memory -------------------------------------------------------------------------------------------- */

static block *new_block(zn_vk *d, size_t size, bool slab)
{
    struct zn_vk_memory *m = d->memories;
    block b, *made;

    if (!acquire(d, &b, size, false))
        return NULL;
    b.address = m->next;
    b.slab = slab;
    made = add(&m->device, &b);
    if (!made)
        release(d, &b);
    else
        m->next += (size + SLAB) / ALIGN * ALIGN; /* a gap: no address belongs to two blocks */
    return made;
}

void *zn_vk_alloc(void *dev, size_t size)
{
    zn_vk *d = dev;
    list *l = &d->memories->device;
    block *b = NULL;
    uint64_t address;

    if (d->status)
        return NULL;
    if (size > SIZE_MAX / 2)
        return NULL;
    size = size ? (size + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
    if (size > SMALL) {
        b = new_block(d, size, false);
        return b ? (void *)(uintptr_t)b->address : NULL;
    }
    for (int i = l->n - 1; i >= 0 && !b; i--)
        if (l->at[i].slab && l->at[i].size - l->at[i].used >= size)
            b = &l->at[i];
    if (!b && !(b = new_block(d, SLAB, true)))
        return NULL;
    address = b->address + b->used;
    b->used += size;
    b->pieces++;
    return (void *)(uintptr_t)address;
}

void zn_vk_free(void *dev, void *ptr)
{
    zn_vk *d = dev;
    block *b = ptr ? zn_vk_holder(d, ptr) : NULL;

    if (!b)
        return;
    zn_vk_wait(d, zn_vk_flush(d));
    zn_vk_forget(d); /* recordings hold addresses */
    if (b->slab && --b->pieces > 0)
        return;
    drop(d, &d->memories->device, b);
}

/* A piece that grows on demand; recordings hold its address, so none outlives it. */
static void *grown(zn_vk *d, grows *r, size_t size)
{
    if (size <= r->size)
        return r->at;
    zn_vk_free(d, r->at);
    r->at = zn_vk_alloc(d, size);
    r->size = r->at ? size : 0;
    if (!r->at)
        zn_vk_fail(d, ZN_E_MEMORY, "out of GPU memory for intermediate results");
    return r->at;
}

void *zn_vk_scratch(zn_vk *d, size_t size)
{
    return grown(d, &d->memories->scratch, size);
}

void *zn_vk_weights_room(zn_vk *d, size_t size)
{
    return grown(d, &d->memories->weights, size);
}

/* ---- host memory and transfers ---------------------------------------------------------------------------------- */

void *zn_vk_host_alloc(void *dev, size_t size)
{
    zn_vk *d = dev;
    block b, *made;

    if (d->status || !acquire(d, &b, size ? size : 1, true))
        return NULL;
    made = add(&d->memories->host, &b);
    if (!made)
        release(d, &b);
    return made ? made->mapped : NULL;
}

void zn_vk_host_free(void *dev, void *ptr)
{
    zn_vk *d = dev;
    list *l = &d->memories->host;

    for (int i = 0; ptr && i < l->n; i++)
        if (l->at[i].mapped == ptr) {
            zn_vk_wait(d, zn_vk_flush(d));
            drop(d, l, &l->at[i]);
            return;
        }
}

/* The block of zn_vk_host_alloc that holds these bytes, or NULL. */
static const block *pinned(const zn_vk *d, const void *ptr, size_t size)
{
    const list *l = &d->memories->host;

    for (int i = 0; i < l->n; i++) {
        const size_t from = (size_t)((const char *)ptr - l->at[i].mapped);

        if ((const char *)ptr >= l->at[i].mapped && from <= l->at[i].size && size <= l->at[i].size - from)
            return &l->at[i];
    }
    return NULL;
}

/* A staging buffer that no copy uses any more. */
static int next_chunk(zn_vk *d)
{
    struct zn_vk_memory *m = d->memories;
    const int i = m->chunk;

    m->chunk = (i + 1) % N_CHUNKS;
    zn_vk_wait(d, m->busy[i]);
    return i;
}

/* To the device.  `src` may be changed as soon as this returns, unless it is pinned. */
static void send(zn_vk *d, void *dst, const void *src, size_t size)
{
    struct zn_vk_memory *m = d->memories;
    const block *from = pinned(d, src, size);
    zn_vk_place to;

    if (d->status || !size)
        return;
    if (!zn_vk_find(d, dst, &to) || to.size < size) {
        zn_vk_fail(d, ZN_E_DEVICE, "an address that is not in the GPU's memory");
        return;
    }
    if (from) {
        zn_vk_copy(d, to.buffer, to.offset, from->buffer, (size_t)((const char *)src - from->mapped), size);
        zn_vk_flush(d);
        return;
    }
    for (size_t at = 0, n; at < size && !d->status; at += n) {
        const int i = next_chunk(d);

        n = size - at < CHUNK ? size - at : CHUNK;
        if (d->status)
            return;
        memcpy(m->staging[i].mapped, (const char *)src + at, n);
        zn_vk_copy(d, to.buffer, to.offset + at, m->staging[i].buffer, 0, n);
        m->busy[i] = zn_vk_flush(d);
    }
}

/* From the device; pinned memory is valid after sync, other memory when this returns. */
static void receive(zn_vk *d, void *dst, const void *src, size_t size)
{
    struct zn_vk_memory *m = d->memories;
    const block *to = pinned(d, dst, size);
    size_t asked = 0, at[N_CHUNKS] = { 0 };
    int queue[N_CHUNKS], first = 0, n = 0;
    zn_vk_place from;

    if (d->status || !size)
        return;
    if (!zn_vk_find(d, src, &from) || from.size < size) {
        zn_vk_fail(d, ZN_E_DEVICE, "an address that is not in the GPU's memory");
        return;
    }
    if (to) {
        zn_vk_copy(d, to->buffer, (size_t)((char *)dst - to->mapped), from.buffer, from.offset, size);
        zn_vk_flush(d);
        return;
    }
    while (!d->status && (asked < size || n)) {
        while (asked < size && n < N_CHUNKS && !d->status) {
            const int i = queue[(first + n) % N_CHUNKS] = next_chunk(d);
            const size_t len = size - asked < CHUNK ? size - asked : CHUNK;

            zn_vk_copy(d, m->staging[i].buffer, 0, from.buffer, from.offset + asked, len);
            m->busy[i] = zn_vk_flush(d);
            at[i] = asked;
            asked += len;
            n++;
        }
        const int i = queue[first];

        zn_vk_wait(d, m->busy[i]);
        if (!d->status)
            memcpy((char *)dst + at[i], m->staging[i].mapped, size - at[i] < CHUNK ? size - at[i] : CHUNK);
        first = (first + 1) % N_CHUNKS;
        n--;
    }
}

void zn_vk_upload(void *dev, void *dst, const void *src, size_t size)
{
    zn_vk *d = dev;

    send(d, dst, src, size);
    if (pinned(d, src, size))
        zn_vk_wait(d, zn_vk_flush(d)); /* the caller may free src now */
}

void zn_vk_download(void *dev, void *dst, const void *src, size_t size)
{
    zn_vk *d = dev;

    receive(d, dst, src, size);
    if (pinned(d, dst, size))
        zn_vk_wait(d, zn_vk_flush(d));
}

/* A network's input and output tensors are dense and of type float32. */
void zn_vk_load_tensor(void *dev, zn_tensor y, const float *x)
{
    assert(y.type == ZN_F32 && y.ld == y.c);
    send(dev, y.data, x, zn_pixels(y) * (size_t)y.c * sizeof *x);
}

void zn_vk_store_tensor(void *dev, float *y, zn_tensor x)
{
    assert(x.type == ZN_F32 && x.ld == x.c);
    receive(dev, y, x.data, zn_pixels(x) * (size_t)x.c * sizeof *y);
}

/* ---- opening ------------------------------------------------------------------------------------------------------ */

/* Of the largest heap that is the device's own. */
static size_t available(const zn_vk *d)
{
    size_t room[VK_MAX_MEMORY_HEAPS], best = 0;

    find_rooms(d, room);
    for (uint32_t i = 0; i < d->memories->types.memoryHeapCount; i++)
        if (d->memories->types.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT && room[i] > best)
            best = room[i];
    return best;
}

/* A run gets half of what was free when the device was opened, at most 6 GiB, and never more than can be bound at once:
 * then each of its tensors can be.  It must not change later, when models hold memory: the size of tiles depends on it. */
static void set_bounds(zn_vk *d)
{
    const size_t most = (size_t)6 << 30;
    size_t room;

    d->capacity = available(d);
    room = d->capacity / 2 < most ? d->capacity / 2 : most;
    room = room < d->has.range ? room : d->has.range;
    d->memory = room < d->has.block ? room : d->has.block;
}

bool zn_vk_memory_open(zn_vk *d)
{
    struct zn_vk_memory *m = d->memories = calloc(1, sizeof *m);

    if (!m)
        return false;
    m->next = (uint64_t)1 << 40;
    set_bounds(d);
    for (int i = 0; i < N_CHUNKS; i++)
        if (!acquire(d, &m->staging[i], CHUNK, true))
            return false;
    return acquire(d, &m->nothing, ALIGN, false);
}

void zn_vk_memory_close(zn_vk *d)
{
    struct zn_vk_memory *m = d->memories;

    if (!m)
        return;
    for (int i = 0; i < N_CHUNKS; i++)
        release(d, &m->staging[i]);
    release(d, &m->nothing);
    while (m->device.n)
        drop(d, &m->device, &m->device.at[m->device.n - 1]);
    while (m->host.n)
        drop(d, &m->host, &m->host.at[m->host.n - 1]);
    free(m->device.at);
    free(m->host.at);
    free(m);
    d->memories = NULL;
}
