/* SPDX-License-Identifier: MIT */
/* directory.h - the directories of a TIFF file, or of an EXIF block, before a library reads them.
 *
 * Entries can refer to the same bytes again and again, and directories to each other in circles:
 * libtiff and exiv2 copy a value once for each entry.  So each entry is charged to the picture with
 * all bytes that it refers to. */

#ifndef __ZENITH_DIRECTORY_H__
#define __ZENITH_DIRECTORY_H__

#include "picture.h"

/* Of a whole file: also FALSE if a value lies beyond its end.  libtiff only warns of a description
 * or a note of the camera that is cut. */
gboolean zn_directories_of_file (ZnPicture *picture, gint fd, GError **error);

/* Of a block, as picture->exif holds it; what lies beyond its end is not read by anyone. */
gboolean zn_directories_of_block (ZnPicture *picture, GBytes *block, GError **error);

/* A block with another size of its picture, where it says one.  Takes the block. */
GBytes *zn_block_of_size (GBytes *block, guint32 width, guint32 height);

#endif
