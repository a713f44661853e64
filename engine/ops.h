/* SPDX-License-Identifier: MIT */
/* ops.h - the operations with which a model's forward is written: those of backend.h behind one context.
 *
 * Each call checks shapes (a wrong one is a bug: assert), counts work, looks for cancellation (a CPU also inside an
 * operation, between the items of its loops), reports progress and calls the backend.  The status is sticky: after the
 * first failure every call returns at once, so a forward has no error paths.  In a dry run the same calls only count. */
#ifndef ZN_OPS_H
#define ZN_OPS_H

#include "core/arena.h"
#include "special.h"
#include "zenith_bench.h"

struct zn_ctx;

/* Picture i of a tensor [n][h][w][c]. */
static inline zn_tensor zn_image(zn_tensor t, int i)
{
    assert(i >= 0 && i < t.n);
    t.data = (float *)((char *)t.data + (size_t)i * (size_t)t.h * (size_t)t.w * (size_t)t.ld * zn_type_size(t.type));
    t.n = 1;
    return t;
}

/* How a network whose layers are not in memory all at once gets them.  fetch puts the weights of layer i in the place of
 * those of the layer before; a failure is in the context's status. */
typedef struct zn_streamed {
    void (*fetch)(struct zn_ctx *c, const void *cookie, int i);
    const void *cookie;
    double weights; /* of a layer */
} zn_streamed;

typedef struct zn_ctx {
    const zn_backend *be;
    void *dev;
    zn_arena *arena;
    zn_type type;                /* of the tensors between layers */
    const zn_streamed *streamed; /* NULL: the network's weights are in memory */
    bool dry;                    /* count macs, work and the arena's peak; touch nothing */
    zn_status status;            /* sticky */
    zn_error *err;               /* may be NULL */
    double macs;                 /* multiply-adds so far */
    double work;                 /* macs and memory traffic so far, in units of a multiply-add */
    double entered;              /* `work` when the operation that runs now began */
    double total;                /* work of the whole run, from dry runs; 0: no progress is reported */
    bool (*progress)(void *cookie, double done);
    double reported_at, step_ms; /* when zn_report() was called last, and how long before that: 0, it is not known */
    /* A remote engine's queue is waited for after so much work, about 25 ms, so that a run can be cancelled; 0: it is not. */
    double part;
    double waited_at, waited_for;                                                  /* when, and `work` then */
    void (*preview)(void *cookie, const zn_array *picture, int step, int n_steps); /* NULL, or see zn_job */
    int preview_every;
    struct zn_model *preview_with; /* likewise */
    void *cookie;
    void (*trace)(void *cookie, const zn_layer_time *t); /* NULL, or called after each op */
    void *trace_cookie;
    void (*watch)(void *cookie, const char *name, zn_tensor x); /* NULL, or called by zn_watch */
    void *watch_cookie;
} zn_ctx;

/* Whether somebody may cancel what a remote engine computes. */
bool zn_can_pace(const zn_ctx *c);
/* Whether a step, or a forward of so many milliseconds, is so long that it is not recorded, but launched part by part. */
bool zn_step_is_long(const zn_ctx *c);
bool zn_is_long(double ms);
/* From now on the queue is waited for, or not any more. */
void zn_pace(zn_ctx *c, bool on);

/* A new tensor from the arena; when memory is short the status says so and the tensor is not used. */
zn_tensor zn_new(zn_ctx *c, int n, int h, int w, int ch); /* of the run's type */
zn_tensor zn_new_of(zn_ctx *c, zn_type type, int n, int h, int w, int ch);

/* Each operation is described at its slot in backend.h. */
void zn_conv2d(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t);
void zn_normalise(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_norm *w, zn_tail t);
void zn_modulate(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_norm *w, const zn_modulation *m, zn_tail t);
void zn_group_scales(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_norm *w);
void zn_attend(zn_ctx *c, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, const zn_attention *a);
void zn_rotate(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_rope *r);
/* Rows of a table.  Values of a sampler's steps come from here too: the host uploads a table [steps][..] of time
 * embeddings, [cos, sin] computed in double precision, and one of coefficients, once a run; the index of the step is
 * a tensor [1][1][1][1]. */
void zn_lookup(zn_ctx *c, zn_tensor y, zn_tensor table, zn_tensor index);
void zn_resize(zn_ctx *c, zn_tensor y, zn_tensor x, zn_filter f);
void zn_unshuffle(zn_ctx *c, zn_tensor y, zn_tensor x, int r);
void zn_shuffle(zn_ctx *c, zn_tensor y, zn_tensor x, int r, zn_tail t);
void zn_map(zn_ctx *c, zn_tensor y, zn_tensor x, zn_tail t);
/* y = the part of x that begins there; one dense image */
void zn_window(zn_ctx *c, zn_tensor y, zn_tensor x, int left, int top);
void zn_combine(zn_ctx *c, zn_tensor y, zn_tensor a, zn_tensor b, zn_binary op, zn_tail t);
void zn_step(zn_ctx *c, zn_tensor y, zn_tensor x, zn_tensor p, zn_tensor coefs, float clip);
void zn_fill(zn_ctx *c, zn_tensor y, const float *value);

/* Those of special.h.  On a backend without them fwht and pruned fail, the others are computed as their parts, with memory of the
 * arena for a while. */
void zn_gated_block(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_gated *w);
void zn_glu(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_conv *gate, const zn_conv *up);
void zn_norm_rotate(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_norm *norm, const zn_rope *r);
void zn_add_norm(zn_ctx *c, zn_tensor x, zn_tensor change, const zn_norm *after, const zn_modulation *gate, zn_tensor y,
                 const zn_norm *before, const zn_modulation *scale);
void zn_linears(zn_ctx *c, const zn_tensor *y, zn_tensor x, const zn_conv *const *w, int n);
void zn_transform(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_fwht *w);
void zn_prune(zn_ctx *c, zn_tensor y, zn_tensor mask, zn_tensor x, const zn_pruned *w);

/* Between the host and the device; x is dense in host memory. */
void zn_upload(zn_ctx *c, zn_tensor y, const float *x);
void zn_download(zn_ctx *c, float *y, zn_tensor x);

/* Before the operations of layer i of those that a network has bound with zn_bind_layers: its weights are in memory from
 * here to the next call.  Nothing happens where all of them are. */
void zn_layer(zn_ctx *c, int i);

/* For an operation that takes long: reports the progress before it again; false if the run is cancelled. */
bool zn_go_on(zn_ctx *c);

/* If there is a progress function: waits for the device, then calls it; false cancels.  For the end of a step. */
void zn_report(zn_ctx *c);

/* A block's result under its name in the weight file: for tests that compare block by block.  Nothing happens without
 * a watch function. */
void zn_watch(zn_ctx *c, zn_tensor x, const char *fmt, ...) ZN_PRINTF(3, 4);

/* The first failure stays. */
void zn_ctx_fail(zn_ctx *c, zn_status status, const char *fmt, ...) ZN_PRINTF(3, 4);

#endif
