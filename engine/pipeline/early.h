/* SPDX-License-Identifier: MIT */
/* early.h - networks that were read and packed while their device was starting, kept by the engine until they are opened.  In the
 * engine's turn. */
#ifndef ZN_EARLY_H
#define ZN_EARLY_H

#include "../handle.h"
#include "../models/arch.h"

struct zn_early {
    zn_early *next;
    const zn_arch *arch; /* as asked for */
    char *file;
    zn_precision precision; /* of the model */
    zn_weights *w;          /* open */
    zn_packed packed;
};

/* *early, whose file is copied, to the engine, which frees it in the end.  Where there are too many, the oldest one is freed. */
void zn_early_keep(zn_engine *e, zn_early **early, const char *file);
/* That of this network and file, which is the caller's then; NULL: there is none. */
zn_early *zn_early_take(zn_engine *e, const zn_arch *a, const char *file);
void zn_early_free(zn_early **early); /* accepts NULL */

#endif
