/* SPDX-License-Identifier: MIT */
/* dense.h - the two kernels of a dense layer with few pixels and many weights, for training: weights are read in
 * place, once, in the order of memory. */

enum { DOT_P = 4, DOT_O = ZN_MANY_REGISTERS ? 4 : 2, BACK_O = ZN_DENSE_ROWS };

/* np pixels times no rows of weights; vectors run along k. */
INLINE void dots_tile(float *y, size_t y_ld, const float *x, size_t x_ld, const float *w, size_t w_ld, int k,
                      const int np, const int no)
{
    vf acc[DOT_P][DOT_O];

    UNROLL_FOR (int p = 0; p < np; p++)
        UNROLL_FOR (int o = 0; o < no; o++)
            acc[p][o] = vf_set(0);
    for (int i = 0; i < k; i += VL) {
        vf a[DOT_P];

        UNROLL_FOR (int p = 0; p < np; p++)
            a[p] = vf_load(x + (size_t)p * x_ld + i);
        UNROLL_FOR (int o = 0; o < no; o++) {
            vf b = vf_load(w + (size_t)o * w_ld + i);

            UNROLL_FOR (int p = 0; p < np; p++)
                acc[p][o] = vf_fma(a[p], b, acc[p][o]);
        }
    }
    UNROLL_FOR (int p = 0; p < np; p++)
        UNROLL_FOR (int o = 0; o < no; o++)
            y[(size_t)p * y_ld + (size_t)o] += vf_sum(acc[p][o]);
}

static ZN_DECL_DOTS(ZN_FN(dots))
{
    for (int o = 0; o < n; o += DOT_O) {
        int p = 0;

        for (; p + DOT_P <= pixels; p += DOT_P)
            dots_tile(y + (size_t)p * y_ld + o, y_ld, x + (size_t)p * x_ld, x_ld, w + (size_t)o * w_ld, w_ld, k, DOT_P,
                      DOT_O);
        for (; p < pixels; p++)
            dots_tile(y + (size_t)p * y_ld + o, y_ld, x + (size_t)p * x_ld, x_ld, w + (size_t)o * w_ld, w_ld, k, 1,
                      DOT_O);
    }
}

#define BACK_STEP(q, lane)                                                                                             \
    do {                                                                                                               \
        d[q] = va_fma(d[q], b[4 * (q) + (lane)], a[q], lane);                                                          \
        sum[4 * (q) + (lane)] = va_fma(sum[4 * (q) + (lane)], v, a[q], lane);                                          \
    } while (0)

static ZN_DECL_DENSE_BACK(ZN_FN(dense_back))
{
    enum { Q = BACK_O / 4 };

    for (int j = 0; j < n; j += VL) {
        vf b[BACK_O], sum[BACK_O];

        UNROLL_FOR (int o = 0; o < BACK_O; o++) {
            b[o] = vf_load(w + (size_t)o * w_ld + j);
            sum[o] = vf_set(0);
        }
        for (int p = 0; p < pixels; p++) {
            vf v = vf_load(x + p * n + j), d[Q];
            va a[Q];

            UNROLL_FOR (int q = 0; q < Q; q++) {
                a[q] = va_load(dy + p * BACK_O + 4 * q);
                d[q] = q ? vf_set(0) : vf_load(dx + p * n + j);
                BACK_STEP(q, 0);
                BACK_STEP(q, 1);
                BACK_STEP(q, 2);
                BACK_STEP(q, 3);
            }
            vf_store(dx + p * n + j, Q > 1 ? vf_add(d[0], d[Q - 1]) : d[0]);
        }
        UNROLL_FOR (int o = 0; o < BACK_O; o++)
            vf_store(dw + (size_t)o * w_ld + j, sum[o]);
    }
}
