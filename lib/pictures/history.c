/* SPDX-License-Identifier: MIT */
/* history.c - see the header. */

#include <stdlib.h>
#include <string.h>

#include "history.h"

#define HISTORY "Xmp.xmpMM.History"

/* The number of entries that the history has. */
static gint
history_length (GExiv2Metadata *metadata)
{
  gchar **tags = gexiv2_metadata_get_xmp_tags (metadata);
  gint    n    = 0;

  for (guint i = 0; tags && tags[i]; i++)
    if (g_str_has_prefix (tags[i], HISTORY "["))
      n = MAX (n, atoi (tags[i] + strlen (HISTORY "[")));
  g_strfreev (tags);

  return n;
}

gboolean
zn_history_add (GExiv2Metadata *metadata, const gchar *settings, GError **error)
{
  const gchar *const entry[][2] = {
    { "action", "filtered" },
    { "softwareAgent", "Zenith " PACKAGE_VERSION },
    { "parameters", settings },
  };
  const gint n = history_length (metadata) + 1;

  if (n == 1 &&
      ! gexiv2_metadata_try_set_xmp_tag_struct (metadata, HISTORY, GEXIV2_STRUCTURE_XA_SEQ, error))
    return FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (entry); i++)
    {
      gchar   *tag = g_strdup_printf (HISTORY "[%d]/stEvt:%s", n, entry[i][0]);
      gboolean ok  = gexiv2_metadata_try_set_tag_string (metadata, tag, entry[i][1], error);

      g_free (tag);
      if (! ok)
        return FALSE;
    }

  return TRUE;
}
