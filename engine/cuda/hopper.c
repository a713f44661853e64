/* SPDX-License-Identifier: MIT */
/* hopper.c - which convolutions kernels/hopper.cu and hopper_pixels.cu compute, and in which tiles; likewise attention,
 * hopper_attention.cu.
 *
 * All of them use TMA with tensor maps: elements of two bytes (e4m3 x: of one), pixels aligned to 16 bytes.  What is
 * outside an image, or beyond its channels, is read as zero and not written; so every size fits. */
#include <string.h>

#include "cuda.h"
#include "hopper.h"

enum {
    MAP_U8 = 0,
    MAP_F16 = 6,
    MAP_BF16 = 9,
    MAP_SWIZZLE_64 = 2,
    MAP_SWIZZLE_128 = 3,
    MAP_PROMOTE_256 = 3
}; /* CUtensorMapDataType and others */

static int map_type(int bytes, zn_type type)
{
    return bytes == 1 ? MAP_U8 : type == ZN_F16 ? MAP_F16 : MAP_BF16;
}

/* A map of a row of pixels, in boxes of box_c channels and box_w pixels. */
static bool map_box(const zn_cuda *d, zn_hopper_map *map, zn_tensor t, int bytes, int box_c, int box_w, int swizzle)
{
    const uint64_t pixel = (uint64_t)t.ld * (uint64_t)bytes, all = pixel * (uint64_t)t.w;
    const uint64_t size[4] = { (uint64_t)t.c, (uint64_t)t.w, 1, 1 }, pitch[3] = { pixel, all, all };
    const uint32_t box[4] = { (uint32_t)box_c, (uint32_t)box_w, 1, 1 }, every[4] = { 1, 1, 1, 1 };

    return !d->api->cuTensorMapEncodeTiled(map, map_type(bytes, t.type), 4, t.data, size, pitch, box, every, 0, swizzle,
                                           MAP_PROMOTE_256, 0);
}

/* A map of every step-th pixel of t, from pixel `first` on, in boxes of box_w x box_h pixels and 128 bytes; an element has
 * `bytes`.  stride: of the pixels of a box. */
static bool map_pixels(const zn_cuda *d, zn_hopper_map *map, zn_tensor t, int bytes, int first, int step, int box_w,
                       int box_h, int stride)
{
    const uint64_t pixel = (uint64_t)t.ld * (uint64_t)bytes;
    const uint64_t size[4] = { (uint64_t)t.c, (uint64_t)(t.w / step), (uint64_t)(t.h / step), (uint64_t)t.n };
    const uint64_t pitch[3] = { pixel * (uint64_t)step, pixel * (uint64_t)t.w * (uint64_t)step,
                                pixel * (uint64_t)t.w * (uint64_t)t.h };
    const uint32_t box[4] = { (uint32_t)(128 / bytes), (uint32_t)(box_w * stride), (uint32_t)(box_h * stride), 1 };
    const uint32_t every[4] = { 1, (uint32_t)stride, (uint32_t)stride, 1 };

    return !d->api->cuTensorMapEncodeTiled(map, map_type(bytes, t.type), 4, (char *)t.data + (uint64_t)first * pixel,
                                           size, pitch, box, every, 0, MAP_SWIZZLE_128, MAP_PROMOTE_256, 0);
}

/* A map of the weights' rows, in boxes of `rows` x `width` bytes, 128 or 64. */
static bool map_weights(const zn_cuda *d, zn_hopper_map *map, const zn_cuda_conv *c, int bytes, int rows, int width)
{
    const uint64_t size[2] = { (uint64_t)c->k_pad, (uint64_t)c->cout_pad };
    const uint64_t pitch[1] = { (uint64_t)c->k_pad * (uint64_t)bytes };
    const uint32_t box[2] = { (uint32_t)(width / bytes), (uint32_t)rows }, every[2] = { 1, 1 };

    return !d->api->cuTensorMapEncodeTiled(map, map_type(bytes, c->x.type), 2, (void *)(uintptr_t)c->weight, size,
                                           pitch, box, every, 0, width == 64 ? MAP_SWIZZLE_64 : MAP_SWIZZLE_128,
                                           MAP_PROMOTE_256, 0);
}

/* Maps of the four parities of y if up2, else of y itself. */
static bool map_out(const zn_cuda *d, zn_hopper_map map[4], zn_tensor y, bool up2, int box_w, int box_h)
{
    if (!up2)
        return map_pixels(d, &map[0], y, 2, 0, 1, box_w, box_h, 1);
    for (int i = 0; i < 4; i++)
        if (!map_pixels(d, &map[i], y, 2, i / 2 * y.w + i % 2, 2, box_w, box_h, 1))
            return false;
    return true;
}

static bool fits(zn_tensor t)
{
    return t.type != ZN_F32 && zn_cuda_aligned(t);
}

/* y: c's, or all its pixels as one row. */
static zn_hopper_tail tail_of(const zn_cuda_conv *c, zn_tensor y)
{
    return (zn_hopper_tail){ .bias = c->bias,
                             .scale = c->scale8,
                             .scale_x = c->scale_x,
                             .gain = c->tail.gain,
                             .pre = (int)c->tail.pre,
                             .post = (int)c->tail.post,
                             .residual = c->tail.residual.data != NULL,
                             .also = (uint16_t *)(void *)c->also.data,
                             .also_ld = c->also.ld,
                             .h = y.h,
                             .w = y.w,
                             .c = y.c };
}

/* Stages that fit into shared memory beside `other` bytes, at most `useful`. */
static int stages_for(const zn_cuda *d, int other, int stage, int useful)
{
    const int n = zn_imin((d->smem_max - other) / stage, zn_imin(useful, ZN_HOPPER_MAX_STAGES));

    return n < 2 ? 2 : n;
}

/* Rows of the tile for the fewest cycles, estimated.  A partial last wave counts as a whole one.  Tiles of 4 rows are bound
 * by shared memory: 24 cycles against 16 of the tensor cores. */
static int rows_for(const zn_cuda *d, zn_tensor x)
{
    static const int rows[3] = { 16, 8, 4 }, cycles[3] = { 36 * 64, 36 * 32 + 60, 36 * 24 };
    int best = 0, best_cost = INT32_MAX;

    for (int i = 0; i < 3; i++) {
        const int tiles = x.n * zn_ceil_div(x.w, 8) * zn_ceil_div(x.h, rows[i]);
        const int cost =
            zn_ceil_div(tiles, d->sms) * cycles[i] + rows[i] * 40; /* the last epilogue is not overlapped */

        if (cost < best_cost)
            best = rows[i], best_cost = cost;
    }
    return best;
}

static bool conv64(zn_cuda *d, const zn_cuda_conv *c)
{
    const int rows = rows_for(d, c->x), n = rows * 8, fixed = (c->up2 ? 16 : 9) * 8192, halo = ZN_HOPPER_HALO(8, rows);
    const int out_rows = zn_imin(rows, 8);
    zn_hopper_conv64 a;

    memset(&a, 0, sizeof a);
    a.tail = tail_of(c, c->y);
    a.weight = c->weight;
    a.tiles_x = zn_ceil_div(c->x.w, 8);
    a.tiles_y = zn_ceil_div(c->x.h, rows);
    a.tiles = a.tiles_x * a.tiles_y * c->x.n;
    const int grid = zn_imin(a.tiles, d->sms);

    a.stages = stages_for(d, zn_hopper_shared(fixed, n), halo, zn_ceil_div(a.tiles, grid));
    const int shared = zn_hopper_shared(fixed + a.stages * halo, n);

    if (shared > d->smem_max || !map_pixels(d, &a.x, c->x, 2, 0, 1, ZN_HOPPER_PITCH(8), rows + 2, 1) ||
        !map_weights(d, &a.w, c, 2, 64, 128) || !map_out(d, a.y, c->y, c->up2, 8, out_rows) ||
        (a.tail.residual && !map_pixels(d, &a.residual, c->tail.residual, 2, 0, 1, 8, out_rows, 1)))
        return false;
    zn_cuda_launch_dependent(
        d, zn_cuda_kernel("hopper_conv64_%s_%d%s", zn_cuda_type_name(c->x.type), rows, c->up2 ? "_up" : "").text,
        (unsigned)grid, (unsigned)ZN_HOPPER_THREADS(n), (unsigned)shared, &a);
    return true;
}

/* The tiles of hopper_conv and hopper_conv3.  cycles: of the tensor cores (or of shared memory, where that is slower)
 * for 128 bytes of channels of one tap. */
typedef struct tile_kind {
    const char *name;
    int outputs, pixels, n, cycles;
    int blocks; /* thread blocks of a cluster, which share one tile */
} tile_kind;

static const tile_kind kinds[] = {
    { "256", 128, 256, 256, 1024, 1 },   { "128_split", 64, 256, 128, 512, 1 }, { "128", 128, 128, 128, 512, 1 },
    { "64_split", 64, 128, 64, 270, 1 }, { "32_split", 64, 64, 32, 200, 1 },    { "256_pair", 256, 256, 256, 1024, 2 },
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* A convolution of elements of `bytes` bytes: h x w pixels of n images.  A tap is `chunks` steps of 128 bytes. */
typedef struct job {
    const zn_cuda_conv *c;
    zn_tensor x, y, residual;
    bool flat; /* 1x1: all pixels are one row */
    bool halo; /* hopper_conv3, at every image size: hopper_conv sums in another order */
    int bytes, chunks, taps, h, w, n;
} job;

/* 3x3, stride 1, padding 1; above, a strip of a picture may have its neighbour's row instead. */
static bool has_halo(const zn_cuda_conv *c)
{
    return zn_cuda_is_3x3(c) ||
        (c->kh == 3 && c->kw == 3 && c->stride == 1 && c->pad_l == 1 && c->pad_t == 0 && !c->up2);
}

static job job_of(const zn_cuda_conv *c, int bytes)
{
    job j = { c, c->x, c->y, c->tail.residual, .bytes = bytes, .chunks = zn_ceil_div(c->cin * bytes, 128) };

    j.flat = zn_cuda_is_point(c);
    j.halo = has_halo(c);
    j.taps = j.halo && c->merged ? 4 : c->kh * c->kw;
    if (j.flat) {
        j.x.w = j.x.n * j.x.h * j.x.w, j.x.n = j.x.h = 1;
        j.y.w = j.residual.w = j.x.w, j.y.n = j.y.h = j.residual.n = j.residual.h = 1;
    }
    j.h = c->up2 ? j.x.h : j.y.h;
    j.w = c->up2 ? j.x.w : j.y.w;
    j.n = c->up2 ? 4 * j.x.n : j.x.n;
    return j;
}

/* What to launch, and its estimated cycles. */
typedef struct plan {
    const tile_kind *kind;
    bool quantise; /* x is fp16, and the kernel quantises it to e4m3 */
    int tw, th, tiles_x, tiles_y, tiles_o;
    int64_t cost;
} plan;

static plan plan_tiles(const zn_cuda *d, const job *j, const tile_kind *k)
{
    plan p = { .kind = k, .tiles_o = zn_ceil_div(j->c->cout, k->outputs) };
    int least = INT32_MAX, bytes = (k->outputs + k->pixels) * 128 / k->blocks; /* a block reads per step */

    for (int tw = 8; tw <= k->pixels; tw *= 2) {
        const int th = k->pixels / tw, tiles = zn_ceil_div(j->w, tw) * zn_ceil_div(j->h, th);

        if (j->halo       ? tw != k->pixels / k->n * 8
                : j->flat ? tw != k->pixels
                          : tw * j->c->stride > 256 || th * j->c->stride > 256)
            continue;
        if (tiles < least || (tiles == least && tw <= 16)) /* square tiles have the smallest halo */
            least = tiles, p.tw = tw, p.th = th;
    }
    p.tiles_x = zn_ceil_div(j->w, p.tw);
    p.tiles_y = zn_ceil_div(j->h, p.th);
    if (j->halo)
        bytes = k->outputs * 128 + ZN_HOPPER_HALO(p.tw, p.th) / j->taps;
    /* A wave takes as long as its products or its loads (about 36 bytes a cycle), then comes its epilogue. */
    const int64_t waves = zn_ceil_div(p.tiles_x * p.tiles_y * p.tiles_o * j->n, d->sms / k->blocks);
    const int step = k->cycles > bytes / 36 ? k->cycles : bytes / 36;

    p.cost = waves * ((int64_t)step * j->taps * j->chunks + k->n * 10);
    return p;
}

static plan best_plan(const zn_cuda *d, const job *j)
{
    plan p = plan_tiles(d, j, &kinds[0]);

    for (int i = 1; i < N_KINDS; i++) {
        if (j->halo && kinds[i].blocks > 1)
            continue;
        const plan q = plan_tiles(d, j, &kinds[i]);

        if (q.cost < p.cost)
            p = q;
    }
    return p;
}

static bool run_linear(zn_cuda *d, zn_tensor y, zn_tensor x, const zn_cuda_conv *const *w, int n, int bytes);

/* Is there nothing after the product? */
static bool is_bare(const zn_cuda_conv *c)
{
    const zn_cuda_tail *t = &c->tail;

    return t->pre == ZN_NONE && t->post == ZN_NONE && t->gain == 1 && !t->residual.data && !c->also.data;
}

/* Whether hopper_linear.cu computes it. */
static bool is_linear(const job *j, plan p)
{
    return (j->c->integers && j->bytes == 1) || (j->flat && p.kind->blocks == 2 && is_bare(j->c));
}

static bool run(zn_cuda *d, const job *j, plan p)
{
    const zn_cuda_conv *c = j->c;

    if (is_linear(j, p))
        return run_linear(d, j->y, j->x, &c, 1, j->bytes);
    const tile_kind *k = p.kind;
    const int outputs = k->outputs / (p.quantise ? ZN_HOPPER_WARPGROUPS : k->blocks),
              weights = outputs * 128; /* bytes of one load */
    const int bare = zn_hopper_shared(p.quantise ? 2 * ZN_HOPPER_PART(p.th) : 0, k->n);
    const int stage = p.quantise ? 2 * ZN_HOPPER_PART(p.th)
        : j->halo                ? ZN_HOPPER_HALO(p.tw, p.th)
                                 : weights + k->pixels * 128;
    const int box_h = p.th == 1 ? 1 : p.th / k->blocks,
              box_w = p.th == 1 ? p.tw / k->blocks : p.tw; /* the part of one block */
    zn_hopper_conv a;

    memset(&a, 0, sizeof a);
    a.tail = tail_of(c, j->y);
    a.kw = c->kw;
    a.taps = j->taps;
    a.chunks = j->chunks;
    a.last = zn_ceil_div(c->cin * j->bytes - (j->chunks - 1) * 128, 32);
    a.cin_pad = c->cin_pad;
    a.stride = c->stride;
    a.pad_t = c->pad_t;
    a.pad_l = c->pad_l;
    a.up2 = c->up2;
    a.outputs = c->cout_pad;
    a.group = 8;
    a.tw = p.tw;
    a.th = p.th;
    a.tiles_x = p.tiles_x;
    a.tiles_y = p.tiles_y;
    a.tiles_n = j->n;
    a.tiles_o = p.tiles_o;
    a.tiles = a.tiles_x * a.tiles_y * a.tiles_n * a.tiles_o;
    a.stages = j->halo ? 2 : stages_for(d, bare, stage, ZN_HOPPER_MAX_STAGES);
    a.weight_stages = j->halo ? stages_for(d, bare + a.stages * stage, weights, ZN_HOPPER_MAX_STAGES) : 0;
    const int shared = bare + a.stages * stage + a.weight_stages * weights;
    const int chunk = zn_imin(k->n, 64), out_w = j->halo ? 8 : zn_imin(a.tw, chunk), out_h = chunk / out_w;
    const int rows = p.quantise ? (a.th + 2) / 2 : a.th + 2;

    if (shared > d->smem_max || !map_weights(d, &a.w, c, j->bytes, outputs, 128) ||
        !map_out(d, a.y, j->y, c->up2, out_w, out_h) ||
        !(j->halo ? map_pixels(d, &a.x, j->x, p.quantise ? 2 : j->bytes, 0, 1, ZN_HOPPER_PITCH(a.tw), rows, 1)
                  : map_pixels(d, &a.x, j->x, j->bytes, 0, 1, box_w, box_h, c->stride)) ||
        (a.tail.residual && !map_pixels(d, &a.residual, j->residual, 2, 0, 1, out_w, out_h, 1)))
        return false;
    const int grid = zn_imin(a.tiles, d->sms / k->blocks) * k->blocks;

    zn_cuda_launch_dependent(d,
                             zn_cuda_kernel("hopper_%s_%s_%s%s", j->halo ? "conv3" : "conv",
                                            j->bytes == 1 ? "e4m3" : zn_cuda_type_name(j->y.type), k->name,
                                            p.quantise ? "_quantise" : "")
                                 .text,
                             (unsigned)grid, (unsigned)ZN_HOPPER_THREADS(k->n), (unsigned)shared, &a);
    return true;
}

static bool takes(const zn_cuda *d, const zn_cuda_conv *c)
{
    const zn_tensor *r = &c->tail.residual;

    return d->cc == 90 && c->groups == 1 && fits(c->x) && fits(c->y) && c->y.type == c->x.type &&
        (!r->data || (fits(*r) && r->type == c->y.type && !c->up2)) && c->cin == c->cin_pad && c->cin >= 16 &&
        c->cout >= 16 && c->stride <= 8;
}

/* Sums the taps that read the same pixel, then multiplies. */
static bool merge_then_run(zn_cuda *d, zn_cuda_conv c)
{
    const size_t n = zn_cuda_merged_size((size_t)c.cout_pad, (size_t)c.cin_pad) / 16;
    const zn_hopper_merge a = { c.weight, c.merged, (uint32_t)c.cin_pad, (uint32_t)c.k_pad, (uint32_t)n };

    zn_cuda_launch_dependent(d, zn_cuda_kernel("hopper_merge_%s", zn_cuda_type_name(c.x.type)).text,
                             zn_cuda_blocks(n, 256), 256, 0, &a);
    c.weight = c.merged;
    c.k_pad = 16 * c.cin_pad;

    const job j = job_of(&c, 2);

    return run(d, &j, best_plan(d, &j));
}

bool zn_cuda_hopper_conv(zn_cuda *d, const zn_cuda_conv *c)
{
    const int up = c->up2 ? 2 : 1;
    const job j = job_of(c, 2);

    if (!takes(d, c))
        return false;
    if (zn_cuda_is_3x3(c) && c->cin == 64 && c->cout == 64 && c->y.h == up * c->x.h && c->y.w == up * c->x.w)
        return conv64(d, c);
    if (j.halo && c->merged)
        return merge_then_run(d, *c);
    return run(d, &j, best_plan(d, &j));
}

/* The layer decides: many pixels are worth the time in which each block loads all weights. */
bool zn_cuda_hopper_pixels(zn_cuda *d, const zn_cuda_conv *c, const zn_tail *t, bool stored, bool *also)
{
    const zn_tensor *r = &c->tail.residual;
    const zn_norm *norm = t->also ? t->also_norm : NULL;
    zn_hopper_pixels a;

    if (!c->many_pixels || !takes(d, c) || !has_halo(c) || c->up2 || c->cin != ZN_PIXELS_CHANNELS ||
        c->cout != ZN_PIXELS_CHANNELS || c->tail.pre != ZN_NONE || c->tail.post != ZN_NONE || c->tail.gain != 1)
        return false;
    memset(&a, 0, sizeof a);
    *also = norm && norm->kind == ZN_RMS_NORM && !norm->beta && fits(*t->also);
    a.bias = c->bias;
    a.residual = (const uint16_t *)(const void *)r->data;
    a.residual_ld = r->ld;
    a.y = (uint16_t *)(void *)c->y.data;
    a.y_ld = c->y.ld;
    if (*also) {
        a.gamma = norm->gamma;
        a.eps = norm->eps;
        a.also_act = (int)t->also_act;
        a.also = (uint16_t *)(void *)t->also->data;
        a.also_ld = t->also->ld;
        a.y = a.also == a.y ? NULL : a.y;
    }
    a.height = c->y.h;
    a.width = c->y.w;
    a.pad_t = c->pad_t;
    a.tiles_x = zn_ceil_div(c->y.w, 8);
    a.tiles_y = zn_ceil_div(c->y.h, ZN_PIXELS_ROWS);
    a.tiles = a.tiles_x * a.tiles_y * c->y.n;
    a.early = stored;
    if (zn_hopper_pixels_shared() > d->smem_max ||
        !map_pixels(d, &a.x, c->x, 2, 0, 1, ZN_HOPPER_PITCH(8), ZN_PIXELS_ROWS + 2, 1) ||
        !map_weights(d, &a.w, c, 2, ZN_PIXELS_CHANNELS, 128) ||
        !map_weights(d, &a.w_rest, c, 2, ZN_PIXELS_CHANNELS, 64))
        return false;
    zn_cuda_launch_dependent(d, zn_cuda_kernel("hopper_pixels_%s", zn_cuda_type_name(c->x.type)).text,
                             (unsigned)zn_imin(a.tiles, d->sms), ZN_HOPPER_THREADS(256),
                             (unsigned)zn_hopper_pixels_shared(), &a);
    return true;
}

/* Pixels that scratch memory holds as 8 bits, each with its scale, and whole tiles of scales. */
static size_t quantised_room(size_t c)
{
    return (ZN_CUDA_SCRATCH - 4096) / (c + sizeof(float));
}

/* Quantises the pixels of a 1x1 layer's x to e4m3 or s8 in scratch memory, which must hold them; the scales come first. */
static zn_tensor quantise_rows(zn_cuda *d, zn_tensor x, bool integers, const float **scale)
{
    const size_t n = zn_pixels(x), at = (size_t)zn_round_up((int)n + 256, 512) * sizeof(float);
    const zn_hopper_quantise_rows a = { x.data, d->scratch + at, (float *)(void *)d->scratch, (uint32_t)x.ld,
                                        (uint32_t)x.c };

    zn_cuda_launch_dependent(d, integers ? "hopper_rows_s8_f16" : "hopper_rows_quantise_f16", (unsigned)n, 256, 0, &a);
    *scale = a.scale;
    x.data = a.y;
    x.ld = x.c;
    return x;
}

/* Quantises c's x to 8 bits in scratch memory, which must hold it, then multiplies. */
static bool quantise_then_run(zn_cuda *d, zn_cuda_conv c)
{
    if (zn_cuda_is_point(&c)) {
        c.x = quantise_rows(d, c.x, c.integers, &c.scale_x);

        const job j = job_of(&c, 1);

        return run(d, &j, best_plan(d, &j));
    }

    const size_t per_pixel = (size_t)c.cin / 8, n = zn_pixels(c.x) * per_pixel;
    const zn_hopper_quantise a = { c.x.data, d->scratch, (uint32_t)c.x.ld, (uint32_t)per_pixel, (uint32_t)n };

    zn_cuda_launch_dependent(d, "hopper_quantise_f16", zn_cuda_blocks(n, 256 * ZN_HOPPER_QUANTISED), 256, 0, &a);
    c.x.data = (float *)(void *)d->scratch;
    c.x.ld = c.cin;

    const job j = job_of(&c, 1);

    return run(d, &j, best_plan(d, &j));
}

/* Pixels first .. first+n-1 of t as a row. */
static zn_tensor row_of(zn_tensor t, size_t first, size_t n)
{
    t = zn_cuda_from(t, first);
    t.n = t.h = 1;
    t.w = (int32_t)n;
    return t;
}

bool zn_cuda_hopper_conv8(zn_cuda *d, const zn_cuda_conv *c)
{
    const size_t pixels = zn_pixels(c->x), len = pixels * (size_t)c->cin, room = quantised_room((size_t)c->cin);
    zn_cuda_conv part = *c;

    if (!c->weight8 || c->x.type != ZN_F16 || !takes(d, c) || c->cin > ZN_HOPPER_ROW ||
        (c->integers && !(zn_cuda_is_point(c) && is_bare(c))))
        return false;
    part.weight = c->weight8;

    const job j = job_of(&part, 1);

    if (j.halo) {
        const plan before = best_plan(d, &j);
        plan inside = plan_tiles(d, &j, &kinds[0]);

        inside.quantise = true;
        /* Quantising x beforehand costs a launch and 3 bytes of traffic an element, about 2650 bytes a cycle. */
        if (pixels > room || inside.cost <= before.cost + 3000 + (int64_t)(len * 3 / 2650))
            return run(d, &j, inside);
        return quantise_then_run(d, part);
    }
    for (size_t first = 0, n; j.flat && first < pixels; first += n) {
        n = pixels - first < room ? pixels - first : room;
        part.x = row_of(c->x, first, n);
        part.y = row_of(c->y, first, n);
        part.tail.residual = row_of(c->tail.residual, first, n);
        if (!quantise_then_run(d, part))
            return false; /* only the first part can fail: strides and alignment are the same for all */
    }
    return j.flat;
}

/* ---- linear layers -------------------------------------------------------------------------------------------------- */

/* Pixels of a tile: the larger, unless the last wave of clusters is less idle with the smaller one. */
static int linear_tile(const zn_cuda *d, int rows, int pixels)
{
    const int clusters = d->sms / 2, tiles_o = zn_ceil_div(rows, 256);
    const int large = zn_ceil_div(tiles_o * zn_ceil_div(pixels, 256), clusters) * 256;
    const int small = zn_ceil_div(tiles_o * zn_ceil_div(pixels, 192), clusters) * 192;

    return small + small / 64 < large ? 192 : 256;
}

/* w[0] and, if there are two, the one that comes second in memory alternate, 8 rows each.  x and the weights have elements of
 * `bytes` bytes. */
static bool run_linear(zn_cuda *d, zn_tensor y, zn_tensor x, const zn_cuda_conv *const *w, int n, int bytes)
{
    const zn_cuda_conv *a0 = w[0], *a1 = w[n - 1];
    const int swapped = (const char *)a1->weight < (const char *)a0->weight, pixels = (int)zn_pixels(x);
    const zn_cuda_conv *first = swapped ? a1 : a0, *second = swapped ? a0 : a1;
    const uint64_t row = (uint64_t)a0->k_pad * (uint64_t)bytes;
    const uint64_t size[4] = { (uint64_t)a0->k_pad, 8, (uint64_t)n, (uint64_t)a0->cout_pad / 8 };
    const uint64_t apart = (uint64_t)((const char *)second->weight - (const char *)first->weight);
    const uint64_t pitch[3] = { row, n > 1 ? apart : row, row * 8 };
    const uint32_t box[4] = { (uint32_t)(128 / bytes), 8, (uint32_t)n, 16 / (uint32_t)n }, every[4] = { 1, 1, 1, 1 };
    const int tile = linear_tile(d, n * a0->cout, pixels);
    zn_hopper_linear a;

    memset(&a, 0, sizeof a);
    a.bias = a0->bias;
    a.scale_w = first->scale8;
    a.scale_w2 = second->scale8;
    a.scale_x = a0->scale_x;
    a.chunks = zn_ceil_div(a0->cin * bytes, 128);
    a.outputs = a0->cout;
    a.swapped = swapped;
    a.tiles_o = zn_ceil_div(n * a0->cout, 256);
    a.tiles_p = zn_ceil_div(pixels, tile);
    a.tiles = a.tiles_o * a.tiles_p;
    a.group = 8;
    a.stages = 4;
    x.w = y.w = pixels, x.n = y.n = x.h = y.h = 1;
    if (d->api->cuTensorMapEncodeTiled(&a.w, map_type(bytes, x.type), 4, (void *)(uintptr_t)first->weight, size, pitch,
                                       box, every, 0, MAP_SWIZZLE_128, MAP_PROMOTE_256, 0) ||
        !map_box(d, &a.x, x, bytes, 128 / bytes, tile / 2, MAP_SWIZZLE_128) ||
        !map_box(d, &a.y, y, 2, 64 / n, n > 1 ? tile / 2 : 64, n > 1 ? MAP_SWIZZLE_64 : MAP_SWIZZLE_128))
        return false;
    zn_cuda_launch_dependent(d,
                             zn_cuda_kernel("hopper_linear_%s%s_%d",
                                            bytes > 1          ? zn_cuda_type_name(y.type)
                                                : a0->integers ? "s8"
                                                               : "e4m3",
                                            n > 1 ? "_glu" : "", tile)
                                 .text,
                             (unsigned)zn_imin(a.tiles, d->sms / 2) * 2, ZN_HOPPER_THREADS(256),
                             (unsigned)zn_hopper_shared(a.stages * (128 + tile) * 128, 256), &a);
    return true;
}

/* Are these two layers of the same x, stored alike? */
static bool alike(const zn_cuda_conv *a, const zn_cuda_conv *b)
{
    return a->cin == b->cin && a->cout == b->cout && !a->scale8 == !b->scale8 && a->integers == b->integers;
}

bool zn_cuda_glu(void *dev, zn_tensor y, zn_tensor x, const zn_conv *gate, const zn_conv *up)
{
    enum { FEW = 192 }; /* pixels: most of a tile would be padding */
    zn_cuda *d = dev;
    zn_cuda_conv a[2] = { zn_cuda_conv_args(d, gate), zn_cuda_conv_args(d, up) };
    const zn_cuda_conv *const both[2] = { &a[0], &a[1] };
    const zn_conv *const w[2] = { gate, up };
    const size_t pixels = zn_pixels(x);
    size_t at = 0;

    for (int i = 0; i < 2; i++) {
        a[i].x = x, a[i].y = y;
        if (!takes(d, &a[i]) || !zn_cuda_is_point(&a[i]) || gate->has_bias || up->has_bias)
            return false;
    }
    if (!alike(&a[0], &a[1]) || pixels < FEW || pixels > INT32_MAX / 2)
        return false;
    if (a[0].scale8) {
        if (x.type != ZN_F16 || pixels > quantised_room((size_t)x.c) || x.c > ZN_HOPPER_ROW)
            return false;
        a[0].weight = a[0].weight8, a[1].weight = a[1].weight8;
        x = quantise_rows(d, x, a[0].integers, &a[0].scale_x);
        return run_linear(d, y, x, both, 2, 1);
    }
    if (!zn_cuda_conv_stored_as(d, gate, x.type))
        at = zn_cuda_conv_expanded_size(d, gate, x.type);
    if (at && !zn_cuda_expanded(d, 2 * at))
        return true; /* the device has failed */
    for (int i = 0; i < 2; i++)
        a[i].weight = zn_cuda_conv_weight(d, w[i], x.type, (size_t)i * at);
    return run_linear(d, y, x, both, 2, 2);
}

/* x is quantised once; otherwise there is nothing to gain. */
bool zn_cuda_linears(void *dev, const zn_tensor *y, zn_tensor x, const zn_conv *const *w, int n)
{
    zn_cuda *d = dev;
    const float *scale;
    int integers = 0;

    for (int i = 0; i < n; i++) {
        zn_cuda_conv a = zn_cuda_conv_args(d, w[i]);

        a.x = x, a.y = y[i];
        integers += a.integers;
        if (!a.scale8 || x.type != ZN_F16 || !takes(d, &a) || !zn_cuda_is_point(&a) || w[i]->has_bias ||
            zn_pixels(x) > quantised_room((size_t)x.c) || x.c > ZN_HOPPER_ROW)
            return false;
    }
    if (integers && integers != n)
        return false;
    x = quantise_rows(d, x, integers > 0, &scale);
    for (int i = 0; i < n; i++) {
        zn_cuda_conv a = zn_cuda_conv_args(d, w[i]);

        a.x = x, a.y = y[i], a.weight = a.weight8, a.scale_x = scale;
        a.tail.gain = 1;

        const job j = job_of(&a, 1);

        if (!run(d, &j, best_plan(d, &j)))
            zn_cuda_fail(d, ZN_E_DEVICE, "a linear layer could not be computed");
    }
    return true;
}

/* ---- attention ---------------------------------------------------------------------------------------------------- */

/* The kernels: outputs of a block, and keys of a step. */
static const struct form {
    int outputs, keys;
} forms[] = { { 64, 128 }, { 128, 128 }, { 256, 64 } };

/* Parts of k in shared memory: two blocks of keys if there is room, at least one that is in use while the next comes. */
static int attention_stages(const zn_cuda *d, int parts, struct form f)
{
    const int room = d->smem_max - zn_hopper_attention_shared(parts, 0, f.keys, f.outputs);
    const int n = zn_imin(zn_imin(room / (f.keys * 128), ZN_HOPPER_MAX_STAGES), 2 * parts);

    return n >= zn_imin(2 * parts, 4) ? n : 0;
}

/* The tokens of an image as one row. */
static bool map_tokens(const zn_cuda *d, zn_hopper_map *map, zn_tensor t, int tokens, int box)
{
    t.h = 1;
    t.w = tokens;
    return map_pixels(d, map, t, 2, 0, 1, box, 1, 1);
}

bool zn_cuda_hopper_attention(zn_cuda *d, const zn_args_attention *g, int heads)
{
    enum { LEAST = 256 }; /* tokens: below, blocks of 128 queries are too few */
    const int parts = g->dim / 64;
    const struct form *best = NULL;
    zn_hopper_attention a;
    int64_t least = INT64_MAX;

    if (d->cc != 90 || g->q.type == ZN_F32 || g->dim % 64 || g->dim_v % 64 || g->n_q < LEAST || g->n_k < LEAST)
        return false;
    memset(&a, 0, sizeof a);
    a.g = *g;
    a.heads = heads;
    a.parts = parts;
    a.tiles = zn_ceil_div(g->n_q, ZN_HOPPER_QUERIES);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const int cuts = zn_ceil_div(g->dim_v, forms[i].outputs);
        const int64_t blocks = (int64_t)a.tiles * heads * cuts * g->q.n, waves = (blocks + d->sms - 1) / d->sms;
        const int64_t cost = waves * (g->dim + forms[i].outputs); /* scores are computed for each cut again */

        if (cost < least && blocks < INT32_MAX && attention_stages(d, parts, forms[i])) {
            least = cost;
            best = &forms[i];
            a.g.cuts = cuts;
        }
    }
    if (!best || !map_tokens(d, &a.q, g->q, g->n_q, ZN_HOPPER_QUERIES) ||
        !map_tokens(d, &a.k, g->k, g->n_k, best->keys) || !map_tokens(d, &a.v, g->v, g->n_k, best->keys))
        return false;
    a.stages = attention_stages(d, parts, *best);
    zn_cuda_launch_dependent(d,
                             zn_cuda_kernel("hopper_attention_%s_%d", zn_cuda_type_name(g->q.type), best->outputs).text,
                             (unsigned)(a.tiles * heads * a.g.cuts * g->q.n), ZN_HOPPER_THREADS(256),
                             (unsigned)zn_hopper_attention_shared(parts, a.stages, best->keys, best->outputs), &a);
    return true;
}
