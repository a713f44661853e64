/* SPDX-License-Identifier: MIT */
/* cuda.h - what the files of the CUDA backend share: the device, and how a kernel is launched. */
#ifndef ZN_CUDA_H
#define ZN_CUDA_H

#include "../core/ints.h"
#include "../core/threads.h"
#include "args.h"
#include "driver.h"

typedef struct zn_cuda {
    const zn_driver *api;
    CUdevice device;
    CUcontext context;
    CUstream stream;
    int cc;           /* compute capability: 90 is 9.0 */
    int sms;          /* multiprocessors */
    int smem_max;     /* bytes of shared memory a block may have */
    double at_once;   /* multiply-adds of a launch: see zn_cuda_tiles_at_once */
    int cooperative;  /* not 0: zn_cuda_launch_cooperative works */
    char *scratch;    /* device memory for an operation's own use, ZN_CUDA_SCRATCH bytes */
    zn_status status; /* sticky; text says what failed */
    char text[200];
    char name[96];                   /* "NVIDIA H200" */
    struct zn_cuda_choices *choices; /* tune.c; NULL: no memory for it */
    struct zn_cuda_private *p;       /* module.c's: kernels found, staging memory, graphs */
} zn_cuda;

enum { ZN_CUDA_SCRATCH = 64 << 20 };

/* Launches `kernel` (its extern "C" name) on the device's stream; args is its one parameter.  After a failure
 * nothing more is launched; sync reports it. */
void zn_cuda_launch(zn_cuda *d, const char *kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned threads,
                    unsigned shared_bytes, const void *args);
/* Programmatic dependent launch, for a kernel that calls after_previous(): it may start before the kernel ahead ends. */
void zn_cuda_launch_dependent(zn_cuda *d, const char *kernel, unsigned grid_x, unsigned threads, unsigned shared_bytes,
                              const void *args);
/* Cooperative launch, for a kernel with a grid-wide barrier: all blocks are resident at once, or the launch fails. */
void zn_cuda_launch_cooperative(zn_cuda *d, const char *kernel, unsigned grid_x, unsigned grid_y, unsigned threads,
                                unsigned shared_bytes, const void *args);

/* The tiles that one launch computes, so that a card which drives a screen can draw in between: some 40 ms of work, where half of the
 * peak of float32 is reached.  macs: multiply-adds of a tile. */
unsigned zn_cuda_tiles_at_once(const zn_cuda *d, double macs);

/* A kernel's name, composed as by printf.  Names are OPERATION[_VARIANT]_TYPE[_TILE] and have no prefix: they are looked
 * up in this program's own images only.  Use as zn_cuda_launch(d, zn_cuda_kernel("map_%s", type).text, ...). */
typedef struct zn_cuda_name {
    char text[64];
} zn_cuda_name;
zn_cuda_name zn_cuda_kernel(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The device's buffer for weights that are expanded before a kernel, of at least `size` bytes.  It grows on demand, and
 * then what was in it is lost.  NULL: no memory, or it would have to grow during a recording; the device's status says so. */
char *zn_cuda_expanded(zn_cuda *d, size_t size);

/* Pinned host memory for a layer's weights, one of two buffers, free when the copy before the last has ended; NULL: the device has
 * failed.  Then, what is in it goes to the device. */
char *zn_cuda_pinned(zn_cuda *d, size_t size);
void zn_cuda_send_pinned(zn_cuda *d, void *dst, size_t size);

/* Threads that pack weights, opened by the first call; NULL: one is all there is. */
zn_pool *zn_cuda_packers(zn_cuda *d);

void zn_cuda_fail(zn_cuda *d, zn_status status, const char *text);
/* Whether a forward is being recorded: nothing may synchronise with the device then. */
bool zn_cuda_recording(const zn_cuda *d);
/* Milliseconds of device time that work's launches take. */
double zn_cuda_time(zn_cuda *d, void (*work)(void *cookie), void *cookie);

/* The kernels as nvcc compiled them; embedded by images.c, listed in meson.build. */
typedef struct zn_cuda_image {
    const void *data;
    int only_cc; /* 0: for every GPU; negative: from that on */
} zn_cuda_image;

enum { ZN_CUDA_MAX_IMAGES = 32 };
extern const zn_cuda_image zn_cuda_images[];
extern const int zn_cuda_n_images;

static inline zn_cuda_tail zn_cuda_tail_of(zn_tail t)
{
    zn_cuda_tail c = { t.pre, t.post, t.gain == 0 ? 1 : t.gain, { 0 } };

    if (t.residual)
        c.residual = *t.residual;
    return c;
}

/* t from that pixel on, counted over all its images. */
static inline zn_tensor zn_cuda_from(zn_tensor t, size_t pixel)
{
    if (t.data)
        t.data = (float *)(void *)((char *)t.data + pixel * (size_t)t.ld * zn_type_size(t.type));
    return t;
}

/* Whether a pixel of y depends on the same pixel of x alone. */
static inline bool zn_cuda_is_point(const zn_cuda_conv *c)
{
    return c->kh == 1 && c->kw == 1 && c->stride == 1 && !c->pad_t && !c->pad_l && !c->up2 && c->y.h == c->x.h &&
        c->y.w == c->x.w;
}

static inline bool zn_cuda_is_3x3(const zn_cuda_conv *c) /* with a pixel of padding all around */
{
    return c->kh == 3 && c->kw == 3 && c->stride == 1 && c->pad_t == 1 && c->pad_l == 1;
}

/* Bytes of zn_cuda_conv.merged. */
static inline size_t zn_cuda_merged_size(size_t cout_pad, size_t cin_pad)
{
    return cout_pad * 16 * cin_pad * sizeof(uint16_t);
}

/* The functions of backend.h.  module.c: */
zn_status zn_cuda_open(void **dev, int n_threads, bool early, zn_error *err); /* without choices */
bool zn_cuda_starting(void *dev);
void zn_cuda_close(void *dev);
void *zn_cuda_alloc(void *dev, size_t size);
void zn_cuda_free(void *dev, void *ptr);
void *zn_cuda_host_alloc(void *dev, size_t size);
void zn_cuda_host_free(void *dev, void *ptr);
void zn_cuda_upload(void *dev, void *dst, const void *src, size_t size);
void zn_cuda_download(void *dev, void *dst, const void *src, size_t size);
void zn_cuda_load(void *dev, zn_tensor y, const float *x);
void zn_cuda_store(void *dev, float *y, zn_tensor x);
zn_status zn_cuda_sync(void *dev, zn_error *err);
size_t zn_cuda_memory(void *dev);
size_t zn_cuda_capacity(void *dev);
bool zn_cuda_replay(void *dev, uint64_t key);
void zn_cuda_record(void *dev, uint64_t key);
void zn_cuda_recorded(void *dev, bool whole);
/* conv_pack.c, conv.c: */
size_t zn_cuda_conv_size(void *dev, const zn_conv *w);
size_t zn_cuda_conv_scratch(void *dev, const zn_conv *w);
void zn_cuda_conv_pack(void *dev, const zn_conv *w, const float *weight, const float *bias);
bool zn_cuda_conv_pack_here(void *dev, const zn_conv *w, const float *weight, const float *bias, void *here);
bool zn_cuda_conv_pack_rows(void *dev, const zn_conv *w, const zn_row_source *rows, const float *bias);
void zn_cuda_conv2d(void *dev, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t);
/* Fills in all but x, y, the tail and, unless the layer is depthwise, the weight. */
zn_cuda_conv zn_cuda_conv_args(const zn_cuda *d, const zn_conv *w);
/* The weights of a layer that is not depthwise, [cout_pad][k_pad] of that type: the packed ones if they are stored so, else
 * a copy that a kernel expands into zn_cuda_expanded(), from byte `at` on.  It is valid until the next call that expands to
 * the same place.  Copies of several layers at once: ask for the sum of their sizes first. */
const void *zn_cuda_conv_weight(zn_cuda *d, const zn_conv *w, zn_type type, size_t at);
/* Whether hopper.c merges the taps of this layer, if x is of 16 bits. */
bool zn_cuda_conv_merges(const zn_cuda *d, const zn_conv *w);
bool zn_cuda_conv_stored_as(const zn_cuda *d, const zn_conv *w, zn_type type);
size_t zn_cuda_conv_expanded_size(const zn_cuda *d, const zn_conv *w, zn_type type);
/* For all launches: the number of blocks; whether pixels can be read 16 bytes at a time (true if there is no tensor);
 * a type as the kernels' names have it. */
static inline unsigned zn_cuda_blocks(size_t n, size_t each)
{
    return (unsigned)((n + each - 1) / each);
}
static inline size_t zn_cuda_up(size_t x, size_t to)
{
    return (x + to - 1) / to * to;
}
static inline bool zn_cuda_on_16(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}
static inline bool zn_cuda_aligned(zn_tensor t)
{
    return !t.data || (zn_cuda_on_16(t.data) && (size_t)t.ld * zn_type_size(t.type) % 16 == 0);
}
static inline const char *zn_cuda_type_name(zn_type t)
{
    return t == ZN_F32 ? "f32" : t == ZN_F16 ? "f16" : "bf16";
}

enum { ZN_CUDA_VECTOR = 8 }; /* elements that a thread reads at once */

static inline bool zn_cuda_vectors(zn_tensor t)
{
    return !t.data || (zn_cuda_aligned(t) && t.c % ZN_CUDA_VECTOR == 0);
}

/* The type in the name of a kernel for tensors of one type; "any" if the types differ.  Absent tensors do not count. */
static inline const char *zn_cuda_common_type(const zn_tensor *t, int n)
{
    for (int i = 1; i < n; i++)
        if (t[i].data && t[i].type != t[0].type)
            return "any";
    return zn_cuda_type_name(t[0].type);
}

/* tune.c: which of n candidates computes a layer (named by key) the fastest: measured once, then kept in the user's cache
 * folder.  try_one launches candidate i on scratch data. */
int zn_cuda_tune(zn_cuda *d, const char *key, int n, void (*try_one)(void *cookie, int i), void *cookie);
struct zn_cuda_choices *zn_cuda_choices_open(const char *gpu);
void zn_cuda_choices_close(struct zn_cuda_choices **c);
/* norm.c: */
void zn_cuda_group_scales(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w);
void zn_cuda_norm(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w, const zn_modulation *m, zn_tail t);
bool zn_cuda_add_norm(void *dev, zn_tensor x, zn_tensor change, const zn_norm *after, const zn_modulation *gate,
                      zn_tensor y, const zn_norm *before, const zn_modulation *scale);
bool zn_cuda_norm_rope(void *dev, zn_tensor y, zn_tensor x, const zn_norm *norm, const zn_rope *r);
/* hopper.c: */
bool zn_cuda_glu(void *dev, zn_tensor y, zn_tensor x, const zn_conv *gate, const zn_conv *up);
bool zn_cuda_linears(void *dev, const zn_tensor *y, zn_tensor x, const zn_conv *const *w, int n);
/* pointwise.c: */
void zn_cuda_resize(void *dev, zn_tensor y, zn_tensor x, zn_filter f);
void zn_cuda_unshuffle(void *dev, zn_tensor y, zn_tensor x, int r);
void zn_cuda_shuffle(void *dev, zn_tensor y, zn_tensor x, int r, zn_tail t);
void zn_cuda_map(void *dev, zn_tensor y, zn_tensor x, zn_tail t);
void zn_cuda_binary(void *dev, zn_tensor y, zn_tensor a, zn_tensor b, zn_binary op, zn_tail t);
void zn_cuda_step(void *dev, zn_tensor y, zn_tensor x, zn_tensor p, zn_tensor coefs, float clip);
void zn_cuda_rope(void *dev, zn_tensor y, zn_tensor x, const zn_rope *r);
void zn_cuda_lookup(void *dev, zn_tensor y, zn_tensor table, zn_tensor index);
void zn_cuda_fill(void *dev, zn_tensor y, const float *value);
/* attention.c: */
void zn_cuda_attention(void *dev, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, const zn_attention *a);
/* spectral.c: */
void zn_cuda_fwht(void *dev, zn_tensor y, zn_tensor x, const zn_fwht *w);
void zn_cuda_pruned(void *dev, zn_tensor y, zn_tensor mask, zn_tensor x, const zn_pruned *w);
/* gated.c: */
void zn_cuda_gated(void *dev, zn_tensor y, zn_tensor x, const zn_gated *w);

#endif
