/* SPDX-License-Identifier: MIT */
/* test_denoise.c - what is kept between requests, and what the sliders do to it. */

#include <locale.h>

#include "ops.h"

static void
test_kept_results (void)
{
  static const struct
  {
    const gchar *name, *settings;
    gboolean     runs;
  } steps[] = {
    { "zenith:denoise", "model=fast sigma=20", TRUE },
    { "zenith:denoise", "model=fast sigma=20", FALSE },
    { "zenith:denoise", "model=fast sigma=20 strength=0.5 luma=0.25 chroma=0.75 detail=1", FALSE },
    { "zenith:denoise", "model=fast sigma=21", TRUE },
    { "zenith:denoise", "model=fast sigma=20 engine=scalar", TRUE },
    { "zenith:denoise", "model=fast", TRUE },
    { "zenith:denoise", "model=fast detail=0.5", FALSE },
    { "zenith:denoise", "model=fast sharpen=1", FALSE },
    { "zenith:denoise", "model=fast sigma-scale=2", TRUE },
    { "zenith:denoise", "model=fast sigma=20 sigma-scale=2",
      FALSE }, /* told: nothing was measured */
    { "zenith:latent-preview", "model=taef1 mode=latent", TRUE },
    { "zenith:latent-encode", "model=taef1", FALSE },
    { "zenith:latent-preview", "model=taef1", TRUE },
    { "zenith:latent-preview", "model=taef1 mode=difference", FALSE },
    { "zenith:latent-preview", "model=taesd", TRUE },
    { "zenith:latent-preview", "model=taef1 mode=latent", FALSE },
    { "zenith:denoise", "model=fast strength=0", FALSE },
  };
  GeglBuffer *in = picture ("R'G'B'A u8", 0, 0, 300, 200, 22);

  if (! ops_network_runs)
    SKIP ("the module does not count its runs");

  for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
    {
      guint before = ops_network_runs ();

      g_free (apply (steps[i].name, steps[i].settings, in, NULL, NULL));
      CHECK ((ops_network_runs () != before) == steps[i].runs,
             "step %u, %s %s: the network ran %u times", i, steps[i].name, steps[i].settings,
             ops_network_runs () - before);
    }
  g_object_unref (in);
}

/* A slider of one node, on a picture of several tiles: blends again, never runs the network
 * again. */
static void
test_sliders_do_not_run_the_network (void)
{
  static const gchar *const moves[] = { "strength=0.5",
                                        "luma=0.25",
                                        "chroma=0.75",
                                        "detail=1",
                                        "detail=0",
                                        "sharpen=0.8",
                                        "strength=1.5 luma=1 chroma=1" };
  GeglBuffer               *in      = picture ("R'G'B'A u8", 0, 0, 1300, 700, 41);
  Run                       run     = run_new ("zenith:denoise", "model=fast", in);
  gfloat                   *last    = run_pixels (&run, &run.box);
  guint                     before;

  if (! ops_network_runs)
    SKIP ("the module does not count its runs");

  before = ops_network_runs ();
  for (guint i = 0; i < G_N_ELEMENTS (moves); i++)
    {
      gfloat *now;

      set_properties (run.op, moves[i]);
      now = run_pixels (&run, &run.box);
      CHECK (ops_network_runs () == before, "%s: the network ran %u times", moves[i],
             ops_network_runs () - before);
      CHECK (memcmp (now, last, 1300 * 700 * 16), "%s changed nothing", moves[i]);
      g_free (last);
      last = now;
    }
  g_free (last);
  run_free (&run);
  g_object_unref (in);
}

static void
measured_levels (const Run *run, gdouble level[3])
{
  gegl_node_get (run->op, "measured-red", &level[0], "measured-green", &level[1], "measured-blue",
                 &level[2], NULL);
}

/* The measured noise can be read; a given level replaces it. */
static void
test_measured_noise_is_shown (void)
{
  GeglBuffer *in   = picture ("R'G'B' float", 0, 0, 400, 300, 42); /* of deviation 0.1 / sqrt (3) */
  Run         run  = run_new ("zenith:denoise", "model=fast", in);
  gchar      *text = run_text (&run, "measured");
  gdouble     found[3];
  guint       before;

  measured_levels (&run, found);
  CHECK (! *text && found[0] == -1.0 && found[2] == -1.0, "before anything ran: '%s', %g", text,
         found[0]);
  g_free (text);
  g_free (run_pixels (&run, &run.box));
  text = run_text (&run, "measured");
  measured_levels (&run, found);
  for (gint c = 0; c < 3; c++)
    CHECK (fabs (found[c] / (25.5 / sqrt (3.0)) - 1.0) < 0.1, "channel %d: %g", c, found[c]);
  CHECK (g_str_has_prefix (text, "red 1"), "for people: '%s'", text);

  /* it settles: hosts that are notified of a change render once more, not endlessly */
  before = ops_network_runs ? ops_network_runs () : 0;
  for (gint i = 0; i < 3; i++)
    {
      gchar *again;

      while (g_main_context_iteration (NULL, FALSE))
        ;
      g_free (run_pixels (&run, GEGL_RECTANGLE (i * 50, i, 64, 64)));
      again = run_text (&run, "measured");
      CHECK (! strcmp (text, again), "'%s' became '%s'", text, again);
      g_free (again);
    }
  CHECK (! ops_network_runs || ops_network_runs () == before, "the network ran again");
  g_free (text);

  set_properties (run.op, "sigma=20");
  g_free (run_pixels (&run, &run.box));
  text = run_text (&run, "measured");
  measured_levels (&run, found);
  CHECK (! *text && found[1] == -1.0, "with a given level: '%s', %g", text, found[1]);
  g_free (text);
  run_free (&run);
  g_object_unref (in);
}

/* What is kept of a part is for the noise of the picture, which the rest of it has a say in. */
static void
test_noise_of_the_rest_counts (void)
{
  const GeglRectangle left = { 0, 0, 96, 96 }, right = { 450, 0, 750, 300 };
  GeglBuffer         *in    = picture ("R'G'B' float", 0, 0, 1200, 300, 43);
  GeglBuffer         *other = gegl_buffer_dup (in);
  gfloat             *rgb   = pixels_of (in, &right, "R'G'B' float"), *part[3];
  Run                 run   = run_new ("zenith:denoise", "model=fast", in);
  Run                 again = run_new ("zenith:denoise", "model=fast", other);
  const gint          n     = right.width * right.height * 3;
  guint               before;

  if (! ops_network_runs)
    SKIP ("the module does not count its runs");

  for (gint i = 0; i < n; i++) /* far more noise, further away than the networks see */
    rgb[i] += (i / 3 % 2 + i / 3 / right.width % 2 == 1) * 0.4f - 0.2f;
  gegl_buffer_set (other, &right, 0, babl_format ("R'G'B' float"), rgb, GEGL_AUTO_ROWSTRIDE);
  part[0] = run_pixels (&run, &left);
  before  = ops_network_runs ();
  part[1] = run_pixels (&again, &left);
  CHECK (ops_network_runs () > before, "the result of another picture was taken");
  CHECK (difference (part[0], part[1], 96 * 96 * 4) > 1e-4, "the rest has no say");
  before  = ops_network_runs ();
  part[2] = run_pixels (&run, &left);
  CHECK (ops_network_runs () == before, "the network ran again");
  CHECK (! memcmp (part[0], part[2], 96 * 96 * 16), "not what was kept");
  for (gint i = 0; i < 3; i++)
    g_free (part[i]);
  g_free (rgb);
  run_free (&run);
  run_free (&again);
  g_object_unref (in);
  g_object_unref (other);
}

static void
test_strength_luma_chroma_detail (void)
{
  const GeglRectangle box  = { 0, 0, 100, 80 };
  GeglBuffer         *in   = picture ("R'G'B' float", 0, 0, 100, 80, 23);
  gfloat             *x    = pixels_of (in, &box, "R'G'B'A float");
  gfloat             *full = apply ("zenith:denoise", "model=fast sigma=20", in, NULL, NULL);
  gfloat *none     = apply ("zenith:denoise", "model=fast sigma=20 strength=0", in, NULL, NULL);
  gfloat *half     = apply ("zenith:denoise", "model=fast sigma=20 strength=0.5", in, NULL, NULL);
  gfloat *grey     = apply ("zenith:denoise", "model=fast sigma=20 luma=0", in, NULL, NULL);
  gfloat *col      = apply ("zenith:denoise", "model=fast sigma=20 chroma=0", in, NULL, NULL);
  gfloat *fine     = apply ("zenith:denoise", "model=fast sigma=20 detail=1", in, NULL, NULL);
  gdouble rough[2] = { 0.0, 0.0 };

  CHECK (! memcmp (x, none, 100 * 80 * 16), "strength 0 is %g off",
         difference (x, none, 100 * 80 * 4));
  CHECK (difference (x, full, 100 * 80 * 4) > 1e-3, "strength 1 does nothing");
  for (gint i = 0; i < 100 * 80 * 4; i += 4)
    {
      const gfloat *p = x + i, *g = grey + i, *c = col + i;
      gfloat        luma_p = 0.2126f * p[0] + 0.7152f * p[1] + 0.0722f * p[2];
      gfloat        luma_g = 0.2126f * g[0] + 0.7152f * g[1] + 0.0722f * g[2];

      CHECK (fabsf (half[i] - (p[0] + full[i]) / 2) < 1e-5f, "strength 0.5 is not half way");
      CHECK (fabsf (luma_p - luma_g) < 1e-5f, "luma 0 changes lightness from %g to %g", luma_p,
             luma_g);
      CHECK (fabsf ((p[0] - p[1]) - (c[0] - c[1])) < 1e-5f, "chroma 0 changes colour");
      if (i % 400) /* what is left of the difference of neighbours */
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

static gdouble
roughness (const gfloat *a, gint w, gint h)
{
  gdouble sum = 0.0;

  for (gint i = 0; i < w * h * 4; i += 4)
    if (i / 4 % w)
      for (gint c = 0; c < 3; c++)
        sum += fabs ((gdouble) a[i + c] - a[i + c - 4]);

  return sum;
}

/* More strength never brings noise back: above 1 it begins where 1 is, and smooths. */
static void
test_strength_above_one_smooths (void)
{
  GeglBuffer *in  = picture ("R'G'B' float", 0, 0, 120, 90, 46);
  gfloat     *one = apply ("zenith:denoise", "model=fast sigma=20", in, NULL, NULL);
  gfloat     *few = apply ("zenith:denoise", "model=fast sigma=20 strength=1.0001", in, NULL, NULL);
  gfloat     *lot = apply ("zenith:denoise", "model=fast sigma=20 strength=1.5", in, NULL, NULL);
  gfloat *col = apply ("zenith:denoise", "model=fast sigma=20 strength=1.5 luma=0", in, NULL, NULL);
  gfloat *ink = apply ("zenith:denoise", "model=fast sigma=20 luma=0", in, NULL, NULL);
  gfloat *was = pixels_of (in, gegl_buffer_get_extent (in), "R'G'B'A float");
  static const gdouble weight[5] = { 1 / 16.0, 1 / 4.0, 3 / 8.0, 1 / 4.0, 1 / 16.0 };

  /* no value moves further than the mean change of lightness around it */
  for (gint y = 2; y < 88; y++)
    for (gint x = 2; x < 118; x++)
      {
        const gint at    = (y * 120 + x) * 4;
        gdouble    limit = 0.0;

        for (gint i = 0; i < 25; i++)
          {
            const gfloat *a = one + at + ((i / 5 - 2) * 120 + i % 5 - 2) * 4;
            const gfloat *b = was + at + ((i / 5 - 2) * 120 + i % 5 - 2) * 4;

            limit += weight[i / 5] * weight[i % 5] *
                     fabs (0.2126 * (a[0] - b[0]) + 0.7152 * (a[1] - b[1]) +
                           0.0722 * (a[2] - b[2]));
          }
        for (gint c = 0; c < 3; c++)
          CHECK (fabs ((gdouble) lot[at + c] - one[at + c]) < limit + 1e-5,
                 "at %d,%d it moves by %g, more than %g", x, y, lot[at + c] - one[at + c], limit);
      }
  CHECK (difference (one, few, 120 * 90 * 4) < 1e-3, "1.0001 is %g off 1",
         difference (one, few, 120 * 90 * 4));
  CHECK (difference (one, lot, 120 * 90 * 4) > 1e-3, "1.5 is 1");
  CHECK (roughness (lot, 120, 90) < 0.95 * roughness (one, 120, 90), "roughness went from %g to %g",
         roughness (one, 120, 90), roughness (lot, 120, 90));
  for (gint i = 0; i < 120 * 90 * 4; i += 4)
    {
      gfloat a = 0.2126f * col[i] + 0.7152f * col[i + 1] + 0.0722f * col[i + 2];
      gfloat b = 0.2126f * ink[i] + 0.7152f * ink[i + 1] + 0.0722f * ink[i + 2];

      CHECK (fabsf (a - b) < 1e-5f, "luma 0 changes lightness from %g to %g", b, a);
    }
  g_free (one);
  g_free (few);
  g_free (lot);
  g_free (col);
  g_free (ink);
  g_free (was);
  g_object_unref (in);
}

/* Where there is nothing to remove, it says so and changes no bit. */
static void
test_no_noise_is_said (void)
{
  GeglBuffer *in  = picture ("R'G'B' float", 0, 0, 160, 120, 48);
  gfloat     *rgb = pixels_of (in, gegl_buffer_get_extent (in), "R'G'B' float");
  gfloat     *was, *now;
  gchar      *text;
  Run         run;

  for (gint i = 0; i < 160 * 120 * 3; i++) /* a smooth picture of 8 bits */
    rgb[i] = rintf (255.0f * (0.5f + 0.3f * sinf (i / 3 % 160 * 0.05f) * cosf (i / 480 * 0.04f))) /
             255.0f;
  gegl_buffer_set (in, gegl_buffer_get_extent (in), 0, babl_format ("R'G'B' float"), rgb,
                   GEGL_AUTO_ROWSTRIDE);
  run  = run_new ("zenith:denoise", "model=fast", in);
  was  = pixels_of (in, gegl_buffer_get_extent (in), "R'G'B'A float");
  now  = run_pixels (&run, &run.box);
  text = run_text (&run, "measured");
  CHECK (! memcmp (was, now, 160 * 120 * 16), "it is %g off", difference (was, now, 160 * 120 * 4));
  CHECK (! strcmp (text, "no noise found"), "'%s'", text);
  g_free (text);
  g_free (was);
  g_free (now);
  g_free (rgb);
  run_free (&run);
  g_object_unref (in);
}

static gdouble
light_at (const gfloat *a, gint x, gint y)
{
  const gfloat *p = a + (y * 120 + x) * 4;

  return 0.2126 * p[0] + 0.7152 * p[1] + 0.0722 * p[2];
}

/* A soft edge with noise becomes steeper; no pixel leaves the values around it by more than two
 * levels of 255.  Off, it changes no bit. */
static void
test_sharpen_without_halo (void)
{
  GeglBuffer *in  = picture ("R'G'B' float", 0, 0, 120, 90, 47);
  gfloat     *rgb = pixels_of (in, gegl_buffer_get_extent (in), "R'G'B' float");
  gfloat     *off, *on, *plain;
  gdouble     steep[2] = { 0.0, 0.0 };

  for (gint i = 0; i < 120 * 90 * 3; i++) /* its noise is weaker on an edge of 0.5 */
    rgb[i] = 0.25f + 0.5f / (1.0f + expf (-(gfloat) (i / 3 % 120 - 60) / 0.9f)) +
             0.1f * (rgb[i] - 0.5f);
  gegl_buffer_set (in, gegl_buffer_get_extent (in), 0, babl_format ("R'G'B' float"), rgb,
                   GEGL_AUTO_ROWSTRIDE);
  plain = apply ("zenith:denoise", "model=fast sigma=8", in, NULL, NULL);
  off   = apply ("zenith:denoise", "model=fast sigma=8 sharpen=0", in, NULL, NULL);
  on    = apply ("zenith:denoise", "model=fast sigma=8 sharpen=1", in, NULL, NULL);
  CHECK (! memcmp (plain, off, 120 * 90 * 16), "sharpen 0 is %g off",
         difference (plain, off, 120 * 90 * 4));
  for (gint y = 1; y < 89; y++)
    for (gint x = 1; x < 119; x++)
      {
        gdouble least = 1.0, most = 0.0, now = light_at (on, x, y);

        for (gint i = 0; i < 9; i++)
          {
            least = MIN (least, light_at (off, x + i % 3 - 1, y + i / 3 - 1));
            most  = MAX (most, light_at (off, x + i % 3 - 1, y + i / 3 - 1));
          }
        CHECK (now > least - 2.01 / 255 && now < most + 2.01 / 255, "at %d,%d %g, not %g to %g", x,
               y, now, least, most);
        steep[0] = MAX (steep[0], light_at (off, x, y) - light_at (off, x - 1, y));
        steep[1] = MAX (steep[1], light_at (on, x, y) - light_at (on, x - 1, y));
      }
  CHECK (steep[1] > 1.1 * steep[0], "the steepest step was %g and is %g", steep[0], steep[1]);
  g_free (rgb);
  g_free (plain);
  g_free (off);
  g_free (on);
  g_object_unref (in);
}

static void
test_engines_agree (void)
{
  for (guint j = 0; j < N_FILTERS; j++)
    {
      GeglBuffer *in       = picture ("R'G'B'A u16", 0, 0, 75, 60, 24);
      gchar      *settings = g_strdup_printf ("%s%sengine=scalar", filters[j].settings,
                                         *filters[j].settings ? " " : "");
      gfloat     *a        = apply (filters[j].name, filters[j].settings, in, NULL, NULL);
      gfloat     *b        = apply (filters[j].name, settings, in, NULL, NULL);

      /* a CPU may compute in fp16 by itself, where it stays within a level of 8 bits */
      CHECK (difference (a, b, 75 * 60 * 4) < 1.0 / 255.0, "%s: %g off", settings,
             difference (a, b, 75 * 60 * 4));
      g_free (a);
      g_free (b);
      g_free (settings);
      g_object_unref (in);
    }
}

/* On a CPU a precision is what weights are stored in: another one gives nearly the same picture.  The
 * shipped model is wide enough to have such layers. */
static void
test_precision_of_weights (void)
{
  GeglBuffer *in   = picture ("R'G'B' float", 0, 0, 100, 80, 51);
  gchar      *tiny = g_strdup (g_getenv ("ZENITH_MODELS")), *status, *note;
  gfloat     *want, *got;
  Run         gpu;
  gdouble     off;

  g_setenv ("ZENITH_MODELS", SOURCE_DIR "/models", TRUE);
  want = apply ("zenith:denoise", "model=fast sigma=20 engine=scalar", in, NULL, NULL);
  got  = apply ("zenith:denoise", "model=fast sigma=20 engine=scalar precision=int8", in, &status,
                NULL);
  off  = difference (got, want, 100 * 80 * 4);
  gpu  = run_new ("zenith:denoise", "model=fast sigma=20 engine=scalar precision=fp8", in);
  g_free (got);
  got  = run_pixels (&gpu, &gpu.box);
  note = run_text (&gpu, "note");
  g_setenv ("ZENITH_MODELS", tiny, TRUE);
  CHECK (! memcmp (got, want, 100 * 80 * 16), "a CPU computes in fp8");
  CHECK (strstr (note, "no precision fp8 and computes in fp32"), "the note is '%s'", note);
  g_free (note);
  run_free (&gpu);
  CHECK (! *status, "the status is '%s'", status);
  CHECK (off > 1e-6 && off < 2e-2, "int8 is off by %g", off);
  g_free (status);
  g_free (tiny);
  g_free (want);
  g_free (got);
  g_object_unref (in);
}

/* A file of one's own: the result is that of the model whose file it is, and what is no denoiser is refused.  Sharpened, the
 * picture is another one. */
static void
test_weights_and_sharpen (void)
{
  GeglBuffer *in    = picture ("R'G'B' float", 0, 0, 100, 80, 52);
  gfloat     *want  = apply ("zenith:denoise", "model=fast sigma=20", in, NULL, NULL);
  gfloat     *own   = apply ("zenith:denoise",
                             "model=balanced sigma=20 weights=" DATA_DIR "/denoise.safetensors", in, NULL,
                             NULL);
  gfloat     *sharp = apply ("zenith:denoise", "model=fast sigma=20 sharpen=1", in, NULL, NULL);
  gchar      *status;
  gfloat     *wrong = apply ("zenith:denoise", "weights=" DATA_DIR "/taef1_encoder.safetensors", in,
                             &status, NULL);

  CHECK (! memcmp (want, own, 100 * 80 * 16), "another result");
  CHECK (difference (want, sharp, 100 * 80 * 4) > 1e-3, "it is not sharpened");
  CHECK (strstr (status, "taef1_encoder"), "'%s'", status);
  g_free (want);
  g_free (own);
  g_free (sharp);
  g_free (wrong);
  g_free (status);
  g_object_unref (in);
}

/* The same pixels in a language that writes 12,5: no number becomes text on its way to the network. */
static void
test_decimal_comma (void)
{
  static const gchar *const language[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "es_ES.UTF-8",
                                           "tr_TR.UTF-8" };
  static const gchar *const settings[] = { "model=fast sigma=12.5", "model=fast sigma-scale=1.5" };
  GeglBuffer               *in         = picture ("R'G'B' float", 0, 0, 60, 40, 52);
  gchar                    *before     = g_strdup (setlocale (LC_ALL, NULL));
  const gchar              *found      = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (language) && ! found; i++)
    found = setlocale (LC_ALL, language[i]);
  for (gint i = 0; found && i < 2; i++)
    {
      const guint runs = ops_network_runs ? ops_network_runs () : 0;
      gchar      *status;
      gfloat     *got  = apply ("zenith:denoise", settings[i], in, &status, NULL), *want;
      const guint made = ops_network_runs ? ops_network_runs () : 1;

      setlocale (LC_ALL, before);
      want = apply ("zenith:denoise", settings[i], in, NULL, NULL);
      CHECK (! *status && made > runs, "%s: '%s'", settings[i], status);
      CHECK (! memcmp (got, want, 60 * 40 * 16), "%s: other pixels", settings[i]);
      CHECK (! ops_network_runs || ops_network_runs () == made, "%s: another key", settings[i]);
      setlocale (LC_ALL, found);
      g_free (status);
      g_free (got);
      g_free (want);
    }
  setlocale (LC_ALL, before);
  g_free (before);
  g_object_unref (in);
  if (! found)
    SKIP ("no locale with a decimal comma is installed");
}

int
main (int argc, char **argv)
{
  if (! ops_begin (&argc, &argv))
    return 1;

  RUN (test_kept_results);
  RUN (test_precision_of_weights);
  RUN (test_weights_and_sharpen);
  RUN (test_sliders_do_not_run_the_network);
  RUN (test_measured_noise_is_shown);
  RUN (test_noise_of_the_rest_counts);
  RUN (test_strength_luma_chroma_detail);
  RUN (test_strength_above_one_smooths);
  RUN (test_no_noise_is_said);
  RUN (test_sharpen_without_halo);
  RUN (test_engines_agree);
  RUN (test_decimal_comma);

  return ops_end ();
}
