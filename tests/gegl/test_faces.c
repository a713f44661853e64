/* SPDX-License-Identifier: MIT */
/* test_faces.c - the operations of the diffusion autoencoder, with the tiny network of
 * tests/data/golden (pictures of 32 x 32, codes of 24 numbers) and attributes made up
 * here.  test_face_model.c has the shipped one. */

#include <unistd.h>

#include <glib/gstdio.h>

#include "ops.h"

#define CODE 24 /* of the tiny network */
#define FRAME "frame-x=70 frame-y=55 frame-size=60 frame-angle=20"
#define QUICK "steps=4 stochastic-steps=4"

/* ---- attribute files ------------------------------------------------------- */

/* Writes directions along the first axes of the code. */
static void
write_attributes (const gchar *name, const gchar *names, gint n_rows, gfloat step)
{
  const gint n_floats = n_rows * CODE + 2 * n_rows + 2 * CODE;
  gfloat    *data     = g_new0 (gfloat, n_floats);
  gchar     *path     = in_folder (name);
  gint       at       = 0;
  GString   *text     = g_string_new (NULL);
  guint64    size;

  for (gint i = 0; i < n_rows; i++)
    data[i * CODE + i] = 1.0f;
  g_string_printf (text, "{\"__metadata__\":{\"names\":\"%s\"},", names);
  g_string_append_printf (
      text, "\"directions\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]},", n_rows,
      CODE, n_rows * CODE * 4);
  at = n_rows * CODE;
  for (gint k = 0; k < 4; k++)
    {
      static const gchar *const tensor[] = { "step", "guide", "mean", "std" };
      const gint                len      = k < 2 ? n_rows : CODE;

      for (gint i = 0; i < len; i++)
        data[at + i] = k == 0 ? step : k == 1 ? 2.0f : k == 2 ? 0.0f : 1.0f;
      g_string_append_printf (
          text, "\"%s\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[%d,%d]}%s", tensor[k],
          len, at * 4, (at + len) * 4, k < 3 ? "," : "}");
      at += len;
    }
  while (text->len % 8)
    g_string_append_c (text, ' ');

  size = GUINT64_TO_LE (text->len);
  g_string_prepend_len (text, (const gchar *) &size, 8);
  g_string_append_len (text, (const gchar *) data, n_floats * 4);
  g_assert (g_file_set_contents (path, text->str, text->len, NULL));
  g_string_free (text, TRUE);
  g_free (path);
  g_free (data);
}

/* ---- pixels --------------------------------------------------------------- */

/* Whether a pixel's centre is inside the frame of FRAME. */
static gboolean
in_frame (gint x, gint y)
{
  const gdouble a = 20.0 * G_PI / 180.0, dx = x + 0.5 - 70.0, dy = y + 0.5 - 55.0;

  return fabs (cos (a) * dx + sin (a) * dy) < 30.0 && fabs (cos (a) * dy - sin (a) * dx) < 30.0;
}

static void
test_amount_0_is_the_input (void)
{
  static const gchar *const formats[] = { "R'G'B'A u8", "RGBA float", "Y' u16", "R'G'B' half" };

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    {
      GeglBuffer         *in   = picture (formats[i], 3, -4, 120, 100, 80 + i);
      const GeglRectangle box  = *gegl_buffer_get_extent (in);
      const guint         runs = ops_network_runs ? ops_network_runs () : 0;
      Run     run  = run_new ("zenith:diffae-manipulate", "attribute=smile amount=0 " FRAME, in);
      guchar *got  = g_malloc0 (120 * 100 * 16);
      guchar *want = g_malloc0 (120 * 100 * 16);
      gchar  *status;

      gegl_node_blit (run.op, 1.0, &box, babl_format (formats[i]), got, GEGL_AUTO_ROWSTRIDE,
                      GEGL_BLIT_DEFAULT);
      gegl_buffer_get (in, &box, 1.0, babl_format (formats[i]), want, GEGL_AUTO_ROWSTRIDE,
                       GEGL_ABYSS_NONE);
      status = run_status (&run);
      CHECK (! *status, "%s", status);
      CHECK (! memcmp (got, want, 120 * 100 * 16), "%s is not what it was", formats[i]);
      CHECK (! ops_network_runs || ops_network_runs () == runs, "a network ran");
      g_free (got);
      g_free (want);
      g_free (status);
      run_free (&run);
      g_object_unref (in);
    }
}

/* The frame changes, and nothing else, in formats that are stored in every way. */
static void
test_outside_is_untouched (void)
{
  static const gchar *const formats[]    = { "R'G'B'A u8", "RGBA float", "R'G'B' u16",
                                             "R'G'B'A float" };
  static const gchar *const operations[] = { "zenith:diffae-manipulate",
                                             "zenith:diffae-reconstruct" };

  for (guint k = 0; k < 2 * G_N_ELEMENTS (formats); k++)
    {
      const gchar        *format  = formats[k / 2];
      GeglBuffer         *in      = picture (format, -7, 9, 120, 100, 90 + k / 2);
      const GeglRectangle box     = *gegl_buffer_get_extent (in);
      const Babl         *babl    = babl_format (format);
      const gint          size    = babl_format_get_bytes_per_pixel (babl);
      gboolean            alpha   = babl_format_has_alpha (babl);
      Run                 run     = run_new (operations[k % 2],
                         k % 2 ? QUICK " " FRAME : "attribute=smile amount=1 " QUICK " " FRAME, in);
      guchar             *got     = g_malloc0 (120 * 100 * 16);
      guchar             *want    = g_malloc0 (120 * 100 * 16);
      gfloat             *before  = pixels_of (in, &box, "R'G'B'A float");
      gfloat             *after   = g_new (gfloat, 120 * 100 * 4);
      gint                changed = 0;
      gchar              *status;

      gegl_node_blit (run.op, 1.0, &box, babl, got, GEGL_AUTO_ROWSTRIDE, GEGL_BLIT_DEFAULT);
      gegl_node_blit (run.op, 1.0, &box, babl_format ("R'G'B'A float"), after, GEGL_AUTO_ROWSTRIDE,
                      GEGL_BLIT_DEFAULT);
      gegl_buffer_get (in, &box, 1.0, babl, want, GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);
      status = run_status (&run);
      CHECK (! *status, "%s: %s", operations[k % 2], status);
      CHECK (all_finite (after, 120 * 100 * 4), "%s: not finite", format);
      for (gint i = 0; i < 120 * 100; i++)
        {
          const gboolean same = ! memcmp (got + i * size, want + i * size, size);

          CHECK (fabsf (after[i * 4 + 3] - before[i * 4 + 3]) < BABL_OFF, "alpha changed");
          if (! in_frame (i % 120, i / 120) || (alpha && before[i * 4 + 3] == 0.0f))
            CHECK (same, "%s: pixel %d,%d outside changed", format, i % 120, i / 120);
          changed += ! same;
        }
      CHECK (changed > 1500, "%s: only %d pixels changed", format, changed);
      g_free (before);
      g_free (after);
      g_free (got);
      g_free (want);
      g_free (status);
      run_free (&run);
      g_object_unref (in);
    }
}

static void
test_any_region (void)
{
  GeglBuffer *in = picture ("R'G'B'A float", 0, 0, 120, 100, 100);
  gfloat *whole = apply ("zenith:diffae-manipulate", "attribute=smile amount=-0.5 " QUICK " " FRAME,
                         in, NULL, NULL);
  Run     run = run_new ("zenith:diffae-manipulate", "attribute=smile amount=-0.5 " QUICK " " FRAME,
                         in);
  gfloat *part = run_pixels (&run, GEGL_RECTANGLE (61, 37, 23, 31));

  for (gint y = 0; y < 31; y++)
    CHECK (! memcmp (part + y * 23 * 4, whole + ((37 + y) * 120 + 61) * 4, 23 * 16),
           "row %d differs from the whole picture's", y);
  g_free (part);
  g_free (whole);
  run_free (&run);
  g_object_unref (in);
}

/* The frame decides, not where the layer lies; and the automatic one is the middle. */
static void
test_frames (void)
{
  GeglBuffer *in   = picture ("R'G'B' float", 0, 0, 80, 60, 101);
  GeglBuffer *away = picture ("R'G'B' float", 500, -300, 80, 60, 101);
  gfloat     *a    = apply ("zenith:diffae-reconstruct", QUICK, in, NULL, NULL);
  gfloat     *b    = apply ("zenith:diffae-reconstruct", QUICK, away, NULL, NULL);
  gfloat *c = apply ("zenith:diffae-reconstruct", QUICK " frame-x=40 frame-y=30 frame-size=60", in,
                     NULL, NULL);

  CHECK (! memcmp (a, b, 80 * 60 * 16), "a layer at another place gives %g",
         difference (a, b, 80 * 60 * 4));
  CHECK (! memcmp (a, c, 80 * 60 * 16), "the automatic frame is not the middle");
  g_free (a);
  g_free (b);
  g_free (c);
  g_object_unref (in);
  g_object_unref (away);
}

/* With weights that find faces, those of tests/data/golden, which never do: an error message and no
 * change, unless the part was selected or no face is wanted.  Without them: the middle, and a note.
 * The frame is told. */
static void
test_finding (void)
{
  static const gchar middle[] = "40.0 30.0 60.0 0.0";
  GeglBuffer        *in       = picture ("R'G'B'A float", 0, 0, 80, 60, 121);
  gfloat            *from     = pixels_of (in, gegl_buffer_get_extent (in), "R'G'B'A float");
  gchar             *path     = in_folder ("zenith-find.safetensors");
  gchar             *data     = NULL;
  gsize              size     = 0;

  g_assert (
      g_file_get_contents (SOURCE_DIR "/tests/data/golden/find.safetensors", &data, &size, NULL));
  for (gint i = 0; i < 4; i++) /* no weights; no face; the same, selected; none wanted */
    {
      const gboolean fails = i == 1;
      Run            run;
      gfloat        *got;
      gchar         *status, *note, *frame;

      if (i == 1)
        g_assert (g_file_set_contents (path, data, size, NULL));
      run = run_new ("zenith:diffae-reconstruct", i == 3 ? QUICK " find=0" : QUICK, in);
      if (i == 2)
        g_object_set_data (G_OBJECT (run.op), "zenith-selected", GINT_TO_POINTER (1));
      got    = run_pixels (&run, &run.box);
      status = run_status (&run);
      note   = run_text (&run, "note");
      frame  = run_text (&run, "frame");
      CHECK (fails == (strstr (status, "No face was found") != NULL), "%d: the status is '%s'", i,
             status);
      CHECK (fails == ! memcmp (got, from, 80 * 60 * 16), "%d: pixels", i);
      CHECK (! i == (strstr (note, "zenith-find") != NULL), "%d: the note is '%s'", i, note);
      CHECK (fails || ! strcmp (frame, middle), "%d: the frame is '%s'", i, frame);
      g_free (got);
      g_free (status);
      g_free (note);
      g_free (frame);
      run_free (&run);
    }
  g_unlink (path);
  g_free (path);
  g_free (data);
  g_free (from);
  g_object_unref (in);
}

/* The attributes of all files are told, without a network. */
static void
test_attributes_are_listed (void)
{
  GeglBuffer *in  = picture ("R'G'B' float", 0, 0, 32, 32, 123);
  Run         run = run_new ("zenith:diffae-manipulate", "amount=0", in);
  gchar      *names;

  g_free (run_pixels (&run, &run.box));
  names = run_text (&run, "attributes");
  CHECK (! strcmp (names, "mine,smile,age"), "the attributes are '%s'", names);
  g_free (names);
  run_free (&run);
  g_object_unref (in);
}

/* G_MAXUINT: it failed. */
static guint
runs_of (const gchar *operation, const gchar *settings, GeglBuffer *in)
{
  const guint before = ops_network_runs ();
  gboolean    failed;
  gchar      *status;

  g_free (apply (operation, settings, in, &status, NULL));
  failed = *status != 0;
  g_free (status);

  return failed ? G_MAXUINT : ops_network_runs () - before;
}

static void
test_codes_are_kept (void)
{
  GeglBuffer *in = picture ("R'G'B' float", 0, 0, 120, 100, 102);
  guint       n;

  if (! ops_network_runs)
    SKIP ("the module does not count its runs");

#define RUNS(operation, settings, want)                                                            \
  n = runs_of (operation, QUICK " " FRAME " " settings, in);                                       \
  CHECK (n == want, "%s %s: %u runs instead of %d", operation, settings, n, want)

  RUNS ("zenith:diffae-manipulate", "attribute=smile amount=1", 3); /* encode, up, down */
  RUNS ("zenith:diffae-manipulate", "attribute=smile amount=0.5", 1);
  RUNS ("zenith:diffae-manipulate", "attribute=age amount=0.5", 1);
  RUNS ("zenith:diffae-manipulate", "attribute=smile amount=0.5", 0);
  RUNS ("zenith:diffae-manipulate", "smile=0.5 age=-0.25", 1); /* both at once */
  RUNS ("zenith:diffae-reconstruct", "", 1);
  RUNS ("zenith:diffae-manipulate", "attribute=age amount=1 steps=6", 2); /* the reconstruction */
  g_object_unref (in);
}

/* Sliders add to attribute and amount; the order of the sum is another. */
static void
test_sliders (void)
{
  GeglBuffer *in    = picture ("R'G'B' float", 0, 0, 120, 100, 104);
  gfloat     *given = apply ("zenith:diffae-manipulate",
                             "attribute=age amount=0.5 smile=-0.25 " QUICK " " FRAME, in, NULL, NULL);
  gfloat     *slid  = apply ("zenith:diffae-manipulate",
                             "attribute=none age=0.5 smile=-0.25 " QUICK " " FRAME, in, NULL, NULL);
  gfloat     *one = apply ("zenith:diffae-manipulate", "age=0.5 " QUICK " " FRAME, in, NULL, NULL);
  gchar      *status;

  CHECK (difference (given, slid, 120 * 100 * 4) < 1e-3, "the sliders make something else: %g",
         difference (given, slid, 120 * 100 * 4));
  CHECK (memcmp (slid, one, 120 * 100 * 16), "the second slider does nothing");
  g_free (given);
  g_free (slid);
  g_free (one);
  g_free (apply ("zenith:diffae-manipulate", "gender=0.5 " QUICK " " FRAME, in, &status, NULL));
  CHECK (strstr (status, "no attribute 'gender'; there are: mine, smile, age") != NULL, "'%s'",
         status);
  g_free (status);
  g_object_unref (in);
}

/* More is more, less is its opposite, and detail keeps what the model cannot see. */
static void
test_amount_and_detail (void)
{
  GeglBuffer *in    = picture ("R'G'B' float", 0, 0, 120, 100, 103);
  gfloat     *from  = pixels_of (in, gegl_buffer_get_extent (in), "R'G'B'A float");
  gfloat     *small = apply ("zenith:diffae-manipulate",
                             "attribute=smile amount=0.01 detail=1 " QUICK " " FRAME, in, NULL, NULL);
  gfloat     *large = apply ("zenith:diffae-manipulate",
                             "attribute=smile amount=1 detail=1 " QUICK " " FRAME, in, NULL, NULL);
  gfloat     *rough = apply ("zenith:diffae-manipulate",
                             "attribute=smile amount=1 detail=0 " QUICK " " FRAME, in, NULL, NULL);
  gdouble     s = 0.0, l = 0.0;

  for (gint i = 0; i < 120 * 100 * 4; i++)
    {
      s += fabs (small[i] - from[i]);
      l += fabs (large[i] - from[i]);
    }
  CHECK (l > 3.0 * s && s > 0.0, "amount 0.1 changes by %g, 1 by %g", s, l);
  CHECK (memcmp (large, rough, 120 * 100 * 16), "detail does nothing");
  g_free (from);
  g_free (small);
  g_free (large);
  g_free (rough);
  g_object_unref (in);
}

/* ---- progress and cancelling ----------------------------------------------- */

typedef struct
{
  GeglNode *node;
  gint      n;    /* calls */
  gdouble   last; /* never falls */
  gboolean  fell;
  gdouble   cancel; /* at this much; 2: never */
} Watch;

static void
watch_progress (GeglNode *node, gdouble value, Watch *watch)
{
  (void) node;
  watch->n++;
  watch->fell |= value < watch->last;
  watch->last = value;
  if (value >= watch->cancel)
    g_object_set_data (G_OBJECT (watch->node), "zenith-cancel", GINT_TO_POINTER (TRUE));
}

/* The bar moves in every step of every network; a cancelled run leaves the pixels, and the
 * next one makes the whole result. */
static void
test_progress_and_cancelling (void)
{
  static const gdouble at[] = { 0.3, 0.8, 2.0 };
  GeglBuffer          *in   = picture ("R'G'B'A float", 0, 0, 120, 100, 110);
  gfloat              *from = pixels_of (in, gegl_buffer_get_extent (in), "R'G'B'A float");

  for (guint i = 0; i < G_N_ELEMENTS (at); i++)
    {
      Run     run   = run_new ("zenith:diffae-manipulate",
                               "attribute=smile amount=1 steps=20 stochastic-steps=20 " FRAME, in);
      Watch   watch = { .node = run.op, .cancel = at[i] };
      gfloat *got;

      g_signal_connect (run.op, "progress", G_CALLBACK (watch_progress), &watch);
      got = run_pixels (&run, &run.box);
      CHECK (! watch.fell && watch.last == 1.0, "the bar fell, or ended at %g", watch.last);
      if (at[i] < 1.0)
        CHECK (! memcmp (got, from, 120 * 100 * 16), "cancelled at %g, and pixels changed", at[i]);
      else
        CHECK (memcmp (got, from, 120 * 100 * 16) && watch.n > 8, "%d calls", watch.n);
      g_free (got);
      run_free (&run);
    }
  g_free (from);
  g_object_unref (in);
}

/* ---- two pictures, and none ------------------------------------------------- */

static Run
pair_new (const gchar *settings, GeglBuffer *first, GeglBuffer *second)
{
  Run run = run_new ("zenith:diffae-interpolate", settings, first);

  run_add (&run, second);

  return run;
}

/* Half-way between a picture and itself is its reconstruction; at 1 the second one's
 * fine structure is there, at 0 the input itself. */
static void
test_interpolate (void)
{
  GeglBuffer *first  = picture ("R'G'B' float", 0, 0, 120, 100, 104);
  GeglBuffer *second = picture ("R'G'B'A u8", 10, 10, 120, 100, 105);
  GeglBuffer *odd    = picture ("R'G'B' float", 0, 0, 90, 100, 106);
  gfloat     *want, *got;
  gchar      *status, *path, *settings;
  Run         run;

  want = pixels_of (first, gegl_buffer_get_extent (first), "R'G'B'A float");
  run  = pair_new ("position=0 " QUICK, first, second);
  got  = run_pixels (&run, &run.box);
  CHECK (! memcmp (got, want, 120 * 100 * 16), "position 0 is not the input");
  g_free (got);
  run_free (&run);

  run    = pair_new ("position=0.5 " QUICK " " FRAME, first, second);
  got    = run_pixels (&run, &run.box);
  status = run_status (&run);
  CHECK (! *status, "%s", status);
  CHECK (memcmp (got, want, 120 * 100 * 16) && all_finite (got, 120 * 100 * 4), "nothing was done");
  for (gint i = 0; i < 120 * 100; i++)
    if (! in_frame (i % 120, i / 120))
      CHECK (! memcmp (got + i * 4, want + i * 4, 16), "pixel %d outside changed", i);
  g_free (status);
  run_free (&run);

  /* the same from a file */
  path = in_folder ("second.png");
  {
    GeglNode *graph = gegl_node_new ();
    GeglNode *save  = gegl_node_new_child (graph, "operation", "gegl:png-save", "path", path,
                                           "bitdepth", 8, NULL);

    gegl_node_link_many (
        gegl_node_new_child (graph, "operation", "gegl:buffer-source", "buffer", second, NULL),
        save, NULL);
    gegl_node_process (save);
    g_object_unref (graph);
  }
  settings = g_strdup_printf ("position=0.5 " QUICK " " FRAME " path=%s", path);
  {
    gfloat *file = apply ("zenith:diffae-interpolate", settings, first, &status, NULL);

    CHECK (! *status, "%s", status);
    CHECK (difference (file, got, 120 * 100 * 4) < 0.01, "a file gives %g",
           difference (file, got, 120 * 100 * 4));
    g_free (file);
    g_free (status);
  }
  g_free (settings);
  g_free (path);
  g_free (got);

  run    = pair_new ("position=0.5 " QUICK, first, odd);
  got    = run_pixels (&run, &run.box);
  status = run_status (&run);
  CHECK (strstr (status, "different sizes"), "the status is '%s'", status);
  CHECK (! memcmp (got, want, 120 * 100 * 16), "pixels were lost");
  g_free (got);
  g_free (status);
  run_free (&run);

  got = apply ("zenith:diffae-interpolate", "position=0.5 " QUICK, first, &status, NULL);
  CHECK (strstr (status, "no second picture"), "the status is '%s'", status);
  g_free (got);
  g_free (status);
  got = apply ("zenith:diffae-interpolate", "position=0.5 path=/nowhere.png", first, &status, NULL);
  CHECK (strstr (status, "/nowhere.png"), "the status is '%s'", status);
  CHECK (! memcmp (got, want, 120 * 100 * 16), "pixels were lost");
  g_free (got);
  g_free (status);
  g_free (want);
  g_object_unref (first);
  g_object_unref (second);
  g_object_unref (odd);
}

/* A strip has the pictures that the positions give one by one. */
static void
test_strip (void)
{
  GeglBuffer   *first  = picture ("R'G'B'A u8", 3, -5, 120, 100, 114);
  GeglBuffer   *second = picture ("R'G'B'A u8", 3, -5, 120, 100, 115);
  gfloat       *want   = pixels_of (first, gegl_buffer_get_extent (first), "R'G'B'A float");
  Run           run    = pair_new ("strip=6 " QUICK " " FRAME, first, second);
  gfloat       *strip  = run_pixels (&run, &run.box);
  gchar        *status = run_status (&run);
  GeglRectangle box    = run.box;

  CHECK (! *status, "%s", status);
  CHECK (box.x == 3 && box.y == -5 && box.width == 6 * 120 && box.height == 100,
         "the strip is %d x %d at %d, %d", box.width, box.height, box.x, box.y);
  g_free (status);
  run_free (&run);

  for (gint k = 0; k < 6; k++)
    {
      gchar  *settings = g_strdup_printf ("position=%d.%d " QUICK " " FRAME, k / 5, k % 5 * 2);
      gfloat *one;
      gdouble most = 0.0;

      run = pair_new (settings, first, second);
      one = run_pixels (&run, &run.box);
      for (gint i = 0; i < 120 * 100; i++)
        for (gint c = 0; c < 3; c++)
          most = MAX (most,
                      fabs (one[i * 4 + c] - strip[((i / 120) * 720 + k * 120 + i % 120) * 4 + c]));
      CHECK (most < 1e-3, "picture %d is off by %g", k, most);
      if (k)
        CHECK (difference (one, want, 120 * 100 * 4) > 0.0, "picture %d is the input", k);
      g_free (one);
      run_free (&run);
      g_free (settings);
    }
  g_free (want);
  g_free (strip);
  g_object_unref (first);
  g_object_unref (second);
}

/* ---- while it runs ---------------------------------------------------------- */

typedef struct
{
  GeglRectangle box;
  gint          n;
  gboolean      outside; /* something changed there */
  gfloat       *before, *first;
} Seen;

static void
see (gpointer data, GeglBuffer *estimate)
{
  Seen   *seen   = data;
  gfloat *pixels = pixels_of (estimate, &seen->box, "R'G'B'A float");

  for (gint i = 0; i < seen->box.width * seen->box.height; i++)
    if (! in_frame (i % seen->box.width, i / seen->box.width))
      seen->outside = seen->outside || memcmp (pixels + i * 4, seen->before + i * 4, 16);
  if (seen->n++)
    g_free (pixels);
  else
    seen->first = pixels;
}

/* A host that asks for them sees estimates; the result is the same. */
static void
test_estimates (void)
{
  static const gchar settings[] = "attribute=smile amount=1 steps=20 stochastic-steps=10 " FRAME;
  GeglBuffer        *in         = picture ("R'G'B'A float", 0, 0, 120, 100, 120);
  Seen               seen       = { .box = *gegl_buffer_get_extent (in) };
  Hook               hook       = { see, &seen };
  Run                run;
  gfloat            *shown, *plain;
  gchar             *memory;

  seen.before = pixels_of (in, &seen.box, "R'G'B'A float");
  run         = run_new ("zenith:diffae-manipulate", settings, in);
  g_object_set_data (G_OBJECT (run.op), "zenith-estimate", &hook);
  shown  = run_pixels (&run, &run.box);
  memory = run_text (&run, "memory");
  CHECK (seen.n > 0, "no estimate");
  CHECK (! seen.outside, "an estimate changed the picture outside the frame");
  CHECK (memcmp (seen.first, seen.before, 120 * 100 * 16), "the first estimate is the input");
  CHECK (memcmp (seen.first, shown, 120 * 100 * 16), "the first estimate is the result");
  CHECK (g_regex_match_simple ("^[1-9][0-9]* MiB, and [1-9][0-9]* MiB of weights$", memory, 0, 0),
         "memory: '%s'", memory);
  run_free (&run);

  /* without a host that looks; another pixel in the corner of what is read, so that the
   * result is not the kept one */
  gegl_buffer_set (in, GEGL_RECTANGLE (33, 18, 1, 1), 0, babl_format ("R'G'B'A float"),
                   (gfloat[]){ 0.5f, 0.25f, 0.125f, 1.0f }, GEGL_AUTO_ROWSTRIDE);
  plain = apply ("zenith:diffae-manipulate", settings, in, NULL, NULL);
  for (gint i = 0; i < 120 * 100; i++)
    if (in_frame (i % 120, i / 120))
      CHECK (! memcmp (plain + i * 4, shown + i * 4, 16), "estimates change pixel %d", i);
  CHECK (plain[(18 * 120 + 33) * 4] == 0.5f, "the other pixel is not there");
  g_free (memory);
  g_free (plain);
  g_free (shown);
  g_free (seen.before);
  g_free (seen.first);
  g_object_unref (in);
}

static void
test_sample (void)
{
  GeglRectangle box;
  gchar        *status;
  gfloat *a = apply ("zenith:diffae-sample", "seed=5 steps=4 latent-steps=4", NULL, &status, &box);
  gfloat *b = apply ("zenith:diffae-sample", "seed=5 steps=4 latent-steps=4 engine=scalar", NULL,
                     NULL, NULL);
  gfloat *c = apply ("zenith:diffae-sample", "seed=6 steps=4 latent-steps=4", NULL, NULL, NULL);

  CHECK (! *status, "%s", status);
  CHECK (box.width == 32 && box.height == 32, "it has %d x %d pixels", box.width, box.height);
  CHECK (difference (a, b, 32 * 32 * 4) < 1e-3, "another engine makes another face: %g",
         difference (a, b, 32 * 32 * 4));
  CHECK (difference (a, c, 32 * 32 * 4) > 0.01, "two seeds, one face");
  g_free (a);
  g_free (b);
  g_free (c);
  g_free (status);
}

/* ---- failures --------------------------------------------------------------- */

static void
test_what_fails (void)
{
  gchar *bad   = in_folder ("denoise-fast.safetensors");
  gchar *other = g_strdup_printf ("attribute=smile amount=1 model=%s", bad);
  const struct
  {
    const gchar *settings, *sentence;
  } cases[] = {
    { "attribute=smile amount=1 frame-x=500 frame-y=50 frame-size=60", "outside" },
    { "attribute=smile amount=1 frame-x=50 frame-y=50 frame-size=9", "too small" },
    { "attribute=beard amount=1", "there are: mine, smile, age" },
    { "attribute=smile amount=1 model=none-such", "no weights 'none-such'" },
    { other, "diffusion autoencoder" },
    { "attribute=smile amount=1 stochastic-steps=999", "steps" },
  };
  GeglBuffer *in    = picture ("R'G'B'A float", 0, 0, 120, 100, 107);
  GeglBuffer *small = picture ("R'G'B'A float", 0, 0, 3, 2, 108);
  gfloat     *want  = pixels_of (in, gegl_buffer_get_extent (in), "R'G'B'A float");
  gfloat     *got;
  gchar      *status;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      got = apply ("zenith:diffae-manipulate", cases[i].settings, in, &status, NULL);
      CHECK (strstr (status, cases[i].sentence), "%s: the status is '%s'", cases[i].settings,
             status);
      CHECK (! memcmp (got, want, 120 * 100 * 16), "%s: pixels were lost", cases[i].settings);
      g_free (got);
      g_free (status);
    }

  g_free (apply ("zenith:diffae-manipulate", "amount=1", small, &status, NULL));
  CHECK (strstr (status, "too small"), "the status is '%s'", status);
  g_free (status);

  /* a strip that cannot be made has the input's size */
  g_free (other);
  other = g_strdup_printf ("strip=3 model=%s", bad);
  got   = apply ("zenith:diffae-interpolate", other, in, &status, NULL);
  CHECK (strstr (status, "diffusion autoencoder"), "the status is '%s'", status);
  CHECK (! memcmp (got, want, 120 * 100 * 16), "a strip: pixels were lost");
  g_free (got);
  g_free (status);

  got = apply ("zenith:diffae-sample", "model=none-such", NULL, &status, NULL);
  CHECK (strstr (status, "no weights 'none-such'"), "the status is '%s'", status);
  g_free (got);
  g_free (status);
  g_free (want);
  g_free (bad);
  g_free (other);
  g_object_unref (in);
  g_object_unref (small);
}

/* An attribute file that promises more than it holds. */
static void
test_bad_attribute_files (void)
{
  GeglBuffer *in   = picture ("R'G'B'A float", 0, 0, 120, 100, 109);
  gfloat     *want = pixels_of (in, gegl_buffer_get_extent (in), "R'G'B'A float");
  gchar      *path = in_folder ("a.attributes.safetensors");
  gfloat     *got;
  gchar      *status;

  write_attributes ("a.attributes.safetensors", "one,two,three", 2, 1.0f);
  got = apply ("zenith:diffae-manipulate", "attribute=one amount=1", in, &status, NULL);
  CHECK (strstr (status, "names 3"), "the status is '%s'", status);
  CHECK (! memcmp (got, want, 120 * 100 * 16), "pixels were lost");
  g_free (got);
  g_free (status);

  write_attributes ("a.attributes.safetensors", "one,two", 2, NAN);
  got = apply ("zenith:diffae-manipulate", "attribute=two amount=1", in, &status, NULL);
  CHECK (strstr (status, "numbers"), "the status is '%s'", status);
  CHECK (! memcmp (got, want, 120 * 100 * 16), "pixels were lost");
  g_free (got);
  g_free (status);
  g_unlink (path);
  g_free (path);
  g_free (want);
  g_object_unref (in);
}

int
main (int argc, char **argv)
{
  if (! ops_begin (&argc, &argv))
    return 1;

  write_attributes ("zenith-face.attributes.safetensors", "smile,age", 2, 2.0f);
  write_attributes ("own.attributes.safetensors", "mine", 1, 2.0f);
  RUN (test_amount_0_is_the_input);
  RUN (test_outside_is_untouched);
  RUN (test_any_region);
  RUN (test_finding);
  RUN (test_attributes_are_listed);
  RUN (test_frames);
  RUN (test_codes_are_kept);
  RUN (test_sliders);
  RUN (test_amount_and_detail);
  RUN (test_progress_and_cancelling);
  RUN (test_interpolate);
  RUN (test_strip);
  RUN (test_estimates);
  RUN (test_sample);
  RUN (test_what_fails);
  RUN (test_bad_attribute_files);

  return ops_end ();
}
