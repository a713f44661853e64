/* SPDX-License-Identifier: MIT */
/* norm.c - norms: which kernel, and how many blocks. */
#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "group_norm.h"

enum { THREADS = 256, VECTOR = ZN_CUDA_VECTOR };

/* ---- layer and RMS norm --------------------------------------------------------------------------------- */

/* Threads to a pixel, a power of two: one for each of n vectors, 32 at most. */
static int lanes_for(int n)
{
    int lanes = 1;

    while (lanes < n && lanes < 32)
        lanes *= 2;
    return lanes;
}

/* Assigns rows of n vectors to teams of threads; returns the vectors of a thread. */
static int team_of(zn_args_rows *g, int n)
{
    g->lanes = lanes_for(n);
    g->pixels = zn_pixels(g->x);
    return (n + g->lanes - 1) / g->lanes;
}

/* Whether it is at most a SiLU. */
static bool is_plain(const zn_cuda_tail *t)
{
    return !t->residual.data && t->gain == 1 && t->post == ZN_NONE && (t->pre == ZN_NONE || t->pre == ZN_SILU);
}

/* The type in the name of a kernel that gives a row to a block: for rows that are too long for a warp's registers, or adaptive
 * norms of rows that keep a block busy.  NULL: not these tensors. */
static const char *wide_type(const zn_args_rows *g, bool adaptive)
{
    const zn_tensor t[] = { g->x, g->y, g->tail.residual, g->m.scale, g->m.shift, g->m.gate };
    const char *type = zn_cuda_common_type(t, 6);
    const zn_cuda_tail *tail = &g->tail;

    if ((strcmp(type, "f16") && strcmp(type, "bf16")) || tail->pre != ZN_NONE || tail->post != ZN_NONE ||
        tail->gain != 1 || g->x.c > 512 * VECTOR || g->x.c <= (adaptive ? 256 : 1024) || zn_pixels(g->x) > INT32_MAX)
        return NULL;
    return type;
}

static unsigned wide_threads(zn_tensor x)
{
    return (unsigned)zn_round_up(x.c / VECTOR, 32);
}

static bool wide_rows(zn_cuda *d, const zn_args_rows *g, bool adaptive)
{
    const char *type = wide_type(g, adaptive);

    if (type)
        zn_cuda_launch(d, zn_cuda_kernel("norm_wide_%s", type).text, (unsigned)zn_pixels(g->x), 1, 1,
                       wide_threads(g->x), 0, g);
    return type != NULL;
}

static void row_norm(zn_cuda *d, zn_args_rows *g, bool wide, bool adaptive)
{
    zn_tensor t[] = { g->x, g->y, g->tail.residual };
    const char *type = zn_cuda_common_type(t, 3);
    int each = team_of(g, wide ? g->x.c / VECTOR : g->x.c), kind = each > 2 ? 4 : each; /* vectors of a thread */
    bool lean = kind < 4 && (!strcmp(type, "f16") || !strcmp(type, "bf16")),
         plain = lean && kind == 1 && is_plain(&g->tail);
    int at_once = plain ? 3 : kind == 1 ? 2 : 1; /* pixels of a team */
    unsigned teams = (unsigned)(THREADS / g->lanes), needed, resident = (unsigned)d->sms * (lean ? 3 : 2);
    char name[32];

    if (wide && wide_rows(d, g, adaptive))
        return;
    if (!wide || each > 4 || adaptive) {
        zn_cuda_launch(d, wide ? "norm_long_rows_v8" : "norm_long_rows_v1", zn_cuda_blocks(g->pixels, teams), 1, 1,
                       THREADS, 0, g);
        return;
    }
    needed = zn_cuda_blocks(g->pixels, teams * (unsigned)at_once);
    if (plain)
        snprintf(name, sizeof name, "norm_plain_%s", type);
    else
        snprintf(name, sizeof name, "norm_rows_%d_%s", kind, type);
    zn_cuda_launch(d, name, needed < resident ? needed : resident, 1, 1, THREADS, 0, g);
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

/* Pixels of a chunk: so many that the sums of chunks are small compared with the image, and so few chunks that one
 * block can merge those of a group; a function of the shape alone. */
static size_t chunk_of(zn_tensor x, int groups, size_t pixels, int n_rows, int tiles)
{
    enum { BLOCKS = 4096, EACH = 8, FEWEST = 16, JOINED = 1 << 14 };
    size_t n = most(least(BLOCKS / (size_t)tiles, JOINED / (size_t)(x.c / groups)), FEWEST);
    size_t chunk = most((pixels + n - 1) / n, (size_t)(n_rows * EACH));

    return least(most(chunk, 64), pixels);
}

/* Splits the images into tiles for `blocks` blocks each. */
static void cut_into_tiles(zn_args_group *g, int blocks)
{
    const size_t step = (size_t)g->rows * ZN_GROUP_UNIT, tiles = (g->pixels + step - 1) / step;

    g->tiles = (int32_t)tiles;
    g->each = g->tiles / blocks;
    g->more = g->tiles % blocks;
    g->missing = (int32_t)(tiles * step - g->pixels);
    g->size = g->x.c / g->groups;
    g->per_element = (float)(1 / ((double)g->pixels * g->size));
    for (g->lanes = 32; g->lanes * g->groups > ZN_GROUP_THREADS;)
        g->lanes /= 2;
}

/* Whether the tail is at most a gain and then one of the activations that group_norm.cu is compiled for, which becomes
 * `post`. */
static bool known_tail(zn_cuda_tail *t)
{
    const zn_act act = t->pre == ZN_NONE ? t->post : t->pre;

    if (t->residual.data || (t->pre != ZN_NONE && (t->post != ZN_NONE || t->gain != 1)) ||
        (act != ZN_NONE && act != ZN_RELU && act != ZN_SILU))
        return false;
    t->pre = ZN_NONE;
    t->post = act;
    return true;
}

/* In one kernel, group_norm.cu, for 16-bit tensors.  False: not these tensors.  How many blocks share an image, and so
 * every rounding, depends on its shape and on the GPU alone, not on the number of images. */
static bool group_norm_16(zn_cuda *d, zn_args_group *g, const char *type)
{
    enum { TILES = 4, OTHER = 2 << 10 }; /* of a block, at least; bytes of static memory, at most */
    size_t blocks, at_once, images;
    char name[32];

    g->cols = g->x.c / VECTOR;
    g->stages = (d->smem_max - OTHER) / ZN_GROUP_STAGE;
    if (d->cc < 80 || !d->cooperative || (strcmp(type, "f16") && strcmp(type, "bf16")) || g->cols > ZN_GROUP_THREADS ||
        g->groups > ZN_GROUP_GROUPS || g->stages < ZN_GROUP_RING || g->pixels > INT32_MAX / 2)
        return false;
    g->rows = ZN_GROUP_THREADS / g->cols;
    g->partial = (float *)(void *)d->scratch;
    blocks = zn_cuda_blocks(g->pixels, (size_t)(g->rows * ZN_GROUP_UNIT * TILES));
    blocks = least(blocks, least((size_t)d->sms, ZN_GROUP_BLOCKS));
    at_once = least((size_t)d->sms / blocks, ZN_GROUP_IMAGES);
    cut_into_tiles(g, (int)blocks);
    snprintf(name, sizeof name, "group_norm_%s%s", known_tail(&g->tail) ? "" : "any_", type);
    for (g->first = 0; g->first < g->x.n; g->first += (int32_t)images) {
        images = least(at_once, (size_t)(g->x.n - g->first));
        zn_cuda_launch_cooperative(d, name, (unsigned)blocks, (unsigned)images, ZN_GROUP_THREADS,
                                   (unsigned)(g->stages * ZN_GROUP_STAGE), g);
    }
    return true;
}

/* How the kernels of norm.cu cut an image: `tiles` of channels, rows of pixels in a block. */
typedef struct cut {
    int tiles, n_rows;
    zn_cuda_name suffix; /* of the kernels' names */
} cut;

static cut cut_into_chunks(zn_args_group *g, bool wide)
{
    enum { COLS = 32 };
    const zn_tensor t[] = { g->x, g->y, g->tail.residual };
    const int n = wide ? g->x.c / VECTOR : g->x.c, most_cols = wide ? COLS : 8 * COLS;
    cut k = { .tiles = (n + most_cols - 1) / most_cols };

    k.suffix = wide ? zn_cuda_kernel("v8_%s", zn_cuda_common_type(t, 3)) : zn_cuda_kernel("v1");
    g->cols = (n + k.tiles - 1) / k.tiles;
    k.n_rows = THREADS / g->cols;
    if (g->groups) {
        g->chunk = chunk_of(g->x, g->groups, g->pixels, k.n_rows, k.tiles);
        g->n_chunks = (int32_t)((g->pixels + g->chunk - 1) / g->chunk);
    }
    return k;
}

/* Of `images` images from g->first on: g->scale and g->shift. */
static void find_scales(zn_cuda *d, const zn_args_group *g, cut k, int images)
{
    zn_cuda_launch(d, zn_cuda_kernel("group_sums_%s", k.suffix.text).text, (unsigned)g->n_chunks, (unsigned)images,
                   (unsigned)k.tiles, THREADS, 0, g);
    zn_cuda_launch(d, "group_finish", (unsigned)g->groups, (unsigned)images, 1, 4 * THREADS, 0, g);
}

/* y = tail(x * scale + shift) */
static void apply_scales(zn_cuda *d, zn_args_group g, cut k, int images)
{
    enum { APPLIED = 16 };

    g.chunk = (size_t)(k.n_rows * APPLIED);
    zn_cuda_launch(d, zn_cuda_kernel("group_apply_%s", k.suffix.text).text, zn_cuda_blocks(g.pixels, g.chunk),
                   (unsigned)images, (unsigned)k.tiles, THREADS, 0, &g);
}

static void group_norm(zn_cuda *d, zn_args_group *g, bool wide)
{
    const zn_tensor t[] = { g->x, g->y, g->tail.residual };
    size_t c = (size_t)g->x.c, per_image;
    int images, at_once;
    cut k;

    g->pixels = (size_t)g->x.h * (size_t)g->x.w;
    if (wide && group_norm_16(d, g, zn_cuda_common_type(t, 3)))
        return;
    k = cut_into_chunks(g, wide);
    per_image = c * sizeof(float) * (2 + 2 * (size_t)g->n_chunks);
    at_once = (int)least(most(ZN_CUDA_SCRATCH / per_image, 1), (size_t)g->x.n);
    assert(per_image <= ZN_CUDA_SCRATCH);
    at_once = at_once < 65535 ? at_once : 65535;
    g->scale = (float *)(void *)d->scratch;
    g->shift = g->scale + (size_t)at_once * c;
    g->partial = g->shift + (size_t)at_once * c;
    for (g->first = 0; g->first < g->x.n; g->first += images) {
        images = at_once < g->x.n - g->first ? at_once : g->x.n - g->first;
        find_scales(d, g, k, images);
        apply_scales(d, *g, k, images);
    }
}

/* All images have the same scale and shift. */
static void scale_images(zn_cuda *d, zn_args_group *g, bool wide)
{
    const cut k = cut_into_chunks(g, wide);

    g->pixels = (size_t)g->x.h * (size_t)g->x.w;
    for (g->first = 0; g->first < g->x.n; g->first++)
        apply_scales(d, *g, k, 1);
}

void zn_cuda_group_scales(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w)
{
    zn_cuda *d = dev;
    zn_args_group g = { .y = x, /* of the same type; nothing is written */
                        .x = x,
                        .gamma = w->gamma,
                        .beta = w->beta,
                        .eps = w->eps,
                        .groups = w->groups,
                        .pixels = (size_t)x.h * (size_t)x.w,
                        .partial = (float *)(void *)d->scratch,
                        .scale = y.data,
                        .shift = y.data + y.ld };
    const cut k = cut_into_chunks(&g, zn_cuda_vectors(x) && zn_cuda_on_16(w->gamma) && zn_cuda_on_16(w->beta));

    assert((size_t)x.c * sizeof(float) * 2 * (size_t)g.n_chunks <= ZN_CUDA_SCRATCH);
    find_scales(d, &g, k, 1);
}

/* Can a row be read in vectors? */
static bool in_vectors(zn_tensor y, zn_tensor x, const zn_norm *w, const zn_modulation *m, const zn_tensor *residual)
{
    return zn_cuda_vectors(y) && zn_cuda_vectors(x) && zn_cuda_vectors(*residual) && zn_cuda_on_16(w->gamma) &&
        zn_cuda_on_16(w->beta) && zn_cuda_vectors(m->scale) && zn_cuda_vectors(m->shift) && zn_cuda_vectors(m->gate);
}

static zn_args_rows rows_of(zn_tensor y, zn_tensor x, const zn_norm *w, const zn_modulation *m, zn_cuda_tail tail)
{
    return (zn_args_rows){ .y = y,
                           .x = x,
                           .tail = tail,
                           .gamma = w->gamma,
                           .beta = w->beta,
                           .m = *m,
                           .eps = w->eps,
                           .rms = w->kind == ZN_RMS_NORM,
                           .image = (uint32_t)(x.h * x.w) };
}

void zn_cuda_norm(void *dev, zn_tensor y, zn_tensor x, const zn_norm *w, const zn_modulation *m, zn_tail t)
{
    const zn_modulation adaptive = m ? *m : (zn_modulation){ 0 };
    zn_cuda_tail tail = zn_cuda_tail_of(t);
    const bool wide = in_vectors(y, x, w, &adaptive, &tail.residual);

    if (w->kind == ZN_GROUP_NORM) {
        zn_args_group g = { .y = y,
                            .x = x,
                            .tail = tail,
                            .gamma = w->gamma,
                            .beta = w->beta,
                            .m = adaptive,
                            .eps = w->eps,
                            .groups = w->groups };

        group_norm(dev, &g, wide);
    } else if (w->kind == ZN_SCALED) {
        zn_args_group g = { .y = y, .x = x, .tail = tail, .scale = w->gamma, .shift = w->beta };

        scale_images(dev, &g, wide);
    } else {
        zn_args_rows g = rows_of(y, x, w, &adaptive, tail);

        row_norm(dev, &g, wide, m != NULL);
    }
}

bool zn_cuda_add_norm(void *dev, zn_tensor x, zn_tensor change, const zn_norm *after, const zn_modulation *gate,
                      zn_tensor y, const zn_norm *before, const zn_modulation *scale)
{
    const zn_args_twice g = { .first = rows_of(x, change, after, gate, zn_cuda_tail_of((zn_tail){ .residual = &x })),
                              .y = y,
                              .scale = scale->scale,
                              .gamma = before->gamma,
                              .eps = before->eps };
    const char *type = wide_type(&g.first, true);

    if (!type || before->kind != ZN_RMS_NORM || before->beta || scale->shift.data || scale->gate.data ||
        y.type != x.type || (g.scale.data && g.scale.type != x.type) ||
        !in_vectors(x, change, after, gate, &g.first.tail.residual) || !in_vectors(y, x, before, scale, &x))
        return false;
    zn_cuda_launch(dev, zn_cuda_kernel("norm_twice_%s", type).text, (unsigned)zn_pixels(x), 1, 1, wide_threads(x), 0,
                   &g);
    return true;
}

bool zn_cuda_norm_rope(void *dev, zn_tensor y, zn_tensor x, const zn_norm *norm, const zn_rope *r)
{
    const zn_args_norm_rope g = { .y = y,
                                  .x = x,
                                  .gamma = norm->gamma,
                                  .cos = r->cos.data,
                                  .sin = r->sin.data,
                                  .eps = norm->eps,
                                  .cos_ld = (uint32_t)r->cos.ld,
                                  .sin_ld = (uint32_t)r->sin.ld,
                                  .image = (uint32_t)(x.h * x.w),
                                  .heads = r->heads,
                                  .dim = norm->c,
                                  .interleaved = r->interleaved };
    const int lanes = norm->c / VECTOR;

    if (x.type == ZN_F32 || y.type != x.type || norm->kind != ZN_RMS_NORM || norm->beta || norm->c % VECTOR ||
        lanes < 2 || lanes > 32 || (lanes & (lanes - 1)) || !zn_cuda_vectors(y) || !zn_cuda_vectors(x) ||
        !zn_cuda_vectors(r->cos) || !zn_cuda_vectors(r->sin) || zn_pixels(x) > INT32_MAX)
        return false;
    zn_cuda_launch(dev, zn_cuda_kernel("norm_rope_%s", zn_cuda_type_name(x.type)).text, (unsigned)zn_pixels(x), 1, 1,
                   THREADS, 0, &g);
    return true;
}
