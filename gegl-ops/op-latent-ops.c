/* SPDX-License-Identifier: MIT */
/* op-latent-ops.c - operations on whole pictures through a latent.
 *
 *   preview   picture --encode--> latent --decode--> picture of the same size
 *   encode    picture --encode--> latent, 1/factor of the size
 *   decode                        latent --decode--> picture, factor times the size
 *
 * One prepare() and one process() serve all three: a task encodes, decodes, or both.
 *
 * The bounding box is what is required and what GEGL caches, so that one
 * process() call serves all reads.  A latent's first pixel is the picture's
 * first, wherever the layer lies; its place is the picture's, divided and rounded
 * down. */

#include "config.h"

#include <math.h>
#include <string.h>

#include <glib/gi18n-lib.h>

#include "op-common.h"
#include "op-engine.h"
#include "op-latent.h"

/* What prepare() found, for the methods that GEGL calls after it: a factor of 0
 * if the operation cannot run and the picture passes. */
static zn_latents *
prepared_latents (GeglOperation *operation)
{
  return zn_op_data (operation, "zenith-op-latent", sizeof (zn_latents));
}

gboolean
zn_op_latent_open (zn_autoencoder *ae, const ZnOpLatentTask *task, zn_note *note, zn_error *err)
{
  const gboolean              shows  = task->encodes && task->mode == ZENITH_LATENT_MODE_LATENT;
  const zn_terms              terms  = zn_op_terms (&task->base);
  const zn_autoencoder_choice choice = {
    task->frames ? "wan-video" : zn_op_nick (zenith_autoencoder_get_type (), task->autoencoder),
    task->weights
  };

  return ! zn_autoencoder_open (ae, zn_op_session (),
                                (task->encodes ? ZN_ENCODES : 0) | (! task->decodes ? 0
                                                                    : shows         ? ZN_COLOURS
                                                                                    : ZN_DECODES),
                                &choice, &terms, note, err);
}

/* ---- regions -------------------------------------------------------------- */

static gint
divide_down (gint value, gint by)
{
  return value >= 0 ? value / by : -((-value - 1) / by) - 1;
}

static GeglRectangle
get_bounding_box (GeglOperation *operation)
{
  const zn_latents *latents = prepared_latents (operation);
  const gint        f       = latents->factor;
  ZnOpLatentTask    task    = { .mode = ZENITH_LATENT_MODE_RECONSTRUCT };
  zn_error          err;
  GeglRectangle     box;

  zn_op_describe (operation, &task);
  if (! zn_op_input_box (operation, &box, &err) || ! f || (task.encodes && task.decodes))
    return box;

  if (task.encodes)
    {
      if (zn_latents_size (&box.width, &box.height, latents, box.width, box.height, NULL))
        return box;
      box.x = divide_down (box.x, f);
      box.y = divide_down (box.y, f);
      if (task.planes)
        box.height = latents->channels * (box.height + 2 * ZN_OP_PLANE_MARGIN);
      return box;
    }

  if (task.planes)
    box.height = MAX (box.height / latents->channels - 2 * ZN_OP_PLANE_MARGIN, 1);
  if (MAX (ABS (box.x), ABS (box.y)) < G_MAXINT / 4 / f &&
      MAX (box.width, box.height) < G_MAXINT / 4 / f)
    return *GEGL_RECTANGLE (box.x * f, box.y * f, box.width * f, box.height * f);

  return box;
}

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

  return zn_op_input_box (operation, &box, &err) ? get_bounding_box (operation) : *roi;
}

static GeglRectangle
get_invalidated_by_change (GeglOperation *operation, const gchar *pad, const GeglRectangle *roi)
{
  return get_cached_region (operation, roi);
}

/* ---- prepare -------------------------------------------------------------- */

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
prepare (GeglOperation *operation)
{
  zn_latents    *latents = prepared_latents (operation);
  const Babl    *source  = gegl_operation_get_source_format (operation, "input");
  const Babl    *picture = zn_op_picture_format (operation, "input");
  ZnOpLatentTask task    = { .mode = ZENITH_LATENT_MODE_RECONSTRUCT };
  zn_error       err     = { "" };
  const Babl    *in, *out;
  zn_autoencoder ae;

  zn_op_describe (operation, &task);
  *latents = (zn_latents){ 0, 0, 0, 0 };
  if (! zn_op_latent_open (&ae, &task, NULL, &err))
    zn_op_set_status (operation, &task.base, err.text);
  else if (task.encodes || task.planes || may_fit (operation, source, ae.latents.channels))
    *latents = ae.latents; /* the size of the output depends on it, and is needed now */
  zn_autoencoder_close (&ae);

  in = task.encodes || ! source ? picture : source;
  if (task.planes && ! task.encodes && latents->factor)
    in = babl_format_with_space ("Y float", babl_format_get_space (in));
  if (task.encodes && task.decodes)
    out = picture;
  else if (! latents->factor)
    out = source ? source : picture;
  else if (task.encodes && task.planes)
    out = babl_format_with_space ("Y float", babl_format_get_space (picture));
  else if (task.encodes)
    out = zn_op_latent_format (latents->channels, babl_format_get_space (picture));
  else
    out = babl_format_with_space ("R'G'B' float", source ? babl_format_get_space (source) : NULL);

  gegl_operation_set_format (operation, "input", in);
  gegl_operation_set_format (operation, "output", out);
}

/* ---- process -------------------------------------------------------------- */

#define LARGE (1 << 22) /* pixels: for larger pictures the memory of networks is not kept */

static gboolean
is_large (const ZnOpPicture *input)
{
  return (gint64) input->box.width * input->box.height >= LARGE;
}

/* The latent, of the picture or from the buffer on the input pad. */
static zn_status
get_latent (ZnOpLatent           *latent,
            const ZnOpLatentTask *task,
            zn_autoencoder       *ae,
            ZnOpPicture          *input,
            ZnOpRequest          *request)
{
  zn_status status;

  if (! task->encodes && task->planes)
    return zn_op_latent_get_planes (latent, input->buffer, &input->box, &ae->latents, request);
  if (! task->encodes)
    return zn_op_latent_get (latent, input->buffer, &input->box, &ae->latents, request);

  zn_op_request_part (request, 0.0, task->decodes ? 0.4 : 1.0);
  status = zn_op_latent_encode (latent, ae, input, request);
  zn_op_request_part (request, 0.4, 0.6);
  if (is_large (input))
    zn_use_retire (&ae->encoder);

  return status;
}

/* Says how far the target differs from its input. */
static void
show_loss (GeglOperation *operation, const ZnOpLatentTask *task, const ZnOpTarget *target)
{
  const gdouble n    = 3.0 * target->box.width * target->box.height;
  gchar        *text = g_strdup_printf (
             _ ("PSNR %.2f dB; mean difference %.2f, largest %.0f, white from %.0f on, "
                       "of 255"),
             -10.0 * log10 (MAX (target->squares / n, 1e-12)), 255.0 * target->sum / n,
             255.0 * target->worst, 255.0 / task->scale);

  zn_op_set_text (operation, "loss", task->loss, text);
  zn_op_verbose (operation, "%s", text);
  g_free (text);
}

/* The output of the task from the latent. */
static zn_status
put_latent (ZnOpLatent           *latent,
            const ZnOpLatentTask *task,
            const zn_autoencoder *ae,
            const ZnOpPicture    *input,
            GeglBuffer           *output,
            ZnOpRequest          *request)
{
  zn_status  status;
  ZnOpTarget target = { .input  = task->encodes ? input : NULL,
                        .output = output,
                        .box    = get_bounding_box (request->operation),
                        .format = gegl_operation_get_format (request->operation, "output"),
                        .scale  = task->mode == ZENITH_LATENT_MODE_DIFFERENCE ? task->scale : 0 };

  if (task->frames)
    return zn_op_latent_video (&target, ae, task->frames, request);
  if (ae->decoder)
    {
      status = zn_op_latent_decode (&target, ae->decoder, latent, request);
      if (! status && target.scale > 0)
        show_loss (request->operation, task, &target);
      return status;
    }

  if (task->decodes)
    zn_op_latent_show (&target, latent, ae->latents.factor);
  else if (task->planes)
    zn_op_latent_put_planes (latent, output, &target.box, target.format);
  else
    zn_op_latent_put (latent, output, &target.box, target.format);

  return ZN_OK;
}

static gboolean
process (GeglOperation        *operation,
         GeglOperationContext *context,
         const gchar          *pad,
         const GeglRectangle  *roi,
         gint                  level)
{
  GObject       *buffer = gegl_operation_context_get_object (context, "input");
  ZnOpLatentTask task   = { .mode = ZENITH_LATENT_MODE_RECONSTRUCT };
  zn_autoencoder ae     = { .encoder = NULL };
  ZnOpLatent     latent = { .bytes = NULL };
  ZnOpPicture    input  = { .format = zn_op_picture_format (operation, "input") };
  zn_status      status = ZN_E_USAGE;
  ZnOpRequest    request;

  zn_op_describe (operation, &task);
  if (zn_op_request_init (&request, operation, &task.base) &&
      zn_op_input_box (operation, &input.box, &request.err) &&
      zn_op_latent_open (&ae, &task, &request.note, &request.err))
    {
      /* hosts set one property after the other, and prepare() opens what each of them names */
      if (is_large (&input))
        zn_session_trim (zn_op_session ());
      input.buffer = GEGL_BUFFER (buffer);
      status       = task.frames ? ZN_OK : get_latent (&latent, &task, &ae, &input, &request);
      /* prepare() gave the output its size and format; files can change since */
      if (! status && memcmp (prepared_latents (operation), &ae.latents, sizeof (zn_latents)))
        status = zn_op_request_refuse (&request, ZN_E_USAGE,
                                       "The weights have just changed: run the filter again.");
      if (! status)
        status = put_latent (&latent, &task, &ae, &input,
                             gegl_operation_context_get_target (context, "output"), &request);
    }
  zn_op_latent_clear (&latent);
  if (task.encodes && is_large (&input))
    zn_use_retire (&ae.decoder);
  zn_autoencoder_close (&ae);

  return zn_op_request_end (&request, context, status);
}

void
zn_op_latent_class_init (GeglOperationClass *klass, ZnOpDescribe describe)
{
  zn_op_set_describe (klass, describe);

  /* A file of a latent names its format, and GEGL's loader ends the process when
   * it has not been made yet. */
  babl_format_n (babl_type ("float"), 16);
  babl_format_n (babl_type ("float"), 32);
  babl_format_n (babl_type ("float"), 48);

  klass->prepare                   = prepare;
  klass->process                   = process;
  klass->get_bounding_box          = get_bounding_box;
  klass->get_required_for_output   = get_required_for_output;
  klass->get_cached_region         = get_cached_region;
  klass->get_invalidated_by_change = get_invalidated_by_change;
}
