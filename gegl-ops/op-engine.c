/* SPDX-License-Identifier: MIT */
/* op-engine.c - engines and models, one of each for the whole process. */

#include "config.h"

#include <glib/gi18n-lib.h>

#include <string.h>

#include <glib/gstdio.h>

#include "op-engine.h"

#define MAX_IDLE 8 /* unused models that are kept open */

typedef struct
{
  gchar     *name; /* as asked for: "auto" */
  gint       n_threads;
  zn_engine *handle;
} Engine;

struct _ZnOpModel
{
  gchar    *name; /* id, engine, threads, precision, weights, their age and size */
  gint      users;
  gboolean  opening; /* by one of the users: handle and error are not valid yet */
  gsize     beside;  /* of the last that acquired it: see ZnOpBase */
  zn_model *handle;  /* NULL: the weights are bad, and error says why */
  zn_error  error;
  zn_error  note; /* what its runs do other than asked, or "" */
};

/* Guards the next two.  A model is opened, closed and run without it: each of these waits for the
 * engine, which a run keeps while its progress function, called by the same thread, may need the
 * registry. */
static GMutex  registry;
static GSList *engines; /* Engine; never closed */
static GSList *models;  /* ZnOpModel, last used first */
static GCond   opened;  /* a model was, or could not be */

static GMutex   running; /* held from enter to leave */
static GPrivate entered; /* of the thread that holds it: not NULL */
static GPrivate within;  /* of a thread inside of a run: not NULL */
static gint     n_runs;
static guint64  n_pixels; /* written between enter and leave */

static const gchar busy[] = N_ ("The engine is busy with another picture.");

/* ---- engines -------------------------------------------------------------- */

/* GEGL's number of threads (GIMP's preferences), unless $ZENITH_THREADS is set,
 * which the library reads itself. */
static gint
wanted_threads (void)
{
  gint n_threads = 0;

  if (! g_getenv ("ZENITH_THREADS"))
    g_object_get (gegl_config (), "threads", &n_threads, NULL);

  return n_threads;
}

/* Called with the registry locked. */
static Engine *
engine_get (ZenithEngine which, zn_error *err)
{
  const gchar *name      = zn_op_nick (zenith_engine_get_type (), which);
  gint         n_threads = wanted_threads ();
  zn_engine   *handle    = NULL;
  Engine      *engine;

  for (GSList *l = engines; l; l = l->next)
    {
      engine = l->data;
      if (engine->n_threads == n_threads && ! strcmp (engine->name, name))
        return engine;
    }

  if (zn_engine_open (&handle, name, n_threads, err))
    return NULL;

  engine            = g_new0 (Engine, 1);
  engine->name      = g_strdup (name);
  engine->n_threads = n_threads;
  engine->handle    = handle;
  engines           = g_slist_prepend (engines, engine);

  return engine;
}

/* The precision that was asked for, by the property or by $ZENITH_PRECISION. */
static const gchar *
wanted_precision (const ZnOpBase *base)
{
  const gchar *name = g_getenv ("ZENITH_PRECISION");

  if (base->precision != ZENITH_PRECISION_AUTO)
    name = zn_op_nick (zenith_precision_get_type (), base->precision);

  return name && *name ? name : "auto";
}

/* ... or fp32, if that is one which only GPUs have and the engine is a CPU's: a graph from another
 * computer must not fail. */
static const gchar *
usable_precision (const zn_engine *engine, const gchar *wanted)
{
  GEnumClass    *klass = g_type_class_ref (zenith_precision_get_type ());
  const gboolean known = g_enum_get_value_by_nick (klass, wanted) != NULL;

  g_type_class_unref (klass);

  return known && strcmp (wanted, "auto") && ! zn_engine_is_remote (engine) &&
                 ! zn_engine_has_precision (engine, wanted)
             ? "fp32"
             : wanted;
}

/* ---- models --------------------------------------------------------------- */

static void
model_free (gpointer data)
{
  ZnOpModel *model = data;

  zn_model_close (&model->handle);
  g_free (model->name);
  g_free (model);
}

/* Takes the unused models except one from the list, but for the `most` that were used last.
 * Called with the registry locked; the caller closes them when it is not. */
static GSList *
models_take (gint most, const ZnOpModel *keep)
{
  GSList *taken  = NULL;
  gint    n_idle = 0;

  if (g_private_get (&within)) /* closing would wait for this thread's own run: done later */
    return NULL;

  for (GSList *l = models; l;)
    {
      ZnOpModel *model = l->data;

      l = l->next;
      if (model->users || model == keep || ++n_idle <= most)
        continue;

      models = g_slist_remove (models, model);
      taken  = g_slist_prepend (taken, model);
    }

  return taken;
}

static void
models_close (GSList *taken)
{
  g_slist_free_full (taken, model_free);
}

/* The model of this name, when no other thread is opening it any more; NULL: there is none.
 * Called with the registry locked. */
static ZnOpModel *
model_find (const gchar *name)
{
  for (GSList *l = models; l;)
    {
      ZnOpModel *model = l->data;

      if (strcmp (model->name, name))
        {
          l = l->next;
        }
      else if (model->opening && ! g_private_get (&within))
        {
          g_cond_wait (&opened, &registry); /* afterwards it may be gone */
          l = models;
        }
      else
        {
          return model;
        }
    }

  return NULL;
}

/* Opens a model that is in the list, for its one user. */
static void
model_open (ZnOpModel *model, zn_engine *engine, const gchar *id, const zn_open *how, zn_error *err)
{
  zn_open   usable = *how;
  zn_model *handle = NULL;
  zn_status status;

  usable.precision = usable_precision (engine, how->precision);
  if (strcmp (usable.precision, how->precision))
    g_snprintf (model->note.text, sizeof (model->note.text),
                _ ("The engine %s has no precision %s and computes in %s instead."),
                zn_engine_name (engine), how->precision, usable.precision);
  status = zn_model_open (&handle, engine, id, &usable, err);

  g_mutex_lock (&registry);
  model->handle  = handle;
  model->opening = FALSE;
  if (status)
    model->error = *err;
  /* An error of a file stays until its time or size changes; all other errors may be temporary. */
  if (status && (status != ZN_E_FILE || ! how->n_files))
    models = g_slist_remove (models, model);
  g_cond_broadcast (&opened);
  g_mutex_unlock (&registry);
}

/* The user does not want it any more.  A model that is not in the list has no other. */
static void
model_drop (ZnOpModel *model)
{
  GSList *taken;

  g_mutex_lock (&registry);
  model->users--;
  taken = models_take (MAX_IDLE, NULL);
  if (! g_slist_find (models, model) && ! g_slist_find (taken, model))
    taken = g_slist_prepend (taken, model);
  g_mutex_unlock (&registry);
  models_close (taken);
}

/* path: NULL for a model without weights. */
static ZnOpModel *
model_acquire (const gchar *id, const gchar *path, const ZnOpBase *base, zn_error *err)
{
  zn_open    how    = { .files = &path, .n_files = path ? 1 : 0, .beside = base->beside };
  ZnOpModel *model  = NULL;
  GSList    *taken  = NULL;
  gboolean   is_new = FALSE;
  Engine    *engine;
  GStatBuf   info = {
      0,
  };
  gchar *name;

  if (path)
    g_stat (path, &info);

  g_mutex_lock (&registry);

  engine = engine_get (base->engine, err);
  if (! engine)
    {
      g_mutex_unlock (&registry);
      return NULL;
    }

  how.precision = wanted_precision (base);
  name          = g_strdup_printf ("%s %s %d %s %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %s", id,
                                   zn_engine_name (engine->handle), engine->n_threads, how.precision,
                                   (gint64) info.st_mtime, (gint64) info.st_size, path ? path : "");
  model         = model_find (name);
  if (base->alone)
    taken = models_take (0, model);

  if (g_private_get (&within) && (! model || model->opening)) /* it would wait for its own run */
    {
      g_strlcpy (err->text, _ (busy), sizeof (err->text));
      g_mutex_unlock (&registry);
      g_free (name);
      return NULL;
    }

  is_new = ! model;
  if (is_new)
    {
      model          = g_new0 (ZnOpModel, 1);
      model->name    = g_steal_pointer (&name);
      model->opening = TRUE;
    }
  models = g_slist_prepend (g_slist_remove (models, model), model);
  model->users++;
  model->beside = base->beside;
  g_mutex_unlock (&registry);
  g_free (name);

  models_close (taken);
  if (is_new)
    model_open (model, engine->handle, id, &how, err);
  if (! model->handle)
    {
      *err = model->error;
      model_drop (model);
      return NULL;
    }

  return model;
}

ZnOpModel *
zn_op_model_acquire (const gchar *id, const gchar *weights, const ZnOpBase *base, zn_error *err)
{
  const zn_model_info *info = zn_model_named (id);
  gchar                path[4096];

  if (! info)
    {
      g_snprintf (err->text, sizeof (err->text),
                  _ ("There is no model '%s' in this version of Zenith."), id);
      return NULL;
    }

  if (! info->weights)
    return model_acquire (id, NULL, base, err);
  if (weights && *weights)
    return model_acquire (id, weights, base, err);
  if (zn_weights_find (path, sizeof (path), info->weights, err))
    return NULL;

  return model_acquire (id, path, base, err);
}

void
zn_op_model_release (ZnOpModel *model)
{
  if (model)
    model_drop (model);
}

void
zn_op_model_retire (ZnOpModel *model)
{
  GSList *taken = NULL;

  if (! model)
    return;

  g_mutex_lock (&registry);
  if (! --model->users && ! g_private_get (&within))
    {
      models = g_slist_remove (models, model);
      taken  = g_slist_prepend (NULL, model);
    }
  g_mutex_unlock (&registry);
  models_close (taken);
}

void
zn_op_models_close_idle (void)
{
  GSList *taken;

  g_mutex_lock (&registry);
  taken = models_take (0, NULL);
  g_mutex_unlock (&registry);
  models_close (taken);
}

gboolean
zn_op_engine_is_remote (const ZnOpBase *base)
{
  zn_error err;
  Engine  *engine;

  g_mutex_lock (&registry);
  engine = engine_get (base->engine, &err);
  g_mutex_unlock (&registry);

  return engine && zn_engine_is_remote (engine->handle);
}

const zn_geometry *
zn_op_model_geometry (const ZnOpModel *model)
{
  return zn_model_geometry (model->handle);
}

gint
zn_op_model_level_reach (const ZnOpModel *model)
{
  return zn_model_level_reach (model->handle);
}

zn_status
zn_op_model_levels (ZnOpModel *model, zn_noise_table *noise, const zn_source *in, zn_error *err)
{
  zn_status status;

  if (! zn_op_engine_enter (err))
    return ZN_E_DEVICE;

  status = zn_noise_levels (noise, model->handle, in, err);
  zn_op_engine_leave ();

  return status;
}

static void
on_preview (void *cookie, const zn_array *picture, int step, int n_steps)
{
  const ZnOpRequest *request = cookie;

  request->job->preview (request->job->preview_data, picture, step, n_steps);
}

/* The engine's job: the settings, the request's progress, where a note goes. */
static zn_job
make_job (const ZnOpJob *job, gsize beside, ZnOpRequest *request, zn_error *note)
{
  const gboolean previews = job && job->preview;

  if (request)
    request->job = job;

  return (zn_job){ .set           = job ? job->set : NULL,
                   .n_set         = job ? job->n_set : 0,
                   .tile          = job ? job->tile : 0,
                   .noise         = job ? job->noise : NULL,
                   .note          = note,
                   .beside        = beside,
                   .progress      = request ? zn_op_request_progress : NULL,
                   .preview       = previews ? on_preview : NULL,
                   .preview_every = previews,
                   .preview_with  = job && job->preview_with ? job->preview_with->handle : NULL,
                   .cookie        = request };
}

gint
zn_op_model_tile (ZnOpModel *model, gint width, gint height, gint side)
{
  const zn_array in  = { NULL, height, width, zn_op_model_geometry (model)->in_c };
  const ZnOpJob  job = { .tile = side };
  const zn_job   run = make_job (&job, model->beside, NULL, NULL);
  zn_plan        plan;

  return zn_model_plan (model->handle, &in, 1, &run, &plan, NULL) ? side : plan.tile_w;
}

static ZnOpNeed
need_of (const zn_plan *plan)
{
  return (ZnOpNeed){ plan->weight_bytes, plan->peak_bytes, plan->streamed };
}

gboolean
zn_op_model_plan (ZnOpModel      *model,
                  const zn_array *in,
                  gint            n_in,
                  const ZnOpJob  *job,
                  ZnOpNeed       *need)
{
  const zn_job run = make_job (job, model->beside, NULL, NULL);
  zn_plan      plan;

  if (zn_model_plan (model->handle, in, n_in, &run, &plan, NULL))
    return FALSE;
  *need = need_of (&plan);

  return TRUE;
}

gboolean
zn_op_model_count (const gchar    *id,
                   const gchar    *path,
                   const ZnOpBase *base,
                   const zn_array *in,
                   gint            n_in,
                   const ZnOpJob  *job,
                   zn_array       *out,
                   ZnOpNeed       *need,
                   zn_error       *err)
{
  const zn_job run   = make_job (job, base->beside, NULL, NULL);
  zn_model    *model = NULL;
  zn_plan      plan;
  Engine      *engine;
  gboolean     ok = FALSE;

  if (g_private_get (&within))
    {
      g_strlcpy (err->text, _ (busy), sizeof (err->text));
      return FALSE;
    }

  g_mutex_lock (&registry);
  engine = engine_get (base->engine, err);
  g_mutex_unlock (&registry);
  if (engine)
    {
      const zn_open how = { .files     = &path,
                            .n_files   = path ? 1 : 0,
                            .precision = usable_precision (engine->handle, wanted_precision (base)),
                            .plan_only = true };

      ok = ! zn_model_open (&model, engine->handle, id, &how, err) &&
           ! zn_model_plan (model, in, n_in, &run, &plan, err) &&
           (! out || ! zn_model_shape (model, in, n_in, out, err));
    }
  if (ok)
    *need = need_of (&plan);
  zn_model_close (&model);

  return ok;
}

gboolean
zn_op_model_centred (const ZnOpModel *model)
{
  return zn_model_is_centred (model->handle);
}

const gchar *
zn_op_model_name (const ZnOpModel *model)
{
  return model->name;
}

/* ---- running -------------------------------------------------------------- */

gboolean
zn_op_engine_enter (zn_error *err)
{
  if (g_private_get (&entered))
    {
      g_strlcpy (err->text, _ (busy), sizeof (err->text));
      return FALSE;
    }

  g_mutex_lock (&running);
  g_private_set (&entered, &running);

  return TRUE;
}

void
zn_op_engine_leave (void)
{
  g_private_set (&entered, NULL);
  g_mutex_unlock (&running);
}

static void
run_begin (ZnOpModel *model)
{
  g_atomic_int_inc (&n_runs);
  g_private_set (&within, model);
}

static void
add_note (ZnOpRequest *request, const gchar *note)
{
  if (! *note || strstr (request->note, note))
    return;

  if (*request->note)
    g_strlcat (request->note, g_str_has_suffix (request->note, ".") ? " " : ". ",
               sizeof (request->note));
  g_strlcat (request->note, note, sizeof (request->note));
}

/* The end of a run: its notes are the request's. */
static zn_status
run_end (const ZnOpModel *model, zn_status status, const zn_error *note, ZnOpRequest *request)
{
  g_private_set (&within, NULL);
  request->ran = TRUE;
  if (status == ZN_OK)
    {
      add_note (request, model->note.text);
      add_note (request, note->text);
    }

  return status;
}

zn_status
zn_op_model_run (ZnOpModel       *model,
                 const zn_sink   *out,
                 const zn_source *in,
                 zn_rect          roi,
                 const ZnOpJob   *job,
                 ZnOpRequest     *request)
{
  zn_error     note = { "" };
  const zn_job run  = make_job (job, model->beside, request, &note);
  zn_status    status;

  n_pixels += (guint64) roi.w * roi.h;
  run_begin (model);
  status = zn_model_run_region (model->handle, out, in, 1, roi, &run, &request->err);

  return run_end (model, status, &note, request);
}

zn_status
zn_op_model_run_arrays (ZnOpModel      *model,
                        zn_array       *out,
                        const zn_array *in,
                        gint            n_in,
                        const ZnOpJob  *job,
                        ZnOpRequest    *request)
{
  zn_error     note = { "" };
  const zn_job run  = make_job (job, model->beside, request, &note);
  zn_status    status;

  run_begin (model);
  status = zn_model_run (model->handle, in, n_in, out, &run, &request->err);

  return run_end (model, status, &note, request);
}

zn_status
zn_op_find_face (zn_face           *face,
                 gint              *n,
                 const ZnOpPicture *picture,
                 const ZnOpBase    *base,
                 zn_error          *err)
{
  ZnOpPicture     copy   = *picture;
  const zn_source source = { copy.box.width, copy.box.height, 3, zn_op_picture_read, &copy };
  zn_finder      *finder = NULL;
  zn_status       status = ZN_E_DEVICE;
  zn_open         open   = { 0 };
  Engine         *engine;

  g_mutex_lock (&registry);
  engine = engine_get (base->engine, err);
  g_mutex_unlock (&registry);
  *n = 0;
  if (! engine)
    return status;

  open.precision = usable_precision (engine->handle, wanted_precision (base));
  g_atomic_int_inc (&n_runs);
  status = zn_finder_open (&finder, engine->handle, &open, err);
  if (! status)
    status = zn_find_faces (face, 1, n, finder, &source, err);
  zn_finder_close (&finder);

  return status;
}

guint
zn_op_network_runs (void)
{
  return (guint) g_atomic_int_get (&n_runs);
}

guint64
zn_op_network_pixels (void)
{
  return n_pixels;
}
