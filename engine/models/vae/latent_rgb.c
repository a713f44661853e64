/* SPDX-License-Identifier: MIT */
/* latent_rgb.c - what a latent shows, without a decoder: a linear projection of its 16 channels to colours.
 *
 *   wan-latent-rgb    normalised latent of Wan 2.1 ────────┬── x = W z + v per pixel, clamped ── each pixel 8 x 8 times
 *   flux-latent-rgb   scaled latent of FLUX.1 or Z-Image ──┘                                        picture -1..1
 *
 * W and v are the published factors with which user interfaces preview such latents (latent_rgb_factors of ComfyUI's
 * latent formats Wan21 and Flux): blurred blocks, the right colours and composition. */
#include "vae.h"

#include <stdio.h>

enum { Z = 16, SCALE = 8 };

typedef struct projection {
    float factor[Z][3], offset[3];
} projection;

static const projection wan = { {
                                    { -0.1299f, -0.1692f, 0.2932f },
                                    { 0.0671f, 0.0406f, 0.0442f },
                                    { 0.3568f, 0.2548f, 0.1747f },
                                    { 0.0372f, 0.2344f, 0.1420f },
                                    { 0.0313f, 0.0189f, -0.0328f },
                                    { 0.0296f, -0.0956f, -0.0665f },
                                    { -0.3477f, -0.4059f, -0.2925f },
                                    { 0.0166f, 0.1902f, 0.1975f },
                                    { -0.0412f, 0.0267f, -0.1364f },
                                    { -0.1293f, 0.0740f, 0.1636f },
                                    { 0.0680f, 0.3019f, 0.1128f },
                                    { 0.0032f, 0.0581f, 0.0639f },
                                    { -0.1251f, 0.0927f, 0.1699f },
                                    { 0.0060f, -0.0633f, 0.0005f },
                                    { 0.3477f, 0.2275f, 0.2950f },
                                    { 0.1984f, 0.0913f, 0.1861f },
                                },
                                { -0.1835f, -0.0868f, -0.3360f } };

static const projection flux = { {
                                     { -0.0346f, 0.0244f, 0.0681f },
                                     { 0.0034f, 0.0210f, 0.0687f },
                                     { 0.0275f, -0.0668f, -0.0433f },
                                     { -0.0174f, 0.0160f, 0.0617f },
                                     { 0.0859f, 0.0721f, 0.0329f },
                                     { 0.0004f, 0.0383f, 0.0115f },
                                     { 0.0405f, 0.0861f, 0.0915f },
                                     { -0.0236f, -0.0185f, -0.0259f },
                                     { -0.0245f, 0.0250f, 0.1180f },
                                     { 0.1008f, 0.0755f, -0.0421f },
                                     { -0.0515f, 0.0201f, 0.0011f },
                                     { 0.0428f, -0.0012f, -0.0036f },
                                     { 0.0817f, 0.0765f, 0.0749f },
                                     { -0.1264f, -0.0522f, -0.1103f },
                                     { -0.0280f, -0.0881f, -0.0499f },
                                     { -0.1262f, -0.0982f, -0.0778f },
                                 },
                                 { -0.0329f, -0.0718f, -0.0851f } };

/* A file of one tensor, [1][16][frames][h][w]. */
static bool recognise(const zn_weights *w, char *what, size_t size)
{
    const zn_entry *e = zn_weights_count(w) == 1 ? zn_weights_at(w, 0) : NULL;

    if (!e || e->n_dims != 5 || e->shape[0] != 1 || e->shape[1] != Z)
        return false;
    snprintf(what, size, "latent video of Wan 2.1, %lld frames of %lld x %lld", (long long)e->shape[2],
             (long long)e->shape[4], (long long)e->shape[3]);
    return true;
}

static void bind(zn_binder *b, void *net, const projection *p)
{
    float weight[3][Z];

    for (int i = 0; i < 3 * Z; i++)
        weight[i / Z][i % Z] = p->factor[i % Z][i / Z];
    zn_bind_pack(b, net, zn_conv_same(1, Z, 3), weight[0], p->offset);
    b->geometry = (zn_geometry){ .in_c = Z, .out_c = 3, .shrink = 1, .grow = SCALE, .multiple = 1 };
    snprintf(b->variant, sizeof b->variant, "linear projection of 16 latent channels");
}

static void bind_wan(zn_binder *b, void *net)
{
    bind(b, net, &wan);
}

static void bind_flux(zn_binder *b, void *net)
{
    bind(b, net, &flux);
}

static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    const zn_tensor z = call->in[0], x = zn_new_of(c, ZN_F32, z.n, z.h, z.w, 3);

    zn_conv2d(c, x, z, net, (zn_tail){ .pre = ZN_CLAMP });
    zn_resize(c, call->out[0], x, ZN_NEAREST);
}

const zn_arch zn_arch_wan_latent_rgb = {
    .info = { .id = "wan-latent-rgb",
              .summary = "normalised latent of Wan 2.1 to colours, without a decoder's weights",
              .in = { "z" },
              .out = { "x" } },
    .size = sizeof(zn_conv),
    .recognise = recognise,
    .bind = bind_wan,
    .forward = forward,
    .out_c = 3,
};

const zn_arch zn_arch_flux_latent_rgb = {
    .info = { .id = "flux-latent-rgb",
              .summary = "scaled latent of FLUX.1 or Z-Image to colours, without a decoder's weights",
              .in = { "z" },
              .out = { "x" } },
    .size = sizeof(zn_conv),
    .bind = bind_flux,
    .forward = forward,
    .out_c = 3,
};
