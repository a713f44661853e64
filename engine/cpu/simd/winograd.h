/* SPDX-License-Identifier: MIT */
/* winograd.h - the transforms of winograd.c, a vector of channels at a time.
 *
 * A transform in two dimensions is a transform of the rows, then one of the columns.  Points: 0, 1, -1,
 * 2, -2 and infinity for tiles of 6; 1/2 and -1/2 besides for tiles of 8. */

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
    vf a, b;

    o[0] = vf_fma(vf_set(5.25f), vf_sub(d[4], d[2]), vf_sub(d[0], d[6]));
    o[7] = vf_fma(vf_set(5.25f), vf_sub(d[3], d[5]), vf_sub(d[7], d[1]));
    a = vf_fnma(vf_set(4.25f), d[4], vf_add(d[2], d[6]));
    b = vf_fnma(vf_set(4.25f), d[3], vf_add(d[1], d[5]));
    o[1] = vf_add(a, b);
    o[2] = vf_sub(a, b);
    a = vf_fma(vf_set(0.25f), d[2], vf_fnma(vf_set(1.25f), d[4], d[6]));
    b = vf_fma(vf_set(0.5f), d[1], vf_fma(vf_set(2), d[5], vf_mul(vf_set(-2.5f), d[3])));
    o[3] = vf_add(a, b);
    o[4] = vf_sub(a, b);
    a = vf_fma(vf_set(4), vf_fnma(vf_set(1.25f), d[4], d[2]), d[6]);
    b = vf_fma(vf_set(2), d[1], vf_fma(vf_set(0.5f), d[5], vf_mul(vf_set(-2.5f), d[3])));
    o[5] = vf_add(a, b);
    o[6] = vf_sub(a, b);
}

/* o = A^T m: 4 or 5 outputs of 6 positions, 6 of 8 */
INLINE void wino_a4(vf o[4], const vf m[6])
{
    vf s1 = vf_add(m[1], m[2]), d1 = vf_sub(m[1], m[2]);
    vf s2 = vf_add(m[3], m[4]), d2 = vf_sub(m[3], m[4]);

    o[0] = vf_add(vf_add(m[0], s1), s2);
    o[1] = vf_fma(vf_set(2), d2, d1);
    o[2] = vf_fma(vf_set(4), s2, s1);
    o[3] = vf_add(vf_fma(vf_set(8), d2, d1), m[5]);
}

INLINE void wino_a5(vf o[5], const vf m[6])
{
    vf s1 = vf_add(m[1], m[2]), d1 = vf_sub(m[1], m[2]);
    vf s2 = vf_add(m[3], m[4]), d2 = vf_sub(m[3], m[4]);

    o[0] = vf_add(vf_add(m[0], s1), s2);
    o[1] = vf_fma(vf_set(2), d2, d1);
    o[2] = vf_fma(vf_set(4), s2, s1);
    o[3] = vf_fma(vf_set(8), d2, d1);
    o[4] = vf_add(vf_fma(vf_set(16), s2, s1), m[5]);
}

INLINE void wino_a6(vf o[6], const vf m[8])
{
    vf s1 = vf_add(m[1], m[2]), d1 = vf_sub(m[1], m[2]);
    vf s2 = vf_add(m[3], m[4]), d2 = vf_sub(m[3], m[4]);
    vf s3 = vf_add(m[5], m[6]), d3 = vf_sub(m[5], m[6]);

    o[0] = vf_add(vf_add(m[0], s1), vf_add(s2, s3));
    o[1] = vf_fma(vf_set(2), d2, vf_fma(vf_set(0.5f), d3, d1));
    o[2] = vf_fma(vf_set(4), s2, vf_fma(vf_set(0.25f), s3, s1));
    o[3] = vf_fma(vf_set(8), d2, vf_fma(vf_set(0.125f), d3, d1));
    o[4] = vf_fma(vf_set(16), s2, vf_fma(vf_set(0.0625f), s3, s1));
    o[5] = vf_add(vf_fma(vf_set(32), d2, vf_fma(vf_set(0.03125f), d3, d1)), m[7]);
}

#define WINO_IN(name, P, transform)                                                    \
    INLINE void name##_part(float *v, size_t v_pos, const float *const *x, size_t i,   \
                            const size_t m)                                            \
    {                                                                                  \
        vf t[P][P];                                                                    \
                                                                                       \
        UNROLL for (int r = 0; r < P; r++) {                                           \
            vf d[P];                                                                   \
                                                                                       \
            UNROLL for (int s = 0; s < P; s++)                                         \
                d[s] = LOAD(x[r * P + s]);                                             \
            transform(t[r], d);                                                        \
        }                                                                              \
        UNROLL for (int s = 0; s < P; s++) {                                           \
            vf d[P], o[P];                                                             \
                                                                                       \
            UNROLL for (int r = 0; r < P; r++)                                         \
                d[r] = t[r][s];                                                        \
            transform(o, d);                                                           \
            UNROLL for (int r = 0; r < P; r++)                                         \
                STORE(v + (size_t)(r * P + s) * v_pos, o[r]);                          \
        }                                                                              \
    }                                                                                  \
    static ZN_DECL_WINO_IN(ZN_FN(name))                                                \
    {                                                                                  \
        size_t i = 0;                                                                  \
                                                                                       \
        for (; i + VL <= (size_t)n; i += VL)                                           \
            name##_part(v, v_pos, x, i, VL);                                           \
        if (i < (size_t)n)                                                             \
            name##_part(v, v_pos, x, i, (size_t)n - i);                                \
    }

WINO_IN(wino_in6, 6, wino_b6)
WINO_IN(wino_in8, 8, wino_b8)

#define WINO_OUT(name, P, M, transform)                                                    \
    INLINE void name##_part(float *const *y, const float *const *res, ptrdiff_t y_off,     \
                            const float *from, size_t m_pos, const float *bias, size_t i,  \
                            const size_t m, const zn_tail *t, const quick_tail *q)         \
    {                                                                                      \
        vf half[M][P], b = vf_load(bias + i);                                              \
                                                                                           \
        UNROLL for (int s = 0; s < P; s++) {                                               \
            vf d[P], o[M];                                                                 \
                                                                                           \
            UNROLL for (int r = 0; r < P; r++)                                             \
                d[r] = vf_load(from + (size_t)(r * P + s) * m_pos + i);                    \
            transform(o, d);                                                               \
            UNROLL for (int r = 0; r < M; r++)                                             \
                half[r][s] = o[r];                                                         \
        }                                                                                  \
        for (int r = 0; r < M; r++) {                                                      \
            vf o[M];                                                                       \
                                                                                           \
            transform(o, half[r]);                                                         \
            UNROLL for (int s = 0; s < M; s++)                                             \
                if (y[r * M + s]) {                                                        \
                    vf v = vf_add(o[s], b), e = res ? LOAD(res[r * M + s] + y_off) : b;    \
                                                                                           \
                    v = q->quick ? v_quick_tail(v, res ? &e : NULL, q)                     \
                                 : v_tail(v, res ? &e : NULL, t);                          \
                    STORE(y[r * M + s] + y_off, v);                                        \
                }                                                                          \
        }                                                                                  \
    }                                                                                      \
    static ZN_DECL_WINO_OUT(ZN_FN(name))                                                   \
    {                                                                                      \
        quick_tail q = quick_tail_of(t);                                                   \
        size_t i = 0;                                                                      \
                                                                                           \
        for (; i + VL <= (size_t)n; i += VL)                                               \
            name##_part(y, res, y_off, m, m_pos, bias, i, VL, t, &q);                      \
        if (i < (size_t)n)                                                                 \
            name##_part(y, res, y_off, m, m_pos, bias, i, (size_t)n - i, t, &q);           \
    }

WINO_OUT(wino_out4, 6, 4, wino_a4)
WINO_OUT(wino_out5, 6, 5, wino_a5)
WINO_OUT(wino_out6, 8, 6, wino_a6)
