/* SPDX-License-Identifier: MIT */
/* ints.h - integers: minimum, maximum, division and multiples, rounded up. */
#ifndef ZN_INTS_H
#define ZN_INTS_H

#include <stdint.h>

static inline int zn_imin(int a, int b)
{
    return a < b ? a : b;
}

static inline int zn_imax(int a, int b)
{
    return a > b ? a : b;
}

/* For integers that are not negative. */
static inline int zn_ceil_div(int a, int b)
{
    return (int)(((int64_t)a + b - 1) / b);
}

static inline int zn_round_up(int a, int b)
{
    return zn_ceil_div(a, b) * b;
}

#endif
