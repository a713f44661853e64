/* SPDX-License-Identifier: MIT */
/* op-zimage.c - a picture from a prompt; see the header. */

#include "config.h"

#include <glib/gi18n-lib.h>

#include <math.h>
#include <string.h>

#include <glib/gstdio.h>

#include "op-cache.h"
#include "op-engine.h"
#include "op-zimage.h"

#define MULTIPLE 16 /* pixels: a patch of the transformer */
#define FACTOR 8    /* pixels of a side, for one of the latent */
#define CHANNELS 16 /* of the latent */
#define MAX_SIDE 8192
#define MAX_TOKENS 512
#define MIN_CONTEXT 64 /* pixels around a mask that the networks see */

/* Parts of the progress bar. */
#define BAR_TEXT 0.05
#define BAR_START 0.10
#define BAR_SAMPLE 0.85

typedef struct
{
  const ZnOpZImage  *how;
  const ZnOpPicture *in; /* NULL: there is none */
  zn_array          *out;
  ZnOpRequest       *request;
  zn_zimage_file     file[ZN_ZIMAGE_PARTS];
  ZnOpBase           base[ZN_ZIMAGE_PARTS]; /* the task's, each with a precision of its own */

  gfloat  *mask; /* [out->h][out->w], feathered; NULL: everything is painted */
  zn_rect  part; /* of out: what the networks see */
  gint     w, h; /* the size at which they see it */
  gboolean scaled;
  gfloat  *old; /* [part.h][part.w][3]: the input there, or NULL */

  ZnOpModel *preview;
  gboolean   preview_centred; /* its pictures are -1..1 */
  ZnOpModel *transformer;     /* NULL: not open */
  gboolean   keeps; /* it stays open while the halves of the autoencoder run: all fit into memory */
} Work;

/* ---- describe ------------------------------------------------------------- */

static GeglRectangle
grow (const GeglRectangle *rect, gint by, const GeglRectangle *inside)
{
  GeglRectangle more = { rect->x - by, rect->y - by, rect->width + 2 * by, rect->height + 2 * by };

  gegl_rectangle_intersect (&more, &more, inside);

  return more;
}

static gint
context_of (gint width, gint height)
{
  return MAX (MIN_CONTEXT, MAX (width, height) / 4);
}

static void
add_files (ZnOpKey *key, const zn_zimage_file *file)
{
  for (gint i = 0; i < ZN_ZIMAGE_PARTS; i++)
    zn_op_key_add_file (key, file[i].path);
}

/* What the result depends on: numbers, the prompt and the files. */
static ZnOpKey
settings_of (const ZnOpZImage *how, const zn_zimage_file *file, gint precision)
{
  const gdouble number[] = { how->seed,   how->steps,   how->width, how->height,
                             how->change, how->feather, precision };
  ZnOpKey       key      = { 0, 0 };

  zn_op_key_add (&key, number, sizeof (number));
  zn_op_key_add_string (&key, how->prompt);
  add_files (&key, file);

  return key;
}

gboolean
zn_op_zimage_describe (ZnOpWhole *task, GeglOperation *operation, const ZnOpZImage *how)
{
  const GeglRectangle  box = task->result;
  const GeglRectangle *aux = gegl_operation_source_get_bounding_box (operation, "aux");
  const gboolean       has = box.width > 0 && box.height > 0;
  zn_zimage_file       file[ZN_ZIMAGE_PARTS];
  zn_error             err;

  if (has && how->change == 0.0)
    return FALSE;
  if (! has)
    task->result = *GEGL_RECTANGLE (0, 0, how->width, how->height);
  else
    task->change = box;
  if (has && aux && zn_op_check_box (aux, &err) && gegl_rectangle_intersect (NULL, aux, &box))
    {
      GeglRectangle part;

      gegl_rectangle_intersect (&part, aux, &box);
      task->change = grow (&part, context_of (part.width, part.height), &box);
    }

  if (! *how->prompt)
    g_strlcpy (task->refusal.text, _ ("There is no prompt: say what the picture shows."),
               sizeof (task->refusal.text));
  else
    zn_zimage_find (file, how->folder, &task->refusal);
  if (*task->refusal.text)
    return TRUE;

  task->settings = settings_of (how, file, task->base.precision);

  return TRUE;
}

/* ---- sizes ---------------------------------------------------------------- */

/* One line of n values, `stride` apart, to m values: a triangle filter as wide as the larger
 * distance of two pixels, so that it invents neither detail nor edges. */
static void
resample_line (gfloat *dst, gint m, gsize dst_stride, const gfloat *src, gint n, gsize src_stride)
{
  const gdouble scale = (gdouble) n / m;
  const gdouble reach = MAX (scale, 1.0);

  for (gint i = 0; i < m; i++)
    {
      const gdouble centre = (i + 0.5) * scale - 0.5;
      gdouble       sum = 0.0, total = 0.0;

      for (gint j = (gint) ceil (centre - reach); j <= (gint) floor (centre + reach); j++)
        {
          const gdouble weight = 1.0 - fabs (j - centre) / reach;

          sum += weight * src[CLAMP (j, 0, n - 1) * src_stride];
          total += weight;
        }
      dst[i * dst_stride] = (gfloat) (sum / total);
    }
}

static void
resample (gfloat *dst, gint dw, gint dh, const gfloat *src, gint sw, gint sh, gint c)
{
  gfloat *wide = g_new (gfloat, (gsize) dw * sh * c);

  for (gint y = 0; y < sh; y++)
    for (gint k = 0; k < c; k++)
      resample_line (wide + (gsize) y * dw * c + k, dw, c, src + (gsize) y * sw * c + k, sw, c);
  for (gint x = 0; x < dw; x++)
    for (gint k = 0; k < c; k++)
      resample_line (dst + (gsize) x * c + k, dh, (gsize) dw * c, wide + (gsize) x * c + k, sh,
                     (gsize) dw * c);
  g_free (wide);
}

static gint
padded (gint side)
{
  return (side + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
}

/* The size at which the networks see work->part. */
static void
set_size (Work *work)
{
  const gdouble most = (gdouble) padded (work->how->width) * padded (work->how->height);
  const gdouble w = work->part.w, h = work->part.h;

  work->w      = padded (work->part.w);
  work->h      = padded (work->part.h);
  work->scaled = (gdouble) work->w * work->h > most || MAX (work->w, work->h) > MAX_SIDE;
  if (work->scaled)
    {
      const gdouble scale = MIN (sqrt (most / (w * h)), MAX_SIDE / MAX (w, h));

      work->w = CLAMP ((gint) (w * scale) / MULTIPLE * MULTIPLE, MULTIPLE, MAX_SIDE);
      work->h = CLAMP ((gint) (h * scale) / MULTIPLE * MULTIPLE, MULTIPLE, MAX_SIDE);
    }
}

/* dst [h][w][c], of src [part.h][part.w][c], whose edge is repeated. */
static void
to_network (gfloat *dst, const Work *work, const gfloat *src, gint c)
{
  const zn_rect *part = &work->part;

  if (work->scaled)
    {
      resample (dst, work->w, work->h, src, part->w, part->h, c);
      return;
    }
  for (gint y = 0; y < work->h; y++)
    for (gint x = 0; x < work->w; x++, dst += c)
      memcpy (dst, src + ((gsize) MIN (y, part->h - 1) * part->w + MIN (x, part->w - 1)) * c,
              c * sizeof (gfloat));
}

/* Puts a picture of the networks' size, 0..1, into out: the new picture, or the change of the
 * input. */
static void
put_picture (gfloat *out, const Work *work, const gfloat *picture)
{
  const zn_rect *part = &work->part;
  const gfloat  *from = picture;
  gsize          row  = (gsize) work->w * 3;
  gfloat        *fit  = NULL;

  if (work->scaled)
    {
      fit = g_new (gfloat, (gsize) part->w * part->h * 3);
      resample (fit, part->w, part->h, picture, work->w, work->h, 3);
      from = fit;
      row  = (gsize) part->w * 3;
    }
  memset (out, 0, zn_array_len (work->out) * sizeof (gfloat));
  for (gint y = 0; y < part->h; y++)
    {
      const gsize   at   = (gsize) (part->y + y) * work->out->w + part->x;
      const gfloat *src  = from + y * row;
      const gfloat *old  = work->old ? work->old + (gsize) y * part->w * 3 : NULL;
      const gfloat *mask = work->mask ? work->mask + at : NULL;

      for (gint i = 0; i < part->w * 3; i++)
        {
          const gfloat value = zn_op_clean (src[i]);

          out[at * 3 + i] = old ? (mask ? mask[i / 3] : 1.0f) * (value - old[i]) : value;
        }
    }
  g_free (fit);
}

/* ---- the mask ------------------------------------------------------------- */

/* Luminance times alpha, of the pixels of out. */
static void
read_mask (Work *work, const ZnOpPicture *aux, const GeglRectangle *place)
{
  const zn_array *out = work->out;
  gfloat         *row = g_new (gfloat, (gsize) out->w * 2);

  work->mask = g_new (gfloat, (gsize) out->w * out->h);
  for (gint y = 0; y < out->h; y++)
    {
      const GeglRectangle line = { place->x, place->y + y, out->w, 1 };

      gegl_buffer_get (aux->buffer, &line, 1.0, babl_format ("YA float"), row, GEGL_AUTO_ROWSTRIDE,
                       GEGL_ABYSS_NONE);
      for (gint x = 0; x < out->w; x++)
        work->mask[(gsize) y * out->w + x] = zn_op_clean (row[2 * x] * row[2 * x + 1]);
    }
  g_free (row);
}

/* The pixels of the mask that are not 0; FALSE: there are none. */
static gboolean
mask_bounds (const Work *work, GeglRectangle *bounds)
{
  const zn_array *out = work->out;
  gint            x0 = out->w, y0 = out->h, x1 = -1, y1 = -1;

  for (gint y = 0; y < out->h; y++)
    for (gint x = 0; x < out->w; x++)
      if (work->mask[(gsize) y * out->w + x] > 0.0f)
        {
          x0 = MIN (x0, x);
          x1 = MAX (x1, x);
          y0 = MIN (y0, y);
          y1 = MAX (y1, y);
        }
  *bounds = *GEGL_RECTANGLE (x0, y0, x1 - x0 + 1, y1 - y0 + 1);

  return x1 >= 0;
}

/* Relaxes the distances of a line's pixels by those of the one before and of the line before;
 * step 1 or -1. */
static void
chamfer_line (gfloat *line, const gfloat *before, gint w, gint step)
{
  const gfloat straight = 1.0f, diagonal = 1.41421356f;

  for (gint i = 0, x = step > 0 ? 0 : w - 1; i < w; i++, x += step)
    {
      gfloat d = line[x];

      if (i > 0)
        d = MIN (d, line[x - step] + straight);
      if (before)
        {
          d = MIN (d, before[x] + straight);
          if (x > 0)
            d = MIN (d, before[x - 1] + diagonal);
          if (x + 1 < w)
            d = MIN (d, before[x + 1] + diagonal);
        }
      line[x] = d;
    }
}

/* Inside, the mask rises from 0 over as many pixels; outside it stays 0. */
static void
feather_mask (Work *work)
{
  const gint   w = work->out->w, h = work->out->h;
  const gsize  len   = (gsize) w * h;
  const gfloat width = (gfloat) work->how->feather + 1.0f;
  gfloat      *far;

  if (work->how->feather <= 0.0)
    return;
  far = g_new (gfloat, len);
  for (gsize i = 0; i < len; i++)
    far[i] = work->mask[i] > 0.0f ? G_MAXFLOAT : 0.0f;
  for (gint y = 0; y < h; y++)
    chamfer_line (far + (gsize) y * w, y ? far + (gsize) (y - 1) * w : NULL, w, 1);
  for (gint y = h - 1; y >= 0; y--)
    chamfer_line (far + (gsize) y * w, y + 1 < h ? far + (gsize) (y + 1) * w : NULL, w, -1);
  for (gsize i = 0; i < len; i++)
    if (far[i] < width)
      {
        const gfloat t = far[i] / width;

        work->mask[i] *= t * t * (3.0f - 2.0f * t);
      }
  g_free (far);
}

/* ---- memory --------------------------------------------------------------- */

/* The type of most elements in the weight files. */
static ZenithPrecision
stored_precision (const gchar *path)
{
  gdouble         n[ZENITH_PRECISION_INT4 + 1] = { 0.0 };
  ZenithPrecision best                         = ZENITH_PRECISION_FP32;
  zn_weights     *weights                      = NULL;

  if (zn_weights_open (&weights, &path, 1, NULL))
    return ZENITH_PRECISION_FP32;
  for (gint i = 0; i < zn_weights_count (weights); i++)
    {
      const zn_weight_info  info = zn_weights_info (weights, i);
      const ZenithPrecision p    = ! strcmp (info.dtype, "F16")       ? ZENITH_PRECISION_FP16
                                   : ! strcmp (info.dtype, "BF16")    ? ZENITH_PRECISION_BF16
                                   : *info.dtype == 'F'               ? ZENITH_PRECISION_FP32
                                   : strchr (info.dtype, '4') != NULL ? ZENITH_PRECISION_INT4
                                                                      : ZENITH_PRECISION_INT8;
      gdouble               len  = 1.0;

      for (gint d = 0; d < info.n_dims; d++)
        len *= (gdouble) info.shape[d];
      n[p] += len;
      if (n[p] > n[best])
        best = p;
    }
  zn_weights_close (&weights);

  return best;
}

/* The weights of a part in the type of the file; where that takes too much memory, in fewer bits;
 * and where even that does, streamed.  *need: the memory of the run then. */
static zn_status
choose_precision (Work           *work,
                  zn_zimage_part  part,
                  const gchar    *id,
                  const zn_array *in,
                  gint            n_in,
                  const ZnOpJob  *job,
                  zn_array       *out,
                  ZnOpNeed       *need)
{
  ZenithPrecision may[]   = { ZENITH_PRECISION_AUTO, ZENITH_PRECISION_INT8, ZENITH_PRECISION_INT4 };
  ZnOpBase       *base    = &work->base[part];
  ZnOpRequest    *request = work->request;
  const gchar    *path    = work->file[part].path;

  if (base->precision != ZENITH_PRECISION_AUTO || g_getenv ("ZENITH_PRECISION") ||
      zn_op_engine_is_remote (base))
    return zn_op_model_count (id, path, base, in, n_in, job, out, need, &request->err)
               ? ZN_OK
               : ZN_E_MEMORY;

  may[0] = stored_precision (path);
  for (gint streams = 0; streams < 2; streams++)
    for (guint i = 0; i < G_N_ELEMENTS (may); i++)
      {
        zn_error other;

        base->precision = may[i];
        if (! zn_op_model_count (id, path, base, in, n_in, job, out, need,
                                 streams || i ? &other : &request->err) ||
            (need->streamed && ! streams))
          continue;
        if (may[i] != may[0])
          g_snprintf (
              request->note, sizeof (request->note),
              _ ("The weights of the %s are rounded to %d bits: they do not fit into memory "
                 "otherwise."),
              work->file[part].name, may[i] == ZENITH_PRECISION_INT8 ? 8 : 4);
        request->err.text[0] = '\0';
        return ZN_OK;
      }

  return ZN_E_MEMORY;
}

/* ---- the prompt ----------------------------------------------------------- */

/* tokens.data is the caller's. */
static zn_status
tokenise (Work *work, zn_array *tokens)
{
  zn_tokenizer *tokenizer = NULL;
  ZnOpRequest  *request   = work->request;
  gint32        ids[MAX_TOKENS];
  gint          n = 0;
  zn_status     status;

  status = zn_tokenizer_open (&tokenizer, work->file[ZN_ZIMAGE_TOKENIZER].path, &request->err);
  if (! status)
    status = zn_tokenizer_chat (ids, MAX_TOKENS, &n, tokenizer, work->how->prompt, &request->err);
  zn_tokenizer_close (&tokenizer);
  if (n > MAX_TOKENS)
    g_snprintf (request->note, sizeof (request->note),
                _ ("The prompt is too long: the first %d of its %d tokens are used."), MAX_TOKENS,
                n);
  tokens->c    = MIN (n, MAX_TOKENS);
  tokens->data = g_new (gfloat, MAX_TOKENS);
  for (gint i = 0; i < tokens->c; i++)
    tokens->data[i] = (gfloat) ids[i];

  return status;
}

static ZnOpKey
features_key (const Work *work)
{
  ZnOpKey key = { 0, 0 };

  zn_op_key_add_string (&key, "z-image features");
  add_files (&key, work->file);
  zn_op_key_add (&key, &work->base[ZN_ZIMAGE_TEXT].precision, sizeof (ZenithPrecision));
  zn_op_key_add_string (&key, work->how->prompt);

  return key;
}

/* The text encoder; no other large network is open meanwhile. */
static zn_status
run_text (GBytes **features, Work *work, const zn_array *tokens, zn_array *cap)
{
  ZnOpRequest *request = work->request;
  const gsize  size    = zn_array_len (cap) * sizeof (gfloat);
  ZnOpModel   *model;
  zn_status    status;

  model = zn_op_model_acquire ("z-image-text", work->file[ZN_ZIMAGE_TEXT].path,
                               &work->base[ZN_ZIMAGE_TEXT], &request->err);
  if (! model)
    return ZN_E_FILE;
  cap->data = g_malloc (size);
  zn_op_request_part (request, 0.0, BAR_TEXT);
  status = zn_op_model_run_arrays (model, cap, tokens, 1, NULL, request);
  zn_op_model_retire (model);
  *features = g_bytes_new_take (cap->data, size);

  return status;
}

/* ---- the picture ---------------------------------------------------------- */

/* Runs a half of the autoencoder; the data of out is g_malloc'ed. */
static zn_status
run_half (Work *work, const gchar *id, const zn_array *in, zn_array *out)
{
  ZnOpModel *model = zn_op_model_acquire (id, work->file[ZN_ZIMAGE_AUTOENCODER].path,
                                          &work->base[ZN_ZIMAGE_AUTOENCODER], &work->request->err);
  zn_status  status;

  if (! model)
    return ZN_E_FILE;
  out->data = g_try_malloc (zn_array_len (out) * sizeof (gfloat));
  status    = out->data ? zn_op_model_run_arrays (model, out, in, 1, NULL, work->request)
                        : ZN_E_MEMORY;
  zn_op_model_retire (model);

  return status;
}

/* The latent of the input, as the transformer has it. */
static zn_status
encode_start (Work *work, zn_array *start)
{
  zn_array    x = { NULL, work->h, work->w, 3 };
  const gsize n = zn_array_len (&x);
  zn_status   status;

  x.data = g_new (gfloat, n);
  to_network (x.data, work, work->old, 3);
  for (gsize i = 0; i < n; i++)
    x.data[i] = 2.0f * x.data[i] - 1.0f;
  zn_op_request_part (work->request, BAR_TEXT, BAR_START - BAR_TEXT);
  status = run_half (work, "flux-ae-encode", &x, start);
  g_free (x.data);

  return status;
}

/* The mask, averaged to the latent's size; the data is g_malloc'ed. */
static void
latent_mask (Work *work, zn_array *mask)
{
  const zn_rect *part = &work->part;
  gfloat        *cut  = g_new (gfloat, (gsize) part->w * part->h);
  gfloat        *fit  = g_new (gfloat, (gsize) work->w * work->h);

  for (gint y = 0; y < part->h; y++)
    memcpy (cut + (gsize) y * part->w, work->mask + (gsize) (part->y + y) * work->out->w + part->x,
            part->w * sizeof (gfloat));
  to_network (fit, work, cut, 1);
  mask->data = g_new0 (gfloat, zn_array_len (mask));
  for (gint y = 0; y < work->h; y++)
    for (gint x = 0; x < work->w; x++)
      mask->data[(y / FACTOR) * mask->w + x / FACTOR] += fit[(gsize) y * work->w + x] /
                                                         (FACTOR * FACTOR);
  g_free (fit);
  g_free (cut);
}

static void
show_estimate (gpointer data, const zn_array *picture, gint step, gint n_steps)
{
  Work       *work = data;
  const gsize n    = zn_array_len (picture);
  gfloat     *out, *fit;

  if (picture->c != 3 || picture->w != work->w || picture->h != work->h)
    return; /* no decoder could be used */
  out = g_try_new (gfloat, zn_array_len (work->out));
  fit = g_try_new (gfloat, n);
  if (out && fit)
    {
      for (gsize i = 0; i < n; i++)
        fit[i] = work->preview_centred ? 0.5f * picture->data[i] + 0.5f : picture->data[i];
      put_picture (out, work, fit);
      work->request->estimate (work->request, out);
    }
  g_free (fit);
  g_free (out);
}

/* The tiny decoder or, without its file, a projection to colours. */
static void
open_preview (Work *work)
{
  const zn_zimage_file *file = &work->file[ZN_ZIMAGE_PREVIEW];
  const ZnOpBase       *base = &work->base[ZN_ZIMAGE_PREVIEW];
  zn_error              err;

  if (! work->request->estimate)
    return;
  if (*file->path)
    work->preview = zn_op_model_acquire ("taesd-decode", file->path, base, &err);
  if (! work->preview || zn_op_model_geometry (work->preview)->in_c != CHANNELS)
    {
      zn_op_model_release (work->preview);
      work->preview         = zn_op_model_acquire ("flux-latent-rgb", NULL, base, &err);
      work->preview_centred = TRUE;
    }
}

static zn_status
open_transformer (Work *work)
{
  if (! work->transformer)
    work->transformer = zn_op_model_acquire (
        "z-image-sample", work->file[ZN_ZIMAGE_TRANSFORMER].path,
        &work->base[ZN_ZIMAGE_TRANSFORMER], &work->request->err);

  return work->transformer ? ZN_OK : ZN_E_FILE;
}

/* in[]: noise, caption, start, mask, as the sampler takes them. */
static zn_status
sample (Work *work, zn_array *latent, const zn_array *in, gint n_in, const ZnOpJob *job)
{
  zn_status status = open_transformer (work);

  if (status)
    return status;
  zn_op_request_part (work->request, BAR_START, BAR_SAMPLE - BAR_START);
  status = zn_op_model_run_arrays (work->transformer, latent, in, n_in, job, work->request);
  if (! work->keeps)
    {
      zn_op_model_retire (work->transformer);
      work->transformer = NULL;
    }

  return status;
}

static zn_status
decode (Work *work, const zn_array *latent)
{
  zn_array  picture = { NULL, work->h, work->w, 3 };
  zn_status status;

  zn_op_request_part (work->request, BAR_SAMPLE, 1.0 - BAR_SAMPLE);
  status = run_half (work, "flux-ae-decode", latent, &picture);
  for (gsize i = 0; ! status && i < zn_array_len (&picture); i++)
    {
      if (! isfinite (picture.data[i]))
        status = zn_op_request_refuse (work->request, ZN_E_USAGE,
                                       "The network's result is not finite.");
      picture.data[i] = 0.5f * picture.data[i] + 0.5f;
    }
  if (! status)
    put_picture (work->out->data, work, picture.data);
  g_free (picture.data);

  return status;
}

/* ---- all of it ------------------------------------------------------------ */

/* Bytes of this file's own arrays, at most. */
static gsize
arrays_of (const Work *work)
{
  const gsize out     = zn_array_len (work->out);
  const gsize part    = (gsize) work->part.w * work->part.h * 3;
  const gsize picture = (gsize) work->w * work->h * 3;
  const gsize latent  = picture * CHANNELS / (3 * FACTOR * FACTOR);
  gsize       n       = out + 2 * picture + 5 * latent;

  if (work->old)
    n += part;
  if (work->mask)
    n += out;
  if (work->scaled)
    n += 2 * part;
  if (work->preview)
    n += out;

  return n * sizeof (gfloat);
}

/* Both at once. */
static ZnOpNeed
together (ZnOpNeed a, ZnOpNeed b)
{
  return (ZnOpNeed){ a.weights + b.weights, a.beside + b.beside, a.streamed || b.streamed };
}

static ZnOpNeed
larger (ZnOpNeed a, ZnOpNeed b)
{
  const gboolean streamed = a.streamed || b.streamed;

  if (b.weights + b.beside > a.weights + a.beside)
    a = b;
  a.streamed = streamed;

  return a;
}

/* The memory of a half of the autoencoder if so much is in use; FALSE: it cannot run. */
static gboolean
count_half (const Work *work, const gchar *id, const zn_array *in, gsize beside, ZnOpNeed *need)
{
  ZnOpBase base = work->base[ZN_ZIMAGE_AUTOENCODER];

  base.beside += beside;

  return zn_op_model_count (id, work->file[ZN_ZIMAGE_AUTOENCODER].path, &base, in, 1, NULL, NULL,
                            need, &work->request->err);
}

/* The memory of the halves of the autoencoder.  The transformer stays open with them if that costs
 * nothing: if they fit, in tiles as large as without it. */
static zn_status
plan_halves (Work *work, ZnOpNeed *most, ZnOpNeed transformer, gboolean encodes)
{
  static const gchar *const id[] = { "flux-ae-decode", "flux-ae-encode" };
  const zn_array            in[] = { { NULL, work->h / FACTOR, work->w / FACTOR, CHANNELS },
                                     { NULL, work->h, work->w, 3 } };
  const gint                n    = encodes ? 2 : 1;
  const gsize               held = transformer.weights + transformer.beside;
  ZnOpNeed                  half[2], beside_it;

  work->keeps = TRUE;
  for (gint i = 0; i < n; i++)
    {
      if (! count_half (work, id[i], &in[i], 0, &half[i]))
        return ZN_E_MEMORY;
      if (! count_half (work, id[i], &in[i], held, &beside_it) ||
          beside_it.beside != half[i].beside)
        work->keeps = FALSE;
    }
  work->request->err.text[0] = '\0';
  for (gint i = 0; i < n; i++)
    *most = larger (*most, work->keeps ? together (half[i], transformer) : half[i]);
  if (work->keeps)
    work->base[ZN_ZIMAGE_AUTOENCODER].beside += held;

  return ZN_OK;
}

/* Shows the memory of the largest step in the property "memory", and chooses precisions that fit
 * and what stays open.  The limit covers everything that is open at once and, on a CPU, this file's
 * arrays. */
static zn_status
plan (Work           *work,
      const zn_array *tokens,
      zn_array       *in,
      gint            n_in,
      const ZnOpJob  *job,
      gboolean        encodes)
{
  const gsize arrays = zn_op_engine_is_remote (&work->base[0]) ? 0 : arrays_of (work);
  ZnOpNeed    shows  = { 0 }, most, transformer;
  zn_status   status;

  if (work->preview && ! zn_op_model_plan (work->preview, in, 1, NULL, &shows))
    shows.weights = 0;
  for (gint i = 0; i < ZN_ZIMAGE_PARTS; i++)
    work->base[i].beside = arrays + shows.weights;
  work->base[ZN_ZIMAGE_TRANSFORMER].beside = arrays; /* the engine adds the preview's weights */

  status = choose_precision (work, ZN_ZIMAGE_TEXT, "z-image-text", tokens, 1, NULL, &in[1], &most);
  if (! status)
    status = choose_precision (work, ZN_ZIMAGE_TRANSFORMER, "z-image-sample", in, n_in, job, NULL,
                               &transformer);
  if (status)
    return status;
  transformer.beside -= shows.weights;
  most   = larger (most, transformer);
  status = plan_halves (work, &most, transformer, encodes);
  if (status)
    return status;
  most.weights += shows.weights;
  most.beside += arrays;
  zn_op_set_memory (work->request->operation, work->how->memory, &most);

  return ZN_OK;
}

static zn_status
generate (Work *work)
{
  const ZnOpZImage *how     = work->how;
  const gboolean    encodes = work->in && (work->mask || how->change < 1.0);
  const zn_array    z       = { NULL, work->h / FACTOR, work->w / FACTOR, CHANNELS };
  zn_array          in[4]   = { z, { NULL, 1, 1, 1 }, z, { NULL, z.h, z.w, 1 } };
  zn_array          latent = z, tokens = { NULL, 1, 1, 0 };
  const gint        n_in     = ! encodes ? 2 : work->mask ? 4 : 3;
  const zn_value    set[]    = { { "steps", how->steps }, { "change", MAX (how->change, 0.01) } };
  ZnOpJob           job      = { .set = set, .n_set = encodes ? 2 : 1 };
  GBytes           *features = NULL;
  zn_status         status;
  ZnOpKey           key;

  open_preview (work);
  if (work->preview)
    {
      job.preview      = show_estimate;
      job.preview_data = work;
      job.preview_with = work->preview;
    }

  status = tokenise (work, &tokens);
  if (! status)
    status = plan (work, &tokens, in, n_in, &job, encodes);
  if (! status)
    {
      key      = features_key (work);
      features = zn_op_cache_get (&key);
      if (! features)
        {
          status = run_text (&features, work, &tokens, &in[1]);
          if (! status)
            zn_op_cache_put (&key, features);
        }
    }
  if (! status)
    {
      in[1].data = (gfloat *) g_bytes_get_data (features, NULL);
      in[0].data = g_new (gfloat, zn_array_len (&z));
      zn_noise_fill (in[0].data, zn_array_len (&z), how->seed, 0);
      latent.data = g_new (gfloat, zn_array_len (&z));
    }
  if (! status && work->keeps)
    status = open_transformer (work);
  if (! status && encodes)
    status = encode_start (work, &in[2]);
  if (! status && encodes && work->mask)
    latent_mask (work, &in[3]);
  if (! status)
    status = sample (work, &latent, in, n_in, &job);
  if (! status)
    status = decode (work, &latent);

  zn_op_model_release (work->transformer);
  zn_op_model_release (work->preview);
  g_clear_pointer (&features, g_bytes_unref);
  g_free (tokens.data);
  g_free (in[0].data);
  g_free (in[2].data);
  g_free (in[3].data);
  g_free (latent.data);

  return status;
}

zn_status
zn_op_zimage_run (const ZnOpWhole   *task,
                  const ZnOpZImage  *how,
                  const ZnOpPicture *in,
                  gint               n_in,
                  zn_array          *out,
                  ZnOpRequest       *request)
{
  Work          work = { .how     = how,
                         .in      = n_in ? in : NULL,
                         .out     = out,
                         .request = request,
                         .part    = { 0, 0, out->w, out->h } };
  GeglRectangle bounds;
  zn_status     status = zn_zimage_find (work.file, how->folder, &request->err);

  for (gint i = 0; i < ZN_ZIMAGE_PARTS; i++)
    {
      work.base[i]       = task->base;
      work.base[i].alone = i != ZN_ZIMAGE_PREVIEW; /* opened before the transformer is asked for */
    }
  memset (out->data, 0, zn_array_len (out) * sizeof (gfloat));
  if (! status && n_in > 1)
    {
      const GeglRectangle all = { 0, 0, out->w, out->h };

      read_mask (&work, &in[1], &task->change);
      if (! mask_bounds (&work, &bounds))
        {
          g_free (work.mask);
          return ZN_OK; /* nothing is selected, nothing changes */
        }
      bounds    = grow (&bounds, context_of (bounds.width, bounds.height), &all);
      work.part = (zn_rect){ bounds.x, bounds.y, bounds.width, bounds.height };
      feather_mask (&work);
    }
  if (! status)
    set_size (&work);
  if (! status && work.in)
    {
      const zn_rect place = { task->change.x - in->box.x + work.part.x,
                              task->change.y - in->box.y + work.part.y, work.part.w, work.part.h };

      work.old = g_try_new (gfloat, (gsize) place.w * place.h * 3);
      if (work.old)
        zn_op_picture_read ((ZnOpPicture *) in, place, work.old);
      else
        status = ZN_E_MEMORY;
    }
  if (! status)
    status = generate (&work);
  g_free (work.old);
  g_free (work.mask);

  return status;
}
