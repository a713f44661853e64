/* SPDX-License-Identifier: MIT */
/* frames.h - a video as the input of a model: see frames.c. */
#ifndef ZN_CLI_FRAMES_H
#define ZN_CLI_FRAMES_H

#include "cli.h"

typedef struct video_input {
    zn_frames frames; /* to be given to zn_model_run_video */
    zn_error err;     /* why a frame could not be read, or empty */
    size_t n_cleaned; /* values that were infinite or not a number: taken as 0 */
    size_t len;       /* floats of a frame */
    bool (*next)(struct video_input *v, int32_t i, float *frame);
    npy_video array;
    zn_array all; /* frames one below the other */
    const char *folder;
    struct dirent **list;
    int n_list;
} video_input;

/* Whether it is a folder, a latent, or an array of four axes. */
bool video_is_input(const char *path);
bool video_open(video_input *v, const char *path, zn_error *err);
void video_close(video_input *v); /* also after a failure of video_open */

#endif
