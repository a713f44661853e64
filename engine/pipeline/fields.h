/* SPDX-License-Identifier: MIT */
/* fields.h - for describe(): the settings of a composite are in their ranges. */
#ifndef ZN_FIELDS_H
#define ZN_FIELDS_H

#include "../zenith_composite.h"

zn_status zn_field_check(const void *how, const zn_field *fields, zn_error *err);

#endif
