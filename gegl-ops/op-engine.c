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
  gsize     beside; /* of the last that acquired it: see ZnOpBase */
  zn_model *handle; /* NULL: the weights are bad, and error says why */
  zn_error  error;
};

static GMutex  registry; /* guards the next two */
static GSList *engines;  /* Engine; never closed */
static GSList *models;   /* ZnOpModel, last used first */

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

/* The precision of a model on this engine.  One that only a GPU has must not fail on a CPU, neither
 * from the property nor from $ZENITH_PRECISION. */
static const gchar *
wanted_precision (const Engine *engine, const ZnOpBase *base)
{
  const gchar *name = g_getenv ("ZENITH_PRECISION");

  if (base->precision != ZENITH_PRECISION_AUTO)
    name = zn_op_nick (zenith_precision_get_type (), base->precision);
  if (name && ! zn_engine_is_remote (engine->handle) &&
      (! strcmp (name, "tf32") || ! strcmp (name, "fp8")))
    return "fp32";

  return name && *name ? name : "auto";
}

/* ---- models --------------------------------------------------------------- */

static void
model_free (ZnOpModel *model)
{
  models = g_slist_remove (models, model);
  zn_model_close (&model->handle);
  g_free (model->name);
  g_free (model);
}

/* Closes the least recently used models.  Called with the registry locked. */
static void
models_trim (void)
{
  gint n_idle = 0;

  for (GSList *l = models; l;)
    {
      ZnOpModel *model = l->data;

      l = l->next;
      if (model->users || ++n_idle <= MAX_IDLE)
        continue;

      model_free (model);
    }
}

/* Closes unused models, except one.  Called with the registry locked. */
static void
models_close_idle (const ZnOpModel *keep)
{
  for (GSList *l = models; l;)
    {
      ZnOpModel *model = l->data;

      l = l->next;
      if (! model->users && model != keep)
        model_free (model);
    }
}

/* Called with the registry locked. */
static ZnOpModel *
model_open (gchar       *name,
            const gchar *id,
            const gchar *path,
            Engine      *engine,
            const gchar *precision,
            gsize        beside,
            zn_error    *err)
{
  const zn_open how = {
    .files = &path, .n_files = path ? 1 : 0, .precision = precision, .beside = beside
  };
  ZnOpModel *model  = NULL;
  zn_model  *handle = NULL;
  zn_status  status;

  if (g_private_get (&within)) /* opening would deadlock on the engine */
    {
      g_strlcpy (err->text, _ (busy), sizeof (err->text));
      g_free (name);
      return NULL;
    }

  status = zn_model_open (&handle, engine->handle, id, &how, err);

  /* An error of a file stays until its time or size changes; all other errors may be temporary. */
  if (status == ZN_OK || (status == ZN_E_FILE && path))
    {
      model         = g_new0 (ZnOpModel, 1);
      model->name   = name;
      model->handle = handle;
      if (status)
        model->error = *err;
      models = g_slist_prepend (models, model);
      models_trim ();
    }
  else
    {
      g_free (name);
    }

  return model;
}

/* path: NULL for a model without weights. */
static ZnOpModel *
model_acquire (const gchar *id, const gchar *path, const ZnOpBase *base, zn_error *err)
{
  ZnOpModel *model = NULL;
  Engine    *engine;
  GStatBuf   info = {
      0,
  };
  const gchar *precision;
  gchar       *name;
  GSList      *l;

  if (path)
    g_stat (path, &info);

  g_mutex_lock (&registry);

  engine = engine_get (base->engine, err);
  if (! engine)
    {
      g_mutex_unlock (&registry);
      return NULL;
    }

  precision = wanted_precision (engine, base);
  name      = g_strdup_printf ("%s %s %d %s %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %s", id,
                               zn_engine_name (engine->handle), engine->n_threads, precision,
                               (gint64) info.st_mtime, (gint64) info.st_size, path ? path : "");

  for (l = models; l; l = l->next)
    if (! strcmp (((ZnOpModel *) l->data)->name, name))
      break;

  if (base->alone && ! g_private_get (&within)) /* closing would deadlock, too */
    models_close_idle (l ? l->data : NULL);
  if (l)
    {
      model  = l->data;
      models = g_slist_remove (models, model);
      models = g_slist_prepend (models, model);
      g_free (name);
    }
  else
    {
      model = model_open (name, id, path, engine, precision, base->beside, err);
    }

  if (model && ! model->handle)
    {
      *err  = model->error;
      model = NULL;
    }
  if (model)
    {
      model->users++;
      model->beside = base->beside;
    }

  g_mutex_unlock (&registry);

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
  if (! model)
    return;

  g_mutex_lock (&registry);
  model->users--;
  models_trim ();
  g_mutex_unlock (&registry);
}

void
zn_op_model_retire (ZnOpModel *model)
{
  if (! model)
    return;

  g_mutex_lock (&registry);
  if (! --model->users)
    model_free (model);
  g_mutex_unlock (&registry);
}

void
zn_op_models_close_idle (void)
{
  g_mutex_lock (&registry);
  models_close_idle (NULL);
  g_mutex_unlock (&registry);
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

  g_mutex_lock (&registry);
  engine = engine_get (base->engine, err);
  if (engine)
    {
      const zn_open how = { .files     = &path,
                            .n_files   = path ? 1 : 0,
                            .precision = wanted_precision (engine, base),
                            .plan_only = true };

      ok = ! zn_model_open (&model, engine->handle, id, &how, err) &&
           ! zn_model_plan (model, in, n_in, &run, &plan, err) &&
           (! out || ! zn_model_shape (model, in, n_in, out, err));
    }
  if (ok)
    *need = need_of (&plan);
  zn_model_close (&model);
  g_mutex_unlock (&registry);

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

/* ---- where an autoencoder's weights are ----------------------------------- */

static const gchar *const half_word[] = { "encoder", "decoder" };

/* The stems that a half may have, best first. */
static void
autoencoder_stems (gchar stem[2][64], ZnOpHalf half, ZenithAutoencoder which)
{
  const gchar *nick = zn_op_nick (zenith_autoencoder_get_type (), which);

  g_snprintf (stem[0], sizeof (stem[0]), "%s_%s", nick, half_word[half]);
  g_snprintf (stem[1], sizeof (stem[1]), "%s", nick);
}

/* What the user gave: a folder with the files that would be found by name, a
 * file of both halves, or one half whose name tells how the other is called. */
static gchar *
autoencoder_given (ZnOpHalf half, ZenithAutoencoder which, const gchar *weights)
{
  static const gchar *const ends[] = { "safetensors", "pth", "pt", "ckpt" };
  const gchar              *other  = half_word[! half];
  gchar                    *base;
  gchar                    *found;

  if (g_file_test (weights, G_FILE_TEST_IS_DIR))
    {
      gchar stem[2][64];

      autoencoder_stems (stem, half, which);
      for (guint i = 0; i < G_N_ELEMENTS (stem); i++)
        for (guint j = 0; j < G_N_ELEMENTS (ends); j++)
          {
            found = g_strdup_printf ("%s/%s.%s", weights, stem[i], ends[j]);
            if (g_file_test (found, G_FILE_TEST_EXISTS))
              return found;
            g_free (found);
          }
      return g_strdup (weights);
    }

  base  = g_path_get_basename (weights);
  found = strstr (base, other);
  if (found)
    {
      gchar *dir  = g_path_get_dirname (weights);
      gchar *path = g_strdup_printf ("%s/%.*s%s%s", dir, (int) (found - base), base,
                                     half_word[half], found + strlen (other));

      g_free (dir);
      if (g_file_test (path, G_FILE_TEST_EXISTS))
        {
          g_free (base);
          return path;
        }
      g_free (path);
    }
  g_free (base);

  return g_strdup (weights);
}

/* The id of a half: that of the networks whose weights the file holds, or else TAESD's. */
static void
autoencoder_id (gchar id[64], ZnOpHalf half, const gchar *path)
{
  static const gchar *const families[] = { "zenith", "flux-ae", "wan-vae", "wan2d-vae" };
  const gchar              *family     = "taesd";
  zn_weights               *weights    = NULL;
  const gchar              *found      = NULL;
  gchar                     what[96];

  if (! zn_weights_open (&weights, &path, 1, NULL))
    found = zn_weights_recognise (weights, what, sizeof (what));
  for (guint i = 0; found && i < G_N_ELEMENTS (families); i++)
    {
      gchar *start = g_strdup_printf ("%s-", families[i]);

      if (g_str_has_prefix (found, start) && strlen (found) == strlen (start) + strlen ("encode"))
        family = families[i];
      g_free (start);
    }
  g_snprintf (id, 64, "%s-%s", family, half == ZN_OP_ENCODER ? "encode" : "decode");
  zn_weights_close (&weights);
}

/* How a latent is shown without a decoder: the id of a known projection to colours, or NULL. */
static const gchar *
autoencoder_colours (ZenithAutoencoder which)
{
  switch (which)
    {
    case ZENITH_AUTOENCODER_TAESD:
      return "sd" ZN_OP_COLOURS;
    case ZENITH_AUTOENCODER_TAESDXL:
      return "sdxl" ZN_OP_COLOURS;
    case ZENITH_AUTOENCODER_TAESD3:
      return "sd3" ZN_OP_COLOURS;
    case ZENITH_AUTOENCODER_TAEF1:
      return "flux" ZN_OP_COLOURS;
    case ZENITH_AUTOENCODER_TAEF2:
      return "flux2" ZN_OP_COLOURS;
    case ZENITH_AUTOENCODER_WAN:
      return "wan" ZN_OP_COLOURS;
    default:
      return NULL;
    }
}

/* Whether the published files of a model are two, one for each half. */
static gboolean
comes_in_halves (ZenithAutoencoder which)
{
  return which >= ZENITH_AUTOENCODER_TAESD && which <= ZENITH_AUTOENCODER_TAESANA;
}

/* Where the file of a half is; NULL and an error message if there is none. */
static gchar *
autoencoder_path (ZnOpHalf half, ZenithAutoencoder which, const gchar *weights, zn_error *err)
{
  gchar    stem[2][64];
  gchar    found[4096];
  zn_error ignored;

  if (weights && *weights)
    return autoencoder_given (half, which, weights);

  /* The message names the file that the user most likely has. */
  autoencoder_stems (stem, half, which);
  if (comes_in_halves (which) ? ! zn_weights_find (found, sizeof (found), stem[0], err) ||
                                    ! zn_weights_find (found, sizeof (found), stem[1], &ignored)
                              : ! zn_weights_find (found, sizeof (found), stem[1], err))
    return g_strdup (found);

  if (comes_in_halves (which))
    {
      g_strlcat (err->text, ". ", sizeof (err->text)); /* the engine ends without a full stop */
      g_strlcat (err->text, _ ("They are published at https://github.com/madebyollin/taesd."),
                 sizeof (err->text));
    }

  return NULL;
}

ZnOpModel *
zn_op_model_acquire_autoencoder (ZnOpHalf          half,
                                 ZenithAutoencoder which,
                                 const gchar      *weights,
                                 const ZnOpBase   *base,
                                 zn_error         *err)
{
  gchar     *path = autoencoder_path (half, which, weights, err);
  ZnOpModel *model;
  gchar      id[64];

  /* a latent has colours without a decoder, too */
  if (! path)
    return half == ZN_OP_DECODER && autoencoder_colours (which)
               ? model_acquire (autoencoder_colours (which), NULL, base, err)
               : NULL;

  autoencoder_id (id, half, path);
  model = model_acquire (id, path, base, err);
  g_free (path);

  return model;
}

ZnOpModel *
zn_op_model_acquire_colours (ZenithAutoencoder which,
                             const gchar      *weights,
                             gint              channels,
                             gint              factor,
                             const ZnOpBase   *base)
{
  zn_error     ignored;
  gchar       *path  = autoencoder_path (ZN_OP_ENCODER, which, weights, &ignored);
  const gchar *files = path;
  zn_weights  *file  = NULL;
  const gchar *known = autoencoder_colours (which);
  gboolean     own   = FALSE;
  ZnOpModel   *model = NULL;

  if (path && ! zn_weights_open (&file, &files, 1, NULL))
    for (gint i = 0; i < zn_weights_count (file); i++)
      own = own || ! strcmp (zn_weights_info (file, i).name, "view.weight");
  zn_weights_close (&file);

  if (own || known)
    model = model_acquire (own ? "latent-rgb" : known, own ? path : NULL, base, &ignored);
  if (model && (zn_op_model_geometry (model)->in_c != channels ||
                zn_op_model_geometry (model)->grow != factor))
    {
      zn_op_model_release (model);
      model = NULL;
    }
  g_free (path);

  return model;
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

/* The end of a run: its note is the request's. */
static zn_status
run_end (zn_status status, const zn_error *note, ZnOpRequest *request)
{
  g_private_set (&within, NULL);
  request->ran = TRUE;
  if (status == ZN_OK && *note->text && ! strstr (request->note, note->text))
    {
      if (*request->note)
        g_strlcat (request->note, g_str_has_suffix (request->note, ".") ? " " : ". ",
                   sizeof (request->note));
      g_strlcat (request->note, note->text, sizeof (request->note));
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

  return run_end (status, &note, request);
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

  return run_end (status, &note, request);
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

  open.precision = wanted_precision (engine, base);
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
