/* SPDX-License-Identifier: MIT */
/* layers_pixel.c - shuffles, nearest-neighbour upsampling and elementwise layers, forward and backward. */
#include "net.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 1 << 14 /* elements of an item */ };

/* ---- shuffles ------------------------------------------------------------------------------------------ */

/* One row of the larger tensor, copied from the smaller one (back) or to it; add: added to the destination. */
static void shuffle_row(real *big, real *small, int w, int c, int row, int r, bool back, bool add)
{
    for (int j = 0; j < w; j++)
        for (int i = 0; i < c; i++) {
            real *a = big + (size_t)j * (size_t)c + i;
            real *b = small + (size_t)(j / r) * (size_t)(c * r * r) + (size_t)(i * r * r + row % r * r + j % r);

            if (back)
                *a = add ? *a + *b : *b;
            else
                *b = add ? *b + *a : *a;
        }
}

static void shuffle_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    bool up = o->h > x->h;
    const zn_node *big = up ? o : x, *small = up ? x : o;
    size_t row = (size_t)big->w * (size_t)big->c, low = (size_t)small->w * (size_t)small->c;

    (void)worker;
    shuffle_row(big->y + (size_t)item * row, small->y + (size_t)(item / o->stride) * low, big->w, big->c, item % big->h,
                o->stride, up, false);
}

static void shuffle_dx_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    bool up = o->h > x->h;
    const zn_node *big = up ? o : x, *small = up ? x : o;
    size_t row = (size_t)big->w * (size_t)big->c, low = (size_t)small->w * (size_t)small->c;

    (void)worker;
    shuffle_row(big->dy + (size_t)item * row, small->dy + (size_t)(item / o->stride) * low, big->w, big->c,
                item % big->h, o->stride, !up, x->ready);
}

static void shuffle_forward(zn_node *o)
{
    const zn_node *x = zn_node_in(o, 0);

    zn_node_run(o, shuffle_item, (size_t)o->n * (size_t)(o->h > x->h ? o->h : x->h), 1);
}

static void shuffle_backward(zn_node *o)
{
    const zn_node *x = zn_node_in(o, 0);

    if (x->wants)
        zn_node_run(o, shuffle_dx_item, (size_t)o->n * (size_t)(o->h > x->h ? o->h : x->h), 1);
}

static const zn_op shuffle_op = { "shuffle", shuffle_forward, shuffle_backward };

int zn_net_shuffle(zn_net *net, int x, int r)
{
    const zn_node *in = zn_net_at(net, x);
    int i = zn_net_add_node(net, &shuffle_op, x, in->h * r, in->w * r, in->c / (r * r), 0);

    zn_net_at(net, i)->stride = r;
    return i;
}

int zn_net_unshuffle(zn_net *net, int x, int r)
{
    const zn_node *in = zn_net_at(net, x);
    int i = zn_net_add_node(net, &shuffle_op, x, in->h / r, in->w / r, in->c * r * r, 0);

    zn_net_at(net, i)->stride = r;
    return i;
}

/* ---- elementwise --------------------------------------------------------------------------------------- */

static void relu_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    const real *restrict x = zn_node_in(o, 0)->y;
    real *restrict y = o->y;
    size_t first, end = zn_node_range(o, item, zn_node_len(o), &first);

    (void)worker;
    for (size_t i = first; i < end; i++)
        y[i] = x[i] > 0 ? x[i] : 0;
}

static void relu_dx_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    size_t first, end = zn_node_range(o, item, zn_node_len(o), &first);
    const real *restrict y = o->y, *restrict dy = o->dy;
    real *restrict dx = x->dy;
    bool add = x->ready;

    (void)worker;
    for (size_t i = first; i < end; i++) {
        real d = y[i] > 0 ? dy[i] : 0;

        dx[i] = add ? dx[i] + d : d;
    }
}

static void relu_forward(zn_node *o)
{
    zn_node_run(o, relu_item, zn_node_len(o), CHUNK);
}

static void relu_backward(zn_node *o)
{
    if (zn_node_in(o, 0)->wants)
        zn_node_run(o, relu_dx_item, zn_node_len(o), CHUNK);
}

static const zn_op relu_op = { "relu", relu_forward, relu_backward };

static int relu(zn_net *net, int x)
{
    const zn_node *in = zn_net_at(net, x);

    return zn_net_add_node(net, &relu_op, x, in->h, in->w, in->c, 0);
}

static void add_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    const real *a = zn_node_in(o, 0)->y, *b = zn_node_in(o, 1)->y;
    size_t first, end = zn_node_range(o, item, zn_node_len(o), &first);

    (void)worker;
    for (size_t i = first; i < end; i++)
        o->y[i] = a[i] + b[i];
}

static void add_dx_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    size_t first, end = zn_node_range(o, item, zn_node_len(o), &first);

    (void)worker;
    for (int j = 0; j < 2; j++) {
        zn_node *x = zn_node_in(o, j);

        for (size_t i = first; i < end && x->wants; i++)
            x->dy[i] = x->ready ? x->dy[i] + o->dy[i] : o->dy[i];
    }
}

static void add_forward(zn_node *o)
{
    zn_node_run(o, add_item, zn_node_len(o), CHUNK);
}

static void add_backward(zn_node *o)
{
    zn_node_run(o, add_dx_item, zn_node_len(o), CHUNK);
}

static const zn_op add_op = { "add", add_forward, add_backward };

int zn_net_add(zn_net *net, int a, int b)
{
    const zn_node *in = zn_net_at(net, a), *other = zn_net_at(net, b);
    int i = zn_net_add_node(net, &add_op, a, in->h, in->w, in->c, 0);
    zn_node *o = zn_net_at(net, i);

    if (other->n != in->n || other->h != in->h || other->w != in->w || other->c != in->c)
        zn_net_fail(net, ZN_E_USAGE, "two layers that are added have different sizes");
    o->in[1] = b;
    o->wants = in->wants || other->wants;
    return i;
}

static void product_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    const real *a = zn_node_in(o, 0)->y, *b = zn_node_in(o, 1)->y;
    size_t first, end = zn_node_range(o, item, zn_node_len(o), &first);

    (void)worker;
    for (size_t i = first; i < end; i++)
        o->y[i] = a[i] * b[i];
}

static void product_dx_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    size_t first, end = zn_node_range(o, item, zn_node_len(o), &first);

    (void)worker;
    for (int j = 0; j < 2; j++) {
        zn_node *x = zn_node_in(o, j);
        const real *other = zn_node_in(o, 1 - j)->y;

        for (size_t i = first; i < end && x->wants; i++)
            x->dy[i] = (x->ready ? x->dy[i] : 0) + o->dy[i] * other[i];
    }
}

static void product_forward(zn_node *o)
{
    zn_node_run(o, product_item, zn_node_len(o), CHUNK);
}

static void product_backward(zn_node *o)
{
    zn_node_run(o, product_dx_item, zn_node_len(o), CHUNK);
}

static const zn_op product_op = { "product", product_forward, product_backward };

int zn_net_product(zn_net *net, int a, int b)
{
    int i = zn_net_add(net, a, b);

    zn_net_at(net, i)->op = &product_op;
    return i;
}

/* y = a's channels, then b's */
static void concat_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    const zn_node *a = zn_node_in(o, 0), *b = zn_node_in(o, 1);
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), ca = (size_t)a->c, cb = (size_t)b->c;

    (void)worker;
    for (size_t p = first; p < end; p++) {
        memcpy(o->y + p * (ca + cb), a->y + p * ca, ca * sizeof *o->y);
        memcpy(o->y + p * (ca + cb) + ca, b->y + p * cb, cb * sizeof *o->y);
    }
}

static void concat_dx_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), from = 0;

    (void)worker;
    for (int j = 0; j < 2; j++) {
        zn_node *x = zn_node_in(o, j);

        for (size_t p = first; p < end && x->wants; p++)
            for (size_t i = 0; i < (size_t)x->c; i++) {
                real *dx = x->dy + p * (size_t)x->c + i, d = o->dy[p * (size_t)o->c + from + i];

                *dx = x->ready ? *dx + d : d;
            }
        from += (size_t)x->c;
    }
}

static void concat_forward(zn_node *o)
{
    zn_node_run(o, concat_item, zn_node_pixels(o), 1 + CHUNK / (size_t)o->c);
}

static void concat_backward(zn_node *o)
{
    zn_node_run(o, concat_dx_item, zn_node_pixels(o), 1 + CHUNK / (size_t)o->c);
}

static const zn_op concat_op = { "concat", concat_forward, concat_backward };

int zn_net_concat(zn_net *net, int a, int b)
{
    const zn_node *in = zn_net_at(net, a), *other = zn_net_at(net, b);
    int i = zn_net_add_node(net, &concat_op, a, in->h, in->w, in->c + other->c, 0);
    zn_node *o = zn_net_at(net, i);

    if (other->n != in->n || other->h != in->h || other->w != in->w)
        zn_net_fail(net, ZN_E_USAGE, "two layers that are concatenated have different sizes");
    o->in[1] = b;
    o->wants = in->wants || other->wants;
    return i;
}

static void halves_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), c = (size_t)o->c;

    (void)worker;
    for (size_t p = first; p < end; p++) {
        const real *a = zn_node_in(o, 0)->y + 2 * p * c, *b = a + c;

        for (size_t i = 0; i < c; i++)
            o->y[p * c + i] = a[i] * b[i];
    }
}

static void halves_dx_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), c = (size_t)o->c;

    (void)worker;
    for (size_t p = first; p < end; p++) {
        const real *a = x->y + 2 * p * c, *b = a + c, *dy = o->dy + p * c;
        real *da = x->dy + 2 * p * c, *db = da + c;

        for (size_t i = 0; i < c; i++) {
            da[i] = (x->ready ? da[i] : 0) + dy[i] * b[i];
            db[i] = (x->ready ? db[i] : 0) + dy[i] * a[i];
        }
    }
}

static void halves_forward(zn_node *o)
{
    zn_node_run(o, halves_item, zn_node_pixels(o), 1 + CHUNK / (size_t)o->c);
}

static void halves_backward(zn_node *o)
{
    if (zn_node_in(o, 0)->wants)
        zn_node_run(o, halves_dx_item, zn_node_pixels(o), 1 + CHUNK / (size_t)o->c);
}

static const zn_op halves_op = { "halves", halves_forward, halves_backward };

int zn_net_halves(zn_net *net, int x)
{
    const zn_node *in = zn_net_at(net, x);

    return zn_net_add_node(net, &halves_op, x, in->h, in->w, in->c / 2, 0);
}

/* ---- nearest neighbour x2 ------------------------------------------------------------------------------ */

static void up2_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    size_t c = (size_t)o->c;

    (void)worker;
    for (int j = 0; j < o->w; j++) /* item: a row of y of all images */
        memcpy(o->y + ((size_t)item * (size_t)o->w + (size_t)j) * c,
               x->y + ((size_t)(item / 2) * (size_t)x->w + (size_t)(j / 2)) * c, c * sizeof *o->y);
}

static void up2_dx_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    size_t row = (size_t)x->w * (size_t)x->c, c = (size_t)x->c;

    (void)worker;
    for (size_t i = 0; i < row; i++) { /* item: a row of x */
        const real *dy = o->dy + (size_t)item * 4 * row + i / c * 2 * c + i % c;
        real d = dy[0] + dy[c] + dy[2 * row] + dy[2 * row + c], *dx = x->dy + (size_t)item * row + i;

        *dx = x->ready ? *dx + d : d;
    }
}

static void up2_forward(zn_node *o)
{
    zn_node_run(o, up2_item, (size_t)o->n * (size_t)o->h, 1);
}

static void up2_backward(zn_node *o)
{
    const zn_node *x = zn_node_in(o, 0);

    if (x->wants)
        zn_node_run(o, up2_dx_item, (size_t)x->n * (size_t)x->h, 1);
}

static const zn_op up2_op = { "up2", up2_forward, up2_backward };

int zn_net_up2(zn_net *net, int x)
{
    const zn_node *in = zn_net_at(net, x);

    return zn_net_add_node(net, &up2_op, x, 2 * in->h, 2 * in->w, in->c, 0);
}

/* ---- SiLU, GELU, tanh and the soft clamp ----------------------------------------------------------------- */

/* k: the activation.  y = x s(x), with s the sigmoid or the normal distribution; y' = s + x s'.  Or y = k tanh(x / k), k 1 or 3. */
static void act_range(zn_node *o, int item, bool back)
{
    zn_node *in = zn_node_in(o, 0);
    size_t first, end = zn_node_range(o, item, zn_node_len(o), &first);

    for (size_t i = first; i < end; i++) {
        double x = (double)in->y[i], s, y, slope;

        if (o->k == ZN_SOFTCLAMP || o->k == ZN_TANH) {
            const double most = o->k == ZN_TANH ? 1 : 3;

            s = tanh(x / most);
            y = most * s;
            slope = 1 - s * s;
        } else if (o->k == ZN_SILU) {
            s = 1 / (1 + exp(-x));
            y = x * s;
            slope = s + y * (1 - s);
        } else {
            s = 0.5 * erfc(-x * 0.70710678118654752);
            y = x * s;
            slope = s + x * 0.39894228040143268 * exp(-0.5 * x * x);
        }
        if (back)
            in->dy[i] = (in->ready ? in->dy[i] : 0) + o->dy[i] * (real)slope;
        else
            o->y[i] = (real)y;
    }
}

static void act_item(void *cookie, int item, int worker)
{
    (void)worker;
    act_range(cookie, item, false);
}

static void act_dx_item(void *cookie, int item, int worker)
{
    (void)worker;
    act_range(cookie, item, true);
}

static void act_forward(zn_node *o)
{
    zn_node_run(o, act_item, zn_node_len(o), CHUNK);
}

static void act_backward(zn_node *o)
{
    if (zn_node_in(o, 0)->wants)
        zn_node_run(o, act_dx_item, zn_node_len(o), CHUNK);
}

static const zn_op act_op = { "activation", act_forward, act_backward };

int zn_net_act(zn_net *net, int x, zn_act act)
{
    const zn_node *in = zn_net_at(net, x);
    int i;

    if (act == ZN_NONE || act == ZN_RELU)
        return act == ZN_NONE ? x : relu(net, x);
    i = zn_net_add_node(net, &act_op, x, in->h, in->w, in->c, 0);
    zn_net_at(net, i)->k = (int)act;
    return i;
}
