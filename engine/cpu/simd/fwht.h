/* SPDX-License-Identifier: MIT */
/* fwht.h - Walsh-Hadamard transforms in registers and cache, and the kernels that stand between them.
 *
 * A pass takes R = 8, 4 or 2 lines `len` apart through log2 R stages in registers, so that a transform of
 * n lines reads and writes them ceil(log2 n / 3) times.  The order of stages does not matter (they commute);
 * the transform of consecutive numbers does those inside a vector first, and the others as lines of one
 * vector each. */

#define BUTTERFLY(i, j)                       \
    do {                                      \
        vf sum_ = vf_add(a[i], a[j]);         \
        a[j] = vf_sub(a[i], a[j]);            \
        a[i] = sum_;                          \
    } while (0)

/* One pass over n lines of `width` floats; the lines' gate, if there is one, is applied to what is read. */
INLINE void fwht_pass(float *v, size_t stride, int n, int width, int len, const float *gate,
                      size_t gate_step, const int r)
{
    const size_t far = (size_t)len * stride;

    for (int i = 0; i < n; i += r * len)
        for (int j = i; j < i + len; j++)
            for (int c = 0; c < width; c += VL) {
                float *p = v + (size_t)j * stride + c;
                vf a[8];

                UNROLL for (int k = 0; k < r; k++)
                    a[k] = vf_load(p + (size_t)k * far);
                if (gate) {
                    UNROLL for (int k = 0; k < r; k++) {
                        size_t line = (size_t)(j + k * len);

                        a[k] = vf_mul(a[k], gate_step ? vf_load(gate + line * gate_step + c)
                                                      : vf_set(gate[line]));
                    }
                }
                UNROLL for (int k = 0; k < r; k += 2)
                    BUTTERFLY(k, k + 1);
                if (r >= 4) {
                    UNROLL for (int k = 0; k < r; k += 4) {
                        BUTTERFLY(k, k + 2);
                        BUTTERFLY(k + 1, k + 3);
                    }
                }
                if (r == 8) {
                    UNROLL for (int k = 0; k < 4; k++)
                        BUTTERFLY(k, k + 4);
                }
                UNROLL for (int k = 0; k < r; k++)
                    vf_store(p + (size_t)k * far, a[k]);
            }
}

static void fwht_lines(float *v, size_t stride, int n, int width, const float *gate, size_t gate_step)
{
    int len = 1;

    for (; n / len >= 8; len *= 8, gate = NULL)
        fwht_pass(v, stride, n, width, len, gate, gate_step, 8);
    if (n / len == 4)
        fwht_pass(v, stride, n, width, len, gate, gate_step, 4);
    else if (n / len == 2)
        fwht_pass(v, stride, n, width, len, gate, gate_step, 2);
}

static ZN_DECL_FWHT(ZN_FN(fwht))
{
    fwht_lines(v, stride, n, width, gate, gate_step);
}

static ZN_DECL_FWHT_ROW(ZN_FN(fwht_row))
{
    if (n < VL) {
        for (int i = 0; i < n && gate; i++)
            v[i] *= gate[i];
        for (int len = 1; len < n; len *= 2)
            for (int i = 0; i < n; i++)
                if (!(i & len)) {
                    float a = v[i], b = v[i | len];

                    v[i] = a + b;
                    v[i | len] = a - b;
                }
        return;
    }
    for (int i = 0; i < n; i += VL)
        vf_store(v + i, vf_hadamard(gate ? vf_mul(vf_load(v + i), vf_load(gate + i)) : vf_load(v + i)));
    fwht_lines(v, VL, n / VL, VL, NULL, 0);
}

static ZN_DECL_MIX_ROW(ZN_FN(mix_row))
{
    const float *left = x - 1, *right = x + 1, *wc = w + n, *wr = wc + n;

    FOR_ROW(n) {
        vf v = vf_fma(LOAD(wc), LOAD(x), vf_mul(LOAD(w), LOAD(left)));

        STORE(y, vf_fma(LOAD(wr), LOAD(right), v));
    }
}

static ZN_DECL_SLM_ROW(ZN_FN(slm_row))
{
    const float *norm = slm + 5 * (size_t)n, *bias = norm + n;

    FOR_ROW(n) {
        vf sum = vf_set(0), dot = vf_set(0), mag, cosine, act;

        UNROLL for (int j = 0; j < 5; j++) {
            const float *near = e + j - 2, *w = slm + (size_t)j * (size_t)n;
            vf v = LOAD(near);

            sum = vf_fma(v, v, sum);
            dot = vf_fma(LOAD(w), v, dot);
        }
        mag = vf_sqrt(vf_fma(sum, vf_set(0.2f), vf_set(1e-10f)));
        cosine = vf_div(dot, vf_fma(mag, LOAD(norm), vf_set(1e-6f)));
        act = vf_fma(cosine, vf_sqrt(vf_add(mag, vf_set(1e-10f))), LOAD(bias));
        STORE(y, v_gate(LOAD(x), vf_max(vf_set(0), act)));
    }
}

/* Blocks of 8 channels are whole vectors, or half of one. */
enum { STEP8 = VL < 8 ? VL : 8 };
#define LOAD8(p) (VL > 8 ? vf_load_n(p, 8) : vf_load(p))
#define STORE8(p, v) (VL > 8 ? vf_store_n(p, v, 8) : vf_store(p, v))

static ZN_DECL_MASK_ROW(ZN_FN(mask_row))
{
    for (int b = 0; b < n; b++, x += 8) {
        vf sum = vf_abs(LOAD8(x));

        if (STEP8 < 8)
            sum = vf_add(sum, vf_abs(LOAD8(x + STEP8)));
        mask[b] = scale[b] * vf_sum(sum) + bias[b] > 0;
    }
}

/* The open blocks are listed first, without a branch; then nothing is guessed wrongly. */
static ZN_DECL_PRUNED(ZN_FN(pruned))
{
    enum { LIST = 256 };
    const float *near[9], *open[9], *weight[9];
    uint16_t list[LIST + 1];
    int taps = 0;

    for (int t = 0; t < 9; t++)
        if (x[t]) {
            near[taps] = x[t];
            open[taps] = mask[t];
            weight[taps++] = w + (size_t)t * w_tap;
        }
    for (int from = 0; from < n; from += LIST) {
        int blocks = n - from < LIST ? n - from : LIST, n_open = 0;

        for (int b = 0; b < blocks; b++) {
            uint32_t bits;

            memcpy(&bits, &mask[4][from + b], sizeof bits); /* 0 or 1.0f: cheaper to test as a whole number */
            list[n_open] = (uint16_t)b;
            n_open += bits != 0;
        }
        if (n_open < blocks)
            memset(y + 8 * from, 0, (size_t)blocks * 8 * sizeof *y);
        for (int i = 0; i < n_open; i++) {
            int b = from + list[i], c = 8 * b;
            vf acc = vf_set(0), acc2 = vf_set(0);

            for (int t = 0; t < taps; t++)
                if (open[t][b] != 0) {
                    acc = vf_fma(LOAD8(weight[t] + c), LOAD8(near[t] + c), acc);
                    if (STEP8 < 8)
                        acc2 = vf_fma(LOAD8(weight[t] + c + STEP8), LOAD8(near[t] + c + STEP8), acc2);
                }
            STORE8(y + c, acc);
            if (STEP8 < 8)
                STORE8(y + c + STEP8, acc2);
        }
    }
}
