/* SPDX-License-Identifier: MIT */
/* run.c - all pictures: which are to be done, threads, the report. */

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "progress.h"
#include "run.h"

#define TICK (100 * G_TIME_SPAN_MILLISECOND)
#define GRACE (500 * G_TIME_SPAN_MILLISECOND) /* for the threads to end by themselves */
#define TRIES 20      /* of a fiftieth of a second, for a result to be written */
#define OTHERS_MAX 10 /* files that are left out are named */

typedef struct
{
  ZnBatch     *batch;
  const ZnRun *options;
  GPtrArray   *todo;     /* ZnInput, owned by the scan */
  GPtrArray   *skipped;  /* lines of the report */
  guint        n_before; /* done in an earlier run */
  GHashTable  *by;       /* "avx2 fp32" to the number of results that it computed, now or before */

  GMutex lock; /* guards the rest, and skipped */
  GCond  changed;
  guint  next; /* in todo */
  guint  n_done;
  guint  n_failed;
  guint  n_working; /* threads that have not ended */
  gchar *full;      /* why the run was given up */
} Run;

static volatile sig_atomic_t caught;

static void
on_signal (int number)
{
  caught = number;
}

/* ---- the report ----------------------------------------------------------- */

static void
skip (Run *run, const gchar *name, const gchar *why)
{
  gchar *shown = zn_shown (name);

  g_ptr_array_add (run->skipped, g_strdup_printf ("%s: %s", shown, why));
  g_free (shown);
}

static gint
compare_lines (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

static void
print_skipped (Run *run)
{
  if (! run->skipped->len)
    return;

  g_ptr_array_sort (run->skipped, compare_lines);
  printf ("skipped:\n");
  for (guint i = 0; i < run->skipped->len; i++)
    printf ("  %s\n", (const gchar *) g_ptr_array_index (run->skipped, i));
}

static void
count_by (Run *run, const gchar *computed_by)
{
  const guint n = GPOINTER_TO_UINT (g_hash_table_lookup (run->by, computed_by));

  if (*computed_by)
    g_hash_table_insert (run->by, g_strdup (computed_by), GUINT_TO_POINTER (n + 1));
}

/* Engines and precisions round differently. */
static void
print_by (Run *run)
{
  GList *names = g_list_sort (g_hash_table_get_keys (run->by), (GCompareFunc) strcmp);

  if (g_hash_table_size (run->by) > 1)
    {
      printf ("computed by different engines, which round differently:");
      for (GList *l = names; l; l = l->next)
        printf ("%s %u by %s", l == names ? "" : ",",
                GPOINTER_TO_UINT (g_hash_table_lookup (run->by, l->data)), (gchar *) l->data);
      printf ("; with --set engine=NAME those of another are computed again\n");
    }
  g_list_free (names);
}

/* ---- what is to be done --------------------------------------------------- */

static gboolean
plan (Run *run)
{
  const ZnRun *options = run->options;
  ZnScan      *scan    = &run->batch->scan;
  guint        mine    = 0;

  for (guint i = 0; i < scan->inputs->len; i++)
    {
      ZnInput     *input = g_ptr_array_index (scan->inputs, i);
      GError      *error = NULL;
      ZnResult     state;
      const gchar *computed_by;

      if (zn_scan_shard (input->name, options->n_shards) != options->shard)
        continue;
      mine++;

      if (! zn_job_look (run->batch, input, &state, &computed_by, &error))
        {
          skip (run, input->said, error->message);
          g_error_free (error);
          continue;
        }
      if (state == ZN_RESULT_DONE)
        {
          run->n_before++;
          count_by (run, computed_by);
        }
      else
        {
          g_ptr_array_add (run->todo, input);
        }

      if (options->dry_run)
        {
          gchar *shown = zn_shown (input->said);

          printf ("%s %s\n",
                  state == ZN_RESULT_DONE   ? "done before:"
                  : state == ZN_RESULT_NONE ? "would do:"
                                            : "would do again:",
                  shown);
          g_free (shown);
        }
    }

  printf ("%u picture%s", mine, mine == 1 ? "" : "s");
  if (options->n_shards > 1)
    printf (" (of %u) in shard %u of %u", scan->inputs->len, options->shard, options->n_shards);
  printf (", %u of them done before", run->n_before);
  if (scan->n_folders)
    printf ("; %u subfolder%s not entered", scan->n_folders,
            scan->n_folders == 1 ? " is" : "s are");
  if (scan->others->len)
    printf ("; %u other file%s left out", scan->others->len,
            scan->others->len == 1 ? " is" : "s are");
  printf ("\n");
  for (guint i = 0; i < scan->others->len && i < OTHERS_MAX; i++)
    {
      gchar *shown = zn_shown (g_ptr_array_index (scan->others, i));

      printf ("left out: %s\n", shown);
      g_free (shown);
    }
  if (scan->others->len > OTHERS_MAX)
    printf ("left out: %u more\n", scan->others->len - OTHERS_MAX);
  fflush (stdout);

  return scan->inputs->len > 0;
}

/* ---- threads -------------------------------------------------------------- */

/* An error that the next picture would have, too: the run is given up. */
static gboolean
is_final (const GError *error)
{
  return g_error_matches (error, G_FILE_ERROR, G_FILE_ERROR_NOSPC) ||
         g_error_matches (error, G_FILE_ERROR, G_FILE_ERROR_ROFS);
}

/* Called with the lock. */
static void
note (Run *run, const ZnInput *input, const GError *error, gdouble seconds)
{
  gchar *shown = zn_shown (input->said);

  if (! error)
    {
      run->n_done++;
      if (run->options->verbose)
        fprintf (stderr, "%s: %.2f s\n", shown, seconds);
    }
  else if (! g_error_matches (error, ZN_ERROR, ZN_ERROR_CANCELLED))
    {
      run->n_failed++;
      skip (run, input->said, error->message);
      if (is_final (error) && ! run->full)
        {
          run->full = g_strdup (error->message);
          zn_budget_stop (&run->batch->budget);
        }
    }
  g_free (shown);
}

static gpointer
work (gpointer data)
{
  Run *run = data;

  g_mutex_lock (&run->lock);
  while (run->next < run->todo->len && ! zn_budget_stopped (&run->batch->budget))
    {
      const ZnInput *input = g_ptr_array_index (run->todo, run->next++);
      GError        *error = NULL;
      gint64         start = g_get_monotonic_time ();
      gchar         *computed_by;

      g_mutex_unlock (&run->lock);
      zn_job_run (run->batch, input, &computed_by, &error);
      g_mutex_lock (&run->lock);

      if (! error)
        count_by (run, computed_by);
      g_free (computed_by);
      note (run, input, error, (g_get_monotonic_time () - start) / 1e6);
      g_clear_error (&error);
      g_cond_signal (&run->changed);
    }
  run->n_working--;
  g_cond_signal (&run->changed);
  g_mutex_unlock (&run->lock);

  return NULL;
}

/* As many threads as there can be, at most one for each picture; 0 and an error message. */
static guint
start_threads (Run *run, GThread **threads, guint most, GError **error)
{
  GError *failed = NULL;

  g_mutex_lock (&run->lock); /* they wait for it */
  while (run->n_working < most &&
         (threads[run->n_working] = g_thread_try_new ("picture", work, run, &failed)))
    run->n_working++;
  most = run->n_working;
  g_mutex_unlock (&run->lock);

  if (! most)
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "no thread can be started: %s", failed->message);
  g_clear_error (&failed);

  return most;
}

/* Waits for all, or after a signal for a moment: what reads a file cannot always be interrupted.
 * Returns whether all have ended; else with the lock, so that they change nothing any more. */
static gboolean
wait_for_all (Run *run, ZnProgressBar *bar)
{
  gint64 since = 0; /* when the signal came */

  g_mutex_lock (&run->lock);
  while (run->n_working)
    {
      const gint64 now = g_get_monotonic_time ();

      if (caught && ! since)
        {
          since = now;
          zn_budget_stop (&run->batch->budget);
        }
      if (since && now - since > GRACE)
        return FALSE;
      zn_progress_show (bar, run->n_done + run->n_failed, run->n_failed,
                        g_atomic_int_get (&run->batch->part) / 1000.0);
      g_cond_wait_until (&run->changed, &run->lock, now + TICK);
    }
  g_mutex_unlock (&run->lock);

  return TRUE;
}

static void
catch_signals (void)
{
  static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
  struct sigaction action    = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND };

  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    sigaction (numbers[i], &action, NULL);
}

static gint
finish (Run *run, gdouble seconds)
{
  const guint left = run->todo->len - run->n_done - run->n_failed;
  gchar      *rate = zn_rate (run->n_done, seconds);
  gchar      *took = zn_duration (seconds);

  print_skipped (run);
  print_by (run);
  if (left)
    {
      gchar *text = g_strdup_printf ("%u picture%s not done: %s", left,
                                     left == 1 ? " was" : "s were",
                                     run->full ? run->full : "stopped; run it again to go on");

      printf ("%s\n", text);
      g_free (text);
    }
  printf ("%u done, %u done before, %u skipped, in %s", run->n_done, run->n_before,
          run->skipped->len, took);
  if (run->n_done)
    printf (" (%s)", rate);
  printf ("\n");
  fflush (stdout);
  g_free (rate);
  g_free (took);

  return run->skipped->len || left ? 1 : 0;
}

/* FALSE and an error message if nothing can be done. */
static gboolean
work_all (Run *run, gint64 start, GError **error)
{
  GThread     **threads = g_new0 (GThread *, run->options->jobs);
  ZnProgressBar bar;
  guint         n;

  catch_signals ();
  n = start_threads (run, threads, MIN (run->options->jobs, run->todo->len), error);
  if (n)
    {
      zn_progress_begin (&bar, run->todo->len);
      if (! wait_for_all (run, &bar))
        {
          /* A thread is busy with a file.  A result gets its name only when it is whole, so even one
           * that cannot be waited for is not half. */
          for (gint i = 0; i < TRIES && ! g_rw_lock_writer_trylock (&run->batch->writing); i++)
            g_usleep (G_USEC_PER_SEC / 50);
          zn_progress_end (&bar);
          finish (run, (g_get_monotonic_time () - start) / 1e6);
          raise (caught); /* whose handler is the default again */
        }
      for (guint i = 0; i < n; i++)
        g_thread_join (threads[i]);
      zn_progress_end (&bar);
    }
  g_free (threads);

  return n > 0;
}

/* ---- all of it ------------------------------------------------------------ */

/* Makes OUT, opens the journal, tries the filter. */
static gboolean
prepare (Run *run, GError **error)
{
  ZnBatch *batch = run->batch;

  if (batch->folder.fd < 0)
    {
      gchar *path = g_strdup (batch->folder.path);

      zn_folder_close (&batch->folder);
      if (! zn_folder_open (&batch->folder, path, TRUE, error))
        {
          g_free (path);
          return FALSE;
        }
      g_free (path);
    }
  if (batch->journal && ! zn_journal_open (batch->journal, error))
    return FALSE;

  return zn_job_try (batch, error);
}

gint
zn_run (ZnBatch *batch, const ZnRun *options)
{
  Run     run    = { .batch   = batch,
                     .options = options,
                     .todo    = g_ptr_array_new (),
                     .skipped = g_ptr_array_new_with_free_func (g_free),
                     .by      = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL) };
  GError *error  = NULL;
  gint    status = 2;
  gint64  start  = g_get_monotonic_time ();

  g_mutex_init (&run.lock);
  g_cond_init (&run.changed);
  signal (SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error of write() */

  if (! plan (&run))
    {
      fprintf (stderr, "zenith-batch: there are no pictures (png, jpg, tif, webp)\n");
    }
  else if (options->dry_run)
    {
      print_skipped (&run);
      status = run.skipped->len ? 1 : 0;
    }
  else if (run.todo->len && (! prepare (&run, &error) || ! work_all (&run, start, &error)))
    {
      fprintf (stderr, "zenith-batch: %s\n", error->message);
      g_clear_error (&error);
    }
  else
    {
      status = finish (&run, (g_get_monotonic_time () - start) / 1e6);
    }
  g_ptr_array_unref (run.todo);
  g_ptr_array_unref (run.skipped);
  g_hash_table_unref (run.by);
  g_free (run.full);

  if (caught)
    raise (caught); /* whose handler is the default again */

  return status;
}
