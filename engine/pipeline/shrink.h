/* SPDX-License-Identifier: MIT */
/* shrink.h - smaller pictures of three channels, for the pyramid in which faces are looked for. */
#ifndef ZN_SHRINK_H
#define ZN_SHRINK_H

#include "../core/threads.h"

#include <stddef.h>

typedef struct zn_shrink zn_shrink;

/* From h x w pixels to rows x columns, no more of either.  NULL: no memory. */
zn_shrink *zn_shrink_new(int rows, int columns, int h, int w, const zn_pool *pool);
void zn_shrink_free(zn_shrink **s);

/* The next n rows of the picture, x [n][w][3] in 0..1, as area means in -1..1 to y [rows][ld]; the rest of a row of y is left
 * alone.  NaN counts as 0.  On all threads of the pool that s was made for; the result does not depend on it. */
void zn_shrink_rows(zn_shrink *s, float *y, size_t ld, const float *x, int n, zn_pool *pool);

/* y [rows][y_ld] = the means of 2 x 2 pixels of x [2 * rows or more][x_ld] */
void zn_shrink_half(float *y, size_t y_ld, const float *x, size_t x_ld, int rows, int columns);

#endif
