/* SPDX-License-Identifier: MIT */
/* layers_conv.c - convolutions: dense, depthwise, in groups; forward and backward. */
#include "net.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    CHUNK = 1 << 14,         /* elements of an item */
    GROUPED_CHUNK = 1 << 13, /* likewise of a convolution in groups */
    LANES = 64               /* channels of an item */
};

/* y = a b (+ y), on strided matrices as in cpu/matmul.h. */
#ifdef ZN_TRAIN_DOUBLE
static void product(zn_node *o, real *y, size_t ldy, const real *a, size_t ar, size_t ac, const real *b, size_t br,
                    size_t bc, int m, int n, int k, const real *bias, bool add)
{
    (void)o;
    for (size_t i = 0; i < (size_t)m; i++)
        for (size_t j = 0; j < (size_t)n; j++) {
            real sum = (add ? y[i * ldy + j] : 0) + (bias ? bias[j] : 0);

            for (size_t c = 0; c < (size_t)k; c++)
                sum += a[i * ar + c * ac] * b[c * br + j * bc];
            y[i * ldy + j] = sum;
        }
}
#else
static void product(zn_node *o, real *y, size_t ldy, const real *a, size_t ar, size_t ac, const real *b, size_t br,
                    size_t bc, int m, int n, int k, const real *bias, bool add)
{
    zn_cpu_matmul(o->net->dev, y, ldy, (zn_matrix){ a, ar, ac }, (zn_matrix){ b, br, bc }, m, n, k, bias, add);
}
#endif

/* ---- few pixels, many weights -------------------------------------------------------------------------- */

/* Reading the weights dominates, so they are not packed first: y, dx and the weights' gradient are computed from
 * the weights in place.  x, dx: [pixels][len]. */
#ifdef ZN_TRAIN_DOUBLE
static bool is_thin(const zn_node *o, size_t len)
{
    return (void)o, (void)len, false;
}

static void thin_forward(zn_node *o, const real *x, size_t len)
{
    (void)o, (void)x, (void)len;
}

static void thin_backward(zn_node *o, real *dx, const real *x, size_t len, bool add)
{
    (void)o, (void)dx, (void)x, (void)len, (void)add;
}
#else
enum {
    THIN_PIXELS = 64,
    THIN_ROWS = 64,      /* of weights, per forward item */
    THIN_CUT = 512,      /* of k */
    THIN_STRIP = 1 << 13 /* elements of x, and of dx, per backward item: both stay in L1 */
};

typedef struct thin_job {
    zn_node *o;
    const real *x;
    real *dx;
    size_t len, strip;
    bool add;
} thin_job;

static bool is_thin(const zn_node *o, size_t len)
{
    return o->net->dev->k->dots && zn_node_pixels(o) <= THIN_PIXELS && len >= THIN_CUT && len % ZN_DENSE_UNIT == 0 &&
        o->c % ZN_DENSE_ROWS == 0;
}

static void thin_item(void *cookie, int item, int worker)
{
    const thin_job *job = cookie;
    const zn_node *o = job->o;
    int first = item * THIN_ROWS, n = o->c - first < THIN_ROWS ? o->c - first : THIN_ROWS;
    int m = (int)zn_node_pixels(o);
    const real *w = zn_node_w(o, 0) + (size_t)first * job->len;
    real *x = zn_node_scratch(o, worker);

    for (int p = 0; p < m; p++)
        for (int i = 0; i < n; i++)
            o->y[(size_t)p * (size_t)o->c + (size_t)(first + i)] =
                o->param[1] == ZN_NO_PARAM ? 0 : zn_node_w(o, 1)[first + i];
    for (size_t from = 0; from < job->len; from += THIN_CUT) {
        size_t cut = job->len - from < THIN_CUT ? job->len - from : THIN_CUT;

        for (int p = 0; p < m; p++) /* rows a power of two apart would share few sets of the cache */
            memcpy(x + (size_t)p * THIN_CUT, job->x + (size_t)p * job->len + from, cut * sizeof *x);
        o->net->dev->k->dots(o->y + first, (size_t)o->c, x, THIN_CUT, w + from, job->len, m, n, (int)cut);
    }
}

static void thin_forward(zn_node *o, const real *x, size_t len)
{
    thin_job job = { .o = o, .x = x, .len = len };

    zn_pool_run(o->net->dev->pool, thin_item, &job, zn_items((size_t)o->c, THIN_ROWS));
}

/* All rows of a strip of columns. */
static void thin_back_item(void *cookie, int item, int worker)
{
    const thin_job *job = cookie;
    zn_node *o = job->o;
    size_t first = (size_t)item * job->strip, left = job->len - first, n = left < job->strip ? left : job->strip;
    size_t m = zn_node_pixels(o);
    real *x = zn_node_scratch(o, worker), *dx = x + m * n, *dy = dx + m * n;

    for (size_t p = 0; p < m; p++)
        memcpy(x + p * n, job->x + p * job->len + first, n * sizeof *x);
    memset(dx, 0, m * n * sizeof *dx);
    for (size_t r = 0; r < (size_t)o->c; r += ZN_DENSE_ROWS) {
        size_t at = r * job->len + first;

        for (size_t p = 0; p < m; p++)
            memcpy(dy + p * ZN_DENSE_ROWS, o->dy + p * (size_t)o->c + r, ZN_DENSE_ROWS * sizeof *dy);
        o->net->dev->k->dense_back(zn_node_g(o, 0) + at, dx, zn_node_w(o, 0) + at, job->len, x, dy, (int)m, (int)n);
    }
    for (size_t p = 0; p < m && job->dx; p++)
        for (size_t j = 0; j < n; j++) {
            real *to = job->dx + p * job->len + first + j;

            *to = job->add ? *to + dx[p * n + j] : dx[p * n + j];
        }
}

static void thin_backward(zn_node *o, real *dx, const real *x, size_t len, bool add)
{
    thin_job job = { .o = o, .x = x, .dx = dx, .len = len, .add = add };

    job.strip = THIN_STRIP / zn_node_pixels(o) / ZN_DENSE_UNIT * ZN_DENSE_UNIT;
    zn_pool_run(o->net->dev->pool, thin_back_item, &job, zn_items(len, job.strip));
}
#endif

/* ---- dense convolution: columns of patches times a matrix ---------------------------------------------- */

static bool is_pointwise(const zn_node *o)
{
    return o->k == 1 && o->stride == 1;
}

static size_t patch_len(const zn_node *o)
{
    return (size_t)zn_node_in(o, 0)->c * (size_t)o->k * (size_t)o->k;
}

/* save[pixel][c * k*k + tap] = x at the tap, for one row of outputs */
static void gather_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    int taps = o->k * o->k, image = item / o->h, i = item % o->h;
    size_t len = patch_len(o);
    real *col = o->save + (size_t)item * (size_t)o->w * len;

    (void)worker;
    for (int j = 0; j < o->w; j++, col += len)
        for (int t = 0; t < taps; t++) {
            int u = i * o->stride - o->pad + t / o->k, v = j * o->stride - o->pad + t % o->k;
            bool inside = u >= 0 && u < x->h && v >= 0 && v < x->w;
            size_t at = inside ? ((size_t)image * (size_t)x->h + (size_t)u) * (size_t)x->w + (size_t)v : 0;
            const real *from = x->y + at * (size_t)x->c;

            for (int c = 0; c < x->c; c++)
                col[(size_t)c * (size_t)taps + (size_t)t] = inside ? from[c] : 0;
        }
}

/* dx of one row of inputs, from the patches' gradients in temp */
static void scatter_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    int taps = o->k * o->k, image = item / x->h, i = item % x->h;
    size_t len = patch_len(o), row = (size_t)item * (size_t)x->w * (size_t)x->c;

    (void)worker;
    if (!x->ready)
        memset(x->dy + row, 0, (size_t)x->w * (size_t)x->c * sizeof *x->dy);
    for (int j = 0; j < x->w; j++)
        for (int t = 0; t < taps; t++) {
            int u = i + o->pad - t / o->k, v = j + o->pad - t % o->k;
            real *dx = x->dy + row + (size_t)j * (size_t)x->c;
            const real *col;

            if (u < 0 || v < 0 || u % o->stride || v % o->stride || u / o->stride >= o->h || v / o->stride >= o->w)
                continue;
            col = o->net->temp +
                (((size_t)image * (size_t)o->h + (size_t)(u / o->stride)) * (size_t)o->w + (size_t)(v / o->stride)) *
                    len;
            for (int c = 0; c < x->c; c++)
                dx[c] += col[(size_t)c * (size_t)taps + (size_t)t];
        }
}

/* g[c] = the sum of dy over all pixels, for LANES channels */
static void bias_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    size_t first, end = zn_node_range(o, item, (size_t)o->c, &first), n = zn_node_pixels(o);
    real *g = zn_node_g(o, 1);

    (void)worker;
    for (size_t c = first; c < end; c++)
        g[c] = 0;
    for (size_t p = 0; p < n; p++)
        for (size_t c = first; c < end; c++)
            g[c] += o->dy[p * (size_t)o->c + c];
}

static void conv_forward(zn_node *o)
{
    zn_node *x = zn_node_in(o, 0);
    size_t len = patch_len(o);
    const real *in = is_pointwise(o) ? x->y : o->save;

    if (!is_pointwise(o))
        zn_node_run(o, gather_item, (size_t)o->n * (size_t)o->h, 1);
    if (is_thin(o, len))
        thin_forward(o, in, len);
    else
        product(o, o->y, (size_t)o->c, in, len, 1, zn_node_w(o, 0), 1, len, (int)zn_node_pixels(o), o->c, (int)len,
                o->param[1] == ZN_NO_PARAM ? NULL : zn_node_w(o, 1), false);
}

static void conv_backward(zn_node *o)
{
    zn_node *x = zn_node_in(o, 0);
    size_t len = patch_len(o);
    int m = (int)zn_node_pixels(o);
    bool in_place = is_pointwise(o), thin = is_thin(o, len);
    const real *in = in_place ? x->y : o->save;
    real *dx = in_place ? x->dy : o->net->temp;

    if (thin)
        thin_backward(o, x->wants ? dx : NULL, in, len, in_place && x->ready);
    else
        product(o, zn_node_g(o, 0), len, o->dy, 1, (size_t)o->c, in, len, 1, o->c, (int)len, m, NULL, false);
    if (o->param[1] != ZN_NO_PARAM)
        zn_node_run(o, bias_item, (size_t)o->c, LANES);
    if (!x->wants)
        return;
    if (!thin)
        product(o, dx, len, o->dy, (size_t)o->c, 1, zn_node_w(o, 0), len, 1, m, (int)len, o->c, NULL,
                in_place && x->ready);
    if (!in_place)
        zn_node_run(o, scatter_item, (size_t)x->n * (size_t)x->h, 1);
}

static const zn_op conv_op = { "conv", conv_forward, conv_backward };

/* Any but a depthwise convolution or one in groups. */
static int dense_conv(zn_net *net, int x, const zn_stated *t, const char *name)
{
    const zn_node *in = zn_net_at(net, x);
    const int cout = t->dims[0], k = t->dims[2], stride = t->conv.kh && t->conv.stride ? t->conv.stride : 1;
    const int pad = t->conv.kh ? t->conv.pad_t : k / 2;
    int h = (in->h + 2 * pad - k) / stride + 1, w = (in->w + 2 * pad - k) / stride + 1, i;
    size_t len = (size_t)in->c * (size_t)k * (size_t)k;
    size_t all = (size_t)in->n * (size_t)h * (size_t)w * len;
    zn_node *o;

    i = zn_net_add_node(net, &conv_op, x, h, w, cout, k > 1 || stride > 1 ? all : 0);
    o = zn_net_at(net, i);
    o->k = k;
    o->stride = stride;
    o->pad = pad;
    zn_net_add_param(o, 0, name, "weight", (int[ZN_RANK]){ cout, in->c, k, k });
    if (zn_net_stated(net, name, "bias"))
        zn_net_add_param(o, 1, name, "bias", (int[ZN_RANK]){ cout });
    if (in->wants && o->save)
        zn_net_want_temp(net, all);
    return i;
}

/* ---- depthwise 3x3, pruned where a gate is shut -------------------------------------------------------- */

/* save: the weights as [9][c] */
static void transpose_weights(zn_node *o)
{
    const real *w = zn_node_w(o, 0);

    for (int c = 0; c < o->c; c++)
        for (int t = 0; t < 9; t++)
            o->save[(size_t)t * (size_t)o->c + (size_t)c] = w[(size_t)c * 9 + (size_t)t];
}

/* Sets to 0 those blocks of 8 channels of pixel p whose gate is shut. */
static void prune(const zn_node *o, real *y, size_t p)
{
    const real *mask = o->net->node[o->gate]->save + p * (size_t)(o->c / 8);

    for (int c = 0; c < o->c; c++)
        y[c] = mask[c / 8] == 0 ? 0 : y[c];
}

/* y[c] += w[c] * x[c] */
static void add_products(real *restrict y, const real *restrict w, const real *restrict x, int n)
{
    for (int c = 0; c < n; c++)
        y[c] += w[c] * x[c];
}

/* Pixel p's neighbour at tap t, or false. */
static bool neighbour(const zn_node *o, size_t p, int t, size_t *q)
{
    int j = (int)(p % (size_t)o->w) + t % 3 - 1, i = (int)(p / (size_t)o->w % (size_t)o->h) + t / 3 - 1;

    *q = p + (size_t)((ptrdiff_t)(t / 3 - 1) * o->w + t % 3 - 1);
    return i >= 0 && i < o->h && j >= 0 && j < o->w;
}

static void depthwise_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), c = (size_t)o->c, q;
    const real *bias = o->param[1] == ZN_NO_PARAM ? NULL : zn_node_w(o, 1);

    (void)worker;
    for (size_t p = first; p < end; p++) {
        real *y = o->y + p * c;

        for (size_t i = 0; i < c; i++)
            y[i] = bias ? bias[i] : 0;
        for (int t = 0; t < 9; t++)
            if (neighbour(o, p, t, &q))
                add_products(y, o->save + (size_t)t * c, x->y + q * c, o->c);
        if (o->gate != ZN_NO_NODE)
            prune(o, y, p);
    }
}

static void depthwise_forward(zn_node *o)
{
    transpose_weights(o);
    zn_node_run(o, depthwise_item, zn_node_pixels(o), 1 + CHUNK / (size_t)o->c);
}

static void prune_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first);

    (void)worker;
    for (size_t p = first; p < end; p++)
        prune(o, o->dy + p * (size_t)o->c, p);
}

/* dx[p] = the sum over taps of w[8 - tap] * dy at the tap */
static void depthwise_dx_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), c = (size_t)o->c, q;

    (void)worker;
    for (size_t p = first; p < end; p++) {
        real *dx = x->dy + p * c;

        if (!x->ready)
            memset(dx, 0, c * sizeof *dx);
        for (int t = 0; t < 9; t++)
            if (neighbour(o, p, t, &q))
                add_products(dx, o->save + (size_t)(8 - t) * c, o->dy + q * c, o->c);
    }
}

static void depthwise_dw_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    size_t first, end = zn_node_range(o, item, (size_t)o->c, &first), c = (size_t)o->c, q;
    real sum[9][LANES] = { { 0 } }, *g = zn_node_g(o, 0);

    (void)worker;
    for (size_t p = 0; p < zn_node_pixels(o); p++)
        for (int t = 0; t < 9; t++)
            if (neighbour(o, p, t, &q))
                add_products(sum[t], o->dy + p * c + first, x->y + q * c + first, (int)(end - first));
    for (size_t i = first; i < end; i++)
        for (size_t t = 0; t < 9; t++)
            g[i * 9 + t] = sum[t][i - first];
}

static void depthwise_backward(zn_node *o)
{
    if (o->gate != ZN_NO_NODE)
        zn_node_run(o, prune_item, zn_node_pixels(o), 1 + CHUNK / (size_t)o->c);
    zn_node_run(o, depthwise_dw_item, (size_t)o->c, LANES);
    if (o->param[1] != ZN_NO_PARAM)
        zn_node_run(o, bias_item, (size_t)o->c, LANES);
    if (zn_node_in(o, 0)->wants)
        zn_node_run(o, depthwise_dx_item, zn_node_pixels(o), 1 + CHUNK / (size_t)o->c);
}

static const zn_op depthwise_op = { "depthwise", depthwise_forward, depthwise_backward };

static int depthwise(zn_net *net, int x, int gate, const char *name)
{
    const zn_node *in = zn_net_at(net, x);
    int i = zn_net_add_node(net, &depthwise_op, x, in->h, in->w, in->c, 9 * (size_t)in->c);
    zn_node *o = zn_net_at(net, i);

    o->gate = gate;
    zn_net_add_param(o, 0, name, "weight", (int[ZN_RANK]){ o->c, 1, 3, 3 });
    if (zn_net_stated(net, name, "bias"))
        zn_net_add_param(o, 1, name, "bias", (int[ZN_RANK]){ o->c });
    return i;
}

int zn_net_pruned(zn_net *g, int x, int gate, const char *fmt, ...)
{
    char name[ZN_NAME_SIZE];

    ZN_FORMAT(name, fmt);
    return depthwise(g, x, gate, name);
}

/* ---- 1x1 convolution in groups ------------------------------------------------------------------------- */

/* k: groups.  weight [cout][cin / groups] */
static void grouped_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first);
    int in = x->c / o->k, out = o->c / o->k;

    (void)worker;
    for (size_t p = first; p < end; p++)
        for (int c = 0; c < o->c; c++) {
            const real *w = zn_node_w(o, 0) + c * in, *v = x->y + p * (size_t)x->c + c / out * in;
            real sum = zn_node_w(o, 1)[c];

            for (int i = 0; i < in; i++)
                sum += w[i] * v[i];
            o->y[p * (size_t)o->c + (size_t)c] = sum;
        }
}

static void grouped_back_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first);
    int in = x->c / o->k, out = o->c / o->k;
    size_t len = (size_t)o->c * (size_t)(in + 1);
    real *part = o->net->temp + (size_t)item * len, *bias = part + o->c * in;

    (void)worker;
    memset(part, 0, len * sizeof *part);
    for (size_t p = first; p < end; p++) {
        const real *dy = o->dy + p * (size_t)o->c;
        real *dx = x->dy + p * (size_t)x->c;

        if (!x->ready && x->wants)
            memset(dx, 0, (size_t)x->c * sizeof *dx);
        for (int c = 0; c < o->c; c++) {
            const real *w = zn_node_w(o, 0) + c * in, *v = x->y + p * (size_t)x->c + c / out * in;

            bias[c] += dy[c];
            for (int i = 0; i < in; i++) {
                part[c * in + i] += dy[c] * v[i];
                if (x->wants)
                    dx[c / out * in + i] += dy[c] * w[i];
            }
        }
    }
}

static size_t grouped_chunk(const zn_node *o)
{
    return 1 + GROUPED_CHUNK / (size_t)o->c;
}

static void grouped_forward(zn_node *o)
{
    zn_node_run(o, grouped_item, zn_node_pixels(o), grouped_chunk(o));
}

static void grouped_backward(zn_node *o)
{
    size_t in = (size_t)(zn_node_in(o, 0)->c / o->k), c = (size_t)o->c;
    int items = zn_items(zn_node_pixels(o), grouped_chunk(o));

    zn_node_run(o, grouped_back_item, zn_node_pixels(o), grouped_chunk(o));
    memset(zn_node_g(o, 0), 0, c * in * sizeof(real));
    memset(zn_node_g(o, 1), 0, c * sizeof(real));
    for (int item = 0; item < items; item++) {
        const real *part = o->net->temp + (size_t)item * c * (in + 1);

        for (size_t i = 0; i < c * in; i++)
            zn_node_g(o, 0)[i] += part[i];
        for (size_t i = 0; i < c; i++)
            zn_node_g(o, 1)[i] += part[c * in + i];
    }
}

static const zn_op grouped_op = { "grouped", grouped_forward, grouped_backward };

static int grouped(zn_net *net, int x, int groups, const char *name)
{
    const zn_node *in = zn_net_at(net, x);
    const int cout = zn_net_stated(net, name, "weight")->dims[0], each = in->c / groups;
    int i = zn_net_add_node(net, &grouped_op, x, in->h, in->w, cout, 0);
    zn_node *o = zn_net_at(net, i);

    o->k = groups;
    zn_net_add_param(o, 0, name, "weight", (int[ZN_RANK]){ cout, each, 1, 1 });
    zn_net_add_param(o, 1, name, "bias", (int[ZN_RANK]){ cout });
    zn_net_want_temp(net, (size_t)cout * (size_t)(each + 1) * (size_t)zn_items(zn_node_pixels(o), grouped_chunk(o)));
    return i;
}

/* ---- any of them --------------------------------------------------------------------------------------- */

int zn_net_conv(zn_net *g, int x, const char *fmt, ...)
{
    char name[ZN_NAME_SIZE];
    const zn_stated *t;
    int groups;

    ZN_FORMAT(name, fmt);
    t = zn_net_stated(g, name, "weight");
    if (!t || t->dims[2] != t->dims[3] || t->dims[2] < 1) {
        zn_net_fail(g, ZN_E_USAGE, "the convolution '%s' is not stated", name);
        return ZN_NO_NODE;
    }
    if (t->conv.up2)
        x = zn_net_up2(g, x);
    groups = t->conv.groups > 1 ? t->conv.groups : 1;
    if (groups == 1)
        return dense_conv(g, x, t, name);
    return t->dims[1] == 1 && t->dims[2] == 3 ? depthwise(g, x, ZN_NO_NODE, name) : grouped(g, x, groups, name);
}
