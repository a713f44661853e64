/* SPDX-License-Identifier: MIT */
/* diffae.c - the loops of the diffusion autoencoder: which of its networks run in which order.
 *
 *   diffae-reverse         picture, its code ── U-Net, t increasing ── xT, the noise that it comes from (DDIM inversion)
 *   diffae-sample          noise, a code ── U-Net, t decreasing ── picture
 *   diffae-latent-sample   noise ── latent network, t decreasing ── a code
 *
 * Several pictures lie one below the other, x [n*S][S][3], with their codes, cond [n][1][code]: one batch.
 * With a second code, cond0, an edit is guided: p = p(cond0) + guide (p(cond) - p(cond0)).
 *
 * Inversion (diffae-reverse) followed by sampling does not return exactly to the picture.  With path=1 an array is a stack
 * instead of a batch, [(1 + steps)*S][S][3].  Inversion writes xT to the first picture of the stack, and a correction for
 * each sampling step to the others: the state of the inversion minus what that step makes of the state before it.
 * Sampling adds the corrections, so the code of the inversion leads back to the picture itself, and an edit can be
 * compared with that instead of with a reconstruction. */
#include "sampler.h"

#include "../models/diffae/diffae.h"

#include <math.h>

enum { SET_STEPS, SET_ORDER, SET_GUIDE, SET_REVERSE, SET_PATH, SET_GUIDED, SET_FROM, SET_ETA, SET_SEED };
enum { LATENT_STEPS, LATENT_ETA, LATENT_SEED }; /* of the latent network */

typedef struct diffae {
    zn_model *net;
    zn_prediction prediction;
    zn_tensor mean, deviation; /* of the latent network's codes */
} diffae;

typedef struct loop { /* what the sampler's predict is given */
    zn_model *net;
    zn_tensor rows;        /* [1][1][steps][row]: what the network makes of all time steps */
    zn_tensor now;         /* [n][1][1][row]: of this one, at one address */
    zn_tensor gate, gate0; /* [n][1][1][gate]: of the codes; c 0: there are none */
    float guide;
    int n_guided;            /* the first steps; the others take `gate` alone */
    int k;                   /* the step */
    zn_tensor stack;         /* of a path; c 0: there is none */
    zn_tensor up, estimates; /* inversion with a path: states and estimates of x0, stacks */
} loop;

/* ---- bind ---------------------------------------------------------------------------------------------- */

static void bind_unet(zn_binder *b, void *net)
{
    diffae *m = net;

    m->net = b->part[0];
    m->prediction = zn_diffae_prediction(m->net->net);
}

static void bind_latent(zn_binder *b, void *net)
{
    diffae *m = net;

    m->net = b->part[0];
    m->prediction = zn_diffae_latent_prediction(m->net->net);
    if (!zn_diffae_latent_statistics(m->net->net, &m->mean, &m->deviation) && b->w)
        zn_bind_fail(b, "the file lacks the statistics of codes (conds_mean, conds_std)");
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* Pictures that lie one below the other, as a batch. */
static zn_tensor batch(zn_tensor x, int n)
{
    return (zn_tensor){ x.data, x.n * n, x.h / n, x.w, x.c, x.ld, x.type };
}

/* The loop's rows and gates, computed once: for all steps, and for the codes in cond (and cond0). */
static void prepare(zn_ctx *c, loop *l, const zn_schedule *s, int n, int row, int gate, zn_tensor cond, zn_tensor cond0)
{
    const zn_type type = c->be->tensor_type[l->net->precision];
    const zn_tensor times = zn_new_of(c, ZN_F32, 1, 1, s->n, 1);

    zn_upload(c, times, s->t);
    l->rows = zn_new_of(c, type, 1, 1, s->n, row);
    l->now = zn_new_of(c, type, n, 1, 1, row);
    l->gate = gate ? zn_new_of(c, type, n, 1, 1, gate) : (zn_tensor){ 0 };
    l->gate0 = cond0.c ? zn_new_of(c, type, n, 1, 1, gate) : (zn_tensor){ 0 };
    if (cond0.c)
        zn_call_net(c, l->net,
                    &(zn_call){ .in = { times, cond0 }, .out = { l->rows, l->gate0 }, .n_in = 2, .n_out = 2 });
    if (gate)
        zn_call_net(c, l->net, &(zn_call){ .in = { times, cond }, .out = { l->rows, l->gate }, .n_in = 2, .n_out = 2 });
    else
        zn_call_net(c, l->net, &(zn_call){ .in = { times }, .out = { l->rows }, .n_in = 1, .n_out = 1 });
}

/* One prediction.  The latent network has no gates. */
static void run_net(zn_ctx *c, const loop *l, zn_tensor p, zn_tensor x, zn_tensor gate)
{
    const zn_call call = { .in = { x, l->now, gate }, .out = { p }, .n_in = gate.c ? 3 : 2, .n_out = 1 };

    zn_call_net(c, l->net, &call);
}

/* now = the row of this step, for each of the pictures. */
static void next_row(zn_ctx *c, loop *l)
{
    zn_tensor row = l->rows;

    row.data = (float *)((char *)row.data + (size_t)l->k++ * (size_t)row.c * zn_type_size(row.type));
    row.w = 1;
    for (int i = 0; i < l->now.n; i++) {
        zn_tensor to = l->now;

        to.data = (float *)((char *)to.data + (size_t)i * (size_t)to.c * zn_type_size(to.type));
        to.n = 1;
        zn_map(c, to, row, (zn_tail){ 0 });
    }
}

static void predict(zn_ctx *c, void *cookie, zn_tensor p, zn_tensor x, zn_tensor t)
{
    loop *l = cookie;
    const size_t mark = zn_mark(c->arena);

    (void)t;
    next_row(c, l);
    if (l->gate0.c && l->k <= l->n_guided) {
        zn_tensor q = zn_new_of(c, ZN_F32, x.n, x.h, x.w, x.c);

        run_net(c, l, p, x, l->gate0);
        run_net(c, l, q, x, l->gate);
        zn_map(c, q, q, (zn_tail){ .gain = l->guide });
        if (l->guide != 0) /* as a gain, 0 would mean 1 */
            zn_map(c, p, p, (zn_tail){ .gain = 1 - l->guide, .residual = &q });
    } else {
        run_net(c, l, p, x, l->gate);
    }
    zn_reset(c->arena, mark);
}

/* The schedule of the pictures; false: there is none of so many steps.  from: the time step at which sampling starts, 0: the last. */
static bool picture_schedule(zn_schedule *s, const diffae *m, const float *set, bool reverse, int from)
{
    const bool second = from > 0 || set[SET_ORDER] == 2 ||
        (set[SET_ORDER] == 0 && set[SET_ETA] == 0 && m->prediction != ZN_PREDICTS_NOISE);
    const int total = from > 0 ? from + 1 : ZN_DIFFAE_STEPS, steps = (int)set[SET_STEPS];
    double abar[ZN_DIFFAE_STEPS];

    zn_abar(abar, ZN_DIFFAE_STEPS, 1e-4, 0.02);
    return second ? zn_schedule_squared(s, abar, total, steps, m->prediction, reverse)
                  : zn_schedule_ddim(s, abar, total, steps, m->prediction, reverse, (double)set[SET_ETA]);
}

/* ---- a path -------------------------------------------------------------------------------------------- */

/* Picture k of a stack of square ones. */
static zn_tensor picture(zn_tensor stack, int k)
{
    stack.data += (size_t)k * (size_t)stack.w * (size_t)stack.w * (size_t)stack.c;
    stack.h = stack.w;
    return stack;
}

static void copy(zn_ctx *c, zn_tensor y, zn_tensor x)
{
    zn_map(c, y, x, (zn_tail){ 0 });
}

static void keep_state(zn_ctx *c, void *cookie, zn_tensor x, zn_tensor x0, int k)
{
    const loop *l = cookie;

    copy(c, picture(l->up, k), x);
    copy(c, picture(l->estimates, k), x0);
}

static void add_missing(zn_ctx *c, void *cookie, zn_tensor x, int k)
{
    const loop *l = cookie;

    zn_combine(c, x, x, picture(l->stack, 1 + k), ZN_ADD, (zn_tail){ 0 });
}

/* y -= gain * x */
static void subtract(zn_ctx *c, zn_tensor y, zn_tensor x, float gain)
{
    if (gain != 0) /* in a tail, 0 would mean 1 */
        zn_map(c, y, x, (zn_tail){ .gain = -gain, .residual = &y });
}

/* The corrections of a stack, after its inversion; l has the rows of sampling. */
static void state_missing(zn_ctx *c, loop *l, const zn_schedule *down)
{
    const zn_tensor xt = picture(l->stack, 0), p = zn_new_of(c, ZN_F32, 1, xt.h, xt.w, xt.c);
    const zn_tensor first = zn_new_of(c, ZN_F32, 1, xt.h, xt.w, xt.c);
    const zn_tensor coefs = zn_new_of(c, ZN_F32, 1, 1, 1, ZN_STEP_COEFS);
    const int n = down->n;

    zn_upload(c, coefs, down->preview[0]);
    predict(c, l, p, xt, (zn_tensor){ 0 });
    zn_step(c, first, xt, p, coefs, 1);
    for (int i = 0; i < n; i++) {
        const zn_tensor y = picture(l->stack, 1 + i);
        const float *m = down->multistep[i];

        copy(c, y, picture(l->up, i < n - 2 ? n - 2 - i : 0));
        subtract(c, y, i ? picture(l->up, n - 1 - i) : xt, m[0]);
        subtract(c, y, i ? picture(l->estimates, n - 1 - i) : first, m[1]);
        if (i)
            subtract(c, y, i > 1 ? picture(l->estimates, n - i) : first, m[2]);
    }
}

/* y = x with the noise of this time step, the same noise for all pictures; y, x [n][S][S][3] */
static void add_noise(zn_ctx *c, zn_tensor y, zn_tensor x, int time)
{
    const zn_tensor noise = zn_new_of(c, ZN_F32, 1, x.h, x.w, x.c);
    double abar[ZN_DIFFAE_STEPS];

    zn_abar(abar, ZN_DIFFAE_STEPS, 1e-4, 0.02);
    zn_noise(c, noise, 0, 0);
    zn_map(c, noise, noise, (zn_tail){ .gain = (float)sqrt(1 - abar[time]) });
    zn_map(c, y, x, (zn_tail){ .gain = (float)sqrt(abar[time]) });
    for (int i = 0; i < y.n; i++) {
        zn_tensor one = y;

        one.n = 1;
        one.data += (size_t)i * (size_t)y.h * (size_t)y.w * (size_t)y.c;
        zn_combine(c, one, one, noise, ZN_ADD, (zn_tail){ 0 });
    }
}

/* ---- the loops ----------------------------------------------------------------------------------------- */

static void run_path(zn_ctx *c, const diffae *m, const zn_call *call, bool reverse, loop *l, const zn_schedule *s)
{
    const zn_tensor in = call->in[0];
    zn_schedule down;

    l->stack = call->out[0];
    if (in.h != in.w * (1 + (int)call->set[SET_STEPS]) || call->in[1].h != 1) {
        zn_ctx_fail(c, ZN_E_USAGE, "a path of %g steps is a stack of %g square pictures with one code",
                    (double)call->set[SET_STEPS], 1 + (double)call->set[SET_STEPS]);
        return;
    }
    copy(c, l->stack, in);
    if (reverse) {
        l->up = zn_new_of(c, ZN_F32, 1, in.w * s->n, in.w, in.c);
        l->estimates = zn_new_of(c, ZN_F32, 1, in.w * s->n, in.w, in.c);
    }
    zn_sample(c, picture(l->stack, 0),
              &(zn_sampler){ .schedule = s,
                             .clip = 1,
                             .predict = predict,
                             .estimated = reverse ? keep_state : NULL,
                             .updated = reverse ? NULL : add_missing,
                             .cookie = l });
    if (reverse && picture_schedule(&down, m, call->set, false, 0)) {
        prepare(c, l, &down, 1, zn_diffae_row(m->net->net), zn_diffae_gate(m->net->net), call->in[1], (zn_tensor){ 0 });
        l->k = 0;
        state_missing(c, l, &down);
    }
}

static void run_pictures(zn_ctx *c, const diffae *m, const zn_call *call, bool reverse)
{
    const zn_tensor cond = call->in[1];
    const int n = cond.h;
    const zn_tensor y = batch(call->out[0], n);
    const bool guided = call->n_in > 2 && call->set[SET_GUIDE] != 1;
    const int from = reverse || call->set[SET_PATH] != 0 ? 0 : (int)call->set[SET_FROM];
    loop l = { .net = m->net, .guide = guided ? call->set[SET_GUIDE] : 1 };
    zn_schedule s;

    if (!picture_schedule(&s, m, call->set, reverse, from)) {
        zn_ctx_fail(c, ZN_E_USAGE, "%g steps do not divide the %d of training", (double)call->set[SET_STEPS],
                    ZN_DIFFAE_STEPS);
        return;
    }
    prepare(c, &l, &s, n, zn_diffae_row(m->net->net), zn_diffae_gate(m->net->net), batch(cond, n),
            guided ? batch(call->in[2], n) : (zn_tensor){ 0 });
    l.n_guided = guided ? (int)ceil((double)call->set[SET_GUIDED] * s.n - 1e-6) : 0;
    if (call->set[SET_PATH] != 0) {
        run_path(c, m, call, reverse, &l, &s);
        return;
    }
    if (from)
        add_noise(c, y, batch(call->in[0], n), from);
    else
        copy(c, y, batch(call->in[0], n));
    zn_sample(c, y,
              &(zn_sampler){
                  .schedule = &s, .seed = (uint32_t)call->set[SET_SEED], .clip = 1, .predict = predict, .cookie = &l });
}

static void sample(zn_ctx *c, const void *net, const zn_call *call)
{
    run_pictures(c, net, call, call->set[SET_REVERSE] != 0);
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
    if (!zn_schedule_ddim(&s, abar, ZN_DIFFAE_STEPS, (int)call->set[LATENT_STEPS], m->prediction, false,
                          (double)call->set[LATENT_ETA])) {
        zn_ctx_fail(c, ZN_E_USAGE, "%g steps do not divide the %d of training", (double)call->set[LATENT_STEPS],
                    ZN_DIFFAE_STEPS);
        return;
    }
    prepare(c, &l, &s, 1, zn_diffae_latent_row(m->net->net), 0, (zn_tensor){ 0 }, (zn_tensor){ 0 });
    zn_map(c, y, call->in[0], (zn_tail){ 0 });
    zn_sample(
        c, y,
        &(zn_sampler){ .schedule = &s, .seed = (uint32_t)call->set[LATENT_SEED], .predict = predict, .cookie = &l });
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

#define ETA                                                                                                            \
    {                                                                                                                  \
        "eta", 0, 0, 1, "noise drawn anew in each step, in order 1; 1: ancestral sampling (DDPM)"                      \
    }
#define SEED                                                                                                           \
    {                                                                                                                  \
        "seed", 0, 0, ZN_MAX_SEED, "of that noise; picture i has seed + i"                                             \
    }

static const zn_setting sample_settings[] = {
    [SET_STEPS] = { "steps", 20, 1, 1000, "evaluations of the network" },
    [SET_ORDER] = ORDER,
    [SET_GUIDE] = { "guide", 1, 0, 20, "how far an edit is guided; 1: not" },
    [SET_REVERSE] = { "reverse", 0, 0, 1, "1: from a picture to noise, as diffae-reverse does" },
    [SET_PATH] = { "path", 0, 0, 1, "1: stacks that lead back to the picture" },
    [SET_GUIDED] = { "guided", 1, 0, 1, "share of the steps that is guided" },
    [SET_FROM] = { "from", 0, 0, 999, "from a picture with the noise of this time, in order 2; 0: from noise" },
    [SET_ETA] = ETA,
    [SET_SEED] = SEED,
    { 0 }
};
static const zn_setting reverse_settings[] = {
    [SET_STEPS] = { "steps", 250, 1, 1000, "steps from the picture to noise" }, [SET_ORDER] = ORDER, { 0 }
};
static const zn_setting latent_settings[] = { [LATENT_STEPS] = { "steps", 200, 1, 1000, "evaluations of the network" },
                                              [LATENT_ETA] = ETA,
                                              [LATENT_SEED] = SEED,
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
    .half_ok = true, /* an edit of a face: 0.85 levels at most, mean 0.08, 67 dB */
    .half_unless = ZN_DIFFAE_OFFICIAL,
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
