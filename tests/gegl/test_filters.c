/* SPDX-License-Identifier: MIT */
/* test_filters.c - what lib/filters/ does besides running an operation: the user's own presets, the
 * noise of a selection, which engines there are. */

#include <string.h>

#include <glib/gstdio.h>

#include "ops.h"
#include "zenith-apply.h"
#include "zenith-preset.h"

static gchar *
text_of (const ZnSettings *settings, const gchar *name)
{
  for (guint i = 0; i < settings->n; i++)
    if (! strcmp (settings->property[i].spec->name, name))
      return zn_settings_get_text (settings, i);

  return g_strdup ("");
}

static gboolean
has (const ZnSettings *settings, const gchar *name, const gchar *want)
{
  gchar   *text = text_of (settings, name);
  gboolean same = ! strcmp (text, want);

  g_free (text);

  return same;
}

static void
test_preset_leaves_model (void)
{
  GPtrArray      *presets  = zn_presets_load ();
  const ZnPreset *preset   = zn_presets_find (presets, "High ISO photo", NULL);
  ZnSettings     *settings = zn_settings_new (zn_filter_by_operation ("zenith:denoise"), NULL);

  CHECK (preset && settings, "no preset or no operation");
  zn_settings_set_text (settings, "model", "best", NULL);
  zn_settings_set_text (settings, "engine", "scalar", NULL);
  zn_settings_set_text (settings, "sigma", "30", NULL);
  CHECK (zn_preset_apply (preset, settings, NULL), "it was refused");
  CHECK (has (settings, "model", "best"), "the model was changed");
  CHECK (has (settings, "engine", "scalar"), "the engine was changed");
  CHECK (has (settings, "sigma", "0"), "the level was not");
  CHECK (zn_preset_leaves (preset, "model") && ! zn_preset_leaves (preset, "strength"),
         "it does not know what it leaves");
  zn_settings_free (settings);
  g_ptr_array_unref (presets);
}

/* The presets, again, and one of them. */
static const ZnPreset *
reload (GPtrArray **presets, const gchar *name)
{
  if (*presets)
    g_ptr_array_unref (*presets);
  *presets = zn_presets_load ();

  return zn_presets_find (*presets, name, NULL);
}

static void
test_own_presets (void)
{
  GPtrArray      *presets  = NULL;
  ZnSettings     *settings = zn_settings_new (zn_filter_by_operation ("zenith:denoise"), NULL);
  ZnSettings     *again;
  const ZnPreset *preset;
  GError         *error = NULL;

  reload (&presets, "");
  zn_settings_set_text (settings, "model", "best", NULL);
  zn_settings_set_text (settings, "strength", "0.15", NULL);

  CHECK (zn_preset_save (presets, settings, "Ännas Kamera 6400", FALSE, TRUE, NULL), "not saved");
  preset = reload (&presets, "Ännas Kamera 6400");
  CHECK (preset && preset->own, "not found");
  again = zn_preset_settings (preset, NULL);
  CHECK (again && has (again, "strength", "0.15"), "not its strength");
  CHECK (again && has (again, "model", "balanced"), "it names the model");
  zn_settings_free (again);

  CHECK (zn_preset_save (presets, settings, "ännas kamera 6400", TRUE, TRUE, NULL), "not replaced");
  preset = reload (&presets, "Ännas Kamera 6400");
  again  = preset ? zn_preset_settings (preset, NULL) : NULL;
  CHECK (again && has (again, "model", "best"), "it does not name the model");
  zn_settings_free (again);

  CHECK (! zn_preset_save (presets, settings, "gentle", FALSE, TRUE, &error) && error &&
             strstr (error->message, "already"),
         "a shipped preset was replaced");
  g_clear_error (&error);
  CHECK (! zn_preset_save (presets, settings, "", FALSE, TRUE, &error) && error,
         "a name of nothing");
  g_clear_error (&error);
  CHECK (! zn_preset_save (presets, settings, "a\nname=b", FALSE, TRUE, &error) && error,
         "a name of two lines");
  g_clear_error (&error);

  CHECK (! zn_preset_rename (presets, preset, "Strong", &error) && error, "a name that is taken");
  g_clear_error (&error);
  CHECK (zn_preset_rename (presets, preset, "日本", NULL), "not renamed");
  CHECK (! reload (&presets, "Ännas Kamera 6400"), "the old name is there");
  preset = reload (&presets, "日本");
  CHECK (preset && preset->own && preset->n > 3, "the new name is not");

  CHECK (! zn_preset_delete (zn_presets_find (presets, "Gentle", NULL), &error) && error,
         "a shipped preset was deleted");
  g_clear_error (&error);
  CHECK (preset && zn_preset_delete (preset, NULL), "not deleted");
  CHECK (! reload (&presets, "日本"), "it is still there");

  zn_settings_free (settings);
  g_ptr_array_unref (presets);

  for (guint i = 0; i < 2; i++)
    {
      gchar *folder = in_folder (i ? "zenith" : "zenith/presets");

      CHECK (! g_rmdir (folder), "something is left in %s", folder);
      g_free (folder);
    }
}

/* Left half: noise; right half: none. */
static GeglBuffer *
half_noisy (gint w, gint h)
{
  GeglBuffer *buffer = gegl_buffer_new (GEGL_RECTANGLE (0, 0, w, h), babl_format ("R'G'B' float"));
  gfloat     *pixels = g_new (gfloat, (gsize) w * h * 3);
  GRand      *rand   = g_rand_new_with_seed (1);

  for (gint i = 0; i < w * h; i++)
    for (gint c = 0; c < 3; c++)
      {
        gdouble noise = 0.0; /* of 12 uniform numbers: nearly normal */

        for (gint k = 0; k < 12; k++)
          noise += g_rand_double (rand) - 0.5;
        pixels[i * 3 + c] = 0.4f + 0.2f * (gfloat) (i % w) / w +
                            (i % w < w / 2 ? (gfloat) noise * 20.0f / 255.0f : 0.0f);
      }
  gegl_buffer_set (buffer, NULL, 0, babl_format ("R'G'B' float"), pixels, GEGL_AUTO_ROWSTRIDE);
  g_rand_free (rand);
  g_free (pixels);

  return buffer;
}

static gdouble
measure (const ZnSettings *settings, GeglBuffer *buffer, gint x, gint width)
{
  const GeglRectangle selected = { x, 0, width, gegl_buffer_get_height (buffer) };
  ZnNoise             noise;

  zn_apply_measure (settings, buffer, &selected, &noise, NULL, NULL);
  g_free (noise.text);

  return noise.mean;
}

static void
test_noise_of_selection (void)
{
  GeglBuffer *buffer   = half_noisy (512, 256);
  ZnSettings *settings = zn_settings_new (zn_filter_by_operation ("zenith:denoise"), NULL);
  guint       runs     = ops_network_runs ? ops_network_runs () : 0;
  gdouble     noisy, clean;

  zn_settings_set_text (settings, "model", "fast", NULL);
  zn_settings_set_text (settings, "sigma", "40", NULL); /* by hand: measured all the same */
  noisy = measure (settings, buffer, 0, 256);
  clean = measure (settings, buffer, 256, 256);
  CHECK (noisy > 15.0 && noisy < 25.0, "%g in the noisy half, not 20", noisy);
  CHECK (clean >= 0.0 && clean < 2.0, "%g in the clean half", clean);
  CHECK (! ops_network_runs || ops_network_runs () == runs, "a network ran for it");

  zn_settings_free (settings);
  g_object_unref (buffer);
}

/* A preview of an operation that computes whole pictures gets whole cells of the engine's grid, with a margin:
 * what it shows is nearly what the whole picture has there, wherever that lies, and less is computed. */
static void
test_preview_of_a_latent (void)
{
  static const gint place[][2] = { { 0, 0 }, { 333, 291 }, { 641, 1 }, { 500, 560 } };
  GeglBuffer       *in         = picture ("R'G'B' u8", 13, -9, 741, 660, 6);
  ZnSettings *settings = zn_settings_new (zn_filter_by_operation ("zenith:latent-preview"), NULL);
  gfloat     *whole    = apply ("zenith:latent-preview", "model=taesd", in, NULL, NULL);
  guchar     *rgba     = g_new (guchar, 100 * 100 * 4);
  ZnFound     found;

  zn_settings_set_text (settings, "model", "taesd", NULL);
  for (guint i = 0; i < G_N_ELEMENTS (place); i++)
    {
      const GeglRectangle roi    = { 13 + place[i][0], -9 + place[i][1], 100, 100 };
      const guint64       before = ops_network_pixels ();
      gdouble             most   = 0.0;
      GError             *error  = NULL;

      CHECK (zn_apply_to_pixels (settings, in, gegl_buffer_get_extent (in), &roi, rgba, &found,
                                 NULL, NULL, &error),
             "%s", error->message);
      for (gint j = 0; j < 100 * 100 * 3; j++)
        {
          const gint at = (place[i][1] + j / 300) * 741 + place[i][0] + j / 3 % 100;

          most = fmax (most, fabs (rgba[j / 3 * 4 + j % 3] / 255.0 -
                                   CLAMP (whole[at * 4 + j % 3], 0.0f, 1.0f)));
        }
      CHECK (most < 1.01 / 255, "at %d,%d: %g of 255 off", place[i][0], place[i][1], most * 255);
      CHECK (ops_network_pixels () - before < 741 * 660 * 2 / 3, "at %d,%d: %" G_GUINT64_FORMAT,
             place[i][0], place[i][1], ops_network_pixels () - before);
      g_free (found.noise.text);
    }
  g_free (rgba);
  g_free (whole);
  zn_settings_free (settings);
  g_object_unref (in);
}

static void
test_engines (void)
{
#if defined(__aarch64__) || defined(__arm__)
  gchar *foreign = zn_engine_missing ("avx2");
#else
  gchar *foreign = zn_engine_missing ("neon");
#endif
  gchar *plain = zn_engine_missing ("scalar");

  CHECK (! plain, "plain C is missing: %s", plain);
  CHECK (foreign && *foreign, "the engine of another processor is not missing");
  g_free (plain);
  g_free (foreign);
}

int
main (int argc, char **argv)
{
  g_setenv ("ZENITH_PRESETS", SOURCE_DIR "/presets", TRUE);
  if (! ops_begin (&argc, &argv)) /* with a data folder of its own */
    return 1;

  RUN (test_preset_leaves_model);
  RUN (test_own_presets);
  RUN (test_noise_of_selection);
  RUN (test_preview_of_a_latent);
  RUN (test_engines);

  return ops_end ();
}
