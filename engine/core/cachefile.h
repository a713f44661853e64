/* SPDX-License-Identifier: MIT */
/* cachefile.h - files in the user's cache folder: what was measured or compiled once.  They are read like any file from
 * outside, and everything works without them. */
#ifndef ZN_CACHEFILE_H
#define ZN_CACHEFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { ZN_CACHE_PATH = 1024 };

/* $XDG_CACHE_HOME/zenith/NAME; the folder is made if need be.  "" if there is none.  Spaces and slashes in NAME become '_'. */
void zn_cache_path(char path[ZN_CACHE_PATH], const char *name);

/* NULL unless it is a regular file, no link, of at most max bytes. */
FILE *zn_cache_open(const char *path, long max);

/* Something other than a file is at that path: a link, a FIFO, a folder.  It must not be replaced. */
bool zn_cache_taken(const char *path);

#endif
