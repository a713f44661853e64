/* SPDX-License-Identifier: MIT
 *
 * zenith-filters.h - the filters that programs offer, one table entry each.
 *
 * To add a filter, add an entry to zn_filters[] in zenith-filters.c.  Types,
 * ranges, defaults, labels and tooltips come from the GEGL operation itself
 * (zenith-settings.c asks it); the entry only says which properties are
 * arguments and in which order, because scripts depend on that order.
 */
#ifndef __ZENITH_FILTERS_H__
#define __ZENITH_FILTERS_H__

#include <glib.h>

#define ZN_PROPERTIES_MAX 16

#define ZN_PRESET_PROCEDURE "plug-in-zenith-apply-preset"
#define ZN_CHECK_PROCEDURE "plug-in-zenith-check-file"
#define ZN_CHECK_HELP                                                                              \
  "GIMP opens a file that is cut, with a message, as if it were whole. "                           \
  "This is an execution error for a PNG, JPEG, TIFF or WebP file that "                            \
  "cannot be read to its end, and a success for all others."
#define ZN_MENU_PATH "<Image>/Filters/Zenith"
#define ZN_AUTHOR "The Zenith authors"
#define ZN_YEAR "2026"

typedef struct
{
  const gchar *procedure;                         /* PDB name                      */
  const gchar *operation;                         /* GEGL operation                */
  const gchar *title;                             /* menu and dialog title         */
  const gchar *blurb;                             /* one line                      */
  const gchar *help;                              /* a few sentences               */
  gint         preview_margin;                    /* see zn_apply_to_pixels()      */
  gboolean     takes_selection;                   /* its input is the selection's
                                                   * extent, not the whole drawable */
  const gchar *properties[ZN_PROPERTIES_MAX + 1]; /* argument order, NULL at the end */
} ZnFilter;

extern const ZnFilter zn_filters[];
extern const guint    zn_n_filters;

/* The filter of a procedure or of an operation, NULL if there is none. */
const ZnFilter *zn_filter_by_procedure (const gchar *procedure);
const ZnFilter *zn_filter_by_operation (const gchar *operation);

/* Whether this filter can be offered: its operation is installed and has the
 * properties that the entry names.
 */
gboolean zn_filter_is_installed (const ZnFilter *filter);

#endif /* __ZENITH_FILTERS_H__ */
