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
        UNROLL_FOR (int j = 0; j < nv / 2; j++)
            vf_store(y + j * VL, vf_mul(acc[j], acc[j + nv / 2]));
        return;
    }
    UNROLL_FOR (int j = 0; j < nv; j++) {
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

/* Where lanes are spread from memory, three pixels share a pointer: there are not enough registers for one each. */
enum { PANEL_SHARE = VK == 1 ? 3 : 1, PANEL_MOST = 12 };

/* How many pixels of a tile of mr have been before if it ends with the last one. */
static inline int panel_skip(int left, int mr)
{
    return left < mr ? mr - left : 0;
}

/* mr pixels from `row` on, of which the first `skip` are not stored. */
INLINE void panel_tile(const zn_panel *g, const int row, const int skip, const int mr, const int nv,
                       const enum panel_end end)
{
    const size_t ld = g->x_ld;
    const float *x[PANEL_MOST], *w = g->w + nv * VL;
    const float *ahead = end == PANEL_GATE ? g->ahead + (size_t)row * g->ahead_ld : g->x;
    const float *y = g->y + (size_t)row * g->y_ld;
    vf acc[PANEL_MOST][NV];

    UNROLL_FOR (int r = 0; r < mr; r++, ahead += g->ahead_ld, y += g->y_ld) {
        if (r % PANEL_SHARE == 0)
            x[r / PANEL_SHARE] = g->x + (size_t)(row + r) * ld;
        UNROLL_FOR (int j = 0; j < nv; j++)
            acc[r][j] = vf_load(g->w + j * VL);
        if (end == PANEL_GATE)
            __builtin_prefetch(ahead, 0, 2);
        UNROLL_FOR (int j = 0; j < nv && end == PANEL_RES && VK == 1; j++) /* on its way while the sums are made */
            __builtin_prefetch(y + j * VL, 1);
    }
    for (int c = 0; c < g->k; c += 4, w += 4 * nv * VL) {
        va a[PANEL_MOST];

        UNROLL_FOR (int r = 0; r < mr; r++) {
            if (PANEL_SHARE > 1 && r % PANEL_SHARE == 0)
                __asm__("" : "+r"(x[r / PANEL_SHARE])); /* or gcc makes a pointer for each pixel, in memory */
            a[r] = va_load(x[r / PANEL_SHARE] + (size_t)(r % PANEL_SHARE) * ld);
        }
        GEMM_STEP(acc, 0);
        GEMM_STEP(acc, 1);
        GEMM_STEP(acc, 2);
        GEMM_STEP(acc, 3);
        UNROLL_FOR (int r = 0; r < mr; r += PANEL_SHARE)
            x[r / PANEL_SHARE] += 4;
    }
    UNROLL_FOR (int r = 0; r < mr; r++)
        if (r >= skip)
            panel_store(acc[r], g, row + r, nv, end);
}

/* All pixels: tiles of PANEL_MR, then of 8 or 4; the last begins so much earlier that it is full. */
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

/* ---- depthwise 3x3 ------------------------------------------------------------------------------------ */

enum { GATE_PIXELS = ZN_MANY_REGISTERS ? 8 : 4 };

/* acc[p] = bias + sum of the nine taps at pixel p, one vector of channels, of which m count; x: one pixel
 * further left, x_ld floats from one to the next */
INLINE void depthwise3(vf *acc, const float *const x[3], const size_t x_ld[3], const float *w, const size_t w_ld,
                       const int pixels, const size_t m)
{
    UNROLL_FOR (int p = 0; p < pixels; p++)
        acc[p] = m == VL ? vf_load(w) : vf_load_n(w, m);
    UNROLL_FOR (int u = 0; u < 3; u++) {
        vf tap[3];

        UNROLL_FOR (int v = 0; v < 3; v++) {
            const float *from = w + (size_t)(1 + 3 * u + v) * w_ld;

            tap[v] = vf_keep(m == VL ? vf_load(from) : vf_load_n(from, m));
        }
        UNROLL_FOR (int q = 0; q < pixels + 2; q++) {
            const float *from = x[u] + (size_t)q * x_ld[u];
            vf in = vf_keep(m == VL ? vf_load(from) : vf_load_n(from, m));

            UNROLL_FOR (int v = 2; v >= 0; v--)
                if (q - v >= 0 && q - v < pixels)
                    acc[q - v] = vf_fma(tap[v], in, acc[q - v]);
        }
    }
}

INLINE void gate3_part(float *y, size_t y_ld, const float *const x[3], size_t at, const float *w, const int width,
                       const int pixels)
{
    const size_t ld[3] = { (size_t)width, (size_t)width, (size_t)width }, half = (size_t)(width / 2);
    const float *first[3] = { x[0] + at, x[1] + at, x[2] + at };
    const float *second[3] = { first[0] + half, first[1] + half, first[2] + half };
    vf a[GATE_PIXELS], b[GATE_PIXELS];

    depthwise3(a, first, ld, w, (size_t)width, pixels, VL);
    depthwise3(b, second, ld, w + half, (size_t)width, pixels, VL);
    UNROLL_FOR (int p = 0; p < pixels; p++)
        vf_store(y + (size_t)p * y_ld, vf_mul(a[p], b[p]));
}

INLINE void gate3_row(float *y, size_t y_ld, const float *const x[3], const float *w, int pixels, const int width)
{
    for (int i = 0; i < width / 2; i += VL) {
        for (int q = 0; q < pixels && pixels >= GATE_PIXELS; q += GATE_PIXELS) { /* the last begins early, to be full */
            int p = q + GATE_PIXELS <= pixels ? q : pixels - GATE_PIXELS;

            gate3_part(y + (size_t)p * y_ld + i, y_ld, x, (size_t)(p * width + i), w + i, width, GATE_PIXELS);
        }
        for (int p = 0; p < pixels && pixels < GATE_PIXELS; p++)
            gate3_part(y + (size_t)p * y_ld + i, y_ld, x, (size_t)(p * width + i), w + i, width, 1);
    }
}

static ZN_DECL_GATE3(ZN_FN(gate3))
{
    if (width == PANEL_NV * VL)
        gate3_row(y, y_ld, x, w, pixels, PANEL_NV * VL);
    else /* the last panel of an odd number of vectors */
        gate3_row(y, y_ld, x, w, pixels, 2 * VL);
}

/* The same as a convolution of its own: pixels from p on, m channels from i on. */
INLINE void depthwise3_part(const zn_depthwise3 *g, const quick_tail *q, int p, int i, const int pixels, const size_t m)
{
    const float *x[3];
    vf acc[GATE_PIXELS];

    UNROLL_FOR (int u = 0; u < 3; u++)
        x[u] = g->x[u] + (size_t)p * g->x_ld[u] + i;
    depthwise3(acc, x, g->x_ld, g->w + i, g->w_ld, pixels, m);
    UNROLL_FOR (int r = 0; r < pixels; r++) {
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

/* Pixels at a time, some vectors full of them: none waits for its own sums, division and root. */
enum { NORM_PIXELS = VL < 16 ? 16 : 32 };

/* VL pixels: sum[p] = the sum of pixel p, or of the squares of what is left of it without mean[p].  They are added up
 * across lanes together.  Whole vectors only; rest[p] is what the other channels add. */
INLINE void norm_sums(float *sum, const float *x, const size_t ld, size_t whole, const vf *rest, const float *mean)
{
    const bool squares = mean != NULL;
    vf acc[VL];

    UNROLL_FOR (int p = 0; p < VL; p++)
        acc[p] = rest ? rest[p] : vf_set(0);
    for (size_t i = 0; i < whole; i += VL) {
        const float *at = x + i;

        if (VK == 1)
            __asm__("" : "+r"(mean)); /* or gcc spreads all of it before the loop, into more registers than there are */
        UNROLL_FOR (int p = 0; p < VL; p++, at += ld) {
            vf v = vf_load(at);

            if (squares)
                v = vf_sub(v, vf_set(mean[p]));
            acc[p] = squares ? vf_fma(v, v, acc[p]) : vf_add(v, acc[p]);
        }
    }
    vf_store(sum, vf_sums(acc));
}

/* The last m channels of VL pixels without their means, squared; they are put aside in y with zeros behind them. */
INLINE void norm_rest(vf *rest, float *y, size_t y_ld, const float *x, size_t x_ld, size_t m, const float *mean)
{
    for (int p = 0; p < VL; p++) {
        float *to = y + (size_t)p * y_ld;

        vf_store(to, vf_sub(vf_load_n(x + (size_t)p * x_ld, m), vf_set(mean[p])));
        rest[p] = vf_load_n(to, m); /* the lanes past the end held -mean */
        vf_store(to, rest[p]);
        rest[p] = vf_mul(rest[p], rest[p]);
    }
}

/* At most NORM_PIXELS pixels, whole vectors of them (or, with steps of 0, VL times the same); m = c % VL. */
INLINE void norm_some(float *y, size_t y_ld, const float *x, size_t x_ld, int pixels, int c, float eps, const size_t m)
{
    const size_t whole = (size_t)c - m;
    const vf part = vf_set(1 / (float)c);
    float mean[NORM_PIXELS], inv[NORM_PIXELS];
    vf rest[VL];

    for (int p = 0; p < pixels; p += VL) {
        const float *from = x + (size_t)p * x_ld;

        for (int q = 0; q < VL && m; q++)
            rest[q] = vf_load_n(from + (size_t)q * x_ld + whole, m);
        norm_sums(mean + p, from, x_ld, whole, m ? rest : NULL, NULL);
        vf_store(mean + p, vf_mul(vf_load(mean + p), part));
    }
    for (int p = 0; p < pixels; p += VL) {
        const float *from = x + (size_t)p * x_ld;

        if (m)
            norm_rest(rest, y + (size_t)p * y_ld + whole, y_ld, from + whole, x_ld, m, mean + p);
        norm_sums(inv + p, from, x_ld, whole, m ? rest : NULL, mean + p);
        vf_store(inv + p, vf_div(vf_set(1), vf_sqrt(vf_fma(vf_load(inv + p), part, vf_set(eps)))));
    }
    for (int p = 0; p < (y_ld ? pixels : 1); p++) {
        const float *from = x + (size_t)p * x_ld;
        float *to = y + (size_t)p * y_ld;
        vf mu = vf_set(mean[p]), r = vf_set(inv[p]);
        size_t i = 0;

        for (; i + 2 * VL <= whole; i += 2 * VL)
            UNROLL_FOR (int j = 0; j < 2; j++)
                vf_store(to + i + j * VL, vf_mul(vf_sub(vf_load(from + i + j * VL), mu), r));
        for (; i < whole; i += VL)
            vf_store(to + i, vf_mul(vf_sub(vf_load(from + i), mu), r));
        if (m)
            vf_store(to + whole, vf_mul(vf_load(to + whole), r));
    }
}

static __attribute__((noinline)) void norm_whole(float *y, size_t y_ld, const float *x, size_t x_ld, int pixels, int c,
                                                 float eps)
{
    norm_some(y, y_ld, x, x_ld, pixels, c, eps, 0);
}

static __attribute__((noinline)) void norm_part(float *y, size_t y_ld, const float *x, size_t x_ld, int pixels, int c,
                                                float eps)
{
    norm_some(y, y_ld, x, x_ld, pixels, c, eps, (size_t)(c % VL));
}

/* The last vector of pixels begins so much earlier that it is full; of fewer pixels, each is taken VL times. */
static ZN_DECL_NORM_ROWS(ZN_FN(norm_rows))
{
    const bool few = pixels < VL;

    for (int p = 0, some; p < pixels; p += some) {
        int from = few || pixels - p >= VL ? p : pixels - VL;

        some = few ? VL : pixels - from < NORM_PIXELS ? (pixels - from) / VL * VL : NORM_PIXELS;
        (c % VL ? norm_part : norm_whole)(y + (size_t)from * y_ld, few ? 0 : y_ld, x + (size_t)from * x_ld,
                                          few ? 0 : x_ld, some, c, eps);
        some = few ? 1 : from + some - p;
    }
}
