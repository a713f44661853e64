/* SPDX-License-Identifier: MIT */
/* main.c - zenith-batch: a filter over files and folders of pictures.
 *
 *   scan.c      which pictures there are
 *   run.c       all of them: threads, report
 *   job.c       one of them, from its file to its result
 *   picture.c, format-*.c   reading and writing files
 *   metadata.c  EXIF, XMP, IPTC
 *   writer.c    writing files to the result folder
 *   journal.c   which settings made which result
 *   budget.c    memory
 *   progress.c  the bar
 *
 * Exit status: 0 all done; 1 some were skipped, and the list says which and why; 2 wrong
 * usage, nothing to do, a filter that does not work, or OUT cannot be written. */

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <gegl.h>

#include "config.h"
#include "metadata.h"
#include "picture.h"
#include "run.h"
#include "zenith-operations.h"
#include "zenith-preset.h"

#define DEFAULT_PRESET "High ISO photo"
#define MAX_JOBS 64
#define MAX_SHARDS 1000000

typedef struct
{
  gchar   *preset, *operation, *model, *shard;
  gchar  **set;
  gchar  **paths;
  gint     jobs;
  gboolean recursive, dry_run, overwrite, in_place, verbose, presets, version;
} Options;

/* ---- settings ------------------------------------------------------------- */

static gboolean
set_word (ZnSettings *settings, const gchar *word, GError **error)
{
  const gchar *equals = strchr (word, '=');
  gchar       *name;
  gboolean     ok;

  if (! equals)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, "'%s' is not like strength=0.8", word);
      return FALSE;
    }
  name = g_strndup (word, equals - word);
  ok   = zn_settings_set_text (settings, name, equals + 1, error);
  g_free (name);

  return ok;
}

/* Whether the filter makes a picture from a picture, or from a prompt. */
static gboolean
suits_batches (const ZnFilter *filter, GError **error)
{
  if (filter->planes)
    g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE,
                 "%s makes or takes latents, no pictures: use gegl", filter->operation);
  else if (filter->from_nothing)
    g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE,
                 "%s takes no picture: use gegl, or zenith face OUT mode=sample",
                 filter->operation);

  return ! filter->planes && ! filter->from_nothing;
}

/* The names of the operations that suit; free them. */
static gchar *
operation_names (void)
{
  GString *names = g_string_new (NULL);

  for (guint i = 0; i < zn_n_filters; i++)
    if (suits_batches (&zn_filters[i], NULL) &&
        ! zn_filters[i].whole_image) /* the same operation on a layer is another entry */
      g_string_append_printf (names, "%s%s", names->len ? ", " : "", zn_filters[i].operation);

  return g_string_free (names, FALSE);
}

/* The filter's values: its defaults or the preset's, then --model and --set. */
static ZnSettings *
make_settings (const Options *options, GPtrArray *presets, GError **error)
{
  ZnSettings *settings = NULL;
  gboolean    ok;

  if (options->operation && options->preset)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE,
                   "--preset and --operation cannot be given together");
    }
  else if (options->operation)
    {
      const ZnFilter *filter = zn_filter_by_operation (options->operation);

      gchar *names = operation_names ();

      if (filter)
        settings = zn_settings_new (filter, error);
      else
        g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, "there is no operation '%s'; there are: %s",
                     options->operation, names);
      g_free (names);
    }
  else
    {
      const ZnPreset *preset = zn_presets_find (
          presets, options->preset ? options->preset : DEFAULT_PRESET, error);

      if (preset)
        settings = zn_preset_settings (preset, error);
    }

  ok = settings && suits_batches (settings->filter, error) &&
       (! options->model || zn_settings_set_text (settings, "model", options->model, error));
  for (guint i = 0; ok && options->set && options->set[i]; i++)
    ok = set_word (settings, options->set[i], error);
  if (! ok)
    g_clear_pointer (&settings, zn_settings_free);

  return settings;
}

/* What a result depends on, in one line, except for the engine, which the journal has apart. */
static gchar *
settings_words (const ZnSettings *settings)
{
  GString *words = g_string_new (settings->filter->operation);

  for (guint i = 0; i < settings->n; i++)
    {
      const ZnProperty *p    = &settings->property[i];
      gchar            *text = zn_settings_get_text (settings, i);

      if (strcmp (p->spec->name, "engine") && *text)
        g_string_append_printf (words, " %s=%s", p->spec->name, text);
      g_free (text);
    }

  return g_string_free (words, FALSE);
}

/* The engine that was given, or NULL. */
static gchar *
asked_engine (const ZnSettings *settings)
{
  for (guint i = 0; i < settings->n; i++)
    if (! strcmp (settings->property[i].spec->name, "engine"))
      {
        gchar *text = zn_settings_get_text (settings, i);

        if (strcmp (text, "auto"))
          return text;
        g_free (text);
      }

  return NULL;
}

static void
print_presets (GPtrArray *presets)
{
  for (guint i = 0; i < presets->len; i++)
    {
      const ZnPreset *preset = g_ptr_array_index (presets, i);

      if (preset->broken)
        fprintf (stderr, "zenith-batch: %s\n", preset->broken);
      else
        printf ("%s: %s\n", preset->name, preset->description);
    }
}

/* ---- options -------------------------------------------------------------- */

/* "2/8". */
static gboolean
parse_shard (const gchar *text, ZnRun *run, GError **error)
{
  gchar  *end   = NULL;
  guint64 shard = g_ascii_strtoull (text, &end, 10);
  guint64 n     = end != text && *end == '/' ? g_ascii_strtoull (end + 1, &end, 10) : 0;

  if (! g_ascii_isdigit (*text) || *end || shard < 1 || n > MAX_SHARDS || shard > n)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE,
                   "'--shard %s' makes no sense: the second of eight is 2/8", text);
      return FALSE;
    }
  run->shard    = (guint) shard;
  run->n_shards = (guint) n;

  return TRUE;
}

static gboolean
parse (Options *options, gint *argc, gchar ***argv, GError **error)
{
  const GOptionEntry entries[] = {
    { "preset", 'p', 0, G_OPTION_ARG_STRING, &options->preset,
      "A preset by its name or its file's; without it \"" DEFAULT_PRESET "\"", "NAME" },
    { "operation", 'o', 0, G_OPTION_ARG_STRING, &options->operation,
      "A GEGL operation of Zenith's instead, with its defaults", "OP" },
    { "model", 'm', 0, G_OPTION_ARG_STRING, &options->model, "The same as --set model=M", "M" },
    { "set", 's', 0, G_OPTION_ARG_STRING_ARRAY, &options->set,
      "A property of the operation, after the preset's", "K=V" },
    { "recursive", 'r', 0, G_OPTION_ARG_NONE, &options->recursive, "Also the folders below IN",
      NULL },
    { "jobs", 'j', 0, G_OPTION_ARG_INT, &options->jobs,
      "Pictures in work at a time (3); memory stays bounded", "N" },
    { "shard", 0, 0, G_OPTION_ARG_STRING, &options->shard,
      "Only the I-th of N parts, for several machines", "I/N" },
    { "dry-run", 'n', 0, G_OPTION_ARG_NONE, &options->dry_run,
      "Say what would be done, and write nothing", NULL },
    { "overwrite", 0, 0, G_OPTION_ARG_NONE, &options->overwrite,
      "Replace files in OUT that zenith-batch did not write", NULL },
    { "in-place", 0, 0, G_OPTION_ARG_NONE, &options->in_place, "One picture: OUT may be IN", NULL },
    { "verbose", 'v', 0, G_OPTION_ARG_NONE, &options->verbose, "A line for each picture", NULL },
    { "list-presets", 0, 0, G_OPTION_ARG_NONE, &options->presets, "List the presets and end",
      NULL },
    { "version", 0, 0, G_OPTION_ARG_NONE, &options->version, "Say the version and end", NULL },
    { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options->paths, NULL, NULL },
    { NULL }
  };
  GOptionContext *context = g_option_context_new ("IN... OUT");
  gboolean        ok;

  g_option_context_set_summary (
      context,
      "A neural filter over pictures (PNG, JPEG, TIFF, WebP).  IN are folders and files, OUT is\n"
      "the folder of the results, or for one picture the name of its result.  Stop it and run it\n"
      "again: what is done stays done.  With --operation zenith:z-image, IN are prompts (.txt).");
  g_option_context_set_description (
      context,
      "Exit status: 0 all done; 1 some were skipped, and the list says which and why; 2 wrong\n"
      "usage, nothing to do, a filter that does not work, or OUT cannot be written.");
  g_option_context_add_main_entries (context, entries, NULL);
  ok = g_option_context_parse (context, argc, argv, error);
  g_option_context_free (context);

  return ok;
}

static gboolean
check (Options *options, ZnRun *run, GError **error)
{
  guint n = options->paths ? g_strv_length (options->paths) : 0;

  run->jobs  = options->jobs;
  run->shard = run->n_shards = 1;
  run->dry_run               = options->dry_run;
  run->verbose               = options->verbose;

  if (options->jobs < 1 || options->jobs > MAX_JOBS)
    g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, "--jobs is 1 to %d", MAX_JOBS);
  else if (n < 2)
    g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE,
                 "it needs pictures or folders of them, and a folder for the results: "
                 "zenith-batch IN... OUT (--help says more)");
  else
    return ! options->shard || parse_shard (options->shard, run, error);

  return FALSE;
}

/* ---- IN and OUT ----------------------------------------------------------- */

/* One picture whose result is named: the last path is no folder, and ends like a picture. */
static gboolean
is_single (gchar **in, const gchar *out, const struct stat *out_info)
{
  struct stat info;

  return ! in[1] && ! stat (in[0], &info) && ! S_ISDIR (info.st_mode) &&
         ! (out_info->st_mode && S_ISDIR (out_info->st_mode)) && zn_format_by_name (out);
}

/* Sets scan, folder and journal. */
static gboolean
open_paths (ZnBatch *batch, const Options *options, const ZnRun *run, GError **error)
{
  const guint n     = g_strv_length (options->paths) - 1;
  gchar     **in    = g_strdupv (options->paths);
  gchar      *out   = in[n];
  gchar      *shard = NULL;
  gboolean    ok;
  struct stat info = {
    0,
  };

  in[n] = NULL;
  if (stat (out, &info))
    info.st_mode = 0;

  if (is_single (in, out, &info))
    {
      gchar      *folder = g_path_get_dirname (out);
      ZnInput    *input;
      struct stat from;

      ok = zn_scan (&batch->scan, in, batch->prompts, FALSE,
                    &(struct stat){
                        0,
                    },
                    error);
      if (ok)
        {
          input = g_ptr_array_index (batch->scan.inputs, 0);
          g_free (input->name);
          input->name = g_path_get_basename (out);
          g_clear_pointer (&input->why, g_free);
        }
      if (ok && info.st_mode && ! stat (in[0], &from) && from.st_dev == info.st_dev &&
          from.st_ino == info.st_ino && ! options->in_place)
        {
          g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE,
                       "the result would replace the picture itself; --in-place allows it");
          ok = FALSE;
        }
      ok              = ok && zn_folder_open (&batch->folder, folder, FALSE, error);
      batch->in_place = options->in_place;
      g_free (folder);
    }
  else if (options->in_place)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE,
                   "--in-place is for one picture and the name of its result");
      ok = FALSE;
    }
  else
    {
      if (run->n_shards > 1)
        shard = g_strdup_printf ("%u-of-%u", run->shard, run->n_shards);
      ok = zn_folder_open (&batch->folder, out, FALSE, error) &&
           zn_scan (&batch->scan, in, batch->prompts, options->recursive, &info, error);
      if (ok)
        batch->journal = zn_journal_read (&batch->folder, shard);
      g_free (shard);
    }
  g_free (out);
  g_strfreev (in);

  return ok;
}

/* ---- main ----------------------------------------------------------------- */

static void
be_silent (const gchar *text)
{
}

static gpointer
pass_through (gpointer lock)
{
  g_mutex_lock (lock);
  g_mutex_unlock (lock);

  return NULL;
}

/* GEGL ends the process when it cannot have a thread for each processor.  Where they are not to be
 * had it gets none. */
static void
spare_threads (void)
{
  const guint most = MIN (g_get_num_processors (), MAX_JOBS) - 1;
  GThread    *thread[MAX_JOBS];
  GMutex      lock;
  guint       n = 0;

  g_mutex_init (&lock);
  g_mutex_lock (&lock); /* so that all are there at once */
  while (n < most && (thread[n] = g_thread_try_new ("probe", pass_through, &lock, NULL)))
    n++;
  g_mutex_unlock (&lock);
  for (guint i = 0; i < n; i++)
    g_thread_join (thread[i]);
  g_mutex_clear (&lock);
  if (n < most)
    g_setenv ("GEGL_THREADS", "1", TRUE);
}

static void
init_gegl (const ZnBatch *batch)
{
  spare_threads ();
  gegl_init (NULL, NULL);
  zn_operations_load ();
  /* GEGL would write each finished picture to its swap file too, and if that cannot grow, lose
   * pixels with only a message. */
  g_object_set (gegl_config (), "swap", NULL, /* memory */
                "tile-cache-size", (guint64) batch->budget.limit, "use-opencl", FALSE, NULL);
  g_set_printerr_handler (be_silent); /* what operations say is in the report */
}

static gint
run (Options *options, GError **error)
{
  ZnBatch batch = { .folder = { .fd = -1 } };
  ZnRun   how   = {
        0,
  };
  ZnSettings *settings = NULL;
  GPtrArray  *presets  = NULL;
  gint        status   = 2;

  zn_budget_init (&batch.budget);
  g_rw_lock_init (&batch.writing);
  if (options->presets || check (options, &how, error))
    {
      zn_metadata_init ();
      init_gegl (&batch);
      presets = zn_presets_load ();
      if (options->presets)
        {
          print_presets (presets);
          status = 0;
        }
      else if ((settings = make_settings (options, presets, error)))
        {
          batch.settings = settings;
          batch.prompts  = settings->filter->makes_layer &&
                          ! zn_settings_begins_with_layer (settings);
          batch.words     = settings_words (settings);
          batch.engine    = asked_engine (settings);
          batch.overwrite = options->overwrite;
          if (open_paths (&batch, options, &how, error))
            status = zn_run (&batch, &how);
        }
      zn_journal_free (batch.journal);
      zn_folder_close (&batch.folder);
      zn_scan_clear (&batch.scan);
      zn_settings_free (settings);
      g_ptr_array_unref (presets);
      g_free (batch.words);
      g_free (batch.engine);
      gegl_exit ();
    }

  return status;
}

int
main (int argc, char **argv)
{
  Options options = { .jobs = 3 };
  GError *error   = NULL;
  gint    status  = 2;

  setlocale (LC_CTYPE, ""); /* numbers stay with a point */
  g_set_prgname ("zenith-batch");

  if (parse (&options, &argc, &argv, &error))
    {
      if (options.version)
        {
          printf ("zenith-batch %s\n", PACKAGE_VERSION);
          return 0;
        }
      status = run (&options, &error);
    }
  if (error)
    {
      fprintf (stderr, "zenith-batch: %s\n", error->message);
      g_error_free (error);
    }
  g_free (options.preset);
  g_free (options.operation);
  g_free (options.model);
  g_free (options.shard);
  g_strfreev (options.set);
  g_strfreev (options.paths);

  return status;
}
