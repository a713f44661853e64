/* SPDX-License-Identifier: MIT */
/* backend.c - the table of the CUDA engine. */
#include "cuda.h"

static void cuda_close(void *dev)
{
    zn_cuda *d = dev;

    if (d)
        zn_cuda_choices_close(&d->choices);
    zn_cuda_close(dev);
}

static zn_status open_as(void **dev, int n_threads, bool early, zn_error *err)
{
    const zn_status s = zn_cuda_open(dev, n_threads, early, err);
    zn_cuda *d = *dev;

    if (d)
        d->choices = zn_cuda_choices_open(d->name);
    return s;
}

static zn_status cuda_open(void **dev, int n_threads, zn_error *err)
{
    return open_as(dev, n_threads, false, err);
}

static zn_status cuda_open_early(void **dev, int n_threads, zn_error *err)
{
    return open_as(dev, n_threads, true, err);
}

static int cuda_threads(void *dev)
{
    (void)dev;
    return 1;
}

static bool cuda_has_precision(void *dev, zn_precision p)
{
    const zn_cuda *d = dev;

    if (p != ZN_FP32 && p != ZN_FP16_MATH && d->cc < 80)
        return false;
    return p != ZN_FP8_MATH || d->cc >= 89; /* e4m3 */
}

/* ---- the peak ---------------------------------------------------------------------------------------------------- */

typedef struct peak_job {
    zn_cuda *d;
    zn_precision p;
} peak_job;

static void peak_work(void *cookie)
{
    const peak_job *job = cookie;
    zn_cuda *d = job->d;
    zn_cuda_peak a = { (float *)(void *)d->scratch, 4096 };
    static const char *const kernel[ZN_N_PRECISIONS] = { "peak_fma", "peak_tf32", "peak_f16", "peak_bf16",
                                                         "peak_f16", "peak_f16",  "peak_f16" };

    zn_cuda_launch(d, kernel[job->p], (unsigned)d->sms * 4, 1, 1, 256, 0, &a);
}

/* Multiply-adds of the unit that this precision's convolutions use: FMA, or mma.sync on tensor cores.  fp8, int8 and int4
 * are given as fp16.  Below 8.0 all convolutions use FMAs, whatever the precision. */
static double cuda_peak(void *dev, zn_precision p)
{
    zn_cuda *d = dev;
    peak_job job = { d, p = d->cc < 80 ? ZN_FP32 : p };
    double best = 0, each = p == ZN_FP32 ? 16 * 32 : p == ZN_TF32 ? 4 * 16 * 8 * 8 : 4 * 16 * 8 * 16;

    for (int i = 0; i < 6; i++) {
        double ms = zn_cuda_time(d, peak_work, &job);
        double rate = ms > 0 ? 2 * each * 4096 * 8 * 4 * d->sms / ms / 1e6 : 0;

        best = rate > best ? rate : best;
    }
    return best;
}

static const zn_special special = { .gated = zn_cuda_gated,
                                    .fwht = zn_cuda_fwht,
                                    .pruned = zn_cuda_pruned,
                                    .glu = zn_cuda_glu,
                                    .norm_rope = zn_cuda_norm_rope,
                                    .add_norm = zn_cuda_add_norm,
                                    .linears = zn_cuda_linears };

const zn_backend zn_backend_cuda = {
    .abi = ZN_BACKEND_ABI,
    .name = "cuda",
    .what = "NVIDIA GPU, through its driver alone",
    .memory_variable = "ZENITH_CUDA_MEMORY",
    .remote = true,
    .does_also = true,
    .tensor_type = { [ZN_FP16_MATH] = ZN_F16,
                     [ZN_BF16_MATH] = ZN_BF16,
                     [ZN_FP8_MATH] = ZN_F16,
                     [ZN_INT8_MATH] = ZN_F16,
                     [ZN_INT4_MATH] = ZN_F16 },
    .precision_needs = { [ZN_TF32] = ZN_TR("an NVIDIA GPU of compute capability 8.0 or later"),
                         [ZN_BF16_MATH] = ZN_TR("an NVIDIA GPU of compute capability 8.0 or later"),
                         [ZN_FP8_MATH] = ZN_TR("an NVIDIA GPU of compute capability 8.9 or later"),
                         [ZN_INT8_MATH] = ZN_TR("an NVIDIA GPU of compute capability 8.0 or later"),
                         [ZN_INT4_MATH] = ZN_TR("an NVIDIA GPU of compute capability 8.0 or later") },
    .open = cuda_open,
    .open_early = cuda_open_early,
    .starting = zn_cuda_starting,
    .close = cuda_close,
    .threads = cuda_threads,
    .alloc = zn_cuda_alloc,
    .free = zn_cuda_free,
    .host_alloc = zn_cuda_host_alloc,
    .host_free = zn_cuda_host_free,
    .upload = zn_cuda_upload,
    .download = zn_cuda_download,
    .load = zn_cuda_load,
    .store = zn_cuda_store,
    .sync = zn_cuda_sync,
    .has_precision = cuda_has_precision,
    .memory = zn_cuda_memory,
    .capacity = zn_cuda_capacity,
    .replay = zn_cuda_replay,
    .record = zn_cuda_record,
    .recorded = zn_cuda_recorded,
    .conv_size = zn_cuda_conv_size,
    .conv_pack = zn_cuda_conv_pack,
    .conv_pack_here = zn_cuda_conv_pack_here,
    .conv_pack_rows = zn_cuda_conv_pack_rows,
    .conv_scratch = zn_cuda_conv_scratch,
    .conv2d = zn_cuda_conv2d,
    .norm = zn_cuda_norm,
    .group_scales = zn_cuda_group_scales,
    .attention = zn_cuda_attention,
    .rope = zn_cuda_rope,
    .lookup = zn_cuda_lookup,
    .resize = zn_cuda_resize,
    .unshuffle = zn_cuda_unshuffle,
    .shuffle = zn_cuda_shuffle,
    .map = zn_cuda_map,
    .binary = zn_cuda_binary,
    .step = zn_cuda_step,
    .fill = zn_cuda_fill,
    .special = &special,
    .peak = cuda_peak,
};
