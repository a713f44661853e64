/* SPDX-License-Identifier: MIT */
/* op-engine.h - engines and models, one of each for the whole process.
 *
 * Any thread may call.  Models stay open after the last release, so that the
 * next node finds them, until others need their place. */

#ifndef __ZENITH_OP_ENGINE_H__
#define __ZENITH_OP_ENGINE_H__

#include "op-common.h"

typedef struct _ZnOpModel ZnOpModel;

typedef enum
{
  ZN_OP_ENCODER,
  ZN_OP_DECODER
} ZnOpHalf;

/* The model with this id, with its own weights, or the wanted half of an
 * autoencoder; on failure NULL and a sentence.  Cheap when called again.
 * To be given back with zn_op_model_release(), which accepts NULL. */
ZnOpModel *zn_op_model_acquire (const gchar *id, ZenithEngine engine, zn_error *err);
ZnOpModel *zn_op_model_acquire_autoencoder (ZnOpHalf          half,
                                            ZenithAutoencoder which,
                                            const gchar      *weights,
                                            ZenithEngine      engine,
                                            zn_error         *err);
void       zn_op_model_release (ZnOpModel *model);

const zn_geometry *zn_op_model_geometry (const ZnOpModel *model);

/* The side of the engine's own tiles for a picture of this size, at most `side`; or
 * just that where it has none: a run will say why, or be made on the CPU. */
gint zn_op_model_tile (ZnOpModel *model, gint width, gint height, gint side);

/* Names model, engine and weights: what a result depends on. */
const gchar *zn_op_model_name (const ZnOpModel *model);

/* Runs are made between these two, by one thread at a time, so that who waited
 * finds the result of the one before.  Refuses, rather than waits for ever, when
 * this thread is in a run already (a progress bar that redraws the picture). */
gboolean zn_op_engine_enter (zn_error *err);
void     zn_op_engine_leave (void);

/* zn_model_run_region() for one input, counted. */
zn_status zn_op_model_run (ZnOpModel       *model,
                           const zn_sink   *out,
                           const zn_source *in,
                           zn_rect          roi,
                           const zn_job    *job,
                           zn_error        *err);

/* A sentence about the last run if it went otherwise than asked (the GPU failed and
 * the CPU did it), or "". */
const gchar *zn_op_engine_note (void);

/* How often a network ran in this process; for tests, found by its name. */
G_MODULE_EXPORT
guint zn_op_network_runs (void);

#endif
