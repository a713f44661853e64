/* SPDX-License-Identifier: MIT */
/* history.h - the entry in a picture's XMP history that says what Zenith did. */

#ifndef __ZENITH_HISTORY_H__
#define __ZENITH_HISTORY_H__

#include "gexiv2-any.h"

/* settings: the operation and its values.  The entry has no time in it: the same picture
 * gives the same bytes on every machine. */
gboolean zn_history_add (GExiv2Metadata *metadata, const gchar *settings, GError **error);

#endif
