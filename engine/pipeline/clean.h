/* SPDX-License-Identifier: MIT */
/* clean.h - whether a picture has noise at all.
 *
 * denoise-level sees a part of a picture, and there fine texture may look like weak noise.  But noise is everywhere in a picture: so
 * one whose calmest places have none, and whose smoothest have none by the estimate of noise.h, is taken for clean, unless the blocks of
 * a JPEG file show, in which a denoiser removes artefacts.
 *
 * Weak grain as fine as a pixel and alike in all channels is film's, or the picture's own: a camera's mosaic leaves coarser noise, whose
 * colours differ.  It may be stronger than other noise before it counts. */
#ifndef ZN_CLEAN_H
#define ZN_CLEAN_H

#include "level.h"

typedef struct zn_signs { /* of noise, of 255 */
    float calm;           /* the level of the calmest places */
    float smooth;         /* the noise of the smoothest */
    float blocks;         /* how much steeper steps between the blocks of a file are than their neighbours */
    float fine;  /* the deviation of the finest differences in smooth places, in the middle one of the channels, */
    float grey;  /* ... and how they correlate between channels, in the middle one of the pairs: up to 1 */
    float usual; /* the median level */
} zn_signs;

/* The level that a twentieth of the cells has at most, and the median, in the middle one of the channels.  Cells without any variation and those that
 * are certainly clean (a frame, a caption, a part that was pasted) do not count.  False: no memory. */
bool zn_signs_calm(zn_signs *s, const zn_cell *cells, size_t n);

/* The others, from n squares of the picture, all of one size, nx beside each other.  On the engine's threads, in its turn; NULL: on
 * the caller's, with the same result. */
zn_status zn_signs_look(zn_signs *s, const zn_source *in, const zn_rect *squares, int n, int nx, zn_engine *e,
                        zn_error *err);

/* From 0, noise was found, to 1, none was: in steps of an eighth, so that small changes of a picture change nothing. */
float zn_signs_clean(const zn_signs *s);

/* By which share of themselves levels are raised, in steps: a file's steps between blocks are taken for edges otherwise. */
float zn_signs_more(const zn_signs *s);

#endif
