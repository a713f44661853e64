/* SPDX-License-Identifier: MIT */
/* template.c - a small residual network: the file to copy for a new model; tests train it within a second.
 *
 *   x ── first ── block 0 ── ... ── block n-1 ── last ──(* strength)──(+)── y
 *   └───────────────────────────────────────────────────────────────┘
 *   block:  x += conv2(ReLU(conv1(x)))
 *
 * All convolutions are 3x3.  The number of blocks and the channels are read from the file.
 * Reference: He et al. 2016, without norms.
 *
 * Order of a model file: what it is, sizes, structs, bind, blocks, forward, training, descriptor. */
#include "../core/ints.h"
#include "arch.h"

#include <stdio.h>
#include <string.h>

enum { MAX_BLOCKS = 8, USUAL_BLOCKS = 2, USUAL_C = 16 }; /* usual: without a file */

typedef struct block {
    zn_conv conv[2];
} block;

typedef struct network {
    int n_blocks;
    zn_conv first, last;
    block block[MAX_BLOCKS];
} network;

/* Which of the settings at the end of this file. */
enum { SET_STRENGTH };

/* ---- bind ------------------------------------------------------------------------------------------- */

/* Are these our weights?  `zenith info` shows what is written to `what`. */
static bool recognise(const zn_weights *w, char *what, size_t size)
{
    const char *model = zn_weights_meta(w, "model");

    if (!model || strcmp(model, "template") || !zn_weights_get(w, "first.weight"))
        return false;
    snprintf(what, size, "template");
    return true;
}

/* States every tensor once: its name, shape and, where it is not the usual one, its initialisation.  Reading a file,
 * making weights up and training all follow from this.  A wrong file gives an error message, without code here. */
static void bind(zn_binder *b, void *net)
{
    network *m = net;
    int width = b->w ? zn_bind_dim(b, 0, "first.weight") : b->base ? b->base : USUAL_C;

    if (b->w && !recognise(b->w, b->variant, sizeof b->variant)) {
        zn_bind_fail(b, "these are not the weights of template");
        return;
    }
    if (width < 1 || width > 512) { /* every number from a file is checked */
        zn_bind_fail(b, "%d channels are not from 1 to 512", width);
        return;
    }
    /* first.weight [width][3][3][3], first.bias [width] */
    zn_bind_conv(b, &m->first, zn_conv_same(3, 3, width), "first");
    while (b->w ? zn_bind_has(b, "block%d.conv1.weight", m->n_blocks) : m->n_blocks < USUAL_BLOCKS) {
        if (m->n_blocks == MAX_BLOCKS) {
            zn_bind_fail(b, "there are more than %d blocks", MAX_BLOCKS);
            return;
        }
        for (int i = 0; i < 2; i++)
            zn_bind_conv(b, &m->block[m->n_blocks].conv[i], zn_conv_same(3, width, width), "block%d.conv%d",
                         m->n_blocks, i + 1);
        m->n_blocks++;
    }
    zn_bind_init(b, ZN_INIT_GAIN, 0); /* training begins with y = x */
    zn_bind_conv(b, &m->last, zn_conv_same(3, width, 3), "last");
    /* The ratio of output to input size, and the halo: the receptive field is one pixel for each 3x3 convolution, but on a CPU
     * those of many channels are computed in blocks of 4 or 6 pixels, and a pixel's rounding depends on all of its block.  With
     * tiles and halos of multiples of 12, and as many whole blocks, it is the same in every tile. */
    b->geometry = (zn_geometry){
        .in_c = 3, .out_c = 3, .shrink = 1, .grow = 1, .multiple = 12, .halo = zn_round_up(2 + 6 * 2 * m->n_blocks, 12)
    };
}

/* ---- forward ---------------------------------------------------------------------------------------- */

/* x = block(x); the temporary is given back to the arena. */
static void run_block(zn_ctx *c, const block *k, zn_tensor x)
{
    size_t mark = zn_mark(c->arena);
    zn_tensor mid = zn_new(c, 1, x.h, x.w, x.c);

    zn_conv2d(c, mid, x, &k->conv[0], (zn_tail){ .pre = ZN_RELU });
    zn_conv2d(c, x, mid, &k->conv[1], (zn_tail){ .residual = &x });
    zn_reset(c->arena, mark);
}

/* A list of operations.  No malloc and no error path: a failure is kept in the context, later calls do nothing. */
static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    const network *m = net;
    const float strength = call->set[SET_STRENGTH];
    zn_tensor in = call->in[0], x;

    if (strength == 0) { /* as a tail's gain, 0 would mean 1 */
        zn_map(c, call->out[0], in, (zn_tail){ 0 });
        return;
    }
    x = zn_new(c, 1, in.h, in.w, m->first.cout);
    zn_conv2d(c, x, in, &m->first, (zn_tail){ 0 });
    for (int i = 0; i < m->n_blocks; i++)
        run_block(c, &m->block[i], x);
    zn_conv2d(c, call->out[0], x, &m->last, (zn_tail){ .gain = strength, .residual = &in });
}

/* ---- training: on the data flow of the forward; optional ------------------------------------------------ */

static const zn_training training = { .tasks = ZN_TASK_RESTORE | ZN_TASK_RECONSTRUCT };

/* ---- descriptor ------------------------------------------------------------------------------------- */

static const zn_setting settings[] = {
    { "strength", 1, 0, 2, "how much of the network's change is added" }, /* default, minimum, maximum */
    { 0 },
};

const zn_arch zn_arch_template = {
    .info = { .id = "template",
              .summary = "a small residual network; for tests, and to copy from",
              .in = { "x" },
              .out = { "y" },
              .weights = "template",
              .settings = settings },
    .size = sizeof(network),
    .recognise = recognise,
    .bind = bind,
    .forward = forward,
    .in_c = 3, /* of every variant: other weights are refused */
    .out_c = 3,
    .train = &training,
};
