/* SPDX-License-Identifier: MIT */
/* level.c - see level.h. */
#include "level.h"

#include "../core/ints.h"
#include "../core/order.h"
#include "clean.h"
#include "memory.h"
#include "request.h"
#include "sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Cells are about as bright as a bin if they lie within WIDTH of its centre: the standard deviation of their weight.  Of them the
 * QUANTILE of levels, times FACTOR, is the least that others get; where they are fewer than ENOUGH, nothing is known. */
static const float WIDTH = 0.75f / ZN_NOISE_BINS, QUANTILE = 0.5f, FACTOR = 1.15f, ENOUGH = 8;

static const float NOTHING = -104; /* expf() of less is 0 */

/* The network may underestimate noise by a factor of RATIO, and does not distinguish levels below SEEN. A place with
 * even less noise than that is clean: a part that was pasted, or denoised before. */
static const float RATIO = 4, SEEN = 0.8f;

/* A number h of the network is a level of sqrt((SCALE h)^2 + LEAST^2), of 255, at most MOST: never 0, and smooth. */
static const float SCALE = 16, LEAST = 0.35f, MOST = 255;

static float level_of(float h)
{
    const float v = SCALE * h;

    return v * v < MOST * MOST ? sqrtf(v * v + LEAST * LEAST) : isnan(v) ? LEAST : MOST;
}

/* ---- statistics of cells -------------------------------------------------------------------------------- */

/* Whether the cell is taken into account: a picture may hold infinities and NaN. */
static bool counts(const zn_cell *c)
{
    return !c->plain && isfinite(c->bright);
}

/* 0 is what expf() would give: most bins are far from most cells. */
static float weight_in(int bin, float bright)
{
    const float d = (bright - ((float)bin + 0.5f) / ZN_NOISE_BINS) / WIDTH, power = -d * d / 2;

    return power < NOTHING ? 0 : expf(power);
}

/* n cells that count, sorted by level; beside each its weights in all bins, once they are known. */
typedef struct sorted {
    float *level, *bright, (*weight)[ZN_NOISE_BINS];
    size_t n;
} sorted;

/* For each bin the QUANTILE of those that are about as bright; 0: there are too few.  Sums of all bins grow at a time. */
static void level_in_bins(float level[ZN_NOISE_BINS], const sorted *c)
{
    double all[ZN_NOISE_BINS] = { 0 }, sum[ZN_NOISE_BINS] = { 0 };
    int below[ZN_NOISE_BINS] = { 0 }; /* cells */

    for (size_t i = 0; i < c->n; i++) {
        for (int bin = 0; bin < ZN_NOISE_BINS; bin++)
            c->weight[i][bin] = weight_in(bin, c->bright[i]);
        for (int bin = 0; bin < ZN_NOISE_BINS; bin++)
            all[bin] += (double)c->weight[i][bin];
    }
    for (size_t i = 0; i + 1 < c->n; i++)
        for (int bin = 0; bin < ZN_NOISE_BINS; bin++) {
            sum[bin] += (double)c->weight[i][bin];
            below[bin] += sum[bin] < (double)QUANTILE * all[bin] ? 1 : 0;
        }
    for (int bin = 0; bin < ZN_NOISE_BINS; bin++)
        level[bin] = all[bin] > (double)ENOUGH ? c->level[below[bin]] : 0;
}

float zn_noise_least(const float least[ZN_NOISE_BINS], float bright)
{
    const float p = bright * ZN_NOISE_BINS - 0.5f;
    int i;

    if (!(p > 0)) /* or not a number */
        return least[0];
    if (p >= ZN_NOISE_BINS - 1)
        return least[ZN_NOISE_BINS - 1];
    i = (int)p;
    return least[i] + (p - (float)i) * (least[i + 1] - least[i]);
}

float zn_noise_told(const float least[ZN_NOISE_BINS], const zn_cell *c)
{
    const float most = fminf(RATIO * fmaxf(c->level, SEEN), MOST);

    return fmaxf(c->level, fminf(zn_noise_least(least, c->bright), most));
}

/* Of one channel; place and room are for n numbers. */
static void sort_cells(sorted *to, const zn_cell *cells, size_t n, uint32_t *place, uint32_t *room)
{
    float *const as_they_are = to->weight[0];

    to->n = 0;
    for (size_t i = 0; i < n; i++)
        if (counts(&cells[3 * i]))
            as_they_are[to->n++] = cells[3 * i].level;
    zn_order(place, room, as_they_are, to->n);
    for (size_t i = 0; i < to->n; i++)
        to->level[i] = as_they_are[place[i]];
    to->n = 0;
    for (size_t i = 0; i < n; i++)
        if (counts(&cells[3 * i]))
            as_they_are[to->n++] = cells[3 * i].bright;
    for (size_t i = 0; i < to->n; i++)
        to->bright[i] = as_they_are[place[i]];
}

bool zn_noise_of(zn_noise_table *out, const zn_cell *cells, size_t n)
{
    const size_t len = n ? n : 1;
    float *const each = malloc(2 * len * sizeof *each), (*const weight)[ZN_NOISE_BINS] = malloc(len * sizeof *weight);
    uint32_t *const place = malloc(2 * len * sizeof *place);
    const bool ok = each && weight && place;

    memset(out, 0, sizeof *out);
    for (size_t c = 0; ok && c < 3; c++) {
        sorted s = { each, each + n, weight, 0 };

        sort_cells(&s, cells + c, n, place, place + n);
        level_in_bins(out->least[c], &s);
        for (int i = 0; i < ZN_NOISE_BINS; i++)
            out->least[c][i] *= FACTOR;
        for (size_t i = 0; i < n; i++)
            s.level[i] = cells[3 * i + c].level;
        out->median[c] = n ? zn_nth(s.level, n, n / 2) : 0;
    }
    free(each);
    free(weight);
    free(place);
    return ok;
}

/* ---- measuring ------------------------------------------------------------------------------------------ */

/* Other networks' channels are dropped. */
static bool write_levels(void *cookie, zn_rect r, const float *src)
{
    const zn_levels *l = cookie;

    for (int y = 0; y < r.h; y++) {
        zn_cell *dst = l->cell + ((size_t)(r.y + y - l->at.y) * (size_t)l->at.w + (size_t)(r.x - l->at.x)) * 3;

        for (int x = 0; x < r.w; x++, src += l->c)
            for (int i = 0; i < 3; i++)
                dst++->level = level_of(src[l->first + i]);
    }
    return true;
}

/* Whether w x h pixels equal the first one, in one of three channels; row: floats from one row to the next. */
static bool is_plain(const float *first, size_t row, int w, int h)
{
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            if (!(first[(size_t)y * row + (size_t)x * 3] == *first)) /* or not a number */
                return false;
    return true;
}

/* One row of cells from its pixels, r of the picture.  Many sums grow at a time, each in the order of its pixels. */
static void look_at_row(zn_cell *dst, const float *src, size_t row, zn_rect r, int step)
{
    const int n = zn_ceil_div(r.w, step);

    for (int i = 0; i < 3 * n; i++)
        dst[i].bright = 0;
    for (int y = 0; y < r.h; y++)
        for (int i = 0; i < n; i++) {
            const float *v = src + (size_t)y * row + (size_t)(i * step) * 3;
            zn_cell *cell = dst + 3 * (size_t)i;
            float sum[3] = { cell[0].bright, cell[1].bright, cell[2].bright };

            for (int x = zn_imin(step, r.w - i * step); x > 0; x--, v += 3)
                for (int c = 0; c < 3; c++)
                    sum[c] += v[c];
            for (int c = 0; c < 3; c++)
                cell[c].bright = sum[c];
        }
    for (int i = 0; i < n; i++)
        for (int c = 0; c < 3; c++) {
            const int w = zn_imin(step, r.w - i * step);

            dst[3 * i + c].bright /= (float)(r.h * w);
            dst[3 * i + c].plain = is_plain(src + (size_t)(i * step) * 3 + c, row, w, r.h);
        }
}

/* How bright the cells are. */
static zn_status look_at_cells(const zn_levels *l, zn_error *err)
{
    const zn_source *p = &l->picture;
    const float *const held = zn_memory_of(p);
    zn_rect r = { l->at.x * l->step, 0, 0, 0 };
    float *rows = NULL;
    zn_status s = ZN_OK;

    r.w = zn_imin(l->at.w * l->step, p->w - r.x);
    if (!held && !(rows = malloc((size_t)r.w * (size_t)l->step * 3 * sizeof *rows)))
        return zn_fail(err, ZN_E_MEMORY, "out of memory while measuring the noise");
    for (int y = 0; !s && y < l->at.h; y++) {
        zn_cell *const to = l->cell + (size_t)y * (size_t)l->at.w * 3;

        r.y = (l->at.y + y) * l->step;
        r.h = zn_imin(l->step, p->h - r.y);
        if (held)
            look_at_row(to, held + ((size_t)r.y * (size_t)p->w + (size_t)r.x) * 3, (size_t)p->w * 3, r, l->step);
        else if (p->read(p->cookie, r, rows))
            look_at_row(to, rows, (size_t)r.w * 3, r, l->step);
        else
            s = zn_fail(err, ZN_E_FILE, "the picture could not be read");
    }
    free(rows);
    return s;
}

/* The levels are a small part of the work: only cancellation is passed on. */
static bool only_cancel(void *cookie, double done)
{
    const zn_job *job = cookie;

    (void)done;
    return job->progress(job->cookie, 0);
}

/* The cells that the map of a region lies between: in each direction a pixel has two, its own and a neighbour. */
static zn_rect cells_of(const zn_source *picture, zn_rect region, int step)
{
    const int x0 = zn_imax(region.x / step - 1, 0), y0 = zn_imax(region.y / step - 1, 0);
    const int x1 = zn_imin(zn_ceil_div(region.x + region.w, step) + 1, zn_ceil_div(picture->w, step));
    const int y1 = zn_imin(zn_ceil_div(region.y + region.h, step) + 1, zn_ceil_div(picture->h, step));

    return (zn_rect){ x0, y0, x1 - x0, y1 - y0 };
}

static bool new_cells(zn_levels *out, const zn_model *m, const zn_source *picture, zn_rect region)
{
    const zn_geometry *g = &m->level->geometry;

    *out = (zn_levels){ .picture = *picture, .step = g->shrink, .first = m->arch->noise->first, .c = g->out_c };
    out->at = cells_of(picture, region, g->shrink);
    out->cell = calloc((size_t)out->at.w * (size_t)out->at.h, 3 * sizeof *out->cell);
    return out->cell != NULL;
}

/* The cells of a region, as the network sees them. */
static zn_status measure_cells(zn_levels *out, zn_model *m, const zn_source *picture, zn_rect region, const zn_job *job,
                               zn_error *err)
{
    const zn_sink sink = { write_levels, out };
    const zn_job mine = { .max_memory = job ? job->max_memory : 0,
                          .progress = job && job->progress ? only_cancel : NULL,
                          .cookie = (void *)job };
    zn_request q = { .sources = picture, .n_in = 1, .sink = &sink, .job = &mine };
    zn_status s;

    if (!new_cells(out, m, picture, region))
        return zn_fail(err, ZN_E_MEMORY, "out of memory while measuring the noise");
    q.roi = out->at;
    if ((s = zn_request_run(m->level, &q, err)) || (s = look_at_cells(out, err)))
        zn_levels_free(out);
    return s;
}

static size_t n_cells(const zn_levels *l)
{
    return (size_t)l->at.w * (size_t)l->at.h;
}

/* Whether the input of a job is cut out of the kept picture along its cells. */
static bool is_cut_along(const zn_levels *kept, const zn_levels *out, const zn_job *job)
{
    const zn_source *all = &kept->picture, *part = &out->picture;
    const int step = kept->step, x = job->cells_x, y = job->cells_y;

    return kept->step == out->step && kept->first == out->first && kept->c == out->c && x >= 0 && y >= 0 &&
        x % step == 0 && y % step == 0 && x <= all->w - part->w && y <= all->h - part->h &&
        (part->w % step == 0 || x + part->w == all->w) && (part->h % step == 0 || y + part->h == all->h);
}

/* Copies the cells of a region from those that the job has of the whole picture.  Beside a cut they may differ from what would be
 * measured: there no pixel of a result depends on them. */
static bool take_cells(zn_levels *out, const zn_model *m, const zn_source *picture, zn_rect region, const zn_job *job)
{
    const zn_levels *kept = job && job->noise ? job->cells : NULL;

    if (!kept || !new_cells(out, m, picture, region))
        return false;
    if (!is_cut_along(kept, out, job)) {
        zn_levels_free(out);
        return false;
    }
    for (int y = 0; y < out->at.h; y++)
        memcpy(out->cell + (size_t)y * (size_t)out->at.w * 3,
               kept->cell +
                   ((size_t)(job->cells_y / kept->step + out->at.y + y) * (size_t)kept->at.w +
                    (size_t)(job->cells_x / kept->step + out->at.x)) *
                       3,
               (size_t)out->at.w * 3 * sizeof *out->cell);
    return true;
}

/* The statistics of the picture from the n cells of its sample. */
static zn_status conclude(zn_noise_table *out, const zn_source *in, const zn_sample *from, const zn_cell *cells,
                          size_t n, zn_engine *e, zn_error *err)
{
    zn_signs signs = { 0 };
    zn_status s;

    if (!zn_noise_of(out, cells, n) || !zn_signs_calm(&signs, cells, n))
        s = zn_fail(err, ZN_E_MEMORY, "out of memory while measuring the noise");
    else
        s = zn_signs_look(&signs, in, from->square, from->n, from->nx, e, err);
    if (s) {
        memset(out, 0, sizeof *out);
        return s;
    }
    out->clean = zn_signs_clean(&signs);
    out->more = zn_signs_more(&signs);
    for (int c = 0; c < 3; c++)
        out->median[c] *= (1 - out->clean) * (1 + out->more);
    return ZN_OK;
}

/* A picture that is looked at as a whole is read once, if there is memory for it; free what it returns. */
static float *hold(zn_source *held, zn_memory *mem, const zn_source *in)
{
    const size_t len = (size_t)in->w * (size_t)in->h * (size_t)in->c;
    float *all = NULL;

    *held = *in;
    if (zn_sample_of(in).n > 1 || zn_memory_of(in) || !(all = malloc(len * sizeof *all)))
        return NULL;
    if (in->read(in->cookie, (zn_rect){ 0, 0, in->w, in->h }, all)) {
        *mem = (zn_memory){ all, in->w, in->c };
        held->read = zn_memory_read;
        held->cookie = mem;
    }
    return all;
}

/* Of a picture that is looked at as a whole the cells are kept, or freed if kept is NULL. */
static zn_status measure_whole(zn_noise_table *out, zn_levels *kept, zn_model *m, const zn_source *in,
                               const zn_sample *from, const zn_job *job, zn_error *err)
{
    zn_levels l;
    zn_status s = measure_cells(&l, m, in, from->square[0], job, err);

    if (s)
        return s;
    s = conclude(out, in, from, l.cell, n_cells(&l), m->engine, err);
    if (s || !kept)
        zn_levels_free(&l);
    else
        *kept = l;
    return s;
}

static zn_status measure_sample(zn_noise_table *out, zn_levels *kept, zn_model *m, const zn_source *in,
                                const zn_job *job, zn_error *err)
{
    const zn_sample from = zn_sample_of(in);
    zn_cell *all = NULL;
    size_t n = 0;
    zn_status s = ZN_OK;

    if (from.n == 1)
        return measure_whole(out, kept, m, in, &from, job, err);
    for (int k = 0; !s && k < from.n; k++) {
        zn_levels l;
        zn_cell *more;

        if ((s = measure_cells(&l, m, in, from.square[k], job, err)))
            break;
        more = realloc(all, (n + n_cells(&l)) * 3 * sizeof *more);
        if (more) {
            all = more;
            memcpy(all + 3 * n, l.cell, n_cells(&l) * 3 * sizeof *all);
            n += n_cells(&l);
        } else {
            s = zn_fail(err, ZN_E_MEMORY, "out of memory while measuring the noise");
        }
        zn_levels_free(&l);
    }
    if (!s)
        s = conclude(out, in, &from, all, n, m->engine, err);
    free(all);
    return s;
}

static zn_status measure_levels(zn_levels *out, zn_model *m, const zn_source *picture, zn_rect region, float scale,
                                const zn_job *job, zn_error *err)
{
    const zn_sample all = zn_sample_of(picture);
    zn_noise_table noise;
    zn_status s = ZN_OK;

    if (!take_cells(out, m, picture, region, job) && (s = measure_cells(out, m, picture, region, job, err)))
        return s;
    if (job && job->noise)
        noise = *job->noise;
    else if (all.n > 1 || out->at.w < zn_ceil_div(picture->w, out->step) ||
             out->at.h < zn_ceil_div(picture->h, out->step))
        s = measure_sample(&noise, NULL, m, picture, job, err);
    else
        s = conclude(&noise, picture, &all, out->cell, n_cells(out), m->engine, err);
    if (s) {
        zn_levels_free(out);
        return s;
    }
    for (size_t i = 0; i < 3 * n_cells(out); i++) {
        zn_cell *c = &out->cell[i];

        c->level =
            fmaxf(zn_noise_told(noise.least[i % 3], c) * (1 - noise.clean) * (1 + noise.more), LEAST) * scale / 255;
    }
    return ZN_OK;
}

zn_status zn_levels_measure(zn_levels *out, zn_model *m, const zn_source *picture, zn_rect region, float scale,
                            const zn_job *job, zn_error *err)
{
    zn_source held = *picture;
    zn_memory mem;
    float *const all = job && job->noise ? NULL : hold(&held, &mem, picture);
    const zn_status s = measure_levels(out, m, &held, region, scale, job, err);

    out->picture = *picture;
    free(all);
    return s;
}

void zn_levels_free(zn_levels *l)
{
    free(l->cell);
    l->cell = NULL;
}

/* ---- the map -------------------------------------------------------------------------------------------- */

/* Between which two of n levels, from `from` on, pixel i lies, and how near to the second.  Centres are at .5 of their cells; beyond
 * the first and the last centre of the picture the level is constant. */
static float between(int i, int step, int from, int n, int *a, int *b)
{
    float p = ((float)i + 0.5f) / (float)step - 0.5f;
    int k = (int)floorf(p);

    *a = zn_imin(zn_imax(k - from, 0), n - 1);
    *b = zn_imin(zn_imax(k + 1 - from, 0), n - 1);
    return p - (float)k;
}

static bool read_map(void *cookie, zn_rect r, float *dst)
{
    const zn_levels *l = cookie;

    for (int y = 0; y < r.h; y++) {
        int top, bottom;
        const float down = between(r.y + y, l->step, l->at.y, l->at.h, &top, &bottom);
        const zn_cell *above = l->cell + (size_t)top * (size_t)l->at.w * 3;
        const zn_cell *below = l->cell + (size_t)bottom * (size_t)l->at.w * 3;

        for (int x = 0; x < r.w; x++) {
            int a, b;
            const float right = between(r.x + x, l->step, l->at.x, l->at.w, &a, &b);

            for (int i = 0; i < 3; i++) {
                const float p = above[3 * a + i].level + right * (above[3 * b + i].level - above[3 * a + i].level);
                const float q = below[3 * a + i].level + right * (below[3 * b + i].level - below[3 * a + i].level);

                *dst++ = p + down * (q - p);
            }
        }
    }
    return true;
}

zn_source zn_levels_source(const zn_levels *l)
{
    return (zn_source){ l->picture.w, l->picture.h, 3, read_map, (void *)l };
}

/* ---- for front ends ------------------------------------------------------------------------------------- */

int32_t zn_model_level_reach(const zn_model *m)
{
    m = *m->failed.text ? m->stand_in : m;
    return m->level ? zn_round_up(m->level->geometry.halo + m->level->geometry.shrink, m->level->geometry.multiple) : 0;
}

zn_status zn_levels_keep(zn_levels *kept, zn_noise_table *noise, zn_model *m, const zn_source *in, zn_error *err)
{
    zn_source held;
    zn_memory mem;
    float *all;
    zn_status s;

    if (kept)
        kept->cell = NULL;
    memset(noise, 0, sizeof *noise);
    m = *m->failed.text ? m->stand_in : m;
    if (!m->level)
        return zn_noise_estimate(noise->median, in, err);
    all = hold(&held, &mem, in);
    s = measure_sample(noise, kept, m, &held, NULL, err);
    if (kept)
        kept->picture = (zn_source){ .w = in->w, .h = in->h, .c = in->c };
    free(all);
    return s;
}

zn_status zn_noise_levels(zn_noise_table *noise, zn_model *m, const zn_source *in, zn_error *err)
{
    return zn_levels_keep(NULL, noise, m, in, err);
}
