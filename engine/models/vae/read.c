/* SPDX-License-Identifier: MIT */
/* read.c - the weights of a convolution, of one tap in time where it has several: see vae.h. */
#include "vae.h"

#include <string.h>

/* [rows][cin][kh][kw] of one tap in time; the last one if tap is -1. */
static float *read_tap(zn_binder *b, zn_conv spec, int tap, const char *name)
{
    const int taps = zn_bind_dim(b, 4, "%s.weight", name) ? zn_bind_dim(b, 2, "%s.weight", name) : 0;
    int rows = zn_bind_dim(b, 0, "%s.weight", name);
    const size_t each = (size_t)spec.kh * (size_t)spec.kw;
    float *w;

    rows = rows > spec.cout && rows <= ZN_VAE_MAX_C ? rows : spec.cout;
    if (taps > 3 || tap >= (taps ? taps : 3)) {
        zn_bind_fail(b, "'%s' has %d taps in time where 1 or 3 are known", name, taps);
        return NULL;
    }
    w = taps ? zn_bind_read5(b, (int[]){ rows, spec.cin, taps, spec.kh, spec.kw }, "%s.weight", name)
             : zn_bind_read(b, (int[]){ rows, spec.cin, spec.kh, spec.kw }, "%s.weight", name);
    tap = tap < 0 ? taps - 1 : tap;
    for (size_t i = 0; taps > 1 && !b->status && !b->counting && i < (size_t)rows * (size_t)spec.cin; i++)
        memmove(w + i * each, w + (i * (size_t)taps + (size_t)tap) * each, each * sizeof *w);
    return w;
}

float *zn_vae_read_tap(zn_binder *b, float **bias, zn_conv spec, int tap, const char *name)
{
    const int rows = zn_bind_dim(b, 0, "%s.weight", name);
    float *w = read_tap(b, spec, tap, name);

    if (bias)
        *bias =
            zn_bind_read(b, (int[4]){ rows > spec.cout && rows <= ZN_VAE_MAX_C ? rows : spec.cout }, "%s.bias", name);
    return w;
}

float *zn_vae_read_conv(zn_binder *b, float **bias, zn_conv spec, const char *name)
{
    return zn_vae_read_tap(b, bias, spec, -1, name);
}
