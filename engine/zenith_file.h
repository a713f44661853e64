/* SPDX-License-Identifier: MIT */
/* zenith_file.h - the one way in which the engine and its command line write a file. */
#ifndef ZENITH_FILE_H
#define ZENITH_FILE_H

#include "zenith.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a file whole or not at all: write() fills a new file beside `path`, which takes its place only when everything
 * is on the disk.  Killed at any moment, it leaves `path` as it was.  A link stays one and its target is replaced; what is
 * no file (a pipe, /dev/null) is written to.  A call that
 * fails on the stream need not be looked at: its error flag is.  write() returns other failures, with their sentence. */
ZN_API zn_status zn_write_file(const char *path, zn_status (*write)(void *cookie, FILE *f, zn_error *err), void *cookie,
                               zn_error *err);

#ifdef __cplusplus
}
#endif
#endif
