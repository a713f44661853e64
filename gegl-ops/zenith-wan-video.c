/* SPDX-License-Identifier: MIT */
/* zenith-wan-video.c - frames through Wan's autoencoder for videos, and back. */

#include "config.h"
#include <glib/gi18n-lib.h>
#include "op-common.h"

/* clang-format off */
#ifdef GEGL_PROPERTIES

property_int (frames, _("Frames"), 0)
  description (_("How many frames of equal height the picture is, one below the other; in GIMP, how "
                 "many layers, from the lowest up. 0: one; in GIMP, all"))
  value_range (0, 1 << 20)

zenith_property_weights
zenith_properties_of_a_run
zenith_property_computed_by

#else

#define GEGL_OP_FILTER
#define GEGL_OP_NAME     zenith_wan_video
#define GEGL_OP_C_SOURCE zenith-wan-video.c

/* clang-format on */
#include "gegl-op.h"

static void
describe (GeglOperation *operation, gpointer data)
{
  GeglProperties *o    = GEGL_PROPERTIES (operation);
  ZnOpLatentTask *task = data;

  task->base    = ZN_OP_BASE (o);
  task->frames  = MAX (o->frames, 1);
  task->weights = o->weights;
  task->encodes = task->decodes = TRUE;
}

static void
gegl_op_class_init (GeglOpClass *klass)
{
  GeglOperationClass *operation_class = GEGL_OPERATION_CLASS (klass);

  zn_op_latent_class_init (operation_class, describe);

  gegl_operation_class_set_keys (
      operation_class, "name", "zenith:wan-video", "title", _ ("Wan Video"), "categories",
      "programming", "description",
      _ ("Shows what Wan's autoencoder keeps of a video: frames, one below the other"), NULL);
}

#endif
