/* SPDX-License-Identifier: MIT */
/* enhance_kept.c - denoise, restore and upscale for front ends that keep what the network changed; see zn_original in
 * zenith_composite.h.
 *
 *      blocks            A change is kept in cells of the plan's grid.  A block is the pixels of a cell.  A cell is found by
 *      +--+--+--+        the hashes of the blocks that it and the halo around it meet, each of which is computed once for
 *      |  |##|  |        a request.
 *      +--+--+--+
 *
 * 1. A pixel comes out the same whatever region is asked for: the grid and zn_enhance_make() see to that.
 * 2. What is missing of the cells that a request needs is computed in one run, if it fits into a tile, or else tile by
 *    tile. */
#include "../core/ints.h"
#include "../core/status.h"
#include "enhance.h"

#include <stdlib.h>

enum {
    SAMPLE = 64, /* side of the blocks that tell whether a picture is the same */
    MOST = 12,   /* ... of which there are so many a side, at most */
};

static const zn_watcher nobody;

static zn_status no_memory(zn_error *err)
{
    return zn_fail(err, ZN_E_MEMORY, "out of memory");
}

static bool get_kept(const zn_watcher *watch, zn_key key, void *dst, size_t size)
{
    return watch->keep && watch->keep->get(watch->keep->cookie, key, dst, size);
}

static void put_kept(const zn_watcher *watch, zn_key key, const void *src, size_t size)
{
    if (watch->keep)
        watch->keep->put(watch->keep->cookie, key, src, size);
}

/* ---- measuring -------------------------------------------------------------------------------------------------- */

typedef struct found { /* as it is kept */
    zn_noise_table noise;
    zn_faults damage;
} found;

typedef struct measured { /* the part, as a picture of its own */
    const zn_source *in;
    zn_rect part;
    const zn_watcher *watch;
    bool cancelled;
} measured;

static bool read_part(void *cookie, zn_rect r, float *dst)
{
    measured *m = cookie;

    m->cancelled = m->watch->progress && !m->watch->progress(m->watch->cookie, 0);
    r.x += m->part.x;
    r.y += m->part.y;
    return !m->cancelled && m->in->read(m->in->cookie, r, dst);
}

/* Where block i of n lies along a side. */
static int sample_at(int side, int i, int n)
{
    return n > 1 ? (int)((int64_t)(side - SAMPLE) * i / (n - 1)) : 0;
}

static zn_key part_key(const zn_enhance_plan *p, const zn_original *original, zn_rect part)
{
    const int nx = zn_imin(MOST, (part.w - 1) / SAMPLE + 1), ny = zn_imin(MOST, (part.h - 1) / SAMPLE + 1);
    zn_key key = p->network, keys[MOST * MOST] = { { 0, 0 } };
    zn_rect at[MOST * MOST];

    for (int i = 0; i < nx * ny; i++)
        at[i] = (zn_rect){ part.x + sample_at(part.w, i % nx, nx), part.y + sample_at(part.h, i / nx, ny),
                           zn_imin(part.w, SAMPLE), zn_imin(part.h, SAMPLE) };
    original->hash(original->cookie, keys, at, (size_t)(nx * ny));
    zn_key_add_text(&key, "noise");
    zn_key_add(&key, &original->format, sizeof original->format);
    zn_key_add(&key, &part, sizeof part);
    zn_key_add(&key, keys, (size_t)(nx * ny) * sizeof *keys);
    return key;
}

zn_status zn_original_measure(zn_enhance_result *result, const zn_enhance_plan *p, const zn_original *original,
                              zn_rect part, const zn_watcher *watch, zn_error *err)
{
    const zn_rect all = { 0, 0, p->grid.w, p->grid.h }, at = p->how.seeks_noise ? part : all;
    measured from = { &original->source, at, watch ? watch : &nobody, false };
    const zn_source source = { at.w, at.h, 3, read_part, &from };
    const zn_key key = part_key(p, original, at);
    found kept;
    zn_status s = ZN_OK;

    if (!get_kept(from.watch, key, &kept, sizeof kept)) {
        s = zn_enhance_measure(result, p, &source, err);
        kept = (found){ result->noise, result->damage };
        if (!s)
            put_kept(from.watch, key, &kept, sizeof kept);
        if (at.w < all.w ||
            at.h < all.h) /* beside its edges the network sees something else than in all of the picture */
            zn_enhance_forget(result);
    }
    result->noise = kept.noise;
    result->damage = kept.damage;
    return from.cancelled ? zn_fail(err, ZN_E_CANCELLED, "Cancelled.") : s;
}

/* ---- the hashes of blocks --------------------------------------------------------------------------------------- */

typedef struct request {
    const zn_enhance_plan *plan;
    const zn_grid *grid; /* the plan's */
    const zn_original *original;
    const zn_watcher *watch;
    zn_enhance_result *result;
    zn_error *err;
    zn_rect area;       /* whole cells: all that the request needs, widened */
    zn_rect blocks;     /* their numbers: all that the area depends on */
    zn_key *hash;       /* [blocks.h][blocks.w]; 0: not known yet */
    bool *missing;      /* of cells: not kept; for as many as there are blocks */
    double start, span; /* the part of the whole that is now done */
} request;

/* Blocks, as their numbers, that meet the halo around an area. */
static zn_rect blocks_around(const request *r, zn_rect area)
{
    const int side = r->grid->cell;
    const zn_rect all = zn_grid_around(r->grid, area);

    return (zn_rect){ all.x / side, all.y / side, zn_ceil_div(all.w, side), zn_ceil_div(all.h, side) };
}

static zn_key *hash_at(const request *r, int x, int y)
{
    return r->hash + (size_t)(y - r->blocks.y) * (size_t)r->blocks.w + (size_t)(x - r->blocks.x);
}

/* Hashes those around an area that are not hashed yet. */
static zn_status hash_blocks(request *r, zn_rect area)
{
    const zn_rect all = blocks_around(r, area);
    const int side = r->grid->cell;
    const size_t most = (size_t)all.w * (size_t)all.h;
    zn_rect *at = malloc(most * sizeof *at);
    zn_key *keys = calloc(most, sizeof *keys);
    zn_status s = at && keys ? ZN_OK : no_memory(r->err);
    size_t n = 0;

    for (int i = 0; !s && i < all.w * all.h; i++) {
        const int x = all.x + i % all.w, y = all.y + i / all.w;

        if (!hash_at(r, x, y)->a && !hash_at(r, x, y)->b)
            at[n++] = zn_grid_cell(r->grid, x * side, y * side);
    }
    if (n)
        r->original->hash(r->original->cookie, keys, at, n);
    for (size_t i = 0; i < n; i++)
        *hash_at(r, at[i].x / side, at[i].y / side) = keys[i];
    free(keys);
    free(at);
    return s;
}

/* The hash of everything that the network's output for a cell depends on. */
static zn_key cell_key(const request *r, zn_rect cell)
{
    const zn_rect all = blocks_around(r, cell);
    const int32_t size[] = { r->grid->w, r->grid->h };
    zn_key key = r->plan->key;

    zn_enhance_key_measured(&key, r->plan, r->result);
    zn_key_add(&key, &r->original->format, sizeof r->original->format);
    zn_key_add(&key, &cell, sizeof cell);
    zn_key_add(&key, size, sizeof size);
    for (int y = all.y; y < all.y + all.h; y++)
        zn_key_add(&key, hash_at(r, all.x, y), (size_t)all.w * sizeof(zn_key));
    return key;
}

/* ---- cells ------------------------------------------------------------------------------------------------------ */

typedef struct cells { /* of an area, of which several threads take some each */
    const request *request;
    int x, y, columns;    /* numbers: the first one, and how many there are in a row */
    const zn_plane *dst;  /* gets them, as far as it has their pixels */
    const zn_plane *made; /* what the network made of them, or NULL: they may be kept */
} cells;

static zn_rect nth_cell(const cells *c, size_t i)
{
    const int side = c->request->grid->cell;
    const int x = c->x + (int)(i % (size_t)c->columns), y = c->y + (int)(i / (size_t)c->columns);

    return zn_grid_cell(c->request->grid, x * side, y * side);
}

/* Cells from `start` on, `count` of them. */
static void take_cells(size_t start, size_t count, void *data)
{
    const cells *c = data;
    const request *r = c->request;
    void *kept = malloc(zn_cell_size(r->grid, (zn_rect){ 0, 0, r->grid->cell, r->grid->cell }));

    for (size_t i = start; i < start + count; i++) {
        const zn_rect cell = nth_cell(c, i);
        const zn_key key = cell_key(r, cell);
        const size_t size = zn_cell_size(r->grid, cell);
        bool there = kept != NULL;

        if (there && c->made)
            there = zn_cell_pack(kept, r->grid, cell, c->made, &r->original->source);
        else if (there)
            there = get_kept(r->watch, key, kept, size);
        if (there && c->made)
            put_kept(r->watch, key, kept, size);
        if (there)
            zn_cell_unpack(c->dst, r->grid, cell, kept);
        r->missing[i] = !there;
    }
    free(kept);
}

static zn_rect cover(zn_rect a, zn_rect b)
{
    const int x = zn_imin(a.x, b.x), y = zn_imin(a.y, b.y);

    if (!a.w)
        return b;
    return (zn_rect){ x, y, zn_imax(a.x + a.w, b.x + b.w) - x, zn_imax(a.y + a.h, b.y + b.h) - y };
}

/* Copies the cells of an area to dst, those that are kept or, if made is not NULL, those that are to be kept from now on.  The
 * smallest rectangle around those that are missing. */
static zn_rect get_cells(const request *r, zn_rect area, const zn_plane *dst, const zn_plane *made)
{
    const int side = r->grid->cell;
    const int columns = (area.x + area.w - 1) / side - area.x / side + 1;
    const int rows = (area.y + area.h - 1) / side - area.y / side + 1;
    cells c = { r, area.x / side, area.y / side, columns, dst, made };
    zn_rect all = { 0, 0, 0, 0 };

    if (r->original->spread)
        r->original->spread(take_cells, (size_t)columns * (size_t)rows, &c);
    else
        take_cells(0, (size_t)columns * (size_t)rows, &c);
    for (size_t i = 0; i < (size_t)columns * (size_t)rows; i++)
        if (r->missing[i])
            all = cover(all, nth_cell(&c, i));
    return all;
}

static bool on_progress(void *cookie, double done)
{
    const request *r = cookie;

    return !r->watch->progress || r->watch->progress(r->watch->cookie, r->start + r->span * done);
}

/* Computes whole cells, keeps them, and copies them to dst. */
static zn_status make_cells(request *r, zn_rect part, const zn_plane *dst)
{
    const zn_watcher watch = { .progress = on_progress, .cookie = r };
    const zn_rect large = zn_grid_result(r->grid, part);
    const zn_plane made = { large, malloc((size_t)large.w * (size_t)large.h * 3 * sizeof(float)) };
    zn_status s = made.rgb ? zn_enhance_make(made.rgb, r->result, r->plan, &r->original->source, part, &watch, r->err)
                           : no_memory(r->err);

    if (!s && get_cells(r, part, dst, &made).w)
        s = no_memory(r->err);
    free(made.rgb);
    return s;
}

/* ---- pieces ----------------------------------------------------------------------------------------------------- */

/* What the network changes in a piece of the area, as far as dst has it.  If any of that is missing, all that is missing of the piece
 * is computed. */
static zn_status get_piece(request *r, zn_rect piece, const zn_plane *dst)
{
    const zn_rect both = zn_rect_meet(piece, zn_grid_source(r->grid, dst->at));
    zn_status s = hash_blocks(r, piece);

    if (s || !get_cells(r, both, dst, NULL).w)
        return s;
    if ((s = zn_session_enter(r->plan->session, r->err)))
        return s;
    if (get_cells(r, both, dst, NULL).w) /* nor did another thread make them meanwhile */
        s = make_cells(r, get_cells(r, piece, dst, NULL), dst);
    zn_session_leave(r->plan->session);
    return s;
}

typedef struct places { /* the pieces of an area that meet a part of the picture */
    zn_rect part, piece;
    int x, y; /* a pixel of the next one */
} places;

static bool next_place(places *p, const request *r)
{
    if (p->x >= p->part.x + p->part.w) {
        p->x = p->part.x;
        p->y = zn_grid_next(r->grid, r->area, p->y);
    }
    if (p->y >= p->part.y + p->part.h)
        return false;
    p->piece = zn_grid_piece(r->grid, r->area, p->x, p->y);
    p->x = zn_grid_next(r->grid, r->area, p->x);
    return true;
}

static places places_of(zn_rect part)
{
    return (places){ .part = part, .x = part.x, .y = part.y };
}

/* Gives away what `want` needs, which lies in one piece; what lies around it may lie in others. */
static zn_status give(request *r, zn_rect want, const zn_taker *to)
{
    const zn_rect all = { 0, 0, r->plan->w, r->plan->h };
    const zn_rect part = zn_rect_meet(zn_rect_widen(want, r->plan->reach), all);
    const zn_plane change = { part, malloc((size_t)part.w * (size_t)part.h * 3 * sizeof(float)) };
    zn_status s = change.rgb ? ZN_OK : no_memory(r->err);

    for (places p = places_of(zn_grid_source(r->grid, part)); !s && next_place(&p, r);)
        s = get_piece(r, p.piece, &change);
    if (!s && !to->take(to->cookie, want, &change))
        s = no_memory(r->err);
    free(change.rgb);
    return s;
}

static zn_status give_all(request *r, zn_rect roi, const zn_taker *to)
{
    const zn_rect part = zn_grid_source(r->grid, roi);
    zn_status s = ZN_OK;
    int n = 0, done = 0;

    for (places p = places_of(part); next_place(&p, r);)
        n++;
    r->span = 1.0 / n;
    for (places p = places_of(part); !s && next_place(&p, r); done++) {
        r->start = (double)done / n;
        s = give(r, zn_rect_meet(zn_grid_result(r->grid, p.piece), roi), to);
    }
    return s;
}

zn_status zn_original_change(zn_enhance_result *result, const zn_enhance_plan *p, const zn_original *original,
                             zn_rect roi, const zn_taker *to, const zn_watcher *watch, zn_error *err)
{
    request r = { .plan = p,
                  .grid = &p->grid,
                  .original = original,
                  .watch = watch ? watch : &nobody,
                  .result = result,
                  .err = err };
    size_t n;
    zn_status s;

    r.area = zn_grid_area(r.grid, zn_grid_source(r.grid, zn_rect_widen(roi, p->reach)));
    r.blocks = blocks_around(&r, r.area);
    n = (size_t)r.blocks.w * (size_t)r.blocks.h;
    r.hash = calloc(n, sizeof *r.hash);
    r.missing = calloc(n, sizeof *r.missing);
    s = r.hash && r.missing ? give_all(&r, roi, to) : no_memory(err);
    free(r.hash);
    free(r.missing);
    return s;
}
