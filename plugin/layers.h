/* SPDX-License-Identifier: MIT
 *
 * layers.h - a filter applied to layers, in every GIMP: locks, the selection, new layers, undo.
 */
#ifndef __ZENITH_LAYERS_H__
#define __ZENITH_LAYERS_H__

#include <libgimp/gimp.h>

#include "items.h"
#include "zenith-apply.h"
#include "zenith-recent.h"

typedef struct
{
  const ZnItem *item;
  guint         n;
  GeglBuffer   *source; /* the dialog's buffer of the first, with its estimates; NULL: no dialog */
  ZnWhere       where;  /* of masks and channels, always into themselves */
  gboolean      print_size; /* an enlarged image is printed as large as before */
} ZnLayers;

/* Whether there are items, with pixels that can be changed and, unless a script runs, a part
 * that is selected; else why not.  filter: NULL, it is not known yet.
 */
gboolean zn_layers_usable (const ZnLayers *layers,
                           const ZnFilter *filter,
                           GimpRunMode     mode,
                           GError        **error);

/* Where the user wanted the last result of this procedure; not for scripts. */
void zn_layers_recall (ZnLayers *layers, const gchar *procedure);

/* The apply() of a ZnDialogHost; data: the layers. */
gboolean zn_layers_apply (const ZnSettings *settings,
                          ZnProgress        progress,
                          gpointer          progress_data,
                          gpointer          data,
                          GError          **error);

/* zn_dialog_run() with these layers, after gimp_ui_init(). */
gboolean zn_layers_dialog (ZnSettings **settings,
                           gchar      **preset,
                           const gchar *procedure,
                           const gchar *title,
                           ZnLayers    *layers,
                           GError     **error);

/* A message if the image is indexed: the result has only the colors of its palette. */
void zn_layers_note_palette (const ZnLayers *layers);

#endif /* __ZENITH_LAYERS_H__ */
