/* SPDX-License-Identifier: MIT
 *
 * zenith-view.h - the picture in the dialog.
 *
 *   +----------------+   left of the line: before, right of it: after;
 *   | before | after |   drag the line or the picture
 *   +----------------+
 *   Fit  100 %  200 %   [ ] Split view   (Before: while it is held)
 *
 * The view says which parts of the source it shows; the caller computes them and hands
 * the pixels back, part by part.  Until then, and outside the selection, it shows the source.
 */
#ifndef __ZENITH_VIEW_H__
#define __ZENITH_VIEW_H__

#include <gegl.h>
#include <gtk/gtk.h>

#include "zenith-apply.h"

typedef struct _ZnView ZnView;

typedef struct
{
  GeglBuffer   *source;    /* the drawable                                    */
  GeglBuffer   *selection; /* the image's selection mask, NULL if all         */
  GeglRectangle selected;  /* its extent in the drawable: the view opens on it */
  gint          offset_x;  /* of the drawable in the image                    */
  gint          offset_y;
} ZnViewPicture;

/* picture must outlive the view.  changed: another part of it is to be seen. */
ZnView *zn_view_new (const ZnViewPicture *picture,
                     gint                 side,
                     void (*changed) (gpointer data),
                     gpointer data);
void    zn_view_free (ZnView *view);

/* To be packed into the dialog. */
GtkWidget *zn_view_widget (ZnView *view);

/* The index-th part of the source that is seen; FALSE: there are no more.  One part unless
 * the whole picture is fitted into the view. */
gboolean zn_view_part (ZnView *view, guint index, GeglRectangle *part);

/* The result there: R'G'B'A u8, so many pixels in each row and column for one of the source. */
void zn_view_show (ZnView *view, const GeglRectangle *part, gint density, const guchar *rgba);

/* The buttons in two rows. */
void zn_view_narrow (ZnView *view);

/* The least side of the view, in pixels. */
void zn_view_set_side (ZnView *view, gint side);
gint zn_view_side (ZnView *view);

/* Choose 200 %, or all of the picture. */
void zn_view_magnify (ZnView *view);
void zn_view_fit (ZnView *view);

/* Frames of faces, drawn over the picture; chosen: that one is changed, -1: all of them.  The view
 * goes to one that is newly chosen.  A click on one calls clicked(), if it is not NULL. */
void zn_view_set_frames (ZnView *view, const ZnFrame *frame, guint n, gint chosen);
void zn_view_set_clicked (ZnView *view, void (*clicked) (gpointer data, guint frame));

/* Shows the source again. */
void zn_view_clear (ZnView *view);

#endif /* __ZENITH_VIEW_H__ */
