/* SPDX-License-Identifier: MIT */
/* tiles.c - dense convolution as products of tiles of bf16 (AMX): ZN_TILE pixels x ZN_TILE outputs at a time.
 *
 *   some rows of x --rounded to bf16, zeros around--> band --(one offset per tap)--> products --> y
 *
 * An item converts the part of x that a block of y depends on, once; a tap is another offset into this band, and the
 * stride of the tile is the stride of the convolution.  x enlarged twice (up2) is four convolutions with 2x2 taps, which
 * are sums of the nine, one per parity of the pixel of y; they share the band.
 *
 * precision bf16: one product.  tf32: x and weights are sums of two bf16 each, high and low, and of the four products all
 * but low * low are added: 16 bits of mantissa, like no other form of half precision on a CPU near float32 (docs/speed/cpu.md).
 *
 * packed: bias, floats, whole panels; then [phase][panel of ZN_TILE outputs][tap][chunk of ZN_TILE channels]: two tiles
 * [pair of channels][16 outputs][2], or four, high and low.
 * The order of a pixel's additions depends neither on the block nor on the thread. */
#include <string.h>

#include "../core/ints.h"
#include "conv.h"

enum {
    BAND = 384 << 10,    /* bytes of a band: what fits in L2 beside the weights */
    MAX_C = 4096,        /* channels whose smallest band fits in half the scratch memory */
    WEIGHTS = 512 << 10, /* bytes of weights that stay in L2 while all panels are computed for a row of pixels */
    WIDE = 2 * ZN_TILE,  /* columns of a block, or ZN_TILE ... */
    HIGH = 16,           /* ... and rows, or less */
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

/* Where it pays (Sapphire Rapids, docs/speed/cpu.md): Winograd in float32 computes 3x3 of few channels at 350 GFLOP/s, tiles at
 * 600 to 900, or a third of that with two terms.  A 1x1 convolution has to convert as much and multiplies less. */
static bool pays(const zn_conv *w)
{
    static const struct {
        zn_precision precision;
        int taps, stride, least; /* at least so many taps and channels */
    } table[] = {
        { ZN_BF16_MATH, 4, 1, 48 }, { ZN_BF16_MATH, 1, 1, 128 }, { ZN_TF32, 9, 2, 64 },
        { ZN_TF32, 9, 1, 128 },     { ZN_TF32, 1, 1, 512 },
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (w->precision == table[i].precision && w->kh * w->kw >= table[i].taps && w->stride >= table[i].stride &&
            w->cin >= table[i].least)
            return true;
    return false;
}

static bool suits(const zn_cpu *d, const zn_conv *w)
{
    const bool wants = w->precision == ZN_TF32 || w->precision == ZN_BF16_MATH;

    return d->tiles && (pays(w) || (d->tiles->everywhere && wants && w->cin >= 16)) && w->groups == 1 &&
        w->cout >= 16 && w->cin <= MAX_C && w->kh * w->kw <= MAX_TAPS && w->stride <= 2 &&
        (!w->up2 || (w->kh == 3 && w->kw == 3 && w->pad_t == 1 && w->pad_l == 1));
}

static int n_tiles(const zn_conv *w) /* per panel, tap and chunk */
{
    return w->precision == ZN_TF32 ? 4 : 2;
}

static int n_taps(const zn_conv *w)
{
    return w->up2 ? 4 : w->kh * w->kw;
}

static size_t panel_size(const zn_conv *w)
{
    return (size_t)(n_taps(w) * zn_ceil_div(w->cin, ZN_TILE) * n_tiles(w)) * TILE_BYTES;
}

static size_t size(const zn_kernels *k, const zn_conv *w)
{
    const int panels = zn_ceil_div(w->cout, ZN_TILE);

    (void)k;
    return (size_t)panels * (ZN_TILE * sizeof(float) + (size_t)(w->up2 ? 4 : 1) * panel_size(w));
}

/* The weight of a tap of a phase; `kernel` has the kh * kw of one pair of channels. */
static float tap_weight(const zn_conv *w, const float *kernel, int phase, int t)
{
    /* the taps, down or across, that see the first and the second of two pixels of x: of an even pixel of y, of an odd one */
    static const int first[2][3] = { { 0, 1, 3 }, { 0, 2, 3 } };
    double sum = 0;

    if (!w->up2)
        return kernel[t];
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
    const int chunks = zn_ceil_div(w->cin, ZN_TILE), tiles = n_tiles(w), each = w->kh * w->kw;
    char *packed = (char *)((float *)w->packed + panels * ZN_TILE) + (size_t)item * panel_size(w);

    (void)worker;
    memset(packed, 0, panel_size(w));
    for (int t = 0; t < n_taps(w); t++)
        for (int o = panel * ZN_TILE; o < zn_imin(w->cout, (panel + 1) * ZN_TILE); o++)
            for (int c = 0; c < w->cin; c++) {
                const float v =
                    tap_weight(w, job->weight + ((size_t)o * (size_t)w->cin + (size_t)c) * (size_t)each, phase, t);
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
    int width;             /* pixels of a row of the band */
    char *band;
    float *y; /* [ZN_TILE pixels][panels][ZN_TILE] */
} block;

/* The pixels of x that the block depends on. */
static void convert(const tiles_job *job, const block *b)
{
    const zn_tile_form *f = job->c.d->tiles;
    const zn_tensor x = job->c.x;
    const int s = job->c.w->stride, rows = (b->r1 - b->r0 - 1) * s + 1 + job->down;
    const int cols = (b->q1 - b->q0 - 1) * s + 1 + job->across;
    const bool whole = !job->low && x.ld == x.c && x.c % ZN_TILE == 0; /* pixels are side by side, here and there */

    for (int i = 0; i < rows; i++) {
        const int yy = b->r0 * s + job->top + i;
        char *to = b->band + (size_t)(i * b->width) * job->pixel;

        for (int j = 0, run; j < cols; j += run, to += (size_t)run * job->pixel) {
            const int xx = b->q0 * s + job->left + j;
            const bool inside = yy >= 0 && yy < x.h && xx >= 0 && xx < x.w;

            run = inside && whole ? zn_imin(cols - j, x.w - xx) : 1;
            if (!inside)
                memset(to, 0, job->pixel);
            else
                f->split(to, job->low ? job->pixel / 2 : 0,
                         x.data + (((size_t)b->n * (size_t)x.h + (size_t)yy) * (size_t)x.w + (size_t)xx) * (size_t)x.ld,
                         run * x.c);
        }
    }
}

/* The tail of `pixels` pixels from column q of row r on, n outputs from o on; from has rows of `ld` floats. */
static void finish(const tiles_job *job, const block *b, const float *from, int ld, int phase, int r, int q, int pixels,
                   int o, int n)
{
    const zn_tail *t = &job->c.t;
    const zn_tensor y = job->c.y;
    const zn_kernels *k = job->c.d->k;
    const int step = job->phases > 1 ? 2 : 1, i = step * r + phase / 2;
    const bool whole = step == 1 && ld == n && y.ld == n && (!t->residual || t->residual->ld == n);

    if (i >= y.h)
        return;
    for (int p = 0; p < pixels; p += whole ? pixels : 1) {
        const int j = step * (q + p) + phase % 2;
        const size_t at = ((size_t)b->n * (size_t)y.h + (size_t)i) * (size_t)y.w + (size_t)j;
        const float *res = zn_residual_at(t, at);

        if (j < y.w)
            k->map(y.data + at * (size_t)y.ld + o, from + p * ld, NULL, NULL, res ? res + o : NULL,
                   (size_t)(whole ? pixels * n : n), t);
    }
}

/* The panels from .. end-1 of ZN_TILE pixels of a row, or as many as there are. */
static void run_pixels(const tiles_job *job, const block *b, int phase, int r, int q, int from, int end)
{
    const zn_conv *w = job->c.w;
    const int s = w->stride, pixels = zn_imin(b->q1 - q, ZN_TILE), ld = (end - from) * ZN_TILE;
    ptrdiff_t at[MAX_TAPS];

    for (int t = 0; t < job->taps; t++)
        at[t] = ((ptrdiff_t)(job->tap[phase][t].dy - job->top) * b->width + job->tap[phase][t].dx - job->left) *
            (ptrdiff_t)job->pixel;
    for (int panel = from; panel < end; panel++)
        job->c.d->tiles->product(
            &(zn_tiles){ .y = b->y + (panel - from) * ZN_TILE,
                         .y_ld = (size_t)ld,
                         .x = b->band + (size_t)((r - b->r0) * s * b->width + (q - b->q0) * s) * job->pixel,
                         .x_ld = (size_t)s * job->pixel,
                         .low = job->low ? job->pixel / 2 : 0,
                         .w = (const char *)((const float *)w->packed + job->panels * ZN_TILE) +
                             (size_t)(phase * job->panels + panel) * panel_size(w),
                         .bias = (const float *)w->packed + panel * ZN_TILE,
                         .tap = at,
                         .taps = job->taps,
                         .chunks = job->chunks,
                         .pixels = pixels });
    finish(job, b, b->y, ld, phase, r, q, pixels, from * ZN_TILE, zn_imin(ld, w->cout - from * ZN_TILE));
}

static void tiles_item(void *cookie, int item, int worker)
{
    const tiles_job *job = cookie;
    const zn_tile_form *f = job->c.d->tiles;
    const int down = zn_ceil_div(job->rows, job->th), across = zn_ceil_div(job->cols, job->tw);
    const int each = zn_ceil_div(job->panels, job->splits), first = item % job->splits * each;
    const int last = zn_imin(first + each, job->panels), at = item / job->splits;
    const int step = (size_t)(last - first) * panel_size(job->c.w) <= WEIGHTS ? last - first : 1;
    block b = { .n = at / (down * across), .band = zn_cpu_scratch(job->c.d, worker) };

    b.r0 = at / across % down * job->th;
    b.q0 = at % across * job->tw;
    b.r1 = zn_imin(b.r0 + job->th, job->rows);
    b.q1 = zn_imin(b.q0 + job->tw, job->cols);
    b.width = (zn_round_up(b.q1 - b.q0, ZN_TILE) - 1) * job->c.w->stride + 1 + job->across;
    b.y =
        (float *)(void *)(b.band + (size_t)(((job->th - 1) * job->c.w->stride + 1 + job->down) * b.width) * job->pixel);
    if (first >= last)
        return;
    f->begin();
    convert(job, &b);
    for (int panel = first; panel < last; panel += step)
        for (int phase = 0; phase < job->phases; phase++)
            for (int r = b.r0; r < b.r1; r++)
                for (int q = b.q0; q < b.q1; q += ZN_TILE)
                    run_pixels(job, &b, phase, r, q, panel, zn_imin(panel + step, last));
    f->end();
}

static void set_taps(tiles_job *job)
{
    const zn_conv *w = job->c.w;

    job->taps = n_taps(w);
    job->phases = w->up2 ? 4 : 1;
    for (int phase = 0; phase < job->phases; phase++)
        for (int t = 0; t < job->taps; t++)
            job->tap[phase][t] = w->up2 ? (tap){ t / 2 - 1 + phase / 2, t % 2 - 1 + phase % 2 }
                                        : (tap){ t / w->kw - w->pad_t, t % w->kw - w->pad_l };
    job->top = w->up2 ? -1 : -w->pad_t;
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

static size_t band_size(const tiles_job *job)
{
    const int s = job->c.w->stride;

    return (size_t)(((job->th - 1) * s + 1 + job->down) * ((job->tw - 1) * s + 1 + job->across)) * job->pixel;
}

static void run(const zn_conv_job *c)
{
    const zn_conv *w = c->w;
    const int threads = zn_pool_size(c->d->pool);
    tiles_job job = { .c = *c, .low = w->precision == ZN_TF32, .th = HIGH, .tw = WIDE };
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
    job.chunks = zn_ceil_div(w->cin, ZN_TILE);
    job.panels = zn_ceil_div(w->cout, ZN_TILE);
    job.pixel = (size_t)(job.chunks * ZN_TILE * 2 * (job.low ? 2 : 1));
    job.rows = zn_ceil_div(job.c.y.h, w->up2 ? 2 : 1);
    job.cols = zn_ceil_div(job.c.y.w, w->up2 ? 2 : 1);
    job.th = zn_imin(job.th, job.rows);
    if (band_size(&job) > BAND && job.th < 4)
        job.tw = ZN_TILE;
    while (job.th > 1 && band_size(&job) > BAND)
        job.th--;
    if (band_size(&job) > BAND)
        job.tw = ZN_TILE;
    blocks = c->y.n * zn_ceil_div(job.rows, job.th) * zn_ceil_div(job.cols, job.tw);
    if (job.c.y.n == 1)
        blocks = zn_ceil_div(job.rows, job.th) * zn_ceil_div(job.cols, job.tw);
    job.splits = zn_imin(job.panels, zn_imax(1, threads / blocks));
    assert(band_size(&job) + (size_t)(job.panels * ZN_TILE * ZN_TILE) * sizeof(float) <= ZN_SCRATCH / 2);
    zn_pool_run(c->d->pool, tiles_item, &job, blocks * job.splits);
}

const zn_conv_algorithm zn_conv_tiles = { .name = "tiles",
                                          .suits = suits,
                                          .size = size,
                                          .pack = pack,
                                          .run = run,
                                          .unpack_row = unpack_row,
                                          .inputs = ZN_W_BF16 };
