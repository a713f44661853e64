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

enum { SET_SIGMA, SET_SCALE = SET_SIGMA + NOISE };

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
    zn_unet_picture *m = net;

    if (b->w && !recognise(b->w, b->variant, sizeof b->variant)) {
        zn_bind_fail(b, "these are not the weights of a Zenith denoiser");
        return;
    }
    zn_bind_unet_picture(b, m, PATCH, 1, PATCH * PATCH * NOISE, USUAL_C, "");
}

/* ---- forward ------------------------------------------------------------------------------------------ */

static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    float sigma[PATCH * PATCH * NOISE];

    for (int i = 0; i < PATCH * PATCH * NOISE; i++)
        sigma[i] = call->set[SET_SIGMA + i / (PATCH * PATCH)] / 255.0f;
    zn_run_unet_picture(c, net, call, call->n_in > 1 ? NULL : sigma, 0);
}

/* ---- training ------------------------------------------------------------------------------------------- */

static const zn_training training = { .tasks = ZN_TASK_DENOISE, .from_weights = true };

static const zn_setting settings[] = {
    { "sigma", 0, 0, 255, "standard deviation of the noise, of 255; 0: measured" },
    { "sigma-g", 0, 0, 255, "the same for green; 0: as sigma" },
    { "sigma-b", 0, 0, 255, "the same for blue; 0: as sigma" },
    { "sigma-scale", 1, 0.1f, 10, "times what was measured" },
    { 0 },
};

extern const zn_arch zn_arch_denoise_level; /* its channels are for the three in turn */

/* sums_ok: 54 pictures told six levels each, as tests/models/test_real.c compares them: at most 0.78 levels and 0.003 dB with
 * denoise-fast, 0.71 with denoise-balanced; denoise-best, whose sums are up to 384 products long, was off by 1.17 */
#define DENOISE(name_, level_, sums_ok_, id_, summary_)                                                                \
    static const zn_told_noise noise_##name_ = { SET_SIGMA, SET_SCALE, &zn_arch_denoise_level, 3 * (level_) };         \
    const zn_arch zn_arch_denoise_##name_ = {                                                                          \
        .info = { .id = id_,                                                                                           \
                  .summary = summary_,                                                                                 \
                  .in = { "x", "[map]" },                                                                              \
                  .out = { "y" },                                                                                      \
                  .weights = id_,                                                                                      \
                  .settings = settings },                                                                              \
        .size = sizeof(zn_unet_picture),                                                                               \
        .recognise = recognise,                                                                                        \
        .bind = bind,                                                                                                  \
        .forward = forward,                                                                                            \
        .noise = &noise_##name_,                                                                                       \
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
