/* SPDX-License-Identifier: MIT */
/* scan.h - which pictures there are, and what their results are called.
 *
 * A picture of a folder IN has a result of the same name, relative to OUT as it is
 * relative to IN; a file IN has its own name.  Pictures are known by the ends of their
 * names; prompts are text files (.txt), whose results are PNG files.  Names that begin with a dot are left out; links to files are followed, links
 * to folders below IN are not. */

#ifndef __ZENITH_SCAN_H__
#define __ZENITH_SCAN_H__

#include <sys/stat.h>

#include <glib.h>

typedef struct
{
  gchar *path;
  gchar *name; /* of the result, relative to OUT; any bytes but NUL */
  gchar *
      said; /* what reports call it: the same, or the picture's own name if the result's was given */
  gchar *why; /* why it cannot be done, or NULL */
} ZnInput;

typedef struct
{
  GPtrArray  *inputs;    /* ZnInput, sorted by name: strcmp() */
  GHashTable *files;     /* "device inode" of each */
  GPtrArray  *others;    /* names of files that are no pictures */
  guint       n_folders; /* folders that were not entered */
  gboolean    prompts;   /* not pictures */
} ZnScan;

/* out is OUT's, with st_mode 0 if it is not there: it is not entered, and must not be
 * one of the folders. */
gboolean zn_scan (ZnScan            *scan,
                  gchar            **in,
                  gboolean           prompts,
                  gboolean           recursive,
                  const struct stat *out,
                  GError           **error);
void     zn_scan_clear (ZnScan *scan);

/* Whether this file is one of the pictures. */
gboolean zn_scan_has (const ZnScan *scan, const struct stat *info);

/* Which of n shards a picture belongs to, 1 to n: depends on its name alone. */
guint zn_scan_shard (const gchar *name, guint n);

/* A name as it can be printed: one line of UTF-8.  Free it. */
gchar *zn_shown (const gchar *name);

#endif
