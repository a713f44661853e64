/* SPDX-License-Identifier: MIT */
/* norm.c - group, layer and RMS norm.
 *
 * Group norm takes three passes over an image: sums, sums of squared differences from the mean, and the
 * result.  An image is cut into at most CHUNKS chunks, whatever the number of threads; each one's sums
 * are kept in double precision and added up in order. */
#include <math.h>

#include "device.h"

enum { CHUNKS = 64, STEP = 256 /* pixels per call of `moment` */ };

typedef struct norm_job {
    zn_cpu *d;
    zn_tensor y, x;
    const zn_norm *w;
    zn_tail t;
    size_t first, n_pixels, chunk; /* of an image; of an item */
    double *sum;                   /* [chunk][group] */
    float *mean, *scale, *shift;   /* [c]; mean NULL in the first pass */
} norm_job;

static size_t chunk_end(const norm_job *job, int item)
{
    size_t end = ((size_t)item + 1) * job->chunk;

    return end < job->n_pixels ? end : job->n_pixels;
}

/* ---- layer and RMS ------------------------------------------------------------------------------------ */

static void row_item(void *cookie, int item, int worker)
{
    const norm_job *job = cookie;
    const zn_norm *w = job->w;

    (void)worker;
    for (size_t p = (size_t)item * job->chunk; p < chunk_end(job, item); p++)
        job->d->k->norm_row(job->y.data + p * (size_t)job->y.ld, job->x.data + p * (size_t)job->x.ld, w->gamma, w->beta,
                            zn_residual_at(&job->t, p), job->x.c, w->eps, w->kind == ZN_RMS_NORM, &job->t);
}

/* ---- group ----------------------------------------------------------------------------------------------
 */

/* sum[item][g] = the sum over the pixels of a chunk and the channels of a group */
static void sum_item(void *cookie, int item, int worker)
{
    const norm_job *job = cookie;
    float *row = zn_cpu_scratch(job->d, worker);
    int c = job->x.c, groups = job->w->groups, size = c / groups;
    double *sum = job->sum + (size_t)item * (size_t)groups;
    size_t end = chunk_end(job, item);

    for (int g = 0; g < groups; g++)
        sum[g] = 0;
    for (size_t p = (size_t)item * job->chunk; p < end; p += STEP) {
        job->d->k->moment(row, job->x.data + (job->first + p) * (size_t)job->x.ld, (size_t)job->x.ld,
                          (int)(end - p < STEP ? end - p : STEP), c, job->mean);
        for (int i = 0; i < c; i++)
            sum[i / size] += row[i];
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

/* The sum of group g over all chunks, divided by the number of its elements. */
static double group_mean(const norm_job *job, int n_chunks, int g)
{
    double sum = 0;

    for (int i = 0; i < n_chunks; i++)
        sum += job->sum[(size_t)i * (size_t)job->w->groups + (size_t)g];
    return sum / ((double)job->n_pixels * (job->x.c / job->w->groups));
}

static void group_norm(norm_job *job)
{
    const zn_norm *w = job->w;
    int c = job->x.c, size = c / w->groups, n = zn_items(job->n_pixels, job->chunk);
    float *mean = job->mean;

    job->mean = NULL;
    zn_pool_run(job->d->pool, sum_item, job, n);
    for (int i = 0; i < c; i++)
        mean[i] = i % size ? mean[i - 1] : (float)group_mean(job, n, i / size);
    job->mean = mean;
    zn_pool_run(job->d->pool, sum_item, job, n);
    for (int i = 0; i < c; i++) {
        /* gamma is applied below: until then the scale is the same for a group */
        job->scale[i] = i % size ? job->scale[i - 1] : (float)(1 / sqrt(group_mean(job, n, i / size) + w->eps));
    }
    for (int i = 0; i < c; i++) {
        job->scale[i] *= w->gamma ? w->gamma[i] : 1;
        job->shift[i] = (w->beta ? w->beta[i] : 0) - mean[i] * job->scale[i];
    }
    zn_pool_run(job->d->pool, apply_item, job, n);
}

void zn_cpu_norm(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w, zn_tail t)
{
    norm_job job = { .d = dev, .y = y, .x = x, .w = w, .t = zn_cpu_tail(t) };

    if (w->kind != ZN_GROUP_NORM) {
        job.n_pixels = zn_pixels(x);
        job.chunk = 1 + 32768 / (size_t)x.c;
        zn_pool_run(job.d->pool, row_item, &job, zn_items(job.n_pixels, job.chunk));
        return;
    }
    assert(x.c <= ZN_CPU_MAX_C);
    job.n_pixels = (size_t)x.h * (size_t)x.w;
    job.mean = job.d->shared;
    job.scale = job.mean + x.c;
    job.shift = job.scale + x.c;
    job.sum = (double *)(void *)(job.mean + (3 * (size_t)x.c + 1) / 2 * 2);
    {
        size_t room = (ZN_SCRATCH - 16 * (size_t)ZN_CPU_MAX_C) / sizeof(double);
        size_t chunks = room / (size_t)w->groups < CHUNKS ? room / (size_t)w->groups : CHUNKS;

        job.chunk = (job.n_pixels + chunks - 1) / chunks;
    }
    if (job.chunk < STEP)
        job.chunk = STEP;
    for (int n = 0; n < x.n; n++, job.first += job.n_pixels)
        group_norm(&job);
}
