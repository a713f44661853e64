/* SPDX-License-Identifier: MIT */
/* test_whole.c - operations that make one result of whole pictures (op-whole.c), by its
 * two templates: two pictures, or none, and a result of another size. */

#include "ops.h"

#if defined(__aarch64__)
#define ABSENT "avx2"
#else
#define ABSENT "neon"
#endif

/* The operation on two pictures; second: NULL leaves its aux pad alone. */
static Run
pair_new (const gchar *settings, GeglBuffer *first, GeglBuffer *second)
{
  Run run = run_new ("zenith:identity-pair", settings, first);

  if (second)
    run_add (&run, second);
  run.box = gegl_node_get_bounding_box (run.op);

  return run;
}

static void
test_two_pictures (void)
{
  GeglBuffer         *first  = picture ("R'G'B'A float", 5, -7, 90, 60, 60);
  GeglBuffer         *second = picture ("R'G'B' u16", 300, 200, 90, 60, 61);
  const GeglRectangle box    = *gegl_buffer_get_extent (first);
  gfloat             *a      = pixels_of (first, &box, "R'G'B'A float");
  gfloat             *b      = pixels_of (second, gegl_buffer_get_extent (second), "R'G'B'A float");
  Run                 run    = pair_new ("position=0.25", first, second);
  gfloat             *got    = run_pixels (&run, &run.box);
  gchar              *status = run_status (&run);

  CHECK (! *status, "%s", status);
  CHECK (gegl_rectangle_equal (&run.box, &box), "the result is at %d,%d of %dx%d", run.box.x,
         run.box.y, run.box.width, run.box.height);
  for (gint i = 0; i < 90 * 60 * 4; i += 4)
    for (gint c = 0; c < 4; c++)
      {
        const gfloat want = c == 3 || a[i + 3] == 0.0f ? a[i + c]
                                                       : 0.75f * a[i + c] + 0.25f * b[i + c];

        CHECK (fabsf (got[i + c] - want) < 1e-5f, "value %d is %g, not %g", i + c, got[i + c],
               want);
      }
  g_free (status);
  g_free (got);
  g_free (a);
  g_free (b);
  run_free (&run);
  g_object_unref (first);
  g_object_unref (second);
}

/* Either picture and every setting counts; nothing else runs the network. */
static void
test_results_are_kept (void)
{
  static const gfloat red[4] = { 1.0f, 0.0f, 0.0f, 1.0f };
  GeglBuffer         *first  = picture ("R'G'B' float", 0, 0, 70, 50, 62);
  GeglBuffer         *second = picture ("R'G'B' float", 0, 0, 70, 50, 63);

  if (! ops_network_runs)
    SKIP ("the module does not count its runs");

  for (gint step = 0; step < 6; step++)
    {
      const guint before = ops_network_runs ();
      Run         run    = pair_new (step < 4 ? "position=0.5" : "position=0.75", first, second);
      guint       ran;

      if (step == 2 || step == 3)
        gegl_buffer_set (step == 2 ? first : second, GEGL_RECTANGLE (30, 20, 1, 1), 0,
                         babl_format ("R'G'B'A float"), red, GEGL_AUTO_ROWSTRIDE);
      g_free (run_pixels (&run, GEGL_RECTANGLE (10, 10, 5, 5)));
      g_free (run_pixels (&run, GEGL_RECTANGLE (0, 0, 70, 50)));
      ran = ops_network_runs () - before;
      CHECK (ran == (step == 1 || step == 5 ? 0u : 2u), "step %d: the network ran %u times", step,
             ran);
      run_free (&run);
    }
  g_object_unref (first);
  g_object_unref (second);
}

static void
test_one_picture_and_another_size (void)
{
  GeglBuffer *in = picture ("R'G'B'A u8", -20, 30, 64, 48, 64);
  Run         run;
  gfloat     *got, *want;
  gchar      *status;

  /* without a second picture the first one is what comes out */
  run  = pair_new ("position=0.9", in, NULL);
  got  = run_pixels (&run, &run.box);
  want = pixels_of (in, &run.box, "R'G'B'A float");
  CHECK (! memcmp (got, want, 64 * 48 * 16), "%g off", difference (got, want, 64 * 48 * 4));
  g_free (got);
  g_free (want);
  run_free (&run);

  run    = pair_new ("width=100 height=30", in, NULL);
  got    = run_pixels (&run, &run.box);
  status = run_status (&run);
  CHECK (! *status, "%s", status);
  CHECK (run.box.x == -20 && run.box.y == 30 && run.box.width == 100 && run.box.height == 30,
         "the result is at %d,%d of %dx%d", run.box.x, run.box.y, run.box.width, run.box.height);
  CHECK (got[3] == 1.0f && got[(100 * 30 - 1) * 4 + 3] == 1.0f, "it has holes");
  CHECK (got[99 * 4] == got[64 * 4], "beyond the picture its edge is not repeated");
  g_free (got);
  g_free (status);
  run_free (&run);
  g_object_unref (in);
}

static void
test_no_picture (void)
{
  Run         run    = run_new ("zenith:identity-source", "width=70 height=40 seed=5", NULL);
  gfloat     *got    = run_pixels (&run, &run.box);
  gchar      *status = run_status (&run);
  gfloat     *other;
  const guint before = ops_network_runs ? ops_network_runs () : 0;

  CHECK (! *status, "%s", status);
  CHECK (run.box.x == 0 && run.box.y == 0 && run.box.width == 70 && run.box.height == 40,
         "the result is at %d,%d of %dx%d", run.box.x, run.box.y, run.box.width, run.box.height);
  CHECK (all_finite (got, 70 * 40 * 4) && got[3] == 1.0f && got[0] != got[4], "it is empty");

  other = apply ("zenith:identity-source", "width=70 height=40 seed=5", NULL, NULL, NULL);
  CHECK (! memcmp (got, other, 70 * 40 * 16), "one seed, two pictures");
  CHECK (! ops_network_runs || ops_network_runs () == before, "it was made twice");
  g_free (other);
  other = apply ("zenith:identity-source", "width=70 height=40 seed=6", NULL, NULL, NULL);
  CHECK (memcmp (got, other, 70 * 40 * 16), "two seeds, one picture");
  g_free (other);
  g_free (got);
  g_free (status);
  run_free (&run);
}

static void
test_what_fails (void)
{
  GeglBuffer *in   = picture ("R'G'B'A float", 0, 0, 40, 30, 65);
  gfloat     *want = pixels_of (in, GEGL_RECTANGLE (0, 0, 40, 30), "R'G'B'A float");
  gfloat     *got;
  gchar      *status;

  got = apply ("zenith:identity-pair", "width=80 engine=" ABSENT, in, &status, NULL);
  CHECK (strstr (status, ABSENT), "the status is '%s'", status);
  CHECK (! memcmp (got, want, 40 * 30 * 16), "pixels were lost");
  g_free (got);
  g_free (status);

  got = apply ("zenith:identity-pair", "width=60000 height=60000", in, &status, NULL);
  CHECK (strstr (status, "too large"), "the status is '%s'", status);
  CHECK (! memcmp (got, want, 40 * 30 * 16), "pixels were lost");
  g_free (got);
  g_free (status);

  got = apply ("zenith:identity-source", "width=8 height=8 engine=" ABSENT, NULL, &status, NULL);
  CHECK (strstr (status, ABSENT), "the status is '%s'", status);
  for (gint i = 0; i < 8 * 8 * 4; i++)
    CHECK (got[i] == 0.0f, "a source that failed is not transparent");
  g_free (got);
  g_free (status);
  g_free (want);
  g_object_unref (in);
}

int
main (int argc, char **argv)
{
  if (! ops_begin (&argc, &argv))
    return 1;

  RUN (test_two_pictures);
  RUN (test_results_are_kept);
  RUN (test_one_picture_and_another_size);
  RUN (test_no_picture);
  RUN (test_what_fails);

  return ops_end ();
}
