/* SPDX-License-Identifier: MIT */
/* damage.h - what is wrong with a picture, from its pixels. */
#ifndef ZN_DAMAGE_H
#define ZN_DAMAGE_H

#include "../zenith.h"

/* Of the sample of the picture (sample.h).  Steps: noise of a quarter, artefacts of 1. */
zn_status zn_damage_measure(zn_faults *out, const zn_source *in, zn_error *err);

#endif
