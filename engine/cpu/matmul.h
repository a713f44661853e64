/* SPDX-License-Identifier: MIT */
/* matmul.h - products of matrices in host memory, for training: weights change at every step, so they are
 * packed inside the product. */
#ifndef ZN_MATMUL_H
#define ZN_MATMUL_H

#include "device.h"

typedef struct zn_matrix { /* element (i, j) is data[i * row + j * col] */
    const float *data;
    size_t row, col;
} zn_matrix;

/* y[i * ldy + j] = (add ? itself : 0) + bias[j] + sum over k of a(i, k) * b(k, j), i < m, j < n; bias may be
 * NULL. The order of additions depends on the sizes alone. */
void zn_cpu_matmul(zn_cpu *d, float *y, size_t ldy, zn_matrix a, zn_matrix b, int m, int n, int k, const float *bias,
                   bool add);

#endif
