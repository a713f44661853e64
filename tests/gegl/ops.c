/* SPDX-License-Identifier: MIT */
/* ops.c - what the tests of the operations share; see the header. */

#include <locale.h>
#include <unistd.h>

#include <glib/gstdio.h>
#include <gmodule.h>

#include "ops.h"

const gchar *ops_self;
gchar       *ops_folder;
guint (*ops_network_runs) (void);
guint64 (*ops_network_pixels) (void);
guint64 (*ops_cache_size) (gboolean filed);

const Filter filters[N_FILTERS] = {
  { "zenith:identity", "" },
  { "zenith:denoise", "model=fast" },
  { "zenith:denoise", "model=fast sigma=20 detail=0.5 strength=1.2 sharpen=0.5" },
  { "zenith:restore", "" },
  { "zenith:latent-preview", "model=taef1" },
  { "zenith:latent-preview", "model=taef2 mode=latent" },
  { "zenith:latent-preview", "model=taesana mode=difference" },
};

/* ---- pictures ------------------------------------------------------------- */

GeglBuffer *
picture (const gchar *format, gint x, gint y, gint w, gint h, guint seed)
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

gfloat *
pixels_of (GeglBuffer *buffer, const GeglRectangle *rect, const gchar *format)
{
  const Babl *babl = babl_format (format);
  gfloat     *data = g_malloc ((gsize) rect->width * rect->height *
                               babl_format_get_bytes_per_pixel (babl));

  gegl_buffer_get (buffer, rect, 1.0, babl, data, GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);

  return data;
}

gdouble
difference (const gfloat *a, const gfloat *b, gsize n)
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

gboolean
all_finite (const gfloat *a, gsize n)
{
  for (gsize i = 0; i < n; i++)
    if (! isfinite (a[i]))
      return FALSE;

  return TRUE;
}

/* ---- graphs --------------------------------------------------------------- */

void
set_properties (GeglNode *op, const gchar *settings)
{
  gchar **list = g_strsplit (settings, " ", -1);

  for (gint i = 0; list[i] && *list[i]; i++)
    {
      gchar     **pair = g_strsplit (list[i], "=", 2);
      GParamSpec *spec = gegl_node_find_property (op, pair[0]);

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
      else if (spec->value_type == G_TYPE_INT || spec->value_type == G_TYPE_UINT ||
               spec->value_type == G_TYPE_BOOLEAN)
        {
          gegl_node_set (op, pair[0], atoi (pair[1]), NULL);
        }
      else
        {
          gegl_node_set (op, pair[0], pair[1], NULL);
        }
      g_strfreev (pair);
    }
  g_strfreev (list);
}

Run
run_new (const gchar *name, const gchar *settings, GeglBuffer *input)
{
  Run run;

  run.graph  = gegl_node_new ();
  run.source = gegl_node_new_child (run.graph, "operation", "gegl:buffer-source", "buffer", input,
                                    NULL);
  run.op     = gegl_node_new_child (run.graph, "operation", name, NULL);
  if (input)
    gegl_node_link (run.source, run.op);
  set_properties (run.op, settings);
  run.box = gegl_node_get_bounding_box (run.op);

  return run;
}

void
run_add (Run *run, GeglBuffer *second)
{
  GeglNode *source = gegl_node_new_child (run->graph, "operation", "gegl:buffer-source", "buffer",
                                          second, NULL);

  gegl_node_connect_to (source, "output", run->op, "aux");
}

gfloat *
run_pixels (Run *run, const GeglRectangle *rect)
{
  gfloat *data = g_new0 (gfloat, (gsize) rect->width * rect->height * 4);

  gegl_node_blit (run->op, 1.0, rect, babl_format ("R'G'B'A float"), data, GEGL_AUTO_ROWSTRIDE,
                  GEGL_BLIT_DEFAULT);

  return data;
}

gchar *
run_text (Run *run, const gchar *property)
{
  gchar *text = NULL;

  gegl_node_get (run->op, property, &text, NULL);

  return text ? text : g_strdup ("");
}

gchar *
run_status (Run *run)
{
  return run_text (run, "status");
}

void
run_free (Run *run)
{
  g_object_unref (run->graph);
}

gfloat *
apply (const gchar   *name,
       const gchar   *settings,
       GeglBuffer    *input,
       gchar        **status,
       GeglRectangle *box)
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

/* ---- the program ---------------------------------------------------------- */

gchar *
in_folder (const gchar *name)
{
  return g_build_filename (ops_folder, name, NULL);
}

gchar *
ops_run_self (const gchar *part, const gchar *variable, const gchar *value)
{
  const gchar *const argv[] = { ops_self, part, NULL };
  gchar            **env    = g_environ_setenv (g_get_environ (), variable, value, TRUE);
  gchar             *out    = NULL;
  GError            *error  = NULL;
  gint               rc     = -1;

  g_spawn_sync (NULL, (gchar **) argv, env, G_SPAWN_DEFAULT, NULL, NULL, &out, NULL, &rc, &error);
  g_strfreev (env);
  if (! error && rc == 0)
    {
      printf ("%s", g_str_has_prefix (out, "#") ? out : "");
      g_clear_pointer (&out, g_free);
      return NULL;
    }

  return error ? error->message : out;
}

/* The golden networks under the names that the operations look for. */
static void
make_folder (void)
{
  static const gchar *const names[][2] = {
    { "denoise.safetensors", "denoise-fast.safetensors" },
    { "../../../models/denoise-level.safetensors", "denoise-level.safetensors" },
    { "restore.safetensors", "restore.safetensors" },
    { "../../../models/upscale-small.safetensors", "upscale.safetensors" },
    { "../../../models/upscale-small.safetensors", "upscale-small.safetensors" },
    { "taesd_encoder.pth", "taesd_encoder.pth" },
    { "taesd_decoder.pth", "taesd_decoder.pth" },
    { "taef1_encoder.safetensors", "taef1_encoder.safetensors" },
    { "taef1_decoder.safetensors", "taef1_decoder.safetensors" },
    { "taef2_encoder.pth", "taef2_encoder.pth" },
    { "taef2_decoder.pth", "taef2_decoder.pth" },
    { "taesana_encoder.pth", "taesana_encoder.pth" },
    { "taesana_decoder.pth", "taesana_decoder.pth" },
    { "kl-flux.pth", "flux-ae.pth" },
    { "wan22.pth", "wan-vae.pth" },
    { "wan2d.pth", "wan2d-vae.pth" },
    { "diffae.ckpt", "zenith-face.ckpt" },
    { "latent-plain.safetensors", "zenith-lite.safetensors" },
    { "latent-pool.safetensors", "zenith-f2.safetensors" },
  };

  ops_folder = g_dir_make_tmp ("zenith-ops-XXXXXX", NULL);
  g_assert (ops_folder);
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
remove_folder (const gchar *folder)
{
  GDir        *dir = g_dir_open (folder, 0, NULL);
  const gchar *name;

  while (dir && (name = g_dir_read_name (dir)))
    {
      gchar *path = g_build_filename (folder, name, NULL);

      if (g_file_test (path, G_FILE_TEST_IS_DIR) && ! g_file_test (path, G_FILE_TEST_IS_SYMLINK))
        remove_folder (path);
      else
        g_unlink (path);
      g_free (path);
    }
  g_clear_pointer (&dir, g_dir_close);
  g_rmdir (folder);
}

void
ops_clear (void)
{
  remove_folder (ops_folder);
}

gboolean
ops_make_zimage (const gchar *name, const gchar *sizes)
{
  gchar   *folder  = in_folder (name);
  gchar   *command = g_strdup_printf (PYTHON " '" SOURCE_DIR "/tools/make_tiny_zimage.py' '%s' %s",
                                      folder, sizes);
  gint     code    = -1;
  gboolean made    = g_spawn_command_line_sync (command, NULL, NULL, &code, NULL) && ! code;

  if (! made)
    fprintf (stderr, "%s failed\n", command);
  g_free (command);
  g_free (folder);

  return made;
}

/* GEGL_PATH replaces GEGL's own path, so it must name that too; nothing of the
 * user's may be found.  Numbers and all are those of the user's language, as in
 * GIMP, but the messages, which tests compare. */
gboolean
ops_begin (int *argc, char ***argv)
{
  GModule *module;

  ops_self = (*argv)[0];
  g_setenv ("LANGUAGE", "en", TRUE);
  setlocale (LC_ALL, "");
  make_folder ();
  g_setenv ("GEGL_PATH", OPS_DIR ":" GEGL_DIR, TRUE);
  g_setenv ("ZENITH_MODELS", ops_folder, TRUE);
  g_setenv ("XDG_DATA_HOME", ops_folder, TRUE);
  g_setenv ("GEGL_USE_OPENCL", "no", TRUE);
  /* babl takes the conversion that was fastest when it tried them, and not all give the same bits: exact ones alone */
  g_setenv ("BABL_TOLERANCE", "0", TRUE);
  gegl_init (argc, argv);

  module = g_module_open (OPS_DIR "/zenith-ops." G_MODULE_SUFFIX, G_MODULE_BIND_LAZY);
  if (module)
    {
      g_module_symbol (module, "zn_op_network_runs", (gpointer *) &ops_network_runs);
      g_module_symbol (module, "zn_op_network_pixels", (gpointer *) &ops_network_pixels);
      g_module_symbol (module, "zn_op_cache_size", (gpointer *) &ops_cache_size);
    }

  if (gegl_has_operation ("zenith:denoise"))
    return TRUE;

  printf ("not ok module: GEGL does not find the operations in %s\n", OPS_DIR);
  printf ("0 passed, 1 failed, 0 skipped\n");
  ops_clear ();

  return FALSE;
}

gdouble
part_difference (const gfloat        *part,
                 const GeglRectangle *r,
                 const gfloat        *whole,
                 const GeglRectangle *box)
{
  gdouble most = 0.0;

  for (gint y = 0; y < r->height; y++)
    most = fmax (most,
                 difference (part + (gsize) y * r->width * 4,
                             whole + ((gsize) (r->y - box->y + y) * box->width + r->x - box->x) * 4,
                             (gsize) r->width * 4));

  return most;
}

gdouble
region_difference (GeglRectangle       *r,
                   GRand               *rand,
                   gint                 side,
                   const gchar         *name,
                   const gchar         *settings,
                   GeglBuffer          *input,
                   const gfloat        *whole,
                   const GeglRectangle *box)
{
  Run     run = run_new (name, settings, input);
  gfloat *part;
  gdouble most;

  r->x      = g_rand_int_range (rand, 0, box->width);
  r->y      = g_rand_int_range (rand, 0, box->height);
  r->width  = g_rand_int_range (rand, 1, MIN (box->width - r->x, side) + 1);
  r->height = g_rand_int_range (rand, 1, MIN (box->height - r->y, side) + 1);
  r->x += box->x;
  r->y += box->y;
  part = run_pixels (&run, r);
  most = part_difference (part, r, whole, box);
  g_free (part);
  run_free (&run);

  return most;
}
