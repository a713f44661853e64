/* SPDX-License-Identifier: MIT */
#include "rows.h"

#include "../core/ints.h"

enum {
    STRIP = 16 << 10, /* pixels of a strip, at least; with up2 of x */
    UNIT = 12,        /* rows of a strip: kernels compute blocks of 4 or 6, */
    UNIT2 = 20,       /* with stride 2 of 4 or 5, and of 8 or 10 ... */
    UNIT_UP = 40,     /* ... with up2, where an odd row belongs to the block that begins a row later: */
    BEYOND_UP = 5     /* so many rows of x belong to it */
};

typedef struct held { /* rows first .. end-1 of a tensor */
    zn_tensor t;
    int first, end, height;
    int most; /* rows that must be there at a time */
} held;

typedef struct chain {
    zn_ctx *c;
    const zn_row_layer *layer;
    int n;
    int strip;                      /* pixels */
    bool counting;                  /* only `most` is wanted */
    held at[ZN_MAX_ROW_LAYERS + 1]; /* x, and what each layer makes */
} chain;

static zn_tensor view(const held *of, int from, int end)
{
    return zn_band(of->t, from - of->first, end - from);
}

/* The first row of x under the row `from` of y, and the row after the last one under those before `end`. */
static int above(const zn_conv *w, int from)
{
    return zn_imax(w->up2 ? from / 2 - 1 : from * w->stride - w->pad_t, 0);
}

static int below(const zn_conv *w, int end, int height)
{
    return zn_imin(w->up2 ? end / 2 + BEYOND_UP : (end - 1) * w->stride - w->pad_t + w->kh, height);
}

static int unit_of(const zn_conv *w)
{
    return w->up2 ? UNIT_UP : w->stride == 2 ? UNIT2 : UNIT;
}

/* The first row of tensor k that a layer will read. */
static int needed(const chain *m, int k)
{
    int first = above(m->layer[k].conv, m->at[k + 1].end);

    for (int i = k; i < m->n; i++)
        if (m->layer[i].skip == i + 1 - k)
            first = zn_imin(first, m->at[i + 1].end);
    return zn_imin(first, m->at[k].end);
}

/* Tensor k gets rows up to `end`: those that are needed no more make room. */
static void make_room(chain *m, int k, int end)
{
    held *of = &m->at[k];
    const int keep = needed(m, k), kept = of->end - keep;

    if (m->counting) {
        of->most = zn_imax(of->most, end - keep);
    } else if (end - of->first > of->t.h) {
        const zn_tensor from = kept ? view(of, keep, of->end) : of->t;

        assert(keep - of->first >= kept); /* they do not overlap */
        of->first = keep;
        if (kept)
            zn_map(m->c, view(of, keep, of->end), from, (zn_tail){ 0 });
    }
}

static void run_strip(chain *m, int k, int from, int end)
{
    const zn_row_layer *l = &m->layer[k - 1];
    const held *x = &m->at[k - 1];
    zn_conv part = *l->conv;
    zn_tensor res = { 0 };

    if (from)
        part.pad_t = part.up2 ? -1 : 0;
    if (l->skip)
        res = view(&m->at[k - l->skip], from, end);
    zn_conv2d(m->c, view(&m->at[k], from, end), view(x, above(l->conv, from), below(l->conv, end, x->height)), &part,
              (zn_tail){ .pre = l->pre, .post = l->post, .residual = l->skip ? &res : NULL });
}

/* Tensor k has its rows before `end`, or more.  A strip is a unit shorter where its last rows would take another one of x. */
static void advance(chain *m, int k, int end)
{
    const zn_conv *w = m->layer[k - 1].conv;
    held *y = &m->at[k];
    const held *x = y - 1;
    const int unit = unit_of(w), each = zn_round_up((w->up2 ? 4 : 1) * m->strip / y->t.w + 1, unit),
              least = zn_imax(each - unit, unit);

    while (y->end < end && !(m->c->status && !m->counting)) {
        int next = zn_imin(y->end + least, y->height);

        if (k > 1)
            advance(m, k - 1, below(w, next, x->height));
        if (each > least && below(w, next + unit, x->height) <= x->end)
            next = zn_imin(next + unit, y->height);
        if (k < m->n)
            make_room(m, k, next);
        if (!m->counting)
            run_strip(m, k, y->end, next);
        y->end = next;
    }
}

void zn_run_rows(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_row_layer *layer, int n)
{
    const size_t mark = zn_mark(c->arena);
    chain m = { .c = c,
                .layer = layer,
                .n = n,
                .strip = c->be->strips_from ? 1 : STRIP,
                .counting = true,
                .at[0] = { .t = x, .end = x.h, .height = x.h } };

    assert(x.n == 1 && n > 0 && n <= ZN_MAX_ROW_LAYERS);
    for (int i = 0; i < n; i++) {
        const zn_tensor before = m.at[i].t;
        const zn_conv *w = layer[i].conv;
        const int up = w->up2 ? 2 : 1;
        zn_tensor t = { .n = 1, .w = zn_ceil_div(before.w * up, w->stride), .c = w->cout };

        m.at[i + 1] = (held){ .t = t, .height = zn_ceil_div(m.at[i].height * up, w->stride) };
    }
    m.at[n].t = y;
    assert(m.at[n].height == y.h);
    advance(&m, n, y.h);
    for (int k = 1; k < n; k++) {
        const int rows = zn_imin(2 * m.at[k].most, m.at[k].height); /* seldom moved, and not onto themselves */

        m.at[k].t = zn_new(c, 1, rows, m.at[k].t.w, m.at[k].t.c);
        m.at[k].end = 0;
    }
    m.at[n].end = 0;
    m.counting = false;
    advance(&m, n, y.h);
    zn_reset(c->arena, mark);
}
