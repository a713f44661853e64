/* SPDX-License-Identifier: MIT */
/* winograd.h - the transforms of winograd.c, a vector of channels at a time.
 *
 * A transform in two dimensions is a transform of the rows, then one of the columns.  Points: 0, 1, -1,
 * 2, -2 and infinity for tiles of 6; 1/2 and -1/2 besides for tiles of 8.  M of the points 2 and -2 is 8 times as large, for
 * tiles of 8 16 times: so are their weights, which would be too small for halves. */

/* o = B^T d */
INLINE void wino_b6(vf o[6], const vf d[6])
{
    vf a = vf_fnma(vf_set(4), d[2], d[4]), b = vf_fnma(vf_set(4), d[1], d[3]);
    vf c = vf_sub(d[4], d[2]), e = vf_sub(d[3], d[1]);

    o[0] = vf_fma(vf_set(4), d[0], vf_fnma(vf_set(5), d[2], d[4]));
    o[1] = vf_add(a, b);
    o[2] = vf_sub(a, b);
    o[3] = vf_fma(vf_set(2), e, c);
    o[4] = vf_fnma(vf_set(2), e, c);
    o[5] = vf_fma(vf_set(4), d[1], vf_fnma(vf_set(5), d[3], d[5]));
}

INLINE void wino_b8(vf o[8], const vf d[8])
{
    vf a, b, e, f;

    o[0] = vf_fma(vf_set(5.25f), vf_sub(d[4], d[2]), vf_sub(d[0], d[6]));
    o[7] = vf_fma(vf_set(5.25f), vf_sub(d[3], d[5]), vf_sub(d[7], d[1]));
    a = vf_fnma(vf_set(4.25f), d[4], vf_add(d[2], d[6]));
    b = vf_fnma(vf_set(4.25f), d[3], vf_add(d[1], d[5]));
    e = vf_add(vf_fnma(vf_set(1.25f), d[4], vf_mul(vf_set(0.25f), d[2])), d[6]);
    f = vf_fma(vf_set(0.5f), d[1], vf_fnma(vf_set(2.5f), d[3], vf_mul(vf_set(2), d[5])));
    o[1] = vf_add(a, b);
    o[2] = vf_sub(a, b);
    a = vf_fma(vf_set(4), vf_fnma(vf_set(1.25f), d[4], d[2]), d[6]);
    b = vf_fma(vf_set(2), d[1], vf_fnma(vf_set(2.5f), d[3], vf_mul(vf_set(0.5f), d[5])));
    o[3] = vf_add(e, f);
    o[4] = vf_sub(e, f);
    o[5] = vf_add(a, b);
    o[6] = vf_sub(a, b);
}

/* o = A^T m: 4 or 5 outputs of 6 positions, 6 of 8 */
INLINE void wino_a4(vf o[4], const vf m[6])
{
    vf s1 = vf_add(m[1], m[2]), d1 = vf_sub(m[1], m[2]);
    vf s2 = vf_add(m[3], m[4]), d2 = vf_sub(m[3], m[4]);

    o[0] = vf_fma(vf_set(0.125f), s2, vf_add(m[0], s1));
    o[1] = vf_fma(vf_set(0.25f), d2, d1);
    o[2] = vf_fma(vf_set(0.5f), s2, s1);
    o[3] = vf_add(vf_add(d2, d1), m[5]);
}

INLINE void wino_a5(vf o[5], const vf m[6])
{
    vf s1 = vf_add(m[1], m[2]), d1 = vf_sub(m[1], m[2]);
    vf s2 = vf_add(m[3], m[4]), d2 = vf_sub(m[3], m[4]);

    o[0] = vf_fma(vf_set(0.125f), s2, vf_add(m[0], s1));
    o[1] = vf_fma(vf_set(0.25f), d2, d1);
    o[2] = vf_fma(vf_set(0.5f), s2, s1);
    o[3] = vf_add(d2, d1);
    o[4] = vf_add(vf_fma(vf_set(2), s2, s1), m[5]);
}

INLINE void wino_a6(vf o[6], const vf m[8])
{
    vf s1 = vf_add(m[1], m[2]), d1 = vf_sub(m[1], m[2]);
    vf s2 = vf_add(m[3], m[4]), d2 = vf_sub(m[3], m[4]);
    vf s3 = vf_add(m[5], m[6]), d3 = vf_sub(m[5], m[6]);

    o[0] = vf_add(vf_add(m[0], s1), vf_fma(vf_set(0.0625f), s2, s3));
    o[1] = vf_fma(vf_set(0.125f), d2, vf_fma(vf_set(0.5f), d3, d1));
    o[2] = vf_fma(vf_set(0.25f), s2, vf_fma(vf_set(0.25f), s3, s1));
    o[3] = vf_fma(vf_set(0.5f), d2, vf_fma(vf_set(0.125f), d3, d1));
    o[4] = vf_add(s2, vf_fma(vf_set(0.0625f), s3, s1));
    o[5] = vf_add(vf_fma(vf_set(2), d2, vf_fma(vf_set(0.03125f), d3, d1)), m[7]);
}

/* Both store a tile between its rows and its columns: its elements do not fit in registers anyway.  They process a whole
 * cache line of channels at a time, and so read and write each line of a picture once; if its width is a power of two,
 * the rows of a tile evict each other from the cache.  `step` vectors are stored at a time. */
enum { LINE = 64 / sizeof(elem), LINE_NV = LINE / VL };

INLINE void wino_store(elem *p, const vf *v, const int apart, const int step)
{
    if (step == 2)
        vf_store2(p, v[0], v[apart]);
    else
        vf_store(p, v[0]);
}

#define WINO_IN(name, P, transform)                                                                                    \
    INLINE void name##_part(elem *v, size_t v_pos, const void *const *x, size_t i, const int nv, const int step,       \
                            const size_t m)                                                                            \
    {                                                                                                                  \
        elem t[P][P][LINE];                                                                                            \
                                                                                                                       \
        for (int r = 0; r < P; r++)                                                                                    \
            UNROLL_FOR (int j = 0; j < nv; j += step) {                                                                \
                vf d[P], o[2][P];                                                                                      \
                                                                                                                       \
                UNROLL_FOR (int q = 0; q < step; q++) {                                                                \
                    UNROLL_FOR (int s = 0; s < P; s++)                                                                 \
                        d[s] = LOAD((const elem *)x[r * P + s] + (j + q) * VL);                                        \
                    transform(o[q], d);                                                                                \
                }                                                                                                      \
                UNROLL_FOR (int s = 0; s < P; s++)                                                                     \
                    wino_store(t[r][s] + j * VL, &o[0][s], P, step);                                                   \
            }                                                                                                          \
        for (int s = 0; s < P; s++, v += v_pos)                                                                        \
            UNROLL_FOR (int j = 0; j < nv; j += step) {                                                                \
                vf d[P], o[2][P];                                                                                      \
                                                                                                                       \
                UNROLL_FOR (int q = 0; q < step; q++) {                                                                \
                    UNROLL_FOR (int r = 0; r < P; r++)                                                                 \
                        d[r] = vf_load(t[r][s] + (j + q) * VL);                                                        \
                    transform(o[q], d);                                                                                \
                }                                                                                                      \
                UNROLL_FOR (int r = 0; r < P; r++)                                                                     \
                    wino_store(v + (size_t)(r * P) * v_pos + i + j * VL, &o[0][r], P, step);                           \
            }                                                                                                          \
    }                                                                                                                  \
    static ZN_DECL_WINO_IN(ZN_FN(name))                                                                                \
    {                                                                                                                  \
        size_t i = 0;                                                                                                  \
                                                                                                                       \
        for (; i + LINE <= (size_t)n; i += LINE)                                                                       \
            name##_part(v, v_pos, x, i, LINE_NV, PAIR, VL);                                                            \
        for (; i + VL <= (size_t)n; i += VL)                                                                           \
            name##_part(v, v_pos, x, i, 1, 1, VL);                                                                     \
        if (i < (size_t)n)                                                                                             \
            name##_part(v, v_pos, x, i, 1, 1, (size_t)n - i);                                                          \
    }

WINO_IN(wino_in6, 6, wino_b6)
WINO_IN(wino_in8, 8, wino_b8)

/* The most frequent tails have loops of their own. */
enum wino_end { WINO_RELU, WINO_ADD, WINO_QUICK, WINO_SLOW };

static enum wino_end wino_end_of(const zn_tail *t, const quick_tail *q)
{
    if (!q->quick)
        return WINO_SLOW;
    if (t->gain == 1 && t->pre == ZN_RELU && t->post == ZN_NONE && !t->residual)
        return WINO_RELU;
    if (t->gain == 1 && t->pre == ZN_NONE && t->residual)
        return WINO_ADD;
    return WINO_QUICK;
}

INLINE vf wino_tail(vf v, const vf *res, const zn_tail *t, const quick_tail *q, const enum wino_end end)
{
    return end == WINO_RELU ? vf_max(q->pre, v)
        : end == WINO_ADD   ? vf_max(q->post, vf_add(v, *res))
        : end == WINO_QUICK ? v_quick_tail(v, res, q)
                            : wino_slow_tail(v, res, t, q);
}

#define WINO_OUT(name, P, M, transform)                                                                                \
    INLINE void name##_part(void *const *y, const void *const *res, ptrdiff_t y_off, const elem *from, size_t m_pos,   \
                            size_t i, const int nv, const int step, const size_t m, const zn_tail *t,                  \
                            const quick_tail *quick, const enum wino_end end)                                          \
    {                                                                                                                  \
        elem half[M][P][LINE];                                                                                         \
        const bool has_res = end == WINO_ADD || (end >= WINO_QUICK && res);                                            \
                                                                                                                       \
        for (int s = 0; s < P; s++)                                                                                    \
            UNROLL_FOR (int j = 0; j < nv; j += step) {                                                                \
                vf d[P], o[2][M];                                                                                      \
                                                                                                                       \
                UNROLL_FOR (int q = 0; q < step; q++) {                                                                \
                    UNROLL_FOR (int r = 0; r < P; r++)                                                                 \
                        d[r] = vf_load(from + (size_t)(r * P + s) * m_pos + i + (j + q) * VL);                         \
                    transform(o[q], d);                                                                                \
                }                                                                                                      \
                UNROLL_FOR (int r = 0; r < M; r++)                                                                     \
                    wino_store(half[r][s] + j * VL, &o[0][r], M, step);                                                \
            }                                                                                                          \
        for (int r = 0; r < M; r++, y += M)                                                                            \
            UNROLL_FOR (int j = 0; j < nv; j += step) {                                                                \
                const ptrdiff_t at = y_off + j * VL;                                                                   \
                vf d[P], o[2][M], e;                                                                                   \
                                                                                                                       \
                UNROLL_FOR (int q = 0; q < step; q++) {                                                                \
                    UNROLL_FOR (int s = 0; s < P; s++)                                                                 \
                        d[s] = vf_load(half[r][s] + (j + q) * VL);                                                     \
                    transform(o[q], d);                                                                                \
                }                                                                                                      \
                UNROLL_FOR (int s = 0; s < M; s++) {                                                                   \
                    if (!y[s])                                                                                         \
                        continue;                                                                                      \
                    UNROLL_FOR (int q = 0; q < step; q++) {                                                            \
                        e = has_res ? LOAD((const elem *)res[r * M + s] + at + q * VL) : vf_set(0);                    \
                        o[q][s] = wino_tail(o[q][s], has_res ? &e : NULL, t, quick, end);                              \
                    }                                                                                                  \
                    if (m == VL)                                                                                       \
                        wino_store((elem *)y[s] + at + i, &o[0][s], M, step);                                          \
                    else                                                                                               \
                        vf_store_n((elem *)y[s] + at + i, o[0][s], m);                                                 \
                }                                                                                                      \
            }                                                                                                          \
    }                                                                                                                  \
    static __attribute__((noinline)) void name##_relu(void *const *y, ptrdiff_t y_off, const elem *from, size_t m_pos, \
                                                      size_t i, const quick_tail *q)                                   \
    {                                                                                                                  \
        name##_part(y, NULL, y_off, from, m_pos, i, LINE_NV, PAIR, VL, NULL, q, WINO_RELU);                            \
    }                                                                                                                  \
    static __attribute__((noinline)) void name##_add(void *const *y, const void *const *res, ptrdiff_t y_off,          \
                                                     const elem *from, size_t m_pos, size_t i, const quick_tail *q)    \
    {                                                                                                                  \
        name##_part(y, res, y_off, from, m_pos, i, LINE_NV, PAIR, VL, NULL, q, WINO_ADD);                              \
    }                                                                                                                  \
    static ZN_DECL_WINO_OUT(ZN_FN(name))                                                                               \
    {                                                                                                                  \
        quick_tail q = quick_tail_of(t);                                                                               \
        enum wino_end end = wino_end_of(t, &q);                                                                        \
        size_t i = 0;                                                                                                  \
                                                                                                                       \
        for (; end == WINO_RELU && i + LINE <= (size_t)n; i += LINE)                                                   \
            name##_relu(y, y_off, m, m_pos, i, &q);                                                                    \
        for (; end == WINO_ADD && i + LINE <= (size_t)n; i += LINE)                                                    \
            name##_add(y, res, y_off, m, m_pos, i, &q);                                                                \
        for (; end != WINO_SLOW && i + VL <= (size_t)n; i += VL)                                                       \
            name##_part(y, res, y_off, m, m_pos, i, 1, 1, VL, t, &q, WINO_QUICK);                                      \
        for (; i < (size_t)n; i += VL)                                                                                 \
            name##_part(y, res, y_off, m, m_pos, i, 1, 1, row_step(i, (size_t)n), t, &q, WINO_SLOW);                   \
    }

WINO_OUT(wino_out4, 6, 4, wino_a4)
WINO_OUT(wino_out5, 6, 5, wino_a5)
WINO_OUT(wino_out6, 8, 6, wino_a6)

#define WINO_FORM                                                                                                      \
    .wino_in6 = ZN_FN(wino_in6), .wino_in8 = ZN_FN(wino_in8), .wino_out4 = ZN_FN(wino_out4),                           \
    .wino_out5 = ZN_FN(wino_out5), .wino_out6 = ZN_FN(wino_out6)
