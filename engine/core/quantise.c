/* SPDX-License-Identifier: MIT */
#include "quantise.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "tensor.h"

/* The scale of a group whose largest magnitude becomes `top`. */
static uint16_t scale_of(const float *w, int n, int top)
{
    float max = 0;

    for (int i = 0; i < n; i++)
        max = fabsf(w[i]) > max ? fabsf(w[i]) : max;
    return zn_to_f16(max / (float)top);
}

static int quantise_one(float w, float scale, int top)
{
    float v = scale > 0 ? w / scale : 0;

    return v >= (float)top ? top : v <= (float)-top ? -top : v == v ? (int)lrintf(v) : 0;
}

static uint16_t quantise_i8(uint8_t *q, const float *w, int n)
{
    const uint16_t scale = scale_of(w, n, 127);

    for (int i = 0; i < n; i++)
        q[i] = (uint8_t)quantise_one(w[i], zn_from_f16(scale), 127);
    return scale;
}

static uint16_t quantise_i4(uint8_t *q, const float *w, int n)
{
    const uint16_t scale = scale_of(w, n, 7);

    for (int i = 0; i < n; i += 2) {
        int low = quantise_one(w[i], zn_from_f16(scale), 7) + 8;
        int high = i + 1 < n ? quantise_one(w[i + 1], zn_from_f16(scale), 7) + 8 : 8;

        q[i / 2] = (uint8_t)(low | high << 4);
    }
    return scale;
}

uint16_t zn_quantise(zn_wtype t, void *q, const float *w, int n)
{
    assert(n <= ZN_W_GROUP);
    switch (t) {
    case ZN_W_F16:
    case ZN_W_BF16:
        for (int i = 0; i < n; i++) {
            uint16_t v = t == ZN_W_F16 ? zn_to_f16(w[i]) : zn_to_bf16(w[i]);

            memcpy((char *)q + 2 * i, &v, sizeof v);
        }
        return 0;
    case ZN_W_I8:
        return quantise_i8(q, w, n);
    case ZN_W_I4:
        return quantise_i4(q, w, n);
    default:
        memcpy(q, w, (size_t)n * sizeof *w);
        return 0;
    }
}

void zn_dequantise(zn_wtype t, float *w, const void *q, uint16_t scale, int n)
{
    const uint8_t *byte = q;
    const float s = zn_from_f16(scale);

    for (int i = 0; i < n; i++) {
        uint16_t v;

        switch (t) {
        case ZN_W_F16:
        case ZN_W_BF16:
            memcpy(&v, byte + 2 * i, sizeof v);
            w[i] = t == ZN_W_F16 ? zn_from_f16(v) : zn_from_bf16(v);
            break;
        case ZN_W_I8:
            w[i] = (float)(int8_t)byte[i] * s;
            break;
        case ZN_W_I4:
            w[i] = (float)((byte[i / 2] >> 4 * (i % 2) & 15) - 8) * s;
            break;
        default:
            memcpy(w + i, byte + 4 * i, sizeof *w);
        }
    }
}

float zn_quantise_input(int8_t *q, const float *x, int n)
{
    float max = 0, times;

    for (int i = 0; i < n; i++)
        max = fabsf(x[i]) <= max || max != max ? max : fabsf(x[i]); /* NaN sticks */
    times = max > 1e-30f ? 127 / max : 0;
    for (int i = 0; i < n; i++) {
        const float v = x[i] * times;

        q[i] = (int8_t)(v == v ? lrintf(v) : 0);
    }
    return max / 127;
}
