/* SPDX-License-Identifier: MIT */
/* test_gradients.c - every layer's backward against differences of its forward, in double precision.
 *
 * The layers of engine/train are compiled here with `real` = double.  A parameter's gradient is compared with
 * (L(w + h) - L(w - h)) / 2h.  Where two step lengths disagree there is a kink (ReLU, |x|, a clamped gate)
 * between them: such places are left out, and must be few. */
#include "../unit/test.h"

#include "autograd/record.h"
#include "core/savefile.h"
#include "models/diffae/diffae.h"
#include "train/build.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static zn_cpu *dev;

static double loss_of(zn_net *net, const real *target)
{
    double all;

    zn_net_forward(net);
    return zn_net_loss(net, target, NULL, false) + (double)net->penalty * zn_net_open_gates(net, &all) +
        (double)net->divergence * zn_net_divergence(net);
}

static double slope(zn_net *net, const real *target, size_t i, double h)
{
    real keep = net->w[i];
    double up, down;

    net->w[i] = keep + h;
    up = loss_of(net, target);
    net->w[i] = keep - h;
    down = loss_of(net, target);
    net->w[i] = keep;
    return (up - down) / (2 * h);
}

static double nudge = 0.3;   /* less for deep networks without norms */
static double stride = 1e-5; /* of a difference: more where gradients are small and the network smooth */

/* Some parameters of each tensor; all inputs random, all parameters away from their special initial values.
 */
static void check_net(zn_net *net, int per_tensor)
{
    real *target, *grad;
    double noise;
    size_t len;
    int compared = 0, kinks = 0;

    CHECK(zn_net_finish(net, 1), "no memory");
    for (int i = 0; i < net->n_nodes; i++)
        for (size_t j = 0; !net->node[i]->op && j < zn_node_len(net->node[i]); j++)
            net->node[i]->y[j] = zn_normal(2, (uint64_t)i, j);
    for (size_t i = 0; i < net->len; i++)
        net->w[i] += nudge * zn_normal(3, 0, i) * (fabs(net->w[i]) > 0 && fabs(net->w[i]) < 0.05 ? 0.02 : 1);
    len = zn_node_len(zn_net_last(net));
    target = malloc(len * sizeof *target);
    for (size_t i = 0; i < len; i++)
        target[i] = zn_normal(4, 0, i);
    noise = 2e-15 * (1 + 1.4 * loss_of(net, target)) / stride; /* of a difference of two losses */
    zn_net_backward(net);
    grad = malloc(net->len * sizeof *grad);
    memcpy(grad, net->g, net->len * sizeof *grad);
    for (int p = 0; p < net->n_params && !test_state.why[0]; p++) {
        const zn_param *q = &net->param[p];
        double top = 1e-8;

        for (size_t j = 0; j < q->len; j++)
            top = fmax(top, fabs(grad[q->at + j]));
        for (int k = 0; k < per_tensor; k++) {
            size_t i = q->at + (size_t)(zn_uniform(5, (uint64_t)p, (uint64_t)k) * (double)q->len);
            double a = slope(net, target, i, stride), b = slope(net, target, i, 0.3 * stride);

            compared++;
            if (fabs(a - b) > 1e-6 * top + noise) {
                kinks++;
                continue;
            }
            if (!(fabs(b - grad[i]) <= 2e-6 * top + noise)) {
                test_note(false, "%s[%zu]: %.9g, not %.9g", q->name, i - q->at, grad[i], b);
                break;
            }
        }
    }
    free(target);
    free(grad);
    if (test_state.why[0])
        return;
    CHECK(kinks * 5 <= compared, "%d of %d places have kinks", kinks, compared);
}

/* ---- single layers ------------------------------------------------------------------------------------- */

static zn_outline outline; /* of the network that is built, g */
static zn_net *g;
static double gain = 1; /* of the initial weights of convolutions */

static void state(const char *name, const int dims[4], zn_init init, double value)
{
    zn_stated *t;
    int rank = 0;

    while (rank < 4 && dims[rank])
        rank++;
    t = zn_outline_add(&outline, name, dims, rank);
    if (!t)
        abort();
    t->init = init;
    t->value = value;
}

/* NAME.weight as this convolution, and NAME.bias. */
static int conv(int x, const char *name, zn_conv spec)
{
    char full[32];

    snprintf(full, sizeof full, "%s.weight", name);
    spec.cin = zn_net_channels(g, x);
    spec.groups = spec.groups ? spec.groups : 1;
    state(full, (int[4]){ spec.cout, spec.cin / spec.groups, spec.kh, spec.kh }, ZN_INIT_GAIN, gain);
    outline.tensor[outline.n - 1].conv = spec;
    snprintf(full, sizeof full, "%s.bias", name);
    if (spec.has_bias)
        state(full, (int[4]){ spec.cout }, ZN_INIT_USUAL, 0);
    return zn_net_conv(g, x, "%s", name);
}

static int point(int x, const char *name, int cout)
{
    return conv(x, name, zn_conv_same(1, 0, cout));
}

static int in_groups(int x, const char *name, int k, int groups, int cout, bool bias)
{
    zn_conv spec = zn_conv_same(k, 0, cout);

    spec.groups = groups;
    spec.has_bias = bias;
    return conv(x, name, spec);
}

/* The graph on two pictures of 6x6x8; a first convolution makes every later layer's dx count. */
static void check_layers(void (*graph)(int x), int per_tensor)
{
    g = zn_net_new(dev);
    g->outline = &outline;
    graph(zn_net_input(g, 2, 6, 6, 8));
    check_net(g, per_tensor);
    zn_net_free(&g);
    zn_outline_free(&outline);
}

static void graph_conv(int x)
{
    zn_conv half = { .kh = 2, .kw = 2, .stride = 2, .cout = 7, .has_bias = true }, last = zn_conv_same(3, 0, 4);
    zn_conv no_bias = zn_conv_same(1, 0, 6);

    no_bias.has_bias = false;
    last.stride = 2;
    conv(conv(conv(conv(x, "a", zn_conv_same(3, 0, 5)), "b", half), "c", no_bias), "d", last);
}

static void graph_depthwise(int x)
{
    in_groups(in_groups(point(x, "a", 12), "b", 3, 12, 12, true), "c", 3, 12, 12, false);
}

static void graph_shuffles(int x)
{
    zn_net_shuffle(g, point(zn_net_unshuffle(g, point(x, "a", 8), 2), "b", 36), 3);
}

static void graph_relu_add_halves(int x)
{
    int a = point(x, "a", 8), b = zn_net_act(g, a, ZN_RELU);

    zn_net_halves(g, zn_net_add(g, zn_net_add(g, a, point(b, "b", 8)), b));
}

static void graph_concat(int x)
{
    int a = point(x, "a", 5), b = point(a, "b", 3);

    point(zn_net_concat(g, b, zn_net_concat(g, a, x)), "c", 4);
}

static void graph_fwht_scale_mixer(int x)
{
    state("s", (int[4]){ 16 }, ZN_INIT_CONSTANT, 1.0 / 16);
    state("m", (int[4]){ 3, 16 }, ZN_INIT_MIDDLE, 0);
    x = zn_net_scale(g, zn_net_fwht(g, point(x, "a", 16)), "s");
    zn_net_fwht(g, zn_net_mixer(g, x, "m"));
}

static void graph_dropout(int x)
{
    state("s", (int[4]){ 16 }, ZN_INIT_CONSTANT, 1.0 / 16);
    zn_net_scale(g, point(x, "a", 16), "s");
    g->training = true;
    g->dropout = 0.3;
}

static void graph_slm(int x)
{
    state("s.weight", (int[4]){ 16, 5 }, ZN_INIT_NORMAL, 0.632455532);
    state("s.bias", (int[4]){ 16 }, ZN_INIT_CONSTANT, -1);
    zn_net_slm(g, point(x, "a", 16), "s");
}

static void graph_group_norm(int x)
{
    state("n.weight", (int[4]){ 12 }, ZN_INIT_USUAL, 0);
    state("n.bias", (int[4]){ 12 }, ZN_INIT_USUAL, 0);
    zn_net_group_norm(g, conv(x, "a", zn_conv_same(3, 0, 12)), 3, "n");
}

static void graph_layer_norm(int x)
{
    zn_net_layer_norm(g, conv(x, "a", zn_conv_same(3, 0, 12)));
}

/* The gate of `a`, and a depthwise convolution that it prunes; *from: a. */
static int gated(int x, int *from)
{
    state("g.scale", (int[4]){ 4 }, ZN_INIT_CONSTANT, 1);
    state("g.bias", (int[4]){ 4 }, ZN_INIT_USUAL, 0);
    state("e.weight", (int[4]){ 32, 1, 3, 3 }, ZN_INIT_NORMAL, 1);
    gain = 0.2;
    *from = point(x, "a", 32);
    gain = 1;
    x = zn_net_gate(g, *from, "g");
    return zn_net_pruned(g, x, x, "e");
}

/* Soft gates, with noise, some of them quite shut and some quite open. */
static void graph_gate(int x)
{
    int from, y = gated(x, &from);

    zn_net_add(g, from, y);
    g->training = true;
    g->temperature = 0.4;
    g->penalty = 1e-3;
}

static void graph_hard_gate(int x)
{
    gated(x, &(int){ 0 });
}

static void graph_grouped_and_lines(int x)
{
    state("w", (int[4]){ 8 }, ZN_INIT_CONSTANT, 1);
    state("h", (int[4]){ 4 }, ZN_INIT_CONSTANT, 1);
    state("v", (int[4]){ 4 }, ZN_INIT_CONSTANT, 1);
    x = zn_net_lines(g, in_groups(x, "a", 1, 4, 16, true), true, 0, "w");
    x = zn_net_lines(g, zn_net_lines(g, x, false, 2, "h"), true, 0, "v");
    in_groups(zn_net_act(g, x, ZN_SILU), "b", 1, 2, 6, true);
}

static void graph_spectral(int x)
{
    state("s.scale", (int[4]){ 4, 16 }, ZN_INIT_NORMAL, 0.25);
    state("s.bias", (int[4]){ 11 }, ZN_INIT_USUAL, 0);
    state("t.scale", (int[4]){ 4, 16 }, ZN_INIT_NORMAL, 0.25);
    state("t.bias", (int[4]){ 3 }, ZN_INIT_USUAL, 0);
    x = zn_net_act(g, zn_net_spectral(g, point(x, "a", 5), "s"), ZN_GELU);
    zn_net_spectral(g, x, "t");
}

static void graph_up2(int x)
{
    zn_conv up = zn_conv_same(3, 0, 3);

    up.up2 = true;
    conv(conv(x, "a", zn_conv_same(3, 0, 4)), "b", up);
}

static void graph_attention(int x)
{
    x = zn_net_attention(g, point(x, "a", 12), 2);
    zn_net_attention(g, point(zn_net_act(g, x, ZN_TANH), "b", 9), 1);
}

static void graph_product(int x)
{
    int a = point(x, "a", 5), b = point(a, "b", 5);

    zn_net_product(g, zn_net_product(g, b, a), a);
}

static void graph_posterior(int x)
{
    zn_net_posterior(g, point(x, "a", 6));
    g->training = true;
    g->divergence = 0.1;
}

/* Some variances beyond the clamp: the rest of the network does not see them change. */
static void graph_clamped(int x)
{
    gain = 400;
    zn_net_posterior(g, point(x, "a", 6));
    gain = 1;
    g->training = true;
}

#define LAYERS(name_, per_tensor_)                                                                                     \
    static void test_##name_(void)                                                                                     \
    {                                                                                                                  \
        check_layers(graph_##name_, per_tensor_);                                                                      \
    }

LAYERS(conv, 40)
LAYERS(depthwise, 40)
LAYERS(shuffles, 40)
LAYERS(relu_add_halves, 60)
LAYERS(concat, 40)
LAYERS(fwht_scale_mixer, 40)
LAYERS(dropout, 40)
LAYERS(slm, 80)
LAYERS(group_norm, 60)
LAYERS(layer_norm, 60)
LAYERS(gate, 100)
LAYERS(hard_gate, 60)
LAYERS(grouped_and_lines, 30)
LAYERS(spectral, 40)
LAYERS(up2, 30)
LAYERS(attention, 40)
LAYERS(product, 40)
LAYERS(posterior, 40)
LAYERS(clamped, 40)

/* ---- whole networks ------------------------------------------------------------------------------------ */

static void check_model(const zn_build *b, int per_tensor)
{
    zn_net *whole = zn_net_new(dev);
    zn_error err = { "" };

    if (zn_net_build(whole, b, &err)) {
        test_note(false, "%s: %s", b->model, err.text);
    } else {
        whole->training = true;
        whole->temperature = 0.3;
        whole->divergence = 0.01;
        check_net(whole, per_tensor);
    }
    zn_net_free(&whole);
}

/* Encoder and decoder together; without an activation they are affine. */
static void test_autoencoders(void)
{
    static const char *const model[] = { "zenith-taesd", "zenith-lite-doc", "zenith-spectral", "vanilla-taesd" };
    static const char *const gelu[] = { "activation", "gelu", NULL };

    stride = 3e-4;
    for (int i = 0; i < 8; i++) {
        zn_build b = { model[i % 4], 1, 16, i % 4 == 3 ? 4 : 16, i < 4 ? NULL : gelu, NULL };

        nudge = i % 4 == 2 ? 0.03 : 0.1;
        check_model(&b, 2);
    }
    nudge = 0.3;
    stride = 1e-5;
}

static void test_zenith_ae(void)
{
    check_model(&(zn_build){ "zenith-ae", 2, 32, 4, NULL, NULL }, 6);
}

static void test_zenith_prune(void)
{
    check_model(&(zn_build){ "zenith-prune", 2, 32, 4, NULL, NULL }, 6);
}

static void test_zenith_prune_residual(void)
{
    static const char *const residual[] = { "residual", "1", NULL };

    check_model(&(zn_build){ "zenith-prune", 2, 32, 4, residual, NULL }, 6);
}

static void test_wan2d(void)
{
    nudge = 0.1;
    check_model(&(zn_build){ "wan2d-vae", 1, 32, 4, NULL, NULL }, 1);
    nudge = 0.3;
}

/* The latent network of the diffusion autoencoder: codes, and embeddings of time. */
static void test_latent_net(void)
{
    const char *path = ZN_SOURCE_ROOT "/tests/data/golden/diffae.ckpt";
    zn_net *net = zn_net_new(dev);
    zn_weights *w = NULL;
    zn_error err = { "" };
    const zn_entry *time, *first;

    if (zn_weights_open(&w, &path, 1, &err) ||
        !(time = zn_weights_get(w, "ema_model.latent_net.time_embed.0.weight")) ||
        !(first = zn_weights_get(w, "ema_model.latent_net.layers.0.linear.weight")) ||
        zn_net_build_codes(net, &zn_arch_diffae_latent_net, w, 3, (int)first->shape[1], (int)time->shape[1], &err))
        test_note(false, "%s", err.text);
    else
        check_net(net, 8);
    zn_net_free(&net);
    zn_weights_close(&w);
}

static void test_conv_baseline(void)
{
    check_model(&(zn_build){ "conv-baseline-ae", 1, 32, 1, NULL, NULL }, 20);
}

static void test_denoiser(void)
{
    const char *path = ZN_SOURCE_ROOT "/tests/data/golden/denoise.safetensors";
    zn_weights *w = NULL;
    zn_error err;

    if (zn_weights_open(&w, &path, 1, &err))
        test_note(false, "%s", err.text);
    else
        check_model(&(zn_build){ "denoise-fast", 1, 16, 0, NULL, w }, 6);
    zn_weights_close(&w);
}

/* The trained autoencoders, encoder and decoder together, with the soft clamp between them. */
static void test_latents(void)
{
    static const char *const path[] = { ZN_SOURCE_ROOT "/tests/data/golden/latent-gated.safetensors",
                                        ZN_SOURCE_ROOT "/tests/data/golden/latent-plain.safetensors" };
    zn_error err;

    nudge = 0.03;
    for (int i = 0; i < 2; i++) {
        zn_weights *w = NULL;

        if (zn_weights_open(&w, &path[i], 1, &err))
            test_note(false, "%s", err.text);
        else
            check_model(&(zn_build){ "zenith", 1, 16, 0, NULL, w }, 4);
        zn_weights_close(&w);
    }
    nudge = 0.3;
}

/* A TAESD of width 4, encoder and decoder, with the layers of these lists (models/taesd.c). */
static zn_weights *small_taesd(zn_error *err)
{
    enum { C = 4, MOST = 160 };
    static const char *const half[] = { "encoder", "decoder" },
                             *const plan[] = { "cbsbbbsbbbsbbbc", "kcrbbbunbbbunbbbunbc" };
    static const float zeros[C * C * 9];
    char path[] = "/tmp/zenith-taesd-XXXXXX.safetensors", (*name)[40] = calloc(MOST, sizeof *name);
    zn_save_tensor *list = calloc(MOST, sizeof *list);
    const char *file = path;
    zn_weights *w = NULL;
    int n = 0;

    for (int h = 0; name && list && h < 2; h++)
        for (int i = 0; plan[h][i]; i++) {
            const char kind = plan[h][i];
            const bool last = !plan[h][i + 1], first = i < 2 && kind == 'c';

            for (int j = 0; strchr("cnsb", kind) && j < (kind == 'b' ? 6 : kind == 'c' ? 2 : 1); j++, n++) {
                static const char *const within[] = { "conv.0.", "conv.2.", "conv.4." };

                snprintf(name[n], sizeof *name, "%s.%d.%s%s", half[h], i, kind == 'b' ? within[j / 2] : "",
                         j % 2 ? "bias" : "weight");
                list[n] = (zn_save_tensor){ .name = name[n], .n_dims = j % 2 ? 1 : 4, .data = zeros };
                list[n].shape[0] = last && h ? 3 : C;
                list[n].shape[1] = j % 2 ? 0 : first && !h ? 3 : C;
                list[n].shape[2] = list[n].shape[3] = j % 2 ? 0 : 3;
            }
        }
    if (n && !close(mkstemps(path, 12)) && !zn_save_tensors(path, list, (size_t)n, NULL, err))
        zn_weights_open(&w, &file, 1, err);
    free(name);
    free(list);
    remove(path);
    return w;
}

static void test_taesd(void)
{
    zn_error err = { "" };
    zn_weights *w = small_taesd(&err);

    nudge = 0.1;
    if (w)
        check_model(&(zn_build){ "zenith-tae", 1, 16, 0, NULL, w }, 2);
    else
        test_note(false, "%s", err.text);
    zn_weights_close(&w);
    nudge = 0.3;
}

/* What has no gradient is refused when the forward is recorded. */
static void test_refused(void)
{
    const char *path = ZN_SOURCE_ROOT "/tests/data/golden/latent-mix.safetensors";
    zn_net *net = zn_net_new(dev);
    zn_weights *w = NULL;
    zn_error err = { "" };
    zn_status s = zn_weights_open(&w, &path, 1, &err);

    if (!s)
        s = zn_net_build(net, &(zn_build){ "zenith", 1, 16, 0, NULL, w }, &err);
    zn_weights_close(&w);
    zn_net_free(&net);
    CHECK(s == ZN_E_USAGE && strstr(err.text, "gates per channel"), "%d: %s", s, err.text);
}

static int node_at(zn_recorder *r, zn_tensor x, int node)
{
    zn_record_set(r, x, node);
    return zn_record_get(r, x);
}

/* Memory stands for what was written to it last: in whole, in parts, and after parts of it were written over. */
static void test_places(void)
{
    zn_net *net = zn_net_new(dev);
    zn_recorder r = { .net = net };
    const int a = zn_net_input(net, 1, 2, 2, 4), b = zn_net_input(net, 1, 2, 2, 4), c = zn_net_input(net, 1, 2, 2, 8);
    static float memory[256];
    const zn_tensor whole = { memory, 1, 2, 2, 8, 8, ZN_F32 }, other = { memory + 64, 1, 2, 2, 4, 4, ZN_F32 };
    const zn_tensor first = zn_slice(whole, 0, 4), second = zn_slice(whole, 4, 4);
    int got;

    CHECK(node_at(&r, whole, c) == c, "a tensor");
    CHECK(node_at(&r, other, a) == a && zn_record_get(&r, whole) == c, "another one is not it");
    CHECK(node_at(&r, first, a) == a && node_at(&r, second, b) == b && zn_record_get(&r, first) == a, "parts");
    got = zn_record_get(&r, whole);
    CHECK(got == c + 1 && zn_net_at(net, got)->in[0] == a && zn_net_at(net, got)->in[1] == b, "their concatenation");
    CHECK(node_at(&r, whole, c) == c && r.n == 2, "written over");
    CHECK(zn_record_get(&r, first) == ZN_NO_NODE && net->status == ZN_E_USAGE, "a part of a layer is no layer");
    zn_record_end(&r);
    zn_net_free(&net);
}

int main(void)
{
    void *opened;
    zn_error err;

    if (zn_backend_scalar.open(&opened, 2, &err))
        return 1;
    dev = opened;
    RUN(test_conv);
    RUN(test_depthwise);
    RUN(test_shuffles);
    RUN(test_relu_add_halves);
    RUN(test_concat);
    RUN(test_fwht_scale_mixer);
    RUN(test_dropout);
    RUN(test_slm);
    RUN(test_group_norm);
    RUN(test_layer_norm);
    RUN(test_gate);
    RUN(test_hard_gate);
    RUN(test_grouped_and_lines);
    RUN(test_spectral);
    RUN(test_up2);
    RUN(test_attention);
    RUN(test_product);
    RUN(test_posterior);
    RUN(test_clamped);
    RUN(test_autoencoders);
    RUN(test_zenith_ae);
    RUN(test_zenith_prune);
    RUN(test_zenith_prune_residual);
    RUN(test_wan2d);
    RUN(test_latent_net);
    RUN(test_conv_baseline);
    RUN(test_denoiser);
    RUN(test_latents);
    RUN(test_taesd);
    RUN(test_refused);
    RUN(test_places);
    zn_backend_scalar.close(dev);
    return test_end();
}
