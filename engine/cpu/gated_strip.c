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
 * dw or pw3 holds some channels and, behind them, those of the second half that they are multiplied with. */
#include <string.h>

#include "../core/ints.h"
#include "conv.h"

enum {
    WIDEST = 130,       /* pixels of a row of wide ... */
    BUDGET = 384 << 10, /* ... and bytes of a piece: what fits in L2 together with the weights */
    PIECES = 4,         /* for each worker, if there are several */
    LOWEST = 16         /* rows of a piece */
};

typedef struct strip_job {
    zn_cpu *d;
    zn_tensor y, x;
    const zn_gated *w;
    const float *pw1, *dw, *pw2, *pw3, *pw4; /* [panel][bias, then channels or taps][outputs of the panel] */
    int k;                                   /* channels as whole vectors */
    int th, tw;                              /* pixels of a piece */
    int down, across;                        /* pieces of an image */
} strip_job;

typedef struct piece {
    int n, i0, i1, j0, j1;           /* what to compute */
    int a, b;                        /* the columns of wide that are in the picture: a .. b-1 */
    float *wide, *zeros, *u, *g, *v; /* wide: [panel][row % 3][pixel][NR]; the others: [pixel][k] */
} piece;

static float *pixel(zn_tensor t, int n, int i, int j)
{
    return t.data + (((size_t)n * (size_t)t.h + (size_t)i) * (size_t)t.w + (size_t)j) * (size_t)t.ld;
}

/* ---- weights ------------------------------------------------------------------------------------------ */

/* Rows of a panel: the bias, then one for each tap, or for each channel as whole vectors. */
static int panel_rows(const zn_kernels *k, const zn_conv *w)
{
    return 1 + (w->groups > 1 ? w->kh * w->kw : zn_round_up(w->cin, k->vl));
}

/* Writes the panels of w at *at, which moves behind them; halves: 2, or 1 for none. */
static const float *pack(float **at, const zn_kernels *k, const zn_conv *w, int halves)
{
    const int c = w->cout / halves, whole = zn_round_up(c, k->vl), rows = panel_rows(k, w);
    const int filled = w->groups > 1 ? rows : 1 + w->cin;
    float *first = *at, *to = first;

    for (int o = 0, width; o < whole; o += width) {
        width = zn_imin(k->panel_nr / halves, whole - o);
        memset(to, 0, (size_t)(rows * halves * width) * sizeof *to);
        for (int row = 0; row < rows; row++)
            for (int h = 0; h < halves; h++, to += width)
                if (row < filled)
                    zn_cpu_conv_row(to, k, w, row, h * c + o, zn_imin(width, c - o));
    }
    *at = to;
    return first;
}

/* ---- a row ---------------------------------------------------------------------------------------------- */

/* Row i of wide in panel o / half: its first pixel, of 2 * width floats. */
static float *wide_row(const strip_job *job, const piece *p, int i, int o)
{
    const zn_kernels *k = job->d->k;

    if (i < 0 || i >= job->x.h)
        return p->zeros;
    return p->wide + (size_t)(o / (k->panel_nr / 2) * 3 + i % 3) * (size_t)((job->tw + 2) * k->panel_nr);
}

/* The row i of wide that is in the picture, and if `gate` the row above it of g. */
static void widen(const strip_job *job, const piece *p, int i, bool gate)
{
    const zn_kernels *k = job->d->k;
    const float *pw1 = job->pw1, *dw = job->dw;
    bool inside = i >= 0 && i < job->x.h;

    if (inside)
        k->norm_rows(p->u, (size_t)job->k, pixel(job->x, p->n, i, p->a), (size_t)job->x.ld, p->b - p->a, job->x.c,
                     job->w->eps);
    for (int o = 0, width; o < job->k; o += width) {
        width = zn_imin(k->panel_nr / 2, job->k - o);
        if (inside)
            k->panel(&(zn_panel){ .y = wide_row(job, p, i, o) + (p->a - (p->j0 - 1)) * 2 * width,
                                  .x = p->u,
                                  .w = pw1,
                                  .y_ld = (size_t)(2 * width),
                                  .x_ld = (size_t)job->k,
                                  .rows = p->b - p->a,
                                  .k = job->k,
                                  .n = 2 * width });
        if (gate) {
            const float *rows[3] = { wide_row(job, p, i - 2, o), wide_row(job, p, i - 1, o), wide_row(job, p, i, o) };

            k->gate3(p->g + o, (size_t)job->k, rows, dw, p->j1 - p->j0, 2 * width);
        }
        pw1 += (1 + job->k) * 2 * width;
        dw += 10 * 2 * width;
    }
}

/* y = res + w x, for the pixels of a row */
static void add_product(const strip_job *job, const piece *p, float *y, size_t y_ld, const float *x, const float *w,
                        const float *res, size_t res_ld)
{
    const zn_kernels *k = job->d->k;

    for (int o = 0; o < job->k; o += k->panel_nr, w += (1 + job->k) * k->panel_nr)
        k->panel(&(zn_panel){ .y = y + o,
                              .x = x,
                              .w = w,
                              .res = res + o,
                              .y_ld = y_ld,
                              .x_ld = (size_t)job->k,
                              .res_ld = res_ld,
                              .rows = p->j1 - p->j0,
                              .k = job->k,
                              .n = zn_imin(k->panel_nr, job->x.c - o) });
}

/* Row i of y, from g. */
static void finish(const strip_job *job, const piece *p, int i)
{
    const zn_kernels *k = job->d->k;
    const size_t ld = (size_t)job->k;
    const float *pw3 = job->pw3;
    const float *ahead = pixel(job->x, p->n, zn_imin(i + 2, job->x.h - 1), p->j0); /* the next row to read */

    add_product(job, p, p->v, ld, p->g, job->pw2, pixel(job->x, p->n, i, p->j0), (size_t)job->x.ld);
    k->norm_rows(p->u, ld, p->v, ld, p->j1 - p->j0, job->x.c, job->w->eps);
    for (int o = 0, width; o < job->k; o += width) {
        width = zn_imin(k->panel_nr / 2, job->k - o);
        k->panel(&(zn_panel){ .y = p->g + o,
                              .x = p->u,
                              .w = pw3,
                              .y_ld = ld,
                              .x_ld = ld,
                              .rows = p->j1 - p->j0,
                              .k = job->k,
                              .n = 2 * width,
                              .gate = true,
                              .ahead = ahead + o,
                              .ahead_ld = (size_t)job->x.ld });
        pw3 += (1 + job->k) * 2 * width;
    }
    add_product(job, p, pixel(job->y, p->n, i, p->j0), (size_t)job->y.ld, p->g, job->pw4, p->v, ld);
}

/* ---- pieces --------------------------------------------------------------------------------------------- */

static size_t wide_len(const zn_kernels *k, int tw, int c)
{
    return (size_t)(3 * (tw + 2)) * (size_t)(zn_round_up(c, k->panel_nr / 2) * 2);
}

static size_t piece_bytes(const zn_kernels *k, int tw, int c)
{
    return (wide_len(k, tw, c) + (size_t)((tw + 2) * (k->panel_nr + 3 * zn_round_up(c, k->vl)))) * sizeof(float);
}

static void strip_item(void *cookie, int item, int worker)
{
    const strip_job *job = cookie;
    const zn_kernels *k = job->d->k;
    const size_t len = (size_t)((job->tw + 2) * job->k);
    piece p = { .n = item / (job->down * job->across), .wide = zn_cpu_scratch(job->d, worker) };

    p.i0 = item / job->across % job->down * job->th;
    p.j0 = item % job->across * job->tw;
    p.i1 = zn_imin(p.i0 + job->th, job->x.h);
    p.j1 = zn_imin(p.j0 + job->tw, job->x.w);
    p.a = zn_imax(p.j0 - 1, 0);
    p.b = zn_imin(p.j1 + 1, job->x.w);
    p.zeros = p.wide + wide_len(k, job->tw, job->x.c);
    p.u = p.zeros + (job->tw + 2) * k->panel_nr;
    p.g = p.u + len;
    p.v = p.g + len;
    memset(p.wide, 0, (size_t)((char *)p.u - (char *)p.wide)); /* the border stays */
    widen(job, &p, p.i0 - 1, false);
    widen(job, &p, p.i0, false);
    for (int i = p.i0; i < p.i1; i++) {
        widen(job, &p, i + 1, true);
        finish(job, &p, i);
    }
}

bool zn_cpu_gated_strips(zn_cpu *d, zn_tensor y, zn_tensor x, const zn_gated *w)
{
    const zn_kernels *k = d->k;
    strip_job job = { .d = d, .y = y, .x = x, .w = w };
    float *at = d->shared;
    size_t whole;
    int strips, pieces;

    if (!k->panel)
        return false;
    job.k = zn_round_up(x.c, k->vl);
    whole = (size_t)job.k;
    if ((6 * (whole + 1) * whole + 20 * whole) * sizeof(float) > ZN_SCRATCH)
        return false;
    job.pw1 = pack(&at, k, &w->pw1, 2);
    job.dw = pack(&at, k, &w->dw, 2);
    job.pw2 = pack(&at, k, &w->pw2, 1);
    job.pw3 = pack(&at, k, &w->pw3, 2);
    job.pw4 = pack(&at, k, &w->pw4, 1);

    /* With the pixel on either side, and without it, the width is as many tiles of a panel. */
    job.tw = WIDEST / k->panel_step * k->panel_step - 2;
    while (job.tw > 2 * k->mr && piece_bytes(k, job.tw, x.c) > BUDGET)
        job.tw -= k->panel_step;
    assert(piece_bytes(k, job.tw, x.c) <= ZN_SCRATCH);
    job.across = (x.w + job.tw - 1) / job.tw;
    job.tw = zn_imin(job.tw, zn_round_up((x.w + job.across - 1) / job.across + 2, k->panel_step) - 2);
    strips = x.n * job.across;
    pieces = zn_pool_size(d->pool) > 1 ? PIECES * zn_pool_size(d->pool) : 1;
    job.th = zn_imin(zn_imax((int)((int64_t)x.h * strips / pieces), LOWEST), x.h);
    job.down = (x.h + job.th - 1) / job.th;
    zn_pool_run(d->pool, strip_item, &job, strips * job.down);
    return true;
}
