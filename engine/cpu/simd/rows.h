/* SPDX-License-Identifier: MIT */
/* rows.h - kernels on rows of consecutive floats: elementwise, norms, softmax, interpolation.
 *
 * FOR_ROW(n) walks over n floats vector by vector: at i there are m left, VL at most.  LOAD and STORE
 * touch these m only. */

#define FOR_ROW(n) for (size_t i = 0, m; m = row_step(i, (size_t)(n)), i < (size_t)(n); i += VL)
#define LOAD(p) (m == VL ? vf_load((p) + i) : vf_load_n((p) + i, m))
#define STORE(p, v) (m == VL ? vf_store((p) + i, v) : vf_store_n((p) + i, v, m))

static inline size_t row_step(size_t i, size_t n)
{
    return i + VL <= n ? VL : n - i;
}

static ZN_DECL_MAP(ZN_FN(map))
{
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

    for (; i + 4 * VL <= (size_t)c; i += 4 * VL)
        moment_part(sum, x, ld, pixels, mean, i, 4, VL);
    for (; i < (size_t)c; i += VL)
        moment_part(sum, x, ld, pixels, mean, i, 1, row_step(i, (size_t)c));
}

static ZN_DECL_NORM_ROW(ZN_FN(norm_row))
{
    vf sum = vf_set(0), sum2 = vf_set(0), mean = vf_set(0), inv;

    if (!rms) {
        FOR_ROW(c)
        sum = vf_add(sum, LOAD(x));
        mean = vf_set(vf_sum(sum) / (float)c);
    }
    FOR_ROW(c)
    {
        vf v = vf_sub(LOAD(x), mean);

        if (m < VL && !rms) { /* the lanes past the end hold -mean */
            float lane[VL];

            vf_store(lane, v);
            v = vf_load_n(lane, m);
        }
        sum2 = vf_fma(v, v, sum2);
    }
    inv = vf_set(1 / sqrtf(vf_sum(sum2) / (float)c + eps));
    FOR_ROW(c)
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

static ZN_DECL_LERP(ZN_FN(lerp))
{
    vf uu = vf_set(u), vv = vf_set(v);

    FOR_ROW(n)
    {
        vf a = LOAD(p[0]);
        vf b = LOAD(p[2]);
        vf above = vf_fma(uu, vf_sub(LOAD(p[1]), a), a);
        vf below = vf_fma(uu, vf_sub(LOAD(p[3]), b), b);

        STORE(y, vf_fma(vv, vf_sub(below, above), above));
    }
}
