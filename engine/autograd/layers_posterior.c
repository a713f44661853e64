/* SPDX-License-Identifier: MIT */
/* layers_posterior.c - a draw from the posterior of a variational autoencoder, forward and backward, and its divergence.
 *
 *     y = mean + exp(clamp(l, -30, 20) / 2) noise        l: the logarithm of the variance; not in training: y = mean
 *     divergence = sum (mean^2 + exp(l) - 1 - l) / 2, over the channels, its mean over all pixels: Kullback-Leibler, from
 *     the normal distribution */
#include "net.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 1 << 12 /* pixels of an item */ };

static double noise_at(const zn_node *o, size_t i)
{
    return zn_normal(o->net->seed, o->net->step * 1024 + (uint64_t)o->index, i);
}

static double clamped(double l)
{
    return l < -30 ? -30 : l > 20 ? 20 : l;
}

static void posterior_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    const real *x = zn_node_in(o, 0)->y;
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), c = (size_t)o->c;

    (void)worker;
    for (size_t p = first; p < end; p++)
        for (size_t i = 0; i < c; i++) {
            const real *mean = x + p * 2 * c + i;
            const double drawn = o->net->training ? exp(clamped((double)mean[c]) / 2) * noise_at(o, p * c + i) : 0;

            o->y[p * c + i] = *mean + (real)drawn;
        }
}

static void posterior_dx_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    const double weight = (double)o->net->divergence / (double)zn_node_pixels(o);
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), c = (size_t)o->c;

    (void)worker;
    for (size_t p = first; p < end; p++)
        for (size_t i = 0; i < c; i++) {
            const size_t at = p * 2 * c + i;
            const double mean = (double)x->y[at], l = (double)x->y[at + c], dy = (double)o->dy[p * c + i];
            const bool inside = l >= -30 && l <= 20 && o->net->training;
            const double drawn = inside ? exp(l / 2) * noise_at(o, p * c + i) : 0;
            const double d[2] = { dy + weight * mean, dy * drawn / 2 + weight * (exp(l) - 1) / 2 };

            for (int j = 0; j < 2; j++) {
                real *dx = x->dy + at + (j ? c : 0);

                *dx = (x->ready ? *dx : 0) + (real)d[j];
            }
        }
}

static void posterior_forward(zn_node *o)
{
    zn_node_run(o, posterior_item, zn_node_pixels(o), CHUNK);
}

static void posterior_backward(zn_node *o)
{
    if (zn_node_in(o, 0)->wants)
        zn_node_run(o, posterior_dx_item, zn_node_pixels(o), CHUNK);
}

static const zn_op posterior_op = { "posterior", posterior_forward, posterior_backward };

int zn_net_posterior(zn_net *net, int x)
{
    const zn_node *in = zn_net_at(net, x);

    return zn_net_add_node(net, &posterior_op, x, in->h, in->w, in->c / 2, 0);
}

double zn_net_divergence(const zn_net *net)
{
    double all = 0;

    for (int k = 0; k < net->n_nodes; k++) {
        const zn_node *o = net->node[k], *x = o->op == &posterior_op ? zn_node_in(o, 0) : NULL;
        const size_t c = (size_t)o->c;
        double sum = 0;

        for (size_t i = 0; x && i < zn_node_len(o); i++) {
            const real *mean = x->y + i / c * 2 * c + i % c;

            sum += ((double)*mean * (double)*mean + exp((double)mean[c]) - 1 - (double)mean[c]) / 2;
        }
        all += x ? sum / (double)zn_node_pixels(o) : 0;
    }
    return all;
}
