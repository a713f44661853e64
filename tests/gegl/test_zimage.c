/* SPDX-License-Identifier: MIT */
/* test_zimage.c - zenith:z-image with the tiny model of tools/make_tiny_zimage.py: from a
 * prompt, from a picture, inside of a mask; estimates, cancelling, and what is missing. */

#include <glib/gstdio.h>
#include <unistd.h>

#include "ops.h"

#define OPERATION "zenith:z-image"

/* settings of one word each beside the prompt; mask: NULL leaves the second input alone. */
static Run
new_run (const gchar *prompt, const gchar *settings, GeglBuffer *input, GeglBuffer *mask)
{
  Run run = run_new (OPERATION, settings, input);

  gegl_node_set (run.op, "prompt", prompt, NULL);
  if (mask)
    run_add (&run, mask);
  run.box = gegl_node_get_bounding_box (run.op);

  return run;
}

static gfloat *
make (const gchar *prompt, const gchar *settings, GeglBuffer *input, GeglBuffer *mask)
{
  Run     run    = new_run (prompt, settings, input, mask);
  gfloat *got    = run_pixels (&run, &run.box);
  gchar  *status = run_status (&run);

  if (*status)
    test_note (false, "%s", status);
  g_free (status);
  run_free (&run);

  return got;
}

/* A rectangle of a canvas, as GIMP's selection is one. */
static GeglBuffer *
new_mask (const GeglRectangle *canvas, const GeglRectangle *selected)
{
  GeglBuffer *mask  = gegl_buffer_new (canvas, babl_format ("Y float"));
  GeglColor  *white = gegl_color_new ("white");

  gegl_buffer_set_color (mask, selected, white);
  g_object_unref (white);

  return mask;
}

static void
test_a_prompt_makes_a_picture (void)
{
  static const gchar *const other[][2] = {
    { "a red fox", "width=100 height=70 seed=3 steps=4" },  /* the same once more */
    { "a blue fox", "width=100 height=70 seed=3 steps=4" }, /* the prompt counts */
    { "a red fox", "width=100 height=70 seed=4 steps=4" },  /* and all else */
    { "a red fox", "width=100 height=70 seed=3 steps=3" },
  };
  Run         run    = new_run (other[0][0], other[0][1], NULL, NULL);
  gfloat     *got    = run_pixels (&run, &run.box);
  gchar      *status = run_status (&run);
  gchar      *memory = run_text (&run, "memory");
  const gsize len    = 100 * 70 * 4;

  CHECK (! *status, "%s", status);
  CHECK (strstr (memory, "MiB of weights"), "the memory is '%s'", memory);
  CHECK (run.box.width == 100 && run.box.height == 70, "the result has %dx%d", run.box.width,
         run.box.height);
  CHECK (all_finite (got, len) && got[3] == 1.0f && got[0] != got[4 * 50], "it is empty");
  for (guint i = 0; i < G_N_ELEMENTS (other); i++)
    {
      gfloat *again = make (other[i][0], other[i][1], NULL, NULL);

      CHECK (! memcmp (got, again, len * sizeof (gfloat)) == (i == 0), "picture %u", i);
      g_free (again);
    }
  g_free (memory);
  g_free (status);
  g_free (got);
  run_free (&run);
}

/* One picture on every engine that works here: bf16 weights, so the same to a few levels. */
static void
test_engines_agree (void)
{
  static const gchar *const engines[] = { "scalar", "avx2", "avx512", "neon" };
  gfloat                   *first     = NULL;
  gint                      n         = 0;

  for (guint i = 0; i < G_N_ELEMENTS (engines); i++)
    {
      gchar *settings = g_strdup_printf ("width=64 height=48 seed=1 steps=3 engine=%s", engines[i]);
      Run    run      = new_run ("engines", settings, NULL, NULL);
      gfloat *got     = run_pixels (&run, &run.box);
      gchar  *status  = run_status (&run);

      if (! *status && ! first)
        {
          first = got;
          got   = NULL;
        }
      if (! *status)
        n++;
      if (! *status && got)
        CHECK (difference (first, got, 64 * 48 * 4) < 2e-3, "%s is %g off", engines[i],
               difference (first, got, 64 * 48 * 4));
      g_free (got);
      g_free (status);
      g_free (settings);
      run_free (&run);
    }
  CHECK (n > 0, "no engine made it");
  g_free (first);
}

/* The network is run for a new prompt: text, transformer, decoder; another seed spares the
 * text encoder. */
static void
test_features_are_kept (void)
{
  static const struct
  {
    const gchar *prompt, *settings;
    guint        runs;
  } step[] = { { "kept", "width=64 height=64 seed=1 steps=2", 3 },
               { "kept", "width=64 height=64 seed=1 steps=2", 0 },
               { "kept", "width=64 height=64 seed=2 steps=2", 2 },
               { "kept!", "width=64 height=64 seed=2 steps=2", 3 } };

  if (! ops_network_runs)
    SKIP ("the module does not count its runs");
  for (guint i = 0; i < G_N_ELEMENTS (step); i++)
    {
      const guint before = ops_network_runs ();

      g_free (make (step[i].prompt, step[i].settings, NULL, NULL));
      CHECK (ops_network_runs () - before == step[i].runs, "step %u: %u runs", i,
             ops_network_runs () - before);
    }
}

static gdouble
mean_change (const gfloat *a, const gfloat *b, gsize n)
{
  gdouble sum = 0.0;

  for (gsize i = 0; i < n; i++)
    sum += fabs ((gdouble) a[i] - b[i]);

  return sum / n;
}

/* 0 is the input to the bit; more changes more; alpha stays. */
static void
test_a_picture_changes (void)
{
  static const gchar *const amount[] = { "change=0.3 steps=8 seed=5", "change=1 steps=8 seed=5" };
  GeglBuffer               *in       = picture ("R'G'B'A u8", -9, 14, 90, 75, 70);
  const gsize               len      = 90 * 75 * 4;
  gfloat                   *want     = pixels_of (in, gegl_buffer_get_extent (in), "R'G'B'A float");
  gfloat                   *got      = make ("a cat", "change=0", in, NULL);

  CHECK (! memcmp (got, want, len * sizeof (gfloat)), "change 0 changes it");
  g_free (got);
  for (guint i = 0; i < G_N_ELEMENTS (amount); i++)
    {
      got = make ("a cat", amount[i], in, NULL);
      CHECK (all_finite (got, len) && mean_change (got, want, len) > 0.01, "%s: nothing changed",
             amount[i]);
      for (gsize p = 0; p < len; p += 4)
        {
          CHECK (fabsf (got[p + 3] - want[p + 3]) < BABL_OFF, "the alpha of pixel %" G_GSIZE_FORMAT,
                 p / 4);
          CHECK (want[p + 3] > 0.0f || difference (got + p, want + p, 4) < BABL_OFF,
                 "a hidden pixel changed");
        }
      g_free (got);
    }
  g_free (want);
  g_object_unref (in);
}

/* Only inside, softly; outside the very bits, in 8 bits, 16 bits and floats. */
static void
test_a_mask_bounds_the_change (void)
{
  static const gchar *const formats[] = { "R'G'B'A u8", "R'G'B' u16", "RGB float" };
  const GeglRectangle       canvas    = { 0, 0, 300, 260 };
  const GeglRectangle       selected  = { 80, 60, 90, 70 };
  GeglBuffer               *mask      = new_mask (&canvas, &selected);

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    {
      GeglBuffer *in   = picture (formats[i], 0, 0, 300, 260, 71);
      const Babl *f    = gegl_buffer_get_format (in);
      const gsize size = babl_format_get_bytes_per_pixel (f);
      Run         run  = new_run ("a hat", "seed=2 steps=3 feather=6", in, mask);
      GeglBuffer *out  = gegl_buffer_new (&canvas, f);
      guchar     *a    = (guchar *) pixels_of (in, &canvas, formats[i]), *b;
      gfloat     *old, *new;
      gint        changed = 0;
      gchar      *status;

      gegl_node_blit_buffer (run.op, out, &canvas, 0, GEGL_ABYSS_NONE);
      status = run_status (&run);
      CHECK (! *status, "%s", status);
      b   = (guchar *) pixels_of (out, &canvas, formats[i]);
      old = pixels_of (in, &canvas, "R'G'B'A float");
      new = pixels_of (out, &canvas, "R'G'B'A float");
      for (gint y = 0; y < 260; y++)
        for (gint x = 0; x < 300; x++)
          {
            const gsize    at   = (gsize) y * 300 + x;
            const gint     edge = MIN (MIN (x - 80, 169 - x), MIN (y - 60, 129 - y));
            const gboolean any  = memcmp (a + at * size, b + at * size, size) != 0;

            CHECK (edge >= 0 || ! any, "%s: %d,%d changed", formats[i], x, y);
            changed += any;
            if (edge == 0)
              for (gint c = 0; c < 3; c++)
                CHECK (fabsf (new[at * 4 + c] - old[at * 4 + c]) < 0.1f,
                       "the edge is hard at %d,%d", x, y);
          }
      CHECK (changed > 90 * 70 / 2, "%d pixels changed", changed);
      g_free (a);
      g_free (b);
      g_free (old);
      g_free (new);
      g_free (status);
      g_object_unref (out);
      g_object_unref (in);
      run_free (&run);
    }
  g_object_unref (mask);
}

/* A mask without a pixel, one elsewhere, and a picture that is larger than what is computed. */
static void
test_other_masks_and_sizes (void)
{
  const GeglRectangle canvas = { 0, 0, 200, 150 };
  GeglBuffer         *in     = picture ("R'G'B' float", 0, 0, 200, 150, 72);
  GeglBuffer         *empty  = new_mask (&canvas, GEGL_RECTANGLE (0, 0, 0, 0));
  GeglBuffer *away = new_mask (GEGL_RECTANGLE (500, 0, 50, 50), GEGL_RECTANGLE (500, 0, 50, 50));
  gfloat     *want = pixels_of (in, &canvas, "R'G'B'A float");
  gfloat     *got  = make ("a hat", "seed=2 steps=2", in, empty);
  const gsize len  = 200 * 150 * 4;

  CHECK (! memcmp (got, want, len * sizeof (gfloat)), "an empty mask changes something");
  g_free (got);
  got = make ("a hat", "seed=2 steps=2", in, away);
  CHECK (! memcmp (got, want, len * sizeof (gfloat)),
         "a mask beside the picture changes something");
  g_free (got);

  /* scaled down and up again: smooth, and all of it */
  got = make ("a hat", "seed=2 steps=2 width=64 height=48", in, NULL);
  CHECK (all_finite (got, len) && got[0] != want[0] && got[len - 4] != want[len - 4],
         "a scaled picture is not covered");
  g_free (got);
  g_free (want);
  g_object_unref (in);
  g_object_unref (empty);
  g_object_unref (away);
}

/* Several seeds side by side, the pictures that each of them makes alone; likewise changes of an input. */
static void
test_several_seeds (void)
{
  GeglBuffer *in = picture ("R'G'B'A u8", 0, 0, 48, 32, 73);

  for (gint changes = 0; changes < 2; changes++)
    {
      gfloat *all = make ("seeds", "width=48 height=32 steps=2 seed=5 n=3 change=0.5",
                          changes ? in : NULL, NULL);

      for (gint i = 0; i < 3; i++)
        {
          gchar  *settings = g_strdup_printf ("width=48 height=32 steps=2 change=0.5 seed=%d",
                                              5 + i);
          gfloat *one      = make ("seeds", settings, changes ? in : NULL, NULL);

          for (gint y = 0; y < 32; y++)
            CHECK (! memcmp (all + (y * 144 + i * 48) * 4, one + y * 48 * 4, 48 * 16),
                   "row %d of picture %d is another one (%d): %g, not %g", y, i, changes,
                   all[(y * 144 + i * 48) * 4], one[y * 48 * 4]);
          g_free (one);
          g_free (settings);
        }
      g_free (all);
    }
  g_object_unref (in);
}

/* Around the input and in its transparent pixels everything is painted; its own pixels stay, but for the seam. */
static void
test_a_larger_canvas (void)
{
  static const gchar *const formats[] = { "R'G'B'A u8", "R'G'B' u16" };

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    {
      GeglBuffer *in     = picture (formats[i], 7, 3, 60, 50, 74);
      Run         run    = new_run ("a wood", "steps=2 left=30 bottom=20 feather=1", in, NULL);
      gfloat     *want   = pixels_of (in, gegl_buffer_get_extent (in), "R'G'B'A float");
      gfloat     *got    = run_pixels (&run, &run.box);
      gchar      *status = run_status (&run);
      gint        kept   = 0;

      CHECK (! *status, "%s", status);
      CHECK (gegl_rectangle_equal (&run.box, GEGL_RECTANGLE (-23, 3, 90, 70)),
             "it is %dx%d at %d,%d", run.box.width, run.box.height, run.box.x, run.box.y);
      CHECK (all_finite (got, 90 * 70 * 4) && mean_change (got, got + 4, 30 * 4) > 0.001,
             "nothing is painted");
      for (gint y = 0; y < 45; y++)
        for (gint x = 5; x < 60; x++)
          {
            const gboolean near = i == 0 && (x + y) % 7 != 3; /* to a transparent pixel */

            kept += ! near;
            CHECK (near || difference (got + (y * 90 + x + 30) * 4, want + (y * 60 + x) * 4, 3) <
                               BABL_OFF,
                   "%s: %d,%d changed: %g, not %g", formats[i], x, y, got[(y * 90 + x + 30) * 4],
                   want[(y * 60 + x) * 4]);
            CHECK (got[(y * 90 + x + 30) * 4 + 3] == 1.0f, "%d,%d is transparent", x, y);
          }
      CHECK (kept > 300, "%s: %d pixels stay", formats[i], kept);
      g_free (want);
      g_free (got);
      g_free (status);
      g_object_unref (in);
      run_free (&run);
    }
}

/* A new picture and one from the input, twice as large; what refining changes, and that threads do not. */
static void
test_enlarged_and_refined (void)
{
  GeglBuffer *in    = picture ("R'G'B' u8", 0, 0, 60, 40, 75);
  gfloat     *plain = make ("a cat", "steps=2 width=48 height=48 scale=2 refine=0", in, NULL);
  gfloat     *got   = make ("a cat", "steps=2 width=48 height=48 scale=2 refine=0.4", in, NULL);
  Run         run   = new_run ("a cat", "steps=2 width=48 height=32 scale=3", NULL, NULL);

  CHECK (all_finite (got, 120 * 80 * 4) && mean_change (got, plain, 120 * 80 * 4) > 0.01,
         "nothing is refined");
  CHECK (run.box.width == 144 && run.box.height == 96, "it has %dx%d", run.box.width,
         run.box.height);
  run_free (&run);
  g_free (plain);
  g_free (got);
  g_object_unref (in);
}

/* ---- estimates and cancelling --------------------------------------------- */

typedef struct
{
  gint     n;
  gboolean finite;
  gfloat   first;
} Seen;

static void
on_estimate (gpointer data, GeglBuffer *estimate)
{
  Seen   *seen = data;
  gfloat *got  = pixels_of (estimate, gegl_buffer_get_extent (estimate), "R'G'B'A float");

  seen->n++;
  seen->finite = all_finite (got, 64 * 64 * 4) && got[3] == 1.0f;
  seen->first  = got[0];
  g_free (got);
}

/* After each step but the last: by the tiny decoder, and without its file by colours. */
static void
test_estimates (void)
{
  gchar *file = in_folder ("taef1_decoder.safetensors");
  gchar *away = in_folder ("away");
  gfloat first[2];

  for (gint i = 0; i < 2; i++)
    {
      Seen seen = { 0 };
      Hook hook = { on_estimate, &seen };
      Run  run  = new_run (i ? "estimates" : "estimates of colours",
                         "width=64 height=64 steps=5 seed=1", NULL, NULL);
      gfloat *got;

      if (! i)
        g_rename (file, away);
      g_object_set_data (G_OBJECT (run.op), "zenith-estimate", &hook);
      got = run_pixels (&run, &run.box);
      if (! i)
        g_rename (away, file);
      CHECK (seen.n == 4 && seen.finite, "%d estimates", seen.n);
      first[i] = seen.first;
      g_free (got);
      run_free (&run);
    }
  CHECK (first[0] != first[1], "both are the same");
  g_free (file);
  g_free (away);
}

static gdouble stop_at, stopped_at;

static void
stop (GeglNode *node, gdouble fraction)
{
  if (fraction >= stop_at)
    g_object_set_data (G_OBJECT (node), "zenith-cancel", GINT_TO_POINTER (TRUE));
  stopped_at = MAX (stopped_at, fraction < 1.0 ? fraction : 0.0);
}

/* Before a network runs, and between two steps. */
static void
test_cancelling (void)
{
  static const gdouble at[] = { 0.0, 0.2 };

  for (guint i = 0; i < G_N_ELEMENTS (at); i++)
    {
      Run run = new_run (i ? "to be stopped" : "to be stopped at once",
                         "width=512 height=512 steps=20 seed=1", NULL, NULL);
      gfloat *got;
      gchar  *status;
      guint   before = ops_network_runs ();

      stop_at    = at[i];
      stopped_at = 0.0;
      g_signal_connect (run.op, "progress", G_CALLBACK (stop), NULL);
      got    = run_pixels (&run, &run.box);
      status = run_status (&run);
      CHECK (strstr (status, "ancelled"), "the status is '%s'", status);
      CHECK (stopped_at >= at[i] && stopped_at < at[i] + 0.1 * i + 1e-9, "it stopped at %g",
             stopped_at);
      CHECK (i || ops_network_runs () == before, "a network ran");
      g_free (got);
      g_free (status);
      run_free (&run);
    }
}

/* ---- little memory -------------------------------------------------------- */

/* Where not even 4-bit weights fit, layers are read from disk, in what the file has: the same
 * picture, and it is said.  With less still it is refused. */
static void
test_little_memory (void)
{
  static const struct
  {
    const gchar *mib, *folder;
    gint         side;
  } step[]      = { { NULL, "large", 32 }, { "6", "large/.", 32 }, { "12", "large/.", 512 } };
  gfloat *first = NULL;

  if (! ops_make_zimage ("large", "60 96"))
    CHECK (FALSE, "no model");
  for (guint i = 0; i < G_N_ELEMENTS (step); i++)
    {
      gchar  *folder   = in_folder (step[i].folder);
      gchar  *settings = g_strdup_printf ("width=%d height=%d steps=2 seed=1 weights=%s",
                                          step[i].side, step[i].side, folder);
      Run     run      = new_run ("little memory", settings, NULL, NULL);
      gchar  *status, *memory, *note;
      gfloat *got;

      if (step[i].mib)
        g_setenv ("ZENITH_MEMORY", step[i].mib, TRUE);
      got = run_pixels (&run, &run.box);
      g_unsetenv ("ZENITH_MEMORY");
      status = run_status (&run);
      memory = run_text (&run, "memory");
      note   = run_text (&run, "note");
      if (i == 2)
        {
          CHECK (g_regex_match_simple ("z-image-sample needs [0-9]+ MiB.* beside 0 MiB of weights, "
                                       "where [0-9]+ are allowed; set ZENITH_MEMORY to more "
                                       "\\([0-9]+ MiB are taken",
                                       status, 0, 0),
                 "the status is '%s'", status);
        }
      else
        {
          CHECK (! *status, "%s", status);
          CHECK (! strstr (memory, "read from disk") == ! i, "the memory is '%s'", memory);
          CHECK (! strstr (note, "z-image-text takes more than the 6 MiB") == ! i &&
                     ! strstr (note, "z-image-sample takes more than the 6 MiB") == ! i,
                 "the note is '%s'", note);
        }
      if (! i)
        first = g_memdup2 (got, 32 * 32 * 4 * sizeof (gfloat));
      CHECK (! memcmp (first, got, 32 * 32 * 4 * sizeof (gfloat)) == (i < 2), "picture %u", i);
      g_free (got);
      g_free (status);
      g_free (memory);
      g_free (note);
      g_free (settings);
      g_free (folder);
      run_free (&run);
    }
  g_free (first);
}

/* ---- all that is open at once --------------------------------------------- */

static gdouble
resident_mib (void)
{
  gchar  *text  = NULL;
  guint64 pages = 0;

  if (g_file_get_contents ("/proc/self/statm", &text, NULL, NULL))
    sscanf (text, "%*u %" G_GUINT64_FORMAT, &pages);
  g_free (text);

  return pages * (gdouble) sysconf (_SC_PAGESIZE) / 1048576.0;
}

/* In a process of its own, with a bound in the environment: what is said before the start is below
 * the bound, and the process grows by no more than that. */
static void
test_bounded (void)
{
  const gchar *bound  = g_getenv ("ZENITH_MEMORY");
  gchar       *folder = in_folder ("wide");
  gchar  *settings    = g_strdup_printf ("width=256 height=256 steps=2 seed=1 weights=%s", folder);
  gchar  *status, *memory;
  gdouble before, took;
  guint   beside = 0, weights = 0;
  Seen    seen = { 0 };
  Hook    hook = { on_estimate, &seen };
  Run     run;

  g_free (make ("engine and buffers", "width=256 height=256 steps=1", NULL, NULL));
  before = resident_mib ();
  run    = new_run ("bounded", settings, NULL, NULL);
  g_object_set_data (G_OBJECT (run.op), "zenith-estimate", &hook);
  g_free (run_pixels (&run, &run.box));
  took   = test_most_resident () / 1024.0 - before;
  status = run_status (&run);
  memory = run_text (&run, "memory");
  CHECK (! *status, "%s", status);
  CHECK (sscanf (memory, "%u MiB, and %u MiB", &beside, &weights) == 2, "'%s'", memory);
  printf ("# %s allowed, '%s' said, %.0f MiB taken\n", bound ? bound : "all", memory, took);
  CHECK (! bound || beside + weights <= (guint) atoi (bound) + 1, "'%s' of %s", memory, bound);
  CHECK (took <= beside + weights + 12.0, "%.0f MiB were taken of '%s'", took, memory);
  CHECK (took >= (beside + weights) * 0.4, "%.0f MiB: '%s' says too much", took, memory);
  g_free (status);
  g_free (memory);
  g_free (settings);
  g_free (folder);
  run_free (&run);
}

/* Transformer and decoder together, one after the other, in fewer bits, streamed. */
static void
test_all_that_is_open (void)
{
  static const gchar *const bounds[] = { "2000", "130", "80", "44" };

  if (INSTRUMENTED || ! test_most_resident ())
    SKIP ("the pages of the process are not the engine's alone");
  for (guint i = 0; i < G_N_ELEMENTS (bounds); i++)
    CHECK_SELF ("--bounded", "ZENITH_MEMORY", bounds[i]);
}

/* ---- what is missing ------------------------------------------------------ */

static void
test_what_is_missing (void)
{
  GeglBuffer *in   = picture ("R'G'B'A float", 0, 0, 40, 30, 73);
  gfloat     *want = pixels_of (in, GEGL_RECTANGLE (0, 0, 40, 30), "R'G'B'A float");
  Run         run;
  gfloat     *got;
  gchar      *status;

  for (gint i = 0; i < 4; i++)
    {
      run = new_run (i % 2 ? "a cat" : "",
                     i % 2 ? "weights=/nowhere width=64 height=32" : "width=64 height=32",
                     i < 2 ? in : NULL, NULL);
      got    = run_pixels (&run, &run.box);
      status = run_status (&run);
      if (i % 2)
        CHECK (strstr (status, "transformer/ (12.3 GB") && strstr (status, "Apache") &&
                   strstr (status, "huggingface.co/Tongyi-MAI/Z-Image-Turbo") &&
                   strstr (status, "/nowhere"),
               "the status is '%s'", status);
      else
        CHECK (strstr (status, "no prompt"), "the status is '%s'", status);
      if (i < 2)
        CHECK (! memcmp (got, want, 40 * 30 * 16), "pixels were lost");
      else
        for (gint p = 0; p < 64 * 32 * 4; p++)
          CHECK (got[p] == 0.0f, "a source that failed is not transparent");
      g_free (got);
      g_free (status);
      run_free (&run);
    }
  g_free (want);
  g_object_unref (in);
}

int
main (int argc, char **argv)
{
  const gboolean bounded = argc > 1 && ! strcmp (argv[1], "--bounded");

  if (! ops_begin (&argc, &argv) || ! ops_make_zimage ("z-image", ""))
    return 1;
  if (bounded)
    {
      if (! ops_make_zimage ("wide", "24 480"))
        return 1;
      RUN (test_bounded);
      return ops_end ();
    }

  RUN (test_a_prompt_makes_a_picture);
  RUN (test_engines_agree);
  RUN (test_features_are_kept);
  RUN (test_a_picture_changes);
  RUN (test_a_mask_bounds_the_change);
  RUN (test_other_masks_and_sizes);
  RUN (test_several_seeds);
  RUN (test_a_larger_canvas);
  RUN (test_enlarged_and_refined);
  RUN (test_estimates);
  RUN (test_cancelling);
  RUN (test_little_memory);
  RUN (test_all_that_is_open);
  RUN (test_what_is_missing);

  return ops_end ();
}
