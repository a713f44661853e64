/* SPDX-License-Identifier: MIT */
/* text.c - the text encoder of Z-Image: Qwen3 without its last layer and its final norm.
 *
 *   tokens ── embedding ── layer 0 ── ... ── layer n-2 ── features
 *   layer:  x += attention(RMS(x));  x += feed_forward(RMS(x))
 *
 * Attention is causal and has fewer heads of keys and values than of queries.
 * Reference: Qwen3 technical report (2025); the published file holds n layers, the last of which is not used. */
#include "zimage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_TOKENS = ZN_ZIMAGE_MAX_CAP,
    USUAL_VOCAB = 600, /* as the tokenizer of the tests has */
    USUAL_WIDTH = 64,
    USUAL_HEAD = 16,
    USUAL_HEADS = 4,
    USUAL_KV = 2,
    USUAL_FEED = 96,
    USUAL_LAYERS = 3
}; /* usual: without a file */

static const double rope_base = 1e6;
static const float norm_eps = 1e-6f;

typedef struct layer {
    zn_norm norm[2];
    zn_zimage_attention attention;
    zn_zimage_feed feed;
} layer;

typedef struct text {
    int vocab, width, head, n_layers; /* n_layers: those that are used */
    int q, kv, feed;                  /* channels of queries, of keys and values, of the feed-forward layer */
    zn_tensor table;                  /* [1][1][vocab][width] */
    zn_tensor rope;                   /* [1][1][MAX_TOKENS][head] */
    layer layer[ZN_ZIMAGE_MAX_LAYERS];
} text;

/* ---- names --------------------------------------------------------------------------------------------- */

typedef struct layout {
    const char *table, *block; /* of the embedding; what a layer's names begin with */
    const char *norm[2], *q, *k, *v, *out, *q_norm, *k_norm, *gate, *up, *down;
} layout;

#define HUGGING_FACE(prefix)                                                                                           \
    {                                                                                                                  \
        prefix "embed_tokens", prefix "layers", { "input_layernorm", "post_attention_layernorm" }, "self_attn.q_proj", \
            "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "self_attn.q_norm", "self_attn.k_norm",        \
            "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"                                                            \
    }

static const layout layouts[] = {
    HUGGING_FACE("model."),
    HUGGING_FACE(""),
    { "token_embd",
      "blk",
      { "attn_norm", "ffn_norm" },
      "attn_q",
      "attn_k",
      "attn_v",
      "attn_output",
      "attn_q_norm",
      "attn_k_norm",
      "ffn_gate",
      "ffn_up",
      "ffn_down" }, /* GGUF */
};

/* The layout of a file; NULL: of none. */
static const layout *layout_of(const zn_weights *w)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        char name[96];

        snprintf(name, sizeof name, "%s.0.%s.weight", layouts[i].block, layouts[i].q_norm);
        if (zn_weights_get(w, name))
            return &layouts[i];
    }
    return NULL;
}

static bool recognise(const zn_weights *w, char *what, size_t size)
{
    const layout *l = layout_of(w);
    char name[96];
    const zn_entry *e;
    int n = 0;

    if (!l)
        return false;
    do
        snprintf(name, sizeof name, "%s.%d.%s.weight", l->block, n, l->q_norm);
    while (zn_weights_get(w, name) && n++ < ZN_ZIMAGE_MAX_LAYERS);
    snprintf(name, sizeof name, "%s.weight", l->table);
    e = zn_weights_get(w, name);
    snprintf(what, size, "Qwen3 text encoder, %d layers, width %lld", n,
             e && e->n_dims == 2 ? (long long)e->shape[1] : 0LL);
    return true;
}

/* ---- bind ---------------------------------------------------------------------------------------------- */

/* The embedding, in 16 bits where that loses nothing that the model's precision keeps. */
static void bind_table(zn_binder *b, text *m, const layout *l)
{
    char name[96];
    const zn_entry *e;
    bool half;

    snprintf(name, sizeof name, "%s.weight", l->table);
    e = b->w ? zn_weights_get(b->w, name) : NULL;
    half = (e && e->dtype == ZN_BF16) || (b->precision != ZN_FP32 && b->precision != ZN_TF32);
    m->table =
        (zn_tensor){ .n = 1, .h = 1, .w = m->vocab, .c = m->width, .ld = m->width, .type = half ? ZN_BF16 : ZN_F32 };
    m->table.data = zn_bind_table(b, (int[]){ m->vocab, m->width }, m->table.type, "%s", name);
}

static void bind_rope(zn_binder *b, text *m)
{
    const int half = m->head / 2;
    float *x = b->status ? NULL : malloc((size_t)MAX_TOKENS * (size_t)m->head * sizeof *x);

    if (!x && !b->status)
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for the positions of tokens");
    for (int p = 0; x && !b->counting && p < MAX_TOKENS; p++)
        for (int i = 0; i < half; i++) {
            const double angle = p * pow(rope_base, -(double)i / half);

            x[p * m->head + i] = (float)cos(angle);
            x[p * m->head + half + i] = (float)sin(angle);
        }
    m->rope = (zn_tensor){ .n = 1, .h = 1, .w = MAX_TOKENS, .c = m->head, .ld = m->head };
    m->rope.data = x ? zn_bind_device(b, x, (size_t)MAX_TOKENS * (size_t)m->head * sizeof *x) : NULL;
    free(x);
}

static void bind_layer(zn_binder *b, void *net, int i)
{
    const layout *l = b->w ? layout_of(b->w) : &layouts[0];
    text *m = net;
    layer *y = &m->layer[i];
    const zn_norm over = { .kind = ZN_RMS_NORM, .c = m->width, .no_bias = true, .eps = norm_eps };
    const zn_norm each = { .kind = ZN_RMS_NORM, .c = m->head, .no_bias = true, .eps = norm_eps };
    zn_zimage_attention *a = &y->attention;
    const int q = m->q, kv = m->kv, feed = m->feed;

    a->how = (zn_attention){ .heads = q / m->head, .kv_heads = kv / m->head, .causal = true };
    zn_bind_norm(b, &y->norm[0], over, "%s.%d.%s", l->block, i, l->norm[0]);
    zn_bind_conv(b, &a->q, zn_zimage_linear(m->width, q), "%s.%d.%s", l->block, i, l->q);
    zn_bind_conv(b, &a->k, zn_zimage_linear(m->width, kv), "%s.%d.%s", l->block, i, l->k);
    zn_bind_conv(b, &a->v, zn_zimage_linear(m->width, kv), "%s.%d.%s", l->block, i, l->v);
    zn_bind_norm(b, &a->q_norm, each, "%s.%d.%s", l->block, i, l->q_norm);
    zn_bind_norm(b, &a->k_norm, each, "%s.%d.%s", l->block, i, l->k_norm);
    zn_bind_conv(b, &a->out, zn_zimage_linear(q, m->width), "%s.%d.%s", l->block, i, l->out);
    zn_bind_norm(b, &y->norm[1], over, "%s.%d.%s", l->block, i, l->norm[1]);
    zn_bind_conv(b, &y->feed.gate, zn_zimage_linear(m->width, feed), "%s.%d.%s", l->block, i, l->gate);
    zn_bind_conv(b, &y->feed.up, zn_zimage_linear(m->width, feed), "%s.%d.%s", l->block, i, l->up);
    zn_bind_conv(b, &y->feed.down, zn_zimage_linear(feed, m->width), "%s.%d.%s", l->block, i, l->down);
}

static bool from_to(int x, int lo, int hi)
{
    return x >= lo && x <= hi;
}

static void bind(zn_binder *b, void *net)
{
    text *m = net;
    const layout *l = b->w ? layout_of(b->w) : &layouts[0];
    int q = USUAL_HEADS * USUAL_HEAD, kv = USUAL_KV * USUAL_HEAD, feed = USUAL_FEED, n = USUAL_LAYERS;

    m->vocab = USUAL_VOCAB;
    m->width = USUAL_WIDTH;
    m->head = USUAL_HEAD;
    if (b->base) { /* made up as Qwen3-4B is, whose width is 2560 */
        m->vocab = 151936;
        m->width = b->base;
        m->head = 128;
        q = 32 * m->head;
        kv = 8 * m->head;
        feed = m->width / 5 * 19;
        n = 36;
    }
    if (!l) {
        zn_bind_fail(b, "these are not the weights of a Qwen3 text encoder");
        return;
    }
    if (b->w) {
        m->vocab = zn_bind_dim(b, 0, "%s.weight", l->table);
        m->width = zn_bind_dim(b, 1, "%s.weight", l->table);
        m->head = zn_bind_dim(b, 0, "%s.0.%s.weight", l->block, l->q_norm);
        q = zn_bind_dim(b, 0, "%s.0.%s.weight", l->block, l->q);
        kv = zn_bind_dim(b, 0, "%s.0.%s.weight", l->block, l->k);
        feed = zn_bind_dim(b, 0, "%s.0.%s.weight", l->block, l->gate);
        for (n = 0; n <= ZN_ZIMAGE_MAX_LAYERS && zn_bind_has(b, "%s.%d.%s.weight", l->block, n, l->q_norm);)
            n++;
    }
    if (!from_to(m->vocab, 1, 1 << 20) || !from_to(m->width, 1, ZN_ZIMAGE_MAX_C) || !from_to(m->head, 2, 1024) ||
        m->head % 2 || !from_to(q, m->head, ZN_ZIMAGE_MAX_C) || !from_to(kv, m->head, q) || q % kv || kv % m->head ||
        !from_to(feed, 1, ZN_ZIMAGE_MAX_C) || !from_to(n, 2, ZN_ZIMAGE_MAX_LAYERS)) {
        zn_bind_fail(b, "the sizes of the text encoder make no sense");
        return;
    }
    snprintf(b->variant, sizeof b->variant, "Qwen3 text encoder, %d of %d layers, width %d", n - 1, n, m->width);
    m->n_layers = n - 1;
    m->q = q;
    m->kv = kv;
    m->feed = feed;
    bind_table(b, m, l);
    bind_rope(b, m);
    zn_bind_layers(b, m, m->n_layers, bind_layer);
}

/* ---- forward ------------------------------------------------------------------------------------------- */

static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    const text *m = net;
    const int n = call->in[0].c;
    const zn_tensor tokens = zn_reshape(call->in[0], 1, 1, n, 1);
    const zn_tensor x = zn_new(c, 1, 1, n, m->width), normal = zn_new(c, 1, 1, n, m->width);

    zn_lookup(c, x, m->table, tokens);
    for (int i = 0; i < m->n_layers; i++) {
        const layer *l = &m->layer[i];

        zn_layer(c, i);
        zn_normalise(c, normal, x, &l->norm[0], (zn_tail){ 0 });
        zn_zimage_attend(c, x, normal, &l->attention, m->rope, (zn_tail){ .residual = &x });
        zn_normalise(c, normal, x, &l->norm[1], (zn_tail){ 0 });
        zn_zimage_feed_forward(c, x, normal, &l->feed, (zn_tail){ .residual = &x });
        zn_watch(c, x, "layers.%d", i);
    }
    zn_map(c, zn_reshape(call->out[0], 1, 1, n, m->width), x, (zn_tail){ 0 });
}

static bool shape(const void *net, const zn_tensor *in, int n_in, zn_tensor *out)
{
    const text *m = net;

    if (n_in != 1 || in[0].h != 1 || in[0].w != 1 || in[0].c > MAX_TOKENS)
        return false;
    out[0] = (zn_tensor){ .n = 1, .h = in[0].c, .w = 1, .c = m->width };
    return true;
}

static int example(const void *net, int w, int h, zn_tensor *in)
{
    (void)net, (void)w, (void)h;
    in[0] = (zn_tensor){ .n = 1, .h = 1, .w = 1, .c = 61 };
    return 1;
}

/* ---- descriptor ---------------------------------------------------------------------------------------- */

const zn_arch zn_arch_z_image_text = {
    .info = { .id = "z-image-text",
              .summary = "tokens of a prompt to the features that z-image-dit takes",
              .in = { "tokens" },
              .out = { "cap" },
              .weights = "z-image-text" },
    .size = sizeof(text),
    .recognise = recognise,
    .bind = bind,
    .forward = forward,
    .shape = shape,
    .example = example,
};
