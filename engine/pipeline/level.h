/* SPDX-License-Identifier: MIT */
/* level.h - the noise of a picture as a map, for denoisers that are not told how strong it is.
 *
 *     picture ── denoise-level ── levels at 1/8 of its size ── bilinear ── the denoiser's input `map`
 *
 * A level depends on the pixels around it alone: what is measured for a part of a picture is what is measured for all of it. */
#ifndef ZN_LEVEL_H
#define ZN_LEVEL_H

#include "model.h"

typedef struct zn_levels {
    zn_source picture; /* whose noise it is; as a source of the map: see zn_levels_source */
    int step;          /* pixels between two levels */
    int first;         /* channel of the network's output that is red's */
    int c;             /* ... of how many */
    float scale;       /* factor of what was found */
    zn_rect at;        /* what was measured, of the levels of the whole picture */
    float *data;       /* at.h * at.w * 3, in the picture's units */
} zn_levels;

/* Measures what the denoiser m, which has denoise-level, is told in a region of the picture, times scale.  The job's memory bound,
 * progress and cancellation hold. */
zn_status zn_levels_measure(zn_levels *out, zn_model *m, const zn_source *picture, zn_rect region, float scale,
                            const zn_job *job, zn_error *err);
void zn_levels_free(zn_levels *l);

/* The map; it can be read inside the region. */
zn_source zn_levels_source(const zn_levels *l);

#endif
