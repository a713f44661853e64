/* SPDX-License-Identifier: MIT */
/* z_image.c - Z-Image's transformer, once (z-image-dit) and in the loop of its sampler (z-image-sample).
 *
 *   features ── caption network ── caption tokens ─┐       once a picture, as are the rotary positions
 *   latent, time ───────────────── step network ───┴── -velocity
 *
 * A picture that is changed begins as its latent with noise, s * noise + (1 - s) * start.  With a mask, after each step
 * x = mask * x + (1 - mask) * (s * noise + (1 - s) * start): outside, the latent goes straight from noise to the start.
 * The noise of several pictures lies one below the other; they share caption, start and mask, and each step reads the weights
 * once for all of them.
 *
 * The text encoder is a model of its own and is closed before these are opened: the two never share memory. */
#include "sampler.h"

#include "../models/zimage/zimage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SET_STEPS, SET_SHIFT, SET_CHANGE, SET_N };
enum { IN_NOISE, IN_CAPTION, IN_START, IN_MASK }; /* of z-image-sample */

typedef struct z_image {
    zn_model *caption, *step;
    zn_zimage_sizes sizes;
} z_image;

typedef struct loop { /* what stays the same from step to step */
    const z_image *m;
    zn_tensor tokens; /* [1][1][padded caption][width] */
    zn_tensor rope;   /* [1][1][padded picture + padded caption][head] */
    zn_tensor times;  /* [1][1][steps][time]: the sampler's t is an index of it */

    zn_tensor noise;         /* [n][h][w][channels] */
    zn_tensor start, mask;   /* [1][h][w]: of all pictures; mask.data NULL: everything is painted */
    zn_tensor keep, outside; /* of one picture; 1 - mask */
    const float *sigma;      /* [steps + 1] */
} loop;

static void bind(zn_binder *b, void *net)
{
    z_image *m = net;

    m->caption = b->part[0];
    m->step = b->part[1];
    m->sizes = zn_zimage_step_sizes(m->step->net);
    snprintf(b->variant, sizeof b->variant, "%s", m->step->variant);
}

/* ---- once a picture ------------------------------------------------------------------------------------ */

/* Host memory of len floats to fill and upload; NULL in a dry run, and when there is none. */
static float *scratch(zn_ctx *c, size_t len)
{
    float *host = c->dry || c->status ? NULL : malloc(len * sizeof *host);

    if (!c->dry && !host)
        zn_ctx_fail(c, ZN_E_MEMORY, "out of memory for the tables of Z-Image");
    return host;
}

/* Positions and caption tokens for a latent x. */
static loop prepare(zn_ctx *c, const z_image *m, zn_tensor x, zn_tensor cap)
{
    const int h = x.h / 2, w = x.w / 2, padded = zn_zimage_padded(h * w), n_cap = zn_zimage_padded(cap.h * cap.w);
    loop l = { .m = m };
    float *host = scratch(c, (size_t)(padded + n_cap) * (size_t)m->sizes.head);

    l.rope = zn_new_of(c, ZN_F32, 1, 1, padded + n_cap, m->sizes.head);
    l.tokens = zn_new_of(c, ZN_F32, 1, 1, n_cap, m->sizes.width);
    if (host)
        zn_zimage_rope(host, m->sizes.head, h, w, n_cap);
    zn_upload(c, l.rope, host);
    free(host);
    zn_call_net(
        c, m->caption,
        &(zn_call){ .in = { cap, zn_rows(l.rope, padded, n_cap) }, .out = { l.tokens }, .n_in = 2, .n_out = 1 });
    return l;
}

static void run_step(zn_ctx *c, const loop *l, zn_tensor y, zn_tensor x, zn_tensor time)
{
    zn_call_net(c, l->m->step,
                &(zn_call){ .in = { x, time, l->tokens, l->rope }, .out = { y }, .n_in = 4, .n_out = 1 });
}

/* ---- forward ------------------------------------------------------------------------------------------- */

static void forward_once(zn_ctx *c, const void *net, const zn_call *call)
{
    const z_image *m = net;
    const loop l = prepare(c, m, call->in[0], call->in[2]);
    const zn_tensor time = zn_new_of(c, ZN_F32, 1, 1, 1, m->sizes.time);
    float *host = scratch(c, (size_t)m->sizes.time), t = 0;

    zn_download(c, &t, call->in[1]);
    if (!c->dry && !c->status)
        c->status = c->be->sync(c->dev, c->err);
    if (host)
        zn_zimage_time(host, m->sizes.time, (double)t);
    zn_upload(c, time, host);
    free(host);
    run_step(c, &l, call->out[0], call->in[0], time);
}

/* t is the number of the step. */
static void predict(zn_ctx *c, void *cookie, zn_tensor p, zn_tensor x, zn_tensor t)
{
    const loop *l = cookie;
    const size_t mark = zn_mark(c->arena);
    const zn_tensor time = zn_new_of(c, ZN_F32, 1, 1, 1, l->m->sizes.time);

    zn_lookup(c, time, l->times, t);
    run_step(c, l, p, x, time);
    zn_reset(c->arena, mark);
}

/* y = sigma * noise + (1 - sigma) * start, of picture i */
static void mix(zn_ctx *c, zn_tensor y, const loop *l, int i, float sigma)
{
    const zn_tensor noise = zn_image(l->noise, i);

    if (sigma <= 0 || sigma >= 1) { /* a gain of 0 would be read as 1 */
        zn_map(c, y, sigma <= 0 ? l->start : noise, (zn_tail){ 0 });
        return;
    }
    zn_map(c, y, l->start, (zn_tail){ .gain = 1 - sigma });
    zn_map(c, y, noise, (zn_tail){ .gain = sigma, .residual = &y });
}

/* Outside of the mask the latent follows the start. */
static void updated(zn_ctx *c, void *cookie, zn_tensor x, int k)
{
    const loop *l = cookie;

    for (int i = 0; l->mask.c && i < x.n; i++) {
        const zn_tensor own = zn_image(x, i);

        mix(c, l->keep, l, i, l->sigma[k + 1]);
        zn_combine(c, l->keep, l->keep, l->outside, ZN_MUL, (zn_tail){ 0 });
        zn_combine(c, own, own, l->mask, ZN_MUL, (zn_tail){ .residual = &l->keep });
    }
}

/* The latents that the first step takes. */
static void begin(zn_ctx *c, loop *l, zn_tensor x, const zn_call *call)
{
    l->noise = zn_reshape(call->in[IN_NOISE], x.n, x.h, x.w, x.c);
    if (call->n_in > IN_START)
        l->start = call->in[IN_START];
    if (call->n_in > IN_MASK) {
        static const float one = 1;

        l->mask = call->in[IN_MASK];
        l->keep = zn_new_of(c, ZN_F32, 1, x.h, x.w, x.c);
        l->outside = zn_new_of(c, ZN_F32, 1, x.h, x.w, 1);
        zn_fill(c, l->outside, &one);
        zn_map(c, l->outside, l->mask, (zn_tail){ .gain = -1, .residual = &l->outside });
    }
    for (int i = 0; call->n_in > IN_START && i < x.n; i++)
        mix(c, zn_image(x, i), l, i, l->sigma[0]);
    if (call->n_in <= IN_START)
        zn_map(c, x, l->noise, (zn_tail){ 0 });
}

static void sample(zn_ctx *c, const void *net, const zn_call *call)
{
    const z_image *m = net;
    const int n = m->sizes.time;
    const float change = call->set[SET_CHANGE];
    const int n_pictures = (int)call->set[SET_N];
    const zn_tensor all = call->in[IN_NOISE];
    float sigma[ZN_MAX_STEPS + 1];
    zn_schedule s;
    zn_tensor x;
    loop l;
    float *host;

    if (all.h % (2 * n_pictures) || all.h / n_pictures > ZN_ZIMAGE_MAX_SIDE * 2 ||
        (call->n_in > IN_START && call->in[IN_START].h != all.h / n_pictures)) {
        zn_ctx_fail(c, ZN_E_USAGE, "%d rows are not the latents of %d pictures", all.h, n_pictures);
        return;
    }
    x = zn_reshape(call->out[0], n_pictures, all.h / n_pictures, all.w, all.c);
    if (call->n_in <= IN_START && change != 1) {
        zn_ctx_fail(c, ZN_E_USAGE, "there is no picture to change: without 'start', 'change' is 1");
        return;
    }
    if (!zn_schedule_flow(&s, (int)call->set[SET_STEPS], (double)call->set[SET_SHIFT], (double)change, -1)) {
        zn_ctx_fail(c, ZN_E_USAGE, "there is no schedule of %g steps from %g", (double)call->set[SET_STEPS],
                    (double)change);
        return;
    }
    memcpy(sigma, s.t, (size_t)s.n * sizeof *sigma);
    sigma[s.n] = 0;
    l = prepare(c, m, x, call->in[IN_CAPTION]);
    l.sigma = sigma;
    l.times = zn_new_of(c, ZN_F32, 1, 1, s.n, n);
    host = scratch(c, (size_t)s.n * (size_t)n);
    for (int k = 0; k < s.n; k++) { /* the network's input is 1 - sigma */
        if (host)
            zn_zimage_time(host + (size_t)k * (size_t)n, n, 1 - (double)s.t[k]);
        s.t[k] = (float)k;
    }
    zn_upload(c, l.times, host);
    free(host);
    begin(c, &l, x, call);
    zn_sample(c, x, &(zn_sampler){ .schedule = &s, .predict = predict, .updated = updated, .cookie = &l });
}

/* ---- sizes --------------------------------------------------------------------------------------------- */

/* pictures: one below the other */
static bool shape_of(const z_image *m, zn_tensor x, zn_tensor cap, int pictures, zn_tensor *out)
{
    const int most = ZN_ZIMAGE_MAX_SIDE * 2;

    if (x.h % 2 || x.w % 2 || x.h > most * pictures || x.w > most || x.c != m->sizes.latent ||
        cap.c != m->sizes.caption || cap.h > ZN_ZIMAGE_MAX_CAP || cap.w > ZN_ZIMAGE_MAX_CAP ||
        cap.h * cap.w > ZN_ZIMAGE_MAX_CAP)
        return false;
    out[0] = (zn_tensor){ .n = 1, .h = x.h, .w = x.w, .c = x.c };
    return true;
}

static bool shape_once(const void *net, const zn_tensor *in, int n_in, zn_tensor *out)
{
    return n_in == 3 && in[1].h == 1 && in[1].w == 1 && in[1].c == 1 && shape_of(net, in[0], in[2], 1, out);
}

static bool shape_sample(const void *net, const zn_tensor *in, int n_in, zn_tensor *out)
{
    if (n_in > IN_START && (in[0].h % in[IN_START].h || in[IN_START].w != in[0].w || in[IN_START].c != in[0].c))
        return false;
    if (n_in > IN_MASK && (in[IN_MASK].h != in[IN_START].h || in[IN_MASK].w != in[0].w || in[IN_MASK].c != 1))
        return false;
    return n_in >= 2 && shape_of(net, in[IN_NOISE], in[IN_CAPTION], ZN_ZIMAGE_MAX_PICTURES, out);
}

static int example_sample(const void *net, int w, int h, zn_tensor *in)
{
    const z_image *m = net;
    zn_tensor of_step[ZN_MAX_PORTS];

    m->step->arch->example(m->step->net, w, h, of_step);
    in[0] = of_step[0];
    in[1] = (zn_tensor){ .n = 1, .h = 61, .w = 1, .c = m->sizes.caption };
    return 2;
}

static int example_once(const void *net, int w, int h, zn_tensor *in)
{
    example_sample(net, w, h, in);
    in[2] = in[1];
    in[1] = (zn_tensor){ .n = 1, .h = 1, .w = 1, .c = 1 };
    return 3;
}

/* ---- descriptors --------------------------------------------------------------------------------------- */

static const zn_part parts[] = { { &zn_arch_z_image_caption, "transformer" },
                                 { &zn_arch_z_image_step, "transformer" },
                                 { NULL, NULL } };

static const zn_setting settings[] = { [SET_STEPS] = { "steps", 8, 1, 100, "evaluations of the network" },
                                       [SET_SHIFT] = { "shift", 3, 0.1f, 20, "more: longer at high noise" },
                                       [SET_CHANGE] = { "change", 1, 0.01f, 1, "how much of the start is noise" },
                                       [SET_N] = { "n", 1, 1, ZN_ZIMAGE_MAX_PICTURES, "pictures, one below the other" },
                                       { 0 } };

const zn_arch zn_arch_z_image_dit = {
    .info = { .id = "z-image-dit",
              .summary = "a noisy latent, its time (0: noise, 1: picture) and features of a prompt to the velocity",
              .in = { "x", "t", "cap" },
              .out = { "y" },
              .weights = "z-image" },
    .size = sizeof(z_image),
    .recognise = zn_zimage_recognise,
    .bind = bind,
    .forward = forward_once,
    .shape = shape_once,
    .example = example_once,
    .parts = parts,
};

const zn_arch zn_arch_z_image_sample = {
    .info = { .id = "z-image-sample",
              .summary =
                  "noise and features of a prompt to the latent of a picture; from another one, inside of a mask",
              .in = { "x", "cap", "[start]", "[mask]" },
              .out = { "z" },
              .weights = "z-image",
              .settings = settings },
    .size = sizeof(z_image),
    .bind = bind,
    .forward = sample,
    .shape = shape_sample,
    .example = example_sample,
    .parts = parts,
};
