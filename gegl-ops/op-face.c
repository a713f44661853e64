/* SPDX-License-Identifier: MIT */
/* op-face.c - the work of the operations on faces; see the header. */

#include "config.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include <glib/gstdio.h>

#include "op-engine.h"
#include "op-face-blend.h"
#include "op-face-codes.h"
#include "op-face.h"

#define OWN_MODEL "zenith-face"
enum /* places in task->model */
{
  LATENT,
  LATENT_SAMPLE,
  LATENT_ENCODE
};

/* ---- describe ------------------------------------------------------------- */

void
zn_op_face_add_setting (ZnOpWhole *task, const gchar *format, ...)
{
  gchar  *all, *more;
  va_list args;

  va_start (args, format);
  more = g_strdup_vprintf (format, args);
  va_end (args);
  all = g_strconcat (task->settings ? task->settings : "", " ", more, NULL);
  g_free (more);
  g_free (task->settings);
  task->settings = all;
}

/* The file of a name that is not the engine's own. */
static void
set_weights (ZnOpWhole *task, const gchar *model)
{
  gchar path[4096];

  if (! model || ! *model || ! strcmp (model, OWN_MODEL))
    return;
  if (strchr (model, G_DIR_SEPARATOR))
    task->weights = g_intern_string (model);
  else if (! zn_weights_find (path, sizeof (path), model, &task->refusal))
    task->weights = g_intern_string (path);
}

/* What attribute files call the model: the stem of its file. */
static gchar *
model_stem (const gchar *model)
{
  gchar *base = g_path_get_basename (model && *model ? model : OWN_MODEL);
  gchar *dot  = strrchr (base, '.');

  if (dot && strchr (model, G_DIR_SEPARATOR))
    *dot = '\0';

  return base;
}

void
zn_op_face_describe (ZnOpWhole *task, const ZnOpFace *face)
{
  const GeglRectangle box = task->result;
  ZnOpSquare          square;
  zn_error            err;

  task->model[ZN_OP_FACE_ENCODE]  = "diffae-encode";
  task->model[ZN_OP_FACE_REVERSE] = "diffae-reverse";
  task->model[ZN_OP_FACE_SAMPLE]  = "diffae-sample";
  set_weights (task, face->model);
  zn_op_face_add_setting (task, "%.17g %.17g %.17g %.17g %d %d", face->frame.x, face->frame.y,
                          face->frame.size, face->frame.angle, face->steps, face->stochastic_steps);

  if (! zn_op_check_box (&box, &err))
    return; /* the family says so */
  if (! zn_op_square_get (&square, &face->frame, box.width, box.height, &err))
    {
      task->refusal = err;
      return;
    }
  task->change = zn_op_square_bounds (&square, box.width, box.height);
  task->change.x += box.x;
  task->change.y += box.y;
}

/* ---- what the operations do ----------------------------------------------- */

zn_status
zn_op_face_reconstruct (const ZnOpFaceRun *run)
{
  ZnOpFacePicture face;
  ZnOpFaceWork    work;
  GBytes         *made = NULL;
  zn_status       status;

  status = zn_op_face_work_begin (&work, run);
  if (status)
    return status;

  status = zn_op_face_read (&face, &work, run->in);
  if (! status)
    {
      work.total = zn_op_face_codes_cost (&face, &work) + zn_op_face_kept_cost (&face, &work);
      status     = zn_op_face_encode (&face, &work);
    }
  if (! status)
    status = zn_op_face_draw_kept (&made, &face, &work);
  if (! status)
    {
      ZnOpField *field = zn_op_field_new (&work, g_bytes_get_data (made, NULL), face.low, face.low,
                                          -1.0f);

      zn_op_field_paste (run->out, (const ZnOpField *) field, work.side, &work.square, &face.part);
      g_free (field);
    }
  g_clear_pointer (&made, g_bytes_unref);
  zn_op_face_clear (&face);

  return status;
}

/* dst [side][side][3]: the face with another code. */
static zn_status
face_edit (gfloat                *dst,
           const ZnOpFacePicture *face,
           ZnOpFaceWork          *work,
           const ZnOpAttribute   *attribute,
           gdouble                amount)
{
  const gfloat *cond0 = zn_op_face_cond (face);
  gfloat       *cond  = g_new (gfloat, work->code);
  zn_status     status;

  for (gint i = 0; i < work->code; i++)
    cond[i] = cond0[i] + (gfloat) amount * attribute->shift[i];
  status = zn_op_face_draw (dst, work, work->run->model[ZN_OP_FACE_SAMPLE],
                            zn_op_face_noise (face, work), cond, cond0,
                            1.0 + (attribute->guide - 1.0) * fabs (amount));
  g_free (cond);

  return status;
}

zn_status
zn_op_face_manipulate (const ZnOpFaceRun *run, const gchar *name, gdouble amount, gdouble detail)
{
  gchar          *stem      = model_stem (run->face->model);
  ZnOpAttribute   attribute = { NULL, 1.0 };
  GBytes         *made      = NULL;
  gfloat         *edit      = NULL;
  ZnOpFacePicture face      = { 0 };
  ZnOpFaceWork    work;
  zn_status       status;

  status = zn_op_face_work_begin (&work, run);
  if (! status &&
      ! zn_op_attribute_find (&attribute, name ? name : "", stem, work.code, &run->request->err))
    status = ZN_E_USAGE;
  if (! status)
    status = zn_op_face_read (&face, &work, run->in);
  if (! status)
    {
      work.total = zn_op_face_codes_cost (&face, &work) + zn_op_face_kept_cost (&face, &work) +
                   2 * run->face->steps;
      status = zn_op_face_encode (&face, &work);
    }
  if (! status)
    status = zn_op_face_draw_kept (&made, &face, &work);
  if (! status)
    {
      edit   = g_new (gfloat, work.len);
      status = face_edit (edit, &face, &work, &attribute, amount);
    }
  if (! status)
    {
      ZnOpField *field = zn_op_field_new (&work, edit, g_bytes_get_data (made, NULL), face.low,
                                          0.0f);

      zn_op_field_cut_fine (field, work.side, (gfloat) (1.0 - detail));
      zn_op_field_paste (run->out, (const ZnOpField *) field, work.side, &work.square, &face.part);
      g_free (field);
    }
  g_free (edit);
  g_free (stem);
  gegl_free (attribute.shift);
  g_clear_pointer (&made, g_bytes_unref);
  zn_op_face_clear (&face);

  return status;
}

/* a becomes (sin((1 - t) theta) a + sin(t theta) b) / sin(theta), theta being the angle
 * between them: noise between two noises is as strong as they are. */
static void
slerp (gfloat *a, const gfloat *b, gsize n, gdouble t)
{
  gdouble ab = 0.0, aa = 0.0, bb = 0.0;
  gdouble theta, p = 1.0 - t, q = t;

  for (gsize i = 0; i < n; i++)
    {
      ab += (gdouble) a[i] * b[i];
      aa += (gdouble) a[i] * a[i];
      bb += (gdouble) b[i] * b[i];
    }
  theta = aa > 0.0 && bb > 0.0 ? acos (CLAMP (ab / sqrt (aa * bb), -1.0, 1.0)) : 0.0;
  if (sin (theta) > 1e-6)
    {
      p = sin ((1.0 - t) * theta) / sin (theta);
      q = sin (t * theta) / sin (theta);
    }
  for (gsize i = 0; i < n; i++)
    a[i] = (gfloat) (p * a[i] + q * b[i]);
}

/* dst [side][side][3]: the face between two. */
static zn_status
faces_between (gfloat *dst, ZnOpFaceWork *work, const ZnOpFacePicture face[2], gdouble position)
{
  const gfloat *a     = zn_op_face_cond (&face[0]);
  const gfloat *b     = zn_op_face_cond (&face[1]);
  gfloat       *codes = g_new (gfloat, work->code + work->len);
  zn_status     status;

  for (gint i = 0; i < work->code; i++)
    codes[i] = (gfloat) ((1.0 - position) * a[i] + position * b[i]);
  memcpy (codes + work->code, a + work->code, work->len * sizeof (gfloat));
  slerp (codes + work->code, b + work->code, work->len, position);
  status = zn_op_face_draw (dst, work, work->run->model[ZN_OP_FACE_SAMPLE], codes + work->code,
                            codes, NULL, 1.0);
  g_free (codes);

  return status;
}

zn_status
zn_op_face_interpolate (const ZnOpFaceRun *run, const ZnOpPicture *second, gdouble position)
{
  const ZnOpPicture *picture[2] = { run->in, second };
  gfloat            *between    = NULL;
  ZnOpFacePicture    face[2]    = { { { { 0 } } } };
  ZnOpFaceWork       work;
  zn_status          status;

  if (second->box.width != run->in->box.width || second->box.height != run->in->box.height)
    return zn_op_request_refuse (run->request, ZN_E_USAGE,
                                 "The pictures have different sizes, %d x %d and %d x %d: crop or "
                                 "scale one of them.",
                                 run->in->box.width, run->in->box.height, second->box.width,
                                 second->box.height);

  status = zn_op_face_work_begin (&work, run);
  for (gint i = 0; ! status && i < 2; i++)
    status = zn_op_face_read (&face[i], &work, picture[i]);
  if (! status)
    work.total = zn_op_face_codes_cost (&face[0], &work) + zn_op_face_codes_cost (&face[1], &work) +
                 run->face->steps;
  for (gint i = 0; ! status && i < 2; i++)
    status = zn_op_face_encode (&face[i], &work);
  if (! status)
    {
      between = g_new (gfloat, work.len);
      status  = faces_between (between, &work, face, position);
    }
  if (! status)
    {
      ZnOpField *field = zn_op_field_new (&work, between, face[0].low, face[0].low,
                                          (gfloat) -position);

      zn_op_field_paste (run->out, (const ZnOpField *) field, work.side, &work.square,
                         &face[0].part);
      g_free (field);
      field = zn_op_field_new (&work, face[1].low, face[1].low, face[1].low, (gfloat) position);
      zn_op_field_paste (run->out, (const ZnOpField *) field, work.side, &work.square,
                         &face[1].part);
      g_free (field);
    }
  g_free (between);
  zn_op_face_clear (&face[0]);
  zn_op_face_clear (&face[1]);

  return status;
}

/* ---- the second picture from a file --------------------------------------- */

void
zn_op_face_add_file (ZnOpWhole *task, const gchar *path)
{
  GStatBuf info = {
    0,
  };

  if (path && *path && ! g_stat (path, &info))
    zn_op_face_add_setting (task, "%s %" G_GINT64_FORMAT " %" G_GINT64_FORMAT, path,
                            (gint64) info.st_mtime, (gint64) info.st_size);
}

zn_status
zn_op_face_load (ZnOpPicture *picture, const gchar *path, ZnOpRequest *request)
{
  GeglNode   *graph, *load, *sink;
  zn_error    err;
  const Babl *format;

  if (! path || ! *path)
    return zn_op_request_refuse (
        request, ZN_E_USAGE, "There is no second picture: connect one to 'aux' or name a file.");
  if (! g_file_test (path, G_FILE_TEST_IS_REGULAR))
    return zn_op_request_refuse (request, ZN_E_FILE, "There is no file '%s'.", path);

  graph = gegl_node_new ();
  load  = gegl_node_new_child (graph, "operation", "gegl:load", "path", path, NULL);
  sink  = gegl_node_new_child (graph, "operation", "gegl:buffer-sink", "buffer", &picture->buffer,
                               NULL);
  gegl_node_link (load, sink);
  gegl_node_process (sink);
  g_object_unref (graph);

  if (! picture->buffer || ! zn_op_check_box (gegl_buffer_get_extent (picture->buffer), &err))
    return zn_op_request_refuse (request, ZN_E_FILE, "'%s' is no picture that can be read.", path);

  format          = gegl_buffer_get_format (picture->buffer);
  picture->box    = *gegl_buffer_get_extent (picture->buffer);
  picture->format = babl_format_with_space (babl_format_has_alpha (format) ? "R'G'B'A float"
                                                                           : "R'G'B' float",
                                            babl_format_get_space (format));

  return ZN_OK;
}

/* ---- a face out of nothing ------------------------------------------------ */

void
zn_op_face_describe_sample (ZnOpWhole   *task,
                            const gchar *model,
                            guint        seed,
                            gint         steps,
                            gint         latent_steps)
{
  ZnOpModel *encoder;

  task->model[LATENT]        = "diffae-latent-sample";
  task->model[LATENT_SAMPLE] = "diffae-sample";
  task->model[LATENT_ENCODE] = "diffae-encode";
  set_weights (task, model);
  zn_op_face_add_setting (task, "%u %d %d", seed, steps, latent_steps);
  if (*task->refusal.text)
    return;

  /* it knows the size of the pictures */
  encoder = zn_op_model_acquire (task->model[LATENT_ENCODE], task->weights, &task->base,
                                 &task->refusal);
  if (encoder)
    {
      const gint side = zn_op_model_geometry (encoder)->side;

      task->result = *GEGL_RECTANGLE (0, 0, side, side);
    }
  zn_op_model_release (encoder);
}

zn_status
zn_op_face_sample (const ZnOpFaceRun *run, guint seed, gint latent_steps)
{
  const zn_geometry *geometry = zn_op_model_geometry (run->model[LATENT_ENCODE]);
  ZnOpFaceWork       work     = {
              .run = run, .side = geometry->side, .code = geometry->out_c, .len = zn_array_len (run->out)
  };
  gchar         steps[32];
  const gchar  *set[] = { steps };
  const ZnOpJob job   = { .set = set, .n_set = 1 };
  zn_array      z     = { g_new (gfloat, work.code), 1, 1, work.code };
  zn_array      cond  = { g_new (gfloat, work.code), 1, 1, work.code };
  gfloat       *noise = g_new (gfloat, work.len);
  zn_status     status;

  /* streams of the seed: 0 the picture's noise, 1 the code's */
  zn_noise_fill (noise, work.len, seed, 0);
  zn_noise_fill (z.data, work.code, seed, 1);

  g_snprintf (steps, sizeof (steps), "steps=%d", latent_steps);
  work.total = 1 + run->face->steps;
  zn_op_face_work_part (&work, 1);
  status = zn_op_model_run_arrays (run->model[LATENT], &cond, &z, 1, &job, run->request);
  if (! status)
    status = zn_op_face_draw (run->out->data, &work, run->model[LATENT_SAMPLE], noise, cond.data,
                              NULL, 1.0);
  for (gsize i = 0; ! status && i < work.len; i++)
    run->out->data[i] = zn_op_clean (run->out->data[i]);
  g_free (noise);
  g_free (cond.data);
  g_free (z.data);

  return status;
}
