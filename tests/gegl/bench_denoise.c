/* SPDX-License-Identifier: MIT */
/* bench_denoise.c - the time of a slider's move when the network's output is cached.
 *
 *   bench_denoise [WIDTH HEIGHT]    default: 1632 x 1224, two megapixels
 *
 * A benchmark, not a test: it prints CPU milliseconds (all threads) and those on the clock, the best of ten. */

#include "ops.h"

static void
move (const gchar *what,
      Run         *run,
      gfloat      *pixels,
      const gchar *format,
      const gchar *property,
      gdouble      from,
      gdouble      to)
{
  gdouble cpu = 1e9, wall = 1e9;
  guint   before = ops_network_runs ();

  for (gint i = 0; i < 10; i++)
    {
      gdouble c = ops_ms (CLOCK_PROCESS_CPUTIME_ID);
      gdouble w = ops_ms (CLOCK_MONOTONIC);

      gegl_node_set (run->op, property, from + (to - from) * (i + 1) / 10, NULL);
      gegl_node_blit (run->op, 1.0, &run->box, babl_format (format), pixels, GEGL_AUTO_ROWSTRIDE,
                      GEGL_BLIT_DEFAULT);
      cpu  = MIN (cpu, ops_ms (CLOCK_PROCESS_CPUTIME_ID) - c);
      wall = MIN (wall, ops_ms (CLOCK_MONOTONIC) - w);
    }
  printf ("%-28s %-10s %7.1f ms CPU %7.1f ms wall, %u network runs\n", what, property, cpu, wall,
          ops_network_runs () - before);
}

int
main (int argc, char **argv)
{
  static const gchar *const formats[] = { "R'G'B' u8", "R'G'B'A u8", "R'G'B'A u16", "R'G'B'A float",
                                          "RGBA float" };
  const gint                w         = argc > 2 ? atoi (argv[1]) : 1632;
  const gint                h         = argc > 2 ? atoi (argv[2]) : 1224;

  if (! ops_begin (&argc, &argv))
    return 1;
  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    for (gint automatic = 0; automatic < 2; automatic++)
      {
        GeglBuffer *in = picture (formats[i], 0, 0, w, h, 1);
        Run run = run_new ("zenith:denoise", automatic ? "model=fast" : "model=fast sigma=20", in);
        gfloat *pixels = run_pixels (&run, &run.box);
        gchar  *what   = g_strdup_printf ("%s%s", formats[i], automatic ? ", measured" : "");

        move (what, &run, pixels, formats[i], "strength", 1.0, 0.5);
        move (what, &run, pixels, formats[i], "luma", 1.0, 0.5);
        move (what, &run, pixels, formats[i], "chroma", 1.0, 0.5);
        move (what, &run, pixels, formats[i], "detail", 0.0, 0.5);
        g_free (what);
        g_free (pixels);
        run_free (&run);
        g_object_unref (in);
      }
  ops_clear ();

  return 0;
}
