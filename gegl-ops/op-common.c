/* SPDX-License-Identifier: MIT */
/* op-common.c - the task of an operation, and the place of its input. */

#include "config.h"

#include <glib/gi18n-lib.h>

#include "op-common.h"

#define MAX_SIDE (1 << 20) /* of a picture: twice GIMP's */
#define MAX_AREA ((gint64) 1 << 34)

static GQuark
describe_quark (void)
{
  return g_quark_from_static_string ("zenith-op-describe");
}

void
zn_op_set_describe (GeglOperationClass *klass, ZnOpDescribe describe)
{
  g_type_set_qdata (G_TYPE_FROM_CLASS (klass), describe_quark (), (gpointer) describe);

  klass->threaded       = FALSE;
  klass->opencl_support = FALSE;
}

void
zn_op_describe (GeglOperation *operation, gpointer task)
{
  ZnOpDescribe describe;

  describe = (ZnOpDescribe) g_type_get_qdata (G_OBJECT_TYPE (operation), describe_quark ());
  describe (operation, task);
}

gpointer
zn_op_data (GeglOperation *operation, const gchar *key, gsize size)
{
  gpointer data = g_object_get_data (G_OBJECT (operation), key);

  if (! data)
    {
      data = g_malloc0 (size);
      g_object_set_data_full (G_OBJECT (operation), key, data, g_free);
    }

  return data;
}

gboolean
zn_op_check_box (const GeglRectangle *box, zn_error *err)
{
  if (box->width <= 0 || box->height <= 0)
    g_strlcpy (err->text, _ ("There is no picture to work on."), sizeof (err->text));
  else if (gegl_rectangle_is_infinite_plane (box))
    g_strlcpy (err->text, _ ("The picture has no bounds: crop it first."), sizeof (err->text));
  else if (box->width > MAX_SIDE || box->height > MAX_SIDE ||
           (gint64) box->width * box->height > MAX_AREA)
    g_snprintf (err->text, sizeof (err->text),
                _ ("A picture of %d x %d is too large: crop it first."), box->width, box->height);
  else
    return TRUE;

  return FALSE;
}

gboolean
zn_op_input_box (GeglOperation *operation, GeglRectangle *box, zn_error *err)
{
  const GeglRectangle *in = gegl_operation_source_get_bounding_box (operation, "input");

  *box = in ? *in : *GEGL_RECTANGLE (0, 0, 0, 0);

  return zn_op_check_box (box, err);
}
