/* SPDX-License-Identifier: MIT */
/* arch.h - what a model file provides, and the functions with which it reads its weights.
 *
 * A model is one .c file that ends in a zn_arch, and one line in registry.c.  template.c shows one. */
#ifndef ZN_ARCH_H
#define ZN_ARCH_H

#include "../autograd/outline.h"
#include "../core/ahead.h"
#include "../core/weights.h"
#include "../ops.h"

/* ---- stating weights ------------------------------------------------------------------------------- */

/* A model's bind is the only description of its tensors.  It runs in three modes:
 *     with a file                 the tensors are read from it, packed and put on the device
 *     without one, w NULL         they get made-up values: for the self-test, and benchmarks without weights
 *     with an outline             they are listed there and are 0; nothing reaches a device: for training, whose graph
 *                                 is recorded from the forward (autograd/record.h).  What bind multiplies together or
 *                                 writes as a matrix to save time, it leaves apart then
 * Sizes come from the file if there is one.  Without one they are the requested ones (base, size, meta), or the usual
 * ones.
 *
 * The status is sticky: a wrong name or shape is kept, and the calls after it do nothing. */

/* For a network of which only a part, at low resolution, needs the whole picture: it can be run in two stages, that part
 * on the whole picture and the other one in tiles.  Stage 1 comes first. */
typedef struct zn_split {
    int c;            /* channels of the tensor between the stages; 0: the network cannot be split */
    int halo;         /* of the stage in tiles, in pixels of its input */
    int lattice;      /* likewise: its tiles begin at multiples of this; 0: of the usual number */
    bool whole_first; /* stage 1 is the whole one; it keeps the size.  Else stage 2 is, and stage 1 changes the size */
} zn_split;

struct zn_binder;
typedef void zn_bind_layer(struct zn_binder *b, void *net, int i);

typedef struct zn_layers { /* the repeated layers of a network; see zn_bind_layers */
    zn_bind_layer *each;
    void *net;
    int n;
    size_t bytes, most; /* packed weights of all of them, and of the largest one */
    size_t reading;     /* host memory that reading one of them takes */
    size_t ahead;       /* likewise, that reading the next one ahead takes; 0: it is not worth it */
    int64_t parameters; /* of all of them */
    int first, n_owned; /* their places in zn_binder.owned */
    char *slot;         /* of `most` bytes, if they are streamed */
    zn_ahead *reader;   /* reads the next layer meanwhile; NULL: layers are read when they are needed */
} zn_layers;

/* The device's memory of a network, in the order in which bind takes it: packed in host memory while the device starts. */
typedef struct zn_packed {
    struct {
        void *data;
        size_t size;
    } * piece;
    int n, next;  /* next: the first that is not on the device */
    size_t bytes; /* of all */
} zn_packed;

void zn_packed_clear(zn_packed *p);

typedef struct zn_binder {
    const zn_weights *w;     /* NULL: no file */
    int base, size;          /* without a file: width of the network, side of its input; 0: the usual one */
    const char *const *meta; /* without a file: metadata, pairs of strings; NULL ends; may be NULL */
    zn_outline *outline;
    zn_init init; /* of the next tensor, and its value */
    double init_value;
    const zn_backend *be;
    void *dev;
    zn_precision precision; /* of the model */
    zn_type tensors;        /* of its forward */
    zn_status status;
    zn_error *err;
    void **owned; /* device memory handed to the model; freed with it */
    int n_owned;
    size_t bytes;   /* of it */
    size_t scratch; /* bytes that the device needs in addition for the largest layer (conv_scratch) */
    bool counting;  /* only names, shapes and bytes are wanted: tensors read as 0, and nothing reaches the device */
    /* NULL, or gets all that would go to the device, which is not needed: the addresses in net are of no use.  It fails where a
     * layer is too large for that. */
    zn_packed *packs;
    zn_packed *packed; /* NULL, or what such a bind has made: it goes to the device, and nothing is read or packed */
    int64_t parameters;
    bool streams;     /* layers are streamed */
    zn_layers layers; /* set by zn_bind_layers */
    size_t reading;   /* bytes of the most floats that were in host memory at a time */
    size_t stored;    /* bytes of the tensors in their files */
    char *slot;       /* not NULL: device memory is taken from here on, slot_left bytes */
    size_t slot_left;
    zn_ctx *run; /* NULL, or the run that reads a layer: reading ends when it is cancelled */
    bool (*progress)(void *cookie, double done); /* NULL, or that of zn_open */
    void *cookie;
    zn_model *const *part; /* a composite's networks, opened */
    zn_geometry geometry;  /* set by bind */
    zn_split split;        /* set by bind, or zero */
    char variant[96];      /* set by bind: "taef2, 32 latent channels" */
} zn_binder;

/* Does the file have such a tensor; its size along a dimension.  Without one: false and 0. */
bool zn_bind_has(const zn_binder *b, const char *fmt, ...) ZN_PRINTF(2, 3);
int zn_bind_dim(const zn_binder *b, int dim, const char *fmt, ...) ZN_PRINTF(3, 4);

/* Metadata, or NULL. */
const char *zn_bind_meta(const zn_binder *b, const char *key);
/* The values that the next tensor has before training. */
void zn_bind_init(zn_binder *b, zn_init init, double value);

/* The network consists of the operations that zn_backend.plain_type names.  Before the first layer. */
void zn_bind_plain(zn_binder *b);
/* Reads NAME.weight (and NAME.bias if spec.has_bias) and packs them.  In spec, a stride or groups of 0
 * reads as 1. */
void zn_bind_conv(zn_binder *b, zn_conv *out, zn_conv spec, const char *fmt, ...) ZN_PRINTF(4, 5);
/* Packs what is in host memory: weight [cout][cin/groups][kh][kw], bias [cout] or NULL. */
void zn_bind_pack(zn_binder *b, zn_conv *out, zn_conv spec, const float *weight, const float *bias);
/* Reads NAME.weight and, unless spec.no_bias, NAME.bias, spec.c each.  A norm without either needs no binding. */
void zn_bind_norm(zn_binder *b, zn_norm *out, zn_norm spec, const char *fmt, ...) ZN_PRINTF(4, 5);
/* The tensor of these dimensions (0 ends the list) in host memory, to be freed by the caller; NULL: failed. */
float *zn_bind_read(zn_binder *b, const int dims[4], const char *fmt, ...) ZN_PRINTF(3, 4);
/* The same for five dimensions, none of them 0: a 3-D convolution. */
float *zn_bind_read5(zn_binder *b, const int dims[5], const char *fmt, ...) ZN_PRINTF(3, 4);
/* A tensor of c elements in device memory that lives as long as the model; NULL: failed. */
float *zn_bind_vector(zn_binder *b, int c, const char *fmt, ...) ZN_PRINTF(3, 4);
/* A table of dims[0] x dims[1] elements in device memory as ZN_F32 or ZN_BF16, read in pieces: it may be large. */
void *zn_bind_table(zn_binder *b, const int dims[2], zn_type type, const char *fmt, ...) ZN_PRINTF(4, 5);
/* A copy in device memory that lives as long as the model; NULL: failed. */
void *zn_bind_device(zn_binder *b, const void *host, size_t size);
/* The same for what is made of the tensor of this name alone: for an outline, its address there. */
void *zn_bind_made(zn_binder *b, const void *host, size_t size, const char *fmt, ...) ZN_PRINTF(4, 5);
void zn_bind_fail(zn_binder *b, const char *fmt, ...) ZN_PRINTF(2, 3);

/* Layers 0 .. n-1, which each(b, net, i) binds; once in a bind.  The forward calls zn_layer before it uses layer i, and
 * uses no other one until the next call.
 *
 * Where memory is short they are streamed: all layers have the same device memory, a slot, and a forward packs each layer into it
 * when it gets there.  A thread has read it from the file before, while the layer before was computed (ahead.h), unless that
 * would take as much memory as streaming saves.  A layer's weights lie at the same addresses every time. */
void zn_bind_layers(zn_binder *b, void *net, int n, zn_bind_layer *each);
/* Frees the memory of layers that are bound, and gives them a slot.  b->w is open from here on. */
void zn_bind_stream(zn_binder *b);
/* Ends the thread; for a binder whose layers are streamed, or not. */
void zn_bind_end(zn_binder *b);
/* Layer i into the slot; binder: a zn_binder whose layers are streamed.  For zn_streamed.fetch. */
void zn_bind_fetch(zn_ctx *c, const void *binder, int i);

/* k x k, same size out as in (for odd k), with bias. */
static inline zn_conv zn_conv_same(int k, int cin, int cout)
{
    return (zn_conv){ .kh = k,
                      .kw = k,
                      .stride = 1,
                      .groups = 1,
                      .cin = cin,
                      .cout = cout,
                      .pad_t = k / 2,
                      .pad_l = k / 2,
                      .has_bias = true };
}

/* Values for a tensor of this name and shape that keep activations near 1: the same ones every time. */
void zn_make_up(float *x, const char *name, const int *shape, int n_dims);

/* "relu", "silu" or "gelu"; ZN_NONE: none of them. */
zn_act zn_act_named(const char *name);

/* ---- the model ------------------------------------------------------------------------------------- */

typedef struct zn_call {
    zn_tensor in[ZN_MAX_PORTS], out[ZN_MAX_PORTS]; /* in[i].data NULL: an optional input is absent */
    int n_in, n_out;
    const float *set; /* one number per setting of the info, in its order */
    int left, top;    /* a model that crops: out[0] is the part of in[0] that begins here */
    void *state;      /* NULL, or device memory that goes from chunk to chunk of a video; see zn_stream */
    bool first;       /* the first chunk: the state has nothing in it */
    int stage;        /* of a split network: 1 or 2; 0: all of it.  Stage 2 of one with whole_first crops */
} zn_call;

/* A network that is causal in time takes a video in chunks: the first frame, which gives one frame, then frames_in frames
 * at a time, which give frames_out.  The frames of a chunk are the images of its tensors.  What it needs of earlier
 * frames is in call->state, of as many bytes as state() returns for the chunks after the first. */
typedef struct zn_stream {
    int frames_in, frames_out;
    size_t (*state)(const void *net, const zn_call *call, zn_type type);
} zn_stream;

enum { ZN_TASK_RESTORE = 1, ZN_TASK_RECONSTRUCT = 2, ZN_TASK_DENOISE = 4 };

/* How a network is trained.  Architectures whose weights have the same name are trained as one network, one after the
 * other in the registry's order: an encoder and its decoder. */
typedef struct zn_training {
    unsigned tasks;    /* which there are; the lowest is the default */
    bool from_weights; /* only a file says how large the network is: training starts from one */
    bool variants;     /* the metadata "activation" and "window" can be chosen */
    bool posterior; /* the output of the first architecture is means and logarithms of variances: the latent is drawn */
} zn_training;

/* A network that draws codes, trained on codes with noise of a time step.  For an outline its second input is the embedding of the
 * time instead of the time. */
typedef struct zn_coded {
    int times, dim;                             /* time steps; length of an embedding without a file */
    void (*embed)(float *rows, int dim);        /* [times][dim] */
    const char *(*prefix)(const zn_weights *w); /* of the names in a file as published; "": it is one of ours */
} zn_coded;

typedef struct zn_part { /* a network that a composite runs */
    const struct zn_arch *arch;
    const char *folder; /* NULL, or where its files are inside a folder that holds the whole composite */
} zn_part;

enum { ZN_MAX_PARTS = 4 };

/* A network that is told the noise of its picture, by three settings or by its second input, a map.  Where the first of them is 0 and no
 * map is given, the pipeline measures one with another network; where that is not installed it fills in the settings, from the
 * whole picture, before the first tile. */
typedef struct zn_told_noise {
    int sigma;                   /* the setting of red; green's and blue's follow */
    int scale;                   /* the setting that is a factor of what is measured */
    const struct zn_arch *level; /* measures the map */
    int first;                   /* of its channels */
} zn_told_noise;

/* An encoder that gives a posterior.  Where the setting `sample` is not 0, the forward gets one input more, of the shape of out[0]:
 * noise from the setting `seed`.  Only forwards on the whole picture make a latent. */
typedef struct zn_posterior {
    int sample, seed;
} zn_posterior;

typedef struct zn_arch {
    zn_model_info info;
    size_t size; /* of the struct that bind fills, zeroed before */
    bool (*recognise)(const zn_weights *w, char *what, size_t size);
    /* NULL, or the network that had this id and this name of weights before: a file of it is run as before, with a note. */
    const struct zn_arch *formerly;
    void (*bind)(zn_binder *b, void *net);
    void (*forward)(zn_ctx *c, const void *net, const zn_call *call);
    /* Fills the sizes of out[]; false: these inputs do not fit.  NULL: an image model, see geometry. */
    bool (*shape)(const void *net, const zn_tensor *in, int n_in, zn_tensor *out);
    /* With shape: sizes of inputs that fit, for a picture of about w x h; returns how many.  For the self-test and
     * benchmarks. */
    int (*example)(const void *net, int w, int h, zn_tensor *in);
    const zn_stream *stream;       /* NULL: no video */
    const zn_training *train;      /* NULL: cannot be trained */
    const zn_coded *coded;         /* likewise, on codes */
    const zn_told_noise *noise;    /* NULL: it is not told of any */
    const zn_posterior *posterior; /* NULL: it has none */
    int in_c, out_c; /* channels of the first input and output that every variant has; 0: the weights decide */
    /* NULL: a network.  Else a composite (pipeline/): it owns no weights but runs these networks, at most ZN_MAX_PARTS,
     * with zn_call_net; the first without an arch ends the list.  bind finds them in zn_binder.part. */
    const zn_part *parts;
    bool centred;            /* an autoencoder's picture is -1..1, not 0..1 */
    bool half_ok;            /* fp16 stays within one 8-bit level and 0.02 dB of fp32 */
    bool half_sums_ok;       /* so do, nearly everywhere, sums of 32 products in fp16, as CPUs make them */
    const char *half_unless; /* NULL, or a tensor that only variants have for which half_ok does not hold */
    bool crops;              /* writes a tile's own pixels only, and drops its halo step by step */
} zn_arch;

/* Fills b->outline, and net but for what would be on a device: such a network cannot run.  b holds w or the sizes,
 * outline and err. */
zn_status zn_arch_describe(const zn_arch *a, void *net, zn_binder *b);

extern const zn_arch *const zn_archs[]; /* NULL ends; registry.c */

#endif
