/* SPDX-License-Identifier: MIT */
/* norm.c - group, layer and RMS norm, with or without run-time scale, shift and gate.
 *
 * Group norm reads an image twice: once for mean and variance, once for the result.  An image is split into at most
 * CHUNKS chunks, whatever the number of threads.  A worker processes its chunk in steps that fit in the cache, because
 * it reads each step twice: for the sum, then for the squared differences from the step's mean.  Steps and chunks are
 * merged in order, in double precision (Chan et al. 1979), so that nothing cancels.
 *
 *     mean = mean_a + d n_b / n,  m2 = m2_a + m2_b + d^2 n_a n_b / n,  d = mean_b - mean_a,  n = n_a + n_b */
#include <math.h>

#include "device.h"

enum {
    CHUNKS = 64,
    STEP = 256,         /* pixels of a step at most: the limit of `moment` ... */
    STEP_LEN = 1 << 15, /* ... and floats, which fit in L2 */
};

typedef struct moments {
    double n, mean, m2; /* m2: the sum of squared differences from the mean */
} moments;

typedef struct norm_job {
    zn_cpu *d;
    zn_tensor y, x;
    const zn_norm *w;
    zn_tail t;
    size_t first;               /* pixel of the image */
    size_t n_pixels, chunk;     /* of the image; of an item */
    size_t step;                /* pixels */
    moments *part;              /* [chunk][group] */
    const float *scale, *shift; /* [c] */
} norm_job;

static size_t chunk_end(const norm_job *job, int item)
{
    size_t end = ((size_t)item + 1) * job->chunk;

    return end < job->n_pixels ? end : job->n_pixels;
}

/* scale and shift of image n, of c channels, become those of (N(x) * (1 + m->scale) + m->shift) * m->gate. */
static void modulate(float *scale, float *shift, int c, const zn_modulation *m, int n)
{
    const float *a = m && m->scale.data ? m->scale.data + (size_t)n * (size_t)m->scale.ld : NULL;
    const float *b = m && m->shift.data ? m->shift.data + (size_t)n * (size_t)m->shift.ld : NULL;
    const float *gate = m && m->gate.data ? m->gate.data + (size_t)n * (size_t)m->gate.ld : NULL;

    for (int i = 0; i < c; i++) {
        float s = 1 + (a ? a[i] : 0), g = gate ? gate[i] : 1;

        scale[i] *= s * g;
        shift[i] = (shift[i] * s + (b ? b[i] : 0)) * g;
    }
}

/* ---- layer and RMS ------------------------------------------------------------------------------------ */

static void row_item(void *cookie, int item, int worker)
{
    const norm_job *job = cookie;
    const zn_norm *w = job->w;

    (void)worker;
    for (size_t i = (size_t)item * job->chunk; i < chunk_end(job, item); i++) {
        size_t p = job->first + i;

        job->d->k->norm_row(job->y.data + p * (size_t)job->y.ld, job->x.data + p * (size_t)job->x.ld, job->scale,
                            job->shift, zn_residual_at(&job->t, p), job->x.c, w->eps, w->kind == ZN_RMS_NORM, &job->t);
    }
}

static void row_norm(norm_job *job, const zn_modulation *m)
{
    const zn_norm *w = job->w;
    const int c = job->x.c;
    float *scale = job->d->shared, *shift = scale + c;

    job->chunk = 1 + 32768 / (size_t)c;
    if (!m) {
        job->n_pixels = zn_pixels(job->x);
        job->scale = w->gamma;
        job->shift = w->beta;
        zn_pool_run(job->d->pool, row_item, job, zn_items(job->n_pixels, job->chunk));
        return;
    }
    job->n_pixels = (size_t)job->x.h * (size_t)job->x.w;
    job->scale = scale;
    job->shift = shift;
    for (int n = 0; n < job->x.n; n++, job->first += job->n_pixels) {
        for (int i = 0; i < c; i++) {
            scale[i] = w->gamma ? w->gamma[i] : 1;
            shift[i] = w->beta ? w->beta[i] : 0;
        }
        modulate(scale, shift, c, m, n);
        zn_pool_run(job->d->pool, row_item, job, zn_items(job->n_pixels, job->chunk));
    }
}

/* ---- group ---------------------------------------------------------------------------------------------- */

static void merge(moments *a, moments b)
{
    double n = a->n + b.n, d = b.mean - a->mean;

    a->mean += d * b.n / n;
    a->m2 += b.m2 + d * d * a->n * b.n / n;
    a->n = n;
}

/* sums[i] of the channels of each group, added up to of[g] */
static void add_channels(double *of, const float *sums, int groups, int size)
{
    for (int g = 0; g < groups; g++, sums += size) {
        double sum = 0;

        for (int i = 0; i < size; i++)
            sum += sums[i];
        of[g] = sum;
    }
}

/* part[item][g] of a chunk of pixels */
static void moments_item(void *cookie, int item, int worker)
{
    const norm_job *job = cookie;
    const int c = job->x.c, groups = job->w->groups, size = c / groups;
    const size_t end = chunk_end(job, item);
    double *of = zn_cpu_scratch(job->d, worker); /* [groups] */
    float *sums = (float *)(void *)(of + groups), *mean = sums + c;
    moments *part = job->part + (size_t)item * (size_t)groups;

    for (int g = 0; g < groups; g++)
        part[g] = (moments){ 0, 0, 0 };
    for (size_t p = (size_t)item * job->chunk; p < end; p += job->step) {
        const int pixels = (int)(end - p < job->step ? end - p : job->step);
        const float *x = job->x.data + (job->first + p) * (size_t)job->x.ld;
        const double n = (double)pixels * size;

        job->d->k->moment(sums, x, (size_t)job->x.ld, pixels, c, NULL);
        add_channels(of, sums, groups, size);
        for (int i = 0; i < c; i++)
            mean[i] = (float)(of[i / size] / n);
        job->d->k->moment(sums, x, (size_t)job->x.ld, pixels, c, mean);
        for (int g = 0; g < groups; g++) {
            moments b = { n, of[g] / n, 0 };
            double d = b.mean - mean[g * size]; /* the squares are of differences from the rounded mean */

            for (int i = g * size; i < (g + 1) * size; i++)
                b.m2 += sums[i];
            b.m2 -= n * d * d;
            merge(&part[g], b);
        }
    }
}

static void apply_item(void *cookie, int item, int worker)
{
    const norm_job *job = cookie;

    (void)worker;
    for (size_t p = (size_t)item * job->chunk; p < chunk_end(job, item); p++)
        job->d->k->map(job->y.data + (job->first + p) * (size_t)job->y.ld,
                       job->x.data + (job->first + p) * (size_t)job->x.ld, job->scale, job->shift,
                       zn_residual_at(&job->t, job->first + p), (size_t)job->x.c, &job->t);
}

/* gamma and beta of N(x) = x * gamma + beta for an image: what multiplies and what is added. */
static void group_scale(norm_job *job, float *scale, float *shift)
{
    const zn_norm *w = job->w;
    const int size = job->x.c / w->groups, items = zn_items(job->n_pixels, job->chunk);

    zn_pool_run(job->d->pool, moments_item, job, items);
    for (int g = 0; g < w->groups; g++) {
        moments all = job->part[g];
        float inv;

        for (int i = 1; i < items; i++)
            merge(&all, job->part[(size_t)i * (size_t)w->groups + (size_t)g]);
        inv = (float)(1 / sqrt(fmax(all.m2 / all.n, 0) + w->eps));
        for (int i = g * size; i < (g + 1) * size; i++) {
            scale[i] = inv * (w->gamma ? w->gamma[i] : 1);
            shift[i] = (w->beta ? w->beta[i] : 0) - (float)all.mean * scale[i];
        }
    }
}

/* An image, or one of several, in chunks of pixels; for the moments of `groups` groups. */
static norm_job group_job(zn_cpu *d, zn_tensor x, const zn_norm *w, int groups)
{
    const size_t vectors = 2 * (size_t)x.c * sizeof(float), step = 1 + STEP_LEN / (size_t)x.c;
    const size_t room = (ZN_SCRATCH - vectors) / (sizeof(moments) * (size_t)groups),
                 chunks = room < CHUNKS ? room : CHUNKS;
    norm_job job = { .d = d,
                     .x = x,
                     .w = w,
                     .n_pixels = (size_t)x.h * (size_t)x.w,
                     .step = step < STEP ? step : STEP,
                     .part = (moments *)(void *)((char *)d->shared + vectors) };

    job.chunk = (job.n_pixels + chunks - 1) / chunks;
    if (job.chunk < job.step)
        job.chunk = job.step;
    return job;
}

void zn_cpu_group_scales(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w)
{
    norm_job job = group_job(dev, x, w, w->groups);

    assert(x.c <= ZN_CPU_MAX_C);
    group_scale(&job, y.data, y.data + y.ld);
}

void zn_cpu_norm(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w, const zn_modulation *m, zn_tail t)
{
    const bool scaled = w->kind == ZN_SCALED;
    norm_job job = group_job(dev, x, w, w->kind == ZN_GROUP_NORM ? w->groups : 1);
    float *scale = job.d->shared, *shift = scale + x.c;

    assert(x.c <= ZN_CPU_MAX_C);
    job.y = y;
    job.t = zn_cpu_tail(t);
    if (w->kind != ZN_GROUP_NORM && !scaled) {
        row_norm(&job, m);
        return;
    }
    job.scale = scaled ? w->gamma : scale;
    job.shift = scaled ? w->beta : shift;
    for (int n = 0; n < x.n; n++, job.first += job.n_pixels) {
        if (!scaled)
            group_scale(&job, scale, shift);
        if (m)
            modulate(scale, shift, x.c, m, n);
        zn_pool_run(job.d->pool, apply_item, &job, zn_items(job.n_pixels, job.chunk));
    }
}
