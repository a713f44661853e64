/* SPDX-License-Identifier: MIT */
/* pointwise.c - norms, softmax, resize, shuffles, map, binary, fill: which kernel, and how many blocks. */
#include "cuda.h"

enum { THREADS = 256, VECTOR = 8 };

static int round_up(int n, int to)
{
    return (n + to - 1) / to * to;
}

static unsigned blocks_of(size_t n, size_t each)
{
    return (unsigned)((n + each - 1) / each);
}

/* May its pixels be read in vectors?  A tensor that is not there (a tail without residual) may. */
static bool aligned(zn_tensor t)
{
    return !t.data || ((uintptr_t)t.data % 16 == 0 && (size_t)t.ld * zn_type_size(t.type) % 16 == 0);
}

static bool vectors(zn_tensor t)
{
    return !t.data || (aligned(t) && t.c % VECTOR == 0);
}

static bool dense(zn_tensor t)
{
    return !t.data || t.ld == t.c;
}

/* ---- map, binary, fill
 * ------------------------------------------------------------------------------------- */

static void pointwise(zn_cuda *d, zn_args_pointwise *g)
{
    zn_tensor t[] = { g->y, g->a, g->b, g->tail.residual };
    bool wide = true, flat = true, begins = true;
    size_t numbers = zn_pixels(g->y) * (size_t)g->y.c;

    for (int i = 0; i < 4; i++) {
        wide = wide && vectors(t[i]);
        flat = flat && dense(t[i]);
        begins = begins && (uintptr_t)t[i].data % 16 == 0;
    }
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
    zn_cuda_launch(d, (flat && begins) || wide ? "pointwise_v8" : "pointwise_v1",
                   blocks_of(g->n + !g->n, 2 * THREADS), 1, 1, THREADS, 0, g);
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
        zn_cuda_launch(dev, "fill_any", blocks_of(zn_pixels(y) * g.n, 4 * THREADS), 1, 1, THREADS, 0, &g);
    }
}

/* ---- resize, unshuffle, shuffle
 * ----------------------------------------------------------------------------- */

void zn_cuda_resize(void *dev, zn_tensor y, zn_tensor x, zn_filter f)
{
    enum { ROWS = 8, MOST = 65535 }; /* of a thread; of blocks in y */
    bool wide = vectors(y) && vectors(x);
    zn_args_resize g = { y, x, f, (uint32_t)(wide ? y.c / VECTOR : y.c) };
    unsigned down = blocks_of((size_t)y.n * (size_t)y.h, ROWS);

    zn_cuda_launch(dev, wide ? "resize_v8" : "resize_v1", blocks_of((size_t)y.w * g.per_pixel, THREADS),
                   down < MOST ? down : MOST, 1, THREADS, 0, &g);
}

static uint32_t magic(int n)
{
    return n == 1 ? 0 : (uint32_t)((((uint64_t)1 << 32) + (uint64_t)n - 1) / (uint64_t)n);
}

static void move(zn_cuda *d, const char *kernel, zn_tensor small, zn_tensor big, int r, zn_tail t)
{
    enum { TILE = 8192 }; /* numbers of a block */
    zn_args_shuffle g = { .small = small, .big = big, .tail = zn_cuda_tail_of(t), .r = r };
    int rr = r * r, room = TILE / rr > 1 ? TILE / rr : 1, per_pixel, across;

    g.channels = big.c < room ? big.c : room;
    if (g.channels < big.c && g.channels >= VECTOR)
        g.channels = g.channels / VECTOR * VECTOR; /* a piece begins with a vector */
    g.small_vectors = vectors(small) && g.channels * rr % VECTOR == 0;
    g.big_vectors = vectors(big) && vectors(g.tail.residual) && g.channels % VECTOR == 0;
    g.pixels = room / g.channels < small.w ? room / g.channels : small.w;
    across = g.pixels * g.channels + g.pixels * g.channels / 32; /* with its padding */
    g.pitch = rr <= 32 ? round_up(across, 32) + 32 / rr : across | 1;
    g.n_tiles = blocks_of((size_t)small.w, (size_t)g.pixels);
    per_pixel = g.channels / (g.big_vectors ? VECTOR : 1);
    g.magic_r = magic(r);
    g.magic_rr = magic(rr);
    g.magic_row = magic(g.pixels * r * per_pixel);
    g.magic_channels = magic(per_pixel);
    g.magic_vectors = magic(g.channels * rr / (g.small_vectors ? VECTOR : 1));
    assert((size_t)rr * (size_t)g.pitch * sizeof(float) <= (size_t)d->smem_max);
    zn_cuda_launch(d, kernel, (unsigned)((size_t)small.n * (size_t)small.h * g.n_tiles),
                   blocks_of((size_t)big.c, (size_t)g.channels), 1, THREADS,
                   (unsigned)((size_t)rr * (size_t)g.pitch * sizeof(float)), &g);
}

void zn_cuda_unshuffle(void *dev, zn_tensor y, zn_tensor x, int r)
{
    move(dev, "unshuffle_any", y, x, r, (zn_tail){ 0 });
}

void zn_cuda_shuffle(void *dev, zn_tensor y, zn_tensor x, int r, zn_tail t)
{
    move(dev, "shuffle_any", x, y, r, t);
}

/* ---- layer and RMS norm, softmax
 * ------------------------------------------------------------------------------ */

/* Threads to a pixel, a power of two: one for each of n pieces, 32 at most. */
static int lanes_for(int n)
{
    int lanes = 1;

    while (lanes < n && lanes < 32)
        lanes *= 2;
    return lanes;
}

/* names: rows in registers of up to 1, 2 and 4 vectors a thread; long ones in vectors; any */
static void rows(zn_cuda *d, zn_args_rows *g, bool wide, const char *const names[5])
{
    int n = wide ? g->x.c / VECTOR : g->x.c, kind;
    size_t each;

    g->lanes = lanes_for(n);
    g->pixels = zn_pixels(g->x);
    kind = !wide ? 4 : n <= g->lanes ? 0 : n <= 2 * g->lanes ? 1 : n <= 4 * g->lanes ? 2 : 3;
    each = (size_t)(THREADS / g->lanes) * (kind ? 1 : 2); /* the first kind has two pixels to a team */
    zn_cuda_launch(d, names[kind], blocks_of(g->pixels, each), 1, 1, THREADS, 0, g);
}

void zn_cuda_softmax(void *dev, zn_tensor y, zn_tensor x)
{
    static const char *const names[] = { "softmax_rows_1", "softmax_rows_4", "softmax_rows_4",
                                         "softmax_long_rows_v1", "softmax_long_rows_v1" };
    zn_args_rows g = { .y = y, .x = x };

    /* what has no form in vectors is cut into single numbers */
    rows(dev, &g, vectors(y) && vectors(x) && x.c <= 4 * 32 * VECTOR, names);
}

/* ---- group norm
 * -------------------------------------------------------------------------------------------------- */

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
    for (g->first = 0; g->first < g->x.n; g->first += images) {
        zn_args_group apply = *g;

        images = at_once < g->x.n - g->first ? at_once : g->x.n - g->first;
        apply.chunk = (size_t)(n_rows * APPLIED);
        zn_cuda_launch(d, wide ? "group_sums_v8" : "group_sums_v1", (unsigned)g->n_chunks, (unsigned)images,
                       (unsigned)tiles, THREADS, 0, g);
        zn_cuda_launch(d, "group_finish", (unsigned)g->groups, (unsigned)images, 1, 4 * THREADS, 0, g);
        zn_cuda_launch(d, wide ? "group_apply_v8" : "group_apply_v1", blocks_of(g->pixels, apply.chunk),
                       (unsigned)images, (unsigned)tiles, THREADS, 0, &apply);
    }
}

void zn_cuda_norm(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w, zn_tail t)
{
    static const char *const names[] = { "norm_rows_1", "norm_rows_2", "norm_rows_4", "norm_long_rows_v8",
                                         "norm_long_rows_v1" };
    zn_cuda_tail tail = zn_cuda_tail_of(t);
    bool wide = vectors(y) && vectors(x) && vectors(tail.residual) && (uintptr_t)w->gamma % 16 == 0 &&
                (uintptr_t)w->beta % 16 == 0;

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

        rows(dev, &g, wide, names);
    }
}
