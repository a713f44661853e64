/* SPDX-License-Identifier: MIT */
/* pointwise.c - norms, softmax, resize, shuffles, map, binary, fill: which kernel, and how many blocks. */
#include <stdio.h>
#include <string.h>

#include "cuda.h"

enum { THREADS = 256, VECTOR = 8 };

static bool vectors(zn_tensor t)
{
    return !t.data || (zn_cuda_aligned(t) && t.c % VECTOR == 0);
}

/* What the kernels for tensors of one type are called; "any" if the types differ.  A tensor that is not there
 * has every type. */
static const char *common_type(const zn_tensor *t, int n)
{
    for (int i = 1; i < n; i++)
        if (t[i].data && t[i].type != t[0].type)
            return "any";
    return zn_cuda_type_name(t[0].type);
}

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
    const char *type = common_type(t, 4);
    char name[32] = "pointwise_v1";

    for (int i = 0; i < 4; i++) {
        wide = wide && vectors(t[i]);
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
    bool wide = vectors(y) && vectors(x);
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
    g.small_vectors = vectors(small) && g.channels * rr % VECTOR == 0;
    g.big_vectors = vectors(big) && vectors(g.tail.residual) && g.channels % VECTOR == 0;
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

/* ---- layer and RMS norm, softmax ---------------------------------------------------------------------- */

/* Threads to a pixel, a power of two: one for each of n pieces, 32 at most. */
static int lanes_for(int n)
{
    int lanes = 1;

    while (lanes < n && lanes < 32)
        lanes *= 2;
    return lanes;
}

/* Cuts rows of n pieces into teams; returns the pieces of a thread. */
static int team_of(zn_args_rows *g, int n)
{
    g->lanes = lanes_for(n);
    g->pixels = zn_pixels(g->x);
    return (n + g->lanes - 1) / g->lanes;
}

static void row_norm(zn_cuda *d, zn_args_rows *g, bool wide)
{
    zn_tensor t[] = { g->x, g->y, g->tail.residual };
    const char *type = common_type(t, 3);
    int each = team_of(g, wide ? g->x.c / VECTOR : g->x.c),
        kind = each > 2 ? 4 : each;  /* vectors of a thread */
    int at_once = kind == 1 ? 2 : 1; /* pixels of a team */
    bool lean = kind < 4 && (!strcmp(type, "f16") || !strcmp(type, "bf16"));
    unsigned teams = (unsigned)(THREADS / g->lanes), needed, resident = (unsigned)d->sms * (lean ? 3 : 2);
    char name[32];

    if (!wide || each > 4) {
        zn_cuda_launch(d, wide ? "norm_long_rows_v8" : "norm_long_rows_v1", zn_cuda_blocks(g->pixels, teams), 1, 1,
                       THREADS, 0, g);
        return;
    }
    needed = zn_cuda_blocks(g->pixels, teams * (unsigned)at_once);
    snprintf(name, sizeof name, "norm_rows_%d_%s", kind, type);
    zn_cuda_launch(d, name, needed < resident ? needed : resident, 1, 1, THREADS, 0, g);
}

void zn_cuda_softmax(void *dev, zn_tensor y, zn_tensor x)
{
    zn_args_rows g = { .y = y, .x = x };
    bool wide = vectors(y) && vectors(x) && x.c <= 4 * 32 * VECTOR; /* longer ones have no form in vectors */
    int each = team_of(&g, wide ? x.c / VECTOR : x.c);
    size_t teams = (size_t)(THREADS / g.lanes);

    if (!wide)
        zn_cuda_launch(dev, "softmax_long_rows_v1", zn_cuda_blocks(g.pixels, teams), 1, 1, THREADS, 0, &g);
    else if (each > 1)
        zn_cuda_launch(dev, "softmax_rows_4", zn_cuda_blocks(g.pixels, teams), 1, 1, THREADS, 0, &g);
    else
        zn_cuda_launch(dev, "softmax_rows_1", zn_cuda_blocks(g.pixels, 2 * teams), 1, 1, THREADS, 0, &g);
}

/* ---- group norm --------------------------------------------------------------------------------------- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Chunks of an image: long enough that their sums are little beside the image, few enough that a group's can
 * be joined by one block; they depend on the shape alone. */
static size_t chunk_of(zn_tensor x, int groups, size_t pixels, int n_rows, int tiles)
{
    enum { BLOCKS = 4096, EACH = 8, FEWEST = 16, JOINED = 1 << 14 };
    size_t n = most(least(BLOCKS / (size_t)tiles, JOINED / (size_t)(x.c / groups)), FEWEST);
    size_t chunk = most((pixels + n - 1) / n, (size_t)(n_rows * EACH));

    return least(most(chunk, 64), pixels);
}

static void group_norm(zn_cuda *d, zn_args_group *g, bool wide)
{
    enum { COLS = 32, APPLIED = 16 };
    zn_tensor t[] = { g->x, g->y, g->tail.residual };
    char sums[32] = "group_sums_v1", applies[32] = "group_apply_v1";
    int n = wide ? g->x.c / VECTOR : g->x.c, most_cols = wide ? COLS : 8 * COLS;
    int tiles = (n + most_cols - 1) / most_cols, n_rows, images, at_once;
    size_t c = (size_t)g->x.c, per_image;

    g->cols = (n + tiles - 1) / tiles;
    n_rows = THREADS / g->cols;
    g->pixels = (size_t)g->x.h * (size_t)g->x.w;
    g->chunk = chunk_of(g->x, g->groups, g->pixels, n_rows, tiles);
    g->n_chunks = (int32_t)((g->pixels + g->chunk - 1) / g->chunk);
    per_image = c * sizeof(float) * (2 + 2 * (size_t)g->n_chunks);
    at_once = (int)least(most(ZN_CUDA_SCRATCH / per_image, 1), (size_t)g->x.n);
    assert(per_image <= ZN_CUDA_SCRATCH);
    at_once = at_once < 65535 ? at_once : 65535;
    g->scale = (float *)(void *)d->scratch;
    g->shift = g->scale + (size_t)at_once * c;
    g->partial = g->shift + (size_t)at_once * c;
    if (wide) {
        snprintf(sums, sizeof sums, "group_sums_v8_%s", common_type(t, 3));
        snprintf(applies, sizeof applies, "group_apply_v8_%s", common_type(t, 3));
    }
    for (g->first = 0; g->first < g->x.n; g->first += images) {
        zn_args_group apply = *g;

        images = at_once < g->x.n - g->first ? at_once : g->x.n - g->first;
        apply.chunk = (size_t)(n_rows * APPLIED);
        zn_cuda_launch(d, sums, (unsigned)g->n_chunks, (unsigned)images, (unsigned)tiles, THREADS, 0, g);
        zn_cuda_launch(d, "group_finish", (unsigned)g->groups, (unsigned)images, 1, 4 * THREADS, 0, g);
        zn_cuda_launch(d, applies, zn_cuda_blocks(g->pixels, apply.chunk), (unsigned)images, (unsigned)tiles,
                       THREADS, 0, &apply);
    }
}

void zn_cuda_norm(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w, zn_tail t)
{
    zn_cuda_tail tail = zn_cuda_tail_of(t);
    bool wide = vectors(y) && vectors(x) && vectors(tail.residual) && zn_cuda_on_16(w->gamma) &&
                zn_cuda_on_16(w->beta);

    if (w->kind == ZN_GROUP_NORM) {
        zn_args_group g = { .y = y,
                            .x = x,
                            .tail = tail,
                            .gamma = w->gamma,
                            .beta = w->beta,
                            .eps = w->eps,
                            .groups = w->groups };

        group_norm(dev, &g, wide);
    } else {
        zn_args_rows g = { .y = y,
                           .x = x,
                           .tail = tail,
                           .gamma = w->gamma,
                           .beta = w->beta,
                           .eps = w->eps,
                           .rms = w->kind == ZN_RMS_NORM };

        row_norm(dev, &g, wide);
    }
}
