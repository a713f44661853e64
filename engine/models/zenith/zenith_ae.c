/* SPDX-License-Identifier: MIT */
/* zenith_ae.c - the autoencoders of the second Zenith document: zenith-ae (ZenithHierarchicalAE) and
 * zenith-prune, the same with SLM gates.  docs/zenith.md explains them.
 *
 *   x ── conv 2x2/2 ── unshuffle 4 ── block 1 ── unshuffle 4 ── gate 1, block 2 ── gate 2, block 3 ──┐
 *   (3)     (b)          (16 b)                     (256 b)                                          │
 *   y ── conv 3x3 ── shuffle 2 ── shuffle 4 ── shuffle 4 ────────────────────────────────────────────┘
 *
 *   block:  y = GN(ReLU(H mix(scale * slm(H eyes(x)))))    H: Walsh-Hadamard transform of a pixel's channels
 *     eyes: depthwise 3x3 without bias; behind a gate, channels that are shut are neither read nor computed
 *     slm:  a gate on each spectral coefficient from its neighbours; in zenith-prune's blocks 2 and 3 only
 *     mix:  each spectral coefficient with its two neighbours;   GN: 32 groups (or 1), after the ReLU
 *   gate:   shuts blocks of 8 channels of a pixel whose sum of |x| is too small
 * At 1/32 of the size there are 256 b channels: from b = 16 on, more elements than the picture has.
 *
 * Extension, by metadata "residual" = "1":  y = x + block(x) in every block, and the picture is added to the
 * result.  The statistics of GN run over the whole picture: no tiles. */
#include "../arch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 3, SLM = 5, MIX = 3, FIRST = 16, LAST = 256, STEP = 32, USUAL_BASE = 32 /* the document's */ };

typedef struct block {
    int c;
    zn_conv eyes;     /* block 1 */
    zn_pruned pruned; /* blocks 2 and 3 */
    zn_fwht spectrum;
    zn_norm norm;
} block;

typedef struct zenith_ae {
    int base;
    bool slm, residual;
    zn_conv stem, out;
    block block[BLOCKS];
} zenith_ae;

/* ---- bind ---------------------------------------------------------------------------------------------- */

static bool recognise(const zn_weights *w, bool slm, char *what, size_t size)
{
    const zn_entry *stem = zn_weights_get(w, "stem.weight");

    if (!stem || !zn_weights_get(w, "gate1.scale") || !zn_weights_get(w, "block1.spectral_scale") ||
        (zn_weights_get(w, "block2.slm.weight") != NULL) != slm)
        return false;
    snprintf(what, size, "%s, base %d", slm ? "zenith-prune" : "zenith-ae",
             stem->n_dims == 4 ? (int)stem->shape[0] : 0);
    return true;
}

/* eyes.weight [c][1][3][3] becomes [9][c] behind the gate. */
static void bind_pruned(zn_binder *b, block *k, int i)
{
    size_t n = (size_t)k->c;
    float *eyes, *scale, *bias, *taps = malloc(9 * n * sizeof *taps);

    eyes = zn_bind_read(b, (int[4]){ k->c, 1, 3, 3 }, "block%d.eyes.weight", i + 1);
    zn_bind_init(b, ZN_INIT_CONSTANT, 1);
    scale = zn_bind_read(b, (int[4]){ k->c / 8 }, "gate%d.scale", i);
    bias = zn_bind_read(b, (int[4]){ k->c / 8 }, "gate%d.bias", i);
    if (!taps)
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for the weights");
    for (size_t j = 0; !b->status && j < 9 * n; j++)
        taps[j] = eyes[j % n * 9 + j / n];
    k->pruned = (zn_pruned){ .c = k->c };
    k->pruned.weight = zn_bind_made(b, taps, 9 * n * sizeof *taps, "block%d.eyes.weight", i + 1);
    k->pruned.scale = zn_bind_made(b, scale, n / 8 * sizeof *scale, "gate%d.scale", i);
    k->pruned.bias = zn_bind_made(b, bias, n / 8 * sizeof *bias, "gate%d.bias", i);
    free(eyes);
    free(scale);
    free(bias);
    free(taps);
}

/* The scale is multiplied into the mixer:  mix[t][j] * scale[j + t - 1]. */
static void bind_mixer(zn_binder *b, block *k, int i)
{
    float *scale, *mix;

    zn_bind_init(b, ZN_INIT_CONSTANT, 1.0 / k->c);
    scale = zn_bind_read(b, (int[4]){ k->c }, "block%d.spectral_scale", i + 1);
    zn_bind_init(b, ZN_INIT_MIDDLE, 0);
    mix = zn_bind_read(b, (int[4]){ MIX, k->c }, "block%d.mixer", i + 1);
    for (int t = 0; t < MIX && !b->status; t++)
        for (int j = 0; j < k->c; j++) {
            int from = j + t - 1;

            mix[t * k->c + j] *= from >= 0 && from < k->c ? scale[from] : 0;
        }
    if (b->outline) /* apart, to be trained */
        k->spectrum.gate = zn_bind_made(b, scale, (size_t)k->c * sizeof *scale, "block%d.spectral_scale", i + 1);
    k->spectrum.mix = zn_bind_made(b, mix, (size_t)(MIX * k->c) * sizeof *mix, "block%d.mixer", i + 1);
    free(scale);
    free(mix);
}

/* slm.weight [c][5] and slm.bias [c] become [7][c]: taps, their norm, the bias. */
static void bind_slm(zn_binder *b, block *k, int i)
{
    int n = k->c;
    float *w, *bias, *slm = malloc((size_t)n * (SLM + 2) * sizeof *slm);

    zn_bind_init(b, ZN_INIT_NORMAL, 0.632455532); /* sqrt(2 / SLM) */
    w = zn_bind_read(b, (int[4]){ n, SLM }, "block%d.slm.weight", i + 1);
    zn_bind_init(b, ZN_INIT_CONSTANT, -1);
    bias = zn_bind_read(b, (int[4]){ n }, "block%d.slm.bias", i + 1);
    if (!slm)
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for the weights");
    for (int j = 0; j < n && !b->status; j++) {
        double sum = 1e-8;

        for (int t = 0; t < SLM; t++) {
            slm[t * n + j] = w[j * SLM + t];
            sum += (double)w[j * SLM + t] * (double)w[j * SLM + t];
        }
        slm[SLM * n + j] = (float)sqrt(sum);
        slm[(SLM + 1) * n + j] = bias[j];
    }
    k->spectrum.slm = zn_bind_made(b, slm, (size_t)n * (SLM + 2) * sizeof *slm, "block%d.slm.weight", i + 1);
    free(w);
    free(bias);
    free(slm);
}

static void bind(zn_binder *b, zenith_ae *m, bool slm)
{
    const char *residual = zn_bind_meta(b, "residual");
    int base = b->w ? zn_bind_dim(b, 0, "stem.weight") : b->base ? b->base : USUAL_BASE;

    if (b->w && !recognise(b->w, slm, b->variant, sizeof b->variant)) {
        zn_bind_fail(b, "these are not the weights of %s", slm ? "zenith-prune" : "zenith-ae");
        return;
    }
    if (base < 4 || base & (base - 1) || LAST * base > ZN_FWHT_MAX) {
        zn_bind_fail(b, "the base of %d is not a power of two from 4 to %d", base, ZN_FWHT_MAX / LAST);
        return;
    }
    m->base = base;
    m->slm = slm;
    m->residual = residual && !strcmp(residual, "1");
    zn_bind_init(b, ZN_INIT_GAIN, 2);
    zn_bind_conv(b, &m->stem, (zn_conv){ .kh = 2, .kw = 2, .stride = 2, .cin = 3, .cout = base, .has_bias = true },
                 "stem");
    for (int i = 0; i < BLOCKS; i++) {
        block *k = &m->block[i];

        k->c = (i ? LAST : FIRST) * base;
        /* As in the reference, N(0, 2 / 9c).  In the residual form, whose blocks begin with a gain of 0, large enough to
         * carry a signal. */
        zn_bind_init(b, ZN_INIT_NORMAL, sqrt(2.0 / (m->residual ? 9.0 : 9.0 * k->c)));
        k->spectrum = (zn_fwht){ .axis = ZN_ALONG_C, .n = k->c, .act = ZN_RELU };
        if (i) {
            bind_pruned(b, k, i);
        } else {
            zn_conv eyes = zn_conv_same(3, k->c, k->c);

            eyes.groups = k->c;
            eyes.has_bias = false;
            zn_bind_conv(b, &k->eyes, eyes, "block1.eyes");
        }
        bind_mixer(b, k, i);
        if (i && slm)
            bind_slm(b, k, i);
        zn_bind_init(b, ZN_INIT_CONSTANT, m->residual ? 0 : 1);
        zn_bind_norm(b, &k->norm,
                     (zn_norm){ .kind = ZN_GROUP_NORM, .c = k->c, .groups = k->c % 32 ? 1 : 32, .eps = 1e-5f },
                     "block%d.norm", i + 1);
    }
    zn_bind_init(b, ZN_INIT_GAIN, m->residual ? 0 : 2);
    zn_bind_conv(b, &m->out, zn_conv_same(3, base / 4, 3), "out");
    b->geometry =
        (zn_geometry){ .in_c = 3, .out_c = 3, .shrink = 1, .grow = 1, .multiple = STEP, .padded = true, .halo = -1 };
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* x = block(x) */
static void run_block(zn_ctx *c, const block *k, zn_tensor x, bool residual)
{
    size_t mark = zn_mark(c->arena);
    zn_tensor seen = zn_new(c, 1, x.h, x.w, x.c);

    if (k->pruned.c)
        zn_prune(c, seen, zn_new(c, 1, x.h, x.w, x.c / 8), x, &k->pruned);
    else
        zn_conv2d(c, seen, x, &k->eyes, (zn_tail){ 0 });
    zn_transform(c, seen, seen, &k->spectrum);
    zn_normalise(c, x, seen, &k->norm, (zn_tail){ .residual = residual ? &x : NULL });
    zn_reset(c->arena, mark);
}

static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    const zenith_ae *m = net;
    zn_tensor in = call->in[0];
    zn_tensor half = zn_new(c, 1, in.h / 2, in.w / 2, m->base), eighth, last, y;

    zn_conv2d(c, half, in, &m->stem, (zn_tail){ 0 });
    eighth = zn_new(c, 1, in.h / 8, in.w / 8, FIRST * m->base);
    zn_unshuffle(c, eighth, half, 4);
    run_block(c, &m->block[0], eighth, m->residual);
    last = zn_new(c, 1, in.h / STEP, in.w / STEP, LAST * m->base);
    zn_unshuffle(c, last, eighth, 4);
    run_block(c, &m->block[1], last, m->residual);
    run_block(c, &m->block[2], last, m->residual);
    zn_shuffle(c, eighth, last, 4, (zn_tail){ 0 });
    zn_shuffle(c, half, eighth, 4, (zn_tail){ 0 });
    y = zn_new(c, 1, in.h, in.w, m->base / 4);
    zn_shuffle(c, y, half, 2, (zn_tail){ 0 });
    zn_conv2d(c, call->out[0], y, &m->out, (zn_tail){ .residual = m->residual ? &in : NULL });
}

/* ---- training ------------------------------------------------------------------------------------------ */

static const zn_training training = { .tasks = ZN_TASK_RESTORE | ZN_TASK_RECONSTRUCT };

/* ---- the two models ------------------------------------------------------------------------------------ */

#define ZENITH_AE(name_, id_, slm_, summary_)                                                                          \
    static bool recognise_##name_(const zn_weights *w, char *what, size_t size)                                        \
    {                                                                                                                  \
        return recognise(w, slm_, what, size);                                                                         \
    }                                                                                                                  \
    static void bind_##name_(zn_binder *b, void *net)                                                                  \
    {                                                                                                                  \
        bind(b, net, slm_);                                                                                            \
    }                                                                                                                  \
    const zn_arch zn_arch_##name_ = {                                                                                  \
        .info = { .id = id_, .summary = summary_, .in = { "x" }, .out = { "y" }, .weights = id_ },                     \
        .size = sizeof(zenith_ae),                                                                                     \
        .recognise = recognise_##name_,                                                                                \
        .bind = bind_##name_,                                                                                          \
        .forward = forward,                                                                                            \
        .in_c = 3,                                                                                                     \
        .out_c = 3,                                                                                                    \
        .train = &training,                                                                                            \
    }

ZENITH_AE(zenith_ae, "zenith-ae", false, "picture to picture through spectral blocks");
ZENITH_AE(zenith_prune, "zenith-prune", true, "the same with a gate on every spectral coefficient");
