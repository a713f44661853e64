/* SPDX-License-Identifier: MIT */
/* layers_norm.c - group norm and layer norm, forward and backward.
 *
 *     u = (x - mean) / sqrt(var + eps),  y = gamma u + beta
 *     dx = (du - mean(du) - u mean(du u)) / sqrt(var + eps),  du = gamma dy
 * Sums are kept in double precision. */
#include "net.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- group norm: over the pixels of an image and the channels of a group ------------------------------- */

/* Sums that the compiler keeps in vector registers. */
enum { LANES = 8 };

/* sum[0] += sum of a, sum[1] += sum of a * b, over n elements */
static inline void add_sums(double sum[2], const real *a, const real *b, size_t n)
{
    real s[LANES] = { 0 }, t[LANES] = { 0 };
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++) {
            s[j] += a[i + j];
            t[j] += a[i + j] * b[i + j];
        }
    for (; i < n; i++) {
        s[0] += a[i];
        t[0] += a[i] * b[i];
    }
    for (int j = 0; j < LANES; j++) {
        sum[0] += (double)s[j];
        sum[1] += (double)t[j];
    }
}

/* save: mean and 1 / deviation of [image][group].  o->k: groups. */
static void group_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    const zn_node *x = zn_node_in(o, 0);
    size_t size = (size_t)(o->c / o->k), c = (size_t)o->c, pixels = (size_t)o->h * (size_t)o->w;
    size_t first = (size_t)(item % o->k) * size, at = (size_t)(item / o->k) * pixels * c + first;
    const real *gamma = zn_node_w(o, 0) + first, *beta = zn_node_w(o, 1) + first;
    double count = (double)pixels * (double)size, mean = 0, var = 0;
    real m, inv;

    (void)worker;
    for (size_t p = 0; p < pixels; p++) {
        double sum[2] = { 0, 0 };

        add_sums(sum, x->y + at + p * c, x->y + at + p * c, size);
        mean += sum[0];
    }
    mean /= count;
    m = (real)mean;
    for (size_t p = 0; p < pixels; p++) {
        const real *v = x->y + at + p * c;
        double sum = 0;

        for (size_t i = 0; i < size; i++)
            sum += (double)((v[i] - m) * (v[i] - m));
        var += sum;
    }
    inv = (real)(1 / sqrt(var / count + ZN_GROUP_EPS));
    o->save[2 * item] = m;
    o->save[2 * item + 1] = inv;
    for (size_t p = 0; p < pixels; p++)
        for (size_t i = 0; i < size; i++)
            o->y[at + p * c + i] = (x->y[at + p * c + i] - m) * inv * gamma[i] + beta[i];
}

/* One group of all images. */
static void group_dx_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    size_t size = (size_t)(o->c / o->k), c = (size_t)o->c, pixels = (size_t)o->h * (size_t)o->w;
    size_t first = (size_t)item * size;
    const real *gamma = zn_node_w(o, 0) + first;
    real *dgamma = zn_node_g(o, 0) + first, *dbeta = zn_node_g(o, 1) + first;
    double count = (double)pixels * (double)size;

    (void)worker;
    for (size_t i = 0; i < size; i++)
        dgamma[i] = dbeta[i] = 0;
    for (size_t n = 0; n < (size_t)o->n; n++) {
        size_t at = n * pixels * c + first;
        real m = o->save[2 * (n * (size_t)o->k + (size_t)item)];
        real inv = o->save[2 * (n * (size_t)o->k + (size_t)item) + 1], a, b;
        double du = 0, duu = 0;

        for (size_t p = 0; p < pixels; p++) {
            const real *v = x->y + at + p * c, *dy = o->dy + at + p * c;
            double s = 0, t = 0;

            for (size_t i = 0; i < size; i++) {
                real u = (v[i] - m) * inv;

                dgamma[i] += dy[i] * u;
                dbeta[i] += dy[i];
                s += (double)(dy[i] * gamma[i]);
                t += (double)(dy[i] * gamma[i] * u);
            }
            du += s;
            duu += t;
        }
        a = (real)(du / count);
        b = (real)(duu / count);
        for (size_t p = 0; p < pixels; p++)
            for (size_t i = 0; i < size && x->wants; i++) {
                size_t j = at + p * c + i;
                real d = inv * (o->dy[j] * gamma[i] - a - (x->y[j] - m) * inv * b);

                x->dy[j] = x->ready ? x->dy[j] + d : d;
            }
    }
}

static void group_forward(zn_node *o)
{
    zn_node_run(o, group_item, (size_t)o->n * (size_t)o->k, 1);
}

static void group_backward(zn_node *o)
{
    zn_node_run(o, group_dx_item, (size_t)o->k, 1);
}

static const zn_op group_op = { "group norm", group_forward, group_backward };

int zn_net_group_norm(zn_net *net, int x, int groups, const char *fmt, ...)
{
    const zn_node *in = zn_net_at(net, x);
    int i = zn_net_add_node(net, &group_op, x, in->h, in->w, in->c, 2 * (size_t)in->n * (size_t)groups);
    zn_node *o = zn_net_at(net, i);
    char name[ZN_NAME_SIZE];

    ZN_FORMAT(name, fmt);
    o->k = groups;
    zn_net_add_param(o, 0, name, "weight", (int[ZN_RANK]){ o->c });
    zn_net_add_param(o, 1, name, "bias", (int[ZN_RANK]){ o->c });
    return i;
}

/* ---- layer norm: over the channels of a pixel, without parameters -------------------------------------- */

static void layer_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), c = (size_t)o->c;

    (void)worker;
    for (size_t p = first; p < end; p++) {
        const real *x = zn_node_in(o, 0)->y + p * c;
        double sum[2] = { 0, 0 }, var = 0;
        real m, inv;

        add_sums(sum, x, x, c);
        m = (real)(sum[0] / (double)c);
        for (size_t i = 0; i < c; i++)
            var += (double)((x[i] - m) * (x[i] - m));
        inv = (real)(1 / sqrt(var / (double)c + ZN_LAYER_EPS));
        o->save[p] = inv;
        for (size_t i = 0; i < c; i++)
            o->y[p * c + i] = (x[i] - m) * inv;
    }
}

/* y is u itself. */
static void layer_dx_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), c = (size_t)o->c;

    (void)worker;
    for (size_t p = first; p < end; p++) {
        const real *y = o->y + p * c, *dy = o->dy + p * c;
        real *dx = x->dy + p * c, inv = o->save[p], a, b;
        double sum[2] = { 0, 0 };

        add_sums(sum, dy, y, c);
        a = (real)(sum[0] / (double)c);
        b = (real)(sum[1] / (double)c);
        for (size_t i = 0; i < c; i++)
            dx[i] = (x->ready ? dx[i] : 0) + inv * (dy[i] - a - y[i] * b);
    }
}

static void layer_forward(zn_node *o)
{
    zn_node_run(o, layer_item, zn_node_pixels(o), 256);
}

static void layer_backward(zn_node *o)
{
    if (zn_node_in(o, 0)->wants)
        zn_node_run(o, layer_dx_item, zn_node_pixels(o), 256);
}

static const zn_op layer_op = { "layer norm", layer_forward, layer_backward };

int zn_net_layer_norm(zn_net *net, int x)
{
    const zn_node *in = zn_net_at(net, x);

    return zn_net_add_node(net, &layer_op, x, in->h, in->w, in->c, zn_node_pixels(in));
}
