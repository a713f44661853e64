/* SPDX-License-Identifier: MIT */
/* gate3.h - depthwise 3x3: its sums, and the row of a gated residual block (gated_strip.c) in which two of them are
 * multiplied.  Pixels lie at constant strides, in whole vectors, with their border.
 *
 * The result of a pixel does not depend on the loop that computes it. */

enum { GATE_PIXELS = ZN_MANY_REGISTERS ? 8 : 4 };

/* acc[p] = bias + the sum over the nine taps at pixel p, for the first m channels of a vector.  x begins one pixel
 * further left; pixels are x_ld elements apart. */
INLINE void depthwise3(vf *acc, const elem *const x[3], const size_t x_ld[3], const elem *w, const size_t w_ld,
                       const int pixels, const size_t m)
{
    UNROLL_FOR (int p = 0; p < pixels; p++)
        acc[p] = m == VL ? vf_load(w) : vf_load_n(w, m);
    UNROLL_FOR (int u = 0; u < 3; u++) {
        vf tap[3];

        UNROLL_FOR (int v = 0; v < 3; v++) {
            const elem *from = w + (size_t)(1 + 3 * u + v) * w_ld;

            tap[v] = vf_keep(m == VL ? vf_load(from) : vf_load_n(from, m));
        }
        UNROLL_FOR (int q = 0; q < pixels + 2; q++) {
            const elem *from = x[u] + (size_t)q * x_ld[u];
            vf in = vf_keep(m == VL ? vf_load(from) : vf_load_n(from, m));

            UNROLL_FOR (int v = 2; v >= 0; v--)
                if (q - v >= 0 && q - v < pixels)
                    acc[q - v] = vf_fma(tap[v], in, acc[q - v]);
        }
    }
}

INLINE void gate3_part(elem *y, size_t y_ld, const elem *const x[3], size_t at, const elem *w, const int width,
                       const int pixels)
{
    const size_t ld[3] = { (size_t)width, (size_t)width, (size_t)width }, half = (size_t)(width / 2);
    const elem *first[3] = { x[0] + at, x[1] + at, x[2] + at };
    const elem *second[3] = { first[0] + half, first[1] + half, first[2] + half };
    vf a[GATE_PIXELS], b[GATE_PIXELS];

    depthwise3(a, first, ld, w, (size_t)width, pixels, VL);
    depthwise3(b, second, ld, w + half, (size_t)width, pixels, VL);
    UNROLL_FOR (int p = 0; p < pixels; p++)
        vf_store(y + (size_t)p * y_ld, vf_mul(a[p], b[p]));
}

INLINE void gate3_row(elem *y, size_t y_ld, const elem *const x[3], const elem *w, int pixels, const int width)
{
    for (int i = 0; i < width / 2; i += VL) {
        for (int q = 0; q < pixels && pixels >= GATE_PIXELS; q += GATE_PIXELS) { /* the last is moved back to be full */
            int p = q + GATE_PIXELS <= pixels ? q : pixels - GATE_PIXELS;

            gate3_part(y + (size_t)p * y_ld + i, y_ld, x, (size_t)(p * width + i), w + i, width, GATE_PIXELS);
        }
        for (int p = 0; p < pixels && pixels < GATE_PIXELS; p++)
            gate3_part(y + (size_t)p * y_ld + i, y_ld, x, (size_t)(p * width + i), w + i, width, 1);
    }
}

static ZN_DECL_GATE3(ZN_FN(gate3))
{
    const elem *const rows[3] = { x[0], x[1], x[2] };

    if (width == PANEL_NV * VL)
        gate3_row(y, y_ld, rows, w, pixels, PANEL_NV * VL);
    else if (width == 2 * VL) /* the last panel of an odd number of vectors */
        gate3_row(y, y_ld, rows, w, pixels, 2 * VL);
    else /* a panel of tiles where no CPU has them, in a test */
        gate3_row(y, y_ld, rows, w, pixels, width);
}
