/* SPDX-License-Identifier: MIT */
/* wan2d.c - the 2-D autoencoder of "VAE Optimization for Windows + RTX 50xx Blackwell Architecture", the third document.
 *
 *   wan2d-vae-encode   picture -1..1 ── first ── levels: stride 2, blocks, attention ── middle ── mean of the posterior
 *   wan2d-vae-decode   latent ── 1x1 ── middle ── levels: twice the size, blocks, attention ── tanh ── picture
 *   block:   x = act(x + norm2(conv2(act(norm1(conv1(x))))))
 *   middle:  blocks, attention
 *
 * It shares its name with Wan's own autoencoder and nothing else.  Every level changes the size: with the four levels of
 * the document the latent has 1/16 of it.  Where a level has attention, it runs over all its pixels: 65,536 of them in the
 * last but one level of the decoder at 512x512; the operation never holds that matrix.
 *
 * The document describes the network before its optimisation (act is ReLU) and after it (SiLU).  The tensors are the same,
 * so that the setting `relu` chooses.  Widths, levels, blocks and where attention is are read from the file.
 * Reference: src/vae/wan2_1_vae.py of naxci1/ComfyUI-SeedVR2.5, commit b6e292b. */
#include "../../core/ints.h"
#include "vae.h"

#include <stdio.h>
#include <string.h>

/* Without a file. */
enum { USUAL_LEVELS = 4, USUAL_BLOCKS = 2, USUAL_Z = 4, USUAL_BASE = 64, MOST_HEADS = 4, HEAD = 64 };

enum { SET_RELU, SET_SAMPLE, SET_SEED };

typedef struct level { /* the middle has no `conv` */
    zn_conv conv;      /* stride 2, or up2 */
    int n_res;
    zn_vae_res res[ZN_VAE_BLOCKS];
    bool has_attend;
    zn_vae_attention attention;
} level;

typedef struct wan2d {
    bool decoder;
    int n_levels;
    zn_conv first, last;
    zn_vae_spread spread; /* of the encoder */
    zn_norm last_norm;
    level middle, level[ZN_VAE_LEVELS];
} wan2d;

static const zn_vae_names names = {
    .norm1 = "norm1",
    .conv1 = "conv1",
    .norm2 = "norm2",
    .conv2 = "conv2",
    .norm = "norm",
    .q = "qkv",
    .out = "proj",
    .kind = ZN_GROUP_NORM,
    .eps = 1e-5f,
};

/* ---- bind ----------------------------------------------------------------------------------------------- */

static const char *side(bool decoder)
{
    return decoder ? "decoder" : "encoder";
}

static const zn_entry *get(const zn_weights *w, bool decoder, const char *name)
{
    char full[ZN_VAE_NAME];

    snprintf(full, sizeof full, "%s.%s.weight", side(decoder), name);
    return zn_weights_get(w, full);
}

static bool recognise(const zn_weights *w, bool decoder, char *what, size_t size)
{
    const zn_entry *e = get(w, decoder, decoder ? "z_to_h" : "conv_out");

    if (!e || e->n_dims < 2 || !get(w, decoder, "middle_attention.qkv") ||
        !get(w, decoder, decoder ? "up_blocks.0.conv_in" : "down_blocks.0.conv_in"))
        return false;
    snprintf(what, size, "2-D Wan VAE %s of the document, %d latent channels", side(decoder),
             (int)(decoder ? e->shape[1] : e->shape[0] / 2));
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

static void bind_attention(zn_binder *b, zn_vae_attention *a, int width, const char *name)
{
    if (b->status)
        return;
    zn_vae_bind_attention(b, a, &names, width, name);
    a->heads = zn_imax(1, zn_imin(MOST_HEADS, width / HEAD));
    if (!b->status && width % a->heads)
        zn_bind_fail(b, "the %d channels of '%s' do not divide into %d heads", width, name, a->heads);
}

/* NAME.J, as many as there are. */
static void bind_blocks(zn_binder *b, level *l, int width, const char *name)
{
    while (!b->status && (b->w ? zn_bind_has(b, "%s.%d.conv1.weight", name, l->n_res) : l->n_res < USUAL_BLOCKS)) {
        if (l->n_res == ZN_VAE_BLOCKS) {
            zn_bind_fail(b, "'%s' has more than %d blocks", name, ZN_VAE_BLOCKS);
            return;
        }
        zn_vae_bind_res(b, &l->res[l->n_res], &names, false, width, width, "%s.%d", name, l->n_res);
        l->n_res++;
    }
}

static void bind_middle(zn_binder *b, wan2d *m, int width)
{
    char name[ZN_VAE_NAME];

    snprintf(name, sizeof name, "%s.middle_res_blocks", side(m->decoder));
    bind_blocks(b, &m->middle, width, name);
    m->middle.has_attend = true;
    snprintf(name, sizeof name, "%s.middle_attention", side(m->decoder));
    bind_attention(b, &m->middle.attention, width, name);
}

/* Without a file: the width of level i in the order of the forward. */
static int usual_width(const zn_binder *b, const wan2d *m, int i)
{
    return (b->base ? b->base : USUAL_BASE) << (m->decoder ? USUAL_LEVELS - 1 - i : i);
}

static int bind_level(zn_binder *b, wan2d *m, int i, int width)
{
    level *l = &m->level[i];
    char base[ZN_VAE_NAME], name[ZN_VAE_NAME + 16];
    int cout;
    zn_conv conv;

    snprintf(base, sizeof base, "%s.%s_blocks.%d", side(m->decoder), m->decoder ? "up" : "down", i);
    snprintf(name, sizeof name, "%s.conv_in", base);
    cout = b->w ? zn_vae_width(b, name) : usual_width(b, m, i);
    conv = m->decoder ? zn_vae_twice(width, cout) : zn_conv_same(3, width, cout);
    conv.stride = m->decoder ? 1 : 2;
    zn_vae_bind_conv(b, &l->conv, conv, "%s", name);
    snprintf(name, sizeof name, "%s.res_blocks", base);
    bind_blocks(b, l, cout, name);
    snprintf(name, sizeof name, "%s.attention", base);
    l->has_attend = b->w ? zn_bind_has(b, "%s.qkv.weight", name) : i != (m->decoder ? USUAL_LEVELS - 1 : 0);
    if (l->has_attend)
        bind_attention(b, &l->attention, cout, name);
    return cout;
}

static void bind(zn_binder *b, wan2d *m, bool decoder)
{
    const char *s = side(decoder);
    char name[ZN_VAE_NAME];
    int width, z, scale;

    m->decoder = decoder;
    if (b->w && !recognise(b->w, decoder, b->variant, sizeof b->variant)) {
        zn_bind_fail(b, "these are not the weights of the document's 2-D Wan VAE, %s", s);
        return;
    }
    snprintf(name, sizeof name, "%s.%s", s, decoder ? "z_to_h" : "conv_in");
    width = b->w ? zn_vae_width(b, name) : usual_width(b, m, 0);
    z = !b->w     ? USUAL_Z
        : decoder ? zn_bind_dim(b, 1, "%s.weight", name)
                  : zn_bind_dim(b, 0, "%s.conv_out.weight", s) / 2;
    if (!b->status && (z < 1 || z > ZN_VAE_MAX_Z))
        zn_bind_fail(b, "%d latent channels are not from 1 to %d", z, ZN_VAE_MAX_Z);
    zn_vae_bind_conv(b, &m->first, zn_conv_same(decoder ? 1 : 3, decoder ? z : 3, width), "%s", name);
    if (decoder)
        bind_middle(b, m, width);
    while (!b->status &&
           (b->w ? zn_bind_has(b, "%s.%s_blocks.%d.conv_in.weight", s, decoder ? "up" : "down", m->n_levels)
                 : m->n_levels < USUAL_LEVELS)) {
        if (m->n_levels == ZN_VAE_LEVELS) {
            zn_bind_fail(b, "the %s has more than %d levels", s, ZN_VAE_LEVELS);
            return;
        }
        width = bind_level(b, m, m->n_levels, width);
        m->n_levels++;
    }
    if (!decoder)
        bind_middle(b, m, width);
    zn_vae_bind_norm(b, &m->last_norm, &names, width, "%s.norm_out", s);
    snprintf(name, sizeof name, "%s.conv_out", s);
    if (decoder)
        zn_vae_bind_conv(b, &m->last, zn_conv_same(3, width, 3), "%s", name);
    else
        zn_vae_bind_moments(b, &m->last, &m->spread, zn_conv_same(3, width, z), NULL, NULL, name);
    scale = 1 << m->n_levels;
    b->geometry = (zn_geometry){ .in_c = decoder ? z : 3,
                                 .out_c = decoder ? 3
                                     : b->outline ? 2 * z
                                                  : z,
                                 .shrink = decoder ? 1 : scale,
                                 .grow = decoder ? scale : 1,
                                 .multiple = decoder ? 1 : scale,
                                 .padded = !decoder,
                                 .halo = -1 };
}

static void bind_encoder(zn_binder *b, void *net)
{
    bind(b, net, false);
}

static void bind_decoder(zn_binder *b, void *net)
{
    bind(b, net, true);
}

/* ---- forward -------------------------------------------------------------------------------------------- */

static void run_block(zn_vae_run *r, const zn_vae_res *k, zn_act act)
{
    zn_tensor x = r->x, t = zn_vae_slot(r, 1, x.n, x.h, x.w, x.c), u = t;

    zn_conv2d(r->c, t, x, &k->conv1, (zn_tail){ 0 });
    if (zn_vae_in_strips(r, x, x.c)) {
        zn_vae_norm_conv(r, t, t, &k->norm1, act, &k->conv2, NULL, NULL, t);
    } else {
        u = zn_vae_slot(r, 2, x.n, x.h, x.w, x.c);
        zn_normalise(r->c, t, t, &k->norm1, (zn_tail){ .pre = act });
        zn_conv2d(r->c, u, t, &k->conv2, (zn_tail){ 0 });
    }
    zn_normalise(r->c, x, u, &k->norm2, (zn_tail){ .residual = &x, .post = act });
}

static void run_level(zn_vae_run *r, const level *l, zn_act act)
{
    for (int i = 0; i < l->n_res; i++)
        run_block(r, &l->res[i], act);
    if (l->has_attend)
        zn_vae_attend(r, &l->attention);
}

static void walk(zn_vae_run *r, const void *net, const zn_call *call)
{
    const wan2d *m = net;
    const zn_act act = call->set[SET_RELU] != 0 ? ZN_RELU : ZN_SILU;

    zn_vae_conv(r, &m->first, (zn_tail){ 0 });
    if (m->decoder)
        run_level(r, &m->middle, act);
    for (int i = 0; i < m->n_levels; i++) {
        zn_vae_conv(r, &m->level[i].conv, (zn_tail){ 0 });
        run_level(r, &m->level[i], act);
    }
    if (!m->decoder)
        run_level(r, &m->middle, act);
    zn_normalise(r->c, r->x, r->x, &m->last_norm, (zn_tail){ .pre = ZN_SILU });
    zn_conv2d(r->c, call->out[0], r->x, &m->last, (zn_tail){ .pre = m->decoder ? ZN_TANH : ZN_NONE });
    zn_vae_draw(r, &m->spread, 1);
}

static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    zn_vae_forward_slots(c, net, call, walk);
}

/* ---- descriptors ---------------------------------------------------------------------------------------- */

#define RELU                                                                                                           \
    {                                                                                                                  \
        "relu", 0, 0, 1, "1: the document's network before its optimisation, with ReLU instead of SiLU"                \
    }

static const zn_setting settings[] = { [SET_RELU] = RELU, { 0 } };
static const zn_setting encoder_settings[] = {
    [SET_RELU] = RELU, [SET_SAMPLE] = ZN_VAE_SAMPLE, [SET_SEED] = ZN_VAE_SEED, { 0 }
};
static const zn_posterior posterior = { SET_SAMPLE, SET_SEED };
static const zn_training training = { .tasks = ZN_TASK_RECONSTRUCT, .posterior = true };

const zn_arch zn_arch_wan2d_vae_encode = {
    .info = { .id = "wan2d-vae-encode",
              .summary = "picture (-1..1) to latent: the 2-D network of the third document",
              .in = { "x" },
              .out = { "z" },
              .weights = "wan2d-vae",
              .settings = encoder_settings,
              .narrow = 16 },
    .size = sizeof(wan2d),
    .recognise = recognise_encoder,
    .bind = bind_encoder,
    .forward = forward,
    .in_c = 3,
    .centred = true,
    .posterior = &posterior,
    .train = &training,
};

const zn_arch zn_arch_wan2d_vae_decode = {
    .info = { .id = "wan2d-vae-decode",
              .summary = "latent to picture: the other half",
              .in = { "z" },
              .out = { "x" },
              .weights = "wan2d-vae",
              .settings = settings,
              .narrow = 16 },
    .size = sizeof(wan2d),
    .recognise = recognise_decoder,
    .bind = bind_decoder,
    .forward = forward,
    .out_c = 3,
    .centred = true,
    .train = &training,
};
