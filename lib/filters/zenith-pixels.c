/* SPDX-License-Identifier: MIT */
/* zenith-pixels.c - see the header. */

#include <gegl.h>
#include <gegl-plugin.h>

#include "zenith-pixels.h"
#include "zenith_number.h"

#define STRIP_ROWS 64 /* in memory at a time */
#define DEST_KEY "zenith-dest"
#define SINK "zenith:pixels-sink"

/* The format of floats that the format's samples are rounded from; NULL: babl does it. */
static const Babl *
full_format (const Babl *format)
{
  const gchar *full = zn_samples_full (babl_format_get_encoding (format));

  return full ? babl_format_with_space (full, babl_format_get_space (format)) : NULL;
}

/* Grey, and alpha if there is, in the place of RGB. */
static void
make_grey (gfloat *pixels, gsize n, gint components, const Babl *space)
{
  gfloat *to = pixels;
  gdouble r, g, b;

  babl_space_get_rgb_luminance (space, &r, &g, &b);
  for (; n; n--, pixels += components)
    {
      *to++ = (gfloat) (r * pixels[0] + g * pixels[1] + b * pixels[2]);
      if (components == 4)
        *to++ = pixels[3];
    }
}

void
zn_pixels_get (GeglBuffer *buffer, const GeglRectangle *rect, const Babl *format, gpointer pixels)
{
  const Babl *full       = gegl_buffer_get_format (buffer) == format ? NULL : full_format (format);
  const gsize n          = (gsize) rect->width * rect->height;
  const gint  components = babl_format_get_n_components (format);
  gint        of_full;
  gfloat     *values;

  if (! full)
    {
      gegl_buffer_get (buffer, rect, 1.0, format, pixels, GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);
      return;
    }

  of_full = babl_format_get_n_components (full);
  values  = gegl_malloc (n * of_full * sizeof (gfloat));
  gegl_buffer_get (buffer, rect, 1.0, full, values, GEGL_AUTO_ROWSTRIDE, GEGL_ABYSS_NONE);
  if (components < of_full)
    make_grey (values, n, of_full, babl_format_get_space (format));
  zn_samples_write (pixels, values, n * components,
                    babl_format_get_bytes_per_pixel (format) / components);
  gegl_free (values);
}

void
zn_pixels_copy (GeglBuffer *from, const GeglRectangle *rect, GeglBuffer *to)
{
  const Babl *format = gegl_buffer_get_format (to);
  gpointer    pixels;

  if (gegl_buffer_get_format (from) == format || ! full_format (format))
    {
      gegl_buffer_copy (from, rect, GEGL_ABYSS_NONE, to, rect);
      return;
    }

  pixels = gegl_malloc ((gsize) rect->width * MIN (rect->height, STRIP_ROWS) *
                        babl_format_get_bytes_per_pixel (format));
  for (gint y = 0; y < rect->height; y += STRIP_ROWS)
    {
      const GeglRectangle strip = { rect->x, rect->y + y, rect->width,
                                    MIN (rect->height - y, STRIP_ROWS) };

      zn_pixels_get (from, &strip, format, pixels);
      gegl_buffer_set (to, &strip, 0, format, pixels, GEGL_AUTO_ROWSTRIDE);
    }
  gegl_free (pixels);
}

/* ---- the sink ------------------------------------------------------------- */

typedef GeglOperationSink      ZnPixelsSink;
typedef GeglOperationSinkClass ZnPixelsSinkClass;

GType zn_pixels_sink_get_type (void);
G_DEFINE_TYPE (ZnPixelsSink, zn_pixels_sink, GEGL_TYPE_OPERATION_SINK)

static gboolean
process (GeglOperation *operation, GeglBuffer *input, const GeglRectangle *result, gint level)
{
  zn_pixels_copy (input, result, g_object_get_data (G_OBJECT (operation->node), DEST_KEY));

  return TRUE;
}

static void
zn_pixels_sink_class_init (ZnPixelsSinkClass *klass)
{
  klass->process    = process;
  klass->needs_full = FALSE;
  gegl_operation_class_set_keys (GEGL_OPERATION_CLASS (klass), "name", SINK, NULL);
}

static void
zn_pixels_sink_init (ZnPixelsSink *sink)
{
}

GeglNode *
zn_pixels_sink (GeglNode *graph, GeglBuffer *buffer)
{
  static gpointer known; /* GEGL finds it by its name from then on */
  GeglNode       *node;

  if (g_once_init_enter (&known))
    g_once_init_leave (&known, g_type_class_ref (zn_pixels_sink_get_type ()));
  node = gegl_node_new_child (graph, "operation", SINK, NULL);
  g_object_set_data_full (G_OBJECT (node), DEST_KEY, g_object_ref (buffer), g_object_unref);

  return node;
}
