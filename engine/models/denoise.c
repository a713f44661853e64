/* SPDX-License-Identifier: MIT */
/* denoise.c - the denoisers: a U-Net of gated depthwise blocks on the picture at half resolution.
 *
 *   x, noise map ── unshuffle 2 ── intro ── U-Net ── outro ── shuffle 2 ──(+)── y
 *    (3 + 3)          (24)                                                x
 *
 * gated_unet.h describes the U-Net.  The numbers of levels, blocks and channels are read from the file.  Trained by
 * training/. */
#include "gated_unet.h"

#include <stdio.h>
#include <string.h>

enum { PATCH = 2, NOISE = 3, CIN = PATCH * PATCH * (3 + NOISE) }; /* NOISE: channels of the noise map */
enum { USUAL_C = 32 };                                            /* without a file */

typedef struct denoise {
    zn_unet body;
    zn_conv intro, outro;
} denoise;

enum { SET_SIGMA }; /* of red; those of green and blue follow: see takes_sigma in arch.h */

/* ---- bind ------------------------------------------------------------------------------------------- */

static bool recognise(const zn_weights *w, char *what, size_t size)
{
    const char *name = zn_weights_meta(w, "model");
    const zn_entry *intro = zn_weights_get(w, "intro.weight");

    if (!intro || intro->n_dims != 4 || intro->shape[1] != CIN || !zn_weights_get(w, "mid.0.dw.weight"))
        return false;
    snprintf(what, size, "%.40s, gated depthwise U-Net", name ? name : "denoiser");
    return true;
}

static void bind(zn_binder *b, void *net)
{
    denoise *m = net;

    if (b->w && !recognise(b->w, b->variant, sizeof b->variant)) {
        zn_bind_fail(b, "these are not the weights of a Zenith denoiser");
        return;
    }
    zn_bind_unet(b, &m->body, PATCH, b->w ? zn_bind_dim(b, 0, "intro.weight") : USUAL_C);
    if (b->status)
        return;
    zn_bind_conv(b, &m->intro, zn_conv_same(3, CIN, m->body.at[0].c), "intro");
    zn_bind_conv(b, &m->outro, zn_conv_same(3, m->body.at[0].c, PATCH * PATCH * 3), "outro");
    b->geometry = (zn_geometry){ .in_c = 3,
                                 .out_c = 3,
                                 .shrink = 1,
                                 .grow = 1,
                                 .multiple = m->body.multiple,
                                 .padded = true,
                                 .halo = m->body.halo };
}

/* ---- forward ------------------------------------------------------------------------------------------ */

static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    const denoise *m = net;
    const zn_tensor in = call->in[0], out = call->out[0];
    const zn_margin has = { call->left, call->top, in.w - out.w - call->left, in.h - out.h - call->top };
    zn_margin left;
    zn_tensor x = zn_new(c, 1, in.h / PATCH, in.w / PATCH, m->body.at[0].c);
    zn_tensor spare = zn_new(c, 1, x.h, x.w, x.c);
    size_t mark = zn_mark(c->arena);
    zn_tensor both = zn_new(c, 1, x.h, x.w, m->intro.cin), res, rest, own;
    zn_tensor map = zn_slice(both, PATCH * PATCH * 3, PATCH * PATCH * NOISE);

    zn_unshuffle(c, zn_slice(both, 0, PATCH * PATCH * 3), in, PATCH);
    if (call->n_in > 1) {
        zn_unshuffle(c, map, call->in[1], PATCH);
    } else {
        float sigma[PATCH * PATCH * NOISE];

        for (int i = 0; i < PATCH * PATCH * NOISE; i++)
            sigma[i] = call->set[SET_SIGMA + i / (PATCH * PATCH)] / 255.0f;
        zn_fill(c, map, sigma);
    }
    zn_conv2d(c, x, both, &m->intro, (zn_tail){ 0 });
    zn_reset(c->arena, mark);
    left = zn_run_unet(c, &m->body, &x, &spare, has);
    res = zn_new(c, 1, x.h, x.w, m->outro.cout);
    rest = zn_new(c, 1, x.h, x.w, m->outro.cout);
    zn_conv2d(c, res, x, &m->outro, (zn_tail){ 0 });
    zn_crop_unet(c, &m->body, &res, &rest, left);
    own = zn_crop_picture(c, in, out.h, out.w, has);
    zn_shuffle(c, out, res, PATCH, (zn_tail){ .residual = &own });
}

/* ---- training ------------------------------------------------------------------------------------------- */

static int graph(zn_net *g, const void *net, const int in[2])
{
    const denoise *m = net;
    const int multiple = m->body.multiple;
    int x;

    if (zn_net_height(g, in[0]) % multiple)
        zn_net_fail(g, ZN_E_USAGE, "%d pixels are not a multiple of %d", zn_net_height(g, in[0]), multiple);
    x = zn_net_unshuffle(g, zn_net_concat(g, in[0], in[1]), PATCH);
    x = zn_net_unet(g, &m->body, zn_net_conv(g, x, "intro"));
    return zn_net_add(g, in[0], zn_net_shuffle(g, zn_net_conv(g, x, "outro"), PATCH));
}

static const zn_training training = { .tasks = ZN_TASK_DENOISE, .from_weights = true, .graph = graph };

static const zn_setting settings[] = {
    { "sigma", 0, 0, 255, "standard deviation of the noise, of 255; 0: measured" },
    { "sigma-g", 0, 0, 255, "the same for green; 0: as sigma" },
    { "sigma-b", 0, 0, 255, "the same for blue; 0: as sigma" },
    { "sigma-scale", 1, 0.1f, 10, "times what was measured" },
    { 0 },
};

/* sums_ok: 44 pictures with noise of 10, 25 and 50, fp16 on Neoverse V1: at most 0.74 levels and 0.005 dB with denoise-fast,
 * 0.71 with denoise-balanced; denoise-best, whose sums are up to 384 products long, is off by 1.17 */
#define DENOISE(name_, level_, sums_ok_, id_, summary_)                                                                \
    const zn_arch zn_arch_denoise_##name_ = {                                                                          \
        .info = { .id = id_,                                                                                           \
                  .summary = summary_,                                                                                 \
                  .in = { "x", "[map]" },                                                                              \
                  .out = { "y" },                                                                                      \
                  .weights = id_,                                                                                      \
                  .settings = settings },                                                                              \
        .size = sizeof(denoise),                                                                                       \
        .recognise = recognise,                                                                                        \
        .bind = bind,                                                                                                  \
        .forward = forward,                                                                                            \
        .takes_sigma = true,                                                                                           \
        .level = level_,                                                                                               \
        .train = &training,                                                                                            \
        .in_c = 3,                                                                                                     \
        .out_c = 3,                                                                                                    \
        .half_ok = true,                                                                                               \
        .half_sums_ok = sums_ok_,                                                                                      \
        .crops = true,                                                                                                 \
    }

DENOISE(fast, 0, true, "denoise-fast", "removes noise, quickly");
DENOISE(balanced, 1, true, "denoise-balanced", "removes noise, the usual choice");
DENOISE(best, 2, false, "denoise-best", "removes noise, as well as we can");
