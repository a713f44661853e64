/* SPDX-License-Identifier: MIT */
/* sample.h - where a picture is measured: all of a small one, squares that are spread over a large one.  They depend on its size alone. */
#ifndef ZN_SAMPLE_H
#define ZN_SAMPLE_H

#include "../zenith.h"

enum { ZN_SAMPLE_SIDE = 4 }; /* squares a side, at most */

typedef struct zn_sample {
    zn_rect square[ZN_SAMPLE_SIDE * ZN_SAMPLE_SIDE]; /* all of one size, each from a multiple of 192 on */
    int n, nx;                                       /* nx of them beside each other; n 1: all of the picture */
} zn_sample;

zn_sample zn_sample_of(const zn_source *in);

#endif
