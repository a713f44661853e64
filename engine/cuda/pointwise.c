/* SPDX-License-Identifier: MIT */
/* pointwise.c - elementwise operations, resize and shuffles: which kernel, and how many blocks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"

enum { THREADS = 256, VECTOR = ZN_CUDA_VECTOR };

static bool dense(zn_tensor t)
{
    return !t.data || t.ld == t.c;
}

/* ---- map, binary, step, fill -------------------------------------------------------------------------- */

/* Sets how the kernel goes through the tensors, of which b is not one if it is broadcast.  True: in vectors. */
static bool in_vectors(zn_args_pointwise *g)
{
    zn_tensor t[] = { g->y, g->a, g->tail.residual, g->b };
    const int n = g->spread ? 3 : 4;
    bool wide = true, flat = g->spread == ZN_SPREAD_NONE || g->spread == ZN_SPREAD_ONE, begins = true;
    size_t elements = zn_pixels(g->y) * (size_t)g->y.c;

    for (int i = 0; i < n; i++) {
        wide = wide && zn_cuda_vectors(t[i]);
        flat = flat && dense(t[i]);
        begins = begins && zn_cuda_on_16(t[i].data);
    }
    if (g->spread == ZN_SPREAD_VECTOR)
        wide = wide && zn_cuda_vectors(g->b);
    if (flat && begins) {
        g->n = elements / VECTOR;
        g->rest = (uint32_t)(elements % VECTOR);
        return true;
    }
    if (wide) {
        g->per_pixel = (uint32_t)g->y.c / VECTOR;
        g->n = elements / VECTOR;
        return true;
    }
    g->per_pixel = flat ? 0 : (uint32_t)g->y.c;
    g->n = elements;
    return false;
}

static void pointwise(zn_cuda *d, zn_args_pointwise *g)
{
    zn_tensor t[] = { g->y, g->a, g->b, g->tail.residual };
    const char *type = zn_cuda_common_type(t, 4);
    const bool wide = in_vectors(g), any = g->spread || g->coefs; /* kernels for any types */
    const bool alone = wide && !any && !g->b.data && !g->tail.residual.data && strcmp(type, "any");
    char name[32] = "pointwise_v1";

    if (any)
        snprintf(name, sizeof name, "%s_%s", g->coefs ? "step" : "broadcast", wide ? "v8" : "v1");
    else if (wide)
        snprintf(name, sizeof name, "%s_v8_%s", alone ? "map" : "pointwise", type);
    zn_cuda_launch(d, name, zn_cuda_blocks(g->n + !g->n, (alone ? 4 : 2) * THREADS), 1, 1, THREADS, 0, g);
}

void zn_cuda_map(void *dev, zn_tensor y, zn_tensor x, zn_tail t)
{
    zn_args_pointwise g = { .y = y, .a = x, .tail = zn_cuda_tail_of(t) };

    pointwise(dev, &g);
}

static zn_spread spread_of(zn_tensor b, zn_tensor y)
{
    if (zn_pixels(b) == zn_pixels(y) && b.c == y.c)
        return ZN_SPREAD_NONE;
    if (zn_pixels(b) == 1 && b.c == 1)
        return ZN_SPREAD_ONE;
    return b.c == y.c && b.h == 1 && b.w == 1 ? ZN_SPREAD_VECTOR : ZN_SPREAD_PIXEL;
}

void zn_cuda_binary(void *dev, zn_tensor y, zn_tensor a, zn_tensor b, zn_binary op, zn_tail t)
{
    zn_args_pointwise g = { .y = y,
                            .a = a,
                            .b = b,
                            .tail = zn_cuda_tail_of(t),
                            .op = op,
                            .spread = spread_of(b, y),
                            .image = (uint32_t)(y.h * y.w) };

    pointwise(dev, &g);
}

void zn_cuda_step(void *dev, zn_tensor y, zn_tensor x, zn_tensor p, zn_tensor coefs, float clip)
{
    zn_args_pointwise g = { .y = y, .a = x, .b = p, .coefs = coefs.data, .clip = clip > 0 ? clip : INFINITY };

    pointwise(dev, &g);
}

void zn_cuda_fill(void *dev, zn_tensor y, const float *value)
{
    zn_args_fill g = { .y = y };

    for (int c = 0; c < y.c; c += ZN_CUDA_FILL) {
        g.first = (uint32_t)c;
        g.n = (uint32_t)(y.c - c < ZN_CUDA_FILL ? y.c - c : ZN_CUDA_FILL);
        for (uint32_t i = 0; i < g.n; i++)
            g.value[i] = value[c + (int)i];
        zn_cuda_launch(dev, "fill_any", zn_cuda_blocks(zn_pixels(y) * g.n, 4 * THREADS), 1, 1, THREADS, 0, &g);
    }
}

/* ---- rope, lookup ------------------------------------------------------------------------------------- */

void zn_cuda_rope(void *dev, zn_tensor y, zn_tensor x, const zn_rope *r)
{
    zn_args_rope g = { .y = y,
                       .x = x,
                       .cos = r->cos.data,
                       .sin = r->sin.data,
                       .cos_ld = (uint32_t)r->cos.ld,
                       .sin_ld = (uint32_t)r->sin.ld,
                       .half = x.c / r->heads / 2,
                       .interleaved = r->interleaved,
                       .image = (uint32_t)(x.h * x.w) };
    const bool wide = zn_cuda_vectors(y) && zn_cuda_vectors(x) && zn_cuda_vectors(r->cos) && zn_cuda_vectors(r->sin);
    const uint32_t each = wide ? VECTOR : 1;

    g.per_head = (uint32_t)g.half / each;
    g.per_pixel = g.per_head * (uint32_t)r->heads;
    g.n = zn_pixels(x) * g.per_pixel;
    zn_cuda_launch(dev, wide ? "rope_v8" : "rope_v1", zn_cuda_blocks(g.n, THREADS), 1, 1, THREADS, 0, &g);
}

void zn_cuda_lookup(void *dev, zn_tensor y, zn_tensor table, zn_tensor index)
{
    const bool wide = zn_cuda_vectors(y) && zn_cuda_vectors(table);
    zn_args_lookup g = { .y = y, .table = table, .index = index, .per_pixel = (uint32_t)(wide ? y.c / VECTOR : y.c) };

    g.n = zn_pixels(y) * g.per_pixel;
    zn_cuda_launch(dev, wide ? "lookup_v8" : "lookup_v1", zn_cuda_blocks(g.n, THREADS), 1, 1, THREADS, 0, &g);
}

/* ---- resize, unshuffle, shuffle ----------------------------------------------------------------------- */

static void average(zn_cuda *d, zn_tensor y, zn_tensor x)
{
    enum { FEW = 64, COLS = 32 }; /* pixels of a window that one thread sums; vectors of a block otherwise */
    const bool wide = zn_cuda_vectors(y) && zn_cuda_vectors(x);
    zn_args_average g = { .y = y, .x = x, .h = x.h / y.h, .w = x.w / y.w };

    g.per_pixel = (uint32_t)(wide ? y.c / VECTOR : y.c);
    g.n = zn_pixels(y) * g.per_pixel;
    g.cols = zn_imin((int)g.per_pixel, COLS);
    if (g.h * g.w <= FEW)
        zn_cuda_launch(d, wide ? "average_v8" : "average_v1", zn_cuda_blocks(g.n, THREADS), 1, 1, THREADS, 0, &g);
    else
        zn_cuda_launch(d, wide ? "average_long_v8" : "average_long_v1", (unsigned)zn_pixels(y),
                       zn_cuda_blocks(g.per_pixel, (size_t)g.cols), 1, THREADS, 0, &g);
}

void zn_cuda_resize(void *dev, zn_tensor y, zn_tensor x, zn_filter f)
{
    enum { ROWS = 8, MOST = 65535 }; /* of a thread; of blocks in y */
    bool wide = zn_cuda_vectors(y) && zn_cuda_vectors(x);
    zn_args_resize g = { y, x, (uint32_t)(wide ? y.c / VECTOR : y.c) };
    unsigned down = zn_cuda_blocks((size_t)y.n * (size_t)y.h, ROWS);

    if (f == ZN_AVERAGE)
        average(dev, y, x);
    else
        zn_cuda_launch(dev, wide ? "resize_v8" : "resize_v1", zn_cuda_blocks((size_t)y.w * g.per_pixel, THREADS),
                       down < MOST ? down : MOST, 1, THREADS, 0, &g);
}

static uint32_t magic(int n)
{
    return n == 1 ? 0 : (uint32_t)((((uint64_t)1 << 32) + (uint64_t)n - 1) / (uint64_t)n);
}

static void move(zn_cuda *d, const char *kernel, zn_tensor small, zn_tensor big, int r, zn_tail t)
{
    enum { TILE = 8192, LEAST = 2048 }; /* elements of a block; fewer if that occupies more multiprocessors */
    zn_args_shuffle g = { .small = small, .big = big, .tail = zn_cuda_tail_of(t), .r = r };
    size_t tile = TILE, elements = zn_pixels(small) * (size_t)small.c;
    int rr = r * r, room, per_pixel, across;

    while (tile > LEAST && elements / tile < 4 * (size_t)d->sms)
        tile /= 2;
    room = (int)tile / rr > 1 ? (int)tile / rr : 1;

    g.channels = big.c < room ? big.c : room;
    if (g.channels < big.c && g.channels >= VECTOR)
        g.channels = g.channels / VECTOR * VECTOR; /* parts begin at a vector */
    g.small_vectors = zn_cuda_vectors(small) && g.channels * rr % VECTOR == 0;
    g.big_vectors = zn_cuda_vectors(big) && zn_cuda_vectors(g.tail.residual) && g.channels % VECTOR == 0;
    g.pixels = room / g.channels < small.w ? room / g.channels : small.w;
    across = g.pixels * g.channels + g.pixels * g.channels / 32; /* with its padding */
    g.pitch = rr <= 32 ? zn_round_up(across, 32) + 32 / rr : across | 1;
    g.n_tiles = zn_cuda_blocks((size_t)small.w, (size_t)g.pixels);
    per_pixel = g.channels / (g.big_vectors ? VECTOR : 1);
    g.magic_r = magic(r);
    g.magic_rr = magic(rr);
    g.magic_row = magic(g.pixels * r * per_pixel);
    g.magic_channels = magic(per_pixel);
    g.magic_vectors = magic(g.channels * rr / (g.small_vectors ? VECTOR : 1));
    assert((size_t)rr * (size_t)g.pitch * sizeof(float) <= (size_t)d->smem_max);
    zn_cuda_launch(d, kernel, (unsigned)((size_t)small.n * (size_t)small.h * g.n_tiles),
                   zn_cuda_blocks((size_t)big.c, (size_t)g.channels), 1, THREADS,
                   (unsigned)((size_t)rr * (size_t)g.pitch * sizeof(float)), &g);
}

/* For few channels, if rows of big are whole vectors without gaps.  False: not these tensors. */
static bool shuffle_rows(zn_cuda *d, zn_tensor small, zn_tensor big, int r, zn_tail t)
{
    zn_args_shuffle_rows g = { .small = small, .big = big, .tail = zn_cuda_tail_of(t), .r = r };
    const zn_tensor res = g.tail.residual;
    const size_t row = (size_t)big.w * (size_t)big.c;
    char name[32] = "shuffle_rows_any";

    if (big.c % VECTOR == 0 || row % VECTOR || row > UINT32_MAX || !dense(big) || !dense(res) ||
        (uintptr_t)big.data % 16 || (uintptr_t)res.data % 16 || (size_t)small.n * (size_t)small.h > UINT32_MAX)
        return false;
    g.vectors = (uint32_t)(row / VECTOR);
    g.n = (size_t)big.n * (size_t)big.h * g.vectors;
    if (r == 2)
        snprintf(name, sizeof name, "shuffle_rows_2_%s", zn_cuda_type_name(small.type));
    zn_cuda_launch(d, name, zn_cuda_blocks(g.n, THREADS), 1, 1, THREADS, 0, &g);
    return true;
}

void zn_cuda_unshuffle(void *dev, zn_tensor y, zn_tensor x, int r)
{
    move(dev, "unshuffle_any", y, x, r, (zn_tail){ 0 });
}

void zn_cuda_shuffle(void *dev, zn_tensor y, zn_tensor x, int r, zn_tail t)
{
    if (!shuffle_rows(dev, x, y, r, t))
        move(dev, "shuffle_any", x, y, r, t);
}
