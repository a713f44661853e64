/* SPDX-License-Identifier: MIT */
/* op-common.c - formats, alpha, bad values, progress, status and note. */

#include "config.h"

#include <math.h>
#include <string.h>

#include <glib/gi18n-lib.h>

#include "op-common.h"
#include "op-curve.h"

#define STRIP_ROWS 64      /* of a buffer in memory at a time */
#define MAX_SIDE (1 << 20) /* of a picture: twice GIMP's */
#define MAX_AREA ((gint64) 1 << 34)
#define PROGRESS_STEP 0.02   /* of the bar that is shown at once, */
#define TENTHS 32            /* bytes of a number in a text for people */
#define PROGRESS_PAUSE 50000 /* or after so many microseconds */

/* ---- types ---------------------------------------------------------------- */

/* The names of the values are what a user sees. */
static GType
enum_register (gsize *type, const gchar *name, GEnumValue *values)
{
  if (g_once_init_enter (type))
    {
      for (GEnumValue *v = values; v->value_name; v++)
        v->value_name = _ (v->value_name);
      g_once_init_leave (type, g_enum_register_static (name, values));
    }

  return *type;
}

GType
zenith_engine_get_type (void)
{
  static gsize      type;
  static GEnumValue values[] = { { ZENITH_ENGINE_AUTO, N_ ("Automatic"), "auto" },
                                 { ZENITH_ENGINE_SCALAR, N_ ("Plain C"), "scalar" },
                                 { ZENITH_ENGINE_AVX2, N_ ("AVX2"), "avx2" },
                                 { ZENITH_ENGINE_AVX512, N_ ("AVX-512"), "avx512" },
                                 { ZENITH_ENGINE_NEON, N_ ("NEON"), "neon" },
                                 { ZENITH_ENGINE_CUDA, N_ ("CUDA (GPU)"), "cuda" },
                                 { ZENITH_ENGINE_VULKAN, N_ ("Vulkan (GPU)"), "vulkan" },
                                 { 0, NULL, NULL } };

  return enum_register (&type, "ZenithEngine", values);
}

GType
zenith_precision_get_type (void)
{
  static gsize      type;
  static GEnumValue values[] = { { ZENITH_PRECISION_AUTO, N_ ("Automatic"), "auto" },
                                 { ZENITH_PRECISION_FP32, N_ ("32-bit float"), "fp32" },
                                 { ZENITH_PRECISION_TF32, N_ ("TensorFloat-32"), "tf32" },
                                 { ZENITH_PRECISION_BF16, N_ ("bfloat16"), "bf16" },
                                 { ZENITH_PRECISION_FP16, N_ ("16-bit float"), "fp16" },
                                 { ZENITH_PRECISION_FP8, N_ ("8-bit float"), "fp8" },
                                 { ZENITH_PRECISION_INT8, N_ ("8-bit integer"), "int8" },
                                 { ZENITH_PRECISION_INT4, N_ ("4-bit integer"), "int4" },
                                 { 0, NULL, NULL } };

  return enum_register (&type, "ZenithPrecision", values);
}

GType
zenith_autoencoder_get_type (void)
{
  static gsize      type;
  static GEnumValue values[] = {
    { ZENITH_AUTOENCODER_ZENITH, N_ ("Zenith"), "zenith" },
    { ZENITH_AUTOENCODER_TAESD, N_ ("TAESD (SD 1, SD 2)"), "taesd" },
    { ZENITH_AUTOENCODER_TAESDXL, N_ ("TAESDXL (SDXL)"), "taesdxl" },
    { ZENITH_AUTOENCODER_TAESD3, N_ ("TAESD3 (SD 3)"), "taesd3" },
    { ZENITH_AUTOENCODER_TAEF1, N_ ("TAEF1 (FLUX.1, Z-Image)"), "taef1" },
    { ZENITH_AUTOENCODER_TAEF2, N_ ("TAEF2 (FLUX.2)"), "taef2" },
    { ZENITH_AUTOENCODER_TAESANA, N_ ("TAESANA (Sana)"), "taesana" },
    { ZENITH_AUTOENCODER_FLUX, N_ ("AutoencoderKL (FLUX.1, Z-Image, SD, SDXL)"), "flux-ae" },
    { ZENITH_AUTOENCODER_WAN, N_ ("Wan VAE (Wan 2.1, Wan 2.2)"), "wan-vae" },
    { ZENITH_AUTOENCODER_WAN2D, N_ ("2-D Wan VAE"), "wan2d-vae" },
    { ZENITH_AUTOENCODER_LITE, N_ ("Zenith Lite (same latents, faster)"), "zenith-lite" },
    { ZENITH_AUTOENCODER_TAE, N_ ("Zenith TAE (TAESD's layout)"), "zenith-tae" },
    { ZENITH_AUTOENCODER_F2, N_ ("Zenith F2 (FLUX.2, as TAEF2)"), "zenith-f2" },
    { ZENITH_AUTOENCODER_DOC_TAESD, N_ ("Zenith-TAESD"), "zenith-taesd" },
    { ZENITH_AUTOENCODER_DOC_LITE, N_ ("Zenith-TAESD Lite"), "zenith-lite-doc" },
    { ZENITH_AUTOENCODER_DOC_SPECTRAL, N_ ("Zenith-TAESD Spectral"), "zenith-spectral" },
    { ZENITH_AUTOENCODER_DOC_VANILLA, N_ ("Vanilla TAESD"), "vanilla-taesd" },
    { ZENITH_AUTOENCODER_AE, N_ ("Zenith-AE"), "zenith-ae" },
    { ZENITH_AUTOENCODER_PRUNE, N_ ("Zenith-Prune"), "zenith-prune" },
    { ZENITH_AUTOENCODER_BASELINE, N_ ("Convolutional Baseline"), "conv-baseline-ae" },
    { 0, NULL, NULL }
  };

  return enum_register (&type, "ZenithAutoencoder", values);
}

GType
zenith_latent_mode_get_type (void)
{
  static gsize      type;
  static GEnumValue values[] = { { ZENITH_LATENT_MODE_RECONSTRUCT, N_ ("Reconstruct"),
                                   "reconstruct" },
                                 { ZENITH_LATENT_MODE_LATENT, N_ ("Latent"), "latent" },
                                 { ZENITH_LATENT_MODE_DIFFERENCE, N_ ("Difference"), "difference" },
                                 { 0, NULL, NULL } };

  return enum_register (&type, "ZenithLatentMode", values);
}

GType
zenith_denoise_model_get_type (void)
{
  static gsize      type;
  static GEnumValue values[] = { { ZENITH_DENOISE_MODEL_FAST, N_ ("Fast"), "fast" },
                                 { ZENITH_DENOISE_MODEL_BALANCED, N_ ("Balanced"), "balanced" },
                                 { ZENITH_DENOISE_MODEL_BEST, N_ ("Best"), "best" },
                                 { 0, NULL, NULL } };

  return enum_register (&type, "ZenithDenoiseModel", values);
}

GType
zenith_upscale_model_get_type (void)
{
  static gsize      type;
  static GEnumValue values[] = { { ZENITH_UPSCALE_MODEL_FAITHFUL, N_ ("Faithful"), "faithful" },
                                 { ZENITH_UPSCALE_MODEL_SMALL, N_ ("Fast"), "small" },
                                 { 0, NULL, NULL } };

  return enum_register (&type, "ZenithUpscaleModel", values);
}

const gchar *
zn_op_nick (GType type, gint value)
{
  GEnumClass *klass = g_type_class_ref (type);
  GEnumValue *found = g_enum_get_value (klass, value);

  g_type_class_unref (klass);

  return found ? found->value_nick : "";
}

/* ---- the task of an operation --------------------------------------------- */

static GQuark
describe_quark (void)
{
  return g_quark_from_static_string ("zenith-op-describe");
}

void
zn_op_set_describe (GeglOperationClass *klass, ZnOpDescribe describe)
{
  g_type_set_qdata (G_TYPE_FROM_CLASS (klass), describe_quark (), (gpointer) describe);

  klass->threaded       = FALSE;
  klass->opencl_support = FALSE;
}

void
zn_op_describe (GeglOperation *operation, gpointer task)
{
  ZnOpDescribe describe;

  describe = (ZnOpDescribe) g_type_get_qdata (G_OBJECT_TYPE (operation), describe_quark ());
  describe (operation, task);
}

gpointer
zn_op_data (GeglOperation *operation, const gchar *key, gsize size)
{
  gpointer data = g_object_get_data (G_OBJECT (operation), key);

  if (! data)
    {
      data = g_malloc0 (size);
      g_object_set_data_full (G_OBJECT (operation), key, data, g_free);
    }

  return data;
}

gboolean
zn_op_check_box (const GeglRectangle *box, zn_error *err)
{
  if (box->width <= 0 || box->height <= 0)
    g_strlcpy (err->text, _ ("There is no picture to work on."), sizeof (err->text));
  else if (gegl_rectangle_is_infinite_plane (box))
    g_strlcpy (err->text, _ ("The picture has no bounds: crop it first."), sizeof (err->text));
  else if (box->width > MAX_SIDE || box->height > MAX_SIDE ||
           (gint64) box->width * box->height > MAX_AREA)
    g_snprintf (err->text, sizeof (err->text),
                _ ("A picture of %d x %d is too large: crop it first."), box->width, box->height);
  else
    return TRUE;

  return FALSE;
}

gboolean
zn_op_input_box (GeglOperation *operation, GeglRectangle *box, zn_error *err)
{
  const GeglRectangle *in = gegl_operation_source_get_bounding_box (operation, "input");

  *box = in ? *in : *GEGL_RECTANGLE (0, 0, 0, 0);

  return zn_op_check_box (box, err);
}

/* The value of middle grey after the space's curve: 0.5 without a curve.  Networks were trained on
 * pictures with a curve: where there is none, sRGB's is used. */
static gfloat
light_of_grey (const Babl *space)
{
  const gfloat grey[3]  = { 0.5f, 0.5f, 0.5f };
  gfloat       light[3] = {
          0.0f,
  };

  babl_process (babl_fish (babl_format_with_space ("R'G'B' float", space),
                           babl_format_with_space ("RGB float", space)),
                grey, light, 1);

  return light[1];
}

gboolean
zn_op_is_linear (const Babl *format)
{
  return babl_get_model_flags (babl_format_get_model (format)) & BABL_MODEL_FLAG_LINEAR;
}

const Babl *
zn_op_picture_format (GeglOperation *operation, const gchar *pad)
{
  const Babl    *source = gegl_operation_get_source_format (operation, pad);
  const Babl    *space  = source ? babl_format_get_space (source) : NULL;
  const gboolean alpha  = ! source || babl_format_has_alpha (source);
  gfloat         grey;

  if (space && babl_space_is_cmyk (space))
    space = NULL;

  grey = light_of_grey (space);
  if (ABS (grey - 0.5f) < 0.01f ||
      (source && zn_op_is_linear (source) && ABS (grey - 0.214041f) < 1e-5f))
    return babl_format_with_space (alpha ? "RGBA float" : "RGB float", space);

  return babl_format_with_space (alpha ? "R'G'B'A float" : "R'G'B' float", space);
}

/* ---- pixels --------------------------------------------------------------- */

/* The pixels in their own format, even if that is linear. */
static void
get_stored (const ZnOpPicture *picture, zn_rect rect, gfloat *pixels)
{
  GeglRectangle place = { picture->box.x + rect.x, picture->box.y + rect.y, rect.w, rect.h };

  gegl_buffer_get (picture->buffer, &place, 1.0, picture->format, pixels, GEGL_AUTO_ROWSTRIDE,
                   GEGL_ABYSS_CLAMP);
}

void
zn_op_picture_get (const ZnOpPicture *picture, zn_rect rect, gfloat *pixels)
{
  get_stored (picture, rect, pixels);
  if (zn_op_is_linear (picture->format))
    zn_op_curve_encode (pixels, (gsize) rect.w * rect.h,
                        babl_format_get_n_components (picture->format));
}

bool
zn_op_picture_read (void *data, zn_rect rect, float *dst)
{
  const ZnOpPicture *picture = data;
  const gint         n       = babl_format_get_n_components (picture->format);
  const gsize        len     = (gsize) rect.w * MIN (rect.h, STRIP_ROWS);
  gfloat            *pixels  = gegl_malloc (len * n * sizeof (gfloat));

  for (gint y = 0; y < rect.h; y += STRIP_ROWS)
    {
      zn_rect       strip = { rect.x, rect.y + y, rect.w, MIN (rect.h - y, STRIP_ROWS) };
      const gfloat *src   = pixels;

      zn_op_picture_get (picture, strip, pixels);
      for (gsize i = (gsize) strip.w * strip.h; i; i--, src += n, dst += 3)
        for (gint c = 0; c < 3; c++)
          dst[c] = zn_is_hidden (src, n) ? 0.5f : zn_clean (src[c]);
    }

  gegl_free (pixels);

  return true;
}

/* Puts back what func() did to the colours of fully transparent pixels. */
static void
restore_hidden (gfloat *pixels, const gfloat *before, gsize len)
{
  for (gsize i = 0; i < len; i++, pixels += 4, before += 4)
    if (zn_is_hidden (before, 4))
      memcpy (pixels, before, 4 * sizeof (gfloat));
    else
      pixels[3] = before[3];
}

typedef struct
{
  const ZnOpPicture *picture;
  GeglBuffer        *output;
  zn_rect            rect;
  gint               apron;
  ZnOpStripFunc      func;
  gpointer           data;
} Write;

static void
write_strip (const Write *write, zn_rect strip, gfloat *pixels, gfloat *before)
{
  const gint          n     = babl_format_get_n_components (write->picture->format);
  const GeglRectangle box   = write->picture->box;
  const GeglRectangle place = { box.x + strip.x, box.y + strip.y, strip.w, strip.h };
  const gboolean      curve = zn_op_is_linear (write->picture->format);
  GeglRectangle wide = { strip.x - write->apron, strip.y - write->apron, strip.w + 2 * write->apron,
                         strip.h + 2 * write->apron };
  zn_rect       all;
  gsize         len, above, own; /* pixels: all, in the rows above the strip, in its rows */

  gegl_rectangle_intersect (&wide, &wide, GEGL_RECTANGLE (0, 0, box.width, box.height));
  all   = (zn_rect){ wide.x, wide.y, wide.width, wide.height };
  len   = (gsize) all.w * all.h;
  above = (gsize) all.w * (strip.y - all.y);
  own   = (gsize) all.w * strip.h;

  get_stored (write->picture, all, pixels);
  if (before)
    memcpy (before, pixels + above * 4, own * 4 * sizeof (gfloat));

  if (curve)
    zn_op_curve_encode (pixels, len, n);
  write->func (write->data, strip, all, pixels, n);
  pixels += above * n;
  if (curve)
    zn_op_curve_decode (pixels, own, n);

  if (before)
    restore_hidden (pixels, before, own);
  gegl_buffer_set (write->output, &place, 0, write->picture->format, pixels + (strip.x - all.x) * n,
                   (gint) (all.w * n * sizeof (gfloat)));
}

/* Rows from `start` on, `count` of them. */
static void
write_rows (gsize start, gsize count, gpointer data)
{
  const Write *write = data;
  const gint   n     = babl_format_get_n_components (write->picture->format);
  const gsize  len   = (gsize) (write->rect.w + 2 * write->apron) *
                    (MIN (count, STRIP_ROWS) + 2 * write->apron) * n;
  gfloat *pixels = gegl_malloc (len * sizeof (gfloat));
  gfloat *before = n == 4 ? gegl_malloc (len * sizeof (gfloat)) : NULL;

  for (gsize y = 0; y < count; y += STRIP_ROWS)
    write_strip (write,
                 (zn_rect){ write->rect.x, write->rect.y + (gint) (start + y), write->rect.w,
                            (gint) MIN (count - y, STRIP_ROWS) },
                 pixels, before);

  gegl_free (pixels);
  if (before)
    gegl_free (before);
}

void
zn_op_picture_write (const ZnOpPicture *picture,
                     GeglBuffer        *output,
                     zn_rect            rect,
                     gint               apron,
                     ZnOpStripFunc      func,
                     gpointer           data)
{
  Write write = { picture, output, rect, apron, func, data };

  gegl_parallel_distribute_range (rect.h, STRIP_ROWS, write_rows, &write);
}

void
zn_op_picture_add (const ZnOpPicture *picture,
                   GeglBuffer        *output,
                   gint               dx,
                   zn_rect            rect,
                   const gfloat      *change)
{
  const gint  n      = babl_format_get_n_components (picture->format);
  const gsize len    = (gsize) rect.w * MIN (rect.h, STRIP_ROWS) * n;
  gfloat     *stored = gegl_malloc (len * sizeof (gfloat));
  gfloat     *pixels = gegl_malloc (len * sizeof (gfloat));

  for (gint y = 0; y < rect.h; y += STRIP_ROWS)
    {
      const zn_rect       strip = { rect.x, rect.y + y, rect.w, MIN (rect.h - y, STRIP_ROWS) };
      const GeglRectangle place = { picture->box.x + dx + strip.x, picture->box.y + strip.y,
                                    strip.w, strip.h };
      const gsize         count = (gsize) strip.w * strip.h;
      const gfloat       *d     = change + (gsize) y * rect.w * 3;

      get_stored (picture, strip, stored);
      memcpy (pixels, stored, count * n * sizeof (gfloat));
      if (zn_op_is_linear (picture->format))
        zn_op_curve_encode (pixels, count, n);
      zn_change_add (pixels, n, d, count);
      if (zn_op_is_linear (picture->format))
        zn_op_curve_decode (pixels, count, n);
      for (gsize i = 0; i < count; i++)
        if (zn_is_hidden (stored + i * n, n) ||
            (d[i * 3] == 0.0f && d[i * 3 + 1] == 0.0f && d[i * 3 + 2] == 0.0f))
          memcpy (pixels + i * n, stored + i * n, n * sizeof (gfloat));
      gegl_buffer_set (output, &place, 0, picture->format, pixels, GEGL_AUTO_ROWSTRIDE);
    }

  gegl_free (stored);
  gegl_free (pixels);
}

/* ---- progress ------------------------------------------------------------- */

/* A host cannot stop an operation through GEGL.  One that runs the graph itself
 * (our plug-in) sets this on the operation's node, for instance while it serves
 * the node's "progress" signal:
 *
 *   g_object_set_data (G_OBJECT (node), "zenith-cancel", GINT_TO_POINTER (1));
 */
static gboolean
is_cancelled (GeglOperation *operation)
{
  return operation->node && g_object_get_data (G_OBJECT (operation->node), "zenith-cancel");
}

/* A host that shows estimates puts this struct on the node; it must stay there
 * while the graph is processed:
 *
 *   struct { void (*show) (gpointer data, GeglBuffer *estimate); gpointer data; } hook;
 *   g_object_set_data (G_OBJECT (node), "zenith-estimate", &hook);
 *
 * show() is called in the main thread, with the whole result as it would be by now; the
 * buffer is gone afterwards.  Such a host also gets an estimate of few steps first. */
ZnOpShowEstimate
zn_op_request_host (const ZnOpRequest *request, gpointer *data)
{
  const struct
  {
    ZnOpShowEstimate show;
    gpointer         data;
  } *hook = NULL;

  if (request->operation->node && gegl_is_main_thread ())
    hook = g_object_get_data (G_OBJECT (request->operation->node), "zenith-estimate");
  if (! hook)
    return NULL;
  *data = hook->data;

  return hook->show;
}

/* Hosts open their bar at exactly 0.0 and close it at 1.0; main thread only. */
static void
show (ZnOpRequest *request, gdouble value)
{
  request->shown    = value;
  request->shown_at = g_get_monotonic_time ();
  if (gegl_is_main_thread ())
    gegl_operation_progress (request->operation, value, (gchar *) "");
}

void
zn_op_request_init (ZnOpRequest *request, GeglOperation *operation, const ZnOpBase *base)
{
  *request = (ZnOpRequest){ .operation = operation, .base = base, .span = 1.0, .shown = -1.0 };
}

void
zn_op_request_part (ZnOpRequest *request, gdouble start, gdouble span)
{
  request->start = start;
  request->span  = span;
}

bool
zn_op_request_tick (ZnOpRequest *request)
{
  const gint64 pause = g_get_monotonic_time () - request->shown_at;

  if (request->shown < 0.0)
    show (request, 0.0);
  else if (pause >= PROGRESS_PAUSE)
    show (request, request->shown);

  return ! is_cancelled (request->operation);
}

bool
zn_op_request_progress (void *cookie, double done)
{
  ZnOpRequest  *request = cookie;
  const gdouble value   = request->start + request->span * done;
  const gint64  pause   = g_get_monotonic_time () - request->shown_at;

  if (request->shown >= 0.0 && value > request->shown && value < 1.0 &&
      (value >= request->shown + PROGRESS_STEP || pause >= PROGRESS_PAUSE))
    show (request, value);

  return zn_op_request_tick (request);
}

zn_status
zn_op_request_refuse (ZnOpRequest *request, zn_status status, const gchar *format, ...)
{
  va_list args;

  va_start (args, format);
  g_vsnprintf (request->err.text, sizeof (request->err.text), _ (format), args);
  va_end (args);

  return status;
}

/* ---- status and note ------------------------------------------------------ */

typedef struct
{
  GWeakRef     operation;
  const gchar *property;
} Notice;

static gboolean
notify (gpointer data)
{
  Notice  *notice    = data;
  GObject *operation = g_weak_ref_get (&notice->operation);

  if (operation)
    {
      g_object_notify (operation, notice->property);
      g_object_unref (operation);
    }

  return G_SOURCE_REMOVE;
}

static void
notice_free (gpointer data)
{
  Notice *notice = data;

  g_weak_ref_clear (&notice->operation);
  g_free (notice);
}

/* A message can contain a file name with any bytes: it is made one line of UTF-8. */
static gchar *
as_line (const gchar *sentence)
{
  gchar *line = g_utf8_make_valid (sentence, -1);

  for (gchar *p = line; *p; p++)
    if (g_ascii_iscntrl (*p))
      *p = ' ';

  return line;
}

/* Setting the property here would deadlock: GEGL holds the node's mutex, and
 * the node invalidates itself when it hears of a change. */
static void
notify_later (GeglOperation *operation, const gchar *property)
{
  Notice *notice = g_new0 (Notice, 1);

  notice->property = property;
  g_weak_ref_init (&notice->operation, operation);
  g_idle_add_full (G_PRIORITY_DEFAULT_IDLE, notify, notice, notice_free);
}

void
zn_op_set_text (GeglOperation *operation,
                const gchar   *property,
                gchar        **field,
                const gchar   *sentence)
{
  gchar *text = as_line (sentence);

  if (! field || ! g_strcmp0 (*field, text) || (! *field && ! *text))
    {
      g_free (text);
      return;
    }

  g_free (*field);
  *field = text;
  notify_later (operation, property);
}

static void
set_flag (GeglOperation *operation, const gchar *property, gboolean *field, gboolean value)
{
  if (! field || *field == value)
    return;

  *field = value;
  notify_later (operation, property);
}

static void
set_number (GeglOperation *operation, const gchar *property, gdouble *field, gdouble value)
{
  if (! field || *field == value)
    return;

  *field = value;
  notify_later (operation, property);
}

void
zn_op_set_status (GeglOperation *operation, const ZnOpBase *base, const gchar *sentence)
{
  zn_op_set_text (operation, "status", base->status, sentence);
  set_flag (operation, "failed", base->failed, *sentence != '\0');
}

/* stderr gets each sentence of an operation once. */
static void
print_once (GeglOperation *operation, const gchar *sentence)
{
  static GMutex      lock;
  static GHashTable *said;
  gchar             *text = as_line (sentence), *line;

  line = g_strdup_printf ("%s: %s\n", gegl_operation_get_name (operation), text);
  g_free (text);

  g_mutex_lock (&lock);
  if (! said)
    said = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  if (! g_hash_table_contains (said, line))
    {
      g_printerr ("%s", line);
      g_hash_table_add (said, line);
      line = NULL;
    }
  g_mutex_unlock (&lock);

  g_free (line);
}

/* A number in a text for people, with one digit after the point in every language. */
static void
tenths (gchar text[TENTHS], gdouble value)
{
  const gint64 n = llrint (10.0 * fabs (value));

  g_snprintf (text, TENTHS, "%s%" G_GINT64_FORMAT ".%d", value < 0.0 && n ? "-" : "", n / 10,
              (gint) (n % 10));
}

void
zn_op_set_measured (GeglOperation *operation, const ZnOpTiled *task, const zn_noise_table *noise)
{
  static const gchar *const level[3] = { "measured-red", "measured-green", "measured-blue" };
  gchar                     number[3][TENTHS];
  gchar                    *text;

  for (gint c = 0; c < 3; c++)
    set_number (operation, level[c], task->level[c], noise ? noise->median[c] : -1.0);
  if (! noise)
    {
      zn_op_set_text (operation, "measured", task->measured, "");
      return;
    }

  for (gint c = 0; c < 3; c++)
    tenths (number[c], noise->median[c]);

  text = noise->clean == 1.0f
             ? g_strdup (_ ("no noise found"))
             : g_strdup_printf (_ ("red %s, green %s, blue %s"), number[0], number[1], number[2]);
  zn_op_set_text (operation, "measured", task->measured, text);
  g_free (text);

  if (g_getenv ("ZENITH_VERBOSE"))
    {
      text = g_strdup_printf ("measured noise: red %s, green %s, blue %s of 255", number[0],
                              number[1], number[2]);
      print_once (operation, text);
      g_free (text);
    }
}

void
zn_op_set_loss (GeglOperation        *operation,
                const ZnOpLatentTask *task,
                gdouble               sum,
                gdouble               squares,
                gdouble               worst,
                gdouble               n)
{
  gchar *text;

  text = g_strdup_printf (
      _ ("PSNR %.2f dB; mean difference %.2f, largest %.0f, white from %.0f on, "
         "of 255"),
      -10.0 * log10 (MAX (squares / n, 1e-12)), 255.0 * sum / n, 255.0 * worst,
      255.0 / task->scale);
  zn_op_set_text (operation, "loss", task->loss, text);
  if (g_getenv ("ZENITH_VERBOSE"))
    print_once (operation, text);
  g_free (text);
}

void
zn_op_set_frame (GeglOperation *operation,
                 gchar        **field,
                 gdouble *const taken[4],
                 const gdouble  place[4])
{
  static const gchar *const property[4] = { "taken-x", "taken-y", "taken-size", "taken-angle" };
  gchar                     number[4][TENTHS];
  gchar                    *text;

  for (gint i = 0; i < 4; i++)
    {
      set_number (operation, property[i], taken[i], place[i]);
      tenths (number[i], place[i]);
    }
  text = g_strjoin (" ", number[0], number[1], number[2], number[3], NULL);
  zn_op_set_text (operation, "frame", field, text);
  g_free (text);
}

/* How a host says so:
 *
 *   g_object_set_data (G_OBJECT (node), "zenith-selected", GINT_TO_POINTER (1));
 */
gboolean
zn_op_is_selected (GeglOperation *operation)
{
  return operation->node && g_object_get_data (G_OBJECT (operation->node), "zenith-selected");
}

void
zn_op_set_memory (GeglOperation *operation, gchar **field, const zn_footprint *need)
{
  const guint  beside  = (guint) (need->beside >> 20) + 1;
  const guint  weights = (guint) (need->weights >> 20) + 1;
  const gchar *format  = need->streamed ? _ ("%u MiB, and %u MiB of weights; not all of them fit, "
                                              "so the network's layers are read "
                                              "from disk, which is slower")
                                        : _ ("%u MiB, and %u MiB of weights");
  gchar       *text    = g_strdup_printf (format, beside, weights);

  zn_op_set_text (operation, "memory", field, text);
  if (g_getenv ("ZENITH_VERBOSE"))
    {
      gchar *line = g_strdup_printf ("takes %s", text);

      print_once (operation, line);
      g_free (line);
    }
  g_free (text);
}

static void
fail (ZnOpRequest *request, GeglOperationContext *context, zn_status status)
{
  GObject     *input    = gegl_operation_context_get_object (context, "input");
  const gchar *sentence = request->err.text;

  if (! *sentence)
    sentence = status == ZN_E_CANCELLED ? _ ("Cancelled.") : _ ("The engine failed.");

  zn_op_set_status (request->operation, request->base, sentence);
  if (status != ZN_E_CANCELLED)
    print_once (request->operation, sentence);

  if (request->replaced)
    return;
  if (input)
    gegl_operation_context_set_object (context, "output", input);
  else
    gegl_buffer_clear (gegl_operation_context_get_target (context, "output"), NULL);
}

gboolean
zn_op_request_end (ZnOpRequest *request, GeglOperationContext *context, zn_status status)
{
  if (request->shown >= 0.0)
    show (request, 1.0);

  if (status)
    {
      fail (request, context, status);
      return TRUE;
    }

  zn_op_set_status (request->operation, request->base, "");
  if (request->ran) /* a kept result says nothing about how it was made */
    {
      zn_op_set_text (request->operation, "note", request->base->note, request->note.text);
      set_flag (request->operation, "noted", request->base->noted, *request->note.text != '\0');
    }
  if (*request->computed_by.text)
    zn_op_set_text (request->operation, "computed-by", request->base->computed_by,
                    request->computed_by.text);
  if (*request->note.text)
    print_once (request->operation, request->note.text);

  return TRUE;
}
