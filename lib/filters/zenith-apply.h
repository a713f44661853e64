/* SPDX-License-Identifier: MIT
 *
 * zenith-apply.h - run a filter's GEGL operation over buffers.
 *
 *   source buffer -> operation -> the region wanted
 *
 * The whole source is offered to the operation, whatever region is wanted: a
 * network looks at the surroundings of each pixel, and so the result inside a
 * selection is the same as without one.
 */
#ifndef __ZENITH_APPLY_H__
#define __ZENITH_APPLY_H__

#include <gegl.h>

#include "zenith-settings.h"

/* Called now and then with 0..1, on the caller's thread; may run the main
 * loop.  Return FALSE to give up.
 */
typedef gboolean (*ZnProgress) (gdouble fraction, gpointer data);

/* Asks for tiles of that many pixels a side where an operation works in tiles, for all
 * runs with this source.  Larger ones compute less twice; but the operation keeps what it
 * computed by tiles, so that a preview's are of no use to a run with others.
 */
void zn_apply_set_tile (GeglBuffer *source, gint side);

/* For all runs with this source of an operation that samples step by step: show() is called
 * now and then with what the result would be by now, of the source's size, gone after the
 * call.  The first one comes after a few steps.  NULL: no more.
 */
typedef struct
{
  void (*show) (gpointer data, GeglBuffer *estimate);
  gpointer data;
} ZnEstimate;

void zn_apply_set_estimate (GeglBuffer *source, ZnEstimate *estimate);

/* The region roi of the result, written to the same place of dest.  On failure (with the
 * operation's own message) or cancellation the content of dest there is undefined.  A result that
 * differs from the request (the CPU replaced a lost GPU) is a success; a message says so.
 */
gboolean zn_apply_to_buffer (const ZnSettings    *settings,
                             GeglBuffer          *source,
                             const GeglRectangle *roi,
                             GeglBuffer          *dest,
                             ZnProgress           progress,
                             gpointer             data,
                             GError             **error);

/* The selection, for filters that make a layer, for all runs with this source: selection
 * is the image's mask, and the source lies at this offset in the image.  NULL: everything.
 */
typedef struct
{
  GeglBuffer *selection;
  gint        offset_x, offset_y;
} ZnMask;

void zn_apply_set_mask (GeglBuffer *source, ZnMask *mask);

/* The part of the source that is selected, for filters that make a layer from nothing, for all runs
 * with this source: the layer is the largest square in it.  NULL: of its own size.
 */
void zn_apply_set_place (GeglBuffer *source, const GeglRectangle *selected);

/* Second pictures that are not files, for all runs with this source of a filter that takes one:
 * layer() gives the one that the property 'path' names, to be unreferenced, or NULL: it is a file.
 */
typedef struct
{
  GeglBuffer *(*layer) (gpointer data, const gchar *name);
  gpointer data;
} ZnSecond;

void zn_apply_set_second (GeglBuffer *source, const ZnSecond *second);

/* Whether the filter makes its layer from nothing: there is no selection and the whole source may
 * change.
 */
gboolean zn_apply_is_new (const ZnSettings *settings, GeglBuffer *source);

/* The layer that a filter makes: of the source's place and size, with its pixels where
 * nothing is selected, or, if it is new or larger, of its own size, at 0,0 or at the place that was
 * set; the pictures of a property 'n' side by side.  To be unreferenced; NULL: it failed or was cancelled.
 */
GeglBuffer *zn_apply_to_layer (const ZnSettings *settings,
                               GeglBuffer       *source,
                               ZnProgress        progress,
                               gpointer          data,
                               GError          **error);

/* Whether a filter that makes a layer finds all it needs, with any prompt; nothing is
 * computed.
 */
gboolean zn_apply_check (const ZnSettings *settings, GeglBuffer *source, GError **error);

/* The region roi of n results between position 0, which is the source, and 1: dest[0] to
 * dest[n - 2], to be unreferenced by the caller.  All of them, or none.
 */
gboolean zn_apply_strip (const ZnSettings    *settings,
                         gint                 n,
                         GeglBuffer          *source,
                         const GeglRectangle *roi,
                         GeglBuffer         **dest,
                         ZnProgress           progress,
                         gpointer             data,
                         GError             **error);

/* The frame of a face: its centre and its side in pixels, its angle in degrees, clockwise. */
typedef struct
{
  gdouble x, y, size, angle;
} ZnFrame;

/* The noise of a picture, of 255, or what else is wrong with it. */
typedef struct
{
  gdouble mean; /* of red, green and blue; < 0: none was measured */
  gchar  *text; /* for people: each of them, or all that was found, or NULL; free it */
} ZnNoise;

/* The engine and the precision that made a buffer's pixels ("avx2 fp32"), for one that was the
 * result of a filter; "": no network ran, or its result was kept. */
const gchar *zn_apply_computed_by (GeglBuffer *result);

#define ZN_FACES_MAX 16

/* What an operation measured in the picture. */
typedef struct
{
  ZnNoise  noise;
  gboolean has_frame;
  ZnFrame  frame; /* of the source */
  guint    n_faces;
  ZnFrame  face[ZN_FACES_MAX]; /* all that were found, the largest first */
  gchar   *note;               /* what to know about the result, or NULL; free it */
} ZnFound;

/* The same into memory, for a preview: width * height pixels of R'G'B'A u8; of an enlarged picture
 * zn_settings_scale() times as many in each row and column.
 *
 * An operation that can compute any region (preview_margin 0) is asked for exactly this one.  One
 * that always computes the whole picture gets a piece of it, the region and at most preview_margin
 * pixels around it, in whole cells of the engine's grid: what is shown is the true result as far as the
 * network's view does not reach beyond the margin.
 *
 * selected: the part of the source that is selected, for filters that take just it, and
 * where noise is measured.
 *
 * *found is there after a failure, too.
 */
gboolean zn_apply_to_pixels (const ZnSettings    *settings,
                             GeglBuffer          *source,
                             const GeglRectangle *selected,
                             const GeglRectangle *roi,
                             guchar              *rgba,
                             ZnFound             *found,
                             ZnProgress           progress,
                             gpointer             data,
                             GError             **error);

/* Starts the engine that the settings name (NULL: the usual one), in the background.  wait: until it is there; before a process
 * ends, a driver must not be starting. */
void zn_apply_start (const ZnSettings *settings, gboolean wait);

/* Why this machine does not have an engine ("avx2"), or NULL: it does.  Free it. */
gchar *zn_engine_missing (const gchar *nick);

/* The names that a filter's property 'attribute' may have, NULL at the end, or NULL: it has no
 * such property.  Free it with g_strfreev().
 */
gchar **zn_attributes (const ZnSettings *settings);

/* The noise of the picture, or of the part that is selected, whatever level the settings give:
 * *noise.  FALSE: the filter measures none, or was stopped.
 */
gboolean zn_apply_measure (const ZnSettings    *settings,
                           GeglBuffer          *source,
                           const GeglRectangle *selected,
                           ZnNoise             *noise,
                           ZnProgress           progress,
                           gpointer             data);

#endif /* __ZENITH_APPLY_H__ */
