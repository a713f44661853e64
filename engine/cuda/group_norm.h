/* SPDX-License-Identifier: MIT */
/* group_norm.h - how group_norm.cu splits an image, for it and for the host. */
#ifndef ZN_CUDA_GROUP_NORM_H
#define ZN_CUDA_GROUP_NORM_H

/* A tile is UNIT vectors of each thread. */
enum {
    ZN_GROUP_THREADS = 512,
    ZN_GROUP_UNIT = 2,
    ZN_GROUP_RING = 4,                                      /* tiles in the ring, */
    ZN_GROUP_LOST = 2,                                      /* of which so many are overwritten by sums */
    ZN_GROUP_HELD = 8,                                      /* tiles in registers */
    ZN_GROUP_IMAGES = 16,                                   /* per launch at most */
    ZN_GROUP_BLOCKS = 160,                                  /* per image at most */
    ZN_GROUP_GROUPS = 128,                                  /* at most */
    ZN_GROUP_STAGE = ZN_GROUP_UNIT * ZN_GROUP_THREADS * 16, /* bytes of a tile */
};

#endif
