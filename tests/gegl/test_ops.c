/* SPDX-License-Identifier: MIT */
/* test_ops.c - the GEGL operations, through libgegl, with the tiny networks of
 * tests/data/golden.
 *
 * Nothing here looks at how good a result is: the engine's tests do.  Here are
 * formats, alpha, sizes, places, bad values, bad weights, regions, the cache,
 * threads, progress, cancelling, memory.
 *
 *   test_ops              all tests
 *   test_ops --regions    one part of them, run by the above with ZENITH_CACHE=0
 *   test_ops --canvas     ..., with little memory
 *
 * meson gives OPS_DIR (the module), GEGL_DIR (GEGL's own) and DATA_DIR. */

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gegl.h>
#include <glib/gstdio.h>
#include <gmodule.h>

#include "../unit/test.h"

static const gchar *self;
static gchar       *folder;         /* weights by the names that users see */
static guint      (*network_runs) (void);

/* ---- pictures ------------------------------------------------------------- */

/* A smooth picture with noise; equal for equal seeds.  alpha: a ramp with holes. */
static GeglBuffer *
picture (const gchar *format,
         gint         x,
         gint         y,
         gint         w,
         gint         h,
         guint        seed)
{
  GeglBuffer *buffer = gegl_buffer_new (GEGL_RECTANGLE (x, y, w, h), babl_format (format));
  gfloat     *pixels = g_new (gfloat, (gsize) w * h * 4);
  GRand      *rand   = g_rand_new_with_seed (seed);
  gfloat     *p      = pixels;

  for (gint j = 0; j < h; j++)
    for (gint i = 0; i < w; i++, p += 4)
      {
        for (gint c = 0; c < 3; c++)
          p[c] = 0.5f + 0.3f * sinf (i * 0.05f + c) * cosf (j * 0.03f) +
                 0.1f * (gfloat) g_rand_double_range (rand, -1.0, 1.0);
        p[3] = (i + j) % 7 == 0 ? 0.0f : (gfloat) ((i * 3 + j) % 256) / 255.0f;
      }
  gegl_buffer_set (buffer, NULL, 0, babl_format ("R'G'B'A float"), pixels, GEGL_AUTO_ROWSTRIDE);
  g_rand_free (rand);
  g_free (pixels);

  return buffer;
}

static gfloat *
pixels_of (GeglBuffer          *buffer,
           const GeglRectangle *rect,
           const gchar         *format)
{
  const Babl *babl = babl_format (format);
  gfloat     *data = g_malloc ((gsize) rect->width * rect->height *
                               babl_format_get_bytes_per_pixel (babl));

  gegl_buffer_get (buffer, rect, 1.0, babl, data, GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);

  return data;
}

/* The largest difference of two pictures of one size; NaN where one is NaN. */
static gdouble
difference (const gfloat *a,
            const gfloat *b,
            gsize         n)
{
  gdouble most = 0.0;

  for (gsize i = 0; i < n; i++)
    {
      if (isnan (a[i]) != isnan (b[i]))
        return NAN;
      if (! isnan (a[i]) && fabs ((gdouble) a[i] - b[i]) > most)
        most = fabs ((gdouble) a[i] - b[i]);
    }

  return most;
}

static gboolean
all_finite (const gfloat *a,
            gsize         n)
{
  for (gsize i = 0; i < n; i++)
    if (! isfinite (a[i]))
      return FALSE;

  return TRUE;
}

/* ---- graphs --------------------------------------------------------------- */

typedef struct
{
  GeglNode      *graph, *source, *op;
  GeglRectangle  box;         /* of the operation's output */
} Run;

/* settings: "model=taef1 mode=latent"; values are numbers or nicks or texts. */
static void
set_properties (GeglNode    *op,
                const gchar *settings)
{
  gchar **list = g_strsplit (settings, " ", -1);

  for (gint i = 0; list[i] && *list[i]; i++)
    {
      gchar      **pair = g_strsplit (list[i], "=", 2);
      GParamSpec  *spec = gegl_node_find_property (op, pair[0]);

      g_assert (spec);
      if (G_TYPE_IS_ENUM (spec->value_type))
        {
          GEnumClass *klass = g_type_class_ref (spec->value_type);
          GEnumValue *value = g_enum_get_value_by_nick (klass, pair[1]);

          g_assert (value);
          gegl_node_set (op, pair[0], value->value, NULL);
          g_type_class_unref (klass);
        }
      else if (spec->value_type == G_TYPE_DOUBLE)
        {
          gegl_node_set (op, pair[0], g_ascii_strtod (pair[1], NULL), NULL);
        }
      else
        {
          gegl_node_set (op, pair[0], pair[1], NULL);
        }
      g_strfreev (pair);
    }
  g_strfreev (list);
}

static Run
run_new (const gchar *name,
         const gchar *settings,
         GeglBuffer  *input)
{
  Run run;

  run.graph  = gegl_node_new ();
  run.source = gegl_node_new_child (run.graph, "operation", "gegl:buffer-source",
                                    "buffer", input, NULL);
  run.op     = gegl_node_new_child (run.graph, "operation", name, NULL);
  gegl_node_link (run.source, run.op);
  set_properties (run.op, settings);
  run.box = gegl_node_get_bounding_box (run.op);

  return run;
}

/* R'G'B'A float pixels of the region. */
static gfloat *
run_pixels (Run                 *run,
            const GeglRectangle *rect)
{
  gfloat *data = g_new0 (gfloat, (gsize) rect->width * rect->height * 4);

  gegl_node_blit (run->op, 1.0, rect, babl_format ("R'G'B'A float"), data,
                  GEGL_AUTO_ROWSTRIDE, GEGL_BLIT_DEFAULT);

  return data;
}

static gchar *
run_status (Run *run)
{
  gchar *status = NULL;

  gegl_node_get (run->op, "status", &status, NULL);

  return status ? status : g_strdup ("");
}

static void
run_free (Run *run)
{
  g_object_unref (run->graph);
}

/* The whole result; *status and *box may be NULL. */
static gfloat *
apply (const gchar    *name,
       const gchar    *settings,
       GeglBuffer     *input,
       gchar         **status,
       GeglRectangle  *box)
{
  Run     run  = run_new (name, settings, input);
  gfloat *data = run_pixels (&run, &run.box);

  if (status)
    *status = run_status (&run);
  if (box)
    *box = run.box;
  run_free (&run);

  return data;
}

static const struct
{
  const gchar *name, *settings;
} filters[] =    /* that give back a picture of the same size */
{
  { "zenith:identity",       "" },
  { "zenith:denoise",        "model=fast" },
  { "zenith:denoise",        "model=fast sigma=20 detail=0.5 strength=1.2" },
  { "zenith:latent-preview", "model=taef1" },
  { "zenith:latent-preview", "model=taef2 mode=latent" },
  { "zenith:latent-preview", "model=taesana mode=difference" },
};

/* ---- formats -------------------------------------------------------------- */

static void
test_identity_is_exact_in_every_format (void)
{
  static const gchar *const formats[] =
  {
    "R'G'B' u8", "R'G'B'A u8", "R'G'B' u16", "R'G'B'A u16", "R'G'B' half", "R'G'B'A half",
    "R'G'B' float", "R'G'B'A float", "Y' u8", "Y'A u8", "Y' u16", "Y'A u16",
  };

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    {
      const GeglRectangle  box   = { 3, -5, 61, 43 };
      GeglBuffer          *in    = picture (formats[i], box.x, box.y, box.width, box.height, i);
      GeglBuffer          *out   = gegl_buffer_new (&box, babl_format (formats[i]));
      Run                  run   = run_new ("zenith:identity", "", in);
      gsize                size  = (gsize) box.width * box.height *
                                   babl_format_get_bytes_per_pixel (babl_format (formats[i]));
      gfloat              *a, *b;
      gint                 same;

      gegl_node_blit_buffer (run.op, out, &box, 0, GEGL_ABYSS_NONE);
      a = pixels_of (in, &box, formats[i]);
      b = pixels_of (out, &box, formats[i]);
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
  static const gchar *const formats[] =
  {
    "R'G'B'A u8", "RGBA u16", "RGB half", "RGBA float", "Y' u8", "Y'A u16", "Y float", "R'G'B'A double",
  };

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    for (guint j = 0; j < G_N_ELEMENTS (filters); j++)
      {
        GeglBuffer    *in = picture (formats[i], 0, 0, 40, 33, 1);
        GeglRectangle  box;
        gchar         *status;
        gfloat        *out = apply (filters[j].name, filters[j].settings, in, &status, &box);
        gboolean       ok  = all_finite (out, (gsize) box.width * box.height * 4);

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
  static const guchar colours[4][3] = { { 10, 20, 30 }, { 200, 40, 90 }, { 255, 255, 0 }, { 0, 128, 255 } };
  const GeglRectangle  box = { 0, 0, 37, 29 };
  const Babl          *indexed, *indexed_alpha;
  GeglBuffer          *in;
  guchar               index[37 * 29];
  gfloat              *a, *b;
  gchar               *status;
  gdouble              off;

  babl_new_palette ("zenith-test", &indexed, &indexed_alpha);
  babl_palette_set_palette (indexed, babl_format ("R'G'B' u8"), (gpointer) colours, 4);
  for (guint i = 0; i < sizeof (index); i++)
    index[i] = (guchar) (i % 37 / 10);

  in = gegl_buffer_new (&box, indexed);
  gegl_buffer_set (in, NULL, 0, indexed, index, GEGL_AUTO_ROWSTRIDE);
  a = pixels_of (in, &box, "R'G'B'A float");
  b = apply ("zenith:identity", "", in, &status, NULL);
  off = difference (a, b, sizeof (index) * 4);
  g_free (b);
  CHECK (! *status && off < 1e-6, "identity is %g off (%s)", off, status);
  g_free (status);

  for (guint j = 0; j < G_N_ELEMENTS (filters); j++)
    {
      b = apply (filters[j].name, filters[j].settings, in, &status, NULL);
      CHECK (! *status && all_finite (b, sizeof (index) * 4), "%s: %s", filters[j].name, status);
      g_free (b);
      g_free (status);
    }

  /* Same indices, other colours: not the same picture. */
  babl_palette_set_palette (indexed, babl_format ("R'G'B' u8"), (gpointer) (colours + 1), 3);
  b = apply ("zenith:identity", "", in, NULL, NULL);
  off = difference (a, b, sizeof (index) * 4);
  CHECK (off > 0.1, "a new palette gave the old picture");
  g_free (a);
  g_free (b);
  g_object_unref (in);
}

static void
test_wide_gamut_space (void)
{
  const Babl   *space = babl_space ("Adobish") ? babl_space ("Adobish") : babl_space ("Rec2020");
  const gchar  *encoding = "R'G'B'A float";
  GeglRectangle box = { 0, 0, 33, 21 };
  GeglBuffer   *in;
  Run           run;
  const Babl   *format;
  gfloat       *a, *b;

  if (! space)
    SKIP ("this babl has no second colour space");

  format = babl_format_with_space (encoding, space);
  in = gegl_buffer_new (&box, format);
  a = pixels_of (picture (encoding, 0, 0, 33, 21, 3), &box, encoding);
  b = g_new0 (gfloat, 33 * 21 * 4);
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
  const Babl   *srgb  = babl_format ("R'G'B' float");
  const Babl   *space = babl_space_from_chromaticities (NULL, 0.3127, 0.3290, 0.64, 0.33, 0.30, 0.60,
                                                        0.15, 0.06, babl_trc ("linear"), NULL, NULL, 0);
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

/* ---- alpha and bad values ------------------------------------------------- */

static void
test_alpha_and_hidden_colours_are_kept (void)
{
  const GeglRectangle  box = { 0, 0, 70, 45 };
  const gsize          n   = 70 * 45;
  GeglBuffer          *in  = picture ("R'G'B'A float", 0, 0, 70, 45, 4);
  gfloat              *a   = pixels_of (in, &box, "R'G'B'A float");

  for (guint j = 0; j < G_N_ELEMENTS (filters); j++)
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
  const GeglRectangle  box = { 0, 0, 70, 45 };
  const gsize          n   = 70 * 45;
  GeglBuffer          *in  = picture ("R'G'B'A float", 0, 0, 70, 45, 5);
  GeglBuffer          *bad = gegl_buffer_dup (in);
  gfloat              *a   = pixels_of (in, &box, "R'G'B'A float");

  for (gsize i = 0; i < n; i++)
    if (a[i * 4 + 3] == 0.0f)
      a[i * 4] = a[i * 4 + 1] = i % 2 ? NAN : 1e30f;
  gegl_buffer_set (bad, &box, 0, babl_format ("R'G'B'A float"), a, GEGL_AUTO_ROWSTRIDE);

  for (guint j = 1; j < G_N_ELEMENTS (filters); j++)
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
  static const gfloat  bad[]  = { NAN, INFINITY, -INFINITY, 1e30f, -7.0f };
  const GeglRectangle  box    = { 0, 0, 64, 48 };
  GeglBuffer          *in     = picture ("R'G'B' float", 0, 0, 64, 48, 6);
  gfloat               p[3]   = { 0.5f, 0.5f, 0.5f };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      p[i % 3] = bad[i];
      gegl_buffer_set (in, GEGL_RECTANGLE (10 + (gint) i * 10, 20, 1, 1), 0,
                       babl_format ("R'G'B' float"), p, GEGL_AUTO_ROWSTRIDE);
      p[i % 3] = 0.5f;
    }

  for (guint j = 0; j < G_N_ELEMENTS (filters); j++)
    {
      gfloat *b = apply (filters[j].name, filters[j].settings, in, NULL, NULL);

      for (gint i = 0; i < box.width * box.height; i++)
        if (i / 64 != 20 || i % 64 % 10 != 0)
          CHECK (all_finite (b + i * 4, 4) && fabsf (b[i * 4]) < 100.0f,
                 "%s: pixel %d,%d is %g", filters[j].name, i % 64, i / 64, b[i * 4]);
      CHECK (all_finite (b + (20 * 64 + 10) * 4, 4), "%s: NaN stayed", filters[j].name);
      g_free (b);
    }
  g_object_unref (in);
}

static void
test_denoise_keeps_what_lies_beyond (void)
{
  const GeglRectangle  box   = { 0, 0, 48, 48 };
  const gsize          n     = 48 * 48 * 4;
  GeglBuffer          *in    = picture ("R'G'B'A float", 0, 0, 48, 48, 7);
  gfloat              *a     = pixels_of (in, &box, "R'G'B'A float");
  gfloat              *cut   = g_memdup2 (a, n * sizeof (gfloat));
  GeglBuffer          *other = gegl_buffer_dup (in);
  gfloat              *b, *c;

  for (gsize i = 0; i < n; i++)
    if (i % 4 < 3)
      {
        a[i]   = a[i] * 4.0f - 1.0f;    /* -1 .. 3 */
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

/* ---- sizes and places ------------------------------------------------------ */

static void
test_small_pictures (void)
{
  static const gint sizes[][2] = { { 1, 1 }, { 3, 5 }, { 1, 40 }, { 40, 1 }, { 7, 9 }, { 8, 8 }, { 33, 31 } };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint j = 0; j < G_N_ELEMENTS (filters); j++)
      {
        GeglBuffer    *in = picture ("R'G'B'A u8", 0, 0, sizes[i][0], sizes[i][1], 8);
        GeglRectangle  box;
        gchar         *status;
        gfloat        *out = apply (filters[j].name, filters[j].settings, in, &status, &box);

        CHECK (! *status && box.width == sizes[i][0] && box.height == sizes[i][1] &&
               all_finite (out, (gsize) box.width * box.height * 4),
               "%s of %dx%d: %dx%d %s", filters[j].name, sizes[i][0], sizes[i][1],
               box.width, box.height, status);
        g_free (status);
        g_free (out);
        g_object_unref (in);
      }
}

static void
test_the_place_of_a_layer_changes_nothing (void)
{
  for (guint j = 0; j < G_N_ELEMENTS (filters); j++)
    {
      GeglBuffer    *a = picture ("R'G'B'A float", 0, 0, 90, 50, 9);
      GeglBuffer    *b = picture ("R'G'B'A float", -37, 1021, 90, 50, 9);
      GeglRectangle  box;
      gfloat        *x = apply (filters[j].name, filters[j].settings, a, NULL, NULL);
      gfloat        *y = apply (filters[j].name, filters[j].settings, b, NULL, &box);

      CHECK (box.x == -37 && box.y == 1021, "%s moved the layer", filters[j].name);
      CHECK (! memcmp (x, y, 90 * 50 * 16), "%s: %g off", filters[j].name,
             difference (x, y, 90 * 50 * 4));
      g_free (x);
      g_free (y);
      g_object_unref (a);
      g_object_unref (b);
    }
}

static void
test_size_and_format_of_latents (void)
{
  static const struct { const gchar *model; gint factor, channels; } cases[] =
  {
    { "taesd", 8, 4 }, { "taef1", 8, 16 }, { "taef2", 8, 32 }, { "taesana", 32, 32 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const gint   f        = cases[i].factor;
      GeglBuffer  *in       = picture ("R'G'B' u8", -9, 35, 67, 41, 10);
      gchar       *settings = g_strdup_printf ("model=%s", cases[i].model);
      Run          run      = run_new ("zenith:latent-encode", settings, in);
      GeglNode    *decode   = gegl_node_new_child (run.graph, "operation", "zenith:latent-decode", NULL);
      GeglBuffer  *latent   = NULL;
      GeglNode    *sink     = gegl_node_new_child (run.graph, "operation", "gegl:buffer-sink",
                                                   "buffer", &latent, NULL);
      GeglRectangle box;
      const Babl  *format;

      CHECK (run.box.x == (f == 8 ? -2 : -1) && run.box.y == (f == 8 ? 4 : 1) &&
             run.box.width == (67 + f - 1) / f && run.box.height == (41 + f - 1) / f,
             "%s: the latent is at %d,%d of %dx%d", cases[i].model,
             run.box.x, run.box.y, run.box.width, run.box.height);
      gegl_node_link (run.op, sink);
      gegl_node_process (sink);
      format = gegl_buffer_get_format (latent);
      CHECK (babl_format_get_n_components (format) == cases[i].channels &&
             babl_format_get_type (format, 0) == babl_type ("float"),
             "%s: the latent is %s", cases[i].model, babl_get_name (format));
      CHECK (cases[i].channels != 4 || format == babl_format ("RGBA float"),
             "four channels are %s", babl_get_name (format));

      gegl_node_link (run.op, decode);
      set_properties (decode, settings);
      box = gegl_node_get_bounding_box (decode);
      CHECK (box.x == run.box.x * f && box.y == run.box.y * f &&
             box.width == run.box.width * f && box.height == run.box.height * f,
             "%s: decoded to %d,%d of %dx%d", cases[i].model, box.x, box.y, box.width, box.height);
      g_object_unref (latent);
      run_free (&run);
      g_object_unref (in);
      g_free (settings);
    }
}

static void
test_encode_then_decode_is_preview (void)
{
  static const gchar *const models[] = { "model=taesd", "model=taef1", "model=taef2", "model=taesana" };

  for (guint i = 0; i < G_N_ELEMENTS (models); i++)
    {
      const GeglRectangle  box    = { 0, 0, 100, 75 };
      GeglBuffer          *in     = picture ("R'G'B' u8", 0, 0, 100, 75, 11);
      Run                  run    = run_new ("zenith:latent-encode", models[i], in);
      GeglNode            *decode = gegl_node_new_child (run.graph, "operation", "zenith:latent-decode", NULL);
      gfloat              *a      = apply ("zenith:latent-preview", models[i], in, NULL, NULL);
      gfloat              *b;

      set_properties (decode, models[i]);
      gegl_node_link (run.op, decode);
      run.op = decode;
      b = run_pixels (&run, &box);
      CHECK (difference (a, b, 100 * 75 * 4) < 1e-5, "%s: %g off", models[i],
             difference (a, b, 100 * 75 * 4));
      g_free (a);
      g_free (b);
      run_free (&run);
      g_object_unref (in);
    }
}

static void
test_difference_is_four_times_what_differs (void)
{
  const GeglRectangle  box = { 0, 0, 50, 40 };
  GeglBuffer          *in  = picture ("R'G'B' float", 0, 0, 50, 40, 12);
  gfloat              *x   = pixels_of (in, &box, "R'G'B'A float");
  gfloat              *a   = apply ("zenith:latent-preview", "model=taesd", in, NULL, NULL);
  gfloat              *b   = apply ("zenith:latent-preview", "model=taesd mode=difference", in, NULL, NULL);

  for (gint i = 0; i < 50 * 40 * 4; i++)
    if (i % 4 < 3)
      {
        gfloat want = MIN (4.0f * fabsf (a[i] - x[i]), 1.0f);

        CHECK (fabsf (b[i] - want) < 1e-5f, "%g, not %g", b[i], want);
      }
  g_free (x);
  g_free (a);
  g_free (b);
  g_object_unref (in);
}

/* ---- what cannot work ------------------------------------------------------ */

/* The picture must pass, bit by bit, and the status must say `word`. */
static void
check_passes (const gchar *name,
              const gchar *settings,
              GeglBuffer  *in,
              const gchar *word)
{
  const GeglRectangle *box  = gegl_buffer_get_extent (in);
  const Babl          *f    = gegl_buffer_get_format (in);
  GeglBuffer          *out  = gegl_buffer_new (box, f);
  Run                  run  = run_new (name, settings, in);
  gsize                size = (gsize) box->width * box->height * babl_format_get_bytes_per_pixel (f);
  gchar               *status;
  gchar               *a    = g_malloc (size), *b = g_malloc (size);

  CHECK (gegl_rectangle_equal (&run.box, box), "%s %s: the box is %dx%d", name, settings,
         run.box.width, run.box.height);
  gegl_node_blit_buffer (run.op, out, box, 0, GEGL_ABYSS_NONE);
  status = run_status (&run);
  gegl_buffer_get (in, box, 1.0, f, a, GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);
  gegl_buffer_get (out, box, 1.0, f, b, GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);
  CHECK (! memcmp (a, b, size), "%s %s: pixels were lost", name, settings);
  CHECK (strstr (status, word), "%s %s: the status is '%s', without '%s'", name, settings, status, word);
  g_free (status);
  g_free (a);
  g_free (b);
  run_free (&run);
  g_object_unref (out);
}

static void
test_no_weights (void)
{
  static const gchar *const cases[][3] =
  {
    { "zenith:latent-preview", "model=taesd3",  "taesd3_encoder"  },
    { "zenith:latent-encode",  "model=taesdxl", "taesdxl_encoder" },
    { "zenith:latent-decode",  "model=taesdxl", "taesdxl_decoder" },
    { "zenith:latent-preview", "",              "zenith-tae"      },
    { "zenith:denoise",        "model=best",    "denoise-best"    },
  };
  GeglBuffer *in = picture ("R'G'B'A u8", 5, 6, 40, 30, 13);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      gchar *status;

      g_free (apply (cases[i][0], cases[i][1], in, &status, NULL));
      if (*status)    /* else they are installed on this machine */
        TRY (check_passes (cases[i][0], cases[i][1], in, cases[i][2]));
      g_free (status);
    }
  g_object_unref (in);
}

static gchar *
in_folder (const gchar *name)
{
  return g_build_filename (folder, name, NULL);
}

static void
test_wrong_weights (void)
{
  static const gchar *const ops[] = { "zenith:latent-preview", "zenith:latent-encode", "zenith:latent-decode" };
  GeglBuffer *in    = picture ("R'G'B'A u8", 0, 0, 40, 30, 14);
  gchar      *text  = in_folder ("text.safetensors");
  gchar      *empty = in_folder ("empty.pth");
  gchar      *short_ = in_folder ("short.safetensors");
  gchar      *whole = in_folder ("taef1_encoder.safetensors");
  gchar      *bytes, *settings;
  gsize       size;

  g_file_set_contents (text, "These are no weights.\n", -1, NULL);
  g_file_set_contents (empty, "", 0, NULL);
  g_assert (g_file_get_contents (whole, &bytes, &size, NULL));
  g_file_set_contents (short_, bytes, (gssize) size / 2, NULL);
  g_free (bytes);

  for (guint i = 0; i < G_N_ELEMENTS (ops); i++)
    {
      const gchar *const files[][2] =
      {
        { text, "text.safetensors" }, { empty, "empty.pth" }, { short_, "short.safetensors" },
        { "/nowhere/at-all.pth", "at-all.pth" },
        { DATA_DIR "/denoise.safetensors", "TAESD" },
      };

      for (guint j = 0; j < G_N_ELEMENTS (files); j++)
        {
          settings = g_strdup_printf ("weights=%s", files[j][0]);
          TRY (check_passes (ops[i], settings, in, files[j][1]));
          TRY (check_passes (ops[i], settings, in, files[j][1]));    /* and the second time */
          g_free (settings);
        }
    }

  /* Mended, it works, in the same process. */
  g_assert (g_file_get_contents (whole, &bytes, &size, NULL));
  g_file_set_contents (text, bytes, (gssize) size, NULL);
  settings = g_strdup_printf ("weights=%s", text);
  g_free (bytes);
  g_free (apply ("zenith:latent-encode", settings, in, &bytes, NULL));
  CHECK (! *bytes, "still bad: %s", bytes);
  g_free (bytes);
  g_free (settings);
  g_free (text);
  g_free (empty);
  g_free (short_);
  g_free (whole);
  g_object_unref (in);
}

static void
test_ways_to_name_weights (void)
{
  GeglBuffer *in   = picture ("R'G'B' u8", 0, 0, 40, 30, 15);
  gfloat     *want = apply ("zenith:latent-preview", "model=taef1", in, NULL, NULL);
  const gchar *const ways[] =
  {
    "model=taef1 weights=" DATA_DIR,
    "weights=" DATA_DIR "/taef1_encoder.safetensors",
    "model=taesd weights=" DATA_DIR "/taef1_decoder.safetensors",
  };

  for (guint i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      gchar  *status;
      gfloat *got = apply ("zenith:latent-preview", ways[i], in, &status, NULL);

      CHECK (! *status && ! memcmp (got, want, 40 * 30 * 16), "%s: %s", ways[i], status);
      g_free (got);
      g_free (status);
    }
  g_free (want);
  g_object_unref (in);
}

static void
test_wrong_latents (void)
{
  GeglBuffer *four  = picture ("RGBA float", 0, 0, 10, 10, 16);
  GeglBuffer *three = picture ("R'G'B' u8", 0, 0, 10, 10, 16);

  TRY (check_passes ("zenith:latent-decode", "model=taef1", four, "4 channels where the model wants 16"));
  TRY (check_passes ("zenith:latent-decode", "model=taesd", three, "3 channels where the model wants 4"));
  g_object_unref (four);
  g_object_unref (three);
}

static void
test_engine_that_is_not_here (void)
{
  GeglBuffer *in = picture ("R'G'B'A u8", 0, 0, 20, 20, 17);

#if defined(__aarch64__)
  const gchar *absent = "avx2";
#else
  const gchar *absent = "neon";
#endif
  gchar *settings = g_strdup_printf ("engine=%s", absent);

  TRY (check_passes ("zenith:identity", settings, in, absent));
  g_free (settings);
  settings = g_strdup_printf ("model=taef1 engine=%s", absent);
  TRY (check_passes ("zenith:latent-preview", settings, in, absent));
  g_free (settings);
  g_object_unref (in);
}

static void
test_picture_without_end (void)
{
  static const gchar *const ops[] = { "zenith:identity", "zenith:denoise", "zenith:latent-preview",
                                      "zenith:latent-encode", "zenith:latent-decode" };

  for (guint i = 0; i < G_N_ELEMENTS (ops); i++)
    {
      GeglNode      *graph = gegl_node_new ();
      GeglColor     *red   = gegl_color_new ("rgb(1.0,0.25,0.5)");
      GeglNode      *plane = gegl_node_new_child (graph, "operation", "gegl:color", "value", red, NULL);
      Run            run   = { graph, plane, gegl_node_new_child (graph, "operation", ops[i], NULL),
                               { 1000, -50, 9, 7 } };
      gfloat        *data;
      gchar         *status;

      set_properties (run.op, i == 0 ? "" : i == 1 ? "model=fast" : "model=taesd");
      gegl_node_link (plane, run.op);
      data   = run_pixels (&run, &run.box);
      status = run_status (&run);
      CHECK (*status && strstr (status, "no end"), "%s: the status is '%s'", ops[i], status);
      CHECK (fabsf (data[0] - 1.0f) < 1e-4f && fabsf (data[2] - data[(9 * 7 - 1) * 4 + 2]) < 1e-6f,
             "%s: pixels were lost", ops[i]);
      g_free (status);
      g_free (data);
      g_object_unref (red);
      g_object_unref (graph);
    }
}

static void
test_picture_that_is_too_large (void)
{
  GeglNode *graph = gegl_node_new ();
  GeglNode *plane = gegl_node_new_child (graph, "operation", "gegl:color", NULL);
  GeglNode *crop  = gegl_node_new_child (graph, "operation", "gegl:crop", "x", 0.0, "y", 0.0,
                                         "width", 3e6, "height", 2e6, NULL);
  Run       run   = { graph, crop, gegl_node_new_child (graph, "operation", "zenith:latent-preview", NULL),
                      { 5, 5, 8, 8 } };
  gchar    *status;

  set_properties (run.op, "model=taesd");
  gegl_node_link_many (plane, crop, run.op, NULL);
  g_free (run_pixels (&run, &run.box));
  status = run_status (&run);
  CHECK (strstr (status, "too large"), "the status is '%s'", status);
  g_free (status);
  g_object_unref (graph);
}

static void
test_nothing_connected (void)
{
  GeglNode *graph = gegl_node_new ();
  GeglNode *op    = gegl_node_new_child (graph, "operation", "zenith:latent-preview", NULL);
  gfloat    pixel[4];

  gegl_node_blit (op, 1.0, GEGL_RECTANGLE (0, 0, 1, 1), babl_format ("R'G'B'A float"), pixel,
                  GEGL_AUTO_ROWSTRIDE, GEGL_BLIT_DEFAULT);
  g_object_unref (graph);
}

/* A status that came and went would make GIMP render for ever. */
static void
test_status_settles (void)
{
  GeglBuffer *in  = picture ("R'G'B' u8", 0, 0, 20, 20, 18);
  Run         run = run_new ("zenith:latent-preview", "model=taesd3", in);
  gchar      *status;

  for (gint i = 0; i < 5; i++)
    {
      g_free (run_pixels (&run, &run.box));
      while (g_main_context_iteration (NULL, FALSE))
        ;
      status = run_status (&run);
      CHECK (*status, "round %d: the status is gone", i);
      g_free (status);
    }
  set_properties (run.op, "model=taef1");
  g_free (run_pixels (&run, &run.box));
  status = run_status (&run);
  CHECK (! *status, "still '%s'", status);
  g_free (status);
  run_free (&run);
  g_object_unref (in);
}

/* ---- regions ---------------------------------------------------------------- */

/* Run with ZENITH_CACHE=0: each region is computed for itself. */
static void
test_regions_without_a_cache (void)
{
  GeglBuffer *in   = picture ("R'G'B'A u8", 11, 7, 701, 631, 19);
  GRand      *rand = g_rand_new_with_seed (20);

  for (guint j = 0; j < G_N_ELEMENTS (filters); j++)
    {
      GeglRectangle  box;
      gfloat        *whole = apply (filters[j].name, filters[j].settings, in, NULL, &box);

      for (gint i = 0; i < 3; i++)
        {
          Run           run  = run_new (filters[j].name, filters[j].settings, in);
          GeglRectangle r    = { g_rand_int_range (rand, 0, 700), g_rand_int_range (rand, 0, 630), 0, 0 };
          gfloat       *part;
          gdouble       most = 0.0;

          r.width  = g_rand_int_range (rand, 1, MIN (702 - r.x, 350));
          r.height = g_rand_int_range (rand, 1, MIN (632 - r.y, 350));
          r.x += box.x;
          r.y += box.y;
          part = run_pixels (&run, &r);
          for (gint y = 0; y < r.height; y++)
            most = fmax (most, difference (part + (gsize) y * r.width * 4,
                                           whole + ((gsize) (r.y - box.y + y) * box.width + r.x - box.x) * 4,
                                           (gsize) r.width * 4));
          CHECK (most < 1e-6, "%s %s: %d,%d %dx%d is %g off", filters[j].name, filters[j].settings,
                 r.x, r.y, r.width, r.height, most);
          g_free (part);
          run_free (&run);
        }
      g_free (whole);
    }
  g_rand_free (rand);
  g_object_unref (in);
}

/* Runs this program again and takes over what it says. */
static void
check_self (const gchar *part,
            const gchar *variable,
            const gchar *value)
{
  const gchar *const argv[] = { self, part, NULL };
  gchar            **env    = g_environ_setenv (g_get_environ (), variable, value, TRUE);
  gchar             *out    = NULL;
  GError            *error  = NULL;
  gint               rc     = -1;

  g_spawn_sync (NULL, (gchar **) argv, env, G_SPAWN_DEFAULT, NULL, NULL, &out, NULL, &rc, &error);
  g_strfreev (env);
  CHECK (! error && rc == 0, "%s", error ? error->message : out);
  g_free (out);
}

static void
test_regions_are_parts_of_the_whole (void)
{
  check_self ("--regions", "ZENITH_CACHE", "0");
}

static void
test_a_brush_stroke_shows (void)
{
  static const gfloat red[4] = { 1.0f, 0.0f, 0.0f, 1.0f };

  for (guint j = 0; j < G_N_ELEMENTS (filters); j++)
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

/* ---- the cache --------------------------------------------------------------- */

static void
test_kept_results (void)
{
  static const struct { const gchar *name, *settings; gboolean runs; } steps[] =
  {
    { "zenith:denoise", "model=fast sigma=20", TRUE },
    { "zenith:denoise", "model=fast sigma=20", FALSE },
    { "zenith:denoise", "model=fast sigma=20 strength=0.5 luma=0.25 chroma=0.75 detail=1", FALSE },
    { "zenith:denoise", "model=fast sigma=21", TRUE },
    { "zenith:denoise", "model=fast sigma=20 engine=scalar", TRUE },
    { "zenith:denoise", "model=fast", TRUE },
    { "zenith:denoise", "model=fast detail=0.5", FALSE },
    { "zenith:latent-preview", "model=taef1 mode=latent", TRUE },
    { "zenith:latent-encode", "model=taef1", FALSE },
    { "zenith:latent-preview", "model=taef1", TRUE },
    { "zenith:latent-preview", "model=taef1 mode=difference", FALSE },
    { "zenith:latent-preview", "model=taesd", TRUE },
    { "zenith:latent-preview", "model=taef1 mode=latent", FALSE },
    { "zenith:denoise", "model=fast strength=0", FALSE },
  };
  GeglBuffer *in = picture ("R'G'B'A u8", 0, 0, 300, 200, 22);

  if (! network_runs)
    SKIP ("the module does not count its runs");

  for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
    {
      guint before = network_runs ();

      g_free (apply (steps[i].name, steps[i].settings, in, NULL, NULL));
      CHECK ((network_runs () != before) == steps[i].runs, "step %u, %s %s: the network ran %u times",
             i, steps[i].name, steps[i].settings, network_runs () - before);
    }
  g_object_unref (in);
}

static void
test_strength_luma_chroma_detail (void)
{
  const GeglRectangle  box  = { 0, 0, 100, 80 };
  GeglBuffer          *in   = picture ("R'G'B' float", 0, 0, 100, 80, 23);
  gfloat              *x    = pixels_of (in, &box, "R'G'B'A float");
  gfloat              *full = apply ("zenith:denoise", "model=fast sigma=20", in, NULL, NULL);
  gfloat              *none = apply ("zenith:denoise", "model=fast sigma=20 strength=0", in, NULL, NULL);
  gfloat              *half = apply ("zenith:denoise", "model=fast sigma=20 strength=0.5", in, NULL, NULL);
  gfloat              *grey = apply ("zenith:denoise", "model=fast sigma=20 luma=0", in, NULL, NULL);
  gfloat              *col  = apply ("zenith:denoise", "model=fast sigma=20 chroma=0", in, NULL, NULL);
  gfloat              *fine = apply ("zenith:denoise", "model=fast sigma=20 detail=1", in, NULL, NULL);
  gdouble              rough[2] = { 0.0, 0.0 };

  CHECK (! memcmp (x, none, 100 * 80 * 16), "strength 0 is %g off", difference (x, none, 100 * 80 * 4));
  CHECK (difference (x, full, 100 * 80 * 4) > 1e-3, "strength 1 does nothing");
  for (gint i = 0; i < 100 * 80 * 4; i += 4)
    {
      const gfloat *p = x + i, *g = grey + i, *c = col + i;
      gfloat luma_p = 0.2126f * p[0] + 0.7152f * p[1] + 0.0722f * p[2];
      gfloat luma_g = 0.2126f * g[0] + 0.7152f * g[1] + 0.0722f * g[2];

      CHECK (fabsf (half[i] - (p[0] + full[i]) / 2) < 1e-5f, "strength 0.5 is not half way");
      CHECK (fabsf (luma_p - luma_g) < 1e-5f, "luma 0 changes lightness from %g to %g", luma_p, luma_g);
      CHECK (fabsf ((p[0] - p[1]) - (c[0] - c[1])) < 1e-5f, "chroma 0 changes colour");
      if (i % 400)    /* what is left of the difference of neighbours */
        {
          rough[0] += fabs ((gdouble) full[i + 1] - x[i + 1] - full[i - 3] + x[i - 3]);
          rough[1] += fabs ((gdouble) fine[i + 1] - x[i + 1] - fine[i - 3] + x[i - 3]);
        }
    }
  CHECK (rough[1] < rough[0], "detail gives no texture back");
  g_free (x);
  g_free (full);
  g_free (none);
  g_free (half);
  g_free (grey);
  g_free (col);
  g_free (fine);
  g_object_unref (in);
}

static void
test_engines_agree (void)
{
  for (guint j = 0; j < G_N_ELEMENTS (filters); j++)
    {
      GeglBuffer *in       = picture ("R'G'B'A u16", 0, 0, 75, 60, 24);
      gchar      *settings = g_strdup_printf ("%s%sengine=scalar", filters[j].settings,
                                              *filters[j].settings ? " " : "");
      gfloat     *a        = apply (filters[j].name, filters[j].settings, in, NULL, NULL);
      gfloat     *b        = apply (filters[j].name, settings, in, NULL, NULL);

      CHECK (difference (a, b, 75 * 60 * 4) < 1e-3, "%s: %g off", settings,
             difference (a, b, 75 * 60 * 4));
      g_free (a);
      g_free (b);
      g_free (settings);
      g_object_unref (in);
    }
}

/* ---- threads, progress, cancelling -------------------------------------------- */

static gpointer
thread_run (gpointer data)
{
  const guint  j   = GPOINTER_TO_UINT (data) % G_N_ELEMENTS (filters);
  GeglBuffer  *in  = picture ("R'G'B'A u8", 0, 0, 200, 150, 25 + GPOINTER_TO_UINT (data) % 2);
  gfloat      *out = apply (filters[j].name, filters[j].settings, in, NULL, NULL);

  g_object_unref (in);

  return out;
}

static void
test_threads (void)
{
  enum { N = 12 };
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
  gboolean  cancel;
} Watch;

static void
on_progress (GeglNode *node,
             gdouble   value,
             gpointer  data)
{
  Watch *watch = data;

  (void) node;
  if (! watch->calls++)
    watch->first = value;
  else if (value < watch->last)
    watch->backwards++;
  watch->last = value;
  if (watch->cancel)
    g_object_set_data (G_OBJECT (watch->node), "zenith-cancel", GINT_TO_POINTER (TRUE));
}

static void
test_progress_and_cancelling (void)
{
  for (guint j = 1; j < G_N_ELEMENTS (filters); j++)
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

/* ---- a canvas of 100 megapixels ------------------------------------------------ */

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
  GeglBuffer *in  = gegl_buffer_new (GEGL_RECTANGLE (0, 0, 10000, 10000), babl_format ("R'G'B'A u8"));
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

static void
test_canvas_whole (void)
{
  GeglBuffer  *in  = gegl_buffer_new (GEGL_RECTANGLE (0, 0, 10000, 10000), babl_format ("R'G'B' u8"));
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

static void
test_canvas_too_large_for_a_model_in_one_piece (void)
{
  GeglBuffer *in  = gegl_buffer_new (GEGL_RECTANGLE (0, 0, 10000, 10000), babl_format ("R'G'B' u8"));
  Run         run = run_new ("zenith:latent-preview", "model=taef2", in);
  gchar      *status;

  g_free (run_pixels (&run, GEGL_RECTANGLE (0, 0, 8, 8)));
  status = run_status (&run);
  CHECK (strstr (status, "MiB"), "the status is '%s'", status);
  CHECK (peak_mib () < 1536, "%ld MiB", peak_mib ());
  g_free (status);
  run_free (&run);
  g_object_unref (in);
}

static void
test_a_canvas_of_100_megapixels (void)
{
  check_self ("--canvas", "GEGL_CACHE_SIZE", "128");
}

/* ---- main ----------------------------------------------------------------------- */

/* The golden networks under the names that the operations look for. */
static void
make_folder (void)
{
  static const gchar *const names[][2] =
  {
    { "denoise.safetensors", "denoise-fast.safetensors" },
    { "taesd_encoder.pth", "taesd_encoder.pth" }, { "taesd_decoder.pth", "taesd_decoder.pth" },
    { "taef1_encoder.safetensors", "taef1_encoder.safetensors" },
    { "taef1_decoder.safetensors", "taef1_decoder.safetensors" },
    { "taef2_encoder.pth", "taef2_encoder.pth" }, { "taef2_decoder.pth", "taef2_decoder.pth" },
    { "taesana_encoder.pth", "taesana_encoder.pth" }, { "taesana_decoder.pth", "taesana_decoder.pth" },
  };

  folder = g_dir_make_tmp ("zenith-ops-XXXXXX", NULL);
  g_assert (folder);
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      gchar *from = g_build_filename (DATA_DIR, names[i][0], NULL);
      gchar *to   = in_folder (names[i][1]);

      g_assert (symlink (from, to) == 0);
      g_free (from);
      g_free (to);
    }
}

static void
remove_folder (void)
{
  GDir        *dir = g_dir_open (folder, 0, NULL);
  const gchar *name;

  while ((name = g_dir_read_name (dir)))
    {
      gchar *path = in_folder (name);

      g_unlink (path);
      g_free (path);
    }
  g_dir_close (dir);
  g_rmdir (folder);
}

/* GEGL_PATH replaces GEGL's own path, so it must name that too; nothing of the
 * user's may be found. */
static void
set_up (gint    *argc,
        gchar ***argv)
{
  GModule *module;

  make_folder ();
  g_setenv ("GEGL_PATH", OPS_DIR ":" GEGL_DIR, TRUE);
  g_setenv ("ZENITH_MODELS", folder, TRUE);
  g_setenv ("XDG_DATA_HOME", folder, TRUE);
  g_setenv ("GEGL_USE_OPENCL", "no", TRUE);
  gegl_init (argc, argv);

  module = g_module_open (OPS_DIR "/zenith-ops." G_MODULE_SUFFIX, G_MODULE_BIND_LAZY);
  if (module)
    g_module_symbol (module, "zn_op_network_runs", (gpointer *) &network_runs);
}

int
main (int    argc,
      char **argv)
{
  const gchar *part = argc > 1 ? argv[1] : "";

  self = argv[0];
  if (! strcmp (part, "--canvas"))
    g_setenv ("GEGL_CACHE_SIZE", "128", FALSE);
  set_up (&argc, &argv);

  if (! gegl_has_operation ("zenith:denoise"))
    {
      printf ("not ok module: GEGL does not find the operations in %s\n", OPS_DIR);
      printf ("0 passed, 1 failed, 0 skipped\n");
      return 1;
    }

  if (! strcmp (part, "--regions"))
    {
      RUN (test_regions_without_a_cache);
    }
  else if (! strcmp (part, "--canvas"))
    {
      RUN (test_canvas_regions);
      RUN (test_canvas_too_large_for_a_model_in_one_piece);
      RUN (test_canvas_whole);
    }
  else
    {
      RUN (test_identity_is_exact_in_every_format);
      RUN (test_every_filter_takes_every_format);
      RUN (test_indexed_picture);
      RUN (test_wide_gamut_space);
      RUN (test_linear_profile);
      RUN (test_alpha_and_hidden_colours_are_kept);
      RUN (test_hidden_colours_do_not_leak);
      RUN (test_nan_and_infinity_stay_where_they_are);
      RUN (test_denoise_keeps_what_lies_beyond);
      RUN (test_small_pictures);
      RUN (test_the_place_of_a_layer_changes_nothing);
      RUN (test_size_and_format_of_latents);
      RUN (test_encode_then_decode_is_preview);
      RUN (test_difference_is_four_times_what_differs);
      RUN (test_no_weights);
      RUN (test_wrong_weights);
      RUN (test_ways_to_name_weights);
      RUN (test_wrong_latents);
      RUN (test_engine_that_is_not_here);
      RUN (test_picture_without_end);
      RUN (test_picture_that_is_too_large);
      RUN (test_nothing_connected);
      RUN (test_status_settles);
      RUN (test_regions_are_parts_of_the_whole);
      RUN (test_a_brush_stroke_shows);
      RUN (test_kept_results);
      RUN (test_strength_luma_chroma_detail);
      RUN (test_engines_agree);
      RUN (test_threads);
      RUN (test_progress_and_cancelling);
      RUN (test_a_canvas_of_100_megapixels);
    }

  remove_folder ();

  return test_end ();
}
