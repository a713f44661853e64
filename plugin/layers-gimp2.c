/* SPDX-License-Identifier: MIT
 *
 * layers-gimp2.c - a filter applied to layers of GIMP 2.10.
 */
#include "layers-gimp2.h"

#include <gegl.h>
#include <glib/gi18n-lib.h>

#ifdef HAVE_HISTORY
#include "history.h"
#endif
#include "zenith-filters.h"
#include "zenith-settings.h"

/* A script may pass -1, or a layer that is in no image: then there is no extent to select in. */
static gboolean
is_there (gint32 drawable)
{
  gint x, y, w, h;

  return gimp_item_is_valid (drawable) &&
         (gimp_drawable_mask_intersect (drawable, &x, &y, &w, &h) ||
          ! gimp_selection_is_empty (gimp_item_get_image (drawable)));
}

gboolean
zn_layers_usable (gint32 drawable, GError **error)
{
  if (! is_there (drawable))
    g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, _ ("No layer is chosen"));
  else if (gimp_item_is_group (drawable))
    g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
                 _ ("A layer group has no pixels of its own in GIMP 2.10; choose one of "
                    "its layers, or merge the group"));
  else
    return TRUE;

  return FALSE;
}

gboolean
zn_layers_selected (gint32 drawable, GimpRunMode mode, GError **error)
{
  gint x, y, w, h;

  if (mode == GIMP_RUN_NONINTERACTIVE || gimp_drawable_mask_intersect (drawable, &x, &y, &w, &h))
    return TRUE;
  g_set_error (
      error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
      _ ("Nothing of this layer is selected; change the selection, or choose another layer"));

  return FALSE;
}

/* GIMP drops what is written to locked pixels, and ends a plug-in that writes them itself.
 * item: the drawable, or -1; a locked group locks all in it. */
static gboolean
check_lock (gint32 item, GError **error)
{
  if (item >= 0 && gimp_item_is_layer_mask (item))
    item = gimp_layer_from_mask (item);
  for (; item >= 0; item = gimp_item_get_parent (item))
    if (gimp_item_get_lock_content (item))
      {
        g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
                     _ ("The pixels are locked; unlock them in the Layers or Channels dialog"));
        return FALSE;
      }

  return TRUE;
}

/* A copy of the layer above `below`, to be written. */
static gint32
copy_layer (gint32 image, gint32 layer, gint32 below)
{
  gint32 copy = gimp_layer_copy (layer);

  gimp_item_set_lock_content (copy, FALSE);
  gimp_image_insert_layer (image, copy, gimp_item_get_parent (layer),
                           gimp_image_get_item_position (image, below));

  return copy;
}

/* In an indexed image a weak change may be none. */
void
zn_layers_note_palette (gint32 drawable)
{
  if (gimp_drawable_is_indexed (drawable))
    g_message ("%s", _ ("The image is indexed, so the result has only the colors of its palette; "
                        "Image > Mode > RGB allows all colors"));
}

static gboolean
show_progress (gdouble fraction, gpointer data)
{
  gimp_progress_update (fraction);

  return TRUE;
}

/* Progress goes to GIMP's bar, and to the dialog where there is one. */
typedef struct
{
  ZnProgress progress;
  gpointer   data;
} Both;

static gboolean
show_both (gdouble fraction, gpointer data)
{
  Both *both = data;

  return show_progress (fraction, NULL) && both->progress (fraction, both->data);
}

/* A result that must be called edited is marked: in its layer's name (name NULL: the layer's
 * own name and the mark), and in the picture's XMP history.
 */
static void
mark_layer (const ZnSettings *settings, gint32 drawable, const gchar *name)
{
  gchar *now    = gimp_item_get_name (drawable);
  gchar *marked = zn_filter_mark_name (settings->filter, name ? name : now);

  if (marked)
    gimp_item_set_name (drawable, marked);
  g_free (marked);
  g_free (now);
}

static void
mark_image (const ZnSettings *settings, gint32 image)
{
#ifdef HAVE_HISTORY
  GimpMetadata *metadata = gimp_image_get_metadata (image);
  gchar        *words    = zn_settings_words (settings);

  if (! metadata)
    metadata = gimp_metadata_new ();
  if (metadata && zn_history_add (GEXIV2_METADATA (metadata), words, NULL))
    gimp_image_set_metadata (image, metadata);
  g_clear_object (&metadata);
  g_free (words);
#endif
}

/* Reads the whole drawable, writes the shadow buffer, and lets GIMP merge that
 * through the selection: one undo step, and none if anything fails.
 */
static gboolean
apply_to (const ZnSettings *settings,
          ZnProgress        progress,
          gpointer          progress_data,
          gpointer          data,
          GError          **error)
{
  gint32        drawable = GPOINTER_TO_INT (data);
  Both          both     = { progress, progress_data };
  GeglRectangle roi;
  GeglBuffer   *source;
  GeglBuffer   *shadow;
  gboolean      done;

  if (! gimp_drawable_mask_intersect (drawable, &roi.x, &roi.y, &roi.width, &roi.height))
    return TRUE; /* nothing is selected here: nothing to do */

  gimp_progress_init (_ (settings->filter->title));

  source = gimp_drawable_get_buffer (drawable);
  shadow = gimp_drawable_get_shadow_buffer (drawable);
  done   = zn_apply_to_buffer (settings, source, &roi, shadow, progress ? show_both : show_progress,
                               &both, error);
  g_object_unref (source);
  g_object_unref (shadow);

  if (done)
    {
      const gint32   image  = gimp_item_get_image (drawable);
      const gboolean marked = zn_settings_mark (settings);

      if (marked) /* still one undo step */
        gimp_image_undo_group_start (image);
      gimp_drawable_merge_shadow (drawable, TRUE);
      gimp_drawable_update (drawable, roi.x, roi.y, roi.width, roi.height);
      if (marked)
        {
          mark_layer (settings, drawable, NULL);
          mark_image (settings, image);
          gimp_image_undo_group_end (image);
        }
    }
  else
    {
      gimp_drawable_free_shadow (drawable);
    }

  gimp_progress_end ();

  return done;
}

/* Copies of the layer above it, the last one on top, with the faces from the first position
 * after 0 to 1.  They are computed before anything changes.
 */
static gboolean
apply_strip (const ZnSettings *settings,
             gint              n,
             ZnProgress        progress,
             gpointer          progress_data,
             gint32            layer,
             GError          **error)
{
  Both          both   = { progress, progress_data };
  gint32        image  = gimp_item_get_image (layer);
  GeglBuffer   *source = gimp_drawable_get_buffer (layer);
  GeglBuffer  **made   = g_new0 (GeglBuffer *, n);
  gchar        *name   = gimp_item_get_name (layer);
  gint32        below  = layer;
  GeglRectangle roi;
  gboolean      done;

  gimp_drawable_mask_intersect (layer, &roi.x, &roi.y, &roi.width, &roi.height);
  gimp_progress_init (_ (settings->filter->title));
  done = zn_apply_strip (settings, n, source, &roi, made, progress ? show_both : show_progress,
                         &both, error);
  if (done)
    gimp_image_undo_group_start (image);
  for (gint k = 1; done && k < n; k++)
    {
      gint32      copy  = copy_layer (image, layer, below);
      gchar      *title = g_strdup_printf ("%s %d/%d", name, k + 1, n);
      GeglBuffer *shadow;

      shadow = gimp_drawable_get_shadow_buffer (copy);
      gegl_buffer_copy (made[k - 1], &roi, GEGL_ABYSS_NONE, shadow, &roi);
      g_object_unref (shadow);
      g_object_unref (made[k - 1]);
      gimp_drawable_merge_shadow (copy, TRUE);
      gimp_drawable_update (copy, roi.x, roi.y, roi.width, roi.height);
      mark_layer (settings, copy, title);
      g_free (title);
      below = copy;
    }
  if (done)
    {
      mark_image (settings, image);
      gimp_image_undo_group_end (image);
    }
  gimp_progress_end ();
  g_object_unref (source);
  g_free (made);
  g_free (name);

  return done;
}

static GeglBuffer *host_source;

void
zn_layers_set_source (GeglBuffer *source)
{
  host_source = source;
}

/* A new layer above this one: see zn_apply_to_layer().  It is computed before anything
 * changes.
 */
static gboolean
apply_layer (const ZnSettings *settings,
             ZnProgress        progress,
             gpointer          progress_data,
             gint32            layer,
             GeglBuffer       *source,
             GError          **error)
{
  static const GimpImageType types[] = { GIMP_RGBA_IMAGE, GIMP_GRAYA_IMAGE, GIMP_INDEXEDA_IMAGE };
  Both                       both    = { progress, progress_data };
  gint32                     image   = gimp_item_get_image (layer);
  ZnMask                     mask    = { NULL, 0, 0 };
  gchar                     *name    = zn_settings_layer_name (settings);
  GeglBuffer                *made, *pixels;
  gint32                     result;
  gboolean                   is_new;

  gimp_drawable_offsets (layer, &mask.offset_x, &mask.offset_y);
  if (! gimp_selection_is_empty (image))
    {
      mask.selection = gimp_drawable_get_buffer (gimp_image_get_selection (image));
      zn_apply_set_mask (source, &mask);
    }
  is_new = zn_apply_is_new (settings, source);
  gimp_progress_init (_ (settings->filter->title));
  made = zn_apply_to_layer (settings, source, progress ? show_both : show_progress, &both, error);
  zn_apply_set_mask (source, NULL);
  if (made)
    {
      const GeglRectangle *box = gegl_buffer_get_extent (made);

      gimp_image_undo_group_start (image);
      if (is_new)
        {
          result = gimp_layer_new (image, name, box->width, box->height,
                                   types[gimp_image_base_type (image)], 100.0,
                                   GIMP_LAYER_MODE_NORMAL);
          gimp_image_insert_layer (image, result, gimp_item_get_parent (layer),
                                   gimp_image_get_item_position (image, layer));
          gimp_layer_set_offsets (result, mask.offset_x, mask.offset_y);
        }
      else
        {
          result = copy_layer (image, layer, layer);
        }
      pixels = gimp_drawable_get_buffer (result);
      gegl_buffer_copy (made, NULL, GEGL_ABYSS_NONE, pixels, NULL);
      g_object_unref (pixels);
      gimp_drawable_update (result, 0, 0, box->width, box->height);
      if (zn_settings_mark (settings))
        {
          mark_layer (settings, result, name);
          mark_image (settings, image);
        }
      gimp_image_undo_group_end (image);
    }
  gimp_progress_end ();
  g_clear_object (&mask.selection);
  g_free (name);
  if (! made)
    return FALSE;
  g_object_unref (made);

  return TRUE;
}

/* The filter as the user knows it. */
gboolean
zn_layers_apply (const ZnSettings *settings,
                 ZnProgress        progress,
                 gpointer          progress_data,
                 gpointer          data,
                 GError          **error)
{
  const gint32 drawable = GPOINTER_TO_INT (data);
  const gint   strip    = zn_settings_strip (settings);
  gint         x, y, w, h;

  if (settings->filter->makes_layer)
    {
      GeglBuffer *source;
      gboolean    done;

      if (! gimp_item_is_layer (drawable))
        {
          g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
                       _ ("A picture is generated above a layer: choose one."));
          return FALSE;
        }
      if (! gimp_drawable_mask_intersect (drawable, &x, &y, &w, &h))
        return TRUE; /* nothing is selected here: nothing to do */
      if (! check_lock (gimp_item_get_parent (drawable), error))
        return FALSE;
      source = host_source ? g_object_ref (host_source) : gimp_drawable_get_buffer (drawable);
      done   = apply_layer (settings, progress, progress_data, drawable, source, error);
      g_object_unref (source);
      return done;
    }

  if (! strip || ! gimp_drawable_mask_intersect (drawable, &x, &y, &w, &h))
    return check_lock (drawable, error) &&
           apply_to (settings, progress, progress_data, data, error);

  if (gimp_item_is_layer (drawable))
    return check_lock (gimp_item_get_parent (drawable), error) &&
           apply_strip (settings, strip, progress, progress_data, drawable, error);

  g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
               _ ("A strip is made of one layer: choose one."));

  return FALSE;
}
