/* SPDX-License-Identifier: MIT */
/* layers_spectral.c - the layers of the Zenith blocks, forward and backward: the Walsh-Hadamard transform of
 * the channels, the SLM gate, scale, mixer, and the gate that prunes blocks of 8 channels. */
#include "net.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    CHUNK = 1 << 14 /* elements of an item */,
    LANES = 64 /* channels of an item */,
    GROUPS = 8 /* of pixels, for sums */
};

/* 1 / (1 + e^-x) for x >= 0, off by at most 2e-7 in float: e^-x is 2^n times a polynomial; there is no call. */
static inline real sigmoid(real x)
{
#ifdef ZN_TRAIN_DOUBLE
    return 1 / (1 + exp(-x));
#else
    float y = (x < 80 ? x : 80) * 1.44269504f, n = (float)(int)(y + 0.5f), r = (n - y) * 0.69314718f, p;
    int32_t bits = (127 - (int32_t)n) << 23;
    float scale;

    p = 1.f / 720;
    p = p * r + 1.f / 120;
    p = p * r + 1.f / 24;
    p = p * r + 1.f / 6;
    p = p * r + 0.5f;
    p = p * r + 1;
    p = p * r + 1;
    memcpy(&scale, &bits, sizeof scale);
    return 1 / (1 + p * scale);
#endif
}

static inline real root(real x)
{
#ifdef ZN_TRAIN_DOUBLE
    return sqrt(x);
#else
    return sqrtf(x);
#endif
}

static inline real magnitude(real x)
{
    return x < 0 ? -x : x;
}

/* ---- the transform ------------------------------------------------------------------------------------- */

static void transform(const zn_node *o, real *v)
{
#ifdef ZN_TRAIN_DOUBLE
    for (int len = 1; len < o->c; len *= 2)
        for (int i = 0; i < o->c; i++)
            if (!(i & len)) {
                real a = v[i], b = v[i | len];

                v[i] = a + b;
                v[i | len] = a - b;
            }
#else
    o->net->dev->k->fwht_row(v, o->c, NULL);
#endif
}

static void fwht_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), c = (size_t)o->c;

    (void)worker;
    for (size_t p = first; p < end; p++) {
        memcpy(o->y + p * c, zn_node_in(o, 0)->y + p * c, c * sizeof *o->y);
        transform(o, o->y + p * c);
    }
}

/* H is symmetric: dx = H dy. */
static void fwht_dx_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), c = (size_t)o->c;

    (void)worker;
    for (size_t p = first; p < end; p++) {
        real *dy = o->dy + p * c, *dx = x->dy + p * c;

        transform(o, dy);
        for (size_t i = 0; i < c; i++)
            dx[i] = x->ready ? dx[i] + dy[i] : dy[i];
    }
}

static void fwht_forward(zn_node *o)
{
    zn_node_run(o, fwht_item, zn_node_pixels(o), 1 + CHUNK / (size_t)o->c);
}

static void fwht_backward(zn_node *o)
{
    if (zn_node_in(o, 0)->wants)
        zn_node_run(o, fwht_dx_item, zn_node_pixels(o), 1 + CHUNK / (size_t)o->c);
}

static const zn_op fwht_op = { "fwht", fwht_forward, fwht_backward };

int zn_net_fwht(zn_net *net, int x)
{
    const zn_node *in = zn_net_at(net, x);

    return zn_net_add_node(net, &fwht_op, x, in->h, in->w, in->c, 0);
}

/* ---- the SLM gate (formula: cpu/kernels.h) ------------------------------------------------------------- */

enum { TAPS = 5, ROUNDS = 3 };

/* What one round computes for a channel; e points to the channel in a row that has two zeros on either side. */
typedef struct slm_step {
    real mag, norm, den, cosine, slope, act;
} slm_step;

static inline slm_step slm_look(const real *e, const real *w, real bias)
{
    slm_step s;
    real sum = 0, dot = 0, norm = 0;

    for (int j = 0; j < TAPS; j++) {
        sum += e[j - 2] * e[j - 2];
        dot += w[j] * e[j - 2];
        norm += w[j] * w[j];
    }
    s.mag = root(sum / 5 + (real)1e-10);
    s.norm = root(norm + (real)1e-8);
    s.den = s.mag * s.norm + (real)1e-6;
    s.cosine = dot / s.den;
    s.slope = root(s.mag + (real)1e-10);
    s.act = s.cosine * s.slope + bias;
    return s;
}

/* save: the gates of the three rounds, [pixel][round][c] */
static void slm_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), n = (size_t)o->c;
    const real *w = zn_node_w(o, 0), *bias = zn_node_w(o, 1);
    real *e = zn_node_scratch(o, worker) + 2;

    e[-2] = e[-1] = e[n] = e[n + 1] = 0;
    for (size_t p = first; p < end; p++) {
        const real *v = zn_node_in(o, 0)->y + p * n;
        real *y = o->y + p * n;

        for (int round = 0; round < ROUNDS; round++) {
            real *g = o->save + (p * ROUNDS + (size_t)round) * n;
            const real *last = round ? g - n : NULL;

            for (size_t c = 0; c < n; c++)
                e[c] = magnitude(v[c]) * (last ? last[c] : 1);
            for (size_t c = 0; c < n; c++) {
                real act = slm_look(e + c, w + c * TAPS, bias[c]).act;

                g[c] = sigmoid(act > 0 ? act : 0);
            }
        }
        for (size_t c = 0; c < n; c++)
            y[c] = v[c] * o->save[(p * ROUNDS + ROUNDS - 1) * n + c];
    }
}

/* One pixel; dw [c][5] and db [c] are added to. */
static void slm_pixel_dx(const zn_node *o, size_t p, real *room, real *dw, real *db)
{
    zn_node *x = zn_node_in(o, 0);
    size_t n = (size_t)o->c;
    const real *w = zn_node_w(o, 0), *bias = zn_node_w(o, 1);
    const real *v = x->y + p * n, *dy = o->dy + p * n;
    real *near = room, *e = near + 2, *dnear = e + n + 2, *de = dnear + 2, *dg = de + n + 2, *de0 = dg + n;
    real *dx = x->dy + p * n;

    e[-2] = e[-1] = e[n] = e[n + 1] = 0;
    for (size_t c = 0; c < n; c++) {
        dg[c] = dy[c] * v[c];
        de0[c] = 0;
    }
    for (int round = ROUNDS - 1; round >= 0; round--) {
        const real *g = o->save + (p * ROUNDS + (size_t)round) * n, *last = round ? g - n : NULL;

        for (size_t c = 0; c < n; c++)
            e[c] = magnitude(v[c]) * (last ? last[c] : 1);
        memset(dnear, 0, (n + 4) * sizeof *de);
        for (size_t c = 0; c < n; c++) {
            slm_step s = slm_look(e + c, w + c * TAPS, bias[c]);
            real dact = s.act > 0 ? dg[c] * g[c] * (1 - g[c]) : 0;
            real dcos = dact * s.slope, ddot = dcos / s.den, dden = -dcos * s.cosine / s.den;
            real dmag = dact * s.cosine / (2 * s.slope) + dden * s.norm;
            real dsum = dmag / (5 * s.mag), dnorm = dden * s.mag / s.norm; /* dsum: half of it times 2 */

            db[c] += dact;
            for (size_t j = 0; j < TAPS; j++) {
                dw[c * TAPS + j] += ddot * near[c + j] + dnorm * w[c * TAPS + j];
                dnear[c + j] += ddot * w[c * TAPS + j] + dsum * near[c + j];
            }
        }
        for (size_t c = 0; c < n; c++) {
            dg[c] = de[c] * magnitude(v[c]);
            de0[c] += de[c] * (last ? last[c] : 1);
        }
    }
    for (size_t c = 0; c < n; c++) {
        real d = dy[c] * o->save[(p * ROUNDS + ROUNDS - 1) * n + c] + (v[c] < 0 ? -de0[c] : de0[c]);

        dx[c] = x->ready ? dx[c] + d : d;
    }
}

/* A group of pixels, with sums of its own in temp: [GROUPS][c * 6] */
static void slm_dx_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), n = (size_t)o->c;
    real *dw = o->net->temp + (size_t)item * n * (TAPS + 1), *db = dw + n * TAPS;

    memset(dw, 0, n * (TAPS + 1) * sizeof *dw);
    for (size_t p = first; p < end; p++)
        slm_pixel_dx(o, p, zn_node_scratch(o, worker), dw, db);
}

static void slm_forward(zn_node *o)
{
    zn_node_run(o, slm_item, zn_node_pixels(o), 1);
}

static void slm_backward(zn_node *o)
{
    size_t pixels = zn_node_pixels(o), each = (pixels + GROUPS - 1) / GROUPS, n = (size_t)o->c;
    real *dw = zn_node_g(o, 0), *db = zn_node_g(o, 1);

    zn_node_run(o, slm_dx_item, pixels, each);
    for (size_t i = 0; i < n * (TAPS + 1); i++) {
        real sum = 0;

        for (int group = 0; group < zn_items(pixels, each); group++)
            sum += o->net->temp[(size_t)group * n * (TAPS + 1) + i];
        *(i < n * TAPS ? dw + i : db + (i - n * TAPS)) = sum;
    }
}

static const zn_op slm_op = { "slm", slm_forward, slm_backward };

int zn_net_slm(zn_net *net, int x, const char *fmt, ...)
{
    const zn_node *in = zn_net_at(net, x);
    size_t len = zn_node_len(in);
    int i = zn_net_add_node(net, &slm_op, x, in->h, in->w, in->c, ROUNDS * len);
    zn_node *o = zn_net_at(net, i);
    char name[ZN_NAME_SIZE];

    ZN_FORMAT(name, fmt);
    zn_net_want_temp(net, (size_t)GROUPS * (size_t)o->c * (TAPS + 1));
    zn_net_add_param(o, 0, name, "weight", (int[ZN_RANK]){ o->c, TAPS });
    zn_net_add_param(o, 1, name, "bias", (int[ZN_RANK]){ o->c });
    return i;
}

/* ---- scale, with spectral dropout ---------------------------------------------------------------------- */

/* save: 1, or 0 and 1 / (1 - dropout), per channel; drawn once per step */
static void scale_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    const real *restrict x = zn_node_in(o, 0)->y, *restrict w = zn_node_w(o, 0), *restrict keep = o->save;
    real *restrict y = o->y;
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), c = (size_t)o->c;

    (void)worker;
    for (size_t p = first; p < end; p++)
        for (size_t i = 0; i < c; i++)
            y[p * c + i] = x[p * c + i] * (w[i] * keep[i]);
}

static void scale_dx_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    size_t first, end = zn_node_range(o, item, (size_t)o->c, &first), c = (size_t)o->c;
    const real *w = zn_node_w(o, 0);
    real *g = zn_node_g(o, 0), sum[LANES] = { 0 };

    (void)worker;
    for (size_t p = 0; p < zn_node_pixels(o); p++)
        for (size_t i = first; i < end; i++) {
            real d = o->dy[p * c + i] * o->save[i], dx = d * w[i];

            sum[i - first] += d * x->y[p * c + i];
            x->dy[p * c + i] = x->ready ? x->dy[p * c + i] + dx : dx;
        }
    for (size_t i = first; i < end; i++)
        g[i] = sum[i - first];
}

static void scale_forward(zn_node *o)
{
    const zn_net *net = o->net;

    for (int i = 0; i < o->c; i++) {
        bool dropped = net->training && net->dropout > 0 &&
            zn_uniform(net->seed, net->step * 1024 + (uint64_t)o->index, (uint64_t)i) < (double)net->dropout;

        o->save[i] = dropped ? 0 : net->training ? 1 / (1 - net->dropout) : 1;
    }
    zn_node_run(o, scale_item, zn_node_pixels(o), 1 + CHUNK / (size_t)o->c);
}

static void scale_backward(zn_node *o)
{
    zn_node_run(o, scale_dx_item, (size_t)o->c, LANES);
}

static const zn_op scale_op = { "scale", scale_forward, scale_backward };

int zn_net_scale(zn_net *net, int x, const char *fmt, ...)
{
    const zn_node *in = zn_net_at(net, x);
    int i = zn_net_add_node(net, &scale_op, x, in->h, in->w, in->c, (size_t)in->c);
    zn_node *o = zn_net_at(net, i);
    char name[ZN_NAME_SIZE];

    ZN_FORMAT(name, fmt);
    zn_net_add_param(o, 0, name, "", (int[ZN_RANK]){ o->c });
    return i;
}

/* ---- mixer: each channel with its two neighbours ------------------------------------------------------- */

static void mixer_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), n = (size_t)o->c;
    const real *restrict left = zn_node_w(o, 0), *restrict here = left + n, *restrict right = here + n;

    (void)worker;
    for (size_t p = first; p < end; p++) {
        const real *restrict x = zn_node_in(o, 0)->y + p * n;
        real *restrict y = o->y + p * n;

        y[0] = here[0] * x[0] + right[0] * x[1];
        for (size_t c = 1; c + 1 < n; c++)
            y[c] = left[c] * x[c - 1] + here[c] * x[c] + right[c] * x[c + 1];
        y[n - 1] = left[n - 1] * x[n - 2] + here[n - 1] * x[n - 1];
    }
}

static void mixer_dx_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *x = zn_node_in(o, 0);
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), n = (size_t)o->c;
    const real *left = zn_node_w(o, 0), *here = left + n, *right = here + n;

    (void)worker;
    for (size_t p = first; p < end; p++) {
        const real *dy = o->dy + p * n;
        real *dx = x->dy + p * n;

        for (size_t c = 0; c < n; c++) {
            real d =
                here[c] * dy[c] + (c + 1 < n ? left[c + 1] * dy[c + 1] : 0) + (c > 0 ? right[c - 1] * dy[c - 1] : 0);

            dx[c] = x->ready ? dx[c] + d : d;
        }
    }
}

static void mixer_dw_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    size_t first, end = zn_node_range(o, item, (size_t)o->c, &first), n = (size_t)o->c;
    real *g = zn_node_g(o, 0), sum[3][LANES] = { { 0 } };

    (void)worker;
    for (size_t p = 0; p < zn_node_pixels(o); p++) {
        const real *x = zn_node_in(o, 0)->y + p * n, *dy = o->dy + p * n;

        for (size_t c = first; c < end; c++) {
            sum[0][c - first] += c > 0 ? dy[c] * x[c - 1] : 0;
            sum[1][c - first] += dy[c] * x[c];
            sum[2][c - first] += c + 1 < n ? dy[c] * x[c + 1] : 0;
        }
    }
    for (size_t t = 0; t < 3; t++)
        memcpy(g + t * n + first, sum[t], (end - first) * sizeof *g);
}

static void mixer_forward(zn_node *o)
{
    zn_node_run(o, mixer_item, zn_node_pixels(o), 1 + CHUNK / (size_t)o->c);
}

static void mixer_backward(zn_node *o)
{
    zn_node_run(o, mixer_dw_item, (size_t)o->c, LANES);
    if (zn_node_in(o, 0)->wants)
        zn_node_run(o, mixer_dx_item, zn_node_pixels(o), 1 + CHUNK / (size_t)o->c);
}

static const zn_op mixer_op = { "mixer", mixer_forward, mixer_backward };

int zn_net_mixer(zn_net *net, int x, const char *fmt, ...)
{
    const zn_node *in = zn_net_at(net, x);
    int i = zn_net_add_node(net, &mixer_op, x, in->h, in->w, in->c, 0);
    zn_node *o = zn_net_at(net, i);
    char name[ZN_NAME_SIZE];

    ZN_FORMAT(name, fmt);
    zn_net_add_param(o, 0, name, "", (int[ZN_RANK]){ 3, o->c });
    return i;
}

/* ---- the gate: blocks of 8 channels whose sum of |x| is large enough ----------------------------------- */

/* save: the mask [pixel][c/8]; in training  clamp(score / 5 + 1/2 + noise, 0, 1), else score > 0 */
static void gate_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie;
    const zn_net *net = o->net;
    size_t first, end = zn_node_range(o, item, zn_node_pixels(o), &first), blocks = (size_t)(o->c / 8);
    const real *scale = zn_node_w(o, 0), *bias = zn_node_w(o, 1);

    (void)worker;
    for (size_t i = first * blocks; i < end * blocks; i++) {
        const real *x = zn_node_in(o, 0)->y + i * 8;
        real sum = 0, score, mask;

        for (int j = 0; j < 8; j++)
            sum += magnitude(x[j]);
        score = sum * scale[i % blocks] + bias[i % blocks];
        mask = score > 0;
        if (net->training) {
            mask = score / 5 + (real)0.5;
            if (net->temperature > 0)
                mask += net->temperature * (real)zn_normal(net->seed, net->step * 1024 + (uint64_t)o->index, i);
            mask = mask < 0 ? 0 : mask > 1 ? 1 : mask;
        }
        o->save[i] = mask;
        for (int j = 0; j < 8; j++)
            o->y[i * 8 + (size_t)j] = x[j] * mask;
    }
}

/* All pixels of some blocks. */
static void gate_dx_item(void *cookie, int item, int worker)
{
    zn_node *o = cookie, *from = zn_node_in(o, 0);
    size_t first, blocks = (size_t)(o->c / 8), end = zn_node_range(o, item, blocks, &first);
    const real *scale = zn_node_w(o, 0);
    real *dscale = zn_node_g(o, 0), *dbias = zn_node_g(o, 1);

    (void)worker;
    for (size_t block = first; block < end; block++)
        dscale[block] = dbias[block] = 0;
    for (size_t p = 0; p < zn_node_pixels(o); p++)
        for (size_t block = first; block < end; block++) {
            size_t at = (p * blocks + block) * 8;
            real mask = o->save[p * blocks + block], sum = 0, dmask = o->net->penalty, dscore = 0;

            for (size_t j = at; j < at + 8; j++) {
                sum += magnitude(from->y[j]);
                dmask += o->dy[j] * from->y[j];
            }
            if (o->net->training && mask > 0 && mask < 1)
                dscore = dmask / 5;
            dscale[block] += dscore * sum;
            dbias[block] += dscore;
            for (size_t j = at; j < at + 8 && from->wants; j++) {
                real x = from->y[j], s = dscore * scale[block];
                real d = o->dy[j] * mask + (x > 0 ? s : x < 0 ? -s : 0);

                from->dy[j] = from->ready ? from->dy[j] + d : d;
            }
        }
}

static void gate_forward(zn_node *o)
{
    zn_node_run(o, gate_item, zn_node_pixels(o), 1 + CHUNK / 4 / (size_t)o->c);
}

static void gate_backward(zn_node *o)
{
    zn_node_run(o, gate_dx_item, (size_t)(o->c / 8), 16);
}

static const zn_op gate_op = { "gate", gate_forward, gate_backward };

int zn_net_gate(zn_net *net, int x, const char *fmt, ...)
{
    const zn_node *in = zn_net_at(net, x);
    int i = zn_net_add_node(net, &gate_op, x, in->h, in->w, in->c, zn_node_len(in) / 8);
    zn_node *o = zn_net_at(net, i);
    char name[ZN_NAME_SIZE];

    ZN_FORMAT(name, fmt);
    zn_net_add_param(o, 0, name, "scale", (int[ZN_RANK]){ o->c / 8 });
    zn_net_add_param(o, 1, name, "bias", (int[ZN_RANK]){ o->c / 8 });
    return i;
}
