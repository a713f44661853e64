/* SPDX-License-Identifier: MIT */
/* test_latents.c - latents: made of pictures, made into pictures, and shown. */

#include "ops.h"

static void
test_size_and_format_of_latents (void)
{
  static const struct
  {
    const gchar *model;
    gint         factor, channels;
  } cases[] = {
    { "taesd", 8, 4 },
    { "taef1", 8, 16 },
    { "taef2", 8, 32 },
    { "taesana", 32, 32 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const gint  f        = cases[i].factor;
      GeglBuffer *in       = picture ("R'G'B' u8", -9, 35, 67, 41, 10);
      gchar      *settings = g_strdup_printf ("model=%s", cases[i].model);
      Run         run      = run_new ("zenith:latent-encode", settings, in);
      GeglNode *decode = gegl_node_new_child (run.graph, "operation", "zenith:latent-decode", NULL);
      GeglBuffer *latent = NULL;
      GeglNode   *sink = gegl_node_new_child (run.graph, "operation", "gegl:buffer-sink", "buffer",
                                              &latent, NULL);
      GeglRectangle box;
      const Babl   *format;

      CHECK (run.box.x == (f == 8 ? -2 : -1) && run.box.y == (f == 8 ? 4 : 1) &&
                 run.box.width == (67 + f - 1) / f && run.box.height == (41 + f - 1) / f,
             "%s: the latent is at %d,%d of %dx%d", cases[i].model, run.box.x, run.box.y,
             run.box.width, run.box.height);
      gegl_node_link (run.op, sink);
      gegl_node_process (sink);
      format = gegl_buffer_get_format (latent);
      CHECK (babl_format_get_n_components (format) == cases[i].channels &&
                 babl_format_get_type (format, 0) == babl_type ("float"),
             "%s: the latent is %s", cases[i].model, babl_get_name (format));
      CHECK (cases[i].channels != 4 || format == babl_format ("RGBA float"), "four channels are %s",
             babl_get_name (format));

      gegl_node_link (run.op, decode);
      set_properties (decode, settings);
      box = gegl_node_get_bounding_box (decode);
      CHECK (box.x == run.box.x * f && box.y == run.box.y * f && box.width == run.box.width * f &&
                 box.height == run.box.height * f,
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
  static const gchar *const models[] = { "model=taesd", "model=taef1", "model=taef2",
                                         "model=taesana" };

  for (guint i = 0; i < G_N_ELEMENTS (models); i++)
    {
      const GeglRectangle box = { 0, 0, 100, 75 };
      GeglBuffer         *in  = picture ("R'G'B' u8", 0, 0, 100, 75, 11);
      Run                 run = run_new ("zenith:latent-encode", models[i], in);
      GeglNode *decode = gegl_node_new_child (run.graph, "operation", "zenith:latent-decode", NULL);
      gfloat   *a      = apply ("zenith:latent-preview", models[i], in, NULL, NULL);
      gfloat   *b;

      set_properties (decode, models[i]);
      gegl_node_link (run.op, decode);
      run.op = decode;
      b      = run_pixels (&run, &box);
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
  const GeglRectangle box = { 0, 0, 50, 40 };
  GeglBuffer         *in  = picture ("R'G'B' float", 0, 0, 50, 40, 12);
  gfloat             *x   = pixels_of (in, &box, "R'G'B'A float");
  gfloat             *a   = apply ("zenith:latent-preview", "model=taesd", in, NULL, NULL);
  gfloat *b = apply ("zenith:latent-preview", "model=taesd mode=difference", in, NULL, NULL);

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

static void
test_ways_to_name_weights (void)
{
  GeglBuffer        *in     = picture ("R'G'B' u8", 0, 0, 40, 30, 15);
  gfloat            *want   = apply ("zenith:latent-preview", "model=taef1", in, NULL, NULL);
  const gchar *const ways[] = {
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

int
main (int argc, char **argv)
{
  if (! ops_begin (&argc, &argv))
    return 1;

  RUN (test_size_and_format_of_latents);
  RUN (test_encode_then_decode_is_preview);
  RUN (test_difference_is_four_times_what_differs);
  RUN (test_ways_to_name_weights);

  return ops_end ();
}
