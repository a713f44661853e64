/* SPDX-License-Identifier: MIT */
/* stages.c - networks that see the whole picture only in a part of low resolution (zn_split).
 *
 *   decoder   latent ── stage 1, whole: attention ── array in memory ── stage 2, in tiles ── picture
 *   encoder   picture ── stage 1, in tiles ── array in memory ── stage 2, whole: attention ── latent
 *
 * The array in memory is as large as the latent, with more channels.  The result is that of the network on the whole
 * picture: tiles have the halo of the layers in them.  A picture that takes little memory runs in one piece. */
#include "stages.h"

#include "../core/ints.h"
#include "memory.h"
#include "settings.h"

#include <stdlib.h>

/* The geometry of stage 1 or 2. */
static zn_geometry stage_geometry(const zn_model *m, int stage)
{
    const zn_split *split = &m->split;
    zn_geometry g = m->geometry;

    if ((stage == 1) == split->whole_first)
        g = (zn_geometry){ .in_c = g.in_c, .out_c = g.out_c, .shrink = 1, .grow = 1, .multiple = 1, .halo = -1 };
    else
        g.halo = split->halo, g.lattice = split->lattice;
    *(stage == 1 ? &g.out_c : &g.in_c) = split->c;
    return g;
}

static void begin_stage(zn_run *r, int stage)
{
    const zn_model *m = r->model;

    r->stage = stage;
    r->geometry = stage ? stage_geometry(m, stage) : m->geometry;
    r->crops = stage ? stage == 2 && m->split.whole_first : m->arch->crops;
    r->n_measures = 0;
}

/* ---- two stages ------------------------------------------------------------------------------------------------- */

typedef struct between { /* the array between the stages, as the result of one and the input of the other */
    zn_memory memory;
    zn_source source;
    size_t bytes;
} between;

static between make_between(const zn_run *r, const zn_source *in)
{
    const zn_geometry *g = &r->model->geometry;
    const int w = zn_ceil_div(in->w, g->shrink), h = zn_ceil_div(in->h, g->shrink), c = r->model->split.c;

    return (between){ { NULL, w, c },
                      { w, h, c, zn_memory_read, NULL },
                      (size_t)w * (size_t)h * (size_t)c * sizeof(float) };
}

/* A piece takes little memory if it takes no more than a tile may, or a quarter of the memory limit. */
static size_t little(const zn_run *r)
{
    return r->most / 4 > r->max_memory ? r->most / 4 : r->max_memory;
}

/* The array between the stages counts, too: it lowers the bounds of a tile and of a whole stage.  A tile, whose halo is wide, may
 * be as large as one piece.  Returns the previous bounds. */
static zn_limits set_aside(zn_run *r, const between *mid)
{
    const zn_limits before = { .total = r->most, .run = r->max_memory };

    r->most -= mid->bytes;
    r->max_memory = r->model->split.lattice ? little(r) : r->max_memory;
    r->max_memory = r->max_memory < r->most ? r->max_memory : r->most;
    return before;
}

static void give_back(zn_run *r, zn_limits before)
{
    r->most = before.total;
    r->max_memory = before.run;
}

/* Both stages. */
static zn_status plan_split(zn_run *r, zn_plan *plan, const zn_source *in, zn_error *err)
{
    const between mid = make_between(r, in);
    zn_limits bounds;
    zn_plan part[2];
    double total = 0;
    zn_status s = ZN_OK;

    if (mid.bytes > r->most)
        return zn_fail(err, ZN_E_MEMORY, "%s needs %zu MiB between its stages where %zu are allowed; set %s to more",
                       r->model->arch->info.id, mid.bytes >> 20, r->most >> 20, r->model->engine->be->memory_variable);
    bounds = set_aside(r, &mid);
    for (int i = 0; i < 2 && !s; i++) {
        const zn_source *from = i ? &mid.source : in;

        begin_stage(r, i + 1);
        s = zn_tile_plan(r, &part[i], from, 1, err);
        total += r->ctx.total;
    }
    give_back(r, bounds);
    begin_stage(r, 0);
    if (s)
        return s;
    r->ctx.total = total;
    *plan = part[r->model->split.whole_first];
    plan->macs = part[0].macs + part[1].macs;
    plan->peak_bytes = (part[0].peak_bytes > part[1].peak_bytes ? part[0] : part[1]).peak_bytes + mid.bytes;
    return ZN_OK;
}

static zn_status run_split(zn_run *r, const zn_sink *out, const zn_source *in, zn_rect roi, zn_error *err)
{
    between mid = make_between(r, in);
    const zn_sink sink = { zn_memory_write, &mid.memory };
    zn_limits bounds;
    zn_status s;

    mid.source.cookie = &mid.memory;
    mid.memory.data = malloc(mid.bytes);
    if (!mid.memory.data)
        return zn_fail(err, ZN_E_MEMORY, "out of memory for what lies between the two stages of %s",
                       r->model->arch->info.id);
    bounds = set_aside(r, &mid);
    begin_stage(r, 1);
    s = zn_tile_run(r, &sink, in, 1, (zn_rect){ 0, 0, mid.source.w, mid.source.h }, err);
    begin_stage(r, 2);
    if (!s)
        s = zn_tile_run(r, out, &mid.source, 1, roi, err);
    begin_stage(r, 0);
    give_back(r, bounds);
    free(mid.memory.data);
    return s;
}

/* Plans one piece if that takes little memory. */
static zn_status plan_whole(zn_run *r, zn_plan *plan, const zn_source *in, int n_in, zn_error *err)
{
    const size_t most = r->most;
    zn_status s;

    r->most = little(r);
    s = zn_tile_plan(r, plan, in, n_in, err);
    r->most = most;
    return s;
}

/* Whether it is to run in two stages; *s: the status otherwise. */
static bool splits(zn_run *r, zn_plan *plan, const zn_source *in, int n_in, zn_status *s, zn_error *err)
{
    if (!r->model->split.c) {
        *s = zn_tile_plan(r, plan, in, n_in, err);
        return false;
    }
    *s = plan_whole(r, plan, in, n_in, err);
    return *s == ZN_E_MEMORY || (*s == ZN_OK && r->tile);
}

zn_status zn_stages_plan(zn_run *r, zn_plan *plan, const zn_source *in, int n_in, zn_error *err)
{
    zn_status s;

    return splits(r, plan, in, n_in, &s, err) ? plan_split(r, plan, in, err) : s;
}

zn_status zn_stages_run(zn_run *r, const zn_sink *out, const zn_source *in, int n_in, zn_rect roi, zn_error *err)
{
    zn_plan plan;
    zn_status s;

    if (!r->model->split.c || !splits(r, &plan, in, n_in, &s, err))
        return zn_tile_run(r, out, in, n_in, roi, err);
    s = plan_split(r, &plan, in, err);
    if (err && !s)
        err->text[0] = 0;
    return s ? s : run_split(r, out, in, roi, err);
}
