/* SPDX-License-Identifier: MIT
 *
 * zenith-dialog.c - preview, property rows, presets, progress, status line.
 *
 * One source for GTK 2 and GTK 3: only what both have is used, deprecated or
 * not in the newer one (GtkTable, gtk_hscale_new), which the build allows.
 *
 * Long work runs on this thread; its progress callback lets the main loop
 * turn (keep_alive), so that the window is drawn and Cancel is heard.  Hence
 * three rules:
 *   1. a preview asked for while one is computed only sets 'again' and stops
 *      the one under way;
 *   2. whatever the user answers sets 'stop', which ends any work;
 *   3. while the filter is applied there are no previews.
 */
#include <string.h>

#include <libgimp/gimp.h>
#include <libgimp/gimpui.h>

#include "zenith-dialog.h"
#include "zenith-preset.h"

#define RESPONSE_RESET 1
#define PREVIEW_SIZE 360
#define CONTROLS_WIDTH 340

typedef struct _Dialog Dialog;

typedef struct
{
  Dialog        *dialog;
  guint          index;      /* of the property                   */
  GtkWidget     *widget;     /* combo, check button or entry, or  */
  GtkAdjustment *adjustment; /* a number's                        */
} Row;

struct _Dialog
{
  const ZnDialogHost *host;
  ZnSettings         *settings;    /* NULL: no preset chosen yet      */
  GPtrArray          *presets;     /* those that the combo shows      */
  GPtrArray          *all_presets; /* owns them                       */
  GtkWidget          *window;
  GtkWidget          *controls;
  GtkWidget          *preset;
  GtkWidget          *about; /* the preset's description        */
  GtkWidget          *status;
  GtkWidget          *measured; /* the noise that was found        */
  GtkWidget          *bar;
  Row                 row[ZN_PROPERTIES_MAX];
  guint               n_rows;
  gboolean            any_filter; /* chooses presets of every filter */
  gboolean            updating;   /* we, not the user, set a widget  */
  gboolean            busy;       /* a preview is being computed     */
  gboolean            again;      /* and is out of date already      */
  gboolean            stop;       /* the user has answered           */
  gboolean            applying;   /* OK was pressed, the filter runs */
  gboolean            cannot;     /* the last preview failed         */
};

static void
set_status (Dialog *d, const gchar *text)
{
  gtk_label_set_text (GTK_LABEL (d->status), text);
  gtk_widget_set_visible (d->status, *text != '\0');
}

/* measured: what the operation found, "red 4.2, green 3.9, blue 5.1", or NULL. */
static void
set_measured (Dialog *d, const gchar *measured)
{
  gchar *text = NULL;

  if (measured && *measured)
    text = g_strdup_printf ("Noise found in the picture: %s of 255.  A noise level above 0 "
                            "takes its place.",
                            measured);

  gtk_label_set_text (GTK_LABEL (d->measured), text ? text : "");
  gtk_widget_set_visible (d->measured, text != NULL);
  g_free (text);
}

static void
set_error (Dialog *d, GError **error)
{
  if (*error && ! g_error_matches (*error, ZN_ERROR, ZN_ERROR_CANCELLED))
    set_status (d, (*error)->message);

  g_clear_error (error);
}

static gboolean
keep_alive (gdouble fraction, gpointer data)
{
  Dialog *d = data;

  gtk_progress_bar_set_fraction (GTK_PROGRESS_BAR (d->bar), fraction);

  while (gtk_events_pending ())
    gtk_main_iteration ();

  return ! d->stop && ! (d->busy && d->again);
}

/*  preview  */

/* Shows the result where the selection is, the picture as it was elsewhere. */
static void
show_pixels (Dialog *d, const GeglRectangle *roi, const guchar *result)
{
  GtkWidget *area   = gimp_preview_get_area (GIMP_PREVIEW (d->host->preview));
  gint       stride = roi->width * 4;

  if (! d->host->selection)
    {
      gimp_preview_area_draw (GIMP_PREVIEW_AREA (area), 0, 0, roi->width, roi->height,
                              GIMP_RGBA_IMAGE, result, stride);
    }
  else
    {
      GeglRectangle in_image = *roi;
      gsize         len      = (gsize) roi->width * roi->height;
      guchar       *before   = g_malloc (len * 4);
      guchar       *mask     = g_malloc (len);

      in_image.x += d->host->offset_x;
      in_image.y += d->host->offset_y;

      gegl_buffer_get (d->host->source, roi, 1.0, babl_format ("R'G'B'A u8"), before,
                       GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);
      gegl_buffer_get (d->host->selection, &in_image, 1.0, babl_format ("Y u8"), mask,
                       GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);
      gimp_preview_area_mask (GIMP_PREVIEW_AREA (area), 0, 0, roi->width, roi->height,
                              GIMP_RGBA_IMAGE, before, stride, result, stride, mask, roi->width);
      g_free (before);
      g_free (mask);
    }
}

static void
draw_preview (Dialog *d)
{
  GimpPreview  *preview = GIMP_PREVIEW (d->host->preview);
  GeglRectangle roi;
  GError       *error    = NULL;
  gchar        *measured = NULL;
  guchar       *rgba;

  gimp_preview_get_position (preview, &roi.x, &roi.y);
  gimp_preview_get_size (preview, &roi.width, &roi.height);

  if (! d->settings ||
      ! gegl_rectangle_intersect (&roi, &roi, gegl_buffer_get_extent (d->host->source)))
    return;

  rgba = g_malloc ((gsize) roi.width * roi.height * 4);

  if (zn_apply_to_pixels (d->settings, d->host->source, &d->host->selected, &roi, rgba, &measured,
                          keep_alive, d, &error))
    {
      show_pixels (d, &roi, rgba);

      if (d->cannot) /* what apply() said stays */
        set_status (d, "");
      set_measured (d, measured);
    }

  d->cannot = error && ! g_error_matches (error, ZN_ERROR, ZN_ERROR_CANCELLED);
  set_error (d, &error);
  gtk_progress_bar_set_fraction (GTK_PROGRESS_BAR (d->bar), 0.0);
  g_free (measured);
  g_free (rgba);
}

static void
on_invalidated (GimpPreview *preview, Dialog *d)
{
  d->again = TRUE;

  if (d->busy || d->applying)
    return;

  d->busy = TRUE;

  while (d->again && ! d->stop)
    {
      d->again = FALSE;
      draw_preview (d);
    }

  d->busy = FALSE;
}

/*  property rows  */

/* Puts the settings into the widgets. */
static void
refresh (Dialog *d)
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
                                    zn_settings_get_number (d->settings, row->index));
        }
    }

  d->updating = FALSE;
}

/* The user moved something: widget to settings, then a new preview. */
static void
on_row_changed (GObject *object, Row *row)
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
      zn_settings_set_number (d->settings, row->index, gtk_adjustment_get_value (row->adjustment),
                              &error);
    }

  set_status (d, "");
  set_error (d, &error);

  d->updating = TRUE;
  gtk_combo_box_set_active (GTK_COMBO_BOX (d->preset), 0);
  gtk_label_set_text (GTK_LABEL (d->about), "");
  d->updating = FALSE;

  gimp_preview_invalidate (GIMP_PREVIEW (d->host->preview));
}

static void
on_browse (GtkWidget *button, Row *row)
{
  GtkWidget *chooser;

  chooser = gtk_file_chooser_dialog_new (
      g_param_spec_get_nick (row->dialog->settings->property[row->index].spec),
      GTK_WINDOW (row->dialog->window), GTK_FILE_CHOOSER_ACTION_OPEN, "_Cancel",
      GTK_RESPONSE_CANCEL, "_Open", GTK_RESPONSE_OK, NULL);

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
  GtkWidget *box  = gtk_hbox_new (FALSE, 6);
  gdouble    step = p->kind == ZN_KIND_INT ? 1.0 : (p->ui_max - p->ui_min) / 100.0;
  GtkWidget *scale;
  GtkWidget *spin;

  row->adjustment = GTK_ADJUSTMENT (
      gtk_adjustment_new (p->ui_min, p->ui_min, p->ui_max, step, step * 10, 0));
  scale = gtk_hscale_new (row->adjustment);
  gtk_scale_set_draw_value (GTK_SCALE (scale), FALSE);
  gtk_widget_set_size_request (scale, 140, -1);
  spin = gtk_spin_button_new (row->adjustment, step, p->digits);
  gtk_entry_set_activates_default (GTK_ENTRY (spin), TRUE);
  gtk_box_pack_start (GTK_BOX (box), scale, TRUE, TRUE, 0);
  gtk_box_pack_start (GTK_BOX (box), spin, FALSE, FALSE, 0);
  g_signal_connect (row->adjustment, "value-changed", G_CALLBACK (on_row_changed), row);

  return box;
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

        row->widget = gtk_combo_box_text_new ();
        for (guint i = 0; i < klass->n_values; i++)
          gtk_combo_box_text_append_text (GTK_COMBO_BOX_TEXT (row->widget),
                                          klass->values[i].value_name);
      }
      break;

    case ZN_KIND_BOOLEAN:
      row->widget = gtk_check_button_new ();
      g_signal_connect (row->widget, "toggled", G_CALLBACK (on_row_changed), row);
      return row->widget;

    case ZN_KIND_STRING:
    case ZN_KIND_FILE:
      row->widget = gtk_entry_new ();
      gtk_entry_set_activates_default (GTK_ENTRY (row->widget), TRUE);
      if (p->kind == ZN_KIND_FILE)
        {
          GtkWidget *button = gtk_button_new_with_mnemonic ("_Browse...");

          box = gtk_hbox_new (FALSE, 6);
          gtk_box_pack_start (GTK_BOX (box), row->widget, TRUE, TRUE, 0);
          gtk_box_pack_start (GTK_BOX (box), button, FALSE, FALSE, 0);
          g_signal_connect (button, "clicked", G_CALLBACK (on_browse), row);
        }
      break;

    default:
      return number_row (row, p);
    }

  g_signal_connect (row->widget, "changed", G_CALLBACK (on_row_changed), row);

  return box ? box : row->widget;
}

static void
attach (GtkWidget *table, guint line, const gchar *text, GtkWidget *widget, const gchar *tooltip)
{
  GtkWidget *label = gtk_label_new_with_mnemonic (text);

  gtk_label_set_mnemonic_widget (GTK_LABEL (label), widget);
  gtk_misc_set_alignment (GTK_MISC (label), 0.0, 0.5);
  gtk_table_attach (GTK_TABLE (table), label, 0, 1, line, line + 1, GTK_FILL, GTK_FILL, 0, 0);
  gtk_table_attach (GTK_TABLE (table), widget, 1, 2, line, line + 1, GTK_EXPAND | GTK_FILL,
                    GTK_FILL, 0, 0);

  if (tooltip && *tooltip)
    gtk_widget_set_tooltip_text (widget, tooltip);
}

/*  presets  */

static void
on_preset_changed (GtkComboBox *combo, Dialog *d)
{
  gint            active = gtk_combo_box_get_active (combo);
  GError         *error  = NULL;
  const ZnPreset *preset;
  ZnSettings     *settings;

  if (d->updating || active < 1)
    return;

  preset   = g_ptr_array_index (d->presets, active - 1);
  settings = zn_preset_settings (preset, &error);

  if (settings)
    {
      if (d->any_filter)
        {
          zn_settings_free (d->settings);
          d->settings = settings;
        }
      else
        {
          zn_settings_copy (d->settings, settings);
          zn_settings_free (settings);
          refresh (d);
        }

      gtk_label_set_text (GTK_LABEL (d->about), preset->description);
      set_status (d, "");
      gtk_dialog_set_response_sensitive (GTK_DIALOG (d->window), GTK_RESPONSE_OK, TRUE);
      gimp_preview_invalidate (GIMP_PREVIEW (d->host->preview));
    }

  set_error (d, &error);
}

static void
load_presets (Dialog *d)
{
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

  d->preset = gtk_combo_box_text_new ();
  gtk_combo_box_text_append_text (GTK_COMBO_BOX_TEXT (d->preset),
                                  d->presets->len ? "(choose one)" : "(none found)");

  for (guint i = 0; i < d->presets->len; i++)
    gtk_combo_box_text_append_text (GTK_COMBO_BOX_TEXT (d->preset),
                                    ((ZnPreset *) g_ptr_array_index (d->presets, i))->name);

  gtk_combo_box_set_active (GTK_COMBO_BOX (d->preset), 0);
  g_signal_connect (d->preset, "changed", G_CALLBACK (on_preset_changed), d);
}

/*  the window  */

/* A label for sentences; without a width GTK 2 wraps them far too early. */
static GtkWidget *
text_new (gint width)
{
  GtkWidget *label = gtk_label_new ("");

  gtk_label_set_line_wrap (GTK_LABEL (label), TRUE);
  gtk_label_set_selectable (GTK_LABEL (label), TRUE);
  gtk_widget_set_size_request (label, width, -1);
  gtk_misc_set_alignment (GTK_MISC (label), 0.0, 0.0);
  g_object_set (label, "can-focus", FALSE, NULL);

  return label;
}

static GtkWidget *
controls_new (Dialog *d)
{
  GtkWidget *box     = gtk_vbox_new (FALSE, 12);
  guint      n_props = d->any_filter ? 0 : d->settings->n;
  GtkWidget *table   = gtk_table_new (1 + n_props, 2, FALSE);

  gtk_table_set_row_spacings (GTK_TABLE (table), 6);
  gtk_table_set_col_spacings (GTK_TABLE (table), 12);
  gtk_box_pack_start (GTK_BOX (box), table, FALSE, FALSE, 0);
  attach (table, 0, "Pr_eset", d->preset, "Values that suit a need");

  for (guint i = 0; i < n_props; i++)
    {
      ZnProperty *p   = &d->settings->property[i];
      Row        *row = &d->row[d->n_rows++];

      row->dialog = d;
      row->index  = i;
      attach (table, 1 + i, g_param_spec_get_nick (p->spec), row_new (row, p),
              g_param_spec_get_blurb (p->spec));
    }

  d->about = text_new (CONTROLS_WIDTH);
  gtk_box_pack_start (GTK_BOX (box), d->about, FALSE, FALSE, 0);

  return box;
}

static void
on_response (GtkWidget *window, gint response, Dialog *d)
{
  if (response != GTK_RESPONSE_HELP)
    d->stop = TRUE;
}

static void
build (Dialog *d, const gchar *title)
{
  GtkWidget *content;
  GtkWidget *columns;
  GtkWidget *box;

  d->window = gimp_dialog_new (title, "zenith", NULL, 0, gimp_standard_help_func, d->host->help_id,
                               "_Reset", RESPONSE_RESET, "_Cancel", GTK_RESPONSE_CANCEL, "_OK",
                               GTK_RESPONSE_OK, NULL);
  gtk_dialog_set_default_response (GTK_DIALOG (d->window), GTK_RESPONSE_OK);
  gtk_dialog_set_response_sensitive (GTK_DIALOG (d->window), GTK_RESPONSE_OK, d->settings != NULL);
  gtk_dialog_set_response_sensitive (GTK_DIALOG (d->window), RESPONSE_RESET, d->settings != NULL);
  gimp_window_set_transient (GTK_WINDOW (d->window));

  g_signal_connect (d->window, "response", G_CALLBACK (on_response), d);
  /* Escape and the window's close button answer, they do not destroy. */
  g_signal_connect (d->window, "delete-event", G_CALLBACK (gtk_true), NULL);

  box     = gtk_vbox_new (FALSE, 12);
  columns = gtk_hbox_new (FALSE, 12);
  content = gtk_dialog_get_content_area (GTK_DIALOG (d->window));
  gtk_container_set_border_width (GTK_CONTAINER (box), 12);
  gtk_box_pack_start (GTK_BOX (content), box, TRUE, TRUE, 0);
  gtk_box_pack_start (GTK_BOX (box), columns, TRUE, TRUE, 0);

  gtk_widget_set_size_request (d->host->preview, PREVIEW_SIZE, PREVIEW_SIZE);
  gtk_box_pack_start (GTK_BOX (columns), d->host->preview, TRUE, TRUE, 0);
  g_signal_connect (d->host->preview, "invalidated", G_CALLBACK (on_invalidated), d);

  load_presets (d);
  d->controls = controls_new (d);
  gtk_box_pack_start (GTK_BOX (columns), d->controls, FALSE, FALSE, 0);

  d->status = text_new (PREVIEW_SIZE + CONTROLS_WIDTH);
  gtk_box_pack_start (GTK_BOX (box), d->status, FALSE, FALSE, 0);
  d->measured = text_new (PREVIEW_SIZE + CONTROLS_WIDTH);
  gtk_box_pack_start (GTK_BOX (box), d->measured, FALSE, FALSE, 0);
  d->bar = gtk_progress_bar_new ();
  gtk_box_pack_start (GTK_BOX (box), d->bar, FALSE, FALSE, 0);

  gtk_widget_show_all (box);
  set_status (d, "");
  set_measured (d, NULL);
  refresh (d);

  /* Return accepts; where there is nothing to accept yet, a preset is chosen. */
  gtk_widget_grab_focus (
      d->any_filter ? d->preset
                    : gtk_dialog_get_widget_for_response (GTK_DIALOG (d->window), GTK_RESPONSE_OK));
}

/* OK was pressed. */
static gboolean
apply (Dialog *d)
{
  GError  *error = NULL;
  gboolean done;

  d->stop     = FALSE;
  d->applying = TRUE;
  gtk_widget_set_sensitive (d->controls, FALSE);
  gtk_widget_set_sensitive (d->host->preview, FALSE);
  gtk_dialog_set_response_sensitive (GTK_DIALOG (d->window), GTK_RESPONSE_OK, FALSE);
  gtk_dialog_set_response_sensitive (GTK_DIALOG (d->window), RESPONSE_RESET, FALSE);
  set_status (d, "");

  /* Shows the greyed window before the first, perhaps long, piece of work. */
  keep_alive (0.0, d);
  done        = d->host->apply (d->settings, keep_alive, d, d->host->data, &error);
  d->applying = FALSE;

  gtk_widget_set_sensitive (d->controls, TRUE);
  gtk_widget_set_sensitive (d->host->preview, TRUE);
  gtk_dialog_set_response_sensitive (GTK_DIALOG (d->window), GTK_RESPONSE_OK, TRUE);
  gtk_dialog_set_response_sensitive (GTK_DIALOG (d->window), RESPONSE_RESET, ! d->any_filter);
  gtk_progress_bar_set_fraction (GTK_PROGRESS_BAR (d->bar), 0.0);

  if (error)
    {
      set_status (d, error->message);
      gimp_preview_invalidate (GIMP_PREVIEW (d->host->preview));
    }
  g_clear_error (&error);

  return done;
}

gboolean
zn_dialog_run (ZnSettings **settings, const gchar *title, const ZnDialogHost *host)
{
  Dialog   d     = { .host = host, .settings = *settings, .any_filter = ! *settings };
  gboolean done  = FALSE;
  gboolean leave = FALSE;

  build (&d, title);

  while (! done && ! leave)
    {
      gint response;

      d.stop   = FALSE;
      response = gimp_dialog_run (GIMP_DIALOG (d.window));

      switch (response)
        {
        case RESPONSE_RESET:
          zn_settings_reset (d.settings);
          gtk_combo_box_set_active (GTK_COMBO_BOX (d.preset), 0);
          gtk_label_set_text (GTK_LABEL (d.about), "");
          refresh (&d);
          gimp_preview_invalidate (GIMP_PREVIEW (host->preview));
          break;

        case GTK_RESPONSE_OK:
          done = apply (&d);
          break;

        default:
          leave = TRUE;
        }
    }

  /* The preview may have a redraw pending; the window takes it along. */
  gtk_widget_destroy (d.window);
  g_ptr_array_unref (d.presets);
  g_ptr_array_unref (d.all_presets);
  *settings = d.settings;

  return done;
}
