/* SPDX-License-Identifier: MIT */
/* gated.c - gated residual blocks, in steps, a strip of rows at a time.  Intermediate results are in scratch memory:
 *
 *   x, with a row above and below --norm--> u --pw1--> wide --dw, halves multiplied--> u --pw2--(+x)--> v
 *   v --norm--> u --pw3--> wide --halves multiplied--> u --pw4--(+v)--> y */
#include "vulkan.h"

enum { THREADS = 256, FOUR_THREADS = 128, STRIP = 128 << 20 }; /* bytes of a strip's tensors, unless a row needs more */

/* Rows i .. i+h-1 of image n. */
static zn_tensor rows_of(zn_tensor t, int n, int i, int h)
{
    const size_t at = ((size_t)n * (size_t)t.h + (size_t)i) * (size_t)t.w * (size_t)t.ld;

    t.data = (float *)(void *)((char *)t.data + at * zn_type_size(t.type));
    t.n = 1;
    t.h = h;
    return t;
}

/* h rows of c channels in scratch memory; *at moves behind them. */
static zn_tensor place(char **at, zn_tensor like, int h, int c)
{
    const zn_tensor t = { (float *)(void *)*at, 1, h, like.w, c, c, like.type };

    *at += (zn_pixels(t) * (size_t)c * zn_type_size(t.type) + 255) / 256 * 256;
    return t;
}

static void depthwise(zn_vk *d, zn_tensor y, zn_tensor wide, int above, const zn_conv *w)
{
    zn_type type;
    int pad;
    const void *weight = zn_vk_conv_weight(d, w, &type, &pad);
    const bool fours = y.type == ZN_F16 && zn_vk_vectors(y, 4) && zn_vk_vectors(wide, 4) && y.c % 4 == 0;
    const size_t n =
        fours ? (size_t)y.h * zn_vk_blocks((size_t)y.w, 4) * (size_t)(y.c / 4) : zn_pixels(y) * (size_t)y.c;
    const struct {
        uint32_t n, c, w, xh, above, y_ld, x_ld, pad;
    } g = { (uint32_t)n,     (uint32_t)y.c,  (uint32_t)y.w,     (uint32_t)wide.h,
            (uint32_t)above, (uint32_t)y.ld, (uint32_t)wide.ld, (uint32_t)pad };

    zn_vk_run(d,
              &(zn_vk_launch){ .kernel = fours ? "gated_dw4" : "gated_dw",
                               .t = { y, wide, zn_vk_array(weight, type), zn_vk_floats(zn_vk_conv_bias(w)) },
                               .groups = zn_vk_blocks(n, fours ? FOUR_THREADS : THREADS),
                               .work = 32 * (double)zn_pixels(y) * y.c,
                               .args = &g,
                               .args_size = sizeof g });
}

/* Rows i0 .. i1-1 of image n. */
static void strip(zn_vk *d, zn_tensor y, zn_tensor x, const zn_gated *w, int n, int i0, int i1, char *room)
{
    const int a0 = zn_imax(i0 - 1, 0), a1 = zn_imin(i1 + 1, x.h), h = i1 - i0;
    const zn_norm norm = { .kind = ZN_LAYER_NORM, .c = x.c, .eps = w->eps };
    const zn_tensor around = rows_of(x, n, a0, a1 - a0), in = rows_of(x, n, i0, h), out = rows_of(y, n, i0, h);
    const zn_tensor u = place(&room, x, a1 - a0, x.c), v = place(&room, x, h, x.c), g = rows_of(u, 0, 0, h);
    const zn_tensor wide = place(&room, x, a1 - a0, 2 * x.c), wide2 = rows_of(wide, 0, 0, h);

    if (!zn_vk_conv_fused(d, wide, around, &w->pw1, w->eps, false)) {
        zn_vk_norm(d, u, around, &norm, NULL, (zn_tail){ 0 });
        zn_vk_conv2d(d, wide, u, &w->pw1, (zn_tail){ 0 });
    }
    depthwise(d, g, wide, i0 - a0, &w->dw);
    zn_vk_conv2d(d, v, g, &w->pw2, (zn_tail){ .residual = &in });
    if (!zn_vk_conv_fused(d, g, v, &w->pw3, w->eps, true)) {
        zn_vk_norm(d, g, v, &norm, NULL, (zn_tail){ 0 });
        zn_vk_conv2d(d, wide2, g, &w->pw3, (zn_tail){ 0 });
        zn_vk_binary(d, g, zn_slice(wide2, 0, x.c), zn_slice(wide2, x.c, x.c), ZN_MUL, (zn_tail){ 0 });
    }
    zn_vk_conv2d(d, out, g, &w->pw4, (zn_tail){ .residual = &v });
}

void zn_vk_gated(void *dev, zn_tensor y, zn_tensor x, const zn_gated *w)
{
    const size_t row = (size_t)x.w * (size_t)x.c * zn_type_size(x.type); /* of which a strip has 4, and 6 around it */
    const int h = (int)zn_imin(x.h, STRIP / row > 8 ? (int)(STRIP / row - 6) / 4 : 1);
    char *room = zn_vk_scratch(dev, row * (size_t)(4 * h + 6) + 4 * 256);

    for (int n = 0; n < x.n && room; n++)
        for (int i = 0; i < x.h; i += h)
            strip(dev, y, x, w, n, i, zn_imin(i + h, x.h), room);
}
