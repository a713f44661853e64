/* SPDX-License-Identifier: MIT */
#include "gated_unet.h"

#include "../core/ints.h"

#include <stdio.h>

enum { USUAL_LEVELS = 2, USUAL_BLOCKS = 2 }; /* without a file */

/* ---- bind ------------------------------------------------------------------------------------------- */

/* The unit of the first and the last convolution's halo.  Convolutions compute blocks of 4 or 6 pixels a side, whose rounding
 * depends on where they begin.  So these halos are multiples of 12 of their pixels, and of one pixel of the last level. */
static int blocks(const zn_unet *m)
{
    return 3 * zn_imax(m->multiple, 4 * m->patch);
}

/* Sets before and after of all levels, from the last layer to the first. */
static void find_margins(zn_unet *m)
{
    int need = zn_round_up(m->patch, blocks(m)); /* the last convolution */

    for (int l = 0; l < m->n_levels; l++) {
        m->at[l].after = zn_round_up(need, m->multiple);
        need = m->at[l].after + (m->patch << l) * m->at[l].n_dec;
    }
    need = m->at[m->n_levels - 1].after;
    for (int l = m->n_levels - 1; l >= 0; l--)
        need = m->at[l].before = zn_round_up(need + (m->patch << l) * m->at[l].n_enc, m->multiple);
}

/* Levels of enc.N., down.N, mid., up.N and dec.N., as many as the file has; without one the usual ones, the first of `width`
 * channels. */
static void bind_unet(zn_binder *b, zn_unet *m, int patch, int width)
{
    char prefix[32];
    int reach = 2 * patch, step = patch; /* the convolutions before and after */

    m->patch = patch;
    while (!b->status) {
        zn_unet_level *l = &m->at[m->n_levels];
        bool middle = b->w ? !zn_bind_has(b, "down.%d.weight", m->n_levels) : m->n_levels == USUAL_LEVELS - 1;
        int next = b->w ? zn_bind_dim(b, 0, "down.%d.weight", m->n_levels) : 2 * width;

        if (width < 1 || width > 2048 || (!middle && (next < 1 || next > 2048 || m->n_levels == ZN_UNET_LEVELS - 1))) {
            zn_bind_fail(b, "the widths or the number of levels make no sense");
            return;
        }
        l->c = width;
        if (middle)
            snprintf(prefix, sizeof prefix, "mid.");
        else
            snprintf(prefix, sizeof prefix, "enc.%d.", m->n_levels);
        l->n_enc = zn_bind_gated(b, l->enc, width, USUAL_BLOCKS, prefix);
        if (!middle) {
            zn_conv down = { .kh = 2, .kw = 2, .stride = 2, .cin = width, .cout = next, .has_bias = true };
            zn_conv up = zn_conv_same(1, next, 4 * width);

            up.has_bias = false;
            snprintf(prefix, sizeof prefix, "dec.%d.", m->n_levels);
            l->n_dec = zn_bind_gated(b, l->dec, width, USUAL_BLOCKS, prefix);
            zn_bind_conv(b, &l->down, down, "down.%d", m->n_levels);
            zn_bind_conv(b, &l->up, up, "up.%d", m->n_levels);
        }
        /* Each depthwise 3x3 adds one pixel of its level.  The patches of the level below add up to a patch less one
         * pixel on either side. */
        reach += step * (l->n_enc + l->n_dec) + step / 2;
        m->n_levels++;
        if (middle)
            break;
        width = next;
        step *= 2;
    }
    if (b->status)
        return;
    m->multiple = step;
    m->halo = zn_round_up(reach, blocks(m));
    find_margins(m);
}

/* ---- forward ------------------------------------------------------------------------------------------ */

static zn_margin at_most(zn_margin m, int n)
{
    return (zn_margin){ zn_imin(m.left, n), zn_imin(m.top, n), zn_imin(m.right, n), zn_imin(m.bottom, n) };
}

/* Crops *x, whose pixels have `size` of the input's a side, from the halo `has` to the halo `keeps`.  *x and *spare are
 * swapped. */
static void crop(zn_ctx *c, int size, zn_tensor *x, zn_tensor *spare, zn_margin has, zn_margin keeps)
{
    zn_tensor y = *spare;

    y.h -= (has.top - keeps.top + has.bottom - keeps.bottom) / size;
    y.w -= (has.left - keeps.left + has.right - keeps.right) / size;
    if (y.h == x->h && y.w == x->w)
        return;
    zn_window(c, y, *x, (has.left - keeps.left) / size, (has.top - keeps.top) / size);
    spare->data = x->data;
    spare->h = y.h, spare->w = y.w;
    *x = y;
}

/* *x of level l, with the halo `has`: its encoder blocks, the levels below, its decoder blocks.  The result has a halo
 * of at[l].after at most. */
static void run_level(zn_ctx *c, const zn_unet *m, int l, zn_tensor *x, zn_tensor *spare, zn_margin has)
{
    const zn_unet_level *at = &m->at[l];
    const int size = m->patch << l;
    size_t mark = zn_mark(c->arena);

    zn_run_gated(c, at->enc, at->n_enc, x, spare);
    if (l + 1 < m->n_levels) {
        const zn_unet_level *below = &m->at[l + 1];
        zn_tensor low = zn_new(c, 1, x->h / 2, x->w / 2, below->c);
        zn_tensor low_spare = zn_new(c, 1, x->h / 2, x->w / 2, below->c), up;

        zn_conv2d(c, low, *x, &at->down, (zn_tail){ 0 });
        crop(c, 2 * size, &low, &low_spare, has, at_most(has, below->before));
        run_level(c, m, l + 1, &low, &low_spare, at_most(has, below->before));
        crop(c, size, x, spare, has, at_most(has, below->after));
        has = at_most(has, below->after);
        up = zn_new(c, 1, low.h, low.w, 4 * x->c);
        zn_conv2d(c, up, low, &at->up, (zn_tail){ 0 });
        zn_shuffle(c, *x, up, 2, (zn_tail){ .residual = x });
        zn_reset(c->arena, mark);
        zn_run_gated(c, at->dec, at->n_dec, x, spare);
    }
    crop(c, size, x, spare, has, at_most(has, at->after));
}

/* *x, of the first level, with the halo `has`; *spare has its shape, and the two may be swapped.  Returns the halo of the result. */
static zn_margin run_unet(zn_ctx *c, const zn_unet *m, zn_tensor *x, zn_tensor *spare, zn_margin has)
{
    run_level(c, m, 0, x, spare, has);
    return at_most(has, m->at[0].after);
}

/* *x, of the first level, without its halo; the two may be swapped. */
static void crop_unet(zn_ctx *c, const zn_unet *m, zn_tensor *x, zn_tensor *spare, zn_margin has)
{
    crop(c, m->patch, x, spare, has, (zn_margin){ 0 });
}

zn_tensor zn_crop_picture(zn_ctx *c, zn_tensor x, int h, int w, zn_margin has)
{
    zn_tensor y = x;

    if (h != x.h || w != x.w) {
        y = zn_new_of(c, x.type, 1, h, w, x.c);
        zn_window(c, y, x, has.left, has.top);
    }
    return y;
}

/* ---- pictures --------------------------------------------------------------------------------------- */

void zn_bind_unet_picture(zn_binder *b, zn_unet_picture *m, int patch, int scale, int told, int usual,
                          const char *suffix)
{
    const int side = patch * scale;

    m->scale = scale;
    bind_unet(b, &m->body, patch, b->w ? zn_bind_dim(b, 0, "intro%s.weight", suffix) : usual);
    if (b->status)
        return;
    zn_bind_conv(b, &m->intro, zn_conv_same(3, patch * patch * 3 + told, m->body.at[0].c), "intro%s", suffix);
    zn_bind_conv(b, &m->outro, zn_conv_same(3, m->body.at[0].c, side * side * 3), "outro%s", suffix);
    b->geometry = (zn_geometry){ .in_c = 3,
                                 .out_c = 3,
                                 .shrink = 1,
                                 .grow = scale,
                                 .multiple = m->body.multiple,
                                 .padded = true,
                                 .halo = m->body.halo };
}

/* The picture without its halo, as large as the result. */
static zn_tensor enlarged(zn_ctx *c, const zn_unet_picture *m, zn_tensor in, zn_tensor out, zn_margin has)
{
    zn_tensor large;

    if (m->scale == 1)
        return zn_crop_picture(c, in, out.h, out.w, has);
    large = zn_new_of(c, in.type, 1, out.h, out.w, 3);
    zn_resize(c, large, zn_crop_picture(c, in, out.h / m->scale, out.w / m->scale, has), ZN_NEAREST);
    return large;
}

void zn_run_unet_picture(zn_ctx *c, const zn_unet_picture *m, const zn_call *call, const float *told, float gain)
{
    const zn_tensor in = call->in[0], out = call->out[0];
    const int patch = m->body.patch, n = patch * patch * 3;
    const zn_margin has = { call->left, call->top, in.w - out.w / m->scale - call->left,
                            in.h - out.h / m->scale - call->top };
    zn_margin left;
    zn_tensor x = zn_new(c, 1, in.h / patch, in.w / patch, m->body.at[0].c);
    zn_tensor spare = zn_new(c, 1, x.h, x.w, x.c);
    size_t mark = zn_mark(c->arena);
    zn_tensor both = zn_new(c, 1, x.h, x.w, m->intro.cin), res, rest, own;

    if (patch > 1)
        zn_unshuffle(c, zn_slice(both, 0, n), in, patch);
    else
        zn_map(c, zn_slice(both, 0, n), in, (zn_tail){ 0 });
    if (told)
        zn_fill(c, zn_slice(both, n, m->intro.cin - n), told);
    else
        zn_unshuffle(c, zn_slice(both, n, m->intro.cin - n), call->in[1], patch);
    zn_conv2d(c, x, both, &m->intro, (zn_tail){ 0 });
    zn_reset(c->arena, mark);
    left = run_unet(c, &m->body, &x, &spare, has);
    res = zn_new(c, 1, x.h, x.w, m->outro.cout);
    rest = zn_new(c, 1, x.h, x.w, m->outro.cout);
    zn_conv2d(c, res, x, &m->outro, (zn_tail){ 0 });
    crop_unet(c, &m->body, &res, &rest, left);
    own = enlarged(c, m, in, out, has);
    zn_shuffle(c, out, res, patch * m->scale, (zn_tail){ .gain = gain, .residual = &own });
}
