/* SPDX-License-Identifier: MIT */
/* dot8.h - products of integers (kernels.h): ZN_DOT8_ROWS or 4 rows with a panel, or one row with several panels.
 *
 * A group is summed in integers, exactly, and then scaled; the groups of a row are added in order, whatever the tile. */

enum { ROW_PANELS = 4 };

/* Four rows of a tile, lane by lane. */
#define DOT8_LANES(to, what)                                                                                           \
    do {                                                                                                               \
        (to)[0] = what(0);                                                                                             \
        (to)[1] = what(1);                                                                                             \
        (to)[2] = what(2);                                                                                             \
        (to)[3] = what(3);                                                                                             \
    } while (0)

/* A group of the rows of n tiles, `tile` bytes apart: products with its quads, scaled. */
INLINE void dot8_group(vf *acc, const vq w[ZN_QUADS], const vi_scale *c, const char *x, const char *scale, size_t tile,
                       const int n)
{
    vi sum[8];

    UNROLL_FOR (int r = 0; r < 4 * n; r++)
        sum[r] = vi_start(c);
    UNROLL_FOR (int k = 0; k < ZN_QUADS; k++)
        UNROLL_FOR (int t = 0; t < n; t++) {
            const vx rows = vx_load(x + (size_t)t * tile + 4 * ZN_DOT8_TILE * k);

#define PRODUCT(lane) vi_dot(sum[4 * t + (lane)], w[k], rows, lane)
            DOT8_LANES(sum + 4 * t, PRODUCT);
#undef PRODUCT
        }
    UNROLL_FOR (int t = 0; t < n; t++) {
        const va sx = va_load((const float *)(const void *)(scale + (size_t)t * tile));

#define SCALED(lane) va_fma(acc[4 * t + (lane)], vi_scaled(sum[4 * t + (lane)], c), sx, lane)
        DOT8_LANES(acc + 4 * t, SCALED);
#undef SCALED
    }
}

/* mr rows with all panels: the weights of a group stay in registers for all of them. */
INLINE void dot8_tile(const zn_dot8 *g, int row, const int mr, const zn_wtype type)
{
    const int groups = g->groups;
    const size_t tile = ZN_DOT8_TILE * zn_dot8_row(groups), panel = zn_dot8_panel(type, groups, VL);
    const char *first = (const char *)g->x + (size_t)row * zn_dot8_row(groups), *w = g->w;
    const vf unit = vf_set(type == ZN_W_I4 ? 1.0f / VQ_NIBBLE : 1);
    vi_scale c;

    vi_scale_init(&c);
    for (int p = 0; p < g->panels; p++, w += panel) {
        const uint16_t *scale_w = (const uint16_t *)(const void *)w;
        const char *q = (const char *)(scale_w + groups * VL), *x = first;
        const char *scale_x = x + (size_t)groups * ZN_W_GROUP * ZN_DOT8_TILE;
        vf acc[ZN_DOT8_ROWS];

        UNROLL_FOR (int r = 0; r < mr; r++)
            acc[r] = vf_set(0);
        for (int i = 0; i < groups; i++, scale_w += VL) {
            vq quads[ZN_QUADS];

            UNROLL_FOR (int k = 0; k < ZN_QUADS; k += 2) {
                if (type == ZN_W_I4) {
                    const vq two = vq_load(q);

                    quads[k] = vq_low(two), quads[k + 1] = vq_high(two);
                    q += 4 * VL;
                } else {
                    quads[k] = vq_load(q), quads[k + 1] = vq_load(q + 4 * VL);
                    q += 2 * 4 * VL;
                }
            }
            vi_scale_set(&c, scale_w);
            dot8_group(acc, quads, &c, x, scale_x, tile, mr / ZN_DOT8_TILE);
            x += ZN_W_GROUP * ZN_DOT8_TILE;
            scale_x += sizeof(float) * ZN_DOT8_TILE;
        }
        UNROLL_FOR (int r = 0; r < mr; r++)
            vf_store(g->y + (size_t)(row + r) * g->y_ld + (size_t)(p * VL), vf_mul(acc[r], unit));
    }
}

/* One row with np panels from `first` on. */
INLINE void dot8_row(const zn_dot8 *g, int row, int first, const int np, const zn_wtype type)
{
    const int groups = g->groups;
    const size_t panel = zn_dot8_panel(type, groups, VL), each = type == ZN_W_I4 ? 2 : 4; /* quads of x: vectors of w */
    const char *x = (const char *)g->x + (size_t)row * zn_dot8_row(groups);
    const float *scale_x = (const float *)(const void *)(x + (size_t)groups * ZN_W_GROUP);
    const char *w = (const char *)g->w + (size_t)first * panel, *q = w + sizeof(uint16_t) * (size_t)(groups * VL);
    const vf unit = vf_set(type == ZN_W_I4 ? 1.0f / VQ_NIBBLE : 1);
    vi_scale c[ROW_PANELS];
    vf acc[ROW_PANELS];

    UNROLL_FOR (int p = 0; p < np; p++) {
        vi_scale_init(&c[p]);
        acc[p] = vf_set(0);
    }
    for (int i = 0; i < groups; i++, w += sizeof(uint16_t) * VL) {
        const va sx = va_load1(scale_x + i);
        vi sum[ROW_PANELS];

        UNROLL_FOR (int p = 0; p < np; p++)
            sum[p] = vi_start(&c[p]);
        UNROLL_FOR (int k = 0; k < ZN_QUADS; k += 4, x += 16, q += each * 4 * VL) {
            const vx quads = vx_load(x);

            UNROLL_FOR (int p = 0; p < np; p++) {
                const char *at = q + (size_t)p * panel;
                vq v[4];

                if (type == ZN_W_I4) {
                    const vq a = vq_load(at), b = vq_load(at + 4 * VL);

                    v[0] = vq_low(a), v[1] = vq_high(a), v[2] = vq_low(b), v[3] = vq_high(b);
                } else {
                    v[0] = vq_load(at), v[1] = vq_load(at + 4 * VL);
                    v[2] = vq_load(at + 8 * VL), v[3] = vq_load(at + 12 * VL);
                }
                sum[p] = vi_dot(sum[p], v[0], quads, 0);
                sum[p] = vi_dot(sum[p], v[1], quads, 1);
                sum[p] = vi_dot(sum[p], v[2], quads, 2);
                sum[p] = vi_dot(sum[p], v[3], quads, 3);
            }
        }
        UNROLL_FOR (int p = 0; p < np; p++) {
            vi_scale_set(&c[p], (const uint16_t *)(const void *)(w + (size_t)p * panel));
            acc[p] = va_fma(acc[p], vi_scaled(sum[p], &c[p]), sx, 0);
        }
    }
    UNROLL_FOR (int p = 0; p < np; p++)
        vf_store(g->y + (size_t)row * g->y_ld + (size_t)((first + p) * VL), vf_mul(acc[p], unit));
}

/* Each tile is a function of its own, as in gemm.h. */
#define DOT8(name, type)                                                                                               \
    static __attribute__((noinline)) void dot8_##name##_most(const zn_dot8 *g, int row)                                \
    {                                                                                                                  \
        dot8_tile(g, row, ZN_DOT8_ROWS, type);                                                                         \
    }                                                                                                                  \
    static __attribute__((noinline)) void dot8_##name##_4(const zn_dot8 *g, int row)                                   \
    {                                                                                                                  \
        dot8_tile(g, row, 4, type);                                                                                    \
    }                                                                                                                  \
    static __attribute__((noinline)) void dot8_##name##_1(const zn_dot8 *g, int row)                                   \
    {                                                                                                                  \
        int p = 0;                                                                                                     \
                                                                                                                       \
        for (; p + ROW_PANELS <= g->panels; p += ROW_PANELS)                                                           \
            dot8_row(g, row, p, ROW_PANELS, type);                                                                     \
        for (; p < g->panels; p++)                                                                                     \
            dot8_row(g, row, p, 1, type);                                                                              \
    }                                                                                                                  \
    static void dot8_##name(const zn_dot8 *g)                                                                          \
    {                                                                                                                  \
        int row = 0;                                                                                                   \
                                                                                                                       \
        for (; row + ZN_DOT8_ROWS <= g->rows; row += ZN_DOT8_ROWS)                                                     \
            dot8_##name##_most(g, row);                                                                                \
        for (; row + ZN_DOT8_TILE <= g->rows; row += ZN_DOT8_TILE)                                                     \
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
