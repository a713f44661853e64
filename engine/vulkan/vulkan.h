/* SPDX-License-Identifier: MIT */
/* vulkan.h - what the files of the Vulkan backend share: the device, and how a kernel is launched.
 *
 * Addresses.  What alloc returns is a number, not a pointer: a range of a virtual address space of this device's own, so
 * that views of tensors are made as on any other device.  A launch looks up the buffer behind an address and binds it from
 * the last multiple of minStorageBufferOffsetAlignment on; the elements in between go to the kernel as at[] (see
 * shaders/common.glsl).  Nothing needs buffer device addresses. */
#ifndef ZN_VULKAN_H
#define ZN_VULKAN_H

#include "../core/ints.h"
#include "../special.h"
#include "driver.h"

enum {
    ZN_VK_BINDINGS = 8,   /* storage buffers of every kernel */
    ZN_VK_SPECS = 16,     /* specialisation constants of a kernel's own; ids from ZN_VK_FIRST_SPEC on */
    ZN_VK_FIRST_SPEC = 8, /* below: the types of the tensors that are bound */
    ZN_VK_ARGS = 96,      /* bytes of a kernel's own push constants, after at[] */
    ZN_VK_ABSENT = 3,     /* "type" of a binding that is not used */
};

/* What a device can do. */
typedef struct zn_vk_limits {
    VkPhysicalDeviceType type;
    bool half;      /* 16-bit storage: fp16 tensors */
    bool soft_half; /* software: its conversions from and to fp16 may not work, and long code takes long to compile */
    bool half_math; /* fp16 arithmetic */
    bool packed;    /* and it is used to multiply without matrices; not with $ZENITH_VULKAN_MATRICES=plain */
    bool matrices;  /* cooperative matrices, 16x16x16, fp16 to fp32, on subgroups of 32 */
    bool emulated;  /* by other instructions: $ZENITH_VULKAN_MATRICES=emulated, in tests */
    bool dots;      /* dot products of int8 (VK_KHR_shader_integer_dot_product) */
    bool integers;  /* and they are used */
    bool full_subgroups; /* whole subgroups of 32 can be asked for */
    bool budget;         /* VK_EXT_memory_budget */
    uint32_t subgroup;   /* invocations */
    uint32_t shared;     /* bytes of shared memory of a workgroup */
    uint32_t align;      /* of the offset of a binding */
    size_t range;        /* bytes of a binding */
    size_t block;        /* bytes of an allocation */
    double tick_ns;      /* of timestamps; 0: there are none */
} zn_vk_limits;

typedef struct zn_vk {
    const zn_vk_api *api;
    VkPhysicalDevice gpu;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    zn_vk_limits has;
    struct {
        int bm, threads, ahead;
    } tile;           /* $ZENITH_VULKAN_TILE, for measurements: see conv.c; 0: as the layer is */
    zn_status status; /* sticky; text says what failed */
    char text[200];
    char name[96];
    char list[160];                /* "0 NAME, 1 NAME": all devices, where there are several */
    size_t memory, capacity;       /* see backend.h */
    struct zn_vk_memory *memories; /* memory.c */
    struct zn_vk_kernels *kernels; /* kernels.c */
    struct zn_vk_recorder *rec;    /* record.c */
} zn_vk;

/* Variants of a kernel, by the letters at the end of their names: with cooperative matrices, on whole subgroups of 32, or
 * emulated ones; with fp16 arithmetic, or an emulation of it. */
enum { ZN_VK_MATRICES = 'm', ZN_VK_EMULATED = 'e', ZN_VK_PACKED = 'p', ZN_VK_PACKED_EMULATED = 'q' };

/* A kernel as it is launched.  t: the tensors or arrays that are bound; data NULL: none. */
typedef struct zn_vk_launch {
    const char *kernel;
    zn_tensor t[ZN_VK_BINDINGS];
    int32_t spec[ZN_VK_SPECS];
    size_t groups;    /* workgroups, in one dimension */
    double work;      /* multiply-adds, or about as much time: a submission is no longer than the device can bear */
    const void *args; /* at most ZN_VK_ARGS bytes */
    size_t args_size;
    char variant; /* ZN_VK_MATRICES ..., or 0: as the device stores fp16 */
} zn_vk_launch;

/* record.c: records the launch.  After a failure nothing more is launched; sync reports it. */
void zn_vk_run(zn_vk *d, const zn_vk_launch *k);
/* Copies; host memory is a buffer of memory.c. */
void zn_vk_copy(zn_vk *d, VkBuffer to, size_t to_at, VkBuffer from, size_t from_at, size_t size);
/* `size` bytes, at most 65536 and a multiple of 4, that become a part of the recording, to address `to`. */
void zn_vk_inline(zn_vk *d, void *to, const void *data, size_t size);
uint64_t zn_vk_flush(zn_vk *d);                /* submits what is recorded; the number of the last submission */
void zn_vk_wait(zn_vk *d, uint64_t submitted); /* until that submission is done */
bool zn_vk_recorder_open(zn_vk *d);
void zn_vk_recorder_close(zn_vk *d);
void zn_vk_forget(zn_vk *d); /* drops recorded forwards; the device is idle */
bool zn_vk_replay(void *dev, uint64_t key);
void zn_vk_record(void *dev, uint64_t key);
void zn_vk_recorded(void *dev, bool whole);
double zn_vk_time(zn_vk *d, void (*work)(void *cookie), void *cookie); /* milliseconds, at least 1e-6 */

/* kernels.c: pipelines, made on demand and kept on disk.  NULL: the device has failed. */
typedef struct zn_vk_made {
    VkPipeline pipeline;
    double rate; /* work per ms, as record.c learns it; 0: never launched */
} zn_vk_made;
zn_vk_made *zn_vk_pipeline(zn_vk *d, const zn_vk_launch *k);
VkPipelineLayout zn_vk_layout(const zn_vk *d);
VkDescriptorSetLayout zn_vk_set_layout(const zn_vk *d);
bool zn_vk_kernels_open(zn_vk *d);
void zn_vk_kernels_close(zn_vk *d);

/* memory.c */
typedef struct zn_vk_place {
    VkBuffer buffer;
    size_t offset, size; /* in the buffer; bytes from there to the end of the allocation */
} zn_vk_place;
bool zn_vk_memory_open(zn_vk *d);
void zn_vk_memory_close(zn_vk *d);
bool zn_vk_find(const zn_vk *d, const void *address, zn_vk_place *at); /* false: not an address of this device */
VkBuffer zn_vk_nothing(const zn_vk *d);                                /* a buffer for bindings that are not used */
/* Device memory for an operation's own use, at least `size` bytes, kept until a larger piece is asked for.  NULL: no
 * memory; the device's status says so. */
void *zn_vk_scratch(zn_vk *d, size_t size);
void *zn_vk_weights_room(zn_vk *d, size_t size); /* another one, for expanded weights */
void *zn_vk_alloc(void *dev, size_t size);
void zn_vk_free(void *dev, void *ptr);
void *zn_vk_host_alloc(void *dev, size_t size);
void zn_vk_host_free(void *dev, void *ptr);
void zn_vk_upload(void *dev, void *dst, const void *src, size_t size);
void zn_vk_download(void *dev, void *dst, const void *src, size_t size);
void zn_vk_load_tensor(void *dev, zn_tensor y, const float *x);
void zn_vk_store_tensor(void *dev, float *y, zn_tensor x);

/* device.c */
/* 4: discrete, 3: integrated, 2: virtual, 1: another, 0: software. */
int zn_vk_rank(VkPhysicalDeviceType t);

/* Takes the best device, or the one of $ZENITH_VULKAN_DEVICE, finds what it offers, and opens it. */
bool zn_vk_choose(zn_vk *d, zn_error *err);

const char *zn_vk_failure(VkResult r); /* in words */
bool zn_vk_ok(zn_vk *d, VkResult r, const char *what);
void zn_vk_fail(zn_vk *d, zn_status status, const char *text);

static inline size_t zn_vk_blocks(size_t n, size_t each)
{
    return (n + each - 1) / each;
}

/* An array of floats as a tensor to bind. */
static inline zn_tensor zn_vk_floats(const void *p)
{
    return (zn_tensor){ .data = (float *)(uintptr_t)p };
}

static inline zn_tensor zn_vk_array(const void *p, zn_type type)
{
    return (zn_tensor){ .data = (float *)(uintptr_t)p, .type = type };
}

static inline float zn_vk_gain(zn_tail t)
{
    return t.gain == 0 ? 1 : t.gain;
}

/* Whether pixels of t are vectors of n elements, aligned as such. */
static inline bool zn_vk_vectors(zn_tensor t, int n)
{
    return !t.data || ((uintptr_t)t.data % ((size_t)n * zn_type_size(t.type)) == 0 && t.ld % n == 0 && t.c % n == 0);
}

/* The variant of kernels of products of fp16.  packed: there is one with fp16 arithmetic. */
static inline char zn_vk_variant(const zn_vk *d, bool packed)
{
    if (d->has.matrices)
        return d->has.emulated ? ZN_VK_EMULATED : ZN_VK_MATRICES;
    if (packed && d->has.packed)
        return d->has.soft_half ? ZN_VK_PACKED_EMULATED : ZN_VK_PACKED;
    return 0;
}

/* The operations, as in backend.h.  conv.c: */
size_t zn_vk_conv_size(void *dev, const zn_conv *w);
size_t zn_vk_conv_scratch(void *dev, const zn_conv *w);
void zn_vk_conv_pack(void *dev, const zn_conv *w, const float *weight, const float *bias);
bool zn_vk_conv_pack_rows(void *dev, const zn_conv *w, const zn_row_source *rows, const float *bias);
void zn_vk_conv2d(void *dev, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t);
/* A 1x1 convolution of pixels that are normalised first (layer norm without gamma and beta), if eps >= 0, and the product of the
 * halves of its outputs, if gate.  False: not these tensors, nothing was done. */
bool zn_vk_conv_fused(zn_vk *d, zn_tensor y, zn_tensor x, const zn_conv *w, float eps, bool gate);
/* Where a layer's bias is, and its weights [k][cout_pad], of *type.  int8 and int4: expanded, to fp16. */
const float *zn_vk_conv_bias(const zn_conv *w);
const void *zn_vk_conv_weight(zn_vk *d, const zn_conv *w, zn_type *type, int *cout_pad);
/* integers.c: layers whose zn_vk_conv_inputs are int8, of weights as they are stored: int8 or int4 [cout][groups of ZN_W_GROUP
 * along k], and a scale each, fp16. */
typedef struct zn_vk_rows {
    const float *bias;
    const void *weight, *scale;
    bool four_bits;
} zn_vk_rows;
zn_wtype zn_vk_conv_inputs(void *dev, const zn_conv *w);
size_t zn_vk_integers_scratch(const zn_conv *w);
void zn_vk_integers(zn_vk *d, zn_tensor y, zn_tensor x, const zn_conv *w, zn_vk_rows rows, zn_tail t);
/* norm.c: */
void zn_vk_group_scales(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w);
void zn_vk_norm(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w, const zn_modulation *m, zn_tail t);
/* pointwise.c: */
void zn_vk_resize(void *dev, zn_tensor y, zn_tensor x, zn_filter f);
void zn_vk_unshuffle(void *dev, zn_tensor y, zn_tensor x, int r);
void zn_vk_shuffle(void *dev, zn_tensor y, zn_tensor x, int r, zn_tail t);
void zn_vk_map(void *dev, zn_tensor y, zn_tensor x, zn_tail t);
void zn_vk_binary(void *dev, zn_tensor y, zn_tensor a, zn_tensor b, zn_binary op, zn_tail t);
void zn_vk_step(void *dev, zn_tensor y, zn_tensor x, zn_tensor p, zn_tensor coefs, float clip);
void zn_vk_rope(void *dev, zn_tensor y, zn_tensor x, const zn_rope *r);
void zn_vk_lookup(void *dev, zn_tensor y, zn_tensor table, zn_tensor index);
void zn_vk_fill(void *dev, zn_tensor y, const float *value);
/* attention.c: */
void zn_vk_attention(void *dev, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, const zn_attention *a);
/* spectral.c: */
void zn_vk_fwht(void *dev, zn_tensor y, zn_tensor x, const zn_fwht *w);
void zn_vk_pruned(void *dev, zn_tensor y, zn_tensor mask, zn_tensor x, const zn_pruned *w);
/* gated.c: */
void zn_vk_gated(void *dev, zn_tensor y, zn_tensor x, const zn_gated *w);

#endif
