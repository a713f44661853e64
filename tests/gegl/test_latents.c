/* SPDX-License-Identifier: MIT */
/* test_latents.c - latents: made of pictures, made into pictures, and shown. */

#include "ops.h"
#include "zenith.h"

static void
test_size_and_format_of_latents (void)
{
  static const struct
  {
    const gchar *model;
    gint         factor, channels;
  } cases[] = {
    { "taesd", 8, 4 },     { "taef1", 8, 16 },      { "taef2", 8, 32 },
    { "taesana", 32, 32 }, { "flux-ae", 4, 6 },     { "wan-vae", 16, 48 },
    { "wan2d-vae", 4, 4 }, { "zenith-lite", 8, 4 }, { "zenith-f2", 8, 4 },
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

      CHECK (run.box.x == -((9 + f - 1) / f) && run.box.y == 35 / f &&
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
  static const gchar *const models[] = {
    "model=taesd",   "model=taef1",     "model=taef2",       "model=taesana",  "model=flux-ae",
    "model=wan-vae", "model=wan2d-vae", "model=zenith-lite", "model=zenith-f2"
  };

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

/* A difference times the scale, and how large it is in all. */
static void
test_difference_has_a_scale (void)
{
  const GeglRectangle box = { 0, 0, 50, 40 };
  GeglBuffer         *in  = picture ("R'G'B' float", 0, 0, 50, 40, 12);
  gfloat             *x   = pixels_of (in, &box, "R'G'B'A float");
  gfloat             *a   = apply ("zenith:latent-preview", "model=taesd", in, NULL, NULL);
  static const struct
  {
    const gchar *settings;
    gfloat       scale;
  } cases[] = { { "model=taesd mode=difference", 4 },
                { "model=taesd mode=difference scale=1.5", 1.5f } };

  for (guint k = 0; k < G_N_ELEMENTS (cases); k++)
    {
      Run     run     = run_new ("zenith:latent-preview", cases[k].settings, in);
      gfloat *b       = run_pixels (&run, &box);
      gdouble squares = 0.0;
      gchar  *loss    = NULL, *want;

      for (gint i = 0; i < 50 * 40 * 4; i++)
        if (i % 4 < 3)
          {
            const gfloat d = fabsf (CLAMP (a[i], 0.0f, 1.0f) - x[i]);

            squares += d * d;
            CHECK (fabsf (b[i] - MIN (cases[k].scale * d, 1.0f)) < 1e-5f, "%g, not %g", b[i],
                   cases[k].scale * d);
          }
      gegl_node_get (run.op, "loss", &loss, NULL);
      want = g_strdup_printf ("PSNR %.2f dB; ", -10 * log10 (squares / (50 * 40 * 3)));
      CHECK (g_str_has_prefix (loss, want), "'%s', not '%s...'", loss, want);
      g_free (want);
      want = g_strdup_printf ("white from %.0f on", 255 / cases[k].scale);
      CHECK (strstr (loss, want), "'%s', not '...%s...'", loss, want);
      g_free (want);
      g_free (loss);
      g_free (b);
      run_free (&run);
    }
  g_free (x);
  g_free (a);
  g_object_unref (in);
}

/* With planes, a channel of a latent is a grey picture between rows that repeat its edges; and decoding it is the same. */
static void
test_planes (void)
{
  const GeglRectangle box = { 0, 0, 48, 40 }, small = { 0, 0, 6, 5 },
                      tall = { 0, 0, 6, 16 * (5 + 16) };
  GeglBuffer *in           = picture ("R'G'B' u8", 0, 0, 48, 40, 14);
  Run         plain        = run_new ("zenith:latent-encode", "model=taef1", in);
  Run         run          = run_new ("zenith:latent-encode", "model=taef1 planes=1", in);
  GeglNode   *decode = gegl_node_new_child (run.graph, "operation", "zenith:latent-decode", NULL);
  gfloat     *z = g_new (gfloat, 6 * 5 * 16), *planes = g_new (gfloat, 6 * 16 * 21), *a, *b;
  gchar      *status = NULL;

  CHECK (gegl_rectangle_equal (&run.box, &tall), "%dx%d", run.box.width, run.box.height);
  gegl_node_blit (plain.op, 1.0, &small, babl_format_n (babl_type ("float"), 16), z,
                  GEGL_AUTO_ROWSTRIDE, GEGL_BLIT_DEFAULT);
  gegl_node_blit (run.op, 1.0, &tall, babl_format ("Y float"), planes, GEGL_AUTO_ROWSTRIDE,
                  GEGL_BLIT_DEFAULT);
  for (gint i = 0; i < 6 * 16 * 21; i++)
    {
      const gint y = CLAMP (i / 6 % 21 - 8, 0, 4), k = i / 6 / 21;

      CHECK (planes[i] == z[(y * 6 + i % 6) * 16 + k], "plane %d, row %d", k, i / 6 % 21);
    }

  a = apply ("zenith:latent-preview", "model=taef1", in, NULL, NULL);
  set_properties (decode, "model=taef1 planes=1");
  gegl_node_link (run.op, decode);
  run.op = decode;
  b      = run_pixels (&run, &box);
  CHECK (difference (a, b, 48 * 40 * 4) < 1e-5, "%g off", difference (a, b, 48 * 40 * 4));
  g_free (a);
  g_free (b);

  a = apply ("zenith:latent-decode", "model=taef1 planes=1", in, &status, NULL);
  CHECK (strstr (status, "not the 16 planes"), "status '%s'", status);
  g_free (a);
  g_free (status);
  g_free (z);
  g_free (planes);
  run_free (&plain);
  run_free (&run);
  g_object_unref (in);
}

/* A latent is shown by the projection in its weight file, the same for every picture. */
static void
test_view_of_a_latent (void)
{
  static const gchar *const file  = DATA_DIR "/latent-plain.safetensors";
  const GeglRectangle       small = { 0, 0, 6, 4 };
  GeglBuffer               *in    = picture ("R'G'B' u8", 0, 0, 48, 32, 13);
  Run                       run   = run_new ("zenith:latent-encode", "model=zenith-lite", in);
  gfloat *shown = apply ("zenith:latent-preview", "model=zenith-lite mode=latent", in, NULL, NULL);
  zn_weights *weights = NULL;
  gfloat      w[3 * 4], b[3], z[6 * 4 * 4];

  g_assert (! zn_weights_open (&weights, &file, 1, NULL));
  g_assert (! zn_weights_read (w, 12, weights, "view.weight", NULL) &&
            ! zn_weights_read (b, 3, weights, "view.bias", NULL));
  zn_weights_close (&weights);
  gegl_node_blit (run.op, 1.0, &small, babl_format ("RGBA float"), z, GEGL_AUTO_ROWSTRIDE,
                  GEGL_BLIT_DEFAULT);
  for (gint i = 0; i < 48 * 32; i++)
    for (gint c = 0; c < 3; c++)
      {
        const gfloat *at   = z + (i / 48 / 8 * 6 + i % 48 / 8) * 4;
        gfloat        want = b[c];

        for (gint k = 0; k < 4; k++)
          want += w[4 * c + k] * at[k];
        want = CLAMP (want, 0.0f, 1.0f);
        CHECK (fabsf (shown[4 * i + c] - want) < 1e-4f, "pixel %d: %g, not %g", i, shown[4 * i + c],
               want);
      }
  run_free (&run);
  g_free (shown);
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
    "model=wan-vae weights=" DATA_DIR "/taef1_decoder.safetensors",
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

/* Runs one half in one piece; or, with `tiles`, asks into how many tiles ZENITH_MEMORY makes it go. */
static zn_array
run_half (zn_engine *engine, const gchar *id, const gchar *file, const zn_array *in, gint *tiles)
{
  const zn_job job   = { .max_memory = (gsize) 1 << 30 };
  zn_model    *model = NULL;
  zn_plan      plan  = { 0 };
  zn_array     out   = { 0 };

  g_assert (! zn_model_open (&model, engine, id, &(zn_open){ .files = &file, .n_files = 1 }, NULL));
  g_assert (! zn_model_shape (model, in, 1, &out, NULL));
  if (tiles)
    *tiles = zn_model_plan (model, in, 1, NULL, &plan, NULL) ? 0 : plan.n_tiles;
  else
    {
      out.data = g_new (gfloat, zn_array_len (&out));
      g_assert (! zn_model_run (model, in, 1, &out, &job, NULL));
    }
  zn_model_close (&model);
  return out;
}

/* The large autoencoders see pictures of -1..1: what the operation makes of a picture, in tiles, too, is what the engine
 * makes of 2 x - 1 in one piece, and back. */
static void
test_large_autoencoders (void)
{
  static const struct
  {
    const gchar *model, *file;
    gint         w, h;
    const gchar *memory; /* ZENITH_MEMORY; NULL: one piece */
  } cases[] = {
    { "wan-vae", DATA_DIR "/wan21.pth", 40, 24, NULL },
    { "wan-vae", DATA_DIR "/wan21.pth", 2600, 200, "30" },
    { "flux-ae", DATA_DIR "/kl-flux.pth", 180, 132, NULL },
  };
  zn_engine *engine = NULL;

  g_assert (! zn_engine_open (&engine, "auto", 0, NULL));
  for (guint k = 0; k < G_N_ELEMENTS (cases); k++)
    {
      const GeglRectangle box      = { 0, 0, cases[k].w, cases[k].h };
      GeglBuffer         *in       = picture ("R'G'B' float", 0, 0, box.width, box.height, 16);
      gchar              *settings = g_strdup_printf ("weights=%s", cases[k].file);
      gchar              *encode   = g_strdup_printf ("%s-encode", cases[k].model);
      gchar              *decode   = g_strdup_printf ("%s-decode", cases[k].model);
      gfloat             *x        = pixels_of (in, &box, "R'G'B' float"), *got;
      zn_array            a        = { x, box.height, box.width, 3 }, z, y;
      gchar              *status   = NULL;
      gdouble             worst    = 0;
      gint                tiles[2] = { 1, 1 };

      for (gint i = 0; i < 3 * box.width * box.height; i++)
        x[i] = 2 * x[i] - 1;
      z = run_half (engine, encode, cases[k].file, &a, NULL);
      y = run_half (engine, decode, cases[k].file, &z, NULL);
      if (cases[k].memory)
        g_setenv ("ZENITH_MEMORY", cases[k].memory, TRUE);
      run_half (engine, encode, cases[k].file, &a, &tiles[0]);
      run_half (engine, decode, cases[k].file, &z, &tiles[1]);
      CHECK (! cases[k].memory || MAX (tiles[0], tiles[1]) > 3, "%s: %d and %d tiles",
             cases[k].model, tiles[0], tiles[1]);
      got = apply ("zenith:latent-preview", settings, in, &status, NULL);
      g_unsetenv ("ZENITH_MEMORY");
      CHECK (! *status, "%s: %s", cases[k].model, status);
      for (gint i = 0; i < box.width * box.height; i++)
        for (gint c = 0; c < 3; c++)
          worst = MAX (
              worst,
              fabs (got[4 * i + c] -
                    (0.5 * y.data[((gsize) (i / box.width) * y.w + i % box.width) * 3 + c] + 0.5)));
      CHECK (worst < 1e-4, "%s of %dx%d: %g off", cases[k].model, box.width, box.height, worst);
      g_free (settings);
      g_free (encode);
      g_free (decode);
      g_free (status);
      g_free (z.data);
      g_free (y.data);
      g_free (x);
      g_free (got);
      g_object_unref (in);
    }
  zn_engine_close (&engine);
}

typedef struct
{
  gfloat *data;
  gsize   len; /* of a frame */
} Frames;

static bool
frame_out (void *cookie, int32_t i, float *frame)
{
  const Frames *f = cookie;

  memcpy (frame, f->data + i * f->len, f->len * sizeof (gfloat));

  return true;
}

static bool
frame_in (void *cookie, int32_t i, float *frame)
{
  const Frames *f = cookie;

  memcpy (f->data + i * f->len, frame, f->len * sizeof (gfloat));

  return true;
}

/* Frames one below the other are what the engine makes of a video; alpha stays, one frame is a still picture, and what is no
 * whole number of frames passes through. */
static void
test_video (void)
{
  enum
  {
    N   = 6,
    W   = 20,
    H   = 12,
    LEN = W * H * 3
  };
  const GeglRectangle box   = { 0, 0, W, N * H };
  GeglBuffer         *in    = picture ("R'G'B'A float", 3, -5, W, N * H, 16);
  const GeglRectangle there = { 3, -5, W, N * H };
  gfloat             *x     = pixels_of (in, &there, "R'G'B'A float");
  Frames          from = { g_new (gfloat, N * LEN), LEN }, to = { g_new (gfloat, N * LEN), LEN };
  const zn_frames source = { N, H, W, 3, frame_out, &from }, sink = { N, H, W, 3, frame_in, &to };
  const gchar    *file = ZN_RANDOM_WEIGHTS "8";
  const zn_open   open = { .files = &file, .n_files = 1 };
  zn_model       *enc = NULL, *dec = NULL;
  zn_engine      *engine = NULL;
  gchar          *status = NULL;
  gdouble         worst = 0, apart = 0;
  gfloat         *got, *still;

  for (gint i = 0; i < box.width * box.height; i++)
    for (gint c = 0; c < 3; c++)
      from.data[3 * i + c] = 2 * (x[4 * i + 3] > 0 ? x[4 * i + c] : 0.5f) - 1;
  g_assert (! zn_engine_open (&engine, "auto", 0, NULL) &&
            ! zn_model_open (&enc, engine, "wan-video-encode", &open, NULL) &&
            ! zn_model_open (&dec, engine, "wan-video-decode", &open, NULL) &&
            ! zn_model_pass_video (enc, dec, &sink, &source, NULL, NULL));
  got = apply ("zenith:wan-video", "frames=6 weights=random:8", in, &status, NULL);
  CHECK (! *status, "%s", status);
  g_free (status);
  still = apply ("zenith:wan-video", "weights=random:8", in, &status, NULL);
  CHECK (! *status, "%s", status);
  for (gint i = 0; i < box.width * box.height; i++)
    {
      CHECK (got[4 * i + 3] == x[4 * i + 3], "alpha of pixel %d is %g", i, got[4 * i + 3]);
      for (gint c = 0; c < 3 && x[4 * i + 3] > 0; c++)
        {
          worst = MAX (worst, fabs (got[4 * i + c] - (0.5 * to.data[3 * i + c] + 0.5)));
          apart = MAX (apart, fabs (got[4 * i + c] - still[4 * i + c]));
        }
    }
  CHECK (worst < 1e-5 && apart > 1e-3, "%g off; a still picture %g", worst, apart);
  g_free (status);
  g_free (got);
  got = apply ("zenith:wan-video", "frames=7 weights=random:8", in, &status, NULL);
  CHECK (strstr (status, "7") && ! memcmp (got, x, N * W * H * 16), "%s", status);
  g_free (status);
  g_free (got);
  got = apply ("zenith:wan-video", "frames=6 weights=" DATA_DIR "/kl-flux.pth", in, &status, NULL);
  CHECK (strstr (status, "flux-ae") && ! memcmp (got, x, N * W * H * 16), "%s", status);
  zn_model_close (&enc);
  zn_model_close (&dec);
  zn_engine_close (&engine);
  g_free (status);
  g_free (got);
  g_free (still);
  g_free (x);
  g_free (from.data);
  g_free (to.data);
  g_object_unref (in);
}

/* The norms of flux-ae are of the whole picture, so that it has no tiles: what does not fit is refused, with the size that
 * would, and the pixels pass through. */
static void
test_refused_in_little_memory (void)
{
  const GeglRectangle box    = { 0, 0, 180, 132 };
  GeglBuffer         *in     = picture ("R'G'B' float", 0, 0, box.width, box.height, 17);
  gfloat             *x      = pixels_of (in, &box, "R'G'B'A float"), *got;
  gchar              *status = NULL;

  g_setenv ("ZENITH_MEMORY", "31", TRUE);
  got = apply ("zenith:latent-preview", "weights=" DATA_DIR "/kl-flux.pth", in, &status, NULL);
  g_unsetenv ("ZENITH_MEMORY");
  CHECK (strstr (status, "cannot work in tiles") && strstr (status, "would fit"), "'%s'", status);
  CHECK (! difference (x, got, 4 * box.width * box.height), "other pixels");
  g_free (status);
  g_free (x);
  g_free (got);
  g_object_unref (in);
}

/* Without a decoder, a latent of Wan is shown by its colours, and the note says so. */
static void
test_wan_latent_without_decoder (void)
{
  gchar              *old   = g_strdup (g_getenv ("ZENITH_MODELS"));
  gchar              *home  = g_strdup (g_getenv ("XDG_DATA_HOME"));
  const GeglRectangle small = { 0, 0, 5, 3 }, box = { 0, 0, 40, 24 };
  const Babl         *format = babl_format_n (babl_type ("float"), 16);
  GeglBuffer         *in     = gegl_buffer_new (&small, format);
  gfloat              z[5 * 3 * 16];
  gfloat             *got;
  gchar              *note = NULL, *status = NULL;
  gboolean            noted;
  Run                 run;

  for (gint i = 0; i < 5 * 3 * 16; i++)
    z[i] = i % 16 == 6 ? -1.0f : 0.0f;
  gegl_buffer_set (in, &small, 0, format, z, GEGL_AUTO_ROWSTRIDE);
  g_setenv ("ZENITH_MODELS", "/nowhere", TRUE);
  g_setenv ("XDG_DATA_HOME", "/nowhere", TRUE);
  run = run_new ("zenith:latent-decode", "model=wan-vae", in);
  CHECK (run.box.width == 40 && run.box.height == 24, "%dx%d", run.box.width, run.box.height);
  got = run_pixels (&run, &box);
  gegl_node_get (run.op, "note", &note, "status", &status, "noted", &noted, NULL);
  CHECK (! *status && noted && strstr (note, "wan-vae"), "status '%s', note '%s'", status, note);
  /* channel 6 is -0.3477, -0.4059, -0.2925 of the colours, which begin at -0.1835, -0.0868, -0.3360 */
  for (gint i = 0; i < 40 * 24; i++)
    CHECK (fabsf (got[4 * i] - (0.3477f - 0.1835f + 1) / 2) < 1e-3f &&
               fabsf (got[4 * i + 1] - (0.4059f - 0.0868f + 1) / 2) < 1e-3f &&
               fabsf (got[4 * i + 2] - (0.2925f - 0.3360f + 1) / 2) < 1e-3f,
           "pixel %d is %g %g %g", i, got[4 * i], got[4 * i + 1], got[4 * i + 2]);
  g_setenv ("ZENITH_MODELS", old, TRUE);
  g_setenv ("XDG_DATA_HOME", home, TRUE);
  run_free (&run);
  g_free (got);
  g_free (note);
  g_free (status);
  g_free (old);
  g_free (home);
  g_object_unref (in);
}

/* The same for the latents of other generators: a latent of zeros has the offset of the projection. */
static void
test_latents_without_decoders (void)
{
  static const struct
  {
    const gchar *settings;
    gint         channels;
    gfloat       red;
  } cases[]  = { { "model=taesd", 4, 0.0f },
                 { "model=taesdxl", 4, 0.1084f },
                 { "model=taesd3", 16, 0.2394f },
                 { "model=taef1", 16, -0.0329f },
                 { "model=taef2", 32, -0.1248f } };
  gchar *old = g_strdup (g_getenv ("ZENITH_MODELS")), *home = g_strdup (g_getenv ("XDG_DATA_HOME"));

  g_setenv ("ZENITH_MODELS", "/nowhere", TRUE);
  g_setenv ("XDG_DATA_HOME", "/nowhere", TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const gint          w     = 2 + (gint) i; /* of one size they would be one result, kept */
      const GeglRectangle small = { 0, 0, w, 3 }, box = { 0, 0, 8 * w, 24 };
      const Babl         *format = cases[i].channels == 4
                                       ? babl_format ("RGBA float")
                                       : babl_format_n (babl_type ("float"), cases[i].channels);
      GeglBuffer         *in     = gegl_buffer_new (&small, format);
      Run                 run    = run_new ("zenith:latent-decode", cases[i].settings, in);
      gfloat             *got    = run_pixels (&run, &box);
      gchar              *note   = NULL;

      gegl_node_get (run.op, "note", &note, NULL);
      CHECK (strstr (note, cases[i].settings + strlen ("model=")), "%s: note '%s'",
             cases[i].settings, note);
      for (gint k = 0; k < 8 * w * 24; k++)
        CHECK (fabsf (got[4 * k] - 0.5f * (cases[i].red + 1)) < 1e-4f, "%s: %g", cases[i].settings,
               got[4 * k]);
      g_free (note);
      g_free (got);
      run_free (&run);
      g_object_unref (in);
    }
  g_setenv ("ZENITH_MODELS", old, TRUE);
  g_setenv ("XDG_DATA_HOME", home, TRUE);
  g_free (old);
  g_free (home);
}

/* Every autoencoder that the engine knows, from files and made up, and pictures of a size that fits none of them:
 * encoding and decoding is the preview. */
static void
test_every_autoencoder (void)
{
  static const struct
  {
    const gchar *settings;
    gint         channels, factor, only_w, only_h; /* the one size that the weights take; 0: any */
  } cases[] = {
    { "weights=" DATA_DIR "/zenith-taesd-encode.safetensors", 4, 8, 32, 16 },
    { "weights=" DATA_DIR "/zenith-lite-decode.safetensors", 4, 8, 32, 16 },
    { "weights=" DATA_DIR "/zenith-lite-extended-encode.safetensors", 4, 8, 0, 0 },
    { "weights=" DATA_DIR "/zenith-spectral-encode.safetensors", 4, 8, 32, 16 },
    { "weights=" DATA_DIR "/zenith-vanilla-encode.safetensors", 4, 8, 0, 0 },
    { "weights=" DATA_DIR "/zenith-ae.safetensors", 3, 1, 0, 0 },
    { "weights=" DATA_DIR "/zenith-prune.safetensors", 3, 1, 0, 0 },
    { "weights=" DATA_DIR "/zenith-prune-residual.safetensors", 3, 1, 0, 0 },
    { "weights=" DATA_DIR "/zenith-conv-baseline.safetensors", 3, 1, 0, 0 },
    { "weights=" DATA_DIR "/latent-mix.safetensors", 4, 8, 0, 0 },
    { "weights=" DATA_DIR "/kl-sd.ckpt", 4, 2, 0, 0 },
    { "weights=" DATA_DIR "/wan2d.pth", 4, 4, 0, 0 },
    { "model=zenith weights=random:", 16, 8, 0, 0 },
    { "model=taesd weights=random:", 4, 8, 0, 0 },
    { "model=zenith-lite weights=random:", 16, 8, 0, 0 },
    { "model=zenith-tae weights=random:", 4, 8, 0, 0 },
    { "model=zenith-taesd weights=random:16", 4, 8, 0, 0 },
    { "model=zenith-lite-doc weights=random:16", 4, 8, 0, 0 },
    { "model=zenith-spectral weights=random:16", 4, 8, 0, 0 },
    { "model=vanilla-taesd weights=random:16", 4, 8, 0, 0 },
    { "model=zenith-ae weights=random:4", 3, 1, 0, 0 },
    { "model=zenith-prune weights=random:4", 3, 1, 0, 0 },
    { "model=conv-baseline-ae weights=random:4", 3, 1, 0, 0 },
    { "model=flux-ae weights=random:16", 16, 8, 0, 0 },
    { "model=wan-vae weights=random:8", 16, 8, 0, 0 },
    { "model=wan2d-vae weights=random:8", 4, 16, 0, 0 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const gchar        *settings = cases[i].settings;
      const gint          f = cases[i].factor, only_w = cases[i].only_w, only_h = cases[i].only_h;
      const GeglRectangle box   = { 0, 0, only_w ? only_w - 5 : 45, only_h ? only_h - 3 : 37 };
      const gsize         len   = (gsize) box.width * box.height * 4;
      GeglBuffer         *in    = picture ("R'G'B' u8", 0, 0, box.width, box.height, 18);
      gchar              *shown = g_strconcat (settings, " mode=latent", NULL);
      Run                 run   = run_new ("zenith:latent-encode", settings, in);
      GeglNode *decode = gegl_node_new_child (run.graph, "operation", "zenith:latent-decode", NULL);
      GeglBuffer *latent = NULL;
      GeglNode   *sink = gegl_node_new_child (run.graph, "operation", "gegl:buffer-sink", "buffer",
                                              &latent, NULL);
      gchar      *status, *other;
      gfloat     *a = apply ("zenith:latent-preview", settings, in, &status, NULL);
      gfloat     *c = apply ("zenith:latent-preview", shown, in, &other, NULL);
      gfloat     *b;
      const Babl *format;

      CHECK (! *status && ! *other, "%s: '%s', '%s'", settings, status, other);
      CHECK (all_finite (a, len) && all_finite (c, len), "%s: values", settings);
      CHECK (run.box.width == ((only_w ? only_w : box.width) - 1) / f + 1 &&
                 run.box.height == ((only_h ? only_h : box.height) - 1) / f + 1,
             "%s: a latent of %dx%d", settings, run.box.width, run.box.height);
      gegl_node_link (run.op, sink);
      gegl_node_process (sink);
      format = gegl_buffer_get_format (latent);
      CHECK (babl_format_get_n_components (format) == cases[i].channels, "%s: %s", settings,
             babl_get_name (format));
      set_properties (decode, settings);
      gegl_node_link (run.op, decode);
      run.op = decode;
      b      = run_pixels (&run, &box);
      CHECK (difference (a, b, len) < 1e-5, "%s: %g off", settings, difference (a, b, len));
      g_free (a);
      g_free (b);
      g_free (c);
      g_free (status);
      g_free (other);
      g_free (shown);
      g_object_unref (latent);
      run_free (&run);
      g_object_unref (in);
    }
}

/* What is beyond the picture is mirrored: the operation's result is the engine's of such a picture, without what was added. */
static void
test_pictures_are_mirrored (void)
{
  static const struct
  {
    const gchar *encode, *decode, *file, *other;
    gint         w, h, full_w, full_h;
  } cases[] = {
    { "zenith-taesd-encode", "zenith-taesd-decode", DATA_DIR "/zenith-taesd-encode.safetensors",
      DATA_DIR "/zenith-taesd-decode.safetensors", 21, 9, 32, 16 },
    { "zenith-ae", NULL, DATA_DIR "/zenith-ae.safetensors", NULL, 45, 37, 64, 64 },
    { "taesd-encode", "taesd-decode", DATA_DIR "/taesd_encoder.pth", DATA_DIR "/taesd_decoder.pth",
      3, 43, 8, 48 },
  };
  zn_engine *engine = NULL;

  g_assert (! zn_engine_open (&engine, "auto", 0, NULL));
  for (guint k = 0; k < G_N_ELEMENTS (cases); k++)
    {
      const GeglRectangle box = { 0, 0, cases[k].w, cases[k].h };
      const gint          w = cases[k].full_w, h = cases[k].full_h;
      gchar              *settings = g_strdup_printf ("weights=%s", cases[k].file);
      GeglBuffer         *in       = picture ("R'G'B' float", 0, 0, box.width, box.height, 19);
      gfloat             *x        = pixels_of (in, &box, "R'G'B' float");
      gfloat             *full     = g_new (gfloat, w * h * 3), *got;
      zn_array            a = { full, h, w, 3 }, z, y = { 0 };
      gchar              *status = NULL;
      gdouble             worst  = 0;

      for (gint i = 0; i < w * h * 3; i++)
        {
          gint at_x = i / 3 % w % (2 * box.width - 2), at_y = i / 3 / w % (2 * box.height - 2);

          at_x    = MIN (at_x, 2 * box.width - 2 - at_x);
          at_y    = MIN (at_y, 2 * box.height - 2 - at_y);
          full[i] = x[(at_y * box.width + at_x) * 3 + i % 3];
        }
      z = run_half (engine, cases[k].encode, cases[k].file, &a, NULL);
      if (cases[k].decode)
        y = run_half (engine, cases[k].decode, cases[k].other, &z, NULL);
      else
        y = z;
      got = apply ("zenith:latent-preview", settings, in, &status, NULL);
      CHECK (! *status, "%s: %s", settings, status);
      for (gint i = 0; i < box.width * box.height * 3; i++)
        worst = MAX (worst,
                     fabsf (got[i / 3 * 4 + i % 3] -
                            y.data[(i / 3 / box.width * w + i / 3 % box.width) * 3 + i % 3]));
      CHECK (worst < 1e-4, "%s: %g off", settings, worst);
      if (cases[k].decode)
        g_free (y.data);
      g_free (z.data);
      g_free (full);
      g_free (x);
      g_free (got);
      g_free (status);
      g_free (settings);
      g_object_unref (in);
    }
  zn_engine_close (&engine);
}

/* Refused: what is larger than the one size of the weights, and files of other networks; the message says what fits. */
static void
test_refused_files_and_sizes (void)
{
  static const struct
  {
    const gchar *operation, *settings, *says;
  } cases[] = {
    { "zenith:latent-preview", "weights=" DATA_DIR "/zenith-taesd-encode.safetensors",
      "up to 32 x 16, not of 40 x 16" },
    { "zenith:latent-encode", "weights=" DATA_DIR "/zenith-lite-encode.safetensors",
      "up to 32 x 16, not of 40 x 16" },
    { "zenith:latent-preview", "weights=" DATA_DIR "/denoise.safetensors",
      "weights of denoise-fast, which is no autoencoder" },
    { "zenith:latent-encode", "weights=" DATA_DIR "/diffae.ckpt",
      "weights of diffae-unet, which is no autoencoder" },
  };
  const GeglRectangle box = { 0, 0, 40, 16 };
  GeglBuffer         *in  = picture ("R'G'B' float", 0, 0, 40, 16, 20);
  gfloat             *x   = pixels_of (in, &box, "R'G'B'A float");

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      gchar  *status;
      gfloat *got = apply (cases[i].operation, cases[i].settings, in, &status, NULL);

      CHECK (strstr (status, cases[i].says), "%s: '%s'", cases[i].settings, status);
      CHECK (! difference (x, got, 40 * 16 * 4), "%s: other pixels", cases[i].settings);
      g_free (got);
      g_free (status);
    }
  g_free (x);
  g_object_unref (in);
}

/* A value that is no number counts as 0, and a note says so: of a result that was kept, too. */
static void
test_latents_that_are_not_finite (void)
{
  static const gfloat       odd[]    = { NAN, INFINITY, -INFINITY };
  static const gchar *const forms[]  = { "model=zenith-lite", "model=zenith-lite planes=1" };
  static const gchar *const format[] = { "RGBA float", "Y float" };

  for (guint k = 0; k < G_N_ELEMENTS (forms); k++)
    {
      const GeglRectangle box = { 0, 0, 5, k ? 4 * (3 + 2 * 8) : 3 };
      const gsize         n   = (gsize) box.width * box.height * (k ? 1 : 4);
      const gsize         at  = k ? 10 * 5 + 2 : 30; /* a row of the first plane */
      gfloat             *z   = g_new (gfloat, n);
      gfloat             *want;
      GeglBuffer         *latent = gegl_buffer_new (&box, babl_format (format[k]));

      for (gsize i = 0; i < n; i++)
        z[i] = i == at ? 0.0f : 0.01f * (i % 100);
      gegl_buffer_set (latent, &box, 0, babl_format (format[k]), z, GEGL_AUTO_ROWSTRIDE);
      want = apply ("zenith:latent-decode", forms[k], latent, NULL, NULL);
      for (guint i = 0; i <= G_N_ELEMENTS (odd); i++)
        {
          Run      run;
          gfloat  *got;
          gchar   *note, *status;
          gboolean noted;

          z[at] = i ? odd[i - 1] : 0.0f;
          gegl_buffer_set (latent, &box, 0, babl_format (format[k]), z, GEGL_AUTO_ROWSTRIDE);
          run = run_new ("zenith:latent-decode", forms[k], latent);
          got = run_pixels (&run, &run.box);
          CHECK (! difference (got, want, (gsize) run.box.width * run.box.height * 4),
                 "%s: %g is not 0", forms[k], z[at]);
          note   = run_text (&run, "note");
          status = run_status (&run);
          gegl_node_get (run.op, "noted", &noted, NULL);
          CHECK (! *status, "%s: '%s'", forms[k], status);
          CHECK (! ! strstr (note, "not a number") == (i > 0) && noted == (i > 0), "%s: %g: '%s'",
                 forms[k], z[at], note);
          g_free (note);
          g_free (status);
          g_free (got);
          run_free (&run);
        }
      g_free (want);
      g_free (z);
      g_object_unref (latent);
    }
}

/* A latent that is large beside the cache is a buffer of GEGL's: the same pixels. */
static void
test_large_latents (void)
{
  CHECK_SELF ("--large", "ZENITH_CACHE", "0");
}

int
main (int argc, char **argv)
{
  const gboolean large = argc > 1 && ! strcmp (argv[1], "--large");

  if (! ops_begin (&argc, &argv))
    return 1;

  RUN (test_size_and_format_of_latents);
  RUN (test_encode_then_decode_is_preview);
  RUN (test_every_autoencoder);
  RUN (test_pictures_are_mirrored);
  RUN (test_refused_files_and_sizes);
  RUN (test_latents_that_are_not_finite);
  RUN (test_large_autoencoders);
  RUN (test_video);
  RUN (test_refused_in_little_memory);
  RUN (test_wan_latent_without_decoder);
  RUN (test_latents_without_decoders);
  RUN (test_difference_has_a_scale);
  RUN (test_planes);
  RUN (test_view_of_a_latent);
  RUN (test_ways_to_name_weights);
  if (! large)
    RUN (test_large_latents);

  return ops_end ();
}
