/* SPDX-License-Identifier: MIT */
/* test_operations.c - a module that GEGL does not look for: loaded, linked, and gone again (lib/filters/zenith-operations.h).
 *
 * Compiled with a ZENITH_OPS_DIR of its own, which it fills and deletes.  Each state is one more process:
 *   test_operations [STATE]    exits with 0 if the state is as it should be */

#include <gegl.h>
#include <glib/gstdio.h>
#include <string.h>

#include "zenith-operations.h"

static gint failed;

static void
check (const gchar *name, gboolean ok)
{
  g_print ("%s %s\n", ok ? "ok" : "not ok", name);
  failed += ! ok;
}

/* GEGL here has the operations, and whether it needed us for that. */
static gboolean
state_is (gboolean found, gboolean apart)
{
  gboolean ok;

  gegl_init (NULL, NULL);
  ok = zn_operations_load () == found && zn_operations_are_apart () == apart;
  gegl_exit ();

  return ok;
}

/* Another process has that state, without a word on stderr about our module. */
static gboolean
other_is (const gchar *self, const gchar *state)
{
  const gchar *argv[] = { self, state, NULL };
  gchar       *said   = NULL;
  gint         status = -1;
  gboolean     ok = g_spawn_sync (NULL, (gchar **) argv, NULL, 0, NULL, NULL, NULL, &said, &status,
                                  NULL) &&
                ! status && ! strstr (said, "zenith-ops");

  g_free (said);

  return ok;
}

int
main (int argc, char *argv[])
{
  gchar *home, *link, *data = NULL;
  gsize  size;

  if (argc > 1)
    return ! state_is (strcmp (argv[1], "none") != 0, ! strcmp (argv[1], "apart"));

  home = g_dir_make_tmp ("zenith-operations-XXXXXX", NULL);
  g_setenv ("XDG_DATA_HOME", home, TRUE);
  g_unsetenv ("GEGL_PATH");
  g_mkdir_with_parents (ZENITH_OPS_DIR, 0700);
  link = zn_operations_link_name ();
  check ("without the module there are no operations", other_is (argv[0], "none"));
  check ("a copy of the module",
         g_file_get_contents (OPS_DIR "/zenith-ops.so", &data, &size, NULL) &&
             g_file_set_contents (ZENITH_OPS_DIR "/zenith-ops.so", data, (gssize) size, NULL));
  check ("GEGL does not look there: it is loaded", other_is (argv[0], "apart"));
  check ("a link for GIMP, twice",
         zn_operations_link (NULL) && zn_operations_link (NULL) && g_str_has_prefix (link, home));
  check ("GEGL finds it by itself", other_is (argv[0], "own"));
  g_unlink (ZENITH_OPS_DIR "/zenith-ops.so");
  check ("uninstalled: the link leads nowhere, and nobody minds", other_is (argv[0], "none"));

  g_unlink (link);
  g_rmdir (ZENITH_OPS_DIR);
  for (gint i = 0; i < 2; i++)
    {
      *strrchr (link, '/') = '\0';
      g_rmdir (link);
    }
  g_rmdir (home);
  g_print ("%d passed, %d failed, 0 skipped\n", 6 - failed, failed);

  return failed != 0;
}
