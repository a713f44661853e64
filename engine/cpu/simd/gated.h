/* SPDX-License-Identifier: MIT */
/* gated.h - the kernels of a gated residual block (gated_strip.c): everything lies at constant strides, in
 * whole vectors, with its border; so there are no tables of pointers, and few questions.
 *
 * A result depends on its own pixel alone, whichever of the loops below it falls into. */

/* ---- 1x1 convolution ---------------------------------------------------------------------------------- */

/* MR pixels from `row` on; the last ones are repeated to be MR, and not stored. */
INLINE void panel_tile(const zn_panel *g, const int row, const int nv)
{
    const int mr = MR, left = g->rows - row;
    const float *x[MR], *w = g->w + nv * VL;
    float *y = g->y + (size_t)row * g->y_ld;
    vf acc[MR][NV];

    UNROLL for (int r = 0; r < mr; r++) {
        x[r] = g->x + (size_t)(row + (r < left ? r : left - 1)) * g->x_ld;
        UNROLL for (int j = 0; j < nv; j++)
            acc[r][j] = vf_load(g->w + j * VL);
    }
    for (int c = 0; c < g->k; c += 4, w += 4 * nv * VL) {
        va a[MR];

        UNROLL for (int r = 0; r < mr; r++)
            a[r] = va_load(x[r] + c);
        GEMM_STEP(acc, 0);
        GEMM_STEP(acc, 1);
        GEMM_STEP(acc, 2);
        GEMM_STEP(acc, 3);
    }
    UNROLL for (int r = 0; r < mr; r++, y += g->y_ld) {
        const float *res = g->res ? g->res + (size_t)(row + r) * g->res_ld : NULL;

        if (r >= left)
            break;
        if (g->gate) {
            UNROLL for (int j = 0; j < nv / 2; j++)
                vf_store(y + j * VL, vf_mul(acc[r][j], acc[r][j + nv / 2]));
            continue;
        }
        UNROLL for (int j = 0; j < nv; j++) {
            size_t m = (size_t)(g->n - j * VL);

            if (m >= VL)
                vf_store(y + j * VL, res ? vf_add(vf_load(res + j * VL), acc[r][j]) : acc[r][j]);
            else
                vf_store_n(y + j * VL, res ? vf_add(vf_load_n(res + j * VL, m), acc[r][j]) : acc[r][j], m);
        }
    }
}

#define PANEL_ROWS(nv)                                                           \
    static __attribute__((noinline)) void panel_rows_##nv(const zn_panel *g)     \
    {                                                                            \
        for (int row = 0; row < g->rows; row += MR)                              \
            panel_tile(g, row, nv);                                              \
    }

PANEL_ROWS(1)
PANEL_ROWS(2)
#if ZN_MANY_REGISTERS
PANEL_ROWS(3)
PANEL_ROWS(4)
#endif

static ZN_DECL_PANEL(ZN_FN(panel))
{
    switch ((g->n + VL - 1) / VL) {
    case 1:
        panel_rows_1(g);
        break;
    case 2:
        panel_rows_2(g);
        break;
#if ZN_MANY_REGISTERS
    case 3:
        panel_rows_3(g);
        break;
    case 4:
        panel_rows_4(g);
        break;
#endif
    }
}

/* ---- depthwise 3x3 ------------------------------------------------------------------------------------ */

enum { GATE_PIXELS = ZN_MANY_REGISTERS ? 8 : 4 };

/* acc[p] = bias + sum of the nine taps at pixel p, one vector of channels; x: one pixel further left */
INLINE void depthwise3(vf *acc, const float *const x[3], size_t at, const float *w, const int width,
                       const int pixels)
{
    UNROLL for (int p = 0; p < pixels; p++)
        acc[p] = vf_load(w);
    UNROLL for (int u = 0; u < 3; u++) {
        vf tap[3];

        UNROLL for (int v = 0; v < 3; v++)
            tap[v] = vf_load(w + (1 + 3 * u + v) * width);
        UNROLL for (int q = 0; q < pixels + 2; q++) {
            vf in = vf_load(x[u] + at + (size_t)(q * width));

            UNROLL for (int v = 2; v >= 0; v--)
                if (q - v >= 0 && q - v < pixels)
                    acc[q - v] = vf_fma(tap[v], in, acc[q - v]);
        }
    }
}

INLINE void gate3_part(float *y, size_t y_ld, const float *const x[3], size_t at, const float *w,
                       const int width, const int pixels)
{
    vf a[GATE_PIXELS], b[GATE_PIXELS];

    depthwise3(a, x, at, w, width, pixels);
    depthwise3(b, x, at + (size_t)(width / 2), w + width / 2, width, pixels);
    UNROLL for (int p = 0; p < pixels; p++)
        vf_store(y + (size_t)p * y_ld, vf_mul(a[p], b[p]));
}

INLINE void gate3_row(float *y, size_t y_ld, const float *const x[3], const float *w, int pixels,
                      const int width)
{
    for (int i = 0; i < width / 2; i += VL) {
        int p = 0;

        for (; p + GATE_PIXELS <= pixels; p += GATE_PIXELS)
            gate3_part(y + (size_t)p * y_ld + i, y_ld, x, (size_t)(p * width + i), w + i, width, GATE_PIXELS);
        for (; p < pixels; p++)
            gate3_part(y + (size_t)p * y_ld + i, y_ld, x, (size_t)(p * width + i), w + i, width, 1);
    }
}

static ZN_DECL_GATE3(ZN_FN(gate3))
{
    if (width == 2 * VL)
        gate3_row(y, y_ld, x, w, pixels, 2 * VL);
#if ZN_MANY_REGISTERS
    else
        gate3_row(y, y_ld, x, w, pixels, 4 * VL);
#endif
}

/* ---- layer norm --------------------------------------------------------------------------------------- */

enum { NORM_PIXELS = 4 }; /* side by side: their sums, roots and divisions are waited for together */

INLINE void norm_part(float *y, size_t y_ld, const float *x, size_t x_ld, int c, float eps, const int pixels)
{
    const size_t whole = (size_t)c / VL * VL, m = (size_t)c - whole;
    float stat[ZN_MAX_VL] = { 0 };
    vf sum[NORM_PIXELS], mean[NORM_PIXELS], count = vf_set((float)c);

    UNROLL for (int p = 0; p < pixels; p++)
        sum[p] = m ? vf_load_n(x + (size_t)p * x_ld + whole, m) : vf_set(0);
    for (size_t i = 0; i < whole; i += VL)
        UNROLL for (int p = 0; p < pixels; p++)
            sum[p] = vf_add(sum[p], vf_load(x + (size_t)p * x_ld + i));
    UNROLL for (int p = 0; p < pixels; p++)
        stat[p] = vf_sum(sum[p]);
    vf_store(stat, vf_div(vf_load(stat), count));
    UNROLL for (int p = 0; p < pixels; p++) {
        mean[p] = vf_set(stat[p]);
        sum[p] = vf_set(0);
        if (m) { /* the lanes past the end hold -mean: they are put aside, and come back as 0 */
            vf_store(y + (size_t)p * y_ld + whole, vf_sub(vf_load_n(x + (size_t)p * x_ld + whole, m), mean[p]));
            sum[p] = vf_load_n(y + (size_t)p * y_ld + whole, m);
            sum[p] = vf_mul(sum[p], sum[p]);
        }
    }
    for (size_t i = 0; i < whole; i += VL)
        UNROLL for (int p = 0; p < pixels; p++) {
            vf v = vf_sub(vf_load(x + (size_t)p * x_ld + i), mean[p]);

            sum[p] = vf_fma(v, v, sum[p]);
        }
    UNROLL for (int p = 0; p < pixels; p++)
        stat[p] = vf_sum(sum[p]);
    vf_store(stat, vf_div(vf_set(1), vf_sqrt(vf_add(vf_div(vf_load(stat), count), vf_set(eps)))));
    UNROLL for (int p = 0; p < pixels; p++)
        sum[p] = vf_set(stat[p]);
    for (size_t i = 0; i < whole; i += VL)
        UNROLL for (int p = 0; p < pixels; p++)
            vf_store(y + (size_t)p * y_ld + i,
                     vf_mul(vf_sub(vf_load(x + (size_t)p * x_ld + i), mean[p]), sum[p]));
    if (m)
        UNROLL for (int p = 0; p < pixels; p++) {
            float *end = y + (size_t)p * y_ld + whole;

            vf_store(end, vf_mul(vf_load_n(end, m), sum[p]));
        }
}

static ZN_DECL_NORM_ROWS(ZN_FN(norm_rows))
{
    int p = 0;

    for (; p + NORM_PIXELS <= pixels; p += NORM_PIXELS)
        norm_part(y + (size_t)p * y_ld, y_ld, x + (size_t)p * x_ld, x_ld, c, eps, NORM_PIXELS);
    for (; p < pixels; p++)
        norm_part(y + (size_t)p * y_ld, y_ld, x + (size_t)p * x_ld, x_ld, c, eps, 1);
}
