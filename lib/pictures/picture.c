/* SPDX-License-Identifier: MIT */
/* picture.c - what the formats share, and the table of them. */

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "picture.h"
#include "pictures-config.h"
#include "zenith-open.h"
#include "zenith-pixels.h"
#include "zenith-settings.h"

#define MAX_SIDE (1 << 20) /* pixels; as the operations have it   */
#define MAX_AREA ((gint64) 1 << 30)
#define TILE_WIDTH 128 /* of GEGL's buffers: a narrow picture takes whole ones */
#define TILE_HEIGHT 64

#define SPACES_MAX 24 /* beside sRGB, in a process */

#define IPTC_MARK 0x1c
#define IPTC_COST 8
#define XMP_COST 32
#define SPACE_COST 512

static const ZnFormat *const formats[] = {
  &zn_format_jpeg,
  &zn_format_png,
  &zn_format_tiff,
#ifdef HAVE_WEBP
  &zn_format_webp,
#endif
};

/* ---- formats -------------------------------------------------------------- */

const ZnFormat *
zn_format_by_name (const gchar *name)
{
  const gchar *dot = strrchr (name, '.');

  for (guint i = 0; dot && i < G_N_ELEMENTS (formats); i++)
    {
      gchar  **ends  = g_strsplit (formats[i]->ends, " ", -1);
      gboolean found = FALSE;

      for (guint j = 0; ends[j]; j++)
        found |= ! g_ascii_strcasecmp (dot + 1, ends[j]);
      g_strfreev (ends);

      if (found)
        return formats[i];
    }

  return NULL;
}

const ZnFormat *
zn_format_by_content (gint fd)
{
  guchar head[ZN_HEAD] = {
    0,
  };

  if (pread (fd, head, sizeof (head), 0) < 4)
    return NULL;

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    if (formats[i]->is (head))
      return formats[i];

  return NULL;
}

/* ---- a picture ------------------------------------------------------------ */

void
zn_picture_damaged (GError **error, const gchar *why)
{
  g_set_error (error, ZN_ERROR, ZN_ERROR_DAMAGED, "the file is cut or damaged: %s", why);
}

const Babl *
zn_picture_babl (const ZnPicture *picture, ZnDepth depth)
{
  static const gchar *const type[]  = { "u8", "u16", "half", "float" };
  static const gchar *const model[] = { "R'G'B'", "R'G'B'A", "R'aG'aB'aA", "Y'", "Y'A", "Y'aA" };
  gint  which = (picture->grey ? 3 : 0) + (picture->alpha ? 1 + picture->premultiplied : 0);
  gchar name[32];

  g_snprintf (name, sizeof (name), "%s %s", model[which], type[depth]);

  return babl_format_with_space (name, picture->space);
}

gsize
zn_picture_pixel (const ZnPicture *picture)
{
  return (gsize) babl_format_get_bytes_per_pixel (zn_picture_babl (picture, picture->depth));
}

guint64
zn_picture_bytes (const ZnPicture *picture)
{
  return (guint64) picture->width * (guint64) picture->height * zn_picture_pixel (picture);
}

gpointer
zn_picture_alloc (gsize size, GError **error)
{
  gpointer data = g_try_malloc0 (MAX (size, 1));

  if (! data)
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "there is not enough memory for it");

  return data;
}

gboolean
zn_picture_note (ZnPicture *picture, guint64 bytes, GError **error)
{
  return zn_share_memory (&picture->share, bytes * ZN_NOTES, error) &&
         zn_share_work (&picture->share, bytes + ZN_ITEM, error);
}

/* n of them, each compared with each: the cost of a comparison, in nanoseconds, was measured. */
static gboolean
charge_pairs (ZnPicture *picture, guint64 n, guint cost, GError **error)
{
  return zn_share_work (&picture->share, MIN (n, G_MAXUINT32) * MIN (n, G_MAXUINT32) / 2 * cost,
                        error);
}

gboolean
zn_picture_note_iptc (ZnPicture *picture, const guchar *data, gsize size, GError **error)
{
  guint64 n = 0;

  for (gsize i = 0; i < size; i++)
    n += data[i] == IPTC_MARK;

  return charge_pairs (picture, n, IPTC_COST, error);
}

gboolean
zn_picture_note_xmp (ZnPicture *picture, GError **error)
{
  gsize         size       = 0;
  const guchar *text       = picture->xmp ? g_bytes_get_data (picture->xmp, &size) : NULL;
  guint64       properties = 0, spaces = 0;

  for (gsize i = 0; i + 6 < size; i++)
    if (text[i] == '=' ||
        (text[i] == '<' && text[i + 1] != '/' && memcmp (text + i + 1, "rdf:", 4)))
      properties++;
    else if (text[i] == 'x' && ! memcmp (text + i, "xmlns", 5))
      spaces++;

  return charge_pairs (picture, properties, XMP_COST, error) &&
         charge_pairs (picture, spaces, SPACE_COST, error);
}

/* babl converts between all spaces that it has seen, and its search for a conversion takes longer
 * with each.  It forgets none, so a process reads pictures of so many. */
static gboolean
count_space (const ZnPicture *picture, GError **error)
{
  static const Babl *seen[SPACES_MAX];
  static guint       n;
  static GMutex      lock;
  guint              i = 0;

  if (! picture->space)
    return TRUE;

  g_mutex_lock (&lock);
  while (i < n && seen[i] != picture->space)
    i++;
  if (i < SPACES_MAX)
    {
      seen[i] = picture->space;
      n       = MAX (n, i + 1);
    }
  g_mutex_unlock (&lock);

  if (i == SPACES_MAX)
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
                 "this run has %d other colour profiles already; run it again for this one",
                 SPACES_MAX);

  return i < SPACES_MAX;
}

static gboolean
check_size (gint64 width, gint64 height, GError **error)
{
  if (width >= 1 && height >= 1 && width <= MAX_SIDE && height <= MAX_SIDE &&
      width * height <= MAX_AREA)
    return TRUE;
  g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
               "a picture of %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT " pixels is too large",
               width, height);

  return FALSE;
}

/* Of its buffer: whole tiles. */
static guint64
buffer_bytes (const ZnPicture *picture)
{
  const guint64 tiles = (guint64) ((picture->width + TILE_WIDTH - 1) / TILE_WIDTH) *
                        (guint64) ((picture->height + TILE_HEIGHT - 1) / TILE_HEIGHT);

  return tiles * TILE_WIDTH * TILE_HEIGHT * zn_picture_pixel (picture);
}

gboolean
zn_picture_grow (ZnPicture *picture, gint scale, GError **error)
{
  if (! check_size ((gint64) picture->width * scale, (gint64) picture->height * scale, error))
    return FALSE;
  picture->width *= scale;
  picture->height *= scale;
  if (zn_share_memory (&picture->share, 2 * buffer_bytes (picture), error) && /* and the file */
      zn_share_work (&picture->share, zn_picture_bytes (picture), error))
    {
      picture->grown = TRUE;
      return TRUE;
    }
  g_prefix_error (error, "a result of %d x %d pixels: ", picture->width, picture->height);

  return FALSE;
}

gboolean
zn_picture_begin (ZnPicture *picture, GError **error)
{
  if (! check_size (picture->width, picture->height, error) || ! count_space (picture, error))
    return FALSE;

  if (! zn_share_memory (&picture->share, buffer_bytes (picture) * ZN_COPIES, error) ||
      ! zn_share_work (&picture->share, zn_picture_bytes (picture), error) ||
      ! zn_share_wait (&picture->share, error))
    {
      g_prefix_error (error, "%d x %d pixels: ", picture->width, picture->height);
      return FALSE;
    }
  picture->buffer = gegl_buffer_new (GEGL_RECTANGLE (0, 0, picture->width, picture->height),
                                     zn_picture_babl (picture, picture->depth));

  return TRUE;
}

/* The lightness of the primaries adds up to that of white: of a profile that says otherwise grey would become black. */
static gboolean
has_white (const Babl *space)
{
  gdouble r, g, b;

  babl_space_get_rgb_luminance (space, &r, &g, &b);

  return ABS (r + g + b - 1.0) < 0.05 && ABS (r) < 4.0 && ABS (g) < 4.0;
}

void
zn_picture_set_icc (ZnPicture *picture, gconstpointer data, gsize size)
{
  const char *why = NULL;

  if (! data || ! size || size > G_MAXINT)
    return;

  g_clear_pointer (&picture->icc, g_bytes_unref);
  picture->icc   = g_bytes_new (data, size);
  picture->space = babl_space_from_icc (data, (int) size, BABL_ICC_INTENT_RELATIVE_COLORIMETRIC,
                                        &why);
  if (why ||
      (picture->space && (babl_space_is_cmyk (picture->space) || ! has_white (picture->space))))
    picture->space = NULL; /* the numbers stay what they are: only the network sees
                                  them as sRGB */
}

void
zn_picture_put_rows (const ZnPicture *picture, gint y, gint rows, gconstpointer pixels)
{
  gegl_buffer_set (picture->buffer, GEGL_RECTANGLE (0, y, picture->width, rows), 0,
                   zn_picture_babl (picture, picture->depth), pixels, GEGL_AUTO_ROWSTRIDE);
}

void
zn_picture_get_rows (const ZnPicture *picture, ZnDepth depth, gint y, gint rows, gpointer pixels)
{
  zn_pixels_get (picture->buffer, GEGL_RECTANGLE (0, y, picture->width, rows),
                 zn_picture_babl (picture, depth), pixels);
}

void
zn_picture_resolution (const ZnPicture *picture, ZnUnit unit, gdouble *x, gdouble *y)
{
  static const gdouble per_metre[] = {
    [ZN_UNIT_INCH] = 1.0 / 0.0254, [ZN_UNIT_CM] = 100.0, [ZN_UNIT_METRE] = 1.0
  };
  gdouble scale = 1.0;

  if (picture->unit >= ZN_UNIT_INCH && unit >= ZN_UNIT_INCH && picture->unit != unit)
    scale = per_metre[picture->unit] / per_metre[unit];

  *x = picture->x_resolution * scale;
  *y = picture->y_resolution * scale;
}

/* A stream of its own on the same open file, at its start. */
static FILE *
open_stream (gint fd, const gchar *mode, GError **error)
{
  gint  copy = dup (fd);
  FILE *file = copy < 0 ? NULL : fdopen (copy, mode);

  if (! file || fseek (file, 0, SEEK_SET))
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s", g_strerror (errno));
      if (file)
        fclose (file);
      else if (copy >= 0)
        close (copy);
      return NULL;
    }

  return file;
}

/* size: of the file, as zn_share_begin() has it. */
static ZnPicture *
load (gint fd, const ZnFormat *format, ZnBudget *budget, guint64 size, GError **error)
{
  FILE      *file = open_stream (fd, "rb", error);
  ZnPicture *picture;

  if (! file)
    return NULL;

  picture         = g_new0 (ZnPicture, 1);
  picture->format = format;
  zn_share_begin (&picture->share, budget, size);

  if (! format->load (picture, file, error))
    g_clear_pointer (&picture, zn_picture_free);
  fclose (file);

  return picture;
}

ZnPicture *
zn_picture_load (gint fd, const ZnFormat *format, ZnBudget *budget, GError **error)
{
  struct stat info;

  return load (fd, format, budget, fstat (fd, &info) ? 0 : (guint64) info.st_size, error);
}

gboolean
zn_picture_is_whole (gint fd, const ZnFormat *format, GError **error)
{
  ZnPicture *picture = load (fd, format, NULL, G_MAXUINT64, error);

  if (! picture)
    return FALSE;
  zn_picture_free (picture);

  return TRUE;
}

ZnPicture *
zn_picture_new (gint width, gint height, ZnBudget *budget, GError **error)
{
  ZnPicture *picture = g_new0 (ZnPicture, 1);

  zn_share_begin (&picture->share, budget, G_MAXUINT64);
  picture->width  = width;
  picture->height = height;
  if (! zn_picture_begin (picture, error))
    g_clear_pointer (&picture, zn_picture_free);

  return picture;
}

void
zn_picture_free (ZnPicture *picture)
{
  if (! picture)
    return;

  g_clear_object (&picture->buffer);
  g_clear_pointer (&picture->icc, g_bytes_unref);
  g_clear_pointer (&picture->exif, g_bytes_unref);
  g_clear_pointer (&picture->xmp, g_bytes_unref);
  if (picture->kept)
    picture->kept_free (picture->kept);
  zn_share_end (&picture->share);
  g_free (picture);
}

gboolean
zn_picture_save (const ZnPicture *picture, const ZnFormat *format, gint fd, GError **error)
{
  FILE     *file  = open_stream (fd, "r+b", error);
  ZnPicture given = *picture;
  gboolean  ok;

  if (! file)
    return FALSE;

  given.premultiplied &= format == picture->format;
  ok = format->save (&given, file, error);
  if (ok && (fflush (file) || ferror (file)))
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s", g_strerror (errno));
      ok = FALSE;
    }
  fclose (file);

  return ok;
}

gboolean
zn_picture_check (const gchar *path, GError **error)
{
  gint            fd     = zn_open_input (path, NULL);
  const ZnFormat *format = fd < 0 ? NULL : zn_format_by_content (fd);
  GError         *failed = NULL;
  ZnBudget        budget;

  if (fd < 0)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "'%s': %s", path,
                   errno ? g_strerror (errno) : "not a regular file");
      return FALSE;
    }

  zn_budget_init (&budget);
  if (format)
    zn_picture_free (zn_picture_load (fd, format, &budget, &failed));
  close (fd);

  if (g_error_matches (failed, ZN_ERROR, ZN_ERROR_DAMAGED))
    {
      g_propagate_error (error, failed);
      return FALSE;
    }
  g_clear_error (&failed);

  return TRUE;
}
