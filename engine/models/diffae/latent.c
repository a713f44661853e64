/* SPDX-License-Identifier: MIT */
/* latent.c - the latent network of the diffusion autoencoder: predicts the noise of a noisy code, to draw new codes.
 *
 *   x ── layer 0 ── layer 1 ── ... ── layer n-1 ── y       every layer but the first also reads x
 *   layer:  SiLU(norm(linear(h) * (1 + linear_emb(SiLU(c))))),  c = second(SiLU(first(embedding of t)))
 *   the last layer is linear alone
 *
 * Several codes lie one below the other.  As with the U-Net, what follows from the time step is one matrix for all layers. */
#include "diffae.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_LAYERS = 64,
    USUAL_LAYERS = 6,
    USUAL_WIDTH = 512,
    USUAL_CODE = 512,
    USUAL_DIM = 64
}; /* usual: without a file */

typedef struct layer {
    zn_conv linear;
    zn_norm norm;  /* not of the last */
    int at;        /* its first channel in a row of scales */
    zn_conv scale; /* for an outline: embed to the width, what it makes of the time without the 1 */
} layer;

typedef struct latent {
    int dim, embed, code, n_layers, sum;
    zn_prediction prediction; /* the metadata's latent_prediction */
    float *mean, *deviation;  /* of the codes that it was trained on, [code]; NULL: the file does not say */
    zn_diffae_times times;    /* last: embed to sum; its bias has the 1 of 1 + s in it */
    layer layer[MAX_LAYERS];
} latent;

static bool recognise(const zn_weights *w, char *what, size_t size)
{
    return zn_diffae_tells(ZN_DIFFAE_IS_LATENT, w, what, size);
}

/* ---- bind ---------------------------------------------------------------------------------------------- */

static void bind_scales(zn_binder *b, latent *m, const char *prefix)
{
    const size_t sum = (size_t)m->sum, embed = (size_t)m->embed;
    float *weight = malloc(sum * embed * sizeof *weight), *bias = malloc(sum * sizeof *bias);

    if (!b->status && (!weight || !bias))
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for the layers of the time step");
    for (int i = 0; !b->status && i < m->n_layers - 1; i++) {
        layer *l = &m->layer[i];
        const int width = l->linear.cout;

        if (b->outline) {
            zn_bind_conv(b, &l->scale, zn_conv_same(1, m->embed, width), "%slatent_net.layers.%d.linear_emb", prefix,
                         i);
            continue;
        }
        float *w = zn_bind_read(b, (int[5]){ width, m->embed }, "%slatent_net.layers.%d.linear_emb.weight", prefix, i);
        float *v = zn_bind_read(b, (int[5]){ width }, "%slatent_net.layers.%d.linear_emb.bias", prefix, i);

        if (!b->status)
            memcpy(weight + (size_t)l->at * embed, w, (size_t)width * embed * sizeof *w);
        for (int j = 0; !b->status && j < width; j++)
            bias[l->at + j] = v[j] + 1;
        free(w);
        free(v);
    }
    if (!b->status && !b->outline)
        zn_bind_pack(b, &m->times.last, zn_conv_same(1, m->embed, m->sum), weight, bias);
    free(weight);
    free(bias);
}

/* [code], or [1][code] as in the published files. */
static float *bind_statistics(zn_binder *b, int code, const char *name)
{
    const bool row = zn_bind_dim(b, 0, "%s", name) == 1 && code > 1;
    float *host = zn_bind_read(b, row ? (int[5]){ 1, code } : (int[5]){ code }, "%s", name);
    float *device = host ? zn_bind_device(b, host, (size_t)code * sizeof *host) : NULL;

    free(host);
    return device;
}

static void bind(zn_binder *b, void *net)
{
    latent *m = net;
    const char *prefix = zn_diffae_prefix(b->w);
    char name[96];
    int width;

    m->prediction = zn_diffae_find_prediction(b, "latent_prediction");
    if (m->prediction == ZN_N_PREDICTIONS) {
        zn_bind_fail(b, "the metadata's latent_prediction is none of eps, v, x0");
        return;
    }
    m->dim = b->w ? zn_bind_dim(b, 1, "%slatent_net.time_embed.0.weight", prefix) : USUAL_DIM;
    m->embed = b->w ? zn_bind_dim(b, 0, "%slatent_net.time_embed.0.weight", prefix) : USUAL_WIDTH;
    m->code = b->w                  ? zn_bind_dim(b, 1, "%slatent_net.layers.0.linear.weight", prefix)
        : b->outline && b->size > 0 ? b->size
                                    : USUAL_CODE;
    m->n_layers = b->w ? 0 : USUAL_LAYERS;
    while (m->n_layers < MAX_LAYERS && zn_bind_has(b, "%slatent_net.layers.%d.linear.weight", prefix, m->n_layers))
        m->n_layers++;
    if (m->n_layers < 2 || m->dim < 2 || m->embed < 1 || m->code < 1 || m->dim > ZN_DIFFAE_MAX_C ||
        m->embed > ZN_DIFFAE_MAX_C || m->code > ZN_DIFFAE_MAX_C) {
        zn_bind_fail(b, "these are not the weights of a diffusion autoencoder's latent network");
        return;
    }
    snprintf(b->variant, sizeof b->variant, "latent network of %d layers, code of %d numbers", m->n_layers, m->code);
    snprintf(name, sizeof name, "%slatent_net.time_embed", prefix);
    zn_diffae_bind_times(b, &m->times, m->dim, m->embed, name);
    width = 0;
    for (int i = 0; !b->status && i < m->n_layers; i++) {
        layer *l = &m->layer[i];
        const bool last = i + 1 == m->n_layers;
        const int cout = b->w ? zn_bind_dim(b, 0, "%slatent_net.layers.%d.linear.weight", prefix, i)
            : last            ? m->code
                              : USUAL_WIDTH;

        if (cout < 1 || cout > ZN_DIFFAE_MAX_C || (last && cout != m->code)) {
            zn_bind_fail(b, "the widths of the latent network make no sense");
            return;
        }
        zn_bind_conv(b, &l->linear, zn_conv_same(1, width + m->code, cout), "%slatent_net.layers.%d.linear", prefix, i);
        if (!last)
            zn_bind_norm(b, &l->norm, (zn_norm){ .kind = ZN_LAYER_NORM, .c = cout, .eps = 1e-5f },
                         "%slatent_net.layers.%d.norm", prefix, i);
        l->at = m->sum;
        m->sum += last ? 0 : cout;
        width = cout;
    }
    bind_scales(b, m, prefix);
    if (zn_bind_has(b, "conds_mean") && zn_bind_has(b, "conds_std") && !b->outline) {
        m->mean = bind_statistics(b, m->code, "conds_mean");
        m->deviation = bind_statistics(b, m->code, "conds_std");
    }
}

zn_prediction zn_diffae_latent_prediction(const void *net)
{
    return ((const latent *)net)->prediction;
}

bool zn_diffae_latent_statistics(const void *net, zn_tensor *mean, zn_tensor *deviation)
{
    const latent *m = net;

    *mean = (zn_tensor){ m->mean, 1, 1, 1, m->code, m->code, ZN_F32 };
    *deviation = (zn_tensor){ m->deviation, 1, 1, 1, m->code, m->code, ZN_F32 };
    return m->mean && m->deviation;
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* to *= 1 + what layer i makes of the time; scales of all layers, or what they are made of. */
static void scale(zn_ctx *c, const latent *m, int i, zn_tensor to, zn_tensor scales)
{
    const layer *l = &m->layer[i];
    zn_tensor s;

    if (!l->scale.packed) {
        zn_combine(c, to, to, zn_slice(scales, l->at, to.c), ZN_MUL, (zn_tail){ 0 });
        return;
    }
    s = zn_new(c, to.n, to.h, to.w, to.c);
    zn_conv2d(c, s, scales, &l->scale, (zn_tail){ 0 });
    zn_combine(c, to, to, s, ZN_MUL, (zn_tail){ .residual = &to });
}

static void predict(zn_ctx *c, const latent *m, zn_tensor y, zn_tensor x, zn_tensor scales)
{
    const size_t mark = zn_mark(c->arena);
    zn_tensor in = x;

    for (int i = 0; i < m->n_layers; i++) {
        const layer *l = &m->layer[i];
        const int cout = l->linear.cout;
        zn_tensor cat, to;

        if (i + 1 == m->n_layers) {
            zn_conv2d(c, y, in, &l->linear, (zn_tail){ 0 });
            break;
        }
        cat = zn_new(c, x.n, x.h, x.w, cout + m->code); /* the next layer's input */
        to = zn_slice(cat, 0, cout);
        zn_conv2d(c, to, in, &l->linear, (zn_tail){ 0 });
        scale(c, m, i, to, scales);
        zn_normalise(c, to, to, &l->norm, (zn_tail){ .pre = ZN_SILU });
        zn_map(c, zn_slice(cat, cout, m->code), x, (zn_tail){ 0 });
        in = cat;
    }
    zn_reset(c->arena, mark);
}

static bool shape(const void *net, const zn_tensor *in, int n_in, zn_tensor *out)
{
    const latent *m = net;

    if (n_in != 2 || in[0].w != 1 || in[0].c != m->code || in[1].h != 1 || in[1].w != 1 || in[1].c != 1)
        return false;
    out[0] = in[0];
    return true;
}

int zn_diffae_latent_row(const void *net)
{
    return ((const latent *)net)->sum;
}

static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    const latent *m = net;
    zn_tensor scales = call->in[1];

    if (call->n_in == 1) { /* what the time steps give, for later calls */
        zn_diffae_run_times(c, &m->times, call->out[0], call->in[0]);
        return;
    }
    if (m->layer[0].scale.packed) { /* training: in[1] is the embedding */
        scales = zn_new(c, 1, 1, 1, m->embed);
        zn_diffae_run_embedding(c, &m->times, scales, call->in[1]);
    } else if (scales.c == 1) {
        scales = zn_new(c, 1, 1, 1, m->sum);
        zn_diffae_run_times(c, &m->times, scales, call->in[1]);
    }
    predict(c, m, call->out[0], call->in[0], scales);
}

static int example(const void *net, int w, int h, zn_tensor *in)
{
    const latent *m = net;

    (void)w, (void)h;
    in[0] = (zn_tensor){ .n = 1, .h = 1, .w = 1, .c = m->code };
    in[1] = (zn_tensor){ .n = 1, .h = 1, .w = 1, .c = 1 };
    return 2;
}

static const zn_coded coded = { ZN_DIFFAE_STEPS, USUAL_DIM, zn_diffae_embed, zn_diffae_prefix };

const zn_arch zn_arch_diffae_latent_net = {
    .info = { .id = "diffae-latent-net",
              .summary = "a noisy code and its time step to the noise: one call of the latent network",
              .in = { "z", "t" },
              .out = { "eps" },
              .weights = "zenith-face" },
    .size = sizeof(latent),
    .recognise = recognise,
    .bind = bind,
    .forward = forward,
    .shape = shape,
    .example = example,
    .coded = &coded,
};
