/* SPDX-License-Identifier: MIT
 *
 * layers.c - see layers.h.
 */
#include "layers.h"

#include <glib/gi18n-lib.h>

#include "enlarge.h"
#ifdef HAVE_HISTORY
#include "history.h"
#endif
#include "zenith-dialog.h"
#include "zenith-filters.h"
#include "zenith-settings.h"

#define MAX_STRIP (1 << 20) /* rows of all frames of a video */

gboolean
zn_layers_usable (const ZnLayers *layers, const ZnFilter *filter, GimpRunMode mode, GError **error)
{
  gboolean      selected = mode == GIMP_RUN_NONINTERACTIVE; /* a script then has nothing to do */
  GeglRectangle roi;

  if (! layers->n || ! zn_item_is_there (layers->item[0]))
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_USAGE, "%s", _ ("No layer is chosen"));
      return FALSE;
    }

  if (filter && (filter->whole_image || filter->frames))
    return TRUE;

  for (guint i = 0; i < layers->n; i++)
    if (gimp_item_is_group (layers->item[i]))
      {
        g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s", _ (ZN_GROUP_REFUSAL));
        return FALSE;
      }

  for (guint i = 0; ! selected && i < layers->n; i++)
    selected = zn_item_selected (layers->item[i], &roi);
  if (! selected)
    g_set_error (
        error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
        _ ("Nothing of this layer is selected; change the selection, or choose another layer"));

  return selected;
}

/* GIMP drops what is written to locked pixels, and 2.10 ends a plug-in that writes them itself.
 * item: a layer, mask or channel, or ZN_NO_ITEM; a locked group locks all in it. */
static gboolean
check_lock (ZnItem item, GError **error)
{
  if (item != ZN_NO_ITEM && gimp_item_is_layer_mask (item))
    item = zn_item_of_mask (item);
  for (; item != ZN_NO_ITEM; item = gimp_item_get_parent (item))
    if (gimp_item_get_lock_content (item))
      {
        g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
                     _ ("The pixels are locked; unlock them in the Layers or Channels dialog"));
        return FALSE;
      }

  return TRUE;
}

/* A copy of the layer above `below`, to be written. */
static ZnItem
copy_layer (ZnImage image, ZnItem layer, ZnItem below)
{
  ZnItem copy = zn_layer_copy (layer);

  gimp_item_set_lock_content (copy, FALSE);
  zn_layer_insert (image, copy, gimp_item_get_parent (layer),
                   gimp_image_get_item_position (image, below));

  return copy;
}

/* The layer of that name in the image of this item, for a filter that takes a second picture; NULL: it is a file. */
static GeglBuffer *
named_layer (gpointer data, const gchar *name)
{
  const ZnItem *item  = data;
  const ZnItem  layer = g_file_test (name, G_FILE_TEST_EXISTS)
                            ? ZN_NO_ITEM
                            : zn_layer_named (gimp_item_get_image (*item), name);

  return layer == ZN_NO_ITEM || gimp_item_is_group (layer) ? NULL : zn_item_buffer (layer);
}

/* The names of layers, but for this one and those in groups: NULL at the end, free them. */
static gchar **
other_layers (ZnImage image, ZnItem but)
{
  guint   n     = 0;
  ZnItem *items = zn_image_items (image, ZN_NO_ITEM, &n);
  gchar **names = g_new0 (gchar *, n + 1);

  for (guint i = 0, at = 0; i < n; i++)
    if (items[i] != but && ! gimp_item_is_group (items[i]))
      names[at++] = gimp_item_get_name (items[i]);
  g_free (items);

  return names;
}

/* In an indexed image a weak change may be none. */
void
zn_layers_note_palette (const ZnLayers *layers)
{
  if (zn_item_is_indexed (layers->item[0]))
    g_message ("%s", _ ("The image is indexed, so the result has only the colors of its palette; "
                        "Image > Mode > RGB allows all colors"));
}

/* Progress over all the layers, to GIMP's bar and to the dialog if any. */
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

/* Reads the whole item, writes its shadow buffer where it is selected. */
static gboolean
compute (const ZnSettings *settings, ZnItem item, Bars *bars, GError **error)
{
  ZnSecond      second = { named_layer, &item };
  GeglRectangle roi;
  GeglBuffer   *source;
  GeglBuffer   *shadow;
  gboolean      done;

  if (! zn_item_selected (item, &roi))
    return TRUE; /* nothing is selected here: nothing to do */

  source = zn_item_buffer (item);
  shadow = zn_item_shadow (item);
  zn_apply_set_second (source, &second);
  done = zn_apply_to_buffer (settings, source, &roi, shadow, show_progress, bars, error);
  g_object_unref (source);
  g_object_unref (shadow);

  return done;
}

static void
merge (ZnItem item)
{
  GeglRectangle roi;

  if (zn_item_selected (item, &roi))
    {
      zn_item_merge_shadow (item);
      zn_item_update (item, &roi);
    }
}

/* A result that must be called edited is marked: in its layer's name (name NULL: the layer's
 * own name and the mark), and in the picture's XMP history.
 */
static void
mark_layer (const ZnSettings *settings, ZnItem item, const gchar *name)
{
  gchar *now    = gimp_item_get_name (item);
  gchar *marked = zn_filter_mark_name (settings->filter, name ? name : now);

  if (marked)
    gimp_item_set_name (item, marked);
  g_free (marked);
  g_free (now);
}

static void
mark_image (const ZnSettings *settings, ZnImage image)
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
          const ZnLayers   *layers,
          GError          **error)
{
  Bars          bars  = { progress, progress_data, 0, layers->n };
  const ZnImage image = gimp_item_get_image (layers->item[0]);
  gboolean      done  = TRUE;
  GeglRectangle roi;
  gboolean      marked = zn_settings_mark (settings) && zn_item_selected (layers->item[0], &roi);

  for (guint i = 0; done && i < layers->n; i++)
    done = check_lock (layers->item[i], error);
  if (! done)
    return FALSE;

  gimp_progress_init (_ (settings->filter->title));
  for (; done && bars.done < bars.n; bars.done++)
    done = compute (settings, layers->item[bars.done], &bars, error);

  if (done && (layers->n > 1 || marked))
    gimp_image_undo_group_start (image);

  for (guint i = 0; i < layers->n; i++)
    {
      if (done)
        merge (layers->item[i]);
      if (done && marked)
        mark_layer (settings, layers->item[i], NULL);
      if (! done)
        zn_item_free_shadow (layers->item[i]);
    }

  if (done && marked)
    mark_image (settings, image);
  if (done && (layers->n > 1 || marked))
    gimp_image_undo_group_end (image);

  gimp_progress_end ();

  return done;
}

/* The results of layers in buffers of their own: of what is selected or, for a mask, of all. */
static gboolean
compute_new (const ZnSettings *settings,
             const ZnLayers   *layers,
             ZnWhere           where,
             Bars             *bars,
             GeglBuffer      **made,
             GError          **error)
{
  gboolean done = TRUE;

  gimp_progress_init (_ (settings->filter->title));
  for (; done && bars->done < bars->n; bars->done++)
    {
      const ZnItem  layer  = layers->item[bars->done];
      ZnSecond      second = { named_layer, (gpointer) &layer };
      GeglBuffer   *source;
      GeglRectangle roi;

      if (! zn_item_selected (layer, &roi))
        continue;
      source = zn_item_buffer (layer);
      if (where == ZN_WHERE_MASK && ! settings->filter->takes_selection)
        roi = *gegl_buffer_get_extent (source);
      zn_apply_set_second (source, &second);
      made[bars->done] = gegl_buffer_new (&roi, gegl_buffer_get_format (source));
      done = zn_apply_to_buffer (settings, source, &roi, made[bars->done], show_progress, bars,
                                 error);
      g_object_unref (source);
    }

  return done;
}

/* A copy of the layer, above it, with this result. */
static void
insert_result (const ZnSettings *settings, ZnItem layer, ZnWhere where, GeglBuffer *made)
{
  const ZnImage        image = gimp_item_get_image (layer);
  const ZnItem         copy  = copy_layer (image, layer, layer);
  const GeglRectangle *roi   = gegl_buffer_get_extent (made);
  gchar *name  = settings->filter->n_sliders ? zn_settings_layer_name (settings) /* what was done */
                                             : gimp_item_get_name (layer);
  gchar *title = zn_filter_mark_name (settings->filter, name);
  GeglBuffer *pixels;

  if (! title)
    title = g_strdup_printf ("%s (%s)", name, _ (settings->filter->title));
  gimp_item_set_name (copy, title);
  pixels = where == ZN_WHERE_MASK ? zn_item_buffer (copy) : zn_item_shadow (copy);
  gegl_buffer_copy (made, roi, GEGL_ABYSS_NONE, pixels, roi);
  g_object_unref (pixels);
  if (where == ZN_WHERE_MASK)
    {
      zn_item_update (copy, roi);
      zn_layer_mask_selection (image, copy);
    }
  else
    {
      merge (copy);
    }
  g_free (title);
  g_free (name);
}

/* apply_to() with new layers.  They are computed before anything changes. */
static gboolean
apply_new (const ZnSettings *settings,
           ZnProgress        progress,
           gpointer          progress_data,
           const ZnLayers   *layers,
           ZnWhere           where,
           GError          **error)
{
  Bars          bars  = { progress, progress_data, 0, layers->n };
  const ZnImage image = gimp_item_get_image (layers->item[0]);
  GeglBuffer  **made  = g_new0 (GeglBuffer *, layers->n);
  gboolean      any   = FALSE;
  gboolean      done  = TRUE;

  for (guint i = 0; done && i < layers->n; i++)
    done = check_lock (gimp_item_get_parent (layers->item[i]), error);
  done = done && compute_new (settings, layers, where, &bars, made, error);
  for (guint i = 0; i < layers->n; i++)
    any |= made[i] != NULL;
  if (done && any)
    {
      gimp_image_undo_group_start (image);
      for (guint i = 0; i < layers->n; i++)
        if (made[i])
          insert_result (settings, layers->item[i], where, made[i]);
      if (zn_settings_mark (settings))
        mark_image (settings, image);
      gimp_image_undo_group_end (image);
    }
  gimp_progress_end ();
  for (guint i = 0; i < layers->n; i++)
    g_clear_object (&made[i]);
  g_free (made);

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
             ZnItem            layer,
             GError          **error)
{
  Bars          bars   = { progress, progress_data, 0, 1 };
  const ZnImage image  = gimp_item_get_image (layer);
  GeglBuffer   *source = zn_item_buffer (layer);
  GeglBuffer  **made   = g_new0 (GeglBuffer *, n);
  const gint    all    = zn_settings_loop (settings) ? 2 * n - 2 : n; /* back over the same ones */
  gchar        *name   = gimp_item_get_name (layer);
  ZnItem        below  = layer;
  ZnSecond      second = { named_layer, &layer };
  GeglRectangle roi;
  gboolean      done;

  zn_item_selected (layer, &roi);
  zn_apply_set_second (source, &second);
  gimp_progress_init (_ (settings->filter->title));
  done = zn_apply_strip (settings, n, source, &roi, made, show_progress, &bars, error);
  if (done)
    gimp_image_undo_group_start (image);
  for (gint k = 1; done && k < all; k++)
    {
      const ZnItem copy   = copy_layer (image, layer, below);
      gchar       *title  = g_strdup_printf ("%s %d/%d", name, k + 1, all);
      GeglBuffer  *shadow = zn_item_shadow (copy);

      gegl_buffer_copy (made[(k < n ? k : all - k) - 1], &roi, GEGL_ABYSS_NONE, shadow, &roi);
      g_object_unref (shadow);
      merge (copy);
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
  for (gint k = 1; done && k < n; k++)
    g_object_unref (made[k - 1]);
  g_object_unref (source);
  g_free (made);
  g_free (name);

  return done;
}

/* Where a result of zn_apply_to_layer() goes. */
typedef struct
{
  ZnItem   layer;
  gint     x, y;     /* its offsets */
  gboolean replaces; /* it is the layer, enlarged */
  gboolean own_size; /* of the result; else a copy of the layer has it */
} Target;

/* The part `each` of what was made, as a layer with that name. */
static void
insert_made (const ZnSettings    *settings,
             const Target        *target,
             GeglBuffer          *made,
             const GeglRectangle *each,
             const gchar         *name)
{
  static const GimpImageType types[] = { GIMP_RGBA_IMAGE, GIMP_GRAYA_IMAGE, GIMP_INDEXEDA_IMAGE };
  const ZnItem               layer   = target->layer;
  const ZnImage              image   = gimp_item_get_image (layer);
  const GeglRectangle        there   = { 0, 0, each->width, each->height };
  ZnItem                     result  = layer;
  GeglBuffer                *pixels;

  if (target->replaces)
    {
      zn_layer_scale (layer, each->width, each->height);
      zn_layer_set_offsets (layer, target->x, target->y);
    }
  else if (target->own_size)
    {
      result = zn_layer_new (image, name, each->width, each->height,
                             types[zn_image_base_type (image)]);
      zn_layer_insert (image, result, gimp_item_get_parent (layer),
                       gimp_image_get_item_position (image, layer));
      zn_layer_set_offsets (result, target->x, target->y);
    }
  else
    {
      result = copy_layer (image, layer, layer);
    }
  pixels = zn_item_buffer (result);
  gegl_buffer_copy (made, each, GEGL_ABYSS_NONE, pixels, &there);
  g_object_unref (pixels);
  zn_item_update (result, &there);
  if (zn_settings_mark (settings))
    mark_layer (settings, result, name);
}

/* New layers above this one: see zn_apply_to_layer(); or this one, enlarged.  They are computed
 * before anything changes.
 */
static gboolean
apply_layer (const ZnSettings *settings,
             ZnProgress        progress,
             gpointer          progress_data,
             ZnItem            layer,
             GeglBuffer       *source,
             ZnWhere           where,
             GError          **error)
{
  Bars          bars   = { progress, progress_data, 0, 1 };
  const ZnImage image  = gimp_item_get_image (layer);
  const gint    n      = (gint) zn_settings_find_number (settings, "n", 1.0);
  Target        target = { layer, 0, 0, FALSE, FALSE };
  ZnMask        mask   = { NULL, 0, 0 };
  gchar        *name   = zn_settings_layer_name (settings);
  GeglBuffer   *made;
  GeglRectangle selected;
  gboolean      is_new;

  zn_item_offsets (layer, &mask.offset_x, &mask.offset_y);
  if (! gimp_selection_is_empty (image) && settings->filter->from_nothing)
    {
      zn_item_selected (layer, &selected);
      zn_apply_set_place (source, &selected);
    }
  else if (! gimp_selection_is_empty (image) && ! settings->filter->enlarges)
    {
      mask.selection = zn_image_selection (image);
      zn_apply_set_mask (source, &mask);
    }
  is_new = zn_apply_is_new (settings, source);
  gimp_progress_init (_ (settings->filter->title));
  made = zn_apply_to_layer (settings, source, show_progress, &bars, error);
  zn_apply_set_mask (source, NULL);
  zn_apply_set_place (source, NULL);
  if (made)
    {
      GeglRectangle each = *gegl_buffer_get_extent (made);
      GeglRectangle part;

      each.width /= n;
      target.x        = mask.offset_x + each.x;
      target.y        = mask.offset_y + each.y;
      target.replaces = where == ZN_WHERE_LAYER && zn_settings_scale (settings) > 1;
      target.own_size = is_new || ! gegl_rectangle_equal (&each, gegl_buffer_get_extent (source));
      part            = (GeglRectangle){ target.x, target.y, each.width, each.height };
      gimp_image_undo_group_start (image);
      for (gint i = 0; i < n; i++, each.x += each.width)
        {
          gchar *title = n > 1 ? g_strdup_printf ("%s %d/%d", name, i + 1, n) : g_strdup (name);

          insert_made (settings, &target, made, &each, title);
          g_free (title);
        }
      if (! is_new && settings->filter->makes_layer && target.own_size)
        zn_enlarge_canvas (image, &part);
      if (zn_settings_mark (settings))
        mark_image (settings, image);
      gimp_image_undo_group_end (image);
      g_object_unref (made);
    }
  gimp_progress_end ();
  g_clear_object (&mask.selection);
  g_free (name);

  return made != NULL;
}

/* The layer's place in a strip in which frames of the image's size lie one below the other. */
static GeglRectangle
place_in_strip (ZnItem layer, GeglBuffer *pixels, gint height, guint frame)
{
  GeglRectangle place = *gegl_buffer_get_extent (pixels);
  gint          x, y;

  zn_item_offsets (layer, &x, &y);
  place.x += x;
  place.y += y + (gint) frame * height;

  return place;
}

/* Copies what of the layer is in the image to its frame of the strip, or back to its shadow buffer. */
static void
copy_frame (ZnItem layer, GeglBuffer *strip, guint frame, const GeglRectangle *image, gboolean back)
{
  const GeglRectangle canvas = { 0, (gint) frame * image->height, image->width, image->height };
  GeglBuffer         *pixels = back ? zn_item_shadow (layer) : zn_item_buffer (layer);
  const GeglRectangle place  = place_in_strip (layer, pixels, image->height, frame);
  GeglRectangle       there, here;

  if (back && ! gegl_rectangle_contains (&canvas, &place)) /* what is outside stays */
    {
      GeglBuffer *before = zn_item_buffer (layer);

      gegl_buffer_copy (before, NULL, GEGL_ABYSS_NONE, pixels, NULL);
      g_object_unref (before);
    }
  if (gegl_rectangle_intersect (&there, &place, &canvas))
    {
      here = *GEGL_RECTANGLE (there.x - place.x, there.y - place.y, there.width, there.height);
      if (back)
        gegl_buffer_copy (strip, &there, GEGL_ABYSS_NONE, pixels, &here);
      else
        gegl_buffer_copy (pixels, &here, GEGL_ABYSS_NONE, strip, &there);
    }
  g_object_unref (pixels);
}

static gboolean
check_frames (const ZnItem *items, guint n, const GeglRectangle *image, GError **error)
{
  if ((gint64) n * image->height > MAX_STRIP)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
                   _ ("A picture of %d x %d is too large: crop it first."), image->width,
                   MAX_STRIP);
      return FALSE;
    }

  for (guint i = 0; i < n; i++)
    if (gimp_item_is_group (items[i]))
      {
        g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s", _ (ZN_GROUP_REFUSAL));
        return FALSE;
      }
    else if (! check_lock (items[i], error))
      {
        return FALSE;
      }

  return TRUE;
}

/* The lowest layers of the image are the frames of a video.  They are computed before anything changes,
 * through a buffer that GEGL swaps out where memory is short.
 */
static gboolean
apply_frames (const ZnSettings *settings,
              ZnProgress        progress,
              gpointer          progress_data,
              ZnImage           image,
              GError          **error)
{
  Bars          bars = { progress, progress_data, 0, 1 };
  guint         all, n;
  ZnItem       *items = zn_image_items (image, ZN_NO_ITEM, &all);
  const ZnItem *lowest;
  ZnSettings   *own    = zn_settings_new (settings->filter, error);
  GeglRectangle canvas = { 0, 0, 0, 0 };
  GeglRectangle tall;
  GeglBuffer   *strip, *made;
  gboolean      done;

  zn_image_size (image, &canvas.width, &canvas.height);
  n      = (guint) zn_settings_find_number (settings, ZN_FRAMES, 0.0);
  n      = n && n < all ? n : all;
  lowest = items + all - n;
  done   = own && check_frames (lowest, n, &canvas, error);
  if (! done)
    {
      zn_settings_free (own);
      g_free (items);
      return FALSE;
    }

  tall = *GEGL_RECTANGLE (0, 0, canvas.width, canvas.height * (gint) n);
  zn_settings_copy (own, settings);
  zn_settings_set_named (own, ZN_FRAMES, n, NULL);
  strip = gegl_buffer_new (&tall, babl_format ("R'G'B'A float"));
  made  = gegl_buffer_new (&tall, babl_format ("R'G'B'A float"));
  gimp_progress_init (_ (settings->filter->title));
  for (guint i = 0; i < n; i++) /* GIMP lists the highest first */
    copy_frame (lowest[n - 1 - i], strip, i, &canvas, FALSE);
  done = zn_apply_to_buffer (own, strip, &tall, made, show_progress, &bars, error);
  if (done)
    {
      gimp_image_undo_group_start (image);
      for (guint i = 0; i < n; i++)
        {
          copy_frame (lowest[n - 1 - i], made, i, &canvas, TRUE);
          merge (lowest[n - 1 - i]);
        }
      gimp_image_undo_group_end (image);
    }
  gimp_progress_end ();
  g_object_unref (strip);
  g_object_unref (made);
  zn_settings_free (own);
  g_free (items);

  return done;
}

/* A layer from nothing, or a larger one. */
static gboolean
apply_maker (const ZnSettings *settings,
             ZnProgress        progress,
             gpointer          progress_data,
             const ZnLayers   *layers,
             ZnWhere           where,
             GError          **error)
{
  const ZnItem  first = layers->item[0];
  GeglRectangle roi;
  GeglBuffer   *source;
  gboolean      done;

  if (layers->n != 1 || ! gimp_item_is_layer (first))
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
                   settings->filter->enlarges
                       ? _ ("Only a layer can get another size: choose one.")
                       : _ ("A picture is generated above a layer: choose one."));
      return FALSE;
    }
  if (! zn_item_selected (first, &roi))
    return TRUE; /* nothing is selected here: nothing to do */
  if (! check_lock (zn_settings_scale (settings) > 1 && where == ZN_WHERE_LAYER
                        ? first
                        : gimp_item_get_parent (first),
                    error))
    return FALSE;
  source = layers->source ? g_object_ref (layers->source) : zn_item_buffer (first);
  done   = apply_layer (settings, progress, progress_data, first, source, where, error);
  g_object_unref (source);

  return done;
}

/* Masks and channels have no copies above them. */
static ZnWhere
where_of (const ZnLayers *layers, const ZnFilter *filter)
{
  for (guint i = 0; i < layers->n; i++)
    if (! gimp_item_is_layer (layers->item[i]))
      return ZN_WHERE_LAYER;

  return zn_where (layers->where, filter);
}

/* The filter as the user knows it. */
gboolean
zn_layers_apply (const ZnSettings *settings,
                 ZnProgress        progress,
                 gpointer          progress_data,
                 gpointer          data,
                 GError          **error)
{
  const ZnLayers *layers = data;
  const ZnItem    first  = layers->item[0];
  const gint      strip  = zn_settings_strip (settings);
  const ZnWhere   where  = where_of (layers, settings->filter);
  GeglRectangle   roi;

  if (settings->filter->whole_image)
    return zn_enlarge_image (settings, gimp_item_get_image (first), layers->print_size, progress,
                             progress_data, error);
  if (settings->filter->frames)
    return apply_frames (settings, progress, progress_data, gimp_item_get_image (first), error);
  if (settings->filter->makes_layer || settings->filter->enlarges)
    return apply_maker (settings, progress, progress_data, layers, where, error);
  if (! zn_item_selected (first, &roi) || (! strip && where == ZN_WHERE_LAYER))
    return apply_to (settings, progress, progress_data, layers, error);
  if (! strip)
    return apply_new (settings, progress, progress_data, layers, where, error);
  if (layers->n == 1 && gimp_item_is_layer (first))
    return check_lock (gimp_item_get_parent (first), error) &&
           apply_strip (settings, strip, progress, progress_data, first, error);

  g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED, "%s",
               _ ("A strip is made of one layer: choose one."));

  return FALSE;
}

void
zn_layers_recall (ZnLayers *layers, const gchar *procedure)
{
  const ZnFilter *filter = zn_filter_by_procedure (procedure);

  layers->where = zn_recent_where (procedure);
  if (layers->where == ZN_WHERE_USUAL && filter && filter->n_sliders)
    layers->where = ZN_WHERE_MASK; /* sliders are tried out: the picture stays below */
  layers->print_size = zn_recent_print_size ();
}

gboolean
zn_layers_dialog (ZnSettings **settings,
                  gchar      **preset,
                  const gchar *procedure,
                  const gchar *title,
                  ZnLayers    *layers,
                  GError     **error)
{
  ZnDialogHost    host    = { .help_id = procedure, .apply = zn_layers_apply, .data = layers };
  ZnViewPicture  *picture = &host.picture;
  const ZnItem    first   = layers->item[0];
  const ZnImage   image   = gimp_item_get_image (first);
  const ZnFilter *filter  = *settings ? (*settings)->filter : NULL;
  ZnSecond        second  = { named_layer, (gpointer) &first };
  gboolean        done;

  zn_apply_start (*settings, FALSE);
  zn_layers_recall (layers, procedure);
  if (gimp_item_is_layer (first) && ! (filter && filter->frames))
    host.where = &layers->where;
  if (filter && filter->whole_image)
    {
      host.print_size = &layers->print_size;
      zn_image_size (image, &host.width, &host.height);
    }
  picture->source = layers->source = zn_item_buffer (first);
  zn_apply_set_second (picture->source, &second);
  zn_item_offsets (first, &picture->offset_x, &picture->offset_y);
  zn_item_selected (first, &picture->selected);
  if (! gimp_selection_is_empty (image) && ! (filter && filter->enlarges))
    picture->selection = zn_image_selection (image);
  if (! host.width)
    {
      host.width  = gegl_buffer_get_width (picture->source);
      host.height = gegl_buffer_get_height (picture->source);
    }

  host.layers = other_layers (image, first);
  done        = zn_dialog_run (settings, preset, title, &host);
  if (! done)
    g_set_error (error, ZN_ERROR, ZN_ERROR_CANCELLED, _ ("%s was cancelled"), title);

  zn_apply_start (*settings, TRUE);
  layers->source = NULL;
  g_strfreev (host.layers);
  g_clear_object (&picture->selection);
  g_object_unref (picture->source);

  return done;
}
