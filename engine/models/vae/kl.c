/* SPDX-License-Identifier: MIT */
/* kl.c - AutoencoderKL, the autoencoder of FLUX.1, Z-Image, Stable Diffusion and SDXL.
 *
 *   flux-ae-encode   picture -1..1 ── latent: the mean of the posterior
 *   flux-ae-decode   latent ── picture, not clamped
 *
 * Widths, levels, blocks a level and latent channels are read from the file: FLUX.1 has 16 latent channels and no quant
 * convolutions, Stable Diffusion and SDXL have 4 and both.  Latents are those of the diffusion model, (z - shift) * scale,
 * as diffusers' pipelines make them and as TAESD's networks have them: with 16 channels FLUX.1's shift and scale, with 4
 * Stable Diffusion's.  SDXL's files look the same: the setting `scale` takes its own.  Latents of other widths stay as they
 * are.
 *
 * Three ways to name the same tensors are known: diffusers', its older one, and the original one (FLUX.1's
 * ae.safetensors; first_stage_model in a checkpoint of Stable Diffusion), where the levels of the decoder are counted
 * from the full resolution on.
 * Reference: diffusers' AutoencoderKL; Rombach et al. 2022. */
#include "vae.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Without a file: FLUX.1's. */
enum { USUAL_LEVELS = 4, USUAL_BLOCKS = 2, USUAL_Z = 16, USUAL_BASE = 128 };
static const int usual_mult[USUAL_LEVELS] = { 1, 2, 4, 4 };

enum { SET_SCALE, SET_SAMPLE, SET_SEED };

static const struct {
    int z;
    float shift, scale;
} latents[] = { { 16, 0.1159f, 0.3611f }, { 4, 0, 0.18215f } };

typedef struct naming {
    const char *prefix;
    const char *down, *up, *block, *half, *twice;
    const char *middle[3], *last_norm;
    bool reversed; /* decoder.up.0 is the last level */
    zn_vae_names in;
} naming;

#define RES "norm1", "conv1", "norm2", "conv2"
#define DIFFUSERS                                                                                                      \
    "down_blocks", "up_blocks", "resnets", "downsamplers.0.conv", "upsamplers.0.conv",                                 \
        { "mid_block.resnets.0", "mid_block.attentions.0", "mid_block.resnets.1" }, "conv_norm_out", false
#define ORIGINAL                                                                                                       \
    "down", "up", "block", "downsample.conv", "upsample.conv", { "mid.block_1", "mid.attn_1", "mid.block_2" },         \
        "norm_out", true
#define ORIGINAL_PARTS                                                                                                 \
    {                                                                                                                  \
        RES, "nin_shortcut", "norm", "q", "k", "v", "proj_out", ZN_GROUP_NORM, 1e-6f                                   \
    }

static const naming namings[] = {
    { "", DIFFUSERS, { RES, "conv_shortcut", "group_norm", "to_q", "to_k", "to_v", "to_out.0", ZN_GROUP_NORM, 1e-6f } },
    { "",
      DIFFUSERS,
      { RES, "conv_shortcut", "group_norm", "query", "key", "value", "proj_attn", ZN_GROUP_NORM, 1e-6f } },
    { "", ORIGINAL, ORIGINAL_PARTS },
    { "first_stage_model.", ORIGINAL, ORIGINAL_PARTS },
    { "vae.", ORIGINAL, ORIGINAL_PARTS },
};

/* ---- recognise ------------------------------------------------------------------------------------------ */

static const char *side(bool decoder)
{
    return decoder ? "decoder" : "encoder";
}

/* SIDE.MODULE.weight, or SIDE.MODULE.LEAF.weight */
static const zn_entry *get(const zn_weights *w, const naming *names, bool decoder, const char *module, const char *leaf)
{
    char name[ZN_VAE_NAME];

    snprintf(name, sizeof name, "%s%s.%s%s%s.weight", names->prefix, side(decoder), module, leaf ? "." : "",
             leaf ? leaf : "");
    return zn_weights_get(w, name);
}

/* How this file names that side; NULL: it does not hold it.  A network without attention has neither its norm nor its
 * queries, and then the first naming that fits is right. */
static const naming *find_naming(const zn_weights *w, bool decoder)
{
    for (size_t i = 0; i < sizeof namings / sizeof *namings; i++) {
        const naming *names = &namings[i];

        if (get(w, names, decoder, "conv_in", NULL) && get(w, names, decoder, names->middle[0], "conv1") &&
            get(w, names, decoder, names->last_norm, NULL) &&
            (get(w, names, decoder, names->middle[1], names->in.q) ||
             !get(w, names, decoder, names->middle[1], names->in.norm)))
            return names;
    }
    return NULL;
}

static bool recognise(const zn_weights *w, bool decoder, char *what, size_t size)
{
    const naming *names = find_naming(w, decoder);
    const zn_entry *first = names ? get(w, names, decoder, "conv_in", NULL) : NULL,
                   *last = names ? get(w, names, decoder, "conv_out", NULL) : NULL;
    int z;

    if (!last || first->n_dims != 4 || last->n_dims != 4)
        return false;
    z = (int)(decoder ? first->shape[1] : last->shape[0] / 2);
    snprintf(what, size, "AutoencoderKL %s, %d latent channels%s", side(decoder), z,
             z == 16      ? " (FLUX.1, Z-Image)"
                 : z == 4 ? " (Stable Diffusion, SDXL)"
                          : "");
    return true;
}

static bool recognise_encoder(const zn_weights *w, char *what, size_t size)
{
    return recognise(w, false, what, size);
}

static bool recognise_decoder(const zn_weights *w, char *what, size_t size)
{
    return recognise(w, true, what, size);
}

/* ---- bind ----------------------------------------------------------------------------------------------- */

/* The name of level i, in the order of the forward. */
static void level_name(char *name, const zn_binder *b, const naming *names, const zn_vae *m, int i)
{
    snprintf(name, ZN_VAE_NAME, "%s%s.%s.%d", names->prefix, side(m->decoder), m->decoder ? names->up : names->down,
             m->decoder && names->reversed && b->w ? m->n_levels - 1 - i : i);
}

static void count_levels(zn_binder *b, zn_vae *m, const naming *names)
{
    if (!b->w)
        m->n_levels = USUAL_LEVELS;
    while (b->w && m->n_levels <= ZN_VAE_LEVELS &&
           zn_bind_has(b, "%s%s.%s.%d.%s.0.conv1.weight", names->prefix, side(m->decoder),
                       m->decoder ? names->up : names->down, m->n_levels, names->block))
        m->n_levels++;
    if (m->n_levels < 1 || m->n_levels > ZN_VAE_LEVELS)
        zn_bind_fail(b, "the number of levels of the %s is not between 1 and %d", side(m->decoder), ZN_VAE_LEVELS);
}

/* Without a file: the width of level i in the order of the forward. */
static int usual_width(const zn_binder *b, const zn_vae *m, int i)
{
    return (b->base ? b->base : USUAL_BASE) * usual_mult[m->decoder ? USUAL_LEVELS - 1 - i : i];
}

static int bind_level(zn_binder *b, zn_vae *m, const naming *names, int number, int width)
{
    zn_vae_level *level = &m->level[number];
    char path[ZN_VAE_NAME], name[ZN_VAE_NAME + 32];
    const char *resample = m->decoder ? names->twice : names->half;

    level_name(path, b, names, m, number);
    while (!b->status &&
           (b->w ? zn_bind_has(b, "%s.%s.%d.conv1.weight", path, names->block, level->n_res)
                 : level->n_res < USUAL_BLOCKS + m->decoder)) {
        int cout;

        if (level->n_res == ZN_VAE_BLOCKS) {
            zn_bind_fail(b, "'%s' has more than %d blocks", path, ZN_VAE_BLOCKS);
            return width;
        }
        snprintf(name, sizeof name, "%s.%s.%d.conv1", path, names->block, level->n_res);
        cout = b->w ? zn_vae_width(b, name) : usual_width(b, m, number);
        zn_vae_bind_res(b, &level->res[level->n_res++], &names->in, false, width, cout, "%.*s", (int)strlen(name) - 6,
                        name);
        width = cout;
    }
    level->resamples = number + 1 < m->n_levels;
    if (level->resamples)
        zn_vae_bind_conv(b, &level->resample, m->decoder ? zn_vae_twice(width, width) : zn_vae_half(width, width),
                         "%s.%s", path, resample);
    return width;
}

static void bind_middle(zn_binder *b, zn_vae *m, const naming *names, int width)
{
    char name[ZN_VAE_NAME];

    m->width = width;
    for (int i = 0; i < 2; i++)
        zn_vae_bind_res(b, &m->middle[i], &names->in, false, width, width, "%s%s.%s", names->prefix, side(m->decoder),
                        names->middle[2 * i]);
    snprintf(name, sizeof name, "%s%s.%s", names->prefix, side(m->decoder), names->middle[1]);
    m->has_attend = !b->w || zn_bind_has(b, "%s.%s.weight", name, names->in.norm);
    if (m->has_attend && !b->status)
        zn_vae_bind_attention(b, &m->attention, &names->in, width, name);
}

static void bind_ends(zn_binder *b, zn_vae *m, const naming *names, int width)
{
    const char *prefix = names->prefix, *half = side(m->decoder);
    char name[ZN_VAE_NAME];

    zn_vae_bind_norm(b, &m->last_norm, &names->in, width, "%s%s.%s", prefix, half, names->last_norm);
    if (m->decoder) {
        zn_vae_bind_conv(b, &m->last, zn_conv_same(3, width, 3), "%s%s.conv_out", prefix, half);
        if (m->has_quant)
            zn_vae_bind_conv(b, &m->quant, zn_conv_same(1, m->z, m->z), "%spost_quant_conv", prefix);
    } else if (m->has_quant) {
        zn_vae_bind_conv(b, &m->last, zn_conv_same(3, width, 2 * m->z), "%s%s.conv_out", prefix, half);
        snprintf(name, sizeof name, "%squant_conv", prefix);
        zn_vae_bind_moments(b, &m->quant, &m->spread, zn_conv_same(1, 2 * m->z, m->z), NULL, NULL, name);
    } else {
        snprintf(name, sizeof name, "%s%s.conv_out", prefix, half);
        zn_vae_bind_moments(b, &m->last, &m->spread, zn_conv_same(3, width, m->z), NULL, NULL, name);
    }
}

/* See the top. */
static void bind_scale(zn_binder *b, zn_vae *m)
{
    float shift[16];

    m->scale_set = SET_SCALE;
    for (size_t i = 0; i < sizeof latents / sizeof *latents; i++)
        if (m->z == latents[i].z && !b->status) {
            m->scale = latents[i].scale;
            for (int j = 0; j < m->z; j++)
                shift[j] = m->decoder ? latents[i].shift : -latents[i].shift * latents[i].scale;
            if (latents[i].shift != 0)
                m->shift = zn_bind_device(b, shift, (size_t)m->z * sizeof *shift);
        }
}

static void bind(zn_binder *b, zn_vae *m, bool decoder)
{
    const naming *names = b->w ? find_naming(b->w, decoder) : &namings[0];
    char name[ZN_VAE_NAME];
    int width;

    m->decoder = decoder;
    m->patch = 1;
    if (!names || (b->w && !recognise(b->w, decoder, b->variant, sizeof b->variant))) {
        zn_bind_fail(b, "these are not the weights of an AutoencoderKL's %s", side(decoder));
        return;
    }
    count_levels(b, m, names);
    snprintf(name, sizeof name, "%s%s.conv_in", names->prefix, side(decoder));
    width = b->w ? zn_vae_width(b, name) : usual_width(b, m, 0);
    m->z = decoder ? zn_bind_dim(b, 1, "%s.weight", name)
                   : zn_bind_dim(b, 0, "%s%s.conv_out.weight", names->prefix, side(decoder)) / 2;
    m->z = b->w ? m->z : USUAL_Z;
    if (!b->status && (m->z < 1 || m->z > ZN_VAE_MAX_Z))
        zn_bind_fail(b, "%d latent channels are not from 1 to %d", m->z, ZN_VAE_MAX_Z);
    m->has_quant = zn_bind_has(b, "%s%squant_conv.weight", names->prefix, decoder ? "post_" : "");
    zn_vae_bind_conv(b, &m->first, zn_conv_same(3, decoder ? m->z : 3, width), "%s", name);
    if (decoder)
        bind_middle(b, m, names, width);
    for (int i = 0; i < m->n_levels && !b->status; i++)
        width = bind_level(b, m, names, i, width);
    if (!decoder)
        bind_middle(b, m, names, width);
    bind_ends(b, m, names, width);
    bind_scale(b, m);
    zn_vae_set_geometry(b, m);
}

static void bind_encoder(zn_binder *b, void *net)
{
    bind(b, net, false);
}

static void bind_decoder(zn_binder *b, void *net)
{
    bind(b, net, true);
}

/* ---- descriptors ---------------------------------------------------------------------------------------- */

#define SCALE                                                                                                          \
    {                                                                                                                  \
        "scale", 0, 0, 100,                                                                                            \
            "latents are (z - shift) * this; 0: FLUX.1's or Stable Diffusion's; 0.13025: SDXL's; 1: z itself"          \
    }

static const zn_setting settings[] = { [SET_SCALE] = SCALE, { 0 } };

static const zn_setting encoder_settings[] = {
    [SET_SCALE] = SCALE, [SET_SAMPLE] = ZN_VAE_SAMPLE, [SET_SEED] = ZN_VAE_SEED, { 0 }
};
static const zn_posterior posterior = { SET_SAMPLE, SET_SEED };

const zn_arch zn_arch_flux_ae_encode = {
    .info = { .id = "flux-ae-encode",
              .summary = "picture (-1..1) to latent: AutoencoderKL of FLUX.1, Stable Diffusion, SDXL",
              .in = { "x" },
              .out = { "z" },
              .weights = "flux-ae",
              .settings = encoder_settings,
              .narrow = 32 },
    .size = sizeof(zn_vae),
    .recognise = recognise_encoder,
    .bind = bind_encoder,
    .forward = zn_vae_forward,
    .in_c = 3,
    .centred = true,
    .posterior = &posterior,
};

const zn_arch zn_arch_flux_ae_decode = {
    .info = { .id = "flux-ae-decode",
              .summary = "latent to picture: the other half",
              .in = { "z" },
              .out = { "x" },
              .weights = "flux-ae",
              .settings = settings,
              .narrow = 32 },
    .size = sizeof(zn_vae),
    .recognise = recognise_decoder,
    .bind = bind_decoder,
    .forward = zn_vae_forward,
    .out_c = 3,
    .centred = true,
};
