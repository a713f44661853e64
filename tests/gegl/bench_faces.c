/* SPDX-License-Identifier: MIT */
/* bench_faces.c - the time that a user waits after moving a slider of zenith:diffae-manipulate.
 *
 *   bench_faces [SIDE|PICTURE [THREADS]]    default: 1448, two megapixels; GEGL's own number of threads
 *
 * The portrait of docs/samples/, enlarged, or a picture; its face is found.  Each line: until the first estimate is shown, and until the edit
 * is there, in milliseconds on the clock and (of all threads) of CPU.  The first line is what a fresh process takes:
 * weights are read and packed, the face is found. */

#include "ops.h"

typedef struct
{
  gdouble wall, cpu; /* 0: no estimate was shown */
} Shown;

static void
see_first (gpointer data, GeglBuffer *estimate G_GNUC_UNUSED)
{
  Shown *first = data;

  if (first->wall > 0.0)
    return;
  first->wall = ops_ms (CLOCK_MONOTONIC);
  first->cpu  = ops_ms (CLOCK_PROCESS_CPUTIME_ID);
}

/* The portrait of so many pixels a side; 0: that file, as it is. */
static GeglBuffer *
portrait (gint side, const gchar *path)
{
  GeglBuffer *buffer = NULL;
  GeglNode   *graph  = gegl_node_new ();
  GeglNode   *load   = gegl_node_new_child (graph, "operation", "gegl:load", "path",
                                        side ? SOURCE_DIR "/docs/samples/astronaut.png" : path,
                                            NULL);
  GeglNode   *scale  = side ? gegl_node_new_child (graph, "operation", "gegl:scale-size", "x",
                                                   (gdouble) side, "y", (gdouble) side, NULL)
                            : gegl_node_new_child (graph, "operation", "gegl:nop", NULL);
  GeglNode   *sink = gegl_node_new_child (graph, "operation", "gegl:buffer-sink", "buffer", &buffer,
                                          NULL);

  gegl_node_link_many (load, scale, sink, NULL);
  gegl_node_process (sink);
  g_object_unref (graph);

  return buffer;
}

int
main (int argc, char **argv)
{
  static const gchar *const settings[] = { "attribute=smile amount=1", "attribute=smile amount=0.9",
                                           "attribute=age amount=0.5" };
  const gboolean            is_number  = argc > 1 && ! argv[1][strspn (argv[1], "0123456789")];
  const gint                side       = argc <= 1 ? 1448 : is_number ? atoi (argv[1]) : 0;
  const gint                threads    = argc > 2 ? atoi (argv[2]) : 0;
  GeglBuffer               *in;

  if (! ops_begin (&argc, &argv))
    return 1;
  g_setenv ("ZENITH_MODELS", SOURCE_DIR "/models", TRUE);
  if (threads > 0)
    g_object_set (gegl_config (), "threads", threads, NULL);
  in = portrait (side, argc > 1 ? argv[1] : NULL);

  for (guint i = 0; i < G_N_ELEMENTS (settings); i++)
    {
      Shown         first = { 0.0, 0.0 };
      Hook          hook  = { see_first, &first };
      const gdouble wall  = ops_ms (CLOCK_MONOTONIC);
      const gdouble cpu   = ops_ms (CLOCK_PROCESS_CPUTIME_ID);
      Run           run   = run_new ("zenith:diffae-manipulate", settings[i], in);
      gfloat       *pixels;
      gchar        *status, *frame;

      g_object_set_data (G_OBJECT (run.op), "zenith-estimate", &hook);
      pixels = run_pixels (&run, &run.box);
      status = run_status (&run);
      frame  = run_text (&run, "frame");
      if (*status || first.wall <= 0.0)
        {
          fprintf (stderr, "%s: '%s'\n", settings[i], status);
          return 1;
        }
      printf ("%-27s first estimate %6.0f ms (CPU %6.0f), edit %6.0f ms (CPU %6.0f), frame %s\n",
              settings[i], first.wall - wall, first.cpu - cpu, ops_ms (CLOCK_MONOTONIC) - wall,
              ops_ms (CLOCK_PROCESS_CPUTIME_ID) - cpu, frame);
      g_free (pixels);
      g_free (status);
      g_free (frame);
      run_free (&run);
    }
  g_object_unref (in);
  ops_clear ();

  return 0;
}
