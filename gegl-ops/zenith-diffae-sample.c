/* SPDX-License-Identifier: MIT */
/* zenith-diffae-sample.c - an invented face, from a seed. */

#include "config.h"
#include <glib/gi18n-lib.h>
#include "op-common.h"
#include "op-face.h"

/* clang-format off */
#ifdef GEGL_PROPERTIES

property_int (seed, _("Random seed"), 19)
  description (_("Another number makes another face"))
  value_range (0, G_MAXINT)
  ui_range (0, 100)

zenith_property_face_steps (20)

property_int (latent_steps, _("Latent steps"), 200)
  description (_("Steps from noise to a code"))
  value_range (2, 1000)
  ui_range (10, 500)

zenith_property_face_model

zenith_properties_of_a_large_run
zenith_property_computed_by

#else

#define GEGL_OP_SOURCE
#define GEGL_OP_NAME     zenith_diffae_sample
#define GEGL_OP_C_SOURCE zenith-diffae-sample.c

/* clang-format on */
#include "gegl-op.h"

static ZnOpFace
asked (GeglProperties *o)
{
  return (ZnOpFace){ .how    = { .task         = ZN_FACE_SAMPLE,
                                 .model        = o->model,
                                 .seed         = o->seed,
                                 .steps        = o->steps,
                                 .latent_steps = o->latent_steps },
                     .memory = &o->memory };
}

ZN_OP_FACE_CALLS (asked)

static void
gegl_op_class_init (GeglOpClass *klass)
{
  GeglOperationClass *operation_class = GEGL_OPERATION_CLASS (klass);

  zn_op_whole_class_init (operation_class, describe);

  gegl_operation_class_set_keys (operation_class, "name", "zenith:diffae-sample", "title",
                                 _ ("New Face"), "categories", "render", "description",
                                 _ ("Makes up the face of a person who does not exist"), NULL);
}

#endif
