/* SPDX-License-Identifier: MIT */
/* op-latent-ops.c - operations on whole pictures through a latent.
 *
 *   preview   picture --encode--> latent --decode--> picture of the same size
 *   encode    picture --encode--> latent, 1/factor of the size
 *   decode                        latent --decode--> picture, factor times the size
 *
 * The bounding box is what is required and what GEGL caches, so that one
 * process() call serves all reads.  A latent's first pixel is the picture's
 * first, wherever the layer lies; its place is the picture's, divided and rounded
 * down. */

#include "config.h"

#include "op-common.h"
#include "op-engine.h"
#include "op-latent.h"

/* What prepare() found, for the methods that GEGL calls after it: a factor of 0
 * if the operation cannot run and the picture passes. */
static ZnOpLatentKind *
prepared_kind (GeglOperation *operation)
{
  static const gchar key[] = "zenith-op-latent";
  ZnOpLatentKind    *kind  = g_object_get_data (G_OBJECT (operation), key);

  if (! kind)
    {
      kind = g_new0 (ZnOpLatentKind, 1);
      g_object_set_data_full (G_OBJECT (operation), key, kind, g_free);
    }

  return kind;
}

static ZnOpModel *
acquire (ZnOpHalf half, const ZnOpTask *task, ZnOpLatentKind *kind, zn_error *err)
{
  ZnOpModel         *model;
  const zn_geometry *g;

  model = zn_op_model_acquire_autoencoder (half, task->autoencoder, task->weights, task->engine,
                                           err);
  if (model)
    {
      g              = zn_op_model_geometry (model);
      kind->channels = half == ZN_OP_ENCODER ? g->out_c : g->in_c;
      kind->factor   = half == ZN_OP_ENCODER ? g->shrink : g->grow;
    }

  return model;
}

/* prepare() gave the output its size and format; files can change since. */
static gboolean
is_prepared (GeglOperation *operation, const ZnOpLatentKind *now, zn_error *err)
{
  const ZnOpLatentKind *kind = prepared_kind (operation);

  if (kind->channels == now->channels && kind->factor == now->factor)
    return TRUE;

  g_strlcpy (err->text, "The weights have just changed: run the filter again.", sizeof (err->text));

  return FALSE;
}

/* ---- methods of all ------------------------------------------------------- */

static GeglRectangle
get_required_for_output (GeglOperation *operation, const gchar *pad, const GeglRectangle *roi)
{
  zn_error      err;
  GeglRectangle box;

  return zn_op_input_box (operation, &box, &err) ? box : *roi;
}

static GeglRectangle
get_cached_region (GeglOperation *operation, const GeglRectangle *roi)
{
  zn_error      err;
  GeglRectangle box;

  if (! zn_op_input_box (operation, &box, &err))
    return *roi;

  return GEGL_OPERATION_GET_CLASS (operation)->get_bounding_box (operation);
}

static GeglRectangle
get_invalidated_by_change (GeglOperation *operation, const gchar *pad, const GeglRectangle *roi)
{
  return get_cached_region (operation, roi);
}

static void
class_init (GeglOperationClass *klass, ZnOpDescribe describe)
{
  zn_op_set_describe (klass, describe);

  klass->get_required_for_output   = get_required_for_output;
  klass->get_cached_region         = get_cached_region;
  klass->get_invalidated_by_change = get_invalidated_by_change;
}

/* ---- preview -------------------------------------------------------------- */

static gboolean
preview_acquire (ZnOpModel *model[2], const ZnOpTask *task, ZnOpLatentKind *kind, zn_error *err)
{
  ZnOpLatentKind other = { 0, 0 };

  model[0] = acquire (ZN_OP_ENCODER, task, kind, err);
  model[1] = NULL;
  if (! model[0] || task->mode == ZENITH_LATENT_MODE_LATENT)
    return model[0] != NULL;

  model[1] = acquire (ZN_OP_DECODER, task, &other, err);
  if (model[1] && (other.channels != kind->channels || other.factor != kind->factor))
    {
      g_snprintf (err->text, sizeof (err->text),
                  "The encoder makes %d channels at 1/%d, the decoder wants %d at "
                  "1/%d: these weights do not belong together.",
                  kind->channels, kind->factor, other.channels, other.factor);
      return FALSE;
    }

  return model[1] != NULL;
}

static void
preview_prepare (GeglOperation *operation)
{
  const Babl    *format = zn_op_picture_format (operation);
  ZnOpLatentKind kind   = { 0, 0 };
  zn_error       err    = { "" };
  ZnOpModel     *model[2];
  ZnOpTask       task;

  gegl_operation_set_format (operation, "input", format);
  gegl_operation_set_format (operation, "output", format);

  zn_op_describe (operation, &task);
  if (! preview_acquire (model, &task, &kind, &err))
    zn_op_set_status (operation, &task, err.text);
  zn_op_model_release (model[0]);
  zn_op_model_release (model[1]);
}

static gboolean
preview_process (GeglOperation        *operation,
                 GeglOperationContext *context,
                 const gchar          *pad,
                 const GeglRectangle  *roi,
                 gint                  level)
{
  ZnOpLatentKind kind     = { 0, 0 };
  ZnOpModel     *model[2] = { NULL, NULL };
  zn_status      status   = ZN_E_USAGE;
  zn_error       err      = { "" };
  ZnOpProgress   progress = { operation, 0.0, 0.4, 0.0 };
  ZnOpLatent     latent   = {
          0,
  };
  ZnOpPicture input = {
    NULL,
  };
  ZnOpTarget target;
  ZnOpTask   task;

  zn_op_describe (operation, &task);
  if (! zn_op_input_box (operation, &input.box, &err) ||
      ! preview_acquire (model, &task, &kind, &err))
    goto end;

  input.buffer = GEGL_BUFFER (gegl_operation_context_get_object (context, "input"));
  input.format = zn_op_picture_format (operation);
  target       = (ZnOpTarget){ .input  = &input,
                               .output = gegl_operation_context_get_target (context, "output"),
                               .box    = input.box,
                               .differ = task.mode == ZENITH_LATENT_MODE_DIFFERENCE };

  zn_op_show_progress (operation, 0.0);
  status = zn_op_latent_encode (&latent, model[0], &kind, &input, &progress, &err);
  if (status)
    goto end;

  progress = (ZnOpProgress){ operation, 0.4, 0.6, 0.4 };
  if (task.mode == ZENITH_LATENT_MODE_LATENT)
    zn_op_latent_show (&target, &latent, kind.factor);
  else
    status = zn_op_latent_decode (&target, model[1], &latent, &progress, &err);
  zn_op_show_progress (operation, 1.0);

end:
  g_clear_pointer (&latent.bytes, g_bytes_unref);
  zn_op_model_release (model[0]);
  zn_op_model_release (model[1]);

  return status ? zn_op_fail (operation, &task, context, status, &err)
                : zn_op_succeed (operation, &task);
}

void
zn_op_latent_preview_class_init (GeglOperationClass *klass, ZnOpDescribe describe)
{
  class_init (klass, describe);
  klass->prepare = preview_prepare;
  klass->process = preview_process;
}

/* ---- encode --------------------------------------------------------------- */

static void
encode_prepare (GeglOperation *operation)
{
  ZnOpLatentKind *kind   = prepared_kind (operation);
  const Babl     *source = gegl_operation_get_source_format (operation, "input");
  const Babl     *format = zn_op_picture_format (operation);
  zn_error        err    = { "" };
  ZnOpModel      *model;
  ZnOpTask        task;

  zn_op_describe (operation, &task);
  *kind = (ZnOpLatentKind){ 0, 0 };
  model = acquire (ZN_OP_ENCODER, &task, kind, &err);
  if (! model)
    zn_op_set_status (operation, &task, err.text);
  zn_op_model_release (model);

  gegl_operation_set_format (operation, "input", format);
  if (! kind->factor)
    format = source ? source : format;
  else if (kind->channels == 4)
    format = babl_format_with_space ("RGBA float", babl_format_get_space (format));
  else
    format = babl_format_n (babl_type ("float"), kind->channels);
  gegl_operation_set_format (operation, "output", format);
}

static gint
divide_down (gint value, gint by)
{
  return value >= 0 ? value / by : -((-value - 1) / by) - 1;
}

static GeglRectangle
encode_get_bounding_box (GeglOperation *operation)
{
  const ZnOpLatentKind *kind = prepared_kind (operation);
  zn_error              err;
  GeglRectangle         box;

  if (zn_op_input_box (operation, &box, &err) && kind->factor)
    box = *GEGL_RECTANGLE (divide_down (box.x, kind->factor), divide_down (box.y, kind->factor),
                           (box.width - 1) / kind->factor + 1, (box.height - 1) / kind->factor + 1);

  return box;
}

static gboolean
encode_process (GeglOperation        *operation,
                GeglOperationContext *context,
                const gchar          *pad,
                const GeglRectangle  *roi,
                gint                  level)
{
  ZnOpLatentKind kind     = { 0, 0 };
  ZnOpModel     *model    = NULL;
  zn_status      status   = ZN_E_USAGE;
  zn_error       err      = { "" };
  ZnOpProgress   progress = { operation, 0.0, 1.0, 0.0 };
  ZnOpLatent     latent   = {
          0,
  };
  ZnOpPicture input = {
    NULL,
  };
  GeglRectangle box;
  ZnOpTask      task;

  zn_op_describe (operation, &task);
  if (zn_op_input_box (operation, &input.box, &err))
    model = acquire (ZN_OP_ENCODER, &task, &kind, &err);

  if (model && is_prepared (operation, &kind, &err))
    {
      input.buffer = GEGL_BUFFER (gegl_operation_context_get_object (context, "input"));
      input.format = zn_op_picture_format (operation);
      zn_op_show_progress (operation, 0.0);
      status = zn_op_latent_encode (&latent, model, &kind, &input, &progress, &err);
      zn_op_show_progress (operation, 1.0);
    }
  if (status == ZN_OK)
    {
      box = encode_get_bounding_box (operation);
      gegl_buffer_set (gegl_operation_context_get_target (context, "output"), &box, 0,
                       gegl_operation_get_format (operation, "output"),
                       g_bytes_get_data (latent.bytes, NULL), GEGL_AUTO_ROWSTRIDE);
      g_bytes_unref (latent.bytes);
    }
  zn_op_model_release (model);

  return status ? zn_op_fail (operation, &task, context, status, &err)
                : zn_op_succeed (operation, &task);
}

void
zn_op_latent_encode_class_init (GeglOperationClass *klass, ZnOpDescribe describe)
{
  class_init (klass, describe);
  klass->prepare          = encode_prepare;
  klass->process          = encode_process;
  klass->get_bounding_box = encode_get_bounding_box;
}

/* ---- decode --------------------------------------------------------------- */

/* Whether the input can be a latent of these channels, before it is there.  The
 * loader of GEGL's own files does not say what it will load. */
static gboolean
may_fit (GeglOperation *operation, const Babl *source, gint channels)
{
  GeglNode *node = gegl_operation_get_source_node (operation, "input");

  return ! source || babl_format_get_n_components (source) == channels ||
         (node && ! g_strcmp0 (gegl_node_get_operation (node), "gegl:gegl-buffer-load"));
}

static void
decode_prepare (GeglOperation *operation)
{
  ZnOpLatentKind *kind   = prepared_kind (operation);
  const Babl     *source = gegl_operation_get_source_format (operation, "input");
  const Babl     *space  = source ? babl_format_get_space (source) : NULL;
  zn_error        err    = { "" };
  ZnOpModel      *model;
  ZnOpTask        task;

  zn_op_describe (operation, &task);
  *kind = (ZnOpLatentKind){ 0, 0 };
  model = acquire (ZN_OP_DECODER, &task, kind, &err);

  /* Whether it fits must be known now: the size of the output hangs on it. */
  if (model && ! may_fit (operation, source, kind->channels))
    kind->factor = 0;
  if (! model)
    zn_op_set_status (operation, &task, err.text);
  zn_op_model_release (model);

  if (source)
    gegl_operation_set_format (operation, "input", source);
  gegl_operation_set_format (
      operation, "output",
      kind->factor || ! source ? babl_format_with_space ("R'G'B' float", space) : source);
}

static GeglRectangle
decode_get_bounding_box (GeglOperation *operation)
{
  const ZnOpLatentKind *kind = prepared_kind (operation);
  zn_error              err;
  GeglRectangle         box;

  if (zn_op_input_box (operation, &box, &err) && kind->factor)
    {
      const gint max = G_MAXINT / 4 / kind->factor;

      if (ABS (box.x) < max && ABS (box.y) < max && box.width < max && box.height < max)
        box = *GEGL_RECTANGLE (box.x * kind->factor, box.y * kind->factor, box.width * kind->factor,
                               box.height * kind->factor);
    }

  return box;
}

static gboolean
decode_process (GeglOperation        *operation,
                GeglOperationContext *context,
                const gchar          *pad,
                const GeglRectangle  *roi,
                gint                  level)
{
  GObject       *input    = gegl_operation_context_get_object (context, "input");
  ZnOpLatentKind kind     = { 0, 0 };
  ZnOpModel     *model    = NULL;
  zn_status      status   = ZN_E_USAGE;
  zn_error       err      = { "" };
  ZnOpProgress   progress = { operation, 0.0, 1.0, 0.0 };
  ZnOpLatent     latent   = {
          0,
  };
  ZnOpTarget target = {
    NULL,
  };
  GeglRectangle box;
  ZnOpTask      task;

  zn_op_describe (operation, &task);
  if (zn_op_input_box (operation, &box, &err))
    model = acquire (ZN_OP_DECODER, &task, &kind, &err);
  if (model)
    status = zn_op_latent_get (&latent, GEGL_BUFFER (input), &box, &kind, &err);
  if (status == ZN_OK && ! is_prepared (operation, &kind, &err))
    status = ZN_E_USAGE;

  if (status == ZN_OK)
    {
      target.output = gegl_operation_context_get_target (context, "output");
      target.box    = decode_get_bounding_box (operation);
      target.format = gegl_operation_get_format (operation, "output");
      zn_op_show_progress (operation, 0.0);
      status = zn_op_latent_decode (&target, model, &latent, &progress, &err);
      zn_op_show_progress (operation, 1.0);
    }
  g_clear_pointer (&latent.bytes, g_bytes_unref);
  zn_op_model_release (model);

  return status ? zn_op_fail (operation, &task, context, status, &err)
                : zn_op_succeed (operation, &task);
}

void
zn_op_latent_decode_class_init (GeglOperationClass *klass, ZnOpDescribe describe)
{
  class_init (klass, describe);

  /* A file of a latent names its format, and GEGL's loader ends the process when
   * it has not been made yet. */
  babl_format_n (babl_type ("float"), 16);
  babl_format_n (babl_type ("float"), 32);

  klass->prepare          = decode_prepare;
  klass->process          = decode_process;
  klass->get_bounding_box = decode_get_bounding_box;
}
