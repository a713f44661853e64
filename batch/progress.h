/* SPDX-License-Identifier: MIT */
/* progress.h - one bar on a terminal; elsewhere a line now and then. */

#ifndef __ZENITH_PROGRESS_H__
#define __ZENITH_PROGRESS_H__

#include <glib.h>

typedef struct
{
  gboolean terminal;
  gint64   start, shown; /* g_get_monotonic_time() */
  gint64   moved;        /* when `done` grew */
  guint    total;
  gdouble  done; /* pictures, with parts: never less than before */
} ZnProgressBar;

void zn_progress_begin (ZnProgressBar *bar, guint total);

/* Call often: it limits how often it draws.  done counts those that were skipped too; part: how much of the next one is done. */
void zn_progress_show (ZnProgressBar *bar, guint done, guint skipped, gdouble part);

/* Clears the bar's line. */
void zn_progress_end (ZnProgressBar *bar);

/* "1:05", "2:00:10". */
gchar *zn_duration (gdouble seconds);

/* "3.2 pictures/s", "14 pictures/min". */
gchar *zn_rate (gdouble pictures, gdouble seconds);

#endif
