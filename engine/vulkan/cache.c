/* SPDX-License-Identifier: MIT */
/* cache.c - the file of compiled pipelines: a header of ours, then what the driver calls its pipeline cache.
 *
 * A driver trusts these bytes, so a file that was cut or changed must not reach it: the header has their number and a
 * checksum.  The driver's own header must name this device and driver.  The file is replaced by rename: several processes
 * may write it, and the last one wins. */
#include "cache.h"

#include <stdlib.h>
#include <string.h>

#include "../core/cachefile.h"
#include "../zenith_file.h"

enum { MAX_SIZE = 64 << 20, DRIVER_HEADER = 16 + VK_UUID_SIZE };

typedef struct header {
    char magic[8];
    uint64_t size, sum;
} header;

static const char magic[8] = "zenithvk";

static uint64_t checksum(const unsigned char *p, size_t n) /* FNV-1a */
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static void set_path(const zn_vk *d, char path[ZN_CACHE_PATH])
{
    char name[200];

    snprintf(name, sizeof name, "vulkan-%.80s-%s.bin", d->name, zn_version());
    zn_cache_path(path, name);
}

/* The header that Vulkan defines: its size, version 1, vendor, device, UUID of the driver. */
static bool of_this_device(const zn_vk *d, const unsigned char *data, size_t size)
{
    VkPhysicalDeviceProperties2 p = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2 };
    uint32_t word[4];

    if (size < DRIVER_HEADER)
        return false;
    memcpy(word, data, sizeof word);
    d->api->vkGetPhysicalDeviceProperties2(d->gpu, &p);
    return word[0] >= DRIVER_HEADER && word[1] == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
        word[2] == p.properties.vendorID && word[3] == p.properties.deviceID &&
        !memcmp(data + 16, p.properties.pipelineCacheUUID, VK_UUID_SIZE);
}

/* malloced; NULL: there is none that can be used. */
static unsigned char *read_file(const zn_vk *d, size_t *size)
{
    char path[ZN_CACHE_PATH];
    header h = { { 0 }, 0, 0 };
    unsigned char *data = NULL;
    FILE *f;

    set_path(d, path);
    f = path[0] ? zn_cache_open(path, MAX_SIZE) : NULL;
    if (f && fread(&h, sizeof h, 1, f) == 1 && !memcmp(h.magic, magic, sizeof magic) && h.size <= MAX_SIZE &&
        (data = malloc(h.size ? h.size : 1)) &&
        (fread(data, 1, h.size, f) != h.size || fgetc(f) != EOF || checksum(data, h.size) != h.sum ||
         !of_this_device(d, data, h.size))) {
        free(data);
        data = NULL;
    }
    if (f)
        fclose(f);
    *size = data ? (size_t)h.size : 0;
    return data;
}

VkPipelineCache zn_vk_cache_open(zn_vk *d)
{
    VkPipelineCacheCreateInfo info = { .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO };
    unsigned char *data = read_file(d, &info.initialDataSize);
    VkPipelineCache cache = VK_NULL_HANDLE;

    info.pInitialData = data;
    zn_vk_ok(d, d->api->vkCreatePipelineCache(d->device, &info, NULL, &cache), "a pipeline cache");
    free(data);
    return cache;
}

static void write_file(const zn_vk *d, const unsigned char *data, size_t size)
{
    header h = { .size = size, .sum = checksum(data, size) };
    char path[ZN_CACHE_PATH];
    unsigned char *old;
    size_t old_size;
    zn_output out;
    bool same;

    memcpy(h.magic, magic, sizeof magic);
    old = read_file(d, &old_size);
    same = old && old_size == size && !memcmp(old, data, size);
    free(old);
    set_path(d, path);
    if (same || !path[0] || zn_cache_taken(path) || zn_output_begin(&out, path, NULL))
        return;
    fwrite(&h, sizeof h, 1, out.f);
    fwrite(data, 1, size, out.f);
    zn_output_end(&out, ZN_OK, NULL);
}

void zn_vk_cache_close(zn_vk *d, VkPipelineCache cache, bool used)
{
    size_t size = 0;
    unsigned char *data = NULL;

    if (!cache)
        return;
    if (used && !d->status && d->api->vkGetPipelineCacheData(d->device, cache, &size, NULL) == VK_SUCCESS &&
        size >= DRIVER_HEADER && size <= MAX_SIZE - sizeof(header) && (data = malloc(size)) &&
        d->api->vkGetPipelineCacheData(d->device, cache, &size, data) == VK_SUCCESS)
        write_file(d, data, size);
    free(data);
    d->api->vkDestroyPipelineCache(d->device, cache, NULL);
}
