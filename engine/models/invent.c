/* SPDX-License-Identifier: MIT */
/* invent.c - made-up weights: a function of a tensor's name and shape alone. */
#include "arch.h"

#include <math.h>
#include <string.h>

/* Uniform in -1..1. */
static float draw(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(*seed >> 32) * (1.0f / 2147483648.0f);
}

/* Weights have the variance 1 / fan-in.  Of vectors, a norm's weights are near 1, all others near 0. */
void zn_make_up(float *x, const char *name, const int *shape, int n_dims)
{
    const size_t end = strlen(name);
    const bool gain = n_dims == 1 &&
        ((end > 7 && !strcmp(name + end - 7, ".weight")) || (end > 6 && !strcmp(name + end - 6, ".gamma")));
    uint64_t seed = 1469598103934665603u; /* FNV-1a of the name */
    size_t fan_in = 1;
    float scale;

    for (size_t i = 0; i < end; i++)
        seed = (seed ^ (unsigned char)name[i]) * 1099511628211u;
    for (int i = 1; i < n_dims; i++)
        fan_in *= (size_t)shape[i];
    scale = n_dims > 1 ? sqrtf(3.0f / (float)fan_in) : 0.1f;
    for (size_t i = 0; i < (size_t)shape[0] * fan_in; i++)
        x[i] = (gain ? 1.0f : 0.0f) + scale * draw(&seed);
}
