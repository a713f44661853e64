/* SPDX-License-Identifier: MIT */
/* op-cache.h - results kept for the whole process.
 *
 * GIMP makes a new node when OK is pressed and runs filters again at each brush
 * stroke, so results cannot live in a node: they are found by a hash of
 * everything that they depend on.  Any thread may call. */

#ifndef __ZENITH_OP_CACHE_H__
#define __ZENITH_OP_CACHE_H__

#include <gegl.h>

typedef struct
{
  guint64 a, b;
} ZnOpKey;

/* A key is grown from a zeroed one; the order counts. */
void zn_op_key_add (ZnOpKey *key, gconstpointer data, gsize size);
void zn_op_key_add_string (ZnOpKey *key, const gchar *string);

/* The pixels, the format and the place of rect relative to origin. */
void zn_op_key_add_buffer (ZnOpKey             *key,
                           GeglBuffer          *buffer,
                           const GeglRectangle *rect,
                           const GeglRectangle *origin);

/* A new reference, or NULL. */
GBytes *zn_op_cache_get (const ZnOpKey *key);

/* Keeps a reference of its own; what was not used for longest goes.  Nothing
 * larger than three quarters of the whole is kept. */
void     zn_op_cache_put (const ZnOpKey *key, GBytes *bytes);
gboolean zn_op_cache_takes (gsize size);

#endif
