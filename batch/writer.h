/* SPDX-License-Identifier: MIT */
/* writer.h - writes files to the result folder.
 *
 *   begin    a temporary file beside the result: new (O_EXCL), no link, a name of 128
 *            random bits, locked while it is in use
 *   copy     its content; fsync
 *   finish   rename to the result's name; fsync of the folder
 *
 * A reader sees the old result or the new one, also after a crash.  Folders below OUT
 * are entered one by one and never through a link.  A result never replaces anything
 * but a regular file. */

#ifndef __ZENITH_WRITER_H__
#define __ZENITH_WRITER_H__

#include <sys/stat.h>

#include <glib.h>

#define ZN_OWN_PREFIX ".zenith-" /* of all files of ours that are no results */
#define ZN_DIGEST_SIZE 65        /* SHA-256 in hex, and its end */

typedef struct
{
  gint        fd;   /* -1: there is no such folder yet */
  gchar      *path; /* as it was given, for messages */
  GMutex      lock;
  GHashTable *swept; /* folders whose left-over temporary files are gone */
} ZnFolder;

/* With create, made if it is not there, also the folders above. */
gboolean zn_folder_open (ZnFolder *folder, const gchar *path, gboolean create, GError **error);
void     zn_folder_close (ZnFolder *folder);

/* Looks up that name, relative to the folder.  FALSE and an error message if a result must not have
 * it: it is a link, a folder, or behind a link.  info->st_mode is 0 if there is nothing. */
gboolean zn_folder_look (ZnFolder *folder, const gchar *name, struct stat *info, GError **error);

/* SHA-256 of a regular file in the folder; FALSE if it cannot be read. */
gboolean zn_folder_digest (ZnFolder *folder, const gchar *name, gchar digest[ZN_DIGEST_SIZE]);

typedef struct
{
  gint        dir, fd;
  gchar      *base;                   /* the result's name in dir */
  gchar       name[64];               /* the temporary one */
  struct stat info;                   /* after copy: what the result will have */
  gchar       digest[ZN_DIGEST_SIZE]; /* the same */
} ZnPart;

/* A zeroed part; mode is of the file.  After any of these, zn_part_end(). */
gboolean zn_part_begin (ZnPart *part, ZnFolder *folder, const gchar *name, GError **error);
gboolean zn_part_copy (ZnPart *part, gint fd, GError **error);
gboolean zn_part_finish (ZnPart *part, GError **error);
void     zn_part_end (ZnPart *part);

/* An error message for errno; a full disk or quota is G_FILE_ERROR_NOSPC. */
void zn_set_errno (GError **error, gint number, const gchar *what);

#endif
