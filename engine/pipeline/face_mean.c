/* SPDX-License-Identifier: MIT */
/* face_mean.c - means over squares.  Each value is summed in one order, whatever the number of threads. */
#include "face.h"

#include "../core/ints.h"

#include <string.h>

enum { ROWS = 16 /* of an item */, VECTOR = 8 /* what compilers turn into vectors */ };

typedef struct mean { /* of 2 radius + 1 places along an axis; those of the edge are repeated */
    float *dst;       /* [side][side][n] */
    const float *src;
    int side;
    size_t n;
    int radius;
} mean;

static void add(float *restrict dst, const float *restrict src, size_t n)
{
    size_t i = 0;

    for (; i + VECTOR <= n; i += VECTOR)
        for (size_t k = 0; k < VECTOR; k++)
            dst[i + k] += src[i + k];
    for (; i < n; i++)
        dst[i] += src[i];
}

static void across(const mean *m, int y)
{
    const size_t n = m->n, row = (size_t)m->side * n;
    const float *src = m->src + (size_t)y * row, *end = src + row - n;
    float *dst = m->dst + (size_t)y * row;

    for (int k = -m->radius; k <= m->radius; k++) {
        const int first = zn_imin(zn_imax(-k, 0), m->side), last = zn_imax(zn_imin(m->side - k, m->side), first);

        for (int x = 0; x < first; x++)
            add(dst + (size_t)x * n, src, n);
        if (last > first)
            add(dst + (size_t)first * n, src + (size_t)(first + k) * n, (size_t)(last - first) * n);
        for (int x = last; x < m->side; x++)
            add(dst + (size_t)x * n, end, n);
    }
}

static void down(const mean *m, int y)
{
    const size_t row = (size_t)m->side * m->n;

    for (int k = y - m->radius; k <= y + m->radius; k++)
        add(m->dst + (size_t)y * row, m->src + (size_t)zn_imin(zn_imax(k, 0), m->side - 1) * row, row);
}

static void mean_rows(const mean *m, int item, void (*sum)(const mean *m, int y))
{
    const int from = item * ROWS, to = zn_imin(from + ROWS, m->side);
    const size_t row = (size_t)m->side * m->n, start = (size_t)from * row, end = (size_t)to * row;

    memset(m->dst + start, 0, (end - start) * sizeof *m->dst);
    for (int y = from; y < to; y++)
        sum(m, y);
    for (size_t i = start; i < end; i++)
        m->dst[i] /= (float)(2 * m->radius + 1);
}

static void rows_across(void *cookie, int item, int worker)
{
    (void)worker;
    mean_rows(cookie, item, across);
}

static void rows_down(void *cookie, int item, int worker)
{
    (void)worker;
    mean_rows(cookie, item, down);
}

void zn_mean_twice(float *dst, float *scratch, const float *src, int side, size_t n, int radius,
                   const zn_workers *workers)
{
    for (int k = 0; k < 2; k++) {
        zn_workers_loop(workers, rows_across, &(mean){ scratch, k ? dst : src, side, n, radius },
                        zn_ceil_div(side, ROWS));
        zn_workers_loop(workers, rows_down, &(mean){ dst, scratch, side, n, radius }, zn_ceil_div(side, ROWS));
    }
}
