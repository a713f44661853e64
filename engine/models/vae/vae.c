/* SPDX-License-Identifier: MIT */
/* vae.c - blocks, bind and forward of the autoencoders: see vae.h. */
#include "vae.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- bind ---------------------------------------------------------------------------------------------- */

int zn_vae_width(zn_binder *b, const char *name)
{
    const int c = zn_bind_dim(b, 0, "%s.weight", name);

    if (b->status)
        return 0;
    if (c < 1 || c > ZN_VAE_MAX_C) {
        zn_bind_fail(b, "the width of '%s' is missing or not from 1 to %d: not the weights of this model", name,
                     ZN_VAE_MAX_C);
        return 0;
    }
    return c;
}

/* RMS norm is x / max(|x|, 1e-12) * sqrt(c) * gamma in the reference: a mean of squares and an eps that is the square of
 * that bound, so that a pixel of zeros stays one. */
void zn_vae_bind_norm(zn_binder *b, zn_norm *out, const zn_vae_names *n, int c, const char *fmt, ...)
{
    char name[ZN_VAE_NAME];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    if (b->status)
        return;
    if (n->kind == ZN_RMS_NORM) {
        *out = (zn_norm){ .kind = ZN_RMS_NORM, .c = c, .no_bias = true, .eps = 1e-24f / (float)c };
        out->gamma = zn_bind_vector(b, c, "%s.gamma", name);
    } else if (c % 32) {
        zn_bind_fail(b, "the %d channels of '%s' are not a multiple of 32", c, name);
    } else {
        zn_bind_norm(b, out, (zn_norm){ .kind = ZN_GROUP_NORM, .c = c, .groups = 32, .eps = n->eps }, "%s", name);
    }
}

float *zn_vae_read_conv(zn_binder *b, float **bias, zn_conv spec, const char *name)
{
    const int taps = zn_bind_dim(b, 4, "%s.weight", name) ? zn_bind_dim(b, 2, "%s.weight", name) : 0;
    int rows = zn_bind_dim(b, 0, "%s.weight", name);
    const size_t each = (size_t)spec.kh * (size_t)spec.kw;
    float *w;

    rows = rows > spec.cout && rows <= ZN_VAE_MAX_C ? rows : spec.cout;
    *bias = NULL;
    if (taps > 3) {
        zn_bind_fail(b, "'%s' has %d taps in time where 1 or 3 are known", name, taps);
        return NULL;
    }
    w = taps ? zn_bind_read5(b, (int[]){ rows, spec.cin, taps, spec.kh, spec.kw }, "%s.weight", name)
             : zn_bind_read(b, (int[]){ rows, spec.cin, spec.kh, spec.kw }, "%s.weight", name);
    *bias = zn_bind_read(b, (int[4]){ rows }, "%s.bias", name);
    for (size_t i = 0; taps > 1 && !b->status && i < (size_t)rows * (size_t)spec.cin; i++)
        memmove(w + i * each, w + ((i + 1) * (size_t)taps - 1) * each, each * sizeof *w);
    return w;
}

void zn_vae_bind_conv(zn_binder *b, zn_conv *out, zn_conv spec, const char *fmt, ...)
{
    char name[ZN_VAE_NAME];
    float *weight, *bias;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    if (b->status)
        return;
    weight = zn_vae_read_conv(b, &bias, spec, name);
    if (!b->status)
        zn_bind_pack(b, out, spec, weight, bias);
    free(weight);
    free(bias);
}

void zn_vae_bind_res(zn_binder *b, zn_vae_res *r, const zn_vae_names *n, int cin, int cout, const char *fmt, ...)
{
    char name[ZN_VAE_NAME];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    if (b->status)
        return;
    r->cin = cin;
    r->cout = cout;
    zn_vae_bind_norm(b, &r->norm1, n, cin, "%s.%s", name, n->norm1);
    zn_vae_bind_conv(b, &r->conv1, zn_conv_same(3, cin, cout), "%s.%s", name, n->conv1);
    zn_vae_bind_norm(b, &r->norm2, n, cout, "%s.%s", name, n->norm2);
    zn_vae_bind_conv(b, &r->conv2, zn_conv_same(3, cout, cout), "%s.%s", name, n->conv2);
    if (cin != cout)
        zn_vae_bind_conv(b, &r->skip, zn_conv_same(1, cin, cout), "%s.%s", name, n->skip);
}

void zn_vae_bind_attention(zn_binder *b, zn_vae_attention *a, const zn_vae_names *n, int c, const char *name)
{
    const char *const part[] = { n->q, n->k, n->v };
    const size_t square = (size_t)c * (size_t)c;
    float *rows, *offsets;

    a->heads = 1;
    zn_vae_bind_norm(b, &a->norm, n, c, "%s.%s", name, n->norm);
    zn_vae_bind_conv(b, &a->out, zn_conv_same(1, c, c), "%s.%s", name, n->out);
    if (!n->k) {
        zn_vae_bind_conv(b, &a->qkv, zn_conv_same(1, c, 3 * c), "%s.%s", name, n->q);
        return;
    }
    rows = malloc(3 * square * sizeof *rows);
    offsets = malloc(3 * (size_t)c * sizeof *offsets);
    if (!b->status && (!rows || !offsets))
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory while reading '%s'", name);
    for (int i = 0; i < 3 && !b->status; i++) {
        char full[ZN_VAE_NAME];
        float *weight, *bias;

        snprintf(full, sizeof full, "%s.%s", name, part[i]);
        weight = zn_vae_read_conv(b, &bias, zn_conv_same(1, c, c), full);
        if (!b->status) {
            memcpy(rows + (size_t)i * square, weight, square * sizeof *rows);
            memcpy(offsets + i * c, bias, (size_t)c * sizeof *offsets);
        }
        free(weight);
        free(bias);
    }
    if (!b->status)
        zn_bind_pack(b, &a->qkv, zn_conv_same(1, c, 3 * c), rows, offsets);
    free(rows);
    free(offsets);
}

void zn_vae_set_geometry(zn_binder *b, const zn_vae *m)
{
    int scale = m->patch;

    for (int i = 0; i < m->n_levels; i++)
        scale *= m->level[i].resamples ? 2 : 1;
    b->geometry = (zn_geometry){
        .in_c = m->decoder ? m->z : 3,
        .out_c = m->decoder ? 3 : m->z,
        .shrink = m->decoder ? 1 : scale,
        .grow = m->decoder ? scale : 1,
        .multiple = m->decoder ? 1 : scale,
        .padded = !m->decoder,
        .halo = -1,
    };
}

/* ---- slots --------------------------------------------------------------------------------------------- */

zn_tensor zn_vae_slot(zn_vae_run *r, int i, int n, int h, int w, int c)
{
    const zn_type type = r->c->type;
    const size_t size = (size_t)n * (size_t)h * (size_t)w * (size_t)c * zn_type_size(type);

    if (r->sizing && size > r->size[i])
        r->size[i] = size;
    assert(size <= r->size[i]);
    return (zn_tensor){ r->data[i], n, h, w, c, c, type };
}

void zn_vae_take(zn_vae_run *r, zn_tensor y, int i)
{
    void *data = r->data[0];
    const size_t size = r->size[0];

    r->x = y;
    r->data[0] = r->data[i], r->size[0] = r->size[i];
    r->data[i] = data, r->size[i] = size;
}

void zn_vae_forward_slots(zn_ctx *c, const void *net, const zn_call *call, zn_vae_walk *walk)
{
    enum { ROW = 1024 };
    zn_arena nowhere = { .size = SIZE_MAX / 2 };
    zn_ctx dry = { .be = c->be, .dev = c->dev, .arena = &nowhere, .type = c->type, .dry = true };
    zn_vae_run r = { .c = &dry, .x = call->in[0], .sizing = true };
    size_t size[ZN_VAE_SLOTS];

    for (int i = 0; i < ZN_VAE_SLOTS; i++) /* says which slot is which after they changed places */
        r.data[i] = &size[i];
    walk(&r, net, call);
    for (int i = 0; i < ZN_VAE_SLOTS; i++)
        *(size_t *)r.data[i] = r.size[i];
    r = (zn_vae_run){ .c = c, .x = call->in[0] };
    for (int i = 0; i < ZN_VAE_SLOTS; i++) {
        r.size[i] = size[i];
        if (size[i])
            r.data[i] = zn_new(c, 1, (int)(size[i] / zn_type_size(c->type) / ROW) + 1, ROW, 1).data;
    }
    walk(&r, net, call);
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

void zn_vae_conv(zn_vae_run *r, const zn_conv *w, zn_tail t)
{
    const zn_tensor x = r->x;
    const int up = w->up2 ? 2 : 1;
    zn_tensor y = zn_vae_slot(r, 1, x.n, x.h * up / w->stride, x.w * up / w->stride, w->cout);

    zn_conv2d(r->c, y, x, w, t);
    zn_vae_take(r, y, 1);
}

void zn_vae_res_block(zn_vae_run *r, const zn_vae_res *k)
{
    zn_tensor x = r->x, t = zn_vae_slot(r, 1, x.n, x.h, x.w, k->cin), h = zn_vae_slot(r, 2, x.n, x.h, x.w, k->cout), y;

    zn_normalise(r->c, t, x, &k->norm1, (zn_tail){ .pre = ZN_SILU });
    zn_conv2d(r->c, h, t, &k->conv1, (zn_tail){ 0 });
    zn_normalise(r->c, h, h, &k->norm2, (zn_tail){ .pre = ZN_SILU });
    if (k->cin == k->cout) {
        zn_conv2d(r->c, x, h, &k->conv2, (zn_tail){ .residual = &x });
        return;
    }
    y = zn_vae_slot(r, 1, x.n, x.h, x.w, k->cout);
    zn_conv2d(r->c, y, x, &k->skip, (zn_tail){ 0 });
    zn_conv2d(r->c, y, h, &k->conv2, (zn_tail){ .residual = &y });
    zn_vae_take(r, y, 1);
}

void zn_vae_attend(zn_vae_run *r, const zn_vae_attention *a)
{
    zn_tensor x = r->x, t = zn_vae_slot(r, 1, x.n, x.h, x.w, x.c), qkv = zn_vae_slot(r, 2, x.n, x.h, x.w, 3 * x.c);

    zn_normalise(r->c, t, x, &a->norm, (zn_tail){ 0 });
    zn_conv2d(r->c, qkv, t, &a->qkv, (zn_tail){ 0 });
    zn_attend(r->c, t, zn_slice(qkv, 0, x.c), zn_slice(qkv, x.c, x.c), zn_slice(qkv, 2 * x.c, x.c),
              &(zn_attention){ .heads = a->heads });
    zn_conv2d(r->c, x, t, &a->out, (zn_tail){ .residual = &x });
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* x += what goes beside the level, of its input `in`. */
static void add_beside(zn_vae_run *r, const zn_vae_level *l, zn_tensor in)
{
    zn_tensor x = r->x, t, u;

    switch (l->beside) {
    case ZN_VAE_NOTHING:
        return;
    case ZN_VAE_INPUT:
        zn_combine(r->c, x, x, in, ZN_ADD, (zn_tail){ 0 });
        return;
    case ZN_VAE_MEAN:
    case ZN_VAE_REPEAT:
        t = zn_vae_slot(r, 1, x.n, x.h, x.w, in.c);
        zn_resize(r->c, t, in, l->beside == ZN_VAE_MEAN ? ZN_AVERAGE : ZN_NEAREST);
        zn_combine(r->c, x, x, t, ZN_ADD, (zn_tail){ 0 });
        return;
    case ZN_VAE_SPREAD:
        t = zn_vae_slot(r, 1, x.n, x.h, x.w, in.c);
        zn_resize(r->c, t, in, ZN_AVERAGE);
        zn_conv2d(r->c, x, t, &l->mix, (zn_tail){ .residual = &x });
        return;
    case ZN_VAE_DEAL:
        u = zn_vae_slot(r, 1, in.n, in.h, in.w, 4 * x.c);
        zn_conv2d(r->c, u, in, &l->mix, (zn_tail){ 0 });
        zn_shuffle(r->c, x, u, 2, (zn_tail){ .residual = &x });
        return;
    }
}

static void run_level(zn_vae_run *r, const zn_vae *m, int i)
{
    const zn_vae_level *l = &m->level[i];
    zn_tensor in = r->x;

    if (l->beside) { /* the blocks overwrite it */
        in = zn_vae_slot(r, 3, in.n, in.h, in.w, in.c);
        zn_map(r->c, in, r->x, (zn_tail){ 0 });
    }
    for (int j = 0; j < l->n_res; j++)
        zn_vae_res_block(r, &l->res[j]);
    if (l->resamples)
        zn_vae_conv(r, &l->resample, (zn_tail){ 0 });
    add_beside(r, l, in);
    zn_watch(r->c, r->x, "level.%d", i);
}

static void run_middle(zn_vae_run *r, const zn_vae *m)
{
    zn_vae_res_block(r, &m->middle[0]);
    if (m->has_attend)
        zn_vae_attend(r, &m->attention);
    zn_vae_res_block(r, &m->middle[1]);
    zn_watch(r->c, r->x, "middle");
}

static void walk(zn_vae_run *r, const void *net, const zn_call *call)
{
    const zn_vae *m = net;
    zn_tensor y = call->out[0], t;

    if (m->decoder && m->has_quant)
        zn_vae_conv(r, &m->quant, (zn_tail){ 0 });
    if (!m->decoder && m->patch > 1) {
        t = zn_vae_slot(r, 1, r->x.n, r->x.h / m->patch, r->x.w / m->patch, r->x.c * m->patch * m->patch);
        zn_unshuffle(r->c, t, r->x, m->patch);
        zn_vae_take(r, t, 1);
    }
    zn_vae_conv(r, &m->first, (zn_tail){ 0 });
    if (m->decoder)
        run_middle(r, m);
    for (int i = 0; i < m->n_levels; i++)
        run_level(r, m, i);
    if (!m->decoder)
        run_middle(r, m);
    zn_normalise(r->c, r->x, r->x, &m->last_norm, (zn_tail){ .pre = ZN_SILU });
    if (m->decoder && m->patch > 1) {
        zn_vae_conv(r, &m->last, (zn_tail){ .pre = m->end });
        zn_shuffle(r->c, y, r->x, m->patch, (zn_tail){ 0 });
    } else if (!m->decoder && m->has_quant) {
        zn_vae_conv(r, &m->last, (zn_tail){ 0 });
        zn_conv2d(r->c, y, r->x, &m->quant, (zn_tail){ 0 });
    } else {
        zn_conv2d(r->c, y, r->x, &m->last, (zn_tail){ .pre = m->end });
    }
}

void zn_vae_forward(zn_ctx *c, const void *net, const zn_call *call)
{
    zn_vae_forward_slots(c, net, call, walk);
}
