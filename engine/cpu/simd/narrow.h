/* SPDX-License-Identifier: MIT */
/* narrow.h - convolutions with up to four outputs: vectors run along the input channels, which are many, instead
 * of along the outputs, which would leave most lanes empty.  Each sum is added up across lanes once, at the end. */

enum { NARROW_ROWS = ZN_MANY_REGISTERS ? 4 : 2 };

/* NARROW_ROWS pixels from `row` on, n outputs; beyond the last pixel it is repeated. */
INLINE void narrow_tile(const zn_product *g, int row, const int n)
{
    const float *const *x[NARROW_ROWS];
    vf acc[NARROW_ROWS][ZN_NARROW];
    int left = g->rows - row < NARROW_ROWS ? g->rows - row : NARROW_ROWS;
    int whole = g->k / VL * VL;
    size_t step = (size_t)(g->k + VL - 1) / VL * VL; /* of the packed weights of an output */

    UNROLL_FOR (int r = 0; r < NARROW_ROWS; r++) {
        int at = row + (r < left ? r : left - 1);

        x[r] = g->x + (ptrdiff_t)(at / MR * MR) * g->taps + at % MR;
        UNROLL_FOR (int o = 0; o < n; o++)
            acc[r][o] = vf_set(0);
    }
    for (int tap = 0; tap < g->taps; tap++) {
        const float *w = g->w + (size_t)tap * g->w_tap, *p[NARROW_ROWS];
        int c = 0;

        UNROLL_FOR (int r = 0; r < NARROW_ROWS; r++)
            p[r] = x[r][tap * MR];

        for (; c < whole; c += VL) {
            vf b[ZN_NARROW];

            UNROLL_FOR (int o = 0; o < n; o++)
                b[o] = vf_load(w + (size_t)o * step + c);
            UNROLL_FOR (int r = 0; r < NARROW_ROWS; r++) {
                vf a = vf_load(p[r] + c);

                UNROLL_FOR (int o = 0; o < n; o++)
                    acc[r][o] = vf_fma(a, b[o], acc[r][o]);
            }
        }
        if (c < g->k)
            UNROLL_FOR (int r = 0; r < NARROW_ROWS; r++) {
                vf a = vf_load_n(p[r] + c, (size_t)(g->k - c));

                UNROLL_FOR (int o = 0; o < n; o++)
                    acc[r][o] = vf_fma(a, vf_load(w + (size_t)o * step + c), acc[r][o]);
            }
    }
    UNROLL_FOR (int r = 0; r < NARROW_ROWS; r++) { /* constant indices: acc must stay in registers */
        float sum[ZN_MAX_VL] = { 0 };

        UNROLL_FOR (int o = 0; o < n; o++)
            sum[o] = vf_sum(acc[r][o]);
        if (r < left)
            finish_row(g->y[row + r], sum, g->bias, g->res ? g->res[row + r] : NULL, n, g->t);
    }
}

static ZN_DECL_NARROW(ZN_FN(narrow))
{
    for (int row = 0; row < g->rows; row += NARROW_ROWS)
        switch (g->n) {
        case 1:
            narrow_tile(g, row, 1);
            break;
        case 2:
            narrow_tile(g, row, 2);
            break;
        case 3:
            narrow_tile(g, row, 3);
            break;
        default:
            narrow_tile(g, row, 4);
        }
}
