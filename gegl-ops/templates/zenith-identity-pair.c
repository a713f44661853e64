/* SPDX-License-Identifier: MIT */
/* zenith-identity-pair.c - the smallest operation on whole pictures, to copy from and to
 * test with: the network gives back what it gets, of two pictures, which are mixed.  The
 * result may have another size than the input. */

#include "config.h"
#include <glib/gi18n-lib.h>
#include "op-common.h"
#include "op-engine.h"

/* clang-format off */
#ifdef GEGL_PROPERTIES

property_double (position, _("Position"), 0.5)
  description (_("From the picture (0) to the second one (1), if there is one"))
  value_range (0.0, 1.0)

property_int (width, _("Width"), 0)
  description (_("Width of the result; 0: the picture's"))
  value_range (0, 65536)

property_int (height, _("Height"), 0)
  description (_("Height of the result; 0: the picture's"))
  value_range (0, 65536)

zenith_properties_of_a_run
zenith_property_computed_by

#else

#define GEGL_OP_COMPOSER
#define GEGL_OP_NAME     zenith_identity_pair
#define GEGL_OP_C_SOURCE zenith-identity-pair.c

/* clang-format on */
#include "gegl-op.h"

/* out = (1 - position) * first + position * second, each through the network. */
static zn_status
run (const ZnOpWhole *task, const ZnOpPicture *in, gint n_in, zn_array *out, ZnOpRequest *request)
{
  const zn_rect  all   = { 0, 0, out->w, out->h };
  const gsize    len   = zn_array_len (out);
  const gdouble  share = n_in > 1 ? task->place[0] : 0.0;
  zn_array       seen  = *out;
  zn_array       made  = *out;
  const zn_terms terms = zn_op_terms (&task->base);
  zn_use        *use   = NULL;
  zn_status      status;

  status    = zn_use_begin (&use, zn_op_session (), "identity", NULL, &terms, &request->err);
  seen.data = gegl_malloc (len * sizeof (gfloat));
  made.data = gegl_malloc (len * sizeof (gfloat));
  for (gint i = 0; ! status && i < n_in; i++)
    {
      const gfloat weight = i ? share : 1.0 - share;

      zn_op_picture_read ((ZnOpPicture *) &in[i], all, seen.data);
      zn_op_request_part (request, (gdouble) i / n_in, 1.0 / n_in);
      status = zn_op_use_run (use, &made, &seen, 1, request);
      for (gsize j = 0; ! status && j < len; j++)
        out->data[j] = (i ? out->data[j] : 0.0f) + weight * made.data[j];
    }
  gegl_free (seen.data);
  gegl_free (made.data);
  zn_use_end (&use);

  return status;
}

static void
describe (GeglOperation *operation, gpointer data)
{
  GeglProperties *o    = GEGL_PROPERTIES (operation);
  ZnOpWhole      *task = data;
  zn_geometry     geometry;
  zn_terms        terms;

  task->base = ZN_OP_BASE (o);
  terms      = zn_op_terms (&task->base);
  /* what cannot run keeps the input's size */
  zn_session_geometry (&geometry, zn_op_session (), "identity", NULL, &terms, &task->refusal);
  task->place[0] = o->position;
  zn_key_add (&task->settings, &o->position, sizeof (o->position));
  task->run = run;
  if (o->width)
    task->result.width = o->width;
  if (o->height)
    task->result.height = o->height;
}

static void
gegl_op_class_init (GeglOpClass *klass)
{
  GeglOperationClass *operation_class = GEGL_OPERATION_CLASS (klass);

  zn_op_whole_class_init (operation_class, describe);

  gegl_operation_class_set_keys (operation_class, "name", "zenith:identity-pair", "title",
                                 _ ("Identity of Two"), "categories", "hidden", "description",
                                 _ ("Mixes two pictures, by way of the engine"), NULL);
}

#endif
