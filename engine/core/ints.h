/* SPDX-License-Identifier: MIT */
/* ints.h - integers: minimum, maximum, division and multiples, rounded up; reflection. */
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

/* Index j of a line that is continued by reflection at both ends of from .. n-1. */
static inline int zn_mirrored(int j, int from, int n)
{
    const int period = zn_imax(2 * (n - 1 - from), 1), phase = (j - from) % period;

    return from + zn_imin(phase, period - phase);
}

#endif
