/* SPDX-License-Identifier: MIT */
/* op-face.c - the work of the operations on faces; see the header. */

#include "config.h"

#include <glib/gi18n-lib.h>

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include <glib/gstdio.h>

#include "op-cache.h"
#include "op-engine.h"
#include "op-face-blend.h"
#include "op-face-codes.h"
#include "op-face-contrast.h"
#include "op-face.h"

#define OWN_MODEL "zenith-face"
#define FINDER "zenith-find" /* weights that find faces */

enum
{
  QUICK_STEPS = 4,   /* of a first estimate */
  QUICK_TIME  = 400, /* of an edit: how much noise it is seen through, of 999 */
  PATH_STEPS  = 50,  /* more would take too much memory for the corrections */
  BATCH       = 4    /* faces of a strip that are drawn at once */
};
enum /* places in task->model */
{
  LATENT,
  LATENT_SAMPLE,
  LATENT_ENCODE
};

/* ---- describe ------------------------------------------------------------- */

void
zn_op_face_add_number (ZnOpWhole *task, gdouble number)
{
  zn_key_add (&task->settings, &number, sizeof (number));
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
zn_op_face_show_attributes (GeglOperation *operation, gchar **field, const gchar *model)
{
  gchar *stem  = model_stem (model);
  gchar *names = zn_op_attributes_list (stem);

  zn_op_set_text (operation, "attributes", field, names);
  g_free (names);
  g_free (stem);
}

/* Whether a face is looked for. */
static gboolean
looks (const ZnOpFace *face)
{
  return face->find && face->frame.size <= 0.0;
}

void
zn_op_face_describe (ZnOpWhole *task, const ZnOpFace *face)
{
  const GeglRectangle box = task->result;
  ZnOpSquare          square;
  zn_error            err;

  task->model[ZN_OP_FACE_ENCODE] = "diffae-encode";
  task->model[ZN_OP_FACE_SAMPLE] = "diffae-sample";
  set_weights (task, face->model);
  zn_op_face_add_number (task, face->steps);
  zn_op_face_add_number (task, face->stochastic_steps);

  /* a frame that makes no sense is refused before anything is read */
  if (zn_op_check_box (&box, &err) && ! looks (face) &&
      ! zn_op_square_get (&square, &face->frame, box.width, box.height, &err))
    task->refusal = err;
}

/* The largest face of the picture: *found, or none.  Kept: it is found once. */
static zn_status
find_face (ZnOpFrame         *frame,
           gboolean          *found,
           const ZnOpPicture *picture,
           const gchar       *weights,
           ZnOpRequest       *request)
{
  zn_key    key = { 0, 0 };
  GBytes   *kept;
  zn_face   face   = { 0 };
  gint      n      = 0;
  zn_status status = ZN_OK;

  zn_key_add_text (&key, "face");
  zn_key_add_text (&key, weights);
  zn_key_add_text (&key, babl_get_name (picture->format));
  zn_op_key_add_buffer (&key, picture->buffer, &picture->box, &picture->box);
  kept = zn_op_cache_get (&key);
  if (kept)
    {
      face = *(const zn_face *) g_bytes_get_data (kept, NULL);
    }
  else
    {
      status = zn_op_find_face (&face, &n, picture, request->base, &request->err);
      if (status)
        return status;
      if (! n)
        face.size = 0.0f;
      kept = g_bytes_new (&face, sizeof (face));
      zn_op_cache_put (&key, kept);
    }
  g_bytes_unref (kept);
  *found = face.size > 0.0f;
  if (*found)
    *frame = (ZnOpFrame){ face.x, face.y, face.size, face.angle };

  return ZN_OK;
}

zn_status
zn_op_face_locate (ZnOpWhole         *task,
                   const ZnOpFace    *face,
                   ZnOpModel *const  *model,
                   const ZnOpPicture *in,
                   ZnOpRequest       *request)
{
  const GeglRectangle *box   = &in->box;
  ZnOpFrame            frame = face->frame;
  gboolean             found = FALSE;
  zn_status            status;
  gchar                weights[4096];
  zn_error             err;
  ZnOpSquare           square;

  if (looks (face) && zn_weights_find (weights, sizeof (weights), FINDER, &err))
    {
      g_snprintf (request->note.text, sizeof (request->note.text),
                  _ ("The face was not searched for; the middle of the picture is used: %s"),
                  err.text);
    }
  else if (looks (face))
    {
      if (! zn_op_engine_enter (&request->err))
        return ZN_E_DEVICE;
      status = find_face (&frame, &found, in, weights, request);
      zn_op_engine_leave ();
      if (status)
        return status;
      if (! found && ! zn_op_is_selected (request->operation))
        return zn_op_request_refuse (request, ZN_E_USAGE,
                                     "No face was found: select it, or give its frame: "
                                     "frame-x, frame-y and frame-size.");
    }

  if (! zn_op_square_get (&square, &frame, box->width, box->height, &request->err))
    return ZN_E_USAGE;
  task->found    = found;
  task->place[0] = square.x;
  task->place[1] = square.y;
  task->place[2] = square.size;
  task->place[3] = frame.angle;
  zn_op_set_frame (request->operation, face->shown, face->taken, task->place);
  zn_key_add (&task->settings, task->place, sizeof (task->place));

  /* a strip is not a change of the input */
  if (gegl_rectangle_equal (box, &task->result))
    {
      task->change = zn_op_square_bounds (&square, box->width, box->height);
      task->change.x += box->x;
      task->change.y += box->y;
    }

  return ZN_OK;
}

/* ---- what the operations do ----------------------------------------------- */

/* Makes run->out. */
typedef zn_status (*Make) (const ZnOpFaceRun *run, gconstpointer how);

/* A host that shows estimates first gets one of few steps. */
static zn_status
make_face (const ZnOpFaceRun *run, Make make, gconstpointer how)
{
  ZnOpRequest *request = run->request;
  ZnOpFace     few     = *run->face;
  ZnOpFaceRun  full    = *run, quick;
  zn_array     out     = *run->out;
  zn_status    status;

  void (*show) (ZnOpRequest * request, const gfloat *made) = request->estimate;

  full.bar_span  = 1.0;
  full.all_steps = run->face->stochastic_steps;
  if (! show || run->face->steps < 2 * QUICK_STEPS)
    return make (&full, how);

  few.steps            = QUICK_STEPS;
  few.stochastic_steps = MIN (few.stochastic_steps, QUICK_STEPS);
  quick                = full;
  quick.face           = &few;
  quick.out            = &out;
  quick.quick          = TRUE;
  quick.bar_span       = (run->edits ? 1.0 : QUICK_STEPS) / (run->face->steps + QUICK_STEPS);
  full.bar_start       = quick.bar_span;
  full.bar_span        = 1.0 - quick.bar_span;
  full.quick_shown     = TRUE;

  out.data = g_try_malloc (zn_array_len (&out) * sizeof (gfloat));
  if (! out.data)
    return zn_op_request_refuse (request, ZN_E_MEMORY, "There is not enough memory for a preview.");
  request->estimate = NULL; /* its own estimates are not shown */
  status            = make (&quick, how);
  request->estimate = show;
  if (! status)
    show (request, out.data);
  g_free (out.data);

  return status ? status : make (&full, how);
}

static void
paste_reconstruction (zn_array *out, const ZnOpFaceWork *work, const gfloat *drawn)
{
  const ZnOpFacePicture *face  = work->paste_data;
  ZnOpField             *field = zn_op_field_new (work, drawn, face->low, face->low, -1.0f);

  zn_op_field_paste (out, (const ZnOpField *) field, work->side, &work->square, &face->part);
  g_free (field);
}

static zn_status
reconstruct (const ZnOpFaceRun *run, gconstpointer how)
{
  ZnOpFacePicture face = { 0 };
  ZnOpFaceWork    work;
  GBytes         *made = NULL;
  zn_status       status;

  status = zn_op_face_work_begin (&work, run);
  if (! status)
    status = zn_op_face_read (&face, &work, run->in, NULL);
  if (! status)
    {
      work.paste      = paste_reconstruction;
      work.paste_data = &face;
      work.total      = zn_op_face_codes_cost (&face, &work) + zn_op_face_kept_cost (&face, &work);
      status          = zn_op_face_encode (&face, &work);
    }
  if (! status)
    status = zn_op_face_draw_kept (&made, &face, &work, TRUE);
  if (! status)
    work.paste (run->out, &work, g_bytes_get_data (made, NULL));
  g_clear_pointer (&made, g_bytes_unref);
  zn_op_face_clear (&face);

  return status;
}

zn_status
zn_op_face_reconstruct (const ZnOpFaceRun *run)
{
  return make_face (run, reconstruct, NULL);
}

typedef struct
{
  const gchar *attribute;
  gdouble      amount, detail;
} Edit;

typedef struct
{
  const Edit     *edit;
  ZnOpFacePicture face;
  GBytes         *made; /* NULL, or what the model makes of the codes as they are */
} Edited;

static void
paste_edit (zn_array *out, const ZnOpFaceWork *work, const gfloat *drawn)
{
  const Edited *e     = work->paste_data;
  const gfloat *from  = e->made ? g_bytes_get_data (e->made, NULL) : e->face.low;
  ZnOpField    *field = zn_op_field_new (work, drawn, from, e->face.low, 0.0f);

  zn_op_field_cut_fine (field, work->side, (gfloat) (1.0 - e->edit->detail));
  zn_op_field_paste (out, (const ZnOpField *) field, work->side, &work->square, &e->face.part);
  g_free (field);
}

/* 1 at amount 0, the attribute's at 1. */
static gdouble
guidance (const Edited *e, const ZnOpAttribute *attribute)
{
  return 1.0 + (attribute->guide - 1.0) * fabs (e->edit->amount);
}

/* dst [side][side][3]: the face with another code. */
static zn_status
face_edit (gfloat *dst, Edited *e, ZnOpFaceWork *work, const ZnOpAttribute *attribute)
{
  const gboolean path  = work->run->path;
  const gfloat  *cond0 = NULL;
  gfloat        *cond  = NULL;
  zn_status      status;

  status = zn_op_face_encode (&e->face, work);
  if (! status && ! path)
    status = zn_op_face_draw_kept (&e->made, &e->face, work, FALSE);
  if (status)
    return status;

  cond  = g_new (gfloat, work->code);
  cond0 = zn_op_face_cond (&e->face);
  for (gint i = 0; i < work->code; i++)
    cond[i] = cond0[i] + (gfloat) e->edit->amount * attribute->shift[i];
  status = zn_op_face_draw (dst, work, work->run->model[ZN_OP_FACE_SAMPLE],
                            &(ZnOpFaceDrawing){ .n     = 1,
                                                .noise = zn_op_face_noise (&e->face, work),
                                                .cond  = cond,
                                                .cond0 = cond0,
                                                .guide = guidance (e, attribute),
                                                .path  = path,
                                                .shows = TRUE });
  g_free (cond);

  return status;
}

/* The same in one step: the change is the difference of the predictions with both codes, for the
 * picture with one noise. */
static zn_status
face_edit_quick (gfloat *dst, Edited *e, ZnOpFaceWork *work, const ZnOpAttribute *attribute)
{
  const gfloat guide = (gfloat) guidance (e, attribute);
  gfloat      *cond  = g_new (gfloat, 2 * work->code);
  gfloat      *both  = g_new (gfloat, 2 * work->len);
  gfloat      *drawn = g_new (gfloat, 2 * work->len);
  zn_status    status;

  status = zn_op_face_code (cond + work->code, &e->face, work);
  for (gint i = 0; ! status && i < work->code; i++)
    cond[i] = cond[work->code + i] + (gfloat) e->edit->amount * attribute->shift[i];
  for (gsize i = 0; i < work->len; i++)
    both[i] = both[work->len + i] = 2.0f * e->face.low[i] - 1.0f;
  if (! status)
    status = zn_op_face_draw (
        drawn, work, work->run->model[ZN_OP_FACE_SAMPLE],
        &(ZnOpFaceDrawing){ .n = 2, .noise = both, .cond = cond, .from = QUICK_TIME });
  for (gsize i = 0; ! status && i < work->len; i++)
    dst[i] = e->face.low[i] + guide * (drawn[i] - drawn[work->len + i]);
  g_free (drawn);
  g_free (both);
  g_free (cond);

  return status;
}

static zn_status
manipulate (const ZnOpFaceRun *run, gconstpointer how)
{
  Edited        e         = { .edit = how };
  gchar        *stem      = model_stem (run->face->model);
  const gchar  *name      = e.edit->attribute ? e.edit->attribute : "";
  ZnOpAttribute attribute = { NULL, 1.0 };
  gfloat       *edit      = NULL;
  ZnOpFaceWork  work;
  zn_status     status;

  status = zn_op_face_work_begin (&work, run);
  if (! status && ! zn_op_attribute_find (&attribute, name, stem, work.code, &run->request->err))
    status = ZN_E_USAGE;
  if (! status)
    status = zn_op_face_read (&e.face, &work, run->in, NULL);
  if (! status)
    {
      work.paste      = paste_edit;
      work.paste_data = &e;
      work.total      = run->quick ? 3
                                   : zn_op_face_codes_cost (&e.face, &work) +
                                    (run->path ? 0 : zn_op_face_kept_cost (&e.face, &work)) +
                                    2 * run->face->steps;
      edit            = g_new (gfloat, work.len);
      status          = (run->quick ? face_edit_quick : face_edit) (edit, &e, &work, &attribute);
    }
  if (! status)
    work.paste (run->out, &work, edit);
  g_free (edit);
  g_free (stem);
  gegl_free (attribute.shift);
  g_clear_pointer (&e.made, g_bytes_unref);
  zn_op_face_clear (&e.face);

  return status;
}

zn_status
zn_op_face_manipulate (const ZnOpFaceRun *run, const gchar *name, gdouble amount, gdouble detail)
{
  ZnOpFaceRun edit = *run;

  edit.edits = TRUE;
  edit.path  = run->face->steps == run->face->stochastic_steps && run->face->steps <= PATH_STEPS;

  return make_face (&edit, manipulate, &(Edit){ name, amount, detail });
}

/* ---- between two faces ----------------------------------------------------- */

typedef struct
{
  const ZnOpPicture *second;
  gdouble            position;
  gint               strip; /* pictures side by side, position 0 to 1; 0: one, at `position` */
} Between;

typedef struct
{
  ZnOpFacePicture face[2];
  gdouble         position;
} Pair;

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

/* dst [n][side][side][3]: the faces at these positions between two. */
static zn_status
faces_between (gfloat                *dst,
               gint                   n,
               ZnOpFaceWork          *work,
               const ZnOpFacePicture *face,
               const gdouble         *position)
{
  const gfloat *a     = zn_op_face_cond (&face[0]);
  const gfloat *b     = zn_op_face_cond (&face[1]);
  gfloat       *cond  = g_new (gfloat, (gsize) n * work->code);
  gfloat       *noise = g_new (gfloat, n * work->len);
  zn_status     status;

  for (gint k = 0; k < n; k++)
    {
      for (gint i = 0; i < work->code; i++)
        cond[k * work->code + i] = (gfloat) ((1.0 - position[k]) * a[i] + position[k] * b[i]);
      memcpy (noise + k * work->len, a + work->code, work->len * sizeof (gfloat));
      slerp (noise + k * work->len, b + work->code, work->len, position[k]);
    }
  status = zn_op_face_draw (
      dst, work, work->run->model[ZN_OP_FACE_SAMPLE],
      &(ZnOpFaceDrawing){ .n = n, .noise = noise, .cond = cond, .shows = n == 1 });
  g_free (noise);
  g_free (cond);

  return status;
}

static void
paste_between (zn_array *out, const ZnOpFaceWork *work, const gfloat *drawn)
{
  const Pair            *pair  = work->paste_data;
  const ZnOpFacePicture *face  = pair->face;
  gfloat                *level = g_new (gfloat, work->len);
  ZnOpField             *field;

  zn_op_face_level_contrast (level, drawn, face[0].low, face[1].low, work->side, pair->position);
  field = zn_op_field_new (work, level, face[0].low, face[0].low, (gfloat) -pair->position);
  g_free (level);
  zn_op_field_paste (out, (const ZnOpField *) field, work->side, &work->square, &face[0].part);
  g_free (field);
  field = zn_op_field_new (work, face[1].low, face[1].low, face[1].low, (gfloat) pair->position);
  zn_op_field_paste (out, (const ZnOpField *) field, work->side, &work->square, &face[1].part);
  g_free (field);
}

/* Picture k of the strip: the input, and the change in its frame.  Alpha does not count. */
static void
put_in_strip (const ZnOpFaceRun *run, const ZnOpFaceWork *work, gint k, const gfloat *drawn)
{
  const ZnOpPicture *in     = run->in;
  const gint         n      = babl_format_get_n_components (in->format);
  const gint         width  = in->box.width;
  const zn_rect      rect   = ((const Pair *) work->paste_data)->face[0].part.rect;
  zn_array           change = { NULL, rect.h, rect.w, 3 };
  gfloat            *row    = g_new (gfloat, (gsize) width * n);

  change.data = g_new0 (gfloat, zn_array_len (&change));
  if (drawn)
    work->paste (&change, work, drawn);
  for (gint y = 0; y < in->box.height; y++)
    {
      gfloat        *dst = run->out->data + ((gsize) y * run->out->w + (gsize) k * width) * 3;
      const gboolean has = y >= rect.y && y < rect.y + rect.h;
      const gfloat  *add = change.data + (has ? (gsize) (y - rect.y) * rect.w * 3 : 0);

      zn_op_picture_get (in, (zn_rect){ 0, y, width, 1 }, row);
      for (gint x = 0; x < width; x++)
        for (gint c = 0; c < 3; c++)
          {
            const gboolean inside = has && x >= rect.x && x < rect.x + rect.w &&
                                    ! zn_op_is_hidden (row + (gsize) x * n, n);

            dst[x * 3 + c] = zn_op_clean (row[(gsize) x * n + c] +
                                          (inside ? add[(x - rect.x) * 3 + c] : 0.0f));
          }
    }
  g_free (change.data);
  g_free (row);
}

/* All pictures of a strip but the first, BATCH at a time; that is the input. */
static zn_status
draw_strip (const ZnOpFaceRun *run, ZnOpFaceWork *work, Pair *pair, gint n)
{
  gfloat   *drawn  = g_new (gfloat, BATCH * work->len);
  zn_status status = ZN_OK;

  put_in_strip (run, work, 0, NULL);
  for (gint from = 1, count; ! status && from < n; from += count)
    {
      gdouble position[BATCH];

      count = MIN (BATCH, n - from);
      for (gint k = 0; k < count; k++)
        position[k] = (gdouble) (from + k) / (n - 1);
      status = faces_between (drawn, count, work, pair->face, position);
      for (gint k = 0; ! status && k < count; k++)
        {
          pair->position = position[k];
          put_in_strip (run, work, from + k, drawn + k * work->len);
        }
    }
  g_free (drawn);

  return status;
}

/* *second: NULL, the frame of the first picture is that of the second, too; or its own. */
static zn_status
second_frame (ZnOpSquare        *own,
              const ZnOpSquare **second,
              const ZnOpFaceRun *run,
              const ZnOpPicture *picture)
{
  const GeglRectangle *box   = &picture->box;
  ZnOpFrame            frame = { 0.0, 0.0, 0.0, 0.0 };
  gboolean             found = FALSE;
  zn_status            status;
  gchar                weights[4096];

  *second = NULL;
  if (! run->task->found)
    return ZN_OK;
  status = zn_weights_find (weights, sizeof (weights), FINDER, &run->request->err);
  if (! status)
    status = find_face (&frame, &found, picture, weights, run->request);
  if (status)
    return status;
  if (! found)
    return zn_op_request_refuse (run->request, ZN_E_USAGE,
                                 "No face was found in the second picture.");
  if (! zn_op_square_get (own, &frame, box->width, box->height, &run->request->err))
    return ZN_E_USAGE;
  *second = own;

  return ZN_OK;
}

static zn_status
interpolate (const ZnOpFaceRun *run, gconstpointer how)
{
  const Between     *between    = how;
  const ZnOpPicture *picture[2] = { run->in, between->second };
  const gint         n_drawn    = between->strip ? between->strip - 1 : 1;
  Pair               pair       = { .position = between->position };
  gfloat            *drawn      = NULL;
  const ZnOpSquare  *second     = NULL;
  ZnOpSquare         own;
  ZnOpFaceWork       work;
  zn_status          status;

  status = zn_op_face_work_begin (&work, run);
  if (! status)
    status = second_frame (&own, &second, run, picture[1]);
  for (gint i = 0; ! status && i < 2; i++)
    status = zn_op_face_read (&pair.face[i], &work, picture[i], i ? second : NULL);
  if (! status)
    {
      zn_op_face_state_memory (&work, run->model, 2, MIN (n_drawn, BATCH));
      work.paste      = paste_between;
      work.paste_data = &pair;
      work.total      = zn_op_face_codes_cost (&pair.face[0], &work) +
                   zn_op_face_codes_cost (&pair.face[1], &work) + n_drawn * run->face->steps;
    }
  for (gint i = 0; ! status && i < 2; i++)
    status = zn_op_face_encode (&pair.face[i], &work);
  if (! status && between->strip)
    {
      status = draw_strip (run, &work, &pair, between->strip);
    }
  else if (! status)
    {
      drawn  = g_new (gfloat, work.len);
      status = faces_between (drawn, 1, &work, pair.face, &pair.position);
      if (! status)
        work.paste (run->out, &work, drawn);
    }
  g_free (drawn);
  zn_op_face_clear (&pair.face[0]);
  zn_op_face_clear (&pair.face[1]);

  return status;
}

zn_status
zn_op_face_interpolate (const ZnOpFaceRun *run,
                        const ZnOpPicture *second,
                        gdouble            position,
                        gint               strip)
{
  const Between between = { second, position, strip };
  ZnOpFaceRun   whole   = *run;

  if (! run->task->found &&
      (second->box.width != run->in->box.width || second->box.height != run->in->box.height))
    return zn_op_request_refuse (run->request, ZN_E_USAGE,
                                 "The pictures have different sizes, %d x %d and %d x %d: crop or "
                                 "scale one of them.",
                                 run->in->box.width, run->in->box.height, second->box.width,
                                 second->box.height);
  if (! strip)
    return make_face (run, interpolate, &between);

  whole.bar_span  = 1.0; /* a strip is not shown before it is done */
  whole.all_steps = run->face->stochastic_steps;

  return interpolate (&whole, &between);
}

void
zn_op_face_describe_strip (ZnOpWhole *task, gint strip)
{
  zn_op_face_add_number (task, strip);
  task->change = *GEGL_RECTANGLE (0, 0, 0, 0);
  if ((gint64) task->result.width * strip <= G_MAXINT)
    task->result.width *= strip;
  else
    g_strlcpy (task->refusal.text, "The strip would be too wide.", sizeof (task->refusal.text));
}

/* ---- the second picture from a file --------------------------------------- */

zn_status
zn_op_face_load (ZnOpPicture *picture, const gchar *path, ZnOpRequest *request)
{
  GeglNode   *graph, *load, *sink;
  zn_error    err;
  const Babl *format;

  if (! path || ! *path)
    return zn_op_request_refuse (
        request, ZN_E_USAGE,
        "There is no second picture: give its file (path), or connect one to 'aux'.");
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
    return zn_op_request_refuse (request, ZN_E_FILE, "'%s' is not a picture that can be read.",
                                 path);

  format          = gegl_buffer_get_format (picture->buffer);
  picture->box    = *gegl_buffer_get_extent (picture->buffer);
  picture->format = babl_format_with_space (babl_format_has_alpha (format) ? "R'G'B'A float"
                                                                           : "R'G'B' float",
                                            babl_format_get_space (format));

  return ZN_OK;
}

/* ---- a face from noise ---------------------------------------------------- */

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
  zn_op_face_add_number (task, seed);
  zn_op_face_add_number (task, steps);
  zn_op_face_add_number (task, latent_steps);
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

typedef struct
{
  guint seed;
  gint  latent_steps;
} New;

static void
paste_new (zn_array *out, const ZnOpFaceWork *work, const gfloat *drawn)
{
  for (gsize i = 0; i < work->len; i++)
    out->data[i] = zn_op_clean (drawn[i]);
}

static zn_status
make_new (const ZnOpFaceRun *run, gconstpointer how)
{
  const New         *from     = how;
  const zn_geometry *geometry = zn_op_model_geometry (run->model[LATENT_ENCODE]);
  ZnOpFaceWork       work     = { .run   = run,
                                  .side  = geometry->side,
                                  .code  = geometry->out_c,
                                  .len   = zn_array_len (run->out),
                                  .paste = paste_new };
  const zn_value     set      = { "steps", from->latent_steps };
  const ZnOpJob      job      = { .set = &set, .n_set = 1 };
  zn_array           z        = { g_new (gfloat, work.code), 1, 1, work.code };
  zn_array           cond     = { g_new (gfloat, work.code), 1, 1, work.code };
  gfloat            *noise    = g_new (gfloat, work.len);
  gfloat            *drawn    = g_new (gfloat, work.len);
  zn_status          status;

  zn_op_face_state_memory (&work, run->model, 3, 1);

  /* streams of the seed: 0 the picture's noise, 1 the code's */
  zn_noise_fill (noise, work.len, from->seed, 0);
  zn_noise_fill (z.data, work.code, from->seed, 1);

  work.total = 1 + run->face->steps;
  zn_op_face_work_part (&work, 1);
  status = zn_op_model_run_arrays (run->model[LATENT], &cond, &z, 1, &job, run->request);
  if (! status)
    status = zn_op_face_draw (
        drawn, &work, run->model[LATENT_SAMPLE],
        &(ZnOpFaceDrawing){ .n = 1, .noise = noise, .cond = cond.data, .shows = TRUE });
  if (! status)
    work.paste (run->out, &work, drawn);
  g_free (drawn);
  g_free (noise);
  g_free (cond.data);
  g_free (z.data);

  return status;
}

zn_status
zn_op_face_sample (const ZnOpFaceRun *run, guint seed, gint latent_steps)
{
  return make_face (run, make_new, &(New){ seed, latent_steps });
}
