/* SPDX-License-Identifier: MIT */
/* dot8.h - products of integers (kernels.h): DOT8_MR rows, 8 or 4 with a panel, or one row with several panels.
 *
 * A group is summed in integers, exactly, and then scaled; the groups of a row are added in order, whatever the tile and
 * whatever the parts. */

#include <limits.h>

enum { DOT8_PREFETCH = 1024 }; /* bytes ahead in a panel, with one row: weights beyond L3 are waited for */

/* Bytes of a quad of VL outputs. */
INLINE size_t vq_size(zn_wtype type)
{
    return (type == ZN_W_I4 ? 2 : 4) * VL;
}

/* Four rows of a tile with a panel: their sums start, take products with DOT8_DEPTH quads, are scaled, are stored.  A CPU
 * that multiplies small matrices has its own (arm/dot8_i8mm.c). */
#ifndef DOT8_FOUR
enum { DOT8_PART = INT_MAX }; /* groups at a time */
typedef vi_scale four_scale;

/* Lane by lane. */
#define DOT8_LANES(to, what)                                                                                           \
    do {                                                                                                               \
        (to)[0] = what(0);                                                                                             \
        (to)[1] = what(1);                                                                                             \
        (to)[2] = what(2);                                                                                             \
        (to)[3] = what(3);                                                                                             \
    } while (0)

/* Groups from .. end-1 of all panels, as products take them: here as they are packed. */
INLINE void four_prepare(const zn_dot8 *g, int from, int end, const zn_wtype type)
{
    (void)g, (void)from, (void)end, (void)type;
}

/* The first group of a part of a panel, and from one to the next. */
INLINE const char *four_panel(const zn_dot8 *g, int panel, int from, const zn_wtype type)
{
    return (const char *)g->w + zn_dot8_panel(type, panel * g->groups + from, VL);
}

INLINE size_t four_group(const zn_wtype type)
{
    return zn_dot8_panel(type, 1, VL);
}

INLINE void four_scale_set(four_scale *c, const char *group)
{
    vi_scale_set(c, (const uint16_t *)(const void *)group);
}

INLINE void four_pair(vq w[2], const char *group, int k, const zn_wtype type)
{
    vq_pair(w, group + sizeof(uint16_t) * VL + (size_t)k * vq_size(type), type);
}

INLINE void four_start(vi sum[4], const int32_t *start)
{
#define START(row) vi_start(start + (row))
    DOT8_LANES(sum, START);
#undef START
}

INLINE void four_dot(vi sum[4], const vq *w, const char *x, const zn_wtype type)
{
    vx rows[DOT8_DEPTH];

    UNROLL_FOR (int i = 0; i < DOT8_DEPTH; i++)
        rows[i] = vx_load(x + 16 * i);
#define FIRST(row) vi_dot(sum[row], w[0], rows[(row)*DOT8_DEPTH / 4], (row)*DOT8_DEPTH % 4, type)
#define SECOND(row) vi_dot(sum[row], w[1], rows[(row)*DOT8_DEPTH / 4], ((row)*DOT8_DEPTH + 1) % 4, type)
    (void)type;
    DOT8_LANES(sum, FIRST);
    if (DOT8_DEPTH == 2)
        DOT8_LANES(sum, SECOND);
#undef SECOND
#undef FIRST
}

INLINE void four_scaled(vf acc[4], const vi sum[4], const four_scale *c, const float *scale, const int32_t *start,
                        const zn_wtype type)
{
    va sx[DOT8_DEPTH];

    UNROLL_FOR (int i = 0; i < DOT8_DEPTH; i++)
        sx[i] = va_load(scale + 4 * i);
#define SCALED(row)                                                                                                    \
    va_fma(acc[row], vi_scaled(sum[row], c, start + (row), type), sx[(row)*DOT8_DEPTH / 4], (row)*DOT8_DEPTH % 4)
    DOT8_LANES(acc, SCALED);
#undef SCALED
    (void)start;
}

INLINE void four_store(float *y, size_t ld, const vf acc[4], vf times)
{
    UNROLL_FOR (int r = 0; r < 4; r++)
        vf_store(y + (size_t)r * ld, vf_mul(acc[r], times));
}
#endif

/* A group of the rows of n tiles, `tile` bytes apart: products with its quads, scaled. */
INLINE void dot8_group(vf *acc, const char *group, const four_scale *c, const char *x, const char *scale,
                       const char *start, size_t tile, const int n, const zn_wtype type)
{
    vi sum[DOT8_MR];

    UNROLL_FOR (int t = 0; t < n; t++)
        four_start(sum + 4 * t, (const int32_t *)(const void *)(start + (size_t)t * tile));
    UNROLL_FOR (int k = 0; k < ZN_QUADS; k += DOT8_AHEAD) {
        vq w[DOT8_AHEAD];

        UNROLL_FOR (int i = 0; i < DOT8_AHEAD; i += 2)
            four_pair(w + i, group, k + i, type);
        UNROLL_FOR (int i = 0; i < DOT8_AHEAD; i += DOT8_DEPTH)
            UNROLL_FOR (int t = 0; t < n; t++)
                four_dot(sum + 4 * t, w + i, x + (size_t)t * tile + 4 * ZN_DOT8_TILE * (k + i), type);
    }
    UNROLL_FOR (int t = 0; t < n; t++)
        four_scaled(acc + 4 * t, sum + 4 * t, c, (const float *)(const void *)(scale + (size_t)t * tile),
                    (const int32_t *)(const void *)(start + (size_t)t * tile), type);
}

/* mr rows with groups part .. part_end-1 of all panels: the weights of a group are expanded once for all of them.  Between parts y
 * holds what is in registers. */
INLINE void dot8_tile(const zn_dot8 *g, int row, int part, int part_end, const int mr, const zn_wtype type)
{
    const int groups = g->groups, from = DOT8_PART == INT_MAX ? 0 : part; /* known where there is one part */
    const int end = DOT8_PART == INT_MAX ? groups : part_end;
    const size_t tile = ZN_DOT8_TILE * zn_dot8_row(groups), ahead = (size_t)from * ZN_DOT8_TILE;
    const char *first = (const char *)g->x + (size_t)row * zn_dot8_row(groups);
    const vf unit = vf_set(type == ZN_W_I4 ? 1.0f / VQ_NIBBLE : 1);
    float *y = g->y + (size_t)row * g->y_ld;
    four_scale c;

    for (int p = 0; p < g->panels; p++, y += VL) {
        const char *w = four_panel(g, p, from, type), *x = first + ahead * ZN_W_GROUP;
        const char *scale_x = first + (size_t)groups * ZN_W_GROUP * ZN_DOT8_TILE + ahead * DOT8_DEPTH * sizeof(float);
        const char *start = scale_x + (size_t)groups * sizeof(float) * ZN_DOT8_TILE;
        vf acc[DOT8_MR];

        UNROLL_FOR (int r = 0; r < mr; r++)
            acc[r] = from ? vf_load(y + (size_t)r * g->y_ld) : vf_set(0);
        for (int i = from; i < end; i++) {
            four_scale_set(&c, w);
            dot8_group(acc, w, &c, x, scale_x, start, tile, mr / ZN_DOT8_TILE, type);
            w += four_group(type);
            x += ZN_W_GROUP * ZN_DOT8_TILE;
            scale_x += DOT8_DEPTH * sizeof(float) * ZN_DOT8_TILE;
            start += sizeof(int32_t) * ZN_DOT8_TILE;
        }
        if (end < groups)
            UNROLL_FOR (int r = 0; r < mr; r++)
                vf_store(y + (size_t)r * g->y_ld, acc[r]);
        else
            UNROLL_FOR (int r = 0; r < mr; r += 4)
                four_store(y + (size_t)r * g->y_ld, g->y_ld, acc + r, unit);
    }
}

/* One row with np panels from `first` on. */
INLINE void dot8_row(const zn_dot8 *g, int row, int first, const int np, const zn_wtype type)
{
    const int groups = g->groups;
    const size_t panel = zn_dot8_panel(type, groups, VL), group = zn_dot8_panel(type, 1, VL);
    const char *x = (const char *)g->x + (size_t)row * zn_dot8_row(groups);
    const float *scale_x = (const float *)(const void *)(x + (size_t)groups * ZN_W_GROUP);
    const int32_t *start = (const int32_t *)(const void *)(scale_x + groups);
    const char *q = (const char *)g->w + (size_t)first * panel;
    const vf unit = vf_set(type == ZN_W_I4 ? 1.0f / VQ_NIBBLE : 1);
    vf acc[ZN_DOT8_PANELS];

    UNROLL_FOR (int p = 0; p < np; p++)
        acc[p] = vf_set(0);
    for (int i = 0; i < groups; i++) {
        const char *w = q;
        const va sx = va_load1(scale_x + DOT8_DEPTH * i);
        vi sum[ZN_DOT8_PANELS];

        q += sizeof(uint16_t) * VL;
        UNROLL_FOR (int p = 0; p < np; p++)
            UNROLL_FOR (size_t at = 64; at <= group; at += 64)
                __builtin_prefetch(w + (size_t)p * panel + DOT8_PREFETCH - 64 + at);
        UNROLL_FOR (int p = 0; p < np; p++)
            sum[p] = vi_start(start + i);
        UNROLL_FOR (int k = 0; k < ZN_QUADS; k += 4, x += 16, q += 4 * vq_size(type)) {
            const vx quads = vx_load(x);

            UNROLL_FOR (int p = 0; p < np; p++) {
                vq v[4];

                vq_pair(v, q + (size_t)p * panel, type);
                vq_pair(v + 2, q + (size_t)p * panel + 2 * vq_size(type), type);
                sum[p] = vi_dot(sum[p], v[0], quads, 0, type);
                sum[p] = vi_dot(sum[p], v[1], quads, 1, type);
                sum[p] = vi_dot(sum[p], v[2], quads, 2, type);
                sum[p] = vi_dot(sum[p], v[3], quads, 3, type);
            }
        }
        UNROLL_FOR (int p = 0; p < np; p++) {
            const uint16_t *scale_w = (const uint16_t *)(const void *)(w + (size_t)p * panel);

            acc[p] = va_fma(acc[p], vi_scaled_once(sum[p], scale_w, start + i, type), sx, 0);
        }
    }
    UNROLL_FOR (int p = 0; p < np; p++)
        vf_store(g->y + (size_t)row * g->y_ld + (size_t)((first + p) * VL), vf_mul(acc[p], unit));
}

/* Each tile is a function of its own, as in gemm.h.  No tile of 4 remains where two of 8 do. */
#define DOT8(name, type)                                                                                               \
    static __attribute__((noinline)) void dot8_##name##_most(const zn_dot8 *g, int row, int from, int end)             \
    {                                                                                                                  \
        dot8_tile(g, row, from, end, DOT8_MR, type);                                                                   \
    }                                                                                                                  \
    static __attribute__((noinline)) void dot8_##name##_8(const zn_dot8 *g, int row, int from, int end)                \
    {                                                                                                                  \
        dot8_tile(g, row, from, end, DOT8_MR < 8 ? DOT8_MR : 8, type);                                                 \
    }                                                                                                                  \
    static __attribute__((noinline)) void dot8_##name##_4(const zn_dot8 *g, int row, int from, int end)                \
    {                                                                                                                  \
        dot8_tile(g, row, from, end, 4, type);                                                                         \
    }                                                                                                                  \
    static __attribute__((noinline)) void dot8_##name##_1(const zn_dot8 *g, int row)                                   \
    {                                                                                                                  \
        int p = 0;                                                                                                     \
                                                                                                                       \
        for (; p + ZN_DOT8_PANELS <= g->panels; p += ZN_DOT8_PANELS)                                                   \
            dot8_row(g, row, p, ZN_DOT8_PANELS, type);                                                                 \
        for (; p < g->panels; p++)                                                                                     \
            dot8_row(g, row, p, 1, type);                                                                              \
    }                                                                                                                  \
    static void dot8_##name##_tiles(const zn_dot8 *g, int rows, int from, int end)                                     \
    {                                                                                                                  \
        int row = 0;                                                                                                   \
                                                                                                                       \
        four_prepare(g, from, end, type);                                                                              \
        for (; row + DOT8_MR <= rows && (DOT8_MR <= 8 || rows - row != DOT8_MR + 4); row += DOT8_MR)                   \
            dot8_##name##_most(g, row, from, end);                                                                     \
        for (; DOT8_MR > 8 && row + 8 <= rows; row += 8)                                                               \
            dot8_##name##_8(g, row, from, end);                                                                        \
        for (; DOT8_MR > 4 && row + 4 <= rows; row += 4)                                                               \
            dot8_##name##_4(g, row, from, end);                                                                        \
    }                                                                                                                  \
    static void dot8_##name(const zn_dot8 *g)                                                                          \
    {                                                                                                                  \
        const int tiles = g->rows - g->rows % ZN_DOT8_TILE;                                                            \
                                                                                                                       \
        for (int from = 0, end; tiles && from < g->groups; from = end) {                                               \
            end = g->groups - from < DOT8_PART ? g->groups : from + DOT8_PART;                                         \
            dot8_##name##_tiles(g, tiles, from, end);                                                                  \
        }                                                                                                              \
        for (int row = tiles; row < g->rows; row++)                                                                    \
            dot8_##name##_1(g, row);                                                                                   \
    }

DOT8(i8, ZN_W_I8)
DOT8(i4, ZN_W_I4)

static ZN_DECL_DOT8(ZN_FN(dot8))
{
    if (g->type == ZN_W_I8)
        dot8_i8(g);
    else
        dot8_i4(g);
}
