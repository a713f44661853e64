/* SPDX-License-Identifier: MIT */
/* level.c - estimates the noise level for the denoisers: a network of 1.6 thousand multiply-adds a pixel.
 *
 *   x ─┬─ unshuffle 2 ── first ── mean of 4x4 ─┐
 *  (3) │     (12)     1/2 (32)                 ├─ eighth 0, 1 ──────────────────────────────(+)── join ── head ── h
 *      └─ mean of 8x8 ─────────────────────────┘  1/8          └─ down ── wide 0 .. n ── up ┘
 *            (3)                                                         1/16
 * Each convolution but up and head is followed by ReLU; down is 2x2 with stride 2, up and head are 1x1, the others 3x3.
 * After up, pixels are doubled.  The result has 1/8 of the size and three channels for each denoiser, in the order of
 * zn_arch.level; pipeline/level.c says what they mean.  There are no statistics over the picture, so tiles are exact.
 * Widths are read from the file.  Trained by training/estimate.py. */
#include "../core/ints.h"
#include "arch.h"

#include <stdio.h>
#include <string.h>

enum { PATCH = 2, SHRINK = 8, STEP = 16, N_EIGHTH = 2, MAX_WIDE = 4, HEADS = 3, N_OUT = 3 * HEADS };
enum { BAND = 4 << 10 }; /* pixels of the first convolution that a CPU computes at a time */
enum { USUAL_FIRST = 32, USUAL_WIDTH = 32, USUAL_WIDE = 48, USUAL_N_WIDE = 3 }; /* without a file */

typedef struct network {
    int n_wide;
    zn_conv first, eighth[N_EIGHTH], down, wide[MAX_WIDE], up, join, head;
} network;

/* ---- bind ------------------------------------------------------------------------------------------- */

static bool recognise(const zn_weights *w, char *what, size_t size)
{
    if (!zn_weights_get(w, "first.weight") || !zn_weights_get(w, "wide.0.weight") || !zn_weights_get(w, "join.weight"))
        return false;
    snprintf(what, size, "level of the noise");
    return true;
}

/* The channels that a convolution of the file makes, or without a file the usual number. */
static int width_of(zn_binder *b, const char *name, int usual)
{
    const int width = b->w ? zn_bind_dim(b, 0, "%s.weight", name) : usual;

    if (width < 1 || width > 512)
        zn_bind_fail(b, "%d channels are not from 1 to 512", width);
    return width;
}

/* A 3x3 convolution.  Winograd's algorithm rounds a pixel by what lies in its block of 6x6, so that after several layers it
 * would depend on the tile's border far beyond the halo; and the denoiser on the memory that it had. */
static zn_conv conv3(int cin, int cout)
{
    zn_conv w = zn_conv_same(3, cin, cout);

    w.local = true;
    return w;
}

static void bind(zn_binder *b, void *net)
{
    network *m = net;
    int first, width, wide, reach;

    if (b->w && !recognise(b->w, b->variant, sizeof b->variant)) {
        zn_bind_fail(b, "these are not the weights of denoise-level");
        return;
    }
    first = width_of(b, "first", USUAL_FIRST);
    width = width_of(b, "join", USUAL_WIDTH);
    wide = width_of(b, "down", USUAL_WIDE);
    if (b->status)
        return;
    zn_bind_conv(b, &m->first, conv3(PATCH * PATCH * 3, first), "first");
    for (int i = 0; i < N_EIGHTH; i++)
        zn_bind_conv(b, &m->eighth[i], conv3(i ? width : first + 3, width), "eighth.%d", i);
    zn_bind_conv(b, &m->down, (zn_conv){ .kh = 2, .kw = 2, .stride = 2, .cin = width, .cout = wide, .has_bias = true },
                 "down");
    for (; !b->status && (b->w ? zn_bind_has(b, "wide.%d.weight", m->n_wide) : m->n_wide < USUAL_N_WIDE); m->n_wide++) {
        if (m->n_wide == MAX_WIDE) {
            zn_bind_fail(b, "there are more than %d convolutions 'wide'", MAX_WIDE);
            return;
        }
        zn_bind_conv(b, &m->wide[m->n_wide], conv3(wide, wide), "wide.%d", m->n_wide);
    }
    zn_bind_conv(b, &m->up, zn_conv_same(1, wide, width), "up");
    zn_bind_conv(b, &m->join, conv3(width, width), "join");
    zn_bind_conv(b, &m->head, zn_conv_same(1, width, N_OUT), "head");
    /* A 3x3 convolution adds a pixel of its layer on either side; those of 1/16 lie on its lattice. */
    reach = PATCH + SHRINK * (N_EIGHTH + 1) + STEP * m->n_wide + STEP - 1;
    b->geometry = (zn_geometry){ .in_c = 3,
                                 .out_c = N_OUT,
                                 .shrink = SHRINK,
                                 .grow = 1,
                                 .multiple = STEP,
                                 .padded = true,
                                 .halo = zn_round_up(reach, STEP) };
}

/* ---- forward ---------------------------------------------------------------------------------------- */

/* A new tensor: ReLU(conv(x)). */
static zn_tensor conv(zn_ctx *c, zn_tensor x, const zn_conv *w)
{
    zn_tensor y = zn_new(c, 1, x.h / w->stride, x.w / w->stride, w->cout);

    zn_conv2d(c, y, x, w, (zn_tail){ .pre = ZN_RELU });
    return y;
}

/* The mean of the first convolution.  On a CPU some rows at a time, so that what lies between remains in the cache; a pixel's bits do not
 * depend on that. */
static void first_mean(zn_ctx *c, zn_tensor y, zn_tensor in, const network *m)
{
    const size_t mark = zn_mark(c->arena);
    const int scale = SHRINK / PATCH, w = in.w / PATCH, h = in.h / PATCH;
    const int rows = c->be && c->be->remote ? y.h : zn_imax(BAND / (w * scale), 1);

    for (int top = 0, end; top < y.h; top = end) {
        zn_conv inside = m->first;
        zn_tensor x, made;
        int above, below;

        end = zn_imin(top + rows, y.h);
        above = zn_imax(top * scale - 1, 0);
        below = zn_imin(end * scale + 1, h);
        inside.pad_t = 0;
        x = zn_new(c, 1, below - above, w, m->first.cin);
        zn_unshuffle(c, x, zn_band(in, above * PATCH, x.h * PATCH), PATCH);
        made = zn_new(c, 1, (end - top) * scale, w, m->first.cout);
        zn_conv2d(c, made, x, top ? &inside : &m->first, (zn_tail){ .pre = ZN_RELU });
        zn_resize(c, zn_band(y, top, end - top), made, ZN_AVERAGE);
        zn_reset(c->arena, mark);
    }
}

static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    const network *m = net;
    const zn_tensor in = call->in[0];
    zn_tensor f = zn_new(c, 1, in.h / SHRINK, in.w / SHRINK, m->first.cout + 3), x, low, up;

    first_mean(c, zn_slice(f, 0, m->first.cout), in, m);
    zn_resize(c, zn_slice(f, m->first.cout, 3), in, ZN_AVERAGE);
    for (int i = 0; i < N_EIGHTH; i++)
        f = conv(c, f, &m->eighth[i]);
    low = conv(c, f, &m->down);
    for (int i = 0; i < m->n_wide; i++)
        low = conv(c, low, &m->wide[i]);
    up = zn_new(c, 1, low.h, low.w, m->up.cout);
    zn_conv2d(c, up, low, &m->up, (zn_tail){ 0 });
    x = zn_new(c, 1, f.h, f.w, f.c);
    zn_resize(c, x, up, ZN_NEAREST);
    zn_combine(c, x, x, f, ZN_ADD, (zn_tail){ 0 });
    zn_conv2d(c, call->out[0], conv(c, x, &m->join), &m->head, (zn_tail){ 0 });
}

const zn_arch zn_arch_denoise_level = {
    .info = { .id = "denoise-level",
              .summary = "measures the noise that the denoisers are told",
              .in = { "x" },
              .out = { "h" },
              .weights = "denoise-level" },
    .size = sizeof(network),
    .recognise = recognise,
    .bind = bind,
    .forward = forward,
    .in_c = 3,
    .out_c = N_OUT,
};
