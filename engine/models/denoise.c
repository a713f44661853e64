/* SPDX-License-Identifier: MIT */
/* denoise.c - the denoisers: a U-Net of gated depthwise blocks on the picture at half resolution.
 *
 *   x, noise map ── unshuffle 2 ── intro ── level 0 ───────────────────────(+)── dec 0 ── outro ── shuffle 2 ──(+)── y
 *    (3 + 3)          (24)                    │ down (2x2 stride 2)      up │                                 x
 *                                             └── level 1 ──────(+)── dec 1 ┘
 *                                                   └── middle ───┘
 *
 * The blocks are those of gated_blocks.h.  There are no statistics over the picture, so tiles are exact.  Layer by layer
 * the halo of a tile is cropped to what the layers that follow can still see.  The numbers of levels, blocks and
 * channels are read from the file.  Trained by training/. */
#include "../core/ints.h"
#include "gated_blocks.h"

#include <stdio.h>
#include <string.h>

enum { MAX_LEVELS = 4, PATCH = 2, NOISE = 3 };             /* NOISE: channels of the noise map */
enum { USUAL_C = 32, USUAL_LEVELS = 2, USUAL_BLOCKS = 2 }; /* without a file */

typedef struct level {
    int c, n_enc, n_dec; /* the middle is the enc of the last level */
    int before, after;   /* halo that its input must have, and that its output must have, in pixels of the picture */
    zn_gated enc[ZN_MAX_GATED], dec[ZN_MAX_GATED];
    zn_conv down, up; /* to and from the next level */
} level;

typedef struct denoise {
    int n_levels;
    level at[MAX_LEVELS];
    zn_conv intro, outro;
} denoise;

enum { SET_SIGMA }; /* of red; those of green and blue follow: see takes_sigma in arch.h */

/* ---- bind ------------------------------------------------------------------------------------------- */

static bool recognise(const zn_weights *w, char *what, size_t size)
{
    const char *name = zn_weights_meta(w, "model");

    if (!zn_weights_get(w, "intro.weight") || !zn_weights_get(w, "mid.0.dw.weight"))
        return false;
    snprintf(what, size, "%.40s, gated depthwise U-Net", name ? name : "denoiser");
    return true;
}

/* The unit of intro's and outro's halo.  Convolutions compute blocks of 4 or 6 pixels a side, whose rounding depends on
 * where they begin.  So these halos are multiples of 12 of their pixels, and of one pixel of the last level. */
static int blocks(int multiple)
{
    return 3 * zn_imax(multiple, 4 * PATCH);
}

/* Sets before and after of all levels, from the last layer to the first. */
static void find_margins(denoise *m, int multiple)
{
    int need = zn_round_up(PATCH, blocks(multiple)); /* outro */

    for (int l = 0; l < m->n_levels; l++) {
        m->at[l].after = zn_round_up(need, multiple);
        need = m->at[l].after + (PATCH << l) * m->at[l].n_dec;
    }
    need = m->at[m->n_levels - 1].after;
    for (int l = m->n_levels - 1; l >= 0; l--)
        need = m->at[l].before = zn_round_up(need + (PATCH << l) * m->at[l].n_enc, multiple);
}

static void bind(zn_binder *b, void *net)
{
    denoise *m = net;
    char prefix[32];
    int width, reach, step = PATCH;

    if (b->w && !recognise(b->w, b->variant, sizeof b->variant)) {
        zn_bind_fail(b, "these are not the weights of a Zenith denoiser");
        return;
    }
    width = b->w ? zn_bind_dim(b, 0, "intro.weight") : USUAL_C;
    reach = 2 * PATCH; /* intro and outro */
    while (!b->status) {
        level *l = &m->at[m->n_levels];
        bool middle = b->w ? !zn_bind_has(b, "down.%d.weight", m->n_levels) : m->n_levels == USUAL_LEVELS - 1;
        int next = b->w ? zn_bind_dim(b, 0, "down.%d.weight", m->n_levels) : 2 * width;

        if (width < 1 || width > 2048 || (!middle && (next < 1 || next > 2048 || m->n_levels == MAX_LEVELS - 1))) {
            zn_bind_fail(b, "the widths or the number of levels make no sense");
            return;
        }
        l->c = width;
        if (middle)
            snprintf(prefix, sizeof prefix, "mid.");
        else
            snprintf(prefix, sizeof prefix, "enc.%d.", m->n_levels);
        l->n_enc = zn_bind_gated(b, l->enc, width, USUAL_BLOCKS, prefix);
        if (!middle) {
            zn_conv down = { .kh = 2, .kw = 2, .stride = 2, .cin = width, .cout = next, .has_bias = true };
            zn_conv up = zn_conv_same(1, next, 4 * width);

            up.has_bias = false;
            snprintf(prefix, sizeof prefix, "dec.%d.", m->n_levels);
            l->n_dec = zn_bind_gated(b, l->dec, width, USUAL_BLOCKS, prefix);
            zn_bind_conv(b, &l->down, down, "down.%d", m->n_levels);
            zn_bind_conv(b, &l->up, up, "up.%d", m->n_levels);
        }
        /* Each depthwise 3x3 adds one pixel of its level.  The patches of the level below add up to a patch less one
         * pixel on either side. */
        reach += step * (l->n_enc + l->n_dec) + step / 2;
        m->n_levels++;
        if (middle)
            break;
        width = next;
        step *= 2;
    }
    if (b->status)
        return;
    find_margins(m, step);
    zn_bind_conv(b, &m->intro, zn_conv_same(3, PATCH * PATCH * (3 + NOISE), m->at[0].c), "intro");
    zn_bind_conv(b, &m->outro, zn_conv_same(3, m->at[0].c, PATCH * PATCH * 3), "outro");
    b->geometry = (zn_geometry){ .in_c = 3,
                                 .out_c = 3,
                                 .shrink = 1,
                                 .grow = 1,
                                 .multiple = step,
                                 .padded = true,
                                 .halo = zn_round_up(reach, blocks(step)) };
}

/* ---- forward ------------------------------------------------------------------------------------------ */

/* The halo that a tensor has around the tile, in pixels of the picture. */
typedef struct margin {
    int left, top, right, bottom;
} margin;

static margin at_most(margin m, int n)
{
    return (margin){ zn_imin(m.left, n), zn_imin(m.top, n), zn_imin(m.right, n), zn_imin(m.bottom, n) };
}

/* Crops *x, of level l, from the halo `has` to the halo `keeps`.  *x and *spare are swapped. */
static void crop(zn_ctx *c, int l, zn_tensor *x, zn_tensor *spare, margin has, margin keeps)
{
    const int size = PATCH << l; /* of a pixel of this level */
    zn_tensor y = *spare;

    y.h -= (has.top - keeps.top + has.bottom - keeps.bottom) / size;
    y.w -= (has.left - keeps.left + has.right - keeps.right) / size;
    if (y.h == x->h && y.w == x->w)
        return;
    zn_window(c, y, *x, (has.left - keeps.left) / size, (has.top - keeps.top) / size);
    spare->data = x->data;
    spare->h = y.h, spare->w = y.w;
    *x = y;
}

/* *x of level l, with the halo `has`: its encoder blocks, the levels below, its decoder blocks.  The result has a halo
 * of at[l].after at most. */
static void run_level(zn_ctx *c, const denoise *m, int l, zn_tensor *x, zn_tensor *spare, margin has)
{
    const level *at = &m->at[l];
    size_t mark = zn_mark(c->arena);

    zn_run_gated(c, at->enc, at->n_enc, x, spare);
    if (l + 1 < m->n_levels) {
        const level *below = &m->at[l + 1];
        zn_tensor low = zn_new(c, 1, x->h / 2, x->w / 2, below->c);
        zn_tensor low_spare = zn_new(c, 1, x->h / 2, x->w / 2, below->c), up;

        zn_conv2d(c, low, *x, &at->down, (zn_tail){ 0 });
        crop(c, l + 1, &low, &low_spare, has, at_most(has, below->before));
        run_level(c, m, l + 1, &low, &low_spare, at_most(has, below->before));
        crop(c, l, x, spare, has, at_most(has, below->after));
        has = at_most(has, below->after);
        up = zn_new(c, 1, low.h, low.w, 4 * x->c);
        zn_conv2d(c, up, low, &at->up, (zn_tail){ 0 });
        zn_shuffle(c, *x, up, 2, (zn_tail){ .residual = x });
        zn_reset(c->arena, mark);
        zn_run_gated(c, at->dec, at->n_dec, x, spare);
    }
    crop(c, l, x, spare, has, at_most(has, at->after));
}

static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    const denoise *m = net;
    const zn_tensor in = call->in[0], out = call->out[0];
    const margin has = { call->left, call->top, in.w - out.w - call->left, in.h - out.h - call->top };
    zn_tensor x = zn_new(c, 1, in.h / PATCH, in.w / PATCH, m->at[0].c);
    zn_tensor spare = zn_new(c, 1, x.h, x.w, x.c);
    size_t mark = zn_mark(c->arena);
    zn_tensor both = zn_new(c, 1, x.h, x.w, m->intro.cin), res, rest, own;
    zn_tensor map = zn_slice(both, PATCH * PATCH * 3, PATCH * PATCH * NOISE);

    zn_unshuffle(c, zn_slice(both, 0, PATCH * PATCH * 3), in, PATCH);
    if (call->n_in > 1) {
        zn_unshuffle(c, map, call->in[1], PATCH);
    } else {
        float sigma[PATCH * PATCH * NOISE];

        for (int i = 0; i < PATCH * PATCH * NOISE; i++)
            sigma[i] = call->set[SET_SIGMA + i / (PATCH * PATCH)] / 255.0f;
        zn_fill(c, map, sigma);
    }
    zn_conv2d(c, x, both, &m->intro, (zn_tail){ 0 });
    zn_reset(c->arena, mark);
    run_level(c, m, 0, &x, &spare, has);
    res = zn_new(c, 1, x.h, x.w, m->outro.cout);
    rest = zn_new(c, 1, x.h, x.w, m->outro.cout);
    zn_conv2d(c, res, x, &m->outro, (zn_tail){ 0 });
    crop(c, 0, &res, &rest, at_most(has, m->at[0].after), (margin){ 0 });
    own = in;
    if (out.h != in.h || out.w != in.w) {
        own = zn_new_of(c, in.type, 1, out.h, out.w, in.c);
        zn_window(c, own, in, has.left, has.top);
    }
    zn_shuffle(c, out, res, PATCH, (zn_tail){ .residual = &own });
}

/* ---- training ------------------------------------------------------------------------------------------- */

static int graph_level(zn_net *g, const denoise *m, int l, int x)
{
    const level *at = &m->at[l];
    char prefix[32];
    int low;

    if (l == m->n_levels - 1)
        return zn_net_gated(g, x, at->n_enc, "mid.");
    snprintf(prefix, sizeof prefix, "enc.%d.", l);
    x = zn_net_gated(g, x, at->n_enc, prefix);
    low = graph_level(g, m, l + 1, zn_net_conv(g, x, "down.%d", l));
    x = zn_net_add(g, x, zn_net_shuffle(g, zn_net_conv(g, low, "up.%d", l), 2));
    snprintf(prefix, sizeof prefix, "dec.%d.", l);
    return zn_net_gated(g, x, at->n_dec, prefix);
}

static int graph(zn_net *g, const void *net, const int in[2])
{
    const denoise *m = net;
    const int multiple = PATCH << (m->n_levels - 1);
    int x;

    if (zn_net_height(g, in[0]) % multiple)
        zn_net_fail(g, ZN_E_USAGE, "%d pixels are not a multiple of %d", zn_net_height(g, in[0]), multiple);
    x = zn_net_unshuffle(g, zn_net_concat(g, in[0], in[1]), PATCH);
    x = graph_level(g, m, 0, zn_net_conv(g, x, "intro"));
    return zn_net_add(g, in[0], zn_net_shuffle(g, zn_net_conv(g, x, "outro"), PATCH));
}

static const zn_training training = { .tasks = ZN_TASK_DENOISE, .from_weights = true, .graph = graph };

static const zn_setting settings[] = {
    { "sigma", 0, 0, 255, "standard deviation of the noise, of 255; 0: measured" },
    { "sigma-g", 0, 0, 255, "the same for green; 0: as sigma" },
    { "sigma-b", 0, 0, 255, "the same for blue; 0: as sigma" },
    { "sigma-scale", 1, 0.1f, 10, "times what was measured" },
    { 0 },
};

#define DENOISE(name_, level_, id_, summary_)                                                                          \
    const zn_arch zn_arch_denoise_##name_ = {                                                                          \
        .info = { .id = id_,                                                                                           \
                  .summary = summary_,                                                                                 \
                  .in = { "x", "[map]" },                                                                              \
                  .out = { "y" },                                                                                      \
                  .weights = id_,                                                                                      \
                  .settings = settings },                                                                              \
        .size = sizeof(denoise),                                                                                       \
        .recognise = recognise,                                                                                        \
        .bind = bind,                                                                                                  \
        .forward = forward,                                                                                            \
        .takes_sigma = true,                                                                                           \
        .level = level_,                                                                                               \
        .train = &training,                                                                                            \
        .in_c = 3,                                                                                                     \
        .out_c = 3,                                                                                                    \
        .half_ok = true,                                                                                               \
        .crops = true,                                                                                                 \
    }

DENOISE(fast, 0, "denoise-fast", "removes noise, quickly");
DENOISE(balanced, 1, "denoise-balanced", "removes noise, the usual choice");
DENOISE(best, 2, "denoise-best", "removes noise, as well as we can");
