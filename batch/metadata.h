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

/* Adds the entry to picture->xmp.  A packet that cannot be understood, or is too costly to, stays as
 * it is, unmarked.  FALSE: the run was stopped. */
gboolean zn_metadata_mark (ZnPicture *picture, const gchar *settings, GError **error);

/* Charges for what zn_metadata_transfer() makes exiv2 do; picture->exif and xmp are the file's. */
gboolean zn_metadata_charge (ZnPicture *picture, GError **error);

/* All of it, and the entry, from the picture's file into another. */
gboolean zn_metadata_transfer (ZnPicture   *picture,
                               gint         from,
                               gint         to,
                               const gchar *settings,
                               GError     **error);

#endif
