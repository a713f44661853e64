/* SPDX-License-Identifier: MIT
 *
 * zenith-operations.c - see the header.
 */
#include <errno.h>
#include <unistd.h>

#include <gegl.h>
#include <glib/gi18n-lib.h>
#include <glib/gstdio.h>

#include "zenith-filters.h"
#include "zenith-operations.h"
#include "zenith-settings.h"

#define MODULE "zenith-ops." G_MODULE_SUFFIX

static gboolean apart;

/* Where they are installed; $ZENITH_OPS is for tests. */
static const gchar *
ops_folder (void)
{
  const gchar *ops = g_getenv ("ZENITH_OPS");

  return ops && *ops ? ops : ZENITH_OPS_DIR;
}

gboolean
zn_operations_load (void)
{
  const gchar *operation = zn_filters[0].operation;
  gchar       *module    = g_build_filename (ops_folder (), MODULE, NULL);

  if (! gegl_has_operation (operation) && g_file_test (module, G_FILE_TEST_EXISTS))
    {
      gegl_load_module_directory (ops_folder ());
      apart = gegl_has_operation (operation);
    }
  g_free (module);

  return gegl_has_operation (operation);
}

gboolean
zn_operations_are_apart (void)
{
  return apart;
}

gchar *
zn_operations_link_name (void)
{
  return g_build_filename (g_get_user_data_dir (), "gegl-0.4", "plug-ins", MODULE, NULL);
}

gboolean
zn_operations_link (GError **error)
{
  gchar   *name   = zn_operations_link_name ();
  gchar   *folder = g_path_get_dirname (name);
  gchar   *module = g_build_filename (ops_folder (), MODULE, NULL);
  gboolean done;

  g_mkdir_with_parents (folder, 0700);
  g_unlink (name); /* an old one, that leads nowhere: GEGL did not find it */
  done = ! symlink (module, name);
  if (! done)
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, _ ("%s cannot be written: %s"), name,
                 g_strerror (errno));

  g_free (module);
  g_free (folder);
  g_free (name);

  return done;
}
