/* SPDX-License-Identifier: MIT */
/* gated.h - the kernels of a gated residual block (gated_strip.c): everything lies at constant strides, in
 * whole vectors, with its border; so there are no tables of pointers, and few questions.
 *
 * A result depends on its own pixel alone, whichever of the loops below it falls into. */

/* ---- 1x1 convolution ---------------------------------------------------------------------------------- */

enum panel_end { PANEL_PLAIN, PANEL_GATE, PANEL_RES, PANEL_PART /* of the last vector; res may be NULL */ };

INLINE void panel_store(const vf *acc, const zn_panel *g, const int row, const int nv, const enum panel_end end)
{
    const float *res = g->res ? g->res + (size_t)row * g->res_ld : NULL;
    float *y = g->y + (size_t)row * g->y_ld;

    if (end == PANEL_GATE) {
        UNROLL for (int j = 0; j < nv / 2; j++)
            vf_store(y + j * VL, vf_mul(acc[j], acc[j + nv / 2]));
        return;
    }
    UNROLL for (int j = 0; j < nv; j++) {
        const size_t m = end == PANEL_PART && j == nv - 1 ? (size_t)(g->n - j * VL) : VL;
        vf s = acc[j];

        if (end == PANEL_RES || (end == PANEL_PART && res))
            s = vf_add(s, m == VL ? vf_load(res + j * VL) : vf_load_n(res + j * VL, m));
        if (m == VL)
            vf_store(y + j * VL, s);
        else
            vf_store_n(y + j * VL, s, m);
    }
}

/* MR pixels from `row` on; the last ones are repeated to be MR, and not stored. */
INLINE void panel_tile(const zn_panel *g, const int row, const int nv, const enum panel_end end)
{
    const int mr = MR, left = g->rows - row;
    const float *x[MR], *w = g->w + nv * VL;
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
    UNROLL for (int r = 0; r < mr; r++)
        if (r < left)
            panel_store(acc[r], g, row + r, nv, end);
}

#define PANEL_ROWS(nv, name, end)                                                    \
    static __attribute__((noinline)) void panel_##name##_##nv(const zn_panel *g)     \
    {                                                                                \
        for (int row = 0; row < g->rows; row += MR)                                  \
            panel_tile(g, row, nv, end);                                             \
    }
#define PANEL(nv)                                                                    \
    PANEL_ROWS(nv, plain, PANEL_PLAIN)                                               \
    PANEL_ROWS(nv, gate, PANEL_GATE)                                                 \
    PANEL_ROWS(nv, res, PANEL_RES)                                                   \
    PANEL_ROWS(nv, part, PANEL_PART)                                                 \
    static void panel_##nv(const zn_panel *g)                                        \
    {                                                                                \
        if (g->gate)                                                                 \
            panel_gate_##nv(g);                                                      \
        else if (g->n % VL)                                                          \
            panel_part_##nv(g);                                                      \
        else if (g->res)                                                             \
            panel_res_##nv(g);                                                       \
        else                                                                         \
            panel_plain_##nv(g);                                                     \
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

/* ---- depthwise 3x3 ------------------------------------------------------------------------------------ */

enum { GATE_PIXELS = ZN_MANY_REGISTERS ? 8 : 4 };

/* acc[p] = bias + sum of the nine taps at pixel p, one vector of channels, of which m count; x: one pixel
 * further left, x_ld floats from one to the next */
INLINE void depthwise3(vf *acc, const float *const x[3], const size_t x_ld[3], const float *w,
                       const size_t w_ld, const int pixels, const size_t m)
{
    UNROLL for (int p = 0; p < pixels; p++)
        acc[p] = m == VL ? vf_load(w) : vf_load_n(w, m);
    UNROLL for (int u = 0; u < 3; u++) {
        vf tap[3];

        UNROLL for (int v = 0; v < 3; v++) {
            const float *from = w + (size_t)(1 + 3 * u + v) * w_ld;

            tap[v] = m == VL ? vf_load(from) : vf_load_n(from, m);
        }
        UNROLL for (int q = 0; q < pixels + 2; q++) {
            const float *from = x[u] + (size_t)q * x_ld[u];
            vf in = m == VL ? vf_load(from) : vf_load_n(from, m);

            UNROLL for (int v = 2; v >= 0; v--)
                if (q - v >= 0 && q - v < pixels)
                    acc[q - v] = vf_fma(tap[v], in, acc[q - v]);
        }
    }
}

INLINE void gate3_part(float *y, size_t y_ld, const float *const x[3], size_t at, const float *w,
                       const int width, const int pixels)
{
    const size_t ld[3] = { (size_t)width, (size_t)width, (size_t)width }, half = (size_t)(width / 2);
    const float *first[3] = { x[0] + at, x[1] + at, x[2] + at };
    const float *second[3] = { first[0] + half, first[1] + half, first[2] + half };
    vf a[GATE_PIXELS], b[GATE_PIXELS];

    depthwise3(a, first, ld, w, (size_t)width, pixels, VL);
    depthwise3(b, second, ld, w + half, (size_t)width, pixels, VL);
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

/* The same as a convolution of its own: pixels from p on, m channels from i on. */
INLINE void depthwise3_part(const zn_depthwise3 *g, const quick_tail *q, int p, int i, const int pixels,
                            const size_t m)
{
    const float *x[3];
    vf acc[GATE_PIXELS];

    UNROLL for (int u = 0; u < 3; u++)
        x[u] = g->x[u] + (size_t)p * g->x_ld[u] + i;
    depthwise3(acc, x, g->x_ld, g->w + i, g->w_ld, pixels, m);
    UNROLL for (int r = 0; r < pixels; r++) {
        float *y = g->y + (size_t)(p + r) * g->y_ld + i;
        const float *res = g->res ? g->res + (size_t)(p + r) * g->res_ld + i : NULL;
        vf s = !res ? acc[r] : m == VL ? vf_load(res) : vf_load_n(res, m);

        s = q->quick ? v_quick_tail(acc[r], res ? &s : NULL, q) : v_tail(acc[r], res ? &s : NULL, g->t);
        if (m == VL)
            vf_store(y, s);
        else
            vf_store_n(y, s, m);
    }
}

static ZN_DECL_DEPTHWISE3(ZN_FN(depthwise3))
{
    const quick_tail q = quick_tail_of(g->t);
    const int whole = g->n / VL * VL;
    int p = 0;

    for (; p + GATE_PIXELS <= g->pixels; p += GATE_PIXELS)
        for (int i = 0; i < whole; i += VL)
            depthwise3_part(g, &q, p, i, GATE_PIXELS, VL);
    for (int from = p; from < g->pixels; from++)
        for (int i = 0; i < whole; i += VL)
            depthwise3_part(g, &q, from, i, 1, VL);
    for (p = 0; whole < g->n && p < g->pixels; p++)
        depthwise3_part(g, &q, p, whole, 1, (size_t)(g->n - whole));
}

/* ---- layer norm --------------------------------------------------------------------------------------- */

enum { NORM_PIXELS = 16 }; /* at a time: no pixel waits for its own sums, division and root */

/* The sum of whole vectors of x, or of the squares of what is left of them without the mean. */
INLINE float norm_sum(const float *x, size_t n, vf start, const vf *mean)
{
    vf sum[4] = { start, vf_set(0), vf_set(0), vf_set(0) };
    size_t i = 0;

    for (; i + 4 * VL <= n; i += 4 * VL)
        UNROLL for (int j = 0; j < 4; j++) {
            vf v = vf_load(x + i + j * VL);

            if (mean)
                v = vf_sub(v, *mean);
            sum[j] = mean ? vf_fma(v, v, sum[j]) : vf_add(v, sum[j]);
        }
    for (; i < n; i += VL) {
        vf v = mean ? vf_sub(vf_load(x + i), *mean) : vf_load(x + i);

        sum[0] = mean ? vf_fma(v, v, sum[0]) : vf_add(v, sum[0]);
    }
    return vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
}

/* At most NORM_PIXELS pixels. */
static void norm_some(float *y, size_t y_ld, const float *x, size_t x_ld, int pixels, int c, float eps)
{
    const size_t whole = (size_t)c / VL * VL, m = (size_t)c - whole;
    const vf part = vf_set(1 / (float)c), zero = vf_set(0);
    float mean[NORM_PIXELS] = { 0 }, inv[NORM_PIXELS] = { 0 };

    for (int p = 0; p < pixels; p++) {
        const float *from = x + (size_t)p * x_ld;

        mean[p] = norm_sum(from, whole, m ? vf_load_n(from + whole, m) : zero, NULL);
    }
    for (int p = 0; p < NORM_PIXELS; p += VL)
        vf_store(mean + p, vf_mul(vf_load(mean + p), part));
    for (int p = 0; p < pixels; p++) {
        const float *from = x + (size_t)p * x_ld;
        float *end = y + (size_t)p * y_ld + whole;
        vf mu = vf_set(mean[p]), rest = zero;

        if (m) { /* the lanes past the end hold -mean: put aside, they come back as 0 */
            vf_store(end, vf_sub(vf_load_n(from + whole, m), mu));
            rest = vf_load_n(end, m);
            vf_store(end, rest);
            rest = vf_mul(rest, rest);
        }
        inv[p] = norm_sum(from, whole, rest, &mu);
    }
    for (int p = 0; p < NORM_PIXELS; p += VL)
        vf_store(inv + p, vf_div(vf_set(1), vf_sqrt(vf_fma(vf_load(inv + p), part, vf_set(eps)))));
    for (int p = 0; p < pixels; p++) {
        const float *from = x + (size_t)p * x_ld;
        float *to = y + (size_t)p * y_ld;
        vf mu = vf_set(mean[p]), r = vf_set(inv[p]);
        size_t i = 0;

        for (; i + 4 * VL <= whole; i += 4 * VL)
            UNROLL for (int j = 0; j < 4; j++)
                vf_store(to + i + j * VL, vf_mul(vf_sub(vf_load(from + i + j * VL), mu), r));
        for (; i < whole; i += VL)
            vf_store(to + i, vf_mul(vf_sub(vf_load(from + i), mu), r));
        if (m)
            vf_store(to + whole, vf_mul(vf_load(to + whole), r));
    }
}

static ZN_DECL_NORM_ROWS(ZN_FN(norm_rows))
{
    for (int p = 0; p < pixels; p += NORM_PIXELS)
        norm_some(y + (size_t)p * y_ld, y_ld, x + (size_t)p * x_ld, x_ld,
                  pixels - p < NORM_PIXELS ? pixels - p : NORM_PIXELS, c, eps);
}
