/* SPDX-License-Identifier: MIT */
/* test_gradients.c - every layer's backward against differences of its forward, in double precision.
 *
 * The layers of engine/train are compiled here with `real` = double.  A parameter's gradient is compared with
 * (L(w + h) - L(w - h)) / 2h.  Where two step lengths disagree there is a kink (ReLU, |x|, a clamped gate)
 * between them: such places are left out, and must be few. */
#include "../unit/test.h"

#include "train/nets.h"

#include <math.h>
#include <stdlib.h>

static zn_cpu *dev;

static double loss_of(zn_net *net, const real *target)
{
    double all;

    zn_net_forward(net);
    return zn_net_loss(net, target, NULL, false) + (double)net->penalty * zn_net_open_gates(net, &all);
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
    real *target, *g;
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
    noise = 1e-15 * (1 + 1.4 * loss_of(net, target)) / stride; /* of a difference of two losses */
    zn_net_backward(net);
    g = malloc(net->len * sizeof *g);
    memcpy(g, net->g, net->len * sizeof *g);
    for (int p = 0; p < net->n_params && !test_state.why[0]; p++) {
        const zn_param *q = &net->param[p];
        double top = 1e-8;

        for (size_t j = 0; j < q->len; j++)
            top = fmax(top, fabs(g[q->at + j]));
        for (int k = 0; k < per_tensor; k++) {
            size_t i = q->at + (size_t)(zn_uniform(5, (uint64_t)p, (uint64_t)k) * (double)q->len);
            double a = slope(net, target, i, stride), b = slope(net, target, i, 0.3 * stride);

            compared++;
            if (fabs(a - b) > 1e-6 * top + noise) {
                kinks++;
                continue;
            }
            if (!(fabs(b - g[i]) <= 2e-6 * top + noise)) {
                test_note(false, "%s[%zu]: %.9g, not %.9g", q->name, i - q->at, g[i], b);
                break;
            }
        }
    }
    free(target);
    free(g);
    if (test_state.why[0])
        return;
    CHECK(kinks * 5 <= compared, "%d of %d places have kinks", kinks, compared);
}

#define NET(build_, per_)                                                                                              \
    do {                                                                                                               \
        zn_net *net = zn_net_new(dev);                                                                                 \
        int x = zn_net_input(net, 2, 6, 6, 8);                                                                         \
        build_;                                                                                                        \
        (void)x;                                                                                                       \
        check_net(net, per_);                                                                                          \
        zn_net_free(&net);                                                                                             \
    } while (0)

/* A first convolution makes every later layer's dx count. */
static void test_conv(void)
{
    NET(x = zn_net_conv(net, x, "a", 3, 1, 1, 5, true, 1); x = zn_net_conv(net, x, "b", 2, 2, 0, 7, true, 1);
        x = zn_net_conv(net, x, "c", 1, 1, 0, 6, false, 1); zn_net_conv(net, x, "d", 3, 2, 1, 4, true, 1), 40);
}

static void test_depthwise(void)
{
    NET(x = zn_net_conv(net, x, "a", 1, 1, 0, 12, true, 1); x = zn_net_depthwise(net, x, "b", true, ZN_NO_NODE, 1);
        zn_net_depthwise(net, x, "c", false, ZN_NO_NODE, 1), 40);
}

static void test_shuffles(void)
{
    NET(x = zn_net_conv(net, x, "a", 1, 1, 0, 8, true, 1); x = zn_net_unshuffle(net, x, 2);
        x = zn_net_conv(net, x, "b", 1, 1, 0, 36, true, 1); zn_net_shuffle(net, x, 3), 40);
}

static void test_relu_add_halves(void)
{
    NET(int a = zn_net_conv(net, x, "a", 1, 1, 0, 8, true, 1); int b = zn_net_relu(net, a);
        x = zn_net_add(net, a, zn_net_conv(net, b, "b", 1, 1, 0, 8, true, 1)); x = zn_net_add(net, x, b);
        zn_net_halves(net, x), 60);
}

static void test_fwht_scale_mixer(void)
{
    NET(x = zn_net_conv(net, x, "a", 1, 1, 0, 16, true, 1); x = zn_net_fwht(net, x); x = zn_net_scale(net, x, "s");
        x = zn_net_mixer(net, x, "m"); zn_net_fwht(net, x), 40);
}

static void test_dropout(void)
{
    NET(x = zn_net_conv(net, x, "a", 1, 1, 0, 16, true, 1); x = zn_net_scale(net, x, "s"); net->training = true;
        net->dropout = 0.3, 40);
}

static void test_slm(void)
{
    NET(x = zn_net_conv(net, x, "a", 1, 1, 0, 16, true, 1); zn_net_slm(net, x, "s"), 80);
}

static void test_group_norm(void)
{
    NET(x = zn_net_conv(net, x, "a", 3, 1, 1, 12, true, 1); zn_net_group_norm(net, x, "n", 3, 1), 60);
}

static void test_layer_norm(void)
{
    NET(x = zn_net_conv(net, x, "a", 3, 1, 1, 12, true, 1); zn_net_layer_norm(net, x), 60);
}

/* Soft gates, with noise, some of them quite shut and some quite open. */
static void test_gate(void)
{
    NET(x = zn_net_conv(net, x, "a", 1, 1, 0, 32, true, 0.2); int y = zn_net_gate(net, x, "g");
        y = zn_net_depthwise(net, y, "e", false, y, 1); zn_net_add(net, x, y); net->training = true;
        net->temperature = 0.4; net->penalty = 1e-3, 100);
}

static void test_hard_gate(void)
{
    NET(x = zn_net_conv(net, x, "a", 1, 1, 0, 32, true, 0.2); int y = zn_net_gate(net, x, "g");
        zn_net_depthwise(net, y, "e", false, y, 1), 60);
}

static void test_grouped_and_lines(void)
{
    NET(x = zn_net_grouped(net, x, "a", 4, 16, 0.5); x = zn_net_lines(net, x, "w", true, 8, 0);
        x = zn_net_lines(net, x, "h", false, 4, 2); x = zn_net_lines(net, x, "v", true, 4, 0);
        x = zn_net_act(net, x, ZN_SILU); zn_net_grouped(net, x, "b", 2, 6, 0.5), 30);
}

static void test_spectral(void)
{
    NET(x = zn_net_conv(net, x, "a", 1, 1, 0, 5, true, 1); x = zn_net_spectral(net, x, "s", 11);
        x = zn_net_act(net, x, ZN_GELU); zn_net_spectral(net, x, "t", 3), 40);
}

static void test_up2(void)
{
    NET(x = zn_net_up2(net, zn_net_conv(net, x, "a", 3, 1, 1, 4, true, 1));
        zn_net_conv(net, x, "b", 3, 1, 1, 3, true, 1), 30);
}

/* Encoder and decoder together; without an activation they are affine. */
static void test_autoencoders(void)
{
    static const char *const model[] = { "zenith-taesd", "zenith-lite", "zenith-spectral", "vanilla-taesd" };

    for (int i = 0; i < 8; i++) {
        zn_net *net = zn_net_new(dev);

        nudge = i % 4 == 2 ? 0.03 : 0.1;
        stride = 3e-4;
        if (zn_build_autoencoder(net, 1, 16, i % 4 == 3 ? 4 : 16, model[i % 4], i < 4 ? ZN_NONE : ZN_GELU))
            check_net(net, 2);
        else
            test_note(false, "%s cannot be built", model[i % 4]);
        zn_net_free(&net);
    }
    nudge = 0.3;
    stride = 1e-5;
}

static void check_ae(bool slm, bool residual)
{
    zn_net *net = zn_net_new(dev);

    if (zn_build_zenith_ae(net, 2, 32, 4, slm, residual)) {
        net->training = true;
        net->temperature = 0.3;
        check_net(net, 6);
    } else {
        test_note(false, "cannot be built");
    }
    zn_net_free(&net);
}

static void test_zenith_ae(void)
{
    check_ae(false, false);
}
static void test_zenith_prune(void)
{
    check_ae(true, false);
}
static void test_zenith_prune_residual(void)
{
    check_ae(true, true);
}

static void test_conv_baseline(void)
{
    zn_net *net = zn_net_new(dev);

    if (zn_build_conv_baseline(net, 1, 32, 1))
        check_net(net, 20);
    else
        test_note(false, "cannot be built");
    zn_net_free(&net);
}

static void test_denoiser(void)
{
    const char *path = ZN_SOURCE_ROOT "/tests/data/golden/denoise.safetensors";
    zn_net *net = zn_net_new(dev);
    zn_weights *w = NULL;
    zn_error err;

    if (zn_weights_open(&w, &path, 1, &err))
        test_note(false, "%s", err.text);
    else if (zn_build_denoiser(net, 1, 16, w))
        check_net(net, 6);
    else
        test_note(false, "cannot be built");
    zn_weights_close(&w);
    zn_net_free(&net);
}

int main(void)
{
    zn_error err;

    dev = zn_backend_scalar.open(2, &err);
    if (!dev)
        return 1;
    RUN(test_conv);
    RUN(test_depthwise);
    RUN(test_shuffles);
    RUN(test_relu_add_halves);
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
    RUN(test_autoencoders);
    RUN(test_zenith_ae);
    RUN(test_zenith_prune);
    RUN(test_zenith_prune_residual);
    RUN(test_conv_baseline);
    RUN(test_denoiser);
    zn_backend_scalar.close(dev);
    return test_end();
}
