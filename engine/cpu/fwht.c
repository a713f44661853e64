/* SPDX-License-Identifier: MIT */
/* fwht.c - Walsh-Hadamard transforms along channels, rows and columns; the pruned depthwise convolution.
 *
 * Along c, a pixel is a row of elements.  Gates, mixing and bias are applied to it in scratch memory, between transforms.
 *   If there are only rounds, a block of pixels is transposed: channels become lines, and a vector holds several
 *   pixels.  A permutation then costs nothing: lines are read in another order.
 * Along w and h, the lines of a transform are pixels, and a vector holds several channels.
 *   w: a row of the image fits in the cache; it is transformed in place if its channels are whole vectors.
 *   h: the first pass reads a strip of columns into scratch memory, the last pass writes it back.  In the image, lines a
 *   power of two apart would share a few sets of the cache. */
#include <string.h>

#include "../core/ints.h"
#include "device.h"

enum {
    ITEM = 1 << 15,  /* floats per item along c and w */
    LINES = 1 << 12, /* floats that go through rounds at a time: twice as many fit in L1 */
    MAX_LINE = 32,   /* pixels of them */
    STRIP = 1 << 16, /* floats of a strip: it fits in L2 */
    MAX_WIDTH = 128, /* of a strip */
    GAP = 64,        /* floats of zeros around a row, for its neighbours: a row begins at a cache line */
    ROW = ZN_FWHT_MAX + 2 * GAP,
    PIECE = 1024, /* channels per item of the pruned convolution */
    PIXELS = 16,  /* and pixels, of its mask */
    TILE = ZN_PRUNE_SIDE - 2
};

typedef struct fwht_job {
    zn_cpu *d;
    zn_tensor y, x;
    const zn_fwht *w;
    size_t per_item; /* pixels along c, rows along w */
    int width, n_strips;
    bool runs; /* along h: a row of the image is one run of elements */
} fwht_job;

/* ---- along c ------------------------------------------------------------------------------------------ */

static float *row_of(zn_cpu *d, int worker, int i)
{
    return (float *)zn_cpu_scratch(d, worker) + (size_t)i * ROW + GAP;
}

/* to[j] = from[perm[j]], the elements from c on being 0 */
static void gather(float *to, const float *from, int c, const int32_t *perm, int n)
{
    if (!perm) {
        memcpy(to, from, (size_t)c * sizeof *to);
        memset(to + c, 0, (size_t)(n - c) * sizeof *to);
        return;
    }
    for (int j = 0; j < n && c == n; j++)
        to[j] = from[perm[j]];
    for (int j = 0; j < n && c < n; j++)
        to[j] = perm[j] < c ? from[perm[j]] : 0;
}

static void run_slm(const zn_kernels *k, float *v, float *e0, float *e1, float *e2, const zn_fwht *w)
{
    for (int i = 0; i < w->n; i++)
        e0[i] = v[i] < 0 ? -v[i] : v[i];
    k->slm_row(e1, e0, e0, w->slm, w->n);
    k->slm_row(e2, e0, e1, w->slm, w->n);
    k->slm_row(v, v, e2, w->slm, w->n);
}

static void transform_pixel(const fwht_job *job, float *y, const float *x, int worker)
{
    const zn_fwht *w = job->w;
    const zn_kernels *k = job->d->k;
    float *v = row_of(job->d, worker, 0), *u = row_of(job->d, worker, 1), *t;
    zn_tail tail = { .pre = w->act, .gain = 1 };
    size_t n = (size_t)w->n;

    gather(v, x, job->x.c, w->perm, w->n);
    k->fwht_row(v, w->n, w->pre);
    for (int r = 1; r < w->rounds; r++) {
        if (w->perm) {
            gather(u, v, w->n, w->perm + (size_t)r * n, w->n);
            t = v, v = u, u = t;
        }
        k->fwht_row(v, w->n, w->pre ? w->pre + (size_t)r * n : NULL);
    }
    if (w->slm)
        run_slm(k, v, row_of(job->d, worker, 2), row_of(job->d, worker, 3), row_of(job->d, worker, 4), w);
    if (w->mix) {
        if (w->gate)
            k->binary(v, v, w->gate, NULL, n, ZN_MUL, &(zn_tail){ .gain = 1 });
        v[-1] = v[n] = 0;
        k->mix_row(u, v, w->mix, w->n);
        k->fwht_row(u, w->n, NULL);
        v = u;
    } else if (w->gate || w->slm) {
        k->fwht_row(v, w->n, w->gate);
    }
    if (w->bias)
        k->binary(y, v, w->bias, NULL, (size_t)job->y.c, ZN_ADD, &tail);
    else
        k->map(y, v, NULL, NULL, NULL, (size_t)job->y.c, &tail);
}

/* The rounds of some pixels at a time: their channels are the lines. */
static void lines_item(void *cookie, int item, int worker)
{
    const fwht_job *job = cookie;
    const zn_fwht *w = job->w;
    const zn_kernels *k = job->d->k;
    size_t first = (size_t)item * job->per_item, end = first + job->per_item, all = zn_pixels(job->y);
    size_t width = (size_t)job->width, len = (size_t)w->n * width, used = (size_t)job->x.c * width;
    float *v = zn_cpu_scratch(job->d, worker), *u = v + len, *t;
    zn_tail tail = { .pre = w->act, .gain = 1 };

    for (size_t p = first; p < end && p < all; p += width) {
        int pixels = (int)(all - p < width ? all - p : width);
        float *y = job->y.data + p * (size_t)job->y.ld;

        if ((size_t)pixels < width)
            memset(v, 0, used * sizeof *v);
        k->transpose(v, width, job->x.data + p * (size_t)job->x.ld, (size_t)job->x.ld, pixels, job->x.c);
        memset(v + used, 0, (len - used) * sizeof *v);
        for (int r = 0; r < w->rounds; r++, t = v, v = u, u = t) {
            size_t at = (size_t)r * (size_t)w->n;

            k->fwht(&(zn_lines){ u, u, v, width, width, width, w->n, job->width, w->pre ? w->pre + at : NULL, 0,
                                 w->perm ? w->perm + at : NULL });
        }
        k->transpose(y, (size_t)job->y.ld, v, width, job->y.c, pixels);
        for (int i = 0; i < pixels && (w->bias || w->act); i++, y += job->y.ld) {
            if (w->bias)
                k->binary(y, y, w->bias, NULL, (size_t)job->y.c, ZN_ADD, &tail);
            else
                k->map(y, y, NULL, NULL, NULL, (size_t)job->y.c, &tail);
        }
    }
}

static void channels_item(void *cookie, int item, int worker)
{
    const fwht_job *job = cookie;
    size_t first = (size_t)item * job->per_item, end = first + job->per_item, all = zn_pixels(job->y);

    for (int i = 2; i < 5 && job->w->slm; i++) { /* the neighbours of the first and last elements */
        float *e = row_of(job->d, worker, i);

        e[-2] = e[-1] = e[job->w->n] = e[job->w->n + 1] = 0;
    }
    for (size_t p = first; p < end && p < all; p++)
        transform_pixel(job, job->y.data + p * (size_t)job->y.ld, job->x.data + p * (size_t)job->x.ld, worker);
}

/* ---- along w and h ------------------------------------------------------------------------------------- */

/* y = H x or, with a gate, H diag(gate) H x; v is room for n lines. */
static void transform_lines(const fwht_job *job, float *y, size_t y_step, const float *x, size_t x_step, float *v,
                            size_t v_step, int width, const float *gate, size_t gate_step)
{
    const zn_kernels *k = job->d->k;
    zn_lines g = { y, v, x, y_step, v_step, x_step, job->w->n, width, NULL, 0, NULL };

    if (gate) {
        g.y = v, g.y_step = v_step;
        k->fwht(&g);
        g = (zn_lines){ y, v, v, y_step, v_step, v_step, job->w->n, width, gate, gate_step, NULL };
    }
    k->fwht(&g);
}

/* One strip of `width` elements, through all windows: lines of x are ldx floats apart, those of y ldy, and
 * there are `len` of them.  c: the strip's first channel, for gates per channel. */
static void run_strip(const fwht_job *job, float *y, size_t ldy, const float *x, size_t ldx, int len, int width, int c,
                      int worker)
{
    const zn_fwht *w = job->w;
    int wide = zn_round_up(width, job->d->k->vl);
    float *v = zn_cpu_scratch(job->d, worker), *own = v + (size_t)w->n * (size_t)wide;
    const float *gate = w->gate;
    size_t size = (size_t)width * sizeof *v;

    if (w->gate && w->per_channel) { /* as wide as the strip, whole vectors */
        for (int i = 0; i < w->n; i++)
            memcpy(own + (size_t)i * (size_t)wide, w->gate + (size_t)i * (size_t)job->x.c + c, size);
        gate = own;
    }
    for (int from = -w->shift; from < len; from += w->n) {
        int first = from < 0 ? -from : 0, end = len - from < w->n ? len - from : w->n;

        if (first == 0 && end == w->n && wide == width) {
            transform_lines(job, y + (size_t)from * ldy, ldy, x + (size_t)from * ldx, ldx, v, (size_t)wide, wide, gate,
                            w->per_channel ? (size_t)wide : 0);
            continue;
        }
        memset(v, 0, (size_t)w->n * (size_t)wide * sizeof *v);
        for (int i = first; i < end; i++)
            memcpy(v + (size_t)i * (size_t)wide, x + (size_t)(from + i) * ldx, size);
        transform_lines(job, v, (size_t)wide, v, (size_t)wide, v, (size_t)wide, wide, gate,
                        w->per_channel ? (size_t)wide : 0);
        for (int i = first; i < end; i++)
            memcpy(y + (size_t)(from + i) * ldy, v + (size_t)i * (size_t)wide, size);
    }
}

static void row_item(void *cookie, int item, int worker)
{
    const fwht_job *job = cookie;
    const zn_fwht *w = job->w;
    zn_tensor x = job->x, y = job->y;
    size_t first = (size_t)item * job->per_item, end = first + job->per_item, all = (size_t)y.n * (size_t)y.h;

    for (size_t r = first; r < end && r < all; r++) {
        float *to = y.data + r * (size_t)y.w * (size_t)y.ld;
        const float *from = x.data + r * (size_t)x.w * (size_t)x.ld;

        if (y.w % w->n == 0 && !w->shift && y.c % job->d->k->vl == 0 && y.c <= job->width) {
            for (int j = 0; j < y.w; j += w->n) {
                float *at = to + (size_t)j * (size_t)y.ld;

                transform_lines(job, at, (size_t)y.ld, from + (size_t)j * (size_t)x.ld, (size_t)x.ld, at, (size_t)y.ld,
                                y.c, w->gate, w->per_channel ? (size_t)y.c : 0);
            }
            continue;
        }
        for (int c = 0; c < y.c; c += job->width)
            run_strip(job, to + c, (size_t)y.ld, from + c, (size_t)x.ld, y.w,
                      y.c - c < job->width ? y.c - c : job->width, c, worker);
    }
}

static void column_item(void *cookie, int item, int worker)
{
    const fwht_job *job = cookie;
    zn_tensor x = job->x, y = job->y;
    size_t image = (size_t)(item / job->n_strips), at;
    int strip = item % job->n_strips, len = job->runs ? y.w * y.c : y.c, per_pixel = job->n_strips;
    int pixel = 0, c, width;

    if (!job->runs) {
        per_pixel = job->n_strips / y.w;
        pixel = strip / per_pixel;
        strip %= per_pixel;
    }
    c = strip * job->width;
    width = len - c < job->width ? len - c : job->width;
    at = image * (size_t)y.h * (size_t)y.w + (size_t)pixel;
    run_strip(job, y.data + at * (size_t)y.ld + c, (size_t)y.w * (size_t)y.ld, x.data + at * (size_t)x.ld + c,
              (size_t)x.w * (size_t)x.ld, y.h, width, c, worker);
}

void zn_cpu_fwht(void *dev, zn_tensor y, zn_tensor x, const zn_fwht *w)
{
    fwht_job job = { .d = dev, .y = y, .x = x, .w = w, .per_item = 1 };
    int width = STRIP / w->n / job.d->k->vl * job.d->k->vl, run;

    if (w->axis == ZN_ALONG_C && w->rounds > 1 && !w->slm && !w->mix && !w->gate) {
        job.width = LINES / w->n / job.d->k->vl * job.d->k->vl;
        job.width = job.width < job.d->k->vl ? job.d->k->vl : job.width > MAX_LINE ? MAX_LINE : job.width;
        job.per_item = (size_t)zn_round_up(w->n < ITEM ? ITEM / w->n : 1, job.width);
        zn_pool_run(job.d->pool, lines_item, &job, zn_items(zn_pixels(y), job.per_item));
        return;
    }
    if (w->axis == ZN_ALONG_C) {
        job.per_item = w->n < ITEM ? (size_t)(ITEM / w->n) : 1;
        zn_pool_run(job.d->pool, channels_item, &job, zn_items(zn_pixels(y), job.per_item));
        return;
    }
    job.width = width < job.d->k->vl ? job.d->k->vl : width > MAX_WIDTH ? MAX_WIDTH : width;
    if (w->axis == ZN_ALONG_W) {
        size_t row = (size_t)y.w * (size_t)y.c;

        job.per_item = row < ITEM ? ITEM / row : 1;
        zn_pool_run(job.d->pool, row_item, &job, zn_items((size_t)y.n * (size_t)y.h, job.per_item));
        return;
    }
    job.runs = x.ld == x.c && y.ld == y.c && !(w->gate && w->per_channel);
    run = job.runs ? y.w * y.c : y.c;
    job.n_strips = (run + job.width - 1) / job.width * (job.runs ? 1 : y.w);
    zn_pool_run(job.d->pool, column_item, &job, y.n * job.n_strips);
}

/* ---- the pruned depthwise convolution ------------------------------------------------------------------ */

typedef struct pruned_job {
    const zn_kernels *k;
    zn_tensor y, mask, x;
    const zn_pruned *w;
    int n_pieces;
} pruned_job;

static void mask_item(void *cookie, int item, int worker)
{
    const pruned_job *job = cookie;
    size_t first = (size_t)(item / job->n_pieces) * PIXELS, all = zn_pixels(job->x);
    int c = item % job->n_pieces * PIECE, n = job->x.c - c < PIECE ? job->x.c - c : PIECE;

    (void)worker;
    for (size_t p = first; p < first + PIXELS && p < all; p++)
        job->k->mask_row(job->mask.data + p * (size_t)job->mask.ld + c / 8, job->x.data + p * (size_t)job->x.ld + c,
                         job->w->scale + c / 8, job->w->bias + c / 8, n / 8);
}

/* A tile of TILE x TILE pixels through a piece of the channels, whose weights are read once. */
static void pruned_item(void *cookie, int item, int worker)
{
    const pruned_job *job = cookie;
    zn_tensor x = job->x, y = job->y;
    int c = item % job->n_pieces * PIECE, tile = item / job->n_pieces, across = (x.w + TILE - 1) / TILE;
    int down = (x.h + TILE - 1) / TILE, i0 = tile / across % down * TILE, j0 = tile % across * TILE;
    zn_prune_tile g = { .w = job->w->weight + c, .w_tap = (size_t)x.c, .n = (x.c - c < PIECE ? x.c - c : PIECE) / 8 };

    (void)worker;
    for (int q = 0; q < ZN_PRUNE_SIDE * ZN_PRUNE_SIDE; q++) {
        int u = q / ZN_PRUNE_SIDE, v = q % ZN_PRUNE_SIDE, i = i0 + u - 1, j = j0 + v - 1;
        size_t p = ((size_t)(tile / across / down) * (size_t)x.h + (size_t)i) * (size_t)x.w + (size_t)j;

        if (i < 0 || i >= x.h || j < 0 || j >= x.w)
            continue;
        g.place[g.pixels] = (uint8_t)q;
        g.x[g.pixels] = x.data + p * (size_t)x.ld + c;
        g.mask[g.pixels] = job->mask.data + p * (size_t)job->mask.ld + c / 8;
        g.y[g.pixels] = y.data + p * (size_t)y.ld + c;
        if (u >= 1 && u <= TILE && v >= 1 && v <= TILE)
            g.inner |= (uint64_t)1 << g.pixels;
        g.pixels++;
    }
    job->k->pruned(&g);
}

void zn_cpu_pruned(void *dev, zn_tensor y, zn_tensor mask, zn_tensor x, const zn_pruned *w)
{
    const zn_cpu *d = dev;
    pruned_job job = { d->k, y, mask, x, w, (x.c + PIECE - 1) / PIECE };
    int tiles = x.n * ((x.h + TILE - 1) / TILE) * ((x.w + TILE - 1) / TILE);

    if (w->scale)
        zn_pool_run(d->pool, mask_item, &job, zn_items(zn_pixels(x), PIXELS) * job.n_pieces);
    if (w->weight)
        zn_pool_run(d->pool, pruned_item, &job, tiles * job.n_pieces);
}
