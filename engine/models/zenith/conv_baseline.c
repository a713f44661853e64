/* SPDX-License-Identifier: MIT */
/* conv_baseline.c - ConvBaselineAE, the plain convolutional autoencoder of the second Zenith document.
 *
 *   x ── conv 2x2/2 ── conv 4x4/4 ── conv 4x4/4 ── deconv 4x4/4 ── deconv 4x4/4 ── deconv 2x2/2 ── y
 *   (3)     (b)          (16 b)        (256 b)        (16 b)          (b)            (3)
 *
 * with a ReLU after all but the last.  A deconvolution whose kernel is its stride is a 1x1 convolution and a
 * shuffle; its bias is per output channel and position.  Patches of 32x32 pixels are independent of each other: tiles
 * of them are exact. */
#include "../arch.h"

#include <stdio.h>

/* USUAL_BASE: 34 million weights.  (The document's base of 32 has 135 million.) */
enum { LAYERS = 6, DOWN = 3, STEP = 32, USUAL_BASE = 16 };

typedef struct conv_baseline {
    zn_conv conv[LAYERS];
} conv_baseline;

static const int stride[LAYERS] = { 2, 4, 4, 4, 4, 2 };
static const char *const layer_name[LAYERS] = { "down1", "down2", "down3", "up1", "up2", "up3" };

static bool recognise(const zn_weights *w, char *what, size_t size)
{
    const zn_entry *first = zn_weights_get(w, "down1.weight");

    if (!first || first->n_dims != 4 || !zn_weights_get(w, "down3.weight") || !zn_weights_get(w, "up3.weight"))
        return false;
    snprintf(what, size, "conv-baseline-ae, base %d", (int)first->shape[0]);
    return true;
}

/* Channels between the layers: i = 0 is the picture. */
static int width(int i, int base)
{
    static const int times[LAYERS + 1] = { 0, 1, 16, 256, 16, 1, 0 };

    return times[i] ? times[i] * base : 3;
}

static void bind(zn_binder *b, void *net)
{
    conv_baseline *m = net;
    int base = b->w ? zn_bind_dim(b, 0, "down1.weight") : b->base ? b->base : USUAL_BASE;

    if (b->w && !recognise(b->w, b->variant, sizeof b->variant)) {
        zn_bind_fail(b, "these are not the weights of conv-baseline-ae");
        return;
    }
    if (base < 1 || base > 64) {
        zn_bind_fail(b, "the base of %d is not from 1 to 64", base);
        return;
    }
    for (int i = 0; i < LAYERS; i++) {
        int s = stride[i], cin = width(i, base), cout = width(i + 1, base);
        zn_conv k = { .kh = s, .kw = s, .stride = s, .cin = cin, .cout = cout, .has_bias = true };

        if (i >= DOWN)
            k = zn_conv_same(1, cin, cout * s * s);
        zn_bind_init(b, ZN_INIT_GAIN, 2);
        zn_bind_conv(b, &m->conv[i], k, "%s", layer_name[i]);
    }
    b->geometry = (zn_geometry){ .in_c = 3, .out_c = 3, .shrink = 1, .grow = 1, .multiple = STEP, .padded = true };
}

static void forward(zn_ctx *c, const void *net, const zn_call *call)
{
    const conv_baseline *m = net;
    zn_tensor x = call->in[0];

    for (int i = 0; i < LAYERS; i++) {
        const zn_conv *k = &m->conv[i];
        zn_tail tail = { .pre = i < LAYERS - 1 ? ZN_RELU : ZN_NONE };
        int s = stride[i];
        zn_tensor y = i < DOWN ? zn_new(c, 1, x.h / s, x.w / s, k->cout) : zn_new(c, 1, x.h, x.w, k->cout);

        zn_conv2d(c, y, x, k, tail);
        if (i >= DOWN) {
            x = i < LAYERS - 1 ? zn_new(c, 1, y.h * s, y.w * s, y.c / (s * s)) : call->out[0];
            zn_shuffle(c, x, y, s, (zn_tail){ 0 });
        } else {
            x = y;
        }
    }
}

static const zn_training training = { .tasks = ZN_TASK_RESTORE | ZN_TASK_RECONSTRUCT };

const zn_arch zn_arch_conv_baseline = {
    .info = { .id = "conv-baseline-ae",
              .summary = "picture to picture through plain convolutions, for comparison",
              .in = { "x" },
              .out = { "y" },
              .weights = "conv-baseline-ae" },
    .size = sizeof(conv_baseline),
    .recognise = recognise,
    .bind = bind,
    .forward = forward,
    .in_c = 3,
    .out_c = 3,
    .train = &training,
};
