/* SPDX-License-Identifier: MIT */
/* zenith-diffae-interpolate.c - a face between two. */

#include "config.h"
#include <glib/gi18n-lib.h>
#include "op-common.h"
#include "op-face.h"

/* clang-format off */
#ifdef GEGL_PROPERTIES

property_double (position, _("Position"), 0.5)
  description (_("From the face of the picture (0) to that of the second one (1)"))
  value_range (0.0, 1.0)

property_file_path (path, _("Second picture"), "")
  description (_("A file of the same size, if nothing is connected to the second input"))

zenith_property_face_steps (20)
zenith_property_face_stochastic_steps (20)
zenith_property_face_model
zenith_property_face_frame

zenith_properties_of_a_large_run

property_int (strip, _("Strip"), 0)
  description (_("Pictures side by side, from the first face to the second; 0: one picture, at the position"))
  value_range (0, 100) ui_range (0, 12)

property_boolean (loop, _("Loop"), FALSE)
  description (_("Whether a strip leads back to the first face, for an animation without an end"))

zenith_property_face_find

zenith_property_face_taken

zenith_property_computed_by

#else

#define GEGL_OP_COMPOSER
#define GEGL_OP_NAME     zenith_diffae_interpolate
#define GEGL_OP_C_SOURCE zenith-diffae-interpolate.c

/* clang-format on */
#include "gegl-op.h"

static ZnOpFace
asked (GeglProperties *o)
{
  ZnOpFace face = ZN_OP_FACE (o, ZN_FACE_INTERPOLATE);

  face.how.position = o->position;
  face.how.strip    = o->strip;
  face.how.loop     = o->loop;
  face.second       = o->path;

  return face;
}

ZN_OP_FACE_CALLS (asked)

static void
gegl_op_class_init (GeglOpClass *klass)
{
  GeglOperationClass *operation_class = GEGL_OPERATION_CLASS (klass);

  zn_op_whole_class_init (operation_class, describe);

  gegl_operation_class_set_keys (operation_class, "name", "zenith:diffae-interpolate", "title",
                                 _ ("Blend Two Faces"), "categories", "artistic", "description",
                                 _ ("Makes a face between that of the picture and that of another"),
                                 NULL);
}

#endif
