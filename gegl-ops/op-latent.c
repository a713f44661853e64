/* SPDX-License-Identifier: MIT */
/* op-latent.c - latents: made of pictures, made into pictures, and shown.
 *
 * Pictures pass through in tiles and may be larger than memory; a latent, a
 * small part of a picture, is held in memory, or in a GeglBuffer if it is large. */

#include "config.h"

#include <math.h>
#include <string.h>

#include <glib/gi18n-lib.h>

#include "op-latent.h"

#define STRIP 256     /* rows of a picture that are written at a time */
#define SMALL_TILE 96 /* of a latent, a side */

/* ---- latents -------------------------------------------------------------- */

void
zn_op_latent_clear (ZnOpLatent *latent)
{
  g_clear_pointer (&latent->bytes, g_bytes_unref);
  g_clear_object (&latent->buffer);
}

/* Its own format: values are never converted as colours. */
static const Babl *
latent_babl (const ZnOpLatent *latent)
{
  return babl_format_n (babl_type ("float"), latent->c);
}

static bool
latent_read (void *cookie, zn_rect r, float *dst)
{
  const ZnOpLatent *latent = cookie;
  const gsize       row    = (gsize) r.w * latent->c;
  const gfloat     *src;

  if (latent->buffer)
    {
      gegl_buffer_get (latent->buffer, GEGL_RECTANGLE (r.x, r.y, r.w, r.h), 1.0,
                       latent_babl (latent), dst, GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);
      return true;
    }

  src = g_bytes_get_data (latent->bytes, NULL);
  for (gint y = 0; y < r.h; y++)
    memcpy (dst + y * row, src + ((gsize) (r.y + y) * latent->w + r.x) * latent->c,
            row * sizeof (gfloat));

  return true;
}

typedef struct
{
  const ZnOpLatent *latent;
  gfloat           *data;
} LatentSink;

static bool
latent_write (void *cookie, zn_rect r, const float *src)
{
  const LatentSink *sink = cookie;
  const ZnOpLatent *to   = sink->latent;
  const gsize       row  = (gsize) r.w * to->c;

  if (to->buffer)
    {
      gegl_buffer_set (to->buffer, GEGL_RECTANGLE (r.x, r.y, r.w, r.h), 0, latent_babl (to), src,
                       GEGL_AUTO_ROWSTRIDE);
      return true;
    }

  for (gint y = 0; y < r.h; y++)
    memcpy (sink->data + ((gsize) (r.y + y) * to->w + r.x) * to->c, src + y * row,
            row * sizeof (gfloat));

  return true;
}

static zn_status
no_memory (ZnOpRequest *request)
{
  return zn_op_request_refuse (request, ZN_E_MEMORY,
                               "There is not enough memory for a picture of this size.");
}

zn_status
zn_op_latent_encode (ZnOpLatent     *latent,
                     zn_autoencoder *ae,
                     ZnOpPicture    *picture,
                     ZnOpRequest    *request)
{
  const gint      w = picture->box.width, h = picture->box.height;
  const zn_source source = { w, h, 3, zn_op_picture_read, picture };
  LatentSink      to     = { latent, NULL };
  const zn_sink   sink   = { latent_write, &to };
  zn_status       status;
  gsize           size;

  status = zn_latents_size (&latent->w, &latent->h, &ae->latents, w, h, &request->err);
  if (status)
    return status;
  latent->c   = ae->latents.channels;
  latent->key = (zn_key){ 0, 0 };
  zn_key_add_text (&latent->key, zn_use_name (ae->encoder));
  zn_key_add_text (&latent->key, babl_get_name (picture->format));
  zn_op_key_add_buffer (&latent->key, picture->buffer, &picture->box, &picture->box);

  status = zn_op_kept_or_enter (&latent->bytes, &latent->key, &request->err);
  if (status || latent->bytes)
    return status;

  size = (gsize) latent->w * latent->h * latent->c * sizeof (gfloat);
  if (size > zn_op_cache_limit () / 4)
    latent->buffer = gegl_buffer_new (GEGL_RECTANGLE (0, 0, latent->w, latent->h),
                                      latent_babl (latent));
  else
    to.data = g_try_malloc (size);
  status = latent->buffer || to.data
               ? zn_op_use_run_region (ae->encoder, &sink, &source,
                                       (zn_rect){ 0, 0, latent->w, latent->h }, 0, request)
               : no_memory (request);
  if (status == ZN_OK && to.data)
    {
      latent->bytes = g_bytes_new_take (to.data, size);
      zn_op_cache_put (&latent->key, latent->bytes);
    }
  else
    {
      g_free (to.data);
    }
  zn_op_engine_leave ();

  return status;
}

const Babl *
zn_op_latent_format (gint channels, const Babl *space)
{
  return channels == 3   ? babl_format_with_space ("R'G'B' float", space)
         : channels == 4 ? babl_format_with_space ("RGBA float", space)
                         : babl_format_n (babl_type ("float"), channels);
}

/* Memory for a latent of this size, or NULL and an error message. */
static gfloat *
latent_begin (ZnOpLatent *latent, gint w, gint h, gint c, ZnOpRequest *request)
{
  gfloat *data = g_try_malloc ((gsize) w * h * c * sizeof (gfloat));

  *latent = (ZnOpLatent){ w, h, c, NULL, NULL, { 0, 0 } };
  if (! data)
    no_memory (request);

  return data;
}

/* Takes what has been written there. */
static void
latent_end (ZnOpLatent *latent, gfloat *data, ZnOpRequest *request)
{
  const gsize len   = (gsize) latent->w * latent->h * latent->c;
  gboolean    clean = TRUE;

  for (gsize i = 0; i < len; i++)
    if (! isfinite (data[i]))
      {
        data[i] = 0.0f; /* it would spread to every pixel that a network computes from it */
        clean   = FALSE;
      }
  if (! clean)
    zn_note_add (
        &request->note,
        _ ("The latent has values that are infinite or not a number: they are taken as 0."));
  zn_key_add (&latent->key, data, len * sizeof (gfloat));
  latent->bytes = g_bytes_new_take (data, len * sizeof (gfloat));
}

zn_status
zn_op_latent_get (ZnOpLatent          *latent,
                  GeglBuffer          *buffer,
                  const GeglRectangle *box,
                  const zn_latents    *latents,
                  ZnOpRequest         *request)
{
  const Babl *format = gegl_buffer_get_format (buffer);
  gfloat     *data;

  if (babl_format_get_n_components (format) != latents->channels)
    return zn_op_request_refuse (request, ZN_E_USAGE,
                                 "The latent has %d channels where the model wants %d: choose "
                                 "the model that made it.",
                                 babl_format_get_n_components (format), latents->channels);

  data = latent_begin (latent, box->width, box->height, latents->channels, request);
  if (! data)
    return ZN_E_MEMORY;

  if (babl_format_get_type (format, 0) != babl_type ("float") || latents->channels == 3)
    format = zn_op_latent_format (latents->channels, babl_format_get_space (format));
  gegl_buffer_get (buffer, box, 1.0, format, data, GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);
  latent_end (latent, data, request);

  return ZN_OK;
}

zn_status
zn_op_latent_get_planes (ZnOpLatent          *latent,
                         GeglBuffer          *buffer,
                         const GeglRectangle *box,
                         const zn_latents    *latents,
                         ZnOpRequest         *request)
{
  const gint  c     = latents->channels;
  const gint  pitch = box->height / c, h = pitch - 2 * ZN_OP_PLANE_MARGIN;
  const Babl *grey = babl_format_with_space (
      "Y float", babl_format_get_space (gegl_buffer_get_format (buffer)));
  gfloat *data, *row;

  if (box->height % c || h < 1)
    return zn_op_request_refuse (request, ZN_E_USAGE,
                                 "A picture of %d rows is not the %d planes of a latent.",
                                 box->height, c);
  data = latent_begin (latent, box->width, h, c, request);
  if (! data)
    return ZN_E_MEMORY;

  row = gegl_malloc ((gsize) latent->w * sizeof (gfloat));
  for (gint k = 0; k < c; k++)
    for (gint y = 0; y < h; y++)
      {
        const gint at = box->y + k * pitch + ZN_OP_PLANE_MARGIN + y;

        gegl_buffer_get (buffer, GEGL_RECTANGLE (box->x, at, latent->w, 1), 1.0, grey, row,
                         GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);
        for (gint x = 0; x < latent->w; x++)
          data[((gsize) y * latent->w + x) * c + k] = row[x];
      }
  gegl_free (row);
  latent_end (latent, data, request);

  return ZN_OK;
}

void
zn_op_latent_put (const ZnOpLatent    *latent,
                  GeglBuffer          *buffer,
                  const GeglRectangle *box,
                  const Babl          *format)
{
  gfloat *row = gegl_malloc ((gsize) latent->w * latent->c * sizeof (gfloat));

  for (gint y = 0; y < latent->h; y++)
    {
      latent_read ((gpointer) latent, (zn_rect){ 0, y, latent->w, 1 }, row);
      gegl_buffer_set (buffer, GEGL_RECTANGLE (box->x, box->y + y, latent->w, 1), 0, format, row,
                       GEGL_AUTO_ROWSTRIDE);
    }
  gegl_free (row);
}

void
zn_op_latent_put_planes (const ZnOpLatent    *latent,
                         GeglBuffer          *buffer,
                         const GeglRectangle *box,
                         const Babl          *format)
{
  const gint pitch = latent->h + 2 * ZN_OP_PLANE_MARGIN;
  gfloat    *all   = gegl_malloc ((gsize) latent->w * latent->c * sizeof (gfloat));
  gfloat    *row   = gegl_malloc ((gsize) latent->w * sizeof (gfloat));

  for (gint y = 0; y < latent->h; y++)
    {
      /* the margins repeat the first and the last row */
      const gint first = y ? y + ZN_OP_PLANE_MARGIN : 0;
      const gint end   = y + 1 < latent->h ? y + ZN_OP_PLANE_MARGIN + 1 : pitch;

      latent_read ((gpointer) latent, (zn_rect){ 0, y, latent->w, 1 }, all);
      for (gint k = 0; k < latent->c; k++)
        {
          for (gint x = 0; x < latent->w; x++)
            row[x] = all[(gsize) x * latent->c + k];
          for (gint i = first; i < end; i++)
            gegl_buffer_set (buffer, GEGL_RECTANGLE (box->x, box->y + k * pitch + i, latent->w, 1),
                             0, format, row, GEGL_AUTO_ROWSTRIDE);
        }
    }
  gegl_free (row);
  gegl_free (all);
}

/* ---- pictures made of latents --------------------------------------------- */

/* The picture in the place of the input's colours, or how far they differ.  Strips come
 * from several threads. */
static void
target_strip (gpointer data, zn_rect strip, zn_rect all, gfloat *pixels, gint components)
{
  static GMutex adding;
  ZnOpTarget   *target = data;
  const gfloat *rgb    = target->rgb + (gsize) (strip.y - target->rect.y) * target->rect.w * 3;
  gdouble       sum = 0.0, squares = 0.0;
  gfloat        worst = 0.0f;

  for (gsize i = (gsize) strip.w * strip.h; i; i--, rgb += 3, pixels += components)
    for (gint c = 0; c < 3; c++)
      if (target->scale > 0.0f)
        {
          const gfloat d = fabsf (zn_clean (rgb[c]) - zn_clean (pixels[c]));

          sum += d;
          squares += d * d;
          worst     = MAX (worst, d);
          pixels[c] = zn_clean (target->scale * d);
        }
      else
        {
          pixels[c] = rgb[c];
        }

  if (target->scale <= 0.0f)
    return;
  g_mutex_lock (&adding);
  target->sum += sum;
  target->squares += squares;
  target->worst = MAX (target->worst, worst);
  g_mutex_unlock (&adding);
}

/* At most STRIP rows: what is converted on the way is never as large as a tile. */
static void
target_band (ZnOpTarget *target, zn_rect r, const gfloat *src)
{
  target->rect = r;
  target->rgb  = src;

  if (target->keep)
    for (gint y = 0; y < r.h; y++)
      memcpy (target->keep + ((gsize) (r.y + y) * target->box.width + r.x) * 3,
              src + (gsize) y * r.w * 3, (gsize) r.w * 3 * sizeof (gfloat));

  if (target->input)
    zn_op_picture_write (target->input, target->output, r, 0, target_strip, target);
  else
    gegl_buffer_set (target->output,
                     GEGL_RECTANGLE (target->box.x + r.x, target->box.y + r.y, r.w, r.h), 0,
                     target->format, src, GEGL_AUTO_ROWSTRIDE);
}

static bool
target_write (void *cookie, zn_rect r, const float *src)
{
  for (gint y = 0; y < r.h; y += STRIP)
    {
      const zn_rect band = { r.x, r.y + y, r.w, MIN (STRIP, r.h - y) };

      target_band (cookie, band, src + (gsize) y * r.w * 3);
    }

  return true;
}

void
zn_op_target_write (ZnOpTarget *target, const gfloat *rgb)
{
  target_write (target, (zn_rect){ 0, 0, target->box.width, target->box.height }, rgb);
}

/* Runs the decoder; a copy goes to the cache if it is not too large.  A decoder without a halo
 * loses nothing by small tiles, all others take the engine's. */
static zn_status
decode_run (ZnOpTarget   *target,
            zn_use       *decoder,
            ZnOpLatent   *latent,
            const zn_key *key,
            ZnOpRequest  *request)
{
  const zn_source source = { latent->w, latent->h, latent->c, latent_read, latent };
  const zn_sink   sink   = { target_write, target };
  const zn_rect   all    = { 0, 0, target->box.width, target->box.height };
  const gsize     size   = (gsize) all.w * all.h * 3 * sizeof (gfloat);
  const gint      tile   = zn_model_geometry (zn_use_model (decoder))->halo ? 0 : SMALL_TILE;
  GBytes         *whole;
  zn_status       status;

  target->keep = zn_op_cache_takes (size) ? g_try_malloc (size) : NULL;
  status       = zn_op_use_run_region (decoder, &sink, &source, all, tile, request);
  if (target->keep)
    {
      whole = g_bytes_new_take (target->keep, size);
      if (status == ZN_OK)
        zn_op_cache_put (key, whole);
      g_bytes_unref (whole);
      target->keep = NULL;
    }

  return status;
}

zn_status
zn_op_latent_decode (ZnOpTarget *target, zn_use *decoder, ZnOpLatent *latent, ZnOpRequest *request)
{
  const gint size[] = { target->box.width, target->box.height };
  zn_key     key    = latent->key;
  zn_status  status;
  GBytes    *kept;

  zn_key_add_text (&key, zn_use_name (decoder));
  zn_key_add (&key, size, sizeof (size));

  status = zn_op_kept_or_enter (&kept, &key, &request->err);
  if (kept)
    {
      zn_op_target_write (target, g_bytes_get_data (kept, NULL));
      g_bytes_unref (kept);
    }
  else if (! status)
    {
      status = decode_run (target, decoder, latent, &key, request);
      zn_op_engine_leave ();
    }

  return status;
}

zn_status
zn_op_latent_video (ZnOpTarget *target, const zn_autoencoder *ae, gint frames, ZnOpRequest *request)
{
  const zn_source source = { target->box.width, target->box.height, 3, zn_op_picture_read,
                             (gpointer) target->input };
  const zn_sink   sink   = { target_write, target };
  const zn_job    job    = { .progress = zn_op_request_progress, .cookie = request };
  const zn_status status = zn_autoencoder_video (ae, &sink, &source, frames, &job, &request->note,
                                                 &request->err);

  request->ran = TRUE;
  if (! status)
    zn_makers_add (&request->computed_by, ae->encoder);

  return status;
}

void
zn_op_latent_show (ZnOpTarget *target, const ZnOpLatent *latent, gint factor)
{
  gfloat *z   = gegl_malloc ((gsize) latent->w * latent->c * sizeof (gfloat));
  gfloat *row = gegl_malloc ((gsize) target->box.width * factor * 3 * sizeof (gfloat));

  for (gint y = 0; y < target->box.height; y += factor)
    {
      zn_rect r   = { 0, y, target->box.width, MIN (factor, target->box.height - y) };
      gfloat *dst = row;

      latent_read ((gpointer) latent, (zn_rect){ 0, y / factor, latent->w, 1 }, z);
      for (gint i = 0; i < r.h; i++)
        for (gint x = 0; x < r.w; x++, dst += 3)
          for (gint c = 0; c < 3; c++)
            dst[c] = zn_clean (z[(gsize) (x / factor) * latent->c + c % latent->c] / 6 + 0.5f);
      target_write (target, r, row);
    }

  gegl_free (row);
  gegl_free (z);
}
