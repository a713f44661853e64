/* SPDX-License-Identifier: MIT */
/* progress.c - one bar on a terminal; elsewhere a line now and then. */

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "progress.h"

#define STEP_TERMINAL (200 * 1000)  /* microseconds between two bars  */
#define STEP_LOG (10 * 1000 * 1000) /* ... two lines                  */
#define BAR_MAX 40
#define SURE 0.1 /* of a picture: less says nothing about the time of all */

gchar *
zn_duration (gdouble seconds)
{
  const guint64 s = (guint64) (MAX (seconds, 0.0) + 0.5);

  if (s < 3600)
    return g_strdup_printf ("%u:%02u", (guint) (s / 60), (guint) (s % 60));

  return g_strdup_printf ("%" G_GUINT64_FORMAT ":%02u:%02u", s / 3600, (guint) (s / 60 % 60),
                          (guint) (s % 60));
}

gchar *
zn_rate (gdouble pictures, gdouble seconds)
{
  const gdouble rate = pictures / MAX (seconds, 0.001);

  if (rate >= 1.0)
    return g_strdup_printf ("%.1f pictures/s", rate);

  return g_strdup_printf ("%.1f pictures/min", rate * 60.0);
}

void
zn_progress_begin (ZnProgressBar *bar, guint total)
{
  bar->terminal = isatty (STDERR_FILENO);
  bar->start    = g_get_monotonic_time ();
  bar->shown    = bar->terminal ? 0 : bar->start;
  bar->total    = total;
  bar->moved    = bar->start;
  bar->done     = 0.0;
}

static void
draw (const gchar *text, gdouble done)
{
  struct winsize size = {
    0,
  };
  gint  room = 80;
  gchar bar[BAR_MAX + 1];
  gint  width, full;

  if (! ioctl (STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col)
    room = size.ws_col;

  width = CLAMP (room - 4 - (gint) g_utf8_strlen (text, -1), 0, BAR_MAX);
  full  = (gint) (width * done);
  for (gint i = 0; i < width; i++)
    bar[i] = i < full ? '#' : '.';
  bar[width] = '\0';

  if (width)
    fprintf (stderr, "\r[%s] %s\033[K", bar, text);
  else
    fprintf (stderr, "\r%.*s\033[K", room - 1, text);
  fflush (stderr);
}

void
zn_progress_show (ZnProgressBar *bar, guint done, guint skipped, gdouble part)
{
  const gint64  now     = g_get_monotonic_time ();
  const gdouble seconds = (now - bar->start) / 1e6;
  GString      *text;

  if (done + part > bar->done)
    {
      bar->done  = MIN (done + part, bar->total);
      bar->moved = now;
    }
  if (now - bar->shown < (bar->terminal ? STEP_TERMINAL : STEP_LOG))
    return;
  bar->shown = now;

  text = g_string_new (NULL);
  g_string_append_printf (text, "%u of %u (%u %%)", done, bar->total,
                          (guint) (100.0 * bar->done / bar->total));
  if (skipped)
    g_string_append_printf (text, ", %u skipped", skipped);
  if (done)
    {
      gchar *rate = zn_rate (done, seconds);

      g_string_append_printf (text, ", %s", rate);
      g_free (rate);
    }
  if (bar->done >= SURE)
    {
      /* From one part to the next it counts down. */
      const gdouble took = (bar->moved - bar->start) / 1e6;
      const gdouble rest = took / bar->done * (bar->total - bar->done) - (seconds - took);
      gchar        *left = zn_duration (MAX (rest, 1.0));

      g_string_append_printf (text, ", %s left", left);
      g_free (left);
    }

  if (bar->terminal)
    draw (text->str, bar->done / bar->total);
  else
    fprintf (stderr, "%s\n", text->str);
  g_string_free (text, TRUE);
}

void
zn_progress_end (ZnProgressBar *bar)
{
  if (bar->terminal && bar->shown)
    fprintf (stderr, "\r\033[K");
}
