/* SPDX-License-Identifier: MIT */
/* op-face-codes.c - see the header. */

#include "config.h"

#include <math.h>
#include <string.h>

#include "op-cache.h"
#include "op-engine.h"
#include "op-face-codes.h"

#define MAX_SIDE 4096 /* of the model's picture */

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

  zn_op_request_part (work->run->request, work->done / total, evaluations / total);
  work->done += evaluations;
}

zn_status
zn_op_face_work_begin (ZnOpFaceWork *work, const ZnOpFaceRun *run)
{
  const zn_geometry *geometry = zn_op_model_geometry (run->model[ZN_OP_FACE_ENCODE]);
  const ZnOpPicture *picture  = run->in;

  *work = (ZnOpFaceWork){ .run = run, .side = geometry->side, .code = geometry->out_c };
  if (work->side < 1 || work->side > MAX_SIDE || work->code < 1)
    return zn_op_request_refuse (run->request, ZN_E_FILE,
                                 "The model does not say how large its pictures are.");
  work->len = (gsize) work->side * work->side * 3;
  if (! zn_op_square_get (&work->square, &run->face->frame, picture->box.width, picture->box.height,
                          &run->request->err))
    return ZN_E_USAGE;
  memset (run->out->data, 0, zn_array_len (run->out) * sizeof (gfloat));

  return ZN_OK;
}

zn_status
zn_op_face_read (ZnOpFacePicture *face, ZnOpFaceWork *work, const ZnOpPicture *picture)
{
  const GeglRectangle rect = zn_op_square_bounds (&work->square, picture->box.width,
                                                  picture->box.height);

  *face = (ZnOpFacePicture){ .part = zn_op_part_read (picture, &rect),
                             .low  = g_new (gfloat, work->len) };
  if (! face->part.pixels)
    return no_memory (work);
  zn_op_square_shrink (face->low, work->side, &work->square, &face->part);

  return ZN_OK;
}

static ZnOpKey
codes_key (const ZnOpFacePicture *face, const ZnOpFaceWork *work)
{
  ZnOpKey key = { 0, 0 };

  zn_op_key_add_string (&key, "diffae codes");
  zn_op_key_add_string (&key, zn_op_model_name (work->run->model[ZN_OP_FACE_ENCODE]));
  zn_op_key_add_string (&key, zn_op_model_name (work->run->model[ZN_OP_FACE_REVERSE]));
  zn_op_key_add (&key, &work->run->face->stochastic_steps, sizeof (gint));
  zn_op_key_add (&key, face->low, work->len * sizeof (gfloat));

  return key;
}

static ZnOpKey
reconstruction_key (const ZnOpFacePicture *face, const ZnOpFaceWork *work)
{
  ZnOpKey key = codes_key (face, work);

  zn_op_key_add (&key, &work->run->face->steps, sizeof (gint));

  return key;
}

static gboolean
is_kept (ZnOpKey key)
{
  GBytes        *bytes = zn_op_cache_get (&key);
  const gboolean kept  = bytes != NULL;

  g_clear_pointer (&bytes, g_bytes_unref);

  return kept;
}

gint
zn_op_face_codes_cost (const ZnOpFacePicture *face, const ZnOpFaceWork *work)
{
  return is_kept (codes_key (face, work)) ? 0 : 1 + work->run->face->stochastic_steps;
}

zn_status
zn_op_face_encode (ZnOpFacePicture *face, ZnOpFaceWork *work)
{
  ZnOpModel *const *model   = work->run->model;
  ZnOpRequest      *request = work->run->request;
  const ZnOpKey     key     = codes_key (face, work);
  const gsize       size    = (work->code + work->len) * sizeof (gfloat);
  gchar             steps[32];
  const gchar      *set[] = { steps };
  const ZnOpJob     job   = { .set = set, .n_set = 1 };
  zn_array          in[2] = { { NULL, work->side, work->side, 3 }, { NULL, 1, 1, work->code } };
  zn_array          cond  = { NULL, 1, 1, work->code };
  zn_array          noise = in[0];
  gfloat           *codes;
  zn_status         status;

  face->codes = zn_op_cache_get (&key);
  if (face->codes)
    return ZN_OK;

  codes      = g_malloc (size);
  in[0].data = g_new (gfloat, work->len);
  in[1].data = cond.data = codes;
  noise.data             = codes + work->code;
  for (gsize i = 0; i < work->len; i++)
    in[0].data[i] = 2.0f * face->low[i] - 1.0f;

  g_snprintf (steps, sizeof (steps), "steps=%d", work->run->face->stochastic_steps);
  zn_op_face_work_part (work, 1);
  status = zn_op_model_run_arrays (model[ZN_OP_FACE_ENCODE], &cond, in, 1, NULL, request);
  if (! status)
    {
      zn_op_face_work_part (work, work->run->face->stochastic_steps);
      status = zn_op_model_run_arrays (model[ZN_OP_FACE_REVERSE], &noise, in, 2, &job, request);
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

zn_status
zn_op_face_draw (gfloat       *dst,
                 ZnOpFaceWork *work,
                 ZnOpModel    *model,
                 const gfloat *noise,
                 const gfloat *cond,
                 const gfloat *cond0,
                 gdouble       guide)
{
  const gint     steps = work->run->face->steps;
  gchar          step_text[32], guide_text[64], number[G_ASCII_DTOSTR_BUF_SIZE];
  const gchar   *set[] = { step_text, guide_text };
  const ZnOpJob  job   = { .set = set, .n_set = cond0 ? 2 : 1 };
  const zn_array in[3] = { { (gfloat *) noise, work->side, work->side, 3 },
                           { (gfloat *) cond, 1, 1, work->code },
                           { (gfloat *) cond0, 1, 1, work->code } };
  zn_array       out   = { dst, work->side, work->side, 3 };
  zn_status      status;

  g_snprintf (step_text, sizeof (step_text), "steps=%d", steps);
  g_snprintf (guide_text, sizeof (guide_text), "guide=%s",
              g_ascii_formatd (number, sizeof (number), "%.6f", guide));
  zn_op_face_work_part (work, cond0 ? 2 * steps : steps);
  status = zn_op_model_run_arrays (model, &out, in, cond0 ? 3 : 2, &job, work->run->request);
  for (gsize i = 0; ! status && i < work->len; i++)
    {
      if (! isfinite (dst[i]))
        return zn_op_request_refuse (work->run->request, ZN_E_USAGE,
                                     "The network made numbers that are none.");
      dst[i] = 0.5f * dst[i] + 0.5f;
    }

  return status;
}

zn_status
zn_op_face_draw_kept (GBytes **made, const ZnOpFacePicture *face, ZnOpFaceWork *work)
{
  const ZnOpKey key  = reconstruction_key (face, work);
  const gsize   size = work->len * sizeof (gfloat);
  gfloat       *dst;
  zn_status     status;

  *made = zn_op_cache_get (&key);
  if (*made)
    return ZN_OK;

  dst    = g_malloc (size);
  status = zn_op_face_draw (dst, work, work->run->model[ZN_OP_FACE_SAMPLE],
                            zn_op_face_noise (face, work), zn_op_face_cond (face), NULL, 1.0);
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
