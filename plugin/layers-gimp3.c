/* SPDX-License-Identifier: MIT
 *
 * layers-gimp3.c - a filter applied to layers of GIMP 3.
 */
#include "layers-gimp3.h"

#include <gegl.h>
#include <glib/gi18n-lib.h>

#ifdef HAVE_HISTORY
#include "history.h"
#endif
#include "zenith-filters.h"
#include "zenith-settings.h"

gboolean
zn_layers_usable (GimpDrawable **drawables, GimpRunMode mode, GError **error)
{
  gboolean selected = mode == GIMP_RUN_NONINTERACTIVE; /* a script then has nothing to do */
  gint     x, y, w, h;

  if (! drawables || ! drawables[0])
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, _ ("No layer is chosen"));
      return FALSE;
    }

  for (guint i = 0; drawables[i]; i++)
    if (gimp_item_is_group (GIMP_ITEM (drawables[i])))
      {
        g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
                     _ ("A layer group has no pixels of its own; choose one of its "
                        "layers, or add the filter itself from Filters > Zenith"));
        return FALSE;
      }

  for (guint i = 0; ! selected && drawables[i]; i++)
    selected = gimp_drawable_mask_intersect (drawables[i], &x, &y, &w, &h);
  if (! selected)
    g_set_error (
        error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
        _ ("Nothing of this layer is selected; change the selection, or choose another layer"));

  return selected;
}

/* GIMP drops what is written to locked pixels.  item: the drawable, or NULL; a locked group locks
 * all in it. */
static gboolean
check_lock (GimpItem *item, GError **error)
{
  if (item && gimp_item_is_layer_mask (item))
    item = GIMP_ITEM (gimp_layer_from_mask (GIMP_LAYER_MASK (item)));
  for (; item; item = gimp_item_get_parent (item))
    if (gimp_item_get_lock_content (item))
      {
        g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
                     _ ("The pixels are locked; unlock them in the Layers or Channels dialog"));
        return FALSE;
      }

  return TRUE;
}

/* A copy of the layer above `below`, to be written. */
static GimpLayer *
copy_layer (GimpImage *image, GimpLayer *layer, GimpItem *below)
{
  GimpLayer *copy = gimp_layer_copy (layer);

  gimp_item_set_lock_content (GIMP_ITEM (copy), FALSE);
  gimp_image_insert_layer (image, copy, (GimpLayer *) gimp_item_get_parent (GIMP_ITEM (layer)),
                           gimp_image_get_item_position (image, below));

  return copy;
}

/* In an indexed image a weak change may be none. */
void
zn_layers_note_palette (GimpDrawable *drawable)
{
  if (gimp_drawable_is_indexed (drawable))
    g_message ("%s", _ ("The image is indexed, so the result has only the colors of its palette; "
                        "Image > Mode > RGB allows all colors"));
}

/* Progress over all the drawables, to GIMP's bar and to the dialog if any. */
typedef struct
{
  ZnProgress progress;
  gpointer   data;
  guint      done;
  guint      n;
} Bars;

static gboolean
show_progress (gdouble fraction, gpointer data)
{
  Bars *bars = data;

  fraction = (bars->done + fraction) / bars->n;
  gimp_progress_update (fraction);

  return ! bars->progress || bars->progress (fraction, bars->data);
}

/* Reads the whole drawable, writes its shadow buffer where it is selected. */
static gboolean
compute (const ZnSettings *settings, GimpDrawable *drawable, Bars *bars, GError **error)
{
  GeglRectangle roi;
  GeglBuffer   *source;
  GeglBuffer   *shadow;
  gboolean      done;

  if (! gimp_drawable_mask_intersect (drawable, &roi.x, &roi.y, &roi.width, &roi.height))
    return TRUE; /* nothing is selected here: nothing to do */

  source = gimp_drawable_get_buffer (drawable);
  shadow = gimp_drawable_get_shadow_buffer (drawable);
  done   = zn_apply_to_buffer (settings, source, &roi, shadow, show_progress, bars, error);
  g_object_unref (source);
  g_object_unref (shadow);

  return done;
}

static void
merge (GimpDrawable *drawable)
{
  GeglRectangle roi;

  if (gimp_drawable_mask_intersect (drawable, &roi.x, &roi.y, &roi.width, &roi.height))
    {
      gimp_drawable_merge_shadow (drawable, TRUE);
      gimp_drawable_update (drawable, roi.x, roi.y, roi.width, roi.height);
    }
}

/* A result that must be called edited is marked: in its layer's name (name NULL: the layer's
 * own name and the mark), and in the picture's XMP history.
 */
static void
mark_layer (const ZnSettings *settings, GimpDrawable *drawable, const gchar *name)
{
  gchar *now    = gimp_item_get_name (GIMP_ITEM (drawable));
  gchar *marked = zn_filter_mark_name (settings->filter, name ? name : now);

  if (marked)
    gimp_item_set_name (GIMP_ITEM (drawable), marked);
  g_free (marked);
  g_free (now);
}

static void
mark_image (const ZnSettings *settings, GimpImage *image)
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

/* First all are computed, then all are merged, as one undo step: if one fails,
 * none changes.
 */
static gboolean
apply_to (const ZnSettings *settings,
          ZnProgress        progress,
          gpointer          progress_data,
          gpointer          data,
          GError          **error)
{
  GimpDrawable **drawables = data;
  Bars           bars      = { progress, progress_data, 0, 0 };
  GimpImage     *image     = gimp_item_get_image (GIMP_ITEM (drawables[0]));
  gboolean       marked    = zn_settings_mark (settings);
  gboolean       done      = TRUE;
  gint           x, y, w, h;

  while (drawables[bars.n])
    bars.n++;
  marked = marked && gimp_drawable_mask_intersect (drawables[0], &x, &y, &w, &h);

  gimp_progress_init (_ (settings->filter->title));

  for (guint i = 0; done && i < bars.n; i++)
    done = check_lock (GIMP_ITEM (drawables[i]), error);
  for (; done && bars.done < bars.n; bars.done++)
    done = compute (settings, drawables[bars.done], &bars, error);

  if (done && (bars.n > 1 || marked))
    gimp_image_undo_group_start (image);

  for (guint i = 0; i < bars.n; i++)
    {
      if (done)
        merge (drawables[i]);
      if (done && marked)
        mark_layer (settings, drawables[i], NULL);
      if (! done)
        gimp_drawable_free_shadow (drawables[i]);
    }

  if (done && marked)
    mark_image (settings, image);
  if (done && (bars.n > 1 || marked))
    gimp_image_undo_group_end (image);

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
             GimpLayer        *layer,
             GError          **error)
{
  Bars          bars   = { progress, progress_data, 0, 1 };
  GimpImage    *image  = gimp_item_get_image (GIMP_ITEM (layer));
  GeglBuffer   *source = gimp_drawable_get_buffer (GIMP_DRAWABLE (layer));
  GeglBuffer  **made   = g_new0 (GeglBuffer *, n);
  gchar        *name   = gimp_item_get_name (GIMP_ITEM (layer));
  GimpItem     *below  = GIMP_ITEM (layer);
  GeglRectangle roi;
  gboolean      done;

  gimp_drawable_mask_intersect (GIMP_DRAWABLE (layer), &roi.x, &roi.y, &roi.width, &roi.height);
  gimp_progress_init (_ (settings->filter->title));
  done = zn_apply_strip (settings, n, source, &roi, made, show_progress, &bars, error);
  if (done)
    gimp_image_undo_group_start (image);
  for (gint k = 1; done && k < n; k++)
    {
      GimpLayer    *copy     = copy_layer (image, layer, below);
      GimpDrawable *drawable = GIMP_DRAWABLE (copy);
      gchar        *title    = g_strdup_printf ("%s %d/%d", name, k + 1, n);
      GeglBuffer   *shadow;

      shadow = gimp_drawable_get_shadow_buffer (drawable);
      gegl_buffer_copy (made[k - 1], &roi, GEGL_ABYSS_NONE, shadow, &roi);
      g_object_unref (shadow);
      g_object_unref (made[k - 1]);
      merge (drawable);
      mark_layer (settings, drawable, title);
      g_free (title);
      below = GIMP_ITEM (copy);
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
             GimpLayer        *layer,
             GeglBuffer       *source,
             GError          **error)
{
  static const GimpImageType types[] = { GIMP_RGBA_IMAGE, GIMP_GRAYA_IMAGE, GIMP_INDEXEDA_IMAGE };
  Bars                       bars    = { progress, progress_data, 0, 1 };
  GimpImage                 *image   = gimp_item_get_image (GIMP_ITEM (layer));
  ZnMask                     mask    = { NULL, 0, 0 };
  gchar                     *name    = zn_settings_layer_name (settings);
  GeglBuffer                *made, *pixels;
  GimpLayer                 *result;
  gboolean                   is_new;

  gimp_drawable_get_offsets (GIMP_DRAWABLE (layer), &mask.offset_x, &mask.offset_y);
  if (! gimp_selection_is_empty (image))
    {
      mask.selection = gimp_drawable_get_buffer (GIMP_DRAWABLE (gimp_image_get_selection (image)));
      zn_apply_set_mask (source, &mask);
    }
  is_new = zn_apply_is_new (settings, source);
  gimp_progress_init (_ (settings->filter->title));
  made = zn_apply_to_layer (settings, source, show_progress, &bars, error);
  zn_apply_set_mask (source, NULL);
  if (made)
    {
      const GeglRectangle *box = gegl_buffer_get_extent (made);

      gimp_image_undo_group_start (image);
      if (is_new)
        {
          result = gimp_layer_new (image, name, box->width, box->height,
                                   types[gimp_image_get_base_type (image)], 100.0,
                                   GIMP_LAYER_MODE_NORMAL);
          gimp_image_insert_layer (image, result,
                                   (GimpLayer *) gimp_item_get_parent (GIMP_ITEM (layer)),
                                   gimp_image_get_item_position (image, GIMP_ITEM (layer)));
          gimp_layer_set_offsets (result, mask.offset_x, mask.offset_y);
        }
      else
        {
          result = copy_layer (image, layer, GIMP_ITEM (layer));
        }
      pixels = gimp_drawable_get_buffer (GIMP_DRAWABLE (result));
      gegl_buffer_copy (made, NULL, GEGL_ABYSS_NONE, pixels, NULL);
      g_object_unref (pixels);
      gimp_drawable_update (GIMP_DRAWABLE (result), 0, 0, box->width, box->height);
      if (zn_settings_mark (settings))
        {
          mark_layer (settings, GIMP_DRAWABLE (result), name);
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
  GimpDrawable **drawables = data;
  const gint     strip     = zn_settings_strip (settings);
  gint           x, y, w, h;

  if (settings->filter->makes_layer)
    {
      GeglBuffer *source;
      gboolean    done;

      if (drawables[1] || ! GIMP_IS_LAYER (drawables[0]))
        {
          g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
                       _ ("A picture is generated above a layer: choose one."));
          return FALSE;
        }
      if (! gimp_drawable_mask_intersect (drawables[0], &x, &y, &w, &h))
        return TRUE; /* nothing is selected here: nothing to do */
      if (! check_lock (gimp_item_get_parent (GIMP_ITEM (drawables[0])), error))
        return FALSE;
      source = host_source ? g_object_ref (host_source) : gimp_drawable_get_buffer (drawables[0]);
      done   = apply_layer (settings, progress, progress_data, GIMP_LAYER (drawables[0]), source,
                            error);
      g_object_unref (source);
      return done;
    }

  if (! strip || ! gimp_drawable_mask_intersect (drawables[0], &x, &y, &w, &h))
    return apply_to (settings, progress, progress_data, data, error);

  if (! drawables[1] && GIMP_IS_LAYER (drawables[0]))
    return check_lock (gimp_item_get_parent (GIMP_ITEM (drawables[0])), error) &&
           apply_strip (settings, strip, progress, progress_data, GIMP_LAYER (drawables[0]), error);

  g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
               _ ("A strip is made of one layer: choose one."));

  return FALSE;
}
