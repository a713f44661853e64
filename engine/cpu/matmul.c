/* SPDX-License-Identifier: MIT */
/* matmul.c - matrix products, with the GEMM kernel of the convolutions.
 *
 * An item is a block of rows times some panels of NR columns.  For each cut of k, the item's part of b is packed
 * into scratch memory, panel by panel, and used for all rows of the block; rows of a that are not contiguous
 * are packed there too. */
#include <string.h>

#include "matmul.h"

enum {
    ROWS = 480,         /* of a block: a multiple of every MR */
    CUT = 256,          /* of k */
    COLUMNS = 256,      /* of an item at most: long contiguous reads from a row of b */
    FEW_ROWS = 64,      /* below this the time is spent reading b */
    ITEM_MACS = 2 << 20 /* of an item, at least */
};

typedef struct matmul_job {
    zn_cpu *d;
    float *y;
    size_t ldy;
    zn_matrix a, b;
    int m, n, k;
    const float *bias;
    bool add;
    int n_columns, panels; /* items per block; panels per item */
} matmul_job;

typedef struct buffers { /* of a worker, in scratch memory */
    const float **x;     /* [ROWS] */
    float **y;           /* [ROWS] */
    float *a, *b, *acc, *bias;
} buffers;

static buffers make_buffers(const matmul_job *job, int worker)
{
    buffers r;

    r.x = zn_cpu_scratch(job->d, worker);
    r.y = (float **)(void *)(r.x + ROWS + ZN_MAX_MR);
    r.a = (float *)(void *)(r.y + ROWS + ZN_MAX_MR);
    r.b = r.a + (size_t)(ROWS + ZN_MAX_MR) * CUT;
    r.acc = r.b + (size_t)CUT * COLUMNS;
    r.bias = r.acc + (size_t)(ROWS + ZN_MAX_MR) * COLUMNS;
    return r;
}

/* to[i][0 .. n-1] = from(i, 0 .. n-1), rows of `width` floats filled up with zeros. */
static void pack(float *to, int width, zn_matrix from, int rows, int n)
{
    if (from.col == 1) {
        for (int i = 0; i < rows; i++, to += width) {
            memcpy(to, from.data + (size_t)i * from.row, (size_t)n * sizeof *to);
            memset(to + n, 0, (size_t)(width - n) * sizeof *to);
        }
        return;
    }
    for (int i0 = 0; i0 < rows; i0 += 16) { /* reads along columns: a cache line of each at a time */
        int i1 = i0 + 16 < rows ? i0 + 16 : rows;

        for (int j = 0; j < width; j++)
            for (int i = i0; i < i1; i++)
                to[(size_t)i * (size_t)width + (size_t)j] =
                    j < n ? from.data[(size_t)i * from.row + (size_t)j * from.col] : 0;
    }
}

static zn_matrix part(zn_matrix a, size_t i, size_t j)
{
    a.data += i * a.row + j * a.col;
    return a;
}

/* The panels of columns from .. end of one cut, one after the other; the last may have fewer columns. */
static void pack_panels(float *to, zn_matrix b, int cut, int from, int end, int nr, int vl)
{
    const int whole = (end - from) / nr * nr;

    if (b.col == 1) { /* along the rows of b */
        for (int i = 0; i < cut; i++)
            for (int o = 0; o < whole; o += nr)
                memcpy(to + (size_t)o * (size_t)cut + (size_t)i * (size_t)nr,
                       b.data + (size_t)i * b.row + (size_t)(from + o), (size_t)nr * sizeof *to);
    } else {
        for (int o = 0; o < whole; o += nr)
            pack(to + (size_t)o * (size_t)cut, nr, part(b, 0, (size_t)(from + o)), cut, nr);
    }
    if (from + whole < end) {
        int n = end - from - whole;

        pack(to + (size_t)whole * (size_t)cut, (n + vl - 1) / vl * vl, part(b, 0, (size_t)(from + whole)), cut, n);
    }
}

static void run_item(void *cookie, int item, int worker)
{
    const matmul_job *job = cookie;
    const zn_kernels *k = job->d->k;
    buffers r = make_buffers(job, worker);
    int first = item / job->n_columns * ROWS, rows = job->m - first < ROWS ? job->m - first : ROWS;
    int from = item % job->n_columns * job->panels * k->nr, end = from + job->panels * k->nr;
    zn_tail t = { .gain = 1 };

    end = end < job->n ? end : job->n;
    for (int j = 0; j < job->panels * k->nr; j++)
        r.bias[j] = job->bias && from + j < end ? job->bias[from + j] : 0;
    for (int c = 0; c < job->k; c += CUT) {
        int cut = job->k - c < CUT ? job->k - c : CUT;
        zn_matrix a = part(job->a, (size_t)first, (size_t)c);

        if (a.col != 1) {
            pack(r.a, cut, a, rows, cut);
            a = (zn_matrix){ r.a, (size_t)cut, 1 };
        }
        for (int i = 0; i < rows + k->mr; i++) {
            int row = i < rows ? i : rows - 1;

            r.x[i] = a.data + (size_t)row * a.row;
            r.y[i] = job->y + (size_t)(first + row) * job->ldy;
        }
        pack_panels(r.b, part(job->b, (size_t)c, 0), cut, from, end, k->nr, k->vl);
        for (int o = from; o < end; o += k->nr) {
            zn_product g = { .x = r.x,
                             .w = r.b + (size_t)(o - from) * (size_t)cut,
                             .bias = r.bias + (o - from),
                             .y = r.y,
                             .acc = r.acc + (size_t)(o - from) * (size_t)(ROWS + ZN_MAX_MR),
                             .t = &t,
                             .y_off = o,
                             .taps = 1,
                             .k = cut,
                             .rows = rows,
                             .n = end - o < k->nr ? end - o : k->nr,
                             .first = c == 0,
                             .last = c + cut >= job->k };

            if (job->add)
                g.res = (const float *const *)(const void *)r.y;
            k->gemm(&g);
        }
    }
}

/* The formula, a row at a time. */
static void plain_item(void *cookie, int item, int worker)
{
    const matmul_job *job = cookie;
    float *y = job->y + (size_t)item * job->ldy;

    (void)worker;
    for (int j = 0; j < job->n; j++)
        y[j] = (job->add ? y[j] : 0) + (job->bias ? job->bias[j] : 0);
    if (job->b.col != 1 && job->b.row == 1 && job->a.col == 1) { /* rows times rows */
        for (int j = 0; j < job->n; j++) {
            float sum = 0;

            for (int c = 0; c < job->k; c++)
                sum += job->a.data[(size_t)item * job->a.row + (size_t)c] *
                    job->b.data[(size_t)j * job->b.col + (size_t)c];
            y[j] += sum;
        }
        return;
    }
    for (int c = 0; c < job->k; c++) {
        float v = job->a.data[(size_t)item * job->a.row + (size_t)c * job->a.col];

        for (int j = 0; j < job->n; j++)
            y[j] += v * job->b.data[(size_t)c * job->b.row + (size_t)j * job->b.col];
    }
}

void zn_cpu_matmul(zn_cpu *d, float *y, size_t ldy, zn_matrix a, zn_matrix b, int m, int n, int k, const float *bias,
                   bool add)
{
    matmul_job job = { .d = d, .y = y, .ldy = ldy, .a = a, .b = b, .m = m, .n = n, .k = k, .bias = bias, .add = add };
    int blocks = zn_items((size_t)m, ROWS), total, most;
    double macs;

    if (!d->k->gemm) {
        zn_pool_run(d->pool, plain_item, &job, m);
        return;
    }
    total = (n + d->k->nr - 1) / d->k->nr;
    macs = (double)(m < ROWS ? m : ROWS) * k * d->k->nr;
    most = COLUMNS / d->k->nr;
    most = most < total ? most : total;
    job.panels = m < FEW_ROWS ? most : 1 + (int)(ITEM_MACS / macs);
    job.panels = job.panels < most ? job.panels : most;
    job.n_columns = (total + job.panels - 1) / job.panels;
    zn_pool_run(d->pool, run_item, &job, blocks * job.n_columns);
}
