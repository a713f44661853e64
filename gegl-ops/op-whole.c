/* SPDX-License-Identifier: MIT */
/* op-whole.c - operations that make one result of whole pictures.
 *
 *   pads                 result
 *   input                of the input's size, with its alpha (a filter)
 *   input, aux           the same, of two pictures (a composer); aux may be empty
 *   none                 of the size that the properties say (a source, or a composer that
 *                        can do without an input)
 *
 * A task may also give its result another size or place than the input's; it has no
 * alpha then.  Or it changes a part of the input only: then that part's change is the
 * result that is made and kept.  The result is made once and held in memory, so its size
 * is bounded; it is kept, found by a hash of the inputs, the models and the task's
 * settings.  The bounding box is what is required and what GEGL caches, so that one
 * process() call serves all reads. */

#include "config.h"

#include <string.h>

#include <glib/gi18n-lib.h>

#include "op-cache.h"
#include "op-common.h"
#include "op-engine.h"
#include "op-latent.h"

#define MAX_PIXELS (1 << 26) /* of a result */

static const gchar *const pads[ZN_OP_WHOLE_INPUTS] = { "input", "aux" };

/* Whether prepare() found everything that the task needs; otherwise the input passes through. */
static gboolean *
can_run (GeglOperation *operation)
{
  return zn_op_data (operation, "zenith-op-whole", sizeof (gboolean));
}

static GQuark
optional_quark (void)
{
  return g_quark_from_static_string ("zenith-op-optional-input");
}

/* Whether there is no input, nor need be. */
static gboolean
is_source (GeglOperation *operation)
{
  const GeglRectangle *in;

  if (! gegl_node_has_pad (operation->node, pads[0]))
    return TRUE;
  if (! g_type_get_qdata (G_OBJECT_TYPE (operation), optional_quark ()))
    return FALSE;
  in = gegl_operation_source_get_bounding_box (operation, pads[0]);

  return ! in || in->width <= 0 || in->height <= 0; /* gegl:nop has an empty one */
}

/* ---- the task ------------------------------------------------------------- */

/* How many run() makes, one below the other. */
static gint
n_made (const ZnOpWhole *task)
{
  return MAX (task->copies, 1);
}

/* The place of the result of run(), or of the first of several. */
static GeglRectangle
made_box (const ZnOpWhole *task)
{
  GeglRectangle box = task->change.width > 0 ? task->change : task->result;

  if (task->change.width <= 0)
    box.width /= n_made (task);

  return box;
}

/* The result of run() is held in memory. */
static gboolean
check_made (const ZnOpWhole *task, zn_error *err)
{
  const GeglRectangle made = made_box (task);

  if ((gint64) made.width * made.height * n_made (task) <= MAX_PIXELS)
    return TRUE;

  g_snprintf (err->text, sizeof (err->text),
              _ ("A result of %d x %d is too large: at most %d megapixels can be made."),
              made.width, made.height, MAX_PIXELS >> 20);

  return FALSE;
}

static gboolean
task_init (ZnOpWhole *task, GeglOperation *operation, zn_error *err)
{
  gboolean ok = TRUE;

  *task = (ZnOpWhole){ .run = NULL };
  if (! is_source (operation))
    ok = zn_op_input_box (operation, &task->result, err);
  zn_op_describe (operation, task);

  if (! ok)
    return FALSE;
  if (*task->refusal.text)
    {
      *err = task->refusal;
      return FALSE;
    }

  return zn_op_check_box (&task->result, err) && (task->locate || check_made (task, err));
}

/* ---- regions -------------------------------------------------------------- */

static GeglRectangle
get_bounding_box (GeglOperation *operation)
{
  GeglRectangle box = { 0, 0, 0, 0 };
  ZnOpWhole     task;
  zn_error      err;

  if (is_source (operation)) /* process() says why it is empty, if it is */
    {
      task_init (&task, operation, &err);
      if (zn_op_check_box (&task.result, &err))
        box = task.result;
    }
  else if (task_init (&task, operation, &err) && *can_run (operation))
    box = task.result;
  else
    zn_op_input_box (operation, &box, &err);

  return box;
}

static GeglRectangle
get_required_for_output (GeglOperation *operation, const gchar *pad, const GeglRectangle *roi)
{
  const GeglRectangle *in = gegl_operation_source_get_bounding_box (operation, pad);
  zn_error             err;

  return in && zn_op_check_box (in, &err) ? *in : *roi;
}

static GeglRectangle
get_cached_region (GeglOperation *operation, const GeglRectangle *roi)
{
  const GeglRectangle box = get_bounding_box (operation);
  zn_error            err;

  return zn_op_check_box (&box, &err) ? box : *roi;
}

static GeglRectangle
get_invalidated_by_change (GeglOperation *operation, const gchar *pad, const GeglRectangle *roi)
{
  return get_cached_region (operation, roi);
}

/* ---- prepare -------------------------------------------------------------- */

static void
prepare (GeglOperation *operation)
{
  const gboolean none   = is_source (operation);
  const Babl    *source = none ? NULL : gegl_operation_get_source_format (operation, "input");
  const Babl    *space  = source ? babl_format_get_space (source) : NULL;
  const Babl    *out    = babl_format_with_space ("R'G'B' float", space);
  zn_error       err    = { "" };
  GeglRectangle  box;
  zn_error       ignored;
  ZnOpWhole      task;

  *can_run (operation) = task_init (&task, operation, &err);
  if (! *can_run (operation) &&
      (none || gegl_operation_source_get_bounding_box (operation, "input")))
    zn_op_set_status (operation, &task.base, err.text); /* an input may still be connected */

  /* A source that fails is transparent; the result in the input's place has its alpha. */
  if (none)
    {
      out = babl_format ("R'G'B'A float");
    }
  else
    {
      for (gint i = 0; i < ZN_OP_WHOLE_INPUTS; i++)
        if (gegl_node_has_pad (operation->node, pads[i]))
          gegl_operation_set_format (operation, pads[i], zn_op_picture_format (operation, pads[i]));
      if (! *can_run (operation) || task.change.width > 0 ||
          (zn_op_input_box (operation, &box, &ignored) &&
           gegl_rectangle_equal (&box, &task.result)))
        out = zn_op_picture_format (operation, "input");
    }
  gegl_operation_set_format (operation, "output", out);
}

/* ---- process -------------------------------------------------------------- */

/* The pictures on the pads; how many there are. */
static gint
get_inputs (ZnOpPicture           in[ZN_OP_WHOLE_INPUTS],
            GeglOperation        *operation,
            GeglOperationContext *context)
{
  zn_error err;
  gint     n = 0;

  for (gint i = 0; i < ZN_OP_WHOLE_INPUTS; i++)
    {
      const GeglRectangle *box;
      GObject             *buffer;

      if (! gegl_node_has_pad (operation->node, pads[i]))
        break;
      box    = gegl_operation_source_get_bounding_box (operation, pads[i]);
      buffer = gegl_operation_context_get_object (context, pads[i]);
      if (! box || ! buffer || ! zn_op_check_box (box, &err))
        break;
      in[n++] = (ZnOpPicture){ GEGL_BUFFER (buffer), zn_op_picture_format (operation, pads[i]),
                               *box };
    }

  return n;
}

static zn_key
result_key (const ZnOpWhole *task, const ZnOpPicture *in, gint n_in, const gchar *operation)
{
  const gint     size[] = { made_box (task).width, made_box (task).height, n_made (task), n_in,
                            task->base.engine,     task->base.precision };
  const gboolean part   = task->change.width > 0;
  zn_key         key    = { 0, 0 };

  zn_key_add_text (&key, operation);
  zn_key_add (&key, &task->settings, sizeof (task->settings));
  zn_key_add (&key, size, sizeof (size));
  for (gint i = 0; i < n_in; i++)
    {
      zn_key_add_text (&key, babl_get_name (in[i].format));
      zn_op_key_add_buffer (&key, in[i].buffer, part && ! i ? &task->change : &in[i].box,
                            &in[i].box);
    }

  return key;
}

/* The result's pixels, kept or made now; what made them is kept behind them. */
static zn_status
make_result (GBytes           **result,
             const ZnOpWhole   *task,
             const ZnOpPicture *in,
             gint               n_in,
             ZnOpRequest       *request)
{
  const zn_key key = result_key (task, in, n_in, gegl_operation_get_name (request->operation));
  const GeglRectangle made   = made_box (task);
  const gint          height = made.height * n_made (task);
  zn_array            out    = { NULL, height, made.width, 3 };
  const gsize         size   = zn_array_len (&out) * sizeof (gfloat);
  zn_makers          *makers = &request->computed_by;
  zn_status           status = zn_op_kept_or_enter (result, &key, &request->err);
  gchar              *memory;

  if (*result)
    memcpy (makers, (const gchar *) g_bytes_get_data (*result, NULL) + size, sizeof (*makers));
  if (*result || status)
    return status;

  memory   = g_try_malloc (size + sizeof (*makers));
  out.data = (gfloat *) memory;
  status   = memory ? task->run (task, in, n_in, &out, request) : ZN_E_MEMORY;
  if (! status && (out.h != height || out.w != made.width || out.c != 3))
    status = zn_op_request_refuse (request, ZN_E_USAGE,
                                   "The model made %d x %d x %d instead of %d x %d x 3.", out.w,
                                   out.h, out.c, made.width, height);
  if (status)
    {
      g_free (memory);
    }
  else
    {
      memcpy (memory + size, makers, sizeof (*makers));
      *result = g_bytes_new_take (memory, size + sizeof (*makers));
      zn_op_cache_put (&key, *result);
    }
  zn_op_engine_leave ();

  return status;
}

/* Adds the change of a part to the i-th copy of the input in the output. */
static void
add_change (const ZnOpWhole   *task,
            const gfloat      *result,
            const ZnOpPicture *in,
            GeglBuffer        *output,
            gint               i)
{
  const GeglRectangle *box = &in->box, *at = &task->change;

  zn_op_picture_add (in, output, i * box->width,
                     (zn_rect){ at->x - box->x, at->y - box->y, at->width, at->height },
                     result + (gsize) i * at->width * at->height * 3);
}

static void
write_result (const ZnOpWhole   *task,
              const gfloat      *result,
              const ZnOpPicture *in,
              gint               n_in,
              GeglBuffer        *output)
{
  const gboolean same   = n_in && gegl_rectangle_equal (&in[0].box, &task->result);
  const Babl    *space  = babl_format_get_space (gegl_buffer_get_format (output));
  ZnOpTarget     target = { .input  = same ? &in[0] : NULL,
                            .output = output,
                            .box    = made_box (task),
                            .format = babl_format_with_space ("R'G'B' float", space) };

  for (gint i = 0; task->change.width > 0 && i < n_made (task); i++)
    {
      const GeglRectangle *box   = &in[0].box;
      const GeglRectangle  there = { box->x + i * box->width, box->y, box->width, box->height };

      gegl_buffer_copy (in[0].buffer, box, GEGL_ABYSS_NONE, output, &there);
      add_change (task, result, &in[0], output, i);
    }
  for (gint i = 0; task->change.width <= 0 && i < n_made (task); i++)
    {
      zn_op_target_write (&target, result);
      result += (gsize) target.box.width * target.box.height * 3;
      target.box.x += target.box.width;
    }
}

/* ---- what a composite is watched with -------------------------------------- */

static bool
on_progress (void *cookie, double done)
{
  const ZnOpWatched *watched = cookie;

  return zn_op_request_progress (watched->request, done);
}

/* Shows what the run takes. */
static void
on_planned (void *cookie, const zn_footprint *need)
{
  const ZnOpWatched *watched = cookie;
  const guint        beside  = (guint) (need->beside >> 20) + 1;
  const guint        weights = (guint) (need->weights >> 20) + 1;
  const gchar *format = need->streamed ? _ ("%u MiB, and %u MiB of weights; not all of them fit, "
                                            "so the network's layers are read "
                                            "from disk, which is slower")
                                       : _ ("%u MiB, and %u MiB of weights");
  gchar       *text   = g_strdup_printf (format, beside, weights);

  zn_op_set_text (watched->request->operation, "memory", watched->memory, text);
  zn_op_verbose (watched->request->operation, "takes %s", text);
  g_free (text);
}

static void
on_estimate (void *cookie, const zn_array *so_far)
{
  const ZnOpWatched *watched = cookie;

  watched->request->estimate (watched->request, so_far->data);
}

zn_watcher
zn_op_watcher (const ZnOpWatched *watched)
{
  return (zn_watcher){ .progress = on_progress,
                       .planned  = on_planned,
                       .estimate = watched->request->estimate ? on_estimate : NULL,
                       .cookie   = (gpointer) watched,
                       .keep     = &zn_op_keep };
}

/* ---- the output ------------------------------------------------------------ */

/* What an estimate is shown with. */
typedef struct
{
  const ZnOpWhole   *task;
  const ZnOpPicture *in;
  gint               n_in;
} Shown;

/* A change of a part is added to a copy of the input, which shares all other tiles with it. */
static GeglBuffer *
estimate_of (const Shown *shown, const gfloat *made, const Babl *format)
{
  const ZnOpWhole *task = shown->task;
  GeglBuffer      *buffer;

  if (task->change.width > 0 && n_made (task) == 1)
    {
      buffer = gegl_buffer_dup (shown->in[0].buffer);
      add_change (task, made, &shown->in[0], buffer, 0);
      g_object_set_data (G_OBJECT (buffer), "zenith-changed", (gpointer) &task->change);
    }
  else
    {
      buffer = gegl_buffer_new (&task->result, format);
      write_result (task, made, shown->in, shown->n_in, buffer);
    }

  return buffer;
}

static void
show_estimate (ZnOpRequest *request, const gfloat *made)
{
  gpointer         data;
  ZnOpShowEstimate show   = zn_op_request_host (request, &data);
  GeglBuffer      *buffer = estimate_of (request->estimate_data, made,
                                         gegl_operation_get_format (request->operation, "output"));

  if (show)
    show (data, buffer);
  g_object_unref (buffer);
}

/* Shows where the change will be before there is one, if the host shows estimates. */
static void
show_place (ZnOpWhole *task, const ZnOpRequest *request, GeglOperationContext *context)
{
  ZnOpRequest own = *request;
  ZnOpPicture in[ZN_OP_WHOLE_INPUTS];
  gpointer    ignored;

  if (task->locate && zn_op_request_host (request, &ignored) &&
      get_inputs (in, request->operation, context))
    task->locate (task, in, &own);
}

static gboolean
process (GeglOperation        *operation,
         GeglOperationContext *context,
         const gchar          *pad,
         const GeglRectangle  *roi,
         gint                  level)
{
  ZnOpPicture in[ZN_OP_WHOLE_INPUTS];
  GBytes     *result = NULL;
  zn_status   status = ZN_E_USAGE;
  zn_error    err    = { "" };
  gboolean    ok;
  ZnOpRequest request;
  ZnOpWhole   task;
  gint        n_in;

  ok = task_init (&task, operation, &err);
  ok = zn_op_request_init (&request, operation, &task.base) && ok;
  if (*err.text)
    request.err = err;
  if (ok && ! task.run)
    {
      show_place (&task, &request, context);
      gegl_operation_context_set_object (context, "output",
                                         gegl_operation_context_get_object (context, "input"));
      status = ZN_OK;
    }
  else if (ok)
    {
      const Shown shown = { &task, in, n_in = get_inputs (in, operation, context) };
      gpointer    ignored;

      if (zn_op_request_host (&request, &ignored))
        {
          request.estimate      = show_estimate;
          request.estimate_data = (gpointer) &shown;
        }
      status = task.locate ? task.locate (&task, in, &request) : ZN_OK;
      if (! status && ! check_made (&task, &request.err))
        status = ZN_E_USAGE;
      if (! status)
        status = make_result (&result, &task, in, n_in, &request);
      if (! status)
        write_result (&task, g_bytes_get_data (result, NULL), in, n_in,
                      gegl_operation_context_get_target (context, "output"));
    }
  g_clear_pointer (&result, g_bytes_unref);
  zn_op_request_end (&request, context, status);

  return TRUE;
}

void
zn_op_whole_class_init (GeglOperationClass *klass, ZnOpDescribe describe)
{
  zn_op_set_describe (klass, describe);

  klass->prepare                   = prepare;
  klass->process                   = process;
  klass->get_bounding_box          = get_bounding_box;
  klass->get_required_for_output   = get_required_for_output;
  klass->get_cached_region         = get_cached_region;
  klass->get_invalidated_by_change = get_invalidated_by_change;
}

void
zn_op_whole_input_optional (GeglOperationClass *klass)
{
  g_type_set_qdata (G_TYPE_FROM_CLASS (klass), optional_quark (), klass);
}
