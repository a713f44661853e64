/* SPDX-License-Identifier: MIT */
/* job.c - one picture, from its file to its result. */

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"
#include "job.h"
#include "metadata.h"
#include "picture.h"
#include "zenith-apply.h"
#include "zenith-open.h"
#include "zenith-pixels.h"
#include "zenith_number.h"

#define PROMPT_MAX 4000 /* bytes */
#define TRIAL 64        /* pixels a side of zn_job_try()'s picture                      */
#define TILE_MAX 1664   /* pixels a side: beyond it there is little halo left to save    */
#define CACHE 256       /* MiB of results that zenith:denoise keeps without $ZENITH_CACHE */

/* The networks run one at a time.  So do the filters: the tiles that a picture needs again
 * would not be kept while others fill the cache. */
static GMutex filtering;

static gint
open_input (const gchar *path, struct stat *info, GError **error)
{
  gint fd = zn_open_input (path, info);

  if (fd < 0 && errno)
    zn_set_errno (error, errno, "it cannot be opened");
  else if (fd < 0)
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "it is not a regular file");
  else if (! info->st_size)
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "the file is empty");
  else
    return fd;
  if (fd >= 0)
    close (fd);

  return -1;
}

static gboolean
same_time (const struct stat *a, const struct stat *b)
{
  return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
         a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* ---- before --------------------------------------------------------------- */

gboolean
zn_job_look (ZnBatch       *batch,
             const ZnInput *input,
             ZnResult      *state,
             const gchar  **computed_by,
             GError       **error)
{
  struct stat info, result;

  *state       = ZN_RESULT_NONE;
  *computed_by = "";
  if (input->why)
    {
      g_set_error_literal (error, ZN_ERROR, ZN_ERROR_FAILED, input->why);
      return FALSE;
    }
  if (stat (input->path, &info))
    {
      zn_set_errno (error, errno, "it cannot be opened");
      return FALSE;
    }
  if (! zn_folder_look (&batch->folder, input->name, &result, error))
    return FALSE;

  if (batch->journal)
    *state = zn_journal_state (batch->journal, input->name, &info, &result, batch->words,
                               batch->engine, computed_by);
  if (*state == ZN_RESULT_DONE)
    return TRUE;

  if (result.st_mode && zn_scan_has (&batch->scan, &result) && ! batch->in_place)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "its result would replace a picture");
      return FALSE;
    }
  if (*state == ZN_RESULT_FOREIGN && result.st_size && ! batch->overwrite)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
                   "in the result folder there is a file of that name that zenith-batch did not "
                   "write or that was changed since; --overwrite replaces it");
      return FALSE;
    }

  return TRUE;
}

/* ---- the picture ---------------------------------------------------------- */

static gboolean
go_on (gdouble fraction, gpointer data)
{
  ZnBatch *batch = data;

  g_atomic_int_set (&batch->part, (gint) (CLAMP (fraction, 0.0, 1.0) * 1000.0));

  return ! zn_budget_stopped (&batch->budget);
}

/* One picture at a time: a network takes all processors.  The result, or NULL and an error message. */
static GeglBuffer *
filter_one (ZnBatch *batch, const ZnSettings *settings, GeglBuffer *source, GError **error)
{
  GeglBuffer *made;

  g_mutex_lock (&filtering);
  made = zn_apply_to_layer (settings, source, go_on, batch, error);
  g_atomic_int_set (&batch->part, 0);
  g_mutex_unlock (&filtering);

  return made;
}

/* Tiles that are large and alike; the engine widens them to its own steps, and small ones.  Two rows of
 * them must stay in the operation's cache, 6 bytes a pixel. */
static gint
tile_side (const GeglRectangle *all)
{
  const gchar *text = g_getenv ("ZENITH_CACHE");
  gdouble      mib  = CACHE;
  gint         most, nx, ny;

  if (text)
    zn_mebibytes_parse (&mib, text);
  most = (gint) CLAMP (mib * 1048576.0 / (2 * 6) / all->width, 1.0, TILE_MAX);
  nx   = (all->width + most - 1) / most;
  ny   = (all->height + most - 1) / most;

  return MAX ((all->width + nx - 1) / nx, (all->height + ny - 1) / ny);
}

/* Replaces the picture's pixels by the filter's. */
static gboolean
filter (ZnBatch *batch, ZnPicture *picture, gchar **computed_by, GError **error)
{
  const ZnSettings    *settings = batch->settings;
  const GeglRectangle *all      = gegl_buffer_get_extent (picture->buffer);
  GeglBuffer          *made;

  if (settings->filter->enlarges &&
      ! zn_picture_grow (picture, (gint) zn_settings_find_number (settings, "scale", 1.0), error))
    return FALSE;

  if (! settings->filter->enlarges)
    zn_apply_set_tile (picture->buffer, tile_side (all));
  made = filter_one (batch, settings, picture->buffer, error);
  if (! made)
    return FALSE;
  *computed_by = g_strdup (zn_apply_computed_by (made));
  g_object_unref (picture->buffer);
  picture->buffer = made;
  if (picture->grown && picture->exif)
    picture->exif = zn_block_of_size (picture->exif, (guint32) picture->width,
                                      (guint32) picture->height);

  return TRUE;
}

/* The prompt in a file, without white space around it; NULL and an error message. */
static gchar *
read_prompt (gint fd, GError **error)
{
  gchar *text = g_malloc0 (PROMPT_MAX + 2);
  gsize  n    = 0;
  gssize got;

  while (n <= PROMPT_MAX && (got = read (fd, text + n, PROMPT_MAX + 1 - n)) > 0)
    n += (gsize) got;
  if (n > PROMPT_MAX)
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "a prompt has at most %d bytes", PROMPT_MAX);
  else if (! g_utf8_validate (text, (gssize) n, NULL))
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "it is no text in UTF-8");
  else if (! *g_strstrip (text))
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "there is no prompt in it");
  else
    return text;
  g_free (text);

  return NULL;
}

/* A new picture from a prompt. */
static ZnPicture *
generate (ZnBatch *batch, gint fd, gchar **computed_by, GError **error)
{
  ZnSettings *settings = zn_settings_new (batch->settings->filter, error);
  gchar      *prompt   = settings ? read_prompt (fd, error) : NULL;
  GeglBuffer *none     = gegl_buffer_new (GEGL_RECTANGLE (0, 0, 1, 1), babl_format ("R'G'B' u8"));
  GeglBuffer *made     = NULL;
  ZnPicture  *picture  = NULL;

  if (prompt)
    {
      zn_settings_copy (settings, batch->settings);
      if (zn_settings_set_text (settings, "prompt", prompt, error))
        made = filter_one (batch, settings, none, error);
    }
  if (made)
    {
      const GeglRectangle *all = gegl_buffer_get_extent (made);

      picture = zn_picture_new (all->width, all->height, &batch->budget, error);
      if (picture)
        {
          zn_pixels_copy (made, all, picture->buffer);
          *computed_by = g_strdup (zn_apply_computed_by (made));
        }
      g_object_unref (made);
    }
  g_object_unref (none);
  g_free (prompt);
  zn_settings_free (settings);

  return picture;
}

/* The finished file, in memory; -1 and an error message. */
static gint
encode (ZnBatch        *batch,
        ZnPicture      *picture,
        gint            input,
        const ZnFormat *format,
        const gchar    *words,
        GError        **error)
{
  const gboolean by_exiv2 = format->by_exiv2 || format != picture->format;
  gint           memory;
  gboolean       ok = TRUE;

  if (by_exiv2 && ! zn_metadata_charge (picture, error))
    return -1;
  memory = memfd_create ("zenith-batch", MFD_CLOEXEC);
  if (memory < 0)
    {
      zn_set_errno (error, errno, "there is no memory for the result");
      return -1;
    }

  if (by_exiv2)
    {
      g_clear_pointer (&picture->exif, g_bytes_unref);
      g_clear_pointer (&picture->xmp, g_bytes_unref);
    }
  else
    {
      ok = zn_metadata_mark (picture, words, error);
    }
  ok = ok && zn_picture_save (picture, format, memory, error);

  /* exiv2 rewrites the file and does not report all errors: it is read again. */
  if (ok && by_exiv2)
    ok = zn_metadata_transfer (picture, batch->prompts ? memory : input, memory, words, error) &&
         zn_picture_is_whole (memory, format, error);
  if (! ok)
    {
      close (memory);
      return -1;
    }

  return memory;
}

/* In place, the file stays its owner's. */
static void
keep_owner (const ZnPart *part, const struct stat *info)
{
  /* Only root can; other users own it already. */
  G_GNUC_UNUSED gint ignored = fchown (part->fd, info->st_uid, info->st_gid);

  fchmod (part->fd, info->st_mode & 0777);
}

static gboolean
put (ZnBatch           *batch,
     const ZnInput     *input,
     const struct stat *info,
     gint               memory,
     const gchar       *words,
     GError           **error)
{
  ZnPart   part;
  gboolean ok;

  g_rw_lock_reader_lock (&batch->writing);
  ok = zn_part_begin (&part, &batch->folder, input->name, error);
  if (ok && batch->in_place)
    keep_owner (&part, info);
  ok = ok && zn_part_copy (&part, memory, error) &&
       (! batch->journal ||
        zn_journal_add (batch->journal, input->name, info, &part, words, error)) &&
       zn_part_finish (&part, error);
  zn_part_end (&part);
  g_rw_lock_reader_unlock (&batch->writing);

  return ok;
}

static gboolean
run (ZnBatch           *batch,
     const ZnInput     *input,
     gint               fd,
     const struct stat *info,
     gchar            **computed_by,
     GError           **error)
{
  const ZnFormat *format = batch->prompts ? zn_format_by_name (".png") : zn_format_by_content (fd);
  const ZnFormat *wanted = batch->journal ? format : zn_format_by_name (input->name);
  ZnPicture      *picture;
  struct stat     now;
  gint            memory = -1;
  gchar          *words  = NULL;
  gboolean        ok;

  if (! format)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "it is no picture of a known format");
      return FALSE;
    }

  if (batch->prompts)
    {
      picture = generate (batch, fd, computed_by, error);
      ok      = picture != NULL;
    }
  else
    {
      picture = zn_picture_load (fd, format, &batch->budget, error);
      ok      = picture && filter (batch, picture, computed_by, error);
    }
  if (ok)
    {
      words  = zn_journal_words (batch->words, *computed_by);
      memory = encode (batch, picture, fd, wanted, words, error);
    }
  ok = memory >= 0;

  if (ok && (fstat (fd, &now) || ! same_time (info, &now)))
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "the file changed while it was read");
      ok = FALSE;
    }
  ok = ok && put (batch, input, info, memory, words, error);
  if (memory >= 0)
    close (memory);
  g_free (words);
  zn_picture_free (picture); /* last: its share of the memory counts until here */

  return ok;
}

gboolean
zn_job_run (ZnBatch *batch, const ZnInput *input, gchar **computed_by, GError **error)
{
  struct stat info;
  gint        fd = open_input (input->path, &info, error);
  gboolean    ok;

  *computed_by = NULL;
  if (fd < 0)
    return FALSE;
  ok = run (batch, input, fd, &info, computed_by, error);
  close (fd);

  return ok;
}

/* A filter on faces in as few steps as it can.  Within a selection no face need be found: the
 * trial's picture is one pixel wider than what is selected. */
static gboolean
try_face (const ZnSettings *settings, GeglBuffer *to, GError **error)
{
  static const gchar *const few[] = { "steps", "stochastic-steps", "latent-steps" };
  const GeglRectangle      *all   = gegl_buffer_get_extent (to);
  GeglBuffer *from  = gegl_buffer_new (GEGL_RECTANGLE (0, 0, all->width + 1, all->height),
                                       gegl_buffer_get_format (to));
  ZnSettings *quick = zn_settings_new (settings->filter, error);
  gboolean    ok    = quick != NULL;

  if (ok)
    zn_settings_copy (quick, settings);
  for (guint i = 0; ok && i < G_N_ELEMENTS (few); i++)
    ok = zn_settings_find_number (quick, few[i], 0.0) == 0.0 ||
         zn_settings_set_text (quick, few[i], "2", error);
  ok = ok && zn_apply_to_buffer (quick, from, all, to, NULL, NULL, error);
  zn_settings_free (quick);
  g_object_unref (from);

  return ok;
}

gboolean
zn_job_try (const ZnBatch *batch, GError **error)
{
  const ZnSettings   *settings = batch->settings;
  const GeglRectangle all      = { 0, 0, TRIAL, TRIAL };
  GeglBuffer         *from, *to;
  gboolean            ok;

  /* whether a given frame fits, or two faces go together, only the pictures can say */
  if (zn_settings_find_number (settings, "frame-size", 0.0) > 0.0 ||
      zn_settings_find_number (settings, "find", 1.0) == 0.0 ||
      zn_settings_find_number (settings, "position", -1.0) >= 0.0)
    return TRUE;

  from = gegl_buffer_new (&all, babl_format ("R'G'B' u8"));
  to   = gegl_buffer_new (&all, babl_format ("R'G'B' u8"));
  if (batch->prompts)
    ok = zn_apply_check (settings, from, error);
  else if (settings->filter->takes_selection)
    ok = try_face (settings, to, error);
  else
    ok = zn_apply_to_buffer (settings, from, &all, to, NULL, NULL, error);
  g_object_unref (from);
  g_object_unref (to);

  return ok;
}
