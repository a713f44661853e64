/* SPDX-License-Identifier: MIT
 *
 * zenith-dialog-result.c - what is not a property of the filter: where the result goes, how large it will
 * be, and where weights that are not shipped come from.
 */
#include <errno.h>
#include <string.h>

#include <glib/gi18n-lib.h>

#include "zenith-dialog-private.h"

/*  where it goes  */

static const ZnFilter *
filter_of (Dialog *d)
{
  return d->settings ? d->settings->filter : NULL;
}

static void
on_where (GtkComboBox *combo, Dialog *d)
{
  if (! d->updating)
    *d->host->where = (ZnWhere) (ZN_WHERE_LAYER + gtk_combo_box_get_active (combo));
}

static void
on_print_size (GtkToggleButton *button, Dialog *d)
{
  *d->host->print_size = gtk_toggle_button_get_active (button);
}

static GtkWidget *
where_new (Dialog *d)
{
  const ZnFilter *filter = filter_of (d);

  d->where = gtk_combo_box_text_new ();
  gtk_combo_box_text_append_text (GTK_COMBO_BOX_TEXT (d->where), _ ("This layer"));
  gtk_combo_box_text_append_text (GTK_COMBO_BOX_TEXT (d->where), _ ("New layer"));
  if (! filter || ! filter->enlarges)
    gtk_combo_box_text_append_text (GTK_COMBO_BOX_TEXT (d->where),
                                    _ ("New layer with the selection as mask"));
  g_signal_connect (d->where, "changed", G_CALLBACK (on_where), d);

  return d->where;
}

guint
zn_dialog_result_rows (Dialog *d, GtkWidget *table, guint line)
{
  const ZnFilter *filter = filter_of (d);

  if (filter && filter->enlarges && ! filter->planes)
    {
      d->size = gtk_label_new ("");
      gtk_misc_set_alignment (GTK_MISC (d->size), 0.0, 0.5);
      zn_dialog_attach (table, line++, _ ("New size"), d->size, NULL);
    }
  if (filter && filter->whole_image)
    {
      GtkWidget *check = gtk_check_button_new_with_mnemonic (_ ("Keep the _print size"));

      gtk_toggle_button_set_active (GTK_TOGGLE_BUTTON (check), *d->host->print_size);
      g_signal_connect (check, "toggled", G_CALLBACK (on_print_size), d);
      zn_dialog_attach (table, line++, "", check,
                        _ ("More pixels per inch: the image is printed as large as before"));
    }
  else if (d->host->where && ! (filter && (filter->makes_layer || filter->planes)))
    {
      zn_dialog_attach (table, line++, _ ("Res_ult"), where_new (d), _ ("Where the result goes"));
    }

  return line;
}

void
zn_dialog_show_result (Dialog *d)
{
  const gboolean updating = d->updating;

  d->updating = TRUE;
  if (d->where)
    gtk_combo_box_set_active (GTK_COMBO_BOX (d->where),
                              zn_where (*d->host->where, filter_of (d)) - ZN_WHERE_LAYER);
  if (d->size)
    {
      const gint    scale  = zn_settings_scale (d->settings);
      const gint    width  = d->host->width * scale;
      const gint    height = d->host->height * scale;
      const gdouble mega   = width * (gdouble) height / 1e6;
      gchar        *text;

      text = g_strdup_printf (_ ("%d x %d pixels, %.1f megapixels"), width, height, mega);
      gtk_label_set_text (GTK_LABEL (d->size), text);
      g_free (text);
    }
  d->updating = updating;
}

void
zn_dialog_keep_result (Dialog *d)
{
  if (d->where && *d->host->where != ZN_WHERE_USUAL)
    zn_recent_set_where (d->host->help_id, *d->host->where);
  if (d->host->print_size)
    zn_recent_set_print_size (*d->host->print_size);
}

/*  weights  */

/* Where the program that opens it is not found, the address is shown, to be copied. */
static void
open_address (Dialog *d, const gchar *uri)
{
  if (! g_app_info_launch_default_for_uri (uri, NULL, NULL))
    zn_dialog_set_status (d, uri);
}

static void
on_page (GtkWidget *button, Dialog *d)
{
  open_address (d, filter_of (d)->weights_url);
}

static void
on_folder (GtkWidget *button, Dialog *d)
{
  gchar *folder = g_build_filename (g_get_user_data_dir (), "zenith", "models", NULL);
  gchar *uri    = NULL;

  if (g_mkdir_with_parents (folder, 0755) == 0)
    uri = g_filename_to_uri (folder, NULL, NULL);
  if (uri)
    open_address (d, uri);
  else
    zn_dialog_set_status (d, g_strerror (errno));
  g_free (uri);
  g_free (folder);
}

GtkWidget *
zn_dialog_links_new (Dialog *d)
{
  GtkWidget *page   = gtk_button_new_with_mnemonic (_ ("_Web page of the weights"));
  GtkWidget *folder = gtk_button_new_with_mnemonic (_ ("Folder of the wei_ghts"));

  d->links = gtk_hbox_new (FALSE, 6);
  gtk_box_pack_start (GTK_BOX (d->links), page, FALSE, FALSE, 0);
  gtk_box_pack_start (GTK_BOX (d->links), folder, FALSE, FALSE, 0);
  g_signal_connect (page, "clicked", G_CALLBACK (on_page), d);
  g_signal_connect (folder, "clicked", G_CALLBACK (on_folder), d);
  gtk_widget_show_all (d->links);
  gtk_widget_hide (d->links);
  gtk_widget_set_no_show_all (d->links, TRUE);

  return d->links;
}

/* The name of the weights, "" where the filter looks for them. */
static gchar *
weights_of (Dialog *d)
{
  for (guint i = 0; i < d->settings->n; i++)
    if (! strcmp (d->settings->property[i].spec->name, "weights"))
      return zn_settings_get_text (d->settings, i);

  return g_strdup ("");
}

void
zn_dialog_check_weights (Dialog *d)
{
  GError *error   = NULL;
  gchar  *weights = NULL;

  if (! filter_of (d)->weights_url)
    {
      gtk_widget_hide (d->links);
      g_clear_pointer (&d->checked, g_free);
      g_clear_pointer (&d->lacks, g_free);
      return;
    }
  weights = weights_of (d);
  if (g_strcmp0 (weights, d->checked)) /* not at each letter of the prompt */
    {
      g_free (d->checked);
      g_free (d->lacks);
      d->checked = weights;
      zn_apply_check (d->settings, d->host->picture.source, &error);
      d->lacks = error ? g_strdup (error->message) : NULL;
      gtk_widget_set_visible (d->links, error != NULL);
      zn_dialog_set_status (d, "");
      g_clear_error (&error);
    }
  else
    {
      g_free (weights);
    }
}
