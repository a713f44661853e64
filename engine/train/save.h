/* SPDX-License-Identifier: MIT */
/* save.h - writes safetensors files. */
#ifndef ZN_SAVE_H
#define ZN_SAVE_H

#include "../autograd/net.h"
#include "../core/savefile.h"

typedef struct zn_save_part { /* all parameters of the network once, under a prefix */
    const char *prefix;
    const float *data;
} zn_save_part;

/* more: tensors in addition to the parameters.  meta: pairs of strings without quotes or backslashes, NULL ends.  The
 * file is written completely or not at all. */
zn_status zn_save_safetensors(const char *path, const zn_net *net, const zn_save_part *parts, int n_parts,
                              const zn_save_tensor *more, int n_more, const char *const *meta, zn_error *err);

#endif
