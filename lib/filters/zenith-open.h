/* SPDX-License-Identifier: MIT */
/* zenith-open.h - how every file from outside is opened. */

#ifndef __ZENITH_OPEN_H__
#define __ZENITH_OPEN_H__

#include <sys/stat.h>

#include <glib.h>

/* A descriptor to read a regular file with.  -1: errno says why, or is 0 for what is no regular file
 * (a pipe, a device, a folder).  Nothing blocks.  info may be NULL. */
gint zn_open_input (const gchar *path, struct stat *info);

/* Its whole text, which the caller frees, if it has at most max bytes; else NULL, and errno likewise
 * (EFBIG: it has more). */
gchar *zn_read_input (const gchar *path, gsize max, gsize *size);

#endif
