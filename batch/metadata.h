/* SPDX-License-Identifier: MIT */
/* metadata.h - EXIF, XMP and IPTC, by gexiv2, the library that GIMP itself uses.
 *
 * PNG, JPEG and WebP files get the input's blocks byte by byte (the formats do that);
 * only the XMP packet is written again, with an entry in its history that says what Zenith did.
 * TIFF files, and a result of another format than its input, are given all of it by exiv2 when the
 * file is complete.
 *
 * The entry has no time in it: the same picture gives the same bytes on every machine. */

#ifndef __ZENITH_METADATA_H__
#define __ZENITH_METADATA_H__

#include "picture.h"

/* Call once, in the first thread, before all else. */
void zn_metadata_init (void);

/* Replaces picture->xmp by the packet of the file fd with the new entry.  A packet that
 * cannot be understood stays as it is, unmarked. */
void zn_metadata_mark (ZnPicture *picture, gint fd, const gchar *settings);

/* All of it, and the entry, from one file into another. */
gboolean zn_metadata_transfer (gint from, gint to, const gchar *settings, GError **error);

#endif
