/* SPDX-License-Identifier: MIT */
/* op-cache.h - results kept for the whole process.
 *
 * GIMP makes a new node when OK is pressed and runs filters again at each brush
 * stroke, so results cannot live in a node: they are found by a hash of
 * everything that they depend on.  Any thread may call. */

#ifndef __ZENITH_OP_CACHE_H__
#define __ZENITH_OP_CACHE_H__

#include <gegl.h>
#include <gegl-plugin.h>

#include "zenith_composite.h"

/* The pixels, the format and the place of rect relative to origin. */
void zn_op_key_add_buffer (zn_key              *key,
                           GeglBuffer          *buffer,
                           const GeglRectangle *rect,
                           const GeglRectangle *origin);

/* Adds the pixels of rects[i] alone to keys[i], for all n, in several threads. */
void zn_op_keys_add_pixels (zn_key *keys, GeglBuffer *buffer, const GeglRectangle *rects, gsize n);

/* A new reference, or NULL. */
GBytes *zn_op_cache_get (const zn_key *key);

/* Bytes that are kept in memory: $ZENITH_CACHE. */
gsize zn_op_cache_limit (void);
/* Whether it can be understood; if not, the default is taken, and err says so. */
gboolean zn_op_cache_check (zn_error *err);

/* Keeps a reference of its own.  256 MiB are held in memory; what was not used for
 * longest moves to a file beside GEGL's swap, up to 1 GiB, and is then dropped.  With
 * $ZENITH_CACHE (MiB) so much is held in memory, and there is no file.  Nothing larger
 * than three quarters of the memory is kept. */
void     zn_op_cache_put (const zn_key *key, GBytes *bytes);
gboolean zn_op_cache_takes (gsize size);

/* The same for the engine's composites. */
extern const zn_keep zn_op_keep;

/* What is kept now, in memory or in the file; for tests, which find it by its name. */
G_MODULE_EXPORT guint64 zn_op_cache_size (gboolean filed);

#endif
