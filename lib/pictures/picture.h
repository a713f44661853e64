/* SPDX-License-Identifier: MIT */
/* picture.h - a picture between two files: pixels, and everything that must not be lost.
 *
 *   file --load--> ZnPicture --(the filter changes .buffer)--> save --> file
 *
 * The decoders are called directly rather than through GEGL's loaders: those end the
 * process on a damaged JPEG file and hand over half a picture with a warning.  Here a
 * file that is cut or damaged is an error, whatever part of it could be read.
 *
 * A format is one file, format-NAME.c, and one entry of the table in picture.c. */

#ifndef __ZENITH_PICTURE_H__
#define __ZENITH_PICTURE_H__

#include <stdio.h>

#include <gegl.h>

#include "budget.h"

#define ZN_HEAD 16 /* bytes that tell a format */

typedef enum
{
  ZN_DEPTH_U8,
  ZN_DEPTH_U16,
  ZN_DEPTH_HALF,
  ZN_DEPTH_FLOAT
} ZnDepth;

typedef enum
{
  ZN_UNIT_ABSENT, /* the file says nothing         */
  ZN_UNIT_ASPECT, /* only the ratio of x to y      */
  ZN_UNIT_INCH,
  ZN_UNIT_CM,
  ZN_UNIT_METRE
} ZnUnit;

typedef struct _ZnPicture ZnPicture;

typedef struct
{
  const gchar *name;     /* "PNG"                       */
  const gchar *ends;     /* of file names: "jpg jpeg"   */
  gboolean     by_exiv2; /* EXIF and XMP are put into a
                                                           finished file by exiv2      */
  gboolean (*is) (const guchar head[ZN_HEAD]);

  /* load() sets the fields below width, calls zn_picture_begin(), then fills buffer.  It charges
   * picture->share for all that the file makes it do, before it is done. */
  gboolean (*load) (ZnPicture *picture, FILE *file, GError **error);
  gboolean (*save) (const ZnPicture *picture, FILE *file, GError **error);
} ZnFormat;

struct _ZnPicture
{
  const ZnFormat *format; /* of the file that it came from; NULL: of none   */
  gint            width, height;
  gboolean        grown; /* by zn_picture_grow(): not of the file's size   */
  gboolean        grey, alpha;
  gboolean        premultiplied;
  ZnDepth         depth;
  const Babl     *space; /* NULL: sRGB                                     */

  GeglBuffer *buffer; /* zn_picture_babl() of its own depth, at 0,0     */

  GBytes *icc;  /* as in the file; NULL: none.  Also the next two */
  GBytes *exif; /* begins with the TIFF header                    */
  GBytes *xmp;  /* a packet                                       */
  ZnUnit  unit;
  gdouble x_resolution, y_resolution;

  gpointer       kept; /* what only its own format can store             */
  GDestroyNotify kept_free;

  ZnShare share; /* what the file may cost, and has cost */
};

extern const ZnFormat zn_format_jpeg;
extern const ZnFormat zn_format_png;
extern const ZnFormat zn_format_tiff;
extern const ZnFormat zn_format_webp;

/* By the end of the name, or by the first bytes; NULL if there is none. */
const ZnFormat *zn_format_by_name (const gchar *name);
const ZnFormat *zn_format_by_content (gint fd);

/* Waits for the budget where the picture is large.  On failure NULL and an error message. */
ZnPicture *zn_picture_load (gint fd, const ZnFormat *format, ZnBudget *budget, GError **error);
void       zn_picture_free (ZnPicture *picture);

/* Whether a file that we wrote can be read again. */
gboolean zn_picture_is_whole (gint fd, const ZnFormat *format, GError **error);

/* A new one, of no file: R'G'B' u8 in sRGB. */
ZnPicture *zn_picture_new (gint width, gint height, ZnBudget *budget, GError **error);

/* Charges for a result that is so many times as wide and high, and takes its size.  Its buffer is to be
 * put in the place of the picture's. */
gboolean zn_picture_grow (ZnPicture *picture, gint scale, GError **error);

/* Writes a file of that format from the descriptor's start.  What the format cannot
 * hold (transparency, float) is an error, but for a smaller depth. */
gboolean zn_picture_save (const ZnPicture *picture,
                          const ZnFormat  *format,
                          gint             fd,
                          GError         **error);

/* FALSE and a message if the file is truncated or damaged; TRUE for files that it cannot read
 * (another format, CMYK). */
gboolean zn_picture_check (const gchar *path, GError **error);

/* ---- for the formats ------------------------------------------------------ */

/* Checks the size, charges for it, waits for the budget, makes the buffer. */
gboolean zn_picture_begin (ZnPicture *picture, GError **error);

/* Charges for that many bytes of metadata. */
gboolean zn_picture_note (ZnPicture *picture, guint64 bytes, GError **error);

/* Charges for exiv2, which compares each with each: the entries of IPTC, which all begin with one
 * byte; the properties and the namespaces of an XMP packet. */
gboolean zn_picture_note_iptc (ZnPicture *picture, const guchar *data, gsize size, GError **error);
gboolean zn_picture_note_xmp (ZnPicture *picture, GError **error);

/* Memory that was charged for; NULL and an error message if there is not enough. */
gpointer zn_picture_alloc (gsize size, GError **error);

/* The bytes of a pixel, and of all. */
gsize   zn_picture_pixel (const ZnPicture *picture);
guint64 zn_picture_bytes (const ZnPicture *picture);

/* The picture's own pixel format, or the same with another depth. */
const Babl *zn_picture_babl (const ZnPicture *picture, ZnDepth depth);

/* Keeps the profile, and sets space if babl understands it. */
void zn_picture_set_icc (ZnPicture *picture, gconstpointer data, gsize size);

/* Rows from y on, of zn_picture_babl (picture, depth). */
void zn_picture_put_rows (const ZnPicture *picture, gint y, gint rows, gconstpointer pixels);
void zn_picture_get_rows (const ZnPicture *picture,
                          ZnDepth          depth,
                          gint             y,
                          gint             rows,
                          gpointer         pixels);

/* The resolution in another unit. */
void zn_picture_resolution (const ZnPicture *picture, ZnUnit unit, gdouble *x, gdouble *y);

/* "The file is cut or damaged: %s". */
void zn_picture_damaged (GError **error, const gchar *why);

#endif
