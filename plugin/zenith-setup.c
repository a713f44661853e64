/* SPDX-License-Identifier: MIT
 *
 * zenith-setup.c - see the header.
 */
#include <glib/gi18n-lib.h>
#include <glib/gstdio.h>
#include <libgimp/gimpui.h>

#include "zenith-operations.h"
#include "zenith-recent.h"
#include "zenith-setup.h"

/* Where GIMP keeps what plug-ins said of themselves.  Without it GIMP asks them again: the menu entries of the
 * operations take the place of the plug-in's. */
static void
forget_menu_entries (void)
{
  gchar *list = g_build_filename (gimp_directory (), "pluginrc", NULL);

  g_unlink (list);
  g_free (list);
}

static gboolean
wanted (void)
{
  gchar     *link     = zn_operations_link_name ();
  GtkWidget *question = gtk_message_dialog_new (
      NULL, 0, GTK_MESSAGE_QUESTION, GTK_BUTTONS_NONE, "%s",
      _ ("GIMP does not find Zenith's operations yet.  Shall it, so that filters stay editable?"));
  gint answer;

  gtk_window_set_title (GTK_WINDOW (question), "Zenith");
  gtk_message_dialog_format_secondary_text (
      GTK_MESSAGE_DIALOG (question),
      _ ("This makes the link %s, which GIMP ignores once Zenith is uninstalled.  "
         "The filters work without it, too."),
      link);
  gtk_dialog_add_buttons (GTK_DIALOG (question), _ ("_Not Now"), GTK_RESPONSE_CANCEL,
                          _ ("_Make the Link"), GTK_RESPONSE_OK, NULL);
  answer = gtk_dialog_run (GTK_DIALOG (question));
  gtk_widget_destroy (question);
  g_free (link);

  return answer == GTK_RESPONSE_OK;
}

void
zn_setup_ask (void)
{
  GError *error = NULL;

  zn_operations_load ();
  if (! zn_operations_are_apart () || zn_recent_asked_link ())
    return;

  zn_recent_set_asked_link ();
  if (! wanted ())
    return;
  if (zn_operations_link (&error))
    {
      forget_menu_entries ();
      g_message ("%s", _ ("GIMP finds the operations when it is started again."));
    }
  else
    {
      g_message ("%s", error->message);
      g_error_free (error);
    }
}
