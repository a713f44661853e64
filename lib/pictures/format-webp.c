/* SPDX-License-Identifier: MIT */
/* format-webp.c - WebP files: colour and alpha, 8 bits, lossy or not as the input was.
 *
 * libwebp works on whole files in memory. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <webp/decode.h>
#include <webp/encode.h>
#include <webp/mux.h>

#include "picture.h"
#include "zenith-settings.h"

#define QUALITY 95
#define FILE_MAX ((gsize) 1 << 30)

typedef struct
{
  gboolean lossless;
} Kept;

static gboolean
webp_is (const guchar head[ZN_HEAD])
{
  return ! memcmp (head, "RIFF", 4) && ! memcmp (head + 8, "WEBP", 4);
}

/* ---- reading -------------------------------------------------------------- */

static guchar *
read_file (ZnPicture *picture, FILE *file, gsize *size, GError **error)
{
  struct stat info;
  guchar     *data = NULL;

  if (fstat (fileno (file), &info) || (gsize) info.st_size >= FILE_MAX)
    {
      zn_picture_damaged (error, "it cannot be read whole");
      return NULL;
    }
  *size = (gsize) info.st_size;
  if (zn_picture_note (picture, *size, error))
    data = zn_picture_alloc (*size, error);
  if (data && fread (data, 1, *size, file) != *size)
    {
      zn_picture_damaged (error, "it cannot be read whole");
      g_clear_pointer (&data, g_free);
    }

  return data;
}

/* The chunk of that name, or NULL. */
static GBytes *
read_chunk (WebPMux *mux, const gchar *name)
{
  WebPData data = { NULL, 0 };

  if (! mux || WebPMuxGetChunk (mux, name, &data) != WEBP_MUX_OK || ! data.size)
    return NULL;

  return g_bytes_new (data.bytes, data.size);
}

static void
read_notes (ZnPicture *picture, const guchar *file, gsize size)
{
  const WebPData data = { file, size };
  WebPMux       *mux  = WebPMuxCreate (&data, 0);
  GBytes        *icc  = read_chunk (mux, "ICCP");
  GBytes        *exif = read_chunk (mux, "EXIF");

  if (icc)
    {
      zn_picture_set_icc (picture, g_bytes_get_data (icc, NULL), g_bytes_get_size (icc));
      g_bytes_unref (icc);
    }
  if (exif && g_bytes_get_size (exif) > 6 && ! memcmp (g_bytes_get_data (exif, NULL), "Exif\0", 6))
    {
      picture->exif = g_bytes_new_from_bytes (exif, 6, g_bytes_get_size (exif) - 6);
      g_bytes_unref (exif);
    }
  else
    {
      picture->exif = exif;
    }
  picture->xmp = read_chunk (mux, "XMP ");
  WebPMuxDelete (mux);
}

static gboolean
read_pixels (ZnPicture *picture, const guchar *data, gsize size, GError **error)
{
  const gsize stride = (gsize) picture->width * zn_picture_pixel (picture);
  const gsize all    = stride * picture->height;
  guchar     *pixels = zn_picture_alloc (all, error);
  gboolean    ok;

  if (! pixels)
    return FALSE;

  ok = (picture->alpha ? WebPDecodeRGBAInto (data, size, pixels, all, (int) stride)
                       : WebPDecodeRGBInto (data, size, pixels, all, (int) stride)) != NULL;
  if (ok)
    zn_picture_put_rows (picture, 0, picture->height, pixels);
  else
    zn_picture_damaged (error, "its pixels end too early or make no sense");
  g_free (pixels);

  return ok;
}

static gboolean
webp_load (ZnPicture *picture, FILE *file, GError **error)
{
  WebPBitstreamFeatures features;
  Kept                 *kept = g_new0 (Kept, 1);
  gsize                 size = 0;
  guchar               *data = read_file (picture, file, &size, error);
  gboolean              ok   = FALSE;

  picture->kept      = kept;
  picture->kept_free = g_free;
  if (! data)
    return FALSE;

  if (WebPGetFeatures (data, size, &features) != VP8_STATUS_OK)
    {
      zn_picture_damaged (error, "its header makes no sense");
    }
  else if (features.has_animation)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
                   "it is an animation: only its first picture could be kept");
    }
  else
    {
      kept->lossless  = features.format == 2;
      picture->width  = features.width;
      picture->height = features.height;
      picture->alpha  = features.has_alpha;
      picture->depth  = ZN_DEPTH_U8;
      read_notes (picture, data, size);
      ok = zn_picture_begin (picture, error) && read_pixels (picture, data, size, error);
    }
  g_free (data);

  return ok;
}

/* ---- writing -------------------------------------------------------------- */

static gboolean
encode (const ZnPicture *picture, WebPMemoryWriter *writer)
{
  const Kept *kept   = picture->format == &zn_format_webp ? picture->kept : NULL;
  const gsize stride = (gsize) picture->width * (picture->alpha ? 4 : 3);
  guchar     *pixels = g_try_malloc (stride * picture->height);
  ZnPicture   colour = *picture;
  WebPConfig  config;
  WebPPicture webp;
  gboolean    ok;

  if (! pixels)
    return FALSE;
  colour.grey = FALSE;
  zn_picture_get_rows (&colour, ZN_DEPTH_U8, 0, picture->height, pixels);

  ok = WebPConfigInit (&config) && WebPPictureInit (&webp);
  if (ok)
    {
      config.quality  = QUALITY;
      config.lossless = kept && kept->lossless;
      config.exact    = 1; /* colours under transparent pixels */
      if (config.lossless)
        config.quality = 75; /* here it is effort */

      webp.use_argb   = config.lossless;
      webp.width      = picture->width;
      webp.height     = picture->height;
      webp.writer     = WebPMemoryWrite;
      webp.custom_ptr = writer;
      ok              = (picture->alpha ? WebPPictureImportRGBA (&webp, pixels, (int) stride)
                                        : WebPPictureImportRGB (&webp, pixels, (int) stride)) &&
           WebPEncode (&config, &webp);
      WebPPictureFree (&webp);
    }
  g_free (pixels);

  return ok;
}

static gboolean
add_chunk (WebPMux *mux, const gchar *name, GBytes *bytes)
{
  WebPData data;

  if (! bytes)
    return TRUE;
  data.bytes = g_bytes_get_data (bytes, &data.size);

  return WebPMuxSetChunk (mux, name, &data, 0) == WEBP_MUX_OK;
}

static gboolean
webp_save (const ZnPicture *picture, FILE *file, GError **error)
{
  WebPMemoryWriter writer;
  WebPData         image;
  WebPData         whole = { NULL, 0 };
  WebPMux         *mux   = WebPMuxNew ();
  gboolean         ok;

  WebPMemoryWriterInit (&writer);
  ok    = mux && encode (picture, &writer);
  image = (WebPData){ writer.mem, writer.size };
  ok    = ok && WebPMuxSetImage (mux, &image, 0) == WEBP_MUX_OK &&
       add_chunk (mux, "ICCP", picture->icc) && add_chunk (mux, "EXIF", picture->exif) &&
       add_chunk (mux, "XMP ", picture->xmp) && WebPMuxAssemble (mux, &whole) == WEBP_MUX_OK &&
       fwrite (whole.bytes, 1, whole.size, file) == whole.size;
  WebPMuxDelete (mux);
  WebPDataClear (&whole);
  WebPMemoryWriterClear (&writer);

  if (! ok)
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "the WebP file could not be written");

  return ok;
}

const ZnFormat zn_format_webp = {
  .name = "WebP",
  .ends = "webp",
  .is   = webp_is,
  .load = webp_load,
  .save = webp_save,
};
