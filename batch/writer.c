/* SPDX-License-Identifier: MIT */
/* writer.c - writes files to the result folder; see the header. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "writer.h"
#include "zenith-settings.h"

#define PART_PREFIX ZN_OWN_PREFIX "part-"
#define TRIES 16
#define CHUNK (256 * 1024)

void
zn_set_errno (GError **error, gint number, const gchar *what)
{
  GFileError code = number == EDQUOT ? G_FILE_ERROR_NOSPC : g_file_error_from_errno (number);

  g_set_error (error, G_FILE_ERROR, code, "%s: %s", what, g_strerror (number));
}

/* ---- folders -------------------------------------------------------------- */

gboolean
zn_folder_open (ZnFolder *folder, const gchar *path, gboolean create, GError **error)
{
  struct stat info;

  *folder = (ZnFolder){ .fd = -1, .path = g_strdup (path) };
  g_mutex_init (&folder->lock);
  folder->swept = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  if (create && g_mkdir_with_parents (path, 0777))
    {
      const gint number = errno;
      gchar     *what   = g_strdup_printf ("the result folder '%s' cannot be made", path);

      zn_set_errno (error, number, what);
      g_free (what);
      return FALSE;
    }

  folder->fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder->fd < 0 && (create || errno != ENOENT))
    {
      if (errno == ENOTDIR && ! stat (path, &info) && ! S_ISDIR (info.st_mode))
        g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, "the result folder is a file");
      else
        zn_set_errno (error, errno, "the result folder cannot be entered");
      return FALSE;
    }

  return TRUE;
}

void
zn_folder_close (ZnFolder *folder)
{
  if (folder->fd >= 0)
    close (folder->fd);
  g_clear_pointer (&folder->path, g_free);
  g_clear_pointer (&folder->swept, g_hash_table_unref);
}

/* Sets the error for a path that a result cannot have; always FALSE. */
static gboolean
in_the_way (GError **error, const struct stat *info, gboolean below)
{
  const gchar *what = S_ISLNK (info->st_mode)   ? "a link"
                      : S_ISDIR (info->st_mode) ? "a folder"
                      : S_ISREG (info->st_mode) ? "a file"
                                                : "something that is no file";

  if (below)
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
                 "in the result folder there is %s where its folder should be", what);
  else
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "in the result folder there is %s of that name",
                 what);

  return FALSE;
}

/* The folder that holds the name, and the name in it; -1 and an error message, or without one if it
 * does not exist and is not to be made. */
static gint
enter (ZnFolder *folder, const gchar *name, gboolean create, gchar **base, GError **error)
{
  gchar **steps = g_strsplit (name, "/", -1);
  gint    at    = folder->fd >= 0 ? dup (folder->fd) : -1;
  guint   i;

  for (i = 0; at >= 0 && steps[i + 1]; i++)
    {
      struct stat info;
      gint        next;
      gint        number = 0;

      if (create && mkdirat (at, steps[i], 0777) && errno != EEXIST)
        number = errno;
      next = number ? -1 : openat (at, steps[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (next < 0 && ! number)
        number = errno;

      if (next < 0 && ! fstatat (at, steps[i], &info, AT_SYMLINK_NOFOLLOW) &&
          ! S_ISDIR (info.st_mode))
        in_the_way (error, &info, TRUE);
      else if (next < 0 && (create || number != ENOENT))
        zn_set_errno (error, number, "a folder of the result cannot be entered");
      close (at);
      at = next;
    }
  if (at >= 0)
    *base = g_strdup (steps[i]);
  g_strfreev (steps);

  return at;
}

gboolean
zn_folder_look (ZnFolder *folder, const gchar *name, struct stat *info, GError **error)
{
  GError  *failure = NULL;
  gchar   *base    = NULL;
  gint     dir     = enter (folder, name, FALSE, &base, &failure);
  gboolean ok      = ! failure;

  memset (info, 0, sizeof (*info));
  if (failure)
    g_propagate_error (error, failure);
  if (dir >= 0)
    {
      if (fstatat (dir, base, info, AT_SYMLINK_NOFOLLOW))
        {
          memset (info, 0, sizeof (*info));
          if (errno != ENOENT)
            {
              zn_set_errno (error, errno, "the result folder cannot be looked at");
              ok = FALSE;
            }
        }
      else if (! S_ISREG (info->st_mode))
        {
          ok = in_the_way (error, info, FALSE);
        }
      close (dir);
    }
  g_free (base);

  return ok;
}

/* ---- temporary files ------------------------------------------------------ */

/* Removes what a killed run left in the folder.  A file in use is locked. */
static void
sweep (gint dir)
{
  gint           copy = openat (dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR           *list = copy < 0 ? NULL : fdopendir (copy);
  struct dirent *entry;

  while (list && (entry = readdir (list)))
    {
      struct stat info;
      gint        fd;

      if (strncmp (entry->d_name, PART_PREFIX, strlen (PART_PREFIX)))
        continue;
      fd = openat (dir, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
      if (fd < 0)
        continue;
      if (! fstat (fd, &info) && S_ISREG (info.st_mode) && ! flock (fd, LOCK_EX | LOCK_NB))
        unlinkat (dir, entry->d_name, 0);
      close (fd);
    }
  if (list)
    closedir (list);
  else if (copy >= 0)
    close (copy);
}

static void
sweep_once (ZnFolder *folder, gint dir)
{
  struct stat info;
  gchar      *key;
  gboolean    first;

  if (fstat (dir, &info))
    return;

  key = g_strdup_printf ("%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, (guint64) info.st_dev,
                         (guint64) info.st_ino);
  g_mutex_lock (&folder->lock);
  first = g_hash_table_add (folder->swept, key);
  g_mutex_unlock (&folder->lock);

  if (first)
    sweep (dir);
}

/* Another process may sweep the file away before it is locked: then another one. */
static gboolean
create (ZnPart *part, GError **error)
{
  for (gint i = 0; i < TRIES; i++)
    {
      guint64     random[2];
      struct stat info;

      if (getrandom (random, sizeof (random), 0) != sizeof (random))
        break;
      g_snprintf (part->name, sizeof (part->name),
                  PART_PREFIX "%016" G_GINT64_MODIFIER "x%016" G_GINT64_MODIFIER "x", random[0],
                  random[1]);
      part->fd = openat (part->dir, part->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                         0666);
      if (part->fd < 0 && errno == EEXIST)
        continue;
      if (part->fd < 0)
        break;

      flock (part->fd, LOCK_EX);
      if (! fstat (part->fd, &info) && info.st_nlink > 0)
        return TRUE;
      close (part->fd);
      part->fd = -1;
    }
  *part->name = '\0';
  zn_set_errno (error, errno, "nothing can be written to the result folder");

  return FALSE;
}

gboolean
zn_part_begin (ZnPart *part, ZnFolder *folder, const gchar *name, GError **error)
{
  *part     = (ZnPart){ .dir = -1, .fd = -1 };
  part->dir = enter (folder, name, TRUE, &part->base, error);
  if (part->dir < 0)
    return FALSE;

  sweep_once (folder, part->dir);

  return create (part, error);
}

static gboolean
write_all (gint fd, const guchar *data, gsize size)
{
  while (size)
    {
      gssize n = write (fd, data, size);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return FALSE;
      data += n;
      size -= n;
    }

  return TRUE;
}

/* Reads a file from its start, into a digest and, if to is one, another file. */
static gboolean
pump (gint from, gint to, gchar digest[ZN_DIGEST_SIZE])
{
  GChecksum *sum   = g_checksum_new (G_CHECKSUM_SHA256);
  guchar    *chunk = g_malloc (CHUNK);
  off_t      at    = 0;
  gssize     n;
  gboolean   ok = TRUE;

  while (ok && (n = pread (from, chunk, CHUNK, at)) != 0)
    {
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        {
          ok = FALSE;
          break;
        }
      g_checksum_update (sum, chunk, n);
      ok = to < 0 || write_all (to, chunk, n);
      at += n;
    }
  g_strlcpy (digest, g_checksum_get_string (sum), ZN_DIGEST_SIZE);
  g_checksum_free (sum);
  g_free (chunk);

  return ok;
}

gboolean
zn_part_copy (ZnPart *part, gint fd, GError **error)
{
  if (! pump (fd, part->fd, part->digest) || fsync (part->fd) || fstat (part->fd, &part->info))
    {
      zn_set_errno (error, errno, "the result cannot be written");
      return FALSE;
    }

  return TRUE;
}

gboolean
zn_part_finish (ZnPart *part, GError **error)
{
  struct stat info;

  if (! fstatat (part->dir, part->base, &info, AT_SYMLINK_NOFOLLOW) && ! S_ISREG (info.st_mode))
    return in_the_way (error, &info, FALSE);

  if (renameat (part->dir, part->name, part->dir, part->base))
    {
      zn_set_errno (error, errno, "the result cannot get its name");
      return FALSE;
    }
  *part->name = '\0';
  fsync (part->dir);

  return TRUE;
}

void
zn_part_end (ZnPart *part)
{
  if (*part->name)
    unlinkat (part->dir, part->name, 0);
  if (part->fd >= 0)
    close (part->fd);
  if (part->dir >= 0)
    close (part->dir);
  g_clear_pointer (&part->base, g_free);
  part->dir = part->fd = -1;
}

gboolean
zn_folder_digest (ZnFolder *folder, const gchar *name, gchar digest[ZN_DIGEST_SIZE])
{
  gchar   *base = NULL;
  gint     dir  = enter (folder, name, FALSE, &base, NULL);
  gint     fd   = dir < 0 ? -1 : openat (dir, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  gboolean ok   = fd >= 0 && pump (fd, -1, digest);

  if (fd >= 0)
    close (fd);
  if (dir >= 0)
    close (dir);
  g_free (base);

  return ok;
}
