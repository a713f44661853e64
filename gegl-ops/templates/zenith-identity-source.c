/* SPDX-License-Identifier: MIT */
/* zenith-identity-source.c - the smallest operation without an input, to copy from and to
 * test with: the network gives back a picture that is made up here. */

#include "config.h"
#include <glib/gi18n-lib.h>
#include "op-common.h"
#include "op-engine.h"

/* clang-format off */
#ifdef GEGL_PROPERTIES

property_int (width, _("Width"), 512)
  value_range (1, 65536)

property_int (height, _("Height"), 512)
  value_range (1, 65536)

property_seed (seed, _("Random seed"), rand)

zenith_properties_of_a_run
zenith_property_computed_by

#else

#define GEGL_OP_SOURCE
#define GEGL_OP_NAME     zenith_identity_source
#define GEGL_OP_C_SOURCE zenith-identity-source.c

/* clang-format on */
#include "gegl-op.h"

static zn_status
run (const ZnOpWhole *task, const ZnOpPicture *in, gint n_in, zn_array *out, ZnOpRequest *request)
{
  GRand         *random = g_rand_new_with_seed ((guint32) task->place[0]);
  zn_array       noise  = *out;
  const zn_terms terms  = zn_op_terms (&task->base);
  zn_use        *use    = NULL;
  zn_status      status;

  noise.data = gegl_malloc (zn_array_len (out) * sizeof (gfloat));
  for (gsize i = 0; i < zn_array_len (out); i++)
    noise.data[i] = (gfloat) g_rand_double (random);
  status = zn_use_begin (&use, zn_op_session (), "identity", NULL, &terms, &request->err);
  if (! status)
    status = zn_op_use_run (use, out, &noise, 1, request);
  zn_use_end (&use);
  gegl_free (noise.data);
  g_rand_free (random);

  return status;
}

static void
describe (GeglOperation *operation, gpointer data)
{
  GeglProperties *o    = GEGL_PROPERTIES (operation);
  ZnOpWhole      *task = data;

  task->base     = ZN_OP_BASE (o);
  task->place[0] = o->seed;
  zn_key_add (&task->settings, &o->seed, sizeof (o->seed));
  task->result = *GEGL_RECTANGLE (0, 0, o->width, o->height);
  task->run    = run;
}

static void
gegl_op_class_init (GeglOpClass *klass)
{
  GeglOperationClass *operation_class = GEGL_OPERATION_CLASS (klass);

  zn_op_whole_class_init (operation_class, describe);

  gegl_operation_class_set_keys (operation_class, "name", "zenith:identity-source", "title",
                                 _ ("Identity of None"), "categories", "hidden", "description",
                                 _ ("Makes up a picture, by way of the engine"), NULL);
}

#endif
