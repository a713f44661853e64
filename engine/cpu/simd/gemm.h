/* SPDX-License-Identifier: MIT */
/* gemm.h - the register tile of every dense convolution: MR pixels x NV vectors of outputs.
 *
 * Loops over rows and vectors have constant bounds and are unrolled, so that acc stays in registers;
 * the lane of va_fma must be a literal, hence the macro for one step in k. */

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* Adds the products of channel `lane` of all rows; w points to its nv vectors of weights. */
#define GEMM_STEP(lane)                                             \
    do {                                                            \
        vf b[NV];                                                   \
        UNROLL for (int j = 0; j < nv; j++)                         \
            b[j] = vf_load(w + ((lane)*nv + j) * VL);               \
        UNROLL for (int r = 0; r < mr; r++)                         \
            UNROLL for (int j = 0; j < nv; j++)                     \
                acc[r][j] = va_fma(acc[r][j], b[j], a[r], lane);    \
    } while (0)

/* Adds bias, applies the tail, and stores n channels of one pixel; the slow activations come here. */
static __attribute__((noinline)) void finish_row(float *y, const float *x, const float *bias,
                                                 const float *res, int n, const zn_tail *t)
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

INLINE void gemm_tile(const zn_tile *g, const int mr, const int nv)
{
    vf acc[MR][NV];
    const zn_tail *t = g->t;

    UNROLL for (int r = 0; r < mr; r++)
        UNROLL for (int j = 0; j < nv; j++)
            acc[r][j] = g->first ? vf_set(0) : vf_load(g->acc + (r * nv + j) * VL);

    for (int tap = 0; tap < g->taps; tap++) {
        const float *w = g->w + (size_t)tap * g->w_tap;
        const float *x[MR];
        int c = 0;

        UNROLL for (int r = 0; r < mr; r++) {
            const float *p = g->x[tap * MR + r];

            x[r] = p == g->zeros ? p : p + g->off;
        }
        for (; c + 4 <= g->k; c += 4, w += 4 * nv * VL) {
            va a[MR];

            UNROLL for (int r = 0; r < mr; r++)
                a[r] = va_load(x[r] + c);
            GEMM_STEP(0);
            GEMM_STEP(1);
            GEMM_STEP(2);
            GEMM_STEP(3);
        }
        for (; c < g->k; c++, w += nv * VL) {
            va a[MR];

            UNROLL for (int r = 0; r < mr; r++)
                a[r] = va_load1(x[r] + c);
            GEMM_STEP(0);
        }
    }

    if (!g->last) {
        UNROLL for (int r = 0; r < mr; r++)
            UNROLL for (int j = 0; j < nv; j++)
                vf_store(g->acc + (r * nv + j) * VL, acc[r][j]);
        return;
    }
    if (g->n == nv * VL && act_is_fast(t->pre) && act_is_fast(t->post)) {
        vf gain = vf_set(t->gain);

        UNROLL for (int r = 0; r < mr; r++) {
            if (r == g->mr)
                return;
            UNROLL for (int j = 0; j < nv; j++) {
                vf v = v_act_fast(vf_add(acc[r][j], vf_load(g->bias + j * VL)), t->pre);

                v = g->res ? vf_fma(v, gain, vf_load(g->res[r] + g->y_off + j * VL))
                           : vf_mul(v, gain);
                vf_store(g->y[r] + g->y_off + j * VL, v_act_fast(v, t->post));
            }
        }
        return;
    }
    float row[MR][NV * VL];

    UNROLL for (int r = 0; r < mr; r++)
        UNROLL for (int j = 0; j < nv; j++)
            vf_store(row[r] + j * VL, acc[r][j]);
    for (int r = 0; r < g->mr; r++)
        finish_row(g->y[r] + g->y_off, row[r], g->bias, g->res ? g->res[r] + g->y_off : NULL, g->n,
                   t);
}

/* Few rows are computed as 1, 3 or MR: the work of a short tile without a variant for each. */
#define GEMM_ROWS(nv)                                                     \
    case nv:                                                              \
        if (g->mr > 3)                                                    \
            gemm_tile(g, MR, nv);                                         \
        else if (g->mr > 1)                                               \
            gemm_tile(g, 3, nv);                                          \
        else                                                              \
            gemm_tile(g, 1, nv);                                          \
        break

static ZN_DECL_GEMM(ZN_FN(gemm))
{
    switch ((g->n + VL - 1) / VL) {
        GEMM_ROWS(1);
        GEMM_ROWS(2);
#if ZN_MANY_REGISTERS
        GEMM_ROWS(3);
        GEMM_ROWS(4);
#endif
    }
}

static ZN_DECL_DEPTHWISE(ZN_FN(depthwise))
{
    for (int i = 0; i < g->n; i += VL) {
        bool whole = g->n - i >= VL;
        size_t m = (size_t)(g->n - i);
        vf acc[MR], s = vf_set(0);
        vf bias = whole ? vf_load(g->bias + i) : vf_load_n(g->bias + i, m);

        UNROLL for (int r = 0; r < MR; r++)
            acc[r] = bias;
        for (int tap = 0; tap < g->taps; tap++) {
            const float *w = g->w + (size_t)tap * g->w_tap + i;
            vf b = whole ? vf_load(w) : vf_load_n(w, m);

            UNROLL for (int r = 0; r < MR; r++) {
                const float *p = g->x[tap * MR + r];

                p = (p == g->zeros ? p : p + g->off) + i;
                acc[r] = vf_fma(b, whole ? vf_load(p) : vf_load_n(p, m), acc[r]);
            }
        }
        for (int r = 0; r < g->mr; r++) {
            float *y = g->y[r] + g->y_off + i;

            if (g->res) {
                const float *p = g->res[r] + g->y_off + i;

                s = whole ? vf_load(p) : vf_load_n(p, m);
            }
            vf v = v_tail(acc[r], g->res ? &s : NULL, g->t);

            if (whole)
                vf_store(y, v);
            else
                vf_store_n(y, v, m);
        }
    }
}

/* MR * NV independent chains: enough to fill every multiply-add unit. */
static ZN_DECL_PEAK(ZN_FN(peak))
{
    vf acc[MR][NV], m = vf_set(sink[0]), s = vf_set(sink[1]);

    UNROLL for (int r = 0; r < MR; r++)
        UNROLL for (int j = 0; j < NV; j++)
            acc[r][j] = vf_set((float)(r + j));
    for (size_t i = 0; i < n; i++)
        UNROLL for (int r = 0; r < MR; r++)
            UNROLL for (int j = 0; j < NV; j++)
                acc[r][j] = vf_fma(m, s, acc[r][j]); /* in place: no copies */
    UNROLL for (int r = 0; r < MR; r++)
        UNROLL for (int j = 0; j < NV; j++)
            s = vf_add(s, acc[r][j]);
    sink[0] = vf_sum(s);
}
