/* SPDX-License-Identifier: MIT */
/* layers_mix.c - the layers of the first Zenith document's autoencoders besides convolutions: transforms along rows
 * and columns with a gate, spectral layers; forward and backward.  The gradient of a parameter is summed per item, into temp, and the
 * items' sums are added in their order. */
#include "net.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK = 1 << 13 /* elements of an item */, DEPTH = 4 /* rounds of a spectral layer */ };

static void hadamard(real *v, size_t n)
{
    for (size_t len = 1; len < n; len *= 2)
        for (size_t i = 0; i < n; i += 2 * len)
            for (size_t j = i; j < i + len; j++) {
                real a = v[j], b = v[j + len];

                v[j] = a + b;
                v[j + len] = a - b;
            }
}

/* g = the sum of the items' parts in temp */
static void add_parts(zn_node *o, real *g, size_t len, int items)
{
    for (size_t i = 0; i < len; i++)
        g[i] = 0;
    for (int item = 0; item < items; item++)
        for (size_t i = 0; i < len; i++)
            g[i] += o->net->temp[(size_t)item * len + i];
}

/* ---- rows and columns:  y = H diag(gate) H x / n ------------------------------------------------------- */

/* k: n; stride: 1 along w, 0 along h; pad: the shift of the windows.  A line is one channel of a row or
 * column. */
static size_t lines(const zn_node *o)
{
    return zn_node_len(o) / (size_t)(o->stride ? o->w : o->h);
}

static size_t lines_chunk(const zn_node *o)
{
    return 1 + CHUNK / (size_t)(o->stride ? o->w : o->h);
}

/* The first element of line i; *step: from one element of it to the next. */
static size_t line_at(const zn_node *o, size_t i, size_t *step)
{
    size_t c = (size_t)o->c, row = (size_t)o->w * c;

    *step = o->stride ? c : row;
    return o->stride ? i / c * row + i % c : i / row * (size_t)o->h * row + i % row;
}

/* v = the window of a line from `from` on, transformed; outside the image it is 0. */
static void read_window(real *v, const real *x, size_t step, int from, int len, int n)
{
    for (int i = 0; i < n; i++)
        v[i] = from + i >= 0 && from + i < len ? x[(size_t)(from + i) * step] : 0;
    hadamard(v, (size_t)n);
}

/* Both passes: y = H g H x / n, or dx = H g H dy / n and the part of dg. */
static void run_lines(zn_node *o, int item, int worker, bool back)
{
    zn_node *in = zn_node_in(o, 0);
    size_t first, end = zn_node_range(o, item, lines(o), &first), step;
    int n = o->k, len = o->stride ? o->w : o->h;
    const real *gate = zn_node_w(o, 0);
    real *v = zn_node_scratch(o, worker), *u = v + n, *part = o->net->temp + (size_t)item * (size_t)n;

    if (back)
        memset(part, 0, (size_t)n * sizeof *part);
    for (size_t l = first; l < end; l++) {
        size_t at = line_at(o, l, &step);

        for (int from = -o->pad; from < len; from += n) {
            read_window(v, (back ? o->dy : in->y) + at, step, from, len, n);
            if (back)
                read_window(u, in->y + at, step, from, len, n);
            for (int i = 0; i < n; i++) {
                if (back)
                    part[i] += u[i] * v[i] / (real)n;
                v[i] *= gate[i] / (real)n;
            }
            hadamard(v, (size_t)n);
            for (int i = 0; i < n; i++) {
                real *to = (back ? in->dy : o->y) + at + (size_t)(from + i) * step;

                if (from + i >= 0 && from + i < len && (!back || in->wants))
                    *to = back && in->ready ? *to + v[i] : v[i];
            }
        }
    }
}

static void lines_item(void *cookie, int item, int worker)
{
    run_lines(cookie, item, worker, false);
}

static void lines_back_item(void *cookie, int item, int worker)
{
    run_lines(cookie, item, worker, true);
}

static void lines_forward(zn_node *o)
{
    zn_node_run(o, lines_item, lines(o), lines_chunk(o));
}

static void lines_backward(zn_node *o)
{
    zn_node_run(o, lines_back_item, lines(o), lines_chunk(o));
    add_parts(o, zn_node_g(o, 0), (size_t)o->k, zn_items(lines(o), lines_chunk(o)));
}

static const zn_op lines_op = { "lines", lines_forward, lines_backward };

int zn_net_lines(zn_net *net, int x, bool along_w, int shift, const char *fmt, ...)
{
    const zn_node *in = zn_net_at(net, x);
    int i = zn_net_add_node(net, &lines_op, x, in->h, in->w, in->c, 0), n;
    zn_node *o = zn_net_at(net, i);
    char name[ZN_NAME_SIZE];
    const zn_stated *gate;

    ZN_FORMAT(name, fmt);
    gate = zn_net_stated(net, name, "");
    n = gate ? gate->dims[0] : 1;
    o->k = n;
    o->stride = along_w;
    o->pad = shift;
    zn_net_add_param(o, 0, name, "", (int[ZN_RANK]){ n });
    zn_net_want_temp(net, (size_t)n * (size_t)zn_items(lines(o), lines_chunk(o)));
    return i;
}

/* ---- spectral layer: four times { permute, scale, H }, then the first outputs + bias ------------------- */

/* k: P.  save[pixel][round][P]: what each round begins with. */
static int permuted(int j, int round, int p)
{
    return (j * (2 * (round * p / 3 / 2) + 1) + round) %
        p; /* as models/zenith/zenith_taesd.c without a perm in the file */
}

static size_t spectral_chunk(const zn_node *o)
{
    return 1 + CHUNK / (size_t)o->k;
}

static void spectral_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), p = (size_t)o->k;
    real *v = zn_node_scratch(o, worker);

    for (size_t i = first; i < end; i++) {
        real *save = o->save + i * DEPTH * p;

        memcpy(save, x->y + i * (size_t)x->c, (size_t)x->c * sizeof *save);
        memset(save + x->c, 0, (p - (size_t)x->c) * sizeof *save);
        for (int r = 0; r < DEPTH; r++, save += p) {
            for (int j = 0; j < o->k; j++)
                v[j] = zn_node_w(o, 0)[(size_t)r * p + (size_t)j] * save[permuted(j, r, o->k)];
            hadamard(v, p);
            if (r < DEPTH - 1)
                memcpy(save + p, v, p * sizeof *v);
        }
        for (int c = 0; c < o->c; c++)
            o->y[i * (size_t)o->c + (size_t)c] = v[c] + zn_node_w(o, 1)[c];
    }
}

static void spectral_back_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), p = (size_t)o->k;
    real *v = zn_node_scratch(o, worker), *u = v + p, *part = o->net->temp + (size_t)item * (DEPTH + 1) * p;

    memset(part, 0, (DEPTH + 1) * p * sizeof *part);
    for (size_t i = first; i < end; i++) {
        for (size_t j = 0; j < p; j++) {
            v[j] = j < (size_t)o->c ? o->dy[i * (size_t)o->c + j] : 0;
            part[DEPTH * p + j] += v[j];
        }
        for (int r = DEPTH - 1; r >= 0; r--) {
            const real *save = o->save + (i * DEPTH + (size_t)r) * p, *scale = zn_node_w(o, 0) + (size_t)r * p;

            hadamard(v, p);
            memset(u, 0, p * sizeof *u);
            for (int j = 0; j < o->k; j++) {
                part[(size_t)r * p + (size_t)j] += v[j] * save[permuted(j, r, o->k)];
                u[permuted(j, r, o->k)] += v[j] * scale[j];
            }
            memcpy(v, u, p * sizeof *v);
        }
        for (int c = 0; c < x->c && x->wants; c++) {
            real *dx = x->dy + i * (size_t)x->c + (size_t)c;

            *dx = x->ready ? *dx + v[c] : v[c];
        }
    }
}

static void spectral_forward(zn_node *o)
{
    zn_node_run(o, spectral_item, zn_node_pixels(o), spectral_chunk(o));
}

static void spectral_backward(zn_node *o)
{
    size_t p = (size_t)o->k, len = DEPTH * p;
    int items = zn_items(zn_node_pixels(o), spectral_chunk(o));
    real *g[2] = { zn_node_g(o, 0), zn_node_g(o, 1) };

    zn_node_run(o, spectral_back_item, zn_node_pixels(o), spectral_chunk(o));
    memset(g[0], 0, len * sizeof(real));
    memset(g[1], 0, (size_t)o->c * sizeof(real));
    for (int item = 0; item < items; item++) {
        const real *part = o->net->temp + (size_t)item * (len + p);

        for (size_t i = 0; i < len; i++)
            g[0][i] += part[i];
        for (int i = 0; i < o->c; i++)
            g[1][i] += part[len + (size_t)i];
    }
}

static const zn_op spectral_op = { "spectral", spectral_forward, spectral_backward };

int zn_net_spectral(zn_net *net, int x, const char *fmt, ...)
{
    const zn_node *in = zn_net_at(net, x);
    size_t pixels = zn_node_pixels(in);
    const zn_stated *scale, *bias;
    char name[ZN_NAME_SIZE];
    int p, cout, i;
    zn_node *o;

    ZN_FORMAT(name, fmt);
    scale = zn_net_stated(net, name, "scale");
    bias = zn_net_stated(net, name, "bias");
    p = scale ? scale->dims[1] : 0;
    cout = bias ? bias->dims[0] : 0;
    if (p < in->c || p < cout || p < 1 || p & (p - 1)) {
        zn_net_fail(net, ZN_E_USAGE, "the spectral layer '%s' is not stated, or too narrow", name);
        return ZN_NO_NODE;
    }
    i = zn_net_add_node(net, &spectral_op, x, in->h, in->w, cout, pixels * DEPTH * (size_t)p);
    o = zn_net_at(net, i);
    o->k = p;
    zn_net_add_param(o, 0, name, "scale", (int[ZN_RANK]){ DEPTH, p });
    zn_net_add_param(o, 1, name, "bias", (int[ZN_RANK]){ cout });
    zn_net_want_temp(net, (DEPTH + 1) * (size_t)p * (size_t)zn_items(pixels, spectral_chunk(o)));
    return i;
}
