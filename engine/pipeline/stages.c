/* SPDX-License-Identifier: MIT */
/* stages.c - networks that see the whole picture only in a part of low resolution (zn_split).
 *
 *   decoder   latent ── stage 1, whole: attention ── array in memory ── stage 2, in tiles ── picture
 *   encoder   picture ── stage 1, in tiles ── array in memory ── stage 2, whole: attention ── latent
 *
 * The array in memory is as large as the latent, with more channels.  The result is that of the network on the whole
 * picture: tiles have the halo of the layers in them.  A picture that takes little memory runs in one piece.
 *
 * Group norms in the tiles need the mean and the deviation of the whole picture (zn_split.norms).  They are found one
 * after the other before the tiles are computed: for each norm, tiles are computed up to it, with those before it known,
 * and their moments are merged.  With all tiles, that is exact and takes many times the work; with an evenly spread sample
 * of small tiles it is an estimate, which is corrected once.  In both cases all tiles use the same statistics, so that there
 * are no seams. */
#include "stages.h"

#include "../core/ints.h"
#include "settings.h"

#include <math.h>
#include <stdlib.h>

enum {
    SAMPLE_SIDE = 2,  /* of a tile of the sample, in steps of the lattice */
    LEAST_SAMPLE = 32 /* tiles */
};

/* The geometry of stage 1 or 2. */
static zn_geometry stage_geometry(const zn_model *m, int stage)
{
    const zn_split *split = &m->split;
    zn_geometry g = m->geometry;

    if ((stage == 1) == split->whole_first)
        g = (zn_geometry){ .in_c = g.in_c, .out_c = g.out_c, .shrink = 1, .grow = 1, .multiple = 1, .halo = -1 };
    else
        g.halo = split->halo;
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

/* ---- statistics of norms --------------------------------------------------------------------------------------- */

typedef struct moments {
    double n, mean, m2; /* m2: the sum of squared differences from the mean */
} moments;

static void merge(moments *a, moments b)
{
    const double n = a->n + b.n, d = b.mean - a->mean;

    a->mean += d * b.n / n;
    a->m2 += b.m2 + d * d * a->n * b.n / n;
    a->n = n;
}

typedef struct gathering {
    const zn_split *split;
    int first, n; /* norms that are looked for */
    int c;        /* of a row */
    moments *of;  /* [n_norms][c], the groups of a norm from the first on */
} gathering;

/* A sink: for each norm, the means of the channels in a tile's core, then those of their squared differences. */
static bool add_tile(void *cookie, zn_rect core, const float *row)
{
    const gathering *into = cookie;
    const double n = (double)core.w * core.h;

    for (int k = into->first; k < into->first + into->n; k++, row += 2 * into->c) {
        const zn_norm *norm = into->split->norms[k];
        moments *of = into->of + (size_t)k * (size_t)into->c;

        for (int i = 0; i < norm->c; i++)
            merge(&of[i / (norm->c / norm->groups)], (moments){ n, row[i], row[into->c + i] * n });
    }
    return true;
}

static double variance(moments m)
{
    return fmax(m.m2 / m.n, 0);
}

/* Rows of norm number k, from its measured statistics.  An estimate is corrected by the difference of an earlier
 * estimate, under almost the same conditions, from the whole picture; NULL: it is not. */
static void set_rows(const zn_statistics *stats, const zn_norm *norm, int k, const moments *found,
                     const moments *before, const moments *whole)
{
    float *mean = stats->known + (size_t)(2 * k) * (size_t)stats->c, *inverse = mean + stats->c;

    for (int i = 0; i < norm->c; i++) {
        const size_t at = (size_t)k * (size_t)stats->c + (size_t)(i / (norm->c / norm->groups));
        double m = found[at].mean, v = variance(found[at]);

        if (whole) {
            m += whole[at].mean - before[at].mean;
            v *= variance(before[at]) > 0 ? variance(whole[at]) / variance(before[at]) : 1;
        }
        mean[i] = (float)-m;
        inverse[i] = (float)(1 / sqrt(v + norm->eps));
    }
}

static zn_status begin_statistics(zn_run *r, zn_error *err)
{
    const zn_split *split = &r->model->split;
    zn_statistics stats = { .rows = 2 * split->n_norms };

    for (int i = 0; i < split->n_norms; i++)
        stats.c = zn_imax(stats.c, split->norms[i]->c);
    if (stats.rows && !(stats.known = calloc((size_t)stats.rows * (size_t)stats.c, sizeof *stats.known)))
        return zn_fail(err, ZN_E_MEMORY, "out of memory for the statistics of %s", r->model->arch->info.id);
    r->statistics = stats;
    return ZN_OK;
}

static void end_statistics(zn_run *r)
{
    free(r->statistics.known);
    r->statistics = (zn_statistics){ 0 };
}

/* One of how many small tiles of the picture is sampled. */
static int sample_of(const zn_run *r, const zn_source *in)
{
    const int side = zn_tile_step(r) * SAMPLE_SIDE, n = zn_ceil_div(in->w, side) * zn_ceil_div(in->h, side);

    return zn_imax(1, zn_imin((int)r->set[r->model->split.sample], n / LEAST_SAMPLE));
}

/* A pass over tiles up to norm number k, or over all of them for every norm (k -1).  work not NULL: only that is added up. */
static zn_status seek(zn_run *r, gathering *into, int k, const zn_source *in, double *work, zn_error *err)
{
    const zn_geometry *shape = &r->geometry;
    const zn_rect all = { 0, 0, zn_ceil_div(in->w, shape->shrink) * shape->grow,
                          zn_ceil_div(in->h, shape->shrink) * shape->grow };
    const int tile = r->tile, side = zn_tile_step(r) * SAMPLE_SIDE;
    const zn_sink sink = { add_tile, into };
    zn_plan plan;
    zn_status s;

    into->first = k < 0 ? 0 : k;
    into->n = k < 0 ? into->split->n_norms : 1;
    r->n_measures = 0;
    r->statistics.sought = k < 0 ? ZN_EVERY_NORM : k + 1;
    r->statistics.every = k < 0 ? 1 : sample_of(r, in);
    if (r->statistics.every > 1 && (!tile || tile > side))
        r->tile = side;
    s = work ? zn_tile_plan(r, &plan, in, 1, err) : zn_tile_run(r, &sink, in, 1, all, err);
    if (work)
        *work += r->ctx.total;
    r->tile = tile;
    r->n_measures = 0;
    r->statistics.sought = 0;
    return s;
}

/* The statistics of all norms, from tiles of `in`, at the stage that the run is at; or only the work of that.  An estimate
 * is followed by a pass over the whole picture, which shows where it is wrong, and by a second one with that correction. */
static zn_status find_statistics(zn_run *r, const zn_source *in, double *work, zn_error *err)
{
    const zn_split *split = &r->model->split;
    const size_t len = (size_t)split->n_norms * (size_t)r->statistics.c;
    gathering into = { .split = split, .c = r->statistics.c };
    moments *of; /* first estimate, whole, second */
    zn_status s = ZN_OK;

    if (!split->n_norms)
        return ZN_OK;
    if (!(of = calloc(3 * len, sizeof *of)))
        return zn_fail(err, ZN_E_MEMORY, "out of memory for the statistics of %s", r->model->arch->info.id);
    for (int round = 0; round < (sample_of(r, in) > 1 ? 2 : 1) && !s; round++) {
        into.of = of + len;
        if (round)
            s = seek(r, &into, -1, in, work, err);
        into.of = of + (round ? 2 * len : 0);
        for (int k = 0; k < split->n_norms && !s; k++) {
            s = seek(r, &into, k, in, work, err);
            if (!s && !work)
                set_rows(&r->statistics, split->norms[k], k, into.of, of, round ? of + len : NULL);
        }
    }
    free(of);
    return s;
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

/* The array between the stages counts, too: it lowers the bounds of a tile and of a whole stage.  Returns the previous bounds. */
static zn_limits set_aside(zn_run *r, const between *mid)
{
    const zn_limits before = { .total = r->most, .run = r->max_memory };

    r->most -= mid->bytes;
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
        if (i == r->model->split.whole_first && !(s = begin_statistics(r, err)))
            s = find_statistics(r, from, &total, err);
        if (!s)
            s = zn_tile_plan(r, &part[i], from, 1, err);
        end_statistics(r);
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

static zn_status run_stage(zn_run *r, int stage, const zn_sink *out, const zn_source *in, zn_rect roi, zn_error *err)
{
    zn_status s = ZN_OK;

    begin_stage(r, stage);
    if ((stage == 2) == r->model->split.whole_first && !(s = begin_statistics(r, err)))
        s = find_statistics(r, in, NULL, err);
    if (!s)
        s = zn_tile_run(r, out, in, 1, roi, err);
    end_statistics(r);
    return s;
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
    s = run_stage(r, 1, &sink, in, (zn_rect){ 0, 0, mid.source.w, mid.source.h }, err);
    if (!s)
        s = run_stage(r, 2, out, &mid.source, roi, err);
    begin_stage(r, 0);
    give_back(r, bounds);
    free(mid.memory.data);
    return s;
}

/* Plans one piece if that takes little memory: no more than a tile may, or a quarter of the memory limit; if tiles
 * would need statistics first, up to the whole limit. */
static zn_status plan_whole(zn_run *r, zn_plan *plan, const zn_source *in, int n_in, zn_error *err)
{
    const size_t most = r->most;
    zn_status s;

    if (!r->model->split.n_norms)
        r->most = most / 4 > r->max_memory ? most / 4 : r->max_memory;
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
