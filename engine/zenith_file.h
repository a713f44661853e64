/* SPDX-License-Identifier: MIT */
/* zenith_file.h - how the engine and its command line open files to read, and write files. */
#ifndef ZENITH_FILE_H
#define ZENITH_FILE_H

#include "zenith.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A regular file to read.  Anything else (a pipe, a device, a folder) is refused, and nothing blocks.  NULL: err says
 * why. */
ZN_API FILE *zn_input_open(const char *path, zn_error *err);

/* A file that is written completely or not at all: f is a new file in the folder of `path`, which replaces `path` only
 * when everything is on the disk.  A kill at any time leaves `path` unchanged.  A link stays one and its target is
 * replaced; anything other than a file (a pipe, /dev/null) is written to directly. */
typedef struct zn_output {
    FILE *f;         /* to be written; write errors need not be checked: zn_output_end checks the error flag */
    char *temp, *to; /* temporary and final name; temp NULL: the file is written to directly */
    bool nameless;   /* the temporary one is given at the end: a kill before leaves nothing */
} zn_output;

ZN_API zn_status zn_output_begin(zn_output *o, const char *path, zn_error *err);
/* status: that of the work; if it is a failure, it is returned, and nothing has changed. */
ZN_API zn_status zn_output_end(zn_output *o, zn_status status, zn_error *err);

/* The same around one function. */
ZN_API zn_status zn_write_file(const char *path, zn_status (*write)(void *cookie, FILE *f, zn_error *err), void *cookie,
                               zn_error *err);

/* Whether the file could be written now, before work that takes hours; nothing has its name afterwards. */
ZN_API zn_status zn_write_check(const char *path, zn_error *err);

#ifdef __cplusplus
}
#endif
#endif
