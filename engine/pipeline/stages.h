/* SPDX-License-Identifier: MIT */
/* stages.h - a run over a picture of any size: in tiles, or, of a network that can be split, in two stages. */
#ifndef ZN_STAGES_H
#define ZN_STAGES_H

#include "tile.h"

/* As zn_tile_plan and zn_tile_run. */
zn_status zn_stages_plan(zn_run *r, zn_plan *plan, const zn_source *in, int n_in, zn_error *err);
zn_status zn_stages_run(zn_run *r, const zn_sink *out, const zn_source *in, int n_in, zn_rect roi, zn_error *err);

#endif
