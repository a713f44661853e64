/* SPDX-License-Identifier: MIT
 *
 * zenith-preset-gimp.c - see the header.
 *
 * GIMP 2.10 and 3 keep that list in filters/GimpGegl-OPERATION-config.settings of the user's profile:
 *
 *   (GimpGegl-zenith-denoise-config "High ISO photo"
 *       (strength 1.0)
 *       (detail 0.15))
 */
#include "zenith-preset-gimp.h"

#include <errno.h>
#include <string.h>

#include "zenith-open.h"
#include "zenith-preset.h"

#define SETTINGS_BYTES_MAX (1 << 20) /* a larger file was not written by a user's clicks */

static void
append_quoted (GString *text, const gchar *value)
{
  g_string_append_c (text, '"');
  for (; *value; value++)
    {
      if (*value == '"' || *value == '\\')
        g_string_append_c (text, '\\');
      g_string_append_c (text, *value);
    }
  g_string_append_c (text, '"');
}

static void
append_preset (GString *text, const ZnPreset *preset, const ZnSettings *settings, const gchar *head)
{
  g_string_append_printf (text, "\n%s", head);

  for (guint i = 0; i < settings->n; i++)
    {
      const ZnProperty *p     = &settings->property[i];
      gchar            *value = zn_settings_get_text (settings, i);

      if (! zn_preset_leaves (preset, p->spec->name))
        {
          g_string_append_printf (text, "\n    (%s ", p->spec->name);
          if (p->kind == ZN_KIND_STRING || p->kind == ZN_KIND_FILE)
            append_quoted (text, value);
          else
            g_string_append (text, value);
          g_string_append_c (text, ')');
        }
      g_free (value);
    }
  g_string_append (text, ")\n");
}

/* Adds to the file of one operation the presets whose names it does not have. */
static void
offer (GPtrArray *presets, const gchar *operation, const gchar *folder)
{
  gchar   *type = g_strdup_printf ("GimpGegl-%s-config", operation);
  gchar   *file, *old;
  GString *text;
  gsize    len;
  gboolean more = FALSE;

  g_strcanon (type, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "-", '-');
  file = g_strdup_printf ("%s" G_DIR_SEPARATOR_S "%s.settings", folder, type);
  old  = zn_read_input (file, SETTINGS_BYTES_MAX, &len);
  if (old || errno == ENOENT)
    {
      text = g_string_new (old ? old : "# settings\n");
      for (guint i = 0; i < presets->len; i++)
        {
          const ZnPreset *preset = g_ptr_array_index (presets, i);
          GString        *head   = g_string_new (NULL);
          ZnSettings     *settings;

          g_string_append_printf (head, "(%s ", type);
          append_quoted (head, zn_preset_title (preset));
          settings = preset->broken || strcmp (preset->operation, operation) ||
                             (old && strstr (old, head->str))
                         ? NULL
                         : zn_preset_settings (preset, NULL);
          if (settings)
            {
              append_preset (text, preset, settings, head->str);
              more = TRUE;
            }
          zn_settings_free (settings);
          g_string_free (head, TRUE);
        }
      if (more && g_mkdir_with_parents (folder, 0700) == 0)
        g_file_set_contents (file, text->str, -1, NULL); /* a list without ours is no failure */
      g_string_free (text, TRUE);
    }

  g_free (old);
  g_free (file);
  g_free (type);
}

void
zn_presets_offer (const gchar *profile)
{
  GPtrArray *presets = zn_presets_load ();
  gchar     *folder  = g_build_filename (profile, "filters", NULL);

  for (guint i = 0; i < zn_n_filters; i++)
    offer (presets, zn_filters[i].operation, folder);

  g_free (folder);
  g_ptr_array_unref (presets);
}
