/* SPDX-License-Identifier: MIT */
/* shrink.c - area means, see shrink.h.
 *
 *   row of the picture ── -1..1 ── weighted sum of rows ── complete? ── weighted sums of its pixels ── row of y
 *
 * Rows are added up before pixels are: that loop is contiguous.  Threads share the columns. */
#include "shrink.h"

#include "../core/ints.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct span { /* the pixels that fall on a column */
    int first, n;
    float head, tail; /* weights of the first and of the last; tail is 0 if there is one */
} span;

typedef struct part { /* columns that one thread computes */
    int from, to;     /* columns of y */
    int first, n;     /* columns of the picture */
    float *sum;       /* [n][3] of row k */
} part;

struct zn_shrink {
    int rows, columns, h, w, n_parts;
    int y, k;   /* the next row of the picture; the row of the result that it falls on first */
    float each; /* weight of the pixels inside a span */
    span *span;
    part *part;
    float *sums;
};

typedef struct job {
    zn_shrink *s;
    float *y;
    const float *x;
    size_t ld;
    int n;
} job;

static void make_spans(zn_shrink *s)
{
    const double step = (double)s->w / s->columns;

    s->each = (float)(1 / step);
    for (int j = 0; j < s->columns; j++) {
        const double from = j * step, to = fmin(s->w, (j + 1) * step);
        const int first = (int)from, last = zn_imax(first, (int)ceil(to) - 1);

        s->span[j] = (span){ .first = first, .n = last - first + 1, .head = 1 };
        if (last > first) {
            s->span[j].head = (float)((first + 1 - from) / (to - from));
            s->span[j].tail = (float)((to - last) / (to - from));
        }
    }
}

static void make_parts(zn_shrink *s)
{
    float *sum = s->sums;

    for (int i = 0; i < s->n_parts; i++) {
        part *p = &s->part[i];
        const span *last;

        p->from = (int)((int64_t)s->columns * i / s->n_parts);
        p->to = (int)((int64_t)s->columns * (i + 1) / s->n_parts);
        last = &s->span[p->to - 1];
        p->first = s->span[p->from].first;
        p->n = last->first + last->n - p->first;
        p->sum = sum;
        sum += 3 * (size_t)p->n;
    }
}

zn_shrink *zn_shrink_new(int rows, int columns, int h, int w, const zn_pool *pool)
{
    zn_shrink *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    *s = (zn_shrink){ .rows = rows, .columns = columns, .h = h, .w = w };
    s->n_parts = zn_imin(columns, pool ? zn_pool_size(pool) : 1);
    s->span = malloc((size_t)columns * sizeof *s->span);
    s->part = malloc((size_t)s->n_parts * sizeof *s->part);
    s->sums = calloc(3 * ((size_t)w + (size_t)s->n_parts), sizeof *s->sums); /* parts may share a pixel */
    if (!s->span || !s->part || !s->sums) {
        zn_shrink_free(&s);
        return NULL;
    }
    make_spans(s);
    make_parts(s);
    return s;
}

void zn_shrink_free(zn_shrink **s)
{
    if (*s) {
        free((*s)->span);
        free((*s)->part);
        free((*s)->sums);
    }
    free(*s);
    *s = NULL;
}

/* sum += weight * (2 x - 1), within -1..1; -1 for NaN. */
static void add_row(float *restrict sum, const float *restrict x, size_t n, float weight)
{
    for (size_t i = 0; i < n; i++) {
        float v = 2 * x[i] - 1;

        v = v < 1 ? v : 1;
        v = x[i] >= 0 ? v : -1;
        sum[i] += weight * v;
    }
}

static void shrink_row(float *restrict y, const zn_shrink *s, const part *p)
{
    for (int j = p->from; j < p->to; j++) {
        const span a = s->span[j];
        const float *x = p->sum + 3 * (size_t)(a.first - p->first), *last = x + 3 * (size_t)(a.n - 1);
        float inner[3] = { 0, 0, 0 };

        for (const float *at = x + 3; at < last; at += 3)
            for (int c = 0; c < 3; c++)
                inner[c] += at[c];
        for (int c = 0; c < 3; c++)
            y[3 * (size_t)j + (size_t)c] = a.head * x[c] + a.tail * last[c] + s->each * inner[c];
    }
}

static void shrink_part(void *cookie, int item, int worker)
{
    const job *b = cookie;
    const zn_shrink *s = b->s;
    const part *p = &s->part[item];
    const double step = (double)s->h / s->rows;
    const size_t len = 3 * (size_t)p->n;
    int k = s->k;

    (void)worker;
    for (int i = 0; i < b->n; i++) {
        const int y = s->y + i;
        const float *x = b->x + 3 * ((size_t)i * (size_t)s->w + (size_t)p->first);
        bool complete;

        do {
            const double piece = fmin((k + 1) * step, y + 1) - fmax(k * step, y);

            if (piece > 0)
                add_row(p->sum, x, len, (float)(piece / step));
            complete = k + 1 < s->rows ? (k + 1) * step <= y + 1 : y + 1 == s->h;
            if (complete) {
                shrink_row(b->y + (size_t)k * b->ld, s, p);
                memset(p->sum, 0, len * sizeof *p->sum);
                k++;
            }
        } while (complete && k < s->rows);
    }
}

/* The row of the result that row y of the picture falls on first: where shrink_part leaves k. */
static int row_at(const zn_shrink *s, int k)
{
    const double step = (double)s->h / s->rows;

    while (k + 1 < s->rows && (k + 1) * step <= s->y)
        k++;
    return k;
}

void zn_shrink_rows(zn_shrink *s, float *y, size_t ld, const float *x, int n, zn_pool *pool)
{
    job b = { s, y, x, ld, n };

    if (s->n_parts > 1)
        zn_pool_run(pool, shrink_part, &b, s->n_parts);
    else
        shrink_part(&b, 0, 0);
    s->y += n;
    s->k = row_at(s, s->k);
}

void zn_shrink_half(float *y, size_t y_ld, const float *x, size_t x_ld, int rows, int columns)
{
    for (int i = 0; i < rows; i++) {
        const float *a = x + 2 * (size_t)i * x_ld, *b = a + x_ld;
        float *restrict to = y + (size_t)i * y_ld;

        for (int j = 0; j < columns; j++)
            for (int c = 0; c < 3; c++)
                to[3 * j + c] = 0.25f * (a[6 * j + c] + a[6 * j + c + 3] + b[6 * j + c] + b[6 * j + c + 3]);
    }
}
