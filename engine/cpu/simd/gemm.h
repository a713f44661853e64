/* SPDX-License-Identifier: MIT */
/* gemm.h - the register tile of every dense convolution: MR pixels x NV vectors of outputs.
 *
 * Loops over rows and vectors have constant bounds and are unrolled, so that acc stays in registers. */

/* Adds bias, applies the tail, and stores n channels of one pixel; the slow activations come here. */
static __attribute__((noinline)) void finish_row(float *y, const float *x, const float *bias, const float *res, int n,
                                                 const zn_tail *t)
{
    for (int i = 0; i < n; i += VL) {
        bool whole = n - i >= VL;
        size_t m = (size_t)(n - i);
        vf v = vf_add(vf_load(x + i), vf_load(bias + i)), s = vf_set(0);

        if (res)
            s = whole ? vf_load(res + i) : vf_load_n(res + i, m);
        v = v_tail(v, res ? &s : NULL, t);
        if (whole)
            vf_store(y + i, v);
        else
            vf_store_n(y + i, v, m);
    }
}

/* The rows from `row` on: mr of them, of which as many are stored as there are. */
INLINE void gemm_tile(const zn_product *g, const int row, const int mr, const int nv)
{
    vf acc[MR][NV], odd[MR][1];
    const zn_tail *t = g->t;
    const float *const *pixels = g->x + (ptrdiff_t)row * g->taps;
    float *partial = g->acc ? g->acc + (ptrdiff_t)row * nv * VL : NULL; /* NULL when the sum is in one piece */
    int left = g->rows - row;

    UNROLL_FOR (int r = 0; r < mr; r++)
        UNROLL_FOR (int j = 0; j < nv; j++)
            acc[r][j] = g->first ? vf_set(0) : vf_load(partial + (r * nv + j) * VL);
    UNROLL_FOR (int r = 0; r < mr; r++)
        odd[r][0] = vf_set(0);
    UNROLL_FOR (int r = 0; r < mr && VK == 1; r++) /* prefetch y while the sums are computed */
        for (int j = 0; j < nv * VL && r < left && g->last; j += 16)
            __builtin_prefetch(g->y[row + r] + g->y_off + j, 1);

    for (int tap = 0; tap < g->taps; tap++) {
        const float *w = g->w + (size_t)tap * g->w_tap;
        const float *x[MR];
        int c = 0;

        UNROLL_FOR (int r = 0; r < mr; r++) {
            const float *p = pixels[tap * MR + r];

            x[r] = p == g->zeros ? p : p + g->off;
        }
        for (int i = 0; i < g->k && VK == 1 && mr == MR && left > MR; i += 16) /* the pixels of the next tile */
            UNROLL_FOR (int r = 0; r < mr; r++)
                __builtin_prefetch(pixels[(g->taps + tap) * MR + r] + g->off + i, 0, 2);
        for (; VK == 4 && c + 4 <= g->k; c += 4, w += 4 * nv * VL) {
            va a[MR];

            UNROLL_FOR (int r = 0; r < mr; r++)
                a[r] = va_load(x[r] + c);
            GEMM_STEP(acc, 0);
            if (nv == 1) { /* too few sums to keep the multipliers busy: a second set */
                GEMM_STEP(odd, 1);
                GEMM_STEP(acc, 2);
                GEMM_STEP(odd, 3);
            } else {
                GEMM_STEP(acc, 1);
                GEMM_STEP(acc, 2);
                GEMM_STEP(acc, 3);
            }
        }
        for (; c < g->k; c++, w += nv * VL) {
            va a[MR];

            UNROLL_FOR (int r = 0; r < mr; r++)
                a[r] = va_load1(x[r] + c);
            GEMM_STEP(acc, 0);
        }
    }
    if (nv == 1)
        UNROLL_FOR (int r = 0; r < mr; r++)
            acc[r][0] = vf_add(acc[r][0], odd[r][0]);

    if (!g->last) {
        UNROLL_FOR (int r = 0; r < mr; r++)
            UNROLL_FOR (int j = 0; j < nv; j++)
                vf_store(partial + (r * nv + j) * VL, acc[r][j]);
        return;
    }
    quick_tail q = quick_tail_of(t);

    if (g->n == nv * VL && q.quick) {
        UNROLL_FOR (int r = 0; r < mr; r++)
            if (r < left)
                UNROLL_FOR (int j = 0; j < nv; j++) {
                    vf v = vf_add(acc[r][j], vf_load(g->bias + j * VL)), s = v;

                    if (g->res)
                        s = vf_load(g->res[row + r] + g->y_off + j * VL);
                    vf_store(g->y[row + r] + g->y_off + j * VL, v_quick_tail(v, g->res ? &s : NULL, &q));
                }
        return;
    }
    float sum[MR][NV * VL];

    UNROLL_FOR (int r = 0; r < mr; r++)
        UNROLL_FOR (int j = 0; j < nv; j++)
            vf_store(sum[r] + j * VL, acc[r][j]);
    for (int r = 0; r < mr && r < left; r++)
        finish_row(g->y[row + r] + g->y_off, sum[r], g->bias, g->res ? g->res[row + r] + g->y_off : NULL, g->n, t);
}

/* All rows with nv vectors of outputs; the last ones are computed as 1, 3 or MR.  Each tile is a function
 * of its own: compilers lose track of acc when they inline several into one loop. */
#define GEMM_ROWS(nv)                                                                                                  \
    static __attribute__((noinline)) void gemm_full_##nv(const zn_product *g, int row)                                 \
    {                                                                                                                  \
        gemm_tile(g, row, MR, nv);                                                                                     \
    }                                                                                                                  \
    static __attribute__((noinline)) void gemm_3_##nv(const zn_product *g, int row)                                    \
    {                                                                                                                  \
        gemm_tile(g, row, 3, nv);                                                                                      \
    }                                                                                                                  \
    static __attribute__((noinline)) void gemm_1_##nv(const zn_product *g, int row)                                    \
    {                                                                                                                  \
        gemm_tile(g, row, 1, nv);                                                                                      \
    }                                                                                                                  \
    static void gemm_rows_##nv(const zn_product *g)                                                                    \
    {                                                                                                                  \
        int row = 0;                                                                                                   \
                                                                                                                       \
        for (; g->rows - row > 3; row += MR)                                                                           \
            gemm_full_##nv(g, row);                                                                                    \
        if (g->rows - row > 1)                                                                                         \
            gemm_3_##nv(g, row);                                                                                       \
        else if (g->rows - row == 1)                                                                                   \
            gemm_1_##nv(g, row);                                                                                       \
    }

GEMM_ROWS(1)
GEMM_ROWS(2)
#if ZN_MANY_REGISTERS
GEMM_ROWS(3)
GEMM_ROWS(4)
#endif

static ZN_DECL_GEMM(ZN_FN(gemm))
{
    switch ((g->n + VL - 1) / VL) {
    case 1:
        gemm_rows_1(g);
        break;
    case 2:
        gemm_rows_2(g);
        break;
#if ZN_MANY_REGISTERS
    case 3:
        gemm_rows_3(g);
        break;
    case 4:
        gemm_rows_4(g);
        break;
#endif
    }
}

/* MR pixels from `row` on, nv vectors of channels from i on; the last vector counts m channels. */
INLINE void depthwise_tile(const zn_product *g, int row, int i, const int nv, const size_t m)
{
    const float *const *x = g->x + (ptrdiff_t)row * g->taps;
    int left = g->rows - row < MR ? g->rows - row : MR;
    vf acc[MR][NV], w[NV];

    UNROLL_FOR (int j = 0; j < nv; j++)
        UNROLL_FOR (int r = 0; r < MR; r++)
            acc[r][j] = m == VL ? vf_load(g->bias + i + j * VL) : vf_load_n(g->bias + i, m);
    for (int tap = 0; tap < g->taps; tap++) {
        const float *from = g->w + (size_t)tap * g->w_tap + i;

        UNROLL_FOR (int j = 0; j < nv; j++)
            w[j] = m == VL ? vf_load(from + j * VL) : vf_load_n(from, m);
        UNROLL_FOR (int r = 0; r < MR; r++) {
            const float *p = x[tap * MR + r];

            p = (p == g->zeros ? p : p + g->off) + i;
            UNROLL_FOR (int j = 0; j < nv; j++)
                acc[r][j] = vf_fma(w[j], m == VL ? vf_load(p + j * VL) : vf_load_n(p, m), acc[r][j]);
        }
    }
    UNROLL_FOR (int r = 0; r < MR; r++)
        if (r < left)
            UNROLL_FOR (int j = 0; j < nv; j++) {
                float *y = g->y[row + r] + g->y_off + i + j * VL;
                const float *p = g->res ? g->res[row + r] + g->y_off + i + j * VL : NULL;
                vf s = !p ? vf_set(0) : m == VL ? vf_load(p) : vf_load_n(p, m);

                s = v_tail(acc[r][j], p ? &s : NULL, g->t);
                if (m == VL)
                    vf_store(y, s);
                else
                    vf_store_n(y, s, m);
            }
}

static ZN_DECL_DEPTHWISE(ZN_FN(depthwise))
{
    for (int row = 0; row < g->rows; row += MR) {
        int i = 0;

        for (; i + NV * VL <= g->n; i += NV * VL)
            depthwise_tile(g, row, i, NV, VL);
        for (; i + VL <= g->n; i += VL)
            depthwise_tile(g, row, i, 1, VL);
        if (i < g->n)
            depthwise_tile(g, row, i, 1, (size_t)(g->n - i));
    }
}

/* MR * NV independent chains: enough to fill every multiply-add unit.  One operand is loaded afresh, as
 * gemm does: Neoverse V1 reaches only half its rate on registers written long ago. */
static ZN_DECL_PEAK(ZN_FN(peak))
{
    vf acc[MR][NV], a = vf_set(sink[0]);
    double flops = 2.0 * VL * MR * NV * (double)n;

    UNROLL_FOR (int r = 0; r < MR; r++)
        UNROLL_FOR (int j = 0; j < NV; j++)
            acc[r][j] = vf_set((float)(r + j));
    for (; n > 0; n--) {
        vf b[NV];

        __asm__ volatile("" : : "r"(sink) : "memory"); /* keeps the loads inside the loop */
        UNROLL_FOR (int j = 0; j < NV; j++)
            b[j] = vf_load(sink + j * VL);
        UNROLL_FOR (int r = 0; r < MR; r++)
            UNROLL_FOR (int j = 0; j < NV; j++)
                acc[r][j] = vf_fma(a, b[j], acc[r][j]);
    }
    UNROLL_FOR (int r = 0; r < MR; r++)
        UNROLL_FOR (int j = 0; j < NV; j++)
            a = vf_add(a, acc[r][j]);
    sink[0] = vf_sum(a);
    return flops;
}
