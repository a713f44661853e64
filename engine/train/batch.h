/* SPDX-License-Identifier: MIT */
/* batch.h - the pictures of a training step: synthetic ones or crops, and their degradation.
 *
 * A batch is a function of (seed, number), whatever the order of computation. */
#ifndef ZN_BATCH_H
#define ZN_BATCH_H

#include "../zenith_train.h"
#include "../autograd/net.h"

typedef struct zn_wavelets {
    double wave[2], spread[2]; /* frequencies, radians per pixel; deviations, pixels */
} zn_wavelets;

/* n pictures of size x size x 3, each the sum of 3 to 8 wavelets, the same in the three channels. */
void zn_draw_wavelets(zn_pool *pool, real *y, int n, int size, const zn_wavelets *s, uint64_t seed, uint64_t number);

enum { ZN_GAUSSIAN, ZN_SHOT, ZN_BLUR, ZN_N_DAMAGES };

/* One damaged picture y of a clean one x: Gaussian noise of deviation sigma; shot noise, +-2 added to one
 * value in twenty; the mean of the 3x3 neighbours inside the picture. */
void zn_damage(real *y, const real *x, int size, int kind, double sigma, uint64_t seed, uint64_t stream);

typedef struct zn_picture { /* 8 bits, three channels */
    unsigned char *data;
    int w, h;
} zn_picture;

/* Random square crops of the pictures, rotated and mirrored, 0..1. */
void zn_cut_pictures(real *y, int n, int size, const zn_picture *pictures, int n_pictures, uint64_t seed,
                     uint64_t number);

#endif
