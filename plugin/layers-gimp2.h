/* SPDX-License-Identifier: MIT
 *
 * layers-gimp2.h - a filter applied to layers of GIMP 2.10: locks, the selection, new layers, undo.
 */
#ifndef __ZENITH_LAYERS_GIMP2_H__
#define __ZENITH_LAYERS_GIMP2_H__

#include <libgimp/gimp.h>

#include "zenith-apply.h"

/* Whether the drawable has pixels that can be changed; else why not. */
gboolean zn_layers_usable (gint32 drawable, GError **error);

/* Where nothing of the layer is selected, a script has nothing to do; a user is told. */
gboolean zn_layers_selected (gint32 drawable, GimpRunMode mode, GError **error);

/* The apply() of a ZnDialogHost; data: the drawable, as GINT_TO_POINTER. */
gboolean zn_layers_apply (const ZnSettings *settings,
                          ZnProgress        progress,
                          gpointer          progress_data,
                          gpointer          data,
                          GError          **error);

/* A message if the image is indexed: the result has only the colors of its palette. */
void zn_layers_note_palette (gint32 drawable);

/* The dialog's buffer of the drawable, to which its estimates are attached; NULL: no dialog. */
void zn_layers_set_source (GeglBuffer *source);

#endif /* __ZENITH_LAYERS_GIMP2_H__ */
