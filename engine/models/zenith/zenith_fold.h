/* SPDX-License-Identifier: MIT */
/* zenith_fold.h - an affine zenith-lite-doc or zenith-spectral with its linear maps multiplied out at load
 * time. */
#ifndef ZN_ZENITH_FOLD_H
#define ZN_ZENITH_FOLD_H

#include "../arch.h"

enum { ZN_FOLD = 4 }; /* steps; between them, three blocks */

/* term[t][s], s <= t: what source s adds to target t.  Sources: 0 the input, s the mixed tensor of block s.
 * Targets: t < 3 what block t + 1 mixes, 3 the output. */
typedef struct zn_fold {
    bool decoder;
    zn_conv term[ZN_FOLD][ZN_FOLD];
} zn_fold;

typedef struct zn_folder zn_folder;

/* Folding, layer by layer.  Matrices are in host memory and not kept.  A failure is in b->status. */
zn_folder *zn_fold_begin(zn_binder *b, zn_fold *out, bool decoder, int c);
/* y = W y + bias, weight [cout][cin]; four: of cin = 4 c elements of 2x2 pixels (encoder), or to 2x2 pixels of
 * cout / 4 each (decoder). */
void zn_fold_step(zn_folder *f, const float *weight, const float *bias, int cout, bool four);
/* y = y + expand(m), m mixed from compress(y), a target; compress [inner][c / 4], expand [c][inner / 4]: 4
 * groups. */
void zn_fold_block(zn_folder *f, const float *compress, const float *compress_bias, const float *expand,
                   const float *expand_bias, int inner);
/* y is the output, the last target. */
void zn_fold_end(zn_folder **f);

/* The target t of the sources; y: room for it. */
void zn_fold_run(zn_ctx *c, const zn_fold *f, int t, zn_tensor y, const zn_tensor *source);

#endif
