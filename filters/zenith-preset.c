/* SPDX-License-Identifier: MIT
 *
 * zenith-preset.c - reads presets; see the header for their format.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib.h>

#include "zenith-preset.h"

#ifndef ZENITH_PRESETS_DIR
#define ZENITH_PRESETS_DIR ""
#endif

#define FILE_MAX 16384 /* bytes of a preset file            */
#define FILES_MAX 512  /* files looked at in one folder     */
#define NAME_BYTES 128 /* bytes of a preset's name          */
#define SUFFIX ".preset"

static void
preset_free (gpointer data)
{
  ZnPreset *preset = data;

  for (guint i = 0; i < preset->n; i++)
    {
      g_free (preset->key[i]);
      g_free (preset->value[i]);
    }

  g_free (preset->name);
  g_free (preset->description);
  g_free (preset->operation);
  g_free (preset->file);
  g_free (preset->broken);
  g_free (preset);
}

/* The text of a file, or NULL and why not.  O_NONBLOCK keeps a FIFO of that
 * name from hanging us before fstat() can refuse it.
 */
static gchar *
read_text (const gchar *file, gchar **why)
{
  gchar      *text = NULL;
  gssize      size;
  struct stat info;
  gint        fd = open (file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

  if (fd < 0)
    {
      *why = g_strdup (g_strerror (errno));
      return NULL;
    }

  if (fstat (fd, &info) || ! S_ISREG (info.st_mode))
    {
      *why = g_strdup ("not a regular file");
    }
  else if (info.st_size > FILE_MAX)
    {
      *why = g_strdup_printf ("larger than %d bytes", FILE_MAX);
    }
  else
    {
      text = g_malloc (FILE_MAX + 1);
      size = read (fd, text, FILE_MAX);

      if (size < 0 || ! g_utf8_validate (text, size, NULL))
        {
          *why = g_strdup (size < 0 ? g_strerror (errno) : "not a text in UTF-8");
          g_clear_pointer (&text, g_free);
        }
      else
        {
          text[size] = '\0';
        }
    }

  close (fd);

  return text;
}

/* One line "key=value" into the preset.  NULL, or what is wrong with it. */
static gchar *
parse_line (ZnPreset *preset, gchar *line)
{
  gchar  *equals = strchr (line, '=');
  gchar **field  = NULL;
  gchar  *key;
  gchar  *value;

  if (! equals)
    return g_strdup ("a line is 'key=value' or begins with '#'");

  *equals = '\0';
  key     = g_strstrip (line);
  value   = g_strstrip (equals + 1);

  if (! strcmp (key, "name"))
    {
      if (! *value || strlen (value) > NAME_BYTES)
        return g_strdup_printf ("a name has 1 to %d bytes", NAME_BYTES);
      field = &preset->name;
    }
  else if (! strcmp (key, "description"))
    {
      field = &preset->description;
    }
  else if (! strcmp (key, "operation"))
    {
      if (! zn_filter_by_operation (value))
        return g_strdup_printf ("the operation '%.80s' is not one of Zenith's filters", value);
      field = &preset->operation;
    }

  if (field)
    {
      if (*field)
        return g_strdup_printf ("'%s' is given twice", key);
      *field = g_strdup (value);
      return NULL;
    }

  if (! preset->operation)
    return g_strdup_printf ("'%.80s' comes before 'operation'", key);

  for (guint i = 0; i < preset->n; i++)
    if (! strcmp (preset->key[i], key))
      return g_strdup_printf ("'%.80s' is given twice", key);

  if (preset->n == ZN_PRESET_VALUES_MAX)
    return g_strdup_printf ("more than %d values", ZN_PRESET_VALUES_MAX);

  preset->key[preset->n]   = g_strdup (key);
  preset->value[preset->n] = g_strdup (value);
  preset->n++;

  return NULL;
}

static gchar *
file_stem (const gchar *file)
{
  gchar *base = g_path_get_basename (file);
  gchar *stem;

  if (g_str_has_suffix (base, SUFFIX))
    base[strlen (base) - strlen (SUFFIX)] = '\0';

  stem = g_utf8_make_valid (base, strnlen (base, NAME_BYTES));
  g_free (base);

  return stem;
}

static ZnPreset *
preset_read (const gchar *file)
{
  ZnPreset *preset = g_new0 (ZnPreset, 1);
  gchar    *why    = NULL;
  gchar    *text   = read_text (file, &why);
  gchar   **lines  = text ? g_strsplit (text, "\n", -1) : NULL;
  guint     i;

  preset->file = g_strdup (file);

  for (i = 0; lines && lines[i] && ! why; i++)
    {
      g_strstrip (lines[i]);

      if (*lines[i] && *lines[i] != '#')
        why = parse_line (preset, lines[i]);
    }

  if (why && text)
    preset->broken = g_strdup_printf ("The preset file %s is wrong in line %u: %s", file, i, why);
  else if (why)
    preset->broken = g_strdup_printf ("The preset file %s cannot be read: %s", file, why);
  else if (! preset->name || ! preset->operation)
    preset->broken = g_strdup_printf ("The preset file %s has no '%s'", file,
                                      preset->name ? "operation" : "name");

  /* Without a name the file's own is what a user would look for. */
  if (! preset->name)
    preset->name = file_stem (file);

  if (! preset->description)
    preset->description = g_strdup ("");

  g_strfreev (lines);
  g_free (text);
  g_free (why);

  return preset;
}

static gboolean
same_name (const gchar *a, const gchar *b)
{
  gchar   *folded_a = g_utf8_casefold (a, -1);
  gchar   *folded_b = g_utf8_casefold (b, -1);
  gboolean same     = ! strcmp (folded_a, folded_b);

  g_free (folded_a);
  g_free (folded_b);

  return same;
}

static ZnPreset *
lookup (GPtrArray *presets, const gchar *name)
{
  for (guint i = 0; i < presets->len; i++)
    {
      ZnPreset *preset = g_ptr_array_index (presets, i);

      if (same_name (preset->name, name))
        return preset;
    }

  return NULL;
}

/* "film-scan" for film-scan.preset: shorter to type in a script. */
static ZnPreset *
lookup_file (GPtrArray *presets, const gchar *name)
{
  for (guint i = 0; i < presets->len; i++)
    {
      ZnPreset *preset = g_ptr_array_index (presets, i);
      gchar    *stem   = file_stem (preset->file);
      gboolean  same   = same_name (stem, name);

      g_free (stem);

      if (same)
        return preset;
    }

  return NULL;
}

static gint
compare_text (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

static void
add_folder (GPtrArray *presets, const gchar *folder)
{
  GDir        *dir   = *folder ? g_dir_open (folder, 0, NULL) : NULL;
  GPtrArray   *names = g_ptr_array_new_with_free_func (g_free);
  const gchar *name;

  while (dir && names->len < FILES_MAX && (name = g_dir_read_name (dir)))
    if (g_str_has_suffix (name, SUFFIX))
      g_ptr_array_add (names, g_strdup (name));

  g_ptr_array_sort (names, compare_text);

  for (guint i = 0; i < names->len; i++)
    {
      gchar    *file   = g_build_filename (folder, g_ptr_array_index (names, i), NULL);
      ZnPreset *preset = preset_read (file);

      if (lookup (presets, preset->name))
        preset_free (preset);
      else
        g_ptr_array_add (presets, preset);

      g_free (file);
    }

  g_ptr_array_unref (names);

  if (dir)
    g_dir_close (dir);
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return g_utf8_collate ((*(ZnPreset *const *) a)->name, (*(ZnPreset *const *) b)->name);
}

GPtrArray *
zn_presets_load (void)
{
  GPtrArray   *presets = g_ptr_array_new_with_free_func (preset_free);
  const gchar *path    = g_getenv ("ZENITH_PRESETS");
  gchar       *user    = g_build_filename (g_get_user_data_dir (), "zenith", "presets", NULL);
  gchar      **folders = g_strsplit (path ? path : "", G_SEARCHPATH_SEPARATOR_S, 16);

  for (guint i = 0; folders[i]; i++)
    add_folder (presets, folders[i]);

  add_folder (presets, user);
  add_folder (presets, ZENITH_PRESETS_DIR);

  g_ptr_array_sort (presets, compare_names);
  g_strfreev (folders);
  g_free (user);

  return presets;
}

const ZnPreset *
zn_presets_find (GPtrArray *presets, const gchar *name, GError **error)
{
  gchar          *shown  = g_utf8_make_valid (name, strnlen (name, NAME_BYTES));
  const ZnPreset *preset = lookup (presets, shown);

  if (! preset)
    preset = lookup_file (presets, shown);

  if (! preset)
    {
      GString *list = g_string_new (NULL);

      for (guint i = 0; i < presets->len && list->len < 1000; i++)
        {
          const ZnPreset *other = g_ptr_array_index (presets, i);

          if (! other->broken)
            g_string_append_printf (list, "%s'%s'", list->len ? ", " : "", other->name);
        }

      g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, "There is no preset '%s'; there are: %s", shown,
                   list->len ? list->str : "none (is ZENITH_PRESETS right?)");
      g_string_free (list, TRUE);
    }
  else if (preset->broken)
    {
      g_set_error_literal (error, ZN_ERROR, ZN_ERROR_USAGE, preset->broken);
      preset = NULL;
    }

  g_free (shown);

  return preset;
}

ZnSettings *
zn_preset_settings (const ZnPreset *preset, GError **error)
{
  ZnSettings *settings = zn_settings_new (zn_filter_by_operation (preset->operation), error);

  for (guint i = 0; settings && i < preset->n; i++)
    if (! zn_settings_set_text (settings, preset->key[i], preset->value[i], error))
      {
        g_prefix_error (error, "The preset file %s is wrong: ", preset->file);
        g_clear_pointer (&settings, zn_settings_free);
      }

  return settings;
}
