/* SPDX-License-Identifier: MIT */
/* order.h - quantiles without sorting, and sorting without comparing: in time that grows with n alone.  -0 comes before 0, NaN after
 * all others or, with its sign set, before them. */
#ifndef ZN_ORDER_H
#define ZN_ORDER_H

#include <stddef.h>
#include <stdint.h>

/* The value that would be at place k of n, if they were sorted: k < n. */
float zn_nth(const float *v, size_t n, size_t k);

/* place[i]: which of the n values comes at place i; equal ones in the order that they have.  room is for n. */
void zn_order(uint32_t *place, uint32_t *room, const float *v, size_t n);

#endif
