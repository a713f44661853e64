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

enum { TOLD = 2, CIN = 3 + TOLD, USUAL_C = 16 };

typedef struct network {
    int scale;
    zn_unet body;
    zn_conv intro, outro;
} network;

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

static void bind(zn_binder *b, network *m, int scale)
{
    if (b->w && !recognise(b->w, b->variant, sizeof b->variant)) {
        zn_bind_fail(b, "these are not the weights of an upscaler");
        return;
    }
    m->scale = scale;
    zn_bind_unet(b, &m->body, 1, b->w ? zn_bind_dim(b, 0, "intro.x%d.weight", scale) : USUAL_C);
    if (b->status)
        return;
    zn_bind_conv(b, &m->intro, zn_conv_same(3, CIN, m->body.at[0].c), "intro.x%d", scale);
    zn_bind_conv(b, &m->outro, zn_conv_same(3, m->body.at[0].c, 3 * scale * scale), "outro.x%d", scale);
    b->geometry = (zn_geometry){ .in_c = 3,
                                 .out_c = 3,
                                 .shrink = 1,
                                 .grow = scale,
                                 .multiple = m->body.multiple,
                                 .padded = true,
                                 .halo = m->body.halo };
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
    const network *m = net;
    const zn_tensor in = call->in[0], out = call->out[0];
    const int h = out.h / m->scale, w = out.w / m->scale;
    const zn_margin has = { call->left, call->top, in.w - w - call->left, in.h - h - call->top };
    zn_margin left;
    zn_tensor x = zn_new(c, 1, in.h, in.w, m->body.at[0].c);
    zn_tensor spare = zn_new(c, 1, x.h, x.w, x.c);
    size_t mark = zn_mark(c->arena);
    zn_tensor both = zn_new(c, 1, x.h, x.w, CIN), res, rest, large;
    float told[TOLD];

    for (int i = 0; i < TOLD; i++)
        told[i] = call->set[SET_NOISE + i] * unit[i];
    zn_map(c, zn_slice(both, 0, 3), in, (zn_tail){ 0 });
    zn_fill(c, zn_slice(both, 3, TOLD), told);
    zn_conv2d(c, x, both, &m->intro, (zn_tail){ 0 });
    zn_reset(c->arena, mark);
    left = zn_run_unet(c, &m->body, &x, &spare, has);
    res = zn_new(c, 1, x.h, x.w, m->outro.cout);
    rest = zn_new(c, 1, x.h, x.w, m->outro.cout);
    zn_conv2d(c, res, x, &m->outro, (zn_tail){ 0 });
    zn_crop_unet(c, &m->body, &res, &rest, left);
    large = zn_new_of(c, in.type, 1, out.h, out.w, 3);
    zn_resize(c, large, zn_crop_picture(c, in, h, w, has), ZN_NEAREST);
    zn_shuffle(c, out, res, m->scale, (zn_tail){ .residual = &large });
}

/* ---- descriptors ------------------------------------------------------------------------------------- */

static const zn_setting settings[] = {
    { "noise", 0, 0, 100, "standard deviation of the noise in the picture, of 255; 0: none" },
    { "artefacts", 0, 0, 100, "100 - the JPEG file's quality; 0: no artefacts" },
    { 0 },
};

#define UPSCALE(name_, scale_, weights_, summary_)                                                                     \
    const zn_arch zn_arch_##name_##_x##scale_ = {                                                                      \
        .info = { .id = weights_ "-x" #scale_,                                                                         \
                  .summary = summary_,                                                                                 \
                  .in = { "x" },                                                                                       \
                  .out = { "y" },                                                                                      \
                  .weights = weights_,                                                                                 \
                  .settings = settings },                                                                              \
        .size = sizeof(network),                                                                                       \
        .recognise = recognise,                                                                                        \
        .bind = bind_x##scale_,                                                                                        \
        .forward = forward,                                                                                            \
        .in_c = 3,                                                                                                     \
        .out_c = 3,                                                                                                    \
        .crops = true,                                                                                                 \
    }

UPSCALE(upscale, 2, "upscale", "enlarges 2 times, faithfully");
UPSCALE(upscale, 3, "upscale", "enlarges 3 times, faithfully");
UPSCALE(upscale, 4, "upscale", "enlarges 4 times, faithfully");
UPSCALE(upscale_small, 2, "upscale-small", "enlarges 2 times, quickly");
UPSCALE(upscale_small, 3, "upscale-small", "enlarges 3 times, quickly");
UPSCALE(upscale_small, 4, "upscale-small", "enlarges 4 times, quickly");
