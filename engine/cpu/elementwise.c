/* SPDX-License-Identifier: MIT */
/* elementwise.c - map, binary, fill, softmax: operations that look at one pixel at a time.
 *
 * When no tensor has gaps between pixels, an item is one long row; otherwise it is a row per pixel. */
#include <string.h>

#include "device.h"

enum { ITEM = 1 << 15 }; /* floats per item: fits in L2 with its operands */

typedef struct pixel_job {
    const zn_kernels *k;
    zn_tensor y, a, b;
    zn_binary op;
    zn_tail t;
    const float *value;
    size_t n_rows, len, per_item; /* rows of len floats */
} pixel_job;

static bool dense(zn_tensor t)
{
    return t.ld == t.c;
}

/* Cuts the tensors of a job into rows and runs them. */
static void run(zn_cpu *d, zn_task *task, pixel_job *job, bool whole)
{
    job->k = d->k;
    job->n_rows = zn_pixels(job->y);
    job->len = (size_t)job->y.c;
    if (whole) {
        size_t total = job->n_rows * job->len;

        job->len = total < ITEM ? total : ITEM;
        job->n_rows = (total + ITEM - 1) / ITEM;
    }
    job->per_item = job->len < ITEM ? ITEM / job->len : 1;
    zn_pool_run(d->pool, task, job, zn_items(job->n_rows, job->per_item));
}

/* The row r of a tensor: of `dense` ones all rows but the last are ITEM floats. */
static float *row_at(zn_tensor t, const pixel_job *job, size_t r)
{
    return t.data + r * (job->len == (size_t)t.c ? (size_t)t.ld : job->len);
}

static size_t row_len(const pixel_job *job, size_t r)
{
    size_t total = zn_pixels(job->y) * (size_t)job->y.c;

    return job->len == (size_t)job->y.c || (r + 1) * job->len <= total ? job->len : total - r * job->len;
}

static size_t end_row(const pixel_job *job, int item)
{
    size_t end = ((size_t)item + 1) * job->per_item;

    return end < job->n_rows ? end : job->n_rows;
}

static void map_item(void *cookie, int item, int worker)
{
    const pixel_job *job = cookie;

    (void)worker;
    for (size_t r = (size_t)item * job->per_item; r < end_row(job, item); r++)
        job->k->map(row_at(job->y, job, r), row_at(job->a, job, r), NULL, NULL,
                    job->t.residual ? row_at(*job->t.residual, job, r) : NULL, row_len(job, r), &job->t);
}

void zn_cpu_map(void *dev, zn_tensor y, zn_tensor x, zn_tail t)
{
    pixel_job job = { .y = y, .a = x, .t = zn_cpu_tail(t) };

    run(dev, map_item, &job, dense(y) && dense(x) && (!t.residual || dense(*t.residual)));
}

static void binary_item(void *cookie, int item, int worker)
{
    const pixel_job *job = cookie;

    (void)worker;
    for (size_t r = (size_t)item * job->per_item; r < end_row(job, item); r++)
        job->k->binary(row_at(job->y, job, r), row_at(job->a, job, r), row_at(job->b, job, r),
                       job->t.residual ? row_at(*job->t.residual, job, r) : NULL, row_len(job, r), job->op, &job->t);
}

void zn_cpu_binary(void *dev, zn_tensor y, zn_tensor a, zn_tensor b, zn_binary op, zn_tail t)
{
    pixel_job job = { .y = y, .a = a, .b = b, .op = op, .t = zn_cpu_tail(t) };

    run(dev, binary_item, &job, dense(y) && dense(a) && dense(b) && (!t.residual || dense(*t.residual)));
}

static void fill_item(void *cookie, int item, int worker)
{
    const pixel_job *job = cookie;

    (void)worker;
    for (size_t r = (size_t)item * job->per_item; r < end_row(job, item); r++)
        memcpy(row_at(job->y, job, r), job->value, job->len * sizeof(float));
}

void zn_cpu_fill(void *dev, zn_tensor y, const float *value)
{
    pixel_job job = { .y = y, .value = value };

    run(dev, fill_item, &job, false);
}

static void softmax_item(void *cookie, int item, int worker)
{
    const pixel_job *job = cookie;
    const zn_kernels *k = job->k;

    (void)worker;
    for (size_t r = (size_t)item * job->per_item; r < end_row(job, item); r++) {
        const float *x = row_at(job->a, job, r);
        float *y = row_at(job->y, job, r);
        zn_tail t = { .gain = 1 };

        t.gain = 1 / k->exp_sum(y, x, k->maximum(x, job->len), job->len);
        k->map(y, y, NULL, NULL, NULL, job->len, &t);
    }
}

void zn_cpu_softmax(void *dev, zn_tensor y, zn_tensor x)
{
    pixel_job job = { .y = y, .a = x };

    run(dev, softmax_item, &job, false);
}
