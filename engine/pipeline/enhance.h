/* SPDX-License-Identifier: MIT */
/* enhance.h - the steps of denoise, restore and upscale; zenith_composite.h has the rest. */
#ifndef ZN_ENHANCE_H
#define ZN_ENHANCE_H

#include "../zenith_composite.h"

/* What is measured once for a picture, or a part of it: result->noise and damage. */
zn_status zn_enhance_measure(zn_enhance_result *result, const zn_enhance_plan *plan, const zn_source *in,
                             zn_error *err);

/* Adds what of it a change depends on. */
void zn_enhance_key_measured(zn_key *key, const zn_enhance_plan *plan, const zn_enhance_result *result);

/* What the network makes of a part of the picture, whole cells: made has the size of the part in the result.  result holds what
 * was measured; ran is set, computed_by and note are added to. */
zn_status zn_enhance_make(float *made, zn_enhance_result *result, const zn_enhance_plan *plan, const zn_source *in,
                          zn_rect part, const zn_watcher *watch, zn_error *err);

/* The change of a cell as it is kept: 16-bit integers of a step that is the largest change / 32767.  So it is off by half a step,
 * which is at most 1/65534 where black became white, and usually a tenth of that.  What is blended always went through
 * this form, so that a result never depends on what was kept.  made, change: planes of a part of the result; cells are of
 * the picture. */
size_t zn_cell_size(const zn_grid *grid, zn_rect cell);
/* false: the picture cannot be read, or there is no memory */
bool zn_cell_pack(void *kept, const zn_grid *grid, zn_rect cell, const zn_plane *made, const zn_source *in);
/* Writes what both have. */
void zn_cell_unpack(const zn_plane *change, const zn_grid *grid, zn_rect cell, const void *kept);

static inline float zn_luma(const float *rgb)
{
    return 0.2126f * rgb[0] + 0.7152f * rgb[1] + 0.0722f * rgb[2];
}

#endif
