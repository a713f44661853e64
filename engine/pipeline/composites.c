/* SPDX-License-Identifier: MIT */
/* composites.c - every composite, one line each: models that own no weights and run others (see zn_arch.parts).  They
 * follow the networks of models/registry.c in `zenith models`. */
#include "model.h"

const zn_arch *const zn_composites[] = { NULL };
