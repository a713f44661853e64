/* SPDX-License-Identifier: MIT */
/* clean.c - see clean.h. */
#include "clean.h"

#include "../core/ints.h"
#include "../core/order.h"
#include "../core/threads.h"
#include "engines.h"
#include "memory.h"
#include "noise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 8,        /* pixels a side, of a JPEG file */
    BAND = 8 * BLOCK, /* rows that a thread looks at */
    FEW = 20          /* smooth blocks: fewer say nothing about grain */
};

/* Between the two of a pair it is not certain whether there is noise.  Measured on 24 clean pictures and 48 with noise of simulated
 * cameras (training/README.md): film grain of 2.5 counts as clean, a camera's noise of 3 does not. */
static const float CALM[2] = { 1.35f, 1.5f }, SMOOTH[2] = { 2.6f, 3.05f }, BLOCKS[2] = { 0.2f, 0.4f };

/* Where the calmest places have no noise at all, the smoothest must have more of it: ALONE instead of SMOOTH, at the first of NONE. */
static const float NONE[2] = { 0.55f, 0.85f }, ALONE[2] = { 3.6f, 4.1f };

/* What is so many times the median level in smooth places is no noise: text has nothing smooth. */
static const float APART = 2.5f;

/* Grain is the picture's own beyond the second of both pairs, its deviation as a share of the calm level: CALM and SMOOTH are then so
 * many times larger. */
static const float FINE[2] = { 0.7f, 0.85f }, GREY[2] = { 0.65f, 0.8f }, OWN = 1.6f;

/* Levels are raised by up to MORE where steps between blocks are that steep: JPEG files of quality 60 and less. */
static const float STEEP[2] = { 0.8f, 1.2f }, MORE = 0.4f;

/* Below CERTAIN a cell is clean whatever the rest is.  Steps beyond EDGE are the picture's own. */
static const float CERTAIN = 0.45f, EDGE = 6.0f / 255;

static const float FLAT =
    4.0f / 65025; /* the energy of a block's finest differences that rounding to 8 bits may leave */

static float middle(const float v[3])
{
    return fmaxf(fminf(v[0], v[1]), fminf(fmaxf(v[0], v[1]), v[2]));
}

bool zn_signs_calm(zn_signs *s, const zn_cell *cells, size_t n)
{
    float *level = malloc((n ? n : 1) * sizeof *level), calm[3] = { 0 }, usual[3] = { 0 };

    for (int c = 0; level && c < 3; c++) {
        size_t len = 0;

        for (size_t i = 0; i < n; i++)
            if (!cells[3 * i + (size_t)c].plain && cells[3 * i + (size_t)c].level >= CERTAIN)
                level[len++] = cells[3 * i + (size_t)c].level;
        calm[c] = len ? zn_nth(level, len, len / 20) : 0;
        usual[c] = len ? zn_nth(level, len, len / 2) : 0;
    }
    s->calm = middle(calm);
    s->usual = middle(usual);
    free(level);
    return level != NULL;
}

/* ---- steps between blocks ----------------------------------------------------------------------------------- */

typedef struct lattice { /* along one direction, for each place in a block */
    double sum[BLOCK];
    int n[BLOCK];
} lattice;

enum { RING = 4, CHUNK = 32 * BLOCK };

static size_t room_row(int w)
{
    return (size_t)w + 1;
}

typedef struct view { /* of a square, somewhere in an array */
    const float *rgb;
    ptrdiff_t row; /* floats from one row to the next */
    int w, h;
} view;

/* By how much n steps from b to c exceed those from a to b and from c to d; none: 0, where one is an edge, or NaN, or all are flat. */
static void excess_of(float *restrict excess, int *restrict counts, const float *a, const float *b, const float *c,
                      const float *d, int n)
{
    for (int i = 0; i < n; i++) {
        const float before = fabsf(b[i] - a[i]), here = fabsf(c[i] - b[i]), after = fabsf(d[i] - c[i]);
        const bool all = (before < EDGE) & (here < EDGE) & (after < EDGE) & (before + here + after > 0);
        const float more = here - (before + after) / 2;

        excess[i] = all ? more : 0;
        counts[i] = all ? 1 : 0;
    }
}

/* Adds that of places x0 to x1-1 of a row; a to d are those of its first place. */
static void add_row(lattice *l, const float *a, const float *b, const float *c, const float *d, int x0, int x1)
{
    for (int x = 0; x < x1; x += CHUNK) {
        const int from = zn_imax(x0 - x, 0), n = zn_imin(x1 - x, CHUNK);
        float excess[CHUNK] = { 0 };
        int counts[CHUNK] = { 0 };

        if (n > from)
            excess_of(excess + from, counts + from, a + x + from, b + x + from, c + x + from, d + x + from, n - from);
        for (int k = 0; k < n; k += BLOCK)
            for (int i = 0; i < BLOCK; i++) {
                l->sum[i] += (double)excess[k + i];
                l->n[i] += counts[k + i];
            }
    }
}

static void take_green(float *to, const view *of, int y)
{
    const float *v = of->rgb + y * of->row + 1;

    for (int x = 0; x < of->w; x++)
        to[x] = v[3 * (ptrdiff_t)x];
}

/* Of rows y0 .. y1-1, along them and down.  room: for RING rows of green, and a value before each. */
static void add_steps(lattice *along, lattice *down, const view *of, int y0, int y1, float *room)
{
    float *green[RING];
    int taken = zn_imax(y0 - 1, 0);

    for (int k = 0; k < RING; k++)
        green[k] = room + (size_t)k * room_row(of->w) + 1;
    for (int y = y0; y < y1; y++) {
        const float *before, *here, *after, *next;
        lattice row = { { 0 }, { 0 } }; /* columns apart */

        for (; taken < zn_imin(y + 3, of->h); taken++)
            take_green(green[taken % RING], of, taken);
        before = green[(y + 3) % RING], here = green[y % RING];
        after = green[(y + 1) % RING], next = green[(y + 2) % RING];
        add_row(along, here - 1, here, here + 1, here + 2, 1, of->w - 2);
        if (y < 1 || y >= of->h - 2)
            continue;
        add_row(&row, before, here, after, next, 0, of->w);
        for (int i = 0; i < BLOCK; i++) {
            down->sum[y % BLOCK] += row.sum[i];
            down->n[y % BLOCK] += row.n[i];
        }
    }
}

static void add_lattice(lattice *to, const lattice *l)
{
    for (int i = 0; i < BLOCK; i++) {
        to->sum[i] += l->sum[i];
        to->n[i] += l->n[i];
    }
}

/* By how much the place with the largest mean exceeds the next. */
static double steepest(const lattice *l)
{
    double most = -INFINITY, next = -INFINITY;

    for (int i = 0; i < BLOCK; i++) {
        const double mean = l->n[i] > 0 ? l->sum[i] / l->n[i] : 0;

        next = fmax(next, fmin(most, mean));
        most = fmax(most, mean);
    }
    return most - next;
}

/* ---- grain ----------------------------------------------------------------------------------------------------- */

typedef struct
    grain { /* sums of a block, or of several: the finest differences of red, green and blue, each with each */
    float of[3][3];
} grain;

typedef struct grains {
    grain *block;
    size_t n;
} grains;

static float energy(const grain *g)
{
    return g->of[0][0] + g->of[1][1] + g->of[2][2];
}

/* Second differences along both axes at once, scaled so that white noise keeps its deviation: of a block, whose first pixel this is. */
static grain grain_of(const float *v, ptrdiff_t row)
{
    enum {
        LEN = 3 * BLOCK
    }; /* red, green, blue, red ...: products of values one and two apart are those of two channels */
    float d[LEN + 2] = { 0 }, sum[3][LEN] = { { 0 } };
    grain g = { { { 0 } } };

    for (int y = 0; y < BLOCK; y++, v += row) {
        for (int i = 0; i < LEN; i++)
            d[i] = (4 * v[i] - 2 * (v[i - 3] + v[i + 3] + v[i - row] + v[i + row]) + v[i - row - 3] + v[i - row + 3] +
                    v[i + row - 3] + v[i + row + 3]) /
                6;
        for (int apart = 0; apart < 3; apart++)
            for (int i = 0; i < LEN; i++)
                sum[apart][i] += d[i] * d[i + apart];
    }
    for (int i = 0; i < LEN; i += 3) {
        for (int c = 0; c < 3; c++)
            g.of[c][c] += sum[0][i + c];
        g.of[0][1] += sum[1][i];
        g.of[1][2] += sum[1][i + 1];
        g.of[2][0] += sum[2][i];
    }
    return g;
}

/* Blocks of rows y0 .. y1-1 that vary; NaN does not count. */
static void add_blocks(grains *all, const view *of, int y0, int y1)
{
    for (int y = y0 + 1; y < y1 && y + BLOCK < of->h; y += BLOCK)
        for (int x = 1; x + BLOCK < of->w; x += BLOCK) {
            const grain g = grain_of(of->rgb + y * of->row + 3 * (ptrdiff_t)x, of->row);

            if (energy(&g) > FLAT && isfinite(energy(&g)))
                all->block[all->n++] = g;
        }
}

/* Of the eighth of blocks that is smoothest.  room is for a number of each. */
static void conclude(zn_signs *s, const grains *all, float *room)
{
    grain sum = { { { 0 } } };
    float each[3], pair[3], most = 0;
    size_t n = 0;

    for (size_t k = 0; k < all->n; k++)
        room[k] = energy(&all->block[k]);
    if (all->n >= 8 * FEW)
        most = zn_nth(room, all->n, all->n / 8 - 1);
    for (size_t k = 0; k < all->n; k++)
        if (room[k] <= most) {
            n++;
            for (int i = 0; i < 9; i++)
                sum.of[i / 3][i % 3] += all->block[k].of[i / 3][i % 3];
        }
    for (int c = 0; c < 3; c++) {
        const int next = (c + 1) % 3;

        each[c] = n ? 255 * sqrtf(sum.of[c][c] / (float)(n * BLOCK * BLOCK)) : 0;
        pair[c] = n ? sum.of[c][next] / sqrtf(fmaxf(sum.of[c][c] * sum.of[next][next], 1e-30f)) : 0;
    }
    s->fine = middle(each);
    s->grey = middle(pair);
}

/* ---- looking at the picture ------------------------------------------------------------------------------------ */

/* Into a mosaic, nx of them beside each other; room is for one. */
static zn_status read_squares(float *rgb, float *room, const zn_source *in, const zn_rect *squares, int n, int nx,
                              zn_error *err)
{
    const size_t row = (size_t)squares->w * 3;
    const int h = squares->h;

    for (int i = 0; i < n; i++) {
        float *to = rgb + (size_t)(i / nx * h) * (size_t)nx * row + (size_t)(i % nx) * row;

        if (!in->read(in->cookie, squares[i], room))
            return zn_fail(err, ZN_E_FILE, "the picture could not be read");
        for (int y = 0; y < h; y++)
            memcpy(to + (size_t)y * (size_t)nx * row, room + (size_t)y * row, row * sizeof *to);
    }
    return ZN_OK;
}

typedef struct part { /* of a square: BAND of its rows */
    lattice along, down;
    grains fine;
} part;

typedef struct looking {
    const float *rgb; /* the squares, `across` pixels a row */
    int across;
    int w, h, nx;         /* of a square; how many lie beside each other */
    int n_squares, bands; /* of each */
    size_t blocks;        /* room for those of a part */
    part *part;
    grain *grain; /* of all parts */
    float *room;  /* a number of each */
    float *green; /* of each thread, RING rows */
} looking;

static void look_at_part(void *cookie, int item, int worker)
{
    const looking *l = cookie;
    const int square = item / l->bands, y0 = item % l->bands * BAND, y1 = zn_imin(y0 + BAND, l->h);
    const size_t row = (size_t)l->across * 3;
    const view of = { l->rgb + (size_t)(square / l->nx * l->h) * row + (size_t)(square % l->nx * l->w) * 3,
                      (ptrdiff_t)row, l->w, l->h };
    part *p = &l->part[item];

    p->fine.block = l->grain + (size_t)item * l->blocks;
    add_steps(&p->along, &p->down, &of, y0, y1, l->green + (size_t)worker * RING * room_row(l->w));
    add_blocks(&p->fine, &of, y0, y1);
}

/* The parts' sums in order: the result does not depend on the pool. */
static zn_status look(zn_signs *s, looking *l, zn_pool *pool, zn_error *err)
{
    zn_memory squares = { (float *)l->rgb, l->across, 3 }; /* that is read alone */
    const zn_source all = { l->across, zn_ceil_div(l->n_squares, l->nx) * l->h, 3, zn_memory_read, &squares };
    const int n = l->n_squares * l->bands;
    lattice along = { { 0 }, { 0 } }, down = along;
    grains fine = { l->grain, 0 };
    float sigma[3] = { 0 };
    zn_status status = zn_noise_measure(sigma, &all, pool, err);

    if (status)
        return status;
    l->green = malloc((size_t)(pool ? zn_pool_size(pool) : 1) * RING * room_row(l->w) * sizeof *l->green);
    if (!l->green)
        return zn_fail(err, ZN_E_MEMORY, "out of memory while measuring the noise");
    if (pool)
        zn_pool_run(pool, look_at_part, l, n);
    for (int i = 0; i < n; i++) {
        if (!pool)
            look_at_part(l, i, 0);
        add_lattice(&along, &l->part[i].along);
        add_lattice(&down, &l->part[i].down);
        memmove(fine.block + fine.n, l->part[i].fine.block, l->part[i].fine.n * sizeof *fine.block);
        fine.n += l->part[i].fine.n;
    }
    free(l->green);
    conclude(s, &fine, l->room);
    s->smooth = middle(sigma);
    s->blocks = (float)(255 * (steepest(&along) + steepest(&down)) / 2);
    return ZN_OK;
}

/* In the engine's turn, as its pool belongs to who has that. */
static zn_status look_with(zn_signs *s, looking *l, zn_engine *e, zn_error *err)
{
    zn_status status = e ? zn_turn_take(&e->turn, err) : ZN_OK;

    if (status)
        return status;
    status = look(s, l, e ? zn_engine_helpers(e) : NULL, err);
    if (e)
        zn_turn_give(&e->turn);
    return status;
}

zn_status zn_signs_look(zn_signs *s, const zn_source *in, const zn_rect *squares, int n, int nx, zn_engine *e,
                        zn_error *err)
{
    const int w = squares->w, h = squares->h;
    looking l = { .across = nx * w, .w = w, .h = h, .nx = nx };
    const bool all = n == 1 && w == in->w && h == in->h && zn_memory_of(in);
    float *own = all ? NULL : calloc((size_t)l.across * (size_t)(zn_ceil_div(n, nx) * h), 3 * sizeof *own);
    float *room = all ? NULL : malloc((size_t)w * (size_t)h * 3 * sizeof *room);
    zn_status status = ZN_OK;

    l.rgb = all ? zn_memory_of(in) : own;
    l.n_squares = n;
    l.bands = zn_ceil_div(h, BAND);
    l.blocks = (size_t)(w / BLOCK + 1) * (BAND / BLOCK);
    l.part = calloc((size_t)n * (size_t)l.bands, sizeof *l.part);
    l.grain = malloc((size_t)n * (size_t)l.bands * l.blocks * sizeof *l.grain);
    l.room = malloc((size_t)n * (size_t)l.bands * l.blocks * sizeof *l.room);
    if ((!all && (!own || !room)) || !l.part || !l.grain || !l.room)
        status = zn_fail(err, ZN_E_MEMORY, "out of memory while measuring the noise");
    else if (!all)
        status = read_squares(own, room, in, squares, n, nx, err);
    free(room);
    if (!status)
        status = look_with(s, &l, e, err);
    free(l.room);
    free(l.grain);
    free(l.part);
    free(own);
    return status;
}

/* How far v is from the first to the second: 0 to 1. */
static float between(float v, const float pair[2])
{
    return fminf(fmaxf((v - pair[0]) / (pair[1] - pair[0]), 0), 1);
}

float zn_signs_clean(const zn_signs *s)
{
    const float own = between(s->fine / fmaxf(s->calm, CERTAIN), FINE) * between(s->grey, GREY);
    const float less = 1 / (1 + own * (OWN - 1)), calm = between(s->calm, NONE);
    const float smooth[2] = { ALONE[0] + calm * (SMOOTH[0] - ALONE[0]), ALONE[1] + calm * (SMOOTH[1] - ALONE[1]) };
    const float found = less * fminf(s->smooth, APART * s->usual);
    const float noise = fmaxf(fmaxf(between(less * s->calm, CALM), between(found, smooth)), between(s->blocks, BLOCKS));

    return 1 - rintf(8 * noise) / 8;
}

float zn_signs_more(const zn_signs *s)
{
    return MORE * rintf(8 * between(s->blocks, STEEP)) / 8;
}
