/* SPDX-License-Identifier: MIT */
/* op-tiled.c - operations that answer any region from tiles: the engine's composites denoise, restore and
 * upscale on buffers.
 *
 * What the network changes is kept in cells of the plan's grid (zn_grid in zenith.h).  A cell is found by a
 * hash of the pixels that it depends on: the cell and the halo around it.  Strength, luma, chroma and detail
 * are applied to that afterwards, so that changing them never runs the network again.
 *
 * 1. A pixel comes out the same whatever region is asked for: the grid and the composite see to that.
 * 2. What is missing of the cells that a request needs is computed in one run, if it fits into a tile,
 *    or else tile by tile.
 */

#include "config.h"

#include <glib/gi18n-lib.h>

#include "op-cache.h"
#include "op-common.h"
#include "op-engine.h"
#include "op-enlarge.h"
#include "op-noise.h"

typedef struct
{
  ZnOpTiled              task;
  const zn_enhance_plan *plan; /* the task's */
  const zn_grid         *grid; /* the plan's */
  ZnOpRequest           *request;
  ZnOpPicture            input;  /* the whole of it */
  zn_source              source; /* the same for the engine */
  zn_enhance_result      result; /* of the networks that ran */
  zn_rect                area;   /* whole cells: all that the request needs, widened */
  zn_key                *blocks; /* hashes of the pixels of cells, 0 if not known yet, in rows of */
  gint                   block_x, block_y, block_w; /* block_w, from this one on */
} Tiling;

/* A host that runs whole pictures and shows nothing meanwhile can ask for larger tiles,
 * of which less is halo: object data "zenith-tile" of the node, pixels a side. */
static gint
wanted_side (GeglOperation *operation)
{
  return operation->node
             ? GPOINTER_TO_INT (g_object_get_data (G_OBJECT (operation->node), "zenith-tile"))
             : 0;
}

/* Everything except the input; FALSE and a message if there is nothing to run. */
static gboolean
tiling_init (Tiling *tiling, GeglOperation *operation, zn_error *err)
{
  GeglRectangle *box = &tiling->input.box;
  gboolean       has_input;

  *tiling      = (Tiling){ .task = { .side = 0 } };
  tiling->plan = &tiling->task.plan;
  tiling->grid = &tiling->task.plan.grid;
  has_input    = zn_op_input_box (operation, box, err);
  if (has_input)
    {
      tiling->task.width  = box->width;
      tiling->task.height = box->height;
    }
  tiling->task.side = wanted_side (operation);
  zn_op_describe (operation, &tiling->task); /* without a picture: for the base */
  if (has_input)
    *err = tiling->task.refusal;
  tiling->source = (zn_source){ box->width, box->height, 3,
                                tiling->grid->scale > 1 ? zn_op_enlarge_read : zn_op_picture_read,
                                &tiling->input };

  return has_input && ! tiling->task.status;
}

/* The noise of the picture, if the network is told it. */
static zn_status
tiling_measure (Tiling *tiling)
{
  zn_noise_table *noise  = &tiling->result.noise;
  zn_status       status = ZN_OK;

  if (tiling->plan->how.seeks_noise)
    status = zn_op_noise_measure (tiling->request, tiling->plan, &tiling->input, noise);
  if (! status)
    zn_op_set_measured (tiling->request->operation, &tiling->task,
                        tiling->plan->how.seeks_noise ? noise : NULL);

  return status;
}

/* ---- the hashes of blocks: the pixels of a cell each ---------------------- */

/* Blocks, as their numbers, that meet the halo around an area. */
static zn_rect
blocks_around (const Tiling *tiling, zn_rect area)
{
  const gint    side = tiling->grid->cell;
  const zn_rect r    = zn_grid_around (tiling->grid, area);

  return (zn_rect){ r.x / side, r.y / side, (r.w + side - 1) / side, (r.h + side - 1) / side };
}

/* Room for the blocks that the request may look at, none of them hashed yet. */
static void
blocks_init (Tiling *tiling)
{
  const zn_rect all = blocks_around (tiling, tiling->area);

  tiling->block_x = all.x;
  tiling->block_y = all.y;
  tiling->block_w = all.w;
  tiling->blocks  = g_new0 (zn_key, (gsize) all.w * all.h);
}

static zn_key *
block_at (const Tiling *tiling, gint bx, gint by)
{
  return tiling->blocks + (gsize) (by - tiling->block_y) * tiling->block_w + bx - tiling->block_x;
}

/* Hashes those around an area that are not hashed yet. */
static void
blocks_hash (Tiling *tiling, zn_rect area)
{
  const GeglRectangle *box   = &tiling->input.box;
  const zn_rect        all   = blocks_around (tiling, area);
  const gint           side  = tiling->grid->cell;
  GeglRectangle       *rects = g_new (GeglRectangle, (gsize) all.w * all.h);
  zn_key             **where = g_new (zn_key *, (gsize) all.w * all.h);
  zn_key              *keys  = g_new0 (zn_key, (gsize) all.w * all.h);
  gsize                n     = 0;

  for (gint by = all.y; by < all.y + all.h; by++)
    for (gint bx = all.x; bx < all.x + all.w; bx++)
      {
        const zn_rect r   = zn_grid_cell (tiling->grid, bx * side, by * side);
        zn_key       *key = block_at (tiling, bx, by);

        if (key->a || key->b)
          continue;
        where[n]   = key;
        rects[n++] = (GeglRectangle){ box->x + r.x, box->y + r.y, r.w, r.h };
      }

  zn_op_keys_add_pixels (keys, tiling->input.buffer, rects, n);
  for (gsize i = 0; i < n; i++)
    *where[i] = keys[i];

  g_free (keys);
  g_free (where);
  g_free (rects);
}

/* The hash of everything that the network's output for a cell depends on. */
static zn_key
cell_key (const Tiling *tiling, zn_rect cell)
{
  const zn_rect all  = blocks_around (tiling, cell);
  const gint    at[] = { cell.x, cell.y, cell.w, cell.h, tiling->grid->w, tiling->grid->h };
  zn_key        key  = tiling->plan->key;

  zn_enhance_key_noise (&key, tiling->plan, &tiling->result.noise);
  zn_key_add_text (&key, babl_get_name (tiling->input.format));
  zn_key_add_text (&key, babl_get_name (gegl_buffer_get_format (tiling->input.buffer)));
  zn_key_add (&key, at, sizeof (at));
  for (gint by = all.y; by < all.y + all.h; by++)
    zn_key_add (&key, block_at (tiling, all.x, by), all.w * sizeof (zn_key));

  return key;
}

/* ---- cells ---------------------------------------------------------------- */

/* The cells of an area, of which several threads take some each. */
typedef struct
{
  const Tiling   *tiling;
  zn_rect         area;
  gint            columns;
  const zn_plane *dst;     /* gets them, as far as it has their pixels */
  const zn_plane *made;    /* what the network made of them, or NULL: they may be kept */
  gboolean       *missing; /* of each: is not kept */
} Cells;

static zn_rect
cells_nth (const Cells *cells, gsize i)
{
  const gint side = cells->tiling->grid->cell;
  const gint x    = cells->area.x / side + (gint) (i % cells->columns);
  const gint y    = cells->area.y / side + (gint) (i / cells->columns);

  return zn_grid_cell (cells->tiling->grid, x * side, y * side);
}

/* What the network changed in a cell, in the form in which it is kept; NULL: there is no memory. */
static GBytes *
cell_pack (const Cells *cells, zn_rect cell)
{
  const zn_grid *grid = cells->tiling->grid;
  const gsize    size = zn_cell_size (grid, cell);
  gpointer       kept = g_try_malloc (size);

  if (kept && zn_cell_pack (kept, grid, cell, cells->made, &cells->tiling->source))
    return g_bytes_new_take (kept, size);
  g_free (kept);

  return NULL;
}

/* Cells from `start` on, `count` of them. */
static void
cells_take (gsize start, gsize count, gpointer data)
{
  const Cells *cells = data;

  for (gsize i = start; i < start + count; i++)
    {
      const zn_rect cell  = cells_nth (cells, i);
      const zn_key  key   = cell_key (cells->tiling, cell);
      GBytes       *bytes = cells->made ? cell_pack (cells, cell) : zn_op_cache_get (&key);

      if (bytes && cells->made)
        zn_op_cache_put (&key, bytes);
      cells->missing[i] = ! bytes;
      if (bytes)
        {
          zn_cell_unpack (cells->dst, cells->tiling->grid, cell, g_bytes_get_data (bytes, NULL));
          g_bytes_unref (bytes);
        }
    }
}

/* Copies the cells of an area to dst, those that are kept or, if made is not NULL, those
 * that are to be kept from now on.  The smallest rectangle around those that are missing. */
static zn_rect
cells_get (const Tiling *tiling, zn_rect area, const zn_plane *dst, const zn_plane *made)
{
  const gint    side    = tiling->grid->cell;
  const gint    columns = (area.x + area.w - 1) / side - area.x / side + 1;
  const gint    rows    = (area.y + area.h - 1) / side - area.y / side + 1;
  const gsize   n       = (gsize) columns * rows;
  Cells         cells   = { tiling, area, columns, dst, made, g_new0 (gboolean, n) };
  GeglRectangle all     = { 0, 0, 0, 0 };

  gegl_parallel_distribute_range (n, 1.0, cells_take, &cells);
  for (gsize i = 0; i < n; i++)
    if (cells.missing[i])
      {
        const zn_rect r = cells_nth (&cells, i);

        gegl_rectangle_bounding_box (&all, &all, GEGL_RECTANGLE (r.x, r.y, r.w, r.h));
      }
  g_free (cells.missing);

  return (zn_rect){ all.x, all.y, all.width, all.height };
}

/* Computes whole cells, keeps them, and copies them to dst. */
static zn_status
cells_make (Tiling *tiling, zn_rect part, const zn_plane *dst)
{
  const zn_watcher watch  = { .progress = zn_op_request_progress, .cookie = tiling->request };
  const zn_rect    large  = zn_grid_result (tiling->grid, part);
  zn_plane         made   = { large, g_try_new (gfloat, (gsize) large.w * large.h * 3) };
  zn_status        status = ZN_E_MEMORY;

  tiling->request->ran = TRUE;
  zn_op_count_pixels ((guint64) large.w * large.h);
  if (made.rgb)
    status = zn_enhance_make (made.rgb, &tiling->result, tiling->plan, &tiling->source, part,
                              &watch, &tiling->request->err);
  if (! status && cells_get (tiling, part, dst, &made).w)
    status = ZN_E_MEMORY;
  g_free (made.rgb);

  return status;
}

/* What the network changes in a piece of the area, as far as dst has it.  If any of that
 * is missing, all that is missing of the piece is computed. */
static zn_status
piece_get (Tiling *tiling, zn_rect piece, const zn_plane *dst)
{
  const zn_rect both   = zn_rect_meet (piece, zn_grid_source (tiling->grid, dst->at));
  zn_status     status = ZN_OK;
  zn_rect       missing;

  blocks_hash (tiling, piece);
  if (! cells_get (tiling, both, dst, NULL).w)
    return ZN_OK;
  if (! zn_op_engine_enter (&tiling->request->err))
    return ZN_E_DEVICE;

  missing = cells_get (tiling, both, dst, NULL); /* another thread may have made them */
  if (missing.w)
    status = cells_make (tiling, cells_get (tiling, piece, dst, NULL), dst);
  zn_op_engine_leave ();

  return status;
}

/* The same for a region, which may lie in several pieces. */
static zn_status
pieces_get (Tiling *tiling, const zn_plane *dst)
{
  const zn_grid *grid   = tiling->grid;
  const zn_rect  area   = tiling->area;
  const zn_rect  r      = zn_grid_source (grid, dst->at);
  zn_status      status = ZN_OK;

  for (gint y = r.y; ! status && y < r.y + r.h; y = zn_grid_next (grid, area, y))
    for (gint x = r.x; ! status && x < r.x + r.w; x = zn_grid_next (grid, area, x))
      status = piece_get (tiling, zn_grid_piece (grid, area, x, y), dst);

  return status;
}

/* ---- blending ------------------------------------------------------------- */

typedef struct
{
  const zn_enhance_plan *plan;
  zn_plane               change;
  gint                   failed; /* for lack of memory */
} Blend;

static void
blend_strip (gpointer data, zn_rect strip, zn_rect all, gfloat *pixels, gint components)
{
  Blend *blend = data;

  if (! zn_enhance_blend (blend->plan, strip, all, pixels, components, &blend->change))
    g_atomic_int_set (&blend->failed, TRUE);
}

/* Writes the pixels of want, which lie in one piece. */
static zn_status
piece_process (Tiling *tiling, GeglBuffer *output, zn_rect want)
{
  const zn_enhance_plan *plan  = tiling->plan;
  const zn_rect          all   = { 0, 0, plan->w, plan->h };
  const zn_rect          part  = zn_rect_meet (zn_rect_widen (want, plan->reach), all);
  Blend                  blend = { plan, { part, NULL }, FALSE };
  zn_status              status;

  blend.change.rgb = gegl_malloc ((gsize) part.w * part.h * 3 * sizeof (gfloat));
  status           = pieces_get (tiling, &blend.change);
  if (! status && plan->grid.scale > 1)
    zn_op_enlarge_write (&tiling->input, output, &plan->grid, want, &blend.change);
  else if (! status)
    zn_op_picture_write (&tiling->input, output, want, plan->reach, blend_strip, &blend);
  gegl_free (blend.change.rgb);

  return blend.failed ? ZN_E_MEMORY : status;
}

/* ---- methods -------------------------------------------------------------- */

static void
prepare (GeglOperation *operation)
{
  const Babl *format = zn_op_picture_format (operation, "input");
  zn_error    err    = { "" };
  Tiling      tiling;

  gegl_operation_set_format (operation, "input", format);
  gegl_operation_set_format (operation, "output", format);

  if (! tiling_init (&tiling, operation, &err) && tiling.input.box.width > 0)
    zn_op_set_status (operation, &tiling.task.base, err.text);
}

/* Where the result lies. */
static GeglRectangle
result_box (const Tiling *tiling)
{
  const gint           scale = tiling->grid->scale;
  const GeglRectangle *box   = &tiling->input.box;

  return (GeglRectangle){ box->x * scale, box->y * scale, tiling->plan->w, tiling->plan->h };
}

/* What both have, from the corner of the box.  What GEGL invalidates may have no end. */
static zn_rect
part_of (const GeglRectangle *roi, const GeglRectangle *box)
{
  GeglRectangle r;

  gegl_rectangle_intersect (&r, roi, box);

  return r.width > 0 ? (zn_rect){ r.x - box->x, r.y - box->y, r.width, r.height }
                     : (zn_rect){ 0, 0, 0, 0 };
}

/* What a region of the output depends on, or what a region of the input changes; all of
 * the picture, if its noise is to be measured. */
static GeglRectangle
get_reach (GeglOperation *operation, const GeglRectangle *roi, gboolean required)
{
  zn_error      err = { "" };
  Tiling        tiling;
  GeglRectangle box;
  zn_rect       r;

  if (! tiling_init (&tiling, operation, &err))
    return *roi;
  if (tiling.plan->how.seeks_noise)
    return tiling.input.box;

  box = result_box (&tiling);
  r   = part_of (roi, required ? &box : &tiling.input.box);
  if (r.w > 0 && required)
    {
      r   = zn_grid_source (tiling.grid, zn_rect_widen (r, tiling.plan->reach));
      r   = zn_grid_around (tiling.grid, zn_grid_area (tiling.grid, r));
      box = tiling.input.box;
    }
  else if (r.w > 0)
    {
      r = zn_grid_result (tiling.grid, zn_grid_around (tiling.grid, r));
      r = zn_rect_meet (zn_rect_widen (r, tiling.plan->reach),
                        (zn_rect){ 0, 0, tiling.plan->w, tiling.plan->h });
    }

  return (GeglRectangle){ box.x + r.x, box.y + r.y, r.w, r.h };
}

static GeglRectangle
get_required_for_output (GeglOperation *operation, const gchar *pad, const GeglRectangle *roi)
{
  return get_reach (operation, roi, TRUE);
}

static GeglRectangle
get_invalidated_by_change (GeglOperation *operation, const gchar *pad, const GeglRectangle *roi)
{
  return get_reach (operation, roi, FALSE);
}

static GeglRectangle
get_bounding_box (GeglOperation *operation)
{
  zn_error err = { "" };
  Tiling   tiling;

  return tiling_init (&tiling, operation, &err) ? result_box (&tiling) : tiling.input.box;
}

/* Calls process for each piece of the area that roi meets, or only counts them. */
static gint
each_piece (Tiling *tiling, GeglBuffer *output, zn_rect roi, gint n, zn_status *status)
{
  const zn_grid *grid = tiling->grid;
  const zn_rect  area = tiling->area;
  const zn_rect  r    = zn_grid_source (grid, roi);
  gint           done = 0;

  for (gint y = r.y; ! *status && y < r.y + r.h; y = zn_grid_next (grid, area, y))
    for (gint x = r.x; ! *status && x < r.x + r.w; x = zn_grid_next (grid, area, x), done++)
      if (n)
        {
          const zn_rect piece = zn_grid_result (grid, zn_grid_piece (grid, area, x, y));

          zn_op_request_part (tiling->request, (gdouble) done / n, 1.0 / n);
          *status = piece_process (tiling, output, zn_rect_meet (piece, roi));
        }

  return done;
}

static zn_status
process_pieces (Tiling *tiling, GeglBuffer *output, zn_rect roi)
{
  const zn_rect wide   = zn_rect_widen (roi, tiling->plan->reach);
  zn_status     status = tiling_measure (tiling);

  tiling->area = zn_grid_area (tiling->grid, zn_grid_source (tiling->grid, wide));
  blocks_init (tiling);
  each_piece (tiling, output, roi, each_piece (tiling, output, roi, 0, &status), &status);
  g_free (tiling->blocks);

  return status;
}

static gboolean
process (GeglOperation        *operation,
         GeglOperationContext *context,
         const gchar          *pad,
         const GeglRectangle  *result,
         gint                  level)
{
  GObject    *input  = gegl_operation_context_get_object (context, "input");
  zn_status   status = ZN_E_USAGE;
  zn_error    err    = { "" };
  ZnOpRequest request;
  Tiling      tiling;
  gboolean    planned = tiling_init (&tiling, operation, &err);

  zn_op_request_init (&request, operation, &tiling.task.base);
  request.err = err;
  if (planned)
    {
      const GeglRectangle box = result_box (&tiling);
      const zn_rect       roi = part_of (result, &box);

      tiling.request      = &request;
      tiling.input.buffer = GEGL_BUFFER (input);
      tiling.input.format = zn_op_picture_format (operation, "input");
      if (tiling.plan->nothing || roi.w <= 0)
        {
          gegl_operation_context_set_object (context, "output", input);
          status = zn_op_noise_asked (operation) ? tiling_measure (&tiling) : ZN_OK;
        }
      else
        {
          GeglBuffer *output = gegl_operation_context_get_target (context, "output");

          status              = process_pieces (&tiling, output, roi);
          request.note        = tiling.result.note;
          request.computed_by = *tiling.result.computed_by.text ? tiling.result.computed_by
                                                                : tiling.plan->computed_by;
          request.replaced    = status && tiling.grid->scale > 1;
          if (request.replaced) /* the input has another size */
            zn_op_enlarge_write (&tiling.input, output, tiling.grid, roi, NULL);
        }
    }

  return zn_op_request_end (&request, context, status);
}

void
zn_op_tiled_class_init (GeglOperationClass *klass, ZnOpDescribe describe)
{
  zn_op_set_describe (klass, describe);

  klass->prepare                   = prepare;
  klass->process                   = process;
  klass->get_required_for_output   = get_required_for_output;
  klass->get_invalidated_by_change = get_invalidated_by_change;
}

void
zn_op_tiled_enlarges (GeglOperationClass *klass)
{
  klass->get_bounding_box = get_bounding_box;
}
