/* SPDX-License-Identifier: MIT */
/* zenith-open.c - how every file from outside is opened. */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "zenith-open.h"

gint
zn_open_input (const gchar *path, struct stat *info)
{
  struct stat own;
  gint        fd  = open (path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  gint        why = 0;

  if (! info)
    info = &own;
  if (fd < 0)
    return -1;
  if (fstat (fd, info))
    why = errno;
  else if (S_ISREG (info->st_mode))
    return fd;
  close (fd);
  errno = why;

  return -1;
}

gchar *
zn_read_input (const gchar *path, gsize max, gsize *size)
{
  struct stat info;
  gint        fd   = zn_open_input (path, &info);
  gchar      *text = NULL;
  gssize      got  = 0;
  gint        why  = 0;

  *size = 0;
  if (fd < 0)
    return NULL;

  if ((guint64) info.st_size > max)
    why = EFBIG;
  else if (! (text = g_try_malloc ((gsize) info.st_size + 1)))
    why = ENOMEM;
  max = (gsize) info.st_size;
  while (text && *size < max && (got = read (fd, text + *size, max - *size)) > 0)
    *size += (gsize) got;
  if (got < 0)
    why = errno;
  close (fd);
  if (why)
    g_clear_pointer (&text, g_free);
  else
    text[*size] = '\0';
  errno = why;

  return text;
}
