/* SPDX-License-Identifier: MIT */
/* winograd.c - 3x3 convolution of stride 1 with fewer multiplications.
 *
 *   tiles of P x P pixels of x --B^T x B--> V [position][tile][cin] --gemm with U--> M --A^T m A--> y
 *
 * Each of the P * P positions is a product of matrices of its own; M x M pixels of y come out of a tile.
 *   F(4,3): P 6, 2.25 multiplications per pixel and pair of channels instead of 9
 *   F(6,3): P 8, 1.78; larger rounding errors
 *   F(5,2): P 6, for a convolution of x enlarged twice (up2).  That is four 2x2 convolutions of x, one
 *           per parity of the pixel of y, with taps that are sums of the nine; all four share V.  1.44
 * An item is a block of tiles, as many as let V and a panel of M stay in L2.  Tiles start at the origin of
 * the tensor: the rounding of a pixel depends on its position modulo M (up2: 2 M), on nothing else.
 * (Lavin and Gray 2016.)
 *
 * packed: bias, padded to whole panels; U as [phase][panel][position][cin][outputs of the panel]. */
#include <string.h>

#include "winograd.h"

enum {
    V_BYTES = 384 << 10, /* of L2 */
    MIN_TILES = 4,       /* of MR tiles, where scratch memory allows: weights are read once per block */
    MAX_P = 8,
    MAX_M = 6
};

typedef struct scheme {
    int p, m, taps;
    bool up2;
    const double *g; /* [p][taps]: U = G w G^T */
    zn_wino_in_fn *in;
    zn_wino_out_fn *out;
} scheme;

typedef struct winograd_job {
    zn_cpu *d;
    zn_tensor y, x;
    const zn_conv *w;
    zn_tail t;
    scheme s;
    int rows, cols; /* tiles of an image */
    int block;      /* tiles per item */
    size_t n_tiles;
} winograd_job;

static int round_up(int n, int to)
{
    return (n + to - 1) / to * to;
}

/* Floats from one position to the next: an odd number of cache lines, so that all positions of a tile
 * fall into different sets of the cache. */
static size_t spread(size_t len)
{
    return ((len + 15) / 16 | 1) * 16;
}

static scheme scheme_of(const zn_kernels *k, const zn_conv *w)
{
    static const double g43[6 * 3] = { 1. / 4,  0,        0,       -1. / 6, -1. / 6, -1. / 6,
                                       -1. / 6, 1. / 6,   -1. / 6, 1. / 24, 1. / 12, 1. / 6,
                                       1. / 24, -1. / 12, 1. / 6,  0,       0,       1 };
    static const double g52[6 * 2] = { 1. / 4,  0,       -1. / 6, -1. / 6,  -1. / 6, 1. / 6,
                                       1. / 24, 1. / 12, 1. / 24, -1. / 12, 0,       1 };
    static const double g63[8 * 3] = { 1,        0,         0,       -2. / 9,  -2. / 9,  -2. / 9,
                                       -2. / 9,  2. / 9,    -2. / 9, 1. / 90,  1. / 45,  2. / 45,
                                       1. / 90,  -1. / 45,  2. / 45, 32. / 45, 16. / 45, 8. / 45,
                                       32. / 45, -16. / 45, 8. / 45, 0,        0,        1 };

    if (w->up2)
        return (scheme){ 6, 5, 2, true, g52, k->wino_in6, k->wino_out5 };
    if (w->cin <= ZN_WINO_F63)
        return (scheme){ 8, 6, 3, false, g63, k->wino_in8, k->wino_out6 };
    return (scheme){ 6, 4, 3, false, g43, k->wino_in6, k->wino_out4 };
}

bool zn_winograd_suits(const zn_kernels *k, const zn_conv *w)
{
    return k->wino_in6 && w->kh == 3 && w->kw == 3 && w->stride == 1 && w->groups == 1 && w->cin >= 12 &&
           w->cout >= 8 && w->cin <= ZN_ZEROS && (!w->up2 || (w->pad_t == 1 && w->pad_l == 1));
}

/* ---- weights ------------------------------------------------------------------------------------------ */

static size_t phase_len(const zn_kernels *k, const zn_conv *w, const scheme *s)
{
    return (size_t)(s->p * s->p) * (size_t)w->cin * (size_t)round_up(w->cout, k->vl);
}

size_t zn_winograd_size(const zn_kernels *k, const zn_conv *w)
{
    scheme s = scheme_of(k, w);

    return sizeof(float) * ((size_t)round_up(w->cout, k->nr) + (s.up2 ? 4 : 1) * phase_len(k, w, &s));
}

/* The taps of one phase of up2 along one dimension: an even pixel 2i sees x[i-1], x[i], x[i]; an odd one
 * x[i], x[i], x[i+1]. */
static void fold(double to[2], const double w[3], int odd)
{
    to[0] = odd ? w[0] + w[1] : w[0];
    to[1] = odd ? w[2] : w[1] + w[2];
}

/* u[i][j] = (G w G^T)[i][j] for the kernel of one pair of channels */
static void transform_kernel(double u[MAX_P][MAX_P], const float *kernel, const scheme *s, int phase)
{
    double w[3][3], half[MAX_P][3];

    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            w[i][j] = kernel[i * 3 + j];
    if (s->up2) {
        for (int i = 0; i < 3; i++) {
            double row[3] = { w[i][0], w[i][1], w[i][2] };

            fold(w[i], row, phase % 2);
        }
        for (int j = 0; j < 2; j++) {
            double col[3] = { w[0][j], w[1][j], w[2][j] }, to[2];

            fold(to, col, phase / 2);
            w[0][j] = to[0];
            w[1][j] = to[1];
        }
    }
    for (int i = 0; i < s->p; i++)
        for (int j = 0; j < s->taps; j++) {
            half[i][j] = 0;
            for (int t = 0; t < s->taps; t++)
                half[i][j] += s->g[i * s->taps + t] * w[t][j];
        }
    for (int i = 0; i < s->p; i++)
        for (int j = 0; j < s->p; j++) {
            u[i][j] = 0;
            for (int t = 0; t < s->taps; t++)
                u[i][j] += half[i][t] * s->g[j * s->taps + t];
        }
}

void zn_winograd_pack(const zn_kernels *k, const zn_conv *w, const float *weight, const float *bias)
{
    scheme s = scheme_of(k, w);
    float *packed = w->packed, *u = packed + round_up(w->cout, k->nr);
    int positions = s.p * s.p;

    for (int o = 0; o < round_up(w->cout, k->nr); o++)
        packed[o] = bias && o < w->cout ? bias[o] : 0;
    memset(u, 0, (s.up2 ? 4 : 1) * phase_len(k, w, &s) * sizeof *u);
    for (int phase = 0; phase < (s.up2 ? 4 : 1); phase++, u += phase_len(k, w, &s))
        for (int o = 0; o < w->cout; o++) {
            int first = o / k->nr * k->nr;
            int left = w->cout - first, width = left < k->nr ? round_up(left, k->vl) : k->nr;
            float *to = u + (size_t)first * (size_t)(positions * w->cin) + (o - first);

            for (int c = 0; c < w->cin; c++) {
                double t[MAX_P][MAX_P];

                transform_kernel(t, weight + ((size_t)o * (size_t)w->cin + (size_t)c) * 9, &s, phase);
                for (int i = 0; i < positions; i++)
                    to[((size_t)i * (size_t)w->cin + (size_t)c) * (size_t)width] = (float)t[i / s.p][i % s.p];
            }
        }
}

/* ---- tiles ----------------------------------------------------------------------------------------------
 */

typedef struct tile_at {
    int n, i, j; /* image; row and column of the tile */
} tile_at;

static tile_at tile_of(const winograd_job *job, size_t index)
{
    size_t per_image = (size_t)job->rows * (size_t)job->cols, r = index % per_image;

    return (tile_at){ (int)(index / per_image), (int)(r / (size_t)job->cols), (int)(r % (size_t)job->cols) };
}

/* V of one tile. */
static void transform_input(const winograd_job *job, float *v, size_t v_pos, size_t index)
{
    const float *pixel[MAX_P * MAX_P];
    tile_at at = tile_of(job, index);
    zn_tensor x = job->x;
    int p = job->s.p, top = at.i * job->s.m - job->w->pad_t, left = at.j * job->s.m - job->w->pad_l;

    for (int i = 0; i < p; i++) {
        int yy = top + i;
        const float *row = x.data + (((ptrdiff_t)at.n * x.h + yy) * x.w + left) * (ptrdiff_t)x.ld;

        for (int j = 0; j < p; j++)
            pixel[i * p + j] = yy < 0 || yy >= x.h || left + j < 0 || left + j >= x.w
                                   ? job->d->zeros
                                   : row + (ptrdiff_t)j * x.ld;
    }
    job->s.in(v, v_pos, pixel, x.c);
}

/* The pixels of y and of the residual that a tile gives in one phase; NULL: outside. */
static void point(const winograd_job *job, size_t index, int phase, float **pixel, const float **res)
{
    tile_at at = tile_of(job, index);
    zn_tensor y = job->y;
    int size = job->s.m, a = phase / 2, b = phase % 2;

    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++) {
            int yy = at.i * size + i, xx = at.j * size + j, k = i * size + j;

            if (job->s.up2) { /* an odd pixel's taps start one later, hence its tile one earlier */
                yy = 2 * (yy - a) + a;
                xx = 2 * (xx - b) + b;
            }
            pixel[k] = NULL;
            res[k] = NULL;
            if (yy >= 0 && yy < y.h && xx >= 0 && xx < y.w) {
                size_t p = ((size_t)at.n * (size_t)y.h + (size_t)yy) * (size_t)y.w + (size_t)xx;

                pixel[k] = y.data + p * (size_t)y.ld;
                res[k] = zn_residual_at(&job->t, p);
            }
        }
}

typedef struct block {  /* an item's scratch memory */
    const float **rows; /* [tile] of V, position 0 */
    float **y;          /* [tile][m * m] */
    const float **res;
    float *v, *m;
    size_t v_pos; /* floats from one position to the next */
    int n;        /* tiles */
} block;

/* A panel of outputs from o on, of one phase: all positions through gemm, then out of the tiles. */
static void run_panel(const winograd_job *job, const block *b, const float *u, int o)
{
    const zn_kernels *k = job->d->k;
    const zn_conv *w = job->w;
    int n = w->cout - o < k->nr ? w->cout - o : k->nr, width = round_up(n, k->vl);
    int area = job->s.m * job->s.m;
    size_t m_pos = spread((size_t)job->block * (size_t)width);

    for (int i = 0; i < job->s.p * job->s.p; i++) {
        zn_product g = { .x = b->rows,
                         .w = u + (size_t)i * (size_t)w->cin * (size_t)width,
                         .acc = b->m + (size_t)i * m_pos,
                         .t = &job->t,
                         .off = (ptrdiff_t)((size_t)i * b->v_pos),
                         .taps = 1,
                         .k = w->cin,
                         .rows = b->n,
                         .n = width,
                         .first = true };

        k->gemm(&g);
    }
    for (int r = 0; r < b->n; r++)
        job->s.out(b->y + r * area, job->t.residual ? b->res + r * area : NULL, o,
                   b->m + (size_t)r * (size_t)width, m_pos, (const float *)w->packed + o, n, &job->t);
}

static void winograd_item(void *cookie, int item, int worker)
{
    const winograd_job *job = cookie;
    const zn_kernels *k = job->d->k;
    const zn_conv *w = job->w;
    int positions = job->s.p * job->s.p, area = job->s.m * job->s.m;
    size_t start = (size_t)item * (size_t)job->block, cin = (size_t)w->cin;
    const float *u = (const float *)w->packed + round_up(w->cout, k->nr);
    block b = { .v_pos = spread((size_t)job->block * cin) };

    b.n = job->n_tiles - start < (size_t)job->block ? (int)(job->n_tiles - start) : job->block;
    b.rows = zn_cpu_scratch(job->d, worker);
    b.y = (float **)(void *)(b.rows + job->block);
    b.res = (const float **)(void *)(b.y + job->block * area);
    b.v = (float *)(void *)(b.res + job->block * area);
    b.m = b.v + (size_t)positions * b.v_pos;

    for (int r = 0; r < b.n; r++)
        transform_input(job, b.v + (size_t)r * cin, b.v_pos, start + (size_t)r);
    for (int r = 0; r < round_up(b.n, k->mr); r++)
        b.rows[r] = b.v + (size_t)(r < b.n ? r : b.n - 1) * cin;

    for (int phase = 0; phase < (job->s.up2 ? 4 : 1); phase++, u += phase_len(k, w, &job->s)) {
        for (int r = 0; r < b.n; r++)
            point(job, start + (size_t)r, phase, b.y + r * area, b.res + r * area);
        for (int o = 0; o < w->cout; o += k->nr)
            run_panel(job, &b, u + (size_t)o * (size_t)positions * cin, o);
    }
}

/* Tiles per item: V within its share of L2, or as many as fit in scratch memory up to MIN_TILES; fewer
 * where there are too few for all threads.  The bits of a tile do not depend on it. */
static int tiles_per_item(const winograd_job *job)
{
    const zn_kernels *k = job->d->k;
    size_t position = (size_t)(job->s.p * job->s.p) * sizeof(float);
    size_t per_tile =
        position * (size_t)(job->w->cin + k->nr) + sizeof(float *) * (size_t)(1 + 2 * job->s.m * job->s.m);
    size_t fit = (ZN_SCRATCH - 64 * position) / per_tile; /* less what spread() adds */
    size_t want = V_BYTES / (position * (size_t)job->w->cin);
    size_t share = job->n_tiles / (4 * (size_t)zn_pool_size(job->d->pool));

    if (want < (size_t)(MIN_TILES * k->mr))
        want = (size_t)(MIN_TILES * k->mr);
    want = want < share || share == 0 ? want : share;
    want = want < fit ? want : fit;
    return (int)want < k->mr ? k->mr : (int)want / k->mr * k->mr;
}

void zn_winograd(zn_cpu *d, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t)
{
    winograd_job job = { .d = d, .y = y, .x = x, .w = w, .t = zn_cpu_tail(t), .s = scheme_of(d->k, w) };

    job.rows = w->up2 ? x.h / job.s.m + 1 : (y.h + job.s.m - 1) / job.s.m;
    job.cols = w->up2 ? x.w / job.s.m + 1 : (y.w + job.s.m - 1) / job.s.m;
    job.n_tiles = (size_t)y.n * (size_t)job.rows * (size_t)job.cols;
    job.block = tiles_per_item(&job);
    zn_pool_run(d->pool, winograd_item, &job, zn_items(job.n_tiles, (size_t)job.block));
}
