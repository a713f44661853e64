/* SPDX-License-Identifier: MIT */
/* op-tiled.c - operations that answer any region from tiles.
 *
 *      + - - - - - - +     Tiles lie on one lattice that starts at the picture's
 *      :  +-------+  :     corner, so a pixel comes out the same whatever region
 *      :  | tile  |  :     is asked for.  What the network makes of a tile is
 *      :  +-------+  :     kept, found by a hash of the pixels that it depends
 *      + - - - - - - +     on: the tile and the halo around it.  Strength, luma,
 *           halo           chroma and detail are applied to that afterwards, so
 *                          that changing them never runs the network again.
 */

#include "config.h"

#include <math.h>
#include <string.h>

#include "op-blend.h"
#include "op-cache.h"
#include "op-common.h"
#include "op-engine.h"

#define TILE                                                                                       \
  768 /* pixels a side: more where the halo is wide, less where memory
                      * or the picture is small */

typedef struct
{
  ZnOpModel  *model;
  ZnOpPicture input;  /* the whole of it */
  zn_rect     bounds; /* ... from 0,0 */
  gint        tile;   /* side of a tile */
  gint        halo;
  gchar       set[3][32]; /* "sigma=12.5", ... */
  gint        n_set;
  GHashTable *keys; /* ZnOpKey of tiles that this request has met, by place */
} Tiling;

/* ---- geometry ------------------------------------------------------------- */

static zn_rect
rect_meet (zn_rect a, zn_rect b)
{
  GeglRectangle r = { a.x, a.y, a.w, a.h };

  gegl_rectangle_intersect (&r, &r, GEGL_RECTANGLE (b.x, b.y, b.w, b.h));

  return (zn_rect){ r.x, r.y, r.width, r.height };
}

static zn_rect
rect_grow (zn_rect r, gint by)
{
  return (zn_rect){ r.x - by, r.y - by, r.w + 2 * by, r.h + 2 * by };
}

static gint
round_up (gint value, gint multiple)
{
  return (value + multiple - 1) / multiple * multiple;
}

/* Everything but the input; FALSE and a sentence if there is nothing to run. */
static gboolean
tiling_init (Tiling *tiling, GeglOperation *operation, const ZnOpTask *task, zn_error *err)
{
  const zn_geometry *g;

  *tiling = (Tiling){
    NULL,
  };
  if (! zn_op_input_box (operation, &tiling->input.box, err))
    return FALSE;

  tiling->bounds = (zn_rect){ 0, 0, tiling->input.box.width, tiling->input.box.height };
  tiling->model  = zn_op_model_acquire (task->model, task->engine, err);
  if (! tiling->model)
    return FALSE;

  g = zn_op_model_geometry (tiling->model);
  if (g->in_c != 3 || g->out_c != 3 || g->shrink != g->grow)
    {
      g_snprintf (err->text, sizeof (err->text),
                  "The model '%s' does not make one picture of another.", task->model);
      return FALSE;
    }

  /* A tile of five halos a side has twice its pixels with its halo: more than that
   * shall not be computed for nothing.  Asked for what it would have taken itself,
   * or less, the engine does not cut our tiles into its own. */
  tiling->halo = round_up (MAX (g->halo, 0), MAX (g->multiple, 1));
  tiling->tile = zn_op_model_tile (tiling->model, tiling->bounds.w, tiling->bounds.h,
                                   MAX (TILE, 5 * tiling->halo));

  return TRUE;
}

static void
tiling_clear (Tiling *tiling)
{
  zn_op_model_release (tiling->model);
  if (tiling->keys)
    g_hash_table_unref (tiling->keys);
}

/* The tile that holds this pixel. */
static zn_rect
tile_at (const Tiling *tiling, gint x, gint y)
{
  const gint side = tiling->tile;
  zn_rect    tile = { x / side * side, y / side * side, side, side };

  return rect_meet (tile, tiling->bounds);
}

/* All of the input that the pixels of roi depend on, in picture coordinates. */
static zn_rect
tiles_reach (const Tiling *tiling, zn_rect roi)
{
  zn_rect first, last, all;

  roi = rect_meet (rect_grow (roi, ZN_OP_BLEND_REACH), tiling->bounds);
  if (roi.w <= 0 || roi.h <= 0)
    return roi;

  first = tile_at (tiling, roi.x, roi.y);
  last  = tile_at (tiling, roi.x + roi.w - 1, roi.y + roi.h - 1);
  all   = (zn_rect){ first.x, first.y, last.x + last.w - first.x, last.y + last.h - first.y };

  return rect_meet (rect_grow (all, tiling->halo), tiling->bounds);
}

/* ---- noise ---------------------------------------------------------------- */

#define SAMPLE 64 /* side of the blocks that tell whether a picture is the same */
#define GRID 12   /* ... of which there are so many a side, at most */

/* Where block i of n lies along a side. */
static void
sample_place (gint *start, gint *length, gint side, gint i, gint n)
{
  *length = MIN (side, SAMPLE);
  *start  = n > 1 ? (gint) ((gint64) (side - *length) * i / (n - 1)) : 0;
}

/* The noise of the picture, one number per channel, all tiles the same.  Asked
 * for at each request: what was found for a picture is kept, and a picture is
 * known by blocks that are spread over it, not by all of its pixels. */
static zn_status
measure_noise (Tiling *tiling, gfloat sigma[3], zn_error *err)
{
  const GeglRectangle *box    = &tiling->input.box;
  const gint           nx     = MIN (GRID, (box->width - 1) / SAMPLE + 1);
  const gint           ny     = MIN (GRID, (box->height - 1) / SAMPLE + 1);
  const gint           size[] = { box->width, box->height };
  const zn_source      source = { tiling->bounds.w, tiling->bounds.h, 3, zn_op_picture_read,
                                  &tiling->input };
  ZnOpKey              key    = { 0, 0 };
  GBytes              *kept;
  zn_status            status;

  zn_op_key_add_string (&key, "noise");
  zn_op_key_add_string (&key, babl_get_name (tiling->input.format));
  zn_op_key_add (&key, size, sizeof (size));
  for (gint i = 0; i < nx * ny; i++)
    {
      GeglRectangle r;

      sample_place (&r.x, &r.width, box->width, i % nx, nx);
      sample_place (&r.y, &r.height, box->height, i / nx, ny);
      r.x += box->x;
      r.y += box->y;
      zn_op_key_add_buffer (&key, tiling->input.buffer, &r, box);
    }

  kept = zn_op_cache_get (&key);
  if (kept)
    {
      memcpy (sigma, g_bytes_get_data (kept, NULL), 3 * sizeof (gfloat));
      g_bytes_unref (kept);
      return ZN_OK;
    }

  status = zn_noise_estimate (sigma, &source, err);
  if (status == ZN_OK)
    {
      /* In steps, or each brush stroke would make all tiles anew; not 0, which
       * would ask the engine to measure once more. */
      for (gint c = 0; c < 3; c++)
        sigma[c] = MAX (roundf (sigma[c] * 4.0f) / 4.0f, 0.25f);

      kept = g_bytes_new (sigma, 3 * sizeof (gfloat));
      zn_op_cache_put (&key, kept);
      g_bytes_unref (kept);
    }

  return status;
}

/* The settings of the network: the noise that the user gave, or measured. */
static zn_status
tiling_set (Tiling *tiling, GeglOperation *operation, const ZnOpTask *task, zn_error *err)
{
  static const gchar *const key[3]   = { "sigma", "sigma-g", "sigma-b" };
  gfloat                    sigma[3] = {
                       task->sigma,
  };
  zn_status status = ZN_OK;

  if (task->sigma < 0.0)
    return ZN_OK;

  tiling->n_set = 1;
  if (task->sigma == 0.0)
    {
      tiling->n_set = 3;
      status        = measure_noise (tiling, sigma, err);
    }
  if (! status)
    zn_op_set_measured (operation, task, task->sigma == 0.0 ? sigma : NULL);

  for (gint i = 0; i < tiling->n_set; i++)
    {
      gchar number[G_ASCII_DTOSTR_BUF_SIZE];

      g_ascii_formatd (number, sizeof (number), "%.3f", sigma[i]);
      g_snprintf (tiling->set[i], sizeof (tiling->set[i]), "%s=%s", key[i], number);
    }

  return status;
}

/* ---- the network ---------------------------------------------------------- */

typedef struct
{
  zn_rect rect;
  gfloat *rgb;
} Plane;

/* Copies what both have. */
static void
plane_copy (const Plane *dst, const gfloat *src, zn_rect src_rect)
{
  const zn_rect both = rect_meet (dst->rect, src_rect);

  for (gint y = both.y; y < both.y + both.h; y++)
    memcpy (dst->rgb + ((gsize) (y - dst->rect.y) * dst->rect.w + both.x - dst->rect.x) * 3,
            src + ((gsize) (y - src_rect.y) * src_rect.w + both.x - src_rect.x) * 3,
            (gsize) both.w * 3 * sizeof (gfloat));
}

static bool
plane_write (void *cookie, zn_rect r, const float *src)
{
  plane_copy (cookie, src, r);

  return true;
}

/* Runs the network for a tile; NULL and *status on failure. */
static GBytes *
tile_run (Tiling *tiling, zn_rect tile, ZnOpProgress *progress, zn_status *status, zn_error *err)
{
  const gsize     size   = (gsize) tile.w * tile.h * 3 * sizeof (gfloat);
  Plane           plane  = { tile, g_try_malloc (size) };
  const zn_source source = { tiling->bounds.w, tiling->bounds.h, 3, zn_op_picture_read,
                             &tiling->input };
  const zn_sink   sink   = { plane_write, &plane };
  const gchar    *set[3] = { tiling->set[0], tiling->set[1], tiling->set[2] };
  const zn_job    job    = { .set      = set,
                             .n_set    = tiling->n_set,
                             .tile     = tiling->tile,
                             .progress = zn_op_progress,
                             .cookie   = progress };

  *status = plane.rgb ? zn_op_model_run (tiling->model, &sink, &source, tile, &job, err)
                      : ZN_E_MEMORY;
  if (*status == ZN_OK)
    return g_bytes_new_take (plane.rgb, size);

  g_free (plane.rgb);

  return NULL;
}

/* Of all that the network's output for a tile depends on.  A tile's neighbours ask
 * for it again, for detail; hashing takes longer than blending. */
static ZnOpKey
tile_key (Tiling *tiling, zn_rect tile)
{
  const zn_rect        read = rect_meet (rect_grow (tile, tiling->halo), tiling->bounds);
  const GeglRectangle *box  = &tiling->input.box;
  const GeglRectangle  area = { box->x + read.x, box->y + read.y, read.w, read.h };
  const gint at[]  = { tile.x, tile.y, tile.w, tile.h, tiling->bounds.w, tiling->bounds.h };
  gint64     place = (gint64) tile.y << 32 | tile.x;
  ZnOpKey   *known;
  ZnOpKey    key = { 0, 0 };

  if (! tiling->keys)
    tiling->keys = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, g_free);
  known = g_hash_table_lookup (tiling->keys, &place);
  if (known)
    return *known;

  zn_op_key_add_string (&key, zn_op_model_name (tiling->model));
  for (gint i = 0; i < tiling->n_set; i++)
    zn_op_key_add_string (&key, tiling->set[i]);
  zn_op_key_add_string (&key, babl_get_name (tiling->input.format));
  zn_op_key_add (&key, at, sizeof (at));
  zn_op_key_add_buffer (&key, tiling->input.buffer, &area, box);
  g_hash_table_insert (tiling->keys, g_memdup2 (&place, sizeof (place)),
                       g_memdup2 (&key, sizeof (key)));

  return key;
}

/* What the network makes of a tile, kept or new. */
static GBytes *
tile_get (Tiling *tiling, zn_rect tile, ZnOpProgress *progress, zn_status *status, zn_error *err)
{
  const ZnOpKey key = tile_key (tiling, tile);
  GBytes       *bytes;

  bytes = zn_op_cache_get (&key);
  if (bytes)
    return bytes;

  *status = ZN_E_DEVICE;
  if (! zn_op_engine_enter (err))
    return NULL;

  bytes = zn_op_cache_get (&key); /* another thread had the same wish */
  if (! bytes)
    {
      bytes = tile_run (tiling, tile, progress, status, err);
      if (bytes)
        zn_op_cache_put (&key, bytes);
    }
  zn_op_engine_leave ();

  return bytes;
}

static gint
next_tile (const Tiling *tiling, gint at)
{
  return (at / tiling->tile + 1) * tiling->tile;
}

/* What the network makes of a region, which may lie in several tiles. */
static gboolean
tiles_gather (Tiling       *tiling,
              const Plane  *plane,
              ZnOpProgress *progress,
              zn_status    *status,
              zn_error     *err)
{
  const zn_rect r = plane->rect;

  for (gint y = r.y; y < r.y + r.h; y = next_tile (tiling, y))
    for (gint x = r.x; x < r.x + r.w; x = next_tile (tiling, x))
      {
        zn_rect tile  = tile_at (tiling, x, y);
        GBytes *bytes = tile_get (tiling, tile, progress, status, err);

        if (! bytes)
          return FALSE;
        plane_copy (plane, g_bytes_get_data (bytes, NULL), tile);
        g_bytes_unref (bytes);
      }

  return TRUE;
}

/* ---- blending ------------------------------------------------------------- */

/* Writes the pixels of want, which lie in one tile. */
static gboolean
tile_process (Tiling         *tiling,
              const ZnOpTask *task,
              GeglBuffer     *output,
              zn_rect         want,
              ZnOpProgress   *progress,
              zn_status      *status,
              zn_error       *err)
{
  const gint    apron = zn_op_blend_reach (task);
  const zn_rect part  = rect_meet (rect_grow (want, apron), tiling->bounds);
  const zn_rect tile  = tile_at (tiling, want.x, want.y);
  Plane         plane = { part, NULL };
  GBytes       *bytes = NULL;
  ZnOpBlend     blend = { task, tile, NULL };

  if (apron)
    {
      plane.rgb = gegl_malloc ((gsize) part.w * part.h * 3 * sizeof (gfloat));
      if (tiles_gather (tiling, &plane, progress, status, err))
        blend = (ZnOpBlend){ task, part, plane.rgb };
    }
  else
    {
      bytes = tile_get (tiling, tile, progress, status, err);
      if (bytes)
        blend.net = g_bytes_get_data (bytes, NULL);
    }

  if (blend.net)
    zn_op_picture_write (&tiling->input, output, want, apron, zn_op_blend_strip, &blend);

  if (bytes)
    g_bytes_unref (bytes);
  if (plane.rgb)
    gegl_free (plane.rgb);

  return blend.net != NULL;
}

/* ---- methods -------------------------------------------------------------- */

static void
prepare (GeglOperation *operation)
{
  const Babl *format = zn_op_picture_format (operation);
  zn_error    err    = { "" };
  Tiling      tiling;
  ZnOpTask    task;

  gegl_operation_set_format (operation, "input", format);
  gegl_operation_set_format (operation, "output", format);

  zn_op_describe (operation, &task);
  if (! tiling_init (&tiling, operation, &task, &err) && tiling.input.box.width > 0)
    zn_op_set_status (operation, &task, err.text);
  tiling_clear (&tiling);
}

/* What a region of the output depends on and, as all reaches as far in both
 * directions, what a region of the input changes; all of the picture, if its
 * noise is to be measured. */
static GeglRectangle
get_reach (GeglOperation *operation, const gchar *pad, const GeglRectangle *roi)
{
  zn_error      err = { "" };
  Tiling        tiling;
  ZnOpTask      task;
  zn_rect       r;
  GeglRectangle reach;

  zn_op_describe (operation, &task);
  if (! tiling_init (&tiling, operation, &task, &err))
    {
      reach = *roi;
    }
  else if (task.sigma == 0.0)
    {
      reach = tiling.input.box;
    }
  else
    {
      /* cut first: what GEGL invalidates may have no end */
      gegl_rectangle_intersect (&reach, roi, &tiling.input.box);
      r     = tiles_reach (&tiling,
                           (zn_rect){ reach.x - tiling.input.box.x, reach.y - tiling.input.box.y,
                                      reach.width, reach.height });
      reach = *GEGL_RECTANGLE (r.x + tiling.input.box.x, r.y + tiling.input.box.y, r.w, r.h);
    }
  tiling_clear (&tiling);

  return reach;
}

static gint
tiles_along (const Tiling *tiling, gint start, gint length)
{
  return (start + length - 1) / tiling->tile - start / tiling->tile + 1;
}

static zn_status
process_tiles (Tiling         *tiling,
               const ZnOpTask *task,
               GeglOperation  *operation,
               GeglBuffer     *output,
               zn_rect         roi,
               zn_error       *err)
{
  const gint   n_tiles  = tiles_along (tiling, roi.x, roi.w) * tiles_along (tiling, roi.y, roi.h);
  ZnOpProgress progress = { operation, 0.0, n_tiles > 1 ? 1.0 / n_tiles : 0.0, 0.0 };
  zn_status    status   = tiling_set (tiling, operation, task, err);
  gint         done     = 0;

  if (status)
    return status;
  if (n_tiles > 1) /* a bar for one tile would only flicker */
    zn_op_show_progress (operation, 0.0);

  for (gint y = roi.y; y < roi.y + roi.h; y = next_tile (tiling, y))
    for (gint x = roi.x; x < roi.x + roi.w; x = next_tile (tiling, x))
      {
        progress.start = (gdouble) done++ / n_tiles;
        if (! tile_process (tiling, task, output, rect_meet (tile_at (tiling, x, y), roi),
                            &progress, &status, err))
          return status;
      }

  if (n_tiles > 1)
    zn_op_show_progress (operation, 1.0);

  return ZN_OK;
}

static gboolean
process (GeglOperation        *operation,
         GeglOperationContext *context,
         const gchar          *pad,
         const GeglRectangle  *result,
         gint                  level)
{
  GObject  *input  = gegl_operation_context_get_object (context, "input");
  zn_status status = ZN_E_USAGE;
  zn_error  err    = { "" };
  Tiling    tiling;
  ZnOpTask  task;
  zn_rect   roi;

  zn_op_describe (operation, &task);
  if (tiling_init (&tiling, operation, &task, &err))
    {
      if (task.strength == 0.0 || (task.luma == 0.0 && task.chroma == 0.0))
        {
          gegl_operation_context_set_object (context, "output", input);
          status = ZN_OK;
        }
      else
        {
          tiling.input.buffer = GEGL_BUFFER (input);
          tiling.input.format = zn_op_picture_format (operation);
          roi    = (zn_rect){ result->x - tiling.input.box.x, result->y - tiling.input.box.y,
                              result->width, result->height };
          status = process_tiles (&tiling, &task, operation,
                                  gegl_operation_context_get_target (context, "output"),
                                  rect_meet (roi, tiling.bounds), &err);
        }
    }
  tiling_clear (&tiling);

  return status ? zn_op_fail (operation, &task, context, status, &err)
                : zn_op_succeed (operation, &task);
}

void
zn_op_tiled_class_init (GeglOperationClass *klass, ZnOpDescribe describe)
{
  zn_op_set_describe (klass, describe);

  klass->prepare                   = prepare;
  klass->process                   = process;
  klass->get_required_for_output   = get_reach;
  klass->get_invalidated_by_change = get_reach;
}
