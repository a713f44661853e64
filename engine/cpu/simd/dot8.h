/* SPDX-License-Identifier: MIT */
/* dot8.h - products of integers (kernels.h): DOT8_MR rows, 8 or 4 with a panel, or one row with several panels.
 *
 * A group is summed in integers, exactly, and then scaled; the groups of a row are added in order, whatever the tile. */

enum { DOT8_PREFETCH = 1024 }; /* bytes ahead in a panel, with one row: weights beyond L3 are waited for */

/* Bytes of a quad of VL outputs. */
INLINE size_t vq_size(zn_wtype type)
{
    return (type == ZN_W_I4 ? 2 : 4) * VL;
}

/* Four rows of a tile, lane by lane. */
#define DOT8_LANES(to, what)                                                                                           \
    do {                                                                                                               \
        (to)[0] = what(0);                                                                                             \
        (to)[1] = what(1);                                                                                             \
        (to)[2] = what(2);                                                                                             \
        (to)[3] = what(3);                                                                                             \
    } while (0)

/* A group of the rows of n tiles, `tile` bytes apart: products with its quads, scaled. */
INLINE void dot8_group(vf *acc, const char *q, const vi_scale *c, const char *x, const char *scale, const char *start,
                       size_t tile, const int n, const zn_wtype type)
{
    vi sum[DOT8_MR];

    UNROLL_FOR (int t = 0; t < n; t++) {
        const int32_t *s = (const int32_t *)(const void *)(start + (size_t)t * tile);

#define START(lane) vi_start(s + (lane))
        DOT8_LANES(sum + 4 * t, START);
#undef START
    }
    UNROLL_FOR (int k = 0; k < ZN_QUADS; k += DOT8_AHEAD) {
        vq w[DOT8_AHEAD];

        UNROLL_FOR (int i = 0; i < DOT8_AHEAD; i += 2)
            vq_pair(w + i, q + (size_t)(k + i) * vq_size(type), type);
        UNROLL_FOR (int i = 0; i < DOT8_AHEAD; i++)
            UNROLL_FOR (int t = 0; t < n; t++) {
                const vx rows = vx_load(x + (size_t)t * tile + 4 * ZN_DOT8_TILE * (k + i));

#define PRODUCT(lane) vi_dot(sum[4 * t + (lane)], w[i], rows, lane, type)
                DOT8_LANES(sum + 4 * t, PRODUCT);
#undef PRODUCT
            }
    }
    UNROLL_FOR (int t = 0; t < n; t++) {
        const va sx = va_load((const float *)(const void *)(scale + (size_t)t * tile));
        const int32_t *s = (const int32_t *)(const void *)(start + (size_t)t * tile);

#define SCALED(lane) va_fma(acc[4 * t + (lane)], vi_scaled(sum[4 * t + (lane)], c, s + (lane), type), sx, lane)
        DOT8_LANES(acc + 4 * t, SCALED);
#undef SCALED
        (void)s;
    }
}

/* mr rows with all panels: the weights of a group are expanded once for all of them. */
INLINE void dot8_tile(const zn_dot8 *g, int row, const int mr, const zn_wtype type)
{
    const int groups = g->groups;
    const size_t tile = ZN_DOT8_TILE * zn_dot8_row(groups), panel = zn_dot8_panel(type, groups, VL);
    const char *first = (const char *)g->x + (size_t)row * zn_dot8_row(groups), *w = g->w;
    const vf unit = vf_set(type == ZN_W_I4 ? 1.0f / VQ_NIBBLE : 1);
    vi_scale c;

    for (int p = 0; p < g->panels; p++, w += panel) {
        const char *q = w, *x = first;
        const char *scale_x = x + (size_t)groups * ZN_W_GROUP * ZN_DOT8_TILE;
        const char *start = scale_x + (size_t)groups * sizeof(float) * ZN_DOT8_TILE;
        vf acc[DOT8_MR];

        UNROLL_FOR (int r = 0; r < mr; r++)
            acc[r] = vf_set(0);
        for (int i = 0; i < groups; i++) {
            vi_scale_set(&c, (const uint16_t *)(const void *)q);
            q += sizeof(uint16_t) * VL;
            dot8_group(acc, q, &c, x, scale_x, start, tile, mr / ZN_DOT8_TILE, type);
            q += ZN_QUADS * vq_size(type);
            x += ZN_W_GROUP * ZN_DOT8_TILE;
            scale_x += sizeof(float) * ZN_DOT8_TILE;
            start += sizeof(int32_t) * ZN_DOT8_TILE;
        }
        UNROLL_FOR (int r = 0; r < mr; r++)
            vf_store(g->y + (size_t)(row + r) * g->y_ld + (size_t)(p * VL), vf_mul(acc[r], unit));
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
        const va sx = va_load1(scale_x + i);
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

/* Each tile is a function of its own, as in gemm.h. */
#define DOT8(name, type)                                                                                               \
    static __attribute__((noinline)) void dot8_##name##_most(const zn_dot8 *g, int row)                                \
    {                                                                                                                  \
        dot8_tile(g, row, DOT8_MR, type);                                                                              \
    }                                                                                                                  \
    static __attribute__((noinline)) void dot8_##name##_8(const zn_dot8 *g, int row)                                   \
    {                                                                                                                  \
        dot8_tile(g, row, DOT8_MR < 8 ? DOT8_MR : 8, type);                                                            \
    }                                                                                                                  \
    static __attribute__((noinline)) void dot8_##name##_4(const zn_dot8 *g, int row)                                   \
    {                                                                                                                  \
        dot8_tile(g, row, 4, type);                                                                                    \
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
    static void dot8_##name(const zn_dot8 *g)                                                                          \
    {                                                                                                                  \
        int row = 0;                                                                                                   \
                                                                                                                       \
        for (; row + DOT8_MR <= g->rows; row += DOT8_MR)                                                               \
            dot8_##name##_most(g, row);                                                                                \
        for (; DOT8_MR > 8 && row + 8 <= g->rows; row += 8)                                                            \
            dot8_##name##_8(g, row);                                                                                   \
        for (; DOT8_MR > 4 && row + 4 <= g->rows; row += 4)                                                            \
            dot8_##name##_4(g, row);                                                                                   \
        for (; row < g->rows; row++)                                                                                   \
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
