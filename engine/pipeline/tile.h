/* SPDX-License-Identifier: MIT */
/* tile.h - a run over a picture of any size, tile by tile. */
#ifndef ZN_TILE_H
#define ZN_TILE_H

#include "forward.h"

/* Whether this can be input number i of an image model, in a picture of this size. */
zn_status zn_tile_check_port(const zn_model *m, int i, int w, int h, int c, int picture_w, int picture_h,
                             zn_error *err);

/* Whether these sources can be read, and the roi is inside the result. */
zn_status zn_tile_check(const zn_run *r, const zn_source *in, int n_in, zn_rect roi, zn_error *err);

/* Whether the run needs zn_run.levels, and what part of the picture a roi needs, on whole lattice steps. */
bool zn_tile_wants_levels(const zn_run *r, int n_in);
zn_rect zn_tile_reach(const zn_run *r, const zn_source *in, zn_rect roi);

/* Plans a run over the whole picture (its work is put into r->ctx.total); runs it.  roi is in output
 * pixels. */
zn_status zn_tile_plan(zn_run *r, zn_plan *plan, const zn_source *in, int n_in, zn_error *err);
zn_status zn_tile_run(zn_run *r, const zn_sink *out, const zn_source *in, int n_in, zn_rect roi, zn_error *err);

#endif
