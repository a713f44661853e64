/* SPDX-License-Identifier: MIT */
/* gated_strip.c - a gated residual block, in strips that are computed row by row, from the top.
 *
 *   x, row i+1 --norm--> u --pw1--> wide, the last three rows of it
 *   wide, rows i-1, i, i+1 --dw, halves multiplied--> g --pw2--(+x)--> v --norm--> u
 *   u --pw3, halves multiplied--> g --pw4--(+v)--> y, row i
 *
 * Everything between x and y is a few rows of a strip in the worker's scratch memory.  A row of wide has a pixel
 * more on either side, zeros where the picture ends; above and below the picture there is a row of zeros.  An
 * item is a piece of a strip: two rows of wide more than it has rows of y.  No result depends on the piece, or
 * on the place in it.
 *
 * Each call packs the weights again, in the device's scratch memory (which costs less than a thousandth of the
 * work on a picture): channels are padded with zeros to whole vectors, and a panel of pw1,
 * dw or pw3 holds some channels and, behind them, those of the second half that they are multiplied with.
 *
 * With tiles of bf16 the inputs of products, u and g, are bf16, or two terms of it, and everything else is float. */
#include <string.h>

#include "../core/ints.h"
#include "gated_tiles.h"

enum {
    WIDEST = 130,       /* pixels of a row of wide ... */
    BUDGET = 384 << 10, /* ... and bytes of a piece: what fits in L2 together with the weights */
    TILED = 640 << 10,  /* ... with tiles: their CPUs have more */
    PIECES = 4,         /* for each worker, if there are several */
    LOWEST = 16         /* rows of a piece */
};

typedef struct strip_job {
    zn_cpu *d;
    zn_tensor y, x;
    const zn_gated *w;
    const zn_panel_form *f;
    const zn_tile_form *tiles;              /* instead of f's panels; NULL: those */
    bool low;                               /* their terms, in addition to the high ones */
    size_t e;                               /* bytes of an element of u and g ... */
    size_t e_wide;                          /* ... and of wide and dw */
    const char *pw1, *dw, *pw2, *pw3, *pw4; /* [panel][bias, then channels or taps][outputs of the panel] */
    int k, outs;                            /* channels as whole vectors, or chunks; those computed */
    int depth;                              /* of products: channels of x and what their steps need */
    int th, tw;                             /* pixels of a piece */
    int down, across;                       /* pieces of an image */
} strip_job;

typedef struct piece {
    int n, i0, i1, j0, j1;      /* what to compute */
    int a, b;                   /* the columns of wide that are in the picture: a .. b-1 */
    char *wide, *zeros, *u, *g; /* elements; wide: [panel][row % 3][pixel][nr]; the others: [pixel][k] */
    float *v, *normed;          /* [pixel][k]; normed: u before it is rounded, or u itself; with tiles also g */
    float *room;                /* of tiles */
} piece;

static float *pixel(zn_tensor t, int n, int i, int j)
{
    return t.data + (((size_t)n * (size_t)t.h + (size_t)i) * (size_t)t.w + (size_t)j) * (size_t)t.ld;
}

/* ---- weights ------------------------------------------------------------------------------------------ */

/* Rows of a panel: the bias, then one for each tap, or for each channel as whole vectors. */
static int panel_rows(const zn_panel_form *f, const zn_conv *w)
{
    return 1 + (w->groups > 1 ? w->kh * w->kw : zn_round_up(w->cin, f->vl));
}

typedef struct packing {
    const strip_job *job;
    const zn_conv *w;
    int halves;  /* 2, or 1 for none */
    int n, step; /* outputs, or pairs of them; of a panel */
    bool tiled;
    zn_conv_row_fn *read;
    char *to;
} packing;

static void pack_tiles(const packing *p, int item)
{
    const strip_job *job = p->job;
    const int c = p->w->cout / p->halves, half = ZN_TILE / 2, o = item * p->step;
    const int from[2] = { o, p->halves > 1 ? c + o : o + half };
    const int n[2] = { zn_imin(c - o, half), p->halves > 1 ? zn_imin(c - o, half) : zn_imin(c - o - half, half) };

    zn_tile_panel_pack(p->to + (size_t)item * zn_tile_panel_size(job->k, job->low), job->d, p->w, job->k, from, n,
                       job->low);
}

/* A panel. */
static void pack_item(void *cookie, int item, int worker)
{
    const packing *p = cookie;
    const strip_job *job = p->job;
    const zn_panel_form *f = job->f;
    const zn_conv *w = p->w;
    const int c = w->cout / p->halves, o = item * p->step, width = zn_imin(p->step, p->n - o);
    const int rows = panel_rows(f, w), filled = w->groups > 1 ? rows : 1 + w->cin;
    char *to = p->to + (size_t)(o * p->halves * rows) * job->e_wide;

    (void)worker;
    if (p->tiled) {
        pack_tiles(p, item);
        return;
    }
    for (int row = 0; row < rows; row++)
        for (int h = 0; h < p->halves; h++, to += (size_t)width * job->e_wide) {
            float some[ZN_MAX_NR] = { 0 };

            if (row < filled)
                p->read(some, job->d->k, w, row, h * c + o, zn_imin(width, c - o));
            if (f->round)
                f->round(to, some, (size_t)width);
            else
                memcpy(to, some, (size_t)width * sizeof *some);
        }
}

/* Writes the panels of w at *at, which moves behind them. */
static const char *pack(char **at, const strip_job *job, const zn_conv *w, int halves)
{
    const zn_panel_form *f = job->f;
    const bool tiled = job->tiles && w->groups == 1;
    const int whole = zn_round_up(w->cout / halves, job->tiles ? ZN_TILE / 2 : f->vl);
    packing p = { .job = job,
                  .w = w,
                  .halves = halves,
                  .n = tiled ? job->outs : whole,
                  .step = tiled && halves == 1 ? ZN_TILE
                      : tiled                  ? ZN_TILE / 2
                                               : f->nr / halves,
                  .tiled = tiled,
                  .read = zn_cpu_conv_rows(job->d, w),
                  .to = *at };
    const int panels = zn_ceil_div(p.n, p.step);

    zn_pool_run(job->d->pool, pack_item, &p, panels);
    *at += tiled ? (size_t)panels * zn_tile_panel_size(job->k, job->low)
                 : (size_t)(whole * halves * panel_rows(f, w)) * job->e_wide;
    return p.to;
}

/* ---- a row ---------------------------------------------------------------------------------------------- */

/* Row i of wide in panel o / half: its first pixel, of 2 * width floats. */
static char *wide_row(const strip_job *job, const piece *p, int i, int o)
{
    const int nr = job->f->nr;

    if (i < 0 || i >= job->x.h)
        return p->zeros;
    return p->wide + (size_t)(o / (nr / 2) * 3 + i % 3) * (size_t)((job->tw + 2) * nr) * job->e_wide;
}

static size_t plane(const strip_job *job) /* bytes of u or g, or of one term of them */
{
    return (size_t)((job->tw + 2) * job->k) * (job->low ? job->e / 2 : job->e);
}

static void run_panel(const strip_job *job, const piece *p, const zn_panel *g)
{
    if (job->tiles)
        zn_tile_panel(job->tiles, g, job->low ? plane(job) : 0, p->room);
    else
        job->f->panel(g);
}

static size_t panel_bytes(const strip_job *job, int outputs)
{
    return job->tiles ? zn_tile_panel_size(job->k, job->low) : (size_t)((1 + job->k) * outputs) * job->e;
}

/* u or g, of so many pixels, from `normed`. */
static void round_row(const strip_job *job, const piece *p, char *to, int pixels)
{
    if (job->tiles)
        job->tiles->split(to, job->low ? plane(job) : 0, p->normed, pixels * job->k);
    else if (job->f->round)
        job->f->round(to, p->normed, (size_t)(pixels * job->k));
}

/* u = the norm of some pixels */
static void normalise(const strip_job *job, const piece *p, const float *x, size_t ld, int pixels)
{
    job->d->k->norm_rows(p->normed, (size_t)job->k, x, ld, pixels, job->x.c, job->w->eps);
    round_row(job, p, p->u, pixels);
}

/* Where a gate writes channel o of its first pixel: g, or what g is rounded from. */
static void *gate_at(const strip_job *job, const piece *p, int o)
{
    return job->tiles ? (char *)(p->normed + o) : p->g + (size_t)o * job->e;
}

/* The row i of wide that is in the picture, and if `gate` the row above it of g. */
static void widen(const strip_job *job, const piece *p, int i, bool gate)
{
    const zn_panel_form *f = job->f;
    const char *pw1 = job->pw1, *dw = job->dw;
    bool inside = i >= 0 && i < job->x.h;

    if (inside)
        normalise(job, p, pixel(job->x, p->n, i, p->a), (size_t)job->x.ld, p->b - p->a);
    for (int o = 0, width; o < job->outs; o += width) {
        width = zn_imin(f->nr / 2, job->outs - o);
        if (inside)
            run_panel(
                job, p,
                &(zn_panel){ .y = wide_row(job, p, i, o) + (size_t)((p->a - (p->j0 - 1)) * 2 * width) * job->e_wide,
                             .x = p->u,
                             .w = pw1,
                             .y_ld = (size_t)(2 * width),
                             .x_ld = (size_t)job->k,
                             .rows = p->b - p->a,
                             .k = job->depth,
                             .n = 2 * width });
        if (gate) {
            const void *rows[3] = { wide_row(job, p, i - 2, o), wide_row(job, p, i - 1, o), wide_row(job, p, i, o) };

            f->gate3(gate_at(job, p, o), (size_t)job->k, rows, dw, p->j1 - p->j0, 2 * width);
        }
        pw1 += panel_bytes(job, 2 * width);
        dw += (size_t)(10 * 2 * width) * job->e_wide;
    }
    if (gate && job->tiles)
        round_row(job, p, p->g, p->j1 - p->j0);
}

/* y = res + w x, for the pixels of a row */
static void add_product(const strip_job *job, const piece *p, float *y, size_t y_ld, const char *x, const char *w,
                        const float *res, size_t res_ld)
{
    const zn_panel_form *f = job->f;

    for (int o = 0; o < job->outs; o += f->nr, w += panel_bytes(job, f->nr))
        run_panel(job, p,
                  &(zn_panel){ .y = y + o,
                               .x = x,
                               .w = w,
                               .res = res + o,
                               .y_ld = y_ld,
                               .x_ld = (size_t)job->k,
                               .res_ld = res_ld,
                               .rows = p->j1 - p->j0,
                               .k = job->depth,
                               .n = zn_imin(f->nr, job->x.c - o) });
}

/* Row i of y, from g. */
static void finish(const strip_job *job, const piece *p, int i)
{
    const zn_panel_form *f = job->f;
    const size_t ld = (size_t)job->k;
    const char *pw3 = job->pw3;
    const float *ahead = pixel(job->x, p->n, zn_imin(i + 2, job->x.h - 1), p->j0); /* the next row to read */

    add_product(job, p, p->v, ld, p->g, job->pw2, pixel(job->x, p->n, i, p->j0), (size_t)job->x.ld);
    normalise(job, p, p->v, ld, p->j1 - p->j0);
    for (int o = 0, width; o < job->outs; o += width) {
        width = zn_imin(f->nr / 2, job->outs - o);
        run_panel(job, p,
                  &(zn_panel){ .y = gate_at(job, p, o),
                               .x = p->u,
                               .w = pw3,
                               .y_ld = ld,
                               .x_ld = ld,
                               .rows = p->j1 - p->j0,
                               .k = job->depth,
                               .n = 2 * width,
                               .gate = true,
                               .ahead = ahead + o,
                               .ahead_ld = (size_t)job->x.ld });
        pw3 += panel_bytes(job, 2 * width);
    }
    if (job->tiles)
        round_row(job, p, p->g, p->j1 - p->j0);
    add_product(job, p, pixel(job->y, p->n, i, p->j0), (size_t)job->y.ld, p->g, job->pw4, p->v, ld);
}

/* ---- pieces --------------------------------------------------------------------------------------------- */

static size_t wide_len(const zn_panel_form *f, int tw, int c)
{
    return (size_t)(3 * (tw + 2)) * (size_t)(zn_round_up(c, f->nr / 2) * 2);
}

/* wide, zeros, u and g; v, and normed if it is not u; the room of tiles, and rows up to a whole one. */
static size_t piece_bytes(const strip_job *job, int tw)
{
    const zn_panel_form *f = job->f;
    const size_t row = (size_t)(tw + 2) * (size_t)job->k;
    const size_t tile = job->tiles ? ZN_TILE * (ZN_TILE * sizeof(float) + (size_t)job->k * job->e) : 0;

    return (wide_len(f, tw, job->x.c) + (size_t)((tw + 2) * f->nr)) * job->e_wide + 2 * row * job->e +
        (f->round || job->tiles ? 2 : 1) * row * sizeof(float) + tile;
}

static void strip_item(void *cookie, int item, int worker)
{
    const strip_job *job = cookie;
    const zn_panel_form *f = job->f;
    const size_t len = (size_t)((job->tw + 2) * job->k);
    piece p = { .n = item / (job->down * job->across), .wide = zn_cpu_scratch(job->d, worker) };

    p.i0 = item / job->across % job->down * job->th;
    p.j0 = item % job->across * job->tw;
    p.i1 = zn_imin(p.i0 + job->th, job->x.h);
    p.j1 = zn_imin(p.j0 + job->tw, job->x.w);
    p.a = zn_imax(p.j0 - 1, 0);
    p.b = zn_imin(p.j1 + 1, job->x.w);
    p.zeros = p.wide + wide_len(f, job->tw, job->x.c) * job->e_wide;
    p.u = p.zeros + (size_t)((job->tw + 2) * f->nr) * job->e_wide;
    p.g = p.u + len * job->e;
    p.v = (float *)(void *)(p.g + len * job->e);
    p.normed = f->round || job->tiles ? p.v + len : (float *)(void *)p.u;
    p.room = p.normed + len;
    memset(p.wide, 0, (size_t)(p.u - p.wide));   /* the border stays ... */
    memset(p.normed, 0, len * sizeof *p.normed); /* ... and so do the channels up to whole vectors */
    if (job->tiles)
        job->tiles->begin();
    widen(job, &p, p.i0 - 1, false);
    widen(job, &p, p.i0, false);
    for (int i = p.i0; i < p.i1; i++) {
        widen(job, &p, i + 1, true);
        finish(job, &p, i);
    }
    if (job->tiles)
        job->tiles->end();
}

/* A panel of tiles has ZN_TILE outputs; what surrounds them is f's. */
static zn_panel_form tile_panels(zn_panel_form f)
{
    f.nr = ZN_TILE;
    f.step = ZN_TILE;
    return f;
}

bool zn_cpu_gated_strips(zn_cpu *d, zn_tensor y, zn_tensor x, const zn_gated *w)
{
    const zn_wtype inputs = zn_cpu_conv_inputs(d, &w->pw1);
    const zn_panel_form *f = inputs == ZN_W_F16 ? d->half : &d->k->panels;
    const zn_panel_form tiled = tile_panels(*f);
    strip_job job = { .d = d, .y = y, .x = x, .w = w, .f = f, .low = w->pw1.precision == ZN_TF32 };
    char *at = d->shared;
    size_t whole;
    int strips, pieces;

    if (!f->panel)
        return false;
    if (inputs == ZN_W_BF16) {
        job.tiles = d->tiles;
        job.f = f = &tiled;
    }
    job.low = job.low && job.tiles;
    job.e_wide = zn_type_size(f->type);
    job.e = job.tiles ? (job.low ? 4 : 2) : job.e_wide;
    job.outs = zn_round_up(x.c, job.tiles ? ZN_TILE / 2 : f->vl);
    job.k = zn_round_up(x.c, job.tiles ? ZN_TILE : f->vl);
    job.depth = job.tiles ? job.k : zn_round_up(x.c, 4);
    whole = (size_t)job.k;
    if ((job.tiles ? 6 * (whole + ZN_TILE) * whole : 6 * (whole + 1) * whole) * job.e + 20 * whole * job.e_wide >
        ZN_SCRATCH)
        return false;
    job.pw1 = pack(&at, &job, &w->pw1, 2);
    job.dw = pack(&at, &job, &w->dw, 2);
    job.pw2 = pack(&at, &job, &w->pw2, 1);
    job.pw3 = pack(&at, &job, &w->pw3, 2);
    job.pw4 = pack(&at, &job, &w->pw4, 1);

    /* With the pixel on either side, and without it, the width is as many tiles of a panel. */
    job.tw = WIDEST / f->step * f->step - 2;
    while (job.tw > zn_imax(2 * d->k->mr, f->step) && piece_bytes(&job, job.tw) > (job.tiles ? TILED : BUDGET))
        job.tw -= f->step;
    assert(piece_bytes(&job, job.tw) <= ZN_SCRATCH);
    job.across = (x.w + job.tw - 1) / job.tw;
    job.tw = zn_imin(job.tw, zn_round_up((x.w + job.across - 1) / job.across + 2, f->step) - 2);
    strips = x.n * job.across;
    pieces = zn_pool_size(d->pool) > 1 ? PIECES * zn_pool_size(d->pool) : 1;
    job.th = zn_imin(zn_imax((int)((int64_t)x.h * strips / pieces), LOWEST), x.h);
    job.down = (x.h + job.th - 1) / job.th;
    zn_pool_run(d->pool, strip_item, &job, strips * job.down);
    return true;
}
