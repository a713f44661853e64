/* SPDX-License-Identifier: MIT */
/* posterior.c - what an encoder's last convolution gives is a mean and the logarithm of a variance for each number of the
 * latent.  The latent is the mean, or a draw:
 *
 *     z = mean + exp(clamp(logvar, -30, 20) / 2) * noise
 *
 * There is no operation exp.  Where e is far below 0, sigmoid(e) is exp(e) to the last bit of a float, so that
 * exp(v) = exp(FAR) sigmoid(v - FAR). */
#include "vae.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST (-30.0)
#define MOST 20.0
#define HALF                                                                                                           \
    ((MOST - LEAST) / 2) /* the clamp of the document is HALF * clamp((logvar - MIDDLE) / HALF, -1, 1) + MIDDLE */
#define MIDDLE ((MOST + LEAST) / 2)
#define FAR 60.0

/* The convolution gives (logvar - MIDDLE) / HALF. */
static void bind_spread(zn_binder *b, zn_vae_spread *s, zn_conv spec, const float *weight, const float *bias,
                        const float *deviation)
{
    const size_t z = (size_t)spec.cout, each = (size_t)spec.cin * (size_t)spec.kh * (size_t)spec.kw;
    float *scaled = b->status ? NULL : malloc(z * (each + 1) * sizeof *scaled), *offset = scaled + z * each;

    if (!b->status && !scaled)
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory");
    if (b->status)
        return;
    for (size_t i = 0; i < z * each; i++)
        scaled[i] = weight[i] / (float)HALF;
    for (size_t i = 0; i < z; i++) {
        offset[i] = (float)(((double)bias[i] - MIDDLE) / HALF);
        s->exponent[i] = (float)(MIDDLE / 2 - FAR - (deviation ? log((double)deviation[i]) : 0));
    }
    zn_bind_pack(b, &s->conv, spec, scaled, offset);
    free(scaled);
}

void zn_vae_bind_moments(zn_binder *b, zn_conv *mean, zn_vae_spread *s, zn_conv spec, const float *shift,
                         const float *deviation, const char *name)
{
    const int z = spec.cout;
    const size_t each = (size_t)spec.cin * (size_t)spec.kh * (size_t)spec.kw;
    float *weight, *bias = NULL;
    zn_conv both = spec;

    if (b->status)
        return;
    spec.many_pixels = both.many_pixels = true;
    both.cout = 2 * z;
    if (b->outline) {
        zn_bind_conv(b, mean, both, "%s", name);
        return;
    }
    weight = zn_vae_read_conv(b, &bias, both, name);
    for (size_t i = 0; shift && !b->status && i < (size_t)z; i++) {
        for (size_t j = 0; j < each; j++)
            weight[i * each + j] /= deviation[i];
        bias[i] = (bias[i] - shift[i]) / deviation[i];
    }
    if (!b->status)
        zn_bind_pack(b, mean, spec, weight, bias);
    if (!b->status && s)
        bind_spread(b, s, spec, weight + (size_t)z * each, bias + z, deviation);
    free(weight);
    free(bias);
}

void zn_vae_draw(zn_vae_run *r, const zn_vae_spread *s, float scale)
{
    const zn_tensor y = r->call->out[0];
    zn_tensor u, exponent;

    if (r->call->n_in < 2)
        return;
    u = zn_new_of(r->c, ZN_F32, y.n, y.h, y.w, y.c);
    exponent = zn_new_of(r->c, ZN_F32, y.n, y.h, y.w, y.c);
    zn_conv2d(r->c, u, r->x, &s->conv, (zn_tail){ .pre = ZN_CLAMP });
    zn_fill(r->c, exponent, s->exponent);
    zn_map(r->c, u, u, (zn_tail){ .gain = (float)(HALF / 2), .residual = &exponent, .post = ZN_SIGMOID });
    zn_combine(r->c, y, u, r->call->in[1], ZN_MUL, (zn_tail){ .gain = scale * (float)exp(FAR), .residual = &y });
}
