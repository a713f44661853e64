/* SPDX-License-Identifier: MIT */
/* gated_unet.h - a U-Net of gated depthwise blocks, what is between the first and the last convolution of the denoisers, of restore and
 * of upscale.
 *
 *   x ── enc 0 ──────────────────────(+)── dec 0 ── y
 *          │ down (2x2 stride 2)   up │
 *          └── enc 1 ──────(+)── dec 1 ┘
 *                └── mid ───┘
 *
 * There are no statistics over the picture, so tiles are exact.  Layer by layer the halo of a tile is cropped to what the layers that
 * follow can still see.  Sizes in pixels are those of the network's input; `patch` of them, a side, make a pixel of the first level. */
#ifndef ZN_GATED_UNET_H
#define ZN_GATED_UNET_H

#include "gated_blocks.h"

enum { ZN_UNET_LEVELS = 4 };

typedef struct zn_unet_level {
    int c, n_enc, n_dec; /* the middle is the enc of the last level */
    int before, after;   /* halo that its input must have, and that its output must have */
    zn_gated enc[ZN_MAX_GATED], dec[ZN_MAX_GATED];
    zn_conv down, up; /* to and from the next level */
} zn_unet_level;

typedef struct zn_unet {
    int patch, n_levels;
    int multiple; /* a pixel of the last level, a side */
    int halo;     /* that the input needs, with a 3x3 convolution before and after */
    zn_unet_level at[ZN_UNET_LEVELS];
} zn_unet;

/* The halo that a tensor has around the tile. */
typedef struct zn_margin {
    int left, top, right, bottom;
} zn_margin;

/* The picture without its halo, h x w pixels; a new tensor, or x itself if it has none. */
zn_tensor zn_crop_picture(zn_ctx *c, zn_tensor x, int h, int w, zn_margin has);

/* A network of one picture that gives another, `scale` times as large:
 *
 *   x ── unshuffle ─┬─ intro ── U-Net ── outro ── shuffle ──(* gain)──(+)── y
 *   told ───────────┘                                        x, each pixel scale x scale times
 *
 * The first level has pixels of patch x patch of the picture's. */
typedef struct zn_unet_picture {
    zn_unet body;
    int scale;
    zn_conv intro, outro;
} zn_unet_picture;

/* told: channels at the first level that say something about the picture.  The names of the two convolutions end in `suffix`.  usual:
 * channels of the first level without a file. */
void zn_bind_unet_picture(zn_binder *b, zn_unet_picture *m, int patch, int scale, int told, int usual,
                          const char *suffix);
/* told: a value for each of these channels, or NULL: the second input has them, unshuffled.  gain 0: 1. */
void zn_run_unet_picture(zn_ctx *c, const zn_unet_picture *m, const zn_call *call, const float *told, float gain);

#endif
