/* SPDX-License-Identifier: MIT */
/* test_failures.c - failures: the picture passes through, and the status says why.
 *
 *   test_failures              all tests
 *   test_failures --lost-gpu   one part of them, run by the above with a libcuda.so.1 that
 *                              fails (tests/unit/fake_cuda.c)
 */

#include <string.h>
#include <unistd.h>

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
    { "zenith:latent-preview", "", "'zenith'" },
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

/* The name of a file can hold anything; the status is a line of UTF-8 all the same. */
static void
test_status_is_a_line (void)
{
  GeglBuffer *in = picture ("R'G'B'A u8", 0, 0, 20, 20, 15);
  gchar      *status;

  g_free (apply ("zenith:latent-preview", "weights=/nowhere/\xff\nb.pth", in, &status, NULL));
  CHECK (*status && g_utf8_validate (status, -1, NULL) && ! strchr (status, '\n'), "'%s'", status);
  g_free (status);
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
        { DATA_DIR "/denoise.safetensors", "no autoencoder" },
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

/* Weights that are no numbers: neither the encoder's result nor the decoder's is shown. */
static void
test_weights_that_are_no_numbers (void)
{
  GeglBuffer *in     = picture ("R'G'B'A u8", 0, 0, 40, 32, 14);
  GeglBuffer *latent = picture ("RGBA float", 0, 0, 8, 8, 15);
  gchar      *file   = in_folder ("nan.safetensors");
  gchar      *set    = g_strdup_printf ("weights=%s", file);
  gchar      *bytes, *status;
  guint64     header;
  gsize       size;

  g_assert (g_file_get_contents (DATA_DIR "/latent-plain.safetensors", &bytes, &size, NULL));
  memcpy (&header, bytes, 8);
  memset (bytes + 8 + header, 0xff, size - 8 - header);
  g_assert (g_file_set_contents (file, bytes, (gssize) size, NULL));

  check_passes ("zenith:latent-preview", set, in, "not finite");
  for (gint i = 0; i < 2; i++)
    {
      g_free (apply (i ? "zenith:latent-decode" : "zenith:latent-encode", set, i ? latent : in,
                     &status, NULL));
      CHECK (strstr (status, "not finite"), "%d: the status is '%s'", i, status);
      g_free (status);
    }
  g_free (bytes);
  g_free (set);
  g_free (file);
  g_object_unref (in);
  g_object_unref (latent);
}

/* Adds a tensor of made-up half floats to a safetensors header and its data. */
static void
add_tensor (GString     *header,
            GByteArray  *data,
            const gchar *name,
            const gchar *part,
            gint         out,
            gint         in)
{
  const gboolean bias = ! in;
  const guint    len  = (guint) (bias ? out : out * in * 9);
  const guint    from = data->len;

  for (guint i = 0; i < len; i++)
    {
      const guint16 half = (guint16) (0x2800 + i * 7 % 512 + (i % 2) * 0x8000); /* about 0.04 */

      g_byte_array_append (data, (const guint8 *) &half, 2);
    }
  g_string_append_printf (header, "%s\"decoder.layers.%s.%s\":{\"dtype\":\"F16\",\"shape\":[%d",
                          header->len > 1 ? "," : "", name, part, out);
  g_string_append_printf (header, bias ? "]" : ",%d,3,3]", in);
  g_string_append_printf (header, ",\"data_offsets\":[%u,%u]}", from, data->len);
}

/* A decoder like taef1's, of 8 features, whose last layer has `out` outputs. */
static gchar *
write_decoder (gint out)
{
  static const gchar *const blocks[] = { "2", "3", "4", "7", "8", "9", "12", "13", "14", "17" };
  static const gchar *const plain[]  = { "6", "11", "16" };
  GString                  *header   = g_string_new ("{");
  GByteArray               *data     = g_byte_array_new ();
  gchar                    *name     = g_strdup_printf ("odd%d_decoder.safetensors", out);
  gchar                    *path     = in_folder (name);
  guint64                   size;

  add_tensor (header, data, "0", "weight", 8, 16);
  add_tensor (header, data, "0", "bias", 8, 0);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    for (gint j = 0; j < 5; j += 2)
      {
        gchar *part = g_strdup_printf ("%s.conv.%d", blocks[i], j);

        add_tensor (header, data, part, "weight", 8, 8);
        add_tensor (header, data, part, "bias", 8, 0);
        g_free (part);
      }
  for (guint i = 0; i < G_N_ELEMENTS (plain); i++)
    add_tensor (header, data, plain[i], "weight", 8, 8);
  add_tensor (header, data, "18", "weight", out, 8);
  add_tensor (header, data, "18", "bias", out, 0);
  g_string_append_c (header, '}');
  while (header->len % 8)
    g_string_append_c (header, ' ');

  size = GUINT64_TO_LE ((guint64) header->len);
  g_byte_array_prepend (data, (const guint8 *) header->str, (guint) header->len);
  g_byte_array_prepend (data, (const guint8 *) &size, sizeof (size));
  g_assert (g_file_set_contents (path, (const gchar *) data->data, data->len, NULL));
  g_string_free (header, TRUE);
  g_byte_array_unref (data);
  g_free (name);

  return path;
}

/* A decoder whose output is not a picture is refused; a correct one in the same form works. */
static void
test_channels_of_a_decoder (void)
{
  static const gint outs[]  = { 3, 1, 2, 4, 7 };
  GeglBuffer       *in      = picture ("R'G'B'A u8", 0, 0, 500, 40, 47);
  const Babl       *sixteen = babl_format_n (babl_type ("float"), 16);
  GeglBuffer       *latent  = gegl_buffer_new (GEGL_RECTANGLE (0, 0, 20, 10), sixteen);
  gchar            *encoder = in_folder ("taef1_encoder.safetensors");

  for (guint i = 0; i < G_N_ELEMENTS (outs); i++)
    {
      gchar *path     = write_decoder (outs[i]);
      gchar *settings = g_strdup_printf ("weights=%s", path);
      gchar *word     = g_strdup_printf ("pictures of %d channels", outs[i]);
      gchar *half     = g_strdup_printf ("odd%d_encoder.safetensors", outs[i]);
      gchar *other    = in_folder (half);

      g_assert (symlink (encoder, other) == 0);
      if (outs[i] == 3)
        {
          gchar *status;

          g_free (apply ("zenith:latent-preview", settings, in, &status, NULL));
          CHECK (! *status, "3 channels: %s", status);
          g_free (status);
        }
      else
        {
          TRY (check_passes ("zenith:latent-preview", settings, in, word));
          TRY (check_passes ("zenith:latent-decode", settings, latent, word));
        }
      g_free (other);
      g_free (half);
      g_free (word);
      g_free (settings);
      g_free (path);
    }
  g_free (encoder);
  g_object_unref (latent);
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
      CHECK (*status && strstr (status, "no bounds"), "%s: the status is '%s'", ops[i], status);
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

/* ---- a GPU that fails --------------------------------------------------- */

#if defined(__aarch64__)
#define CPU "neon"
#else
#define CPU "scalar"
#endif

/* What the CPU computed in the GPU's place is cached, with a note; it is not a failure.  Run with
 * the fake driver, whose kernels do nothing. */
static void
test_note_is_no_failure (void)
{
  GeglBuffer *in   = picture ("R'G'B' float", 0, 0, 300, 200, 48);
  gfloat     *was  = pixels_of (in, gegl_buffer_get_extent (in), "R'G'B'A float");
  gfloat     *want = apply ("zenith:denoise", "model=fast sigma=20 engine=" CPU, in, NULL, NULL);
  Run         run  = run_new ("zenith:denoise", "model=fast sigma=20 engine=cuda", in);
  Run         cpu  = run_new ("zenith:denoise", "model=fast sigma=22 engine=" CPU, in);
  gfloat     *got;
  gchar      *status, *note;

  g_setenv ("FAKE_CUDA", "lost=3", TRUE);
  got    = run_pixels (&run, &run.box);
  status = run_status (&run);
  note   = run_text (&run, "note");
  CHECK (! *status, "the status is '%s'", status);
  CHECK (strstr (note, "instead"), "the note is '%s'", note);
  CHECK (difference (got, was, 300 * 200 * 4) > 1e-3, "nothing was done");
  CHECK (difference (got, want, 300 * 200 * 4) < 1.0 / 255, "%g off the CPU's own result",
         difference (got, want, 300 * 200 * 4));
  g_free (status);
  g_free (note);

  /* the note is of the request: another one, meanwhile or afterwards, has its own */
  g_free (run_pixels (&cpu, &cpu.box));
  note = run_text (&cpu, "note");
  CHECK (! *note, "of another operation: '%s'", note);
  g_free (note);

  /* a slider, from kept results: how they were made is still true */
  set_properties (run.op, "strength=0.5");
  g_free (run_pixels (&run, &run.box));
  status = run_status (&run);
  note   = run_text (&run, "note");
  CHECK (! *status && strstr (note, "instead"), "after a slider: '%s', '%s'", status, note);
  g_free (status);
  g_free (note);

  /* made anew by the CPU itself: nothing to note */
  set_properties (run.op, "sigma=21 engine=" CPU);
  g_free (run_pixels (&run, &run.box));
  note = run_text (&run, "note");
  CHECK (! *note, "the note is still '%s'", note);
  g_free (note);

  g_free (was);
  g_free (want);
  g_free (got);
  run_free (&run);
  run_free (&cpu);
  g_object_unref (in);
}

/* A GPU refuses what it lacks (the fake one has no fp8); a CPU then computes in fp32. */
static void
test_precision_that_is_missing (void)
{
  static const struct
  {
    const gchar *settings, *variable;
    gboolean     refused;
  } cases[] = {
    { "sigma=23 engine=cuda precision=fp8", "", TRUE },
    { "sigma=23 engine=cuda", "fp8", TRUE },
    { "sigma=23 engine=cuda precision=fp16", "fp8", FALSE },
    { "sigma=23 engine=cuda", "auto", FALSE },
    { "sigma=23 engine=" CPU " precision=fp8", "", FALSE },
    { "sigma=23 engine=" CPU, "fp8", FALSE },
  };
  GeglBuffer *in = picture ("R'G'B' float", 0, 0, 100, 80, 49);

  g_setenv ("FAKE_CUDA", "", TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      gchar *settings = g_strdup_printf ("model=fast %s", cases[i].settings);
      gchar *status;

      g_setenv ("ZENITH_PRECISION", cases[i].variable, TRUE);
      g_free (apply ("zenith:denoise", settings, in, &status, NULL));
      CHECK (! ! strstr (status, "precision fp8") == cases[i].refused, "%s, %s: the status is '%s'",
             settings, cases[i].variable, status);
      g_free (settings);
      g_free (status);
    }
  g_object_unref (in);
}

/* Whether the fake GPU was given kernels of half floats. */
static gboolean
ran_in_half (const gchar *settings, GeglBuffer *in)
{
  gchar   *log  = in_folder ("cuda.log");
  gchar   *said = NULL;
  gboolean half;

  g_setenv ("FAKE_CUDA_LOG", log, TRUE);
  g_free (apply ("zenith:denoise", settings, in, NULL, NULL));
  g_unsetenv ("FAKE_CUDA_LOG");
  half = g_file_get_contents (log, &said, NULL, NULL) && strstr (said, "f16");
  unlink (log);
  g_free (said);
  g_free (log);

  return half;
}

static void
test_automatic_precision_is_half (void)
{
  GeglBuffer *in = picture ("R'G'B' float", 0, 0, 100, 80, 53);

  g_setenv ("ZENITH_PRECISION", "", TRUE);
  CHECK (ran_in_half ("model=fast sigma=24 engine=cuda", in), "no kernel of half floats ran");
  CHECK (! ran_in_half ("model=fast sigma=24 engine=cuda precision=fp32", in),
         "kernels of half floats ran where fp32 was asked for");
  g_object_unref (in);
}

static void
test_a_lost_gpu (void)
{
  if (! HAVE_CUDA)
    SKIP ("this build has no CUDA kernels");
  CHECK_SELF ("--lost-gpu", "LD_LIBRARY_PATH", FAKE_DIR);
}

/* What an operation answers is not a setting: hosts show it where there is something to read, and not greyed. */
static void
test_answers_in_automatic_dialogs (void)
{
  static const struct
  {
    const gchar *property, *visible;
  } answers[] = { { "status", "failed" },  { "note", "noted" },      { "failed", "0" },
                  { "noted", "0" },        { "memory", "0" },        { "measured", NULL },
                  { "measured-red", "0" }, { "measured-blur", "0" }, { "taken-size", "0" } };
  guint   n_operations, n_seen = 0;
  gchar **operations = gegl_list_operations (&n_operations);

  for (guint i = 0; i < n_operations; i++)
    for (gsize k = 0; g_str_has_prefix (operations[i], "zenith:") && k < G_N_ELEMENTS (answers);
         k++)
      {
        GParamSpec  *spec = gegl_operation_find_property (operations[i], answers[k].property);
        const gchar *visible;

        if (! spec && k >= 4) /* not every operation has these */
          continue;
        CHECK (spec, "%s has no %s", operations[i], answers[k].property);
        visible = gegl_param_spec_get_property_key (spec, "visible");
        CHECK (! g_strcmp0 (visible, answers[k].visible), "%s, %s: visible is '%s'", operations[i],
               answers[k].property, visible);
        CHECK (! gegl_param_spec_get_property_key (spec, "sensitive"), "%s, %s is greyed",
               operations[i], answers[k].property);
        n_seen++;
      }
  CHECK (n_seen >= 4 * 8, "%u answers", n_seen);
  g_free (operations);
}

static void
test_nonsense_for_the_cache (void)
{
  static const gchar *const cases[][2] = {
    { "zenith:denoise", "model=fast" },
    { "zenith:latent-preview", "model=taesd" },
    { "zenith:diffae-reconstruct", "" },
  };
  GeglBuffer *in = picture ("R'G'B'A u8", 5, 6, 40, 30, 14);

  g_setenv ("ZENITH_CACHE", "/tmp", TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    TRY (check_passes (cases[i][0], cases[i][1], in,
                       "ZENITH_CACHE must be a size in mebibytes, such as 512, or 4G, not '/tmp'"));
  g_unsetenv ("ZENITH_CACHE");
  g_object_unref (in);
}

int
main (int argc, char **argv)
{
  const gboolean lost = argc > 1 && ! strcmp (argv[1], "--lost-gpu");

  if (! ops_begin (&argc, &argv))
    return 1;

  if (lost)
    {
      g_setenv ("XDG_CACHE_HOME", ops_folder, TRUE);
      RUN (test_precision_that_is_missing); /* before the GPU is lost, for good */
      RUN (test_automatic_precision_is_half);
      RUN (test_note_is_no_failure);
      return ops_end ();
    }

  RUN (test_no_weights);
  RUN (test_wrong_weights);
  RUN (test_weights_that_are_no_numbers);
  RUN (test_status_is_a_line);
  RUN (test_channels_of_a_decoder);
  RUN (test_wrong_latents);
  RUN (test_engine_that_is_not_here);
  RUN (test_nonsense_for_the_cache);
  RUN (test_picture_without_end);
  RUN (test_picture_that_is_too_large);
  RUN (test_nothing_connected);
  RUN (test_status_settles);
  RUN (test_answers_in_automatic_dialogs);
  RUN (test_a_lost_gpu);

  return ops_end ();
}
