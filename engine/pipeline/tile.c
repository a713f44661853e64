/* SPDX-License-Identifier: MIT */
/* tile.c - the tiler: runs an image model over pictures of any size in bounded memory.
 *
 *   lattice of tiles, from the picture's own origin      one tile
 *   +-----+-----+---                                      + - - - - - +   halo: input pixels that can
 *   |  0  |  1  |                                         :  +-----+  :   change the tile, clipped at the
 *   +-----+-----+---      roi = the tiles it touches      :  |core |  :   picture's true border, where the
 *   |  2  |  3  |                                         :  +-----+  :   network's own padding is right
 *   +-----+-----+---                                      + - - - - - +
 *
 * 1. Cores begin at multiples of the lattice step (grid.h), in absolute coordinates of the picture.
 * 2. The halo covers the receptive field, so that a pixel does not depend on the tile it was computed in.
 * 3. The tile size depends on the picture and the memory bound, never on the roi.
 * 4. Only the part of a tile that the roi needs is computed: by 2 that changes nothing.  But where rounding reaches beyond the
 *    halo (zn_geometry.tile), all of it is, and its size depends on the picture alone, unless memory is too small for it.
 * 5. While a remote engine computes a tile, the host reads the next one and writes the one before: there are two sets of
 *    buffers, and several threads that copy.
 * 6. A model that crops writes the core alone; its last layers do not compute the halo. */
#include "tile.h"

#include "../core/ints.h"
#include "engines.h"
#include "grid.h"
#include "noise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct axis { /* one tile along x or y, in pixels */
    int core0, core1; /* input, on the lattice; core1 may be the picture's end */
    int in0, in1;     /* with halo, clipped to the (padded) picture */
    int out0, out1;   /* what in0..in1 becomes, or core0..core1, see 6 */
} axis;

/* len: the picture's length along the axis, padded if the model needs that. */
static axis make_axis(const zn_run *r, int core0, int core1, int len)
{
    const zn_geometry *g = &r->geometry;
    const int halo = zn_halo_of(g);
    axis a = { core0, zn_imin(core1, len), 0, 0, 0, 0 };

    a.in0 = g->halo < 0 ? 0 : zn_imax(0, core0 - halo);
    a.in1 = g->halo < 0 ? len : zn_imin(len, a.core1 + halo);
    a.out0 = (r->crops ? a.core0 : a.in0) / g->shrink * g->grow; /* multiples of shrink */
    a.out1 = zn_ceil_div(r->crops ? a.core1 : a.in1, g->shrink) * g->grow;
    return a;
}

/* The axis of the largest tile of this side: with a halo before and after it, as far as the picture goes. */
static axis worst_axis(const zn_run *r, int side, int halo, int len)
{
    const zn_geometry *g = &r->geometry;
    axis a = { 0, 0, 0, zn_imin(len, side + 2 * halo), 0, 0 };

    a.core0 = r->crops && a.in1 == side + 2 * halo ? halo : 0;
    a.core1 = a.in1 - a.core0;
    a.out0 = a.core0 / g->shrink * g->grow;
    a.out1 = zn_ceil_div(a.core1, g->shrink) * g->grow;
    return a;
}

static int padded_len(const zn_geometry *g, int len)
{
    return g->padded ? zn_round_up(len, g->multiple) : len;
}

/* The shapes of one tile's forward. */
static zn_call make_call(const zn_run *r, axis x, axis y, const zn_source *in, int n_in)
{
    const zn_geometry *g = &r->geometry;
    zn_call call = { .n_in = n_in,
                     .n_out = 1,
                     .set = r->set,
                     .stage = r->stage,
                     .left = x.out0 / g->grow * g->shrink - x.in0,
                     .top = y.out0 / g->grow * g->shrink - y.in0 };

    for (int i = 0; i < n_in; i++)
        call.in[i] = (zn_tensor){ NULL, 1, y.in1 - y.in0, x.in1 - x.in0, in[i].c, in[i].c, ZN_F32 };
    call.out[0] = (zn_tensor){ NULL, 1, y.out1 - y.out0, x.out1 - x.out0, g->out_c, g->out_c, ZN_F32 };
    return call;
}

/* Sets of host buffers: see 5. */
static int count_sets(const zn_run *r, int n_tiles)
{
    return r->model->engine->be->remote && n_tiles > 1 ? 2 : 1;
}

/* Memory of a tile: activations and scratch on the device, and the host's buffers. */
static zn_status tile_memory(zn_run *r, const zn_call *call, int n_sets, size_t *bytes, zn_error *err)
{
    const zn_measure *measured;
    zn_status s = zn_run_measure(r, call, &measured, err);
    size_t len = zn_pixels(call->out[0]) * (size_t)call->out[0].c;

    if (s)
        return s;
    for (int i = 0; i < call->n_in; i++)
        len += zn_pixels(call->in[i]) * (size_t)call->in[i].c;
    *bytes = measured->peak + r->model->need.scratch + (size_t)n_sets * len * sizeof(float);
    return ZN_OK;
}

zn_status zn_tile_check_port(const zn_model *m, int i, int w, int h, int c, int picture_w, int picture_h, zn_error *err)
{
    const zn_geometry *g = &m->geometry;
    const int want = i && g->more_c[i] ? g->more_c[i] : g->in_c;

    if (c != want)
        return zn_fail(err, ZN_E_USAGE, "%s (%s) takes %d channels, not %d%s%s", m->arch->info.id, m->variant, want, c,
                       i ? ", as " : "", i ? m->arch->info.in[i] : "");
    if (w != picture_w || h != picture_h)
        return zn_fail(err, ZN_E_USAGE, "input %s is %d x %d, the picture %d x %d", m->arch->info.in[i], w, h,
                       picture_w, picture_h);
    return ZN_OK;
}

static zn_status check_sources(const zn_run *r, const zn_source *in, int n_in, zn_error *err)
{
    const zn_arch *a = r->model->arch;
    int most = 0;
    zn_status s;

    while (a->info.in[most])
        most++;
    if (n_in < 1 || n_in > most || a->shape || a->info.out[1])
        return zn_fail(err, ZN_E_USAGE, "%s does not work on regions of a picture", a->info.id);
    if (in[0].w < 1 || in[0].h < 1 || in[0].w > (1 << 24) || in[0].h > (1 << 24))
        return zn_fail(err, ZN_E_USAGE, "a picture of %d x %d cannot be processed", in[0].w, in[0].h);
    if ((int64_t)in[0].w * r->geometry.grow > (1 << 26) || (int64_t)in[0].h * r->geometry.grow > (1 << 26))
        return zn_fail(err, ZN_E_USAGE, "the result of %d x %d would be too large", in[0].w, in[0].h);
    for (int i = 0; i < n_in && !r->stage; i++) /* the array between stages is the engine's own */
        if ((s = zn_tile_check_port(r->model, i, in[i].w, in[i].h, in[i].c, in[0].w, in[0].h, err)))
            return s;
    return ZN_OK;
}

/* The side of the largest square input that runs in one piece under the bound: memory grows with it.  0: none. */
static int largest_square(zn_run *r, const zn_source *in, int n_in, size_t allowed, int most)
{
    const int unit = r->geometry.multiple;
    int fits = 0, fails = zn_ceil_div(most, unit);

    while (fails - fits > 1) {
        const int mid = fits + (fails - fits) / 2;
        const axis a = worst_axis(r, mid * unit, 0, mid * unit);
        const zn_call call = make_call(r, a, a, in, n_in);
        zn_error ignored;
        size_t bytes;

        if (tile_memory(r, &call, 1, &bytes, &ignored) == ZN_OK && bytes <= allowed)
            fits = mid;
        else
            fails = mid;
    }
    return fits * unit;
}

/* Refused: a network that sees the whole picture, and has no part that could run in tiles. */
static zn_status too_large(zn_run *r, const zn_source *in, int n_in, size_t bytes, size_t allowed, zn_error *err)
{
    const zn_model *m = r->model;
    const int side = m->split.c && !r->stage ? 0 : largest_square(r, in, n_in, allowed, zn_imax(in->w, in->h));
    char fits[96] = "";

    if (side)
        snprintf(fits, sizeof fits, zn_tr(" (%d x %d would fit)"), side, side);
    return zn_fail(err, ZN_E_MEMORY,
                   "%s (%s) cannot work in tiles, and %d x %d needs %zu MiB where %zu are allowed%s; "
                   "use a smaller picture or set %s to more",
                   m->arch->info.id, m->variant, in->w, in->h, bytes >> 20, allowed >> 20, fits,
                   m->engine->be->memory_variable);
}

/* See 4.  GPUs round a pixel by what it depends on alone. */
static bool has_own_tile(const zn_run *r)
{
    return r->geometry.tile && r->geometry.halo >= 0 && !r->model->engine->be->remote;
}

/* The largest square tile (in whole lattice steps), or the one asked for, whose forward stays under the bound. */
static zn_status choose_tile(zn_run *r, zn_plan *plan, const zn_source *in, int n_in, zn_error *err)
{
    const zn_geometry *g = &r->geometry;
    const int step = zn_lattice_of(&r->geometry);
    const size_t allowed = g->halo < 0 ? r->most : r->max_memory;
    int w, h, side, halo;
    zn_status s = check_sources(r, in, n_in, err);

    if (s)
        return s;
    w = padded_len(g, in[0].w);
    h = padded_len(g, in[0].h);
    halo = zn_halo_of(g);
    side = zn_round_up(zn_imax(w, h), step);
    if (has_own_tile(r))
        side = side <= g->tile + g->tile / 4 ? side : g->tile; /* a narrow rest would be mostly halo */
    else if (r->tile && g->halo >= 0)
        side = zn_imin(side, zn_round_up(zn_imax(r->tile, 1), step));
    for (;;) {
        zn_call call = make_call(r, worst_axis(r, side, halo, w), worst_axis(r, side, halo, h), in, n_in);
        const int64_t n_tiles = (int64_t)zn_ceil_div(w, side) * zn_ceil_div(h, side);
        int smaller;

        plan->n_tiles = n_tiles < INT32_MAX ? (int32_t)n_tiles : INT32_MAX;
        s = tile_memory(r, &call, count_sets(r, plan->n_tiles), &plan->peak_bytes, err);
        if (s == ZN_OK && plan->peak_bytes <= allowed)
            break;
        if (s && s != ZN_E_MEMORY)
            return s;
        if (g->halo < 0)
            return too_large(r, in, n_in, plan->peak_bytes, allowed, err);
        smaller = zn_imin(side - step, zn_round_up(side * 7 / 8, step));
        if (smaller < step) {
            if (s)
                return s;
            return zn_fail(
                err, ZN_E_MEMORY, "%s needs %zu MiB for its smallest tile where %zu are allowed; set %s to more",
                r->model->arch->info.id, plan->peak_bytes >> 20, allowed >> 20, r->model->engine->be->memory_variable);
        }
        side = smaller;
    }
    plan->tile_w = plan->tile_h = side;
    return ZN_OK;
}

/* ---- between the picture and a tile's buffers --------------------------------------------------------- */

enum { BLOCK_ROWS = 64 }; /* that one thread copies at a time */

typedef struct copying {
    const zn_source *in; /* read from it, or, if NULL, */
    const zn_sink *out;  /* write to it */
    int x, y, w, h;      /* the region of the picture */
    int full_w, full_h;  /* of the buffer; an input's columns and rows beyond w and h are mirrored */
    int from_x, from_y;  /* no mirrored pixel comes from before this column and row */
    size_t c;
    float *data;  /* the buffer, from the first row and column on */
    int rows;     /* of a block */
    bool *failed; /* by block */
} copying;

/* Moves rows of w pixels that were read densely to their places in the buffer, and mirrors the columns beyond. */
static void spread_rows(const copying *cp, float *block, int rows)
{
    const size_t row = (size_t)cp->full_w * cp->c, w = (size_t)cp->w * cp->c;

    if (cp->w == cp->full_w)
        return;
    for (int i = rows - 1; i >= 0; i--) { /* last row first: rows move up in memory */
        float *to = block + (size_t)i * row;

        memmove(to, block + (size_t)i * w, w * sizeof *to);
        for (int j = cp->w; j < cp->full_w; j++)
            memcpy(to + (size_t)j * cp->c, to + (size_t)zn_mirrored(j, cp->from_x, cp->w) * cp->c, cp->c * sizeof *to);
    }
}

static void pack_rows(const copying *cp, float *block, int rows)
{
    const size_t row = (size_t)cp->full_w * cp->c, w = (size_t)cp->w * cp->c;

    if (cp->w == cp->full_w)
        return;
    for (int i = 1; i < rows; i++) /* rows move down in memory */
        memmove(block + (size_t)i * w, block + (size_t)i * row, w * sizeof *block);
}

static void copy_block(void *cookie, int item, int worker)
{
    const copying *cp = cookie;
    const int y = item * cp->rows, rows = zn_imin(cp->rows, cp->h - y);
    const zn_rect rect = { cp->x, cp->y + y, cp->w, rows };
    float *block = cp->data + (size_t)y * (size_t)cp->full_w * cp->c;

    (void)worker;
    if (cp->in) {
        cp->failed[item] = !cp->in->read(cp->in->cookie, rect, block);
        spread_rows(cp, block, rows);
    } else {
        pack_rows(cp, block, rows);
        cp->failed[item] = !cp->out->write(cp->out->cookie, rect, block);
    }
}

/* All rows in one call, or in blocks by several threads if the run allows that. */
static bool copy_rows(zn_run *r, copying *cp)
{
    zn_pool *pool = r->shared && r->model->engine->be->remote ? zn_engine_helpers(r->model->engine) : NULL;
    bool one = false, *failed = pool ? calloc((size_t)zn_ceil_div(cp->h, BLOCK_ROWS), sizeof *failed) : NULL;
    bool done = true;
    int n;

    cp->rows = failed ? BLOCK_ROWS : cp->h;
    cp->failed = failed ? failed : &one;
    n = zn_ceil_div(cp->h, cp->rows);
    if (failed)
        zn_pool_run(pool, copy_block, cp, n);
    else
        copy_block(cp, 0, 0);
    for (int i = 0; i < n; i++)
        done = done && !cp->failed[i];
    free(failed);
    return done;
}

/* The first column or row that may be mirrored: every tile at the picture's end holds those from here on. */
static int mirror_from(const zn_geometry *g, int len)
{
    return g->halo < 0 ? 0 : zn_imax(0, padded_len(g, len) - g->multiple - zn_halo_of(g));
}

/* Reads the tile's input; beyond the picture, where the model wants whole multiples, it is mirrored. */
static bool read_tile(zn_run *r, const zn_source *in, axis x, axis y, float *dst)
{
    const zn_geometry *g = &r->geometry;
    copying cp = { .in = in,
                   .x = x.in0,
                   .y = y.in0,
                   .w = zn_imin(x.in1, in->w) - x.in0,
                   .h = zn_imin(y.in1, in->h) - y.in0,
                   .full_w = x.in1 - x.in0,
                   .full_h = y.in1 - y.in0,
                   .from_x = mirror_from(g, in->w) - x.in0,
                   .from_y = mirror_from(g, in->h) - y.in0,
                   .c = (size_t)in->c,
                   .data = dst };
    const size_t row = (size_t)cp.full_w * cp.c;

    if (!copy_rows(r, &cp))
        return false;
    for (int i = cp.h; i < cp.full_h; i++)
        memcpy(dst + (size_t)i * row, dst + (size_t)zn_mirrored(i, cp.from_y, cp.h) * row, row * sizeof *dst);
    return true;
}

/* Writes the part of the tile's output that lies in both the core and the roi. */
static bool write_tile(zn_run *r, const zn_sink *out, axis x, axis y, zn_rect roi, float *src)
{
    const zn_geometry *g = &r->geometry;
    int x0 = zn_imax(roi.x, x.core0 / g->shrink * g->grow);
    int y0 = zn_imax(roi.y, y.core0 / g->shrink * g->grow);
    int x1 = zn_imin(roi.x + roi.w, zn_ceil_div(x.core1, g->shrink) * g->grow);
    int y1 = zn_imin(roi.y + roi.h, zn_ceil_div(y.core1, g->shrink) * g->grow);
    copying cp = {
        .out = out, .x = x0, .y = y0, .w = x1 - x0, .h = y1 - y0, .full_w = x.out1 - x.out0, .c = (size_t)g->out_c
    };

    if (x1 <= x0 || y1 <= y0)
        return true;
    cp.data = src + ((size_t)(y0 - y.out0) * (size_t)cp.full_w + (size_t)(x0 - x.out0)) * cp.c;
    return copy_rows(r, &cp);
}

/* The part of lattice tile [core0, core1) that output pixels [from, to) need, on whole lattice steps; or all of it, see 4. */
static axis needed(const zn_run *r, int core0, int core1, int from, int to, int len)
{
    const zn_geometry *g = &r->geometry;
    const int step = zn_lattice_of(&r->geometry);
    int lo = from / g->grow * g->shrink, hi = zn_ceil_div(to, g->grow) * g->shrink;

    if (has_own_tile(r))
        return make_axis(r, core0, core1, len);
    core0 = zn_imax(core0, lo / step * step);
    core1 = zn_imin(core1, zn_round_up(hi, step));
    return make_axis(r, core0, core1, len);
}

/* ---- walking the tiles of a roi ----------------------------------------------------------------------- */

typedef struct walk {
    zn_run *r;
    const zn_source *in;
    int n_in;
    const zn_sink *out;
    zn_rect roi;
    zn_error *err;
    double macs, work; /* counted by `measure` */
    size_t src_len[ZN_MAX_PORTS], dst_len;
    int n_sets, set;                      /* of buffers; the next tile's */
    float *src[2][ZN_MAX_PORTS], *dst[2]; /* a tile's inputs and output */
    bool under_way;                       /* tile x, y has been started and is not written yet */
    axis x, y;
} walk;

typedef zn_status visit(walk *k, axis x, axis y, const zn_call *call);

static zn_status each_tile(walk *k, const zn_plan *plan, visit *visit_tile)
{
    const zn_geometry *g = &k->r->geometry;
    const zn_rect roi = k->roi;
    int w = padded_len(g, k->in[0].w), h = padded_len(g, k->in[0].h);
    int tx0 = roi.x / g->grow * g->shrink / plan->tile_w;
    int ty0 = roi.y / g->grow * g->shrink / plan->tile_h;
    int tx1 = zn_ceil_div(zn_imin(w, zn_ceil_div(roi.x + roi.w, g->grow) * g->shrink), plan->tile_w);
    int ty1 = zn_ceil_div(zn_imin(h, zn_ceil_div(roi.y + roi.h, g->grow) * g->shrink), plan->tile_h);

    for (int ty = ty0; ty < ty1; ty++)
        for (int tx = tx0; tx < tx1; tx++) {
            axis x = needed(k->r, tx * plan->tile_w, (tx + 1) * plan->tile_w, roi.x, roi.x + roi.w, w);
            axis y = needed(k->r, ty * plan->tile_h, (ty + 1) * plan->tile_h, roi.y, roi.y + roi.h, h);
            zn_call call = make_call(k->r, x, y, k->in, k->n_in);
            zn_status s = visit_tile(k, x, y, &call);

            if (s)
                return s;
        }
    return ZN_OK;
}

static zn_status measure(walk *k, axis x, axis y, const zn_call *call)
{
    size_t len = zn_pixels(call->out[0]) * (size_t)call->out[0].c;
    const zn_measure *measured;
    zn_status s = zn_run_measure(k->r, call, &measured, k->err);

    (void)x, (void)y;
    if (s)
        return s;
    k->macs += measured->macs;
    k->work += measured->work;
    k->dst_len = len > k->dst_len ? len : k->dst_len;
    for (int i = 0; i < k->n_in; i++) {
        len = zn_pixels(call->in[i]) * (size_t)call->in[i].c;
        k->src_len[i] = len > k->src_len[i] ? len : k->src_len[i];
    }
    return ZN_OK;
}

static zn_status write_from(walk *k, axis x, axis y, int set)
{
    if (k->r->ctx.status)
        return k->r->ctx.status;
    if (!write_tile(k->r, k->out, x, y, k->roi, k->dst[set]))
        return zn_fail(k->err, ZN_E_FILE, "the result could not be written");
    return ZN_OK;
}

/* Waits for the tile that was started, if there is one, and writes it. */
static zn_status finish(walk *k)
{
    if (!k->under_way)
        return ZN_OK;
    k->under_way = false;
    zn_run_finish(k->r);
    return write_from(k, k->x, k->y, (k->set + k->n_sets - 1) % k->n_sets);
}

static zn_status compute(walk *k, axis x, axis y, const zn_call *call)
{
    const int set = k->set;
    const bool another = k->under_way;
    const axis its_x = k->x, its_y = k->y;

    for (int i = 0; i < k->n_in; i++)
        if (!read_tile(k->r, &k->in[i], x, y, k->src[set][i]))
            return zn_fail(k->err, ZN_E_FILE, "the picture could not be read");
    if (another)
        zn_run_finish(k->r);
    zn_run_start(k->r, call, (const float *const *)k->src[set], &k->dst[set]);
    k->x = x, k->y = y;
    k->under_way = true;
    k->set = (set + 1) % k->n_sets;
    if (k->n_sets == 1)
        return finish(k);
    return another ? write_from(k, its_x, its_y, k->set) : ZN_OK;
}

/* One of the model's tile buffers, of len floats at least. */
static float *buffer(zn_model *m, int i, size_t len)
{
    const zn_backend *be = m->engine->be;

    if (len > m->tile_len[i]) {
        be->host_free(m->engine->dev, m->tile[i]);
        m->tile[i] = be->host_alloc(m->engine->dev, len * sizeof(float));
        m->tile_len[i] = m->tile[i] ? len : 0;
    }
    return m->tile[i];
}

bool zn_tile_wants_levels(const zn_run *r, int n_in)
{
    return r->model->level && zn_run_seeks_noise(r) && n_in == 1;
}

/* The settings of a network that is told the noise, where it gets no map of it. */
static zn_status complete_noise(zn_run *r, const zn_source *in, zn_error *err)
{
    const zn_told_noise *t = r->model->arch->noise;

    if (!t)
        return ZN_OK;
    return zn_noise_complete(r->set + t->sigma, r->set[t->scale], r->noise, in, zn_engine_helpers(r->model->engine),
                             err);
}

/* The sources of a run: those that were given and, behind them, the noise map. */
static int all_sources(zn_source *all, const zn_run *r, const zn_source *in, int n_in)
{
    memcpy(all, in, (size_t)zn_imin(n_in, ZN_MAX_PORTS) * sizeof *all);
    if (!zn_tile_wants_levels(r, n_in))
        return n_in;
    all[1] = r->levels ? zn_levels_source(r->levels) : (zn_source){ in->w, in->h, 3, NULL, NULL }; /* only planned */
    return 2;
}

static zn_status check_region(const zn_run *r, const zn_source *in, zn_rect roi, zn_error *err)
{
    const zn_geometry *g = &r->geometry;

    if (roi.x < 0 || roi.y < 0 || roi.w < 1 || roi.h < 1 ||
        (int64_t)roi.x + roi.w > zn_ceil_div(in->w, g->shrink) * (int64_t)g->grow ||
        (int64_t)roi.y + roi.h > zn_ceil_div(in->h, g->shrink) * (int64_t)g->grow)
        return zn_fail(err, ZN_E_USAGE, "the region %d,%d %dx%d is outside the picture", roi.x, roi.y, roi.w, roi.h);
    return ZN_OK;
}

zn_status zn_tile_check(const zn_run *r, const zn_source *in, int n_in, zn_rect roi, zn_error *err)
{
    const zn_status s = check_sources(r, in, n_in, err);

    return s ? s : check_region(r, in, roi, err);
}

zn_rect zn_tile_reach(const zn_run *r, const zn_source *in, zn_rect roi)
{
    const zn_geometry *g = &r->geometry;
    const int step = zn_lattice_of(&r->geometry), halo = zn_halo_of(g);
    const int x0 = zn_imax(roi.x / step * step - halo, 0), y0 = zn_imax(roi.y / step * step - halo, 0);
    const int x1 = zn_imin(zn_round_up(roi.x + roi.w, step) + halo, in->w);
    const int y1 = zn_imin(zn_round_up(roi.y + roi.h, step) + halo, in->h);

    return g->halo < 0 ? (zn_rect){ 0, 0, in->w, in->h } : (zn_rect){ x0, y0, x1 - x0, y1 - y0 };
}

zn_status zn_tile_run(zn_run *r, const zn_sink *out, const zn_source *given, int n_given, zn_rect roi, zn_error *err)
{
    zn_source in[ZN_MAX_PORTS];
    const int n_in = all_sources(in, r, given, n_given);
    walk k = { .r = r, .in = in, .n_in = n_in, .out = out, .roi = roi, .err = err };
    zn_plan plan;
    zn_status s = choose_tile(r, &plan, in, n_in, err);
    bool got = true;

    if (s)
        return s;
    if ((s = check_region(r, in, roi, err)))
        return s;
    if (n_in == 1 && (s = complete_noise(r, in, err)))
        return s;
    if ((s = each_tile(&k, &plan, measure)))
        return s;
    if (!r->stage) /* else it is the work of all stages */
        r->ctx.total = k.work;
    k.n_sets = count_sets(r, plan.n_tiles);
    for (int set = 0; set < k.n_sets; set++) {
        k.dst[set] = buffer(r->model, set * (ZN_MAX_PORTS + 1) + ZN_MAX_PORTS, k.dst_len);
        got = got && k.dst[set];
        for (int i = 0; i < n_in; i++) {
            if (!zn_go_on(&r->ctx)) /* large ones take long on a GPU */
                return r->ctx.status;
            k.src[set][i] = buffer(r->model, set * (ZN_MAX_PORTS + 1) + i, k.src_len[i]);
            got = got && k.src[set][i];
        }
    }
    if (!got) {
        s = r->ctx.be->sync(r->ctx.dev, err); /* a lost device has its own message */
        return s ? s : zn_fail(err, ZN_E_MEMORY, "out of memory for a tile of the picture");
    }
    s = each_tile(&k, &plan, compute);
    if (!s)
        return finish(&k);
    r->ctx.be->sync(r->ctx.dev, NULL); /* nothing may use the buffers any more */
    return s;
}

zn_status zn_tile_plan(zn_run *r, zn_plan *plan, const zn_source *given, int n_given, zn_error *err)
{
    const zn_geometry *g = &r->geometry;
    zn_source in[ZN_MAX_PORTS];
    const int n_in = all_sources(in, r, given, n_given);
    walk k = { .r = r, .in = in, .n_in = n_in, .err = err };
    zn_status s = choose_tile(r, plan, in, n_in, err);

    if (s)
        return s;
    k.roi.w = zn_ceil_div(in[0].w, g->shrink) * g->grow;
    k.roi.h = zn_ceil_div(in[0].h, g->shrink) * g->grow;
    s = each_tile(&k, plan, measure);
    plan->macs = k.macs;
    r->ctx.total = k.work;
    return s;
}
