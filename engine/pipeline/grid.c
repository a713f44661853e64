/* SPDX-License-Identifier: MIT */
/* grid.c - the contract of tiles: see zn_grid in zenith.h. */
#include "grid.h"

#include "request.h"

enum {
    CELL = 96,   /* pixels a side, or more */
    TILE = 768,  /* of the result, a side; more where the halo is wide, less where memory is short */
    HALOS = 5,   /* a side of a tile, at least: with its halo it has twice its pixels */
    MORE = 10,   /* the same when enlarging, where TILE is few pixels of the input: about 1.44 times its pixels */
    LARGE = 900, /* a request of an enlarged result of this side or more is no preview */
};

static int round_down(int value, int multiple)
{
    return value / multiple * multiple;
}

zn_rect zn_rect_meet(zn_rect a, zn_rect b)
{
    const int64_t x1 = (int64_t)a.x + a.w < (int64_t)b.x + b.w ? (int64_t)a.x + a.w : (int64_t)b.x + b.w;
    const int64_t y1 = (int64_t)a.y + a.h < (int64_t)b.y + b.h ? (int64_t)a.y + a.h : (int64_t)b.y + b.h;
    const int x = zn_imax(a.x, b.x), y = zn_imax(a.y, b.y);

    return x1 > x && y1 > y ? (zn_rect){ x, y, (int)(x1 - x), (int)(y1 - y) } : (zn_rect){ 0 };
}

zn_rect zn_rect_widen(zn_rect r, int32_t by)
{
    return (zn_rect){ r.x - by, r.y - by, r.w + 2 * by, r.h + 2 * by };
}

static zn_rect bounds(const zn_grid *g)
{
    return (zn_rect){ 0, 0, g->w, g->h };
}

/* A side of about this length, of which a picture takes a whole number: a narrow rest would be mostly halo. */
static int even_tile(int len, int side)
{
    return zn_ceil_div(len, zn_imax((len + side / 2) / side, 1));
}

zn_status zn_model_grid(zn_grid *out, zn_model *m, int32_t w, int32_t h, const zn_job *job, zn_error *err)
{
    const zn_geometry *g = &m->geometry;
    const zn_array in = { NULL, h, w, g->in_c };
    zn_job own = job ? *job : (zn_job){ 0 };
    zn_plan plan;
    zn_run run;
    zn_status s;

    *out = (zn_grid){ .w = w, .h = h, .scale = 1 };
    if (m->arch->shape || g->in_c != 3 || g->out_c != 3 || g->halo < 0 || g->grow % g->shrink)
        return zn_fail(err, ZN_E_USAGE, "The model '%s' does not turn one picture into another.", m->arch->info.id);
    if ((s = zn_run_begin(&run, m, job, err)))
        return s;
    out->scale = g->grow / g->shrink;
    out->lattice = zn_lattice_of(g);
    out->halo = zn_halo_of(g);
    out->cell = zn_round_up(CELL, out->lattice);
    /* Asked for what it would have taken itself, or less, the engine does not cut these tiles into its own. */
    out->usual = TILE / out->scale;
    own.tile = zn_imax(zn_imax(own.tile, out->usual), (out->scale > 1 ? MORE : HALOS) * out->halo);
    own.tile = zn_round_up(out->scale > 1 ? even_tile(zn_imax(w, h), own.tile) : own.tile, out->cell);
    if (zn_request_plan(m, &in, 1, &own, &plan, NULL) || plan.n_tiles == 1)
        out->tile = own.tile;
    else
        out->tile = plan.tile_w;
    out->tile = zn_imax(round_down(out->tile, out->cell), out->cell);
    if (zn_run_seeks_noise(&run)) /* it is measured around what the network sees */
        out->halo += zn_round_up(zn_model_level_reach(m), g->multiple);
    return ZN_OK;
}

void zn_grid_of_halves(zn_grid *out, const zn_geometry *encoder, const zn_geometry *decoder, int32_t w, int32_t h)
{
    const int factor = encoder->shrink; /* pixels of the picture to one of the latent */
    const bool sees_all = encoder->halo < 0 || (decoder && decoder->halo < 0);

    *out = (zn_grid){ .w = w, .h = h, .scale = 1, .lattice = zn_lattice_of(encoder), .halo = zn_halo_of(encoder) };
    if (decoder) {
        out->lattice = zn_imax(out->lattice, zn_lattice_of(decoder) * factor);
        out->halo += zn_halo_of(decoder) * factor;
    }
    if (sees_all)
        out->halo = zn_imax(w, h);
    out->cell = zn_round_up(CELL, out->lattice);
    out->usual = out->tile = zn_round_up(TILE, out->cell);
}

/* Widens start..end to whole tiles, to half a tile, or to whole cells. */
static void widen(const zn_grid *g, int *start, int *end, bool tiles)
{
    const int half = zn_round_up(zn_imin(g->tile, zn_imax(g->usual, HALOS * g->halo)) / 2, g->cell);
    int unit = g->cell;

    if (tiles)
        unit = g->tile;
    else if (*start / half == (*end - 1) / half)
        unit = half;
    *start = round_down(*start, unit);
    *end = zn_round_up(*end, unit);
}

zn_rect zn_grid_area(const zn_grid *g, zn_rect roi)
{
    const zn_rect r = zn_rect_meet(roi, bounds(g));
    int x0 = r.x, x1 = r.x + r.w, y0 = r.y, y1 = r.y + r.h;
    /* A picture that is written comes in chunks of half a megapixel to one, which shall not cut tiles in two; a preview is
     * smaller. */
    const int side = zn_imin(g->tile, g->usual);
    const int64_t least = g->scale > 1 ? LARGE * LARGE / (g->scale * g->scale) : (int64_t)side * side / 4 * 3;
    const bool tiles = (int64_t)r.w * r.h >= least;

    if (r.w <= 0)
        return r;
    widen(g, &x0, &x1, tiles);
    widen(g, &y0, &y1, tiles);
    return zn_rect_meet((zn_rect){ x0, y0, x1 - x0, y1 - y0 }, bounds(g));
}

static bool is_one_piece(const zn_grid *g, zn_rect area)
{
    return area.w <= g->tile && area.h <= g->tile;
}

zn_rect zn_grid_piece(const zn_grid *g, zn_rect area, int32_t x, int32_t y)
{
    const int side = g->tile;

    if (is_one_piece(g, area))
        return area;
    return zn_rect_meet((zn_rect){ round_down(x, side), round_down(y, side), side, side }, area);
}

int32_t zn_grid_next(const zn_grid *g, zn_rect area, int32_t at)
{
    return is_one_piece(g, area) ? INT32_MAX : (at / g->tile + 1) * g->tile;
}

zn_rect zn_grid_cell(const zn_grid *g, int32_t x, int32_t y)
{
    const int side = g->cell;

    return zn_rect_meet((zn_rect){ round_down(x, side), round_down(y, side), side, side }, bounds(g));
}

zn_rect zn_grid_around(const zn_grid *g, zn_rect part)
{
    const zn_rect r = zn_rect_meet(zn_rect_widen(part, g->halo), bounds(g));
    const int x0 = round_down(r.x, g->cell), x1 = zn_round_up(r.x + r.w, g->cell);
    const int y0 = round_down(r.y, g->cell), y1 = zn_round_up(r.y + r.h, g->cell);

    return zn_rect_meet((zn_rect){ x0, y0, x1 - x0, y1 - y0 }, bounds(g));
}

zn_rect zn_grid_result(const zn_grid *g, zn_rect r)
{
    return (zn_rect){ r.x * g->scale, r.y * g->scale, r.w * g->scale, r.h * g->scale };
}

zn_rect zn_grid_source(const zn_grid *g, zn_rect r)
{
    const zn_rect all = zn_rect_meet(r, zn_grid_result(g, bounds(g)));
    const int x = all.x / g->scale, y = all.y / g->scale;

    return (zn_rect){ x, y, zn_ceil_div(all.x + all.w, g->scale) - x, zn_ceil_div(all.y + all.h, g->scale) - y };
}

bool zn_grid_crosses(const zn_grid *g, zn_rect part)
{
    const int side = g->tile;

    return part.x / side != (part.x + part.w - 1) / side || part.y / side != (part.y + part.h - 1) / side;
}
