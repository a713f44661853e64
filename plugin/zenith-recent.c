/* SPDX-License-Identifier: MIT
 *
 * zenith-recent.c - see the header.
 */
#include <string.h>

#include "zenith-open.h"
#include "zenith-recent.h"

#define GROUP "generate"
#define PROMPTS "prompts"
#define LOCKED "seed-locked"
#define RESULTS "results"
#define ENLARGE "enlarge"
#define PRINT_SIZE "print-size"
#define OPERATIONS "operations"
#define ASKED "asked"
#define BYTES_MAX (1 << 20)

static gchar *
file_name (void)
{
  return g_build_filename (g_get_user_data_dir (), "zenith", "generate.ini", NULL);
}

static GKeyFile *
load (void)
{
  GKeyFile *keys = g_key_file_new ();
  gchar    *file = file_name ();
  gsize     size;
  gchar    *text = zn_read_input (file, BYTES_MAX, &size);

  if (text)
    g_key_file_load_from_data (keys, text, size, G_KEY_FILE_NONE, NULL);
  g_free (text);
  g_free (file);

  return keys;
}

static void
save (GKeyFile *keys)
{
  gchar *file   = file_name ();
  gchar *folder = g_path_get_dirname (file);

  g_mkdir_with_parents (folder, 0700);
  g_key_file_save_to_file (keys, file, NULL);
  g_free (folder);
  g_free (file);
}

gchar **
zn_recent_prompts (void)
{
  GKeyFile *keys = load ();
  gchar   **list = g_key_file_get_string_list (keys, GROUP, PROMPTS, NULL, NULL);

  g_key_file_free (keys);
  for (guint i = 0; list && list[i]; i++)
    if (i == ZN_RECENT_MAX)
      {
        for (guint j = i; list[j]; j++)
          g_free (list[j]);
        list[i] = NULL;
        break;
      }

  return list ? list : g_new0 (gchar *, 1);
}

void
zn_recent_add_prompt (const gchar *prompt)
{
  GKeyFile    *keys = load ();
  gchar      **old  = zn_recent_prompts ();
  const gchar *list[ZN_RECENT_MAX];
  guint        n = 0;

  list[n++] = prompt;
  for (guint i = 0; old[i] && n < ZN_RECENT_MAX; i++)
    if (strcmp (old[i], prompt))
      list[n++] = old[i];
  g_key_file_set_string_list (keys, GROUP, PROMPTS, list, n);
  save (keys);
  g_strfreev (old);
  g_key_file_free (keys);
}

static gboolean
recall (const gchar *group, const gchar *key)
{
  GKeyFile *keys = load ();
  gboolean  on   = g_key_file_get_boolean (keys, group, key, NULL);

  g_key_file_free (keys);

  return on;
}

static void
keep (const gchar *group, const gchar *key, gboolean on)
{
  GKeyFile *keys = load ();

  g_key_file_set_boolean (keys, group, key, on);
  save (keys);
  g_key_file_free (keys);
}

gboolean
zn_recent_seed_locked (void)
{
  return recall (GROUP, LOCKED);
}

void
zn_recent_set_seed_locked (gboolean locked)
{
  keep (GROUP, LOCKED, locked);
}

gboolean
zn_recent_asked_link (void)
{
  return recall (OPERATIONS, ASKED);
}

void
zn_recent_set_asked_link (void)
{
  keep (OPERATIONS, ASKED, TRUE);
}

gboolean
zn_recent_print_size (void)
{
  return recall (ENLARGE, PRINT_SIZE);
}

void
zn_recent_set_print_size (gboolean kept)
{
  keep (ENLARGE, PRINT_SIZE, kept);
}

ZnWhere
zn_where (ZnWhere asked, const ZnFilter *filter)
{
  const gboolean enlarges = filter && filter->enlarges;

  if (asked == ZN_WHERE_USUAL)
    return enlarges ? ZN_WHERE_NEW : ZN_WHERE_LAYER;

  return asked == ZN_WHERE_MASK && enlarges ? ZN_WHERE_NEW : asked;
}

static const gchar *const where_names[ZN_N_WHERES] = { "", "this-layer", "new-layer",
                                                       "new-layer-with-mask" };

ZnWhere
zn_recent_where (const gchar *procedure)
{
  GKeyFile *keys  = load ();
  gchar    *name  = g_key_file_get_string (keys, RESULTS, procedure, NULL);
  ZnWhere   where = ZN_WHERE_USUAL;

  for (guint i = 0; i < ZN_N_WHERES; i++)
    if (! g_strcmp0 (name, where_names[i]))
      where = (ZnWhere) i;
  g_free (name);
  g_key_file_free (keys);

  return where;
}

void
zn_recent_set_where (const gchar *procedure, ZnWhere where)
{
  GKeyFile *keys = load ();

  g_key_file_set_string (keys, RESULTS, procedure, where_names[where]);
  save (keys);
  g_key_file_free (keys);
}
