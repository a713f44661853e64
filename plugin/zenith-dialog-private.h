/* SPDX-License-Identifier: MIT
 *
 * zenith-dialog-private.h - the dialog, for the files that it is made of.
 */
#ifndef __ZENITH_DIALOG_PRIVATE_H__
#define __ZENITH_DIALOG_PRIVATE_H__

#include <libgimp/gimp.h>
#include <libgimp/gimpui.h>

#include "zenith-apply.h"
#include "zenith-dialog.h"
#include "zenith-preset.h"

#define ZN_NEW_FACES 9

typedef struct _Dialog Dialog;

typedef struct
{
  Dialog        *dialog;
  guint          index;      /* of the property                   */
  GtkWidget     *widget;     /* combo, check button or entry, or  */
  GtkAdjustment *adjustment; /* a number's                        */
  gdouble        unit;       /* what it shows of a 1: 100 of a slider */
} Row;

struct _Dialog
{
  const ZnDialogHost *host;
  ZnSettings         *settings;    /* NULL: no preset chosen yet      */
  GPtrArray          *retired;     /* settings that were replaced     */
  GPtrArray          *presets;     /* those that the combo shows      */
  GPtrArray          *all_presets; /* owns them                       */
  GtkWidget          *window;
  GtkWidget          *controls;
  GtkWidget          *scroll; /* around them */
  GtkWidget          *preset;
  GtkWidget          *save; /* of presets                      */
  GtkWidget          *rename;
  GtkWidget          *remove;
  GtkWidget          *about; /* the preset's description        */
  GtkWidget          *status;
  GtkWidget          *level;   /* the noise level that was found, or NULL */
  GtkWidget          *warning; /* hardly any was                  */
  GtkWidget          *faults;  /* of the picture, that were found, or NULL */
  GtkWidget          *bar;
  GtkWidget          *prompt;             /* the entry, or NULL              */
  GtkWidget          *lock;               /* keeps the seed, or NULL         */
  GtkWidget          *faces;              /* thumbnails, or NULL             */
  ZnFrame             face[ZN_FACES_MAX]; /* what they show      */
  guint               n_faces;
  gchar             **attributes;             /* of the model, or NULL       */
  GtkWidget          *new_face[ZN_NEW_FACES]; /* pictures of faces to pick from, or NULL */
  GeglBuffer         *drawn[ZN_NEW_FACES];    /* ... what they show, NULL: not yet */
  GtkWidget          *where;                  /* the result goes, or NULL        */
  GtkWidget          *size;                   /* of an enlarged picture, or NULL */
  GtkWidget          *links;                  /* to weights that are missing     */
  gchar              *checked;                /* weights that were looked for, or NULL */
  gchar              *lacks;                  /* the message about them, or NULL */
  ZnView             *view;
  ZnNoise             found; /* what was measured; mean < 0: nothing yet */
  guint               later; /* the source that makes a preview */
  guint               fit;   /* ... that fits the window to the screen */
  gint64              began; /* the work under way              */
  Row                 row[ZN_PROPERTIES_MAX];
  guint               n_rows;
  gboolean            any_filter; /* chooses presets of every filter */
  gboolean            updating;   /* we, not the user, set a widget  */
  gboolean            busy;       /* a preview is being computed     */
  gboolean            again;      /* and is out of date already      */
  gboolean            stop;       /* the user has answered           */
  gboolean            applying;   /* OK was pressed, the filter runs */
  GeglRectangle       changed;    /* of the estimate that is shown    */
  gboolean            cannot;     /* the last preview failed         */
  gboolean            engines_checked;
};

/* zenith-dialog.c */
void     zn_dialog_set_text (GtkWidget *label, const gchar *text); /* of a label for messages */
void     zn_dialog_set_status (Dialog *d, const gchar *text);
void     zn_dialog_set_error (Dialog *d, GError **error);
void     zn_dialog_invalidate (gpointer data);
void     zn_dialog_show_estimate (gpointer data, GeglBuffer *estimate); /* in the view */
void     zn_dialog_show_level (Dialog *d);                              /* of noise */
gboolean zn_dialog_makes_layer (Dialog *d);

/* zenith-dialog-rows.c */
guint zn_dialog_property_rows (Dialog *d, GtkWidget *box, GtkWidget *table, guint line);
void  zn_dialog_refresh (Dialog *d); /* shows the settings */
void  zn_dialog_row_changed (GObject *object, Row *row);
void  zn_dialog_draw_seed (Dialog *d);
void  zn_dialog_check_engines (Dialog *d);
void  zn_dialog_attach (GtkWidget   *table,
                        guint        line,
                        const gchar *text,
                        GtkWidget   *widget,
                        const gchar *tooltip);

/* zenith-dialog-presets.c */
const ZnPreset *zn_dialog_preset (Dialog *d); /* the chosen one, or NULL */
void            zn_dialog_choose_none (Dialog *d);
void            zn_dialog_load_presets (Dialog *d, const gchar *name);
void            zn_dialog_preset_changed (GtkComboBox *combo, Dialog *d);
GtkWidget      *zn_dialog_preset_buttons (Dialog *d);

/* zenith-dialog-face.c */
gboolean zn_dialog_hides (Dialog *d, guint index); /* the model lacks what this property changes */
gboolean zn_dialog_folds (Dialog *d, guint index); /* it is one of those that few people need */
GtkWidget *zn_dialog_faces_new (Dialog *d);
void       zn_dialog_refresh_faces (Dialog *d);
void       zn_dialog_show_found (Dialog *d, const ZnFound *found); /* the frames, the thumbnails */
GtkWidget *zn_dialog_new_faces (Row *row, const ZnProperty *p); /* faces to pick from, the seed */
void       zn_dialog_draw_new_faces (Dialog *d, ZnProgress progress);
void       zn_dialog_clear_faces (Dialog *d);

/* zenith-dialog-result.c */
guint      zn_dialog_result_rows (Dialog *d, GtkWidget *table, guint line); /* the next line */
void       zn_dialog_show_result (Dialog *d);
void       zn_dialog_keep_result (Dialog *d); /* for the next time */
GtkWidget *zn_dialog_links_new (Dialog *d);
void       zn_dialog_check_weights (Dialog *d); /* says so if they are missing */

#endif /* __ZENITH_DIALOG_PRIVATE_H__ */
