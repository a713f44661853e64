/* SPDX-License-Identifier: MIT */
/* gated.h - depthwise 3x3 (gate3.h) as a convolution of its own, and the layer norm of a gated residual block.  Pixels lie at constant strides, in whole vectors, with their border.
 *
 * The result of a pixel does not depend on the loop that computes it. */

/* ---- depthwise 3x3 ------------------------------------------------------------------------------------ */

/* As a convolution of its own: pixels from p on, m channels from i on. */
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

/* Pixels at a time, several vectors of them: hides the latency of sums, division and square root. */
enum { NORM_PIXELS = VL < 16 ? 16 : 32 };

/* VL pixels: sum[p] = the sum of pixel p, or of the squares of pixel p - mean[p].  One transposition reduces all VL
 * sums across lanes.  Whole vectors only; rest[p] is the contribution of the other channels. */
INLINE void norm_sums(float *sum, const float *x, const size_t ld, size_t whole, const vf *rest, const float *mean)
{
    const bool squares = mean != NULL;
    vf acc[VL];

    UNROLL_FOR (int p = 0; p < VL; p++)
        acc[p] = rest ? rest[p] : vf_set(0);
    for (size_t i = 0; i < whole; i += VL) {
        const float *at = x + i;

        if (VK == 1)
            __asm__("" : "+r"(mean)); /* or gcc broadcasts all means before the loop and spills them */
        UNROLL_FOR (int p = 0; p < VL; p++, at += ld) {
            vf v = vf_load(at);

            if (squares)
                v = vf_sub(v, vf_set(mean[p]));
            acc[p] = squares ? vf_fma(v, v, acc[p]) : vf_add(v, acc[p]);
        }
    }
    vf_store(sum, vf_sums(acc));
}

/* rest[p] = (x - mean)^2 of the last m channels of VL pixels; y keeps x - mean, padded with zeros. */
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

/* At most NORM_PIXELS pixels, in whole vectors (or, with strides of 0, VL times the same pixel); m = c % VL. */
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

/* The last vector of pixels is moved back until it is full; with fewer than VL pixels, each is computed VL times. */
static ZN_DECL_NORM_ROWS(ZN_FN(norm_rows))
{
    const bool few = pixels < VL;

    for (int p = 0, some; p < pixels; p += some) {
        int from = few || pixels - p >= VL ? p : pixels - VL;

        some = few ? VL : pixels - from < NORM_PIXELS ? (pixels - from) / VL * VL : NORM_PIXELS;
        (n % VL ? norm_part : norm_whole)(y + (size_t)from * y_ld, few ? 0 : y_ld, x + (size_t)from * x_ld,
                                          few ? 0 : x_ld, some, n, eps);
        some = few ? 1 : from + some - p;
    }
}
