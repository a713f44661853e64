/* SPDX-License-Identifier: MIT */
/* norm.c - layer and RMS norm in one kernel; group norm in three: statistics of chunks, scales of channels, the result. */
#include "vulkan.h"

enum { ROW_THREADS = 128, THREADS = 256, CHUNK = 1 << 12, MAX_CHUNKS = 512 };

static uint32_t ld_of(const zn_tensor *t)
{
    return t ? (uint32_t)t->ld : 0;
}

static zn_tensor or_none(const zn_tensor *t)
{
    return t ? *t : (zn_tensor){ 0 };
}

static bool fours(zn_tensor t)
{
    return t.type == ZN_F16 && zn_vk_vectors(t, 4);
}

static void row_norm(zn_vk *d, zn_tensor y, zn_tensor x, const zn_norm *w, const zn_modulation *m, zn_tail t)
{
    const struct {
        uint32_t pixels, c, image, y_ld, x_ld, res_ld, scale_ld, shift_ld, gate_ld;
        float gain, eps;
    } g = { (uint32_t)zn_pixels(x),
            (uint32_t)x.c,
            (uint32_t)(x.h * x.w),
            (uint32_t)y.ld,
            (uint32_t)x.ld,
            ld_of(t.residual),
            (uint32_t)m->scale.ld,
            (uint32_t)m->shift.ld,
            (uint32_t)m->gate.ld,
            zn_vk_gain(t),
            w->eps };
    int team = 1;

    while (team < ROW_THREADS && team * 8 < x.c)
        team *= 2;
    zn_vk_run(d,
              &(zn_vk_launch){ .kernel = "norm_rows",
                               .t = { y, x, or_none(t.residual), zn_vk_floats(w->gamma), zn_vk_floats(w->beta),
                                      m->scale, m->shift, m->gate },
                               .spec = { t.pre, t.post, team, w->kind == ZN_RMS_NORM },
                               .groups = zn_vk_blocks(zn_pixels(x), (size_t)(ROW_THREADS / team)),
                               .work = 24 * (double)zn_pixels(x) * x.c,
                               .args = &g,
                               .args_size = sizeof g });
}

/* scale and shift: [images][to_ld] each, of a group norm.  partial: [images][groups][chunks][2]. */
static void find_scales(zn_vk *d, float *scale, float *shift, int to_ld, float *partial, zn_tensor x, const zn_norm *w,
                        uint32_t chunk, uint32_t chunks)
{
    const uint32_t pixels = (uint32_t)(x.h * x.w), groups = (uint32_t)w->groups, size = (uint32_t)(x.c / w->groups);
    const struct {
        uint32_t pixels, x_ld, groups, size, chunk, chunks, n;
    } first = { pixels, (uint32_t)x.ld, groups, size, chunk, chunks, (uint32_t)x.n * groups * chunks };
    const struct {
        uint32_t pixels, groups, size, chunk, chunks, n, to_ld;
        float eps;
    } second = { pixels, groups, size, chunk, chunks, (uint32_t)x.n * groups, (uint32_t)to_ld, w->eps };

    zn_vk_run(d,
              &(zn_vk_launch){ .kernel = "group_partial",
                               .t = { zn_vk_floats(partial), x },
                               .spec = { [2] = fours(x) && size % 4 == 0 },
                               .groups = first.n,
                               .work = 16 * (double)zn_pixels(x) * x.c,
                               .args = &first,
                               .args_size = sizeof first });
    zn_vk_run(d,
              &(zn_vk_launch){ .kernel = "group_final",
                               .t = { zn_vk_floats(scale), zn_vk_floats(partial), zn_vk_floats(shift),
                                      zn_vk_floats(w->gamma), zn_vk_floats(w->beta) },
                               .groups = second.n,
                               .work = 16 * (double)second.n * chunks,
                               .args = &second,
                               .args_size = sizeof second });
}

static void cut(zn_tensor x, const zn_norm *w, uint32_t *chunk, uint32_t *chunks)
{
    const size_t pixels = (size_t)x.h * (size_t)x.w, size = (size_t)(x.c / w->groups);
    size_t each = CHUNK / size ? CHUNK / size : 1;

    if (zn_vk_blocks(pixels, each) > MAX_CHUNKS)
        each = zn_vk_blocks(pixels, MAX_CHUNKS);
    *chunk = (uint32_t)each;
    *chunks = (uint32_t)zn_vk_blocks(pixels, each);
}

/* of_ld 0: the same scale and shift for all images. */
static void apply(zn_vk *d, zn_tensor y, zn_tensor x, const float *scale, const float *shift, int of_ld,
                  const zn_modulation *m, zn_tail t)
{
    const size_t n = zn_pixels(x) * (size_t)x.c;
    const bool vectors = fours(x) && fours(y);
    const struct {
        uint32_t n, c, image, of_ld, y_ld, x_ld, res_ld, scale_ld, shift_ld, gate_ld;
        float gain;
    } g = { (uint32_t)n,           (uint32_t)x.c,        (uint32_t)(x.h * x.w), (uint32_t)of_ld,
            (uint32_t)y.ld,        (uint32_t)x.ld,       ld_of(t.residual),     (uint32_t)m->scale.ld,
            (uint32_t)m->shift.ld, (uint32_t)m->gate.ld, zn_vk_gain(t) };

    zn_vk_run(d,
              &(zn_vk_launch){ .kernel = "scale",
                               .t = { y, x, or_none(t.residual), zn_vk_floats(scale), zn_vk_floats(shift), m->scale,
                                      m->shift, m->gate },
                               .spec = { t.pre, t.post, vectors },
                               .groups = zn_vk_blocks(n, vectors ? 4 * THREADS : THREADS),
                               .work = 16 * (double)n,
                               .args = &g,
                               .args_size = sizeof g });
}

static void group_norm(zn_vk *d, zn_tensor y, zn_tensor x, const zn_norm *w, const zn_modulation *m, zn_tail t)
{
    const size_t all = (size_t)x.n * (size_t)x.c;
    uint32_t chunk, chunks;
    float *scale;

    cut(x, w, &chunk, &chunks);
    scale = zn_vk_scratch(d, (2 * all + 2 * (size_t)x.n * (size_t)w->groups * chunks) * sizeof *scale);
    if (!scale)
        return;
    find_scales(d, scale, scale + all, x.c, scale + 2 * all, x, w, chunk, chunks);
    apply(d, y, x, scale, scale + all, x.c, m, t);
}

void zn_vk_group_scales(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w)
{
    uint32_t chunk, chunks;
    float *partial;

    cut(x, w, &chunk, &chunks);
    partial = zn_vk_scratch(dev, 2 * (size_t)w->groups * chunks * sizeof *partial);
    if (partial)
        find_scales(dev, y.data, y.data + y.ld, y.ld, partial, x, w, chunk, chunks);
}

void zn_vk_norm(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w, const zn_modulation *m, zn_tail t)
{
    const zn_modulation none = { { 0 }, { 0 }, { 0 } };

    if (w->kind == ZN_GROUP_NORM)
        group_norm(dev, y, x, w, m ? m : &none, t);
    else if (w->kind == ZN_SCALED)
        apply(dev, y, x, w->gamma, w->beta, 0, &none, t);
    else
        row_norm(dev, y, x, w, m ? m : &none, t);
}
