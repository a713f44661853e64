/* SPDX-License-Identifier: MIT
 *
 * enlarge.h - a whole image, enlarged by a network.
 */
#ifndef __ZENITH_ENLARGE_H__
#define __ZENITH_ENLARGE_H__

#include "items.h"
#include "zenith-apply.h"

/* The pixels of all layers are the network's; GIMP scales the rest: masks, channels, paths, guides,
 * the selection.  One undo step; computed before anything changes.
 *
 * print_size: the resolution grows too.
 */
gboolean zn_enlarge_image (const ZnSettings *settings,
                           ZnImage           image,
                           gboolean          print_size,
                           ZnProgress        progress,
                           gpointer          progress_data,
                           GError          **error);

/* The canvas grows where this part of it is outside. */
void zn_enlarge_canvas (ZnImage image, const GeglRectangle *part);

#endif /* __ZENITH_ENLARGE_H__ */
