/* SPDX-License-Identifier: MIT
 *
 * zenith-access.c - keys, names, sizes; see the header.
 */
#include <string.h>

#include <gdk/gdkkeysyms.h>

#include "zenith-access.h"

#define ROW_KEY "zenith-row"
#define FRAME_WIDTH 16  /* pixels that the window manager puts around a window */
#define FRAME_HEIGHT 64 /* ... and a panel beside it                           */
#define ARROW 24        /* of a combo box                                      */
#define WATCH_PAUSE 500 /* milliseconds                                        */

/* Calls f for a widget and all that it shows; of a combo box for its entry only. */
static void
visit (GtkWidget *widget, GtkCallback f, gpointer data)
{
  GList *children = NULL;

  f (widget, data);
  if (GTK_IS_COMBO_BOX (widget))
    {
      if (GTK_IS_ENTRY (gtk_bin_get_child (GTK_BIN (widget))))
        f (gtk_bin_get_child (GTK_BIN (widget)), data);
      return;
    }
  if (! GTK_IS_CONTAINER (widget))
    return;

  children = gtk_container_get_children (GTK_CONTAINER (widget));
  if (GTK_IS_EXPANDER (widget) &&
      ! g_list_find (children, gtk_expander_get_label_widget (GTK_EXPANDER (widget))))
    children = g_list_prepend (children, gtk_expander_get_label_widget (GTK_EXPANDER (widget)));
  for (GList *l = children; l; l = l->next)
    visit (l->data, f, data);
  g_list_free (children);
}

static gboolean
is_control (GtkWidget *widget)
{
  return GTK_IS_RANGE (widget)
             ? ! GTK_IS_SCROLLBAR (widget)
             : GTK_IS_ENTRY (widget) || GTK_IS_COMBO_BOX (widget) || GTK_IS_BUTTON (widget);
}

/*  names  */

static void
find_text (GtkWidget *widget, gpointer found)
{
  if (GTK_IS_LABEL (widget) && *gtk_label_get_text (GTK_LABEL (widget)))
    *(const gchar **) found = gtk_label_get_text (GTK_LABEL (widget));
}

/* What is written on a button. */
static const gchar *
text_on (GtkWidget *widget)
{
  const gchar *text = NULL;

  if (GTK_IS_BUTTON (widget))
    visit (widget, find_text, &text);

  return text;
}

static void
set_name (GtkWidget *widget, gpointer name)
{
  AtkObject *accessible = gtk_widget_get_accessible (widget);

  if (is_control (widget) && ! text_on (widget) &&
      ! (GTK_IS_BUTTON (widget) && atk_object_get_name (accessible)))
    atk_object_set_name (accessible, name);
}

void
zn_access_name (GtkWidget *widget, const gchar *name)
{
  if (GTK_IS_CONTAINER (widget))
    visit (widget, set_name, (gpointer) name);
  else
    atk_object_set_name (gtk_widget_get_accessible (widget), name);
}

static void
find_control (GtkWidget *widget, gpointer found)
{
  GtkWidget **first = found;

  if (! *first && is_control (widget))
    *first = widget;
}

void
zn_access_label (GtkWidget *label, GtkWidget *widget)
{
  GtkWidget *first = NULL;

  zn_access_name (widget, gtk_label_get_text (GTK_LABEL (label)));
  visit (widget, find_control, &first);
  if (first)
    gtk_label_set_mnemonic_widget (GTK_LABEL (label), first);
  g_object_set_data (G_OBJECT (label), ROW_KEY, label);
}

/*  keys  */

static gunichar
key_of (GtkWidget *label)
{
  const guint key = gtk_label_get_mnemonic_keyval (GTK_LABEL (label));

  return key == GDK_KEY_VoidSymbol ? 0 : g_unichar_tolower (gdk_keyval_to_unicode (key));
}

static gboolean
is_row (GtkWidget *widget)
{
  return GTK_IS_LABEL (widget) && g_object_get_data (G_OBJECT (widget), ROW_KEY) &&
         gtk_label_get_mnemonic_widget (GTK_LABEL (widget));
}

static void
note_key (GtkWidget *widget, gpointer used)
{
  if (GTK_IS_LABEL (widget) && key_of (widget))
    g_hash_table_insert (used, GUINT_TO_POINTER (key_of (widget)), widget);
}

static void
give_key (GtkWidget *widget, gpointer used)
{
  const gchar *text, *at;

  if (! is_row (widget) || key_of (widget))
    return;

  text = gtk_label_get_text (GTK_LABEL (widget));
  for (at = text; *at; at = g_utf8_next_char (at))
    {
      const gunichar letter = g_unichar_tolower (g_utf8_get_char (at));

      if (g_ascii_isalnum (letter & 0x7f) && letter < 0x80 &&
          ! g_hash_table_contains (used, GUINT_TO_POINTER (letter)))
        {
          gchar *marked = g_strdup_printf ("%.*s_%s", (gint) (at - text), text, at);

          g_hash_table_insert (used, GUINT_TO_POINTER (letter), widget);
          gtk_label_set_text_with_mnemonic (GTK_LABEL (widget), marked);
          g_free (marked);
          return;
        }
    }
}

void
zn_access_give_keys (GtkWidget *window)
{
  GHashTable *used = g_hash_table_new (NULL, NULL);

  visit (window, note_key, used);
  visit (window, give_key, used);
  g_hash_table_unref (used);
}

/*  sizes  */

static void
stack_child (GtkWidget *child, gpointer table)
{
  guint top, left;

  gtk_container_child_get (table, child, "top-attach", &top, "left-attach", &left, NULL);
  gtk_container_child_set (table, child, "left-attach", 0, "right-attach", 2, "bottom-attach",
                           2 * top + left + 1, "top-attach", 2 * top + left, NULL);
  if (GTK_IS_LABEL (child) && ! *gtk_label_get_text (GTK_LABEL (child)))
    gtk_widget_hide (child);
}

static void
stack_table (GtkWidget *widget, gpointer data)
{
  guint rows, columns;

  if (! GTK_IS_TABLE (widget))
    return;
  g_object_get (widget, "n-rows", &rows, "n-columns", &columns, NULL);
  if (columns == 2)
    {
      gtk_table_resize (GTK_TABLE (widget), 2 * rows, 2);
      gtk_container_foreach (GTK_CONTAINER (widget), stack_child, widget);
      gtk_table_set_row_spacings (GTK_TABLE (widget), 2);
    }
}

void
zn_access_stack (GtkWidget *widget)
{
  visit (widget, stack_table, NULL);
}

GtkRequisition
zn_access_wanted (GtkWidget *widget)
{
  GtkRequisition size;

#if GTK_CHECK_VERSION(3, 0, 0)
  gtk_widget_get_preferred_size (widget, NULL, &size);
#else
  gtk_widget_size_request (widget, &size);
#endif

  return size;
}

GtkRequisition
zn_access_room (GtkWidget *window)
{
  GdkScreen *screen = gtk_widget_get_screen (window);

  return (GtkRequisition){ gdk_screen_get_width (screen) - FRAME_WIDTH,
                           gdk_screen_get_height (screen) - FRAME_HEIGHT };
}

/*  what is wrong  */

typedef struct
{
  GtkWidget  *window;
  GHashTable *keys; /* label by key */
  GString    *text;
} Faults;

static gboolean
scrolls (GtkWidget *widget)
{
  return gtk_widget_get_ancestor (widget, GTK_TYPE_VIEWPORT) != NULL;
}

static void
check_label (Faults *faults, GtkWidget *label)
{
  const gchar  *text   = gtk_label_get_text (GTK_LABEL (label));
  PangoLayout  *layout = gtk_label_get_layout (GTK_LABEL (label));
  GtkAllocation has, all;
  gint          width, height, x, y;

  gtk_widget_get_allocation (label, &has);
  gtk_widget_get_allocation (faults->window, &all);
  pango_layout_get_pixel_size (layout, &width, &height);
  if (*text && (width > has.width || height > has.height || pango_layout_is_ellipsized (layout)))
    g_string_append_printf (faults->text, "cut: %d x %d in %d x %d: %s\n", width, height, has.width,
                            has.height, text);
  if (*text && ! scrolls (label) &&
      gtk_widget_translate_coordinates (label, faults->window, 0, 0, &x, &y) &&
      (x < 0 || y < 0 || x + has.width > all.width || y + has.height > all.height))
    g_string_append_printf (faults->text, "outside: %s\n", text);
  if (key_of (label) && gtk_widget_is_sensitive (label))
    {
      const gpointer key   = GUINT_TO_POINTER (key_of (label));
      GtkWidget     *other = g_hash_table_lookup (faults->keys, key);

      if (other)
        g_string_append_printf (faults->text, "two keys: %s, %s\n",
                                gtk_label_get_label (GTK_LABEL (label)),
                                gtk_label_get_label (GTK_LABEL (other)));
      g_hash_table_insert (faults->keys, key, label);
    }
}

/* What is chosen in it; an entry can be scrolled. */
static void
check_combo (Faults *faults, GtkWidget *combo)
{
  GtkTreeModel *model = gtk_combo_box_get_model (GTK_COMBO_BOX (combo));
  gchar        *text  = NULL;
  GtkTreeIter   at;
  PangoLayout  *layout;
  GtkAllocation has;
  gint          width;

  if (gtk_combo_box_get_has_entry (GTK_COMBO_BOX (combo)) ||
      ! gtk_combo_box_get_active_iter (GTK_COMBO_BOX (combo), &at))
    return;
  gtk_tree_model_get (model, &at, 0, &text, -1);
  layout = gtk_widget_create_pango_layout (combo, text ? text : "");
  pango_layout_get_pixel_size (layout, &width, NULL);
  gtk_widget_get_allocation (combo, &has);
  if (width + ARROW > has.width)
    g_string_append_printf (faults->text, "cut: %d and an arrow in %d: %s\n", width, has.width,
                            text);
  g_object_unref (layout);
  g_free (text);
}

/* GTK 3 calls mapped what an expander hides. */
static gboolean
is_folded (GtkWidget *widget)
{
  GtkWidget *expander = gtk_widget_get_ancestor (widget, GTK_TYPE_EXPANDER);

  return expander && ! gtk_expander_get_expanded (GTK_EXPANDER (expander)) &&
         widget != gtk_expander_get_label_widget (GTK_EXPANDER (expander));
}

static void
check_widget (GtkWidget *widget, gpointer data)
{
  Faults *faults = data;

  if (! gtk_widget_get_mapped (widget) || is_folded (widget))
    return;
  if (GTK_IS_LABEL (widget))
    check_label (faults, widget);
  if (GTK_IS_COMBO_BOX (widget))
    check_combo (faults, widget);
  if (is_control (widget) && ! text_on (widget))
    {
      const gchar *name = atk_object_get_name (gtk_widget_get_accessible (widget));

      if (! name || ! *name)
        g_string_append_printf (faults->text, "no name: %s\n", G_OBJECT_TYPE_NAME (widget));
    }
}

/* After a resize that is under way; the next look corrects this one. */
static gboolean
on_watch (gpointer window)
{
  Faults         faults = { window, g_hash_table_new (NULL, NULL), g_string_new (NULL) };
  gchar         *name   = g_strconcat (gtk_window_get_title (window), ".layout", NULL);
  gchar         *file   = g_build_filename (g_getenv ("ZENITH_LAYOUT"), name, NULL);
  GtkRequisition room   = zn_access_room (window);
  GtkAllocation  has;

  gtk_widget_get_allocation (window, &has);
  visit (window, check_widget, &faults);
  if (has.width > room.width || has.height > room.height)
    g_string_append_printf (faults.text, "beyond the screen: %d x %d of %d x %d\n", has.width,
                            has.height, room.width, room.height);
  if (! faults.text->len)
    g_string_append (faults.text, "ok\n");
  if (gtk_widget_get_mapped (window))
    g_file_set_contents (file, faults.text->str, -1, NULL);
  g_string_free (faults.text, TRUE);
  g_hash_table_unref (faults.keys);
  g_free (file);
  g_free (name);

  return G_SOURCE_CONTINUE;
}

static void
on_gone (GtkWidget *window, gpointer source)
{
  g_source_remove (GPOINTER_TO_UINT (source));
}

void
zn_access_watch (GtkWidget *window)
{
  if (g_getenv ("ZENITH_LAYOUT"))
    {
      const guint source = g_timeout_add_full (G_PRIORITY_LOW, WATCH_PAUSE, on_watch, window, NULL);

      g_signal_connect (window, "destroy", G_CALLBACK (on_gone), GUINT_TO_POINTER (source));
    }
}
