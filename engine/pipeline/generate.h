/* SPDX-License-Identifier: MIT */
/* generate.h - what the files of the composite `generate` share: generate.c runs the networks, generate_plan.c chooses
 * precisions and memory, generate_mask.c is between the picture and the networks' arrays. */
#ifndef ZN_GENERATE_H
#define ZN_GENERATE_H

#include "fields.h"
#include "session.h"

#include <pthread.h>

enum {
    ZN_GENERATE_MULTIPLE = 16, /* pixels: a patch of the transformer */
    ZN_GENERATE_FACTOR = 8,    /* pixels of a side, for one of the latent */
    ZN_GENERATE_CHANNELS = 16, /* of the latent */
    ZN_GENERATE_TOKENS = 512,  /* at most */
};

/* ---- the picture, the mask and what the networks see (generate_mask.c) -------------------------------------------- */

typedef struct zn_canvas {
    int32_t out_w, out_h; /* of what is made */
    float *mask;          /* [out_h][out_w], feathered; NULL: everything is painted */
    zn_rect part;         /* of it: what the networks see */
    int32_t w, h;         /* the size at which they see it */
    bool scaled;
    float *old; /* [part.h][part.w][3]: the input there, or NULL */
} zn_canvas;

/* rect and `by` pixels around it, inside of a picture of w x h. */
zn_rect zn_rect_grow(zn_rect rect, int32_t by, int32_t w, int32_t h);
/* Pixels around a mask of this size that the networks see. */
int32_t zn_generate_context(int32_t w, int32_t h);

/* All of the canvas, at the size that the settings allow. */
void zn_canvas_set_size(zn_canvas *v, const zn_generate *how);
/* Reads the mask of the part of the picture that may change and feathers it; the part that is seen is where it is not 0, and some
 * pixels around.  grows: the soft edge is outside of it, not inside.  *empty: it is 0 everywhere. */
zn_status zn_canvas_read_mask(zn_canvas *v, bool *empty, const zn_source *mask, zn_rect change, double feather,
                              bool grows, zn_error *err);
/* dst [h][w][c], of src [part.h][part.w][c], whose edge is repeated.  False: out of memory. */
bool zn_canvas_to_network(float *dst, const zn_canvas *v, const float *src, int c);
/* The mask, averaged to the latent's size. */
bool zn_canvas_latent_mask(float *dst, const zn_canvas *v);
/* Puts a picture of the networks' size, 0..1, into out: the new picture, or the change of the input. */
bool zn_canvas_put(float *out, const zn_canvas *v, const float *picture);
void zn_canvas_free(zn_canvas *v);

/* An input on a larger canvas, as sources of the canvas: the picture, whose edge goes on around the input, and what is painted, which
 * is 1 there. */
typedef struct zn_extended {
    const zn_source *in, *mask; /* mask NULL: none */
    zn_rect place;
} zn_extended;

bool zn_extended_read(void *cookie, zn_rect r, float *dst);
bool zn_extended_around(void *cookie, zn_rect r, float *dst);

/* ---- tiles of an enlarged picture (generate_tiles.c) ---------------------------------------------------------------- */

typedef struct zn_tiles {
    int32_t w, h;           /* of the picture */
    int32_t side_w, side_h; /* of a tile, at most; multiples of ZN_GENERATE_MULTIPLE */
    int32_t n_x, n_y;
} zn_tiles;

/* Tiles as large as the pictures that the settings allow. */
zn_tiles zn_generate_tiles(const zn_generate_plan *plan);
int32_t zn_tiles_count(zn_tiles t);
/* Tile i, row by row; its corner lies on multiples of ZN_GENERATE_MULTIPLE. */
zn_rect zn_tile_at(zn_tiles t, int32_t i);
/* picture += weight * (tile - picture).  The weight rises from 0 to 1 over what tiles before this one have made, to the left and above,
 * and is 1 elsewhere: so tiles are put in order.  tile: rows of `row` pixels; what is beyond the tile is ignored. */
void zn_tile_put(float *picture, zn_tiles t, int32_t i, const float *tile, int32_t row);

/* ---- noise (generate_noise.c) ---------------------------------------------------------------------------------------- */

typedef struct zn_early_noise { /* of n pictures, from that seed on */
    float *to;
    size_t len; /* of one picture */
    int32_t n;
    uint32_t seed;
    bool begun, apart; /* apart: by a thread */
    pthread_t maker;
} zn_early_noise;

/* Begins to make it, if possible while the caller does something else; k must stay where it is. */
void zn_early_noise_begin(zn_early_noise *k);
/* Waits for it; false: none was begun. */
bool zn_early_noise_end(zn_early_noise *k);
/* Cuts that of a tile, of z's size, out of that of the whole picture: tiles have the same where they overlap. */
void zn_noise_cut(float *dst, const zn_array *noise, zn_rect at, const zn_array *z);

/* ---- precisions and memory (generate_plan.c) ------------------------------------------------------------------------- */

/* Of a run: what its networks are opened with. */
typedef struct zn_generate_work {
    zn_generate_plan *plan; /* its need, keeps and networks are set */
    zn_terms terms[ZN_ZIMAGE_PARTS];
    zn_canvas canvas;
    bool encodes;  /* the input is the start */
    bool refines;  /* ... that was enlarged */
    int32_t batch; /* pictures that the sampler makes at once */
    int32_t n_tokens;
    zn_array cap; /* sizes of the features */
    zn_use *preview;
} zn_generate_work;

/* The inputs of the sampler without their data: noise, caption, start, mask; returns their number.  in has room for 4. */
int zn_generate_inputs(zn_array *in, const zn_generate_work *k);
/* Its settings; returns their number.  set has room for 3. */
int zn_generate_settings(zn_value *set, const zn_generate_work *k);

/* What all networks are opened with, before precisions are chosen. */
void zn_generate_begin(zn_generate_work *k, zn_generate_plan *plan);
/* Chooses precisions that fit and what stays open. */
zn_status zn_generate_choose(zn_generate_work *k, zn_note *note, zn_error *err);

#endif
