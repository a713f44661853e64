/* SPDX-License-Identifier: MIT
 *
 * zenith-dialog.h - the dialog, the same for GIMP 2.10 (GTK 2) and 3 (GTK 3).
 *
 *   +-----------+  Preset      [ choose          v ]
 *   |  view,    |              [Save] [Rename] [Delete]
 *   |  see      |  Model       [ balanced        v ]
 *   |  zenith-  |  Strength    ----o------- [ 1.00 ]
 *   |  view.h   |  Noise level o----------- [ 0.00 ]
 *   +-----------+              automatic (15.0)
 *                  Result      [ this layer      v ]
 *   why the last run failed, if it did
 *   [progress: 40 %, 12 s left] [Help] [Reset] [Cancel] [OK]
 *
 * The rows are made from the operation's properties.  OK applies the filter
 * while the dialog stays, with a progress bar and a working Cancel; after a
 * failure the message is shown and the user can change something.
 */
#ifndef __ZENITH_DIALOG_H__
#define __ZENITH_DIALOG_H__

#include <gtk/gtk.h>

#include "zenith-apply.h"
#include "zenith-recent.h"
#include "zenith-view.h"

typedef struct
{
  const gchar  *help_id; /* the procedure's name */
  ZnViewPicture picture;
  gchar       **layers;        /* names that a second picture may have, or NULL */
  ZnWhere      *where;         /* the user's choice, or NULL: there is none */
  gboolean     *print_size;    /* of an enlarged image, likewise            */
  gint          width, height; /* of what is enlarged                       */

  /* Do it: into the drawable, with undo. */
  gboolean (*apply) (const ZnSettings *settings,
                     ZnProgress        progress,
                     gpointer          progress_data,
                     gpointer          data,
                     GError          **error);
  gpointer data;
} ZnDialogHost;

/* Shows a filter's dialog with the values of *settings in it, or, where
 * *settings is NULL, the one that chooses a preset of any filter.  TRUE: the
 * filter has been applied, and *settings (the caller's to free) holds what was
 * used; *preset, unless preset is NULL, the name of the chosen preset, or NULL.
 * FALSE: the user cancelled.
 */
gboolean zn_dialog_run (ZnSettings        **settings,
                        gchar             **preset,
                        const gchar        *title,
                        const ZnDialogHost *host);

/* Opens an installed page of help. */
gboolean zn_help (const gchar *page, GError **error);

#endif /* __ZENITH_DIALOG_H__ */
