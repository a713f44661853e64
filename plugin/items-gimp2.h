/* SPDX-License-Identifier: MIT
 *
 * items-gimp2.h - images, layers, masks and channels of GIMP 2.10 in the names of layers.c.
 */
#ifndef __ZENITH_ITEMS_GIMP2_H__
#define __ZENITH_ITEMS_GIMP2_H__

#include <gegl.h>
#include <libgimp/gimp.h>

typedef gint32 ZnImage;
typedef gint32 ZnItem;

#define ZN_NO_ITEM (-1)

/* Why a group is refused. */
#define ZN_GROUP_REFUSAL                                                                           \
  N_ ("A layer group has no pixels of its own in GIMP 2.10; choose one of "                        \
      "its layers, or merge the group")

static inline gboolean
zn_item_selected (ZnItem item, GeglRectangle *roi)
{
  return gimp_drawable_mask_intersect (item, &roi->x, &roi->y, &roi->width, &roi->height);
}

/* A script may pass -1, or a layer that is in no image: then there is no extent to select in. */
static inline gboolean
zn_item_is_there (ZnItem item)
{
  GeglRectangle roi;

  return gimp_item_is_valid (item) &&
         (zn_item_selected (item, &roi) || ! gimp_selection_is_empty (gimp_item_get_image (item)));
}

static inline ZnItem
zn_item_of_mask (ZnItem mask)
{
  return gimp_layer_from_mask (mask);
}

static inline gboolean
zn_item_is_indexed (ZnItem item)
{
  return gimp_drawable_is_indexed (item);
}

static inline void
zn_item_offsets (ZnItem item, gint *x, gint *y)
{
  gimp_drawable_offsets (item, x, y);
}

static inline GeglBuffer *
zn_item_buffer (ZnItem item)
{
  return gimp_drawable_get_buffer (item);
}

static inline GeglBuffer *
zn_item_shadow (ZnItem item)
{
  return gimp_drawable_get_shadow_buffer (item);
}

static inline void
zn_item_free_shadow (ZnItem item)
{
  gimp_drawable_free_shadow (item);
}

static inline void
zn_item_merge_shadow (ZnItem item)
{
  gimp_drawable_merge_shadow (item, TRUE);
}

static inline void
zn_item_update (ZnItem item, const GeglRectangle *roi)
{
  gimp_drawable_update (item, roi->x, roi->y, roi->width, roi->height);
}

static inline ZnItem
zn_layer_copy (ZnItem layer)
{
  return gimp_layer_copy (layer);
}

static inline ZnItem
zn_layer_new (ZnImage image, const gchar *name, gint width, gint height, GimpImageType type)
{
  return gimp_layer_new (image, name, width, height, type, 100.0, GIMP_LAYER_MODE_NORMAL);
}

/* parent: a group, or ZN_NO_ITEM. */
static inline void
zn_layer_insert (ZnImage image, ZnItem layer, ZnItem parent, gint position)
{
  gimp_image_insert_layer (image, layer, parent, position);
}

static inline void
zn_layer_set_offsets (ZnItem layer, gint x, gint y)
{
  gimp_layer_set_offsets (layer, x, y);
}

/* ZN_NO_ITEM: there is none. */
static inline ZnItem
zn_layer_named (ZnImage image, const gchar *name)
{
  return gimp_image_get_layer_by_name (image, name);
}

/* Of the image, about its own corner. */
static inline void
zn_layer_scale (ZnItem layer, gint width, gint height)
{
  gimp_layer_scale (layer, width, height, FALSE);
}

/* The selection, or all if there is none, becomes the layer's mask; the one that it has is applied.  What comes
 * next, a filter or a brush, is for the layer. */
static inline void
zn_layer_mask_selection (ZnImage image, ZnItem layer)
{
  if (gimp_layer_get_mask (layer) != ZN_NO_ITEM)
    gimp_layer_remove_mask (layer, GIMP_MASK_APPLY);
  gimp_layer_add_mask (layer, gimp_layer_create_mask (layer, gimp_selection_is_empty (image)
                                                                 ? GIMP_ADD_MASK_WHITE
                                                                 : GIMP_ADD_MASK_SELECTION));
  gimp_layer_set_edit_mask (layer, FALSE);
}

/* The items of a group, or the image's layers where that is ZN_NO_ITEM; free them. */
static inline ZnItem *
zn_image_items (ZnImage image, ZnItem group, guint *n)
{
  gint    count = 0;
  ZnItem *items = group == ZN_NO_ITEM ? gimp_image_get_layers (image, &count)
                                      : gimp_item_get_children (group, &count);

  *n = (guint) count;

  return items;
}

static inline void
zn_image_size (ZnImage image, gint *width, gint *height)
{
  *width  = gimp_image_width (image);
  *height = gimp_image_height (image);
}

static inline GimpImageBaseType
zn_image_base_type (ZnImage image)
{
  return gimp_image_base_type (image);
}

static inline GeglBuffer *
zn_image_selection (ZnImage image)
{
  return gimp_drawable_get_buffer (gimp_image_get_selection (image));
}

#endif /* __ZENITH_ITEMS_GIMP2_H__ */
