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
  zn_settings_set_text (settings, "weights", "/tmp/mine.safetensors", NULL);

  CHECK (zn_preset_save (presets, settings, "Ännas Kamera 6400", FALSE, TRUE, NULL), "not saved");
  preset = reload (&presets, "Ännas Kamera 6400");
  CHECK (preset && preset->own, "not found");
  again = zn_preset_settings (preset, NULL);
  CHECK (again && has (again, "strength", "0.15"), "not its strength");
  CHECK (again && has (again, "model", "balanced") && has (again, "weights", ""),
         "it names the model");
  zn_settings_free (again);

  CHECK (zn_preset_save (presets, settings, "ännas kamera 6400", TRUE, TRUE, NULL), "not replaced");
  preset = reload (&presets, "Ännas Kamera 6400");
  again  = preset ? zn_preset_settings (preset, NULL) : NULL;
  CHECK (again && has (again, "model", "best"), "it does not name the model");
  CHECK (again && has (again, "weights", "/tmp/mine.safetensors"), "it does not name its file");
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

/* What a dialog says of 0 and -1 holds for these, and for nothing else. */
static void
test_found (void)
{
  static const gchar *const want[][2] = { { "zenith:restore", " deblur artefacts noise" },
                                          { "zenith:upscale", " noise artefacts" },
                                          { "zenith:denoise", "" },
                                          { "zenith:diffae-manipulate", "" } };

  for (guint k = 0; k < G_N_ELEMENTS (want); k++)
    {
      ZnSettings *settings = zn_settings_new (zn_filter_by_operation (want[k][0]), NULL);
      GString    *names    = g_string_new (NULL);

      for (guint i = 0; i <= settings->n; i++)
        if (zn_settings_is_found (settings, i))
          g_string_append_printf (names, " %s", settings->property[i].spec->name);
      CHECK (! strcmp (names->str, want[k][1]), "%s:%s", want[k][0], names->str);
      g_string_free (names, TRUE);
      zn_settings_free (settings);
    }
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

/* ---- every property everywhere ------------------------------------------------ */

typedef struct
{
  gchar   **lines; /* of tests/data/properties.txt */
  gboolean *used;
  GString  *missing; /* what is not there without a reason */
} Reasons;

/* What is missing at this place needs a reason. */
static void
need_reason (Reasons *r, const gchar *place, const gchar *operation, const gchar *property)
{
  gchar   *one   = g_strdup_printf ("%s %s %s ", place, operation, property);
  gchar   *all   = g_strdup_printf ("%s * %s ", place, property);
  gchar   *any   = g_strdup_printf ("%s %s * ", place, operation);
  gboolean given = FALSE;

  for (guint i = 0; r->lines[i]; i++)
    if (g_str_has_prefix (r->lines[i], one) || g_str_has_prefix (r->lines[i], all) ||
        g_str_has_prefix (r->lines[i], any))
      given = r->used[i] = TRUE;
  if (! given)
    g_string_append_printf (r->missing, "%s%s", one, "; ");
  g_free (one);
  g_free (all);
  g_free (any);
}

static gboolean
is_among (const gchar *const *list, const gchar *name)
{
  for (; *list; list++)
    if (! strcmp (*list, name))
      return TRUE;

  return FALSE;
}

/* Whether the row of the procedure's table names the property: as a word, "model (...)" or "luma, chroma and detail". */
static gboolean
row_has (const gchar *page, const gchar *procedure, const gchar *property)
{
  gchar *row = g_strdup_printf (
      "\n\\| ([^|\n]*, )?`%s`(, [^|\n]*)? \\|([^|\n]*[ ,;(])?%s($|[ ,;)])", procedure, property);
  gboolean found = g_regex_match_simple (row, page, 0, 0);

  g_free (row);

  return found;
}

static gboolean
preset_sets (const ZnPreset *preset, const gchar *name)
{
  for (guint i = 0; i < preset->n; i++)
    if (! strcmp (preset->key[i], name))
      return TRUE;

  return FALSE;
}

static void
check_presets (Reasons *r, GPtrArray *presets, const ZnFilter *filter)
{
  gboolean any = FALSE;

  for (guint i = 0; i < presets->len; i++)
    {
      const ZnPreset *preset = presets->pdata[i];

      if (preset->own || strcmp (preset->operation, filter->operation))
        continue;
      any = TRUE;
      for (guint k = 0; filter->properties[k]; k++)
        if (! preset_sets (preset, filter->properties[k]))
          need_reason (r, "preset", filter->operation, filter->properties[k]);
    }
  if (! any)
    need_reason (r, "preset", filter->operation, "-");
}

static void
check_filter (Reasons *r, const gchar *page, GPtrArray *presets, const gchar *operation)
{
  const ZnFilter *filter = zn_filter_by_operation (operation);
  guint           n;
  GParamSpec    **specs = gegl_operation_list_properties (operation, &n);

  if (! filter)
    g_string_append_printf (r->missing, "%s has no procedure; ", operation);
  for (guint i = 0; filter && i < n; i++)
    if (! is_among (filter->properties, specs[i]->name))
      need_reason (r, "procedure", operation, specs[i]->name);
    else if (! row_has (page, filter->procedure, specs[i]->name))
      need_reason (r, "docs", operation, specs[i]->name);
  if (filter)
    check_presets (r, presets, filter);
  g_free (specs);
}

/* *missing: what has no reason; returns the lines that nothing needed. */
static gchar *
compare (const gchar *const *lines, gchar **missing)
{
  Reasons    r       = { (gchar **) lines, g_new0 (gboolean, g_strv_length ((gchar **) lines)),
                         g_string_new (NULL) };
  GString   *unused  = g_string_new (NULL);
  GPtrArray *presets = zn_presets_load ();
  guint      n;
  gchar    **operations = gegl_list_operations (&n), *page = NULL;

  g_assert (g_file_get_contents (SOURCE_DIR "/docs/scripting.md", &page, NULL, NULL));
  for (guint i = 0; i < n; i++)
    if (g_str_has_prefix (operations[i], "zenith:") && ! strstr (operations[i], ":identity"))
      check_filter (&r, page, presets, operations[i]);
  for (guint i = 0; lines[i]; i++)
    if (*lines[i] && *lines[i] != '#' && ! r.used[i])
      g_string_append_printf (unused, "%s; ", lines[i]);
  *missing = g_string_free (r.missing, FALSE);
  g_free (operations);
  g_free (page);
  g_free (r.used);
  g_ptr_array_unref (presets);

  return g_string_free (unused, FALSE);
}

static void
test_properties_are_everywhere (void)
{
  gchar  *text = NULL, *missing, *unused;
  gchar **lines;
  guint   n;

  g_assert (g_file_get_contents (SOURCE_DIR "/tests/data/properties.txt", &text, NULL, NULL));
  lines  = g_strsplit (text, "\n", -1);
  n      = g_strv_length (lines);
  unused = compare ((const gchar *const *) lines, &missing);
  CHECK (! *missing, "without a reason: %s", missing);
  CHECK (! *unused, "not needed: %s", unused);
  g_free (missing);
  g_free (unused);

  for (guint i = 0; i < n; i++) /* without any of the reasons it fails */
    if (*lines[i] && *lines[i] != '#')
      {
        gchar *line = lines[i];

        lines[i] = (gchar *) "#";
        unused   = compare ((const gchar *const *) lines, &missing);
        lines[i] = line;
        CHECK (*missing, "nobody misses '%s'", line);
        g_free (missing);
        g_free (unused);
      }
  g_strfreev (lines);
  g_free (text);
}

/* A page in the user's language, else the English one. */
static void
test_help (void)
{
  gchar       *help   = g_dir_make_tmp ("zenith-help-XXXXXX", NULL);
  gchar       *de     = g_build_filename (help, "manual", "de", NULL);
  const gchar *file[] = { "manual/de/denoise.html", "manual/denoise.html", "manual/restore.html" };
  gchar       *denoise, *restore, *french;

  g_mkdir_with_parents (de, 0700);
  for (guint i = 0; i < G_N_ELEMENTS (file); i++)
    {
      gchar *path = g_build_filename (help, file[i], NULL);

      CHECK (g_file_set_contents (path, "", 0, NULL), "%s", path);
      g_free (path);
    }
  g_setenv ("ZENITH_HELP", help, TRUE);
  g_setenv ("LANGUAGE", "de", TRUE);
  denoise = zn_help_uri ("denoise");
  restore = zn_help_uri ("restore");
  g_setenv ("LANGUAGE", "fr", TRUE);
  french = zn_help_uri ("denoise");
  CHECK (denoise && g_str_has_suffix (denoise, file[0]), "German: %s", denoise);
  CHECK (restore && g_str_has_suffix (restore, file[2]), "not in German: %s", restore);
  CHECK (french && g_str_has_suffix (french, file[1]), "not in French: %s", french);
  CHECK (! zn_help_uri ("nothing"), "a page that is not there");
  g_unsetenv ("LANGUAGE");
  for (guint i = 0; i < G_N_ELEMENTS (file); i++)
    {
      gchar *path = g_build_filename (help, file[i], NULL);

      g_unlink (path);
      g_free (path);
    }
  g_rmdir (de);
  *strrchr (de, '/') = '\0';
  g_rmdir (de);
  g_rmdir (help);
  g_free (denoise);
  g_free (restore);
  g_free (french);
  g_free (de);
  g_free (help);
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
  RUN (test_found);
  RUN (test_engines);
  RUN (test_properties_are_everywhere);
  RUN (test_help);

  return ops_end ();
}
