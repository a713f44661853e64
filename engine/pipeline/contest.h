/* SPDX-License-Identifier: MIT */
/* contest.h - whether a device is faster than the CPU: measured once, and kept in the user's cache folder. */
#ifndef ZN_CONTEST_H
#define ZN_CONTEST_H

#include "../backend.h"

/* The time of a convolution on the CPU divided by its time on that device, if it was measured before; else 0. */
double zn_contest_kept(const zn_backend *b, void *dev);
/* Measures it, and keeps it.  0: one of the two has failed. */
double zn_contest(const zn_backend *b, void *dev, const zn_backend *cpu, void *cpu_dev);

#endif
