/* SPDX-License-Identifier: MIT */
/* zenith-diffae-reconstruct.c - a face through the model and back. */

#include "config.h"
#include <glib/gi18n-lib.h>
#include "op-common.h"
#include "op-face.h"

/* clang-format off */
#ifdef GEGL_PROPERTIES

zenith_property_face_model
zenith_property_face_steps (20)
zenith_property_face_stochastic_steps (20)
zenith_property_face_frame

zenith_properties_of_a_large_run
zenith_property_face_find

zenith_property_face_taken

zenith_property_computed_by

#else

#define GEGL_OP_FILTER
#define GEGL_OP_NAME     zenith_diffae_reconstruct
#define GEGL_OP_C_SOURCE zenith-diffae-reconstruct.c

/* clang-format on */
#include "gegl-op.h"

static ZnOpFace
asked (GeglProperties *o)
{
  return ZN_OP_FACE (o, ZN_FACE_RECONSTRUCT);
}

ZN_OP_FACE_CALLS (asked)

static void
gegl_op_class_init (GeglOpClass *klass)
{
  GeglOperationClass *operation_class = GEGL_OPERATION_CLASS (klass);

  zn_op_whole_class_init (operation_class, describe);

  gegl_operation_class_set_keys (operation_class, "name", "zenith:diffae-reconstruct", "title",
                                 _ ("Reconstruct a Face"), "categories", "artistic", "description",
                                 _ ("Shows what the face model keeps of a face"), NULL);
}

#endif
