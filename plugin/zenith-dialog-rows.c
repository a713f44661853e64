/* SPDX-License-Identifier: MIT
 *
 * zenith-dialog-rows.c - a row for each property of the filter: a label, and what sets it.
 */
#include <string.h>

#include <glib/gi18n-lib.h>
#include <libgimp/gimp.h>
#include <libgimp/gimpui.h>

#include "zenith-access.h"
#include "zenith-dialog-private.h"
#include "zenith-recent.h"

/* Puts the settings into the widgets. */
void
zn_dialog_refresh (Dialog *d)
{
  d->updating = TRUE;

  for (guint i = 0; i < d->n_rows; i++)
    {
      Row              *row = &d->row[i];
      const ZnProperty *p   = &d->settings->property[row->index];
      gchar            *text;

      switch (p->kind)
        {
        case ZN_KIND_ENUM:
          {
            GEnumClass *klass = G_PARAM_SPEC_ENUM (p->spec)->enum_class;

            for (guint j = 0; j < klass->n_values; j++)
              if (klass->values[j].value == g_value_get_enum (&p->value))
                gtk_combo_box_set_active (GTK_COMBO_BOX (row->widget), j);
          }
          break;

        case ZN_KIND_BOOLEAN:
          gtk_toggle_button_set_active (GTK_TOGGLE_BUTTON (row->widget),
                                        g_value_get_boolean (&p->value));
          break;

        case ZN_KIND_STRING:
        case ZN_KIND_FILE:
          text = zn_settings_get_text (d->settings, row->index);
          gtk_entry_set_text (GTK_ENTRY (row->widget), text);
          g_free (text);
          break;

        default:
          gtk_adjustment_set_value (row->adjustment,
                                    zn_settings_get_number (d->settings, row->index) * row->unit);
        }
    }

  zn_dialog_refresh_faces (d);
  d->updating = FALSE;
  zn_dialog_show_level (d);
  zn_dialog_show_result (d);
}

/* The user moved something: widget to settings, then a new preview. */
void
zn_dialog_row_changed (GObject *object, Row *row)
{
  Dialog           *d     = row->dialog;
  const ZnProperty *p     = &d->settings->property[row->index];
  GError           *error = NULL;

  if (d->updating)
    return;

  switch (p->kind)
    {
    case ZN_KIND_ENUM:
      {
        gint active = gtk_combo_box_get_active (GTK_COMBO_BOX (row->widget));

        if (active >= 0)
          zn_settings_set_text (d->settings, p->spec->name,
                                G_PARAM_SPEC_ENUM (p->spec)->enum_class->values[active].value_nick,
                                &error);
      }
      break;

    case ZN_KIND_BOOLEAN:
      zn_settings_set_number (d->settings, row->index,
                              gtk_toggle_button_get_active (GTK_TOGGLE_BUTTON (row->widget)),
                              &error);
      break;

    case ZN_KIND_STRING:
    case ZN_KIND_FILE:
      zn_settings_set_text (d->settings, p->spec->name,
                            gtk_entry_get_text (GTK_ENTRY (row->widget)), &error);
      break;

    default:
      zn_settings_set_number (d->settings, row->index,
                              gtk_adjustment_get_value (row->adjustment) / row->unit, &error);
    }

  zn_dialog_set_status (d, "");
  zn_dialog_set_error (d, &error);

  if (! zn_dialog_preset (d) || ! zn_preset_leaves (zn_dialog_preset (d), p->spec->name))
    zn_dialog_choose_none (d);
  zn_dialog_show_level (d);
  zn_dialog_show_result (d);
  zn_dialog_invalidate (d);
}

static void
on_browse (GtkWidget *button, Row *row)
{
  GtkWidget *chooser;

  chooser = gtk_file_chooser_dialog_new (
      g_param_spec_get_nick (row->dialog->settings->property[row->index].spec),
      GTK_WINDOW (row->dialog->window), GTK_FILE_CHOOSER_ACTION_OPEN, _ ("_Cancel"),
      GTK_RESPONSE_CANCEL, _ ("_Open"), GTK_RESPONSE_OK, NULL);

  if (gtk_dialog_run (GTK_DIALOG (chooser)) == GTK_RESPONSE_OK)
    {
      gchar *file = gtk_file_chooser_get_filename (GTK_FILE_CHOOSER (chooser));

      if (file)
        gtk_entry_set_text (GTK_ENTRY (row->widget), file);
      g_free (file);
    }

  gtk_widget_destroy (chooser);
}

static GtkWidget *
number_row (Row *row, ZnProperty *p)
{
  GtkWidget *box = gtk_hbox_new (FALSE, 6);
  gdouble    min = p->ui_min * row->unit, max = p->ui_max * row->unit;
  gdouble    step = p->kind == ZN_KIND_INT || row->unit > 1.0 ? 1.0 : (max - min) / 100.0;
  GtkWidget *scale;
  GtkWidget *spin;

  row->adjustment = GTK_ADJUSTMENT (gtk_adjustment_new (min, min, max, step, step * 10, 0));
  scale           = gtk_hscale_new (row->adjustment);
  gtk_scale_set_draw_value (GTK_SCALE (scale), FALSE);
  gtk_widget_set_size_request (scale, 140, -1);
  spin = gtk_spin_button_new (row->adjustment, step, row->unit > 1.0 ? 0 : p->digits);
  gtk_entry_set_activates_default (GTK_ENTRY (spin), TRUE);
  gtk_box_pack_start (GTK_BOX (box), scale, TRUE, TRUE, 0);
  gtk_box_pack_start (GTK_BOX (box), spin, FALSE, FALSE, 0);
  g_signal_connect (row->adjustment, "value-changed", G_CALLBACK (zn_dialog_row_changed), row);

  return box;
}

/* A seed is drawn for each run, unless it is locked. */
void
zn_dialog_draw_seed (Dialog *d)
{
  for (guint i = 0; d->lock && i < d->settings->n; i++)
    if (! strcmp (d->settings->property[i].spec->name, "seed") &&
        ! gtk_toggle_button_get_active (GTK_TOGGLE_BUTTON (d->lock)))
      zn_settings_set_number (d->settings, i, g_random_int_range (0, G_MAXINT), NULL);
}

static void
on_lock (GtkToggleButton *button, Dialog *d)
{
  zn_recent_set_seed_locked (gtk_toggle_button_get_active (button));
}

static GtkWidget *
seed_row (Row *row, ZnProperty *p)
{
  Dialog    *d   = row->dialog;
  GtkWidget *box = gtk_hbox_new (FALSE, 6);
  GtkWidget *spin;

  row->adjustment = GTK_ADJUSTMENT (gtk_adjustment_new (p->min, p->min, p->max, 1.0, 10.0, 0.0));
  spin            = gtk_spin_button_new (row->adjustment, 1.0, 0);
  gtk_entry_set_activates_default (GTK_ENTRY (spin), TRUE);
  d->lock = gtk_check_button_new_with_mnemonic (_ ("_Lock"));
  gtk_widget_set_tooltip_text (d->lock, _ ("Keep this seed for the next picture"));
  gtk_toggle_button_set_active (GTK_TOGGLE_BUTTON (d->lock), zn_recent_seed_locked ());
  gtk_box_pack_start (GTK_BOX (box), spin, TRUE, TRUE, 0);
  gtk_box_pack_start (GTK_BOX (box), d->lock, FALSE, FALSE, 0);
  g_signal_connect (row->adjustment, "value-changed", G_CALLBACK (zn_dialog_row_changed), row);
  g_signal_connect (d->lock, "toggled", G_CALLBACK (on_lock), d);

  return box;
}

/* An entry with the last prompts. */
static GtkWidget *
prompt_row (Row *row)
{
  GtkWidget *combo = gtk_combo_box_text_new_with_entry ();
  gchar    **list  = zn_recent_prompts ();

  for (guint i = 0; list[i]; i++)
    gtk_combo_box_text_append_text (GTK_COMBO_BOX_TEXT (combo), list[i]);
  g_strfreev (list);
  row->widget         = gtk_bin_get_child (GTK_BIN (combo));
  row->dialog->prompt = row->widget;
  gtk_entry_set_activates_default (GTK_ENTRY (row->widget), TRUE);
  g_signal_connect (row->widget, "changed", G_CALLBACK (zn_dialog_row_changed), row);

  return combo;
}

enum
{
  COLUMN_TEXT,
  COLUMN_USABLE,
  N_COLUMNS
};

/* The values of an enumeration. */
static GtkWidget *
enum_combo_new (GEnumClass *klass)
{
  GtkListStore    *store = gtk_list_store_new (N_COLUMNS, G_TYPE_STRING, G_TYPE_BOOLEAN);
  GtkWidget       *combo;
  GtkCellRenderer *cell = gtk_cell_renderer_text_new ();

  for (guint i = 0; i < klass->n_values; i++)
    gtk_list_store_insert_with_values (store, NULL, -1, COLUMN_TEXT, klass->values[i].value_name,
                                       COLUMN_USABLE, TRUE, -1);

  combo = gtk_combo_box_new_with_model (GTK_TREE_MODEL (store));
  g_object_set (cell, "ellipsize", PANGO_ELLIPSIZE_END, "width-chars", 24, NULL);
  gtk_cell_layout_pack_start (GTK_CELL_LAYOUT (combo), cell, TRUE);
  gtk_cell_layout_set_attributes (GTK_CELL_LAYOUT (combo), cell, "text", COLUMN_TEXT, "sensitive",
                                  COLUMN_USABLE, NULL);
  g_object_unref (store);

  return combo;
}

/* If none works, the weights are missing, which the status line says: no engine is to blame. */
static gboolean
works (const gchar *nick)
{
  gchar         *why  = zn_engine_missing (nick);
  const gboolean does = ! why;

  g_free (why);

  return does;
}

/* Engines that this machine lacks are greyed and say why.  Each is tried, which takes a while: once, when
 * the dialog has shown what the user wants to see. */
void
zn_dialog_check_engines (Dialog *d)
{
  for (guint i = 0; i < d->n_rows && ! d->engines_checked && ! d->stop; i++)
    {
      const ZnProperty *p = &d->settings->property[d->row[i].index];
      GEnumClass       *klass;
      GtkTreeModel     *model;
      GtkTreeIter       at;

      if (strcmp (p->spec->name, "engine"))
        continue;
      d->engines_checked = TRUE;
      if (! works ("auto"))
        return;
      klass = G_PARAM_SPEC_ENUM (p->spec)->enum_class;
      model = gtk_combo_box_get_model (GTK_COMBO_BOX (d->row[i].widget));
      for (guint j = 0; j < klass->n_values && gtk_tree_model_iter_nth_child (model, &at, NULL, j);
           j++)
        {
          gchar *why  = zn_engine_missing (klass->values[j].value_nick);
          gchar *text = g_strdup_printf (_ ("%s: %s"), klass->values[j].value_name, why);

          if (why)
            gtk_list_store_set (GTK_LIST_STORE (model), &at, COLUMN_TEXT, text, COLUMN_USABLE,
                                FALSE, -1);
          g_free (text);
          g_free (why);
        }
    }
}

/* Names to choose from; others can be typed. */
static GtkWidget *
names_combo_new (gchar **names)
{
  GtkWidget *combo = gtk_combo_box_text_new_with_entry ();

  for (guint i = 0; names && names[i]; i++)
    gtk_combo_box_text_append_text (GTK_COMBO_BOX_TEXT (combo), names[i]);

  return combo;
}

static GtkWidget *
row_new (Row *row, ZnProperty *p)
{
  GtkWidget *box = NULL;

  switch (p->kind)
    {
    case ZN_KIND_ENUM:
      {
        GEnumClass *klass = G_PARAM_SPEC_ENUM (p->spec)->enum_class;

        row->widget = enum_combo_new (klass);
      }
      break;

    case ZN_KIND_BOOLEAN:
      row->widget = gtk_check_button_new ();
      g_signal_connect (row->widget, "toggled", G_CALLBACK (zn_dialog_row_changed), row);
      return row->widget;

    case ZN_KIND_STRING:
    case ZN_KIND_FILE:
      if (zn_dialog_makes_layer (row->dialog) && ! strcmp (p->spec->name, "prompt"))
        return prompt_row (row);
      if (! strcmp (p->spec->name, "attribute"))
        box = names_combo_new (row->dialog->attributes);
      else if (! strcmp (p->spec->name, "path") && row->dialog->host->layers)
        box = names_combo_new (row->dialog->host->layers);
      row->widget = box ? gtk_bin_get_child (GTK_BIN (box)) : gtk_entry_new ();
      gtk_entry_set_activates_default (GTK_ENTRY (row->widget), TRUE);
      if (p->kind == ZN_KIND_FILE)
        {
          GtkWidget *button = gtk_button_new_with_mnemonic (_ ("_Browse..."));
          GtkWidget *text   = box ? box : row->widget;

          box = gtk_hbox_new (FALSE, 6);
          gtk_box_pack_start (GTK_BOX (box), text, TRUE, TRUE, 0);
          gtk_box_pack_start (GTK_BOX (box), button, FALSE, FALSE, 0);
          g_signal_connect (button, "clicked", G_CALLBACK (on_browse), row);
        }
      break;

    default:
      if (zn_dialog_makes_layer (row->dialog) && ! strcmp (p->spec->name, "seed"))
        return row->dialog->settings->filter->from_nothing ? zn_dialog_new_faces (row, p)
                                                           : seed_row (row, p);
      return number_row (row, p);
    }

  g_signal_connect (row->widget, "changed", G_CALLBACK (zn_dialog_row_changed), row);

  return box ? box : row->widget;
}

void
zn_dialog_attach (GtkWidget   *table,
                  guint        line,
                  const gchar *text,
                  GtkWidget   *widget,
                  const gchar *tooltip)
{
  GtkWidget *label = gtk_label_new_with_mnemonic (text);

  if (*text)
    zn_access_label (label, widget);
  gtk_misc_set_alignment (GTK_MISC (label), 0.0, 0.5);
  gtk_table_attach (GTK_TABLE (table), label, 0, 1, line, line + 1, GTK_FILL, GTK_FILL, 0, 0);
  gtk_table_attach (GTK_TABLE (table), widget, 1, 2, line, line + 1, GTK_EXPAND | GTK_FILL,
                    GTK_FILL, 0, 0);

  if (tooltip && *tooltip)
    gtk_widget_set_tooltip_text (widget, tooltip);
}

/* The table of what is folded away, made when there is something. */
static GtkWidget *
fold_table (GtkWidget **table, GtkWidget *box)
{
  if (! *table)
    {
      GtkWidget *expander = gtk_expander_new_with_mnemonic (_ ("_Advanced"));

      *table = gtk_table_new (1, 2, FALSE);
      gtk_table_set_row_spacings (GTK_TABLE (*table), 6);
      gtk_table_set_col_spacings (GTK_TABLE (*table), 12);
      gtk_container_add (GTK_CONTAINER (expander), *table);
      gtk_box_pack_start (GTK_BOX (box), expander, FALSE, FALSE, 0);
    }

  return *table;
}

/* A text below a slider. */
static GtkWidget *
remark (GtkWidget *table, guint line, const gchar *text)
{
  GtkWidget *label = gtk_label_new (text);

  gtk_misc_set_alignment (GTK_MISC (label), 0.0, 0.5);
  zn_dialog_attach (table, line, "", label, NULL);

  return label;
}

guint
zn_dialog_property_rows (Dialog *d, GtkWidget *box, GtkWidget *table, guint line)
{
  const guint n_props = d->any_filter ? 0 : d->settings->n;
  GtkWidget  *fold    = NULL;
  guint       folded  = 0; /* rows of it */

  for (guint i = 0; i < 3 * n_props; i++) /* sliders, what is shown, what is folded away */
    {
      const guint       index  = i % n_props;
      const ZnProperty *p      = &d->settings->property[index];
      const gboolean    slides = zn_settings_is_slider (d->settings, index);
      const guint       place  = zn_dialog_folds (d, index) ? 2 : ! slides;
      Row              *row    = &d->row[d->n_rows];
      GtkWidget        *widget;

      if (place != i / n_props || zn_dialog_hides (d, index))
        continue;
      d->n_rows++;
      row->dialog = d;
      row->index  = index;
      row->unit   = slides || ! strcmp (p->spec->name, "amount") ? 100.0 : 1.0;
      widget      = row_new (row, (ZnProperty *) p);
      gtk_widget_set_name (widget, p->spec->name);
      zn_dialog_attach (place == 2 ? fold_table (&fold, box) : table,
                        place == 2 ? folded++ : line++, g_param_spec_get_nick (p->spec), widget,
                        g_param_spec_get_blurb (p->spec));
      if (! strcmp (p->spec->name, "sigma"))
        d->level = remark (table, line++, "");
      if (zn_settings_is_found (d->settings, index) &&
          ! zn_settings_is_found (d->settings, index + 1))
        remark (table, line++, _ ("0: automatic, -1: none"));
    }

  return line;
}
