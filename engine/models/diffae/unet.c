/* SPDX-License-Identifier: MIT */
/* unet.c - the conditional U-Net of the diffusion autoencoder: predicts noise (or v) from a noisy picture, the time step
 * and the code of the clean picture.
 *
 *   x ── conv ── level 0 ───────────────────── cat ── level 0 ── norm, SiLU, conv ── y
 *                  └── half ── level 1 ── cat ── level 1 ── double ┘
 *                                └ ... middle: block, attention, block ... ┘
 *
 * Going down, a level is R blocks (R + 1 results with the one it began with), going up R + 1 blocks.  Each block going up
 * also reads one of those results, the last one first (skip connections).  The results are written directly into the
 * concatenated tensors ("cat") that the blocks going up will read, so that no concatenation is computed.
 *
 * The layers that make scales, shifts and gates of the blocks from the time step and the code are two matrices, each
 * for all blocks. */
#include "diffae.h"

#include "../../core/ints.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Without a file: levels, their widths, the size of the code, of a time step's embedding and of its layers. */
enum { USUAL_LEVELS = 4, USUAL_PATCH = 2, USUAL_CODE = 512, USUAL_DIM = 64, USUAL_EMBED = 128 };
static const int usual_width[ZN_DIFFAE_LEVELS] = { 64, 128, 192, 192 };

typedef struct unet {
    int patch, levels, per_level; /* per_level: R above */
    zn_prediction prediction;
    int dim, embed, code, sum; /* of a time step's embedding, of its layers, of the code; of the blocks' widths */
    zn_diffae_times times;     /* last: embed to 2 * sum */
    zn_conv gate;              /* code to sum; its bias has the 1 of 1 + s in it */
    zn_conv first, last;
    zn_norm last_norm;
    int n_down, n_up;
    zn_diffae_res down[ZN_DIFFAE_BLOCKS]; /* down[0] is `first` */
    zn_diffae_res middle[2];              /* with attention after the first */
    zn_diffae_res up[ZN_DIFFAE_BLOCKS];
    bool doubles[ZN_DIFFAE_BLOCKS]; /* after up[i] comes twice[i] */
    zn_diffae_res twice[ZN_DIFFAE_BLOCKS];
} unet;

/* ---- bind ---------------------------------------------------------------------------------------------- */

static bool recognise(const zn_weights *w, char *what, size_t size)
{
    return zn_diffae_tells(ZN_DIFFAE_IS_UNET, w, what, size);
}

/* Going up, a level ends where the file has a block that doubles the size: sub-module 1, or 2 after an attention. */
static int doubling(const zn_binder *b, const char *prefix, int i)
{
    for (int j = 1; j <= 2; j++)
        if (zn_bind_has(b, "%soutput_blocks.%d.%d.in_layers.2.weight", prefix, i, j))
            return j;
    return 0;
}

/* Counts blocks; the number of results going down follows from the number of blocks going up. */
static void find_levels(zn_binder *b, unet *m, const char *prefix)
{
    int first = -1;

    if (!b->w) {
        m->per_level = 1;
        m->levels = USUAL_LEVELS;
        m->n_up = m->levels * (m->per_level + 1);
        return;
    }
    while (zn_bind_has(b, "%soutput_blocks.%d.0.in_layers.2.weight", prefix, m->n_up) && m->n_up < ZN_DIFFAE_BLOCKS) {
        if (first < 0 && doubling(b, prefix, m->n_up))
            first = m->n_up;
        m->n_up++;
    }
    m->per_level = (first < 0 ? m->n_up - 1 : first);
    m->levels = m->per_level < 1 ? 0 : m->n_up / (m->per_level + 1);
    if (!m->n_up || m->levels < 1 || m->levels > ZN_DIFFAE_LEVELS || m->n_up % (m->per_level + 1))
        zn_bind_fail(b, "the blocks of the U-Net do not form levels");
}

/* A block of the U-Net at a level: bound, and given its place in the rows of modulations. */
static int bind_block(zn_binder *b, unet *m, zn_diffae_res *r, int level, int cin, zn_diffae_resample how,
                      const char *name, const char *attention)
{
    const zn_diffae_res spec = { .cin = cin,
                                 .cout = how == ZN_SAME_SIZE ? usual_width[level] : cin,
                                 .resample = how,
                                 .conditioned = true,
                                 .has_attention = attention && level >= 2,
                                 .at = m->sum };

    zn_diffae_bind_res(b, r, spec, name, attention);
    m->sum += r->cout;
    return r->cout;
}

static int bind_down(zn_binder *b, unet *m, const char *prefix, int width)
{
    m->n_down = m->n_up;
    m->down[0].cout = width;
    for (int i = 1; !b->status && i < m->n_down; i++) {
        const bool half = i % (m->per_level + 1) == 0;
        char name[96], attention[96];

        snprintf(name, sizeof name, "%sinput_blocks.%d.0", prefix, i);
        snprintf(attention, sizeof attention, "%sinput_blocks.%d.1", prefix, i);
        width = bind_block(b, m, &m->down[i], i / (m->per_level + 1), width, half ? ZN_HALF_SIZE : ZN_SAME_SIZE, name,
                           half ? NULL : attention);
    }
    if (zn_bind_has(b, "%sinput_blocks.%d.0.in_layers.2.weight", prefix, m->n_down))
        zn_bind_fail(b, "there are more blocks going down than going up");
    return width;
}

static int bind_up(zn_binder *b, unet *m, const char *prefix, int width)
{
    for (int i = 0; !b->status && i < m->n_up; i++) {
        const int level = m->levels - 1 - i / (m->per_level + 1);
        const bool ends = i % (m->per_level + 1) == m->per_level && i + 1 < m->n_up;
        int last = doubling(b, prefix, i);
        char name[96], attention[96];

        if (b->w && (last != 0) != ends) {
            zn_bind_fail(b, "the blocks of the U-Net do not form levels");
            return width;
        }
        snprintf(name, sizeof name, "%soutput_blocks.%d.0", prefix, i);
        snprintf(attention, sizeof attention, "%soutput_blocks.%d.1", prefix, i);
        width =
            bind_block(b, m, &m->up[i], level, width + m->down[m->n_down - 1 - i].cout, ZN_SAME_SIZE, name, attention);
        m->doubles[i] = ends;
        if (ends) {
            last = last ? last : 2;
            snprintf(name, sizeof name, "%soutput_blocks.%d.%d", prefix, i, last);
            width = bind_block(b, m, &m->twice[i], level, width, ZN_DOUBLE_SIZE, name, NULL);
        }
    }
    return width;
}

typedef struct merged { /* the two matrices of all blocks, in host memory */
    const unet *m;
    float *time, *time_bias; /* [2 * sum][embed], [2 * sum] */
    float *gate, *gate_bias; /* [sum][code], [sum] */
} merged;

static void merge_block(zn_binder *b, merged *g, const zn_diffae_res *r, const char *name)
{
    const unet *m = g->m;
    const size_t c = (size_t)r->cout, at = (size_t)r->at, sum = (size_t)m->sum, embed = (size_t)m->embed,
                 code = (size_t)m->code;
    float *w = zn_bind_read(b, (int[5]){ 2 * r->cout, m->embed }, "%s.emb_layers.1.weight", name);
    float *v = zn_bind_read(b, (int[5]){ 2 * r->cout }, "%s.emb_layers.1.bias", name);
    float *s = zn_bind_read(b, (int[5]){ r->cout, m->code }, "%s.cond_emb_layers.1.weight", name);
    float *o = zn_bind_read(b, (int[5]){ r->cout }, "%s.cond_emb_layers.1.bias", name);

    if (!b->status) {
        memcpy(g->time + at * embed, w, c * embed * sizeof *w);
        memcpy(g->time + (sum + at) * embed, w + c * embed, c * embed * sizeof *w);
        memcpy(g->time_bias + at, v, c * sizeof *v);
        memcpy(g->time_bias + sum + at, v + c, c * sizeof *v);
        memcpy(g->gate + at * code, s, c * code * sizeof *s);
        for (size_t i = 0; i < c; i++)
            g->gate_bias[at + i] = o[i] + 1;
    }
    free(w);
    free(v);
    free(s);
    free(o);
}

static void bind_modulation(zn_binder *b, unet *m, const char *prefix)
{
    const size_t sum = (size_t)m->sum;
    merged g = { .m = m };
    char name[96];

    if (b->status)
        return;
    g.time = malloc(2 * sum * (size_t)m->embed * sizeof *g.time);
    g.time_bias = malloc(2 * sum * sizeof *g.time_bias);
    g.gate = malloc(sum * (size_t)m->code * sizeof *g.gate);
    g.gate_bias = malloc(sum * sizeof *g.gate_bias);
    if (!g.time || !g.time_bias || !g.gate || !g.gate_bias)
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for the layers of the time step");
    for (int i = 1; i < m->n_down; i++) {
        snprintf(name, sizeof name, "%sinput_blocks.%d.0", prefix, i);
        merge_block(b, &g, &m->down[i], name);
    }
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%smiddle_block.%d", prefix, 2 * i);
        merge_block(b, &g, &m->middle[i], name);
    }
    for (int i = 0; i < m->n_up; i++) {
        snprintf(name, sizeof name, "%soutput_blocks.%d.0", prefix, i);
        merge_block(b, &g, &m->up[i], name);
        if (m->doubles[i]) {
            snprintf(name, sizeof name, "%soutput_blocks.%d.%d", prefix, i, doubling(b, prefix, i));
            merge_block(b, &g, &m->twice[i], name);
        }
    }
    if (!b->status)
        zn_bind_pack(b, &m->times.last, zn_conv_same(1, m->embed, 2 * m->sum), g.time, g.time_bias);
    if (!b->status)
        zn_bind_pack(b, &m->gate, zn_conv_same(1, m->code, m->sum), g.gate, g.gate_bias);
    free(g.time);
    free(g.time_bias);
    free(g.gate);
    free(g.gate_bias);
}

static void bind(zn_binder *b, void *net)
{
    unet *m = net;
    const char *prefix = zn_diffae_prefix(b->w);
    char name[96], attention[96];
    int width = usual_width[0];

    if (b->w && !recognise(b->w, b->variant, sizeof b->variant)) {
        zn_bind_fail(b, "these are not the weights of a diffusion autoencoder's U-Net");
        return;
    }
    m->patch = zn_diffae_number(b, "patch", 1, 8, b->w ? 1 : USUAL_PATCH);
    m->prediction = zn_diffae_find_prediction(b, "prediction");
    m->dim = USUAL_DIM, m->embed = USUAL_EMBED, m->code = USUAL_CODE;
    if (b->w) {
        m->dim = zn_bind_dim(b, 1, "%stime_embed.time_embed.0.weight", prefix);
        m->embed = zn_bind_dim(b, 0, "%stime_embed.time_embed.0.weight", prefix);
        m->code = zn_bind_dim(b, 1, "%sinput_blocks.1.0.cond_emb_layers.1.weight", prefix);
        width = zn_bind_dim(b, 0, "%sinput_blocks.0.0.weight", prefix);
    }
    if (!m->patch || m->prediction == ZN_N_PREDICTIONS)
        zn_bind_fail(b, "the metadata's patch or prediction makes no sense");
    else if (m->dim < 2 || m->dim > ZN_DIFFAE_MAX_C || m->embed < 1 || m->embed > ZN_DIFFAE_MAX_C || m->code < 1 ||
             m->code > ZN_DIFFAE_MAX_C || width < 1 || width > ZN_DIFFAE_MAX_C)
        zn_bind_fail(b, "the widths of the U-Net make no sense");
    else
        find_levels(b, m, prefix);
    if (b->status)
        return;

    snprintf(name, sizeof name, "%stime_embed.time_embed", prefix);
    zn_diffae_bind_times(b, &m->times, m->dim, m->embed, name);
    zn_bind_conv(b, &m->first, zn_conv_same(3, 3 * m->patch * m->patch, width), "%sinput_blocks.0.0", prefix);
    width = bind_down(b, m, prefix, width);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%smiddle_block.%d", prefix, 2 * i);
        snprintf(attention, sizeof attention, "%smiddle_block.1", prefix);
        bind_block(b, m, &m->middle[i], m->levels - 1, width, ZN_SAME_SIZE, name, i ? NULL : attention);
        if (!b->status && m->middle[i].cout != width)
            zn_bind_fail(b, "the middle of the U-Net changes its width");
    }
    width = bind_up(b, m, prefix, width);
    m->last_norm = zn_diffae_group_norm(b, width, "%sout.0", prefix);
    zn_bind_conv(b, &m->last, zn_conv_same(3, width, 3 * m->patch * m->patch), "%sout.2", prefix);
    bind_modulation(b, m, prefix);
}

zn_prediction zn_diffae_prediction(const void *net)
{
    return ((const unet *)net)->prediction;
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* What follows from the codes alone. */
static void gates_of(zn_ctx *c, const unet *m, zn_tensor gate, zn_tensor code)
{
    const size_t mark = zn_mark(c->arena);
    zn_tensor u = zn_new(c, code.n, 1, 1, m->code);

    zn_map(c, u, code, (zn_tail){ .pre = ZN_SILU });
    zn_conv2d(c, gate, u, &m->gate, (zn_tail){ 0 });
    zn_reset(c->arena, mark);
}

/* The prediction for x, y of the same shape. */
static void predict(zn_ctx *c, const unet *m, zn_tensor y, zn_tensor x, const zn_diffae_modulation *mod)
{
    const size_t mark = zn_mark(c->arena);
    zn_tensor cat[ZN_DIFFAE_BLOCKS]; /* input of up[i]: the result of the level below, then the skip connection */
    zn_tensor h = { 0 }, in = x;
    int height = x.h / m->patch, width = x.w / m->patch;

    if (m->patch > 1) {
        in = zn_new(c, x.n, height, width, x.c * m->patch * m->patch);
        zn_unshuffle(c, in, x, m->patch);
    }
    for (int i = 0; i < m->n_down; i++) {
        const int up = m->n_up - 1 - i, beside = m->down[i].cout, below = m->up[up].cin - beside;
        zn_tensor to;

        if (m->down[i].resample == ZN_HALF_SIZE)
            height /= 2, width /= 2;
        cat[up] = zn_new(c, x.n, height, width, m->up[up].cin);
        to = zn_slice(cat[up], below, beside);
        if (i)
            zn_diffae_run_res(c, &m->down[i], to, h, mod);
        else
            zn_conv2d(c, to, in, &m->first, (zn_tail){ 0 });
        h = to;
        zn_watch(c, h, "input_blocks.%d", i);
    }
    {
        zn_tensor t = zn_new(c, x.n, height, width, h.c), to = zn_slice(cat[0], 0, h.c);

        zn_diffae_run_res(c, &m->middle[0], t, h, mod);
        zn_diffae_run_res(c, &m->middle[1], to, t, mod);
        zn_watch(c, to, "middle_block");
    }
    for (int i = 0; i < m->n_up; i++) {
        const bool last = i + 1 == m->n_up;
        zn_tensor to = last || m->doubles[i] ? zn_new(c, x.n, height, width, m->up[i].cout)
                                             : zn_slice(cat[i + 1], 0, m->up[i].cout);

        zn_diffae_run_res(c, &m->up[i], to, cat[i], mod);
        if (m->doubles[i]) {
            height *= 2, width *= 2;
            h = zn_slice(cat[i + 1], 0, m->twice[i].cout);
            zn_diffae_run_res(c, &m->twice[i], h, to, mod);
        } else {
            h = to;
        }
        zn_watch(c, h, "output_blocks.%d", i);
    }
    zn_normalise(c, h, h, &m->last_norm, (zn_tail){ .pre = ZN_SILU });
    if (m->patch > 1) {
        zn_tensor t = zn_new(c, x.n, height, width, x.c * m->patch * m->patch);

        zn_conv2d(c, t, h, &m->last, (zn_tail){ 0 });
        zn_shuffle(c, y, t, m->patch, (zn_tail){ 0 });
    } else {
        zn_conv2d(c, y, h, &m->last, (zn_tail){ 0 });
    }
    zn_reset(c->arena, mark);
}

static bool shape(const void *net, const zn_tensor *in, int n_in, zn_tensor *out)
{
    const unet *m = net;
    const int multiple = m->patch << (m->levels - 1);

    if (n_in != 3 || in[0].c != 3 || in[0].h % multiple || in[0].w % multiple || in[1].h != 1 || in[1].w != 1 ||
        in[1].c != 1 || in[2].h != 1 || in[2].w != 1 || in[2].c != m->code)
        return false;
    out[0] = in[0];
    return true;
}

int zn_diffae_row(const void *net)
{
    return 2 * ((const unet *)net)->sum;
}

int zn_diffae_gate(const void *net)
{
    return ((const unet *)net)->sum;
}

static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    const unet *m = net;
    const zn_tensor x = call->in[0];
    zn_diffae_modulation mod = { .time = call->in[1], .gate = call->in[2] };
    zn_tensor t = call->in[1];

    if (call->n_out == 2) { /* what the time steps and the codes give, for later calls */
        zn_diffae_run_times(c, &m->times, call->out[0], x);
        gates_of(c, m, call->out[1], t);
        return;
    }
    if (t.c == 1) {
        mod.time = zn_new(c, x.n, 1, 1, 2 * m->sum);
        mod.gate = zn_new(c, x.n, 1, 1, m->sum);
        if (x.n > 1) { /* one time step for all */
            zn_tensor each = zn_new_of(c, ZN_F32, x.n, 1, 1, 1);

            zn_fill(c, each, &(float){ 0 });
            zn_combine(c, each, each, t, ZN_ADD, (zn_tail){ 0 });
            t = each;
        }
        zn_diffae_run_times(c, &m->times, mod.time, t);
        gates_of(c, m, mod.gate, call->in[2]);
    }
    predict(c, m, call->out[0], x, &mod);
}

static int example(const void *net, int w, int h, zn_tensor *in)
{
    const unet *m = net;
    const int multiple = m->patch << (m->levels - 1);

    in[0] = (zn_tensor){ .n = 1, .h = zn_round_up(h, multiple), .w = zn_round_up(w, multiple), .c = 3 };
    in[1] = (zn_tensor){ .n = 1, .h = 1, .w = 1, .c = 1 };
    in[2] = (zn_tensor){ .n = 1, .h = 1, .w = 1, .c = m->code };
    return 3;
}

const zn_arch zn_arch_diffae_unet = {
    .info = { .id = "diffae-unet",
              .summary = "a noisy picture, its time step and its code to the noise: one call of the U-Net",
              .in = { "x", "t", "cond" },
              .out = { "eps" },
              .weights = "zenith-face" },
    .size = sizeof(unet),
    .recognise = recognise,
    .bind = bind,
    .forward = forward,
    .shape = shape,
    .example = example,
};
