/* SPDX-License-Identifier: MIT */
/* stored.h - weights in a storage type (core/quantise.h): expanded to floats for gemm, or multiplied at once where there
 * are too few pixels for that to pay. */

enum { LINE_W = 16 / VL /* vectors of 16 outputs */, FEW_ROWS = 4 };

/* b[0 .. LINE_W-1] = 16 outputs of a row, i4: of two rows; q points to the first of them. */
INLINE void stored_load(vf *b, const void *q, const zn_wtype t)
{
    switch (t) {
    case ZN_W_F16:
        vf_from_f16(b, q);
        break;
    case ZN_W_BF16:
        vf_from_bf16(b, q);
        break;
    case ZN_W_I8:
        vf_from_i8(b, q);
        break;
    default:
        vf_from_i4(b, b + LINE_W, q);
    }
}

/* Bytes from one element to the next. */
INLINE size_t stored_each(const zn_wtype t)
{
    return t == ZN_W_I8 || t == ZN_W_I4 ? 1 : 2;
}

/* 16 outputs from j on of row k; i4: of rows k and k + 1, k being even. */
INLINE const char *stored_at(const zn_stored *w, int k, int j, const zn_wtype t)
{
    return (const char *)w->q + ((size_t)(t == ZN_W_I4 ? k / 2 : k) * (size_t)w->ld + (size_t)j) * stored_each(t);
}

/* The scales of 16 outputs from j on, for the group of row k. */
INLINE void stored_scale(vf *s, const zn_stored *w, int k, int j)
{
    vf_from_f16(s, w->scale + (size_t)(k / ZN_W_GROUP) * (size_t)w->ld + (size_t)j);
}

/* The outputs of a line of 16 from j on, of which nv vectors are wanted. */
INLINE void expand_line(float *to, const zn_stored *w, const zn_expand *e, int j, const int nv, const zn_wtype t,
                        const bool one_tap)
{
    const bool scaled = t == ZN_W_I8 || t == ZN_W_I4;
    const int step = t == ZN_W_I4 ? 2 : 1, taps = e->taps;
    const size_t ld = (size_t)w->ld * stored_each(t), far = e->tap, width = (size_t)e->width;
    const char *q = stored_at(w, e->from, j, t);
    size_t tap = 0;

    for (int first = e->from; first < e->end; first += ZN_W_GROUP) {
        int left = e->end - first < ZN_W_GROUP ? e->end - first : ZN_W_GROUP;
        vf s[LINE_W];

        if (scaled)
            stored_scale(s, w, first, j);
        for (; left > 0; left -= step, q += ld) {
            vf b[2 * LINE_W];

            stored_load(b, q, t);
            UNROLL_FOR (int r = 0; r < step; r++) {
                float *row = one_tap ? to : to + tap * far;

                if (r && left == 1)
                    break;
                UNROLL_FOR (int i = 0; i < LINE_W; i++)
                    if (i < nv)
                        vf_store(row + i * VL, scaled ? vf_mul(b[r * LINE_W + i], s[i]) : b[r * LINE_W + i]);
                if (one_tap || ++tap == (size_t)taps) {
                    tap = 0;
                    to += width;
                }
            }
        }
    }
}

/* nv vectors of outputs from j on, times mr pixels from `row` on.  A group is summed without its scale, which is then
 * applied once. */
INLINE void few_tile(const zn_product *g, const zn_stored *w, int row, int j, const int mr, const int nv,
                     const zn_wtype t)
{
    const bool scaled = t == ZN_W_I8 || t == ZN_W_I4;
    const int step = t == ZN_W_I4 ? 2 : 1, lines = nv / LINE_W;
    const size_t ld = (size_t)w->ld * stored_each(t);
    const char *q = stored_at(w, 0, j, t);
    vf acc[FEW_ROWS][NV];
    const float *x[FEW_ROWS];
    float sum[NV * VL];

    UNROLL_FOR (int r = 0; r < mr; r++) {
        x[r] = g->x[row + r];
        UNROLL_FOR (int i = 0; i < nv; i++)
            acc[r][i] = vf_set(0);
    }
    for (int first = 0; first < g->k; first += ZN_W_GROUP) {
        int left = g->k - first < ZN_W_GROUP ? g->k - first : ZN_W_GROUP;
        vf part[FEW_ROWS][NV];

        UNROLL_FOR (int r = 0; r < mr; r++)
            UNROLL_FOR (int i = 0; i < nv; i++)
                part[r][i] = scaled ? vf_set(0) : acc[r][i];
        for (; left > 0; left -= step, q += ld) {
            UNROLL_FOR (int l = 0; l < lines; l++) {
                vf b[2 * LINE_W];

                stored_load(b, q + (size_t)(16 * l) * stored_each(t), t);
                UNROLL_FOR (int p = 0; p < step; p++) {
                    if (p && left == 1)
                        break;
                    UNROLL_FOR (int r = 0; r < mr; r++)
                        UNROLL_FOR (int i = 0; i < LINE_W; i++)
                            part[r][l * LINE_W + i] =
                                vf_fma(vf_set(x[r][p]), b[p * LINE_W + i], part[r][l * LINE_W + i]);
                }
            }
            UNROLL_FOR (int r = 0; r < mr; r++)
                x[r] += step;
        }
        UNROLL_FOR (int l = 0; l < lines; l++) {
            vf s[LINE_W];

            if (scaled)
                stored_scale(s, w, first, j + 16 * l);
            UNROLL_FOR (int r = 0; r < mr; r++)
                UNROLL_FOR (int i = 0; i < LINE_W; i++) {
                    const int at = l * LINE_W + i;

                    acc[r][at] = scaled ? vf_fma(s[i], part[r][at], acc[r][at]) : part[r][at];
                }
        }
    }
    UNROLL_FOR (int r = 0; r < mr; r++) {
        const ptrdiff_t at = g->y_off + j;

        UNROLL_FOR (int i = 0; i < nv; i++)
            vf_store(sum + i * VL, acc[r][i]);
        finish_row(g->y[row + r] + at, sum, g->bias + j, g->res ? g->res[row + r] + at : NULL,
                   g->n - j < nv * VL ? g->n - j : nv * VL, g->t);
    }
}

/* Each tile is a function of its own, as in gemm.h. */
#define STORED_TILE(name, type, mr, width, nv)                                                                         \
    static __attribute__((noinline)) void few_##name##_##mr##_##width(const zn_product *g, const zn_stored *w,         \
                                                                      int row, int j)                                  \
    {                                                                                                                  \
        few_tile(g, w, row, j, mr, nv, type);                                                                          \
    }
#define STORED(name, type)                                                                                             \
    STORED_TILE(name, type, 1, full, NV)                                                                               \
    STORED_TILE(name, type, 2, full, NV)                                                                               \
    STORED_TILE(name, type, 4, full, NV)                                                                               \
    STORED_TILE(name, type, 1, line, LINE_W)                                                                           \
    static __attribute__((noinline)) void few_##name(const zn_product *g, const zn_stored *w)                          \
    {                                                                                                                  \
        for (int j = 0; j < g->n; j += NV * VL) {                                                                      \
            int row = 0;                                                                                               \
                                                                                                                       \
            for (; g->rows - row >= 4 && j + NV * VL <= w->ld; row += 4)                                               \
                few_##name##_4_full(g, w, row, j);                                                                     \
            for (; g->rows - row >= 2 && j + NV * VL <= w->ld; row += 2)                                               \
                few_##name##_2_full(g, w, row, j);                                                                     \
            for (; row < g->rows && j + NV * VL <= w->ld; row++)                                                       \
                few_##name##_1_full(g, w, row, j);                                                                     \
            for (; row < g->rows; row++) /* the last lines of a panel of several */                                    \
                for (int i = j; i < g->n; i += 16)                                                                     \
                    few_##name##_1_line(g, w, row, i);                                                                 \
        }                                                                                                              \
    }                                                                                                                  \
    static __attribute__((noinline)) void expand_##name(float *to, const zn_stored *w, const zn_expand *e)             \
    {                                                                                                                  \
        int j = 0;                                                                                                     \
                                                                                                                       \
        for (; j + 16 <= e->width; j += 16)                                                                            \
            if (e->taps == 1)                                                                                          \
                expand_line(to + j, w, e, j, LINE_W, type, true);                                                      \
            else                                                                                                       \
                expand_line(to + j, w, e, j, LINE_W, type, false);                                                     \
        if (j < e->width)                                                                                              \
            expand_line(to + j, w, e, j, (e->width - j) / VL, type, false);                                            \
    }

STORED(f16, ZN_W_F16)
STORED(bf16, ZN_W_BF16)
STORED(i8, ZN_W_I8)
STORED(i4, ZN_W_I4)

static ZN_DECL_EXPAND(ZN_FN(expand))
{
    switch (w->type) {
    case ZN_W_F16:
        expand_f16(to, w, part);
        break;
    case ZN_W_BF16:
        expand_bf16(to, w, part);
        break;
    case ZN_W_I8:
        expand_i8(to, w, part);
        break;
    default:
        expand_i4(to, w, part);
    }
}

static ZN_DECL_FEW(ZN_FN(few))
{
    switch (w->type) {
    case ZN_W_F16:
        few_f16(g, w);
        break;
    case ZN_W_BF16:
        few_bf16(g, w);
        break;
    case ZN_W_I8:
        few_i8(g, w);
        break;
    default:
        few_i4(g, w);
    }
}
