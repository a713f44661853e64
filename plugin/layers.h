/* SPDX-License-Identifier: MIT
 *
 * layers.h - a filter applied to layers, in every GIMP: locks, the selection, new layers, undo.
 */
#ifndef __ZENITH_LAYERS_H__
#define __ZENITH_LAYERS_H__

#include <libgimp/gimp.h>

#if GIMP_MAJOR_VERSION < 3
#include "items-gimp2.h"
#else
#include "items-gimp3.h"
#endif
#include "zenith-apply.h"

typedef struct
{
  const ZnItem *item;
  guint         n;
  GeglBuffer   *source; /* the dialog's buffer of the first, with its estimates; NULL: no dialog */
} ZnLayers;

/* Whether there are items, with pixels that can be changed and, unless a script runs, a part
 * that is selected; else why not.
 */
gboolean zn_layers_usable (const ZnLayers *layers, GimpRunMode mode, GError **error);

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
