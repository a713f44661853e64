/* SPDX-License-Identifier: MIT */
/* vae.c - bind and forward of the autoencoders: see vae.h. */
#include "vae.h"

#include "../../core/ints.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- bind ---------------------------------------------------------------------------------------------- */

int zn_vae_width(zn_binder *b, const char *name)
{
    const int width = zn_bind_dim(b, 0, "%s.weight", name);

    if (b->status)
        return 0;
    if (width < 1 || width > ZN_VAE_MAX_C) {
        zn_bind_fail(b, "the width of '%s' is missing or not from 1 to %d: not the weights of this model", name,
                     ZN_VAE_MAX_C);
        return 0;
    }
    return width;
}

/* RMS norm is x / max(|x|, 1e-12) * sqrt(width) * gamma in the reference: a mean of squares and an eps that is the square of
 * that bound, so that a pixel of zeros stays one. */
void zn_vae_bind_norm(zn_binder *b, zn_norm *out, const zn_vae_names *n, int width, const char *fmt, ...)
{
    const int groups = width < 32 ? width : 32;
    char name[ZN_VAE_NAME];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    if (b->status)
        return;
    if (n->kind == ZN_RMS_NORM) {
        *out = (zn_norm){ .kind = ZN_RMS_NORM, .c = width, .no_bias = true, .eps = 1e-24f / (float)width };
        out->gamma = zn_bind_vector(b, width, "%s.gamma", name);
    } else if (width % groups) {
        zn_bind_fail(b, "the %d channels of '%s' are not a multiple of 32", width, name);
    } else {
        zn_bind_norm(b, out, (zn_norm){ .kind = ZN_GROUP_NORM, .c = width, .groups = groups, .eps = n->eps }, "%s",
                     name);
    }
}

void zn_vae_bind_tap(zn_binder *b, zn_conv *out, zn_conv spec, int tap, const char *name)
{
    float *w = b->status ? NULL : zn_vae_read_tap(b, NULL, spec, tap, name);

    spec.has_bias = false;
    spec.many_pixels = true;
    if (!b->status)
        zn_bind_pack(b, out, spec, w, NULL);
    free(w);
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
    if (b->outline) {
        zn_bind_conv(b, out, spec, "%s", name);
        return;
    }
    weight = zn_vae_read_conv(b, &bias, spec, name);
    spec.many_pixels = true;
    if (!b->status)
        zn_bind_pack(b, out, spec, weight, bias);
    free(weight);
    free(bias);
}

void zn_vae_bind_res(zn_binder *b, zn_vae_res *r, const zn_vae_names *n, bool video, int cin, int cout, const char *fmt,
                     ...)
{
    char name[ZN_VAE_NAME], conv[ZN_VAE_NAME + 16];
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
    for (int i = 0; video && i < 2; i++) {
        snprintf(conv, sizeof conv, "%s.%s", name, n->conv1);
        zn_vae_bind_tap(b, &r->past1[i], zn_conv_same(3, cin, cout), i, conv);
        snprintf(conv, sizeof conv, "%s.%s", name, n->conv2);
        zn_vae_bind_tap(b, &r->past2[i], zn_conv_same(3, cout, cout), i, conv);
    }
}

/* Weights and biases [3 width] of q, k and v one after the other, from three tensors of a file. */
static float *read_three(zn_binder *b, float **bias, const char *const part[3], int width, const char *name)
{
    const size_t square = (size_t)width * (size_t)width;
    float *rows = malloc(3 * square * sizeof *rows);

    *bias = malloc(3 * (size_t)width * sizeof **bias);
    if (!b->status && (!rows || !*bias))
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory while reading '%s'", name);
    for (int i = 0; i < 3 && !b->status; i++) {
        char full[ZN_VAE_NAME];
        float *weight, *offsets;

        snprintf(full, sizeof full, "%s.%s", name, part[i]);
        weight = zn_vae_read_conv(b, &offsets, zn_conv_same(1, width, width), full);
        if (!b->status) {
            memcpy(rows + (size_t)i * square, weight, square * sizeof *rows);
            memcpy(*bias + i * width, offsets, (size_t)width * sizeof *offsets);
        }
        free(weight);
        free(offsets);
    }
    return rows;
}

void zn_vae_bind_attention(zn_binder *b, zn_vae_attention *a, const zn_vae_names *n, int width, const char *name)
{
    char full[ZN_VAE_NAME];
    float *rows, *bias;

    a->heads = 1;
    zn_vae_bind_norm(b, &a->norm, n, width, "%s.%s", name, n->norm);
    zn_vae_bind_conv(b, &a->out, zn_conv_same(1, width, width), "%s.%s", name, n->out);
    if (b->status)
        return;
    snprintf(full, sizeof full, "%s.%s", name, n->q);
    if (b->outline && !n->k) {
        zn_bind_conv(b, &a->q, zn_conv_same(1, width, 3 * width), "%s", full);
        return;
    }
    rows = n->k ? read_three(b, &bias, (const char *const[]){ n->q, n->k, n->v }, width, name)
                : zn_vae_read_conv(b, &bias, zn_conv_same(1, width, 3 * width), full);
    if (!b->status) {
        zn_bind_pack(b, &a->q, zn_conv_same(1, width, width), rows, bias);
        zn_bind_pack(b, &a->kv, zn_conv_same(1, width, 2 * width), rows + (size_t)width * (size_t)width, bias + width);
    }
    free(rows);
    free(bias);
}

/* How much smaller the latent is than what the first level of an encoder, or the last of a decoder, sees. */
static int levels_scale(const zn_vae *m)
{
    int scale = 1;

    for (int i = 0; i < m->n_levels; i++)
        scale *= m->level[i].resamples ? 2 : 1;
    return scale;
}

/* How a network is split: its halo and lattice are whole units of pixels of the latent. */
static zn_split split_of(const zn_binder *b, const zn_vae *m, int scale)
{
    enum { FAR = 1 << 10 }; /* units from the picture's border */
    const int unit = zn_vae_unit(b->be, b->dev, m), at = FAR * unit, each = m->decoder ? 1 : scale;
    const zn_span seen = zn_vae_reach(b->be, b->dev, m, 0, (zn_span){ at, at + unit });
    const int halo = zn_imax(at * each - seen.from, seen.end - (at + unit) * each);

    return (zn_split){ .c = m->width,
                       .halo = zn_round_up(halo, unit * each),
                       .lattice = unit > 1 ? unit * each : 0,
                       .whole_first = m->decoder };
}

void zn_vae_set_geometry(zn_binder *b, const zn_vae *m)
{
    const int scale = m->patch * levels_scale(m);

    if (m->last_norm.kind != ZN_GROUP_NORM && !b->status) /* whose statistics are of the whole picture */
        b->split = split_of(b, m, scale);
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

/* ---- forward ------------------------------------------------------------------------------------------- */

/* x += the shortcut of the level, from its input `in`. */
static void add_shortcut(zn_vae_run *r, const zn_vae_level *l, zn_tensor in)
{
    zn_tensor x = r->x, t, u;

    switch (l->shortcut) {
    case ZN_VAE_NOTHING:
        return;
    case ZN_VAE_INPUT:
        zn_combine(r->c, x, x, in, ZN_ADD, (zn_tail){ 0 });
        return;
    case ZN_VAE_MEAN:
    case ZN_VAE_REPEAT:
        t = zn_vae_slot(r, 1, x.n, x.h, x.w, in.c);
        zn_resize(r->c, t, in, l->shortcut == ZN_VAE_MEAN ? ZN_AVERAGE : ZN_NEAREST);
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
    const bool ends = m->decoder && i + 1 == m->n_levels && !l->resamples && !l->shortcut && !r->call->stage;
    const zn_norm *last = ends ? &m->last_norm : NULL;
    zn_tensor in = r->x;

    if (l->shortcut) { /* the blocks overwrite it */
        in = zn_vae_slot(r, 3, in.n, in.h, in.w, in.c);
        zn_map(r->c, in, r->x, (zn_tail){ 0 });
    }
    for (int j = 0; j < l->n_res; j++)
        zn_vae_res_block(r, &l->res[j], j + 1 < l->n_res ? &l->res[j + 1].norm1 : last);
    if (l->resamples)
        zn_vae_conv(r, &l->resample, (zn_tail){ 0 });
    add_shortcut(r, l, in);
    zn_watch(r->c, r->x, "level.%d", i);
}

static void run_middle(zn_vae_run *r, const zn_vae *m)
{
    zn_vae_res_block(r, &m->middle[0], NULL);
    if (m->has_attend)
        zn_vae_attend(r, &m->attention);
    zn_vae_res_block(r, &m->middle[1], NULL);
    zn_watch(r->c, r->x, "middle");
}

/* What the network's own latent is multiplied by. */
static float latent_scale(const zn_vae *m, const zn_call *call)
{
    const float asked = m->scale != 0 ? call->set[m->scale_set] : 1;

    return asked != 0 ? asked : m->scale;
}

/* latent += shift, unless another scale is asked for */
static void add_shift(zn_ctx *c, const zn_vae *m, const zn_call *call, zn_tensor latent)
{
    const zn_tensor shift = { m->shift, latent.n, 1, 1, latent.c, latent.c, ZN_F32 };

    if (m->shift && call->set[m->scale_set] == 0)
        zn_combine(c, latent, latent, shift, ZN_ADD, (zn_tail){ 0 });
}

/* From a diffusion model's latent to the network's own. */
static void unscale(zn_vae_run *r, const zn_vae *m)
{
    zn_tensor y;

    if (m->scale == 0)
        return;
    y = zn_vae_slot(r, 1, r->x.n, r->x.h, r->x.w, r->x.c);
    zn_map(r->c, y, r->x, (zn_tail){ .gain = 1 / latent_scale(m, r->call) });
    add_shift(r->c, m, r->call, y);
    zn_vae_take(r, y, 1);
}

/* Stage 2 begins with what stage 1 left; blocks write to it. */
static void copy_input(zn_vae_run *r)
{
    zn_tensor y = zn_vae_slot(r, 1, r->x.n, r->x.h, r->x.w, r->x.c);

    zn_map(r->c, y, r->x, (zn_tail){ 0 });
    zn_vae_take(r, y, 1);
}

/* The pixels of the input that a tile puts out. */
static zn_rect core_of(const zn_vae *m, const zn_call *call)
{
    const int grow = m->patch * levels_scale(m);

    return (zn_rect){ call->left, call->top, call->out[0].w / grow, call->out[0].h / grow };
}

/* Of a tile of a decoder, only what its core needs from here on is kept; level i comes next. */
static void drop_halo(zn_vae_run *r, const zn_vae *m, int i)
{
    const zn_rect core = core_of(m, r->call);
    const int unit = zn_vae_unit(r->c->be, r->c->dev, m);
    const zn_span across = zn_vae_reach(r->c->be, r->c->dev, m, i, (zn_span){ core.x, core.x + core.w });
    const zn_span down = zn_vae_reach(r->c->be, r->c->dev, m, i, (zn_span){ core.y, core.y + core.h });
    const int x0 = across.from > r->left ? across.from / unit * unit : r->left;
    const int y0 = down.from > r->top ? down.from / unit * unit : r->top;
    const int x1 = zn_imin(r->left + r->x.w, across.end), y1 = zn_imin(r->top + r->x.h, down.end);
    zn_tensor y;

    if (x1 - x0 == r->x.w && y1 - y0 == r->x.h)
        return;
    y = zn_vae_slot(r, 1, 1, y1 - y0, x1 - x0, r->x.c);
    zn_window(r->c, y, r->x, x0 - r->left, y0 - r->top);
    zn_vae_take(r, y, 1);
    r->left = x0, r->top = y0;
}

/* The last norm and convolution of a decoder; the result begins at or before y's first pixel. */
static void end_decoder(zn_vae_run *r, const zn_vae *m, const zn_call *call)
{
    const int grow = m->patch * levels_scale(m), h = r->x.h * m->patch, w = r->x.w * m->patch;
    const bool crops = h != call->out[0].h || w != call->out[0].w;
    zn_tensor y;

    if (r->normed)
        zn_vae_take(r, zn_vae_slot(r, 1, r->x.n, r->x.h, r->x.w, r->x.c), 1);
    else
        zn_normalise(r->c, r->x, r->x, &m->last_norm, (zn_tail){ .pre = ZN_SILU });
    r->normed = false;
    y = crops ? zn_new_of(r->c, ZN_F32, 1, h, w, call->out[0].c) : call->out[0];
    if (m->patch > 1) {
        zn_vae_conv(r, &m->last, (zn_tail){ .pre = m->end });
        zn_shuffle(r->c, y, r->x, m->patch, (zn_tail){ 0 });
    } else {
        zn_conv2d(r->c, y, r->x, &m->last, (zn_tail){ .pre = m->end });
    }
    if (crops)
        zn_window(r->c, call->out[0], y, call->left * grow - r->left * m->patch, call->top * grow - r->top * m->patch);
}

static void walk_decoder(zn_vae_run *r, const zn_vae *m, const zn_call *call)
{
    if (call->stage != 2) {
        unscale(r, m);
        if (m->has_quant)
            zn_vae_conv(r, &m->quant, (zn_tail){ 0 });
        zn_vae_conv(r, &m->first, (zn_tail){ 0 });
        run_middle(r, m);
    } else {
        copy_input(r);
    }
    if (call->stage == 1) {
        zn_map(r->c, call->out[0], r->x, (zn_tail){ 0 });
        return;
    }
    for (int i = 0; i < m->n_levels; i++) {
        if (call->stage)
            drop_halo(r, m, i);
        run_level(r, m, i);
        if (m->level[i].resamples)
            r->up *= 2, r->left *= 2, r->top *= 2;
    }
    if (call->stage)
        drop_halo(r, m, m->n_levels);
    end_decoder(r, m, call);
}

static void walk_encoder(zn_vae_run *r, const zn_vae *m, const zn_call *call)
{
    const zn_tail scaled = { .gain = latent_scale(m, call) };

    if (call->stage != 2) {
        zn_vae_patch(r, m);
        zn_vae_conv(r, &m->first, (zn_tail){ 0 });
        for (int i = 0; i < m->n_levels; i++)
            run_level(r, m, i);
    } else {
        copy_input(r);
    }
    if (call->stage == 1) {
        zn_map(r->c, call->out[0], r->x, (zn_tail){ 0 });
        return;
    }
    run_middle(r, m);
    zn_normalise(r->c, r->x, r->x, &m->last_norm, (zn_tail){ .pre = ZN_SILU });
    if (m->has_quant) {
        zn_vae_conv(r, &m->last, (zn_tail){ 0 });
        zn_conv2d(r->c, call->out[0], r->x, &m->quant, scaled);
    } else {
        zn_conv2d(r->c, call->out[0], r->x, &m->last, scaled);
    }
    zn_vae_draw(r, &m->spread, scaled.gain);
    add_shift(r->c, m, call, call->out[0]);
}

static void walk(zn_vae_run *r, const void *net, const zn_call *call)
{
    const zn_vae *m = net;

    if (call->state)
        zn_vae_video_walk(r, m, call);
    else
        (m->decoder ? walk_decoder : walk_encoder)(r, m, call);
}

size_t zn_vae_state(const void *net, const zn_call *call, zn_type type)
{
    zn_arena nowhere = { .size = SIZE_MAX / 2 };
    zn_ctx dry = { .arena = &nowhere, .type = type, .dry = true };
    zn_vae_run r = { .c = &dry, .call = call, .x = call->in[0], .sizing = true };

    zn_vae_video_walk(&r, net, call);
    return r.kept;
}

void zn_vae_forward(zn_ctx *c, const void *net, const zn_call *call)
{
    zn_vae_forward_slots(c, net, call, walk);
}
