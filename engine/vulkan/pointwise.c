/* SPDX-License-Identifier: MIT */
/* pointwise.c - elementwise operations, resize and shuffles. */
#include <math.h>

#include "vulkan.h"

enum { THREADS = 256, INLINE = 16384 }; /* floats that zn_vk_inline takes */

static size_t elements(zn_tensor t)
{
    return zn_pixels(t) * (size_t)t.c;
}

static uint32_t ld_of(const zn_tensor *t)
{
    return t ? (uint32_t)t->ld : 0;
}

static zn_tensor or_none(const zn_tensor *t)
{
    return t ? *t : (zn_tensor){ 0 };
}

/* ---- map, binary, step, fill -------------------------------------------------------------------------- */

enum { MAP, ADD, MULTIPLY, STEP };                             /* OP in pointwise.comp */
enum { SPREAD_NONE, SPREAD_VECTOR, SPREAD_PIXEL, SPREAD_ONE }; /* SPREAD */

static bool eights(zn_tensor t)
{
    return !t.data || (t.type == ZN_F16 && zn_vk_vectors(t, 8));
}

/* fp16 in vectors of 8.  False: not these tensors. */
static bool pointwise8(zn_vk *d, zn_tensor y, zn_tensor a, zn_tensor b, int op, zn_tail t)
{
    const zn_tensor res = or_none(t.residual);
    const size_t n = elements(y) / 8;
    const bool dense = y.ld == y.c && a.ld == a.c && b.ld == b.c && res.ld == res.c;
    const struct {
        uint32_t n, c, y_ld, a_ld, b_ld, res_ld;
        float gain;
    } g = { (uint32_t)n,    dense ? 0 : (uint32_t)y.c / 8,
            (uint32_t)y.ld, (uint32_t)a.ld,
            (uint32_t)b.ld, ld_of(t.residual),
            zn_vk_gain(t) };

    if (!y.data || !eights(y) || !eights(a) || !eights(b) || !eights(res) || y.type != ZN_F16 || a.type != ZN_F16)
        return false;
    zn_vk_run(d,
              &(zn_vk_launch){ .kernel = "pointwise8",
                               .t = { y, a, res, b },
                               .spec = { t.pre, t.post, op },
                               .groups = zn_vk_blocks(n, THREADS),
                               .work = 8 * (double)elements(y),
                               .args = &g,
                               .args_size = sizeof g });
    return true;
}

static void pointwise(zn_vk *d, zn_tensor y, zn_tensor a, zn_tensor b, int op, int spread, zn_tail t,
                      const float *coefs, float clip)
{
    const struct {
        uint32_t n, c, y_ld, a_ld, b_ld, res_ld, image;
        float gain, clip;
    } g = { (uint32_t)elements(y), (uint32_t)y.c,  (uint32_t)y.ld,
            (uint32_t)a.ld,        (uint32_t)b.ld, ld_of(t.residual),
            (uint32_t)(y.h * y.w), zn_vk_gain(t),  clip };

    if (spread == SPREAD_NONE && op != STEP && pointwise8(d, y, a, b, op, t))
        return;
    zn_vk_run(d,
              &(zn_vk_launch){ .kernel = "pointwise",
                               .t = { y, a, or_none(t.residual), b, zn_vk_floats(coefs) },
                               .spec = { t.pre, t.post, op, spread },
                               .groups = zn_vk_blocks(elements(y), THREADS),
                               .work = 16 * (double)elements(y),
                               .args = &g,
                               .args_size = sizeof g });
}

void zn_vk_map(void *dev, zn_tensor y, zn_tensor x, zn_tail t)
{
    pointwise(dev, y, x, (zn_tensor){ 0 }, MAP, SPREAD_NONE, t, NULL, 0);
}

static int spread_of(zn_tensor b, zn_tensor y)
{
    if (zn_pixels(b) == zn_pixels(y) && b.c == y.c)
        return SPREAD_NONE;
    if (zn_pixels(b) == 1 && b.c == 1)
        return SPREAD_ONE;
    return b.c == y.c && b.h == 1 && b.w == 1 ? SPREAD_VECTOR : SPREAD_PIXEL;
}

void zn_vk_binary(void *dev, zn_tensor y, zn_tensor a, zn_tensor b, zn_binary op, zn_tail t)
{
    pointwise(dev, y, a, b, op == ZN_ADD ? ADD : MULTIPLY, spread_of(b, y), t, NULL, 0);
}

void zn_vk_step(void *dev, zn_tensor y, zn_tensor x, zn_tensor p, zn_tensor coefs, float clip)
{
    pointwise(dev, y, x, p, STEP, SPREAD_NONE, (zn_tail){ 0 }, coefs.data, clip > 0 ? clip : INFINITY);
}

void zn_vk_fill(void *dev, zn_tensor y, const float *value)
{
    zn_vk *d = dev;
    float *to = zn_vk_scratch(d, INLINE * sizeof *to);

    for (int c = 0; c < y.c && to; c += INLINE) {
        const int n = zn_imin(y.c - c, INLINE);
        const size_t total = zn_pixels(y) * (size_t)n;
        const struct {
            uint32_t total, y_ld, first, n;
        } g = { (uint32_t)total, (uint32_t)y.ld, (uint32_t)c, (uint32_t)n };

        zn_vk_inline(d, to, value + c, (size_t)n * sizeof *value);
        zn_vk_run(d,
                  &(zn_vk_launch){ .kernel = "fill",
                                   .t = { y, zn_vk_floats(to) },
                                   .groups = zn_vk_blocks(total, THREADS),
                                   .work = 8 * (double)total,
                                   .args = &g,
                                   .args_size = sizeof g });
    }
}

/* ---- rope, lookup ------------------------------------------------------------------------------------- */

void zn_vk_rope(void *dev, zn_tensor y, zn_tensor x, const zn_rope *r)
{
    const size_t n = elements(x) / 2;
    const struct {
        uint32_t n, y_ld, x_ld, cos_ld, sin_ld, half, pairs, image;
    } g = { (uint32_t)n,         (uint32_t)y.ld,       (uint32_t)x.ld,
            (uint32_t)r->cos.ld, (uint32_t)r->sin.ld,  (uint32_t)(x.c / r->heads / 2),
            (uint32_t)(x.c / 2), (uint32_t)(x.h * x.w) };

    zn_vk_run(dev,
              &(zn_vk_launch){ .kernel = "rope",
                               .t = { y, x, r->cos, r->sin },
                               .spec = { [2] = r->interleaved },
                               .groups = zn_vk_blocks(n, THREADS),
                               .work = 32 * (double)n,
                               .args = &g,
                               .args_size = sizeof g });
}

void zn_vk_lookup(void *dev, zn_tensor y, zn_tensor table, zn_tensor index)
{
    const struct {
        uint32_t n, c, y_ld, table_ld, index_ld, rows;
    } g = { (uint32_t)elements(y), (uint32_t)y.c,      (uint32_t)y.ld,
            (uint32_t)table.ld,    (uint32_t)index.ld, (uint32_t)table.w };

    zn_vk_run(dev,
              &(zn_vk_launch){ .kernel = "lookup",
                               .t = { y, table, index },
                               .groups = zn_vk_blocks(elements(y), THREADS),
                               .work = 16 * (double)elements(y),
                               .args = &g,
                               .args_size = sizeof g });
}

/* ---- resize, unshuffle, shuffle ----------------------------------------------------------------------- */

void zn_vk_resize(void *dev, zn_tensor y, zn_tensor x, zn_filter f)
{
    const struct {
        uint32_t n, c, y_ld, x_ld, yh, yw, xh, xw;
    } g = { (uint32_t)elements(y), (uint32_t)y.c, (uint32_t)y.ld, (uint32_t)x.ld,
            (uint32_t)y.h,         (uint32_t)y.w, (uint32_t)x.h,  (uint32_t)x.w };

    zn_vk_run(dev,
              &(zn_vk_launch){ .kernel = "resize",
                               .t = { y, x },
                               .spec = { [2] = f == ZN_AVERAGE },
                               .groups = zn_vk_blocks(elements(y), THREADS),
                               .work = 8 * (double)(elements(y) + elements(x)),
                               .args = &g,
                               .args_size = sizeof g });
}

/* small: the tensor with more channels. */
static void move(zn_vk *d, zn_tensor y, zn_tensor x, zn_tensor small, int r, bool to_big, zn_tail t)
{
    const struct {
        uint32_t n, c, y_ld, x_ld, h, w, r, res_ld;
        float gain;
    } g = { (uint32_t)elements(y), (uint32_t)y.c, (uint32_t)y.ld,    (uint32_t)x.ld, (uint32_t)small.h,
            (uint32_t)small.w,     (uint32_t)r,   ld_of(t.residual), zn_vk_gain(t) };

    zn_vk_run(d,
              &(zn_vk_launch){ .kernel = "shuffle",
                               .t = { y, x, or_none(t.residual) },
                               .spec = { t.pre, t.post, to_big },
                               .groups = zn_vk_blocks(elements(y), THREADS),
                               .work = 16 * (double)elements(y),
                               .args = &g,
                               .args_size = sizeof g });
}

void zn_vk_unshuffle(void *dev, zn_tensor y, zn_tensor x, int r)
{
    move(dev, y, x, y, r, false, (zn_tail){ 0 });
}

void zn_vk_shuffle(void *dev, zn_tensor y, zn_tensor x, int r, zn_tail t)
{
    move(dev, y, x, x, r, true, t);
}
