/* SPDX-License-Identifier: MIT */
/* sampler.c - see sampler.h. */
#include "sampler.h"

#include <stdlib.h>
#include <string.h>

enum { /* columns of a row: t, the coefficients of the update, those of the estimate of x0, those of the second order */
       UPDATE = 1,
       ESTIMATE = UPDATE + ZN_STEP_COEFS,
       MULTISTEP = ESTIMATE + ZN_STEP_COEFS,
       ROW = MULTISTEP + ZN_MULTISTEP
};

/* All steps' values on the device: [1][1][n][ROW]. */
static zn_tensor upload_steps(zn_ctx *c, const zn_schedule *schedule)
{
    zn_tensor table = zn_new_of(c, ZN_F32, 1, 1, schedule->n, ROW);
    float *host = c->dry || c->status ? NULL : malloc((size_t)schedule->n * ROW * sizeof *host);

    if (!c->dry && !host)
        zn_ctx_fail(c, ZN_E_MEMORY, "out of memory for the steps of a sampler");
    for (int k = 0; host && k < schedule->n; k++) {
        float *row = host + (size_t)k * ROW;

        row[0] = schedule->t[k];
        memcpy(row + UPDATE, schedule->coefs[k], sizeof schedule->coefs[k]);
        memcpy(row + ESTIMATE, schedule->preview[k], sizeof schedule->preview[k]);
        memcpy(row + MULTISTEP, schedule->multistep[k], sizeof schedule->multistep[k]);
    }
    zn_upload(c, table, host);
    free(host);
    return table;
}

/* Columns of the row that the current step uses. */
static zn_tensor columns(zn_tensor now, int from, int n)
{
    now = zn_slice(now, from, n);
    now.ld = n; /* one pixel: dense */
    return now;
}

/* The pictures that zn_job's preview_with makes of estimates. */
static zn_tensor decode(zn_ctx *c, zn_tensor x)
{
    const zn_geometry *g = &c->preview_with->geometry;
    const zn_tensor y = zn_new_of(c, ZN_F32, x.n, x.h * g->grow / g->shrink, x.w * g->grow / g->shrink, g->out_c);

    for (int i = 0; i < x.n; i++)
        zn_call_net(c, c->preview_with,
                    &(zn_call){ .in = { zn_image(x, i) }, .out = { zn_image(y, i) }, .n_in = 1, .n_out = 1 });
    return y;
}

typedef struct estimate { /* one that is to be shown */
    zn_array picture;     /* data NULL: there is none */
    int step;
} estimate;

/* The estimate of x0 that the prediction p gives. */
static estimate make_estimate(zn_ctx *c, const zn_sampler *s, zn_tensor x, zn_tensor p, zn_tensor coefs, int k)
{
    const size_t mark = zn_mark(c->arena);
    zn_tensor picture = zn_new_of(c, ZN_F32, x.n, x.h, x.w, x.c);
    float *host = NULL;

    zn_step(c, picture, x, p, coefs, s->clip);
    if (c->preview_with)
        picture = decode(c, picture);
    if (!c->dry && !c->status && !(host = malloc(zn_pixels(picture) * (size_t)picture.c * sizeof *host)))
        zn_ctx_fail(c, ZN_E_MEMORY, "out of memory for a preview");
    zn_download(c, host, picture);
    if (!c->dry && !c->status)
        c->status = c->be->sync(c->dev, c->err);
    zn_reset(c->arena, mark);
    return (estimate){ { host, picture.n * picture.h, picture.w, picture.c }, k + 1 };
}

static void show(zn_ctx *c, const zn_sampler *s, estimate *e)
{
    if (e->picture.data && !c->status)
        c->preview(c->cookie, &e->picture, e->step, s->schedule->n);
    free(e->picture.data);
    e->picture.data = NULL;
}

/* x = m0 x + m1 x0 + m2 before; before is then free. */
static void update_multistep(zn_ctx *c, zn_tensor x, zn_tensor x0, zn_tensor before, zn_tensor now)
{
    zn_combine(c, before, before, columns(now, MULTISTEP + 2, 1), ZN_MUL, (zn_tail){ 0 });
    zn_combine(c, x, x, columns(now, MULTISTEP, 1), ZN_MUL, (zn_tail){ .residual = &before });
    zn_combine(c, before, x0, columns(now, MULTISTEP + 1, 1), ZN_MUL, (zn_tail){ 0 });
    zn_combine(c, x, x, before, ZN_ADD, (zn_tail){ 0 });
}

/* x += gain * noise */
static void add_noise(zn_ctx *c, zn_tensor x, float gain, uint32_t seed, int k)
{
    const size_t mark = zn_mark(c->arena);
    const zn_tensor noise = zn_new_of(c, ZN_F32, x.n, x.h, x.w, x.c);
    zn_tensor each = noise;

    if (x.w == 1) /* codes, one below the other */
        each.n = x.n * x.h, each.h = 1;
    zn_noise(c, each, seed, 2 + (uint64_t)k);
    zn_map(c, x, noise, (zn_tail){ .gain = gain, .residual = &x });
    zn_reset(c->arena, mark);
}

void zn_sample(zn_ctx *c, zn_tensor x, const zn_sampler *s)
{
    const size_t mark = zn_mark(c->arena);
    const zn_tensor table = upload_steps(c, s->schedule);
    const zn_tensor now = zn_new_of(c, ZN_F32, 1, 1, 1, ROW), p = zn_new_of(c, ZN_F32, x.n, x.h, x.w, x.c);
    const int n = s->schedule->n;
    const bool estimates = s->schedule->second_order || s->estimated;
    zn_tensor x0[2] = { { 0 } }; /* the estimates of this step and of the one before */
    estimate shown = { 0 };

    for (int i = 0; i < 2 && estimates; i++) {
        x0[i] = zn_new_of(c, ZN_F32, x.n, x.h, x.w, x.c);
        zn_map(c, x0[i], x, (zn_tail){ 0 }); /* the first step multiplies it by 0 */
    }
    for (int k = 0; k < n && !c->status; k++) {
        zn_map(c, now, zn_rows(table, k, 1), (zn_tail){ 0 });
        s->predict(c, s->cookie, p, x, columns(now, 0, 1));
        show(c, s, &shown); /* while a GPU computes this step */
        if (c->preview && c->preview_every > 0 && (k + 1) % c->preview_every == 0 && k + 1 < n)
            shown = make_estimate(c, s, x, p, columns(now, ESTIMATE, ZN_STEP_COEFS), k);
        if (!c->be->remote || zn_step_is_long(c))
            show(c, s, &shown);
        if (estimates)
            zn_step(c, x0[k % 2], x, p, columns(now, ESTIMATE, ZN_STEP_COEFS), s->clip);
        if (s->estimated)
            s->estimated(c, s->cookie, x, x0[k % 2], k);
        if (s->schedule->second_order)
            update_multistep(c, x, x0[k % 2], x0[(k + 1) % 2], now);
        else
            zn_step(c, x, x, p, columns(now, UPDATE, ZN_STEP_COEFS), s->clip);
        if (s->schedule->noise[k] != 0)
            add_noise(c, x, s->schedule->noise[k], s->seed, k);
        if (s->updated)
            s->updated(c, s->cookie, x, k);
        zn_report(c);
    }
    show(c, s, &shown);
    zn_reset(c->arena, mark);
}
