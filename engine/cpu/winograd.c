/* SPDX-License-Identifier: MIT */
/* winograd.c - 3x3 convolution with fewer multiplications.
 *
 *   tiles of P x P pixels of x --B^T x B--> V [position][tile][channel] --times U--> M --A^T m A--> y
 *
 * Each of the P * P positions is a product of matrices of its own; side x side pixels of y come out of a tile.
 *   F(4,3): P 6, 2.25 multiplications per pixel and pair of channels instead of 9
 *   F(6,3): P 8, 1.78; larger rounding errors
 *   F(5,2): P 6, for a convolution of x enlarged twice (up2).  That is four 2x2 convolutions of x, one
 *           per parity of the pixel of y, with taps that are sums of the nine; all four share V.  1.44
 *           Also for stride 2, 4.84: four convolutions, one per parity of the pixel of x, with some of the
 *           nine taps each, added up in M.  One with a single tap needs no product at the last position.
 *   F(4,2): P 5, 1.56; the same in halves, with smaller rounding errors
 * An item is a block of tiles, as many as let V and M stay in L2; position by position, its rows of V and U
 * stay in L1.  Tiles start at the origin of the tensor: the rounding of a pixel depends on its position
 * modulo side (up2: 2 side), on nothing else.  (Lavin and Gray 2016.)
 *
 * U has 4 (F(4,3)), 7 (F(6,3)) or 16 (F(5,2)) times as many elements as the weights.  Which form a layer has is decided
 * when it is packed, by the layer alone:
 *   U of at most MAX_PACKED bytes, float32 weights   U is packed, and every run goes through Winograd.
 *   else                                             implicit.c packs the weights as they are, in their storage type.
 *       A run with MIN_PIXELS pixels or more, or any of a layer for large pictures (zn_conv.many_pixels), whose tiles shall
 *       be what the whole is, transforms them to U, ZN_EXPANDED bytes at a time, and uses that for all tiles; a smaller
 *       one is an implicit matrix product.
 * So a layer never takes more than MAX_PACKED bytes beyond its weights, and a device ZN_EXPANDED more in all.
 *
 * A network whose tensors are halves (zn_conv.tensors) has its layers computed in halves from x to y, transforms and sums,
 * too; what enters and leaves it is converted tile by tile.
 *
 * packed: [phase of y][pass][position][panel][1 + channels][outputs of the panel]; the channels as whole
 * vectors, for stride 2 those of each parity.  The first row is what a product starts from: zeros and, at
 * the position that counts once in every pixel of y, the bias.  A pass: the panels that fit in M. */
#include <string.h>

#include "../core/ints.h"
#include "conv.h"

enum {
    F63_CHANNELS = 64,     /* F(6,3) up to this many input channels, F(4,3) beyond */
    L2_BYTES = 640 << 10,  /* of V and M */
    PASS = 64,             /* outputs, if a panel is not more */
    MIN_TILES = 4,         /* of MR tiles, where scratch memory allows: weights are read once per block */
    SPREAD = 128,          /* bytes, see spread() */
    ITEM_TILES = 1,        /* overhead of an item, in tiles */
    MAX_PACKED = 20 << 20, /* bytes of U that are packed ... */
    MIN_PIXELS = 100,      /* ... and of y per parity, from which on transforming the weights in each run pays */
    CHUNK = 64,            /* channels of a panel that are transformed at a time */
    LANES = 4,             /* outputs whose kernels are transformed at once when they are packed */
    MAX_P = 8,
    MAX_SIDE = 6
};

/* What a dimension of the kernel shrinks to in F(5,2).  up2: an even pixel 2i of y sees x[i-1], x[i], x[i],
 * an odd one x[i], x[i], x[i+1].  Stride 2: outer taps see every second pixel, the middle one the rest. */
typedef enum fold { EVEN, ODD, OUTER, MIDDLE } fold;

typedef struct scheme {
    int p, side, taps; /* side: pixels of y in a row of a tile */
    int in, out;       /* parities of x and y that are separate convolutions: 1 or 4 */
    const double *g;   /* [p][taps]: U = G w G^T; the points 2 and -2 are scaled, as winograd.h says */
    zn_wino_in_fn *transform_in;
    zn_wino_out_fn *transform_out;
} scheme;

typedef struct winograd_job {
    zn_conv_job conv;
    const zn_panel_form *f;
    scheme s;
    size_t e;       /* bytes of an element of V, U and M */
    bool by_float;  /* y is computed in floats and rounded: the tail is not a quick one, or y has another type */
    const char *u;  /* of the units in use */
    int unit, end;  /* those units; a unit is a pass of a phase */
    int n_columns;  /* items for a block of tiles: each has some of the units */
    int channels;   /* as whole vectors */
    int rows, cols; /* tiles of an image */
    int block;      /* tiles per item */
    size_t n_tiles;
} winograd_job;

static const zn_panel_form *form_of(const zn_kernels *k, const zn_conv *w)
{
    return w->tensors == ZN_F16 ? k->half : &k->panels;
}

/* Elements from one position to the next: an odd number of cache lines, so that all positions of a tile
 * fall into different sets of the cache; up to SPREAD bytes more than it holds. */
static size_t spread(size_t len, size_t e)
{
    const size_t line = 64 / e;

    return ((len + line - 1) / line | 1) * line;
}

static scheme scheme_of(const zn_panel_form *k, const zn_conv *w)
{
    static const double g43[6 * 3] = { 1. / 4, 0,      0,      -1. / 6, -1. / 6, -1. / 6, -1. / 6, 1. / 6, -1. / 6,
                                       1. / 3, 2. / 3, 4. / 3, 1. / 3,  -2. / 3, 4. / 3,  0,       0,      1 };
    static const double g52[6 * 2] = { 1. / 4, 0,      -1. / 6, -1. / 6, -1. / 6, 1. / 6,
                                       1. / 3, 2. / 3, 1. / 3,  -2. / 3, 0,       1 };
    static const double g63[8 * 3] = { 1,        0,       0,        -2. / 9,   -2. / 9, -2. / 9,   -2. / 9,  2. / 9,
                                       -2. / 9,  8. / 45, 16. / 45, 32. / 45,  8. / 45, -16. / 45, 32. / 45, 32. / 45,
                                       16. / 45, 8. / 45, 32. / 45, -16. / 45, 8. / 45, 0,         0,        1 };

    static const double g42[5 * 2] = { 1. / 2, 0, -1. / 2, -1. / 2, -1. / 6, 1. / 6, 1. / 6, 1. / 3, 0, 1 };
    const int in = w->stride == 2 ? 4 : 1, out = w->up2 ? 4 : 1;

    if (in + out > 2)
        return k->wino_in5 ? (scheme){ 5, 4, 2, in, out, g42, k->wino_in5, k->wino_out54 }
                           : (scheme){ 6, 5, 2, in, out, g52, k->wino_in6, k->wino_out5 };
    if (w->cin <= F63_CHANNELS)
        return (scheme){ 8, 6, 3, 1, 1, g63, k->wino_in8, k->wino_out6 };
    return (scheme){ 6, 4, 3, 1, 1, g43, k->wino_in6, k->wino_out4 };
}

static bool fits(const zn_panel_form *k, const zn_conv *w)
{
    if (!k->wino_in6 || w->local || w->kh != 3 || w->kw != 3 || w->groups != 1 || w->cin < 12 || w->cout < 8)
        return false;
    if (w->stride == 2)
        return !w->up2 && w->cin >= 16 && w->cin <= ZN_ZEROS / 4;
    return w->stride == 1 && w->cin <= ZN_ZEROS && (!w->up2 || zn_conv_is_strip(w));
}

/* ---- weights ------------------------------------------------------------------------------------------ */

/* The parities of x, in an order in which those with two taps down are neighbours, and those across too. */
static const fold fold_down[4] = { OUTER, OUTER, MIDDLE, MIDDLE };
static const fold fold_across[4] = { MIDDLE, OUTER, OUTER, MIDDLE };

static int pass_len(const zn_panel_form *k) /* outputs */
{
    return PASS / k->wide * k->wide > k->wide ? PASS / k->wide * k->wide : k->wide;
}

static int panel_width(const zn_panel_form *k, const zn_conv *w) /* of the widest, as whole vectors */
{
    return zn_imin(k->wide, zn_round_up(w->cout, k->vl));
}

static size_t product_rows(const zn_panel_form *k, const zn_conv *w, const scheme *s)
{
    return 1 + (size_t)s->in * (size_t)zn_round_up(w->cin, k->vl);
}

static size_t phase_len(const zn_panel_form *k, const zn_conv *w, const scheme *s)
{
    return (size_t)(s->p * s->p) * product_rows(k, w, s) * (size_t)zn_round_up(w->cout, k->vl);
}

/* Where the weights of output o begin; *width: floats from one row to the next, *pos: positions likewise. */
static size_t place(const zn_panel_form *k, const zn_conv *w, const scheme *s, int o, int *width, size_t *pos)
{
    int pass = o / pass_len(k) * pass_len(k), panel = o / k->wide * k->wide;
    size_t rows = product_rows(k, w, s);

    *width = zn_round_up(zn_imin(w->cout - panel, k->wide), k->vl);
    *pos = rows * (size_t)zn_round_up(zn_imin(w->cout - pass, pass_len(k)), k->vl);
    return (size_t)(s->p * s->p) * rows * (size_t)pass + rows * (size_t)(panel - pass) + (size_t)(o - panel);
}

static size_t size(const zn_kernels *k, const zn_conv *w)
{
    const zn_panel_form *f = form_of(k, w);
    scheme s = scheme_of(f, w);

    return zn_type_size(f->type) * (size_t)s.out * phase_len(f, w, &s);
}

static bool suits(const zn_cpu *d, const zn_conv *w)
{
    return fits(form_of(d->k, w), w) && (w->tensors == ZN_F16 || zn_conv_weights(w) == ZN_W_F32) &&
        size(d->k, w) <= MAX_PACKED;
}

static void fold_taps(double to[2], const double taps[3], fold f)
{
    to[0] = f == ODD ? taps[0] + taps[1] : f == MIDDLE ? taps[1] : taps[0];
    to[1] = f == EVEN ? taps[1] + taps[2] : f == MIDDLE ? 0 : taps[2];
}

/* The kernel of one pair of channels, in its lane. */
static void read_kernel(double lanes[3][3][LANES], int lane, const float *kernel, const scheme *s, fold down,
                        fold across)
{
    double part[3][3];

    for (int i = 0; i < 3; i++) {
        const double row[3] = { kernel[3 * i], kernel[3 * i + 1], kernel[3 * i + 2] };

        memcpy(part[i], row, sizeof row);
        if (s->taps == 2)
            fold_taps(part[i], row, across);
    }
    for (int j = 0; s->taps == 2 && j < 2; j++) {
        const double col[3] = { part[0][j], part[1][j], part[2][j] };
        double to[2];

        fold_taps(to, col, down);
        part[0][j] = to[0];
        part[1][j] = to[1];
    }
    for (int i = 0; i < s->taps; i++)
        for (int j = 0; j < s->taps; j++)
            lanes[i][j][lane] = part[i][j];
}

/* y = g[0] first + g[1] second + g[2] third, of two taps without the last */
static inline void combine_lanes(double *restrict y, const double *first, const double *second, const double *third,
                                 const double *g, int taps)
{
    for (int l = 0; l < LANES; l++) {
        const double two = 0 + g[0] * first[l] + g[1] * second[l];

        y[l] = taps == 3 ? two + g[2] * third[l] : two;
    }
}

/* n elements. */
static void put(const zn_panel_form *f, char *to, const float *from, size_t n)
{
    if (f->round)
        f->round(to, from, n);
    else
        memcpy(to, from, n * sizeof *from);
}

/* LANES elements every pos bytes: (G w G^T)[i][j] of the kernels of so many outputs.  p and taps: those of the scheme, as
 * constants of the caller. */
static inline void transform_lanes(const zn_panel_form *f, char *to, size_t pos, int p, int taps, const double *g,
                                   double lanes[3][3][LANES])
{
    double half[MAX_P][3][LANES];

    for (int i = 0; i < p; i++)
        for (int j = 0; j < taps; j++)
            combine_lanes(half[i][j], lanes[0][j], lanes[1][j], lanes[2][j], g + i * taps, taps);
    for (int i = 0; i < p; i++)
        for (int j = 0; j < p; j++, to += pos) {
            double u[LANES];
            float some[LANES];

            combine_lanes(u, half[i][0], half[i][1], half[i][2], g + j * taps, taps);
            for (int l = 0; l < LANES; l++)
                some[l] = (float)u[l];
            put(f, to, some, LANES);
        }
}

static void transform_kernels(const zn_panel_form *f, char *to, size_t pos, const scheme *s, double lanes[3][3][LANES])
{
    if (s->p == 5)
        transform_lanes(f, to, pos, 5, 2, s->g, lanes);
    else if (s->taps == 2)
        transform_lanes(f, to, pos, 6, 2, s->g, lanes);
    else if (s->p == 6)
        transform_lanes(f, to, pos, 6, 3, s->g, lanes);
    else
        transform_lanes(f, to, pos, 8, 3, s->g, lanes);
}

typedef struct packing {
    const zn_panel_form *k;
    const zn_conv *w;
    const float *weight, *bias;
    scheme s;
} packing;

/* One panel of a phase. */
static void pack_item(void *cookie, int item, int worker)
{
    const packing *job = cookie;
    const zn_panel_form *k = job->k;
    const zn_conv *w = job->w;
    const scheme *s = &job->s;
    const size_t e = zn_type_size(k->type);
    const int panels = zn_ceil_div(w->cout, k->wide), out = item / panels, o = item % panels * k->wide;
    const int n = zn_imin(w->cout - o, k->wide);
    size_t pos;
    int width;
    char *to = (char *)w->packed + e * ((size_t)out * phase_len(k, w, s) + place(k, w, s, o, &width, &pos));

    (void)worker;
    pos *= e;
    for (int i = 0; i < s->p * s->p; i++)
        memset(to + (size_t)i * pos, 0, e * product_rows(k, w, s) * (size_t)width);
    if (job->bias)
        put(k, to + (size_t)(s->p + 1) * pos, job->bias + o, (size_t)n);
    for (int in = 0; in < s->in; in++)
        for (int c = 0; c < w->cin; c++)
            for (int j = 0; j < n; j += LANES) {
                const size_t row = 1 + (size_t)(in * zn_round_up(w->cin, k->vl) + c);
                double kernel[3][3][LANES] = { { { 0 } } };

                for (int l = 0; l < LANES && j + l < n; l++)
                    read_kernel(kernel, l, job->weight + ((size_t)(o + j + l) * (size_t)w->cin + (size_t)c) * 9, s,
                                s->in > 1 ? fold_down[in] : (fold)(out / 2),
                                s->in > 1 ? fold_across[in] : (fold)(out % 2));
                transform_kernels(k, to + e * (row * (size_t)width + (size_t)j), pos, s, kernel);
            }
}

static void pack(const zn_cpu *d, const zn_conv *w, const float *weight, const float *bias)
{
    const zn_panel_form *f = form_of(d->k, w);
    packing job = { f, w, weight, bias, scheme_of(f, w) };

    assert(f->vl % LANES == 0); /* a panel holds whole ones */
    zn_pool_run(d->pool, pack_item, &job, job.s.out * zn_ceil_div(w->cout, f->wide));
}

/* ---- weights transformed in each run ------------------------------------------------------------------ */

/* A unit is a pass of a phase: the outputs whose products M holds at a time. */
static int n_passes(const zn_panel_form *k, const zn_conv *w)
{
    return zn_ceil_div(w->cout, pass_len(k));
}

/* Where a unit begins in U. */
static size_t unit_at(const winograd_job *job, int unit)
{
    const zn_panel_form *k = job->f;
    const zn_conv *w = job->conv.w;
    int passes = n_passes(k, w), width;
    size_t pos, phase = (size_t)(unit / passes) * phase_len(k, w, &job->s);

    return unit % passes ? phase + place(k, w, &job->s, unit % passes * pass_len(k), &width, &pos) : phase;
}

/* The matrix [p][3] that transforms the three taps of a dimension: G, for F(5,2) times the fold of three taps to two. */
static void kernel_matrix(float *to, const scheme *s, fold f)
{
    for (int i = 0; i < s->p; i++)
        for (int tap = 0; tap < 3; tap++) {
            double one[3] = { tap == 0, tap == 1, tap == 2 }, two[2];

            fold_taps(two, one, f);
            to[3 * i + tap] =
                (float)(s->taps == 3 ? s->g[3 * i + tap] : s->g[2 * i] * two[0] + s->g[2 * i + 1] * two[1]);
        }
}

/* One panel of a unit, some channels: U from the weights as implicit.c packs them. */
static void expand_item(void *cookie, int item, int worker)
{
    const winograd_job *job = cookie;
    const zn_kernels *kernels = job->conv.d->k;
    const zn_panel_form *k = job->f;
    const zn_conv *w = job->conv.w;
    const scheme *s = &job->s;
    int chunks = zn_ceil_div(w->cin, CHUNK), panels = pass_len(k) / k->wide, passes = n_passes(k, w);
    int unit = job->unit + item / (chunks * panels), phase = unit / passes, c = item % chunks * CHUNK;
    int o = unit % passes * pass_len(k) + item / chunks % panels * k->wide, some = zn_imin(w->cin - c, CHUNK), width;
    float *u = job->conv.d->expanded + (unit_at(job, unit) - unit_at(job, job->unit));
    float down[MAX_P * 3], across[MAX_P * 3];
    const float *weight, *bias;
    size_t pos, tap;

    if (o >= w->cout)
        return;
    weight = zn_implicit_weights(zn_cpu_scratch(job->conv.d, worker), &tap, &bias, kernels, w, o / k->wide, c, some);
    u += (size_t)(o % pass_len(k)) * product_rows(k, w, s);
    place(k, w, s, o, &width, &pos);
    for (int i = 0; i < s->p * s->p && c == 0; i++) /* what products start from */
        for (int j = 0; j < width; j++)
            u[(size_t)i * pos + (size_t)j] = i == s->p + 1 ? bias[j] : 0;
    for (int in = 0; in < s->in; in++) {
        float *to = u + (size_t)((1 + in * job->channels + c) * width);

        kernel_matrix(down, s, s->in > 1 ? fold_down[in] : (fold)(phase / 2));
        kernel_matrix(across, s, s->in > 1 ? fold_across[in] : (fold)(phase % 2));
        kernels->wino_weights(to, pos, weight, tap, down, across, s->p, (size_t)(some * width));
        for (int i = 0; i < s->p * s->p && c + some == w->cin; i++)
            memset(to + (size_t)i * pos + some * width, 0, (size_t)((job->channels - w->cin) * width) * sizeof *to);
    }
}

/* ---- tiles -------------------------------------------------------------------------------------------- */

typedef struct tile_at {
    int image, i, j; /* row and column of the tile */
} tile_at;

static tile_at tile_of(const winograd_job *job, size_t index)
{
    size_t per_image = (size_t)job->rows * (size_t)job->cols, rest = index % per_image;

    return (tile_at){ (int)(index / per_image), (int)(rest / (size_t)job->cols), (int)(rest % (size_t)job->cols) };
}

/* Pixels of another type, rounded, in `room`. */
static void round_pixels(const winograd_job *job, const void **pixel, char *room)
{
    const size_t each = job->e * (size_t)job->channels;

    for (int i = 0; i < job->s.p * job->s.p; i++) {
        if (pixel[i] == job->conv.d->zeros)
            continue;
        job->f->round(room + (size_t)i * each, pixel[i], (size_t)job->conv.x.c);
        pixel[i] = room + (size_t)i * each;
    }
}

/* V of one tile: its pixels of x, for each parity, then their transform. */
static void transform_input(const winograd_job *job, char *v, size_t v_pos, size_t index, char *room)
{
    const zn_conv *w = job->conv.w;
    tile_at at = tile_of(job, index);
    zn_tensor x = job->conv.x;
    const ptrdiff_t each = (ptrdiff_t)zn_type_size(x.type) * x.ld;
    int p = job->s.p, step = w->stride;

    for (int in = 0; in < job->s.in; in++, v += job->e * (size_t)job->channels) {
        const void *pixel[MAX_P * MAX_P];
        int top = at.i * job->s.side * step - zn_conv_above(w), left = at.j * job->s.side * step - w->pad_l;

        if (job->s.in > 1) {
            top += fold_down[in] == MIDDLE;
            left += fold_across[in] == MIDDLE;
        }
        for (int i = 0; i < p; i++) {
            int yy = top + i * step;
            const char *row = (const char *)x.data + (((ptrdiff_t)at.image * x.h + yy) * x.w + left) * each;

            if (yy >= 0 && yy < x.h && left >= 0 && left + (p - 1) * step < x.w) {
                for (int j = 0; j < p; j++)
                    pixel[i * p + j] = row + (ptrdiff_t)(j * step) * each;
                continue;
            }
            for (int j = 0; j < p; j++) {
                int xx = left + j * step;

                pixel[i * p + j] = yy < 0 || yy >= x.h || xx < 0 || xx >= x.w ? (const void *)job->conv.d->zeros
                                                                              : row + (ptrdiff_t)(j * step) * each;
            }
        }
        if (x.type != job->f->type)
            round_pixels(job, pixel, room);
        job->s.transform_in(v, v_pos, pixel, x.c);
    }
}

/* The pixels of y and of the residual that a tile gives in one phase; NULL: outside. */
static void point(const winograd_job *job, size_t index, int phase, void **pixel, const void **res)
{
    tile_at at = tile_of(job, index);
    zn_tensor y = job->conv.y;
    int side = job->s.side, step = job->s.out > 1 ? 2 : 1;
    int top = step * at.i * side, left = step * at.j * side;

    if (step == 2) { /* an odd pixel's taps start one later, hence its tile one earlier */
        top -= phase / 2;
        left -= phase % 2;
    }
    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++, pixel++, res++) {
            int yy = top + step * i, xx = left + step * j;

            *pixel = NULL;
            *res = NULL;
            if (yy >= 0 && yy < y.h && xx >= 0 && xx < y.w) {
                size_t at_pixel = ((size_t)at.image * (size_t)y.h + (size_t)yy) * (size_t)y.w + (size_t)xx;

                *pixel = zn_cpu_pixel(y, at_pixel);
                *res = job->conv.t.residual ? zn_cpu_pixel(*job->conv.t.residual, at_pixel) : NULL;
            }
        }
}

typedef struct block {    /* of an item; in scratch memory */
    char *v, *m;          /* [position][tile][channel]; [panel][tile][position][outputs of the panel] */
    char *room;           /* for the pixels of a tile */
    size_t v_pos, m_tile; /* elements from one position of V, or tile of M, to the next */
    size_t first;         /* tile */
    int tiles;
} block;

/* M of the n outputs from o on, of one phase; u: their unit. */
static void multiply(const winograd_job *job, const block *b, const char *u, int o, int n)
{
    const zn_panel_form *k = job->f;
    const size_t e = job->e;
    int p = job->s.p, rows = job->s.in * job->channels, width;
    size_t pos;

    place(k, job->conv.w, &job->s, o, &width, &pos);
    for (int i = 0; i < p * p; i++, u += e * pos) {
        int from = 0, end = rows;

        if (job->s.in > 1) { /* only parities with a second tap; the row of U before them is zero */
            if (i / p == p - 1)
                end -= 2 * job->channels;
            if (i % p == p - 1) {
                from = job->channels;
                end = zn_imin(end, 3 * job->channels);
            }
        }
        for (int q = 0; q < n; q += width) {
            width = zn_round_up(zn_imin(n - q, k->wide), k->vl);
            k->panel(&(zn_panel){ .y = b->m + e * ((size_t)(q / k->wide * b->tiles) * b->m_tile + (size_t)(i * width)),
                                  .x = b->v + e * ((size_t)i * b->v_pos + (size_t)from),
                                  .w = u + e * ((size_t)(1 + rows) * (size_t)q + (size_t)from * (size_t)width),
                                  .y_ld = b->m_tile,
                                  .x_ld = (size_t)rows,
                                  .rows = b->tiles,
                                  .k = end - from,
                                  .n = width });
        }
    }
}

/* Bytes for the pixels of a tile. */
static size_t room_size(const winograd_job *job)
{
    return job->conv.x.type == job->f->type ? 0 : job->e * (size_t)(MAX_P * MAX_P * job->channels);
}

/* n outputs of a tile from o on: transformed in halves, and their tail in floats. */
static void finish_in_floats(const winograd_job *job, void *const *y, const void *const *res, int o, const char *m,
                             int n)
{
    const zn_panel_form *f = job->f;
    const zn_tail *t = &job->conv.t;
    uint16_t half[MAX_SIDE * MAX_SIDE][ZN_MAX_NR];
    float sum[ZN_MAX_NR], add[ZN_MAX_NR];
    void *to[MAX_SIDE * MAX_SIDE];

    for (int i = 0; i < job->s.side * job->s.side; i++)
        to[i] = half[i];
    job->s.transform_out(to, NULL, 0, m, (size_t)zn_round_up(n, f->vl), n, &(zn_tail){ .gain = 1 });
    for (int i = 0; i < job->s.side * job->s.side; i++) {
        if (!y[i])
            continue;
        f->widen(sum, half[i], (size_t)n);
        if (t->residual)
            zn_cpu_widen(add, (const char *)res[i] + (size_t)o * zn_type_size(t->residual->type), t->residual->type,
                         (size_t)n);
        job->conv.d->k->map(sum, sum, NULL, NULL, t->residual ? add : NULL, (size_t)n, t);
        zn_cpu_round((char *)y[i] + (size_t)o * zn_type_size(job->conv.y.type), job->conv.y.type, sum, (size_t)n);
    }
}

static void winograd_item(void *cookie, int item, int worker)
{
    const winograd_job *job = cookie;
    const zn_panel_form *k = job->f;
    const zn_conv *w = job->conv.w;
    int positions = job->s.p * job->s.p, row = job->s.in * job->channels, passes = n_passes(k, w);
    int units = zn_ceil_div(job->end - job->unit, job->n_columns), unit = job->unit + item % job->n_columns * units;
    int end = zn_imin(unit + units, job->end);
    block b = { .first = (size_t)(item / job->n_columns) * (size_t)job->block };

    b.tiles = job->n_tiles - b.first < (size_t)job->block ? (int)(job->n_tiles - b.first) : job->block;
    b.v_pos = spread((size_t)(job->block * row), job->e);
    b.m_tile = spread((size_t)(positions * panel_width(k, w)), job->e);
    b.room = zn_cpu_scratch(job->conv.d, worker);
    b.v = b.room + room_size(job);
    b.m = b.v + job->e * (size_t)positions * b.v_pos;

    for (int tile = 0; tile < b.tiles && unit < end; tile++)
        transform_input(job, b.v + job->e * (size_t)(tile * row), b.v_pos, b.first + (size_t)tile, b.room);
    for (; unit < end; unit++) {
        int phase = unit / passes, o = unit % passes * pass_len(k), n = zn_imin(pass_len(k), w->cout - o);

        multiply(job, &b, job->u + job->e * (unit_at(job, unit) - unit_at(job, job->unit)), o, n);
        for (int tile = 0; tile < b.tiles; tile++) {
            void *y[MAX_SIDE * MAX_SIDE];
            const void *res[MAX_SIDE * MAX_SIDE];

            point(job, b.first + (size_t)tile, phase, y, res);
            for (int q = 0; q < n; q += k->wide) {
                const char *m = b.m + job->e * (size_t)(q / k->wide * b.tiles + tile) * b.m_tile;
                int panel = zn_imin(n - q, k->wide);

                if (job->by_float)
                    finish_in_floats(job, y, res, o + q, m, panel);
                else
                    job->s.transform_out(y, job->conv.t.residual ? res : NULL, o + q, m,
                                         (size_t)zn_round_up(panel, k->vl), panel, &job->conv.t);
            }
        }
    }
}

/* Tiles per item: at most what L2 holds, or what scratch memory does up to MIN_TILES; of that, what lets the
 * threads finish at the same time.  The bits of a tile do not depend on it. */
static int tiles_per_item(const winograd_job *job)
{
    const zn_panel_form *k = job->f;
    size_t position = (size_t)(job->s.p * job->s.p) * job->e;
    int panels = zn_round_up(zn_imin(pass_len(k), job->conv.w->cout), k->wide) / k->wide;
    size_t row = (size_t)(job->s.in * job->channels + panels * panel_width(k, job->conv.w));
    size_t per_tile = position * row + (size_t)panels * SPREAD;
    size_t fit = (ZN_SCRATCH - room_size(job) - (size_t)(job->s.p * job->s.p) * SPREAD) / per_tile;
    size_t most = L2_BYTES / per_tile, threads = (size_t)zn_pool_size(job->conv.d->pool), best = SIZE_MAX;
    int tiles;

    most = most > (size_t)(MIN_TILES * k->mr) ? most : (size_t)(MIN_TILES * k->mr);
    most = most < fit ? most : fit;
    most = most < (size_t)k->mr ? (size_t)k->mr : most / (size_t)k->mr * (size_t)k->mr;
    tiles = (int)most;
    for (size_t n = most; threads > 1 && n > 0; n -= (size_t)k->mr) {
        size_t items = (job->n_tiles + n - 1) / n, rounds = (items + threads - 1) / threads;

        if (rounds * (n + ITEM_TILES) < best) {
            best = rounds * (n + ITEM_TILES);
            tiles = (int)n;
        }
    }
    return tiles;
}

static winograd_job job_of(const zn_conv_job *conv)
{
    const zn_conv *w = conv->w;
    const zn_panel_form *f = form_of(conv->d->k, w);
    winograd_job job = {
        .conv = *conv, .f = f, .s = scheme_of(f, w), .e = zn_type_size(f->type), .channels = zn_round_up(w->cin, f->vl)
    };

    job.by_float = f->type != ZN_F32 &&
        (conv->y.type != f->type || conv->t.pre > ZN_RELU || conv->t.post > ZN_RELU ||
         (conv->t.residual && conv->t.residual->type != f->type));

    job.rows = w->up2 ? zn_ceil_div(conv->y.h, 2) / job.s.side + 1 : (conv->y.h + job.s.side - 1) / job.s.side;
    job.cols = w->up2 ? conv->x.w / job.s.side + 1 : (conv->y.w + job.s.side - 1) / job.s.side;
    job.n_tiles = (size_t)conv->y.n * (size_t)job.rows * (size_t)job.cols;
    job.block = tiles_per_item(&job);
    return job;
}

/* All tiles, the units that job names.  Few tiles leave threads without work: they share the units too. */
static void run_units(winograd_job *job)
{
    int blocks = zn_items(job->n_tiles, (size_t)job->block), threads = zn_pool_size(job->conv.d->pool);

    job->n_columns = zn_imax(1, zn_imin(job->end - job->unit, threads / blocks));
    zn_pool_run(job->conv.d->pool, winograd_item, job, blocks * job->n_columns);
}

static void run(const zn_conv_job *conv)
{
    winograd_job job = job_of(conv);

    job.u = conv->w->packed;
    job.end = job.s.out * n_passes(job.f, conv->w);
    run_units(&job);
}

bool zn_winograd_fits(const zn_kernels *k, const zn_conv *w)
{
    return fits(form_of(k, w), w);
}

int zn_winograd_side(const zn_kernels *k, const zn_conv *w)
{
    const zn_panel_form *f = form_of(k, w);

    return fits(f, w) ? scheme_of(f, w).side : 1;
}

size_t zn_winograd_scratch(const zn_kernels *k, const zn_conv *w)
{
    size_t whole = fits(form_of(k, w), w) ? size(k, w) : 0;

    return whole < ZN_EXPANDED ? whole : ZN_EXPANDED;
}

bool zn_winograd_run(const zn_conv_job *conv)
{
    const zn_conv *w = conv->w;
    const zn_panel_form *k = form_of(conv->d->k, w);
    winograd_job job;
    int units, each;

    if (!fits(k, w))
        return false;
    if (!w->many_pixels && zn_pixels(conv->y) < (size_t)(MIN_PIXELS * (w->up2 || w->stride == 2 ? 4 : 1)))
        return false;
    job = job_of(conv);
    units = job.s.out * n_passes(k, w);
    each = zn_ceil_div(w->cin, CHUNK) * (pass_len(k) / k->wide); /* items of a unit */
    job.u = (const char *)conv->d->expanded;
    for (int first = 0; first < units; first = job.end) {
        job.unit = first;
        for (job.end = first + 1; job.end < units; job.end++)
            if ((unit_at(&job, job.end + 1) - unit_at(&job, first)) * sizeof(float) > ZN_EXPANDED)
                break;
        assert((unit_at(&job, job.end) - unit_at(&job, first)) * sizeof(float) <= ZN_EXPANDED);
        zn_pool_run(conv->d->pool, expand_item, &job, (job.end - first) * each);
        run_units(&job);
    }
    return true;
}

const zn_conv_algorithm zn_conv_winograd = {
    .name = "Winograd", .suits = suits, .size = size, .pack = pack, .run = run
};
