/* SPDX-License-Identifier: MIT */
/* ints.h - whole numbers: the smaller, the larger, division and multiples upwards. */
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

/* Of numbers from 0 on. */
static inline int zn_ceil_div(int a, int b)
{
    return (int)(((int64_t)a + b - 1) / b);
}

static inline int zn_round_up(int a, int b)
{
    return zn_ceil_div(a, b) * b;
}

#endif
