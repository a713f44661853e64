/* SPDX-License-Identifier: MIT */
/* op-noise.h - the noise of a picture, measured once and cached. */

#ifndef __ZENITH_OP_NOISE_H__
#define __ZENITH_OP_NOISE_H__

#include "op-common.h"

/* A host that runs the graph itself (our plug-in) may say by object data of the node where
 * the picture's noise is measured: "zenith-measure", a GeglRectangle of the input.  NULL: it
 * does not.  Where the network has nothing to do, the noise is measured for such a host alone. */
const GeglRectangle *zn_op_noise_asked (GeglOperation *operation);

/* zn_enhance_measure() for the picture, or for the part that the host asked for.  Called at each
 * request: the result for a picture is cached, and a picture is identified by blocks that are spread
 * over it, not by all of its pixels. */
zn_status zn_op_noise_measure (ZnOpRequest           *request,
                               const zn_enhance_plan *plan,
                               ZnOpPicture           *picture,
                               zn_noise_table        *noise);

#endif
