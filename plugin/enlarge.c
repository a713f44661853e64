/* SPDX-License-Identifier: MIT
 *
 * enlarge.c - see the header.
 */
#include "enlarge.h"

#include <glib/gi18n-lib.h>

#include "zenith-settings.h"

#define MAX_SIDE 262144 /* of an image, in GIMP 2.10 */

typedef struct
{
  ZnItem      layer;
  GeglBuffer *made; /* its pixels, enlarged */
} Enlarged;

/* Progress over the layers, weighed by their pixels. */
typedef struct
{
  ZnProgress progress;
  gpointer   data;
  gdouble    before, share; /* of all pixels: those that are done, those of this layer */
} Bar;

static gboolean
show (gdouble fraction, gpointer data)
{
  const Bar *bar = data;

  fraction = bar->before + bar->share * fraction;
  gimp_progress_update (fraction);

  return ! bar->progress || bar->progress (fraction, bar->data);
}

/* The layers that have pixels, wherever they are. */
static void
collect (GArray *list, ZnImage image, ZnItem group)
{
  guint   n;
  ZnItem *items = zn_image_items (image, group, &n);

  for (guint i = 0; i < n; i++)
    if (gimp_item_is_group (items[i]))
      collect (list, image, items[i]);
    else
      g_array_append_val (list, ((Enlarged){ items[i], NULL }));
  g_free (items);
}

static gdouble
n_pixels (ZnItem layer)
{
  GeglBuffer   *buffer = zn_item_buffer (layer);
  const gdouble n      = (gdouble) gegl_buffer_get_width (buffer) * gegl_buffer_get_height (buffer);

  g_object_unref (buffer);

  return n;
}

static gboolean
compute (const ZnSettings *settings, GArray *list, Bar *bar, GError **error)
{
  gdouble  all  = 0.0;
  gboolean done = TRUE;

  for (guint i = 0; i < list->len; i++)
    all += n_pixels (g_array_index (list, Enlarged, i).layer);

  for (guint i = 0; done && i < list->len; i++)
    {
      Enlarged   *e      = &g_array_index (list, Enlarged, i);
      GeglBuffer *source = zn_item_buffer (e->layer);

      bar->share = n_pixels (e->layer) / all;
      e->made    = zn_apply_to_layer (settings, source, show, bar, error);
      done       = e->made != NULL;
      bar->before += bar->share;
      g_object_unref (source);
    }

  return done;
}

/* GIMP has scaled the layer; these are better pixels.  A layer that has another size now (GIMP draws it
 * anew, from text for example) keeps its own. */
static void
write_pixels (const Enlarged *e)
{
  const GeglRectangle *box    = gegl_buffer_get_extent (e->made);
  const gboolean       locked = gimp_item_get_lock_content (e->layer);
  GeglBuffer          *pixels;

  if (locked)
    gimp_item_set_lock_content (e->layer, FALSE);
  pixels = zn_item_buffer (e->layer);
  if (gegl_rectangle_equal (gegl_buffer_get_extent (pixels), box))
    gegl_buffer_copy (e->made, box, GEGL_ABYSS_NONE, pixels, box);
  g_object_unref (pixels);
  zn_item_update (e->layer, box);
  if (locked)
    gimp_item_set_lock_content (e->layer, TRUE);
}

static void
scale_resolution (ZnImage image, gint scale)
{
  gdouble x, y;

  gimp_image_get_resolution (image, &x, &y);
  gimp_image_set_resolution (image, x * scale, y * scale);
}

void
zn_enlarge_canvas (ZnImage image, const GeglRectangle *part)
{
  GeglRectangle canvas = { 0, 0, 0, 0 };
  GeglRectangle both;

  zn_image_size (image, &canvas.width, &canvas.height);
  gegl_rectangle_bounding_box (&both, &canvas, part);
  if (! gegl_rectangle_equal (&both, &canvas))
    gimp_image_resize (image, both.width, both.height, -both.x, -both.y);
}

gboolean
zn_enlarge_image (const ZnSettings *settings,
                  ZnImage           image,
                  gboolean          print_size,
                  ZnProgress        progress,
                  gpointer          progress_data,
                  GError          **error)
{
  const gint scale = zn_settings_scale (settings);
  GArray    *list  = g_array_new (FALSE, FALSE, sizeof (Enlarged));
  Bar        bar   = { progress, progress_data, 0.0, 1.0 };
  gboolean   done;
  gint       width, height;

  zn_image_size (image, &width, &height);
  if (MAX (width, height) > MAX_SIDE / scale)
    {
      g_set_error (error, ZN_ERROR, ZN_ERROR_FAILED,
                   _ ("The image would have a side of more than %d pixels"), MAX_SIDE);
      g_array_free (list, TRUE);
      return FALSE;
    }

  collect (list, image, ZN_NO_ITEM);
  gimp_progress_init (_ (settings->filter->title));
  done = compute (settings, list, &bar, error);
  if (done)
    {
      gimp_image_undo_group_start (image);
      gimp_image_scale (image, width * scale, height * scale);
      for (guint i = 0; i < list->len; i++)
        write_pixels (&g_array_index (list, Enlarged, i));
      if (print_size)
        scale_resolution (image, scale);
      gimp_image_undo_group_end (image);
    }
  gimp_progress_end ();
  for (guint i = 0; i < list->len; i++)
    g_clear_object (&g_array_index (list, Enlarged, i).made);
  g_array_free (list, TRUE);

  return done;
}
