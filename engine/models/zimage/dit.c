/* SPDX-License-Identifier: MIT */
/* dit.c - the transformer of Z-Image, in two networks: what depends on the caption alone runs once a picture.
 *
 *   caption:  features ── RMS ── linear ── padded ── context refiner ── caption tokens
 *
 *   step:     time ── linear, SiLU, linear ── c
 *             latent ── 2x2 patches, linear ── padded ── noise refiner ──┐
 *             caption tokens ────────────────────────────────────────────┴── layers ── LayerNorm ── linear ── patches
 *
 *   block:    x += G RMS(attention(S RMS(x)));  x += G' RMS(feed_forward(S' RMS(x)))
 *             S, S' = 1 + linear(c), G, G' = tanh(linear(c)); in the context refiner all are 1
 *
 * A patch's numbers are ordered by row, column, channel in the file; its linear layers are reordered when they are bound, so that
 * the first is a 2x2 convolution and the last ends in a shuffle.  Padding tokens are attended to, as in training.
 *
 * Several pictures of one caption and time are sequences one after the other: all layers but attention see them as one. */
#include "zimage.h"

#include "../../core/ints.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATCH = 2, MAX_REFINERS = 8 };
enum {
    USUAL_WIDTH = 64,
    USUAL_HEAD = 16,
    USUAL_FEED = 96,
    USUAL_LAYERS = 2,
    USUAL_REFINERS = 1,
    USUAL_LATENT = 16,
    USUAL_FEATURES = 64, /* what z-image-text makes without a file */
    USUAL_TIME = 32,
    USUAL_MID = 48
}; /* usual: without a file */
enum {
    PUBLISHED_HEAD = 128,
    PUBLISHED_LAYERS = 30,
    PUBLISHED_REFINERS = 2,
    PUBLISHED_FEATURES = 2560,
    PUBLISHED_TIME = 256,
    PUBLISHED_MID = 1024
}; /* without a file, if the width is given: 3840 is that of Z-Image */

static const float rms_eps = 1e-5f, final_eps = 1e-6f;
static const double rope_base = 256, time_base = 1e4, time_scale = 1000;

typedef struct block {
    zn_norm norm[4]; /* before and after attention, before and after the feed-forward layer */
    zn_zimage_attention attention;
    zn_zimage_feed feed;
    zn_conv scale, gate; /* linear, [2 * width][time's width]: of attention, of the feed-forward layer; unless plain */
    bool plain;
} block;

typedef struct caption {
    int features, width, head, n;
    zn_norm norm;
    zn_conv embed; /* linear */
    zn_tensor pad; /* [1][1][1][width] */
    block refiner[MAX_REFINERS];
} caption;

typedef struct step {
    zn_zimage_sizes sizes;
    int cond, n_refiners, n_layers; /* cond: width of c */
    zn_conv time[2];                /* linear */
    zn_conv embed;                  /* 2x2, stride 2 */
    zn_tensor pad;                  /* [1][1][1][width] */
    zn_conv final_scale, last;      /* linear */
    block refiner[MAX_REFINERS], layer[ZN_ZIMAGE_MAX_LAYERS];
} step;

/* ---- names --------------------------------------------------------------------------------------------- */

typedef struct layout {
    const char *prefix;
    const char *embed, *last, *final_scale, *time[2], *caption[2]; /* of the network */
    const char *q, *k, *v, *out, *q_norm, *k_norm, *modulation;    /* of a block; k NULL: q has all three */
} layout;

#define SINGLE(prefix)                                                                                                 \
    {                                                                                                                  \
        prefix, "x_embedder", "final_layer.linear", "final_layer.adaLN_modulation.1",                                  \
            { "t_embedder.mlp.0", "t_embedder.mlp.2" }, { "cap_embedder.0", "cap_embedder.1" }, "attention.qkv", NULL, \
            NULL, "attention.out", "attention.q_norm", "attention.k_norm", "adaLN_modulation.0"                        \
    }

static const layout layouts[] = {
    { "",
      "all_x_embedder.2-1",
      "all_final_layer.2-1.linear",
      "all_final_layer.2-1.adaLN_modulation.1",
      { "t_embedder.mlp.0", "t_embedder.mlp.2" },
      { "cap_embedder.0", "cap_embedder.1" },
      "attention.to_q",
      "attention.to_k",
      "attention.to_v",
      "attention.to_out.0",
      "attention.norm_q",
      "attention.norm_k",
      "adaLN_modulation.0" }, /* diffusers */
    SINGLE(""),
    SINGLE("model.diffusion_model."),
    { "",
      "x_embedder",
      "final_layer.linear",
      "final_layer.adaLN_modulation.layers.1",
      { "t_embedder.linear1", "t_embedder.linear2" },
      { "cap_embedder.layers.0", "cap_embedder.layers.1" },
      "attention.to_q",
      "attention.to_k",
      "attention.to_v",
      "attention.to_out",
      "attention.norm_q",
      "attention.norm_k",
      "adaLN_modulation" }, /* MLX */
};

/* The layout of a file; NULL: of none.  The names of the time's layers, of attention and of the embedding tell them apart. */
static const layout *layout_of(const zn_weights *w)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const layout *l = &layouts[i];
        char embed[96], q[96], time[96];

        snprintf(embed, sizeof embed, "%s%s.weight", l->prefix, l->embed);
        snprintf(q, sizeof q, "%slayers.0.%s.weight", l->prefix, l->q);
        snprintf(time, sizeof time, "%s%s.weight", l->prefix, l->time[0]);
        if (zn_weights_get(w, embed) && zn_weights_get(w, q) && zn_weights_get(w, time))
            return l;
    }
    return NULL;
}

bool zn_zimage_recognise(const zn_weights *w, char *what, size_t size)
{
    const layout *l = layout_of(w);

    if (l)
        snprintf(what, size, "Z-Image transformer");
    return l;
}

/* ---- bind ---------------------------------------------------------------------------------------------- */

/* A size without a file. */
static int usual(const zn_binder *b, int small, int published)
{
    return b->base ? published : small;
}

static zn_norm rms(int c)
{
    return (zn_norm){ .kind = ZN_RMS_NORM, .c = c, .no_bias = true, .eps = rms_eps };
}

/* A vector that may be stored as a row, on the device. */
static zn_tensor bind_row(zn_binder *b, int c, const char *prefix, const char *name)
{
    const bool row = !b->w || (zn_bind_dim(b, 0, "%s%s", prefix, name) == 1 && c > 1);
    float *host = zn_bind_read(b, row ? (int[5]){ 1, c } : (int[5]){ c }, "%s%s", prefix, name);
    zn_tensor t = { .n = 1, .h = 1, .w = 1, .c = c, .ld = c };

    t.data = host ? zn_bind_device(b, host, (size_t)c * sizeof *host) : NULL;
    free(host);
    return t;
}

/* Rows of a matrix, `each` at a time, in another order: the two that scale and the two that gate are one layer each. */
static void bind_modulation(zn_binder *b, block *k, int width, int cond, const char *name)
{
    const size_t rows = 2 * (size_t)width, row = (size_t)cond;
    float *weight = zn_bind_read(b, (int[5]){ 4 * width, cond }, "%s.weight", name);
    float *bias = zn_bind_read(b, (int[5]){ 4 * width }, "%s.bias", name);
    float *w = weight ? malloc(rows * row * sizeof *w) : NULL, *v = bias ? malloc(rows * sizeof *v) : NULL;
    zn_conv spec = zn_conv_same(1, cond, 2 * width);

    if (!b->status && (!w || !v))
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for '%s'", name);
    for (int gate = 0; gate < 2 && !b->status;
         gate++) { /* in the file: scale, gate of attention; scale, gate of the rest */
        for (int i = 0; i < 2 && !b->counting; i++) {
            const size_t from = (size_t)(2 * i + gate) * (size_t)width, to = (size_t)i * (size_t)width;

            memcpy(w + to * row, weight + from * row, (size_t)width * row * sizeof *w);
            memcpy(v + to, bias + from, (size_t)width * sizeof *v);
        }
        zn_bind_pack(b, gate ? &k->gate : &k->scale, spec, w, v);
    }
    free(weight);
    free(bias);
    free(w);
    free(v);
}

static zn_conv linear(int cin, int cout, bool row_scales)
{
    zn_conv c = zn_zimage_linear(cin, cout);

    c.row_scales = row_scales;
    return c;
}

static void bind_attention(zn_binder *b, zn_zimage_attention *a, int width, int head, const layout *l, const char *name,
                           bool row_scales)
{
    const zn_conv spec = linear(width, width, row_scales);
    float *all = l->k ? NULL : zn_bind_read(b, (int[5]){ 3 * width, width }, "%s.%s.weight", name, l->q);
    const size_t each = (size_t)width * (size_t)width;

    if (l->k) {
        zn_bind_conv(b, &a->q, spec, "%s.%s", name, l->q);
        zn_bind_conv(b, &a->k, spec, "%s.%s", name, l->k);
        zn_bind_conv(b, &a->v, spec, "%s.%s", name, l->v);
    } else if (all) {
        zn_bind_pack(b, &a->q, spec, all, NULL);
        zn_bind_pack(b, &a->k, spec, all + each, NULL);
        zn_bind_pack(b, &a->v, spec, all + 2 * each, NULL);
    }
    free(all);
    zn_bind_norm(b, &a->q_norm, rms(head), "%s.%s", name, l->q_norm);
    zn_bind_norm(b, &a->k_norm, rms(head), "%s.%s", name, l->k_norm);
    zn_bind_conv(b, &a->out, spec, "%s.%s", name, l->out);
    a->how = (zn_attention){ .heads = width / head, .kv_heads = width / head };
    a->interleaved = true;
}

/* cond 0: a plain block */
static void bind_block(zn_binder *b, block *k, int width, int head, int cond, const layout *l, const char *kind, int i,
                       bool row_scales)
{
    static const char *const norms[] = { "attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2" };
    char name[96], modulation[128];
    int feed;

    snprintf(name, sizeof name, "%s%s.%d", l->prefix, kind, i);
    snprintf(modulation, sizeof modulation, "%s.%s", name, l->modulation);
    feed = b->w ? zn_bind_dim(b, 0, "%s.feed_forward.w1.weight", name) : usual(b, USUAL_FEED, width / 3 * 8);
    if (feed < 1 || feed > ZN_ZIMAGE_MAX_C) {
        zn_bind_fail(b, "the feed-forward layer of %s makes no sense", name);
        return;
    }
    for (int n = 0; n < 4; n++)
        zn_bind_norm(b, &k->norm[n], rms(width), "%s.%s", name, norms[n]);
    bind_attention(b, &k->attention, width, head, l, name, row_scales);
    zn_bind_conv(b, &k->feed.gate, linear(width, feed, row_scales), "%s.feed_forward.w1", name);
    zn_bind_conv(b, &k->feed.up, linear(width, feed, row_scales), "%s.feed_forward.w3", name);
    zn_bind_conv(b, &k->feed.down, linear(feed, width, row_scales), "%s.feed_forward.w2", name);
    k->plain = !cond;
    if (cond)
        bind_modulation(b, k, width, cond, modulation);
}

static const layout *layout_bound(const zn_binder *b)
{
    return b->w ? layout_of(b->w) : &layouts[0];
}

static void bind_context_refiner(zn_binder *b, void *net, int i)
{
    caption *m = net;

    bind_block(b, &m->refiner[i], m->width, m->head, 0, layout_bound(b), "context_refiner", i, false);
}

/* The refiners, then the layers.  All layers enlarge an error of the refiners: these keep inputs of 16 bits. */
static void bind_step_block(zn_binder *b, void *net, int i)
{
    step *m = net;
    const zn_zimage_sizes *z = &m->sizes;
    const bool refines = i < m->n_refiners;

    bind_block(b, refines ? &m->refiner[i] : &m->layer[i - m->n_refiners], z->width, z->head, m->cond, layout_bound(b),
               refines ? "noise_refiner" : "layers", refines ? i : i - m->n_refiners, !refines);
}

/* How many blocks of this kind the file has; 0 if that makes no sense. */
static int count_blocks(const zn_binder *b, const layout *l, const char *kind, int usual, int most)
{
    int n = 0;

    while (b->w && n <= most && zn_bind_has(b, "%s%s.%d.attention_norm1.weight", l->prefix, kind, n))
        n++;
    return b->w ? (n > most ? 0 : n) : usual;
}

/* Width and head of the tokens; false: not of such a network, and the status says so. */
static bool bind_sizes(zn_binder *b, const layout *l, int *width, int *head)
{
    *width = usual(b, USUAL_WIDTH, b->base);
    *head = usual(b, USUAL_HEAD, PUBLISHED_HEAD);
    if (l && b->w) {
        *width = zn_bind_dim(b, 0, "%s%s.weight", l->prefix, l->embed);
        *head = zn_bind_dim(b, 0, "%slayers.0.%s.weight", l->prefix, l->q_norm);
    }
    if (!l)
        zn_bind_fail(b, "these are not the weights of Z-Image's transformer");
    else if (*width < 1 || *width > ZN_ZIMAGE_MAX_C || *head < 16 || *head > 1024 || *head % 16 || *width % *head)
        zn_bind_fail(b, "%d channels in heads of %d make no sense", *width, *head);
    return !b->status;
}

static void bind_caption(zn_binder *b, void *net)
{
    caption *m = net;
    const layout *l = layout_bound(b);

    if (!bind_sizes(b, l, &m->width, &m->head))
        return;
    m->features = b->w ? zn_bind_dim(b, 1, "%s%s.weight", l->prefix, l->caption[1])
                       : usual(b, USUAL_FEATURES, PUBLISHED_FEATURES);
    m->n = count_blocks(b, l, "context_refiner", usual(b, USUAL_REFINERS, PUBLISHED_REFINERS), MAX_REFINERS);
    if (m->features < 1 || m->features > ZN_ZIMAGE_MAX_C || !m->n) {
        zn_bind_fail(b, "the sizes of the caption's layers make no sense");
        return;
    }
    snprintf(b->variant, sizeof b->variant, "Z-Image captions of %d channels, %d blocks", m->features, m->n);
    zn_bind_norm(b, &m->norm, rms(m->features), "%s%s", l->prefix, l->caption[0]);
    zn_bind_conv(b, &m->embed, zn_conv_same(1, m->features, m->width), "%s%s", l->prefix, l->caption[1]);
    m->pad = bind_row(b, m->width, l->prefix, "cap_pad_token");
    zn_bind_layers(b, m, m->n, bind_context_refiner);
}

/* The first linear layer [width][row, column, channel] as a convolution. */
static void bind_embed(zn_binder *b, step *m, const layout *l)
{
    const int ch = m->sizes.latent, area = PATCH * PATCH;
    float *weight = zn_bind_read(b, (int[5]){ m->sizes.width, area * ch }, "%s%s.weight", l->prefix, l->embed);
    float *bias = zn_bind_read(b, (int[5]){ m->sizes.width }, "%s%s.bias", l->prefix, l->embed);
    float *w = weight ? malloc((size_t)m->sizes.width * (size_t)(area * ch) * sizeof *w) : NULL;

    if (weight && !w)
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for the embedding of patches");
    for (int o = 0; w && o < m->sizes.width; o++)
        for (int c = 0; c < ch; c++)
            for (int p = 0; p < area; p++)
                w[(o * ch + c) * area + p] = weight[(o * area + p) * ch + c];
    zn_bind_pack(
        b, &m->embed,
        (zn_conv){ .kh = PATCH, .kw = PATCH, .stride = PATCH, .cin = ch, .cout = m->sizes.width, .has_bias = true }, w,
        bias);
    free(weight);
    free(bias);
    free(w);
}

/* The last linear layer [row, column, channel][width] with its rows in the order that a shuffle takes: channel, row, column. */
static void bind_last(zn_binder *b, step *m, const layout *l)
{
    const int ch = m->sizes.latent, area = PATCH * PATCH;
    const size_t width = (size_t)m->sizes.width;
    float *weight = zn_bind_read(b, (int[5]){ area * ch, m->sizes.width }, "%s%s.weight", l->prefix, l->last);
    float *bias = zn_bind_read(b, (int[5]){ area * ch }, "%s%s.bias", l->prefix, l->last);
    float *w = weight ? malloc((size_t)(area * ch) * width * sizeof *w) : NULL;
    float *v = bias ? malloc((size_t)(area * ch) * sizeof *v) : NULL;

    if (!b->status && (!w || !v))
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for the last layer");
    for (int c = 0; !b->status && c < ch; c++)
        for (int p = 0; p < area; p++) {
            memcpy(w + (size_t)(c * area + p) * width, weight + (size_t)(p * ch + c) * width, width * sizeof *w);
            v[c * area + p] = bias[p * ch + c];
        }
    zn_bind_pack(b, &m->last, zn_conv_same(1, m->sizes.width, area * ch), w, v);
    free(weight);
    free(bias);
    free(w);
    free(v);
}

static void bind_step(zn_binder *b, void *net)
{
    step *m = net;
    zn_zimage_sizes *z = &m->sizes;
    const layout *l = layout_bound(b);
    int patch = USUAL_LATENT * PATCH * PATCH, mid = usual(b, USUAL_MID, PUBLISHED_MID);

    if (!bind_sizes(b, l, &z->width, &z->head))
        return;
    z->time = m->cond = usual(b, USUAL_TIME, PUBLISHED_TIME);
    z->caption = usual(b, USUAL_FEATURES, PUBLISHED_FEATURES);
    if (b->w) {
        patch = zn_bind_dim(b, 1, "%s%s.weight", l->prefix, l->embed);
        z->time = zn_bind_dim(b, 1, "%s%s.weight", l->prefix, l->time[0]);
        mid = zn_bind_dim(b, 0, "%s%s.weight", l->prefix, l->time[0]);
        m->cond = zn_bind_dim(b, 0, "%s%s.weight", l->prefix, l->time[1]);
        z->caption = zn_bind_dim(b, 1, "%s%s.weight", l->prefix, l->caption[1]);
    }
    z->latent = patch / (PATCH * PATCH);
    m->n_refiners = count_blocks(b, l, "noise_refiner", usual(b, USUAL_REFINERS, PUBLISHED_REFINERS), MAX_REFINERS);
    m->n_layers = count_blocks(b, l, "layers", usual(b, USUAL_LAYERS, PUBLISHED_LAYERS), ZN_ZIMAGE_MAX_LAYERS);
    if (patch < PATCH * PATCH || patch % (PATCH * PATCH) || patch > ZN_ZIMAGE_MAX_C || z->time < 2 || z->time % 2 ||
        z->time > ZN_ZIMAGE_MAX_C || mid < 1 || mid > ZN_ZIMAGE_MAX_C || m->cond < 1 || m->cond > ZN_ZIMAGE_MAX_C ||
        !m->n_refiners || !m->n_layers) {
        zn_bind_fail(b, "the sizes of the transformer make no sense");
        return;
    }
    snprintf(b->variant, sizeof b->variant, "Z-Image transformer, %d layers, width %d, %d latent channels", m->n_layers,
             z->width, z->latent);
    zn_bind_conv(b, &m->time[0], zn_conv_same(1, z->time, mid), "%s%s", l->prefix, l->time[0]);
    zn_bind_conv(b, &m->time[1], zn_conv_same(1, mid, m->cond), "%s%s", l->prefix, l->time[1]);
    bind_embed(b, m, l);
    m->pad = bind_row(b, z->width, l->prefix, "x_pad_token");
    zn_bind_layers(b, m, m->n_refiners + m->n_layers, bind_step_block);
    zn_bind_conv(b, &m->final_scale, zn_conv_same(1, m->cond, z->width), "%s%s", l->prefix, l->final_scale);
    bind_last(b, m, l);
}

/* ---- what the pipeline asks for ------------------------------------------------------------------------ */

zn_zimage_sizes zn_zimage_step_sizes(const void *net)
{
    return ((const step *)net)->sizes;
}

int zn_zimage_padded(int n)
{
    return zn_round_up(n, ZN_ZIMAGE_MULTIPLE);
}

void zn_zimage_time(float *row, int n, double t)
{
    const int half = n / 2;

    for (int i = 0; i < half; i++) {
        const double angle = t * time_scale * pow(time_base, -(double)i / half);

        row[i] = (float)cos(angle);
        row[half + i] = (float)sin(angle);
    }
}

static void rope_row(float *row, int head, const int position[3])
{
    const int axis[3] = { head / 4, head * 3 / 8, head * 3 / 8 }; /* channels */
    int at = 0;

    for (int a = 0; a < 3; a++)
        for (int i = 0; i < axis[a] / 2; i++, at++) {
            const double angle = position[a] * pow(rope_base, -2.0 * i / axis[a]);

            row[at] = (float)cos(angle);
            row[head / 2 + at] = (float)sin(angle);
        }
}

void zn_zimage_rope(float *table, int head, int h, int w, int n_cap)
{
    const int n = h * w, padded = zn_zimage_padded(n), of_x = head * 3 / 8 / 2;

    for (int i = 0; i < n; i++) {
        float *row = table + (size_t)i * (size_t)head;
        const float *left = row - (size_t)(i % w) * (size_t)head, *top = table + (size_t)(i % w) * (size_t)head;

        if (i < w || i % w == 0) {
            rope_row(row, head, (const int[]){ n_cap + 1, i / w, i % w });
            continue;
        }
        memcpy(row, left, (size_t)head * sizeof *row); /* all but x */
        memcpy(row + head / 2 - of_x, top + head / 2 - of_x, (size_t)of_x * sizeof *row);
        memcpy(row + head - of_x, top + head - of_x, (size_t)of_x * sizeof *row);
    }
    for (int i = n; i < padded; i++)
        rope_row(table + (size_t)i * (size_t)head, head, (const int[]){ 0, 0, 0 });
    for (int i = 0; i < n_cap; i++)
        rope_row(table + (size_t)(padded + i) * (size_t)head, head, (const int[]){ 1 + i, 0, 0 });
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* What adapts the norms of a block, before and after its two parts. */
typedef struct adaption {
    zn_tensor scales, gates; /* [1][1][1][2 * width]; data NULL: none */
    zn_modulation before[2], after[2];
} adaption;

static adaption new_adaption(zn_ctx *c, const block *k, int width)
{
    adaption a = { 0 };

    if (k->plain)
        return a;
    a.scales = zn_new(c, 1, 1, 1, 2 * width);
    a.gates = zn_new(c, 1, 1, 1, 2 * width);
    for (int i = 0; i < 2; i++) {
        a.before[i].scale = zn_slice(a.scales, i * width, width);
        a.after[i].gate = zn_slice(a.gates, i * width, width);
    }
    return a;
}

static void adapt(zn_ctx *c, const block *k, const adaption *a, zn_tensor cond)
{
    if (k->plain)
        return;
    zn_conv2d(c, a->scales, cond, &k->scale, (zn_tail){ 0 });
    zn_conv2d(c, a->gates, cond, &k->gate, (zn_tail){ .pre = ZN_TANH });
}

/* x = n blocks of x, the first of them layer `first` of the network; cond is [1][1][1][time's width].  The end of a block and
 * the first norm of the next are one operation, unless the next is not there yet. */
static void run_blocks(zn_ctx *c, const block *k, int n, int first, const char *name, zn_tensor x, zn_tensor rope,
                       zn_tensor cond)
{
    const size_t mark = zn_mark(c->arena);
    const zn_tensor normal = zn_new(c, 1, 1, x.w, x.c), change = zn_new(c, 1, 1, x.w, x.c);
    const adaption both[2] = { new_adaption(c, k, x.c), new_adaption(c, k, x.c) };
    bool ready = false;

    for (int i = 0; i < n; i++, k++) {
        const adaption *a = &both[i % 2], *next = &both[(i + 1) % 2];

        zn_layer(c, first + i);
        if (!ready) {
            adapt(c, k, a, cond);
            zn_modulate(c, normal, x, &k->norm[0], &a->before[0], (zn_tail){ 0 });
        }
        zn_zimage_attend(c, change, normal, &k->attention, rope, (zn_tail){ 0 });
        zn_add_norm(c, x, change, &k->norm[1], &a->after[0], normal, &k->norm[2], &a->before[1]);
        zn_zimage_feed_forward(c, change, normal, &k->feed, (zn_tail){ 0 });
        ready = i + 1 < n && !c->streamed;
        if (ready) {
            adapt(c, k + 1, next, cond);
            zn_add_norm(c, x, change, &k->norm[3], &a->after[1], normal, &k[1].norm[0], &next->before[0]);
        } else {
            zn_modulate(c, x, change, &k->norm[3], &a->after[1], (zn_tail){ .residual = &x });
        }
        zn_watch(c, x, "%s.%d", name, i);
    }
    zn_reset(c->arena, mark);
}

/* Rows n and on of a sequence become the padding token. */
static void pad(zn_ctx *c, zn_tensor x, int n, zn_tensor token)
{
    if (n < x.w)
        zn_resize(c, zn_rows(x, n, x.w - n), token, ZN_NEAREST);
}

static void forward_caption(zn_ctx *c, const void *net, const zn_call *call)
{
    const caption *m = net;
    const zn_tensor in = call->in[0], rope = call->in[1];
    const int n = in.h * in.w;
    const zn_tensor normal = zn_new(c, 1, 1, n, m->features), x = zn_new(c, 1, 1, rope.w, m->width);

    zn_normalise(c, normal, zn_reshape(in, 1, 1, n, m->features), &m->norm, (zn_tail){ 0 });
    zn_conv2d(c, zn_rows(x, 0, n), normal, &m->embed, (zn_tail){ 0 });
    pad(c, x, n, m->pad);
    run_blocks(c, m->refiner, m->n, 0, "context_refiner", x, rope, (zn_tensor){ 0 });
    zn_map(c, call->out[0], x, (zn_tail){ 0 });
}

static void forward_step(zn_ctx *c, const void *net, const zn_call *call)
{
    const step *m = net;
    const zn_tensor in = call->in[0], cap = call->in[2], rope = call->in[3];
    const int h = in.h / PATCH, w = in.w / PATCH, n = h * w, padded = rope.w - cap.w, width = m->sizes.width;
    const int n_pictures = in.n;
    const zn_tensor mid = zn_new(c, 1, 1, 1, m->time[0].cout), cond = zn_new(c, 1, 1, 1, m->cond),
                    silu = zn_new(c, 1, 1, 1, m->cond), scale = zn_new(c, 1, 1, 1, width);
    const zn_tensor all = zn_new(c, 1, 1, n_pictures * rope.w, width);
    const zn_tensor x = n_pictures > 1 ? zn_new(c, 1, 1, n_pictures * padded, width) : zn_rows(all, 0, padded);
    const zn_norm norm = { .kind = ZN_LAYER_NORM, .c = width, .eps = final_eps };
    zn_tensor normal, patches;

    zn_conv2d(c, mid, call->in[1], &m->time[0], (zn_tail){ .pre = ZN_SILU });
    zn_conv2d(c, cond, mid, &m->time[1], (zn_tail){ 0 });
    for (int i = 0; i < n_pictures; i++) {
        const zn_tensor own = zn_rows(x, i * padded, padded);

        zn_conv2d(c, zn_reshape(zn_rows(own, 0, n), 1, h, w, width), zn_image(in, i), &m->embed, (zn_tail){ 0 });
        pad(c, own, n, m->pad);
    }
    run_blocks(c, m->refiner, m->n_refiners, 0, "noise_refiner", x, zn_rows(rope, 0, padded), cond);
    for (int i = 0; i < n_pictures; i++) {
        if (n_pictures > 1)
            zn_map(c, zn_rows(all, i * rope.w, padded), zn_rows(x, i * padded, padded), (zn_tail){ 0 });
        zn_map(c, zn_rows(all, i * rope.w + padded, cap.w), cap, (zn_tail){ 0 });
    }
    run_blocks(c, m->layer, m->n_layers, m->n_refiners, "layers", all, rope, cond);
    zn_map(c, silu, cond, (zn_tail){ .pre = ZN_SILU });
    zn_conv2d(c, scale, silu, &m->final_scale, (zn_tail){ 0 });
    normal = zn_new(c, 1, 1, n, width);
    patches = zn_new(c, 1, h, w, m->last.cout);
    for (int i = 0; i < n_pictures; i++) {
        zn_modulate(c, normal, zn_rows(all, i * rope.w, n), &norm, &(zn_modulation){ .scale = scale }, (zn_tail){ 0 });
        zn_conv2d(c, zn_reshape(patches, 1, 1, n, m->last.cout), normal, &m->last, (zn_tail){ 0 });
        zn_shuffle(c, zn_image(call->out[0], i), patches, PATCH, (zn_tail){ 0 });
    }
}

/* ---- sizes --------------------------------------------------------------------------------------------- */

static bool shape_caption(const void *net, const zn_tensor *in, int n_in, zn_tensor *out)
{
    const caption *m = net;

    if (n_in != 2 || in[0].c != m->features || in[0].h > ZN_ZIMAGE_MAX_CAP || in[0].w > ZN_ZIMAGE_MAX_CAP ||
        in[0].h * in[0].w > ZN_ZIMAGE_MAX_CAP || in[1].h != 1 || in[1].c != m->head ||
        in[1].w != zn_zimage_padded(in[0].h * in[0].w))
        return false;
    out[0] = (zn_tensor){ .n = 1, .h = 1, .w = in[1].w, .c = m->width };
    return true;
}

static bool shape_step(const void *net, const zn_tensor *in, int n_in, zn_tensor *out)
{
    const zn_zimage_sizes *z = &((const step *)net)->sizes;
    const int most = ZN_ZIMAGE_MAX_SIDE * PATCH;

    if (n_in != 4 || in[0].h % PATCH || in[0].w % PATCH || in[0].h > most || in[0].w > most || in[0].c != z->latent)
        return false;
    if (in[1].h != 1 || in[1].w != 1 || in[1].c != z->time || in[2].h != 1 || in[2].c != z->width ||
        in[2].w % ZN_ZIMAGE_MULTIPLE || in[2].w > ZN_ZIMAGE_MAX_CAP)
        return false;
    if (in[3].h != 1 || in[3].c != z->head ||
        in[3].w != zn_zimage_padded(in[0].h / PATCH * (in[0].w / PATCH)) + in[2].w)
        return false;
    out[0] = (zn_tensor){ .n = 1, .h = in[0].h, .w = in[0].w, .c = z->latent };
    return true;
}

static int example_caption(const void *net, int w, int h, zn_tensor *in)
{
    const caption *m = net;

    (void)w, (void)h;
    in[0] = (zn_tensor){ .n = 1, .h = 61, .w = 1, .c = m->features };
    in[1] = (zn_tensor){ .n = 1, .h = 1, .w = zn_zimage_padded(61), .c = m->head };
    return 2;
}

static int example_step(const void *net, int w, int h, zn_tensor *in)
{
    const zn_zimage_sizes *z = &((const step *)net)->sizes;
    const int x = zn_imax(w / 16, 1), y = zn_imax(h / 16, 1), cap = zn_zimage_padded(61);

    in[0] = (zn_tensor){ .n = 1, .h = y * PATCH, .w = x * PATCH, .c = z->latent };
    in[1] = (zn_tensor){ .n = 1, .h = 1, .w = 1, .c = z->time };
    in[2] = (zn_tensor){ .n = 1, .h = 1, .w = cap, .c = z->width };
    in[3] = (zn_tensor){ .n = 1, .h = 1, .w = zn_zimage_padded(x * y) + cap, .c = z->head };
    return 4;
}

/* ---- descriptors --------------------------------------------------------------------------------------- */

const zn_arch zn_arch_z_image_caption = {
    .info = { .id = "z-image-caption",
              .summary = "features of a prompt to caption tokens; a part of z-image-dit",
              .in = { "cap", "rope" },
              .out = { "tokens" },
              .weights = "z-image" },
    .size = sizeof(caption),
    .bind = bind_caption,
    .forward = forward_caption,
    .shape = shape_caption,
    .example = example_caption,
};

const zn_arch zn_arch_z_image_step = {
    .info = { .id = "z-image-step",
              .summary = "one evaluation of Z-Image's transformer; a part of z-image-dit",
              .in = { "x", "time", "tokens", "rope" },
              .out = { "y" },
              .weights = "z-image" },
    .size = sizeof(step),
    .bind = bind_step,
    .forward = forward_step,
    .shape = shape_step,
    .example = example_step,
};
