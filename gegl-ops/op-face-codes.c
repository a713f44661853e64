/* SPDX-License-Identifier: MIT */
/* op-face-codes.c - see the header. */

#include "config.h"

#include <math.h>
#include <string.h>

#include "op-cache.h"
#include "op-engine.h"
#include "op-face-codes.h"

#define MAX_SIDE 4096 /* of the model's picture */
#define GUIDED 0.8    /* of the steps: the last ones, with little noise, hardly move an edit */
#define ESTIMATE_PAUSE 150000 /* microseconds between two that are shown */

/* ---- the networks --------------------------------------------------------- */

void
zn_op_face_clear (ZnOpFacePicture *face)
{
  g_free (face->part.pixels);
  g_free (face->low);
  g_clear_pointer (&face->codes, g_bytes_unref);
}

const gfloat *
zn_op_face_cond (const ZnOpFacePicture *face)
{
  return g_bytes_get_data (face->codes, NULL);
}

const gfloat *
zn_op_face_noise (const ZnOpFacePicture *face, const ZnOpFaceWork *work)
{
  return zn_op_face_cond (face) + work->code;
}

static zn_status
no_memory (const ZnOpFaceWork *work)
{
  return zn_op_request_refuse (work->run->request, ZN_E_MEMORY,
                               "There is not enough memory for a frame of this size.");
}

void
zn_op_face_work_part (ZnOpFaceWork *work, gint evaluations)
{
  const gdouble total = MAX (work->total, work->done + evaluations);

  zn_op_request_part (work->run->request,
                      work->run->bar_start + work->run->bar_span * work->done / total,
                      work->run->bar_span * evaluations / total);
  work->done += evaluations;
}

void
zn_op_face_state_memory (const ZnOpFaceWork *work, ZnOpModel *const *model, gint n_models, gint n)
{
  const ZnOpFaceRun *run   = work->run;
  const gint         below = run->path ? run->all_steps : 0; /* xT */
  const zn_array     in[3] = { { NULL, (n + below) * work->side, work->side, 3 },
                               { NULL, n, 1, work->code },
                               { NULL, n, 1, work->code } };
  const zn_array     code  = { NULL, 1, 1, work->code };
  const zn_value     set[] = { { "steps", MAX (run->face->steps, run->all_steps) },
                               { "guide", 2 }, /* what takes most */
                               { "path", 1 },
                               { "reverse", 1 } };
  const ZnOpJob      job   = { .set = set, .n_set = run->path ? 4 : 2 };
  zn_footprint       need  = { 0 };

  for (gint i = 0; i < n_models; i++)
    {
      /* the encoder takes one picture, the sampler pictures and codes, the latent network a code */
      const gchar   *id      = run->task->model[i];
      const gboolean draw    = ! strcmp (id, "diffae-sample");
      const gboolean is_code = ! strcmp (id, "diffae-latent-sample");
      zn_footprint   one;

      if (zn_op_model_plan (model[i], is_code ? &code : in, draw ? 3 : 1, draw ? &job : NULL, &one))
        {
          need.beside += one.beside;
          need.weights += one.weights;
        }
    }
  zn_op_set_memory (run->request->operation, run->face->memory, &need);
}

zn_status
zn_op_face_work_begin (ZnOpFaceWork *work, const ZnOpFaceRun *run)
{
  const zn_geometry *geometry = zn_op_model_geometry (run->model[ZN_OP_FACE_ENCODE]);
  const ZnOpPicture *picture  = run->in;
  const gdouble     *place    = run->task->place;
  const ZnOpFrame    frame    = { place[0], place[1], place[2], place[3] };

  *work = (ZnOpFaceWork){ .run = run, .side = geometry->side, .code = geometry->out_c };
  if (work->side < 1 || work->side > MAX_SIDE || work->code < 1)
    return zn_op_request_refuse (run->request, ZN_E_FILE,
                                 "The model does not say how large its pictures are.");
  work->len = (gsize) work->side * work->side * 3;
  if (! zn_op_square_get (&work->square, &frame, picture->box.width, picture->box.height,
                          &run->request->err))
    return ZN_E_USAGE;
  memset (run->out->data, 0, zn_array_len (run->out) * sizeof (gfloat));
  zn_op_face_state_memory (work, run->model, 2, 1);

  return ZN_OK;
}

static zn_key
codes_key (const ZnOpFacePicture *face, const ZnOpFaceWork *work)
{
  zn_key key = { 0, 0 };

  zn_key_add_text (&key, "diffae codes");
  zn_key_add_text (&key, zn_op_model_name (work->run->model[ZN_OP_FACE_ENCODE]));
  zn_key_add_text (&key, zn_op_model_name (work->run->model[ZN_OP_FACE_SAMPLE]));
  zn_key_add (&key, &face->steps, sizeof (gint));
  zn_key_add (&key, &face->path, sizeof (gboolean));
  zn_key_add (&key, face->low, work->len * sizeof (gfloat));

  return key;
}

static zn_key
reconstruction_key (const ZnOpFacePicture *face, const ZnOpFaceWork *work)
{
  zn_key key = codes_key (face, work);

  zn_key_add (&key, &work->run->face->steps, sizeof (gint));

  return key;
}

static gboolean
is_kept (zn_key key)
{
  GBytes        *bytes = zn_op_cache_get (&key);
  const gboolean kept  = bytes != NULL;

  g_clear_pointer (&bytes, g_bytes_unref);

  return kept;
}

zn_status
zn_op_face_read (ZnOpFacePicture   *face,
                 ZnOpFaceWork      *work,
                 const ZnOpPicture *picture,
                 const ZnOpSquare  *own)
{
  const ZnOpSquare   *square = own ? own : &work->square;
  const GeglRectangle rect = zn_op_square_bounds (square, picture->box.width, picture->box.height);

  *face = (ZnOpFacePicture){ .part = zn_op_part_read (picture, &rect),
                             .low  = g_new (gfloat, work->len) };
  if (! face->part.pixels)
    return no_memory (work);
  zn_op_square_shrink (face->low, work->side, square, &face->part);
  if (own)
    {
      const GeglRectangle there = zn_op_square_bounds (&work->square, work->run->in->box.width,
                                                       work->run->in->box.height);
      const ZnOpPart      part  = zn_op_part_warp (&face->part, own, &work->square, &there);

      g_free (face->part.pixels);
      face->part = part;
      if (! part.pixels)
        return no_memory (work);
    }

  /* those with a path serve all; a quick run takes codes of all steps, if there are any */
  face->steps = work->run->all_steps;
  face->path  = TRUE;
  if (is_kept (codes_key (face, work)))
    return ZN_OK;
  face->path = work->run->path;
  if (! is_kept (codes_key (face, work)))
    face->steps = work->run->face->stochastic_steps;

  return ZN_OK;
}

gint
zn_op_face_codes_cost (const ZnOpFacePicture *face, const ZnOpFaceWork *work)
{
  return is_kept (codes_key (face, work)) ? 0 : 1 + face->steps;
}

/* The picture as the model takes it, [side][side][3] in -1..1. */
static void
centre (gfloat *dst, const ZnOpFacePicture *face, const ZnOpFaceWork *work)
{
  for (gsize i = 0; i < work->len; i++)
    dst[i] = 2.0f * face->low[i] - 1.0f;
}

zn_status
zn_op_face_code (gfloat *cond, const ZnOpFacePicture *face, ZnOpFaceWork *work)
{
  zn_array  in  = { g_new (gfloat, work->len), work->side, work->side, 3 };
  zn_array  out = { cond, 1, 1, work->code };
  zn_status status;

  centre (in.data, face, work);
  zn_op_face_work_part (work, 1);
  status = zn_op_model_run_arrays (work->run->model[ZN_OP_FACE_ENCODE], &out, &in, 1, NULL,
                                   work->run->request);
  g_free (in.data);

  return status;
}

zn_status
zn_op_face_encode (ZnOpFacePicture *face, ZnOpFaceWork *work)
{
  const zn_key   key   = codes_key (face, work);
  const gint     n     = face->path ? 1 + face->steps : 1;
  const gsize    size  = (work->code + n * work->len) * sizeof (gfloat);
  const zn_value set[] = { { "steps", face->steps }, { "reverse", 1 }, { "path", 1 } };
  const ZnOpJob  job   = { .set = set, .n_set = face->path ? 3 : 2 };
  zn_array       in[2] = { { NULL, n * work->side, work->side, 3 }, { NULL, 1, 1, work->code } };
  zn_array       noise = in[0];
  gfloat        *codes;
  zn_status      status;

  face->codes = zn_op_cache_get (&key);
  if (face->codes)
    return ZN_OK;

  codes      = g_malloc (size);
  in[0].data = g_new0 (gfloat, n * work->len);
  in[1].data = codes;
  noise.data = codes + work->code;
  centre (in[0].data, face, work);

  status = zn_op_face_code (codes, face, work);
  if (! status)
    {
      zn_op_face_work_part (work, face->steps);
      status = zn_op_model_run_arrays (work->run->model[ZN_OP_FACE_SAMPLE], &noise, in, 2, &job,
                                       work->run->request);
    }
  g_free (in[0].data);

  if (status)
    {
      g_free (codes);
      return status;
    }
  face->codes = g_bytes_new_take (codes, size);
  zn_op_cache_put (&key, face->codes);

  return ZN_OK;
}

/* A sampler's estimate of its (first) picture, in -1..1. */
static void
show_estimate (gpointer data, const zn_array *picture, gint step, gint n_steps)
{
  ZnOpFaceWork      *work = data;
  const ZnOpFaceRun *run  = work->run;
  const gint64       now  = g_get_monotonic_time ();
  zn_array           out  = *run->out;
  gfloat            *drawn;

  if (now - work->shown_at < ESTIMATE_PAUSE || (run->quick_shown && 2 * step < n_steps))
    return;
  out.data = g_try_malloc0 (zn_array_len (&out) * sizeof (gfloat));
  if (! out.data)
    return;

  drawn = g_new (gfloat, work->len);
  for (gsize i = 0; i < work->len; i++)
    drawn[i] = isfinite (picture->data[i]) ? 0.5f * picture->data[i] + 0.5f : 0.5f;
  work->paste (&out, work, drawn);
  run->request->estimate (run->request, out.data);
  g_free (drawn);
  g_free (out.data);
  work->shown_at = g_get_monotonic_time ();
}

zn_status
zn_op_face_draw (gfloat *dst, ZnOpFaceWork *work, ZnOpModel *model, const ZnOpFaceDrawing *drawing)
{
  const gint     n     = drawing->n;
  const gint     steps = drawing->from ? 1 : work->run->face->steps;
  const gint     rows  = (drawing->path ? 1 + steps : n) * work->side;
  const zn_value set[] = { { "steps", steps },
                           { drawing->path ? "path" : "from", drawing->path ? 1 : drawing->from },
                           { "guide", drawing->cond0 ? drawing->guide : 1.0 },
                           { "guided", GUIDED } };
  const ZnOpJob  job   = { .set     = set,
                           .n_set   = 4,
                           .preview = drawing->shows && work->run->request->estimate ? show_estimate
                                                                                     : NULL,
                           .preview_data = work };
  const zn_array in[3] = { { (gfloat *) drawing->noise, rows, work->side, 3 },
                           { (gfloat *) drawing->cond, n, 1, work->code },
                           { (gfloat *) drawing->cond0, n, 1, work->code } };
  zn_array       out   = { dst, rows, work->side, 3 };
  const gint     n_in  = drawing->cond0 ? 3 : 2;
  zn_status      status;

  zn_op_face_work_part (work, (n_in - 1) * n * steps);
  if (drawing->path)
    out.data = g_new (gfloat, zn_array_len (&out));
  status = zn_op_model_run_arrays (model, &out, in, n_in, &job, work->run->request);
  for (gsize i = 0; ! status && i < n * work->len; i++)
    {
      if (isfinite (out.data[i]))
        dst[i] = 0.5f * out.data[i] + 0.5f;
      else
        status = zn_op_request_refuse (work->run->request, ZN_E_USAGE,
                                       "The network's result is not finite.");
    }
  if (drawing->path)
    g_free (out.data);

  return status;
}

zn_status
zn_op_face_draw_kept (GBytes               **made,
                      const ZnOpFacePicture *face,
                      ZnOpFaceWork          *work,
                      gboolean               shows)
{
  const zn_key key  = reconstruction_key (face, work);
  const gsize  size = work->len * sizeof (gfloat);
  gfloat      *dst;
  zn_status    status;

  *made = zn_op_cache_get (&key);
  if (*made)
    return ZN_OK;

  dst    = g_malloc (size);
  status = zn_op_face_draw (dst, work, work->run->model[ZN_OP_FACE_SAMPLE],
                            &(ZnOpFaceDrawing){ .n     = 1,
                                                .noise = zn_op_face_noise (face, work),
                                                .cond  = zn_op_face_cond (face),
                                                .shows = shows });
  if (status)
    {
      g_free (dst);
      return status;
    }
  *made = g_bytes_new_take (dst, size);
  zn_op_cache_put (&key, *made);

  return ZN_OK;
}

gint
zn_op_face_kept_cost (const ZnOpFacePicture *face, const ZnOpFaceWork *work)
{
  return is_kept (reconstruction_key (face, work)) ? 0 : work->run->face->steps;
}
