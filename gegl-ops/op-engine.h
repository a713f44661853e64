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

/* The model with this id, with its own weights or the file or folder `weights` (NULL or
 * "": its own), or the wanted half of an autoencoder; on failure NULL and an error message.
 * Cheap when called again.  To be given back with zn_op_model_release(), which accepts
 * NULL. */
ZnOpModel *zn_op_model_acquire (const gchar    *id,
                                const gchar    *weights,
                                const ZnOpBase *base,
                                zn_error       *err);
ZnOpModel *zn_op_model_acquire_autoencoder (zn_half           half,
                                            ZenithAutoencoder which,
                                            const gchar      *weights,
                                            const ZnOpBase   *base,
                                            zn_error         *err);

static inline void
zn_op_model_release (ZnOpModel *model)
{
  zn_use_end (&model);
}

/* What shows a latent of this autoencoder by its colours: a decoder that the weight file
 * describes, or one that is known for its latents; NULL: there is none. */
ZnOpModel *zn_op_model_acquire_colours (ZenithAutoencoder which,
                                        const gchar      *weights,
                                        gint              channels,
                                        gint              factor,
                                        const ZnOpBase   *base);

/* The same, and what it holds for its tiles (up to $ZENITH_MEMORY) is given back now,
 * unless another request uses it.  The next acquire reads its weights again. */
static inline void
zn_op_model_retire (ZnOpModel *model)
{
  zn_use_retire (&model);
}

/* Closes all unused models: before something that takes most of the memory. */
static inline void
zn_op_models_close_idle (void)
{
  zn_session_trim (zn_op_session ());
}

static inline const zn_geometry *
zn_op_model_geometry (const ZnOpModel *model)
{
  return zn_model_geometry (zn_use_model (model));
}

/* Whether the picture of a half of an autoencoder is -1..1. */
static inline gboolean
zn_op_model_centred (const ZnOpModel *model)
{
  return zn_model_is_centred (zn_use_model (model));
}

/* Names model, engine, precision and weights: what a result depends on. */
static inline const gchar *
zn_op_model_name (const ZnOpModel *model)
{
  return zn_use_name (model);
}

/* Runs are made between these two, by one thread at a time, so that a thread that
 * waited finds the result of the one before.  Refuses, instead of deadlocking, when
 * this thread is in a run already (a progress bar that redraws the picture). */
gboolean zn_op_engine_enter (zn_error *err);
void     zn_op_engine_leave (void);

/* A run's settings other than the request's progress. */
typedef struct _ZnOpJob
{
  const zn_value *set;
  gint            n_set;
  gint            tile; /* 0: as large as memory allows */
} ZnOpJob;

/* zn_model_run_region() for one input, and zn_model_run(), which sets the sizes of out[]
 * but wants its memory.  Counted; the request gets the note or the error message. */
zn_status zn_op_model_run (ZnOpModel       *model,
                           const zn_sink   *out,
                           const zn_source *in,
                           zn_rect          roi,
                           const ZnOpJob   *job,
                           ZnOpRequest     *request);
zn_status zn_op_model_run_arrays (ZnOpModel      *model,
                                  zn_array       *out,
                                  const zn_array *in,
                                  gint            n_in,
                                  const ZnOpJob  *job,
                                  ZnOpRequest    *request);

/* How often a network ran in this process, and how many pixels it was asked for; for
 * tests, found by their names. */
G_MODULE_EXPORT
guint zn_op_network_runs (void);
G_MODULE_EXPORT
guint64 zn_op_network_pixels (void);
void    zn_op_count_pixels (guint64 pixels); /* between enter and leave */

#endif
