/* SPDX-License-Identifier: MIT
 *
 * layers-gimp3.h - a filter applied to layers of GIMP 3: locks, the selection, new layers, undo.
 */
#ifndef __ZENITH_LAYERS_GIMP3_H__
#define __ZENITH_LAYERS_GIMP3_H__

#include <libgimp/gimp.h>

#include "zenith-apply.h"

/* Whether there are drawables, with pixels that can be changed and, unless a script runs, a part
 * that is selected; else why not.
 */
gboolean zn_layers_usable (GimpDrawable **drawables, GimpRunMode mode, GError **error);

/* The apply() of a ZnDialogHost; data: the drawables. */
gboolean zn_layers_apply (const ZnSettings *settings,
                          ZnProgress        progress,
                          gpointer          progress_data,
                          gpointer          data,
                          GError          **error);

/* A message if the image is indexed: the result has only the colors of its palette. */
void zn_layers_note_palette (GimpDrawable *drawable);

/* The dialog's buffer of the drawable, to which its estimates are attached; NULL: no dialog. */
void zn_layers_set_source (GeglBuffer *source);

#endif /* __ZENITH_LAYERS_GIMP3_H__ */
