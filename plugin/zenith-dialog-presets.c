/* SPDX-License-Identifier: MIT
 *
 * zenith-dialog-presets.c - the list of presets, and the buttons that save, rename and delete them.
 */
#include <string.h>

#include <glib/gi18n-lib.h>

#include "zenith-access.h"
#include "zenith-dialog-private.h"

const ZnPreset *
zn_dialog_preset (Dialog *d)
{
  const gint active = gtk_combo_box_get_active (GTK_COMBO_BOX (d->preset));

  return active > 0 && active <= (gint) d->presets->len ? g_ptr_array_index (d->presets, active - 1)
                                                        : NULL;
}

/* Its sentence, or what it sets; and the buttons that it allows. */
static void
show_preset (Dialog *d)
{
  const ZnPreset *preset = zn_dialog_preset (d);
  gchar          *about  = preset ? zn_preset_about (preset) : g_strdup ("");
  gchar          *values = preset ? zn_preset_values (preset) : NULL;

  zn_dialog_set_text (d->about, about);
  gtk_widget_set_tooltip_text (d->about, values);
  g_free (values);
  g_free (about);
  if (d->any_filter)
    return;

  gtk_widget_set_sensitive (d->rename, preset && preset->own);
  gtk_widget_set_sensitive (d->remove, preset && preset->own);
}

/* The values are no preset's any more. */
void
zn_dialog_choose_none (Dialog *d)
{
  d->updating = TRUE;
  gtk_combo_box_set_active (GTK_COMBO_BOX (d->preset), 0);
  d->updating = FALSE;
  show_preset (d);
}

void
zn_dialog_preset_changed (GtkComboBox *combo, Dialog *d)
{
  const ZnPreset *preset = zn_dialog_preset (d);
  GError         *error  = NULL;
  gboolean        ok;

  if (d->updating)
    return;

  show_preset (d);
  if (! preset)
    return;

  if (d->any_filter)
    {
      ZnSettings *settings = zn_preset_settings (preset, &error);

      ok = settings != NULL;
      if (ok)
        {
          if (d->settings)
            g_ptr_array_add (d->retired, d->settings); /* a preview under way still reads them */
          d->settings = settings;
        }
    }
  else
    {
      ok = zn_preset_apply (preset, d->settings, &error);
      zn_dialog_refresh (d);
    }

  if (ok)
    {
      zn_dialog_show_result (d);
      zn_dialog_set_status (d, "");
      gtk_dialog_set_response_sensitive (GTK_DIALOG (d->window), GTK_RESPONSE_OK, TRUE);
      zn_dialog_invalidate (d);
    }

  zn_dialog_set_error (d, &error);
}

/* Reads the presets, again if need be, and chooses the one of this name. */
void
zn_dialog_load_presets (Dialog *d, const gchar *name)
{
  gint chosen = 0;

  g_clear_pointer (&d->presets, g_ptr_array_unref);
  g_clear_pointer (&d->all_presets, g_ptr_array_unref);
  d->all_presets = zn_presets_load ();
  d->presets     = g_ptr_array_new ();

  for (guint i = 0; i < d->all_presets->len; i++)
    {
      ZnPreset *preset = g_ptr_array_index (d->all_presets, i);

      if (preset->broken)
        continue;
      if (d->any_filter || ! strcmp (preset->operation, d->settings->filter->operation))
        g_ptr_array_add (d->presets, preset);
    }

  d->updating = TRUE;
  gtk_list_store_clear (GTK_LIST_STORE (gtk_combo_box_get_model (GTK_COMBO_BOX (d->preset))));
  gtk_combo_box_text_append_text (GTK_COMBO_BOX_TEXT (d->preset),
                                  d->presets->len ? _ ("(choose one)") : _ ("(none found)"));

  for (guint i = 0; i < d->presets->len; i++)
    {
      const ZnPreset *preset = g_ptr_array_index (d->presets, i);

      gtk_combo_box_text_append_text (GTK_COMBO_BOX_TEXT (d->preset), zn_preset_title (preset));
      if (! g_strcmp0 (preset->name, name))
        chosen = i + 1;
    }

  gtk_combo_box_set_active (GTK_COMBO_BOX (d->preset), chosen);
  d->updating = FALSE;
  show_preset (d);
}

/* Asks for a name; NULL: none was given.  with_model is asked for where it is not NULL. */
static gchar *
ask_name (Dialog      *d,
          const gchar *title,
          const gchar *button,
          const gchar *name,
          gboolean    *with_model)
{
  GtkWidget *window;
  GtkWidget *box   = gtk_vbox_new (FALSE, 12);
  GtkWidget *entry = gtk_entry_new ();
  GtkWidget *check = NULL;
  gchar     *text  = NULL;

  window = gtk_dialog_new_with_buttons (title, GTK_WINDOW (d->window), GTK_DIALOG_MODAL,
                                        _ ("_Cancel"), GTK_RESPONSE_CANCEL, button, GTK_RESPONSE_OK,
                                        NULL);
  gtk_dialog_set_default_response (GTK_DIALOG (window), GTK_RESPONSE_OK);
  gtk_container_set_border_width (GTK_CONTAINER (box), 12);
  gtk_entry_set_text (GTK_ENTRY (entry), name);
  zn_access_name (entry, title);
  gtk_entry_set_width_chars (GTK_ENTRY (entry), 32);
  gtk_entry_set_activates_default (GTK_ENTRY (entry), TRUE);
  gtk_box_pack_start (GTK_BOX (box), entry, FALSE, FALSE, 0);
  if (with_model)
    {
      check = gtk_check_button_new_with_mnemonic (_ ("The preset also sets the _model"));
      gtk_toggle_button_set_active (GTK_TOGGLE_BUTTON (check), *with_model);
      gtk_box_pack_start (GTK_BOX (box), check, FALSE, FALSE, 0);
    }
  gtk_box_pack_start (GTK_BOX (gtk_dialog_get_content_area (GTK_DIALOG (window))), box, TRUE, TRUE,
                      0);
  gtk_widget_show_all (box);
  zn_access_watch (window);

  if (gtk_dialog_run (GTK_DIALOG (window)) == GTK_RESPONSE_OK)
    {
      text = g_strstrip (g_strdup (gtk_entry_get_text (GTK_ENTRY (entry))));
      if (check)
        *with_model = gtk_toggle_button_get_active (GTK_TOGGLE_BUTTON (check));
    }
  gtk_widget_destroy (window);

  return text;
}

static void
on_save_preset (GtkWidget *button, Dialog *d)
{
  const ZnPreset *preset     = zn_dialog_preset (d);
  gboolean        with_model = TRUE;
  GError         *error      = NULL;
  gchar          *name;

  name = ask_name (d, _ ("Save Preset"), _ ("_Save"), preset && preset->own ? preset->name : "",
                   &with_model);
  if (name && zn_preset_save (d->all_presets, d->settings, name, with_model, TRUE, &error))
    zn_dialog_load_presets (d, name);
  zn_dialog_set_error (d, &error);
  g_free (name);
}

static void
on_rename_preset (GtkWidget *button, Dialog *d)
{
  const ZnPreset *preset = zn_dialog_preset (d);
  GError         *error  = NULL;
  gchar          *name;

  if (! preset)
    return;

  name = ask_name (d, _ ("Rename Preset"), _ ("_Rename"), preset->name, NULL);
  if (name && zn_preset_rename (d->all_presets, preset, name, &error))
    zn_dialog_load_presets (d, name);
  zn_dialog_set_error (d, &error);
  g_free (name);
}

static void
on_delete_preset (GtkWidget *button, Dialog *d)
{
  const ZnPreset *preset = zn_dialog_preset (d);
  GError         *error  = NULL;
  GtkWidget      *question;
  gint            answer;

  if (! preset)
    return;

  question = gtk_message_dialog_new (GTK_WINDOW (d->window), GTK_DIALOG_MODAL, GTK_MESSAGE_QUESTION,
                                     GTK_BUTTONS_NONE, _ ("Delete the preset '%s'?"), preset->name);
  gtk_window_set_title (GTK_WINDOW (question), _ ("Delete Preset"));
  gtk_dialog_add_buttons (GTK_DIALOG (question), _ ("_Cancel"), GTK_RESPONSE_CANCEL, _ ("_Delete"),
                          GTK_RESPONSE_OK, NULL);
  gtk_dialog_set_default_response (GTK_DIALOG (question), GTK_RESPONSE_OK);
  zn_access_watch (question);
  answer = gtk_dialog_run (GTK_DIALOG (question));
  gtk_widget_destroy (question);

  if (answer == GTK_RESPONSE_OK && zn_preset_delete (preset, &error))
    zn_dialog_load_presets (d, NULL);
  zn_dialog_set_error (d, &error);
}

static GtkWidget *
preset_button (const gchar *label, const gchar *tooltip, GCallback callback, Dialog *d)
{
  GtkWidget *button = gtk_button_new_with_mnemonic (label);

  gtk_widget_set_tooltip_text (button, tooltip);
  g_signal_connect (button, "clicked", callback, d);

  return button;
}

/* The buttons under the list. */
GtkWidget *
zn_dialog_preset_buttons (Dialog *d)
{
  GtkWidget *row = gtk_hbox_new (TRUE, 6);

  d->save   = preset_button (_ ("Sa_ve..."), _ ("Keep these values as a preset of your own"),
                             G_CALLBACK (on_save_preset), d);
  d->rename = preset_button (_ ("Re_name..."), _ ("Only presets of your own can be renamed"),
                             G_CALLBACK (on_rename_preset), d);
  d->remove = preset_button (_ ("_Delete..."), _ ("Only presets of your own can be deleted"),
                             G_CALLBACK (on_delete_preset), d);
  gtk_box_pack_start (GTK_BOX (row), d->save, TRUE, TRUE, 0);
  gtk_box_pack_start (GTK_BOX (row), d->rename, TRUE, TRUE, 0);
  gtk_box_pack_start (GTK_BOX (row), d->remove, TRUE, TRUE, 0);

  return row;
}
