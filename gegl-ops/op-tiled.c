/* SPDX-License-Identifier: MIT */
/* op-tiled.c - operations that answer any region from tiles.
 *
 *      + - - - - - +      What the network makes of a picture is kept in cells, on
 *      :  +--+--+  :      one lattice that starts at the picture's corner.  A cell is
 *      :  |  |##|  :      found by a hash of the pixels that it depends on: the cell
 *      :  +--+--+  :      and the halo around it.  Strength, luma, chroma and detail
 *      :  |##|##|  :      are applied to that afterwards, so that changing them never
 *      :  +--+--+  :      runs the network again.
 *      + - - - - - +
 *          halo
 *
 * 1. A pixel comes out the same whatever region is asked for: cells begin where the
 *    engine's own lattice allows, and the halo covers the receptive field.
 * 2. What is missing of the cells that a request needs (##) is computed in one run, if
 *    it fits into a tile, or else tile by tile.  A smaller region than half a tile a side
 *    is widened to that: it would be mostly halo, and hosts ask for many in a row.  A
 *    large one is widened to whole tiles, as its neighbours follow.
 * 3. A cell is kept as the network's change in 16-bit integers, of a step that is the
 *    cell's largest change / 32767: off by half a step, which is at most 1/65534 where
 *    black became white, and usually a tenth of that.  What is blended always went
 *    through this form, so that a result never depends on what was kept.
 */

#include "config.h"

#include <glib/gi18n-lib.h>

#include <math.h>
#include <string.h>

#include "op-blend.h"
#include "op-cache.h"
#include "op-common.h"
#include "op-engine.h"
#include "op-noise.h"

#define TILE 768    /* pixels a side: more where the halo is wide, less where memory is short */
#define CELL 96     /* pixels a side, or more: */
#define LATTICE 12  /* the engine computes whole multiples of this times the model's multiple */
#define STEPS 32767 /* of a kept change, either way */

typedef struct
{
  const ZnOpTiled *task;
  ZnOpRequest     *request;
  ZnOpModel       *model;
  ZnOpPicture      input;  /* the whole of it */
  zn_rect          bounds; /* ... from 0,0 */
  zn_rect          area;   /* whole cells: all that the request needs, widened */
  gint             tile;   /* side of a tile: whole cells */
  gint             cell;   /* ... of a cell, and of the blocks that are hashed */
  gint             halo;
  zn_value         set[3];
  gint             n_set;
  gboolean         map;    /* the network measures the noise in each place, against */
  zn_noise_table   noise;  /* ... that of the picture */
  zn_key          *blocks; /* hashes of the pixels of blocks, 0 if not known yet, in rows of */
  gint             block_x, block_y, block_w; /* block_w, from this one on */
} Tiling;

/* What is kept of a cell. */
typedef struct
{
  gfloat step;
  gint16 change[]; /* w * h * 3 */
} Kept;

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

static gint
round_down (gint value, gint multiple)
{
  return value / multiple * multiple;
}

/* A host that runs whole pictures and shows nothing meanwhile can ask for larger tiles,
 * of which less is halo: object data "zenith-tile" of the node, pixels a side. */
static gint
wanted_side (GeglOperation *operation)
{
  gint side = operation->node
                  ? GPOINTER_TO_INT (g_object_get_data (G_OBJECT (operation->node), "zenith-tile"))
                  : 0;

  return MAX (side, TILE);
}

/* Everything except the input; FALSE and a message if there is nothing to run. */
static gboolean
tiling_init (Tiling *tiling, GeglOperation *operation, const ZnOpTiled *task, zn_error *err)
{
  const zn_geometry *g;

  *tiling = (Tiling){ .task = task };
  if (! zn_op_input_box (operation, &tiling->input.box, err))
    return FALSE;

  tiling->bounds = (zn_rect){ 0, 0, tiling->input.box.width, tiling->input.box.height };
  tiling->model  = zn_op_model_acquire (task->model, NULL, &task->base, err);
  if (! tiling->model)
    return FALSE;

  g = zn_op_model_geometry (tiling->model);
  if (g->in_c != 3 || g->out_c != 3 || g->shrink != g->grow)
    {
      g_snprintf (err->text, sizeof (err->text),
                  _ ("The model '%s' does not turn one picture into another."), task->model);
      return FALSE;
    }

  /* A tile of five halos a side has twice its pixels with its halo: that is the largest overhead
   * allowed.  Asked for what it would have taken itself, or less, the engine does not cut our tiles
   * into its own. */
  tiling->halo = round_up (MAX (g->halo, 0), MAX (g->multiple, 1));
  tiling->cell = round_up (CELL, LATTICE * MAX (g->multiple, 1));
  tiling->tile = zn_op_model_tile (
      tiling->model, tiling->bounds.w, tiling->bounds.h,
      round_up (MAX (wanted_side (operation), 5 * tiling->halo), tiling->cell));
  tiling->tile = MAX (round_down (tiling->tile, tiling->cell), tiling->cell);
  if (task->sigma == 0.0) /* the noise is measured around what the network sees */
    tiling->halo += round_up (zn_op_model_level_reach (tiling->model), MAX (g->multiple, 1));

  return TRUE;
}

static void
tiling_clear (Tiling *tiling)
{
  zn_op_model_release (tiling->model);
  g_free (tiling->blocks);
}

/* Widens start..end to whole tiles, to half a tile, or to whole cells. */
static void
widen (const Tiling *tiling, gint *start, gint *end, gboolean tiles)
{
  const gint half = round_up (tiling->tile / 2, tiling->cell);
  gint       unit = tiling->cell;

  if (tiles)
    unit = tiling->tile;
  else if (*start / half == (*end - 1) / half)
    unit = half;

  *start = round_down (*start, unit);
  *end   = round_up (*end, unit);
}

/* The cells that are needed for the pixels of roi, which is not empty. */
static zn_rect
area_of (const Tiling *tiling, zn_rect roi)
{
  const zn_rect r  = rect_meet (rect_grow (roi, zn_op_blend_reach (tiling->task)), tiling->bounds);
  gint          x0 = r.x, x1 = r.x + r.w;
  gint          y0 = r.y, y1 = r.y + r.h;

  /* A picture that is written comes in chunks of half a megapixel to one, which shall not
   * cut tiles in two; a preview is smaller. */
  const gint     side  = MIN (tiling->tile, TILE);
  const gboolean tiles = (gint64) r.w * r.h >= (gint64) side * side / 4 * 3;

  widen (tiling, &x0, &x1, tiles);
  widen (tiling, &y0, &y1, tiles);

  return rect_meet ((zn_rect){ x0, y0, x1 - x0, y1 - y0 }, tiling->bounds);
}

/* Whether the request is computed in one piece. */
static gboolean
is_one_piece (const Tiling *tiling)
{
  return tiling->area.w <= tiling->tile && tiling->area.h <= tiling->tile;
}

/* The piece of the area that holds this pixel. */
static zn_rect
piece_at (const Tiling *tiling, gint x, gint y)
{
  const gint side = tiling->tile;

  if (is_one_piece (tiling))
    return tiling->area;

  return rect_meet ((zn_rect){ round_down (x, side), round_down (y, side), side, side },
                    tiling->area);
}

static gint
next_piece (const Tiling *tiling, gint at)
{
  return is_one_piece (tiling) ? G_MAXINT : (at / tiling->tile + 1) * tiling->tile;
}

static zn_rect
cell_at (const Tiling *tiling, gint x, gint y)
{
  const gint side = tiling->cell;

  return rect_meet ((zn_rect){ round_down (x, side), round_down (y, side), side, side },
                    tiling->bounds);
}

/* The blocks, as block numbers, that meet the halo around an area. */
static zn_rect
blocks_around (const Tiling *tiling, zn_rect area)
{
  const zn_rect r    = rect_meet (rect_grow (area, tiling->halo), tiling->bounds);
  const gint    side = tiling->cell;
  const gint    x = r.x / side, y = r.y / side;

  return (zn_rect){ x, y, (r.x + r.w - 1) / side - x + 1, (r.y + r.h - 1) / side - y + 1 };
}

/* All of the input that is read for the pixels of roi: the cells that may be computed,
 * their halo, and the whole blocks that are hashed. */
static zn_rect
reach_of (const Tiling *tiling, zn_rect roi)
{
  const gint side = tiling->cell;
  zn_rect    r    = rect_meet (roi, tiling->bounds);

  if (r.w <= 0 || r.h <= 0)
    return r;

  r = blocks_around (tiling, area_of (tiling, r));

  return rect_meet ((zn_rect){ r.x * side, r.y * side, r.w * side, r.h * side }, tiling->bounds);
}

/* All of the output that the pixels of roi, which is not empty, can change: whole cells,
 * for they share a step. */
static zn_rect
changes_of (const Tiling *tiling, zn_rect roi)
{
  const gint    side  = tiling->cell;
  const zn_rect cells = blocks_around (tiling, roi);
  const zn_rect r     = { cells.x * side, cells.y * side, cells.w * side, cells.h * side };

  return rect_meet (rect_grow (r, ZN_OP_BLEND_REACH), tiling->bounds);
}

/* ---- settings ------------------------------------------------------------- */

/* The settings of the network: the noise that the user gave, or measured. */
static zn_status
tiling_set (Tiling *tiling)
{
  const ZnOpTiled          *task      = tiling->task;
  static const gchar *const key[2][3] = { { "sigma", "sigma-g", "sigma-b" },
                                          { "sigma", "sigma-scale" } };
  const gfloat             *sigma     = tiling->noise.median;
  gdouble                   value[3]  = { task->sigma };
  zn_status                 status    = ZN_OK;

  if (task->sigma < 0.0)
    return ZN_OK;

  tiling->n_set = 1;
  if (task->sigma == 0.0)
    {
      status = zn_op_noise_measure (tiling->request, tiling->model, &tiling->input, &tiling->noise);
      tiling->map   = zn_op_model_level_reach (tiling->model) > 0;
      tiling->n_set = tiling->map ? 2 : 3;
      value[1]      = task->scale;
      for (gint i = 0; ! tiling->map && i < 3; i++)
        value[i] = sigma[i] * task->scale;
    }
  if (! status)
    zn_op_set_measured (tiling->request->operation, task, task->sigma == 0.0 ? sigma : NULL);

  for (gint i = 0; i < tiling->n_set; i++)
    tiling->set[i] = (zn_value){ key[tiling->map][i], value[i] };

  return status;
}

/* ---- the hashes of blocks ------------------------------------------------- */

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
  const gint           side  = tiling->cell;
  GeglRectangle       *rects = g_new (GeglRectangle, (gsize) all.w * all.h);
  zn_key             **where = g_new (zn_key *, (gsize) all.w * all.h);
  zn_key              *keys  = g_new0 (zn_key, (gsize) all.w * all.h);
  gsize                n     = 0;

  for (gint by = all.y; by < all.y + all.h; by++)
    for (gint bx = all.x; bx < all.x + all.w; bx++)
      {
        const zn_rect r = rect_meet ((zn_rect){ bx * side, by * side, side, side }, tiling->bounds);
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
  const gint    at[] = { cell.x, cell.y, cell.w, cell.h, tiling->bounds.w, tiling->bounds.h };
  zn_key        key  = { 0, 0 };

  zn_key_add_text (&key, zn_op_model_name (tiling->model));
  for (gint i = 0; i < tiling->n_set; i++)
    {
      zn_key_add_text (&key, tiling->set[i].key);
      zn_key_add (&key, &tiling->set[i].value, sizeof (tiling->set[i].value));
    }
  if (tiling->map)
    zn_key_add (&key, tiling->noise.least, sizeof (tiling->noise.least));
  zn_key_add_text (&key, babl_get_name (tiling->input.format));
  zn_key_add_text (&key, babl_get_name (gegl_buffer_get_format (tiling->input.buffer)));
  zn_key_add (&key, at, sizeof (at));
  for (gint by = all.y; by < all.y + all.h; by++)
    zn_key_add (&key, block_at (tiling, all.x, by), all.w * sizeof (zn_key));

  return key;
}

/* ---- the network ---------------------------------------------------------- */

typedef struct
{
  zn_rect rect;
  gfloat *rgb;
} Plane;

static gfloat *
plane_at (const Plane *plane, gint x, gint y)
{
  return plane->rgb + ((gsize) (y - plane->rect.y) * plane->rect.w + x - plane->rect.x) * 3;
}

static bool
plane_write (void *cookie, zn_rect r, const float *src)
{
  const Plane *plane = cookie;

  for (gint y = r.y; y < r.y + r.h; y++, src += (gsize) r.w * 3)
    memcpy (plane_at (plane, r.x, y), src, (gsize) r.w * 3 * sizeof (gfloat));

  return true;
}

/* What the network changed in a cell, in the form in which it is kept; plane holds what it
 * made.  NaN is no change. */
static GBytes *
cell_pack (const Tiling *tiling, const Plane *plane, zn_rect cell)
{
  const gsize len    = (gsize) cell.w * cell.h * 3;
  const gsize size   = sizeof (Kept) + len * sizeof (gint16);
  Kept       *kept   = g_malloc (size);
  gfloat     *change = gegl_malloc (len * sizeof (gfloat));
  gfloat     *at     = change;
  gfloat      most   = 0.0f, scale;

  zn_op_picture_read ((void *) &tiling->input, cell, change);
  for (gint y = cell.y; y < cell.y + cell.h; y++)
    {
      const gfloat *made = plane_at (plane, cell.x, y);

      for (gint i = 0; i < cell.w * 3; i++, at++)
        {
          *at = made[i] - *at;
          if (! isfinite (*at))
            *at = 0.0f;
          most = MAX (most, fabsf (*at));
        }
    }

  kept->step = most / STEPS;
  scale      = kept->step > 0.0f ? 1.0f / kept->step : 0.0f;
  for (gsize i = 0; i < len; i++)
    kept->change[i] = (gint16) CLAMP (rintf (change[i] * scale), -STEPS, STEPS);
  gegl_free (change);

  return g_bytes_new_take (kept, size);
}

/* Writes what both have of a cell that was kept. */
static void
cell_unpack (const Plane *plane, zn_rect cell, GBytes *bytes)
{
  const Kept   *kept = g_bytes_get_data (bytes, NULL);
  const gfloat  step = kept->step;
  const zn_rect both = rect_meet (plane->rect, cell);

  for (gint y = both.y; y < both.y + both.h; y++)
    {
      const gint16 *src = kept->change + ((gsize) (y - cell.y) * cell.w + both.x - cell.x) * 3;
      gfloat       *dst = plane_at (plane, both.x, y);

      for (gint i = 0; i < both.w * 3; i++)
        dst[i] = step * src[i];
    }
}

/* The picture that a part is computed from, where the part lies in it.
 *
 * A part that crosses a line of the tiles' lattice would be computed in several tiles.
 * Instead the network gets the part and what lies up to a halo around it as a picture of
 * its own, cut on the engine's lattice: neither sees the difference. */
static ZnOpPicture
part_picture (const Tiling *tiling, zn_rect *part)
{
  const gint    side    = tiling->tile;
  const gint    margin  = round_up (tiling->halo, tiling->cell);
  ZnOpPicture   picture = tiling->input;
  const zn_rect r       = rect_meet (rect_grow (*part, margin), tiling->bounds);

  if (part->x / side == (part->x + part->w - 1) / side &&
      part->y / side == (part->y + part->h - 1) / side)
    return picture;

  picture.box = (GeglRectangle){ picture.box.x + r.x, picture.box.y + r.y, r.w, r.h };
  part->x -= r.x;
  part->y -= r.y;

  return picture;
}

/* Runs the network for a part of the picture: plane becomes what it makes. */
static zn_status
part_run (Tiling *tiling, const Plane *plane)
{
  Plane           to      = *plane;
  ZnOpPicture     picture = part_picture (tiling, &to.rect);
  const zn_rect   part    = to.rect;
  const gint      end     = MAX (part.x + part.w, part.y + part.h);
  const zn_source source  = { picture.box.width, picture.box.height, 3, zn_op_picture_read,
                              &picture };
  const zn_sink   sink    = { plane_write, &to };
  const ZnOpJob   job     = { tiling->set, tiling->n_set,
                        picture.box.width == tiling->bounds.w &&
                                picture.box.height == tiling->bounds.h
                                  ? tiling->tile
                                  : end,
                        tiling->map ? &tiling->noise : NULL };

  return zn_op_model_run (tiling->model, &sink, &source, part, &job, tiling->request);
}

/* The cells of an area, of which several threads take some each. */
typedef struct
{
  const Tiling *tiling;
  zn_rect       area;
  gint          columns;
  const Plane  *dst;     /* gets them, as far as it has their pixels */
  const Plane  *made;    /* what the network made of them, or NULL: they may be kept */
  gboolean     *missing; /* of each: is not kept */
} Cells;

static zn_rect
cells_nth (const Cells *cells, gsize i)
{
  const gint side = cells->tiling->cell;
  const gint x    = cells->area.x / side + (gint) (i % cells->columns);
  const gint y    = cells->area.y / side + (gint) (i / cells->columns);

  return cell_at (cells->tiling, x * side, y * side);
}

/* Cells from `start` on, `count` of them. */
static void
cells_take (gsize start, gsize count, gpointer data)
{
  const Cells *cells = data;

  for (gsize i = start; i < start + count; i++)
    {
      const zn_rect cell = cells_nth (cells, i);
      const zn_key  key  = cell_key (cells->tiling, cell);
      GBytes       *bytes;

      if (cells->made)
        {
          bytes = cell_pack (cells->tiling, cells->made, cell);
          zn_op_cache_put (&key, bytes);
        }
      else
        {
          bytes = zn_op_cache_get (&key);
        }

      cells->missing[i] = ! bytes;
      if (bytes)
        {
          cell_unpack (cells->dst, cell, bytes);
          g_bytes_unref (bytes);
        }
    }
}

/* Copies the cells of an area to dst, those that are kept or, if made is not NULL, those
 * that are to be kept from now on.  The smallest rectangle around those that are missing. */
static zn_rect
cells_get (const Tiling *tiling, zn_rect area, const Plane *dst, const Plane *made)
{
  const gint    side    = tiling->cell;
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
cells_make (Tiling *tiling, zn_rect part, const Plane *dst)
{
  Plane     plane  = { part, g_try_malloc ((gsize) part.w * part.h * 3 * sizeof (gfloat)) };
  zn_status status = plane.rgb ? part_run (tiling, &plane) : ZN_E_MEMORY;

  if (! status)
    cells_get (tiling, part, dst, &plane);
  g_free (plane.rgb);

  return status;
}

/* What the network changes in a piece of the area, as far as dst has it.  If any of that
 * is missing, all that is missing of the piece is computed. */
static zn_status
piece_get (Tiling *tiling, zn_rect piece, const Plane *dst)
{
  const zn_rect both   = rect_meet (piece, dst->rect);
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
pieces_get (Tiling *tiling, const Plane *plane)
{
  const zn_rect r      = plane->rect;
  zn_status     status = ZN_OK;

  for (gint y = r.y; ! status && y < r.y + r.h; y = next_piece (tiling, y))
    for (gint x = r.x; ! status && x < r.x + r.w; x = next_piece (tiling, x))
      status = piece_get (tiling, piece_at (tiling, x, y), plane);

  return status;
}

/* ---- blending ------------------------------------------------------------- */

/* Writes the pixels of want, which lie in one piece. */
static zn_status
piece_process (Tiling *tiling, GeglBuffer *output, zn_rect want)
{
  const gint    apron = zn_op_blend_reach (tiling->task);
  const zn_rect part  = rect_meet (rect_grow (want, apron), tiling->bounds);
  Plane         plane = { part, gegl_malloc ((gsize) part.w * part.h * 3 * sizeof (gfloat)) };
  ZnOpBlend     blend = { tiling->task, part, plane.rgb };
  zn_status     status;

  status = pieces_get (tiling, &plane);
  if (! status)
    zn_op_picture_write (&tiling->input, output, want, apron, zn_op_blend_strip, &blend);
  gegl_free (plane.rgb);

  return status;
}

/* ---- methods -------------------------------------------------------------- */

static const ZnOpTiled defaults = { .sigma = -1.0, .strength = 1.0, .luma = 1.0, .chroma = 1.0 };

static void
prepare (GeglOperation *operation)
{
  const Babl *format = zn_op_picture_format (operation, "input");
  ZnOpTiled   task   = defaults;
  zn_error    err    = { "" };
  Tiling      tiling;

  gegl_operation_set_format (operation, "input", format);
  gegl_operation_set_format (operation, "output", format);

  zn_op_describe (operation, &task);
  if (! tiling_init (&tiling, operation, &task, &err) && tiling.input.box.width > 0)
    zn_op_set_status (operation, &task.base, err.text);
  tiling_clear (&tiling);
}

/* What a region of the output depends on, or what a region of the input changes; all of
 * the picture, if its noise is to be measured. */
static GeglRectangle
get_reach (GeglOperation *operation, const GeglRectangle *roi, gboolean required)
{
  ZnOpTiled     task = defaults;
  zn_error      err  = { "" };
  Tiling        tiling;
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
      r = (zn_rect){ reach.x - tiling.input.box.x, reach.y - tiling.input.box.y, reach.width,
                     reach.height };
      if (required)
        r = reach_of (&tiling, r);
      else if (r.w > 0 && r.h > 0)
        r = changes_of (&tiling, r);
      reach = *GEGL_RECTANGLE (r.x + tiling.input.box.x, r.y + tiling.input.box.y, r.w, r.h);
    }
  tiling_clear (&tiling);

  return reach;
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

static gint
pieces_along (const Tiling *tiling, gint start, gint length)
{
  return is_one_piece (tiling) ? 1 : (start + length - 1) / tiling->tile - start / tiling->tile + 1;
}

static zn_status
process_pieces (Tiling *tiling, GeglBuffer *output, zn_rect roi)
{
  zn_status status = tiling_set (tiling);
  gint      done   = 0;
  gint      n;

  tiling->area = area_of (tiling, roi);
  blocks_init (tiling);
  n = pieces_along (tiling, roi.x, roi.w) * pieces_along (tiling, roi.y, roi.h);

  for (gint y = roi.y; ! status && y < roi.y + roi.h; y = next_piece (tiling, y))
    for (gint x = roi.x; ! status && x < roi.x + roi.w; x = next_piece (tiling, x))
      {
        zn_op_request_part (tiling->request, (gdouble) done++ / n, 1.0 / n);
        status = piece_process (tiling, output, rect_meet (piece_at (tiling, x, y), roi));
      }

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
  ZnOpTiled   task   = defaults;
  ZnOpRequest request;
  Tiling      tiling;
  zn_rect     roi;

  zn_op_describe (operation, &task);
  zn_op_request_init (&request, operation, &task.base);
  if (tiling_init (&tiling, operation, &task, &request.err))
    {
      roi            = (zn_rect){ result->x - tiling.input.box.x, result->y - tiling.input.box.y,
                                  result->width, result->height };
      roi            = rect_meet (roi, tiling.bounds);
      tiling.request = &request;
      tiling.input.buffer = GEGL_BUFFER (input);
      tiling.input.format = zn_op_picture_format (operation, "input");
      if (task.strength == 0.0 || (task.luma == 0.0 && task.chroma == 0.0) || roi.w <= 0)
        {
          gegl_operation_context_set_object (context, "output", input);
          status = zn_op_noise_asked (operation) ? tiling_set (&tiling) : ZN_OK;
        }
      else
        {
          status = process_pieces (&tiling, gegl_operation_context_get_target (context, "output"),
                                   roi);
          zn_makers_add (&request.computed_by, tiling.model);
        }
    }
  tiling_clear (&tiling);

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
