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

/* Each head of x normalised and rotated. */
static void rotate(zn_ctx *c, zn_tensor x, const zn_norm *norm, int heads, bool interleaved, zn_tensor rope)
{
    const int half = x.c / heads / 2;

    zn_norm_rotate(c, x, x, norm,
                   &(zn_rope){ .heads = heads,
                               .interleaved = interleaved,
                               .cos = zn_slice(rope, 0, half),
                               .sin = zn_slice(rope, half, half) });
}

void zn_zimage_attend(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_zimage_attention *a, zn_tensor rope, zn_tail t)
{
    const size_t mark = zn_mark(c->arena);
    const int each = x.w < rope.w ? x.w : rope.w;
    const zn_tensor q = zn_new(c, 1, 1, x.w, a->q.cout), k = zn_new(c, 1, 1, x.w, a->k.cout),
                    v = zn_new(c, 1, 1, x.w, a->v.cout), mixed = zn_new(c, 1, 1, x.w, a->out.cin);

    zn_linears(c, (const zn_tensor[]){ q, k, v }, x, (const zn_conv *const[]){ &a->q, &a->k, &a->v }, 3);
    for (int at = 0; at < x.w; at += each) {
        const zn_tensor own = zn_rows(q, at, each), keys = zn_rows(k, at, each);

        rotate(c, own, &a->q_norm, a->how.heads, a->interleaved, rope);
        rotate(c, keys, &a->k_norm, a->how.kv_heads, a->interleaved, rope);
        zn_attend(c, zn_rows(mixed, at, each), own, keys, zn_rows(v, at, each), &a->how);
    }
    zn_conv2d(c, y, mixed, &a->out, t);
    zn_reset(c->arena, mark);
}

void zn_zimage_feed_forward(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_zimage_feed *f, zn_tail t)
{
    const size_t mark = zn_mark(c->arena);
    const zn_tensor gated = zn_new(c, 1, 1, x.w, f->gate.cout);

    zn_glu(c, gated, x, &f->gate, &f->up);
    zn_conv2d(c, y, gated, &f->down, t);
    zn_reset(c->arena, mark);
}
