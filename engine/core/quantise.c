/* SPDX-License-Identifier: MIT */
#include "quantise.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "tensor.h"

/* A group's integers and its scale, an f16; n is constant for a whole group.  Magnitudes are compared as their bits,
 * which have the same order, so that compilers make vectors of the loops; a NaN counts as 0.  Adding and subtracting 1.5 * 2^23
 * rounds to the nearest, ties to even. */
static inline uint16_t round_group(int8_t *q, const float *w, const int n, const float top)
{
    const uint32_t sign = 0x80000000, infinite = 0x7f800000;
    const float magic = 0x1.8p23f;
    uint32_t bits[ZN_W_GROUP], limit, most = 0;
    float v[ZN_W_GROUP], max, s;
    uint16_t scale;

    memcpy(bits, w, (size_t)(n < ZN_W_GROUP ? n : ZN_W_GROUP) * sizeof *w);
    for (int i = 0; i < n; i++)
        bits[i] = (bits[i] & ~sign) > infinite ? 0 : bits[i] & ~sign;
    for (int i = 0; i < n; i++)
        most = bits[i] > most ? bits[i] : most;
    memcpy(&max, &most, sizeof max);
    scale = zn_to_f16(max / top);
    s = zn_from_f16(scale) > 0 ? zn_from_f16(scale) : INFINITY; /* all become 0 */
    for (int i = 0; i < n; i++)
        v[i] = w[i] / s;
    memcpy(bits, v, (size_t)n * sizeof *v);
    memcpy(&limit, &top, sizeof limit);
    for (int i = 0; i < n; i++) {
        uint32_t mag = (bits[i] & ~sign) > infinite ? 0 : bits[i] & ~sign;

        mag = mag < limit ? mag : limit;
        bits[i] = mag | (bits[i] & sign);
    }
    memcpy(v, bits, (size_t)n * sizeof *v);
    for (int i = 0; i < n; i++)
        q[i] = (int8_t)(int32_t)(v[i] + magic - magic);
    return scale;
}

static uint16_t quantise_i8(uint8_t *to, const float *w, int n)
{
    return n == ZN_W_GROUP ? round_group((int8_t *)to, w, ZN_W_GROUP, 127) : round_group((int8_t *)to, w, n, 127);
}

static uint16_t quantise_i4(uint8_t *to, const float *w, int n)
{
    int8_t q[ZN_W_GROUP] = { 0 };
    const uint16_t scale = n == ZN_W_GROUP ? round_group(q, w, ZN_W_GROUP, 7) : round_group(q, w, n, 7);

    for (int i = 0; i < n; i += 2)
        to[i / 2] = (uint8_t)((q[i] + 8) | (q[i + 1] + 8) << 4);
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

uint8_t zn_to_e4m3(float x)
{
    uint32_t bits;
    uint8_t sign;

    memcpy(&bits, &x, sizeof bits);
    sign = bits >> 24 & 0x80;
    bits &= 0x7fffffff;
    if (bits >= 0x43e00000) /* 448 */
        return sign | (bits > 0x7f800000 ? 0x7f : 0x7e);
    if (bits < 0x3c800000) /* below 2^-6 all values are multiples of 2^-9 */
        return sign | (uint8_t)lrintf(fabsf(x) * 512);
    return sign | (uint8_t)(((bits + 0x7ffff + (bits >> 20 & 1)) >> 20) - (120 << 3));
}

int zn_e4m3_exponent(const float *w, size_t n)
{
    float top = 0;

    for (size_t i = 0; i < n; i++)
        top = fmaxf(top, fabsf(w[i]));
    if (!(top > 0x1p-100f) || !isfinite(top))
        return 0;
    return ilogbf(top) - 8 + (ldexpf(top, 8 - ilogbf(top)) > 448);
}
