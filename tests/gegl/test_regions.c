/* SPDX-License-Identifier: MIT */
/* test_regions.c - any region, tile or thread gives the same pixels; progress,
 * cancelling, memory.
 *
 *   test_regions              all tests
 *   test_regions --regions    one part of them, run by the above with ZENITH_CACHE=0
 *   test_regions --canvas     ..., with little memory
 */

#include <sys/resource.h>

#include "ops.h"

/* ---- regions ----------------------------------------------------------- */

/* The tolerance between two results of one picture.  The engine promises 1e-6 whatever region
 * is computed; where it uses that, a kept change is rounded to another step. */
static gdouble
tolerance (const gfloat *result, GeglBuffer *in, const GeglRectangle *box)
{
  gfloat       *was  = pixels_of (in, box, "R'G'B'A float");
  const gdouble most = difference (result, was, (gsize) box->width * box->height * 4);

  g_free (was);

  return 1e-6 + 2.0 * most / 32767;
}

/* Run with ZENITH_CACHE=0: each region is computed for itself. */
static void
test_regions_without_a_cache (void)
{
  GeglBuffer *in   = picture ("R'G'B'A u8", 11, 7, 701, 631, 19);
  GRand      *rand = g_rand_new_with_seed (20);

  for (guint j = 0; j < N_FILTERS; j++)
    {
      GeglRectangle box;
      gfloat       *whole = apply (filters[j].name, filters[j].settings, in, NULL, &box);

      for (gint i = 0; i < 3; i++)
        {
          GeglRectangle r;
          const gdouble most = region_difference (&r, rand, 350, filters[j].name,
                                                  filters[j].settings, in, whole, &box);

          CHECK (most < tolerance (whole, in, &box), "%s %s: %d,%d %dx%d is %g off",
                 filters[j].name, filters[j].settings, r.x, r.y, r.width, r.height, most);
        }
      g_free (whole);
    }
  g_rand_free (rand);
  g_object_unref (in);
}

static void
test_regions_are_parts_of_the_whole (void)
{
  CHECK_SELF ("--regions", "ZENITH_CACHE", "0");
}

static void
test_a_brush_stroke_shows (void)
{
  static const gfloat red[4] = { 1.0f, 0.0f, 0.0f, 1.0f };

  for (guint j = 0; j < N_FILTERS; j++)
    {
      GeglBuffer *in  = picture ("R'G'B'A float", 0, 0, 700, 200, 21);
      Run         run = run_new (filters[j].name, filters[j].settings, in);
      gfloat     *before, *after, *fresh;

      before = run_pixels (&run, &run.box);
      for (gint i = 0; i < 20; i++)
        gegl_buffer_set (in, GEGL_RECTANGLE (570 + i, 100, 1, 1), 0, babl_format ("R'G'B'A float"),
                         red, GEGL_AUTO_ROWSTRIDE);
      after = run_pixels (&run, &run.box);
      fresh = apply (filters[j].name, filters[j].settings, in, NULL, NULL);
      CHECK (memcmp (before, after, 700 * 200 * 16), "%s: nothing changed", filters[j].name);
      CHECK (! memcmp (fresh, after, 700 * 200 * 16), "%s: %g off", filters[j].name,
             difference (fresh, after, 700 * 200 * 4));
      g_free (before);
      g_free (after);
      g_free (fresh);
      run_free (&run);
      g_object_unref (in);
    }
}

/* ---- threads, progress, cancelling ------------------------------------- */

static gpointer
thread_run (gpointer data)
{
  const guint j   = GPOINTER_TO_UINT (data) % N_FILTERS;
  GeglBuffer *in  = picture ("R'G'B'A u8", 0, 0, 200, 150, 25 + GPOINTER_TO_UINT (data) % 2);
  gfloat     *out = apply (filters[j].name, filters[j].settings, in, NULL, NULL);

  g_object_unref (in);

  return out;
}

static void
test_threads (void)
{
  enum
  {
    N = 12
  };
  GThread *threads[N];

  for (guint i = 0; i < N; i++)
    threads[i] = g_thread_new ("zenith-test", thread_run, GUINT_TO_POINTER (i / 2));

  for (guint i = 0; i < N; i++)
    {
      gfloat *got  = g_thread_join (threads[i]);
      gfloat *want = thread_run (GUINT_TO_POINTER (i / 2));

      CHECK (! memcmp (got, want, 200 * 150 * 16), "thread %u differs", i);
      g_free (got);
      g_free (want);
    }
}

typedef struct
{
  GeglNode *node;
  gint      calls, backwards;
  gdouble   first, last;
  gdouble   most; /* before the bar was closed */
  gboolean  cancel;
  gdouble   cancel_at; /* ... when so much is done */
} Watch;

static void
on_progress (GeglNode *node, gdouble value, gpointer data)
{
  Watch *watch = data;

  (void) node;
  if (! watch->calls++)
    watch->first = value;
  else if (value < watch->last)
    watch->backwards++;
  watch->last = value;
  if (value < 1.0)
    watch->most = value;
  if (watch->cancel && value >= watch->cancel_at)
    g_object_set_data (G_OBJECT (watch->node), "zenith-cancel", GINT_TO_POINTER (TRUE));
}

static void
test_progress_and_cancelling (void)
{
  for (guint j = 1; j < N_FILTERS; j++)
    for (gint cancel = 0; cancel < 2; cancel++)
      {
        GeglBuffer *in    = picture ("R'G'B'A float", 0, 0, 1200, 300, 30 + j * 2 + (guint) cancel);
        Run         run   = run_new (filters[j].name, filters[j].settings, in);
        Watch       watch = { .node = run.op, .cancel = cancel };
        gfloat     *data, *want;
        gchar      *status;

        g_signal_connect (run.op, "progress", G_CALLBACK (on_progress), &watch);
        data   = run_pixels (&run, &run.box);
        status = run_status (&run);
        if (cancel)
          {
            want = pixels_of (in, &run.box, "R'G'B'A float");
            CHECK (strstr (status, "ancel"), "%s: the status is '%s'", filters[j].name, status);
            CHECK (! memcmp (data, want, 1200 * 300 * 16), "%s: pixels were lost", filters[j].name);
            g_free (want);
          }
        else
          {
            CHECK (watch.calls > 2 && watch.first == 0.0 && watch.last == 1.0 && ! watch.backwards,
                   "%s: %d calls, from %g to %g, %d backwards", filters[j].name, watch.calls,
                   watch.first, watch.last, watch.backwards);
          }
        g_free (status);
        g_free (data);
        run_free (&run);
        g_object_unref (in);
      }
}

/* In one tile, too: the bar moves, and a cancelled run ends before the tile does. */
static void
test_cancelling_answers_inside_a_tile (void)
{
  GeglBuffer *in     = picture ("R'G'B'A u8", 0, 0, 700, 500, 50);
  Run         run    = run_new ("zenith:denoise", "model=fast sigma=17", in);
  Watch       watch  = { .node = run.op, .cancel = TRUE, .cancel_at = 0.3 };
  gfloat     *got    = NULL, *want;
  gchar      *status = NULL;

  g_signal_connect (run.op, "progress", G_CALLBACK (on_progress), &watch);
  got    = run_pixels (&run, &run.box);
  want   = pixels_of (in, &run.box, "R'G'B'A float");
  status = run_status (&run);
  CHECK (strstr (status, "ancel"), "the status is '%s'", status);
  CHECK (watch.calls > 3 && watch.first == 0.0 && watch.most < 0.6, "%d calls, up to %g",
         watch.calls, watch.most);
  CHECK (! memcmp (got, want, 700 * 500 * 16), "pixels were lost");
  g_free (status);
  g_free (got);
  g_free (want);

  /* a kept result is there at once: no bar for that */
  g_object_set_data (G_OBJECT (run.op), "zenith-cancel", NULL);
  watch = (Watch){ .node = run.op };
  set_properties (run.op, "strength=0.9");
  g_free (run_pixels (&run, &run.box));
  CHECK (watch.calls > 3, "no bar while the network ran");
  watch = (Watch){ .node = run.op };
  set_properties (run.op, "strength=0.8");
  g_free (run_pixels (&run, &run.box));
  CHECK (! watch.calls, "a bar that only flickers");
  run_free (&run);
  g_object_unref (in);
}

/* A preview of 310 pixels computes about that, wherever it lies; what was computed for it
 * is not computed again, and the picture is the same. */
static void
previews (const gchar *settings)
{
  static const gint place[][2] = { { 20, 20 }, { 700, 690 }, { 1180, 100 } };
  GeglBuffer       *in         = picture ("R'G'B' u8", 0, 0, 1500, 1100, 51);
  Run               run        = run_new ("zenith:denoise", settings, in);
  gfloat           *part[3], *whole;
  guint64           before;
  gdouble           most = 0.0;

  if (! ops_network_pixels)
    SKIP ("the module does not count its pixels");

  for (gint i = 0; i < 3; i++)
    {
      const guint runs = ops_network_runs ();

      before  = ops_network_pixels ();
      part[i] = run_pixels (&run, GEGL_RECTANGLE (place[i][0], place[i][1], 310, 310));
      CHECK (ops_network_runs () - runs == 1 && ops_network_pixels () - before <= 480 * 480,
             "at %d,%d: %" G_GUINT64_FORMAT " pixels in %u runs", place[i][0], place[i][1],
             ops_network_pixels () - before, ops_network_runs () - runs);
    }

  /* a step to the side: the new strip alone */
  before = ops_network_pixels ();
  g_free (run_pixels (&run, GEGL_RECTANGLE (800, 690, 310, 310)));
  CHECK (ops_network_pixels () - before <= 200 * 480, "%" G_GUINT64_FORMAT " pixels for a strip",
         ops_network_pixels () - before);

  whole = run_pixels (&run, &run.box);
  for (gint i = 0; i < 3; i++)
    {
      most = fmax (most,
                   part_difference (part[i], GEGL_RECTANGLE (place[i][0], place[i][1], 310, 310),
                                    whole, &run.box));
      g_free (part[i]);
    }
  CHECK (most < tolerance (whole, in, &run.box), "%g off the whole", most);
  g_free (whole);
  run_free (&run);
  g_object_unref (in);
}

static void
test_previews_compute_what_they_show (void)
{
  previews ("model=fast sigma=18");
}

/* The level is that of the place, whatever region is asked for. */
static void
test_previews_that_measure_the_noise (void)
{
  previews ("model=fast");
}

/* Ten tiles, cancelled after about three: no other one is begun. */
static void
test_cancelling_answers_within_a_tile (void)
{
  GeglBuffer *in    = picture ("R'G'B'A u8", 0, 0, 2400, 900, 43);
  Run         run   = run_new ("zenith:denoise", "model=fast sigma=17", in);
  Watch       watch = { .node = run.op, .cancel = TRUE, .cancel_at = 0.33 };
  gfloat     *got, *want;
  gchar      *status;
  guint       before;

  if (! ops_network_runs)
    SKIP ("the module does not count its runs");

  before = ops_network_runs ();
  g_signal_connect (run.op, "progress", G_CALLBACK (on_progress), &watch);
  got    = run_pixels (&run, &run.box);
  want   = pixels_of (in, &run.box, "R'G'B'A float");
  status = run_status (&run);
  CHECK (strstr (status, "ancel"), "the status is '%s'", status);
  CHECK (ops_network_runs () - before <= 4 && watch.most < 0.5 && watch.last == 1.0,
         "the network ran %u times, up to %g, then %g", ops_network_runs () - before, watch.most,
         watch.last);
  CHECK (! memcmp (got, want, 2400 * 900 * 16), "pixels were lost");
  g_free (status);
  g_free (got);
  g_free (want);
  run_free (&run);
  g_object_unref (in);
}

/* ---- a canvas of 100 megapixels ---------------------------------------- */

static glong
peak_mib (void)
{
  struct rusage usage;

  getrusage (RUSAGE_SELF, &usage);

  return usage.ru_maxrss / 1024;
}

/* In a process of its own.  GEGL may keep 128 MiB of tiles, the cache 256, a
 * forward take 640. */
static void
test_canvas_regions (void)
{
  GeglBuffer *in  = gegl_buffer_new (GEGL_RECTANGLE (0, 0, 10000, 10000),
                                     babl_format ("R'G'B'A u8"));
  GeglBuffer *dot = picture ("R'G'B'A u8", 7000, 8000, 300, 300, 40);
  Run         run;
  gchar      *status;

  gegl_buffer_copy (dot, NULL, GEGL_ABYSS_NONE, in, GEGL_RECTANGLE (7000, 8000, 300, 300));
  for (gint i = 0; i < 2; i++)
    {
      run = run_new ("zenith:denoise", i ? "model=fast" : "model=fast sigma=15", in);
      g_free (run_pixels (&run, GEGL_RECTANGLE (6990, 7990, 320, 320)));
      g_free (run_pixels (&run, GEGL_RECTANGLE (0, 0, 64, 64)));
      g_free (run_pixels (&run, GEGL_RECTANGLE (9990, 9990, 10, 10)));
      status = run_status (&run);
      CHECK (! *status, "%s", status);
      g_free (status);
      run_free (&run);
    }
  CHECK (peak_mib () < 1536, "%ld MiB", peak_mib ());
  g_object_unref (in);
  g_object_unref (dot);
}

/* 45 megapixels are more than memory keeps: the rest is in a file, and nothing is
 * computed twice. */
static void
test_canvas_is_kept (void)
{
  GeglBuffer  *in    = gegl_buffer_new (GEGL_RECTANGLE (0, 0, 9000, 5200), babl_format ("Y' u8"));
  GeglBuffer  *dot   = picture ("Y' u8", 4000, 4000, 300, 300, 52);
  const gsize  need  = (gsize) 9000 * 5200 * 6;
  const gchar *way[] = { "", "strength=0.5" };
  gfloat      *got[2];
  guint        before;

  gegl_buffer_copy (dot, NULL, GEGL_ABYSS_NONE, in, GEGL_RECTANGLE (4000, 4000, 300, 300));
  for (gint i = 0; i < 2; i++)
    {
      Run         run = run_new ("zenith:identity", way[i], in);
      GeglBuffer *out = gegl_buffer_new (&run.box, babl_format ("Y' u8"));

      before = ops_network_runs ();
      gegl_node_blit_buffer (run.op, out, &run.box, 0, GEGL_ABYSS_NONE);
      CHECK (! ! (ops_network_runs () - before) == ! i, "round %d: %u runs", i,
             ops_network_runs () - before);
      CHECK (ops_cache_size (FALSE) <= (256 << 20) && ops_cache_size (TRUE) > 0 &&
                 ops_cache_size (FALSE) + ops_cache_size (TRUE) >= need,
             "%" G_GUINT64_FORMAT " MiB held, %" G_GUINT64_FORMAT " in the file",
             ops_cache_size (FALSE) >> 20, ops_cache_size (TRUE) >> 20);
      got[i] = pixels_of (out, GEGL_RECTANGLE (3990, 3990, 320, 320), "R'G'B'A float");
      run_free (&run);
      g_object_unref (out);
    }
  CHECK (! memcmp (got[0], got[1], 320 * 320 * 16), "%g off",
         difference (got[0], got[1], 320 * 320 * 4));
  g_free (got[0]);
  g_free (got[1]);
  g_object_unref (in);
  g_object_unref (dot);
}

static void
test_canvas_whole (void)
{
  GeglBuffer *in = gegl_buffer_new (GEGL_RECTANGLE (0, 0, 10000, 10000), babl_format ("R'G'B' u8"));
  const gchar *ops[][2] = { { "zenith:latent-preview", "model=taesd mode=latent" },
                            { "zenith:denoise", "model=fast sigma=15" } };

  if (! g_getenv ("ZENITH_SLOW"))
    SKIP ("takes minutes and 3 GB of disk; ZENITH_SLOW=1 runs it");

  for (guint i = 0; i < G_N_ELEMENTS (ops); i++)
    {
      Run         run = run_new (ops[i][0], ops[i][1], in);
      GeglBuffer *out = gegl_buffer_new (&run.box, babl_format ("R'G'B' u8"));
      gchar      *status;

      gegl_node_blit_buffer (run.op, out, &run.box, 0, GEGL_ABYSS_NONE);
      status = run_status (&run);
      CHECK (! *status, "%s: %s", ops[i][0], status);
      CHECK (peak_mib () < 1536, "%s: %ld MiB", ops[i][0], peak_mib ());
      printf ("# %s: peak %ld MiB\n", ops[i][0], peak_mib ());
      g_free (status);
      run_free (&run);
      g_object_unref (out);
    }
  g_object_unref (in);
}

/* In a process of its own: latents of 2 and of 12 megapixels, shown as colours.  More than for the small one is taken by
 * GEGL, which may keep 128 MiB of tiles, and by the kept result, 12 bytes a pixel; a tile of what is shown is small. */
static void
test_shown_latents_take_little (void)
{
  const GeglRectangle small = { 0, 0, 1600, 1200 }, large = { 0, 0, 4000, 3000 };
  const gchar        *settings = "model=taef1 mode=latent";
  glong               peak[2];

  for (gint i = 0; i < 2; i++)
    {
      GeglBuffer *in  = gegl_buffer_new (i ? &large : &small, babl_format ("R'G'B' u8"));
      Run         run = run_new ("zenith:latent-preview", settings, in);
      GeglBuffer *out = gegl_buffer_new (&run.box, babl_format ("R'G'B' u8"));
      gchar      *status;

      gegl_node_blit_buffer (run.op, out, &run.box, 0, GEGL_ABYSS_NONE);
      status = run_status (&run);
      CHECK (! *status, "%s", status);
      peak[i] = peak_mib ();
      g_free (status);
      run_free (&run);
      g_object_unref (out);
      g_object_unref (in);
    }
  CHECK (peak[1] - peak[0] < 240, "%ld MiB, after %ld for the small picture", peak[1], peak[0]);
}

static void
test_canvas_too_large_for_a_model_in_one_piece (void)
{
  GeglBuffer *in = gegl_buffer_new (GEGL_RECTANGLE (0, 0, 10000, 10000), babl_format ("R'G'B' u8"));
  Run         run = run_new ("zenith:latent-preview", "model=taef2", in);
  gchar      *status;

  g_setenv ("ZENITH_MEMORY", "1024", TRUE);
  g_free (run_pixels (&run, GEGL_RECTANGLE (0, 0, 8, 8)));
  g_unsetenv ("ZENITH_MEMORY");
  status = run_status (&run);
  CHECK (strstr (status, "MiB"), "the status is '%s'", status);
  CHECK (peak_mib () < 1536, "%ld MiB", peak_mib ());
  g_free (status);
  run_free (&run);
  g_object_unref (in);
}

static void
test_the_memory_of_shown_latents (void)
{
  CHECK_SELF ("--shown", "GEGL_CACHE_SIZE", "128");
}

static void
test_a_canvas_of_100_megapixels (void)
{
  CHECK_SELF ("--canvas", "GEGL_CACHE_SIZE", "128");
}

int
main (int argc, char **argv)
{
  const gchar *part = argc > 1 ? argv[1] : "";

  if (! strcmp (part, "--canvas") || ! strcmp (part, "--shown"))
    g_setenv ("GEGL_CACHE_SIZE", "128", FALSE);
  if (! ops_begin (&argc, &argv))
    return 1;

  if (! strcmp (part, "--regions"))
    {
      RUN (test_regions_without_a_cache);
    }
  else if (! strcmp (part, "--shown"))
    {
      RUN (test_shown_latents_take_little);
    }
  else if (! strcmp (part, "--canvas"))
    {
      RUN (test_canvas_is_kept);
      RUN (test_canvas_regions);
      RUN (test_canvas_too_large_for_a_model_in_one_piece);
      RUN (test_canvas_whole);
    }
  else
    {
      RUN (test_regions_are_parts_of_the_whole);
      RUN (test_a_brush_stroke_shows);
      RUN (test_threads);
      RUN (test_progress_and_cancelling);
      RUN (test_cancelling_answers_within_a_tile);
      RUN (test_cancelling_answers_inside_a_tile);
      RUN (test_previews_compute_what_they_show);
      RUN (test_previews_that_measure_the_noise);
      RUN (test_the_memory_of_shown_latents);
      RUN (test_a_canvas_of_100_megapixels);
    }

  return ops_end ();
}
