/* SPDX-License-Identifier: MIT */
/* metadata.c - EXIF, XMP and IPTC, by gexiv2. */

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "directory.h"
#include "gexiv2-any.h"
#include "history.h"
#include "metadata.h"
#include "writer.h"
#include "zenith-settings.h"

#define KEYWORD 80 /* bytes that a chunk of text is known by */

/* Exiv2's XMP toolkit has globals that nothing protects. */
static GMutex lock;

/* Tags that describe the old file's pixels, or pictures other than the first: wrong in the new
 * file. */
static const gchar *const stale[] = {
  "Exif.Image.NewSubfileType",
  "Exif.Image.SubfileType",
  "Exif.Image.ImageWidth",
  "Exif.Image.ImageLength",
  "Exif.Image.BitsPerSample",
  "Exif.Image.Compression",
  "Exif.Image.PhotometricInterpretation",
  "Exif.Image.StripOffsets",
  "Exif.Image.SamplesPerPixel",
  "Exif.Image.RowsPerStrip",
  "Exif.Image.StripByteCounts",
  "Exif.Image.PlanarConfiguration",
  "Exif.Image.Predictor",
  "Exif.Image.ColorMap",
  "Exif.Image.TileWidth",
  "Exif.Image.TileLength",
  "Exif.Image.TileOffsets",
  "Exif.Image.TileByteCounts",
  "Exif.Image.SubIFDs",
  "Exif.Image.ExtraSamples",
  "Exif.Image.SampleFormat",
  "Exif.Image.JPEGTables",
  "Exif.Image.YCbCrSubSampling",
  "Exif.Image.YCbCrPositioning",
  "Exif.Image.ReferenceBlackWhite",
  "Exif.Image.InterColorProfile",
  "Exif.Image.FillOrder",
};

/* Tags with the width and the height of the picture. */
static const gchar *const sizes[][2] = {
  { "Exif.Photo.PixelXDimension", "Exif.Photo.PixelYDimension" },
  { "Xmp.exif.PixelXDimension", "Xmp.exif.PixelYDimension" },
  { "Xmp.tiff.ImageWidth", "Xmp.tiff.ImageLength" },
};

/* Those that are there, for a picture that was enlarged. */
static void
set_sizes (GExiv2Metadata *metadata, const ZnPicture *picture)
{
  for (guint i = 0; picture->grown && i < 2 * G_N_ELEMENTS (sizes); i++)
    {
      const gchar *tag = sizes[i / 2][i % 2];
      gchar        value[16];

      g_snprintf (value, sizeof (value), "%d", i % 2 ? picture->height : picture->width);
      if (gexiv2_metadata_try_has_tag (metadata, tag, NULL)) /* as text: it keeps its type */
        gexiv2_metadata_try_set_tag_string (metadata, tag, value, NULL);
    }
}

static void
ignore_log (GExiv2LogLevel level, const gchar *text)
{
}

void
zn_metadata_init (void)
{
  gexiv2_initialize ();
  gexiv2_log_set_handler (ignore_log);
}

/* exiv2 keeps the namespaces of all packets it has read, and compares each new one with them. */
static void
end (GExiv2Metadata *metadata)
{
  g_object_unref (metadata);
  gexiv2_metadata_try_unregister_all_xmp_namespaces (NULL);
  g_mutex_unlock (&lock);
}

static void
put_chunk (GByteArray *png, const gchar *type, gconstpointer data, gsize size)
{
  const guint32 length = GUINT32_TO_BE ((guint32) size);
  guint         begin;
  guint32       crc;

  g_byte_array_append (png, (const guint8 *) &length, 4);
  begin = png->len;
  g_byte_array_append (png, (const guint8 *) type, 4);
  g_byte_array_append (png, data, (guint) size);
  crc = GUINT32_TO_BE ((guint32) crc32 (0, png->data + begin, png->len - begin));
  g_byte_array_append (png, (const guint8 *) &crc, 4);
}

/* A PNG file of one pixel with the packet and nothing else: all of the picture's file that exiv2
 * needs to see. */
static GByteArray *
packet_file (GBytes *packet)
{
  static const guint8 magic[]  = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };
  static const guint8 header[] = { 0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0 };
  static const guint8 pixel[]  = { 0x78, 0x9c, 0x63, 0, 0, 0, 2, 0, 1 };
  static const gchar  key[]    = "XML:com.adobe.xmp\0\0\0\0"; /* and a fifth NUL */
  GByteArray         *png      = g_byte_array_new ();

  g_byte_array_append (png, magic, sizeof (magic));
  put_chunk (png, "IHDR", header, sizeof (header));
  if (packet)
    {
      GByteArray *text = g_byte_array_new ();

      g_byte_array_append (text, (const guint8 *) key, sizeof (key));
      g_byte_array_append (text, g_bytes_get_data (packet, NULL),
                           (guint) g_bytes_get_size (packet));
      put_chunk (png, "iTXt", text->data, text->len);
      g_byte_array_unref (text);
    }
  put_chunk (png, "IDAT", pixel, sizeof (pixel));
  put_chunk (png, "IEND", NULL, 0);

  return png;
}

gboolean
zn_metadata_mark (ZnPicture *picture, const gchar *settings, GError **error)
{
  GExiv2Metadata *metadata;
  GByteArray     *file;
  gchar          *packet = NULL;
  GError         *failed = NULL;

  if (! zn_picture_note_xmp (picture, &failed))
    {
      if (g_error_matches (failed, ZN_ERROR, ZN_ERROR_CANCELLED))
        {
          g_propagate_error (error, failed);
          return FALSE;
        }
      g_error_free (failed);
      return TRUE;
    }

  file = packet_file (picture->xmp);
  g_mutex_lock (&lock);
  metadata = gexiv2_metadata_new ();

  /* Not if there is a packet that exiv2 does not understand, which would be lost. */
  if (gexiv2_metadata_open_buf (metadata, file->data, file->len, NULL) &&
      (! picture->xmp || gexiv2_metadata_has_xmp (metadata)) &&
      zn_history_add (metadata, settings, NULL))
    {
      set_sizes (metadata, picture);
      packet = gexiv2_metadata_try_generate_xmp_packet (metadata, GEXIV2_USE_COMPACT_FORMAT, 0,
                                                        NULL);
    }
  end (metadata);
  g_byte_array_unref (file);

  if (packet && *packet)
    {
      g_clear_pointer (&picture->xmp, g_bytes_unref);
      picture->xmp = g_bytes_new (packet, strlen (packet));
    }
  g_free (packet);

  return TRUE;
}

/* Whether there was one of that name before: exiv2 would read each. */
static gboolean
is_repeated (GHashTable *seen, const guchar *name, gsize size)
{
  return ! g_hash_table_add (seen, g_strndup ((const gchar *) name, size));
}

/* Renames the chunks of a PNG or WebP file that are there again, so that exiv2 passes over them. */
static void
hide_repeats (guchar *data, gsize size)
{
  const gboolean riff  = size > 12 && ! memcmp (data, "RIFF", 4);
  const gboolean png   = size > 8 && ! memcmp (data + 1, "PNG", 3);
  GHashTable    *seen  = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  guint64        at    = riff ? 12 : 8;
  guint64        bytes = 0;

  for (; (riff || png) && at + 8 <= size; at += riff ? 8 + bytes + (bytes & 1) : 12 + bytes)
    {
      guchar *type = data + at + (riff ? 0 : 4);
      guchar *text = data + at + 8;
      guint32 length;

      memcpy (&length, data + at + (riff ? 4 : 0), 4);
      bytes = riff ? GUINT32_FROM_LE (length) : GUINT32_FROM_BE (length);
      if (bytes > size - at - 8)
        break;
      if (riff || ! memcmp (type, "eXIf", 4)
              ? is_repeated (seen, type, 4)
              : ! memcmp (type + 1, "TXt", 3) && is_repeated (seen, text, MIN (bytes, KEYWORD)))
        memcpy (type, "znZn", 4);
    }
  g_hash_table_unref (seen);
}

/* The whole file, which exiv2 would map otherwise; NULL and an error message. */
static guchar *
read_whole (ZnPicture *picture, gint fd, gsize *size, GError **error)
{
  struct stat info;
  guchar     *data;
  gsize       done = 0;
  gssize      n    = 1;

  if (fstat (fd, &info))
    {
      zn_set_errno (error, errno, "it cannot be read");
      return NULL;
    }
  *size = (gsize) info.st_size;
  if (! zn_share_memory (&picture->share, *size, error) ||
      ! zn_share_work (&picture->share, *size, error))
    return NULL;
  data = zn_picture_alloc (*size, error);
  while (data && done < *size && (n = pread (fd, data + done, *size - done, (off_t) done)) > 0)
    done += (gsize) n;
  if (data && done < *size)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "the file changed while it was read");
      g_clear_pointer (&data, g_free);
    }

  return data;
}

static gboolean
transfer (GExiv2Metadata  *metadata,
          const ZnPicture *picture,
          const guchar    *data,
          gsize            size,
          gint             to,
          const gchar     *settings,
          GError         **error)
{
  gchar **tags;
  gchar   path[64];

  if (! gexiv2_metadata_open_buf (metadata, data, (glong) size, error))
    return FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (stale); i++)
    gexiv2_metadata_try_clear_tag (metadata, stale[i], NULL);
  tags = gexiv2_metadata_get_exif_tags (metadata);
  for (guint i = 0; tags && tags[i]; i++)
    if (g_str_has_prefix (tags[i], "Exif.SubImage") ||
        g_str_has_prefix (tags[i], "Exif.Thumbnail") || g_str_has_prefix (tags[i], "Exif.Image2") ||
        g_str_has_prefix (tags[i], "Exif.Image3"))
      gexiv2_metadata_try_clear_tag (metadata, tags[i], NULL);
  g_strfreev (tags);
  set_sizes (metadata, picture);

  if (! zn_history_add (metadata, settings, error))
    return FALSE;
  g_snprintf (path, sizeof (path), "/proc/self/fd/%d", to); /* ours: nobody can cut it */

  return gexiv2_metadata_save_file (metadata, path, error);
}

gboolean
zn_metadata_charge (ZnPicture *picture, GError **error)
{
  return zn_picture_note_xmp (picture, error) &&
         (! picture->exif || zn_directories_of_block (picture, picture->exif, error));
}

gboolean
zn_metadata_transfer (ZnPicture *picture, gint from, gint to, const gchar *settings, GError **error)
{
  GExiv2Metadata *metadata;
  gsize           size;
  guchar         *data = read_whole (picture, from, &size, error);
  gboolean        ok   = data != NULL;

  if (ok)
    {
      hide_repeats (data, size);
      g_mutex_lock (&lock);
      metadata = gexiv2_metadata_new ();
      ok       = transfer (metadata, picture, data, size, to, settings, error);
      end (metadata);
      g_free (data);
    }
  if (! ok)
    g_prefix_error (error, "its metadata could not be kept: ");

  return ok;
}
