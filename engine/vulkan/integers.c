/* SPDX-License-Identifier: MIT */
/* integers.c - linear layers whose inputs may be quantised (zn_conv.quantised_x), on a device that multiplies integers: products
 * of int8 with int8 or int4, as in cpu/integers.c.  Weights stay as they are stored; there is no copy of them in fp16.
 *
 * Where there are cooperative matrices, such layers multiply fp16 like all others: that is more exact, and as fast for the many
 * tokens of a picture (docs/speed/vulkan.md). */
#include "vulkan.h"

enum { PIXELS = 2048, THREADS = 64, BN = 64, ROWS = 8, FEW = 16 }; /* PIXELS: that are quantised at a time */

zn_wtype zn_vk_conv_inputs(void *dev, const zn_conv *w)
{
    const zn_vk *d = dev;

    return d->has.integers && zn_conv_integers_fit(w) ? ZN_W_I8 : ZN_W_F32;
}

static int groups_of(const zn_conv *w)
{
    return (w->cin + ZN_W_GROUP - 1) / ZN_W_GROUP;
}

/* Bytes of PIXELS pixels; their scales follow. */
static size_t quantised(const zn_conv *w)
{
    return (size_t)PIXELS * (size_t)groups_of(w) * ZN_W_GROUP;
}

size_t zn_vk_integers_scratch(const zn_conv *w)
{
    return quantised(w) + (size_t)PIXELS * (size_t)groups_of(w) * sizeof(float);
}

static void quantise(zn_vk *d, void *q, void *scale, zn_tensor x, int groups)
{
    const struct {
        uint32_t n, groups, c, x_ld;
    } g = { (uint32_t)x.w * (uint32_t)groups, (uint32_t)groups, (uint32_t)x.c, (uint32_t)x.ld };

    zn_vk_run(d,
              &(zn_vk_launch){ .kernel = "quantise",
                               .t = { zn_vk_floats(q), x, zn_vk_floats(scale) },
                               .spec = { [2] = x.type == ZN_F16 && zn_vk_vectors(x, 8) },
                               .groups = zn_vk_blocks(g.n, THREADS),
                               .work = 8.0 * ZN_W_GROUP * g.n,
                               .args = &g,
                               .args_size = sizeof g });
}

/* n pixels from `first` on, as one row. */
static zn_tensor pixels_of(zn_tensor t, size_t first, size_t n)
{
    char *data = (char *)t.data;

    if (!data)
        return t;
    return (zn_tensor){
        (float *)(void *)(data + first * (size_t)t.ld * zn_type_size(t.type)), 1, 1, (int32_t)n, t.c, t.ld, t.type
    };
}

void zn_vk_integers(zn_vk *d, zn_tensor y, zn_tensor x, const zn_conv *w, zn_vk_rows rows, zn_tail t)
{
    const int groups = groups_of(w);
    const size_t pixels = zn_pixels(y);
    const zn_tensor residual = t.residual ? *t.residual : (zn_tensor){ 0 };
    char *q = zn_vk_weights_room(d, zn_vk_integers_scratch(w));

    for (size_t first = 0, n; q && first < pixels; first += n) {
        n = pixels - first < PIXELS ? pixels - first : PIXELS;

        const int each = n <= FEW ? FEW / ROWS : 8; /* pixels of an invocation */
        const struct {
            uint32_t pixels, y_ld, res_ld, cout, groups;
            float gain;
        } g = {
            (uint32_t)n, (uint32_t)y.ld, (uint32_t)residual.ld, (uint32_t)w->cout, (uint32_t)groups, zn_vk_gain(t)
        };

        quantise(d, q, q + quantised(w), pixels_of(x, first, n), groups);
        zn_vk_run(d,
                  &(zn_vk_launch){ .kernel = "integers",
                                   .t = { pixels_of(y, first, n), zn_vk_floats(q), pixels_of(residual, first, n),
                                          zn_vk_floats(rows.weight), zn_vk_floats(rows.bias),
                                          zn_vk_floats(q + quantised(w)), zn_vk_floats(rows.scale) },
                                   .spec = { t.pre, t.post, rows.four_bits, each },
                                   .groups = zn_vk_blocks(n, (size_t)(ROWS * each)) * zn_vk_blocks((size_t)w->cout, BN),
                                   .work = (double)n * w->cout * (ZN_W_GROUP * groups + 16.0),
                                   .args = &g,
                                   .args_size = sizeof g });
    }
}
