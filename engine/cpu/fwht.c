/* SPDX-License-Identifier: MIT */
/* fwht.c - Walsh-Hadamard transforms along channels, rows and columns; the pruned depthwise convolution.
 *
 * Along c a pixel is one row of numbers, and everything between its transforms happens in scratch memory.
 * Along w and h the lines of a transform are pixels, and many channels go through it side by side:
 *   w: a row of the image is in cache as it lies; it is transformed in place where its channels are whole
 *      vectors;
 *   h: a strip of some columns is copied to scratch memory, row by row, and back: lines that lie a power of
 *      two apart would all fall into the same few sets of the cache. */
#include <string.h>

#include "device.h"

enum {
    ITEM = 1 << 15,  /* floats per item along c and w */
    STRIP = 1 << 16, /* floats of a strip: it fits in L2 */
    MAX_WIDTH = 128, /* of a strip */
    GAP = 64,        /* floats of zeros around a row, for its neighbours: a row begins at a cache line */
    ROW = ZN_FWHT_MAX + 2 * GAP,
    PIECE = 1024, /* channels per item of the pruned convolution */
    PIXELS = 16
};

typedef struct fwht_job {
    zn_cpu *d;
    zn_tensor y, x;
    const zn_fwht *w;
    size_t per_item; /* pixels along c, rows along w */
    int width, n_strips;
    bool runs; /* along h: a row of the image is one run of numbers */
} fwht_job;

static int round_up(int n, int to)
{
    return (n + to - 1) / to * to;
}

/* ---- along c ------------------------------------------------------------------------------------------ */

static float *row_of(zn_cpu *d, int worker, int i)
{
    return (float *)zn_cpu_scratch(d, worker) + (size_t)i * ROW + GAP;
}

/* to[j] = from[perm[j]], the numbers from c on being 0 */
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

static void channels_item(void *cookie, int item, int worker)
{
    const fwht_job *job = cookie;
    size_t first = (size_t)item * job->per_item, end = first + job->per_item, all = zn_pixels(job->y);

    for (int i = 2; i < 5 && job->w->slm; i++) { /* the neighbours of the first and last numbers */
        float *e = row_of(job->d, worker, i);

        e[-2] = e[-1] = e[job->w->n] = e[job->w->n + 1] = 0;
    }
    for (size_t p = first; p < end && p < all; p++)
        transform_pixel(job, job->y.data + p * (size_t)job->y.ld, job->x.data + p * (size_t)job->x.ld,
                        worker);
}

/* ---- along w and h ------------------------------------------------------------------------------------- */

static void transform_lines(const fwht_job *job, float *v, size_t stride, int width, const float *gate,
                            size_t gate_step)
{
    const zn_kernels *k = job->d->k;

    k->fwht(v, stride, job->w->n, width, NULL, 0);
    if (gate)
        k->fwht(v, stride, job->w->n, width, gate, gate_step);
}

/* One strip of `width` numbers, through all windows: lines of x are ldx floats apart, those of y ldy, and
 * there are `len` of them.  c: the strip's first channel, for gates per channel. */
static void run_strip(const fwht_job *job, float *y, size_t ldy, const float *x, size_t ldx, int len,
                      int width, int c, int worker)
{
    const zn_fwht *w = job->w;
    int wide = round_up(width, job->d->k->vl);
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

        if (first || end < w->n || wide > width)
            memset(v, 0, (size_t)w->n * (size_t)wide * sizeof *v);
        for (int i = first; i < end; i++)
            memcpy(v + (size_t)i * (size_t)wide, x + (size_t)(from + i) * ldx, size);
        transform_lines(job, v, (size_t)wide, wide, gate, w->per_channel ? (size_t)wide : 0);
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
            for (int j = 0; j < y.w && to != from; j++)
                memcpy(to + (size_t)j * (size_t)y.ld, from + (size_t)j * (size_t)x.ld,
                       (size_t)y.c * sizeof *to);
            for (int j = 0; j < y.w; j += w->n)
                transform_lines(job, to + (size_t)j * (size_t)y.ld, (size_t)y.ld, y.c, w->gate,
                                w->per_channel ? (size_t)y.c : 0);
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
        job->k->mask_row(job->mask.data + p * (size_t)job->mask.ld + c / 8,
                         job->x.data + p * (size_t)job->x.ld + c, job->w->scale + c / 8, job->w->bias + c / 8,
                         n / 8);
}

static void prune_pixel(const pruned_job *job, size_t p, int c, int n)
{
    zn_tensor x = job->x;
    int j = (int)(p % (size_t)x.w), i = (int)(p / (size_t)x.w % (size_t)x.h);
    const float *near[9], *mask[9];

    for (int t = 0; t < 9; t++) {
        int ii = i + t / 3 - 1, jj = j + t % 3 - 1;
        bool inside = ii >= 0 && ii < x.h && jj >= 0 && jj < x.w;
        size_t q = inside ? p + (size_t)((ptrdiff_t)(ii - i) * x.w + jj - j) : 0;

        near[t] = inside ? x.data + q * (size_t)x.ld + c : NULL;
        mask[t] = inside ? job->mask.data + q * (size_t)job->mask.ld + c / 8 : NULL;
    }
    job->k->pruned(job->y.data + p * (size_t)job->y.ld + c, near, mask, job->w->weight + c, (size_t)x.c,
                   n / 8);
}

/* Some pixels through the same piece of the channels, whose weights stay in L1. */
static void pruned_item(void *cookie, int item, int worker)
{
    const pruned_job *job = cookie;
    size_t first = (size_t)(item / job->n_pieces) * PIXELS, all = zn_pixels(job->x);
    int c = item % job->n_pieces * PIECE, n = job->x.c - c < PIECE ? job->x.c - c : PIECE;

    (void)worker;
    for (size_t p = first; p < first + PIXELS && p < all; p++)
        prune_pixel(job, p, c, n);
}

void zn_cpu_pruned(void *dev, zn_tensor y, zn_tensor mask, zn_tensor x, const zn_pruned *w)
{
    const zn_cpu *d = dev;
    pruned_job job = { d->k, y, mask, x, w, (x.c + PIECE - 1) / PIECE };
    int items = zn_items(zn_pixels(x), PIXELS) * job.n_pieces;

    if (w->scale)
        zn_pool_run(d->pool, mask_item, &job, items);
    if (w->weight)
        zn_pool_run(d->pool, pruned_item, &job, items);
}
