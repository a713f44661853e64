/* SPDX-License-Identifier: MIT */
/* diffae.c - the loops of the diffusion autoencoder: which of its networks run in which order.
 *
 *   diffae-reverse         picture, its code ── U-Net, steps upwards ── the noise that it comes from
 *   diffae-sample          noise, a code ── U-Net, steps downwards ── picture
 *   diffae-latent-sample   noise ── latent network, steps downwards ── a code
 *
 * Several pictures lie one below the other, x [n*S][S][3], with their codes, cond [n][1][code]: one batch.
 * With a second code, cond0, an edit is guided: p = p(cond0) + guide (p(cond) - p(cond0)). */
#include "sampler.h"

#include "../models/diffae/diffae.h"

enum { SET_STEPS, SET_ORDER, SET_GUIDE };

typedef struct diffae {
    zn_model *net;
    bool predicts_v;
    zn_tensor mean, deviation; /* of the latent network's codes */
} diffae;

typedef struct loop { /* what the sampler's predict is given */
    zn_model *net;
    zn_tensor cond, cond0; /* cond0.c 0: no guidance */
    float guide;
} loop;

/* ---- bind ---------------------------------------------------------------------------------------------- */

static void bind_unet(zn_binder *b, void *net)
{
    diffae *m = net;

    m->net = b->part[0];
    m->predicts_v = zn_diffae_predicts_v(m->net->net);
}

static void bind_latent(zn_binder *b, void *net)
{
    diffae *m = net;

    m->net = b->part[0];
    m->predicts_v = zn_diffae_latent_predicts_v(m->net->net);
    if (!zn_diffae_latent_statistics(m->net->net, &m->mean, &m->deviation) && b->w)
        zn_bind_fail(b, "the file lacks the statistics of codes (conds_mean, conds_std)");
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* Pictures that lie one below the other, as a batch. */
static zn_tensor batch(zn_tensor x, int n)
{
    return (zn_tensor){ x.data, x.n * n, x.h / n, x.w, x.c, x.ld, x.type };
}

/* One prediction.  The latent network has no code: cond.c is 0. */
static void run_net(zn_ctx *c, zn_model *net, zn_tensor p, zn_tensor x, zn_tensor t, zn_tensor cond)
{
    const zn_call call = { .in = { x, t, cond }, .out = { p }, .n_in = cond.c ? 3 : 2, .n_out = 1 };

    zn_call_net(c, net, &call);
}

static void predict(zn_ctx *c, void *cookie, zn_tensor p, zn_tensor x, zn_tensor t)
{
    const loop *l = cookie;
    const size_t mark = zn_mark(c->arena);

    if (l->cond0.c && l->guide != 1) {
        zn_tensor q = zn_new_of(c, ZN_F32, x.n, x.h, x.w, x.c);

        run_net(c, l->net, p, x, t, l->cond0);
        run_net(c, l->net, q, x, t, l->cond);
        zn_map(c, q, q, (zn_tail){ .gain = l->guide });
        if (l->guide != 0) /* as a gain, 0 would mean 1 */
            zn_map(c, p, p, (zn_tail){ .gain = 1 - l->guide, .residual = &q });
    } else {
        run_net(c, l->net, p, x, t, l->cond);
    }
    zn_reset(c->arena, mark);
}

/* The schedule of the pictures; false: there is none of so many steps. */
static bool picture_schedule(zn_schedule *s, const diffae *m, const float *set, bool reverse)
{
    const zn_prediction p = m->predicts_v ? ZN_PREDICTS_V : ZN_PREDICTS_NOISE;
    const bool second = set[SET_ORDER] == 2 || (set[SET_ORDER] == 0 && m->predicts_v);
    double abar[ZN_DIFFAE_STEPS];

    zn_abar(abar, ZN_DIFFAE_STEPS, 1e-4, 0.02);
    return (second ? zn_schedule_squared : zn_schedule_ddim)(s, abar, ZN_DIFFAE_STEPS, (int)set[SET_STEPS], p, reverse);
}

static void run_pictures(zn_ctx *c, const diffae *m, const zn_call *call, bool reverse)
{
    const zn_tensor cond = call->in[1];
    const int n = cond.h;
    const zn_tensor y = batch(call->out[0], n);
    loop l = { .net = m->net, .cond = batch(cond, n), .guide = 1 };
    zn_schedule s;

    if (!picture_schedule(&s, m, call->set, reverse)) {
        zn_ctx_fail(c, ZN_E_USAGE, "%g steps do not divide the %d of training", (double)call->set[SET_STEPS],
                    ZN_DIFFAE_STEPS);
        return;
    }
    if (call->n_in > 2) {
        l.cond0 = batch(call->in[2], n);
        l.guide = call->set[SET_GUIDE];
    }
    zn_map(c, y, batch(call->in[0], n), (zn_tail){ 0 });
    zn_sample(c, y, &(zn_sampler){ .schedule = &s, .clip = 1, .predict = predict, .cookie = &l });
}

static void sample(zn_ctx *c, const void *net, const zn_call *call)
{
    run_pictures(c, net, call, false);
}

static void reverse(zn_ctx *c, const void *net, const zn_call *call)
{
    run_pictures(c, net, call, true);
}

static void sample_latent(zn_ctx *c, const void *net, const zn_call *call)
{
    const diffae *m = net;
    const zn_tensor y = call->out[0];
    loop l = { .net = m->net };
    double abar[ZN_DIFFAE_STEPS];
    zn_schedule s;

    zn_abar(abar, ZN_DIFFAE_STEPS, 0.008, 0.008);
    if (!zn_schedule_ddim(&s, abar, ZN_DIFFAE_STEPS, (int)call->set[SET_STEPS],
                          m->predicts_v ? ZN_PREDICTS_V : ZN_PREDICTS_NOISE, false)) {
        zn_ctx_fail(c, ZN_E_USAGE, "%g steps do not divide the %d of training", (double)call->set[SET_STEPS],
                    ZN_DIFFAE_STEPS);
        return;
    }
    zn_map(c, y, call->in[0], (zn_tail){ 0 });
    zn_sample(c, y, &(zn_sampler){ .schedule = &s, .predict = predict, .cookie = &l });
    if (m->mean.data) {
        zn_combine(c, y, y, m->deviation, ZN_MUL, (zn_tail){ 0 });
        zn_combine(c, y, y, m->mean, ZN_ADD, (zn_tail){ 0 });
    }
}

/* ---- sizes --------------------------------------------------------------------------------------------- */

static bool shape(const void *net, const zn_tensor *in, int n_in, zn_tensor *out)
{
    const zn_model *u = ((const diffae *)net)->net;
    const int n = in[1].h;
    zn_tensor one[3] = { in[0], { .n = 1, .h = 1, .w = 1, .c = 1 }, in[1] };

    if (n_in < 2 || in[0].h % n || in[1].w != 1 || (n_in > 2 && (in[2].h != n || in[2].w != 1 || in[2].c != in[1].c)))
        return false;
    one[0].h = in[0].h / n;
    one[2].h = 1;
    if (!u->arch->shape(u->net, one, 3, out))
        return false;
    out[0] = in[0];
    return true;
}

static int example(const void *net, int w, int h, zn_tensor *in)
{
    const zn_model *u = ((const diffae *)net)->net;
    zn_tensor of_net[ZN_MAX_PORTS];

    u->arch->example(u->net, w, h, of_net);
    in[0] = of_net[0];
    in[1] = of_net[2];
    return 2;
}

static bool shape_latent(const void *net, const zn_tensor *in, int n_in, zn_tensor *out)
{
    const zn_model *u = ((const diffae *)net)->net;
    const zn_tensor both[2] = { in[0], { .n = 1, .h = 1, .w = 1, .c = 1 } };

    return n_in == 1 && u->arch->shape(u->net, both, 2, out);
}

static int example_latent(const void *net, int w, int h, zn_tensor *in)
{
    const zn_model *u = ((const diffae *)net)->net;
    zn_tensor both[ZN_MAX_PORTS];

    u->arch->example(u->net, w, h, both);
    in[0] = both[0];
    return 1;
}

/* ---- descriptors --------------------------------------------------------------------------------------- */

static const zn_part unet_part[] = { { &zn_arch_diffae_unet, NULL }, { NULL, NULL } };
static const zn_part latent_part[] = { { &zn_arch_diffae_latent_net, NULL }, { NULL, NULL } };

#define ORDER                                                                                                          \
    {                                                                                                                  \
        "order", 0, 0, 2,                                                                                              \
            "1: DDIM in equal steps; 2: second order, denser steps near the picture; 0: as the file is for"            \
    }

static const zn_setting sample_settings[] = { [SET_STEPS] = { "steps", 20, 1, 1000, "evaluations of the network" },
                                              [SET_ORDER] = ORDER,
                                              [SET_GUIDE] = { "guide", 1, 0, 20, "how far an edit is guided; 1: not" },
                                              { 0 } };
static const zn_setting reverse_settings[] = {
    [SET_STEPS] = { "steps", 250, 1, 1000, "steps from the picture to noise" }, [SET_ORDER] = ORDER, { 0 }
};
static const zn_setting latent_settings[] = { [SET_STEPS] = { "steps", 200, 1, 1000, "evaluations of the network" },
                                              { 0 } };

const zn_arch zn_arch_diffae_reverse = {
    .info = { .id = "diffae-reverse",
              .summary = "a picture and its code to the noise that it comes from",
              .in = { "x", "cond" },
              .out = { "xT" },
              .weights = "zenith-face",
              .settings = reverse_settings },
    .size = sizeof(diffae),
    .bind = bind_unet,
    .forward = reverse,
    .shape = shape,
    .example = example,
    .parts = unet_part,
};

const zn_arch zn_arch_diffae_sample = {
    .info = { .id = "diffae-sample",
              .summary = "noise and a code to a picture",
              .in = { "xT", "cond", "[cond0]" },
              .out = { "x" },
              .weights = "zenith-face",
              .settings = sample_settings },
    .size = sizeof(diffae),
    .bind = bind_unet,
    .forward = sample,
    .shape = shape,
    .example = example,
    .parts = unet_part,
};

const zn_arch zn_arch_diffae_latent_sample = {
    .info = { .id = "diffae-latent-sample",
              .summary = "noise to a new code",
              .in = { "z" },
              .out = { "cond" },
              .weights = "zenith-face",
              .settings = latent_settings },
    .size = sizeof(diffae),
    .bind = bind_latent,
    .forward = sample_latent,
    .shape = shape_latent,
    .example = example_latent,
    .parts = latent_part,
};
