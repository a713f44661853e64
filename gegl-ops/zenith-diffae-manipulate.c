/* SPDX-License-Identifier: MIT */
/* zenith-diffae-manipulate.c - attributes of a face, more or less of them. */

#include "config.h"
#include <string.h>
#include <glib/gi18n-lib.h>
#include "op-common.h"
#include "op-face.h"

/* clang-format off */
#ifdef GEGL_PROPERTIES

property_string (attribute, _("Attribute"), "smile")
  description (_("smile, mouth-open, eyes-open, age, gender, or one of your own"))

property_double (amount, _("Amount"), 0.0)
  description (_("How much more of it, or less; 0 leaves the picture as it is"))
  value_range (-1.0, 1.0)

zenith_property_face_steps (10)
zenith_property_face_stochastic_steps (10)

property_double (detail, _("Detail"), 0.7)
  description (_("How much fine structure of the original stays where the face changes"))
  value_range (0.0, 1.0)

zenith_property_face_model
zenith_property_face_frame

zenith_properties_of_a_large_run
zenith_property_face_find

property_string (attributes, _("Attributes"), "")
  description (_("The attributes available for the model"))
  ui_meta ("sensitive", "0")

zenith_property_face_taken

zenith_property_computed_by

zenith_property_face_slider (smile, _("Smile"), _("Above 0 more of it, below 0 less"))
zenith_property_face_slider (mouth_open, _("Mouth open"), _("Above 0 more of it, below 0 less"))
zenith_property_face_slider (eyes_open, _("Eyes open"), _("Above 0 more of it, below 0 less"))
zenith_property_face_slider (age, _("Age"), _("Above 0 older, below 0 younger; not in years"))
zenith_property_face_slider (gender, _("Gender"), _("Above 0 more masculine, below 0 more feminine"))

zenith_property_face_choice

#else

#define GEGL_OP_FILTER
#define GEGL_OP_NAME     zenith_diffae_manipulate
#define GEGL_OP_C_SOURCE zenith-diffae-manipulate.c

/* clang-format on */
#include "gegl-op.h"

static ZnOpFace
asked (GeglProperties *o)
{
  const gdouble slider[ZN_FACE_SLIDERS] = { o->smile, o->mouth_open, o->eyes_open, o->age,
                                            o->gender };
  ZnOpFace      face                    = ZN_OP_FACE (o, ZN_FACE_MANIPULATE);

  memcpy (face.how.slider, slider, sizeof (slider)); /* in the order of zn_face_sliders */
  face.how.change[0] = (zn_face_change){ o->attribute ? o->attribute : "", o->amount };
  face.how.detail    = o->detail;
  face.how.face      = o->face;
  face.faces         = &o->faces;

  return face;
}

ZN_OP_FACE_CALLS (asked)

static void
describe_with_names (GeglOperation *operation, gpointer task)
{
  GeglProperties *o = GEGL_PROPERTIES (operation);

  zn_op_face_show_attributes (operation, &o->attributes, o->model);
  describe (operation, task);
}

static void
gegl_op_class_init (GeglOpClass *klass)
{
  GeglOperationClass *operation_class = GEGL_OPERATION_CLASS (klass);

  zn_op_whole_class_init (operation_class, describe_with_names);

  gegl_operation_class_set_keys (operation_class, "name", "zenith:diffae-manipulate", "title",
                                 _ ("Change a Face"), "categories", "artistic", "description",
                                 _ ("Changes attributes of a face: smile, age and others"), NULL);
}

#endif
