/* SPDX-License-Identifier: MIT */
/* op-engine.h - the process's session of the engine (zenith_composite.h), for requests.
 *
 * Any thread may call. */

#ifndef __ZENITH_OP_ENGINE_H__
#define __ZENITH_OP_ENGINE_H__

#include "op-common.h"

zn_session *zn_op_session (void);

/* The engine, threads and precision that a task asks for. */
zn_choice zn_op_choice (const ZnOpBase *base);
zn_terms  zn_op_terms (const ZnOpBase *base);

/* Does what the data "zenith-start" of the node say: 1 starts the engine, 2 waits for it. */
void zn_op_start (GeglOperation *operation, const ZnOpBase *base);

/* Runs are made between these two, by one thread at a time, so that a thread that
 * waited finds the result of the one before.  Refuses, instead of deadlocking, when
 * this thread is in a run already (a progress bar that redraws the picture). */
gboolean zn_op_engine_enter (zn_error *err);
void     zn_op_engine_leave (void);

/* What is kept under the key; if that is nothing, enters. */
zn_status zn_op_kept_or_enter (GBytes **kept, const zn_key *key, zn_error *err);

/* zn_use_run_region() and zn_use_run(), which sets the sizes of out[] but wants its memory.  tile: 0,
 * or the side of tiles.  Counted; the request gets what computed it, the note or the error message. */
zn_status zn_op_use_run_region (zn_use          *use,
                                const zn_sink   *out,
                                const zn_source *in,
                                zn_rect          roi,
                                gint             tile,
                                ZnOpRequest     *request);
zn_status zn_op_use_run (zn_use         *use,
                         zn_array       *out,
                         const zn_array *in,
                         gint            n_in,
                         ZnOpRequest    *request);

/* How often a network ran in this process, and how many pixels it was asked for; for
 * tests, found by their names. */
G_MODULE_EXPORT
guint zn_op_network_runs (void);
G_MODULE_EXPORT
guint64 zn_op_network_pixels (void);

#endif
