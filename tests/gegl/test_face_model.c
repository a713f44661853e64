/* SPDX-License-Identifier: MIT */
/* test_face_model.c - the operations of the diffusion autoencoder with the models that are
 * shipped, on the portrait of docs/samples/: its face is found, drawn again and edited. */

#include "ops.h"

static GeglBuffer *
astronaut (void)
{
  GeglBuffer *buffer = NULL;
  GeglNode   *graph  = gegl_node_new ();
  GeglNode   *load   = gegl_node_new_child (graph, "operation", "gegl:load", "path",
                                            SOURCE_DIR "/docs/samples/astronaut.png", NULL);
  GeglNode   *sink = gegl_node_new_child (graph, "operation", "gegl:buffer-sink", "buffer", &buffer,
                                          NULL);

  gegl_node_link (load, sink);
  gegl_node_process (sink);
  g_object_unref (graph);

  return buffer;
}

/* The picture after an operation. */
static GeglBuffer *
changed (GeglBuffer  *in,
         const gchar *operation,
         const gchar *property,
         gdouble      value,
         const gchar *second,
         gdouble      other)
{
  GeglBuffer *buffer = NULL;
  GeglNode   *graph  = gegl_node_new ();
  GeglNode   *source = gegl_node_new_child (graph, "operation", "gegl:buffer-source", "buffer", in,
                                            NULL);
  GeglNode *op = gegl_node_new_child (graph, "operation", operation, property, value, second, other,
                                      NULL);
  GeglNode *sink = gegl_node_new_child (graph, "operation", "gegl:buffer-sink", "buffer", &buffer,
                                        NULL);

  gegl_node_link_many (source, op, sink, NULL);
  gegl_node_process (sink);
  g_object_unref (graph);

  return buffer;
}

/* The frame that a face gets, of the picture's coordinates. */
static void
found_frame (gdouble frame[4], GeglBuffer *in, const gchar *threads)
{
  gchar  *status;
  Run     run;
  gfloat *pixels;

  if (threads)
    g_object_set (gegl_config (), "threads", atoi (threads), NULL);
  run    = run_new ("zenith:diffae-reconstruct", "steps=2 stochastic-steps=2", in);
  pixels = run_pixels (&run, GEGL_RECTANGLE (run.box.x, run.box.y, 1, 1));
  status = run_status (&run);
  gegl_node_get (run.op, "taken-x", &frame[0], "taken-y", &frame[1], "taken-size", &frame[2],
                 "taken-angle", &frame[3], NULL);
  CHECK (! *status && frame[2] > 0.0, "'%s', a frame of %g", status, frame[2]);
  g_free (status);
  g_free (pixels);
  run_free (&run);
}

/* The portrait's face is found, upright, turned and small; and two pictures of different
 * sizes are blended face to face. */
static void
test_finder (void)
{
  GeglBuffer         *in     = astronaut ();
  GeglBuffer         *turned = changed (in, "gegl:rotate", "degrees", -20.0, "origin-x", 0.0);
  GeglBuffer         *small  = changed (in, "gegl:scale-ratio", "x", 0.7, "y", 0.7);
  GeglBuffer         *none   = picture ("R'G'B' u8", 0, 0, 300, 200, 122);
  const GeglRectangle face   = { 194, 94, 60, 60 };
  gdouble             frame[4], other[4], sum = 0.0;
  gfloat             *got, *from;
  gchar              *status;
  Run                 run;

  found_frame (frame, in, "1");
  CHECK (hypot (frame[0] - 224, frame[1] - 123) < 6 && fabs (frame[2] - 108) < 12 &&
             fabs (frame[3] - 3.5) < 4,
         "the face is at %g, %g, %g large, turned by %g", frame[0], frame[1], frame[2], frame[3]);
  found_frame (other, turned, "2");
  CHECK (fabs (other[2] - frame[2]) < 8 && fabs (other[3] - frame[3] - 20) < 4,
         "turned by 20 degrees it is %g large, turned by %g", other[2], other[3]);
  found_frame (other, small, NULL);
  CHECK (hypot (other[0] - 0.7 * frame[0], other[1] - 0.7 * frame[1]) < 3,
         "of 0.7 times the size it is at %g, %g", other[0], other[1]);

  from = pixels_of (in, &face, "R'G'B'A float");
  run  = run_new ("zenith:diffae-interpolate", "position=0.5", in);
  run_add (&run, small);
  got    = run_pixels (&run, &face);
  status = run_status (&run);
  for (gint i = 0; i < 60 * 60 * 4; i++)
    sum += (got[i] - from[i]) * (got[i] - from[i]);
  sum = -10.0 * log10 (sum / (60 * 60 * 3));
  printf ("# a face and its smaller copy: %.1f dB\n", sum);
  CHECK (! *status && sum > 25.0, "'%s'; blended with its smaller copy: %.1f dB", status, sum);
  g_free (got);
  g_free (from);
  g_free (status);
  run_free (&run);

  g_free (apply ("zenith:diffae-reconstruct", "steps=4 stochastic-steps=4", none, &status, NULL));
  CHECK (strstr (status, "No face was found"), "the status is '%s'", status);
  g_free (status);
  for (gint find = 0; find < 2; find++) /* of the model's size: that says nothing */
    {
      GeglBuffer *same     = picture ("R'G'B'A float", 0, 0, 128, 128, 11);
      gchar      *settings = g_strdup_printf ("steps=2 stochastic-steps=2 find=%d", find);

      g_free (apply ("zenith:diffae-reconstruct", settings, same, &status, NULL));
      CHECK (find == (strstr (status, "No face was found") != NULL), "find %d: '%s'", find, status);
      g_free (status);
      g_free (settings);
      g_object_unref (same);
    }
  g_object_unref (in);
  g_object_unref (turned);
  g_object_unref (small);
  g_object_unref (none);
}

/* A square picture of R'G'B'A float, turned clockwise by 90 degrees. */
static gfloat *
turn (const gfloat *from, gint side)
{
  gfloat *to = g_new (gfloat, (gsize) side * side * 4);

  for (gint y = 0; y < side; y++)
    for (gint x = 0; x < side; x++)
      memcpy (to + ((gsize) y * side + x) * 4, from + ((gsize) (side - 1 - x) * side + y) * 4, 16);

  return to;
}

/* Turned by 90, 180 and 270 degrees the face is found, too, and its edit is the turned edit. */
static void
test_turned_faces (void)
{
  static const gchar edit[] = "smile=1 steps=2 stochastic-steps=2";
  GeglBuffer        *in     = astronaut ();
  const gint         side   = gegl_buffer_get_width (in);
  gfloat            *from   = pixels_of (in, gegl_buffer_get_extent (in), "R'G'B'A float");
  gfloat            *want   = apply ("zenith:diffae-manipulate", edit, in, NULL, NULL);
  gdouble            frame[4], x, y;

  found_frame (frame, in, NULL);
  x = frame[0];
  y = frame[1];
  for (gint k = 1; k < 4; k++)
    {
      GeglBuffer *turned = gegl_buffer_new (GEGL_RECTANGLE (0, 0, side, side),
                                            babl_format ("R'G'B'A float"));
      gfloat     *next = turn (from, side), *then = turn (want, side), *got;
      gdouble     other[4], before                = x;
      gdouble     most = 0.0, change = 0.0;
      gchar      *status;

      g_free (from);
      g_free (want);
      from = next;
      want = then;
      x    = side - y;
      y    = before;
      gegl_buffer_set (turned, NULL, 0, babl_format ("R'G'B'A float"), from, GEGL_AUTO_ROWSTRIDE);
      found_frame (other, turned, NULL);
      CHECK (hypot (other[0] - x, other[1] - y) < 1 && fabs (other[2] - frame[2]) < 1 &&
                 fabs (remainder (other[3] - frame[3] - 90 * k, 360)) < 1,
             "turned by %d degrees: at %g, %g, turned by %g", 90 * k, other[0], other[1], other[3]);
      got = apply ("zenith:diffae-manipulate", edit, turned, &status, NULL);
      for (gint i = 0; i < side * side * 4; i++)
        {
          most   = MAX (most, fabs (got[i] - want[i]));
          change = MAX (change, fabs (got[i] - from[i]));
        }
      CHECK (! *status && most < 0.01 && change > 0.05, "'%s'; off by %g of %g", status, most,
             change);
      g_free (got);
      g_free (status);
      g_object_unref (turned);
    }
  g_free (from);
  g_free (want);
  g_object_unref (in);
}

/* A face that is half covered is found, but there is a note. */
static void
test_covered_faces (void)
{
  GeglBuffer *in    = astronaut ();
  GeglColor  *brown = gegl_color_new ("#3c322d");

  for (gint covered = 0; covered < 2; covered++)
    {
      gchar *status, *note;
      Run    run;

      if (covered)
        gegl_buffer_set_color (in, GEGL_RECTANGLE (150, 50, 60, 151), brown);
      run = run_new ("zenith:diffae-manipulate", "smile=1 steps=2 stochastic-steps=2", in);
      g_free (run_pixels (&run, &run.box));
      status = run_status (&run);
      note   = run_text (&run, "note");
      CHECK (! *status && covered == (strstr (note, "covered") != NULL), "%d: '%s', '%s'", covered,
             status, note);
      g_free (note);
      g_free (status);
      run_free (&run);
    }
  g_object_unref (brown);
  g_object_unref (in);
}

/* Two of the same face: each alone, and both. */
static void
test_two_faces (void)
{
  GeglBuffer *in            = astronaut ();
  GeglBuffer *both          = gegl_buffer_new (GEGL_RECTANGLE (0, 0, 600, 320),
                                               babl_format ("R'G'B' float"));
  gint        changed[3][2] = { { 0 } };

  gegl_buffer_copy (in, GEGL_RECTANGLE (74, 0, 300, 320), GEGL_ABYSS_NONE, both,
                    GEGL_RECTANGLE (0, 0, 300, 320));
  gegl_buffer_copy (in, GEGL_RECTANGLE (74, 0, 300, 320), GEGL_ABYSS_NONE, both,
                    GEGL_RECTANGLE (300, 0, 300, 320));
  for (gint face = 0; face < 3; face++)
    {
      gchar  *settings = g_strdup_printf ("smile=1 steps=2 stochastic-steps=2 face=%d", face);
      Run     run      = run_new ("zenith:diffae-manipulate", settings, both);
      gfloat *from     = pixels_of (both, gegl_buffer_get_extent (both), "R'G'B'A float");
      gfloat *got      = run_pixels (&run, &run.box);
      gchar  *status = run_status (&run), *faces = run_text (&run, "faces");
      gchar **word = g_strsplit (faces, " ", -1);

      for (gint i = 0; i < 600 * 320; i++)
        changed[face][i % 600 / 300] += memcmp (got + i * 4, from + i * 4, 16) != 0;
      CHECK (! *status && g_strv_length (word) == 8, "'%s'; the faces are '%s'", status, faces);
      g_strfreev (word);
      g_free (faces);
      g_free (status);
      g_free (got);
      g_free (from);
      g_free (settings);
      run_free (&run);
    }
  CHECK (changed[0][0] > 1000 && changed[0][1] > 1000, "all: %d and %d pixels", changed[0][0],
         changed[0][1]);
  for (gint face = 1; face < 3; face++)
    CHECK ((changed[face][0] > 1000) != (changed[face][1] > 1000), "face %d: %d and %d pixels",
           face, changed[face][0], changed[face][1]);
  CHECK ((changed[1][0] > 0) != (changed[2][0] > 0), "both are the same face");
  g_object_unref (in);
  g_object_unref (both);
}

/* The first estimate that a run shows. */
typedef struct
{
  GeglRectangle box;
  gfloat       *pixels; /* NULL: none came */
  gint64        at;     /* when it came */
} First;

static void
see_first (gpointer data, GeglBuffer *estimate)
{
  First *first = data;

  if (first->pixels)
    return;
  first->pixels = pixels_of (estimate, &first->box, "R'G'B'A float");
  first->at     = g_get_monotonic_time ();
}

static void
test_reconstruction (void)
{
  static const gchar  face[] = "frame-x=224 frame-y=124 frame-size=128";
  GeglBuffer         *in     = astronaut ();
  const GeglRectangle seen   = { 184, 84, 80, 80 }; /* where the mask is 1 */
  gfloat             *from   = pixels_of (in, &seen, "R'G'B'A float");
  Run                 run    = run_new ("zenith:diffae-reconstruct", face, in);
  gfloat             *got    = run_pixels (&run, &seen);
  gchar              *status = run_status (&run);
  gdouble             sum    = 0.0, psnr;

  CHECK (! *status, "%s", status);
  for (gint i = 0; i < 80 * 80 * 4; i++)
    sum += (got[i] - from[i]) * (got[i] - from[i]);
  psnr = -10.0 * log10 (sum / (80 * 80 * 3));
  printf ("# the reconstruction of a face has %.1f dB\n", psnr);
  CHECK (psnr > 40.0, "the reconstruction of a face has %.1f dB", psnr);
  g_free (got);
  g_free (status);
  run_free (&run);
  g_free (from);
  g_object_unref (in);
}

/* The mean difference in part of a region of 96 x 96. */
static gdouble
differ (const gfloat *a, const gfloat *b, gint x0, gint y0, gint w, gint h)
{
  gdouble sum = 0.0;

  for (gint y = y0; y < y0 + h; y++)
    for (gint i = (y * 96 + x0) * 4; i < (y * 96 + x0 + w) * 4; i++)
      sum += fabs (a[i] - b[i]);

  return sum / (w * h * 3);
}

/* The last picture between two faces has the features of the second one as the model draws it, but
 * around the face, where the frame's edge is not felt, it is the first. */
static void
test_blend_ends (void)
{
  static const gchar face[] = "steps=8 stochastic-steps=8 frame-x=224 frame-y=124 frame-size=128";
  GeglBuffer        *first  = astronaut ();
  GeglBuffer *second = changed (first, "gegl:gaussian-blur", "std-dev-x", 4.0, "std-dev-y", 4.0);
  const GeglRectangle seen     = { 176, 76, 96, 96 };
  gchar              *settings = g_strconcat ("position=1 ", face, NULL);
  Run                 alone    = run_new ("zenith:diffae-reconstruct", face, second);
  Run                 blend    = run_new ("zenith:diffae-interpolate", settings, first);
  gfloat *want = run_pixels (&alone, &seen), *was = pixels_of (first, &seen, "R'G'B'A float");
  gfloat *got;
  gchar  *status;
  gdouble inside, corners, without;

  run_add (&blend, second);
  got     = run_pixels (&blend, &seen);
  status  = run_status (&blend);
  inside  = differ (got, want, 28, 28, 40, 44) / differ (was, want, 28, 28, 40, 44);
  corners = differ (got, was, 0, 80, 16, 16) + differ (got, was, 80, 80, 16, 16);
  without = differ (want, was, 0, 80, 16, 16) + differ (want, was, 80, 80, 16, 16);
  printf ("# of the difference, %.3f is left in the face and %.3f is taken around it\n", inside,
          corners / without);
  CHECK (! *status && inside < 0.25 && corners < 0.4 * without, "'%s'; %g, %g of %g", status,
         inside, corners, without);
  g_free (was);
  g_free (got);
  g_free (want);
  g_free (status);
  g_free (settings);
  run_free (&alone);
  run_free (&blend);
  g_object_unref (first);
  g_object_unref (second);
}

/* The first estimate is on the way to the result. */
static void
test_edits (void)
{
  GeglBuffer *in   = astronaut ();
  gfloat     *from = pixels_of (in, gegl_buffer_get_extent (in), "R'G'B'A float");

  for (gint k = 0; k < 2; k++)
    {
      First        first    = { .box = *gegl_buffer_get_extent (in) };
      Hook         hook     = { see_first, &first };
      gchar       *settings = g_strdup_printf ("attribute=smile amount=%s frame-x=224 "
                                                     "frame-y=124 frame-size=113 frame-angle=3.7",
                                         k ? "-0.9" : "-1");
      const gint64 start    = g_get_monotonic_time ();
      gdouble      along = 0.0, part = 0.0, whole = 0.0;
      gint64       end;
      gfloat      *got;
      gchar       *status;
      Run          run;

      run = run_new ("zenith:diffae-manipulate", settings, in);
      g_object_set_data (G_OBJECT (run.op), "zenith-estimate", &hook);
      got    = run_pixels (&run, &first.box);
      end    = g_get_monotonic_time ();
      status = run_status (&run);
      CHECK (! *status, "%s", status);
      CHECK (first.pixels, "no estimate");
      printf ("# %s: %.2f s, the first estimate after %.2f s\n",
              k ? "the same face, another amount" : "an edit", (end - start) / 1e6,
              (first.at - start) / 1e6);
      for (gint i = 0; first.pixels && i < first.box.width * first.box.height * 4; i++)
        {
          const gdouble a = first.pixels[i] - from[i], b = got[i] - from[i];

          along += a * b;
          part += a * a;
          whole += b * b;
        }
      CHECK (along > 0.7 * sqrt (part * whole) && part > 0.25 * whole,
             "the first estimate changes by %g, the result by %g, correlation %g", sqrt (part),
             sqrt (whole), along / sqrt (part * whole));
      g_free (first.pixels);
      g_free (got);
      g_free (status);
      g_free (settings);
      run_free (&run);
    }
  g_free (from);
  g_object_unref (in);
}

/* Of a large face two pictures are enlarged; that of the photograph is kept.  A very large one is moved. */
static void
test_large_face (void)
{
  static const struct
  {
    const gchar *settings;
    guint        runs;
  } cases[] = { { "smile=1 frame-size=226", 5 },
                { "smile=0.9 frame-size=226", 2 },
                { "smile=1 frame-size=650", 3 } };

  GeglBuffer *small = astronaut ();
  GeglBuffer *in    = changed (small, "gegl:scale-ratio", "x", 2.0, "y", 2.0);
  gfloat     *from  = pixels_of (in, gegl_buffer_get_extent (in), "R'G'B'A float");

  for (guint k = 0; k < G_N_ELEMENTS (cases); k++)
    {
      gchar      *settings = g_strdup_printf ("%s steps=2 stochastic-steps=2 frame-x=448 "
                                                   "frame-y=248 frame-angle=3.7",
                                              cases[k].settings);
      const guint before   = ops_network_runs ();
      Run         run      = run_new ("zenith:diffae-manipulate", settings, in);
      gfloat     *got      = run_pixels (&run, &run.box);
      gchar      *status = run_status (&run), *note = run_text (&run, "note");
      gdouble     most = 0.0;

      for (gint i = 0; i < run.box.width * run.box.height * 4; i++)
        most = MAX (most, fabs (got[i] - from[i]));
      CHECK (! *status && ! *note && most > 0.05, "'%s', '%s', a change of %g", status, note, most);
      CHECK (ops_network_runs () - before == cases[k].runs, "%u: %u runs", k,
             ops_network_runs () - before);
      g_free (got);
      g_free (status);
      g_free (note);
      g_free (settings);
      run_free (&run);
    }
  g_free (from);
  g_object_unref (in);
  g_object_unref (small);
}

static void
test_models_are_here (void)
{
  SKIP ("models/zenith-face.safetensors or zenith-find.safetensors is not here");
}

int
main (int argc, char **argv)
{
  if (! ops_begin (&argc, &argv))
    return 1;
  if (! g_file_test (SOURCE_DIR "/models/zenith-face.safetensors", G_FILE_TEST_EXISTS) ||
      ! g_file_test (SOURCE_DIR "/models/zenith-find.safetensors", G_FILE_TEST_EXISTS))
    {
      RUN (test_models_are_here);
      return ops_end ();
    }

  g_setenv ("ZENITH_MODELS", SOURCE_DIR "/models", TRUE);
  RUN (test_edits); /* the first: its time includes loading */
  RUN (test_reconstruction);
  RUN (test_finder);
  RUN (test_turned_faces);
  RUN (test_covered_faces);
  RUN (test_two_faces);
  RUN (test_blend_ends);
  RUN (test_large_face);

  return ops_end ();
}
