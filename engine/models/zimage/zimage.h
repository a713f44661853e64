/* SPDX-License-Identifier: MIT */
/* zimage.h - the networks of Z-Image (Tongyi-MAI 2025), and what they share.
 *
 *   tokens ── text encoder (Qwen3) ── features [L][2560]
 *   features ── caption network ── caption tokens ──┐           once a picture
 *   noisy latent, time ── step network ── -velocity ┴── repeated by pipeline/z_image.c
 *
 * All sizes are read from the file.  Tensors have the names of diffusers, of single files (fused q, k, v), of MLX or, for the
 * text encoder, of Hugging Face or GGUF.  Without a file they are small networks of the same structure. */
#ifndef ZN_ZIMAGE_H
#define ZN_ZIMAGE_H

#include "../arch.h"

enum {
    ZN_ZIMAGE_MULTIPLE = 32,     /* sequences are padded to multiples of this */
    ZN_ZIMAGE_MAX_CAP = 1504,    /* tokens of a caption, padded; the first axis of positions ends at 1536 */
    ZN_ZIMAGE_MAX_SIDE = 512,    /* tokens of a side of the picture */
    ZN_ZIMAGE_MAX_PICTURES = 16, /* in one forward */
    ZN_ZIMAGE_MAX_C = 32768,     /* of a layer */
    ZN_ZIMAGE_MAX_LAYERS = 128,
};

/* ---- blocks.c ------------------------------------------------------------------------------------------ */

/* y = tail(out(attention(R(q_norm(q(x))), R(k_norm(k(x))), v(x)))), the norms over each head, R rotary positions */
typedef struct zn_zimage_attention {
    zn_conv q, k, v, out; /* linear */
    zn_norm q_norm, k_norm;
    zn_attention how;
    bool interleaved; /* pairs of the rotation are neighbours */
} zn_zimage_attention;

/* y = tail(down(SiLU(gate(x)) * up(x))) */
typedef struct zn_zimage_feed {
    zn_conv gate, up, down; /* linear */
} zn_zimage_feed;

/* A linear layer without bias. */
zn_conv zn_zimage_linear(int cin, int cout);

/* x, y: [1][1][positions][c]; rope: [1][1][positions][dim of a head], cosines, then sines.  y may be x.  More positions than rope
 * has are several sequences, one after the other, which do not see each other. */
void zn_zimage_attend(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_zimage_attention *a, zn_tensor rope, zn_tail t);
void zn_zimage_feed_forward(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_zimage_feed *f, zn_tail t);

/* ---- dit.c --------------------------------------------------------------------------------------------- */

typedef struct zn_zimage_sizes {
    int latent;  /* channels of the latent */
    int caption; /* channels of the text encoder's features */
    int width;   /* of the tokens */
    int head;    /* channels of a head */
    int time;    /* numbers of a time's embedding */
} zn_zimage_sizes;

extern const zn_arch zn_arch_z_image_caption, zn_arch_z_image_step;

/* Is this the transformer? */
bool zn_zimage_recognise(const zn_weights *w, char *what, size_t size);

zn_zimage_sizes zn_zimage_step_sizes(const void *net);

/* A sequence's length with its padding. */
int zn_zimage_padded(int n);

/* The embedding of time t (0: noise, 1: picture): n/2 cosines, then as many sines. */
void zn_zimage_time(float *row, int n, double t);

/* Rotary positions of all tokens, [rows][head]: of the picture's tokens h x w, of its padding, of the caption's n_cap (a
 * padded number).  A head's channels are split among the three axes (caption or picture, row, column) in the ratio 2 : 3 : 3. */
void zn_zimage_rope(float *table, int head, int h, int w, int n_cap);

#endif
