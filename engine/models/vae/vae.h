/* SPDX-License-Identifier: MIT */
/* vae.h - the autoencoders of image and video generators, and the blocks that they share.
 *
 *   encoder   picture ── first ── levels: residual blocks, half the size ── middle ── norm, SiLU, last ── latent
 *   decoder   latent ── first ── middle ── levels: residual blocks, twice the size ── norm, SiLU, last ── picture
 *   middle    residual block, attention over all pixels, residual block
 *
 *   kl.c      AutoencoderKL: FLUX.1, Stable Diffusion, SDXL       group norm
 *   wan.c     Wan 2.1 and 2.2                                     RMS norm over the channels of a pixel
 *   wan2d.c   the document's own 2-D network: other blocks, its own forward
 *   vae.c     their bind and forward; video.c: the forward over frames
 *   posterior.c  a draw from what an encoder gives
 *   reach.c   the pixels that a tile is computed from
 *   blocks.c  the blocks; strips.c: those of large pictures, strip by strip; slots.c: the memory of their tensors
 *
 * kl.c and wan.c read a file into the one struct below: what differs are names, norms and the shortcut around a level. */
#ifndef ZN_VAE_H
#define ZN_VAE_H

#include "../arch.h"

enum {
    ZN_VAE_LEVELS = 6, /* resolutions */
    ZN_VAE_BLOCKS = 6, /* residual blocks of a level */
    ZN_VAE_MAX_C = 4096,
    ZN_VAE_MAX_Z = 256,
    ZN_VAE_NAME = 160,
};

/* y = skip(x) + conv2(SiLU(norm2(conv1(SiLU(norm1(x)))))); skip is 1x1 where the width changes */
typedef struct zn_vae_res {
    int cin, cout;
    zn_norm norm1, norm2;
    zn_conv conv1, conv2, skip;
    zn_conv past1[2], past2[2]; /* video: the taps of conv1 and conv2 for the frame before the last and the last one */
} zn_vae_res;

/* y = x + out(attention(q, k, v)) over all pixels of an image, q and k, v being linear in norm(x) */
typedef struct zn_vae_attention {
    zn_norm norm;
    zn_conv q, kv, out; /* 1x1: c to c, c to 2c, c to c; for an outline q is all three, c to 3c */
    int heads;
} zn_vae_attention;

typedef struct zn_vae_spread { /* of the posterior: see posterior.c */
    zn_conv conv;
    float exponent[ZN_VAE_MAX_Z];
} zn_vae_spread;

/* The shortcut around a level (Wan 2.2): its input, with constant weights or none, is added to its result. */
typedef enum zn_vae_shortcut {
    ZN_VAE_NOTHING,
    ZN_VAE_INPUT,  /* as it is */
    ZN_VAE_MEAN,   /* 2x2 mean */
    ZN_VAE_SPREAD, /* 2x2 mean, then `mix`, 1x1 */
    ZN_VAE_REPEAT, /* each pixel four times */
    ZN_VAE_DEAL,   /* `mix`, 1x1, to four times the width, then shuffled to twice the size */
} zn_vae_shortcut;

typedef struct zn_vae_level {
    int n_res;
    zn_vae_res res[ZN_VAE_BLOCKS];
    bool resamples;
    zn_conv resample; /* stride 2, or up2 */
    zn_vae_shortcut shortcut;
    zn_conv mix;
    bool in_time;     /* video: it halves or doubles the number of frames too, */
    zn_conv time[3];  /* by these taps, 1x1: c to c, or c to 2c; */
    zn_conv mix_past; /* ZN_VAE_SPREAD: of the first of two frames, where mix is of the second */
} zn_vae_level;

typedef struct zn_vae {
    bool decoder;
    int z, width;    /* latent channels; of the middle */
    int patch;       /* the picture is unshuffled by this: 1 or 2 */
    bool has_quant;  /* a 1x1 convolution between `last` and the latent, or the latent and `first` */
    bool has_attend; /* in the middle */
    zn_conv quant, first, last;
    zn_vae_spread spread; /* of an encoder */
    zn_norm last_norm;
    zn_vae_res middle[2];
    zn_vae_attention attention;
    int n_levels;
    zn_vae_level level[ZN_VAE_LEVELS];
    zn_act end; /* of the output */
    bool video; /* all taps in time are bound */
    /* A diffusion model's latent is (z - shift) * scale.  A setting may ask for another scale, then without shift. */
    float scale;   /* 0: latents stay as they are */
    int scale_set; /* the number of that setting; its 0 asks for nothing */
    float *shift;  /* [z]: what is added after (encoder) or before (decoder) the scale; NULL: nothing */
    zn_conv past_first[2], past_last[2];
} zn_vae;

/* How a file names the parts of a block, and which norm it has. */
typedef struct zn_vae_names {
    const char *norm1, *conv1, *norm2, *conv2, *skip;
    const char *norm, *q, *k, *v, *out; /* attention; k NULL: q is all three */
    zn_norm_kind kind;
    float eps; /* of a group norm */
} zn_vae_names;

/* ---- bind ---------------------------------------------------------------------------------------------- */

/* The settings of an encoder's zn_posterior. */
#define ZN_VAE_SAMPLE                                                                                                  \
    {                                                                                                                  \
        "sample", 0, 0, 1, "1: a draw from the posterior instead of its mean"                                          \
    }
#define ZN_VAE_SEED                                                                                                    \
    {                                                                                                                  \
        "seed", 0, 0, ZN_MAX_SEED, "of that draw"                                                                      \
    }

/* The output channels of NAME.weight, checked; 0: the status says what is wrong. */
int zn_vae_width(zn_binder *b, const char *name);
/* RMS norm: NAME.gamma.  Group norm of 32 groups (width, if that is less): NAME.weight, NAME.bias. */
void zn_vae_bind_norm(zn_binder *b, zn_norm *out, const zn_vae_names *n, int width, const char *fmt, ...)
    ZN_PRINTF(5, 6);
/* A convolution; of a file's 3-D convolution only the last tap in time, which is all that one picture sees.  The first
 * spec.cout output channels are taken. */
void zn_vae_bind_conv(zn_binder *b, zn_conv *out, zn_conv spec, const char *fmt, ...) ZN_PRINTF(4, 5);
/* Tap number `tap` in time, without a bias; without a file: made-up values. */
void zn_vae_bind_tap(zn_binder *b, zn_conv *out, zn_conv spec, int tap, const char *name);
/* The same in host memory, [rows of the file][cin][kh][kw]; *bias likewise.  Both are freed by the caller. */
float *zn_vae_read_conv(zn_binder *b, float **bias, zn_conv spec, const char *name);
float *zn_vae_read_tap(zn_binder *b, float **bias, zn_conv spec, int tap, const char *name); /* bias may be NULL */
/* The first half of the rows of NAME, spec.cout of them, is the mean; the second half goes to the spread, unless
 * that is NULL.  shift NULL: the mean
 * as it is; else (mean - shift) / deviation, and a spread likewise.  For an outline: all rows. */
void zn_vae_bind_moments(zn_binder *b, zn_conv *mean, zn_vae_spread *s, zn_conv spec, const float *shift,
                         const float *deviation, const char *name);
/* video: with all taps in time. */
void zn_vae_bind_res(zn_binder *b, zn_vae_res *r, const zn_vae_names *n, bool video, int cin, int cout, const char *fmt,
                     ...) ZN_PRINTF(7, 8);
void zn_vae_bind_attention(zn_binder *b, zn_vae_attention *a, const zn_vae_names *n, int width, const char *name);
/* How sizes map, from what was bound; halo -1.  Norms of a pixel: how it is split, too (zn_split). */
void zn_vae_set_geometry(zn_binder *b, const zn_vae *m);

typedef struct zn_span { /* rows or columns from .. end-1 */
    int from, end;
} zn_span;

/* What pixels of the latent are computed from, of an encoder, or computed to, of a decoder: of an encoder's picture, or of what a
 * decoder's level `level` sees (n_levels: its last norm).  It may go beyond the picture. */
zn_span zn_vae_reach(const zn_backend *be, void *dev, const zn_vae *m, int level, zn_span latent);
/* Tiles begin at multiples of so many pixels at each resolution. */
int zn_vae_unit(const zn_backend *be, void *dev, const zn_vae *m);

/* Stride 2 with a zero row below and a zero column to the right. */
static inline zn_conv zn_vae_half(int cin, int cout)
{
    return (zn_conv){ .kh = 3, .kw = 3, .stride = 2, .groups = 1, .cin = cin, .cout = cout, .has_bias = true };
}

static inline zn_conv zn_vae_twice(int cin, int cout)
{
    zn_conv conv = zn_conv_same(3, cin, cout);

    conv.up2 = true;
    return conv;
}

/* ---- forward ------------------------------------------------------------------------------------------- */

enum { ZN_VAE_SLOTS = 4 };

/* A forward whose tensors lie in a few slots.  It is walked twice: first on a context that only counts, which gives the
 * size of each slot. */
typedef struct zn_vae_run {
    zn_ctx *c;
    const zn_call *call;
    zn_tensor x; /* the result so far: in slot 0, or the input */
    void *data[ZN_VAE_SLOTS];
    size_t size[ZN_VAE_SLOTS]; /* bytes */
    bool sizing;
    int up;        /* of a decoder's tile: x has so many pixels for each of the input, */
    int left, top; /* from this pixel on */
    bool normed;   /* slot 1 has SiLU(norm(x)), for the norm that comes next */
    char *state;   /* video: what the next causal layer keeps of the frames before */
    size_t kept;   /* bytes of all of them so far */
} zn_vae_run;

typedef void zn_vae_walk(zn_vae_run *r, const void *net, const zn_call *call);

void zn_vae_forward_slots(zn_ctx *c, const void *net, const zn_call *call, zn_vae_walk *walk);

/* A tensor in slot i, of the run's type; what was there is gone. */
zn_tensor zn_vae_slot(zn_vae_run *r, int i, int n, int h, int w, int ch);
/* x = y, which is in slot i: slots 0 and i change places. */
void zn_vae_take(zn_vae_run *r, zn_tensor y, int i);

/* Each replaces r->x and uses slots 1 and 2.  In all but zn_vae_conv, x is in slot 0. */
void zn_vae_conv(zn_vae_run *r, const zn_conv *w, zn_tail t);
/* next: the norm, with a SiLU, that x goes through next, which may be computed now (normed); NULL: none, or not known. */
void zn_vae_res_block(zn_vae_run *r, const zn_vae_res *k, const zn_norm *next);
void zn_vae_attend(zn_vae_run *r, const zn_vae_attention *a);
/* If the call has noise: out += scale * spread(x) * noise. */
void zn_vae_draw(zn_vae_run *r, const zn_vae_spread *s, float scale);
/* The network's picture of r->x. */
void zn_vae_patch(zn_vae_run *r, const zn_vae *m);

/* Of a large picture, a block is computed strip by strip of rows (strips.c), which uses slot 2 for strips: whether x's pixels, of
 * ch channels, are so many. */
bool zn_vae_in_strips(const zn_vae_run *r, zn_tensor x, int ch);
/* y = conv(act(norm(x))) + skip(from_x), or + residual without a skip; y may be x, and be the residual. */
void zn_vae_norm_conv(zn_vae_run *r, zn_tensor y, zn_tensor x, const zn_norm *norm, zn_act act, const zn_conv *w,
                      const zn_tensor *residual, const zn_conv *skip, zn_tensor from_x);
/* zn_vae_res_block with norms of a pixel. */
void zn_vae_row_block(zn_vae_run *r, const zn_vae_res *k);
/* zn_vae_attend with keys and values as a whole, and queries in strips. */
void zn_vae_attend_in_strips(zn_vae_run *r, const zn_vae_attention *a);

/* The same as a zn_arch's steps: its forward, and bytes of state for frames of the call's size.  With a state, the call's
 * frames follow those that made it (video.c). */
void zn_vae_forward(zn_ctx *c, const void *net, const zn_call *call);
size_t zn_vae_state(const void *net, const zn_call *call, zn_type type);

/* The forward of a call with a state (video.c). */
void zn_vae_video_walk(zn_vae_run *r, const zn_vae *m, const zn_call *call);

#endif
