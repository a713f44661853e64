/* SPDX-License-Identifier: MIT */
/* reach.c - the pixels that a tile of a picture is computed from: see vae.h.
 *
 *     y   . . [ block ][ block ] . .       a block of a convolution rounds each of its pixels by all that it reads
 *     x   . [ --------------------- ] .    (zn_backend.conv_block), so that whole blocks are needed, layer after layer
 *
 * Tiles begin where blocks do, at each resolution: then they are the blocks of the whole picture, and every pixel of a tile
 * has the bits that it has in one piece. */
#include "vae.h"

static int block_of(const zn_backend *be, void *dev, const zn_conv *w)
{
    return be->conv_block && w->kh ? be->conv_block(dev, w) : 1;
}

/* Rounded down, also below 0. */
static int floor_div(int a, int b)
{
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}

/* Of x, what a convolution reads for these pixels of y. */
static zn_span under(const zn_backend *be, void *dev, const zn_conv *w, zn_span y)
{
    const int side = block_of(be, dev, w), from = floor_div(y.from, side), last = floor_div(y.end - 1, side);

    if (w->up2 && side > 1) /* a block of y begins with an odd row */
        return (zn_span){ floor_div(y.from + 1, 2 * side) * side - 1, (floor_div(y.end, 2 * side) + 1) * side };
    if (w->up2)
        return (zn_span){ floor_div(y.from - 1, 2), floor_div(y.end, 2) + 1 };
    if (w->stride == 2) /* one more for the parities of x, where there are blocks */
        return (zn_span){ 2 * side * from - w->pad_t, 2 * side * (last + 1) - 2 - w->pad_t + w->kh + (side > 1) };
    return (zn_span){ side * from - w->pad_t, side * (last + 1) - 1 - w->pad_t + w->kh };
}

static zn_span under_blocks(const zn_backend *be, void *dev, const zn_vae_level *l, zn_span y)
{
    for (int i = l->n_res - 1; i >= 0; i--)
        y = under(be, dev, &l->res[i].conv1, under(be, dev, &l->res[i].conv2, y));
    return y;
}

zn_span zn_vae_reach(const zn_backend *be, void *dev, const zn_vae *m, int level, zn_span latent)
{
    zn_span at = latent;

    for (int i = 0; m->decoder && i < m->n_levels; i++)
        if (m->level[i].resamples)
            at = (zn_span){ 2 * at.from, 2 * at.end };
    if (m->decoder)
        at = under(be, dev, &m->last, at);
    for (int i = m->n_levels - 1; i >= level; i--) {
        const zn_vae_level *l = &m->level[i];

        if (l->resamples)
            at = under(be, dev, &l->resample, at);
        at = under_blocks(be, dev, l, at);
    }
    if (m->decoder)
        return at;
    at = under(be, dev, &m->first, at);
    return (zn_span){ at.from * m->patch, at.end * m->patch };
}

static int common_multiple(int a, int b)
{
    int r = a;

    while (r % b)
        r += a;
    return r;
}

int zn_vae_unit(const zn_backend *be, void *dev, const zn_vae *m)
{
    int unit = block_of(be, dev, m->decoder ? &m->last : &m->first);

    for (int i = 0; i < m->n_levels; i++) {
        const zn_vae_level *l = &m->level[i];

        if (l->resamples)
            unit = common_multiple(unit, block_of(be, dev, &l->resample));
        for (int j = 0; j < l->n_res; j++) {
            unit = common_multiple(unit, block_of(be, dev, &l->res[j].conv1));
            unit = common_multiple(unit, block_of(be, dev, &l->res[j].conv2));
        }
    }
    return unit;
}
