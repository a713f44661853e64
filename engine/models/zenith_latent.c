/* SPDX-License-Identifier: MIT */
/* zenith_latent.c - the trained small autoencoders: zenith, zenith-lite, zenith-f2.
 *
 *   x ── unshuffle 4 ── intro ── fine blocks ── down ── coarse blocks ── outro ── z, 1/8 of the size
 *          (48)         3x3        (1/4)        2x2/2      (1/8)          1x1
 *   z ── 3 tanh(z / 3) ── intro ── coarse blocks ── up, shuffle 2 ── fine blocks ── outro, shuffle 4 ── x
 *                         3x3                        1x1                            3x3
 *
 * The file says which blocks it has, by their tensors:
 *   gated   gated_blocks.h
 *   mix     x += expand(SiLU(columns(rows(compress(LN x)))));  x += pw4(a * b), a, b = the halves of pw3(LN x)
 *           with Walsh-Hadamard mixing in windows that every other block shifts by half: see zenith/zenith_taesd.c
 *   plain   x += conv2(ReLU(conv1(ReLU x))); first blocks of a level may begin with a pool (pool.h),
 *             as in zenith-f2: taef2's latents encode the brightness of a place relative to the rest of its picture
 * docs/autoencoders.md compares them.  Trained by training/ (latent_nets.py). */
#include "../core/ints.h"
#include "gated_blocks.h"
#include "pool.h"
#include "zenith/mixing.h"

#include <stdio.h>
#include <string.h>

enum { FINE, COARSE, LEVELS };
enum { PATCH = 4, SCALE = 8, MAX_BLOCKS = ZN_MAX_GATED };
enum { POOL = 2 }; /* a pool is POOL times as wide as its block */

typedef enum kind { GATED, MIX, PLAIN } kind;

/* Without a file: zenith, of gated blocks, and zenith-lite as it is shipped. */
enum { USUAL_Z = 16 };
typedef struct usual {
    kind kind;
    int c[LEVELS], n[LEVELS];
} usual;
static const usual usual_zenith[] = { { GATED, { 48, 128 }, { 4, 4 } }, { GATED, { 48, 128 }, { 4, 4 } } };
static const usual usual_lite[] = { { PLAIN, { 48, 96 }, { 4, 6 } }, { PLAIN, { 64, 128 }, { 4, 4 } } };

typedef struct mixed { /* a block of `mix` or `plain` */
    zn_conv in, out;   /* compress and expand, or the two convolutions */
    zn_fwht rows, cols;
    zn_conv pw3, pw4;
    zn_pool_branch pool;
} mixed;

typedef struct level {
    int c, n;
    zn_gated gated[MAX_BLOCKS];
    mixed mixed[MAX_BLOCKS];
} level;

typedef struct latent {
    bool decoder;
    bool pooled; /* a block has a pool: no tiles, no training here */
    kind kind;
    zn_conv intro, between, outro; /* between: down or up */
    level at[LEVELS];
} latent;

static const char *half_name(bool decoder)
{
    return decoder ? "decoder" : "encoder";
}

static const char *const level_name[LEVELS] = { "fine", "coarse" };

/* ---- bind ------------------------------------------------------------------------------------------- */

static bool recognise(const zn_weights *w, bool decoder, char *what, size_t size)
{
    const char *model = zn_weights_meta(w, "model");
    char intro[64], down[64];

    snprintf(intro, sizeof intro, "%s.intro.weight", half_name(decoder));
    snprintf(down, sizeof down, "%s.%s.weight", half_name(decoder), decoder ? "up" : "down");
    if (!zn_weights_get(w, intro) || !zn_weights_get(w, down))
        return false;
    snprintf(what, size, "%.40s %s", model ? model : "zenith", half_name(decoder));
    return true;
}

static void bind_mix(zn_binder *b, mixed *k, int width, int i, const char *name)
{
    const int inner = width / ZN_MIX_GROUPS;
    zn_conv in = zn_conv_same(1, width, inner), out = zn_conv_same(1, inner, width);
    char gate[96];

    if (width % (ZN_MIX_GROUPS * ZN_MIX_GROUPS)) {
        zn_bind_fail(b, "the width %d of '%s' is not a multiple of %d", width, name, ZN_MIX_GROUPS * ZN_MIX_GROUPS);
        return;
    }
    in.groups = out.groups = ZN_MIX_GROUPS;
    zn_bind_conv(b, &k->in, in, "%s.compress", name);
    zn_bind_conv(b, &k->out, out, "%s.expand", name);
    snprintf(gate, sizeof gate, "%s.gate_h", name);
    zn_bind_lines(b, &k->rows, ZN_ALONG_W, inner, SCALE, i % 2, gate);
    snprintf(gate, sizeof gate, "%s.gate_v", name);
    zn_bind_lines(b, &k->cols, ZN_ALONG_H, inner, SCALE, i % 2, gate);
    zn_bind_conv(b, &k->pw3, zn_conv_same(1, width, 2 * width), "%s.pw3", name);
    zn_bind_conv(b, &k->pw4, zn_conv_same(1, width, width), "%s.pw4", name);
}

static void bind_level(zn_binder *b, latent *m, int l, int width, int n)
{
    static const char *const first[] = { [MIX] = "compress", [PLAIN] = "conv1" };
    level *at = &m->at[l];
    char prefix[32], name[48];

    at->c = width;
    snprintf(prefix, sizeof prefix, "%s.%s.", half_name(m->decoder), level_name[l]);
    if (m->kind == GATED) {
        at->n = zn_bind_gated(b, at->gated, width, n, prefix);
        return;
    }
    for (; !b->status && (b->w ? zn_bind_has(b, "%s%d.%s.weight", prefix, at->n, first[m->kind]) : at->n < n);
         at->n++) {
        mixed *k = &at->mixed[at->n];

        if (at->n == MAX_BLOCKS) {
            zn_bind_fail(b, "there are more than %d blocks '%s'", MAX_BLOCKS, prefix);
            return;
        }
        snprintf(name, sizeof name, "%s%d", prefix, at->n);
        if (m->kind == MIX) {
            bind_mix(b, k, width, at->n, name);
        } else {
            zn_bind_pool(b, &k->pool, width, POOL * width, name);
            m->pooled = m->pooled || k->pool.wide;
            zn_bind_conv(b, &k->in, zn_conv_same(3, width, width), "%s.conv1", name);
            zn_bind_conv(b, &k->out, zn_conv_same(3, width, width), "%s.conv2", name);
        }
    }
}

static kind find_kind(const zn_binder *b, const char *half)
{
    if (zn_bind_has(b, "%s.coarse.0.compress.weight", half))
        return MIX;
    return zn_bind_has(b, "%s.coarse.0.conv1.weight", half) ? PLAIN : GATED;
}

/* How far an output pixel sees, in pixels of the picture: blocks reach one pixel of their level, two if they are plain;
 * a patch is added for each change of resolution. */
static int reach(const latent *m)
{
    const int each = m->kind == PLAIN ? 2 : 1;

    return PATCH * (each * m->at[FINE].n + 1) + SCALE * (each * m->at[COARSE].n + m->decoder) + SCALE + PATCH;
}

/* u: the sizes without a file. */
static void bind(zn_binder *b, latent *m, bool decoder, const usual *u)
{
    const char *half = half_name(decoder);
    const int patches = 3 * PATCH * PATCH;
    int z = USUAL_Z, fine = u->c[FINE], coarse = u->c[COARSE];

    m->decoder = decoder;
    m->kind = u->kind;
    if (b->w && !recognise(b->w, decoder, b->variant, sizeof b->variant)) {
        zn_bind_fail(b, "these are not the weights of a Zenith %s", half);
        return;
    }
    if (b->w) {
        z = decoder ? zn_bind_dim(b, 1, "decoder.intro.weight") : zn_bind_dim(b, 0, "encoder.outro.weight");
        fine = decoder ? zn_bind_dim(b, 1, "decoder.outro.weight") : zn_bind_dim(b, 0, "encoder.intro.weight");
        coarse = decoder ? zn_bind_dim(b, 0, "decoder.intro.weight") : zn_bind_dim(b, 0, "encoder.down.weight");
        m->kind = find_kind(b, half);
    }
    if (z < 1 || z > 256 || fine < 1 || fine > 2048 || coarse < 1 || coarse > 2048) {
        zn_bind_fail(b, "the widths make no sense");
        return;
    }
    zn_bind_conv(b, &m->intro, decoder ? zn_conv_same(3, z, coarse) : zn_conv_same(3, patches, fine), "%s.intro", half);
    for (int i = 0; i < LEVELS; i++) { /* in the order of the data flow */
        int l = decoder ? LEVELS - 1 - i : i;

        bind_level(b, m, l, l == FINE ? fine : coarse, u->n[l]);
        if (i == 0 && decoder)
            zn_bind_conv(b, &m->between, zn_conv_same(1, coarse, 4 * fine), "decoder.up");
        if (i == 0 && !decoder)
            zn_bind_conv(b, &m->between,
                         (zn_conv){ .kh = 2, .kw = 2, .stride = 2, .cin = fine, .cout = coarse, .has_bias = true },
                         "encoder.down");
    }
    zn_bind_conv(b, &m->outro, decoder ? zn_conv_same(3, fine, patches) : zn_conv_same(1, coarse, z), "%s.outro", half);
    /* Kernels compute blocks of 4 or 6 pixels of 1/4 size, whose rounding depends on where they begin: the halo is a
     * multiple of 12 of them, or of those of 1/8 size.  The windows of mixing blocks begin at the picture's corner, and a pool sees all of it: no tiles. */
    b->geometry = (zn_geometry){ .in_c = decoder ? z : 3,
                                 .out_c = decoder ? 3 : z,
                                 .shrink = decoder ? 1 : SCALE,
                                 .grow = decoder ? SCALE : 1,
                                 .multiple = decoder ? 1 : SCALE,
                                 .padded = !decoder,
                                 .halo = m->kind == MIX || m->pooled ? -1
                                     : decoder                       ? zn_round_up(zn_ceil_div(reach(m), SCALE), 12)
                                               : zn_round_up(reach(m), 12 * (m->kind == PLAIN ? SCALE : PATCH)) };
}

/* ---- forward ---------------------------------------------------------------------------------------- */

static const zn_norm plain_norm = { .kind = ZN_LAYER_NORM, .eps = 1e-6f };

static void run_mix(zn_ctx *c, const mixed *k, zn_tensor x)
{
    zn_norm norm = plain_norm;
    size_t mark = zn_mark(c->arena);
    zn_tensor u = zn_new(c, 1, x.h, x.w, x.c), inner = zn_new(c, 1, x.h, x.w, k->in.cout);
    zn_tensor wide = zn_new(c, 1, x.h, x.w, 2 * x.c);

    norm.c = x.c;
    zn_normalise(c, u, x, &norm, (zn_tail){ 0 });
    zn_conv2d(c, inner, u, &k->in, (zn_tail){ 0 });
    zn_transform(c, inner, inner, &k->rows);
    zn_transform(c, inner, inner, &k->cols);
    zn_map(c, inner, inner, (zn_tail){ .pre = ZN_SILU });
    zn_conv2d(c, x, inner, &k->out, (zn_tail){ .residual = &x });
    zn_normalise(c, u, x, &norm, (zn_tail){ 0 });
    zn_conv2d(c, wide, u, &k->pw3, (zn_tail){ 0 });
    zn_combine(c, u, zn_slice(wide, 0, x.c), zn_slice(wide, x.c, x.c), ZN_MUL, (zn_tail){ 0 });
    zn_conv2d(c, x, u, &k->pw4, (zn_tail){ .residual = &x });
    zn_reset(c->arena, mark);
}

/* u = ReLU(x) if `ready`; afterwards, too, if `more`: the second convolution writes it for the next block. */
static void run_plain(zn_ctx *c, const mixed *k, zn_tensor x, zn_tensor u, bool ready, bool more)
{
    size_t mark = zn_mark(c->arena);
    zn_tensor v;

    if (k->pool.wide) {
        zn_run_pool(c, &k->pool, x, zn_new(c, 1, x.h, x.w, k->pool.wide));
        zn_reset(c->arena, mark);
    }
    v = zn_new(c, 1, x.h, x.w, x.c);
    if (!ready)
        zn_map(c, u, x, (zn_tail){ .pre = ZN_RELU });
    zn_conv2d(c, v, u, &k->in, (zn_tail){ .pre = ZN_RELU });
    zn_conv2d(c, x, v, &k->out, (zn_tail){ .residual = &x, .also = more ? &u : NULL, .also_act = ZN_RELU });
    zn_reset(c->arena, mark);
}

/* The blocks of a level; the result may lie in what was *spare. */
static void run_level(zn_ctx *c, const latent *m, int l, zn_tensor *x, zn_tensor *spare)
{
    const level *at = &m->at[l];

    if (m->kind == GATED)
        zn_run_gated(c, at->gated, at->n, x, spare);
    for (int i = 0; i < at->n && m->kind == MIX; i++)
        run_mix(c, &at->mixed[i], *x);
    for (int i = 0; i < at->n && m->kind == PLAIN; i++) /* a pool branch changes x before the block's ReLU */
        run_plain(c, &at->mixed[i], *x, *spare, i > 0 && !at->mixed[i].pool.wide,
                  i + 1 < at->n && !at->mixed[i + 1].pool.wide);
}

static void forward_encode(zn_ctx *c, const void *net, const zn_call *call)
{
    const latent *m = net;
    const zn_tensor in = call->in[0];
    const int h = in.h / PATCH, w = in.w / PATCH;
    zn_tensor fine = zn_new(c, 1, h, w, m->at[FINE].c), spare = zn_new(c, 1, h, w, m->at[FINE].c), coarse;
    size_t mark = zn_mark(c->arena);
    zn_tensor patches = zn_new(c, 1, h, w, m->intro.cin);

    zn_unshuffle(c, patches, in, PATCH);
    zn_conv2d(c, fine, patches, &m->intro, (zn_tail){ 0 });
    zn_reset(c->arena, mark);
    run_level(c, m, FINE, &fine, &spare);
    coarse = zn_new(c, 1, h / 2, w / 2, m->at[COARSE].c);
    spare = zn_new(c, 1, h / 2, w / 2, m->at[COARSE].c);
    zn_conv2d(c, coarse, fine, &m->between, (zn_tail){ 0 });
    run_level(c, m, COARSE, &coarse, &spare);
    zn_conv2d(c, call->out[0], coarse, &m->outro, (zn_tail){ 0 });
}

static void forward_decode(zn_ctx *c, const void *net, const zn_call *call)
{
    const latent *m = net;
    const zn_tensor in = call->in[0];
    zn_tensor fine = zn_new(c, 1, 2 * in.h, 2 * in.w, m->at[FINE].c);
    zn_tensor spare = zn_new(c, 1, 2 * in.h, 2 * in.w, m->at[FINE].c);
    size_t mark = zn_mark(c->arena);
    zn_tensor z = zn_new(c, 1, in.h, in.w, in.c), patches;
    zn_tensor coarse = zn_new(c, 1, in.h, in.w, m->at[COARSE].c);
    zn_tensor other = zn_new(c, 1, in.h, in.w, m->at[COARSE].c);
    zn_tensor up = zn_new(c, 1, in.h, in.w, m->between.cout);

    zn_map(c, z, in, (zn_tail){ .pre = ZN_SOFTCLAMP });
    zn_conv2d(c, coarse, z, &m->intro, (zn_tail){ 0 });
    run_level(c, m, COARSE, &coarse, &other);
    zn_conv2d(c, up, coarse, &m->between, (zn_tail){ 0 });
    zn_shuffle(c, fine, up, 2, (zn_tail){ 0 });
    zn_reset(c->arena, mark);
    run_level(c, m, FINE, &fine, &spare);
    patches = zn_new(c, 1, fine.h, fine.w, m->outro.cout);
    zn_conv2d(c, patches, fine, &m->outro, (zn_tail){ 0 });
    zn_shuffle(c, call->out[0], patches, PATCH, (zn_tail){ 0 });
}

/* ---- training --------------------------------------------------------------------------------------- */

static const zn_training training = { .tasks = ZN_TASK_RECONSTRUCT, .from_weights = true };

/* ---- descriptors ------------------------------------------------------------------------------------ */

static bool recognise_encode(const zn_weights *w, char *what, size_t size)
{
    return recognise(w, false, what, size);
}

static bool recognise_decode(const zn_weights *w, char *what, size_t size)
{
    return recognise(w, true, what, size);
}

extern const zn_arch zn_arch_zenith_lite_doc_encode, zn_arch_zenith_lite_doc_decode; /* zenith/zenith_taesd.c */

#define HALF(name_, half_, decoder_, id_, weights_, in_, out_, formerly_, unless_, summary_)                           \
    static void bind_##name_##_##half_(zn_binder *b, void *net)                                                        \
    {                                                                                                                  \
        bind(b, net, decoder_, &usual_##name_[decoder_]);                                                              \
    }                                                                                                                  \
    const zn_arch zn_arch_##id_##_##half_ = {                                                                          \
        .info = { .id = weights_ "-" #half_,                                                                           \
                  .summary = summary_,                                                                                 \
                  .in = { in_ },                                                                                       \
                  .out = { out_ },                                                                                     \
                  .weights = weights_ },                                                                               \
        .size = sizeof(latent),                                                                                        \
        .recognise = recognise_##half_,                                                                                \
        .formerly = formerly_,                                                                                         \
        .bind = bind_##name_##_##half_,                                                                                \
        .forward = forward_##half_,                                                                                    \
        .train = &training,                                                                                            \
        .in_c = decoder_ ? 0 : 3,                                                                                      \
        .out_c = decoder_ ? 3 : 0,                                                                                     \
        .half_ok = true,                                                                                               \
        .half_unless = unless_,                                                                                        \
    }

/* half_unless: zenith-f2, 1.4 levels at most, mean 0.06 */
#define BOTH(name_, id_, weights_, formerly_encode_, formerly_decode_, what_)                                          \
    HALF(name_, encode, false, id_, weights_, "x", "z", formerly_encode_, "encoder.coarse.0.pool.0.weight",            \
         "picture to latent: " what_);                                                                                 \
    HALF(name_, decode, true, id_, weights_, "z", "x", formerly_decode_, "decoder.coarse.0.pool.0.weight",             \
         "latent to picture: " what_)

BOTH(zenith, zenith, "zenith", NULL, NULL, "a small autoencoder of our own");
BOTH(lite, zenith_lite, "zenith-lite", &zn_arch_zenith_lite_doc_encode, &zn_arch_zenith_lite_doc_decode,
     "the same latents, faster");
