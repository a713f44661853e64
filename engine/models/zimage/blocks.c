/* SPDX-License-Identifier: MIT */
/* blocks.c - attention and feed-forward layers of a transformer; see zimage.h. */
#include "zimage.h"

zn_conv zn_zimage_linear(int cin, int cout)
{
    zn_conv c = zn_conv_same(1, cin, cout);

    c.has_bias = false;
    c.quantised_x = true;
    return c;
}

/* y = the projection of x, each head normalised and rotated. */
static void project(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_conv *w, const zn_norm *norm, int heads,
                    bool interleaved, zn_tensor rope)
{
    const int dim = y.c / heads;
    const zn_tensor per_head = zn_reshape(y, 1, 1, y.w * heads, dim);

    zn_conv2d(c, y, x, w, (zn_tail){ 0 });
    zn_normalise(c, per_head, per_head, norm, (zn_tail){ 0 });
    zn_rotate(c, y, y,
              &(zn_rope){ .heads = heads,
                          .interleaved = interleaved,
                          .cos = zn_slice(rope, 0, dim / 2),
                          .sin = zn_slice(rope, dim / 2, dim / 2) });
}

void zn_zimage_attend(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_zimage_attention *a, zn_tensor rope, zn_tail t)
{
    const size_t mark = zn_mark(c->arena);
    const zn_tensor q = zn_new(c, 1, 1, x.w, a->q.cout), k = zn_new(c, 1, 1, x.w, a->k.cout),
                    v = zn_new(c, 1, 1, x.w, a->v.cout), mixed = zn_new(c, 1, 1, x.w, a->out.cin);

    project(c, q, x, &a->q, &a->q_norm, a->how.heads, a->interleaved, rope);
    project(c, k, x, &a->k, &a->k_norm, a->how.kv_heads, a->interleaved, rope);
    zn_conv2d(c, v, x, &a->v, (zn_tail){ 0 });
    zn_attend(c, mixed, q, k, v, &a->how);
    zn_conv2d(c, y, mixed, &a->out, t);
    zn_reset(c->arena, mark);
}

void zn_zimage_feed_forward(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_zimage_feed *f, zn_tail t)
{
    const size_t mark = zn_mark(c->arena);
    const zn_tensor gate = zn_new(c, 1, 1, x.w, f->gate.cout), up = zn_new(c, 1, 1, x.w, f->up.cout);

    zn_conv2d(c, gate, x, &f->gate, (zn_tail){ .pre = ZN_SILU });
    zn_conv2d(c, up, x, &f->up, (zn_tail){ 0 });
    zn_combine(c, gate, gate, up, ZN_MUL, (zn_tail){ 0 });
    zn_conv2d(c, y, gate, &f->down, t);
    zn_reset(c->arena, mark);
}
