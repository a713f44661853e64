/* SPDX-License-Identifier: MIT */
/* test_failures.c - what cannot work: the picture passes, and the status says why. */

#include "ops.h"

/* The picture must pass, bit by bit, and the status must say `word`. */
static void
check_passes (const gchar *name, const gchar *settings, GeglBuffer *in, const gchar *word)
{
  const GeglRectangle *box = gegl_buffer_get_extent (in);
  const Babl          *f   = gegl_buffer_get_format (in);
  GeglBuffer          *out = gegl_buffer_new (box, f);
  Run                  run = run_new (name, settings, in);
  gsize  size              = (gsize) box->width * box->height * babl_format_get_bytes_per_pixel (f);
  gchar *status;
  gchar *a = g_malloc (size), *b = g_malloc (size);

  CHECK (gegl_rectangle_equal (&run.box, box), "%s %s: the box is %dx%d", name, settings,
         run.box.width, run.box.height);
  gegl_node_blit_buffer (run.op, out, box, 0, GEGL_ABYSS_NONE);
  status = run_status (&run);
  gegl_buffer_get (in, box, 1.0, f, a, GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);
  gegl_buffer_get (out, box, 1.0, f, b, GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);
  CHECK (! memcmp (a, b, size), "%s %s: pixels were lost", name, settings);
  CHECK (strstr (status, word), "%s %s: the status is '%s', without '%s'", name, settings, status,
         word);
  g_free (status);
  g_free (a);
  g_free (b);
  run_free (&run);
  g_object_unref (out);
}

static void
test_no_weights (void)
{
  static const gchar *const cases[][3] = {
    { "zenith:latent-preview", "model=taesd3", "taesd3_encoder" },
    { "zenith:latent-encode", "model=taesdxl", "taesdxl_encoder" },
    { "zenith:latent-decode", "model=taesdxl", "taesdxl_decoder" },
    { "zenith:latent-preview", "", "zenith-tae" },
    { "zenith:denoise", "model=best", "denoise-best" },
  };
  GeglBuffer *in = picture ("R'G'B'A u8", 5, 6, 40, 30, 13);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      gchar *status;

      g_free (apply (cases[i][0], cases[i][1], in, &status, NULL));
      if (*status) /* else they are installed on this machine */
        TRY (check_passes (cases[i][0], cases[i][1], in, cases[i][2]));
      g_free (status);
    }
  g_object_unref (in);
}

static void
test_wrong_weights (void)
{
  static const gchar *const ops[]  = { "zenith:latent-preview", "zenith:latent-encode",
                                       "zenith:latent-decode" };
  GeglBuffer               *in     = picture ("R'G'B'A u8", 0, 0, 40, 30, 14);
  gchar                    *text   = in_folder ("text.safetensors");
  gchar                    *empty  = in_folder ("empty.pth");
  gchar                    *short_ = in_folder ("short.safetensors");
  gchar                    *whole  = in_folder ("taef1_encoder.safetensors");
  gchar                    *bytes, *settings;
  gsize                     size;

  g_file_set_contents (text, "These are no weights.\n", -1, NULL);
  g_file_set_contents (empty, "", 0, NULL);
  g_assert (g_file_get_contents (whole, &bytes, &size, NULL));
  g_file_set_contents (short_, bytes, (gssize) size / 2, NULL);
  g_free (bytes);

  for (guint i = 0; i < G_N_ELEMENTS (ops); i++)
    {
      const gchar *const files[][2] = {
        { text, "text.safetensors" },
        { empty, "empty.pth" },
        { short_, "short.safetensors" },
        { "/nowhere/at-all.pth", "at-all.pth" },
        { DATA_DIR "/denoise.safetensors", "TAESD" },
      };

      for (guint j = 0; j < G_N_ELEMENTS (files); j++)
        {
          settings = g_strdup_printf ("weights=%s", files[j][0]);
          TRY (check_passes (ops[i], settings, in, files[j][1]));
          TRY (check_passes (ops[i], settings, in, files[j][1])); /* and the second time */
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
test_wrong_latents (void)
{
  GeglBuffer *four  = picture ("RGBA float", 0, 0, 10, 10, 16);
  GeglBuffer *three = picture ("R'G'B' u8", 0, 0, 10, 10, 16);

  TRY (check_passes ("zenith:latent-decode", "model=taef1", four,
                     "4 channels where the model wants 16"));
  TRY (check_passes ("zenith:latent-decode", "model=taesd", three,
                     "3 channels where the model wants 4"));
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
      GeglNode  *graph = gegl_node_new ();
      GeglColor *red   = gegl_color_new ("rgb(1.0,0.25,0.5)");
      GeglNode  *plane = gegl_node_new_child (graph, "operation", "gegl:color", "value", red, NULL);
      Run        run   = {
                 graph, plane, gegl_node_new_child (graph, "operation", ops[i], NULL), { 1000, -50, 9, 7 }
      };
      gfloat *data;
      gchar  *status;

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
  Run       run   = { graph,
                      crop,
                      gegl_node_new_child (graph, "operation", "zenith:latent-preview", NULL),
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

int
main (int argc, char **argv)
{
  if (! ops_begin (&argc, &argv))
    return 1;

  RUN (test_no_weights);
  RUN (test_wrong_weights);
  RUN (test_wrong_latents);
  RUN (test_engine_that_is_not_here);
  RUN (test_picture_without_end);
  RUN (test_picture_that_is_too_large);
  RUN (test_nothing_connected);
  RUN (test_status_settles);

  return ops_end ();
}
