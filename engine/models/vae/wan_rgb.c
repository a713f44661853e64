/* SPDX-License-Identifier: MIT */
/* wan_rgb.c - what a latent of Wan 2.1 shows, without a decoder: a linear projection of its 16 channels to colours.
 *
 *   wan-latent-rgb   normalised latent ── x = W z + v per pixel, clamped ── each pixel 8 x 8 times ── picture -1..1
 *
 * W and v are the published factors with which user interfaces preview such latents (latent_rgb_factors of ComfyUI's
 * latent format Wan21): blurred blocks, the right colours and composition. */
#include "vae.h"

#include <stdio.h>

enum { Z = 16, SCALE = 8 };

static const float factor[Z][3] = {
    { -0.1299f, -0.1692f, 0.2932f },  { 0.0671f, 0.0406f, 0.0442f },  { 0.3568f, 0.2548f, 0.1747f },
    { 0.0372f, 0.2344f, 0.1420f },    { 0.0313f, 0.0189f, -0.0328f }, { 0.0296f, -0.0956f, -0.0665f },
    { -0.3477f, -0.4059f, -0.2925f }, { 0.0166f, 0.1902f, 0.1975f },  { -0.0412f, 0.0267f, -0.1364f },
    { -0.1293f, 0.0740f, 0.1636f },   { 0.0680f, 0.3019f, 0.1128f },  { 0.0032f, 0.0581f, 0.0639f },
    { -0.1251f, 0.0927f, 0.1699f },   { 0.0060f, -0.0633f, 0.0005f }, { 0.3477f, 0.2275f, 0.2950f },
    { 0.1984f, 0.0913f, 0.1861f },
};
static const float offset[3] = { -0.1835f, -0.0868f, -0.3360f };

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

static void bind(zn_binder *b, void *net)
{
    float weight[3][Z];

    for (int i = 0; i < 3 * Z; i++)
        weight[i / Z][i % Z] = factor[i % Z][i / Z];
    zn_bind_pack(b, net, zn_conv_same(1, Z, 3), weight[0], offset);
    b->geometry = (zn_geometry){ .in_c = Z, .out_c = 3, .shrink = 1, .grow = SCALE, .multiple = 1 };
    snprintf(b->variant, sizeof b->variant, "linear projection of 16 latent channels");
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
    .bind = bind,
    .forward = forward,
    .out_c = 3,
};
