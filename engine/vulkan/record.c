/* SPDX-License-Identifier: MIT */
/* record.c - launches into command buffers, submissions, and forwards that are recorded and submitted again.
 *
 * A launch goes into the open command buffer, followed by a barrier: operations run in order.  The buffer is submitted when
 * its estimated time reaches SLICE_MS, so that a device that draws a screen is never busy for long; a launch that would take
 * longer is cut into several.  The estimate is work divided by the pipeline's rate, which timestamps after each launch correct.
 *
 * The first forwards of a key run without being recorded: one finds the rates of short launches, the next one those of whole
 * ones.  The third keeps its command buffers, without timestamps. */
#include "vulkan.h"

#include <stdlib.h>
#include <string.h>

#include "../core/threads.h"

enum {
    SETS = 256,       /* launches of a command buffer */
    N_SLOTS = 32,     /* submissions in flight */
    MAX_KEPT = 64,    /* recorded forwards */
    ROW = 1 << 15,    /* workgroups in x; common.glsl has the same number */
    SLICE_MS = 6,     /* a submission, as estimated */
    INLINE = 1 << 16, /* bytes */
    FIRST = 2         /* forwards that are not recorded */
};

static const double first_rate = 2e7; /* work per ms before anything was measured: a slow integrated GPU */
static const double least_rate = 1e6; /* a small launch says little about a large one */
static const double least_ms = 0.05;  /* launches alone take as long */

typedef struct launch {
    zn_vk_made *made;
    double work;
} launch;

/* A command buffer with what it needs. */
typedef struct commands {
    VkCommandBuffer cmd;
    VkDescriptorPool sets;
    VkQueryPool times; /* at the beginning and after each launch; none: not timed */
    int n_sets;
    double ms; /* as estimated */
} commands;

typedef struct slot {
    VkFence fence;
    commands own;          /* used again when the fence is signalled */
    commands timed;        /* what was submitted, if its timestamps are still to be read; cmd NULL: none */
    launch launches[SETS]; /* of own */
    uint64_t number;       /* of the submission; 0: none */
} slot;

typedef struct kept {
    uint64_t key;
    int seen; /* forwards run without being recorded */
    bool whole;
    commands *part;
    int n, room;
} kept;

struct zn_vk_recorder {
    VkCommandPool pool;
    slot slots[N_SLOTS];
    uint64_t submitted, done; /* numbers */
    commands *open;           /* being recorded; NULL: none */
    kept forwards[MAX_KEPT];
    int n_forwards, next_forward;
    kept *now; /* of the current forward, if it is being recorded */
    kept *seen;
    double rate; /* work per ms, of launches of any kind */
};

/* ---- command buffers ---------------------------------------------------------------------------------------------- */

static void drop_commands(zn_vk *d, commands *c)
{
    if (c->cmd)
        d->api->vkFreeCommandBuffers(d->device, d->rec->pool, 1, &c->cmd);
    if (c->sets)
        d->api->vkDestroyDescriptorPool(d->device, c->sets, NULL);
    if (c->times)
        d->api->vkDestroyQueryPool(d->device, c->times, NULL);
    *c = (commands){ 0 };
}

static bool make_commands(zn_vk *d, commands *c, bool timed)
{
    const VkCommandBufferAllocateInfo buffer = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                 .commandPool = d->rec->pool,
                                                 .commandBufferCount = 1 };
    const VkDescriptorPoolSize size = { VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, SETS * ZN_VK_BINDINGS };
    const VkDescriptorPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = SETS, .poolSizeCount = 1, .pPoolSizes = &size
    };
    const VkQueryPoolCreateInfo times = { .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                          .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                          .queryCount = SETS + 1 };

    *c = (commands){ 0 };
    return zn_vk_ok(d, d->api->vkAllocateCommandBuffers(d->device, &buffer, &c->cmd), "a command buffer") &&
        zn_vk_ok(d, d->api->vkCreateDescriptorPool(d->device, &pool, NULL, &c->sets), "a descriptor pool") &&
        (!timed || d->has.tick_ns == 0 ||
         zn_vk_ok(d, d->api->vkCreateQueryPool(d->device, &times, NULL, &c->times), "a query pool"));
}

/* Corrects a rate by what a launch took.  Another program's work may be a part of that time, and a short launch that it
 * interrupts seems slow by far: only what takes long lowers the rate, and not by more than a factor of four at once. */
static void learn(double *rate, double work, double ms)
{
    const double now = work / (ms > least_ms ? ms : least_ms);

    if (now > *rate)
        *rate += (now - *rate) / 2;
    else if (ms > SLICE_MS / 4.0 && *rate > least_rate)
        *rate = now > *rate / 4 ? now : *rate / 4;
}

static void read_times(zn_vk *d, const slot *s)
{
    const uint32_t n = (uint32_t)s->timed.n_sets + 1;
    uint64_t t[SETS + 1];

    if (!s->timed.cmd || !s->timed.times || n < 2 ||
        d->api->vkGetQueryPoolResults(d->device, s->timed.times, 0, n, n * sizeof *t, t, sizeof *t,
                                      VK_QUERY_RESULT_64_BIT) != VK_SUCCESS)
        return;
    for (uint32_t i = 0; i + 1 < n; i++) {
        const double ms = t[i + 1] > t[i] ? (double)(t[i + 1] - t[i]) * d->has.tick_ns / 1e6 : 0;

        learn(&s->launches[i].made->rate, s->launches[i].work, ms);
        learn(&d->rec->rate, s->launches[i].work, ms);
    }
}

/* After a failure: what was submitted before it may still use memory that is about to be freed.  A lost device is idle. */
static void settle(zn_vk *d)
{
    struct zn_vk_recorder *r = d->rec;

    if (r->done == r->submitted)
        return;
    d->api->vkDeviceWaitIdle(d->device);
    for (int i = 0; i < N_SLOTS; i++)
        r->slots[i].timed.cmd = NULL;
    r->done = r->submitted;
}

/* The submissions up to that number are done. */
void zn_vk_wait(zn_vk *d, uint64_t number)
{
    struct zn_vk_recorder *r = d->rec;

    while (r->done < number && !d->status) {
        slot *s = &r->slots[(r->done + 1) % N_SLOTS];

        if (!zn_vk_ok(d, d->api->vkWaitForFences(d->device, 1, &s->fence, VK_TRUE, UINT64_MAX), "a kernel"))
            break;
        r->done++;
        read_times(d, s);
        s->timed.cmd = NULL;
    }
    if (d->status)
        settle(d);
}

static bool begin(zn_vk *d, commands *c)
{
    const VkCommandBufferBeginInfo info = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = d->rec->now ? VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT
                                                                 : VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT };

    c->ms = 0;
    c->n_sets = 0;
    if (!zn_vk_ok(d, d->api->vkBeginCommandBuffer(c->cmd, &info), "a command buffer"))
        return false;
    if (c->times) {
        d->api->vkCmdResetQueryPool(c->cmd, c->times, 0, SETS + 1);
        d->api->vkCmdWriteTimestamp(c->cmd, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, c->times, 0);
    }
    return true;
}

/* The slot of the next submission. */
static slot *next_slot(zn_vk *d)
{
    struct zn_vk_recorder *r = d->rec;

    if (r->submitted >= N_SLOTS - 1)
        zn_vk_wait(d, r->submitted - (N_SLOTS - 2));
    return &r->slots[(r->submitted + 1) % N_SLOTS];
}

/* The command buffer to record into; NULL: the device has failed. */
static commands *current(zn_vk *d)
{
    struct zn_vk_recorder *r = d->rec;
    commands *c;

    if (d->status || r->open)
        return d->status ? NULL : r->open;
    if (r->now) { /* its own, which it keeps */
        kept *k = r->now;

        if (k->n == k->room) {
            commands *more = realloc(k->part, (size_t)(2 * k->room + 8) * sizeof *more);

            if (!more) {
                zn_vk_fail(d, ZN_E_MEMORY, "out of memory");
                return NULL;
            }
            k->part = more;
            k->room = 2 * k->room + 8;
        }
        c = &k->part[k->n];
        if (!make_commands(d, c, false)) {
            drop_commands(d, c);
            return NULL;
        }
        k->n++;
    } else {
        slot *s = next_slot(d);

        c = &s->own;
        if (d->status || (!c->cmd && !make_commands(d, c, true)) ||
            !zn_vk_ok(d, d->api->vkResetDescriptorPool(d->device, c->sets, 0), "a descriptor pool"))
            return NULL;
    }
    return r->open = begin(d, c) ? c : NULL;
}

static void submit(zn_vk *d, const commands *c, bool timed)
{
    struct zn_vk_recorder *r = d->rec;
    slot *s = next_slot(d);
    const VkSubmitInfo info = { .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                .commandBufferCount = 1,
                                .pCommandBuffers = &c->cmd };

    if (d->status || !zn_vk_ok(d, d->api->vkResetFences(d->device, 1, &s->fence), "a fence") ||
        !zn_vk_ok(d, d->api->vkQueueSubmit(d->queue, 1, &info, s->fence), "a submission"))
        return;
    s->timed = timed ? *c : (commands){ 0 };
    s->number = ++r->submitted;
}

/* Everything before is visible to everything after, on the device, or to the host. */
static void barrier(zn_vk *d, VkCommandBuffer cmd, bool host)
{
    const VkMemoryBarrier all = { .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                  .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                                  .dstAccessMask = host ? VK_ACCESS_HOST_READ_BIT
                                                        : VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                                          VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT };
    const VkPipelineStageFlags work = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;

    d->api->vkCmdPipelineBarrier(cmd, work, host ? VK_PIPELINE_STAGE_HOST_BIT : work, 0, 1, &all, 0, NULL, 0, NULL);
}

uint64_t zn_vk_flush(zn_vk *d)
{
    struct zn_vk_recorder *r = d->rec;
    commands *c = r->open;

    if (!c)
        return r->submitted;
    r->open = NULL;
    barrier(d, c->cmd, true);
    if (zn_vk_ok(d, d->api->vkEndCommandBuffer(c->cmd), "a command buffer") && !d->status)
        submit(d, c, !r->now);
    return r->submitted;
}

/* ---- what is recorded --------------------------------------------------------------------------------------------- */

/* Binds t at offsets that the device allows; at: elements from there to t.  False: it cannot be bound. */
static bool bind(zn_vk *d, const zn_tensor *t, VkDescriptorBufferInfo *info, uint32_t *at)
{
    const size_t size = zn_type_size(t->type);
    const size_t span = t->ld ? ((zn_pixels(*t) - 1) * (size_t)t->ld + (size_t)t->c) * size : 0; /* ld 0: an array */
    zn_vk_place p;
    size_t before;

    *at = 0;
    *info = (VkDescriptorBufferInfo){ zn_vk_nothing(d), 0, VK_WHOLE_SIZE };
    if (!t->data)
        return true;
    if (!zn_vk_find(d, t->data, &p)) {
        zn_vk_fail(d, ZN_E_DEVICE, "an address that is not in the GPU's memory");
        return false;
    }
    before = p.offset % d->has.align;
    *at = (uint32_t)(before / size);
    *info = (VkDescriptorBufferInfo){ p.buffer, p.offset - before, p.size + before };
    if (info->range > d->has.range)
        info->range = d->has.range / 4 * 4;
    if (before + span > info->range) {
        zn_vk_fail(d, ZN_E_MEMORY, "a tensor is larger than this GPU's Vulkan driver can address");
        return false;
    }
    return true;
}

/* A descriptor set with the tensors of k; VK_NULL_HANDLE: the device has failed. */
static VkDescriptorSet set_of(zn_vk *d, commands *c, const zn_vk_launch *k, uint32_t at[ZN_VK_BINDINGS])
{
    const VkDescriptorSetLayout layout = zn_vk_set_layout(d);
    const VkDescriptorSetAllocateInfo alloc = { .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                                .descriptorPool = c->sets,
                                                .descriptorSetCount = 1,
                                                .pSetLayouts = &layout };
    VkDescriptorBufferInfo info[ZN_VK_BINDINGS];
    VkWriteDescriptorSet write = { .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                   .descriptorCount = ZN_VK_BINDINGS,
                                   .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                   .pBufferInfo = info };

    for (int i = 0; i < ZN_VK_BINDINGS; i++)
        if (!bind(d, &k->t[i], &info[i], &at[i]))
            return VK_NULL_HANDLE;
    if (!zn_vk_ok(d, d->api->vkAllocateDescriptorSets(d->device, &alloc, &write.dstSet), "a descriptor set"))
        return VK_NULL_HANDLE;
    c->n_sets++;
    d->api->vkUpdateDescriptorSets(d->device, 1, &write, 0, NULL);
    return write.dstSet;
}

/* Workgroups y0 .. y0+ny-1 of rows of nx from x0 on, in a command buffer with enough room. */
static void dispatch(zn_vk *d, const zn_vk_launch *k, zn_vk_made *made, uint32_t x0, uint32_t nx, uint32_t y0,
                     uint32_t ny, double work)
{
    const double ms = work / made->rate;
    struct {
        uint32_t at[ZN_VK_BINDINGS];
        char args[ZN_VK_ARGS];
    } push = { { 0 }, { 0 } };
    commands *c = current(d);
    VkDescriptorSet set;

    if (c && (c->n_sets == SETS || (c->ms > 0 && c->ms + ms > SLICE_MS))) {
        zn_vk_flush(d);
        c = current(d);
    }
    if (!c || !(set = set_of(d, c, k, push.at)))
        return;
    memcpy(push.args, k->args, k->args_size);
    d->api->vkCmdBindPipeline(c->cmd, VK_PIPELINE_BIND_POINT_COMPUTE, made->pipeline);
    d->api->vkCmdBindDescriptorSets(c->cmd, VK_PIPELINE_BIND_POINT_COMPUTE, zn_vk_layout(d), 0, 1, &set, 0, NULL);
    d->api->vkCmdPushConstants(c->cmd, zn_vk_layout(d), VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push, &push);
    d->api->vkCmdDispatchBase(c->cmd, x0, y0, 0, nx, ny, 1);
    barrier(d, c->cmd, false);
    if (c->times) {
        next_slot(d)->launches[c->n_sets - 1] = (launch){ made, work };
        d->api->vkCmdWriteTimestamp(c->cmd, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, c->times, (uint32_t)c->n_sets);
    }
    c->ms += ms;
}

void zn_vk_run(zn_vk *d, const zn_vk_launch *k)
{
    const uint32_t rows = (uint32_t)zn_vk_blocks(k->groups, ROW), row = k->groups < ROW ? (uint32_t)k->groups : ROW;
    zn_vk_made *made;

    assert(k->args_size <= ZN_VK_ARGS);
    if (d->status || !k->groups || !(made = zn_vk_pipeline(d, k)))
        return;
    if (made->rate <= 0) /* a guess that is rather low, by what others reach */
        made->rate = d->rec->rate / 8 > first_rate ? d->rec->rate / 8 : first_rate;
    if (zn_vk_blocks(k->groups, ROW) > 65535) {
        zn_vk_fail(d, ZN_E_MEMORY, "a tensor is larger than this GPU's Vulkan driver can address");
        return;
    }
    if (k->work < SLICE_MS * made->rate) {
        dispatch(d, k, made, 0, row, 0, rows, k->work);
        return;
    }
    for (uint32_t y = 0; y < rows && !d->status; y++) /* workgroups past the last return at once */
        for (uint32_t x = 0, n; x < row && !d->status; x += n) {
            const double each = (double)k->groups * SLICE_MS * made->rate / k->work + 1; /* as known by now */

            n = each < row - x ? (uint32_t)each : row - x;
            dispatch(d, k, made, x, n, y, 1, k->work * n / (double)k->groups);
        }
}

void zn_vk_copy(zn_vk *d, VkBuffer to, size_t to_at, VkBuffer from, size_t from_at, size_t size)
{
    const VkBufferCopy part = { from_at, to_at, size };
    commands *c = current(d);

    if (!c)
        return;
    d->api->vkCmdCopyBuffer(c->cmd, from, to, 1, &part);
    barrier(d, c->cmd, false);
}

void zn_vk_inline(zn_vk *d, void *to, const void *data, size_t size)
{
    commands *c = current(d);
    zn_vk_place p;

    assert(size <= INLINE && size % 4 == 0);
    if (!c || !zn_vk_find(d, to, &p))
        return;
    d->api->vkCmdUpdateBuffer(c->cmd, p.buffer, p.offset, size, data);
    barrier(d, c->cmd, false);
}

double zn_vk_time(zn_vk *d, void (*work)(void *cookie), void *cookie)
{
    double start;

    zn_vk_wait(d, zn_vk_flush(d));
    start = zn_now_ms();
    work(cookie);
    zn_vk_wait(d, zn_vk_flush(d));
    start = zn_now_ms() - start;
    return start > 1e-6 ? start : 1e-6;
}

/* ---- recorded forwards ---------------------------------------------------------------------------------------------- */

static void drop_kept(zn_vk *d, kept *k)
{
    for (int i = 0; i < k->n; i++)
        drop_commands(d, &k->part[i]);
    free(k->part);
    *k = (kept){ 0 };
}

void zn_vk_forget(zn_vk *d)
{
    struct zn_vk_recorder *r = d->rec;

    for (int i = 0; i < r->n_forwards; i++)
        drop_kept(d, &r->forwards[i]);
    r->n_forwards = r->next_forward = 0;
    r->now = r->seen = NULL;
}

bool zn_vk_replay(void *dev, uint64_t key)
{
    zn_vk *d = dev;
    struct zn_vk_recorder *r = d->rec;

    for (int i = 0; i < r->n_forwards; i++)
        if (r->forwards[i].key == key && r->forwards[i].whole && !d->status) {
            zn_vk_flush(d);
            for (int j = 0; j < r->forwards[i].n; j++)
                submit(d, &r->forwards[i].part[j], false);
            return true;
        }
    return false;
}

void zn_vk_record(void *dev, uint64_t key)
{
    zn_vk *d = dev;
    struct zn_vk_recorder *r = d->rec;
    kept *k = NULL;

    for (int i = 0; i < r->n_forwards; i++)
        if (r->forwards[i].key == key)
            k = &r->forwards[i];
    if (!k && r->n_forwards < MAX_KEPT) {
        k = &r->forwards[r->n_forwards++];
        *k = (kept){ .key = key };
    } else if (!k) {
        k = &r->forwards[r->next_forward];
        r->next_forward = (r->next_forward + 1) % MAX_KEPT;
        zn_vk_wait(d, zn_vk_flush(d));
        drop_kept(d, k);
        k->key = key;
    }
    zn_vk_flush(d);
    r->seen = k;
    if (k->seen++ == FIRST)
        r->now = k;
}

void zn_vk_recorded(void *dev, bool whole)
{
    zn_vk *d = dev;
    struct zn_vk_recorder *r = d->rec;
    kept *k = r->now;

    zn_vk_flush(d);
    if (r->seen && !whole)
        r->seen->seen--; /* a cancelled forward does not count */
    r->now = r->seen = NULL;
    if (!k)
        return;
    k->whole = whole && !d->status;
    if (!k->whole) {
        const uint64_t key = k->key;
        const int seen = k->seen;

        zn_vk_wait(d, r->submitted);
        drop_kept(d, k);
        k->key = key;
        k->seen = seen;
    }
}

/* ---- opening -------------------------------------------------------------------------------------------------------- */

bool zn_vk_recorder_open(zn_vk *d)
{
    const VkCommandPoolCreateInfo pool = { .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                           .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                           .queueFamilyIndex = d->family };
    const VkFenceCreateInfo fence = { .sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO };

    d->rec = calloc(1, sizeof *d->rec);
    if (!d->rec)
        return false;
    d->rec->rate = first_rate;
    if (!zn_vk_ok(d, d->api->vkCreateCommandPool(d->device, &pool, NULL, &d->rec->pool), "a command pool"))
        return false;
    for (int i = 0; i < N_SLOTS; i++)
        if (!zn_vk_ok(d, d->api->vkCreateFence(d->device, &fence, NULL, &d->rec->slots[i].fence), "a fence"))
            return false;
    return true;
}

void zn_vk_recorder_close(zn_vk *d)
{
    if (!d->rec)
        return;
    d->api->vkDeviceWaitIdle(d->device);
    zn_vk_forget(d);
    for (int i = 0; i < N_SLOTS; i++) {
        drop_commands(d, &d->rec->slots[i].own);
        if (d->rec->slots[i].fence)
            d->api->vkDestroyFence(d->device, d->rec->slots[i].fence, NULL);
    }
    if (d->rec->pool)
        d->api->vkDestroyCommandPool(d->device, d->rec->pool, NULL);
    free(d->rec);
    d->rec = NULL;
}
