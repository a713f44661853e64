/* SPDX-License-Identifier: MIT */
/* backend.c - the table of the Vulkan engine: opening, closing, what the device is, its measured peak. */
#include "vulkan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static zn_status vulkan_sync(void *dev, zn_error *err)
{
    zn_vk *d = dev;
    zn_status s;

    zn_vk_wait(d, zn_vk_flush(d));
    s = d->status;
    if (!s)
        return ZN_OK;
    zn_fail(err, s, "%s", d->text);
    if (s == ZN_E_MEMORY && err) /* the device can still be used */
        d->status = ZN_OK;
    return s;
}

/* ---- opening and closing ---------------------------------------------------------------------------------------------- */

static void vulkan_close(void *dev)
{
    zn_vk *d = dev;

    if (!d)
        return;
    if (d->device) {
        zn_vk_recorder_close(d);
        zn_vk_kernels_close(d);
        zn_vk_memory_close(d);
        d->api->vkDestroyDevice(d->device, NULL);
    }
    free(d);
}

static zn_status vulkan_open(void **dev, int n_threads, zn_error *err)
{
    const zn_vk_api *api = zn_vk_load(err);
    zn_status s;
    zn_vk *d;

    (void)n_threads;
    *dev = NULL;
    if (!api)
        return ZN_E_DEVICE;
    d = calloc(1, sizeof *d);
    if (!d)
        return zn_fail(err, ZN_E_MEMORY, "out of memory");
    d->api = api;
    if (!zn_vk_choose(d, err)) {
        free(d);
        return ZN_E_DEVICE;
    }
    if (!zn_vk_memory_open(d) || !zn_vk_recorder_open(d) || !zn_vk_kernels_open(d))
        zn_vk_fail(d, ZN_E_MEMORY, "out of memory");
    if ((s = d->status)) {
        zn_fail(err, s, "%s", d->text);
        vulkan_close(d);
        return s;
    }
    *dev = d;
    return ZN_OK;
}

static int vulkan_threads(void *dev)
{
    (void)dev;
    return 1;
}

static void vulkan_describe(void *dev, char *text, size_t size)
{
    static const char *const kind[] = { "software", "other", "virtual", "integrated", "discrete" };
    const zn_vk *d = dev;

    snprintf(text, size, "%s (%s; %s%s%s%s, %zu MiB%s)%s%s", d->name, kind[zn_vk_rank(d->has.type)],
             d->has.half ? "fp16" : "fp32 only", d->has.half && d->has.half_math ? " arithmetic" : "",
             d->has.matrices ? ", cooperative matrices" : "", d->has.dots ? ", integer dot products" : "",
             d->capacity >> 20, d->has.budget ? ", memory budget" : "", *d->list ? "; devices: " : "", d->list);
}

/* $ZENITH_VULKAN_KIND=integrated: a device in software counts as an integrated one, in tests. */
static zn_auto vulkan_automatic(void *dev)
{
    const zn_vk *d = dev;
    const char *kind = getenv("ZENITH_VULKAN_KIND");
    const int rank = kind && !strcmp(kind, "integrated") ? 3 : zn_vk_rank(d->has.type);

    return rank == 4 ? ZN_AUTO_ALWAYS : rank > 0 ? ZN_AUTO_IF_FASTER : ZN_AUTO_NEVER;
}

static bool vulkan_has_precision(void *dev, zn_precision p)
{
    const zn_vk *d = dev;

    return p == ZN_FP32 || ((p == ZN_FP16_MATH || p == ZN_INT8_MATH || p == ZN_INT4_MATH) && d->has.half);
}

static size_t vulkan_memory(void *dev)
{
    return ((const zn_vk *)dev)->memory;
}

static size_t vulkan_capacity(void *dev)
{
    return ((const zn_vk *)dev)->capacity;
}

/* ---- the peak ---------------------------------------------------------------------------------------------------------- */

typedef struct peak_job {
    zn_vk *d;
    zn_conv w;
    zn_tensor x, y;
} peak_job;

static void peak_work(void *cookie)
{
    const peak_job *job = cookie;

    zn_vk_conv2d(job->d, job->y, job->x, &job->w, (zn_tail){ 0 });
}

/* Of a convolution that is all products: 1x1, 512 to 512 channels. */
static double vulkan_peak(void *dev, zn_precision p)
{
    enum { C = 512, SIDE = 128 };
    zn_vk *d = dev;
    peak_job job = { .d = d, .w = { .kh = 1, .kw = 1, .stride = 1, .groups = 1, .cin = C, .cout = C, .precision = p } };
    const int side = d->has.type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 16 : SIDE;
    const zn_type type = zn_backend_vulkan.tensor_type[p];
    float *zeros = calloc((size_t)C * C, sizeof *zeros);
    double best = 0;

    job.x = job.y = (zn_tensor){ NULL, 1, side, side, C, C, type };
    job.x.data = zn_vk_alloc(d, zn_pixels(job.x) * C * sizeof(float));
    job.y.data = zn_vk_alloc(d, zn_pixels(job.y) * C * sizeof(float));
    job.w.packed = zn_vk_alloc(d, zn_vk_conv_size(d, &job.w));
    if (zeros && job.x.data && job.y.data && job.w.packed) {
        zn_vk_conv_pack(d, &job.w, zeros, NULL);
        zn_vk_fill(d, job.x, zeros);
        for (int i = 0; i < 6; i++) {
            const double ms = zn_vk_time(d, peak_work, &job);
            const double rate = 2.0 * C * C * side * side / ms / 1e6;

            best = rate > best ? rate : best;
        }
    }
    zn_vk_free(d, job.x.data);
    zn_vk_free(d, job.y.data);
    zn_vk_free(d, job.w.packed);
    free(zeros);
    return best;
}

static const zn_special special = { .gated = zn_vk_gated, .fwht = zn_vk_fwht, .pruned = zn_vk_pruned };

const zn_backend zn_backend_vulkan = {
    .abi = ZN_BACKEND_ABI,
    .name = "vulkan",
    .what = "any GPU with a Vulkan driver",
    .memory_variable = "ZENITH_VULKAN_MEMORY",
    .remote = true,
    .tensor_type = { [ZN_FP16_MATH] = ZN_F16, [ZN_INT8_MATH] = ZN_F16, [ZN_INT4_MATH] = ZN_F16 },
    .precision_needs = { [ZN_FP16_MATH] = ZN_TR("a GPU whose Vulkan driver has 16-bit storage"),
                         [ZN_INT8_MATH] = ZN_TR("a GPU whose Vulkan driver has 16-bit storage"),
                         [ZN_INT4_MATH] = ZN_TR("a GPU whose Vulkan driver has 16-bit storage") },
    .describe = vulkan_describe,
    .automatic = vulkan_automatic,
    .open = vulkan_open,
    .close = vulkan_close,
    .threads = vulkan_threads,
    .alloc = zn_vk_alloc,
    .free = zn_vk_free,
    .host_alloc = zn_vk_host_alloc,
    .host_free = zn_vk_host_free,
    .upload = zn_vk_upload,
    .download = zn_vk_download,
    .load = zn_vk_load_tensor,
    .store = zn_vk_store_tensor,
    .sync = vulkan_sync,
    .has_precision = vulkan_has_precision,
    .memory = vulkan_memory,
    .capacity = vulkan_capacity,
    .replay = zn_vk_replay,
    .record = zn_vk_record,
    .recorded = zn_vk_recorded,
    .conv_size = zn_vk_conv_size,
    .conv_pack = zn_vk_conv_pack,
    .conv_pack_rows = zn_vk_conv_pack_rows,
    .conv_scratch = zn_vk_conv_scratch,
    .conv_inputs = zn_vk_conv_inputs,
    .conv2d = zn_vk_conv2d,
    .norm = zn_vk_norm,
    .group_scales = zn_vk_group_scales,
    .attention = zn_vk_attention,
    .rope = zn_vk_rope,
    .lookup = zn_vk_lookup,
    .resize = zn_vk_resize,
    .unshuffle = zn_vk_unshuffle,
    .shuffle = zn_vk_shuffle,
    .map = zn_vk_map,
    .binary = zn_vk_binary,
    .step = zn_vk_step,
    .fill = zn_vk_fill,
    .special = &special,
    .peak = vulkan_peak,
};
