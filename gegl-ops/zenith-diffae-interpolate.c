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

zenith_property_engine
zenith_property_status
zenith_property_precision
zenith_property_note
zenith_property_memory
zenith_property_failed

property_int (strip, _("Strip"), 0)
  description (_("Pictures side by side, from the first face to the second; 0: one picture, at the position"))
  value_range (0, 100) ui_range (0, 12)

zenith_property_face_find

zenith_property_face_taken

zenith_property_computed_by

#else

#define GEGL_OP_COMPOSER
#define GEGL_OP_NAME     zenith_diffae_interpolate
#define GEGL_OP_C_SOURCE zenith-diffae-interpolate.c

/* clang-format on */
#include "gegl-op.h"

static zn_status
run (const ZnOpWhole   *task,
     ZnOpModel *const  *model,
     const ZnOpPicture *in,
     gint               n_in,
     zn_array          *out,
     ZnOpRequest       *request)
{
  GeglProperties   *o    = GEGL_PROPERTIES (request->operation);
  const ZnOpFace    face = ZN_OP_FACE (o);
  const ZnOpFaceRun how  = { task, model, in, out, request, &face };

  const gint  strip = o->strip > 1 ? o->strip : 0;
  ZnOpPicture file  = { 0 };
  zn_status   status;

  if (n_in > 1)
    return zn_op_face_interpolate (&how, &in[1], o->position, strip);

  status = zn_op_face_load (&file, o->path, request);
  if (! status)
    status = zn_op_face_interpolate (&how, &file, o->position, strip);
  g_clear_object (&file.buffer);

  return status;
}

ZN_OP_FACE_LOCATE (locate)

static void
describe (GeglOperation *operation, gpointer data)
{
  GeglProperties *o    = GEGL_PROPERTIES (operation);
  ZnOpWhole      *task = data;
  const ZnOpFace  face = ZN_OP_FACE (o);

  task->base   = ZN_OP_BASE (o);
  task->locate = locate;
  if (o->position == 0.0 && o->strip < 2)
    return; /* without run() the input is the result */

  zn_op_face_describe (task, &face);
  zn_op_face_add_number (task, o->position);
  if (o->path && *o->path)
    zn_key_add_file (&task->settings, o->path);
  if (o->strip > 1)
    zn_op_face_describe_strip (task, o->strip);
  task->run = run;
}

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
