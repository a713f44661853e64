/* SPDX-License-Identifier: MIT */
/* upscale.c - enlarges a picture 2, 3 or 4 times: a U-Net of gated depthwise blocks at the picture's own size.
 *
 *   x, noise, artefacts ── intro ── U-Net ── outro ── shuffle s ──(+)── y
 *          (3 + 2)                                     x, each pixel s x s times
 *
 * A file holds intro.xS and outro.xS for the three scales S; the U-Net (gated_unet.h) is the same for all.  Trained by
 * training/together.py. */
#include "gated_unet.h"

#include <stdio.h>
#include <string.h>

enum { TOLD = 2, USUAL_C = 16 };

enum { SET_NOISE, SET_ARTEFACTS };

/* What a setting of 1 is in the network's units. */
static const float unit[TOLD] = { 1 / 255.0f, 1 / 100.0f };

/* ---- bind ------------------------------------------------------------------------------------------- */

static bool recognise(const zn_weights *w, char *what, size_t size)
{
    const char *name = zn_weights_meta(w, "model");

    if (!zn_weights_get(w, "intro.x2.weight") || !zn_weights_get(w, "outro.x2.weight") ||
        !zn_weights_get(w, "mid.0.dw.weight"))
        return false;
    snprintf(what, size, "%.40s, gated depthwise U-Net, x2, x3 and x4", name ? name : "upscale");
    return true;
}

static void bind(zn_binder *b, void *net, int scale)
{
    char suffix[8];

    if (b->w && !recognise(b->w, b->variant, sizeof b->variant)) {
        zn_bind_fail(b, "these are not the weights of an upscaler");
        return;
    }
    snprintf(suffix, sizeof suffix, ".x%d", scale);
    zn_bind_unet_picture(b, net, 1, scale, TOLD, USUAL_C, suffix);
}

static void bind_x2(zn_binder *b, void *net)
{
    bind(b, net, 2);
}

static void bind_x3(zn_binder *b, void *net)
{
    bind(b, net, 3);
}

static void bind_x4(zn_binder *b, void *net)
{
    bind(b, net, 4);
}

/* ---- forward ------------------------------------------------------------------------------------------ */

static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    float told[TOLD];

    for (int i = 0; i < TOLD; i++)
        told[i] = call->set[SET_NOISE + i] > 0 ? call->set[SET_NOISE + i] * unit[i] : 0;
    zn_run_unet_picture(c, net, call, told, 0);
}

/* ---- descriptors ------------------------------------------------------------------------------------- */

static const zn_setting settings[] = {
    { "noise", 0, -1, 100, "standard deviation of the noise in the picture, of 255; 0, -1: none" },
    { "artefacts", 0, -1, 100, "100 - the JPEG file's quality; 0, -1: no artefacts" },
    { 0 },
};

/* sums_ok: three pictures of Kodak24, fp16 on Neoverse V1: 0.001 dB at most; of the pixels at most 80 in a million differ by more than one
 * level (2.2 at most), and crisp 14,000 (6.6).  half_ok stays false: a GPU stores tensors in fp16, too. */
#define UPSCALE(name_, scale_, weights_, sums_ok_, summary_)                                                           \
    const zn_arch zn_arch_##name_##_x##scale_ = {                                                                      \
        .info = { .id = weights_ "-x" #scale_,                                                                         \
                  .summary = summary_,                                                                                 \
                  .in = { "x" },                                                                                       \
                  .out = { "y" },                                                                                      \
                  .weights = weights_,                                                                                 \
                  .settings = settings },                                                                              \
        .size = sizeof(zn_unet_picture),                                                                               \
        .recognise = recognise,                                                                                        \
        .bind = bind_x##scale_,                                                                                        \
        .forward = forward,                                                                                            \
        .in_c = 3,                                                                                                     \
        .out_c = 3,                                                                                                    \
        .crops = true,                                                                                                 \
        .half_sums_ok = sums_ok_,                                                                                      \
    }

UPSCALE(upscale, 2, "upscale", true, "enlarges 2 times, faithfully");
UPSCALE(upscale, 3, "upscale", true, "enlarges 3 times, faithfully");
UPSCALE(upscale, 4, "upscale", true, "enlarges 4 times, faithfully");
UPSCALE(upscale_crisp, 2, "upscale-crisp", false, "enlarges 2 times, crisply");
UPSCALE(upscale_crisp, 3, "upscale-crisp", false, "enlarges 3 times, crisply");
UPSCALE(upscale_crisp, 4, "upscale-crisp", false, "enlarges 4 times, crisply");
UPSCALE(upscale_small, 2, "upscale-small", true, "enlarges 2 times, quickly");
UPSCALE(upscale_small, 3, "upscale-small", true, "enlarges 3 times, quickly");
UPSCALE(upscale_small, 4, "upscale-small", true, "enlarges 4 times, quickly");
