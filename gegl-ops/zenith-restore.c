/* SPDX-License-Identifier: MIT */
/* zenith-restore.c - undoes blur, JPEG compression, noise, dirt and fading. */

#include "config.h"
#include <glib/gi18n-lib.h>
#include "op-common.h"
#include "op-engine.h"

/* clang-format off */
#ifdef GEGL_PROPERTIES

property_double (deblur, _("Blur"), 0.0)
  description (_("Standard deviation of the blur that is undone, in pixels; 0 finds it in the picture, -1 leaves blur alone"))
  value_range (-1.0, 10.0)
  ui_range    (-1.0, 4.0)

property_double (artefacts, _("JPEG artifacts"), 0.0)
  description (_("100 minus the quality of the JPEG file; 0 finds it in the picture, -1: there are none"))
  value_range (-1.0, 100.0)

property_double (noise, _("Noise level"), 0.0)
  description (_("Standard deviation of the noise, of 255; 0 finds it in the picture, -1: there is none"))
  value_range (-1.0, 100.0)
  ui_range    (-1.0, 30.0)

property_double (dust, _("Dust and scratches"), 0.0)
  description (_("How much of dust, hairs, scratches and stains is removed"))
  value_range (0.0, 1.0)

property_double (fading, _("Fading"), 0.0)
  description (_("How much of lost contrast and of a color cast is undone"))
  value_range (0.0, 1.0)

property_double (strength, _("Strength"), 1.0)
  description (_("How much of the network's change is used"))
  value_range (0.0, 1.0)

zenith_properties_of_a_run
zenith_property_computed_by
zenith_property_found

#else

#define GEGL_OP_FILTER
#define GEGL_OP_NAME     zenith_restore
#define GEGL_OP_C_SOURCE zenith-restore.c

/* clang-format on */
#include "gegl-op.h"

static void
describe (GeglOperation *operation, gpointer data)
{
  GeglProperties  *o      = GEGL_PROPERTIES (operation);
  ZnOpTiled       *task   = data;
  const zn_choice  choice = zn_op_choice (&ZN_OP_BASE (o));
  const zn_restore how    = { .deblur    = o->deblur,
                              .artefacts = o->artefacts,
                              .noise     = o->noise,
                              .dust      = o->dust,
                              .fading    = o->fading,
                              .strength  = o->strength };

  task->base     = ZN_OP_BASE (o);
  task->measured = &o->measured;
  task->fault[0] = &o->measured_blur;
  task->fault[1] = &o->measured_artefacts;
  task->fault[2] = &o->measured_noise;
  task->status   = zn_restore_describe (&task->plan, zn_op_session (), &choice, &how, task->width,
                                        task->height, task->side, &task->refusal);
}

static void
gegl_op_class_init (GeglOpClass *klass)
{
  GeglOperationClass *operation_class = GEGL_OPERATION_CLASS (klass);

  zn_op_tiled_class_init (operation_class, describe);

  gegl_operation_class_set_keys (
      operation_class, "name", "zenith:restore", "title", _ ("Restore"), "categories", "enhance",
      "description", _ ("Undoes blur, JPEG artifacts and noise with a neural network"),
      "gimp:menu-path", "<Image>/Filters/Zenith/", "gimp:menu-label", _ ("Re_store..."), NULL);
}

#endif
