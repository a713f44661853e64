/* SPDX-License-Identifier: MIT */
/* engines.h - engine functions for the pipeline that are not in zenith.h. */
#ifndef ZN_ENGINES_H
#define ZN_ENGINES_H

#include "../handle.h"

/* zn_engine_open(), which does not wait for a device that takes long to start: zn_engine_starting().  If it fails then, models are
 * opened with their stand-ins. */
zn_status zn_engine_open_early(zn_engine **out, const char *name, int n_threads, zn_error *err);
bool zn_engine_starting(const zn_engine *e);
/* The fastest engine of the CPU, with one thread per core. */
zn_status zn_engine_open_cpu(zn_engine **out, zn_error *err);
/* Threads for the host's work, for who has the engine's turn: a CPU's own, or those beside a remote engine, opened by the first
 * call; NULL: no memory. */
zn_pool *zn_engine_helpers(zn_engine *e);

#endif
