/* SPDX-License-Identifier: MIT */
/* settings.h - resolves the settings of the environment and of a caller. */
#ifndef ZN_SETTINGS_H
#define ZN_SETTINGS_H

#include "model.h"

/* Whether the name, or $ZENITH_PRECISION in its place, names one precision. */
bool zn_precision_asked(const char *name);

/* The precision of that name, or for NULL and "auto" the one of $ZENITH_PRECISION, or else the model's best there. */
zn_status zn_precision_choose(zn_precision *out, const zn_engine *e, const zn_arch *a, const zn_weights *w,
                              const char *name, zn_error *err);

/* Bytes that a model on this engine may take: the sum of weights and a run, and a tile of a run alone.
 *   $ZENITH_MEMORY, or the engine's own variable, is set: it bounds both
 *   else: what the machine or device has, and 448 MiB or what the device suggests
 * beside: bytes of the sum that are already in use. */
typedef struct zn_limits {
    size_t total, run;
} zn_limits;

zn_status zn_limits_of(zn_limits *l, const zn_engine *e, size_t beside, zn_error *err);

/* Appends to the message of a refusal how much is already in use: the user may be able to close it.  Returns s. */
zn_status zn_say_beside(zn_error *err, zn_status s, size_t beside);

#endif
