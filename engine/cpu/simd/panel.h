/* SPDX-License-Identifier: MIT */
/* panel.h - the matrix product at constant strides: MR pixels x one panel of outputs, for gated blocks, for 1x1
 * convolutions in groups and for each position of Winograd's tiles.  No table of pointers; k is a multiple of 4.
 *
 * The result of a pixel does not depend on the tile that computes it. */

enum panel_end { PANEL_PLAIN, PANEL_GATE, PANEL_RES, PANEL_PART /* of the last vector; res may be NULL */ };

INLINE void panel_store(const vf *acc, const zn_panel *g, const int row, const int nv, const enum panel_end end)
{
    const float *res = g->res ? g->res + (size_t)row * g->res_ld : NULL;
    elem *y = (elem *)g->y + (size_t)row * g->y_ld;

    if (end == PANEL_GATE) {
        UNROLL_FOR (int j = 0; j < nv / 2; j++)
            vf_store(y + j * VL, vf_mul(acc[j], acc[j + nv / 2]));
        return;
    }
    UNROLL_FOR (int j = 0; j < nv; j++) {
        const size_t m = end == PANEL_PART && j == nv - 1 ? (size_t)(g->n - j * VL) : VL;

        if (end == PANEL_RES || (end == PANEL_PART && res))
            vf_add_to((float *)g->y + (size_t)row * g->y_ld + j * VL, res + j * VL, acc[j], m);
        else if (m == VL)
            vf_store(y + j * VL, acc[j]);
        else
            vf_store_n(y + j * VL, acc[j], m);
    }
}

/* Where lanes are broadcast from memory, three pixels share a pointer: there are too few registers for one each. */
enum { PANEL_SHARE = VK == 1 ? 3 : 1, PANEL_MOST = 12, PANEL_EACH = PANEL_CHAIN ? PANEL_CHAIN : 1 };

/* A tile of mr pixels that ends with the last one: how many of its pixels an earlier tile has stored. */
static inline int panel_skip(int left, int mr)
{
    return left < mr ? mr - left : 0;
}

/* After PANEL_CHAIN products, if it is not 0: acc is added to the sums before it, and begins anew.  An element that is short
 * then never sums up more. */
INLINE void panel_fold(vf acc[][NV], elem *sum, const bool first, const int mr, const int nv)
{
    UNROLL_FOR (int r = 0; r < mr; r++)
        UNROLL_FOR (int j = 0; j < nv; j++) {
            elem *to = sum + (r * NV + j) * VL;

            vf_store(to, first ? acc[r][j] : vf_add(acc[r][j], vf_load(to)));
            acc[r][j] = vf_set(0);
        }
}

/* mr pixels from `row` on, of which the first `skip` are not stored. */
INLINE void panel_tile(const zn_panel *g, const int row, const int skip, const int mr, const int nv,
                       const enum panel_end end)
{
    const size_t ld = g->x_ld;
    const elem *x[PANEL_MOST], *w = (const elem *)g->w + nv * VL;
    const float *ahead = end == PANEL_GATE ? g->ahead + (size_t)row * g->ahead_ld : (const float *)g->x;
    const elem *y = (const elem *)g->y + (size_t)row * g->y_ld;
    elem sum[PANEL_CHAIN ? PANEL_MOST * NV * VL : 1];
    vf acc[PANEL_MOST][NV];

    __asm__("" : "=m"(sum)); /* gcc does not see that the first fold writes them */
    UNROLL_FOR (int r = 0; r < mr; r++, ahead += g->ahead_ld, y += g->y_ld) {
        if (r % PANEL_SHARE == 0)
            x[r / PANEL_SHARE] = (const elem *)g->x + (size_t)(row + r) * ld;
        UNROLL_FOR (int j = 0; j < nv; j++)
            acc[r][j] = vf_load((const elem *)g->w + j * VL);
        if (end == PANEL_GATE)
            __builtin_prefetch(ahead, 0, 2);
        UNROLL_FOR (int j = 0; j < nv && end == PANEL_RES && VK == 1; j++) /* prefetch while the sums are computed */
            __builtin_prefetch(y + j * VL, 1);
    }
    for (int c = 0; c < g->k; c += 4, w += 4 * nv * VL) {
        va a[PANEL_MOST];

        if (PANEL_CHAIN > 0 && c > 0 && c % PANEL_EACH == 0) {
            if (c == PANEL_EACH)
                panel_fold(acc, sum, true, mr, nv);
            else
                panel_fold(acc, sum, false, mr, nv);
        }

        UNROLL_FOR (int r = 0; r < mr; r++) {
            if (PANEL_SHARE > 1 && r % PANEL_SHARE == 0)
                __asm__("" : "+r"(x[r / PANEL_SHARE])); /* or gcc keeps one pointer for each pixel, spilled */
            a[r] = va_load(x[r / PANEL_SHARE] + (size_t)(r % PANEL_SHARE) * ld);
        }
        GEMM_STEP(acc, 0);
        GEMM_STEP(acc, 1);
        GEMM_STEP(acc, 2);
        GEMM_STEP(acc, 3);
        UNROLL_FOR (int r = 0; r < mr; r += PANEL_SHARE)
            x[r / PANEL_SHARE] += 4;
    }
    if (PANEL_CHAIN > 0 && g->k > PANEL_CHAIN)
        UNROLL_FOR (int r = 0; r < mr; r++)
            UNROLL_FOR (int j = 0; j < nv; j++)
                acc[r][j] = vf_add(acc[r][j], vf_load(sum + (r * NV + j) * VL));
    UNROLL_FOR (int r = 0; r < mr; r++)
        if (r >= skip)
            panel_store(acc[r], g, row + r, nv, end);
}

/* All pixels: tiles of PANEL_MR, then of 8 or 4; the last tile is moved back until it is full. */
#define PANEL_TILE(nv, name, end, mr)                                                                                  \
    static __attribute__((noinline)) void panel_##name##_##nv##_##mr(const zn_panel *g, int row, int skip)             \
    {                                                                                                                  \
        panel_tile(g, row, skip, mr, nv, end);                                                                         \
    }
#define PANEL_ROWS(nv, name, end)                                                                                      \
    PANEL_TILE(nv, name, end, 1)                                                                                       \
    PANEL_TILE(nv, name, end, 4)                                                                                       \
    PANEL_TILE(nv, name, end, 8)                                                                                       \
    static __attribute__((noinline)) void panel_##name##_##nv(const zn_panel *g)                                       \
    {                                                                                                                  \
        const int most = PANEL_MR(nv), rows = g->rows;                                                                 \
        int row = 0;                                                                                                   \
                                                                                                                       \
        for (; rows >= most && rows - row > (most > 8 ? 8 : 4); row += most) {                                         \
            int skip = panel_skip(rows - row, most);                                                                   \
                                                                                                                       \
            panel_tile(g, row - skip, skip, most, nv, end);                                                            \
        }                                                                                                              \
        for (int mr; row < rows; row += mr) {                                                                          \
            int skip;                                                                                                  \
                                                                                                                       \
            mr = most > 8 && rows - row > 4 && rows >= 8 ? 8 : rows >= 4 ? 4 : 1;                                      \
            skip = panel_skip(rows - row, mr);                                                                         \
            (mr == 8       ? panel_##name##_##nv##_8                                                                   \
                 : mr == 4 ? panel_##name##_##nv##_4                                                                   \
                           : panel_##name##_##nv##_1)(g, row - skip, skip);                                            \
        }                                                                                                              \
    }
#define PANEL(nv)                                                                                                      \
    PANEL_ROWS(nv, plain, PANEL_PLAIN)                                                                                 \
    PANEL_ROWS(nv, gate, PANEL_GATE)                                                                                   \
    PANEL_ROWS(nv, res, PANEL_RES)                                                                                     \
    PANEL_ROWS(nv, part, PANEL_PART)                                                                                   \
    static void panel_##nv(const zn_panel *g)                                                                          \
    {                                                                                                                  \
        if (g->gate)                                                                                                   \
            panel_gate_##nv(g);                                                                                        \
        else if (g->n % VL)                                                                                            \
            panel_part_##nv(g);                                                                                        \
        else if (g->res)                                                                                               \
            panel_res_##nv(g);                                                                                         \
        else                                                                                                           \
            panel_plain_##nv(g);                                                                                       \
    }

PANEL(1)
PANEL(2)
#if ZN_MANY_REGISTERS
PANEL(3)
PANEL(4)
#endif

static ZN_DECL_PANEL(ZN_FN(panel))
{
    switch ((g->n + VL - 1) / VL) {
    case 1:
        panel_1(g);
        break;
    case 2:
        panel_2(g);
        break;
#if ZN_MANY_REGISTERS
    case 3:
        panel_3(g);
        break;
    case 4:
        panel_4(g);
        break;
#endif
    }
}
