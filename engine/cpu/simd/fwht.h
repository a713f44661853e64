/* SPDX-License-Identifier: MIT */
/* fwht.h - Walsh-Hadamard transforms in registers and cache, and the kernels between them.
 *
 * A pass takes R = 8, 4 or 2 lines `len` apart through log2 R stages in registers, so that a transform of
 * n lines reads and writes them ceil(log2 n / 3) times.  The order of stages does not matter (they commute);
 * the transform of consecutive elements does the stages inside a vector first, and the others as lines of one
 * vector each. */

#define BUTTERFLY(i, j)                                                                                                \
    do {                                                                                                               \
        vf sum_ = vf_add(a[i], a[j]);                                                                                  \
        a[j] = vf_sub(a[i], a[j]);                                                                                     \
        a[i] = sum_;                                                                                                   \
    } while (0)

/* A pass over all lines: what it reads, where it goes, and the first pass's gate and permutation. */
typedef struct fwht_job {
    float *y;
    const float *x;
    size_t y_step, x_step;
    int n, width, len;
    const float *gate;
    size_t gate_step;
    const int32_t *perm;
} fwht_job;

/* Through the lines at j, j + len, ... j + (r-1) len at a time.  The flags are constants: what is not there costs
 * nothing. */
INLINE void fwht_pass(const fwht_job *g, const int r, const bool gated, const bool wide_gate, const bool permuted)
{
    const int n = g->n, width = g->width, len = g->len;
    const size_t x_step = g->x_step, y_step = g->y_step, gate_step = g->gate_step;
    const size_t x_far = (size_t)len * x_step, y_far = (size_t)len * y_step;

    for (int i = 0; i < n; i += r * len)
        for (int j = i; j < i + len; j++) {
            const float *x = g->x + (permuted ? 0 : (size_t)j * x_step), *from[8] = { NULL };
            const float *gate = gated ? g->gate + j : NULL;
            float *y = g->y + (size_t)j * y_step;

            UNROLL_FOR (int k = 0; k < r && permuted; k++)
                from[k] = x + (size_t)g->perm[j + k * len] * x_step;
            for (int c = 0; c < width; c += VL, x += VL, y += VL) {
                vf a[8];

                UNROLL_FOR (int k = 0; k < r; k++)
                    a[k] = vf_load(permuted ? from[k] + c : x + (size_t)k * x_far);
                if (gated) {
                    UNROLL_FOR (int k = 0; k < r; k++)
                        a[k] = vf_mul(a[k],
                                      wide_gate ? vf_load(g->gate + (size_t)(j + k * len) * gate_step + c)
                                                : vf_set(gate[k * len]));
                }
                UNROLL_FOR (int k = 0; k < r; k += 2)
                    BUTTERFLY(k, k + 1);
                if (r >= 4) {
                    UNROLL_FOR (int k = 0; k < r; k += 4) {
                        BUTTERFLY(k, k + 2);
                        BUTTERFLY(k + 1, k + 3);
                    }
                }
                if (r == 8) {
                    UNROLL_FOR (int k = 0; k < 4; k++)
                        BUTTERFLY(k, k + 4);
                }
                UNROLL_FOR (int k = 0; k < r; k++)
                    vf_store(y + (size_t)k * y_far, a[k]);
            }
        }
}

static __attribute__((noinline)) void fwht_plain8(const fwht_job *g)
{
    fwht_pass(g, 8, false, false, false);
}

static __attribute__((noinline)) void fwht_gated8(const fwht_job *g)
{
    fwht_pass(g, 8, true, false, false);
}

static __attribute__((noinline)) void fwht_permuted8(const fwht_job *g)
{
    fwht_pass(g, 8, true, false, true);
}

static __attribute__((noinline)) void fwht_plain4(const fwht_job *g)
{
    fwht_pass(g, 4, false, false, false);
}

static __attribute__((noinline)) void fwht_other(const fwht_job *g, int r)
{
    const bool gated = g->gate, wide = g->gate_step, permuted = g->perm;

    if (r == 8)
        fwht_pass(g, 8, gated, wide, permuted);
    else if (r == 4)
        fwht_pass(g, 4, gated, wide, permuted);
    else
        fwht_pass(g, 2, gated, wide, permuted);
}

/* Passes of 8 lines, and one of 4 or 2: the first reads x, the last writes y. */
static void fwht_lines(const zn_lines *g)
{
    fwht_job job = { NULL, g->x, 0, g->x_step, g->n, g->width, 1, g->gate, g->gate_step, g->perm };

    while (job.len < g->n) {
        int r = g->n / job.len >= 8 ? 8 : g->n / job.len;
        bool last = job.len * r == g->n, plain = !job.gate && !job.perm;

        job.y = last ? g->y : g->sums;
        job.y_step = last ? g->y_step : g->sums_step;
        if (r == 8 && plain)
            fwht_plain8(&job);
        else if (r == 8 && job.gate && !job.gate_step)
            job.perm ? fwht_permuted8(&job) : fwht_gated8(&job);
        else if (r == 4 && plain)
            fwht_plain4(&job);
        else
            fwht_other(&job, r);
        job = (fwht_job){ NULL, job.y, 0, job.y_step, g->n, g->width, job.len * r, NULL, 0, NULL };
    }
}

static ZN_DECL_FWHT(ZN_FN(fwht))
{
    fwht_lines(g);
}

static ZN_DECL_TRANSPOSE(ZN_FN(transpose))
{
    int i = 0;

    for (; i + VL <= rows; i += VL) {
        int j = 0;

        for (; j + VL <= n; j += VL) {
            vf a[VL];

            UNROLL_FOR (int k = 0; k < VL; k++)
                a[k] = vf_load(x + (size_t)(i + k) * x_ld + j);
            vf_transpose(a);
            UNROLL_FOR (int k = 0; k < VL; k++)
                vf_store(y + (size_t)(j + k) * y_ld + i, a[k]);
        }
        for (; j < n; j++)
            for (int k = i; k < i + VL; k++)
                y[(size_t)j * y_ld + (size_t)k] = x[(size_t)k * x_ld + (size_t)j];
    }
    for (; i < rows; i++)
        for (int j = 0; j < n; j++)
            y[(size_t)j * y_ld + (size_t)i] = x[(size_t)i * x_ld + (size_t)j];
}

/* VL / 4 pixels and VL channels at a time are a square of elements. */
static ZN_DECL_SHUFFLE2(ZN_FN(shuffle2))
{
    enum { AT_ONCE = VL / 4 };

    for (int j = 0; j < pixels; j += AT_ONCE) {
        int k = 0, some = pixels - j < AT_ONCE ? pixels - j : AT_ONCE;

        for (; k + VL <= n && some == AT_ONCE; k += VL) {
            vf a[VL];

            UNROLL_FOR (int i = 0; i < VL; i++)
                a[i] = back ? vf_load(fine[i / 2 % 2] + (size_t)(2 * (j + i / 4) + i % 2) * fine_ld + k)
                            : vf_load4(coarse + (size_t)j * coarse_ld + 4 * (k + i), coarse_ld);
            vf_transpose(a);
            UNROLL_FOR (int i = 0; i < VL; i++)
                if (back)
                    vf_store4(coarse + (size_t)j * coarse_ld + 4 * (k + i), coarse_ld, a[i]);
                else
                    vf_store(fine[i / 2 % 2] + (size_t)(2 * (j + i / 4) + i % 2) * fine_ld + k, a[i]);
        }
        for (int p = j; p < j + some; p++) {
            float *upper = fine[0] + (size_t)(2 * p) * fine_ld, *lower = fine[1] + (size_t)(2 * p) * fine_ld;

            for (int i = k; i < n; i++) {
                float *four = coarse + (size_t)p * coarse_ld + 4 * i;

                if (back) {
                    four[0] = upper[i], four[1] = upper[fine_ld + (size_t)i];
                    four[2] = lower[i], four[3] = lower[fine_ld + (size_t)i];
                } else {
                    upper[i] = four[0], upper[fine_ld + (size_t)i] = four[1];
                    lower[i] = four[2], lower[fine_ld + (size_t)i] = four[3];
                }
            }
        }
    }
}

static ZN_DECL_FWHT_ROW(ZN_FN(fwht_row))
{
    if (n < VL) {
        for (int i = 0; i < n && gate; i++)
            y[i] *= gate[i];
        for (int len = 1; len < n; len *= 2)
            for (int i = 0; i < n; i++)
                if (!(i & len)) {
                    float a = y[i], b = y[i | len];

                    y[i] = a + b;
                    y[i | len] = a - b;
                }
        return;
    }
    for (int i = 0; i < n; i += VL)
        vf_store(y + i, vf_hadamard(gate ? vf_mul(vf_load(y + i), vf_load(gate + i)) : vf_load(y + i)));
    fwht_lines(&(zn_lines){
        .y = y, .sums = y, .x = y, .y_step = VL, .sums_step = VL, .x_step = VL, .n = n / VL, .width = VL });
}

static ZN_DECL_MIX_ROW(ZN_FN(mix_row))
{
    const float *left = x - 1, *right = x + 1, *wc = w + n, *wr = wc + n;

    FOR_ROW(n)
    {
        vf v = vf_fma(LOAD(wc), LOAD(x), vf_mul(LOAD(w), LOAD(left)));

        STORE(y, vf_fma(LOAD(wr), LOAD(right), v));
    }
}

static ZN_DECL_SLM_ROW(ZN_FN(slm_row))
{
    const float *norm = slm + 5 * (size_t)n, *bias = norm + n;

    FOR_ROW(n)
    {
        vf sum = vf_set(0), dot = vf_set(0), mag, cosine, act;

        UNROLL_FOR (int j = 0; j < 5; j++) {
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

/* One block of 8 channels from c on.  The pixels in which it is open are copied to `near`, which is 0 elsewhere
 * and afterwards: every tap is a multiply-add then, the weights stay in registers, and x, w and y are touched
 * once.  (Pixels lie a power of two apart, that is in the same few sets of the cache.) */
INLINE void prune_block(float *near, const zn_prune_tile *g, uint64_t open, size_t c)
{
    enum { PARTS = 8 / STEP8, SIDE = ZN_PRUNE_SIDE };
    vf tap[9][PARTS];

    UNROLL_FOR (int t = 0; t < 9; t++)
        UNROLL_FOR (int k = 0; k < PARTS; k++)
            tap[t][k] = LOAD8(g->w + (size_t)t * g->w_tap + c + k * STEP8);
    for (uint64_t left = open; left; left &= left - 1) {
        int i = __builtin_ctzll(left);

        UNROLL_FOR (int k = 0; k < PARTS; k++)
            STORE8(near + 8 * g->place[i] + k * STEP8, LOAD8(g->x[i] + c + k * STEP8));
    }
    for (uint64_t left = open & g->inner; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        const float *from = near + 8 * (g->place[i] - SIDE - 1);
        vf acc[PARTS];

        UNROLL_FOR (int t = 0; t < 9; t++)
            UNROLL_FOR (int k = 0; k < PARTS; k++) {
                vf v = LOAD8(from + 8 * (t / 3 * SIDE + t % 3) + k * STEP8);

                acc[k] = t ? vf_fma(tap[t][k], v, acc[k]) : vf_mul(tap[t][k], v);
            }
        UNROLL_FOR (int k = 0; k < PARTS; k++)
            STORE8(g->y[i] + c + k * STEP8, acc[k]);
    }
    for (; open; open &= open - 1)
        UNROLL_FOR (int k = 0; k < PARTS; k++)
            STORE8(near + 8 * g->place[__builtin_ctzll(open)] + k * STEP8, vf_set(0));
}

enum { PRUNE_LIST = 128, PRUNE_BITS = 22 /* that a float holds, in whole groups */ };

/* open[b] = the pixels in which block from + b is open.  A mask is 0 or 1: they become its bits. */
static void prune_open(uint64_t *open, const zn_prune_tile *g, int from, int blocks)
{
    enum { AT_ONCE = 4 };

    for (int first = 0; first < g->pixels; first += PRUNE_BITS) {
        int end = first + PRUNE_BITS < g->pixels ? first + PRUNE_BITS : g->pixels, b = 0;
        float sum[PRUNE_LIST];

        for (; b + AT_ONCE * VL <= blocks; b += AT_ONCE * VL) {
            vf acc[AT_ONCE];

            UNROLL_FOR (int k = 0; k < AT_ONCE; k++)
                acc[k] = vf_set(0);
            for (int i = end - 1; i >= first; i--)
                UNROLL_FOR (int k = 0; k < AT_ONCE; k++)
                    acc[k] = vf_fma(acc[k], vf_set(2), vf_load(g->mask[i] + from + b + k * VL));
            UNROLL_FOR (int k = 0; k < AT_ONCE; k++)
                vf_store(sum + b + k * VL, acc[k]);
        }
        for (; b < blocks; b++) {
            sum[b] = 0;
            for (int i = end - 1; i >= first; i--)
                sum[b] = 2 * sum[b] + g->mask[i][from + b];
        }
        for (b = 0; b < blocks; b++)
            open[b] = (first ? open[b] : 0) | (uint64_t)(int32_t)sum[b] << first;
    }
}

static ZN_DECL_PRUNED(ZN_FN(pruned))
{
    float near[8 * ZN_PRUNE_SIDE * ZN_PRUNE_SIDE] = { 0 };
    uint64_t open[PRUNE_LIST];
    uint8_t list[PRUNE_LIST + 1];

    for (int from = 0; from < g->n; from += PRUNE_LIST) {
        int blocks = g->n - from < PRUNE_LIST ? g->n - from : PRUNE_LIST, n_open = 0;

        prune_open(open, g, from, blocks);
        for (int b = 0; b < blocks; b++) { /* no branch: it would be mispredicted half of the time */
            list[n_open] = (uint8_t)b;
            n_open += (open[b] & g->inner) != 0;
        }
        for (uint64_t left = g->inner; left; left &= left - 1)
            memset(g->y[__builtin_ctzll(left)] + 8 * from, 0, (size_t)blocks * 8 * sizeof(float));
        for (int i = 0; i < n_open; i++) {
            if (2 * n_open < blocks && i + 1 < n_open) { /* too far apart for the hardware prefetcher */
                size_t c = 8 * (size_t)(from + list[i + 1]);

                for (int t = 0; t < 9; t++)
                    __builtin_prefetch(g->w + (size_t)t * g->w_tap + c);
                for (int k = 0; k < g->pixels; k++)
                    __builtin_prefetch(g->x[k] + c);
            }
            prune_block(near, g, open[list[i]], 8 * (size_t)(from + list[i]));
        }
    }
}
