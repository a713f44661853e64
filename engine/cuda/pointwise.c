/* SPDX-License-Identifier: MIT */
/* pointwise.c - resize, shuffles, map, binary, fill: which kernel, and how many blocks. */
#include <stdio.h>
#include <string.h>

#include "cuda.h"

enum { THREADS = 256, VECTOR = ZN_CUDA_VECTOR };

static bool dense(zn_tensor t)
{
    return !t.data || t.ld == t.c;
}

/* ---- map, binary, fill -------------------------------------------------------------------------------- */

static void pointwise(zn_cuda *d, zn_args_pointwise *g)
{
    zn_tensor t[] = { g->y, g->a, g->b, g->tail.residual };
    bool wide = true, flat = true, begins = true, alone;
    size_t numbers = zn_pixels(g->y) * (size_t)g->y.c;
    const char *type = zn_cuda_common_type(t, 4);
    char name[32] = "pointwise_v1";

    for (int i = 0; i < 4; i++) {
        wide = wide && zn_cuda_vectors(t[i]);
        flat = flat && dense(t[i]);
        begins = begins && zn_cuda_on_16(t[i].data);
    }
    wide = wide || (flat && begins);
    if (flat && begins) {
        g->n = numbers / VECTOR;
        g->rest = (uint32_t)(numbers % VECTOR);
    } else if (wide) {
        g->per_pixel = (uint32_t)g->y.c / VECTOR;
        g->n = numbers / VECTOR;
    } else {
        g->per_pixel = flat ? 0 : (uint32_t)g->y.c;
        g->n = numbers;
    }
    alone = wide && !g->b.data && !g->tail.residual.data && strcmp(type, "any");
    if (wide)
        snprintf(name, sizeof name, "%s_v8_%s", alone ? "map" : "pointwise", type);
    zn_cuda_launch(d, name, zn_cuda_blocks(g->n + !g->n, (alone ? 4 : 2) * THREADS), 1, 1, THREADS, 0, g);
}

void zn_cuda_map(void *dev, zn_tensor y, zn_tensor x, zn_tail t)
{
    zn_args_pointwise g = { .y = y, .a = x, .tail = zn_cuda_tail_of(t) };

    pointwise(dev, &g);
}

void zn_cuda_binary(void *dev, zn_tensor y, zn_tensor a, zn_tensor b, zn_binary op, zn_tail t)
{
    zn_args_pointwise g = { .y = y, .a = a, .b = b, .tail = zn_cuda_tail_of(t), .op = op };

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

/* ---- resize, unshuffle, shuffle ----------------------------------------------------------------------- */

void zn_cuda_resize(void *dev, zn_tensor y, zn_tensor x, zn_filter f)
{
    enum { ROWS = 8, MOST = 65535 }; /* of a thread; of blocks in y */
    bool wide = zn_cuda_vectors(y) && zn_cuda_vectors(x);
    zn_args_resize g = { y, x, f, (uint32_t)(wide ? y.c / VECTOR : y.c) };
    unsigned down = zn_cuda_blocks((size_t)y.n * (size_t)y.h, ROWS);

    zn_cuda_launch(dev, wide ? "resize_v8" : "resize_v1", zn_cuda_blocks((size_t)y.w * g.per_pixel, THREADS),
                   down < MOST ? down : MOST, 1, THREADS, 0, &g);
}

static uint32_t magic(int n)
{
    return n == 1 ? 0 : (uint32_t)((((uint64_t)1 << 32) + (uint64_t)n - 1) / (uint64_t)n);
}

static void move(zn_cuda *d, const char *kernel, zn_tensor small, zn_tensor big, int r, zn_tail t)
{
    enum { TILE = 8192, LEAST = 2048 }; /* numbers of a block; fewer where that keeps all multiprocessors busy */
    zn_args_shuffle g = { .small = small, .big = big, .tail = zn_cuda_tail_of(t), .r = r };
    size_t tile = TILE, numbers = zn_pixels(small) * (size_t)small.c;
    int rr = r * r, room, per_pixel, across;

    while (tile > LEAST && numbers / tile < 4 * (size_t)d->sms)
        tile /= 2;
    room = (int)tile / rr > 1 ? (int)tile / rr : 1;

    g.channels = big.c < room ? big.c : room;
    if (g.channels < big.c && g.channels >= VECTOR)
        g.channels = g.channels / VECTOR * VECTOR; /* a piece begins with a vector */
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

/* Few channels, and rows of big that are lines of vectors.  False: cannot. */
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
