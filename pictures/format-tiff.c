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

#include "picture.h"
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

/* A TIFF that reads or writes the same open file as the stream. */
static TIFF *
tiff_open (FILE *file, const gchar *mode)
{
  static gsize once;
  gint         fd;
  TIFF        *tiff;

  if (g_once_init_enter (&once))
    {
      TIFFSetErrorHandler (on_error);
      TIFFSetWarningHandler (NULL);
      g_once_init_leave (&once, 1);
    }
  g_private_replace (&said, NULL);

  fd = dup (fileno (file));
  lseek (fd, 0, SEEK_SET);
  tiff = TIFFFdOpen (fd, "picture", mode);
  if (! tiff)
    close (fd);

  return tiff;
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

/* ---- completeness --------------------------------------------------------- */

#define ENTRIES_MAX 4096
#define DEPTH_MAX 3 /* the first directory, EXIF, interoperability */

typedef struct
{
  gint     fd;
  guint64  size;
  gboolean swap, big;
} Bytes;

/* An unsigned number of that many bytes; 0 beyond the end. */
static guint64
number (const Bytes *bytes, guint64 at, gint width)
{
  guchar b[8] = {
    0,
  };
  guint64 v = 0;

  if (pread (bytes->fd, b, width, (off_t) at) != width)
    return 0;
  for (gint i = 0; i < width; i++)
    v = v << 8 | b[bytes->swap ? i : width - 1 - i];

  return v;
}

/* Whether everything that the entries of a directory refer to is inside the file.  libtiff only
 * warns of a description or a note of the camera that is cut. */
static gboolean
is_whole (const Bytes *bytes, guint64 at, gint depth)
{
  static const guchar sizes[] = { 0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8 };
  const gint          head    = bytes->big ? 8 : 2;
  const gint          entry   = bytes->big ? 20 : 12;
  const gint          word    = bytes->big ? 8 : 4;
  const guint64       n       = number (bytes, at, head);

  if (n > ENTRIES_MAX || at > bytes->size || at + head + n * entry > bytes->size)
    return FALSE;

  for (guint64 i = 0; i < n; i++)
    {
      const guint64 here  = at + head + i * entry;
      const guint64 tag   = number (bytes, here, 2);
      const guint64 type  = number (bytes, here + 2, 2);
      const guint64 count = number (bytes, here + 4, word);
      const guint64 value = number (bytes, here + 4 + word, word);
      const guint64 each  = type < G_N_ELEMENTS (sizes) ? sizes[type] : 0;

      if (each && count > bytes->size)
        return FALSE;
      if (each * count > (guint64) word &&
          (value > bytes->size || each * count > bytes->size - value))
        return FALSE;
      if ((tag == TIFFTAG_EXIFIFD || tag == TIFFTAG_GPSIFD) && depth < DEPTH_MAX &&
          ! is_whole (bytes, value, depth + 1))
        return FALSE;
    }

  return TRUE;
}

static gboolean
file_is_whole (FILE *file)
{
  Bytes       bytes = { .fd = fileno (file) };
  struct stat info;
  guchar      head[4];

  if (fstat (bytes.fd, &info) || pread (bytes.fd, head, 4, 0) != 4)
    return FALSE;
  bytes.size = (guint64) info.st_size;
  bytes.swap = *head == 'M';
  bytes.big  = head[bytes.swap ? 3 : 2] == '+';

  return is_whole (&bytes, number (&bytes, bytes.big ? 8 : 4, bytes.big ? 8 : 4), 0);
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

static gboolean
read_strips (Decoder *decoder, const ZnPicture *picture, gint plane)
{
  guint32 rows = (guint32) picture->height;
  gsize   step = plane < 0 ? decoder->pixel : decoder->bits / 8u;

  TIFFGetFieldDefaulted (decoder->tiff, TIFFTAG_ROWSPERSTRIP, &rows);
  rows = CLAMP (rows, 1, (guint32) picture->height);
  if ((gsize) TIFFStripSize (decoder->tiff) != rows * step * picture->width)
    return FALSE;

  decoder->block = g_malloc (rows * step * picture->width);
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
read_tiles (Decoder *decoder, const ZnPicture *picture, gint plane)
{
  const tmsize_t size = TIFFTileSize (decoder->tiff);
  guint32        w = 0, h = 0;
  gsize          step = plane < 0 ? decoder->pixel : decoder->bits / 8u;

  TIFFGetField (decoder->tiff, TIFFTAG_TILEWIDTH, &w);
  TIFFGetField (decoder->tiff, TIFFTAG_TILELENGTH, &h);
  if (! w || ! h || w > 65536 || h > 65536 || (gsize) size != w * step * h)
    return FALSE;

  decoder->block = g_malloc (size);
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
  decoder->all    = g_try_malloc0 (decoder->stride * picture->height);
  if (! decoder->all)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "there is not enough memory for it");
      return FALSE;
    }

  for (gint plane = apart ? 0 : -1; plane < (apart ? decoder->samples : 0); plane++)
    {
      gboolean ok = TIFFIsTiled (decoder->tiff) ? read_tiles (decoder, picture, plane)
                                                : read_strips (decoder, picture, plane);

      g_clear_pointer (&decoder->block, g_free);
      if (! ok)
        {
          zn_picture_damaged (error, why ());
          return FALSE;
        }
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
tiff_load (ZnPicture *picture, FILE *file, GError **error)
{
  Decoder decoder = {
    tiff_open (file, "r"),
  };
  Kept    *kept  = g_new0 (Kept, 1);
  guint32  width = 0, height = 0;
  gboolean ok;

  picture->kept      = kept;
  picture->kept_free = g_free;
  if (! decoder.tiff)
    {
      zn_picture_damaged (error, why ());
      return FALSE;
    }
  if (! file_is_whole (file))
    {
      zn_picture_damaged (error, "a value lies beyond its end");
      TIFFClose (decoder.tiff);
      return FALSE;
    }

  TIFFGetField (decoder.tiff, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField (decoder.tiff, TIFFTAG_IMAGELENGTH, &height);
  picture->width  = (gint) MIN (width, G_MAXINT);
  picture->height = (gint) MIN (height, G_MAXINT);

  ok = read_layout (&decoder, picture, kept, error);
  if (ok)
    {
      read_notes (decoder.tiff, picture, kept);
      ok = zn_picture_begin (picture, error) && read_pixels (&decoder, picture, error) &&
           is_alone (decoder.tiff, error);
    }
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
  TIFF    *tiff   = tiff_open (file, "w");
  guchar  *pixels = g_malloc (stride * STRIP_ROWS);
  gboolean ok     = tiff != NULL;

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
