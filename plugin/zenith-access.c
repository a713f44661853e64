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
  if (GTK_IS_TABLE (widget)) /* the last one is the first there */
    children = g_list_reverse (children);
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

/* A button's key would press it. */
static void
find_control (GtkWidget *widget, gpointer found)
{
  GtkWidget **first = found;

  if (! *first && is_control (widget) &&
      (! GTK_IS_BUTTON (widget) || GTK_IS_TOGGLE_BUTTON (widget)))
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
  g_object_set_data (G_OBJECT (label), ROW_KEY, widget);
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

static gboolean
has_letter (const gchar *text)
{
  for (; *text; text++)
    if (g_ascii_isalnum (*text))
      return TRUE;

  return FALSE;
}

static void
mark (GtkWidget *label, const gchar *text, gint at, const gchar *rest)
{
  gchar *marked = g_strdup_printf ("%.*s_%s", at, text, rest);

  gtk_label_set_text_with_mnemonic (GTK_LABEL (label), marked);
  g_free (marked);
}

/* Underlines a letter of the label; one that it has not, as in Chinese, goes behind it. */
static void
show_key (GtkWidget *label, gchar key)
{
  const gchar *text = gtk_label_get_text (GTK_LABEL (label));
  gint         at   = 0;

  while (text[at] && g_ascii_tolower (text[at]) != key)
    at++;
  if (text[at])
    {
      mark (label, text, at, text + at);
    }
  else
    {
      gchar *more   = g_strdup_printf ("%s(", text);
      gchar  rest[] = { g_ascii_toupper (key), ')', 0 };

      mark (label, more, at + 1, rest);
      g_free (more);
    }
}

typedef struct
{
  GHashTable *used;  /* label by key                    */
  GHashTable *rows;  /* those that are to get a key     */
  GHashTable *tried; /* keys, while one is looked for   */
} Letters;

/* Gives the row one of the letters that is free or can be made so: its label gets another one. */
static gboolean
take_letter (Letters *letters, GtkWidget *row, const gchar *from)
{
  for (const gchar *at = from; *at; at++)
    {
      const gpointer key = GUINT_TO_POINTER (g_ascii_tolower (*at));
      GtkWidget     *has = g_hash_table_lookup (letters->used, key);

      if (! g_ascii_isalnum (*at) || ! g_hash_table_add (letters->tried, key))
        continue;
      if (! has || (g_hash_table_contains (letters->rows, has) &&
                    take_letter (letters, has, g_hash_table_lookup (letters->rows, has))))
        {
          g_hash_table_insert (letters->used, key, row);
          return TRUE;
        }
    }

  return FALSE;
}

static void
give_key (GtkWidget *widget, gpointer data)
{
  Letters     *letters = data;
  const gchar *from;
  gboolean     other;

  if (! is_row (widget) || key_of (widget))
    return;

  from  = gtk_label_get_text (GTK_LABEL (widget));
  other = ! has_letter (from);
  if (other)
    from = gtk_widget_get_name (g_object_get_data (G_OBJECT (widget), ROW_KEY));
  g_hash_table_insert (letters->rows, widget, g_strdup (from));
  g_hash_table_remove_all (letters->tried);
  if (! take_letter (letters, widget, from) && other)
    take_letter (letters, widget, "abcdefghijklmnopqrstuvwxyz0123456789");
}

void
zn_access_give_keys (GtkWidget *window)
{
  Letters        letters = { g_hash_table_new (NULL, NULL),
                             g_hash_table_new_full (NULL, NULL, NULL, g_free),
                             g_hash_table_new (NULL, NULL) };
  GHashTableIter at;
  gpointer       key, label;

  visit (window, note_key, letters.used);
  visit (window, give_key, &letters);
  g_hash_table_iter_init (&at, letters.used);
  while (g_hash_table_iter_next (&at, &key, &label))
    if (g_hash_table_contains (letters.rows, label))
      show_key (label, (gchar) GPOINTER_TO_UINT (key));
  g_hash_table_unref (letters.used);
  g_hash_table_unref (letters.rows);
  g_hash_table_unref (letters.tried);
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

/*  which key leads where  */

/* What a control has, as text. */
static gchar *
value_of (GtkWidget *widget)
{
  if (GTK_IS_RANGE (widget))
    return g_strdup_printf ("%.4g", gtk_range_get_value (GTK_RANGE (widget)));
  if (GTK_IS_COMBO_BOX (widget))
    return g_strdup_printf ("%d", gtk_combo_box_get_active (GTK_COMBO_BOX (widget)));
  if (GTK_IS_TOGGLE_BUTTON (widget))
    return g_strdup (gtk_toggle_button_get_active (GTK_TOGGLE_BUTTON (widget)) ? "1" : "0");

  return g_strdup (GTK_IS_ENTRY (widget) ? gtk_entry_get_text (GTK_ENTRY (widget)) : "");
}

typedef struct
{
  GtkWidget *focus;
  GString   *text;
} Keys;

/* A line for each row: "*" if it has the focus, its key, its name, its value. */
static void
list_key (GtkWidget *widget, gpointer data)
{
  Keys      *keys = data;
  GtkWidget *to   = is_row (widget) ? gtk_label_get_mnemonic_widget (GTK_LABEL (widget)) : NULL;
  gchar     *value;
  gchar      key[7] = "";

  if (! to || ! key_of (widget) || ! gtk_widget_get_mapped (to) || is_folded (to) ||
      ! gtk_widget_is_sensitive (to))
    return;
  value = value_of (to);
  g_unichar_to_utf8 (key_of (widget), key);
  g_string_append_printf (
      keys->text, "%s\t%s\t%s\t%s\n",
      keys->focus && (keys->focus == to || gtk_widget_is_ancestor (keys->focus, to)) ? "*" : "-",
      key, gtk_label_get_text (GTK_LABEL (widget)), value);
  g_free (value);
}

/* TITLE.WHAT in the folder $ZENITH_LAYOUT. */
static void
tell (GtkWindow *window, const gchar *what, const GString *text)
{
  gchar *name = g_strconcat (gtk_window_get_title (window), ".", what, NULL);
  gchar *file = g_build_filename (g_getenv ("ZENITH_LAYOUT"), name, NULL);

  if (gtk_widget_get_mapped (GTK_WIDGET (window)))
    g_file_set_contents (file, text->str, -1, NULL);
  g_free (file);
  g_free (name);
}

/* After a resize that is under way; the next look corrects this one. */
static gboolean
on_watch (gpointer window)
{
  Faults         faults = { window, g_hash_table_new (NULL, NULL), g_string_new (NULL) };
  Keys           keys   = { gtk_window_get_focus (window), g_string_new (NULL) };
  GtkRequisition room   = zn_access_room (window);
  GtkAllocation  has;

  gtk_widget_get_allocation (window, &has);
  visit (window, check_widget, &faults);
  if (has.width > room.width || has.height > room.height)
    g_string_append_printf (faults.text, "beyond the screen: %d x %d of %d x %d\n", has.width,
                            has.height, room.width, room.height);
  if (! faults.text->len)
    g_string_append (faults.text, "ok\n");
  visit (window, list_key, &keys);
  tell (window, "layout", faults.text);
  tell (window, "keys", keys.text);
  g_string_free (keys.text, TRUE);
  g_string_free (faults.text, TRUE);
  g_hash_table_unref (faults.keys);

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
