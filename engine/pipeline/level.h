/* SPDX-License-Identifier: MIT */
/* level.h - the noise of a picture as a map, for denoisers without a given level.
 *
 *     picture ── denoise-level ── cells of 8x8 pixels ── at least zn_noise_table.least ── bilinear ── the denoiser's input `map`
 *
 * The network sees a part of the picture and takes weak noise for none where the picture is smooth.  But places of the same
 * brightness usually have the same noise: so a cell gets at least the median of the cells that are about as bright,
 * unless it has far less noise than those.  These medians are measured once for a picture, on a sample that does not
 * depend on any region.  All else depends on the pixels around a cell alone: what is measured for a part of a picture
 * is what is measured for all of it. */
#ifndef ZN_LEVEL_H
#define ZN_LEVEL_H

#include "model.h"

typedef struct zn_cell { /* of one channel */
    float level;         /* standard deviation, of 255; in zn_levels, after zn_levels_measure, in the picture's units */
    float bright;        /* mean of its pixels */
    bool plain;          /* all its pixels are equal: it says nothing about the noise */
} zn_cell;

typedef struct zn_levels {
    zn_source picture; /* whose noise it is; as a source of the map: see zn_levels_source */
    int step;          /* pixels between two levels */
    int first;         /* channel of the network's output that is red's */
    int c;             /* ... of how many */
    zn_rect at;        /* what was measured, of the cells of the whole picture */
    zn_cell *cell;     /* at.h * at.w * 3 */
} zn_levels;

/* Measures the levels for the denoiser m, which has denoise-level, in a region of the picture, times scale.  The job's
 * noise, memory bound, progress and cancellation hold. */
zn_status zn_levels_measure(zn_levels *out, zn_model *m, const zn_source *picture, zn_rect region, float scale,
                            const zn_job *job, zn_error *err);
void zn_levels_free(zn_levels *l);

/* zn_noise_levels(), and the cells of a picture that it looks at as a whole, up to 1.5 megapixels: 0.85 MB, as the network sees them, for
 * zn_job.cells.  kept->cell is NULL for others, and after a failure; kept NULL: they are not kept. */
zn_status zn_levels_keep(zn_levels *kept, zn_noise_table *noise, zn_model *m, const zn_source *picture, zn_error *err);

/* The map; it can be read inside the region. */
zn_source zn_levels_source(const zn_levels *l);

/* The statistics of a picture from n cells, of three channels each.  False: no memory. */
bool zn_noise_of(zn_noise_table *out, const zn_cell *cells, size_t n);

/* The median level of cells that are about as bright; and the level of a cell in the map: at least that median, but at most a few
 * times its own. */
float zn_noise_least(const float least[ZN_NOISE_BINS], float bright);
float zn_noise_told(const float least[ZN_NOISE_BINS], const zn_cell *c);

#endif
