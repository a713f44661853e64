/* SPDX-License-Identifier: MIT */
/* zenith-z-image.c - a picture from a prompt: new, from the input, or inside of a mask. */

#include "config.h"
#include <glib/gi18n-lib.h>
#include "op-common.h"
#include "op-zimage.h"

/* clang-format off */
#ifdef GEGL_PROPERTIES

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

#else

#define GEGL_OP_COMPOSER
#define GEGL_OP_NAME     zenith_z_image
#define GEGL_OP_C_SOURCE zenith-z-image.c

/* clang-format on */
#include "gegl-op.h"

static ZnOpZImage
asked (GeglProperties *o)
{
  return (ZnOpZImage){ .how    = { .prompt  = o->prompt ? o->prompt : "",
                                   .weights = o->weights,
                                   .seed    = o->seed,
                                   .steps   = o->steps,
                                   .width   = o->width,
                                   .height  = o->height,
                                   .change  = o->change,
                                   .feather = o->feather },
                       .memory = &o->memory };
}

static zn_status
run (const ZnOpWhole *task, const ZnOpPicture *in, gint n_in, zn_array *out, ZnOpRequest *request)
{
  const ZnOpZImage image = asked (GEGL_PROPERTIES (request->operation));

  return zn_op_zimage_run (task, &image, in, n_in, out, request);
}

static void
describe (GeglOperation *operation, gpointer data)
{
  GeglProperties  *o     = GEGL_PROPERTIES (operation);
  ZnOpWhole       *task  = data;
  const ZnOpZImage image = asked (o);

  task->base = ZN_OP_BASE (o);
  if (zn_op_zimage_describe (task, operation, &image))
    task->run = run;
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
