/* SPDX-License-Identifier: MIT */
/* strips.c - blocks of large pictures, strip by strip of rows: less memory, the same result.
 *
 *     x ──norm──> a strip with a row above and below ──3x3──> its rows of y
 *
 * What a norm makes of x never exists as a whole.  The statistics of a group norm are of all of x: they come first.  Norms of
 * a pixel need none, so that a whole block runs through in strips, in the memory of x.
 *
 * On a CPU strips begin at multiples of all of Winograd's tiles: every pixel has the same bits as without strips. */
#include "../../core/ints.h"
#include "vae.h"

#include <stdlib.h>

enum {
    FROM = 16 << 20,         /* elements of a tensor that is computed in strips */
    STRIPS = 16,             /* of a tensor, at most, */
    REMOTE_STRIPS = 8,       /* likewise on a GPU, where launches count */
    STRIP_LEN = 4 << 20,     /* and none smaller, in elements: a tile for each multiprocessor of a large GPU */
    LEAST_ROWS = 2 * 12 + 2, /* what zn_vae_row_block moves does not overlap */
    CPU_UNIT = 12,           /* rows: Winograd's tiles have 4 or 6 */
    REMOTE_UNIT = 32,        /* rows of the largest tile on a GPU */
    REMOTE_PIXELS = 1 << 20  /* the smallest picture with strips there */
};

/* Some rows of a tensor, from row `first` on. */
typedef struct rows {
    zn_tensor t;
    int first;
} rows;

static zn_tensor view(rows of, int from, int end)
{
    zn_tensor t = of.t;

    assert(t.n == 1 && from >= of.first && end > from && end - of.first <= t.h);
    t.data = (float *)((char *)t.data + (size_t)(from - of.first) * (size_t)t.w * (size_t)t.ld * zn_type_size(t.type));
    t.h = end - from;
    return t;
}

/* On a GPU a strip of a smaller picture would have too few tiles, and strips are slower: they begin where six tensors would take
 * a quarter of its memory.  Under a limit that the user sets they begin as on a CPU. */
static size_t strips_from(const zn_vae_run *r)
{
    const zn_backend *be = r->c->be;
    const bool small = zn_pixels(r->call->in[0]) < REMOTE_PIXELS && zn_pixels(r->call->out[0]) < REMOTE_PIXELS;
    const size_t room = be->remote && be->capacity ? be->capacity(r->c->dev) / (4 * 6 * sizeof(uint16_t)) : 0;

    if (be->strips_from)
        return be->strips_from;
    if (be->remote && small)
        return SIZE_MAX;
    return room > FROM && !getenv(be->memory_variable) ? room : FROM;
}

bool zn_vae_in_strips(const zn_vae_run *r, zn_tensor x, int ch)
{
    if (x.n != 1 || r->call->state || !r->c->be) /* no video, nor the sizes of its state */
        return false;
    return zn_pixels(x) * (size_t)ch >= strips_from(r);
}

/* Rows of a strip of a tensor with so many channels.  All strips have about the same height. */
static int strip_of(const zn_vae_run *r, zn_tensor x, int ch)
{
    const bool remote = r->c->be->remote;
    const int unit = remote ? REMOTE_UNIT : CPU_UNIT, most = remote ? REMOTE_STRIPS : STRIPS;
    const size_t from = strips_from(r), len = from < STRIP_LEN ? from : STRIP_LEN;
    const int least = zn_imax(zn_ceil_div(x.h, most), (int)(len / ((size_t)x.w * (size_t)ch)));
    const int n = zn_ceil_div(x.h, zn_round_up(zn_imax(least, LEAST_ROWS), unit));

    return zn_imin(zn_round_up(zn_imax(zn_ceil_div(x.h, n), LEAST_ROWS), unit), x.h);
}

/* Rows from .. end-1 of y = conv(x) + residual, or of SiLU(norm(conv(x))), of a picture of `height` rows; x has a row more on each
 * side. */
static void conv_rows(zn_vae_run *r, rows y, rows x, int from, int end, int height, const zn_conv *w,
                      const zn_tensor *residual, const zn_norm *norm)
{
    const zn_tensor to = view(y, from, end);
    zn_conv part = *w;
    zn_tensor res = { 0 };

    part.pad_t = from ? 0 : w->pad_t;
    if (residual)
        res = view((rows){ *residual, 0 }, from, end);
    zn_conv2d(
        r->c, to, view(x, zn_imax(from - 1, 0), zn_imin(end + 1, height)), &part,
        (zn_tail){
            .residual = residual ? &res : NULL, .also = norm ? &to : NULL, .also_norm = norm, .also_act = ZN_SILU });
}

/* The rows from `from` on become the first ones. */
static void keep_rows(zn_vae_run *r, rows *of, int from, int end)
{
    const zn_tensor kept = view(*of, from, end);

    assert(from - of->first >= end - from);
    of->first = from;
    zn_map(r->c, view(*of, from, end), kept, (zn_tail){ 0 });
}

/* The same norm where its statistics are known. */
static zn_norm with_statistics(zn_vae_run *r, const zn_norm *w, zn_tensor x)
{
    zn_tensor v;

    if (w->kind != ZN_GROUP_NORM)
        return *w;
    v = zn_new_of(r->c, ZN_F32, 1, 1, 2, w->c);
    zn_group_scales(r->c, v, x, w);
    return (zn_norm){ .kind = ZN_SCALED, .c = w->c, .gamma = v.data, .beta = v.data + w->c };
}

void zn_vae_norm_conv(zn_vae_run *r, zn_tensor y, zn_tensor x, const zn_norm *norm, zn_act act, const zn_conv *w,
                      const zn_tensor *residual, const zn_conv *skip, zn_tensor from_x)
{
    const size_t mark = zn_mark(r->c->arena);
    const zn_norm known = with_statistics(r, norm, x);
    const int each = strip_of(r, x, x.c);
    const rows whole = { x, 0 }, to = { y, 0 };
    rows n = { zn_vae_slot(r, 2, 1, each + 2, x.w, x.c), 0 };

    for (int from = 0, end, done = 0, below; from < x.h; from = end, done = below) {
        end = zn_imin(from + each, x.h);
        below = zn_imin(end + 1, x.h);
        if (from)
            keep_rows(r, &n, from - 1, done);
        if (below > done)
            zn_normalise(r->c, view(n, done, below), view(whole, done, below), &known, (zn_tail){ .pre = act });
        if (skip) /* these rows have been read, even if y is x */
            zn_conv2d(r->c, view(to, from, end), view((rows){ from_x, 0 }, from, end), skip, (zn_tail){ 0 });
        conv_rows(r, to, n, from, end, x.h, w, skip ? &y : residual, NULL);
    }
    zn_reset(r->c->arena, mark);
}

/* Strips of h = conv1(..) are followed by rows of y, `behind` rows later: then the rows of x that the next strip of h needs are
 * still there, although y may be x. */
void zn_vae_row_block(zn_vae_run *r, const zn_vae_res *k)
{
    const zn_tensor x = r->x;
    const int wide = zn_imax(k->cin, k->cout), each = strip_of(r, x, wide), behind = r->c->be->remote ? 1 : CPU_UNIT;
    const zn_tensor y = k->cin == k->cout ? x : zn_vae_slot(r, 1, 1, x.h, x.w, k->cout);
    const rows whole = { x, 0 }, to = { y, 0 }, room = { zn_vae_slot(r, 2, 1, 2 * each + 3 + behind, x.w, wide), 0 };
    rows n = { view(room, 0, each + 2), 0 }, h = { view(room, each + 2, room.t.h), 0 };

    n.t.c = n.t.ld = k->cin;
    h.t.c = h.t.ld = k->cout;
    for (int done = 0, next, from = 0, end; from < x.h; from = end, done = next) { /* rows of h, of y */
        next = zn_imin(done + each, x.h);
        end = next < x.h ? next - behind : x.h;
        const int above = zn_imax(done - 1, 0), below = zn_imin(next + 1, x.h);

        n.first = above;
        zn_normalise(r->c, view(n, above, below), view(whole, above, below), &k->norm1, (zn_tail){ .pre = ZN_SILU });
        conv_rows(r, h, n, done, next, x.h, &k->conv1, NULL, &k->norm2);
        if (k->cin != k->cout)
            zn_conv2d(r->c, view(to, from, end), view(whole, from, end), &k->skip, (zn_tail){ 0 });
        conv_rows(r, to, h, from, end, x.h, &k->conv2, &y, NULL);
        if (end < x.h)
            keep_rows(r, &h, end - 1, next);
    }
    if (k->cin != k->cout)
        zn_vae_take(r, y, 1);
}

void zn_vae_attend_in_strips(zn_vae_run *r, const zn_vae_attention *a)
{
    const size_t mark = zn_mark(r->c->arena);
    const zn_tensor x = r->x, kv = zn_vae_slot(r, 1, 1, x.h, x.w, 2 * x.c);
    const zn_norm known = with_statistics(r, &a->norm, x);
    const int each = strip_of(r, x, x.c);
    const rows room = { zn_vae_slot(r, 2, 1, 2 * each, x.w, x.c), 0 };

    for (int i = 0; i < 2; i++) /* keys and values, then queries */
        for (int from = 0, end; from < x.h; from = end) {
            end = zn_imin(from + each, x.h);
            const zn_tensor part = view((rows){ x, 0 }, from, end), t = view(room, 0, end - from);
            const zn_tensor q = view(room, each, each + end - from);

            zn_normalise(r->c, t, part, &known, (zn_tail){ 0 });
            if (i == 0) {
                zn_conv2d(r->c, view((rows){ kv, 0 }, from, end), t, &a->kv, (zn_tail){ 0 });
                continue;
            }
            zn_conv2d(r->c, q, t, &a->q, (zn_tail){ 0 });
            zn_attend(r->c, t, q, zn_slice(kv, 0, x.c), zn_slice(kv, x.c, x.c), &(zn_attention){ .heads = a->heads });
            zn_conv2d(r->c, part, t, &a->out, (zn_tail){ .residual = &part });
        }
    zn_reset(r->c->arena, mark);
}
