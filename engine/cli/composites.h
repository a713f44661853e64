/* SPDX-License-Identifier: MIT */
/* composites.h - what the commands on picture files share: zenith denoise | face | generate IN OUT [KEY=VALUE]... */
#ifndef ZN_CLI_COMPOSITES_H
#define ZN_CLI_COMPOSITES_H

#include "cli.h"
#include "pictures.h"

#include "../zenith_composite.h"

/* The options, with the words that are "KEY=VALUE" among those of --set; the other words are files, two at most. */
options with_settings(const options *from, const zn_field *fields);

/* Sets what the --set options say, but for precision.  EXIT_DONE, or EXIT_USAGE and a line on stderr. */
int set_fields(void *how, const zn_field *fields, const char *what, const options *o);

/* The line on stderr for one that was refused; returns EXIT_USAGE. */
int refuse_setting(const zn_field *fields, const char *text, const zn_error *err);

/* Says how a command is called, and which settings it has, with those of `how`, the defaults.  Returns EXIT_USAGE; with --help
 * it is what was wanted: stdout and EXIT_DONE. */
int usage_of(const options *o, const char *call, const zn_field *fields, const void *how);

zn_choice choice_of(const options *o);

/* A file's name with a '/', as a setting takes it that may be a name of a model, too. */
const char *file_path(char *path, size_t size, const char *name);

/* A picture of three channels in 0..1; data and info are the caller's.  info: what its result will say, or NULL. */
bool load_picture(zn_array *out, picture_info *info, const char *path, zn_error *err);
/* Its format is the ending: .png, .ppm, or .npy, which keeps all bits. */
bool save_picture(const char *path, const zn_array *picture, const picture_info *info, zn_error *err);
/* Whether save_picture() could: before work that takes long. */
bool can_save(const char *path, zn_error *err);

/* Shows progress and memory, if --progress is given. */
zn_watcher watch_of(const options *o);
void say_note(const zn_note *note);

#endif
