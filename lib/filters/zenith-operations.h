/* SPDX-License-Identifier: MIT
 *
 * zenith-operations.h - Zenith's GEGL module, where GEGL does not look for it: in another prefix, or in
 * an extension of GIMP's Flatpak.
 *
 * A process of ours then loads it itself.  GIMP, which is another process, finds it by a link in the
 * user's folder of GEGL; once what it leads to is uninstalled, GEGL passes over the link.
 */
#ifndef __ZENITH_OPERATIONS_H__
#define __ZENITH_OPERATIONS_H__

#include <glib.h>

/* After gegl_init(): whether GEGL has our operations, by now. */
gboolean zn_operations_load (void);

/* Whether GEGL has them only because zn_operations_load() was called. */
gboolean zn_operations_are_apart (void);

/* The link, to be freed, and making it. */
gchar   *zn_operations_link_name (void);
gboolean zn_operations_link (GError **error);

#endif /* __ZENITH_OPERATIONS_H__ */
