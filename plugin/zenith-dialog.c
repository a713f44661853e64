/* SPDX-License-Identifier: MIT
 *
 * zenith-dialog.c - the window, preview, progress, status line.  The rows of properties are in
 * zenith-dialog-rows.c, the presets in -presets.c, what only faces have in -face.c, where the
 * result goes in -result.c, keys, names and sizes in zenith-access.c.
 *
 * One source for GTK 2 and GTK 3: only what both have is used, deprecated or
 * not in the newer one (GtkTable, gtk_hscale_new), which the build allows.
 *
 * Long work runs on this thread; its progress callback iterates the main
 * loop (keep_alive), so that the window is drawn and Cancel works.  Hence
 * three rules:
 *   1. a preview asked for while one is computed only sets 'again' and stops
 *      the one under way;
 *   2. whatever the user answers sets 'stop', which ends any work;
 *   3. while the filter is applied there are no previews.
 */
#include <string.h>
#include <time.h>

#include <gdk/gdkkeysyms.h>
#include <glib/gi18n-lib.h>
#include <libgimp/gimp.h>
#include <libgimp/gimpui.h>

#include "zenith-access.h"
#include "zenith-dialog-private.h"
#include "zenith-recent.h"

#define RESPONSE_RESET 1
#define LEAST_HEIGHT "zenith-least-height"
#define PREVIEW_SIZE 420
#define SMALL_PREVIEW 300
#define LEAST_PREVIEW 160
#define CONTROLS_WIDTH 360
#define EDGES 60          /* pixels beside the view and the controls */
#define BAR 20            /* ... for a scroll bar                    */
#define PREVIEW_DELAY 60  /* milliseconds from a change to its preview               */
#define LITTLE_NOISE 0.75 /* of 255: less than what 8 bits alone leave of real noise */

static const gchar little_noise[] = N_ (
    "Hardly any noise was found, so hardly anything changes.  If you see "
    "noise, set the level by hand or select a noisy part.");

static gint
text_height (GtkWidget *label, const gchar *text, gint width)
{
  PangoLayout *layout = gtk_widget_create_pango_layout (label, text);
  gint         height;

  pango_layout_set_width (layout, width * PANGO_SCALE);
  pango_layout_set_wrap (layout, PANGO_WRAP_WORD_CHAR);
  pango_layout_get_pixel_size (layout, NULL, &height);
  g_object_unref (layout);

  return height + 2;
}

/* Empty texts keep their space, so that the dialog never jumps; longer ones get more. */
void
zn_dialog_set_text (GtkWidget *label, const gchar *text)
{
  const gint least = GPOINTER_TO_INT (g_object_get_data (G_OBJECT (label), LEAST_HEIGHT));
  gint       width;

  gtk_widget_get_size_request (label, &width, NULL);
  gtk_label_set_text (GTK_LABEL (label), text);
  gtk_widget_set_size_request (label, width, MAX (text_height (label, text, width), least));
}

/* Where there is nothing else to say, weights that are missing stay mentioned. */
void
zn_dialog_set_status (Dialog *d, const gchar *text)
{
  zn_dialog_set_text (d->status, *text || ! d->lacks ? text : d->lacks);
}

static gdouble
given_level (Dialog *d)
{
  for (guint i = 0; d->settings && i < d->settings->n; i++)
    if (! strcmp (d->settings->property[i].spec->name, "sigma"))
      return zn_settings_get_number (d->settings, i);

  return 0.0;
}

/* The measured level, next to the slider, whether it is used or not. */
void
zn_dialog_show_level (Dialog *d)
{
  const gdouble level = d->found.mean;
  gchar        *text  = NULL;

  if (d->faults)
    {
      text = d->found.text && *d->found.text ? g_strdup_printf (_ ("Found: %s"), d->found.text)
                                             : g_strdup ("");
      zn_dialog_set_text (d->faults, text);
      g_free (text);
    }
  if (! d->level)
    return;

  if (level >= 0.0 && given_level (d) > 0.0)
    text = g_strdup_printf (_ ("by hand; automatic would be %.1f"), level);
  else if (level >= 0.0)
    text = g_strdup_printf (_ ("automatic (%.1f)"), level);
  else
    text = g_strdup (given_level (d) > 0.0 ? _ ("by hand") : _ ("automatic"));
  gtk_label_set_text (GTK_LABEL (d->level), text);
  gtk_widget_set_tooltip_text (d->level, d->found.text);
  g_free (text);

  zn_dialog_set_text (d->warning, level >= 0.0 && level < LITTLE_NOISE && given_level (d) == 0.0
                                      ? _ (little_noise)
                                      : "");
}

/* Takes what was measured; if that is nothing, the last one is shown. */
static void
set_measured (Dialog *d, ZnNoise *noise)
{
  if (noise->mean >= 0.0 || d->faults)
    {
      g_free (d->found.text);
      d->found = *noise;
    }
  else
    {
      g_free (noise->text);
    }
  zn_dialog_show_level (d);
}

void
zn_dialog_set_error (Dialog *d, GError **error)
{
  if (*error && ! g_error_matches (*error, ZN_ERROR, ZN_ERROR_CANCELLED))
    zn_dialog_set_status (d, (*error)->message);

  g_clear_error (error);
}

/* With $ZENITH_VERBOSE: when something was there, and what it has cost since the process began. */
static void
note_time (const gchar *what)
{
  if (g_getenv ("ZENITH_VERBOSE"))
    g_printerr ("zenith: %s at %.2f s, CPU %.2f s\n", what, g_get_real_time () / 1e6,
                (gdouble) clock () / CLOCKS_PER_SEC);
}

/* "40 %, 12 s left"; nothing in the first second. */
static void
show_progress (Dialog *d, gdouble fraction)
{
  const gdouble seconds = (g_get_monotonic_time () - d->began) / 1e6;
  gchar        *text    = NULL;

  gtk_progress_bar_set_fraction (GTK_PROGRESS_BAR (d->bar), CLAMP (fraction, 0.0, 1.0));

  if (fraction > 0.0 && seconds >= 1.0)
    {
      const gint left    = (gint) (seconds * (1.0 - fraction) / fraction + 0.5);
      const gint percent = (gint) (fraction * 100.0);

      if (seconds < 3.0 && fraction < 0.1)
        text = g_strdup_printf (_ ("%d %%"), percent);
      else if (left >= 120)
        text = g_strdup_printf (_ ("%d %%, about %d minutes left"), percent, (left + 30) / 60);
      else
        text = g_strdup_printf (_ ("%d %%, %d s left"), percent, left);
    }
  gtk_progress_bar_set_text (GTK_PROGRESS_BAR (d->bar), text ? text : " ");
  g_free (text);
}

static gboolean
keep_alive (gdouble fraction, gpointer data)
{
  Dialog *d = data;

  show_progress (d, fraction);

  while (gtk_events_pending ())
    gtk_main_iteration ();

  return ! d->stop && ! (d->busy && d->again);
}

/*  preview  */

/* Progress over the parts of the view. */
typedef struct
{
  Dialog *dialog;
  guint   done;
  guint   n;
} Parts;

static gboolean
keep_alive_part (gdouble fraction, gpointer data)
{
  Parts *parts = data;

  return keep_alive ((parts->done + fraction) / parts->n, parts->dialog);
}

static gboolean
draw_part (Dialog              *d,
           const ZnSettings    *settings,
           const GeglRectangle *part,
           Parts               *parts,
           GError             **error)
{
  const gint density = zn_settings_scale (settings);
  guchar    *rgba    = g_malloc ((gsize) part->width * part->height * density * density * 4);
  ZnFound    found;
  gboolean   ok;

  ok = zn_apply_to_pixels (settings, d->host->picture.source, &d->host->picture.selected, part,
                           rgba, &found, keep_alive_part, parts, error);
  if (! d->again)
    zn_dialog_show_found (d, &found);
  if (ok && ! d->again)
    {
      zn_view_show (d->view, part, density, rgba);
      if (d->cannot || (found.note && *found.note)) /* the message of apply() stays */
        zn_dialog_set_status (d, found.note ? found.note : "");
      set_measured (d, &found.noise);
    }
  else
    {
      g_free (found.noise.text);
    }
  g_free (found.note);
  g_free (rgba);

  return ok;
}

gboolean
zn_dialog_makes_layer (Dialog *d)
{
  return d->settings && (d->settings->filter->makes_layer || d->settings->filter->planes);
}

/* What the sampler has so far; a new picture is fitted into the place of the source. */
void
zn_dialog_show_estimate (gpointer data, GeglBuffer *estimate)
{
  Dialog              *d     = data;
  const GeglRectangle *all   = gegl_buffer_get_extent (d->host->picture.source);
  const GeglRectangle *box   = gegl_buffer_get_extent (estimate);
  gdouble              scale = 1.0;
  GeglRectangle        part;
  const GeglRectangle *now = g_object_get_data (G_OBJECT (estimate), "zenith-changed");
  const gboolean same      = now && gegl_rectangle_equal (now, &d->changed); /* the rest is shown */

  d->changed = now ? *now : (GeglRectangle){ 0, 0, 0, 0 };
  if (zn_dialog_makes_layer (d) && ! gegl_rectangle_equal (all, box))
    scale = MIN ((gdouble) all->width / box->width, (gdouble) all->height / box->height);

  for (guint i = 0; (d->applying || ! d->again) && zn_view_part (d->view, i, &part); i++)
    {
      guchar *rgba;

      if (same && ! gegl_rectangle_intersect (&part, &part, now))
        continue;
      rgba = g_malloc ((gsize) part.width * part.height * 4);
      gegl_buffer_get (estimate, &part, scale, babl_format ("R'G'B'A u8"), rgba,
                       GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);
      zn_view_show (d->view, &part, 1, rgba);
      g_free (rgba);
    }
}

static void
draw_parts (Dialog *d, const ZnSettings *settings, Parts *parts, GError **error)
{
  GeglRectangle part;

  for (guint i = 0; ! *error && ! d->again && zn_view_part (d->view, i, &part); i++)
    {
      draw_part (d, settings, &part, parts, error);
      parts->done++;
    }
}

/* The same with the model that is quick, to be freed; NULL: there is none, or it is chosen. */
static ZnSettings *
quick_settings (const ZnSettings *settings)
{
  const gchar *model = settings->filter->quick_model;
  ZnSettings  *quick = model ? zn_settings_new (settings->filter, NULL) : NULL;
  gchar       *was   = zn_settings_to_lines (settings), *now;

  if (quick)
    {
      zn_settings_copy (quick, settings);
      zn_settings_set_text (quick, "model", model, NULL);
      now = zn_settings_to_lines (quick);
      if (! strcmp (was, now))
        g_clear_pointer (&quick, zn_settings_free);
      g_free (now);
    }
  g_free (was);

  return quick;
}

/* What the quick model makes is shown until there is more; whatever it lacks, the other may have. */
static void
draw_quickly (Dialog *d, Parts *parts, GError **error)
{
  const guint n     = parts->n;
  ZnSettings *quick = quick_settings (d->settings);

  if (quick)
    {
      parts->n += n;
      draw_parts (d, quick, parts, error);
      note_time ("first view");
      parts->done = n;
      if (! g_error_matches (*error, ZN_ERROR, ZN_ERROR_CANCELLED))
        g_clear_error (error);
    }
  zn_settings_free (quick);
}

static void
draw_preview (Dialog *d)
{
  ZnEstimate    estimate = { zn_dialog_show_estimate, d };
  Parts         parts    = { d, 0, 0 };
  GError       *error    = NULL;
  GeglRectangle part;
  ZnNoise       measured;

  if (! d->settings)
    return;
  zn_dialog_check_weights (d);
  if (zn_dialog_makes_layer (d)) /* takes too long for a preview: it is shown while OK is at work */
    {
      zn_view_clear (d->view);
      d->began = g_get_monotonic_time ();
      if (d->settings->filter->from_nothing)
        zn_dialog_draw_new_faces (d, keep_alive);
      show_progress (d, 0.0);
      return;
    }

  while (zn_view_part (d->view, parts.n, &part))
    parts.n++;

  d->began = g_get_monotonic_time ();
  zn_apply_set_estimate (d->host->picture.source, &estimate);
  draw_quickly (d, &parts, &error);
  draw_parts (d, d->settings, &parts, &error);
  zn_apply_set_estimate (d->host->picture.source, NULL);

  d->cannot = error && ! g_error_matches (error, ZN_ERROR, ZN_ERROR_CANCELLED);
  if (! error && ! d->again && d->found.mean < 0.0 && d->level &&
      zn_apply_measure (d->settings, d->host->picture.source, &d->host->picture.selected, &measured,
                        keep_alive, d))
    set_measured (d, &measured);
  zn_dialog_set_error (d, &error);
  show_progress (d, 0.0);
}

static gboolean
on_later (gpointer data)
{
  Dialog *d = data;

  d->later = 0;
  d->busy  = TRUE;

  while (d->again && ! d->stop)
    {
      d->again = FALSE;
      draw_preview (d);
      note_time (d->again ? "part of the preview" : "preview");
    }

  d->busy = FALSE;
  zn_dialog_check_engines (d);

  return G_SOURCE_REMOVE;
}

/* What is shown is out of date. */
void
zn_dialog_invalidate (gpointer data)
{
  Dialog *d = data;

  d->again = TRUE;

  if (! d->busy && ! d->applying && ! d->later)
    d->later = g_timeout_add (PREVIEW_DELAY, on_later, d);
}

/*  the window  */

/* A label for messages, with the space that `usual` takes even if it is empty; without a
 * width GTK 2 wraps them far too early. */
static GtkWidget *
text_new (gint width, const gchar *usual)
{
  GtkWidget *label  = gtk_label_new ("");
  const gint height = text_height (label, usual, width);

  gtk_label_set_line_wrap (GTK_LABEL (label), TRUE);
  gtk_label_set_max_width_chars (GTK_LABEL (label), 1); /* no text makes the window wider */
  gtk_label_set_selectable (GTK_LABEL (label), TRUE);
  gtk_widget_set_size_request (label, width, height);
  g_object_set_data (G_OBJECT (label), LEAST_HEIGHT, GINT_TO_POINTER (height));
  gtk_misc_set_alignment (GTK_MISC (label), 0.0, 0.0);
  g_object_set (label, "can-focus", FALSE, NULL);

  return label;
}

static GtkWidget *
controls_new (Dialog *d)
{
  GtkWidget *box   = gtk_vbox_new (FALSE, 12);
  GtkWidget *table = gtk_table_new (1, 2, FALSE);
  guint      line  = 0;

  gtk_table_set_row_spacings (GTK_TABLE (table), 6);
  gtk_table_set_col_spacings (GTK_TABLE (table), 12);
  gtk_box_pack_start (GTK_BOX (box), table, FALSE, FALSE, 0);
  zn_dialog_attach (table, line++, _ ("Pr_eset"), d->preset, _ ("Settings for a purpose"));
  if (! d->any_filter)
    zn_dialog_attach (table, line++, "", zn_dialog_preset_buttons (d), NULL);

  if (! d->any_filter && d->settings->filter->n_sliders)
    zn_dialog_attach (
        table, line++, _ ("Face"), zn_dialog_faces_new (d),
        _ ("Which face is changed; a click on a frame in the picture chooses it, too"));
  line = zn_dialog_property_rows (d, box, table, line);
  zn_dialog_result_rows (d, table, line);

  d->about = text_new (CONTROLS_WIDTH, "X\nX");
  gtk_box_pack_start (GTK_BOX (box), d->about, FALSE, FALSE, 0);
  if (d->level)
    {
      d->warning = text_new (CONTROLS_WIDTH, _ (little_noise));
      gtk_box_pack_start (GTK_BOX (box), d->warning, FALSE, FALSE, 0);
    }
  if (! d->any_filter &&
      gegl_operation_find_property (d->settings->filter->operation, "measured-blur"))
    {
      d->faults = text_new (CONTROLS_WIDTH, "X\nX");
      gtk_box_pack_start (GTK_BOX (box), d->faults, FALSE, FALSE, 0);
    }

  return box;
}

gboolean
zn_help (const gchar *page, GError **error)
{
  gchar   *uri  = zn_help_uri (page);
  gboolean done = uri && g_app_info_launch_default_for_uri (uri, NULL, NULL);

  if (! uri)
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s", _ ("The help page is not installed."));
  else if (! done)
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, _ ("No program opens the help page %s"), uri);
  g_free (uri);

  return done;
}

static void
help (Dialog *d)
{
  GError *error = NULL;

  zn_help (d->settings ? d->settings->filter->page : "presets", &error);
  zn_dialog_set_error (d, &error);
}

static gboolean
on_key (GtkWidget *window, GdkEventKey *event, Dialog *d)
{
  if (event->keyval != GDK_KEY_F1)
    return FALSE;

  help (d);

  return TRUE;
}

static void
on_response (GtkWidget *window, gint response, Dialog *d)
{
  if (response != GTK_RESPONSE_HELP)
    d->stop = TRUE;
}

static gboolean
is_too_wide (Dialog *d)
{
  return zn_access_wanted (d->controls).width + zn_access_wanted (zn_view_widget (d->view)).width +
             EDGES >
         zn_access_room (d->window).width;
}

/* Where the screen is too narrow, even with a small view, its buttons get two rows; then labels go above
 * what they name. */
static void
make_narrow (Dialog *d)
{
  zn_view_set_side (d->view, SMALL_PREVIEW);
  if (is_too_wide (d))
    zn_view_narrow (d->view);
  if (is_too_wide (d))
    zn_access_stack (d->controls);
}

/* Where it is too low, too, the view becomes smaller, and the controls scroll. */
static void
fit (Dialog *d)
{
  const GtkRequisition room     = zn_access_room (d->window);
  const GtkRequisition all      = zn_access_wanted (d->window);
  const GtkRequisition controls = zn_access_wanted (d->controls);
  const GtkRequisition scroll   = zn_access_wanted (d->scroll);
  const GtkRequisition view     = zn_access_wanted (zn_view_widget (d->view));
  const gint           rest     = all.height - MAX (view.height, scroll.height);
  const gint           tools    = view.height - zn_view_side (d->view);
  const gint           height   = MIN (controls.height, room.height - rest);
  const gint           width    = controls.width + (height < controls.height ? BAR : 0);
  gint                 now_width, now_height;

  gtk_widget_set_size_request (d->scroll, width, height);
  zn_view_set_side (d->view, CLAMP (MIN (room.width - EDGES - width, room.height - rest - tools),
                                    LEAST_PREVIEW, PREVIEW_SIZE));
  gtk_window_get_size (GTK_WINDOW (d->window), &now_width, &now_height);
  if (now_width > room.width || now_height > room.height) /* a longer message came */
    gtk_window_resize (GTK_WINDOW (d->window), MIN (now_width, room.width),
                       MIN (now_height, room.height));
}

static gboolean
on_fit (gpointer data)
{
  Dialog *d = data;

  d->fit = 0;
  fit (d);

  return G_SOURCE_REMOVE;
}

static void
on_box_size (GtkWidget *box, GtkAllocation *size, Dialog *d)
{
  if (! d->fit)
    d->fit = g_idle_add (on_fit, d);
}

static GtkWidget *
scroll_new (Dialog *d)
{
  GtkWidget *viewport = gtk_viewport_new (NULL, NULL);

  d->scroll = gtk_scrolled_window_new (NULL, NULL);
  gtk_scrolled_window_set_policy (GTK_SCROLLED_WINDOW (d->scroll), GTK_POLICY_NEVER,
                                  GTK_POLICY_AUTOMATIC);
  gtk_viewport_set_shadow_type (GTK_VIEWPORT (viewport), GTK_SHADOW_NONE);
  gtk_container_add (GTK_CONTAINER (viewport), d->controls);
  gtk_container_add (GTK_CONTAINER (d->scroll), viewport);
  gtk_container_set_focus_vadjustment (
      GTK_CONTAINER (d->controls),
      gtk_scrolled_window_get_vadjustment (GTK_SCROLLED_WINDOW (d->scroll)));

  return d->scroll;
}

static void
build (Dialog *d, const gchar *title)
{
  GtkWidget *content;
  GtkWidget *columns;
  GtkWidget *box;

  d->window = gimp_dialog_new (title, "zenith", NULL, 0, NULL, d->host->help_id, _ ("_Help"),
                               GTK_RESPONSE_HELP, _ ("_Reset"), RESPONSE_RESET, _ ("_Cancel"),
                               GTK_RESPONSE_CANCEL, _ ("_OK"), GTK_RESPONSE_OK, NULL);
  g_signal_connect (d->window, "key-press-event", G_CALLBACK (on_key), d);
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
  g_signal_connect (box, "size-allocate", G_CALLBACK (on_box_size), d);
  gtk_box_pack_start (GTK_BOX (content), box, TRUE, TRUE, 0);
  gtk_box_pack_start (GTK_BOX (box), columns, TRUE, TRUE, 0);

  d->view = zn_view_new (&d->host->picture, PREVIEW_SIZE, zn_dialog_invalidate, d);
  gtk_box_pack_start (GTK_BOX (columns), zn_view_widget (d->view), TRUE, TRUE, 0);

  d->preset     = gtk_combo_box_text_new ();
  d->attributes = d->settings ? zn_attributes (d->settings) : NULL;
  d->controls   = controls_new (d);
  zn_dialog_load_presets (d, NULL);
  g_signal_connect (d->preset, "changed", G_CALLBACK (zn_dialog_preset_changed), d);
  gtk_box_pack_start (GTK_BOX (columns), scroll_new (d), FALSE, FALSE, 0);

  d->status = text_new (PREVIEW_SIZE + CONTROLS_WIDTH, "X\nX");
  gtk_box_pack_start (GTK_BOX (box), d->status, FALSE, FALSE, 0);
  gtk_box_pack_start (GTK_BOX (box), zn_dialog_links_new (d), FALSE, FALSE, 0);
  d->bar = gtk_progress_bar_new ();
#if GTK_CHECK_VERSION(3, 0, 0)
  gtk_progress_bar_set_show_text (GTK_PROGRESS_BAR (d->bar), TRUE);
#endif
  gtk_progress_bar_set_text (GTK_PROGRESS_BAR (d->bar), " ");
  gtk_box_pack_start (GTK_BOX (box), d->bar, FALSE, FALSE, 0);

  gtk_widget_show_all (box);
  if (d->size)
    zn_view_magnify (d->view);
  else if (d->settings && d->settings->filter->from_nothing)
    zn_view_fit (d->view);
#if GIMP_MAJOR_VERSION >= 3
  if (d->size)
    zn_dialog_set_text (d->about,
                        _ ("GIMP cannot keep a change of size as a filter: this makes pixels, "
                           "and Undo takes them back."));
#endif
  zn_dialog_draw_seed (d);
  zn_dialog_refresh (d);
  zn_access_give_keys (d->window);
  make_narrow (d);
  fit (d);
  zn_access_watch (d->window);
  note_time ("dialog");

  /* Return accepts; where there is nothing to accept yet, a preset is chosen. */
  gtk_widget_grab_focus (
      d->any_filter ? d->preset
      : d->prompt   ? d->prompt
                    : gtk_dialog_get_widget_for_response (GTK_DIALOG (d->window), GTK_RESPONSE_OK));
}

/* OK was pressed. */
static gboolean
apply (Dialog *d)
{
  ZnEstimate estimate = { zn_dialog_show_estimate, d };
  GError    *error    = NULL;
  gboolean   done;

  d->stop     = FALSE;
  d->applying = TRUE;
  gtk_widget_set_sensitive (d->controls, FALSE);
  gtk_widget_set_sensitive (zn_view_widget (d->view), FALSE);
  gtk_dialog_set_response_sensitive (GTK_DIALOG (d->window), GTK_RESPONSE_OK, FALSE);
  gtk_dialog_set_response_sensitive (GTK_DIALOG (d->window), RESPONSE_RESET, FALSE);
  zn_dialog_set_status (d, "");
  d->began = g_get_monotonic_time ();

  /* Shows the greyed window before the first, perhaps long, piece of work. */
  keep_alive (0.0, d);
  if (zn_dialog_makes_layer (d))
    zn_apply_set_estimate (d->host->picture.source, &estimate);
  done = d->host->apply (d->settings, keep_alive, d, d->host->data, &error);
  zn_apply_set_estimate (d->host->picture.source, NULL);
  if (done)
    zn_dialog_keep_result (d);
  if (done && d->prompt)
    zn_recent_add_prompt (gtk_entry_get_text (GTK_ENTRY (d->prompt)));
  d->applying = FALSE;

  gtk_widget_set_sensitive (d->controls, TRUE);
  gtk_widget_set_sensitive (zn_view_widget (d->view), TRUE);
  gtk_dialog_set_response_sensitive (GTK_DIALOG (d->window), GTK_RESPONSE_OK, TRUE);
  gtk_dialog_set_response_sensitive (GTK_DIALOG (d->window), RESPONSE_RESET, ! d->any_filter);
  show_progress (d, 0.0);

  if (error)
    {
      zn_dialog_set_status (d, error->message);
      zn_dialog_invalidate (d);
    }
  g_clear_error (&error);

  return done;
}

gboolean
zn_dialog_run (ZnSettings **settings, gchar **preset, const gchar *title, const ZnDialogHost *host)
{
  Dialog d = {
    .host = host, .settings = *settings, .any_filter = ! *settings, .found = { -1.0, NULL }
  };
  gboolean done  = FALSE;
  gboolean leave = FALSE;

  d.retired = g_ptr_array_new_with_free_func ((GDestroyNotify) zn_settings_free);
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
          zn_dialog_choose_none (&d);
          zn_dialog_refresh (&d);
          zn_dialog_invalidate (&d);
          break;

        case GTK_RESPONSE_HELP:
          help (&d);
          break;

        case GTK_RESPONSE_OK:
          done = apply (&d);
          break;

        default:
          leave = TRUE;
        }
    }

  if (preset)
    *preset = zn_dialog_preset (&d) ? g_strdup (zn_dialog_preset (&d)->name) : NULL;
  if (d.later)
    g_source_remove (d.later);
  if (d.fit)
    g_source_remove (d.fit);
  gtk_widget_destroy (d.window);
  zn_view_free (d.view);
  g_free (d.found.text);
  zn_dialog_clear_faces (&d);
  g_free (d.checked);
  g_free (d.lacks);
  g_ptr_array_unref (d.retired);
  g_ptr_array_unref (d.presets);
  g_ptr_array_unref (d.all_presets);
  *settings = d.settings;

  return done;
}
