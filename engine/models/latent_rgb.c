/* SPDX-License-Identifier: MIT */
/* latent_rgb.c - a preview of a latent without a decoder: a linear projection of its channels to colours.
 *
 *   z ── x = W z + v per pixel, clamped ── each pixel 8 x 8 times ── picture -1..1
 *
 *   latent-rgb   W and v are the tensors view.weight [3][channels] and view.bias of the weight file (for 0..1): the principal
 *                components of its latents of photographs
 *   the others   W and v of a generator's latent space, below: the factors with which user interfaces preview such
 *                latents (latent_rgb_factors of ComfyUI's latent formats), and for FLUX.2 our own, a least-squares fit of
 *                taef2's latents of 51 photographs to the means of their 8 x 8 pixels
 *
 * The result is blurred blocks with the right colours and composition. */
#include "arch.h"

#include <stdio.h>
#include <stdlib.h>

enum { SCALE = 8, WAN_Z = 16, MAX_KNOWN = 32, MAX_Z = 256 };

/* Stable Diffusion 1 and 2 */
static const float sd_factor[][3] = {
    { 0.3512f, 0.2297f, 0.3227f },
    { 0.3250f, 0.4974f, 0.2350f },
    { -0.2829f, 0.1762f, 0.2721f },
    { -0.2120f, -0.2616f, -0.7177f },
};
static const float sd_offset[3] = { 0.0000f, 0.0000f, 0.0000f };
/* SDXL */
static const float sdxl_factor[][3] = {
    { 0.3651f, 0.4232f, 0.4341f },
    { -0.2533f, -0.0042f, 0.1068f },
    { 0.1076f, 0.1111f, -0.0362f },
    { -0.3165f, -0.2492f, -0.2188f },
};
static const float sdxl_offset[3] = { 0.1084f, -0.0175f, -0.0011f };
/* Stable Diffusion 3 */
static const float sd3_factor[][3] = {
    { -0.0922f, -0.0175f, 0.0749f },  { 0.0311f, 0.0633f, 0.0954f },    { 0.1994f, 0.0927f, 0.0458f },
    { 0.0856f, 0.0339f, 0.0902f },    { 0.0587f, 0.0272f, -0.0496f },   { -0.0006f, 0.1104f, 0.0309f },
    { 0.0978f, 0.0306f, 0.0427f },    { -0.0042f, 0.1038f, 0.1358f },   { -0.0194f, 0.0020f, 0.0669f },
    { -0.0488f, 0.0130f, -0.0268f },  { 0.0922f, 0.0988f, 0.0951f },    { -0.0278f, 0.0524f, -0.0542f },
    { 0.0332f, 0.0456f, 0.0895f },    { -0.0069f, -0.0030f, -0.0810f }, { -0.0596f, -0.0465f, -0.0293f },
    { -0.1448f, -0.1463f, -0.1189f },
};
static const float sd3_offset[3] = { 0.2394f, 0.2135f, 0.1925f };
/* FLUX.1 and Z-Image */
static const float flux_factor[][3] = {
    { -0.0346f, 0.0244f, 0.0681f },   { 0.0034f, 0.0210f, 0.0687f },    { 0.0275f, -0.0668f, -0.0433f },
    { -0.0174f, 0.0160f, 0.0617f },   { 0.0859f, 0.0721f, 0.0329f },    { 0.0004f, 0.0383f, 0.0115f },
    { 0.0405f, 0.0861f, 0.0915f },    { -0.0236f, -0.0185f, -0.0259f }, { -0.0245f, 0.0250f, 0.1180f },
    { 0.1008f, 0.0755f, -0.0421f },   { -0.0515f, 0.0201f, 0.0011f },   { 0.0428f, -0.0012f, -0.0036f },
    { 0.0817f, 0.0765f, 0.0749f },    { -0.1264f, -0.0522f, -0.1103f }, { -0.0280f, -0.0881f, -0.0499f },
    { -0.1262f, -0.0982f, -0.0778f },
};
static const float flux_offset[3] = { -0.0329f, -0.0718f, -0.0851f };
/* FLUX.2, before its 2x2 packing */
static const float flux2_factor[][3] = {
    { -0.0057f, -0.0045f, 0.0008f },  { -0.0099f, -0.0124f, 0.0382f },  { 0.0033f, 0.0318f, 0.0813f },
    { 0.1693f, 0.2380f, 0.3288f },    { 0.0385f, -0.0052f, -0.0413f },  { -0.0132f, -0.0172f, -0.0400f },
    { -0.0454f, 0.0354f, -0.0590f },  { 0.0351f, 0.0281f, 0.0346f },    { -0.3000f, -0.2316f, -0.1207f },
    { -0.0392f, -0.0278f, -0.0273f }, { -0.0227f, -0.0116f, -0.0189f }, { 0.0367f, -0.0129f, -0.0929f },
    { -0.0137f, 0.0012f, 0.0339f },   { 0.0130f, -0.0082f, -0.0251f },  { 0.0041f, -0.0013f, 0.0145f },
    { -0.0829f, -0.0235f, 0.0051f },  { 0.0258f, 0.0113f, 0.0035f },    { 0.0657f, 0.0476f, 0.0220f },
    { 0.0222f, 0.0168f, 0.0486f },    { 0.0426f, -0.0274f, -0.0044f },  { -0.0114f, -0.0072f, 0.0163f },
    { 0.0073f, -0.0233f, -0.0343f },  { 0.0016f, 0.0033f, -0.0247f },   { 0.0376f, 0.0400f, 0.0509f },
    { 0.0041f, 0.0374f, 0.0192f },    { -0.0446f, -0.0423f, -0.0488f }, { -0.0021f, -0.0211f, -0.0060f },
    { -0.0054f, -0.0210f, -0.0240f }, { -0.0029f, -0.0164f, -0.0249f }, { -0.0188f, 0.0020f, 0.0206f },
    { 0.0481f, 0.0262f, 0.0162f },    { 0.0082f, -0.0198f, -0.0336f },
};
static const float flux2_offset[3] = { -0.1248f, -0.0766f, -0.1429f };
/* Wan 2.1, normalised */
static const float wan_factor[][3] = {
    { -0.1299f, -0.1692f, 0.2932f },  { 0.0671f, 0.0406f, 0.0442f },  { 0.3568f, 0.2548f, 0.1747f },
    { 0.0372f, 0.2344f, 0.1420f },    { 0.0313f, 0.0189f, -0.0328f }, { 0.0296f, -0.0956f, -0.0665f },
    { -0.3477f, -0.4059f, -0.2925f }, { 0.0166f, 0.1902f, 0.1975f },  { -0.0412f, 0.0267f, -0.1364f },
    { -0.1293f, 0.0740f, 0.1636f },   { 0.0680f, 0.3019f, 0.1128f },  { 0.0032f, 0.0581f, 0.0639f },
    { -0.1251f, 0.0927f, 0.1699f },   { 0.0060f, -0.0633f, 0.0005f }, { 0.3477f, 0.2275f, 0.2950f },
    { 0.1984f, 0.0913f, 0.1861f },
};
static const float wan_offset[3] = { -0.1835f, -0.0868f, -0.3360f };

/* W as the convolution has it, from factors that lie channel by channel. */
static void bind_factors(zn_binder *b, void *net, int z, const float (*factor)[3], const float *offset)
{
    float weight[3 * MAX_KNOWN];

    for (int i = 0; i < 3 * z; i++)
        weight[i] = factor[i % z][i / z];
    zn_bind_pack(b, net, zn_conv_same(1, z, 3), weight, offset);
    b->geometry = (zn_geometry){ .in_c = z, .out_c = 3, .shrink = 1, .grow = SCALE, .multiple = 1 };
    snprintf(b->variant, sizeof b->variant, "linear projection of %d latent channels", z);
}

static void bind_view(zn_binder *b, void *net)
{
    const int z = b->w ? zn_bind_dim(b, 1, "view.weight") : 4;
    const int weight_dims[4] = { 3, z, 0, 0 }, bias_dims[4] = { 3, 0, 0, 0 };
    float *weight, *bias;

    if (z < 1 || z > MAX_Z) {
        zn_bind_fail(b, "these weights do not say how a latent is shown: there is no tensor 'view.weight'");
        return;
    }
    weight = zn_bind_read(b, weight_dims, "view.weight");
    bias = weight ? zn_bind_read(b, bias_dims, "view.bias") : NULL;
    for (int i = 0; bias && i < 3 * z; i++)
        weight[i] *= 2;
    for (int i = 0; bias && i < 3; i++)
        bias[i] = 2 * bias[i] - 1;
    if (bias)
        zn_bind_pack(b, net, zn_conv_same(1, z, 3), weight, bias);
    free(weight);
    free(bias);
    b->geometry = (zn_geometry){ .in_c = z, .out_c = 3, .shrink = 1, .grow = SCALE, .multiple = 1 };
    snprintf(b->variant, sizeof b->variant, "principal components of %d latent channels", z);
}

static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    const zn_tensor z = call->in[0], x = zn_new_of(c, ZN_F32, z.n, z.h, z.w, 3);

    zn_conv2d(c, x, z, net, (zn_tail){ .pre = ZN_CLAMP });
    zn_resize(c, call->out[0], x, ZN_NEAREST);
}

/* A file of one tensor, [1][16][frames][h][w]. */
static bool recognise_wan(const zn_weights *w, char *what, size_t size)
{
    const zn_entry *e = zn_weights_count(w) == 1 ? zn_weights_at(w, 0) : NULL;

    if (!e || e->n_dims != 5 || e->shape[0] != 1 || e->shape[1] != WAN_Z)
        return false;
    snprintf(what, size, "latent video of Wan 2.1, %lld frames of %lld x %lld", (long long)e->shape[2],
             (long long)e->shape[4], (long long)e->shape[3]);
    return true;
}

static bool recognise_none(const zn_weights *w, char *what, size_t size)
{
    (void)w, (void)what, (void)size;
    return false;
}

#define PROJECTION(name, of, recognises)                                                                               \
    static void bind_##name(zn_binder *b, void *net)                                                                   \
    {                                                                                                                  \
        bind_factors(b, net, sizeof name##_factor / sizeof *name##_factor, name##_factor, name##_offset);              \
    }                                                                                                                  \
                                                                                                                       \
    const zn_arch zn_arch_##name##_latent_rgb = {                                                                      \
        .info = { .id = #name "-latent-rgb",                                                                           \
                  .summary = of " to colours, without a decoder's weights",                                            \
                  .in = { "z" },                                                                                       \
                  .out = { "x" } },                                                                                    \
        .size = sizeof(zn_conv),                                                                                       \
        .recognise = recognises,                                                                                       \
        .bind = bind_##name,                                                                                           \
        .forward = forward,                                                                                            \
        .out_c = 3,                                                                                                    \
        .centred = true,                                                                                               \
    };

PROJECTION(sd, "latent of Stable Diffusion 1 or 2", recognise_none)
PROJECTION(sdxl, "latent of SDXL", recognise_none)
PROJECTION(sd3, "latent of Stable Diffusion 3", recognise_none)
PROJECTION(flux, "latent of FLUX.1 or Z-Image", recognise_none)
PROJECTION(flux2, "latent of FLUX.2", recognise_none)
PROJECTION(wan, "normalised latent of Wan 2.1", recognise_wan)

const zn_arch zn_arch_latent_rgb = {
    .info = { .id = "latent-rgb",
              .summary = "latent to colours by the principal components in its weight file",
              .in = { "z" },
              .out = { "x" },
              .weights = "zenith" },
    .size = sizeof(zn_conv),
    .recognise = recognise_none,
    .bind = bind_view,
    .forward = forward,
    .out_c = 3,
    .centred = true,
};
