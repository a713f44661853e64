/* SPDX-License-Identifier: MIT */
#include "pixels.h"

#include "../core/ints.h"

typedef struct place {
    int n, i, j; /* an output pixel */
} place;

static place place_of(zn_tensor y, size_t p)
{
    size_t row = p / (size_t)y.w;

    return (place){ (int)(row / (size_t)y.h), (int)(row % (size_t)y.h), (int)(p % (size_t)y.w) };
}

static place next_place(zn_tensor y, place a)
{
    if (++a.j == y.w) {
        a.j = 0;
        if (++a.i == y.h) {
            a.i = 0;
            a.n++;
        }
    }
    return a;
}

/* to[tap * step] = the input pixel that tap reads for output a. */
static void point(const float **to, int step, const zn_conv_job *job, place a)
{
    const zn_conv *w = job->w;
    zn_tensor x = job->x;
    int shift = w->up2 ? 1 : 0;
    int top = a.i * w->stride - w->pad_t, left = a.j * w->stride - w->pad_l;
    const ptrdiff_t each = (ptrdiff_t)zn_type_size(x.type) * x.ld;
    const char *image = zn_cpu_pixel(x, (size_t)a.n * (size_t)x.h * (size_t)x.w);

    for (int u = 0; u < w->kh; u++) {
        int yy = top + u;
        const char *row = image + (ptrdiff_t)(yy >> shift) * x.w * each;

        if (yy >= 0 && yy < x.h << shift && left >= 0 && left + w->kw <= x.w << shift) {
            for (int v = 0; v < w->kw; v++, to += step)
                *to = (const float *)(const void *)(row + (ptrdiff_t)((left + v) >> shift) * each);
            continue;
        }
        for (int v = 0; v < w->kw; v++, to += step) {
            int xx = left + v;

            *to = yy < 0 || yy >= x.h << shift || xx < 0 || xx >= x.w << shift
                ? job->d->zeros
                : (const float *)(const void *)(row + (ptrdiff_t)(xx >> shift) * each);
        }
    }
}

/* Pixels from `first` on; the last tile repeats the last one. */
static void point_on(const float **to, zn_tensor t, size_t first, int n, int mr)
{
    const char *const from = zn_cpu_pixel(t, first);
    const ptrdiff_t each = (ptrdiff_t)zn_type_size(t.type) * t.ld;

    for (int r = 0; r < n; r++)
        to[r] = (const float *)(const void *)(from + r * each);
    for (int r = n; r < zn_round_up(n, mr); r++)
        to[r] = to[n - 1];
}

static zn_pixel_table make_table(const zn_conv_job *job, int worker, size_t first, int n, int block, int taps)
{
    int mr = job->d->k->mr;
    zn_tensor y = job->y;
    zn_pixel_table tb;

    assert(taps <= ZN_MAX_TAPS && n <= block);
    tb.x = zn_cpu_scratch(job->d, worker);
    tb.y = (float **)(void *)(tb.x + taps * block);
    tb.res = (const float **)(void *)(tb.y + block);
    tb.rest = (void *)(tb.res + block);
    point_on((const float **)(void *)tb.y, y, first, n, mr);
    if (job->t.residual)
        point_on(tb.res, *job->t.residual, first, n, mr);
    else
        tb.res = NULL;
    return tb;
}

/* Whether mr output pixels from a on lie in one row, and all that they read inside the picture, pixel by pixel. */
static bool is_inside(const zn_conv_job *job, place a, int mr)
{
    const zn_conv *w = job->w;
    const zn_tensor x = job->x;
    const int top = a.i * w->stride - w->pad_t, left = a.j * w->stride - w->pad_l;

    return !w->up2 && a.j + mr <= job->y.w && top >= 0 && top + w->kh <= x.h && left >= 0 &&
        left + (mr - 1) * w->stride + w->kw <= x.w;
}

/* The taps of such pixels: all pointers are the first one's, some bytes further. */
static void point_tile(const float **to, int mr, const zn_conv_job *job, place a)
{
    const zn_conv *w = job->w;
    const zn_tensor x = job->x;
    const ptrdiff_t each = (ptrdiff_t)zn_type_size(x.type) * x.ld, apart = w->stride * each;
    const char *row = zn_cpu_pixel(x,
                                   ((size_t)a.n * (size_t)x.h + (size_t)(a.i * w->stride - w->pad_t)) * (size_t)x.w +
                                       (size_t)(a.j * w->stride - w->pad_l));

    for (int u = 0; u < w->kh; u++, row += x.w * each)
        for (int v = 0; v < w->kw; v++)
            for (int r = 0; r < mr; r++)
                *to++ = (const float *)(const void *)(row + v * each + r * apart);
}

zn_pixel_table zn_pixel_table_make(const zn_conv_job *job, int worker, size_t first, int n, int block)
{
    const int mr = job->d->k->mr, taps = job->w->kh * job->w->kw;
    zn_pixel_table tb = make_table(job, worker, first, n, block, taps);
    place a = place_of(job->y, first);

    for (int r = 0; r < n; r += mr) {
        const float **to = tb.x + r * taps;

        if (r + mr <= n && is_inside(job, a, mr)) {
            point_tile(to, mr, job, a);
            a.j += mr - 1;
            a = next_place(job->y, a);
            continue;
        }
        for (int i = 0; i < mr; i++) {
            point(to + i, mr, job, a);
            if (r + i + 1 < n)
                a = next_place(job->y, a);
        }
    }
    return tb;
}

zn_pixel_table zn_pixel_table_gather(const zn_conv_job *job, int worker, size_t first, int n, int block, size_t skip)
{
    int taps = job->w->kh * job->w->kw, cin = job->w->cin;
    zn_pixel_table tb = make_table(job, worker, first, n, block, 1);
    place a = place_of(job->y, first);
    float *to = (float *)tb.rest + skip;

    assert(taps <= ZN_MAX_GATHER);
    for (int r = 0; r < zn_round_up(n, job->d->k->mr); r++) {
        const float *from[ZN_MAX_GATHER];

        tb.x[r] = r < n ? to : tb.x[n - 1];
        if (r >= n)
            continue;
        point(from, 1, job, a);
        for (int t = 0; t < taps; t++)
            for (int c = 0; c < cin; c++)
                *to++ = from[t][c];
        a = next_place(job->y, a);
    }
    return tb;
}
