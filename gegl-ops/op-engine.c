/* SPDX-License-Identifier: MIT */
/* op-engine.c - the process's session of the engine, for requests. */

#include "config.h"

#include "op-engine.h"

static guint64 n_pixels; /* written between enter and leave */

zn_session *
zn_op_session (void)
{
  static gsize       once;
  static zn_session *session; /* never closed: its threads outlive every node */

  if (g_once_init_enter (&once))
    {
      /* a moment later there may be memory; if there is none, GLib ends, too */
      for (gint tries = 3; ! session; tries--)
        if (zn_session_open (&session, NULL) && ! tries)
          g_error ("zenith: out of memory");
      g_once_init_leave (&once, 1);
    }

  return session;
}

/* GEGL's number of threads (GIMP's preferences), unless $ZENITH_THREADS is set,
 * which the library reads itself. */
zn_choice
zn_op_choice (const ZnOpBase *base)
{
  zn_choice choice = { .engine    = zn_op_nick (zenith_engine_get_type (), base->engine),
                       .precision = zn_op_nick (zenith_precision_get_type (), base->precision) };

  if (! g_getenv ("ZENITH_THREADS"))
    g_object_get (gegl_config (), "threads", &choice.n_threads, NULL);

  return choice;
}

static zn_terms
terms_of (const ZnOpBase *base)
{
  return (zn_terms){ .choice = zn_op_choice (base) };
}

/* ---- models --------------------------------------------------------------- */

ZnOpModel *
zn_op_model_acquire (const gchar *id, const gchar *weights, const ZnOpBase *base, zn_error *err)
{
  const zn_terms terms = terms_of (base);
  ZnOpModel     *model = NULL;

  zn_use_begin (&model, zn_op_session (), id, weights, &terms, err);

  return model;
}

ZnOpModel *
zn_op_model_acquire_autoencoder (zn_half           half,
                                 ZenithAutoencoder which,
                                 const gchar      *weights,
                                 const ZnOpBase   *base,
                                 zn_error         *err)
{
  const zn_terms terms = terms_of (base);
  ZnOpModel     *model = NULL;

  zn_use_autoencoder (&model, zn_op_session (), half,
                      zn_op_nick (zenith_autoencoder_get_type (), which), weights, &terms, err);

  return model;
}

ZnOpModel *
zn_op_model_acquire_colours (ZenithAutoencoder which,
                             const gchar      *weights,
                             gint              channels,
                             gint              factor,
                             const ZnOpBase   *base)
{
  const zn_terms terms = terms_of (base);
  ZnOpModel     *model = NULL;

  zn_use_colours (&model, zn_op_session (), zn_op_nick (zenith_autoencoder_get_type (), which),
                  weights, channels, factor, &terms, NULL);

  return model;
}

/* The engine's job: the settings, and the request's progress. */
static zn_job
make_job (const ZnOpJob *job, ZnOpRequest *request)
{
  return (zn_job){ .set      = job ? job->set : NULL,
                   .n_set    = job ? job->n_set : 0,
                   .tile     = job ? job->tile : 0,
                   .progress = request ? zn_op_request_progress : NULL,
                   .cookie   = request };
}

/* ---- running -------------------------------------------------------------- */

gboolean
zn_op_engine_enter (zn_error *err)
{
  return ! zn_session_enter (zn_op_session (), err);
}

void
zn_op_engine_leave (void)
{
  zn_session_leave (zn_op_session ());
}

zn_status
zn_op_model_run (ZnOpModel       *model,
                 const zn_sink   *out,
                 const zn_source *in,
                 zn_rect          roi,
                 const ZnOpJob   *job,
                 ZnOpRequest     *request)
{
  const zn_job run = make_job (job, request);
  zn_status    status;

  zn_op_count_pixels ((guint64) roi.w * roi.h);
  request->ran = TRUE;
  status       = zn_use_run_region (model, out, in, roi, &run, &request->note, &request->err);
  if (! status)
    zn_makers_add (&request->computed_by, model);

  return status;
}

zn_status
zn_op_model_run_arrays (ZnOpModel      *model,
                        zn_array       *out,
                        const zn_array *in,
                        gint            n_in,
                        const ZnOpJob  *job,
                        ZnOpRequest    *request)
{
  const zn_job run = make_job (job, request);
  zn_status    status;

  request->ran = TRUE;
  status       = zn_use_run (model, in, n_in, out, &run, &request->note, &request->err);
  if (! status)
    zn_makers_add (&request->computed_by, model);

  return status;
}

guint
zn_op_network_runs (void)
{
  return (guint) zn_session_runs (zn_op_session ());
}

void
zn_op_count_pixels (guint64 pixels)
{
  n_pixels += pixels;
}

guint64
zn_op_network_pixels (void)
{
  return n_pixels;
}
