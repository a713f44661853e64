/* SPDX-License-Identifier: MIT */
/* op-zimage.h - zenith:z-image: the engine's composite `generate` (zenith_composite.h) on buffers.
 *
 * The mask is what the second input shows: its luminance times its alpha. */

#ifndef __ZENITH_OP_ZIMAGE_H__
#define __ZENITH_OP_ZIMAGE_H__

#include "op-common.h"

typedef struct
{
  zn_generate how;
  gchar     **memory; /* the field of the property */
} ZnOpZImage;

/* For describe(); FALSE: there is nothing to run. */
gboolean zn_op_zimage_describe (ZnOpWhole *task, GeglOperation *operation, const ZnOpZImage *image);

zn_status zn_op_zimage_run (const ZnOpWhole   *task,
                            const ZnOpZImage  *image,
                            const ZnOpPicture *in,
                            gint               n_in,
                            zn_array          *out,
                            ZnOpRequest       *request);

#endif
