/* SPDX-License-Identifier: MIT */
/* layers_attention.c - attention over all pixels of an image, forward and backward.
 *
 *     p_ij = exp(s q_i.k_j - l_i),  l_i = log sum_j exp(s q_i.k_j),  y_i = sum_j p_ij v_j,  s = 1 / sqrt(d)
 *     dv_j = sum_i p_ij dy_i
 *     e_ij = s p_ij (dy_i.v_j - dy_i.y_i),  dq_i = sum_j e_ij k_j,  dk_j = sum_i e_ij q_i
 * The matrix p is never stored: l is, and p is computed again. */
#include "net.h"

#include <math.h>
#include <string.h>

typedef struct head { /* of one image; from pixel to pixel: x 3c, y c */
    const real *q, *k, *v, *y, *dy;
    real *dq, *dk, *dv, *l;
    size_t c, d, pixels;
    real scale;
} head;

/* o->k: heads; save: l of [image][head][pixel]. */
static head head_of(const zn_node *o, int item)
{
    zn_node *x = zn_node_in(o, 0);
    const size_t c = (size_t)o->c, d = c / (size_t)o->k, pixels = (size_t)o->h * (size_t)o->w;
    const size_t image = (size_t)(item / o->k) * pixels, at = (size_t)(item % o->k) * d;
    const size_t in = image * 3 * c + at, out = image * c + at;

    return (head){ .q = x->y + in,
                   .k = x->y + in + c,
                   .v = x->y + in + 2 * c,
                   .y = o->y + out,
                   .dy = o->dy + out,
                   .dq = x->dy + in,
                   .dk = x->dy + in + c,
                   .dv = x->dy + in + 2 * c,
                   .l = o->save + (size_t)item * pixels,
                   .c = c,
                   .d = d,
                   .pixels = pixels,
                   .scale = (real)(1 / sqrt((double)d)) };
}

static real dot(const real *a, const real *b, size_t n)
{
    real sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* y += f x */
static void add(real *restrict y, const real *restrict x, real f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += f * x[i];
}

static void attention_item(void *cookie, int item, int worker)
{
    const head h = head_of(cookie, item);

    (void)worker;
    for (size_t i = 0; i < h.pixels; i++) {
        const real *q = h.q + i * 3 * h.c;
        real *y = (real *)h.y + i * h.c;
        double top = -INFINITY, sum = 0;

        for (size_t j = 0; j < h.pixels; j++)
            top = fmax(top, (double)(h.scale * dot(q, h.k + j * 3 * h.c, h.d)));
        memset(y, 0, h.d * sizeof *y);
        for (size_t j = 0; j < h.pixels; j++) {
            const double p = exp((double)(h.scale * dot(q, h.k + j * 3 * h.c, h.d)) - top);

            sum += p;
            add(y, h.v + j * 3 * h.c, (real)p, h.d);
        }
        for (size_t a = 0; a < h.d; a++)
            y[a] = (real)((double)y[a] / sum);
        h.l[i] = (real)(top + log(sum));
    }
}

static void attention_dx_item(void *cookie, int item, int worker)
{
    const head h = head_of(cookie, item);

    (void)worker;
    for (size_t i = 0; i < h.pixels; i++) {
        const real *q = h.q + i * 3 * h.c, *dy = h.dy + i * h.c;
        const real mean = dot(dy, h.y + i * h.c, h.d);

        for (size_t j = 0; j < h.pixels; j++) {
            const size_t at = j * 3 * h.c;
            const real p = (real)exp((double)(h.scale * dot(q, h.k + at, h.d) - h.l[i]));
            const real e = h.scale * p * (dot(dy, h.v + at, h.d) - mean);

            add(h.dv + at, dy, p, h.d);
            add(h.dq + i * 3 * h.c, h.k + at, e, h.d);
            add(h.dk + at, q, e, h.d);
        }
    }
}

static void attention_forward(zn_node *o)
{
    zn_node_run(o, attention_item, (size_t)o->n * (size_t)o->k, 1);
}

static void attention_backward(zn_node *o)
{
    zn_node *x = zn_node_in(o, 0);

    if (!x->wants)
        return;
    if (!x->ready)
        memset(x->dy, 0, zn_node_len(x) * sizeof *x->dy);
    zn_node_run(o, attention_dx_item, (size_t)o->n * (size_t)o->k, 1);
}

static const zn_op attention_op = { "attention", attention_forward, attention_backward };

int zn_net_attention(zn_net *net, int x, int heads)
{
    const zn_node *in = zn_net_at(net, x);
    int i = zn_net_add_node(net, &attention_op, x, in->h, in->w, in->c / 3, zn_node_pixels(in) * (size_t)heads);

    zn_net_at(net, i)->k = heads;
    return i;
}
