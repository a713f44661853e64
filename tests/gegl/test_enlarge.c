/* SPDX-License-Identifier: MIT */
/* test_enlarge.c - zenith:upscale: the size of its result, regions, alpha, formats, failures.
 *
 *   test_enlarge              all tests
 *   test_enlarge --regions    one part of them, run by the above with ZENITH_CACHE=0
 */

#include "ops.h"

static const gchar *const scales[] = { "scale=2", "scale=3 noise=5", "scale=4 artefacts=30" };

/* The size and place of the result, for pictures of any size. */
static void
test_bounding_box (void)
{
  static const GeglRectangle boxes[] = {
    { 0, 0, 1, 1 }, { 3, -5, 2, 3 }, { -7, 11, 61, 1 }, { 5, 4, 97, 23 }
  };

  for (guint i = 0; i < G_N_ELEMENTS (boxes); i++)
    for (gint s = 2; s <= 4; s++)
      {
        const GeglRectangle *b  = &boxes[i];
        GeglBuffer          *in = picture ("R'G'B'A u8", b->x, b->y, b->width, b->height, i);
        GeglRectangle        box;
        gchar               *status;
        gfloat              *out = apply ("zenith:upscale", scales[s - 2], in, &status, &box);

        CHECK (! *status && box.x == s * b->x && box.y == s * b->y && box.width == s * b->width &&
                   box.height == s * b->height,
               "%d x %d, x%d: %d,%d %dx%d, '%s'", b->width, b->height, s, box.x, box.y, box.width,
               box.height, status);
        CHECK (all_finite (out, (gsize) box.width * box.height * 4), "not finite");
        g_free (status);
        g_free (out);
        g_object_unref (in);
      }
}

/* Run with ZENITH_CACHE=0: each region is computed for itself, to the bit. */
static void
test_regions_without_a_cache (void)
{
  GeglBuffer *in   = picture ("R'G'B'A u8", 11, -7, 331, 207, 19);
  GRand      *rand = g_rand_new_with_seed (20);

  for (gint s = 2; s <= 4; s++)
    {
      GeglRectangle box;
      gfloat       *whole = apply ("zenith:upscale", scales[s - 2], in, NULL, &box);

      for (gint i = 0; i < 4; i++)
        {
          GeglRectangle r;
          const gdouble most = region_difference (&r, rand, G_MAXINT / 2, "zenith:upscale",
                                                  scales[s - 2], in, whole, &box);

          CHECK (most == 0.0, "x%d: %d,%d %dx%d is %g off", s, r.x, r.y, r.width, r.height, most);
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

/* What changes in the picture changes in the result, and what is kept is not made again. */
static void
test_a_brush_stroke_shows (void)
{
  static const gfloat red[4] = { 1.0f, 0.0f, 0.0f, 1.0f };
  GeglBuffer         *in     = picture ("R'G'B'A float", 0, 0, 300, 200, 21);
  Run                 run    = run_new ("zenith:upscale", "model=small", in);
  gfloat             *before = run_pixels (&run, &run.box), *after, *fresh;
  guint               runs;

  for (gint i = 0; i < 20; i++)
    gegl_buffer_set (in, GEGL_RECTANGLE (170 + i, 100, 1, 1), 0, babl_format ("R'G'B'A float"), red,
                     GEGL_AUTO_ROWSTRIDE);
  after = run_pixels (&run, &run.box);
  runs  = ops_network_runs ? ops_network_runs () : 0;
  fresh = apply ("zenith:upscale", "model=small", in, NULL, NULL);
  CHECK (memcmp (before, after, 600 * 400 * 16), "nothing changed");
  CHECK (! memcmp (fresh, after, 600 * 400 * 16), "%g off",
         difference (fresh, after, 600 * 400 * 4));
  CHECK (! ops_network_runs || ops_network_runs () == runs, "the network ran again");
  g_free (before);
  g_free (after);
  g_free (fresh);
  run_free (&run);
  g_object_unref (in);
}

/* The mean of 2 x 2 pixels of the result is about the picture: places and colours are right, in every format. */
static void
test_formats (void)
{
  static const struct
  {
    const gchar *name;
    gdouble      most; /* difference of the mean */
  } formats[] = { { "R'G'B' u8", 0.12 },   { "R'G'B'A u8", 0.12 }, { "R'G'B' u16", 0.12 },
                  { "R'G'B'A u16", 0.12 }, { "RGB float", 0.12 },  { "RGBA float", 0.12 },
                  { "Y' u8", 0.12 },       { "Y'A u16", 0.12 },    { "R'G'B'A half", 0.12 } };

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    {
      const GeglRectangle box = { 4, 3, 90, 70 };
      GeglBuffer         *in  = picture (formats[i].name, 4, 3, 90, 70, 5);
      gfloat             *x   = pixels_of (in, &box, "R'G'B'A float");
      gfloat             *y   = apply ("zenith:upscale", "model=small noise=-1", in, NULL, NULL);
      gdouble             sum = 0.0, most = 0.0;

      for (gint j = 4; j < 66; j++)
        for (gint k = 4; k < 86; k++)
          {
            const gfloat *a = y + ((gsize) (2 * j) * 180 + 2 * k) * 4, *b = a + 180 * 4;
            const gfloat *p = x + ((gsize) j * 90 + k) * 4;

            if (p[3] == 0.0f)
              continue;
            for (gint c = 0; c < 3; c++)
              {
                const gdouble off = fabs ((a[c] + a[c + 4] + b[c] + b[c + 4]) / 4.0 - p[c]);

                sum += off;
                most = fmax (most, off);
              }
          }
      CHECK (most < formats[i].most && sum / (62 * 82 * 3) < 0.02, "%s: %g off, mean %g",
             formats[i].name, most, sum / (62 * 82 * 3));
      g_free (x);
      g_free (y);
      g_object_unref (in);
    }
}

/* Alpha is enlarged, what is opaque stays so, and colours of hidden pixels do not bleed. */
static void
test_alpha (void)
{
  GeglBuffer *in  = gegl_buffer_new (GEGL_RECTANGLE (0, 0, 60, 40), babl_format ("R'G'B'A u8"));
  guchar     *rgb = g_new (guchar, 60 * 40 * 4);
  gfloat     *out;

  for (gint i = 0; i < 60 * 40; i++) /* left: opaque blue; right: hidden red */
    {
      const gboolean left = i % 60 < 30;

      rgb[4 * i]     = left ? 20 : 255;
      rgb[4 * i + 1] = 40;
      rgb[4 * i + 2] = left ? 200 : 0;
      rgb[4 * i + 3] = left ? 255 : 0;
    }
  gegl_buffer_set (in, NULL, 0, babl_format ("R'G'B'A u8"), rgb, GEGL_AUTO_ROWSTRIDE);
  out = apply ("zenith:upscale", "scale=4", in, NULL, NULL);
  for (gint y = 0; y < 160; y++)
    for (gint x = 0; x < 240; x++)
      {
        const gfloat *p = out + ((gsize) y * 240 + x) * 4;

        CHECK (x >= 112 || p[3] == 1.0f, "at %d,%d alpha is %g", x, y, p[3]);
        CHECK (x < 128 || (p[3] == 0.0f && p[0] == 1.0f), "at %d,%d alpha is %g, red %g", x, y,
               p[3], p[0]);
        CHECK (p[3] >= 0.0f && p[3] <= 1.0f, "alpha is %g", p[3]);
        CHECK (p[3] == 0.0f ||
                   (fabsf (p[0] - 20 / 255.0f) < 0.05f && fabsf (p[2] - 200 / 255.0f) < 0.05f),
               "at %d,%d a hidden colour shows: %g %g %g", x, y, p[0], p[1], p[2]);
      }
  g_free (out);
  g_free (rgb);
  g_object_unref (in);
}

/* Values that no network sees. */
static void
test_bad_values (void)
{
  GeglBuffer *in = gegl_buffer_new (GEGL_RECTANGLE (0, 0, 40, 30), babl_format ("R'G'B'A float"));
  gfloat     *p  = g_new (gfloat, 40 * 30 * 4);
  gfloat     *out;

  for (gint i = 0; i < 40 * 30; i++)
    {
      p[4 * i]     = 3.5f;
      p[4 * i + 1] = -0.25f;
      p[4 * i + 2] = i == 610 ? NAN : i == 630 ? INFINITY : 0.5f;
      p[4 * i + 3] = 1.0f;
    }
  gegl_buffer_set (in, NULL, 0, babl_format ("R'G'B'A float"), p, GEGL_AUTO_ROWSTRIDE);
  out = apply ("zenith:upscale", "scale=2 model=small", in, NULL, NULL);
  CHECK (all_finite (out, 80 * 60 * 4), "not finite");
  for (gint i = 0; i < 80 * 60; i++)
    CHECK (fabsf (out[4 * i] - 3.5f) < 0.3f && fabsf (out[4 * i + 1] + 0.25f) < 0.3f,
           "%g and %g are lost", out[4 * i], out[4 * i + 1]);
  g_free (out);
  g_free (p);
  g_object_unref (in);
}

static void
on_progress (GeglNode *node, gdouble value, gpointer data)
{
  (void) value;
  (void) data;
  g_object_set_data (G_OBJECT (node), "zenith-cancel", GINT_TO_POINTER (TRUE));
}

/* Without a network the picture passes as it is; where one stops, the result has the size that was
 * announced. */
static void
test_failures (void)
{
  GeglBuffer   *in     = picture ("R'G'B'A float", 0, 0, 90, 70, 33);
  gfloat       *was    = pixels_of (in, gegl_buffer_get_extent (in), "R'G'B'A float"), *out, *again;
  gchar        *models = g_strdup (g_getenv ("ZENITH_MODELS")), *status;
  GeglRectangle box;
  Run           run;

  g_setenv ("ZENITH_MODELS", "/nowhere", TRUE);
  out = apply ("zenith:upscale", "scale=3", in, &status, &box);
  g_setenv ("ZENITH_MODELS", models, TRUE);
  CHECK (*status && box.width == 90 && box.height == 70, "'%s', %d x %d", status, box.width,
         box.height);
  CHECK (! memcmp (out, was, 90 * 70 * 16), "it did not pass");
  g_free (out);
  g_free (status);

  run = run_new ("zenith:upscale", "scale=3 noise=1", in);
  g_signal_connect (run.op, "progress", G_CALLBACK (on_progress), NULL);
  out    = run_pixels (&run, &run.box);
  status = run_status (&run);
  CHECK (*status && run.box.width == 270, "'%s', %d", status, run.box.width);
  CHECK (all_finite (out, 270 * 210 * 4), "not finite");
  CHECK (fabs (out[(100 * 270 + 100) * 4 + 1] - was[(33 * 90 + 33) * 4 + 1]) < 0.2,
         "not the picture");
  again = apply ("zenith:upscale", "scale=3 noise=1", in, NULL, NULL);
  CHECK (memcmp (out, again, 270 * 210 * 16), "it was not stopped");
  g_free (again);
  g_free (out);
  g_free (status);
  g_free (was);
  g_free (models);
  run_free (&run);
  g_object_unref (in);
}

/* -1: there is none of it; a network that is told so does not look for it. */
static void
test_restore_is_told (void)
{
  static const gchar *const settings[] = { "",         "deblur=1.6",   "artefacts=60",
                                           "noise=20", "artefacts=-1", "dust=1",
                                           "fading=1" };
  GeglBuffer               *in         = picture ("R'G'B'A u8", 0, 0, 80, 60, 34);
  gfloat                   *out[G_N_ELEMENTS (settings)];

  for (guint i = 0; i < G_N_ELEMENTS (settings); i++)
    {
      gchar *status;

      out[i] = apply ("zenith:restore", settings[i], in, &status, NULL);
      CHECK (! *status, "%s: '%s'", settings[i], status);
      for (guint j = 0; j < i; j++)
        CHECK (memcmp (out[i], out[j], 80 * 60 * 16), "'%s' is '%s'", settings[i], settings[j]);
      g_free (status);
    }
  for (guint i = 0; i < G_N_ELEMENTS (settings); i++)
    g_free (out[i]);
  g_object_unref (in);
}

/* Blocks of 8x8 with multiples of a cosine along x, along y, and both, as JPEG files of a low quality have them. */
static GeglBuffer *
blocks (void)
{
  const GeglRectangle box    = { 0, 0, 160, 128 };
  GeglBuffer         *buffer = gegl_buffer_new (&box, babl_format ("R'G'B' u8"));
  guchar             *pixels = g_malloc (160 * 128 * 3), *p = pixels;

  for (gint y = 0; y < 128; y++)
    for (gint x = 0; x < 160; x++, p += 3)
      {
        const guint   seed  = (guint) (y / 8 * 20 + x / 8 + 1) * 2654435761u;
        const gdouble along = cos ((2 * (x % 8) + 1) * G_PI / 16);
        const gdouble down  = cos ((2 * (y % 8) + 1) * G_PI / 16);

        p[0] = p[1] = p[2] = (guchar) (96.5 + (seed >> 26) + 8 * (1 + (seed >> 8) % 3) * along +
                                       8 * (1 + (seed >> 12) % 3) * down +
                                       8 * (1 + (seed >> 16) % 3) * along * down);
      }
  gegl_buffer_set (buffer, &box, 0, babl_format ("R'G'B' u8"), pixels, GEGL_AUTO_ROWSTRIDE);
  g_free (pixels);

  return buffer;
}

static void
numbers_of (const Run *run, gdouble number[3])
{
  gegl_node_get (run->op, "measured-blur", &number[0], "measured-artefacts", &number[1],
                 "measured-noise", &number[2], NULL);
}

/* What restore found can be read; what is given replaces it. */
static void
test_restore_says_what_it_found (void)
{
  GeglBuffer *in   = blocks ();
  Run         run  = run_new ("zenith:restore", "", in);
  gchar      *text = run_text (&run, "measured"), *number;
  gdouble     found[3];

  numbers_of (&run, found);
  CHECK (! *text && found[0] == -1.0 && found[2] == -1.0, "before anything ran: '%s', %g", text,
         found[0]);
  g_free (text);

  g_free (run_pixels (&run, &run.box));
  text = run_text (&run, "measured");
  numbers_of (&run, found);
  number = g_strdup_printf ("JPEG artifacts of %.0f,", found[1]);
  CHECK (found[1] > 0.0 && strstr (text, number), "%g: '%s'", found[1], text);
  CHECK (strstr (text, "blur") && found[2] == 0.0 && strstr (text, "little noise"), "'%s'", text);
  g_free (number);
  g_free (text);

  /* it settles: hosts render once more when they are told of a change, not endlessly */
  for (gint i = 0; i < 2; i++)
    {
      while (g_main_context_iteration (NULL, FALSE))
        ;
      g_free (run_pixels (&run, GEGL_RECTANGLE (i * 50, i, 64, 64)));
    }

  set_properties (run.op, "deblur=-1 artefacts=60 noise=3");
  g_free (run_pixels (&run, &run.box));
  text = run_text (&run, "measured");
  numbers_of (&run, found);
  CHECK (! *text && found[0] == -1.0 && found[1] == -1.0 && found[2] == -1.0, "given: '%s', %g",
         text, found[1]);
  g_free (text);
  run_free (&run);
  g_object_unref (in);
}

int
main (int argc, char **argv)
{
  const gchar *part = argc > 1 ? argv[1] : "";

  if (! ops_begin (&argc, &argv))
    return 1;

  if (! strcmp (part, "--regions"))
    {
      RUN (test_regions_without_a_cache);
    }
  else
    {
      RUN (test_bounding_box);
      RUN (test_regions_are_parts_of_the_whole);
      RUN (test_a_brush_stroke_shows);
      RUN (test_formats);
      RUN (test_alpha);
      RUN (test_bad_values);
      RUN (test_failures);
      RUN (test_restore_is_told);
      RUN (test_restore_says_what_it_found);
    }

  return ops_end ();
}
