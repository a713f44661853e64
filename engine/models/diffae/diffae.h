/* SPDX-License-Identifier: MIT */
/* diffae.h - the networks of the diffusion autoencoder (Preechakul et al. 2022), and what they share.
 *
 *   picture ── encoder ── code (512 elements) ────────┐
 *   noisy picture, time step ── U-Net ── prediction ──┴── repeated by pipeline/diffae.c
 *   noise, time step ── latent network ── prediction: draws new codes
 *
 * Blocks and tensor names are those of the published checkpoints.  All sizes are read from the file: widths, levels,
 * blocks a level, where attention is, the size of the code.  Our own files say more in their metadata:
 *   patch           the U-Net and the encoder see the picture unshuffled by this (1)
 *   head_channels   of attention (all: one head)
 *   encoder_blocks  a level of the encoder (2)
 *   prediction      "eps", "v" or "x0": what the U-Net predicts (eps)
 *   latent_prediction   the same for the latent network
 *   image_size      side of the pictures (where the encoder ends at 4 x 4)
 * Without a file they are the networks of the shipped face model. */
#ifndef ZN_DIFFAE_H
#define ZN_DIFFAE_H

#include "../arch.h"

enum {
    ZN_DIFFAE_STEPS = 1000, /* time steps of training */
    ZN_DIFFAE_LEVELS = 8,   /* resolutions */
    ZN_DIFFAE_BLOCKS = 64,  /* residual blocks of one side */
    ZN_DIFFAE_MAX_C = 8192, /* of a layer */
};

/* ---- blocks.c ------------------------------------------------------------------------------------------ */

/* y = x + out(attention(qkv(norm(x)))) over all pixels */
typedef struct zn_diffae_attention {
    zn_norm norm;
    zn_conv qkv, out; /* 1x1: c to 3c, c to c */
    int heads;
} zn_diffae_attention;

typedef enum zn_diffae_resample { ZN_SAME_SIZE, ZN_HALF_SIZE, ZN_DOUBLE_SIZE } zn_diffae_resample;

/* A residual block, R being the change of size (2x2 mean, or nearest neighbour):
 *     h = conv1(R(SiLU(in_norm(x))))
 *     U-Net:    y = skip(R(x)) + conv2(SiLU((out_norm(h) (1 + scale) + shift) gate))
 *     encoder:  y = skip(R(x)) + h
 * skip is a 1x1 convolution where the width changes. */
typedef struct zn_diffae_res {
    int cin, cout;
    zn_diffae_resample resample;
    bool conditioned, has_skip, has_attention;
    zn_norm in_norm, out_norm;
    zn_conv conv1, conv2, skip;
    int at;                        /* conditioned: its first channel in a row of modulations */
    zn_diffae_attention attention; /* after it, if it has one */
} zn_diffae_res;

/* The effect of the time step and the code on all blocks; sum is the sum of their widths. */
typedef struct zn_diffae_modulation {
    zn_tensor time; /* [n][1][1][2 * sum]: scales, then shifts */
    zn_tensor gate; /* [n][1][1][sum]: from the code */
} zn_diffae_modulation;

/* A tensor that published files have, for which fp16 has not been compared, and ours have not. */
#define ZN_DIFFAE_OFFICIAL "ema_model.time_embed.time_embed.0.weight"

/* "" or "ema_model." or "model.": what the names of the networks begin with in this file. */
const char *zn_diffae_prefix(const zn_weights *w); /* w may be NULL */
/* What a key of the metadata says that a network predicts; ZN_N_PREDICTIONS: it makes no sense. */
zn_prediction zn_diffae_find_prediction(const zn_binder *b, const char *key);
/* A number of the metadata; `otherwise` if it is absent, 0 if it is not from lo to hi. */
int zn_diffae_number(const zn_binder *b, const char *key, int lo, int hi, int otherwise);

/* Binds NAME.in_layers.0 and so on.  The width and whether attention follows are read from the file; without one they
 * are spec's.  attention: the name of that sub-module, or NULL: there cannot be one. */
void zn_diffae_bind_res(zn_binder *b, zn_diffae_res *r, zn_diffae_res spec, const char *name, const char *attention);
zn_norm zn_diffae_group_norm(zn_binder *b, int width, const char *fmt, ...) ZN_PRINTF(3, 4);

/* y may not overlap x; m may be NULL for a block that is not conditioned.  Attention is included. */
void zn_diffae_run_res(zn_ctx *c, const zn_diffae_res *r, zn_tensor y, zn_tensor x, const zn_diffae_modulation *m);

/* What follows from the time steps t, [n][1][1][1]: rows = last(SiLU(second(SiLU(first(embedding of t))))). */
typedef struct zn_diffae_times {
    int dim, embed;              /* of an embedding, and of the layers */
    float *table;                /* device memory: [steps][dim], cosines first */
    zn_conv first, second, last; /* dim to embed, embed to embed, embed to the width of a row */
} zn_diffae_times;

/* The rows of the table, [ZN_DIFFAE_STEPS][dim]. */
void zn_diffae_embed(float *rows, int dim);
/* The table, and the layers NAME.0 and NAME.2; the caller binds `last`. */
void zn_diffae_bind_times(zn_binder *b, zn_diffae_times *m, int dim, int embed, const char *name);
void zn_diffae_run_times(zn_ctx *c, const zn_diffae_times *m, zn_tensor rows, zn_tensor t);
/* y [..][embed] = SiLU(second(SiLU(first(u)))), the part of it that all layers share. */
void zn_diffae_run_embedding(zn_ctx *c, const zn_diffae_times *m, zn_tensor y, zn_tensor u);

/* ---- official.c: what a weight file holds ----------------------------------------------------------------- */

typedef struct zn_diffae_file {
    const char *prefix; /* of the networks' names */
    bool averaged;      /* they are running means of training's weights */
    /* the size of the code, by the U-Net, the encoder, ...; 0: it is not in the file.  code: of any of them */
    int unet, encoder, latent, classifier, attributes, statistics, code;
    int layers, classes; /* of the latent network; of the classifier or the attributes */
} zn_diffae_file;

bool zn_diffae_look(zn_diffae_file *f, const zn_weights *w); /* false: there is nothing of a diffusion autoencoder */

/* For the recognise functions: each file belongs to one model. */
typedef enum zn_diffae_role {
    ZN_DIFFAE_IS_UNET,
    ZN_DIFFAE_IS_LATENT, /* no U-Net, but a latent network or its statistics */
    ZN_DIFFAE_IS_CODES,  /* neither, but something about codes */
} zn_diffae_role;
bool zn_diffae_tells(zn_diffae_role role, const zn_weights *w, char *what, size_t size);

/* The name in a converted file of this tensor of f; NULL: it is left out, or taken by its name (conds_mean, ...). */
const char *zn_diffae_kept_name(const zn_diffae_file *f, const char *name);
/* The names of a classifier's rows, with commas between them. */
void zn_diffae_class_names(char *names, size_t size, int n);

/* ---- for pipeline/diffae.c ------------------------------------------------------------------------------- */

extern const zn_arch zn_arch_diffae_unet, zn_arch_diffae_latent_net;

/* Both networks can be called in two parts, so that what does not depend on the noisy input is computed once a run:
 *     in { times [1][1][n][1], code [k][1][1][code] }, out { rows [1][1][n][zn_diffae_row], gates [k][1][1][zn_diffae_gate] }
 *     in { x, a row [k][1][1][..], gates }, out { prediction }
 * instead of in { x, t, code }.  The latent network has neither code nor gates.  Rows and gates have the type of the
 * network's tensors.  */
int zn_diffae_row(const void *unet);
int zn_diffae_gate(const void *unet);
int zn_diffae_latent_row(const void *latent_net);

zn_prediction zn_diffae_prediction(const void *unet);
zn_prediction zn_diffae_latent_prediction(const void *latent_net);
/* Of the codes that the latent network was trained on, [1][1][1][code]; false: the file does not say. */
bool zn_diffae_latent_statistics(const void *latent_net, zn_tensor *mean, zn_tensor *deviation);

#endif
