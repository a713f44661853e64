/* SPDX-License-Identifier: MIT */
/* conv.c - convolution: chooses the algorithm of a layer.  The first one that suits it packs its weights and runs it. */
#include "conv.h"

static const zn_conv_algorithm *algorithm_of(const zn_cpu *d, const zn_conv *w)
{
    static const zn_conv_algorithm *const list[] = {
        &zn_conv_integers,  &zn_conv_tiles,   &zn_conv_formula, &zn_conv_winograd, &zn_conv_rounded,
        &zn_conv_depthwise, &zn_conv_grouped, &zn_conv_narrow,  &zn_conv_implicit,
    };
    size_t i = 0;

    while (!list[i]->suits(d, w)) /* the last one suits all */
        i++;
    return list[i];
}

/* What x is rounded to before it is multiplied. */
static zn_wtype inputs_of(const zn_conv_algorithm *a, const zn_conv *w)
{
    return a == &zn_conv_winograd && w->tensors == ZN_F16 ? ZN_W_F16 : a->inputs;
}

size_t zn_cpu_conv_size(void *dev, const zn_conv *w)
{
    const zn_cpu *d = dev;

    return algorithm_of(d, w)->size(d->k, w);
}

void zn_cpu_conv_pack(void *dev, const zn_conv *w, const float *weight, const float *bias)
{
    const zn_cpu *d = dev;

    algorithm_of(d, w)->pack(d, w, weight, bias);
}

bool zn_cpu_conv_pack_rows(void *dev, const zn_conv *w, const zn_row_source *rows, const float *bias)
{
    const zn_cpu *d = dev;
    const bool takes = algorithm_of(d, w) == &zn_conv_integers && w->cin % ZN_W_GROUP == 0;

    if (takes && rows)
        zn_integers_pack_rows(d, w, rows, bias);
    return takes;
}

size_t zn_cpu_conv_scratch(void *dev, const zn_conv *w)
{
    const zn_cpu *d = dev;
    const zn_conv_algorithm *a = algorithm_of(d, w);

    if (w->tensors == ZN_F16 && inputs_of(a, w) == ZN_W_F32)
        return ZN_CONV_BAND;
    if (a == &zn_conv_implicit)
        return zn_winograd_scratch(d->k, w);
    return a->scratch ? a->scratch(d->k, w) : 0;
}

zn_wtype zn_cpu_conv_inputs(void *dev, const zn_conv *w)
{
    const zn_cpu *d = dev;
    const zn_wtype inputs = inputs_of(algorithm_of(d, w), w);
    const bool wants = d->tiles && (w->precision == ZN_TF32 || w->precision == ZN_BF16_MATH);
    const bool linear = w->groups == 1 && w->kh * w->kw == 1 && !w->up2;

    /* in a gated block, that is, if not in a convolution */
    return wants && linear && (w->cin >= ZN_TILES_PAY || d->tiles->everywhere) ? ZN_W_BF16 : inputs;
}

int zn_cpu_conv_block(void *dev, const zn_conv *w)
{
    const zn_cpu *d = dev;
    const zn_conv_algorithm *a = algorithm_of(d, w);

    return a == &zn_conv_winograd || a == &zn_conv_implicit ? zn_winograd_side(d->k, w) : 1;
}

void zn_cpu_conv2d(void *dev, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t)
{
    zn_conv_job job = { .d = dev, .y = y, .x = x, .w = w, .t = zn_cpu_tail(t) };

    const zn_conv_algorithm *a = algorithm_of(job.d, w);

    if (inputs_of(a, w) == ZN_W_F32 && (y.type != ZN_F32 || x.type != ZN_F32))
        zn_conv_run_in_bands(&job, a);
    else if (a != &zn_conv_implicit || !zn_winograd_run(&job)) /* both read what implicit.c has packed */
        a->run(&job);
}

zn_conv_row_fn *zn_cpu_conv_rows(const zn_cpu *d, const zn_conv *w)
{
    const zn_conv_algorithm *a = algorithm_of(d, w);

    assert(a->unpack_row);
    return a->unpack_row;
}
