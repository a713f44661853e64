/* SPDX-License-Identifier: MIT */
/* scan.c - which pictures there are, and what their results are called. */

#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "picture.h"
#include "scan.h"
#include "writer.h"
#include "zenith-settings.h"

#define PROMPT_END ".txt"

static gchar *
identity (const struct stat *info)
{
  return g_strdup_printf ("%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, (guint64) info->st_dev,
                          (guint64) info->st_ino);
}

static gboolean
same_file (const struct stat *a, const struct stat *b)
{
  return a->st_mode && b->st_mode && a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static void
input_free (gpointer data)
{
  ZnInput *input = data;

  g_free (input->path);
  g_free (input->name);
  g_free (input->said);
  g_free (input->why);
  g_free (input);
}

static gboolean
is_input (const ZnScan *scan, const gchar *base)
{
  return scan->prompts ? g_str_has_suffix (base, PROMPT_END) : zn_format_by_name (base) != NULL;
}

static void
add (ZnScan *scan, const gchar *path, const gchar *name, const struct stat *info, const gchar *why)
{
  ZnInput *input = g_new0 (ZnInput, 1);

  input->path = g_strdup (path);
  input->name = g_strdup (name);
  if (scan->prompts && ! why)
    {
      g_free (input->name);
      input->name = g_strdup_printf ("%.*s.png", (gint) (strlen (name) - strlen (PROMPT_END)),
                                     name);
    }
  input->said = g_strdup (input->name);
  input->why  = g_strdup (why);
  g_ptr_array_add (scan->inputs, input);
  if (info)
    g_hash_table_add (scan->files, identity (info));
}

/* name is the folder's, relative to IN: "" or "a/b/". */
static void
scan_folder (ZnScan            *scan,
             const gchar       *path,
             const gchar       *name,
             gboolean           recursive,
             const struct stat *out)
{
  DIR           *list = opendir (path);
  struct dirent *entry;

  if (! list)
    {
      gchar *why = g_strdup_printf ("the folder cannot be read: %s", g_strerror (errno));

      add (scan, path, *name ? name : path, NULL, why);
      g_free (why);
      return;
    }

  while ((entry = readdir (list)))
    {
      const gchar *base = entry->d_name;
      gchar       *file = g_strconcat (path, "/", base, NULL);
      gchar       *full = g_strconcat (name, base, NULL);
      struct stat  link, info;

      if (*base == '.')
        {
          if (strcmp (base, ".") && strcmp (base, "..") &&
              strncmp (base, ZN_OWN_PREFIX, strlen (ZN_OWN_PREFIX)))
            g_ptr_array_add (scan->others, g_strdup (full));
        }
      else if (! lstat (file, &link) && S_ISDIR (link.st_mode))
        {
          gchar *below = g_strconcat (full, "/", NULL);

          if (same_file (&link, out))
            ;
          else if (recursive)
            scan_folder (scan, file, below, TRUE, out);
          else
            scan->n_folders++;
          g_free (below);
        }
      else if (! stat (file, &info) && S_ISDIR (info.st_mode))
        {
          scan->n_folders++;
        }
      else if (is_input (scan, base))
        {
          add (scan, file, full, stat (file, &info) ? NULL : &info, NULL);
        }
      else
        {
          g_ptr_array_add (scan->others, g_strdup (full));
        }
      g_free (file);
      g_free (full);
    }
  closedir (list);
}

static gint
compare (gconstpointer a, gconstpointer b)
{
  const ZnInput *left  = *(ZnInput *const *) a;
  const ZnInput *right = *(ZnInput *const *) b;
  gint           order = strcmp (left->name, right->name);

  return order ? order : strcmp (left->path, right->path);
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(gchar *const *) a, *(gchar *const *) b);
}

gboolean
zn_scan (ZnScan            *scan,
         gchar            **in,
         gboolean           prompts,
         gboolean           recursive,
         const struct stat *out,
         GError           **error)
{
  *scan = (ZnScan){ .prompts = prompts,
                    .inputs  = g_ptr_array_new_with_free_func (input_free),
                    .others  = g_ptr_array_new_with_free_func (g_free),
                    .files   = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL) };

  for (guint i = 0; in[i]; i++)
    {
      gchar      *shown = zn_shown (in[i]);
      gchar      *base  = g_path_get_basename (in[i]);
      struct stat info;

      if (stat (in[i], &info))
        g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, "'%s': %s", shown, g_strerror (errno));
      else if (same_file (&info, out))
        g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE,
                     "'%s' cannot be the folder for the results too: its pictures would be lost",
                     shown);
      else if (S_ISDIR (info.st_mode))
        scan_folder (scan, in[i], "", recursive, out);
      else
        add (scan, in[i], base, &info,
             is_input (scan, base) ? NULL
             : prompts             ? "its name does not end in .txt, as that of a prompt"
                                   : "its name does not end like that of a picture");
      g_free (base);
      g_free (shown);
      if (error && *error)
        return FALSE;
    }

  g_ptr_array_sort (scan->inputs, compare);
  g_ptr_array_sort (scan->others, compare_names);
  for (guint i = 1; i < scan->inputs->len; i++)
    {
      ZnInput *input = g_ptr_array_index (scan->inputs, i);
      ZnInput *last  = g_ptr_array_index (scan->inputs, i - 1);

      if (! strcmp (input->name, last->name) && ! input->why)
        input->why = g_strdup_printf ("another picture has the same name");
    }

  return TRUE;
}

void
zn_scan_clear (ZnScan *scan)
{
  g_clear_pointer (&scan->inputs, g_ptr_array_unref);
  g_clear_pointer (&scan->others, g_ptr_array_unref);
  g_clear_pointer (&scan->files, g_hash_table_unref);
}

gboolean
zn_scan_has (const ZnScan *scan, const struct stat *info)
{
  gchar   *key = identity (info);
  gboolean has = g_hash_table_contains (scan->files, key);

  g_free (key);

  return has;
}

guint
zn_scan_shard (const gchar *name, guint n)
{
  guint64 hash = G_GUINT64_CONSTANT (14695981039346656037); /* FNV-1a */

  for (const guchar *p = (const guchar *) name; *p; p++)
    hash = (hash ^ *p) * G_GUINT64_CONSTANT (1099511628211);

  /* FNV's low bits alone would follow the last letters. */
  hash ^= hash >> 32;
  hash *= G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);

  return (guint) ((hash >> 32) % n) + 1;
}

gchar *
zn_shown (const gchar *name)
{
  gchar *shown = g_utf8_make_valid (name, -1);

  for (gchar *p = shown; *p; p++)
    if ((guchar) *p < ' ' || *p == 127)
      *p = '?';

  return shown;
}
