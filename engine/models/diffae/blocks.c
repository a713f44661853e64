/* SPDX-License-Identifier: MIT */
/* blocks.c - the blocks of the diffusion autoencoder, the same in the U-Net and in the encoder. */
#include "diffae.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- bind ---------------------------------------------------------------------------------------------- */

const char *zn_diffae_prefix(const zn_weights *w)
{
    static const char *const prefixes[] = { "ema_model.", "model.", "" };

    for (int i = 0; w && i < 3; i++) {
        char name[96];

        snprintf(name, sizeof name, "%sinput_blocks.0.0.weight", prefixes[i]);
        if (zn_weights_get(w, name))
            return prefixes[i];
        snprintf(name, sizeof name, "%slatent_net.layers.0.linear.weight", prefixes[i]);
        if (zn_weights_get(w, name))
            return prefixes[i];
    }
    return "";
}

zn_prediction zn_diffae_find_prediction(const zn_binder *b, const char *key)
{
    static const char *const names[ZN_N_PREDICTIONS] = { "eps", "v", "x0" };
    const char *said = zn_bind_meta(b, key);
    int i = 0;

    while (said && i < ZN_N_PREDICTIONS && strcmp(said, names[i]))
        i++;
    return (zn_prediction)i;
}

int zn_diffae_number(const zn_binder *b, const char *key, int lo, int hi, int otherwise)
{
    const char *text = zn_bind_meta(b, key);
    char *end;
    long n;

    if (!text)
        return otherwise;
    n = strtol(text, &end, 10);
    return end == text || *end || n < lo || n > hi ? 0 : (int)n;
}

static bool width_ok(zn_binder *b, int width, const char *name)
{
    if (!b->status && (width < 1 || width > ZN_DIFFAE_MAX_C))
        zn_bind_fail(b, "the width of '%s' is missing or not from 1 to %d", name, ZN_DIFFAE_MAX_C);
    return !b->status;
}

zn_norm zn_diffae_group_norm(zn_binder *b, int width, const char *fmt, ...)
{
    zn_norm spec = { .kind = ZN_GROUP_NORM, .c = width, .groups = width < 32 ? width : 32, .eps = 1e-5f }, norm = { 0 };
    char name[160];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    if (!b->status && width % spec.groups)
        zn_bind_fail(b, "the %d channels of '%s' are not a multiple of %d", width, name, spec.groups);
    zn_bind_norm(b, &norm, spec, "%s", name);
    return norm;
}

/* The published rows are head-major, q, k and v of a head together; here all q come first, then all k, then all v. */
static void bind_attention(zn_binder *b, zn_diffae_attention *a, int width, const char *name)
{
    const int dim = zn_diffae_number(b, "head_channels", 1, ZN_DIFFAE_MAX_C, b->w ? width : 64),
              heads = dim ? width / dim : 0;
    float *weight, *bias, *rows, *offsets;

    if (b->status)
        return;
    if (!heads || width % dim) {
        zn_bind_fail(b, "heads of %d channels do not divide %d channels", dim, width);
        return;
    }
    a->heads = heads;
    a->norm = zn_diffae_group_norm(b, width, "%s.norm", name);
    weight = zn_bind_read(b, (int[5]){ 3 * width, width, 1 }, "%s.qkv.weight", name);
    bias = zn_bind_read(b, (int[5]){ 3 * width }, "%s.qkv.bias", name);
    rows = malloc((size_t)(3 * width) * (size_t)width * sizeof *rows);
    offsets = malloc((size_t)(3 * width) * sizeof *offsets);
    if (!b->status && (!rows || !offsets))
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory while reading '%s'", name);
    for (int i = 0; !b->status && i < 3 * width; i++) {
        const int part = i / width, head = i % width / dim, from = (head * 3 + part) * dim + i % dim;

        memcpy(rows + (size_t)i * (size_t)width, weight + (size_t)from * (size_t)width, (size_t)width * sizeof *rows);
        offsets[i] = bias[from];
    }
    if (!b->status)
        zn_bind_pack(b, &a->qkv, zn_conv_same(1, width, 3 * width), rows, offsets);
    zn_bind_conv(b, &a->out, zn_conv_same(1, width, width), "%s.proj_out", name);
    free(weight);
    free(bias);
    free(rows);
    free(offsets);
}

void zn_diffae_bind_res(zn_binder *b, zn_diffae_res *r, zn_diffae_res spec, const char *name, const char *attention)
{
    zn_conv conv1;

    *r = spec;
    if (b->status)
        return;
    if (b->w)
        r->cout = zn_bind_dim(b, 0, "%s.in_layers.2.weight", name);
    if (!width_ok(b, r->cout, name))
        return;
    if (r->resample != ZN_SAME_SIZE && r->cout != r->cin) {
        zn_bind_fail(b, "'%s' changes size and width at once", name);
        return;
    }
    conv1 = zn_conv_same(3, r->cin, r->cout);
    conv1.up2 = r->resample == ZN_DOUBLE_SIZE;
    r->in_norm = zn_diffae_group_norm(b, r->cin, "%s.in_layers.0", name);
    zn_bind_conv(b, &r->conv1, conv1, "%s.in_layers.2", name);
    if (r->conditioned) {
        r->out_norm = zn_diffae_group_norm(b, r->cout, "%s.out_layers.0", name);
        zn_bind_conv(b, &r->conv2, zn_conv_same(3, r->cout, r->cout), "%s.out_layers.3", name);
    }
    r->has_skip = r->cin != r->cout;
    if (r->has_skip)
        zn_bind_conv(b, &r->skip, zn_conv_same(1, r->cin, r->cout), "%s.skip_connection", name);
    if (b->w)
        r->has_attention = attention && zn_bind_has(b, "%s.qkv.weight", attention);
    if (r->has_attention)
        bind_attention(b, &r->attention, r->cout, attention);
}

/* f_i = 10000^(-i / half);  row t = cos(t f_0) ..., sin(t f_0) ... */
void zn_diffae_embed(float *rows, int dim)
{
    const int half = dim / 2;

    for (int t = 0; t < ZN_DIFFAE_STEPS; t++)
        for (int i = 0; i < half; i++) {
            /* The reference computes the frequency and the angle in float. */
            const float f = (float)exp(-log(10000.0) * i / half), angle = (float)t * f;

            rows[t * dim + i] = (float)cos((double)angle);
            rows[t * dim + half + i] = (float)sin((double)angle);
        }
}

static void bind_table(zn_binder *b, zn_diffae_times *m)
{
    const size_t size = (size_t)ZN_DIFFAE_STEPS * (size_t)m->dim * sizeof(float);
    float *rows = b->status ? NULL : malloc(size);

    if (!b->status && !rows)
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for the embeddings of time");
    if (rows) {
        zn_diffae_embed(rows, m->dim);
        m->table = zn_bind_device(b, rows, size);
    }
    free(rows);
}

void zn_diffae_bind_times(zn_binder *b, zn_diffae_times *m, int dim, int embed, const char *name)
{
    m->dim = dim;
    m->embed = embed;
    if (!b->status && (dim < 2 || dim % 2))
        zn_bind_fail(b, "the time embedding has %d numbers, which is not an even number", dim);
    bind_table(b, m);
    zn_bind_conv(b, &m->first, zn_conv_same(1, dim, embed), "%s.0", name);
    zn_bind_conv(b, &m->second, zn_conv_same(1, embed, embed), "%s.2", name);
}

/* ---- forward ------------------------------------------------------------------------------------------- */

void zn_diffae_run_embedding(zn_ctx *c, const zn_diffae_times *m, zn_tensor y, zn_tensor u)
{
    const size_t mark = zn_mark(c->arena);
    const zn_tensor e = zn_new(c, u.n, u.h, u.w, m->embed);

    zn_conv2d(c, e, u, &m->first, (zn_tail){ .pre = ZN_SILU });
    zn_conv2d(c, y, e, &m->second, (zn_tail){ .pre = ZN_SILU });
    zn_reset(c->arena, mark);
}

void zn_diffae_run_times(zn_ctx *c, const zn_diffae_times *m, zn_tensor rows, zn_tensor t)
{
    const size_t mark = zn_mark(c->arena);
    const zn_tensor table = { m->table, 1, 1, ZN_DIFFAE_STEPS, m->dim, m->dim, ZN_F32 };
    const zn_tensor u = zn_new(c, t.n, t.h, t.w, m->dim), f = zn_new(c, t.n, t.h, t.w, m->embed);

    zn_lookup(c, u, table, t);
    zn_diffae_run_embedding(c, m, f, u);
    zn_conv2d(c, rows, f, &m->last, (zn_tail){ 0 });
    zn_reset(c->arena, mark);
}

static void run_attention(zn_ctx *c, const zn_diffae_attention *a, zn_tensor y, zn_tensor x)
{
    const size_t mark = zn_mark(c->arena);
    zn_tensor u = zn_new(c, x.n, x.h, x.w, x.c), qkv = zn_new(c, x.n, x.h, x.w, 3 * x.c);
    const zn_attention how = { .heads = a->heads };

    zn_normalise(c, u, x, &a->norm, (zn_tail){ 0 });
    zn_conv2d(c, qkv, u, &a->qkv, (zn_tail){ 0 });
    zn_attend(c, u, zn_slice(qkv, 0, x.c), zn_slice(qkv, x.c, x.c), zn_slice(qkv, 2 * x.c, x.c), &how);
    zn_conv2d(c, y, u, &a->out, (zn_tail){ .residual = &x });
    zn_reset(c->arena, mark);
}

/* The modulation's part for one block. */
static zn_modulation part_of(const zn_diffae_modulation *m, const zn_diffae_res *r)
{
    return (zn_modulation){ .scale = zn_slice(m->time, r->at, r->cout),
                            .shift = zn_slice(m->time, m->gate.c + r->at, r->cout),
                            .gate = zn_slice(m->gate, r->at, r->cout) };
}

static zn_tensor resampled(zn_ctx *c, const zn_diffae_res *r, zn_tensor x)
{
    const bool half = r->resample == ZN_HALF_SIZE;
    zn_tensor y;

    if (r->resample == ZN_SAME_SIZE)
        return x;
    y = half ? zn_new(c, x.n, x.h / 2, x.w / 2, x.c) : zn_new(c, x.n, 2 * x.h, 2 * x.w, x.c);
    zn_resize(c, y, x, half ? ZN_AVERAGE : ZN_NEAREST);
    return y;
}

void zn_diffae_run_res(zn_ctx *c, const zn_diffae_res *r, zn_tensor y, zn_tensor x, const zn_diffae_modulation *m)
{
    const size_t mark = zn_mark(c->arena);
    /* Before its attention the result lies in a tensor of its own. */
    zn_tensor to = r->has_attention ? zn_new(c, y.n, y.h, y.w, y.c) : y, h, skip;
    zn_tensor u = zn_new(c, x.n, x.h, x.w, x.c);

    zn_normalise(c, u, x, &r->in_norm, (zn_tail){ .pre = ZN_SILU });
    if (r->resample == ZN_HALF_SIZE) /* doubling the size is fused into conv1 */
        u = resampled(c, r, u);
    skip = resampled(c, r, x);
    if (r->has_skip) {
        zn_conv2d(c, to, skip, &r->skip, (zn_tail){ 0 });
        skip = to;
    }
    if (r->conditioned) {
        const zn_modulation part = part_of(m, r);

        h = zn_new(c, y.n, y.h, y.w, y.c);
        zn_conv2d(c, h, u, &r->conv1, (zn_tail){ 0 });
        zn_modulate(c, h, h, &r->out_norm, &part, (zn_tail){ .pre = ZN_SILU });
        zn_conv2d(c, to, h, &r->conv2, (zn_tail){ .residual = &skip });
    } else {
        zn_conv2d(c, to, u, &r->conv1, (zn_tail){ .residual = &skip });
    }
    if (r->has_attention)
        run_attention(c, &r->attention, y, to);
    zn_reset(c->arena, mark);
}
