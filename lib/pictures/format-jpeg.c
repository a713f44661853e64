/* SPDX-License-Identifier: MIT */
/* format-jpeg.c - JPEG files: grey and colour, 8 bits.
 *
 * The markers with EXIF, XMP, IPTC, profile and comments go to the output byte by byte.
 * So do sampling factors, and whether the file is progressive.  Quality is QUALITY, or
 * the input's own tables where those are finer. */

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "picture.h"
#include "zenith-settings.h"

#define QUALITY 95
#define STRIP_ROWS 16
#define MARKER_MAX 65533 /* bytes that one holds */
#define READ 4096        /* bytes at a time */
#define STEP 64 /* bytes of work to go past one marker: libjpeg goes past all to add another */

static const gchar exif_name[]     = "Exif\0"; /* two NULs with the end's */
static const gchar xmp_name[]      = "http://ns.adobe.com/xap/1.0/";
static const gchar extended_name[] = "http://ns.adobe.com/xmp/extension/";

typedef struct
{
  struct jpeg_error_mgr manager; /* first: libjpeg knows this one */
  jmp_buf               jump;
  gchar                 why[JMSG_LENGTH_MAX];
  GError               *error; /* of ours: instead of why */
} Trouble;

typedef struct
{
  struct jpeg_decompress_struct jpeg;
  Trouble                       trouble;
  guchar                       *pixels;

  struct jpeg_source_mgr source;
  FILE                  *file;
  guchar                 bytes[READ];

  struct jpeg_progress_mgr progress;
  ZnPicture               *picture;
  gint                     scans; /* that were charged for */
  jpeg_saved_marker_ptr    last;  /* the same */
  guint                    n_markers;
} Decoder;

typedef struct
{
  struct jpeg_compress_struct jpeg;
  Trouble                     trouble;
  guchar                     *pixels;
} Encoder;

static G_NORETURN void
on_error (j_common_ptr jpeg)
{
  Trouble *trouble = (Trouble *) jpeg->err;

  jpeg->err->format_message (jpeg, trouble->why);
  longjmp (trouble->jump, 1);
}

/* Where data is missing, libjpeg warns and continues with grey: here that is an error.  Extra bytes
 * between two markers are harmless. */
static void
on_message (j_common_ptr jpeg, int level)
{
  if (level < 0 && jpeg->err->msg_code != JWRN_EXTRANEOUS_DATA &&
      jpeg->err->msg_code != JWRN_ADOBE_XFORM)
    on_error (jpeg);
}

static G_NORETURN void
give_up (Trouble *trouble)
{
  longjmp (trouble->jump, 1);
}

static struct jpeg_error_mgr *
trouble_init (Trouble *trouble)
{
  jpeg_std_error (&trouble->manager);
  trouble->manager.error_exit   = on_error;
  trouble->manager.emit_message = on_message;

  return &trouble->manager;
}

static gboolean
jpeg_is (const guchar head[ZN_HEAD])
{
  return head[0] == 0xff && head[1] == 0xd8 && head[2] == 0xff;
}

/* ---- where the bytes come from -------------------------------------------- */

static void
source_begin (j_decompress_ptr jpeg)
{
}

/* Charges for the markers that were kept since the last call. */
static void
charge_markers (Decoder *decoder)
{
  ZnPicture            *picture = decoder->picture;
  jpeg_saved_marker_ptr m       = decoder->last ? decoder->last->next : decoder->jpeg.marker_list;

  for (; m; m = m->next)
    {
      decoder->last = m;
      if (! zn_picture_note (picture, m->data_length, &decoder->trouble.error) ||
          (m->marker == JPEG_APP0 + 13 &&
           ! zn_picture_note_iptc (picture, m->data, m->data_length, &decoder->trouble.error)) ||
          ! zn_share_work (&picture->share, (guint64) decoder->n_markers++ * STEP,
                           &decoder->trouble.error))
        give_up (&decoder->trouble);
    }
}

static boolean
source_fill (j_decompress_ptr jpeg)
{
  Decoder *decoder = jpeg->client_data;
  gsize    n       = fread (decoder->bytes, 1, READ, decoder->file);

  charge_markers (decoder);
  if (! zn_share_work (&decoder->picture->share, n, &decoder->trouble.error))
    give_up (&decoder->trouble);
  if (! n)
    {
      jpeg->err->msg_code = JWRN_JPEG_EOF;
      on_error ((j_common_ptr) jpeg);
    }
  jpeg->src->next_input_byte = decoder->bytes;
  jpeg->src->bytes_in_buffer = n;

  return TRUE;
}

static void
source_skip (j_decompress_ptr jpeg, long n)
{
  while (n > (long) jpeg->src->bytes_in_buffer)
    {
      n -= (long) jpeg->src->bytes_in_buffer;
      source_fill (jpeg);
    }
  if (n > 0)
    {
      jpeg->src->next_input_byte += n;
      jpeg->src->bytes_in_buffer -= (size_t) n;
    }
}

/* Called before each row of blocks of each pass of a file with several: a pass goes over all blocks
 * of its components, however few bytes it has. */
static void
on_progress (j_common_ptr common)
{
  j_decompress_ptr jpeg    = (j_decompress_ptr) common;
  Decoder         *decoder = jpeg->client_data;
  guint64          samples = 0;

  if (jpeg->input_scan_number > decoder->scans)
    {
      decoder->scans = jpeg->input_scan_number;
      for (gint i = 0; i < jpeg->comps_in_scan; i++)
        samples += (guint64) jpeg->cur_comp_info[i]->width_in_blocks *
                   jpeg->cur_comp_info[i]->height_in_blocks * DCTSIZE2;
    }
  if (! zn_share_work (&decoder->picture->share, samples, &decoder->trouble.error))
    give_up (&decoder->trouble);
}

static void
source_init (Decoder *decoder, ZnPicture *picture, FILE *file)
{
  decoder->picture = picture;
  decoder->file    = file;
  decoder->source  = (struct jpeg_source_mgr){ .init_source       = source_begin,
                                               .fill_input_buffer = source_fill,
                                               .skip_input_data   = source_skip,
                                               .resync_to_restart = jpeg_resync_to_restart,
                                               .term_source       = source_begin };

  decoder->progress.progress_monitor = on_progress;
  decoder->jpeg.client_data          = decoder;
  decoder->jpeg.src                  = &decoder->source;
  decoder->jpeg.progress             = &decoder->progress;
}

/* ---- reading -------------------------------------------------------------- */

static void
decoder_free (gpointer data)
{
  Decoder *decoder = data;

  jpeg_destroy_decompress (&decoder->jpeg);
  g_free (decoder->pixels);
  g_free (decoder);
}

/* Whether a marker begins with that name, NUL included. */
static gboolean
is_named (const struct jpeg_marker_struct *marker, gint code, const gchar *name, gsize size)
{
  return marker->marker == code && marker->data_length > size &&
         ! memcmp (marker->data, name, size);
}

static gboolean
is_exif (const struct jpeg_marker_struct *marker)
{
  return is_named (marker, JPEG_APP0 + 1, exif_name, sizeof (exif_name));
}

static gboolean
is_xmp (const struct jpeg_marker_struct *marker)
{
  return is_named (marker, JPEG_APP0 + 1, xmp_name, sizeof (xmp_name));
}

/* What is copied as it is: extended XMP, Photoshop's resources with IPTC, comments. */
static gboolean
is_other (const struct jpeg_marker_struct *marker)
{
  return is_named (marker, JPEG_APP0 + 1, extended_name, sizeof (extended_name)) ||
         marker->marker == JPEG_APP0 + 13 || marker->marker == JPEG_COM;
}

static void
read_notes (Decoder *decoder, ZnPicture *picture)
{
  static const ZnUnit units[] = { ZN_UNIT_ASPECT, ZN_UNIT_INCH, ZN_UNIT_CM };
  JOCTET             *profile;
  unsigned int        size;

  for (jpeg_saved_marker_ptr m = decoder->jpeg.marker_list; m; m = m->next)
    if (is_exif (m) && ! picture->exif)
      picture->exif = g_bytes_new (m->data + sizeof (exif_name),
                                   m->data_length - sizeof (exif_name));
    else if (is_xmp (m) && ! picture->xmp)
      picture->xmp = g_bytes_new (m->data + sizeof (xmp_name), m->data_length - sizeof (xmp_name));

  if (jpeg_read_icc_profile (&decoder->jpeg, &profile, &size))
    {
      zn_picture_set_icc (picture, profile, size);
      free (profile);
    }
  if (decoder->jpeg.saw_JFIF_marker && decoder->jpeg.density_unit < G_N_ELEMENTS (units))
    {
      picture->unit         = units[decoder->jpeg.density_unit];
      picture->x_resolution = decoder->jpeg.X_density;
      picture->y_resolution = decoder->jpeg.Y_density;
    }
}

/* A file with several passes is decoded from all its coefficients, of two bytes each. */
static gboolean
charge_coefficients (const struct jpeg_decompress_struct *jpeg, ZnPicture *picture, GError **error)
{
  guint64 n = 0;

  for (gint i = 0; i < jpeg->num_components; i++)
    n += (guint64) jpeg->comp_info[i].width_in_blocks * jpeg->comp_info[i].height_in_blocks;

  return zn_share_memory (&picture->share, n * DCTSIZE2 * sizeof (JCOEF), error);
}

static gboolean
read_all (Decoder *decoder, ZnPicture *picture, GError **error)
{
  struct jpeg_decompress_struct *jpeg = &decoder->jpeg;
  gsize                          stride;

  jpeg_save_markers (jpeg, JPEG_COM, 0xffff);
  jpeg_save_markers (jpeg, JPEG_APP0 + 1, 0xffff);
  jpeg_save_markers (jpeg, JPEG_APP0 + 2, 0xffff);
  jpeg_save_markers (jpeg, JPEG_APP0 + 13, 0xffff);
  jpeg_read_header (jpeg, TRUE);
  charge_markers (decoder);

  if (jpeg->out_color_space != JCS_GRAYSCALE && jpeg->out_color_space != JCS_RGB)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
                   "its colours are CMYK: convert it to RGB first");
      return FALSE;
    }
  picture->width  = (gint) jpeg->image_width;
  picture->height = (gint) jpeg->image_height;
  picture->grey   = jpeg->out_color_space == JCS_GRAYSCALE;
  picture->depth  = ZN_DEPTH_U8;
  if (jpeg_has_multiple_scans (jpeg) && ! charge_coefficients (jpeg, picture, error))
    return FALSE;
  read_notes (decoder, picture);
  if (! zn_picture_begin (picture, error))
    return FALSE;

  jpeg->dct_method = JDCT_ISLOW; /* the same bits everywhere */
  jpeg_start_decompress (jpeg);
  stride          = (gsize) jpeg->output_width * jpeg->output_components;
  decoder->pixels = zn_picture_alloc (stride * STRIP_ROWS, error);
  if (! decoder->pixels)
    return FALSE;
  for (gint y = 0; y < picture->height;)
    {
      gint rows = MIN (STRIP_ROWS, picture->height - y);

      if (! zn_share_work (&picture->share, 0, error))
        return FALSE;
      for (gint i = 0; i < rows; i++)
        {
          JSAMPROW row = decoder->pixels + stride * i;

          jpeg_read_scanlines (jpeg, &row, 1);
        }
      zn_picture_put_rows (picture, y, rows, decoder->pixels);
      y += rows;
    }
  /* Not jpeg_finish_decompress(): it would forget the markers and tables. */
  while (! jpeg_input_complete (jpeg))
    if (jpeg_consume_input (jpeg) == JPEG_SUSPENDED)
      break;

  return TRUE;
}

static gboolean
jpeg_load (ZnPicture *picture, FILE *file, GError **error)
{
  Decoder *decoder = g_new0 (Decoder, 1);

  picture->kept      = decoder;
  picture->kept_free = decoder_free;

  decoder->jpeg.err = trouble_init (&decoder->trouble);
  if (setjmp (decoder->trouble.jump))
    {
      if (decoder->trouble.error)
        g_propagate_error (error, g_steal_pointer (&decoder->trouble.error));
      else
        zn_picture_damaged (error, decoder->trouble.why);
      return FALSE;
    }
  jpeg_create_decompress (&decoder->jpeg);
  source_init (decoder, picture, file);

  return read_all (decoder, picture, error);
}

/* ---- writing -------------------------------------------------------------- */

static guint
table_sum (JQUANT_TBL *const *tables)
{
  guint sum = 0;

  for (gint i = 0; tables[0] && i < DCTSIZE2; i++)
    sum += tables[0]->quantval[i];

  return sum;
}

/* The finer of both steps.  A 0, which a file must not have, is no step: dividing by it traps. */
static void
set_finer (JQUANT_TBL *to, const JQUANT_TBL *from)
{
  for (gint i = 0; i < DCTSIZE2; i++)
    if (from->quantval[i])
      to->quantval[i] = MIN (from->quantval[i], to->quantval[i]);
}

/* Quality, sampling and the rest, as the input had them. */
static void
set_coding (struct jpeg_compress_struct *to, const struct jpeg_decompress_struct *from)
{
  if (! from)
    return;

  if (from->jpeg_color_space == JCS_RGB)
    jpeg_set_colorspace (to, JCS_RGB);
  if (from->num_components == to->num_components)
    for (gint i = 0; i < to->num_components; i++)
      {
        to->comp_info[i].h_samp_factor = from->comp_info[i].h_samp_factor;
        to->comp_info[i].v_samp_factor = from->comp_info[i].v_samp_factor;
      }

  if (table_sum (from->quant_tbl_ptrs) &&
      table_sum (from->quant_tbl_ptrs) < table_sum (to->quant_tbl_ptrs))
    for (gint i = 0; i < 2; i++)
      if (from->quant_tbl_ptrs[i])
        set_finer (to->quant_tbl_ptrs[i], from->quant_tbl_ptrs[i]);
  if (from->progressive_mode)
    jpeg_simple_progression (to);
  to->write_JFIF_header = from->saw_JFIF_marker && from->jpeg_color_space != JCS_RGB;
}

static void
set_density (struct jpeg_compress_struct *jpeg, const ZnPicture *picture)
{
  ZnUnit  unit = picture->unit == ZN_UNIT_METRE ? ZN_UNIT_INCH : picture->unit;
  gdouble x, y;

  if (! unit)
    return;

  zn_picture_resolution (picture, unit, &x, &y);
  jpeg->density_unit = unit == ZN_UNIT_INCH ? 1 : unit == ZN_UNIT_CM ? 2 : 0;
  jpeg->X_density    = (UINT16) CLAMP (x + 0.5, 1, 65535);
  jpeg->Y_density    = (UINT16) CLAMP (y + 0.5, 1, 65535);
}

/* name, its NUL, data. */
static void
write_named (struct jpeg_compress_struct *jpeg, const gchar *name, gsize name_size, GBytes *bytes)
{
  gsize         size;
  const guchar *data = g_bytes_get_data (bytes, &size);

  if (name_size + size > MARKER_MAX)
    {
      g_snprintf (((Trouble *) jpeg->err)->why, JMSG_LENGTH_MAX,
                  "its metadata are larger than a JPEG file can hold");
      give_up ((Trouble *) jpeg->err);
    }

  jpeg_write_m_header (jpeg, JPEG_APP0 + 1, (unsigned int) (name_size + size));
  for (gsize i = 0; i < name_size; i++)
    jpeg_write_m_byte (jpeg, (guchar) name[i]);
  for (gsize i = 0; i < size; i++)
    jpeg_write_m_byte (jpeg, data[i]);
}

static void
write_notes (struct jpeg_compress_struct         *jpeg,
             const struct jpeg_decompress_struct *from,
             const ZnPicture                     *picture)
{
  if (picture->exif)
    write_named (jpeg, exif_name, sizeof (exif_name), picture->exif);
  if (picture->xmp)
    write_named (jpeg, xmp_name, sizeof (xmp_name), picture->xmp);
  for (jpeg_saved_marker_ptr m = from ? from->marker_list : NULL; m; m = m->next)
    if (is_other (m))
      jpeg_write_marker (jpeg, m->marker, m->data, m->data_length);
  if (picture->icc)
    jpeg_write_icc_profile (jpeg, g_bytes_get_data (picture->icc, NULL),
                            (unsigned int) g_bytes_get_size (picture->icc));
}

static void
write_all (Encoder *encoder, const ZnPicture *picture, FILE *file)
{
  struct jpeg_compress_struct         *jpeg   = &encoder->jpeg;
  const Decoder                       *kept   = picture->kept;
  const struct jpeg_decompress_struct *from   = NULL;
  const gsize                          stride = (gsize) picture->width * (picture->grey ? 1 : 3);

  if (picture->format == &zn_format_jpeg)
    from = &kept->jpeg;

  jpeg_create_compress (jpeg);
  jpeg_stdio_dest (jpeg, file);
  jpeg->image_width      = picture->width;
  jpeg->image_height     = picture->height;
  jpeg->input_components = picture->grey ? 1 : 3;
  jpeg->in_color_space   = picture->grey ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults (jpeg);
  jpeg_set_quality (jpeg, QUALITY, TRUE);
  jpeg->optimize_coding = TRUE;
  jpeg->dct_method      = JDCT_ISLOW;
  set_coding (jpeg, from);
  set_density (jpeg, picture);

  jpeg_start_compress (jpeg, TRUE);
  write_notes (jpeg, from, picture);
  encoder->pixels = zn_picture_alloc (stride * STRIP_ROWS, &encoder->trouble.error);
  if (! encoder->pixels)
    give_up (&encoder->trouble);
  for (gint y = 0; y < picture->height; y += STRIP_ROWS)
    {
      const gint rows = MIN (STRIP_ROWS, picture->height - y);

      zn_picture_get_rows (picture, ZN_DEPTH_U8, y, rows, encoder->pixels);
      for (gint i = 0; i < rows; i++)
        {
          JSAMPROW row = encoder->pixels + stride * i;

          jpeg_write_scanlines (jpeg, &row, 1);
        }
    }
  jpeg_finish_compress (jpeg);
}

static gboolean
jpeg_save (const ZnPicture *picture, FILE *file, GError **error)
{
  Encoder          *encoder;
  volatile gboolean ok = FALSE; /* longjmp() leaves it alone */

  if (picture->alpha)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "a JPEG file cannot be transparent");
      return FALSE;
    }

  encoder           = g_new0 (Encoder, 1);
  encoder->jpeg.err = trouble_init (&encoder->trouble);
  if (setjmp (encoder->trouble.jump))
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "the JPEG file could not be written: %s",
                   encoder->trouble.error ? encoder->trouble.error->message : encoder->trouble.why);
      g_clear_error (&encoder->trouble.error);
    }
  else
    {
      write_all (encoder, picture, file);
      ok = TRUE;
    }
  jpeg_destroy_compress (&encoder->jpeg);
  g_free (encoder->pixels);
  g_free (encoder);

  return ok;
}

const ZnFormat zn_format_jpeg = {
  .name = "JPEG",
  .ends = "jpg jpeg",
  .is   = jpeg_is,
  .load = jpeg_load,
  .save = jpeg_save,
};
