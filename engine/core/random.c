/* SPDX-License-Identifier: MIT */
#include "random.h"

#include <math.h>

static uint64_t mix64(uint64_t x) /* the finaliser of splitmix64 */
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

double zn_uniform(uint64_t seed, uint64_t stream, uint64_t i)
{
    uint64_t x = mix64(seed + 0x9e3779b97f4a7c15u) ^ mix64(stream * 0xd1342543de82ef95u + 1);

    return (double)(mix64(x + (i + 1) * 0x9e3779b97f4a7c15u) >> 11) * 0x1p-53;
}

double zn_normal(uint64_t seed, uint64_t stream, uint64_t i)
{
    double u = 1 - zn_uniform(seed, stream, 2 * i), v = zn_uniform(seed, stream, 2 * i + 1);

    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

void zn_noise_fill(float *dst, size_t n, uint64_t seed, uint64_t stream)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)zn_normal(seed, stream, i);
}
