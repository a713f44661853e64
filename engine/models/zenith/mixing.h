/* SPDX-License-Identifier: MIT */
/* mixing.h - the gates of Walsh-Hadamard mixing along rows and columns, as all Zenith autoencoders have them. */
#ifndef ZN_MIXING_H
#define ZN_MIXING_H

#include "../arch.h"

enum { ZN_MIX_GROUPS = 4 }; /* of the 1x1 convolutions around the transforms */

/* gate: [n] or [n][width]; divided by n, so that two transforms cancel.  half: the shift of a shifted window.  side: n
 * without a file. */
void zn_bind_lines(zn_binder *b, zn_fwht *lines, zn_axis axis, int width, int side, bool half, const char *name);

#endif
