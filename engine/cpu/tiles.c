/* SPDX-License-Identifier: MIT */
/* tiles.c - dense convolution as products of tiles of bf16 (AMX): ZN_TILE pixels x ZN_TILE outputs at a time.
 *
 *   x, bf16, or some rows of it rounded to bf16 with zeros around (band) --(one offset per tap)--> products --tail--> y
 *
 * An item computes a block of y, panel after panel of outputs, whose weights stay in L1 while the block's columns of ZN_TILE
 * pixels are walked down.  A tap is an offset, and the stride of the tile is the stride of the convolution.  A block of a
 * tensor in bf16 is read where it is, unless it touches the border; otherwise the item first copies what it depends on.
 * x enlarged twice (up2) is four convolutions with 2x2 taps, which are sums of the nine, one per parity of the pixel of y.
 * Where that takes fewer products, all taps of a row of the kernel are one: its channels lie side by side in a band.
 *
 * precision bf16: one product.  tf32: x and weights are sums of two bf16 each, high and low, and of the four products all
 * but low * low are added: 16 bits of mantissa, like no other form of half precision on a CPU near float32 (docs/speed/cpu.md).
 *
 * packed: bias, floats, whole panels; then [phase][panel of ZN_TILE outputs][tap][chunk of ZN_TILE channels]: two tiles
 * [pair of channels][16 outputs][2], or four, high and low.
 * The order of a pixel's additions depends neither on the block nor on the thread. */
#include <math.h>
#include <string.h>

#include "../core/ints.h"
#include "conv.h"

enum {
    BAND = 384 << 10, /* bytes of a band: what fits in L2 beside the weights */
    MAX_C = 4096,     /* channels whose smallest band fits in half the scratch memory */
    WIDE = 64,        /* columns of a block, or ZN_TILE ... */
    HIGH = 16,        /* ... and rows, or less */
    MAX_TAPS = 9,
    TILE_BYTES = 1024
};

typedef struct tap {
    int dy, dx; /* from the first pixel of a block, in x */
} tap;

typedef struct tiles_job {
    zn_conv_job c;
    bool low; /* terms, in addition to the high ones */
    int taps, phases, chunks, panels;
    tap tap[4][MAX_TAPS];        /* of a phase */
    int top, left, down, across; /* of the smallest offsets; pixels between them and the largest */
    int rows, cols, th, tw;      /* of a phase of y; of a block */
    int splits;                  /* items of a block: each has some panels */
    size_t pixel;                /* bytes of a pixel in a band */
} tiles_job;

/* Where it pays with float tensors (Sapphire Rapids, docs/speed/cpu.md): Winograd in float32 computes 3x3 at 350 to 390 GFLOP/s,
 * direct convolutions run at 110 to 140; tiles of few channels mostly convert. */
static bool pays(const zn_conv *w)
{
    static const struct {
        zn_precision precision;
        int taps, least; /* at least so many taps and channels */
    } table[] = { { ZN_BF16_MATH, 4, 48 }, { ZN_BF16_MATH, 1, ZN_TILES_PAY }, { ZN_TF32, 1, ZN_TILES_PAY } };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (w->precision == table[i].precision && w->kh * w->kw >= table[i].taps && w->cin >= table[i].least)
            return true;
    return false;
}

static bool suits(const zn_cpu *d, const zn_conv *w)
{
    const bool wants = w->precision == ZN_TF32 || w->precision == ZN_BF16_MATH;
    const bool fits = d->tiles && w->groups == 1 && w->cin <= MAX_C && w->kh * w->kw <= MAX_TAPS && w->stride <= 2 &&
        (!w->up2 || (w->kh == 3 && w->kw == 3 && zn_conv_is_strip(w)));

    return fits &&
        (w->tensors == ZN_BF16 || (w->cin >= 16 && w->cout >= 16 && (pays(w) || (d->tiles->everywhere && wants))));
}

static int n_tiles(const zn_conv *w) /* per panel, tap and chunk */
{
    return w->precision == ZN_TF32 ? 4 : 2;
}

/* Whether a row of the kernel is one tap. */
static bool by_rows(const zn_conv *w)
{
    return !w->up2 && zn_ceil_div(w->kw * w->cin, ZN_TILE) < w->kw * zn_ceil_div(w->cin, ZN_TILE);
}

static int n_taps(const zn_conv *w)
{
    return w->up2 ? 4 : by_rows(w) ? w->kh : w->kh * w->kw;
}

static int n_chunks(const zn_conv *w) /* of a tap */
{
    return zn_ceil_div(by_rows(w) ? w->kw * w->cin : w->cin, ZN_TILE);
}

static size_t panel_size(const zn_conv *w)
{
    return (size_t)(n_taps(w) * n_chunks(w) * n_tiles(w)) * TILE_BYTES;
}

static size_t size(const zn_kernels *k, const zn_conv *w)
{
    const int panels = zn_ceil_div(w->cout, ZN_TILE);

    (void)k;
    return (size_t)panels * (ZN_TILE * sizeof(float) + (size_t)(w->up2 ? 4 : 1) * panel_size(w));
}

/* A weight of a phase: of tap t and channel c, of the kernels of one output, [cin][kh * kw]. */
static float tap_weight(const zn_conv *w, const float *kernels, int phase, int t, int c)
{
    /* the taps, down or across, that see the first and the second of two pixels of x: of an even pixel of y, of an odd one */
    static const int first[2][3] = { { 0, 1, 3 }, { 0, 2, 3 } };
    const float *kernel = kernels + (size_t)(by_rows(w) ? c % w->cin : c) * (size_t)(w->kh * w->kw);
    double sum = 0;

    if (!w->up2)
        return kernel[by_rows(w) ? t * w->kw + c / w->cin : t];
    for (int u = first[phase / 2][t / 2]; u < first[phase / 2][t / 2 + 1]; u++)
        for (int v = first[phase % 2][t % 2]; v < first[phase % 2][t % 2 + 1]; v++)
            sum += kernel[3 * u + v];
    return (float)sum;
}

typedef struct packing {
    const zn_conv *w;
    const float *weight;
} packing;

/* A panel of a phase. */
static void pack_item(void *cookie, int item, int worker)
{
    const packing *job = cookie;
    const zn_conv *w = job->w;
    const int panels = zn_ceil_div(w->cout, ZN_TILE), phase = item / panels, panel = item % panels;
    const int chunks = n_chunks(w), tiles = n_tiles(w), all = w->cin * w->kh * w->kw;
    char *packed = (char *)((float *)w->packed + panels * ZN_TILE) + (size_t)item * panel_size(w);

    (void)worker;
    memset(packed, 0, panel_size(w));
    for (int t = 0; t < n_taps(w); t++)
        for (int o = panel * ZN_TILE; o < zn_imin(w->cout, (panel + 1) * ZN_TILE); o++)
            for (int c = 0; c < (by_rows(w) ? w->kw : 1) * w->cin; c++) {
                const float v = tap_weight(w, job->weight + (size_t)o * (size_t)all, phase, t, c);
                uint16_t *to =
                    (uint16_t *)(void *)(packed +
                                         (size_t)((t * chunks + c / ZN_TILE) * tiles + o % ZN_TILE / 16) * TILE_BYTES);
                const int at = c % ZN_TILE / 2 * 32 + o % 16 * 2 + c % 2;

                to[at] = zn_to_bf16(v);
                if (tiles == 4)
                    to[TILE_BYTES + at] = zn_to_bf16(v - zn_from_bf16(to[at])); /* two tiles further */
            }
}

static void pack(const zn_cpu *d, const zn_conv *w, const float *weight, const float *bias)
{
    const int panels = zn_ceil_div(w->cout, ZN_TILE);
    packing job = { w, weight };
    float *to = w->packed;

    for (int o = 0; o < panels * ZN_TILE; o++)
        to[o] = bias && o < w->cout ? bias[o] : 0;
    zn_pool_run(d->pool, pack_item, &job, (w->up2 ? 4 : 1) * panels);
}

/* Of a 1x1 convolution. */
static void unpack_row(float *to, const zn_kernels *k, const zn_conv *w, int row, int o, int n)
{
    const float *bias = w->packed;
    const char *packed = (const char *)(bias + zn_ceil_div(w->cout, ZN_TILE) * ZN_TILE);
    const int tiles = n_tiles(w), c = row - 1;

    (void)k;
    assert(n_taps(w) == 1);
    for (int i = o; i < o + n; i++, to++) {
        const uint16_t *from =
            (const uint16_t *)(const void *)(packed + (size_t)(i / ZN_TILE) * panel_size(w) +
                                             (size_t)(zn_imax(c, 0) / ZN_TILE * tiles + i % ZN_TILE / 16) * TILE_BYTES);
        const int at = zn_imax(c, 0) % ZN_TILE / 2 * 32 + i % 16 * 2 + zn_imax(c, 0) % 2;

        *to = row == 0   ? bias[i]
            : tiles == 4 ? zn_from_bf16(from[at]) + zn_from_bf16(from[TILE_BYTES + at])
                         : zn_from_bf16(from[at]);
    }
}

/* ---- items -------------------------------------------------------------------------------------------- */

typedef struct block {
    int n, r0, r1, q0, q1; /* of the image, rows and columns of a phase */
    const char *x;         /* the first pixel under the first tap ... */
    size_t pixel, row;     /* ... and bytes to the next pixel and the next row */
    size_t low;            /* and to the second terms; 0: none */
    float *sums;           /* [ZN_TILE pixels][ZN_TILE outputs] */
} block;

static char *element(zn_tensor t, size_t pixel, int c)
{
    return (char *)t.data + (pixel * (size_t)t.ld + (size_t)c) * zn_type_size(t.type);
}

/* Pixels of x under the taps of a block of so many rows or columns. */
static int under(const tiles_job *job, int n, int more)
{
    return (n - 1) * job->c.w->stride + 1 + more;
}

/* n elements of x, bf16 or float, filled up with zeros to whole chunks. */
static void convert(const tiles_job *job, char *to, size_t low, size_t pixel, int n)
{
    const zn_tensor x = job->c.x;
    const char *from = element(x, pixel, 0);
    const size_t size = 2 * (size_t)n, room = 2 * (size_t)zn_round_up(n, ZN_TILE);

    if (x.type == ZN_F32) {
        job->c.d->tiles->split(to, low, (const float *)(const void *)from, n);
        return;
    }
    memcpy(to, from, size);
    memset(to + size, 0, room - size);
}

/* A row of the band: of x, from column q on, so many columns. */
static void fill_row(const tiles_job *job, const block *b, char *to, int yy, int q, int cols)
{
    const zn_tensor x = job->c.x;
    const int from = zn_imin(zn_imax(-q, 0), cols), end = zn_imin(cols, x.w - q);
    const bool side_by_side = x.ld == x.c && b->pixel == 2 * (size_t)x.c;
    const size_t first = ((size_t)b->n * (size_t)x.h + (size_t)yy) * (size_t)x.w;

    if (yy < 0 || yy >= x.h || from >= end) {
        memset(to, 0, b->row);
        if (b->low)
            memset(to + b->low, 0, b->row);
        return;
    }
    memset(to, 0, (size_t)from * b->pixel);
    if (b->low)
        memset(to + b->low, 0, (size_t)from * b->pixel);
    for (int j = from, run; j < end; j += run) { /* in order: zeros behind a run are overwritten by the next */
        run = side_by_side ? end - j : 1;
        convert(job, to + (size_t)j * b->pixel, b->low, first + (size_t)(q + j), run * x.c);
    }
    memset(to + (size_t)end * b->pixel, 0, b->row - (size_t)end * b->pixel);
    if (b->low)
        memset(to + b->low + (size_t)end * b->pixel, 0, b->row - (size_t)end * b->pixel);
}

/* Bytes of a row of a band, for a block of so many columns. */
static size_t band_row(const tiles_job *job, int cols)
{
    const size_t row = (size_t)under(job, zn_round_up(cols, ZN_TILE), job->across) * job->pixel;

    return job->pixel % (2 * ZN_TILE) ? (row / (2 * ZN_TILE) + 2 + (size_t)job->chunks) * (2 * ZN_TILE) : row;
}

static size_t band_size(const tiles_job *job)
{
    return (job->low ? 2 : 1) * (size_t)under(job, job->th, job->down) * band_row(job, job->tw);
}

/* Finds the pixels that the block depends on, or copies them to the band. */
static void prepare(const tiles_job *job, block *b, char *band)
{
    const zn_tensor x = job->c.x;
    const int s = job->c.w->stride, rows = under(job, b->r1 - b->r0, job->down);
    const int cols = under(job, zn_round_up(b->q1 - b->q0, ZN_TILE), job->across);
    const int top = b->r0 * s + job->top, left = b->q0 * s + job->left;

    if (x.type == ZN_BF16 && x.c % ZN_TILE == 0 && top >= 0 && left >= 0 && top + rows <= x.h && left + cols <= x.w) {
        b->pixel = 2 * (size_t)x.ld;
        b->row = (size_t)x.w * b->pixel;
        b->x = element(x, ((size_t)b->n * (size_t)x.h + (size_t)top) * (size_t)x.w + (size_t)left, 0);
        return;
    }
    b->x = band;
    b->pixel = job->pixel;
    b->row = band_row(job, b->q1 - b->q0);
    b->low = job->low ? (size_t)rows * b->row : 0;
    for (int i = 0; i < rows; i++)
        fill_row(job, b, band + (size_t)i * b->row, top + i, left, under(job, b->q1 - b->q0, job->across));
}

static bool is_floor(zn_act a)
{
    return a == ZN_NONE || a == ZN_RELU;
}

/* The tail of `pixels` pixels from column q of row r on, n outputs from o on. */
static void finish(const tiles_job *job, const block *b, int phase, int r, int q, int pixels, int o, int n)
{
    const zn_tail *t = &job->c.t;
    const zn_tensor y = job->c.y;
    const zn_tile_form *f = job->c.d->tiles;
    const int step = job->phases > 1 ? 2 : 1, i = step * r + phase / 2, j = step * q + phase % 2;
    const size_t at = ((size_t)b->n * (size_t)y.h + (size_t)i) * (size_t)y.w + (size_t)j;
    zn_tile_tail tail = { .x = b->sums,
                          .gain = t->gain,
                          .least_pre = t->pre == ZN_RELU ? 0 : -INFINITY,
                          .least_post = t->post == ZN_RELU ? 0 : -INFINITY,
                          .pixels = zn_imin(pixels, zn_ceil_div(y.w - j, step)),
                          .n = n };

    if (i >= y.h || tail.pixels <= 0)
        return;
    if (t->residual) {
        tail.res = element(*t->residual, at, o);
        tail.res_ld = (size_t)(step * t->residual->ld) * zn_type_size(t->residual->type);
        tail.res_type = t->residual->type;
    }
    if (!is_floor(t->pre))
        job->c.d->k->map(b->sums, b->sums, NULL, NULL, NULL, (size_t)(tail.pixels * ZN_TILE),
                         &(zn_tail){ .pre = t->pre, .gain = 1 });
    if (!is_floor(t->post)) {
        tail.y = b->sums;
        tail.y_ld = ZN_TILE * sizeof(float);
        f->tail(&tail);
        job->c.d->k->map(b->sums, b->sums, NULL, NULL, NULL, (size_t)(tail.pixels * ZN_TILE),
                         &(zn_tail){ .pre = t->post, .gain = 1 });
        tail.res = NULL;
        tail.gain = 1;
        tail.least_pre = -INFINITY;
    }
    tail.y = element(y, at, o);
    tail.y_ld = (size_t)(step * y.ld) * zn_type_size(y.type);
    tail.y_type = y.type;
    f->tail(&tail);
}

/* A panel of a block: down its columns of ZN_TILE pixels. */
static void run_panel(const tiles_job *job, const block *b, int phase, int panel)
{
    const zn_conv *w = job->c.w;
    const int s = w->stride;
    const float *bias = w->packed;
    ptrdiff_t at[MAX_TAPS];
    zn_tiles g = { .y = b->sums,
                   .w = (const char *)(bias + job->panels * ZN_TILE) +
                       (size_t)(phase * job->panels + panel) * panel_size(w),
                   .bias = bias + panel * ZN_TILE,
                   .tap = at,
                   .y_ld = ZN_TILE,
                   .x_ld = (size_t)s * b->pixel,
                   .low = b->low,
                   .taps = job->taps,
                   .chunks = job->chunks,
                   .outputs = w->cout - panel * ZN_TILE };

    for (int t = 0; t < job->taps; t++)
        at[t] = (ptrdiff_t)(job->tap[phase][t].dy - job->top) * (ptrdiff_t)b->row +
            (ptrdiff_t)(job->tap[phase][t].dx - job->left) * (ptrdiff_t)b->pixel;
    for (int q = b->q0; q < b->q1; q += ZN_TILE) {
        g.pixels = zn_imin(b->q1 - q, ZN_TILE);
        for (int r = b->r0; r < b->r1; r++) {
            g.x = b->x + (size_t)((r - b->r0) * s) * b->row + (size_t)((q - b->q0) * s) * b->pixel;
            job->c.d->tiles->product(&g);
            finish(job, b, phase, r, q, g.pixels, panel * ZN_TILE, zn_imin(ZN_TILE, w->cout - panel * ZN_TILE));
        }
    }
}

static void tiles_item(void *cookie, int item, int worker)
{
    const tiles_job *job = cookie;
    const zn_tile_form *f = job->c.d->tiles;
    const int down = zn_ceil_div(job->rows, job->th), across = zn_ceil_div(job->cols, job->tw);
    const int each = zn_ceil_div(job->panels, job->splits), first = item % job->splits * each;
    const int last = zn_imin(first + each, job->panels), at = item / job->splits;
    block b = { .n = at / (down * across), .sums = zn_cpu_scratch(job->c.d, worker) };

    b.r0 = at / across % down * job->th;
    b.q0 = at % across * job->tw;
    b.r1 = zn_imin(b.r0 + job->th, job->rows);
    b.q1 = zn_imin(b.q0 + job->tw, job->cols);
    if (first >= last)
        return;
    f->begin();
    prepare(job, &b, (char *)(b.sums + ZN_TILE * ZN_TILE));
    for (int panel = first; panel < last; panel++)
        for (int phase = 0; phase < job->phases; phase++)
            run_panel(job, &b, phase, panel);
    f->end();
}

static void set_taps(tiles_job *job)
{
    const zn_conv *w = job->c.w;

    job->taps = n_taps(w);
    job->phases = w->up2 ? 4 : 1;
    for (int phase = 0; phase < job->phases; phase++)
        for (int t = 0; t < job->taps; t++)
            job->tap[phase][t] = w->up2 ? (tap){ t / 2 - zn_conv_above(w) + phase / 2, t % 2 - 1 + phase % 2 }
                : by_rows(w)            ? (tap){ t - w->pad_t, -w->pad_l }
                                        : (tap){ t / w->kw - w->pad_t, t % w->kw - w->pad_l };
    job->top = -zn_conv_above(w);
    job->left = w->up2 ? -1 : -w->pad_l;
    job->down = w->up2 ? 2 : w->kh - 1;
    job->across = w->up2 ? 2 : w->kw - 1;
}

/* A linear layer has one long row. */
static zn_tensor flat(zn_tensor t)
{
    t.w *= t.h * t.n;
    t.h = t.n = 1;
    return t;
}

/* The block: bands that fit in L2, and some for every thread. */
static int choose_blocks(tiles_job *job, int threads)
{
    int blocks;

    job->th = zn_imin(HIGH, job->rows);
    job->tw = job->cols <= ZN_TILE ? ZN_TILE : WIDE;
    if (band_size(job) > BAND && job->th < 4)
        job->tw = ZN_TILE;
    while (job->th > 1 && band_size(job) > BAND)
        job->th--;
    if (band_size(job) > BAND)
        job->tw = ZN_TILE;
    for (;; job->th /= 2) {
        blocks = job->c.y.n * zn_ceil_div(job->rows, job->th) * zn_ceil_div(job->cols, job->tw);
        if (job->th < 8 || blocks >= 4 * threads)
            return blocks;
    }
}

static void run(const zn_conv_job *c)
{
    const zn_conv *w = c->w;
    const int threads = zn_pool_size(c->d->pool);
    tiles_job job = { .c = *c, .low = w->precision == ZN_TF32 };
    zn_tensor res;
    int blocks;

    if (w->kh * w->kw == 1 && w->stride == 1 && !w->up2 && !w->pad_t && !w->pad_l && c->y.h == c->x.h &&
        c->y.w == c->x.w && zn_pixels(c->y) < INT32_MAX) {
        job.c.x = flat(c->x);
        job.c.y = flat(c->y);
        if (c->t.residual) {
            res = flat(*c->t.residual);
            job.c.t.residual = &res;
        }
    }
    set_taps(&job);
    job.chunks = n_chunks(w);
    job.panels = zn_ceil_div(w->cout, ZN_TILE);
    job.pixel = (size_t)(2 * (by_rows(w) ? w->cin : job.chunks * ZN_TILE));
    job.rows = zn_ceil_div(job.c.y.h, w->up2 ? 2 : 1);
    job.cols = zn_ceil_div(job.c.y.w, w->up2 ? 2 : 1);
    blocks = choose_blocks(&job, threads);
    job.splits = zn_imin(job.panels, zn_imax(1, threads / blocks));
    assert(band_size(&job) + ZN_TILE * ZN_TILE * sizeof(float) <= ZN_SCRATCH);
    zn_pool_run(c->d->pool, tiles_item, &job, blocks * job.splits);
}

const zn_conv_algorithm zn_conv_tiles = { .name = "tiles",
                                          .suits = suits,
                                          .size = size,
                                          .pack = pack,
                                          .run = run,
                                          .unpack_row = unpack_row,
                                          .inputs = ZN_W_BF16 };
