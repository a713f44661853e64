/* SPDX-License-Identifier: MIT */
/* test_formats.c - formats, colour spaces, alpha, NaN and infinity, sizes, places. */

#include "ops.h"

/* ---- formats ----------------------------------------------------------- */

static void
test_identity_is_exact_in_every_format (void)
{
  static const gchar *const formats[] = {
    "R'G'B' u8",    "R'G'B'A u8",    "R'G'B' u16", "R'G'B'A u16", "R'G'B' half", "R'G'B'A half",
    "R'G'B' float", "R'G'B'A float", "Y' u8",      "Y'A u8",      "Y' u16",      "Y'A u16",
  };

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    {
      const GeglRectangle box  = { 3, -5, 61, 43 };
      GeglBuffer         *in   = picture (formats[i], box.x, box.y, box.width, box.height, i);
      GeglBuffer         *out  = gegl_buffer_new (&box, babl_format (formats[i]));
      Run                 run  = run_new ("zenith:identity", "", in);
      gsize               size = (gsize) box.width * box.height *
                   babl_format_get_bytes_per_pixel (babl_format (formats[i]));
      gfloat *a, *b;
      gint    same;

      gegl_node_blit_buffer (run.op, out, &box, 0, GEGL_ABYSS_NONE);
      a    = pixels_of (in, &box, formats[i]);
      b    = pixels_of (out, &box, formats[i]);
      same = memcmp (a, b, size) == 0;
      run_free (&run);
      g_object_unref (in);
      g_object_unref (out);
      g_free (a);
      g_free (b);
      CHECK (same, "%s came out different", formats[i]);
    }
}

static void
test_every_filter_takes_every_format (void)
{
  static const gchar *const formats[] = {
    "R'G'B'A u8", "RGBA u16", "RGB half", "RGBA float",
    "Y' u8",      "Y'A u16",  "Y float",  "R'G'B'A double",
  };

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    for (guint j = 0; j < N_FILTERS; j++)
      {
        GeglBuffer   *in = picture (formats[i], 0, 0, 40, 33, 1);
        GeglRectangle box;
        gchar        *status;
        gfloat       *out = apply (filters[j].name, filters[j].settings, in, &status, &box);
        gboolean      ok  = all_finite (out, (gsize) box.width * box.height * 4);

        g_free (out);
        g_object_unref (in);
        CHECK (! *status, "%s of %s: %s", filters[j].name, formats[i], status);
        CHECK (ok && box.width == 40 && box.height == 33, "%s of %s: %dx%d, finite: %d",
               filters[j].name, formats[i], box.width, box.height, ok);
        g_free (status);
      }
}

static void
test_indexed_picture (void)
{
  static const guchar colours[4][3] = {
    { 10, 20, 30 }, { 200, 40, 90 }, { 255, 255, 0 }, { 0, 128, 255 }
  };
  const GeglRectangle box = { 0, 0, 37, 29 };
  const Babl         *indexed, *indexed_alpha;
  GeglBuffer         *in;
  guchar              index[37 * 29];
  gfloat             *a, *b;
  gchar              *status;
  gdouble             off;

  babl_new_palette ("zenith-test", &indexed, &indexed_alpha);
  babl_palette_set_palette (indexed, babl_format ("R'G'B' u8"), (gpointer) colours, 4);
  for (guint i = 0; i < sizeof (index); i++)
    index[i] = (guchar) (i % 37 / 10);

  in = gegl_buffer_new (&box, indexed);
  gegl_buffer_set (in, NULL, 0, indexed, index, GEGL_AUTO_ROWSTRIDE);
  a   = pixels_of (in, &box, "R'G'B'A float");
  b   = apply ("zenith:identity", "", in, &status, NULL);
  off = difference (a, b, sizeof (index) * 4);
  g_free (b);
  CHECK (! *status && off < 1e-6, "identity is %g off (%s)", off, status);
  g_free (status);

  for (guint j = 0; j < N_FILTERS; j++)
    {
      b = apply (filters[j].name, filters[j].settings, in, &status, NULL);
      CHECK (! *status && all_finite (b, sizeof (index) * 4), "%s: %s", filters[j].name, status);
      g_free (b);
      g_free (status);
    }

  /* Same indices, other colours: not the same picture. */
  babl_palette_set_palette (indexed, babl_format ("R'G'B' u8"), (gpointer) (colours + 1), 3);
  b   = apply ("zenith:identity", "", in, NULL, NULL);
  off = difference (a, b, sizeof (index) * 4);
  CHECK (off > 0.1, "a new palette gave the old picture");
  g_free (a);
  g_free (b);
  g_object_unref (in);
}

static void
test_wide_gamut_space (void)
{
  const Babl   *space    = babl_space ("Adobish") ? babl_space ("Adobish") : babl_space ("Rec2020");
  const gchar  *encoding = "R'G'B'A float";
  GeglRectangle box      = { 0, 0, 33, 21 };
  GeglBuffer   *in;
  Run           run;
  const Babl   *format;
  gfloat       *a, *b;

  if (! space)
    SKIP ("this babl has no second colour space");

  format = babl_format_with_space (encoding, space);
  in     = gegl_buffer_new (&box, format);
  a      = pixels_of (picture (encoding, 0, 0, 33, 21, 3), &box, encoding);
  b      = g_new0 (gfloat, 33 * 21 * 4);
  gegl_buffer_set (in, &box, 0, format, a, GEGL_AUTO_ROWSTRIDE);
  run = run_new ("zenith:identity", "", in);
  gegl_node_blit (run.op, 1.0, &box, format, b, GEGL_AUTO_ROWSTRIDE, GEGL_BLIT_DEFAULT);
  CHECK (difference (a, b, 33 * 21 * 4) < 1e-6, "%g off", difference (a, b, 33 * 21 * 4));
  run_free (&run);
  g_object_unref (in);
  g_free (a);
  g_free (b);
}

/* A picture in a space without a curve is denoised as the same picture in sRGB is: the
 * network never sees linear values. */
static void
test_linear_profile (void)
{
  const Babl *srgb  = babl_format ("R'G'B' float");
  const Babl *space = babl_space_from_chromaticities (
      NULL, 0.3127, 0.3290, 0.64, 0.33, 0.30, 0.60, 0.15, 0.06, babl_trc ("linear"), NULL, NULL, 0);
  GeglRectangle box   = { 0, 0, 33, 21 };
  GeglBuffer   *plain = picture ("R'G'B' float", 0, 0, 33, 21, 3);
  GeglBuffer   *linear;
  gfloat        a[33 * 21 * 3], b[33 * 21 * 3];
  Run           run;

  if (! space)
    SKIP ("this babl makes no linear space");
  linear = gegl_buffer_new (&box, babl_format_with_space ("R'G'B' float", space));
  gegl_buffer_copy (plain, &box, GEGL_ABYSS_NONE, linear, &box);
  for (gint i = 0; i < 2; i++)
    {
      run = run_new ("zenith:denoise", "model=fast sigma=20", i ? linear : plain);
      gegl_node_blit (run.op, 1.0, &box, srgb, i ? b : a, GEGL_AUTO_ROWSTRIDE, GEGL_BLIT_DEFAULT);
      run_free (&run);
    }
  CHECK (difference (a, b, 33 * 21 * 3) < 1e-3, "%g off", difference (a, b, 33 * 21 * 3));
  g_object_unref (plain);
  g_object_unref (linear);
}

/* Numbers mean the same in every space: a wide one is neither converted nor cut. */
static void
test_denoise_of_a_wide_gamut (void)
{
  const Babl *space = babl_space ("ProPhoto") ? babl_space ("ProPhoto") : babl_space ("Rec2020");
  const GeglRectangle box = { 0, 0, 80, 60 };
  GeglBuffer         *in  = picture ("R'G'B' float", 0, 0, 80, 60, 44);
  const Babl         *format;
  GeglBuffer         *wide;
  gfloat             *a, *b;
  Run                 run;

  if (! space)
    SKIP ("this babl has no second colour space");

  format = babl_format_with_space ("R'G'B' float", space);
  wide   = gegl_buffer_new (&box, format);
  a      = pixels_of (in, &box, "R'G'B' float");
  gegl_buffer_set (wide, &box, 0, format, a, GEGL_AUTO_ROWSTRIDE);
  run = run_new ("zenith:denoise", "model=fast sigma=20", in);
  gegl_node_blit (run.op, 1.0, &box, babl_format ("R'G'B' float"), a, GEGL_AUTO_ROWSTRIDE,
                  GEGL_BLIT_DEFAULT);
  run_free (&run);
  b   = g_new0 (gfloat, 80 * 60 * 3);
  run = run_new ("zenith:denoise", "model=fast sigma=20", wide);
  gegl_node_blit (run.op, 1.0, &box, format, b, GEGL_AUTO_ROWSTRIDE, GEGL_BLIT_DEFAULT);
  run_free (&run);
  CHECK (difference (a, b, 80 * 60 * 3) < 1e-5, "%g off", difference (a, b, 80 * 60 * 3));
  g_free (a);
  g_free (b);
  g_object_unref (in);
  g_object_unref (wide);
}

/* One picture of 256 levels in 8, 16 and 32 bits, with alpha or without, gives one result;
 * a grey one too, whether it is kept as grey or as colours. */
static void
test_denoise_is_the_same_in_every_depth (void)
{
  static const gchar *const formats[2][7] = {
    { "R'G'B' u8", "R'G'B' u16", "R'G'B' float", "R'G'B'A u16", "R'G'B'A double", "RGB float",
      "RaGaBaA float" },
    { "R'G'B' u8", "Y' u8", "Y' u16", "Y'A u8", "Y' float", "Y float", "YA float" },
  };
  const GeglRectangle box = { 0, 0, 90, 70 };

  for (gint grey = 0; grey < 2; grey++)
    {
      GeglBuffer *in   = picture (grey ? "Y' u8" : "R'G'B' u8", 0, 0, 90, 70, 45);
      gfloat     *was  = pixels_of (in, &box, "R'G'B'A float");
      gfloat     *want = NULL;
      gdouble     step = 0.0; /* of the form in which the network's change is kept */

      for (guint i = 0; i < G_N_ELEMENTS (formats[0]); i++)
        {
          GeglBuffer *other = gegl_buffer_new (&box, babl_format (formats[grey][i]));
          gfloat     *got;
          gdouble     off = 0.0;

          gegl_buffer_copy (in, &box, GEGL_ABYSS_NONE, other, &box);
          got = apply ("zenith:denoise", "model=fast precision=fp32", other, NULL, NULL);
          if (want)
            off = difference (want, got, 90 * 70 * 4);
          else
            want = g_memdup2 (got, 90 * 70 * 16);
          step = difference (want, was, 90 * 70 * 4) / 32767;
          g_free (got);
          g_object_unref (other);
          CHECK (off < 2e-5 + step, "%s is %g off", formats[grey][i], off);
        }
      g_free (was);
      g_free (want);
      g_object_unref (in);
    }
}

/* ---- alpha and bad values ---------------------------------------------- */

static void
test_alpha_and_hidden_colours_are_kept (void)
{
  const GeglRectangle box = { 0, 0, 70, 45 };
  const gsize         n   = 70 * 45;
  GeglBuffer         *in  = picture ("R'G'B'A float", 0, 0, 70, 45, 4);
  gfloat             *a   = pixels_of (in, &box, "R'G'B'A float");

  for (guint j = 0; j < N_FILTERS; j++)
    {
      gfloat *b = apply (filters[j].name, filters[j].settings, in, NULL, NULL);

      for (gsize i = 0; i < n; i++)
        {
          CHECK (a[i * 4 + 3] == b[i * 4 + 3], "%s changed alpha at %zu", filters[j].name, i);
          CHECK (a[i * 4 + 3] > 0.0f || ! memcmp (a + i * 4, b + i * 4, 16),
                 "%s changed a hidden colour at %zu", filters[j].name, i);
        }
      g_free (b);
    }
  g_object_unref (in);
  g_free (a);
}

static void
test_hidden_colours_do_not_leak (void)
{
  const GeglRectangle box = { 0, 0, 70, 45 };
  const gsize         n   = 70 * 45;
  GeglBuffer         *in  = picture ("R'G'B'A float", 0, 0, 70, 45, 5);
  GeglBuffer         *bad = gegl_buffer_dup (in);
  gfloat             *a   = pixels_of (in, &box, "R'G'B'A float");

  for (gsize i = 0; i < n; i++)
    if (a[i * 4 + 3] == 0.0f)
      a[i * 4] = a[i * 4 + 1] = i % 2 ? NAN : 1e30f;
  gegl_buffer_set (bad, &box, 0, babl_format ("R'G'B'A float"), a, GEGL_AUTO_ROWSTRIDE);

  for (guint j = 1; j < N_FILTERS; j++)
    {
      gfloat *b = apply (filters[j].name, filters[j].settings, in, NULL, NULL);
      gfloat *c = apply (filters[j].name, filters[j].settings, bad, NULL, NULL);

      for (gsize i = 0; i < n; i++)
        CHECK (a[i * 4 + 3] == 0.0f || ! memcmp (b + i * 4, c + i * 4, 16),
               "%s: a hidden colour shows at %zu", filters[j].name, i);
      g_free (b);
      g_free (c);
    }
  g_object_unref (in);
  g_object_unref (bad);
  g_free (a);
}

static void
test_nan_and_infinity_stay_where_they_are (void)
{
  static const gfloat bad[] = { NAN, INFINITY, -INFINITY, 1e30f, -7.0f };
  const GeglRectangle box   = { 0, 0, 64, 48 };
  GeglBuffer         *in    = picture ("R'G'B' float", 0, 0, 64, 48, 6);
  gfloat              p[3]  = { 0.5f, 0.5f, 0.5f };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      p[i % 3] = bad[i];
      gegl_buffer_set (in, GEGL_RECTANGLE (10 + (gint) i * 10, 20, 1, 1), 0,
                       babl_format ("R'G'B' float"), p, GEGL_AUTO_ROWSTRIDE);
      p[i % 3] = 0.5f;
    }

  for (guint j = 0; j < N_FILTERS; j++)
    {
      gfloat *b = apply (filters[j].name, filters[j].settings, in, NULL, NULL);

      for (gint i = 0; i < box.width * box.height; i++)
        if (i / 64 != 20 || i % 64 % 10 != 0)
          CHECK (all_finite (b + i * 4, 4) && fabsf (b[i * 4]) < 100.0f, "%s: pixel %d,%d is %g",
                 filters[j].name, i % 64, i / 64, b[i * 4]);
      CHECK (all_finite (b + (20 * 64 + 10) * 4, 4), "%s: NaN stayed", filters[j].name);
      g_free (b);
    }
  g_object_unref (in);
}

static void
test_denoise_keeps_what_lies_beyond (void)
{
  const GeglRectangle box   = { 0, 0, 48, 48 };
  const gsize         n     = 48 * 48 * 4;
  GeglBuffer         *in    = picture ("R'G'B'A float", 0, 0, 48, 48, 7);
  gfloat             *a     = pixels_of (in, &box, "R'G'B'A float");
  gfloat             *cut   = g_memdup2 (a, n * sizeof (gfloat));
  GeglBuffer         *other = gegl_buffer_dup (in);
  gfloat             *b, *c;

  for (gsize i = 0; i < n; i++)
    if (i % 4 < 3)
      {
        a[i]   = a[i] * 4.0f - 1.0f; /* -1 .. 3 */
        cut[i] = CLAMP (a[i], 0.0f, 1.0f);
      }
    else
      {
        a[i] = cut[i] = 1.0f;
      }
  gegl_buffer_set (in, &box, 0, babl_format ("R'G'B'A float"), a, GEGL_AUTO_ROWSTRIDE);
  gegl_buffer_set (other, &box, 0, babl_format ("R'G'B'A float"), cut, GEGL_AUTO_ROWSTRIDE);
  b = apply ("zenith:denoise", "model=fast sigma=10", in, NULL, NULL);
  c = apply ("zenith:denoise", "model=fast sigma=10", other, NULL, NULL);

  /* What the network does to the cut picture is done to the whole one. */
  for (gsize i = 0; i < n; i++)
    CHECK (fabsf ((b[i] - a[i]) - (c[i] - cut[i])) < 1e-5f, "value %g became %g, cut %g became %g",
           a[i], b[i], cut[i], c[i]);
  g_free (a);
  g_free (b);
  g_free (c);
  g_free (cut);
  g_object_unref (in);
  g_object_unref (other);
}

/* ---- sizes and places -------------------------------------------------- */

/* A linear picture goes through our own curve and back: nothing that a float can hold
 * is lost on the way, and alpha and hidden colours are not touched. */
static void
test_denoise_keeps_light (void)
{
  static const gfloat light[] = { -7.0f, -0.01f, 0.0f, 1e-4f, 0.0031f, 0.0032f,
                                  0.18f, 0.9f,   1.0f, 3.5f,  1e3f,    1e30f };
  const GeglRectangle box     = { 0, 0, 61, 43 };
  const gsize         n       = 61 * 43;
  const Babl         *format  = babl_format ("RGBA float");
  GeglBuffer         *in      = gegl_buffer_new (&box, format);
  gfloat             *a       = g_new (gfloat, n * 4);
  gfloat             *b       = g_new (gfloat, n * 4);
  Run                 run;

  for (gsize i = 0; i < n * 4; i++)
    a[i] = i % 4 < 3 ? light[(i * 7 + i / 64) % G_N_ELEMENTS (light)] : (i / 4) % 5 / 4.0f;
  gegl_buffer_set (in, &box, 0, format, a, GEGL_AUTO_ROWSTRIDE);
  run = run_new ("zenith:denoise", "model=fast sigma=20 strength=1e-12", in);
  gegl_node_blit (run.op, 1.0, &box, format, b, GEGL_AUTO_ROWSTRIDE, GEGL_BLIT_DEFAULT);
  for (gsize i = 0; i < n * 4; i++)
    CHECK (fabsf (a[i] - b[i]) <=
               (i % 4 < 3 && a[i | 3] > 0.0f ? 1e-6f * fmaxf (fabsf (a[i]), 1.0f) : 0.0f),
           "%.9g became %.9g at %zu", a[i], b[i], i);
  run_free (&run);
  g_object_unref (in);
  g_free (a);
  g_free (b);
}

static void
test_small_pictures (void)
{
  static const gint sizes[][2] = { { 1, 1 }, { 3, 5 }, { 1, 40 }, { 40, 1 },
                                   { 7, 9 }, { 8, 8 }, { 33, 31 } };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint j = 0; j < N_FILTERS; j++)
      {
        GeglBuffer   *in = picture ("R'G'B'A u8", 0, 0, sizes[i][0], sizes[i][1], 8);
        GeglRectangle box;
        gchar        *status;
        gfloat       *out = apply (filters[j].name, filters[j].settings, in, &status, &box);

        CHECK (! *status && box.width == sizes[i][0] && box.height == sizes[i][1] &&
                   all_finite (out, (gsize) box.width * box.height * 4),
               "%s of %dx%d: %dx%d %s", filters[j].name, sizes[i][0], sizes[i][1], box.width,
               box.height, status);
        g_free (status);
        g_free (out);
        g_object_unref (in);
      }
}

static void
test_the_place_of_a_layer_changes_nothing (void)
{
  for (guint j = 0; j < N_FILTERS; j++)
    {
      GeglBuffer   *a = picture ("R'G'B'A float", 0, 0, 90, 50, 9);
      GeglBuffer   *b = picture ("R'G'B'A float", -37, 1021, 90, 50, 9);
      GeglRectangle box;
      gfloat       *x = apply (filters[j].name, filters[j].settings, a, NULL, NULL);
      gfloat       *y = apply (filters[j].name, filters[j].settings, b, NULL, &box);

      CHECK (box.x == -37 && box.y == 1021, "%s moved the layer", filters[j].name);
      CHECK (! memcmp (x, y, 90 * 50 * 16), "%s: %g off", filters[j].name,
             difference (x, y, 90 * 50 * 4));
      g_free (x);
      g_free (y);
      g_object_unref (a);
      g_object_unref (b);
    }
}

int
main (int argc, char **argv)
{
  if (! ops_begin (&argc, &argv))
    return 1;

  RUN (test_identity_is_exact_in_every_format);
  RUN (test_every_filter_takes_every_format);
  RUN (test_indexed_picture);
  RUN (test_wide_gamut_space);
  RUN (test_linear_profile);
  RUN (test_denoise_of_a_wide_gamut);
  RUN (test_denoise_is_the_same_in_every_depth);
  RUN (test_alpha_and_hidden_colours_are_kept);
  RUN (test_hidden_colours_do_not_leak);
  RUN (test_nan_and_infinity_stay_where_they_are);
  RUN (test_denoise_keeps_what_lies_beyond);
  RUN (test_denoise_keeps_light);
  RUN (test_small_pictures);
  RUN (test_the_place_of_a_layer_changes_nothing);

  return ops_end ();
}
