/* SPDX-License-Identifier: MIT */
/* op-tiled.c - operations that answer any region from tiles: the engine's composites denoise, restore and
 * upscale on buffers.
 *
 * What the network changes is kept (zn_original in zenith_composite.h).  Strength, luma, chroma and detail are
 * applied to that afterwards, so that changing them never runs the network again. */

#include "config.h"

#include <glib/gi18n-lib.h>

#include "op-common.h"
#include "op-engine.h"
#include "op-enlarge.h"

typedef struct
{
  ZnOpTiled              task;
  const zn_enhance_plan *plan; /* the task's */
  const zn_grid         *grid; /* the plan's */
  ZnOpRequest           *request;
  ZnOpPicture            input;    /* the whole of it */
  zn_original            original; /* the same for the engine */
  zn_enhance_result      result;
  GeglBuffer            *output;
} Tiling;

/* A host that runs whole pictures and shows nothing meanwhile can ask for larger tiles,
 * of which less is halo: object data "zenith-tile" of the node, pixels a side. */
static gint
wanted_side (GeglOperation *operation)
{
  return operation->node
             ? GPOINTER_TO_INT (g_object_get_data (G_OBJECT (operation->node), "zenith-tile"))
             : 0;
}

static void
hash_pixels (void *data, zn_key *keys, const zn_rect *at, size_t n)
{
  const ZnOpPicture *picture = data;
  GeglRectangle     *rects   = g_new (GeglRectangle, n);

  for (gsize i = 0; i < n; i++)
    rects[i] = (GeglRectangle){ picture->box.x + at[i].x, picture->box.y + at[i].y, at[i].w,
                                at[i].h };
  zn_op_keys_add_pixels (keys, picture->buffer, rects, n);
  g_free (rects);
}

static void
spread (void (*part) (size_t start, size_t count, void *data), size_t n, void *data)
{
  gegl_parallel_distribute_range (n, 1.0, part, data);
}

/* Everything except the input; FALSE and a message if there is nothing to run. */
static gboolean
tiling_init (Tiling *tiling, GeglOperation *operation, zn_error *err)
{
  GeglRectangle *box = &tiling->input.box;
  gboolean       has_input;

  *tiling      = (Tiling){ .task = { .side = 0 } };
  tiling->plan = &tiling->task.plan;
  tiling->grid = &tiling->task.plan.grid;
  has_input    = zn_op_input_box (operation, box, err);
  if (has_input)
    {
      tiling->task.width  = box->width;
      tiling->task.height = box->height;
    }
  tiling->task.side = wanted_side (operation);
  zn_op_describe (operation, &tiling->task); /* without a picture: for the base */
  if (has_input)
    *err = tiling->task.refusal;
  tiling->original = (zn_original){
    .source = { box->width, box->height, 3,
                tiling->grid->scale > 1 ? zn_op_enlarge_read : zn_op_picture_read, &tiling->input },
    .hash   = hash_pixels,
    .cookie = &tiling->input,
    .spread = spread
  };

  return has_input && ! tiling->task.status;
}

/* What both have, from the corner of the box.  What GEGL invalidates may have no end. */
static zn_rect
part_of (const GeglRectangle *roi, const GeglRectangle *box)
{
  GeglRectangle r;

  gegl_rectangle_intersect (&r, roi, box);

  return r.width > 0 ? (zn_rect){ r.x - box->x, r.y - box->y, r.width, r.height }
                     : (zn_rect){ 0, 0, 0, 0 };
}

/* ---- measuring ------------------------------------------------------------ */

/* A host that runs the graph itself (our plug-in) may say by object data of the node where
 * the picture's noise is measured: "zenith-measure", a GeglRectangle of the input.  NULL: it
 * does not.  Where the network has nothing to do, the noise is measured for such a host alone. */
static const GeglRectangle *
measured_part (GeglOperation *operation)
{
  return operation->node ? g_object_get_data (G_OBJECT (operation->node), "zenith-measure") : NULL;
}

/* Shows the noise that was measured, of 255 for each channel, or that there is none; NULL: it was not
 * measured. */
static void
show_measured (Tiling *tiling, const zn_noise_table *noise)
{
  static const gchar *const level[3]  = { "measured-red", "measured-green", "measured-blue" };
  GeglOperation            *operation = tiling->request->operation;
  gchar                     number[3][ZN_OP_TENTHS];
  gchar                    *text = NULL;

  for (gint c = 0; c < 3; c++)
    {
      zn_op_set_number (operation, level[c], tiling->task.level[c],
                        noise ? noise->median[c] : -1.0);
      zn_op_tenths (number[c], noise ? noise->median[c] : 0.0);
    }
  if (noise)
    text = noise->clean == 1.0f
               ? g_strdup (_ ("no noise found"))
               : g_strdup_printf (_ ("red %s, green %s, blue %s"), number[0], number[1], number[2]);
  zn_op_set_text (operation, "measured", tiling->task.measured, text ? text : "");
  if (noise)
    zn_op_verbose (operation, "measured noise: red %s, green %s, blue %s of 255", number[0],
                   number[1], number[2]);
  g_free (text);
}

/* Shows what is wrong with the picture. */
static void
show_found (Tiling *tiling)
{
  static const gchar *const name[3]   = { "measured-blur", "measured-artefacts", "measured-noise" };
  GeglOperation            *operation = tiling->request->operation;
  zn_found                  found;

  zn_enhance_found (&found, tiling->plan, &tiling->result);
  zn_op_set_number (operation, name[0], tiling->task.fault[0], found.blur);
  zn_op_set_number (operation, name[1], tiling->task.fault[1], found.artefacts);
  zn_op_set_number (operation, name[2], tiling->task.fault[2], found.noise);
  zn_op_set_text (operation, "measured", tiling->task.measured, found.text);
  if (*found.text)
    zn_op_verbose (operation, "found: %s", found.text);
}

/* What the network is told of the picture: the noise of the part that the host asked for, or of all. */
static zn_status
tiling_measure (Tiling *tiling, const zn_watcher *watch)
{
  const GeglRectangle *asked  = measured_part (tiling->request->operation);
  const GeglRectangle *box    = &tiling->input.box;
  zn_rect              part   = asked ? part_of (asked, box) : (zn_rect){ 0, 0, 0, 0 };
  zn_status            status = ZN_OK;

  if (part.w <= 0)
    part = (zn_rect){ 0, 0, box->width, box->height };
  if (tiling->plan->measured)
    status = zn_original_measure (&tiling->result, tiling->plan, &tiling->original, part, watch,
                                  &tiling->request->err);
  if (! status && tiling->task.fault[0])
    show_found (tiling);
  else if (! status)
    show_measured (tiling, tiling->plan->how.seeks_noise ? &tiling->result.noise : NULL);

  return status;
}

/* ---- blending ------------------------------------------------------------- */

typedef struct
{
  const zn_enhance_plan *plan;
  const zn_plane        *change;
  gint                   failed; /* for lack of memory */
} Blend;

static void
blend_strip (gpointer data, zn_rect strip, zn_rect all, gfloat *pixels, gint components)
{
  Blend *blend = data;

  if (! zn_enhance_blend (blend->plan, strip, all, pixels, components, blend->change))
    g_atomic_int_set (&blend->failed, TRUE);
}

/* Writes the pixels of want. */
static bool
write_piece (void *data, zn_rect want, const zn_plane *change)
{
  const Tiling *tiling = data;
  Blend         blend  = { tiling->plan, change, FALSE };

  if (tiling->grid->scale > 1)
    zn_op_enlarge_write (&tiling->input, tiling->output, tiling->grid, want, change);
  else
    zn_op_picture_write (&tiling->input, tiling->output, want, tiling->plan->reach, blend_strip,
                         &blend);

  return ! blend.failed;
}

/* ---- methods -------------------------------------------------------------- */

static void
prepare (GeglOperation *operation)
{
  const Babl *format = zn_op_picture_format (operation, "input");
  zn_error    err    = { "" };
  Tiling      tiling;

  gegl_operation_set_format (operation, "input", format);
  gegl_operation_set_format (operation, "output", format);

  if (! tiling_init (&tiling, operation, &err) && tiling.input.box.width > 0)
    zn_op_set_status (operation, &tiling.task.base, err.text);
}

/* Where the result lies. */
static GeglRectangle
result_box (const Tiling *tiling)
{
  const gint           scale = tiling->grid->scale;
  const GeglRectangle *box   = &tiling->input.box;

  return (GeglRectangle){ box->x * scale, box->y * scale, tiling->plan->w, tiling->plan->h };
}

/* What a region of the output depends on, or what a region of the input changes; all of
 * the picture, if it is to be measured. */
static GeglRectangle
get_reach (GeglOperation *operation, const GeglRectangle *roi, gboolean required)
{
  zn_error      err = { "" };
  Tiling        tiling;
  GeglRectangle box;
  zn_rect       r;

  if (! tiling_init (&tiling, operation, &err))
    return *roi;
  if (tiling.plan->measured)
    return tiling.input.box;

  box = result_box (&tiling);
  r   = part_of (roi, required ? &box : &tiling.input.box);
  if (r.w > 0 && required)
    {
      r   = zn_grid_source (tiling.grid, zn_rect_widen (r, tiling.plan->reach));
      r   = zn_grid_around (tiling.grid, zn_grid_area (tiling.grid, r));
      box = tiling.input.box;
    }
  else if (r.w > 0)
    {
      r = zn_grid_result (tiling.grid, zn_grid_around (tiling.grid, r));
      r = zn_rect_meet (zn_rect_widen (r, tiling.plan->reach),
                        (zn_rect){ 0, 0, tiling.plan->w, tiling.plan->h });
    }

  return (GeglRectangle){ box.x + r.x, box.y + r.y, r.w, r.h };
}

static GeglRectangle
get_required_for_output (GeglOperation *operation, const gchar *pad, const GeglRectangle *roi)
{
  return get_reach (operation, roi, TRUE);
}

static GeglRectangle
get_invalidated_by_change (GeglOperation *operation, const gchar *pad, const GeglRectangle *roi)
{
  return get_reach (operation, roi, FALSE);
}

static GeglRectangle
get_bounding_box (GeglOperation *operation)
{
  zn_error err = { "" };
  Tiling   tiling;

  return tiling_init (&tiling, operation, &err) ? result_box (&tiling) : tiling.input.box;
}

/* The result in a region; after a failure what there is to show, if the input has another size. */
static zn_status
process_region (Tiling *tiling, GeglOperationContext *context, zn_rect roi, const zn_watcher *watch)
{
  const zn_taker to     = { write_piece, tiling };
  zn_status      status = tiling_measure (tiling, watch);

  tiling->output = gegl_operation_context_get_target (context, "output");
  if (! status)
    status = zn_original_change (&tiling->result, tiling->plan, &tiling->original, roi, &to, watch,
                                 &tiling->request->err);
  zn_enhance_forget (&tiling->result);
  tiling->request->ran         = tiling->result.ran;
  tiling->request->note        = tiling->result.note;
  tiling->request->computed_by = *tiling->result.computed_by.text ? tiling->result.computed_by
                                                                  : tiling->plan->computed_by;
  tiling->request->replaced    = status && tiling->grid->scale > 1;
  if (tiling->request->replaced)
    zn_op_enlarge_write (&tiling->input, tiling->output, tiling->grid, roi, NULL);

  return status;
}

static gboolean
process (GeglOperation        *operation,
         GeglOperationContext *context,
         const gchar          *pad,
         const GeglRectangle  *result,
         gint                  level)
{
  GObject    *input  = gegl_operation_context_get_object (context, "input");
  zn_status   status = ZN_E_USAGE;
  zn_error    err    = { "" };
  ZnOpRequest request;
  Tiling      tiling;
  gboolean    planned = tiling_init (&tiling, operation, &err);

  planned = zn_op_request_init (&request, operation, &tiling.task.base) && planned;
  if (*err.text)
    request.err = err;
  if (planned)
    {
      const GeglRectangle box   = result_box (&tiling);
      const zn_rect       roi   = part_of (result, &box);
      const zn_watcher    watch = { .progress = zn_op_request_progress,
                                    .cookie   = &request,
                                    .keep     = &zn_op_keep };

      tiling.request      = &request;
      tiling.input.buffer = GEGL_BUFFER (input);
      tiling.input.format = zn_op_picture_format (operation, "input");
      zn_key_add_text (&tiling.original.format, babl_get_name (tiling.input.format));
      zn_key_add_text (&tiling.original.format,
                       babl_get_name (gegl_buffer_get_format (tiling.input.buffer)));
      if (tiling.plan->nothing || roi.w <= 0)
        {
          gegl_operation_context_set_object (context, "output", input);
          status = measured_part (operation) ? tiling_measure (&tiling, &watch) : ZN_OK;
          zn_enhance_forget (&tiling.result);
        }
      else
        {
          status = process_region (&tiling, context, roi, &watch);
        }
    }

  return zn_op_request_end (&request, context, status);
}

void
zn_op_tiled_class_init (GeglOperationClass *klass, ZnOpDescribe describe)
{
  zn_op_set_describe (klass, describe);

  klass->prepare                   = prepare;
  klass->process                   = process;
  klass->get_required_for_output   = get_required_for_output;
  klass->get_invalidated_by_change = get_invalidated_by_change;
}

void
zn_op_tiled_enlarges (GeglOperationClass *klass)
{
  klass->get_bounding_box = get_bounding_box;
}
