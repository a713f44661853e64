/* SPDX-License-Identifier: MIT */
/* op-engine.c - the process's session of the engine, for requests. */

#include "config.h"

#include "op-engine.h"

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

zn_terms
zn_op_terms (const ZnOpBase *base)
{
  return (zn_terms){ .choice = zn_op_choice (base) };
}

void
zn_op_start (GeglOperation *operation, const ZnOpBase *base)
{
  const zn_choice choice = zn_op_choice (base);
  const gint      wish   = GPOINTER_TO_INT (
             g_object_get_data (G_OBJECT (operation->node), "zenith-start"));

  if (wish == 1)
    zn_session_start (zn_op_session (), &choice);
  else if (wish == 2)
    zn_session_started (zn_op_session ());
}

/* ---- running -------------------------------------------------------------- */

gboolean
zn_op_engine_enter (zn_error *err)
{
  return ! zn_session_enter (zn_op_session (), err);
}

zn_status
zn_op_kept_or_enter (GBytes **kept, const zn_key *key, zn_error *err)
{
  *kept = zn_op_cache_get (key);
  if (*kept)
    return ZN_OK;
  if (! zn_op_engine_enter (err))
    return ZN_E_DEVICE;

  *kept = zn_op_cache_get (key); /* another thread may have made it */
  if (*kept)
    zn_op_engine_leave ();

  return ZN_OK;
}

void
zn_op_engine_leave (void)
{
  zn_session_leave (zn_op_session ());
}

static zn_status
run_end (zn_use *use, zn_status status, ZnOpRequest *request)
{
  request->ran = TRUE;
  if (! status)
    zn_makers_add (&request->computed_by, use);

  return status;
}

zn_status
zn_op_use_run_region (zn_use          *use,
                      const zn_sink   *out,
                      const zn_source *in,
                      zn_rect          roi,
                      gint             tile,
                      ZnOpRequest     *request)
{
  const zn_job job = { .tile = tile, .progress = zn_op_request_progress, .cookie = request };

  return run_end (use, zn_use_run_region (use, out, in, roi, &job, &request->note, &request->err),
                  request);
}

zn_status
zn_op_use_run (zn_use *use, zn_array *out, const zn_array *in, gint n_in, ZnOpRequest *request)
{
  const zn_job job = { .progress = zn_op_request_progress, .cookie = request };

  return run_end (use, zn_use_run (use, in, n_in, out, &job, &request->note, &request->err),
                  request);
}

guint
zn_op_network_runs (void)
{
  return (guint) zn_session_runs (zn_op_session ());
}

guint64
zn_op_network_pixels (void)
{
  return zn_session_pixels (zn_op_session ());
}
