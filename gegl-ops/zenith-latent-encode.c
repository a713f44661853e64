/* SPDX-License-Identifier: MIT */
/* zenith-latent-encode.c - makes the latent of a picture: a float buffer of an 8th
 * of the size. */

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
#define GEGL_OP_NAME     zenith_latent_encode
#define GEGL_OP_C_SOURCE zenith-latent-encode.c

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
  task->encodes     = TRUE;
}

static void
gegl_op_class_init (GeglOpClass *klass)
{
  GeglOperationClass *operation_class = GEGL_OPERATION_CLASS (klass);

  zn_op_latent_class_init (operation_class, describe);

  gegl_operation_class_set_keys (operation_class, "name", "zenith:latent-encode", "title",
                                 _ ("Latent Encode"), "categories", "programming", "description",
                                 _ ("Makes the latent of a picture: a float buffer of an 8th of "
                                    "the size (a 32nd for taesana)"),
                                 NULL);
}

#endif
