/* SPDX-License-Identifier: MIT */
/* video.h - a video through a network that is causal in time. */
#ifndef ZN_VIDEO_H
#define ZN_VIDEO_H

#include "forward.h"

zn_status zn_video_shape(const zn_model *m, const zn_frames *in, zn_frames *out, zn_error *err);
zn_status zn_video_run(zn_model *m, const zn_frames *out, const zn_frames *in, const zn_job *job, zn_error *err);

zn_status zn_video_plan(zn_model *m, zn_plan *plan, const zn_frames *in, const zn_job *job, zn_error *err);
zn_status zn_video_pass(zn_model *encoder, zn_model *decoder, const zn_frames *out, const zn_frames *in,
                        const zn_job *job, zn_error *err);

#endif
