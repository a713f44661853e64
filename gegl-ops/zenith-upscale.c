/* SPDX-License-Identifier: MIT */
/* zenith-upscale.c - enlarges a picture 2, 3 or 4 times. */

#include "config.h"
#include <glib/gi18n-lib.h>
#include "op-common.h"
#include "op-engine.h"

/* clang-format off */
#ifdef GEGL_PROPERTIES

property_int (scale, _("Scale"), 2)
  description (_("How many times as wide and high the result is"))
  value_range (2, 4)

property_enum (model, _("Model"),
               ZenithUpscaleModel, zenith_upscale_model,
               ZENITH_UPSCALE_MODEL_FAITHFUL)
  description (_("A larger network takes longer and keeps more detail"))

property_double (noise, _("Noise level"), 0.0)
  description (_("Standard deviation of the noise, of 255; 0 finds it in the picture, -1: there is none"))
  value_range (-1.0, 100.0)
  ui_range    (-1.0, 25.0)

property_double (artefacts, _("JPEG artifacts"), 0.0)
  description (_("100 minus the quality of the JPEG file; 0 finds it in the picture, -1: there are none"))
  value_range (-1.0, 100.0)

zenith_properties_of_a_run
zenith_property_computed_by

#else

#define GEGL_OP_FILTER
#define GEGL_OP_NAME     zenith_upscale
#define GEGL_OP_C_SOURCE zenith-upscale.c

/* clang-format on */
#include "gegl-op.h"

static void
describe (GeglOperation *operation, gpointer data)
{
  GeglProperties  *o      = GEGL_PROPERTIES (operation);
  ZnOpTiled       *task   = data;
  const zn_choice  choice = zn_op_choice (&ZN_OP_BASE (o));
  const zn_upscale how    = { .scale     = o->scale,
                              .model     = zn_op_nick (zenith_upscale_model_get_type (), o->model),
                              .noise     = o->noise,
                              .artefacts = o->artefacts };

  task->base   = ZN_OP_BASE (o);
  task->status = zn_upscale_describe (&task->plan, zn_op_session (), &choice, &how, task->width,
                                      task->height, task->side, &task->refusal);
}

static void
gegl_op_class_init (GeglOpClass *klass)
{
  GeglOperationClass *operation_class = GEGL_OPERATION_CLASS (klass);

  zn_op_tiled_class_init (operation_class, describe);
  zn_op_tiled_enlarges (operation_class);

  /* No "transform": GIMP hides operations of that kind, and 3.2 refuses them as filters. */
  gegl_operation_class_set_keys (operation_class, "name", "zenith:upscale", "title", _ ("Enlarge"),
                                 "categories", "enhance", "description",
                                 _ ("Enlarges a picture with a neural network; in GIMP's own "
                                    "dialog only layers with an alpha channel grow, and the "
                                    "canvas keeps its size"),
                                 NULL);
}

#endif
