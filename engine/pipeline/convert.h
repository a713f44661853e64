/* SPDX-License-Identifier: MIT */
/* convert.h - zn_weights_convert of zenith.h, its arguments checked. */
#ifndef ZN_CONVERT_H
#define ZN_CONVERT_H

#include "../core/status.h"

zn_status zn_convert(const char *out, const char *const *files, int n_files, const char *type, zn_error *what,
                     zn_error *err);

#endif
