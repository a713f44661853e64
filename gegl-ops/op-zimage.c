/* SPDX-License-Identifier: MIT */
/* op-zimage.c - a picture from a prompt; see the header. */

#include "config.h"

#include "op-engine.h"
#include "op-zimage.h"

/* ---- describe ------------------------------------------------------------- */

/* box: of the input, empty without one. */
static zn_status
make_plan (zn_generate_plan    *plan,
           const ZnOpBase      *base,
           const zn_generate   *how,
           const GeglRectangle *box,
           const GeglRectangle *aux,
           zn_error            *err)
{
  const zn_choice choice = zn_op_choice (base);
  const gboolean  masked = aux && zn_op_check_box (aux, err);
  zn_rect         mask;

  if (masked)
    mask = (zn_rect){ aux->x - box->x, aux->y - box->y, aux->width, aux->height };

  return zn_generate_describe (plan, zn_op_session (), &choice, how, box->width, box->height,
                               masked ? &mask : NULL, err);
}

gboolean
zn_op_zimage_describe (ZnOpWhole *task, GeglOperation *operation, const ZnOpZImage *image)
{
  const GeglRectangle *aux = gegl_operation_source_get_bounding_box (operation, "aux");
  const GeglRectangle  box = task->result;
  zn_generate_plan     plan;
  zn_error             err;

  if (make_plan (&plan, &task->base, &image->how, &box, aux, &err))
    task->refusal = err;
  if (plan.nothing)
    return FALSE;
  task->settings = plan.key;
  if (plan.has_input)
    task->change = *GEGL_RECTANGLE (box.x + plan.change.x, box.y + plan.change.y, plan.change.w,
                                    plan.change.h);
  else
    task->result = *GEGL_RECTANGLE (0, 0, plan.w, plan.h);

  return TRUE;
}

/* ---- the mask ------------------------------------------------------------- */

/* Where the input's corner lies on the buffer of the mask. */
typedef struct
{
  GeglBuffer *buffer;
  gint        x, y;
} Mask;

/* Luminance times alpha. */
static bool
read_mask (void *cookie, zn_rect rect, float *dst)
{
  const Mask *mask = cookie;
  gfloat     *row  = g_try_new (gfloat, (gsize) rect.w * 2);

  if (! row)
    return false;
  for (gint y = 0; y < rect.h; y++)
    {
      const GeglRectangle line = { mask->x + rect.x, mask->y + rect.y + y, rect.w, 1 };

      gegl_buffer_get (mask->buffer, &line, 1.0, babl_format ("YA float"), row, GEGL_AUTO_ROWSTRIDE,
                       GEGL_ABYSS_NONE);
      for (gint x = 0; x < rect.w; x++)
        *dst++ = row[2 * x] * row[2 * x + 1];
    }
  g_free (row);

  return true;
}

/* ---- run ------------------------------------------------------------------ */

zn_status
zn_op_zimage_run (const ZnOpWhole   *task,
                  const ZnOpZImage  *image,
                  const ZnOpPicture *in,
                  gint               n_in,
                  zn_array          *out,
                  ZnOpRequest       *request)
{
  const GeglRectangle none    = { 0, 0, 0, 0 };
  ZnOpPicture         picture = n_in ? in[0] : (ZnOpPicture){ .box = none };
  Mask                at      = { n_in > 1 ? in[1].buffer : NULL, picture.box.x, picture.box.y };
  const zn_source     source  = { picture.box.width, picture.box.height, 3, zn_op_picture_read,
                                  &picture };
  const zn_source     mask    = { picture.box.width, picture.box.height, 1, read_mask, &at };
  const ZnOpWatched   watched = { request, image->memory };
  const zn_watcher    watcher = zn_op_watcher (&watched);
  zn_generate_result  result  = { .n_tokens = 0 };
  zn_generate_plan    plan;
  zn_status           status;

  status = make_plan (&plan, &task->base, &image->how, &picture.box, n_in > 1 ? &in[1].box : NULL,
                      &request->err);
  if (! status)
    status = zn_generate_run (&result, &plan, n_in ? &source : NULL, n_in > 1 ? &mask : NULL, out,
                              &watcher, &request->err);
  request->ran         = result.n_tokens > 0;
  request->note        = result.note;
  request->computed_by = result.computed_by;

  return status;
}
