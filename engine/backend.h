/* SPDX-License-Identifier: MIT */
/* backend.h - the seam between networks and devices: one vtable.
 *
 * Operations run in order; there is no graph.  The model states which operations are fused, in the tail of an
 * operation or in the fields of its descriptor; a backend never guesses.  Every slot is required unless it says what
 * NULL means.  A backend never names a model and trusts its arguments: ops.c checks the shapes.
 *
 * y never overlaps an input, except where a slot says so; a tail's residual may be y itself.
 * Pointers and tensors of a descriptor are device memory.  Whatever changes between two runs of the same forward (a
 * time step, a seed, the coefficients of a sampler) is a tensor: a recorded CUDA graph keeps everything else. */
#ifndef ZN_BACKEND_H
#define ZN_BACKEND_H

#include "core/quantise.h"
#include "core/status.h"
#include "core/tensor.h"
#include "core/threads.h"

enum { ZN_BACKEND_ABI = 11 };

typedef enum zn_act {
    ZN_NONE,
    ZN_RELU,
    ZN_LRELU,     /* x < 0 ? x / 5 : x */
    ZN_SILU,      /* x * sigmoid(x) */
    ZN_GELU,      /* x * (1 + erf(x / sqrt 2)) / 2 */
    ZN_GELU_TANH, /* its tanh form */
    ZN_SIGMOID,
    ZN_TANH,
    ZN_SOFTCLAMP, /* 3 * tanh(x / 3) */
    ZN_CLAMP,     /* min(max(x, -1), 1) */
    ZN_N_ACTS
} zn_act;

/* The tail (epilogue) of an operation, computed before its result goes to memory:
 *     y = post(residual + gain * pre(result))
 * A zeroed struct is the identity (gain 0 reads as 1). */
typedef struct zn_tail {
    zn_act pre, post;
    float gain;
    const zn_tensor *residual; /* shape of y, may be y itself */
    /* Of zn_conv2d alone: a second result, also_act(also_norm(y)), of y's shape and type.  It overlaps nothing, or is y itself:
     * then y is this result. */
    const zn_tensor *also;
    const struct zn_norm *also_norm; /* NULL: none */
    zn_act also_act;
} zn_tail;

/* The precision of a model, fixed when it is opened.  Inputs and outputs are always float32, and so are sums; on a CPU that
 * multiplies fp16, short ones are fp16 (conv_inputs).
 * fp16, bf16: the type of the weights of dense layers, and of tensors between layers where the backend says so
 * (tensor_type).  tf32: float32 tensors, products of convolutions rounded to 10 bits of mantissa or more.  fp8: fp16, and e4m3
 * products in the convolutions that are faster with it.  int8, int4: weights of dense layers are quantised with one
 * scale per group of 32 along k. */
typedef enum zn_precision {
    ZN_FP32,
    ZN_TF32,
    ZN_FP16_MATH,
    ZN_BF16_MATH,
    ZN_FP8_MATH,
    ZN_INT8_MATH,
    ZN_INT4_MATH,
    ZN_N_PRECISIONS
} zn_precision;

extern const char *const zn_precision_names[ZN_N_PRECISIONS]; /* "fp32", ...; ops.c */

/* How the weights of dense layers are stored (core/quantise.h) by a backend that expands them before or inside the product. */
static inline zn_wtype zn_precision_weights(zn_precision p)
{
    return p == ZN_FP16_MATH ? ZN_W_F16
        : p == ZN_BF16_MATH  ? ZN_W_BF16
        : p == ZN_INT8_MATH  ? ZN_W_I8
        : p == ZN_INT4_MATH  ? ZN_W_I4
                             : ZN_W_F32;
}

/* A 2-D convolution (cross-correlation) with zero padding:
 *     y[i][j][o] = bias[o] + sum x[i*stride + u - pad][j*stride + v - pad][c] * weight[o][c][u][v]
 * over the cin/groups channels c of o's group.  A linear layer is the 1x1 case on any h x w.
 * up2: x is read as if enlarged twice by nearest neighbour (y is then twice as large; stride 1). */
typedef struct zn_conv {
    int32_t kh, kw, stride, groups, cin, cout;
    int32_t pad_t,
        pad_l; /* zeros above and to the left; below and right: as y's size needs.  On a CPU pad_t may be negative */
    bool up2;
    bool has_bias;
    bool local;       /* an output depends on the pixels under its kernel alone, its rounding too: no Winograd */
    bool many_pixels; /* of a network for large pictures: the weights may be prepared again in each run */
    bool quantised_x; /* int8, int4: a CPU may quantise x, too, as zn_quantise_input does, and multiply integers */
    bool row_scales;  /* likewise int8 on a GPU: one scale for a row of weights, and one for a pixel of x */
    zn_precision precision; /* of the model: how weights are stored and multiplied; set by zn_bind_pack */
    zn_type tensors;        /* likewise: those of a forward; what enters and leaves it is float32 */
    void *packed;           /* device memory: weights and bias in the layout the backend wants */
} zn_conv;

/* The same for a layer.  One where that saves little (depthwise, grouped, few channels) has float32 weights; on a GPU, which
 * multiplies fp16, it may have fp16 weights. */
static inline zn_wtype zn_conv_weights(const zn_conv *w)
{
    const bool dense = w->groups == 1 && w->cin >= ZN_W_GROUP && w->cout >= 16 && w->kh * w->kw <= 9;

    return dense ? zn_precision_weights(w->precision) : ZN_W_F32;
}

/* Whether a product of integers can compute this layer. */
static inline bool zn_conv_integers_fit(const zn_conv *w)
{
    return w->quantised_x && zn_wtype_scaled(zn_conv_weights(w)) && w->kh * w->kw == 1 && w->stride == 1 && !w->up2 &&
        !w->pad_t && !w->pad_l;
}

/* Where the weights of a linear layer come from: n rows from `first` on, quantised as quantise.h says, to q and scale, or as
 * elements of ZN_F32, ZN_F16 or ZN_BF16.  Several threads may call it at once.  Its creator knows whether it failed; the content of
 * q is undefined then. */
typedef struct zn_row_source {
    void (*read)(void *cookie, int first, int n, void *q, uint16_t *scale);
    void (*read_as)(void *cookie, zn_type type, int first, int n, void *to);
    void *cookie;
    zn_type stored; /* as which read_as copies them; none of those three: in another form */
} zn_row_source;

typedef enum zn_norm_kind {
    ZN_GROUP_NORM, /* statistics over h, w and the channels of a group, per image */
    ZN_LAYER_NORM, /* over the channels of a pixel */
    ZN_RMS_NORM,   /* the same without the mean: x / sqrt(mean(x^2) + eps) */
    ZN_SCALED,     /* none: N(x) = x * gamma[c] + beta[c], both given; not adaptive */
} zn_norm_kind;

/* N(x) = (x - mean) / sqrt(var + eps) * gamma[c] + beta[c]
 * To normalise each head of a dense tensor [n][h][w][heads * dim], reshape it (zn_reshape): w * heads pixels of dim
 * channels. */
typedef struct zn_norm {
    zn_norm_kind kind;
    int32_t c, groups; /* groups: of ZN_GROUP_NORM */
    bool no_bias;      /* for zn_bind_norm: there is no beta to read */
    float eps;
    float *gamma, *beta; /* [c] each; NULL: 1 and 0 */
} zn_norm;

/* An adaptive norm: what a network computes from its time step or its condition,
 *     y = tail((N(x) * (1 + scale) + shift) * gate)
 * Each is [n][1][1][c], of any type, or has data NULL: 0, 0 and 1.  (A published second factor 1 + s is a gate: add 1
 * to the bias of the layer that makes it.) */
typedef struct zn_modulation {
    zn_tensor scale, shift, gate;
} zn_modulation;

/* Attention.  Query head i of `heads` reads key and value head i / (heads / kv_heads):
 *     y = softmax(scale * q k^T) v        over all h * w positions of an image
 * The head dimension of q and k is q.c / heads, that of v and y v.c / kv_heads.  k and v may have another number of
 * positions than q.  causal: query i of n_q reads the keys 0 .. i + n_k - n_q of n_k; n_q <= n_k.
 * ops.c replaces the zeros below, so that backends see none. */
typedef struct zn_attention {
    int32_t heads;
    int32_t kv_heads; /* divides heads; 0 reads as heads */
    float scale;      /* 0 reads as 1 / sqrt(dim) */
    bool causal;
} zn_attention;

/* Rotary position embedding, per head of dim = c / heads channels; position p is pixel p of its image:
 *     y[a] = x[a] cos[p][i] - x[b] sin[p][i],  y[b] = x[a] sin[p][i] + x[b] cos[p][i],  i < dim / 2
 * for the pairs (a, b) = (2i, 2i + 1) if interleaved, else (i, i + dim/2). */
typedef struct zn_rope {
    int32_t heads;
    bool interleaved;
    zn_tensor cos, sin; /* [1][1][positions][dim/2], float32 */
} zn_rope;

typedef enum zn_binary { ZN_ADD, ZN_MUL } zn_binary;

typedef enum zn_filter {
    ZN_NEAREST, /* to any size; pixel centres at .5 */
    ZN_AVERAGE, /* the mean of the x.h/y.h * x.w/y.w pixels that a pixel of y covers; both divide.  2x2 average pooling,
                 * and with y.h = y.w = 1 global average pooling */
} zn_filter;

/* Coefficients of one step of a sampler, [1][1][1][ZN_STEP_COEFS] in float32, from what the network predicted (p):
 *     x0 = clamp(c0 x + c1 p, -clip, clip)     without clamp if clip is 0
 *     y = c4 x0 + c5 (c2 x + c3 x0)            c2 x + c3 x0 is the noise that x0 leaves of x
 * DDIM, from A to A', p being the noise: c = 1/sqrt(A), -sqrt(1/A - 1), 1/sqrt(1-A), -sqrt(A/(1-A)), sqrt(A'), sqrt(1-A')
 *             p being v: c0 = sqrt(A), c1 = -sqrt(1-A), the others likewise; p being x0 itself: 0, 1
 * Euler step of a flow, y = x + d p: c = 0, 1, 1, 0, d, 1 */
enum { ZN_STEP_COEFS = 6 };

typedef enum zn_prediction { /* what the network of a diffusion computes from x = sqrt(A) x0 + sqrt(1-A) noise */
                             ZN_PREDICTS_NOISE,
                             ZN_PREDICTS_V, /* sqrt(A) noise - sqrt(1-A) x0 */
                             ZN_PREDICTS_X0,
                             ZN_N_PREDICTIONS
} zn_prediction;

typedef enum zn_auto { ZN_AUTO_NEVER, ZN_AUTO_ALWAYS, ZN_AUTO_IF_FASTER } zn_auto; /* than the CPU, measured */

typedef struct zn_backend {
    unsigned abi; /* ZN_BACKEND_ABI, checked before anything else */
    const char *name;
    const char *what;            /* a description for users who choose an engine: "ARM NEON" */
    const char *memory_variable; /* the environment variable that limits its memory */
    bool remote;                 /* has its own memory and runs asynchronously; if it fails, a CPU can do its work */
    bool does_also;              /* conv2d computes tail.also; else ops.c does, with a map or a norm */
    bool trains;                 /* autograd/ runs on its device, a zn_cpu */
    size_t strips_from;          /* elements of a tensor that a model computes in strips of rows; 0: the usual number */
    zn_type tensor_type[ZN_N_PRECISIONS]; /* of a network's tensors between its layers */
    /* The same for a network of dense convolutions of at most 9 taps and stride 2, and of maps; NULL: tensor_type. */
    zn_type (*plain_type)(void *dev, zn_precision p);
    const char *precision_needs[ZN_N_PRECISIONS]; /* what hardware a missing precision would need; NULL: unknown */

    void (*describe)(void *dev, char *text, size_t size); /* this device, for users; NULL: `what` says it */
    zn_auto (*automatic)(void *dev);                      /* whether "auto" may choose this device; NULL: it may */
    /* Opens the device; *dev is NULL if it cannot be used.  ZN_E_MEMORY: this machine has it, but too little memory now. */
    zn_status (*open)(void **dev, int n_threads, zn_error *err);
    /* The same without waiting for a device that takes long to start; NULL: none does.  Until it is there, what needs it waits, and a
     * failure is that of sync.  What says how weights are packed does not need it. */
    zn_status (*open_early)(void **dev, int n_threads, zn_error *err);
    bool (*starting)(void *dev); /* it is not there yet; NULL: always false */
    void (*close)(void *dev);
    int (*threads)(void *dev);
    zn_pool *(*pool)(void *dev); /* its threads, which the host may use in the engine's turn; NULL: it is remote */

    void *(*alloc)(void *dev, size_t size); /* aligned to ZN_ALIGN; NULL: no memory */
    void (*free)(void *dev, void *ptr);     /* accepts NULL */
    /* Host memory for the fastest transfers (pinned on a GPU). */
    void *(*host_alloc)(void *dev, size_t size);
    void (*host_free)(void *dev, void *ptr); /* accepts NULL */
    void (*upload)(void *dev, void *dst, const void *src, size_t size);
    void (*download)(void *dev, void *dst, const void *src, size_t size);
    /* A tensor's values from and to a dense array of floats in host memory, converted if need be. */
    void (*load)(void *dev, zn_tensor y, const float *x);
    void (*store)(void *dev, float *y, zn_tensor x); /* y is valid after sync */
    /* Waits for the device and returns the first failure since the last call; with err NULL it is kept for the next one. */
    zn_status (*sync)(void *dev, zn_error *err);

    bool (*has_precision)(void *dev, zn_precision p);
    size_t (*memory)(void *dev);   /* bytes a run should stay below; 0: no suggestion */
    size_t (*capacity)(void *dev); /* bytes for weights and a run, if memory_variable is not set */
    /* A forward may be recorded and replayed under a key: network, sizes, settings, addresses.  replay: true if it has
     * been started again; else the caller computes it between record and recorded.  whole: it was computed to its end. */
    bool (*replay)(void *dev, uint64_t key);
    void (*record)(void *dev, uint64_t key);
    void (*recorded)(void *dev, bool whole);

    /* Weights are packed once, at bind time.  conv_size: bytes of w->packed.  weight is
     * [cout][cin/groups][kh][kw] in host memory, bias has cout (NULL: none). */
    size_t (*conv_size)(void *dev, const zn_conv *w);
    void (*conv_pack)(void *dev, const zn_conv *w, const float *weight, const float *bias);
    /* Into conv_size bytes of host memory that are 0, for an upload to w->packed; false: no memory.  Then conv_pack is called with
     * neither weight nor bias.  NULL: open_early is. */
    bool (*conv_pack_here)(void *dev, const zn_conv *w, const float *weight, const float *bias, void *here);
    /* The same for a linear layer whose rows are read as they are needed: one of whole groups whose weights are int8 or int4, on a
     * GPU also a large one of a transformer.  False: not this layer, and nothing was read.  rows NULL: only says so. */
    bool (*conv_pack_rows)(void *dev, const zn_conv *w, const zn_row_source *rows, const float *bias);
    /* Bytes that the device needs in addition to packed weights and tensors to run such a layer, until it is closed. */
    size_t (*conv_scratch)(void *dev, const zn_conv *w);

    /* The type to which x is rounded before it is multiplied, in a convolution or in a gated block with this one: i8, as
     * zn_quantise_input does; f16, in which short sums are made, too; bf16, with tf32 the sum of two.  NULL: f32 always. */
    zn_wtype (*conv_inputs)(void *dev, const zn_conv *w);
    /* The layer is computed in blocks, from the origin of y on, that round a pixel by all that its block reads: their side, in
     * pixels of y, with up2 of x.  1, or NULL: a pixel's rounding depends on what is under its kernel alone. */
    int (*conv_block)(void *dev, const zn_conv *w);
    void (*conv2d)(void *dev, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t);
    /* m may be NULL; y may be x */
    void (*norm)(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w, const zn_modulation *m, zn_tail t);
    /* gamma and beta, y [1][1][2][c] in float32, of the ZN_SCALED that is the group norm w of x, one image: for a picture that
     * is normalised in parts. */
    void (*group_scales)(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w);
    void (*attention)(void *dev, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, const zn_attention *a);
    void (*rope)(void *dev, zn_tensor y, zn_tensor x, const zn_rope *r); /* y may be x */
    /* y[p] = table[index[p]]: the embedding of a token, the embedding of a time step, a row of a schedule.
     * table is [1][1][rows][c] of any type; index is [n][h][w][1] in float32, whole numbers (exact up to 2^24).
     * An index outside the table gives zeros. */
    void (*lookup)(void *dev, zn_tensor y, zn_tensor table, zn_tensor index);
    void (*resize)(void *dev, zn_tensor y, zn_tensor x, zn_filter f);
    /* Channel order of PyTorch: unshuffle y[i][j][c*r*r + u*r + v] = x[i*r+u][j*r+v][c]. */
    void (*unshuffle)(void *dev, zn_tensor y, zn_tensor x, int r);
    void (*shuffle)(void *dev, zn_tensor y, zn_tensor x, int r, zn_tail t); /* the inverse, then the tail */
    void (*map)(void *dev, zn_tensor y, zn_tensor x, zn_tail t); /* y = tail(x); y may be x; a copy if zero */
    /* y = tail(a op b).  b has the shape of y, or is broadcast: [n][1][1][c] over pixels, [n][h][w][1] over channels,
     * [1][1][1][1] over everything.  y may be a, or a b that is not broadcast. */
    void (*binary)(void *dev, zn_tensor y, zn_tensor a, zn_tensor b, zn_binary op, zn_tail t);
    /* A step of a sampler; see ZN_STEP_COEFS.  y may be x or p. */
    void (*step)(void *dev, zn_tensor y, zn_tensor x, zn_tensor p, zn_tensor coefs, float clip);
    void (*fill)(void *dev, zn_tensor y, const float *value); /* y[..][c] = value[c], host memory */

    const struct zn_special *special; /* operations of single families of networks (special.h); NULL: none of them */

    double (*peak)(void *dev, zn_precision p); /* measured multiply-add peak of convolutions at p, GFLOP/s */
} zn_backend;

/* The CPU backends; each is one set of kernels behind the same code (cpu/backend.c). */
extern const zn_backend zn_backend_scalar, zn_backend_neon, zn_backend_avx2, zn_backend_avx512;

/* NVIDIA GPUs; needs only the driver (cuda/). */
extern const zn_backend zn_backend_cuda;

/* Any GPU with a Vulkan driver (vulkan/). */
extern const zn_backend zn_backend_vulkan;

#endif
