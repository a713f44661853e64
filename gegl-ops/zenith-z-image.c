/* SPDX-License-Identifier: MIT */
/* zenith-z-image.c - a picture from a prompt: new, from the input, inside of a mask, or around the input: the engine's composite
 * `generate` (zenith_composite.h) on buffers.  The mask is what the second input shows: its luminance times its alpha. */

#include "config.h"
#include <glib/gi18n-lib.h>
#include "op-common.h"
#include "op-engine.h"

/* clang-format off */
#ifdef GEGL_PROPERTIES

#define zenith_property_margin(name, label)                                                        \
  property_int (name, label, 0)                                                                    \
    description (_("Pixels on this side of the input that are painted, too")) value_range (0, 4096) ui_range (0, 1024)

property_string (prompt, _("Prompt"), "")
  description (_("What the picture shows, in words"))
  ui_meta ("multiline", "true")

property_seed (seed, _("Random seed"), rand)

property_int (steps, _("Steps"), 8)
  description (_("Steps from noise to the picture: the model is made for 8"))
  value_range (1, 100)
  ui_range (1, 16)

property_int (width, _("Width"), 1024)
  description (_("Width of a new picture; with an input, width times height is the largest area that is computed: more is scaled"))
  value_range (16, 4096)
  ui_range (256, 2048)

property_int (height, _("Height"), 1024)
  description (_("Height of a new picture"))
  value_range (16, 4096)
  ui_range (256, 2048)

property_double (change, _("Change"), 1.0)
  description (_("With an input: how far it may change; 0: not at all, 1: what was there does not count"))
  value_range (0.0, 1.0)

property_double (feather, _("Feather"), 16.0)
  description (_("Width of the soft edge inside the mask"))
  value_range (0.0, 1000.0)
  ui_range (0.0, 100.0)
  ui_meta ("unit", "pixel-distance")

property_file_path (weights, _("Weights"), "")
  description (_("Folder with the files of Z-Image-Turbo; empty: the folder z-image among the models. They are published at https://huggingface.co/Tongyi-MAI/Z-Image-Turbo under the Apache license 2.0"))

zenith_property_engine
zenith_property_status
zenith_property_precision_as (_("Number format that a GPU computes in, and a CPU stores weights in; automatic: fp32 on a GPU, on a CPU that of the files, or fewer bits where memory is short"))
zenith_property_note
zenith_property_memory
zenith_property_failed

zenith_property_computed_by

property_int (n, _("Pictures"), 1)
  description (_("How many, of this seed and those after it: side by side here, as layers in GIMP"))
  value_range (1, 16) ui_range (1, 8)

zenith_property_margin (left, _("Extend left"))
zenith_property_margin (top, _("Extend up"))
zenith_property_margin (right, _("Extend right"))
zenith_property_margin (bottom, _("Extend down"))

property_int (scale, _("Scale"), 1)
  description (_("Above 1, the new picture or the input is enlarged so many times and then refined, in tiles of width x height"))
  value_range (1, 4)

property_double (refine, _("Refine"), 0.3)
  description (_("How far an enlarged picture may change"))
  value_range (0.0, 1.0)

#else

#define GEGL_OP_COMPOSER
#define GEGL_OP_NAME     zenith_z_image
#define GEGL_OP_C_SOURCE zenith-z-image.c

/* clang-format on */
#include "gegl-op.h"

/* box: of the input, empty without one; aux: of the mask, or NULL. */
static zn_status
make_plan (zn_generate_plan    *plan,
           GeglProperties      *o,
           const GeglRectangle *box,
           const GeglRectangle *aux,
           zn_error            *err)
{
  const zn_generate how    = { .prompt  = o->prompt ? o->prompt : "",
                               .weights = o->weights,
                               .seed    = o->seed,
                               .n       = o->n,
                               .steps   = o->steps,
                               .width   = o->width,
                               .height  = o->height,
                               .change  = o->change,
                               .feather = o->feather,
                               .left    = o->left,
                               .top     = o->top,
                               .right   = o->right,
                               .bottom  = o->bottom,
                               .scale   = o->scale,
                               .refine  = o->refine };
  const ZnOpBase    base   = ZN_OP_BASE (o);
  const zn_choice   choice = zn_op_choice (&base);
  const gboolean    masked = aux && zn_op_check_box (aux, err);
  zn_rect           mask;

  if (masked)
    mask = (zn_rect){ aux->x - box->x, aux->y - box->y, aux->width, aux->height };

  return zn_generate_describe (plan, zn_op_session (), &choice, &how, box->width, box->height,
                               masked ? &mask : NULL, err);
}

/* Where the input's corner lies on the buffer of the mask, and the input whose transparent pixels are in it, too. */
typedef struct
{
  GeglBuffer        *buffer;
  const ZnOpPicture *fills;
  gint               x, y;
} Mask;

static bool
read_mask (void *cookie, zn_rect rect, float *dst)
{
  const Mask *mask = cookie;
  gfloat     *row  = g_try_new0 (gfloat, (gsize) rect.w * 4);
  gfloat     *rgba = row + (gsize) rect.w * 2;

  if (! row)
    return false;
  for (gint y = 0; y < rect.h; y++)
    {
      const GeglRectangle line = { mask->x + rect.x, mask->y + rect.y + y, rect.w, 1 };

      if (mask->buffer)
        gegl_buffer_get (mask->buffer, &line, 1.0, babl_format ("YA float"), row,
                         GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);
      if (mask->fills)
        gegl_buffer_get (mask->fills->buffer, &line, 1.0, babl_format ("YA float"), rgba,
                         GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);
      for (gint x = 0; x < rect.w; x++)
        *dst++ = mask->fills && ! (rgba[2 * x + 1] > 0.0f) ? 1.0f : row[2 * x] * row[2 * x + 1];
    }
  g_free (row);

  return true;
}

static zn_status
run (const ZnOpWhole *task, const ZnOpPicture *in, gint n_in, zn_array *out, ZnOpRequest *request)
{
  GeglProperties    *o       = GEGL_PROPERTIES (request->operation);
  ZnOpPicture        picture = n_in ? in[0] : (ZnOpPicture){ .buffer = NULL };
  Mask               at = { n_in > 1 ? in[1].buffer : NULL, NULL, picture.box.x, picture.box.y };
  const zn_source    source  = { picture.box.width, picture.box.height, 3, zn_op_picture_read,
                                 &picture };
  const zn_source    mask    = { picture.box.width, picture.box.height, 1, read_mask, &at };
  const ZnOpWatched  watched = { request, &o->memory };
  const zn_watcher   watcher = zn_op_watcher (&watched);
  zn_generate_result result  = { .n_tokens = 0 };
  zn_generate_plan   plan;
  zn_status          status;

  status = make_plan (&plan, o, &picture.box, n_in > 1 ? &in[1].box : NULL, &request->err);
  if (! status && plan.extends)
    at.fills = &picture;
  if (! status)
    status = zn_generate_run (&result, &plan, n_in ? &source : NULL,
                              at.buffer || at.fills ? &mask : NULL, out, &watcher, &request->err);
  request->ran         = result.n_tokens > 0;
  request->note        = result.note;
  request->computed_by = result.computed_by;

  return status;
}

static void
describe (GeglOperation *operation, gpointer data)
{
  GeglProperties     *o    = GEGL_PROPERTIES (operation);
  ZnOpWhole          *task = data;
  const GeglRectangle box  = task->result;
  zn_generate_plan    plan;
  zn_error            err;

  task->base = ZN_OP_BASE (o);
  zn_op_start (operation, &task->base);
  if (make_plan (&plan, o, &box, gegl_operation_source_get_bounding_box (operation, "aux"), &err))
    task->refusal = err;
  if (plan.nothing)
    return;
  task->settings = plan.key;
  task->copies   = plan.how.n;
  task->run      = run;
  if (plan.adds)
    task->change = *GEGL_RECTANGLE (box.x + plan.change.x, box.y + plan.change.y, plan.change.w,
                                    plan.change.h);
  task->result = *GEGL_RECTANGLE (box.x - plan.place.x, box.y - plan.place.y, plan.w * plan.how.n,
                                  plan.h);
}

static void
gegl_op_class_init (GeglOpClass *klass)
{
  GeglOperationClass *operation_class = GEGL_OPERATION_CLASS (klass);

  zn_op_whole_class_init (operation_class, describe);
  zn_op_whole_input_optional (operation_class);

  gegl_operation_class_set_keys (operation_class, "name", "zenith:z-image", "title", _ ("Generate"),
                                 "categories", "render", "description",
                                 _ ("Makes a picture from a prompt, changes one, or paints inside "
                                    "of a mask (the second input)"),
                                 NULL);
}

#endif
