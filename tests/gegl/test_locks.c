/* SPDX-License-Identifier: MIT */
/* test_locks.c - two threads, models and engines: nobody waits for ever. */

#include <signal.h>
#include <unistd.h>

#include "ops.h"

#define TOO_LONG 120 /* seconds: the whole takes about one */

static void
hangs (int signal)
{
  static const char said[] = "not ok locks: two threads wait for each other\n"
                             "0 passed, 1 failed, 0 skipped\n";

  (void) signal;
  if (write (STDOUT_FILENO, said, sizeof (said) - 1) > 0)
    fflush (NULL);
  _exit (1);
}

typedef struct
{
  const gchar *settings; /* of the opener */
  GeglBuffer  *in;
  GThread     *opener;
  gint         at_work; /* set by the opener */
  gboolean     asked;
  gchar       *known, *unknown; /* the status of nodes that were prepared inside of the run */
} Inside;

/* Opens another model: reads its weights, then waits for the engine, which is in a run. */
static gpointer
open_another (gpointer data)
{
  Inside *inside = data;
  gchar  *status;

  g_atomic_int_set (&inside->at_work, 1);
  g_free (apply ("zenith:denoise", inside->settings, inside->in, &status, NULL));

  return status;
}

static gchar *
status_of_pixel (const gchar *settings, GeglBuffer *in)
{
  Run    run = run_new ("zenith:denoise", settings, in);
  gchar *status;

  g_free (run_pixels (&run, GEGL_RECTANGLE (0, 0, 1, 1)));
  status = run_status (&run);
  run_free (&run);

  return status;
}

/* A progress bar that redraws a picture with other Zenith nodes in it. */
static void
ask_inside (GeglNode *node, gdouble value, gpointer data)
{
  Inside *inside = data;

  (void) node;
  if (inside->asked || value <= 0.0) /* the first call comes before the run */
    return;
  inside->asked  = TRUE;
  inside->opener = g_thread_new ("opener", open_another, inside);
  while (! g_atomic_int_get (&inside->at_work))
    g_usleep (1000);
  g_usleep (500000); /* enough to read a small file; if not, the test sees less */

  inside->known   = status_of_pixel ("model=fast sigma=20 engine=scalar", inside->in);
  inside->unknown = status_of_pixel ("model=best sigma=20 engine=scalar", inside->in);
}

/* Thread A is in a run and prepares nodes from its progress function; thread B opens a model on the same engine.  A slow
 * one, so that progress is shown inside of a run. */
static void
test_open_while_another_runs (void)
{
  Inside  inside = { .settings = "model=balanced sigma=20 engine=scalar",
                     .in       = picture ("R'G'B' float", 0, 0, 120, 90, 60) };
  Run     run    = run_new ("zenith:denoise", "model=fast sigma=20 engine=scalar", inside.in);
  gchar  *status, *other;
  gfloat *pixels;

  g_signal_connect (run.op, "progress", G_CALLBACK (ask_inside), &inside);
  pixels = run_pixels (&run, &run.box);
  status = run_status (&run);
  CHECK (inside.opener, "no progress was shown");
  other = g_thread_join (inside.opener);
  CHECK (! *status, "the run: '%s'", status);
  CHECK (! *other, "the other thread: '%s'", other);
  CHECK (strstr (inside.known, "busy"), "an open model inside of the run: '%s'", inside.known);
  CHECK (strstr (inside.unknown, "busy"), "another model inside of the run: '%s'", inside.unknown);
  g_free (other);
  g_free (status);
  g_free (inside.known);
  g_free (inside.unknown);
  g_free (pixels);
  run_free (&run);

  status = status_of_pixel ("model=best sigma=20", inside.in);
  CHECK (! *status, "afterwards: '%s'", status);
  g_free (status);
  g_object_unref (inside.in);
}

/* Eight threads want the same model, which none has opened yet. */
static void
test_one_model_for_many (void)
{
  GThread *thread[8];
  Inside   inside = { .settings = "model=balanced sigma=20 precision=int8",
                      .in       = picture ("R'G'B' float", 0, 0, 60, 40, 61) };

  for (gint i = 0; i < 8; i++)
    thread[i] = g_thread_new ("many", open_another, &inside);
  for (gint i = 0; i < 8; i++)
    {
      gchar *status = g_thread_join (thread[i]);

      CHECK (! *status, "thread %d: '%s'", i, status);
      g_free (status);
    }
  g_object_unref (inside.in);
}

int
main (int argc, char **argv)
{
  signal (SIGALRM, hangs);
  alarm (TOO_LONG);
  if (! ops_begin (&argc, &argv))
    return 1;
  g_setenv ("ZENITH_MODELS", SOURCE_DIR "/models", TRUE);

  RUN (test_one_model_for_many);
  RUN (test_open_while_another_runs);

  return ops_end ();
}
