/* SPDX-License-Identifier: MIT */
/* backend.c - the vtable of backend.h for every instruction set: they differ in the kernels alone.
 *
 * Everything an operation needs in addition to its arguments is allocated here, once: the pool, scratch memory
 * for each worker and for the device, and a row of zeros. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "device.h"

#ifndef zn_aligned_free /* what aligned_alloc() gave */
#define zn_aligned_free free
#endif

enum { LARGE = 32 << 20 }; /* bytes */

/* ZENITH_TILES: "off", or "avx512" to measure what a CPU without AMX has. */
static const zn_tile_form *tiles_of(const zn_kernels *k, zn_isa isa)
{
    const char *asked = getenv("ZENITH_TILES");
    const unsigned half = zn_cpu_half(isa);

    if (asked && !strcmp(asked, "avx512"))
        return half & ZN_HALF_BF16 ? k->dots16 : NULL;
    return (half & ZN_HALF_AMX) && k->tiles && !(asked && !strcmp(asked, "off")) && k->tiles->ready() ? k->tiles : NULL;
}

static zn_status open_isa(void **dev, zn_isa isa, int n_threads, zn_error *err)
{
    const zn_kernels *k = zn_kernels_for(isa, err);
    zn_cpu *d;
    size_t n;

    *dev = NULL;
    if (!k)
        return ZN_E_DEVICE;
    d = calloc(1, sizeof *d);
    if (!d)
        goto error;
    d->k = k;
    for (int i = 0; i <= (int)zn_cpu_int8(isa); i++)
        d->dot8 = k->dot8[i].run ? k->dot8[i] : d->dot8;
    d->half = (zn_cpu_half(isa) & ZN_HALF_FP16) != 0 ? k->half : NULL;
    d->tiles = tiles_of(k, isa);
    d->pool = zn_pool_open(n_threads > 0 ? n_threads : zn_cpu_count());
    if (!d->pool)
        goto error;
    n = (size_t)zn_pool_size(d->pool) + 1;
    d->scratch = aligned_alloc(ZN_ALIGN, n * ZN_SCRATCH + ZN_ZEROS * sizeof(float) + ZN_EXPANDED);
    if (!d->scratch)
        goto error;
    d->shared = d->scratch + (n - 1) * ZN_SCRATCH;
    d->zeros = memset(d->scratch + n * ZN_SCRATCH, 0, ZN_ZEROS * sizeof(float));
    d->expanded = (float *)(void *)(d->scratch + n * ZN_SCRATCH) + ZN_ZEROS;
    *dev = d;
    return ZN_OK;

error:
    if (d)
        zn_pool_close(&d->pool);
    free(d);
    return zn_fail(err, ZN_E_MEMORY, "not enough memory to start %d threads",
                   n_threads > 0 ? n_threads : zn_cpu_count());
}

static void cpu_close(void *dev)
{
    zn_cpu *d = dev;

    if (!d)
        return;
    zn_pool_close(&d->pool);
    zn_aligned_free(d->scratch);
    free(d);
}

static zn_pool *cpu_pool(void *dev)
{
    return ((zn_cpu *)dev)->pool;
}

static int cpu_threads(void *dev)
{
    return zn_pool_size(((zn_cpu *)dev)->pool);
}

/* In huge pages, where Linux gives them if asked: a page of 4 KB costs more to get than to fill. */
static void *alloc_large(size_t size)
{
    const size_t huge = 2 << 20;
    void *p = size > SIZE_MAX - huge ? NULL : aligned_alloc(huge, (size + huge - 1) / huge * huge);

#ifdef MADV_HUGEPAGE
    if (p)
        madvise(p, size / huge * huge, MADV_HUGEPAGE);
#endif
    return p;
}

static void *cpu_alloc(void *dev, size_t size)
{
    (void)dev;
    if (size > SIZE_MAX - ZN_ALIGN)
        return NULL;
    size = (size + ZN_ALIGN - 1) / ZN_ALIGN * ZN_ALIGN;
    return size < LARGE ? aligned_alloc(ZN_ALIGN, size ? size : ZN_ALIGN) : alloc_large(size);
}

static void cpu_free(void *dev, void *ptr)
{
    (void)dev;
    zn_aligned_free(ptr);
}

static void cpu_copy(void *dev, void *dst, const void *src, size_t size)
{
    (void)dev;
    memcpy(dst, src, size);
}

static void cpu_load(void *dev, zn_tensor y, const float *x)
{
    (void)dev;
    zn_cpu_round(y.data, y.type, x, zn_pixels(y) * (size_t)y.c);
}

static void cpu_store(void *dev, float *y, zn_tensor x)
{
    (void)dev;
    zn_cpu_widen(y, x.data, x.type, zn_pixels(x) * (size_t)x.c);
}

static zn_type cpu_plain_type(void *dev, zn_precision p)
{
    const zn_cpu *d = dev;

    return p == ZN_BF16_MATH && d->tiles ? ZN_BF16 : p == ZN_FP16_MATH && d->half ? ZN_F16 : ZN_F32;
}

static bool cpu_has_precision(void *dev, zn_precision p)
{
    return p == ZN_TF32 ? ((zn_cpu *)dev)->tiles != NULL : p != ZN_FP8_MATH;
}

static size_t cpu_memory(void *dev)
{
    (void)dev;
    return 0;
}

/* Three quarters of the machine's memory. */
static size_t cpu_capacity(void *dev)
{
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    (void)dev;
    return pages > 0 && size > 0 ? (size_t)pages / 4 * 3 * (size_t)size : SIZE_MAX;
}

static bool cpu_replay(void *dev, uint64_t key)
{
    (void)dev, (void)key;
    return false;
}

static void cpu_record(void *dev, uint64_t key)
{
    (void)dev, (void)key;
}

static void cpu_recorded(void *dev, bool whole)
{
    (void)dev, (void)whole;
}

static zn_status cpu_sync(void *dev, zn_error *err)
{
    (void)dev, (void)err;
    return ZN_OK;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* For 0.15 s, runs of some 50 us: the best one.  Short, since another process may take the core away. */
static void peak_item(void *cookie, int item, int worker)
{
    zn_cpu *d = cookie;
    float *sink = zn_cpu_scratch(d, worker);
    double *best = (double *)d->shared + item, start = now(), t;
    size_t rounds = 256;

    *best = 0;
    do {
        double rate, from = now();

        for (int i = 0; i < ZN_MAX_NR; i++)
            sink[i] = 0.5f;
        rate = d->k->peak(sink, rounds);
        t = now();
        if (t - from < 50e-6) {
            rounds *= 2;
            continue;
        }
        rate /= t - from;
        *best = rate > *best ? rate : *best;
    } while (t - start < 0.15 || *best == 0);
}

/* Products are float32 whatever the weights are stored in. */
static double cpu_peak(void *dev, zn_precision p)
{
    zn_cpu *d = dev;
    int n = zn_pool_size(d->pool);
    double sum = 0;

    (void)p;
    zn_pool_run(d->pool, peak_item, d, n);
    for (int i = 0; i < n; i++)
        sum += ((double *)d->shared)[i];
    return sum * 1e-9;
}

static const zn_special special = { .gated = zn_cpu_gated, .fwht = zn_cpu_fwht, .pruned = zn_cpu_pruned };

#define ZN_CPU_BACKEND(isa_name, isa, text)                                                                            \
    static zn_status open_##isa_name(void **dev, int n_threads, zn_error *err)                                         \
    {                                                                                                                  \
        return open_isa(dev, isa, n_threads, err);                                                                     \
    }                                                                                                                  \
    const zn_backend zn_backend_##isa_name = {                                                                         \
        .abi = ZN_BACKEND_ABI,                                                                                         \
        .name = #isa_name,                                                                                             \
        .what = text,                                                                                                  \
        .memory_variable = "ZENITH_MEMORY",                                                                            \
        .trains = true,                                                                                                \
        .plain_type = cpu_plain_type,                                                                                  \
        .precision_needs = { [ZN_TF32] = ZN_TR("a GPU that has it"), [ZN_FP8_MATH] = ZN_TR("a GPU that has it") },     \
        .open = open_##isa_name,                                                                                       \
        .close = cpu_close,                                                                                            \
        .threads = cpu_threads,                                                                                        \
        .pool = cpu_pool,                                                                                              \
        .alloc = cpu_alloc,                                                                                            \
        .free = cpu_free,                                                                                              \
        .host_alloc = cpu_alloc,                                                                                       \
        .host_free = cpu_free,                                                                                         \
        .upload = cpu_copy,                                                                                            \
        .download = cpu_copy,                                                                                          \
        .load = cpu_load,                                                                                              \
        .store = cpu_store,                                                                                            \
        .sync = cpu_sync,                                                                                              \
        .has_precision = cpu_has_precision,                                                                            \
        .memory = cpu_memory,                                                                                          \
        .capacity = cpu_capacity,                                                                                      \
        .replay = cpu_replay,                                                                                          \
        .record = cpu_record,                                                                                          \
        .recorded = cpu_recorded,                                                                                      \
        .conv_size = zn_cpu_conv_size,                                                                                 \
        .conv_pack = zn_cpu_conv_pack,                                                                                 \
        .conv_pack_rows = zn_cpu_conv_pack_rows,                                                                       \
        .conv_scratch = zn_cpu_conv_scratch,                                                                           \
        .conv_inputs = zn_cpu_conv_inputs,                                                                             \
        .conv_block = zn_cpu_conv_block,                                                                               \
        .conv2d = zn_cpu_conv2d,                                                                                       \
        .norm = zn_cpu_norm,                                                                                           \
        .group_scales = zn_cpu_group_scales,                                                                           \
        .attention = zn_cpu_attention,                                                                                 \
        .rope = zn_cpu_rope,                                                                                           \
        .lookup = zn_cpu_lookup,                                                                                       \
        .resize = zn_cpu_resize,                                                                                       \
        .unshuffle = zn_cpu_unshuffle,                                                                                 \
        .shuffle = zn_cpu_shuffle,                                                                                     \
        .map = zn_cpu_map,                                                                                             \
        .binary = zn_cpu_binary,                                                                                       \
        .step = zn_cpu_step,                                                                                           \
        .fill = zn_cpu_fill,                                                                                           \
        .special = &special,                                                                                           \
        .peak = cpu_peak,                                                                                              \
    }

ZN_CPU_BACKEND(scalar, ZN_ISA_SCALAR, "plain C, the reference");
ZN_CPU_BACKEND(neon, ZN_ISA_NEON, "ARM NEON");
ZN_CPU_BACKEND(avx2, ZN_ISA_AVX2, "x86 AVX2 and FMA");
ZN_CPU_BACKEND(avx512, ZN_ISA_AVX512, "x86 AVX-512");
