/* SPDX-License-Identifier: MIT
 *
 * zenith-teach.c - two sets of pictures to `zenith teach`; see the header.
 */
#include <string.h>

#include <glib/gstdio.h>
#include <libgimp/gimp.h>
#include <libgimp/gimpui.h>

#include "zenith-access.h"
#include "zenith-filters.h"
#include "zenith-settings.h"
#include "zenith-teach.h"
#include "zenith_number.h"

#define MAX_LAYERS 10000

/*  pictures  */

static void
save_png (GeglBuffer *buffer, const gchar *path)
{
  GeglNode *graph = gegl_node_new ();
  GeglNode *load  = gegl_node_new_child (graph, "operation", "gegl:buffer-source", "buffer", buffer,
                                         NULL);
  GeglNode *save  = gegl_node_new_child (graph, "operation", "gegl:png-save", "path", path,
                                         "bitdepth", 8, NULL);

  gegl_node_link (load, save);
  gegl_node_process (save);
  g_object_unref (graph);
}

/* The layers of a group as files of a new folder, in their order; NULL: there is no such
 * group. */
static gchar *
save_group (const ZnTeachHost *host, const gchar *group, GError **error)
{
  GeglBuffer *buffer = host->layer (host->data, group, 0);
  gchar      *folder;

  if (! buffer)
    return NULL;
  folder = g_dir_make_tmp ("zenith-teach-XXXXXX", error);
  for (guint i = 0; folder && buffer && i < MAX_LAYERS; i++)
    {
      gchar *name = g_strdup_printf ("%05u.png", i);
      gchar *path = g_build_filename (folder, name, NULL);

      save_png (buffer, path);
      g_free (path);
      g_free (name);
      g_object_unref (buffer);
      buffer = host->layer (host->data, group, i + 1);
    }
  g_clear_object (&buffer);

  return folder;
}

static void
remove_folder (gchar *folder)
{
  GDir        *dir = folder ? g_dir_open (folder, 0, NULL) : NULL;
  const gchar *name;

  while (dir && (name = g_dir_read_name (dir)))
    {
      gchar *path = g_build_filename (folder, name, NULL);

      g_unlink (path);
      g_free (path);
    }
  if (dir)
    g_dir_close (dir);
  if (folder)
    g_rmdir (folder);
  g_free (folder);
}

/*  the program  */

static gchar *
program (void)
{
  const gchar *given     = g_getenv ("ZENITH_PROGRAM");
  const gchar *installed = ZENITH_BINDIR "/zenith";

  if (given && *given)
    return g_strdup (given);
  if (g_file_test (installed, G_FILE_TEST_IS_EXECUTABLE))
    return g_strdup (installed);

  return g_find_program_in_path ("zenith");
}

/* The last line that is not empty, without the program's name. */
static gchar *
last_sentence (const gchar *said)
{
  gchar      **line = g_strsplit (said, "\n", -1);
  const gchar *last = "";
  gchar       *copy;

  for (guint i = 0; line[i]; i++)
    if (*g_strstrip (line[i]))
      last = line[i];
  copy = g_strdup (g_str_has_prefix (last, "zenith: ") ? last + strlen ("zenith: ") : last);
  g_strfreev (line);

  return copy;
}

static gboolean
run_program (const gchar *name,
             const gchar *with,
             const gchar *without,
             gchar      **report,
             GError     **error)
{
  gchar   *path   = program ();
  gchar   *argv[] = { path,           "teach",     (gchar *) name,    "--with",
                      (gchar *) with, "--without", (gchar *) without, NULL };
  gchar   *out    = NULL;
  gchar   *said   = NULL;
  gint     status = 1;
  gboolean done   = FALSE;

  if (! path)
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
                 _ ("The program 'zenith', which does the work, is not installed."));
  else if (g_spawn_sync (NULL, argv, NULL, 0, NULL, NULL, &out, &said, &status, error))
    {
      if (status == 0)
        {
          *report = g_strdup (g_strstrip (out));
          done    = TRUE;
        }
      else
        {
          gchar *why = last_sentence (said);

          g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, _ ("%s: %s"), _ ("Teach an Attribute"),
                       *why ? why : _ ("it ended without a message"));
          g_free (why);
        }
    }
  g_free (out);
  g_free (said);
  g_free (path);

  return done;
}

gboolean
zn_teach (const gchar *const text[ZN_TEACH_TEXTS],
          const ZnTeachHost *host,
          gchar            **report,
          GError           **error)
{
  gchar   *made[ZN_TEACH_TEXTS] = { NULL };
  GError  *failed               = NULL;
  gboolean done                 = FALSE;

  *report = NULL;
  for (gint i = ZN_TEACH_WITH; ! failed && i < ZN_TEACH_TEXTS; i++)
    {
      made[i] = save_group (host, text[i], &failed);
      if (! failed && ! made[i] && ! g_file_test (text[i], G_FILE_TEST_IS_DIR))
        g_set_error (&failed, ZN_ERROR, ZN_ERROR_FAILED,
                     _ ("There is no layer group with layers and no folder '%s'"), text[i]);
    }
  if (! failed && (! *text[ZN_TEACH_NAME] || *text[ZN_TEACH_NAME] == '-'))
    g_set_error (&failed, ZN_ERROR, ZN_ERROR_FAILED, "%s", _ ("The attribute needs a name"));
  if (failed)
    g_propagate_error (error, failed);
  else
    done = run_program (
        text[ZN_TEACH_NAME], made[ZN_TEACH_WITH] ? made[ZN_TEACH_WITH] : text[ZN_TEACH_WITH],
        made[ZN_TEACH_WITHOUT] ? made[ZN_TEACH_WITHOUT] : text[ZN_TEACH_WITHOUT], report, error);
  for (gint i = 0; i < ZN_TEACH_TEXTS; i++)
    remove_folder (made[i]);

  return done;
}

/*  the dialog  */

/* The number after these words; -1: there is none. */
static gdouble
number_after (const gchar *text, const gchar *words)
{
  const gchar *at = strstr (text, words);
  const gchar *end;
  gdouble      number;

  return at && zn_number_parse (&number, at + strlen (words), &end) ? number : -1.0;
}

/* The program's report, "NAME: 6 faces with, 7 without; AUROC 0.912 +- ...", in words, and itself. */
static gchar *
in_words (const gchar *report)
{
  const gdouble with = number_after (report, ": "), without = number_after (report, "with, ");
  const gdouble right = number_after (report, "AUROC ");
  const gchar  *verdict;
  gchar        *counts, *text;

  if (with < 0.0 || without < 0.0 || right < 0.0)
    return g_strdup (report);

  verdict = right >= 0.9 ? _ ("It is learned well.")
            : right >= 0.75
                ? _ ("It is learned, but more pictures would help.")
                : _ ("That is hardly better than chance: show more pictures, and such that "
                     "are alike in everything else.");
  counts  = g_strdup_printf (_ ("%d faces with it and %d without it were found."), (gint) with,
                             (gint) without);
  text = g_strdup_printf (_ ("%s Of two faces that it has not seen, it tells %d times in 100 which "
                             "one has it. %s"),
                          counts, (gint) (right * 100.0 + 0.5), verdict);
  g_free (counts);
  counts = g_strconcat (text, "\n\n", report, NULL);
  g_free (text);

  return counts;
}

static void
on_folder (GtkWidget *button, GtkWidget *entry)
{
  GtkWidget *chooser;

  chooser = gtk_file_chooser_dialog_new (_ ("A folder of pictures"),
                                         GTK_WINDOW (gtk_widget_get_toplevel (button)),
                                         GTK_FILE_CHOOSER_ACTION_SELECT_FOLDER, _ ("_Cancel"),
                                         GTK_RESPONSE_CANCEL, _ ("_Open"), GTK_RESPONSE_OK, NULL);
  if (gtk_dialog_run (GTK_DIALOG (chooser)) == GTK_RESPONSE_OK)
    {
      gchar *folder = gtk_file_chooser_get_filename (GTK_FILE_CHOOSER (chooser));

      if (folder)
        gtk_entry_set_text (GTK_ENTRY (entry), folder);
      g_free (folder);
    }
  gtk_widget_destroy (chooser);
}

/* An entry; for the sets with the groups to choose from, and a button for a folder. */
static GtkWidget *
row_new (GtkWidget *table, gint line, const gchar *text, const ZnTeachHost *host, guint group)
{
  GtkWidget *label = gtk_label_new_with_mnemonic (text);
  GtkWidget *box   = gtk_hbox_new (FALSE, 6);
  GtkWidget *entry;

  if (line == ZN_TEACH_NAME)
    {
      entry = gtk_entry_new ();
      gtk_box_pack_start (GTK_BOX (box), entry, TRUE, TRUE, 0);
    }
  else
    {
      GtkWidget *combo  = gtk_combo_box_text_new_with_entry ();
      GtkWidget *button = gtk_button_new_with_label (_ ("Folder..."));

      for (GList *l = host->groups; l; l = l->next)
        gtk_combo_box_text_append_text (GTK_COMBO_BOX_TEXT (combo), l->data);
      entry = gtk_bin_get_child (GTK_BIN (combo));
      if (g_list_nth_data (host->groups, group))
        gtk_entry_set_text (GTK_ENTRY (entry), g_list_nth_data (host->groups, group));
      gtk_box_pack_start (GTK_BOX (box), combo, TRUE, TRUE, 0);
      gtk_box_pack_start (GTK_BOX (box), button, FALSE, FALSE, 0);
      g_signal_connect (button, "clicked", G_CALLBACK (on_folder), entry);
    }
  gtk_entry_set_activates_default (GTK_ENTRY (entry), TRUE);
  gtk_entry_set_width_chars (GTK_ENTRY (entry), 32);
  zn_access_label (label, box);
  gtk_misc_set_alignment (GTK_MISC (label), 0.0, 0.5);
  gtk_table_attach (GTK_TABLE (table), label, 0, 1, line, line + 1, GTK_FILL, GTK_FILL, 0, 0);
  gtk_table_attach (GTK_TABLE (table), box, 1, 2, line, line + 1, GTK_EXPAND | GTK_FILL, GTK_FILL,
                    0, 0);

  return entry;
}

gboolean
zn_teach_dialog (const ZnTeachHost *host, gchar **report, GError **error)
{
  static const gchar *const label[] = { N_ ("_Name"), N_ ("Faces _with it"),
                                        N_ ("Faces withou_t it") };
  GtkWidget                *window, *table, *about, *entry[ZN_TEACH_TEXTS];
  gboolean                  done = FALSE;
  gint                      answer;

  window = gimp_dialog_new (_ ("Teach an Attribute"), "zenith-teach", NULL, 0, NULL,
                            ZN_TEACH_PROCEDURE, _ ("_Help"), GTK_RESPONSE_HELP, _ ("_Cancel"),
                            GTK_RESPONSE_CANCEL, _ ("_OK"), GTK_RESPONSE_OK, NULL);
  gtk_dialog_set_default_response (GTK_DIALOG (window), GTK_RESPONSE_OK);
  gimp_window_set_transient (GTK_WINDOW (window));
  about = gtk_label_new (
      _ ("The model learns an attribute of your own from faces that have it and faces "
         "that do not: layers of two groups, or two folders of pictures.  Each needs "
         "five faces at least, twenty are better.  Whatever else differs between the "
         "two is learned, too, so choose pictures that are alike."));
  gtk_label_set_line_wrap (GTK_LABEL (about), TRUE);
  gtk_label_set_max_width_chars (GTK_LABEL (about), 1); /* GTK 3 would make it one long line */
  gtk_widget_set_size_request (about, 420, -1);
  gtk_misc_set_alignment (GTK_MISC (about), 0.0, 0.0);
  gtk_misc_set_padding (GTK_MISC (about), 12, 6);
  gtk_box_pack_start (GTK_BOX (gtk_dialog_get_content_area (GTK_DIALOG (window))), about, FALSE,
                      FALSE, 6);
  table = gtk_table_new (ZN_TEACH_TEXTS, 2, FALSE);
  gtk_table_set_row_spacings (GTK_TABLE (table), 6);
  gtk_table_set_col_spacings (GTK_TABLE (table), 12);
  gtk_container_set_border_width (GTK_CONTAINER (table), 12);
  for (gint i = 0; i < ZN_TEACH_TEXTS; i++)
    {
      entry[i] = row_new (table, i, _ (label[i]), host, i == ZN_TEACH_WITHOUT);
      if (i > ZN_TEACH_NAME)
        gtk_widget_set_tooltip_text (entry[i],
                                     _ ("A layer group of the image, or a folder of pictures; five "
                                        "faces at least, twenty are better"));
    }
  gtk_box_pack_start (GTK_BOX (gtk_dialog_get_content_area (GTK_DIALOG (window))), table, TRUE,
                      TRUE, 0);
  gtk_widget_show_all (table);
  gtk_widget_show (about);
  zn_access_give_keys (window);
  zn_access_watch (window);

  while ((answer = gimp_dialog_run (GIMP_DIALOG (window))) == GTK_RESPONSE_HELP)
    {
      gchar *uri = zn_help_uri ("teach");

      if (! uri)
        g_message ("%s", _ ("The help page is not installed."));
      else if (! g_app_info_launch_default_for_uri (uri, NULL, NULL))
        g_message (_ ("No program opens the help page %s"), uri);
      g_free (uri);
    }
  if (answer == GTK_RESPONSE_OK)
    {
      const gchar *text[ZN_TEACH_TEXTS];

      for (gint i = 0; i < ZN_TEACH_TEXTS; i++)
        text[i] = gtk_entry_get_text (GTK_ENTRY (entry[i]));
      gtk_widget_set_sensitive (window, FALSE);
      while (gtk_events_pending ())
        gtk_main_iteration ();
      done = zn_teach (text, host, report, error);
      if (done)
        {
          gchar *words = in_words (*report);

          g_free (*report);
          *report = words;
        }
    }
  gtk_widget_destroy (window);

  return done;
}
