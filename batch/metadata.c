/* SPDX-License-Identifier: MIT */
/* metadata.c - EXIF, XMP and IPTC, by gexiv2. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gexiv2/gexiv2.h>

#include "history.h"
#include "metadata.h"
#include "zenith-settings.h"

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

static void
path_of (gchar path[64], gint fd)
{
  g_snprintf (path, 64, "/proc/self/fd/%d", fd);
}

void
zn_metadata_mark (ZnPicture *picture, gint fd, const gchar *settings)
{
  GExiv2Metadata *metadata;
  gchar          *packet = NULL;
  gchar           path[64];
  gboolean        found;

  g_mutex_lock (&lock);
  metadata = gexiv2_metadata_new ();
  path_of (path, fd);
  found = gexiv2_metadata_open_path (metadata, path, NULL);

  /* Not if there is a packet that exiv2 does not see, which would be lost; nor in a file that it
   * cannot read, because metadata belongs to a file. */
  if (found && (! picture->xmp || gexiv2_metadata_has_xmp (metadata)))
    {
      if (zn_history_add (metadata, settings, NULL))
        packet = gexiv2_metadata_try_generate_xmp_packet (metadata, GEXIV2_USE_COMPACT_FORMAT, 0,
                                                          NULL);
    }
  g_object_unref (metadata);
  g_mutex_unlock (&lock);

  if (packet && *packet)
    {
      g_clear_pointer (&picture->xmp, g_bytes_unref);
      picture->xmp = g_bytes_new (packet, strlen (packet));
    }
  g_free (packet);
}

static gboolean
transfer (GExiv2Metadata *metadata, gint from, gint to, const gchar *settings, GError **error)
{
  gchar **tags;
  gchar   path[64];

  path_of (path, from);
  if (! gexiv2_metadata_open_path (metadata, path, error))
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

  if (! zn_history_add (metadata, settings, error))
    return FALSE;
  path_of (path, to);

  return gexiv2_metadata_save_file (metadata, path, error);
}

gboolean
zn_metadata_transfer (gint from, gint to, const gchar *settings, GError **error)
{
  GExiv2Metadata *metadata;
  gboolean        ok;

  g_mutex_lock (&lock);
  metadata = gexiv2_metadata_new ();
  ok       = transfer (metadata, from, to, settings, error);
  g_object_unref (metadata);
  g_mutex_unlock (&lock);

  if (! ok)
    g_prefix_error (error, "its metadata could not be kept: ");

  return ok;
}
