/* SPDX-License-Identifier: MIT */
/* scalar.c - the kernels in plain C: the specification that the vector ones are tested against. */
#include <math.h>

#include "kernels.h"

static float act(float x, zn_act a)
{
    switch (a) {
    case ZN_RELU:
        return x < 0 ? 0 : x;
    case ZN_LRELU:
        return x < 0 ? x * 0.2f : x;
    case ZN_SILU:
        return x / (1 + expf(-x));
    case ZN_GELU:
        return x * 0.5f * erfcf(x * -0.70710678f);
    case ZN_GELU_TANH:
        return x * 0.5f * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    case ZN_SIGMOID:
        return 1 / (1 + expf(-x));
    case ZN_TANH:
        return tanhf(x);
    case ZN_SOFTCLAMP:
        return 3 * tanhf(x / 3);
    default:
        return x;
    }
}

static float tail(float x, const float *res, size_t i, const zn_tail *t)
{
    x = t->gain * act(x, t->pre);
    return act(res ? res[i] + x : x, t->post);
}

static ZN_DECL_MAP(map_c)
{
    for (size_t i = 0; i < n; i++)
        y[i] = tail(scale ? x[i] * scale[i] + shift[i] : x[i], res, i, t);
}

static ZN_DECL_BINARY(binary_c)
{
    for (size_t i = 0; i < n; i++)
        y[i] = tail(op == ZN_ADD ? a[i] + b[i] : a[i] * b[i], res, i, t);
}

static ZN_DECL_MOMENT(moment_c)
{
    for (int i = 0; i < c; i++)
        sum[i] = 0;
    for (int p = 0; p < pixels; p++, x += ld)
        for (int i = 0; i < c; i++)
            sum[i] += mean ? (x[i] - mean[i]) * (x[i] - mean[i]) : x[i];
}

static ZN_DECL_NORM_ROW(norm_row_c)
{
    double mean = 0, var = 0;
    float m, inv;

    for (int i = 0; i < c && !rms; i++)
        mean += x[i];
    m = (float)(mean / c);
    for (int i = 0; i < c; i++)
        var += (x[i] - m) * (x[i] - m);
    inv = (float)(1 / sqrt(var / c + eps));
    for (int i = 0; i < c; i++)
        y[i] = tail((x[i] - m) * inv * (gamma ? gamma[i] : 1) + (beta ? beta[i] : 0), res,
                    (size_t)i, t);
}

static ZN_DECL_MAXIMUM(maximum_c)
{
    float max = x[0];

    for (size_t i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

static ZN_DECL_EXP_SUM(exp_sum_c)
{
    float sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += y[i] = expf(x[i] - max);
    return sum;
}

static ZN_DECL_LERP(lerp_c)
{
    for (size_t i = 0; i < n; i++) {
        float above = p[0][i] + u * (p[1][i] - p[0][i]);
        float below = p[2][i] + u * (p[3][i] - p[2][i]);

        y[i] = above + v * (below - above);
    }
}

static ZN_DECL_PEAK(peak_c)
{
    float a[8], m = sink[0], s = sink[1];

    for (int i = 0; i < 8; i++)
        a[i] = sink[i];
    for (size_t r = 0; r < n; r++)
        for (int i = 0; i < 8; i++)
            a[i] = a[i] * m + s;
    for (int i = 0; i < 8; i++)
        sink[i] = a[i];
}

const zn_kernels zn_kernels_scalar = {
    .vl = 1, .mr = 1, .nr = 1,
    .peak_flops = 16,
    .map = map_c,
    .binary = binary_c,
    .moment = moment_c,
    .norm_row = norm_row_c,
    .maximum = maximum_c,
    .exp_sum = exp_sum_c,
    .lerp = lerp_c,
    .peak = peak_c,
};
