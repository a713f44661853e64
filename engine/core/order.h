/* SPDX-License-Identifier: MIT */
/* order.h - quantiles without sorting. */
#ifndef ZN_ORDER_H
#define ZN_ORDER_H

#include <stddef.h>

/* The value that would be at place k of n, if they were sorted: k < n.  In time that grows with n alone.  -0 comes before 0, NaN
 * after all others or, with its sign set, before them. */
float zn_nth(const float *v, size_t n, size_t k);

#endif
