/* SPDX-License-Identifier: MIT */
/* format-tiff.c - TIFF files: grey and colour, alpha, 8 and 16 bits, half and float; strips
 * or tiles, planes together or apart.
 *
 * EXIF, XMP, IPTC and the other tags are put into the finished file by exiv2, which the
 * entry at the end asks for. */

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tiffio.h>

#include "directory.h"
#include "zenith-settings.h"

#define STRIP_ROWS 64

typedef struct
{
  guint16 compression;
  guint16 photometric;
  guint16 extra;       /* the declared kind of the alpha channel */
  guint16 orientation; /* 0: not given */

  /* Tags that exiv2 takes for the pixels' own, and leaves out. */
  gboolean has_white, has_primaries, has_page;
  gfloat   white[2], primaries[6];
  guint16  page[2];
} Kept;

typedef struct
{
  TIFF   *tiff;
  guint16 samples, bits, planar;
  gsize   pixel;  /* bytes */
  gsize   stride; /* of the whole picture */
  guchar *all;    /* [height][stride], samples together */
  guchar *block;  /* a strip or tile */
  gsize   block_size;

  ZnPicture *picture;
  gint       fd;
  off_t      at;
  gboolean   passes; /* JPEG data may have several */
  GError    *error;  /* of ours: instead of libtiff's */
} Decoder;

/* ---- errors --------------------------------------------------------------- */

/* libtiff has one handler for all threads, so each thread keeps its own message. */
static GPrivate said = G_PRIVATE_INIT (g_free);

static void
on_error (const char *module, const char *text, va_list args)
{
  if (! g_private_get (&said))
    g_private_set (&said, g_strdup_vprintf (text, args));
}

static const gchar *
why (void)
{
  const gchar *text = g_private_get (&said);

  return text ? text : "it is not a TIFF file that libtiff reads";
}

static void
begin_errors (void)
{
  static gsize once;

  if (g_once_init_enter (&once))
    {
      TIFFSetErrorHandler (on_error);
      TIFFSetWarningHandler (NULL);
      g_once_init_leave (&once, 1);
    }
  g_private_replace (&said, NULL);
}

static gboolean
tiff_is (const guchar head[ZN_HEAD])
{
  return ! memcmp (head, "II*\0", 4) || ! memcmp (head, "MM\0*", 4) ||
         ! memcmp (head, "II+\0", 4) || ! memcmp (head, "MM\0+", 4);
}

static gboolean
refuse (GError **error, const gchar *what)
{
  g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
               "%s: convert it to 8 or 16 bits of grey or RGB first", what);
  return FALSE;
}

/* ---- where the bytes come from -------------------------------------------- */

/* Each pass of JPEG data inside goes over the whole block: one more than was charged for. */
static gboolean
charge_passes (Decoder *decoder, const guchar *data, gsize size)
{
  const guchar *end = data + size;

  for (; (data = memchr (data, 0xff, (gsize) (end - data))) && data + 1 < end; data++)
    if (data[1] == 0xda &&
        ! zn_share_work (&decoder->picture->share, decoder->block_size, &decoder->error))
      return FALSE;

  return TRUE;
}

static tmsize_t
on_read (thandle_t handle, void *to, tmsize_t size)
{
  Decoder *decoder = handle;
  gssize   n;

  if (decoder->error ||
      ! zn_share_work (&decoder->picture->share, (guint64) size + ZN_ITEM, &decoder->error))
    return -1;
  n = pread (decoder->fd, to, (gsize) size, decoder->at);
  if (n > 0)
    decoder->at += n;
  if (n > 0 && decoder->passes && ! charge_passes (decoder, to, (gsize) n))
    return -1;

  return n;
}

static tmsize_t
on_write (thandle_t handle, void *from, tmsize_t size)
{
  return -1;
}

static toff_t
on_size (thandle_t handle)
{
  struct stat info;

  return fstat (((Decoder *) handle)->fd, &info) ? 0 : (toff_t) info.st_size;
}

static toff_t
on_seek (thandle_t handle, toff_t to, int whence)
{
  Decoder *decoder = handle;

  decoder->at = (off_t) (whence == SEEK_SET   ? to
                         : whence == SEEK_CUR ? (toff_t) decoder->at + to
                                              : on_size (handle) + to);

  return (toff_t) decoder->at;
}

static int
on_close (thandle_t handle)
{
  return 0;
}

/* ---- reading -------------------------------------------------------------- */

static guint16
tag16 (TIFF *tiff, guint tag, guint16 otherwise)
{
  guint16 value = otherwise;

  TIFFGetFieldDefaulted (tiff, tag, &value);

  return value;
}

static gboolean
read_alpha (Decoder *decoder, ZnPicture *picture, Kept *kept, gint colours, GError **error)
{
  guint16  n     = 0;
  guint16 *kinds = NULL;

  if (decoder->samples == colours)
    return TRUE;
  if (decoder->samples != colours + 1)
    return refuse (error, "it has more channels than colour and alpha");

  TIFFGetFieldDefaulted (decoder->tiff, TIFFTAG_EXTRASAMPLES, &n, &kinds);
  kept->extra            = n && kinds ? kinds[0] : EXTRASAMPLE_UNSPECIFIED;
  picture->alpha         = TRUE;
  picture->premultiplied = kept->extra == EXTRASAMPLE_ASSOCALPHA;

  return TRUE;
}

static gboolean
read_layout (Decoder *decoder, ZnPicture *picture, Kept *kept, GError **error)
{
  TIFF   *tiff   = decoder->tiff;
  guint16 format = tag16 (tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);

  decoder->samples  = tag16 (tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
  decoder->bits     = tag16 (tiff, TIFFTAG_BITSPERSAMPLE, 1);
  decoder->planar   = tag16 (tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
  kept->compression = tag16 (tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  kept->photometric = decoder->samples < 3 ? PHOTOMETRIC_MINISBLACK : PHOTOMETRIC_RGB;
  TIFFGetField (tiff, TIFFTAG_PHOTOMETRIC, &kept->photometric);
  if (! TIFFGetField (tiff, TIFFTAG_ORIENTATION, &kept->orientation))
    kept->orientation = 0;

  if (kept->photometric == PHOTOMETRIC_YCBCR && kept->compression == COMPRESSION_JPEG)
    {
      TIFFSetField (tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
      kept->photometric = PHOTOMETRIC_RGB;
    }

  picture->grey = kept->photometric == PHOTOMETRIC_MINISBLACK ||
                  kept->photometric == PHOTOMETRIC_MINISWHITE;
  if (! picture->grey && kept->photometric != PHOTOMETRIC_RGB)
    return refuse (error, "its colours are neither grey nor RGB");

  if (format == SAMPLEFORMAT_UINT && decoder->bits == 8)
    picture->depth = ZN_DEPTH_U8;
  else if (format == SAMPLEFORMAT_UINT && decoder->bits == 16)
    picture->depth = ZN_DEPTH_U16;
  else if (format == SAMPLEFORMAT_IEEEFP && decoder->bits == 16)
    picture->depth = ZN_DEPTH_HALF;
  else if (format == SAMPLEFORMAT_IEEEFP && decoder->bits == 32)
    picture->depth = ZN_DEPTH_FLOAT;
  else
    return refuse (error, "its samples are neither 8 nor 16 bits nor float");

  return read_alpha (decoder, picture, kept, picture->grey ? 1 : 3, error);
}

static void
read_notes (TIFF *tiff, ZnPicture *picture, Kept *kept)
{
  guint16 unit = tag16 (tiff, TIFFTAG_RESOLUTIONUNIT, RESUNIT_INCH);
  guint32 size = 0;
  void   *icc  = NULL;
  void   *xmp  = NULL;
  gfloat *list = NULL;
  float   x, y;

  kept->has_white = TIFFGetField (tiff, TIFFTAG_WHITEPOINT, &list) && list;
  if (kept->has_white)
    memcpy (kept->white, list, sizeof (kept->white));
  kept->has_primaries = TIFFGetField (tiff, TIFFTAG_PRIMARYCHROMATICITIES, &list) && list;
  if (kept->has_primaries)
    memcpy (kept->primaries, list, sizeof (kept->primaries));
  kept->has_page = TIFFGetField (tiff, TIFFTAG_PAGENUMBER, &kept->page[0], &kept->page[1]);

  if (TIFFGetField (tiff, TIFFTAG_ICCPROFILE, &size, &icc))
    zn_picture_set_icc (picture, icc, size);
  if (TIFFGetField (tiff, TIFFTAG_XMLPACKET, &size, &xmp) && xmp)
    picture->xmp = g_bytes_new (xmp, size);
  if (TIFFGetField (tiff, TIFFTAG_XRESOLUTION, &x) &&
      TIFFGetField (tiff, TIFFTAG_YRESOLUTION, &y) && x > 0.0f && y > 0.0f)
    {
      picture->unit         = unit == RESUNIT_INCH         ? ZN_UNIT_INCH
                              : unit == RESUNIT_CENTIMETER ? ZN_UNIT_CM
                                                           : ZN_UNIT_ASPECT;
      picture->x_resolution = x;
      picture->y_resolution = y;
    }
}

/* Copies a block that begins at x, y into the picture; what sticks out is left. */
static void
place_block (Decoder         *decoder,
             const ZnPicture *picture,
             gint             plane,
             gint             x,
             gint             y,
             gint             width,
             gint             height)
{
  const gsize sample = decoder->bits / 8;
  const gsize step   = plane < 0 ? decoder->pixel : sample;
  const gint  w      = MIN (width, picture->width - x);
  const gint  h      = MIN (height, picture->height - y);

  for (gint row = 0; row < h; row++)
    {
      const guchar *src = decoder->block + (gsize) row * width * step;
      guchar       *dst = decoder->all + (gsize) (y + row) * decoder->stride + x * decoder->pixel;

      if (plane < 0)
        memcpy (dst, src, w * decoder->pixel);
      else
        for (gint i = 0; i < w; i++)
          memcpy (dst + i * decoder->pixel + plane * sample, src + i * sample, sample);
    }
}

/* The block, and what libtiff reads it from. */
static gboolean
make_block (Decoder *decoder, ZnPicture *picture, gsize size)
{
  decoder->block_size = size;
  if (zn_share_memory (&picture->share, 2 * (guint64) size, &decoder->error))
    decoder->block = zn_picture_alloc (size, &decoder->error);

  return decoder->block != NULL;
}

static gboolean
read_strips (Decoder *decoder, ZnPicture *picture, gint plane)
{
  guint32 rows = (guint32) picture->height;
  gsize   step = plane < 0 ? decoder->pixel : decoder->bits / 8u;

  TIFFGetFieldDefaulted (decoder->tiff, TIFFTAG_ROWSPERSTRIP, &rows);
  rows = CLAMP (rows, 1, (guint32) picture->height);
  if ((gsize) TIFFStripSize (decoder->tiff) != rows * step * picture->width)
    return FALSE;

  if (! make_block (decoder, picture, rows * step * picture->width))
    return FALSE;
  for (gint y = 0; y < picture->height; y += rows)
    {
      const gint     h    = MIN ((gint) rows, picture->height - y);
      const tmsize_t size = (tmsize_t) (h * step * picture->width);
      const guint32  at   = TIFFComputeStrip (decoder->tiff, y, (guint16) MAX (plane, 0));

      if (TIFFReadEncodedStrip (decoder->tiff, at, decoder->block, size) != size)
        return FALSE;
      place_block (decoder, picture, plane, 0, y, picture->width, h);
    }

  return TRUE;
}

static gboolean
read_tiles (Decoder *decoder, ZnPicture *picture, gint plane)
{
  const tmsize_t size = TIFFTileSize (decoder->tiff);
  guint32        w = 0, h = 0;
  guint64        n;
  gsize          step = plane < 0 ? decoder->pixel : decoder->bits / 8u;

  TIFFGetField (decoder->tiff, TIFFTAG_TILEWIDTH, &w);
  TIFFGetField (decoder->tiff, TIFFTAG_TILELENGTH, &h);
  if (! w || ! h || w > 65536 || h > 65536 || (gsize) size != w * step * h)
    return FALSE;

  n = (guint64) ((picture->width + w - 1) / w) * ((picture->height + h - 1) / h);
  if (! zn_share_work (&picture->share, n * (guint64) size, &decoder->error) ||
      ! make_block (decoder, picture, (gsize) size))
    return FALSE;
  for (gint y = 0; y < picture->height; y += h)
    for (gint x = 0; x < picture->width; x += w)
      {
        const guint32 at = TIFFComputeTile (decoder->tiff, x, y, 0, (guint16) MAX (plane, 0));

        if (TIFFReadEncodedTile (decoder->tiff, at, decoder->block, size) != size)
          return FALSE;
        place_block (decoder, picture, plane, x, y, w, h);
      }

  return TRUE;
}

/* The other way round, there and back, where white is 0. */
static void
flip_white (guchar *pixels, const ZnPicture *picture, ZnDepth depth, gint rows)
{
  const gint  n   = 1 + picture->alpha;
  const gsize len = (gsize) picture->width * rows * n;

  for (gsize i = 0; i < len; i += n)
    if (depth == ZN_DEPTH_U8)
      pixels[i] = ~pixels[i];
    else
      ((guint16 *) pixels)[i] = ~((guint16 *) pixels)[i];
}

static gboolean
read_pixels (Decoder *decoder, ZnPicture *picture, GError **error)
{
  const gboolean apart = decoder->planar == PLANARCONFIG_SEPARATE && decoder->samples > 1;
  const Kept    *kept  = picture->kept;

  decoder->pixel  = decoder->samples * (decoder->bits / 8u);
  decoder->stride = decoder->pixel * picture->width;
  decoder->passes = kept->compression == COMPRESSION_JPEG;
  decoder->all    = zn_picture_alloc (decoder->stride * picture->height, error);
  if (! decoder->all)
    return FALSE;

  for (gint plane = apart ? 0 : -1; plane < (apart ? decoder->samples : 0); plane++)
    {
      gboolean ok = TIFFIsTiled (decoder->tiff) ? read_tiles (decoder, picture, plane)
                                                : read_strips (decoder, picture, plane);

      g_clear_pointer (&decoder->block, g_free);
      if (! ok)
        return FALSE;
    }

  if (kept->photometric == PHOTOMETRIC_MINISWHITE)
    {
      if (picture->depth > ZN_DEPTH_U16)
        return refuse (error, "its white is 0 and its samples are float");
      flip_white (decoder->all, picture, picture->depth, picture->height);
    }
  zn_picture_put_rows (picture, 0, picture->height, decoder->all);

  return TRUE;
}

/* Further pictures would be lost; smaller copies of the first are no loss. */
static gboolean
is_alone (TIFF *tiff, GError **error)
{
  while (TIFFReadDirectory (tiff))
    {
      guint32 type = 0;

      TIFFGetField (tiff, TIFFTAG_SUBFILETYPE, &type);
      if (! (type & FILETYPE_REDUCEDIMAGE))
        {
          g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
                       "it has several pages: only the first could be kept");
          return FALSE;
        }
    }

  return TRUE;
}

static gboolean
read_all (Decoder *decoder, ZnPicture *picture, GError **error)
{
  Kept   *kept  = picture->kept;
  guint32 width = 0, height = 0;

  /* m: the file is read, not mapped. */
  decoder->tiff = TIFFClientOpen ("picture", "rm", decoder, on_read, on_write, on_seek, on_close,
                                  on_size, NULL, NULL);
  if (! decoder->tiff)
    return FALSE;

  TIFFGetField (decoder->tiff, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField (decoder->tiff, TIFFTAG_IMAGELENGTH, &height);
  picture->width  = (gint) MIN (width, G_MAXINT);
  picture->height = (gint) MIN (height, G_MAXINT);
  if (! read_layout (decoder, picture, kept, error))
    return FALSE;
  read_notes (decoder->tiff, picture, kept);

  return zn_picture_begin (picture, error) && read_pixels (decoder, picture, error) &&
         is_alone (decoder->tiff, error);
}

static gboolean
tiff_load (ZnPicture *picture, FILE *file, GError **error)
{
  Decoder  decoder = { .picture = picture, .fd = fileno (file) };
  GError  *failed  = NULL;
  gboolean ok;

  picture->kept      = g_new0 (Kept, 1);
  picture->kept_free = g_free;
  begin_errors ();

  ok = zn_directories_of_file (picture, decoder.fd, &failed) &&
       read_all (&decoder, picture, &failed);
  if (decoder.error) /* libtiff takes it for a file that is cut */
    {
      ok = FALSE;
      g_clear_error (&failed);
      g_propagate_error (error, decoder.error);
    }
  else if (failed)
    {
      g_propagate_error (error, failed);
    }
  else if (! ok)
    {
      zn_picture_damaged (error, why ());
    }
  if (decoder.tiff)
    TIFFClose (decoder.tiff);
  g_free (decoder.all);

  return ok;
}

/* ---- writing -------------------------------------------------------------- */

/* The input's, if it loses nothing. */
static guint16
lossless (guint16 compression)
{
  switch (compression)
    {
    case COMPRESSION_NONE:
    case COMPRESSION_LZW:
    case COMPRESSION_ADOBE_DEFLATE:
    case COMPRESSION_PACKBITS:
      return compression;

    case COMPRESSION_DEFLATE:
      return COMPRESSION_ADOBE_DEFLATE;

    default:
      return COMPRESSION_LZW;
    }
}

static void
write_tags (TIFF *tiff, const ZnPicture *picture, const Kept *kept)
{
  static const guint16 bits[] = { 8, 16, 16, 32 };
  const gboolean       real   = picture->depth >= ZN_DEPTH_HALF;
  const guint16        packed = lossless (kept->compression);
  guint16              extra  = kept->extra;

  TIFFSetField (tiff, TIFFTAG_IMAGEWIDTH, picture->width);
  TIFFSetField (tiff, TIFFTAG_IMAGELENGTH, picture->height);
  TIFFSetField (tiff, TIFFTAG_BITSPERSAMPLE, bits[picture->depth]);
  TIFFSetField (tiff, TIFFTAG_SAMPLESPERPIXEL, (picture->grey ? 1 : 3) + picture->alpha);
  TIFFSetField (tiff, TIFFTAG_SAMPLEFORMAT, real ? SAMPLEFORMAT_IEEEFP : SAMPLEFORMAT_UINT);
  TIFFSetField (tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
  TIFFSetField (tiff, TIFFTAG_PHOTOMETRIC, kept->photometric);
  if (picture->alpha)
    TIFFSetField (tiff, TIFFTAG_EXTRASAMPLES, 1, &extra);
  TIFFSetField (tiff, TIFFTAG_ROWSPERSTRIP, STRIP_ROWS);
  TIFFSetField (tiff, TIFFTAG_COMPRESSION, packed);
  if (packed == COMPRESSION_LZW || packed == COMPRESSION_ADOBE_DEFLATE)
    TIFFSetField (tiff, TIFFTAG_PREDICTOR,
                  picture->depth == ZN_DEPTH_FLOAT  ? PREDICTOR_FLOATINGPOINT
                  : picture->depth == ZN_DEPTH_HALF ? PREDICTOR_NONE
                                                    : PREDICTOR_HORIZONTAL);

  if (kept->has_white)
    TIFFSetField (tiff, TIFFTAG_WHITEPOINT, kept->white);
  if (kept->has_primaries)
    TIFFSetField (tiff, TIFFTAG_PRIMARYCHROMATICITIES, kept->primaries);
  if (kept->has_page)
    TIFFSetField (tiff, TIFFTAG_PAGENUMBER, kept->page[0], kept->page[1]);
  if (kept->orientation)
    TIFFSetField (tiff, TIFFTAG_ORIENTATION, kept->orientation);
  if (picture->icc)
    TIFFSetField (tiff, TIFFTAG_ICCPROFILE, (guint32) g_bytes_get_size (picture->icc),
                  g_bytes_get_data (picture->icc, NULL));
  if (picture->unit)
    {
      const ZnUnit unit = picture->unit == ZN_UNIT_METRE ? ZN_UNIT_INCH : picture->unit;
      gdouble      x, y;

      zn_picture_resolution (picture, unit, &x, &y);
      TIFFSetField (tiff, TIFFTAG_XRESOLUTION, x);
      TIFFSetField (tiff, TIFFTAG_YRESOLUTION, y);
      TIFFSetField (tiff, TIFFTAG_RESOLUTIONUNIT,
                    unit == ZN_UNIT_INCH ? RESUNIT_INCH
                    : unit == ZN_UNIT_CM ? RESUNIT_CENTIMETER
                                         : RESUNIT_NONE);
    }
}

static gboolean
tiff_save (const ZnPicture *picture, FILE *file, GError **error)
{
  const Kept  other  = { .compression = COMPRESSION_LZW,
                         .photometric = picture->grey ? PHOTOMETRIC_MINISBLACK : PHOTOMETRIC_RGB,
                         .extra       = EXTRASAMPLE_UNASSALPHA };
  const Kept *kept   = picture->format == &zn_format_tiff ? picture->kept : &other;
  const gsize stride = (gsize) picture->width *
                       babl_format_get_bytes_per_pixel (zn_picture_babl (picture, picture->depth));
  gint     fd     = dup (fileno (file));
  TIFF    *tiff   = NULL;
  guchar  *pixels = zn_picture_alloc (stride * STRIP_ROWS, error);
  gboolean ok;

  if (! pixels)
    {
      close (fd);
      return FALSE;
    }
  begin_errors ();
  lseek (fd, 0, SEEK_SET);
  tiff = TIFFFdOpen (fd, "picture", "w");
  ok   = tiff != NULL;
  if (! tiff)
    close (fd);

  if (ok)
    write_tags (tiff, picture, kept);
  for (gint y = 0; ok && y < picture->height; y += STRIP_ROWS)
    {
      const gint rows = MIN (STRIP_ROWS, picture->height - y);

      zn_picture_get_rows (picture, picture->depth, y, rows, pixels);
      if (kept->photometric == PHOTOMETRIC_MINISWHITE)
        flip_white (pixels, picture, picture->depth, rows);
      ok = TIFFWriteEncodedStrip (tiff, y / STRIP_ROWS, pixels, (tmsize_t) (stride * rows)) >= 0;
    }
  ok = ok && TIFFFlush (tiff);
  if (tiff)
    TIFFClose (tiff);
  g_free (pixels);

  if (! ok)
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "the TIFF file could not be written: %s",
                 why ());

  return ok;
}

const ZnFormat zn_format_tiff = {
  .name     = "TIFF",
  .ends     = "tif tiff",
  .by_exiv2 = TRUE,
  .is       = tiff_is,
  .load     = tiff_load,
  .save     = tiff_save,
};
