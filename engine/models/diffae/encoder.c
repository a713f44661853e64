/* SPDX-License-Identifier: MIT */
/* encoder.c - the semantic encoder of the diffusion autoencoder: a picture to a code that describes its content.
 *
 *   x ── conv ── level 0 ── half ── level 1 ── ... ── middle: block, attention, block ── norm, SiLU, mean ── 1x1 ── code
 *
 * A level is R blocks of one convolution.  The file does not say which blocks halve the size: R is 2 as published, or
 * the metadata's encoder_blocks. */
#include "diffae.h"

#include "../../core/ints.h"

#include <stdio.h>
#include <string.h>

/* Without a file. */
enum { USUAL_LEVELS = 5, USUAL_PATCH = 2, USUAL_CODE = 512 };
static const int usual_width[ZN_DIFFAE_LEVELS] = { 64, 96, 128, 192, 320 };

typedef struct encoder {
    int patch, levels, code, n_blocks;
    zn_conv first, last;
    zn_norm last_norm;
    zn_diffae_res block[ZN_DIFFAE_BLOCKS]; /* block[0] is `first` */
    zn_diffae_res middle[2];
} encoder;

static bool recognise(const zn_weights *w, char *what, size_t size)
{
    return zn_diffae_tells(ZN_DIFFAE_IS_CODES, w, what, size);
}

/* ---- bind ---------------------------------------------------------------------------------------------- */

static void bind(zn_binder *b, void *net)
{
    encoder *m = net;
    const char *prefix = zn_diffae_prefix(b->w);
    const int per_level = zn_diffae_number(b, "encoder_blocks", 1, 8, 2);
    char name[96], attention[96];
    int multiple;
    int width = b->w ? zn_bind_dim(b, 0, "%sencoder.input_blocks.0.0.weight", prefix) : usual_width[0];

    m->code = b->w ? zn_bind_dim(b, 0, "%sencoder.out.3.weight", prefix) : USUAL_CODE;
    m->patch = zn_diffae_number(b, "patch", 1, 8, b->w ? 1 : USUAL_PATCH);
    if (!m->code || width < 1 || width > ZN_DIFFAE_MAX_C || m->code > ZN_DIFFAE_MAX_C) {
        zn_bind_fail(b, "these are not the weights of a diffusion autoencoder's encoder");
        return;
    }
    m->n_blocks = b->w ? 1 : USUAL_LEVELS * (per_level + 1);
    while (m->n_blocks < ZN_DIFFAE_BLOCKS &&
           zn_bind_has(b, "%sencoder.input_blocks.%d.0.in_layers.2.weight", prefix, m->n_blocks))
        m->n_blocks++;
    m->levels = per_level ? m->n_blocks / (per_level + 1) : 0;
    if (!m->patch || !per_level || m->levels < 1 || m->levels > ZN_DIFFAE_LEVELS || m->n_blocks % (per_level + 1)) {
        zn_bind_fail(b, "the blocks of the encoder do not form levels");
        return;
    }
    multiple = m->patch << (m->levels - 1);
    b->geometry.in_c = 3;
    b->geometry.out_c = m->code;
    /* All published encoders end at 4 x 4. */
    b->geometry.side = zn_diffae_number(b, "image_size", multiple, 4096, 4 * multiple);
    if (!b->geometry.side || b->geometry.side % multiple) {
        zn_bind_fail(b, "image_size is not a multiple of %d up to 4096", multiple);
        return;
    }
    snprintf(b->variant, sizeof b->variant, "encoder of a diffusion autoencoder, code of %d numbers", m->code);
    zn_bind_conv(b, &m->first, zn_conv_same(3, 3 * m->patch * m->patch, width), "%sencoder.input_blocks.0.0", prefix);
    for (int i = 1; !b->status && i < m->n_blocks; i++) {
        const int level = i / (per_level + 1);
        const bool half = i % (per_level + 1) == 0;
        const zn_diffae_res spec = { .cin = width,
                                     .cout = half ? width : usual_width[level],
                                     .resample = half ? ZN_HALF_SIZE : ZN_SAME_SIZE,
                                     .has_attention = !half && level == 2 };

        snprintf(name, sizeof name, "%sencoder.input_blocks.%d.0", prefix, i);
        snprintf(attention, sizeof attention, "%sencoder.input_blocks.%d.1", prefix, i);
        zn_diffae_bind_res(b, &m->block[i], spec, name, half ? NULL : attention);
        width = m->block[i].cout;
    }
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%sencoder.middle_block.%d", prefix, 2 * i);
        snprintf(attention, sizeof attention, "%sencoder.middle_block.1", prefix);
        zn_diffae_bind_res(b, &m->middle[i], (zn_diffae_res){ .cin = width, .cout = width, .has_attention = !i }, name,
                           i ? NULL : attention);
        if (!b->status && m->middle[i].cout != width)
            zn_bind_fail(b, "the middle of the encoder changes its width");
    }
    m->last_norm = zn_diffae_group_norm(b, width, "%sencoder.out.0", prefix);
    zn_bind_conv(b, &m->last, zn_conv_same(1, width, m->code), "%sencoder.out.3", prefix);
}

/* ---- forward ------------------------------------------------------------------------------------------- */

static bool shape(const void *net, const zn_tensor *in, int n_in, zn_tensor *out)
{
    const encoder *m = net;
    const int multiple = m->patch << (m->levels - 1);

    if (n_in != 1 || in[0].c != 3 || in[0].h % multiple || in[0].w % multiple)
        return false;
    out[0] = (zn_tensor){ .n = in[0].n, .h = 1, .w = 1, .c = m->code };
    return true;
}

static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    const encoder *m = net;
    zn_tensor x = call->in[0], h, mean;

    if (m->patch > 1) {
        zn_tensor u = zn_new(c, x.n, x.h / m->patch, x.w / m->patch, x.c * m->patch * m->patch);

        zn_unshuffle(c, u, x, m->patch);
        x = u;
    }
    h = zn_new(c, x.n, x.h, x.w, m->first.cout);
    zn_conv2d(c, h, x, &m->first, (zn_tail){ 0 });
    for (int i = 1; i < m->n_blocks + 2; i++) {
        const zn_diffae_res *r = i < m->n_blocks ? &m->block[i] : &m->middle[i - m->n_blocks];
        const int half = r->resample == ZN_HALF_SIZE ? 2 : 1;
        zn_tensor y = zn_new(c, h.n, h.h / half, h.w / half, r->cout);

        zn_diffae_run_res(c, r, y, h, NULL);
        h = y;
    }
    zn_normalise(c, h, h, &m->last_norm, (zn_tail){ .pre = ZN_SILU });
    mean = zn_new(c, h.n, 1, 1, h.c);
    zn_resize(c, mean, h, ZN_AVERAGE);
    zn_conv2d(c, call->out[0], mean, &m->last, (zn_tail){ 0 });
}

static int example(const void *net, int w, int h, zn_tensor *in)
{
    const encoder *m = net;
    const int multiple = m->patch << (m->levels - 1);

    in[0] = (zn_tensor){ .n = 1, .h = zn_round_up(h, multiple), .w = zn_round_up(w, multiple), .c = 3 };
    return 1;
}

const zn_arch zn_arch_diffae_encode = {
    .info = { .id = "diffae-encode",
              .summary = "a picture to its semantic code",
              .in = { "x" },
              .out = { "cond" },
              .weights = "zenith-face" },
    .half_ok = true,
    .half_unless = ZN_DIFFAE_OFFICIAL,
    .size = sizeof(encoder),
    .recognise = recognise,
    .bind = bind,
    .forward = forward,
    .shape = shape,
    .example = example,
};
