/* SPDX-License-Identifier: MIT */
/* format-png.c - PNG files: grey, colour, palette (which becomes colour), alpha, 8 and 16
 * bits.
 *
 * What libpng knows of the input stays with the picture, so that text, significant bits
 * and the chunks about colour go to the output as they were.  gAMA is copied, never
 * made up. */

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <png.h>
#include <zlib.h>

#include "picture.h"
#include "zenith-settings.h"

#define STRIP_ROWS 64
#define LEVEL 4          /* of compression: beyond it files hardly shrink         */
#define GAMMA_MAX 110000 /* above 1.1 it is a decoder's exponent, put there by mistake */

#define XMP_KEY "XML:com.adobe.xmp"
#define XMP_PROFILE "Raw profile type xmp"

#define CHUNK_EMPTY 12 /* bytes: length, name, checksum */
#define INFLATED 16384 /* bytes at a time */

typedef struct
{
  png_structp png;
  png_infop   info, end;
  gboolean    writes;
  gchar       why[160];
  guchar     *pixels;
  png_bytep  *rows;
} Codec;

static G_NORETURN void
on_error (png_structp png, png_const_charp text)
{
  Codec *codec = png_get_error_ptr (png);

  g_strlcpy (codec->why, text, sizeof (codec->why));
  longjmp (png_jmpbuf (png), 1);
}

static void
on_warning (png_structp png, png_const_charp text)
{
}

static void
codec_free (gpointer data)
{
  Codec *codec = data;

  if (codec->writes)
    png_destroy_write_struct (&codec->png, &codec->info);
  else
    png_destroy_read_struct (&codec->png, &codec->info, &codec->end);
  g_free (codec->pixels);
  g_free (codec->rows);
  g_free (codec);
}

static Codec *
codec_new (gboolean writes)
{
  Codec *codec = g_new0 (Codec, 1);

  codec->writes = writes;
  codec->png = writes ? png_create_write_struct (PNG_LIBPNG_VER_STRING, codec, on_error, on_warning)
                      : png_create_read_struct (PNG_LIBPNG_VER_STRING, codec, on_error, on_warning);
  if (codec->png)
    {
      codec->info = png_create_info_struct (codec->png);
      codec->end  = writes ? NULL : png_create_info_struct (codec->png);
#ifdef PNG_SKIP_sRGB_CHECK_PROFILE
      png_set_option (codec->png, PNG_SKIP_sRGB_CHECK_PROFILE, PNG_OPTION_ON);
#endif
    }
  g_strlcpy (codec->why, "there is not enough memory", sizeof (codec->why));

  return codec;
}

static gboolean
png_is (const guchar head[ZN_HEAD])
{
  return ! png_sig_cmp (head, 0, 8);
}

/* ---- what the chunks cost ------------------------------------------------- */

/* Where the compressed part of a chunk begins; NULL if it has none. */
static const guchar *
compressed (const gchar *type, const guchar *data, const guchar *end)
{
  const gboolean text = ! strcmp (type, "iTXt");
  const guchar  *at;

  if (! text && strcmp (type, "zTXt") && strcmp (type, "iCCP"))
    return NULL;

  at = memchr (data, 0, (gsize) (end - data)); /* of the keyword */
  at = at && end - at > 2 ? at + (text ? 3 : 2) : NULL;
  if (at && text && ! at[-2])
    return NULL;
  for (gint i = 0; text && at && i < 2; i++) /* language, the keyword in it */
    {
      at = memchr (at, 0, (gsize) (end - at));
      at = at ? at + 1 : NULL;
    }

  return at;
}

/* libpng would hold all of it before it says how much it is. */
static gboolean
charge_inflated (ZnPicture *picture, const guchar *data, gsize size, GError **error)
{
  z_stream z = { .next_in = (Bytef *) data, .avail_in = (uInt) size };
  guchar   room[INFLATED];
  int      status;
  gboolean ok = TRUE;

  if (inflateInit (&z) != Z_OK)
    return TRUE; /* then libpng cannot, either */
  do
    {
      z.next_out  = room;
      z.avail_out = INFLATED;
      status      = inflate (&z, Z_NO_FLUSH);
      ok          = zn_picture_note (picture, INFLATED - z.avail_out, error);
    }
  while (ok && status == Z_OK && z.avail_out < INFLATED);
  inflateEnd (&z);

  return ok;
}

/* One chunk, whose data begin there. */
static gboolean
charge_chunk (ZnPicture   *picture,
              gint         fd,
              const gchar *type,
              guint64      at,
              gsize        size,
              GError     **error)
{
  const guchar *from;
  guchar       *data;
  gboolean      ok;

  if (! zn_picture_note (picture, size, error))
    return FALSE;
  data = zn_picture_alloc (size, error);
  if (! data)
    return FALSE;
  ok   = pread (fd, data, size, (off_t) at) == (gssize) size;
  from = ok ? compressed (type, data, data + size) : NULL;
  ok   = ! from || charge_inflated (picture, from, (gsize) (data + size - from), error);
  g_free (data);

  return ok;
}

/* All that are not pixels. */
static gboolean
charge_chunks (ZnPicture *picture, gint fd, GError **error)
{
  struct stat info;
  guint64     at = 8, end, size;

  if (fstat (fd, &info))
    return TRUE; /* libpng will say that it is cut; likewise below */
  end = (guint64) info.st_size;
  while (at + CHUNK_EMPTY <= end)
    {
      guchar head[8];
      gchar  type[5] = "";

      if (pread (fd, head, sizeof (head), (off_t) at) != (gssize) sizeof (head))
        break;
      size = (guint64) head[0] << 24 | head[1] << 16 | head[2] << 8 | head[3];
      memcpy (type, head + 4, 4);
      if (size > end - at - CHUNK_EMPTY)
        break;
      if (strcmp (type, "IDAT") ? ! charge_chunk (picture, fd, type, at + 8, (gsize) size, error)
                                : ! zn_share_work (&picture->share, ZN_ITEM, error))
        return FALSE;
      at += CHUNK_EMPTY + size;
    }

  return TRUE;
}

/* ---- reading -------------------------------------------------------------- */

/* A gAMA that can be true. */
static gboolean
has_gamma (Codec *codec)
{
  png_fixed_point gamma = 0;

  return png_get_gAMA_fixed (codec->png, codec->info, &gamma) && gamma > 0 && gamma <= GAMMA_MAX;
}

/* A profile, or sRGB, or what gAMA and cHRM say. */
static void
read_space (Codec *codec, ZnPicture *picture)
{
  png_charp   name;
  png_bytep   profile;
  png_uint_32 size;
  int         how;
  double      gamma = 0.0;
  double      c[8]  = { 0.3127, 0.3290, 0.64, 0.33, 0.30, 0.60, 0.15, 0.06 };

  if (png_get_iCCP (codec->png, codec->info, &name, &how, &profile, &size))
    {
      zn_picture_set_icc (picture, profile, size);
      return;
    }
  if (png_get_valid (codec->png, codec->info, PNG_INFO_sRGB) || ! has_gamma (codec))
    return;

  png_get_gAMA (codec->png, codec->info, &gamma);
  png_get_cHRM (codec->png, codec->info, &c[0], &c[1], &c[2], &c[3], &c[4], &c[5], &c[6], &c[7]);
  if (ABS (gamma - 0.45455) < 0.001 && ABS (c[2] - 0.64) < 0.001 && ABS (c[4] - 0.30) < 0.001)
    return;

  if (c[1] > 0.0 && c[3] > 0.0 && c[5] > 0.0 && c[7] > 0.0)
    picture->space = babl_space_from_chromaticities (NULL, c[0], c[1], c[2], c[3], c[4], c[5], c[6],
                                                     c[7], babl_trc_gamma (1.0 / gamma), NULL, NULL,
                                                     BABL_SPACE_FLAG_EQUALIZE);
}

/* A packet in ImageMagick's old way: a line "xmp", its length, digits.  NULL: it is none. */
static GBytes *
raw_profile (const gchar *text)
{
  const gchar *digits = strchr (g_str_has_prefix (text, "\n") ? text + 1 : text, '\n');
  GByteArray  *bytes;
  gint         high = -1;

  digits = digits ? strchr (digits + 1, '\n') : NULL;
  if (! digits)
    return NULL;

  bytes = g_byte_array_new ();
  for (; *digits; digits++)
    {
      const gint   v    = g_ascii_xdigit_value (*digits);
      const guint8 byte = (guint8) (high << 4 | v);

      if (v >= 0 && high >= 0)
        g_byte_array_append (bytes, &byte, 1);
      if (v >= 0)
        high = high < 0 ? v : -1;
    }

  return g_byte_array_free_to_bytes (bytes);
}

static void
read_notes (Codec *codec, ZnPicture *picture)
{
  png_uint_32 x, y;
  int         unit;

  if (png_get_pHYs (codec->png, codec->info, &x, &y, &unit))
    {
      picture->unit         = unit == PNG_RESOLUTION_METER ? ZN_UNIT_METRE : ZN_UNIT_ASPECT;
      picture->x_resolution = x;
      picture->y_resolution = y;
    }
#ifdef PNG_eXIf_SUPPORTED
  for (gint i = 0; i < 2; i++)
    {
      png_bytep   exif;
      png_uint_32 size;

      if (! picture->exif &&
          png_get_eXIf_1 (codec->png, i ? codec->end : codec->info, &size, &exif))
        picture->exif = g_bytes_new (exif, size);
    }
#endif
  for (gint i = 0; i < 2; i++)
    {
      png_textp text;
      int       n = 0;

      png_get_text (codec->png, i ? codec->end : codec->info, &text, &n);
      for (int j = 0; j < n; j++)
        if (! strcmp (text[j].key, XMP_KEY) && ! picture->xmp)
          picture->xmp = g_bytes_new (text[j].text, strlen (text[j].text));
      for (int j = 0; j < n; j++)
        if (! strcmp (text[j].key, XMP_PROFILE) && ! picture->xmp)
          picture->xmp = raw_profile (text[j].text);
    }
}

/* How the decoder shall hand over the pixels; TRUE if all is as expected. */
static gboolean
read_header (Codec *codec, ZnPicture *picture, GError **error)
{
  static const png_byte animation[] = { 'a', 'c', 'T', 'L', 0, 'c', 'I', 'C', 'P', 0 };
  png_unknown_chunkp    chunk;
  int                   n, type, bits;

  png_set_keep_unknown_chunks (codec->png, PNG_HANDLE_CHUNK_ALWAYS, animation, 2);
  png_set_user_limits (codec->png, 1 << 20, 1 << 20);
  png_read_info (codec->png, codec->info);

  n = png_get_unknown_chunks (codec->png, codec->info, &chunk);
  for (int i = 0; i < n; i++)
    if (! memcmp (chunk[i].name, "acTL", 4))
      {
        g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
                     "it is an animation: only its first picture could be kept");
        return FALSE;
      }

  type            = png_get_color_type (codec->png, codec->info);
  bits            = png_get_bit_depth (codec->png, codec->info);
  picture->width  = (gint) png_get_image_width (codec->png, codec->info);
  picture->height = (gint) png_get_image_height (codec->png, codec->info);
  picture->grey   = ! (type & PNG_COLOR_MASK_COLOR);
  picture->alpha  = (type & PNG_COLOR_MASK_ALPHA) ||
                   png_get_valid (codec->png, codec->info, PNG_INFO_tRNS);
  picture->depth = bits == 16 ? ZN_DEPTH_U16 : ZN_DEPTH_U8;
  read_space (codec, picture);
  if (picture->grey && bits < 8) /* its background would have to be spread as its pixels are */
    png_set_invalid (codec->png, codec->info, PNG_INFO_bKGD);

  png_set_expand (codec->png);
  if (bits == 16 && G_BYTE_ORDER == G_LITTLE_ENDIAN)
    png_set_swap (codec->png);

  return zn_picture_begin (picture, error);
}

/* An interlaced picture comes in passes over all of it. */
static gboolean
read_pixels (Codec *codec, ZnPicture *picture, GError **error)
{
  const gint  passes = png_set_interlace_handling (codec->png);
  const gint  strip  = passes > 1 ? picture->height : MIN (picture->height, STRIP_ROWS);
  const gsize stride = (gsize) picture->width * zn_picture_pixel (picture);

  png_read_update_info (codec->png, codec->info);
  if (png_get_rowbytes (codec->png, codec->info) != stride)
    png_error (codec->png, "its rows have an unexpected size");

  codec->pixels = zn_picture_alloc (stride * strip, error);
  codec->rows   = codec->pixels ? zn_picture_alloc (sizeof (png_bytep) * strip, error) : NULL;
  if (! codec->rows ||
      ! zn_share_work (&picture->share, zn_picture_bytes (picture) * (guint) (passes - 1), error))
    return FALSE;
  for (gint i = 0; i < strip; i++)
    codec->rows[i] = codec->pixels + stride * i;

  for (gint pass = 0; pass < passes; pass++)
    for (gint y = 0; y < picture->height; y += STRIP_ROWS)
      {
        const gint rows = MIN (STRIP_ROWS, picture->height - y);

        if (! zn_share_work (&picture->share, 0, error))
          return FALSE;
        png_read_rows (codec->png, codec->rows + (passes > 1 ? y : 0), NULL, rows);
        if (passes == 1)
          zn_picture_put_rows (picture, y, rows, codec->pixels);
      }
  if (passes > 1)
    zn_picture_put_rows (picture, 0, picture->height, codec->pixels);
  png_read_end (codec->png, codec->end);

  return TRUE;
}

static gboolean
png_load (ZnPicture *picture, FILE *file, GError **error)
{
  Codec *codec = codec_new (FALSE);

  picture->kept      = codec;
  picture->kept_free = codec_free;

  if (! codec->png || ! codec->info || ! codec->end || setjmp (png_jmpbuf (codec->png)))
    {
      zn_picture_damaged (error, codec->why);
      return FALSE;
    }

  if (! charge_chunks (picture, fileno (file), error))
    return FALSE;
  png_init_io (codec->png, file);
  if (! read_header (codec, picture, error) || ! read_pixels (codec, picture, error))
    return FALSE;
  read_notes (codec, picture);
  g_clear_pointer (&codec->pixels, g_free);
  g_clear_pointer (&codec->rows, g_free);

  return TRUE;
}

/* ---- writing -------------------------------------------------------------- */

/* Everything that libpng read except pixels, EXIF, XMP and resolution. */
static void
copy_notes (Codec *to, Codec *from)
{
  png_unknown_chunkp chunk;
  png_fixed_point    gamma, c[8];
  png_color_8p       bits;
  png_color_16p      background;
  int                intent, n;

  if (png_get_sRGB (from->png, from->info, &intent))
    png_set_sRGB (to->png, to->info, intent);
  if (has_gamma (from))
    {
      png_get_gAMA_fixed (from->png, from->info, &gamma);
      png_set_gAMA_fixed (to->png, to->info, gamma);
      if (png_get_cHRM_fixed (from->png, from->info, &c[0], &c[1], &c[2], &c[3], &c[4], &c[5],
                              &c[6], &c[7]))
        png_set_cHRM_fixed (to->png, to->info, c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]);
    }
  /* libpng has no place for cICP before 1.6.45. */
  n = png_get_unknown_chunks (from->png, from->info, &chunk);
  if (n)
    {
      png_set_keep_unknown_chunks (to->png, PNG_HANDLE_CHUNK_ALWAYS, NULL, 0);
      png_set_unknown_chunks (to->png, to->info, chunk, n);
    }
  if (png_get_color_type (from->png, from->info) == png_get_color_type (to->png, to->info))
    {
      if (png_get_sBIT (from->png, from->info, &bits))
        png_set_sBIT (to->png, to->info, bits);
      if (png_get_bit_depth (from->png, from->info) == png_get_bit_depth (to->png, to->info) &&
          png_get_bKGD (from->png, from->info, &background))
        png_set_bKGD (to->png, to->info, background);
    }

  for (gint i = 0; i < 2; i++)
    {
      png_textp text;

      n = 0;
      png_get_text (from->png, i ? from->end : from->info, &text, &n);
      for (int j = 0; j < n; j++)
        if (strcmp (text[j].key, XMP_KEY) && strcmp (text[j].key, XMP_PROFILE))
          png_set_text (to->png, to->info, &text[j], 1);
    }
}

static void
write_notes (Codec *codec, const ZnPicture *picture, gboolean same)
{
  if (picture->icc)
    png_set_iCCP (codec->png, codec->info, "ICC profile", PNG_COMPRESSION_TYPE_BASE,
                  g_bytes_get_data (picture->icc, NULL), g_bytes_get_size (picture->icc));
  if (same)
    copy_notes (codec, picture->kept);

  if (picture->unit)
    {
      const ZnUnit unit = picture->unit == ZN_UNIT_ASPECT ? ZN_UNIT_ASPECT : ZN_UNIT_METRE;
      gdouble      x, y;

      zn_picture_resolution (picture, unit, &x, &y);
      png_set_pHYs (codec->png, codec->info, (png_uint_32) CLAMP (x + 0.5, 0, G_MAXINT32),
                    (png_uint_32) CLAMP (y + 0.5, 0, G_MAXINT32),
                    unit == ZN_UNIT_METRE ? PNG_RESOLUTION_METER : PNG_RESOLUTION_UNKNOWN);
    }
  if (picture->xmp)
    {
      gsize    size;
      gpointer data = (gpointer) g_bytes_get_data (picture->xmp, &size);
      gchar   *copy = g_strndup (data, size);
      png_text text = { .compression = PNG_ITXT_COMPRESSION_NONE,
                        .key         = (png_charp) XMP_KEY,
                        .text        = copy,
                        .itxt_length = strlen (copy) };

      png_set_text (codec->png, codec->info, &text, 1);
      g_free (copy);
    }
}

static gboolean
png_save (const ZnPicture *picture, FILE *file, GError **error)
{
  Codec        *codec  = codec_new (TRUE);
  const ZnDepth depth  = picture->depth == ZN_DEPTH_U8 ? ZN_DEPTH_U8 : ZN_DEPTH_U16;
  const Babl   *babl   = zn_picture_babl (picture, depth);
  const gsize   stride = (gsize) picture->width * babl_format_get_bytes_per_pixel (babl);

  if (! codec->png || ! codec->info || setjmp (png_jmpbuf (codec->png)))
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "the PNG file could not be written: %s",
                   codec->why);
      codec_free (codec);
      return FALSE;
    }

  png_init_io (codec->png, file);
  png_set_compression_level (codec->png, LEVEL);
  png_set_IHDR (
      codec->png, codec->info, picture->width, picture->height, depth == ZN_DEPTH_U8 ? 8 : 16,
      (picture->grey ? 0 : PNG_COLOR_MASK_COLOR) | (picture->alpha ? PNG_COLOR_MASK_ALPHA : 0),
      PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  write_notes (codec, picture, picture->format == &zn_format_png);
  png_write_info (codec->png, codec->info);
  if (picture->exif) /* libpng would put it behind the pixels */
    png_write_chunk (codec->png, (png_const_bytep) "eXIf", g_bytes_get_data (picture->exif, NULL),
                     g_bytes_get_size (picture->exif));
  if (depth == ZN_DEPTH_U16 && G_BYTE_ORDER == G_LITTLE_ENDIAN)
    png_set_swap (codec->png);

  codec->pixels = g_try_malloc (stride * STRIP_ROWS);
  if (! codec->pixels)
    png_error (codec->png, "there is not enough memory");
  for (gint y = 0; y < picture->height; y += STRIP_ROWS)
    {
      const gint rows = MIN (STRIP_ROWS, picture->height - y);

      zn_picture_get_rows (picture, depth, y, rows, codec->pixels);
      for (gint i = 0; i < rows; i++)
        png_write_row (codec->png, codec->pixels + stride * i);
    }
  png_write_end (codec->png, NULL);
  codec_free (codec);

  return TRUE;
}

const ZnFormat zn_format_png = {
  .name = "PNG",
  .ends = "png",
  .is   = png_is,
  .load = png_load,
  .save = png_save,
};
