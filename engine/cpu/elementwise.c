/* SPDX-License-Identifier: MIT */
/* elementwise.c - map, binary, step, fill, rope, lookup: operations on one pixel at a time.
 *
 * If no tensor has gaps between pixels, rows are pieces of ITEM floats of the whole tensor; otherwise a row is a
 * pixel. */
#include <math.h>
#include <string.h>

#include "device.h"

enum { ITEM = 1 << 15, SPREAD = 1024 }; /* floats per item, which fit in L2 with their operands; of a repeated value */

typedef struct pixel_job {
    zn_cpu *d;
    const zn_kernels *k;
    zn_tensor y, a, b;
    zn_binary op;
    zn_tail t;
    const float *value; /* [c] of fill, [ZN_STEP_COEFS] of step */
    float clip;
    const zn_rope *rope;
    size_t n_rows, len, per_item; /* rows of len floats */
    size_t image;                 /* pixels of an image */
} pixel_job;

static bool dense(zn_tensor t)
{
    return t.ld == t.c;
}

/* Splits the tensors of a job into rows and runs them. */
static void run(zn_cpu *d, zn_task *task, pixel_job *job, bool whole)
{
    job->d = d;
    job->k = d->k;
    job->n_rows = zn_pixels(job->y);
    job->len = (size_t)job->y.c;
    job->image = (size_t)job->y.h * (size_t)job->y.w;
    if (whole) {
        size_t total = job->n_rows * job->len;

        job->len = total < ITEM ? total : ITEM;
        job->n_rows = (total + ITEM - 1) / ITEM;
    }
    job->per_item = job->len < ITEM ? ITEM / job->len : 1;
    zn_pool_run(d->pool, task, job, zn_items(job->n_rows, job->per_item));
}

/* Row r of a tensor; of a dense one all rows but the last have ITEM floats. */
static float *row_at(zn_tensor t, const pixel_job *job, size_t r)
{
    return t.data + r * (job->len == (size_t)t.c ? (size_t)t.ld : job->len);
}

static const float *residual_at(const pixel_job *job, size_t r)
{
    return job->t.residual ? row_at(*job->t.residual, job, r) : NULL;
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

#define FOR_ROWS for (size_t r = (size_t)item * job->per_item; r < end_row(job, item); r++)

/* ---- map ------------------------------------------------------------------------------------------------- */

static void map_item(void *cookie, int item, int worker)
{
    const pixel_job *job = cookie;

    (void)worker;
    FOR_ROWS
    {
        job->k->map(row_at(job->y, job, r), row_at(job->a, job, r), NULL, NULL, residual_at(job, r), row_len(job, r),
                    &job->t);
    }
}

void zn_cpu_round(void *y, zn_type type, const float *x, size_t n)
{
    uint16_t *to = y;

    if (type == ZN_F32)
        memcpy(y, x, n * sizeof *x);
    for (size_t i = 0; i < n && type != ZN_F32; i++)
        to[i] = type == ZN_F16 ? zn_to_f16(x[i]) : zn_to_bf16(x[i]);
}

void zn_cpu_widen(float *y, const void *x, zn_type type, size_t n)
{
    const uint16_t *from = x;

    if (type == ZN_F32)
        memcpy(y, x, n * sizeof *y);
    for (size_t i = 0; i < n && type != ZN_F32; i++)
        y[i] = type == ZN_F16 ? zn_from_f16(from[i]) : zn_from_bf16(from[i]);
}

/* Pixel r of a tensor, n channels from c on, in `room`. */
static const float *widened(float *room, const zn_tensor *t, size_t r, size_t c, size_t n)
{
    if (t)
        zn_cpu_widen(room, (const char *)t->data + (r * (size_t)t->ld + c) * zn_type_size(t->type), t->type, n);
    return t ? room : NULL;
}

/* The same where a tensor has 16 bits: SPREAD channels of a pixel at a time. */
static void map16_item(void *cookie, int item, int worker)
{
    const pixel_job *job = cookie;
    float *x = zn_cpu_scratch(job->d, worker), *res = x + SPREAD;
    const zn_tensor y = job->y;

    FOR_ROWS
    {
        for (size_t c = 0, n; c < job->len; c += n) {
            n = job->len - c < SPREAD ? job->len - c : SPREAD;
            job->k->map(x, widened(x, &job->a, r, c, n), NULL, NULL, widened(res, job->t.residual, r, c, n), n,
                        &job->t);
            zn_cpu_round((char *)y.data + (r * (size_t)y.ld + c) * zn_type_size(y.type), y.type, x, n);
        }
    }
}

static void copy_item(void *cookie, int item, int worker)
{
    const pixel_job *job = cookie;
    const size_t size = zn_type_size(job->y.type);

    (void)worker;
    FOR_ROWS
    memcpy((char *)job->y.data + r * job->len * size, (const char *)job->a.data + r * job->len * size,
           row_len(job, r) * size);
}

void zn_cpu_map(void *dev, zn_tensor y, zn_tensor x, zn_tail t)
{
    pixel_job job = { .y = y, .a = x, .t = zn_cpu_tail(t) };

    if (y.type == x.type && dense(y) && dense(x) && y.data != x.data && !t.pre && !t.post && !t.residual &&
        job.t.gain == 1) {
        run(dev, copy_item, &job, true);
        return;
    }
    if (y.type != ZN_F32 || x.type != ZN_F32 || (t.residual && t.residual->type != ZN_F32)) {
        run(dev, map16_item, &job, false);
        return;
    }
    run(dev, map_item, &job, dense(y) && dense(x) && (!t.residual || dense(*t.residual)));
}

/* ---- binary ---------------------------------------------------------------------------------------------- */

static void binary_item(void *cookie, int item, int worker)
{
    const pixel_job *job = cookie;

    (void)worker;
    FOR_ROWS
    {
        job->k->binary(row_at(job->y, job, r), row_at(job->a, job, r), row_at(job->b, job, r), residual_at(job, r),
                       row_len(job, r), job->op, &job->t);
    }
}

/* b is one vector for each image: a row is a pixel. */
static void binary_vector_item(void *cookie, int item, int worker)
{
    const pixel_job *job = cookie;

    (void)worker;
    FOR_ROWS
    {
        job->k->binary(row_at(job->y, job, r), row_at(job->a, job, r), job->b.data + r / job->image * (size_t)job->b.ld,
                       residual_at(job, r), job->len, job->op, &job->t);
    }
}

/* b is one value for a row: for each pixel, or for all of them (b.w is 1 then). */
static void binary_value_item(void *cookie, int item, int worker)
{
    const pixel_job *job = cookie;
    float *spread = zn_cpu_scratch(job->d, worker);

    FOR_ROWS
    {
        const float value = job->b.data[zn_pixels(job->b) == 1 ? 0 : r * (size_t)job->b.ld];
        const float *a = row_at(job->a, job, r), *res = residual_at(job, r);
        const size_t len = row_len(job, r);
        float *y = row_at(job->y, job, r);

        for (size_t i = 0; i < len && i < SPREAD; i++)
            spread[i] = value;
        for (size_t i = 0; i < len; i += SPREAD)
            job->k->binary(y + i, a + i, spread, res ? res + i : NULL, len - i < SPREAD ? len - i : SPREAD, job->op,
                           &job->t);
    }
}

void zn_cpu_binary(void *dev, zn_tensor y, zn_tensor a, zn_tensor b, zn_binary op, zn_tail t)
{
    pixel_job job = { .y = y, .a = a, .b = b, .op = op, .t = zn_cpu_tail(t) };
    const bool gaps = !dense(y) || !dense(a) || (t.residual && !dense(*t.residual));
    const bool every_pixel = zn_pixels(b) == zn_pixels(y), one = zn_pixels(b) == 1;

    if (b.c == y.c && every_pixel)
        run(dev, binary_item, &job, !gaps && dense(b));
    else if (b.c == y.c && b.n == y.n && !(one && b.c == 1))
        run(dev, binary_vector_item, &job, false);
    else
        run(dev, binary_value_item, &job, one && !gaps);
}

/* ---- step ------------------------------------------------------------------------------------------------ */

static void step_item(void *cookie, int item, int worker)
{
    const pixel_job *job = cookie;

    (void)worker;
    FOR_ROWS
    {
        job->k->step(row_at(job->y, job, r), row_at(job->a, job, r), row_at(job->b, job, r), job->value, job->clip,
                     row_len(job, r));
    }
}

void zn_cpu_step(void *dev, zn_tensor y, zn_tensor x, zn_tensor p, zn_tensor coefs, float clip)
{
    pixel_job job = { .y = y, .a = x, .b = p, .value = coefs.data, .clip = clip > 0 ? clip : INFINITY };

    run(dev, step_item, &job, dense(y) && dense(x) && dense(p));
}

/* ---- fill, rope, lookup ---------------------------------------------------------------------------------- */

static void fill_item(void *cookie, int item, int worker)
{
    const pixel_job *job = cookie;

    (void)worker;
    FOR_ROWS
    {
        memcpy(row_at(job->y, job, r), job->value, job->len * sizeof(float));
    }
}

void zn_cpu_fill(void *dev, zn_tensor y, const float *value)
{
    pixel_job job = { .y = y, .value = value };

    run(dev, fill_item, &job, false);
}

static void rope_item(void *cookie, int item, int worker)
{
    const pixel_job *job = cookie;
    const zn_rope *w = job->rope;
    const int dim = job->y.c / w->heads;

    (void)worker;
    FOR_ROWS
    {
        const size_t position = r % job->image;
        const float *cos = w->cos.data + position * (size_t)w->cos.ld;
        const float *sin = w->sin.data + position * (size_t)w->sin.ld;

        for (int c = 0; c < job->y.c; c += dim)
            job->k->rope(row_at(job->y, job, r) + c, row_at(job->a, job, r) + c, cos, sin, dim / 2, w->interleaved);
    }
}

void zn_cpu_rope(void *dev, zn_tensor y, zn_tensor x, const zn_rope *w)
{
    pixel_job job = { .y = y, .a = x, .rope = w };

    run(dev, rope_item, &job, false);
}

static void lookup_item(void *cookie, int item, int worker)
{
    const pixel_job *job = cookie;
    const zn_tensor table = job->a;

    (void)worker;
    FOR_ROWS
    {
        const float index = job->b.data[r * (size_t)job->b.ld];
        const bool there = index >= 0 && index < (float)table.w;
        const size_t from = there ? (size_t)index * (size_t)table.ld : 0;
        const uint16_t *half = (const uint16_t *)(const void *)table.data + from;
        float *y = row_at(job->y, job, r);

        if (!there)
            memset(y, 0, job->len * sizeof *y);
        else if (table.type == ZN_F32)
            memcpy(y, table.data + from, job->len * sizeof *y);
        else
            for (size_t i = 0; i < job->len; i++)
                y[i] = table.type == ZN_F16 ? zn_from_f16(half[i]) : zn_from_bf16(half[i]);
    }
}

void zn_cpu_lookup(void *dev, zn_tensor y, zn_tensor table, zn_tensor index)
{
    pixel_job job = { .y = y, .a = table, .b = index };

    run(dev, lookup_item, &job, false);
}
