/* SPDX-License-Identifier: MIT */
/* zenith-identity.c - the smallest operation, to copy from and to test with: the
 * network gives back the picture that it gets.  The name of this file becomes
 * the name of a GType: it starts with zenith. */

#include "config.h"
#include <glib/gi18n-lib.h>
#include "op-common.h"
#include "op-engine.h"

/* clang-format off */
#ifdef GEGL_PROPERTIES

property_double (strength, _("Strength"), 1.0)
  description (_("How much of the network's change is used"))
  value_range (0.0, 1.0)

zenith_properties_of_a_run
zenith_property_computed_by

#else

#define GEGL_OP_FILTER
#define GEGL_OP_NAME     zenith_identity
#define GEGL_OP_C_SOURCE zenith-identity.c

/* clang-format on */
#include "gegl-op.h"

static void
describe (GeglOperation *operation, gpointer data)
{
  GeglProperties  *o      = GEGL_PROPERTIES (operation);
  ZnOpTiled       *task   = data;
  const zn_choice  choice = zn_op_choice (&ZN_OP_BASE (o));
  const zn_enhance how    = {
       .model = "identity", .strength = o->strength, .luma = 1.0, .chroma = 1.0
  };

  task->base   = ZN_OP_BASE (o);
  task->status = zn_enhance_describe (&task->plan, zn_op_session (), &choice, &how, task->width,
                                      task->height, task->side, &task->refusal);
}

static void
gegl_op_class_init (GeglOpClass *klass)
{
  GeglOperationClass *operation_class = GEGL_OPERATION_CLASS (klass);

  zn_op_tiled_class_init (operation_class, describe);

  gegl_operation_class_set_keys (operation_class, "name", "zenith:identity", "title",
                                 _ ("Identity"), "categories", "hidden", "description",
                                 _ ("Gives back the picture, by way of the engine"), NULL);
}

#endif
