/* SPDX-License-Identifier: MIT */
/* restore.c - undoes blur, JPEG compression, noise and dirt: the denoisers' U-Net, told what is known of the damage.
 *
 *   x ── unshuffle 2 ─┬─ intro ── U-Net ── outro ── shuffle 2 ──(* strength)──(+)── y
 *  (3)     (12)       │                                                        x
 *   what is known ────┘
 *        (7)
 * Of noise, artefacts and blur, in this order: how much of each there is, then for each 1 where that is known.  Where it is not,
 * both are 0, and the network finds out.  Last, how much of dust, hairs, scratches and stains to remove.  Trained by
 * training/together.py. */
#include "gated_unet.h"

#include <stdio.h>
#include <string.h>

enum { PATCH = 2, KINDS = 3, TOLD = 2 * KINDS + 1, CIN = PATCH * PATCH * 3 + TOLD, USUAL_C = 16 };

enum { SET_NOISE, SET_ARTEFACTS, SET_BLUR, SET_DUST, SET_STRENGTH };

/* What a setting of 1 is in the network's units. */
static const float unit[KINDS] = { 1 / 255.0f, 1 / 100.0f, 1 / 4.0f };

/* ---- bind ------------------------------------------------------------------------------------------- */

static bool recognise(const zn_weights *w, char *what, size_t size)
{
    const zn_entry *intro = zn_weights_get(w, "intro.weight");

    if (!intro || intro->n_dims != 4 || intro->shape[1] != CIN || !zn_weights_get(w, "mid.0.dw.weight"))
        return false;
    snprintf(what, size, "restore, gated depthwise U-Net");
    return true;
}

static void bind(zn_binder *b, void *net)
{
    if (b->w && !recognise(b->w, b->variant, sizeof b->variant)) {
        zn_bind_fail(b, "these are not the weights of restore");
        return;
    }
    zn_bind_unet_picture(b, net, PATCH, 1, TOLD, USUAL_C, "");
}

/* ---- forward ------------------------------------------------------------------------------------------ */

static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    const zn_tensor in = call->in[0], out = call->out[0];
    const float strength = call->set[SET_STRENGTH];
    float known[TOLD];

    if (strength == 0) { /* as a gain, 0 would mean 1 */
        const zn_margin has = { call->left, call->top, in.w - out.w - call->left, in.h - out.h - call->top };

        zn_map(c, out, zn_crop_picture(c, in, out.h, out.w, has), (zn_tail){ 0 });
        return;
    }
    for (int i = 0; i < KINDS; i++) {
        const float value = call->set[SET_NOISE + i];

        known[i] = value > 0 ? value * unit[i] : 0;
        known[KINDS + i] = value != 0;
    }
    known[2 * KINDS] = call->set[SET_DUST];
    zn_run_unet_picture(c, net, call, known, strength);
}

/* ---- descriptor ------------------------------------------------------------------------------------- */

static const zn_setting settings[] = {
    { "noise", 0, -1, 100, "standard deviation of the noise, of 255; 0: found out, -1: none" },
    { "artefacts", 0, -1, 100, "100 - the JPEG file's quality; 0: found out, -1: none" },
    { "blur", 0, -1, 10, "standard deviation of the blur along an axis, in pixels; 0: found out, -1: none" },
    { "dust", 0, 0, 1, "how much of dust, hairs, scratches and stains to remove" },
    { "strength", 1, 0, 2, "how much of the network's change is added" },
    { 0 },
};

const zn_arch zn_arch_restore = {
    .info = { .id = "restore",
              .summary = "undoes blur, JPEG artifacts, noise and dirt",
              .in = { "x" },
              .out = { "y" },
              .weights = "restore",
              .settings = settings },
    .size = sizeof(zn_unet_picture),
    .recognise = recognise,
    .bind = bind,
    .forward = forward,
    .in_c = 3,
    .out_c = 3,
    .half_ok = true,
    .crops = true,
};
