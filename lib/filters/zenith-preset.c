/* SPDX-License-Identifier: MIT
 *
 * zenith-preset.c - reads presets; see the header for their format.
 */
#include <errno.h>
#include <string.h>

#include <glib.h>
#include <glib/gi18n-lib.h>

#include "zenith-open.h"
#include "zenith-preset.h"

#ifndef ZENITH_PRESETS_DIR
#define ZENITH_PRESETS_DIR ""
#endif

#define FILE_MAX 16384 /* bytes of a preset file            */
#define MARK "\xef\xbb\xbf"
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

/* The text of a file, without the mark that editors on Windows put before it, or NULL and why not. */
static gchar *
read_text (const gchar *file, gchar **why)
{
  gsize  size;
  gchar *text = zn_read_input (file, FILE_MAX, &size);

  if (text && g_utf8_validate (text, (gssize) size, NULL))
    {
      if (g_str_has_prefix (text, MARK))
        memmove (text, text + strlen (MARK), size + 1 - strlen (MARK));
      return text;
    }

  if (text)
    *why = g_strdup (_ ("not a text in UTF-8"));
  else if (errno == EFBIG)
    *why = g_strdup_printf (_ ("larger than %d bytes"), FILE_MAX);
  else
    *why = g_strdup (errno ? g_strerror (errno) : _ ("not a regular file"));
  g_free (text);

  return NULL;
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
    return g_strdup (_ ("a line is 'key=value' or begins with '#'"));

  *equals = '\0';
  key     = g_strstrip (line);
  value   = g_strstrip (equals + 1);

  if (! strcmp (key, "name"))
    {
      if (! *value || strlen (value) > NAME_BYTES)
        return g_strdup_printf (_ ("a name has 1 to %d bytes"), NAME_BYTES);
      field = &preset->name;
    }
  else if (! strcmp (key, "description"))
    {
      field = &preset->description;
    }
  else if (! strcmp (key, "operation"))
    {
      if (! zn_filter_by_operation (value))
        return g_strdup_printf (_ ("the operation '%.80s' is not one of Zenith's filters"), value);
      field = &preset->operation;
    }

  if (field)
    {
      if (*field)
        return g_strdup_printf (_ ("'%s' is given twice"), key);
      *field = g_strdup (value);
      return NULL;
    }

  if (! preset->operation)
    return g_strdup_printf (_ ("'%.80s' comes before 'operation'"), key);

  for (guint i = 0; i < preset->n; i++)
    if (! strcmp (preset->key[i], key))
      return g_strdup_printf (_ ("'%.80s' is given twice"), key);

  if (preset->n == ZN_PRESET_VALUES_MAX)
    return g_strdup_printf (_ ("more than %d values"), ZN_PRESET_VALUES_MAX);

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
    preset->broken = g_strdup_printf (_ ("The preset file %s has an error in line %u: %s"), file, i,
                                      why);
  else if (why)
    preset->broken = g_strdup_printf (_ ("The preset file %s cannot be read: %s"), file, why);
  else if (! preset->name || ! preset->operation)
    preset->broken = g_strdup_printf (_ ("The preset file %s has no '%s'"), file,
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
add_folder (GPtrArray *presets, const gchar *folder, gboolean own)
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

      preset->own = own;
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

static gchar *
own_folder (void)
{
  return g_build_filename (g_get_user_data_dir (), "zenith", "presets", NULL);
}

GPtrArray *
zn_presets_load (void)
{
  GPtrArray   *presets = g_ptr_array_new_with_free_func (preset_free);
  const gchar *path    = g_getenv ("ZENITH_PRESETS");
  gchar       *user    = own_folder ();
  gchar      **folders = g_strsplit (path ? path : "", G_SEARCHPATH_SEPARATOR_S, 16);

  for (guint i = 0; folders[i]; i++)
    add_folder (presets, folders[i], FALSE);

  add_folder (presets, user, TRUE);
  add_folder (presets, ZENITH_PRESETS_DIR, FALSE);

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

      g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, _ ("There is no preset '%s'; there are: %s"),
                   shown, list->len ? list->str : _ ("none (is ZENITH_PRESETS right?)"));
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

const ZnPreset *
zn_presets_none (GError **error)
{
  g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
               _ ("No preset was applied yet: choose one in Filters > Zenith > Apply Preset"));

  return NULL;
}

ZnSettings *
zn_preset_settings (const ZnPreset *preset, GError **error)
{
  ZnSettings *settings = zn_settings_new (zn_filter_by_operation (preset->operation), error);

  for (guint i = 0; settings && i < preset->n; i++)
    if (! zn_settings_set_text (settings, preset->key[i], preset->value[i], error))
      {
        g_prefix_error (error, _ ("The preset file %s has an error: "), preset->file);
        g_clear_pointer (&settings, zn_settings_free);
      }

  return settings;
}

const gchar *
zn_preset_title (const ZnPreset *preset)
{
  return preset->own ? preset->name : _ (preset->name);
}

gchar *
zn_preset_values (const ZnPreset *preset)
{
  ZnSettings *settings = zn_preset_settings (preset, NULL);
  GString    *list     = g_string_new (NULL);
  gchar      *text;

  for (guint i = 0; settings && i < settings->n; i++)
    {
      const GParamSpec *spec = settings->property[i].spec;

      for (guint j = 0; j < preset->n; j++)
        if (! strcmp (preset->key[j], spec->name) && *preset->value[j])
          g_string_append_printf (list, "%s%s %s", list->len ? ", " : "",
                                  g_param_spec_get_nick ((GParamSpec *) spec), preset->value[j]);
    }
  text = g_strdup_printf (_ ("Sets: %s"), list->str);
  g_string_free (list, TRUE);
  zn_settings_free (settings);

  return text;
}

gchar *
zn_preset_about (const ZnPreset *preset)
{
  if (! *preset->description)
    return zn_preset_values (preset);

  return g_strdup (preset->own ? preset->description : _ (preset->description));
}

/* Properties that say how to compute, not what. */
static gboolean
is_how (const gchar *property)
{
  static const gchar *const how[] = { "model", "weights", "engine", "precision", NULL };

  return g_strv_contains (how, property);
}

/* The place of a face is not a preference. */
static gboolean
is_place (const gchar *property)
{
  return g_str_has_prefix (property, "frame-") || ! strcmp (property, "face");
}

/* Properties that belong to the picture at hand. */
static gboolean
is_of_picture (const gchar *property)
{
  static const gchar *const of[] = { "prompt", "seed", "path", "find", NULL };

  return g_strv_contains (of, property) || is_place (property);
}

gboolean
zn_preset_leaves (const ZnPreset *preset, const gchar *property)
{
  for (guint i = 0; i < preset->n; i++)
    if (! strcmp (preset->key[i], property))
      return FALSE;

  return is_how (property) || is_of_picture (property);
}

gboolean
zn_preset_apply (const ZnPreset *preset, ZnSettings *settings, GError **error)
{
  ZnSettings *wanted = zn_preset_settings (preset, error);

  if (! wanted)
    return FALSE;

  for (guint i = 0; i < wanted->n; i++)
    if (! zn_preset_leaves (preset, wanted->property[i].spec->name))
      g_value_copy (&wanted->property[i].value, &settings->property[i].value);
  zn_settings_free (wanted);

  return TRUE;
}

/*  presets of one's own  */

static gboolean
good_name (const gchar *name, GError **error)
{
  if (*name && strlen (name) <= NAME_BYTES && g_utf8_validate (name, -1, NULL) &&
      ! strpbrk (name, "\n\r") && ! g_ascii_isspace (name[0]) &&
      ! g_ascii_isspace (name[strlen (name) - 1]))
    return TRUE;

  g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, _ ("A preset's name is one line of 1 to %d bytes"),
               NAME_BYTES);

  return FALSE;
}

/* The file of a new preset: the name's letters and digits, and a number if there is one. */
static gchar *
new_file (const gchar *name)
{
  gchar   *folder = own_folder ();
  GString *stem   = g_string_new (NULL);
  gchar   *file   = NULL;

  for (const gchar *c = name; *c; c++)
    if (g_ascii_isalnum (*c))
      g_string_append_c (stem, g_ascii_tolower (*c));
    else if (stem->len && stem->str[stem->len - 1] != '-')
      g_string_append_c (stem, '-');
  while (stem->len && stem->str[stem->len - 1] == '-')
    g_string_truncate (stem, stem->len - 1);
  if (! stem->len)
    g_string_append (stem, "preset");

  for (guint i = 1; ! file; i++)
    {
      gchar *base = i > 1 ? g_strdup_printf ("%s-%u" SUFFIX, stem->str, i)
                          : g_strdup_printf ("%s" SUFFIX, stem->str);

      file = g_build_filename (folder, base, NULL);
      if (g_file_test (file, G_FILE_TEST_EXISTS))
        g_clear_pointer (&file, g_free);
      g_free (base);
    }

  g_string_free (stem, TRUE);
  g_free (folder);

  return file;
}

static gboolean
write_file (const gchar *file, const gchar *text, GError **error)
{
  gchar   *folder = g_path_get_dirname (file);
  GError  *why    = NULL;
  gboolean ok     = FALSE;

  if (g_mkdir_with_parents (folder, 0755))
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, _ ("The folder %s cannot be made: %s"), folder,
                 g_strerror (errno));
  else if (! g_file_set_contents (file, text, -1, &why))
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, _ ("The preset cannot be saved: %s"),
                 why->message);
  else
    ok = TRUE;

  g_clear_error (&why);
  g_free (folder);

  return ok;
}

/* FALSE, and an error message, if another preset than `own` has the name. */
static gboolean
is_free (GPtrArray *presets, const gchar *name, const ZnPreset *own, GError **error)
{
  const ZnPreset *other = lookup (presets, name);

  if (! other || other == own)
    return TRUE;

  g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, _ ("There is a preset '%s' already"), name);

  return FALSE;
}

gboolean
zn_preset_save (GPtrArray        *presets,
                const ZnSettings *settings,
                const gchar      *name,
                gboolean          with_model,
                gboolean          replace,
                GError          **error)
{
  const ZnPreset *old = lookup (presets, name);
  GString        *text;
  gchar          *file;
  gboolean        ok;

  if (old && ! (old->own && replace))
    old = NULL;
  if (! good_name (name, error) || ! is_free (presets, name, old, error))
    return FALSE;

  text = g_string_new (NULL);
  g_string_append_printf (text, "name=%s\noperation=%s\n", name, settings->filter->operation);
  for (guint i = 0; i < settings->n; i++)
    {
      const ZnProperty *p     = &settings->property[i];
      gchar            *value = zn_settings_get_text (settings, i);

      if (is_place (p->spec->name) || strpbrk (value, "\n\r"))
        {
          /* not a preference, or not to be written in a line */
        }
      else if (p->kind == ZN_KIND_DOUBLE ||
               (with_model &&
                (! strcmp (p->spec->name, "model") || ! strcmp (p->spec->name, "weights"))) ||
               ! is_how (p->spec->name))
        g_string_append_printf (text, "%s=%s\n", p->spec->name, value);
      g_free (value);
    }

  file = old ? g_strdup (old->file) : new_file (name);
  ok   = write_file (file, text->str, error);
  g_free (file);
  g_string_free (text, TRUE);

  return ok;
}

/* Always FALSE, so that callers can return it. */
static gboolean
not_own (const ZnPreset *preset, GError **error)
{
  g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, _ ("The preset '%s' is not one of your own"),
               preset->name);

  return FALSE;
}

gboolean
zn_preset_rename (GPtrArray *presets, const ZnPreset *preset, const gchar *name, GError **error)
{
  GString *text;
  gboolean ok;

  if (! preset->own)
    return not_own (preset, error);
  if (! good_name (name, error) || ! is_free (presets, name, preset, error))
    return FALSE;

  text = g_string_new (NULL);
  g_string_append_printf (text, "name=%s\n", name);
  if (*preset->description)
    g_string_append_printf (text, "description=%s\n", preset->description);
  g_string_append_printf (text, "operation=%s\n", preset->operation);
  for (guint i = 0; i < preset->n; i++)
    g_string_append_printf (text, "%s=%s\n", preset->key[i], preset->value[i]);
  ok = write_file (preset->file, text->str, error);
  g_string_free (text, TRUE);

  return ok;
}

gboolean
zn_preset_delete (const ZnPreset *preset, GError **error)
{
  if (! preset->own)
    return not_own (preset, error);
  if (unlink (preset->file))
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, _ ("%s cannot be deleted: %s"), preset->file,
                   g_strerror (errno));
      return FALSE;
    }

  return TRUE;
}
