/* SPDX-License-Identifier: MIT */
/* spectral.c - Walsh-Hadamard transforms and the pruned convolution. */
#include "vulkan.h"

enum { THREADS = 256, LEAST = 2048, MAX_COLS = 64 };

/* Whether so many floats fit into shared memory; if not, the device has failed. */
static bool fits(zn_vk *d, int floats)
{
    if ((size_t)floats * sizeof(float) <= d->has.shared)
        return true;
    zn_vk_fail(d, ZN_E_DEVICE, "this GPU has too little shared memory for a transform of this length");
    return false;
}

static void along_c(zn_vk *d, zn_tensor y, zn_tensor x, const zn_fwht *w)
{
    const int total = zn_imax(w->n, LEAST), rounds = w->rounds ? w->rounds : 1;
    const struct {
        uint32_t pixels, x_c, y_c, x_ld, y_ld, rounds;
    } g = { (uint32_t)zn_pixels(x), (uint32_t)x.c, (uint32_t)y.c, (uint32_t)x.ld, (uint32_t)y.ld, (uint32_t)rounds };

    if (fits(d, total))
        zn_vk_run(d,
                  &(zn_vk_launch){ .kernel = "fwht_c",
                                   .t = { y, x, zn_vk_floats(w->pre), zn_vk_floats(w->perm), zn_vk_floats(w->slm),
                                          zn_vk_floats(w->mix), zn_vk_floats(w->gate), zn_vk_floats(w->bias) },
                                   .spec = { w->act, 0, w->n, total },
                                   .groups = zn_vk_blocks(zn_pixels(x), (size_t)(total / w->n)),
                                   .work = 64 * (double)zn_pixels(x) * w->n * (rounds + 1),
                                   .args = &g,
                                   .args_size = sizeof g });
}

static void along_line(zn_vk *d, zn_tensor y, zn_tensor x, const zn_fwht *w)
{
    const bool along_w = w->axis == ZN_ALONG_W;
    const uint32_t len = (uint32_t)(along_w ? x.w : x.h), lines = (uint32_t)(along_w ? x.h : x.w);
    int cols = 1;

    while (cols < MAX_COLS && cols < x.c && 2 * cols * w->n <= 2 * LEAST)
        cols *= 2;

    const uint32_t parts = (uint32_t)zn_vk_blocks((size_t)x.c, (size_t)cols);
    const uint32_t windows = (uint32_t)zn_vk_blocks((size_t)len + (size_t)w->shift, (size_t)w->n);
    const size_t groups = (size_t)parts * windows * lines * (size_t)x.n;
    const struct {
        uint32_t n, len, c, lines, shift, windows, parts, y_step, x_step, y_line, x_line, y_image, x_image;
    } g = { (uint32_t)groups,
            len,
            (uint32_t)x.c,
            lines,
            (uint32_t)w->shift,
            windows,
            parts,
            (uint32_t)(along_w ? y.ld : y.w * y.ld),
            (uint32_t)(along_w ? x.ld : x.w * x.ld),
            (uint32_t)(along_w ? y.w * y.ld : y.ld),
            (uint32_t)(along_w ? x.w * x.ld : x.ld),
            (uint32_t)(y.h * y.w) * (uint32_t)y.ld,
            (uint32_t)(x.h * x.w) * (uint32_t)x.ld };

    if (fits(d, cols * w->n))
        zn_vk_run(d,
                  &(zn_vk_launch){ .kernel = "fwht_line",
                                   .t = { y, x, zn_vk_floats(w->gate) },
                                   .spec = { 0, 0, w->n, cols, w->per_channel },
                                   .groups = groups,
                                   .work = 64 * (double)zn_pixels(x) * x.c,
                                   .args = &g,
                                   .args_size = sizeof g });
}

void zn_vk_fwht(void *dev, zn_tensor y, zn_tensor x, const zn_fwht *w)
{
    if (w->axis == ZN_ALONG_C)
        along_c(dev, y, x, w);
    else
        along_line(dev, y, x, w);
}

void zn_vk_pruned(void *dev, zn_tensor y, zn_tensor mask, zn_tensor x, const zn_pruned *w)
{
    for (int gate = w->scale ? 1 : 0; gate >= (w->weight ? 0 : 1); gate--) { /* the mask, then what it leaves */
        const size_t n = zn_pixels(x) * (size_t)(gate ? x.c / 8 : x.c);
        const struct {
            uint32_t n, c, h, w, y_ld, mask_ld, x_ld;
        } g = { (uint32_t)n,    (uint32_t)x.c,     (uint32_t)x.h, (uint32_t)x.w,
                (uint32_t)y.ld, (uint32_t)mask.ld, (uint32_t)x.ld };

        zn_vk_run(dev,
                  &(zn_vk_launch){ .kernel = "pruned",
                                   .t = { gate ? (zn_tensor){ 0 } : y, mask, x, zn_vk_floats(w->scale),
                                          zn_vk_floats(w->bias), zn_vk_floats(w->weight) },
                                   .spec = { [2] = gate },
                                   .groups = zn_vk_blocks(n, THREADS),
                                   .work = 32 * (double)n,
                                   .args = &g,
                                   .args_size = sizeof g });
    }
}
