/* SPDX-License-Identifier: MIT */
/* zenith-latent-decode.c - makes a picture of a latent, 8 times the size. */

#include "config.h"
#include <glib/gi18n-lib.h>
#include "op-common.h"

/* clang-format off */
#ifdef GEGL_PROPERTIES

zenith_property_autoencoder
zenith_property_weights
zenith_properties_of_a_run
zenith_property_planes

zenith_property_computed_by

#else

#define GEGL_OP_FILTER
#define GEGL_OP_NAME     zenith_latent_decode
#define GEGL_OP_C_SOURCE zenith-latent-decode.c

/* clang-format on */
#include "gegl-op.h"

static void
describe (GeglOperation *operation, gpointer data)
{
  GeglProperties *o    = GEGL_PROPERTIES (operation);
  ZnOpLatentTask *task = data;

  task->base        = ZN_OP_BASE (o);
  task->autoencoder = o->model;
  task->weights     = o->weights;
  task->planes      = o->planes;
  task->decodes     = TRUE;
}

static void
gegl_op_class_init (GeglOpClass *klass)
{
  GeglOperationClass *operation_class = GEGL_OPERATION_CLASS (klass);

  zn_op_latent_class_init (operation_class, describe);

  gegl_operation_class_set_keys (
      operation_class, "name", "zenith:latent-decode", "title", _ ("Latent Decode"), "categories",
      "programming", "description",
      _ ("Makes a picture of a latent: 8 times the size (32 for taesana)"), NULL);
}

#endif
