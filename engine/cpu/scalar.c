/* SPDX-License-Identifier: MIT */
/* scalar.c - the kernels in plain C: the specification of the vector ones. */
#include <math.h>
#include <string.h>

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
    case ZN_CLAMP:
        return fminf(fmaxf(x, -1), 1);
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
    for (int i = 0; i < n; i++)
        sum[i] = 0;
    for (int p = 0; p < pixels; p++, x += ld)
        for (int i = 0; i < n; i++)
            sum[i] += mean ? (x[i] - mean[i]) * (x[i] - mean[i]) : x[i];
}

static ZN_DECL_NORM_ROW(norm_row_c)
{
    double mean = 0, var = 0;
    float m, inv;

    for (int i = 0; i < n && !rms; i++)
        mean += x[i];
    m = (float)(mean / n);
    for (int i = 0; i < n; i++)
        var += (x[i] - m) * (x[i] - m);
    inv = (float)(1 / sqrt(var / n + eps));
    for (int i = 0; i < n; i++)
        y[i] = tail((x[i] - m) * inv * (gamma ? gamma[i] : 1) + (beta ? beta[i] : 0), res, (size_t)i, t);
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

static ZN_DECL_AVERAGE(average_c)
{
    for (int c = 0; c < n; c++) {
        float sum = 0;

        for (int i = 0; i < rows; i++) {
            float of_row = 0;

            for (int j = 0; j < columns; j++)
                of_row += x[(size_t)i * row + (size_t)j * ld + (size_t)c];
            sum += of_row;
        }
        y[c] = sum / ((float)rows * (float)columns);
    }
}

static ZN_DECL_ROPE(rope_c)
{
    for (int i = 0; i < half; i++) {
        int a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + half;
        float xa = x[a], xb = x[b];

        y[a] = xa * cos[i] - xb * sin[i];
        y[b] = xa * sin[i] + xb * cos[i];
    }
}

static ZN_DECL_STEP(step_c)
{
    for (size_t i = 0; i < n; i++) {
        float x0 = fminf(fmaxf(coef[0] * x[i] + coef[1] * predicted[i], -clip), clip);

        y[i] = coef[4] * x0 + coef[5] * (coef[2] * x[i] + coef[3] * x0);
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
    return 16.0 * (double)n;
}

static void hadamard(float *v, size_t step, int n)
{
    for (int len = 1; len < n; len *= 2)
        for (int i = 0; i < n; i++)
            if (!(i & len)) {
                float *p = v + (size_t)i * step, *q = p + (size_t)len * step;
                float a = *p, b = *q;

                *p = a + b;
                *q = a - b;
            }
}

static ZN_DECL_FWHT(fwht_c)
{
    for (int c = 0; c < g->width; c++) {
        for (int i = 0; i < g->n; i++) {
            float x = g->x[(size_t)(g->perm ? g->perm[i] : i) * g->x_step + (size_t)c];

            if (g->gate)
                x *= g->gate_step ? g->gate[(size_t)i * g->gate_step + (size_t)c] : g->gate[i];
            g->sums[(size_t)i * g->sums_step + (size_t)c] = x;
        }
        hadamard(g->sums + c, g->sums_step, g->n);
        for (int i = 0; i < g->n; i++)
            g->y[(size_t)i * g->y_step + (size_t)c] = g->sums[(size_t)i * g->sums_step + (size_t)c];
    }
}

static ZN_DECL_FWHT_ROW(fwht_row_c)
{
    for (int i = 0; i < n && gate; i++)
        y[i] *= gate[i];
    hadamard(y, 1, n);
}

static ZN_DECL_TRANSPOSE(transpose_c)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < n; j++)
            y[(size_t)j * y_ld + (size_t)i] = x[(size_t)i * x_ld + (size_t)j];
}

static ZN_DECL_SHUFFLE2(shuffle2_c)
{
    for (int j = 0; j < pixels; j++)
        for (int i = 0; i < 4 * n; i++) {
            float *one = fine[i / 2 % 2] + (size_t)(2 * j + i % 2) * fine_ld + i / 4;
            float *four = coarse + (size_t)j * coarse_ld + i;

            if (back)
                *four = *one;
            else
                *one = *four;
        }
}

static ZN_DECL_MIX_ROW(mix_row_c)
{
    for (int c = 0; c < n; c++)
        y[c] = w[c] * x[c - 1] + w[n + c] * x[c] + w[2 * n + c] * x[c + 1];
}

static ZN_DECL_SLM_ROW(slm_row_c)
{
    for (int c = 0; c < n; c++) {
        float sum = 0, dot = 0, mag, cosine;

        for (int j = 0; j < 5; j++) {
            sum += e[c - 2 + j] * e[c - 2 + j];
            dot += slm[j * n + c] * e[c - 2 + j];
        }
        mag = sqrtf(sum / 5 + 1e-10f);
        cosine = dot / (mag * slm[5 * n + c] + 1e-6f);
        y[c] = x[c] * act(act(cosine * sqrtf(mag + 1e-10f) + slm[6 * n + c], ZN_RELU), ZN_SIGMOID);
    }
}

static ZN_DECL_MASK_ROW(mask_row_c)
{
    for (int b = 0; b < n; b++) {
        float sum = 0;

        for (int i = 0; i < 8; i++)
            sum += fabsf(x[8 * b + i]);
        mask[b] = scale[b] * sum + bias[b] > 0;
    }
}

static ZN_DECL_PRUNED(pruned_c)
{
    int pixel[ZN_PRUNE_SIDE * ZN_PRUNE_SIDE]; /* at each place: -1 outside the image */

    for (int q = 0; q < ZN_PRUNE_SIDE * ZN_PRUNE_SIDE; q++)
        pixel[q] = -1;
    for (int i = 0; i < g->pixels; i++)
        pixel[g->place[i]] = i;
    for (int i = 0; i < g->pixels; i++)
        for (int c = 0; c < 8 * g->n && g->inner >> i & 1; c++) {
            float sum = 0;

            for (int t = 0; t < 9 && g->mask[i][c / 8] != 0; t++) {
                int near = pixel[g->place[i] + (t / 3 - 1) * ZN_PRUNE_SIDE + t % 3 - 1];

                if (near >= 0 && g->mask[near][c / 8] != 0)
                    sum += g->w[(size_t)t * g->w_tap + (size_t)c] * g->x[near][c];
            }
            g->y[i][c] = sum;
        }
}

float zn_stored_weight(const zn_stored *w, int k, int o)
{
    int pair = w->type == ZN_W_I4 ? 2 : 1; /* rows of an element */
    const char *q = (const char *)w->q + zn_wtype_size(w->type, 1) * ((size_t)(k / pair) * (size_t)w->ld + (size_t)o);
    float v[2];

    zn_dequantise(w->type, v, q,
                  zn_wtype_scaled(w->type) ? w->scale[(size_t)(k / ZN_W_GROUP) * (size_t)w->ld + (size_t)o] : 0, pair);
    return v[k % pair];
}

static ZN_DECL_EXPAND(expand_c)
{
    for (int k = part->from; k < part->end; k++)
        for (int o = 0; o < part->width; o++)
            to[(size_t)(k % part->taps) * part->tap + (size_t)((k - part->from) / part->taps * part->width + o)] =
                zn_stored_weight(w, k, o);
}

static ZN_DECL_TO_I8(to_i8_c)
{
    const int groups = (k + ZN_W_GROUP - 1) / ZN_W_GROUP;
    int8_t *q = tile;
    float *scale = (float *)(void *)(q + (size_t)groups * ZN_W_GROUP * (size_t)of);

    (void)type;
    for (int g = 0; g < groups; g++, x += ZN_W_GROUP, k -= ZN_W_GROUP) {
        int8_t group[ZN_W_GROUP] = { 0 };

        scale[g * of + row] = zn_quantise_input(group, x, k < ZN_W_GROUP ? k : ZN_W_GROUP);
        for (int i = 0; i < ZN_W_GROUP; i++)
            q[((size_t)(g * ZN_QUADS + i / 4) * (size_t)of + (size_t)row) * 4 + (size_t)(i % 4)] = group[i];
    }
}

/* Row k of output o of a panel; i4 and i8. */
static int panel_weight(const uint8_t *q, zn_wtype t, int vl, int k, int o)
{
    const int quad = k / 4;
    const uint8_t byte = q[((size_t)(t == ZN_W_I4 ? quad / 2 : quad) * (size_t)vl + (size_t)o) * 4 + (size_t)(k % 4)];

    return t == ZN_W_I8 ? (int8_t)byte : ((byte >> 4 * (quad % 2) & 15) ^ 8) - 8;
}

static ZN_DECL_DOT8(dot8_c)
{
    const int n = g->groups;

    for (int row = 0; row < g->rows; row++) {
        const int of = zn_dot8_tile(row, g->rows), at = row % of;
        const int8_t *x = (const int8_t *)g->x + (size_t)(row - at) * zn_dot8_row(n);
        const float *scale_x = (const float *)(const void *)(x + (size_t)n * ZN_W_GROUP * (size_t)of);

        for (int p = 0; p < g->panels; p++) {
            const uint8_t *group = (const uint8_t *)g->w + (size_t)p * zn_dot8_panel(g->type, n, 1);
            float acc = 0;

            for (int i = 0; i < n; i++, group += zn_dot8_panel(g->type, 1, 1)) {
                const int8_t *xg = x + (size_t)i * ZN_W_GROUP * (size_t)of;
                uint16_t scale;
                int32_t sum = 0;

                memcpy(&scale, group, sizeof scale);
                for (int k = 0; k < ZN_W_GROUP; k++)
                    sum += xg[(k / 4 * of + at) * 4 + k % 4] * panel_weight(group + sizeof scale, g->type, 1, k, 0);
                acc += (float)sum * (scale_x[i * of + at] * zn_from_f16(scale));
            }
            g->y[(size_t)row * g->y_ld + (size_t)p] = acc;
        }
    }
}

const zn_kernels zn_kernels_scalar = {
    .vl = 1,
    .mr = 1,
    .nr = 16, /* a line of stored weights */
    .expand = expand_c,
    .to_i8 = to_i8_c,
    .dot8 = { { dot8_c, ZN_DOT8_ROWS } },
    .map = map_c,
    .binary = binary_c,
    .moment = moment_c,
    .norm_row = norm_row_c,
    .maximum = maximum_c,
    .exp_sum = exp_sum_c,
    .average = average_c,
    .rope = rope_c,
    .step = step_c,
    .fwht = fwht_c,
    .fwht_row = fwht_row_c,
    .transpose = transpose_c,
    .shuffle2 = shuffle2_c,
    .mix_row = mix_row_c,
    .slm_row = slm_row_c,
    .mask_row = mask_row_c,
    .pruned = pruned_c,
    .peak = peak_c,
};
