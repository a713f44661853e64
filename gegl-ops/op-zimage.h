/* SPDX-License-Identifier: MIT */
/* op-zimage.h - the work of zenith:z-image.
 *
 *   prompt --tokens, text encoder--> features, kept              the encoder is closed then
 *   input --part, padded or scaled--> x --encoder--> start
 *   noise of the seed, features, start, mask --sampler--> latent --decoder--> picture
 *   mask, feathered * (picture - input) is added to the input
 *
 * The mask is what the second input shows: its luminance times its alpha. */

#ifndef __ZENITH_OP_ZIMAGE_H__
#define __ZENITH_OP_ZIMAGE_H__

#include "op-common.h"

typedef struct
{
  const gchar *prompt;
  guint        seed;
  gint         steps;
  gint         width, height; /* of a new picture; else its area is the most that is computed */
  gdouble      change;
  gdouble      feather; /* pixels */
  const gchar *folder;  /* "" or NULL: found by name */
  gchar      **memory;  /* the field of the property */
} ZnOpZImage;

/* For describe(); FALSE: there is nothing to run. */
gboolean zn_op_zimage_describe (ZnOpWhole *task, GeglOperation *operation, const ZnOpZImage *how);

zn_status zn_op_zimage_run (const ZnOpWhole   *task,
                            const ZnOpZImage  *how,
                            const ZnOpPicture *in,
                            gint               n_in,
                            zn_array          *out,
                            ZnOpRequest       *request);

#endif
