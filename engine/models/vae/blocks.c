/* SPDX-License-Identifier: MIT */
/* blocks.c - the blocks of all these networks, in one piece, or strip by strip of a large picture (strips.c). */
#include "vae.h"

#include "../../core/ints.h"

void zn_vae_conv(zn_vae_run *r, const zn_conv *w, zn_tail t)
{
    const zn_tensor x = r->x;
    const int up = w->up2 ? 2 : 1;
    zn_tensor y = zn_vae_slot(r, 1, x.n, x.h * up / w->stride, x.w * up / w->stride, w->cout);

    zn_conv2d(r->c, y, x, w, t);
    zn_vae_take(r, y, 1);
}

/* With group norms, of a large picture: h whole, beside x. */
static void group_block(zn_vae_run *r, const zn_vae_res *k)
{
    zn_tensor x = r->x, h = zn_vae_slot(r, 1, 1, x.h, x.w, k->cout);

    zn_vae_norm_conv(r, h, x, &k->norm1, ZN_SILU, &k->conv1, NULL, NULL, x);
    if (k->cin == k->cout) {
        zn_vae_norm_conv(r, x, h, &k->norm2, ZN_SILU, &k->conv2, &x, NULL, x);
        return;
    }
    zn_vae_norm_conv(r, h, h, &k->norm2, ZN_SILU, &k->conv2, NULL, &k->skip, x);
    zn_vae_take(r, h, 1);
}

void zn_vae_res_block(zn_vae_run *r, const zn_vae_res *k, const zn_norm *next)
{
    zn_tensor x = r->x, t, h, y;

    if (zn_vae_in_strips(r, x, zn_imax(k->cin, k->cout))) {
        r->normed = false;
        (k->norm1.kind == ZN_GROUP_NORM ? group_block : zn_vae_row_block)(r, k);
        return;
    }
    t = zn_vae_slot(r, 1, x.n, x.h, x.w, k->cin);
    h = zn_vae_slot(r, 2, x.n, x.h, x.w, k->cout);
    if (!r->normed)
        zn_normalise(r->c, t, x, &k->norm1, (zn_tail){ .pre = ZN_SILU });
    r->normed = false;
    if (k->norm2.kind == ZN_GROUP_NORM) {
        zn_conv2d(r->c, h, t, &k->conv1, (zn_tail){ 0 });
        zn_normalise(r->c, h, h, &k->norm2, (zn_tail){ .pre = ZN_SILU });
    } else {
        zn_conv2d(r->c, h, t, &k->conv1, (zn_tail){ .also = &h, .also_norm = &k->norm2, .also_act = ZN_SILU });
    }
    if (k->cin == k->cout) {
        r->normed = next && next->kind != ZN_GROUP_NORM;
        zn_conv2d(r->c, x, h, &k->conv2,
                  (zn_tail){ .residual = &x, .also = r->normed ? &t : NULL, .also_norm = next, .also_act = ZN_SILU });
        return;
    }
    y = zn_vae_slot(r, 1, x.n, x.h, x.w, k->cout);
    zn_conv2d(r->c, y, x, &k->skip, (zn_tail){ 0 });
    zn_conv2d(r->c, y, h, &k->conv2, (zn_tail){ .residual = &y });
    zn_vae_take(r, y, 1);
}

void zn_vae_attend(zn_vae_run *r, const zn_vae_attention *a)
{
    zn_tensor x = r->x, t, qkv;

    if (zn_vae_in_strips(r, x, 3 * x.c)) {
        zn_vae_attend_in_strips(r, a);
        return;
    }
    t = zn_vae_slot(r, 1, x.n, x.h, x.w, x.c);
    qkv = zn_vae_slot(r, 2, x.n, x.h, x.w, 3 * x.c);
    zn_normalise(r->c, t, x, &a->norm, (zn_tail){ 0 });
    zn_conv2d(r->c, zn_slice(qkv, 0, a->q.cout), t, &a->q, (zn_tail){ 0 });
    if (a->q.cout == x.c)
        zn_conv2d(r->c, zn_slice(qkv, x.c, 2 * x.c), t, &a->kv, (zn_tail){ 0 });
    zn_attend(r->c, t, zn_slice(qkv, 0, x.c), zn_slice(qkv, x.c, x.c), zn_slice(qkv, 2 * x.c, x.c),
              &(zn_attention){ .heads = a->heads });
    zn_conv2d(r->c, x, t, &a->out, (zn_tail){ .residual = &x });
}

void zn_vae_patch(zn_vae_run *r, const zn_vae *m)
{
    const zn_tensor x = r->x;
    zn_tensor t;

    if (m->patch == 1)
        return;
    t = zn_vae_slot(r, 1, x.n, x.h / m->patch, x.w / m->patch, x.c * m->patch * m->patch);
    zn_unshuffle(r->c, t, x, m->patch);
    zn_vae_take(r, t, 1);
}
