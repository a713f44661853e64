/* SPDX-License-Identifier: MIT */
/* engines.h - engine functions for the pipeline that are not in zenith.h. */
#ifndef ZN_ENGINES_H
#define ZN_ENGINES_H

#include "../handle.h"

/* The fastest engine of the CPU, with one thread per core. */
zn_status zn_engine_open_cpu(zn_engine **out, zn_error *err);
/* Threads for the host's work, for who has the engine's turn: a CPU's own, or those beside a remote engine, opened by the first
 * call; NULL: no memory. */
zn_pool *zn_engine_helpers(zn_engine *e);

#endif
