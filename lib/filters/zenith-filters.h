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

#define ZN_PROPERTIES_MAX 32

/* A property that hosts with layers see to: the operation itself puts its pictures side by
 * side.
 */
#define ZN_STRIP "strip"
#define ZN_LOOP "loop" /* of a strip, and back again */

/* How many frames a video is; hosts with layers count them. */
#define ZN_FRAMES "frames"

#define ZN_PRESET_PROCEDURE "plug-in-zenith-apply-preset"
#define ZN_PRESET_LABEL N_ ("_Apply Preset...")
#define ZN_PRESET_BLURB N_ ("Apply a Zenith preset")
#define ZN_PRESET_HELP                                                                             \
  "Runs the filter that the preset names, with the preset's values. "                              \
  "Presets are looked for in $ZENITH_PRESETS, in zenith/presets of "                               \
  "the user's data folder and in the installation's folder."
#define ZN_CHECK_PROCEDURE "plug-in-zenith-check-file"
#define ZN_CHECK_HELP                                                                              \
  "GIMP opens a file that is cut, with a message, as if it were whole. "                           \
  "This is an execution error for a PNG, JPEG, TIFF or WebP file that "                            \
  "cannot be read to its end, and a success for all others."
/* What GIMP 2.10 calls the procedure that has all arguments, where the first one has fewer. */
#define ZN_MORE "-more"
#define ZN_HELP_PROCEDURE "plug-in-zenith-help"
#define ZN_HELP_LABEL N_ ("_Zenith")
#define ZN_HELP_BLURB N_ ("Show what Zenith's filters are for, each control and its limits")
#define ZN_HELP_PAGE "index"
#define ZN_HELP_PATH "<Image>/Help"
#define ZN_MENU_PATH "<Image>/Filters/Zenith"
#define ZN_EXPERT_PATH N_ ("<Image>/Filters/Zenith/Expert")
#define ZN_IMAGE_PATH "<Image>/Image"
#define ZN_AUTHOR "The Zenith authors"
#define ZN_YEAR "2026"

typedef struct
{
  const gchar *procedure;       /* PDB name                      */
  const gchar *operation;       /* GEGL operation                */
  const gchar *title;           /* dialog's title, to be translated */
  const gchar *label;           /* in the menu, to be translated */
  const gchar *page;            /* of the help: page.html        */
  const gchar *blurb;           /* one line, to be translated    */
  const gchar *help;            /* a few sentences               */
  gint         preview_margin;  /* see zn_apply_to_pixels()      */
  gboolean     takes_selection; /* its input is the selection's
                                                   * extent, not the whole drawable */
  gboolean     makes_layer;     /* see zn_apply_to_layer()       */
  gboolean     from_nothing;    /* ... of no pixels but its own  */
  gboolean     enlarges;        /* likewise: its result has a size of its own     */
  const gchar *quick_model;     /* 'model' that a preview shows first, or NULL    */
  gboolean     planes;          /* its latent is planes: the layer is of floats   */
  gboolean     whole_image;     /* all layers of the image, and itself */
  gboolean     frames;          /* the layers are the frames of a video */
  gboolean     expert;          /* in the submenu of those that few need */
  const gchar *weights_url;     /* where weights that are not shipped are published, or NULL */
  const gchar *mark;            /* what a result's layer is called
                                                   * beside its name, or NULL      */
  const gchar *properties[ZN_PROPERTIES_MAX + 1]; /* argument order, NULL at the end */
  guint        n_arguments;             /* of GIMP 2.10's procedure, if not all of them: Script-Fu
                                                   * refuses calls with fewer.  ZN_MORE has all */
  guint        first_slider, n_sliders; /* properties that say how much of something is changed: 0
                                  * is nothing, 'amount' is one more of them */
} ZnFilter;

extern const ZnFilter zn_filters[];
extern const guint    zn_n_filters;

/* Our translations, in the folder that $ZENITH_LOCALE names or in that of the installation;
 * to be called once, at the start. */
void         zn_translate (void);
const gchar *zn_locale_folder (void);

/* The address of a page of the manual, in the user's language or else in English; NULL if it is not
 * installed ($ZENITH_HELP names another folder).  Free it. */
gchar *zn_help_uri (const gchar *page);

/* The filter of a procedure or of an operation, NULL if there is none. */
const ZnFilter *zn_filter_by_procedure (const gchar *procedure);
const ZnFilter *zn_filter_by_operation (const gchar *operation);

/* Where it is in GIMP's menus, not translated. */
const gchar *zn_filter_menu (const ZnFilter *filter);

/* "Background (face edited)", to be freed; NULL if the filter does not mark its results or
 * the name has it already.
 */
gchar *zn_filter_mark_name (const ZnFilter *filter, const gchar *name);

/* Whether this filter can be offered: its operation is installed and has the
 * properties that the entry names.
 */
gboolean zn_filter_is_installed (const ZnFilter *filter);

#endif /* __ZENITH_FILTERS_H__ */
