/* SPDX-License-Identifier: MIT */
/* rows.h - kernels on rows of consecutive floats: elementwise operations, norms, softmax, averages, RoPE. */

/* map with a SiLU alone as its tail: without a call in the loop, the long dependency chains of several vectors
 * overlap. */
static void map_silu(float *y, const float *x, const float *scale, const float *shift, size_t n)
{
    FOR_ROW(n)
    {
        vf v = LOAD(x);

        if (scale)
            v = vf_fma(v, LOAD(scale), LOAD(shift));
        STORE(y, v_gate(v, v));
    }
}

static ZN_DECL_MAP(ZN_FN(map))
{
    if (t->pre == ZN_SILU && !t->post && t->gain == 1 && !res) {
        map_silu(y, x, scale, shift, n);
        return;
    }
    FOR_ROW(n)
    {
        vf v = LOAD(x), s = vf_set(0);

        if (scale)
            v = vf_fma(v, LOAD(scale), LOAD(shift));
        if (res)
            s = LOAD(res);
        STORE(y, v_tail(v, res ? &s : NULL, t));
    }
}

static ZN_DECL_BINARY(ZN_FN(binary))
{
    FOR_ROW(n)
    {
        vf v = op == ZN_ADD ? vf_add(LOAD(a), LOAD(b)) : vf_mul(LOAD(a), LOAD(b));
        vf s = vf_set(0);

        if (res)
            s = LOAD(res);
        STORE(y, v_tail(v, res ? &s : NULL, t));
    }
}

/* 4 vectors of channels at a time: a cache line of x is used as a whole, and there are 4 sums to add. */
INLINE void moment_part(float *sum, const float *x, size_t ld, int pixels, const float *mean, size_t i, const int nv,
                        const size_t m)
{
    vf acc[4], mu[4];

    UNROLL_FOR (int j = 0; j < nv; j++) {
        acc[j] = vf_set(0);
        mu[j] = mean ? LOAD(mean + j * VL) : vf_set(0);
    }
    for (int p = 0; p < pixels; p++, x += ld)
        UNROLL_FOR (int j = 0; j < nv; j++) {
            vf v = vf_sub(LOAD(x + j * VL), mu[j]);

            acc[j] = mean ? vf_fma(v, v, acc[j]) : vf_add(v, acc[j]);
        }
    UNROLL_FOR (int j = 0; j < nv; j++)
        STORE(sum + j * VL, acc[j]);
}

static ZN_DECL_MOMENT(ZN_FN(moment))
{
    size_t i = 0;

    for (; i + 4 * VL <= (size_t)n; i += 4 * VL)
        moment_part(sum, x, ld, pixels, mean, i, 4, VL);
    for (; i < (size_t)n; i += VL)
        moment_part(sum, x, ld, pixels, mean, i, 1, row_step(i, (size_t)n));
}

static ZN_DECL_NORM_ROW(ZN_FN(norm_row))
{
    vf sum = vf_set(0), sum2 = vf_set(0), mean = vf_set(0), inv;

    if (!rms) {
        FOR_ROW(n)
        sum = vf_add(sum, LOAD(x));
        mean = vf_set(vf_sum(sum) / (float)n);
    }
    FOR_ROW(n)
    {
        vf v = vf_sub(LOAD(x), mean);

        if (m < VL && !rms) { /* the lanes past the end hold -mean */
            float lane[VL];

            vf_store(lane, v);
            v = vf_load_n(lane, m);
        }
        sum2 = vf_fma(v, v, sum2);
    }
    inv = vf_set(1 / sqrtf(vf_sum(sum2) / (float)n + eps));
    FOR_ROW(n)
    {
        vf v = vf_mul(vf_sub(LOAD(x), mean), inv);
        vf s = vf_set(0);

        if (gamma)
            v = vf_mul(v, LOAD(gamma));
        if (beta)
            v = vf_add(v, LOAD(beta));
        if (res)
            s = LOAD(res);
        STORE(y, v_tail(v, res ? &s : NULL, t));
    }
}

static ZN_DECL_MAXIMUM(ZN_FN(maximum))
{
    float top = x[0];
    vf max = vf_set(top);
    size_t i = 0;

    for (; i + VL <= n; i += VL)
        max = vf_max(vf_load(x + i), max);
    top = vf_top(max);
    for (; i < n; i++)
        top = x[i] > top ? x[i] : top;
    return top;
}

static ZN_DECL_EXP_SUM(ZN_FN(exp_sum))
{
    vf sum = vf_set(0), shift = vf_set(max);
    size_t i = 0;

    for (; i + VL <= n; i += VL) {
        vf e = v_exp(vf_sub(vf_load(x + i), shift));

        vf_store(y + i, e);
        sum = vf_add(sum, e);
    }
    if (i < n) {
        vf_store_n(y + i, v_exp(vf_sub(vf_load_n(x + i, n - i), shift)), n - i);
        sum = vf_add(sum, vf_load_n(y + i, n - i));
    }
    return vf_sum(sum);
}

/* The mean of `m` channels from i on in each of nv vectors. */
INLINE void average_part(float *y, const float *x, size_t ld, size_t row, int h, int w, size_t i, const int nv,
                         const size_t m)
{
    const vf per = vf_set(1 / ((float)h * (float)w));
    vf sum[4];

    UNROLL_FOR (int j = 0; j < nv; j++)
        sum[j] = vf_set(0);
    for (int r = 0; r < h; r++, x += row) {
        vf of_row[4];

        UNROLL_FOR (int j = 0; j < nv; j++)
            of_row[j] = LOAD(x + j * VL);
        for (int p = 1; p < w; p++)
            UNROLL_FOR (int j = 0; j < nv; j++)
                of_row[j] = vf_add(of_row[j], LOAD(x + (size_t)p * ld + j * VL));
        UNROLL_FOR (int j = 0; j < nv; j++)
            sum[j] = vf_add(sum[j], of_row[j]);
    }
    UNROLL_FOR (int j = 0; j < nv; j++)
        STORE(y + j * VL, vf_mul(sum[j], per));
}

static ZN_DECL_AVERAGE(ZN_FN(average))
{
    size_t i = 0;

    for (; i + 4 * VL <= (size_t)n; i += 4 * VL)
        average_part(y, x, ld, row, rows, columns, i, 4, VL);
    for (; i < (size_t)n; i += VL)
        average_part(y, x, ld, row, rows, columns, i, 1, row_step(i, (size_t)n));
}

static void rope_halves(float *y, const float *x, const float *cos, const float *sin, int half)
{
    FOR_ROW(half)
    {
        vf a = LOAD(x);
        vf b = LOAD(x + half);
        vf u = LOAD(cos);
        vf v = LOAD(sin);

        STORE(y, vf_fnma(b, v, vf_mul(a, u)));
        STORE(y + half, vf_fma(a, v, vf_mul(b, u)));
    }
}

/* y = x * (cos0, cos0, cos1, cos1, ...) + (x1, x0, x3, x2, ...) * (-sin0, sin0, -sin1, sin1, ...) */
static void rope_pairs(float *y, const float *x, const float *cos, const float *sin, int half)
{
    int i = 0;

    for (; i + VL <= half; i += VL) {
        vf u[2], v[2];

        vf_double(u, vf_load(cos + i));
        vf_double(v, vf_load(sin + i));
        UNROLL_FOR (int k = 0; k < 2; k++) {
            vf a = vf_load(x + 2 * i + k * VL);

            vf_store(y + 2 * i + k * VL, vf_fma(vf_swap_negate(a), v[k], vf_mul(a, u[k])));
        }
    }
    for (; i < half; i++) {
        float a = x[2 * i], b = x[2 * i + 1];

        y[2 * i] = a * cos[i] - b * sin[i];
        y[2 * i + 1] = a * sin[i] + b * cos[i];
    }
}

static ZN_DECL_ROPE(ZN_FN(rope))
{
    (interleaved ? rope_pairs : rope_halves)(y, x, cos, sin, half);
}

static ZN_DECL_STEP(ZN_FN(step))
{
    const vf low = vf_set(-clip), high = vf_set(clip);

    FOR_ROW(n)
    {
        vf a = LOAD(x);
        vf b = LOAD(predicted);
        vf x0 = vf_min(high, vf_max(low, vf_fma(a, vf_set(coef[0]), vf_mul(b, vf_set(coef[1])))));
        vf noise = vf_fma(a, vf_set(coef[2]), vf_mul(x0, vf_set(coef[3])));

        STORE(y, vf_fma(x0, vf_set(coef[4]), vf_mul(noise, vf_set(coef[5]))));
    }
}
