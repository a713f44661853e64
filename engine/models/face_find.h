/* SPDX-License-Identifier: MIT */
/* face_find.h - what pipeline/faces.c knows of the networks that find faces. */
#ifndef ZN_FACE_FIND_H
#define ZN_FACE_FIND_H

#include "arch.h"

enum {
    ZN_FIND_CELL = 8,      /* pixels of a cell of face-detect */
    ZN_FIND_REACH = 32,    /* pixels: its unit of length */
    ZN_FIND_SMALLEST = 40, /* sides of frames that it was trained to find at one level of a pyramid */
    ZN_FIND_LARGEST = 96,
    ZN_FIND_CROP = 64, /* side of the crop of face-points, whose unit of length is a quarter of it */
};

#define ZN_FIND_ROOM 1.35 /* side of that crop, in sides of the frame */

extern const zn_arch zn_arch_face_detect, zn_arch_face_points, zn_arch_face_mouth;

/* The score from which on something is a face, of a bound face-detect: metadata `threshold`. */
float zn_find_threshold(const void *net);

#endif
