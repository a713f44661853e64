/* SPDX-License-Identifier: MIT */
/* enhance.c - what denoise, restore and upscale share: one network on the parts of a picture; see zenith_composite.h.
 *
 *   +-----+-----+      A run goes from band to band, a row of tiles each.  The network's change of a band is
 *   |  band     |      kept until blend() has seen all that lies plan->reach around a pixel: the last rows of a
 *   +-----+-----+      band wait for the next one.
 *   |     |     |  */
#include "../core/ints.h"
#include "../core/status.h"
#include "../zenith_number.h"
#include "damage.h"
#include "enhance.h"
#include "level.h"
#include "session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REACH = 2, DETAIL = 6 }; /* of a strength above 1 and of sharpening; of detail */
static const float OCTAVE = 8;  /* steps of the measured noise to each factor of two */

typedef struct work {
    const zn_enhance_plan *plan;
    zn_enhance_result *result;
    const zn_source *in;
    const zn_watcher *watch;
    zn_error *err;
    zn_use *use, *first; /* NULL: there is none, or it has nothing to do */
    double start, span;  /* the part of the whole that is now done */
} work;

static bool on_progress(void *cookie, double done)
{
    const work *k = cookie;

    return !k->watch->progress || k->watch->progress(k->watch->cookie, k->start + k->span * done);
}

/* k: of a run, which can be cancelled; NULL: there is none */
static zn_status open_network(zn_use **use, const zn_enhance_plan *p, work *k, zn_error *err)
{
    const zn_terms terms = { .choice = p->choice, .progress = k ? on_progress : NULL, .cookie = k };

    return zn_use_begin(use, p->session, p->how.model, p->how.weights, &terms, err);
}

static zn_status open_first(zn_use **use, const zn_enhance_plan *p, work *k, zn_error *err)
{
    const zn_terms terms = { .choice = p->choice, .progress = k ? on_progress : NULL, .cookie = k };

    return p->how.first ? zn_use_begin(use, p->session, p->how.first, NULL, &terms, err) : ZN_OK;
}

/* What a denoiser that comes first is told. */
static zn_job first_job(const zn_enhance *how, zn_value set[2])
{
    set[0] = (zn_value){ "sigma", how->sigma };
    set[1] = (zn_value){ "sigma-scale", 1 };
    return (zn_job){ .set = set, .n_set = how->sigma == 0 ? 2 : 1 };
}

/* Whether the noise of the picture is measured, for either network. */
static bool seeks_noise(const zn_enhance *how)
{
    return how->seeks_noise || (how->first && how->sigma == 0);
}

/* ---- describe ------------------------------------------------------------------------------------------------------ */

static void add_settings(zn_key *key, const zn_enhance *how)
{
    for (int i = 0; i < how->n_set; i++) {
        zn_key_add_text(key, how->set[i].key);
        zn_key_add(key, &how->set[i].value, sizeof how->set[i].value);
    }
}

static bool seeks_damage(const zn_enhance *how)
{
    for (int i = 0; i < how->n_set; i++)
        if (how->found[i] && how->set[i].value == 0)
            return true;
    return how->fading > 0;
}

/* The network sees the other one's result: a change depends on what that sees, too. */
static zn_status add_first(zn_enhance_plan *p, zn_error *err)
{
    zn_use *use = NULL;
    zn_value set[2];
    const zn_job job = first_job(&p->how, set);
    zn_status s = open_first(&use, p, NULL, NULL);

    if (s) {
        p->how.first = NULL;
        return ZN_OK;
    }
    s = zn_model_grid(&p->first, zn_use_model(use), p->grid.w, p->grid.h, &job, err);
    p->grid.halo += p->first.halo;
    p->mapped = p->how.sigma == 0 && zn_model_level_reach(zn_use_model(use)) > 0;
    zn_key_add_text(&p->network, zn_use_name(use));
    zn_key_add(&p->network, &p->how.sigma, sizeof p->how.sigma);
    zn_use_end(&use);
    return s;
}

zn_status zn_enhance_describe(zn_enhance_plan *p, zn_session *session, const zn_choice *choice, const zn_enhance *how,
                              int32_t w, int32_t h, int32_t side, zn_error *err)
{
    const zn_job job = { .set = how->set, .n_set = how->n_set, .tile = side };
    zn_use *use = NULL;
    zn_status s;

    *p = (zn_enhance_plan){ .how = *how,
                            .choice = choice ? *choice : (zn_choice){ 0 },
                            .session = session,
                            .grid = { .w = w, .h = h, .scale = 1 },
                            .w = w,
                            .h = h,
                            .reach = how->detail > 0                    ? DETAIL
                                : how->strength > 1 || how->sharpen > 0 ? REACH
                                                                        : 0,
                            .nothing =
                                how->sharpen == 0 && (how->strength == 0 || (how->luma == 0 && how->chroma == 0)) };
    if (w < 1 || h < 1)
        return zn_fail(err, ZN_E_USAGE, "There is no picture to work on.");
    if ((s = open_network(&use, p, NULL, err)))
        return s;
    s = zn_model_grid(&p->grid, zn_use_model(use), w, h, &job, err);
    if (p->grid.scale > 1) /* front ends may fill transparent pixels from their neighbours */
        p->grid.halo += ZN_ENLARGE_REACH;
    p->w *= p->grid.scale;
    p->h *= p->grid.scale;
    p->mapped = how->seeks_noise && zn_model_level_reach(zn_use_model(use)) > 0;
    zn_makers_add(&p->computed_by, use);
    zn_key_add_text(&p->network, zn_use_name(use));
    if (!s && how->first)
        s = add_first(p, err);
    p->measured = seeks_noise(&p->how) || seeks_damage(how);
    zn_key_add(&p->network, (bool[]){ seeks_noise(&p->how), seeks_damage(how) }, 2 * sizeof(bool));
    p->key = p->network;
    add_settings(&p->key, how);
    zn_key_add(&p->key, &how->fading, sizeof how->fading);
    zn_use_end(&use);
    return s;
}

/* ---- measuring ----------------------------------------------------------------------------------------------------- */

/* In steps, or each brush stroke would compute all tiles again. */
static void round_noise(zn_noise_table *noise)
{
    for (int c = 0; c < 3; c++) {
        /* not 0, which would ask the engine to measure once more */
        noise->median[c] = fmaxf(roundf(noise->median[c] * 4.0f) / 4.0f, 0.25f);
        for (int i = 0; i < ZN_NOISE_BINS; i++)
            if (noise->least[c][i] > 0)
                noise->least[c][i] = exp2f(roundf(log2f(noise->least[c][i]) * OCTAVE) / OCTAVE);
    }
}

/* Before the noise is rounded the cells are kept, if there is memory for them. */
static zn_status measure_noise(zn_enhance_result *result, zn_model *m, const zn_source *in, zn_error *err)
{
    zn_levels *const kept = calloc(1, sizeof *kept);
    const zn_status s = zn_levels_keep(kept, &result->noise, m, in, err);

    zn_enhance_forget(result);
    if (!s)
        round_noise(&result->noise);
    if (kept && kept->cell)
        result->cells = kept;
    else
        free(kept);
    return s;
}

void zn_enhance_forget(zn_enhance_result *result)
{
    if (result->cells)
        zn_levels_free(result->cells);
    free(result->cells);
    result->cells = NULL;
}

static zn_status measure(zn_enhance_result *result, const zn_enhance_plan *p, const zn_use *use, const zn_use *first,
                         const zn_source *in, zn_error *err)
{
    zn_status s = ZN_OK;

    if (seeks_noise(&p->how))
        s = measure_noise(result, zn_use_model(first ? first : use), in, err);
    if (!s && seeks_damage(&p->how))
        s = zn_damage_measure(&result->damage, in, err);
    return s;
}

zn_status zn_enhance_measure(zn_enhance_result *result, const zn_enhance_plan *p, const zn_source *in, zn_error *err)
{
    zn_use *use = NULL, *first = NULL;
    zn_task_turn turn;
    zn_status s = open_network(&use, p, NULL, err);

    if (!s)
        s = open_first(&first, p, NULL, err);
    if (!s && !(s = zn_task_begin(&turn, p->session, err))) {
        s = measure(result, p, use, first, in, err);
        zn_task_end(&turn);
    }
    zn_use_end(&first);
    zn_use_end(&use);
    return s;
}

void zn_enhance_key_measured(zn_key *key, const zn_enhance_plan *p, const zn_enhance_result *result)
{
    const zn_noise_table *noise = &result->noise;

    if (p->mapped) {
        zn_key_add(key, noise->least, sizeof noise->least);
        zn_key_add(key, &noise->clean, sizeof noise->clean);
        zn_key_add(key, &noise->more, sizeof noise->more);
    }
    if (p->mapped ? p->how.first != NULL : seeks_noise(&p->how)) /* else the median is only shown */
        zn_key_add(key, noise->median, sizeof noise->median);
    if (seeks_damage(&p->how)) {
        const zn_faults *d = &result->damage;
        const float told[] = { d->noise, d->artefacts, d->blur };

        zn_key_add(key, told, sizeof told);
        if (p->how.fading > 0) {
            zn_key_add(key, d->low, sizeof d->low);
            zn_key_add(key, d->high, sizeof d->high);
        }
    }
}

/* Whether the picture was looked at for a setting. */
static bool is_sought(const zn_enhance_plan *p, const char *key)
{
    for (int i = 0; i < p->how.n_set; i++)
        if (!strcmp(p->how.set[i].key, key))
            return p->how.set[i].value == 0 && seeks_damage(&p->how);
    return false;
}

static void add_phrase(zn_found *f, const char *phrase)
{
    const size_t n = strlen(f->text);

    snprintf(f->text + n, sizeof f->text - n, "%s%s", n ? ", " : "", phrase);
}

void zn_enhance_found(zn_found *f, const zn_enhance_plan *p, const zn_enhance_result *result)
{
    const zn_faults *d = &result->damage;
    const double blur = rint(20 * (double)d->blur) / 20; /* in its steps: 1.35, not 1.35000002 */
    char number[ZN_NUMBER_SIZE], phrase[64];

    *f = (zn_found){ -1, -1, -1, "" };
    if (is_sought(p, "blur")) {
        f->blur = blur < 0 ? 0 : blur > 0 ? blur : -1;
        snprintf(phrase, sizeof phrase, zn_tr("blur of %s pixels"), zn_number_print(number, blur));
        add_phrase(f, blur > 0 ? phrase : blur < 0 ? zn_tr("no blur") : zn_tr("blur unclear"));
    }
    if (is_sought(p, "artefacts")) {
        f->artefacts = (double)d->artefacts;
        snprintf(phrase, sizeof phrase, zn_tr("JPEG artifacts of %s"), zn_number_print(number, f->artefacts));
        add_phrase(f, f->artefacts > 0 ? phrase : zn_tr("no JPEG artifacts"));
    }
    if (is_sought(p, "noise")) {
        f->noise = (double)d->noise;
        snprintf(phrase, sizeof phrase, zn_tr("noise of %s"), zn_number_print(number, f->noise));
        add_phrase(f, f->noise > 0 ? phrase : zn_tr("little noise"));
    }
}

/* ---- the network --------------------------------------------------------------------------------------------------- */

typedef struct window { /* a part of the picture as a picture of its own */
    const zn_source *in;
    zn_rect at;
    bool stretched;
    float gain[3], add[3]; /* of a channel, if so */
} window;

/* By `fading` of what makes black and white of the levels that were found. */
static void stretch(window *w, double fading, const zn_faults *d)
{
    w->stretched = fading > 0;
    for (int c = 0; w->stretched && c < 3; c++) {
        const float gain = 1 / (d->high[c] - d->low[c]), share = (float)fading;

        w->gain[c] = 1 + share * (gain - 1);
        w->add[c] = -share * gain * d->low[c];
    }
}

static bool read_window(void *cookie, zn_rect r, float *dst)
{
    const window *w = cookie;

    r.x += w->at.x;
    r.y += w->at.y;
    if (!w->in->read(w->in->cookie, r, dst))
        return false;
    for (size_t i = 0; w->stretched && i < (size_t)r.w * (size_t)r.h; i++, dst += 3)
        for (int c = 0; c < 3; c++)
            dst[c] = zn_clean(w->gain[c] * dst[c] + w->add[c]);
    return true;
}

static bool write_plane(void *cookie, zn_rect r, const float *src)
{
    const zn_plane *p = cookie;

    for (int y = r.y; y < r.y + r.h; y++, src += (size_t)r.w * 3)
        memcpy(p->rgb + ((size_t)(y - p->at.y) * (size_t)p->at.w + (size_t)(r.x - p->at.x)) * 3, src,
               (size_t)r.w * 3 * sizeof *src);
    return true;
}

/* Whether the denoiser has nothing to remove. */
static bool is_clean(const work *k)
{
    return k->plan->mapped && k->result->noise.clean == 1;
}

/* The share of `noise` and `least` that is told after a denoiser: a picture with little noise is hardly changed by it. */
static double share_told(const work *k)
{
    const double noisy = 4; /* of 255: from there on all of it */
    const float *m = k->result->noise.median;

    if (!k->plan->how.first || !k->plan->mapped)
        return 1;
    return is_clean(k) ? 0 : fmin(fmaxf(m[0], fmaxf(m[1], m[2])) / noisy, 1);
}

/* A setting, or what was found. */
static double told(const work *k, int i)
{
    const zn_enhance *how = &k->plan->how;
    const zn_faults *d = &k->result->damage;
    const char *key = how->set[i].key;
    const bool noise = !strcmp(key, "noise");
    const double share = share_told(k), least = share * how->least[i], value = how->set[i].value * (noise ? share : 1);
    float found;

    if (!how->found[i] || value != 0)
        return value;
    found = noise ? d->noise : !strcmp(key, "artefacts") ? d->artefacts : d->blur;
    return least > 0 ? fmax(least, (double)found) : (double)found; /* -1: there is none */
}

/* The rows of a plane; what a network sees is in 0..1. */
static bool read_plane(void *cookie, zn_rect r, float *dst)
{
    const zn_plane *p = cookie;

    for (int y = r.y; y < r.y + r.h; y++) {
        const float *src = p->rgb + ((size_t)(y - p->at.y) * (size_t)p->at.w + (size_t)(r.x - p->at.x)) * 3;

        for (int i = 0; i < 3 * r.w; i++)
            *dst++ = zn_clean(src[i]);
    }
    return true;
}

static bool on_first(void *cookie, double done)
{
    (void)done;
    return on_progress(cookie, 0);
}

/* Gives back some of the lightness that was removed. */
static zn_status leave_grain(zn_plane *made, work *k)
{
    const float grain = (float)k->plan->how.grain;
    const size_t n = (size_t)made->at.w * (size_t)made->at.h;
    float *was = grain > 0 ? malloc(n * 3 * sizeof *was) : NULL;
    zn_status s = ZN_OK;

    if (grain > 0 && !was)
        s = zn_fail(k->err, ZN_E_MEMORY, "out of memory");
    else if (grain > 0 && !k->in->read(k->in->cookie, made->at, was))
        s = zn_fail(k->err, ZN_E_FILE, "the picture could not be read");
    for (size_t i = 0; !s && was && i < n; i++) {
        const float back = grain * (zn_luma(was + 3 * i) - zn_luma(made->rgb + 3 * i));

        for (int c = 0; c < 3; c++)
            made->rgb[3 * i + (size_t)c] += back;
    }
    free(was);
    return s;
}

/* The noise of the picture that was measured, to a network that sees a part of it. */
static void tell_noise(zn_job *job, const zn_enhance_result *result, const window *from)
{
    job->noise = &result->noise;
    job->cells = result->cells;
    job->cells_x = from->at.x;
    job->cells_y = from->at.y;
}

/* What the denoiser that comes first makes of a part, cut on its lattice as below. */
static zn_status make_first(float *made, work *k, zn_rect part)
{
    const zn_grid *g = &k->plan->first;
    const int x = part.x / g->lattice * g->lattice, y = part.y / g->lattice * g->lattice;
    const zn_rect whole = { x, y, part.x + part.w - x, part.y + part.h - y };
    window from = { .in = k->in,
                    .at = zn_rect_meet(zn_rect_widen(whole, zn_round_up(g->halo, g->lattice)),
                                       (zn_rect){ 0, 0, g->w, g->h }) };
    const zn_source source = { from.at.w, from.at.h, 3, read_window, &from };
    zn_plane plane = { { part.x - from.at.x, part.y - from.at.y, part.w, part.h }, made };
    const zn_sink sink = { write_plane, &plane };
    zn_value set[2];
    zn_job job = first_job(&k->plan->how, set);
    zn_status s;

    job.tile = zn_imax(plane.at.x + part.w, plane.at.y + part.h);
    job.progress = on_first;
    job.cookie = k;
    if (k->plan->how.sigma == 0)
        tell_noise(&job, k->result, &from);
    s = zn_use_run_region(k->first, &sink, &source, plane.at, &job, &k->result->note, k->err);
    if (!s)
        zn_makers_add(&k->result->computed_by, k->first);
    return s;
}

/* Runs the network on a part of what `from` shows. */
static zn_status run_part(float *made, work *k, window *from, zn_rect part)
{
    const zn_grid *g = &k->plan->grid;
    const zn_source source = { from->at.w, from->at.h, 3, read_window, from };
    zn_plane plane = { .rgb = made };
    const zn_sink sink = { write_plane, &plane };
    zn_value set[ZN_MAX_SETTINGS];
    zn_job job = { .set = set, .n_set = k->plan->how.n_set, .tile = g->tile, .progress = on_progress, .cookie = k };
    zn_status s;

    if (k->plan->how.seeks_noise)
        tell_noise(&job, k->result, from);
    stretch(from, k->plan->how.fading, &k->result->damage);
    for (int i = 0; i < job.n_set; i++)
        set[i] = (zn_value){ k->plan->how.set[i].key, told(k, i) };
    part.x -= from->at.x;
    part.y -= from->at.y;
    if (from->at.w != g->w || from->at.h != g->h)
        job.tile = zn_imax(part.x + part.w, part.y + part.h);
    plane.at = zn_grid_result(g, part);
    s = zn_use_run_region(k->use, &sink, &source, plane.at, &job, &k->result->note, k->err);
    if (!s)
        zn_makers_add(&k->result->computed_by, k->use);
    return s;
}

/* What the network makes of a part of the picture.
 *
 * A part that crosses a line of the tiles' lattice would be computed in several tiles.  Instead the network gets the part and what
 * lies up to a halo around it as a picture of its own, cut on the engine's lattice: neither sees the difference. */
static zn_status make_part(float *made, work *k, zn_rect part)
{
    const zn_grid *g = &k->plan->grid;
    const zn_rect all = { 0, 0, g->w, g->h };
    const zn_rect around = zn_rect_meet(zn_rect_widen(part, zn_round_up(g->halo - k->plan->first.halo, g->cell)), all);
    const bool clean = is_clean(k);
    window from = { .in = k->in, .at = zn_grid_crosses(g, part) ? around : all };
    zn_plane seen = { .at = around };
    const zn_source instead = { g->w, g->h, 3, read_plane, &seen };
    zn_status s = ZN_OK;

    k->result->ran = true;
    if (clean && !k->plan->how.first)
        return k->in->read(k->in->cookie, part, made) ? ZN_OK
                                                      : zn_fail(k->err, ZN_E_FILE, "the picture could not be read");
    if (k->first && !clean) {
        seen.rgb = malloc((size_t)around.w * (size_t)around.h * 3 * sizeof *seen.rgb);
        s = seen.rgb ? make_first(seen.rgb, k, around) : zn_fail(k->err, ZN_E_MEMORY, "out of memory");
        if (!s)
            s = leave_grain(&seen, k);
        from = (window){ .in = &instead, .at = around };
    }
    if (!s)
        s = run_part(made, k, &from, part);
    free(seen.rgb);
    return s;
}

static const zn_watcher *watch_or_none(const zn_watcher *watch)
{
    static const zn_watcher nobody;

    return watch ? watch : &nobody;
}

zn_status zn_enhance_make(float *made, zn_enhance_result *result, const zn_enhance_plan *p, const zn_source *in,
                          zn_rect part, const zn_watcher *watch, zn_error *err)
{
    work k = { .plan = p, .result = result, .in = in, .watch = watch_or_none(watch), .err = err, .span = 1 };
    zn_task_turn turn;
    zn_status s = open_network(&k.use, p, &k, err);

    if (!s)
        s = open_first(&k.first, p, &k, err);
    if (!s && !(s = zn_task_begin(&turn, p->session, err))) {
        s = make_part(made, &k, part);
        zn_task_end(&turn);
    }
    zn_use_end(&k.first);
    zn_use_end(&k.use);
    return s;
}

/* ---- run ----------------------------------------------------------------------------------------------------------- */

typedef struct run {
    work work;           /* its picture is `seen` */
    const zn_source *in; /* as it is: what is beyond 0..1 is kept */
    const zn_sink *out;
    zn_rect roi;     /* of the result */
    zn_rect need;    /* of the picture */
    zn_plane change; /* of the rows that are computed, but not written yet, and those around them */
    int32_t ready;   /* rows of the result from here on are not computed yet, */
    int32_t done;    /* ... not written yet */
    int n_parts, part;
} run;

static zn_status no_memory(zn_error *err)
{
    return zn_fail(err, ZN_E_MEMORY, "out of memory");
}

/* The cells of a part through the form in which they are kept. */
static zn_status take_cells(run *r, zn_rect part, float *made)
{
    const zn_grid *g = &r->work.plan->grid;
    const zn_plane from = { zn_grid_result(g, part), made };
    void *kept = malloc(zn_cell_size(g, (zn_rect){ 0, 0, g->cell, g->cell }));
    zn_status s = kept ? ZN_OK : no_memory(r->work.err);

    for (int y = part.y; !s && y < part.y + part.h; y += g->cell)
        for (int x = part.x; !s && x < part.x + part.w; x += g->cell) {
            const zn_rect cell = zn_grid_cell(g, x, y);

            if (zn_cell_pack(kept, g, cell, &from, r->work.in))
                zn_cell_unpack(&r->change, g, cell, kept);
            else
                s = zn_fail(r->work.err, ZN_E_FILE, "the picture could not be read");
        }
    free(kept);
    return s;
}

/* What is needed of the tile at x, y of the picture, in whole cells. */
static zn_rect part_at(const run *r, int x, int y)
{
    const zn_grid *g = &r->work.plan->grid;
    const zn_rect tile = { x / g->tile * g->tile, y / g->tile * g->tile, g->tile, g->tile };
    const zn_rect both = zn_rect_meet(tile, r->need);
    const int x0 = both.x / g->cell * g->cell, y0 = both.y / g->cell * g->cell;

    return zn_rect_meet(
        (zn_rect){ x0, y0, zn_round_up(both.x + both.w, g->cell) - x0, zn_round_up(both.y + both.h, g->cell) - y0 },
        (zn_rect){ 0, 0, g->w, g->h });
}

static int next_tile(const run *r, int at)
{
    const int tile = r->work.plan->grid.tile;

    return (at / tile + 1) * tile;
}

/* The change of a row of tiles. */
static zn_status make_band(run *r, int y)
{
    const int right = r->need.x + r->need.w;
    zn_status s = ZN_OK;

    for (int x = r->need.x; !s && x < right; x = next_tile(r, x)) {
        const zn_rect part = part_at(r, x, y), large = zn_grid_result(&r->work.plan->grid, part);
        float *made = malloc((size_t)large.w * (size_t)large.h * 3 * sizeof *made);

        r->work.start = (double)r->part++ / r->n_parts;
        s = made ? make_part(made, &r->work, part) : no_memory(r->work.err);
        if (!s)
            s = take_cells(r, part, made);
        free(made);
    }
    return s;
}

/* What a network sees and what is measured of a picture that may hold any value. */
static bool read_seen(void *cookie, zn_rect r, float *dst)
{
    const zn_source *in = cookie;

    if (!in->read(in->cookie, r, dst))
        return false;
    for (size_t i = 0; i < (size_t)r.w * (size_t)r.h * 3; i++)
        dst[i] = zn_clean(dst[i]);
    return true;
}

/* A strip of a result that is larger, from the part of the picture that it lies on. */
static bool enlarge(float **pixels, const run *r, zn_rect strip, zn_rect all)
{
    const size_t len = (size_t)all.w * (size_t)all.h * 3;
    float *large = malloc((size_t)strip.w * (size_t)strip.h * 3 * sizeof *large);
    float *seen = malloc(len * sizeof *seen);
    const bool ok = large && seen;

    if (ok) {
        zn_enlarge_see(seen, all, *pixels, all, 3);
        zn_enhance_enlarge(large, &r->work.plan->grid, strip, all, *pixels, 3, seen, &r->change);
    }
    free(seen);
    free(ok ? *pixels : large);
    *pixels = ok ? large : *pixels;
    return ok;
}

static bool blend(float **pixels, const run *r, zn_rect strip, zn_rect all)
{
    if (!zn_enhance_blend(r->work.plan, strip, all, *pixels, 3, &r->change))
        return false;
    for (int y = 0; y < strip.h; y++) { /* without the columns around the strip */
        const float *from = *pixels + ((size_t)(strip.y + y - all.y) * (size_t)all.w + (size_t)(strip.x - all.x)) * 3;

        memmove(*pixels + (size_t)y * (size_t)strip.w * 3, from, (size_t)strip.w * 3 * sizeof *from);
    }
    return true;
}

static zn_status write_rows(run *r, zn_rect strip)
{
    const zn_enhance_plan *p = r->work.plan;
    const bool larger = p->grid.scale > 1;
    const zn_rect all =
        zn_rect_meet(zn_rect_widen(zn_grid_source(&p->grid, strip), larger ? ZN_ENLARGE_REACH : p->reach),
                     (zn_rect){ 0, 0, p->grid.w, p->grid.h });
    float *pixels = malloc((size_t)all.w * (size_t)all.h * 3 * sizeof *pixels);
    zn_status s = ZN_OK;

    if (!pixels)
        return no_memory(r->work.err);
    if (!r->in->read(r->in->cookie, all, pixels))
        s = zn_fail(r->work.err, ZN_E_FILE, "the picture could not be read");
    else if (!(larger ? enlarge : blend)(&pixels, r, strip, all))
        s = no_memory(r->work.err);
    if (!s && !r->out->write(r->out->cookie, strip, pixels))
        s = zn_fail(r->work.err, ZN_E_FILE, "the result could not be written");
    free(pixels);
    return s;
}

/* Writes what has all that it needs around it, and keeps what the next rows need. */
static zn_status write_band(run *r)
{
    const zn_enhance_plan *p = r->work.plan;
    const int end = r->roi.y + r->roi.h;
    const zn_rect strip = { r->roi.x, r->done, r->roi.w,
                            (r->ready < p->h ? zn_imin(r->ready - p->reach, end) : end) - r->done };
    const size_t row = (size_t)r->change.at.w * 3;
    zn_status s;
    int first;

    if (strip.h <= 0)
        return ZN_OK;
    if ((s = write_rows(r, strip)))
        return s;
    r->done += strip.h;
    first = zn_imax(r->done - p->reach, r->change.at.y);
    memmove(r->change.rgb, r->change.rgb + (size_t)(first - r->change.at.y) * row,
            (size_t)(r->ready - first) * row * sizeof *r->change.rgb);
    r->change.at.y = first;
    return ZN_OK;
}

static zn_status run_bands(run *r)
{
    const zn_grid *g = &r->work.plan->grid;
    const int bottom = r->need.y + r->need.h;
    zn_status s = ZN_OK;

    r->change.at = zn_grid_result(g, r->need);
    r->change.at.h = zn_imin(r->change.at.h, g->tile * g->scale + 2 * r->work.plan->reach);
    r->change.rgb = malloc((size_t)r->change.at.w * (size_t)r->change.at.h * 3 * sizeof *r->change.rgb);
    if (!r->change.rgb)
        return no_memory(r->work.err);
    for (int y = r->need.y; y < bottom; y = next_tile(r, y))
        for (int x = r->need.x; x < r->need.x + r->need.w; x = next_tile(r, x))
            r->n_parts++;
    r->work.span = 1.0 / r->n_parts;
    r->done = r->roi.y;
    for (int y = r->need.y; !s && y < bottom; y = next_tile(r, y)) {
        s = make_band(r, y);
        r->ready = zn_imin(next_tile(r, y), bottom) * g->scale;
        if (!s)
            s = write_band(r);
    }
    free(r->change.rgb);
    return s;
}

static zn_status run_task(run *r)
{
    const zn_enhance_plan *p = r->work.plan;
    zn_status s = ZN_OK;

    if (p->measured)
        s = measure(r->work.result, p, r->work.use, r->work.first, r->work.in, r->work.err);
    return s ? s : run_bands(r);
}

zn_status zn_enhance_run(zn_enhance_result *result, const zn_enhance_plan *p, const zn_sink *out, const zn_source *in,
                         zn_rect roi, const zn_watcher *watch, zn_error *err)
{
    const zn_source seen = { in->w, in->h, 3, read_seen, (void *)in };
    run r = { .work = { .plan = p, .result = result, .in = &seen, .watch = watch_or_none(watch), .err = err },
              .in = in,
              .out = out,
              .roi = roi,
              .need = zn_grid_source(&p->grid, zn_rect_widen(roi, p->reach)) };
    zn_task_turn turn;
    zn_status s;

    *result = (zn_enhance_result){ .computed_by = { "" } };
    if (err)
        err->text[0] = 0;
    if (p->nothing || in->c != 3 || in->w != p->grid.w || in->h != p->grid.h || roi.w < 1 || roi.h < 1 || roi.x < 0 ||
        roi.y < 0 || roi.x > p->w - roi.w || roi.y > p->h - roi.h)
        return zn_fail(err, ZN_E_USAGE, "this is not what was planned");
    s = open_network(&r.work.use, p, &r.work, err);
    if (!s)
        s = open_first(&r.work.first, p, &r.work, err);
    if (!s && !(s = zn_task_begin(&turn, p->session, err))) {
        s = run_task(&r);
        zn_task_end(&turn);
    }
    zn_enhance_forget(result);
    zn_use_end(&r.work.first);
    zn_use_end(&r.work.use);
    return s;
}
