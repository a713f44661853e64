/* SPDX-License-Identifier: MIT */
/* integers.c - linear layers whose inputs may be quantised (zn_conv.quantised_x): products of int8 with int8 or int4.
 *
 *     rows of x --to_i8--> tiles in d->expanded --dot8, a strip of rows and some panels at a time--> sums --tail--> y
 *
 * An item of the product is a block of rows times a column of panels, whose weights stay in L2 while a strip of rows, which
 * stays in L1, passes all of them.  A pixel's sums depend neither on the block nor on the strip.
 *
 * packed: the bias, padded to whole panels; then the panels (kernels.h). */
#include <string.h>

#include "../core/ints.h"
#include "conv.h"

enum {
    ROOM = 8 << 20,                 /* bytes of quantised rows; more rows are done in several passes */
    BLOCK = 8 * ZN_DOT8_ROWS,       /* rows of an item, or those of a call if they are more ... */
    MOST_BLOCK = 16 * ZN_DOT8_ROWS, /* ... and these at most */
    COLUMN_BYTES = 192 << 10,       /* of an item's weights */
    COLUMN_OUTPUTS = 256,           /* at most: what the sums of a strip have room for */
    ITEM_ROWS = 8,                  /* to quantise */
    ITEM_OUTPUTS = 16,              /* to pack */
    MOST_INPUTS = 1 << 16
};

_Static_assert(MOST_BLOCK *COLUMN_OUTPUTS *(int)sizeof(float) + COLUMN_OUTPUTS / 4 * ZN_DOT8_PART * ZN_DOT8_ROOM <=
                   (int)ZN_SCRATCH,
               "sums and prepared weights do not fit");
_Static_assert((int)ROOM <= (int)ZN_EXPANDED, "quantised rows do not fit");
_Static_assert(ITEM_OUTPUTS *(MOST_INPUTS + MOST_INPUTS / ZN_W_GROUP * 2) <= (int)ZN_SCRATCH,
               "the outputs of an item do not fit");

typedef struct integers_job {
    zn_conv_job c;
    size_t first; /* row of the pass */
    int rows;     /* of the pass */
    int groups, panels;
    int column, block; /* panels and rows of an item */
} integers_job;

static bool suits(const zn_cpu *d, const zn_conv *w)
{
    const zn_kernels *k = d->k;

    return k->dot8[0].run && zn_conv_integers_fit(w) && w->cin <= MOST_INPUTS;
}

static int groups_of(const zn_conv *w)
{
    return zn_ceil_div(w->cin, ZN_W_GROUP);
}

static size_t bias_len(const zn_kernels *k, const zn_conv *w)
{
    return (size_t)zn_round_up(w->cout, k->vl);
}

static char *panel_at(const zn_kernels *k, const zn_conv *w, int panel)
{
    return (char *)((float *)w->packed + bias_len(k, w)) +
        (size_t)panel * zn_dot8_panel(zn_conv_weights(w), groups_of(w), k->vl);
}

static size_t size(const zn_kernels *k, const zn_conv *w)
{
    return sizeof(float) * bias_len(k, w) +
        (size_t)zn_ceil_div(w->cout, k->vl) * zn_dot8_panel(zn_conv_weights(w), groups_of(w), k->vl);
}

/* ---- weights --------------------------------------------------------------------------------------------- */

typedef struct packing {
    const zn_cpu *d;
    const zn_conv *w;
    const float *weight; /* or */
    const zn_row_source *rows;
} packing;

/* Nibbles 0 1 2 3 4 5 6 7 of a word to 0 4 1 5 2 6 3 7: a pair of quads, element by element. */
static uint32_t pair_of_quads(uint32_t v)
{
    uint32_t t = (v ^ v >> 8) & 0x0000ff00;

    v ^= t ^ t << 8;
    t = (v ^ v >> 4) & 0x00f000f0;
    return v ^ t ^ t << 4;
}

/* n outputs, as quantise.h stores them, `row` bytes apart, to a panel; the panel's others are 0. */
static void pack_panel(char *panel, const zn_kernels *k, const zn_conv *w, const uint8_t *from, const uint16_t *scale,
                       int n)
{
    const zn_wtype t = zn_conv_weights(w);
    const int groups = groups_of(w), words = (int)zn_wtype_size(t, ZN_W_GROUP) / 4;
    const size_t row = (size_t)(4 * words * groups);
    const uint32_t flip = t == ZN_W_I4 ? (k->dot8_excess ? 0 : 0x88888888) : k->dot8_excess ? 0x80808080 : 0;
    char *to = panel;

    if (n < k->vl)
        memset(panel, 0, zn_dot8_panel(t, groups, k->vl));
    for (int g = 0; g < groups; g++, from += 4 * words) {
        for (int o = 0; o < n; o++)
            memcpy(to + sizeof *scale * (size_t)o, scale + o * groups + g, sizeof *scale);
        to += sizeof *scale * (size_t)k->vl;
        for (int i = 0; i < words; i++, to += 4 * k->vl)
            for (int o = 0; o < n; o++) {
                uint32_t v;

                memcpy(&v, from + (size_t)o * row + 4 * (size_t)i, sizeof v);
                v = (t == ZN_W_I4 ? pair_of_quads(v) : v) ^ flip;
                memcpy(to + 4 * o, &v, sizeof v);
            }
    }
}

/* Outputs from o on, quantised as quantise.h stores them; the rest of a last group is 0. */
static void quantise_rows(uint8_t *q, uint16_t *scale, const packing *job, int o, int n)
{
    const zn_wtype t = zn_conv_weights(job->w);
    const int cin = job->w->cin;

    for (int r = 0; r < n; r++)
        for (int i = 0; i < cin; i += ZN_W_GROUP, q += zn_wtype_size(t, ZN_W_GROUP)) {
            const int some = zn_imin(cin - i, ZN_W_GROUP);

            if (some < ZN_W_GROUP)
                memset(q, t == ZN_W_I4 ? 0x88 : 0, zn_wtype_size(t, ZN_W_GROUP));
            *scale++ = zn_quantise(t, q, job->weight + (size_t)(o + r) * (size_t)cin + i, some);
        }
}

static void pack_item(void *cookie, int item, int worker)
{
    const packing *job = cookie;
    const zn_kernels *k = job->d->k;
    const zn_wtype t = zn_conv_weights(job->w);
    const int groups = groups_of(job->w), first = item * ITEM_OUTPUTS;
    const int n = zn_imin(job->w->cout - first, ITEM_OUTPUTS);
    const size_t row = zn_wtype_size(t, (size_t)(groups * ZN_W_GROUP));
    uint16_t *scale = zn_cpu_scratch(job->d, worker);
    uint8_t *q = (uint8_t *)(scale + ITEM_OUTPUTS * groups);

    if (job->rows)
        job->rows->read(job->rows->cookie, first, n, q, scale);
    else
        quantise_rows(q, scale, job, first, n);
    for (int o = 0; o < n; o += k->vl)
        pack_panel(panel_at(k, job->w, (first + o) / k->vl), k, job->w, q + (size_t)o * row, scale + o * groups,
                   zn_imin(n - o, k->vl));
}

static void pack_all(packing job, const float *bias)
{
    const zn_conv *w = job.w;
    float *b = w->packed;

    assert(ITEM_OUTPUTS % job.d->k->vl == 0);
    for (int o = 0; o < (int)bias_len(job.d->k, w); o++)
        b[o] = bias && o < w->cout ? bias[o] : 0;
    zn_pool_run(job.d->pool, pack_item, &job, zn_ceil_div(w->cout, ITEM_OUTPUTS));
}

static void pack(const zn_cpu *d, const zn_conv *w, const float *weight, const float *bias)
{
    pack_all((packing){ .d = d, .w = w, .weight = weight }, bias);
}

void zn_integers_pack_rows(const zn_cpu *d, const zn_conv *w, const zn_row_source *rows, const float *bias)
{
    pack_all((packing){ .d = d, .w = w, .rows = rows }, bias);
}

/* ---- products -------------------------------------------------------------------------------------------- */

static char *row_at(const integers_job *job, int row)
{
    return (char *)job->c.d->expanded + (size_t)row * zn_dot8_row(job->groups);
}

static void quantise_item(void *cookie, int item, int worker)
{
    const integers_job *job = cookie;
    const zn_tensor x = job->c.x;

    (void)worker;
    for (int row = item * ITEM_ROWS; row < zn_imin((item + 1) * ITEM_ROWS, job->rows); row++) {
        const int of = zn_dot8_tile(row, job->rows);

        job->c.d->k->to_i8(row_at(job, row - row % of), row % of, of,
                           x.data + (job->first + (size_t)row) * (size_t)x.ld, x.c, zn_conv_weights(job->c.w));
    }
}

static void product_item(void *cookie, int item, int worker)
{
    const integers_job *job = cookie;
    const zn_kernels *k = job->c.d->k;
    const zn_conv *w = job->c.w;
    const int columns = zn_ceil_div(job->panels, job->column), panel = item % columns * job->column;
    const int first = item / columns * job->block, end = zn_imin(first + job->block, job->rows);
    const int o = panel * k->vl, n = zn_imin(job->column * k->vl, w->cout - o);
    float *sums = zn_cpu_scratch(job->c.d, worker);
    zn_dot8 g = { .y = sums,
                  .room = sums + MOST_BLOCK * COLUMN_OUTPUTS,
                  .w = panel_at(k, w, panel),
                  .y_ld = (size_t)(job->column * k->vl),
                  .type = zn_conv_weights(w),
                  .groups = job->groups,
                  .panels = zn_imin(job->column, job->panels - panel) };

    for (int row = first; row < end; row += g.rows) {
        g.x = row_at(job, row);
        g.rows = zn_dot8_strip(end - row, job->c.d->dot8.rows);
        job->c.d->dot8.run(&g);
        for (int i = 0; i < g.rows; i++) {
            const size_t p = job->first + (size_t)(row + i);
            const float *res = zn_residual_at(&job->c.t, p);

            k->binary(job->c.y.data + p * (size_t)job->c.y.ld + o, sums + (size_t)i * g.y_ld,
                      (const float *)w->packed + o, res ? res + o : NULL, (size_t)n, ZN_ADD, &job->c.t);
        }
    }
}

static void run(const zn_conv_job *c)
{
    const zn_kernels *k = c->d->k;
    const size_t all = zn_pixels(c->y);
    const int groups = groups_of(c->w), pass = ROOM / (int)zn_dot8_row(groups) / BLOCK * BLOCK;
    const int block = zn_imax(BLOCK, c->d->dot8.rows);
    integers_job job = { .c = *c, .groups = groups, .panels = zn_ceil_div(c->w->cout, k->vl), .block = block };

    assert(pass > 0 && block <= MOST_BLOCK);
    job.column =
        zn_imin(COLUMN_BYTES / (int)zn_dot8_panel(zn_conv_weights(c->w), groups, k->vl), COLUMN_OUTPUTS / k->vl);
    job.column = zn_imax(job.column / ZN_DOT8_PANELS, 1) * ZN_DOT8_PANELS;
    for (; job.first < all; job.first += (size_t)job.rows) {
        job.rows = all - job.first < (size_t)pass ? (int)(all - job.first) : pass;
        zn_pool_run(c->d->pool, quantise_item, &job, zn_ceil_div(job.rows, ITEM_ROWS));
        zn_pool_run(c->d->pool, product_item, &job, zn_ceil_div(job.rows, block) * zn_ceil_div(job.panels, job.column));
    }
}

static size_t scratch(const zn_kernels *k, const zn_conv *w)
{
    (void)k, (void)w;
    return ROOM;
}

const zn_conv_algorithm zn_conv_integers = {
    .name = "integers", .suits = suits, .size = size, .pack = pack, .run = run, .scratch = scratch, .inputs = ZN_W_I8
};
